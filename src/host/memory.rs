//! Reads the memory of our own process through the kernel: unmapped memory is an error, never a crash.
//!
//! In a system call, each address costs a third of a microsecond, and the bytes cost almost nothing. So one
//! call reads everything that a round is expected to need, as windows, and only the rest is read one by one.

use std::ffi::c_void;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::base::pages::read_own;

/// Windows that are read at once, and their bytes. What finds no room is read when it is asked for.
const WINDOWS: usize = 512;
const WINDOW_BYTES: usize = 256 << 10;

/// A range of memory to read.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    start: u64,
    bytes: usize,
    /// Index of its bytes in the buffer.
    at: usize,
    is_read: bool,
}

/// The memory of this process.
pub(super) struct Memory {
    pid: libc::pid_t,
    /// `/proc/self/mem`, if the system refuses `process_vm_readv`.
    file: Option<File>,
    windows: Vec<Window>,
    buffer: Vec<u8>,
    /// The window of the last [`get`](Self::get): the next read is often in the same one, or in the one
    /// after it.
    last: usize,
}

/// Neither `process_vm_readv` nor `/proc/self/mem` can be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "the system refuses process_vm_readv and /proc/self/mem ({0}), so the collector cannot read Python \
     stacks; allow one of them in the seccomp filter of the process"
)]
pub(super) struct Unreadable(std::io::Error);

impl Memory {
    /// Opens the memory of the calling process. `may_open`: the calling thread can open files unnoticed by
    /// the guest.
    pub(super) fn open(may_open: bool) -> Result<Self, Unreadable> {
        let probe = 0x5374_6167_6532_u64;
        let address = (&raw const probe) as u64;
        let mut memory = Memory {
            pid: std::process::id() as libc::pid_t,
            file: None,
            windows: Vec::with_capacity(WINDOWS),
            buffer: vec![0; WINDOW_BYTES],
            last: 0,
        };
        if memory.number(address) == Some(probe) {
            return Ok(memory);
        }
        let refused = std::io::Error::last_os_error();
        if may_open {
            memory.file = File::open("/proc/self/mem").ok();
        }
        match memory.number(address) {
            Some(number) if number == probe => Ok(memory),
            _ => Err(Unreadable(refused)),
        }
    }

    /// Forgets the windows.
    pub(super) fn clear(&mut self) {
        self.windows.clear();
        self.last = 0;
    }

    /// Adds a window of `bytes` bytes from `start`.
    pub(super) fn want(&mut self, start: u64, bytes: u64) {
        let at = self.windows.last().map_or(0, |last| last.at + last.bytes);
        let Ok(bytes) = usize::try_from(bytes) else { return };
        let has_room =
            at.saturating_add(bytes) <= self.buffer.len() && self.windows.len() < WINDOWS;
        if has_room && bytes > 0 && start.checked_add(bytes as u64).is_some() {
            self.windows.push(Window { start, bytes, at, is_read: false });
        }
    }

    /// Reads the windows. If one cannot be read, the others still are.
    pub(super) fn fill(&mut self) {
        let mut first = 0;
        while first < self.windows.len() {
            let begin = first;
            let mut read = self.read_windows(first);
            while let Some(window) =
                self.windows.get_mut(first).filter(|window| read >= window.bytes)
            {
                read -= window.bytes;
                window.is_read = true;
                first += 1;
            }
            // The kernel stops at the first window that it cannot read completely.
            first = first.max(begin + 1);
        }
    }

    /// Reads the windows from this index, and returns the number of bytes read.
    fn read_windows(&mut self, first: usize) -> usize {
        let Some(windows) = self.windows.get(first..) else { return 0 };
        if let Some(file) = &self.file {
            let Some(&Window { start, bytes, at, .. }) = windows.first() else { return 0 };
            let place = self.buffer.get_mut(at..at + bytes).unwrap_or_default();
            return file.read_at(place, start).unwrap_or(0);
        }
        let mut from = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; WINDOWS];
        for (place, window) in from.iter_mut().zip(windows) {
            *place = libc::iovec { iov_base: window.start as *mut c_void, iov_len: window.bytes };
        }
        // The windows are contiguous in the buffer.
        let begin = windows.first().map_or(0, |window| window.at);
        let end = windows.last().map_or(0, |window| window.at + window.bytes);
        let place = self.buffer.get_mut(begin..end).unwrap_or_default();
        read_own(self.pid, &from[..windows.len()], place)
    }

    /// Fills `place` from `address`. `false`: the memory is not mapped.
    pub(super) fn read(&self, address: u64, place: &mut [u8]) -> bool {
        if let Some(file) = &self.file {
            return file.read_exact_at(place, address).is_ok();
        }
        let from = libc::iovec { iov_base: address as *mut c_void, iov_len: place.len() };
        read_own(self.pid, &[from], place) == place.len()
    }

    /// Does what [`read`](Self::read) does, from the windows if one holds the bytes.
    pub(super) fn get(&mut self, address: u64, place: &mut [u8]) -> bool {
        let bytes = place.len();
        let has = |window: &Window| {
            let into = address.wrapping_sub(window.start);
            (window.is_read && into <= window.bytes as u64 && window.bytes - into as usize >= bytes)
                .then(|| window.at + into as usize)
        };
        let mut order = (self.last..self.windows.len()).chain(0..self.last);
        let found = order.find_map(|index| Some((index, has(self.windows.get(index)?)?)));
        let Some((index, at)) = found else { return self.read(address, place) };
        self.last = index;
        place.copy_from_slice(self.buffer.get(at..at + bytes).unwrap_or_default());
        true
    }

    /// Reads eight bytes.
    pub(super) fn number(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.get(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// Reads four bytes.
    pub(super) fn small_number(&mut self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.get(address, &mut bytes).then(|| u32::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::pages::{self, PAGE_BYTES};

    fn both_ways() -> [Memory; 2] {
        let by_call = Memory::open(false).expect("own memory");
        let mut by_file = Memory::open(false).expect("own memory");
        by_file.file = File::open("/proc/self/mem").ok();
        [by_call, by_file]
    }

    #[test]
    fn windows_that_are_gone_cost_only_themselves() {
        let page = pages::map(PAGE_BYTES, libc::MAP_PRIVATE).expect("a page") as u64;
        // SAFETY: the page is this test's.
        unsafe { libc::munmap(page as *mut c_void, PAGE_BYTES) };
        let numbers: Vec<u64> = (0..1000).collect();
        let start = numbers.as_ptr() as u64;
        for mut memory in both_ways() {
            memory.want(start, 80);
            memory.want(page, 8);
            memory.want(start + 800, 80);
            memory.want(u64::MAX - 3, 80);
            memory.want(start + 1600, 80);
            memory.fill();
            let read: Vec<bool> = memory.windows.iter().map(|window| window.is_read).collect();
            assert_eq!(read, [true, false, true, true]);
            let numbers = [start, start + 1600, start + 72, start + 872, start + 8]
                .map(|address| memory.number(address));
            assert_eq!(numbers, [Some(0), Some(200), Some(9), Some(109), Some(1)]);
            assert_eq!(memory.number(start + 880), Some(110), "in no window");
            assert_eq!(memory.number(start + 76), Some(10 << 32));
            assert_eq!(
                (memory.number(page), memory.number(u64::MAX), memory.number(0)),
                (None, None, None)
            );
        }
    }

    #[test]
    fn windows_beyond_the_room_are_read_when_they_are_asked_for() {
        let numbers: Vec<u64> = (0..2 * WINDOWS as u64).collect();
        let start = numbers.as_ptr() as u64;
        for mut memory in both_ways() {
            memory.want(start, u64::MAX);
            memory.want(start, WINDOW_BYTES as u64 + 1);
            (0..2 * WINDOWS as u64).for_each(|index| memory.want(start + 8 * index, 8));
            memory.fill();
            assert_eq!(memory.windows.len(), WINDOWS);
            for index in [0, 511, 512, 1023, 5] {
                assert_eq!(memory.number(start + 8 * index), Some(index));
            }
            memory.clear();
            memory.fill();
            assert_eq!(memory.number(start + 8), Some(1));
        }
    }
}
