//! Before a signal that may end another process: asks that process, where it is recorded, to write its trace
//! file, through its control socket. Async-signal-safe and bounded, whatever the other one does.

use std::ffi::{c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use stage2_contract::control::{PATH_BYTES, Verb, pid_in};

use crate::base::ancestry::own_pid;
use crate::base::barrier;
use crate::base::futex::Deadline;

/// Signals that are sent to end a process. Others are sent by the thousand, to be handled.
const ASKED: [c_int; 6] =
    [libc::SIGTERM, libc::SIGKILL, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGABRT];
// A handler may stand on a stack of a few KiB: these are small.
/// Processes of a group that are asked.
const MOST: usize = 16;
/// Pieces of a folder that are read, of about 8 sockets each: those of processes that were killed stay there.
const PIECES: u32 = 512;
/// Behind a socket's folder and `/`.
const OF_NAME: usize = 19;

/// The folders of this user's sockets, where this process asks others: those of [`stage2_contract::control::folders`].
/// Found at the start, because to read the environment takes the C library's word that nobody changes it.
static FOLDERS: OnceLock<[Option<SocketPath>; 2]> = OnceLock::new();

pub(super) fn begin() {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // SAFETY: no preconditions.
    let folders = stage2_contract::control::folders(unsafe { libc::geteuid() }, runtime);
    let at = |number: usize| {
        folders.get(number).and_then(|folder| SocketPath::of(&[folder.as_os_str().as_bytes()]))
    };
    FOLDERS.get_or_init(|| [at(0), at(1)]);
}

/// A descriptor that is closed when this is dropped.
struct Open(c_int);

impl Open {
    fn new(result: libc::c_long) -> Option<Self> {
        (result >= 0).then_some(Open(result as c_int))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

/// The path of a socket, or of its folder, with room for the NUL that ends it.
#[derive(Clone, Copy, Debug)]
struct SocketPath {
    bytes: [u8; PATH_BYTES + 1],
    used: usize,
}

impl SocketPath {
    fn of(parts: &[&[u8]]) -> Option<Self> {
        let empty = SocketPath { bytes: [0; PATH_BYTES + 1], used: 0 };
        parts.iter().try_fold(empty, |path, part| path.with(part))
    }

    fn with(mut self, part: &[u8]) -> Option<Self> {
        self.bytes[..PATH_BYTES].get_mut(self.used..self.used + part.len())?.copy_from_slice(part);
        self.used += part.len();
        Some(self)
    }
}

/// `signal` is about to be sent to `target`, as `kill` takes it; no wait goes beyond the deadline.
pub(super) fn ask(target: libc::pid_t, signal: c_int, deadline: Deadline) {
    let Some(folders) = FOLDERS.get().filter(|_| ASKED.contains(&signal) && !barrier::is_inside())
    else {
        return;
    };
    let mut asked: [Option<Open>; MOST] = [const { None }; MOST];
    let mut places = asked.iter_mut();
    let mut meet = |folder: &SocketPath, name: &[u8]| {
        let pid = std::str::from_utf8(name).ok().and_then(pid_in);
        if let Some(pid) = pid.and_then(|pid| pid.try_into().ok())
            && is_meant(target, pid)
            && let Some(path) = folder.with(b"/").and_then(|path| path.with(name))
            && let Some(client) = asked_at(&path, pid, signal)
            && let Some(place) = places.next()
        {
            *place = Some(client);
        }
    };
    // SAFETY: no preconditions.
    let uid = unsafe { libc::geteuid() };
    for folder in folders.iter().flatten() {
        each_name(folder, uid, |name| meet(folder, name));
    }
    let mut waits: [libc::pollfd; MOST] =
        [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; MOST];
    let mut left = 0;
    for (wait, client) in waits.iter_mut().zip(asked.iter().flatten()) {
        wait.fd = client.0;
        left += 1;
    }
    while left > 0 {
        let time = deadline.left();
        let mut time =
            libc::timespec { tv_sec: 0, tv_nsec: libc::c_long::from(time.subsec_nanos() as i32) };
        // SAFETY: the entries and the time are valid; no mask is given.
        let ready = unsafe {
            let (all, none) = (waits.as_mut_ptr(), std::ptr::null::<libc::sigset_t>());
            libc::syscall(libc::SYS_ppoll, all, MOST, &raw mut time, none, 8)
        };
        for wait in waits.iter_mut().filter(|wait| wait.fd >= 0 && wait.revents != 0 && ready > 0) {
            // An answer, or nobody is there any more.
            wait.fd = -1;
            left -= 1;
        }
        if deadline.left().is_zero() {
            return;
        }
    }
}

/// Whether a signal to `target` goes to the process `pid`, which is not this one.
fn is_meant(target: libc::pid_t, pid: libc::pid_t) -> bool {
    // SAFETY: no preconditions.
    let group = unsafe { libc::getpgid(pid) };
    let meant = match target {
        1.. => pid == target,
        // SAFETY: no preconditions.
        0 => group == unsafe { libc::getpgrp() },
        -1 => group >= 0,
        target => target.checked_neg() == Some(group),
    };
    meant && pid != own_pid()
}

/// Gives `meet` each name in a folder that is ours and closed to others.
fn each_name(folder: &SocketPath, uid: libc::uid_t, mut meet: impl FnMut(&[u8])) {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let path = folder.bytes.as_ptr();
    // SAFETY: the path ends in NUL.
    let opened = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags) };
    let Some(opened) = Open::new(opened) else { return };
    // SAFETY: `status` is read where the call succeeded.
    let ours = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        libc::fstat(opened.0, &raw mut status) == 0
            && status.st_uid == uid
            && status.st_mode & 0o077 == 0
    };
    if !ours {
        return;
    }
    // Aligned for what the kernel writes.
    let mut piece = [0u64; 64];
    for _ in 0..PIECES {
        let room = size_of_val(&piece);
        // SAFETY: the room is as large as told; the kernel fills in whole entries.
        let bytes = unsafe {
            let taken = libc::syscall(libc::SYS_getdents64, opened.0, piece.as_mut_ptr(), room);
            let Ok(taken @ 1..) = usize::try_from(taken) else { return };
            std::slice::from_raw_parts(piece.as_ptr().cast::<u8>(), taken.min(room))
        };
        let mut rest = bytes;
        while let Some(&[low, high]) = rest.get(16..18) {
            let length = usize::from(u16::from_ne_bytes([low, high]));
            let Some((entry, behind)) = rest.split_at_checked(length.max(OF_NAME)) else { break };
            rest = behind;
            meet(entry[OF_NAME..].split(|&byte| byte == 0).next().unwrap_or_default());
        }
    }
}

/// Asks who listens at `path`, if that is the process `pid`; nobody waits for the answer here. The socket of a
/// container that shares the folder may have the name of another process here.
fn asked_at(path: &SocketPath, pid: libc::pid_t, signal: c_int) -> Option<Open> {
    let line = Verb::ending(signal.try_into().ok()?);
    // SAFETY: the address is initialised, and as long as told; the line is only read.
    unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let client = Open::new(libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0))?;
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, from) in address.sun_path.iter_mut().zip(path.bytes) {
            *to = from as c_char;
        }
        let length = size_of::<libc::sockaddr_un>();
        if libc::syscall(libc::SYS_connect, client.0, &raw const address, length) != 0 {
            return None;
        }
        let mut peer: libc::ucred = std::mem::zeroed();
        let mut room = size_of::<libc::ucred>() as libc::socklen_t;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        let known =
            libc::getsockopt(client.0, level, option, (&raw mut peer).cast(), &raw mut room);
        if known != 0 || peer.pid != pid {
            return None;
        }
        let (bytes, none) = (line.as_ptr(), std::ptr::null::<libc::sockaddr>());
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let sent = libc::syscall(libc::SYS_sendto, client.0, bytes, line.len(), flags, none, 0);
        (sent == line.len() as libc::c_long).then_some(client)
    }
}
