//! `stage2-launch run --dormant`: a workload that is recorded in windows, each with reports of its own.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::common::obedient::{Guest, calls, run_json, text};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// Hazard (Dormant processes and windows): A dormant run with several windows.
/// Promise: Each has a bundle of its own, and `run.json` lists them.
#[test]
fn a_dormant_run_logs_its_windows_and_each_is_a_bundle() {
    let mut guest = Guest::launched(&[]);
    let bundle = guest.folder.path().join("bundle");
    let run = bundle.to_str().expect("UTF-8").to_owned();
    guest.tell("work before 9");
    for (name, kernels) in [("first", 20), ("second", 30)] {
        let started = guest.ctl(&[&run, "start", "--wait"]);
        assert_eq!(started.status.code(), Some(0), "{}", text(&started));
        guest.tell(&format!("work {name} {kernels}"));
        let stopped = guest.ctl(&[&run, "stop", "--wait"]);
        assert_eq!(stopped.status.code(), Some(0), "{}", text(&stopped));
    }
    let (said, status) = guest.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("dormant: nothing is recorded until"), "{said}");
    let record = run_json(&bundle);
    assert_eq!(record["state"], "closed");
    let windows = record["windows"].as_array().expect("windows");
    assert_eq!(windows.len(), 2, "{record}");
    for (window, (number, kernels)) in windows.iter().zip([(1, 20), (2, 30)]) {
        assert_eq!(window["number"], number, "{record}");
        assert_eq!(
            (&window["records"], &window["why"]),
            (&kernels.into(), &"stop".into()),
            "{record}"
        );
        assert!(window["began"].as_str() < window["ended"].as_str(), "{record}");
        assert!(bundle.join(window["file"].as_str().expect("a file")).is_file(), "{record}");
        let own = bundle.join(format!("windows/w{number}"));
        assert_eq!(calls(&own), kernels);
        assert!(own.join("report.html").is_file());
    }
    for page in ["windows/compared.md", "windows/compared.html"] {
        let text = std::fs::read_to_string(bundle.join(page)).expect(page);
        assert!(text.contains("w1") && text.contains("w2"), "{text}");
    }
    // What takes one report names a window; the reports of all of them are written again.
    let launch = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stage2-launch"));
        command.args(words).output().expect("stage2-launch")
    };
    for words in
        [&["export", &run, "-f", "csv"][..], &["report", "--json", &run], &["diff", &run, &run]]
    {
        let refused = launch(words);
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
        assert!(text(&refused).contains("windows/w1"), "{}", text(&refused));
    }
    std::fs::remove_file(bundle.join("windows/w2/report.md")).expect("there");
    let file = windows[1]["file"].as_str().expect("a file");
    compress(&bundle.join(file));
    let report = launch(&["report", &run]);
    assert_eq!(report.status.code(), Some(0), "{}", text(&report));
    assert!(bundle.join("windows/w2/report.md").is_file());
    assert_eq!(calls(&bundle.join("windows/w2")), 30, "of a compressed trace file");
    // A window whose trace file is gone stays as it is, and the other one has its reports all the same.
    let file = windows[0]["file"].as_str().expect("a file");
    std::fs::remove_file(bundle.join(file)).expect("removed");
    for window in ["w1", "w2"] {
        std::fs::remove_file(bundle.join(format!("windows/{window}/report.md"))).expect("there");
    }
    let report = launch(&["report", &run]);
    assert_eq!(report.status.code(), Some(70), "{}", text(&report));
    assert!(text(&report).contains("they stay as they are"), "{}", text(&report));
    assert!(!bundle.join("windows/w1/report.md").exists());
    assert!(bundle.join("windows/w2/report.md").is_file());
    assert_eq!(calls(&bundle.join("windows/w1")), 20);
}

/// As retention does with the files of older runs.
fn compress(path: &Path) {
    let packed = File::create(format!("{}.gz", path.display())).expect("file");
    let mut packer = GzEncoder::new(packed, Compression::fast());
    std::io::copy(&mut File::open(path).expect("file"), &mut packer).expect("packed");
    packer.finish().expect("packed");
    std::fs::remove_file(path).expect("removed");
}

/// Hazard (Dormant processes and windows): A dormant run in which nobody begins a window.
/// Promise: No error, and a line that says how.
#[test]
fn a_dormant_run_without_a_window_is_no_error_and_says_how_to_begin_one() {
    let mut guest = Guest::launched(&[]);
    guest.tell("work before 9");
    let bundle = guest.folder.path().join("bundle");
    let (said, status) = guest.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("no window was recorded") && said.contains("start --for 10s"), "{said}");
    assert_eq!(run_json(&bundle)["state"], "closed");
}

#[test]
fn the_variable_of_the_collector_makes_a_run_dormant() {
    let mut guest = Guest::launched_with("STAGE2_START", "off");
    let bundle = guest.folder.path().join("bundle");
    let started = guest.ctl(&[bundle.to_str().expect("UTF-8"), "start", "--wait"]);
    assert_eq!(started.status.code(), Some(0), "{}", text(&started));
    guest.tell("work inside 12");
    let (said, status) = guest.end();
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(calls(&bundle.join("windows/w1")), 12);
}

#[test]
fn a_workload_that_ends_within_a_window_has_its_reports() {
    let mut guest = Guest::launched(&["--timeout", "60s"]);
    let bundle = guest.folder.path().join("bundle");
    let run = bundle.to_str().expect("UTF-8").to_owned();
    let started = guest.ctl(&[&run, "start", "--wait"]);
    assert_eq!(started.status.code(), Some(0), "{}", text(&started));
    guest.tell("work inside 12");
    let (said, status) = guest.end();
    assert_eq!(status, Some(0), "{said}");
    let record = run_json(&bundle);
    assert_eq!(record["windows"][0]["why"], "exit", "{record}");
    assert_eq!(calls(&bundle.join("windows/w1")), 12);
    assert!(!bundle.join("windows/compared.md").exists());
}

#[test]
fn a_signal_ends_the_workload_and_its_window_has_reports() {
    let mut guest = Guest::launched(&[]);
    let bundle = guest.folder.path().join("bundle");
    let run = bundle.to_str().expect("UTF-8").to_owned();
    let started = guest.ctl(&[&run, "start", "--wait"]);
    assert_eq!(started.status.code(), Some(0), "{}", text(&started));
    guest.tell("work inside 12");
    let launcher = nix::unistd::Pid::from_raw(guest.child.id().try_into().expect("a number"));
    nix::sys::signal::kill(launcher, nix::sys::signal::Signal::SIGTERM).expect("it runs");
    let ended = guest.child.wait().expect("ended");
    assert_eq!(ended.code(), Some(128 + 15));
    let record = run_json(&bundle);
    assert_eq!((&record["state"], &record["windows"][0]["why"]), (&"closed".into(), &Value::Null));
    assert_eq!(calls(&bundle.join("windows/w1")), 12);
}

#[test]
fn a_dormant_run_is_no_deep_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_stage2-launch"))
        .args(["run", "--dormant", "--deep", "--", "true"])
        .output()
        .expect("stage2-launch");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    for deep in ["run.mode=deep", "--deep"] {
        let output = Command::new(env!("CARGO_BIN_EXE_stage2-launch"))
            .args(["run", deep, "--", "true"])
            .env("STAGE2_START", "off")
            .output()
            .expect("stage2-launch");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("STAGE2_START=off"), "{}", text(&output));
    }
}
