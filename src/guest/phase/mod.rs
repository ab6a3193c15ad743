//! The phase of the collector in this process, and who shuts what was started while it failed.

use crate::base::sync::{AtomicU8, Ordering, fence};

/// Where this process is in its life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// No door was opened yet.
    Idle = 0,
    /// Recording.
    On = 1,
    /// The process is ending; nothing new is recorded.
    Stopping = 2,
    /// Done.
    Ended = 3,
    /// In a child by `clone` or `_Fork`, which call no handler: off until it execs.
    Forked = 4,
    /// Nothing is recorded until a start is asked for. What a window recorded may still be on its way to
    /// its file.
    Dormant = 5,
}

/// Moves from phase to phase. Every move is made by one thread.
#[derive(Debug)]
pub(super) struct PhaseMachine(pub(super) AtomicU8);

impl PhaseMachine {
    pub(super) fn now(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Idle,
            1 => Phase::On,
            2 => Phase::Stopping,
            3 => Phase::Ended,
            5 => Phase::Dormant,
            _ => Phase::Forked,
        }
    }

    /// Moves from one phase to another; `false` where the phase was not `from`.
    pub(super) fn advance(&self, from: Phase, to: Phase) -> bool {
        let (from, to) = (from as u8, to as u8);
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Moves to a phase, whatever it was. For the only thread of a forked child, and for one that no
    /// handler has told of a fork.
    pub(super) fn set(&self, to: Phase) {
        self.0.store(to as u8, Ordering::Release);
    }

    /// Our thread failed, maybe before the start was over: nothing more is recorded. `shut` then finds
    /// what was started, unless the thread that starts it finds the phase ended.
    pub(super) fn fail(&self, shut: impl FnOnce()) {
        let _ = self.advance(Phase::Idle, Phase::Ended)
            || self.advance(Phase::On, Phase::Ended)
            || self.advance(Phase::Dormant, Phase::Ended);
        // Of this thread and one in `started` at least one sees what the other one has stored.
        fence(Ordering::SeqCst);
        shut();
    }

    /// Something was started and has been stored where `shut` finds it. If our thread failed meanwhile,
    /// it is shut here (maybe there as well), and the answer is `false`.
    pub(super) fn started(&self, shut: impl FnOnce()) -> bool {
        fence(Ordering::SeqCst);
        let goes_on = self.now() != Phase::Ended;
        if !goes_on {
            shut();
        }
        goes_on
    }
}

#[cfg(all(test, feature = "models"))]
mod models;
