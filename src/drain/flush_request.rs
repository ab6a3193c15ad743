//! The launcher's wish that trace files be brought up to date, because it is about to hand on a
//! signal that may end this process.
//!
//! It is a page of memory that all processes of a run share ([`FlushPage`]). It cannot shrink (a seal), so that
//! no look at it ever fails.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr;
use std::sync::atomic::Ordering;

use stage2_contract::control::{FLUSH_PAGE_BYTES, FlushPage};

/// This process looks for wishes until it is dropped.
pub(crate) struct FlushRequest {
    page: &'static FlushPage,
    seen: u32,
}

impl FlushRequest {
    /// Finds the page that `STAGE2_FLUSH_PAGE` names, as it stood at the start. `None` where no launcher offers one: nothing is
    /// lost but the last flush period of a process that a signal ends.
    pub(crate) fn find(value: &OsStr) -> Option<Self> {
        let bytes = value.as_bytes();
        let colon = bytes.iter().rposition(|&byte| byte == b':')?;
        let nonce = std::str::from_utf8(bytes.get(colon + 1..)?).ok()?.parse::<u64>().ok()?;
        // A pipe of that name would be waited for.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(OsStr::from_bytes(bytes.get(..colon)?))
            .ok()?;
        let page = map(&file)?;
        if page.nonce.load(Ordering::Acquire) != nonce {
            // The process with that number is another one by now, or here.
            return None;
        }
        page.watchers.fetch_add(1, Ordering::AcqRel);
        Some(FlushRequest { page, seen: page.wishes.load(Ordering::Acquire) })
    }

    /// Whether there is a wish that was not granted yet. One load.
    pub(crate) fn is_pending(&self) -> bool {
        self.page.wishes.load(Ordering::Acquire) != self.seen
    }

    /// Does not look for a while: nobody waits for this process then.
    pub(crate) fn look_away(&self) {
        self.page.watchers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Looks again. Wishes of the time between are not for this process.
    pub(crate) fn look_again(&mut self) {
        self.page.watchers.fetch_add(1, Ordering::AcqRel);
        self.seen = self.page.wishes.load(Ordering::Acquire);
    }

    /// The trace file holds everything that was there when [`FlushRequest::is_pending`] last was true.
    pub(crate) fn grant(&mut self) {
        self.seen = self.page.wishes.load(Ordering::Acquire);
        self.page.granted.fetch_add(1, Ordering::AcqRel);
    }
}

impl Drop for FlushRequest {
    fn drop(&mut self) {
        self.page.watchers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Maps a file whose first page can neither be cut off nor taken away. It stays mapped.
fn map(file: &File) -> Option<&'static FlushPage> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the descriptor is open; the mapping is new and shared with processes that use it through
    // atomics, as we do. With the seal and the size checked, it has memory as long as it is mapped.
    unsafe {
        let seals = libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS);
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return None;
        }
        if file.metadata().ok()?.len() < FLUSH_PAGE_BYTES as u64 {
            return None;
        }
        let fd = file.as_raw_fd();
        let page = libc::mmap(ptr::null_mut(), FLUSH_PAGE_BYTES, access, libc::MAP_SHARED, fd, 0);
        if page == libc::MAP_FAILED { None } else { page.cast::<FlushPage>().as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn page(seals: i32) -> File {
        // SAFETY: the name ends in NUL; the descriptor is new.
        unsafe {
            let fd = libc::memfd_create(c"page".as_ptr(), libc::MFD_ALLOW_SEALING);
            let file = File::from_raw_fd(fd);
            file.set_len(FLUSH_PAGE_BYTES as u64).expect("memory");
            file.write_all_at(&7u64.to_ne_bytes(), FlushPage::NONCE).expect("memory");
            assert_eq!(libc::fcntl(fd, libc::F_ADD_SEALS, seals), 0);
            file
        }
    }

    fn find(file: &File, nonce: u64) -> Option<FlushRequest> {
        FlushRequest::find(OsStr::new(&format!("/proc/self/fd/{}:{nonce}", file.as_raw_fd())))
    }

    fn numbers(file: &File) -> [u32; 3] {
        let mut bytes = [0; 12];
        file.read_exact_at(&mut bytes, FlushPage::WISHES).expect("memory");
        [0, 4, 8].map(|at| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes")))
    }

    #[test]
    fn a_wish_is_seen_once_and_granted() {
        let file = page(libc::F_SEAL_SHRINK);
        let mut request = find(&file, 7).expect("the page");
        assert!(!request.is_pending());
        file.write_all_at(&1u32.to_ne_bytes(), FlushPage::WISHES).expect("memory");
        assert!(request.is_pending());
        request.grant();
        assert!(!request.is_pending());
        assert_eq!(numbers(&file), [1, 1, 1]);
        drop(request);
        assert_eq!(numbers(&file), [1, 0, 1]);
    }

    /// Hazard (Hostile environments): The page for flush requests is cut off or belongs to another user.
    /// Promise: It is not read.
    #[test]
    fn other_files_are_left_alone() {
        assert!(find(&page(0), 7).is_none(), "it could be cut off");
        assert!(find(&page(libc::F_SEAL_SHRINK), 8).is_none(), "another one");
        let plain = tempfile::NamedTempFile::new().expect("a file");
        for value in ["", "7", "/nonexistent:7", "/dev/zero:0", "/proc/self/fd/1:x"] {
            assert!(FlushRequest::find(OsStr::new(value)).is_none(), "{value}");
        }
        let value = format!("{}:0", plain.path().display());
        assert!(FlushRequest::find(OsStr::new(&value)).is_none());
    }
}
