//! An allocator of the guest's that makes NVTX ranges: what our own thread allocates is not the
//! guest's work, and taking it in would make more of it without end.
//!
//! One test, because the allocator is that of the whole process. The collector is linked in here, and
//! its own allocator calls the `malloc` of this test.

#[path = "guests/nvtx.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for the guest, which calls all of it")]
mod nvtx;

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static CLIENT: std::sync::OnceLock<nvtx::Nvtx> = std::sync::OnceLock::new();
/// Allocations of the drain thread, and those whose ranges were taken in.
static ITS: AtomicU64 = AtomicU64::new(0);
static TAKEN_IN: AtomicU64 = AtomicU64::new(0);

thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });

fn annotate() {
    let Some(client) = CLIENT.get() else { return };
    if INSIDE.try_with(|inside| inside.replace(true)) != Ok(false) {
        return;
    }
    let level = client.push_c(c"alloc");
    client.pop();
    let mut name = [0u8; 16];
    // SAFETY: the place has the size that is told.
    unsafe { libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), 16) };
    if name.starts_with(b"stage2-drain") {
        ITS.fetch_add(1, Ordering::Relaxed);
        TAKEN_IN.fetch_add(u64::from(level >= 0), Ordering::Relaxed);
    }
    let _ = INSIDE.try_with(|inside| inside.set(false));
}

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
}

/// In place of libc's, which every allocator of the process ends at.
#[unsafe(no_mangle)]
extern "C" fn malloc(bytes: usize) -> *mut c_void {
    annotate();
    // SAFETY: what this stands for.
    unsafe { __libc_malloc(bytes) }
}

/// Hazard (Threads, stacks and locks): The guest's allocator opens ranges on the collector's thread.
/// Promise: The collector does not record its own thread.
#[test]
fn our_own_thread_does_not_feed_itself() {
    // SAFETY: no other thread reads the environment meanwhile.
    unsafe { std::env::set_var("STAGE2_SUMMARY", "off") };
    let client = CLIENT
        .get_or_init(|| nvtx::Nvtx::attached_to(stage2::entry::inject::InitializeInjectionNvtx2));
    // Every name is new to the drain thread, which allocates for it.
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut level = 0;
    while ITS.load(Ordering::Relaxed) < 1000 && Instant::now() < deadline {
        level = client.push(format!("a name of its own {:?}", Instant::now()).as_bytes());
        client.pop();
        std::thread::sleep(Duration::from_micros(100));
    }
    assert_eq!(level, 0, "the guest's own ranges are taken in");
    assert!(ITS.load(Ordering::Relaxed) >= 1000, "the drain thread allocates");
    // The thread may be starting when the client is there.
    assert!(TAKEN_IN.load(Ordering::Relaxed) < 10);
    let shared = stage2::guest::state::shared().expect("started");
    assert_eq!(shared.counters.calls_turned_away.get(), 0, "nothing of the guest's is missing");
}
