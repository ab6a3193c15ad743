//! A signal to be handed on -> trace files that are up to date before it ends the workload.
//!
//! The collectors of a pass map a page of memory and look at it every few milliseconds. It is the
//! page that `src/flush_request.rs` describes; this side reads and writes it as a file. It is sealed
//! against shrinking, so that a collector's look at it never fails.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

// As a system call: glibc has a function for it from 2.27 on only.
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

const PAGE_BYTES: u64 = 4096;
/// Where the numbers stand in the page, after the nonce.
const WISHES: u64 = 8;
const WATCHERS: u64 = 12;
const GRANTED: u64 = 16;

/// The longest that a signal is held back.
const PATIENCE: Duration = Duration::from_millis(200);
/// Between two looks at the page.
const NAP: Duration = Duration::from_millis(2);

/// The page, as long as this program and the processes that map it live.
pub(crate) struct FlushPage {
    file: File,
    nonce: u64,
}

impl FlushPage {
    /// Makes the page.
    pub(crate) fn new() -> io::Result<FlushPage> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create(c"stage2-flush", flags)?);
        file.set_len(PAGE_BYTES)?;
        let nonce = RandomState::new().build_hasher().finish();
        file.write_all_at(&nonce.to_ne_bytes(), 0)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(FlushPage { file, nonce })
    }

    /// The value of [`crate::plan::FLUSH_PAGE`]. The descriptor itself is not handed down: programs may count
    /// theirs.
    pub(crate) fn value(&self) -> OsString {
        let (pid, fd) = (std::process::id(), self.file.as_raw_fd());
        format!("/proc/{pid}/fd/{fd}:{}", self.nonce).into()
    }

    /// Asks all collectors to flush, and waits until they have, for a short time. A collector whose
    /// process was killed, crashed or became another program by an exec is waited for in vain, at
    /// each signal.
    pub(crate) fn ask(&self) {
        // Memory of our own: a failure would be a bug, and costs the last flush period at most.
        let _ = self.try_ask();
    }

    fn try_ask(&self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let granted = self.read(GRANTED)?;
        let wishes = self.read(WISHES)?.wrapping_add(1);
        self.file.write_all_at(&wishes.to_ne_bytes(), WISHES)?;
        while self.read(GRANTED)?.wrapping_sub(granted) < self.read(WATCHERS)?
            && Instant::now() < deadline
        {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    fn read(&self, at: u64) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(u32::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_waits_for_those_who_look_and_not_without_end() {
        let page = FlushPage::new().expect("memory");
        let started = Instant::now();
        page.ask();
        assert_eq!(page.read(WISHES).expect("memory"), 1);
        assert!(started.elapsed() < PATIENCE, "nobody looks: nobody is waited for");
        page.file.write_all_at(&1u32.to_ne_bytes(), WATCHERS).expect("memory");
        let started = Instant::now();
        page.ask();
        // A machine that is busy wakes a thread late, so the upper bound is loose; the limit itself
        // is compared as it is.
        assert!((PATIENCE..PATIENCE * 20).contains(&started.elapsed()), "{:?}", started.elapsed());
        assert!(PATIENCE <= Duration::from_millis(200), "a signal is not held back longer");
        assert!(page.file.set_len(0).is_err(), "sealed");
    }
}
