//! Windows of a stage's instances -> how much of the short gaps in its work lies between them.
//!
//! The work of a stage is one union of intervals. A gap in it from one instance to the next is in
//! part the time of something else: of another stage, or of the host outside of both ranges.

use std::collections::BTreeMap;

use stage2_contract::stats::BACK_TO_BACK_NS;

/// Windows that are kept: those of instances come nearly in order.
const KEPT: usize = 1 << 10;

/// Windows that do not touch each other, by their start.
#[derive(Debug, Default)]
pub(super) struct Between {
    latest: BTreeMap<u64, Window>,
    /// What is known of the windows before these.
    passed: Option<Passed>,
    short_ns: u64,
}

/// One window, or several that touch.
#[derive(Clone, Copy, Debug)]
struct Window {
    end: u64,
    /// First start and last end of work in it.
    work: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Passed {
    end: u64,
    last_work: Option<u64>,
    /// Time between windows since that work.
    between_ns: u64,
}

impl Between {
    /// Adds the window of an instance, and the first start and last end of its work.
    pub(super) fn add(&mut self, (mut start, end): (u64, u64), work: Option<(u64, u64)>) {
        let mut window = Window { end, work };
        while let Some((&at, &other)) = self.latest.range(..=window.end).next_back() {
            if other.end < start {
                break;
            }
            self.latest.remove(&at);
            start = start.min(at);
            window.end = window.end.max(other.end);
            window.work = match (window.work, other.work) {
                (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
                (a, b) => a.or(b),
            };
        }
        self.latest.insert(start, window);
        if self.latest.len() > KEPT {
            self.pass();
        }
    }

    /// Of gaps that are no longer than [`BACK_TO_BACK_NS`], the time between windows, ns.
    pub(super) fn finish(mut self) -> u64 {
        while !self.latest.is_empty() {
            self.pass();
        }
        self.short_ns
    }

    /// Adds the gap before the earliest window.
    fn pass(&mut self) {
        let Some((start, Window { end, work })) = self.latest.pop_first() else { return };
        let mut passed = self.passed.unwrap_or(Passed { end, last_work: None, between_ns: 0 });
        if self.passed.is_some() {
            let since = start.saturating_sub(passed.end);
            passed.between_ns = passed.between_ns.saturating_add(since);
        }
        passed.end = passed.end.max(end);
        if let Some((first, last)) = work {
            let gap_ns = passed.last_work.map(|before| first.saturating_sub(before));
            if let Some(gap_ns) = gap_ns.filter(|&gap_ns| gap_ns <= BACK_TO_BACK_NS) {
                self.short_ns = self.short_ns.saturating_add(passed.between_ns.min(gap_ns));
            }
            passed.last_work = passed.last_work.max(Some(last));
            passed.between_ns = 0;
        }
        self.passed = Some(passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Instance = ((u64, u64), Option<(u64, u64)>);

    fn of(windows: &[Instance]) -> u64 {
        let mut between = Between::default();
        windows.iter().for_each(|&(window, work)| between.add(window, work));
        between.finish()
    }

    #[test]
    fn only_what_lies_between_windows_counts_and_only_of_short_gaps() {
        let us = 1_000;
        let step = |at: u64| ((at, at + 100 * us), Some((at + 5 * us, at + 95 * us)));
        // 30 us between windows, of a gap of 40 us.
        assert_eq!(of(&[step(0), step(130 * us), step(260 * us)]), 60 * us);
        assert_eq!(of(&[step(260 * us), step(0), step(130 * us)]), 60 * us, "in any order");
        // A gap of 51 us is no short one.
        assert_eq!(of(&[step(0), step(141 * us)]), 0);
        // An instance without work is a window all the same.
        let empty = ((110 * us, 120 * us), None);
        assert_eq!(of(&[step(0), empty, step(130 * us)]), 20 * us);
        // Threads: something was open all the time.
        assert_eq!(of(&[step(0), step(130 * us), ((90 * us, 140 * us), None)]), 0);
    }

    #[test]
    fn memory_is_bounded_and_the_order_of_a_million_instances_changes_nothing() {
        let mut between = Between::default();
        for at in 0..1_000_000u64 {
            between.add((10 * at, 10 * at + 8), Some((10 * at, 10 * at + 8)));
            assert!(between.latest.len() <= KEPT);
        }
        assert_eq!(between.finish(), 2 * 999_999);
    }
}
