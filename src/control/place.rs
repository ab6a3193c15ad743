//! The folder and the socket of this process: made so that no other user can stand in for us, and known to
//! the handlers of forks and ends.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use stage2_contract::control::{PATH_BYTES, SocketName, folders, start_of};

use crate::base::ancestry;

/// Clients that may wait while one is served.
const WAITING: libc::c_int = 16;
/// Descriptors of ours get numbers from here on: see `drain::own_file`.
const FROM: libc::c_int = 48;
/// Names that are tried where there is a socket of that name already.
const NAMES: u32 = 9;

/// The socket of this process, for handlers; null is none. Never freed.
static CURRENT: AtomicPtr<Known> = AtomicPtr::new(ptr::null_mut());

struct Known {
    pid: u32,
    fd: RawFd,
    identity: (u64, u64),
    path: CString,
}

impl Known {
    /// The descriptor has not become another one.
    fn is_ours(&self) -> bool {
        identity(self.fd) == Some(self.identity)
    }
}

/// A socket that listens.
pub(super) struct Socket {
    known: &'static Known,
    pub(super) name: SocketName,
}

impl Socket {
    /// Opens one in the first folder that can be used.
    pub(super) fn open() -> Result<Self, String> {
        // SAFETY: no preconditions.
        let uid = unsafe { libc::geteuid() };
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let read = |path| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let host = read("/proc/sys/kernel/hostname").unwrap_or_default();
        let start =
            start_of(&read("/proc/self/stat")?).ok_or("/proc/self/stat has no start time")?;
        let mut why = Vec::new();
        for folder in folders(uid, runtime) {
            match Self::open_in(&folder, uid, host.trim(), start) {
                Ok(socket) => return Ok(socket),
                Err(error) => why.push(format!("{}: {error}", folder.display())),
            }
        }
        Err(why.join("; "))
    }

    fn open_in(folder: &Path, uid: u32, host: &str, start: u64) -> io::Result<Self> {
        // Held while the socket is made: the path cannot lead elsewhere meanwhile.
        let opened = own_folder(folder, uid)?;
        let name = SocketName::new(host, std::process::id(), start);
        for round in 0..NAMES {
            let mut tried = name.clone();
            if round > 0 {
                // A name that another host or container has taken; the answer tells which process it is.
                tried.host.truncate(24);
                tried.host.push_str(&format!(".{round}"));
            }
            let path = folder.join(tried.to_file_name());
            if path.as_os_str().len() > PATH_BYTES {
                return Err(io::Error::other("the path is too long for a socket"));
            }
            match listen(&path) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
                Ok(socket) => {
                    check_same(&opened, folder)?;
                    return Self::known(socket, tried, &path);
                }
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    fn known(socket: OwnedFd, name: SocketName, path: &Path) -> io::Result<Self> {
        let identity = identity(socket.as_raw_fd()).ok_or_else(io::Error::last_os_error)?;
        let fd = std::os::fd::IntoRawFd::into_raw_fd(socket);
        let path = CString::new(path.as_os_str().as_bytes())?;
        let known = Box::leak(Box::new(Known { pid: std::process::id(), fd, identity, path }));
        // The one before, if any, is left: a handler may be reading it.
        CURRENT.store(known, Ordering::Release);
        Ok(Socket { known, name })
    }

    /// Waits for a client, or for `timeout_ms`; -1: without end.
    pub(super) fn wait(&self, timeout_ms: i32) -> Waited {
        let mut asked = libc::pollfd { fd: self.known.fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        let ready = unsafe { libc::poll(&raw mut asked, 1, timeout_ms) };
        if !self.known.is_ours() {
            return Waited::Lost;
        }
        match ready {
            1.. if asked.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) == 0 => {
                Waited::Client
            }
            1.. => Waited::Lost,
            _ => Waited::Nothing,
        }
    }

    pub(super) fn accept(&self) -> io::Result<OwnedFd> {
        // SAFETY: the descriptor was checked to be ours; the address is not asked for.
        unsafe {
            let (none, flags) = (ptr::null_mut(), libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
            let client = libc::accept4(self.known.fd, none, ptr::null_mut(), flags);
            if client < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(OwnedFd::from_raw_fd(client))
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Client,
    /// The time is over, or a signal came.
    Nothing,
    /// The socket is closed, or its descriptor is another one by now.
    Lost,
}

/// Makes the folder, or checks before and after opening it that it is a folder, ours, and closed to others.
fn own_folder(folder: &Path, uid: u32) -> io::Result<File> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check(&fs::symlink_metadata(folder)?, uid)?;
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
    check(&opened.metadata()?, uid)?;
    check_same(&opened, folder)?;
    Ok(opened)
}

fn check(folder: &fs::Metadata, uid: u32) -> io::Result<()> {
    let objection = match () {
        () if !folder.is_dir() => "it is not a folder (links are not followed)",
        () if folder.uid() != uid => "it belongs to another user",
        () if folder.mode() & 0o077 != 0 => "others may enter it (chmod 700)",
        () => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, objection))
}

fn check_same(opened: &File, folder: &Path) -> io::Result<()> {
    let (opened, now) = (opened.metadata()?, fs::symlink_metadata(folder)?);
    let same = (opened.dev(), opened.ino()) == (now.dev(), now.ino());
    same.then_some(()).ok_or_else(|| io::Error::other("it was replaced while it was opened"))
}

/// A socket at `path` that listens, with a high number and mode 0600: no other user can connect before that,
/// because the folder is closed to others.
fn listen(path: &Path) -> io::Result<OwnedFd> {
    let failed = io::Error::last_os_error;
    // SAFETY: the address is initialised and long enough for the path, which was checked; the descriptors
    // are new and ours.
    unsafe {
        let flags = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let low = libc::socket(libc::AF_UNIX, flags, 0);
        if low < 0 {
            return Err(failed());
        }
        let mut socket = OwnedFd::from_raw_fd(low);
        let high = libc::fcntl(low, libc::F_DUPFD_CLOEXEC, FROM);
        if high >= 0 {
            socket = OwnedFd::from_raw_fd(high);
        }
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
            *to = *from as libc::c_char;
        }
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        if libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) != 0 {
            return Err(failed());
        }
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        if libc::listen(socket.as_raw_fd(), WAITING) != 0 {
            return Err(failed());
        }
        Ok(socket)
    }
}

fn identity(fd: RawFd) -> Option<(u64, u64)> {
    // SAFETY: `status` is only read where the call succeeded.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &raw mut status) == 0).then_some((status.st_dev, status.st_ino))
    }
}

fn current() -> Option<&'static Known> {
    // SAFETY: null, or a box that is never freed.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// The socket of this process, and not of one that it has memory or descriptors of.
fn own() -> Option<&'static Known> {
    let pid = u32::try_from(ancestry::own_pid());
    current().filter(|known| pid == Ok(known.pid))
}

/// Takes the name of the socket away, at the end of the process. Async-signal-safe.
pub(crate) fn remove() {
    if let Some(known) = own() {
        // SAFETY: the path ends in NUL.
        unsafe { libc::unlink(known.path.as_ptr()) };
    }
}

/// Ends the service: its thread wakes and looks why. Async-signal-safe.
pub(crate) fn close() {
    if let Some(known) = own().filter(|known| known.is_ours()) {
        // SAFETY: the descriptor is ours. Whoever waits for it wakes.
        unsafe { libc::shutdown(known.fd, libc::SHUT_RDWR) };
    }
}

/// In a forked child: closes its copy of the parent's socket, so that nobody connects to the parent and
/// waits for ever once it is gone. Async-signal-safe.
pub(crate) fn renew() {
    if let Some(known) = current().filter(|known| known.is_ours()) {
        // SAFETY: the descriptor is the copy of ours.
        unsafe { libc::close(known.fd) };
    }
    CURRENT.store(ptr::null_mut(), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Hazard (Dormant processes and windows): The folder for sockets is a link, or others may
    ///  enter it.
    /// Promise: No socket is made there.
    #[test]
    fn only_a_closed_folder_of_ours_is_used() {
        // SAFETY: no preconditions.
        let uid = unsafe { libc::geteuid() };
        let root = tempfile::tempdir().expect("a folder");
        let new = root.path().join("new");
        own_folder(&new, uid).expect("made");
        assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o700);
        own_folder(&new, uid).expect("found");
        let said = |path: &Path, uid| own_folder(path, uid).unwrap_err().to_string();
        assert!(said(&new, uid + 1).contains("another user"));
        fs::set_permissions(&new, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(said(&new, uid).contains("others may enter"));
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link).unwrap();
        assert!(said(&link, uid).contains("not a folder"));
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(said(&file, uid).contains("not a folder"));
    }
}
