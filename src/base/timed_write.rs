//! Bytes into a file that may be a pipe, a socket or a terminal, within a bounded time: its reader may
//! be slow, gone, or wait for the guest to end first.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::base::futex::{self, Deadline};
use crate::base::signal_mask::{self, CancellationBlock};

/// What a pipe takes as a whole, and has room for when it is ready.
const PIECE_BYTES: usize = libc::PIPE_BUF;
/// Between two tries where readiness and room are not the same.
const RETRY: Duration = Duration::from_millis(1);

/// The last line to the guest's stderr timed out: the next one does not wait.
static STDERR_STUCK: AtomicBool = AtomicBool::new(false);

/// Writes to the guest's stderr: not through std's handle, because the guest may hold its lock
/// for ever. `TimedOut` where not all was taken within `patience`. Does not allocate.
pub fn write_stderr(bytes: &[u8], patience: Duration) -> io::Result<()> {
    let patience = if STDERR_STUCK.load(Ordering::Relaxed) { Duration::ZERO } else { patience };
    // SAFETY: fd 2 is borrowed for this call. It may be closed, or another file by now, as for
    // everybody who writes to it: at worst the write fails.
    let stderr = unsafe { BorrowedFd::borrow_raw(2) };
    let result = write(stderr, bytes, patience);
    let stuck = result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
    STDERR_STUCK.store(stuck, Ordering::Relaxed);
    result
}

/// Writes to any file. What is not taken within `patience` is not written.
pub fn write(file: BorrowedFd<'_>, bytes: &[u8], patience: Duration) -> io::Result<()> {
    let _uncancelled = CancellationBlock::default();
    signal_mask::without_signals(|| write_pieces(file, bytes, Deadline::after(patience)))
}

fn write_pieces(file: BorrowedFd<'_>, bytes: &[u8], deadline: Deadline) -> io::Result<()> {
    let mut without_wait = is_pipe_or_socket(file);
    let mut rest = bytes;
    while !rest.is_empty() {
        if !has_room(file, deadline) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let piece = &rest[..rest.len().min(PIECE_BYTES)];
        match write_piece(file, piece, without_wait) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
            Err(error) => match error.kind() {
                // Another writer was faster, or a signal came.
                kind @ (io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    let left = deadline.left();
                    if left.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    if kind == io::ErrorKind::WouldBlock {
                        futex::nap(RETRY.min(left));
                    }
                }
                // Older kernels cannot promise not to wait, or not for this file.
                kind if without_wait && kind != io::ErrorKind::BrokenPipe => without_wait = false,
                _ => return Err(error),
            },
        }
    }
    Ok(())
}

/// Waits until the file takes a piece, or would report an error to a writer.
fn has_room(file: BorrowedFd<'_>, deadline: Deadline) -> bool {
    loop {
        let left = deadline.left();
        let mut asked = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one valid entry.
        let ready = unsafe { libc::poll(&raw mut asked, 1, left.as_millis() as _) };
        if ready > 0 {
            return true;
        }
        if left < RETRY && ready <= 0 {
            return false;
        }
        if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            // The write tells what is wrong.
            return true;
        }
    }
}

/// Another writer may have taken the room since: where the system knows how to, nothing waits. Not
/// through libc: some have no such function, and a program with one of these would not start.
fn write_piece(file: BorrowedFd<'_>, piece: &[u8], without_wait: bool) -> io::Result<usize> {
    let parts = libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
    let (file, parts, position) = (file.as_raw_fd(), &raw const parts, -1 as libc::c_long);
    // SAFETY: one part, which is initialised memory and only read; -1 means the file's position.
    let taken = unsafe {
        if without_wait {
            let flags = libc::RWF_NOWAIT;
            libc::syscall(libc::SYS_pwritev2, file, parts, 1, position, position, flags)
        } else {
            libc::writev(file, parts, 1) as libc::c_long
        }
    };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}

fn is_pipe_or_socket(file: BorrowedFd<'_>) -> bool {
    // SAFETY: `status` is only read where the call succeeded.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        libc::fstat(file.as_raw_fd(), &raw mut status) == 0
            && matches!(status.st_mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFSOCK)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::time::Instant;

    use super::*;

    /// Far beyond what any of these takes where nothing is wrong.
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_pipe_that_nobody_reads_takes_what_it_has_room_for_and_no_time_without_bound() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let started = Instant::now();
        let result = write(writer.as_fd(), &[7; 1 << 20], Duration::from_millis(30));
        assert!(result.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut));
        assert!(started.elapsed() < LONG, "{:?}", started.elapsed());
        drop(reader);
    }

    #[test]
    fn a_pipe_that_is_read_slowly_gets_everything() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let reading = std::thread::spawn(move || {
            let mut taken = Vec::new();
            let mut some = [0; 5000];
            while let Ok(count @ 1..) = reader.read(&mut some) {
                taken.extend_from_slice(&some[..count]);
                std::thread::sleep(Duration::from_micros(100));
            }
            taken
        });
        let bytes: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
        write(writer.as_fd(), &bytes, LONG).expect("taken");
        drop(writer);
        assert!(reading.join().expect("read") == bytes);
    }

    #[test]
    fn a_plain_file_takes_everything_and_at_its_position() {
        let mut file = tempfile::tempfile().expect("a file");
        for text in ["a".repeat(10_000), "b".to_owned()] {
            write(file.as_fd(), text.as_bytes(), Duration::ZERO).expect("taken");
        }
        let mut text = String::new();
        io::Seek::rewind(&mut file).expect("rewound");
        file.read_to_string(&mut text).expect("read");
        assert_eq!(text, "a".repeat(10_000) + "b");
    }

    #[test]
    fn a_pipe_whose_reader_is_gone_kills_nobody() {
        // Rust's own start-up ignores the signal: as in a C guest.
        // SAFETY: the default action, which is what this is about.
        let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let result = write(writer.as_fd(), b"x", LONG);
        assert!(result.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe));
        // SAFETY: what it was.
        unsafe { libc::signal(libc::SIGPIPE, before) };
    }
}
