//! `raise`, `kill` and their kind, and `abort`: whoever ends itself by a signal ends in order, and whoever
//! ends another recorded process has it write its trace file first.
//!
//! Each function has the contract of the C library's function of its name, is async-signal-safe, and leaves
//! `errno` as that one would.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use super::{
    AT_ONCE_PATIENCE, Real, announce, announce_within, finish_at_once, keeping_errno, others,
};
use crate::base::ancestry::own_pid;
use crate::base::futex::Deadline;
use crate::base::signal_mask;
use crate::guest::farewell::EndedBy;

fn own_thread() -> libc::pid_t {
    // SAFETY: no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// This process is about to send itself a signal; `here`: to the calling thread, if to any.
fn before_own(signal: c_int, here: bool) {
    before_own_until(signal, here, Deadline::after(AT_ONCE_PATIENCE));
}

fn before_own_until(signal: c_int, here: bool, deadline: Deadline) {
    if !signal_mask::ends_process(signal) {
        return;
    }
    keeping_errno(|| {
        // The first process of a container gets no signal that would end it; a thread may wait for one that
        // it puts off.
        let comes = here && own_pid() != 1 && !signal_mask::is_blocked(signal);
        let by = EndedBy::Signal(signal);
        if comes { finish_at_once(by) } else { announce_within(by, deadline.left()) }
    });
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn raise(signal: c_int) -> c_int {
    before_own(signal, true);
    // SAFETY: sends what the caller wants sent.
    unsafe { libc::syscall(libc::SYS_tgkill, own_pid(), own_thread(), signal) as c_int }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn kill(pid: libc::pid_t, signal: c_int) -> c_int {
    if pid == own_pid() {
        before_own(signal, true);
    } else {
        // The longest that the signal is held back, for all processes that it goes to.
        let deadline = Deadline::after(AT_ONCE_PATIENCE);
        keeping_errno(|| others::ask(pid, signal, deadline));
        // SAFETY: no preconditions.
        if pid == 0 || pid < -1 && pid.checked_neg() == Some(unsafe { libc::getpgrp() }) {
            before_own_until(signal, false, deadline);
        }
    }
    // SAFETY: sends what the caller wants sent.
    unsafe { libc::syscall(libc::SYS_kill, pid, signal) as c_int }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn killpg(group: libc::pid_t, signal: c_int) -> c_int {
    if group < 0 {
        // SAFETY: the place is this thread's.
        unsafe { *libc::__errno_location() = libc::EINVAL };
        return -1;
    }
    kill(-group, signal)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn tgkill(pid: libc::pid_t, thread: libc::pid_t, signal: c_int) -> c_int {
    if pid == own_pid() {
        before_own(signal, thread == own_thread());
    }
    // SAFETY: sends what the caller wants sent.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, signal) as c_int }
}

/// The thread has not ended.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pthread_kill(thread: libc::pthread_t, signal: c_int) -> c_int {
    // SAFETY: no preconditions.
    before_own(signal, thread == unsafe { libc::pthread_self() });
    let real = Real::PthreadKill.address();
    if real.is_null() {
        return libc::ENOSYS;
    }
    type Function = unsafe extern "C" fn(libc::pthread_t, c_int) -> c_int;
    // SAFETY: the function has this type; the caller's contract.
    unsafe { transmute::<*mut c_void, Function>(real)(thread, signal) }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn sigqueue(pid: libc::pid_t, signal: c_int, value: *mut c_void) -> c_int {
    if pid == own_pid() {
        before_own(signal, true);
    } else {
        keeping_errno(|| others::ask(pid, signal, Deadline::after(AT_ONCE_PATIENCE)));
    }
    let real = Real::Sigqueue.address();
    if real.is_null() {
        return super::not_there();
    }
    type Function = extern "C" fn(libc::pid_t, c_int, *mut c_void) -> c_int;
    // SAFETY: the function has this type: a union of the size of a pointer is passed as one.
    unsafe { transmute::<*mut c_void, Function>(real)(pid, signal, value) }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn abort() -> ! {
    let by = EndedBy::Signal(libc::SIGABRT);
    // Where the signal is ignored or put off it comes nevertheless; a handler may go elsewhere.
    let handled = signal_mask::is_handled(libc::SIGABRT);
    if handled {
        announce(by)
    } else {
        finish_at_once(by)
    }
    let real = Real::Abort.address();
    if !real.is_null() {
        // SAFETY: the function has this type.
        unsafe { transmute::<*mut c_void, extern "C" fn() -> !>(real)() }
    }
    loop {
        // SAFETY: ends the process, which is what is left to do.
        unsafe { libc::syscall(libc::SYS_exit_group, 127) };
    }
}
