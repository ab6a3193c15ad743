//! The switch in every order of threads that open and close wanted ranges.

use loom::sync::Arc;

use super::*;
use crate::base::sync::{beside, try_every_order};

/// The switch, and whether collection is on as CUPTI sees it.
#[derive(Default)]
struct Seen(CollectionSwitch, AtomicBool);

/// A thread with some wanted ranges, one after the other. `patient`: it never waits too long.
fn ranges(seen: &Seen, count: usize, patient: bool) {
    let turn = |on: bool| seen.1.store(on, Ordering::Relaxed);
    for _ in 0..count {
        let entered = seen.0.enter(turn);
        assert!(entered || !patient, "the other thread switches on and on");
        let on = seen.1.load(Ordering::Relaxed);
        assert!(on || !entered, "a launch in a wanted range is not recorded");
        seen.0.exit(turn);
    }
}

fn with_threads(name: &str, preemptions: usize, counts: &'static [usize]) {
    let patient = counts.len() == 2;
    try_every_order(name, preemptions, move || {
        let seen = Arc::new(Seen::default());
        let others: Vec<_> = counts[1..]
            .iter()
            .map(|&count| beside(&seen, move |seen| ranges(seen, count, patient)))
            .collect();
        ranges(&seen, counts[0], patient);
        for other in others {
            other.join().expect("it does not panic");
        }
        assert!(!seen.1.load(Ordering::Relaxed), "collection stays on, and launches pay for it");
        assert!(!seen.0.is_open());
    });
}

#[test]
fn collection_is_on_within_every_range_of_two_threads_and_off_at_the_end() {
    with_threads("two threads, two ranges each", 2, &[2, 2]);
}

/// Hazard (Threads, stacks and locks): Threads open and close wanted ranges in any order.
/// Promise: Collection is on inside and off at the end.
#[test]
fn collection_is_on_within_every_range_of_three_threads_and_off_at_the_end() {
    with_threads("three threads, a range each", 2, &[1, 1, 1]);
}

/// Hazard (Threads, stacks and locks): Two threads end one start/end range.
/// Promise: It lets go of collection once.
#[test]
fn a_started_range_that_two_threads_end_ends_once() {
    try_every_order("one range, ended by two threads", 5, || {
        let started = Arc::new(StartedRanges((0..2).map(|_| AtomicU64::new(0)).collect()));
        assert!(started.remember(3));
        let other = beside(&started, |started| started.forget(3));
        let here = started.forget(3);
        assert!(here != other.join().expect("it does not panic"), "it lets go twice, or never");
    });
}

#[test]
fn of_too_many_switches_the_loss_is_told() {
    try_every_order("a switch too many", 5, || {
        let switches = Arc::new(Switches { waiting: Queue::new(1), overrun: AtomicU64::new(0) });
        let other = beside(&switches, |switches| {
            switches.note(true, GpuNs(1));
            switches.note(false, GpuNs(2));
        });
        let mut taken = usize::from(switches.waiting.receive().is_some());
        other.join().expect("it does not panic");
        taken += usize::from(switches.waiting.receive().is_some());
        assert_eq!(taken == 2, switches.take_overrun().is_none(), "{taken} of 2 arrived");
    });
}
