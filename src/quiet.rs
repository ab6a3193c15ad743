//! A thread of the guest that runs our code into one that does not notice: signals, cancellation.

use std::ffi::c_int;
use std::io;

unsafe extern "C" {
    /// POSIX; the `libc` crate lacks it for Linux.
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
const CANCEL_DISABLE: c_int = 1;

/// While it lives, a `pthread_cancel` of this thread stays pending: acted upon inside our code, it
/// would unwind through frames that stop panics, and glibc ends the process then.
pub struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    /// From now on.
    pub fn new() -> Self {
        let mut before = 0;
        // SAFETY: the place is valid. The call cannot fail for this state.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
        Uncancelled { before }
    }
}

impl Default for Uncancelled {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut ours = 0;
        // SAFETY: the state came from the same call; the place is valid.
        unsafe { pthread_setcancelstate(self.before, &raw mut ours) };
    }
}

/// Signals that this thread does not get while it lives.
pub struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    /// All signals, for threads that are started meanwhile.
    pub fn all() -> Self {
        // SAFETY: the set is initialised by the call that it is passed to.
        Self::add(unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            all
        })
    }

    /// What was blocked before.
    pub fn before(&self) -> libc::sigset_t {
        self.before
    }

    fn add(set: libc::sigset_t) -> Self {
        // SAFETY: both sets are initialised: the first by the caller, the second by the call.
        unsafe {
            let mut before = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            Blocked { before }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        set_blocked(&self.before);
    }
}

/// Blocks these signals on this thread, and no others.
pub fn set_blocked(signals: &libc::sigset_t) {
    // SAFETY: the set is initialised; the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, signals, std::ptr::null_mut()) };
}

/// Runs `write`. Where it finds a pipe that nobody reads, the signal that would kill the guest for
/// it is taken back.
pub fn without_sigpipe<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // SAFETY: both sets are initialised by the calls that they are passed to.
    let (pipe, pending) = unsafe {
        let (mut pipe, mut pending) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        libc::sigpending(&raw mut pending);
        (pipe, pending)
    };
    // SAFETY: the set is initialised.
    let guests = unsafe { libc::sigismember(&raw const pending, libc::SIGPIPE) } == 1;
    let _blocked = Blocked::add(pipe);
    let result = write();
    if !guests && result.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: set and time are initialised; the signal's details are not asked for.
        unsafe { libc::sigtimedwait(&raw const pipe, std::ptr::null_mut(), &raw const now) };
    }
    result
}
