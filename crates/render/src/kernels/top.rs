//! The kernels with the longest time over the whole run, and the shares of their classes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::Hash;

use stage2_model::{CounterRow, KernelRow, Report, Times};
use stage2_read::trace::stats::mean;
use stage2_report::conclusions::counted::Counted;

/// A kernel over the whole run.
pub(crate) struct TopKernel<'r> {
    /// One of its rows, for the names.
    pub(crate) row: &'r KernelRow,
    /// None: no call was timed.
    pub(crate) total_ns: Option<u64>,
    pub(crate) calls: u64,
    pub(crate) mean_ns: Option<u64>,
    /// Share of the sum of all kernels' durations; of those that were timed.
    pub(crate) percent: Option<f64>,
    /// Those of the longest launch configuration that has some.
    pub(crate) counters: Option<&'r CounterRow>,
}

/// The kernels with the longest total; rows of the same `key` are one kernel.
pub(crate) fn top_kernels<'r, K: Ord + Hash>(
    report: &'r Report,
    limit: usize,
    key: impl Fn(&'r KernelRow) -> K,
) -> Vec<TopKernel<'r>> {
    let mut sums: BTreeMap<K, (&KernelRow, Sum)> = BTreeMap::new();
    let mut all_ns = 0u64;
    for row in &report.kernels {
        sums.entry(key(row)).or_insert((row, Sum::default())).1.add(&row.times);
        all_ns = all_ns.saturating_add(row.times.total_ns);
    }
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.sort_by_key(|(_, (_, sum))| Reverse(sum.total_ns()));
    let counted = Counted::new(report, key);
    let kernel = |(key, (row, sum)): (K, (&'r KernelRow, Sum))| TopKernel {
        row,
        total_ns: sum.total_ns(),
        calls: sum.calls,
        mean_ns: sum.mean_ns(),
        percent: sum.percent(all_ns),
        counters: counted.get(&key),
    };
    sorted.into_iter().take(limit).map(kernel).collect()
}

/// Rows of one kernel together.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    total_ns: u64,
    pub(super) calls: u64,
    timed: u64,
    /// Some of it is scaled from a sample.
    scaled: bool,
    /// Least and greatest mean of the rows, ns.
    means_ns: Option<(u64, u64)>,
}

impl Sum {
    pub(super) fn add(&mut self, times: &Times) {
        let timed = times.calls.saturating_sub(times.invalid_timestamp_calls);
        self.total_ns = self.total_ns.saturating_add(times.total_ns);
        self.calls = self.calls.saturating_add(times.calls);
        self.timed = self.timed.saturating_add(timed);
        self.scaled |= times.recorded_calls.is_some();
        if let Some(mean) = times.mean_ns {
            let (least, greatest) = self.means_ns.unwrap_or((mean, mean));
            self.means_ns = Some((least.min(mean), greatest.max(mean)));
        }
    }

    /// Sum of the durations, ns; nothing where there are calls and none was timed.
    pub(super) fn total_ns(&self) -> Option<u64> {
        (self.calls == 0 || self.timed > 0).then_some(self.total_ns)
    }

    /// Its share of `all_ns`.
    pub(super) fn percent(&self, all_ns: u64) -> Option<f64> {
        let total_ns = self.total_ns().filter(|_| all_ns > 0)?;
        Some(total_ns as f64 * 100.0 / all_ns as f64)
    }

    /// Total over calls, ns. Every sum of a sample is rounded by itself, which must not carry their
    /// quotient beyond the means of the rows.
    pub(super) fn mean_ns(&self) -> Option<u64> {
        let mean = mean(self.total_ns, self.timed)?;
        let means = self.means_ns.filter(|_| self.scaled);
        Some(means.map_or(mean, |(least, greatest)| mean.clamp(least, greatest)))
    }
}

/// The kernels of a class together.
pub(crate) struct ClassSum<'r> {
    pub(crate) class: &'r str,
    /// None: no call was timed.
    pub(crate) total_ns: Option<u64>,
    pub(crate) calls: u64,
    /// Share of the sum over all classes.
    pub(crate) percent: Option<f64>,
}

/// The classes of these kernels, the longest first.
pub(crate) fn classes<'r>(rows: impl IntoIterator<Item = &'r KernelRow>) -> Vec<ClassSum<'r>> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    rows.into_iter().for_each(|row| sums.entry(&row.class).or_default().add(&row.times));
    let all_ns = sums.values().fold(0u64, |all, sum| all.saturating_add(sum.total_ns));
    let class = |(class, sum): (_, Sum)| ClassSum {
        class,
        total_ns: sum.total_ns(),
        calls: sum.calls,
        percent: sum.percent(all_ns),
    };
    let mut classes: Vec<ClassSum<'_>> = sums.into_iter().map(class).collect();
    classes.sort_by_key(|class| Reverse(class.total_ns));
    classes
}
