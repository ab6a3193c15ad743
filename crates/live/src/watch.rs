//! Folders and files of traces -> all of their processes at one moment.
//!
//! A tick reads a bounded number of bytes. A reader that falls behind says so; one that is very far
//! behind takes only the definitions of the part that it has to leave out, and says how much that was.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::chain::{self, Chain, Trace};
use crate::look::{Identity, Look, Sums, Tracked, Watched, identity, problem, watched};
use crate::process::{Options, Process};

/// Bytes that a tick reads over all files, about.
const TICK_BYTES: u64 = 64 << 20;
/// So far behind, and the part up to the last [`KEPT_BYTES`] is left out.
const SKIM_BYTES: u64 = 512 << 20;
const KEPT_BYTES: u64 = 64 << 20;
/// Files that are followed at a time, and entries of a folder that are looked at.
const FILES: usize = 256;
const ENTRIES: usize = 16_384;
/// Processes whose earlier files are remembered.
const RETIRED: usize = 256;
/// Ticks without news after which what waits is final.
const QUIET_TICKS: u32 = 4;
/// Problems that are kept for the reader.
const PROBLEMS: usize = 20;

/// Where trace files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// All in this folder, also those that come.
    Folder(PathBuf),
    /// One file.
    File(PathBuf),
}

/// Follows trace files.
#[derive(Debug)]
pub struct Watch {
    sources: Vec<Source>,
    options: Options,
    files: Vec<Tracked>,
    /// Files that are or were followed.
    seen: HashMap<PathBuf, (u64, u64)>,
    /// Traces in pieces that are or were followed, from their first piece on.
    cut: BTreeSet<Trace>,
    retired: BTreeMap<Identity, Sums>,
    problems: VecDeque<String>,
    behind: u64,
    skipped: u64,
    left_out: BTreeSet<PathBuf>,
    next: usize,
}

impl Watch {
    /// Nothing is read before the first tick.
    pub fn new(sources: Vec<Source>, options: Options) -> Self {
        Self {
            sources,
            options,
            files: Vec::new(),
            seen: HashMap::new(),
            cut: BTreeSet::new(),
            retired: BTreeMap::new(),
            problems: VecDeque::new(),
            behind: 0,
            skipped: 0,
            left_out: BTreeSet::new(),
            next: 0,
        }
    }

    /// Follows one place more, if it is not followed yet.
    pub fn add(&mut self, source: Source) {
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
    }

    /// Reads what was added since the last tick, 64 MiB about.
    pub fn tick(&mut self) {
        self.find();
        let mut budget = TICK_BYTES;
        self.behind = 0;
        let count = self.files.len();
        // Each time another one is first, so that nobody waits for good.
        self.next = self.next.checked_rem(count).map_or(0, |next| next + 1);
        for turn in 0..count {
            let Some(tracked) = self.files.get_mut((self.next + turn) % count.max(1)) else {
                continue;
            };
            let backlog = tracked.follow.backlog();
            if budget == 0 {
                self.behind = self.behind.saturating_add(backlog);
                continue;
            }
            let skims = backlog > SKIM_BYTES;
            tracked.process.skim(skims);
            let share = if skims { budget.min(backlog - KEPT_BYTES) } else { budget };
            let taken = tracked.follow.read(share, |record| tracked.process.push(record));
            budget = budget.saturating_sub(taken.bytes);
            self.behind = self.behind.saturating_add(taken.behind);
            self.skipped += if skims { taken.bytes } else { 0 };
            tracked.corrupt_frames += taken.corrupt_frames;
            tracked.quiet = if taken.bytes == 0 { tracked.quiet.saturating_add(1) } else { 0 };
            let over = tracked.follow.state().is_over();
            if tracked.quiet == QUIET_TICKS || (over && !tracked.told) {
                tracked.process.finish();
            }
            if over && !tracked.told {
                tracked.told = true;
                if let Some(problem) = problem(&tracked.follow) {
                    self.problems.push_back(problem);
                }
            }
        }
        while self.problems.len() > PROBLEMS {
            self.problems.pop_front();
        }
        self.retire();
    }

    /// Looks for files that came.
    fn find(&mut self) {
        let mut found: Vec<(std::time::SystemTime, PathBuf, (u64, u64))> = Vec::new();
        let mut look = |path: PathBuf, folder: Option<&Path>| {
            let Ok(status) = fs::metadata(&path) else { return };
            let identity = (status.dev(), status.ino());
            let path = by_folder(path, folder, identity);
            if chain::place(&path).is_some_and(|(trace, _)| self.cut.contains(&trace)) {
                return;
            }
            if status.is_file() && self.seen.get(&path) != Some(&identity) {
                let changed = status.modified().unwrap_or(std::time::UNIX_EPOCH);
                found.push((changed, path, identity));
            }
        };
        for source in &self.sources {
            match source {
                Source::File(path) => {
                    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
                    look(path.clone(), folder.as_deref());
                }
                Source::Folder(folder) => {
                    let entries = fs::read_dir(folder).into_iter().flatten().take(ENTRIES);
                    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
                    let folder = folder.canonicalize().ok();
                    let paths = paths.filter(|path| is_trace(path));
                    paths.for_each(|path| look(path, folder.as_deref()));
                }
            }
        }
        // Of several pieces the first is read first, and leads to the others.
        let mut first: HashMap<Trace, u64> = HashMap::new();
        for (trace, number) in found.iter().filter_map(|(_, path, _)| chain::place(path)) {
            let lowest = first.entry(trace).or_insert(number);
            *lowest = number.min(*lowest);
        }
        found.retain(|(_, path, _)| {
            chain::place(path).is_none_or(|(trace, number)| first.get(&trace) == Some(&number))
        });
        // The newest first: there may be more than can be followed.
        found.sort_by(|a, b| b.cmp(a));
        found.dedup_by(|a, b| a.1 == b.1);
        for (_, path, identity) in found {
            if self.files.len() >= FILES && !self.make_room() {
                if self.left_out.len() < ENTRIES {
                    self.left_out.insert(path);
                }
                continue;
            }
            self.left_out.remove(&path);
            if self.seen.len() >= 2 * ENTRIES {
                // A file that is still there must not be counted again.
                self.seen.retain(|path, _| path.exists());
            }
            self.seen.insert(path.clone(), identity);
            if let Some((trace, _)) = chain::place(&path) {
                if self.cut.len() >= 2 * ENTRIES {
                    self.cut.retain(|(folder, _)| folder.exists());
                }
                self.cut.insert(trace);
            }
            self.files.push(Tracked {
                follow: Chain::new(path),
                process: Process::new(self.options.clone()),
                quiet: 0,
                corrupt_frames: 0,
                told: false,
            });
        }
    }

    /// Lets go of a file that is over.
    fn make_room(&mut self) -> bool {
        let Some(at) = self.files.iter().position(|tracked| tracked.told) else { return false };
        let gone = self.files.remove(at);
        self.keep_sums(&gone);
        true
    }

    /// Of the files of a process that are over only the newest stays, for its last window.
    fn retire(&mut self) {
        let mut last: HashMap<Identity, usize> = HashMap::new();
        for (at, tracked) in self.files.iter().enumerate() {
            let identity = identity(tracked);
            let newer = |&other: &usize| {
                let began =
                    |at: usize| self.files.get(at).map(|t| (!t.told, t.process.last_wall_ns()));
                began(at) >= began(other)
            };
            if last.get(&identity).is_none_or(newer) {
                last.insert(identity, at);
            }
        }
        let kept: BTreeSet<usize> = last.into_values().collect();
        let mut at = 0;
        let gone: Vec<Tracked> = self
            .files
            .extract_if(.., |tracked| {
                at += 1;
                tracked.told && !kept.contains(&(at - 1))
            })
            .collect();
        gone.iter().for_each(|tracked| self.keep_sums(tracked));
    }

    fn keep_sums(&mut self, tracked: &Tracked) {
        let identity = identity(tracked);
        if self.retired.len() >= RETIRED && !self.retired.contains_key(&identity) {
            self.retired.pop_first();
        }
        self.retired.entry(identity).or_default().add(tracked);
    }

    /// All processes as they are now.
    pub fn look(&self) -> Look {
        let mut by_identity: BTreeMap<Identity, Vec<&Tracked>> = BTreeMap::new();
        for tracked in &self.files {
            by_identity.entry(identity(tracked)).or_default().push(tracked);
        }
        let mut processes: Vec<Watched> = by_identity
            .into_iter()
            .map(|(identity, files)| {
                let mut sums = self.retired.get(&identity).cloned().unwrap_or_default();
                files.iter().for_each(|tracked| sums.add(tracked));
                let newest = files.iter().max_by_key(|t| (!t.told, t.process.last_wall_ns()));
                newest.map_or_else(Watched::default, |tracked| watched(identity, tracked, sums))
            })
            .collect();
        processes.sort_by(|a, b| {
            let key = |p: &Watched| (p.rank.unwrap_or(u64::MAX), p.host.clone(), p.pid);
            key(a).cmp(&key(b))
        });
        Look {
            processes,
            behind_bytes: self.behind,
            skipped_bytes: self.skipped,
            problems: self.problems.iter().cloned().collect(),
            files_left_out: self.left_out.len() as u64,
        }
    }

    /// The files that are followed, with how far each is read: up to a whole frame.
    pub fn files(&self) -> impl Iterator<Item = (PathBuf, u64)> {
        self.files.iter().flat_map(|tracked| tracked.follow.files())
    }
}

/// A file by its folder without links: the folder of a run and the socket of a process in it name the same file
/// in two ways. The folder of a container may lead elsewhere; then the name stays.
fn by_folder(path: PathBuf, folder: Option<&Path>, identity: (u64, u64)) -> PathBuf {
    let real = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
    let is_it = |real: &PathBuf| {
        *real == path
            || fs::metadata(real).is_ok_and(|status| (status.dev(), status.ino()) == identity)
    };
    real.filter(is_it).unwrap_or(path)
}

fn is_trace(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "s2t")
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
