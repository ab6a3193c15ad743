use super::super::hardware::{Catalogue, Hardware, resolve};
use super::*;

fn h200() -> Peaks {
    resolve(&Catalogue::built_in(), &Hardware::default(), Some("NVIDIA H200")).peaks.expect("known")
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
            flops: Flops { fp32: Some(4096.0 * 4096.0), ..tensor("bf16", 2.0 * 4096f64.powi(3)) },
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
    let no_flops = with(gemm(), |row| row.flops = Flops { fp32: Some(0.0), ..Flops::default() });
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
        assert!(roof.notes.iter().any(|note| note.contains("no percentage")), "{:?}", roof.notes);
        let counters = KernelCounters {
            dram_bytes: Some(-bad.abs()),
            duration_ns: Some(-bad.abs()),
            ..gemm()
        };
        let roof = roofline(&counters, Some(-bad.abs()), Some(&h200()));
        assert_eq!((roof.dram_bytes, roof.flops_per_s, roof.duration_ratio), (None, None, None));
    }
}
