//! Runs -> a dataset: a folder for each table, partitioned by job, host, rank and hour, to which runs are
//! added without writing anything again.
//!
//! Files are named by what they hold, so an addition that was interrupted can be repeated, and nothing is
//! added twice. `_stage2/NAME.json` states what a run brought; readers leave out folders that begin with `_`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use parquet::file::metadata::KeyValue;
use serde::Serialize;
use stage2_contract::text::{visible, visible_path};
use stage2_export::host::StepRequests;
use stage2_export::{Counts, ExportError, Holds, Process, Selected, Selection, output};

use crate::columns::{NO_VALUE, Place, Table};
use crate::tables::{Tables, conclusions};

/// Where the dataset states what is in it.
const PROVENANCE: &str = "_stage2";
const SCHEMA: &str = "stage2.dataset";
const SCHEMA_VERSION: u32 = 1;
/// Ranks that a note names.
const NAMED: usize = 5;

pub(crate) struct Dataset {
    /// Its folder.
    pub(crate) root: PathBuf,
    /// Whether it may exist already.
    pub(crate) appends: bool,
}

/// What one run brought.
#[derive(Debug, Serialize)]
struct Manifest<'a> {
    schema: &'static str,
    schema_version: u32,
    created_by: &'static str,
    written_unix_s: u64,
    job: &'a str,
    run: &'a str,
    stages: &'a [String],
    window: Option<String>,
    clocks: Option<&'a str>,
    sample: Option<&'a str>,
    notes: &'a [String],
    counts: Counts,
    tables: BTreeMap<&'static str, Sum>,
    processes: Vec<Member>,
    /// Paths within the dataset.
    files: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct Sum {
    rows: u64,
    files: u64,
    bytes: u64,
}

/// A process of the run.
#[derive(Debug, Serialize)]
struct Member {
    /// The beginning of the names of its files.
    key: String,
    trace_file: String,
    host: String,
    rank: Option<u64>,
    pid: u32,
    start_ns: Option<i64>,
    end_ns: Option<i64>,
    missing: Vec<String>,
}

impl Dataset {
    /// Adds the selected part of a run; gives the files.
    pub(crate) fn add(
        &self,
        selected: &Selected<'_>,
        job: &str,
        selection: &Selection,
        counts: &mut Counts,
        notes: &mut Vec<String>,
    ) -> Result<Vec<PathBuf>, ExportError> {
        let provenance = self.root.join(PROVENANCE);
        let exists = self.appends && self.root.symlink_metadata().is_ok();
        if exists && !provenance.is_dir() {
            return Err(ExportError::NoDataset(visible_path(&self.root)));
        }
        let run_key = run_key(selected, job, selection);
        let manifest = format!("{run_key}.json");
        if exists && provenance.join(&manifest).symlink_metadata().is_ok() {
            let (root, manifest) = (visible_path(&self.root), format!("{PROVENANCE}/{manifest}"));
            return Err(ExportError::InDataset { root, what: selected.run.name.clone(), manifest });
        }
        let mut fill = |folder: &Path| {
            let whole = write(folder, selected, job, selection, &run_key, counts, notes)?;
            let path = folder.join(PROVENANCE).join(&manifest);
            let failed = ExportError::write(&path);
            fs::create_dir_all(folder.join(PROVENANCE)).map_err(&failed)?;
            let text = serde_json::to_vec_pretty(&whole).map_err(|e| failed(e.into()))?;
            fs::write(&path, text).map_err(failed)?;
            Ok(whole.files.iter().map(|file| folder.join(file)).chain([path]).collect())
        };
        if !exists {
            return output::folder(&self.root, fill);
        }
        let begun = provenance.join(format!("{run_key}.begun"));
        output::beside(&self.root, |new| {
            let files = fill(new)?;
            self.take_in(new, &files, &begun)
        })
    }

    /// Moves files into the dataset, that which states what they are last. `begun` is there meanwhile: files of an
    /// addition that was interrupted are replaced.
    fn take_in(
        &self,
        new: &Path,
        files: &[PathBuf],
        begun: &Path,
    ) -> Result<Vec<PathBuf>, ExportError> {
        let place =
            |file: &PathBuf| Some((file.clone(), self.root.join(file.strip_prefix(new).ok()?)));
        let moves: Vec<(PathBuf, PathBuf)> = files.iter().filter_map(place).collect();
        let is_repeated = begun.symlink_metadata().is_ok();
        let taken = moves.iter().find(|(_, to)| to.symlink_metadata().is_ok());
        if let Some((_, taken)) = taken.filter(|_| !is_repeated) {
            let what = taken.strip_prefix(&self.root).unwrap_or(taken);
            return Err(ExportError::InDataset {
                root: visible_path(&self.root),
                what: visible_path(what),
                manifest: format!("{PROVENANCE}/*.json"),
            });
        }
        fs::write(begun, "").map_err(ExportError::write(begun))?;
        for (from, to) in &moves {
            let moved = to.parent().map_or(Ok(()), new_folders).and_then(|()| fs::rename(from, to));
            moved.map_err(ExportError::write(to))?;
        }
        fs::remove_file(begun).map_err(ExportError::write(begun))?;
        Ok(moves.into_iter().map(|(_, to)| to).collect())
    }
}

/// Folders as those of an export: their owner's alone.
fn new_folders(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes the tables into a new folder.
fn write<'a>(
    folder: &Path,
    selected: &'a Selected<'_>,
    job: &'a str,
    selection: &'a Selection,
    run_key: &str,
    counts: &mut Counts,
    notes: &'a mut Vec<String>,
) -> Result<Manifest<'a>, ExportError> {
    let run = selected.run;
    let requests = StepRequests::of(run);
    let (mut tables, mut files) = (BTreeMap::<_, Sum>::new(), Vec::new());
    let mut without_hour = 0;
    let mut finish = |name: &'static str, table: Table| {
        without_hour += table.without_hour;
        let rows = table.rows;
        let written = table.finish()?;
        let sum = tables.entry(name).or_default();
        sum.rows += rows;
        sum.files += written.len() as u64;
        for path in written {
            sum.bytes += fs::metadata(&path).map_err(ExportError::write(&path))?.len();
            files.push(path);
        }
        Ok::<(), ExportError>(())
    };
    let mut members = Vec::new();
    let mut folders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let job_folder = partition(job);
    for process in run.processes() {
        let member = member(process);
        let host = if member.host.is_empty() { "unknown" } else { &member.host };
        let rank = process.rank.map_or_else(|| NO_VALUE.to_owned(), |rank| rank.to_string());
        let host_folder = partition(host);
        let partitions = format!("job={job_folder}/host={host_folder}/rank={rank}");
        folders.entry(host_folder).or_default().insert(host.to_owned());
        // Not of the run: what two runs share is not added twice. Parts of a process have files of their own.
        let part =
            (*selection != Selection::default()).then(|| format!("-{}", part_key(selection)));
        let stem = member.key.clone() + part.as_deref().unwrap_or_default();
        let place = place(folder, partitions, stem, run.clocks(), job, &run.name);
        let mut of_process = Tables::create(i64::from(member.pid), &place)?;
        selected.for_each(process, Holds::Tables, counts, |event| {
            of_process.add(run, process, &requests, &event)
        })?;
        of_process.all().try_for_each(|(name, table)| finish(name, table))?;
        members.push(member);
    }
    // The report knows the whole run.
    if selection.window.is_none() {
        let partitions = format!("job={job_folder}");
        let place = place(folder, partitions, run_key.to_owned(), run.clocks(), job, &run.name);
        conclusions(selected, &place)?
            .into_iter()
            .try_for_each(|(name, table)| finish(name, table))?;
    }
    notes.extend(doubled(&members));
    let escaped = folders.iter().filter(|(folder, hosts)| !hosts.contains(*folder)).count();
    if escaped > 0 || job_folder != job {
        notes.push(format!(
            "names that folders cannot have were escaped: {escaped} of {} hosts{}",
            folders.len(),
            if job_folder == job { "" } else { ", and the job" }
        ));
    }
    if without_hour > 0 {
        notes.push(format!(
            "rows in no hour, because the times of their process jump about: {without_hour}"
        ));
    }
    let within = |path: &PathBuf| path.strip_prefix(folder).ok().map(|p| p.display().to_string());
    Ok(Manifest {
        schema: SCHEMA,
        schema_version: SCHEMA_VERSION,
        created_by: concat!("stage2 ", env!("CARGO_PKG_VERSION")),
        written_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        job,
        run: &run.name,
        stages: &selection.stages,
        window: selection.window.as_ref().map(ToString::to_string),
        clocks: run.clocks(),
        sample: run.processes().iter().find_map(|process| process.file.sample()),
        notes,
        counts: *counts,
        tables,
        processes: members,
        files: files.iter().filter_map(within).collect(),
    })
}

fn place(
    folder: &Path,
    partitions: String,
    stem: String,
    clocks: Option<&str>,
    job: &str,
    run: &str,
) -> Place {
    let clocks = clocks.map(|clocks| ("stage2.clocks", clocks));
    let about = clocks.into_iter().chain([("stage2.job", job), ("stage2.run", run)]);
    let metadata = about.map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned()));
    Place { root: folder.to_owned(), partitions, stem, metadata: metadata.collect() }
}

fn member(process: &Process) -> Member {
    let traced = process.file.process();
    let pid = traced.map_or(0, |traced| traced.pid);
    let span = process.file.span();
    let (host, trace_file) = (process.host(), process.file.name().to_owned());
    let start_ns = span.map(|span| span.start_ns);
    let key = key([host.as_str(), &trace_file, &pid.to_string(), &format!("{start_ns:?}")]);
    Member {
        key,
        trace_file: visible(trace_file.as_bytes()),
        host,
        rank: process.rank,
        pid,
        start_ns,
        end_ns: span.map(|span| span.end_ns),
        missing: process.file.missing(),
    }
}

/// Names a run in a dataset: equal processes, job and selection give equal keys.
fn run_key(selected: &Selected<'_>, job: &str, selection: &Selection) -> String {
    let members = selected.run.processes().iter().map(|process| member(process).key);
    key([job.to_owned(), part_key(selection)].into_iter().chain(members))
}

fn part_key(selection: &Selection) -> String {
    let window = selection.window.as_ref().map_or_else(String::new, ToString::to_string);
    key(std::iter::once(&window).chain(&selection.stages))
}

/// A short name for texts in their order: FNV-1a with 64 bits, which no later version may change.
fn key(parts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.as_ref().bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

/// Ranks that several processes have: one that was started again, or those of several jobs.
fn doubled(members: &[Member]) -> Option<String> {
    let mut by_rank: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for member in members {
        if let Some(rank) = member.rank {
            by_rank.entry(rank).or_default().push(member.pid);
        }
    }
    by_rank.retain(|_, pids| pids.len() > 1);
    let text = |(rank, pids): (&u64, &Vec<u32>)| {
        let shown: Vec<String> = pids.iter().take(NAMED).map(u32::to_string).collect();
        format!("rank {rank} (processes {})", shown.join(", "))
    };
    let shown: Vec<String> = by_rank.iter().take(NAMED).map(text).collect();
    let count = by_rank.len();
    let more = if count > NAMED { "; ..." } else { "" };
    (count > 0).then(|| {
        let shown = shown.join("; ");
        format!("ranks that several processes have, which the column pid tells apart: {count}: {shown}{more}")
    })
}

/// Bytes of a name within a folder name.
const PARTITION_BYTES: usize = 200;

/// A name as a part of a folder name: what separates parts of it is escaped as Hive does. What had to be cut
/// ends with a key of the whole.
fn partition(name: &str) -> String {
    let is_special = |c: char| c.is_control() || "/=%\"'\\:*?{}[]".contains(c);
    let escape = |c: char| match is_special(c) {
        true => c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect(),
        false => c.to_string(),
    };
    let parts: Vec<String> = name.chars().map(escape).collect();
    if parts.iter().map(String::len).sum::<usize>() <= PARTITION_BYTES {
        let escaped = parts.concat();
        return if escaped.trim_matches('.').is_empty() { "unknown".to_owned() } else { escaped };
    }
    // A folder's name has 255 bytes at most, and `host=` in front.
    let ending = format!("-{}", key([name]));
    let mut room = PARTITION_BYTES - ending.len();
    let fits = |part: &&String| {
        room.checked_sub(part.len()).is_some_and(|left| {
            room = left;
            true
        })
    };
    parts.iter().take_while(fits).cloned().collect::<String>() + &ending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_host_stays_one_folder() {
        assert_eq!(partition("a/b=c%"), "a%2Fb%3Dc%25");
        assert_eq!(partition(".."), "unknown");
        assert_eq!(partition("node-1.cluster"), "node-1.cluster");
        let long = |end: &str| partition(&format!("{}{end}", "\u{1f980}".repeat(90)));
        assert!(long("").len() <= PARTITION_BYTES, "{}", long(""));
        assert_ne!(long("a"), long("b"), "names that differ at their end only stay apart");
    }

    #[test]
    fn keys_are_those_of_earlier_versions() {
        assert_eq!(key(["a", "b"]), key(vec!["a".to_owned(), "b".to_owned()]));
        assert_ne!(key(["ab"]), key(["a", "b"]));
        assert_eq!(key([""; 0]), "cbf29ce484222325");
    }
}
