//! Samples of the host's threads in a trace file -> what a report says the GPU waited for.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use stage2_contract::trace::{
    Anchor, GpuNs, GpuWork, HostCall, HostFrame, HostSample, HostSampling, HostStack, HostState,
    HostThread, MonoNs, Process, Queue, RangeOpen, Record, Shape, WallNs, What, Writer,
};
use stage2_contract::trace::{NONE, Path as RangePath};
use stage2_model::{
    BottleneckKind, HostAdviceKind, HostCause, HostCauseKind, HostStage, Report, WindowKind,
};
use stage2_report::{Settings, Sources, analyse};

const MS: u64 = 1_000_000;
/// The GPU's clock is ahead.
const AHEAD: u64 = 5_000_000_000;
/// Thread that launches, and another one.
const MAIN: u32 = 1;
const OTHER: u32 = 2;
/// An instance of `decode` lasts 10 ms, of which the GPU works for the first 4.
const STEP: u64 = 10 * MS;
const BUSY: u64 = 4 * MS;

/// A trace file in the making: names, frames and stacks get their identifiers here.
struct Trace {
    records: Vec<Record>,
    names: u32,
    stacks: u32,
    /// Length of the kernel at the start of each instance.
    kernel_ns: u64,
}

impl Trace {
    fn new() -> Self {
        let mut trace = Self { records: Vec::new(), names: 0, stacks: 0, kernel_ns: BUSY };
        let process = Process { pid: 7, host: "node".into(), ..Process::default() };
        trace.push(Record::Process(process));
        for at in [0, 100_000 * MS] {
            let (gpu, wall) = (GpuNs(at + AHEAD), WallNs(at + 1));
            trace.push(Record::Anchor(Anchor { gpu, mono: MonoNs(at), wall }));
        }
        trace.push(Record::Queue(Queue { id: 1, ..Queue::default() }));
        let decode = trace.name(b"decode");
        trace.push(Record::Path(RangePath { id: 1, parent: NONE, name: decode, domain: NONE }));
        trace.kernel(b"gemm");
        for (id, name) in [(MAIN, "engine"), (OTHER, "detok")] {
            trace.push(Record::Thread { id, os_tid: id + 100, name: name.into() });
        }
        let launches = HostThread { thread: MAIN, launches: true, ..HostThread::default() };
        trace.push(Record::HostThread(launches));
        let sampling = HostSampling { asked_ns: MS, interval_ns: MS, ..HostSampling::default() };
        trace.push(Record::HostSampling(HostSampling { rounds: 9, torn: 2, ..sampling }));
        trace
    }

    fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    fn name(&mut self, bytes: &[u8]) -> u32 {
        self.names += 1;
        self.push(Record::Name { id: self.names, bytes: bytes.to_vec() });
        self.names
    }

    /// The shape of a kernel of this name, with the name's number.
    fn kernel(&mut self, name: &[u8]) -> u32 {
        let name = self.name(name);
        let (grid, block) = ([1; 3], [32, 1, 1]);
        self.push(Record::Shape(Shape { id: name, name, grid, block, ..Shape::default() }));
        name
    }

    /// A stack of these frames (function, file, line), the outermost first.
    fn stack(&mut self, frames: &[(&str, &str, u32)]) -> u32 {
        let mut parent = NONE;
        for &(function, file, line) in frames {
            let (function, file) = (self.name(function.as_bytes()), self.name(file.as_bytes()));
            self.stacks += 1;
            let id = self.stacks;
            self.push(Record::HostFrame(HostFrame { id, function, file, line }));
            self.push(Record::HostStack(HostStack { id, parent, frame: id }));
            parent = id;
        }
        parent
    }

    /// `count` instances of `decode`; `sample` gives what was seen in each millisecond of one, and `work` what
    /// the GPU did besides its kernel of 4 ms: start and length in the instance, ns.
    fn decode(
        &mut self,
        count: u64,
        work: &[(What, u64, u64)],
        sample: impl Fn(u64, u64) -> Vec<HostSample>,
    ) {
        for instance in 0..count {
            let (range, start) = (instance + 1, 1_000 * MS + instance * STEP);
            let open = RangeOpen { range, path: 1, thread: MAIN, ..RangeOpen::default() };
            self.push(Record::RangeOpen(RangeOpen { start: MonoNs(start), ..open }));
            self.push(Record::RangeClose { range, end: MonoNs(start + STEP) });
            let moments = (0..10).map(|ms| (ms, start + ms * MS + MS / 2));
            let samples: Vec<HostSample> = moments
                .flat_map(|(ms, at)| {
                    let at = move |one| HostSample { at: MonoNs(at), interval_ns: MS, ..one };
                    sample(instance, ms).into_iter().map(at)
                })
                .collect();
            self.push(Record::HostSamples(samples));
            let kernel = (What::Kernel { shape: 2 }, 0, self.kernel_ns);
            for &(what, from, ns) in [kernel].iter().chain(work) {
                let begin = start + AHEAD + from;
                let work = GpuWork { queue: 1, range, ..GpuWork::new(what) };
                let (start, end) = (GpuNs(begin), GpuNs(begin + ns));
                self.push(Record::Work(GpuWork { start, end, ..work }));
            }
        }
    }

    /// A call of this function in each of `count` instances, from and for so many ns.
    fn calls(&mut self, count: u64, function: &str, (from, ns): (u64, u64), stack: u32) {
        let name = self.name(function.as_bytes());
        let begins = (0..count).map(|instance| MonoNs(1_000 * MS + instance * STEP + from));
        let end = |begin: MonoNs| MonoNs(begin.0 + ns);
        let call = |begin| HostCall { name, thread: MAIN, begin, end: end(begin), stack };
        self.push(Record::HostCalls(begins.map(call).collect()));
    }

    fn bytes(mut self) -> Vec<u8> {
        self.push(Record::End { reason: "exit".into() });
        let mut writer = Writer::new(Vec::new()).expect("memory");
        self.records.iter().for_each(|record| writer.write(record));
        writer.flush().expect("memory");
        writer.into_sink()
    }

    fn report(self) -> Report {
        report(&self.bytes())
    }
}

fn report(bytes: &[u8]) -> Report {
    let run = tempfile::tempdir().expect("folder");
    let folder = run.path().join("collector");
    fs::create_dir_all(&folder).expect("folder");
    fs::write(folder.join("node-7.s2t"), bytes).expect("file");
    of(run.path())
}

fn of(run: &Path) -> Report {
    analyse(&Sources::of_run(run), &Settings::of_run(run)).report
}

fn state(state: HostState, stack: u32) -> HostSample {
    HostSample { thread: MAIN, state, stack, ..HostSample::default() }
}

fn decode(report: &Report) -> &HostStage {
    report.host.as_ref().expect("samples").stages.first().expect("a stage")
}

/// Shares and errors by what they are of, rounded to tenths.
fn shares(causes: &[HostCause]) -> BTreeMap<String, (f64, f64)> {
    let tenths = |value: f64| (value * 10.0).round() / 10.0;
    let share = |cause: &HostCause| (tenths(cause.percent), tenths(cause.error_percent));
    causes.iter().map(|cause| (cause.text(true), share(cause))).collect()
}

fn line<'r>(report: &'r Report, label: &str) -> &'r str {
    let found = report.answer.lines.iter().find(|line| line.label == label);
    found.map_or("", |line| line.text.as_str())
}

const SCHEDULE: (&str, &str, u32) = ("Scheduler.schedule", "vllm/v1/core/sched/scheduler.py", 212);
const LOOP: (&str, &str, u32) = ("EngineCore.step", "vllm/v1/engine/core.py", 300);
const DECODE: (&str, &str, u32) =
    ("Tokenizer.decode", "/usr/lib/python3/dist-packages/tokenizer.py", 88);

/// Of the six idle milliseconds of a step three in the scheduler, two behind the GIL, one without a processor.
fn scheduler(trace: &mut Trace) -> impl Fn(u64, u64) -> Vec<HostSample> + use<> {
    let schedule = trace.stack(&[LOOP, SCHEDULE]);
    let step = trace.stack(&[LOOP]);
    let detok = trace.stack(&[DECODE]);
    move |_, ms| {
        let main = match ms {
            0..4 => state(HostState::Driver, step),
            4..7 => state(HostState::Running, schedule),
            7..9 => HostSample { holder: OTHER, ..state(HostState::GilWait, step) },
            _ => state(HostState::Runnable, step),
        };
        let other = HostSample { thread: OTHER, ..state(HostState::Running, detok) };
        vec![main, other]
    }
}

#[test]
fn the_idle_time_is_divided_among_lines_locks_and_processors() {
    let mut trace = Trace::new();
    let sample = scheduler(&mut trace);
    trace.decode(41, &[], sample);
    let report = trace.report();
    let stage = decode(&report);
    // The cold instance is in no number of the answer.
    assert_eq!(stage.samples, 40 * 6);
    assert_eq!((stage.window_ns, stage.idle_ns), (Some(40 * STEP), Some(40 * (STEP - BUSY))));
    assert_eq!(stage.threads, ["engine"]);
    // sqrt(p (1 - p) / 240).
    let expected = [
        ("Scheduler.schedule (scheduler.py:212)", (50.0, 3.2)),
        ("waiting for the GIL held by 'detok' in Tokenizer.decode (tokenizer.py:88)", (33.3, 3.0)),
        ("runnable, waiting for a processor", (16.7, 2.4)),
    ];
    let expected = expected.map(|(text, share)| (text.to_owned(), share));
    assert_eq!(shares(&stage.causes), expected.into());
    let sum: f64 = stage.causes.iter().map(|cause| cause.percent).sum();
    assert!((sum - 100.0).abs() < 1e-9, "{sum}");
    let first = stage.causes.first().expect("a cause");
    assert_eq!(first.kind, HostCauseKind::EngineCode);
    assert_eq!(
        first.stack,
        [
            "EngineCore.step (vllm/v1/engine/core.py:300)",
            "Scheduler.schedule (vllm/v1/core/sched/scheduler.py:212)"
        ]
    );
    let text = line(&report, "host");
    let begin = "decode waits 6.00 of 10.00 ms for the host in the mean call; of all GPU idle time (± standard \
                 error, 240 samples): 50 ± 3 % Scheduler.schedule (scheduler.py:212), 33 ± 3 % waiting for the GIL held by 'detok' in Tokenizer.decode \
                 (tokenizer.py:88)";
    assert!(text.starts_with(begin), "{text}");
    let window = line(&report, "window");
    let begin = "decode is bound by the host: the GPU waits 6.00 of 10.00 ms for it (60.0 % of the mean call); \
                 then the kernels 4.00 ms.";
    assert_eq!(window, begin);
    let first = line(&report, "first");
    assert!(first.contains("Scheduler.schedule (scheduler.py:212)"), "{first}");
    // Half of the idle time, which is 60 % of the window: 10 / 7.
    assert!(first.contains("1.43x faster"), "{first}");
}

#[test]
fn lines_of_one_function_are_one_cause_and_its_rows_stand_below_it() {
    let mut trace = Trace::new();
    let (function, file) = ("async_copy_to_gpu", "vllm/v1/worker/gpu/buffer_utils.py");
    let lines = [40, 41].map(|line| trace.stack(&[LOOP, (function, file, line)]));
    let elsewhere = trace.stack(&[LOOP, (function, "vllm/other.py", 41)]);
    // Of the six idle milliseconds, three are in line 40, two in line 41, and one in a function of the same name.
    let sample = move |_, ms: u64| {
        let stack = match ms {
            4..7 => lines[0],
            7..9 => lines[1],
            _ => elsewhere,
        };
        vec![state(HostState::Running, stack)]
    };
    trace.decode(41, &[], sample);
    let report = trace.report();
    let causes = &decode(&report).causes;
    let text = "async_copy_to_gpu (buffer_utils.py:40 and 1 more line)";
    // sqrt(p (1 - p) / 240): of the sum, not of the lines.
    let expected = [(text, (83.3, 2.4)), ("async_copy_to_gpu (other.py:41)", (16.7, 2.4))];
    assert_eq!(shares(causes), expected.map(|(text, share)| (text.to_owned(), share)).into());
    let first = causes.first().expect("the function");
    let lines: Vec<(u32, f64, u64)> =
        first.lines.iter().map(|line| (line.line, line.percent.round(), line.samples)).collect();
    assert_eq!(lines, [(40, 50.0, 120), (41, 33.0, 80)]);
    assert!(first.processes.is_empty(), "there is only one: {first:?}");
    let host = line(&report, "host");
    assert!(
        host.contains(": 83 ± 2 % async_copy_to_gpu (buffer_utils.py:40 and 1 more line)"),
        "{host}"
    );
    let first = line(&report, "first");
    assert!(
        first.contains(
            "Batch more requests or tokens per step, so that async_copy_to_gpu (buffer_utils.py:40 and 1 more line) runs \
             less often, or make it faster."
        ),
        "{first}"
    );
}

#[test]
fn a_cause_has_its_part_in_each_of_several_processes() {
    let run = tempfile::tempdir().expect("folder");
    let folder = run.path().join("collector");
    fs::create_dir_all(&folder).expect("folder");
    for (pid, in_scheduler) in [(7, 4..8), (8, 4..5)] {
        let mut trace = Trace::new();
        let process = Process { pid, host: "node".into(), ..Process::default() };
        trace.records.retain(|record| !matches!(record, Record::Process(_)));
        trace.records.insert(0, Record::Process(process));
        let [schedule, step] = [trace.stack(&[LOOP, SCHEDULE]), trace.stack(&[LOOP])];
        let sample = move |_, ms: u64| {
            let stack = if in_scheduler.contains(&ms) { schedule } else { step };
            vec![state(HostState::Running, stack)]
        };
        trace.decode(41, &[], sample);
        fs::write(folder.join(format!("node-{pid}.s2t")), trace.bytes()).expect("file");
    }
    let report = of(run.path());
    let causes = &decode(&report).causes;
    let scheduler = causes.iter().find(|cause| cause.text(true).starts_with("Scheduler.schedule"));
    let parts: Vec<(&str, f64)> = scheduler
        .iter()
        .flat_map(|cause| &cause.processes)
        .map(|process| (process.file.as_str(), process.percent))
        .collect();
    // Four milliseconds of each instance against one.
    assert_eq!(parts, [("node-7.s2t", 80.0), ("node-8.s2t", 20.0)]);
}

/// The sum of all shares.
fn total(causes: &[HostCause]) -> f64 {
    causes.iter().map(|cause| cause.percent).sum()
}

#[test]
fn time_in_calls_is_exact_and_the_rest_is_divided_by_samples() {
    for says_line in [true, false] {
        let mut trace = Trace::new();
        let sample = scheduler(&mut trace);
        let line = trace.stack(&[LOOP, ("sample", "vllm/v1/sample/sampler.py", 88)]);
        // 2.1 ms of each call are idle time; of the samples only every fourth instance has any.
        let some = |instance, ms| {
            let main = move |seen: HostSample| match (seen.thread, ms) {
                (MAIN, 3..6) => state(HostState::Driver, line),
                _ => seen,
            };
            let seen = if instance % 4 == 1 { sample(instance, ms) } else { Vec::new() };
            seen.into_iter().map(main).collect()
        };
        trace.decode(41, &[], some);
        let stack = if says_line { line } else { NONE };
        trace.calls(41, "cuStreamSynchronize", (3 * MS, 3 * MS + 100_000), stack);
        let report = trace.report();
        let causes = &decode(&report).causes;
        let shares = shares(causes);
        // Of 6 ms; 30 samples in calls agree on the line.
        let blocked = "blocked in cuStreamSynchronize from sample (sampler.py:88)";
        assert_eq!(shares[blocked], (35.0, if says_line { 0.0 } else { 1.1 }), "{shares:?}");
        // A fourth of the rest: one, two and one of four samples.
        let rest = 65.0 / 4.0;
        let near = |text: &str, share: f64| assert!((shares[text].0 - share * rest).abs() < 0.06);
        near("Scheduler.schedule (scheduler.py:212)", 0.25);
        near("waiting for the GIL held by 'detok' in Tokenizer.decode (tokenizer.py:88)", 0.5);
        near("unknown", 3.0);
        assert!((total(causes) - 100.0).abs() < 1e-9, "{shares:?}");
        assert_eq!(decode(&report).samples, 10 * 6);
        let stacks = &decode(&report).stacks;
        assert!(stacks.iter().any(|stack| stack.ns == 40 * 2_100_000), "{stacks:?}");
    }
}

#[test]
fn calls_that_no_sample_met_have_no_line_and_those_that_allocate_an_advice() {
    let mut trace = Trace::new();
    let sample = scheduler(&mut trace);
    trace.decode(41, &[], sample);
    trace.calls(41, "cuMemAlloc", (5_600_000, 800_000), NONE);
    // Behind the work of the instance, and in none.
    trace.calls(1, "cuEventSynchronize", (STEP * 100, 50 * MS), NONE);
    let report = trace.report();
    let causes = &decode(&report).causes;
    let shares = shares(causes);
    assert_eq!(shares["blocked in cuMemAlloc"], (13.3, 0.0));
    assert!((total(causes) - 100.0).abs() < 1e-9, "{shares:?}");
    assert!(shares.keys().all(|text| !text.contains("cuEvent")), "{shares:?}");
    let advice = decode(&report).advice.iter();
    let allocates = advice.filter(|known| known.kind == HostAdviceKind::Allocation);
    assert_eq!(allocates.map(|known| known.percent.round()).collect::<Vec<_>>(), [13.0]);
}

#[test]
fn work_of_another_stage_in_a_call_is_not_waited_for() {
    let mut trace = Trace::new();
    let sample = scheduler(&mut trace);
    let prefill = trace.name(b"prefill");
    trace.push(Record::Path(RangePath { id: 2, parent: NONE, name: prefill, domain: NONE }));
    let open = RangeOpen { range: 500, path: 2, thread: OTHER, ..RangeOpen::default() };
    trace.push(Record::RangeOpen(RangeOpen { start: MonoNs(900 * MS), ..open }));
    trace.push(Record::RangeClose { range: 500, end: MonoNs(910 * MS) });
    trace.decode(41, &[], sample);
    for instance in 0..41 {
        let start = 1_000 * MS + instance * STEP + 5 * MS + AHEAD;
        let work = GpuWork { queue: 1, range: 500, ..GpuWork::new(What::Kernel { shape: 2 }) };
        let (start, end) = (GpuNs(start), GpuNs(start + 600_000));
        trace.push(Record::Work(GpuWork { start, end, ..work }));
    }
    trace.calls(41, "cuCtxSynchronize", (3 * MS, 3 * MS), NONE);
    let report = trace.report();
    let stages = &report.host.as_ref().expect("samples").stages;
    let stage = stages.iter().find(|found| found.stage == "decode").expect("decode");
    let (shares, other) = (shares(&stage.causes), stage.other_work.expect("work of prefill"));
    assert!((other.percent - 10.0).abs() < 0.05, "{other:?}");
    // 3 ms of a step without the 0.6 ms of that, of 5.4 ms.
    let blocked: f64 =
        stage.causes.iter().filter(|cause| cause.called.is_some()).map(|cause| cause.percent).sum();
    assert!((total(&stage.causes) - 100.0).abs() < 1e-9 && blocked > 25.5, "{shares:?}");
}

#[test]
fn time_without_samples_is_unknown_and_a_busy_gpu_explains_nothing() {
    let mut trace = Trace::new();
    let sample = scheduler(&mut trace);
    // The sampler began in the middle.
    let late = |instance, ms| if instance < 21 { Vec::new() } else { sample(instance, ms) };
    trace.decode(41, &[], late);
    let report = trace.report();
    let stage = decode(&report);
    assert_eq!((stage.samples, stage.covered_percent), (20 * 6, 50.0));
    let shares = shares(&stage.causes);
    assert_eq!(shares["unknown"].0, 50.0);
    assert!(stage.causes.iter().all(|cause| cause.error_percent.is_sign_positive()));
    assert_eq!(shares["Scheduler.schedule (scheduler.py:212)"], (25.0, 2.3));
    let all: f64 = stage.causes.iter().map(|cause| cause.percent).sum();
    assert!((all - 100.0).abs() < 1e-9, "{all}");
    // Nothing of `EngineCore.step`, in which the thread was while the GPU worked.
    assert!(!shares.keys().any(|text| text.contains("EngineCore.step")), "{shares:?}");
}

#[test]
fn the_host_code_of_an_outlier_is_told_apart_from_that_of_the_usual_instances() {
    let mut trace = Trace::new();
    let sample = scheduler(&mut trace);
    let reload = trace.stack(&[LOOP, ("Adapters.load", "vllm/adapters.py", 7)]);
    trace.decode(41, &[], sample);
    let (start, end) = (1_500 * MS, 1_600 * MS);
    let open = RangeOpen { range: 900, path: 1, thread: MAIN, ..RangeOpen::default() };
    trace.push(Record::RangeOpen(RangeOpen { start: MonoNs(start), ..open }));
    trace.push(Record::RangeClose { range: 900, end: MonoNs(end) });
    let asleep = |ms| {
        let at = MonoNs(start + ms * MS + MS / 2);
        HostSample { at, interval_ns: MS, ..state(HostState::Sleep, reload) }
    };
    trace.push(Record::HostSamples((0..100).map(asleep).collect()));
    let work = GpuWork { queue: 1, range: 900, ..GpuWork::new(What::Kernel { shape: 2 }) };
    for begin in [start, end - MS] {
        let (start, end) = (GpuNs(begin + AHEAD), GpuNs(begin + AHEAD + MS));
        trace.push(Record::Work(GpuWork { start, end, ..work }));
    }
    let report = trace.report();
    let stage = decode(&report);
    let told = shares(&stage.outlier_causes);
    let expected = "sleeping in Adapters.load (adapters.py:7)";
    assert_eq!(told.keys().map(String::as_str).collect::<Vec<_>>(), [expected]);
    assert!(!shares(&stage.causes).contains_key(expected), "{:?}", stage.causes);
    let outliers = line(&report, "outliers");
    assert!(outliers.contains("a pause of 98.00 ms"), "{outliers}");
    assert!(outliers.contains(&format!(", 100 % of it {expected}; window")), "{outliers}");
}

#[test]
fn of_few_samples_there_are_no_shares() {
    let mut trace = Trace::new();
    let sample = scheduler(&mut trace);
    trace.decode(41, &[], |at, ms| if at % 10 == 3 { sample(at, ms) } else { Vec::new() });
    let report = trace.report();
    let stage = decode(&report);
    assert_eq!((stage.samples, stage.causes.len(), stage.advice.len()), (24, 0, 0));
    let text = line(&report, "host");
    assert!(text.contains("too few samples") && text.contains("24 samples"), "{text}");
    assert!(!line(&report, "first").contains("Scheduler"), "{}", line(&report, "first"));
}

#[test]
fn a_share_within_its_error_is_no_finding() {
    let mut trace = Trace::new();
    let schedule = trace.stack(&[LOOP, SCHEDULE]);
    let rare = trace.stack(&[LOOP, ("rare", "vllm/v1/engine/core.py", 5)]);
    trace.decode(41, &[], |at, ms| {
        let stack = if at == 9 && ms == 6 { rare } else { schedule };
        vec![state(HostState::Running, stack)]
    });
    let report = trace.report();
    let shares = shares(&decode(&report).causes);
    assert_eq!(shares.keys().map(String::as_str).collect::<Vec<_>>().len(), 2, "{shares:?}");
    assert_eq!(shares["smaller causes, each within its sampling error"].0, 0.4);
    // A comparison finds it where another run has more of it.
    let [small] = &decode(&report).small_causes[..] else { panic!("one that is small") };
    assert!((small.percent - 0.4).abs() < 0.05 && small.stack.is_empty(), "{small:?}");
    assert_eq!(small.frame.as_ref().map(|frame| frame.function.as_str()), Some("rare"));
}

#[test]
fn gaps_between_launches_and_work_of_other_stages_are_told_apart() {
    let mut trace = Trace::new();
    let schedule = trace.stack(&[LOOP, SCHEDULE]);
    let prefill = trace.name(b"prefill");
    trace.push(Record::Path(RangePath { id: 2, parent: NONE, name: prefill, domain: NONE }));
    // Short kernels around 5.5 ms leave a gap of 40 us there.
    let kernel = What::Kernel { shape: 2 };
    let short = [(kernel, 5_400_000, 80_000), (kernel, 5_520_000, 80_000)];
    trace.decode(41, &short, |_, _| vec![state(HostState::Running, schedule)]);
    let open = RangeOpen { range: 500, path: 2, thread: OTHER, ..RangeOpen::default() };
    trace.push(Record::RangeOpen(RangeOpen { start: MonoNs(900 * MS), ..open }));
    trace.push(Record::RangeClose { range: 500, end: MonoNs(910 * MS) });
    for instance in 0..41 {
        // Work of prefill in the eighth millisecond of each step.
        let start = 1_000 * MS + instance * STEP + 7 * MS + AHEAD;
        let work = GpuWork { queue: 1, range: 500, ..GpuWork::new(kernel) };
        let (start, end) = (GpuNs(start), GpuNs(start + MS));
        trace.push(Record::Work(GpuWork { start, end, ..work }));
    }
    let report = trace.report();
    let stages = &report.host.as_ref().expect("samples").stages;
    let stage = stages.iter().find(|found| found.stage == "decode").expect("decode");
    let other = stage.other_work.expect("work of prefill");
    assert_eq!((other.percent.round(), other.launch_gaps_percent), (17.0, 0.0), "one of six");
    // It is idle time of no cause, and of no page.
    assert!(stage.causes.iter().all(|cause| cause.kind != HostCauseKind::OtherWork));
    let sum: f64 = stage.causes.iter().map(|cause| cause.percent).sum();
    assert!((sum - 100.0).abs() < 1e-6, "{sum}");
    let line = stage.causes.first().expect("the scheduler");
    assert_eq!(line.launch_gaps_percent.round(), 20.0, "one of five: {line:?}");
    let answer = report.answer.stages.iter().find(|of| of.stage == "decode").expect("decode");
    let window = answer.window.as_ref().expect("a window");
    let ns = |kinds: &[WindowKind]| -> u64 {
        window.parts.iter().filter(|part| kinds.contains(&part.kind)).map(|part| part.ns).sum()
    };
    let idle_ns = ns(&[WindowKind::LaunchGaps, WindowKind::OtherIdle]);
    assert!(idle_ns.abs_diff(stage.idle_ns.expect("known")) <= 1, "{window:?} {stage:?}");
    assert!(ns(&[WindowKind::OtherWork]).abs_diff(idle_ns / 5) < MS, "{window:?}");
    let bottleneck = answer.bottleneck.as_ref().expect("known");
    let waits = bottleneck.parts.iter().find(|part| part.kind == BottleneckKind::Host);
    let steps = window.steps.expect("steps");
    assert!((waits.expect("host").ns as f64 - idle_ns as f64 / steps).abs() < 2.0);
    let idle = idle_ns as f64 * 100.0 / window.window_ns as f64;
    let said = format!("the GPU is idle {idle:.1} % of the window");
    let takeaways: Vec<&str> =
        report.insight.takeaways.iter().map(|told| told.text.as_str()).collect();
    assert!(takeaways.iter().any(|text| text.contains(&said)), "{said}: {takeaways:?}");
}

#[test]
fn launch_gaps_get_the_line_that_was_launching() {
    let mut trace = Trace::new();
    let (launch, other) = (trace.stack(&[LOOP]), trace.stack(&[LOOP, SCHEDULE]));
    // Kernels of 5 us with gaps of 40 us, but for the last millisecond.
    trace.kernel_ns = 5_000;
    let kernel = What::Kernel { shape: 2 };
    let short: Vec<_> = (1..200).map(|at| (kernel, at * 45_000, 5_000)).collect();
    trace.decode(41, &short, |_, ms| {
        vec![state(HostState::Running, if ms < 9 { launch } else { other })]
    });
    let report = trace.report();
    let takeaways = report.insight.takeaways.iter().map(|told| told.text.as_str());
    let stage = decode(&report);
    let most = stage.causes.first().expect("a line");
    assert_eq!(most.text(true), "EngineCore.step (core.py:300)");
    assert_eq!(most.launch_gaps_percent, most.percent, "{most:?}");
    let said: Vec<&str> = takeaways.collect();
    let words = "of at most 50 us, the largest part of these in EngineCore.step (core.py:300)";
    assert!(said.iter().any(|text| text.contains(words)), "{said:?}");
}

/// The advice of a run whose idle time is all like `sample`, behind `work`.
fn advice(
    frames: &[(&str, &str, u32)],
    work: &[(What, u64, u64)],
    how: HostSample,
) -> Vec<(HostAdviceKind, String)> {
    let mut trace = Trace::new();
    let stack = trace.stack(frames);
    let nonzero = trace.kernel(b"void at::native::(anonymous namespace)::NonZeroOp<bool>");
    assert_ne!(nonzero, 2);
    let work: Vec<_> = work
        .iter()
        .map(|&(what, from, ns)| match what {
            What::Kernel { .. } => (What::Kernel { shape: nonzero }, from, ns),
            what => (what, from, ns),
        })
        .collect();
    trace.decode(41, &work, |_, _| vec![HostSample { thread: MAIN, stack, ..how }]);
    let report = trace.report();
    let said = decode(&report).advice.iter();
    let said: Vec<_> = said.map(|known| (known.kind, known.remedy.clone())).collect();
    let first = line(&report, "first").to_owned();
    let is_told = |(_, remedy): &(_, String)| first.contains(remedy.get(..40).expect("words"));
    assert!(said.is_empty() || said.iter().any(is_told), "{first}: {said:?}");
    said
}

const USER: (&str, &str, u32) = ("generate", "/srv/app/serve.py", 42);

fn only(kind: HostAdviceKind, words: &str, said: &[(HostAdviceKind, String)]) {
    assert!(matches!(said, [(of, text)] if *of == kind && text.contains(words)), "{said:?}");
}

fn to_host(bytes: u64) -> (What, u64, u64) {
    (What::Copy { bytes, kind: 2 }, BUSY + 1_000, 2_000)
}

#[test]
fn reads_of_single_values_are_recognised() {
    let running = state(HostState::Running, 0);
    only(HostAdviceKind::Item, ".item()", &advice(&[USER], &[to_host(8)], running));
    assert_eq!(advice(&[USER], &[], running), [], "no copy, no advice");
    let waits = state(HostState::Poll, 0);
    assert_eq!(advice(&[USER], &[to_host(8)], waits), [], "it waits for something else");
}

#[test]
fn copies_to_the_host_are_recognised() {
    let running = state(HostState::Running, 0);
    only(HostAdviceKind::Copy, ".cpu()", &advice(&[USER], &[to_host(4_096)], running));
}

/// Hazard (Host samples): A copy that runs in the background precedes most idle time of an engine that overlaps steps,
///  and is blamed for it.
/// Promise: Only a copy that the launching thread was waiting for when it ended explains the idle time after it.
#[test]
fn a_copy_that_nobody_waits_for_explains_nothing() {
    let copies = |call: (u64, u64)| {
        let mut trace = Trace::new();
        let stack = trace.stack(&[USER]);
        trace.decode(41, &[to_host(4_096)], |_, _| {
            vec![HostSample { thread: MAIN, stack, ..state(HostState::Running, 0) }]
        });
        trace.calls(41, "cuEventSynchronize", call, stack);
        let report = trace.report();
        decode(&report).advice.iter().filter(|of| of.kind == HostAdviceKind::Copy).count()
    };
    assert_eq!(copies((7 * MS, 100_000)), 0, "a call long after it");
    assert_eq!(copies((3 * MS, 500_000)), 0, "a call long before its end");
    assert_eq!(copies((3 * MS, MS + 3_500)), 1, "a call that ends with it");
    assert_eq!(copies((4 * MS + 10_000, 100_000)), 1, "the wait behind its launch");
}

/// Hazard (Host samples): A host that never waits for the GPU limits every step, and the gain of removing a function
///  leaves out its time that overlaps GPU work.
/// Promise: That time counts if the launching thread never waits for the GPU, and only then.
#[test]
fn a_function_beside_gpu_work_counts_where_the_host_never_waits() {
    let first = |waits: bool| {
        let mut trace = Trace::new();
        let (slow, other) = (trace.stack(&[USER]), trace.stack(&[LOOP]));
        // The GPU works in the first 4 ms; the function runs from 2 to 9 ms.
        trace.decode(41, &[], |_, ms| {
            let stack = if (2..9).contains(&ms) { slow } else { other };
            vec![HostSample { thread: MAIN, stack, ..state(HostState::Running, 0) }]
        });
        if waits {
            trace.calls(41, "cuStreamSynchronize", (MS, MS), other);
        }
        let report = trace.report();
        let stage = decode(&report);
        assert_eq!(stage.never_waits(), !waits, "{}", stage.waits_for_work_percent);
        let cause = stage.causes.iter().find(|cause| cause.kind == HostCauseKind::UserCode);
        let beside = cause.expect("the function").beside_work_percent;
        assert!((beside - 20.0).abs() < 0.5, "{beside}");
        let mut takeaways = report.insight.takeaways.iter();
        let says = takeaways
            .any(|said| said.text.contains(" samples); while the GPU works, it takes another "));
        assert_eq!(says, !waits, "the reason of the gain has all that the gain has");
        line(&report, "first").to_owned()
    };
    let whole = first(false);
    // 5 of 6 idle ms, and 1 of the 2 beside work: then nothing is idle.
    assert!(whole.contains("if no time goes into generate (serve.py:42)"), "{whole}");
    assert!(whole.contains("which delays the next step as well, 1.00 = 6.00 ± "), "{whole}");
    let idle = first(true);
    assert!(idle.contains("if no idle time goes into generate (serve.py:42)"), "{idle}");
}

#[test]
fn sizes_that_depend_on_data_are_recognised() {
    let seek = (What::Kernel { shape: 0 }, BUSY, 500);
    let running = state(HostState::Running, 0);
    only(HostAdviceKind::Nonzero, "nonzero", &advice(&[USER], &[seek, to_host(8)], running));
}

#[test]
fn allocation_in_a_loop_is_recognised() {
    let in_driver = advice(&[USER], &[], state(HostState::Driver, 0));
    only(HostAdviceKind::Allocation, "empty_cache", &in_driver);
    let empties = [USER, ("empty_cache", "torch/cuda/memory.py", 170)];
    let said = advice(&empties, &[to_host(8)], state(HostState::Running, 0));
    only(HostAdviceKind::Allocation, "empty_cache", &said);
}

#[test]
fn tokenisation_on_the_thread_that_launches_is_recognised() {
    let frames = [USER, ("encode", "transformers/tokenization_utils_fast.py", 600)];
    let running = state(HostState::Running, 0);
    only(HostAdviceKind::Tokenisation, "Tokenise", &advice(&frames, &[], running));
}

#[test]
fn logging_is_recognised() {
    let library = "/usr/lib/python3.12/logging/__init__.py";
    let frames = [USER, ("Logger.info", library, 1_500), ("StreamHandler.emit", library, 1_100)];
    let said = advice(&frames, &[], state(HostState::Running, 0));
    only(HostAdviceKind::Logging, "Log less", &said);
}

#[test]
fn a_lack_of_processors_is_recognised() {
    let said = advice(&[USER], &[to_host(8)], state(HostState::Runnable, 0));
    only(HostAdviceKind::Starved, "more processors", &said);
}

#[test]
fn the_interpreters_lock_is_recognised() {
    let waits = HostSample { holder: OTHER, ..state(HostState::GilWait, 0) };
    only(HostAdviceKind::Gil, "multiprocessing", &advice(&[USER], &[], waits));
}

/// The kind of the cause that a stack and a state show.
fn kind_of(frames: &[(&str, &str, u32)], of: HostState) -> (HostCauseKind, String) {
    let mut trace = Trace::new();
    let stack = if frames.is_empty() { NONE } else { trace.stack(frames) };
    trace.decode(41, &[], |_, _| vec![state(of, stack)]);
    let report = trace.report();
    let cause = decode(&report).causes.first().cloned().expect("a cause");
    (cause.kind, cause.text(true))
}

#[test]
fn states_and_stacks_decide_what_the_time_went_into() {
    use HostCauseKind::*;
    let synchronize = [USER, ("synchronize", "torch/cuda/__init__.py", 1_000)];
    let barrier = [USER, ("barrier", "torch/distributed/distributed_c10d.py", 4_000)];
    let select = [
        USER,
        ("BaseEventLoop._run_once", "/usr/lib/python3.12/asyncio/base_events.py", 1_900),
        ("EpollSelector.select", "/usr/lib/python3.12/selectors.py", 468),
    ];
    let queue = [
        ("run_busy_loop", "vllm/v1/engine/core.py", 700),
        ("Queue.get", "/usr/lib/python3.12/queue.py", 171),
        ("Condition.wait", "/usr/lib/python3.12/threading.py", 355),
    ];
    let torch = [USER, ("Module._call_impl", "torch/nn/modules/module.py", 1_700)];
    let cases: [(&[_], HostState, HostCauseKind, &str); 12] = [
        (&[USER], HostState::Running, UserCode, "generate (serve.py:42)"),
        (&torch, HostState::Running, UserCode, "generate (serve.py:42)"),
        (&torch[1..], HostState::Running, FrameworkCode, "Module._call_impl (module.py:1700)"),
        (&[], HostState::Running, NativeCode, "native code of the thread 'engine'"),
        (&synchronize, HostState::Running, CudaCall, "in a CUDA call from generate (serve.py:42)"),
        (&[USER], HostState::Driver, CudaCall, "in a CUDA call from generate (serve.py:42)"),
        (
            &barrier,
            HostState::Poll,
            OtherRank,
            "waiting for another rank in generate (serve.py:42)",
        ),
        (&select, HostState::Poll, Requests, "waiting for requests in generate (serve.py:42)"),
        (&queue, HostState::Lock, Requests, "waiting for requests in run_busy_loop (core.py:700)"),
        (
            &[USER],
            HostState::Lock,
            Lock,
            "waiting for a lock or a thread in generate (serve.py:42)",
        ),
        (&[USER], HostState::Sleep, Sleep, "sleeping in generate (serve.py:42)"),
        (
            &[USER],
            HostState::Blocked,
            System,
            "blocked in a system call from generate (serve.py:42)",
        ),
    ];
    for (frames, state, kind, text) in cases {
        assert_eq!(kind_of(frames, state), (kind, text.to_owned()));
    }
}

#[test]
fn a_file_that_was_cut_anywhere_gives_a_report_of_the_rest() {
    let mut trace = Trace::new();
    let sample = scheduler(&mut trace);
    trace.decode(41, &[], sample);
    let bytes = trace.bytes();
    let mut known = 0;
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        let report = report(&bytes[..at]);
        let stages = report.host.iter().flat_map(|host| &host.stages);
        known += stages.filter(|stage| !stage.causes.is_empty()).count();
    }
    // One frame holds all of it: a file that lacks any of it lacks everything.
    assert_eq!(known, 0);
}

#[test]
fn hostile_names_and_stacks_cost_their_own_rows() {
    let mut trace = Trace::new();
    let evil = "<script>alert(1)</script>|\u{202e}\n\u{1b}[31m".repeat(4_000);
    let stack = trace.stack(&[(&evil, &evil, u32::MAX)]);
    // A stack that calls itself, one of a stack that is not there, and a frame that is not there.
    trace.push(Record::HostStack(HostStack { id: 900, parent: 900, frame: 1 }));
    trace.push(Record::HostStack(HostStack { id: 901, parent: 77_777, frame: 1 }));
    trace.push(Record::HostStack(HostStack { id: 902, parent: NONE, frame: 88_888 }));
    trace.push(Record::HostStack(HostStack { id: stack, parent: 902, frame: 1 }));
    let stacks = [stack, 900, 901, 902, 99_999];
    trace.decode(41, &[], |_, ms| {
        let stack = stacks[ms as usize % stacks.len()];
        let holder = if ms == 8 { 4_000_000 } else { NONE };
        let odd = HostSample { holder, ..state(HostState::Running, stack) };
        vec![odd, HostSample { thread: 3_000_000, ..odd }]
    });
    let report = trace.report();
    let stage = decode(&report);
    let sum: f64 = stage.causes.iter().map(|cause| cause.percent).sum();
    assert!((sum - 100.0).abs() < 1e-9, "{sum}");
    let texts = stage.causes.iter().map(|cause| cause.text(false));
    for text in texts.chain(stage.causes.iter().flat_map(|cause| cause.stack.clone())) {
        assert!(
            text.chars().count() < 400 && !text.contains(['\n', '\u{1b}', '\u{202e}']),
            "{text}"
        );
    }
}

#[test]
fn samples_against_the_order_of_time_are_left_out_and_counted() {
    let mut trace = Trace::new();
    let stack = trace.stack(&[USER]);
    trace.decode(41, &[], |_, _| vec![state(HostState::Running, stack)]);
    let sampling = HostSampling { asked_ns: MS, rounds: 9, torn: 2, ..HostSampling::default() };
    trace.push(Record::HostSampling(HostSampling { threads_left_out: 3, ..sampling }));
    let early =
        HostSample { at: MonoNs(1), interval_ns: u64::MAX, ..state(HostState::Lock, stack) };
    trace.push(Record::HostSamples(vec![early; 5]));
    let report = trace.report();
    let process = &report.host.as_ref().expect("samples").processes[0];
    // Two that were torn, as the collector says, and these.
    assert_eq!((process.samples, process.dropped), (415, 7));
    assert_eq!(process.asked_hz, Some(1_000.0));
    let note = "3 threads of the process were not looked at, because there were too many";
    assert_eq!(process.note.as_deref(), Some(note));
    assert_eq!(decode(&report).causes.len(), 1);
}

#[test]
fn a_thread_with_two_numbers_is_one_and_its_times_are_those_while_it_was_sampled() {
    let mut trace = Trace::new();
    let stack = trace.stack(&[USER]);
    // It was sampled before it launched: under another number.
    trace.push(Record::Thread { id: 9, os_tid: MAIN + 100, name: Vec::new() });
    for (thread, cpu, delay) in [(9, 50, 5), (MAIN, 80, 6), (9, 150, 15)] {
        let times = HostThread { thread, launches: true, ..HostThread::default() };
        let (cpu_ns, delay_ns) = (cpu * MS, delay * MS);
        trace.push(Record::HostThread(HostThread { cpu_ns, delay_ns, ..times }));
    }
    trace.decode(41, &[], |at, _| {
        let thread = if at % 2 == 0 { 9 } else { MAIN };
        vec![HostSample { thread, ..state(HostState::Running, stack) }]
    });
    let report = trace.report();
    assert_eq!((decode(&report).samples, decode(&report).covered_percent), (240, 100.0));
    let process = &report.host.as_ref().expect("samples").processes[0];
    assert_eq!((process.cpu_ns, process.delay_ns), (150 * MS, 15 * MS));
}

#[test]
fn without_samples_the_report_says_how_to_have_some() {
    let mut trace = Trace::new();
    trace.records.retain(|record| !matches!(record, Record::HostSampling(_)));
    trace.decode(41, &[], |_, _| Vec::new());
    trace.records.retain(|record| !matches!(record, Record::HostSamples(_)));
    let report = trace.report();
    assert_eq!((report.host.as_ref(), line(&report, "host")), (None, ""));
    let first = line(&report, "first");
    assert!(first.contains("kernel records do not show what it does"), "{first}");
    assert!(first.contains("STAGE2_HOST=on"), "{first}");
}

#[test]
fn a_process_that_was_not_sampled_says_why() {
    let mut trace = Trace::new();
    trace.records.retain(|record| !matches!(record, Record::HostSampling(_)));
    let why = "the interpreter is free-threaded: take a build with the GIL";
    trace.push(Record::Meta { key: "host.off".into(), value: why.into() });
    trace.decode(41, &[], |_, _| Vec::new());
    trace.records.retain(|record| !matches!(record, Record::HostSamples(_)));
    let report = trace.report();
    assert_eq!(line(&report, "host"), format!("not known: {why}"));
}
