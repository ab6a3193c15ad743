//! The committed corpus: a folder of inputs for each target.

use std::path::{Path, PathBuf};

/// The folder that holds a folder for each target.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus")
}

/// The inputs of a target, by the names of their files.
///
/// # Panics
/// When the folder cannot be read.
pub fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = folder().join(target);
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|why| panic!("the corpus {} cannot be read: {why}", folder.display()));
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("an entry of the corpus").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, std::fs::read(&path).expect("a file of the corpus"))
        })
        .collect();
    inputs.sort();
    inputs
}
