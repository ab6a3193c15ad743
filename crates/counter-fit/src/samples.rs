//! The counter samples of one device: times and values, checked as they come.

/// The largest number of samples that are kept: 28 minutes at 100 us.
const MAX_SAMPLES: usize = 16 << 20;

/// The samples of one device, in the order of time.
///
/// A sample covers the time from `start_ns` up to `end_ns`, and its values are the amounts that the
/// device's additive counters gained within it (bytes, instructions, sectors; not percentages).
#[derive(Debug, Clone)]
pub struct Samples {
    counters: usize,
    starts: Vec<u64>,
    ends: Vec<u64>,
    values: Vec<f32>,
}

impl Samples {
    /// No samples yet, of so many additive counters.
    pub fn new(counters: usize) -> Self {
        Self { counters, starts: Vec::new(), ends: Vec::new(), values: Vec::new() }
    }

    /// Add the next sample: times in ns, one value for each counter, NaN where it is missing.
    ///
    /// Left out are samples that do not end after their start or that start before the end of the one
    /// before, and those behind the first 16 Mi. Values that are infinite or negative count as missing.
    pub fn push(&mut self, start_ns: u64, end_ns: u64, values: &[f32]) {
        let overlaps = self.ends.last().is_some_and(|&last| start_ns < last);
        if end_ns <= start_ns || overlaps || self.len() >= MAX_SAMPLES {
            return;
        }
        self.starts.push(start_ns);
        self.ends.push(end_ns);
        let all = values.iter().copied().chain(std::iter::repeat(f32::NAN)).take(self.counters);
        let usable =
            |value: f32| if (0.0..f32::INFINITY).contains(&value) { value } else { f32::NAN };
        self.values.extend(all.map(usable));
    }

    pub(crate) fn counters(&self) -> usize {
        self.counters
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// How long a sample is on average, in ns; 0 without samples.
    pub(crate) fn mean_ns(&self) -> u64 {
        let all: u64 = self.starts.iter().zip(&self.ends).map(|(start, end)| end - start).sum();
        all / (self.len() as u64).max(1)
    }

    pub(crate) fn start_ns(&self, row: usize) -> u64 {
        self.starts[row]
    }

    pub(crate) fn end_ns(&self, row: usize) -> u64 {
        self.ends[row]
    }

    pub(crate) fn seconds(&self, row: usize) -> f64 {
        (self.ends[row] - self.starts[row]) as f64 * 1e-9
    }

    pub(crate) fn values(&self, row: usize) -> &[f32] {
        &self.values[row * self.counters..][..self.counters]
    }

    /// The first sample that ends after `time_ns`; `near` is where to look first.
    pub(crate) fn first_after(&self, time_ns: u64, near: usize) -> usize {
        for row in near..(near + 2).min(self.len()) {
            if self.ends[row] > time_ns && (row == 0 || self.ends[row - 1] <= time_ns) {
                return row;
            }
        }
        self.ends.partition_point(|&end| end <= time_ns)
    }

    /// The counters, grouped so that those of one group are missing from the same samples. The
    /// counters that every sample lacks are in none. Over `limit` groups, the emptiest are left out.
    pub(crate) fn patterns(&self, limit: usize) -> Vec<Vec<usize>> {
        // Two sums that depend on the positions of the present values tell the patterns apart.
        let mut marks = vec![(0_u64, 0_u64); self.counters];
        for row in 0..self.len() {
            let mark = (row as u64 + 1)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(23)
                .wrapping_mul(0xD6E8_FEB8_6659_FD93);
            for (counter, value) in self.values(row).iter().enumerate() {
                if !value.is_nan() {
                    marks[counter].0 += 1;
                    marks[counter].1 = marks[counter].1.wrapping_add(mark);
                }
            }
        }
        let mut groups: Vec<((u64, u64), Vec<usize>)> = Vec::new();
        for (counter, &mark) in marks.iter().enumerate().filter(|(_, mark)| mark.0 > 0) {
            match groups.iter_mut().find(|(of, _)| *of == mark) {
                Some((_, members)) => members.push(counter),
                None => groups.push((mark, vec![counter])),
            }
        }
        groups.sort_by_key(|(mark, members)| (std::cmp::Reverse(mark.0), members[0]));
        groups.truncate(limit);
        groups.into_iter().map(|(_, members)| members).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_samples_are_left_out_and_unusable_values_are_missing() {
        let mut samples = Samples::new(2);
        for (start, end, values) in [
            (100, 200, [1.0, f32::NAN]),
            (50, 150, [1.0, 1.0]),
            (300, 300, [1.0, 1.0]),
            (400, 300, [1.0, 1.0]),
            (300, u64::MAX, [f32::INFINITY, -1.0]),
        ] {
            samples.push(start, end, &values);
        }
        assert_eq!(samples.starts, [100, 300]);
        assert_eq!(samples.ends, [200, u64::MAX]);
        let known: Vec<_> = samples.values.iter().map(|value| !value.is_nan()).collect();
        assert_eq!((known, samples.values[0]), (vec![true, false, false, false], 1.0));
        let mut samples = Samples::new(2);
        samples.push(0, 1, &[1.0]);
        samples.push(1, 2, &[2.0, 3.0, 4.0]);
        assert!(samples.values(0)[1].is_nan(), "{samples:?}");
        assert_eq!(samples.values(1), [2.0, 3.0]);
    }
}
