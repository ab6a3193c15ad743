//! The place of this program -> the other files of its installation.
//!
//! A build leaves them next to each other, the tar file has `bin` and `lib`, and a wheel puts this
//! program among the scripts and the rest into a package of Python.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use stage2_contract::text::visible_path;

use crate::terminal::LISTED;

/// The package of Python in which a wheel has the files.
const PACKAGE: &str = "stage2";
/// What pip calls the folder of a version next to it.
const DIST_INFO: &str = concat!("stage2-", env!("CARGO_PKG_VERSION"), ".dist-info");
const LIBRARY_FOLDERS: [&str; 2] = ["lib", "lib64"];
/// Debian's own Pythons have the second.
const PACKAGE_FOLDERS: [&str; 2] = ["site-packages", "dist-packages"];

/// Places in lines of their own.
pub(crate) fn listed(places: &[PathBuf]) -> String {
    places.iter().map(|place| format!("{LISTED}{}", visible_path(place))).collect()
}

/// A text that has such lines, in one line.
pub(crate) fn in_one_line(text: &str) -> String {
    text.replacen(LISTED, " ", 1).replace(LISTED, ", ")
}

/// How a user gets this program and the files that belong to it.
pub(crate) const HOW_TO_INSTALL: &str = "install both from the wheel (`pip install`) or the tar file, \
     or build both with `cargo build --release`";

/// The path of this program; where /proc is not there to tell, what it was called as leads to it.
pub(crate) fn program() -> PathBuf {
    std::env::current_exe()
        .unwrap_or_else(|_| called(std::env::args_os().next()).unwrap_or_default())
}

fn called(word: Option<OsString>) -> Option<PathBuf> {
    let word = word?;
    let found = match word.as_bytes().contains(&b'/') {
        true => PathBuf::from(word),
        false => crate::env::on_path(word)?,
    };
    // Installations have links to it.
    found.canonicalize().ok()
}

/// What to add to the message that a file of the installation was not found.
pub(crate) fn without_proc() -> &'static str {
    match Path::new("/proc/self/exe").symlink_metadata() {
        Ok(_) => "",
        Err(_) => " (/proc is not mounted, so this program may not find its own folder)",
    }
}

/// The file `name` of the installation whose program is `exe`, or the places where it was looked for.
pub(crate) fn find(exe: &Path, name: &str) -> Result<PathBuf, Vec<PathBuf>> {
    let bin = exe.parent().unwrap_or(Path::new("/"));
    let prefix = bin.parent().unwrap_or(bin);
    let plain = [bin.join(name), prefix.join("lib").join(name)];
    // `pip install --target` has scripts in `bin` and packages beside it.
    let target = prefix.join(PACKAGE).join(name);
    let packaged = packages(prefix).into_iter().map(|package| package.join(name));
    let places = plain.iter().cloned().chain(packaged).chain([target.clone()]);
    if let Some(found) = places.into_iter().find(|path| path.is_file()) {
        return Ok(found);
    }
    let patterns = PACKAGE_FOLDERS
        .map(|folder| prefix.join("lib/python3.*").join(folder).join(PACKAGE).join(name));
    Err(plain.into_iter().chain(patterns).chain([target]).collect())
}

/// Our package in each Python of a prefix: this program's version first, then the newest Python.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for library in LIBRARY_FOLDERS {
        let Ok(entries) = std::fs::read_dir(prefix.join(library)) else { continue };
        for entry in entries.flatten() {
            let Some(version) = python_version(&entry.file_name()) else { continue };
            for folder in PACKAGE_FOLDERS {
                let packages = entry.path().join(folder);
                let package = packages.join(PACKAGE);
                if package.is_dir() {
                    let is_other = !packages.join(DIST_INFO).is_dir();
                    found.push((is_other, std::cmp::Reverse(version), package));
                }
            }
        }
    }
    found.sort();
    found.into_iter().map(|(.., package)| package).collect()
}

/// The minor version that the name of a folder like `python3.11` says; 0 for `python3`.
fn python_version(name: &OsStr) -> Option<u32> {
    let rest = name.to_str()?.strip_prefix("python3")?;
    if rest.is_empty() { Some(0) } else { rest.strip_prefix('.')?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prefix with these files, and the program's path in it.
    fn prefix(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("folder");
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folders");
            std::fs::write(path, "").expect("file");
        }
        let exe = dir.path().join("bin/stage2-launch");
        (dir, exe)
    }

    #[test]
    fn each_kind_of_installation_is_found() {
        for file in [
            "bin/x.so",
            "lib/x.so",
            "lib/python3.8/site-packages/stage2/x.so",
            "lib64/python3.13/site-packages/stage2/x.so",
            "lib/python3/dist-packages/stage2/x.so",
            "stage2/x.so",
        ] {
            let (dir, exe) = prefix(&[file]);
            assert_eq!(find(&exe, "x.so"), Ok(dir.path().join(file)));
            assert!(find(&exe, "y.so").is_err_and(|places| places.len() == 5));
        }
    }

    #[test]
    fn the_package_of_this_version_comes_before_a_newer_python() {
        let info = format!("lib/python3.9/site-packages/{DIST_INFO}/RECORD");
        let (nine, ten, thirteen) = (
            "lib/python3.9/site-packages/stage2/x.so",
            "lib/python3.10/site-packages/stage2/x.so",
            "lib/python3.13/site-packages/stage2/x.so",
        );
        let (dir, exe) = prefix(&[nine, ten, thirteen]);
        assert_eq!(find(&exe, "x.so"), Ok(dir.path().join(thirteen)), "13 is more than 9");
        let (dir, exe) = prefix(&[nine, ten, thirteen, &info]);
        assert_eq!(find(&exe, "x.so"), Ok(dir.path().join(nine)));
    }
}
