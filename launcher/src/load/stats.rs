//! GPU work of one group -> calls, times and percentiles, in constant memory.

use super::paths::PathIndex;
use super::sampling::Sampled;
use stage2_figures::Histogram;

/// What kind of GPU work, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A kernel: index of its shape.
    Kernel(u32),
    /// A copy: `CUpti_ActivityMemcpyKind`.
    Copy(u8),
    /// A fill.
    Fill,
    /// A whole CUDA graph: CUPTI's id of the executable graph.
    Graph(u32),
}

/// What is counted together: the same work, under the same ranges, on the same device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// Full range path.
    pub path: PathIndex,
    /// What ran.
    pub work: Work,
    /// Index of the device in the file.
    pub device: u32,
}

/// One piece of GPU work, as far as counting needs it. Times are of the GPU clock, ns.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Start.
    pub start: u64,
    /// End.
    pub end: u64,
}

impl Span {
    /// CUPTI gives zeros where it could not take the times.
    pub fn valid(self) -> bool {
        self.start != 0 && self.end >= self.start
    }

    /// Duration, ns.
    pub fn ns(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// The numbers of a group. Minimum, maximum and total are exact and cover the timed calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Executions, with valid timestamps or not.
    pub calls: u64,
    /// What was recorded, where `calls` and the sums are scaled from a sample; nothing where they
    /// are what was recorded.
    pub recorded: Option<Recorded>,
    /// Executions without valid timestamps: counted, not timed.
    pub untimed: u64,
    /// Executions that a CUDA graph launched.
    pub graph_calls: u64,
    /// Bytes moved (copies and fills).
    pub bytes: u64,
    /// Sum of the durations, ns. May exceed wall time where work overlaps.
    pub total_ns: u64,
    /// Shortest, ns.
    pub min_ns: Option<u64>,
    /// Longest, ns.
    pub max_ns: Option<u64>,
    /// First start on the GPU clock, ns.
    pub first_start_ns: Option<u64>,
    /// Last end on the GPU clock, ns.
    pub last_end_ns: Option<u64>,
    /// Distribution of the durations.
    pub histogram: Histogram,
}

/// What was recorded of a sampled group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Executions.
    pub calls: u64,
    /// Those with valid timestamps.
    pub timed: u64,
    /// Sum of their durations, ns.
    pub total_ns: u64,
}

fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

impl Stats {
    /// Counts one execution.
    pub fn add(&mut self, span: Span, bytes: u64, in_graph: bool) {
        self.calls += 1;
        self.graph_calls += u64::from(in_graph);
        self.bytes = self.bytes.saturating_add(bytes);
        if !span.valid() {
            self.untimed += 1;
            return;
        }
        let ns = span.ns();
        self.total_ns = self.total_ns.saturating_add(ns);
        self.min_ns = least(self.min_ns, Some(ns));
        self.max_ns = self.max_ns.max(Some(ns));
        self.first_start_ns = least(self.first_start_ns, Some(span.start));
        self.last_end_ns = self.last_end_ns.max(Some(span.end));
        self.histogram.add(ns);
    }

    /// Scales calls and sums from the recorded instances to all. Times of single executions, and
    /// their mean, stay those that were recorded.
    pub fn scale(&mut self, sampled: Sampled) {
        if !sampled.is_part() || self.recorded.is_some() {
            return;
        }
        self.recorded = Some(self.as_recorded());
        for sum in [
            &mut self.calls,
            &mut self.untimed,
            &mut self.graph_calls,
            &mut self.bytes,
            &mut self.total_ns,
        ] {
            *sum = sampled.scale(*sum);
        }
    }

    /// What was recorded, scaled or not.
    fn as_recorded(&self) -> Recorded {
        let timed = self.calls.saturating_sub(self.untimed);
        let whole = Recorded { calls: self.calls, timed, total_ns: self.total_ns };
        self.recorded.unwrap_or(whole)
    }

    /// Counts what `other` counted.
    pub fn merge(&mut self, other: &Self) {
        if self.recorded.is_some() || other.recorded.is_some() {
            let (a, b) = (self.as_recorded(), other.as_recorded());
            self.recorded = Some(Recorded {
                calls: a.calls.saturating_add(b.calls),
                timed: a.timed.saturating_add(b.timed),
                total_ns: a.total_ns.saturating_add(b.total_ns),
            });
        }
        self.calls = self.calls.saturating_add(other.calls);
        self.untimed = self.untimed.saturating_add(other.untimed);
        self.graph_calls = self.graph_calls.saturating_add(other.graph_calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.min_ns = least(self.min_ns, other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.first_start_ns = least(self.first_start_ns, other.first_start_ns);
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        self.histogram.merge(&other.histogram);
    }

    /// Executions with valid timestamps.
    pub fn timed(&self) -> u64 {
        self.calls.saturating_sub(self.untimed)
    }

    /// Mean of the timed executions, ns, rounded; nothing where none was timed.
    pub fn mean_ns(&self) -> Option<u64> {
        let recorded = self.as_recorded();
        mean(recorded.total_ns, recorded.timed)
    }

    /// Percentile within [`stage2_figures::ERROR_PERCENT`], ns; never outside the exact
    /// minimum and maximum, and exact where it is the maximum.
    pub fn percentile_ns(&self, percent: u64) -> Option<u64> {
        let (min, max) = (self.min_ns?, self.max_ns?);
        let timed = u128::from(self.as_recorded().timed);
        if (timed * u128::from(percent)).div_ceil(100) >= timed {
            return Some(max);
        }
        Some(self.histogram.percentile(percent)?.clamp(min, max))
    }
}

/// `total` divided by `count`, rounded; nothing for nothing.
pub fn mean(total: u64, count: u64) -> Option<u64> {
    (u128::from(total) + u128::from(count / 2))
        .checked_div(u128::from(count))
        .map(|mean| u64::try_from(mean).unwrap_or(u64::MAX))
}

/// The middle one, or the rounded mean of the middle two; nothing of nothing.
pub fn median(values: &mut [u64]) -> Option<u64> {
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some(lower + (upper - lower).div_ceil(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [7]), Some(7));
        assert_eq!(median(&mut [9, 1, 4]), Some(4));
        assert_eq!(median(&mut [4, 1]), Some(3));
        assert_eq!(median(&mut [u64::MAX, u64::MAX]), Some(u64::MAX));
    }

    fn span(start: u64, end: u64) -> Span {
        Span { start, end }
    }

    #[test]
    fn untimed_work_is_counted_but_not_timed() {
        let mut stats = Stats::default();
        for bad in [span(0, 0), span(0, 9), span(9, 8)] {
            stats.add(bad, 0, false);
        }
        assert_eq!((stats.calls, stats.untimed, stats.timed()), (3, 3, 0));
        assert_eq!((stats.total_ns, stats.min_ns, stats.mean_ns()), (0, None, None));
        assert_eq!(stats.percentile_ns(50), None);
        stats.add(span(5, 5), 0, true);
        assert_eq!((stats.min_ns, stats.mean_ns(), stats.graph_calls), (Some(0), Some(0), 1));
    }

    #[test]
    fn merging_equals_counting_together() {
        let spans = [span(1, 4), span(10, 30), span(0, 0), span(7, 7)];
        let (mut all, mut a, mut b) = (Stats::default(), Stats::default(), Stats::default());
        for (i, &s) in spans.iter().enumerate() {
            all.add(s, 8, i == 1);
            if i % 2 == 0 { &mut a } else { &mut b }.add(s, 8, i == 1);
        }
        a.merge(&b);
        assert_eq!(a, all);
        assert_eq!((all.bytes, all.min_ns, all.max_ns), (32, Some(0), Some(20)));
        assert_eq!((all.first_start_ns, all.last_end_ns), (Some(1), Some(30)));
    }

    #[test]
    fn a_sample_is_scaled_in_its_sums_and_not_in_its_mean() {
        let mut stats = Stats::default();
        for ns in [10, 11, 12] {
            stats.add(span(1, 1 + ns), 100, true);
        }
        let (mean, p50) = (stats.mean_ns(), stats.percentile_ns(50));
        stats.scale(Sampled { instances: 17, recorded: 2 });
        assert_eq!(
            (stats.calls, stats.graph_calls, stats.bytes, stats.total_ns),
            (26, 26, 2550, 281)
        );
        assert_eq!((stats.mean_ns(), stats.percentile_ns(50)), (mean, p50));
        let mut whole = Stats::default();
        whole.add(span(1, 22), 0, false);
        whole.merge(&stats);
        assert_eq!(whole.recorded, Some(Recorded { calls: 4, timed: 4, total_ns: 54 }));
        assert_eq!((whole.calls, whole.total_ns), (27, 302));
    }

    #[test]
    fn percentiles_that_are_the_maximum_are_exact() {
        let mut stats = Stats::default();
        stats.add(span(1, 2_001), 0, false);
        assert_eq!((stats.percentile_ns(50), stats.percentile_ns(99)), (Some(2_000), Some(2_000)));
        stats.add(span(1, 3_001), 0, false);
        assert_eq!((stats.percentile_ns(50), stats.percentile_ns(99)), (Some(2_000), Some(3_000)));
    }

    #[test]
    fn means_are_rounded_and_never_divide_by_zero() {
        assert_eq!(mean(10, 4), Some(3));
        assert_eq!(mean(9, 4), Some(2));
        assert_eq!(mean(u64::MAX, 1), Some(u64::MAX));
        assert_eq!(mean(5, 0), None);
    }
}
