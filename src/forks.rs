//! Forks of the guest into children that neither hang nor record.
//!
//! While NVTX waits for our answer, its state is "being initialised", which a child that is forked
//! then keeps for ever: its first NVTX call would spin. There the functions are taken out that
//! wait, as NVTX has it without a tool. What is left is the moment before NVTX calls us.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use crate::nvtx::{self, GetExportTable};
use crate::{lifecycle, state};

/// What the libraries passed whose NVTX waits for our answer; null is a free place.
static ASKING: [AtomicPtr<c_void>; 32] = [const { AtomicPtr::new(ptr::null_mut()) }; 32];

/// 1 in a page that the kernel clears in every child: `clone` and `_Fork` call no handler.
static MARK: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());

/// Has forks of the guest pass by here. Called once, when the library is loaded: before a fork
/// could be under way that misses it.
pub fn watch() {
    // Its page is there then: a page that has to be brought while a fork copies memory is waited
    // for until the fork is over, and the child would not see what is stored there.
    ASKING.iter().for_each(|place| place.store(ptr::null_mut(), Ordering::Relaxed));
    // What glibc's `pthread_atfork` is made of. Named in the library itself it would keep programs of
    // other C libraries from starting.
    type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;
    type Handler = Option<unsafe extern "C" fn()>;
    // SAFETY: the symbol has this type in every glibc. The handler takes no lock and allocates
    // nothing, and stays, as this library does, which the null says. Without memory for it forks are
    // as they were.
    unsafe {
        let register = libc::dlsym(libc::RTLD_DEFAULT, c"__register_atfork".as_ptr());
        if !register.is_null() {
            let register = transmute::<*mut c_void, Register>(register);
            register(None, None, Some(in_child), ptr::null_mut());
        }
    }
}

/// Notes which process this is. Called once, at start. Where the kernel cannot do that (before
/// 4.14), [`in_silent_child`] knows of none.
pub fn mark() {
    const BYTES: usize = 4096;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
    // SAFETY: a new page, which is either given back here or never.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), BYTES, access, kind, -1, 0);
        if page == libc::MAP_FAILED {
            return;
        }
        if libc::madvise(page, BYTES, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, BYTES);
            return;
        }
        let mark: *mut AtomicU8 = page.cast();
        (*mark).store(1, Ordering::Relaxed);
        MARK.store(mark, Ordering::Release);
    }
}

/// Whether this is a child of the process that was marked. Two loads.
pub fn in_silent_child() -> bool {
    let mark = MARK.load(Ordering::Acquire);
    // SAFETY: a page that stays mapped, in children as well.
    !mark.is_null() && unsafe { (*mark).load(Ordering::Relaxed) } == 0
}

/// Runs `answer`, for which NVTX waits, such that a fork meanwhile survives it. `asks` is what
/// NVTX passed.
pub fn survived<T>(asks: Option<GetExportTable>, answer: impl FnOnce() -> T) -> T {
    let asks = asks.map_or(ptr::null_mut(), |asks| asks as *mut c_void);
    // Without a free place, which takes as many libraries at once, forks are as they were.
    let place = ASKING.iter().find(|place| {
        let free = ptr::null_mut();
        place.compare_exchange(free, asks, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    let answer = answer();
    if let Some(place) = place {
        place.store(ptr::null_mut(), Ordering::Release);
    }
    answer
}

unsafe extern "C" fn in_child() {
    // A child of a process that has not met us may meet us itself.
    if state::shared().is_some() || lifecycle::is_starting() {
        state::forked();
    }
    for place in &ASKING {
        let asks = place.swap(ptr::null_mut(), Ordering::AcqRel);
        if !asks.is_null() {
            // SAFETY: NVTX passed it, and a thread was inside its library when we were forked.
            unsafe { nvtx::detach(transmute::<*mut c_void, GetExportTable>(asks)) };
        }
    }
}
