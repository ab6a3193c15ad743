//! An nsys that fails: it is run once more where that may help, and its own words are told.

use crate::common::{Sandbox, at_once, end, send, stderr};
use nix::sys::signal::Signal;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

/// Runs the workload and fails: always, or the first time only. It opens no capture range.
const NSYS: &str = r#"#!/bin/sh
case "$1" in
--version) echo "NVIDIA Nsight Systems version 2024.6.2"; exit 0;;
export|stats)
  for word; do case "$word" in --output=*) : > "${word#--output=}";; esac; done; exit 0;;
esac
gate=
for word; do case "$word" in --output=*) out="${word#--output=}";; --capture-range=nvtx) gate=1;; esac; done
# The helper is lost, and the status is 0.
if [ "$FAKE" = each ] && [ ! -e "failed$gate" ]; then touch "failed$gate"; echo "$SAYS" >&2; exit 0; fi
while [ "$1" ]; do case "$1" in profile|--*) shift;; *) break;; esac; done
"$@"
echo "workload says goodbye"
if [ "$FAKE" = always ] || { [ "$FAKE" = once ] && [ ! -e failed ]; }; then
  touch failed
  : > "$out.nsys-rep"; echo raw > "$out.qdstrm"
  [ -n "$EMPTY" ] || rm "$out.nsys-rep" "$out.qdstrm"
  echo "$SAYS" >&2
  exit 1
fi
[ -n "$gate" ] || echo report > "$out.nsys-rep"
"#;

/// It was seen to work the next time.
const IMPORT_FAILED: &str = "Importer error status: Importation failed.";

fn launch(fake: &str, says: &str, empty: bool) -> (Sandbox, assert_cmd::assert::Assert) {
    launch_with(&[], fake, says, empty)
}

fn launch_with(
    settings: &[&str],
    fake: &str,
    says: &str,
    empty: bool,
) -> (Sandbox, assert_cmd::assert::Assert) {
    let sandbox = Sandbox::new();
    sandbox.executable("tools/nsys", NSYS);
    let workload = ["pipeline.ncu.enable=false", "--", "sh", "-c", "echo ran >> count"];
    let words = [settings, &workload].concat();
    let mut command = sandbox.launch_with_tools(&words);
    command.env("FAKE", fake).env("SAYS", says);
    if empty {
        command.env("EMPTY", "1");
    }
    let assert = command.assert().success();
    (sandbox, assert)
}

fn pass(sandbox: &Sandbox) -> (Value, usize) {
    (sandbox.pass("nsys"), sandbox.count())
}

#[test]
fn a_failure_is_tried_once_more_and_quoted() {
    let says = IMPORT_FAILED;
    let (sandbox, assert) = launch("once", says, true);
    assert.stderr(contains("running it once more").and(contains(says)));
    let (nsys, runs) = pass(&sandbox);
    assert_eq!((nsys["status"].as_str(), runs), (Some("ok"), 3), "collect, and nsys twice");
    let findings = sandbox.run_json()["findings"].to_string();
    assert!(findings.contains("this report is from the second run"), "{findings}");
    for name in ["run.qdstrm", "run.first.qdstrm"] {
        assert!(!sandbox.latest("nsys").join(name).exists(), "{name} is left over");
    }

    let says = "FATAL ERROR: the frobnicator is busy";
    let (sandbox, assert) = launch("always", says, false);
    assert.stderr(contains(says).and(contains("tried twice")));
    let (nsys, runs) = pass(&sandbox);
    assert_eq!((nsys["status"].as_str(), runs), (Some("failed"), 3), "no third time");
    assert!(nsys["why"].as_str().is_some_and(|why| why.contains(says)), "{nsys}");
    assert!(sandbox.read("report.md").contains("frobnicator"));
}

/// Hazard (Versions, libraries and rivals): nsys is given a capture range, and fails before the
///  workload starts.
/// Promise: The pass is repeated. The report does not claim that the range never occurred.
#[test]
fn a_lost_helper_is_no_missing_range_and_may_be_lost_again_without_the_gate() {
    let gate = ["profiling/nsys=nsys.gated", "pipeline.nsys.nvtx_capture=never"];
    let says = "Connection to Agent lost. This is most likely a bug.";
    let (sandbox, assert) = launch_with(&gate, "each", says, false);
    let said = stderr(&assert);
    assert_eq!(said.matches("running it once more").count(), 2, "{said}");
    assert_eq!(said.matches("the range never never came").count(), 1, "{said}");
    let (nsys, runs) = pass(&sandbox);
    assert_eq!((nsys["status"].as_str(), runs), (Some("ok"), 3), "collect, gated, whole: {said}");
}

#[test]
fn no_raw_capture_is_lost_before_there_is_a_report() {
    // The importer is missing: another run of the workload would change nothing.
    let (sandbox, assert) = launch("always", "skipping importation of the QDSTRM file", true);
    assert.stderr(contains("importer is missing").and(contains("once more").not()));
    assert_eq!(pass(&sandbox).1, 2);
    assert_eq!(sandbox.read("nsys/run.qdstrm"), "raw\n");

    let (sandbox, _) = launch("always", IMPORT_FAILED, true);
    assert_eq!(pass(&sandbox).1, 3);
    for name in ["nsys/run.first.qdstrm", "nsys/run.qdstrm"] {
        assert_eq!(sandbox.read(name), "raw\n");
    }
    let findings = sandbox.run_json()["findings"].to_string();
    assert!(findings.contains("nsys/run.first.qdstrm"), "{findings}");
}

#[test]
fn the_raw_capture_outlives_an_interruption_of_the_second_run() {
    let sandbox = Sandbox::new();
    sandbox.executable("tools/nsys", NSYS);
    // The second run under nsys, which is the third of the workload.
    let script = "echo ran >> count; [ $(wc -l < count) -lt 3 ] || { : > ready; sleep 30; }";
    let mut command = sandbox.std_launch(&["pipeline.ncu.enable=false", "--", "sh", "-c", script]);
    command.env("FAKE", "once").env("SAYS", IMPORT_FAILED).env("EMPTY", "1");
    let child = sandbox.spawn_until_ready(command.env("PATH", sandbox.tools_path()));
    // Not SIGINT: a shell puts it off while it starts `sleep`.
    send(&child, Signal::SIGTERM);
    end(child);
    assert_eq!(sandbox.read("nsys/run.first.qdstrm"), "raw\n");
    let findings = sandbox.run_json()["findings"].to_string();
    assert!(findings.contains("nsys/run.first.qdstrm"), "{findings}");
}

#[test]
fn what_fails_for_a_reason_that_stays_is_not_tried_again() {
    let reasons = ["Illegal --trace argument 'x'", "write failed: No space left on device"];
    at_once(reasons, |says| {
        let (sandbox, assert) = launch("always", says, false);
        assert.stderr(contains(says).and(contains("tried twice").not()));
        assert_eq!(pass(&sandbox).1, 2, "{says}");
    });
    let (sandbox, assert) = launch("never", "", false);
    assert.stderr(contains("once more").not());
    assert_eq!(pass(&sandbox).1, 2);
}

#[test]
fn every_pass_has_one_line_that_says_how_long_it_took() {
    let (sandbox, assert) = launch("never", "", false);
    let told = stderr(&assert);
    for (number, name) in [(1, "collect"), (2, "nsys")] {
        let start = format!("stage2-launch: [{number}/2] {name}: exit status 0 in ");
        let lines: Vec<&str> = told.lines().filter(|line| line.starts_with(&start)).collect();
        assert_eq!(lines.len(), 1, "{told}");
        assert!(lines[0].ends_with(" s"), "{told}");
    }
    // Commands hold secrets, and this goes to the logs of CI.
    assert!(!told.contains("echo ran"), "{told}");
    assert!(told.lines().all(|line| line.chars().count() < 800));
    let quiet = sandbox.launch(&["-q", "--", "true"]).assert().success();
    assert!(!stderr(&quiet).contains("collect"));
}
