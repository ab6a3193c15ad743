use std::io::Cursor;

use super::*;
use crate::decoded::MAX_COLUMNS;
use crate::ncu::nvtx;
use crate::ncu::testing::{fixture, text};

fn source<R>(name: &str, input: R) -> Source<R> {
    Source { name: name.to_owned(), input }
}

fn read(pages: &[&str]) -> Tables {
    let bytes: Vec<(&str, Vec<u8>)> = pages.iter().map(|name| (*name, fixture(name))).collect();
    load(bytes.into_iter().map(|(name, bytes)| source(name, Cursor::new(bytes))))
}

fn read_text(text: &str) -> Tables {
    load([source("x.csv", text.as_bytes())])
}

/// Checks that a finding has this part.
#[track_caller]
fn says(tables: &Tables, part: &str) {
    let told: Vec<String> = tables.findings.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|told| told.contains(part)), "{part}: {told:?}");
}

fn is(found: Option<f64>, expected: f64) {
    let found = found.expect("measured");
    let close = (found - expected).abs() <= expected.abs() * 1e-6 + 1e-9;
    assert!(close, "{found} is not {expected}");
}

fn kernel<'a>(tables: &'a Tables, part: &str, grid: [u32; 3]) -> &'a KernelCounters {
    let mut found =
        tables.kernels.iter().filter(|k| k.key.kernel.contains(part) && k.key.grid == grid);
    let one = found.next().unwrap_or_else(|| panic!("no {part}"));
    assert!(found.next().is_none(), "more than one {part}");
    one
}

/// A metric of the first launch of a kernel.
fn metric(tables: &Tables, kernel: &KernelCounters, name: &str) -> Option<f64> {
    let launch = tables.launches.iter().find(|launch| key(launch) == kernel.key)?;
    Some(launch.metrics.get(name)?.value)
}

/// Figures that a Python script read from the same file, with its own scaling of units.
#[test]
fn a_decode_step_is_read_right() {
    let tables = read(&["decode.raw.csv", "decode.details.csv"]);
    assert_eq!((tables.launches.len(), tables.kernels.len()), (12, 10), "two kernels ran twice");
    assert_eq!(tables.devices, [(0, "NVIDIA H200".to_owned())].into());
    let gather = kernel(&tables, "indexSelectSmallIndex", [16, 1, 1]);
    assert_eq!(
        (gather.key.block, gather.key.device, gather.measured.launches_profiled),
        ([128, 1, 1], 0, 1)
    );
    is(gather.duration_ns, 2976.0);
    is(gather.measured.sm_percent, 0.298948);
    is(gather.measured.memory_percent, 0.549849);
    is(gather.measured.dram_percent, 0.061305);
    is(metric(&tables, gather, "launch__registers_per_thread"), 32.0);
    is(gather.dram_bytes.map(f64::round), 8704.0);
    is(gather.measured.flops.fp16.map(f64::round), 8192.0);
    assert_eq!((gather.measured.flops.fp32, gather.measured.flops.fp64), (Some(0.0), Some(0.0)));
    let sgemm = kernel(&tables, "cutlass_80_simt_sgemm_128x32", [1, 1, 1]);
    is(sgemm.duration_ns, 3680.0);
    is(sgemm.measured.flops.fp32.map(f64::round), 69632.0);
    is(sgemm.dram_bytes.map(f64::round), 30464.0);
    is(metric(&tables, sgemm, "launch__shared_mem_per_block"), 26624.0);
    is(metric(&tables, sgemm, "sm__maximum_warps_per_active_cycle_pct"), 37.5);
    is(metric(&tables, sgemm, "profiler__replayer_passes"), 17.0);
    assert_eq!(sgemm.measured.achieved_occupancy_percent, None, "the set does not measure it");
    assert_eq!(sgemm.measured.flops.tensor.values().copied().reduce(|a, b| a + b), Some(0.0));
    let scale = kernel(&tables, "MulFunctor", [1, 1, 1]);
    assert_eq!(scale.measured.launches_profiled, 2);
    is(scale.duration_ns, (2240.0 + 2208.0) / 2.0);
    assert_eq!(nvtx::path(&tables.launches[0].ranges), "decode");
}

#[test]
fn rules_are_kept_with_their_speedups() {
    let tables = read(&["decode.raw.csv", "decode.details.csv"]);
    let gather = kernel(&tables, "indexSelectSmallIndex", [16, 1, 1]);
    assert_eq!(gather.measured.rules.len(), 6);
    let names: Vec<&str> = gather.measured.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names[..3], ["SOLBottleneck", "SOLFPRoofline", "WorkloadImbalance"]);
    let imbalance = &gather.measured.rules[2];
    assert_eq!(imbalance.speedup_percent, Some(5.49));
    assert!(imbalance.description.starts_with("One or more SMs"));
    assert_eq!(gather.measured.rules[0].speedup_percent, None);
    let said: usize = tables.kernels.iter().map(|k| k.measured.rules.len()).sum();
    assert!(said >= 30, "{said}");
}

#[test]
fn demangled_names_are_told() {
    let tables = read(&["decode.raw.csv"]);
    assert!(!tables.names_are_mangled);
    says(&tables, "--print-kernel-base mangled");
}

/// Two operations for each of 1024 x 1024 x 1024 products: the tensor cores count exactly that.
#[test]
fn products_of_matrices_have_the_operations_that_they_must_have() {
    let tables = read(&["matmul.raw.csv", "matmul.details.csv"]);
    assert!(tables.names_are_mangled && tables.findings.is_empty(), "{:?}", tables.findings);
    let product = f64::from(1 << 30) * 2.0;
    for (part, grid, source) in [
        ("nvjet_sm90_tst", [2, 64, 1], "bf16"),
        ("nvjet_sm90_hsh", [2, 64, 1], "fp16"),
        ("sm90_xmma_gemm_f32f32_tf32f32", [64, 2, 1], "tf32"),
    ] {
        let kernel = kernel(&tables, part, grid);
        assert_eq!(kernel.measured.flops.tensor.get(source), Some(&product), "{part}");
        assert_eq!(
            kernel.measured.flops.tensor.values().copied().reduce(|a, b| a + b),
            Some(product),
            "{part}"
        );
    }
    let single = kernel(&tables, "sm80_xmma_gemm_f32f32_f32f32", [8, 16, 1]);
    assert_eq!(single.measured.flops.fp32, Some(2.0 * 1_074_790_400.0));
    assert_eq!(single.measured.flops.fp16, Some(4.0 * 16_384.0));
    let bf16 = kernel(&tables, "nvjet_sm90_tst", [2, 64, 1]);
    is(bf16.duration_ns, 7040.0);
    is(bf16.measured.sm_percent, 31.72);
    is(bf16.measured.dram_percent, 12.49);
    is(bf16.measured.memory_percent, 33.29);
    is(bf16.measured.achieved_occupancy_percent, 13.95);
    is(metric(&tables, bf16, "sm__maximum_warps_per_active_cycle_pct"), 18.75);
    is(bf16.dram_bytes, 4_213_248.0);
    is(bf16.measured.l2_hit_percent, 74.08);
    is(bf16.measured.tensor_pipe_percent, 31.72);
    is(metric(&tables, bf16, "launch__registers_per_thread"), 168.0);
    is(metric(&tables, bf16, "launch__shared_mem_per_block"), 214_292.0);
    is(metric(&tables, bf16, "launch__waves_per_multiprocessor"), 0.97);
    let gemv = kernel(&tables, "gemv2T_kernel_val", [512, 1, 1]);
    is(gemv.dram_bytes, 33_565_184.0 + 741_888.0);
}

#[test]
fn scaled_units_give_the_same() {
    let base = read(&["matmul.raw.csv"]);
    let scaled = read(&["matmul.raw-scaled.csv"]);
    assert_eq!(base.kernels.len(), scaled.kernels.len());
    for (base, scaled) in base.kernels.iter().zip(&scaled.kernels) {
        assert_eq!((&base.key, &base.measured.flops), (&scaled.key, &scaled.measured.flops));
    }
    let mut compared = 0;
    for (base, scaled) in base.launches.iter().zip(&scaled.launches) {
        assert_eq!(base.id, scaled.id);
        for (name, quantity) in &base.metrics {
            let other = scaled.metrics.get(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(quantity.unit, other.unit, "{name}");
            // Either form rounds: one to two places of the base unit, one to about five digits.
            let slack = 0.0051 + other.value.abs() * 2e-5;
            let one =
                quantity.unit.starts_with("%/") || (quantity.value - other.value).abs() <= slack;
            assert!(one, "{name}: {} {}", quantity.value, other.value);
            compared += 1;
        }
    }
    assert!(compared > 5000, "{compared}");
}

#[test]
fn the_details_page_alone_gives_what_it_has() {
    let tables = read(&["matmul.details.csv"]);
    let bf16 = kernel(&tables, "nvjet_sm90_tst", [2, 64, 1]);
    is(bf16.duration_ns, 7040.0);
    is(bf16.measured.sm_percent, 31.72);
    is(bf16.measured.achieved_occupancy_percent, 13.95);
    assert_eq!(bf16.measured.flops.tensor.get("bf16"), Some(&2_147_483_648.0));
    let raw_alone = read(&["matmul.raw.csv"]);
    assert!(raw_alone.kernels.iter().all(|kernel| kernel.measured.rules.is_empty()));
    let either: Vec<&Key> = raw_alone.kernels.iter().map(|kernel| &kernel.key).collect();
    assert_eq!(either, tables.kernels.iter().map(|kernel| &kernel.key).collect::<Vec<_>>());
}

#[test]
fn pages_may_come_in_any_order() {
    let one = read(&["matmul.raw.csv", "matmul.details.csv"]);
    let other = read(&["matmul.details.csv", "matmul.raw.csv"]);
    assert_eq!(one.kernels, other.kernels);
}

#[test]
fn kernels_of_equal_shape_stay_apart_and_known_counts_come_out() {
    let tables = read(&["shapes.raw.csv"]);
    assert_eq!(tables.kernels.len(), 11);
    let threads = 16.0 * 128.0;
    is(kernel(&tables, "plain_a", [16, 1, 1]).measured.flops.fp32, threads);
    is(kernel(&tables, "_Z8fma_loopILi100EEvPf", [16, 1, 1]).measured.flops.fp32, threads * 200.0);
    is(
        kernel(&tables, "_Z8fma_loopILi200EEvPf", [64, 1, 1]).measured.flops.fp32,
        threads * 4.0 * 400.0,
    );
    is(kernel(&tables, "_Z5fma64Pd", [16, 1, 1]).measured.flops.fp64, threads * 200.0);
    let hits = kernel(&tables, "_Z5fma16P7__half2", [8, 1, 1]).measured.l2_hit_percent;
    is(hits, 101.45);
}

#[test]
fn messages_before_a_table_and_nested_ranges_are_read() {
    let tables = read(&["nested.raw.csv"]);
    assert_eq!(tables.launches.len(), 8);
    let paths: Vec<String> = tables.launches.iter().map(|l| nvtx::path(&l.ranges)).collect();
    assert_eq!(paths[0], "outer/inner");
    assert_eq!(paths[2], "layer[0]@llm.stage2");
    assert_eq!(paths[3], "layer[0]@llm.stage2/mlp@llm.stage2");
}

#[test]
fn ranges_of_libraries_are_left_out() {
    let mut tables = read(&["nested.raw.csv"]);
    let in_domain = |label: &nvtx::Label| label.domain.is_some();
    assert!(tables.kernels.iter().any(|kernel| kernel.outermost.iter().any(in_domain)));
    tables.leave_out(&RangeNames::with(&["LLM.*".into()]));
    let paths: Vec<String> = tables.launches.iter().map(|l| nvtx::path(&l.ranges)).collect();
    assert_eq!((paths[0].as_str(), paths[2].as_str(), paths[3].as_str()), ("outer/inner", "", ""));
    assert!(!tables.kernels.iter().any(|kernel| kernel.outermost.iter().any(in_domain)));
}

#[test]
fn results_of_ranges_are_read() {
    let tables = read(&["ranges.raw.csv", "ranges.details.csv"]);
    let paths: Vec<String> = tables.launches.iter().map(|l| nvtx::path(&l.ranges)).collect();
    assert_eq!(paths, ["outer", "layer[0]@llm.stage2", "outer", "layer[0]@llm.stage2"]);
    assert!(tables.launches.iter().all(|l| l.kernel == "range" && l.grid == [0; 3]));
    assert_eq!(tables.launches[0].metrics["gpu__time_duration.sum"].value, 281_728.0);
}

const HEAD: &str = "\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\
\"gpu__time_duration.sum\",\"sm__throughput.avg.pct_of_peak_sustained_elapsed\",\"dram__bytes.sum\"\n\
\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"usecond\",\"%\",\"Mbyte\"\n";

fn row(id: u32, process: u32, device: u32, rest: &str) -> String {
    format!(
        "\"{id}\",\"{process}\",\"k\",\"(32, 1, 1)\",\"(4, 2, 1)\",\"{device}\",\"8.6\",{rest}\n"
    )
}

#[test]
fn processes_and_devices_are_told_apart_and_together() {
    let text = [
        HEAD,
        &row(0, 10, 0, "\"1.5\",\"50\",\"1\""),
        "==PROF== Disconnected from process 10\n",
        &row(0, 11, 0, "\"2.5\",\"n/a\",\"1\""),
        HEAD,
        &row(1, 11, 1, "\"1,000\",\"70\",\"2\""),
    ]
    .concat();
    let tables = read_text(&text);
    let [finding] = &tables.findings[..] else { panic!("{:?}", tables.findings) };
    assert!(finding.what.contains("1 counters have no value, e.g. sm__"), "{finding}");
    let [first, second] = tables.kernels.as_slice() else { panic!("{:?}", tables.kernels) };
    assert_eq!((first.key.grid, first.key.block), ([4, 2, 1], [32, 1, 1]));
    assert_eq!(first.measured.launches_profiled, 2);
    is(first.duration_ns, 2000.0);
    is(first.measured.sm_percent, 50.0);
    is(first.dram_bytes, 1e6);
    assert_eq!(second.key.device, 1);
    is(second.duration_ns, 1e6);
}

/// Hazard (Records that make no sense): ncu tables with impossible values.
/// Promise: The values are absent, and a finding reports it.
#[test]
fn values_that_cannot_be_are_absent_and_told() {
    let text =
        [HEAD, &row(0, 1, 0, "\"-5\",\"900\",\"nan\""), &row(1, 1, 0, "\"-5\",\"900\",\"inf\"")]
            .concat();
    let tables = read_text(&text);
    let kernel = &tables.kernels[0];
    assert_eq!(
        (kernel.duration_ns, kernel.measured.sm_percent, kernel.dram_bytes),
        (None, None, None)
    );
    says(&tables, "2 counters have no value");
    says(&tables, "2 impossible values");
    // A duration in cycles is no duration.
    let cycles =
        format!("{}{}", HEAD.replace("usecond", "cycle"), row(0, 1, 0, "\"5\",\"1\",\"1\""));
    assert_eq!(read_text(&cycles).kernels[0].duration_ns, None);
}

#[test]
fn damaged_files_give_what_is_whole_and_say_so() {
    let good = row(0, 1, 0, "\"1\",\"2\",\"3\"");
    for (text, kernels, part) in [
        (String::new(), 0, "holds no table"),
        ("==ERROR== Failed to load report file 'x'.\n".to_owned(), 0, "Failed to load report"),
        ("a,b\n1,2\n".to_owned(), 0, "holds no table"),
        (format!("{HEAD}{good}{}", row(1, 1, 0, "\"1\",\"2\",\"3").trim_end()), 1, "cut short"),
        (format!("{HEAD}{good}\"1\",\"1\",\"k\"\n"), 1, "do not have the 10 columns"),
        (format!("{}{good}", HEAD.lines().next().unwrap().to_owned() + "\n"), 1, "no row of units"),
        (
            "\"ID\",\"Process ID\",\"Name\"\n\"0\",\"1\",\"k\"\n".to_owned(),
            0,
            "no column \"Kernel Name\"",
        ),
        (
            "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\"\n".to_owned(),
            0,
            "no column \"Metric Value\"",
        ),
    ] {
        let tables = read_text(&text);
        assert_eq!(tables.kernels.len(), kernels, "{text}");
        says(&tables, part);
    }
}

#[test]
fn an_empty_capture_is_empty() {
    let tables = read_text(HEAD);
    assert!(tables.kernels.is_empty() && tables.launches.is_empty());
}

/// Whatever is cut off or flipped, reading ends, and does not panic.
#[test]
fn reading_damaged_pages_ends_without_a_panic() {
    for name in ["matmul.details.csv", "nested.raw.csv"] {
        let whole = text(name).into_bytes();
        let step = whole.len() / 60 + 1;
        for at in (0..whole.len()).step_by(step) {
            load([source(name, &whole[..at])]);
            let mut flipped = whole.clone();
            for place in (at..whole.len()).step_by(997) {
                flipped[place] ^= 0x15;
            }
            load([source(name, flipped.as_slice())]);
        }
    }
}

/// A raw page of `launches` launches with one metric.
fn page_of(launches: usize) -> String {
    let mut text = "\"ID\",\"Process ID\",\"Kernel Name\",\"Grid Size\",\"Block Size\",\"gpu__time_duration.sum\"\n\
                    \"\",\"\",\"\",\"\",\"\",\"ns\"\n"
        .to_owned();
    for id in 0..launches {
        text += &format!("\"{id}\",\"7\",\"k\",\"(1, 1, 1)\",\"(1, 1, 1)\",\"10\"\n");
    }
    text
}

#[test]
fn more_launches_than_are_kept_are_told() {
    let tables = read_text(&page_of(MAX_LAUNCHES));
    assert_eq!((tables.launches.len(), tables.findings.len()), (MAX_LAUNCHES, 0));
    let tables = read_text(&page_of(MAX_LAUNCHES + 3));
    assert_eq!(tables.launches.len(), MAX_LAUNCHES);
    let [finding] = &tables.findings[..] else { panic!("{:?}", tables.findings) };
    assert!(finding.why.contains("3 rows of further ones"), "{finding}");
}

#[test]
fn a_record_that_never_ends_takes_no_more_memory_than_the_longest_may() {
    // A quote that is never closed, and 4 GB of zeros behind it: what was read before is kept.
    let start = page_of(2) + "\"2\",\"7\",\"k";
    let endless = start.as_bytes().chain(std::io::repeat(0).take(4 << 30));
    let started = std::time::Instant::now();
    let tables = load([source("x.csv", endless)]);
    assert_eq!(tables.launches.len(), 2);
    says(&tables, "more than 16 MiB");
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}

#[test]
fn a_page_without_a_row_says_so() {
    let details = "\"ID\",\"Process ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\
                   \"Metric Unit\",\"Metric Value\"\n";
    for text in [HEAD, details] {
        let tables = read_text(text);
        says(&tables, "no row of a launch");
    }
    assert!(read_text(&page_of(1)).findings.is_empty());
}

/// A raw page of so many launches with so many metrics.
fn wide_page(launches: usize, metrics: usize) -> String {
    let names: Vec<String> = (0..metrics).map(|at| format!("\"m{at}\"")).collect();
    let start = "\"ID\",\"Process ID\",\"Kernel Name\",\"Grid Size\",\"Block Size\"";
    let mut text = format!("{start},{}\n\"\",\"\",\"\",\"\",\"\"", names.join(","));
    text += &format!("{}\n", ",\"ns\"".repeat(metrics));
    for id in 0..launches {
        let values = ",1".repeat(metrics);
        text += &format!("\"{id}\",\"7\",\"k\",\"(1, 1, 1)\",\"(1, 1, 1)\"{values}\n");
    }
    text
}

#[test]
fn more_columns_than_a_table_has_are_refused_by_name() {
    let whole = read_text(&wide_page(2, MAX_COLUMNS - 5));
    assert_eq!((whole.launches.len(), whole.findings.len()), (2, 0));
    let wide = read_text(&wide_page(2, MAX_COLUMNS));
    let [finding] = &wide.findings[..] else { panic!("{:?}", wide.findings) };
    assert!(finding.what.contains("x.csv: a row of 20005 cells"), "{finding}");
    // A row that is wider than the header.
    let ragged = page_of(2) + &format!("\"2\",\"7\",\"k\"{}\n", ",1".repeat(MAX_COLUMNS));
    let ragged = read_text(&ragged);
    assert_eq!(ragged.launches.len(), 2);
    says(&ragged, "20003 cells");
}

#[test]
fn values_beyond_the_room_are_left_out_and_counted() {
    // A hundred launches with so many values each as fill the room, and ten more.
    let tables = read_text(&wide_page(110, 10_000));
    assert_eq!(tables.launches.len(), 100);
    says(&tables, "10 rows of a report");
    let page = page_of(1);
    let wide = wide_page(99, 10_000);
    // The room is that of all reports together.
    let both =
        load_reports([[source("a.csv", wide.as_bytes())], [source("b.csv", wide.as_bytes())]]);
    let kept = both.launches.len();
    assert_eq!(kept, 100, "{:?}", both.findings);
    assert!(load([source("c.csv", page.as_bytes())]).findings.is_empty());
}

#[test]
fn texts_beyond_the_room_are_left_out_and_counted() {
    let name = "k".repeat(8 << 20);
    let mut page = page_of(0);
    for id in 0..10 {
        page += &format!("\"{id}\",\"7\",\"{name}\",\"(1, 1, 1)\",\"(1, 1, 1)\",\"10\"\n");
    }
    let tables = read_text(&page);
    assert_eq!(tables.launches.len(), 8);
    says(&tables, "2 rows of a report");
}

#[test]
fn rules_without_end_are_cut() {
    let mut page = "\"ID\",\"Process ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\
                    \"Metric Unit\",\"Metric Value\",\"Rule Name\",\"Rule Description\"\n"
        .to_owned();
    for rule in 0..MAX_RULES + 50 {
        page += &format!("\"0\",\"7\",\"k\",\"s\",\"\",\"\",\"\",\"rule {rule}\",\"text\"\n");
    }
    let tables = read_text(&page);
    assert_eq!(tables.launches[0].rules.len(), MAX_RULES);
    says(&tables, "50 rules were left out");
    assert_eq!(tables.kernels[0].measured.rules.len(), MAX_RULES);
}

const DETAILS: &str = "\"ID\",\"Process ID\",\"Host Name\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\
\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";

/// A row of a details page: launch, host, kernel, metric and its value.
fn told(id: u32, host: &str, kernel: &str, metric: &str, value: &str) -> String {
    let unit = if metric == "Duration" { "us" } else { "%" };
    format!(
        "\"{id}\",\"7\",\"{host}\",\"{kernel}\",\"(32, 1, 1)\",\"(4, 1, 1)\",\
         \"GPU Speed Of Light Throughput\",\"{metric}\",\"{unit}\",\"{value}\"\n"
    )
}

/// Kernels with their launches, mean duration and share of DRAM, as text.
fn shown(tables: &Tables) -> Vec<String> {
    let kernel = |kernel: &KernelCounters| {
        let Key { kernel: name, .. } = &kernel.key;
        let (duration, dram) = (kernel.duration_ns, kernel.measured.dram_percent);
        let some = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| v.to_string());
        format!("{name} {} {} {}", kernel.measured.launches_profiled, some(duration), some(dram))
    };
    tables.kernels.iter().map(kernel).collect()
}

/// Whatever stands around rows, no launch is lost, mixed with another one, or dropped without a word.
#[test]
fn rows_are_found_among_anything_and_what_is_lost_is_told() {
    let a = told(0, "h", "a", "Duration", "10.00");
    let b = told(1, "h", "b", "Duration", "5.00");
    let of_b0 = told(0, "h", "b", "Duration", "5.00");
    let a_dram = told(0, "h", "a", "DRAM Throughput", "42.00");
    let b_dram = told(1, "h", "b", "DRAM Throughput", "88.00");
    let both = ["a 1 10000 -", "b 1 5000 -"];
    let raw = |id: u32, kernel: &str, us: &str| {
        format!(
            "\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"gpu__time_duration.sum\"\n\
             \"\",\"\",\"\",\"\",\"\",\"us\"\n\
             \"{id}\",\"7\",\"{kernel}\",\"(32, 1, 1)\",\"(4, 1, 1)\",\"{us}\"\n"
        )
    };
    let (open_a, open_b, (begun, ended)) = (a.trim_end(), b.trim_end(), a.split_at(40));
    let odd = a.replace("\"0\",\"7\"", "\"x\",\"7\"");
    let of_other = a.replace("\"h\"", "\"other\"");
    let two_pages = raw(0, "a", "10.25") + &format!("{DETAILS}{a}{a_dram}{b}{b_dram}");
    let quoted = a.replace("\"a\"", "\"f\"\"\"");
    let bare = a.replace("\"a\"", "\"f<\"x\">\"");
    let unknown = a.replace("Duration\",\"us", "Ultra Throughput\",\"%");
    let beyond = a_dram.replace("42.00", "4,200.00");
    let lasts = |value: &str| a.replace("10.00", value);
    let no_value = "1 durations have no value, e.g. gpu__time_duration.sum = soon";
    for (what, text, expected, said) in [
        ("a log line that opens a quote", format!("{a}\"loading\n{b}"), &both[..], ""),
        ("a cell that opens a quote", format!("{a}3,\"x\n{b}"), &both, ""),
        ("output before a row", format!("{a}tokens/s: 31.5{b}"), &both, ""),
        ("a message before a row", format!("{a}==PROF== 100% - 9 passes{b}"), &both, ""),
        ("output behind a row", format!("{open_a}step \"2\", done\n{b}"), &both, ""),
        ("a row, output and a row", format!("{open_a}epoch 3{b}"), &both, ""),
        ("two rows in a line", format!("{open_a}{b}"), &both, ""),
        ("a bar that goes back", format!("{a} 99%|#|\r100%|#|\r{b}"), &both, ""),
        ("a row within a row", format!("{begun}{b}"), &both[1..], "line 2"),
        ("a row in two lines", format!("{begun}\n{ended}{b}"), &both[1..], "line 2"),
        ("a row cut by a report", format!("{begun}\nx\n{DETAILS}{b}"), &both[1..], "line 2"),
        ("a row that is none", format!("{odd}{b}"), &both[1..], "line 2"),
        ("two reports", format!("{a}{a_dram}{DETAILS}{of_b0}"), &["a 1 10000 42", both[1]], ""),
        ("two reports of one kernel", format!("{a}{DETAILS}{a}"), &["a 2 10000 -"], ""),
        ("the same without headers", format!("{a}{a_dram}{a}{a_dram}"), &["a 2 10000 42"], ""),
        ("another kernel", format!("{a}{of_b0}"), &both, ""),
        ("two hosts in turns", format!("{a}{of_other}{a_dram}"), &["a 2 10000 42"], ""),
        ("two raw pages", raw(0, "a", "10.00") + &raw(0, "b", "5.00"), &both, ""),
        ("raw page and details", two_pages, &["a 1 10250 42", "b 1 5000 88"], ""),
        ("a file without its last line end", format!("{a}{open_b}"), &both, ""),
        ("a file that ends in a row", format!("{a}{}", &b[..60]), &both[..1], "cut short"),
        ("a quote in a name", quoted + &b, &[both[1], "f\" 1 10000 -"], ""),
        ("a bare quote in a name", bare + &b, &[both[1], "f<\"x\"> 1 10000 -"], "demangled"),
        ("an unknown name", a.clone() + &unknown, &both[..1], "Ultra Throughput"),
        ("a duration in words", b.clone() + &lasts("soon"), &["a 1 - -", both[1]], no_value),
        ("a share beyond the peak", a.clone() + &beyond, &both[..1], "impossible value"),
        ("a value with an exponent", b.clone() + &lasts("1.0e+01"), &both, ""),
        ("instances behind a value", b.clone() + &lasts("10.00 (4.00; 6.00)"), &both, ""),
        ("nothing tells what a point is", lasts("9.472"), &["a 1 - -"], "two ways"),
    ] {
        let head = if text.starts_with("\"ID\"") { "" } else { DETAILS };
        let tables = read_text(&format!("{head}{text}"));
        assert_eq!(shown(&tables), expected, "{what}: {:?}", tables.findings);
        let told: Vec<String> = tables.findings.iter().map(ToString::to_string).collect();
        let as_said =
            if said.is_empty() { told.is_empty() } else { told.iter().any(|t| t.contains(said)) };
        assert!(as_said, "{what}: {told:?}");
    }
}

#[test]
fn a_summary_stands_for_its_launches_and_other_forms_are_refused_by_name() {
    let head = "\"Process ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"Invocations\",\
                \"Section Name\",\"Metric Name\",\"Metric Unit\",\"Minimum\",\"Maximum\",\"Average\"\n";
    let row = |grid: u32, count: &str, metric: &str, rest: &str| {
        format!("\"7\",\"k\",\"(32, 1, 1)\",\"({grid}, 1, 1)\",\"{count}\",\"s\",{metric},{rest}\n")
    };
    let duration = "\"Duration\",\"us\"";
    let text = [
        head,
        &row(4, "14", duration, "\"10.00\",\"12.00\",\"11.00\""),
        &row(4, "14", "\"DRAM Throughput\",\"%\"", "\"40.00\",\"44.00\",\"42.00\""),
        &row(1, "2", duration, "\"1.00\",\"3.00\",\"2.00\""),
        &row(2, "1,000", duration, "\"1.00\",\"3.00\",\"2.00\""),
        &row(1, "0", duration, "\"1.00\",\"3.00\",\"2.00\""),
    ]
    .concat();
    let tables = read_text(&text);
    assert_eq!(shown(&tables), ["k 2 2000 -", "k 1000 2000 -", "k 14 11000 42"]);
    assert_eq!(tables.launches[0].duration_ends_ns, Some((10_000.0, 12_000.0)));
    says(&tables, "1 rows are as long");
    for (text, part) in [
        (
            "\"Process ID\",\"Process Name\",\"Device\",\"Invocations\",\"Metric Name\"\n\"7\",\"p\",\"0\",\"3\",\"x\"\n",
            "--print-summary per-kernel",
        ),
        (
            "==PROF== Connected\n[7] python3@host\n  k (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 9.0\n    Section: Occupancy\n",
            "text output",
        ),
        ("  gemm, 2020-Mar-03 10:00:00, Context 1, Stream 7\n", "--csv"),
        ("\"#\",\"Address\",\"Source\",\"Samples\"\n\"1\",\"0\",\"MOV\",\"3\"\n", "source page"),
        ("Time (%),Total Time (ns),Instances,Avg (ns),Name\n", "--nsys"),
    ] {
        let tables = read_text(text);
        assert!(tables.launches.is_empty(), "{text}");
        says(&tables, part);
    }
}

#[test]
fn pages_of_a_report_share_its_name() {
    for (raw, details) in [
        ("raw.csv", "details.csv"),
        ("run.raw.csv", "run.details.csv"),
        ("ncu_raw.csv", "ncu_details.csv"),
        ("Raw_run7.csv", "details_run7.csv"),
        ("ncu_raw-2.csv", "ncu_details-2.csv"),
    ] {
        assert_eq!(report_name(raw), report_name(details));
    }
    assert_ne!(report_name("a.raw.csv"), report_name("b.raw.csv"));
    assert_ne!(report_name("raw.csv"), report_name("raw-2.csv"));
    assert_eq!(report_name("drawing.csv"), "drawing");
}
