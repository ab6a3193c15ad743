//! Runs a closure on our own stack, for guest threads with little stack left.
//!
//! A start reads the environment, resolves paths and makes a thread: more than the smallest stack
//! that a thread may have (16 KiB) holds in addition to what the guest does on it.

use std::ffi::c_void;

use crate::base::{barrier, pages};

/// The stack, without its guard: ten times what a start needs.
const STACK_BYTES: usize = 256 << 10;
/// Below the stack: what overflows faults, and hits nothing of the guest's.
const GUARD_BYTES: usize = 4096;
/// Zeros above the first frame, by which a stack walker finds the end.
const END_BYTES: usize = 4096;

/// Runs `body` on our own stack; on the thread's own stack where there is no memory for one. A
/// panic becomes `fallback`.
pub fn on_own<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    let mut job = Job { body: Some(body), result: None };
    let place: *mut c_void = (&raw mut job).cast();
    match Stack::new() {
        // SAFETY: `job` is of the type that the function was made for and outlives the call; the
        // stack is ours, and the function leaves it by returning only.
        Some(stack) => unsafe { call_on(stack.top(), run_of(&job), place) },
        None => run_of(&job)(place),
    }
    job.result.unwrap_or(fallback)
}

struct Job<F, T> {
    body: Option<F>,
    result: Option<T>,
}

type Run = extern "C" fn(*mut c_void);

fn run_of<F: FnOnce() -> T, T>(_: &Job<F, T>) -> Run {
    run::<F, T>
}

extern "C" fn run<F: FnOnce() -> T, T>(job: *mut c_void) {
    // SAFETY: `on_own` passes its own job, which nobody else touches meanwhile.
    let job = unsafe { &mut *job.cast::<Job<F, T>>() };
    if let Some(body) = job.body.take() {
        job.result = barrier::catch(None, || Some(body()));
    }
}

/// A mapping, unmapped when dropped.
struct Stack {
    start: *mut c_void,
}

impl Stack {
    const ALL_BYTES: usize = GUARD_BYTES + STACK_BYTES + END_BYTES;

    fn new() -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE | libc::MAP_STACK;
        let stack = Stack { start: pages::map(Self::ALL_BYTES, flags)? };
        // SAFETY: the lowest page of a new mapping of ours.
        let guarded = unsafe { libc::mprotect(stack.start, GUARD_BYTES, libc::PROT_NONE) == 0 };
        guarded.then_some(stack)
    }

    fn top(&self) -> *mut c_void {
        self.start.wrapping_byte_add(GUARD_BYTES + STACK_BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing runs on it any more.
        unsafe { libc::munmap(self.start, Self::ALL_BYTES) };
    }
}

/// Calls `run(job)` with the stack pointer at `top`.
///
/// # Safety
/// `top` is the end of memory that is a stack's size, aligned to 16 bytes; `run` returns and does
/// not unwind.
#[cfg(target_arch = "x86_64")]
unsafe fn call_on(top: *mut c_void, run: Run, job: *mut c_void) {
    // SAFETY: the callee preserves r12, which keeps the stack pointer; everything else that it may
    // change is declared.
    unsafe {
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {run}",
            "mov rsp, r12",
            top = in(reg) top,
            run = in(reg) run,
            in("rdi") job,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}

#[cfg(target_arch = "aarch64")]
unsafe fn call_on(top: *mut c_void, run: Run, job: *mut c_void) {
    // SAFETY: the callee preserves x20, which keeps the stack pointer; everything else that it may
    // change is declared.
    unsafe {
        std::arch::asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {run}",
            "mov sp, x20",
            top = in(reg) top,
            run = in(reg) run,
            in("x0") job,
            out("x20") _,
            clobber_abi("C"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the stack is now.
    #[inline(never)]
    fn here() -> usize {
        let local = 0u8;
        std::hint::black_box(&raw const local) as usize
    }

    #[test]
    fn the_body_runs_elsewhere_and_its_result_comes_back() {
        let text = "borrowed".to_owned();
        let (length, there) = on_own((0, 0), || (text.len(), here()));
        assert_eq!(length, 8);
        assert!(here().abs_diff(there) > STACK_BYTES, "{} {there}", here());
    }

    #[test]
    fn a_panic_becomes_the_fallback_and_large_frames_fit() {
        assert_eq!(on_own(7, || panic!("on a stack of our own")), 7);
        let large = || std::hint::black_box(&[1u8; STACK_BYTES / 2])[9];
        assert_eq!(on_own(0, large), 1);
    }
}
