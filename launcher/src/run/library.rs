//! Settings and the place of this program -> the collector's library.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::install::{self, HOW_TO_INSTALL};
use crate::plan::{LIBRARY, Link};
use crate::workload::is_library;

/// The collector, or where it was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Found(PathBuf),
    Missing(Vec<PathBuf>),
    /// It is not a library that a program of this machine can load: the loader would run the workload without it.
    Unusable(PathBuf),
}

/// Looks where the configuration or `STAGE2_COLLECTOR` says, and only there; else in this installation.
pub(crate) fn find(configured: Option<&Path>, variable: Option<&Path>, exe: &Path) -> Library {
    let found = match configured.or(variable.filter(|path| !path.as_os_str().is_empty())) {
        Some(named) => {
            let named = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
            if named.is_file() { Ok(named) } else { Err(vec![named]) }
        }
        None => install::find(exe, LIBRARY),
    };
    match found {
        Ok(found) if is_library(&found) => Library::Found(found),
        Ok(found) => Library::Unusable(found),
        Err(places) => Library::Missing(places),
    }
}

impl Library {
    pub(crate) fn problem(&self) -> String {
        match self {
            Library::Unusable(path) => {
                format!("{} is not a shared library for this machine", path.display())
            }
            Library::Found(path) => format!("the collector {LIBRARY} is {}", path.display()),
            Library::Missing(places) => {
                let (places, proc) = (install::listed(places), install::without_proc());
                format!("the collector {LIBRARY} was not found at{places}{proc}")
            }
        }
    }

    pub(crate) fn complaint(&self) -> String {
        let problem = self.problem();
        format!(
            "{problem}; {HOW_TO_INSTALL}, or name the library with \
             profiling.collector.library=PATH or STAGE2_COLLECTOR=PATH"
        )
    }

    pub(crate) fn first_place(self) -> Option<PathBuf> {
        match self {
            Library::Found(path) | Library::Unusable(path) => Some(path),
            Library::Missing(places) => places.into_iter().next(),
        }
    }
}

/// A link that is there as long as this lives.
pub(crate) struct PreloadLink(Option<PathBuf>);

#[derive(Debug, thiserror::Error)]
#[error(
    "{} cannot be created ({error}), and the loader cannot read the path {}; put the library in a \
     folder without spaces, colons and dollar signs",
    .link.at.display(),
    .link.target.display()
)]
pub(crate) struct NotLinked {
    link: Link,
    error: std::io::Error,
}

/// Makes the link, in a folder that no other user can have made.
pub(crate) fn linked(link: Option<&Link>) -> Result<PreloadLink, NotLinked> {
    let Some(link) = link else { return Ok(PreloadLink(None)) };
    let dir = link.at.parent().unwrap_or(Path::new("/tmp")).to_owned();
    let make = || {
        let builder = || std::fs::DirBuilder::new().mode(0o700).create(&dir);
        match builder() {
            // In a container every run has the same process id: one that was killed left it behind.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && is_ours(&dir) => {
                drop(PreloadLink(Some(dir.clone())));
                builder()?;
            }
            other => other?,
        }
        std::os::unix::fs::symlink(&link.target, &link.at)
    };
    make().map_err(|error| NotLinked { link: link.clone(), error })?;
    Ok(PreloadLink(Some(dir)))
}

/// Whether this user made the folder.
fn is_ours(dir: &Path) -> bool {
    let owner = |path: &Path| std::fs::symlink_metadata(path).ok().map(|found| found.uid());
    let is_dir = std::fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir());
    is_dir && owner(dir).is_some() && owner(dir) == owner(Path::new("/proc/self"))
}

impl Drop for PreloadLink {
    fn drop(&mut self) {
        if let Some(dir) = &self.0 {
            let _ = std::fs::remove_file(dir.join(LIBRARY));
            let _ = std::fs::remove_dir(dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_was_left_behind_is_replaced() {
        let dir = tempfile::tempdir().expect("folder");
        let link =
            Link { target: "/some where/x.so".into(), at: dir.path().join("d").join(LIBRARY) };
        std::mem::forget(linked(Some(&link)).expect("a link"));
        let again = linked(Some(&link)).expect("a link again");
        assert_eq!(std::fs::read_link(&link.at).expect("link"), link.target);
        drop(again);
        assert!(!dir.path().join("d").exists());
        std::fs::write(dir.path().join("d"), "").expect("file");
        assert!(linked(Some(&link)).is_err_and(|why| why.to_string().contains("without spaces")));
    }

    #[test]
    fn places_are_tried_in_order() {
        let dir = tempfile::tempdir().expect("folder");
        let make = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folders");
            std::fs::copy("/proc/self/exe", &path)
                .expect("a shared object: tests are built as such");
            path
        };
        let exe = dir.path().join("bin/stage2-launch");
        std::fs::create_dir_all(dir.path().join("bin")).expect("folder");
        let missing = find(None, None, &exe);
        assert!(matches!(&missing, Library::Missing(places) if places.len() > 2), "{missing:?}");
        assert!(missing.complaint().contains("STAGE2_COLLECTOR"));
        make("lib/libstage2.so");
        assert!(
            matches!(find(None, None, &exe), Library::Found(p) if p.ends_with("lib/libstage2.so"))
        );
        let beside = make("bin/libstage2.so");
        assert_eq!(find(None, None, &exe), Library::Found(beside));
        let named = make("x/other.so");
        assert_eq!(find(None, Some(&named), &exe), Library::Found(named.clone()));
        assert_eq!(find(Some(&named), Some(Path::new("/no")), &exe), Library::Found(named.clone()));
        let missing = find(Some(Path::new("/no")), None, &exe);
        assert_eq!(missing, Library::Missing(vec!["/no".into()]), "a named place is the only one");
        let mut other = std::fs::read(&named).expect("library");
        other[18] ^= 0x55;
        for (name, bytes) in [("other.so", &other[..]), ("text", b"#!/bin/sh\n"), ("empty", b"")] {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).expect("file");
            let unusable = find(Some(&path), None, &exe);
            assert_eq!(unusable, Library::Unusable(path));
            assert!(unusable.complaint().contains("not a shared library for this machine"));
        }
    }
}
