//! Calls of all ranks -> collectives: which calls of which members were the same; and for each member
//! the time that it waited for the last one, the time of the transfer, and who came late.
//!
//! With the hash of a communicator, the n-th call of an operation in it is the same collective on
//! every member. Without, it is the n-th of an operation and size in an instance of a stage, and the
//! group is taken to be all ranks. Only where the counts of all members agree; else nothing is matched,
//! and the reason is said. Where not all calls were kept, their numbers say which belong together; and
//! where the counts differ there, because a capture ended earlier, those of one instance of a stage do.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ranks::clock::{CommonClock, HostCorrection, SliceClock, sum_of_largest_two};
use crate::ranks::{Calls, Member, MemberCall};
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::numbers::count;
use stage2_model::Operation;
use stage2_read::trace::collectives::NO_NUMBER;

/// Calls that may belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Communicator(u64, Operation),
    Unnamed(Operation, Option<u64>),
}

/// Calls of each member, in the order of their start.
type Sequences<'c> = BTreeMap<Member, Vec<MemberCall<'c>>>;

#[derive(Debug, Default)]
pub(super) struct Matching<'c> {
    /// Calls of one collective each, one of every member, in the order of members.
    pub(super) sets: Vec<Vec<MemberCall<'c>>>,
    /// Sets from this index were matched without a communicator hash.
    unnamed_from: usize,
    pub(super) unmatched: Vec<(MemberCall<'c>, Unmatched)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(super) enum Unmatched {
    #[error("point-to-point calls are not paired across ranks")]
    PointToPoint,
    #[error("only {} of {} members of the communicator were recorded", count(*.seen), count(*.expected))]
    MembersMissing { seen: u64, expected: u64 },
    #[error("{} GPUs were seen in a communicator of {}", count(*.seen), count(*.expected))]
    TooManyMembers { seen: u64, expected: u64 },
    #[error("only one member of the communicator was recorded")]
    OneMember,
    #[error("only {} of {} ranks were recorded with communication", count(*.seen), count(*.ranks))]
    RanksMissing { seen: u64, ranks: u64 },
    #[error("{} GPUs communicate in a job of {} ranks", count(*.seen), count(*.ranks))]
    TooManyRanks { seen: u64, ranks: u64 },
    #[error("only one rank was recorded")]
    OneRank,
    #[error(
        "the job has several communicators, and these calls name none (NCCL 2.26 and later \
         names its own; kernels of other libraries never do)"
    )]
    SeveralCommunicators,
    #[error(
        "only {} of {} members made this call in the same stage instance",
        count(*.seen),
        count(*.members)
    )]
    MissingInInstance { seen: u64, members: u64 },
    #[error("members made different numbers of calls, so calls cannot be paired by position")]
    UnequalCounts,
    #[error("the hosts' clocks could not be aligned")]
    NoClock,
    #[error(
        "the members' kernels do not overlap in time: these calls are not one collective, or the \
         clocks are wrong"
    )]
    NoOverlap,
    #[error("the clocks are known only within {} us, longer than the call", count(*.error_us))]
    ClocksTooCoarse { error_us: u64 },
    #[error(
        "more than 1 % of these calls do not overlap across ranks, so they belong to several groups; \
         the capture does not say which"
    )]
    SeveralGroups,
}

impl Unmatched {
    /// What makes it matched in the next run.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::MembersMissing { .. }
            | Self::OneMember
            | Self::RanksMissing { .. }
            | Self::OneRank => "Record every rank, to tell a late rank from slow transfers.",
            Self::NoClock | Self::ClocksTooCoarse { .. } => {
                "The ranks were recorded, but the clocks of their hosts do not agree well enough to say \
                 who waits: compare ranks of one host, or larger messages; and see the host times of \
                 each rank in section Ranks."
            }
            Self::SeveralCommunicators | Self::SeveralGroups => {
                "Use NCCL 2.26 or later, whose ranges name the communicator, to tell a late rank from slow \
                 transfers."
            }
            Self::PointToPoint
            | Self::TooManyMembers { .. }
            | Self::TooManyRanks { .. }
            | Self::MissingInInstance { .. }
            | Self::UnequalCounts
            | Self::NoOverlap => {
                "Section Collectives lists what is not compared across ranks, and why; see the host times \
                 of each rank in section Ranks."
            }
        }
    }
}

/// What a communicator is known to be.
#[derive(Debug, Default)]
struct CommunicatorMembers {
    seen: BTreeSet<Member>,
    expected: Option<u64>,
}

/// Matches all calls. `ranks` is the number of ranks of the job, where it is known.
pub(super) fn matching(calls: &Calls, ranks: Option<u64>) -> Matching<'_> {
    let known = communicators(calls);
    let mut by_key: BTreeMap<Key, Sequences<'_>> = BTreeMap::new();
    let mut matching = Matching::default();
    for made in calls.all() {
        let call = made.call;
        let key = match call.communicator {
            Some(hash) => Key::Communicator(hash, call.operation),
            None => Key::Unnamed(call.operation, call.bytes),
        };
        by_key.entry(key).or_default().entry(made.member()).or_default().push(made);
    }
    let everyone: BTreeSet<Member> = calls.all().map(MemberCall::member).into_set();
    let unnamed = unnamed_group(calls, &known, &everyone, ranks);
    // Keys with a communicator come first.
    for (key, mut sequences) in by_key {
        for made in sequences.values_mut() {
            made.sort_by_key(|made| (made.call.start_ns, made.call.end_ns));
        }
        match key {
            Key::Communicator(_, Operation::Send | Operation::Recv)
            | Key::Unnamed(Operation::Send | Operation::Recv, _) => {
                matching.refuse(sequences.into_values().flatten(), Unmatched::PointToPoint);
            }
            Key::Communicator(hash, _) => {
                match known.get(&hash).map_or(Ok(0), |known| known.members()) {
                    Ok(members) => matching.match_calls(sequences, members),
                    Err(why) => matching.refuse(sequences.into_values().flatten(), why),
                }
                matching.unnamed_from = matching.sets.len();
            }
            Key::Unnamed(..) => match &unnamed {
                Ok(members) if is_thinned(&sequences) => matching.by_number(sequences, *members),
                Ok(members) => matching.by_instance(sequences, *members),
                Err(why) => matching.refuse(sequences.into_values().flatten(), *why),
            },
        }
    }
    matching
}

fn communicators(calls: &Calls) -> HashMap<u64, CommunicatorMembers> {
    let mut known: HashMap<u64, CommunicatorMembers> = HashMap::new();
    for made in calls.all() {
        if let Some(hash) = made.call.communicator {
            known.entry(hash).or_default().seen.insert(made.member());
        }
    }
    for communicator in calls.processes.iter().flat_map(|process| &process.communicators) {
        let known = known.entry(communicator.hash).or_default();
        known.expected = known.expected.max(communicator.members);
    }
    known
}

impl CommunicatorMembers {
    /// Its members, if all of them were recorded.
    fn members(&self) -> Result<u64, Unmatched> {
        let seen = self.seen.len() as u64;
        match self.expected {
            Some(expected) if expected == seen => Ok(seen),
            Some(expected) if expected > seen => Err(Unmatched::MembersMissing { seen, expected }),
            Some(expected) => Err(Unmatched::TooManyMembers { seen, expected }),
            None if seen > 1 => Ok(seen),
            None => Err(Unmatched::OneMember),
        }
    }
}

/// The members of the group that calls without a hash are taken to be of: all ranks.
fn unnamed_group(
    calls: &Calls,
    known: &HashMap<u64, CommunicatorMembers>,
    everyone: &BTreeSet<Member>,
    ranks: Option<u64>,
) -> Result<u64, Unmatched> {
    let seen = everyone.len() as u64;
    // Of which only the set-up was seen, it is enough that it has no room for everyone.
    let is_part = |known: &&CommunicatorMembers| {
        known.seen.len() > 1 && known.seen != *everyone
            || known.expected.is_some_and(|members| members > 1 && members < seen)
    };
    let several = calls.processes.iter().any(|p| p.communicators_made > 1);
    match ranks.filter(|&ranks| ranks != seen) {
        Some(ranks) if ranks > seen => Err(Unmatched::RanksMissing { seen, ranks }),
        Some(ranks) => Err(Unmatched::TooManyRanks { seen, ranks }),
        None if seen < 2 => Err(Unmatched::OneRank),
        None if several || known.values().any(|known| is_part(&known)) => {
            Err(Unmatched::SeveralCommunicators)
        }
        None => Ok(seen),
    }
}

impl<'c> Matching<'c> {
    /// Matches over the whole run, or, where the counts differ, in each instance of a stage.
    fn match_calls(&mut self, sequences: Sequences<'c>, members: u64) {
        // Of a sample, the same instances need not have been recorded everywhere.
        let gated = sequences.values().flatten().any(|made| made.by.gated);
        if is_thinned(&sequences) {
            self.by_number(sequences, members);
        } else if !gated && agree(&sequences, members).is_ok() {
            self.zip(&sequences);
        } else {
            self.by_instance(sequences, members);
        }
    }

    fn by_instance(&mut self, sequences: Sequences<'c>, members: u64) {
        let mut instances: BTreeMap<(u32, u32), Sequences<'c>> = BTreeMap::new();
        for (member, made) in sequences {
            for made in made {
                let instance = instances.entry((made.call.stage, made.call.instance)).or_default();
                instance.entry(member).or_default().push(made);
            }
        }
        for sequences in instances.into_values() {
            match agree(&sequences, members) {
                Ok(()) => self.zip(&sequences),
                Err(why) => self.refuse(sequences.into_values().flatten(), why),
            }
        }
    }

    /// Takes calls of one number for one collective. Where the members did not make the same number of
    /// calls, each set has to be of one instance of its stage.
    fn by_number(&mut self, sequences: Sequences<'c>, members: u64) {
        let seen = sequences.len() as u64;
        if seen < members {
            let why = Unmatched::MissingInInstance { seen, members };
            return self.refuse(sequences.into_values().flatten(), why);
        }
        let made = |calls: &Vec<MemberCall<'_>>| calls.first().map(|call| call.made());
        let is_even = all_equal(sequences.values().map(made));
        let mut sets: BTreeMap<u32, Vec<MemberCall<'c>>> = BTreeMap::new();
        for call in sequences.into_values().flatten() {
            sets.entry(call.call.number).or_default().push(call);
        }
        let instance = |made: &MemberCall<'_>| (made.call.stage, made.call.instance);
        let is_whole = |set: &Vec<MemberCall<'_>>| set.len() as u64 == seen;
        let is_of_one = |set: &Vec<MemberCall<'_>>| all_equal(set.iter().map(instance));
        let whole = || sets.values().filter(|set| is_whole(set));
        let astray = whole().filter(|set| !is_of_one(set)).count();
        let first = whole().next().and_then(|set| set.first()).map(instance);
        let tells = whole().flatten().any(|made| Some(instance(made)) != first);
        let is_known = is_even || tells && astray * 100 <= whole().count();
        for set in sets.into_values() {
            match is_known && is_whole(&set) && (is_even || is_of_one(&set)) {
                true => self.sets.push(set),
                false => self.refuse(set, Unmatched::UnequalCounts),
            }
        }
    }

    /// Takes the first calls of all members for one collective, then the second, and so on.
    fn zip(&mut self, sequences: &Sequences<'c>) {
        let length = sequences.values().map(Vec::len).min().unwrap_or(0);
        let set = |at: usize| sequences.values().filter_map(|made| made.get(at).copied()).collect();
        self.sets.extend((0..length).map(set));
    }

    fn refuse(&mut self, made: impl IntoIterator<Item = MemberCall<'c>>, why: Unmatched) {
        self.unmatched.extend(made.into_iter().map(|made| (made, why)));
    }
}

/// Whether some calls were left out by their numbers. Of a sample they are left out by instance.
fn is_thinned(sequences: &Sequences<'_>) -> bool {
    let made = || sequences.values().flatten();
    made().any(|made| made.call.number != NO_NUMBER) && !made().any(|made| made.by.gated)
}

fn all_equal<T: PartialEq>(mut values: impl Iterator<Item = T>) -> bool {
    let Some(first) = values.next() else { return true };
    values.all(|value| value == first)
}

/// Whether every member made as many calls as the others.
fn agree(sequences: &Sequences<'_>, members: u64) -> Result<(), Unmatched> {
    let seen = sequences.len() as u64;
    if seen < members {
        return Err(Unmatched::MissingInInstance { seen, members });
    }
    match all_equal(sequences.values().map(Vec::len)) {
        true => Ok(()),
        false => Err(Unmatched::UnequalCounts),
    }
}

// A member arrives when its communication kernel starts. Up to the last arrival it waits, from then
// on the transfer runs: both add up to the duration of its call. Members that arrive together within
// the error of the clocks do not wait. Where that error is longer than the whole call, nothing is
// known of it.

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

type SplitAttempt<'c> = (Vec<MemberCall<'c>>, Result<Split<'c>, Unmatched>);

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
    let mut unnamed: BTreeMap<_, Vec<SplitAttempt<'_>>> = BTreeMap::new();
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
        match one(clock, &set, clock_error) {
            split if at >= matching.unnamed_from => {
                let kind = set.first().map(|made| (made.call.operation, made.call.bytes));
                unnamed.entry(kind).or_default().push((set, split));
            }
            Ok(split) => found.add(split),
            Err(why) => matching.refuse(set, why),
        }
    }
    for sets in unnamed.into_values() {
        let contradicts =
            |(_, split): &&SplitAttempt<'_>| matches!(split, Err(Unmatched::NoOverlap));
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
fn round_up(value: u64) -> u64 {
    let unit = 10u64.pow(value.checked_ilog10().unwrap_or(0));
    value.div_ceil(unit).saturating_mul(unit)
}

fn one<'c>(
    clock: &SliceClock,
    set: &[MemberCall<'c>],
    clock_error: u64,
) -> Result<Split<'c>, Unmatched> {
    let at = |made: &MemberCall<'_>, mono_ns| clock.at(made.by.host, mono_ns);
    let time =
        |made: &MemberCall<'c>| (at(made, made.call.start_ns), at(made, made.call.end_ns), *made);
    let mut times: Vec<(i128, i128, MemberCall<'c>)> = set.iter().map(time).collect();
    let errors = set.iter().map(|made| made.by.error_ns).collect();
    let error_ns = sum_of_largest_two(errors).saturating_add(clock_error);
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
        let error_us = round_up(error_ns.div_ceil(1_000));
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
    use crate::ranks::{Calls, ProcessCalls};
    use stage2_read::trace::collectives::{Call, Communicator, Thinning};

    /// Processes with a call at each of `times`; of those, every process keeps `limit`.
    fn thinned(processes: &[(Vec<u64>, u32)], kept: usize) -> Calls {
        let mut calls = Calls::default();
        for (times, per_instance) in processes {
            let call = |(number, &at): (u32, &u64)| Call {
                operation: Operation::AllReduce,
                communicator: Some(7),
                start_ns: at,
                end_ns: at + 1,
                instance: number / per_instance,
                ..Call::default()
            };
            let mut all: Vec<Call> = (0..).zip(times).map(call).collect();
            let mut thinning = Thinning::default();
            thinning.number_all(&mut all);
            let places = thinning.thin(&all, kept, false);
            let mut stays = places.iter().map(Option::is_some);
            all.retain(|_| stays.next().expect("one place for each"));
            calls.processes.push(ProcessCalls { calls: all, thinning, ..ProcessCalls::default() });
        }
        calls
    }

    #[test]
    fn processes_that_keep_parts_of_different_size_compare_the_same_calls() {
        let times = |count: u64| (0..count).map(|at| at * 10).collect::<Vec<_>>();
        // The second one ended a step and a half earlier.
        let all = [(times(8_000), 8), (times(7_988), 8)];
        let mut calls = thinned(&all, 1_000);
        calls.processes[1] = thinned(&all[1..], 4_000).processes.remove(0);
        let compared = calls.even_out().expect("some were left out");
        assert_eq!(compared.calls, 8_000 + 7_988);
        let found = matching(&calls, None);
        let number = |set: &Vec<MemberCall<'_>>| set.iter().map(|made| made.call.number).collect();
        let sets: Vec<Vec<u32>> = found.sets.iter().map(number).collect();
        assert!(sets.iter().all(|set| set.len() == 2 && set[0] == set[1]), "{sets:?}");
        assert!((200..=500).contains(&sets.len()), "{}", sets.len());
        let late = sets.iter().filter(|set| set[0] >= 7_200).count();
        assert!(late >= 15, "{late} of the last tenth");
        assert!(found.unmatched.iter().all(|(made, _)| made.call.number >= 7_988));
        // What was counted stands for all.
        let weight = calls.processes[0].calls[0].weight;
        assert_eq!(weight.instances, 8_000);
        assert_eq!(weight.recorded, calls.processes[0].calls.len() as u64);
    }

    #[test]
    fn calls_that_are_missing_at_the_start_are_not_paired_with_later_ones() {
        let times = |from: u64| (from..8_000).map(|at| at * 10).collect::<Vec<_>>();
        for per_instance in [1, 8, 10_000] {
            let mut late = times(0);
            late.drain(..1);
            let mut calls = thinned(&[(times(0), per_instance), (late, per_instance)], 1_000);
            // Instances go by what happened, and not by the number of the call.
            for call in &mut calls.processes[1].calls {
                call.instance = (call.number + 1) / per_instance;
            }
            calls.even_out();
            let found = matching(&calls, None);
            assert!(found.sets.is_empty(), "{per_instance}: {}", found.sets.len());
            assert!(found.unmatched.iter().all(|(_, why)| *why == Unmatched::UnequalCounts));
        }
    }

    #[test]
    fn a_kind_that_lost_no_call_is_matched_as_without_thinning() {
        let times: Vec<u64> = (0..8_000).map(|at| at * 10).collect();
        let mut calls = thinned(&[(times.clone(), 8), (times, 8)], 1_000);
        // Each process broadcasts twice in an instance; the second one misses the first broadcast.
        for (process, first) in calls.processes.iter_mut().zip([0, 1]) {
            let broadcast = |number: u32| Call {
                operation: Operation::Broadcast,
                communicator: Some(7),
                start_ns: u64::from(number) * 1_000 + 5,
                end_ns: u64::from(number) * 1_000 + 6,
                instance: number / 2,
                ..Call::default()
            };
            process.calls.extend((first..40).map(broadcast));
            process.thinning.number_all(&mut process.calls);
        }
        calls.even_out().expect("some were left out");
        let found = matching(&calls, None);
        let broadcasts = |set: &&Vec<MemberCall<'_>>| set[0].call.operation == Operation::Broadcast;
        assert_eq!(found.sets.iter().filter(broadcasts).count(), 38, "all but the first instance");
    }

    #[test]
    fn calls_of_two_jobs_that_name_no_communicator_are_not_one_group() {
        let mut calls = Calls::default();
        for hash in [7, 7, 8, 8] {
            let of = Communicator { hash, members: Some(2), rank: None, local: 1 };
            calls.processes.push(ProcessCalls {
                calls: vec![Call { operation: Operation::AllReduce, ..Call::default() }],
                communicators: vec![of],
                communicators_made: 1,
                ..ProcessCalls::default()
            });
        }
        let found = matching(&calls, Some(4));
        assert_eq!((found.sets.len(), found.unmatched.len()), (0, 4));
        assert!(found.unmatched.iter().all(|(_, why)| *why == Unmatched::SeveralCommunicators));
    }

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
        assert_eq!([0, 7, 10, 101, 950].map(round_up), [0, 7, 10, 200, 1_000]);
        assert_eq!(round_up(u64::MAX), u64::MAX);
    }
}
