//! Runs a guest under the collector, on the simulated GPU, and keeps what it left.

pub(crate) mod calls;
pub(crate) mod cut;
pub(crate) mod dormant;
pub(crate) mod host;
pub(crate) mod trace;

use std::collections::BTreeMap;
use std::io::{BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tempfile::TempDir;
pub(crate) use trace::{TraceFile, traces_in};

pub(crate) struct Guest {
    folder: TempDir,
    command: Command,
    own_stderr: bool,
    patience: Duration,
}

/// No guest takes as long, unless it says so.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Left {
    pub(crate) output: Output,
    /// Its trace files, by process id.
    pub(crate) traces: Vec<TraceFile>,
    folder: TempDir,
}

pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let deps = test.parent().expect("deps");
    let examples = deps.with_file_name("examples").join(name);
    // Libraries of packages lie beside the test; a library that is an example among the examples.
    let path = if name.contains(".so") && !examples.exists() { deps.join(name) } else { examples };
    assert!(path.exists(), "{} was not built", path.display());
    path
}

/// The collector; another build of it where `STAGE2_TEST_COLLECTOR` names one.
pub(crate) fn collector() -> PathBuf {
    named("STAGE2_TEST_COLLECTOR").unwrap_or_else(|| built("libstage2.so"))
}

/// The simulated driver and CUPTI, or what `STAGE2_TEST_SIMULATOR` names.
pub(crate) fn simulator() -> PathBuf {
    named("STAGE2_TEST_SIMULATOR").unwrap_or_else(|| built("libstage2_sim.so"))
}

fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

impl Guest {
    /// A guest that does what the hazard says, with the collector preloaded.
    pub(crate) fn new(hazard: &str) -> Self {
        Self::program(built("guest")).argument(hazard)
    }

    /// Another program, with the collector preloaded.
    pub(crate) fn program(path: impl AsRef<std::ffi::OsStr>) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let mut command = Command::new(path);
        command
            .env_clear()
            .env("LD_PRELOAD", collector())
            .env("STAGE2_TEST_SIM", simulator())
            .env("STAGE2_CUPTI", simulator())
            .env("STAGE2_SIM_FAST", "1")
            .env("STAGE2_FLUSH_MS", "50")
            .env("STAGE2_SUMMARY", "off")
            .env("STAGE2_OUT", folder.path());
        let guest = Guest { folder, command, own_stderr: false, patience: PATIENCE };
        let everywhere = named("STAGE2_TEST_CUPTI_API");
        if everywhere.is_some_and(|api| api.as_os_str() == "v2") { guest.api("v2") } else { guest }
    }

    /// Under a CUPTI that has both activity APIs, with this one.
    pub(crate) fn api(self, api: &str) -> Self {
        self.env("STAGE2_SIM_CUPTI_VERSION", "13.5").env("STAGE2_CUPTI_API", api)
    }

    pub(crate) fn argument(mut self, word: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(word);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        if name == "STAGE2_SIM_CUPTI_VERSION" {
            // Most versions have the first activity API only.
            self.command.env_remove("STAGE2_CUPTI_API");
        }
        self.command.env(name, value);
        self
    }

    pub(crate) fn envs(self, variables: &[(&str, &str)]) -> Self {
        variables.iter().fold(self, |guest, (name, value)| guest.env(name, value))
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Its stderr is this one instead of what [`Left::stderr`] tells.
    pub(crate) fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.command.stderr(stderr);
        self.own_stderr = true;
        self
    }

    /// It may take so many seconds.
    pub(crate) fn patience(mut self, seconds: u64) -> Self {
        self.patience = Duration::from_secs(seconds);
        self
    }

    /// Runs it to its end, which has to come in time, as that of its children.
    pub(crate) fn run(self) -> Left {
        let mut left = self.run_without_reading();
        left.traces = traces_in(left.folder.path());
        left
    }

    /// As [`Guest::run`], for trace files that are too large to be kept whole.
    pub(crate) fn run_without_reading(mut self) -> Left {
        self.command.stdin(Stdio::null()).process_group(0);
        if !self.own_stderr {
            self.command.stderr(Stdio::piped());
        }
        let guest = self.command.stdout(Stdio::piped()).spawn().expect("the guest starts");
        let group = guest.id() as libc::pid_t;
        let (over, is_over) = std::sync::mpsc::channel::<()>();
        let patience = self.patience;
        let watchdog = std::thread::spawn(move || {
            let late = is_over.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
            if late {
                // SAFETY: the group is the guest's, which was not waited for, or its children's.
                unsafe { libc::killpg(group, libc::SIGKILL) };
            }
            late
        });
        let output = guest.wait_with_output().expect("the guest ends");
        drop(over);
        assert!(!watchdog.join().expect("ends"), "the guest was held up");
        Left { output, traces: Vec::new(), folder: self.folder }
    }
}

/// A guest that obeys its standard input, and is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    answers: Receiver<String>,
    folder: TempDir,
}

impl Guest {
    /// Starts it, and goes on.
    pub(crate) fn spawn(mut self) -> Running {
        let runtime = self.folder.path().join("run");
        std::fs::create_dir(&runtime).expect("folder");
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let stderr = std::fs::File::create(self.folder.path().join("stderr")).expect("a file");
        self.command.stderr(stderr).env("XDG_RUNTIME_DIR", runtime);
        let mut child = self.command.spawn().expect("the guest starts");
        let (tell, answers) = std::sync::mpsc::channel();
        let stdout = std::io::BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Running { child, answers, folder: self.folder }
    }
}

impl Running {
    /// Has it do something, and gives what it says behind `ok`.
    pub(crate) fn tell(&mut self, line: &str) -> String {
        let stdin = self.child.stdin.as_mut().expect("open");
        writeln!(stdin, "{line}").expect("heard");
        let answer = self.answers.recv_timeout(PATIENCE);
        let answer = answer.unwrap_or_else(|_| panic!("no answer to {line:?}: {}", self.stderr()));
        answer.strip_prefix("ok").unwrap_or_else(|| panic!("{answer}")).trim().to_owned()
    }

    pub(crate) fn does<const N: usize>(&mut self, lines: [&str; N]) {
        lines.iter().for_each(|line| drop(self.tell(line)));
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default()
    }

    /// The folder for its trace files.
    pub(crate) fn out(&self) -> &Path {
        self.folder.path()
    }

    /// The folder for its sockets.
    pub(crate) fn sockets(&self) -> PathBuf {
        self.folder.path().join("run/stage2")
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: it was not waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    pub(crate) fn ended(&mut self) -> std::process::ExitStatus {
        let said = self.folder.path().join("stderr");
        let what = || format!("its end: {}", std::fs::read_to_string(&said).unwrap_or_default());
        wait_for(what, || self.child.try_wait().expect("a child"))
    }

    /// Ends its input, and with it the guest.
    pub(crate) fn end(&mut self) -> std::process::ExitStatus {
        self.child.stdin = None;
        self.ended()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Left {
    /// The only trace file of a process that was not forked.
    pub(crate) fn trace(&self) -> &TraceFile {
        let mut roots = self.traces.iter().filter(|trace| trace.meta("fork.of").is_none());
        let (first, second) = (roots.next(), roots.next());
        assert!(second.is_none(), "{}", self.stderr());
        first.unwrap_or_else(|| panic!("no trace file: {}", self.stderr()))
    }

    /// The trace files of forked children.
    pub(crate) fn children(&self) -> Vec<&TraceFile> {
        self.traces.iter().filter(|trace| trace.meta("fork.of").is_some()).collect()
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        trace::files_in(self.folder.path())
    }

    /// The table that was written beside the trace file.
    pub(crate) fn kernels_md(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("kernels.md")).expect("kernels.md")
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// What was written to the guest's stderr. Fails unless it ended with this status.
    pub(crate) fn expect_said(&self, code: i32) -> String {
        assert_eq!(self.output.status.code(), Some(code), "{}", self.stderr());
        self.stderr()
    }

    /// As [`Left::expect_said`], of one line.
    pub(crate) fn expect_line(&self, code: i32) -> String {
        let said = self.expect_said(code);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }

    /// Fails unless the guest ended in order with one range of its own open, and nobody said more.
    pub(crate) fn expect_open(&self, name: &str) -> &Self {
        let said = self.expect_line(0);
        assert!(said.contains("1 range was still open") && said.contains(name), "{said}");
        assert_eq!(self.trace().meta("ranges.open_at_end"), Some("1"));
        self
    }

    /// Fails unless the guest ended with this status and nobody wrote to its stderr.
    pub(crate) fn expect_quiet(&self, code: i32) -> &Self {
        assert_eq!(self.expect_said(code), "");
        self
    }
}

/// Asks again and again until there is an answer; `what` tells of one that never comes.
pub(crate) fn wait_for<T>(what: impl Fn() -> String, mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + 2 * PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < until, "never: {}", what());
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(|| what.to_owned(), || is_so().then_some(()));
}

/// What the plain guest launches.
pub(crate) fn plain() -> BTreeMap<String, usize> {
    counts(&[("(outside)", 7), ("decode", 100), ("prefill", 100)])
}

/// Checks each case on one of so many threads, because guests wait most of the time. Fails with all that is
/// wrong.
pub(crate) fn check_each<T: Send>(
    threads: usize,
    cases: Vec<T>,
    check: impl Fn(T) -> Option<String> + Sync,
) {
    let count = cases.len();
    let (todo, wrong) = (Mutex::new(cases), Mutex::new(Vec::new()));
    let work = || {
        while let Some(case) = { todo.lock().expect("no panic").pop() } {
            if let Some(what) = check(case) {
                wrong.lock().expect("no panic").push(what);
            }
        }
    };
    let panics: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().filter_map(|thread| thread.join().err()).collect()
    });
    // First what has to hold each time.
    if let Some(panic) = panics.into_iter().min_by_key(|panic| panic.is::<Spoilt>()) {
        std::panic::resume_unwind(panic);
    }
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{} of {count} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// As [`check_each`], for a check that fails by itself.
pub(crate) fn each<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    check_each(4, cases.into_iter().collect(), |case| {
        check(case);
        None
    });
}

/// Runs a test up to five times, until all holds that other work on the machine can spoil (`assert_usual!`). What else it
/// asserts has to hold each time.
pub(crate) fn despite_other_work(test: impl Fn()) {
    for tries_left in (0..5).rev() {
        let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(&test)) else { return };
        match panic.downcast::<Spoilt>() {
            Ok(spoilt) => assert!(tries_left > 0, "five times: {}", spoilt.0),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// What did not hold, maybe because of other work on the machine.
#[derive(Debug)]
pub(crate) struct Spoilt(pub(crate) String);

pub(crate) fn counts(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs.iter().map(|&(path, count)| (path.to_owned(), count)).collect()
}

/// Says that a test is skipped, past the harness, which keeps the output of tests that pass to itself.
/// Fails where `STAGE2_REQUIRE_TOOLS=1` says that everything is installed.
pub(crate) fn skipped(why: &str) {
    let required = std::env::var_os("STAGE2_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    assert!(!required, "STAGE2_REQUIRE_TOOLS=1, but {why}");
    not_allowed(why);
}

/// As [`skipped`], for what the system forbids: no tool makes up for that.
pub(crate) fn not_allowed(why: &str) {
    let line = format!("SKIPPED: {why}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}
