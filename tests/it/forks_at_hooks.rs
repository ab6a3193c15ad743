//! A real fork of the guest at every hook of the collector: while a thread is in a call of the collector's
//! to the C library or to CUPTI, holding what it holds there, another thread of the guest forks. Parent and
//! child go on, end in time and have exact trace files.

use crate::common::calls;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::calls::{FORK, Fault, Met};
use crate::common::{Guest, check_each, counts};
use stage2_contract::trace::{Ending, Losses};

/// Where a thread of ours, or of the guest inside of us, makes each call.
const C_LIBRARY: &[(&str, &str)] = &[
    ("malloc", "everywhere but on guest threads"),
    ("realloc", "tables of the drain thread that grow"),
    ("gettid", "an NVTX push, a buffer request, the end"),
    (
        "futex",
        "a wait of the drain thread; what wakes it: a push, a buffer request or completion, the end",
    ),
    ("clock_gettime", "an NVTX push, every wait, the end"),
    ("pthread_create", "the start"),
    ("pthread_sigmask", "the start, the GPU half's start"),
    ("mmap", "the start: the buffers, a stack"),
    ("munmap", "the end of a start"),
    ("mprotect", "the start: a stack's guard"),
    ("dlopen", "the GPU half's start"),
    ("open64", "the drain thread: the trace file"),
    ("close", "the drain thread"),
    ("fcntl", "the drain thread: the number of its file"),
    ("read", "the start and the drain thread: /proc"),
    ("write", "the drain thread: a flush of the trace file"),
    ("statx", "the drain thread: whose file it is"),
    ("readdir64", "the drain thread: the threads of the process"),
];

/// Functions of CUPTI, the calls of each at which the guest forks, and where we make them.
const CUPTI: &[(&str, &[u64], &str)] = &[
    ("cuptiSubscribe", &[1], "the GPU half's start"),
    ("cuptiActivityRegisterCallbacks", &[1], "the GPU half's start"),
    ("cuptiEnableCallback", &[1, 2], "the GPU half's start"),
    ("cuptiActivityEnable", &[1, 3], "the GPU half's start"),
    ("cuptiActivityFlushAll", &[1, 2], "a flush"),
    ("cuptiActivityGetNextRecord", &[1, 100, 300], "the drain thread, with a buffer in its hands"),
    ("cuptiActivityGetNumDroppedRecords", &[1, 2], "a flush"),
    ("cuptiGetTimestamp", &[1, 2], "a flush"),
];

/// Forks in a run, about.
const FORKS: u64 = 12;
/// An end waits for 5 s; here nothing makes it.
const IN_TIME: Duration = Duration::from_secs(15);

fn guest() -> Guest {
    Guest::new("fork_at_hooks").env("STAGE2_FLUSH_MS", "10")
}

/// What went wrong; nothing where all is well.
fn complaint(met: &Met) -> Option<String> {
    let (left, stdout) = (&met.left, met.left.stdout());
    let (mut recorded, mut rest) = (0, Vec::new());
    for line in stdout.lines() {
        match line {
            "child=0" => recorded += 1,
            // It was forked before NVTX had its tool, and had nothing to call.
            "child=2304" => {}
            _ => rest.push(line),
        }
    }
    if left.output.status.code() != Some(3) || rest != ["launched 410 kernels"] {
        return Some(format!("the guest: {:?} {rest:?}", left.output.status));
    }
    if met.took > IN_TIME {
        return Some(format!("it took {:?}", met.took));
    }
    let parent = left.trace();
    let all = counts(&[("(outside)", 10), ("main", 200), ("other", 200)]);
    let found = (parent.ending, parent.losses(), parent.kernels());
    if found != (Ending::Complete, Losses::default(), all) {
        return Some(format!("the parent: {found:?}"));
    }
    if parent.ranges() != counts(&[("main", 10), ("other", 10)]) {
        return Some(format!("the parent's ranges: {:?}", parent.ranges()));
    }
    // A child that ends at once is waited for 200 ms: a machine that stands still for as long is no fault.
    let children = left.children();
    let whole_files = children.iter().filter(|child| child.ending == Ending::Complete);
    let (whole_files, in_time) =
        (whole_files.count(), !left.stderr().contains("called _exit while"));
    if in_time && (whole_files < recorded || whole_files < children.len()) {
        return Some(format!(
            "{recorded} children, {} files, {whole_files} of them whole, and nobody says so",
            children.len()
        ));
    }
    let whole = [counts(&[("child", 10)]), counts(&[("unanswered", 1)])];
    children.into_iter().filter(|child| child.ending == Ending::Complete).find_map(|child| {
        let exact = whole.contains(&child.ranges()) && child.losses() == Losses::default();
        (!exact).then(|| format!("a child: {:?} {:?}", child.ranges(), child.losses()))
    })
}

/// Runs each guest with its faults, which have it fork, and gives how many forks there were.
fn check(runs: Vec<(Guest, Fault, String)>) -> u64 {
    let Some(library) = calls::library() else { return 0 };
    let forks = AtomicU64::new(0);
    check_each(3, runs, |(guest, fault, case)| {
        let met = calls::meet(guest, library, fault);
        forks.fetch_add(met.failed, Ordering::Relaxed);
        let never = (met.failed == 0).then(|| "no fork".to_owned());
        let what = complaint(&met).or(never)?;
        Some(format!("{case}: {what}\n{}", met.left.stderr()))
    });
    forks.into_inner()
}

/// Hazard (Processes and forks): A fork while the collector is in a call to the C library: in the
///  start, an NVTX push, a buffer request, the drain thread, a flush, the end.
/// Promise: Parent and child continue, end in time and have exact trace files.
#[test]
fn a_fork_while_a_thread_is_in_the_c_library_for_us_disturbs_neither_side() {
    let Some(library) = calls::library() else { return };
    let fault = |function, first, last| Fault { function, error: FORK, first, last };
    let runs = C_LIBRARY.iter().map(|&(function, _)| {
        let met = calls::meet(guest(), library, fault(function, 0, 0));
        assert_eq!(complaint(&met), None, "without a fork: {}", met.left.stderr());
        assert!(met.calls > 0, "{function} is never called");
        let forks = fault(function, 1, met.calls / FORKS + 1);
        (guest(), forks, forks.to_string())
    });
    let forks = check(runs.collect());
    println!("{forks} forks");
    assert!(forks > 80, "{forks}");
}

/// Hazard (Processes and forks): A fork while the collector is in a call to CUPTI.
/// Promise: Parent and child continue, end in time and have exact trace files.
#[test]
fn a_fork_while_a_thread_is_in_cupti_for_us_disturbs_neither_side() {
    let nowhere = Fault { function: "-", error: 0, first: 0, last: 0 };
    let runs = CUPTI.iter().flat_map(|&(function, calls, _)| {
        calls.iter().map(move |call| {
            let fork = format!("fork={function}@{call}");
            (guest().env("STAGE2_SIM_FAULT", &fork), nowhere, fork)
        })
    });
    check(runs.collect());
}
