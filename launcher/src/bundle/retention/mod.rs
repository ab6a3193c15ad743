//! The folder of all bundles and what to keep -> older bundles are compressed or gone, and nothing else.

use std::collections::HashSet;
use std::fs::{self, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

use super::{
    BASELINE_DIR, COLLECTOR_DIR, COUNTERS_DIR, MAX_LISTED_FILES, NSYS_DIR, PassRecord, RunFolder,
    RunRecord, WINDOWS_DIR, files_of, for_each_file, window_bundles, window_number,
};
use crate::config::Run;
use stage2_contract::order::Order as _;
use stage2_contract::text::visible;
use stage2_model::finding::Id;
use stage2_model::{Finding, PassStatus};
use stage2_read::{files, private};

#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Notes state what is gone, warnings what stays and why.
    pub(crate) findings: Vec<Finding>,
    pub(crate) deleted: usize,
    /// What was compressed, and what stays as it is.
    pub(crate) compressions: Vec<Finding>,
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
/// Only folders that lie directly in it, are not links, hold a `run.json` of ours that is about this
/// very folder, is closed and lists every file there, and are neither this run's nor the target of
/// `latest`. A folder that the user named may lie anywhere, so that nothing next to it is touched.
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
    bundles.order_by(|a, b| is_good(&a.record).cmp(&is_good(&b.record)).then(by_start(a, b)));
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
    let before = bundles.len();
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
    room.deleted = before - kept.len();
    kept.order_by(by_start);
    let Some(uncompressed) = settings.keep_uncompressed else { return room };
    let old = kept.len().saturating_sub(others(uncompressed));
    let mut budget = MOST_COMPRESSED_BYTES;
    for mut older in kept.into_iter().take(old).filter(|older| !is_latest(&older.path)) {
        let path = older.path.display();
        room.compressions.push(match compress(&older.path, &mut older.record, &mut budget) {
            Ok(Compressed { files: 0, .. }) => continue,
            Ok(Compressed { files, before_bytes, after_bytes }) => Id::BundleDeleted.found(match files {
                    1 => format!("1 file of the bundle {path} was compressed"),
                    _ => format!("{files} files of the bundle {path} were compressed"),
                },
                format!(
                    "from {before_bytes} to {after_bytes} bytes; run.keep_uncompressed={uncompressed} \
                     leaves those of the newest {uncompressed}; null leaves all"
                ),
                "",
            ),
            Err(error) => Id::BundleStays.found(
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
        findings.push(Id::BundleStays.found(
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
        findings.push(Id::BundleStays.found(
            format!("{key}: {} stays", path.display()),
            format!("it holds {}, which its run did not write", visible(foreign.as_bytes())),
            "take out what is yours, or delete it by hand",
        ));
        return false;
    }
    let removed = std::fs::remove_dir_all(path);
    findings.push(match &removed {
        Ok(()) => {
            Id::BundleDeleted.found(format!("the bundle {} was deleted", path.display()), why, "")
        }
        Err(error) => failed(path, error),
    });
    removed.is_ok()
}

pub(crate) fn too_big(dir: &Path, limit: u64) -> Option<Finding> {
    let bytes = size_of(dir);
    (bytes > limit).then(|| {
        Id::BundleStays.found(
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
    Id::BundleStays.found(what, error.to_string(), "delete it by hand")
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

/// Smaller files are left: there is little to gain.
const LEAST_BYTES: u64 = 64 << 10;
/// A file has to shrink to this part of its size, percent, or stays as it is.
const MOST_PERCENT: u64 = 90;
/// The beginning of a file shows whether the file is worth its share of the budget.
const PROBED_BYTES: u64 = 4 << 20;
/// No process of ours writes to a temporary file again after such a time.
const ABANDONED_AFTER: Duration = Duration::from_secs(60 * 60);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Compressed {
    pub(super) files: u64,
    pub(super) before_bytes: u64,
    pub(super) after_bytes: u64,
}

/// Compresses trace files and SQLite exports of nsys that `record` lists, of at most `budget` bytes
/// together, and brings the list up to date, for a file of a window also that of the window's bundle. Files
/// that do not shrink cost nothing of the budget. What nsys and ncu call reports (`.nsys-rep`, `.ncu-rep`)
/// is compressed inside already.
///
/// At every moment each file is there, in one form at least, and on the list: a signal may end the
/// process anywhere, and the next call goes on from there.
/// An error names a file; those before it are compressed.
fn compress(dir: &Path, record: &mut RunRecord, budget: &mut u64) -> anyhow::Result<Compressed> {
    remove_abandoned(dir);
    let mut done = Compressed::default();
    for name in record.files.clone() {
        let Some(path) = candidate(dir, &name) else { continue };
        let bytes = fs::symlink_metadata(&path).map_or(0, |found| found.len());
        if !(LEAST_BYTES..=*budget).contains(&bytes) {
            continue;
        }
        let failed = || format!("{} cannot be compressed", path.display());
        let packed = dir.join(packed_name(&name));
        let there = fs::symlink_metadata(&packed).ok();
        if there.is_none() && !shrinks(&path).with_context(failed)? {
            continue;
        }
        *budget = budget.saturating_sub(bytes);
        let fresh = match there {
            None => match pack(&path, bytes).with_context(failed)? {
                None => continue,
                fresh => fresh,
            },
            // A copy is what an earlier call left; another file may be somebody's.
            Some(found) => {
                let is_copy = found.is_file() && holds(&packed, &path).with_context(failed)?;
                let packed = packed.display();
                anyhow::ensure!(is_copy, "{packed} is there already, with other contents");
                None
            }
        };
        // Listed first: what is not listed counts as the user's, and keeps the bundle from being deleted.
        relist(dir, record, &name, |record, name| {
            let listed = packed_name(name);
            if !record.files.contains(&listed) {
                record.files.push(listed);
            }
        })?;
        if let Some(fresh) = fresh {
            files::put(fresh, &packed).with_context(failed)?;
        }
        let after = fs::symlink_metadata(&packed).with_context(failed)?.len();
        fs::remove_file(&path).with_context(failed)?;
        relist(dir, record, &name, |record, name| {
            record.files.retain(|other| other != name);
            record.files.sort();
            for window in record.windows.iter_mut().filter(|window| window.file == name) {
                window.file = packed_name(name);
            }
        })?;
        done.files += 1;
        done.before_bytes = done.before_bytes.saturating_add(bytes);
        done.after_bytes = done.after_bytes.saturating_add(after);
    }
    Ok(done)
}

fn packed_name(name: &str) -> String {
    format!("{name}.{}", files::COMPRESSED)
}

/// Changes what the record of the run says of a file, and that of the window whose bundle has it.
fn relist(
    dir: &Path,
    record: &mut RunRecord,
    name: &str,
    change: impl Fn(&mut RunRecord, &str),
) -> anyhow::Result<()> {
    change(record, name);
    record.write(dir)?;
    let (window, own_name) = split_window(name);
    // A record that cannot be read is nothing to go by for anybody else either.
    if !window.is_empty()
        && let Ok(mut own) = RunRecord::read(&dir.join(window))
    {
        change(&mut own, own_name);
        own.write(&dir.join(window))?;
    }
    Ok(())
}

/// The window of a file, `windows/w3`, or nothing, and the name of the file in that bundle.
fn split_window(name: &str) -> (&str, &str) {
    let mut parts = name.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(WINDOWS_DIR), Some(window), Some(own_name)) if window_number(window).is_some() => {
            let (window, _) = name.split_at(WINDOWS_DIR.len() + 1 + window.len());
            (window, own_name)
        }
        _ => ("", name),
    }
}

/// Deletes temporary files that a signal left in the folders where files are packed and unpacked.
fn remove_abandoned(dir: &Path) {
    let is_abandoned = |entry: &fs::DirEntry| {
        let old = |at: SystemTime| at.elapsed().is_ok_and(|age| age >= ABANDONED_AFTER);
        entry.file_name().to_str().is_some_and(files::is_temporary)
            && entry
                .metadata()
                .is_ok_and(|found| found.is_file() && found.modified().is_ok_and(old))
    };
    let folders = [COLLECTOR_DIR, BASELINE_DIR, COUNTERS_DIR, NSYS_DIR].map(|name| dir.join(name));
    let windows = window_bundles(dir).into_iter().filter(|_| is_dir(&dir.join(WINDOWS_DIR)));
    let of_windows = windows.filter(|window| is_dir(window)).map(|dir| dir.join(COLLECTOR_DIR));
    for folder in folders.into_iter().chain(of_windows) {
        if !is_dir(&folder) {
            continue;
        }
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten().filter(is_abandoned) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The path of a file that may be compressed: an ordinary one, right in a folder of ours, and no link.
fn candidate(dir: &Path, name: &str) -> Option<PathBuf> {
    let (window, own_name) = split_window(name);
    let (folder, file) = own_name.split_once('/')?;
    let kind = match folder {
        COLLECTOR_DIR | BASELINE_DIR | COUNTERS_DIR => ".s2t",
        NSYS_DIR => ".sqlite",
        _ => return None,
    };
    let is_ours = window.is_empty() || is_dir(&dir.join(WINDOWS_DIR)) && is_dir(&dir.join(window));
    let folder = dir.join(window).join(folder);
    let path = folder.join(file);
    let is_plain = file.ends_with(kind) && !file.contains('/');
    let is_file = || fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
    (is_plain && is_ours && is_dir(&folder) && is_file()).then_some(path)
}

/// Whether it is a folder, and no link to one.
fn is_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn shrinks(path: &Path) -> io::Result<bool> {
    let file = files::open(path)?;
    let read = file.metadata()?.len().min(PROBED_BYTES);
    let mut packed = flate2::read::GzEncoder::new(file.take(PROBED_BYTES), Compression::fast());
    Ok(is_smaller(io::copy(&mut packed, &mut io::sink())?, read))
}

fn is_smaller(after: u64, before: u64) -> bool {
    after.saturating_mul(100) <= before.saturating_mul(MOST_PERCENT)
}

/// The compressed file, read again to see that it holds the same. None: it is hardly
/// smaller, or would be taken for a bomb.
fn pack(from: &Path, bytes: u64) -> anyhow::Result<Option<NamedTempFile>> {
    let fresh = files::new_in(from.parent().unwrap_or(Path::new(".")))?;
    let mut packer = GzEncoder::new(io::BufWriter::new(fresh), Compression::fast());
    io::copy(&mut files::open(from)?, &mut packer)?;
    let mut sink = packer.finish()?;
    sink.flush()?;
    // Without its buffer; all of that is written.
    let (fresh, _) = sink.into_parts();
    let after = fresh.as_file().metadata()?.len();
    if !is_smaller(after, bytes) || files::most_unpacked(after) < bytes {
        return Ok(None);
    }
    anyhow::ensure!(holds(fresh.path(), from)?, "the file does not read back as it was written");
    fresh.as_file().set_permissions(fs::symlink_metadata(from)?.permissions())?;
    Ok(Some(fresh))
}

/// Whether a compressed file stands for the same bytes as a plain one.
fn holds(packed: &Path, plain: &Path) -> io::Result<bool> {
    let mut left = io::BufReader::new(files::unpacked(packed)?);
    let mut right = io::BufReader::new(files::open(plain)?);
    loop {
        let (a, b) = (io::BufRead::fill_buf(&mut left)?, io::BufRead::fill_buf(&mut right)?);
        let common = a.len().min(b.len());
        if a.get(..common) != b.get(..common) {
            return Ok(false);
        }
        if common == 0 {
            return Ok(a.is_empty() && b.is_empty());
        }
        io::BufRead::consume(&mut left, common);
        io::BufRead::consume(&mut right, common);
    }
}

#[cfg(test)]
mod tests;
