//! Guests that would notice us: each behaves as it does without the collector.

use crate::common::{Guest, counts};
use stage2_contract::trace::Ending;

/// Hazard (Signals): A signal is sent to the process while all guest threads block it.
/// Promise: No thread of CUPTI or the collector takes it.
#[test]
fn a_signal_to_the_process_ends_in_no_thread_of_cupti_or_ours() {
    let left = Guest::new("waits_for_a_signal").run();
    assert_eq!(left.expect_quiet(0).stdout(), "got=true\n");
    assert_eq!(left.trace().kernel_count(), 1);
}

/// Hazard (Threads, stacks and locks): The guest leaves NVTX calls for good, by `siglongjmp` out
///  of a signal handler, or its threads are kept in them.
/// Promise: No thread waits for them; the trace file is complete, and the events that they were about to send are
///  counted.
#[test]
fn calls_that_never_end_hold_up_nobody() {
    let left = Guest::new("kept_in_calls").run();
    // Ranges of those threads are open at the end, which is said.
    left.expect_said(0);
    let trace = left.trace();
    assert_eq!((trace.ending, trace.kernels()), (Ending::Complete, counts(&[("after", 60)])));
    let closed = trace.range_paths().values().filter(|path| *path == "after").count();
    assert_eq!((closed, trace.losses().unattributed), (20, 0));
    println!("{} events lost", trace.losses().range_events);
}

/// Hazard (Signals): Our start blocks all signals for a moment.
/// Promise: The guest's mask is what it was.
#[test]
fn the_guests_signal_mask_is_what_it_was() {
    assert_eq!(Guest::new("keeps_its_mask").run().expect_quiet(0).stdout(), "same=true\n");
}

/// Hazard (Signals): SIGXFSZ where files may not grow.
/// Promise: Our file and lines end, not the guest.
#[test]
fn a_limit_on_file_sizes_costs_the_lines_and_the_file_but_not_the_guest() {
    let stderr = tempfile::tempfile().expect("a file");
    let left = Guest::new("no_file_may_grow")
        .env("STAGE2_SUMMARY", "stderr")
        .env("STAGE2_GRAPH", "edge")
        .stderr(stderr)
        .run();
    assert_eq!(left.output.status.code(), Some(0), "{:?}", left.output.status);
}

/// Hazard (Threads, stacks and locks): The first NVTX call comes on the smallest stack.
/// Promise: A start uses a separate stack.
#[test]
fn the_smallest_stack_is_enough_for_the_first_nvtx_call() {
    let left = Guest::new("smallest_stack").run();
    assert_eq!(left.expect_quiet(0).stdout(), "worked on\n");
    assert!(left.trace().range_paths().values().any(|path| path == "first"));
}

/// Hazard (Threads, stacks and locks): NVTX calls on small stacks.
/// Promise: They take little stack.
#[test]
fn nvtx_calls_take_little_stack() {
    let left = Guest::new("stack_use").run();
    let stdout = left.expect_quiet(0).stdout();
    let used: Vec<usize> =
        stdout.split_whitespace().map(|text| text.parse().expect("bytes")).collect();
    println!("first call {} bytes, others {} bytes", used[0], used[1]);
    // Of a build without optimisation; the loader's share of the first call is included.
    assert!(used[0] < 8 << 10 && used[1] < 9 << 10, "{stdout}");
}

/// Hazard (Resources): A seccomp filter that kills on scheduling calls.
/// Promise: The collector makes none under a filter of the guest.
#[test]
fn a_filter_that_kills_for_scheduling_calls_kills_nobody() {
    let left = Guest::new("filtered").run();
    assert_eq!(left.output.status.code(), Some(0), "{:?} {}", left.output.status, left.stderr());
    assert_eq!(left.trace().kernel_count(), 207);
}
