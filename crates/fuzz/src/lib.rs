//! Fuzz targets for everything that reads foreign bytes, and mutators that know their formats.
//!
//! A [`Target`] is a function over bytes that panics where a property fails. [`run`] adds the two that
//! hold for all of them: bounded time and bounded memory. Two engines drive the same targets: libFuzzer
//! with coverage (`src/main.rs`, started by `tests/fuzz/run.py`), and a plain loop under `cargo test`
//! (`tests/corpus.rs`), which replays the committed corpus first.

pub mod corpus;
pub mod cpu_time;
pub mod guest;
pub mod memory_count;
pub mod mutate;
pub mod scratch;
mod targets;

pub use targets::{TARGETS, Target, target};

use std::time::Duration;

use memory_count::peak_of;

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
///
/// # Panics
/// When a property of the target fails, or a limit is passed. The message says which.
pub fn run(target: &Target, input: &[u8]) {
    let begun = cpu_time::of_process();
    let ((), peak) = peak_of(|| (target.check)(input));
    let taken = cpu_time::of_process().saturating_sub(begun);
    let Limits { time, memory_bytes, memory_per_byte } = target.limits;
    let memory = memory_bytes + memory_per_byte * input.len();
    let (name, length) = (target.name, input.len());
    assert!(peak <= memory, "{name}: {peak} bytes of memory for {length} bytes; limit {memory}");
    assert!(taken <= time, "{name}: {taken:?} of CPU time for {length} bytes; limit {time:?}");
}
