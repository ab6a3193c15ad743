//! Counters of a kernel, its undisturbed duration and the peaks -> intensity, rates and what bounds it.
//!
//! Counters are taken while the profiler replays the kernel, so their own duration is not that of
//! the run: rates are counts over the undisturbed duration, and the profiler's duration only checks
//! that both saw the same kernel.

use stage2_model::{Bound, CounterRow, Flops, Peaks, Precision, RATE_SHARE_MOST, Roofline};
use stage2_read::ncu::load::KernelCounters;

/// Below this share of both peaks, percent, neither compute nor memory is what holds a kernel up.
pub const LATENCY_BELOW_PERCENT: f64 = 60.0;
/// Shares that differ by no more than this, percentage points, are balanced.
pub const BALANCED_WITHIN_POINTS: f64 = 10.0;
/// Profiler's duration / undisturbed duration above which rates are to be read with care: cold
/// caches alone double the time of kernels of 1 us. What is too short is judged in [`super::representativeness`].
pub const DURATION_RATIO_MOST: f64 = 2.0;

/// The rule of [`Bound`] in words, with its thresholds.
pub fn rule() -> String {
    format!(
        "latency: compute (SM) and memory throughput are both below {LATENCY_BELOW_PERCENT} % of \
         their peaks; else balanced: they differ by {BALANCED_WITHIN_POINTS} percentage points or \
         less; else compute or memory, whichever is higher. Each throughput is the larger of the \
         profiler's, taken with cold caches, and of FLOP/s (DRAM bytes/s) of the undisturbed \
         duration against the dense peak."
    )
}

/// Units that work side by side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pipe {
    Fp64,
    Vector,
    Tensor,
}

/// One kind of operation of a launch.
struct Operations {
    name: &'static str,
    /// None: not measured.
    count: Option<f64>,
    /// The peak that they are held against.
    precision: Precision,
    /// The unit that does them.
    pipe: Pipe,
}

/// Every kind of operation. Integers are no FLOPs: their count is never known.
fn operations(flops: &Flops) -> [Operations; 10] {
    let tensor = |kinds: &[&str]| {
        let known = kinds.iter().filter_map(|kind| flops.tensor.get(*kind).copied());
        known.reduce(|sum, count| sum + count)
    };
    [
        ("fp64", flops.fp64, Precision::Fp64, Pipe::Fp64),
        ("fp32", flops.fp32, Precision::Fp32, Pipe::Vector),
        ("fp16", flops.fp16, Precision::Fp16NonTensor, Pipe::Vector),
        ("tensor_fp64", tensor(&["fp64"]), Precision::Fp64Tensor, Pipe::Tensor),
        ("tensor_tf32", tensor(&["tf32"]), Precision::Tf32, Pipe::Tensor),
        ("tensor_fp16", tensor(&["fp16"]), Precision::Fp16, Pipe::Tensor),
        ("tensor_bf16", tensor(&["bf16"]), Precision::Bf16, Pipe::Tensor),
        ("tensor_fp8", tensor(&["fp8"]), Precision::Fp8, Pipe::Tensor),
        ("tensor_fp4", tensor(&["fp4", "fp4_fp6_fp8"]), Precision::Fp4, Pipe::Tensor),
        ("tensor_int8", None, Precision::Int8, Pipe::Tensor),
    ]
    .map(|(name, count, precision, pipe)| Operations {
        name,
        count: usable(count),
        precision,
        pipe,
    })
}

/// Sum of what was measured; none where nothing was.
fn sum<'o>(operations: impl IntoIterator<Item = &'o Operations>) -> Option<f64> {
    operations.into_iter().filter_map(|kind| kind.count).reduce(|sum, count| sum + count)
}

/// Places a kernel under the roof. `duration_ns` is its mean undisturbed duration.
pub fn roofline(
    counters: &KernelCounters,
    duration_ns: Option<f64>,
    peaks: Option<&Peaks>,
) -> Roofline {
    let seconds = duration_ns.filter(|ns| ns.is_finite() && *ns > 0.0).map(|ns| ns / 1e9);
    let operations = operations(&counters.measured.flops);
    let flops = sum(&operations);
    let bytes = usable(counters.dram_bytes);
    let compute_s = peaks.and_then(|peaks| compute_time_at_peak(&operations, peaks));
    let bandwidth = peaks.and_then(Peaks::bytes_per_s);
    let memory_s = bytes.zip(bandwidth).map(|(bytes, peak)| bytes / peak);
    let ratio = usable(counters.duration_ns).zip(seconds).map(|(ns, s)| ns / 1e9 / s);
    let shares = Shares {
        compute: compute_s.zip(seconds).map(|(at_peak, s)| at_peak / s),
        bandwidth: memory_s.zip(seconds).map(|(at_peak, s)| at_peak / s),
    };
    let (bound, bound_why) = bound(&counters.measured, &shares).unzip();
    let not_measured = operations.iter().filter(|kind| kind.count.is_none());
    Roofline {
        flops,
        tensor_flops: sum(operations.iter().filter(|kind| kind.pipe == Pipe::Tensor)),
        dram_bytes: bytes,
        dram_read_bytes: usable(counters.dram_read_bytes),
        flops_per_byte: quotient(flops, bytes),
        // Operations at their peaks take `compute_s`; in that time memory moves so many bytes.
        ridge_flops_per_byte: quotient(flops, compute_s.zip(bandwidth).map(|(s, rate)| s * rate)),
        flops_per_s: quotient(flops, seconds),
        bytes_per_s: quotient(bytes, seconds),
        compute_share: shares.compute,
        bandwidth_share: shares.bandwidth,
        attainable_share: shares.compute.zip(shares.bandwidth).map(|(c, b)| c.max(b)),
        bound,
        bound_why,
        duration_ratio: ratio,
        flops_not_measured: match flops {
            Some(_) => not_measured.map(|kind| kind.name.to_owned()).collect(),
            None => Vec::new(),
        },
        notes: notes(&counters.measured, &operations, &shares, ratio, peaks),
    }
}

struct Shares {
    compute: Option<f64>,
    bandwidth: Option<f64>,
}

/// A count that can be one.
fn usable(count: Option<f64>) -> Option<f64> {
    count.filter(|count| count.is_finite() && *count >= 0.0)
}

fn quotient(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a / b).filter(|quotient| quotient.is_finite())
}

/// Seconds that the operations take at the peaks of their units, the units working side by side.
/// None where nothing was counted, or where a unit was used whose peak is not known.
fn compute_time_at_peak(operations: &[Operations], peaks: &Peaks) -> Option<f64> {
    sum(operations)?;
    let mut times = [0.0; 3];
    for Operations { count, precision, pipe, .. } in operations {
        if let Some(count) = count.filter(|count| *count > 0.0) {
            let slot = times.get_mut(*pipe as usize)?;
            *slot += count / peaks.flops_per_s(*precision)?;
        }
    }
    Some(times.into_iter().fold(0.0, f64::max))
}

fn bound(counters: &CounterRow, shares: &Shares) -> Option<(Bound, String)> {
    // The profiler sees caches and stalls that the counts do not; the undisturbed run is faster.
    let larger = |profiler, share: Option<f64>, names: [&'static str; 2]| {
        let undisturbed = percent(share.map(|share| share * 100.0));
        let both = [percent(profiler).zip(Some(names[0])), undisturbed.zip(Some(names[1]))];
        both.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let compute = larger(counters.sm_percent, shares.compute, ["SM throughput", "FLOP/s"]);
    let memory =
        larger(counters.memory_percent, shares.bandwidth, ["memory throughput", "DRAM bytes/s"]);
    of_percent(compute, memory)
}

/// What holds a kernel up, from its shares of the peaks in percent and what each is a share of.
pub(crate) fn of_percent(
    compute: Option<(f64, &str)>,
    memory: Option<(f64, &str)>,
) -> Option<(Bound, String)> {
    let ((compute, of_compute), (memory, of_memory)) = compute.zip(memory)?;
    let bound = if compute.max(memory) < LATENCY_BELOW_PERCENT {
        Bound::Latency
    } else if (compute - memory).abs() <= BALANCED_WITHIN_POINTS {
        Bound::Balanced
    } else if compute > memory {
        Bound::Compute
    } else {
        Bound::Memory
    };
    let why = format!(
        "{}: {of_compute} {compute:.1} %, {of_memory} {memory:.1} % of peak",
        bound.label()
    );
    Some((bound, why))
}

/// A percentage of a peak that can be one.
fn percent(value: Option<f64>) -> Option<f64> {
    usable(value).filter(|percent| *percent <= RATE_SHARE_MOST * 100.0)
}

fn notes(
    counters: &CounterRow,
    operations: &[Operations],
    shares: &Shares,
    ratio: Option<f64>,
    peaks: Option<&Peaks>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(peaks) = peaks {
        let without = operations.iter().filter(|kind| {
            kind.count.is_some_and(|c| c > 0.0) && peaks.flops_per_s(kind.precision).is_none()
        });
        let without: Vec<String> = without.map(|kind| kind.precision.to_string()).collect();
        if !without.is_empty() {
            notes.push(format!(
                "no distance to the roof: the peak is not known for {} (set hardware.dense_tflops)",
                without.join(", ")
            ));
        }
    }
    if let Some(ratio) = ratio.filter(|ratio| *ratio > DURATION_RATIO_MOST) {
        notes.push(format!(
            "the profiler's duration is {ratio:.2} times the undisturbed one (more than \
             {DURATION_RATIO_MOST}): read rates with care"
        ));
    }
    for (name, share) in [("FLOP/s", shares.compute), ("DRAM bytes/s", shares.bandwidth)] {
        if let Some(share) = share.filter(|share| *share > RATE_SHARE_MOST) {
            notes.push(format!(
                "{name} are {:.0} % of the peak, more than the GPU can do: counters, duration or \
                 peak are not those of this kernel",
                share * 100.0
            ));
        }
    }
    let percentages = [
        ("SM throughput", counters.sm_percent),
        ("memory throughput", counters.memory_percent),
        ("achieved occupancy", counters.achieved_occupancy_percent),
        ("tensor pipe", counters.tensor_pipe_percent),
    ];
    for (name, value) in percentages {
        if let Some(value) = value.filter(|v| percent(Some(*v)).is_none()) {
            notes.push(format!("{name} of {value} % is no percentage, and not used"));
        }
    }
    notes
}

#[cfg(test)]
#[path = "bound_tests.rs"]
mod tests;
