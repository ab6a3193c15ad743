//! By how much a million records delay the end of a process.
//!
//! Runs itself as a guest on the simulated GPU, alone and with the collector in turn, and prints the
//! time from the guest's last kernel to the end of the process as its parent sees it.

#[path = "../tests/guests/cuda.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod cuda;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const KERNELS: u32 = 1_000_000;
const ROUNDS: usize = 5;
const GUEST: &str = "--as-guest";

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let Some(at) = words.iter().position(|word| word == GUEST) {
        return guest(words.get(at + 1).and_then(|word| word.parse().ok()).expect("a number"));
    }
    // `cargo test --benches` runs this as a test: few kernels are enough to see that it works.
    let is_bench = words.iter().any(|word| word == "--bench");
    let (kernels, rounds) = if is_bench { (KERNELS, ROUNDS) } else { (1_000, 1) };
    let (mut alone, mut traced) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        alone.push(end_of_guest(kernels, false));
        traced.push(end_of_guest(kernels, true));
    }
    println!("last kernel to end of process, {kernels} kernels, {rounds} rounds");
    for (name, times) in [("alone", &alone), ("libstage2.so", &traced)] {
        let shown: Vec<String> = times.iter().map(|time| format!("{:.1}", ms(*time))).collect();
        println!("{name:<14} {} ms", shown.join(" "));
    }
    let least = |times: &[Duration]| ms(times.iter().copied().min().unwrap_or_default());
    println!("added: {:.1} ms at the minimum", least(&traced) - least(&alone));
}

/// `CLOCK_MONOTONIC`, the same in all processes. The collector is not linked in here, because the
/// guest alone must be without it.
fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Launches, waits for the GPU, says when that was and ends.
fn guest(kernels: u32) {
    cuda::init();
    let stream = cuda::Stream::new();
    // The recorded sequence has about 700 kernels.
    for _ in 0..kernels / 500 {
        stream.launch(500);
    }
    stream.synchronize();
    println!("{}", monotonic_ns());
}

fn end_of_guest(kernels: u32, traced: bool) -> Duration {
    let own = std::env::current_exe().expect("own path");
    let beside = |name: &str| -> PathBuf { own.with_file_name(name) };
    let out = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(&own);
    command
        .args([GUEST, &kernels.to_string()])
        .env_clear()
        .env("STAGE2_TEST_SIM", beside("libstage2_sim.so"))
        .env("STAGE2_SIM_FAST", "1")
        .stdout(Stdio::piped());
    if traced {
        command
            .env("LD_PRELOAD", beside("libstage2.so"))
            .env("STAGE2_CUPTI", beside("libstage2_sim.so"))
            .env("STAGE2_OUT", out.path());
        command.env("STAGE2_SUMMARY", "off");
    }
    let output = command.output().expect("the guest starts");
    let ended_ns = monotonic_ns();
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    let last_ns: u64 = text.trim().parse().expect("a time");
    Duration::from_nanos(ended_ns - last_ns)
}
