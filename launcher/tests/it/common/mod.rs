//! An empty folder, a harmless library in the collector's place, and stage2-launch in it.

pub(crate) mod dom;
pub(crate) mod golden;
pub(crate) mod guest;
pub(crate) mod hostile_names;
pub(crate) mod simulated;
pub(crate) mod trace;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, Signal, kill, signal};
use serde_json::Value;

pub(crate) const LAUNCH: &str = env!("CARGO_BIN_EXE_stage2-launch");

/// A stand-in for nsys: runs its last words under a variable that tells the workload, and writes a
/// report whose export is a copy of `$FAKE_SQLITE`, and whose table of kernels one of `$FAKE_KERNELS`, where
/// those are set.
pub(crate) const FAKE_NSYS: &str = r#"#!/bin/sh
case "$1" in
--version) echo "NVIDIA Nsight Systems version 2024.6.2"; exit 0;;
export) for word; do case "$word" in --output=*)
  if [ -n "$FAKE_SQLITE" ]; then cp "$FAKE_SQLITE" "${word#--output=}"; else echo tables > "${word#--output=}"; fi
esac; done; exit 0;;
stats) for word; do case "$word" in --output=*)
  if [ -n "$FAKE_KERNELS" ]; then cp "$FAKE_KERNELS" "${word#--output=}_cuda_gpu_kern_sum.csv"; fi
esac; done; exit 0;;
esac
for word; do case "$word" in --output=*) out="${word#--output=}";; esac; done
while [ "$1" ]; do case "$1" in profile|--*) shift;; *) break;; esac; done
UNDER=nsys "$@"; code=$?
echo report > "$out.nsys-rep"
exit $code
"#;

/// A stand-in for ncu: `import` is what it does for `--import`, and `profile` the rest of a script, which finds
/// the workload in `"$@"` and ncu's own options in `$out`, `$log`, `$include` and, where any is given that
/// leaves kernels out, `$filtered`.
pub(crate) fn fake_ncu(import: &str, profile: &str) -> String {
    let version = "NVIDIA (R) Nsight Compute\\nVersion %s (build 1) (public-release)\\n";
    format!(
        r#"#!/bin/sh
case "$1" in
--version) printf '{version}' "${{FAKE_VERSION:-2025.3.1.0}}"; exit 0;;
--list-sections) echo "Identifier DisplayName Enabled"; exit 0;;
--query-metrics) exit 1;;
--import) {import}; exit 0;;
esac
while [ "$1" ]; do case "$1" in
  --export) out="$2"; shift 2;;
  --log-file) log="$2"; shift 2;;
  --nvtx-include) include="$2"; filtered=1; shift 2;;
  --kernel-name) filtered=1; shift 2;;
  --nvtx|--force-overwrite) shift;;
  --*) shift 2;;
  *) break;;
esac; done
{profile}
exit $code
"#
    )
}

pub(crate) struct Sandbox {
    dir: tempfile::TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Sandbox {
        obey_signals();
        let sandbox = Sandbox { dir: tempfile::tempdir().expect("folder") };
        std::fs::copy(loaded_library(), sandbox.path("libstage2.so")).expect("library");
        sandbox
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folders");
        std::fs::write(&path, text).expect("file");
        path
    }

    pub(crate) fn executable(&self, name: &str, text: &str) -> PathBuf {
        let source = self.write("script-to-be", text);
        self.install(&source, name)
    }

    /// Copies a program. Not in this process: a descriptor for writing that another test's fork
    /// takes along would make the copy "busy" and impossible to run.
    pub(crate) fn install(&self, source: &Path, name: &str) -> PathBuf {
        let path = self.path(name);
        let mut install = Command::new("install");
        let status = install.args(["-D", "-m", "755"]).args([source, &path]).status();
        assert!(status.expect("install, of coreutils").success());
        path
    }

    /// The launcher under another name: a link where that is possible, because it is large.
    pub(crate) fn install_launcher(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folders");
        if std::fs::hard_link(LAUNCH, &path).is_err() {
            self.install(LAUNCH.as_ref(), name);
        }
        path
    }

    /// stage2-launch in the sandbox. Its workloads use no GPU, so it is told to allow that.
    pub(crate) fn launch(&self, words: &[&str]) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::from_std(self.std_launch(words));
        command.timeout(Duration::from_secs(60));
        command
    }

    /// stage2-launch in the sandbox with the programs of its folder `tools`, and of `PATH`.
    pub(crate) fn launch_with_tools(&self, words: &[&str]) -> assert_cmd::Command {
        let mut command = self.launch(words);
        command.env("PATH", self.tools_path());
        command
    }

    pub(crate) fn tools_path(&self) -> OsString {
        let mut path = self.path("tools:").into_os_string();
        path.push(path_without_profilers());
        path
    }

    /// stage2-launch in the sandbox, with the exit status that a user gets.
    pub(crate) fn launch_strictly(&self, words: &[&str]) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::from_std(self.plain_launch(words));
        command.timeout(Duration::from_secs(60));
        command
    }

    pub(crate) fn std_launch(&self, words: &[&str]) -> Command {
        match words {
            // Nothing at all and a lone `--` print the usage.
            [] | ["--"] => self.plain_launch(words),
            // These write no reports, and take no such option.
            ["ask" | "bench" | "config" | "diff" | "export" | "next" | "query" | "schema", ..] => {
                self.plain_launch(words)
            }
            _ => self.plain_launch(&[&["--allow-empty"], words].concat()),
        }
    }

    fn plain_launch(&self, words: &[&str]) -> Command {
        let mut command = Command::new(LAUNCH);
        command.args(words).current_dir(self.dir.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("STAGE2_") {
                command.env_remove(name);
            }
        }
        for name in ["LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NO_COLOR"] {
            command.env_remove(name);
        }
        // A run would have a pass more on a machine with a GPU.
        if Path::new("/dev/nvidiactl").exists() {
            command.env("CUDA_VISIBLE_DEVICES", "");
        }
        command.env("PATH", path_without_profilers());
        command.env("STAGE2_COLLECTOR", self.path("libstage2.so"));
        command
    }

    /// A file of the latest run, or of the newest one where none has a result.
    pub(crate) fn latest(&self, name: &str) -> PathBuf {
        let runs = self.path("tmp/stage2");
        let latest = runs.join("latest");
        if latest.symlink_metadata().is_ok() {
            return latest.join(name);
        }
        let entries = std::fs::read_dir(&runs).into_iter().flatten().flatten();
        let found = entries.map(|entry| entry.path()).filter(|of| of.join("run.json").exists());
        found.max().unwrap_or(latest).join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        read(&self.latest(name))
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        json(&self.latest(name))
    }

    pub(crate) fn run_json(&self) -> Value {
        self.json("run.json")
    }

    /// A pass of the latest run; null where there is none.
    pub(crate) fn pass(&self, name: &str) -> Value {
        let run = self.run_json();
        let mut passes = run["passes"].as_array().expect("passes").iter();
        passes.find(|pass| pass["name"] == name).cloned().unwrap_or_default()
    }

    /// Lines of the file `count`, to which each run of a workload adds one.
    pub(crate) fn count(&self) -> usize {
        read(&self.path("count")).lines().count()
    }

    /// Starts stage2-launch and waits until its workload has written `ready` into the sandbox.
    pub(crate) fn start_until_ready(&self, words: &[&str]) -> Child {
        self.spawn_until_ready(&mut self.std_launch(words))
    }

    /// Starts a command, of which stderr alone is kept, and waits until its workload has written `ready`.
    pub(crate) fn spawn_until_ready(&self, command: &mut Command) -> Child {
        let child = spawn(command);
        self.wait_for("ready");
        child
    }

    pub(crate) fn wait_for(&self, name: &str) {
        wait_until(name, || self.path(name).exists());
    }
}

/// Waits for something that comes within a minute.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut come: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !come() {
        assert!(Instant::now() < deadline, "{what} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Does something with each of several things at once: what mostly waits takes no longer than one of them.
pub(crate) fn at_once<T: Send>(all: impl IntoIterator<Item = T>, each: impl Fn(T) + Sync) {
    let each = &each;
    std::thread::scope(|scope| {
        all.into_iter().for_each(|one| {
            scope.spawn(move || each(one));
        });
    });
}

/// As [`at_once`], four of them at a time.
pub(crate) fn four_at_once<T: Send>(all: impl IntoIterator<Item = T>, each: impl Fn(T) + Sync) {
    let todo = Mutex::new(all.into_iter().collect::<VecDeque<T>>());
    let next = || todo.lock().expect("no panic").pop_front();
    at_once(0..4, |_| std::iter::from_fn(&next).for_each(&each));
}

/// Starts a command, of which stderr alone is kept.
pub(crate) fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("a program that can be started")
}

pub(crate) fn send(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id()).expect("a process");
    kill(nix::unistd::Pid::from_raw(id), signal).expect("it runs");
}

/// Exit status and stderr of a process that ends by itself.
pub(crate) fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), lossy(&output.stderr))
}

#[track_caller]
pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[track_caller]
pub(crate) fn json(path: &Path) -> Value {
    let text = read(path);
    let mut value: Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    // An object for each kernel, whose table is for programs that count bytes.
    if value["schema"] == stage2_model::SCHEMA && value["kernels"].is_object() {
        let report: stage2_model::Report = serde_json::from_str(&text).expect("a report");
        value["kernels"] = serde_json::to_value(&report.kernels).expect("rows");
    }
    value
}

/// The row of a list in which this key has this value.
#[track_caller]
pub(crate) fn row<'r>(rows: &'r Value, key: &str, value: &str) -> &'r Value {
    let list = rows.as_array().unwrap_or_else(|| panic!("no list: {rows:#}"));
    list.iter().find(|row| row[key] == value).unwrap_or_else(|| panic!("no {value} in {rows:#}"))
}

#[track_caller]
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> =
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Whether stderr has this text, if an error and its hint, which are two lines, are read as one.
pub(crate) fn says(text: impl Into<String>) -> impl predicates::Predicate<str> {
    let text = text.into();
    predicates::function::function(move |said: &str| lossy(said.as_bytes()).contains(&text))
}

/// An error and its hint, which are two lines, as one text.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\nstage2-launch: hint: ", "; ")
}

pub(crate) fn text(output: &Output) -> String {
    lossy(&output.stdout) + &lossy(&output.stderr)
}

pub(crate) fn stdout(assert: &assert_cmd::assert::Assert) -> String {
    lossy(&assert.get_output().stdout)
}

pub(crate) fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    lossy(&assert.get_output().stderr)
}

/// Fails unless a text holds each of these parts, and none of those behind a `!`.
#[track_caller]
pub(crate) fn expect_parts(text: &str, of: &str, parts: &[&str]) {
    for part in parts {
        match part.strip_prefix('!') {
            Some(never) => assert!(!text.contains(never), "{of}: never `{never}` in\n{text}"),
            None => assert!(text.contains(part), "{of}: no `{part}` in\n{text}"),
        }
    }
}

pub(crate) fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// Copies a file of `tests/fixtures`, unpacked where it is packed.
pub(crate) fn unpack(fixture: &str, to: &Path) {
    // A build that is not optimised takes long to unpack one, and many tests want the same.
    static UNPACKED: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
    std::fs::create_dir_all(to.parent().expect("parent")).expect("folder");
    let mut unpacked = UNPACKED.lock().expect("no panic");
    let bytes = unpacked.entry(fixture.to_owned()).or_insert_with(|| {
        let packed = std::fs::read(repository("tests/fixtures").join(fixture)).expect(fixture);
        if !fixture.ends_with(".xz") {
            return packed;
        }
        let mut bytes = Vec::new();
        lzma_rs::xz_decompress(&mut packed.as_slice(), &mut bytes).expect(fixture);
        bytes
    });
    std::fs::write(to, bytes).expect("a file");
}

/// A folder that several tests read, made once for all of them.
pub(crate) fn shared_folder(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("folder");
    make(&folder);
    folder
}

/// Copies a folder with all that is in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(status.expect("cp, of coreutils").success(), "{}", from.display());
}

pub(crate) fn compress(path: &Path) {
    let status = Command::new("gzip").arg("-1").arg(path).status();
    assert!(status.expect("gzip").success());
}

pub(crate) fn change_export(export: &Path, sql: &str) {
    let database = rusqlite::Connection::open(export).expect("a database");
    database.execute_batch(sql).expect("SQL");
}

/// Undoes what `nohup` or a shell's `&` left behind: a program that starts with a signal ignored
/// leaves it so, and the tests send signals.
fn obey_signals() {
    for number in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP, Signal::SIGTERM] {
        // SAFETY: the default disposition runs no code of ours.
        unsafe { signal(number, SigHandler::SigDfl) }.expect("a signal that can be set");
    }
}

/// PATH without the folders that hold real profilers.
pub(crate) fn path_without_profilers() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let plain = |dir: &PathBuf| !dir.join("nsys").exists() && !dir.join("ncu").exists();
    std::env::join_paths(std::env::split_paths(&path).filter(plain)).expect("PATH")
}

/// A library that this process has loaded, so that another process can as well. Not libc: a second
/// one under another name would not be harmless.
fn loaded_library() -> PathBuf {
    let maps = read(Path::new("/proc/self/maps"));
    let file = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let mut libraries = file.filter(|path| path.contains("libgcc_s"));
    libraries.next().expect("libgcc_s in this process").into()
}

/// Says whether Python has these packages, which the examples need.
pub(crate) fn has_packages(names: &str) -> bool {
    let python = Command::new("python3").args(["-c", &format!("import {names}")]).output();
    let found = python.is_ok_and(|output| output.status.success());
    if !found {
        let missing = "python3 has no hydra-core, numpy or nvtx (pip install -r \
                       examples/runner/requirements.txt)";
        assert!(std::env::var_os("STAGE2_REQUIRE_HYDRA").is_none(), "{missing}");
        skipped(missing);
    }
    found
}

/// Says that a test is skipped, past the harness, which keeps the output of tests that pass to itself.
/// Fails where `STAGE2_REQUIRE_TOOLS=1` says that everything is installed.
pub(crate) fn skipped(why: &str) {
    let required = std::env::var_os("STAGE2_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    assert!(!required, "STAGE2_REQUIRE_TOOLS=1, but {why}");
    let line = format!("SKIPPED: {why}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}
