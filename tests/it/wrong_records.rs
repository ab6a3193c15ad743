//! GPU records that cannot be true: each is counted and kept, and its times are in no sum.

use crate::common;
use crate::common::{Guest, Left};
use stage2_contract::trace::{Losses, Record};

/// Of 207 kernels every tenth is damaged.
const DAMAGED: u64 = 20;

fn guest(fault: &str) -> Guest {
    Guest::new("return").env("STAGE2_SIM_FAULT", fault).env("STAGE2_SUMMARY", "stderr")
}

fn run(fault: &str) -> Left {
    guest(fault).run()
}

/// Duration of the longest kernel whose times are taken as they are, ns.
fn longest_ns(left: &Left) -> u64 {
    let durations = left.trace().records.iter().filter_map(|record| match record {
        Record::Work(work) if work.start.0 != 0 && work.end >= work.start => {
            Some(work.end.0 - work.start.0)
        }
        _ => None,
    });
    durations.max().expect("kernels")
}

/// Hazard (Records that make no sense): Zero, reversed and far-future times of kernels.
/// Promise: They are counted and add to no sum.
/// Hazard (Wrong data from the GPU): Kernels without timestamps.
/// Promise: They are kept and counted, and no time is made up.
#[test]
fn times_that_cannot_be_are_counted_and_add_to_no_sum() {
    for (fault, api) in [
        ("zero-timestamps=10", "v1"),
        ("zero-timestamps=10", "v2"),
        ("reversed-timestamps=10", "v1"),
        ("future-timestamps=10", "v1"),
    ] {
        let left = guest(fault).api(api).run();
        let (stderr, trace) = (left.expect_said(0), left.trace());
        assert_eq!((trace.kernel_count(), trace.meta("cupti.api")), (207, Some(api)), "{fault}");
        let losses = Losses { invalid_timestamps: DAMAGED, ..Losses::default() };
        assert_eq!(trace.losses(), losses, "{fault}");
        assert!(longest_ns(&left) < 1_000_000_000, "{fault}: {} ns", longest_ns(&left));
        assert!(stderr.contains("20 without valid times"), "{fault}: {stderr}");
        if fault.starts_with("zero") {
            // Nobody is told without a summary.
            Guest::new("return").api(api).env("STAGE2_SIM_FAULT", fault).run().expect_quiet(0);
        }
    }
}

/// Hazard (Records that make no sense): Records of an unknown kind.
/// Promise: They are counted, and those after them are read.
#[test]
fn records_of_an_unknown_kind_are_counted_and_those_behind_them_are_read() {
    let left = run("unknown-kinds=10");
    let (stderr, trace) = (left.expect_said(0), left.trace());
    assert_eq!(trace.kernel_count(), 187);
    let losses = Losses { unreadable_records: DAMAGED, ..Losses::default() };
    assert_eq!(trace.losses(), losses);
    assert!(stderr.contains("PARTIAL"), "{stderr}");
}

/// Hazard (Records that make no sense): Kernels whose name is NULL.
/// Promise: They stay where they ran.
#[test]
fn kernels_without_a_name_are_kept_where_they_ran() {
    let left = run("no-names=10");
    let trace = left.trace();
    assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
    assert_eq!(trace.kernel_count(), 207);
    assert_eq!(trace.losses(), Losses::default());
    let unnamed =
        |record: &&Record| matches!(record, Record::Name { bytes, .. } if bytes.is_empty());
    assert_eq!(trace.records.iter().filter(unnamed).count(), 1, "one name, and it is empty");
}

/// Hazard (Records that make no sense): Kernels that name no call: correlation id 0.
/// Promise: They are unattributed, not outside of ranges.
#[test]
fn kernels_of_no_known_call_are_unattributed_and_not_outside_of_ranges() {
    let left = run("no-correlations=10");
    let trace = left.expect_said(0);
    assert!(trace.contains("20 unattributed"), "{trace}");
    let trace = left.trace();
    let kernels =
        common::counts(&[("(outside)", 7), ("prefill", 90), ("decode", 90), ("(unknown)", 20)]);
    assert_eq!(trace.kernels(), kernels);
    assert_eq!(trace.losses(), Losses { unattributed: DAMAGED, ..Losses::default() });
}

/// Hazard (Records that make no sense): Kernels with the correlation id of another call, as parts
///  of a launch on several GPUs have.
/// Promise: They are all kept, and placed where that call was.
///
/// As it is right for one call: a launch on several GPUs, a copy in parts and a graph have a record for
/// each part.
#[test]
fn kernels_with_the_number_of_another_call_are_all_kept() {
    let left = run("repeated-correlations=10");
    let trace = left.trace();
    assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
    assert_eq!(trace.kernel_count(), 207);
    assert_eq!(trace.losses(), Losses::default());
}

/// Hazard (Records that make no sense): Correlation ids that begin again.
/// Promise: No kernel is lost.
#[test]
fn correlation_ids_that_begin_again_lose_no_kernel() {
    let left = Guest::new("return").env("STAGE2_SIM_FIRST_CORRELATION", "4294967200").run();
    let trace = left.expect_quiet(0).trace();
    let kernels = common::plain();
    assert_eq!((trace.kernels(), trace.losses()), (kernels, Losses::default()));
}
