//! `execve` and its kind: the trace file is brought up to date before another program takes the place of this
//! one. Where there is none, this one goes on, and so does its recording.
//!
//! Each function has the contract of the C library's function of its name, and is async-signal-safe where that
//! one is.

use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;

use super::{Real, announce, is_recorded, keeping_errno, not_there};
use crate::guest::farewell::EndedBy;

type Words = *const *const c_char;

unsafe extern "C" {
    /// POSIX.
    static mut environ: Words;
}

/// Goes on in the C library's own function; where there is none, the call fails with `ENOSYS`.
macro_rules! go_on {
    ($real:ident: fn($($type:ty),*), $($argument:ident),*) => {{
        type Function = unsafe extern "C" fn($($type),*) -> c_int;
        let real = Real::$real.address();
        if real.is_null() {
            return not_there();
        }
        // SAFETY: the function has this type; the caller's contract.
        unsafe { transmute::<*mut c_void, Function>(real)($($argument),*) }
    }};
}

/// A program is about to take the place of this one; `path`: its file, or null where that is not known yet.
fn before(path: *const c_char) {
    if !is_recorded() {
        return;
    }
    keeping_errno(|| {
        // Whoever searches a list of folders tries many files that are not there.
        // SAFETY: the path is what the caller gives to the kernel, which checks it.
        let there = path.is_null()
            || unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path, libc::X_OK) } == 0;
        if there {
            announce(EndedBy::Exec);
        }
    });
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn execve(path: *const c_char, argv: Words, envp: Words) -> c_int {
    before(path);
    // SAFETY: the caller's contract.
    unsafe { libc::syscall(libc::SYS_execve, path, argv, envp) as c_int }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn execv(path: *const c_char, argv: Words) -> c_int {
    // SAFETY: the caller's contract; the variable is read as the C library's own function does.
    unsafe { execve(path, argv, environ) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    argv: Words,
    envp: Words,
    flags: c_int,
) -> c_int {
    before(std::ptr::null());
    // SAFETY: the caller's contract.
    unsafe { libc::syscall(libc::SYS_execveat, folder, path, argv, envp, flags) as c_int }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn fexecve(file: c_int, argv: Words, envp: Words) -> c_int {
    before(std::ptr::null());
    go_on!(Fexecve: fn(c_int, Words, Words), file, argv, envp)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn execvp(file: *const c_char, argv: Words) -> c_int {
    before(std::ptr::null());
    go_on!(Execvp: fn(*const c_char, Words), file, argv)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn execvpe(file: *const c_char, argv: Words, envp: Words) -> c_int {
    before(std::ptr::null());
    go_on!(Execvpe: fn(*const c_char, Words, Words), file, argv, envp)
}

/// What the functions with any number of arguments do first: tells where the C library's own is.
fn before_list(path: *const c_char, real: Real) -> *const c_void {
    before(path);
    match real.address() {
        found if found.is_null() => not_there as *const c_void,
        found => found,
    }
}

extern "C" fn before_execl(path: *const c_char) -> *const c_void {
    before_list(path, Real::Execl)
}

extern "C" fn before_execlp(_file: *const c_char) -> *const c_void {
    before_list(std::ptr::null(), Real::Execlp)
}

extern "C" fn before_execle(path: *const c_char) -> *const c_void {
    before_list(path, Real::Execle)
}

/// A function of any arguments, which Rust cannot take: calls `$before` with the first one, and goes on in
/// what that returns as if that had been called.
macro_rules! goes_on {
    ($name:ident, $before:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[cfg(target_arch = "x86_64")]
        pub(super) unsafe extern "C" fn $name() {
            // The registers with arguments, and rax (how many of them are in vector registers) are kept.
            std::arch::naked_asm!(
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "call {before}",
                "mov r11, rax",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp r11",
                before = sym $before,
            )
        }

        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[cfg(target_arch = "aarch64")]
        pub(super) unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "bl {before}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldp x29, x30, [sp], #80",
                "br x16",
                before = sym $before,
            )
        }
    };
}

goes_on!(execl, before_execl);
goes_on!(execlp, before_execlp);
goes_on!(execle, before_execle);
