//! Readings on their way from threads of the guest to the thread that samples, in every order.

use loom::sync::Arc;

use super::*;
use crate::base::sync::{UnsafeCell, beside, try_every_order};

/// The only slot of a model, and a cell that only the holder of the slot may touch.
type Shared = (CallStacks, UnsafeCell<()>);

/// A thread of the guest reads its frames at the end of each of `calls`. Returns how many readings it stored.
fn guest((stacks, hand): &Shared, thread: u32, calls: u64) -> usize {
    let fill = |call: &u64| {
        stacks.fill_slot(|slot| {
            hand.with_mut(|_| {
                slot.frames[0].0.store(u64::from(thread), Ordering::Relaxed);
                slot.frames[0].1.store(*call, Ordering::Relaxed);
                slot.describe(thread, MonoNs(*call), 1)
            })
        })
    };
    (1..=calls).filter(fill).count()
}

/// The thread that samples takes a reading, which has to be whole.
fn take((stacks, hand): &Shared, seen: &mut Vec<(u32, u64)>) {
    let Some(found) = stacks.empty_slot(|slot| hand.with(|_| slot.reading())) else { return };
    let of_call = (u64::from(found.thread), found.begin.0);
    assert_eq!(found.frames, Frames::Python(vec![of_call]), "frames of another call");
    seen.push((found.thread, found.begin.0));
}

/// Hazard (Threads, stacks and locks): Two threads store their frames while the sampling thread takes them.
/// Promise: Each reading is that of one call and is taken once, and no stored reading is lost.
#[test]
fn a_reading_is_whole_and_taken_once() {
    try_every_order("two that read their frames, one that takes them", 4, || {
        let shared = Arc::new(Shared::default());
        let guests: Vec<_> = [(1, 2), (2, 1)]
            .map(|(thread, calls)| beside(&shared, move |all| guest(all, thread, calls)))
            .into();
        let mut seen = Vec::new();
        (0..2).for_each(|_| take(&shared, &mut seen));
        let left: usize = guests.into_iter().map(|guest| guest.join().expect("no panic")).sum();
        take(&shared, &mut seen);
        assert_eq!(seen.len(), left);
        seen.sort_unstable();
        assert!(seen.windows(2).all(|two| two[0] != two[1]), "{seen:?}");
    });
}

/// Hazard (Threads, stacks and locks): The sampling thread puts another thread in the place of one that ended, while
///  threads look up their state.
/// Promise: A thread that is listed finds its own state. One that has ended finds its own, none, or that of the other
///  thread, which it rejects.
#[test]
fn a_thread_that_is_met_finds_its_own_state() {
    try_every_order("threads that come and go, two that look", 5, || {
        let stacks = Arc::new(CallStacks::default());
        stacks.tell_threads([(7, Some(70))].into_iter());
        let [ended, met] = [7, 8].map(|tid| beside(&stacks, move |stacks| stacks.state_of(tid)));
        stacks.tell_threads([(8, Some(80))].into_iter());
        let ended = ended.join().expect("no panic");
        assert!([None, Some(70), Some(80)].contains(&ended), "{ended:?}");
        let met = met.join().expect("no panic");
        assert!([None, Some(80)].contains(&met), "{met:?}");
        assert_eq!(stacks.state_of(8), Some(80));
    });
}
