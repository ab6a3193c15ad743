//! Collectives -> for each member the time that it waited for the last one and the time of the
//! transfer, and who came late.
//!
//! A member arrives when its communication kernel starts. Up to the last arrival it waits, from then
//! on the transfer runs: both add up to the duration of its call. Members that arrive together within
//! the error of the clocks do not wait. Where that error is longer than the whole call, nothing is
//! known of it.

use std::collections::BTreeMap;

use super::calls::MemberCall;
use super::clock::{CommonClock, HostCorrection, SliceClock};
use super::matching::{Matching, Unmatched};

/// Tolerated share of unnamed sets whose calls do not overlap, percent. Above it, the members are
/// not treated as one group.
const CONTRADICTING_PERCENT: usize = 1;

/// A collective of which the time was split.
#[derive(Clone, Debug, Default)]
pub(super) struct Split<'c> {
    /// The calls of its members, each with (waiting, transfer), ns.
    pub(super) members: Vec<(MemberCall<'c>, u64, u64)>,
    /// From the last arrival to the last end, ns.
    pub(super) last_needed_ns: u64,
    /// Who came last.
    pub(super) last: Option<MemberCall<'c>>,
    /// How much later than the median of the others, ns.
    pub(super) late_ns: u64,
    /// How much more GPU work it had before than the median of the others, as far as that explains it, ns.
    pub(super) late_work_ns: u64,
    /// What that may be off by, ns.
    pub(super) error_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Collectives<'c> {
    pub(super) split: Vec<Split<'c>>,
    /// Matched, but of operations that need not wait for all, or of one member: not split.
    pub(super) whole: Vec<Vec<MemberCall<'c>>>,
    /// Largest error of any, ns.
    pub(super) error_ns: Option<u64>,
    /// Clocks of the hosts that collectives tie together.
    pub(super) clocks: Vec<(usize, HostCorrection)>,
}

/// A set, and what became of it.
type Tried<'c> = (Vec<MemberCall<'c>>, Result<Split<'c>, Unmatched>);

/// Splits what was matched. What turns out to be none is refused in `matching`.
pub(super) fn split<'c>(
    matching: &mut Matching<'c>,
    wall_ahead_ns: &BTreeMap<usize, i64>,
) -> Collectives<'c> {
    let needs_all = |set: &[MemberCall<'_>]| {
        set.len() > 1 && set.iter().all(|made| made.call.operation.needs_all_members())
    };
    let sets = std::mem::take(&mut matching.sets);
    let known = sets.iter().take(matching.unnamed_from);
    let known = known.filter(|set| needs_all(set));
    let mut clock = CommonClock::new(wall_ahead_ns, known);
    let mut found = Collectives { clocks: clock.corrections(), ..Collectives::default() };
    // Unnamed ones wait until it is known whether their kind holds.
    let mut unnamed: BTreeMap<_, Vec<Tried<'_>>> = BTreeMap::new();
    for (at, set) in sets.into_iter().enumerate() {
        if !needs_all(&set) {
            found.whole.push(set);
            continue;
        }
        let clock = clock.during(&set);
        let hosts = set.iter().map(|made| made.by.host);
        let Some(clock_error) = clock.error_ns(hosts) else {
            matching.refuse(set, Unmatched::NoClock);
            continue;
        };
        let split = one(clock, &set, clock_error);
        if at >= matching.unnamed_from {
            let kind = set.first().map(|made| (made.call.operation, made.call.bytes));
            unnamed.entry(kind).or_default().push((set, split));
            continue;
        }
        match split {
            Ok(split) => found.add(split),
            Err(why) => matching.refuse(set, why),
        }
    }
    for sets in unnamed.into_values() {
        let contradicts = |(_, split): &&Tried<'_>| matches!(split, Err(Unmatched::NoOverlap));
        let contradicting = sets.iter().filter(contradicts).count();
        let is_group = contradicting * 100 <= sets.len() * CONTRADICTING_PERCENT;
        for (set, split) in sets {
            match split {
                _ if !is_group => matching.refuse(set, Unmatched::SeveralGroups),
                Ok(split) => found.add(split),
                Err(why) => matching.refuse(set, why),
            }
        }
    }
    found
}

impl<'c> Collectives<'c> {
    fn add(&mut self, split: Split<'c>) {
        self.error_ns = self.error_ns.max(Some(split.error_ns));
        self.split.push(split);
    }
}

/// To one significant digit: errors differ from set to set, and one reason is enough for many.
fn rounded_up(value: u64) -> u64 {
    let unit = 10u64.pow(value.checked_ilog10().unwrap_or(0));
    value.div_ceil(unit).saturating_mul(unit)
}

/// Splits one collective.
fn one<'c>(
    clock: &SliceClock,
    set: &[MemberCall<'c>],
    clock_error: u64,
) -> Result<Split<'c>, Unmatched> {
    let at = |made: &MemberCall<'_>, mono_ns| clock.at(made.by.host, mono_ns);
    let time =
        |made: &MemberCall<'c>| (at(made, made.call.start_ns), at(made, made.call.end_ns), *made);
    let mut times: Vec<(i128, i128, MemberCall<'c>)> = set.iter().map(time).collect();
    let mut errors: Vec<u64> = set.iter().map(|made| made.by.error_ns).collect();
    errors.sort_unstable_by(|a, b| b.cmp(a));
    let error_ns = errors.into_iter().take(2).fold(clock_error, u64::saturating_add);
    times.sort_by_key(|&(start, ..)| start);
    let Some((&(last_start, _, last), others)) = times.split_last() else {
        return Err(Unmatched::NoOverlap);
    };
    let first_end = times.iter().map(|&(_, end, _)| end).min().unwrap_or(last_start);
    let last_end = times.iter().map(|&(_, end, _)| end).max().unwrap_or(last_start);
    if first_end < last_start - i128::from(error_ns) {
        return Err(Unmatched::NoOverlap);
    }
    // All of it would be called transfer. Where one call is longer, a late member shows all the same.
    let longest = times.iter().map(|&(start, end, _)| end - start).max().unwrap_or(0);
    if i128::from(error_ns) >= longest {
        let error_us = rounded_up(error_ns.div_ceil(1_000));
        return Err(Unmatched::ClocksTooCoarse { error_us });
    }
    let ns = |value: i128| u64::try_from(value.max(0)).unwrap_or(u64::MAX);
    let median = others.get(others.len().saturating_sub(1) / 2);
    let median = median.map_or(last_start, |&(start, ..)| start);
    let late_ns = ns(last_start - median);
    let mut work: Vec<u64> = others.iter().map(|(.., made)| made.call.work_ns).collect();
    work.sort_unstable();
    let usual = work.get(work.len().saturating_sub(1) / 2).copied().unwrap_or(last.call.work_ns);
    let members = times.iter().map(|&(start, end, made)| {
        // What the clocks cannot tell from arriving together is no waiting.
        let ahead = last_start - start;
        let waiting = if ahead > i128::from(error_ns) { ahead.min(end - start) } else { 0 };
        (made, ns(waiting), ns(end - start - waiting))
    });
    Ok(Split {
        members: members.collect(),
        last_needed_ns: ns(last_end - last_start),
        last: Some(last),
        late_ns,
        late_work_ns: last.call.work_ns.saturating_sub(usual).min(late_ns),
        error_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::calls::{Calls, ProcessCalls};
    use stage2_model::Operation;
    use stage2_read::trace::collectives::Call;

    /// How late the last of them was, of start and end of the call of each process, whose times may
    /// be off by 50 us.
    fn splits(members: &[(u64, u64)]) -> (Vec<u64>, Vec<String>) {
        let mut calls = Calls::default();
        for &(start_ns, end_ns) in members {
            let operation = Operation::AllReduce;
            let call = Call { operation, start_ns, end_ns, ..Call::default() };
            let process =
                ProcessCalls { calls: vec![call], error_ns: 50_000, ..ProcessCalls::default() };
            calls.processes.push(process);
        }
        let members: Vec<(u32, usize)> = (0..members.len() as u32).map(|at| (at, 0)).collect();
        let set = calls.set(&members);
        let mut matching = Matching { sets: vec![set], unnamed_from: 1, ..Matching::default() };
        let found = split(&mut matching, &BTreeMap::new());
        assert_eq!(matching.unmatched.is_empty(), !found.split.is_empty());
        (
            found.split.iter().map(|split| split.late_ns).collect(),
            matching.unmatched.iter().map(|(_, why)| why.to_string()).collect(),
        )
    }

    #[test]
    fn calls_shorter_than_the_error_of_the_clocks_are_not_split() {
        let (split, why) = splits(&[(1_000_000, 1_080_000), (1_000_000, 1_100_000)]);
        assert!(split.is_empty(), "waiting of 100 us is not told from transfer");
        assert_eq!(why, ["the clocks are known only within 100 us, longer than the call"; 2]);
        let (split, why) = splits(&[(1_000_000, 1_100_001), (1_000_000, 1_080_000)]);
        assert_eq!((split.len(), why.len()), (1, 0));
        // One comes 5 ms late to a transfer of 30 us: that is known well enough.
        let (split, why) = splits(&[(1_000_000, 6_030_000), (6_000_000, 6_030_000)]);
        assert_eq!((split[0], why.len()), (5_000_000, 0));
    }

    #[test]
    fn a_delay_is_explained_by_more_work_than_the_others_had() {
        let explained = |late_work_ns: u64| {
            let mut calls = Calls::default();
            for (start_ns, work_ns) in [(1_000, 70), (1_000, 50), (6_000, late_work_ns)] {
                let operation = Operation::AllReduce;
                let call = Call { operation, start_ns, end_ns: 6_500, work_ns, ..Call::default() };
                let process = ProcessCalls { calls: vec![call], ..ProcessCalls::default() };
                calls.processes.push(process);
            }
            let set = calls.set(&[(0, 0), (1, 0), (2, 0)]);
            let mut matching = Matching { sets: vec![set], unnamed_from: 1, ..Matching::default() };
            let found = split(&mut matching, &BTreeMap::new());
            (found.split[0].late_ns, found.split[0].late_work_ns)
        };
        assert_eq!(explained(60), (5_000, 10), "more than the median of the others");
        assert_eq!(explained(0), (5_000, 0));
        assert_eq!(explained(9_000), (5_000, 5_000), "no more than all of it");
    }

    #[test]
    fn reasons_stay_few_whatever_the_errors() {
        assert_eq!([0, 7, 10, 101, 950].map(rounded_up), [0, 7, 10, 200, 1_000]);
        assert_eq!(rounded_up(u64::MAX), u64::MAX);
    }
}
