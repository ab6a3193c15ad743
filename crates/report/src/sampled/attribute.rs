//! Samples, and who owns which time -> what each stage and each step read, wrote and computed.
//!
//! A sample at the edge of a window counts by the share of its time within. A sample that holds work
//! of several stages, or of none in addition to that of one, counts for no stage: its stage loses coverage.

use crate::sampled::store::{METRICS, Metric, Series};
use crate::sampled::windows::{ByPath, Owners, Window};
use stage2_model::{
    FULL_COVERAGE_PERCENT, Report, SampledCurve, SampledPoint, SampledRates, SampledStep,
    SampledSteps,
};
use stage2_read::trace::events::RangePath;

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
pub(super) fn stage_sums(
    series: &Series,
    owners: &Owners,
    beside: &[bool],
) -> (Vec<Sums>, Vec<bool>) {
    let mut sums = vec![Sums::default(); owners.stages.len()];
    for segment in &owners.segments {
        for (_, sums) in sums.iter_mut().enumerate().filter(|(stage, _)| segment.has(*stage)) {
            sums.window_ns += segment.end - segment.start;
        }
    }
    let mut contested = Vec::with_capacity(series.spans.len());
    let mut first = 0;
    for (at, &(start, end)) in series.spans.iter().enumerate() {
        while owners.segments.get(first).is_some_and(|segment| segment.end <= start) {
            first += 1;
        }
        let within = owners.segments.iter().skip(first).take_while(|segment| segment.start < end);
        let shared = beside.get(at).copied().unwrap_or(false)
            || within.clone().any(|segment| segment.owner().is_none());
        contested.push(shared);
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
/// get nothing: it is not known whose a sample is.
fn step_sums(series: &Series, windows: &[(Window, u32)], contested: &[bool]) -> Vec<Sums> {
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

const STEPS: usize = 256;

/// What the steps are of.
#[derive(Clone, Copy)]
pub(super) struct StepInputs<'o> {
    pub(super) report: &'o Report,
    pub(super) series: &'o Series,
    pub(super) labels: &'o [RangePath],
    pub(super) peak_bytes_per_s: Option<f64>,
}

/// The ranges within a stage that are its steps, or else its instances; and the path of these.
fn steps_of<'w>(
    report: &Report,
    stage: &str,
    instances: &'w [(Window, u32)],
    steps: &'w ByPath,
    labels: &[RangePath],
) -> Option<(String, &'w [(Window, u32)])> {
    let row = report.stages.iter().find(|row| row.stage == stage)?;
    let path = row.steps.as_ref().and_then(|steps| steps.times.path.as_deref()).unwrap_or(stage);
    let within = steps.iter().find(|(step, _)| label(labels, **step) == Some(path));
    let windows = within.map_or(instances, |(_, windows)| windows.as_slice());
    (path == stage || within.is_some()).then(|| (path.to_owned(), windows))
}

pub(super) fn steps(
    of: &StepInputs<'_>,
    stage: &str,
    instances: &[(Window, u32)],
    within: &ByPath,
    contested: &[bool],
) -> Option<SampledSteps> {
    let StepInputs { report, series, labels, peak_bytes_per_s } = *of;
    let (path, windows) = steps_of(report, stage, instances, within, labels)?;
    let sums = step_sums(series, windows, contested);
    let one = |(sums, (_, number)): (&Sums, &(Window, u32))| SampledStep {
        number: (*number).into(),
        gpu_window_ns: sums.window_ns,
        coverage_percent: sums.coverage_percent(),
        rates: sums.rates(peak_bytes_per_s),
    };
    let each: Vec<SampledStep> = sums.iter().zip(windows).map(one).collect();
    let is_covered = |step: &SampledStep| step.coverage_percent >= FULL_COVERAGE_PERCENT;
    let covered: Vec<&SampledStep> = each.iter().filter(|step| is_covered(step)).collect();
    // As of the step times of the stage: medians are of warm steps where there are any that are covered.
    let cold = cold_steps(report, stage);
    let is_warm = |step: &SampledStep| is_covered(step) && step.number >= cold;
    let median_at = median_step(&each, is_warm).or_else(|| median_step(&each, is_covered));
    let curve = median_at.and_then(|at| {
        let (window, number) = windows.get(at)?;
        curve(series, *window, contested, (*number).into())
    });
    let bytes = |rate: fn(&SampledStep) -> Option<f64>| {
        let of_step = |step: &&SampledStep| Some(rate(step)? * step.gpu_window_ns as f64 / 1e9);
        let warm: Vec<f64> =
            covered.iter().filter(|step| is_warm(step)).filter_map(of_step).collect();
        median(warm).or_else(|| median(covered.iter().filter_map(of_step).collect()))
    };
    let every = each.len().div_ceil(STEPS).max(1);
    Some(SampledSteps {
        path,
        median: curve,
        count: each.len() as u64,
        covered: covered.len() as u64,
        dram_read_bytes: bytes(|step| step.rates.dram_read_bytes_per_s),
        dram_write_bytes: bytes(|step| step.rates.dram_write_bytes_per_s),
        each: each.into_iter().step_by(every).collect(),
    })
}

/// Steps of a stage that come in its first, cold instance, or of its only instance the first one.
fn cold_steps(report: &Report, stage: &str) -> u64 {
    let row = report.stages.iter().find(|row| row.stage == stage);
    let steps = row.and_then(|row| row.steps.as_ref()).filter(|steps| steps.warm);
    steps.map_or(1, |steps| steps.per_instance.max(1.0).round() as u64)
}

/// The middle value; the lower one of the middle two.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// A path as reports name it.
pub(super) fn label(labels: &[RangePath], path: u32) -> Option<&str> {
    labels.get(path as usize).map(|path| path.label.as_str())
}

const POINTS: u64 = 240;

/// The step whose window is the middle one of those that `is_covered`; its place among them.
fn median_step(steps: &[SampledStep], is_covered: impl Fn(&SampledStep) -> bool) -> Option<usize> {
    let covered = steps.iter().enumerate().filter(|(_, step)| is_covered(step));
    let mut covered: Vec<(u64, usize)> =
        covered.map(|(at, step)| (step.gpu_window_ns, at)).collect();
    covered.sort_unstable();
    covered.get(covered.len().checked_sub(1)? / 2).map(|(_, at)| *at)
}

/// The curve over `window`. A point is at least as long as a sample; one without samples is left out.
fn curve(
    series: &Series,
    (start, end): Window,
    contested: &[bool],
    number: u64,
) -> Option<SampledCurve> {
    let shortest = series.interval_ns.max(1);
    let each = ((end - start) / POINTS).max(shortest).max(1);
    let mut points: Vec<(u64, Sums)> = Vec::new();
    let mut at = series.first_after(start);
    while let Some(&(from, to)) = series.spans.get(at).filter(|(from, _)| *from < end) {
        // A sample belongs to the point that its middle is in, so that each shows whole samples.
        let (inside, outside) = (from.max(start), to.min(end));
        let place = (inside + (outside - inside) / 2 - start) / each;
        if contested.get(at) == Some(&false) {
            if points.last().is_none_or(|(last, _)| *last != place) {
                points.push((place, Sums::default()));
            }
            if let Some((_, sums)) = points.last_mut() {
                let part_ns = outside - inside;
                sums.add(&series.metrics, series.sample(at), part_ns, to - from);
            }
        }
        at += 1;
    }
    let point = |(place, sums): (u64, Sums)| {
        let rates = sums.rates(None);
        SampledPoint {
            start_ns: place * each,
            length_ns: each.min(end - start - (place * each).min(end - start)),
            dram_bytes_per_s: (rates.dram_read_bytes_per_s.zip(rates.dram_write_bytes_per_s))
                .map(|(read, written)| read + written),
            tensor_percent: rates.tensor_percent,
            sm_active_percent: rates.sm_active_percent,
        }
    };
    let points: Vec<SampledPoint> = points.into_iter().map(point).collect();
    (!points.is_empty()).then(|| SampledCurve { number, length_ns: end - start, points })
}
