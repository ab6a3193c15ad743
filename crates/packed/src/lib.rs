//! Texts that a program contains, compressed to a third: a build script calls [`pack`], and the program [`Packed::open`].

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

/// Texts with their paths below the folder that was packed.
#[derive(Default)]
pub struct Packed(String);

impl Packed {
    /// Unpacks what [`pack`] has written.
    ///
    /// # Errors
    ///
    /// The bytes are not those that it wrote.
    pub fn open(packed: &[u8]) -> io::Result<Self> {
        let mut all = String::new();
        ZlibDecoder::new(packed).read_to_string(&mut all)?;
        Ok(Self(all))
    }

    /// Each path with its text, in the order of the paths.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut texts = self.0.split_terminator('\0');
        std::iter::from_fn(move || texts.next().zip(texts.next()))
    }

    /// The text at this path.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts().find_map(|(known, text)| (known == path).then_some(text))
    }
}

/// Writes the wanted files below `folder` to the file `name` of `OUT_DIR`, each behind its path and followed by a zero.
/// For build scripts.
///
/// # Errors
///
/// A file cannot be read or written, or is not UTF-8.
pub fn pack(name: &str, folder: &str, is_wanted: fn(&str) -> bool) -> io::Result<()> {
    println!("cargo::rerun-if-changed={folder}");
    let mut paths = Vec::new();
    list(Path::new(folder), "", &mut paths)?;
    paths.retain(|path| is_wanted(path));
    // The same bytes on every machine.
    paths.sort();
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    for path in paths {
        let text = fs::read_to_string(Path::new(folder).join(&path))?;
        write!(packed, "{path}\0{text}\0")?;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join(name), packed.finish()?)
}

/// The paths of all files below a folder.
fn list(folder: &Path, prefix: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{path}/"), paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}
