//! A path in a folder that anybody may have filled -> an ordinary file, or its bytes up to a limit.
//!
//! Opening a pipe waits for somebody to write to it, and a device may have no end.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::libc::O_NONBLOCK;

/// Opens an ordinary file for reading; links are followed.
///
/// # Errors
/// As of the system, and anything else than a file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
    // Asked after opening: what the path leads to may change between the two.
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not an ordinary file, but a folder, a pipe or a device"))
    }
}

/// Reads an ordinary file of at most `limit_bytes`, which is a whole number of MiB.
///
/// # Errors
/// As [`open`], and a larger file.
pub(crate) fn read(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit_bytes {
        let what = format!("it is larger than {} MiB", limit_bytes >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// Reads the last `limit_bytes` of an ordinary file, or all of a shorter one.
///
/// # Errors
/// As [`open`].
pub(crate) fn tail(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let start = file.metadata()?.len().saturating_sub(limit_bytes);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(limit_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as [`read`] for text.
///
/// # Errors
/// As [`read`], and bytes that are no UTF-8.
pub(crate) fn read_text(path: &Path, limit_bytes: u64) -> io::Result<String> {
    let bytes = read(path, limit_bytes)?;
    String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.utf8_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_some_size_are_read_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().expect("folder");
        let path = |name: &str| dir.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(path("pipe")).status();
        assert!(made.expect("mkfifo, of coreutils").success());
        std::os::unix::fs::symlink("/dev/zero", path("endless")).expect("link");
        std::fs::create_dir(path("folder")).expect("folder");
        for name in ["pipe", "endless", "folder"] {
            let why = read(&path(name), 1 << 20).map_err(|e| e.to_string());
            assert!(why.is_err_and(|why| why.contains("not an ordinary file")), "{name}");
        }
        std::fs::write(path("file"), vec![b'a'; 1 << 20]).expect("file");
        std::os::unix::fs::symlink("file", path("link")).expect("link");
        assert_eq!(read_text(&path("link"), 1 << 20).map(|text| text.len()).ok(), Some(1 << 20));
        let all = File::options().append(true).open(path("file")).expect("file");
        all.set_len((1 << 20) + 1).expect("length");
        let why = read(&path("file"), 1 << 20).map_err(|e| e.to_string());
        assert_eq!(why, Err("it is larger than 1 MiB".to_owned()));
        assert_eq!(tail(&path("file"), 3).ok(), Some(b"aa\0".to_vec()));
        assert_eq!(tail(&path("file"), 2 << 20).map(|tail| tail.len()).ok(), Some((1 << 20) + 1));
        assert!(tail(&path("pipe"), 3).is_err() && tail(&path("endless"), 3).is_err());
        std::fs::write(path("bytes"), b"\xff").expect("file");
        assert!(read_text(&path("bytes"), 1 << 20).is_err());
        let missing = read(&path("nowhere"), 1 << 20).map_err(|e| e.kind());
        assert_eq!(missing, Err(io::ErrorKind::NotFound));
    }
}
