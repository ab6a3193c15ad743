//! Numbers -> how many there are, their sum, the extremes and the percentiles, in little memory.

use stage2_contract::stats::Histogram;
use stage2_contract::trace::varint::{Cursor, put};

/// Counts, sum and extremes are exact; percentiles are those of [`Histogram`], within
/// [`ERROR_PERCENT`](stage2_contract::stats::ERROR_PERCENT) and between the extremes. Two of them merge into what one
/// of all values would be.
///
/// An existing histogram and no DDSketch or t-digest: it is what the collector's table and the reports use, it
/// merges exactly whatever the order, and a value alone takes no memory on the heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    /// Empty as long as all values are one.
    histogram: Histogram,
}

impl Sketch {
    /// One value.
    pub fn of(value: u64) -> Self {
        let mut sketch = Self::default();
        sketch.add(value);
        sketch
    }

    /// Counts one value.
    pub fn add(&mut self, value: u64) {
        self.prepare(value, value);
        if self.min < self.max {
            self.histogram.add(value);
        }
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(value);
    }

    /// Counts everything that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.prepare(other.min, other.max);
        if self.min < self.max {
            match other.min == other.max {
                true => self.histogram.add_times(other.min, other.count),
                false => self.histogram.merge(&other.histogram),
            }
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Widens the extremes. Where the values are no longer all one, they go into the histogram.
    fn prepare(&mut self, min: u64, max: u64) {
        if self.count == 0 {
            (self.min, self.max) = (min, max);
            return;
        }
        let was_one = self.min == self.max;
        let only = self.min;
        (self.min, self.max) = (self.min.min(min), self.max.max(max));
        if was_one && self.min < self.max {
            self.histogram.add_times(only, self.count);
        }
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The smallest; 0 of none.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The largest; 0 of none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that `percent` of the values do not exceed; 0 of none.
    pub fn percentile(&self, percent: u64) -> u64 {
        self.histogram.percentile(percent).unwrap_or(self.min).clamp(self.min, self.max)
    }

    /// The middle value; of two the smaller one, as by the nearest rank everywhere; 0 of none.
    pub fn median(&self) -> u64 {
        if self.count == 2 { self.min } else { self.percentile(50) }
    }

    /// The value that the smallest one is compared with: the middle one, of two the larger one.
    pub fn usual(&self) -> u64 {
        if self.count == 2 { self.max } else { self.median() }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put(out, self.count);
        if self.count == 0 {
            return;
        }
        put(out, self.min);
        if self.count == 1 {
            return;
        }
        put(out, self.max - self.min);
        if self.min == self.max {
            return;
        }
        put(out, self.sum);
        let buckets = self.histogram.buckets();
        put(out, buckets.len() as u64);
        let mut before = 0;
        for &(bucket, count) in buckets {
            put(out, u64::from(bucket - before));
            put(out, count);
            before = bucket;
        }
    }

    pub(crate) fn get(c: &mut Cursor<'_>) -> Option<Self> {
        let count = c.u64()?;
        if count == 0 {
            return Some(Self::default());
        }
        let min = c.u64()?;
        let max = if count == 1 { min } else { min.checked_add(c.u64()?)? };
        if min == max {
            let sum = min.saturating_mul(count);
            return Some(Self { count, sum, min, max, histogram: Histogram::default() });
        }
        let sum = c.u64()?;
        let length = c.u64()?;
        let mut buckets = Vec::with_capacity(usize::try_from(length).ok()?.min(c.left()));
        let mut before = 0u16;
        for _ in 0..length {
            before = before.checked_add(u16::try_from(c.u64()?).ok()?)?;
            buckets.push((before, c.u64()?));
        }
        Some(Self { count, sum, min, max, histogram: Histogram::of_buckets(buckets)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Sketch {
        let mut sketch = Sketch::default();
        values.iter().for_each(|&value| sketch.add(value));
        sketch
    }

    #[test]
    fn parts_merge_into_the_whole_in_any_order_and_survive_the_file() {
        let values = [7, 7, 7, 1_000_000, 12, 0, 40_000, 7];
        let whole = of(&values);
        for at in 0..=values.len() {
            let (first, second) = values.split_at(at);
            let (mut a, mut b) = (of(first), of(second));
            a.merge(&of(second));
            b.merge(&of(first));
            assert_eq!((&a, &b), (&whole, &whole), "cut at {at}");
        }
        for sketch in [whole, of(&[]), of(&[5]), of(&[5, 5]), of(&[u64::MAX, 0])] {
            let mut bytes = Vec::new();
            sketch.put(&mut bytes);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(Sketch::get(&mut cursor), Some(sketch));
            assert_eq!(cursor.left(), 0);
        }
    }

    #[test]
    fn two_values_are_exact() {
        let two = of(&[1_000_123, 5_000_777]);
        assert_eq!((two.min(), two.median(), two.max()), (1_000_123, 1_000_123, 5_000_777));
        assert_eq!(two.usual(), 5_000_777);
        assert_eq!(of(&[9; 40]).percentile(99), 9);
    }

    #[test]
    fn what_no_sketch_writes_is_refused() {
        for bytes in [&[2u8, 5, 1, 11, 1, 0, 0][..], &[2, 5, 1, 11, 2, 1, 1, 0, 1], &[2, 5]] {
            assert_eq!(Sketch::get(&mut Cursor::new(bytes)), None, "{bytes:?}");
        }
    }
}
