//! `stage2-launch ctl` with a real collector in a guest that obeys its standard input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::obedient::{Guest, calls, run_json, text};
use serde_json::Value;

#[test]
fn a_dormant_process_is_recorded_for_a_while_and_leaves_a_file_that_merge_reads() {
    let mut guest = Guest::dormant();
    let pid = guest.pid();
    let status = guest.ctl(&[&pid, "status"]);
    assert_eq!(status.status.code(), Some(0), "{}", text(&status));
    assert!(text(&status).starts_with(&format!("{pid}: dormant")), "{}", text(&status));
    let started = guest.ctl(&[&pid, "start", "--ranges", "inside", "--wait"]);
    assert_eq!(started.status.code(), Some(0), "{}", text(&started));
    assert!(text(&started).contains(": on since "), "{}", text(&started));
    let twice = guest.ctl(&[&pid, "start"]);
    assert_eq!(twice.status.code(), Some(1), "{}", text(&twice));
    assert!(text(&twice).contains("refused: window 1 is on already"), "{}", text(&twice));
    guest.tell("work inside 20");
    guest.tell("work other 20");
    let stopped = guest.json(&[&pid, "stop", "--wait"]);
    assert_eq!(stopped[0]["phase"], "dormant");
    assert_eq!(stopped[0]["done"][0]["records"], 20, "{stopped:?}");
    let file = PathBuf::from(stopped[0]["done"][0]["file"].as_str().expect("a file"));
    assert!(file.ends_with(file.file_name().unwrap()) && file.is_file());
    let alone = guest.folder.path().join("w1");
    std::fs::create_dir(&alone).unwrap();
    std::fs::copy(&file, alone.join(file.file_name().unwrap())).unwrap();
    let report = guest.folder.path().join("report");
    let merge = Command::new(env!("CARGO_BIN_EXE_stage2-launch"))
        .args(["merge", "--spool"])
        .args([&alone, &PathBuf::from("-o"), &report])
        .output()
        .expect("stage2-launch");
    assert!(merge.status.success(), "{}", text(&merge));
    let metrics: Value =
        serde_json::from_slice(&std::fs::read(report.join("metrics.json")).unwrap()).unwrap();
    let calls = metrics["kernels"].as_array().expect("kernels").iter();
    assert_eq!(calls.filter_map(|kernel| kernel["calls"].as_u64()).sum::<u64>(), 20);
}

#[test]
fn all_processes_and_those_of_a_run_are_asked() {
    let guest = Guest::dormant();
    let all = guest.json(&["--all", "status"]);
    assert!(
        all.iter().any(|one| one["pid"] == guest.child.id() && one["phase"] == "dormant"),
        "{all:?}"
    );
    let run = guest.json(&[guest.folder.path().to_str().unwrap(), "status"]);
    assert_eq!(run.len(), 1);
    assert_eq!(run[0]["pid"], guest.child.id());
    let other = tempfile::tempdir().unwrap();
    let none = guest.ctl(&[other.path().to_str().unwrap(), "status"]);
    assert_eq!(none.status.code(), Some(70), "{}", text(&none));
    assert!(text(&none).contains("no process of this user writes into"), "{}", text(&none));
}

#[test]
fn processes_of_a_run_begin_at_one_moment_and_end_with_the_same_step() {
    let first = Guest::dormant();
    let run = first.folder.path().to_str().expect("UTF-8").to_owned();
    // The first of them does nothing, as the agent of torchrun does.
    let idle = first.beside();
    let mut guests = [first.beside(), first];
    // The others step all the time.
    for guest in &mut guests {
        guest.tell("busy 1");
    }
    let words = [&run, "start", "--ranges", "step", "--steps", "3", "--wait"];
    let started = guests[0].ctl(&words);
    assert_eq!(started.status.code(), Some(0), "{}", text(&started));
    // Nothing keeps these two in step.
    assert!(text(&started).contains("begin with the same step:"), "{}", text(&started));
    let mut begins = Vec::new();
    for guest in &mut guests {
        let until = std::time::Instant::now() + Duration::from_secs(20);
        let done = loop {
            let status = guest.json(&[&guest.pid(), "status"]);
            if status[0]["phase"] == "dormant" {
                break status[0]["done"][0].clone();
            }
            assert!(std::time::Instant::now() < until, "{status:?}");
        };
        // Three launches in each step.
        assert_eq!(
            (&done["records"], &done["why"]),
            (&9.into(), &"limit steps=3".into()),
            "{done}"
        );
        begins.push(done["began_unix_ms"].as_u64().expect("a time"));
    }
    assert!(begins[0].abs_diff(begins[1]) < 200, "{begins:?}");
    // One moment for all, which a second start can name; a process alone begins at once.
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_millis(1_500);
    let set = guests[0].json(&[&run, "start", "--at", &at.to_string()]);
    let us = u64::try_from(at.as_microsecond()).expect("after 1970");
    let mut set = set.iter().filter(|one| one["pid"] != idle.child.id());
    assert!(set.all(|one| one["at_unix_us"] == us && one["ok"] == true), "{set:?}");
    let alone = guests[0].ctl(&[&guests[0].pid(), "stop", "--wait"]);
    assert_eq!(alone.status.code(), Some(0), "{}", text(&alone));
    let at_once = guests[0].ctl(&[&guests[0].pid(), "start"]);
    assert!(!text(&at_once).contains("begins at"), "{}", text(&at_once));
    let late = guests[0].ctl(&[&run, "start", "--at", "2001-01-01T00:00:00Z"]);
    assert!(text(&late).contains("it is past"), "{}", text(&late));
}

/// Hazard (Dormant processes and windows): The process that starts the ranks runs nothing itself,
///  so that its window does not end.
/// Promise: The next start of all begins a new one there.
#[test]
fn a_window_in_which_nothing_ran_keeps_no_process_from_the_next_one() {
    let first = Guest::dormant();
    let run = first.folder.path().to_str().expect("UTF-8").to_owned();
    let mut guests = [first.beside(), first];
    let start = [run.as_str(), "start", "--steps", "1", "--wait"];
    assert_eq!(guests[0].ctl(&start).status.code(), Some(0));
    guests[0].tell("work step 4");
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while guests[0].json(&[&guests[0].pid(), "status"])[0]["phase"] != "dormant" {
        assert!(std::time::Instant::now() < until);
    }
    // The other one has done nothing, as the agent of torchrun does.
    std::thread::sleep(Duration::from_secs(2));
    let again = guests[0].ctl(&start);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again));
    assert_eq!(text(&again).matches(", window 2").count(), 2, "{}", text(&again));
    guests[1].tell("push open");
    guests[1].tell("launch 3");
    let status = || guests[0].json(&[&guests[1].pid(), "status"])[0]["window_records"].clone();
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while status() != 3 {
        assert_eq!(guests[0].ctl(&[&guests[1].pid(), "flush"]).status.code(), Some(0));
        assert!(std::time::Instant::now() < until);
    }
    guests[0].tell("work step 4");
    let third = guests[0].ctl(&start);
    assert_eq!(third.status.code(), Some(1), "it has records now: {}", text(&third));
    assert!(text(&third).contains("window 2 is on already"), "{}", text(&third));
}

#[test]
fn a_process_in_a_container_is_recorded_from_outside() {
    let Some(mut guest) = Guest::in_container() else { return };
    let outer = guest.pid();
    let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    let pid = children.split_whitespace().next().expect("the guest, as it is numbered here");
    let run = guest.folder.path().join("run");
    assert_eq!(std::fs::read_dir(&run).unwrap().count(), 0, "its sockets are not here");
    let started = guest.ctl(&[pid, "start", "--wait"]);
    assert_eq!(started.status.code(), Some(0), "{}", text(&started));
    guest.tell("work inside 20");
    let stopped = guest.json(&[pid, "stop", "--wait"]);
    assert_eq!(stopped[0]["done"][0]["records"], 20, "{stopped:?}");
    let status = guest.ctl(&[pid, "status"]);
    assert!(text(&status).starts_with(&format!("{pid}: dormant")), "{}", text(&status));
}

#[test]
fn what_cannot_be_asked_is_named_with_what_to_do() {
    let mut guest = Guest::dormant();
    for (words, code, part) in [
        (&["4000000000", "status"][..], 70, "no process 4000000000"),
        (&[&std::process::id().to_string(), "status"], 70, "no control socket"),
        (&["status"], 2, "--all"),
        (&["--all", &guest.pid(), "status"], 2, "--all stands for"),
        (&[&guest.pid(), "begin"], 2, "begin"),
        (&[&guest.pid(), "start", "--for", "0"], 2, "1ms"),
        (&[&guest.pid(), "start", "--ranges", ","], 1, "globs"),
        (&[&guest.pid(), "stop"], 1, "no window is on"),
    ] {
        let output = guest.ctl(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output));
        assert!(text(&output).contains(part), "{words:?}: {}", text(&output));
    }
    // Killed, it leaves its socket behind, which is not taken for a process.
    guest.child.kill().unwrap();
    guest.child.wait().unwrap();
    let sockets = std::fs::read_dir(guest.folder.path().join("run/stage2")).unwrap().count();
    assert_eq!(sockets, 1);
    let gone = guest.ctl(&[&guest.pid(), "status"]);
    assert_eq!(gone.status.code(), Some(70), "{}", text(&gone));
    let pid = guest.child.id();
    let all = guest.json(&["--all", "status"]);
    assert!(all.iter().all(|one| one["pid"] != pid), "{all:?}");
}

/// Hazard (Dormant processes and windows): A snapshot is taken of a window that is on.
/// Promise: It holds what was recorded up to then, says that it is one, and the window goes on.
#[test]
fn a_snapshot_of_a_window_that_is_on_is_a_bundle_and_the_window_goes_on() {
    let mut guest = Guest::dormant();
    let pid = guest.pid();
    assert_eq!(guest.ctl(&[&pid, "start", "--wait"]).status.code(), Some(0));
    guest.tell("work inside 20");
    let bundle = guest.folder.path().join("snapshot");
    let words = [&pid, "snapshot", "-o", bundle.to_str().unwrap()];
    let taken = guest.ctl(&words);
    assert_eq!(taken.status.code(), Some(0), "{}", text(&taken));
    assert_eq!(calls(&bundle), 20);
    for file in ["report.md", "report.html", "env.json", "config.yaml", "inputs.yaml"] {
        assert!(bundle.join(file).is_file(), "{file}");
    }
    let run = run_json(&bundle);
    let window = &run["windows"][0];
    assert_eq!((window["pid"].to_string(), &window["number"]), (pid.clone(), &1.into()), "{run}");
    assert_eq!((&window["snapshot"], &window["why"]), (&true.into(), &Value::Null), "{run}");
    assert_eq!(window["records"], 20, "{run}");
    let report = std::fs::read_to_string(bundle.join("report.md")).unwrap();
    assert!(report.contains("snapshot: window 1") && report.contains("PARTIAL"), "{report}");
    // What is there is not replaced, and the window has gone on.
    let again = guest.ctl(&words);
    assert_eq!(again.status.code(), Some(2), "{}", text(&again));
    guest.tell("work inside 5");
    let stopped = guest.json(&[&pid, "stop", "--wait"]);
    assert_eq!(stopped[0]["done"][0]["records"], 25, "{stopped:?}");
}

#[test]
fn a_snapshot_of_dormant_processes_records_a_window_in_each() {
    let first = Guest::dormant();
    let mut guests = [first.beside(), first];
    for guest in &mut guests {
        guest.tell("busy 1");
    }
    let bundle = guests[0].folder.path().join("snapshot");
    let run = guests[0].folder.path().to_str().unwrap();
    let taken = guests[0].ctl(&[run, "snapshot", "--for", "300ms", "-o", bundle.to_str().unwrap()]);
    assert_eq!(taken.status.code(), Some(0), "{}", text(&taken));
    let run = run_json(&bundle);
    let windows = run["windows"].as_array().expect("windows");
    assert_eq!(windows.len(), 2, "{run}");
    for window in windows {
        assert_eq!(window["why"], "limit for_ms=300", "{run}");
        assert!(window["records"].as_u64() > Some(0) && window.get("snapshot").is_none(), "{run}");
    }
    let status = guests[0].json(&[&guests[0].pid(), "status"]);
    assert_eq!(status[0]["phase"], "dormant", "{status:?}");
    guests.iter_mut().for_each(|guest| guest.tell("calm"));
}

/// Starts a snapshot of a dormant guest, and waits until its window is on.
fn snapshot_that_records(guest: &Guest, seconds: &str, bundle: &Path) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_stage2-launch"))
        .args(["ctl", &guest.pid(), "snapshot", "--for", seconds, "-o"])
        .arg(bundle)
        .env("XDG_RUNTIME_DIR", guest.folder.path().join("run"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("stage2-launch");
    for _ in 0..1000 {
        if guest.json(&[&guest.pid(), "status"])[0]["phase"] == "on" {
            return child;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no window: {}", text(&child.wait_with_output().expect("ends")));
}

/// Hazard (Dormant processes and windows): Ctrl-C while a snapshot records.
/// Promise: Its windows are stopped, and nothing is left.
#[test]
fn an_interrupted_snapshot_stops_its_window_and_leaves_nothing() {
    let guest = Guest::dormant();
    let bundle = guest.folder.path().join("snapshot");
    let child = snapshot_that_records(&guest, "60s", &bundle);
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().expect("a number"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
    let ended = child.wait_with_output().expect("ends");
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended));
    assert!(!bundle.exists());
    let status = guest.json(&[&guest.pid(), "status"]);
    assert_ne!(status[0]["phase"], "on", "{status:?}");
}

/// Hazard (Dormant processes and windows): The process is killed while a snapshot records.
/// Promise: The bundle holds what it had written, and says so.
#[test]
fn a_process_that_is_killed_within_a_snapshot_leaves_what_it_had_written() {
    let mut guest = Guest::dormant();
    let bundle = guest.folder.path().join("snapshot");
    let child = snapshot_that_records(&guest, "60s", &bundle);
    guest.tell("work inside 20");
    let flushed = guest.ctl(&[&guest.pid(), "flush"]);
    assert!(flushed.status.success(), "{}", text(&flushed));
    // The snapshot asks for the file's name every 50 ms.
    std::thread::sleep(Duration::from_millis(500));
    guest.child.kill().expect("it runs");
    guest.child.wait().expect("ended");
    let ended = child.wait_with_output().expect("ends");
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    assert!(text(&ended).contains("ended within window 1"), "{}", text(&ended));
    let window = run_json(&bundle)["windows"][0].clone();
    assert!(window["why"].is_null() && window.get("snapshot").is_none(), "{window}");
    assert_eq!(calls(&bundle), 20);
    let report = std::fs::read_to_string(bundle.join("report.md")).expect("a report");
    assert!(report.contains("PARTIAL"), "{report}");
}

/// Hazard (Dormant processes and windows): No room for a snapshot.
/// Promise: Nothing of it is left, and the trace file is named.
#[test]
fn a_snapshot_without_room_leaves_nothing_and_names_the_trace_file() {
    let mut guest = Guest::dormant();
    assert_eq!(guest.ctl(&[&guest.pid(), "start", "--wait"]).status.code(), Some(0));
    guest.tell("work inside 600");
    let bundle = guest.folder.path().join("snapshot");
    // Files of at most 20 KiB, and an error for what is beyond.
    let script = "trap '' XFSZ; ulimit -f 20; exec \"$@\"";
    let ended = Command::new("bash")
        .args(["-c", script, "bash", env!("CARGO_BIN_EXE_stage2-launch"), "ctl", &guest.pid()])
        .args(["snapshot", "-o", bundle.to_str().unwrap()])
        .env("XDG_RUNTIME_DIR", guest.folder.path().join("run"))
        .output()
        .expect("bash");
    assert_eq!(ended.status.code(), Some(70), "{}", text(&ended));
    assert!(text(&ended).contains("merge --spool"), "{}", text(&ended));
    assert!(!bundle.exists());
}

#[test]
fn a_snapshot_of_a_process_that_refuses_records_nothing() {
    let guest = Guest::dormant();
    let sockets = guest.folder.path().join("run/stage2");
    let socket = std::fs::read_dir(&sockets).unwrap().flatten().next().expect("one").path();
    // A collector of another version serves it.
    std::fs::remove_file(&socket).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut line = String::new();
            let _ = BufReader::new(&client).read_line(&mut line);
            let _ = (&client).write_all(b"stage2-control/2 ok\nend\n");
        }
    });
    let bundle = guest.folder.path().join("snapshot");
    let taken = guest.ctl(&[&guest.pid(), "snapshot", "-o", bundle.to_str().unwrap()]);
    assert_eq!(taken.status.code(), Some(1), "{}", text(&taken));
    assert!(text(&taken).contains("version 2 of the protocol"), "{}", text(&taken));
    assert!(!bundle.exists());
}
