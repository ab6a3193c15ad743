//! Forks of the guest into children that neither hang nor record.
//!
//! While NVTX loads us, its own state is "being initialised", which a child that is forked then
//! keeps for ever: its first NVTX call would spin. So a fork waits until we have answered NVTX. What
//! is left is the moment before NVTX calls us.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::quiet::Uncancelled;
use crate::{clock, lifecycle, state};

/// The longest that a fork waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks.
const NAP: Duration = Duration::from_micros(100);
/// What NVTX is given to note our answer.
const AFTERWARDS: Duration = Duration::from_millis(5);

/// 1 in a page that the kernel clears in every child: `clone` and `_Fork` call no handler.
static MARK: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());

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

/// Notes which process this is. Called once, at start. Where the kernel cannot do that (before
/// 4.14), [`in_silent_child`] knows of none.
pub fn mark() {
    const BYTES: usize = 4096;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
    // SAFETY: a new page, which is either given back here or never.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), BYTES, access, kind, -1, 0);
        if page == libc::MAP_FAILED {
            return;
        }
        if libc::madvise(page, BYTES, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, BYTES);
            return;
        }
        let mark: *mut AtomicU8 = page.cast();
        (*mark).store(1, Ordering::Relaxed);
        MARK.store(mark, Ordering::Release);
    }
}

/// Whether this is a child of the process that was marked. Two loads.
pub fn in_silent_child() -> bool {
    let mark = MARK.load(Ordering::Acquire);
    // SAFETY: a page that stays mapped, in children as well.
    !mark.is_null() && unsafe { (*mark).load(Ordering::Relaxed) } == 0
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
