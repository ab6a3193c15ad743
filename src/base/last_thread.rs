//! The main thread's end, seen from our own thread: whether only threads of ours are left.
//!
//! A process lives until its last thread ends. When `main` ends by `pthread_exit`, ours must not keep
//! it alive, and it gets no signal that could tell. [`Watch`] opens no file: guests may count on the
//! numbers of descriptors that they have just closed.

use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::futex;

/// Between two looks, of some microseconds each.
const PERIOD: Duration = Duration::from_millis(200);
/// Links of a directory without entries; each thread is one more.
const OWN_LINKS: u64 = 2;
/// Threads of CUPTI's and the driver's that are kept, more than were ever seen.
const MAX_HELPERS: usize = 64;
/// Signals 32 and 33, which only the C library itself can block: it does so for the moment in which
/// it makes or ends a thread.
const WITHIN_LIBC: u64 = 3 << 31;
/// How often a start looks again because of that, [`MASK_STEP`] apart.
const MASK_STEPS: u32 = 20;
const MASK_STEP: Duration = Duration::from_millis(1);

/// Threads of CUPTI's and the driver's, which appeared while CUPTI was being started.
#[derive(Debug, Default)]
pub struct Helpers(OnceLock<Vec<PathBuf>>);

impl Helpers {
    /// Runs `start`, and notes the threads that it started. The caller has all signals blocked
    /// ([`crate::base::signal_mask::SignalBlock::all`]). Such a thread inherits that, which sets it
    /// apart from those that the guest starts at the same time.
    pub fn note<T>(&self, start: impl FnOnce() -> T) -> T {
        let before = tasks();
        let started = start();
        let inherited = blocked_by(Path::new("/proc/thread-self")).unwrap_or(u64::MAX);
        let mut steps = MASK_STEPS;
        let mut inherits = |task: &PathBuf| {
            settled_mask(task, &mut steps).is_some_and(|blocked| inherited & !blocked == 0)
        };
        let new = tasks().into_iter().filter(|task| !before.contains(task) && inherits(task));
        // A second start of CUPTI in a process does not happen.
        let _ = self.0.set(new.take(MAX_HELPERS).collect());
        started
    }

    /// How many of them live.
    pub fn alive(&self) -> u64 {
        let helpers = self.0.get().map(Vec::as_slice).unwrap_or_default();
        helpers.iter().filter(|task| links(task).is_some()).count() as u64
    }
}

/// The signals that a thread blocks itself; `steps`: how often may be looked again.
fn settled_mask(task: &Path, steps: &mut u32) -> Option<u64> {
    loop {
        let blocked = blocked_by(task)?;
        if blocked & WITHIN_LIBC == 0 {
            return Some(blocked);
        }
        *steps = steps.checked_sub(1)?;
        futex::nap(MASK_STEP);
    }
}

/// Whether the main thread puts this signal off; `false` where that is not known.
pub fn blocks_in_main_thread(signal: libc::c_int) -> bool {
    let bit = u32::try_from(signal - 1).ok().and_then(|bit| 1u64.checked_shl(bit));
    bit.zip(blocked_by(Path::new("/proc/self"))).is_some_and(|(bit, blocked)| blocked & bit != 0)
}

/// The signals that a thread blocks now: bit 0 is signal 1.
fn blocked_by(task: &Path) -> Option<u64> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    u64::from_str_radix(blocked.trim(), 16).ok()
}

/// Looks now and then whether the guest has no thread left.
pub struct Watch<'a> {
    helpers: &'a Helpers,
    next: Instant,
}

impl<'a> Watch<'a> {
    /// For the calling thread, which is ours.
    pub fn new(helpers: &'a Helpers) -> Self {
        Watch { helpers, next: Instant::now() + PERIOD }
    }

    /// Whether the main thread has ended and no other thread of the guest is left. Mostly one look
    /// at a clock. `own`: threads of ours besides this one.
    pub fn is_alone(&mut self, own: u64) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now + PERIOD;
        // The main thread counts until the process is over, and so does this one.
        has_main_ended()
            && links(Path::new("/proc/self/task"))
                .is_some_and(|links| links <= OWN_LINKS + 2 + own + self.helpers.alive())
    }
}

/// A thread that has ended has no program any more, and `self` is the main thread. It is not looked
/// up by its number: `/proc` may be that of another PID namespace. Without `/proc` nothing is known.
fn has_main_ended() -> bool {
    !has_program(c"/proc/self/exe") && has_program(c"/proc/thread-self/exe")
}

fn has_program(link: &CStr) -> bool {
    let mut some: [u8; 8] = [0; 8];
    // SAFETY: the path ends in NUL; at most as many bytes are written as there are.
    unsafe { libc::readlink(link.as_ptr(), some.as_mut_ptr().cast(), some.len()) > 0 }
}

/// Links of a directory; `None` where it is not there.
fn links(folder: &Path) -> Option<u64> {
    fs::metadata(folder).ok().map(|folder| folder.nlink())
}

fn tasks() -> Vec<PathBuf> {
    let folder = fs::read_dir("/proc/self/task");
    folder.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::futex::Flag;
    use crate::base::signal_mask::{self, SignalBlock};

    #[test]
    fn a_process_whose_main_thread_lives_is_not_alone() {
        let helpers = Helpers::default();
        let mut watch = Watch::new(&helpers);
        watch.next = Instant::now();
        assert!(!watch.is_alone(0));
        assert!(!has_main_ended(), "it runs this test");
    }

    #[test]
    fn threads_that_a_start_leaves_behind_are_told_from_others_and_counted_as_long_as_they_live() {
        let (helpers, go) = (Helpers::default(), Flag::default());
        let (tell, told) = std::sync::mpsc::channel();
        let (waits, tell) = (|| go.wait(Duration::from_secs(60)), &tell);
        let own = || {
            let link = std::fs::read_link("/proc/thread-self").expect("PID/task/TID");
            let number = link.file_name().and_then(|name| name.to_str()).expect("a number");
            PathBuf::from(format!("/proc/self/task/{number}"))
        };
        std::thread::scope(|scope| {
            let _blocked = SignalBlock::all();
            let started = helpers.note(|| {
                scope.spawn(|| {
                    signal_mask::unblock_termination_signals();
                    tell.send((false, own())).expect("heard");
                    waits()
                });
                scope.spawn(|| {
                    tell.send((true, own())).expect("heard");
                    waits()
                });
                [told.recv(), told.recv()].map(|one| one.expect("told"))
            });
            let kept = helpers.0.get().expect("noted").clone();
            for (is_helper, task) in &started {
                assert_eq!(kept.contains(task), *is_helper, "{task:?} of {started:?} in {kept:?}");
            }
            assert!(helpers.alive() > 0);
            go.set();
        });
        // A thread that was joined is still listed for a moment.
        let is_gone = |_| {
            futex::nap(Duration::from_millis(1));
            helpers.alive() == 0
        };
        assert!((0..10_000).any(is_gone));
    }
}
