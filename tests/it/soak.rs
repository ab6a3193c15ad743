//! A guest that works for long: every launch is recorded or counted as lost, memory stays flat, and the
//! end comes in time.
//!
//! `STAGE2_SOAK_KERNELS`, `STAGE2_SOAK_WINDOWS` and `STAGE2_SOAK_BUFFERS` make it longer than a test
//! usually is: `.ci/full soak` takes 200 million kernels, 1,000 windows and a release build. A large pool
//! is touched bit by bit, whenever our thread falls further behind than before: `STAGE2_SOAK_FLAT_KIB`
//! allows for it.

use std::time::Instant;

use crate::common::Guest;
use stage2_contract::trace::{Ending, Losses, Reader, Record, What};

/// Memory that the guest may take more at the end than after a quarter of its windows.
const FLAT_KIB: u64 = 4 << 10;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Hazard (Calls that fail): Collection is switched on and off for a long time.
/// Promise: Every launch is recorded or counted, and memory stays flat. Of 200 million launches on two cores, none was
///  lost ([run](../benches/runs/2026-11-24-2cores/soak.md)).
#[test]
fn launches_equal_records_and_memory_is_flat_while_collection_goes_on_and_off() {
    let kernels = number("STAGE2_SOAK_KERNELS", 1_000_000);
    let windows = number("STAGE2_SOAK_WINDOWS", 30);
    // A small pool is in use as a whole soon, so that what grows is something else. The price are losses
    // where our thread does not get enough of a processor.
    let buffers = std::env::var("STAGE2_SOAK_BUFFERS").unwrap_or_else(|_| "2M".to_owned());
    let started = Instant::now();
    let left = Guest::new("soak")
        .env("STAGE2_TEST_KERNELS", kernels.to_string())
        .env("STAGE2_TEST_WINDOWS", windows.to_string())
        .env("STAGE2_RANGES", "window_filter")
        .env("STAGE2_BUFFERS", buffers)
        .patience(60 + kernels / 100_000)
        .run_without_reading();
    assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
    let took = started.elapsed();
    let numbers: Vec<u64> =
        left.stdout().split_whitespace().map(|number| number.parse().expect("a number")).collect();
    let [launched, early_kib, late_kib] = numbers[..] else { panic!("{}", left.stdout()) };

    let [file] = &left.files()[..] else { panic!("one process has one trace file") };
    let mut reader = Reader::open(file).expect("it opens");
    let (mut recorded, mut losses, mut switched) = (0, Losses::default(), 0);
    for record in reader.by_ref() {
        match record.expect("every frame can be read") {
            Record::Work(work) if matches!(work.what, What::Kernel { .. }) => recorded += 1,
            Record::Losses(now) => losses = now,
            Record::RangeSample { recorded: true, .. } => switched += 1,
            _ => {}
        }
    }
    println!(
        "{launched} launches, {recorded} records, {} lost, {windows} windows in {:.1} s; {early_kib} \
         KiB after a quarter, {late_kib} KiB at the end",
        losses.cupti_dropped,
        took.as_secs_f64()
    );
    assert_eq!(reader.end(), Ending::Complete);
    assert_eq!(recorded + losses.cupti_dropped, launched, "{losses:?}");
    let dropped = (losses.cupti_dropped, losses.buffers_refused);
    let counted =
        Losses { cupti_dropped: dropped.0, buffers_refused: dropped.1, ..Losses::default() };
    assert_eq!(losses, counted, "nothing else is lost");
    assert_eq!(switched, windows * 8, "instances of the wanted range that were recorded");
    let flat_kib = number("STAGE2_SOAK_FLAT_KIB", FLAT_KIB);
    assert!(late_kib < early_kib + flat_kib, "{early_kib} KiB grew to {late_kib} KiB");
}
