//! Clocks of several hosts -> one.
//!
//! Processes of one host share its monotonic clock. Hosts share none: wall clocks are seldom within
//! a microsecond of each other. But in a collective that needs all its members nobody ends before
//! the last has started: each one that spans two hosts bounds how far their clocks are apart from
//! both sides, and what all of them leave open is the error.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::calls::{CallId, Calls};

/// Corrections of one host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Offset {
    /// To be added, ns.
    add_ns: i128,
    /// What it may be off by, ns.
    error_ns: u64,
    /// The host that it is tied to, over others or by itself.
    root: usize,
}

/// What is to be added to the clock of one host to have that of another, ns: at least and at most.
type Bound = (i128, i128);

/// The clock of the run.
#[derive(Debug, Default)]
pub(super) struct CommonClock {
    offsets: BTreeMap<usize, Offset>,
}

impl CommonClock {
    /// Ties the hosts of the members of `sets`, in which all members are needed. Before that, the
    /// clocks of hosts differ by their `wall_ahead_ns`. Hosts that communicate over others are tied
    /// over these; those that do not communicate at all are not.
    pub(super) fn new<'s>(
        calls: &Calls,
        wall_ahead_ns: &BTreeMap<usize, i64>,
        sets: impl Iterator<Item = &'s Vec<CallId>> + Clone,
    ) -> Self {
        let base = |host: usize| i128::from(wall_ahead_ns.get(&host).copied().unwrap_or(0));
        let mut weights: BTreeMap<usize, u64> = BTreeMap::new();
        for set in sets.clone() {
            let hosts: BTreeSet<usize> = set.iter().map(|id| calls.host(id.process)).collect();
            for host in hosts {
                *weights.entry(host).or_default() += 1;
            }
        }
        let bounds = bounds(calls, base, &weights, sets);
        let mut edges: BTreeMap<usize, Vec<(usize, i128, u64)>> = BTreeMap::new();
        for (&(from, to), &(least, most)) in &bounds {
            // Where clocks drift, the bounds contradict each other by as much.
            let Ok(error_ns) = u64::try_from((most - least).abs() / 2) else { continue };
            let add_ns = (least + most) / 2;
            edges.entry(from).or_default().push((to, add_ns, error_ns));
            edges.entry(to).or_default().push((from, -add_ns, error_ns));
        }
        let mut roots: Vec<usize> = weights.keys().copied().collect();
        roots.sort_by_key(|host| Reverse(weights.get(host)));
        let mut offsets: BTreeMap<usize, Offset> = BTreeMap::new();
        for root in roots {
            // The way with the least error from the root to each host.
            let mut next = BinaryHeap::from([Reverse((0u64, root, 0i128))]);
            while let Some(Reverse((error_ns, host, add_ns))) = next.pop() {
                if offsets.contains_key(&host) {
                    continue;
                }
                let to_wall = base(host);
                offsets.insert(host, Offset { add_ns: to_wall + add_ns, error_ns, root });
                for &(to, add, error) in edges.get(&host).into_iter().flatten() {
                    next.push(Reverse((error_ns.saturating_add(error), to, add_ns + add)));
                }
            }
        }
        Self { offsets }
    }

    /// A time of a host's monotonic clock, on the common one.
    pub(super) fn at(&self, host: usize, mono_ns: u64) -> i128 {
        i128::from(mono_ns) + self.offsets.get(&host).map_or(0, |offset| offset.add_ns)
    }

    /// What times of these hosts may be off by against each other; nothing where it is not known.
    pub(super) fn error_ns(&self, hosts: impl Iterator<Item = usize>) -> Option<u64> {
        let distinct: BTreeSet<usize> = hosts.collect();
        if distinct.len() < 2 {
            return Some(0);
        }
        let offset = |host| self.offsets.get(&host).copied();
        let offsets = distinct.into_iter().map(offset).collect::<Option<Vec<Offset>>>()?;
        let root = offsets.first()?.root;
        if offsets.iter().any(|offset| offset.root != root) {
            return None;
        }
        let mut errors: Vec<u64> = offsets.iter().map(|offset| offset.error_ns).collect();
        errors.sort_unstable_by(|a, b| b.cmp(a));
        Some(errors.into_iter().take(2).fold(0, u64::saturating_add))
    }
}

/// What all sets leave open between the host of each set that is in the most of them, and each other
/// one: (that host, another) -> what is to be added to the clock of the other.
fn bounds<'s>(
    calls: &Calls,
    base: impl Fn(usize) -> i128,
    weights: &BTreeMap<usize, u64>,
    sets: impl Iterator<Item = &'s Vec<CallId>>,
) -> BTreeMap<(usize, usize), Bound> {
    let mut bounds: BTreeMap<(usize, usize), Bound> = BTreeMap::new();
    for set in sets {
        // Latest start and earliest end on each host, on wall clocks.
        let mut spans: BTreeMap<usize, (i128, i128)> = BTreeMap::new();
        for &id in set {
            let Some(call) = calls.get(id) else { continue };
            let host = calls.host(id.process);
            let (start, end) = (i128::from(call.start_ns), i128::from(call.end_ns));
            let (start, end) = (start + base(host), end + base(host));
            let span = spans.entry(host).or_insert((start, end));
            *span = (span.0.max(start), span.1.min(end));
        }
        let centre = spans.keys().copied().max_by_key(|host| (weights.get(host), Reverse(*host)));
        let Some(centre) = centre else { continue };
        let Some((start, end)) = spans.remove(&centre) else { continue };
        for (host, (its_start, its_end)) in spans {
            let (least, most) = (start - its_end, end - its_start);
            let bound = bounds.entry((centre, host)).or_insert((least, most));
            *bound = (bound.0.max(least), bound.1.min(most));
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::collectives::Call;
    use crate::ranks::calls::ProcessCalls;

    /// One process on each of five hosts, whose clocks are ahead by so much, ns.
    const AHEAD: [u64; 5] = [70, 0, 1_000, 5_000, 300];

    /// Collectives: members, and when it began; each takes `10 + members` ns.
    fn tied(collectives: &[(&[u32], u64)]) -> CommonClock {
        let mut calls = Calls::default();
        let mut sets = Vec::new();
        for host in 0..AHEAD.len() {
            calls.processes.push(ProcessCalls { host, ..ProcessCalls::default() });
        }
        for &(members, at) in collectives {
            let mut set = Vec::new();
            for &process in members {
                let start_ns = at + AHEAD[process as usize];
                let end_ns = start_ns + 10 + members.len() as u64;
                let all = &mut calls.processes[process as usize].calls;
                set.push(CallId { process, call: all.len() as u32 });
                all.push(Call { start_ns, end_ns, ..Call::default() });
            }
            sets.push(set);
        }
        let wall = (0..AHEAD.len()).map(|host| (host, 0)).collect();
        CommonClock::new(&calls, &wall, sets.iter())
    }

    #[test]
    fn hosts_are_tied_over_those_that_they_communicate_with() {
        // Host 0 does not communicate; 1 and 3 only over 2; 4 only with itself.
        let clock = tied(&[(&[1, 2], 10), (&[2, 3], 50), (&[1, 2], 90), (&[4], 100)]);
        let at = |host: usize| clock.at(host, 10_000 + AHEAD[host]);
        assert_eq!((at(1), at(3)), (at(2), at(2)));
        let error = |hosts: [usize; 2]| clock.error_ns(hosts.into_iter());
        assert_eq!((error([1, 2]), error([2, 3]), error([1, 3])), (Some(12), Some(12), Some(24)));
        assert_eq!((error([0, 1]), error([1, 4]), error([0, 0])), (None, None, Some(0)));
    }

    #[test]
    fn the_way_with_the_least_error_is_taken() {
        let clock = tied(&[(&[1, 2, 3, 4], 10), (&[3, 4], 50), (&[2, 3], 60)]);
        let error = |hosts: [usize; 2]| clock.error_ns(hosts.into_iter());
        assert_eq!(error([3, 4]), Some(12), "a collective of both is closer than one of all");
        assert_eq!(error([1, 3]), Some(14));
    }
}
