//! GPU work of one group -> calls, times and percentiles, in constant memory.

pub use stage2_contract::stats::mean;
use stage2_contract::stats::{Histogram, P99_VALUES, Unions, scaled};

use super::paths::PathIndex;

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
    /// Of the calls, those in the first, cold instance of their stage; never scaled.
    pub cold_calls: u64,
    /// Of the sum of the durations, that of these calls, ns.
    pub cold_ns: u64,
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
    timed: u64,
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

    /// Says of a call that was added that it is in the first, cold instance of its stage.
    pub(crate) fn add_cold(&mut self, span: Span) {
        self.cold_calls += 1;
        if span.valid() {
            self.cold_ns = self.cold_ns.saturating_add(span.ns());
        }
    }

    /// Scales calls and sums from the recorded instances to all. Times of single executions, and
    /// their mean and percentiles, stay those that were recorded. `so_far`: those of the groups that were scaled before,
    /// with which these are added up.
    pub fn scale(&mut self, sampled: Sampled, so_far: &mut ScaledCalls) {
        if !sampled.is_part() || self.recorded.is_some() {
            return;
        }
        self.recorded = Some(Recorded { calls: self.calls, alike: Some(self.measured()) });
        let ScaledCalls { eager, of_graphs } = so_far;
        let in_graph = of_graphs.scale(self.graph_calls, sampled);
        self.calls = eager
            .scale(self.calls.saturating_sub(self.graph_calls), sampled)
            .saturating_add(in_graph);
        self.graph_calls = in_graph;
        self.untimed = sampled.scale(self.untimed).min(self.calls);
        for sum in [&mut self.bytes, &mut self.total_ns] {
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
        self.cold_calls = self.cold_calls.saturating_add(other.cold_calls);
        self.cold_ns = self.cold_ns.saturating_add(other.cold_ns);
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

/// The middle one, or the rounded mean of the middle two; nothing of nothing.
pub fn median(values: &mut [u64]) -> Option<u64> {
    let middle = Some(values.len() / 2).filter(|at| *at < values.len())?;
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable(middle);
    let lower = below.iter().max().filter(|_| !is_odd).unwrap_or(upper);
    Some(lower + (*upper - lower).div_ceil(2))
}

/// Values of a series that are kept one by one when series are merged. Beyond that the median is
/// within [`stage2_contract::stats::ERROR_PERCENT`].
pub const EXACT_VALUES: usize = 1 << 15;

/// Values, for instance the host times of the instances of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    count: u64,
    sum: u128,
    /// Nothing once they do not fit.
    squares: Option<u128>,
    min: Option<u64>,
    max: Option<u64>,
    values: Values,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Values {
    Each(Vec<u64>),
    Folded(Histogram),
}

impl Default for Values {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
}

impl Series {
    /// Takes a value; true where it was kept by itself.
    pub fn push(&mut self, value: u64) -> bool {
        let square = u128::from(value).checked_mul(u128::from(value));
        let squares = if self.count == 0 { Some(0) } else { self.squares };
        self.squares = squares.zip(square).and_then(|(a, b)| a.checked_add(b));
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.into_iter().chain([value]).min();
        self.max = self.max.max(Some(value));
        match &mut self.values {
            Values::Each(values) => values.push(value),
            Values::Folded(histogram) => histogram.add(value),
        }
        self.kept() > 0
    }

    /// Takes what another series holds, and folds where that makes too many values.
    pub fn merge(&mut self, other: &Self) {
        if self.kept() + other.kept() > EXACT_VALUES {
            self.fold_all();
        }
        self.append(other);
    }

    pub(crate) fn append(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let none = |series: &Self| if series.count == 0 { Some(0) } else { series.squares };
        self.squares = none(self).zip(none(other)).and_then(|(a, b)| a.checked_add(b));
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.into_iter().chain(other.min).min();
        self.max = self.max.max(other.max);
        if matches!(other.values, Values::Folded(_)) {
            self.fold_all();
        }
        match (&mut self.values, &other.values) {
            (Values::Each(values), Values::Each(more)) => values.extend_from_slice(more),
            (Values::Folded(histogram), Values::Folded(more)) => histogram.merge(more),
            (Values::Folded(histogram), Values::Each(more)) => {
                more.iter().for_each(|&value| histogram.add(value));
            }
            // It was folded above.
            (Values::Each(_), Values::Folded(_)) => {}
        }
    }

    pub(crate) fn kept(&self) -> usize {
        match &self.values {
            Values::Each(values) => values.len(),
            Values::Folded(_) => 0,
        }
    }

    /// Keeps a distribution instead of the values, where there are more than `limit`.
    pub fn fold(&mut self, limit: usize) {
        if self.kept() > limit {
            self.fold_all();
        }
    }

    fn fold_all(&mut self) {
        if let Values::Each(values) = &self.values {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.add(value));
            self.values = Values::Folded(histogram);
        }
    }

    /// The distribution of the values: to be written down.
    pub fn histogram(&self) -> Histogram {
        let mut folded = self.clone();
        folded.fold_all();
        match folded.values {
            Values::Folded(histogram) => histogram,
            Values::Each(_) => Histogram::default(),
        }
    }

    /// What was written down: a distribution, and the sum of the values. If one bucket has all of them, they are nearer
    /// to their mean than to its middle; other extremes are only known by their buckets.
    pub fn of_histogram(histogram: Histogram, sum: u64) -> Self {
        let counts = histogram.buckets().iter().map(|(_, count)| *count);
        let count = counts.fold(0u64, u64::saturating_add);
        let mean = mean(sum, count).filter(|_| histogram.buckets().len() == 1);
        let (min, max) = (histogram.percentile(0), histogram.percentile(100));
        let (min, max) = (mean.or(min), mean.or(max));
        Self { count, sum: sum.into(), squares: None, min, max, values: Values::Folded(histogram) }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest value.
    pub fn min(&self) -> Option<u64> {
        self.min
    }

    /// The largest value.
    pub fn max(&self) -> Option<u64> {
        self.max
    }

    /// The arithmetic mean, rounded.
    pub fn mean(&self) -> Option<u64> {
        mean(u64::try_from(self.sum).unwrap_or(u64::MAX), self.count)
    }

    /// The middle one, or the rounded mean of the middle two: exact where the values are kept.
    pub fn median(&self) -> Option<u64> {
        match &self.values {
            Values::Each(values) => median(&mut values.clone()),
            Values::Folded(histogram) => {
                Some(histogram.percentile(50)?.clamp(self.min?, self.max?))
            }
        }
    }

    /// The value that 99 % of them do not exceed. Nothing of fewer than [`P99_VALUES`].
    pub fn p99(&self) -> Option<u64> {
        if self.count < P99_VALUES { None } else { self.percentile(99) }
    }

    /// The value that so many percent do not exceed (nearest rank): exact where values are kept.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        match &self.values {
            Values::Each(values) => {
                let rank = (values.len() * usize::try_from(percent).ok()?).div_ceil(100);
                let at = rank.checked_sub(1).filter(|at| *at < values.len())?;
                Some(*values.clone().select_nth_unstable(at).1)
            }
            Values::Folded(histogram) => {
                Some(histogram.percentile(percent)?.clamp(self.min?, self.max?))
            }
        }
    }

    /// Standard deviation of a sample (divided by one less than its size), rounded down; nothing
    /// for fewer than two, and for values whose squares cannot be summed.
    pub fn deviation(&self) -> Option<u64> {
        let count = u128::from(self.count);
        let squares = count.checked_mul(self.squares?)?;
        let spread = squares.checked_sub(self.sum.checked_mul(self.sum)?)?;
        u64::try_from(spread.checked_div(count * count.checked_sub(1)?)?.isqrt()).ok()
    }
}

/// Instances of one path that `STAGE2_SAMPLE` chose from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sampled {
    /// All of them.
    pub instances: u64,
    /// Those of them that were recorded.
    pub recorded: u64,
}

impl Sampled {
    /// Whether the work of some instances is missing, and can be estimated from the others.
    pub fn is_part(self) -> bool {
        self.recorded > 0 && self.recorded < self.instances
    }

    /// The estimate for all instances from the sum over the recorded ones, rounded.
    pub fn scale(self, recorded: u64) -> u64 {
        if !self.is_part() {
            return recorded;
        }
        scaled(recorded, self.instances, self.recorded).unwrap_or(u64::MAX)
    }

    /// One of so many of one of so many.
    pub fn times(self, other: Self) -> Self {
        match (self.is_part(), other.is_part()) {
            (true, true) => Self {
                instances: self.instances.saturating_mul(other.instances),
                recorded: self.recorded.saturating_mul(other.recorded),
            },
            (true, false) => self,
            (false, _) => other,
        }
    }

    /// Adds the instances of another process, and those of them that were recorded.
    pub fn add(&mut self, other: Self) {
        self.instances = self.instances.saturating_add(other.instances);
        self.recorded = self.recorded.saturating_add(other.recorded);
    }
}

/// Counts that are scaled one after the other and add up to what their sum is, scaled: each is the whole number below or
/// above its estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScaledSum {
    recorded: u64,
    scaled: u64,
}

impl ScaledSum {
    /// The next of them.
    pub fn scale(&mut self, recorded: u64, sampled: Sampled) -> u64 {
        self.recorded = self.recorded.saturating_add(recorded);
        let before = self.scaled;
        self.scaled = sampled.scale(self.recorded);
        self.scaled.saturating_sub(before)
    }
}

/// Calls of groups, by whether a graph launched them: both add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScaledCalls {
    eager: ScaledSum,
    of_graphs: ScaledSum,
}

/// A sum of recorded figures, each scaled to all instances of its path: rounded once, at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// In units of 2^-32.
    sum: u128,
}

impl Estimate {
    /// Adds what was recorded in instances of which `sampled` tells how many stand for how many.
    pub fn add(&mut self, recorded: u64, sampled: Sampled) {
        let (instances, of) = match sampled.is_part() {
            true => (u128::from(sampled.instances), u128::from(sampled.recorded)),
            false => (1, 1),
        };
        let scaled = u128::from(recorded) * instances;
        let whole = (scaled / of).min(u128::from(u64::MAX));
        self.sum = self.sum.saturating_add((whole << 32) + ((scaled % of) << 32) / of);
    }

    /// The sum of two estimates.
    pub fn plus(self, other: Self) -> Self {
        Self { sum: self.sum.saturating_add(other.sum) }
    }

    /// The estimate, rounded.
    pub fn get(self) -> u64 {
        u64::try_from(self.sum.saturating_add(1 << 31) >> 32).unwrap_or(u64::MAX)
    }
}

/// Of a limit of a trace file, the smallest part that a capture gets.
const LEAST_SHARE: usize = 64;
/// The shares of all captures add up to less than one: the harmonic numbers grow slowly.
const FIRST_SHARE: usize = 8;

/// The part of the limits of a trace file that belongs to one capture.
///
/// Limits of a trace file hold for one file at a time. An export of nsys has all processes in one
/// file, and all of them are held until it ends: together they take no more than one trace file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(usize);

impl Default for Share {
    fn default() -> Self {
        Self(1)
    }
}

impl Share {
    /// That of the capture `number`, from 0: the first ones, which most exports end with, get the most.
    pub fn of_several(number: usize) -> Self {
        Self(number.saturating_add(1).saturating_mul(FIRST_SHARE))
    }

    /// How much of `limit` it is.
    pub fn of(self, limit: usize) -> usize {
        (limit / self.0).max(LEAST_SHARE.min(limit))
    }

    /// Unions of intervals that keep so much.
    pub fn unions(self) -> Unions {
        Unions::with_limits(self.of(Unions::BATCH), self.of(Unions::WINDOW))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [8, 1, 9, 4]), Some(6));
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
        stats.scale(Sampled { instances: 17, recorded: 2 }, &mut ScaledCalls::default());
        assert_eq!((stats.calls, stats.graph_calls), (26, 26));
        assert_eq!((stats.bytes, stats.total_ns), (2550, 281));
        assert_eq!((stats.mean_ns(), stats.percentile_ns(50)), (mean, p50));
        let mut same = Stats::default();
        same.merge(&stats);
        same.merge(&Stats::default());
        assert_eq!(same, stats);
    }

    #[test]
    fn calls_of_all_groups_are_the_scaled_sum_of_the_recorded_ones() {
        // 10 of 164 calls were recorded. A kernel that ran once in each is 16.4 times as many, which is no whole number.
        let sampled = Sampled { instances: 164, recorded: 10 };
        let mut so_far = ScaledCalls::default();
        let (mut eager, mut of_graphs) = (0, 0);
        for at in 0..846 {
            let mut stats = Stats::default();
            let recorded = 9 + at % 3;
            (0..recorded).for_each(|_| stats.add(span(1, 2), 0, at % 2 == 0));
            stats.scale(sampled, &mut so_far);
            assert!(stats.calls.abs_diff(sampled.scale(recorded)) <= 1, "{stats:?}");
            eager += stats.calls - stats.graph_calls;
            of_graphs += stats.graph_calls;
        }
        assert_eq!((eager, of_graphs), (423 * 164, 423 * 164));
    }

    #[test]
    fn what_stands_for_more_weighs_more_in_mean_and_percentiles() {
        // 1 of 2 instances with a call of 20 ns, 1 of 16 with four of 2 ns, and one of 29 ns that
        // stands for itself: 2 * 20 + 64 * 2 + 29 over 67 calls. Unweighted, 57 over 6.
        let group = |ns: u64, calls: usize, sampled| {
            let mut stats = Stats::default();
            (0..calls).for_each(|_| stats.add(span(1, 1 + ns), 0, false));
            stats.scale(sampled, &mut ScaledCalls::default());
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
        one.scale(Sampled { instances: 17, recorded: 2 }, &mut ScaledCalls::default());
        let mut two = one.clone();
        two.merge(&one);
        assert_eq!((two.calls, two.total_ns, two.mean_ns()), (52, 561_000, Some(11_000)));
    }

    #[test]
    fn percentiles_that_are_the_maximum_are_exact() {
        let mut stats = Stats::default();
        for ns in [2_000, 3_000] {
            stats.add(span(1, 1 + ns), 0, false);
            let found = (stats.percentile_ns(50), stats.percentile_ns(99));
            assert_eq!(found, (Some(2_000), Some(ns)));
        }
    }

    #[test]
    fn means_are_rounded_and_never_divide_by_zero() {
        assert_eq!(mean(10, 4), Some(3));
        assert_eq!(mean(9, 4), Some(2));
        assert_eq!(mean(u64::MAX, 1), Some(u64::MAX));
        assert_eq!(mean(5, 0), None);
    }

    fn of(values: impl IntoIterator<Item = u64>) -> Series {
        let mut series = Series::default();
        for value in values {
            series.push(value);
        }
        series
    }

    #[test]
    fn deviations() {
        assert_eq!(of([]).deviation(), None);
        assert_eq!(of([7]).deviation(), None);
        assert_eq!(of([7, 7, 7]).deviation(), Some(0));
        // Squares of 3, 1, 1 and 3 over 3.
        assert_eq!(of([2, 4, 6, 8]).deviation(), Some(2));
        let far = 1 << 60;
        assert_eq!(of([far, far + 1_000, far + 2_000]).deviation(), Some(1_000));
        assert_eq!(of([0, 1 << 63]).deviation(), Some(6_521_908_912_666_391_106));
        assert_eq!(of([0, u64::MAX]).deviation(), None, "no number rather than a wrong one");
    }

    #[test]
    fn ninety_nine_percent_do_not_exceed_the_99th_percentile() {
        let p99 = [0, 19, 20, 100, 101].map(|last| of((1..=last).rev()).p99());
        assert_eq!(p99, [None, None, Some(20), Some(99), Some(100)]);
        let mut folded = of(1..=101);
        folded.fold(0);
        assert!(folded.p99().is_some_and(|ns| ns.abs_diff(100) <= 2), "{folded:?}");
    }

    proptest! {
        #[test]
        fn folding_and_merging_change_the_median_only_and_that_little(
            a in prop::collection::vec(1u64..1_000_000_000, 1..200),
            b in prop::collection::vec(1u64..1_000_000_000, 1..200),
            limit in 0usize..200,
        ) {
            let whole = of(a.iter().chain(&b).copied());
            let (mut first, mut second) = (of(a), of(b));
            first.fold(limit);
            second.fold(200 - limit);
            // As sums begin: with nothing.
            let mut sum = Series::default();
            sum.merge(&first);
            sum.merge(&second);
            let first = sum;
            prop_assert_eq!(first.count(), whole.count());
            prop_assert_eq!((first.mean(), first.deviation()), (whole.mean(), whole.deviation()));
            prop_assert_eq!((first.min(), first.max()), (whole.min(), whole.max()));
            let Values::Each(mut all) = whole.values else { panic!("few values are kept") };
            all.sort_unstable();
            // Nearest rank: the lower one of the middle two.
            let (lower, upper) = (all[(all.len() - 1) / 2] as f64, all[all.len() / 2] as f64);
            let got = first.median().expect("values") as f64;
            let error = stage2_contract::stats::ERROR_PERCENT / 100.0;
            prop_assert!(got >= lower * (1.0 - error) - 1.0 && got <= upper * (1.0 + error) + 1.0);
        }
    }

    #[test]
    fn an_estimate_is_rounded_once() {
        let mut sum = Estimate::default();
        (0..6).for_each(|_| sum.add(1, Sampled { instances: 16, recorded: 3 }));
        assert_eq!(sum.get(), 32, "six times 5.33, and not six times 5");
        sum.add(u64::MAX, Sampled { instances: u64::MAX, recorded: 1 });
        assert_eq!(sum.get(), u64::MAX);
        let mut whole = Estimate::default();
        whole.add(u64::MAX, Sampled::default());
        assert_eq!(whole.get(), u64::MAX);
    }

    #[test]
    fn sums_are_scaled_and_nothing_is_made_up() {
        let sampled = Sampled { instances: 64, recorded: 4 };
        assert_eq!(sampled.scale(28), 448);
        assert_eq!(Sampled { instances: 17, recorded: 2 }.scale(3), 26);
        assert_eq!(sampled.scale(u64::MAX), u64::MAX);
        for whole in [Sampled::default(), Sampled { instances: 5, recorded: 0 }] {
            assert_eq!(whole.scale(7), 7);
        }
        // A damaged file may say anything.
        assert_eq!(Sampled { instances: 1, recorded: 9 }.scale(7), 7);
    }

    /// Hazard (Hostile files): An nsys export of a thousand processes, each of which may keep as
    ///  much as a whole file.
    /// Promise: They share what one trace file may keep, and all of it is below 512 MiB.
    #[test]
    fn a_thousand_captures_keep_hardly_more_than_one_file() {
        let limit = 1 << 20;
        assert_eq!(Share::default().of(limit), limit);
        let all: usize = (0..1024).map(|number| Share::of_several(number).of(limit)).sum();
        assert!((limit / 2..limit).contains(&all), "{all}");
        assert_eq!(Share::of_several(usize::MAX).of(limit), LEAST_SHARE);
        assert_eq!(Share::of_several(9).of(10), 10);
    }
}
