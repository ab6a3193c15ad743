//! Tables of ncu as they lie about in public: other versions, locales, shells and accidents. Each
//! folder of tests/fixtures/public says in EXPECTED what has to come of it.

use std::fs;

use serde_json::Value;

use super::{Bundle, Place, fixture};
use crate::common::{self, expect_parts, stderr};

/// What is looked at of a row, as text: `gemm 108: 2 x, 20000 ns, dram 42`. What is absent is left out.
fn shown(row: &Value) -> String {
    let grid = row["launch"]["grid"][0].as_u64().map_or_else(String::new, |x| format!(" {x}"));
    let name = row["kernel"].as_str().unwrap_or_default();
    let mut text = format!("{name}{grid}: {} x", row["calls"]);
    if !row["total_ns"].is_null() {
        text += &format!(", {} ns", row["total_ns"]);
    }
    let counters = &row["counters"];
    for (of, label) in [
        ("sm_percent", "sm"),
        ("memory_percent", "memory"),
        ("dram_percent", "dram"),
        ("achieved_occupancy_percent", "occupancy"),
    ] {
        text +=
            &counters[of].as_f64().map_or_else(String::new, |value| format!(", {label} {value}"));
    }
    let bytes = counters["roofline"]["dram_bytes"].as_f64();
    text + &bytes.map_or_else(String::new, |bytes| format!(", {bytes} bytes"))
}

fn rows(bundle: &Bundle) -> Vec<String> {
    let metrics = bundle.json("metrics.json");
    let mut rows: Vec<String> =
        metrics["kernels"].as_array().expect("rows").iter().map(shown).collect();
    rows.sort();
    rows
}

/// Each file, its rows, and behind `says` what the findings say of it.
const TABLES: &str = "
ncu-all-units-ms-s/u.csv
  a 108: 1 x, 1500000 ns
  b 108: 1 x, 500000000 ns
  c 108: 1 x, 1500000 ns
  d 108: 1 x, 500000000 ns
  e 108: 1 x, 1500 ns
ncu-decimal-comma/de.csv
  gemm 108: 1 x, 1117180 ns, sm 61.5, dram 41.25
  norm 108: 1 x, 9472000 ns, sm 5.125, dram 80.125
  says decimal commas
ncu-glued-header/g.csv
  attn 108: 1 x, 7000 ns
  gemm 108: 1 x, 10000 ns
  norm 108: 1 x, 5000 ns
ncu-metrics-only/m.csv
  gemm 108: 1 x, 10000 ns, sm 61, dram 42, 4000000 bytes
  norm 108: 1 x, 20000 ns, 1500000 bytes
ncu-na-values/na.csv
  attn 108: 1 x
  gemm 108: 1 x, 10000 ns
  says 2 counters have no value
ncu-old-names-2020/old.csv
  gemm: 1 x, 10000 ns, sm 61.5, memory 30, dram 42, occupancy 50
ncu-raw-no-units/raw.csv
  gemm 108: 1 x
  says no row of units
ncu-same-kernel-other-grid/g.csv
  gemm 108: 2 x, 20000 ns
  gemm 1: 1 x, 1000 ns
ncu-summary-per-kernel/sum.csv
  gemm 108: 14 x, 154000 ns, dram 42
ncu-two-reports-in-one/two.csv
  gemm 108: 2 x, 30000 ns
  norm 108: 1 x, 30000 ns
ncu-two-reports-in-one/mix.csv
  gemm 108: 1 x, 10000 ns
  norm 108: 1 x, 30000 ns, dram 88
ncu-utf16/ps.csv
  gemm 108: 1 x, 10000 ns, dram 42";

#[test]
fn every_public_table_gives_what_it_holds_or_the_reason_why_not() {
    for case in TABLES.split("\nncu-").skip(1) {
        let (file, lines) = case.split_once('\n').expect("a file and its rows");
        let (said, expected): (Vec<&str>, Vec<&str>) =
            lines.lines().map(str::trim).partition(|line| line.starts_with("says "));
        let place = Place::new();
        place.put(&format!("public/ncu-{file}"), "run.csv");
        let bundle = place.merged(&["--ncu", "run.csv"]);
        assert_eq!(rows(&bundle), expected, "{file}");
        for said in said {
            expect_parts(&bundle.text("report.md"), file, &[&said["says ".len()..]]);
        }
    }
    let place = Place::new();
    place.put("public/ncu-text-output/run.csv", "run.csv");
    let refused = place.merge(&["--ncu", "run.csv"]).assert().failure();
    expect_parts(&stderr(&refused), "run.csv", &["text that ncu prints", "--csv"]);
}

/// One table, as different programs and shells write it.
#[test]
fn the_bytes_and_separators_of_other_systems_change_nothing() {
    let path = fixture("public/ncu-metrics-only/m.csv");
    let plain = fs::read_to_string(path).expect("table");
    let expected = [
        "gemm 108: 1 x, 10000 ns, sm 61, dram 42, 4000000 bytes",
        "norm 108: 1 x, 20000 ns, 1500000 bytes",
    ];
    let crlf = plain.replace('\n', "\r\n");
    let wide = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    };
    let bom = |text: &str| format!("\u{feff}{text}");
    let messages = plain.replace('\n', "\n==PROF== Profiling \"x\" - 1: 0%....100% - 9 passes\n");
    let unquoted = plain.replace("\",\"", "\t").replace('"', "");
    for (how, bytes) in [
        ("UTF-8 with a mark", bom(&plain).into_bytes()),
        ("UTF-16, little endian", wide(&crlf, u16::to_le_bytes)),
        ("UTF-16, big endian", wide(&plain, u16::to_be_bytes)),
        ("UTF-16, little endian, with a mark", wide(&bom(&plain), u16::to_le_bytes)),
        ("UTF-16, big endian, with a mark", wide(&bom(&crlf), u16::to_be_bytes)),
        ("carriage returns", crlf.into_bytes()),
        ("messages", messages.into_bytes()),
        ("tabs", plain.replace("\",\"", "\"\t\"").into_bytes()),
        ("tabs without quotes", unquoted.into_bytes()),
        ("semicolons", plain.replace("\",\"", "\";\"").into_bytes()),
        (
            "French, a space between groups",
            plain.replace(".00\"", ",00\"").replace("1,000", "1\u{202f}000").into_bytes(),
        ),
        ("Swiss", plain.replace("1,000", "1’000").into_bytes()),
    ] {
        let place = Place::new();
        fs::write(place.path("run.csv"), bytes).expect("table");
        assert_eq!(rows(&place.merged(&["--ncu", "run.csv"])), expected, "{how}");
    }
}

/// Absent is not zero, on no page.
#[test]
fn a_kernel_that_was_not_timed_has_no_time_anywhere() {
    let place = Place::new();
    place.put("public/ncu-na-values/na.csv", "run.csv");
    let bundle = place.merged(&["--ncu", "run.csv"]);
    let row =
        |name: &str| bundle.rows().into_iter().find(|row| row["kernel_name"] == name).expect("row");
    let attn = row("attn");
    assert_eq!((&*attn["calls"], &*attn["total_ns"], &*attn["kernel_sum_percent"]), ("1", "", ""));
    assert_eq!(
        (&*row("gemm")["total_ns"], &*row("gemm")["kernel_sum_percent"]),
        ("10000", "100.000000")
    );
    let metrics = bundle.json("metrics.json");
    let attn = common::row(&metrics["kernels"], "kernel", "attn");
    assert!(attn["total_ns"].is_null() && attn["kernel_sum_percent"].is_null(), "{attn:#}");
    for page in ["kernels.md", "stakeholder_summary.md", "report.md"] {
        for line in bundle.text(page).lines().filter(|line| line.contains("`attn`")) {
            assert!(!line.contains("0.0"), "{page}: {line}");
        }
    }
    assert!(bundle.text("kernels.md").contains("shares are of those with a time"));
    assert!(!bundle.said.contains("attn (0.0 %)"), "{}", bundle.said);
}

/// The readers of nsys's tables see the same text.
#[test]
fn tables_of_nsys_may_have_any_encoding_too() {
    let table = "Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Name\n\
                 100.0,3000,2,1500.0,1000,2000,gemm\n";
    let place = Place::new();
    let bytes: Vec<u8> =
        format!("\u{feff}{table}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(place.path("x_cuda_gpu_kern_sum.csv"), bytes).expect("table");
    let bundle = place.merged(&["--nsys", "x_cuda_gpu_kern_sum.csv"]);
    assert_eq!(rows(&bundle), ["gemm: 2 x, 3000 ns"]);
}
