//! The thread that takes in records fails: the guest works on, CUPTI is let go of, one line says why.

use crate::common;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::common::{TraceFile, built, counts, each, simulator};
use stage2_contract::trace::Ending;

/// Runs the guest; what it said, its trace file, and how long it took.
fn run(fails: &str) -> (Output, TraceFile, Duration) {
    let folder = tempfile::tempdir().expect("folder");
    let started = Instant::now();
    let output = Command::new(built("failing"))
        .env_clear()
        .env("STAGE2_TEST_FAILS", fails)
        .env("STAGE2_TEST_SIM", simulator())
        .env("STAGE2_CUPTI", simulator())
        .env("STAGE2_SIM_FAST", "1")
        .env("STAGE2_FLUSH_MS", "50")
        .env("STAGE2_OUT", folder.path())
        .output()
        .expect("the guest starts");
    let took = started.elapsed();
    let mut traces = common::traces_in(folder.path());
    assert_eq!(traces.len(), 1, "{}", String::from_utf8_lossy(&output.stderr));
    (output, traces.remove(0), took)
}

/// Hazard (Threads, stacks and locks): A panic on the collector's own thread.
/// Promise: The guest continues; one line states why the collector is off.
#[test]
fn the_guest_works_on_and_one_line_says_why_we_are_off() {
    each([("first look", 0), ("later flush", 100), ("last flush", 100)], |(fails, kernels)| {
        let (output, trace, took) = run(fails);
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{fails}: {stdout} {stderr}");
        assert!(stdout.contains("worked on"), "{fails}: {stdout}");
        assert!(took < Duration::from_secs(4), "{fails}: {took:?}");
        assert_eq!(stderr.lines().count(), 1, "{fails}: {stderr}");
        for part in ["stage2: off: ", "index out of bounds", "failing.rs", "its last flush"] {
            assert!(stderr.contains(part), "{fails}: {part:?} in {stderr}");
        }
        // What was flushed before can be read.
        assert_eq!(trace.ending, Ending::Open, "{fails}");
        let expected = if kernels > 0 { counts(&[("before", kernels)]) } else { counts(&[]) };
        assert_eq!(trace.kernels(), expected, "{fails}");
    });
}
