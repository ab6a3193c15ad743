//! Collectives -> for each member the time that it waited for the last one and the time of the
//! transfer, and who came late.
//!
//! A member arrives when its communication kernel starts. Up to the last arrival it waits, from then
//! on the transfer runs: both add up to the duration of its call. Members that arrive together within
//! the error of the clocks do not wait.

use std::collections::BTreeMap;

use super::calls::{CallId, Calls};
use super::clock::CommonClock;
use super::matching::Matching;

/// Tolerated share of unnamed sets whose calls do not overlap, percent. Above it, the members are
/// not treated as one group.
const CONTRADICTING_PERCENT: usize = 1;

/// A collective of which the time was split.
#[derive(Clone, Debug, Default)]
pub(super) struct Split {
    /// The calls of its members, each with (waiting, transfer), ns.
    pub(super) members: Vec<(CallId, u64, u64)>,
    /// From the last arrival to the last end, ns.
    pub(super) last_needed_ns: u64,
    /// Who came last.
    pub(super) last: Option<CallId>,
    /// How much later than the median of the others, ns.
    pub(super) late_ns: u64,
    /// What that may be off by, ns.
    pub(super) error_ns: u64,
}

/// All collectives.
#[derive(Debug, Default)]
pub(super) struct Collectives {
    pub(super) split: Vec<Split>,
    /// Matched, but of operations that need not wait for all, or of one member: not split.
    pub(super) whole: Vec<Vec<CallId>>,
    /// Largest error of any, ns.
    pub(super) error_ns: Option<u64>,
}

const NO_OVERLAP: &str = "the kernels of its members do not overlap: they were not one collective, \
                          or the clocks are wrong";
const NO_GROUP: &str = "more than 1 % of these calls do not overlap across ranks, so they belong to \
                        several groups; the capture does not say which";
const NO_CLOCK: &str = "the clocks of its hosts could not be tied together";

/// Splits what was matched. What turns out to be none is refused in `matching`.
pub(super) fn split(
    calls: &Calls,
    matching: &mut Matching,
    wall_ahead_ns: &BTreeMap<usize, i64>,
) -> Collectives {
    let needs_all = |set: &[CallId]| {
        let mut of_set = set.iter().map(|&id| calls.get(id).map(|call| call.operation));
        set.len() > 1 && of_set.all(|operation| operation.is_some_and(|o| o.needs_all_members()))
    };
    let sets = std::mem::take(&mut matching.sets);
    let known = sets.iter().take(matching.unnamed_from);
    let known = known.filter(|set| needs_all(set));
    let clock = CommonClock::new(calls, wall_ahead_ns, known);
    let mut found = Collectives::default();
    // Unnamed ones wait until it is known whether their kind holds.
    let mut unnamed: BTreeMap<_, Vec<(Vec<CallId>, Option<Split>)>> = BTreeMap::new();
    for (at, set) in sets.into_iter().enumerate() {
        if !needs_all(&set) {
            found.whole.push(set);
            continue;
        }
        let hosts = set.iter().map(|id| calls.host(id.process));
        let Some(clock_error) = clock.error_ns(hosts) else {
            matching.refuse(set.into_iter(), NO_CLOCK);
            continue;
        };
        let split = one(calls, &clock, &set, clock_error);
        if at >= matching.unnamed_from {
            let kind = set.first().and_then(|&id| calls.get(id)).map(|c| (c.operation, c.bytes));
            unnamed.entry(kind).or_default().push((set, split));
            continue;
        }
        match split {
            Some(split) => found.add(split),
            None => matching.refuse(set.into_iter(), NO_OVERLAP),
        }
    }
    for sets in unnamed.into_values() {
        let contradicting = sets.iter().filter(|(_, split)| split.is_none()).count();
        let is_group = contradicting * 100 <= sets.len() * CONTRADICTING_PERCENT;
        for (set, split) in sets {
            match split.filter(|_| is_group) {
                Some(split) => found.add(split),
                None if is_group => matching.refuse(set.into_iter(), NO_OVERLAP),
                None => matching.refuse(set.into_iter(), NO_GROUP),
            }
        }
    }
    found
}

impl Collectives {
    fn add(&mut self, split: Split) {
        self.error_ns = self.error_ns.max(Some(split.error_ns));
        self.split.push(split);
    }
}

/// Splits one collective; nothing where a member ended before another one started.
fn one(calls: &Calls, clock: &CommonClock, set: &[CallId], clock_error: u64) -> Option<Split> {
    let mut times: Vec<(i128, i128, CallId)> = Vec::with_capacity(set.len());
    let mut errors: Vec<u64> = Vec::with_capacity(set.len());
    for &id in set {
        let (call, process) = (calls.get(id)?, calls.processes.get(id.process as usize)?);
        let at = |mono_ns| clock.at(process.host, mono_ns);
        times.push((at(call.start_ns), at(call.end_ns), id));
        errors.push(process.error_ns);
    }
    errors.sort_unstable_by(|a, b| b.cmp(a));
    let error_ns = errors.into_iter().take(2).fold(clock_error, u64::saturating_add);
    times.sort_by_key(|&(start, ..)| start);
    let (&(last_start, _, last), others) = times.split_last()?;
    let first_end = times.iter().map(|&(_, end, _)| end).min()?;
    let last_end = times.iter().map(|&(_, end, _)| end).max()?;
    if first_end < last_start - i128::from(error_ns) {
        return None;
    }
    let ns = |value: i128| u64::try_from(value.max(0)).unwrap_or(u64::MAX);
    let median = others.get(others.len().saturating_sub(1) / 2).map(|&(start, ..)| start)?;
    let members = times.iter().map(|&(start, end, id)| {
        // What the clocks cannot tell from arriving together is no waiting.
        let ahead = last_start - start;
        let waiting = if ahead > i128::from(error_ns) { ahead.min(end - start) } else { 0 };
        (id, ns(waiting), ns(end - start - waiting))
    });
    Some(Split {
        members: members.collect(),
        last_needed_ns: ns(last_end - last_start),
        last: Some(last),
        late_ns: ns(last_start - median),
        error_ns,
    })
}
