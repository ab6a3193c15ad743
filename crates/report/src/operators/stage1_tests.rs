//! Folders of Stage 1 runs as its exporters write them, and as they may be found.

use std::fs;

use super::*;

/// The layout that mdutils gives a table: four empty lines, no padding, centred columns.
const MARKDOWN: &str = "\n\n\n\n# Operator Summary (Top‑K)\n\nRows: 3 (k=20)\n\n\
    |op_name|total_time_ms|cuda_time_ms|calls|mean_ms|\n\
    | :---: | :---: | :---: | :---: | :---: |\n\
    |aten::mm|20.000|1.500|4|5.000000|\n\
    |aten::linear|1,030.125|0.000|10|103.012500|\n\
    |a\\|b|3.000|0.000|1|3.000000|\n\n\nafter\n";

const METRICS: &str = r#"{"aggregates": {
    "prefill_ms": {"mean": 98.336, "std": 1.5}, "decode_ms": {"mean": 707.379, "std": 0},
    "tokens": {"mean": 64, "std": 0.0}, "tokens_per_s": {"mean": 90.5, "std": 0.1},
    "stage_ms": {"prefill": {"mean": 98.336, "std": 1.5}, "vision": {"mean": 39.965, "std": null}}},
    "mfu_model_level": 0.00262, "mfu_per_stage": {"prefill": 0.021011}, "peak_tflops": 209.5,
    "model_dims": {"d_model": 1280, "d_ff": 6848, "n_layers": 12}}"#;

fn run(files: &[(&str, &str)]) -> (tempfile::TempDir, Stage1Run) {
    let folder = tempfile::tempdir().expect("folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("folders");
        fs::write(path, text).expect("file");
    }
    let found = read(folder.path());
    (folder, found)
}

#[test]
fn a_run_as_stage_1_writes_it() {
    for folder in ["", "torch_profiler/"] {
        let files = [
            (&*format!("{folder}metrics.json"), METRICS),
            (&*format!("{folder}operators.md"), MARKDOWN),
        ];
        let (_folder, found) = run(&files);
        assert_eq!(found.findings, []);
        let names: Vec<&str> =
            found.operators.rows.iter().map(|row| row.op_name.as_str()).collect();
        assert_eq!(names, ["aten::linear", "aten::mm", "a|b"], "longest first");
        let linear = &found.operators.rows[0];
        assert_eq!((linear.host_total_ns, linear.calls), (Some(1_030_125_000), 10));
        assert_eq!((linear.host_mean_ns, linear.gpu_inclusive_ns), (Some(103_012_500), Some(0)));
        assert!(found.operators.source.contains("operators.md"), "{}", found.operators.source);
        assert!(found.operators.source.contains("not this run"));
        let means = found.aggregates.expect("aggregates");
        assert_eq!(means.prefill_ms, Some(MeanStd { mean: 98.336, std: Some(1.5) }));
        assert_eq!(means.stage_ms["vision"], MeanStd { mean: 39.965, std: None });
        assert_eq!((means.mfu_per_stage["prefill"], means.peak_tflops), (0.021011, Some(209.5)));
    }
}

#[test]
fn operators_in_metrics_json_come_first() {
    let metrics = r#"{"operators": [
        {"op_name": "aten::add", "total_time_ms": 2.5, "cuda_time_ms": 1, "calls": 2, "mean_ms": 1.25},
        {"op_name": "aten::mul", "total_time_ms": -1, "calls": 1},
        {"op_name": "", "total_time_ms": 1, "calls": 1}, 7,
        {"op_name": "aten::sub", "total_time_ms": 1, "calls": 1}]}"#;
    let (_folder, found) = run(&[("metrics.json", metrics), ("operators.md", MARKDOWN)]);
    let rows = &found.operators.rows;
    assert_eq!((rows.len(), rows[0].host_total_ns), (2, Some(2_500_000)));
    assert_eq!(
        (rows[1].gpu_inclusive_ns, rows[1].host_mean_ns),
        (None, None),
        "absent is not zero"
    );
    assert!(found.operators.source.contains("metrics.json"));
    assert!(found.findings[0].what.contains("3 rows"), "{:?}", found.findings);
    assert!(found.findings[0].what.contains("aten::mul"), "{:?}", found.findings);
}

#[test]
fn what_is_missing_or_broken_is_named() {
    let (_folder, found) = run(&[]);
    assert_eq!(found.findings.len(), 2);
    assert!(
        found.findings[0].what.contains("metrics.json")
            && found.findings[1].what.contains("operators.md")
    );
    let absent = found.operators.absent.expect("a reason");
    assert!(absent.reason.contains("has no operators") && absent.remedy.contains("torch-ops"));
    assert_eq!(found.aggregates, None);
    for (metrics, part) in [
        ("", "EOF"),
        ("[1]", "no JSON object"),
        (r#"{"aggregates": {"prefill_ms": {"mean": NaN}}}"#, "expected value"),
        (r#"{"aggregates": {"prefill_ms": {"mean": -3}}}"#, "no number from 0 up: prefill_ms"),
        (r#"{"mfu_model_level": "high", "peak_tflops": null}"#, "mfu_model_level"),
        (r#"{"operators": [{"op_name": "\u001b[2J|", "total_time_ms": "1e999"}]}"#, "1 rows"),
    ] {
        let (_folder, found) = run(&[("metrics.json", metrics), ("operators.md", MARKDOWN)]);
        let told = found.findings.iter().any(|finding| finding.what.contains(part));
        assert!(told, "{metrics}: {:?}", found.findings);
        assert!(!found.findings.iter().any(|f| f.what.contains('\u{1b}')));
    }
    let (_folder, found) = run(&[("metrics.json", "{}"), ("operators.md", "# nothing\n|a|b|\n")]);
    assert!(found.findings[0].what.contains("no table"), "{:?}", found.findings);
    let broken = MARKDOWN.replace("|4|5.0", "|4.5|5.0").replace("20.000", "nan");
    let (_folder, found) = run(&[("metrics.json", "{}"), ("operators.md", &broken)]);
    assert_eq!(found.operators.rows.len(), 2);
    assert!(
        found.findings[0].what.contains("1 rows") && found.findings[0].what.contains("aten::mm")
    );
}

#[test]
fn a_folder_where_a_file_should_be_is_no_panic() {
    let folder = tempfile::tempdir().expect("folder");
    fs::create_dir(folder.path().join("metrics.json")).expect("folder");
    let found = read(folder.path());
    assert!(found.findings[0].what.contains("but a folder"), "{:?}", found.findings);
}
