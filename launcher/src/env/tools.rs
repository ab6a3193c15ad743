//! PATH -> the profilers on it, and their versions.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::subprocess::ask;
use stage2_model::Tool;
use stage2_read::threads::begin;

const LIMIT: Duration = Duration::from_secs(10);

/// `nsys` and `ncu`, as far as they are on PATH.
pub(crate) fn find() -> BTreeMap<String, Tool> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = ["nsys", "ncu"]
            .into_iter()
            .filter_map(|name| Some((name, on_path(name)?)))
            .map(|(name, path)| (name, begin(scope, move || version(path))))
            .collect();
        asked
            .into_iter()
            .map(|(name, tool)| (name.to_owned(), tool.join().unwrap_or_default()))
            .collect()
    })
}

fn version(path: PathBuf) -> Tool {
    let answer = ask(Command::new(&path).arg("--version"), LIMIT);
    let version = match answer {
        // ncu prints a copyright before the version.
        Ok(text) => text
            .lines()
            .find(|line| line.to_lowercase().contains("version"))
            .map(|line| line.trim().to_owned()),
        Err(why) => Some(format!("unknown ({why})")),
    };
    Tool { path: Some(path.to_string_lossy().into_owned()), version }
}

/// The first executable file of that name on PATH.
pub(crate) fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    path_folders()
        .into_iter()
        .map(|folder| folder.join(name.as_ref()))
        .find(|path| is_executable(path))
}

/// The folders of PATH; where it is not set, those that `execvp` of glibc looks in then.
pub(crate) fn path_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).collect()
}

pub(crate) fn is_executable(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
