//! What it costs a program that uses neither CUDA nor NVTX to start under the collector.
//!
//! Starts `true` many times in turn without a preload, with an empty library and with the
//! collector, and prints the medians and minima, their ratios, and the noise: the difference
//! between two halves of the runs without a preload.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 400;

fn main() {
    // `cargo test --benches` runs this as a test: once is enough to see that it works.
    let rounds = if std::env::args().any(|word| word == "--bench") { ROUNDS } else { 4 };
    let folder = tempfile::tempdir().expect("a folder");
    let empty = empty_library(folder.path());
    let collector = beside_us("libstage2.so");
    let mut none = Vec::new();
    let mut with_empty = Vec::new();
    let mut with_us = Vec::new();
    for _ in 0..rounds {
        none.push(start_true(None));
        with_empty.push(start_true(empty.as_deref()));
        with_us.push(start_true(Some(&collector)));
        none.push(start_true(None));
    }
    let halves: (Vec<_>, Vec<_>) = (
        none.iter().step_by(2).copied().collect(),
        none.iter().skip(1).step_by(2).copied().collect(),
    );
    let noise = median(&halves.0).abs_diff(median(&halves.1));
    println!("start of `true`, {rounds} rounds       median       minimum");
    for (name, times) in
        [("no preload", &none), ("empty library", &with_empty), ("libstage2.so", &with_us)]
    {
        println!("{name:<30} {:>9.1} us {:>9.1} us", us(median(times)), us(minimum(times)));
    }
    println!(
        "added over an empty library: {:.1} us at the median ({:.3}x), {:.1} us at the minimum; \
         noise of the median {:.1} us",
        us(median(&with_us)) - us(median(&with_empty)),
        us(median(&with_us)) / us(median(&with_empty)),
        us(minimum(&with_us)) - us(minimum(&with_empty)),
        us(noise),
    );
}

fn beside_us(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("own path");
    own.with_file_name(name)
}

/// A shared library without content, if there is a C compiler; `None` runs without a preload.
fn empty_library(folder: &Path) -> Option<PathBuf> {
    let path = folder.join("empty.so");
    let built = Command::new("cc")
        .args(["-shared", "-x", "c", "/dev/null", "-o"])
        .arg(&path)
        .status()
        .is_ok_and(|status| status.success());
    if !built {
        eprintln!("no C compiler: the row of the empty library is without a preload");
    }
    built.then_some(path)
}

fn start_true(preload: Option<&Path>) -> Duration {
    let mut command = Command::new("/bin/true");
    command.env_clear().stdin(Stdio::null());
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    let started = Instant::now();
    assert!(command.status().expect("starts").success());
    started.elapsed()
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

fn minimum(times: &[Duration]) -> Duration {
    times.iter().copied().min().unwrap_or_default()
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
