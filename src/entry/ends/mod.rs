//! Ends the trace file at every end of the process: exit handlers, `quick_exit`, `_exit`, `_Exit`, signals
//! that it sends to itself or that a preloaded process sends to it, and execs.
//!
//! The latter run no handlers, and workers of Python's `multiprocessing` and of prefork servers end by
//! them. So this library has functions of those names, which the preloaded one puts before the C
//! library's. They are async-signal-safe.

mod execs;
mod interpreter;
mod others;
mod signals;

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use crate::base::ancestry::{self, Notice};
use crate::base::signal_mask::CancellationBlock;
use crate::base::{barrier, diag};
use crate::control;
use crate::guest::farewell::EndedBy;
use crate::guest::state::{self, EndStep, Phase, Shared};

/// The longest that `exit` is held up.
const EXIT_PATIENCE: Duration = Duration::from_secs(5);
/// The longest that `_exit`, a signal or an exec is held up.
const AT_ONCE_PATIENCE: Duration = Duration::from_millis(200);

/// Has other recorded processes asked before they are sent a signal: this process is none that we leave alone.
pub fn ask_others() {
    others::begin();
}

/// Has us finish at `exit` and `quick_exit`. Handlers that were registered later run before ours. A Python
/// interpreter may have to be left alone by then.
pub fn watch() {
    interpreter::watch();
    // What glibc's `at_quick_exit` is made of: see `forks::watch`.
    type Register = unsafe extern "C" fn(extern "C" fn(), *mut c_void) -> c_int;
    // SAFETY: the symbol has this type in every glibc. The handler may run at any time and more than
    // once, and stays, as this library does, which the null says.
    unsafe {
        libc::atexit(at_exit);
        let register = libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_at_quick_exit".as_ptr());
        if !register.is_null() {
            std::mem::transmute::<*mut c_void, Register>(register)(at_exit, std::ptr::null_mut());
        }
    }
}

extern "C" fn at_exit() {
    barrier::catch((), finish);
}

/// Ends the process as the C library's function of that name, after the trace file was ended.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    finish_at_once(EndedBy::Exit);
    loop {
        // SAFETY: ends the process, as the caller wants.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// As [`_exit`].
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

/// Tells the drain thread to finish. `true`: nobody had told it before. Neither waits nor allocates.
fn begin(shared: &Shared) -> bool {
    let first = state::advance(Phase::On, Phase::Stopping)
        || state::advance(Phase::Dormant, Phase::Stopping);
    if first {
        shared.stop.store(true, Ordering::Release);
        shared.wake_drain();
    }
    first
}

/// Whether this process is the one that is recorded. A child by `vfork` has its parent's memory, and
/// one by `clone` a copy that no handler has renewed.
fn is_process_of(shared: &Shared) -> bool {
    u32::try_from(ancestry::own_pid()) == Ok(shared.pid)
}

/// Whether this process is recorded now, and the calling thread may wait for our thread: not inside a
/// handler of ours, which may run in a callback of CUPTI's, whose locks this thread holds.
fn is_recorded() -> bool {
    state::phase() == Phase::On
        && state::shared().is_some_and(is_process_of)
        && !barrier::is_inside()
}

/// Has the trace file brought up to date, within a short time, for an end that may still fail to come.
fn announce(by: EndedBy) {
    announce_within(by, AT_ONCE_PATIENCE);
}

fn announce_within(by: EndedBy, patience: Duration) {
    if let Some(shared) = state::shared().filter(|_| is_recorded()) {
        // What is late is missing, and the file then tells of no end.
        shared.farewell.announce(by, patience, || shared.wake_drain());
    }
}

/// What `body` does to `errno` is not for the caller.
fn keeping_errno(body: impl FnOnce()) {
    // SAFETY: the place is this thread's.
    unsafe {
        let place = libc::__errno_location();
        let before = *place;
        body();
        *place = before;
    }
}

/// The C library has no such function.
extern "C" fn not_there() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

/// Gives the drain thread a short time to take in what there is and end the trace file. Does nothing
/// inside a handler of ours: it may run in a callback of CUPTI's, whose locks this thread holds.
fn finish_at_once(by: EndedBy) {
    control::remove();
    let Some(shared) = state::shared().filter(|shared| is_process_of(shared)) else { return };
    let ends_itself = shared.ends_itself.load(Ordering::Acquire);
    if !ends_itself && !matches!(state::phase(), Phase::On | Phase::Stopping | Phase::Dormant) {
        return;
    }
    if barrier::is_inside() {
        return;
    }
    shared.farewell.note(by);
    begin(shared);
    if shared.done.wait(AT_ONCE_PATIENCE) {
        return;
    }
    let doing = match shared.end_step.load(Ordering::Relaxed) {
        step if step == EndStep::Records as u8 && shared.gpu().is_some() => {
            "CUPTI was still handing over records"
        }
        step if step == EndStep::Summary as u8 => return, // The trace file is whole.
        _ => "its trace file was still being written",
    };
    // A prefork server may have hundreds of such children.
    if ancestry::is_first_to_say(Notice::EndedEarly) {
        let (pid, ms) = (shared.pid, AT_ONCE_PATIENCE.as_millis());
        let ended = match by {
            EndedBy::Signal(_) => "ended by a signal that it sent itself",
            EndedBy::Exit | EndedBy::Exec => "called _exit",
        };
        diag::warn_at_once(format_args!(
            "process {pid} {ended} while {doing} (waited {ms} ms): the end of its trace file may \
             be missing; end it with exit() to wait longer (reported once for a process and its forks)"
        ));
    }
}

/// Finishes: takes in what CUPTI still holds, ends the trace file, shows the summary. Bounded.
fn finish() {
    let _uncancelled = CancellationBlock::default();
    control::remove();
    let Some(shared) = state::shared() else { return };
    // Another process has no thread that would finish, and its parent might read what it stored.
    if !is_process_of(shared) {
        return;
    }
    if matches!(state::phase(), Phase::On | Phase::Dormant) {
        // An end that was announced may have failed to come.
        shared.farewell.note(EndedBy::Exit);
        // A callback of CUPTI's holds its locks.
        if !barrier::is_inside() {
            shared.flush_at_exit();
        }
    }
    // The handler runs more than once, and waits once.
    if !begin(shared) && !shared.ends_itself.swap(false, Ordering::AcqRel) {
        return;
    }
    if shared.done.wait(EXIT_PATIENCE) {
        state::advance(Phase::Stopping, Phase::Ended);
        return;
    }
    let (what, left) = match shared.end_step.load(Ordering::Relaxed) {
        step if step == EndStep::Records as u8 => (
            "CUPTI",
            "the last records and the summary are missing; the trace file holds everything up to \
             its last flush",
        ),
        step if step == EndStep::File as u8 => (
            "the trace file",
            "its end and the summary are missing; is the disk slow, or STAGE2_OUT far away?",
        ),
        _ => ("the summary", "the trace file is whole"),
    };
    // The driver takes itself down from here on: no thread of the guest reports to us any more.
    state::advance(Phase::Stopping, Phase::Ended);
    let seconds = EXIT_PATIENCE.as_secs();
    diag::warn(format_args!("{what} did not finish within {seconds} s: {left}"));
}

macro_rules! real_functions {
    ($($real:ident $name:literal,)+) => {
        /// The functions of the C library that are called on, each at its place in [`READY`].
        #[derive(Clone, Copy)]
        enum Real {
            $($real,)+
        }
        const NAMES: &[&CStr] = &[$($name,)+];
        const REALS: &[Real] = &[$(Real::$real,)+];
    };
}

real_functions! {
    Abort c"abort",
    PthreadKill c"pthread_kill",
    Sigqueue c"sigqueue",
    Execvp c"execvp",
    Execvpe c"execvpe",
    Fexecve c"fexecve",
    Execl c"execl",
    Execlp c"execlp",
    Execle c"execle",
}

/// Those that were looked up; null: not yet, or there is none.
static READY: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];

impl Real {
    /// Its address; null where the C library has no such function. Async-signal-safe once [`prepare`] was called.
    fn address(self) -> *mut c_void {
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

/// Looks up the functions of the C library that ours stand before: a signal handler of the guest's may not.
/// To be called in the constructor.
pub fn prepare() {
    for real in REALS {
        real.address();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::options;

    /// Hazard (Ends of life): The guest ends in a callback of CUPTI's, whose locks its thread
    ///  holds.
    /// Promise: The collector requests nothing and waits for no thread.
    #[test]
    fn an_end_in_a_callback_of_cuptis_asks_for_nothing_and_waits_for_nobody() {
        let body = || {
            let shared = state::share(Shared::new(options::from_env()))?;
            state::advance(Phase::Idle, Phase::On).then_some(())?;
            barrier::callback((), || finish_at_once(EndedBy::Exit));
            let inside = shared.stop.load(Ordering::Relaxed);
            finish_at_once(EndedBy::Exit);
            Some((inside, shared.stop.load(Ordering::Relaxed)) == (false, true))
        };
        // SAFETY: the child, which alone has such a state, does this and ends.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                _exit(if body() == Some(true) { 7 } else { 1 });
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            status
        };
        assert_eq!(libc::WEXITSTATUS(status), 7);
    }
}
