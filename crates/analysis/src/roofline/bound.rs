//! Counters of a kernel, its undisturbed duration and the peaks -> intensity, rates and what bounds it.
//!
//! Counters are taken while the profiler replays the kernel, so their own duration is not that of
//! the run: rates are counts over the undisturbed duration, and the profiler's duration only checks
//! that both saw the same kernel.

use serde::{Deserialize, Serialize};
use stage2_model::{Bound, Peaks, Precision, RATE_SHARE_MOST, Roofline};

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

/// Operations of one launch by the unit that did them; none: not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlopCounts {
    /// FP64 outside of the tensor cores.
    pub fp64: Option<f64>,
    /// FP32 outside of the tensor cores.
    pub fp32: Option<f64>,
    /// FP16 and BF16 outside of the tensor cores.
    pub fp16: Option<f64>,
    /// Tensor cores, FP64.
    pub tensor_fp64: Option<f64>,
    /// Tensor cores, TF32.
    pub tensor_tf32: Option<f64>,
    /// Tensor cores, FP16.
    pub tensor_fp16: Option<f64>,
    /// Tensor cores, BF16.
    pub tensor_bf16: Option<f64>,
    /// Tensor cores, FP8.
    pub tensor_fp8: Option<f64>,
    /// Tensor cores, FP4.
    pub tensor_fp4: Option<f64>,
    /// Tensor cores, 8-bit integers.
    pub tensor_int8: Option<f64>,
}

/// Units that work side by side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pipe {
    Fp64,
    Vector,
    Tensor,
}

impl FlopCounts {
    /// Every count with its name, the peak it is held against, and its unit.
    fn all(&self) -> [(&'static str, Option<f64>, Precision, Pipe); 10] {
        [
            ("fp64", self.fp64, Precision::Fp64, Pipe::Fp64),
            ("fp32", self.fp32, Precision::Fp32, Pipe::Vector),
            ("fp16", self.fp16, Precision::Fp16NonTensor, Pipe::Vector),
            ("tensor_fp64", self.tensor_fp64, Precision::Fp64Tensor, Pipe::Tensor),
            ("tensor_tf32", self.tensor_tf32, Precision::Tf32, Pipe::Tensor),
            ("tensor_fp16", self.tensor_fp16, Precision::Fp16, Pipe::Tensor),
            ("tensor_bf16", self.tensor_bf16, Precision::Bf16, Pipe::Tensor),
            ("tensor_fp8", self.tensor_fp8, Precision::Fp8, Pipe::Tensor),
            ("tensor_fp4", self.tensor_fp4, Precision::Fp4, Pipe::Tensor),
            ("tensor_int8", self.tensor_int8, Precision::Int8, Pipe::Tensor),
        ]
    }

    /// Sum of what was measured; none where nothing was.
    pub fn total(&self) -> Option<f64> {
        let known = self.all().into_iter().filter_map(|(_, count, ..)| usable(count));
        known.fold(None, |sum, count| Some(sum.unwrap_or(0.0) + count))
    }

    /// Kinds that were not measured, where others were.
    fn not_measured(&self) -> Vec<String> {
        let all = self.all();
        let missing = all.iter().filter(|(_, count, ..)| usable(*count).is_none());
        let missing: Vec<String> = missing.map(|(name, ..)| (*name).to_owned()).collect();
        if missing.len() == all.len() { Vec::new() } else { missing }
    }

    /// Sum of what tensor cores did.
    pub fn tensor(&self) -> Option<f64> {
        let known = self.all().into_iter().filter(|(.., pipe)| *pipe == Pipe::Tensor);
        let known = known.filter_map(|(_, count, ..)| usable(count));
        known.fold(None, |sum, count| Some(sum.unwrap_or(0.0) + count))
    }
}

/// Counters of one launch, as the profiler gave them; none: not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Compute (SM) throughput, percent of its peak.
    pub sm_percent: Option<f64>,
    /// Memory throughput (caches and DRAM), percent of its peak.
    pub memory_percent: Option<f64>,
    /// Time in which tensor cores were busy, percent.
    pub tensor_pipe_percent: Option<f64>,
    /// Warps that were resident on average, percent of the most.
    pub achieved_occupancy_percent: Option<f64>,
    /// Operations.
    pub flops: FlopCounts,
    /// Bytes read from and written to DRAM.
    pub dram_bytes: Option<f64>,
    /// Duration under the profiler, ns.
    pub profiler_duration_ns: Option<f64>,
}

/// Places a kernel under the roof. `duration_ns` is its mean undisturbed duration.
pub fn roofline(counters: &Counters, duration_ns: Option<f64>, peaks: Option<&Peaks>) -> Roofline {
    let seconds = duration_ns.filter(|ns| ns.is_finite() && *ns > 0.0).map(|ns| ns / 1e9);
    let flops = counters.flops.total();
    let bytes = usable(counters.dram_bytes);
    let compute_s = peaks.and_then(|peaks| compute_time_at_peak(&counters.flops, peaks));
    let bandwidth = peaks.and_then(Peaks::bytes_per_s);
    let memory_s = bytes.zip(bandwidth).map(|(bytes, peak)| bytes / peak);
    let ratio = usable(counters.profiler_duration_ns).zip(seconds).map(|(ns, s)| ns / 1e9 / s);
    let shares = Shares {
        compute: compute_s.zip(seconds).map(|(at_peak, s)| at_peak / s),
        bandwidth: memory_s.zip(seconds).map(|(at_peak, s)| at_peak / s),
    };
    let decided = bound(counters, &shares);
    Roofline {
        flops,
        tensor_flops: counters.flops.tensor(),
        dram_bytes: bytes,
        flops_per_byte: quotient(flops, bytes),
        // Operations at their peaks take `compute_s`; in that time memory moves so many bytes.
        ridge_flops_per_byte: quotient(flops, product(compute_s, bandwidth)),
        flops_per_s: quotient(flops, seconds),
        bytes_per_s: quotient(bytes, seconds),
        compute_share: shares.compute,
        bandwidth_share: shares.bandwidth,
        attainable_share: shares.compute.zip(shares.bandwidth).map(|(c, b)| c.max(b)),
        bound: decided.as_ref().map(|(bound, _)| *bound),
        bound_why: decided.map(|(_, why)| why),
        duration_ratio: ratio,
        flops_not_measured: counters.flops.not_measured(),
        notes: notes(counters, &shares, ratio, peaks),
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

fn product(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a * b)
}

fn quotient(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a / b).filter(|quotient| quotient.is_finite())
}

/// Seconds that the operations take at the peaks of their units, the units working side by side.
/// None where nothing was counted, or where a unit was used whose peak is not known.
fn compute_time_at_peak(flops: &FlopCounts, peaks: &Peaks) -> Option<f64> {
    flops.total()?;
    let mut times = [0.0; 3];
    for (_, count, precision, pipe) in flops.all() {
        let count = usable(count).unwrap_or(0.0);
        if count > 0.0 {
            let slot = times.get_mut(pipe as usize)?;
            *slot += count / peaks.flops_per_s(precision)?;
        }
    }
    Some(times.into_iter().fold(0.0, f64::max))
}

fn bound(counters: &Counters, shares: &Shares) -> Option<(Bound, String)> {
    // The profiler sees caches and stalls that the counts do not; the undisturbed run is faster.
    let larger = |profiler, share: Option<f64>, names: [&'static str; 2]| {
        let undisturbed = percent(share.map(|share| share * 100.0));
        let both = [percent(profiler).zip(Some(names[0])), undisturbed.zip(Some(names[1]))];
        both.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (compute, of_compute) =
        larger(counters.sm_percent, shares.compute, ["SM throughput", "FLOP/s"])?;
    let (memory, of_memory) =
        larger(counters.memory_percent, shares.bandwidth, ["memory throughput", "DRAM bytes/s"])?;
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
    counters: &Counters,
    shares: &Shares,
    ratio: Option<f64>,
    peaks: Option<&Peaks>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let all = counters.flops.all();
    if let Some(peaks) = peaks {
        let without = all.iter().filter(|(_, count, precision, _)| {
            usable(*count).is_some_and(|c| c > 0.0) && peaks.flops_per_s(*precision).is_none()
        });
        let without: Vec<&str> = without.map(|(.., precision, _)| precision.key()).collect();
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
