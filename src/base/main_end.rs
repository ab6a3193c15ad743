//! The end of the main thread, told at once to whoever sleeps without a period.
//!
//! When `main` ends by `pthread_exit`, no signal tells us, and a thread of ours that only waits for
//! clients would keep the process alive. libc calls the destructor of a key of the thread then.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

const NO_KEY: u32 = u32::MAX;
/// Has a value in the main thread only.
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
/// The main thread carries the value.
static WATCHED: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicBool = AtomicBool::new(false);
/// Called when it ends; null is nobody.
static TELL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Watches the calling thread, if it is the main one. To be called in the constructor, which the main
/// thread runs where we are preloaded. Allocates at most once.
pub fn watch() {
    // SAFETY: no preconditions.
    let is_main = unsafe { libc::syscall(libc::SYS_gettid) == libc::c_long::from(libc::getpid()) };
    if !is_main || WATCHED.load(Ordering::Acquire) {
        return;
    }
    if KEY.load(Ordering::Acquire) == NO_KEY {
        let mut key = NO_KEY;
        // SAFETY: the place is valid; the destructor stays, as this library does.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) } != 0 {
            return;
        }
        KEY.store(key, Ordering::Release);
    }
    let key = KEY.load(Ordering::Acquire);
    // SAFETY: the key was created; nobody follows the value, which only is not null.
    let set = unsafe { libc::pthread_setspecific(key, ptr::dangling::<c_void>()) };
    WATCHED.store(set == 0, Ordering::Release);
}

/// Whether the end of the main thread will be told.
pub fn is_watched() -> bool {
    WATCHED.load(Ordering::Acquire)
}

/// Whether the main thread has ended by itself.
pub(crate) fn has_ended() -> bool {
    ENDED.load(Ordering::Acquire)
}

/// Has `tell` called at the end of the main thread, on that thread. It may only do what a destructor may.
pub fn on_end(tell: fn()) {
    TELL.store(tell as *mut c_void, Ordering::Release);
}

/// In a forked child: the thread that forked is the main thread there.
pub fn renew() {
    ENDED.store(false, Ordering::Release);
    TELL.store(ptr::null_mut(), Ordering::Release);
    let key = KEY.load(Ordering::Acquire);
    // SAFETY: the key was created.
    let carries = key != NO_KEY && unsafe { !libc::pthread_getspecific(key).is_null() };
    WATCHED.store(carries, Ordering::Release);
}

unsafe extern "C" fn ended(_value: *mut c_void) {
    ENDED.store(true, Ordering::Release);
    let tell = TELL.load(Ordering::Acquire);
    if !tell.is_null() {
        // SAFETY: `on_end` stored a function of this type.
        let tell = unsafe { std::mem::transmute::<*mut c_void, fn()>(tell) };
        crate::base::barrier::catch((), tell);
    }
}
