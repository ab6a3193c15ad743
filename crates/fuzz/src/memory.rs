//! The allocator of every program that links this crate: the system's, with a count of the bytes that
//! are held.
//!
//! SQLite's own memory is not in it, as C allocates that; libFuzzer's limit on the whole process is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static NOW_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OF_THREAD: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all methods hand their arguments to the system's allocator as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW_BYTES.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(now, Ordering::Relaxed);
        // A thread that ends has no count any more.
        let _ = OF_THREAD.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `pointer` came from `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `body`; gives its result, and the bytes that the process held at most beyond those before.
pub fn peak_of<T>(body: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW_BYTES.load(Ordering::Relaxed);
    PEAK_BYTES.store(before, Ordering::Relaxed);
    let result = body();
    (result, PEAK_BYTES.load(Ordering::Relaxed).saturating_sub(before))
}

/// Runs `body`; gives its result, and the number of allocations that this thread made in it.
pub fn allocations_of<T>(body: impl FnOnce() -> T) -> (T, usize) {
    let count = || OF_THREAD.with(Cell::get);
    let before = count();
    let result = body();
    (result, count() - before)
}
