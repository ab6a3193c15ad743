//! A guest that obeys its standard input, with a real collector and the simulated GPU.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::rc::Rc;

use serde_json::Value;

use super::simulated::built;

/// A guest, killed when dropped.
pub(crate) struct Guest {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub(crate) folder: Rc<tempfile::TempDir>,
}

impl Guest {
    /// A dormant process in a folder of its own.
    pub(crate) fn dormant() -> Guest {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("run")).expect("a folder");
        Guest::dormant_in(Rc::new(folder))
    }

    /// Another dormant process in that folder.
    pub(crate) fn beside(&self) -> Guest {
        Guest::dormant_in(Rc::clone(&self.folder))
    }

    /// A dormant process in namespaces of its own for users, processes and mounts, as in a container: its
    /// folder for sockets is another one than the same path is here. `None` where the system forbids it.
    pub(crate) fn in_container() -> Option<Guest> {
        let folder = Rc::new(tempfile::tempdir().expect("a folder"));
        std::fs::create_dir(folder.path().join("run")).expect("a folder");
        let mut container = Command::new("unshare");
        container.args(["-Urmpf", "--mount-proc", "--", "sh", "-c"]);
        container.arg("mount -t tmpfs tmpfs \"$1\" && shift && exec \"$@\"").arg("sh");
        container.arg(folder.path().join("run"));
        let mut trial = Command::new(container.get_program());
        let allowed = trial.args(container.get_args()).arg("true").output();
        if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: no namespaces here: {allowed:?}");
            return None;
        }
        container.arg(built("examples/guest"));
        Some(Guest::dormant_by(container, folder))
    }

    fn dormant_in(folder: Rc<tempfile::TempDir>) -> Guest {
        Guest::dormant_by(Command::new(built("examples/guest")), folder)
    }

    fn dormant_by(mut command: Command, folder: Rc<tempfile::TempDir>) -> Guest {
        command
            .env("LD_PRELOAD", built("libstage2.so"))
            .env("STAGE2_START", "off")
            .env("STAGE2_OUT", folder.path());
        let mut guest = Guest::spawn(command, folder);
        guest.tell("cuda");
        guest.tell("work before 5");
        guest
    }

    /// A process under `stage2-launch run --dormant`, with its bundle in `bundle` of the folder.
    pub(crate) fn launched(words: &[&str]) -> Guest {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stage2-launch"));
        command.args(["run", "--dormant"]).args(words);
        Guest::launched_by(command)
    }

    /// A workload of a run with this variable.
    pub(crate) fn launched_with(name: &str, value: &str) -> Guest {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stage2-launch"));
        command.arg("run").env(name, value);
        Guest::launched_by(command)
    }

    fn launched_by(mut command: Command) -> Guest {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("run")).expect("a folder");
        command.arg("--run-dir").arg(folder.path().join("bundle"));
        command.arg("--").arg(built("examples/guest")).stderr(Stdio::piped());
        let mut guest = Guest::spawn(command, Rc::new(folder));
        guest.tell("cuda");
        guest
    }

    fn spawn(mut command: Command, folder: Rc<tempfile::TempDir>) -> Guest {
        super::obey_signals();
        let mut child = command
            .arg("obey")
            .env("STAGE2_COLLECTOR", built("libstage2.so"))
            .env("STAGE2_TEST_SIM", built("libstage2_sim.so"))
            .env("STAGE2_CUPTI", built("libstage2_sim.so"))
            .env("STAGE2_SIM_FAST", "1")
            .env("XDG_RUNTIME_DIR", folder.path().join("run"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the guest starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Guest { child, stdin: Some(stdin), stdout, folder }
    }

    /// Ends its input, and so the process. What it said, and how it ended.
    pub(crate) fn end(&mut self) -> (String, Option<i32>) {
        drop(self.stdin.take());
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut said).expect("text");
        }
        (said, self.child.wait().expect("ended").code())
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_ref().expect("open"), "{line}").expect("heard");
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).expect("an answer");
        assert!(answer.starts_with("ok"), "{answer}");
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// `stage2-launch ctl` with its folder for sockets.
    pub(crate) fn ctl(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stage2-launch"));
        command.arg("ctl").args(words).env("XDG_RUNTIME_DIR", self.folder.path().join("run"));
        command.output().expect("stage2-launch")
    }

    pub(crate) fn json(&self, words: &[&str]) -> Vec<Value> {
        let output = self.ctl(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command said.
pub(crate) fn text(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

/// The report of a bundle.
pub(crate) fn metrics(bundle: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(bundle.join("metrics.json")).expect("a report")).unwrap()
}

/// Kernels in the report of a bundle.
pub(crate) fn calls(bundle: &Path) -> u64 {
    let metrics = metrics(bundle);
    let kernels = metrics["kernels"].as_array().expect("kernels").iter();
    kernels.filter_map(|kernel| kernel["calls"].as_u64()).sum()
}

/// The record of a bundle.
pub(crate) fn run_json(bundle: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(bundle.join("run.json")).expect("a record")).unwrap()
}
