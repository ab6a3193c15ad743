//! Folders for files that a target takes by path: in memory, where the machine has such a folder.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

const IN_MEMORY: &str = "/dev/shm";

/// A new, empty folder, which goes with the value.
///
/// # Panics
/// When no folder for temporary files can be written to.
pub fn folder() -> TempDir {
    let mut names = tempfile::Builder::new();
    names.prefix("stage2-fuzz-");
    let made = names.tempdir_in(IN_MEMORY).or_else(|_| names.tempdir());
    made.expect("a folder for temporary files; set TMPDIR to one that can be written to")
}

/// A file in a folder of its own; both go with the value, so that a run leaves nothing behind.
pub struct ScratchFile {
    _folder: TempDir,
    /// Where it is.
    pub path: PathBuf,
}

/// A file of this `name` with these bytes.
///
/// # Panics
/// As [`folder`].
pub fn file(name: &str, bytes: &[u8]) -> ScratchFile {
    let folder = folder();
    let path = folder.path().join(name);
    write(&path, bytes);
    ScratchFile { _folder: folder, path }
}

/// Writes a file in a folder of [`folder`].
///
/// # Panics
/// When there is no room.
pub fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("room for a temporary file");
}
