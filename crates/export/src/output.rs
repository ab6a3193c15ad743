//! Writes a file or folder that gets its name only when it is whole, and never replaces another.
//!
//! Like a bundle, an export is its owner's alone, whatever the umask: `chmod` shares it on purpose.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};

use tempfile::{NamedTempFile, TempDir};

use stage2_contract::text::visible_path;
use stage2_read::files::settle;
use stage2_read::private::{self, Sharing};

use crate::ExportError;

/// Writes a new file, and gives its path: the files of an export that is one file.
///
/// # Errors
/// When `path` exists or cannot be written, and the errors of the writer.
pub fn file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<(), ExportError>,
) -> Result<Vec<PathBuf>, ExportError> {
    absent(path)?;
    let failed = ExportError::write(path);
    let new: NamedTempFile = new_with().tempfile_in(folder_of(path)).map_err(&failed)?;
    private::make_private(new.as_file()).map_err(&failed)?;
    let mut out = BufWriter::with_capacity(1 << 18, new.as_file());
    write(&mut out)?;
    out.flush().map_err(&failed)?;
    drop(out);
    settle(new.as_file()).map_err(&failed)?;
    new.persist_noclobber(path).map_err(|error| exists_or(path, error.error))?;
    Ok(vec![path.to_owned()])
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

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn absent(path: &Path) -> Result<(), ExportError> {
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
