//! A real Hydra application with NVTX ranges under the launcher and the collector, without a GPU.
//!
//! Skipped, and said so, where Python lacks hydra-core, numpy or nvtx; a failure there when
//! STAGE2_REQUIRE_HYDRA is set.

use std::path::Path;
use std::process::Command;

use crate::common::simulated::built;
use crate::common::{LAUNCH, expect_parts, has_packages, json, lossy, read, repository, row};

/// The launcher in the folder of the example, with its settings and the overrides of the workload.
fn launched(run: &Path, settings: &[&str], overrides: &[&str]) {
    let output = Command::new(LAUNCH)
        .current_dir(repository("examples"))
        .env("STAGE2_COLLECTOR", built("libstage2.so"))
        .env_remove("LD_PRELOAD")
        // The model runs on the CPU.
        .args(["-q", "--allow-empty", "--run-dir"])
        .arg(run)
        .args(settings)
        .args(["run.mode=light", "--", "python3", "-m", "runner", "backend=numpy"])
        .args(overrides)
        .output()
        .expect("the launcher starts");
    assert!(output.status.success(), "{}", lossy(&output.stderr));
}

#[test]
fn the_preset_of_stage_1_adds_its_overrides_and_the_users_own_win_verbatim() {
    if !has_packages("hydra, numpy, nvtx") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let run = folder.path().join("run");
    let own = [
        "device=cpu",
        "dataset.subset_filelist=some files.txt",
        "dataset.sampling.num_samples_per_epoch=2",
        "infer.max_new_tokens=3",
    ];
    launched(&run, &["workload=stage1"], &own);
    let kept = read(&run.join("stage1/.hydra/overrides.yaml"));
    for word in own {
        assert_eq!(kept.matches(word).count(), 1, "{word} in {kept}");
    }
    let parts = [
        "pipeline.torch_profiler.enable=false",
        "pipeline.static_analysis.enable=false",
        "dataset.sampling.num_epochs=3",
        "dataset.sampling.randomize=false",
        // The user's own stands.
        "!num_samples_per_epoch=1",
    ];
    expect_parts(&kept, "overrides.yaml", &parts);
    let workload = json(&run.join("stage1/metrics.json"));
    let repeats = workload["repeats"].as_array().map(Vec::len);
    assert_eq!(repeats, Some(6), "two samples, three epochs: {workload}");
    assert_eq!(workload["decode_steps"], 3);
}

#[test]
fn the_bundle_says_what_the_workload_was_configured_with_and_what_contradicts_it() {
    if !has_packages("hydra, numpy, nvtx") {
        return;
    }
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
    launched(&run, &settings, &own);
    let inputs = read(&run.join("inputs.yaml"));
    let parts = ["model: llama_tiny", "infer.max_new_tokens: \"4\"", "- a.png"];
    expect_parts(&inputs, "inputs.yaml", &parts);
    let config = read(&run.join("stage1/.hydra/config.yaml"));
    assert!(config.contains("it's a list, of inputs.txt"), "as it was, through Hydra: {config}");
    let record = json(&run.join("run.json"));
    let findings = record["report_findings"].as_array().expect("findings").clone();
    let whats: Vec<&str> = findings.iter().filter_map(|finding| finding["what"].as_str()).collect();
    let told = |part: &str| whats.iter().filter(|what| what.contains(part)).count();
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
    let own = ["infer.max_new_tokens=4", "model=llama_tiny"];
    launched(&run, &["workload=hydra"], &own);
    let findings = json(&run.join("run.json"))["report_findings"].to_string();
    let parts = ["!the workload ran", "!in the workload", "!the override"];
    expect_parts(&findings, "findings", &parts);
}

#[test]
fn the_example_runs_under_the_launcher_with_its_outputs_in_the_bundle() {
    if !has_packages("hydra, numpy, nvtx") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let run = folder.path().join("run");
    let own = ["run.repeats=3", "infer.max_new_tokens=4", "nvtx.steps=true"];
    launched(&run, &["workload=hydra"], &own);

    // Hydra did what the preset appended, and what the user asked for.
    let workload = json(&run.join("stage1/metrics.json"));
    assert_eq!(workload["repeats"].as_array().map(Vec::len), Some(3), "{workload}");
    let overrides = read(&run.join("stage1/.hydra/overrides.yaml"));
    let parts = ["infer.max_new_tokens=4", "pipeline.torch_profiler.enable=false"];
    expect_parts(&overrides, "overrides.yaml", &parts);

    // The collector saw every range, and no GPU.
    let report = json(&run.join("metrics.json"));
    for (path, instances) in [("prefill", 3), ("decode", 3), ("decode/step", 12)] {
        assert_eq!(row(&report["paths"], "path", path)["instances"], instances, "{path}");
    }
}
