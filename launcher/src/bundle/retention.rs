//! The folder of all bundles and what to keep -> older bundles are compressed or gone, and nothing else.

use std::collections::HashSet;
use std::fs::TryLockError;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use super::compress::{Compressed, compress};
use super::{MAX_LISTED_FILES, PassRecord, RunFolder, RunRecord, files_of, for_each_file};
use crate::config::Run;
use stage2_contract::text::visible;
use stage2_model::{Finding, PassStatus, Severity};
use stage2_read::{files, private};

#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Notes say what is gone or compressed, warnings what stays and why.
    pub(crate) findings: Vec<Finding>,
    /// Bundles whose files have other names and sizes now.
    pub(crate) compressed: Vec<PathBuf>,
}

/// Bytes that one run compresses at most: some seconds of work. Larger files stay as they are.
const MOST_COMPRESSED_BYTES: u64 = 4 << 30;

/// File in the folder of all bundles that is locked while they are worked on.
const LOCK: &str = ".retention";

struct Older {
    path: PathBuf,
    record: RunRecord,
}

/// Removes and compresses bundles of the folder that `folder` was made in for the run `record`. Those of
/// runs that failed go first, then the oldest; a run that failed itself takes the place of no other.
///
/// Only folders that lie directly in it, are no links, hold a `run.json` of ours that is about this
/// very folder, is closed and lists every file there, and are neither this run's nor the target of
/// `latest`. A folder that the user named may lie anywhere, so that nothing beside it is touched.
/// Where another run makes room at this moment, that is enough.
pub(crate) fn make_room(folder: &RunFolder, settings: &Run, record: &RunRecord) -> Room {
    let mut room = Room::default();
    let RunFolder::New { under, .. } = folder else { return room };
    if !settings.limits_bundles() {
        return room;
    }
    let lock = private::append(&under.join(LOCK));
    if let Ok(lock) = &lock
        && let Err(TryLockError::WouldBlock) = lock.try_lock()
    {
        return room;
    }
    let mut bundles = match bundles_in(under) {
        Ok(bundles) => bundles,
        Err(error) => {
            room.findings.push(failed(under, &error));
            return room;
        }
    };
    // By the time that they say themselves: copying changes that of the files.
    let by_start = |a: &Older, b: &Older| a.record.started.cmp(&b.record.started);
    bundles.sort_by(|a, b| is_good(&a.record).cmp(&is_good(&b.record)).then(by_start(a, b)));
    let latest = under.join("latest").canonicalize().ok();
    let this = folder.path().canonicalize().ok();
    bundles.retain(|older| this.is_none() || older.path.canonicalize().ok() != this);
    let is_latest = |path: &Path| {
        let real = path.canonicalize().ok();
        real.is_none() || real == latest
    };
    let may_go =
        |older: &Older| !is_latest(&older.path) && (is_good(record) || !is_good(&older.record));
    // This run's own bundle counts among those that are kept.
    let others = |keep: NonZeroU64| usize::try_from(keep.get() - 1).unwrap_or(usize::MAX);
    let keep_last = settings.keep_last;
    let excess = keep_last.map_or(0, |keep| bundles.len().saturating_sub(others(keep)));
    let mut kept: Vec<Older> = Vec::new();
    let mut why = keep_last.map_or_else(String::new, |keep| {
        format!("run.keep_last={keep} keeps the newest {keep}; null keeps all")
    });
    for (index, older) in bundles.into_iter().enumerate() {
        let goes = index < excess && may_go(&older);
        if !(goes && remove(&older, "run.keep_last", &why, &mut room.findings)) {
            kept.push(older);
        }
    }
    if let Some(limit) = settings.keep_bytes {
        why = format!("run.keep_bytes={limit} is the most for all bundles; null keeps all");
        kept = within(kept, &folder.path(), limit.get(), &why, &may_go, &mut room.findings);
    }
    kept.sort_by(by_start);
    let Some(uncompressed) = settings.keep_uncompressed else { return room };
    let old = kept.len().saturating_sub(others(uncompressed));
    let mut budget = MOST_COMPRESSED_BYTES;
    for mut older in kept.into_iter().take(old).filter(|older| !is_latest(&older.path)) {
        let path = older.path.display();
        room.findings.push(match compress(&older.path, &mut older.record, &mut budget) {
            Ok(Compressed { files: 0, .. }) => continue,
            Ok(Compressed { files, before_bytes, after_bytes }) => Finding::new(
                Severity::Note,
                match files {
                    1 => format!("1 file of the bundle {path} was compressed"),
                    _ => format!("{files} files of the bundle {path} were compressed"),
                },
                format!(
                    "from {before_bytes} to {after_bytes} bytes; run.keep_uncompressed={uncompressed} \
                     leaves those of the newest {uncompressed}; null leaves all"
                ),
                "",
            ),
            Err(error) => Finding::new(
                Severity::Warning,
                format!("run.keep_uncompressed: {path} could not be compressed completely"),
                format!("{error:#}"),
                "its reports can be written again as before",
            ),
        });
        // Also after an error: files before the one that failed are compressed.
        room.compressed.push(older.path);
    }
    room
}

/// Removes the first bundles until all of them, with that of this run, have at most `limit` bytes.
/// Where this run alone has more, nothing that is removed would help, and nothing is.
fn within(
    bundles: Vec<Older>,
    this: &Path,
    limit: u64,
    why: &str,
    may_go: &impl Fn(&Older) -> bool,
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
        let goes = all > limit && may_go(&older);
        if goes && remove(&older, "run.keep_bytes", why, findings) {
            all = all.saturating_sub(bytes);
        } else {
            kept.push(older);
        }
    }
    kept
}

/// Whether a run came to its end with a result, so that its bundle is worth more than that of one that
/// failed, was interrupted or recorded no GPU work. A bundle that does not say is worth as much.
fn is_good(record: &RunRecord) -> bool {
    use PassStatus::{Failed, Interrupted, WorkloadFailed};
    let failed = |pass: &PassRecord| {
        pass.name == "collect" && matches!(pass.status, Failed | Interrupted | WorkloadFailed)
    };
    record.coverage["verdict"]["status"] != "empty" && !record.passes.iter().any(failed)
}

/// Removes a bundle in which every file is its run's; whether it did.
fn remove(older: &Older, key: &str, why: &str, findings: &mut Vec<Finding>) -> bool {
    let Older { path, record, .. } = older;
    let listed: HashSet<&str> = record.files.iter().map(String::as_str).collect();
    // One more than are ever listed: it is told apart from those.
    let there = files_of(path, MAX_LISTED_FILES + 1);
    // A signal can end a process before its temporary files are gone.
    let is_temporary = |file: &str| files::is_temporary(file.rsplit('/').next().unwrap_or(file));
    let is_foreign = |file: &&String| !listed.contains(file.as_str()) && !is_temporary(file);
    if let Some(foreign) = there.iter().find(is_foreign) {
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
            bundles.push(Older { path, record });
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
    for_each_file(dir, |entry| {
        let found = entry.metadata().ok().filter(std::fs::Metadata::is_file);
        bytes = bytes.saturating_add(found.map_or(0, |found| found.len()));
    });
    bytes
}

#[cfg(test)]
mod tests;
