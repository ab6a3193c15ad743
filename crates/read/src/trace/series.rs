//! Values, any number of them -> mean, deviation and median in bounded memory.

use stage2_contract::stats::{Histogram, P99_VALUES};

use super::stats::{mean, median};

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
        let none = |series: &Self| if series.count == 0 { Some(0) } else { series.squares };
        self.squares = none(self).zip(none(other)).and_then(|(a, b)| a.checked_add(b));
        self.count += other.count;
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

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn sum(&self) -> u128 {
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

    /// The value that so many percent of them do not exceed (nearest rank): exact where the values are
    /// kept.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        match &self.values {
            Values::Each(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                let rank = (sorted.len() * usize::try_from(percent).ok()?).div_ceil(100);
                sorted.get(rank.checked_sub(1)?).copied()
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        assert_eq!(of([]).p99(), None);
        assert_eq!(of(1..20).p99(), None);
        assert_eq!(of(1..=20).p99(), Some(20));
        assert_eq!(of((1..=100).rev()).p99(), Some(99));
        assert_eq!(of(1..=101).p99(), Some(100));
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
}
