//! Intervals of GPU work, nearly in order -> how long any of them ran (their union).
//!
//! Intervals are collected, sorted and merged in batches. What lies further back than a wide
//! window is folded into a sum, so that memory stays bounded; an interval that arrives even
//! later than that is counted, with the time that its overlap leaves open. Until then the union
//! is exact, whatever the order.

/// The longest gap between intervals that one launch right behind another leaves, ns: what a launch
/// costs the host, from a few microseconds in C++ to some tens in eager Python.
pub const BACK_TO_BACK_NS: u64 = 50_000;

/// The union of a set of intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Time in which at least one interval ran, ns.
    pub busy_ns: u64,
    /// Gaps between them that are no longer than [`BACK_TO_BACK_NS`], ns.
    pub short_gaps_ns: u64,
    /// Intervals that arrived too late to be placed exactly.
    pub late_intervals: u64,
    /// The union may be larger than `busy_ns` by at most this, ns.
    pub late_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Union {
    pending: Vec<(u64, u64)>,
    /// Disjoint, ascending, none before `horizon`; `pending` are those that came out of order.
    window: Vec<(u64, u64)>,
    horizon: u64,
    folded: Busy,
}

/// All unions of one file, by index, so that they share one bound on memory.
#[derive(Debug)]
pub struct Unions {
    all: Vec<Union>,
    pending: usize,
    batch: usize,
    window: usize,
}

impl Default for Unions {
    fn default() -> Self {
        Self::with_limits(Self::BATCH, Self::WINDOW)
    }
}

impl Unions {
    /// Intervals that are taken, over all unions of a file, before those out of order are sorted in.
    pub const BATCH: usize = 1 << 19;
    /// Disjoint intervals that are kept, over all unions of a file, before old ones are folded.
    pub const WINDOW: usize = 1 << 21;

    /// No union yet; over all of them, `batch` intervals are collected before they are sorted in,
    /// and `window` disjoint ones kept before old ones are folded (16 B each, twice that while
    /// they grow).
    pub fn with_limits(batch: usize, window: usize) -> Self {
        Self { all: Vec::new(), pending: 0, batch, window }
    }

    /// An empty union; returns its index.
    pub fn create(&mut self) -> usize {
        self.all.push(Union::default());
        self.all.len() - 1
    }

    /// A union that starts out with what `index` holds; returns its index.
    pub fn fork(&mut self, index: usize) -> usize {
        let copy = self.all.get(index).cloned().unwrap_or_default();
        self.pending += copy.pending.len();
        self.all.push(copy);
        self.all.len() - 1
    }

    /// Adds `start..end` to the union `index`.
    pub fn add(&mut self, index: usize, start: u64, end: u64) {
        let Some(union) = self.all.get_mut(index) else { return };
        match union.window.last_mut() {
            // In order, as most are: nothing has to be sorted.
            Some(last) if last.0 <= start && start <= last.1 => {
                last.1 = last.1.max(end);
                return;
            }
            Some(last) if last.1 < start && start < end => {
                union.window.push((start, end));
                self.pending += 1;
                return self.settle_if_full();
            }
            None if union.horizon <= start && start < end => {
                union.window.push((start, end));
                self.pending += 1;
                return self.settle_if_full();
            }
            _ => {}
        }
        match union.pending.last_mut() {
            Some(last) if last.0 <= start && start <= last.1 => last.1 = last.1.max(end),
            _ if start < end => {
                union.pending.push((start, end));
                self.pending += 1;
            }
            _ => {}
        }
        self.settle_if_full();
    }

    fn settle_if_full(&mut self) {
        if self.pending >= self.batch {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.all.iter_mut().for_each(Union::sort_in);
        self.pending = 0;
        let kept: usize = self.all.iter().map(|union| union.window.len()).sum();
        if kept > self.window {
            self.all.iter_mut().for_each(|union| union.fold(union.window.len() / 2));
        }
    }

    /// The unions, in the order of their creation.
    pub fn finish(mut self) -> Vec<Busy> {
        self.all
            .iter_mut()
            .map(|union| {
                union.sort_in();
                union.fold(union.window.len());
                union.folded
            })
            .collect()
    }
}

impl Union {
    fn sort_in(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut self.pending);
        for interval in &mut batch {
            if interval.0 < self.horizon {
                let unknown = self.horizon.min(interval.1) - interval.0;
                self.folded.late_intervals += 1;
                self.folded.late_ns = self.folded.late_ns.saturating_add(unknown);
                interval.0 = self.horizon;
            }
        }
        let first = batch.iter().map(|&(start, _)| start).min().unwrap_or(0);
        // Only the part of the window that the batch can touch is merged again.
        let untouched = self.window.partition_point(|&(_, end)| end < first);
        batch.extend(self.window.drain(untouched..));
        batch.sort();
        for &(start, end) in batch.iter().filter(|(start, end)| start < end) {
            match self.window.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => self.window.push((start, end)),
            }
        }
    }

    fn fold(&mut self, count: usize) {
        for (start, end) in self.window.drain(..count) {
            let gap = start.saturating_sub(self.horizon);
            if self.folded.busy_ns > 0 && gap <= BACK_TO_BACK_NS {
                self.folded.short_gaps_ns = self.folded.short_gaps_ns.saturating_add(gap);
            }
            self.folded.busy_ns = self.folded.busy_ns.saturating_add(end - start);
            self.horizon = end;
        }
    }
}

/// How long any of `intervals` ran, ns; for intervals that are all at hand.
pub fn union_ns(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let mut covered_to = 0;
    intervals.iter().fold(0u64, |total, &(start, end)| {
        let fresh = end.saturating_sub(start.max(covered_to));
        covered_to = covered_to.max(end);
        total.saturating_add(fresh)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn brute_force(intervals: &[(u64, u64)]) -> u64 {
        (0..400u64).filter(|t| intervals.iter().any(|&(s, e)| s <= *t && *t < e)).count() as u64
    }

    fn exact(all: &[(u64, u64)]) -> Busy {
        let busy_ns = brute_force(all);
        let ran = || all.iter().filter(|(start, end)| start < end);
        let first = ran().map(|&(start, _)| start).min().unwrap_or(0);
        let last = ran().map(|&(_, end)| end).max().unwrap_or(0);
        Busy { busy_ns, short_gaps_ns: last - first - busy_ns, ..Busy::default() }
    }

    fn intervals() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0u64..300, 0u64..40).prop_map(|(s, d)| (s, s + d)), 0..60)
    }

    proptest! {
        #[test]
        fn equals_brute_force_in_any_order(all in intervals(), batch in 1usize..20) {
            let mut unions = Unions::with_limits(batch, usize::MAX);
            let index = unions.create();
            all.iter().for_each(|&(s, e)| unions.add(index, s, e));
            let expected = exact(&all);
            prop_assert_eq!(unions.finish(), vec![expected]);
            prop_assert_eq!(union_ns(all.clone()), brute_force(&all));
        }

        #[test]
        fn with_a_narrow_window_the_truth_is_within_the_stated_bound(
            all in intervals(), batch in 1usize..5, window in 1usize..6
        ) {
            let mut unions = Unions::with_limits(batch, window);
            let index = unions.create();
            all.iter().for_each(|&(s, e)| unions.add(index, s, e));
            let got = unions.finish()[0];
            let truth = brute_force(&all);
            prop_assert!(got.busy_ns <= truth && truth <= got.busy_ns + got.late_ns, "{got:?}");
            prop_assert_eq!(got.late_ns > 0, got.late_intervals > 0);
        }

        #[test]
        fn sorted_input_is_exact_in_any_window(mut all in intervals(), window in 1usize..6) {
            all.sort_unstable();
            let mut unions = Unions::with_limits(2, window);
            let index = unions.create();
            all.iter().for_each(|&(s, e)| unions.add(index, s, e));
            let expected = exact(&all);
            prop_assert_eq!(unions.finish(), vec![expected]);
        }
    }

    #[test]
    fn gaps_of_one_launch_behind_another_are_told_from_longer_ones() {
        for window in [1, 2, 100] {
            let mut unions = Unions::with_limits(1, window);
            let index = unions.create();
            let mut at = 1_000_000;
            for gap in [BACK_TO_BACK_NS, BACK_TO_BACK_NS + 1, 7, 1_000_000] {
                unions.add(index, at, at + 10);
                at += 10 + gap;
            }
            unions.add(index, at, at + 10);
            let got = unions.finish()[0];
            assert_eq!((got.busy_ns, got.short_gaps_ns), (50, BACK_TO_BACK_NS + 7), "{window}");
        }
    }

    #[test]
    fn a_fork_goes_on_from_what_it_copied() {
        let mut unions = Unions::default();
        let first = unions.create();
        unions.add(first, 10, 20);
        let both = unions.fork(first);
        unions.add(both, 15, 30);
        unions.add(first, 40, 41);
        let busy: Vec<u64> = unions.finish().iter().map(|b| b.busy_ns).collect();
        assert_eq!(busy, [11, 20]);
    }

    #[test]
    fn empty_and_reversed_intervals_add_nothing() {
        let mut unions = Unions::default();
        let index = unions.create();
        unions.add(index, 10, 10);
        unions.add(index, 10, 5);
        assert_eq!(unions.finish(), [Busy::default()]);
        assert_eq!(union_ns(vec![(10, 5), (3, 3)]), 0);
    }
}
