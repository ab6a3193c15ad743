//! The places of libcupti -> the files that the collector would try, with their versions.

use std::path::{Path, PathBuf};

use cupti_sys::places::{
    Candidate, How, NEWEST, Surroundings, list, newest_first, places, version_of,
};

use super::system::System;

/// A libcupti that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) path: PathBuf,
    pub(super) how: How,
    /// CUDA major version, from the file's name.
    pub(super) cuda_major: Option<u32>,
    /// As its wheel or its file's name says.
    pub(super) version: Option<String>,
}

/// The files that the collector would try in a process of `interpreter`, best first.
pub(super) fn installed(
    system: &System,
    interpreter: Option<&Path>,
    driver_major: Option<u32>,
) -> Vec<Installed> {
    let folder = |name: &str| system.variable(name).map(PathBuf::from);
    let surroundings = Surroundings {
        executable: interpreter.and_then(|path| path.canonicalize().ok()),
        called_as: interpreter.map(Path::to_owned),
        virtual_env: folder("VIRTUAL_ENV"),
        conda_prefix: folder("CONDA_PREFIX"),
        home: folder("HOME"),
        cuda_home: folder("CUDA_HOME"),
        cuda_path: folder("CUDA_PATH"),
        mapped: Vec::new(),
    };
    let known = |path: &Path| {
        version_of(path, &list).or_else(|| version_of(&path.canonicalize().ok()?, &list))
    };
    let all = || places(&surroundings, driver_major, &list).candidates;
    let candidates = match folder(super::CUPTI) {
        Some(word) if word == Path::new(NEWEST) => newest_first(all(), driver_major, known),
        // What the user names is used or fails; nothing else is tried.
        Some(path) => vec![Candidate::new(How::Explicit, path)],
        None => all(),
    };
    let mut found: Vec<Installed> = Vec::new();
    for Candidate { how, path, cuda_major } in candidates {
        let Some(path) = (if how == How::System { by_linker(system, &path) } else { Some(path) })
        else {
            continue;
        };
        let real = path.canonicalize();
        let Ok(real) = real else { continue };
        if found.iter().any(|known| known.path.canonicalize().is_ok_and(|known| known == real)) {
            continue;
        }
        let version = known(&path).map(|version| version.to_string()).or_else(|| of_name(&real));
        found.push(Installed { path, how, cuda_major, version });
    }
    found
}

/// Where the dynamic linker finds a bare name, as far as its usual folders tell.
fn by_linker(system: &System, name: &Path) -> Option<PathBuf> {
    let named = system.variable("LD_LIBRARY_PATH").unwrap_or_default();
    let usual =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let folders = std::env::split_paths(named).chain(usual.map(|folder| system.path(folder)));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// `2025.3.1` of the toolkit's `libcupti.so.2025.3.1`.
fn of_name(path: &Path) -> Option<String> {
    let (_, version) = path.file_name()?.to_str()?.split_once(".so.")?;
    version.contains('.').then(|| version.to_owned())
}
