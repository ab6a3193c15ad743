//! Writes a file or folder that gets its name only when it is whole, and never replaces another.
//!
//! Like a bundle, an export is its owner's alone, whatever the umask: `chmod` shares it on purpose.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::{fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::{NamedTempFile, TempDir};

use stage2_contract::text::visible_path;
use stage2_read::files::settle;
use stage2_read::private::{self, Sharing};

use crate::ExportError;

/// Writes a new file, and gives its path: the files of an export that is one file. It is gzipped where its name
/// ends in `.gz`.
///
/// # Errors
/// When `path` exists or cannot be written, and the errors of the writer.
pub fn file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
) -> Result<Vec<PathBuf>, ExportError> {
    new_file(path, is_packed(path), write)
}

/// Whether a file is gzipped, by its name.
pub fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "gz")
}

/// Writes a new file, as [`file()`] does, gzipped whatever its name is.
///
/// # Errors
/// Those of [`file()`].
pub fn packed_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
) -> Result<Vec<PathBuf>, ExportError> {
    new_file(path, true, write)
}

fn new_file(
    path: &Path,
    packs: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
) -> Result<Vec<PathBuf>, ExportError> {
    absent(path)?;
    let failed = ExportError::write(path);
    let new: NamedTempFile = new_with().tempfile_in(folder_of(path)).map_err(&failed)?;
    private::make_private(new.as_file()).map_err(&failed)?;
    if packs {
        pack(path, new.as_file(), write)?;
    } else {
        let mut out = BufWriter::with_capacity(PIECE, new.as_file());
        write(&mut out)?;
        out.flush().map_err(&failed)?;
    }
    settle(new.as_file()).map_err(&failed)?;
    new.persist_noclobber(path).map_err(|error| exists_or(path, error.error))?;
    Ok(vec![path.to_owned()])
}

/// Bytes that are written at once: formats write some bytes at a time.
const PIECE: usize = 1 << 18;
/// Pieces that wait for the compressor.
const PIECES: usize = 4;

/// Compresses what is written on its own thread, which takes as long as the writing: about the half
/// of the whole.
fn pack(
    path: &Path,
    out: &File,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let failed = ExportError::write(path);
    std::thread::scope(|scope| {
        let (full, pieces) = sync_channel::<Vec<u8>>(PIECES);
        let packing = std::thread::Builder::new().spawn_scoped(scope, move || {
            let mut packed = GzEncoder::new(BufWriter::new(out), Compression::fast());
            pieces.iter().try_for_each(|piece| packed.write_all(&piece))?;
            packed.finish()?.flush()
        });
        let Ok(packing) = packing else {
            // Where no thread may be started: one after the other.
            let packed = GzEncoder::new(BufWriter::new(out), Compression::fast());
            let mut packed = BufWriter::with_capacity(PIECE, packed);
            write(&mut packed)?;
            let packed = packed.into_inner().map_err(|error| failed(error.into_error()))?;
            return packed.finish().and_then(|mut out| out.flush()).map_err(failed);
        };
        let mut buffered = BufWriter::with_capacity(PIECE, Pieces(full));
        let written = write(&mut buffered).and_then(|()| buffered.flush().map_err(&failed));
        // The compressor ends when nothing more can come. What is buffered after an error is not wanted.
        drop(buffered.into_parts());
        match packing.join() {
            // It has the reason; the writer knows only that nobody takes its pieces.
            Ok(packed) => packed.map_err(failed).and(written),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Hands over what is written to the compressor.
struct Pieces(SyncSender<Vec<u8>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.send(bytes.to_vec());
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets `fill` write into a new folder. It gives the paths that it wrote there; the result has them below
/// `path`.
///
/// # Errors
/// When `path` exists or cannot be written, and the errors of the writer.
pub fn folder(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<Vec<PathBuf>, ExportError>,
) -> Result<Vec<PathBuf>, ExportError> {
    absent(path)?;
    let new = new_folder(path)?;
    let files = fill(new.path())?;
    protect(new.path())?;
    let moved = |file: &PathBuf| Some(path.join(file.strip_prefix(new.path()).ok()?));
    let files = files.iter().filter_map(moved).collect();
    fs::rename(new.path(), path).map_err(|error| exists_or(path, error))?;
    // It has another name now.
    let _ = new.keep();
    Ok(files)
}

/// Lets `work` use a new folder within `root`, which is gone afterwards: what is moved out of it into `root` stays
/// on one file system.
///
/// # Errors
/// When `root` cannot be written, and the errors of `work`.
pub fn beside<T>(
    root: &Path,
    work: impl FnOnce(&Path) -> Result<T, ExportError>,
) -> Result<T, ExportError> {
    let new = new_with().tempdir_in(root).map_err(ExportError::write(root))?;
    protect(new.path())?;
    work(new.path())
}

/// Lets `fill` write a file by its path, for libraries that open files themselves. Else as [`file()`].
///
/// # Errors
/// When `path` exists or cannot be written, and the errors of the writer.
pub fn by_path(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<(), ExportError>,
) -> Result<Vec<PathBuf>, ExportError> {
    absent(path)?;
    let beside = new_folder(path)?;
    let new = beside.path().join("export");
    fill(&new)?;
    protect(beside.path())?;
    let new = tempfile::TempPath::try_from_path(new).map_err(ExportError::write(path))?;
    new.persist_noclobber(path).map_err(|error| exists_or(path, error.error))?;
    Ok(vec![path.to_owned()])
}

fn new_folder(path: &Path) -> Result<TempDir, ExportError> {
    new_with().tempdir_in(folder_of(path)).map_err(ExportError::write(path))
}

fn new_with() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".new-");
    builder
}

/// Libraries that open files themselves create them by the umask.
fn protect(path: &Path) -> Result<(), ExportError> {
    let unchanged = Sharing::default().apply(path).into_iter().next();
    unchanged.map_or(Ok(()), |unchanged| Err(ExportError::write(path)(unchanged.error)))
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(crate) fn absent(path: &Path) -> Result<(), ExportError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(exists(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ExportError::write(path)(error)),
    }
}

fn exists(path: &Path) -> ExportError {
    ExportError::Exists(visible_path(path))
}

fn exists_or(path: &Path, error: io::Error) -> ExportError {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => exists(path),
        _ => ExportError::write(path)(error),
    }
}
