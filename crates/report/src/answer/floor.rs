//! What the model has to read and to compute in a step, and the peaks of the GPU -> the least time
//! that a step can take.

use super::steps::Steps;
use super::why_no_numbers;
use stage2_model::{Absent, Figure, Floor, ModelUse, Peaks, Slowdown, StageUtilisation};

/// `numbers` are those of one instance of the stage.
pub(super) fn of(
    used: Option<&ModelUse>,
    numbers: Option<&StageUtilisation>,
    steps: Option<&Steps>,
    slowdown: Option<&Slowdown>,
) -> Floor {
    let (Some(used), Some(numbers)) = (used, numbers) else {
        let none = || Figure::Absent(why_no_numbers(used));
        return Floor {
            memory_ns: none(),
            compute_ns: none(),
            floor_ns: none(),
            distance: none(),
            baseline_distance: None,
        };
    };
    // Without steps that are told apart, a step is an instance.
    let per_instance = Figure::of(steps.map_or(1.0, |steps| steps.per_instance));
    let peaks = used.peaks.as_ref();
    let bandwidth = peaks.and_then(Peaks::bytes_per_s).ok_or(Absent::NoBandwidth);
    let peak = match used.numbers.precision {
        Some(precision) => {
            let peak = peaks.and_then(|peaks| peaks.flops_per_s(precision));
            peak.ok_or(Absent::NoPeak { precision })
        }
        None => Err(why_no_numbers(Some(used))),
    };
    let time = |work: &Figure, rate: Result<f64, Absent>, of: &str| {
        let of_step = work.over(&per_instance, "number of steps");
        of_step.over(&rate.into(), of).map(|s| s * 1e9)
    };
    let memory_ns = time(&numbers.bytes, bandwidth, "bandwidth");
    let compute_ns = time(&numbers.flops, peak, "peak");
    let floor_ns = match (memory_ns.value(), compute_ns.value()) {
        (Some(memory), Some(compute)) => Figure::of(memory.max(compute)),
        (Some(_), None) => memory_ns.clone(),
        (None, _) => compute_ns.clone(),
    };
    let p50_ns = steps.map(|steps| steps.times.p50_ns as f64).ok_or(Absent::NoStepTime);
    let distance = Figure::from(p50_ns).over(&floor_ns, "the least time");
    let ratio = slowdown.map(|slowdown| slowdown.ratio).filter(|ratio| *ratio > 0.0);
    let baseline_distance = distance.value().zip(ratio).map(|(times, ratio)| times / ratio);
    Floor { memory_ns, compute_ns, floor_ns, distance, baseline_distance }
}
