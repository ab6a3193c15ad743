//! An empty folder, a harmless library in the collector's place, and stage2-launch in it.

pub(crate) mod dom;
pub(crate) mod followed;
pub(crate) mod golden;
pub(crate) mod hostile_names;
pub(crate) mod obedient;
pub(crate) mod simulated;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// A working directory of its own.
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

    /// A script that can be run.
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

    /// stage2-launch in the sandbox. Its workloads use no GPU, so it is told to allow that.
    pub(crate) fn launch(&self, words: &[&str]) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::from_std(self.std_launch(words));
        command.timeout(Duration::from_secs(60));
        command
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
            ["bench" | "config" | "export", ..] => self.plain_launch(words),
            _ => self.plain_launch(&[&["--allow-empty"], words].concat()),
        }
    }

    fn plain_launch(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stage2-launch"));
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

    /// The one file of the latest run.
    pub(crate) fn read(&self, name: &str) -> String {
        read(&self.path("tmp/stage2/latest").join(name))
    }

    pub(crate) fn run_json(&self) -> serde_json::Value {
        serde_json::from_str(&self.read("run.json")).expect("run.json")
    }

    /// Starts stage2-launch and waits until its workload has written `ready` into the sandbox.
    pub(crate) fn start_until_ready(&self, words: &[&str]) -> Child {
        let mut command = self.std_launch(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("stage2-launch");
        self.wait_for("ready");
        child
    }

    pub(crate) fn wait_for(&self, name: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.path(name).exists() {
            assert!(Instant::now() < deadline, "{name} never came");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Undoes what `nohup` or a shell's `&` left behind: a program that starts with a signal ignored
/// leaves it so, and the tests send signals.
fn obey_signals() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    for number in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP, Signal::SIGTERM] {
        // SAFETY: the default disposition runs no code of ours.
        unsafe { signal(number, SigHandler::SigDfl) }.expect("a signal that can be set");
    }
}

/// PATH without the folders that hold real profilers.
pub(crate) fn path_without_profilers() -> std::ffi::OsString {
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

/// Says that a test is skipped, past the harness, which keeps the output of tests that pass to itself.
/// Fails where `STAGE2_REQUIRE_TOOLS=1` says that everything is installed.
pub(crate) fn skipped(why: &str) {
    let required = std::env::var_os("STAGE2_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    assert!(!required, "STAGE2_REQUIRE_TOOLS=1, but {why}");
    let line = format!("SKIPPED: {why}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}
