//! `stage2-launch ctl` with a real collector in a guest that obeys its standard input.

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use common::simulated::built;
use serde_json::Value;

/// A guest, killed when dropped.
struct Guest {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
}

impl Guest {
    fn dormant() -> Guest {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("run")).expect("a folder");
        let mut child = Command::new(built("examples/guest"))
            .arg("obey")
            .env("LD_PRELOAD", built("libstage2.so"))
            .env("STAGE2_TEST_SIM", built("libstage2_sim.so"))
            .env("STAGE2_CUPTI", built("libstage2_sim.so"))
            .env("STAGE2_SIM_FAST", "1")
            .env("STAGE2_START", "off")
            .env("STAGE2_OUT", folder.path())
            .env("XDG_RUNTIME_DIR", folder.path().join("run"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the guest starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut guest = Guest { child, stdin, stdout, folder };
        guest.tell("cuda");
        guest.tell("work before 5");
        guest
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("heard");
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).expect("an answer");
        assert!(answer.starts_with("ok"), "{answer}");
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// `stage2-launch ctl` with its folder for sockets.
    fn ctl(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stage2-launch"));
        command.arg("ctl").args(words).env("XDG_RUNTIME_DIR", self.folder.path().join("run"));
        command.output().expect("stage2-launch")
    }

    fn json(&self, words: &[&str]) -> Vec<Value> {
        let output = self.ctl(&[&["--json"], words].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

#[test]
fn a_dormant_process_is_recorded_for_a_while_and_leaves_a_file_that_merge_reads() {
    let mut guest = Guest::dormant();
    let pid = guest.pid();
    let status = guest.ctl(&[&pid, "status"]);
    assert_eq!(status.status.code(), Some(0), "{}", text(&status));
    assert!(text(&status).starts_with(&format!("{pid}: dormant")), "{}", text(&status));
    let started = guest.ctl(&["--wait", &pid, "start", "ranges=inside"]);
    assert_eq!(started.status.code(), Some(0), "{}", text(&started));
    assert!(text(&started).contains(": on since "), "{}", text(&started));
    let twice = guest.ctl(&[&pid, "start"]);
    assert_eq!(twice.status.code(), Some(1), "{}", text(&twice));
    assert!(text(&twice).contains("refused: window 1 is on already"), "{}", text(&twice));
    guest.tell("work inside 20");
    guest.tell("work other 20");
    let stopped = guest.json(&["--wait", &pid, "stop"]);
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
fn what_cannot_be_asked_is_named_with_what_to_do() {
    let mut guest = Guest::dormant();
    for (words, code, part) in [
        (&["4000000000", "status"][..], 70, "no process 4000000000"),
        (&[&std::process::id().to_string(), "status"], 70, "no control socket"),
        (&[], 2, "--all"),
        (&[&guest.pid(), "begin"], 2, "there are status"),
        (&[&guest.pid(), "start", "counters=on"], 2, "STAGE2_COUNTERS"),
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
