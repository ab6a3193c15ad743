//! Samples of the host and its calls that block -> what the launching threads of a process did in the last seconds
//! while no work ran on its GPUs.
//!
//! Causes are named as in a report: the lines of a function count together. A sample waits until it is known
//! when the GPUs worked; then it is part of the sums of its second. Nothing is asked of the process: the samples are
//! in its trace file.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use stage2_contract::order::Order as _;
use stage2_contract::text::{shorten, visible};
use stage2_contract::trace::{HostCall, HostSample, HostState, NONE, Record};
use stage2_model::{
    HOST_ERRORS_LEAST, HOST_SAMPLES_LEAST, HostCause, HostCauseKind, HostFrame, HostLine,
};
use stage2_read::host_cause::{Calls, doing, named_thread, waits_for};
use stage2_read::host_samples::ThreadNumbers;
use stage2_read::host_stacks::HostStacks;
use stage2_read::trace::events;
use stage2_read::trace::host::{LONGEST_NS, Sum};
use stage2_read::trace::host_calls::call_name;

use crate::WINDOW_S;
use crate::numbers::SLOT_NS;
use crate::settled::Settled;
use crate::tables::Tables;

/// Samples, and calls, that wait for the records of the GPU.
const WAITING: usize = 1 << 16;
/// Frames and stacks of a file that are kept; stacks whose cause is kept; distinct lines.
const STACKS: usize = 1 << 17;
const KNOWN: usize = 1 << 14;
const LINES: usize = 1 << 13;
/// Distinct causes in a second, and launching threads in it.
const CAUSES: usize = 1 << 10;
/// Rows of [`HostIdle::spent`].
const SPENT: usize = 128;
const LAUNCHING: usize = 1 << 8;
const THREADS: usize = 1 << 12;
const NAME_CHARS: usize = 40;

/// What the host did in the last seconds while no work ran on the GPUs of a process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostIdle {
    /// The time that was looked at, ns.
    pub ns: u64,
    /// The part of it in which no work ran, ns.
    pub idle_ns: u64,
    /// Samples of launching threads in that part.
    pub samples: u64,
    /// What these threads did, the largest share first. Only what exceeds its sampling error is here.
    pub causes: Vec<HostCause>,
    /// What they did in all of the time, whether work ran or not, in percent of `ns`, without waits for running work. The
    /// longest ones: those of two ranks tell why one is late.
    pub spent: Vec<HostCause>,
    /// Why there is no cause; `None` if there is one.
    pub why_none: Option<String>,
    /// The limits of the samples, as the collector reported them.
    pub note: Option<String>,
}

/// Lines of a function that a message has.
const LINES_TOLD: usize = 64;

/// What distinguishes one cause from another. Lines are numbers of [`Host::lines`], calls those of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    kind: HostCauseKind,
    line: Option<u32>,
    thread: Option<u32>,
    call: Option<u32>,
}

/// The lines of a function that have the same cause.
#[derive(Default)]
struct Function {
    samples: Sum,
    ns: u64,
    /// The line with the most time, and that time, ns.
    hottest: (u64, Key),
    /// Each line, with its samples, and its time in calls, ns.
    lines: Vec<(Key, Sum, u64)>,
}

impl Function {
    fn add(&mut self, key: Key, samples: &Sum, ns: u64) {
        self.samples.add(samples);
        self.ns = self.ns.saturating_add(ns);
        // In one order, whatever that of the map is.
        self.hottest = self.hottest.max((samples.ns.saturating_add(ns), key));
        self.lines.push((key, *samples, ns));
    }
}

/// The idle time of a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostSlot {
    ns: u64,
    idle_ns: u64,
    /// What samples stand for in all of it, busy or idle, ns.
    sampled_ns: u64,
    /// Samples in the idle time, outside of calls whose times are known and within them.
    outside: Sum,
    in_calls: Sum,
    /// Samples outside of calls, and time in calls, ns.
    causes: FxHashMap<Key, (Sum, u64)>,
    /// Samples of all the time but of waits for running work.
    spent: FxHashMap<Key, Sum>,
    threads: BTreeSet<u32>,
}

impl HostSlot {
    fn cause(&mut self, key: Key) -> &mut (Sum, u64) {
        let has_room = self.causes.len() < CAUSES || self.causes.contains_key(&key);
        self.causes.entry(if has_room { key } else { Key::default() }).or_default()
    }

    fn spend(&mut self, key: Key, samples: &Sum) {
        // Where a thread waits for the GIL is chance: it does so at many places, for a short time at each.
        let is_gil = key.kind == HostCauseKind::Gil;
        let key = if is_gil { Key { kind: key.kind, ..Key::default() } } else { key };
        let has_room = self.spent.len() < CAUSES || self.spent.contains_key(&key);
        self.spent.entry(if has_room { key } else { Key::default() }).or_default().add(samples);
    }

    fn launched(&mut self, thread: u32) {
        if self.threads.len() < LAUNCHING {
            self.threads.insert(thread);
        }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.ns = self.ns.saturating_add(more.ns);
        self.idle_ns = self.idle_ns.saturating_add(more.idle_ns);
        self.sampled_ns = self.sampled_ns.saturating_add(more.sampled_ns);
        self.outside.add(&more.outside);
        self.in_calls.add(&more.in_calls);
        for (key, (sum, ns)) in &more.causes {
            let known = self.cause(*key);
            known.0.add(sum);
            known.1 = known.1.saturating_add(*ns);
        }
        more.spent.iter().for_each(|(key, sum)| self.spend(*key, sum));
        more.threads.iter().for_each(|thread| self.launched(*thread));
    }
}

/// Times, ns.
type Spans<'s> = &'s [(u64, u64)];

/// Calls of a stage that are open in a part of the time, and the work of the stage in it, ns. All of them are disjoint
/// and ascending.
#[derive(Debug, Default)]
pub(crate) struct StageSpans {
    /// When any call is open, and when one that this thread opened is.
    pub(crate) all: Vec<(u64, u64)>,
    pub(crate) by_thread: FxHashMap<u32, Vec<(u64, u64)>>,
    pub(crate) work: Vec<(u64, u64)>,
}

/// What is final of the samples and calls of all threads.
struct Final {
    samples: Vec<HostSample>,
    stacks: FxHashMap<(u64, u32), u32>,
    /// By thread and begin.
    calls: Vec<HostCall>,
    /// When any work ran.
    busy: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    os_tid: u32,
    name: String,
    launches: bool,
}

#[derive(Debug)]
pub(crate) struct Host {
    stacks: HostStacks,
    threads: FxHashMap<u32, Thread>,
    numbers: ThreadNumbers,
    /// Threads that open ranges of the program, and when each opened the last one.
    openers: FxHashMap<u32, u64>,
    samples: Vec<HostSample>,
    calls: Vec<HostCall>,
    work: Settled,
    lines: Vec<HostFrame>,
    line_numbers: FxHashMap<HostFrame, u32>,
    /// The line that names the row of a stack, and what a thread does with it.
    rows: FxHashMap<u32, Option<u32>>,
    kinds: FxHashMap<(u32, HostState), HostCauseKind>,
    is_sampled: bool,
    /// Samples that came after their time was final.
    pub(crate) late: u64,
    /// Time of the late samples, and of calls that came after a part of their time was final, ns.
    pub(crate) late_ns: u64,
    settled: u64,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            stacks: HostStacks::with_limit(STACKS),
            threads: FxHashMap::default(),
            numbers: ThreadNumbers::with_limit(THREADS),
            openers: FxHashMap::default(),
            samples: Vec::new(),
            calls: Vec::new(),
            work: Settled::default(),
            lines: Vec::new(),
            line_numbers: FxHashMap::default(),
            rows: FxHashMap::default(),
            kinds: FxHashMap::default(),
            is_sampled: false,
            late: 0,
            late_ns: 0,
            settled: 0,
        }
    }
}

impl Host {
    /// Takes a record of the host; gives the time of the last sample in it. `skims`: only what later records refer to.
    pub(crate) fn take(&mut self, record: Record, skims: bool) -> Option<u64> {
        match record {
            Record::Thread { id, os_tid, name } => self.thread(id, os_tid, &name),
            Record::HostFrame(frame) => {
                self.stacks.frame(frame.id, (Some(frame.function), Some(frame.file)), frame.line);
            }
            Record::HostStack(stack) => self.stacks.stack(&stack),
            Record::HostThread(times) => {
                let number = self.number(times.thread);
                if let Some(thread) = self.threads.get_mut(&number) {
                    thread.launches |= times.launches;
                }
            }
            Record::HostSampling(_) => self.is_sampled = true,
            Record::HostSamples(samples) if !skims => return self.take_samples(samples),
            Record::HostCalls(calls) if !skims => {
                let room = WAITING.saturating_sub(self.calls.len());
                let own = |call: HostCall| HostCall { thread: self.number(call.thread), ..call };
                let calls: Vec<HostCall> = calls.into_iter().take(room).map(own).collect();
                for call in &calls {
                    let late_ns = call.end.0.min(self.settled).saturating_sub(call.begin.0);
                    self.late_ns = self.late_ns.saturating_add(late_ns);
                }
                self.calls.extend(calls);
            }
            _ => {}
        }
        None
    }

    fn take_samples(&mut self, samples: Vec<HostSample>) -> Option<u64> {
        self.is_sampled = true;
        let last = samples.iter().map(|sample| sample.at.0).max();
        for sample in samples.into_iter().filter(|sample| sample.interval_ns > 0) {
            if sample.at.0 < self.settled || self.samples.len() >= WAITING {
                self.late += 1;
                self.late_ns = self.late_ns.saturating_add(sample.interval_ns.min(LONGEST_NS));
                continue;
            }
            let (thread, holder) = (self.number(sample.thread), self.number(sample.holder));
            self.samples.push(HostSample { thread, holder, ..sample });
        }
        last
    }

    fn thread(&mut self, id: u32, os_tid: u32, name: &[u8]) {
        let Some(number) = self.numbers.add(id, os_tid) else { return };
        let thread = self.threads.entry(number).or_default();
        thread.os_tid = os_tid;
        if !name.is_empty() {
            thread.name = shorten(&visible(name), NAME_CHARS);
        }
    }

    fn number(&self, thread: u32) -> u32 {
        self.numbers.get(thread)
    }

    /// A thread opened a range of the program.
    pub(crate) fn opened(&mut self, thread: u32, at: u64) {
        let thread = self.number(thread);
        if self.openers.len() < LAUNCHING || self.openers.contains_key(&thread) {
            self.openers.insert(thread, at);
        }
    }

    /// Whether the idle time is that of this thread. The collector marks each thread that called CUDA, also one that only
    /// set it up and waits for the others since. As in a report, those count that open ranges, if there are any.
    fn counts(&self, thread: u32) -> bool {
        let launches = self.threads.get(&thread).is_some_and(|thread| thread.launches);
        launches && (self.openers.is_empty() || self.openers.contains_key(&thread))
    }

    /// Adds work that ran on a GPU of the process, ns. Returns whether too much waits now.
    pub(crate) fn worked(&mut self, start: u64, end: u64) -> bool {
        self.work.add(start, end);
        self.work.is_full()
    }

    /// Adds what is final before `to` to slots, each for the times, disjoint and ascending, that it is about, and to
    /// those of stages, each for its calls. All work is recorded in these.
    pub(crate) fn settle<'s>(
        &mut self,
        to: u64,
        slots: impl Iterator<Item = (&'s [(u64, u64)], &'s mut HostSlot)>,
        stages: impl Iterator<Item = (&'s StageSpans, &'s mut HostSlot)>,
        tables: &Tables,
    ) {
        self.settled = to;
        // A thread that opened its last range longer ago does something else now.
        self.openers.retain(|_, last| last.saturating_add(WINDOW_S * SLOT_NS) >= to);
        let busy = self.work.settle(to).pieces;
        if !self.is_sampled {
            return;
        }
        let begun = |call: &&HostCall| call.begin.0 < to;
        let mut calls: Vec<HostCall> = self.calls.iter().filter(begun).copied().collect();
        calls.sort_unstable_by_key(|call| (call.thread, call.begin.0));
        self.calls.retain(|call| call.end.0 > to);
        let (now, later): (Vec<HostSample>, Vec<HostSample>) =
            std::mem::take(&mut self.samples).into_iter().partition(|sample| sample.at.0 < to);
        self.samples = later;
        let stacks: FxHashMap<(u64, u32), u32> =
            now.iter().map(|sample| ((sample.at.0, sample.thread), sample.stack)).collect();
        let known = Final { samples: now, stacks, calls, busy };
        let length = |all: &[(u64, u64)]| all.iter().map(|(start, end)| end - start).sum::<u64>();
        for (spans, slot) in slots {
            let idle = without(spans, &known.busy);
            slot.ns = slot.ns.saturating_add(length(spans));
            slot.idle_ns = slot.idle_ns.saturating_add(length(&idle));
            self.divide(&known, None, (spans, &idle), tables, slot);
        }
        // As in a report: no work of the stage ran, and what its threads did counts in the calls that they opened.
        for (spans, slot) in stages {
            slot.ns = slot.ns.saturating_add(length(&spans.all));
            slot.idle_ns = slot.idle_ns.saturating_add(length(&without(&spans.all, &spans.work)));
            for (thread, windows) in &spans.by_thread {
                let (thread, idle) = (Some(self.number(*thread)), without(windows, &spans.work));
                self.divide(&known, thread, (windows, &idle), tables, slot);
            }
        }
    }

    /// Divides the idle part of a time among what a thread did in it: this one, or all that count.
    fn divide(
        &mut self,
        known: &Final,
        thread: Option<u32>,
        (spans, idle): (Spans<'_>, Spans<'_>),
        tables: &Tables,
        slot: &mut HostSlot,
    ) {
        let Final { samples, stacks, calls, busy } = known;
        let free = without(idle, busy);
        self.add_calls(calls, thread, (idle, &free), tables, slot);
        for sample in samples {
            if !self.is_of(sample.thread, thread) || !holds(spans, sample.at.0) {
                continue;
            }
            let interval_ns = sample.interval_ns.min(LONGEST_NS);
            slot.sampled_ns = slot.sampled_ns.saturating_add(interval_ns);
            let mut sum = Sum::default();
            sum.push(interval_ns);
            let of_holder = stacks.get(&(sample.at.0, sample.holder)).copied();
            let key = self.key(sample, of_holder.unwrap_or(NONE), tables);
            let is_busy = holds(busy, sample.at.0);
            if !(is_busy && key.kind == HostCauseKind::CudaCall) {
                slot.spend(key, &sum);
            }
            if !holds(idle, sample.at.0) {
                continue;
            }
            slot.launched(sample.thread);
            if is_in_call(calls, sample) {
                slot.in_calls.add(&sum);
                continue;
            }
            slot.outside.add(&sum);
            let other = Key { kind: HostCauseKind::OtherWork, ..Key::default() };
            slot.cause(if is_busy { other } else { key }).0.add(&sum);
        }
    }

    /// Whether a thread is this one, or counts where none is named.
    fn is_of(&self, thread: u32, named: Option<u32>) -> bool {
        named.map_or_else(|| self.counts(thread), |named| named == thread)
    }

    /// Adds the idle time in calls: what no work ran in is theirs, and the rest that of the other work.
    fn add_calls(
        &mut self,
        calls: &[HostCall],
        thread: Option<u32>,
        (idle, free): (Spans<'_>, Spans<'_>),
        tables: &Tables,
        slot: &mut HostSlot,
    ) {
        for call in calls {
            if !self.is_of(call.thread, thread) {
                continue;
            }
            let ns = part_in(idle, call);
            if ns == 0 {
                continue;
            }
            slot.launched(call.thread);
            let own_ns = part_in(free, call);
            if ns > own_ns {
                let other = slot.cause(Key { kind: HostCauseKind::OtherWork, ..Key::default() });
                other.1 = other.1.saturating_add(ns - own_ns);
            }
            let kind = self.kind(call.stack, HostState::Driver, tables);
            let line = self.row(call.stack, tables);
            let call = Some(call.name).filter(|_| kind == HostCauseKind::CudaCall);
            let known = slot.cause(Key { kind, line, thread: None, call });
            known.1 = known.1.saturating_add(own_ns);
        }
    }

    fn key(&mut self, sample: &HostSample, holder_stack: u32, tables: &Tables) -> Key {
        let kind = self.kind(sample.stack, sample.state, tables);
        let holder = waits_for(sample.state, sample.holder);
        // If the thread waits for another thread, that thread's line is responsible.
        let stack = if holder.is_some() { holder_stack } else { sample.stack };
        let line = if kind.has_line() { self.row(stack, tables) } else { None };
        let thread = named_thread(kind, sample.thread, holder);
        Key { kind, line, thread, call: None }
    }

    fn kind(&mut self, stack: u32, state: HostState, tables: &Tables) -> HostCauseKind {
        if let Some(known) = self.kinds.get(&(stack, state)) {
            return *known;
        }
        let frames = self.frames(stack, tables);
        let kind = doing(state, &Calls::of(frames.iter()));
        if self.kinds.len() >= KNOWN {
            self.kinds.clear();
        }
        self.kinds.insert((stack, state), kind);
        kind
    }

    /// The line that names the row of a stack.
    fn row(&mut self, stack: u32, tables: &Tables) -> Option<u32> {
        if let Some(known) = self.rows.get(&stack) {
            return *known;
        }
        let frames = self.frames(stack, tables);
        let line = Calls::of(frames.iter()).line().and_then(|frame| self.line(frame));
        if self.rows.len() >= KNOWN {
            self.rows.clear();
        }
        self.rows.insert(stack, line);
        line
    }

    fn frames(&self, stack: u32, tables: &Tables) -> Vec<HostFrame> {
        self.stacks.lines(stack, |name| tables.bytes(name)).collect()
    }

    fn line(&mut self, frame: HostFrame) -> Option<u32> {
        if let Some(known) = self.line_numbers.get(&frame) {
            return Some(*known);
        }
        let number = u32::try_from(self.lines.len()).ok().filter(|_| self.lines.len() < LINES)?;
        self.lines.push(frame.clone());
        self.line_numbers.insert(frame, number);
        Some(number)
    }

    /// The idle time of these seconds. Facts of the file are read by `fact`.
    pub(crate) fn idle<'s>(
        &self,
        slots: impl Iterator<Item = &'s HostSlot>,
        fact: impl Fn(&str) -> Option<String>,
        tables: &Tables,
    ) -> HostIdle {
        let mut sum = HostSlot::default();
        slots.for_each(|slot| sum.add(slot));
        let samples = sum.outside.samples.saturating_add(sum.in_calls.samples);
        let causes = match samples >= HOST_SAMPLES_LEAST {
            true => self.causes(&sum, tables),
            false => Vec::new(),
        };
        let off = fact(stage2_contract::trace::host::OFF);
        let why = || match off {
            Some(off) => format!("not sampled: {off}"),
            None if !self.is_sampled => "not sampled: STAGE2_HOST is off".to_owned(),
            None if samples == 0 && self.late > 0 => {
                "samples come too late; set STAGE2_FLUSH_MS to 1000 at most".to_owned()
            }
            None if sum.ns > 0 && sum.idle_ns == 0 => "no time is idle".to_owned(),
            None if samples == 0 => {
                "no launching thread was sampled while the GPU was idle".to_owned()
            }
            None if samples < HOST_SAMPLES_LEAST => {
                format!("too few samples: {samples}; shares need {HOST_SAMPLES_LEAST}")
            }
            None => "no cause exceeds its sampling error".to_owned(),
        };
        let why_none = causes.is_empty().then(why);
        let note = fact(stage2_contract::trace::host::NOTE);
        let spent = self.spent(&sum, tables);
        HostIdle { ns: sum.ns, idle_ns: sum.idle_ns, samples, causes, spent, why_none, note }
    }

    fn spent(&self, sum: &HostSlot, tables: &Tables) -> Vec<HostCause> {
        let functions = self.functions(sum.spent.iter().map(|(key, samples)| (key, samples, 0)));
        let percent = |ns: f64| ns / sum.ns.max(1) as f64 * 100.0;
        let mut all: Vec<(Key, HostCause)> = functions
            .into_iter()
            .map(|Function { samples, hottest: (_, key), .. }| {
                let (of, error) = (percent(samples.ns as f64), percent(samples.squares.sqrt()));
                let cause =
                    HostCause { percent: of, error_percent: error, ..self.cause(&key, tables) };
                (key, HostCause { samples: samples.samples, ..cause })
            })
            .collect();
        all.order_by(|a, b| b.1.percent.total_cmp(&a.1.percent).then(a.0.cmp(&b.0)));
        all.into_iter().map(|(_, cause)| cause).take(SPENT).collect()
    }

    /// The lines of each function together.
    fn functions<'k>(
        &self,
        all: impl Iterator<Item = (&'k Key, &'k Sum, u64)>,
    ) -> impl Iterator<Item = Function> {
        let mut functions: BTreeMap<_, Function> = BTreeMap::new();
        for (key, samples, ns) in all {
            let function = self.line_of(key).map(|line| (&*line.file, &*line.function));
            let of = functions.entry((key.kind, function, key.thread, key.call)).or_default();
            of.add(*key, samples, ns);
        }
        functions.into_values()
    }

    fn line_of(&self, key: &Key) -> Option<&HostFrame> {
        self.lines.get(key.line? as usize)
    }

    fn cause(&self, key: &Key, tables: &Tables) -> HostCause {
        HostCause {
            kind: key.kind,
            frame: self.line_of(key).cloned(),
            called: key.call.map(|name| call_name(tables.bytes(name))),
            thread: key.thread.map(|thread| self.thread_name(thread)),
            ..HostCause::default()
        }
    }

    fn causes(&self, sum: &HostSlot, tables: &Tables) -> Vec<HostCause> {
        let exact_ns = sum.causes.values().fold(0u64, |all, (_, ns)| all.saturating_add(*ns));
        // The idle time is that of one thread; of several threads it is what their samples and calls say.
        let whole_ns = match sum.threads.len() {
            0 | 1 => sum.idle_ns.max(exact_ns),
            _ => sum.outside.ns.saturating_add(exact_ns),
        };
        let whole = whole_ns.max(1) as f64;
        let covered = match sum.threads.len() {
            0 | 1 => (sum.sampled_ns as f64 / sum.ns.max(1) as f64).min(1.0),
            _ => 1.0,
        };
        let outside = (1.0 - exact_ns as f64 / whole) * covered;
        let functions = sum.causes.iter().map(|(key, (samples, ns))| (key, samples, *ns));
        let share = |samples: &Sum, ns: u64| {
            let (percent, error) = samples.percent_of(&sum.outside);
            (percent * outside + ns as f64 / whole * 100.0, error * outside)
        };
        let line = |(key, samples, ns): &(Key, Sum, u64)| {
            let (percent, error_percent) = share(samples, *ns);
            let line = self.line_of(key)?.line;
            Some(HostLine { line, percent, error_percent, samples: samples.samples })
        };
        let cause = |Function { samples, ns, hottest: (_, key), lines }| {
            let (percent, error_percent) = share(&samples, ns);
            let mut lines: Vec<HostLine> = lines.iter().filter_map(line).collect();
            lines.order_by(|a, b| b.percent.total_cmp(&a.percent).then(a.line.cmp(&b.line)));
            // The only line of a function has the numbers of it.
            lines.truncate(if lines.len() == 1 { 0 } else { LINES_TOLD });
            let samples = samples.samples;
            let named = self.cause(&key, tables);
            let cause = HostCause { percent, error_percent, samples, lines, ..named };
            (key, cause)
        };
        let mut causes: Vec<(Key, HostCause)> = self.functions(functions).map(cause).collect();
        causes.retain(|(_, cause)| {
            // Work of other stages is no cause: as in a report, it is taken out of the idle time whatever its error is.
            let is_sure = cause.percent >= cause.error_percent * HOST_ERRORS_LEAST
                || cause.kind == HostCauseKind::OtherWork;
            cause.is_finding() && cause.percent > 0.0 && is_sure
        });
        causes.order_by(|a, b| b.1.percent.total_cmp(&a.1.percent).then(a.0.cmp(&b.0)));
        causes.into_iter().map(|(_, cause)| cause).collect()
    }

    fn thread_name(&self, thread: u32) -> String {
        let known = self.threads.get(&thread);
        let (os_tid, name) = known.map_or((0, ""), |known| (known.os_tid, known.name.as_str()));
        events::Thread { os_tid, name }.shown()
    }
}

/// The parts of `spans` outside all pieces of `busy`, ns; both are disjoint and ascending.
fn without(spans: &[(u64, u64)], busy: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut free, mut first) = (Vec::new(), 0);
    for &(start, end) in spans {
        while busy.get(first).is_some_and(|piece| piece.1 <= start) {
            first += 1;
        }
        let mut from = start;
        for piece in busy.iter().skip(first).take_while(|piece| piece.0 < end) {
            free.extend((from < piece.0).then_some((from, piece.0)));
            from = from.max(piece.1);
        }
        free.extend((from < end).then_some((from, end)));
    }
    free
}

/// How much of `spans` is in a call, ns.
fn part_in(spans: Spans<'_>, call: &HostCall) -> u64 {
    let first = spans.partition_point(|span| span.1 <= call.begin.0);
    let within = spans.iter().skip(first).take_while(|span| span.0 < call.end.0);
    within.map(|span| span.1.min(call.end.0).saturating_sub(span.0.max(call.begin.0))).sum()
}

fn holds(spans: &[(u64, u64)], at: u64) -> bool {
    let next = spans.partition_point(|span| span.1 <= at);
    spans.get(next).is_some_and(|span| span.0 <= at)
}

/// Whether the thread was in one of the calls, which are sorted by thread and begin.
fn is_in_call(calls: &[HostCall], sample: &HostSample) -> bool {
    let at = (sample.thread, sample.at.0);
    let next = calls.partition_point(|call| (call.thread, call.begin.0) <= at);
    let last = next.checked_sub(1).and_then(|last| calls.get(last));
    last.is_some_and(|call| call.thread == sample.thread && sample.at.0 < call.end.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stage2_contract::trace::{self, HostSampling, HostStack, HostThread, MonoNs};

    use super::*;

    const MS: u64 = 1_000_000;

    /// Names of the file: functions and files of frames, and a call.
    fn tables() -> Tables {
        let mut tables = Tables::new();
        let names = ["Scheduler.schedule", "/srv/serve.py", "decode", "/srv/text.py", "cuMemAlloc"];
        (1..).zip(names).for_each(|(id, name)| tables.name(id, name.into()));
        tables
    }

    /// Thread 1 launches; `detok` is thread 2. Stack 1 is in the scheduler, stack 2 in `decode`.
    fn host() -> Host {
        let mut host = Host::default();
        let thread =
            |id: u32, name: &str| Record::Thread { id, os_tid: 100 + id, name: name.into() };
        let frame = |id: u32, line| {
            let (function, file) = (2 * id - 1, 2 * id);
            Record::HostFrame(trace::HostFrame { id, function, file, line })
        };
        let stack = |id| Record::HostStack(HostStack { id, parent: NONE, frame: id });
        let launches = HostThread { thread: 1, launches: true, ..HostThread::default() };
        let records = [
            thread(1, "main"),
            thread(2, "detok"),
            frame(1, 212),
            frame(2, 88),
            stack(1),
            stack(2),
            Record::HostThread(launches),
            Record::HostSampling(HostSampling::default()),
        ];
        records.into_iter().for_each(|record| {
            host.take(record, false);
        });
        host
    }

    fn sample(at: u64, thread: u32, state: HostState, stack: u32) -> HostSample {
        let holder = if state == HostState::GilWait { 2 } else { NONE };
        let (at, interval_ns) = (MonoNs(at), MS);
        HostSample { at, thread, state, stack, holder, interval_ns, ..HostSample::default() }
    }

    fn found(host: &Host, slot: &HostSlot) -> HostIdle {
        host.idle([slot].into_iter(), |_| None, &tables())
    }

    fn rows(idle: &HostIdle) -> Vec<(u64, String)> {
        idle.causes.iter().map(|cause| (cause.percent.round() as u64, cause.text(true))).collect()
    }

    /// A second in which the GPU is busy from 400 ms on, and idle before: 200 ms in a line, 120 ms for the GIL and
    /// 80 ms in a call.
    fn settle(
        host: &mut Host,
        to: u64,
        spans: &[(u64, u64)],
        tables: &Tables,
        slot: &mut HostSlot,
    ) {
        host.settle(to, std::iter::once((spans, slot)), std::iter::empty(), tables);
    }

    /// Hazard (Watching what runs): Another stage works while the calls of a stage wait, and another thread sleeps.
    /// Promise: As in a report, the idle time of a stage is that without its own work, the work of another stage is one of
    /// its causes, and only the thread that opened the calls counts.
    #[test]
    fn the_idle_time_of_a_stage_is_that_in_its_calls_without_its_own_work() {
        let mut host = host();
        let launches = HostThread { thread: 2, launches: true, ..HostThread::default() };
        host.take(Record::HostThread(launches), false);
        host.worked(0, 200 * MS);
        host.worked(500 * MS, 700 * MS);
        let one = (0..1_000).map(|at| sample(at * MS, 1, HostState::Running, 1));
        let two = (0..1_000).map(|at| sample(at * MS, 2, HostState::Sleep, 2));
        let mut all: Vec<HostSample> = one.chain(two).collect();
        all.sort_by_key(|sample| sample.at);
        host.take(Record::HostSamples(all), false);
        let calls = vec![(0, 600 * MS), (900 * MS, 1_000 * MS)];
        let spans = StageSpans {
            all: calls.clone(),
            by_thread: [(1, calls)].into_iter().collect(),
            work: vec![(0, 200 * MS)],
        };
        let (mut slot, tables) = (HostSlot::default(), tables());
        let of_stage = std::iter::once((&spans, &mut slot));
        host.settle(1_000 * MS, std::iter::empty(), of_stage, &tables);
        let idle = found(&host, &slot);
        assert_eq!((idle.ns, idle.idle_ns, idle.samples), (700 * MS, 500 * MS, 500));
        assert_eq!(
            rows(&idle),
            [
                (80, "Scheduler.schedule (serve.py:212)".to_owned()),
                (20, "work of another stage ran on the GPU".to_owned()),
            ]
        );
    }

    #[test]
    fn the_idle_time_is_divided_among_lines_the_gil_and_calls() {
        let mut host = host();
        host.worked(400 * MS, 1_000 * MS);
        let state = |at| if at < 200 { HostState::Running } else { HostState::GilWait };
        let own = (0..1_000).map(|at| sample(at * MS, 1, state(at), 1));
        let other = (0..1_000).map(|at| sample(at * MS, 2, HostState::Running, 2));
        let mut all: Vec<HostSample> = own.chain(other).collect();
        all.sort_by_key(|sample| sample.at);
        assert_eq!(host.take(Record::HostSamples(all), false), Some(999 * MS));
        let (begin, end) = (MonoNs(320 * MS), MonoNs(500 * MS));
        let call = HostCall { name: 5, thread: 1, begin, end, stack: 1 };
        host.take(Record::HostCalls(vec![call]), false);
        let mut slot = HostSlot::default();
        let tables = tables();
        // In two pieces, the first of which ends within the call.
        settle(&mut host, 350 * MS, &[(0, 350 * MS)], &tables, &mut slot);
        settle(&mut host, 1_000 * MS, &[(350 * MS, 1_000 * MS)], &tables, &mut slot);
        let idle = found(&host, &slot);
        assert_eq!((idle.ns, idle.idle_ns, idle.samples), (1_000 * MS, 400 * MS, 400));
        assert_eq!(
            rows(&idle),
            [
                (50, "Scheduler.schedule (serve.py:212)".to_owned()),
                (30, "waiting for the GIL held by 'detok' in decode (text.py:88)".to_owned()),
                (20, "blocked in cuMemAlloc from Scheduler.schedule (serve.py:212)".to_owned()),
            ]
        );
        assert_eq!(idle.why_none, None);
        // Of all the time, with the GIL as one cause.
        let spent: Vec<(u64, String)> =
            idle.spent.iter().map(|of| (of.percent.round() as u64, of.text(true))).collect();
        let code = (20, "Scheduler.schedule (serve.py:212)".to_owned());
        assert_eq!(spent, [(80, "waiting for the GIL".to_owned()), code]);
        // Nothing is kept of what is final, and what comes for it counts as late.
        assert!(host.samples.is_empty() && host.calls.is_empty());
        host.take(Record::HostSamples(vec![sample(5, 1, HostState::Running, 1)]), false);
        assert_eq!((host.samples.len(), host.late, host.late_ns), (0, 1, MS));
        // Of a call, the part whose time is final.
        let call =
            HostCall { begin: MonoNs(998 * MS), end: MonoNs(1_003 * MS), ..HostCall::default() };
        host.take(Record::HostCalls(vec![call]), false);
        assert_eq!(host.late_ns, 3 * MS);
    }

    /// Hazard (Watching what runs): The rank that waits for a late one spends more time in calls that wait for running
    ///  work, and that is compared with what the late one does.
    /// Promise: These waits are in no comparison; calls while no work runs are.
    #[test]
    fn waits_for_running_work_are_no_time_of_the_host() {
        let mut host = host();
        host.worked(400 * MS, 1_000 * MS);
        let all = (0..1_000).map(|at| sample(at * MS, 1, HostState::Driver, 1));
        host.take(Record::HostSamples(all.collect()), false);
        let mut slot = HostSlot::default();
        settle(&mut host, 1_000 * MS, &[(0, 1_000 * MS)], &tables(), &mut slot);
        let spent = found(&host, &slot).spent;
        let samples: Vec<_> = spent.iter().map(|of| (of.kind, of.samples)).collect();
        assert_eq!(samples, [(HostCauseKind::CudaCall, 400)]);
        // Percent of the second; of its 400 samples of 1 ms, the error is 20 ms.
        assert_eq!((spent[0].percent, spent[0].error_percent), (40.0, 2.0));
    }

    /// Hazard (Watching what runs): The main thread sets the GPU up and then waits for the threads that launch.
    /// Promise: Its wait does not count as a cause; without ranges, or if their thread no longer opens any, all threads
    ///  count.
    #[test]
    fn a_thread_that_only_set_the_gpu_up_does_not_count_beside_one_that_opens_ranges() {
        let mut host = host();
        let launches = HostThread { thread: 2, launches: true, ..HostThread::default() };
        host.take(Record::HostThread(launches), false);
        host.opened(2, 5 * MS);
        let mut found_in = |from: u64| {
            let one = (from..from + 1_000).map(|at| sample(at * MS, 1, HostState::Lock, 1));
            let two = (from..from + 1_000).map(|at| sample(at * MS, 2, HostState::Running, 2));
            let mut all: Vec<HostSample> = one.chain(two).collect();
            all.sort_by_key(|sample| sample.at);
            host.take(Record::HostSamples(all), false);
            let (mut slot, end) = (HostSlot::default(), (from + 1_000) * MS);
            settle(&mut host, end, &[(from * MS, end)], &tables(), &mut slot);
            rows(&found(&host, &slot)).into_iter().map(|(share, _)| share).collect::<Vec<_>>()
        };
        assert_eq!(found_in(0), [100]);
        assert_eq!(found_in(60_000), [50, 50]);
    }

    #[test]
    fn times_in_which_not_all_work_is_recorded_are_left_out() {
        let mut host = host();
        let all = (0..1_000).map(|at| sample(at * MS, 1, HostState::Sleep, 1));
        host.take(Record::HostSamples(all.collect()), false);
        let mut slot = HostSlot::default();
        let spans = [(100 * MS, 200 * MS), (500 * MS, 550 * MS)];
        settle(&mut host, 1_000 * MS, &spans, &tables(), &mut slot);
        let idle = found(&host, &slot);
        assert_eq!((idle.ns, idle.idle_ns, idle.samples), (150 * MS, 150 * MS, 150));
        assert_eq!(
            rows(&idle),
            [(100, "sleeping in Scheduler.schedule (serve.py:212)".to_owned())]
        );
    }

    #[test]
    fn a_reason_is_given_where_there_is_no_cause() {
        let reason = |host: &Host, off: Option<&str>, count: u64| {
            let mut slot = HostSlot::default();
            (0..count).for_each(|_| slot.outside.push(MS));
            let fact = |key: &str| off.filter(|_| key == "host.off").map(str::to_owned);
            host.idle([&slot].into_iter(), fact, &tables()).why_none.expect("a reason")
        };
        let mut sampled = host();
        let reasons = [
            reason(&Host::default(), None, 0),
            reason(&sampled, Some("Python 3.9 is not known"), 0),
            reason(&sampled, None, 0),
            reason(&sampled, None, HOST_SAMPLES_LEAST - 1),
            reason(&sampled, None, HOST_SAMPLES_LEAST),
        ];
        let busy = HostSlot { ns: MS, ..HostSlot::default() };
        assert_eq!(found(&sampled, &busy).why_none.as_deref(), Some("no time is idle"));
        sampled.late = 1;
        let all: Vec<String> = reasons.into_iter().chain([reason(&sampled, None, 0)]).collect();
        assert_eq!(
            all,
            [
                "not sampled: STAGE2_HOST is off",
                "not sampled: Python 3.9 is not known",
                "no launching thread was sampled while the GPU was idle",
                "too few samples: 29; shares need 30",
                "no cause exceeds its sampling error",
                "samples come too late; set STAGE2_FLUSH_MS to 1000 at most",
            ]
        );
    }

    /// Hazard (Watching what runs): A trace file has samples, calls, stacks and threads without end, or of impossible
    ///  times.
    /// Promise: Memory is bounded, and the reader goes on.
    #[test]
    fn memory_is_bounded_whatever_is_sampled() {
        let (mut host, tables) = (host(), tables());
        for id in 1..=2 * THREADS as u32 {
            host.take(Record::Thread { id, os_tid: 1_000 + id, name: vec![b'x'; 500] }, false);
            host.take(
                Record::HostThread(HostThread {
                    thread: id,
                    launches: true,
                    ..HostThread::default()
                }),
                false,
            );
        }
        for id in 3..STACKS as u32 + 9 {
            let frame = trace::HostFrame { id, function: 1, file: 2, line: id };
            host.take(Record::HostFrame(frame), false);
            host.take(Record::HostStack(HostStack { id, parent: NONE, frame: id }), false);
        }
        let mut slot = HostSlot::default();
        for turn in 0..2 {
            let of =
                |at: u32| sample(u64::from(at), at % 7_000, HostState::Running, turn * 40_000 + at);
            let samples: Vec<HostSample> = (0..80_000).map(of).collect();
            host.take(Record::HostSamples(samples), false);
            let (begin, end) = (MonoNs(5), MonoNs(u64::MAX));
            let call = |name: u32| HostCall { name, thread: name % 7, begin, end, stack: name };
            host.take(Record::HostCalls((0..80_000).map(call).collect()), false);
            assert!(host.samples.len() <= WAITING && host.calls.len() <= WAITING);
            let from = u64::from(turn) * 100_000;
            settle(&mut host, from + 100_000, &[(from, from + 100_000)], &tables, &mut slot);
        }
        settle(&mut host, u64::MAX, &[(200_000, u64::MAX)], &tables, &mut slot);
        assert!(host.threads.len() <= THREADS + 1 && slot.threads.len() <= LAUNCHING);
        assert!(slot.causes.len() <= CAUSES + 1 && host.lines.len() <= LINES);
        assert!(host.rows.len() <= KNOWN && host.kinds.len() <= KNOWN);
        let idle = found(&host, &slot);
        assert!(
            idle.causes.iter().all(|cause| cause.percent <= 100.0),
            "{:?}",
            idle.causes.first()
        );
    }

    proptest! {
        #[test]
        fn what_is_free_of_work_is_what_a_count_of_every_moment_gives(
            spans in prop::collection::vec((1u64..20, 1u64..20), 0..6),
            busy in prop::collection::vec((1u64..20, 1u64..20), 0..6),
        ) {
            let ascending = |all: Vec<(u64, u64)>| -> Vec<(u64, u64)> {
                let place = |at: &mut u64, (gap, length): (u64, u64)| {
                    let start = *at + gap;
                    *at = start + length;
                    Some((start, *at))
                };
                all.into_iter().scan(0, place).collect()
            };
            let (spans, busy) = (ascending(spans), ascending(busy));
            let free = without(&spans, &busy);
            for at in 0..300 {
                prop_assert_eq!(holds(&free, at), holds(&spans, at) && !holds(&busy, at), "{}", at);
            }
            prop_assert!(free.windows(2).all(|two| two[0].1 <= two[1].0));
        }
    }
}
