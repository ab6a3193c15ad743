//! `stage2-launch run --dormant`: a workload that is recorded in windows, each with reports of its own.

use std::process::Command;
use std::rc::Rc;

use crate::common::guest::{Guest, calls};
use crate::common::{LAUNCH, compress, expect_parts, json, read, send, text};
use nix::sys::signal::Signal;
use serde_json::Value;

fn dormant(words: &[&str]) -> (Guest, String) {
    let guest = Guest::launched(&[&["--dormant"], words].concat(), &[]);
    let bundle = guest.path("bundle").to_str().expect("UTF-8").to_owned();
    (guest, bundle)
}

fn end(mut guest: Guest) -> (String, Value) {
    let (said, status) = guest.end();
    assert_eq!(status, Some(0), "{said}");
    (said, json(&guest.path("bundle/run.json")))
}

/// Hazard (Dormant processes and windows): A dormant run with several windows.
/// Promise: Each has a separate bundle, and `run.json` lists them.
#[test]
fn a_dormant_run_logs_its_windows_and_each_is_a_bundle() {
    let (mut guest, run) = dormant(&[]);
    let (folder, bundle) = (Rc::clone(&guest.folder), guest.path("bundle"));
    guest.tell("work before 9");
    for (name, kernels) in [("first", 20), ("second", 30)] {
        guest.ctl_ends(&[&run, "start", "--wait"], 0);
        guest.tell(&format!("work {name} {kernels}"));
        guest.ctl_ends(&[&run, "stop", "--wait"], 0);
    }
    let (said, record) = end(guest);
    assert!(said.contains("dormant: nothing is recorded until"), "{said}");
    assert_eq!(record["state"], "closed");
    let windows = record["windows"].as_array().expect("windows");
    assert_eq!(windows.len(), 2, "{record}");
    for (window, (number, kernels)) in windows.iter().zip([(1, 20), (2, 30)]) {
        assert_eq!(window["number"], number, "{record}");
        assert!(window["records"] == kernels && window["why"] == "stop", "{record}");
        assert!(window["began"].as_str() < window["ended"].as_str(), "{record}");
        assert!(bundle.join(window["file"].as_str().expect("a file")).is_file(), "{record}");
        let own = bundle.join(format!("windows/w{number}"));
        assert_eq!(calls(&own), kernels);
        assert!(own.join("report.html").is_file());
    }
    for page in ["windows/compared.md", "windows/compared.html"] {
        expect_parts(&read(&bundle.join(page)), page, &["w1", "w2"]);
    }
    // `top` shows the run, and names the reports of its windows.
    let page = launch(&["top", "--once", &run], &[("COLUMNS", "250")], 0);
    let reports = ["w1", "w2"].map(|window| format!("{run}/windows/{window}/report.html"));
    let ended = format!("Ended; reports: {} {}", reports[0], reports[1]);
    expect_parts(&page, "page", &["1 process  ended", "last window", "GPU work 50 ", &ended]);
    // What takes one report names a window; the reports of all of them are written again.
    for words in
        [&["export", &run, "-f", "csv"][..], &["report", "--json", &run], &["diff", &run, &run]]
    {
        expect_parts(&launch(words, &[], 2), "said", &["windows/w1"]);
    }
    std::fs::remove_file(bundle.join("windows/w2/report.md")).expect("there");
    let file = windows[1]["file"].as_str().expect("a file");
    compress(&bundle.join(file));
    launch(&["report", &run], &[], 0);
    assert!(bundle.join("windows/w2/report.md").is_file());
    assert_eq!(calls(&bundle.join("windows/w2")), 30, "of a compressed trace file");
    // A window whose trace file is gone stays as it is, and the other one has its reports all the same.
    let file = windows[0]["file"].as_str().expect("a file");
    std::fs::remove_file(bundle.join(file)).expect("removed");
    for window in ["w1", "w2"] {
        std::fs::remove_file(bundle.join(format!("windows/{window}/report.md"))).expect("there");
    }
    expect_parts(&launch(&["report", &run], &[], 70), "said", &["so no report was written"]);
    assert!(!bundle.join("windows/w1/report.md").exists());
    assert!(bundle.join("windows/w2/report.md").is_file());
    assert_eq!(calls(&bundle.join("windows/w1")), 20);
    drop(folder);
}

/// The launcher alone, which ends with this status; what it said.
#[track_caller]
fn launch(words: &[&str], variables: &[(&str, &str)], status: i32) -> String {
    let output = Command::new(LAUNCH).args(words).envs(variables.iter().copied()).output();
    let output = output.expect("stage2-launch");
    assert_eq!(output.status.code(), Some(status), "{words:?}: {}", text(&output));
    text(&output)
}

/// Hazard (Dormant processes and windows): A dormant run without a window.
/// Promise: No error, and a line states how to begin one.
#[test]
fn a_dormant_run_without_a_window_is_no_error_and_says_how_to_begin_one() {
    let (mut guest, run) = dormant(&[]);
    let folder = Rc::clone(&guest.folder);
    guest.tell("work before 9");
    let (said, record) = end(guest);
    expect_parts(&said, "said", &["no window was recorded", "start --for 10s"]);
    let said = launch(&["top", "--once", &run], &[], 2);
    expect_parts(&said, "said", &["is a dormant run without windows: nothing was recorded"]);
    assert_eq!(record["state"], "closed");
    drop(folder);
}

#[test]
fn a_workload_that_ends_within_a_window_has_its_reports() {
    // The variable of the collector makes a run dormant, too.
    let by_variable = Guest::launched(&[], &[("STAGE2_START", "off")]);
    for mut guest in [dormant(&["--timeout", "60s"]).0, by_variable] {
        let bundle = guest.path("bundle");
        let folder = Rc::clone(&guest.folder);
        guest.ctl_ends(&[bundle.to_str().expect("UTF-8"), "start", "--wait"], 0);
        guest.tell("work inside 12");
        let (_, record) = end(guest);
        assert_eq!(record["windows"][0]["why"], "exit", "{record}");
        assert_eq!(calls(&bundle.join("windows/w1")), 12);
        assert!(!bundle.join("windows/compared.md").exists());
        drop(folder);
    }
}

#[test]
fn a_signal_ends_the_workload_and_its_window_has_reports() {
    let (mut guest, run) = dormant(&[]);
    guest.ctl_ends(&[&run, "start", "--wait"], 0);
    guest.tell("work inside 12");
    send(&guest.child, Signal::SIGTERM);
    assert_eq!(guest.child.wait().expect("ended").code(), Some(128 + 15));
    let record = json(&guest.path("bundle/run.json"));
    assert_eq!((&record["state"], &record["windows"][0]["why"]), (&"closed".into(), &Value::Null));
    assert_eq!(calls(&guest.path("bundle/windows/w1")), 12);
}

#[test]
fn a_dormant_run_is_no_deep_one() {
    launch(&["run", "--dormant", "--deep", "--", "true"], &[], 2);
    for deep in ["run.mode=deep", "--deep"] {
        let said = launch(&["run", deep, "--", "true"], &[("STAGE2_START", "off")], 2);
        assert!(said.contains("STAGE2_START=off"), "{said}");
    }
}
