//! The folder of all bundles and a number to keep -> older bundles are gone, and nothing else.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::{MAX_LISTED_FILES, RunFolder, RunRecord, files_of};
use crate::finding::{Finding, Severity};
use stage2_figures::text::visible;

/// Removes bundles of the folder that `folder` was made in, so that the newest `keep` are left, with
/// this run's.
///
/// Only folders that lie directly in it, are no links, hold a `run.json` of ours that is about this
/// very folder, is closed and lists every file there, and are neither this run's nor the target of
/// `latest`. A folder that the user named may lie anywhere, so that nothing beside it is touched.
/// Notes say what is gone, warnings what stays and why.
pub(crate) fn keep_last(folder: &RunFolder, keep: u64) -> Vec<Finding> {
    let RunFolder::New { under, .. } = folder else { return Vec::new() };
    let mut bundles = match bundles_in(under) {
        Ok(bundles) => bundles,
        Err(error) => return vec![failed(under, &error)],
    };
    // By the time that they say themselves: copying changes that of the files.
    bundles.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let others = usize::try_from(keep.saturating_sub(1)).unwrap_or(usize::MAX);
    let latest = under.join("latest").canonicalize().ok();
    let this = folder.path().canonicalize().ok();
    bundles.retain(|(_, bundle, _)| this.is_none() || bundle.canonicalize().ok() != this);
    let excess = bundles.len().saturating_sub(others);
    let mut findings = Vec::new();
    for (_, bundle, listed) in bundles.into_iter().take(excess) {
        let real = bundle.canonicalize().ok();
        if real.is_none() || real == latest {
            continue;
        }
        // One more than are ever listed: it is told apart from those.
        let there = files_of(&bundle, MAX_LISTED_FILES + 1);
        if let Some(foreign) = there.iter().find(|file| !listed.contains(*file)) {
            findings.push(Finding::new(
                Severity::Warning,
                format!("run.keep_last: {} stays", bundle.display()),
                format!("it holds {}, which its run did not write", visible(foreign.as_bytes())),
                "take out what is yours, or delete it by hand",
            ));
            continue;
        }
        match std::fs::remove_dir_all(&bundle) {
            Ok(()) => findings.push(Finding::new(
                Severity::Note,
                format!("the bundle {} was deleted", bundle.display()),
                format!("run.keep_last={keep} keeps the newest {keep}"),
                "",
            )),
            Err(error) => findings.push(failed(&bundle, &error)),
        }
    }
    findings
}

/// What is told of a bundle that is bigger than `limit` bytes.
pub(crate) fn too_big(dir: &Path, limit: u64) -> Option<Finding> {
    let bytes = size_of(dir);
    (bytes > limit).then(|| {
        Finding::new(
            Severity::Warning,
            format!("the bundle has {bytes} bytes, more than run.size_limit_bytes={limit}"),
            "nothing was deleted",
            "delete what is not needed, or record less: profiling.collector.ranges, \
             profiling/nsys=nsys.gated",
        )
    })
}

/// Time, path and list of files of every bundle that this program wrote into `under` and closed.
fn bundles_in(under: &Path) -> io::Result<Vec<(String, PathBuf, HashSet<String>)>> {
    let mut bundles = Vec::new();
    for entry in std::fs::read_dir(under)? {
        let entry = entry?;
        // No links: what they point to lies elsewhere.
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let path = entry.path();
        if let Ok(record) = RunRecord::read(&path)
            && record.run_id.as_str() == entry.file_name()
            && record.finished.is_some()
            // While the reports are still written it is finished, and has no list of its files yet.
            && !record.files.is_empty()
        {
            bundles.push((record.started, path, record.files.into_iter().collect()));
        }
    }
    Ok(bundles)
}

fn failed(path: &Path, error: &io::Error) -> Finding {
    let what = format!("run.keep_last: {} could not be deleted", path.display());
    Finding::new(Severity::Warning, what, error.to_string(), "delete it by hand")
}

/// Bytes of all files below `dir`; links count as nothing.
fn size_of(dir: &Path) -> u64 {
    let mut bytes = 0_u64;
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) if found.is_file() => bytes = bytes.saturating_add(found.len()),
                _ => {}
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_we_wrote_goes_and_the_newest_stay() {
        let dir = tempfile::tempdir().expect("folder");
        let bundle = |name: &str, id: &str, started: &str, finished: Option<&str>| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(&path).expect("folder");
            let mut record = RunRecord::new(id.into(), Vec::new());
            record.started = started.into();
            record.finished = finished.map(str::to_owned);
            // The list comes after the reports.
            if name != "reporting" {
                record.files = vec!["run.json".into(), "sub/x.csv".into()];
            }
            let json = serde_json::to_vec(&record).expect("JSON");
            std::fs::write(path.join("run.json"), json).expect("run.json");
        };
        bundle("old", "old", "2026-01-01T00:00:00.000Z", Some("x"));
        bundle("linked", "linked", "2026-01-02T00:00:00.000Z", Some("x"));
        bundle("copied", "another", "2026-01-01T00:00:00.000Z", Some("x"));
        bundle("running", "running", "2026-01-01T00:00:00.000Z", None);
        bundle("reporting", "reporting", "2026-01-01T00:00:00.000Z", Some("x"));
        bundle("annotated", "annotated", "2026-01-01T00:00:00.000Z", Some("x"));
        std::fs::write(dir.path().join("annotated/NOTES.md"), "mine").expect("file");
        std::fs::create_dir(dir.path().join("old/sub")).expect("folder");
        std::fs::write(dir.path().join("old/sub/x.csv"), "").expect("file");
        bundle("new", "new", "2026-01-03T00:00:00.000Z", Some("x"));
        std::fs::create_dir(dir.path().join("notes")).expect("folder");
        std::fs::write(dir.path().join("notes/run.json"), "{}").expect("file");
        std::fs::create_dir(dir.path().join("this")).expect("folder");
        std::os::unix::fs::symlink("linked", dir.path().join("latest")).expect("link");
        std::os::unix::fs::symlink("old", dir.path().join("alias")).expect("link");
        let folder = RunFolder::New { under: dir.path().into(), name: "this".into() };
        let findings = keep_last(&folder, 2);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings.iter().any(|f| f.severity == Severity::Warning
            && f.what.contains("annotated stays")
            && f.why.contains("NOTES.md")));
        assert!(!dir.path().join("old").exists());
        for kept in
            ["linked", "copied", "running", "reporting", "annotated", "new", "notes", "this"]
        {
            assert!(dir.path().join(kept).is_dir(), "{kept}");
        }
        assert_eq!(keep_last(&RunFolder::Given(dir.path().join("new")), 1), []);
        assert_eq!(keep_last(&folder, 5), []);
    }

    #[test]
    fn a_bundle_over_its_limit_is_told() {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::write(dir.path().join("a"), [0; 100]).expect("file");
        assert_eq!(too_big(dir.path(), 100), None);
        assert!(too_big(dir.path(), 99).is_some_and(|f| f.what.contains("100 bytes")));
    }
}
