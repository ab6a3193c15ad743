//! What a run cannot see by itself: processes that outlive it, a run within it, a hook that was kept out.

use crate::common;
use crate::common::Sandbox;
use predicates::prelude::*;
use predicates::str::contains;

/// Hazard (Calls that fail): Processes outlive the workload.
/// Promise: They are named, and no GPU is blamed.
#[test]
fn processes_that_outlive_the_workload_are_told_until_they_have_ended() {
    let sandbox = Sandbox::new();
    let daemon = "sleep 60 > /dev/null 2>&1 & echo $! > daemon";
    let run = sandbox.launch_strictly(&["--light", "--", "sh", "-c", daemon]).assert().code(70);
    let daemon = common::read(&sandbox.path("daemon"));
    let told = "1 process that the workload left behind still runs (PID ";
    run.stderr(
        contains(format!("EMPTY: no GPU work was recorded: {told}{}", daemon.trim()))
            .and(contains("stage2-launch report"))
            .and(contains("no GPU that CUDA can use").not()),
    );
    assert_eq!(sandbox.run_json()["coverage"]["empty"]["cause"], "still_running");
    let report = ["report", "tmp/stage2/latest"];
    sandbox.launch(&report).assert().success().stderr(contains(told));
    std::process::Command::new("kill").arg(daemon.trim()).status().expect("kill");
    sandbox.launch(&report).assert().success().stderr(contains("left behind").not());
    assert!(sandbox.run_json()["left_running"].is_null());
}

#[test]
fn a_run_in_a_run_is_told_by_the_outer_one() {
    let sandbox = Sandbox::new();
    let inner = env!("CARGO_BIN_EXE_stage2-launch");
    let script =
        format!("exec '{inner}' -q --allow-empty --light --run-dir inner -- true 2> /dev/null");
    let run = sandbox.launch_strictly(&["--light", "--", "sh", "-c", &script]).assert().code(70);
    let at = sandbox.path("inner").canonicalize().expect("a bundle");
    run.stderr(
        contains("EMPTY: no GPU work was recorded: the workload has started stage2-launch itself")
            .and(contains(at.display().to_string()))
            .and(contains("no GPU that CUDA can use").not()),
    );
}

#[test]
fn a_hook_that_a_wrapper_keeps_out_is_told() {
    let sandbox = Sandbox::new();
    let run = |script: &str| {
        let words = ["--light", "--annotate", "prefill-decode", "--", "sh", "-c", script];
        sandbox.launch(&words).assert().success()
    };
    let told = "the hook of --annotate was loaded nowhere";
    run("PYTHONPATH=/app/src python3 -c pass").stderr(
        contains(told).and(contains("replaced")).and(contains("${PYTHONPATH:+:$PYTHONPATH}")),
    );
    run("PYTHONPATH=/app/src:$PYTHONPATH python3 -c pass").stderr(contains(told).not());
}
