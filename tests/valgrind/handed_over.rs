//! Hands data from thread to thread in the way that its argument names: what the checks have to notice,
//! and what they have to leave alone.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread;

struct Shared {
    datum: UnsafeCell<u64>,
    ready: AtomicBool,
}

// SAFETY: it is what the program is about: some of the ways below are wrong.
unsafe impl Sync for Shared {}

fn hand_over(tell: fn(&AtomicBool), see: fn(&AtomicBool) -> bool) {
    let shared = Arc::new(Shared { datum: UnsafeCell::new(0), ready: AtomicBool::new(false) });
    let receiver = Arc::clone(&shared);
    let reads = thread::spawn(move || {
        while !see(&receiver.ready) {
            thread::yield_now();
        }
        // SAFETY: see `Shared`.
        unsafe { receiver.datum.get().read_volatile() }
    });
    // SAFETY: as above.
    unsafe { shared.datum.get().write_volatile(7) };
    tell(&shared.ready);
    assert_eq!(reads.join().expect("the reader ends"), 7);
}

/// Decides by a byte that was never written.
fn uninitialised() {
    let bytes: Vec<u8> = Vec::with_capacity(8);
    // SAFETY: none: that is what the check has to notice.
    let byte = unsafe { bytes.as_ptr().read_volatile() };
    println!("{}", if byte == 0 { "zero" } else { "other" });
}

fn main() {
    match std::env::args().nth(1).unwrap_or_default().as_str() {
        "released" => hand_over(
            |ready| ready.store(true, Ordering::Release),
            |ready| ready.load(Ordering::Acquire),
        ),
        "fenced" => hand_over(
            |ready| {
                fence(Ordering::Release);
                ready.store(true, Ordering::Relaxed);
            },
            |ready| {
                let seen = ready.load(Ordering::Relaxed);
                fence(Ordering::Acquire);
                seen
            },
        ),
        "relaxed" => hand_over(
            |ready| ready.store(true, Ordering::Relaxed),
            |ready| ready.load(Ordering::Relaxed),
        ),
        "stored_relaxed" => hand_over(
            |ready| ready.store(true, Ordering::Relaxed),
            |ready| ready.load(Ordering::Acquire),
        ),
        "swapped_relaxed" => hand_over(
            |ready| {
                ready.swap(true, Ordering::Release);
            },
            |ready| {
                ready.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            },
        ),
        "swapped" => hand_over(
            |ready| {
                ready.swap(true, Ordering::Release);
            },
            |ready| {
                ready.compare_exchange(true, false, Ordering::Acquire, Ordering::Relaxed).is_ok()
            },
        ),
        "uninitialised" => uninitialised(),
        "leaked" => {
            let leaked = Box::into_raw(Box::new([7u8; 1000]));
            println!("{}", leaked.addr() != 0);
        }
        other => panic!("no way {other:?}"),
    }
}
