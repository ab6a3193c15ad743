//! Launches as they come into a file, by buffers -> the same in the order in which they were made.
//!
//! A trace file is written buffer by buffer, so that launches of several threads come in pieces. A
//! bounded window sorts them by their correlation id, which CUPTI counts up over the process.

use crate::trace::stats::Span;

/// Launches that are held back, at least, before the oldest goes on. A buffer of a thread has some
/// 5,000.
const WINDOW: usize = 1 << 16;

/// A kernel, or a graph that ran as a whole.
#[derive(Clone, Copy, Debug)]
pub(in crate::trace) struct Launch {
    /// What ran: the same number is the same kernel name.
    pub(in crate::trace) what: u32,
    pub(in crate::trace) queue: u32,
    /// CUPTI's number of the launch; all kernels of a graph replay share one.
    pub(in crate::trace) correlation: u64,
    /// Node of the graph, which orders the kernels of a replay: they run in any order.
    pub(in crate::trace) node: u64,
    pub(in crate::trace) span: Span,
}

/// Set in [`Launch::what`] of a graph that ran as a whole.
pub(in crate::trace) const GRAPH: u32 = 1 << 31;

pub(super) fn is_graph(what: u32) -> bool {
    what & GRAPH != 0
}

#[derive(Debug)]
pub(super) struct InOrder {
    held: Vec<Launch>,
    window: usize,
}

impl Default for InOrder {
    fn default() -> Self {
        Self { held: Vec::new(), window: WINDOW }
    }
}

impl InOrder {
    /// Takes a launch; gives the older half of what is held where the window is full.
    pub(super) fn push(&mut self, launch: Launch) -> Vec<Launch> {
        self.held.push(launch);
        if self.held.len() < 2 * self.window { Vec::new() } else { self.oldest(self.window) }
    }

    /// All that is held.
    pub(super) fn rest(&mut self) -> Vec<Launch> {
        self.oldest(self.held.len())
    }

    fn oldest(&mut self, count: usize) -> Vec<Launch> {
        // Stable, and linear where they are in order already. Without numbers (an nsys export is in
        // order) they stay as they came.
        self.held.sort_by_key(|launch| (launch.correlation, launch.node));
        self.held.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(correlation: u64, node: u64) -> Launch {
        Launch { what: 0, queue: 0, correlation, node, span: Span { start: 0, end: 0 } }
    }

    #[test]
    fn buffers_of_several_threads_become_one_sequence() {
        let mut order = InOrder { held: Vec::new(), window: 100 };
        let mut seen = Vec::new();
        // Two threads launch in turn; each hands over a buffer of 40 launches at a time.
        for buffer in 0..50u64 {
            let (thread, first) = (buffer % 2, buffer / 2 * 80);
            for at in 0..40 {
                let correlation = first + 2 * at + thread;
                let ready = order.push(launch(correlation, 0));
                seen.extend(ready.iter().map(|launch| launch.correlation));
                assert!(order.held.len() <= 200);
            }
        }
        seen.extend(order.rest().iter().map(|launch| launch.correlation));
        assert_eq!(seen, (0..2_000).collect::<Vec<u64>>());
    }

    #[test]
    fn kernels_of_a_replay_come_by_their_nodes() {
        let mut order = InOrder::default();
        for node in [3, 1, 2] {
            order.push(launch(7, node));
        }
        let nodes: Vec<u64> = order.rest().iter().map(|launch| launch.node).collect();
        assert_eq!(nodes, [1, 2, 3]);
    }
}
