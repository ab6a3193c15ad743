//! Memory of our own from the kernel, in pages of zeros that are taken when they are first written; and reads of
//! this process's memory through the kernel, by which what is gone is an error, never a crash.

use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::{self, NonNull};

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

/// A table in its own pages, which take no memory until they are written to.
pub(crate) struct Zeroed<T> {
    start: NonNull<T>,
    count: usize,
}

// SAFETY: it owns its values as a `Box` of them does.
unsafe impl<T: Send> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Zeroed<T> {}

impl<T> Zeroed<T> {
    /// So many values whose bytes are all zero; none where the process may not have as much.
    ///
    /// # Safety
    /// Such bytes are a `T`, and nothing has to be dropped with it.
    pub(crate) unsafe fn new(count: usize) -> Self {
        const { assert!(align_of::<T>() <= PAGE_BYTES && size_of::<T>() > 0) };
        let bytes = count.checked_mul(size_of::<T>()).filter(|&bytes| bytes > 0);
        let start = bytes.and_then(|bytes| {
            let start = map(bytes, libc::MAP_PRIVATE | libc::MAP_NORESERVE)?;
            // A huge page would be cleared whole at the first touch. A refusal costs only that.
            // SAFETY: the mapping is ours, and its bytes stay what they are.
            unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
            NonNull::new(start.cast())
        });
        match start {
            Some(start) => Zeroed { start, count },
            None => Zeroed { start: NonNull::dangling(), count: 0 },
        }
    }
}

impl<T> Deref for Zeroed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: so many values lie in the mapping, which is there until the drop; the caller of `new`
        // has promised that they are valid. Of none, the address is not read.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        if self.count > 0 {
            // SAFETY: the mapping is ours, and nobody borrows from it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.count * size_of::<T>()) };
        }
    }
}

/// Copies from memory of process `pid`, which is this one; gives how many bytes came. Async-signal-safe.
pub(crate) fn read_own(pid: libc::pid_t, from: &[libc::iovec], place: &mut [u8]) -> usize {
    let to = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
    let all = from.len() as libc::c_ulong;
    // Not through libc's function, which a guest's C library may lack.
    // SAFETY: the kernel writes at most as many bytes as `place` has, and only reads what `from` names: where
    // nothing is, it says so.
    let read = unsafe {
        let (to, from) = (&raw const to, from.as_ptr());
        libc::syscall(
            libc::SYS_process_vm_readv,
            libc::c_long::from(pid),
            to,
            1_usize,
            from,
            all,
            0_usize,
        )
    };
    usize::try_from(read).unwrap_or(0)
}

/// Eight bytes of this process's memory.
pub(crate) fn read_number(pid: libc::pid_t, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let from = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes.len() };
    (read_own(pid, &[from], &mut bytes) == bytes.len()).then(|| u64::from_le_bytes(bytes))
}
