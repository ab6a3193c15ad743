//! Kernel rows with counters -> the counters that stand for a kernel, and what a stage counted.

use std::collections::HashMap;

use crate::report::model::{CounterRow, KernelRow, Report};

/// The longest row with counters of every kernel, by what it is looked up with.
pub(in crate::report) struct Counted<'r, K> {
    rows: HashMap<K, (&'r CounterRow, u64)>,
}

impl<'r, K: std::hash::Hash + Eq> Counted<'r, K> {
    /// `key` says which rows stand for one another: those of one kernel in one stage, say.
    pub(in crate::report) fn new(report: &'r Report, key: impl Fn(&'r KernelRow) -> K) -> Self {
        let mut rows: HashMap<K, (&CounterRow, u64)> = HashMap::new();
        for row in &report.kernels {
            let Some(counters) = &row.counters else { continue };
            let longest = rows.entry(key(row)).or_insert((counters, row.times.total_ns));
            if row.times.total_ns > longest.1 {
                *longest = (counters, row.times.total_ns);
            }
        }
        Self { rows }
    }

    /// The counters of the longest configuration that has some.
    pub(in crate::report) fn get(&self, key: &K) -> Option<&'r CounterRow> {
        self.rows.get(key).map(|&(counters, _)| counters)
    }
}

/// FLOPs of a stage as counters have them, and how much of the stage they know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StageFlops {
    /// FLOPs of a launch times calls, over all kernels with counters and all instances.
    pub(super) flops: f64,
    /// Share of these kernels in the sum of the stage's kernel time, percent.
    pub(super) percent: f64,
}

/// What counters say of `stage`; nothing where none of its kernels has counted FLOPs.
pub(super) fn stage_flops(report: &Report, stage: &str) -> Option<StageFlops> {
    let (mut flops, mut counted_ns, mut all_ns) = (0.0, 0u64, 0u64);
    for row in report.kernels.iter().filter(|row| row.stage == stage) {
        all_ns = all_ns.saturating_add(row.times.total_ns);
        let of_launch = row.counters.as_ref().and_then(|counters| counters.roofline.flops);
        if let Some(of_launch) = of_launch {
            flops += of_launch * row.times.calls as f64;
            counted_ns = counted_ns.saturating_add(row.times.total_ns);
        }
    }
    let percent = counted_ns as f64 * 100.0 / all_ns as f64;
    (counted_ns > 0).then_some(StageFlops { flops, percent })
}
