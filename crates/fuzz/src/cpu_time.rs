//! The CPU time of this process: other programs on a busy machine do not make an input slow.

use std::time::Duration;

/// CPU time of all threads so far.
#[allow(unsafe_code, reason = "the standard library has no clock of CPU time")]
pub fn of_process() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time`, which is there.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "every Linux has the clock of a process");
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
