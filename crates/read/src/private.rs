//! Files and folders of a bundle -> such that only their owner, or one group, can open them.
//!
//! A bundle names hosts, programs and prompts. So new files and folders have their own modes,
//! whatever the umask is; and what other programs wrote into a bundle is brought to these modes later,
//! without following a link and without touching what is also somewhere else.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, fchmod, fchown, fstat, open, openat, statat,
};

/// Read and write by the owner.
pub const FILE_MODE: u32 = 0o600;
/// Everything by the owner.
pub const FOLDER_MODE: u32 = 0o700;
/// Folders within each other that are brought to their modes.
const MAX_DEPTH: usize = 64;
const FOLDER_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The number of problems that are reported one by one.
const MAX_PROBLEMS: usize = 4;

/// Gives an open file the mode of a private one, whatever the umask made of it. One of ours stays as the file
/// system made it where that refuses modes ([`refuses_modes`]).
pub fn make_private(file: &File) -> io::Result<()> {
    unless_refused(file.set_permissions(Permissions::from_mode(FILE_MODE)), || file.metadata())
}

/// Why the file system of a folder of ours takes no modes; nothing where it does.
pub fn refuses_modes(folder: &Path) -> Option<io::Error> {
    let changed = std::fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE));
    changed.err().filter(|error| is_one_of(error, &MODES_REFUSED))
}

/// What file systems without modes say to chmod, on network storage and FAT.
const MODES_REFUSED: [Errno; 3] = [Errno::EPERM, Errno::ENOSYS, Errno::EOPNOTSUPP];

/// The result of a change of modes, where a file system that refuses any mode is not an error. A file of another
/// user is refused with the same code, and stays an error.
fn unless_refused(
    changed: io::Result<()>,
    found: impl FnOnce() -> io::Result<std::fs::Metadata>,
) -> io::Result<()> {
    let is_ours = || found().is_ok_and(|found| found.uid() == nix::unistd::geteuid().as_raw());
    match changed {
        Err(error) if is_one_of(&error, &MODES_REFUSED) && is_ours() => Ok(()),
        other => other,
    }
}

/// Creates a file, or empties the one that is there. A link in its place is an error.
pub fn create(path: &Path) -> io::Result<File> {
    open_ordinary(File::options().write(true).create(true).truncate(true), path)
}

/// Opens a file to append to, and creates it where there is none. A link in its place is an error.
pub fn append(path: &Path) -> io::Result<File> {
    open_ordinary(File::options().append(true).create(true), path)
}

fn open_ordinary(options: &mut std::fs::OpenOptions, path: &Path) -> io::Result<File> {
    // A pipe in its place would wait for a reader.
    let file = options.mode(FILE_MODE).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)?;
    let file = ordinary(file)?;
    make_private(&file)?;
    Ok(file)
}

/// Gives back a file that was opened; anything else is an error.
pub(crate) fn ordinary(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is not a regular file, but a folder, a pipe or a device"))
}

/// Creates one folder.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).create(path)?;
    let changed = std::fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE));
    unless_refused(changed, || std::fs::symlink_metadata(path))
}

/// Creates a folder and those around it, as far as they are not there. Returns those that it created, the
/// outermost first; the others stay as they are.
pub fn create_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path.is_dir() {
        return Ok(Vec::new());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut made = parent.map(create_folders).transpose()?.unwrap_or_default();
    match create_folder(path) {
        // Another process made it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        other => {
            other?;
            made.push(path.to_owned());
        }
    }
    Ok(made)
}

/// Who may read besides the owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Number of a group; none: nobody.
    pub group: Option<u32>,
}

/// What could not be brought to its mode.
#[derive(Debug)]
pub struct Unchanged {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl Sharing {
    /// The mode of a file or folder whose mode is `old`. Who may run a file may still run it.
    fn mode(self, kind: FileType, old: u32) -> u32 {
        let owner = match kind {
            FileType::Directory => FOLDER_MODE,
            _ => FILE_MODE | (old & 0o100),
        };
        // The group may do what the owner may, but for writing.
        if self.group.is_some() { owner | ((owner >> 3) & 0o050) } else { owner }
    }

    /// Brings a folder, but nothing in it, to its mode.
    pub fn apply_to_folder(self, path: &Path) -> io::Result<()> {
        let folder = open(path, FOLDER_FLAGS, Mode::empty())?;
        let found = fstat(&folder)?;
        Ok(self.change(&folder, &found)?)
    }

    /// Brings a folder and all files and folders below it to their modes. Links, pipes, files of other
    /// users and files that have another name elsewhere stay as they are.
    pub fn apply(self, root: &Path) -> Vec<Unchanged> {
        let mut problems = Vec::new();
        let opened = open(root, FOLDER_FLAGS, Mode::empty());
        let walked = opened.map(|folder| self.walk(folder, root, MAX_DEPTH, &mut problems));
        note(&mut problems, root, walked);
        problems
    }

    fn walk(self, folder: OwnedFd, path: &Path, depth: usize, problems: &mut Vec<Unchanged>) {
        note(problems, path, fstat(&folder).and_then(|found| self.change(&folder, &found)));
        let entries = match Dir::read_from(&folder) {
            Ok(entries) => entries,
            Err(error) => return note(problems, path, Err(error)),
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let inner = path.join(OsStr::from_bytes(name.to_bytes()));
            // One that is gone by now is no problem.
            let Ok(found) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let changed = match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory if depth > 0 => {
                    openat(&folder, name, flags | OFlags::DIRECTORY, Mode::empty())
                        .map(|inside| self.walk(inside, &inner, depth - 1, problems))
                }
                FileType::RegularFile if self.is_due(&found) => {
                    openat(&folder, name, flags, Mode::empty()).and_then(|file| {
                        // What was looked at by its name may be another file by now.
                        let found = fstat(&file)?;
                        self.change(&file, &found)
                    })
                }
                _ => Ok(()),
            };
            note(problems, &inner, changed);
        }
    }

    /// Whether something is to be changed, and may be.
    fn is_due(self, found: &Stat) -> bool {
        let kind = FileType::from_raw_mode(found.st_mode);
        let is_only_here = kind == FileType::Directory || found.st_nlink == 1;
        let is_known = matches!(kind, FileType::Directory | FileType::RegularFile);
        let is_ours = found.st_uid == nix::unistd::geteuid().as_raw();
        let has_group = self.group.is_none_or(|group| group == found.st_gid);
        let has_mode = self.mode(kind, found.st_mode) == found.st_mode & 0o7777;
        is_known && is_ours && is_only_here && !(has_group && has_mode)
    }

    fn change(self, file: impl AsFd, found: &Stat) -> rustix::io::Result<()> {
        if !self.is_due(found) {
            return Ok(());
        }
        let mode = self.mode(FileType::from_raw_mode(found.st_mode), found.st_mode);
        // First the group: the old one must not get what is meant for the new one.
        if let Some(group) = self.group.filter(|group| *group != found.st_gid) {
            fchown(&file, None, Some(Gid::from_raw(group)))?;
        }
        fchmod(&file, Mode::from_raw_mode(mode))
    }
}

fn note(problems: &mut Vec<Unchanged>, path: &Path, changed: rustix::io::Result<()>) {
    if let Err(error) = changed
        && problems.len() < MAX_PROBLEMS
    {
        problems.push(Unchanged { path: path.to_owned(), error: error.into() });
    }
}

/// Whether the system gave one of these reasons.
pub fn is_one_of(error: &io::Error, codes: &[Errno]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&Errno::from_raw(code)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("there").permissions().mode() & 0o7777
    }

    /// Hazard (Security): A link lies in wait under the name of a log.
    /// Promise: It is an error, without a write or a wait.
    #[test]
    fn what_is_made_is_private_and_links_and_pipes_are_refused() {
        let dir = tempfile::tempdir().expect("folder");
        let at = |name: &str| dir.path().join(name);
        assert_eq!(create_folders(&at("a/b")).expect("folders"), [at("a"), at("a/b")]);
        assert!(create_folders(&at("a/b")).expect("there").is_empty());
        fs::write(at("old"), "old").expect("file");
        for name in ["old", "new"] {
            drop(create(&at(name)).expect("file"));
            drop(append(&at(name)).expect("file"));
            assert_eq!((mode(&at(name)), fs::read(at(name)).expect("file").len()), (0o600, 0));
        }
        assert_eq!((mode(&at("a")), mode(&at("a/b"))), (0o700, 0o700));
        fs::write(at("precious"), "precious").expect("file");
        symlink("precious", at("link")).expect("link");
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status();
        assert!(made.expect("mkfifo, of coreutils").success());
        for name in ["link", "pipe", "a"] {
            assert!(create(&at(name)).is_err() && append(&at(name)).is_err(), "{name}");
        }
        assert_eq!(fs::read(at("precious")).expect("file"), b"precious");
    }

    /// Hazard (Security): Setting modes could reach files elsewhere (links, hard links, other
    ///  owners, races).
    /// Promise: Nothing elsewhere is touched.
    #[test]
    fn what_others_left_is_brought_to_its_mode_and_nothing_elsewhere_is_touched() {
        let dir = tempfile::tempdir().expect("folder");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("bundle/nsys/deep")).expect("folders");
        for (name, bits) in [
            ("outside", 0o644),
            ("elsewhere", 0o644),
            ("bundle/a", 0o666),
            ("bundle/nsys/tool", 0o775),
            ("bundle/nsys/deep/set", 0o4644),
        ] {
            fs::write(at(name), "").expect("file");
            fs::set_permissions(at(name), Permissions::from_mode(bits)).expect("mode");
        }
        symlink("../elsewhere", at("bundle/link")).expect("link");
        fs::hard_link(at("outside"), at("bundle/hard")).expect("link");
        fs::set_permissions(at("bundle"), Permissions::from_mode(0o777)).expect("mode");
        let check = |sharing: Sharing, expected: [u32; 5]| {
            let problems = sharing.apply(&at("bundle"));
            assert!(problems.is_empty(), "{problems:?}");
            let names = ["bundle", "bundle/nsys/deep", "bundle/a", "bundle/nsys/tool"];
            let mut found: Vec<u32> = names.iter().map(|name| mode(&at(name))).collect();
            found.push(mode(&at("bundle/nsys/deep/set")));
            assert_eq!(found, expected);
            for name in ["outside", "elsewhere"] {
                assert_eq!(mode(&at(name)), 0o644, "{name}: neither by a link nor by another name");
            }
        };
        check(Sharing::default(), [0o700, 0o700, 0o600, 0o700, 0o600]);
        let group = fs::metadata(at("outside")).expect("there").gid();
        check(Sharing { group: Some(group) }, [0o750, 0o750, 0o640, 0o750, 0o640]);
        check(Sharing::default(), [0o700, 0o700, 0o600, 0o700, 0o600]);
        assert_eq!(Sharing::default().apply(&at("nowhere")).len(), 1);
    }
}
