//! Samples of the host's threads -> for each stage, the causes of its idle time, in shares that add up to
//! 100 %, and the known problems among them.

pub(crate) mod advice;
mod late;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexSet;
use rustc_hash::FxHashMap;
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::numbers::counted;
use stage2_contract::text::visible;
use stage2_contract::trace::NONE;
use stage2_contract::trace::host::{NOTE, OFF, PYTHON};
use stage2_model::finding::Id;
use stage2_model::{
    Evidence, Finding, HOST_ERRORS_LEAST, HOST_SAMPLES_LEAST, HostCause, HostCauseKind,
    HostCauseProcess, HostFrame, HostLine, HostOtherWork, HostProcess, HostStackTime, HostStage,
    HostUse, StageRow,
};
use stage2_read::host_cause::{Calls, doing, named_thread, waits_for};
use stage2_read::trace::host::{Cause, HostCapture, Idle, Sum, Thread};
use stage2_read::trace::host_calls::{Blocked, BlockedTime};
use stage2_read::trace::{ProcessCapture, events};

use self::advice::Signs;

/// The most causes of a stage; those beyond count as unknown.
const CAUSES: usize = 1 << 12;
/// The most stacks of a stage that are collected, and that a report keeps.
const STACKS: usize = 1 << 15;
const STACKS_KEPT: usize = 500;
/// Frames of these: the outermost.
const STACK_KEPT: usize = 128;
/// Frames that are told apart.
const FRAMES: usize = 1 << 18;
/// The most frames of the stack of a cause; the innermost are kept. Flame graphs have all.
const STACK_SHOWN: usize = 8;
/// The most threads of a stage that are named.
const THREADS: usize = 8;

/// The samples of all processes, by the number of the stage in the run.
#[derive(Debug, Default)]
pub(crate) struct HostTotals {
    frames: IndexSet<HostFrame>,
    stages: BTreeMap<u32, Stage>,
    processes: Vec<HostProcess>,
    moments: late::Moments,
}

#[derive(Debug, Default)]
struct Stage {
    usual: Part,
    cold: Part,
    outliers: Part,
}

/// The samples of the instances of one kind.
#[derive(Debug, Default)]
struct Part {
    /// All samples in the windows.
    all: Sum,
    /// Those while the GPU was idle, outside of calls whose times are known.
    idle: Sum,
    /// Those in such calls.
    in_calls: Sum,
    /// Several threads of one process launch the work: the idle time of each counts.
    several_threads: bool,
    threads: BTreeSet<String>,
    causes: BTreeMap<CauseKey, CauseSum>,
    stacks: BTreeMap<Vec<u32>, StackTime>,
    signs: Signs,
    /// The lines that the threads were in directly before copies to the host ended.
    before_copies: BTreeMap<u32, Sum>,
    /// The lines of code that they ran while work ran, and the time that they waited for it in calls.
    beside_work: BTreeMap<u32, Sum>,
    waits_for_work: Sum,
}

/// The most causes of the idle time of outliers.
const OUTLIER_CAUSES: usize = 3;

/// What distinguishes one row from another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct CauseKey {
    kind: HostCauseKind,
    frame: Option<u32>,
    thread: Option<String>,
    /// The function of CUDA that the thread was in, if the times of its calls are known.
    call: Option<String>,
}

#[derive(Debug, Default)]
struct CauseSum {
    sum: Sum,
    /// Time that no sample stands for, because it is known exactly.
    exact: BlockedTime,
    launch_gaps_ns: u64,
    called: Option<String>,
    /// The stack with the longest time so far.
    stack: (u64, Vec<u32>),
    /// The time in each process, by its number in the run, ns.
    by_process: BTreeMap<usize, u64>,
}

impl CauseSum {
    /// Adds another one. The stack is that with the longest time.
    fn add(&mut self, more: &Self) {
        self.sum.add(&more.sum);
        self.exact.add(&more.exact);
        self.launch_gaps_ns = self.launch_gaps_ns.saturating_add(more.launch_gaps_ns);
        if self.called.is_none() {
            self.called.clone_from(&more.called);
        }
        if more.stack.0 > self.stack.0 {
            self.stack.clone_from(&more.stack);
        }
        more.by_process.iter().for_each(|(process, ns)| self.in_process(*process, *ns));
    }

    fn in_process(&mut self, process: usize, ns: u64) {
        let known = self.by_process.entry(process).or_default();
        *known = known.saturating_add(ns);
    }

    /// The time of the samples and of the calls, ns.
    fn ns(&self) -> u64 {
        self.sum.ns.saturating_add(self.exact.ns)
    }
}

impl HostTotals {
    /// Adds a process. `file` is the number of its file, and `path` returns the number in the run of a stage of the
    /// process.
    pub(crate) fn add_process(
        &mut self,
        file: u32,
        process: &mut ProcessCapture,
        path: impl Fn(u32) -> u32,
    ) {
        let Some(mut host) = process.host.take() else {
            self.processes.extend(off(process));
            return;
        };
        self.processes.push(of_process(process, &host));
        let number = self.processes.len().saturating_sub(1);
        let mut reading = Reading { process, number, host: &host, frames: &mut self.frames };
        for (stage, idle) in &host.stages {
            let known = self.stages.entry(path(*stage)).or_default();
            known.usual.add(&idle.usual, &mut reading);
            known.cold.add(&idle.cold, &mut reading);
            known.outliers.add(&idle.outliers, &mut reading);
            self.moments.add((path(*stage), file), idle, &mut reading);
        }
        // Timelines need the stacks again, not the sums.
        host.stages.clear();
        process.host = Some(host);
    }

    /// Returns the results; `None` if sampling was requested for no process. `label` returns the name of a
    /// stage.
    pub(crate) fn finish<'l>(
        self,
        label: impl Fn(u32) -> &'l str,
        rows: &[StageRow],
    ) -> Option<HostUse> {
        if self.processes.is_empty() {
            return None;
        }
        let mut names = IndexSet::new();
        let mut stages: BTreeMap<&str, Stage> =
            self.stages.into_iter().map(|(path, stage)| (label(path), stage)).into_map();
        let finish = |row: &StageRow| {
            let stage = stages.remove(row.stage.as_str())?;
            Some(stage.finish(row, &self.frames, &self.processes, &mut names))
        };
        let stages: Vec<HostStage> = rows.iter().filter_map(finish).collect();
        Some(HostUse { stages, processes: self.processes, names: names.into_iter().collect() })
    }
}

/// Threads that launch are short of processors if they wait for one for at least this part of the time that they run or
/// could run, percent, ...
const WAITS_PERCENT: u64 = 25;
/// ... and for as long in all, ns: short waits of a short run are not a property of the machine.
const WAITS_NS: u64 = 500_000_000;

/// That the launching threads of a process waited long for a processor, of each such process: exact times of the kernel.
pub(crate) fn overloaded(host: &HostUse) -> Vec<Finding> {
    let found = host.processes.iter().enumerate().filter_map(|(at, process)| {
        let HostProcess { file, delay_ns, cpu_ns, .. } = process;
        let all_ns = delay_ns.saturating_add(*cpu_ns);
        let percent = u128::from(*delay_ns) * 100 / u128::from(all_ns.max(1));
        if *delay_ns < WAITS_NS || percent < u128::from(WAITS_PERCENT) {
            return None;
        }
        let number = |name: &str, ns: u64| {
            Evidence::number(name, ns as f64, "ns", format!("/host/processes/{at}/{name}"))
        };
        let mut finding = Id::HostOverloaded.about(file).found(
            format!(
                "the processors are overloaded: the launching threads of {file} waited for one for {percent} % of the \
                 time in which they could run"
            ),
            "times include these waits, and differ from run to run",
            "end other programs, or give the process more processors, and run again",
        );
        finding.evidence = vec![number("delay_ns", *delay_ns), number("cpu_ns", *cpu_ns)];
        Some(finding)
    });
    found.collect()
}

/// Returns a process whose trace file states why it was not sampled.
fn off(process: &ProcessCapture) -> Option<HostProcess> {
    let off = visible(process.meta.get(OFF)?.as_bytes());
    let file = visible(process.file.as_bytes());
    Some(HostProcess { file, off: Some(off), ..HostProcess::default() })
}

fn of_process(process: &ProcessCapture, host: &HostCapture) -> HostProcess {
    let fact = |key: &str| process.meta.get(key).map(|value| visible(value.as_bytes()));
    let total = host.total_sampling();
    let launching = || host.threads.values().filter(|thread| thread.launches);
    let sum = |of: fn(&Thread) -> u64| launching().map(of).fold(0, u64::saturating_add);
    let hz = |ns: u64| (ns > 0).then(|| 1e9 / ns as f64);
    let reached = (total.rounds > 0 && total.sampled_ns > 0)
        .then(|| total.rounds as f64 * 1e9 / total.sampled_ns as f64);
    let percent = |part: u64, all: u64| (all > 0).then(|| part as f64 * 100.0 / all as f64);
    let left_out = (total.threads_left_out > 0).then(|| {
        let threads = counted(total.threads_left_out, "thread");
        format!("{threads} of the process were not looked at, because there were too many")
    });
    let notes: Vec<String> = fact(NOTE).into_iter().chain(left_out).collect();
    let dropped = [total.torn, total.unreadable, total.lost, total.lost_calls, host.left_out];
    HostProcess {
        file: visible(process.file.as_bytes()),
        python: fact(PYTHON),
        off: fact(OFF),
        note: (!notes.is_empty()).then(|| notes.join("; ")),
        asked_hz: hz(total.asked_ns),
        reached_hz: reached,
        samples: host.samples,
        dropped: dropped.into_iter().fold(0, u64::saturating_add),
        late_percent: percent(total.late, total.rounds),
        delay_ns: sum(|thread| thread.delay_ns),
        cpu_ns: sum(|thread| thread.cpu_ns),
        own_delay_ns: total.own_delay_ns,
        own_cpu_ns: total.own_cpu_ns,
    }
}

/// A process whose samples are being read.
struct Reading<'r> {
    process: &'r ProcessCapture,
    /// Its number in the run.
    number: usize,
    host: &'r HostCapture,
    frames: &'r mut IndexSet<HostFrame>,
}

impl Reading<'_> {
    /// Returns the frames of a stack by their numbers in the run, the innermost first.
    fn stack(&mut self, stack: u32) -> Vec<u32> {
        let frames: Vec<HostFrame> = self.host.lines(stack, &self.process.names).collect();
        frames.into_iter().filter_map(|frame| self.frame(frame)).collect()
    }

    fn frame(&mut self, frame: HostFrame) -> Option<u32> {
        let has_room = self.frames.len() < FRAMES || self.frames.contains(&frame);
        has_room.then(|| self.frames.insert_full(frame).0 as u32)
    }

    /// What a thread was doing.
    fn told(&mut self, cause: &Cause) -> Told {
        let own = self.stack(cause.stack);
        let holder = waits_for(cause.state, cause.holder);
        let kind = match cause.other_work {
            true => HostCauseKind::OtherWork,
            false => doing(cause.state, &self.calls(&own)),
        };
        // If the thread waits for another thread, that thread's line is responsible.
        let responsible =
            if holder.is_some() { self.stack(cause.holder_stack) } else { own.clone() };
        let calls = self.calls(&responsible);
        let row = calls.row().filter(|_| kind.has_line());
        // What a call of CUDA is called, only the call itself says.
        let called = row.filter(|_| kind != HostCauseKind::CudaCall);
        let called = called.and_then(|row| calls.called(row));
        let line = row.and_then(|_| calls.line());
        let frame = line.and_then(|frame| self.frame(frame));
        let thread = named_thread(kind, cause.thread, holder).map(|thread| self.thread(thread));
        Told { key: CauseKey { kind, frame, thread, call: None }, own, responsible, called }
    }

    fn calls(&self, stack: &[u32]) -> Calls<'_> {
        Calls::of(stack.iter().filter_map(|at| self.frames.get_index(*at as usize)))
    }

    fn thread(&self, id: u32) -> String {
        let known = self.host.threads.get(&id);
        let name = known.map_or_else(String::new, |thread| visible(&thread.name));
        events::Thread { os_tid: known.map_or(0, |thread| thread.os_tid), name: &name }.shown()
    }
}

/// A cause, the stack of the launching thread, that of the responsible one, and what it called in a library.
struct Told {
    key: CauseKey,
    own: Vec<u32>,
    responsible: Vec<u32>,
    called: Option<String>,
}

/// The time of a stack: that of samples, and that of calls whose times are known.
#[derive(Clone, Debug, Default)]
struct StackTime {
    sampled: Sum,
    in_calls: Sum,
}

/// Adds the time of stacks to the lines that stand for them.
fn add_rows(
    rows: &mut BTreeMap<u32, Sum>,
    stacks: &FxHashMap<u32, Sum>,
    reading: &mut Reading<'_>,
) {
    for (stack, sum) in stacks {
        let stack = reading.stack(*stack);
        let line = reading.calls(&stack).line();
        if let Some(row) = line.and_then(|frame| reading.frame(frame)) {
            rows.entry(row).or_default().add(sum);
        }
    }
}

impl Part {
    fn add(&mut self, idle: &Idle, reading: &mut Reading<'_>) {
        self.all.add(&idle.all);
        add_rows(&mut self.before_copies, &idle.before_copies, reading);
        add_rows(&mut self.beside_work, &idle.beside_work, reading);
        self.waits_for_work.add(&idle.waits_for_work);
        // In the same order each time.
        let mut causes: Vec<(&Cause, &Sum)> = idle.by_cause.iter().collect();
        causes.sort_unstable_by_key(|(cause, _)| **cause);
        for (cause, sum) in causes {
            self.cause(cause, sum, reading);
        }
        self.in_calls.add(&idle.in_calls);
        idle.calls.iter().for_each(|(blocked, time)| self.blocked(blocked, time, reading));
        let threads = idle.by_cause.keys().map(|cause| cause.thread);
        let threads: BTreeSet<u32> =
            threads.chain(idle.calls.keys().map(|blocked| blocked.thread)).into_set();
        self.several_threads |= threads.len() > 1;
    }

    /// Time in calls, which is exact.
    fn blocked(&mut self, blocked: &Blocked, time: &BlockedTime, reading: &mut Reading<'_>) {
        if self.threads.len() < THREADS {
            self.threads.insert(reading.thread(blocked.thread));
        }
        let own = reading.stack(blocked.stack);
        let calls = reading.calls(&own);
        let kind = match () {
            () if blocked.other_work => HostCauseKind::OtherWork,
            () if calls.waits_for_ranks() => HostCauseKind::OtherRank,
            () => HostCauseKind::CudaCall,
        };
        let line = calls.line().filter(|_| kind.has_line());
        let frame = line.and_then(|frame| reading.frame(frame));
        let call = blocked.text(&reading.process.names);
        if kind == HostCauseKind::CudaCall {
            self.signs.add_call(&call, frame, time);
        }
        let call = Some(call).filter(|_| kind == HostCauseKind::CudaCall);
        let (key, known) = self.known(CauseKey { kind, frame, thread: None, call });
        known.exact.add(time);
        known.in_process(reading.number, time.ns);
        known.called = key.call.clone();
        if time.ns > known.stack.0 {
            known.stack = (time.ns, own.clone());
        }
        let sum = Sum { samples: time.samples, ns: time.ns, squares: 0.0 };
        if let Some(known) = self.stack(own, &key, reading) {
            known.in_calls.add(&sum);
        }
    }

    /// The row of a cause; that of what is unknown, where there is no room for more.
    fn known(&mut self, mut key: CauseKey) -> (CauseKey, &mut CauseSum) {
        if self.causes.len() >= CAUSES && !self.causes.contains_key(&key) {
            key = CauseKey::default();
        }
        (key.clone(), self.causes.entry(key).or_default())
    }

    /// The time of a stack, the innermost frame of which comes first; the leaf is what the thread waited for.
    /// `None`: there is no room for more stacks, or it is not idle time.
    fn stack(
        &mut self,
        own: Vec<u32>,
        key: &CauseKey,
        reading: &mut Reading<'_>,
    ) -> Option<&mut StackTime> {
        if key.kind == HostCauseKind::OtherWork {
            return None;
        }
        let mut stack: Vec<u32> = own.into_iter().rev().take(STACK_KEPT).collect();
        if !key.kind.is_code() {
            let (kind, thread, called) = (key.kind, key.thread.clone(), key.call.clone());
            let waits = HostCause { kind, thread, called, ..HostCause::default() }.text(true);
            let leaf = HostFrame { function: waits, ..HostFrame::default() };
            stack.extend(reading.frame(leaf));
        }
        let has_room = self.stacks.len() < STACKS || self.stacks.contains_key(&stack);
        has_room.then(|| self.stacks.entry(stack).or_default())
    }

    fn cause(&mut self, cause: &Cause, sum: &Sum, reading: &mut Reading<'_>) {
        self.idle.add(sum);
        if cause.thread != NONE && self.threads.len() < THREADS {
            self.threads.insert(reading.thread(cause.thread));
        }
        let Told { key, own, responsible, called } = reading.told(cause);
        self.signs.add(cause, key.kind, &reading.calls(&own), key.frame, sum);
        let (key, known) = self.known(key);
        known.sum.add(sum);
        known.in_process(reading.number, sum.ns);
        let gap_ns = if cause.launch_gap { sum.ns } else { 0 };
        known.launch_gaps_ns = known.launch_gaps_ns.saturating_add(gap_ns);
        known.called = known.called.take().or(called);
        if sum.ns > known.stack.0 {
            known.stack = (sum.ns, responsible.clone());
        }
        if let Some(known) = self.stack(own, &key, reading) {
            known.sampled.add(sum);
        }
    }

    /// Takes out the time in which work of other stages ran: it is not idle time. Returns how much that was, and how
    /// times become shares of the rest.
    fn without_other_work(&mut self, shares: &Shares) -> (Option<HostOtherWork>, Shares) {
        let mut other = CauseSum::default();
        self.causes.retain(|key, of| {
            let is_other = key.kind == HostCauseKind::OtherWork;
            if is_other {
                other.add(of);
            }
            !is_other
        });
        let (percent, _) = shares.share(&other.sum, &other.exact, self);
        let sampled_ns = self.idle.ns.max(1) as f64;
        let found = HostOtherWork {
            percent,
            launch_gaps_percent: shares.gaps_percent(other.launch_gaps_ns, self),
        };
        let part = other.sum.ns as f64 / sampled_ns;
        // What no sample stands for stays idle time of which nothing is known.
        let outside = 1.0 - shares.covered * part;
        let idle_ns = (shares.idle_ns * (1.0 - percent / 100.0)).max(1.0);
        let shares = Shares {
            idle_ns,
            outside: (shares.idle_ns * shares.outside * outside / idle_ns).clamp(0.0, 1.0),
            covered: if outside > 0.0 { shares.covered * (1.0 - part) / outside } else { 0.0 },
        };
        self.idle.samples = self.idle.samples.saturating_sub(other.sum.samples);
        self.idle.ns = self.idle.ns.saturating_sub(other.sum.ns);
        self.idle.squares = (self.idle.squares - other.sum.squares).max(0.0);
        self.in_calls.samples = self.in_calls.samples.saturating_sub(other.exact.samples);
        ((percent > 0.0).then_some(found), shares)
    }

    fn merge(&mut self, other: Self) {
        self.all.add(&other.all);
        self.idle.add(&other.idle);
        self.in_calls.add(&other.in_calls);
        self.several_threads |= other.several_threads;
        self.threads.extend(other.threads);
        self.signs.merge(other.signs);
        for (frame, sum) in other.before_copies {
            self.before_copies.entry(frame).or_default().add(&sum);
        }
        for (frame, sum) in other.beside_work {
            self.beside_work.entry(frame).or_default().add(&sum);
        }
        self.waits_for_work.add(&other.waits_for_work);
        for (stack, time) in other.stacks {
            let known = self.stacks.entry(stack).or_default();
            known.sampled.add(&time.sampled);
            known.in_calls.add(&time.in_calls);
        }
        for (key, more) in other.causes {
            self.causes.entry(key).or_default().add(&more);
        }
    }
}

impl Stage {
    fn finish(
        self,
        row: &StageRow,
        frames: &IndexSet<HostFrame>,
        processes: &[HostProcess],
        names: &mut IndexSet<String>,
    ) -> HostStage {
        let Self { usual: mut part, cold, outliers } = self;
        // If there are usual instances, the answer is about these only.
        let usual = row.ordinary().filter(|_| part.all.samples > 0);
        let mut outlier_causes = Vec::new();
        if usual.is_none() {
            part.merge(cold);
            part.merge(outliers);
        } else if outliers.idle.samples.saturating_add(outliers.in_calls.samples)
            >= HOST_SAMPLES_LEAST
        {
            (outlier_causes, _) =
                causes(&outliers, &Shares::of(&outliers, None, 1.0), frames, processes);
            outlier_causes.truncate(OUTLIER_CAUSES);
        }
        let (window_ns, idle_ns) = match usual {
            Some(warm) => {
                let idle_ns = warm.gpu_window_ns.saturating_sub(warm.gpu_busy_ns);
                (Some(warm.gpu_window_ns), row.gpu_idle_ns.map(|_| idle_ns))
            }
            None => (row.gpu_window_ns, row.gpu_idle_ns),
        };
        let covered = window_ns.filter(|ns| *ns > 0);
        let covered = covered.map_or(1.0, |ns| (part.all.ns as f64 / ns as f64).min(1.0));
        let samples = |part: &Part| part.idle.samples.saturating_add(part.in_calls.samples);
        let is_enough = samples(&part) >= HOST_SAMPLES_LEAST;
        let mut shares = Shares::of(&part, idle_ns, covered);
        let mut other_work = None;
        if is_enough {
            (other_work, shares) = part.without_other_work(&shares);
        }
        let idle_ns = idle_ns.map(|ns| {
            let [gaps_ns, longer_ns, _] = HostOtherWork::split(other_work, 0, ns);
            gaps_ns + longer_ns
        });
        let stacks = stack_times(&part, &shares, frames, names);
        let (causes, small_causes) = match is_enough {
            true => causes(&part, &shares, frames, processes),
            false => Default::default(),
        };
        HostStage {
            stage: row.stage.clone(),
            window_ns,
            idle_ns,
            other_work,
            threads: part.threads.iter().cloned().collect(),
            samples: samples(&part),
            covered_percent: covered * 100.0,
            waits_for_work_percent: part.waits_for_work.percent_of(&part.all).0,
            causes,
            small_causes,
            advice: if is_enough { advice::advice(&part, &shares, frames) } else { Vec::new() },
            outlier_causes,
            stacks,
            stacks_of_ns: shares.idle_ns as u64,
        }
    }
}

/// How times of a part become shares of its idle time.
struct Shares {
    /// The idle time, ns. With calls whose times are known, it is the measured one.
    idle_ns: f64,
    /// What of it lies outside of such calls.
    outside: f64,
    /// What of that samples stand for.
    covered: f64,
}

impl Shares {
    /// `measured`: the idle time of the stage, ns; `covered`: what of it samples stand for.
    fn of(part: &Part, measured: Option<u64>, covered: f64) -> Self {
        let exact_ns = part.causes.values().fold(0u64, |sum, of| sum.saturating_add(of.exact.ns));
        let sampled_ns = part.idle.ns.saturating_add(part.in_calls.ns) as f64;
        // The measured time is that of one thread.
        let measured = measured.filter(|_| !part.several_threads).map(|ns| ns as f64);
        let estimated = if covered > 0.0 { sampled_ns / covered } else { sampled_ns };
        let idle_ns = measured.unwrap_or(estimated).max(exact_ns as f64).max(1.0);
        let covered = if part.idle.ns > 0 { covered } else { 0.0 };
        Self { idle_ns, outside: 1.0 - exact_ns as f64 / idle_ns, covered }
    }

    /// The share of samples and of exact times, and its standard error, percent.
    fn share(&self, sum: &Sum, exact: &BlockedTime, part: &Part) -> (f64, f64) {
        let (percent, error) = sum.percent_of(&part.idle);
        let sampled = self.outside * self.covered;
        let exact_error = exact.variance.sqrt() / self.idle_ns * 100.0;
        let percent = percent * sampled + exact.ns as f64 / self.idle_ns * 100.0;
        (percent, (error * sampled).hypot(exact_error))
    }

    /// The share of samples in launch gaps, percent.
    fn gaps_percent(&self, ns: u64, part: &Part) -> f64 {
        ns as f64 / part.idle.ns.max(1) as f64 * self.outside * self.covered * 100.0
    }
}

/// The causes, which add up to 100 %: of time that no sample stands for nothing is known, unless it is in calls. Next to
/// them those that are too small for a row.
fn causes(
    part: &Part,
    shares: &Shares,
    frames: &IndexSet<HostFrame>,
    processes: &[HostProcess],
) -> (Vec<HostCause>, Vec<HostCause>) {
    let frame = |at: u32| frames.get_index(at as usize);
    let several = part.causes.values().flat_map(|found| found.by_process.keys());
    let several = several.into_set().len() > 1;
    let row = |function: Function<'_>| {
        let found = &function.sum;
        let (percent, error_percent) = shares.share(&found.sum, &found.exact, part);
        let (beside_work_percent, beside_work_error_percent) = function.beside_work(part, frames);
        let shown = found.stack.1.iter().take(STACK_SHOWN).rev();
        HostCause {
            kind: function.key.kind,
            frame: function.hottest().and_then(frame).cloned(),
            lines: function.lines(part, shares, frames),
            called: found.called.clone(),
            thread: function.key.thread.clone(),
            percent,
            error_percent,
            samples: found.sum.samples.saturating_add(found.exact.samples),
            launch_gaps_percent: shares.gaps_percent(found.launch_gaps_ns, part),
            beside_work_percent,
            beside_work_error_percent,
            stack: shown.filter_map(|at| frame(*at)).map(|frame| frame.text()).collect(),
            processes: if several { in_processes(found, processes) } else { Vec::new() },
        }
    };
    let all = with_sure_lines(functions(part, frames).into_iter().map(row).collect());
    let is_small = |cause: &HostCause| {
        let has_error = !is_call(cause) || cause.frame.is_some();
        has_error && cause.is_finding() && is_within_error(cause)
    };
    let (small, mut rows): (Vec<HostCause>, Vec<HostCause>) = all.into_iter().partition(is_small);
    let together = |kind, of: &[HostCause]| {
        let sum = |number: fn(&HostCause) -> f64| of.iter().map(number).fold(0.0, |a, b| a + b);
        HostCause {
            kind,
            percent: sum(|cause| cause.percent),
            error_percent: sum(|cause| cause.error_percent.powi(2)).sqrt(),
            samples: of.iter().map(|cause| cause.samples).sum(),
            launch_gaps_percent: sum(|cause| cause.launch_gaps_percent),
            ..HostCause::default()
        }
    };
    if !small.is_empty() {
        rows.push(together(HostCauseKind::Small, &small));
    }
    let (unknown, mut rows): (Vec<HostCause>, Vec<HostCause>) =
        rows.into_iter().partition(|cause| cause.kind == HostCauseKind::Unknown);
    let mut unknown = together(HostCauseKind::Unknown, &unknown);
    unknown.percent += (1.0 - shares.covered) * shares.outside * 100.0;
    // What is left by rounding alone is none.
    rows.extend((unknown.percent > 1e-6).then_some(unknown));
    rows.order_by(|a, b| {
        let is_last = |cause: &HostCause| !cause.is_finding();
        is_last(a).cmp(&is_last(b)).then(b.percent.total_cmp(&a.percent))
    });
    let bare =
        |cause| HostCause { lines: Vec::new(), stack: Vec::new(), processes: Vec::new(), ..cause };
    (rows, small.into_iter().map(bare).collect())
}

/// The lines of a function that have the same cause.
struct Function<'p> {
    key: &'p CauseKey,
    sum: CauseSum,
    /// The line with the most time first.
    lines: Vec<(Option<u32>, &'p CauseSum)>,
}

impl Function<'_> {
    /// The share of the windows in which the threads ran it while work of the stage ran, and the error of that, percent.
    fn beside_work(&self, part: &Part, frames: &IndexSet<HostFrame>) -> (f64, f64) {
        let frame = |at: &u32| frames.get_index(*at as usize);
        let own = self.key.frame.as_ref().and_then(frame).filter(|_| self.key.kind.is_code());
        let Some(own) = own else { return (0.0, 0.0) };
        let mut sum = Sum::default();
        for (line, time) in &part.beside_work {
            if frame(line).is_some_and(|of| of.file == own.file && of.function == own.function) {
                sum.add(time);
            }
        }
        sum.percent_of(&part.all)
    }

    fn hottest(&self) -> Option<u32> {
        self.lines.first().and_then(|(frame, _)| *frame)
    }

    /// Empty if there is only one.
    fn lines(&self, part: &Part, shares: &Shares, frames: &IndexSet<HostFrame>) -> Vec<HostLine> {
        let line = |&(frame, found): &(Option<u32>, &CauseSum)| {
            let (percent, error_percent) = shares.share(&found.sum, &found.exact, part);
            let samples = found.sum.samples.saturating_add(found.exact.samples);
            let line = frames.get_index(frame? as usize)?.line;
            Some(HostLine { line, percent, error_percent, samples })
        };
        let several = self.lines.len() > 1;
        self.lines.iter().filter(|_| several).filter_map(line).collect()
    }
}

/// A loop over two lines is one cause: which of them a sample hits is chance.
fn functions<'p>(part: &'p Part, frames: &'p IndexSet<HostFrame>) -> Vec<Function<'p>> {
    let mut found: BTreeMap<_, Function<'p>> = BTreeMap::new();
    for (key, sum) in &part.causes {
        let frame = key.frame.and_then(|at| frames.get_index(at as usize));
        let function = frame.map(|frame| (frame.file.as_str(), frame.function.as_str()));
        let function = (key.kind, function, key.thread.as_deref(), key.call.as_deref());
        let (all, lines) = (CauseSum::default(), Vec::new());
        let known = found.entry(function).or_insert(Function { key, sum: all, lines });
        known.lines.push((key.frame, sum));
    }
    let mut found: Vec<Function<'p>> = found.into_values().collect();
    for function in &mut found {
        function.lines.order_by_key(|(frame, sum)| (Reverse(sum.ns()), *frame));
        function.lines.iter().for_each(|(_, sum)| function.sum.add(sum));
    }
    found
}

/// The processes that the time of a cause is in, the one with the most of it first.
fn in_processes(found: &CauseSum, processes: &[HostProcess]) -> Vec<HostCauseProcess> {
    let all: u64 = found.by_process.values().fold(0, |sum, ns| sum.saturating_add(*ns));
    let mut by_time: Vec<(&usize, &u64)> = found.by_process.iter().collect();
    by_time.order_by_key(|(process, ns)| (Reverse(**ns), **process));
    let share = |(process, ns): (&usize, &u64)| {
        let file = processes.get(*process)?.file.clone();
        Some(HostCauseProcess { file, percent: *ns as f64 * 100.0 / all.max(1) as f64 })
    };
    by_time.into_iter().filter_map(share).collect()
}

fn is_within_error(cause: &HostCause) -> bool {
    cause.percent < cause.error_percent * HOST_ERRORS_LEAST
}

/// Whether its time is known exactly; then only the line may have an error.
fn is_call(cause: &HostCause) -> bool {
    cause.kind == HostCauseKind::CudaCall && cause.called.is_some()
}

/// Where too few samples say from which line calls were, they count for their function.
fn with_sure_lines(all: Vec<HostCause>) -> Vec<HostCause> {
    let is_unsure =
        |cause: &HostCause| is_call(cause) && cause.frame.is_some() && is_within_error(cause);
    let (unsure, mut rows): (Vec<HostCause>, Vec<HostCause>) = all.into_iter().partition(is_unsure);
    for line in unsure {
        let is_same =
            |row: &&mut HostCause| is_call(row) && row.frame.is_none() && row.called == line.called;
        let Some(row) = rows.iter_mut().find(is_same) else {
            let (lines, stack) = (Vec::new(), Vec::new());
            rows.push(HostCause { frame: None, lines, stack, processes: Vec::new(), ..line });
            continue;
        };
        // The processes of parts of several rows are not known.
        row.processes.clear();
        row.percent += line.percent;
        row.error_percent = row.error_percent.hypot(line.error_percent);
        row.samples = row.samples.saturating_add(line.samples);
    }
    rows
}

/// The stacks with the longest time. As in [`causes`], a sample stands for its share of the idle time that was
/// measured.
fn stack_times(
    part: &Part,
    shares: &Shares,
    frames: &IndexSet<HostFrame>,
    names: &mut IndexSet<String>,
) -> Vec<HostStackTime> {
    let ns_of = |time: &StackTime| {
        let exact = BlockedTime { ns: time.in_calls.ns, ..BlockedTime::default() };
        let (percent, _) = shares.share(&time.sampled, &exact, part);
        (percent / 100.0 * shares.idle_ns) as u64
    };
    let mut all: Vec<(u64, &Vec<u32>, &StackTime)> =
        part.stacks.iter().map(|(stack, time)| (ns_of(time), stack, time)).collect();
    all.order_by_key(|(ns, stack, _)| (Reverse(*ns), *stack));
    all.truncate(STACKS_KEPT);
    let time = |(ns, stack, time): (u64, &Vec<u32>, &StackTime)| {
        let frames = stack.iter().filter_map(|at| frames.get_index(*at as usize));
        let text = |frame: &HostFrame| match frame.file.is_empty() {
            true => frame.function.clone(),
            false => frame.text(),
        };
        HostStackTime {
            stack: frames.map(|frame| names.insert_full(text(frame)).0).collect(),
            ns,
            samples: time.sampled.samples.saturating_add(time.in_calls.samples),
        }
    };
    all.into_iter().map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_waits_for_a_processor_are_a_warning() {
        let found = |delay_ns, cpu_ns| {
            let process = HostProcess { delay_ns, cpu_ns, ..HostProcess::default() };
            let processes = vec![HostProcess::default(), process];
            let found = overloaded(&HostUse { processes, ..HostUse::default() });
            found.first().map(|found| (found.what.clone(), found.evidence[0].source.clone()))
        };
        let (what, source) = found(WAITS_NS, 3 * WAITS_NS).expect("a warning");
        assert!(what.contains("waited for one for 25 % of the time"), "{what}");
        assert_eq!(source, "/host/processes/1/delay_ns");
        assert_eq!(
            (found(WAITS_NS, 3 * WAITS_NS + 100_000_000), found(WAITS_NS - 1, 0)),
            (None, None)
        );
        assert!(found(u64::MAX, u64::MAX).is_some());
    }

    #[test]
    fn sums_of_any_times_stay_sums() {
        let (process, host) = (ProcessCapture::default(), HostCapture::default());
        let mut frames = IndexSet::new();
        let (process, host) = (&process, &host);
        let mut reading = Reading { process, number: 0, host, frames: &mut frames };
        let mut part = Part::default();
        let cause = Cause { launch_gap: true, ..Cause::default() };
        let sum = Sum { samples: 1, ns: u64::MAX, squares: 1.0 };
        (0..2).for_each(|_| part.cause(&cause, &sum, &mut reading));
        let found: Vec<u64> = part.causes.values().map(|found| found.launch_gaps_ns).collect();
        assert_eq!(found, [u64::MAX]);
    }
}
