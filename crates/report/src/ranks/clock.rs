//! Clocks of several hosts -> one.
//!
//! Processes of one host share its monotonic clock. Hosts share none: wall clocks are seldom within
//! a microsecond of each other. But in a collective that needs all its members nobody ends before
//! the last has started: each one that spans two hosts bounds how far their clocks are apart from
//! both sides. Clocks also drift, so each slice of the run has its own bounds: one bound for a
//! whole run would shrink to nothing while the clocks move apart.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::ranks::MemberCall;
use stage2_contract::order::IntoOrdered as _;

/// The shortest and the longest slice, ns. Within the shortest, clocks that drift by 50 ppm move
/// half a microsecond.
const SLICE_NS: (i128, i128) = (10_000_000, 1_000_000_000);
/// Slices of a run: enough to see the drift of a short one, and few enough for one of days.
const SLICES: (i128, i128) = (16, 1024);

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

/// What must be added to the clock of one host to have that of another, ns: at least and at most.
#[derive(Clone, Copy, Debug)]
struct Bound {
    least: i128,
    most: i128,
}

impl Bound {
    fn middle(self) -> i128 {
        (self.least + self.most) / 2
    }

    /// Where clocks drift, the bounds contradict each other by as much.
    fn half(self) -> i128 {
        (self.most - self.least).abs() / 2
    }
}

/// Bounds of two hosts, by slice of the run.
#[derive(Debug, Default)]
struct Pair(BTreeMap<i128, Bound>);

impl Pair {
    /// What is to be added in a slice, and what that may be off by, ns.
    fn at(&self, slice: i128) -> Option<(i128, i128)> {
        let before = self.0.range(..slice).next_back();
        let after = self.0.range(slice + 1..).next();
        // How far the middles of two slices are apart, for each slice of the way: the drift.
        let drift = |(a, at): (&i128, &Bound), (b, other): (&i128, &Bound)| {
            let apart = (at.middle() - other.middle()).abs();
            let slices = (a - b).abs().max(1);
            (apart + slices - 1) / slices
        };
        if let Some(own) = self.0.get_key_value(&slice) {
            let drifts = [before, after].into_iter().flatten().map(|other| drift(own, other));
            return Some((own.1.middle(), own.1.half() + (drifts.max().unwrap_or(0) + 1) / 2));
        }
        let (nearest, other) = match (before, after) {
            (Some((_, a)), Some((_, b))) => {
                let apart = (a.middle() - b.middle()).abs();
                let error = a.half().max(b.half()) + (apart + 1) / 2;
                return Some(((a.middle() + b.middle()) / 2, error));
            }
            (Some(last), None) => (last, self.0.range(..last.0).next_back()),
            (None, first) => (first?, self.0.range(first?.0 + 1..).next()),
        };
        // Before the first slice with bounds, or after the last, the clocks went on drifting.
        let ((at, bound), per_slice) = (nearest, other.map_or(0, |other| drift(nearest, other)));
        let slices = (slice - at).abs() + 1;
        Some((bound.middle(), bound.half().saturating_add(per_slice.saturating_mul(slices))))
    }
}

/// The clock of the run.
#[derive(Debug, Default)]
pub(super) struct CommonClock {
    /// What is added to the monotonic clock of a host to have its wall clock, ns.
    wall_ahead_ns: BTreeMap<usize, i64>,
    /// Sets that each host is in.
    weights: BTreeMap<usize, u64>,
    first_ns: i128,
    slice_ns: i128,
    pairs: BTreeMap<(usize, usize), Pair>,
    /// The slice that was asked for last: sets come by communicator, in the order of time.
    latest: Option<(i128, SliceClock)>,
}

/// What makes the wall clock of a host that of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostCorrection {
    /// Times of its own wall clock, and what is to be added there, ns.
    pub(super) points: Vec<(i64, i64)>,
    /// What that may be off by at most, ns.
    pub(super) error_ns: u64,
}

/// The common clock in one slice of the run.
#[derive(Debug, Default)]
pub(super) struct SliceClock {
    offsets: BTreeMap<usize, Offset>,
}

impl CommonClock {
    /// Ties the hosts of the members of `sets`, in which all members are needed. Before that, the
    /// clocks of hosts differ by their `wall_ahead_ns`. Hosts that communicate over others are tied
    /// over these; those that do not communicate at all are not.
    pub(super) fn new<'s, 'c: 's>(
        wall_ahead_ns: &BTreeMap<usize, i64>,
        sets: impl Iterator<Item = &'s Vec<MemberCall<'c>>> + Clone,
    ) -> Self {
        let mut clock = Self { wall_ahead_ns: wall_ahead_ns.clone(), ..Self::default() };
        for set in sets.clone() {
            let hosts: BTreeSet<usize> = set.iter().map(|made| made.by.host).into_set();
            for host in hosts {
                *clock.weights.entry(host).or_default() += 1;
            }
        }
        let times = || sets.clone().filter_map(|set| clock.begin(set));
        let first = times().min().unwrap_or(0);
        let length = times().max().unwrap_or(0) - first;
        let slice_ns = (length / SLICES.0).clamp(SLICE_NS.0, SLICE_NS.1);
        clock.slice_ns = slice_ns.max(length / SLICES.1);
        clock.first_ns = first;
        for set in sets {
            clock.bound(set);
        }
        clock
    }

    /// To be added to the monotonic clock of a host to have its wall clock, ns.
    fn base(&self, host: usize) -> i128 {
        i128::from(self.wall_ahead_ns.get(&host).copied().unwrap_or(0))
    }

    /// The host of a set that is in the most sets: the others are tied to it.
    fn centre(&self, hosts: impl Iterator<Item = usize>) -> Option<usize> {
        hosts.max_by_key(|host| (self.weights.get(host), Reverse(*host)))
    }

    /// When a set began, on the wall clock of its centre.
    fn begin(&self, set: &[MemberCall<'_>]) -> Option<i128> {
        let centre = self.centre(set.iter().map(|made| made.by.host))?;
        let of_centre = set.iter().filter(|made| made.by.host == centre);
        let start = of_centre.map(|made| made.call.start_ns).min()?;
        Some(i128::from(start) + self.base(centre))
    }

    fn slice(&self, begin: i128) -> i128 {
        (begin - self.first_ns).div_euclid(self.slice_ns.max(1))
    }

    /// Narrows the bounds of the hosts of `set` in its slice.
    fn bound(&mut self, set: &[MemberCall<'_>]) {
        // Latest start and earliest end on each host, on wall clocks.
        let mut spans: BTreeMap<usize, (i128, i128)> = BTreeMap::new();
        for &MemberCall { by, call, .. } in set {
            let host = by.host;
            let (start, end) = (i128::from(call.start_ns), i128::from(call.end_ns));
            let (start, end) = (start + self.base(host), end + self.base(host));
            let span = spans.entry(host).or_insert((start, end));
            *span = (span.0.max(start), span.1.min(end));
        }
        let Some(centre) = self.centre(spans.keys().copied()) else { return };
        let Some((start, end)) = spans.remove(&centre) else { return };
        let Some(slice) = self.begin(set).map(|begin| self.slice(begin)) else { return };
        for (host, (its_start, its_end)) in spans {
            let (least, most) = (start - its_end, end - its_start);
            let of_pair = &mut self.pairs.entry((centre, host)).or_default().0;
            let bound = of_pair.entry(slice).or_insert(Bound { least, most });
            *bound = Bound { least: bound.least.max(least), most: bound.most.min(most) };
        }
    }

    /// The clock in the slice of `set`.
    pub(super) fn during(&mut self, set: &[MemberCall<'_>]) -> &SliceClock {
        let slice = self.begin(set).map_or(0, |begin| self.slice(begin));
        let latest = self.latest.take().filter(|&(known, _)| known == slice);
        let latest = latest.unwrap_or_else(|| (slice, self.tied(slice)));
        &self.latest.insert(latest).1
    }

    /// What must be added to the wall clock of each host that is tied to others, over the run, and what
    /// that may be off by at most, ns. Times are those of the host's own wall clock. The first is the
    /// host that the others are tied to. Empty: no host is tied to another.
    pub(super) fn corrections(&self) -> Vec<(usize, HostCorrection)> {
        let slices = || self.pairs.values().flat_map(|pair| pair.0.keys().copied());
        let (Some(first), Some(last)) = (slices().min(), slices().max()) else { return Vec::new() };
        let Some(root) = self.centre(self.weights.keys().copied()) else { return Vec::new() };
        let mut found: BTreeMap<usize, HostCorrection> = BTreeMap::new();
        // Slices are few, whatever the length of the run.
        for slice in first..=last {
            for (host, offset) in self.tied(slice).offsets {
                if offset.root != root {
                    continue;
                }
                let narrow = |ns: i128| i64::try_from(ns).unwrap_or(i64::MAX);
                let add = offset.add_ns - self.base(host);
                let middle = self.first_ns + slice * self.slice_ns + self.slice_ns / 2;
                let of_host = found.entry(host).or_default();
                of_host.error_ns = of_host.error_ns.max(offset.error_ns);
                of_host.points.push((narrow(middle - add), narrow(add)));
            }
        }
        if found.len() < 2 {
            return Vec::new();
        }
        let mut all: Vec<(usize, HostCorrection)> = found.into_iter().collect();
        all.sort_by_key(|(host, _)| *host != root);
        all
    }

    /// All hosts in one slice, each tied to the one that is in the most sets.
    fn tied(&self, slice: i128) -> SliceClock {
        let mut edges: BTreeMap<usize, Vec<(usize, i128, u64)>> = BTreeMap::new();
        for (&(from, to), pair) in &self.pairs {
            let Some((add_ns, error_ns)) = pair.at(slice) else { continue };
            let error_ns = u64::try_from(error_ns).unwrap_or(u64::MAX);
            edges.entry(from).or_default().push((to, add_ns, error_ns));
            edges.entry(to).or_default().push((from, -add_ns, error_ns));
        }
        let mut roots: Vec<usize> = self.weights.keys().copied().collect();
        roots.sort_by_key(|host| Reverse(self.weights.get(host)));
        let mut offsets: BTreeMap<usize, Offset> = BTreeMap::new();
        for root in roots {
            // The way with the least error from the root to each host.
            let mut next = BinaryHeap::from([Reverse((0u64, root, 0i128))]);
            while let Some(Reverse((error_ns, host, add_ns))) = next.pop() {
                if offsets.contains_key(&host) {
                    continue;
                }
                let to_wall = self.base(host);
                offsets.insert(host, Offset { add_ns: to_wall + add_ns, error_ns, root });
                for &(to, add, error) in edges.get(&host).into_iter().flatten() {
                    next.push(Reverse((error_ns.saturating_add(error), to, add_ns + add)));
                }
            }
        }
        SliceClock { offsets }
    }
}

impl SliceClock {
    /// A time of a host's monotonic clock, on the common one.
    pub(super) fn at(&self, host: usize, mono_ns: u64) -> i128 {
        i128::from(mono_ns) + self.offsets.get(&host).map_or(0, |offset| offset.add_ns)
    }

    /// What times of these hosts may be off by against each other; nothing where it is not known.
    pub(super) fn error_ns(&self, hosts: impl Iterator<Item = usize>) -> Option<u64> {
        let distinct: BTreeSet<usize> = hosts.into_set();
        if distinct.len() < 2 {
            return Some(0);
        }
        let offset = |host| self.offsets.get(&host).copied();
        let offsets = distinct.into_iter().map(offset).collect::<Option<Vec<Offset>>>()?;
        let root = offsets.first()?.root;
        if offsets.iter().any(|offset| offset.root != root) {
            return None;
        }
        Some(sum_of_largest_two(offsets.iter().map(|offset| offset.error_ns).collect()))
    }
}

/// What two of several times may be off by against each other, at most.
pub(super) fn sum_of_largest_two(mut errors_ns: Vec<u64>) -> u64 {
    errors_ns.sort_unstable_by(|a, b| b.cmp(a));
    errors_ns.into_iter().take(2).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::{Calls, ProcessCalls};
    use stage2_read::trace::collectives::Call;

    /// One process on each of five hosts, whose clocks are ahead by so much, ns.
    const AHEAD: [u64; 5] = [70, 0, 1_000, 5_000, 300];

    /// Members, when it began, how long it took and how far the clock of each host was ahead, ns.
    type Collective<'m> = (&'m [u32], u64, u64, [u64; 5]);

    fn recorded(collectives: &[Collective<'_>]) -> (Calls, Vec<Vec<(u32, usize)>>) {
        let mut calls = Calls::default();
        let mut sets = Vec::new();
        for host in 0..AHEAD.len() {
            calls.processes.push(ProcessCalls { host, ..ProcessCalls::default() });
        }
        for &(members, at, takes, ahead) in collectives {
            let mut set = Vec::new();
            for &process in members {
                let start_ns = at + ahead[process as usize];
                let all = &mut calls.processes[process as usize].calls;
                set.push((process, all.len()));
                all.push(Call { start_ns, end_ns: start_ns + takes, ..Call::default() });
            }
            sets.push(set);
        }
        (calls, sets)
    }

    /// Collectives within one slice: members, and when it began; each takes `10 + members` ns.
    fn tied(collectives: &[(&[u32], u64)]) -> SliceClock {
        let all: Vec<Collective<'_>> = collectives
            .iter()
            .map(|&(members, at)| (members, at, 10 + members.len() as u64, AHEAD))
            .collect();
        let (calls, sets) = recorded(&all);
        let wall = (0..AHEAD.len()).map(|host| (host, 0)).collect();
        let sets: Vec<_> = sets.iter().map(|set| calls.set(set)).collect();
        CommonClock::new(&wall, sets.iter()).tied(0)
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

    #[test]
    fn clocks_that_drift_apart_are_never_said_to_agree_better_than_they_do() {
        const US: u64 = 1_000;
        // Collectives of 20 us each, while the clock of host 2 gains 40 us. Over the whole run the
        // bounds contradict each other; at 20 us they would meet and leave no error.
        for (seconds, gains_us) in [(4, 40), (4, 20), (40, 40), (3_600, 36_000), (1, 40)] {
            let length = seconds * 1_000_000_000;
            let moment = |at: u64| (length / 400 * at, gains_us * US * at / 400);
            let of = |at: u64| {
                let (ns, gained) = moment(at);
                let ahead = [0, 0, 1_000_000 + gained, 0, 0];
                (&[1u32, 2][..], ns, 20 * US, ahead)
            };
            let all: Vec<Collective<'_>> = (0..=400).map(of).collect();
            let (calls, sets) = recorded(&all);
            let sets: Vec<_> = sets.iter().map(|set| calls.set(set)).collect();
            let mut clock = CommonClock::new(&BTreeMap::new(), sets.iter());
            for (at, set) in (0..=400).zip(&sets) {
                let (ns, gained) = moment(at);
                let clock = clock.during(set);
                let apart = clock.at(2, ns + 1_000_000 + gained) - clock.at(1, ns);
                let error = clock.error_ns([1, 2].into_iter()).expect("tied");
                let truth = apart.unsigned_abs();
                assert!(truth <= error.into(), "{truth} of {error} ns after {ns} of {length} ns");
                // What 20 us leave open, and the drift of one slice.
                let slice = gains_us * US / seconds.clamp(16, 1024);
                assert!(error <= 20 * US + slice, "{error} ns in {seconds} s");
            }
        }
    }

    #[test]
    fn corrections_follow_the_clock_of_each_host_that_is_tied() {
        // Host 2 is 1,000 ns ahead of host 1 and gains 100 ns in the run; host 4 is tied to nobody.
        let ahead = |gained: u64| [70, 0, 1_000 + gained, 5_000, 300];
        let (calls, sets) = recorded(&[
            (&[1, 2], 0, 20, ahead(0)),
            (&[1, 2], 500_000_000, 20, ahead(50)),
            (&[1, 2], 1_000_000_000, 20, ahead(100)),
            (&[4], 1_000_000_000, 20, ahead(0)),
        ]);
        let sets: Vec<_> = sets.iter().map(|set| calls.set(set)).collect();
        let wall = BTreeMap::from([(1, 7), (2, 7), (4, 7)]);
        let found = CommonClock::new(&wall, sets.iter()).corrections();
        let hosts: Vec<usize> = found.iter().map(|(host, _)| *host).collect();
        assert_eq!(hosts, [1, 2], "the one that the others are tied to is the first");
        assert!(found[0].1.points.iter().all(|(_, add)| *add == 0), "{found:?}");
        let adds: Vec<i64> = found[1].1.points.iter().map(|(_, add)| *add).collect();
        assert_eq!((adds.first(), adds.last()), (Some(&-1_000), Some(&-1_100)));
        assert!(found[1].1.points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{found:?}");
        assert!(found[1].1.error_ns >= 20, "{found:?}");
        assert_eq!(CommonClock::default().corrections(), []);
    }

    #[test]
    fn slices_without_a_collective_take_the_bounds_of_their_neighbours() {
        let bound = |middle: i128, half: i128| Bound { least: middle - half, most: middle + half };
        let pair = Pair(BTreeMap::from([(0, bound(100, 10)), (4, bound(180, 6))]));
        assert_eq!(pair.at(2), Some((140, 50)), "between both, whichever way it drifted");
        assert_eq!(pair.at(4), Some((180, 16)), "half of what it drifts in a slice");
        assert_eq!(pair.at(6), Some((180, 6 + 3 * 20)), "it goes on drifting");
        assert_eq!(pair.at(-1), Some((100, 10 + 2 * 20)));
        assert_eq!(Pair::default().at(0), None);
    }
}
