//! Calls of all ranks -> collectives: which calls of which members were one and the same.
//!
//! With the hash of a communicator, the n-th call of an operation in it is the same collective on
//! every member. Without, it is the n-th of an operation and size in an instance of a stage, and the
//! group is taken to be all ranks. Only where the counts of all members agree, or where the later
//! calls of a member were not kept and the counts of all others agree; else nothing is matched, and
//! the reason is said.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::calls::{CallId, Calls, Member, ProcessCalls};
use stage2_model::Operation;
use stage2_text::numbers::count;

/// Calls that may belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Communicator(u64, Operation),
    Unnamed(Operation, Option<u64>),
}

/// Calls of each member, in the order of their start.
type Sequences = BTreeMap<Member, Vec<CallId>>;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Matching {
    /// Calls of one collective each, one of every member, in the order of members.
    pub(super) sets: Vec<Vec<CallId>>,
    /// Sets from this index on were matched without a communicator hash.
    pub(super) unnamed_from: usize,
    /// Calls that were not matched, and why.
    pub(super) unmatched: Vec<(CallId, Unmatched)>,
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
pub(super) fn matching(calls: &Calls, ranks: Option<u64>) -> Matching {
    let known = communicators(calls);
    let mut by_key: BTreeMap<Key, Sequences> = BTreeMap::new();
    let mut cut: Vec<CallId> = Vec::new();
    for (id, call) in calls.ids() {
        let key = match call.communicator {
            Some(hash) => Key::Communicator(hash, call.operation),
            None => Key::Unnamed(call.operation, call.bytes),
        };
        let Some(member) = calls.member(id) else { continue };
        // Calls are dropped in the order of the file: from the first of them on, nobody knows which
        // of several threads' calls are missing.
        let process = calls.processes.get(id.process as usize);
        if process.and_then(|p| p.cut_from_ns).is_some_and(|from| call.start_ns >= from) {
            cut.push(id);
            continue;
        }
        by_key.entry(key).or_default().entry(member).or_default().push(id);
    }
    let everyone: BTreeSet<Member> = calls.ids().filter_map(|(id, _)| calls.member(id)).collect();
    let unnamed = unnamed_group(calls, &known, &everyone, ranks);
    let mut matching = Matching::default();
    matching.refuse(cut, Unmatched::Cut);
    // Keys with a communicator come first.
    for (key, mut sequences) in by_key {
        for ids in sequences.values_mut() {
            ids.sort_by_key(|&id| calls.get(id).map(|call| (call.start_ns, call.end_ns)));
        }
        match key {
            Key::Communicator(_, Operation::Send | Operation::Recv)
            | Key::Unnamed(Operation::Send | Operation::Recv, _) => {
                matching.refuse(sequences.into_values().flatten(), Unmatched::PointToPoint);
            }
            Key::Communicator(hash, _) => {
                match known.get(&hash).map_or(Ok(0), |known| known.members()) {
                    Ok(members) => matching.take(calls, sequences, members),
                    Err(why) => matching.refuse(sequences.into_values().flatten(), why),
                }
                matching.unnamed_from = matching.sets.len();
            }
            Key::Unnamed(..) => match &unnamed {
                Ok(members) => matching.by_instance(calls, sequences, *members),
                Err(why) => matching.refuse(sequences.into_values().flatten(), *why),
            },
        }
    }
    matching
}

fn communicators(calls: &Calls) -> HashMap<u64, Known> {
    let mut known: HashMap<u64, Known> = HashMap::new();
    for (id, call) in calls.ids() {
        if let (Some(hash), Some(member)) = (call.communicator, calls.member(id)) {
            known.entry(hash).or_default().seen.insert(member);
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

impl Matching {
    /// Matches over the whole run, or, where the counts differ, in each instance of a stage.
    fn take(&mut self, calls: &Calls, sequences: Sequences, members: u64) {
        let of = |member: &Member| calls.processes.get(member.process as usize);
        // Of a sample, the same instances need not have been recorded everywhere.
        let gated = sequences.keys().filter_map(of).any(|process| process.gated);
        if !gated && agree(&sequences, members).is_ok() {
            self.zip(sequences);
        } else if !gated && sequences.len() as u64 == members && only_cut(&sequences, of) {
            let common = sequences.values().map(Vec::len).min().unwrap_or(0);
            let rest = sequences.values().flat_map(|ids| ids.iter().skip(common).copied());
            self.refuse(rest, Unmatched::Cut);
            self.zip(sequences);
        } else {
            self.by_instance(calls, sequences, members);
        }
    }

    fn by_instance(&mut self, calls: &Calls, sequences: Sequences, members: u64) {
        let mut instances: BTreeMap<(u32, u32), Sequences> = BTreeMap::new();
        for (member, ids) in sequences {
            for id in ids {
                let Some(call) = calls.get(id) else { continue };
                let instance = instances.entry((call.stage, call.instance)).or_default();
                instance.entry(member).or_default().push(id);
            }
        }
        for sequences in instances.into_values() {
            match agree(&sequences, members) {
                Ok(()) => self.zip(sequences),
                Err(why) => self.refuse(sequences.into_values().flatten(), why),
            }
        }
    }

    /// Takes the first calls of all members for one collective, then the second, and so on.
    fn zip(&mut self, sequences: Sequences) {
        let length = sequences.values().map(Vec::len).min().unwrap_or(0);
        let set = |at: usize| sequences.values().filter_map(|ids| ids.get(at).copied()).collect();
        self.sets.extend((0..length).map(set));
    }

    /// Notes that calls cannot be matched.
    pub(super) fn refuse(&mut self, ids: impl IntoIterator<Item = CallId>, why: Unmatched) {
        self.unmatched.extend(ids.into_iter().map(|id| (id, why)));
    }
}

/// Whether the counts differ only because the later calls of some members were not kept, so that the
/// first ones of everyone are there: the others agree, and no member has more than they have.
fn only_cut<'c>(sequences: &Sequences, of: impl Fn(&Member) -> Option<&'c ProcessCalls>) -> bool {
    let is_cut = |member| of(member).is_some_and(|process| process.cut_from_ns.is_some());
    let lengths =
        |cut| sequences.iter().filter(move |(m, _)| is_cut(m) == cut).map(|(_, c)| c.len());
    let Some(whole) = lengths(false).max() else { return true };
    lengths(false).min() == Some(whole) && lengths(true).max().is_some_and(|cut| cut <= whole)
}

/// Whether every member made as many calls as the others.
fn agree(sequences: &Sequences, members: u64) -> Result<(), Unmatched> {
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
        let unmatched = matching.unmatched.iter().map(|&(id, why)| (id.process, why)).collect();
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
