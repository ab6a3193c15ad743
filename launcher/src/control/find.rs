//! A process, a run, or everything of this user -> the control sockets that are meant.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use stage2_contract::control::{SocketName, Verb, folders, start_of};
use stage2_contract::text::visible_path;

use super::ask::ask;
use super::found::Found;

/// Sockets of one folder that are looked at; a server has hundreds of processes at most.
const SOCKETS: usize = 4096;
/// Bytes of a process's environment that are read.
const ENVIRONMENT_BYTES: usize = 1 << 20;

/// What the user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// One process, as it is numbered here.
    Process(u32),
    /// The processes that write into the folder of a run.
    Run(PathBuf),
    /// All processes of this user that have a socket on this host.
    All,
}

/// Why nothing can be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    #[error(
        "there is no process {0}; `stage2-launch ctl --all status` lists those that can be asked"
    )]
    Dead(u32),
    #[error(
        "process {pid} belongs to user {owner}: ask as that user or as root (sudo stage2-launch ctl {pid} ...)"
    )]
    Foreign { pid: u32, owner: u32 },
    #[error(
        "process {pid} has no control socket in {folders}: it does not run under the collector, was started \
         with STAGE2_CONTROL=off, has not used NVTX or CUDA yet, or is ending; start it with \
         `stage2-launch run --light -- ...` or LD_PRELOAD=libstage2.so"
    )]
    NoSocket { pid: u32, folders: String },
    #[error("{what} cannot be used: {why}; nobody is asked there")]
    Unsafe { what: String, why: &'static str },
    #[error(
        "no process of this user writes into {0} now; a run that is over, or runs elsewhere, cannot be asked"
    )]
    NoneOfRun(String),
    #[error("no process of this user has a control socket on this host (in {0})")]
    Nobody(String),
}

/// The sockets of a target.
pub(crate) fn find(target: &Target) -> Result<Vec<Found>, FindError> {
    match target {
        Target::Process(pid) => of_process(*pid).map(|found| vec![found]),
        Target::All => {
            let (found, looked) = of_user()?;
            if found.is_empty() { Err(FindError::Nobody(listed(&looked))) } else { Ok(found) }
        }
        Target::Run(folder) => {
            let (found, _) = of_user()?;
            let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let wanted = [real(folder), real(&folder.join("collector"))];
            let writes_there = |found: &Found| {
                let status = ask(found, &Verb::Status).ok();
                let out = status.and_then(|status| status.get("option.out").map(PathBuf::from));
                out.is_some_and(|out| wanted.contains(&real(&out)))
            };
            let found: Vec<Found> = found.into_iter().filter(writes_there).collect();
            if found.is_empty() {
                Err(FindError::NoneOfRun(visible_path(folder)))
            } else {
                Ok(found)
            }
        }
    }
}

fn runtime() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
}

fn listed(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| visible_path(folder)).collect::<Vec<_>>().join(", ")
}

/// All sockets of this user, in the folders for them.
fn of_user() -> Result<(Vec<Found>, Vec<PathBuf>), FindError> {
    let owner = geteuid().as_raw();
    let looked = folders(owner, runtime());
    let mut found = Vec::new();
    for folder in &looked {
        for (name, path) in sockets(folder, owner)? {
            found.push(Found { pid: name.pid, path, name });
        }
    }
    found.sort_by_key(|found| found.pid);
    Ok((found, looked))
}

/// The socket of a process, which may run in a container and then has another number there.
fn of_process(pid: u32) -> Result<Found, FindError> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let read = |file: &str| fs::read_to_string(proc.join(file)).ok();
    let start = read("stat").and_then(|stat| start_of(&stat)).ok_or(FindError::Dead(pid))?;
    let status = read("status").unwrap_or_default();
    let field = |name: &str, at: Option<usize>| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let mut words = line.split_whitespace();
        let word = match at {
            Some(at) => words.nth(at),
            None => words.next_back(),
        };
        word?.parse::<u32>().ok()
    };
    // The effective user is the second of four.
    let owner = field("Uid:", Some(1)).ok_or(FindError::Dead(pid))?;
    let own = geteuid().as_raw();
    if own != owner && own != 0 {
        return Err(FindError::Foreign { pid, owner });
    }
    // The last of its numbers is that of its own namespace.
    let inner = field("NSpid:", None).unwrap_or(pid);
    let mut looked = folders(owner, runtime_of(&proc));
    looked.push(PathBuf::from(format!("/run/user/{owner}/stage2")));
    // A container without root has numbers of its own for users as well.
    let inside = read("uid_map").and_then(|map| user_inside(&map, owner));
    let inside = inside.filter(|inside| *inside != owner);
    looked.extend(inside.into_iter().flat_map(|inside| folders(inside, None)));
    let root = proc.join("root");
    let of_container: Vec<PathBuf> =
        looked.iter().filter_map(|path| Some(root.join(path.strip_prefix("/").ok()?))).collect();
    // As root one gets through to any folder of a container; through our own paths where that is closed.
    looked = of_container.into_iter().chain(looked).collect();
    let mut objection = None;
    for folder in &looked {
        match sockets(folder, owner) {
            Ok(sockets) => {
                let mut sockets = sockets.into_iter();
                let own = sockets.find(|(name, _)| name.pid == inner && name.start == start);
                if let Some((name, path)) = own {
                    return Ok(Found { pid, path, name });
                }
            }
            Err(error) => objection = Some(error),
        }
    }
    Err(objection.unwrap_or_else(|| FindError::NoSocket { pid, folders: listed(&looked) }))
}

/// The number that a user has in the namespace of a process, by that one's `uid_map`.
fn user_inside(map: &str, user: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let place = user.checked_sub(outside).filter(|place| *place < count)?;
        inside.checked_add(place)
    })
}

/// `XDG_RUNTIME_DIR` of a process, where we may read it.
fn runtime_of(proc: &Path) -> Option<PathBuf> {
    use std::io::Read as _;
    use std::os::unix::ffi::OsStrExt as _;

    let mut bytes = Vec::new();
    let file = fs::File::open(proc.join("environ")).ok()?;
    file.take(ENVIRONMENT_BYTES as u64).read_to_end(&mut bytes).ok()?;
    let value =
        bytes.split(|&byte| byte == 0).find_map(|line| line.strip_prefix(b"XDG_RUNTIME_DIR="))?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(value)))
}

/// The sockets in a folder, which has to be closed to others: else anybody may have put them there.
fn sockets(folder: &Path, owner: u32) -> Result<Vec<(SocketName, PathBuf)>, FindError> {
    let Ok(status) = fs::symlink_metadata(folder) else { return Ok(Vec::new()) };
    let objection = match () {
        () if !status.is_dir() => Some("it is no folder (a link is not followed)"),
        () if status.uid() != owner && status.uid() != 0 => Some("it belongs to another user"),
        () if status.mode() & 0o077 != 0 => Some("others may enter it (chmod 700)"),
        () => None,
    };
    if let Some(why) = objection {
        return Err(FindError::Unsafe { what: visible_path(folder), why });
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(SOCKETS);
    let socket = |entry: fs::DirEntry| {
        let name = SocketName::parse(entry.file_name().to_str()?)?;
        let is_ours = entry.path().symlink_metadata().is_ok_and(|file| {
            file.file_type().is_socket() && (file.uid() == owner || file.uid() == 0)
        });
        is_ours.then(|| (name, entry.path()))
    };
    Ok(entries.filter_map(socket).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_others_may_enter_and_a_link_are_not_used() {
        use std::os::unix::fs::PermissionsExt as _;

        let root = tempfile::tempdir().expect("a folder");
        let owner = geteuid().as_raw();
        let set =
            |mode| fs::set_permissions(root.path(), fs::Permissions::from_mode(mode)).unwrap();
        set(0o700);
        fs::write(root.path().join("host-1-2.sock"), "").unwrap();
        assert!(sockets(root.path(), owner).unwrap().is_empty(), "a file is no socket");
        let _socket =
            std::os::unix::net::UnixListener::bind(root.path().join("host-1-3.sock")).unwrap();
        assert_eq!(sockets(root.path(), owner).unwrap()[0].0.start, 3);
        // Root's folders are anybody's to trust.
        let as_other = sockets(root.path(), owner + 1);
        assert!(
            owner == 0 || as_other.is_err_and(|error| error.to_string().contains("another user"))
        );
        set(0o755);
        assert!(sockets(root.path(), owner).unwrap_err().to_string().contains("chmod 700"));
        let link = root.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(sockets(&link, owner).unwrap_err().to_string().contains("no folder"));
        assert!(sockets(&root.path().join("absent"), owner).unwrap().is_empty());
    }

    /// Hazard (Dormant processes and windows): The process runs in a container, with or without
    ///  root.
    /// Promise: `ctl` finds its socket by the number that the process and its user have there.
    #[test]
    fn users_of_a_container_are_counted_as_its_map_says() {
        let whole = "         0          0 4294967295\n";
        assert_eq!(user_inside(whole, 1000), Some(1000));
        let rootless = "0 1000 1\n1 100000 65536\n";
        let cases = [(1000, Some(0)), (100_999, Some(1000)), (999, None), (165_536, None)];
        for (user, inside) in cases {
            assert_eq!(user_inside(rootless, user), inside, "{user}");
        }
        for hostile in ["", "x y z", "0 0", "4294967295 0 10\n-1 0 1"] {
            assert_eq!(user_inside(hostile, 5), None, "{hostile:?}");
        }
    }

    #[test]
    fn a_process_that_is_not_there_or_has_no_socket_is_named() {
        let said = |pid| of_process(pid).unwrap_err().to_string();
        assert!(said(4_000_000_000).contains("no process 4000000000"));
        let own = said(std::process::id());
        assert!(own.contains("no control socket") && own.contains("LD_PRELOAD"), "{own}");
    }
}
