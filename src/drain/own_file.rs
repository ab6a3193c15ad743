//! A file of ours among the descriptors of the guest, into a sink that writes to no other file.
//!
//! Guests close descriptors that they do not know (daemons close all), and get the number of ours
//! for the next file that they open. So ours is out of the way of small numbers, is looked at
//! before each write, and is opened again where it was closed.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::rc::Rc;

use stage2_contract::trace::Writer;

use crate::base::new_file;

/// Ours get numbers from here on, where the guest's limit is not lower: above what most guests
/// reach, and below 64, from where on the kernel's table would have to grow, which takes
/// milliseconds in a process with threads.
const FROM: i32 = 48;

/// How often a file is opened again. A guest that closes it more often does not want it open.
const REOPENINGS: u32 = 3;

pub(super) struct OwnFile {
    /// Not closed where it has become another one.
    file: ManuallyDrop<File>,
    identity: (u64, u64),
    gauge: Rc<Gauge>,
    path: PathBuf,
    /// How often it may still be opened again.
    reopenings: u32,
}

pub(super) struct Gauge {
    /// Bytes that the file took.
    pub(super) written: Cell<u64>,
    /// Bytes that it takes at most.
    pub(super) limit: Cell<u64>,
    /// The next flush is the last one.
    pub(super) ends: Cell<bool>,
}

pub(super) struct NewFile {
    pub(super) writer: Writer<OwnFile>,
    pub(super) path: PathBuf,
    pub(super) gauge: Rc<Gauge>,
}

impl NewFile {
    /// Creates a file that was not there, and begins a trace in it. Nothing stays of one that cannot be begun.
    pub(super) fn create(path: PathBuf) -> io::Result<NewFile> {
        let file = new_file::create(&path)?;
        let begun = OwnFile::new(file, path.clone()).and_then(|file| {
            let gauge = Rc::clone(&file.gauge);
            Ok((Writer::new(file)?, gauge))
        });
        match begun {
            Ok((writer, gauge)) => Ok(NewFile { writer, path, gauge }),
            Err(error) => {
                // Ours, and empty; where that fails as well, a reader says that it is cut.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }
}

/// The descriptor is closed, or another file by now.
#[derive(Debug, thiserror::Error)]
#[error("the process closed the trace file's descriptor")]
pub(super) struct LostDescriptor;

impl LostDescriptor {
    pub(super) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|error| error.is::<LostDescriptor>())
    }
}

impl OwnFile {
    /// Moves a file that was opened just now at `path` out of the guest's way.
    pub(super) fn new(file: File, path: PathBuf) -> io::Result<Self> {
        let file = moved(file)?;
        let identity = identity(&file)?;
        let gauge = Rc::new(Gauge {
            written: Cell::new(0),
            limit: Cell::new(u64::MAX),
            ends: Cell::new(false),
        });
        let (file, reopenings) = (ManuallyDrop::new(file), REOPENINGS);
        Ok(OwnFile { file, identity, gauge, path, reopenings })
    }

    fn is_ours(&self) -> bool {
        identity(&self.file).is_ok_and(|now| now == self.identity)
    }

    /// Opens it again, to go on at its end. `false` where another file, or none, lies there by now.
    fn reopen(&mut self) -> bool {
        let Some(left) = self.reopenings.checked_sub(1) else { return false };
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = options.open(&self.path).and_then(moved);
        // What fails now may work at the next flush: a process runs out of descriptors for a while.
        let Ok(file) = file.map(ManuallyDrop::new) else { return false };
        self.reopenings = left;
        // The old number is the guest's.
        self.file = file;
        // A file that was deleted leaves its number to the next one; that one is not as long.
        let length = self.file.metadata().map(|file| file.len());
        let ours = self.is_ours() && length.is_ok_and(|length| length == self.gauge.written.get());
        if !ours {
            // SAFETY: opened above by nobody else. What has its number next is not taken for ours: its
            // identity is another one.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
        ours
    }
}

impl Write for OwnFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_ours() && !self.reopen() {
            return Err(io::Error::other(LostDescriptor));
        }
        let Gauge { written, limit, .. } = &*self.gauge;
        if written.get().saturating_add(bytes.len() as u64) > limit.get() {
            let why = "the piece is full, and no further one can be begun";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        let taken = self.file.write(bytes)?;
        written.set(written.get() + taken as u64);
        Ok(taken)
    }

    /// At the end: file systems of other machines tell only when a file is closed that a quota was used up.
    fn flush(&mut self) -> io::Result<()> {
        if !self.gauge.ends.get() || !self.is_ours() {
            return Ok(());
        }
        // The guest may have no descriptor left.
        let Ok(same) = self.file.try_clone() else { return Ok(()) };
        // SAFETY: the descriptor was made here, and nobody else has it.
        let closed = unsafe { libc::close(same.into_raw_fd()) };
        let error = io::Error::last_os_error();
        if closed == 0 || error.kind() == io::ErrorKind::Interrupted {
            return Ok(());
        }
        Err(io::Error::new(error.kind(), format!("closing it: {error}")))
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: not used after this.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|file| (file.dev(), file.ino()))
}

/// The file under a high descriptor number. Without room there it keeps its number, unless that is
/// one of the three that a guest writes to without having opened them.
fn moved(file: File) -> io::Result<File> {
    let limit = {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the place is valid; where the call fails, the limit stays 0.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        i32::try_from(limit.rlim_cur).unwrap_or(i32::MAX)
    };
    let high = FROM.min(limit.saturating_sub(limit / 16 + 1));
    for from in [high.max(3), 3] {
        // SAFETY: the file is open; the call makes a descriptor that nobody else has.
        unsafe {
            let number = libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, from);
            if number >= 0 {
                return Ok(OwnedFd::from_raw_fd(number).into());
            }
        }
    }
    let error = io::Error::last_os_error();
    if file.as_raw_fd() > 2 { Ok(file) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_out_of_the_way_and_is_closed_with_its_owner() {
        let own = OwnFile::new(tempfile::tempfile().expect("a file"), PathBuf::new());
        let own = own.expect("a file of ours");
        let number = own.file.as_raw_fd();
        assert!(number >= FROM, "{number}");
        drop(own);
        let link = format!("/proc/self/fd/{number}");
        assert!(std::fs::read_link(link).is_err(), "closed");
    }
}
