//! `stage2-parquet RUN_DIR OUT`: the trace files of a run -> Parquet tables.
//!
//! A program of its own, because the Parquet library would lengthen the build of the launcher by a
//! quarter. The launcher starts it, and reads what it wrote from its standard output, as JSON.
#![forbid(unsafe_code)]

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use parquet::basic::{Compression, GzipLevel, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{Type, TypePtr};
use rustc_hash::FxHashMap;
use stage2_contract::trace::{NONE, Payload, RANGE_OUTSIDE, RANGE_UNKNOWN};
use stage2_export::events::{
    Event, HostCall, HostSample, Range, Request, Step, Thread, What, Work, state_name,
};
use stage2_export::host::{Stacks, StepRequests, json_list, step_numbers};
use stage2_export::{
    Counts, ExportError, Holds, Process, Run, Selected, Selection, Window, names, output,
};
use stage2_model::HostFrame;
use stage2_report::Settings;

/// Write the trace files of a run as Parquet
#[derive(Debug, Parser)]
struct Arguments {
    /// Folder of the bundle
    run_dir: PathBuf,
    /// Folder to write; it must not exist
    out: PathBuf,
    /// Export this stage only; may be repeated
    #[arg(long)]
    stage: Vec<String>,
    /// Export this window only: START..END in seconds since the first event
    #[arg(long)]
    window: Option<Window>,
}

fn main() -> ExitCode {
    let Arguments { run_dir, out, stage, window } = Arguments::parse();
    let selection = Selection { stages: stage, window };
    let exported = Run::of_bundle(&run_dir, &Settings::of_run(&run_dir).libraries)
        .and_then(|run| stage2_export::select(&run, &selection, |part, n| write(part, &out, n)));
    match exported {
        Ok(exported) => {
            println!("{}", serde_json::json!(exported));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}

/// Rows of a row group: what is kept in memory for each table.
const ROWS: usize = 1 << 16;

const KERNELS: &str = "message kernels {
  required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required binary stage (UTF8); required binary range_path (UTF8); optional int64 range_id;
  required binary kernel_name (UTF8); required binary mangled_name (UTF8);
  required int64 device; required int64 context; required int64 stream;
  required int64 correlation; optional int64 graph_node;
  required int64 grid_x; required int64 grid_y; required int64 grid_z;
  required int64 block_x; required int64 block_y; required int64 block_z;
  required int64 registers_per_thread; required int64 static_shared_bytes;
  required int64 dynamic_shared_bytes; required int64 local_bytes_per_thread;
}";

const MEMORY: &str = "message memory {
  required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required binary stage (UTF8); required binary range_path (UTF8); optional int64 range_id;
  required binary operation (UTF8); required int64 bytes;
  required int64 device; required int64 context; required int64 stream;
  required int64 correlation; optional int64 graph_node;
}";

const GRAPHS: &str = "message graphs {
  required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required binary stage (UTF8); required binary range_path (UTF8); optional int64 range_id;
  required int64 graph;
  required int64 device; required int64 context; required int64 stream;
  required int64 correlation; optional int64 graph_node;
}";

const RANGES: &str = "message ranges {
  required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required binary stage (UTF8); required binary range_path (UTF8); required int64 range_id;
  optional int64 parent_id; required binary name (UTF8); optional binary domain (UTF8);
  required int64 thread; required int64 start_end; required int64 category;
  optional int64 payload; optional double payload_double; optional binary fields (JSON);
}";

const MARKS: &str = "message marks {
  required int64 at_ns; required binary name (UTF8); required int64 thread;
  optional int64 payload; optional double payload_double;
}";

const HOST_SAMPLES: &str = "message host_samples {
  required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required int64 thread; optional binary thread_name (UTF8); required binary state (UTF8);
  required binary activity (UTF8); optional binary line (UTF8); optional int64 stack;
  required int64 holds_gil; optional int64 holder; optional binary holder_line (UTF8);
}";

const HOST_STACKS: &str = "message host_stacks {
  required int64 stack; required binary lines (UTF8);
}";

const HOST_CALLS: &str = "message host_calls {
  required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required int64 thread; optional binary thread_name (UTF8); required binary name (UTF8);
  optional binary line (UTF8); optional int64 stack;
}";

const ENGINE_STEPS: &str = "message engine_steps {
  required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required int64 range_end_ns; required binary stage (UTF8); required int64 range_id;
  required int64 thread; optional int64 step; required binary kind (UTF8);
  required int64 prefill_requests; optional int64 prefill_tokens;
  optional int64 prefill_context_tokens; required int64 decode_requests;
  optional int64 decode_tokens; optional int64 decode_context_tokens;
  required int64 draft_tokens; optional binary requests (JSON);
}";

const REQUESTS: &str = "message requests {
  required int64 request; optional int64 arrived_ns; optional int64 queue_ns;
  optional int64 first_token_ns; optional int64 total_ns; required int64 prompt_tokens;
  required int64 cached_tokens; required int64 output_tokens; optional int64 first_step;
  optional int64 prompt_step; optional int64 last_step; optional int64 prompt_steps;
  required int64 preemptions; required int64 aborted; required int64 draft_tokens;
  required int64 accepted_tokens;
}";

fn write(
    selected: &Selected<'_>,
    out: &Path,
    counts: &mut Counts,
) -> Result<Vec<PathBuf>, ExportError> {
    output::folder(out, |folder| {
        let mut files = Vec::new();
        let requests = StepRequests::of(selected.run);
        for (index, process) in selected.run.processes().iter().enumerate() {
            let mut tables = Tables::create(folder, index, process, selected.run.clocks())?;
            selected.for_each(process, Holds::Tables, counts, |event| match event {
                Event::Work(work) => tables.work(&work),
                Event::Range(range) => tables.range(&range),
                Event::Mark { at_ns, thread, name, payload } => {
                    tables.mark(at_ns, thread, name, payload)
                }
                Event::Sample(sample) => tables.sample(process, &sample),
                Event::Call(call) => tables.call(process, &call),
                Event::Step(step) => {
                    tables.step(&step, &requests.of_step(selected.run, process, &step))
                }
                Event::Request { request, arrived_ns } => tables.request(request, arrived_ns),
            })?;
            files.extend(tables.finish()?);
        }
        Ok(files)
    })
}

/// The tables of one process. Each has a file from its first row on.
struct Tables {
    kernels: Table,
    memory: Table,
    graphs: Table,
    ranges: Table,
    marks: Table,
    host_samples: Table,
    host_stacks: Table,
    host_calls: Table,
    engine_steps: Table,
    requests: Table,
    stacks: Stacks,
}

impl Tables {
    fn create(
        folder: &Path,
        index: usize,
        process: &Process,
        clocks: Option<&str>,
    ) -> Result<Self, ExportError> {
        let known = process.host();
        let host = if known.is_empty() { "unknown" } else { known.as_str() };
        // Hive's name for a partition without a value.
        let rank = process.rank.map(|rank| rank.to_string());
        let rank = rank.as_deref().unwrap_or("__HIVE_DEFAULT_PARTITION__");
        let pid = process.file.process().map_or(0, |traced| traced.pid);
        let place = format!("host={}/rank={rank}/pid={pid}/part-{index}.parquet", partition(host));
        let table = |name: &str, schema: &'static str| {
            Table::new(folder.join(name).join(&place), schema, clocks)
        };
        Ok(Self {
            kernels: table("kernels", KERNELS)?,
            memory: table("memory", MEMORY)?,
            graphs: table("graphs", GRAPHS)?,
            ranges: table("ranges", RANGES)?,
            marks: table("marks", MARKS)?,
            host_samples: table("host_samples", HOST_SAMPLES)?,
            host_stacks: table("host_stacks", HOST_STACKS)?,
            host_calls: table("host_calls", HOST_CALLS)?,
            engine_steps: table("engine_steps", ENGINE_STEPS)?,
            requests: table("requests", REQUESTS)?,
            stacks: Stacks::default(),
        })
    }

    fn work(&mut self, work: &Work<'_>) -> Result<(), ExportError> {
        let Some(span) = work.span else { return Ok(()) };
        let queue = work.queue;
        let node = (work.graph_node != 0).then_some(work.graph_node as i64);
        let table = match work.what {
            What::Kernel(..) => &mut self.kernels,
            What::Copy { .. } | What::Fill { .. } => &mut self.memory,
            What::Graph { .. } => &mut self.graphs,
        };
        let range = ![RANGE_OUTSIDE, RANGE_UNKNOWN].contains(&work.range);
        let mut row = table.row();
        row.int(span.start_ns).int(span.end_ns).int(span.ns());
        row.text(work.path.stage()).text(&work.path.label);
        row.maybe(range.then_some(work.range as i64));
        match work.what {
            What::Kernel(_, name) => row.text(&name.demangled).text(&name.mangled),
            What::Copy { bytes, .. } | What::Fill { bytes } => {
                row.text(&names::short(work.what)).int(i64::try_from(bytes).unwrap_or(i64::MAX))
            }
            What::Graph { graph } => row.int(i64::from(graph)),
        };
        row.int(i64::from(queue.device)).int(i64::from(queue.context)).int(i64::from(queue.stream));
        row.int(work.correlation as i64).maybe(node);
        if let What::Kernel(shape, _) = work.what {
            for number in shape.grid.into_iter().chain(shape.block) {
                row.int(i64::from(number));
            }
            row.int(shape.registers_per_thread.into()).int(shape.static_shared_bytes.into());
            row.int(shape.dynamic_shared_bytes.into()).int(shape.local_bytes_per_thread.into());
        }
        table.end_row()
    }

    fn range(&mut self, range: &Range<'_>) -> Result<(), ExportError> {
        let (whole, fraction) = columns(range.payload);
        let fields = names::json_text(range.fields);
        let mut row = self.ranges.row();
        row.int(range.span.start_ns).int(range.span.end_ns).int(range.span.ns());
        row.text(range.path.stage()).text(&range.path.label).int(range.id as i64);
        row.maybe((range.parent != RANGE_OUTSIDE).then_some(range.parent as i64));
        row.text(range.name).maybe_text((!range.domain.is_empty()).then_some(range.domain));
        row.int(i64::from(range.thread.os_tid)).int(i64::from(range.start_end));
        row.int(i64::from(range.category)).maybe(whole).maybe_double(fraction);
        row.maybe_text(fields.as_deref());
        self.ranges.end_row()
    }

    fn mark(
        &mut self,
        at_ns: i64,
        thread: Thread<'_>,
        name: &str,
        payload: Option<Payload>,
    ) -> Result<(), ExportError> {
        let (whole, fraction) = columns(payload);
        let mut row = self.marks.row();
        row.int(at_ns).text(name).int(i64::from(thread.os_tid));
        row.maybe(whole).maybe_double(fraction);
        self.marks.end_row()
    }

    fn sample(&mut self, process: &Process, sample: &HostSample<'_>) -> Result<(), ExportError> {
        self.stack(process, sample.stack)?;
        let HostSample { span, thread, state, holds_gil, holder, stack, frame, .. } = *sample;
        let mut row = self.host_samples.row();
        row.int(span.start_ns).int(span.end_ns).int(span.ns());
        row.int(thread.os_tid.into()).maybe_text(named(thread)).text(state_name(state));
        row.text(&sample.text()).maybe_text(frame.map(HostFrame::text).as_deref());
        row.maybe((stack != NONE).then_some(stack.into())).int(holds_gil.into());
        row.maybe(holder.map(|holder| holder.os_tid.into()));
        row.maybe_text(sample.holder_frame.map(HostFrame::text).as_deref());
        self.host_samples.end_row()
    }

    /// A row for a stack that occurs for the first time.
    fn stack(&mut self, process: &Process, stack: u32) -> Result<(), ExportError> {
        let Some(lines) = self.stacks.first(&process.file, stack) else { return Ok(()) };
        self.host_stacks.row().int(stack.into()).text(&lines);
        self.host_stacks.end_row()
    }

    fn call(&mut self, process: &Process, call: &HostCall<'_>) -> Result<(), ExportError> {
        self.stack(process, call.stack)?;
        let mut row = self.host_calls.row();
        row.int(call.span.start_ns).int(call.span.end_ns).int(call.span.ns());
        row.int(call.thread.os_tid.into()).maybe_text(named(call.thread)).text(&call.name);
        row.maybe_text(call.frame.map(HostFrame::text).as_deref());
        row.maybe((call.stack != NONE).then_some(call.stack.into()));
        self.host_calls.end_row()
    }

    fn step(&mut self, step: &Step<'_>, requests: &[u64]) -> Result<(), ExportError> {
        let mut row = self.engine_steps.row();
        row.int(step.span.start_ns).int(step.span.end_ns).int(step.span.ns());
        row.int(step.range_end_ns).text(step.path.stage()).int(signed(step.range));
        row.int(step.thread.os_tid.into()).maybe(step.number.map(signed));
        row.text(&step.kind.to_string());
        for (_, value) in step_numbers(step) {
            row.maybe(value.map(signed));
        }
        row.maybe_text(json_list(requests).as_deref());
        self.engine_steps.end_row()
    }

    fn request(&mut self, request: &Request, arrived_ns: Option<i64>) -> Result<(), ExportError> {
        let steps = request.steps;
        let mut row = self.requests.row();
        row.int(signed(request.number)).maybe(arrived_ns).maybe(request.queue_ns.map(signed));
        row.maybe(request.first_token_ns.map(signed)).maybe(request.total_ns.map(signed));
        row.int(signed(request.prompt_tokens)).int(signed(request.cached_tokens));
        row.int(signed(request.output_tokens)).maybe(steps.map(|steps| signed(steps.first)));
        row.maybe(steps.map(|steps| signed(steps.prompt)));
        row.maybe(steps.map(|steps| signed(steps.last)));
        row.maybe(steps.map(|steps| signed(steps.of_prompt))).int(signed(request.preemptions));
        row.int(request.aborted.into()).int(signed(request.draft_tokens));
        row.int(signed(request.accepted_tokens));
        self.requests.end_row()
    }

    fn finish(self) -> Result<Vec<PathBuf>, ExportError> {
        let work = [self.kernels, self.memory, self.graphs, self.ranges, self.marks];
        let host = [self.host_samples, self.host_stacks, self.host_calls];
        let tables = work.into_iter().chain(host).chain([self.engine_steps, self.requests]);
        let written = tables.map(Table::finish).collect::<Result<Vec<_>, _>>()?;
        Ok(written.into_iter().flatten().collect())
    }
}

/// The name of a thread, where it has one.
fn named(thread: Thread<'_>) -> Option<&str> {
    (!thread.name.is_empty()).then_some(thread.name)
}

/// All integers of the tables are signed.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A payload as a whole number, or as another one: what is beyond signed integers becomes the nearest
/// floating-point number.
fn columns(payload: Option<Payload>) -> (Option<i64>, Option<f64>) {
    match payload {
        Some(Payload::U64(value)) => match i64::try_from(value) {
            Ok(whole) => (Some(whole), None),
            Err(_) => (None, Some(value as f64)),
        },
        Some(Payload::I64(value)) => (Some(value), None),
        Some(Payload::F64(value)) => (None, Some(value)),
        None => (None, None),
    }
}

/// Bytes of a name within a folder name.
const PARTITION_BYTES: usize = 200;

/// A name as a part of a folder name: what separates parts of it is escaped as Hive does.
fn partition(name: &str) -> String {
    let is_special = |c: char| c.is_control() || "/=%\"'\\:*?{}[]".contains(c);
    let escape = |c| if is_special(c) { format!("%{:02X}", c as u32) } else { c.to_string() };
    let mut escaped = String::new();
    for part in name.chars().map(escape) {
        // A folder's name has 255 bytes at most, and `host=` in front.
        if escaped.len() + part.len() > PARTITION_BYTES {
            break;
        }
        escaped.push_str(&part);
    }
    if escaped.trim_matches('.').is_empty() { "unknown".to_owned() } else { escaped }
}

/// Values of one column; absent ones have no entry in the values.
enum Column {
    Int(Vec<i64>, Option<Vec<i16>>),
    Double(Vec<f64>, Vec<i16>),
    /// Equal texts share their bytes.
    Text {
        values: Vec<ByteArray>,
        levels: Option<Vec<i16>>,
        known: FxHashMap<String, ByteArray>,
    },
}

fn columns_of(schema: &Type) -> Vec<Column> {
    let column = |field: &TypePtr| {
        let levels = field.is_optional().then(Vec::new);
        match field.get_physical_type() {
            Physical::BYTE_ARRAY => {
                Column::Text { values: Vec::new(), levels, known: FxHashMap::default() }
            }
            Physical::DOUBLE => Column::Double(Vec::new(), Vec::new()),
            _ => Column::Int(Vec::new(), levels),
        }
    };
    schema.get_fields().iter().map(column).collect()
}

struct Table {
    path: PathBuf,
    /// How far the clocks of several hosts agree, for the metadata of the file.
    clocks: Option<String>,
    schema: TypePtr,
    writer: Option<SerializedFileWriter<File>>,
    columns: Vec<Column>,
    rows: usize,
}

/// The row that is being added: one value for each column, in their order.
struct Row<'t> {
    columns: std::slice::IterMut<'t, Column>,
}

impl Row<'_> {
    fn int(&mut self, value: i64) -> &mut Self {
        self.maybe(Some(value))
    }

    fn maybe(&mut self, value: Option<i64>) -> &mut Self {
        if let Some(Column::Int(values, levels)) = self.columns.next() {
            values.extend(value);
            if let Some(levels) = levels {
                levels.push(i16::from(value.is_some()));
            }
        }
        self
    }

    fn maybe_double(&mut self, value: Option<f64>) -> &mut Self {
        if let Some(Column::Double(values, levels)) = self.columns.next() {
            values.extend(value);
            levels.push(i16::from(value.is_some()));
        }
        self
    }

    fn text(&mut self, value: &str) -> &mut Self {
        self.maybe_text(Some(value))
    }

    fn maybe_text(&mut self, value: Option<&str>) -> &mut Self {
        if let Some(Column::Text { values, levels, known }) = self.columns.next() {
            values.extend(value.map(|value| match known.get(value) {
                Some(bytes) => bytes.clone(),
                None => {
                    let bytes = ByteArray::from(value.as_bytes().to_vec());
                    known.insert(value.to_owned(), bytes.clone());
                    bytes
                }
            }));
            if let Some(levels) = levels {
                levels.push(i16::from(value.is_some()));
            }
        }
        self
    }
}

fn failed(path: &Path) -> impl Fn(ParquetError) -> ExportError + use<> {
    let write = ExportError::write(path);
    move |error| write(std::io::Error::other(error))
}

impl Table {
    fn new(path: PathBuf, schema: &str, clocks: Option<&str>) -> Result<Self, ExportError> {
        let schema = Arc::new(parse_message_type(schema).map_err(failed(&path))?);
        let (clocks, columns) = (clocks.map(str::to_owned), columns_of(&schema));
        Ok(Self { path, clocks, schema, writer: None, columns, rows: 0 })
    }

    fn row(&mut self) -> Row<'_> {
        Row { columns: self.columns.iter_mut() }
    }

    fn end_row(&mut self) -> Result<(), ExportError> {
        self.rows += 1;
        if self.rows == ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        if std::mem::take(&mut self.rows) == 0 {
            return Ok(());
        }
        let columns = std::mem::replace(&mut self.columns, columns_of(&self.schema));
        self.row_group(columns).map_err(failed(&self.path))
    }

    fn row_group(&mut self, columns: Vec<Column>) -> Result<(), ParquetError> {
        if self.writer.is_none() {
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder)?;
            }
            let clocks = self.clocks.clone();
            let clocks = clocks.map(|clocks| KeyValue::new("stage2.clocks".to_owned(), clocks));
            let properties = WriterProperties::builder()
                .set_compression(Compression::GZIP(GzipLevel::try_new(1)?))
                .set_created_by(concat!("stage2 ", env!("CARGO_PKG_VERSION")).to_owned())
                .set_key_value_metadata(clocks.map(|clocks| vec![clocks]))
                .build();
            let (file, schema) = (File::create(&self.path)?, self.schema.clone());
            self.writer = Some(SerializedFileWriter::new(file, schema, Arc::new(properties))?);
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut group = writer.next_row_group()?;
        for column in columns {
            let Some(mut out) = group.next_column()? else { break };
            match column {
                Column::Int(values, levels) => {
                    out.typed::<Int64Type>().write_batch(&values, levels.as_deref(), None)?;
                }
                Column::Double(values, levels) => {
                    out.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
                }
                Column::Text { values, levels, .. } => {
                    out.typed::<ByteArrayType>().write_batch(&values, levels.as_deref(), None)?;
                }
            }
            out.close()?;
        }
        group.close().map(drop)
    }

    /// The path of the file, where the table has rows.
    fn finish(mut self) -> Result<Option<PathBuf>, ExportError> {
        self.flush()?;
        let Some(writer) = self.writer.take() else { return Ok(None) };
        writer.close().map_err(failed(&self.path))?;
        Ok(Some(self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_host_stays_one_folder() {
        assert_eq!(partition("a/b=c%"), "a%2Fb%3Dc%25");
        assert_eq!(partition(".."), "unknown");
        assert_eq!(partition("node-1.cluster"), "node-1.cluster");
        assert_eq!(partition(&"\u{1f980}".repeat(90)).len(), PARTITION_BYTES);
    }
}
