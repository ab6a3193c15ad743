//! The collector's memory: the system's allocator, and a reserve for when that has nothing left.
//!
//! Rust ends the process where an allocation fails, and it is the guest's process. So what the system
//! refuses comes from the reserve, once, and [`has_failed`] tells it: a start goes back, and the drain
//! thread ends the trace file in order. Where even the reserve is used up, a thread of ours ends its work on
//! the spot ([`set_last_resort`]).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::base::barrier;

/// Several times what the end of a trace file takes. Pages that are never written are never taken.
const RESERVE_BYTES: usize = 1 << 20;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;
static RESERVE: Reserve = Reserve::new();
static FAILED: AtomicBool = AtomicBool::new(false);
static LAST_RESORT: OnceLock<fn()> = OnceLock::new();

/// Whether the system has refused memory since the process began.
pub fn has_failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// What a thread of ours does where there is no memory at all. It neither returns nor allocates.
pub(crate) fn set_last_resort(end: fn()) {
    // A forked child's is the same.
    let _ = LAST_RESORT.set(end);
}

struct Allocator;

// SAFETY: what comes from the system's allocator goes back to it; what comes from the reserve belongs to
// nobody else, is aligned as asked for, and is never given out again.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let start = unsafe { System.alloc(layout) };
        if start.is_null() { refused(layout) } else { start }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let start = unsafe { System.alloc_zeroed(layout) };
        // Nobody has written to what the reserve gives.
        if start.is_null() { refused(layout) } else { start }
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if !RESERVE.holds(start) {
            // SAFETY: it came from there.
            unsafe { System.dealloc(start, layout) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let from_reserve = RESERVE.holds(start);
        if !from_reserve {
            // SAFETY: it came from there; the caller's contract.
            let moved = unsafe { System.realloc(start, layout, bytes) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller promises that the size fits the alignment. Both places have so many bytes and
        // are not the same, and the old one is given back once.
        unsafe {
            let layout_then = Layout::from_size_align_unchecked(bytes, layout.align());
            let moved = if from_reserve { self.alloc(layout_then) } else { refused(layout_then) };
            if !moved.is_null() {
                ptr::copy_nonoverlapping(start, moved, layout.size().min(bytes));
                self.dealloc(start, layout);
            }
            moved
        }
    }
}

/// Null, which ends the process, only where the reserve is used up and the thread is not ours.
#[cold]
#[inline(never)]
fn refused(layout: Layout) -> *mut u8 {
    FAILED.store(true, Ordering::Relaxed);
    if let Some(start) = RESERVE.take(layout) {
        return start;
    }
    if let Some(end) = LAST_RESORT.get().filter(|_| barrier::is_own()) {
        end();
    }
    ptr::null_mut()
}

/// Memory that is there from the start, given out from its front and never taken back.
#[repr(align(4096))]
struct Reserve {
    bytes: UnsafeCell<[u8; RESERVE_BYTES]>,
    used: AtomicUsize,
}

// SAFETY: `used` gives each byte to one caller only.
unsafe impl Sync for Reserve {}

impl Reserve {
    const fn new() -> Self {
        Reserve { bytes: UnsafeCell::new([0; RESERVE_BYTES]), used: AtomicUsize::new(0) }
    }

    fn take(&self, layout: Layout) -> Option<*mut u8> {
        // Addresses are aligned as their distance from the front is.
        let align = layout.align();
        if align > align_of::<Self>() {
            return None;
        }
        let place = |used: usize| used.checked_next_multiple_of(align);
        let end = |used: usize| {
            place(used)?.checked_add(layout.size()).filter(|&end| end <= RESERVE_BYTES)
        };
        let order = Ordering::Relaxed;
        let used = self.used.fetch_update(order, order, end).ok()?;
        Some(self.bytes.get().cast::<u8>().wrapping_add(place(used)?))
    }

    #[inline]
    fn holds(&self, start: *mut u8) -> bool {
        start.addr().wrapping_sub(self.bytes.get().addr()) < RESERVE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(bytes: usize, align: usize) -> Layout {
        Layout::from_size_align(bytes, align).expect("a layout")
    }

    #[test]
    fn the_reserve_gives_each_byte_once_aligned_and_no_more_than_it_has() {
        static OWN: Reserve = Reserve::new();
        let reserve = &OWN;
        let first = reserve.take(layout(3, 1)).expect("room");
        let second = reserve.take(layout(100, 64)).expect("room");
        assert!(second.addr() >= first.addr() + 3 && second.addr().is_multiple_of(64));
        assert!(reserve.holds(first) && reserve.holds(second.wrapping_add(99)));
        assert!(reserve.take(layout(8, 8192)).is_none(), "a larger alignment than its own");
        assert!(reserve.take(layout(usize::MAX >> 1, 1)).is_none());
        assert!(reserve.take(layout(RESERVE_BYTES, 1)).is_none());
        let rest = RESERVE_BYTES - (second.addr() + 100 - reserve.bytes.get().addr());
        assert!(reserve.take(layout(rest, 1)).is_some());
        assert!(reserve.take(layout(1, 1)).is_none());
        assert!(!reserve.holds(first.wrapping_sub(1)));
        assert!(!reserve.holds(first.wrapping_add(RESERVE_BYTES)));
    }
}
