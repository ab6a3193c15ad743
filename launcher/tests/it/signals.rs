//! Signals to stage2-launch reach the workload once, the bundle is written, and the trace files of the
//! workload are up to date.

use std::process::Command;

use crate::common::guest::calls;
use crate::common::simulated::{collector, launches};
use crate::common::{self, Sandbox, at_once, end, names_in, send, spawn, wait_until};
use nix::sys::signal::Signal;
use predicates::str::contains;

/// Notes every signal that it gets; ends some time after the first.
const COUNTING: &str = r#"
import os, signal, time
got = []
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
    signal.signal(getattr(signal, name), lambda number, frame: got.append(number))
open("ready", "w").close()
deadline = time.time() + 20
while not got and time.time() < deadline:
    time.sleep(0.01)
time.sleep(0.5)
open("got", "w").write(" ".join(map(str, got)))
raise SystemExit(7)
"#;

/// Hazard (Signals): Ctrl-C, SIGTERM and others reach the launcher.
/// Promise: Each is handed on once, and a second interrupt kills.
#[test]
fn each_signal_is_handed_on_once() {
    at_once([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT], |signal| {
        let sandbox = Sandbox::new();
        let child = sandbox.start_until_ready(&["--", "python3", "-c", COUNTING]);
        send(&child, signal);
        let (code, stderr) = end(child);
        assert_eq!(code, Some(7), "{signal}: {stderr}");
        assert_eq!(common::read(&sandbox.path("got")), (signal as i32).to_string());
        assert!(sandbox.run_json()["finished"].is_string());
        let why = &sandbox.pass("collect")["why"];
        assert!(why.as_str().is_some_and(|why| why.contains(signal.as_str())), "{why}");
    });
}

#[test]
fn a_workload_without_handlers_ends_by_the_signal() {
    let sandbox = Sandbox::new();
    let child = sandbox.start_until_ready(&["--", "sh", "-c", "touch ready; exec sleep 30"]);
    send(&child, Signal::SIGTERM);
    assert_eq!(end(child).0, Some(143));
    assert_eq!(sandbox.run_json()["workload_exit"], serde_json::json!({"signal": 15}));
}

#[test]
fn a_second_interrupt_kills_the_workload() {
    let sandbox = Sandbox::new();
    let script = "trap 'touch first' INT; touch ready; while :; do sleep 0.05; done";
    let child = sandbox.start_until_ready(&["--", "sh", "-c", script]);
    send(&child, Signal::SIGINT);
    sandbox.wait_for("first");
    send(&child, Signal::SIGINT);
    assert_eq!(end(child).0, Some(137));
    assert!(sandbox.run_json()["finished"].is_string(), "the bundle is written");
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    let sandbox = Sandbox::new();
    let script = "touch ready; sleep 1; grep SigIgn /proc/$$/status > ignored";
    let mut command = Command::new("sh");
    let launch = sandbox.std_launch(&["-q", "--", "sh", "-c", script]);
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(launch.get_program());
    command.args(launch.get_args()).current_dir(sandbox.path(""));
    command.env("STAGE2_COLLECTOR", sandbox.path("libstage2.so"));
    let mut child = command.spawn().expect("sh");
    sandbox.wait_for("ready");
    send(&child, Signal::SIGHUP);
    assert_eq!(child.wait().expect("end").code(), Some(0));
    let ignored = common::read(&sandbox.path("ignored"));
    let mask = u64::from_str_radix(ignored.trim_start_matches("SigIgn:").trim(), 16).expect("mask");
    assert_eq!(mask & 1, 1, "the workload ignores SIGHUP as well: {ignored}");
}

/// On a terminal the workload gets Ctrl-C from the terminal: Python opens one and presses the key.
#[test]
fn ctrl_c_on_a_terminal_is_not_doubled() {
    const TERMINAL: &str = r#"
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
deadline = time.time() + 20
while not os.path.exists("ready") and time.time() < deadline:
    time.sleep(0.01)
os.write(terminal, b"\x03")
text = b""
try:
    while True:
        chunk = os.read(terminal, 4096)
        if not chunk:
            break
        text += chunk
except OSError:
    pass
print(text.decode(errors="replace"))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;
    let sandbox = Sandbox::new();
    let launch = sandbox.std_launch(&["--", "python3", "-c", COUNTING]);
    let mut command = Command::new("python3");
    command.args(["-c", TERMINAL]).arg(launch.get_program()).args(launch.get_args());
    command.current_dir(sandbox.path("")).env("STAGE2_COLLECTOR", sandbox.path("libstage2.so"));
    let output = command.output().expect("python3");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert_eq!(common::read(&sandbox.path("got")), "2", "{text}");
    assert!(
        text.contains("] collect: running") && text.contains("press Ctrl-C again to kill"),
        "{text}"
    );
    assert!(sandbox.run_json()["finished"].is_string());
}

/// Hangs in the command that `HANG` names. `sleep` is a process that ignores SIGINT, and has to go all the
/// same; a shell that waits for a command in the foreground would go on after it.
const TOOL: &str = r#"#!/bin/sh
for word; do case "$word" in --output=*) out="${word#--output=}";; esac; done
case "$1" in
--version) echo "NVIDIA Nsight Systems version 2024.6.2"; echo "Version 2025.3.1.0 (build 1)"; exit 0;;
--list-sections|--query-metrics) exit 1;;
esac
echo "$(basename "$0") $1" >> "$HERE/started"
case "$1" in "$HANG"|--import)
  echo half > "$out"
  sleep 60 & : > "$HERE/ready"; wait; exit 0;;
esac
case "$1" in
profile) echo report > "$out.nsys-rep";;
export) echo tables > "$out";;
stats) echo Name > "${out}_cuda_gpu_kern_sum.csv";;
*) for word; do [ "$before" = --export ] && echo report > "$word"; before="$word"; done;;
esac
exit 0
"#;

fn with_tools() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.executable("tools/nsys", TOOL);
    sandbox.executable("tools/ncu", TOOL);
    sandbox
}

/// Starts it with the tools, and sends `signal` once the command `hang` hangs.
fn interrupted(
    sandbox: &Sandbox,
    words: &[&str],
    hang: &str,
    signal: Signal,
) -> (Option<i32>, String) {
    let mut command = sandbox.std_launch(words);
    command.env("PATH", sandbox.tools_path()).env("HANG", hang).env("HERE", sandbox.path(""));
    let child = sandbox.spawn_until_ready(&mut command);
    send(&child, signal);
    end(child)
}

/// Hazard (Signals): A signal during a tool of the launcher.
/// Promise: Nothing more is started.
#[test]
fn nothing_more_is_started_after_a_signal_during_a_tool() {
    let tools = [
        ("profile", Signal::SIGINT, "nsys/run.nsys-rep"),
        ("export", Signal::SIGINT, "nsys/run.sqlite"),
        ("stats", Signal::SIGTERM, "nsys/run_cuda_gpu_kern_sum.csv"),
        ("--import", Signal::SIGTERM, "ncu/raw.csv"),
    ];
    at_once(tools, |(hang, signal, missing)| {
        let sandbox = with_tools();
        let (code, told) = interrupted(&sandbox, &["--", "true"], hang, signal);
        assert_eq!(code, Some(0), "{hang}: {told}");
        let started = common::read(&sandbox.path("started"));
        let last = started.lines().last().unwrap_or_default();
        assert!(last.ends_with(hang) && started.matches(hang).count() == 1, "{hang}: {started}");
        let run = sandbox.run_json();
        let pass = if hang == "--import" { &run["passes"][2] } else { &run["passes"][1] };
        let why = pass["why"].as_str().unwrap_or_default();
        assert!(why.contains(signal.as_str()), "{hang}: {pass}");
        let findings = run["findings"].to_string();
        assert!(findings.contains("the run was interrupted by"), "{hang}: {findings}");
        assert!(!sandbox.latest(missing).exists(), "{hang}: half a file");
        if hang != "profile" {
            let parts = ["are missing", "stage2-launch report"];
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
            assert_eq!(pass["status"], "ok");
        }
        if hang != "--import" {
            assert_eq!(run["passes"][2]["status"], "skipped", "{hang}");
        }
    });
}

#[test]
fn a_signal_while_older_bundles_are_compressed_costs_no_report() {
    let sandbox = Sandbox::new();
    let words = ["run.mode=light", "run.keep_uncompressed=1", "run.keep_last=null", "--", "true"];
    sandbox.launch(&words).assert().success();
    let older = sandbox.path("tmp/stage2/latest").canonicalize().expect("bundle");
    // Takes longer to compress than the test, and no room on the disk.
    let large = std::fs::File::create(older.join("collector/large.s2t")).expect("file");
    large.set_len(4 << 30).expect("size");
    let mut run = sandbox.run_json();
    run["files"].as_array_mut().expect("files").push("collector/large.s2t".into());
    std::fs::write(older.join("run.json"), run.to_string()).expect("run.json");
    let child = spawn(&mut sandbox.std_launch(&words));
    wait_until("a compressed file", || {
        names_in(&older.join("collector")).iter().any(|name| name.starts_with(".new-"))
    });
    send(&child, Signal::SIGINT);
    let (_, told) = end(child);
    assert!(told.contains("the reports are written; the clean-up of older bundles"), "{told}");
    assert!(sandbox.read("report.md").starts_with('#'));
    // What was cut short keeps nobody from deleting the bundle.
    let words = ["run.mode=light", "run.keep_last=2", "--", "true"];
    sandbox.launch(&words).assert().success().stderr(contains("was deleted"));
    assert!(!older.exists());
}

#[test]
fn a_signal_during_a_merge_ends_its_tool_and_the_merge() {
    for (hang, files) in
        [("export", ["--nsys", "a.nsys-rep"]), ("--import", ["--ncu", "a.ncu-rep"])]
    {
        let sandbox = with_tools();
        sandbox.write("a.nsys-rep", "report");
        sandbox.write("a.ncu-rep", "report");
        sandbox.write("b.csv", "Name,Calls\n");
        let words = [&["merge", "--nsys", "b.csv", "-o", "out"], &files[..]].concat();
        let (code, told) = interrupted(&sandbox, &words, hang, Signal::SIGINT);
        assert_eq!(code, Some(130), "{told}");
        assert!(told.contains("tables of a.n") && told.contains("SIGINT"), "{told}");
        let run = common::read(&sandbox.path("out/run.json"));
        assert!(run.contains("interrupted by SIGINT"), "{run}");
        let raw = sandbox.path("out/nsys/a.nsys-rep");
        assert!(!raw.exists(), "nothing can scrub it: {told}");
        let tool = sandbox.path("tools");
        let left = Command::new("pgrep").arg("-f").arg(&tool).output();
        assert_eq!(left.expect("pgrep").stdout, b"", "the tool runs on");
    }
}

/// Hazard (Ends of life): The launcher hands a signal on to the workload.
/// Promise: The trace file is brought up to date first, within 200 ms.
#[test]
fn kernels_that_were_not_flushed_yet_survive_a_signal_that_is_handed_on() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let sandbox = Sandbox::new();
        launches(&sandbox);
        let never = "profiling.collector.flush_ms=3600000";
        let words = ["run.mode=light", never, "--", "./launches", "wait"];
        let child = sandbox.spawn_until_ready(sandbox.std_launch(&words).envs(collector()));
        let pid = child.id();
        send(&child, signal);
        let (code, stderr) = end(child);
        assert_eq!(code, Some(128 + signal as i32), "{stderr}");
        let calls = calls(&sandbox.latest(""));
        assert_eq!(calls, 10, "{signal}: {stderr}");
        let page = &sandbox.run_json()["passes"][0]["environment"]["STAGE2_FLUSH_PAGE"];
        let ours = format!("/proc/{pid}/fd/");
        assert!(page.as_str().is_some_and(|page| page.starts_with(&ours)), "{page}");
    }
}
