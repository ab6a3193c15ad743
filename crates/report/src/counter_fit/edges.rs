//! Where within its record a call does its work: its two edges, moved.

use crate::counter_fit::kinds::Kernel;

/// The least part of a call that is left between its moved edges.
const LEAST_LEFT: f64 = 0.2;

/// By how much the two edges of each call are moved, in ns; later is positive.
///
/// A kernel record begins before the first load of the kernel reaches DRAM, and ends after its last
/// store was made visible: work is done in a part of that time only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Edges {
    /// Added to the time at which a call begins.
    pub start_ns: i64,
    /// Added to the time at which it ends.
    pub end_ns: i64,
}

impl Edges {
    /// Start and end moved by the same time.
    pub fn both(ns: i64) -> Self {
        Self { start_ns: ns, end_ns: ns }
    }

    /// Start and end of a call so moved; `None` where it ends before it starts. Of a call that is too
    /// short for the edges to move so far, a part is left, and they move in proportion.
    pub(crate) fn of(self, kernel: &Kernel) -> Option<(u64, u64)> {
        let duration = kernel.duration_ns()?;
        let (mut start_ns, mut end_ns) = (self.start_ns, self.end_ns);
        let most = duration as f64 * (1.0 - LEAST_LEFT);
        let shorter = start_ns.saturating_sub(end_ns) as f64;
        if shorter > most {
            let part = most / shorter;
            start_ns = (start_ns as f64 * part) as i64;
            end_ns = (end_ns as f64 * part) as i64;
        }
        let start = kernel.start_ns.saturating_add_signed(start_ns);
        Some((start, kernel.end_ns.saturating_add_signed(end_ns).max(start)))
    }

    pub(crate) fn moved(self, start_ns: i64, end_ns: i64) -> Self {
        Self { start_ns: self.start_ns + start_ns, end_ns: self.end_ns + end_ns }
    }
}
