//! The main thread's end, seen from our own thread: whether only threads of ours are left.
//!
//! A process lives until its last thread ends. When `main` ends by `pthread_exit`, ours must not keep
//! it alive, and it gets no signal that could tell. Nothing here opens a file: guests may count on
//! the numbers of descriptors that they have just closed.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Between two looks, of some microseconds each.
const PERIOD: Duration = Duration::from_millis(200);
/// Links of a directory without entries; each thread is one more.
const OWN_LINKS: u64 = 2;
/// Threads of CUPTI's and the driver's that are told apart, more than were ever seen.
const MAX_HELPERS: usize = 64;

/// Threads that appeared while CUPTI was being started.
#[derive(Debug, Default)]
pub struct Helpers(OnceLock<Vec<CString>>);

impl Helpers {
    /// Runs `start`, and notes the threads that it started.
    pub fn note<T>(&self, start: impl FnOnce() -> T) -> T {
        let before = tasks();
        let started = start();
        let new = tasks().into_iter().filter(|task| !before.contains(task)).take(MAX_HELPERS);
        // A second start of CUPTI in a process does not happen.
        let _ = self.0.set(new.collect());
        started
    }

    fn alive(&self) -> u64 {
        let helpers = self.0.get().map(Vec::as_slice).unwrap_or_default();
        helpers.iter().filter(|task| links(task).is_some()).count() as u64
    }
}

/// Looks now and then whether the guest has no thread left.
pub struct Watch<'a> {
    helpers: &'a Helpers,
    main: Option<CString>,
    next: Instant,
}

impl<'a> Watch<'a> {
    /// For the thread that calls it, which is none of the guest's.
    pub fn new(helpers: &'a Helpers) -> Self {
        let main = format!("/proc/self/task/{}/exe", std::process::id());
        Watch { helpers, main: CString::new(main).ok(), next: Instant::now() + PERIOD }
    }

    /// Whether the main thread has ended and no other thread of the guest is left. Mostly one look
    /// at a clock.
    pub fn is_alone(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now + PERIOD;
        // The main thread counts until the process is over, and so does this one.
        self.has_main_ended()
            && links(c"/proc/self/task")
                .is_some_and(|links| links <= OWN_LINKS + 2 + self.helpers.alive())
    }

    /// A thread that has ended has no program any more. Without `/proc` nothing is known.
    fn has_main_ended(&self) -> bool {
        self.main.as_ref().is_some_and(|main| !has_program(main))
            && has_program(c"/proc/thread-self/exe")
    }
}

fn has_program(link: &std::ffi::CStr) -> bool {
    let mut some: [u8; 8] = [0; 8];
    // SAFETY: the path ends in NUL; at most as many bytes are written as there are.
    unsafe { libc::readlink(link.as_ptr(), some.as_mut_ptr().cast(), some.len()) > 0 }
}

/// Links of a directory; `None` where it is not there.
fn links(folder: &std::ffi::CStr) -> Option<u64> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path ends in NUL; the result is read only where the call filled it in.
    unsafe {
        (libc::stat(folder.as_ptr(), status.as_mut_ptr()) == 0)
            .then(|| status.assume_init().st_nlink)
    }
}

/// The threads of this process.
fn tasks() -> Vec<CString> {
    let folder = std::fs::read_dir("/proc/self/task");
    let path = |entry: std::fs::DirEntry| {
        use std::os::unix::ffi::OsStringExt;
        CString::new(entry.path().into_os_string().into_vec()).ok()
    };
    folder.into_iter().flatten().filter_map(|entry| path(entry.ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_main_thread_lives_is_not_alone() {
        let helpers = Helpers::default();
        let mut watch = Watch::new(&helpers);
        watch.next = Instant::now();
        assert!(!watch.is_alone());
        assert!(!watch.has_main_ended(), "it runs this test");
        watch.main = Some(c"/proc/self/task/0/exe".to_owned());
        assert!(watch.has_main_ended());
    }

    #[test]
    fn threads_that_a_start_leaves_behind_are_counted_as_long_as_they_live() {
        let (helpers, go) = (Helpers::default(), crate::futex::Flag::default());
        std::thread::scope(|scope| {
            let (started, told) = (crate::futex::Flag::default(), &go);
            helpers.note(|| {
                let started = &started;
                scope.spawn(move || {
                    told.wait(Duration::from_secs(60));
                });
                started.set();
            });
            // Other tests start threads at the same time.
            assert!(helpers.alive() >= 1);
            go.set();
        });
    }
}
