//! A real Hydra application with NVTX ranges under the launcher and the collector, without a GPU.
//!
//! Skipped, and said so, where Python lacks hydra-core, numpy or nvtx, or the collector was not
//! built beside these tests; a failure there when STAGE2_REQUIRE_HYDRA is set.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The collector, if everything that this test needs is there.
fn collector() -> Option<PathBuf> {
    let own = std::env::current_exe().expect("own path");
    let collector = own.with_file_name("libstage2.so");
    let python = Command::new("python3").args(["-c", "import hydra, numpy, nvtx"]).output();
    let missing = if !collector.exists() {
        "libstage2.so is not built (cargo test --workspace builds it)"
    } else if !python.is_ok_and(|output| output.status.success()) {
        "python3 has no hydra-core, numpy or nvtx (pip install -r examples/runner/requirements.txt)"
    } else {
        return Some(collector);
    };
    assert!(std::env::var_os("STAGE2_REQUIRE_HYDRA").is_none(), "{missing}");
    // Not through eprintln, which the test harness keeps to itself.
    let _ = writeln!(std::io::stderr(), "SKIPPED the example workload: {missing}");
    None
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// The launcher in the folder of the example, with its settings and the overrides of the workload.
fn launched(collector: &Path, run: &Path, settings: &[&str], overrides: &[&str]) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let output = Command::new(env!("CARGO_BIN_EXE_stage2-launch"))
        .current_dir(&examples)
        .env("STAGE2_COLLECTOR", collector)
        .env_remove("LD_PRELOAD")
        // The model runs on the CPU.
        .args(["-q", "--allow-empty", "--run-dir"])
        .arg(run)
        .args(settings)
        .args(["run.mode=light", "--", "python3", "-m", "runner", "backend=numpy"])
        .args(overrides)
        .output()
        .expect("the launcher starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

#[test]
fn the_preset_of_stage_1_adds_its_overrides_and_the_users_own_win_verbatim() {
    let Some(collector) = collector() else { return };
    let folder = tempfile::tempdir().expect("folder");
    let run = folder.path().join("run");
    let own = [
        "device=cpu",
        "dataset.subset_filelist=some files.txt",
        "dataset.sampling.num_samples_per_epoch=2",
        "infer.max_new_tokens=3",
    ];
    launched(&collector, &run, &["workload=stage1"], &own);
    let kept = std::fs::read_to_string(run.join("stage1/.hydra/overrides.yaml")).expect("kept");
    for word in own {
        assert_eq!(kept.matches(word).count(), 1, "{word} in {kept}");
    }
    for word in [
        "pipeline.torch_profiler.enable=false",
        "pipeline.static_analysis.enable=false",
        "dataset.sampling.num_epochs=3",
        "dataset.sampling.randomize=false",
    ] {
        assert!(kept.contains(word), "{word} in {kept}");
    }
    assert!(!kept.contains("num_samples_per_epoch=1"), "the user's own stands: {kept}");
    let workload = json(&run.join("stage1/metrics.json"));
    let repeats = workload["repeats"].as_array().map(Vec::len);
    assert_eq!(repeats, Some(6), "two samples, three epochs: {workload}");
    assert_eq!(workload["decode_steps"], 3);
}

#[test]
fn the_bundle_says_what_the_workload_was_configured_with_and_what_contradicts_it() {
    let Some(collector) = collector() else { return };
    let folder = tempfile::tempdir().expect("folder");
    let run = folder.path().join("run");
    let list = folder.path().join("it's a list, of inputs.txt");
    std::fs::write(&list, "a.png\n").expect("list");
    let quoted = list.display().to_string().replace('\'', "\\'");
    let manifest = format!("+inputs.manifest='{quoted}'");
    let settings =
        ["workload=hydra", &manifest, "model/llm=llama_3_8b", "model.tokens.decode_steps=9"];
    let own = [
        "infer.max_new_tokens=4",
        "pipeline.torch_profiler.enable=true",
        "+torch_profiler.enabled=false",
    ];
    launched(&collector, &run, &settings, &own);
    let inputs = std::fs::read_to_string(run.join("inputs.yaml")).expect("inputs.yaml");
    for part in ["model: llama_tiny", "infer.max_new_tokens: \"4\"", "- a.png"] {
        assert!(inputs.contains(part), "{part} in {inputs}");
    }
    let config = std::fs::read_to_string(run.join("stage1/.hydra/config.yaml")).expect("left");
    assert!(config.contains("it's a list, of inputs.txt"), "as it was, through Hydra: {config}");
    let record = json(&run.join("run.json"));
    let findings = record["report_findings"].as_array().expect("findings").clone();
    let told = |part: &str| {
        findings
            .iter()
            .filter(|f| f["what"].as_str().is_some_and(|what| what.contains(part)))
            .count()
    };
    for part in [
        "model llama_3_8b, and the workload ran another: model.name=llama_tiny",
        "model.tokens.decode_steps is 9, and the workload ran with 4",
        "another profiler was on in the workload: pipeline.torch_profiler.enable=true",
        "+torch_profiler.enabled=false created a key",
    ] {
        assert_eq!(told(part), 1, "{part} in {findings:?}");
    }
    // The example has these keys, and both are what they were set to.
    assert_eq!(told("inputs.manifest") + told("had no effect"), 0, "{findings:?}");

    // What nothing contradicts is no finding.
    let run = folder.path().join("plain");
    launched(
        &collector,
        &run,
        &["workload=hydra"],
        &["infer.max_new_tokens=4", "model=llama_tiny"],
    );
    let record = json(&run.join("run.json"));
    for part in ["the workload ran", "in the workload", "the override"] {
        assert!(!record["report_findings"].to_string().contains(part), "{part}: {record}");
    }
}

#[test]
fn the_example_runs_under_the_launcher_with_its_outputs_in_the_bundle() {
    let Some(collector) = collector() else { return };
    let folder = tempfile::tempdir().expect("folder");
    let run = folder.path().join("run");
    let own = ["run.repeats=3", "infer.max_new_tokens=4", "nvtx.steps=true"];
    launched(&collector, &run, &["workload=hydra"], &own);

    // Hydra did what the preset appended, and what the user asked for.
    let workload = json(&run.join("stage1/metrics.json"));
    assert_eq!(workload["repeats"].as_array().map(Vec::len), Some(3), "{workload}");
    let overrides =
        std::fs::read_to_string(run.join("stage1/.hydra/overrides.yaml")).expect("kept");
    for word in ["infer.max_new_tokens=4", "pipeline.torch_profiler.enable=false"] {
        assert!(overrides.contains(word), "{word} in {overrides}");
    }

    // The collector saw every range, and no GPU.
    let report = json(&run.join("metrics.json"));
    let instances = |path: &str| {
        let rows = report["paths"].as_array().expect("paths");
        rows.iter().find(|row| row["path"] == path).map(|row| row["instances"].clone())
    };
    assert_eq!(instances("prefill"), Some(3.into()));
    assert_eq!(instances("decode"), Some(3.into()));
    assert_eq!(instances("decode/step"), Some(12.into()));
}
