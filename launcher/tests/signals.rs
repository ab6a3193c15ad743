//! Signals to stage2-launch reach the workload once, and the bundle is written.

mod common;

use std::io::Read as _;
use std::process::Child;

use common::Sandbox;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

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

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("stage2-launch runs");
}

fn end(mut child: Child) -> (Option<i32>, String) {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut text).expect("stderr");
    }
    (child.wait().expect("end").code(), text)
}

#[test]
fn each_signal_is_handed_on_once() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let sandbox = Sandbox::new();
        let child = sandbox.start_until_ready(&["--", "python3", "-c", COUNTING]);
        send(&child, signal);
        let (code, stderr) = end(child);
        assert_eq!(code, Some(7), "{signal}: {stderr}");
        assert_eq!(common::read(&sandbox.path("got")), (signal as i32).to_string());
        let run = sandbox.run_json();
        assert!(run["finished"].is_string());
        assert!(
            run["passes"][0]["why"].as_str().is_some_and(|why| why.contains(signal.as_str())),
            "{run}"
        );
    }
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
    let mut command = std::process::Command::new("sh");
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
    let mut command = std::process::Command::new("python3");
    command.args(["-c", TERMINAL]).arg(launch.get_program()).args(launch.get_args());
    command.current_dir(sandbox.path("")).env("STAGE2_COLLECTOR", sandbox.path("libstage2.so"));
    let output = command.output().expect("python3");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert_eq!(common::read(&sandbox.path("got")), "2", "{text}");
    assert!(text.contains("[1/3] collect") && text.contains("Ctrl-C kills it"), "{text}");
    assert!(sandbox.run_json()["finished"].is_string());
}
