//! Trace files that grow -> a bundle with reports, made of copies up to the last whole frame.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stage2_read::files;

/// Makes a bundle at `folder`, which must not be there yet. Gives one line that says what came of it.
///
/// Another process makes it: what it prints does not belong on the page, and keys are obeyed meanwhile.
pub(crate) fn save(all: &[(PathBuf, u64)], folder: &Path) -> String {
    let count = all.iter().filter(|(_, bytes)| *bytes > 0).count();
    match bundle_of(all, folder) {
        Ok(()) => format!("{} has a report of {count} files", folder.display()),
        Err(why) => format!("{} was not made: {why}", folder.display()),
    }
}

fn bundle_of(all: &[(PathBuf, u64)], folder: &Path) -> Result<(), String> {
    let beside = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    // Only the owner may read it, and it goes when it is no longer needed.
    let copies = tempfile::Builder::new()
        .prefix(".stage2-top-")
        .tempdir_in(beside.unwrap_or(Path::new(".")))
        .map_err(|error| error.to_string())?;
    let copied = copies.path().join("traces");
    copy(all, &copied).map_err(|error| error.to_string())?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let merged = Command::new(own)
        .args(["merge", "-q", "--allow-empty", "--spool"])
        .arg(&copied)
        .arg("-o")
        .arg(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if merged.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&merged.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Err(last.map_or_else(|| merged.status.to_string(), str::to_owned))
}

/// Copies so many bytes of each file into a new folder.
fn copy(all: &[(PathBuf, u64)], folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(folder)?;
    for (at, (path, bytes)) in all.iter().enumerate().filter(|(_, (_, bytes))| *bytes > 0) {
        let Some(name) = path.file_name() else { continue };
        let mut copy = files::new_in(folder)?;
        io::copy(&mut files::open(path)?.take(*bytes), &mut copy)?;
        // Files of several folders may be called alike.
        let mut to = folder.join(name);
        if to.symlink_metadata().is_ok() {
            let mut other = OsString::from(format!("{at}-"));
            other.push(name);
            to = folder.join(other);
        }
        files::put(copy, &to)?;
    }
    Ok(())
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
        let namesake = folder.path().join("other/host-1.s2t");
        fs::create_dir(folder.path().join("other")).expect("a folder");
        fs::write(&namesake, "of another host").expect("a file");
        copy(&[(path.clone(), 6), (absent.clone(), 0), (namesake, 2)], &into).expect("copied");
        assert_eq!(fs::read(into.join("host-1.s2t")).expect("a file"), b"frames");
        assert_eq!(fs::read(into.join("2-host-1.s2t")).expect("a file"), b"of");
        assert!(copy(&[(path, 6)], &into).is_err(), "a folder that is there is left alone");
        assert!(copy(&[(absent, 9)], &folder.path().join("third")).is_err());
    }
}
