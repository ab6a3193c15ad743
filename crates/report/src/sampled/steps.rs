//! The samples of a stage -> those of its steps one by one.

use super::attribute;
use super::curve::{curve, median_step};
use super::store::Series;
use super::windows::{ByPath, Window};
use stage2_model::{FULL_COVERAGE_PERCENT, Report, SampledStep, SampledSteps};
use stage2_read::trace::events::RangePath;

/// Steps of a stage that a report lists.
const STEPS: usize = 256;

/// What the steps are of.
#[derive(Clone, Copy)]
pub(super) struct Of<'o> {
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

/// The steps of a stage.
pub(super) fn steps(
    of: &Of<'_>,
    stage: &str,
    instances: &[(Window, u32)],
    within: &ByPath,
    contested: &[bool],
) -> Option<SampledSteps> {
    let Of { report, series, labels, peak_bytes_per_s } = *of;
    let (path, windows) = steps_of(report, stage, instances, within, labels)?;
    let sums = attribute::steps(series, windows, contested);
    let one = |(sums, (_, number)): (&_, &(Window, u32))| {
        attribute::step(*number, sums, peak_bytes_per_s)
    };
    let each: Vec<SampledStep> = sums.iter().zip(windows).map(one).collect();
    let is_covered = |step: &SampledStep| step.coverage_percent >= FULL_COVERAGE_PERCENT;
    let covered: Vec<&SampledStep> = each.iter().filter(|step| is_covered(step)).collect();
    let curve = median_step(&each, is_covered).and_then(|at| {
        let (window, number) = windows.get(at)?;
        curve(series, *window, contested, (*number).into())
    });
    let bytes = |rate: fn(&SampledStep) -> Option<f64>| {
        let of_step = |step: &&SampledStep| Some(rate(step)? * step.gpu_window_ns as f64 / 1e9);
        median(covered.iter().filter_map(of_step).collect())
    };
    Some(SampledSteps {
        path,
        median: curve,
        count: each.len() as u64,
        covered: covered.len() as u64,
        dram_read_bytes: bytes(|step| step.rates.dram_read_bytes_per_s),
        dram_write_bytes: bytes(|step| step.rates.dram_write_bytes_per_s),
        each: {
            let every = each.len().div_ceil(STEPS).max(1);
            each.into_iter().step_by(every).collect()
        },
    })
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
