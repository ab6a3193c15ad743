//! The clocks of the machine into readings that say which clock they come from.

use std::time::Duration;

use stage2_contract::trace::{Anchor, GpuNs, MonoNs, WallNs};

/// Reads `CLOCK_MONOTONIC`.
pub fn mono() -> MonoNs {
    MonoNs(ns(libc::CLOCK_MONOTONIC))
}

/// Reads `CLOCK_REALTIME`.
pub fn wall() -> WallNs {
    WallNs(ns(libc::CLOCK_REALTIME))
}

/// Reads all clocks together. `gpu` reads CUPTI's clock, where there is one.
///
/// The monotonic clock is read before and after, and the middle is kept: the error of the set is
/// half the time that the readings took.
pub fn anchor(gpu: impl FnOnce() -> Option<GpuNs>) -> Anchor {
    let before = mono();
    let gpu = gpu().unwrap_or_default();
    let wall = wall();
    let after = mono();
    Anchor { gpu, mono: MonoNs(before.0 + after.since(before) / 2), wall }
}

pub(crate) fn thread_cpu() -> Duration {
    Duration::from_nanos(ns(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Whether the clocks that time ranges can be read: a filter of the guest's may forbid it.
pub fn can_be_read() -> bool {
    [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME].into_iter().all(|clock| read(clock).is_some())
}

/// Reads a clock. `None` where the system refuses. Async-signal-safe.
pub(super) fn read(clock: libc::clockid_t) -> Option<libc::timespec> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then_some(time)
}

/// Reads the monotonic clock as the kernel has it: a preloaded library may fake the C library's. Takes a
/// system call, which the one above does not. `None` where the system refuses. Async-signal-safe.
pub(super) fn of_the_kernel() -> Option<libc::timespec> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let (read, clock) = (libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC);
    // SAFETY: `time` is a valid place for the result.
    let result = unsafe { libc::syscall(read, clock, &raw mut time) };
    (result == 0).then_some(time)
}

/// A moment of the kernel's monotonic clock: whatever waits or keeps a pace goes by it, because one of the C
/// library that stands still would have it wait for ever. Where the clock cannot be read, it is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// This moment.
    pub fn now() -> Self {
        Instant(of_the_kernel().map_or(Duration::ZERO, |time| of(&time)))
    }

    pub(crate) fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }

    /// Since an earlier one; nothing where it is not the later one.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Instant(self.0.saturating_add(time))
    }
}

fn of(time: &libc::timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// From one reading of a clock to another; nothing where it is not the later one.
pub(super) fn since(later: &libc::timespec, earlier: &libc::timespec) -> Duration {
    of(later).saturating_sub(of(earlier))
}

/// 0 where the clock cannot be read.
fn ns(clock: libc::clockid_t) -> u64 {
    read(clock).map_or(0, |time| {
        (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
    })
}
