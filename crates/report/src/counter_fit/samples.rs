//! The counter samples of one device: times and values, checked as they come.

use crate::counter_fit::FitError;

/// The largest number of counters in one fit.
pub const MAX_COUNTERS: usize = 32;

/// The largest number of samples that are kept: 28 minutes at 100 us. Those that follow are counted.
pub const MAX_SAMPLES: usize = 16 << 20;

/// What was wrong with samples that were given to [`Samples::push`]. Each is a number of samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Samples that are kept.
    pub kept: u64,
    /// Samples that end before they start, or where they start. They are left out.
    pub empty: u64,
    /// Samples that start before the end of the one before them. They are left out.
    pub out_of_order: u64,
    /// Samples after the first [`MAX_SAMPLES`]. They are left out.
    pub over_limit: u64,
    /// Single values that are infinite or negative. They count as missing.
    pub invalid_values: u64,
    /// Spans of time between two kept samples that no sample covers.
    pub gaps: u64,
}

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
    counts: SampleCounts,
}

impl Samples {
    /// No samples yet, of so many additive counters.
    ///
    /// # Errors
    /// [`FitError::TooManyCounters`] over [`MAX_COUNTERS`].
    pub fn new(counters: usize) -> Result<Self, FitError> {
        if counters > MAX_COUNTERS {
            return Err(FitError::TooManyCounters { found: counters, limit: MAX_COUNTERS });
        }
        let counts = SampleCounts::default();
        Ok(Self { counters, starts: Vec::new(), ends: Vec::new(), values: Vec::new(), counts })
    }

    /// Add the next sample: times in ns, one value for each counter, NaN where it is missing.
    ///
    /// A sample that cannot be used is left out and counted in [`Samples::counts`].
    ///
    /// # Errors
    /// [`FitError::WrongWidth`] if the number of values is not the number of counters.
    pub fn push(&mut self, start_ns: u64, end_ns: u64, values: &[f32]) -> Result<(), FitError> {
        if values.len() != self.counters {
            return Err(FitError::WrongWidth { expected: self.counters, found: values.len() });
        }
        if end_ns <= start_ns {
            self.counts.empty += 1;
            return Ok(());
        }
        match self.ends.last() {
            Some(&last) if start_ns < last => {
                self.counts.out_of_order += 1;
                return Ok(());
            }
            _ if self.starts.len() >= MAX_SAMPLES => {
                self.counts.over_limit += 1;
                return Ok(());
            }
            Some(&last) if start_ns > last => self.counts.gaps += 1,
            _ => {}
        }
        self.counts.kept += 1;
        self.starts.push(start_ns);
        self.ends.push(end_ns);
        for &value in values {
            let valid = value.is_nan() || (value.is_finite() && value >= 0.0);
            self.counts.invalid_values += u64::from(!valid);
            self.values.push(if valid { value } else { f32::NAN });
        }
        Ok(())
    }

    /// How many samples were kept, and what was wrong with the others.
    pub fn counts(&self) -> SampleCounts {
        self.counts
    }

    /// The number of additive counters.
    pub fn counters(&self) -> usize {
        self.counters
    }

    /// The number of samples that are kept.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether no sample is kept.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
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
