//! Calls of all ranks -> collectives: which calls of which members were one and the same.
//!
//! With the hash of a communicator, the n-th call of an operation in it is the same collective on
//! every member. Without, it is the n-th of an operation and size in an instance of a stage, and the
//! group is taken to be all ranks. Only where the counts of all members agree, or where the later
//! calls of a member were not kept and the counts of all others agree; else nothing is matched, and
//! the reason is said.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::calls::{Calls, Member, MemberCall};
use stage2_model::Operation;
use stage2_text::numbers::count;

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
    /// Sets from this index on were matched without a communicator hash.
    pub(super) unnamed_from: usize,
    /// Calls that were not matched, and why.
    pub(super) unmatched: Vec<(MemberCall<'c>, Unmatched)>,
}

/// Why a call is in no collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(super) enum Unmatched {
    #[error("they exceed the number of calls kept per process")]
    Cut,
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
        "the job has several communicators, and these calls name none (NCCL names its own from 2.26 \
         on; kernels of other libraries never do)"
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

/// What a communicator is known to be.
#[derive(Debug, Default)]
struct Known {
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
        // Calls are dropped in the order of the file: from the first of them on, nobody knows which
        // of several threads' calls are missing.
        if made.by.cut_from_ns.is_some_and(|from| call.start_ns >= from) {
            matching.refuse([made], Unmatched::Cut);
            continue;
        }
        by_key.entry(key).or_default().entry(made.member()).or_default().push(made);
    }
    let everyone: BTreeSet<Member> = calls.all().map(MemberCall::member).collect();
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
                    Ok(members) => matching.take(sequences, members),
                    Err(why) => matching.refuse(sequences.into_values().flatten(), why),
                }
                matching.unnamed_from = matching.sets.len();
            }
            Key::Unnamed(..) => match &unnamed {
                Ok(members) => matching.by_instance(sequences, *members),
                Err(why) => matching.refuse(sequences.into_values().flatten(), *why),
            },
        }
    }
    matching
}

fn communicators(calls: &Calls) -> HashMap<u64, Known> {
    let mut known: HashMap<u64, Known> = HashMap::new();
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

impl Known {
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
    known: &HashMap<u64, Known>,
    everyone: &BTreeSet<Member>,
    ranks: Option<u64>,
) -> Result<u64, Unmatched> {
    let seen = everyone.len() as u64;
    // Of which only the set-up was seen, it is enough that it has no room for everyone.
    let is_part = |known: &&Known| {
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
    fn take(&mut self, sequences: Sequences<'c>, members: u64) {
        // Of a sample, the same instances need not have been recorded everywhere.
        let gated = sequences.values().flatten().any(|made| made.by.gated);
        if !gated && agree(&sequences, members).is_ok() {
            self.zip(&sequences);
        } else if !gated && sequences.len() as u64 == members && only_cut(&sequences) {
            let common = sequences.values().map(Vec::len).min().unwrap_or(0);
            let rest = sequences.values().flat_map(|made| made.iter().skip(common).copied());
            self.refuse(rest, Unmatched::Cut);
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

    /// Takes the first calls of all members for one collective, then the second, and so on.
    fn zip(&mut self, sequences: &Sequences<'c>) {
        let length = sequences.values().map(Vec::len).min().unwrap_or(0);
        let set = |at: usize| sequences.values().filter_map(|made| made.get(at).copied()).collect();
        self.sets.extend((0..length).map(set));
    }

    pub(super) fn refuse(
        &mut self,
        made: impl IntoIterator<Item = MemberCall<'c>>,
        why: Unmatched,
    ) {
        self.unmatched.extend(made.into_iter().map(|made| (made, why)));
    }
}

/// Whether the counts differ only because the later calls of some members were not kept, so that the
/// first ones of everyone are there: the others agree, and no member has more than they have.
fn only_cut(sequences: &Sequences<'_>) -> bool {
    let is_cut = |made: &[MemberCall<'_>]| made.iter().any(|made| made.by.cut_from_ns.is_some());
    let lengths = |cut| sequences.values().filter(move |m| is_cut(m) == cut).map(Vec::len);
    let Some(whole) = lengths(false).max() else { return true };
    lengths(false).min() == Some(whole) && lengths(true).max().is_some_and(|cut| cut <= whole)
}

/// Whether every member made as many calls as the others.
fn agree(sequences: &Sequences<'_>, members: u64) -> Result<(), Unmatched> {
    let lengths = || sequences.values().map(Vec::len);
    let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
    let seen = sequences.len() as u64;
    match (seen < members, least == most) {
        (true, _) => Err(Unmatched::MissingInInstance { seen, members }),
        (false, false) => Err(Unmatched::UnequalCounts),
        (false, true) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::collectives::{Call, Communicator};
    use crate::ranks::calls::ProcessCalls;

    const FAR: Option<u64> = Some(1_000);

    /// Calls one after the other of as many processes; those of some were not kept from a time on.
    /// Sets that are matched, and the process of each call that is not, with the reason.
    fn of<const N: usize>(processes: [(u64, Option<u64>); N]) -> (usize, Vec<(u32, Unmatched)>) {
        let call = |at: u64| Call {
            operation: Operation::AllReduce,
            communicator: Some(7),
            start_ns: at,
            end_ns: at + 1,
            ..Call::default()
        };
        let mut calls = Calls::default();
        for (count, cut_from_ns) in processes {
            let all = (0..count).map(call).collect();
            let process = ProcessCalls { calls: all, cut_from_ns, ..ProcessCalls::default() };
            calls.processes.push(process);
        }
        let matching = matching(&calls, None);
        let unmatched = matching.unmatched.iter().map(|&(made, why)| (made.process, why)).collect();
        (matching.sets.len(), unmatched)
    }

    #[test]
    fn what_was_cut_of_one_process_costs_no_match_of_what_was_kept() {
        let beyond = |process, calls| vec![(process, Unmatched::Cut); calls];
        assert_eq!(of([(5, FAR), (8, None)]), (5, beyond(1, 3)));
        assert_eq!(of([(5, FAR), (8, None), (8, None), (7, FAR)]).0, 5);
        assert_eq!(of([(5, FAR), (8, FAR)]), (5, beyond(1, 3)));
        let (sets, refused) = of([(5, None), (8, None)]);
        assert_eq!((sets, refused.len()), (0, 13), "nobody knows which calls are missing");
    }

    #[test]
    fn a_cut_process_does_not_hide_what_others_miss() {
        let (sets, refused) = of([(8, FAR), (5, None)]);
        assert_eq!((sets, refused.len()), (0, 13), "the one that was not cut misses three");
        let (sets, refused) = of([(3, FAR), (8, None), (5, None)]);
        assert_eq!((sets, refused.len()), (0, 16), "those that were not cut disagree");
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

    #[test]
    fn nothing_is_matched_from_the_time_of_the_first_call_that_was_not_kept() {
        // Eight are kept of each, but one that began as the sixth was not.
        let (sets, refused) = of([(8, Some(5)), (8, None)]);
        let mut by_process = [0; 2];
        refused.iter().for_each(|(process, _)| by_process[*process as usize] += 1);
        assert_eq!((sets, by_process), (5, [3, 3]));
        assert!(refused.iter().all(|(_, why)| *why == Unmatched::Cut), "{refused:?}");
    }
}
