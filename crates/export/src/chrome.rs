//! Chrome trace JSON in the dialect of PyTorch's profiler (Kineto), one file for each process.
//!
//! Perfetto's UI, HolisticTraceAnalysis and TraceLens read it. Outermost ranges are user annotations,
//! and ranges in them are operators, as PyTorch's profiler has stages and operators. Perfetto's importer
//! drops work that overlaps other work of its row, as kernels of a CUDA graph do: overlapping work gets its own
//! rows, and keeps the number of its stream in `args`.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde_json::{Map, Value as Json, json};
use stage2_contract::text::visible;
use stage2_contract::trace::{RANGE_OUTSIDE, RANGE_UNKNOWN};
use stage2_model::HostFrame;
use stage2_read::trace::events::{Event, HostCall, Range, Span, Step, What, Work};

use crate::host::{Row, Slice, Slices, Stacks, StepRequests, step_numbers};
use crate::names::{json_number, json_object};
use crate::run::Process;
use crate::selection::{Holds, Selected};
use crate::{Counts, ExportError, names, output};

/// Added to the number of a stream for each further row of it: larger than the numbers of streams.
const NEXT_ROW: u64 = 1_000_000;

/// Added to the number of a thread for each further row of it: larger than the numbers of threads.
const THREAD_ROW: u64 = 10_000_000;

/// Ties work to its range. HolisticTraceAnalysis and TraceLens know it under this name.
const EXTERNAL_ID: &str = "External id";

pub(crate) fn write(
    selected: &Selected<'_>,
    out: &Path,
    counts: &mut Counts,
) -> Result<Vec<PathBuf>, ExportError> {
    let requests = &StepRequests::of(selected.run);
    match selected.run.processes() {
        [] => Ok(Vec::new()),
        [process] => {
            output::file(out, |file| document(selected, requests, (0, process), out, file, counts))
        }
        processes => output::folder(out, |folder| {
            let mut files = Vec::new();
            for (index, process) in processes.iter().enumerate() {
                let stem = process.file.name().trim_end_matches(".s2t").replace('/', "_");
                // A long name leaves no room for its ending.
                let stem: String = stem.chars().take(50).collect();
                let path = folder.join(format!("{index}-{stem}.json.gz"));
                files.extend(output::file(&path, |file| {
                    document(selected, requests, (index, process), &path, file, counts)
                })?);
            }
            Ok(files)
        }),
    }
}

/// Row of a piece of work before its lane is known: device and stream.
type Stream = (u32, u32);

/// A piece of work up to the number of its row, and its place.
type Piece = (String, Stream, usize);

struct Document<'a> {
    out: &'a mut dyn Write,
    path: &'a Path,
    base_ns: i64,
    pid: u32,
    lanes: Lanes<Stream, String>,
    /// Texts of pieces that were written, for the next ones.
    spare: Vec<String>,
    first: bool,
    /// Further rows of threads: their titles, and when the last event of each ended, ns.
    rows: BTreeMap<(Row, u32), (String, i64)>,
    stacks: Stacks,
}

fn document(
    selected: &Selected<'_>,
    requests: &StepRequests,
    (index, process): (usize, &Process),
    path: &Path,
    out: &mut dyn Write,
    counts: &mut Counts,
) -> Result<(), ExportError> {
    let base_ns = selected.start_ns();
    let mut document = Document {
        out,
        path,
        base_ns,
        pid: process.pid,
        lanes: Lanes::new(),
        spare: Vec::new(),
        first: true,
        rows: BTreeMap::new(),
        stacks: Stacks::default(),
    };
    document.head(selected, index, process)?;
    let mut threads = BTreeMap::new();
    let mut slices = Slices::default();
    selected.for_each(process, Holds::Timeline, counts, |event| match event {
        Event::Work(work) => document.work(&work),
        Event::Range(range) => {
            let thread = range.thread;
            threads.entry(thread.os_tid).or_insert_with(|| thread.name.to_owned());
            let event = range_event(&range, process.pid, base_ns);
            if range.start_end {
                document.async_range(event, &range)
            } else {
                document.event(&event)
            }
        }
        Event::Mark { at_ns, thread, name, payload } => document.event(&json!({
            "ph": "i", "s": "t", "cat": "user_annotation", "name": name, "pid": process.pid,
            "tid": thread.os_tid, "ts": micros(at_ns.saturating_sub(base_ns)),
            "args": {"payload": payload.map(json_number)},
        })),
        Event::Sample(sample) => {
            document.row(Row::Host, sample.thread.os_tid, &sample.thread.shown());
            slices.push(&sample).map_or(Ok(()), |slice| document.sampled(&slice))
        }
        Event::Call(call) => document.call(process, &call),
        Event::Step(step) => document.step(&step, &requests.of_step(selected.run, process, &step)),
        Event::Request { .. } => Ok(()),
    })?;
    slices.finish().try_for_each(|slice| document.sampled(&slice))?;
    document.tail(process, &threads)
}

impl Document<'_> {
    /// HolisticTraceAnalysis looks for `"rank": ` with a space, line by line from the top.
    fn head(
        &mut self,
        selected: &Selected<'_>,
        index: usize,
        process: &Process,
    ) -> Result<(), ExportError> {
        let run = selected.run;
        let rank = process.rank.unwrap_or(index as u64);
        let ranks = process.world_size.unwrap_or(run.processes().len() as u64);
        let device = |(id, of_run): (&u32, &u32)| {
            let gpu = run.gpus().get(*of_run as usize)?;
            let device = &gpu.device;
            Some(json!({
                "id": id,
                "name": visible(&device.name),
                "totalGlobalMem": device.memory_bytes,
                "computeMajor": device.compute_capability.0,
                "computeMinor": device.compute_capability.1,
                "numSms": device.multiprocessors,
            }))
        };
        let devices: Vec<Json> = process.gpus.iter().filter_map(device).collect();
        let missing = process.file.missing().join("; ");
        let coverage = if missing.is_empty() { "nothing lost" } else { &missing };
        let text = format!(
            "{{\n\"schemaVersion\": 1,\n\"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {rank}, \
             \"world_size\": {ranks}}},\n\"traceName\": {},\n\"coverage\": {},\n\"clocks\": {},\n\"hostName\": {},\n\
             \"deviceProperties\": {},\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": {},\n\
             \"traceEvents\": [",
            json!(run.name),
            json!(coverage),
            json!(run.clocks().unwrap_or("one host")),
            json!(process.host()),
            json!(devices),
            self.base_ns,
        );
        self.text(&text)
    }

    fn work(&mut self, work: &Work<'_>) -> Result<(), ExportError> {
        let Some(span) = work.span else { return Ok(()) };
        let mut text = self.spare.pop().unwrap_or_default();
        work_text(&mut text, work, span, self.base_ns);
        let stream = (work.queue.device, work.queue.stream);
        let earliest = self.lanes.add(stream, span.start_ns, span.end_ns, text);
        earliest.map_or(Ok(()), |piece| self.in_lane(piece))
    }

    /// Start/end ranges may overlap others of their thread, which no row can hold: they are
    /// asynchronous.
    fn async_range(&mut self, mut begin: Json, range: &Range<'_>) -> Result<(), ExportError> {
        begin["ph"] = json!("b");
        begin["id"] = json!(range.id);
        if let Some(event) = begin.as_object_mut() {
            event.remove("dur");
        }
        let mut end = begin.clone();
        end["ph"] = json!("e");
        end["ts"] = micros(range.span.end_ns.saturating_sub(self.base_ns));
        self.event(&begin)?;
        self.event(&end)
    }

    /// An additional row of a thread: what is known of it besides its ranges.
    fn row(&mut self, row: Row, os_tid: u32, thread: &str) {
        self.rows.entry((row, os_tid)).or_insert_with(|| (row.title(thread, os_tid), i64::MIN));
    }

    /// An event of such a row, which no other one of it overlaps.
    fn slice(
        &mut self,
        (row, os_tid): (Row, u32),
        span: Span,
        name: &str,
        args: Json,
    ) -> Result<(), ExportError> {
        let Some((_, reached_ns)) = self.rows.get_mut(&(row, os_tid)) else { return Ok(()) };
        let start_ns = span.start_ns.max(*reached_ns);
        *reached_ns = span.end_ns.max(start_ns);
        let span = Span { start_ns, end_ns: *reached_ns };
        self.event(&json!({
            "ph": "X", "cat": row.category(), "name": name, "pid": self.pid,
            "tid": row_tid(row, os_tid), "ts": micros(span.start_ns.saturating_sub(self.base_ns)),
            "dur": micros(span.ns()), "args": args,
        }))
    }

    fn sampled(&mut self, slice: &Slice) -> Result<(), ExportError> {
        let line = slice.line.as_ref().map(HostFrame::text);
        let args = json!({"state": slice.state, "line": line, "samples": slice.samples});
        self.slice((Row::Host, slice.os_tid), slice.span, &slice.name, args)
    }

    fn call(&mut self, process: &Process, call: &HostCall<'_>) -> Result<(), ExportError> {
        self.row(Row::Calls, call.thread.os_tid, &call.thread.shown());
        let stack = self.stacks.text(&process.file, call.stack);
        let args = json!({"line": call.frame.map(HostFrame::text), "stack": stack});
        self.slice((Row::Calls, call.thread.os_tid), call.span, &call.name, args)
    }

    fn step(&mut self, step: &Step<'_>, requests: &[u64]) -> Result<(), ExportError> {
        self.row(Row::Steps, step.thread.os_tid, &step.thread.shown());
        let known = step_numbers(step).into_iter().filter_map(|(name, value)| Some((name, value?)));
        let mut args: Map<String, Json> =
            known.map(|(name, value)| (name.to_owned(), json!(value))).collect();
        args.extend(step.number.map(|number| ("step".to_owned(), json!(number))));
        if !requests.is_empty() {
            args.insert("requests".to_owned(), json!(requests));
        }
        args.insert(EXTERNAL_ID.to_owned(), json!(step.range));
        let row = (Row::Steps, step.thread.os_tid);
        self.slice(row, step.span, &step.kind.to_string(), Json::Object(args))
    }

    fn in_lane(&mut self, (mut text, (_, stream), lane): Piece) -> Result<(), ExportError> {
        let row = u64::from(stream) + NEXT_ROW * lane as u64;
        // Writing to a string cannot fail.
        let _ = write!(text, "{row}}}");
        self.lead()?;
        self.text(&text)?;
        text.clear();
        self.spare.push(text);
        Ok(())
    }

    fn tail(
        &mut self,
        process: &Process,
        threads: &BTreeMap<u32, String>,
    ) -> Result<(), ExportError> {
        while let Some(piece) = self.lanes.pop() {
            self.in_lane(piece)?;
        }
        let pid = self.pid;
        let mut events = vec![named("process_name", pid, 0, process.title())];
        for (tid, name) in threads {
            let name = if name.is_empty() { format!("thread {tid}") } else { name.clone() };
            events.push(named("thread_name", pid, u64::from(*tid), name));
        }
        for ((row, os_tid), (title, _)) in &self.rows {
            events.push(named("thread_name", pid, row_tid(*row, *os_tid), title.clone()));
        }
        let mut queues: Vec<(Stream, usize)> = self.lanes.queues().collect();
        queues.sort_unstable();
        let mut last = None;
        for ((device, stream), lanes) in queues {
            if last.replace(device) != Some(device) {
                events.push(named("process_name", device, 0, format!("GPU {device}")));
            }
            for lane in 0..lanes as u64 {
                let row = if lane == 0 { String::new() } else { format!(", row {}", lane + 1) };
                let tid = u64::from(stream) + NEXT_ROW * lane;
                events.push(named("thread_name", device, tid, format!("stream {stream}{row}")));
            }
        }
        events.iter().try_for_each(|event| self.event(event))?;
        self.text("\n]\n}\n")
    }

    fn event(&mut self, event: &Json) -> Result<(), ExportError> {
        self.lead()?;
        serde_json::to_writer(&mut self.out, event)
            .map_err(|error| ExportError::write(self.path)(error.into()))
    }

    fn lead(&mut self) -> Result<(), ExportError> {
        let lead = if std::mem::take(&mut self.first) { "\n" } else { ",\n" };
        self.text(lead)
    }

    fn text(&mut self, text: &str) -> Result<(), ExportError> {
        self.out.write_all(text.as_bytes()).map_err(ExportError::write(self.path))
    }
}

/// The number of a further row of a thread.
fn row_tid(row: Row, os_tid: u32) -> u64 {
    THREAD_ROW * (row as u64 + 1) + u64::from(os_tid)
}

fn named(what: &str, pid: u32, tid: u64, name: String) -> Json {
    json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}})
}

/// A piece of work up to the number of its row, which is not known before the earlier pieces are.
/// Written without a tree of values: there may be many millions.
fn work_text(text: &mut String, work: &Work<'_>, span: Span, base_ns: i64) {
    let queue = work.queue;
    let category = match work.what {
        What::Kernel(..) => "kernel",
        What::Copy { .. } => "gpu_memcpy",
        What::Fill { .. } => "gpu_memset",
        What::Graph { .. } => "gpu_graph",
    };
    let (device, context, stream) = (queue.device, queue.context, queue.stream);
    let (name, range) = (names::full(work), &work.path.label);
    let start = Micros(span.start_ns.saturating_sub(base_ns));
    let (name, range) = (JsonText(&name), JsonText(range));
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":{name},\"ts\":{start},\"dur\":{},\"args\":{{\
         \"device\":{device},\"context\":{context},\"stream\":{stream},\"correlation\":{},\"range\":{range}",
        Micros(span.ns()),
        work.correlation,
    );
    // As PyTorch's profiler ties work to the operator that launched it.
    if ![RANGE_OUTSIDE, RANGE_UNKNOWN].contains(&work.range) {
        let _ = write!(text, ",\"{EXTERNAL_ID}\":{}", work.range);
    }
    if work.graph_node != 0 {
        let _ = write!(text, ",\"graph node id\":{}", work.graph_node);
    }
    let _ = match work.what {
        What::Kernel(shape, _) => {
            let ([x, y, z], [bx, by, bz]) = (shape.grid, shape.block);
            let shared = shape.static_shared_bytes.saturating_add(shape.dynamic_shared_bytes);
            write!(
                text,
                ",\"grid\":[{x},{y},{z}],\"block\":[{bx},{by},{bz}],\"registers per thread\":{},\
                 \"shared memory\":{shared}",
                shape.registers_per_thread
            )
        }
        What::Copy { bytes, .. } | What::Fill { bytes } => {
            let gb_per_s = if span.ns() > 0 { bytes as f64 / span.ns() as f64 } else { 0.0 };
            write!(text, ",\"bytes\":{bytes},\"memory bandwidth (GB/s)\":{gb_per_s}")
        }
        What::Graph { .. } => Ok(()),
    };
    let _ = write!(text, "}},\"pid\":{device},\"tid\":");
}

/// A text as JSON has it.
struct JsonText<'t>(&'t str);

impl fmt::Display for JsonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let mut rest = self.0;
        while let Some(at) =
            rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\')
        {
            let (plain, special) = rest.split_at(at);
            f.write_str(plain)?;
            let mut chars = special.chars();
            match chars.next() {
                Some(c @ ('"' | '\\')) => write!(f, "\\{c}")?,
                c => write!(f, "\\u{:04x}", c.map_or(0, u32::from))?,
            }
            rest = chars.as_str();
        }
        f.write_str(rest)?;
        f.write_char('"')
    }
}

/// Microseconds with nanoseconds behind the point.
struct Micros(i64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, ns) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        write!(f, "{sign}{}.{:03}", ns / 1_000, ns % 1_000)
    }
}

fn range_event(range: &Range<'_>, pid: u32, base_ns: i64) -> Json {
    let mut args = Map::new();
    args.insert("range".to_owned(), json!(range.path.label));
    args.insert(EXTERNAL_ID.to_owned(), json!(range.id));
    if !range.domain.is_empty() {
        args.insert("domain".to_owned(), json!(range.domain));
    }
    if let Some(payload) = range.payload {
        args.insert("payload".to_owned(), json_number(payload));
    }
    if !range.fields.is_empty() {
        // Apart: a field may have any name, also one that readers look for.
        args.insert("fields".to_owned(), Json::Object(json_object(range.fields)));
    }
    // TraceLens builds its tree of operators only.
    let category = if range.parent == RANGE_OUTSIDE { "user_annotation" } else { "cpu_op" };
    json!({
        "ph": "X", "cat": category, "name": range.name, "pid": pid,
        "tid": range.thread.os_tid, "ts": micros(range.span.start_ns.saturating_sub(base_ns)),
        "dur": micros(range.span.ns()), "args": args,
    })
}

/// Nanoseconds as a JSON number of microseconds that keeps all digits.
fn micros(ns: i64) -> Json {
    Micros(ns).to_string().parse::<serde_json::Number>().map_or(Json::Null, Json::Number)
}

/// Pieces of work that wait for earlier ones.
const WAITING: usize = 1 << 14;

/// Sorts pieces of work by their start, and gives each a lane of its queue on which nothing overlaps.
///
/// CUPTI delivers records nearly in the order of time. Pieces wait to be put into order; work that comes
/// later than these reach back still finds a lane in which nothing overlaps it.
#[derive(Debug)]
struct Lanes<Q, T> {
    /// The end, the queue and the item of a piece, by its start and its place among all.
    waiting: BTreeMap<(i64, u64), (i64, Q, T)>,
    /// The end of the last work in each lane of each queue, ns.
    ends: FxHashMap<Q, Vec<i64>>,
    arrived: u64,
}

impl<Q: Copy + Eq + std::hash::Hash, T> Lanes<Q, T> {
    fn new() -> Self {
        Self { waiting: BTreeMap::new(), ends: FxHashMap::default(), arrived: 0 }
    }

    /// Adds a piece of work; gives back the earliest one, its queue and its lane once enough wait.
    fn add(&mut self, queue: Q, start_ns: i64, end_ns: i64, item: T) -> Option<(T, Q, usize)> {
        self.arrived += 1;
        self.waiting.insert((start_ns, self.arrived), (end_ns, queue, item));
        if self.waiting.len() > WAITING { self.pop() } else { None }
    }

    /// The earliest piece that waits, its queue and its lane.
    fn pop(&mut self) -> Option<(T, Q, usize)> {
        let ((start_ns, _), (end_ns, queue, item)) = self.waiting.pop_first()?;
        let ends = self.ends.entry(queue).or_default();
        let lane = ends.iter().position(|&end| end <= start_ns).unwrap_or(ends.len());
        match ends.get_mut(lane) {
            Some(end) => *end = end_ns,
            None => ends.push(end_ns),
        }
        Some((item, queue, lane))
    }

    fn queues(&self) -> impl Iterator<Item = (Q, usize)> {
        self.ends.iter().map(|(&queue, ends)| (queue, ends.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_overlaps_gets_lanes_of_its_own_and_all_comes_back() {
        let mut lanes = Lanes::new();
        for (start, end) in [(0, 10), (20, 30), (5, 8), (10, 20), (25, 40), (41, 42)] {
            assert!(lanes.add("q", start, end, (start, end)).is_none());
        }
        assert!(lanes.add("other", 5, 50, (5, 50)).is_none());
        let all: Vec<_> = std::iter::from_fn(|| lanes.pop()).collect();
        let starts: Vec<i64> = all.iter().map(|((start, _), ..)| *start).collect();
        assert_eq!(starts, [0, 5, 5, 10, 20, 25, 41]);
        let lane_of = |span| all.iter().find(|(s, ..)| *s == span).map(|(.., lane)| *lane);
        assert_eq!(
            [lane_of((0, 10)), lane_of((5, 8)), lane_of((10, 20))],
            [Some(0), Some(1), Some(0)]
        );
        assert_eq!(
            [lane_of((25, 40)), lane_of((41, 42)), lane_of((5, 50))],
            [Some(1), Some(0), Some(0)]
        );
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        let mut lanes = Lanes::new();
        let mut out = 0;
        for at in 0..200_000 {
            out += usize::from(lanes.add(0, at, at + 1, ()).is_some());
            assert!(lanes.waiting.len() <= WAITING);
        }
        while lanes.pop().is_some() {
            out += 1;
        }
        assert_eq!(out, 200_000);
    }
}
