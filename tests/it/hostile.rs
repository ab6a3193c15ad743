//! Guests whose NVTX calls make no sense, or are far too many: nothing is guessed, nothing grows.

use std::process::Command;

use crate::common::trace::files_in;
use crate::common::{Guest, TraceFile, built, collector, counts, traces_in, wait_until};
use stage2_contract::trace::{Reader, Record};

/// Hazard (Hostile guests): Pops and ends without an opening.
/// Promise: They are counted and change nothing.
#[test]
fn ends_of_what_was_never_started_or_has_ended_leave_collection_as_it_is() {
    let left = Guest::new("bogus_ends").env("STAGE2_RANGES", "want").run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(trace.kernels(), counts(&[("want", 53)]));
    assert_eq!(trace.losses().unbalanced, 12);
}

/// Hazard (Resources): A flood of marks.
/// Promise: It costs marks and no range.
#[test]
fn a_flood_of_marks_costs_marks_and_no_range() {
    for attribution in ["fence", "callback"] {
        let left = Guest::new("flood_of_marks").env("STAGE2_ATTRIBUTION", attribution).run();
        let trace = left.expect_quiet(0).trace();
        assert!(trace.losses().range_events > 0, "the flood is large enough to lose something");
        assert_eq!(trace.kernels(), counts(&[("A", 3000), ("B", 6000)]));
    }
}

/// Hazard (Resources): A flood of ranges.
/// Promise: Work becomes unattributed, and none goes to a wrong range.
#[test]
fn a_flood_of_ranges_makes_work_unattributed_and_none_of_it_somebody_elses() {
    for attribution in ["fence", "callback"] {
        let left = Guest::new("flood_of_ranges").env("STAGE2_ATTRIBUTION", attribution).run();
        nothing_is_guessed(left.expect_quiet(0).trace());
    }
}

fn nothing_is_guessed(trace: &TraceFile) {
    let (kernels, losses) = (trace.kernels(), trace.losses());
    assert!(losses.range_events > 0, "the flood is large enough to lose something");
    let of = |path: &str| kernels.get(path).copied().unwrap_or(0);
    // Whatever is not in its range is said to be unknown, or in a range whose name was lost.
    assert_eq!(of("(outside)"), 0, "{kernels:?}");
    if trace.meta("attribution") == Some("fence") {
        // All of a range or nothing; with callbacks launches are lost one by one.
        assert_eq!((of("A") % 10, of("B") % 20), (0, 0), "{kernels:?}");
    }
    assert!(of("A") <= 3000 && of("B") <= 6000, "{kernels:?}");
    assert_eq!(of("A") + of("B") + of("(unknown)") + of("(lost)"), 9000, "{kernels:?}");
    assert_eq!(of("(unknown)") as u64, losses.unattributed);
}

/// Hazard (Resources): Events come faster than they are taken in.
/// Promise: The trace file is kept up to date.
#[test]
fn the_trace_file_is_kept_up_to_date_while_events_come_faster_than_they_are_taken_in() {
    let mut guest = Guest::new("flood_without_end").spawn();
    wait_until("kernels and a loss in the file", || {
        let files = files_in(guest.out());
        let records = files.iter().flat_map(Reader::open).flatten().flatten();
        let (mut kernels, mut lost) = (false, false);
        for record in records {
            match record {
                Record::Work(work) => kernels |= work.is_kernel(),
                Record::Losses(losses) => lost |= losses.range_events > 0,
                _ => {}
            }
            if kernels && lost {
                return true;
            }
        }
        false
    });
    guest.signal(libc::SIGKILL);
    guest.ended();
    let traces = traces_in(guest.out());
    assert_eq!(traces.len(), 1);
    assert!(traces[0].kernel_count() > 0 && traces[0].losses().range_events > 0);
}

/// Hazard (Threads, stacks and locks): The guest's allocator opens NVTX ranges.
/// Promise: It does not call itself without end.
#[test]
fn an_allocator_that_makes_ranges_does_not_call_itself_for_ever_where_we_were_not_preloaded() {
    let guest = Command::new(built("annotated"))
        .env_clear()
        .env("NVTX_INJECTION64_PATH", collector())
        .env("STAGE2_SUMMARY", "off")
        .output()
        .expect("the guest starts");
    assert!(guest.status.success(), "{guest:?}");
    assert_eq!(guest.stdout, b"done\n");
}
