//! `stage2-launch ctl` with a real collector in a guest that obeys its standard input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use crate::common::guest::{Guest, calls};
use crate::common::{
    LAUNCH, end, expect_parts, json, names_in, read, send, spawn, text, wait_until,
};
use nix::sys::signal::Signal;
use serde_json::Value;

#[test]
fn a_dormant_process_is_recorded_for_a_while_and_leaves_a_file_that_merge_reads() {
    let mut guest = Guest::dormant();
    let pid = guest.pid();
    let status = guest.ctl_ends(&[&pid, "status"], 0);
    assert!(status.starts_with(&format!("{pid}: dormant")), "{status}");
    let started = guest.ctl_ends(&[&pid, "start", "--ranges", "inside", "--wait"], 0);
    assert!(started.contains(": on since "), "{started}");
    assert!(
        started.contains("this attaches CUPTI to 1 process: launches stay slower"),
        "{started}"
    );
    let twice = guest.ctl_ends(&[&pid, "start"], 1);
    assert!(twice.contains("refused: window 1 is on already"), "{twice}");
    assert!(!twice.contains("attaches CUPTI"), "only before the first window: {twice}");
    guest.does(["work inside 20", "work other 20"]);
    let stopped = guest.json(&[&pid, "stop", "--wait"]);
    assert_eq!(stopped[0]["phase"], "dormant");
    assert_eq!(stopped[0]["done"][0]["records"], 20, "{stopped:?}");
    let file = PathBuf::from(stopped[0]["done"][0]["file"].as_str().expect("a file"));
    assert!(file.ends_with(file.file_name().unwrap()) && file.is_file());
    let alone = guest.path("w1");
    std::fs::create_dir(&alone).unwrap();
    std::fs::copy(&file, alone.join(file.file_name().unwrap())).unwrap();
    let merge = guest.launch(&["merge", "--spool", "w1", "-o", "report"]).output().unwrap();
    assert!(merge.status.success(), "{}", text(&merge));
    assert_eq!(calls(&guest.path("report")), 20);
}

#[test]
fn all_processes_and_those_of_a_run_are_asked() {
    let guest = Guest::dormant();
    let all = guest.json(&["--all", "status"]);
    assert!(
        all.iter().any(|one| one["pid"] == guest.child.id() && one["phase"] == "dormant"),
        "{all:?}"
    );
    let run = guest.json(&[&guest.traces(), "status"]);
    assert_eq!(run.len(), 1);
    assert_eq!(run[0]["pid"], guest.child.id());
    let other = tempfile::tempdir().unwrap();
    let none = guest.ctl_ends(&[other.path().to_str().unwrap(), "status"], 70);
    assert!(none.contains("no process of this user writes into"), "{none}");
}

#[test]
fn processes_of_a_run_begin_at_one_moment_and_end_with_the_same_step() {
    let first = Guest::dormant();
    let run = first.traces();
    // The first of them does nothing, as the agent of torchrun does.
    let idle = first.beside();
    let mut guests = [first.beside(), first];
    // The others step all the time.
    for guest in &mut guests {
        guest.tell("busy 1");
    }
    let words = [&run, "start", "--ranges", "step", "--steps", "3", "--wait"];
    let started = guests[0].ctl_ends(&words, 0);
    // Nothing keeps these two in step.
    assert!(started.contains("begin with the same step:"), "{started}");
    let mut begins = Vec::new();
    for guest in &guests {
        wait_until("the end of the window", || guest.status()["phase"] == "dormant");
        let done = &guest.status()["done"][0];
        // Three launches in each step.
        assert!(done["records"] == 9 && done["why"] == "limit steps=3", "{done}");
        begins.push(done["began_unix_ms"].as_u64().expect("a time"));
    }
    assert!(begins[0].abs_diff(begins[1]) < 200, "{begins:?}");
    // One moment for all, which a second start can name; a process alone begins at once.
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_millis(1_500);
    let set = guests[0].json(&[&run, "start", "--at", &at.to_string()]);
    let us = u64::try_from(at.as_microsecond()).expect("after 1970");
    let mut set = set.iter().filter(|one| one["pid"] != idle.child.id());
    assert!(set.all(|one| one["at_unix_us"] == us && one["ok"] == true), "{set:?}");
    guests[0].ctl_ends(&[&guests[0].pid(), "stop", "--wait"], 0);
    let at_once = guests[0].ctl(&[&guests[0].pid(), "start"]);
    assert!(!text(&at_once).contains("begins at"), "{}", text(&at_once));
    let late = guests[0].ctl(&[&run, "start", "--at", "2001-01-01T00:00:00Z"]);
    assert!(text(&late).contains("it is in the past"), "{}", text(&late));
}

/// Hazard (Dormant processes and windows): The process that starts the ranks runs nothing itself,
///  so that its window does not end.
/// Promise: The next start of all begins a new one there.
#[test]
fn a_window_in_which_nothing_ran_keeps_no_process_from_the_next_one() {
    let first = Guest::dormant();
    let run = first.traces();
    let mut guests = [first.beside(), first];
    let start = [run.as_str(), "start", "--steps", "1", "--wait"];
    guests[0].ctl_ends(&start, 0);
    guests[0].tell("work step 4");
    wait_until("the end of the window", || guests[0].status()["phase"] == "dormant");
    // The other one has done nothing, as the agent of torchrun does.
    std::thread::sleep(Duration::from_secs(2));
    let again = guests[0].ctl_ends(&start, 0);
    assert_eq!(again.matches(", window 2").count(), 2, "{again}");
    guests[1].tell("push open");
    guests[1].tell("launch 3");
    wait_until("three records", || {
        guests[0].ctl_ends(&[&guests[1].pid(), "flush"], 0);
        guests[1].status()["window_records"] == 3
    });
    guests[0].tell("work step 4");
    // It has records now.
    let third = guests[0].ctl_ends(&start, 1);
    assert!(third.contains("window 2 is on already"), "{third}");
}

#[test]
fn a_process_in_a_container_is_recorded_from_outside() {
    let Some(mut guest) = Guest::in_container() else { return };
    let outer = guest.pid();
    let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    let pid = children.split_whitespace().next().expect("the guest, as it is numbered here");
    assert!(names_in(&guest.path("run")).is_empty(), "its sockets are not here");
    guest.ctl_ends(&[pid, "start", "--wait"], 0);
    guest.tell("work inside 20");
    let stopped = guest.json(&[pid, "stop", "--wait"]);
    assert_eq!(stopped[0]["done"][0]["records"], 20, "{stopped:?}");
    let status = guest.ctl_ends(&[pid, "status"], 0);
    assert!(status.starts_with(&format!("{pid}: stopped")), "{status}");
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
        expect_parts(&guest.ctl_ends(words, code), "said", &[part]);
    }
    // Killed, it leaves its socket behind, which is not taken for a process.
    guest.child.kill().unwrap();
    guest.child.wait().unwrap();
    assert_eq!(names_in(&guest.path("run/stage2")).len(), 1);
    guest.ctl_ends(&[&guest.pid(), "status"], 70);
    let pid = guest.child.id();
    let all = guest.json(&["--all", "status"]);
    assert!(all.iter().all(|one| one["pid"] != pid), "{all:?}");
}

/// Hazard (Dormant processes and windows): A snapshot is taken of a window that is on.
/// Promise: It contains the records so far and is marked as a snapshot, and the window continues.
#[test]
fn a_snapshot_of_a_window_that_is_on_is_a_bundle_and_the_window_goes_on() {
    let mut guest = Guest::dormant();
    let pid = guest.pid();
    guest.ctl_ends(&[&pid, "start", "--wait"], 0);
    guest.tell("work inside 20");
    let bundle = guest.path("snapshot");
    let words = [&pid, "snapshot", "-o", "snapshot"];
    guest.ctl_ends(&words, 0);
    assert_eq!(calls(&bundle), 20);
    for file in ["report.md", "report.html", "env.json", "config.yaml", "inputs.yaml"] {
        assert!(bundle.join(file).is_file(), "{file}");
    }
    let run = json(&bundle.join("run.json"));
    let window = &run["windows"][0];
    assert_eq!((window["pid"].to_string(), &window["number"]), (pid.clone(), &1.into()), "{run}");
    assert_eq!((&window["snapshot"], &window["why"]), (&true.into(), &Value::Null), "{run}");
    assert_eq!(window["records"], 20, "{run}");
    expect_parts(&read(&bundle.join("report.md")), "page", &["snapshot: window 1", "PARTIAL"]);
    // What is there is not replaced, and the window has gone on.
    guest.ctl_ends(&words, 2);
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
    let words = [&guests[0].traces(), "snapshot", "--for", "300ms", "-o", "snapshot"];
    guests[0].ctl_ends(&words, 0);
    let run = json(&guests[0].path("snapshot/run.json"));
    let windows = run["windows"].as_array().expect("windows");
    assert_eq!(windows.len(), 2, "{run}");
    for window in windows {
        assert_eq!(window["why"], "limit for_ms=300", "{run}");
        assert!(window["records"].as_u64() > Some(0) && window.get("snapshot").is_none(), "{run}");
    }
    assert_eq!(guests[0].status()["phase"], "dormant");
    guests.iter_mut().for_each(|guest| guest.tell("calm"));
}

/// Starts a snapshot of a dormant guest, and waits until its window is on.
fn snapshot_that_records(guest: &Guest) -> Child {
    let words = ["ctl", &guest.pid(), "snapshot", "--for", "60s", "-o", "snapshot"];
    let child = spawn(&mut guest.launch(&words));
    wait_until("a window", || guest.status()["phase"] == "on");
    child
}

/// Hazard (Dormant processes and windows): Ctrl-C while a snapshot records.
/// Promise: Its windows are stopped, and nothing is left.
#[test]
fn an_interrupted_snapshot_stops_its_window_and_leaves_nothing() {
    let guest = Guest::dormant();
    let child = snapshot_that_records(&guest);
    send(&child, Signal::SIGINT);
    let (code, said) = end(child);
    assert_eq!(code, Some(130), "{said}");
    assert!(!guest.path("snapshot").exists());
    assert_ne!(guest.status()["phase"], "on");
}

/// Hazard (Dormant processes and windows): The process is killed while a snapshot records.
/// Promise: The bundle contains what the process had written, and states it.
#[test]
fn a_process_that_is_killed_within_a_snapshot_leaves_what_it_had_written() {
    let mut guest = Guest::dormant();
    let bundle = guest.path("snapshot");
    let child = snapshot_that_records(&guest);
    guest.tell("work inside 20");
    guest.ctl_ends(&[&guest.pid(), "flush"], 0);
    // The snapshot asks for the file's name every 50 ms.
    std::thread::sleep(Duration::from_millis(500));
    guest.child.kill().expect("it runs");
    guest.child.wait().expect("ended");
    let (code, said) = end(child);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("ended within window 1"), "{said}");
    let window = json(&bundle.join("run.json"))["windows"][0].clone();
    assert!(window["why"].is_null() && window.get("snapshot").is_none(), "{window}");
    assert_eq!(calls(&bundle), 20);
    expect_parts(&read(&bundle.join("report.md")), "report.md", &["PARTIAL"]);
}

/// Hazard (Dormant processes and windows): No room for a snapshot.
/// Promise: Nothing of it is left, and the trace file is named.
#[test]
fn a_snapshot_without_room_leaves_nothing_and_names_the_trace_file() {
    let mut guest = Guest::dormant();
    guest.ctl_ends(&[&guest.pid(), "start", "--wait"], 0);
    guest.tell("work inside 600");
    // Files of at most 20 KiB, and an error for what is beyond.
    let script = "trap '' XFSZ; ulimit -f 20; exec \"$@\"";
    let ended = Command::new("bash")
        .args(["-c", script, "bash", LAUNCH, "ctl", &guest.pid(), "snapshot", "-o", "snapshot"])
        .current_dir(guest.folder.path())
        .env("XDG_RUNTIME_DIR", guest.path("run"))
        .output()
        .expect("bash");
    assert_eq!(ended.status.code(), Some(70), "{}", text(&ended));
    expect_parts(&text(&ended), "said", &["merge --spool"]);
    assert!(!guest.path("snapshot").exists());
}

#[test]
fn a_snapshot_of_a_process_that_refuses_records_nothing() {
    let guest = Guest::dormant();
    let sockets = guest.path("run/stage2");
    let socket = sockets.join(&names_in(&sockets)[0]);
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
    let said = guest.ctl_ends(&[&guest.pid(), "snapshot", "-o", "snapshot"], 1);
    assert!(said.contains("version 2 of the protocol"), "{said}");
    assert!(!guest.path("snapshot").exists());
}
