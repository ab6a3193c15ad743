//! Calls that may block -> how long the threads that launch the work of a stage were in them while none of it ran.
//!
//! The times are exact, unlike those that samples stand for. Where a call does not say which line made it, the
//! samples that lie in calls of its name divide their time among lines.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use stage2_contract::stats::{Busy, Unions};
use stage2_contract::text::{shorten, visible};
use stage2_contract::trace::{HostCall, NONE};

use crate::host_stacks::ends;
use crate::trace::host::{InstanceKind, of_kind};

/// Calls that are kept.
const CALLS: usize = 1 << 19;
/// Calls of one stage that are told apart, by name, thread and stack.
const GROUPS: usize = 1 << 12;
/// Characters of the name of a function.
const NAME_CHARS: usize = 60;
/// Intervals of work that are kept for a stage before they are sorted in, and before old ones are folded.
const BATCH: usize = 1 << 16;
const WINDOW: usize = 1 << 18;

/// Which calls: those of a function by a thread, from a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blocked {
    /// The function, as an index of the names of the capture; nothing: its name is lost.
    pub name: Option<u32>,
    /// The number of the thread.
    pub thread: u32,
    /// Its stack; [`NONE`]: none is known.
    pub stack: u32,
    /// GPU work of another stage ran.
    pub other_work: bool,
}

impl Blocked {
    /// The name of the function; `names` are those of the capture.
    pub fn text(&self, names: &[Vec<u8>]) -> String {
        call_name(self.name.and_then(|name| names.get(name as usize)).map(Vec::as_slice))
    }
}

/// The name of a function of CUDA, as reports and exports show it.
pub fn call_name(name: Option<&[u8]>) -> String {
    let text = name.map(|name| shorten(&visible(&ends(name)), NAME_CHARS));
    text.unwrap_or_else(|| "a CUDA call".to_owned())
}

/// Idle time in calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockedTime {
    /// The time, ns.
    pub ns: u64,
    /// Samples that say from which line it was.
    pub samples: u64,
    /// The square of the standard error that dividing it among lines brings, ns^2; 0 where the calls say their
    /// lines themselves.
    pub variance: f64,
}

impl BlockedTime {
    /// Adds that of other calls.
    pub fn add(&mut self, more: &Self) {
        self.ns = self.ns.saturating_add(more.ns);
        self.samples = self.samples.saturating_add(more.samples);
        self.variance += more.variance;
    }
}

/// Samples in calls that do not say their line: by function, thread and stack.
pub(super) type Hits = BTreeMap<(Option<u32>, u32), BTreeMap<u32, u64>>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    begin: u64,
    end: u64,
    pub(super) name: Option<u32>,
    thread: u32,
    stack: u32,
}

/// The calls of a process.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: Vec<Call>,
    /// Numbers of the calls of a thread, which follow each other.
    by_thread: FxHashMap<u32, Vec<u32>>,
}

impl Calls {
    /// Whether it is kept: there is room, and no other call of the thread is at its time.
    pub(super) fn push(&mut self, call: &HostCall, name: Option<u32>) -> bool {
        let HostCall { thread, stack, .. } = *call;
        let (begin, end) = (call.begin.0, call.end.0);
        let own = self.by_thread.entry(thread).or_default();
        let before = own.last().and_then(|number| self.all.get(*number as usize));
        let is_behind = before.is_none_or(|before| before.end <= begin);
        let number = u32::try_from(self.all.len()).ok().filter(|_| self.all.len() < CALLS);
        let Some(number) = number.filter(|_| is_behind && begin < end) else { return false };
        own.push(number);
        self.all.push(Call { begin, end, name, thread, stack });
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The names of all calls, each as often as there are calls of it.
    pub(super) fn names(&self) -> impl Iterator<Item = u32> {
        self.all.iter().filter_map(|call| call.name)
    }

    pub(super) fn get(&self, number: u32) -> Option<&Call> {
        self.all.get(number as usize)
    }

    /// The thread of a call.
    pub(super) fn thread(&self, number: u32) -> Option<u32> {
        self.get(number).map(|call| call.thread)
    }

    /// Threads with calls.
    pub(super) fn threads(&self) -> impl Iterator<Item = u32> {
        self.by_thread.keys().copied()
    }

    /// The parts of calls of a thread between two times.
    pub(super) fn within(&self, thread: u32, start: u64, end: u64) -> impl Iterator<Item = Part> {
        let own = self.by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
        let call = |number: &u32| self.get(*number);
        let first = own.partition_point(|number| call(number).is_some_and(|of| of.end <= start));
        let begun = move |number: &&u32| call(number).is_some_and(|of| of.begin < end);
        own.iter().skip(first).take_while(begun).filter_map(move |number| {
            let of = self.get(*number)?;
            let (start, end) = (of.begin.max(start), of.end.min(end));
            Some(Part { call: *number, start, end, kind: InstanceKind::Usual })
        })
    }

    /// The call that a thread was in.
    pub(super) fn at(&self, thread: u32, at: u64) -> Option<&Call> {
        let part = self.within(thread, at, at.saturating_add(1)).next()?;
        self.get(part.call)
    }
}

/// The part of a call that lies in a window of a stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) call: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    /// What it is in.
    pub(super) kind: InstanceKind,
}

/// The calls in the windows of a stage, and the work that ran in them.
#[derive(Debug)]
pub(super) struct StageCalls {
    /// For each thread start, end and group of its calls, in the order of time.
    spans: Vec<Vec<(u64, u64, usize)>>,
    groups: Vec<(Blocked, InstanceKind, u64)>,
    /// Of each group two: work of the stage, and any work.
    unions: Unions,
}

impl StageCalls {
    pub(super) fn of(mut parts: Vec<Part>, calls: &Calls) -> Self {
        parts.sort_unstable_by_key(|part| (part.call, part.start));
        let mut stage = Self {
            spans: Vec::new(),
            groups: Vec::new(),
            unions: Unions::with_limits(BATCH, WINDOW),
        };
        let mut by_key: FxHashMap<(Blocked, InstanceKind), usize> = FxHashMap::default();
        let mut by_thread: FxHashMap<u32, Vec<(u64, u64, usize)>> = FxHashMap::default();
        for part in parts {
            let Some(call) = calls.get(part.call) else { continue };
            let Call { name, thread, stack, .. } = *call;
            let mut blocked = Blocked { name, thread, stack, other_work: false };
            if by_key.len() >= GROUPS && !by_key.contains_key(&(blocked, part.kind)) {
                // One more for each thread: what a thread does follows on what it did.
                (blocked.name, blocked.stack) = (None, NONE);
            }
            let group = *by_key.entry((blocked, part.kind)).or_insert(stage.groups.len());
            if group == stage.groups.len() {
                stage.groups.push((blocked, part.kind, 0));
                stage.unions.create();
                stage.unions.create();
            }
            let own = by_thread.entry(thread).or_default();
            let start = own.last().map_or(part.start, |last| part.start.max(last.1));
            if let Some((_, _, ns)) = stage.groups.get_mut(group)
                && start < part.end
            {
                *ns = ns.saturating_add(part.end - start);
                own.push((start, part.end, group));
            }
        }
        stage.spans = by_thread.into_values().collect();
        stage
    }

    /// Adds work of this stage (`own`), or of another one, ns of the monotonic clock.
    pub(super) fn add(&mut self, start: u64, end: u64, own: bool) {
        for spans in &self.spans {
            let first = spans.partition_point(|span| span.1 <= start);
            let within = spans.iter().skip(first).take_while(|span| span.0 < end);
            for &(from, to, group) in within {
                let (from, to) = (from.max(start), to.min(end));
                self.unions.add(2 * group + 1, from, to);
                if own {
                    self.unions.add(2 * group, from, to);
                }
            }
        }
    }

    /// The idle time in the calls of the usual instances, of the cold one, and of outliers.
    pub(super) fn sums(self, hits: &mut [Hits; 3]) -> [BTreeMap<Blocked, BlockedTime>; 3] {
        let busy = self.unions.finish();
        let busy_ns = |union: usize| busy.get(union).map_or(0, |Busy { busy_ns, .. }| *busy_ns);
        let mut found = [const { BTreeMap::new() }; 3];
        for (group, (blocked, kind, ns)) in self.groups.into_iter().enumerate() {
            let (own, any) = (busy_ns(2 * group).min(ns), busy_ns(2 * group + 1).min(ns));
            let into = of_kind(&mut found, kind);
            let lines = of_kind(hits, kind).get(&(blocked.name, blocked.thread));
            let lines = lines.filter(|_| blocked.stack == NONE);
            let times = [(ns - any, false, lines), (any.saturating_sub(own), true, None)];
            for (ns, other_work, lines) in times.into_iter().filter(|(ns, ..)| *ns > 0) {
                divide(Blocked { other_work, ..blocked }, ns, lines, into);
            }
        }
        found
    }
}

/// Divides idle time among the lines from which samples say that it is, if there are any.
fn divide(
    blocked: Blocked,
    ns: u64,
    lines: Option<&BTreeMap<u32, u64>>,
    into: &mut BTreeMap<Blocked, BlockedTime>,
) {
    let mut add = |stack: u32, ns: u64, samples: u64, variance: f64| {
        let time = BlockedTime { ns, samples, variance };
        into.entry(Blocked { stack, ..blocked }).or_default().add(&time);
    };
    let all =
        lines.map_or(0, |lines| lines.values().fold(0u64, |sum, hits| sum.saturating_add(*hits)));
    let Some(lines) = lines.filter(|_| all > 0) else {
        return add(blocked.stack, ns, 0, 0.0);
    };
    // Shares of what is left, so that they add up to the whole.
    let (mut left_ns, mut left) = (ns, all);
    for (&stack, &hits) in lines {
        let part_ns = (u128::from(left_ns) * u128::from(hits) / u128::from(left.max(1))) as u64;
        // As if each of two lines had one sample more: so few say nothing for certain.
        let share = (hits as f64 + 1.0) / (all as f64 + 2.0);
        let variance = share * (1.0 - share) / all as f64 * (ns as f64).powi(2);
        add(stack, part_ns, hits, variance);
        (left_ns, left) = (left_ns.saturating_sub(part_ns), left.saturating_sub(hits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stage2_contract::trace::MonoNs;

    fn calls(spans: &[(u32, u64, u64)]) -> Calls {
        let mut calls = Calls::default();
        for &(thread, begin, end) in spans {
            let (begin, end) = (MonoNs(begin), MonoNs(end));
            calls.push(&HostCall { thread, begin, end, ..HostCall::default() }, Some(thread));
        }
        calls
    }

    #[test]
    fn calls_of_a_thread_that_contradict_each_other_are_left_out() {
        let mut calls = calls(&[(1, 10, 20), (1, 20, 30)]);
        for (thread, begin, end, is_kept) in
            [(1, 29, 40, false), (1, 50, 50, false), (1, 60, 40, false), (2, 5, 9, true)]
        {
            let (begin, end) = (MonoNs(begin), MonoNs(end));
            let call = HostCall { thread, begin, end, ..HostCall::default() };
            assert_eq!(calls.push(&call, None), is_kept, "{call:?}");
        }
        let parts = |start, end| -> Vec<(u64, u64)> {
            calls.within(1, start, end).map(|part| (part.start, part.end)).collect()
        };
        assert_eq!(parts(15, 25), [(15, 20), (20, 25)]);
        assert_eq!(parts(30, 90), []);
        assert!(calls.at(1, 29).is_some() && calls.at(1, 30).is_none() && calls.at(3, 9).is_none());
    }

    proptest! {
        /// Two threads, whose calls follow each other, with work in any order.
        #[test]
        fn the_idle_time_is_that_which_a_count_of_every_moment_gives(
            gaps in prop::collection::vec((1u32..3, 0u64..9, 1u64..30), 0..12),
            work in prop::collection::vec((0u64..200, 0u64..40, any::<bool>()), 0..20),
            window in (0u64..100, 0u64..150),
        ) {
            let mut ends = [0u64; 3];
            let spans: Vec<(u32, u64, u64)> = gaps.iter().map(|&(thread, gap, ns)| {
                let begin = ends[thread as usize] + gap;
                ends[thread as usize] = begin + ns;
                (thread, begin, begin + ns)
            }).collect();
            let calls = calls(&spans);
            let (start, end) = (window.0, window.0 + window.1);
            let parts = [1, 2].iter().flat_map(|&thread| calls.within(thread, start, end)).collect();
            let mut stage = StageCalls::of(parts, &calls);
            work.iter().for_each(|&(at, ns, own)| stage.add(at, at + ns, own));
            let [usual, cold, outliers] = stage.sums(&mut Default::default());
            prop_assert!(cold.is_empty() && outliers.is_empty());
            let runs = |t: u64, all: bool| {
                work.iter().any(|&(at, ns, own)| (own || all) && at <= t && t < at + ns)
            };
            for thread in [1, 2] {
                for other_work in [false, true] {
                    let is = |t: &u64| {
                        spans.iter().any(|&(of, from, to)| of == thread && from <= *t && *t < to)
                            && !runs(*t, false)
                            && runs(*t, true) == other_work
                    };
                    let expected = (start..end).filter(is).count() as u64;
                    let key = Blocked { name: Some(thread), thread, stack: NONE, other_work };
                    prop_assert_eq!(usual.get(&key).map_or(0, |time| time.ns), expected);
                }
            }
        }
    }

    #[test]
    fn samples_divide_the_time_among_lines_without_a_rest() {
        let calls = calls(&[(1, 0, 1_000)]);
        let mut stage = StageCalls::of(calls.within(1, 0, 5_000).collect(), &calls);
        stage.add(0, 99, true);
        let lines = BTreeMap::from([(7, 2), (8, 1)]);
        let mut hits: [Hits; 3] = Default::default();
        hits[0].insert((Some(1), 1), lines);
        let [usual, ..] = stage.sums(&mut hits);
        let found: Vec<(u32, u64, u64)> =
            usual.iter().map(|(key, time)| (key.stack, time.ns, time.samples)).collect();
        assert_eq!(found, [(7, 600, 2), (8, 301, 1)]);
        let error = usual.values().map(|time| time.variance.sqrt().round());
        // sqrt(3/5 * 2/5 / 3) of 901.
        assert_eq!(error.collect::<Vec<_>>(), [255.0, 255.0]);
    }
}
