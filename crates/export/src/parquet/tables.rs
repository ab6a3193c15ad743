//! Events of a process, and what the report states of a run -> rows of tables.
//!
//! docs/datasets.md lists the columns with their units.

use rustc_hash::FxHashMap;
use stage2_contract::text::KernelName;
use stage2_contract::trace::{NONE, Payload, RANGE_OUTSIDE, RANGE_UNKNOWN};
use stage2_export::events::{
    Event, HostCall, HostSample, Range, Request, Step, Thread, What, Work, state_name,
};
use stage2_export::host::{Stacks, StepRequests, json_list, step_numbers};
use stage2_export::{ExportError, Process, Run, Selected, names};
use stage2_model::HostFrame;
use stage2_read::kernel_class::class_of;

use crate::columns::{Place, Row, Table};

const KERNELS: &str = "message kernels {
  required int64 pid; required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required binary stage (UTF8); required binary range_path (UTF8); optional int64 range_id;
  required binary kernel_name (UTF8); required binary mangled_name (UTF8);
  required binary class (UTF8);
  required int64 device; required int64 context; required int64 stream;
  required int64 correlation; optional int64 graph_node;
  required int64 grid_x; required int64 grid_y; required int64 grid_z;
  required int64 block_x; required int64 block_y; required int64 block_z;
  required int64 registers_per_thread; required int64 static_shared_bytes;
  required int64 dynamic_shared_bytes; required int64 local_bytes_per_thread;
}";

const MEMORY: &str = "message memory {
  required int64 pid; required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required binary stage (UTF8); required binary range_path (UTF8); optional int64 range_id;
  required binary operation (UTF8); required int64 bytes;
  required int64 device; required int64 context; required int64 stream;
  required int64 correlation; optional int64 graph_node;
}";

const GRAPHS: &str = "message graphs {
  required int64 pid; required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required binary stage (UTF8); required binary range_path (UTF8); optional int64 range_id;
  required int64 graph;
  required int64 device; required int64 context; required int64 stream;
  required int64 correlation; optional int64 graph_node;
}";

const RANGES: &str = "message ranges {
  required int64 pid; required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required binary stage (UTF8); required binary range_path (UTF8); required int64 range_id;
  optional int64 parent_id; required binary name (UTF8); optional binary domain (UTF8);
  required int64 thread; required int64 start_end; required int64 category;
  optional int64 payload; optional double payload_double; optional binary fields (JSON);
}";

const MARKS: &str = "message marks {
  required int64 pid; required int64 at_ns; required binary name (UTF8); required int64 thread;
  optional int64 payload; optional double payload_double;
}";

const HOST_SAMPLES: &str = "message host_samples {
  required int64 pid; required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required int64 thread; optional binary thread_name (UTF8); required binary state (UTF8);
  required binary activity (UTF8); optional binary line (UTF8); optional int64 stack;
  required int64 holds_gil; optional int64 holder; optional binary holder_line (UTF8);
}";

const HOST_STACKS: &str = "message host_stacks {
  required int64 pid; required int64 stack; required binary lines (UTF8);
}";

const HOST_CALLS: &str = "message host_calls {
  required int64 pid; required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required int64 thread; optional binary thread_name (UTF8); required binary name (UTF8);
  optional binary line (UTF8); optional int64 stack;
}";

const ENGINE_STEPS: &str = "message engine_steps {
  required int64 pid; required int64 start_ns; required int64 end_ns; required int64 duration_ns;
  required int64 range_end_ns; required binary stage (UTF8); required int64 range_id;
  required int64 thread; optional int64 step; required binary kind (UTF8);
  required int64 prefill_requests; optional int64 prefill_tokens;
  optional int64 prefill_context_tokens; required int64 decode_requests;
  optional int64 decode_tokens; optional int64 decode_context_tokens;
  required int64 draft_tokens; optional binary requests (JSON);
}";

const REQUESTS: &str = "message requests {
  required int64 pid; required int64 request; optional int64 arrived_ns; optional int64 queue_ns;
  optional int64 first_token_ns; optional int64 total_ns; required int64 prompt_tokens;
  required int64 cached_tokens; required int64 output_tokens; optional int64 first_step;
  optional int64 prompt_step; optional int64 last_step; optional int64 prompt_steps;
  required int64 preemptions; required int64 aborted; required int64 draft_tokens;
  required int64 accepted_tokens;
}";

/// What the report concluded from all ranks of a run together: no query over the records of single
/// processes finds it again.
const RANK_STAGES: &str = "message rank_stages {
  required binary run (UTF8); required binary stage (UTF8); optional binary host (UTF8);
  optional int64 rank; optional int64 pid; required binary trace_file (UTF8);
  required int64 instances; optional int64 host_total_ns; optional int64 host_warm_median_ns;
  optional int64 gpu_busy_ns; optional int64 gpu_idle_ns; optional int64 kernels;
  optional int64 communication_ns; optional int64 waiting_ns; optional int64 transfer_ns;
}";

const LATE_RANKS: &str = "message late_ranks {
  required binary run (UTF8); required binary stage (UTF8); optional binary host (UTF8);
  optional int64 rank; optional int64 pid; required binary trace_file (UTF8);
  required int64 collectives; required int64 late_collectives; required int64 late_total_ns;
  required int64 late_max_ns; optional int64 delays; optional int64 delay_total_ns;
  optional int64 delay_mean_ns; optional int64 delay_work_ns; optional double waiting_percent;
  optional binary range_path (UTF8);
}";

const IDLE_CAUSES: &str = "message idle_causes {
  required binary run (UTF8); required binary stage (UTF8); optional int64 window_ns;
  optional int64 idle_ns; required binary cause (UTF8); optional binary line (UTF8);
  required double percent; required double error_percent; required int64 samples;
}";

/// The tables of one process. Each has a file from its first row on.
pub(crate) struct Tables {
    /// Of the process, in its own namespace.
    pid: i64,
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
    /// Classes of kernels by mangled name.
    classes: FxHashMap<String, &'static str>,
}

impl Tables {
    pub(crate) fn create(pid: i64, place: &Place) -> Result<Self, ExportError> {
        let table = |name: &str, schema: &'static str| Table::new(name, schema, place);
        Ok(Self {
            pid,
            kernels: table("kernels", KERNELS)?,
            memory: table("memory", MEMORY)?,
            graphs: table("graphs", GRAPHS)?,
            ranges: table("ranges", RANGES)?,
            marks: table("marks", MARKS)?,
            host_samples: table("host_samples", HOST_SAMPLES)?,
            host_stacks: Table::timeless("host_stacks", HOST_STACKS, place)?,
            host_calls: table("host_calls", HOST_CALLS)?,
            engine_steps: table("engine_steps", ENGINE_STEPS)?,
            requests: table("requests", REQUESTS)?,
            stacks: Stacks::default(),
            classes: FxHashMap::default(),
        })
    }

    /// Adds what happened in the process.
    pub(crate) fn add(
        &mut self,
        run: &Run,
        process: &Process,
        requests: &StepRequests,
        event: &Event<'_>,
    ) -> Result<(), ExportError> {
        match event {
            Event::Work(work) => self.work(work),
            Event::Range(range) => self.range(range),
            Event::Mark { at_ns, thread, name, payload } => {
                self.mark(*at_ns, *thread, name, *payload)
            }
            Event::Sample(sample) => self.sample(process, sample),
            Event::Call(call) => self.call(process, call),
            Event::Step(step) => self.step(step, &requests.of_step(run, process, step)),
            Event::Request { request, arrived_ns } => self.request(request, *arrived_ns),
        }
    }

    fn work(&mut self, work: &Work<'_>) -> Result<(), ExportError> {
        let Some(span) = work.span else { return Ok(()) };
        let queue = work.queue;
        let node = (work.graph_node != 0).then_some(work.graph_node as i64);
        let class = match work.what {
            What::Kernel(_, name) => Some(class(&mut self.classes, name)),
            _ => None,
        };
        let table = match work.what {
            What::Kernel(..) => &mut self.kernels,
            What::Copy { .. } | What::Fill { .. } => &mut self.memory,
            What::Graph { .. } => &mut self.graphs,
        };
        let range = ![RANGE_OUTSIDE, RANGE_UNKNOWN].contains(&work.range);
        let mut row = table.row(Some(span.end_ns))?;
        row.int(self.pid);
        row.int(span.start_ns).int(span.end_ns).int(span.ns());
        row.text(work.path.stage()).text(&work.path.label);
        row.maybe(range.then_some(work.range as i64));
        match work.what {
            What::Kernel(_, name) => {
                row.text(&name.demangled).text(&name.mangled).text(class.unwrap_or_default())
            }
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
        let mut row = self.ranges.row(Some(range.span.end_ns))?;
        row.int(self.pid).int(range.span.start_ns).int(range.span.end_ns).int(range.span.ns());
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
        let mut row = self.marks.row(Some(at_ns))?;
        row.int(self.pid).int(at_ns).text(name).int(i64::from(thread.os_tid));
        row.maybe(whole).maybe_double(fraction);
        self.marks.end_row()
    }

    fn sample(&mut self, process: &Process, sample: &HostSample<'_>) -> Result<(), ExportError> {
        self.stack(process, sample.stack)?;
        let HostSample { span, thread, state, holds_gil, holder, stack, frame, .. } = *sample;
        let mut row = self.host_samples.row(Some(span.end_ns))?;
        row.int(self.pid).int(span.start_ns).int(span.end_ns).int(span.ns());
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
        self.host_stacks.row(None)?.int(self.pid).int(stack.into()).text(&lines);
        self.host_stacks.end_row()
    }

    fn call(&mut self, process: &Process, call: &HostCall<'_>) -> Result<(), ExportError> {
        self.stack(process, call.stack)?;
        let mut row = self.host_calls.row(Some(call.span.end_ns))?;
        row.int(self.pid).int(call.span.start_ns).int(call.span.end_ns).int(call.span.ns());
        row.int(call.thread.os_tid.into()).maybe_text(named(call.thread)).text(&call.name);
        row.maybe_text(call.frame.map(HostFrame::text).as_deref());
        row.maybe((call.stack != NONE).then_some(call.stack.into()));
        self.host_calls.end_row()
    }

    fn step(&mut self, step: &Step<'_>, requests: &[u64]) -> Result<(), ExportError> {
        let mut row = self.engine_steps.row(Some(step.span.end_ns))?;
        row.int(self.pid).int(step.span.start_ns).int(step.span.end_ns).int(step.span.ns());
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
        let total_ns = signed(request.total_ns.unwrap_or(0));
        let ended_ns = arrived_ns.map(|at_ns| at_ns.saturating_add(total_ns));
        let mut row = self.requests.row(ended_ns)?;
        row.int(self.pid)
            .int(signed(request.number))
            .maybe(arrived_ns)
            .maybe(request.queue_ns.map(signed));
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

    /// All tables, to be finished.
    pub(crate) fn all(self) -> impl Iterator<Item = (&'static str, Table)> {
        [
            ("kernels", self.kernels),
            ("memory", self.memory),
            ("graphs", self.graphs),
            ("ranges", self.ranges),
            ("marks", self.marks),
            ("host_samples", self.host_samples),
            ("host_stacks", self.host_stacks),
            ("host_calls", self.host_calls),
            ("engine_steps", self.engine_steps),
            ("requests", self.requests),
        ]
        .into_iter()
    }
}

/// The class of a kernel, as reports have it.
fn class(classes: &mut FxHashMap<String, &'static str>, name: &KernelName) -> &'static str {
    if let Some(class) = classes.get(&name.mangled) {
        return class;
    }
    let class = class_of(name).label();
    classes.insert(name.mangled.clone(), class);
    class
}

/// The tables that hold what the report states of the selected stages.
pub(crate) fn conclusions(
    selected: &Selected<'_>,
    place: &Place,
) -> Result<[(&'static str, Table); 3], ExportError> {
    let run = selected.run;
    let mut stages = Table::timeless("rank_stages", RANK_STAGES, place)?;
    let mut late = Table::timeless("late_ranks", LATE_RANKS, place)?;
    let mut causes = Table::timeless("idle_causes", IDLE_CAUSES, place)?;
    let number = |value: Option<u64>| value.map(signed);
    let processes: FxHashMap<&str, &Process> =
        run.processes().iter().map(|process| (process.file.name(), process)).collect();
    for of in run.conclusions.rank_stages.iter().filter(|of| selected.has_stage(&of.stage)) {
        let mut row = stages.row(None)?;
        let process = processes.get(of.file.as_str()).copied();
        who(row.text(&run.name).text(&of.stage), process, &of.file, of.rank);
        row.int(signed(of.instances)).maybe(number(of.host_total_ns));
        row.maybe(number(of.host_warm_median_ns)).maybe(number(of.gpu_busy_ns));
        row.maybe(number(of.gpu_idle_ns)).maybe(number(of.kernels));
        row.maybe(number(of.communication_ns)).maybe(number(of.waiting_ns));
        row.maybe(number(of.transfer_ns));
        stages.end_row()?;
    }
    for of in run.conclusions.late_ranks.iter().filter(|of| selected.has_stage(&of.stage)) {
        let mut row = late.row(None)?;
        let process = processes.get(of.file.as_str()).copied();
        who(row.text(&run.name).text(&of.stage), process, &of.file, of.rank);
        row.int(signed(of.collectives)).int(signed(of.late_collectives));
        row.int(signed(of.late_total_ns)).int(signed(of.late_max_ns));
        let delays = of.delays.as_ref();
        for value in [
            delays.map(|delays| delays.collectives),
            delays.map(|delays| delays.total_ns),
            delays.map(|delays| delays.mean_ns),
            delays.map(|delays| delays.work_ns),
        ] {
            row.maybe(number(value));
        }
        row.maybe_double(delays.map(|delays| delays.waiting_percent));
        row.maybe_text(delays.map(|delays| delays.range.as_str()));
        late.end_row()?;
    }
    for of in run.conclusions.idle_causes.iter().filter(|of| selected.has_stage(&of.stage)) {
        for cause in &of.causes {
            let kind = serde_json::json!(cause.kind);
            let line = cause.frame.as_ref().map(HostFrame::text);
            let mut row = causes.row(None)?;
            row.text(&run.name).text(&of.stage).maybe(number(of.window_ns));
            row.maybe(number(of.idle_ns)).text(kind.as_str().unwrap_or_default());
            row.maybe_text(line.as_deref()).double(cause.percent).double(cause.error_percent);
            row.int(signed(cause.samples));
            causes.end_row()?;
        }
    }
    Ok([("rank_stages", stages), ("late_ranks", late), ("idle_causes", causes)])
}

/// The process that a row of the report is about.
fn who(row: &mut Row<'_>, process: Option<&Process>, file: &str, rank: Option<u64>) {
    let pid = process.and_then(|process| process.file.process()).map(|traced| traced.pid.into());
    row.maybe_text(process.map(Process::host).as_deref());
    row.maybe(rank.map(signed)).maybe(pid).text(file);
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
