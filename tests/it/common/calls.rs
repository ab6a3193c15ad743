//! Functions of the C library that fail where the collector calls them: `tests/guests/failing_calls.c`,
//! compiled and preloaded.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::common::{Guest, Left, collector, skipped};

/// A number that no call reaches.
pub(crate) const FOR_EVER: u64 = u64::MAX;

/// Instead of an error: the call goes well, and a thread of the guest forks before it. `first` and every
/// `last`th call from there on.
pub(crate) const FORK: i32 = -2;

/// Instead of an error: the call goes well, and takes so many ms more before that.
pub(crate) const fn slow(ms: i32) -> i32 {
    -1000 - ms
}

/// Which calls of which function fail, and how.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    /// As the linker knows it; `futex` and `pwritev2` for calls through `syscall`.
    pub(crate) function: &'static str,
    /// The error number; -1 for what the function does instead of failing; [`FORK`]; [`slow`].
    pub(crate) error: i32,
    /// The first call that fails, from 1; 0 for none.
    pub(crate) first: u64,
    /// The last one.
    pub(crate) last: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {} {}", self.function, self.error, self.first, self.last)
    }
}

pub(crate) struct Met {
    pub(crate) left: Left,
    /// Calls of the function by the collector, and those that failed.
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) took: Duration,
}

/// The preloaded library. `None`, and a word about it, where no C compiler is installed.
pub(crate) fn library() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    BUILT.get_or_init(|| compiled("failing_calls")).as_ref().map(|(_, library)| library.as_path())
}

/// A library of `tests/guests` to be preloaded. `None` as above.
pub(crate) fn compiled(name: &str) -> Option<(TempDir, PathBuf)> {
    compile(name, &format!("lib{name}.so"), &["-shared", "-fPIC"])
}

/// A program of `tests/guests`. `None` as above.
pub(crate) fn program(name: &str) -> Option<(TempDir, PathBuf)> {
    compile(name, name, &[])
}

fn compile(name: &str, result: &str, kind: &[&str]) -> Option<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir().expect("folder");
    let result = folder.path().join(result);
    let source = format!("{}/tests/guests/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-O1"]).args(kind).arg("-o");
    match command.arg(&result).arg(&source).arg("-ldl").status() {
        Ok(status) => assert!(status.success(), "{source} does not compile"),
        Err(error) => {
            skipped(&format!("no C compiler ({error})"));
            return None;
        }
    }
    Some((folder, result))
}

pub(crate) fn meet(guest: Guest, library: &Path, fault: Fault) -> Met {
    let tally = tempfile::NamedTempFile::new().expect("file");
    tally.as_file().set_len(4096).expect("file");
    let preloads = format!("{} {}", library.display(), collector().display());
    let started = Instant::now();
    let left = guest
        .env("LD_PRELOAD", preloads)
        .env("STAGE2_TEST_CALL", fault.to_string())
        .env("STAGE2_TEST_TALLY", tally.path())
        .run();
    let took = started.elapsed();
    let bytes = std::fs::read(tally.path()).expect("file");
    let number = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    Met { left, calls: number(0), failed: number(8), took }
}
