//! Counter records of a trace file -> the samples of each GPU, packed, checked and in the order of time.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::sampled::windows::Parts;
use stage2_contract::trace::counters::{self, Names};
use stage2_contract::trace::{CounterSamples, CounterSet};
use strum::{EnumCount, VariantArray};

/// Values that are kept of a file; the times of a sample count as [`TIMES`] of them. With 12 metrics, a
/// million samples in 67 MB.
pub(super) const MAX_VALUES: usize = 1 << 24;
/// The start and the end of a sample take as much room as so many values.
const TIMES: usize = size_of::<(u64, u64)>() / size_of::<f32>();
/// Metrics of a set that are kept.
const MAX_METRICS: usize = 64;
/// GPUs, and lengths that their samples may have had, of one file.
const MAX_SERIES: usize = 64;
const MAX_SETS: usize = 1024;
/// Largest value: no counter of any GPU counts that much in a sample.
const LARGEST: f64 = 1e18;
/// Largest percentage: rounding in the trace file and boost clocks explain less.
const LARGEST_PERCENT: f64 = 120.0;

#[derive(Debug, Default)]
pub(super) struct Store {
    /// Index in `series` of each set.
    sets: BTreeMap<u32, usize>,
    /// Samples of one GPU and one list of metrics.
    pub(super) series: Vec<Series>,
    /// Samples of sets that no record defines.
    pub(super) of_unknown_sets: u64,
    values: usize,
    limit: usize,
}

/// Samples of one GPU, all with the same metrics.
#[derive(Debug, Default)]
pub(super) struct Series {
    /// GPU as the process numbers them.
    pub(super) device: u32,
    pub(super) interval_ns: u64,
    pub(super) names: Vec<String>,
    /// Which of the metrics stand at which place of a sample; others are not kept.
    pub(super) metrics: Vec<Metric>,
    /// Places of `metrics` in the values of a record.
    columns: Vec<usize>,
    /// Start and end, ns of the GPU's clock.
    pub(super) spans: Vec<(u64, u64)>,
    /// Values of `metrics`, sample by sample; NaN: not known.
    pub(super) values: Vec<f32>,
    /// Samples that hold none of the metrics that a report reads.
    pub(super) of_other_metrics: u64,
    /// Samples that may hold work without a record.
    pub(super) unrecorded: u64,
    pub(super) unusable_samples: u64,
    pub(super) unusable_values: u64,
    pub(super) left_out: u64,
}

impl Store {
    pub(super) fn with_limit(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// A set that goes on for the same GPU with the same metrics adds to the same series, whatever its
    /// interval: that may grow while a program runs.
    pub(super) fn define(&mut self, set: &CounterSet) {
        let same = |series: &Series| series.device == set.device && series.names == set.metrics;
        let found = self.series.iter().position(same);
        // A file of the collector's has one for each GPU. Samples of others are counted as unknown.
        if found.is_none() && self.series.len() >= MAX_SERIES || self.sets.len() >= MAX_SETS {
            return;
        }
        let at = found.unwrap_or_else(|| {
            self.series.push(Series::new(set));
            self.series.len() - 1
        });
        if let Some(series) = self.series.get_mut(at) {
            series.interval_ns = series.interval_ns.max(set.interval_ns);
        }
        self.sets.insert(set.id, at);
    }

    pub(super) fn add(&mut self, samples: &CounterSamples) {
        let found = self.sets.get(&samples.set).and_then(|at| self.series.get_mut(*at));
        let Some(series) = found else {
            self.of_unknown_sets += samples.spans.len() as u64;
            return;
        };
        let room = self.limit.saturating_sub(self.values) / (series.metrics.len() + TIMES);
        self.values += series.add(samples, room);
    }

    /// Puts the samples in order; those that lie on top of an earlier one are left out.
    pub(super) fn finish(mut self) -> Self {
        self.series.iter_mut().for_each(Series::sort);
        self
    }
}

impl Series {
    fn new(set: &CounterSet) -> Self {
        let names = set.metrics.iter().take(MAX_METRICS);
        let mut metrics = Vec::new();
        let mut columns = Vec::new();
        for (column, name) in names.enumerate() {
            if let Some(metric) = Metric::of(name)
                && !metrics.contains(&metric)
            {
                metrics.push(metric);
                columns.push(column);
            }
        }
        Self {
            device: set.device,
            interval_ns: set.interval_ns,
            names: set.metrics.clone(),
            metrics,
            columns,
            ..Self::default()
        }
    }

    /// Adds at most `room` samples; gives how many values they take the room of.
    fn add(&mut self, samples: &CounterSamples, room: usize) -> usize {
        let width = self.names.len();
        let count = samples.spans.len();
        if width == 0 || count.checked_mul(width) != Some(samples.values.len()) {
            self.unusable_samples += count as u64;
            return 0;
        }
        if self.metrics.is_empty() {
            self.of_other_metrics += count as u64;
            return 0;
        }
        let before = self.spans.len();
        let mut room = room;
        for (span, values) in samples.spans.iter().zip(samples.values.chunks_exact(width)) {
            let (start, end) = (span.0.0, span.1.0);
            if start == 0 || end <= start {
                self.unusable_samples += 1;
            } else if room == 0 {
                self.left_out += 1;
            } else {
                room -= 1;
                self.spans.push((start, end));
                for (metric, column) in self.metrics.iter().zip(&self.columns) {
                    let value = values.get(*column).copied().unwrap_or(f64::NAN);
                    let most = if metric.is_percent() { LARGEST_PERCENT } else { LARGEST };
                    let usable = (0.0..=most).contains(&value);
                    self.unusable_values += u64::from(!usable && !value.is_nan());
                    self.values.push(if usable { value as f32 } else { f32::NAN });
                }
            }
        }
        (self.spans.len() - before) * (self.metrics.len() + TIMES)
    }

    fn sort(&mut self) {
        if !self.spans.is_sorted() {
            let mut order: Vec<u32> =
                (0..u32::try_from(self.spans.len()).unwrap_or(u32::MAX)).collect();
            order.sort_by_key(|&at| self.spans.get(at as usize).copied());
            let order = || order.iter().map(|&at| at as usize);
            self.values = order().flat_map(|at| self.sample(at).iter().copied()).collect();
            self.spans = order().filter_map(|at| self.spans.get(at).copied()).collect();
        }
        let (mut last, mut apart) = (0, Vec::with_capacity(self.spans.len()));
        for &(start, end) in &self.spans {
            apart.push(start >= last);
            last = if start >= last { end } else { last };
        }
        let overlapping = apart.iter().filter(|apart| !**apart).count();
        if overlapping > 0 {
            self.unusable_samples += overlapping as u64;
            self.retain(&apart);
        }
    }

    /// Leaves out the samples that are not wholly within one of `parts`.
    pub(super) fn only_within(&mut self, parts: &Parts) {
        let within: Vec<bool> =
            self.spans.iter().map(|&(start, end)| parts.hold(start, end)).collect();
        self.unrecorded += within.iter().filter(|within| !**within).count() as u64;
        self.retain(&within);
    }

    fn retain(&mut self, marked: &[bool]) {
        let width = self.metrics.len().max(1);
        let mut kept = marked.iter();
        self.spans.retain(|_| kept.next().copied().unwrap_or(false));
        let mut at = 0;
        self.values.retain(|_| {
            let kept = marked.get(at / width).copied().unwrap_or(false);
            at += 1;
            kept
        });
    }

    /// The values of a sample, in the order of `metrics`.
    pub(super) fn sample(&self, at: usize) -> &[f32] {
        let width = self.metrics.len();
        self.values.get(at * width..(at + 1) * width).unwrap_or_default()
    }

    /// Time that the samples cover, ns.
    pub(super) fn sampled_ns(&self) -> u64 {
        self.spans.iter().fold(0, |sum: u64, (start, end)| sum.saturating_add(end - start))
    }

    /// The first sample that ends after `at`.
    pub(super) fn first_after(&self, at: u64) -> usize {
        self.spans.partition_point(|&(_, end)| end <= at)
    }

    /// The samples that hold some of the time from `start` to `end`. `near` is where the last ones began:
    /// work comes in about the order of time, and a search through all samples for each takes long.
    pub(super) fn during(&self, start: u64, end: u64, near: &mut usize) -> Range<usize> {
        let ends_before = |at: usize| self.spans.get(at).is_some_and(|&(_, end)| end <= start);
        let is_behind = *near == 0 || ends_before(*near - 1);
        let first = (*near..*near + NEAR).find(|at| is_behind && !ends_before(*at));
        let first = first.unwrap_or_else(|| self.first_after(start));
        *near = first;
        let starts_before = |at: usize| self.spans.get(at).is_some_and(|&(from, _)| from < end);
        let last = (first..first + NEAR).find(|at| !starts_before(*at));
        let last = last.unwrap_or_else(|| self.spans.partition_point(|&(from, _)| from < end));
        first..last.max(first)
    }
}

/// Samples that are looked at one by one before all are searched.
const NEAR: usize = 16;

/// What a report knows to read.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::EnumCount, strum::VariantArray,
)]
pub(super) enum Metric {
    DramRead,
    DramWrite,
    L2Sectors,
    PcieRead,
    PcieWrite,
    NvlinkReceived,
    NvlinkSent,
    Tensor,
    SmActive,
    Issue,
}

/// Metrics that a report reads.
pub(super) const METRICS: usize = Metric::COUNT;

/// Bytes of a sector of the L2 cache.
const SECTOR_BYTES: f64 = 32.0;

impl Metric {
    /// By CUPTI's name. Other forms of the same counter (its mean by unit, its maximum) are others.
    pub(super) fn of(name: &str) -> Option<Self> {
        let is_it = |metric: &Self| metric.names().iter().any(|n| n.to_bytes() == name.as_bytes());
        Self::VARIANTS.iter().copied().find(is_it)
    }

    /// CUPTI's names, of which a chip measures one.
    fn names(self) -> Names {
        match self {
            Self::DramRead => counters::DRAM_READ,
            Self::DramWrite => counters::DRAM_WRITE,
            Self::L2Sectors => counters::L2_SECTORS,
            Self::PcieRead => counters::PCIE_READ,
            Self::PcieWrite => counters::PCIE_WRITE,
            Self::NvlinkReceived => counters::NVLINK_RECEIVED,
            Self::NvlinkSent => counters::NVLINK_SENT,
            Self::Tensor => counters::TENSOR,
            Self::SmActive => counters::SM_ACTIVE,
            Self::Issue => counters::ISSUE,
        }
    }

    /// A share of the time of a sample; else an amount that grows with it.
    pub(super) fn is_percent(self) -> bool {
        matches!(self, Self::Tensor | Self::SmActive | Self::Issue)
    }

    /// What one of what it counts stands for: bytes, or percent.
    pub(super) fn unit(self) -> f64 {
        if self == Self::L2Sectors { SECTOR_BYTES } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forms_whose_unit_is_known_are_read() {
        for (name, metric) in [
            ("dram__bytes_read.sum", Some(Metric::DramRead)),
            ("dram__bytes_read.sum.per_second", None),
            ("dram__bytes_read.avg.pct_of_peak_sustained_elapsed", None),
            ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", Some(Metric::SmActive)),
            ("sm__cycles_active.sum", None),
            ("gpc__cycles_elapsed.max", None),
            ("", None),
        ] {
            assert_eq!(Metric::of(name), metric, "{name}");
        }
    }

    #[test]
    fn each_name_says_the_unit_in_which_it_is_read() {
        for metric in Metric::VARIANTS {
            for name in metric.names() {
                let name = name.to_str().expect("ASCII");
                assert_eq!(Metric::of(name), Some(*metric), "{name}");
                let percent = name.ends_with(".avg.pct_of_peak_sustained_elapsed");
                assert_eq!((metric.is_percent(), !percent), (percent, name.ends_with(".sum")));
            }
        }
    }
}
