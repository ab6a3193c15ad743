//! Openings and closings of wanted ranges into switching collection on and off.
//!
//! Used only with `STAGE2_RANGES` and `STAGE2_SAMPLE`. Threads only count; whoever finds the switch in the wrong
//! position turns it. A thread that opens a range waits until collection is on, for a bounded
//! time, because its next call may be a launch; nobody waits for it to go off.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest that a thread waits for another one to finish switching (one switch takes about
/// 10 us, 2 ms at worst).
const PATIENCE: Duration = Duration::from_millis(5);

/// The switch.
#[derive(Debug, Default)]
pub struct Gate {
    open: AtomicU32,
    on: AtomicBool,
    turning: AtomicBool,
    turns: AtomicU64,
}

impl Gate {
    /// A wanted range opens: `switch(true)` has been called when this returns. `false` where
    /// another thread took longer than [`PATIENCE`] over it.
    pub fn enter(&self, switch: impl Fn(bool)) -> bool {
        self.open.fetch_add(1, Ordering::SeqCst);
        let mut waiting_since = None;
        while !self.settle(&switch) {
            let since = *waiting_since.get_or_insert_with(Instant::now);
            if since.elapsed() > PATIENCE {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }

    /// A wanted range closes; with the last one `switch(false)` is called, here or by the thread
    /// that is just switching.
    pub fn exit(&self, switch: impl Fn(bool)) {
        self.open.fetch_sub(1, Ordering::SeqCst);
        self.settle(&switch);
    }

    /// Whether a wanted range is open.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }

    /// How often the switch was turned.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
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
            // Whoever counted since and found us turning relies on the next round.
            self.turning.store(false, Ordering::SeqCst);
        }
    }

    fn fits(&self) -> bool {
        self.on.load(Ordering::SeqCst) == self.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_and_the_last_range_switch() {
        let (gate, calls) = (Gate::default(), AtomicU32::new(0));
        let switch = |_: bool| {
            calls.fetch_add(1, Ordering::SeqCst);
        };
        gate.enter(switch);
        gate.enter(switch);
        gate.exit(switch);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        gate.exit(switch);
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        assert_eq!(gate.turns(), 2);
    }

    #[test]
    fn collection_is_on_inside_and_off_at_the_end_whatever_the_threads_do() {
        let (gate, on) = (Gate::default(), AtomicBool::new(false));
        let switch = |to: bool| on.store(to, Ordering::SeqCst);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        // On one core a waiting thread may run out of patience; it says so then.
                        let entered = gate.enter(switch);
                        assert!(!entered || on.load(Ordering::SeqCst));
                        gate.exit(switch);
                    }
                });
            }
        });
        assert!(!on.load(Ordering::SeqCst));
    }
}
