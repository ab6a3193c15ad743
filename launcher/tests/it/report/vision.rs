//! Parts of a vision encoder as ranges within prefill, or before it: rows and MFU of their own.

use std::fs;
use std::path::Path;

use serde_json::Value;
use stage2_contract::trace::NONE;
use stage2_launch::reports::write_reports;

use crate::report::build::Build;
use crate::report::insight;

/// The model of `insight` with FLOPs that are given, so that the numbers can be followed: prefill has 960
/// for its text, and two images.
fn config() -> String {
    let parts = "    vision_part_flops_per_prefill: {sam: 4000, clip: 2000, projector: 100}\n";
    insight::CONFIG
        .replace("tokens: {", "tokens: {batch_size: 1, prompt_tokens: 3, ")
        .replace("    shape:\n", &format!("{parts}    shape:\n"))
}

/// Two prefills of 20 us. In each `sam` runs twice with 2 us of GPU time, `clip` once with 3 us in
/// a range of its own, and `projector` once with 1 us.
fn nested() -> Build {
    let mut b = Build::process(1, "python3");
    b.anchor(1).anchor(200_000).device(0, "NVIDIA H200", 1);
    b.name(1, b"prefill").name(2, b"sam").name(3, b"clip").name(4, b"projector").name(5, b"gemm");
    b.shape(1, 5, 8);
    b.path(1, NONE, 1).path(2, 1, 2).path(3, 1, 3).path(4, 1, 4).path(5, 3, 5);
    for (i, start) in [(0, 10_000), (1, 110_000)] {
        let range = |n: u64| n + 10 * i;
        let prefill = range(1);
        b.open(prefill, 1, 0, start);
        for (n, at) in [(2, start + 1_000), (3, start + 4_000)] {
            b.open(range(n), 2, prefill, at).kernel(range(n), 1, 1, (at + 500, at + 2_500));
            b.close(range(n), at + 1_000);
        }
        b.open(range(4), 3, prefill, start + 7_000);
        b.open(range(5), 5, range(4), start + 7_100);
        b.kernel(range(5), 1, 1, (start + 8_000, start + 11_000)).close(range(5), start + 7_200);
        b.close(range(4), start + 8_000);
        b.open(range(6), 4, prefill, start + 12_000);
        b.kernel(range(6), 1, 1, (start + 12_500, start + 13_500));
        b.close(range(6), start + 12_600).close(prefill, start + 20_000);
    }
    b.end();
    b
}

/// The summary, report.md, and metrics.json.
fn reports(b: &Build, config: &str) -> ([String; 2], Value) {
    let folder = tempfile::tempdir().expect("folder");
    b.save(folder.path(), "a.s2t");
    fs::write(folder.path().join("config.yaml"), config).expect("config.yaml");
    write_reports(folder.path()).expect("reports");
    let read = |name: &str| fs::read_to_string(Path::new(folder.path()).join(name)).expect(name);
    let metrics = serde_json::from_str(&read("metrics.json")).expect("JSON");
    ([read("stakeholder_summary.md"), read("report.md")], metrics)
}

fn row<'p>(page: &'p str, heading: &str, first: &str) -> Vec<&'p str> {
    let (_, section) = page.split_once(&format!("## {heading}\n")).expect("heading");
    let section = section.split("\n## ").next().expect("section");
    let start = format!("| {first} |");
    let line = section.lines().find(|line| line.starts_with(&start));
    let line = line.unwrap_or_else(|| panic!("{first} is in no row of {heading}: {section}"));
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn parts_within_prefill_have_rows_and_mfu() {
    let ([page, whole], metrics) = reports(&nested(), &config());
    // Name and median first, instances and the range around it last.
    let stages = |name: &str| row(&page, "Per-Stage Timings", name);
    assert_eq!(stages("`sam`")[..2], ["`sam`", "0.001"]);
    for (part, instances) in [("`sam`", "3"), ("`clip`", "1"), ("`projector`", "1")] {
        assert_eq!(stages(part)[5..], [instances, "`prefill`"]);
    }
    assert_eq!(stages("`prefill`")[6], "–");

    // The peak is 1 GFLOP/s. An instance of sam has half of 4000 FLOPs in 2 us.
    let mfu = |name: &str| row(&page, "MFU", name)[1].to_owned();
    assert_eq!(mfu("`sam`"), "100.000");
    assert_eq!(mfu("`clip`"), "66.667");
    assert_eq!(mfu("`projector`"), "10.000");
    assert_eq!(row(&whole, "Model FLOP utilisation", "`clip`")[3], "0.003", "time in ms");
    assert!(page.contains("Within prefill: sam, clip, projector."), "{page}");

    let of = |stage: &str| {
        let stages = metrics["utilisation"]["stages"].as_array().expect("stages");
        stages.iter().find(|row| row["stage"] == stage).expect("stage").clone()
    };
    let known = |value: &Value| value["known"].as_f64().expect("a number");
    let text = known(&of("prefill")["flops"]) - 6100.0;
    assert!((text - 1296.0).abs() < 1e-9, "{text}");
    assert_eq!(of("sam")["within"], "prefill");
    assert_eq!(known(&of("sam")["flops"]), 2000.0);
}

#[test]
fn parts_before_prefill_are_stages_of_the_model() {
    let mut b = Build::process(1, "python3");
    b.anchor(1).anchor(200_000).device(0, "NVIDIA H200", 1);
    b.name(1, b"prefill").name(2, b"sam").name(3, b"gemm").name(4, b"decode").shape(1, 3, 8);
    b.path(1, NONE, 1).path(2, NONE, 2).path(3, NONE, 4);
    for (i, start) in [(0, 10_000), (1, 110_000)] {
        for (n, path, at) in [(1, 2, start), (2, 1, start + 10_000), (3, 3, start + 20_000)] {
            let range = n + 10 * i;
            b.open(range, path, 0, at).kernel(range, 1, 1, (at + 1_000, at + 5_000));
            b.close(range, at + 10_000);
        }
    }
    b.end();
    let ([page, whole], metrics) = reports(&b, &config());
    // 4000 FLOPs in 10 us of wall time.
    assert_eq!(row(&page, "MFU", "`sam`")[1], "40.000");
    assert_eq!(row(&whole, "Model FLOP utilisation", "`sam`")[3], "0.010", "time in ms");
    assert_eq!(row(&page, "Per-Stage Timings", "`sam`")[0], "`sam`");
    assert!(!page.contains("| Within |"), "{page}");
    let wall = &metrics["utilisation"]["model"]["wall_s"]["known"];
    assert!((wall.as_f64().expect("known") - 30e-6).abs() < 1e-12, "{wall}");
}
