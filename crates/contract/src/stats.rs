//! Statistics that the collector and the analysis must compute alike.

/// The longest gap between intervals that one launch right behind another leaves, ns: what a launch
/// costs the host, from a few microseconds in C++ to some tens in eager Python.
pub const BACK_TO_BACK_NS: u64 = 50_000;

/// Ranges that repeat within a stage are its steps if they cover at least this part of its time, percent.
pub const STEPS_COVER_PERCENT: u8 = 90;

/// How long any interval of a set ran: their union.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Time in which at least one interval ran, ns.
    pub busy_ns: u64,
    /// Gaps between them that are no longer than [`BACK_TO_BACK_NS`], ns.
    pub short_gaps_ns: u64,
    /// Intervals that arrived too late to be placed exactly.
    pub late_intervals: u64,
    /// The union may be larger than `busy_ns` by at most this, ns.
    pub late_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Union {
    pending: Vec<(u64, u64)>,
    /// Disjoint, ascending, none before `horizon`; `pending` are those that came out of order.
    window: Vec<(u64, u64)>,
    horizon: u64,
    folded: Busy,
}

/// All unions of one file, by index, so that they share one bound on memory.
///
/// Intervals come nearly in order. They are collected, sorted and merged in batches. What lies further back
/// than a wide window is folded into a sum, so that memory stays bounded; an interval that arrives even later
/// than that is counted, with the time that its overlap leaves open. Until then the union is exact, whatever
/// the order.
#[derive(Debug)]
pub struct Unions {
    all: Vec<Union>,
    pending: usize,
    batch: usize,
    window: usize,
}

impl Default for Unions {
    fn default() -> Self {
        Self::with_limits(Self::BATCH, Self::WINDOW)
    }
}

impl Unions {
    /// Intervals that are taken, over all unions of a file, before those out of order are sorted in.
    pub const BATCH: usize = 1 << 19;
    /// Disjoint intervals that are kept, over all unions of a file, before old ones are folded.
    pub const WINDOW: usize = 1 << 21;

    /// No union yet; over all of them, `batch` intervals are collected before they are sorted in,
    /// and `window` disjoint ones kept before old ones are folded (16 B each, twice that while
    /// they grow).
    pub fn with_limits(batch: usize, window: usize) -> Self {
        Self { all: Vec::new(), pending: 0, batch, window }
    }

    /// An empty union; returns its index.
    pub fn create(&mut self) -> usize {
        self.all.push(Union::default());
        self.all.len() - 1
    }

    /// A union that starts out with what `index` holds; returns its index.
    pub fn fork(&mut self, index: usize) -> usize {
        let copy = self.all.get(index).cloned().unwrap_or_default();
        self.pending += copy.pending.len();
        self.all.push(copy);
        self.all.len() - 1
    }

    /// Adds `start..end` to the union `index`.
    pub fn add(&mut self, index: usize, start: u64, end: u64) {
        let Some(union) = self.all.get_mut(index) else { return };
        // In order, as most are: nothing has to be sorted.
        let is_in_order = union.window.last().map_or(union.horizon, |last| last.0) <= start;
        let list = if is_in_order { &mut union.window } else { &mut union.pending };
        match list.last_mut() {
            Some(last) if last.0 <= start && start <= last.1 => last.1 = last.1.max(end),
            _ if start < end => {
                list.push((start, end));
                self.pending += 1;
                if self.pending >= self.batch {
                    self.settle();
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self) {
        self.all.iter_mut().for_each(Union::sort_in);
        self.pending = 0;
        let kept: usize = self.all.iter().map(|union| union.window.len()).sum();
        if kept > self.window {
            self.all.iter_mut().for_each(|union| union.fold(union.window.len() / 2));
        }
    }

    /// The unions, in the order of their creation.
    pub fn finish(mut self) -> Vec<Busy> {
        for union in &mut self.all {
            union.sort_in();
            union.fold(union.window.len());
        }
        self.all.into_iter().map(|union| union.folded).collect()
    }
}

impl Union {
    fn sort_in(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut self.pending);
        for interval in &mut batch {
            if interval.0 < self.horizon {
                let unknown = self.horizon.min(interval.1) - interval.0;
                self.folded.late_intervals += 1;
                self.folded.late_ns = self.folded.late_ns.saturating_add(unknown);
                interval.0 = self.horizon;
            }
        }
        let first = batch.iter().map(|&(start, _)| start).min().unwrap_or(0);
        // Only the part of the window that the batch can touch is merged again.
        let untouched = self.window.partition_point(|&(_, end)| end < first);
        batch.extend(self.window.drain(untouched..));
        batch.sort();
        for &(start, end) in batch.iter().filter(|(start, end)| start < end) {
            match self.window.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => self.window.push((start, end)),
            }
        }
    }

    fn fold(&mut self, count: usize) {
        for (start, end) in self.window.drain(..count) {
            let gap = start.saturating_sub(self.horizon);
            if self.folded.busy_ns > 0 && gap <= BACK_TO_BACK_NS {
                self.folded.short_gaps_ns = self.folded.short_gaps_ns.saturating_add(gap);
            }
            self.folded.busy_ns = self.folded.busy_ns.saturating_add(end - start);
            self.horizon = end;
        }
    }
}

/// `total` divided by `count`, rounded; nothing for nothing.
pub fn mean(total: u64, count: u64) -> Option<u64> {
    (u128::from(total) + u128::from(count / 2))
        .checked_div(u128::from(count))
        .map(|mean| u64::try_from(mean).unwrap_or(u64::MAX))
}

/// `value * by / of`, rounded; nothing where `of` is 0 or 64 bits are too few.
pub fn scaled(value: u64, by: u64, of: u64) -> Option<u64> {
    let of = u128::from(of);
    let scaled = (u128::from(value) * u128::from(by) + of / 2).checked_div(of)?;
    u64::try_from(scaled).ok()
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit.
#[inline]
pub fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// How long any of `intervals` ran, ns; for intervals that are all available.
pub fn union_ns(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let mut covered_to = 0;
    intervals.iter().fold(0u64, |total, &(start, end)| {
        let fresh = end.saturating_sub(start.max(covered_to));
        covered_to = covered_to.max(end);
        total.saturating_add(fresh)
    })
}

/// Buckets for each power of two.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Buckets of all values.
const BUCKETS: u16 = ((64 - STEP_BITS as u16) + 1) * STEPS as u16;

/// Largest relative error of [`Histogram::percentile`], percent: half of one part in 32.
pub const ERROR_PERCENT: f64 = 1.6;

/// Of fewer values there is no 99th percentile: it would be the longest of them, or close to it.
pub const P99_VALUES: u64 = 20;

/// Counts of durations, in nanoseconds: percentiles in little memory, with a stated error.
///
/// A log-linear histogram: every power of two is cut into `STEPS` equal buckets, so that the middle of a bucket
/// is within [`ERROR_PERCENT`] of every value in it. Only buckets in use are kept: the durations of one kernel
/// fill a handful of the thousands that exist, and captures have up to hundreds of thousands of groups (which
/// is why no dense histogram is used).
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

    /// Counts one duration so many times.
    pub fn add_times(&mut self, value_ns: u64, count: u64) {
        self.add_many(bucket_of(value_ns), count);
    }

    /// Counts everything that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        other.buckets.iter().for_each(|&(bucket, count)| self.add_many(bucket, count));
    }

    /// The buckets in use, each with its count, ascending: to be written down.
    pub fn buckets(&self) -> &[(u16, u64)] {
        &self.buckets
    }

    /// What was written down; nothing where the buckets do not ascend or one is empty.
    pub fn of_buckets(buckets: Vec<(u16, u64)>) -> Option<Self> {
        let ascends = buckets.windows(2).all(|pair| matches!(pair, [a, b] if a.0 < b.0));
        let holds = buckets.iter().all(|&(bucket, count)| bucket < BUCKETS && count > 0);
        (ascends && holds).then_some(Self { buckets })
    }

    /// Scales all counts by one factor, so that they add up to `total`. Rounding changes each count by less
    /// than one. An empty histogram stays empty.
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
    use proptest::prelude::*;

    use super::*;

    fn brute_force(intervals: &[(u64, u64)]) -> u64 {
        (0..400u64).filter(|t| intervals.iter().any(|&(s, e)| s <= *t && *t < e)).count() as u64
    }

    fn exact(all: &[(u64, u64)]) -> Busy {
        let busy_ns = brute_force(all);
        let ran = || all.iter().filter(|(start, end)| start < end);
        let first = ran().map(|&(start, _)| start).min().unwrap_or(0);
        let last = ran().map(|&(_, end)| end).max().unwrap_or(0);
        Busy { busy_ns, short_gaps_ns: last - first - busy_ns, ..Busy::default() }
    }

    /// The only union of these intervals.
    fn union_of(mut unions: Unions, intervals: &[(u64, u64)]) -> Busy {
        let index = unions.create();
        intervals.iter().for_each(|&(start, end)| unions.add(index, start, end));
        unions.finish()[0]
    }

    fn intervals() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0u64..300, 0u64..40).prop_map(|(s, d)| (s, s + d)), 0..60)
    }

    proptest! {
        #[test]
        fn equals_brute_force_in_any_order(all in intervals(), batch in 1usize..20) {
            prop_assert_eq!(union_of(Unions::with_limits(batch, usize::MAX), &all), exact(&all));
            prop_assert_eq!(union_ns(all.clone()), brute_force(&all));
        }

        #[test]
        fn with_a_narrow_window_the_truth_is_within_the_stated_bound(
            all in intervals(), batch in 1usize..5, window in 1usize..6
        ) {
            let got = union_of(Unions::with_limits(batch, window), &all);
            let truth = brute_force(&all);
            prop_assert!(got.busy_ns <= truth && truth <= got.busy_ns + got.late_ns, "{got:?}");
            prop_assert_eq!(got.late_ns > 0, got.late_intervals > 0);
        }

        #[test]
        fn sorted_input_is_exact_in_any_window(mut all in intervals(), window in 1usize..6) {
            all.sort_unstable();
            prop_assert_eq!(union_of(Unions::with_limits(2, window), &all), exact(&all));
        }
    }

    #[test]
    fn gaps_of_one_launch_behind_another_are_told_from_longer_ones() {
        let mut at = 1_000_000;
        let intervals = [BACK_TO_BACK_NS, BACK_TO_BACK_NS + 1, 7, 1_000_000, 0].map(|gap| {
            at += 10 + gap;
            (at - 10 - gap, at - gap)
        });
        for window in [1, 2, 100] {
            let got = union_of(Unions::with_limits(1, window), &intervals);
            assert_eq!((got.busy_ns, got.short_gaps_ns), (50, BACK_TO_BACK_NS + 7), "{window}");
        }
    }

    #[test]
    fn a_fork_goes_on_from_what_it_copied() {
        let mut unions = Unions::default();
        let first = unions.create();
        unions.add(first, 10, 20);
        let both = unions.fork(first);
        unions.add(both, 15, 30);
        unions.add(first, 40, 41);
        let busy: Vec<u64> = unions.finish().iter().map(|b| b.busy_ns).collect();
        assert_eq!(busy, [11, 20]);
    }

    #[test]
    fn empty_and_reversed_intervals_add_nothing() {
        assert_eq!(union_of(Unions::default(), &[(10, 10), (10, 5)]), Busy::default());
        assert_eq!(union_ns(vec![(10, 5), (3, 3)]), 0);
    }

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        values.into_iter().for_each(|value| histogram.add(value));
        histogram
    }

    #[test]
    fn no_values_have_no_percentile() {
        assert_eq!(Histogram::default().percentile(50), None);
        assert_eq!(of(1..20).percentile(99), Some(19));
    }

    #[test]
    fn small_values_are_exact() {
        assert_eq!([0, 50, 99].map(|percent| of(0..32).percentile(percent)), [0, 15, 31].map(Some));
    }

    #[test]
    fn scaled_counts_add_up_and_keep_their_shares() {
        // 1 once, 2 twice, 3 three times: 1, 3, 6 of 6 become 2.5, 7.5, 15 of 15.
        let mut h = of([1, 2, 2, 3, 3, 3]);
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
        let h = of([0, u64::MAX]);
        assert_eq!(h.percentile(1), Some(0));
        let top = h.percentile(99).unwrap();
        assert!(u64::MAX - top < u64::MAX / 50);
    }

    proptest! {
        #[test]
        fn percentiles_are_within_the_stated_error(
            mut values in prop::collection::vec(0u64..1 << 40, 1..300), percent in 1u64..=100
        ) {
            let h = of(values.iter().copied());
            let (first, second) = values.split_at(values.len() / 2);
            let mut merged = of(first.iter().copied());
            merged.merge(&of(second.iter().copied()));
            values.sort_unstable();
            let exact = values[(values.len() * percent as usize).div_ceil(100) - 1] as f64;
            let got = h.percentile(percent).unwrap() as f64;
            prop_assert!((got - exact).abs() <= exact * ERROR_PERCENT / 100.0, "{got} {exact}");
            prop_assert_eq!(merged, h);
        }
    }
}
