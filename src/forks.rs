//! Forks of the guest into children that neither hang nor record.
//!
//! While NVTX loads us, its own state is "being initialised", which a child that is forked then
//! keeps for ever: its first NVTX call would spin. So a fork waits until we have answered NVTX. What
//! is left is the moment before NVTX calls us.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::quiet::Uncancelled;
use crate::{clock, lifecycle, state};

/// The longest that a fork waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks.
const NAP: Duration = Duration::from_micros(100);
/// What NVTX is given to note our answer.
const AFTERWARDS: Duration = Duration::from_millis(5);

/// Threads whose NVTX call waits for our answer.
static ANSWERING: AtomicU32 = AtomicU32::new(0);
/// When the last one got it, ns of the monotonic clock; 0 for never.
static ANSWERED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread is one of them: it must not wait for itself.
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// Has forks of the guest pass by here. Called once, when the library is loaded: before a fork
/// could be under way that misses it.
pub fn watch() {
    // SAFETY: the handlers hold no lock, and the one in the child only stores atomics. Without
    // memory for them forks are as they were.
    unsafe { libc::pthread_atfork(Some(before), None, Some(in_child)) };
}

/// Runs `answer`, for which NVTX waits. Forks wait as well.
pub fn held_off<T>(answer: impl FnOnce() -> T) -> T {
    let set = |here| HERE.try_with(|cell| cell.replace(here)).unwrap_or(true);
    let outer = set(true);
    ANSWERING.fetch_add(1, Ordering::SeqCst);
    let answer = answer();
    ANSWERED.store(clock::mono().0, Ordering::SeqCst);
    ANSWERING.fetch_sub(1, Ordering::SeqCst);
    set(outer);
    answer
}

extern "C" fn before() {
    if HERE.try_with(Cell::get).unwrap_or(true) {
        return;
    }
    let _uncancelled = Uncancelled::new();
    let start = clock::mono();
    while ANSWERING.load(Ordering::SeqCst) > 0
        && u128::from(clock::mono().since(start)) < PATIENCE.as_nanos()
    {
        std::thread::sleep(NAP);
    }
    let answered = ANSWERED.load(Ordering::SeqCst);
    let passed = Duration::from_nanos(clock::mono().0.saturating_sub(answered));
    if answered > 0 && passed < AFTERWARDS {
        std::thread::sleep(AFTERWARDS - passed);
    }
}

extern "C" fn in_child() {
    ANSWERING.store(0, Ordering::SeqCst);
    // A child of a process that has not met us may meet us itself.
    if state::shared().is_some() || lifecycle::is_starting() {
        state::forked();
    }
}
