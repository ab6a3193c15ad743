//! Intervals, nearly in order -> their union, piece by piece as it becomes final.
//!
//! It is the union that a report has ([`stage2_contract::stats::Unions`]), except for what comes later
//! than the horizon to which the union was settled: that part is counted as late.

use stage2_contract::stats::BACK_TO_BACK_NS;

use crate::numbers::StageNumbers;

/// Intervals of one union that wait, at most; more are settled early. Those that wait are fewer, up to 87,000 a second for 3 s: what is
/// settled early has no samples of the host yet.
const PENDING: usize = 1 << 18;

#[derive(Debug, Default)]
pub(crate) struct Settled {
    pending: Vec<(u64, u64)>,
    /// Everything before is final.
    horizon: u64,
    /// End of the last piece that was given out.
    last_end: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Disjoint, ascending.
    pub(crate) pieces: Vec<(u64, u64)>,
    /// Gaps between pieces that are short, also that in front of the first one.
    pub(crate) gaps: Vec<(u64, u64)>,
}

impl Settled {
    /// Adds `start..end`; gives how much of it is too late.
    pub(crate) fn add(&mut self, start: u64, end: u64) -> u64 {
        let late = end.min(self.horizon).saturating_sub(start);
        let start = start.max(self.horizon);
        if start >= end {
            return late;
        }
        match self.pending.last_mut() {
            Some(last) if last.0 <= start && start <= last.1 => last.1 = last.1.max(end),
            _ => self.pending.push((start, end)),
        }
        late
    }

    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= PENDING
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Gives out what lies before `to`, and takes nothing from before it from now on.
    pub(crate) fn settle(&mut self, to: u64) -> Pieces {
        let mut out = Pieces::default();
        if to <= self.horizon {
            return out;
        }
        self.horizon = to;
        self.pending.sort_unstable();
        let mut rest = Vec::new();
        for (start, end) in std::mem::take(&mut self.pending) {
            if end > to {
                rest.push((start.max(to), end));
            }
            let end = end.min(to);
            match out.pieces.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ if start < end => out.pieces.push((start, end)),
                _ => {}
            }
        }
        self.pending = rest;
        for &(start, end) in &out.pieces {
            let gap = start.saturating_sub(self.last_end);
            if self.last_end > 0 && gap > 0 && gap <= BACK_TO_BACK_NS {
                out.gaps.push((self.last_end, start));
            }
            self.last_end = end;
        }
        out
    }
}

/// How much of `gaps` lies within `windows`; both disjoint and ascending.
pub(crate) fn overlap_ns(gaps: &[(u64, u64)], windows: &[(u64, u64)]) -> u64 {
    let (mut total, mut from) = (0u64, 0);
    for &(start, end) in gaps {
        while windows.get(from).is_some_and(|window| window.1 <= start) {
            from += 1;
        }
        let inside = windows.iter().skip(from).take_while(|window| window.0 < end);
        total += inside.map(|w| end.min(w.1).saturating_sub(start.max(w.0))).sum::<u64>();
    }
    total
}

#[derive(Debug, Default)]
pub(crate) struct Stage {
    pub(crate) totals: StageNumbers,
    pub(crate) work: Settled,
    windows: Settled,
    /// Windows that a gap may still begin in.
    recent: Vec<(u64, u64)>,
}

impl Stage {
    /// Adds a part of the window of an instance.
    pub(crate) fn window(&mut self, start: u64, end: u64) {
        self.windows.add(start, end);
    }

    /// Gives what is final up to `to`.
    pub(crate) fn settle(&mut self, to: u64) -> Found {
        let windows = self.windows.settle(to).pieces;
        let work = self.work.settle(to);
        self.recent.extend(&windows);
        let length = |all: &[(u64, u64)]| all.iter().map(|(start, end)| end - start).sum::<u64>();
        let found = StageNumbers {
            window_ns: length(&windows),
            busy_ns: length(&work.pieces),
            gaps_ns: overlap_ns(&work.gaps, &self.recent),
            ..StageNumbers::default()
        };
        let all = Found { numbers: found, work: work.pieces, windows };
        let keep_from = to.saturating_sub(BACK_TO_BACK_NS);
        // The last one stays where work ran long: a gap begins at the end of work.
        self.recent.retain(|window| window.1 >= keep_from);
        all
    }
}

/// What is final of a stage.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Windows, busy time and gaps, ns.
    pub(crate) numbers: StageNumbers,
    /// When its work ran.
    pub(crate) work: Vec<(u64, u64)>,
    /// When its instances were open.
    windows: Vec<(u64, u64)>,
}

impl Found {
    /// How long work of others, of `all` the work, ran within its windows while its own did not.
    pub(crate) fn other_ns(&self, all: &[(u64, u64)]) -> u64 {
        self.other_in(&self.windows, all)
    }

    /// Time, ns, within these parts of its windows, in which only work of other stages ran; `all` is the work of all.
    pub(crate) fn other_in(&self, windows: &[(u64, u64)], all: &[(u64, u64)]) -> u64 {
        overlap_ns(all, windows).saturating_sub(overlap_ns(&self.work, windows))
    }

    pub(crate) fn windows(&self) -> &[(u64, u64)] {
        &self.windows
    }

    /// Its times without those of its first instances, as in a report: in the windows of the others, threads may work
    /// at the same time as in the first ones. `work`: all that ran.
    pub(crate) fn times_without(
        &self,
        first: &Self,
        others: &[(u64, u64)],
        work: &[(u64, u64)],
    ) -> StageNumbers {
        let (all, first) = (&self.numbers, &first.numbers);
        StageNumbers {
            window_ns: others.iter().map(|(start, end)| end - start).sum(),
            busy_ns: all.busy_ns.saturating_sub(first.busy_ns),
            gaps_ns: all.gaps_ns.saturating_sub(first.gaps_ns),
            other_ns: self.other_in(others, work),
            ..StageNumbers::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stage2_contract::stats::union_ns;

    fn sum(pieces: &[(u64, u64)]) -> u64 {
        pieces.iter().map(|(start, end)| end - start).sum()
    }

    proptest! {
        #[test]
        fn settled_in_any_steps_it_is_the_union_of_reports(
            all in prop::collection::vec((1u64..300, 0u64..40).prop_map(|(s, d)| (s, s + d)), 0..60),
            steps in prop::collection::vec(1u64..400, 0..9),
        ) {
            let mut union = Settled::default();
            let late: u64 = all.iter().map(|&(start, end)| union.add(start, end)).sum();
            let mut steps = steps;
            steps.sort_unstable();
            steps.push(1_000);
            let (mut pieces, mut gaps) = (0, 0);
            for to in steps {
                let out = union.settle(to);
                pieces += sum(&out.pieces);
                gaps += sum(&out.gaps);
            }
            prop_assert_eq!((pieces, late), (union_ns(all.clone()), 0));
            let ran = || all.iter().filter(|(start, end)| start < end);
            let (first, last) = (ran().map(|i| i.0).min(), ran().map(|i| i.1).max());
            prop_assert_eq!(gaps, last.unwrap_or(0) - first.unwrap_or(0) - pieces);
            prop_assert!(union.is_empty());
        }

        #[test]
        fn what_comes_late_is_told_and_counts_no_further(
            early in 1u64..100, long in 1u64..50, horizon in 1u64..200,
        ) {
            let mut union = Settled::default();
            union.settle(horizon);
            let late = union.add(early, early + long);
            prop_assert_eq!(late + sum(&union.settle(1_000).pieces), long);
            prop_assert_eq!(late, (early + long).min(horizon).saturating_sub(early));
        }
    }

    #[test]
    fn a_long_gap_is_no_launch_gap() {
        let mut union = Settled::default();
        union.add(100, 200);
        union.add(200 + BACK_TO_BACK_NS, 300 + BACK_TO_BACK_NS);
        union.add(1_000_000, 1_000_001);
        assert_eq!(union.settle(2_000_000).gaps, [(200, 200 + BACK_TO_BACK_NS)]);
    }

    #[test]
    fn overlaps_are_cut_to_the_windows() {
        assert_eq!(overlap_ns(&[(10, 20), (30, 40), (50, 60)], &[(0, 15), (35, 38), (39, 55)]), 14);
        assert_eq!(overlap_ns(&[], &[(1, 2)]), 0);
    }

    #[test]
    fn gaps_count_within_windows_only_and_over_the_edge_of_a_slice() {
        let mut stage = Stage::default();
        stage.window(1_000, 2_000);
        stage.work.add(1_000, 1_990);
        let first = stage.settle(1_995).numbers;
        stage.window(1_995, 2_000);
        stage.window(2_010, 3_000);
        stage.work.add(2_020, 2_500);
        let found = stage.settle(4_000);
        // From 2005 to 2100 something else ran, 2010 to 2020 of it within a window and beside the own work.
        assert_eq!(found.other_ns(&[(2_005, 2_500)]), 10);
        let Found { numbers: second, work, .. } = found;
        assert_eq!(work, [(2_020, 2_500)]);
        assert_eq!((first.window_ns, first.busy_ns, first.gaps_ns), (995, 990, 0));
        // Idle from 1990 to 2020, of which 2000 to 2010 is between two steps.
        assert_eq!((second.window_ns, second.busy_ns, second.gaps_ns), (995, 480, 20));
    }
}
