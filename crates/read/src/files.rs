//! A path in a folder that anybody may have filled -> an ordinary file, or its bytes up to a limit.
//!
//! Opening a pipe waits for someone to write to it, and a device may have no end.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::libc::{O_NONBLOCK, O_TMPFILE};
use nix::unistd::linkat;

use crate::private;
use crate::progress::Metered;

/// Opens an ordinary file for reading; links are followed.
/// Anything else than a file is an error.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
    // Asked after opening: what the path leads to may change between the two.
    private::ordinary(file)
}

/// Reads an ordinary file of at most `limit_bytes`, which is a whole number of MiB.
/// A larger file is an error.
pub fn read(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit_bytes {
        let what = format!("it is larger than {} MiB", limit_bytes >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// Reads the last `limit_bytes` of an ordinary file, or all of a shorter one.
pub fn tail(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let start = file.metadata()?.len().saturating_sub(limit_bytes);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(limit_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads an ordinary file of UTF-8 text, of at most `limit_bytes`, which is a whole number of MiB.
/// Bytes that are not UTF-8 are an error.
pub fn read_text(path: &Path, limit_bytes: u64) -> io::Result<String> {
    let bytes = read(path, limit_bytes)?;
    String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.utf8_error()))
}

/// Ending of compressed files, behind their own.
pub const COMPRESSED: &str = "gz";

/// The unpacked size of a compressed file is limited to this many times its own size, but never to
/// less than [`UNPACKED_AT_LEAST`].
/// What we compress ourselves stays far below it.
const MOST_TIMES: u64 = 256;
const UNPACKED_AT_LEAST: u64 = 64 << 20;
/// Absolute limit of the unpacked size, so that no file can fill the disk.
const UNPACKED_AT_MOST: u64 = 64 << 30;

/// Bytes that a compressed file of `bytes` may stand for.
pub fn most_unpacked(bytes: u64) -> u64 {
    bytes.saturating_mul(MOST_TIMES).clamp(UNPACKED_AT_LEAST, UNPACKED_AT_MOST)
}

/// The name of a file without the ending of compression.
pub fn plain_name(name: &str) -> &str {
    let plain = name.strip_suffix(COMPRESSED).and_then(|name| name.strip_suffix('.'));
    plain.filter(|plain| !plain.is_empty()).unwrap_or(name)
}

/// The ending of a file, without that of compression; empty: it has none, or one that is not UTF-8.
pub fn ending(path: &Path) -> &str {
    let plain = if is_compressed(path) { path.file_stem().map(Path::new) } else { Some(path) };
    plain.and_then(Path::extension).and_then(|ending| ending.to_str()).unwrap_or_default()
}

/// Whether a file is compressed, by its name.
pub fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == COMPRESSED)
}

/// What a compressed file stands for, as it is read. A larger one than it may be ends in an error.
pub fn unpacked(path: &Path) -> io::Result<impl io::Read + use<>> {
    let file = open(path)?;
    let left = most_unpacked(file.metadata()?.len());
    let file = io::BufReader::new(Metered::of(file, path));
    Ok(Bounded { inner: MultiGzDecoder::new(file), left })
}

const UNPACKED: &str = ".unpacked-";
/// Beginning of the name of a file that is still being written.
const NEW: &str = ".new-";
/// Characters that [`tempfile`] puts behind the beginning.
const RANDOM_CHARACTERS: usize = 6;

/// Creates a file with a random name in `folder`, which only its owner can open. It takes the place of another file once it is whole.
pub fn new_in(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let new = tempfile::Builder::new().prefix(NEW).tempfile_in(folder);
    let file = new.map_err(without_its_name)?;
    private::make_private(file.as_file())?;
    Ok(file)
}

/// An error about a temporary file or folder, without its random name, which tells nobody anything.
pub fn without_its_name(error: io::Error) -> io::Error {
    match error.to_string().rsplit_once(" at path ") {
        Some((what, _)) if error.raw_os_error().is_none() => io::Error::new(error.kind(), what),
        _ => error,
    }
}

/// Whether a file of this name is one that this program writes for itself. It goes with its process,
/// unless a signal ends that.
pub fn is_temporary(name: &str) -> bool {
    let random = [NEW, UNPACKED].iter().find_map(|prefix| name.strip_prefix(prefix));
    random.is_some_and(|random| {
        random.len() == RANDOM_CHARACTERS && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Unpacks a compressed file into a temporary file in the same folder. Dropping the returned path deletes
/// it. The file gets its name only when it is complete, so that nothing stays behind if this program is
/// killed while it unpacks.
/// A damaged file is an error.
pub fn unpack(path: &Path) -> io::Result<tempfile::TempPath> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut names = tempfile::Builder::new();
    names.prefix(UNPACKED);
    let nameless = File::options().write(true).mode(0o600).custom_flags(O_TMPFILE).open(folder);
    let Ok(mut file) = nameless else {
        // Not every file system has files without names.
        let mut file = names.tempfile_in(folder).map_err(without_its_name)?;
        io::copy(&mut unpacked(path)?, &mut file)?;
        return Ok(file.into_temp_path());
    };
    io::copy(&mut unpacked(path)?, &mut file)?;
    let handle = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |name: &Path| {
        Ok(linkat(AT_FDCWD, handle.as_str(), AT_FDCWD, name, AtFlags::AT_SYMLINK_FOLLOW)?)
    };
    Ok(names.make_in(folder, link)?.into_temp_path())
}

struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: io::Read> io::Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let what = format!(
                "it unpacks to more than {MOST_TIMES} times its size, or than {} GiB",
                UNPACKED_AT_MOST >> 30
            );
            io::Error::new(io::ErrorKind::FileTooLarge, what)
        })?;
        Ok(read)
    }
}

/// Writes a file so that a reader sees the old one or the new one.
/// Errors name the file.
pub fn write_whole(path: &Path, text: &str) -> anyhow::Result<()> {
    stream_whole(path, &|sink| Ok(sink.write_all(text.as_bytes())?)).map_err(|error| {
        let remedy = remedy(&format!("{error:#}"), path.parent().unwrap_or(Path::new(".")));
        let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
        anyhow::anyhow!("{} cannot be written: {error:#}{remedy}", path.display())
    })
}

/// Writes a file piece by piece, so that a reader sees the old one or the new one. The new one has
/// a random name at first: in someone else's bundle a link could lie in wait under a known one.
pub fn stream_whole(
    path: &Path,
    content: &dyn Fn(&mut dyn io::Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let file = new_in(path.parent().unwrap_or(Path::new(".")))?;
    let mut sink = BufWriter::new(file);
    let written = content(&mut sink).and_then(|()| Ok(sink.flush()?));
    // What is left in the buffer is of a file that is useless.
    let (file, _) = sink.into_parts();
    match written {
        Ok(()) => Ok(put(file, path)?),
        Err(error) => {
            delete(file);
            // The errors of several libraries have that of the file within them.
            Err(match format!("{error:#}").rsplit_once(" at path ") {
                Some((what, _)) => anyhow::anyhow!("{what}"),
                None => error,
            })
        }
    }
}

/// Gives a file that is whole the name `path`, in the place of what has that name. Where that fails
/// nothing of it stays. Some file systems fail only when a file is closed (NFS: the quota is used up) or
/// when its bytes have to be on the disk.
pub fn put(file: tempfile::NamedTempFile, path: &Path) -> io::Result<()> {
    if let Err(error) = settle(file.as_file()).and_then(|()| no_device(path)) {
        delete(file);
        return Err(error);
    }
    file.persist(path).map(drop).map_err(|failed| {
        delete(failed.file);
        failed.error
    })
}

/// Root can give the name of a device to a file, after which the machine has no `/dev/null`.
fn no_device(path: &Path) -> io::Result<()> {
    let is_device = std::fs::metadata(path).is_ok_and(|found| {
        found.file_type().is_char_device() || found.file_type().is_block_device()
    });
    match is_device {
        true => Err(io::Error::other("it is a device, which a file would replace; name a file")),
        false => Ok(()),
    }
}

/// Closes a file before it takes its name away: file systems that rename what is open when it is deleted (FUSE,
/// NFS) may be able to do neither.
fn delete(file: tempfile::NamedTempFile) {
    let (file, name) = file.into_parts();
    drop(file);
    drop(name);
}

/// Tries whether files can be made in a folder: modes do not say it all.
pub fn try_folder(folder: &Path) -> io::Result<()> {
    new_in(folder).map(delete)
}

/// Has the file system say what is wrong with a file that is whole.
pub fn settle(file: &File) -> io::Result<()> {
    // There is no such call on every file system.
    let is_missing = |error: &io::Error| {
        private::is_one_of(error, &[Errno::EINVAL, Errno::ENOSYS, Errno::EOPNOTSUPP])
    };
    file.sync_data().or_else(|error| if is_missing(&error) { Ok(()) } else { Err(error) })?;
    closes(file)
}

/// Whether a file can be closed without an error: each descriptor asks for that again.
pub fn closes(file: &File) -> io::Result<()> {
    Ok(nix::unistd::close(file.try_clone()?)?)
}

/// Bytes that are free for users other than root on the file system of `folder`.
///
/// # Errors
/// When the file system does not tell.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let found = nix::sys::statvfs::statvfs(folder)?;
    Ok(found.blocks_available().saturating_mul(found.fragment_size()))
}

/// What to do about a write in `folder` that failed, where the cause is known. `error` is as it
/// is shown: libraries wrap the errors of the system in theirs.
pub fn remedy(error: &str, folder: &Path) -> Option<&'static str> {
    let is = |code: Errno| error.contains(&format!("(os error {})", code as i32));
    let has_no_inode = || {
        let found = nix::sys::statvfs::statvfs(folder);
        // A file system that makes inodes as they are needed has a total of 0.
        found.is_ok_and(|found| found.files() > 0 && found.files_available() == 0)
    };
    if is(Errno::EFBIG) {
        return Some("the limit on the size of a file is reached: raise it (`ulimit -f`)");
    }
    if is(Errno::ENOSPC) && has_no_inode() {
        return Some(
            "its file system has space, but no inode left for another file: delete files there (`df -i` counts them)",
        );
    }
    let known = [
        (Errno::ENOSPC, "free some space on its file system (`df` shows it)"),
        (Errno::EDQUOT, "free some space: the quota of this user is used up"),
        (Errno::EROFS, "choose another folder: the file system is read-only"),
        (Errno::EISDIR, "a folder has this name: move the folder away"),
        (Errno::EACCES, "choose another folder, or have its owner let this user write there"),
    ];
    known.into_iter().find(|(code, _)| is(*code)).map(|(_, remedy)| remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hazard (Hostile files): An output is a device, and root may replace it by a file.
    /// Promise: The device stays, and the error names what to do.
    #[test]
    fn no_file_takes_the_name_of_a_device() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("out.md");
        std::os::unix::fs::symlink("/dev/null", &path).expect("a link");
        let write = |sink: &mut dyn io::Write| Ok(sink.write_all(b"page")?);
        let why = stream_whole(&path, &write).expect_err("a device").to_string();
        assert!(why.contains("is a device"), "{why}");
        assert!(path.is_symlink());
        assert_eq!(std::fs::read_dir(dir.path()).expect("folder").count(), 1);
    }

    /// Hazard (Hostile files): A compressed file that unpacks to more than the disk holds.
    /// Promise: Its size is bounded.
    #[test]
    fn compressed_files_have_names_and_a_bound() {
        for (name, plain, of) in [
            ("a.s2t.gz", "a.s2t", "s2t"),
            ("run.sqlite", "run.sqlite", "sqlite"),
            ("v1.2.sqlite.gz", "v1.2.sqlite", "sqlite"),
            (".gz", ".gz", ""),
            ("gz", "gz", ""),
            ("notes", "notes", ""),
        ] {
            assert_eq!((plain_name(name), ending(Path::new(name))), (plain, of), "{name}");
        }
        let dir = tempfile::tempdir().expect("folder");
        let pack = |name: &str, bytes: u64| {
            let path = dir.path().join(name);
            let file = File::create(&path).expect("file");
            let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::best());
            io::copy(&mut io::repeat(0).take(bytes), &mut packer).expect("packed");
            packer.finish().expect("packed");
            path
        };
        let fine = pack("fine.gz", 1 << 20);
        assert_eq!(unpack(&fine).expect("fine").metadata().expect("size").len(), 1 << 20);
        let bomb = pack("bomb.gz", UNPACKED_AT_LEAST + 1);
        let why = unpack(&bomb).expect_err("a bomb").to_string();
        assert!(why.contains("more than 256 times"), "{why}");
        assert_eq!(most_unpacked(1 << 30), 64 << 30, "a big file has a bound of its own");
        let cut = std::fs::read(&fine).expect("bytes");
        // gzip files may be put one behind the other, as pigz and cat do.
        std::fs::write(&fine, cut.repeat(2)).expect("two");
        assert_eq!(unpack(&fine).expect("two").metadata().expect("size").len(), 2 << 20);
        std::fs::write(&fine, cut.get(..cut.len() / 2).expect("half")).expect("cut");
        assert!(unpack(&fine).is_err(), "cut short");
        let left = std::fs::read_dir(dir.path()).expect("folder").count();
        assert_eq!(left, 2, "nothing is left behind");
    }

    #[test]
    fn files_of_our_own_are_known_by_their_names() {
        let dir = tempfile::tempdir().expect("folder");
        let name = |path: &Path| path.file_name().and_then(|n| n.to_str()).unwrap_or("").to_owned();
        let new = new_in(dir.path()).expect("file");
        assert!(is_temporary(&name(new.path())), "{new:?}");
        let packed = dir.path().join("a.gz");
        let file = File::create(&packed).expect("file");
        flate2::write::GzEncoder::new(file, flate2::Compression::fast()).finish().expect("packed");
        let unpacked = unpack(&packed).expect("unpacked");
        assert!(is_temporary(&name(&unpacked)), "{unpacked:?}");
        for other in [".new-", ".new-notes.md", ".new-version", "new-abcdef", "a.s2t", ""] {
            assert!(!is_temporary(other), "{other}");
        }
    }

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
            assert!(why.is_err_and(|why| why.contains("not a regular file")), "{name}");
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
