//! Samples of the host's threads -> what the launching threads of a stage were doing while no work of the
//! stage ran.
//!
//! The first pass keeps the samples, and assigns them to the windows of stages. GPU work enters the file
//! long after it ran, so a second pass finds the samples at which the GPU was idle. Then only sums are kept.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::stats::BACK_TO_BACK_NS;
use stage2_contract::trace::{
    self, GpuNs, GpuWork, HostCall, HostSample, HostSampling, HostStack, HostState, HostThread,
    MonoNs, NONE, ReadError, Record, What,
};

use super::host_calls::{Blocked, BlockedTime, Call, Calls, Hits, Part, StageCalls};
use super::libraries::RangeNames;
use super::paths::PathIndex;
use super::placed::Placing;
use super::stats::Span;
use super::{Extent, ProcessCapture};
pub use crate::host_samples::{Moment, Sum};
use crate::host_samples::{Moments, ThreadNumbers};
use crate::host_stacks::HostStacks;

/// After this many samples, only every second moment is kept; after as many again, every fourth, and so on.
const SAMPLES: usize = 1 << 18;
/// The most pairs of a sample and a stage that contains it.
const MEMBERS: usize = 1 << 21;
/// The most sums of a stage.
const SUMS: usize = 1 << 15;
/// The longest time that a sample may stand for, ns: what is longer is not an interval of a sampler.
pub const LONGEST_NS: u64 = 60_000_000_000;
/// A call that waits for a copy may seem to begin after the end of the copy, or to end before it, by up to this time:
/// between the launch of the copy and the wait for it the thread is in no call, and the clocks differ.
const WAIT_SLACK_NS: u64 = 20_000;
/// A copy to the host of at most this many bytes is a single value.
const VALUE_BYTES: u64 = 16;
/// `CUpti_ActivityMemcpyKind`: from a device to the host.
const TO_HOST: u8 = 2;

/// The samples of the host of a process.
#[derive(Debug, Default)]
pub struct HostCapture {
    /// The last statistics of sampling; `None`: the file has none.
    sampling: Option<HostSampling>,
    /// The sum of the statistics of earlier pieces.
    earlier: HostSampling,
    /// Threads, by the number that samples have here: the first that was given to their `os_tid`.
    pub threads: FxHashMap<u32, Thread>,
    /// Samples in all stages, before some were left out to bound memory.
    pub samples: u64,
    /// Samples and calls that contradict the order of time, stand for no time, or had no room.
    pub left_out: u64,
    /// From the begin of the first sample to the last one, on the monotonic clock.
    pub extent: Extent,
    /// The stages with samples.
    pub stages: BTreeMap<PathIndex, StageIdle>,
    numbers: ThreadNumbers,
    pub(super) stacks: HostStacks,
    pending: Option<Pending>,
}

/// A thread of the guest.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its thread ID.
    pub os_tid: u32,
    /// Its name; may be empty.
    pub name: Vec<u8>,
    /// It launches GPU work, or opens ranges.
    pub launches: bool,
    /// Its time on a processor while it was sampled, ns; 0 where the kernel did not say.
    pub cpu_ns: u64,
    /// The time meanwhile that it was ready to run and waited for a processor, ns.
    pub delay_ns: u64,
    /// What the kernel said last: these times since the thread began.
    last: Option<(u64, u64)>,
}

impl Thread {
    /// Takes times since the thread began. Those of a later thread under the same number begin again.
    fn took(&mut self, cpu_ns: u64, delay_ns: u64) {
        let (cpu, delay) = self.last.filter(|last| last.0 <= cpu_ns).unwrap_or((cpu_ns, delay_ns));
        self.cpu_ns = self.cpu_ns.saturating_add(cpu_ns.saturating_sub(cpu));
        self.delay_ns = self.delay_ns.saturating_add(delay_ns.saturating_sub(delay));
        self.last = Some((cpu_ns, delay_ns));
    }
}

/// The samples of a stage, by the kind of the instance that they are in.
#[derive(Clone, Debug, Default)]
pub struct StageIdle {
    /// Samples of the usual instances.
    pub usual: Idle,
    /// Samples of the cold first instance.
    pub cold: Idle,
    /// Samples of outliers.
    pub outliers: Idle,
    /// The host time in the usual instances, in the order of time, except for waits for running GPU work: of processes with
    /// collectives.
    pub moments: Vec<Moment>,
    /// What the threads did at the moments.
    pub causes: Vec<Cause>,
}

impl StageIdle {
    /// All samples.
    pub fn all(&self) -> [&Idle; 3] {
        [&self.usual, &self.cold, &self.outliers]
    }

    fn of(&mut self, kind: InstanceKind) -> &mut Idle {
        match kind {
            InstanceKind::Usual => &mut self.usual,
            InstanceKind::Cold => &mut self.cold,
            InstanceKind::Outlier => &mut self.outliers,
        }
    }
}

/// What an instance of a stage is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum InstanceKind {
    /// Neither of the others.
    #[default]
    Usual,
    /// The first one.
    Cold,
    /// One that takes far longer than the others.
    Outlier,
}

/// Samples of the launching threads of a stage within its windows.
#[derive(Clone, Debug, Default)]
pub struct Idle {
    /// All samples, busy or idle.
    pub all: Sum,
    /// While no work of the stage ran, by what the thread was doing, outside of calls whose times are known.
    pub by_cause: FxHashMap<Cause, Sum>,
    /// Samples in such calls while no work of the stage ran.
    pub in_calls: Sum,
    /// The time of such calls while no work of the stage ran. It is exact, and all of it, sampled or not.
    pub calls: BTreeMap<Blocked, BlockedTime>,
    /// While work ran, and what ended next was a copy to the host: by the stack that most likely waits for it.
    pub before_copies: FxHashMap<u32, Sum>,
    /// Samples in which work of the stage ran and the thread ran code, by its stack; times in ns.
    pub beside_work: FxHashMap<u32, Sum>,
    /// Samples in which work of the stage ran and the thread was in a call that waits for the GPU; times in ns.
    pub waits_for_work: Sum,
}

/// What a thread was doing, according to its sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause {
    /// Its state.
    pub state: HostState,
    /// GPU work of another stage ran.
    pub other_work: bool,
    /// The number of the thread.
    pub thread: u32,
    /// Its stack; [`NONE`]: not known.
    pub stack: u32,
    /// The thread that it waited for; [`NONE`]: not known.
    pub holder: u32,
    /// The stack of that thread at the same moment; [`NONE`]: not known.
    pub holder_stack: u32,
    /// The sample is in a launch gap: the GPU was idle no longer than between back-to-back launches.
    pub launch_gap: bool,
    /// The last work of the GPU.
    pub after: After,
}

/// The work of the stage that ended last before the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum After {
    /// None, or another kind of work.
    #[default]
    Other,
    /// A copy of a single value to the host, such as from `.item()`.
    Value,
    /// A longer copy to the host.
    Copy,
    /// A copy of a count to the host, directly after kernels that look for nonzero values.
    Nonzero,
}

impl Idle {
    pub(super) fn cause(&mut self, cause: Cause, sum: &Sum) {
        let has_room = self.by_cause.len() < SUMS || self.by_cause.contains_key(&cause);
        let cause = if has_room { cause } else { Cause::default() };
        self.by_cause.entry(cause).or_default().add(sum);
    }
}

impl HostCapture {
    /// Whether sampling was requested for the process.
    pub(super) fn is_there(&self) -> bool {
        self.sampling.is_some() || self.samples > 0
    }
}

/// The window of an instance of a stage, on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) stage: PathIndex,
    /// The thread that opened it; [`NONE`]: not known.
    pub(super) thread: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The first instance of its stage.
    pub(super) cold: bool,
}

/// Samples of the first pass, in which it is not yet known what the GPU did.
#[derive(Debug, Default)]
struct Pending {
    /// In the order of time.
    samples: Vec<Sample>,
    by_thread: FxHashMap<u32, Vec<u32>>,
    members: FxHashMap<(PathIndex, u32), Members>,
    member_count: usize,
    calls: Calls,
    part_count: usize,
    last_at: u64,
    /// The number of moments so far; one in `one_in` is kept.
    moments: u64,
    one_in: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: u64,
    interval_ns: u64,
    thread: u32,
    stack: u32,
    holder: u32,
    state: HostState,
}

/// Samples in the windows that one thread opened.
#[derive(Debug, Default)]
struct Members {
    /// The end of the last window.
    until: u64,
    /// Indices of the samples, and what they are in, without regard to outliers.
    all: Vec<(u32, InstanceKind)>,
    calls: Vec<Part>,
}

impl HostCapture {
    /// Adds a frame. `find` returns the index of a name.
    pub(super) fn frame(&mut self, frame: &trace::HostFrame, find: impl Fn(u32) -> Option<u32>) {
        let (function, file) = (find(frame.function), find(frame.file));
        self.stacks.frame(frame.id, (function, file), frame.line);
    }

    /// Adds a stack.
    pub(super) fn stack(&mut self, stack: &HostStack) {
        self.stacks.stack(stack);
    }

    pub(super) fn thread(&mut self, id: u32, os_tid: u32, name: Vec<u8>) {
        let Some(number) = self.numbers.add(id, os_tid) else { return };
        let thread = self.threads.entry(number).or_default();
        thread.os_tid = os_tid;
        if !name.is_empty() {
            thread.name = name;
        }
    }

    pub(super) fn number(&self, thread: u32) -> u32 {
        self.numbers.get(thread)
    }

    pub(super) fn times(&mut self, times: &HostThread) {
        let number = self.number(times.thread);
        if let Some(thread) = self.threads.get_mut(&number) {
            thread.launches |= times.launches;
            thread.took(times.cpu_ns, times.delay_ns);
        }
    }

    pub(super) fn samples(&mut self, samples: &[HostSample]) {
        let mut pending = self.pending.take().unwrap_or_else(Pending::keeping_all);
        for sample in samples {
            self.samples += 1;
            let (thread, holder) = (self.number(sample.thread), self.number(sample.holder));
            let known = HostSample { thread, holder, ..*sample };
            let is_in_place = pending.push(&known);
            self.left_out += u64::from(!is_in_place);
            if is_in_place {
                let MonoNs(at) = sample.at;
                self.extent.add(at.saturating_sub(sample.interval_ns.min(LONGEST_NS)));
                self.extent.add(at);
            }
        }
        self.pending = Some(pending);
    }

    /// Takes what `find` knows the names of.
    pub(super) fn calls(&mut self, calls: &[HostCall], find: impl Fn(u32) -> Option<u32>) {
        let mut pending = self.pending.take().unwrap_or_else(Pending::keeping_all);
        for call in calls {
            let known = HostCall { thread: self.number(call.thread), ..*call };
            self.left_out += u64::from(!pending.calls.push(&known, find(call.name)));
        }
        self.pending = Some(pending);
    }

    /// Takes new statistics. In each piece of a trace, they start at zero.
    pub(super) fn sampling(&mut self, said: HostSampling) {
        let before = self.sampling.unwrap_or_default();
        if said.rounds < before.rounds {
            self.earlier = self.total_sampling();
        }
        self.sampling = Some(said);
    }

    /// Returns the statistics of sampling over all pieces of the trace.
    pub fn total_sampling(&self) -> HostSampling {
        let (last, earlier) = (self.sampling.unwrap_or_default(), self.earlier);
        let sum = |of: fn(&HostSampling) -> u64| of(&last).saturating_add(of(&earlier));
        HostSampling {
            sampled_ns: sum(|of| of.sampled_ns),
            rounds: sum(|of| of.rounds),
            late: sum(|of| of.late),
            samples: sum(|of| of.samples),
            torn: sum(|of| of.torn),
            unreadable: sum(|of| of.unreadable),
            cut: sum(|of| of.cut),
            lost: sum(|of| of.lost),
            backed_off: sum(|of| of.backed_off),
            calls: sum(|of| of.calls),
            short_calls: sum(|of| of.short_calls),
            lost_calls: sum(|of| of.lost_calls),
            own_cpu_ns: sum(|of| of.own_cpu_ns),
            own_delay_ns: sum(|of| of.own_delay_ns),
            ..last
        }
    }

    /// Assigns samples to the windows of instances that have closed.
    pub(super) fn windows(&mut self, windows: Vec<Window>) {
        let Some(mut pending) = self.pending.take() else { return };
        for window in windows {
            pending.window(&Window { thread: self.number(window.thread), ..window });
        }
        self.pending = Some(pending);
    }
}

impl Pending {
    fn keeping_all() -> Self {
        Self { one_in: 1, ..Self::default() }
    }

    /// Whether it is in its place, or not needed.
    fn push(&mut self, sample: &HostSample) -> bool {
        let HostSample { at: MonoNs(at), thread, state, holder, stack, interval_ns, .. } = *sample;
        if at < self.last_at || interval_ns == 0 {
            return false;
        }
        self.moments += u64::from(at != self.last_at);
        self.last_at = at;
        if !self.moments.is_multiple_of(self.one_in) {
            return true;
        }
        let interval_ns = interval_ns.min(LONGEST_NS).saturating_mul(self.one_in);
        let Ok(number) = u32::try_from(self.samples.len()) else { return false };
        self.samples.push(Sample { at, interval_ns, thread, stack, holder, state });
        self.by_thread.entry(thread).or_default().push(number);
        if self.samples.len().is_multiple_of(SAMPLES) {
            self.one_in = self.one_in.saturating_mul(2);
        }
        true
    }

    fn window(&mut self, window: &Window) {
        // Nor is there room then for stages and threads of whatever number.
        if self.member_count.saturating_add(self.members.len()) >= MEMBERS {
            return;
        }
        let Window { stage, thread, start, end, cold } = *window;
        let kind = if cold { InstanceKind::Cold } else { InstanceKind::Usual };
        let members = self.members.entry((stage, thread)).or_default();
        // The windows of one thread come in the order of time. Where they overlap, a sample counts once.
        let start = start.max(members.until);
        members.until = members.until.max(end);
        let threads = self.calls.threads().filter(|of| thread == NONE || *of == thread);
        let parts = threads.flat_map(|of| self.calls.within(of, start, end));
        let room = MEMBERS.saturating_sub(self.part_count);
        let before = members.calls.len();
        members.calls.extend(parts.take(room).map(|part| Part { kind, ..part }));
        self.part_count += members.calls.len() - before;
        let samples = &self.samples;
        let at = |number: &u32| samples.get(*number as usize).map_or(u64::MAX, |sample| sample.at);
        let mut add = |number: u32| {
            if self.member_count < MEMBERS {
                members.all.push((number, kind));
                self.member_count += 1;
            }
        };
        if thread == NONE {
            let first = samples.partition_point(|sample| sample.at < start);
            let behind = samples.partition_point(|sample| sample.at < end);
            (first..behind).filter_map(|number| u32::try_from(number).ok()).for_each(add);
        } else if let Some(own) = self.by_thread.get(&thread) {
            let first = own.partition_point(|number| at(number) < start);
            let within = own.iter().skip(first).take_while(|number| at(number) < end);
            within.for_each(|number| add(*number));
        }
    }

    /// Returns the stack of another thread at the same moment, if it was sampled then.
    fn stack_at(&self, thread: u32, at: u64) -> Option<u32> {
        let own = self.by_thread.get(&thread)?;
        let time = |number: &u32| self.samples.get(*number as usize).map(|sample| sample.at);
        let number = own.get(own.partition_point(|number| time(number) < Some(at)))?;
        self.samples.get(*number as usize).filter(|sample| sample.at == at).map(|s| s.stack)
    }
}

/// The times of samples, and the number of pieces of work that ran at each.
#[derive(Debug, Default)]
struct Times {
    at: Vec<u64>,
    /// The change in the number of running pieces of work from one sample to the next.
    more: Vec<i64>,
}

impl Times {
    fn of(at: Vec<u64>) -> Self {
        let more = vec![0; at.len() + 1];
        Self { at, more }
    }

    /// Adds a piece of work. Returns the indices of the first sample within it and of the first one after
    /// it.
    fn add(&mut self, start: u64, end: u64) -> (usize, usize) {
        let first = self.at.partition_point(|at| *at < start);
        let behind = self.at.partition_point(|at| *at < end).max(first);
        if first < behind {
            self.count(first, 1);
            self.count(behind, -1);
        }
        (first, behind)
    }

    fn count(&mut self, at: usize, change: i64) {
        if let Some(more) = self.more.get_mut(at) {
            *more = more.saturating_add(change);
        }
    }

    /// Returns for each sample whether any work ran.
    fn busy(&self) -> Vec<bool> {
        let running = self.more.iter().scan(0i64, |running, more| {
            *running = running.saturating_add(*more);
            Some(*running > 0)
        });
        running.take(self.at.len()).collect()
    }
}

/// The samples of a stage, and the work of it that is next to each.
#[derive(Debug)]
struct StageSamples {
    /// Indices of the samples, and what they are in.
    members: Vec<(u32, InstanceKind)>,
    times: Times,
    /// For each sample, the end and the kind of the work that ended last before it, and of the work that
    /// ends next.
    before: Vec<(u64, After)>,
    ending: Vec<(u64, After)>,
    /// For each sample, the start of the work that starts next.
    next: Vec<u64>,
    calls: StageCalls,
}

impl StageSamples {
    fn of(members: Vec<(u32, InstanceKind)>, calls: Vec<Part>, pending: &Pending) -> Self {
        let samples = &pending.samples;
        let at =
            |(number, _): &(u32, InstanceKind)| samples.get(*number as usize).map_or(0, |s| s.at);
        let times = Times::of(members.iter().map(at).collect());
        let count = members.len();
        Self {
            members,
            times,
            before: vec![(0, After::Other); count],
            ending: vec![(u64::MAX, After::Other); count],
            next: vec![u64::MAX; count],
            calls: StageCalls::of(calls, &pending.calls),
        }
    }

    fn add(&mut self, start: u64, end: u64, after: After) {
        let (first, behind) = self.times.add(start, end);
        if let Some(before) = self.before.get_mut(behind) {
            *before = (*before).max((end, after));
        }
        if let Some(ending) = behind.checked_sub(1).and_then(|at| self.ending.get_mut(at)) {
            *ending = (*ending).min((end, after));
        }
        if let Some(next) = first.checked_sub(1).and_then(|at| self.next.get_mut(at)) {
            *next = (*next).min(start);
        }
    }

    /// Carries the nearest work over to the samples between which no work starts or ends.
    fn spread(&mut self) {
        let mut last = (0, After::Other);
        for before in &mut self.before {
            last = last.max(*before);
            *before = last;
        }
        let mut nearest = (u64::MAX, After::Other);
        for ending in self.ending.iter_mut().rev() {
            nearest = nearest.min(*ending);
            *ending = nearest;
        }
        let mut nearest = u64::MAX;
        for next in self.next.iter_mut().rev() {
            nearest = nearest.min(*next);
            *next = nearest;
        }
    }

    fn sums(
        mut self,
        pending: &Pending,
        any_work: &[bool],
        waits: &Waits,
        with_moments: bool,
    ) -> StageIdle {
        self.spread();
        let mut found = StageIdle::default();
        let mut moments = Moments::default();
        let mut hits: [Hits; 3] = Default::default();
        let busy = self.times.busy();
        let work = self.before.iter().zip(&self.ending).zip(&self.next);
        for (((number, kind), busy), ((before, ending), next)) in
            self.members.iter().zip(busy).zip(work)
        {
            let Some(sample) = pending.samples.get(*number as usize) else { continue };
            let idle = found.of(*kind);
            let mut sum = Sum::default();
            sum.push(sample.interval_ns);
            idle.all.add(&sum);
            let call = pending.calls.at(sample.thread, sample.at);
            if let Some(call) = call {
                let lines =
                    of_kind(&mut hits, *kind).entry((call.name, sample.thread)).or_default();
                *lines.entry(sample.stack).or_default() += 1;
            }
            let waits_for_work = busy && call.is_some_and(|call| waits.for_gpu(call));
            let holder_stack = pending.stack_at(sample.holder, sample.at);
            let cause = Cause {
                state: sample.state,
                other_work: !busy && any_work.get(*number as usize).copied().unwrap_or(false),
                thread: sample.thread,
                stack: sample.stack,
                holder: sample.holder,
                holder_stack: holder_stack.unwrap_or(NONE),
                ..Cause::default()
            };
            if with_moments && *kind == InstanceKind::Usual && !waits_for_work {
                moments.push(sample.at, sample.interval_ns, cause);
            }
            if busy {
                if ending.1 != After::Other && idle.before_copies.len() < SUMS {
                    idle.before_copies.entry(sample.stack).or_default().add(&sum);
                }
                if waits_for_work {
                    idle.waits_for_work.add(&sum);
                } else if sample.state == HostState::Running && idle.beside_work.len() < SUMS {
                    idle.beside_work.entry(sample.stack).or_default().add(&sum);
                }
                continue;
            }
            let cause = Cause {
                launch_gap: next.saturating_sub(before.0) <= BACK_TO_BACK_NS,
                after: if waits.ended(pending, sample.thread, before.0) {
                    before.1
                } else {
                    After::Other
                },
                ..cause
            };
            match call {
                Some(_) => idle.in_calls.add(&sum),
                None => idle.cause(cause, &sum),
            }
        }
        (found.moments, found.causes) = (moments.all, moments.causes);
        [found.usual.calls, found.cold.calls, found.outliers.calls] = self.calls.sums(&mut hits);
        found
    }
}

/// Reads the GPU work of a process again, and replaces its samples by sums.
pub fn read_idle(capture: &mut ProcessCapture, libraries: &RangeNames) -> Result<(), ReadError> {
    let Some(mut pending) = capture.host.as_mut().and_then(|host| host.pending.take()) else {
        return Ok(());
    };
    let whole = capture.whole.as_ref().map(|whole| whole.path);
    let mono = |at: u64| capture.clock.mono(GpuNs(at)).map(|MonoNs(at)| at);
    if let (Some(stage), Some((first, last))) = (whole, capture.gpu_extent.0)
        && let (Some(start), Some(end)) = (mono(first), mono(last))
    {
        pending.window(&Window { stage, thread: NONE, start, end, cold: false });
    }
    let mut stages = stage_samples(capture, &mut pending);
    if stages.is_empty() {
        return Ok(());
    }
    let mut any_work = Times::of(pending.samples.iter().map(|sample| sample.at).collect());
    let mut placing = Placing::new(libraries, whole, capture.joined.clone());
    let mut copies = CopyKinds::default();
    for record in capture.trace()?.map_while(Result::ok) {
        let Record::Work(work) = &record else {
            placing.take(&record);
            continue;
        };
        let span = Span { start: work.start.0, end: work.end.0 };
        let Some((start, end)) = mono(span.start).zip(mono(span.end)).filter(|_| span.valid())
        else {
            continue;
        };
        any_work.add(start, end);
        let after = copies.kind(work, &placing, &capture.names);
        let of = placing.place(work).stage.map(|(path, _)| path);
        for (path, stage) in &mut stages {
            stage.calls.add(start, end, of == Some(*path));
        }
        if let Some(stage) = of.and_then(|of| stages.get_mut(&of)) {
            stage.add(start, end, after);
        }
    }
    let any_work = any_work.busy();
    let waits = Waits::of(&pending, &capture.names);
    // Only then can a rank be late.
    let with_moments = !capture.collectives.calls.is_empty();
    let sums = stages
        .into_iter()
        .map(|(path, stage)| (path, stage.sums(&pending, &any_work, &waits, with_moments)));
    let sums: BTreeMap<PathIndex, StageIdle> = sums.into_map();
    if let Some(host) = &mut capture.host {
        host.stages = sums;
    }
    Ok(())
}

/// Returns, for each stage with GPU work, the samples of its launching threads in the order of time.
fn stage_samples(
    capture: &ProcessCapture,
    pending: &mut Pending,
) -> FxHashMap<PathIndex, StageSamples> {
    let threads = capture.host.iter().flat_map(|host| &host.threads);
    let launching: BTreeSet<u32> =
        threads.filter(|(_, thread)| thread.launches).map(|(id, _)| *id).into_set();
    let mut members: FxHashMap<PathIndex, Members> = FxHashMap::default();
    for ((stage, thread), mut found) in std::mem::take(&mut pending.members) {
        let (samples, calls) = (&pending.samples, &pending.calls);
        let launches =
            |of: Option<u32>| thread != NONE || of.is_some_and(|of| launching.contains(&of));
        found.all.retain(|(number, _)| launches(samples.get(*number as usize).map(|of| of.thread)));
        found.calls.retain(|part| launches(calls.thread(part.call)));
        let all = members.entry(stage).or_default();
        all.all.append(&mut found.all);
        all.calls.append(&mut found.calls);
    }
    members.retain(|stage, of| {
        of.all.sort_unstable();
        of.all.dedup_by_key(|(number, _)| *number);
        let is_empty = of.all.is_empty() && of.calls.is_empty();
        let Some(known) = capture.stages.get(stage).filter(|_| !is_empty) else { return false };
        let tells_cold = known.times.as_ref().is_some_and(|times| times.warm.is_some());
        let kind_at = |at: Option<u64>, kind: InstanceKind| {
            let at = at.and_then(|at| capture.clock.gpu(MonoNs(at)));
            match kind {
                _ if at.is_some_and(|at| known.is_outlier(at.0)) => InstanceKind::Outlier,
                InstanceKind::Cold if tells_cold => InstanceKind::Cold,
                _ => InstanceKind::Usual,
            }
        };
        for (number, kind) in &mut of.all {
            let at = pending.samples.get(*number as usize).map(|sample| sample.at);
            *kind = kind_at(at, *kind);
        }
        for part in &mut of.calls {
            part.kind = kind_at(Some(part.start), part.kind);
        }
        known.busy.all.busy_ns > 0
    });
    let samples = |(stage, of): (_, Members)| (stage, StageSamples::of(of.all, of.calls, pending));
    members.into_iter().map(samples).collect()
}

/// The element of a kind.
pub(super) fn of_kind<T>([usual, cold, outliers]: &mut [T; 3], kind: InstanceKind) -> &mut T {
    match kind {
        InstanceKind::Usual => usual,
        InstanceKind::Cold => cold,
        InstanceKind::Outlier => outliers,
    }
}

/// Which calls wait for the GPU.
#[derive(Debug)]
struct Waits {
    /// Indices of the names of the capture.
    names: FxHashSet<u32>,
    /// The file has no calls at all, so that nothing states whether a thread waited.
    unknown: bool,
}

impl Waits {
    fn of(pending: &Pending, names: &[Vec<u8>]) -> Self {
        let is_wait = |name: &u32| {
            let name = names.get(*name as usize).map_or(&[][..], Vec::as_slice);
            name.starts_with(b"cuMemcpy") || name.windows(11).any(|part| part == b"Synchronize")
        };
        let unknown = pending.calls.is_empty();
        Self { names: pending.calls.names().filter(is_wait).collect(), unknown }
    }

    fn for_gpu(&self, call: &Call) -> bool {
        call.name.is_some_and(|name| self.names.contains(&name))
    }

    /// Whether a thread may have waited for work that ended at `end`, ns. A copy that nobody waits for does not
    /// explain the idle time after it.
    fn ended(&self, pending: &Pending, thread: u32, end: u64) -> bool {
        let (from, to) = (end.saturating_sub(WAIT_SLACK_NS), end.saturating_add(WAIT_SLACK_NS));
        let mut calls = pending.calls.within(thread, from, to);
        self.unknown
            || calls.any(|part| pending.calls.get(part.call).is_some_and(|of| self.for_gpu(of)))
    }
}

/// Distinguishes copies to the host by the work before them in their queue.
#[derive(Debug, Default)]
struct CopyKinds {
    /// By queue: whether the last kernel looked for nonzero values.
    seeks: FxHashMap<u32, bool>,
    names: FxHashMap<u32, bool>,
}

impl CopyKinds {
    fn kind(&mut self, work: &GpuWork, placing: &Placing, names: &[Vec<u8>]) -> After {
        match work.what {
            What::Kernel { shape } => {
                let name = placing.shape(shape).and_then(|(_, name)| name);
                let seeks = name.is_some_and(|name| {
                    let text = names.get(name as usize);
                    *self.names.entry(name).or_insert_with(|| text.is_some_and(|t| is_nonzero(t)))
                });
                self.seeks.insert(work.queue, seeks);
                After::Other
            }
            What::Copy { bytes, kind: TO_HOST } if bytes <= VALUE_BYTES => {
                let seeks = self.seeks.get(&work.queue).copied().unwrap_or(false);
                if seeks { After::Nonzero } else { After::Value }
            }
            What::Copy { kind: TO_HOST, .. } => After::Copy,
            _ => After::Other,
        }
    }
}

/// Whether a kernel looks for nonzero values, according to its name, such as those of PyTorch's `nonzero`.
fn is_nonzero(name: &[u8]) -> bool {
    let has = |part: &[u8]| name.windows(part.len()).any(|at| at.eq_ignore_ascii_case(part));
    has(b"nonzero")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending() -> Pending {
        Pending { one_in: 1, ..Pending::default() }
    }

    #[test]
    fn a_sample_that_stands_for_no_time_is_none() {
        let mut pending = pending();
        let sample = HostSample { at: MonoNs(5), interval_ns: 1, ..HostSample::default() };
        assert!(pending.push(&sample));
        assert!(!pending.push(&HostSample { interval_ns: 0, ..sample }));
        assert_eq!(pending.samples.len(), 1);
    }

    #[test]
    fn windows_of_any_number_of_threads_take_bounded_space() {
        let mut pending = Pending { member_count: MEMBERS - 5, ..pending() };
        for thread in 0..20 {
            pending.window(&Window { stage: 1, thread, start: 0, end: 9, cold: false });
        }
        assert_eq!(pending.members.len(), 5);
    }
}
