//! How the process is about to end, from whoever ends it to our thread. Async-signal-safe except for the words.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use stage2_contract::trace::{ending, window};

use crate::base::futex::Turns;

/// What ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// `exit` or `_exit`.
    Exit,
    /// A signal with this number.
    Signal(i32),
    /// It becomes another program.
    Exec,
}

/// The end that comes, and the announcements of ends that may come.
#[derive(Debug, Default)]
pub struct Farewell {
    by: AtomicI32,
    /// Announcements; our thread says when one is in the file.
    pub(crate) turns: Turns,
}

impl Farewell {
    /// Notes what ends the process.
    pub fn note(&self, by: EndedBy) {
        let by = match by {
            EndedBy::Exit => 0,
            EndedBy::Signal(signal) => signal,
            EndedBy::Exec => -1,
        };
        self.by.store(by, Ordering::Release);
    }

    /// Has our thread record everything, and that the process ends like this: it may still go on. `false`
    /// where that took longer than `patience`.
    pub fn announce(&self, by: EndedBy, patience: Duration, wake: impl FnOnce()) -> bool {
        self.note(by);
        let turn = self.turns.ask();
        wake();
        self.turns.wait(turn, patience)
    }

    /// What ends the process, as the trace file has it. Allocates.
    pub fn words(&self) -> String {
        match self.by.load(Ordering::Acquire) {
            0 => window::EXIT.to_owned(),
            signal @ 1.. => ending::of_signal(signal),
            _ => ending::EXEC.to_owned(),
        }
    }
}
