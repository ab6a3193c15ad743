//! The C library's own functions, which ours of the same names stand before.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The functions that are called on, each at its place in [`READY`].
#[derive(Clone, Copy)]
pub(super) enum Real {
    Abort,
    PthreadKill,
    Sigqueue,
    Execvp,
    Execvpe,
    Fexecve,
    Execl,
    Execlp,
    Execle,
}

const NAMES: [&CStr; 9] = [
    c"abort",
    c"pthread_kill",
    c"sigqueue",
    c"execvp",
    c"execvpe",
    c"fexecve",
    c"execl",
    c"execlp",
    c"execle",
];

/// Those that were looked up; null: not yet, or there is none.
static READY: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];

impl Real {
    /// Its address; null where the C library has no such function. Async-signal-safe once [`prepare`] was
    /// called.
    pub(super) fn address(self) -> *mut c_void {
        let (place, name) = (&READY[self as usize], NAMES[self as usize]);
        let known = place.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        // SAFETY: looks up what comes behind this library, or the program that it is linked into.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        place.store(found, Ordering::Release);
        found
    }
}

/// Looks all of them up: a signal handler of the guest's may not.
pub(super) fn prepare() {
    use Real::{Abort, Execl, Execle, Execlp, Execvp, Execvpe, Fexecve, PthreadKill, Sigqueue};
    for real in [Abort, PthreadKill, Sigqueue, Execvp, Execvpe, Fexecve, Execl, Execlp, Execle] {
        real.address();
    }
}
