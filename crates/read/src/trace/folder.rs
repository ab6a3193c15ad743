//! A folder of trace files -> a [`Capture`], several files at a time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, thread};

use stage2_contract::order::Order as _;
use stage2_contract::trace::{Anchor, Ending, Process, ReadError, Record};

use super::alike::{self, Alike, Joined};
use super::collectives::{MAX_ALL_CALLS, MAX_CALLS};
use super::file::{Trace, files_of, one_of_each};
use super::libraries::RangeNames;
use super::{Capture, META_PIECES_MISSING, ProcessCapture, Tally, host, inferred, outliers};
use crate::files;
use crate::threads::{Batches, read_ahead};
use stage2_contract::text;
use stage2_model::finding::Id;
use stage2_model::{FileEnding, Finding};

/// Files that are read at the same time, at most: each takes its share of memory.
const MAX_PARALLEL: usize = 4;
/// Passes over a file that find further names to join; names within joined ranges show in the next one.
const PASSES: usize = 8;

/// Reads every `*.s2t` and `*.s2t.gz` of `folder`. What is wrong with a file becomes a finding that names it.
/// Ranges of which there are many with alike names count as one.
pub fn load_folder(folder: &Path, libraries: &RangeNames) -> Capture {
    load(folder, libraries, true)
}

/// Loads every trace file in `folder`, and joins no names of ranges: exports show each as the program gave it.
pub fn load_folder_by_name(folder: &Path, libraries: &RangeNames) -> Capture {
    load(folder, &libraries.clone().and_keeps_names(), false)
}

fn load(folder: &Path, libraries: &RangeNames, joins: bool) -> Capture {
    // What an empty folder means depends on the run: `join::empty` says it.
    trace_files(folder).map_or_else(
        |error| Capture { findings: vec![no_folder(folder, &error)], ..Capture::default() },
        |files| {
            let capture = load_files(&files, libraries, joins);
            Capture { names: libraries.clone(), ..capture }
        },
    )
}

/// The trace files of a folder by name, compressed or not; a trace in pieces by its first piece.
pub fn trace_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut files = entries.collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|path| files::ending(path) == "s2t");
    Ok(one_of_each(files))
}
fn bytes_of(path: &Path) -> u64 {
    let length = |path: &PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    files_of(path).iter().map(length).sum()
}

struct Loaded {
    index: usize,
    process: Option<ProcessCapture>,
    findings: Vec<Finding>,
}

/// Reads `files`; the result is in their order. Of copies of one file the longest counts.
fn load_files(files: &[PathBuf], libraries: &RangeNames, joins: bool) -> Capture {
    let shares = shares(files);
    let all: Vec<usize> = (0..files.len()).collect();
    let mut joined = joins.then(Joined::default);
    let load = |some: &[usize], joined: Option<&Joined>| {
        let jobs = Mutex::new(some.iter());
        let results: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());
        let work = || {
            loop {
                let job = locked(&jobs).next().copied();
                let Some(index) = job else { return };
                let Some((path, &calls)) = files.get(index).zip(shares.get(index)) else { return };
                let (process, findings) = load_file(path, libraries, calls, joined);
                locked(&results).push(Loaded { index, process, findings });
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let others = cores.min(MAX_PARALLEL).min(some.len()).saturating_sub(1);
            // A thread that the system refuses leaves its share to the others.
            (0..others).for_each(|_| drop(thread::Builder::new().spawn_scoped(scope, work)));
            work();
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    };
    let mut results = load(&all, joined.as_ref());
    // A name that one process joins counts as one in all of them.
    for _ in 0..PASSES {
        let Some(joined) = &mut joined else { break };
        *joined = alike::of_job(results.iter().filter_map(|loaded| loaded.process.as_ref()));
        let (again, rest): (Vec<Loaded>, Vec<Loaded>) = results.into_iter().partition(|loaded| {
            loaded.process.as_ref().is_some_and(|process| alike::is_apart(process, joined))
        });
        results = rest;
        let again: Vec<usize> = again.into_iter().map(|loaded| loaded.index).collect();
        if again.is_empty() {
            break;
        }
        results.extend(load(&again, Some(joined)));
    }
    results.order_by_key(|loaded| loaded.index);
    let mut capture = Capture::default();
    for Loaded { process, findings, .. } in without_copies(results, files) {
        capture.files_refused += u64::from(process.is_none());
        capture.processes.extend(process);
        capture.findings.extend(findings);
    }
    capture
}

/// What a panic elsewhere leaves behind a lock is whole: it is changed in one step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls of collectives that each file may keep, together at most [`MAX_ALL_CALLS`]. Small files,
/// such as those of idle helpers, leave their share to the others.
fn shares(files: &[PathBuf]) -> Vec<usize> {
    let most: Vec<usize> = files.iter().map(|path| most_calls(path)).collect();
    let even = even_share(most.clone());
    most.into_iter().map(|most| most.min(even)).collect()
}

/// What a file can hold by its length. A kernel takes 7 bytes or more, and compresses well.
fn most_calls(path: &Path) -> usize {
    let bytes = bytes_of(path);
    let calls = if files::is_compressed(path) { bytes.saturating_mul(2) } else { bytes / 4 };
    usize::try_from(calls).unwrap_or(usize::MAX).min(MAX_CALLS)
}

/// The share of each file that can hold more than its share.
fn even_share(mut most: Vec<usize>) -> usize {
    most.sort_unstable();
    let (mut left, mut files) = (MAX_ALL_CALLS, most.len());
    for most in most {
        let even = left / files.max(1);
        if most > even {
            return even;
        }
        left = left.saturating_sub(most);
        files = files.saturating_sub(1);
    }
    MAX_CALLS
}

/// Leaves out what another, longer file holds as well: counted twice it would be wrong without a trace.
fn without_copies(results: Vec<Loaded>, files: &[PathBuf]) -> Vec<Loaded> {
    let bytes = |loaded: &Loaded| files.get(loaded.index).map_or(0, |path| bytes_of(path));
    let mut kept: Vec<Loaded> = Vec::new();
    for mut loaded in results {
        let identity = loaded.identity();
        let copied = |other: &&mut Loaded| identity.is_some() && other.identity() == identity;
        let Some(before) = kept.iter_mut().find(copied) else {
            kept.push(loaded);
            continue;
        };
        if bytes(&loaded) > bytes(before) {
            std::mem::swap(before, &mut loaded);
        }
        let (copy, of) = (loaded.name(), before.name());
        before.findings.push(Id::TraceCopy.found(
            format!("{copy} is not read"),
            format!("it is a copy of {of}, or of a part of it: same process, same clock"),
            "take it out of the folder",
        ));
    }
    kept
}

impl Loaded {
    /// What tells one capture of one process from others: all of its files share it. `None` where a
    /// file does not say.
    fn identity(&self) -> Option<(Process, Anchor)> {
        let process = self.process.as_ref()?;
        Some((process.process.clone()?, process.first_anchor?))
    }

    fn name(&self) -> String {
        self.process.as_ref().map_or_else(String::new, |process| process.file.clone())
    }
}

/// Reads one file, with room for so many calls of collectives. Names of ranges are joined as `joined`
/// says, and where there are many of a kind; without it, none are.
fn load_file(
    path: &Path,
    libraries: &RangeNames,
    calls: usize,
    joined: Option<&Joined>,
) -> (Option<ProcessCapture>, Vec<Finding>) {
    let (mut joined, mut until) = (joined.cloned(), None);
    for pass in 0.. {
        let mut tally = Tally::new(libraries.clone());
        tally.collectives.keep(calls);
        if let Some(joined) = joined.clone() {
            let join = if pass < PASSES { Alike::counting } else { Alike::of };
            tally.definitions.alike = join(joined);
        }
        match Trace::of(path, pass == 0).map(|trace| read(trace.until(until), path, tally)) {
            Ok((Pass::Whole(process), _)) if until.is_none() && process.known_until().is_some() => {
                until = process.known_until();
            }
            Ok((Pass::Whole(mut process), mut findings)) => {
                process.until = until;
                if let Some(joined) = joined.as_ref().filter(|_| !libraries.keeps_whole) {
                    let mut tally = Tally::new(libraries.clone());
                    tally.collectives.keep(calls);
                    tally.definitions.alike = Alike::of(joined.clone());
                    process = with_stages(process, libraries, tally);
                }
                let read = outliers::read_work(&mut process, libraries);
                if let Err(error) = read.and_then(|()| host::read_idle(&mut process, libraries)) {
                    findings.push(refused(&error));
                }
                return (Some(*process), findings);
            }
            Ok((Pass::Joins(more), _)) => joined = Some(more),
            Err(error) => return (None, vec![refused(&error)]),
        }
    }
    (None, Vec::new())
}

/// Reads a process without ranges again if its stages can be inferred; otherwise returns it
/// unchanged.
fn with_stages(
    mut process: Box<ProcessCapture>,
    libraries: &RangeNames,
    tally: Tally,
) -> Box<ProcessCapture> {
    let Ok(Some(marks)) = inferred::find(&process, libraries) else { return process };
    let marks = Some(Arc::new(marks));
    let Ok(trace) = Trace::open(&process.path) else { return process };
    let trace = trace.marked(marks.as_ref()).until(process.until);
    match read(trace, &process.path, tally).0 {
        Pass::Whole(again) => {
            // Its ranges are the inferred ones: the program opened none.
            let (counts, until) = (process.counts, process.until);
            let inferred = process.whole.take();
            Box::new(ProcessCapture { counts, until, marks, inferred, ..*again })
        }
        Pass::Joins(_) => process,
    }
}

enum Pass {
    Whole(Box<ProcessCapture>),
    /// Names that the next pass has to join.
    Joins(Joined),
}

/// Decodes on its own thread, which takes a third of the time.
fn read(mut trace: Trace, path: &Path, mut tally: Tally) -> (Pass, Vec<Finding>) {
    let mut findings = Vec::new();
    let records = trace.by_ref();
    let read = |batches: &mut Batches<'_, _>| {
        for record in records {
            let bytes = record.as_ref().map_or(0, Record::held_bytes);
            if !batches.push(record, bytes) {
                return;
            }
        }
    };
    read_ahead(read, |record| match record {
        Ok(record) => tally.push(record),
        Err(error) => findings.push(refused(&error)),
    });
    if tally.scans {
        let (mut joined, more) = tally.definitions.alike.into_parts();
        joined.extend(&more);
        return (Pass::Joins(joined), findings);
    }
    let mut capture = tally.finish();
    capture.file = display_name(path);
    path.clone_into(&mut capture.path);
    if let Some(missing) = trace.missing() {
        capture.meta.insert(META_PIECES_MISSING.to_owned(), missing);
    }
    let skipped = trace.skipped();
    let announced = capture.end.is_some();
    let state = &mut capture.state;
    state.corrupt_frames = skipped.corrupt_frames;
    state.corrupt_bytes = skipped.corrupt_bytes;
    state.unknown_records = skipped.unknown_frames.saturating_add(skipped.unknown_records);
    state.ending = match trace.end() {
        _ if !findings.is_empty() => FileEnding::Unreadable,
        Ending::Complete => FileEnding::Complete,
        // The end was announced, and came.
        Ending::Open if announced => FileEnding::Complete,
        Ending::Open => FileEnding::Open,
        Ending::Torn { lost_bytes, .. } => {
            state.torn_bytes = lost_bytes;
            FileEnding::Torn
        }
    };
    (Pass::Whole(Box::new(capture)), findings)
}

fn display_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    // The name of the process, however its file is kept.
    files::plain_name(&text::visible(name.as_encoded_bytes())).to_owned()
}

fn refused(error: &ReadError) -> Finding {
    let error = error.to_string();
    let (what, remedy) =
        error.rsplit_once("; ").unwrap_or((&error, "run again, or leave the file out"));
    Id::TraceUnreadable.found(
        text::visible(what.as_bytes()),
        "all numbers here lack some or all of the data of that process",
        text::visible(remedy.as_bytes()),
    )
}

fn no_folder(folder: &Path, error: &std::io::Error) -> Finding {
    let shown = text::visible_path(folder);
    Id::TraceUnreadable.found(
        match error.kind() {
            std::io::ErrorKind::NotFound => format!("{shown} does not exist"),
            _ => format!("{shown}: cannot be listed: {error}"),
        },
        "the collector's files are looked for there",
        "name the folder of a run, and check that it may be read",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::trace::Writer;

    #[test]
    fn files_share_the_calls_of_collectives_that_a_run_keeps() {
        let folder = tempfile::tempdir().expect("folder");
        let sized = |name: String, bytes: u64| {
            let path = folder.path().join(name);
            fs::File::create(&path).and_then(|file| file.set_len(bytes)).expect("file");
            path
        };
        let large = |count: usize| (0..count).map(|rank| sized(format!("{rank}.s2t"), 1 << 22));
        let share = |count: usize| MAX_ALL_CALLS / count;
        assert_eq!(shares(&large(4).collect::<Vec<_>>()), [MAX_CALLS; 4]);
        assert_eq!(shares(&large(16).collect::<Vec<_>>()), [share(16); 16]);
        // Helpers without work of their own: what they cannot use is left to the ranks.
        let helpers = (0..248).map(|helper| sized(format!("helper {helper}.s2t"), 1 << 10));
        let all = shares(&large(8).chain(helpers).collect::<Vec<_>>());
        assert_eq!(all[..8], [(MAX_ALL_CALLS - 248 * 256) / 8; 8]);
        assert_eq!(all[8..], [256; 248]);
        // Whatever a compressed file holds, the run keeps no more.
        let packed = (0..3_000).map(|of| sized(format!("{of}.s2t.gz"), 1 << 10));
        let all = shares(&packed.collect::<Vec<_>>());
        assert!(all.iter().sum::<usize>() <= MAX_ALL_CALLS && all[0] == share(3_000), "{}", all[0]);
    }

    #[test]
    fn a_file_keeps_its_share() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("1.s2t");
        let mut writer = Writer::new(fs::File::create(&path).expect("file")).expect("a header");
        writer.write(&Record::Process(Process { pid: 1, ..Process::default() }));
        writer.flush().expect("a disk");
        let capture = load_folder(folder.path(), &RangeNames::default());
        let limits: Vec<u64> = capture.processes.iter().map(|p| p.collectives.limit).collect();
        assert_eq!(limits, [fs::metadata(&path).expect("file").len() / 4]);
    }
}
