//! GPU work of a queue -> lanes on which nothing overlaps, for formats that drop what does.
//!
//! CUPTI delivers records nearly in the order of time. A heap puts them into order; work that comes
//! later than the heap reaches back still finds a lane in which nothing overlaps it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

/// Pieces of work that wait for earlier ones.
const WAITING: usize = 1 << 14;

/// Sorts pieces of work by their start, and gives each a lane of its queue.
#[derive(Debug)]
pub(crate) struct Lanes<Q, T> {
    waiting: BinaryHeap<Reverse<Waiting<Q, T>>>,
    /// The end of the last work in each lane of each queue, ns.
    ends: FxHashMap<Q, Vec<i64>>,
    arrived: u64,
}

#[derive(Debug)]
struct Waiting<Q, T> {
    start_ns: i64,
    arrived: u64,
    end_ns: i64,
    queue: Q,
    item: T,
}

impl<Q, T> PartialEq for Waiting<Q, T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<Q, T> Eq for Waiting<Q, T> {}

impl<Q, T> PartialOrd for Waiting<Q, T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<Q, T> Ord for Waiting<Q, T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.start_ns, self.arrived).cmp(&(other.start_ns, other.arrived))
    }
}

impl<Q: Copy + Eq + std::hash::Hash, T> Lanes<Q, T> {
    pub(crate) fn new() -> Self {
        Self { waiting: BinaryHeap::new(), ends: FxHashMap::default(), arrived: 0 }
    }

    /// Adds a piece of work; gives back the earliest one and its lane once enough wait.
    pub(crate) fn add(
        &mut self,
        queue: Q,
        start_ns: i64,
        end_ns: i64,
        item: T,
    ) -> Option<(T, usize)> {
        self.arrived += 1;
        let arrived = self.arrived;
        self.waiting.push(Reverse(Waiting { start_ns, arrived, end_ns, queue, item }));
        if self.waiting.len() > WAITING { self.pop() } else { None }
    }

    /// The earliest piece that waits, and its lane.
    pub(crate) fn pop(&mut self) -> Option<(T, usize)> {
        let Reverse(Waiting { start_ns, end_ns, queue, item, .. }) = self.waiting.pop()?;
        let ends = self.ends.entry(queue).or_default();
        let lane = ends.iter().position(|&end| end <= start_ns).unwrap_or(ends.len());
        match ends.get_mut(lane) {
            Some(end) => *end = end_ns,
            None => ends.push(end_ns),
        }
        Some((item, lane))
    }

    /// The lanes of each queue.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (Q, usize)> {
        self.ends.iter().map(|(&queue, ends)| (queue, ends.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_overlaps_gets_lanes_of_its_own_and_all_comes_back() {
        let mut lanes = Lanes::new();
        for (start, end) in [(0, 10), (20, 30), (5, 8), (10, 20), (25, 40), (41, 42)] {
            assert!(lanes.add("q", start, end, (start, end)).is_none());
        }
        assert!(lanes.add("other", 5, 50, (5, 50)).is_none());
        let all: Vec<_> = std::iter::from_fn(|| lanes.pop()).collect();
        let starts: Vec<i64> = all.iter().map(|((start, _), _)| *start).collect();
        assert_eq!(starts, [0, 5, 5, 10, 20, 25, 41]);
        let lane_of = |span| all.iter().find(|(s, _)| *s == span).map(|(_, lane)| *lane);
        assert_eq!(
            [lane_of((0, 10)), lane_of((5, 8)), lane_of((10, 20))],
            [Some(0), Some(1), Some(0)]
        );
        assert_eq!(
            [lane_of((25, 40)), lane_of((41, 42)), lane_of((5, 50))],
            [Some(1), Some(0), Some(0)]
        );
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        let mut lanes = Lanes::new();
        let mut out = 0;
        for at in 0..200_000 {
            out += usize::from(lanes.add(0, at, at + 1, ()).is_some());
            assert!(lanes.waiting.len() <= WAITING);
        }
        while lanes.pop().is_some() {
            out += 1;
        }
        assert_eq!(out, 200_000);
    }
}
