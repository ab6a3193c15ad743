use super::super::hardware::{Catalogue, Hardware, resolve};
use super::*;

fn h200() -> Peaks {
    resolve(&Catalogue::built_in(), &Hardware::default(), Some("NVIDIA H200")).peaks.expect("known")
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.unwrap_or_else(|| panic!("nothing instead of {expected}"));
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} against {expected}");
}

/// A matrix product of 4096^3 in BF16: 2*4096^3 operations.
fn gemm() -> Counters {
    Counters {
        sm_percent: Some(85.0),
        memory_percent: Some(40.0),
        tensor_pipe_percent: Some(84.0),
        achieved_occupancy_percent: Some(12.5),
        flops: FlopCounts {
            fp32: Some(4096.0 * 4096.0),
            tensor_bf16: Some(2.0 * 4096f64.powi(3)),
            ..FlopCounts::default()
        },
        dram_bytes: Some(3.0 * 2.0 * 4096f64.powi(2)),
        profiler_duration_ns: Some(180_000.0),
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
    let counters = Counters {
        flops: FlopCounts { tensor_bf16: Some(flops), ..FlopCounts::default() },
        dram_bytes: Some(11.14e6 + 512.0),
        ..Counters::default()
    };
    let roof = roofline(&counters, None, None);
    assert!((roof.flops_per_byte.expect("known") - 1585.78).abs() < 0.01, "{roof:?}");
    assert_eq!((roof.compute_share, roof.bound), (None, None));
}

#[test]
fn the_rule_has_four_answers() {
    let at = |sm: f64, memory: f64| {
        let counters =
            Counters { sm_percent: Some(sm), memory_percent: Some(memory), ..Counters::default() };
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
    let gemv = Counters {
        flops: FlopCounts { fp32: Some(1e9), ..FlopCounts::default() },
        dram_bytes: Some(4.0e9),
        ..Counters::default()
    };
    let roof = roofline(&gemv, Some(1_000_000.0), Some(&h200()));
    near(roof.bandwidth_share, 4.0 / 4.8);
    assert_eq!(roof.bound, Some(Bound::Memory));
    assert_eq!(roof.attainable_share, roof.bandwidth_share);
    assert!(roof.bound_why.expect("a reason").contains("DRAM bytes/s 83.3 %"));
}

#[test]
fn of_the_profiler_and_the_undisturbed_run_the_larger_throughput_counts() {
    let at = |memory_percent: f64| {
        let counters = Counters {
            sm_percent: Some(20.0),
            memory_percent: Some(memory_percent),
            dram_bytes: Some(4.8e9 * 0.63),
            ..Counters::default()
        };
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
    let none = roofline(&Counters::default(), Some(1000.0), Some(&h200()));
    assert_eq!(none, Roofline::default());
    let no_time = roofline(&gemm(), None, Some(&h200()));
    assert_eq!(
        (no_time.flops_per_s, no_time.attainable_share, no_time.duration_ratio),
        (None, None, None)
    );
    assert!(no_time.flops_per_byte.is_some() && no_time.bound.is_some());
    let no_peaks = roofline(&gemm(), Some(170_000.0), None);
    assert_eq!((no_peaks.compute_share, no_peaks.ridge_flops_per_byte), (None, None));
    let one_side = Counters { memory_percent: None, ..gemm() };
    assert_eq!(roofline(&one_side, Some(170_000.0), None).bound, None);
    let from_cache = Counters { dram_bytes: Some(0.0), ..gemm() };
    let roof = roofline(&from_cache, Some(170_000.0), Some(&h200()));
    assert_eq!((roof.flops_per_byte, roof.bytes_per_s), (None, Some(0.0)));
    let no_flops =
        Counters { flops: FlopCounts { fp32: Some(0.0), ..FlopCounts::default() }, ..gemm() };
    let roof = roofline(&no_flops, Some(170_000.0), Some(&h200()));
    assert_eq!((roof.flops_per_byte, roof.ridge_flops_per_byte), (Some(0.0), None));
    let fp4 =
        Counters { flops: FlopCounts { tensor_fp4: Some(1e9), ..FlopCounts::default() }, ..gemm() };
    let roof = roofline(&fp4, Some(170_000.0), Some(&h200()));
    assert_eq!((roof.compute_share, roof.attainable_share), (None, None));
    assert!(roof.notes.iter().any(|note| note.contains("fp4")), "{:?}", roof.notes);
}

#[test]
fn absurd_numbers_are_told_and_not_used() {
    let far = Counters { profiler_duration_ns: Some(900_000.0), ..gemm() };
    let notes = roofline(&far, Some(170_000.0), Some(&h200())).notes;
    assert!(notes.iter().any(|note| note.contains("5.29 times")), "{notes:?}");
    let roof = roofline(&gemm(), Some(170_000.0), Some(&h200()));
    assert_eq!(roof.beyond_peak(), None);
    let too_fast = roofline(&gemm(), Some(17_000.0), Some(&h200()));
    assert_eq!(too_fast.beyond_peak(), too_fast.attainable_share);
    let said = |note: &String| note.contains("more than the GPU can do");
    assert!(too_fast.notes.iter().any(said), "{too_fast:?}");
    let by_rates = Counters { sm_percent: None, ..gemm() };
    assert!(roofline(&by_rates, Some(170_000.0), Some(&h200())).bound.is_some());
    assert_eq!(roofline(&by_rates, Some(17_000.0), Some(&h200())).bound, None);
    for bad in [f64::NAN, f64::INFINITY, -1.0, 1e9] {
        let counters = Counters { sm_percent: Some(bad), ..gemm() };
        let roof = roofline(&counters, None, None);
        assert_eq!(roof.bound, None, "{bad}");
        assert!(roof.notes.iter().any(|note| note.contains("no percentage")), "{:?}", roof.notes);
        let counters = Counters {
            dram_bytes: Some(-bad.abs()),
            profiler_duration_ns: Some(-bad.abs()),
            ..gemm()
        };
        let roof = roofline(&counters, Some(-bad.abs()), Some(&h200()));
        assert_eq!((roof.dram_bytes, roof.flops_per_s, roof.duration_ratio), (None, None, None));
    }
}
