//! The system refuses the collector memory: the guest works on, the trace file ends in order as far as that is
//! possible, and one line says why.

use crate::common::calls;
use std::path::Path;
use std::time::Duration;

use crate::common::calls::{FOR_EVER, Fault, Met};
use crate::common::{Guest, despite_other_work, each};
use stage2_contract::trace::Ending;

const IN_TIME: Duration = Duration::from_secs(4);

/// A guest that comes so far: of events that are lost on a busy machine, nothing is kept.
fn refused(library: &Path, fault: Fault) -> Met {
    let mut runs = (0..8).map(|_| calls::meet(Guest::new("ever_new_names"), library, fault));
    runs.find(|met| met.failed > 0).expect("a run with so many calls")
}

/// Fails unless the guest did what it does without us, and was told once that we are off.
fn expect_off(met: &Met, fault: Fault) {
    let (left, stderr) = (&met.left, met.left.stderr());
    assert_eq!(left.output.status.code(), Some(0), "{fault}: {stderr}");
    assert_eq!(left.stdout(), "worked on\n", "{fault}");
    assert_usual!(met.took < IN_TIME, "{fault}: {:?}", met.took);
    assert!(stderr.contains("stage2: off: ") && stderr.contains("memory"), "{fault}: {stderr}");
    assert!(stderr.lines().all(|line| line.starts_with("stage2: ")), "{fault}: {stderr}");
}

/// Hazard (Calls that fail): The system refuses the collector one allocation.
/// Promise: The trace file ends properly and states that it is incomplete.
#[test]
fn one_refused_allocation_ends_the_trace_file_in_order_and_says_that_it_is_incomplete() {
    despite_other_work(|| {
        let Some(library) = calls::library() else { return };
        let fault = |first, last| Fault { function: "malloc", error: libc::ENOMEM, first, last };
        let all = calls::meet(Guest::new("ever_new_names"), library, fault(0, 0)).calls;
        assert!(all > 30_000, "{all} calls: one for each new name");
        // In the midst of the run.
        for first in [all / 2, all * 2 / 3] {
            let fault = fault(first, first);
            let met = refused(library, fault);
            expect_off(&met, fault);
            let trace = met.left.trace();
            assert_eq!(trace.ending, Ending::Complete, "{fault}");
            assert!(trace.meta("gpu.incomplete").is_some(), "{fault}");
        }
    });
}

/// Hazard (Calls that fail): The system refuses an array more room.
/// Promise: The guest goes on.
#[test]
fn an_array_that_cannot_grow_costs_the_guest_nothing() {
    despite_other_work(|| {
        let Some(library) = calls::library() else { return };
        let fault = |first| Fault { function: "realloc", error: libc::ENOMEM, first, last: first };
        let all = calls::meet(Guest::new("steady"), library, fault(0)).calls;
        each([1, all.div_ceil(2), all], |first| {
            let met = calls::meet(Guest::new("steady"), library, fault(first));
            assert!(met.failed > 0 || first > 1, "{all} calls");
            let (left, stderr) = (&met.left, met.left.stderr());
            assert_eq!(left.output.status.code(), Some(3), "{}: {stderr}", fault(first));
            assert_eq!(left.stdout(), "launched 227 kernels\n", "{}", fault(first));
            let ours = stderr.lines().all(|line| line.starts_with("stage2: "));
            assert!(ours, "{}: {stderr}", fault(first));
            assert_usual!(met.took < IN_TIME, "{}: {:?}", fault(first), met.took);
        });
    });
}

/// Hazard (Calls that fail): The system refuses all memory from some moment on.
/// Promise: The guest continues, and one line states why the collector is off.
#[test]
fn without_any_memory_from_some_moment_on_the_guest_works_on() {
    despite_other_work(|| {
        let Some(library) = calls::library() else { return };
        let fault =
            |first| Fault { function: "malloc", error: libc::ENOMEM, first, last: FOR_EVER };
        let all = calls::meet(Guest::new("ever_new_names"), library, fault(FOR_EVER)).calls;
        for first in [1, all / 2, all * 2 / 3] {
            let met = refused(library, fault(first));
            expect_off(&met, fault(first));
        }
    });
}

/// Hazard (Calls that fail): The guest reaches its own limit on memory.
/// Promise: What was recorded before is kept.
#[test]
fn a_guest_that_reaches_its_own_limit_works_on_and_what_was_recorded_before_is_kept() {
    let left = Guest::new("memory_runs_out").run();
    let stderr = left.expect_line(0);
    assert_eq!(left.stdout(), "has what it needs\nworked on\n");
    assert!(stderr.contains("off: ") && stderr.contains("memory"), "{stderr}");
    assert_eq!(left.trace().kernel_count(), 207);
    assert!(
        left.trace().ending != Ending::Complete || left.trace().meta("gpu.incomplete").is_some()
    );
}
