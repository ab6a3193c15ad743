//! What follows from the measured rows: numbers that were worked out by hand, and what is said
//! where nothing is known.

use std::fs;
use std::path::Path;

use crate::report::build::Build;
use serde_json::Value;
use stage2_contract::trace::{NONE, Record};
use stage2_launch::reports::write_reports;
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

fn write(folder: &Path, config: &str, metrics: Option<&str>) {
    fs::write(folder.join("config.yaml"), config).expect("config.yaml");
    if let Some(metrics) = metrics {
        fs::create_dir(folder.join("stage1")).expect("folder");
        fs::write(folder.join("stage1/metrics.json"), metrics).expect("metrics.json");
    }
}

fn page(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect(name)
}

fn metrics(folder: &Path) -> Value {
    serde_json::from_str(&page(folder, "metrics.json")).expect("JSON")
}

fn near(metrics: &Value, pointer: &str, expected: f64) {
    let found = metrics.pointer(pointer).and_then(Value::as_f64);
    let found = found.unwrap_or_else(|| panic!("{pointer}: {:?}", metrics["utilisation"]));
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
    let folder = tempfile::tempdir().expect("folder");
    sampled_run().save(folder.path(), "a.s2t");
    write(folder.path(), CONFIG, Some(METRICS));
    let outcome = write_reports(folder.path()).expect("reports");
    let metrics = metrics(folder.path());
    let of = |stage: &str, field: &str| {
        let stages = metrics["utilisation"]["stages"].as_array().expect("stages");
        let at = stages.iter().position(|row| row["stage"] == stage).expect("stage");
        format!("/utilisation/stages/{at}/{field}/known")
    };
    // As in the whole run: the recorded instances are like all others.
    near(&metrics, &of("prefill", "mfu_wall"), 0.1296);
    near(&metrics, &of("prefill", "mfu_busy"), 0.324);
    near(&metrics, &of("decode", "mfu_wall"), 0.0472);
    near(&metrics, &of("decode", "mfu_busy"), 0.0944);
    near(&metrics, &of("decode", "kernels_per_token"), 1.0);
    near(&metrics, &of("decode", "mbu_wall"), (816.0 + 9.0 * 16.0) / 20e-6 / 1e9);
    near(&metrics, "/utilisation/model/mfu_wall/known", 2240.0 / 30e-6 / 1e9);
    near(&metrics, "/utilisation/model/generated_tokens_per_s/known", 100_000.0);
    let rows = metrics["utilisation"]["stages"].as_array().expect("stages");
    for row in rows {
        assert_eq!(row["basis"], "mean of the 1 recorded of 4 instances");
    }
    let summary = page(folder.path(), "stakeholder_summary.md");
    assert!(summary.contains("Only some instances of ranges were recorded"), "{summary}");
    let stage = outcome.headline.iter().find(|line| line.starts_with("decode:")).expect("line");
    assert!(stage.contains("8 kernels, GPU busy 0.010 ms in the sample"), "{stage}");
}

#[test]
fn utilisation_is_what_a_pocket_calculator_gives() {
    let folder = tempfile::tempdir().expect("folder");
    run(0).save(folder.path(), "a.s2t");
    write(folder.path(), CONFIG, Some(METRICS));
    write_reports(folder.path()).expect("reports");
    let metrics = metrics(folder.path());
    assert_eq!(metrics["schema_version"], 1);
    let whole: Report = serde_json::from_value(metrics.clone()).expect("a report");
    let used = whole.insight.utilisation.as_ref().expect("utilisation");
    assert_eq!((used.peak_dense_tflops(), used.absent.as_ref()), (Some(0.001), None));
    assert_eq!((used.tokens.prompt_tokens, used.tokens.decode_steps), (Some(3), Some(2)));
    let of = |stage: &str, field: &str| {
        let stages = metrics["utilisation"]["stages"].as_array().expect("stages");
        let at = stages.iter().position(|row| row["stage"] == stage).expect("stage");
        format!("/utilisation/stages/{at}/{field}/known")
    };
    // 2 x 3 tokens x 200 weights, and 2 x 8 x (1 + 2 + 3) for the scores; the peak is 10^9 FLOP/s.
    near(&metrics, &of("prefill", "flops"), 1296.0);
    near(&metrics, &of("prefill", "mfu_wall"), 0.1296);
    near(&metrics, &of("prefill", "mfu_busy"), 0.324);
    // 2 x 2 tokens x 200 weights, and 2 x 8 x (4 + 5).
    near(&metrics, &of("decode", "flops"), 944.0);
    near(&metrics, &of("decode", "mfu_wall"), 0.0472);
    near(&metrics, &of("decode", "mfu_busy"), 0.0944);
    near(&metrics, &of("decode", "kernels_per_token"), 1.0);
    near(&metrics, &of("decode", "gpu_us_per_token"), 5.0);
    // 2 steps x (200 weights + 4 of the embedding) x 2 bytes, and 16 bytes of keys and values for
    // each of 4 + 5 tokens; the peak is 10^9 bytes/s.
    near(&metrics, &of("decode", "mbu_wall"), (816.0 + 9.0 * 16.0) / 20e-6 / 1e9);
    near(&metrics, "/utilisation/model/mfu_wall/known", 2240.0 / 30e-6 / 1e9);
    // One token from prefill and two from decode, in 30 us.
    near(&metrics, "/utilisation/model/generated_tokens_per_s/known", 100_000.0);

    let report = page(folder.path(), "report.md");
    assert!(report.contains("(set in the configuration: dense"), "{report}");
    assert!(report.contains("| `prefill` | 3 | 12.960 | 32.400 |"), "{report}");
    let (_, appendix) = report.split_once("## Whole run, with warm-up").expect("an appendix");
    let gemm = appendix.lines().find(|line| line.starts_with("| gemm |")).expect("a class");
    assert!(gemm.contains("| 100.0 |"), "{gemm}");
    let summary = page(folder.path(), "stakeholder_summary.md");
    assert!(summary.contains("| `Model-level` | 7.467 |"), "{summary}");
    assert!(summary.contains("| `prefill` | 12.960 |"), "{summary}");
    assert!(summary.contains("| `aten::mm` | 0.006 | 0.008 | 2 |"), "{summary}");
    let operators = page(folder.path(), "operators.md");
    assert!(operators.contains("Rows: 1 of 2"), "operators.top_n holds: {operators}");
}

#[test]
fn where_nothing_is_known_every_section_says_why() {
    let folder = tempfile::tempdir().expect("folder");
    let outcome = write_reports(folder.path()).expect("reports");
    let names: Vec<_> = outcome.files.iter().filter_map(|path| path.file_name()).collect();
    assert!(names.contains(&"operators.md".as_ref()), "{names:?}");
    let summary = page(folder.path(), "stakeholder_summary.md");
    for (heading, next) in [
        ("Environment", "None, because"),
        ("Aggregates", "None, because no stage has an instance after the first"),
        ("Per-Stage Timings", "None, because the workload opened no NVTX range"),
        ("MFU", "None, because no model is configured"),
        ("Top Operators", "None, because the workload opened no NVTX range"),
        ("Top Kernels", "None, because no kernel was recorded"),
        ("Takeaways", "1. "),
        ("Recommendations", ""),
        ("Limits", "- **"),
    ] {
        assert!(summary.contains(&format!("## {heading}\n\n{next}")), "{heading}: {summary}");
    }
    assert!(page(folder.path(), "operators.md").contains("None, because"));
    let report = page(folder.path(), "report.md");
    assert!(report.contains("## Model FLOP utilisation\n\nNone, because no model"), "{report}");
    assert!(metrics(folder.path())["utilisation"]["peaks"].is_null());
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
        let folder = tempfile::tempdir().expect("folder");
        run(device).save(folder.path(), "a.s2t");
        write(folder.path(), config, metrics);
        write_reports(folder.path()).expect("reports");
        let pages = ["report.md", "stakeholder_summary.md"].map(|name| page(folder.path(), name));
        for page in pages {
            assert!(
                page.contains(expected) || page.contains(&expected.replace('_', "\\_")),
                "{expected}: {page}"
            );
        }
    }
}

#[test]
fn a_sample_of_ranges_within_a_stage_gives_it_no_utilisation() {
    let folder = tempfile::tempdir().expect("folder");
    // The trace file says that it holds a sample, whatever the configuration says; no instance of a
    // stage was chosen as a whole.
    let mut b = run(0);
    let end = b.records.pop().expect("the last record");
    b.meta("sample", "1/16").add(end);
    b.save(folder.path(), "a.s2t");
    write(folder.path(), CONFIG, Some(METRICS));
    write_reports(folder.path()).expect("reports");
    let whole = page(folder.path(), "report.md");
    assert!(whole.contains("GPU busy time of the stage is not known"), "{whole}");
    let metrics = metrics(folder.path());
    for row in metrics["utilisation"]["stages"].as_array().expect("stages") {
        for figure in ["mfu_wall", "mfu_busy", "tokens_per_s", "kernels_per_token"] {
            assert!(row[figure]["known"].is_null(), "{figure}: {row}");
        }
    }
}

#[test]
fn a_stage_1_run_gives_the_operators_and_its_means() {
    let earlier = tempfile::tempdir().expect("folder");
    let means = r#"{"aggregates": {"prefill_ms": {"mean": 98.336, "std": 1.5}},
        "operators": [{"op_name": "aten::linear", "total_time_ms": 2.5, "calls": 2}]}"#;
    fs::write(earlier.path().join("metrics.json"), means).expect("metrics.json");
    let folder = tempfile::tempdir().expect("folder");
    run(0).save(folder.path(), "a.s2t");
    let dir = serde_json::to_string(earlier.path()).expect("a path");
    write(folder.path(), &format!("stage1: {{run_dir: {dir}}}\n"), None);
    write_reports(folder.path()).expect("reports");
    let operators = page(folder.path(), "operators.md");
    assert!(operators.contains("| `aten::linear` | 2.500 |"), "{operators}");
    assert!(!operators.contains("aten::mm"), "not this run's: {operators}");
    let summary = page(folder.path(), "stakeholder_summary.md");
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
        let folder = tempfile::tempdir().expect("folder");
        run(0).save(folder.path(), "a.s2t");
        // The operators that it marked go first.
        let config = CONFIG.replace("decode_steps: 2", "prompt_tokens: 3");
        let config = config.replace("pattern: null", "pattern: '^none::'");
        write(folder.path(), &format!("{config}\nstage1: {{run_dir: null}}\n"), None);
        fs::create_dir_all(folder.path().join(part)).expect("folder");
        fs::write(folder.path().join(part).join("metrics.json"), STAGE1).expect("metrics.json");
        fs::write(folder.path().join(part).join("operators.md"), STAGE1_OPERATORS)
            .expect("written");
        let outcome = write_reports(folder.path()).expect("reports");
        let operators = page(folder.path(), "operators.md");
        assert!(operators.contains("| `aten::conv2d` | 20.000 |"), "{operators}");
        assert!(operators.contains("that the workload wrote in this run"), "{operators}");
        assert!(!operators.contains("not this run"), "{operators}");
        let summary = page(folder.path(), "stakeholder_summary.md");
        let row = "| Stage 1 files of this run: prefill, host time | ms | 98.336 | 1.500 |";
        assert!(summary.contains(row) && !summary.contains("not of this one"), "{summary}");
        let metrics = metrics(folder.path());
        assert_eq!(metrics["utilisation"]["tokens"]["batch_size"], 1, "{part}");
        assert_eq!(metrics["utilisation"]["tokens"]["decode_steps"], 64, "{part}");
        let told = outcome.findings.iter().find(|f| f.what.contains("stage1"));
        assert_eq!(told, None, "{part}");
    }
}

#[test]
fn the_tokens_of_a_stage_1_run_are_the_last_that_count() {
    let earlier = tempfile::tempdir().expect("folder");
    fs::write(earlier.path().join("metrics.json"), STAGE1).expect("metrics.json");
    fs::write(earlier.path().join("operators.md"), STAGE1_OPERATORS).expect("operators.md");
    let dir = serde_json::to_string(earlier.path()).expect("a path");
    for (own, steps, said) in [
        (None, 64, Some("are used: batch_size 1, decode_steps 64")),
        (Some(r#"{"batch_size": 1, "decode_steps": 2}"#), 2, None),
    ] {
        let folder = tempfile::tempdir().expect("folder");
        run(0).save(folder.path(), "a.s2t");
        let config = CONFIG.replace("decode_steps: 2", "prompt_tokens: 3");
        write(folder.path(), &format!("{config}\nstage1: {{run_dir: {dir}}}\n"), own);
        let outcome = write_reports(folder.path()).expect("reports");
        assert_eq!(metrics(folder.path())["utilisation"]["tokens"]["decode_steps"], steps);
        let told = |what: &str| outcome.findings.iter().any(|f| f.what.contains(what));
        assert_eq!(told("token counts of the Stage 1 run"), said.is_some());
        assert!(said.is_none_or(told), "{:?}", outcome.findings);
        let summary = page(folder.path(), "stakeholder_summary.md");
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
    let folder = tempfile::tempdir().expect("folder");
    b.save(folder.path(), "node-1-1.s2t");
    write(folder.path(), CONFIG, Some(METRICS));
    write_reports(folder.path()).expect("reports");
    let metrics = metrics(folder.path());
    // Prefills from 110 to 125 us, decodes from 120 to 145: 15 and 25 us, and 35 us together.
    near(&metrics, "/model_windows/warm_ns", 35_000.0);
    near(&metrics, "/utilisation/model/wall_s/known", 17.5e-6);
    near(&metrics, "/utilisation/model/generated_tokens_per_s/known", 3.0 / 17.5e-6);
    let busy = &metrics["utilisation"]["model"]["busy_s"]["absent"]["reason"];
    assert_eq!(busy, "stages_overlap");
    let page = page(folder.path(), "report.md");
    assert!(page.contains("are joined (87.5 % of their sum)"), "{page}");
}
