//! Reads of this process's memory through the kernel: what is gone is an error, never a crash.

use std::ffi::c_void;

/// Copies from memory of process `pid`, which is this one; gives how many bytes came. Async-signal-safe.
pub(crate) fn copy(pid: libc::pid_t, from: &[libc::iovec], place: &mut [u8]) -> usize {
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
pub(crate) fn number(pid: libc::pid_t, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let from = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes.len() };
    (copy(pid, &[from], &mut bytes) == bytes.len()).then(|| u64::from_le_bytes(bytes))
}
