//! Which process of a tree of forks this is: what one process records is a generation.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};

use crate::base::pages::{self, PAGE_BYTES};

/// How many forks led from the process that loaded us to this one.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// How often threads had to begin again with their ranges: at a fork, and at each window but the first.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// Ranges may be open that were opened while nothing was recorded.
static UNSEEN: AtomicBool = AtomicBool::new(false);

/// 1 in a page that the kernel clears in every child: `clone` and `_Fork` call no handler.
static MARK: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());

/// How many forks led from the process that loaded us to this one.
#[inline]
pub fn number() -> u32 {
    NUMBER.load(Ordering::Relaxed)
}

/// Begins a new generation: the only thread of a forked child calls it.
pub fn begin() {
    NUMBER.fetch_add(1, Ordering::Relaxed);
    EPOCH.fetch_add(1, Ordering::Relaxed);
}

#[inline]
pub(crate) fn epoch() -> u32 {
    EPOCH.load(Ordering::Acquire)
}

/// Has threads begin again, for a further window: ranges may be open of which nothing was seen.
pub fn begin_epoch() {
    UNSEEN.store(true, Ordering::Relaxed);
    EPOCH.fetch_add(1, Ordering::Release);
}

/// Whether ranges may be open that nobody saw open: what closes them is not taken for a mistake.
pub fn ranges_unseen() -> bool {
    UNSEEN.load(Ordering::Relaxed)
}

fn mark() -> Option<&'static AtomicU8> {
    // SAFETY: null, or a page that stays mapped.
    unsafe { MARK.load(Ordering::Acquire).as_ref() }
}

/// Marks this process. Called at start. Where the kernel cannot clear a page (before 4.14),
/// [`in_silent_child`] knows of none.
pub fn mark_process() {
    if mark().is_some() {
        // A forked child: the handler has done it.
        return;
    }
    let Some(page) = pages::map(PAGE_BYTES, libc::MAP_PRIVATE) else { return };
    // SAFETY: a new page, which is given back here, or stays mapped for the life of the process and
    // of its children, where the kernel clears it.
    unsafe {
        if libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, PAGE_BYTES);
            return;
        }
    }
    MARK.store(page.cast(), Ordering::Release);
    mark_again();
}

/// Marks a forked child, if its parent was marked. Neither locks nor allocates.
pub fn mark_again() {
    if let Some(mark) = mark() {
        mark.store(1, Ordering::Relaxed);
    }
}

/// Whether this is a child of the marked process that was made without a fork handler. Two loads.
pub fn in_silent_child() -> bool {
    mark().is_some_and(|mark| mark.load(Ordering::Relaxed) == 0)
}

/// The calling thread, as the kernel numbers it.
pub(crate) fn thread_id() -> i64 {
    // SAFETY: no preconditions. Not through libc's function, which older ones do not have.
    unsafe { libc::syscall(libc::SYS_gettid) }
}
