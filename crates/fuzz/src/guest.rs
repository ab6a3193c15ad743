//! Memory of a guest for NVTX calls: each piece ends where memory ends, so that a byte that is read
//! behind it ends the program.

use std::ffi::c_void;

/// Bytes of the longest piece.
pub const MAX_BYTES: usize = 16 * PAGE;
const PAGE: usize = 4096;
/// Pieces that there are at once.
pub const PIECES: usize = 32;

/// Pieces of memory with a page that nobody may touch behind each.
pub struct Memory {
    start: *mut u8,
    used: usize,
}

const EACH: usize = MAX_BYTES + PAGE;

impl Memory {
    /// Reserves all pieces.
    ///
    /// # Panics
    /// When the process may not have so much.
    pub fn new() -> Self {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at a place of the kernel's choice touches nothing that exists.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), EACH * PIECES, access, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "some megabytes of address space");
        let memory = Memory { start: start.cast(), used: 0 };
        for piece in 0..PIECES {
            // SAFETY: the last page of a piece, within the mapping.
            let status = unsafe {
                libc::mprotect(memory.end(piece).cast::<c_void>(), PAGE, libc::PROT_NONE)
            };
            assert_eq!(status, 0, "a page of our own can be closed");
        }
        memory
    }

    fn end(&self, piece: usize) -> *mut u8 {
        // SAFETY: there are `PIECES` pieces, each of `EACH` bytes.
        unsafe { self.start.add(piece * EACH + MAX_BYTES) }
    }

    /// Forgets all pieces.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// A piece with these bytes, and nothing behind them. `None`: there is no piece left, or there are
    /// too many bytes.
    pub fn put(&mut self, bytes: &[u8]) -> Option<*const u8> {
        if self.used == PIECES || bytes.len() > MAX_BYTES {
            return None;
        }
        // SAFETY: so many bytes before the end are in the piece, and can be written to.
        let place = unsafe { self.end(self.used).sub(bytes.len()) };
        // SAFETY: as above; the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        self.used += 1;
        Some(place)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody uses any more.
        unsafe { libc::munmap(self.start.cast(), EACH * PIECES) };
    }
}
