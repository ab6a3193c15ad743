//! Openings and closings of wanted ranges into switching collection on and off.
//!
//! Used only with `STAGE2_RANGES` and `STAGE2_SAMPLE`. Threads only count; the one that finds the switch
//! in the wrong position turns it. A thread that opens a range waits until collection is on, for a
//! bounded time, because its next call may be a launch. Nobody waits for collection to go off.

use std::time::Duration;

use stage2_contract::trace::GpuNs;

use crate::base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, Spinning};
use crate::guest::queue::Queue;

/// The longest that a thread waits for another one to finish switching. One switch takes about 10 us, 2 ms
/// at worst; on a loaded machine its thread can be without a processor for several time slices as well.
const PATIENCE: Duration = Duration::from_millis(20);

/// Start/end ranges that may hold collection on at a time and still end it when they end.
const STARTED: usize = 1 << 12;
/// Places at which one of them is looked for.
const WINDOW: usize = 32;

/// Moments of switching that wait for the drain thread.
pub const WAITING: usize = 1 << 13;

/// The switch.
#[derive(Debug, Default)]
pub struct CollectionSwitch {
    open: AtomicU32,
    on: AtomicBool,
    turning: AtomicBool,
    turns: AtomicU64,
    /// One more than the turns there were when a thread lost its patience; 0 if none did.
    hopeless: AtomicU64,
}

impl CollectionSwitch {
    /// A wanted range opens: `switch(true)` has been called when this returns. `false` where
    /// another thread took longer than [`PATIENCE`] over it. Nobody waits for that turn again: one that
    /// never ends costs the guest this time once, not at each of its ranges.
    pub fn enter(&self, switch: impl Fn(bool)) -> bool {
        self.open.fetch_add(1, Ordering::SeqCst);
        let mut waiting = Spinning::default();
        while !self.settle(&switch) {
            let turn = self.turns() + 1;
            if self.hopeless.load(Ordering::Relaxed) == turn {
                return false;
            }
            if !waiting.goes_on(PATIENCE) {
                self.hopeless.store(turn, Ordering::Relaxed);
                return false;
            }
        }
        true
    }

    /// A wanted range closes; with the last one `switch(false)` is called, here or by the thread
    /// that is just switching.
    pub fn exit(&self, switch: impl Fn(bool)) {
        let count = |open: u32| open.checked_sub(1);
        // Below 0 every range to come would switch collection off.
        if self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count).is_ok() {
            self.settle(&switch);
        }
    }

    /// No range is open, and collection is off: for the start of a window, while nothing is recorded.
    pub fn reset(&self) {
        self.open.store(0, Ordering::SeqCst);
        self.on.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Which turn collection is on since. `None` while it is off, or being switched.
    pub fn on_since(&self) -> Option<u64> {
        let on = self.on.load(Ordering::SeqCst) && !self.turning.load(Ordering::SeqCst);
        on.then(|| self.turns())
    }

    /// Turns the switch until it fits. `false`: another thread is turning it.
    fn settle(&self, switch: &impl Fn(bool)) -> bool {
        loop {
            if self.fits() && !self.turning.load(Ordering::SeqCst) {
                return true;
            }
            if self.turning.swap(true, Ordering::SeqCst) {
                return false;
            }
            while !self.fits() {
                let on = self.is_open();
                switch(on);
                self.on.store(on, Ordering::SeqCst);
                self.turns.fetch_add(1, Ordering::Relaxed);
            }
            // A thread that counted meanwhile and found us turning relies on the next round. (A swap,
            // because loom does not keep the order of swaps and stores.)
            self.turning.swap(false, Ordering::SeqCst);
        }
    }

    fn fits(&self) -> bool {
        self.on.load(Ordering::SeqCst) == self.is_open()
    }
}

/// The ids of the start/end ranges that hold collection on, so that each lets go of it once,
/// whatever ids the guest ends and how often. Neither allocates nor waits.
#[derive(Debug)]
pub struct StartedRanges(Box<[AtomicU64]>);

impl StartedRanges {
    /// None is open. `restricted`: there will be some. Allocates; called once, at start.
    pub fn new(restricted: bool) -> Self {
        let places = if restricted { STARTED } else { 0 };
        StartedRanges((0..places).map(|_| AtomicU64::new(0)).collect())
    }

    /// Remembers a range. `false` where there is no room: then collection stays on when it ends.
    pub fn remember(&self, id: u64) -> bool {
        self.replace(id, 0, id)
    }

    /// Whether a range was remembered; it is no longer.
    pub fn forget(&self, id: u64) -> bool {
        id != 0 && self.replace(id, id, 0)
    }

    /// Forgets all of them, for the start of a window.
    pub fn reset(&self) {
        self.0.iter().for_each(|place| place.store(0, Ordering::Release));
    }

    fn replace(&self, id: u64, from: u64, to: u64) -> bool {
        // Ids grow by two, so neighbours in time are neighbours here.
        let first = (id >> 1) as usize;
        (0..WINDOW.min(self.0.len())).any(|step| {
            self.0.get(first.wrapping_add(step) % self.0.len()).is_some_and(|place| {
                place.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            })
        })
    }
}

/// The moments at which collection was switched, on their way to our own thread from guest threads,
/// which neither wait nor allocate.
pub struct Switches {
    /// Whether collection went on, and when, the oldest first.
    pub(crate) waiting: Queue<(bool, GpuNs)>,
    /// The last one that found no room: its time, doubled, and one more where it was on. 0: all found some.
    overrun: AtomicU64,
}

impl Switches {
    /// No switch yet. `restricted`: there will be some. Allocates; called once, at start.
    pub fn new(restricted: bool) -> Self {
        Switches {
            waiting: Queue::new(if restricted { WAITING } else { 1 }),
            overrun: AtomicU64::new(0),
        }
    }

    /// Collection is about to be switched. Of those that find no room the last one is kept.
    pub fn note(&self, on: bool, at: GpuNs) {
        if self.waiting.send((on, at)).is_err() {
            self.overrun.store(at.0 << 1 | u64::from(on), Ordering::Release);
        }
    }

    /// The last one that found no room since the last call, if there was one. Others between it and those
    /// that were noted before are forgotten.
    pub fn take_overrun(&self) -> Option<(bool, GpuNs)> {
        let last = self.overrun.swap(0, Ordering::AcqRel);
        (last != 0).then_some((last & 1 == 1, GpuNs(last >> 1)))
    }
}

#[cfg(all(test, feature = "models"))]
mod models;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_and_the_last_range_switch_and_a_closing_too_many_changes_nothing() {
        let collection = CollectionSwitch::default();
        let calls = std::cell::RefCell::new(Vec::new());
        let switch = |on: bool| calls.borrow_mut().push(on);
        collection.exit(switch);
        assert!(collection.enter(switch) && collection.enter(switch));
        collection.exit(switch);
        assert_eq!(*calls.borrow(), [true]);
        collection.exit(switch);
        assert_eq!((calls.take(), collection.turns()), (vec![true, false], 2));
    }

    /// Hazard (Versions, libraries and rivals): CUPTI never comes back from switching collection.
    /// Promise: Threads that open ranges wait for 20 ms once, not at each range.
    #[test]
    fn a_turn_that_does_not_end_is_waited_for_once() {
        let collection = CollectionSwitch::default();
        let (turning, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let slow = |_: bool| {
            turning.store(true, Ordering::SeqCst);
            while !over.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        };
        let waited = || {
            let began = std::time::Instant::now();
            (collection.enter(|_| ()), began.elapsed())
        };
        std::thread::scope(|scope| {
            scope.spawn(|| collection.enter(slow));
            while !turning.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let tries: Vec<_> = (0..100).map(|_| waited()).collect();
            over.store(true, Ordering::SeqCst); // First, or a failure below would wait for the other thread.
            assert!(!tries.iter().any(|(entered, _)| *entered), "another thread is switching");
            assert!(tries[0].1 >= PATIENCE, "{tries:?}");
            let others: Duration = tries[1..].iter().map(|(_, waited)| *waited).sum();
            assert!(others < PATIENCE * 20, "{tries:?}");
        });
        assert!(collection.enter(|_| ()), "the turn is over");
    }

    #[test]
    fn a_started_range_is_ended_once_and_others_not_at_all() {
        let started = StartedRanges::new(true);
        let ids = || (0..STARTED as u64).map(|number| number << 1 | 1);
        assert!(ids().all(|id| started.remember(id)));
        assert!(!started.remember(STARTED as u64 * 2 + 7), "there is no room");
        assert!(!started.forget(u64::MAX) && !started.forget(0));
        assert!(ids().all(|id| started.forget(id)));
        assert!(!ids().any(|id| started.forget(id)));
        assert!(!StartedRanges::new(false).remember(1) && !StartedRanges::new(false).forget(1));
    }

    #[test]
    fn collection_is_on_inside_and_off_at_the_end_whatever_the_threads_do() {
        let (collection, on) = (CollectionSwitch::default(), AtomicBool::new(false));
        let switch = |to: bool| on.store(to, Ordering::SeqCst);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        // On one core a waiting thread may run out of patience; it says so then.
                        let entered = collection.enter(switch);
                        assert!(!entered || on.load(Ordering::SeqCst));
                        collection.exit(switch);
                    }
                });
            }
        });
        assert!(!on.load(Ordering::SeqCst));
    }
}
