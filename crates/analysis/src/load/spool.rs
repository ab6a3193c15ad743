//! A folder of spool files -> a [`Capture`], several files at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use stage2_spool::{Ending, ReadError, Reader};

use super::Capture;
use super::ProcessCapture;
use super::Tally;
use super::collectives::{MAX_ALL_CALLS, MAX_CALLS};
use super::libraries::LibraryDomains;
use crate::files;
use stage2_model::{FileEnding, Finding, Severity};
use stage2_text as text;

/// Files that are read at the same time, at most: each takes its share of memory.
const MAX_PARALLEL: usize = 4;

/// Reads every `*.s2t` and `*.s2t.gz` of `folder`. What is wrong with a file becomes a finding that names it.
pub fn load_folder(folder: &Path) -> Capture {
    load_folder_with(folder, &LibraryDomains::default())
}

/// The same, with a list of libraries of one's own.
pub fn load_folder_with(folder: &Path, libraries: &LibraryDomains) -> Capture {
    let files = match list(folder) {
        // What an empty folder means depends on the run: `merge::empty` says it.
        Ok(files) if files.is_empty() => return Capture::default(),
        Ok(files) => files,
        Err(error) => return nothing(no_folder(folder, &error)),
    };
    load_files(&files, libraries)
}

fn nothing(finding: Finding) -> Capture {
    Capture { findings: vec![finding], ..Capture::default() }
}

fn list(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if files::ending(&path) == "s2t" {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Number of a file, what it holds and what is wrong with it.
type Loaded = (usize, Option<ProcessCapture>, Vec<Finding>);

/// Reads `files`; the result is in their order. Of copies of one file the longest counts.
pub fn load_files(files: &[PathBuf], libraries: &LibraryDomains) -> Capture {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());
    let calls = shares(files);
    let work = || {
        while let Some((index, path)) = take(&next, files) {
            let calls = calls.get(index).copied().unwrap_or(0);
            let (process, findings) = load_share(path, libraries, calls);
            // A poisoned lock still guards a whole list: an entry is added in one step.
            let mut results = results.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            results.push((index, process, findings));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let others = cores.min(MAX_PARALLEL).min(files.len()).saturating_sub(1);
        (0..others).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_by_key(|&(index, ..)| index);
    let mut capture = Capture::default();
    for (process, findings) in without_copies(results, files) {
        capture.files_refused += u64::from(process.is_none());
        capture.processes.extend(process);
        capture.findings.extend(findings);
    }
    capture
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
    let bytes = fs::metadata(path).map_or(0, |found| found.len());
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
fn without_copies(
    results: Vec<Loaded>,
    files: &[PathBuf],
) -> Vec<(Option<ProcessCapture>, Vec<Finding>)> {
    let bytes = |index: usize| {
        files.get(index).and_then(|path| fs::metadata(path).ok()).map_or(0, |found| found.len())
    };
    let mut kept: Vec<Loaded> = Vec::new();
    for mut loaded in results {
        let same = |other: &&mut Loaded| is_copy(other.1.as_ref(), loaded.1.as_ref());
        let Some(before) = kept.iter_mut().find(same) else {
            kept.push(loaded);
            continue;
        };
        if bytes(loaded.0) > bytes(before.0) {
            std::mem::swap(before, &mut loaded);
        }
        let name = |loaded: &Loaded| loaded.1.as_ref().map_or("", |p| p.file.as_str()).to_owned();
        before.2.push(Finding::new(
            Severity::Warning,
            format!("{} is not read", name(&loaded)),
            format!(
                "it is a copy of {}, or of a part of it: same process, same clock",
                name(before)
            ),
            "take it out of the folder",
        ));
    }
    kept.into_iter().map(|(_, process, findings)| (process, findings)).collect()
}

/// Whether both are of one capture of one process. A file that does not say is no copy.
fn is_copy(a: Option<&ProcessCapture>, b: Option<&ProcessCapture>) -> bool {
    let identity = |p: &ProcessCapture| Some((p.process.clone()?, p.first_anchor?));
    a.and_then(identity).is_some_and(|a| b.and_then(identity) == Some(a))
}

fn take<'f>(next: &AtomicUsize, files: &'f [PathBuf]) -> Option<(usize, &'f PathBuf)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    files.get(index).map(|path| (index, path))
}

/// Reads one file.
pub fn load_file(
    path: &Path,
    libraries: &LibraryDomains,
) -> (Option<ProcessCapture>, Vec<Finding>) {
    load_share(path, libraries, MAX_CALLS)
}

/// The same with room for so many calls of collectives.
fn load_share(
    path: &Path,
    libraries: &LibraryDomains,
    calls: usize,
) -> (Option<ProcessCapture>, Vec<Finding>) {
    let tally = Tally::new(libraries.clone()).keep_calls(calls);
    if !files::is_compressed(path) {
        return match Reader::open(path) {
            Ok(reader) => read(reader, path, tally),
            Err(error) => (None, vec![refused(&error, path)]),
        };
    }
    let unpacked = files::unpacked(path)
        .map_err(|source| ReadError::Open { path: path.to_owned(), source })
        .and_then(Reader::new);
    match unpacked {
        Ok(reader) => read(reader, path, tally),
        Err(error) => (None, vec![refused(&error, path)]),
    }
}

fn read<R: std::io::Read>(
    mut reader: Reader<R>,
    path: &Path,
    mut tally: Tally,
) -> (Option<ProcessCapture>, Vec<Finding>) {
    let mut findings = Vec::new();
    for record in reader.by_ref() {
        match record {
            Ok(record) => tally.push(record),
            Err(error) => findings.push(refused(&error, path)),
        }
    }
    let mut capture = tally.finish();
    capture.file = display_name(path);
    let skipped = reader.skipped();
    let state = &mut capture.state;
    state.corrupt_frames = skipped.corrupt_frames;
    state.corrupt_bytes = skipped.corrupt_bytes;
    state.unknown_records = skipped.unknown_frames.saturating_add(skipped.unknown_records);
    state.ending = match reader.end() {
        _ if !findings.is_empty() => FileEnding::Unreadable,
        Ending::Complete => FileEnding::Complete,
        Ending::Open => FileEnding::Open,
        Ending::Torn { lost_bytes, .. } => {
            state.torn_bytes = lost_bytes;
            FileEnding::Torn
        }
    };
    (Some(capture), findings)
}

fn display_name(path: &Path) -> String {
    // The name of the process, however its file is kept.
    let name =
        path.file_name().map_or_else(String::new, |name| text::visible(name.as_encoded_bytes()));
    files::plain_name(&name).to_owned()
}

fn refused(error: &ReadError, path: &Path) -> Finding {
    // What is unpacked as it is read has no name for the reader.
    let error = error.to_string().replacen("<stream>", &path.to_string_lossy(), 1);
    let (what, remedy) = match error.rsplit_once("; ") {
        Some((what, remedy)) => (what.to_owned(), remedy.to_owned()),
        None => (error.clone(), "run again, or leave the file out".to_owned()),
    };
    Finding {
        severity: Severity::Error,
        what: text::visible(what.as_bytes()),
        why: "the process that wrote it is missing from every number here, in whole or in part"
            .to_owned(),
        remedy: text::visible(remedy.as_bytes()),
    }
}

fn no_folder(folder: &Path, error: &std::io::Error) -> Finding {
    Finding {
        severity: Severity::Error,
        what: format!("{}: cannot be listed: {error}", text::visible_path(folder)),
        why: "the collector's files are looked for there".to_owned(),
        remedy: "name the folder of a run, and check that it may be read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_spool::{Process, Record, Writer};

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
        let capture = load_folder(folder.path());
        let limits: Vec<u64> = capture.processes.iter().map(|p| p.collectives.limit).collect();
        assert_eq!(limits, [fs::metadata(&path).expect("file").len() / 4]);
    }
}
