//! Settings of the command line: what is wrong with them, and where their values come from.

use crate::common::Sandbox;
use predicates::prelude::*;
use predicates::str::contains;

#[test]
fn errors_in_settings_name_the_nearest_key() {
    let sandbox = Sandbox::new();
    for (setting, parts) in [
        ("run.mod=light", ["override run.mod=light", "`run.mode`"]),
        ("runn.mode=light", ["`runn.mode`", "`run.mode`"]),
        ("workload=hidra", ["`hidra`", "`hydra`"]),
        ("run.timeout_s=soon", ["`run.timeout_s`", "whole number"]),
        ("profiling.collector.log=loud", ["`profiling.collector.log`", "`debug`"]),
        ("profiling.collector.ranges=[a", ["character", "`]`"]),
        ("run.mode=deep,light", ["character", "sweep"]),
    ] {
        let assert = sandbox.launch(&[setting, "--", "true"]).assert().code(2);
        let assert = assert.stderr(contains(parts[0])).stderr(contains(parts[1]));
        assert.stderr(predicate::function(|text: &str| text.lines().count() == 1));
        sandbox.launch(&["config", setting]).assert().code(2).stderr(contains(parts[0]));
    }
}

#[test]
fn settings_of_the_workload_and_of_older_runners_are_sent_where_they_belong() {
    let sandbox = Sandbox::new();
    for (setting, part) in [
        ("infer.max_new_tokens=64", "stage2-launch -- COMMAND infer.max_new_tokens=64"),
        ("+torch_profiler.enabled=false", "go after `--`"),
        ("dataset/sampling@dataset.sampling=default", "go after `--`"),
        ("model=llama_1b", "model/llm=PRESET"),
        ("nsys.gating_nvtx=false", "pipeline.nsys.capture_range"),
        ("ncu.gating_nvtx=false", "`pipeline.ncu.gating_nvtx`"),
        ("ncu=ncu.high", "`profiling/ncu`"),
        ("run.dir=${oc.env:HOME}", "\"KEY=$HOME\""),
        ("nsys.nvtx_capture=decode", "capture_range=nvtx pipeline.nsys.nvtx_capture=decode (or"),
        ("+model.target=alt", "use model/llm=PRESET or model.llm.config_json=FILE"),
        ("runner@stage1_runner=stage1.no-static", "use workload=stage1, which switches"),
        ("profiling/torch=torch-profiler.min", "go after `--`"),
        ("+torch_profiler.enabled=false", "workload=stage1 switch it off already"),
    ] {
        sandbox.launch(&[setting, "--", "true"]).assert().code(2).stderr(contains(part));
    }
    for (words, part) in [
        (&["merge", "-o", "m", "--nsys", "x", "+model.target=x"][..], "use model/llm=PRESET"),
        (
            &["merge", "-o", "m", "--nsys", "x", "infer.a=1"],
            "this is a workload setting, and this command runs no",
        ),
    ] {
        let assert = sandbox.launch(words).assert().code(2).stderr(contains(part));
        assert.stderr(contains("after `--`").not());
    }
    let assert = sandbox.launch(&["--", "+run.mode=deep", "+inputs.manifest=x"]).assert().code(127);
    assert.stderr(contains("settings of stage2-launch stand before `--`"));
    // Hydra refuses a + for a key that is there; here it is a note.
    let words = ["-v", "+run.mode=light", "hydra.run.dir=${hydra:runtime.cwd}/out", "--", "true"];
    let assert = sandbox.launch(&words).assert().success();
    assert.stderr(contains("note: +run.mode=light was taken as run.mode=light"));
    assert!(sandbox.path("out/run.json").is_file());
}

#[test]
fn config_shows_every_value_with_its_origin() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "presets/runner/quick.yaml",
        "# @package _global_\ndefaults: [stage2]\nrun:\n  tee: true\n",
    );
    let words = [
        "config",
        "--config-dir",
        "presets",
        "runner=quick",
        "run.mode=light",
        "--timeout",
        "90s",
        "workload=hydra",
    ];
    let output = sandbox.launch(&words).assert().success().stderr("").get_output().stdout.clone();
    let text = String::from_utf8(output).expect("UTF-8");
    for (value, origin) in [
        ("mode: light", "# override run.mode=light"),
        ("tee: true", "# presets/runner/quick.yaml:4"),
        ("timeout_s: 90", "# option --timeout 90"),
        ("kill_grace_s: 10", "# conf/runner/stage2.yaml:8"),
        ("dir: null", "# conf/runner/stage2.yaml:5"),
        ("append:", "# conf/workload/hydra.yaml:"),
    ] {
        let line = text.lines().find(|line| line.trim_start().starts_with(value));
        assert!(line.is_some_and(|line| line.contains(origin)), "{value} {origin} in {text}");
    }
}
