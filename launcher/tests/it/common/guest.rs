//! A guest that obeys its standard input, with a real collector and the simulated GPU; and `feed`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use super::simulated::{built, collector};
use super::{LAUNCH, json};

/// A user that this system need not know.
const USER: u32 = 12_345;

/// Words that run a program as that user, without capabilities; only root may.
pub(crate) fn as_user() -> Command {
    let mut command = Command::new("setpriv");
    let user = USER.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--inh-caps=-all", "--"]);
    command
}

pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A guest, killed when dropped. Its traces are in `traces` of its folder, its socket is below `run`.
pub(crate) struct Guest {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    pub(crate) folder: Rc<tempfile::TempDir>,
}

impl Guest {
    /// `start`: what `STAGE2_START` is; `more`: further variables.
    pub(crate) fn new(start: &str, more: &[(&str, &str)]) -> Guest {
        Guest::new_in(new_folder(), start, more)
    }

    /// As [`Self::new`], in this folder.
    pub(crate) fn new_in(
        folder: Rc<tempfile::TempDir>,
        start: &str,
        more: &[(&str, &str)],
    ) -> Guest {
        let mut command = Command::new(built("examples/guest"));
        command.env("STAGE2_START", start).envs(more.iter().copied());
        Guest::preloaded(command, folder)
    }

    /// A dormant process in a folder of its own.
    pub(crate) fn dormant() -> Guest {
        Guest::dormant_by(Command::new(built("examples/guest")), new_folder())
    }

    pub(crate) fn beside(&self) -> Guest {
        Guest::dormant_by(Command::new(built("examples/guest")), Rc::clone(&self.folder))
    }

    /// A dormant process in namespaces of its own for users, processes and mounts, as in a container: its
    /// folder for sockets is another one than the same path is here. `None` where the system forbids it.
    pub(crate) fn in_container() -> Option<Guest> {
        let folder = new_folder();
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

    /// A dormant process of a user that is not root: another one than ours, if we are root. `None` where the programs
    /// lie where that one cannot read them.
    pub(crate) fn of_a_user() -> Option<Guest> {
        let folder = new_folder();
        if !nix::unistd::geteuid().is_root() {
            return Some(Guest::dormant_by(Command::new(built("examples/guest")), folder));
        }
        let mut trial = as_user();
        let allowed = trial.args(["head", "-c1"]).arg(built("examples/guest")).output();
        if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: another user cannot run the programs: {allowed:?}");
            return None;
        }
        for path in
            [folder.path().to_owned(), folder.path().join("run"), folder.path().join("traces")]
        {
            std::os::unix::fs::chown(path, Some(USER), None).expect("root may");
        }
        let mut command = as_user();
        command.arg(built("examples/guest"));
        Some(Guest::dormant_by(command, folder))
    }

    fn dormant_by(mut command: Command, folder: Rc<tempfile::TempDir>) -> Guest {
        command.env("STAGE2_START", "off");
        let mut guest = Guest::preloaded(command, folder);
        guest.tell("work before 5");
        guest
    }

    fn preloaded(mut command: Command, folder: Rc<tempfile::TempDir>) -> Guest {
        let mut libraries = built("libstage2.so").into_os_string();
        // What a test preloads stands before the collector.
        let earlier = command.get_envs().find_map(|(name, value)| {
            value.filter(|_| name == "LD_PRELOAD").map(std::ffi::OsStr::to_owned)
        });
        if let Some(mut earlier) = earlier {
            earlier.push(":");
            earlier.push(libraries);
            libraries = earlier;
        }
        command.env("LD_PRELOAD", libraries).env("STAGE2_SUMMARY", "off");
        command.env("STAGE2_OUT", folder.path().join("traces"));
        Guest::spawn(command, folder)
    }

    /// A process under `stage2-launch run` with these words and variables, with its bundle in `bundle` of
    /// the folder.
    pub(crate) fn launched(words: &[&str], variables: &[(&str, &str)]) -> Guest {
        let folder = new_folder();
        let mut command = Command::new(LAUNCH);
        command.arg("run").args(words).envs(variables.iter().copied());
        command.arg("--run-dir").arg(folder.path().join("bundle"));
        command.arg("--").arg(built("examples/guest")).stderr(Stdio::piped());
        Guest::spawn(command, folder)
    }

    fn spawn(mut command: Command, folder: Rc<tempfile::TempDir>) -> Guest {
        super::obey_signals();
        command.arg("obey").envs(collector()).env("STAGE2_SIM_FAST", "1");
        command.env("STAGE2_TEST_SIM", built("libstage2_sim.so"));
        command.env("XDG_RUNTIME_DIR", folder.path().join("run"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the guest starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut guest = Guest { child, stdin: Some(stdin), stdout, folder };
        guest.tell("cuda");
        guest
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

    /// Ends its input, and waits for what it says in its exit.
    pub(crate) fn exits(&mut self) -> String {
        drop(self.stdin.take());
        self.hears()
    }

    /// The next line that it says.
    pub(crate) fn hears(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }

    /// Ends in order, so that the trace file is whole; its folder.
    pub(crate) fn finish(mut self) -> Rc<tempfile::TempDir> {
        assert_eq!(self.end().1, Some(0));
        Rc::clone(&self.folder)
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_ref().expect("open"), "{line}").expect("heard");
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).expect("an answer");
        assert!(answer.starts_with("ok"), "{answer}");
    }

    pub(crate) fn does<const N: usize>(&mut self, lines: [&str; N]) {
        lines.iter().for_each(|line| self.tell(line));
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder that it writes into, which names its run to `ctl`.
    pub(crate) fn traces(&self) -> String {
        self.path("traces").to_str().expect("UTF-8").to_owned()
    }

    /// The launcher in the folder, which finds the guest's socket.
    pub(crate) fn launch(&self, words: &[&str]) -> Command {
        let mut command = Command::new(LAUNCH);
        command.args(words).env("XDG_RUNTIME_DIR", self.path("run"));
        command.current_dir(self.folder.path());
        command
    }

    /// `stage2-launch ctl` with its folder for sockets.
    pub(crate) fn ctl(&self, words: &[&str]) -> Output {
        self.launch(&[&["ctl"], words].concat()).output().expect("stage2-launch")
    }

    /// `ctl` that has to end with this status; what it said.
    #[track_caller]
    pub(crate) fn ctl_ends(&self, words: &[&str], status: i32) -> String {
        let output = self.ctl(words);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", super::text(&output));
        super::text(&output)
    }

    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Vec<Value> {
        let output = self.ctl(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    /// The only answer of `ctl PID status --json`.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.json(&[&self.pid(), "status"]).swap_remove(0)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn new_folder() -> Rc<tempfile::TempDir> {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["run", "traces"] {
        std::fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    Rc::new(folder)
}

pub(crate) fn calls(bundle: &Path) -> u64 {
    let metrics = json(&bundle.join("metrics.json"));
    let kernels = metrics["kernels"].as_array().expect("kernels").iter();
    kernels.filter_map(|kernel| kernel["calls"].as_u64()).sum()
}

pub(crate) fn serving(traces: &str) -> (Running, String) {
    let mut command = Command::new(LAUNCH);
    command.args(["feed", "--listen", "127.0.0.1:0", traces]).stderr(Stdio::piped());
    let mut feed = Running(command.spawn().expect("stage2-launch"));
    let mut line = String::new();
    BufReader::new(feed.0.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    (feed, address.unwrap_or_else(|| panic!("{line}")).to_owned())
}

/// What an HTTP server answers, headers and all; empty where it does not.
pub(crate) fn get(address: &str, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let exchange = TcpStream::connect(address).and_then(|mut client| {
        client.set_read_timeout(Some(Duration::from_secs(5)))?;
        client.write_all(request.as_bytes())?;
        client.read_to_end(&mut answer)
    });
    exchange.map(|_| String::from_utf8_lossy(&answer).into_owned()).unwrap_or_default()
}
