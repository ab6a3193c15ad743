//! Calls of all ranks -> collectives: which calls of which members were one and the same.
//!
//! With the hash of a communicator, the n-th call of an operation in it is the same collective on
//! every member. Without, it is the n-th of an operation and size in an instance of a stage, and the
//! group is taken to be all ranks. Only where the counts of all members agree, or where the later
//! calls of a member were not kept; else nothing is matched, and the reason is said.

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
    /// Calls that were not matched, and an index into `reasons`.
    pub(super) unmatched: Vec<(CallId, usize)>,
    pub(super) reasons: Vec<String>,
}

const NOT_PAIRED: &str = "sends and receives are not matched with each other";
const CUT: &str = "the calls are beyond those that are kept of a process";

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
    for (id, call) in calls.ids() {
        let key = match call.communicator {
            Some(hash) => Key::Communicator(hash, call.operation),
            None => Key::Unnamed(call.operation, call.bytes),
        };
        let Some(member) = calls.member(id) else { continue };
        by_key.entry(key).or_default().entry(member).or_default().push(id);
    }
    let everyone: BTreeSet<Member> = calls.ids().filter_map(|(id, _)| calls.member(id)).collect();
    let unnamed = unnamed_group(calls, &known, &everyone, ranks);
    let mut matching = Matching::default();
    // Keys with a communicator come first.
    for (key, mut sequences) in by_key {
        for ids in sequences.values_mut() {
            ids.sort_by_key(|&id| calls.get(id).map(|call| (call.start_ns, call.end_ns)));
        }
        match key {
            Key::Communicator(_, Operation::Send | Operation::Recv)
            | Key::Unnamed(Operation::Send | Operation::Recv, _) => {
                matching.refuse(sequences.into_values().flatten(), NOT_PAIRED);
            }
            Key::Communicator(hash, _) => {
                match known.get(&hash).map_or(Ok(0), |known| known.members()) {
                    Ok(members) => matching.take(calls, sequences, members),
                    Err(why) => matching.refuse(sequences.into_values().flatten(), &why),
                }
                matching.unnamed_from = matching.sets.len();
            }
            Key::Unnamed(..) => match &unnamed {
                Ok(members) => matching.by_instance(calls, sequences, *members),
                Err(why) => matching.refuse(sequences.into_values().flatten(), why),
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
    fn members(&self) -> Result<u64, String> {
        let seen = self.seen.len() as u64;
        match self.expected {
            Some(expected) if expected == seen => Ok(seen),
            Some(expected) if expected > seen => Err(format!(
                "only {} of {} members of the communicator were recorded",
                count(seen),
                count(expected)
            )),
            Some(expected) => Err(format!(
                "{} GPUs were seen in a communicator of {}",
                count(seen),
                count(expected)
            )),
            None if seen > 1 => Ok(seen),
            None => Err("only one member of the communicator was recorded".to_owned()),
        }
    }
}

/// The members of the group that calls without a hash are taken to be of: all ranks.
fn unnamed_group(
    calls: &Calls,
    known: &HashMap<u64, Known>,
    everyone: &BTreeSet<Member>,
    ranks: Option<u64>,
) -> Result<u64, String> {
    let seen = everyone.len() as u64;
    let is_part = |known: &&Known| known.seen.len() > 1 && known.seen != *everyone;
    let several = calls.processes.iter().any(|p| p.communicators_made > 1);
    match ranks.filter(|&ranks| ranks != seen) {
        Some(ranks) if ranks > seen => Err(format!(
            "only {} of {} ranks were recorded with communication",
            count(seen),
            count(ranks)
        )),
        Some(ranks) => {
            Err(format!("{} GPUs communicate in a job of {} ranks", count(seen), count(ranks)))
        }
        None if seen < 2 => Err("only one rank was recorded".to_owned()),
        None if several || known.values().any(|known| is_part(&known)) => Err(
            "the job has several communicators, and these calls name none (NCCL names its own from \
             2.26 on; kernels of other libraries never do)"
                .to_owned(),
        ),
        None => Ok(seen),
    }
}

impl Matching {
    /// Matches over the whole run, or, where the counts differ, in each instance of a stage.
    fn take(&mut self, calls: &Calls, sequences: Sequences, members: u64) {
        let any = |is: fn(&ProcessCalls) -> bool| {
            let mut processes = sequences.keys().map(|member| member.process as usize);
            processes.any(|process| calls.processes.get(process).is_some_and(is))
        };
        // Of a sample, the same instances need not have been recorded everywhere.
        let (gated, cut) = (any(|process| process.gated), any(|process| process.cut));
        if !gated && agree(&sequences, members).is_ok() {
            self.zip(sequences);
        } else if !gated && cut && sequences.len() as u64 == members {
            // The first calls of everyone are there.
            let common = sequences.values().map(Vec::len).min().unwrap_or(0);
            let rest = sequences.values().flat_map(|ids| ids.iter().skip(common).copied());
            self.refuse(rest, CUT);
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
                Err(why) => self.refuse(sequences.into_values().flatten(), &why),
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
    pub(super) fn refuse(&mut self, ids: impl Iterator<Item = CallId>, why: &str) {
        let known = self.reasons.iter().position(|reason| reason == why);
        let reason = known.unwrap_or_else(|| {
            self.reasons.push(why.to_owned());
            self.reasons.len() - 1
        });
        self.unmatched.extend(ids.map(|id| (id, reason)));
    }
}

/// Whether every member made as many calls as the others.
fn agree(sequences: &Sequences, members: u64) -> Result<(), String> {
    let lengths = || sequences.values().map(Vec::len);
    let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
    let seen = sequences.len() as u64;
    match (seen < members, least == most) {
        (true, _) => Err(format!(
            "only {} of {} members made this call in the same stage instance",
            count(seen),
            count(members)
        )),
        (false, false) => {
            Err("members made different numbers of calls, so calls cannot be paired by position"
                .to_owned())
        }
        (false, true) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::collectives::Call;
    use crate::ranks::calls::ProcessCalls;

    #[test]
    fn what_was_cut_of_one_process_costs_no_match_of_what_was_kept() {
        let call = |at: u64| Call {
            operation: Operation::AllReduce,
            communicator: Some(7),
            start_ns: at,
            end_ns: at + 1,
            ..Call::default()
        };
        let of = |cuts: [bool; 2]| {
            let mut calls = Calls::default();
            for (count, cut) in [5, 8].into_iter().zip(cuts) {
                let all = (0..count).map(call).collect();
                calls.processes.push(ProcessCalls { calls: all, cut, ..ProcessCalls::default() });
            }
            let matching = matching(&calls, None);
            let why = |&(id, why): &(CallId, usize)| (id.process, matching.reasons[why].clone());
            let refused: Vec<_> = matching.unmatched.iter().map(why).collect();
            (matching.sets.len(), refused)
        };
        assert_eq!(of([true, false]), (5, vec![(1, CUT.to_owned()); 3]));
        let (sets, refused) = of([false, false]);
        assert_eq!((sets, refused.len()), (0, 13), "nobody knows which calls are missing");
    }
}
