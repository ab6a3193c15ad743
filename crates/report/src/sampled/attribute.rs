//! Samples, and who owns which time -> what each stage and each step read, wrote and computed.
//!
//! A sample at the edge of a window counts by the share of its time within. A sample that holds work
//! of several stages, or of none beside that of one, counts for nobody: its stage loses coverage.

use super::metric::{METRICS, Metric};
use super::store::Series;
use super::windows::{Owners, Window};
use stage2_model::{SampledRates, SampledStep};

/// What samples add up to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Time of the windows, ns.
    pub(super) window_ns: u64,
    /// Time in samples that count, ns.
    pub(super) covered_ns: u64,
    /// Time in samples that several stages share, ns.
    pub(super) contested_ns: u64,
    /// Of each metric: amounts, or shares times ns; and the time in which it is known, ns.
    of: [(f64, f64); METRICS],
}

impl Sums {
    pub(super) fn add(&mut self, metrics: &[Metric], values: &[f32], part_ns: u64, sample_ns: u64) {
        self.covered_ns += part_ns;
        let (part, whole) = (part_ns as f64, sample_ns as f64);
        for (metric, value) in metrics.iter().zip(values).filter(|(_, value)| !value.is_nan()) {
            let Some((amount, ns)) = self.of.get_mut(*metric as usize) else { continue };
            let value = f64::from(*value) * metric.unit();
            *amount += if metric.is_percent() { value * part } else { value * part / whole };
            *ns += part;
        }
    }

    /// Units per second, or percent of the time; nothing where it was not sampled.
    pub(super) fn rate(&self, metric: Metric) -> Option<f64> {
        let (amount, ns) = *self.of.get(metric as usize)?;
        let rate = amount / ns * if metric.is_percent() { 1.0 } else { 1e9 };
        (ns > 0.0 && rate.is_finite()).then_some(rate)
    }

    pub(super) fn rates(&self, peak_bytes_per_s: Option<f64>) -> SampledRates {
        let (read, written) = (self.rate(Metric::DramRead), self.rate(Metric::DramWrite));
        let both = read.zip(written).map(|(read, written)| read + written);
        SampledRates {
            dram_read_bytes_per_s: read,
            dram_write_bytes_per_s: written,
            dram_percent: both.zip(peak_bytes_per_s).map(|(rate, peak)| rate / peak * 100.0),
            tensor_percent: self.rate(Metric::Tensor),
            sm_active_percent: self.rate(Metric::SmActive),
            issue_percent: self.rate(Metric::Issue),
            l2_bytes_per_s: self.rate(Metric::L2Sectors),
            pcie_read_bytes_per_s: self.rate(Metric::PcieRead),
            pcie_write_bytes_per_s: self.rate(Metric::PcieWrite),
            nvlink_received_bytes_per_s: self.rate(Metric::NvlinkReceived),
            nvlink_sent_bytes_per_s: self.rate(Metric::NvlinkSent),
        }
    }

    pub(super) fn coverage_percent(&self) -> f64 {
        percent(self.covered_ns, self.window_ns)
    }
}

/// `part` of `whole` in percent; 0 of nothing.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

/// The sums of each stage of `owners`. `beside` marks samples that hold work of no stage while a
/// stage's window is open. Gives also which samples count for nobody.
pub(super) fn stages(series: &Series, owners: &Owners, beside: &[bool]) -> (Vec<Sums>, Vec<bool>) {
    let mut sums = vec![Sums::default(); owners.stages.len()];
    for segment in &owners.segments {
        for (_, sums) in sums.iter_mut().enumerate().filter(|(stage, _)| segment.has(*stage)) {
            sums.window_ns += segment.end - segment.start;
        }
    }
    let mut contested = vec![false; series.spans.len()];
    let mut first = 0;
    for (at, &(start, end)) in series.spans.iter().enumerate() {
        while owners.segments.get(first).is_some_and(|segment| segment.end <= start) {
            first += 1;
        }
        let within = owners.segments.iter().skip(first).take_while(|segment| segment.start < end);
        let shared = beside.get(at).copied().unwrap_or(false)
            || within.clone().any(|segment| segment.owner().is_none());
        if let Some(contested) = contested.get_mut(at) {
            *contested = shared;
        }
        for segment in within {
            let part_ns = segment.end.min(end) - segment.start.max(start);
            if shared {
                for (_, sums) in
                    sums.iter_mut().enumerate().filter(|(stage, _)| segment.has(*stage))
                {
                    sums.contested_ns += part_ns;
                }
            } else if let Some(sums) = segment.owner().and_then(|owner| sums.get_mut(owner)) {
                sums.add(&series.metrics, series.sample(at), part_ns, end - start);
            }
        }
    }
    (sums, contested)
}

/// The sums of each of `windows`, which are in the order of their start. Those that overlap another one
/// get nothing: nobody knows whose a sample is.
pub(super) fn steps(series: &Series, windows: &[(Window, u32)], contested: &[bool]) -> Vec<Sums> {
    let mut latest = 0;
    let mut of_steps = Vec::with_capacity(windows.len());
    for (at, &((start, end), _)) in windows.iter().enumerate() {
        let mut sums = Sums { window_ns: end - start, ..Sums::default() };
        let next = windows.get(at + 1).map_or(u64::MAX, |((start, _), _)| *start);
        if start >= latest && next >= end {
            let mut sample = series.first_after(start);
            while let Some(&(from, to)) = series.spans.get(sample).filter(|(from, _)| *from < end) {
                let part_ns = to.min(end) - from.max(start);
                match contested.get(sample) {
                    Some(false) => {
                        sums.add(&series.metrics, series.sample(sample), part_ns, to - from);
                    }
                    _ => sums.contested_ns += part_ns,
                }
                sample += 1;
            }
        }
        latest = latest.max(end);
        of_steps.push(sums);
    }
    of_steps
}

/// A step as reports have it.
pub(super) fn step(number: u32, sums: &Sums, peak_bytes_per_s: Option<f64>) -> SampledStep {
    SampledStep {
        number: number.into(),
        gpu_window_ns: sums.window_ns,
        coverage_percent: sums.coverage_percent(),
        rates: sums.rates(peak_bytes_per_s),
    }
}
