//! Single pages of memory of our own, for what has to survive or to notice a fork.

use std::ptr;
use std::sync::atomic::AtomicU8;

/// Bytes of a page.
pub(super) const PAGE_BYTES: usize = 4096;

/// A new page of zeros, shared with children (`MAP_SHARED`) or copied for them (`MAP_PRIVATE`).
pub(super) fn map(kind: libc::c_int) -> Option<*mut AtomicU8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new page of zeros at a place of the kernel's choice.
    let page =
        unsafe { libc::mmap(ptr::null_mut(), PAGE_BYTES, access, kind | libc::MAP_ANON, -1, 0) };
    (page != libc::MAP_FAILED).then_some(page.cast())
}
