//! Counters of a kernel, its undisturbed duration and the peaks -> intensity, rates and what bounds it; and whether
//! the counters of one launch stand for a row of kernels.
//!
//! Counters are taken while the profiler replays the kernel, so their own duration is not that of
//! the run: rates are counts over the undisturbed duration, and the profiler's duration only checks
//! that both saw the same kernel.

use stage2_model::{Bound, CounterRow, Flops, Peaks, Precision, RATE_SHARE_MOST, Roofline};
use stage2_read::ncu::load::KernelCounters;

/// Below this share of both peaks, percent, neither compute nor memory is what holds a kernel up.
pub(super) const LATENCY_BELOW_PERCENT: f64 = 60.0;
/// Shares that differ by no more than this, percentage points, are balanced.
pub(super) const BALANCED_WITHIN_POINTS: f64 = 10.0;
/// Profiler's duration / undisturbed duration above which rates are to be read with care: cold
/// caches alone double the time of kernels of 1 us. What is too short is judged in [`one_launch`].
pub(crate) const DURATION_RATIO_MOST: f64 = 2.0;

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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pipe {
    Fp64,
    Vector,
    Tensor,
}

struct Operations {
    name: &'static str,
    /// None: not measured.
    count: Option<f64>,
    /// The peak that they are compared with.
    precision: Precision,
    pipe: Pipe,
}

/// Every kind of operation. Integers are not FLOPs: their count is never known.
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
pub(crate) fn roofline(
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
    let not_measured = operations.iter().filter(|kind| kind.count.is_none());
    let mut roof = Roofline {
        flops,
        tensor_flops: sum(operations.iter().filter(|kind| kind.pipe == Pipe::Tensor)),
        dram_bytes: bytes,
        dram_read_bytes: usable(counters.dram_read_bytes),
        flops_per_byte: quotient(flops, bytes),
        // Operations at their peaks take `compute_s`; in that time memory moves so many bytes.
        ridge_flops_per_byte: quotient(flops, compute_s.zip(bandwidth).map(|(s, rate)| s * rate)),
        flops_per_s: quotient(flops, seconds),
        bytes_per_s: quotient(bytes, seconds),
        compute_share: compute_s.zip(seconds).map(|(at_peak, s)| at_peak / s),
        bandwidth_share: memory_s.zip(seconds).map(|(at_peak, s)| at_peak / s),
        duration_ratio: usable(counters.duration_ns).zip(seconds).map(|(ns, s)| ns / 1e9 / s),
        flops_not_measured: match flops {
            Some(_) => not_measured.map(|kind| kind.name.to_owned()).collect(),
            None => Vec::new(),
        },
        ..Roofline::default()
    };
    roof.attainable_share = roof.compute_share.zip(roof.bandwidth_share).map(|(c, b)| c.max(b));
    (roof.bound, roof.bound_why) = bound(&counters.measured, &roof).unzip();
    roof.notes = notes(&counters.measured, &operations, &roof, peaks);
    roof
}

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

fn bound(counters: &CounterRow, roof: &Roofline) -> Option<(Bound, String)> {
    // The profiler sees caches and stalls that the counts do not; the undisturbed run is faster.
    let larger = |profiler, share: Option<f64>, names: [&'static str; 2]| {
        let undisturbed = percent(share.map(|share| share * 100.0));
        let both = [percent(profiler).zip(Some(names[0])), undisturbed.zip(Some(names[1]))];
        both.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let compute = larger(counters.sm_percent, roof.compute_share, ["SM throughput", "FLOP/s"]);
    let memory = larger(
        counters.memory_percent,
        roof.bandwidth_share,
        ["memory throughput", "DRAM bytes/s"],
    );
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
    roof: &Roofline,
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
    if let Some(ratio) = roof.duration_ratio.filter(|ratio| *ratio > DURATION_RATIO_MOST) {
        notes.push(format!(
            "the profiler's duration is {ratio:.2} times the undisturbed one (more than \
             {DURATION_RATIO_MOST}): read rates with care"
        ));
    }
    for (name, share) in [("FLOP/s", roof.compute_share), ("DRAM bytes/s", roof.bandwidth_share)] {
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
            notes.push(format!("{name} of {value} % is not a percentage, and is not used"));
        }
    }
    notes
}

// One launch is profiled of each kernel and launch configuration, and a configuration does not say
// what work there is: a grouped product always launches one block per multiprocessor. Rates, bounds
// and utilisation are drawn from counters only where nothing speaks against the same work.

/// Profiler's duration / undisturbed mean of the row below which the launch did other work. The
/// profiler runs with cold caches and at other clocks, which makes the same work slower, never
/// faster; the rest is the spread of single launches about their mean.
pub(super) const FASTER_BELOW: f64 = 0.9;
/// Profiler's duration / undisturbed mean of the row up to which a launch of another stage is held
/// to be the same work.
pub(super) const AGREES_TO: f64 = 1.25;
/// 99th percentile / minimum of the durations of a row above which its launches may be of several
/// workloads: products of one shape stayed below 1.2, two of different shapes had 1.3.
pub(super) const SPREAD_MOST: f64 = 1.25;
/// 99th percentile - minimum of the durations of a row, ns, above which its launches may be of
/// several workloads: short kernels of one workload varied by up to 0.99 us on an H200.
pub(super) const SPREAD_MOST_NS: u64 = 1_000;
/// Largest / smallest median of the rows of a stage (ranges within it) that have the same kernel and
/// configuration, above which they may be of several workloads.
pub(super) const MEDIANS_MOST: f64 = 1.1;

pub(crate) fn one_launch_rule() -> String {
    format!(
        "ncu profiles one launch for each kernel and launch configuration, in one stage. We apply \
         its counters to every launch of a row only if all of this holds: the launch belongs to \
         the row's stage; it took at least {FASTER_BELOW} times the row's mean duration under ncu \
         (cold caches and other clocks make the same work slower, not faster); the 99th percentile \
         of the row's durations (or their maximum, where percentiles are unknown) is at most \
         {SPREAD_MOST} times their minimum or within {SPREAD_MOST_NS} ns of it; and the medians of \
         such rows in the stage differ by a factor of {MEDIANS_MOST} at most. If the row belongs to \
         another stage, or its stage is unknown, the duration under ncu must also lie between \
         {FASTER_BELOW} and {AGREES_TO} times its mean. Otherwise the counters describe the profiled \
         launch only: we give no rate, leave the row out of MFU by counters, and give a bound only \
         in the profiled stage, marked as that of one launch."
    )
}

/// What is known of a row and of the launch that was profiled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Evidence<'a> {
    /// Stage that the launch was profiled in; none: not known.
    pub(crate) profiled_in: Option<&'a str>,
    pub(crate) stage: &'a str,
    pub(crate) calls: u64,
    /// Profiler's duration / undisturbed mean of the row.
    pub(crate) duration_ratio: Option<f64>,
    pub(crate) min_ns: Option<u64>,
    /// 99th percentile, or the longest call where there is none, ns.
    pub(crate) high_ns: Option<u64>,
    /// Largest / smallest median of such rows in the stage.
    pub(crate) medians_ratio: Option<f64>,
}

/// Why the counters are of the profiled launch only; none: they stand for the row.
pub(crate) fn one_launch(evidence: &Evidence<'_>) -> Option<String> {
    let Evidence { profiled_in, stage, duration_ratio, .. } = *evidence;
    if let Some(ratio) = duration_ratio.filter(|ratio| *ratio < FASTER_BELOW) {
        return Some(format!(
            "other work: {ratio:.2} times the mean of the row under ncu, which never is faster"
        ));
    }
    let here = profiled_in == Some(stage);
    let agrees = duration_ratio.is_some_and(|ratio| ratio <= AGREES_TO);
    if !here && !agrees {
        let place = match profiled_in {
            Some(place) => format!("profiled in {place}"),
            None => "profiled in a stage that is not known".to_owned(),
        };
        return Some(match duration_ratio {
            Some(ratio) => format!("{place}, and {ratio:.2} times the mean of the row"),
            None => format!("{place}, with no duration to compare"),
        });
    }
    let spread = evidence.high_ns.zip(evidence.min_ns.filter(|ns| *ns > 0));
    let spread = spread.filter(|(high, low)| high.saturating_sub(*low) > SPREAD_MOST_NS);
    let spread = spread.map(|(high, low)| high as f64 / low as f64);
    if let Some(spread) = spread.filter(|s| evidence.calls > 1 && *s > SPREAD_MOST) {
        return Some(format!("durations of the row spread by a factor of {spread:.2}"));
    }
    evidence
        .medians_ratio
        .filter(|ratio| *ratio > MEDIANS_MOST)
        .map(|ratio| format!("medians of such rows in the stage differ by a factor of {ratio:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roofline::hardware::{Catalogue, Hardware, resolve};

    fn h200() -> Peaks {
        resolve(&Catalogue::built_in(), &Hardware::default(), Some("NVIDIA H200"))
            .peaks
            .expect("known")
    }

    fn near(found: Option<f64>, expected: f64) {
        let found = found.unwrap_or_else(|| panic!("nothing instead of {expected}"));
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} against {expected}");
    }

    /// Operations of the tensor cores alone.
    fn tensor(kind: &str, count: f64) -> Flops {
        Flops { tensor: [(kind.to_owned(), count)].into(), ..Flops::default() }
    }

    /// The counters of a kernel with other percentages or operations.
    fn with(counters: KernelCounters, change: impl FnOnce(&mut CounterRow)) -> KernelCounters {
        let mut counters = counters;
        change(&mut counters.measured);
        counters
    }

    /// A matrix product of 4096^3 in BF16: 2*4096^3 operations.
    fn gemm() -> KernelCounters {
        KernelCounters {
            measured: CounterRow {
                sm_percent: Some(85.0),
                memory_percent: Some(40.0),
                tensor_pipe_percent: Some(84.0),
                achieved_occupancy_percent: Some(12.5),
                flops: Flops {
                    fp32: Some(4096.0 * 4096.0),
                    ..tensor("bf16", 2.0 * 4096f64.powi(3))
                },
                ..CounterRow::default()
            },
            dram_bytes: Some(3.0 * 2.0 * 4096f64.powi(2)),
            duration_ns: Some(180_000.0),
            ..KernelCounters::default()
        }
    }

    #[test]
    fn a_matrix_product_stands_under_the_flat_roof() {
        let roof = roofline(&gemm(), Some(170_000.0), Some(&h200()));
        let flops = 2.0 * 4096f64.powi(3) + 4096f64.powi(2);
        near(roof.flops, flops);
        near(roof.tensor_flops, 2.0 * 4096f64.powi(3));
        near(roof.flops_per_byte, flops / (6.0 * 4096f64.powi(2)));
        near(roof.flops_per_s, flops / 170e-6);
        near(roof.bytes_per_s, 6.0 * 4096f64.powi(2) / 170e-6);
        // The tensor cores are the unit that takes longest.
        near(roof.compute_share, 2.0 * 4096f64.powi(3) / 989.5e12 / 170e-6);
        near(roof.bandwidth_share, 6.0 * 4096f64.powi(2) / 4.8e12 / 170e-6);
        assert_eq!(roof.attainable_share, roof.compute_share);
        near(roof.ridge_flops_per_byte, flops / (2.0 * 4096f64.powi(3)) * 989.5e12 / 4.8e12);
        assert!(roof.flops_per_byte > roof.ridge_flops_per_byte);
        assert_eq!(roof.bound, Some(Bound::Compute));
        let why = roof.bound_why.expect("a reason");
        assert!(why.contains("85.0 %") && why.contains("40.0 %"), "{why}");
        near(roof.duration_ratio, 180.0 / 170.0);
        assert_eq!(roof.notes, Vec::<String>::new());
        assert_eq!(roof.flops_not_measured.len(), 8);
        assert_eq!(roof.flops_not_measured[..3], ["fp64", "fp16", "tensor_fp64"]);
    }

    #[test]
    fn intensity_is_per_byte_whatever_units_the_counters_came_in() {
        // A recorded product: 11.14 Mbyte read and 512 byte written. Adding the bare numbers would
        // give 33,769,944 operations per "byte".
        let flops = 33_769_944.0 * (11.14 + 512.0);
        let counters =
            KernelCounters { dram_bytes: Some(11.14e6 + 512.0), ..KernelCounters::default() };
        let counters = with(counters, |row| row.flops = tensor("bf16", flops));
        let roof = roofline(&counters, None, None);
        assert!((roof.flops_per_byte.expect("known") - 1585.78).abs() < 0.01, "{roof:?}");
        assert_eq!((roof.compute_share, roof.bound), (None, None));
    }

    #[test]
    fn the_rule_has_four_answers() {
        let at = |sm: f64, memory: f64| {
            let counters = with(KernelCounters::default(), |row| {
                (row.sm_percent, row.memory_percent) = (Some(sm), Some(memory));
            });
            roofline(&counters, None, None).bound
        };
        for (sm, memory, bound) in [
            (0.0, 0.0, Bound::Latency),
            (59.9, 59.9, Bound::Latency),
            (60.0, 10.0, Bound::Compute),
            (10.0, 60.0, Bound::Memory),
            (70.0, 60.0, Bound::Balanced),
            (70.1, 60.0, Bound::Compute),
            (95.0, 92.0, Bound::Balanced),
        ] {
            assert_eq!(at(sm, memory), Some(bound), "{sm} {memory}");
        }
        let text = rule();
        assert!(text.contains("60 %") && text.contains("10 percentage points"), "{text}");
    }

    #[test]
    fn without_throughputs_the_rates_decide() {
        let gemv = KernelCounters { dram_bytes: Some(4.0e9), ..KernelCounters::default() };
        let gemv = with(gemv, |row| row.flops.fp32 = Some(1e9));
        let roof = roofline(&gemv, Some(1_000_000.0), Some(&h200()));
        near(roof.bandwidth_share, 4.0 / 4.8);
        assert_eq!(roof.bound, Some(Bound::Memory));
        assert_eq!(roof.attainable_share, roof.bandwidth_share);
        assert!(roof.bound_why.expect("a reason").contains("DRAM bytes/s 83.3 %"));
    }

    #[test]
    fn of_the_profiler_and_the_undisturbed_run_the_larger_throughput_counts() {
        let at = |memory_percent: f64| {
            let counters =
                KernelCounters { dram_bytes: Some(4.8e9 * 0.63), ..KernelCounters::default() };
            let counters = with(counters, |row| {
                (row.sm_percent, row.memory_percent) = (Some(20.0), Some(memory_percent));
            });
            let roof = roofline(&counters, Some(1_000_000.0), Some(&h200()));
            (roof.bound.expect("known"), roof.bound_why.expect("a reason"))
        };
        // 58 % with cold caches, 63 % of the peak where nobody looked on.
        let (bound, why) = at(58.0);
        assert_eq!(bound, Bound::Memory);
        assert!(why.contains("SM throughput 20.0 %, DRAM bytes/s 63.0 %"), "{why}");
        assert!(at(90.0).1.contains("memory throughput 90.0 %"));
    }

    #[test]
    fn absent_inputs_give_absent_outputs() {
        let none = roofline(&KernelCounters::default(), Some(1000.0), Some(&h200()));
        assert_eq!(none, Roofline::default());
        let no_time = roofline(&gemm(), None, Some(&h200()));
        assert_eq!(
            (no_time.flops_per_s, no_time.attainable_share, no_time.duration_ratio),
            (None, None, None)
        );
        assert!(no_time.flops_per_byte.is_some() && no_time.bound.is_some());
        let no_peaks = roofline(&gemm(), Some(170_000.0), None);
        assert_eq!((no_peaks.compute_share, no_peaks.ridge_flops_per_byte), (None, None));
        let one_side = with(gemm(), |row| row.memory_percent = None);
        assert_eq!(roofline(&one_side, Some(170_000.0), None).bound, None);
        let from_cache = KernelCounters { dram_bytes: Some(0.0), ..gemm() };
        let roof = roofline(&from_cache, Some(170_000.0), Some(&h200()));
        assert_eq!((roof.flops_per_byte, roof.bytes_per_s), (None, Some(0.0)));
        let no_flops =
            with(gemm(), |row| row.flops = Flops { fp32: Some(0.0), ..Flops::default() });
        let roof = roofline(&no_flops, Some(170_000.0), Some(&h200()));
        assert_eq!((roof.flops_per_byte, roof.ridge_flops_per_byte), (Some(0.0), None));
        let fp4 = with(gemm(), |row| row.flops = tensor("fp4", 1e9));
        let roof = roofline(&fp4, Some(170_000.0), Some(&h200()));
        assert_eq!((roof.compute_share, roof.attainable_share), (None, None));
        assert!(roof.notes.iter().any(|note| note.contains("fp4")), "{:?}", roof.notes);
    }

    #[test]
    fn absurd_numbers_are_told_and_not_used() {
        let far = KernelCounters { duration_ns: Some(900_000.0), ..gemm() };
        let notes = roofline(&far, Some(170_000.0), Some(&h200())).notes;
        assert!(notes.iter().any(|note| note.contains("5.29 times")), "{notes:?}");
        let roof = roofline(&gemm(), Some(170_000.0), Some(&h200()));
        assert_eq!(roof.beyond_peak(), None);
        let too_fast = roofline(&gemm(), Some(17_000.0), Some(&h200()));
        assert_eq!(too_fast.beyond_peak(), too_fast.attainable_share);
        let said = |note: &String| note.contains("more than the GPU can do");
        assert!(too_fast.notes.iter().any(said), "{too_fast:?}");
        let by_rates = with(gemm(), |row| row.sm_percent = None);
        assert!(roofline(&by_rates, Some(170_000.0), Some(&h200())).bound.is_some());
        assert_eq!(roofline(&by_rates, Some(17_000.0), Some(&h200())).bound, None);
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e9] {
            let counters = with(gemm(), |row| row.sm_percent = Some(bad));
            let roof = roofline(&counters, None, None);
            assert_eq!(roof.bound, None, "{bad}");
            assert!(
                roof.notes.iter().any(|note| note.contains("not a percentage")),
                "{:?}",
                roof.notes
            );
            let counters = KernelCounters {
                dram_bytes: Some(-bad.abs()),
                duration_ns: Some(-bad.abs()),
                ..gemm()
            };
            let roof = roofline(&counters, Some(-bad.abs()), Some(&h200()));
            assert_eq!(
                (roof.dram_bytes, roof.flops_per_s, roof.duration_ratio),
                (None, None, None)
            );
        }
    }

    /// A product as it was measured on an H200: 11.269 us on average, 1.07 times that under ncu.
    fn product() -> Evidence<'static> {
        Evidence {
            profiled_in: Some("decode"),
            stage: "decode",
            calls: 1_024,
            duration_ratio: Some(1.07),
            min_ns: Some(10_497),
            high_ns: Some(12_416),
            medians_ratio: Some(1.0),
        }
    }

    fn why(change: impl FnOnce(&mut Evidence<'static>)) -> String {
        let mut evidence = product();
        change(&mut evidence);
        one_launch(&evidence).unwrap_or_default()
    }

    #[test]
    fn one_workload_in_the_profiled_stage_stands() {
        assert_eq!(one_launch(&product()), None);
        assert_eq!(why(|e| e.duration_ratio = Some(2.37)), "", "cold caches, a short kernel");
        assert_eq!(why(|e| e.duration_ratio = None), "");
        assert_eq!(why(|e| (e.min_ns, e.high_ns) = (None, None)), "", "nothing speaks against it");
        assert_eq!(why(|e| (e.calls, e.high_ns) = (1, Some(99_999))), "");
    }

    #[test]
    fn a_grouped_product_of_two_shapes_does_not() {
        // Gate and up (twice the work) and down, with one grid: 18,849 ns on average.
        let both = |e: &mut Evidence<'_>| (e.min_ns, e.high_ns) = (Some(16_800), Some(21_760));
        assert_eq!(why(both), "durations of the row spread by a factor of 1.30");
        assert_eq!(why(|e| (e.min_ns, e.high_ns) = (Some(16_000), Some(20_000))), "", "1.25");
        // A product of 5 us of two shapes, and a short kernel that varies.
        let short = |low, high| why(|e| (e.min_ns, e.high_ns) = (Some(low), Some(high)));
        assert_eq!(short(5_217, 7_872), "durations of the row spread by a factor of 1.51");
        assert_eq!(short(1_600, 2_600), "");
        assert_eq!(short(1_600, 2_601), "durations of the row spread by a factor of 1.63");
        // The same two in ranges of their own.
        let apart = why(|e| e.medians_ratio = Some(21_100.0 / 17_500.0));
        assert!(apart.contains("differ by a factor of 1.21"), "{apart}");
    }

    #[test]
    fn another_stage_needs_the_same_duration() {
        let elsewhere = |ratio| why(|e| (e.stage, e.duration_ratio) = ("prefill", ratio));
        assert!(elsewhere(Some(0.63)).contains("0.63 times the mean"));
        assert_eq!(elsewhere(Some(0.9)), "");
        assert_eq!(elsewhere(Some(1.25)), "");
        assert_eq!(elsewhere(Some(1.42)), "profiled in decode, and 1.42 times the mean of the row");
        assert_eq!(elsewhere(None), "profiled in decode, with no duration to compare");
        let unknown = why(|e| (e.profiled_in, e.duration_ratio) = (None, Some(1.3)));
        assert!(unknown.contains("in a stage that is not known"), "{unknown}");
        assert!(why(|e| e.duration_ratio = Some(0.89)).contains("other work"), "also here");
    }

    #[test]
    fn the_rule_names_its_thresholds() {
        for number in ["0.9", "1.25", "1.1", "1000 ns"] {
            assert!(one_launch_rule().contains(number), "{}", one_launch_rule());
        }
    }
}
