//! GPU work of one group -> calls, times and percentiles, in constant memory.

use super::paths::PathIndex;
use super::sampling::Sampled;
use stage2_contract::stats::{Histogram, P99_VALUES};

/// A kind of GPU work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A kernel: index of its shape.
    Kernel(u32),
    /// A copy: `CUpti_ActivityMemcpyKind`.
    Copy(u8),
    /// A memory set.
    Fill,
    /// A whole CUDA graph: CUPTI's id of the executable graph.
    Graph(u32),
}

/// What is counted together: the same work, under the same ranges, on the same device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// The path of ranges around the work.
    pub path: PathIndex,
    /// What ran.
    pub work: Work,
    /// Index of the GPU.
    pub device: u32,
}

/// One piece of GPU work, as far as counting needs it. Times are of the GPU clock, ns.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Start, ns.
    pub start: u64,
    pub(crate) end: u64,
}

impl Span {
    /// CUPTI gives zeros where it could not take the times.
    pub fn valid(self) -> bool {
        self.start != 0 && self.end >= self.start
    }

    pub(crate) fn ns(self) -> u64 {
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
    /// Calls out of CUDA graphs.
    pub graph_calls: u64,
    /// Bytes moved (copies and fills).
    pub bytes: u64,
    /// Sum of the durations, ns. May exceed wall time where work overlaps.
    pub total_ns: u64,
    /// The shortest call, ns.
    pub min_ns: Option<u64>,
    /// The longest call, ns.
    pub max_ns: Option<u64>,
    /// Start of the first call, ns.
    pub first_start_ns: Option<u64>,
    /// End of the last call, ns.
    pub last_end_ns: Option<u64>,
    /// Durations of the calls.
    pub histogram: Histogram,
}

/// Calls that were recorded in instances of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// How many.
    pub calls: u64,
    /// Where all of them stand for equally many: what the mean and the percentiles are of. Nothing
    /// where they do not; mean and percentiles are then of the scaled numbers.
    pub alike: Option<Measured>,
}

/// What was measured of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pub(crate) timed: u64,
    /// Their duration in all, ns.
    pub total_ns: u64,
}

fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

impl Stats {
    pub(crate) fn add(&mut self, span: Span, bytes: u64, in_graph: bool) {
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
    /// their mean and percentiles, stay those that were recorded.
    pub fn scale(&mut self, sampled: Sampled) {
        if !sampled.is_part() || self.recorded.is_some() {
            return;
        }
        self.recorded = Some(Recorded { calls: self.calls, alike: Some(self.measured()) });
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

    fn measured(&self) -> Measured {
        let all = Measured { timed: self.timed(), total_ns: self.total_ns };
        self.recorded.and_then(|recorded| recorded.alike).unwrap_or(all)
    }

    /// Lets every execution weigh in the distribution as many as it stands for.
    fn weigh(&mut self) {
        let timed = self.timed();
        if let Some(recorded) = self.recorded.as_mut().filter(|of| of.alike.is_some()) {
            recorded.alike = None;
            self.histogram.scale_to(timed);
        }
    }

    /// Counts what `other` counted. Of groups of which one is scaled, what stands for more weighs
    /// more from here on.
    pub fn merge(&mut self, other: &Self) {
        if other.calls == 0 {
            return;
        }
        if self.calls == 0 {
            *self = other.clone();
            return;
        }
        let mut weighed;
        let mut other = other;
        if self.recorded.is_some() || other.recorded.is_some() {
            weighed = other.clone();
            weighed.weigh();
            other = &weighed;
            self.weigh();
            let calls = |stats: &Self| stats.recorded.map_or(stats.calls, |of| of.calls);
            let calls = calls(self).saturating_add(calls(other));
            self.recorded = Some(Recorded { calls, alike: None });
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

    /// Calls whose times are known.
    pub fn timed(&self) -> u64 {
        self.calls.saturating_sub(self.untimed)
    }

    /// Mean of the timed executions, ns, rounded; nothing where none was timed.
    pub fn mean_ns(&self) -> Option<u64> {
        let Measured { timed, total_ns } = self.measured();
        // Scaled sums are rounded, each by itself.
        Some(mean(total_ns, timed)?.clamp(self.min_ns?, self.max_ns?))
    }

    /// Percentile within [`stage2_contract::stats::ERROR_PERCENT`], ns; never outside the exact
    /// minimum and maximum, and exact where it is the maximum.
    pub fn percentile_ns(&self, percent: u64) -> Option<u64> {
        let (min, max) = (self.min_ns?, self.max_ns?);
        let timed = u128::from(self.measured().timed);
        if (timed * u128::from(percent)).div_ceil(100) >= timed {
            return Some(max);
        }
        Some(self.histogram.percentile(percent)?.clamp(min, max))
    }

    /// The 99th percentile, ns; nothing of fewer than [`P99_VALUES`] executions.
    pub fn p99_ns(&self) -> Option<u64> {
        (self.measured().timed >= P99_VALUES).then(|| self.percentile_ns(99))?
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
        let mut same = Stats::default();
        same.merge(&stats);
        same.merge(&Stats::default());
        assert_eq!(same, stats);
    }

    #[test]
    fn what_stands_for_more_weighs_more_in_mean_and_percentiles() {
        // 1 of 2 instances with a call of 20 ns, 1 of 16 with four of 2 ns, and one of 29 ns that
        // stands for itself: 2 * 20 + 64 * 2 + 29 over 67 calls. Unweighted, 57 over 6.
        let group = |ns: u64, calls: usize, sampled| {
            let mut stats = Stats::default();
            (0..calls).for_each(|_| stats.add(span(1, 1 + ns), 0, false));
            stats.scale(sampled);
            stats
        };
        let mut all = group(20, 1, Sampled { instances: 2, recorded: 1 });
        all.merge(&group(2, 4, Sampled { instances: 16, recorded: 1 }));
        assert_eq!((all.calls, all.total_ns, all.mean_ns()), (66, 168, Some(3)));
        all.merge(&group(29, 1, Sampled::default()));
        assert_eq!(all.recorded, Some(Recorded { calls: 6, alike: None }));
        assert_eq!((all.calls, all.total_ns, all.mean_ns()), (67, 197, Some(3)));
        // 64 of 67 took 2 ns; the 95th of 100 is the 64th, the 97th the 65th, the 99th the last.
        let percentiles = [50, 95, 97, 99].map(|percent| all.percentile_ns(percent));
        assert_eq!(percentiles, [Some(2), Some(2), Some(20), Some(29)]);
        // The other way around it is the same.
        let mut other = group(29, 1, Sampled::default());
        other.merge(&group(2, 4, Sampled { instances: 16, recorded: 1 }));
        other.merge(&group(20, 1, Sampled { instances: 2, recorded: 1 }));
        assert_eq!(other, all);
    }

    #[test]
    fn a_mean_of_rounded_sums_lies_between_the_extremes() {
        // 3 calls of 11,000 ns in 2 of 17 instances: 25.5 calls become 26, 280,500 ns stay.
        let mut one = Stats::default();
        (0..3).for_each(|_| one.add(span(1, 11_001), 0, false));
        one.scale(Sampled { instances: 17, recorded: 2 });
        let mut two = one.clone();
        two.merge(&one);
        assert_eq!((two.calls, two.total_ns, two.mean_ns()), (52, 561_000, Some(11_000)));
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
