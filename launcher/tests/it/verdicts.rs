//! The exit status of a run by what it recorded: `--allow-empty`, `--fail-on partial`, and what comes
//! before them; and what a run cannot see by itself: processes that outlive it, a run within it, a hook that
//! was kept out.

use crate::common::trace::Build;
use crate::common::{self, LAUNCH, Sandbox};
use predicates::prelude::*;
use predicates::str::contains;
use stage2_contract::trace::NONE;

/// A trace file with one kernel; `whole`: its process ended in order.
fn trace(sandbox: &Sandbox, whole: bool) {
    let mut b = Build::process(1, "python3");
    b.anchor(1).name(1, b"decode").path(1, NONE, 1).open(1, 1, 0, 10).close(1, 20);
    b.device(0, "NVIDIA H200", 1).name(2, b"k").shape(1, 2, 1).kernel(1, 1, 1, (12, 14));
    if whole {
        b.end();
    } else {
        b.flush();
    }
    b.save(&sandbox.path("recorded"), "h-1.s2t");
}

/// Runs a workload that leaves the trace file and ends with `exit`.
fn run(sandbox: &Sandbox, options: &[&str], exit: u8) -> assert_cmd::assert::Assert {
    let script = format!("cp ../recorded/collector/*.s2t \"$STAGE2_OUT\" 2>/dev/null; exit {exit}");
    let script = script.replace("..", &sandbox.path("").display().to_string());
    let words = [&["-q", "run.mode=light"][..], options, &["--", "sh", "-c", &script]].concat();
    sandbox.launch_strictly(&words).assert()
}

/// Hazard (Hostile environments): Nothing was recorded.
/// Promise: It is not a result: exit status 70, with the most likely cause.
#[test]
fn nothing_recorded_is_no_result_unless_it_is_allowed() {
    let sandbox = Sandbox::new();
    run(&sandbox, &[], 0).code(70).stderr(contains("no GPU work").and(contains("--allow-empty")));
    assert_eq!(sandbox.run_json()["coverage"]["verdict"]["status"], "empty");
    assert!(sandbox.run_json()["coverage"]["empty"]["cause"].is_string());
    // The reason once, and the exit status with what can be done.
    let lines = |words: &[&str]| {
        let words = [words, &["--light", "--", "true"]].concat();
        let said = sandbox.launch_strictly(&words).assert().code(70);
        let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
        assert_eq!(said.matches("no GPU work was recorded").count(), 1, "{said}");
        let hint = said.lines().find(|line| line.contains("hint: ")).expect("a hint").to_owned();
        assert!(hint.ends_with("exit status 70: --allow-empty lets such a run pass"), "{said}");
        said.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let quiet = lines(&["-q"]);
    assert!(quiet.len() == 2 && quiet[0].contains("error: no GPU work was recorded"), "{quiet:?}");
    let shown = lines(&[]);
    let block: Vec<_> = shown.iter().skip_while(|line| !line.is_empty()).skip(1).collect();
    // The hint comes last, below what it is about.
    assert!(block.len() == 4 && block[0].starts_with("coverage: EMPTY: "), "{shown:?}");
    assert!(block[3].contains("hint: exit status 70: "), "{shown:?}");
    assert!(!shown.iter().any(|line| line.contains("error: ")), "{shown:?}");
    let allowed = contains("warning: no GPU work").and(contains("--allow-empty").not());
    run(&sandbox, &["--allow-empty"], 0).code(0).stderr(allowed.and(contains("error:").not()));
    run(&sandbox, &[], 3).code(3).stderr(contains("exit status 70").not());
    // The same words for the reports of that run, written again.
    let report = |words: &[&str]| {
        let words = [&["-q", "report", "tmp/stage2/latest"], words].concat();
        sandbox.launch_strictly(&words).assert()
    };
    report(&[]).code(70).stderr(contains("--allow-empty"));
    report(&["--allow-empty"]).code(0);
}

#[test]
fn missing_records_are_no_result_where_that_is_asked_for() {
    let sandbox = Sandbox::new();
    trace(&sandbox, false);
    run(&sandbox, &[], 0).code(0);
    let fail = ["--fail-on", "partial"];
    run(&sandbox, &fail, 0).code(70).stderr(contains("--fail-on partial"));
    run(&sandbox, &fail, 5).code(5);
    let again = ["-q", "report", "tmp/stage2/latest", "--fail-on", "partial"];
    sandbox.launch_strictly(&again).assert().code(70);
    let merge =
        ["-q", "merge", "--spool", "recorded/collector", "-o", "out", "--fail-on", "partial"];
    sandbox.launch_strictly(&merge).assert().code(70);
    trace(&sandbox, true);
    run(&sandbox, &fail, 0).code(0).stderr("");
    // One file of several is no reason to fail: a warning, by the name that was given.
    sandbox.write("other/rubbish.s2t", "rubbish");
    let words = ["merge", "--spool", "recorded/collector", "--spool", "other/rubbish.s2t"];
    let mixed = sandbox.launch_strictly(&[&words[..], &["-o", "mixed"]].concat()).assert().code(0);
    let named = contains("warning: `").and(contains("other/rubbish.s2t` is damaged"));
    mixed.stderr(named.and(contains("error: ").not()));
}

/// Hazard (Ends of life): A workload crashes before it has used the GPU.
/// Promise: The advice is about the crash, once, and not about its time.
#[test]
fn a_workload_that_a_signal_ended_gets_advice_for_that_signal() {
    let sandbox = Sandbox::new();
    let said = |signal: &str| {
        let script = format!("kill -{signal} $$; sleep 9");
        let words = ["--light", "--", "sh", "-c", &script];
        let said = sandbox.launch_strictly(&words).assert().failure();
        let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
        assert!(!said.contains("--timeout"), "{said}");
        let (_, answer) = said.split_once("coverage: ").expect("an answer");
        assert_eq!(answer.matches(&format!("SIG{signal}")).count(), 1, "{answer}");
        assert!(answer.matches("(libcuda.so)").count() <= 1, "{answer}");
        answer.to_owned()
    };
    let crash = said("SEGV");
    assert!(
        crash.contains("without stage2-launch") && crash.contains("STAGE2_LOG=info"),
        "{crash}"
    );
    let has_gpu = std::path::Path::new("/dev/nvidiactl").exists();
    // The advice is about the crash alone.
    let needs_gpu = "a machine with a GPU";
    assert!(!crash.contains(needs_gpu) && !said("KILL").contains(needs_gpu), "{crash}");
    // A cause has a line.
    assert!(has_gpu || crash.contains("\nalso:     no GPU: "), "{crash}");
    assert!(said("INT").contains("before you interrupt it"));
    assert!(said("KILL").contains("dmesg"));
}

/// Hazard (Ends of life): The launcher is killed.
/// Promise: Reports that are written later state it.
#[test]
fn a_run_whose_launcher_was_killed_says_so() {
    let sandbox = Sandbox::new();
    let script = "touch ready; exec sleep 30";
    let mut child = sandbox.start_until_ready(&["run.mode=light", "--", "sh", "-c", script]);
    assert_eq!(sandbox.run_json()["state"], "running");
    child.kill().expect("SIGKILL");
    child.wait().expect("end");
    let words = ["report", "tmp/stage2/latest", "--allow-empty", "-v"];
    let assert = sandbox.launch_strictly(&words).assert().success();
    assert.stderr(contains("the run record was never closed").and(contains("pass collect")));
    assert!(sandbox.read("report.md").contains("the run record was never closed"));
    sandbox.launch(&["--", "true"]).assert().success().stderr(contains("never closed").not());
    assert_eq!(sandbox.run_json()["state"], "closed");
}

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
    let newest = sandbox.latest("").display().to_string();
    let report = ["report", newest.as_str()];
    sandbox.launch(&report).assert().success().stderr(contains(told));
    std::process::Command::new("kill").arg(daemon.trim()).status().expect("kill");
    sandbox.launch(&report).assert().success().stderr(contains("left behind").not());
    assert!(sandbox.run_json()["left_running"].is_null());
}

#[test]
fn a_run_in_a_run_is_told_by_the_outer_one() {
    let sandbox = Sandbox::new();
    let inner = LAUNCH;
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
    let told = "no Python process loaded the hook of --annotate";
    run("PYTHONPATH=/app/src python3 -c pass").stderr(
        contains(told).and(contains("replaced")).and(contains("${PYTHONPATH:+:$PYTHONPATH}")),
    );
    run("PYTHONPATH=/app/src:$PYTHONPATH python3 -c pass").stderr(contains(told).not());
}
