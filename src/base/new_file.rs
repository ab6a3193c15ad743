//! A path in a folder that others may write to -> a new file or folder that only its owner can open.
//!
//! Records name hosts, programs and ranges. So the modes are ours, whatever the guest's umask is, and
//! no link that someone left under a name of ours is followed.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Creates a file that was not there, for writing. `AlreadyExists` also for a link, wherever it leads.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    // O_EXCL, which `create_new` stands for, follows no link.
    let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    give_back(&file);
    Ok(file)
}

/// Opens a file to append to, which is made where there is none. A named pipe that nothing reads is an
/// error at once, instead of a wait without end. So is a link: only those that the system keeps below `/dev`
/// and `/proc` are followed, such as `/dev/stderr`.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    let is_of_system = path.starts_with("/dev") || path.starts_with("/proc");
    let no_link = if is_of_system { 0 } else { libc::O_NOFOLLOW };
    let mut options = OpenOptions::new();
    options.append(true).mode(FILE_MODE).custom_flags(libc::O_NONBLOCK | no_link);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path),
        file => {
            let file = file?;
            give_back(&file);
            Ok(file)
        }
    }
}

/// Makes a folder and those around it that are not there. Others stay as they are: they are someone's.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_folder(parent)?;
    }
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        // Processes of one guest start at the same time.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => {
            // As for files.
            let _ = fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE));
            Ok(())
        }
    }
}

/// Gives the owner what the umask may have taken away. A file system without modes refuses, which costs
/// nobody anything: no umask gives rights to others.
fn give_back(file: &File) {
    let _ = file.set_permissions(Permissions::from_mode(FILE_MODE));
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("a file").permissions().mode() & 0o7777
    }

    #[test]
    fn new_files_are_their_owners_and_links_lead_nowhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        create_folder(&at("a/b")).expect("folders");
        assert_eq!((mode(&at("a")), mode(&at("a/b"))), (0o700, 0o700));
        fs::set_permissions(at("a"), Permissions::from_mode(0o755)).expect("a mode");
        create_folder(&at("a/b")).expect("there");
        assert_eq!(mode(&at("a")), 0o755, "what was there is left alone");
        drop(create(&at("new")).expect("a file"));
        append(&at("log")).and_then(|mut file| file.write_all(b"1")).expect("a file");
        append(&at("log")).and_then(|mut file| file.write_all(b"2")).expect("a file");
        assert_eq!(fs::read(at("log")).expect("a file"), b"12");
        assert_eq!((mode(&at("new")), mode(&at("log"))), (0o600, 0o600));
        fs::write(at("precious"), "precious").expect("a file");
        symlink("precious", at("link")).expect("a link");
        symlink("nowhere", at("dangling")).expect("a link");
        for name in ["link", "dangling"] {
            let kind = create(&at(name)).map(drop).map_err(|error| error.kind());
            assert_eq!(kind, Err(io::ErrorKind::AlreadyExists), "{name}");
            assert!(append(&at(name)).is_err(), "{name}");
        }
        assert_eq!(fs::read(at("precious")).expect("a file"), b"precious");
        assert!(!at("nowhere").exists());
        assert!(append(Path::new("/dev/stderr")).is_ok(), "a link of the system");
    }
}
