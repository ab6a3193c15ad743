//! Forks of the guest into children that neither hang nor touch what their parent records.
//!
//! A child by `fork` begins a new generation ([`state::renew`]): its first NVTX or CUDA call starts
//! it as that of any process would. Its handler takes no lock, allocates nothing and starts no
//! thread.
//!
//! While NVTX waits for our answer, its state is "being initialised", which a child that is forked
//! then keeps for ever: its first NVTX call would spin. There our functions are put in place of
//! those that wait. What is left is the moment before NVTX calls us.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};

use crate::generation;
use crate::nvtx::{self, GetExportTable};
use crate::state;

/// What the libraries passed whose NVTX waits for our answer; null is a free place.
static ASKING: [AtomicPtr<c_void>; 32] = [const { AtomicPtr::new(ptr::null_mut()) }; 32];

/// What one process tells for all of the tree.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// What children lack that were forked after CUDA was initialised.
    AfterCuda = 0,
    /// A trace file may lack its end.
    EndedEarly = 1,
}

/// A page of all processes of the tree, with a byte for each [`Told`]: 1 once one has told it.
static TOLD: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());

/// This process, and the one that forked it; 0 where this one came by an exec.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static PARENT: AtomicU32 = AtomicU32::new(0);

/// This process was forked after CUDA was initialised.
static AFTER_CUDA: AtomicBool = AtomicBool::new(false);

/// Registers the fork handlers. Called once, when the library is loaded, so that no fork can already
/// be under way and miss them.
pub fn watch() {
    // Its page is there then: a page that has to be brought while a fork copies memory is waited
    // for until the fork is over, and the child would not see what is stored there.
    ASKING.iter().for_each(|place| place.store(ptr::null_mut(), Ordering::Relaxed));
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    // Not at the start of a recording: the parent of prefork workers may never have one.
    if let Some(page) = map(libc::MAP_SHARED) {
        TOLD.store(page, Ordering::Release);
    }
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

/// Notes which process this is. Called at start. Where the kernel cannot clear a page (before
/// 4.14), [`generation::in_silent_child`] knows of none.
pub fn mark() {
    if generation::is_marked() {
        // A forked child: the handler has done it.
        return;
    }
    let Some(page) = map(libc::MAP_PRIVATE) else { return };
    // SAFETY: a new page, which is either given back here or never.
    unsafe {
        if libc::madvise(page.cast(), PAGE_BYTES, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page.cast(), PAGE_BYTES);
            return;
        }
        generation::mark_by(page);
    }
}

const PAGE_BYTES: usize = 4096;

fn map(kind: libc::c_int) -> Option<*mut AtomicU8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new page of zeros at a place of the kernel's choice.
    let page =
        unsafe { libc::mmap(ptr::null_mut(), PAGE_BYTES, access, kind | libc::MAP_ANON, -1, 0) };
    (page != libc::MAP_FAILED).then_some(page.cast())
}

/// The process that forked this one, where there was no exec since.
pub fn parent() -> Option<u32> {
    Some(PARENT.load(Ordering::Relaxed)).filter(|&pid| pid != 0)
}

/// Whether this process was forked after CUDA was initialised, and so cannot use it.
pub fn is_after_cuda() -> bool {
    AFTER_CUDA.load(Ordering::Relaxed)
}

/// Whether this is the first call with `what` in the tree of forked processes.
pub fn is_first_to_tell(what: Told) -> bool {
    let told = TOLD.load(Ordering::Acquire);
    // SAFETY: a page that stays mapped, in children as well, and is longer than that.
    told.is_null() || unsafe { (*told.add(what as usize)).swap(1, Ordering::Relaxed) } == 0
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

unsafe extern "C" fn in_parent() {
    if let Some(shared) = state::shared()
        && shared.cuda_seen.load(Ordering::Acquire)
    {
        shared.forks_after_cuda.fetch_add(1, Ordering::Relaxed);
    }
}

unsafe extern "C" fn in_child() {
    let after_cuda = |shared: &state::Shared| shared.cuda_seen.load(Ordering::Acquire);
    AFTER_CUDA.fetch_or(state::shared().is_some_and(after_cuda), Ordering::Relaxed);
    let parent = PROCESS.swap(std::process::id(), Ordering::Relaxed);
    PARENT.store(parent, Ordering::Relaxed);
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
