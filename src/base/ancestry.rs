//! What this process knows of those that it was forked from, and what one process of a tree says for
//! all of them.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};

use crate::base::pages::{self, PAGE_BYTES};

/// What one process says for the whole tree.
#[derive(Clone, Copy, Debug)]
pub enum Notice {
    /// What children lack that were forked after CUDA was initialised.
    AfterCuda = 0,
    /// A trace file may lack its end.
    EndedEarly = 1,
}

/// A page of all processes of the tree, with a byte for each [`Notice`]: 1 once one has given it.
static NOTICES: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());

/// This process, and the one that forked it; 0 where this one came by an exec.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static PARENT: AtomicU32 = AtomicU32::new(0);

/// This process was forked after CUDA was initialised.
static AFTER_CUDA: AtomicBool = AtomicBool::new(false);

/// Notes which process this is, and maps the page of notices. Called once, in the constructor.
pub fn begin() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    if let Some(page) = pages::map(PAGE_BYTES, libc::MAP_SHARED) {
        NOTICES.store(page.cast(), Ordering::Release);
    }
}

/// Notes that this process was forked just now. Neither locks nor allocates.
pub fn note_fork(after_cuda: bool) {
    AFTER_CUDA.fetch_or(after_cuda, Ordering::Relaxed);
    let parent = PROCESS.swap(std::process::id(), Ordering::Relaxed);
    PARENT.store(parent, Ordering::Relaxed);
}

/// The number of this process, of the kernel itself: the C library's own function once remembered it, also in
/// children that have their parent's memory. Async-signal-safe.
pub(crate) fn own_pid() -> libc::pid_t {
    // SAFETY: no preconditions.
    unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t }
}

/// The process that forked this one, where there was no exec since.
pub fn parent() -> Option<u32> {
    Some(PARENT.load(Ordering::Relaxed)).filter(|&pid| pid != 0)
}

/// Whether this process was forked after CUDA was initialised, and so cannot use it.
pub fn is_after_cuda() -> bool {
    AFTER_CUDA.load(Ordering::Relaxed)
}

/// Whether this is the first call with `notice` in the tree of forked processes.
pub fn is_first_to_say(notice: Notice) -> bool {
    let notices = NOTICES.load(Ordering::Acquire);
    // SAFETY: a page that stays mapped, in children as well, and is longer than that.
    notices.is_null() || unsafe { (*notices.add(notice as usize)).swap(1, Ordering::Relaxed) } == 0
}
