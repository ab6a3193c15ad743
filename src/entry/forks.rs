//! Forks of the guest into children that neither hang nor touch what their parent records.
//!
//! A forked child begins a new generation ([`state::renew`]), and its first NVTX or CUDA call starts it.
//! Its handler takes no lock, allocates nothing and starts no thread.
//!
//! While NVTX waits for our answer, its state is "being initialised". A child that is forked then would
//! keep that state and spin in its first NVTX call, so the handler puts our functions in place of those
//! that wait. If a thread forks in the moment before NVTX calls us, the child can still hang.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::base::{ancestry, generation, main_end};
use crate::control;
use crate::guest::nvtx::{self, GetExportTable};
use crate::guest::state;

/// What the libraries passed whose NVTX waits for our answer; null is a free place.
static ASKING: [AtomicPtr<c_void>; 32] = [const { AtomicPtr::new(ptr::null_mut()) }; 32];

/// Registers the fork handlers. Called once, when the library is loaded, so that no fork can already
/// be under way and miss them.
pub fn watch() {
    // Touch its page now. A page fault during a fork waits until the fork is over, and the child would
    // not see what is stored then.
    ASKING.iter().for_each(|place| place.store(ptr::null_mut(), Ordering::Relaxed));
    // Not at the start of a recording: the parent of prefork workers may never have one.
    ancestry::begin();
    // What glibc's `pthread_atfork` is made of. Named in the library itself it would keep programs of
    // other C libraries from starting.
    type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;
    type Handler = Option<unsafe extern "C" fn()>;
    // SAFETY: the symbol has this type in every glibc. The handlers take no lock and
    // allocate nothing, and stay, as this library does, which the null says. Without memory for them
    // a child is one by a fork that tells nobody.
    unsafe {
        let register = libc::dlsym(libc::RTLD_DEFAULT, c"__register_atfork".as_ptr());
        if !register.is_null() {
            let register = transmute::<*mut c_void, Register>(register);
            register(None, Some(in_parent), Some(in_child), ptr::null_mut());
        }
    }
}

/// Runs `answer`, for which NVTX waits, and protects a child that is forked meanwhile. `asks` is what NVTX
/// passed.
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

unsafe extern "C" fn in_parent() {
    if let Some(shared) = state::shared().filter(|_| state::cuda_seen()) {
        shared.forks_after_cuda.fetch_add(1, Ordering::Relaxed);
    }
}

unsafe extern "C" fn in_child() {
    ancestry::note_fork(state::cuda_seen());
    control::renew();
    main_end::renew();
    state::renew();
    nvtx::renew();
    generation::mark_again();
    for place in &ASKING {
        let asks = place.swap(ptr::null_mut(), Ordering::AcqRel);
        if !asks.is_null() {
            // SAFETY: NVTX passed it, and a thread was inside its library when we were forked.
            unsafe {
                let asks = transmute::<*mut c_void, GetExportTable>(asks);
                nvtx::detach(asks);
                nvtx::attach(Some(asks));
            }
        }
    }
}
