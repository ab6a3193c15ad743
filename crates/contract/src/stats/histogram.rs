//! Durations -> percentiles in little memory, with a stated error.
//!
//! A log-linear histogram: every power of two is cut into `STEPS` equal buckets, so that the
//! middle of a bucket is within [`ERROR_PERCENT`] of every value in it. Only buckets in use are
//! kept: the durations of one kernel fill a handful of the thousands that exist, and captures
//! have up to hundreds of thousands of groups (which is why no dense histogram is used).

/// Buckets for each power of two.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Largest relative error of [`Histogram::percentile`], percent: half of one part in 32.
pub const ERROR_PERCENT: f64 = 1.6;

/// Of fewer values there is no 99th percentile: it would be the longest of them, or close to it.
pub const P99_VALUES: u64 = 20;

/// Counts of durations, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// (bucket, count), ascending by bucket.
    buckets: Vec<(u16, u64)>,
}

impl Histogram {
    /// Counts one duration.
    pub fn add(&mut self, value_ns: u64) {
        self.add_many(bucket_of(value_ns), 1);
    }

    /// Counts everything that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for &(bucket, count) in &other.buckets {
            self.add_many(bucket, count);
        }
    }

    /// Lets the values stand for `total`, each for equally many up to rounding. The counts add up to
    /// `total`, where there are any.
    pub fn scale_to(&mut self, total: u64) {
        let all = self.total();
        let (mut seen, mut given) = (0u128, 0u64);
        for (_, count) in &mut self.buckets {
            seen += u128::from(*count);
            // Rounding what was given out so far loses nothing on the way.
            let so_far = (seen * u128::from(total) + all / 2).checked_div(all).unwrap_or(0);
            let so_far = u64::try_from(so_far).unwrap_or(total);
            *count = so_far.saturating_sub(given);
            given = so_far;
        }
        self.buckets.retain(|&(_, count)| count > 0);
    }

    /// The 99th percentile; nothing of fewer than [`P99_VALUES`].
    pub fn p99(&self) -> Option<u64> {
        (self.total() >= u128::from(P99_VALUES)).then(|| self.percentile(99))?
    }

    fn total(&self) -> u128 {
        self.buckets.iter().map(|&(_, count)| u128::from(count)).sum()
    }

    fn add_many(&mut self, bucket: u16, count: u64) {
        let at = self.buckets.partition_point(|&(b, _)| b < bucket);
        match self.buckets.get_mut(at) {
            Some((b, c)) if *b == bucket => *c = c.saturating_add(count),
            _ => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// The value, in nanoseconds, that `percent` of the values do not exceed (nearest rank),
    /// within [`ERROR_PERCENT`]. Nothing if nothing was counted.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let total = self.total();
        let rank = (total * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0u128;
        self.buckets.iter().find_map(|&(bucket, count)| {
            seen += u128::from(count);
            (seen >= rank).then(|| middle_of(bucket))
        })
    }
}

fn bucket_of(value: u64) -> u16 {
    if value < STEPS {
        return value as u16;
    }
    let octave = value.ilog2() - STEP_BITS;
    let step = (value >> octave) - STEPS;
    // At most (63 - 5 + 1) * 32 + 31, far below 65536.
    ((u64::from(octave) + 1) * STEPS + step) as u16
}

fn middle_of(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < STEPS {
        return bucket;
    }
    let octave = bucket / STEPS - 1;
    let low = (STEPS + bucket % STEPS) << octave;
    low + ((1u64 << octave) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_has_no_percentiles() {
        assert_eq!(Histogram::default().percentile(50), None);
    }

    #[test]
    fn few_values_have_no_99th_percentile() {
        let mut h = Histogram::default();
        (1..P99_VALUES).for_each(|v| h.add(v));
        assert_eq!((h.percentile(99), h.p99()), (Some(19), None));
        h.add(20);
        assert_eq!(h.p99(), Some(20));
    }

    #[test]
    fn small_values_are_exact() {
        let mut h = Histogram::default();
        (0..32).for_each(|v| h.add(v));
        assert_eq!(h.percentile(50), Some(15));
        assert_eq!(h.percentile(99), Some(31));
        assert_eq!(h.percentile(0), Some(0));
    }

    #[test]
    fn scaled_counts_add_up_and_keep_their_shares() {
        let mut h = Histogram::default();
        // 1 once, 2 twice, 3 three times: 1, 3, 6 of 6 become 2.5, 7.5, 15 of 15.
        [1, 2, 2, 3, 3, 3].into_iter().for_each(|v| h.add(v));
        h.scale_to(15);
        assert_eq!(h.buckets, [(1, 3), (2, 5), (3, 7)]);
        h.scale_to(2);
        assert_eq!(h.buckets, [(2, 1), (3, 1)]);
        h.scale_to(u64::MAX);
        assert_eq!(h.total(), u128::from(u64::MAX));
        h.scale_to(0);
        h.scale_to(9);
        assert_eq!(h, Histogram::default());
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut h = Histogram::default();
        h.add(0);
        h.add(u64::MAX);
        assert_eq!(h.percentile(1), Some(0));
        let top = h.percentile(99).unwrap();
        assert!(u64::MAX - top < u64::MAX / 50);
    }

    proptest! {
        #[test]
        fn percentiles_are_within_the_stated_error(
            mut values in prop::collection::vec(0u64..1 << 40, 1..300), percent in 1u64..=100
        ) {
            let mut h = Histogram::default();
            let mut halves = [Histogram::default(), Histogram::default()];
            for (i, &v) in values.iter().enumerate() {
                h.add(v);
                halves[i % 2].add(v);
            }
            values.sort_unstable();
            let exact = values[(values.len() * percent as usize).div_ceil(100) - 1] as f64;
            let got = h.percentile(percent).unwrap() as f64;
            prop_assert!((got - exact).abs() <= exact * ERROR_PERCENT / 100.0, "{got} {exact}");
            let [mut merged, second] = halves;
            merged.merge(&second);
            prop_assert_eq!(merged, h);
        }
    }
}
