//! A process whose user opened no range -> its GPU work as one stage, and the steps in it.

use std::collections::HashMap;

use stage2_contract::trace::Queue;

use super::Counts;
use super::paths::{OUTSIDE, PathIndex, UNATTRIBUTED};
use super::stats::Span;
use super::steps::{Follow, Launch, Repeats, Sequences};

/// Queues whose streams are remembered.
const QUEUES: usize = 1 << 10;

/// A process without ranges, as a whole.
#[derive(Clone, Debug)]
pub struct WholeProcess {
    /// The stand-in that its work has in the place of a range.
    pub path: PathIndex,
    /// From its first GPU record to the end of its last, ns; nothing where none is timed, and where
    /// some of its work is placed elsewhere.
    pub window_ns: Option<u64>,
    /// The steps that repeat; none where no period is certain.
    pub repeats: Vec<Repeats>,
    /// Devices and streams of the queues that `repeats` names.
    pub streams: HashMap<u32, (u32, u32)>,
    /// The search for steps skipped this process: the export has too many.
    pub steps_left_out: bool,
}

#[derive(Debug, Default)]
pub(super) struct Whole {
    sequences: Sequences,
    streams: HashMap<u32, (u32, u32)>,
    span: Option<Span>,
    off: bool,
}

impl Whole {
    /// For a process whose records arrive in launch order.
    pub(super) fn ordered(follow: Follow) -> Self {
        Self { sequences: Sequences::ordered(follow), ..Self::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        !self.off
    }

    /// The process has stages, or was not recorded as a whole.
    pub(super) fn stop(&mut self) {
        if !self.off {
            *self = Self { off: true, ..Self::default() };
        }
    }

    pub(super) fn queue(&mut self, queue: &Queue) {
        if !self.off && self.streams.len() < QUEUES {
            self.streams.insert(queue.id, (queue.device, queue.stream));
        }
    }

    pub(super) fn work(&mut self, span: Span) {
        if span.valid() {
            let all = self.span.get_or_insert(span);
            all.start = all.start.min(span.start);
            all.end = all.end.max(span.end);
        }
    }

    pub(super) fn launch(&mut self, launch: Launch) {
        self.sequences.push(launch);
    }

    pub(super) fn finish(self, counts: &Counts) -> Option<WholeProcess> {
        let Self { sequences, streams, span, off } = self;
        if off || counts.gpu_records() == 0 {
            return None;
        }
        // Without any range, work of a launch that nobody saw lies in the process as well. Work in
        // both places has two busy times, which may overlap.
        let (path, elsewhere) = match counts.outside_ranges {
            0 => (UNATTRIBUTED, counts.attributed),
            _ => (OUTSIDE, counts.unattributed + counts.attributed),
        };
        let window_ns = span.filter(|_| elsewhere == 0).map(Span::ns);
        let steps_left_out = sequences.are_left_out();
        let repeats = sequences.finish();
        Some(WholeProcess { path, window_ns, repeats, streams, steps_left_out })
    }
}
