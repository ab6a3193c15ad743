//! Trace files that grow -> copies up to the last whole frame, which `merge` reads.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use stage2_analysis::files;

/// Copies so many bytes of each file into a new folder. Gives the bytes that were copied.
pub(crate) fn copy(all: &[(PathBuf, u64)], folder: &Path) -> io::Result<u64> {
    fs::DirBuilder::new().mode(0o700).create(folder)?;
    let mut total = 0;
    for (path, bytes) in all.iter().filter(|(_, bytes)| *bytes > 0) {
        // Files of several folders may be called alike: the first one has the name.
        let Some(name) = path.file_name() else { continue };
        let mut copy = files::new_in(folder)?;
        total += io::copy(&mut files::open(path)?.take(*bytes), &mut copy)?;
        copy.persist_noclobber(folder.join(name)).map_err(|error| error.error)?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_hold_what_was_read_and_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("host-1.s2t");
        fs::write(&path, "frames, and a half one").expect("a file");
        let into = folder.path().join("copy");
        let absent = folder.path().join("absent.s2t");
        assert_eq!(copy(&[(path.clone(), 6), (absent.clone(), 0)], &into).expect("copied"), 6);
        assert_eq!(fs::read(into.join("host-1.s2t")).expect("a file"), b"frames");
        assert!(copy(&[(path, 6)], &into).is_err(), "a folder that is there is left alone");
        assert!(copy(&[(absent, 9)], &folder.path().join("other")).is_err());
    }
}
