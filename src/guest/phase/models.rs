//! The phases in every order of the threads that move them.

use loom::sync::Arc;

use super::*;
use crate::base::sync::{AtomicBool, AtomicUsize, beside, try_every_order};

fn idle() -> PhaseMachine {
    PhaseMachine(AtomicU8::new(Phase::Idle as u8))
}

/// Hazard (Threads, stacks and locks): Our thread fails while another thread starts the GPU half.
/// Promise: CUPTI does not stay on.
///
/// What `lifecycle::start_gpu` and `lifecycle::give_up` do.
#[test]
fn what_is_started_while_our_thread_fails_is_shut() {
    try_every_order("a start beside a failure", 5, || {
        let all = Arc::new((idle(), AtomicBool::new(false), AtomicBool::new(false)));
        let (phases, stored, shut) = &*all;
        assert!(phases.advance(Phase::Idle, Phase::On));
        let failing = beside(&all, |(phases, stored, shut)| {
            phases.fail(|| {
                if stored.load(Ordering::Acquire) {
                    shut.store(true, Ordering::Relaxed);
                }
            });
        });
        stored.store(true, Ordering::Release);
        phases.started(|| shut.store(true, Ordering::Relaxed));
        failing.join().expect("it does not panic");
        assert!(shut.load(Ordering::Relaxed), "CUPTI stays on, and nobody reads its records");
        assert_eq!(phases.now(), Phase::Ended);
    });
}

/// Hazard (Threads, stacks and locks): A start, a failure and an end at the same time.
/// Promise: They agree on the phase.
///
/// What `lifecycle::start`, `lifecycle::give_up` and `ends::finish` do.
#[test]
fn a_start_a_failure_and_an_end_agree_on_the_phase() {
    try_every_order("start, failure and end", 5, || {
        let all = Arc::new((idle(), AtomicUsize::new(0)));
        let (phases, begun) = &*all;
        let failing = beside(&all, |(phases, _)| phases.fail(|| ()));
        let ending = beside(&all, |(phases, begun)| {
            if phases.advance(Phase::On, Phase::Stopping) {
                begun.fetch_add(1, Ordering::Relaxed);
            }
        });
        let on = phases.advance(Phase::Idle, Phase::On);
        if on && phases.advance(Phase::On, Phase::Stopping) {
            begun.fetch_add(1, Ordering::Relaxed);
        }
        failing.join().expect("it does not panic");
        ending.join().expect("it does not panic");
        let begun = begun.load(Ordering::Relaxed);
        assert!(begun <= 1, "two threads wait for the end and both show the summary");
        let expected = if begun == 1 { Phase::Stopping } else { Phase::Ended };
        assert_eq!(phases.now(), expected);
        assert!(on || begun == 0, "what never began ends nothing");
    });
}
