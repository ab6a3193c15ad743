//! Fuzz targets for everything that reads foreign bytes, and mutators that know their formats.
//!
//! A [`Target`] is a function over bytes that panics where a property fails. [`run`] adds the two that
//! hold for all of them: bounded time and bounded memory. Two engines drive the same targets: libFuzzer
//! with coverage (`src/main.rs`, started by `tests/fuzz/run.py`), and a plain loop under `cargo test`
//! (`tests/corpus.rs`), which replays the committed corpus first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use memory_count::peak_of;

pub mod memory_count;
pub mod mutate;
pub mod scratch;
mod targets;

pub use targets::{TARGETS, Target, target};

/// What one input may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// CPU time of the process. An input that needs longer stands for a loop that grows faster than
    /// its input; the slowest honest ones take a hundredth of it.
    pub time: Duration,
    /// Bytes of memory that every input may take.
    pub memory_bytes: usize,
    /// Bytes of memory for each byte of the input, in addition.
    pub memory_per_byte: usize,
}

/// Runs one input, and holds it against the limits of its target.
/// It panics where a property of the target fails, or a limit is passed, and says which.
pub fn run(target: &Target, input: &[u8]) {
    let begun = cpu_time();
    let ((), peak) = peak_of(|| (target.check)(input));
    let taken = cpu_time().saturating_sub(begun);
    let Limits { time, memory_bytes, memory_per_byte } = target.limits;
    let memory = memory_bytes + memory_per_byte * input.len();
    let (name, length) = (target.name, input.len());
    assert!(peak <= memory, "{name}: {peak} bytes of memory for {length} bytes; limit {memory}");
    assert!(taken <= time, "{name}: {taken:?} of CPU time for {length} bytes; limit {time:?}");
}

/// CPU time of all threads so far: other programs on a busy machine do not make an input slow.
#[allow(unsafe_code, reason = "the standard library has no clock of CPU time")]
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time`, which is there.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "every Linux has the clock of a process");
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The folder of the committed corpus, which holds a folder for each target.
pub fn corpus_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus")
}

/// The inputs of the corpus for a target, by the names of their files.
pub fn corpus_inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = corpus_folder().join(target);
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|why| panic!("the corpus {} cannot be read: {why}", folder.display()));
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("an entry of the corpus").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, std::fs::read(&path).expect("a file of the corpus"))
        })
        .collect();
    inputs.sort();
    inputs
}
