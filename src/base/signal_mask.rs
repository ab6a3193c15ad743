//! Keeps signals and cancellation away from a guest thread while it runs our code.

use std::ffi::c_int;
use std::io;

use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
use libc::{SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH};

unsafe extern "C" {
    /// POSIX; the `libc` crate lacks it for Linux.
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
const CANCEL_DISABLE: c_int = 1;

/// While it lives, a `pthread_cancel` of this thread stays pending: acted upon inside our code, it
/// would unwind through frames that stop panics, and glibc ends the process then.
pub struct CancellationBlock {
    before: c_int,
}

impl Default for CancellationBlock {
    fn default() -> Self {
        let mut before = 0;
        // SAFETY: the place is valid. The call cannot fail for this state.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
        CancellationBlock { before }
    }
}

impl Drop for CancellationBlock {
    fn drop(&mut self) {
        let mut ours = 0;
        // SAFETY: the state came from the same call; the place is valid.
        unsafe { pthread_setcancelstate(self.before, &raw mut ours) };
    }
}

/// Signals that a thread is given for what it does itself, not for what happens to the process.
/// Blocked, they would end the process, even where it has handlers for them.
const SYNCHRONOUS: [c_int; 6] = [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS];

/// Signals that this thread does not get while it lives.
pub struct SignalBlock {
    before: libc::sigset_t,
}

impl SignalBlock {
    /// All that others send. Threads that are started meanwhile never get any: signals are the
    /// guest's business.
    pub fn all() -> Self {
        // SAFETY: the set is initialised by the call that it is passed to first.
        Self::add(unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            for signal in SYNCHRONOUS {
                libc::sigdelset(&raw mut all, signal);
            }
            all
        })
    }

    fn add(set: libc::sigset_t) -> Self {
        // SAFETY: both sets are initialised: the first by the caller, the second by the call.
        unsafe {
            let mut before = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            SignalBlock { before }
        }
    }
}

impl Drop for SignalBlock {
    fn drop(&mut self) {
        // SAFETY: the set came from the same call.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

/// Signals that do nothing, or stop a process, unless an action was chosen.
const HARMLESS: [c_int; 8] =
    [SIGCHLD, SIGCONT, SIGURG, SIGWINCH, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU];

/// Whether a signal ends the process that gets it: it would by default, and no other action was
/// chosen. Async-signal-safe.
pub fn ends_process(signal: c_int) -> bool {
    let known = (1..=64).contains(&signal) && !HARMLESS.contains(&signal);
    known && action(signal) == Some(libc::SIG_DFL)
}

/// Whether the program handles a signal. Async-signal-safe.
pub fn is_handled(signal: c_int) -> bool {
    action(signal).is_some_and(|action| ![libc::SIG_DFL, libc::SIG_IGN].contains(&action))
}

fn action(signal: c_int) -> Option<libc::sighandler_t> {
    // SAFETY: the place is valid, and is read where the call succeeded.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let asked = libc::sigaction(signal, std::ptr::null(), &raw mut now);
        (asked == 0).then_some(now.sa_sigaction)
    }
}

/// Whether this thread puts a signal off. Async-signal-safe.
pub fn is_blocked(signal: c_int) -> bool {
    // SAFETY: the set is initialised by the first call.
    unsafe {
        let mut now = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now) == 0
            && libc::sigismember(&raw const now, signal) == 1
    }
}

/// The set of these signals.
fn set_of(signals: &[c_int]) -> libc::sigset_t {
    // SAFETY: the set is initialised by the first call that it is passed to.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// Lets this thread get the signals that ask a process to end: no other one is left to get them.
pub fn unblock_termination_signals() {
    let set = set_of(&[libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM]);
    // SAFETY: the set is initialised; the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
}

/// The signals that answer a write, with the error that comes with each: a pipe that nothing reads, a file
/// that has reached the limit of the process.
const OF_WRITES: [(c_int, c_int); 2] = [(libc::SIGPIPE, libc::EPIPE), (libc::SIGXFSZ, libc::EFBIG)];

/// Runs `write`. The signal that would kill the guest for where we write is taken back.
pub fn without_signals<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // SAFETY: the set is initialised by the call that it is passed to.
    let pending = unsafe {
        let mut pending = std::mem::zeroed();
        libc::sigpending(&raw mut pending);
        pending
    };
    let _blocked = SignalBlock::add(set_of(&OF_WRITES.map(|(signal, _)| signal)));
    let result = write();
    let error = result.as_ref().err().and_then(io::Error::raw_os_error);
    if let Some((signal, _)) = OF_WRITES.into_iter().find(|&(_, cause)| Some(cause) == error) {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: sets and time are initialised; the signal's details are not asked for.
        unsafe {
            // One that was pending before is the guest's.
            if libc::sigismember(&raw const pending, signal) == 0 {
                let ours = set_of(&[signal]);
                libc::sigtimedwait(&raw const ours, std::ptr::null_mut(), &raw const now);
            }
        }
    }
    result
}
