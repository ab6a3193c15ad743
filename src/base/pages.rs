//! Memory of our own from the kernel, in pages of zeros that are taken when they are first written.

use std::ffi::c_void;
use std::ptr;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Maps new memory. `flags`: `MAP_PRIVATE` or `MAP_SHARED` (with children), and what else is wanted of
/// it. `None` where the process may not have as much.
pub fn map(bytes: usize, flags: libc::c_int) -> Option<*mut c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: an anonymous mapping at a place of the kernel's choice touches nothing that exists.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags | libc::MAP_ANON, -1, 0) };
    (start != libc::MAP_FAILED).then_some(start)
}
