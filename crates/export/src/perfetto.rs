//! Perfetto's protobuf: each stream is a row of GPU render stages, ranges lie on their threads.
//!
//! Render stages may overlap within a row, as kernels of a CUDA graph do; Perfetto keeps them all.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::io::Write;
use std::path::{Path, PathBuf};

use prost::Message as _;
use rustc_hash::FxHashMap;
use stage2_contract::text::redact::Redactor;
use stage2_contract::text::visible;
use stage2_contract::trace::{Payload, Queue};
use stage2_read::trace::events::{Event, HostCall, Range, Span, Step, Thread, Value, What, Work};

use crate::host::{Row, Slice, Slices, Stacks, StepRequests, json_list, step_numbers};
use crate::run::{Gpu, Process};
use crate::selection::{Holds, Selected};
use crate::{Counts, ExportError, names, output};

/// `BuiltinClock`: the wall clock, ns since the Unix epoch.
const REALTIME: u32 = 1;
/// `sequence_flags`: what was interned before counts no more; and this packet uses interned data.
const CLEARED: u32 = 1;
const USES_INTERNED: u32 = 2;
/// `TrackEvent.type`.
const BEGIN: i32 = 1;
const END: i32 = 2;
const INSTANT: i32 = 3;
/// `InternedGraphicsContext.api`.
const CUDA: i32 = 4;
/// `InternedGpuRenderStageSpecification.category`.
const COMPUTE: i32 = 2;

/// Names of slices of the host that are interned.
const NAMES: usize = 1 << 16;

/// Writes the run as one file.
pub(crate) fn write(
    selected: &Selected<'_>,
    out: &Path,
    counts: &mut Counts,
) -> Result<Vec<PathBuf>, ExportError> {
    output::file(out, |file| {
        let mut file = Packets { out: file, path: out, next_uuid: 1 };
        file.clock(selected)?;
        file.gpus(selected)?;
        let requests = StepRequests::of(selected.run);
        for (index, process) in selected.run.processes().iter().enumerate() {
            let clocks = selected.run.clocks();
            let sequence = Sequence::start(&mut file, index, process, clocks)?;
            sequence.fill(selected, &requests, counts)?;
        }
        Ok(())
    })
}

/// The packets of a file, in any order: Perfetto sorts them by time.
struct Packets<'a, W> {
    out: W,
    path: &'a Path,
    next_uuid: u64,
}

impl<W: Write> Packets<'_, W> {
    fn packet(&mut self, packet: Packet) -> Result<(), ExportError> {
        let bytes = Trace { packet: vec![packet] }.encode_to_vec();
        self.out.write_all(&bytes).map_err(ExportError::write(self.path))
    }

    fn uuid(&mut self) -> u64 {
        self.next_uuid += 1;
        self.next_uuid
    }

    /// All times are of the wall clock, which is the clock of the trace.
    fn clock(&mut self, selected: &Selected<'_>) -> Result<(), ExportError> {
        let timestamp = u64::try_from(selected.start_ns()).unwrap_or(0);
        let clocks = vec![Clock { clock_id: REALTIME, timestamp }];
        let snapshot = ClockSnapshot { clocks, primary_trace_clock: REALTIME };
        self.packet(Packet { clock_snapshot: Some(snapshot), sequence: 1, ..Packet::default() })
    }

    fn gpus(&mut self, selected: &Selected<'_>) -> Result<(), ExportError> {
        let gpu = |gpu: &Gpu| GpuDescription {
            name: visible(&gpu.device.name),
            vendor: "NVIDIA".to_owned(),
            uuid: gpu.device.uuid.to_vec(),
        };
        let gpus = selected.run.gpus().iter().map(gpu).collect();
        self.packet(Packet { gpu_info: Some(GpuInfo { gpus }), sequence: 1, ..Packet::default() })
    }
}

/// What one process writes: interned data holds within its packets only.
struct Sequence<'p, 'a, W> {
    packets: &'p mut Packets<'a, W>,
    process: &'p Process,
    number: u32,
    /// Its first packet was written, which tells readers to forget what was interned before.
    cleared: bool,
    process_uuid: u64,
    /// The track of each thread, by the number of the thread.
    threads: BTreeMap<u32, u64>,
    /// Further tracks of threads, and when the last slice of each ended, ns.
    rows: FxHashMap<(Row, u32), (u64, i64)>,
    stacks: Stacks,
    /// What is interned: names of kernels, of slices of the host, stacks, queues, contexts.
    names: FxHashMap<String, u64>,
    event_names: FxHashMap<String, u64>,
    stack_texts: FxHashMap<u32, Option<u64>>,
    queues: FxHashMap<(u32, u32, u32), u64>,
    contexts: FxHashMap<u32, u64>,
    last_iid: u64,
    next_event: u64,
}

impl<'p, 'a, W: Write> Sequence<'p, 'a, W> {
    fn start(
        packets: &'p mut Packets<'a, W>,
        index: usize,
        process: &'p Process,
        clocks: Option<&str>,
    ) -> Result<Self, ExportError> {
        let process_uuid = packets.uuid();
        let traced = process.file.process();
        let descriptor = ProcessDescriptor {
            pid: process.pid as i32,
            cmdline: traced.map_or_else(Vec::new, |traced| Redactor::default().words(&traced.argv)),
            process_name: process.title(),
            process_labels: std::iter::once(process.host())
                .chain(process.file.missing())
                .chain(clocks.map(str::to_owned))
                .filter(|label| !label.is_empty())
                .collect(),
        };
        let mut sequence = Self {
            packets,
            process,
            // 0 is no sequence, 1 that of the GPUs.
            number: index as u32 + 2,
            cleared: false,
            process_uuid,
            threads: BTreeMap::new(),
            rows: FxHashMap::default(),
            stacks: Stacks::default(),
            names: FxHashMap::default(),
            event_names: FxHashMap::default(),
            stack_texts: FxHashMap::default(),
            queues: FxHashMap::default(),
            contexts: FxHashMap::default(),
            last_iid: 1,
            // Ids of events are unique in the file: each process has 2^40 of them.
            next_event: (index as u64) << 40,
        };
        let (uuid, process) = (process_uuid, Some(descriptor));
        sequence.track(TrackDescriptor { uuid, process, ..TrackDescriptor::default() })?;
        Ok(sequence)
    }

    fn fill(
        mut self,
        selected: &Selected<'_>,
        requests: &StepRequests,
        counts: &mut Counts,
    ) -> Result<(), ExportError> {
        let process = self.process;
        let mut slices = Slices::default();
        selected.for_each(process, Holds::Timeline, counts, |event| match event {
            Event::Work(work) => self.work(&work),
            Event::Range(range) => self.range(&range),
            Event::Mark { at_ns, thread, name, payload } => {
                let mark = TrackEvent {
                    kind: INSTANT,
                    track_uuid: self.thread(thread)?,
                    categories: vec!["nvtx".to_owned()],
                    name: Some(name.to_owned()),
                    debug_annotations: payload.map(|p| number("payload", p)).into_iter().collect(),
                    ..TrackEvent::default()
                };
                self.event(at_ns, mark)
            }
            Event::Sample(sample) => {
                let name = sample.thread.shown();
                self.row(Row::Host, sample.thread.os_tid, &name)?;
                slices.push(&sample).map_or(Ok(()), |slice| self.sampled(slice))
            }
            Event::Call(call) => self.call(&call),
            Event::Step(step) => {
                let requests = requests.of_step(selected.run, process, &step);
                self.step(&step, &requests)
            }
            Event::Request { .. } => Ok(()),
        })?;
        slices.finish().try_for_each(|slice| self.sampled(slice))
    }

    fn packet(&mut self, packet: Packet) -> Result<(), ExportError> {
        let first = !std::mem::replace(&mut self.cleared, true);
        let sequence_flags = USES_INTERNED | if first { CLEARED } else { 0 };
        let defaults = first.then_some(PacketDefaults { timestamp_clock_id: REALTIME });
        self.packets.packet(Packet { sequence: self.number, sequence_flags, defaults, ..packet })
    }

    fn track(&mut self, descriptor: TrackDescriptor) -> Result<(), ExportError> {
        self.packet(Packet { track_descriptor: Some(descriptor), ..Packet::default() })
    }

    fn event(&mut self, at_ns: i64, event: TrackEvent) -> Result<(), ExportError> {
        // Perfetto has no time before 1970.
        let timestamp = Some(u64::try_from(at_ns).unwrap_or(0));
        self.packet(Packet { timestamp, track_event: Some(event), ..Packet::default() })
    }

    fn thread(&mut self, thread: Thread<'_>) -> Result<u64, ExportError> {
        if let Some(&uuid) = self.threads.get(&thread.os_tid) {
            return Ok(uuid);
        }
        let uuid = self.packets.uuid();
        self.threads.insert(thread.os_tid, uuid);
        self.track(TrackDescriptor {
            uuid,
            parent_uuid: Some(self.process_uuid),
            thread: Some(ThreadDescriptor {
                pid: self.process.pid as i32,
                tid: i64::from(thread.os_tid),
                thread_name: thread.name.to_owned(),
            }),
            ..TrackDescriptor::default()
        })?;
        Ok(uuid)
    }

    /// An additional track of a thread: what is known of it besides its ranges.
    fn row(&mut self, row: Row, os_tid: u32, thread: &str) -> Result<(), ExportError> {
        if self.rows.contains_key(&(row, os_tid)) {
            return Ok(());
        }
        let uuid = self.packets.uuid();
        self.rows.insert((row, os_tid), (uuid, i64::MIN));
        let name = Some(row.title(thread, os_tid));
        let parent_uuid = Some(self.process_uuid);
        self.track(TrackDescriptor { uuid, name, parent_uuid, ..TrackDescriptor::default() })
    }

    /// A slice of such a track, which no other one of it overlaps.
    fn slice(
        &mut self,
        (row, os_tid): (Row, u32),
        span: Span,
        name: &str,
        debug_annotations: Vec<Annotation>,
        mut interned: InternedData,
    ) -> Result<(), ExportError> {
        let Some((track_uuid, reached_ns)) = self.rows.get_mut(&(row, os_tid)) else {
            return Ok(());
        };
        let (track_uuid, start_ns) = (*track_uuid, span.start_ns.max(*reached_ns));
        let end_ns = span.end_ns.max(start_ns);
        *reached_ns = end_ns;
        let mut begin = TrackEvent {
            kind: BEGIN,
            track_uuid,
            categories: vec![row.category().to_owned()],
            debug_annotations,
            ..TrackEvent::default()
        };
        let name = name.to_owned();
        if self.event_names.len() < NAMES || self.event_names.contains_key(&name) {
            let (iid, is_new) = intern(&mut self.event_names, &mut self.last_iid, name.clone());
            interned.event_names.extend(is_new.then_some(EventName { iid, name }));
            begin.name_iid = Some(iid);
        } else {
            begin.name = Some(name);
        }
        self.packet(Packet {
            timestamp: Some(u64::try_from(start_ns).unwrap_or(0)),
            interned_data: (interned != InternedData::default()).then_some(interned),
            track_event: Some(begin),
            ..Packet::default()
        })?;
        let end = TrackEvent { kind: END, track_uuid, ..TrackEvent::default() };
        self.event(end_ns, end)
    }

    fn sampled(&mut self, slice: Slice) -> Result<(), ExportError> {
        let mut annotations = vec![text("state", slice.state)];
        annotations.extend(slice.line.map(|line| text("line", &line.text())));
        annotations.push(number("samples", Payload::U64(slice.samples)));
        let row = (Row::Host, slice.os_tid);
        self.slice(row, slice.span, &slice.name, annotations, InternedData::default())
    }

    fn call(&mut self, call: &HostCall<'_>) -> Result<(), ExportError> {
        self.row(Row::Calls, call.thread.os_tid, &call.thread.shown())?;
        let mut interned = InternedData::default();
        let mut annotations: Vec<Annotation> =
            call.frame.map(|line| text("line", &line.text())).into_iter().collect();
        let iid = match self.stack_texts.get(&call.stack) {
            Some(&iid) => iid,
            None => {
                let text = self.stacks.text(&self.process.file, call.stack);
                let iid = text.map(|text| {
                    self.last_iid += 1;
                    let iid = self.last_iid;
                    interned.texts.push(InternedText { iid, text: text.into_bytes() });
                    iid
                });
                self.stack_texts.insert(call.stack, iid);
                iid
            }
        };
        annotations.extend(iid.map(|iid| Annotation {
            name: "stack".to_owned(),
            text_iid: Some(iid),
            ..Annotation::default()
        }));
        self.slice((Row::Calls, call.thread.os_tid), call.span, &call.name, annotations, interned)
    }

    fn step(&mut self, step: &Step<'_>, requests: &[u64]) -> Result<(), ExportError> {
        self.row(Row::Steps, step.thread.os_tid, &step.thread.shown())?;
        let known = step_numbers(step).into_iter().filter_map(|(name, value)| Some((name, value?)));
        let mut annotations: Vec<Annotation> =
            known.map(|(name, value)| number(name, Payload::U64(value))).collect();
        annotations.extend(step.number.map(|step| number("step", Payload::U64(step))));
        annotations.extend(json_list(requests).map(|requests| text("requests", &requests)));
        let (row, name) = ((Row::Steps, step.thread.os_tid), step.kind.to_string());
        self.slice(row, step.span, &name, annotations, InternedData::default())
    }

    fn range(&mut self, range: &Range<'_>) -> Result<(), ExportError> {
        let thread = self.thread(range.thread)?;
        // Start/end ranges may overlap others of their thread, which one track cannot hold.
        let track_uuid = if range.start_end {
            let uuid = self.packets.uuid();
            let name = Some(range.name.to_owned());
            let parent_uuid = Some(self.process_uuid);
            self.track(TrackDescriptor { uuid, name, parent_uuid, ..TrackDescriptor::default() })?;
            uuid
        } else {
            thread
        };
        let mut annotations = vec![text("range", &range.path.label)];
        annotations.extend(range.payload.map(|payload| number("payload", payload)));
        annotations.extend(range.fields.iter().map(|(name, value)| match value {
            Value::Number(payload) => number(name, *payload),
            Value::Text(value) => text(name, value),
        }));
        let domain = if range.domain.is_empty() { "nvtx" } else { range.domain };
        let begin = TrackEvent {
            kind: BEGIN,
            track_uuid,
            categories: vec![domain.to_owned()],
            name: Some(range.name.to_owned()),
            debug_annotations: annotations,
            ..TrackEvent::default()
        };
        self.event(range.span.start_ns, begin)?;
        let end = TrackEvent { kind: END, track_uuid, ..TrackEvent::default() };
        self.event(range.span.end_ns, end)
    }

    fn work(&mut self, work: &Work<'_>) -> Result<(), ExportError> {
        let Some(span) = work.span else { return Ok(()) };
        let mut interned = InternedData::default();
        let name = names::short(work.what).into_owned();
        // Perfetto's UI shows the name of the stage, so that each kernel is a stage of its own.
        let stage_iid = self.stage(&name, work, &mut interned);
        let hw_queue_iid = self.queue(work.queue, &mut interned);
        let context = self.context(work.queue.context, &mut interned);
        self.next_event += 1;
        let stage = RenderStage {
            event_id: self.next_event,
            duration: span.ns().unsigned_abs(),
            context,
            extra_data: details(work),
            // The field has 32 bits, as CUPTI's own ids have.
            submission_id: work.correlation as u32,
            gpu_id: Some(self.process.gpu(work.queue.device) as i32),
            hw_queue_iid,
            stage_iid,
            name,
        };
        self.packet(Packet {
            timestamp: Some(u64::try_from(span.start_ns).unwrap_or(0)),
            interned_data: (interned != InternedData::default()).then_some(interned),
            render_stage: Some(stage),
            ..Packet::default()
        })
    }

    fn stage(&mut self, name: &str, work: &Work<'_>, interned: &mut InternedData) -> u64 {
        // Different kernels may have the same short name.
        let full = names::full(work);
        if let Some(&iid) = self.names.get(full.as_ref()) {
            return iid;
        }
        let (name, description) = (name.to_owned(), full.into_owned());
        let (iid, _) = intern(&mut self.names, &mut self.last_iid, description.clone());
        interned.specifications.push(Specification { iid, name, description, category: COMPUTE });
        iid
    }

    fn queue(&mut self, queue: Queue, interned: &mut InternedData) -> u64 {
        let Queue { device, context, stream, .. } = queue;
        let key = (device, context, stream);
        let (iid, is_new) = intern(&mut self.queues, &mut self.last_iid, key);
        if is_new {
            let name = format!("{}, context {context}, stream {stream}", self.process.title());
            let known = Specification { iid, name, category: COMPUTE, ..Specification::default() };
            interned.specifications.push(known);
        }
        iid
    }

    fn context(&mut self, context: u32, interned: &mut InternedData) -> u64 {
        let (iid, is_new) = intern(&mut self.contexts, &mut self.last_iid, context);
        if is_new {
            let pid = self.process.pid as i32;
            interned.contexts.push(GraphicsContext { iid, pid, api: CUDA });
        }
        iid
    }
}

/// The number of something that is interned, and whether it is new.
fn intern<K: Eq + Hash>(known: &mut FxHashMap<K, u64>, last: &mut u64, key: K) -> (u64, bool) {
    let before = *last;
    let iid = *known.entry(key).or_insert_with(|| {
        *last += 1;
        *last
    });
    (iid, *last > before)
}

fn details(work: &Work<'_>) -> Vec<ExtraData> {
    let data = |name: &str, value: String| ExtraData { name: name.to_owned(), value };
    let mut all = vec![
        data("range", work.path.label.clone()),
        data("correlation", work.correlation.to_string()),
    ];
    if work.graph_node != 0 {
        all.push(data("graph node", work.graph_node.to_string()));
    }
    match work.what {
        What::Kernel(shape, _) => {
            let dim = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
            all.push(data("grid", dim(shape.grid)));
            all.push(data("block", dim(shape.block)));
        }
        What::Copy { bytes, .. } | What::Fill { bytes } => {
            all.push(data("bytes", bytes.to_string()));
        }
        What::Graph { .. } => {}
    }
    all
}

fn text(name: &str, value: &str) -> Annotation {
    Annotation { name: name.to_owned(), text: Some(value.to_owned()), ..Annotation::default() }
}

fn number(name: &str, value: Payload) -> Annotation {
    let annotation = Annotation { name: name.to_owned(), ..Annotation::default() };
    match value {
        Payload::U64(value) => Annotation { uint: Some(value), ..annotation },
        Payload::I64(value) => Annotation { int: Some(value), ..annotation },
        Payload::F64(value) => Annotation { double: Some(value), ..annotation },
    }
}

// The fields that are written, with the numbers of Perfetto's own descriptors (`perfetto` 0.59.1, PyPI).
messages! {
    /// A file is a sequence of these: field 1 of `perfetto.protos.Trace`.
    Trace {
        packet: Vec<Packet> = 1, message, repeated;
    }

    Packet {
        clock_snapshot: Option<ClockSnapshot> = 6, message, optional;
        timestamp: Option<u64> = 8, uint64, optional;
        sequence: u32 = 10, uint32;
        track_event: Option<TrackEvent> = 11, message, optional;
        interned_data: Option<InternedData> = 12, message, optional;
        sequence_flags: u32 = 13, uint32;
        render_stage: Option<RenderStage> = 53, message, optional;
        defaults: Option<PacketDefaults> = 59, message, optional;
        track_descriptor: Option<TrackDescriptor> = 60, message, optional;
        gpu_info: Option<GpuInfo> = 128, message, optional;
    }

    ClockSnapshot {
        clocks: Vec<Clock> = 1, message, repeated;
        primary_trace_clock: u32 = 2, uint32;
    }

    Clock {
        clock_id: u32 = 1, uint32;
        timestamp: u64 = 2, uint64;
    }

    /// `TracePacketDefaults`: what holds for the packets of a sequence that do not say otherwise.
    PacketDefaults {
        timestamp_clock_id: u32 = 58, uint32;
    }

    RenderStage {
        event_id: u64 = 1, uint64;
        duration: u64 = 2, uint64;
        context: u64 = 5, uint64;
        extra_data: Vec<ExtraData> = 6, message, repeated;
        submission_id: u32 = 10, uint32;
        gpu_id: Option<i32> = 11, int32, optional;
        hw_queue_iid: u64 = 13, uint64;
        stage_iid: u64 = 14, uint64;
        name: String = 17, string;
    }

    ExtraData {
        name: String = 1, string;
        value: String = 2, string;
    }

    TrackEvent {
        debug_annotations: Vec<Annotation> = 4, message, repeated;
        kind: i32 = 9, int32;
        track_uuid: u64 = 11, uint64;
        name_iid: Option<u64> = 10, uint64, optional;
        categories: Vec<String> = 22, string, repeated;
        name: Option<String> = 23, string, optional;
    }

    Annotation {
        name: String = 10, string;
        uint: Option<u64> = 3, uint64, optional;
        int: Option<i64> = 4, int64, optional;
        double: Option<f64> = 5, double, optional;
        text: Option<String> = 6, string, optional;
        text_iid: Option<u64> = 17, uint64, optional;
    }

    InternedData {
        event_names: Vec<EventName> = 2, message, repeated;
        texts: Vec<InternedText> = 29, message, repeated;
        contexts: Vec<GraphicsContext> = 23, message, repeated;
        specifications: Vec<Specification> = 24, message, repeated;
    }

    EventName {
        iid: u64 = 1, uint64;
        name: String = 2, string;
    }

    InternedText {
        iid: u64 = 1, uint64;
        text: Vec<u8> = 2, bytes = "vec";
    }

    GraphicsContext {
        iid: u64 = 1, uint64;
        pid: i32 = 2, int32;
        api: i32 = 3, int32;
    }

    Specification {
        iid: u64 = 1, uint64;
        name: String = 2, string;
        description: String = 3, string;
        category: i32 = 4, int32;
    }

    TrackDescriptor {
        uuid: u64 = 1, uint64;
        name: Option<String> = 2, string, optional;
        process: Option<ProcessDescriptor> = 3, message, optional;
        thread: Option<ThreadDescriptor> = 4, message, optional;
        parent_uuid: Option<u64> = 5, uint64, optional;
    }

    ProcessDescriptor {
        pid: i32 = 1, int32;
        cmdline: Vec<String> = 2, string, repeated;
        process_name: String = 6, string;
        process_labels: Vec<String> = 8, string, repeated;
    }

    ThreadDescriptor {
        pid: i32 = 1, int32;
        tid: i64 = 2, int64;
        thread_name: String = 5, string;
    }

    GpuInfo {
        gpus: Vec<GpuDescription> = 1, message, repeated;
    }

    GpuDescription {
        name: String = 1, string;
        vendor: String = 2, string;
        uuid: Vec<u8> = 5, bytes = "vec";
    }
}
