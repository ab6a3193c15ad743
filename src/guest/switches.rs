//! The moments at which collection was switched, on their way from guest threads to our own.

use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam::queue::ArrayQueue;
use stage2_spool::GpuNs;

/// Switches that wait for the drain thread.
pub const WAITING: usize = 1 << 13;

/// Switches on their way from guest threads, which neither wait nor allocate.
pub struct Switches {
    waiting: ArrayQueue<(bool, GpuNs)>,
    /// Some were forgotten.
    overrun: AtomicBool,
}

impl Switches {
    /// No switch yet. `restricted`: there will be some. Allocates; called once, at start.
    pub fn new(restricted: bool) -> Self {
        let waiting = ArrayQueue::new(if restricted { WAITING } else { 1 });
        Switches { waiting, overrun: AtomicBool::new(false) }
    }

    /// Collection is about to be switched. Of too many the oldest are forgotten.
    pub fn note(&self, on: bool, at: GpuNs) {
        if self.waiting.force_push((on, at)).is_some() {
            self.overrun.store(true, Ordering::Release);
        }
    }

    /// Whether some were forgotten since the last call.
    pub fn take_overrun(&self) -> bool {
        self.overrun.swap(false, Ordering::AcqRel)
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the oldest one: whether collection went on, and when.
    pub fn take(&self) -> Option<(bool, GpuNs)> {
        self.waiting.pop()
    }
}
