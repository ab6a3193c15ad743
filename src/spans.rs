//! Switches of collection into the spans of time in which it was on: whose times can be trusted.
//!
//! A CUDA graph that still runs when collection is switched off keeps its records, but CUPTI takes
//! the ends of its kernels when collection is next on: 19 to 54 ms in place of 1 us were seen (CUPTI
//! 13.0). Kernels that were launched one by one keep their times.

use std::collections::VecDeque;

use crossbeam::queue::ArrayQueue;
use stage2_spool::GpuNs;

/// Switches that wait for the drain thread.
const WAITING: usize = 1 << 13;
/// Spans that are kept: a megabyte.
const KEPT: usize = 1 << 16;

/// Switches on their way from guest threads, which neither wait nor allocate.
pub struct Switches(ArrayQueue<(bool, GpuNs)>);

impl Switches {
    /// No switch yet. `gated`: there will be some. Allocates; called once, at start.
    pub fn new(gated: bool) -> Self {
        Switches(ArrayQueue::new(if gated { WAITING } else { 1 }))
    }

    /// Collection is about to be switched. Of too many the oldest are forgotten.
    pub fn note(&self, on: bool, at: GpuNs) {
        self.0.force_push((on, at));
    }
}

/// The spans in which collection was on, in order.
#[derive(Debug, Default)]
pub struct Spans {
    closed: VecDeque<(GpuNs, GpuNs)>,
    /// Since when it is on.
    open: Option<GpuNs>,
}

impl Spans {
    /// Takes in the switches that wait.
    pub fn take_in(&mut self, switches: &Switches) {
        while let Some((on, at)) = switches.0.pop() {
            if on {
                self.open.get_or_insert(at);
            } else if let Some(since) = self.open.take() {
                if self.closed.len() == KEPT {
                    self.closed.pop_front();
                }
                self.closed.push_back((since, at));
            }
        }
    }

    /// Whether collection was on from `start` to `end`. Where no switch was ever noted (CUPTI did not
    /// give the time) nothing speaks against it.
    pub fn cover(&self, start: GpuNs, end: GpuNs) -> bool {
        if self.closed.is_empty() && self.open.is_none() {
            return true;
        }
        if self.open.is_some_and(|since| since <= start) {
            return true;
        }
        let later = self.closed.partition_point(|&(since, _)| since <= start);
        let span = later.checked_sub(1).and_then(|index| self.closed.get(index));
        span.is_some_and(|&(_, until)| end <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(switches: &[(bool, u64)]) -> Spans {
        let queue = Switches::new(true);
        let mut spans = Spans::default();
        for &(on, at) in switches {
            queue.note(on, GpuNs(at));
            spans.take_in(&queue);
        }
        spans
    }

    #[test]
    fn work_is_covered_within_one_span_only() {
        let spans = spans(&[(true, 10), (false, 20), (true, 30), (false, 40), (true, 50)]);
        for (start, end, covered) in [
            (10, 20, true),
            (12, 15, true),
            (30, 40, true),
            (55, 99, true),
            (9, 15, false),
            (15, 21, false),
            (15, 35, false),
            (22, 25, false),
            (15, 60, false),
        ] {
            assert_eq!(spans.cover(GpuNs(start), GpuNs(end)), covered, "{start} to {end}");
        }
    }

    #[test]
    fn without_switches_nothing_is_doubted_and_the_oldest_spans_are_forgotten() {
        assert!(spans(&[]).cover(GpuNs(1), GpuNs(2)));
        assert!(!spans(&[(true, 10), (false, 20)]).cover(GpuNs(1), GpuNs(2)));
        let switches: Vec<(bool, u64)> =
            (0..2 * KEPT as u64 + 4).map(|i| (i % 2 == 0, 10 * i)).collect();
        let spans = spans(&switches);
        assert_eq!(spans.closed.len(), KEPT);
        assert!(!spans.cover(GpuNs(1), GpuNs(2)) && spans.cover(GpuNs(1001), GpuNs(1002)));
    }

    #[test]
    fn more_switches_than_wait_are_survived() {
        let queue = Switches::new(false);
        (0..100).for_each(|i| queue.note(i % 2 == 0, GpuNs(i)));
        let mut spans = Spans::default();
        spans.take_in(&queue);
        assert!(spans.closed.is_empty());
    }
}
