//! Every call from the guest into us, and every thread of ours, goes through here: no panic leaves, nothing
//! re-enters.

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::base::diag;

thread_local! {
    static OWNER: Cell<CodeOwner> = const { Cell::new(CodeOwner::Guest) };
}

/// Whose code this thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeOwner {
    Guest,
    /// One of our handlers, called by the guest.
    Inside,
    /// Our own thread.
    Ours,
}

/// The key under which libc keeps [`CodeOwner`] for each thread; [`NO_KEY`]: it is kept in [`OWNER`].
///
/// Unless this library was preloaded, the first use of a thread-local in a new thread allocates. The
/// guest's allocator may make NVTX ranges, and would call itself without end. A key of libc's needs no
/// memory.
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
const NO_KEY: u32 = u32::MAX;
/// Keys whose values glibc keeps in the thread itself; it allocates for others.
const KEYS_WITHIN: u32 = 32;
/// As large as that of a thread of the standard library.
const STACK_BYTES: usize = 2 << 20;
/// Thread-locals of what was there when the process started lie this near to libc's own data of the
/// thread, bytes; they need no memory, and are quicker.
const NEAR_BYTES: usize = 1 << 20;

impl CodeOwner {
    #[inline]
    fn now() -> Option<Self> {
        match KEY.load(Ordering::Relaxed) {
            NO_KEY => OWNER.try_with(Cell::get).ok(),
            // SAFETY: the key was created, and is never deleted.
            key => Some(match unsafe { libc::pthread_getspecific(key) } as usize {
                0 => CodeOwner::Guest,
                1 => CodeOwner::Inside,
                _ => CodeOwner::Ours,
            }),
        }
    }

    #[inline]
    fn enter(self) {
        match KEY.load(Ordering::Relaxed) {
            NO_KEY => drop(OWNER.try_with(|place| place.set(self))),
            // SAFETY: as above; the value is a number, and nobody follows it.
            key => drop(unsafe { libc::pthread_setspecific(key, self as usize as *const c_void) }),
        }
    }
}

static PREPARED: AtomicBool = AtomicBool::new(false);

/// Prepares this process, and children that it forks later, for [`enter`]. Called at start, when no
/// thread is in here. Allocates.
pub(crate) fn prepare() {
    if !PREPARED.swap(true, Ordering::Relaxed) {
        hush();
        create_key();
    }
}

/// Has libc keep for each thread whose code it runs, where it can without allocating.
fn create_key() {
    let local = OWNER.try_with(|place| std::ptr::from_ref(place) as usize).unwrap_or(0);
    // SAFETY: pthread_self has no preconditions. Its answer is an address on Linux.
    let thread = unsafe { libc::pthread_self() } as usize;
    if local.abs_diff(thread) < NEAR_BYTES {
        return;
    }
    let mut key = NO_KEY;
    // SAFETY: the place is valid; without a destructor nothing is called at the end of a thread.
    let created = unsafe { libc::pthread_key_create(&raw mut key, None) } == 0;
    if created && key < KEYS_WITHIN {
        KEY.store(key, Ordering::Relaxed);
    }
}

/// Where the last of these panics was that [`hush`] kept quiet.
static PLACE: Mutex<String> = Mutex::new(String::new());

#[derive(Debug, thiserror::Error)]
#[error("internal error ({message}{place})")]
pub(crate) struct Panic {
    message: &'static str,
    place: String,
}

/// Keeps Rust's own three lines from panics in our code: the function that stops the panic writes one.
fn hush() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Elsewhere it may be a program that we are linked into, as our tests are.
        if CodeOwner::now().unwrap_or(CodeOwner::Guest) == CodeOwner::Guest {
            return others(panic);
        }
        if let (Some(at), Some(mut place)) = (panic.location(), PLACE.try_lock()) {
            *place = format!(", at {at}");
        }
    }));
}

/// Runs `body` for a C caller and turns a panic into `fallback`.
pub(crate) fn catch<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    stopped(body).unwrap_or_else(|panic| {
        diag::warn(format_args!("{panic}: this call is not recorded; please report it"));
        fallback
    })
}

/// A thread of ours with this name. It has its own stack size: without one, the standard library reads
/// `RUST_MIN_STACK` from the environment, which the guest may be changing.
pub(crate) fn thread(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES)
}

/// Runs `body`, which is all that our own thread does. What the guest's own code does on it (an
/// allocator that makes NVTX ranges) is not work of the guest.
pub(crate) fn own_thread<T>(body: impl FnOnce() -> T) -> Result<T, Panic> {
    CodeOwner::Ours.enter();
    stopped(body)
}

fn stopped<T>(body: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        // It may own things whose drop panics again: leak it.
        let payload = Box::leak(payload);
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        let place = PLACE.try_lock().map(|place| place.clone()).unwrap_or_default();
        Panic { message: text.unwrap_or("a panic"), place }
    })
}

/// As [`catch`], for a callback of CUPTI's, which also comes while this thread is in a handler of ours.
pub(crate) fn callback<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    let _back = CodeOwner::now().map(|before| {
        if before == CodeOwner::Guest {
            CodeOwner::Inside.enter();
        }
        ReturnGuard(before)
    });
    catch(fallback, body)
}

/// Whether this thread is in one of our handlers or callbacks, or is our own. Async-signal-safe.
pub(crate) fn is_inside() -> bool {
    CodeOwner::now().is_none_or(|place| place != CodeOwner::Guest)
}

/// Whether this thread is one of our own. Neither allocates nor waits.
pub(crate) fn is_own() -> bool {
    CodeOwner::now() == Some(CodeOwner::Ours)
}

/// As [`catch`]. Gives `fallback` at once if this thread is already inside such a call (CUPTI and the
/// driver may call NVTX themselves; `turned_away` is called then), is our own, or has lost its
/// thread-locals.
pub(crate) fn enter<T>(fallback: T, turned_away: impl FnOnce(), body: impl FnOnce() -> T) -> T {
    match CodeOwner::now() {
        Some(CodeOwner::Guest) => {
            CodeOwner::Inside.enter();
            let _back = ReturnGuard(CodeOwner::Guest);
            catch(fallback, body)
        }
        Some(CodeOwner::Inside) => {
            turned_away();
            fallback
        }
        // A guest's own thread-local destructors may still push and pop ranges.
        Some(CodeOwner::Ours) | None => fallback,
    }
}

/// Where this thread is again when this is dropped.
struct ReturnGuard(CodeOwner);

impl Drop for ReturnGuard {
    fn drop(&mut self) {
        self.0.enter();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hazard (Threads, stacks and locks): A panic in a handler of the collector.
    /// Promise: It does not leave the library; the call is not recorded, and one line reports it.
    #[test]
    fn a_panic_becomes_the_fallback_and_the_thread_can_enter_again() {
        assert_eq!(enter(7, || (), || panic!("inside")), 7);
        assert_eq!(enter(7, || (), || 1), 1);
    }

    #[test]
    fn a_panic_that_is_stopped_has_its_message_and_nests() {
        let outer = stopped(|| {
            let inner = stopped(|| panic!("number {}", 7));
            assert!(inner.is_err_and(|panic| panic.to_string().contains("number 7")));
            std::panic::panic_any(1u8)
        });
        assert!(outer.is_err_and(|panic: Panic| panic.to_string().contains("a panic")));
    }

    /// Hazard (Threads, stacks and locks): CUPTI or the driver calls NVTX inside a handler of the collector.
    /// Promise: The call is refused and counted.
    #[test]
    fn a_second_entry_on_the_same_thread_is_turned_away_and_told() {
        let told = Cell::new(0);
        let tell = || told.set(told.get() + 1);
        assert_eq!(enter(0, tell, || enter(9, tell, || 1)), 9);
        assert_eq!((enter(0, tell, || 1), told.get()), (1, 1));
    }

    /// Hazard (Threads, stacks and locks): A callback comes while its thread is in a handler of the collector.
    /// Promise: The thread is inside until it leaves the outer one.
    #[test]
    fn a_callback_is_inside_and_leaves_its_thread_where_it_was() {
        assert!(!is_inside());
        assert!(callback(false, is_inside));
        assert!(!is_inside());
        let within = || callback(false, is_inside) && is_inside();
        assert!(enter(false, || (), within));
        assert!(!is_inside());
    }

    #[test]
    fn our_own_thread_is_kept_out_silently_and_for_good() {
        let ours = || {
            let entered = || (0..3).any(|_| enter(false, || panic!("nothing is lost"), || true));
            own_thread(|| assert!(!entered())).is_ok()
        };
        assert_eq!(std::thread::spawn(ours).join().ok(), Some(true));
    }
}
