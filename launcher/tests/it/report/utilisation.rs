//! What follows from the measured rows: numbers that were worked out by hand, and what is said
//! where nothing is known. Parts of a vision encoder as ranges within prefill, or before it.

use crate::common;
use crate::common::trace::{Build, RunFolder};
use serde_json::Value;
use stage2_contract::trace::{NONE, Record};
use stage2_model::Report;

/// One layer of width 4, with 64 weights in attention, 96 in the MLP and 40 in the output.
pub(crate) const CONFIG: &str = "
operators: {annotate: [], pattern: null, top_n: 1}
model:
  tokens: {decode_steps: 2}
  llm:
    name: tiny
    dtype: bf16
    shape:
      hidden_size: 4
      num_hidden_layers: 1
      vocab_size: 10
      tie_word_embeddings: false
      attention: {num_attention_heads: 1, num_key_value_heads: 1, head_dim: 4, sliding_window: null, num_sliding_layers: 0, mla: null}
      mlp: {intermediate_size: 8, gated: true}
hardware: {dense_tflops: {bf16: 0.001}, memory_gb_per_s: 1}
";
const METRICS: &str = r#"{"batch_size": 1, "prompt_tokens": 3, "decode_steps": 99}"#;
const GEMM: &[u8] = b"_ZN7cutlass7Kernel2I62cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_nn_align8EEvNT_6ParamsE";

/// Two generations: prefill of 10 us with 4 us of GPU time, decode of 20 us with 10 us.
fn run(device_of_decode: u32) -> Build {
    let mut b = Build::process(1, "python3");
    b.anchor(1).anchor(200_000).device(0, "NVIDIA H200", 1).device(1, "NVIDIA H200", 40);
    b.name(1, b"prefill").name(2, b"decode").name(3, b"aten::mm").name(4, GEMM).shape(1, 4, 8);
    b.name(5, b"aten::add").path(1, NONE, 1).path(2, NONE, 2).path(3, 2, 3).path(4, 2, 5);
    for (i, start) in [(0, 10_000), (1, 110_000)] {
        let (prefill, decode) = (1 + 10 * i, 2 + 10 * i);
        b.open(prefill, 1, 0, start).kernel(prefill, 1, 1, (start + 2_000, start + 6_000));
        b.close(prefill, start + 10_000).open(decode, 2, 0, start + 10_000);
        b.open(decode + 1, 3, decode, start + 11_000);
        let (first, second) = ((start + 12_000, start + 16_000), (start + 20_000, start + 26_000));
        b.kernel(decode + 1, 1, 1 + device_of_decode, first).close(decode + 1, start + 14_000);
        b.kernel(decode, 1, 1 + device_of_decode, second);
        b.open(decode + 2, 4, decode, start + 27_000).close(decode + 2, start + 28_000);
        b.close(decode, start + 30_000);
    }
    b.end();
    b
}

/// A folder with a trace file, a configuration, and what a Stage 1 run left.
fn folder(build: &Build, config: &str, metrics: Option<&str>) -> RunFolder {
    let folder = RunFolder::of([build]);
    folder.write("config.yaml", config);
    if let Some(metrics) = metrics {
        folder.write("stage1/metrics.json", metrics);
    }
    folder
}

/// Fails unless a number of a stage is this.
fn known(metrics: &Value, stage: &str, field: &str, expected: f64) {
    let row = common::row(&metrics["utilisation"]["stages"], "stage", stage);
    near(row, &format!("/{field}/known"), expected);
}

fn near(metrics: &Value, pointer: &str, expected: f64) {
    let found = metrics.pointer(pointer).and_then(Value::as_f64);
    let found = found.unwrap_or_else(|| panic!("{pointer}: {metrics:#}"));
    assert!((found / expected - 1.0).abs() < 1e-9, "{pointer}: {found} against {expected}");
}

/// Four generations like those of [`run`], of which the GPU work of one alone was recorded.
fn sampled_run() -> Build {
    let mut b = Build::process(1, "python3");
    b.anchor(1).anchor(500_000).device(0, "NVIDIA H200", 1).meta("sample", "1/4");
    b.name(1, b"prefill").name(2, b"decode").name(4, GEMM).shape(1, 4, 8);
    b.path(1, NONE, 1).path(2, NONE, 2);
    for i in 0..4 {
        let (start, recorded) = (10_000 + 100_000 * i, i == 1);
        let (prefill, decode) = (1 + 10 * i, 2 + 10 * i);
        b.open(prefill, 1, 0, start).add(Record::RangeSample { range: prefill, recorded });
        b.close(prefill, start + 10_000).open(decode, 2, 0, start + 10_000);
        b.add(Record::RangeSample { range: decode, recorded });
        if recorded {
            b.kernel(prefill, 1, 1, (start + 2_000, start + 6_000));
            b.kernel(decode, 1, 1, (start + 12_000, start + 16_000));
            b.kernel(decode, 1, 1, (start + 20_000, start + 26_000));
        }
        b.close(decode, start + 30_000);
    }
    b.end();
    b
}

#[test]
fn a_sample_gives_the_utilisation_of_the_whole_run() {
    let folder = folder(&sampled_run(), CONFIG, Some(METRICS));
    let outcome = folder.reports();
    let metrics = folder.metrics();
    // As in the whole run: the recorded instances are like all others.
    known(&metrics, "prefill", "mfu_wall", 0.1136);
    known(&metrics, "prefill", "mfu_busy", 0.284);
    known(&metrics, "decode", "mfu_wall", 0.0472);
    known(&metrics, "decode", "mfu_busy", 0.0944);
    known(&metrics, "decode", "kernels_per_token", 1.0);
    known(&metrics, "decode", "mbu_wall", (816.0 + 9.0 * 16.0) / 20e-6 / 1e9);
    near(&metrics, "/utilisation/model/mfu_wall/known", 2080.0 / 30e-6 / 1e9);
    near(&metrics, "/utilisation/model/generated_tokens_per_s/known", 100_000.0);
    let rows = metrics["utilisation"]["stages"].as_array().expect("stages");
    for row in rows {
        assert_eq!(row["basis"], "mean of the 1 recorded of 4 calls");
    }
    let summary = folder.text("stakeholder_summary.md");
    assert!(summary.contains("Only some instances of ranges were recorded"), "{summary}");
    let stage =
        outcome.headline.evidence.iter().find(|line| line.starts_with("decode:")).expect("line");
    assert!(stage.contains("8 kernels, GPU busy 10.0 us in the sample"), "{stage}");
}

#[test]
fn utilisation_is_what_a_pocket_calculator_gives() {
    let folder = folder(&run(0), CONFIG, Some(METRICS));
    let whole: Report = folder.report();
    let metrics = folder.metrics();
    assert_eq!(metrics["schema_version"], 2);
    let used = whole.insight.utilisation.as_ref().expect("utilisation");
    assert_eq!((used.peak_dense_tflops(), used.absent.as_ref()), (Some(0.001), None));
    assert_eq!((used.tokens.prompt_tokens, used.tokens.decode_steps), (Some(3), Some(2)));
    // 2 x 3 tokens x 160 weights, 2 x 40 of the projection of the last token, and 2 x 8 x (1 + 2 + 3) for the scores; the
    // peak is 10^9 FLOP/s.
    known(&metrics, "prefill", "flops", 1136.0);
    known(&metrics, "prefill", "mfu_wall", 0.1136);
    known(&metrics, "prefill", "mfu_busy", 0.284);
    // 2 x 2 tokens x 200 weights, and 2 x 8 x (4 + 5).
    known(&metrics, "decode", "flops", 944.0);
    known(&metrics, "decode", "mfu_wall", 0.0472);
    known(&metrics, "decode", "mfu_busy", 0.0944);
    known(&metrics, "decode", "kernels_per_token", 1.0);
    known(&metrics, "decode", "gpu_us_per_token", 5.0);
    // 2 steps x (200 weights + 4 of the embedding) x 2 bytes, and 16 bytes of keys and values for
    // each of 4 + 5 tokens; the peak is 10^9 bytes/s.
    known(&metrics, "decode", "mbu_wall", (816.0 + 9.0 * 16.0) / 20e-6 / 1e9);
    near(&metrics, "/utilisation/model/mfu_wall/known", 2080.0 / 30e-6 / 1e9);
    // One token from prefill and two from decode, in 30 us.
    near(&metrics, "/utilisation/model/generated_tokens_per_s/known", 100_000.0);

    let report = folder.text("report.md");
    assert!(report.contains("(set in the configuration: dense"), "{report}");
    assert!(report.contains("| `prefill` | 3 | 11.36 | 28.40 |"), "{report}");
    let (_, appendix) = report.split_once("## Whole run, with warm-up").expect("an appendix");
    let gemm = appendix.lines().find(|line| line.starts_with("| gemm |")).expect("a class");
    assert!(gemm.contains("| 100.0 |"), "{gemm}");
    let summary = folder.text("stakeholder_summary.md");
    assert!(summary.contains("| `Model-level` | 6.93 |"), "{summary}");
    assert!(summary.contains("| `prefill` | 11.36 |"), "{summary}");
    assert!(summary.contains("| `aten::mm` | 2 | 0.006 | 0.008 | 0.003 |"), "{summary}");
    let operators = folder.text("operators.md");
    assert!(operators.contains("Rows: 1 of 2"), "operators.top_n holds: {operators}");
}

#[test]
fn where_nothing_is_known_every_section_says_why() {
    let folder = RunFolder::new();
    let outcome = folder.reports();
    let names: Vec<_> = outcome.files.iter().filter_map(|path| path.file_name()).collect();
    assert!(names.contains(&"operators.md".as_ref()), "{names:?}");
    let summary = folder.text("stakeholder_summary.md");
    let (there, missing) = summary.split_once("## Not in this run\n\n").expect("a list");
    for (heading, next) in [("Takeaways", "1. "), ("Recommendations", ""), ("Limits", "- **")] {
        assert!(there.contains(&format!("## {heading}\n\n{next}")), "{heading}: {summary}");
    }
    for (name, why) in [
        ("Environment", ""),
        ("Aggregates", "no stage has a call after the first"),
        ("Per-Stage Timings", "the workload opened no NVTX range"),
        ("MFU", "no model is configured"),
        ("Top Operators", "the workload opened no NVTX range"),
        ("Top Kernels", "no kernel was recorded"),
    ] {
        assert!(missing.contains(&format!("- **{name}:** {why}")), "{name}: {summary}");
        assert!(!there.contains(&format!("## {name}\n")), "{name}: {summary}");
    }
    assert!(folder.text("operators.md").contains("None:"));
    let report = folder.text("report.md");
    assert!(report.contains("- **Model FLOP utilisation:** no model"), "{report}");
    assert!(folder.metrics()["utilisation"]["peaks"].is_null());
}

#[test]
fn what_cannot_be_computed_is_refused_with_its_reason() {
    let uneven = CONFIG.replace("decode_steps: 2", "decode_steps: null");
    let wrong_model = CONFIG.replace("hidden_size: 4", "hidden_size: 0");
    let unknown_key = CONFIG.replace("name: tiny", "nam: tiny");
    let no_folder = format!("{CONFIG}\nstage1: {{run_dir: /no/such/run}}\n");
    for (device, config, metrics, expected) in [
        (1, CONFIG, Some(METRICS), "ran on 2 GPUs"),
        (0, CONFIG, None, "model.tokens.batch_size=N"),
        (0, &uneven, Some("[1, 2"), "stage1/metrics.json cannot be used"),
        (0, &wrong_model, Some(METRICS), "hidden_size=0"),
        (0, &unknown_key, Some(METRICS), "model.llm cannot be used"),
        (0, &no_folder, Some(METRICS), "Stage 1 run"),
    ] {
        let folder = folder(&run(device), config, metrics);
        folder.reports();
        for name in ["report.md", "stakeholder_summary.md"] {
            let page = folder.plain(name);
            assert!(page.contains(expected), "{expected}: {page}");
        }
    }
}

#[test]
fn a_sample_of_ranges_within_a_stage_gives_it_no_utilisation() {
    // The trace file says that it holds a sample, whatever the configuration says; no instance of a
    // stage was chosen as a whole.
    let mut b = run(0);
    let end = b.records.pop().expect("the last record");
    b.meta("sample", "1/16").add(end);
    let folder = folder(&b, CONFIG, Some(METRICS));
    folder.reports();
    let whole = folder.text("report.md");
    assert!(whole.contains("GPU busy time of the stage is not known"), "{whole}");
    let metrics = folder.metrics();
    for row in metrics["utilisation"]["stages"].as_array().expect("stages") {
        for figure in ["mfu_wall", "mfu_busy", "tokens_per_s", "kernels_per_token"] {
            assert!(row[figure]["known"].is_null(), "{figure}: {row}");
        }
    }
}

#[test]
fn a_stage_1_run_gives_the_operators_and_its_means() {
    let means = r#"{"aggregates": {"prefill_ms": {"mean": 98.336, "std": 1.5}},
        "operators": [{"op_name": "aten::linear", "total_time_ms": 2.5, "calls": 2}]}"#;
    let earlier = RunFolder::new();
    let dir =
        serde_json::to_string(&earlier.write("metrics.json", means).path("")).expect("a path");
    let folder = folder(&run(0), &format!("stage1: {{run_dir: {dir}}}\n"), None);
    folder.reports();
    let operators = folder.text("operators.md");
    assert!(operators.contains("| `aten::linear` | 2.500 |"), "{operators}");
    assert!(!operators.contains("aten::mm"), "not this run's: {operators}");
    let summary = folder.text("stakeholder_summary.md");
    assert!(
        summary.contains("| Stage 1 run: prefill, host time | ms | 98.336 | 1.500 |"),
        "{summary}"
    );
}

/// What a Stage 1 run writes with `torch.profiler` on.
const STAGE1: &str = r#"{"aggregates": {
    "prefill_ms": {"mean": 98.336, "std": 1.5}, "decode_ms": {"mean": 707.379, "std": 0},
    "tokens": {"mean": 64, "std": 0.0}, "tokens_per_s": {"mean": 90.5, "std": 0.1},
    "stage_ms": {"prefill": {"mean": 98.336, "std": 1.5}, "sam": {"mean": 11.5, "std": 0.5},
        "clip": {"mean": 12.5, "std": 0.5}, "projector": {"mean": 13.5, "std": null}}},
    "mfu_model_level": 0.00262, "mfu_per_stage": {"vision": 0.0375}, "peak_tflops": 209.5}"#;
const STAGE1_OPERATORS: &str = "|op_name|total_time_ms|cuda_time_ms|calls|mean_ms|\n\
    | :---: | :---: | :---: | :---: | :---: |\n|aten::conv2d|20.000|1.500|4|5.0|\n";

#[test]
fn stage_1_files_that_the_workload_wrote_in_this_run_are_shown() {
    for part in ["stage1", "stage1/torch_profiler"] {
        // The operators that it marked go first.
        let config = CONFIG.replace("decode_steps: 2", "prompt_tokens: 3");
        let config = config.replace("pattern: null", "pattern: '^none::'");
        let config = format!("{config}\nstage1: {{run_dir: null}}\n");
        let folder = folder(&run(0), &config, None);
        folder.write(&format!("{part}/metrics.json"), STAGE1);
        folder.write(&format!("{part}/operators.md"), STAGE1_OPERATORS);
        let outcome = folder.reports();
        let operators = folder.text("operators.md");
        assert!(operators.contains("| `aten::conv2d` | 20.000 |"), "{operators}");
        assert!(operators.contains("that the workload wrote in this run"), "{operators}");
        assert!(!operators.contains("not this run"), "{operators}");
        let summary = folder.text("stakeholder_summary.md");
        let row = "| Stage 1 files of this run: prefill, host time | ms | 98.336 | 1.500 |";
        assert!(summary.contains(row) && !summary.contains("not of this one"), "{summary}");
        let metrics = folder.metrics();
        assert_eq!(metrics["utilisation"]["tokens"]["batch_size"], 1, "{part}");
        assert_eq!(metrics["utilisation"]["tokens"]["decode_steps"], 64, "{part}");
        let told = outcome.findings.iter().find(|f| f.what.contains("stage1"));
        assert_eq!(told, None, "{part}");
    }
}

#[test]
fn the_tokens_of_a_stage_1_run_are_the_last_that_count() {
    let earlier = RunFolder::new();
    earlier.write("metrics.json", STAGE1).write("operators.md", STAGE1_OPERATORS);
    let dir = serde_json::to_string(&earlier.path("")).expect("a path");
    for (own, steps, said) in [
        (None, 64, Some("are used: batch_size 1, decode_steps 64")),
        (Some(r#"{"batch_size": 1, "decode_steps": 2}"#), 2, None),
    ] {
        let config = CONFIG.replace("decode_steps: 2", "prompt_tokens: 3");
        let folder = folder(&run(0), &format!("{config}\nstage1: {{run_dir: {dir}}}\n"), own);
        let outcome = folder.reports();
        assert_eq!(folder.metrics()["utilisation"]["tokens"]["decode_steps"], steps);
        let told = |what: &str| outcome.findings.iter().any(|f| f.what.contains(what));
        assert_eq!(told("token counts of the Stage 1 run"), said.is_some());
        assert!(said.is_none_or(told), "{:?}", outcome.findings);
        let summary = folder.text("stakeholder_summary.md");
        assert!(!summary.contains("batch_size is not known"), "{summary}");
        for row in [
            "sam, host time | ms | 11.500 | 0.500 |",
            "projector, host time | ms | 13.500 |",
            "MFU by Stage 1's formula, model | % | 0.262 |",
            "MFU by Stage 1's formula, vision | % | 3.750 |",
            "peak of its MFU | TFLOP/s | 209.500 |",
        ] {
            assert!(summary.contains(&format!("| Stage 1 run: {row}")), "{row}: {summary}");
        }
    }
}

#[test]
fn windows_of_threads_side_by_side_are_joined() {
    let mut b = Build::process(1, "server");
    b.anchor(1).anchor(200_000).device(0, "NVIDIA H200", 1);
    b.name(1, b"prefill").name(2, b"decode").name(4, GEMM).shape(1, 4, 8);
    b.path(1, NONE, 1).path(2, NONE, 2);
    // A cold generation, and two side by side, 5 us apart: prefill of 10 us, decode of 20 us.
    for (range, start) in [(1, 10_000), (11, 110_000), (21, 115_000)] {
        b.open(range, 1, 0, start).kernel(range, 1, 1, (start + 2_000, start + 6_000));
        b.close(range, start + 10_000).open(range + 1, 2, 0, start + 10_000);
        b.kernel(range + 1, 1, 1, (start + 12_000, start + 16_000));
        b.close(range + 1, start + 30_000);
    }
    b.end();
    let folder = folder(&b, CONFIG, Some(METRICS));
    folder.reports();
    let metrics = folder.metrics();
    // Prefills from 110 to 125 us, decodes from 120 to 145: 15 and 25 us, and 35 us together.
    near(&metrics, "/model_windows/warm_ns", 35_000.0);
    near(&metrics, "/utilisation/model/wall_s/known", 17.5e-6);
    near(&metrics, "/utilisation/model/generated_tokens_per_s/known", 3.0 / 17.5e-6);
    let busy = &metrics["utilisation"]["model"]["busy_s"]["absent"]["reason"];
    assert_eq!(busy, "stages_overlap");
    let page = folder.text("report.md");
    assert!(page.contains("are joined (87.5 % of their sum)"), "{page}");
}

/// The model of [`CONFIG`] with FLOPs that are given, so that the numbers can be followed: prefill has 960
/// for its text, and two images.
fn vision_config() -> String {
    let parts = "    vision_part_flops_per_prefill: {sam: 4000, clip: 2000, projector: 100}\n";
    CONFIG
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
    let folder = folder(b, config, None);
    folder.reports();
    (["stakeholder_summary.md", "report.md"].map(|name| folder.text(name)), folder.metrics())
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
    let ([page, whole], metrics) = reports(&nested(), &vision_config());
    // Name and median first, instances and the range around it last.
    let stages = |name: &str| row(&page, "Per-Stage Timings", name);
    assert_eq!(stages("`sam`")[..2], ["`sam`", "0.001"]);
    for (part, instances) in [("`sam`", "3"), ("`clip`", "1"), ("`projector`", "1")] {
        assert_eq!(stages(part)[4..], [instances, "`prefill`"]);
    }
    assert_eq!(stages("`prefill`")[5], "–");

    // The peak is 1 GFLOP/s. An instance of sam has half of 4000 FLOPs in 2 us.
    let mfu = |name: &str| row(&page, "MFU", name)[1].to_owned();
    assert_eq!(mfu("`sam`"), "100.00");
    assert_eq!(mfu("`clip`"), "66.67");
    assert_eq!(mfu("`projector`"), "10.00");
    assert_eq!(row(&whole, "Model FLOP utilisation", "`clip`")[3], "0.003", "time in ms");
    assert!(page.contains("Within prefill: sam, clip, projector."), "{page}");

    known(&metrics, "prefill", "flops", 6100.0 + 1136.0);
    known(&metrics, "sam", "flops", 2000.0);
    let sam = common::row(&metrics["utilisation"]["stages"], "stage", "sam");
    assert_eq!(sam["within"], "prefill");
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
    let ([page, whole], metrics) = reports(&b, &vision_config());
    // 4000 FLOPs in 10 us of wall time.
    assert_eq!(row(&page, "MFU", "`sam`")[1], "40.00");
    assert_eq!(row(&whole, "Model FLOP utilisation", "`sam`")[3], "0.010", "time in ms");
    assert_eq!(row(&page, "Per-Stage Timings", "`sam`")[0], "`sam`");
    assert!(!page.contains("| Within |"), "{page}");
    near(&metrics, "/utilisation/model/wall_s/known", 30e-6);
}
