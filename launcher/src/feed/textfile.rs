//! The text -> a file that node-exporter's textfile collector reads, whole at any time.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use clap::ValueEnum;
use stage2_read::files;

/// Who may read the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Readers {
    /// Its owner
    #[default]
    Owner,
    /// The group of the folder as well
    Group,
    /// Everybody on this host
    All,
}

impl Readers {
    fn mode(self) -> u32 {
        match self {
            Readers::Owner => 0o600,
            Readers::Group => 0o640,
            Readers::All => 0o644,
        }
    }
}

/// Puts the text in the place of the file. A reader sees the old one or the new one; where this fails,
/// the old one stays.
pub(crate) fn write(path: &Path, text: &str, readers: Readers) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let mut file = files::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(readers.mode()))?;
    // Dropped on the way, it takes itself away.
    files::put(file, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_replaced_whole_and_private_unless_that_is_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stage2.prom");
        for (text, readers, mode) in [
            ("a 1\n", Readers::Owner, 0o600),
            ("b 2\n", Readers::All, 0o644),
            ("c\n", Readers::Group, 0o640),
        ] {
            write(&path, text, readers).expect("written");
            assert_eq!(std::fs::read_to_string(&path).expect("a file"), text);
            assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o777, mode);
        }
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            1,
            "nothing is left behind"
        );
    }

    /// Hazard (Watching what runs): The disk is full when the text file is written.
    /// Promise: The old one stays whole, and nothing is left beside it.
    #[test]
    fn a_full_disk_leaves_the_file_as_it_was() {
        // Nothing can be made there, as on a disk without room.
        let error = write(Path::new("/proc/stage2.prom"), "x", Readers::Owner);
        assert!(error.is_err());
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stage2.prom");
        write(&path, "old", Readers::Owner).expect("written");
        std::fs::create_dir(folder.path().join("sub")).expect("a folder");
        assert!(
            write(&folder.path().join("sub"), "new", Readers::Owner).is_err(),
            "a folder is no file"
        );
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "old");
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            2,
            "nothing is left behind"
        );
    }
}
