//! For tests: libc's allocator, with a count of the bytes that are held: of Rust, and of C as well.
//!
//! SQLite allocates in C, and the collector brings an allocator of its own: every allocator of the
//! process ends at the functions below. A test that counts runs alone in its process, because the
//! counts are those of all threads.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

static NOW_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OF_THREAD: Cell<usize> = const { Cell::new(0) };
}

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(start: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(start: *mut c_void);
}

/// Counts what was allocated, and hands it on.
fn count_allocation(start: *mut c_void) -> *mut c_void {
    if !start.is_null() {
        // SAFETY: it was just allocated.
        let bytes = unsafe { libc::malloc_usable_size(start) };
        let now = NOW_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK_BYTES.fetch_max(now, Ordering::Relaxed);
        // A thread that ends has no count any more.
        let _ = OF_THREAD.try_with(|count| count.set(count.get() + 1));
    }
    start
}

/// Bytes of an allocation; none of a null.
fn bytes_of(start: *mut c_void) -> usize {
    // SAFETY: the callers have it from one of the functions below, or it is null.
    unsafe { libc::malloc_usable_size(start) }
}

#[unsafe(no_mangle)]
extern "C" fn malloc(bytes: usize) -> *mut c_void {
    // SAFETY: what this stands for.
    count_allocation(unsafe { __libc_malloc(bytes) })
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: what this stands for.
    count_allocation(unsafe { __libc_calloc(count, bytes) })
}

/// # Safety
/// As that of libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(start: *mut c_void, bytes: usize) -> *mut c_void {
    let before = bytes_of(start);
    // SAFETY: the caller's contract.
    let moved = unsafe { __libc_realloc(start, bytes) };
    if !moved.is_null() || bytes == 0 {
        NOW_BYTES.fetch_sub(before, Ordering::Relaxed);
    }
    count_allocation(moved)
}

/// # Safety
/// As that of libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    // SAFETY: what this stands for.
    let start = count_allocation(unsafe { __libc_memalign(alignment, bytes) });
    if start.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's contract.
    unsafe { ptr::write(place, start) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    // SAFETY: what this stands for.
    count_allocation(unsafe { __libc_memalign(alignment, bytes) })
}

/// # Safety
/// As that of libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn free(start: *mut c_void) {
    NOW_BYTES.fetch_sub(bytes_of(start), Ordering::Relaxed);
    // SAFETY: the caller's contract.
    unsafe { __libc_free(start) };
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
