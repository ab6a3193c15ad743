//! A signal to be handed on -> trace files that are up to date before it ends the workload.
//!
//! The collectors of a pass map a page of memory ([`stage2_contract::control::FlushPage`]) and look at it every few
//! milliseconds; this side reads and writes it as a file. It is sealed against shrinking, so that a collector's
//! look at it never fails.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

// As a system call: glibc has a function for it from 2.27 on only.
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use stage2_contract::control::{FLUSH_PAGE_BYTES, FlushPage};

/// The longest that a signal is held back.
const PATIENCE: Duration = Duration::from_millis(200);
/// Between two looks at the page.
const NAP: Duration = Duration::from_millis(2);

/// The page as a file, as long as this program and the processes that map it live.
pub(crate) struct FlushFile {
    file: File,
    nonce: u64,
}

impl FlushFile {
    /// Makes the page.
    pub(crate) fn new() -> io::Result<FlushFile> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create(c"stage2-flush", flags)?);
        file.set_len(FLUSH_PAGE_BYTES as u64)?;
        let nonce = RandomState::new().build_hasher().finish();
        file.write_all_at(&nonce.to_ne_bytes(), FlushPage::NONCE)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(FlushFile { file, nonce })
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
        let granted = self.read(FlushPage::GRANTED)?;
        let wishes = self.read(FlushPage::WISHES)?.wrapping_add(1);
        self.file.write_all_at(&wishes.to_ne_bytes(), FlushPage::WISHES)?;
        while self.read(FlushPage::GRANTED)?.wrapping_sub(granted)
            < self.read(FlushPage::WATCHERS)?
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
        let page = FlushFile::new().expect("memory");
        let started = Instant::now();
        page.ask();
        assert_eq!(page.read(FlushPage::WISHES).expect("memory"), 1);
        assert!(started.elapsed() < PATIENCE, "nobody looks: nobody is waited for");
        page.file.write_all_at(&1u32.to_ne_bytes(), FlushPage::WATCHERS).expect("memory");
        let started = Instant::now();
        page.ask();
        // A machine that is busy wakes a thread late, so the upper bound is loose; the limit itself
        // is compared as it is.
        assert!((PATIENCE..PATIENCE * 20).contains(&started.elapsed()), "{:?}", started.elapsed());
        assert!(PATIENCE <= Duration::from_millis(200), "a signal is not held back longer");
        assert!(page.file.set_len(0).is_err(), "sealed");
    }
}
