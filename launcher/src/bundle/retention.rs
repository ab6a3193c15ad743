//! The folder of all bundles and what to keep -> older bundles are compressed or gone, and nothing else.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::compress::{Compressed, compress};
use super::{MAX_LISTED_FILES, RunFolder, RunRecord, files_of};
use stage2_model::{Finding, Severity};
use stage2_text::visible;

/// What is kept of the bundles of one folder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keep {
    /// Newest bundles that are kept, this run's included; none: all.
    pub(crate) last: Option<u64>,
    /// Bytes that all bundles may have together; none: any number.
    pub(crate) bytes: Option<u64>,
    /// Newest bundles whose files stay as they are, this run's included; none: all.
    pub(crate) uncompressed: Option<u64>,
}

/// What was done to make room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Notes say what is gone or compressed, warnings what stays and why.
    pub(crate) findings: Vec<Finding>,
    /// Bundles whose files have other names and sizes now.
    pub(crate) compressed: Vec<PathBuf>,
}

/// Bytes that one run compresses at most: some seconds of work. Larger files stay as they are.
const MOST_COMPRESSED_BYTES: u64 = 4 << 30;

/// A bundle beside that of this run.
struct Older {
    started: String,
    path: PathBuf,
    record: RunRecord,
}

/// Removes and compresses bundles of the folder that `folder` was made in, the oldest first.
///
/// Only folders that lie directly in it, are no links, hold a `run.json` of ours that is about this
/// very folder, is closed and lists every file there, and are neither this run's nor the target of
/// `latest`. A folder that the user named may lie anywhere, so that nothing beside it is touched.
pub(crate) fn make_room(folder: &RunFolder, keep: Keep) -> Room {
    let mut room = Room::default();
    let RunFolder::New { under, .. } = folder else { return room };
    let mut bundles = match bundles_in(under) {
        Ok(bundles) => bundles,
        Err(error) => {
            room.findings.push(failed(under, &error));
            return room;
        }
    };
    // By the time that they say themselves: copying changes that of the files.
    bundles.sort_by(|a, b| a.started.cmp(&b.started));
    let latest = under.join("latest").canonicalize().ok();
    let this = folder.path().canonicalize().ok();
    bundles.retain(|older| this.is_none() || older.path.canonicalize().ok() != this);
    let is_latest = |path: &Path| {
        let real = path.canonicalize().ok();
        real.is_none() || real == latest
    };
    let others = |keep: u64| usize::try_from(keep.saturating_sub(1)).unwrap_or(usize::MAX);
    let excess = keep.last.map_or(0, |keep| bundles.len().saturating_sub(others(keep)));
    let mut kept: Vec<Older> = Vec::new();
    let mut why = keep.last.map_or_else(String::new, |keep| {
        format!("run.keep_last={keep} keeps the newest {keep}; null keeps all")
    });
    for (index, older) in bundles.into_iter().enumerate() {
        let goes = index < excess && !is_latest(&older.path);
        if !(goes && remove(&older, "run.keep_last", &why, &mut room.findings)) {
            kept.push(older);
        }
    }
    if let Some(limit) = keep.bytes {
        why = format!("run.keep_bytes={limit} is the most for all bundles; null keeps all");
        kept = within(kept, &folder.path(), limit, &why, &is_latest, &mut room.findings);
    }
    let Some(uncompressed) = keep.uncompressed else { return room };
    let old = kept.len().saturating_sub(others(uncompressed));
    let mut budget = MOST_COMPRESSED_BYTES;
    for mut older in kept.into_iter().take(old).filter(|older| !is_latest(&older.path)) {
        let path = older.path.display();
        match compress(&older.path, &mut older.record, &mut budget) {
            Ok(Compressed { files: 0, .. }) => {}
            Ok(done) => {
                let Compressed { files, before_bytes, after_bytes } = done;
                room.findings.push(Finding::new(
                    Severity::Note,
                    format!("{files} files of the bundle {path} were compressed"),
                    format!(
                        "from {before_bytes} to {after_bytes} bytes; run.keep_uncompressed={uncompressed} \
                         leaves those of the newest {uncompressed}; null leaves all"
                    ),
                    "",
                ));
                room.compressed.push(older.path);
            }
            Err(error) => room.findings.push(Finding::new(
                Severity::Warning,
                format!("run.keep_uncompressed: {path} is not compressed, or in part"),
                format!("{error:#}"),
                "its reports can be written again as before",
            )),
        }
    }
    room
}

/// Removes the oldest bundles until all of them, with that of this run, have at most `limit` bytes.
/// Where this run alone has more, nothing that is removed would help, and nothing is.
fn within(
    bundles: Vec<Older>,
    this: &Path,
    limit: u64,
    why: &str,
    is_latest: &impl Fn(&Path) -> bool,
    findings: &mut Vec<Finding>,
) -> Vec<Older> {
    let own = size_of(this);
    if own > limit {
        findings.push(Finding::new(
            Severity::Warning,
            format!("run.keep_bytes={limit} is less than this run alone has: {own} bytes"),
            "no older bundle was deleted for it",
            "raise it, or record less: profiling.collector.ranges, profiling/nsys=nsys.gated",
        ));
        return bundles;
    }
    let sizes: Vec<u64> = bundles.iter().map(|older| size_of(&older.path)).collect();
    let mut all = sizes.iter().fold(own, |all, bytes| all.saturating_add(*bytes));
    let mut kept = Vec::new();
    for (older, bytes) in bundles.into_iter().zip(sizes) {
        let goes = all > limit && !is_latest(&older.path);
        if goes && remove(&older, "run.keep_bytes", why, findings) {
            all = all.saturating_sub(bytes);
        } else {
            kept.push(older);
        }
    }
    kept
}

/// Removes a bundle in which every file is its run's; whether it did.
fn remove(older: &Older, key: &str, why: &str, findings: &mut Vec<Finding>) -> bool {
    let Older { path, record, .. } = older;
    let listed: HashSet<&str> = record.files.iter().map(String::as_str).collect();
    // One more than are ever listed: it is told apart from those.
    let there = files_of(path, MAX_LISTED_FILES + 1);
    if let Some(foreign) = there.iter().find(|file| !listed.contains(file.as_str())) {
        findings.push(Finding::new(
            Severity::Warning,
            format!("{key}: {} stays", path.display()),
            format!("it holds {}, which its run did not write", visible(foreign.as_bytes())),
            "take out what is yours, or delete it by hand",
        ));
        return false;
    }
    let removed = std::fs::remove_dir_all(path);
    findings.push(match &removed {
        Ok(()) => Finding::new(
            Severity::Note,
            format!("the bundle {} was deleted", path.display()),
            why,
            "",
        ),
        Err(error) => failed(path, error),
    });
    removed.is_ok()
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

/// Every bundle that this program wrote into `under` and closed.
fn bundles_in(under: &Path) -> io::Result<Vec<Older>> {
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
            bundles.push(Older { started: record.started.clone(), path, record });
        }
    }
    Ok(bundles)
}

fn failed(path: &Path, error: &io::Error) -> Finding {
    let what = format!("{} could not be deleted", path.display());
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
        let keep_last = |folder: &RunFolder, last: u64| {
            make_room(folder, Keep { last: Some(last), ..Keep::default() }).findings
        };
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

    fn bundle(under: &Path, name: &str, bytes: usize) {
        let path = under.join(name);
        std::fs::create_dir_all(path.join("collector")).expect("folder");
        std::fs::write(path.join("collector/a.s2t"), vec![b'x'; bytes]).expect("file");
        let mut record = RunRecord::new(name.into(), Vec::new());
        record.started = format!("2026-01-01T00:00:0{}.000Z", name.len());
        record.finished = Some("x".into());
        record.files = vec!["run.json".into(), "collector/a.s2t".into()];
        let json = serde_json::to_vec(&record).expect("JSON");
        std::fs::write(path.join("run.json"), json).expect("run.json");
    }

    #[test]
    fn the_oldest_go_until_all_fit() {
        let dir = tempfile::tempdir().expect("folder");
        for name in ["a", "bb", "ccc", "dddd"] {
            bundle(dir.path(), name, 100_000);
        }
        std::fs::write(dir.path().join("bb/NOTES.md"), "mine").expect("file");
        std::fs::create_dir(dir.path().join("foreign")).expect("folder");
        std::fs::write(dir.path().join("foreign/huge"), vec![0; 500_000]).expect("file");
        let folder = RunFolder::New { under: dir.path().into(), name: "dddd".into() };
        let keep = |bytes| Keep { bytes: Some(bytes), ..Keep::default() };
        let left = || {
            let entries = std::fs::read_dir(dir.path()).expect("folder").flatten();
            let mut names: Vec<_> =
                entries.filter_map(|e| e.file_name().into_string().ok()).collect();
            names.sort();
            names.join(" ")
        };
        // Room for this run alone is not enough: none goes for nothing.
        let room = make_room(&folder, keep(90_000));
        assert!(room.findings[0].what.contains("less than this run alone has"), "{room:?}");
        assert_eq!(left(), "a bb ccc dddd foreign");
        // Three and their records fit; what is foreign is not counted.
        let room = make_room(&folder, keep(320_000));
        assert_eq!(left(), "bb ccc dddd foreign");
        assert!(room.findings[0].why.contains("run.keep_bytes=320000"), "{room:?}");
        // The next is not ours alone; the one after it goes in its place.
        let room = make_room(&folder, keep(220_000));
        assert_eq!(left(), "bb dddd foreign");
        assert!(room.findings[0].what.contains("run.keep_bytes") && room.findings.len() == 2);
        assert!(make_room(&folder, keep(u64::MAX)).findings.is_empty());
        let given = RunFolder::Given(dir.path().join("dddd"));
        assert!(make_room(&given, keep(1)).findings.is_empty());
    }

    #[test]
    fn older_bundles_are_compressed_and_still_ours() {
        let dir = tempfile::tempdir().expect("folder");
        for name in ["a", "bb", "ccc", "dddd"] {
            bundle(dir.path(), name, 100_000);
        }
        std::os::unix::fs::symlink("a", dir.path().join("latest")).expect("link");
        let folder = RunFolder::New { under: dir.path().into(), name: "dddd".into() };
        let keep = Keep { uncompressed: Some(2), ..Keep::default() };
        let room = make_room(&folder, keep);
        assert_eq!(room.compressed, [dir.path().join("bb")], "neither latest nor the newest two");
        assert!(room.findings[0].what.contains("1 files of the bundle"), "{room:?}");
        assert!(dir.path().join("bb/collector/a.s2t.gz").is_file());
        for name in ["a", "ccc", "dddd"] {
            assert!(dir.path().join(name).join("collector/a.s2t").is_file(), "{name}");
        }
        assert!(make_room(&folder, keep).compressed.is_empty(), "once is enough");
        // The compressed file is on the list: the bundle can still be removed.
        let room = make_room(&folder, Keep { last: Some(2), ..Keep::default() });
        assert!(!dir.path().join("bb").exists() && dir.path().join("a").exists(), "{room:?}");
    }

    #[test]
    fn a_bundle_over_its_limit_is_told() {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::write(dir.path().join("a"), [0; 100]).expect("file");
        assert_eq!(too_big(dir.path(), 100), None);
        assert!(too_big(dir.path(), 99).is_some_and(|f| f.what.contains("100 bytes")));
    }
}
