//! Waits that end in time, whatever signals arrive meanwhile: flags, bells, naps and a lock on the futex.
//!
//! `std::thread::sleep` starts again after each signal, so with signals more often than its timer
//! fires it never returns. `std::thread::park_timeout` ends the process where the clock cannot be read.
//! Every wait here has an absolute deadline, and looks at the clock after each wake-up. Without a clock
//! nothing waits. The futex takes times of the kernel's clock, so that is the one which is read: a library
//! that fakes the C library's clocks would have us wait for ever.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::base::clock;

/// Something that happens once. Setting it and waiting for it are async-signal-safe.
#[derive(Debug, Default)]
pub struct Flag(AtomicU32);

impl Flag {
    /// Has happened.
    pub fn set(&self) {
        self.0.store(1, Ordering::Release);
        // SAFETY: the word is alive; without a waiter the call does nothing.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), wake(), i32::MAX) };
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Waits until it has happened. `false` where that took longer than `patience`.
    pub fn wait(&self, patience: Duration) -> bool {
        let deadline = Deadline::after(patience);
        while !self.is_set() {
            if deadline.is_over() {
                return false;
            }
            deadline.sleep_while(&self.0, 0);
        }
        true
    }
}

/// Wakes one thread, which waits for nothing else. Ringing is async-signal-safe, and a system call only
/// where that thread sleeps.
#[derive(Debug, Default)]
pub struct Bell(AtomicU32);

impl Bell {
    const SILENT: u32 = 0;
    const RUNG: u32 = 1;
    const SLEEPER: u32 = 2;

    /// Ends the wait of now, or else the next one at once.
    pub fn ring(&self) {
        if self.0.swap(Self::RUNG, Ordering::AcqRel) == Self::SLEEPER {
            // SAFETY: as in `Flag::set`.
            unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), wake(), 1) };
        }
    }

    /// Waits until it rings, for `patience` at the longest. May return earlier.
    pub fn wait(&self, patience: Duration) {
        let (silent, sleeper) = (Self::SILENT, Self::SLEEPER);
        let order = (Ordering::Acquire, Ordering::Acquire);
        if self.0.compare_exchange(silent, sleeper, order.0, order.1).is_ok() {
            Deadline::after(patience).sleep_while(&self.0, sleeper);
        }
        // The caller looks at everything after this, so no ring is lost.
        self.0.swap(silent, Ordering::AcqRel);
    }
}

/// Something that one thread does as often as others ask for it, once for all that ask meanwhile. Asking and
/// waiting are async-signal-safe.
#[derive(Debug, Default)]
pub struct Turns {
    asked: AtomicU32,
    done: AtomicU32,
}

impl Turns {
    /// Asks for it. What [`Turns::wait`] waits for.
    pub fn ask(&self) -> u32 {
        self.asked.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// What was asked for and is not done; [`Turns::done`] takes it.
    pub fn pending(&self) -> Option<u32> {
        let asked = self.asked.load(Ordering::Acquire);
        (asked != self.done.load(Ordering::Acquire)).then_some(asked)
    }

    /// All up to this turn is done.
    pub fn done(&self, turn: u32) {
        self.done.store(turn, Ordering::Release);
        // SAFETY: as in `Flag::set`.
        unsafe { libc::syscall(libc::SYS_futex, self.done.as_ptr(), wake(), i32::MAX) };
    }

    /// Waits until a turn is done. `false` where that took longer than `patience`.
    pub fn wait(&self, turn: u32, patience: Duration) -> bool {
        let deadline = Deadline::after(patience);
        loop {
            let done = self.done.load(Ordering::Acquire);
            // The count wraps.
            if done.wrapping_sub(turn) as i32 >= 0 {
                return true;
            }
            if deadline.is_over() {
                return false;
            }
            deadline.sleep_while(&self.done, done);
        }
    }
}

/// Gives up the processor for `time`, or until a signal arrives: for loops that look at a clock.
pub fn nap(time: Duration) {
    Deadline::after(time).sleep_while(&AtomicU32::new(0), 0);
}

/// A lock that nobody waits for without end, and that a forked child can take from a thread that
/// only the parent has.
#[derive(Debug, Default)]
pub struct Lock(AtomicU32);

/// Holds a [`Lock`] until dropped.
#[derive(Debug)]
pub struct LockGuard<'a>(&'a Lock);

impl Lock {
    const FREE: u32 = 0;
    const TAKEN: u32 = 1;

    /// A free lock.
    pub const fn new() -> Self {
        Lock(AtomicU32::new(Self::FREE))
    }

    /// Takes the lock. `None` where that is not possible within `patience`.
    pub fn take(&self, patience: Duration) -> Option<LockGuard<'_>> {
        let deadline = Deadline::after(patience);
        loop {
            let (free, taken) = (Self::FREE, Self::TAKEN);
            if self.0.compare_exchange(free, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(LockGuard(self));
            }
            if deadline.is_over() {
                return None;
            }
            deadline.sleep_while(&self.0, Self::TAKEN);
        }
    }

    /// Frees the lock, whoever holds it. For the only thread of a forked child.
    pub fn break_open(&self) {
        self.0.store(Self::FREE, Ordering::Release);
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(Lock::FREE, Ordering::Release);
        // SAFETY: as in `Flag::set`.
        unsafe { libc::syscall(libc::SYS_futex, self.0.0.as_ptr(), wake(), 1) };
    }
}

/// A point in time of the monotonic clock. Where the clock cannot be read, it has passed.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<libc::timespec>);

impl Deadline {
    pub(crate) fn after(patience: Duration) -> Self {
        Deadline(clock::of_the_kernel().map(|mut at| {
            let ns = at.tv_nsec + libc::c_long::from(patience.subsec_nanos() as i32);
            at.tv_sec += patience.as_secs() as libc::time_t + ns / 1_000_000_000;
            at.tv_nsec = ns % 1_000_000_000;
            at
        }))
    }

    /// How long until then; nothing once it has passed.
    pub(crate) fn left(&self) -> Duration {
        let now = clock::of_the_kernel();
        let left = self.0.zip(now).map(|(at, now)| clock::since(&at, &now));
        left.unwrap_or_default()
    }

    fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Sleeps until the deadline, a signal, or a wake-up, while the word has the value.
    fn sleep_while(&self, word: &AtomicU32, value: u32) {
        let Some(at) = &self.0 else { return };
        let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
        let none = ptr::null::<u32>();
        // SAFETY: the word and the time are alive during the call. Whatever it returns, the caller
        // looks at the word and the clock again.
        unsafe {
            let at = ptr::from_ref(at);
            let any = libc::FUTEX_BITSET_MATCH_ANY;
            libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, at, none, any);
        }
    }
}

fn wake() -> libc::c_int {
    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_flag_is_waited_for_until_it_is_set_or_time_is_over() {
        let flag = Flag::default();
        let started = Instant::now();
        assert!(!flag.wait(Duration::from_millis(20)));
        assert!(started.elapsed() >= Duration::from_millis(20));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                nap(Duration::from_millis(20));
                flag.set();
            });
            assert!(flag.wait(Duration::from_secs(60)) && flag.is_set());
        });
        assert!(started.elapsed() < Duration::from_secs(30), "woken, not timed out");
    }

    #[test]
    fn a_bell_wakes_its_thread_also_where_it_rang_before_the_wait() {
        let bell = Bell::default();
        let started = Instant::now();
        bell.ring();
        bell.wait(Duration::from_secs(60));
        bell.wait(Duration::from_millis(20));
        assert!(started.elapsed() >= Duration::from_millis(20), "each ring ends one wait");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                nap(Duration::from_millis(20));
                bell.ring();
            });
            bell.wait(Duration::from_secs(60));
        });
        assert!(started.elapsed() < Duration::from_secs(30), "woken, not timed out");
    }

    #[test]
    fn one_turn_serves_all_who_asked_before_it_and_nobody_who_asks_later() {
        let turns = Turns::default();
        assert_eq!(turns.pending(), None);
        let (first, second) = (turns.ask(), turns.ask());
        assert!(!turns.wait(first, Duration::from_millis(5)));
        std::thread::scope(|scope| {
            scope.spawn(|| turns.done(turns.pending().expect("asked")));
            assert!(
                turns.wait(first, Duration::from_secs(60)) && turns.wait(second, Duration::ZERO)
            );
        });
        let third = turns.ask();
        assert_eq!((turns.wait(third, Duration::ZERO), turns.pending()), (false, Some(third)));
    }

    /// Hazard (Calls that fail): The clock cannot be read.
    /// Promise: The collector reports it and stays off; no wait lasts forever.
    #[test]
    fn without_a_clock_nothing_waits() {
        let never = Deadline(None);
        never.sleep_while(&AtomicU32::new(0), 0);
        assert!(never.is_over());
    }

    #[test]
    fn a_lock_is_held_by_one_at_a_time_and_given_up_in_time() {
        let lock = Lock::new();
        let held = lock.take(Duration::ZERO).expect("free");
        assert!(lock.take(Duration::from_millis(5)).is_none());
        drop(held);
        let _left_behind = std::mem::ManuallyDrop::new(lock.take(Duration::ZERO).expect("free"));
        lock.break_open();
        assert!(lock.take(Duration::ZERO).is_some());
    }
}
