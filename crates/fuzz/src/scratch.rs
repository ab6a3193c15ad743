//! Folders for files that a target takes by path: in memory, where the machine has such a folder.

use std::path::PathBuf;

use tempfile::TempDir;

const IN_MEMORY: &str = "/dev/shm";

/// A new, empty folder, which goes with the value.
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
pub fn file(name: &str, bytes: &[u8]) -> ScratchFile {
    let folder = folder();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("room for a temporary file");
    ScratchFile { _folder: folder, path }
}
