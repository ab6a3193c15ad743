//! The samples of one step -> a bounded number of points over its window on the GPU.

use super::attribute::Sums;
use super::store::Series;
use super::windows::Window;
use stage2_model::{SampledCurve, SampledPoint, SampledStep};

/// Points of a curve.
const POINTS: u64 = 240;

/// The step whose window is the middle one of those that `is_covered`; its place among them.
pub(super) fn median_step(
    steps: &[SampledStep],
    is_covered: impl Fn(&SampledStep) -> bool,
) -> Option<usize> {
    let covered = steps.iter().enumerate().filter(|(_, step)| is_covered(step));
    let mut covered: Vec<(u64, usize)> =
        covered.map(|(at, step)| (step.gpu_window_ns, at)).collect();
    covered.sort_unstable();
    covered.get(covered.len().checked_sub(1)? / 2).map(|(_, at)| *at)
}

/// The curve over `window`. A point is at least as long as a sample; one without samples is left out.
pub(super) fn curve(
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
            dram_bytes_per_s: match (rates.dram_read_bytes_per_s, rates.dram_write_bytes_per_s) {
                (Some(read), Some(written)) => Some(read + written),
                _ => None,
            },
            tensor_percent: rates.tensor_percent,
            sm_active_percent: rates.sm_active_percent,
        }
    };
    let points: Vec<SampledPoint> = points.into_iter().map(point).collect();
    (!points.is_empty()).then(|| SampledCurve { number, length_ns: end - start, points })
}
