//! Folders and files of traces -> all of their processes at one moment.
//!
//! A tick reads a bounded number of bytes. A reader that falls behind reports that; one that is very far
//! behind takes only the definitions of the part that it has to leave out, and states how much that was.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::{visible, visible_path};
use stage2_contract::trace::{Losses, pieces};

use crate::follow::{Chain, FileState, Trace, place};
use crate::look::{IN_PART, Look, SIMULATED, Watched, clock_differs};
use crate::numbers::Window;
use crate::process::{Options, Process};
use crate::{GONE_NS, MAX_STAGES, OTHER, SILENT_NS};

/// Bytes that a tick reads over all files, about.
const TICK_BYTES: u64 = 64 << 20;
/// And a reading between two ticks.
const READ_BYTES: u64 = 32 << 20;
/// And one that catches up, at most: after it, what is new is read and shown, so it takes no longer than [`CATCH_UP`].
const CATCH_UP_BYTES: u64 = 4 << 20;
const CATCH_UP_LEAST: u64 = 64 << 10;
const CATCH_UP: Duration = Duration::from_secs(1);
/// And one at the end, for what waits to become final.
const LAST_BYTES: u64 = 1 << 20;
/// So far behind, and the part up to the last [`KEPT_BYTES`] is left out.
const SKIM_BYTES: u64 = 512 << 20;
const KEPT_BYTES: u64 = 64 << 20;
/// Of a file that goes on, so much is shown before its history is read, if there is more than [`HISTORY_BYTES`].
const RECENT_BYTES: u64 = 4 << 20;
const HISTORY_BYTES: u64 = 8 << 20;
/// Files that are followed at a time, and entries of a folder that are looked at.
const FILES: usize = 4_096;
const ENTRIES: usize = 16_384;
/// Processes whose earlier files are remembered.
const RETIRED: usize = 4_096;
/// Ticks without news after which what waits is final.
const QUIET_TICKS: u32 = 4;
/// [`QUIET_TICKS`] of a process that wrote something too late before.
const QUIET_TICKS_LATE: u32 = 16;
const PROBLEMS: usize = 20;
/// So few bytes are left, and what was read is of now.
const CURRENT_BYTES: u64 = 1 << 20;
/// What a shared folder shows late is not so late: further apart are only clocks.
const CLOCK_NS: u128 = 120_000_000_000;

/// Where trace files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// All in this folder, also those that come.
    Folder(PathBuf),
    /// One file.
    File(PathBuf),
}

/// Follows trace files.
#[derive(Debug, Default)]
pub struct Watch {
    sources: Vec<Source>,
    options: Options,
    /// The newest part of files that go on is read before their history.
    newest_first: bool,
    files: Vec<Tracked>,
    /// Files that are or were followed.
    seen: HashMap<PathBuf, (u64, u64)>,
    /// Traces in pieces that are or were followed, from their first piece on.
    cut: BTreeSet<Trace>,
    /// Sums over the earlier files of processes.
    retired: BTreeMap<Identity, Watched>,
    problems: VecDeque<String>,
    behind: u64,
    skipped: u64,
    left_out: BTreeSet<PathBuf>,
    /// Folders that have more entries than are looked at.
    crowded: BTreeSet<PathBuf>,
    next: usize,
    /// When the last tick was, ns since the Unix epoch.
    now_ns: u64,
    /// The name of this host.
    host: String,
    /// Grows while files are read.
    progress: Arc<AtomicU64>,
    /// What came after [`Self::read_what_is_there`] began is not wanted.
    is_enough: bool,
    /// All that was there was read at some time: there were numbers to show.
    has_read: bool,
    /// What [`Self::catch_up`] reads next.
    catch_up_bytes: Option<u64>,
    /// Since when so much is unread that it takes time, and the bytes that were read before.
    pace: Option<(Instant, u64)>,
}

/// So long a reading goes on before it is known how fast it is.
const PACE: Duration = Duration::from_secs(1);

impl Watch {
    /// Nothing is read before the first tick.
    pub fn new(sources: Vec<Source>, options: Options) -> Self {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self { sources, options, host: host.trim().to_owned(), ..Self::default() }
    }

    /// A number that grows while a reading goes on, for another thread: where it stays, the folder does not answer.
    pub fn progress(&self) -> Arc<AtomicU64> {
        self.progress.clone()
    }

    /// Follows one place more, if it is not followed yet.
    pub fn add(&mut self, source: Source) {
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
    }

    /// From here on, files that go on are read from their end, so that a page is of now, and their history after that.
    pub fn newest_first(&mut self) {
        self.newest_first = true;
    }

    /// Reads what was added since the last tick, 64 MiB about.
    pub fn tick(&mut self) {
        self.tick_at(now_ns(), TICK_BYTES);
    }

    /// Reads what was added between two ticks, which are a second apart.
    pub fn read(&mut self) {
        self.tick_at(now_ns(), READ_BYTES);
    }

    /// Reads a little more of what is there, without a wait after the last tick: as much as this host reads in about a
    /// second, so that the present is not old while the history is read.
    pub fn catch_up(&mut self) {
        let (began, budget) = (Instant::now(), self.catch_up_bytes.unwrap_or(CATCH_UP_BYTES));
        self.read_at(now_ns(), budget, 0);
        self.catch_up_bytes = Some(in_a_second(budget, began.elapsed()));
    }

    /// Reads what is there now until what waits is final, and not what is added meanwhile: files may grow faster than they
    /// are read. `tell` gets the bytes that are read, and how many there are; if it returns false, the rest stays unread.
    pub fn read_what_is_there(&mut self, tell: impl FnMut(u64, u64) -> bool) {
        // A process that goes on is not silent because the reading takes long.
        let began_ns = now_ns();
        if !self.read_up_to(began_ns, tell) {
            return;
        }
        for tracked in &mut self.files {
            tracked.is_read = true;
            tracked.process.is_current();
        }
        self.is_enough = true;
        for _ in 0..=QUIET_TICKS_LATE {
            self.tick_at(began_ns, LAST_BYTES);
            // All go on, so that nothing becomes final.
            if self.behind > 0 && self.files.iter().all(|tracked| tracked.quiet == 0) {
                break;
            }
        }
    }

    /// As [`Self::read_what_is_there`], but what waits stays: more is awaited.
    pub fn read_first(&mut self, tell: impl FnMut(u64, u64) -> bool) {
        self.read_up_to(now_ns(), tell);
    }

    fn read_up_to(&mut self, began_ns: u64, mut tell: impl FnMut(u64, u64) -> bool) -> bool {
        self.find();
        for tracked in &mut self.files {
            tracked.goal = Some(tracked.follow.bytes() + tracked.follow.backlog());
        }
        let left = |of: &Tracked| of.goal.map_or(0, |goal| goal.saturating_sub(of.follow.bytes()));
        let unread = |all: &[Tracked]| all.iter().map(left).fold(0u64, u64::saturating_add);
        let (all, mut before) = (unread(&self.files), u64::MAX);
        loop {
            let now = unread(&self.files);
            // A frame that is not whole stays.
            if now == 0 || now == before {
                return true;
            }
            if !tell(all - now.min(all), all) {
                return false;
            }
            before = now;
            self.tick_at(began_ns, CATCH_UP_BYTES);
        }
    }

    fn tick_at(&mut self, now_ns: u64, budget: u64) {
        // Ticks are a second apart, other readings are not.
        self.read_at(now_ns, budget, u32::from(matches!(budget, TICK_BYTES | LAST_BYTES)));
    }

    /// Reads at most so much. `ticks`: how many have passed with it, 0 or 1.
    fn read_at(&mut self, now_ns: u64, mut budget: u64, ticks: u32) {
        self.now_ns = now_ns;
        self.find();
        self.behind = 0;
        let count = self.files.len();
        let progress = self.progress.clone();
        // Each time another one is first, so that nobody waits for good.
        self.next = self.next.checked_rem(count).map_or(0, |next| next + 1);
        let present_waits = self.files.iter().any(Tracked::is_awaited);
        for turn in 0..count {
            let Some(tracked) = self.files.get_mut((self.next + turn) % count.max(1)) else {
                continue;
            };
            if let Some(recent) = tracked.recent.as_mut().filter(|_| budget > 0) {
                budget = budget.saturating_sub(recent.read(budget, &progress));
            }
            let backlog = match tracked.recent.as_ref().filter(|recent| !recent.is_read) {
                Some(recent) => recent.follow.backlog(),
                None => tracked.follow.backlog(),
            };
            // Neither their history nor runs that have ended keep the present waiting.
            let is_past = tracked.recent.is_some() || !tracked.goes_on;
            if budget == 0 || present_waits && is_past {
                self.behind = self.behind.saturating_add(backlog);
                continue;
            }
            let skims = backlog > SKIM_BYTES;
            tracked.process.skim(skims);
            let share = if skims { budget.min(backlog - KEPT_BYTES) } else { budget };
            let was_read = tracked.is_read;
            let was_lost = is_lost(tracked.follow.state());
            let taken = tracked.follow.read(share, |record| {
                progress.fetch_add(1, Ordering::Relaxed);
                tracked.process.push(record);
            });
            progress.fetch_add(1, Ordering::Relaxed);
            // It may have moved.
            if !self.seen.contains_key(tracked.follow.path()) {
                self.seen.insert(tracked.follow.path().to_owned(), tracked.follow.identity());
            }
            budget = budget.saturating_sub(taken.bytes);
            self.behind = self.behind.saturating_add(taken.behind);
            self.skipped += if skims { taken.bytes } else { 0 };
            if tracked.corrupt_frames == 0 && taken.corrupt_frames > 0 {
                let path = visible_path(tracked.follow.path());
                self.problems.push_back(format!("{path} has damaged frames, which are left out"));
            }
            tracked.corrupt_frames += taken.corrupt_frames;
            tracked.behind = taken.behind;
            if taken.bytes > 0 && taken.behind < CURRENT_BYTES {
                tracked.process.is_current();
            }
            tracked.quiet = if taken.bytes == 0 { tracked.quiet.saturating_add(ticks) } else { 0 };
            let is_current = taken.bytes > 0 && taken.behind < CURRENT_BYTES;
            if is_current && tracked.is_read {
                let last = tracked.process.last_wall_ns();
                tracked.ahead_ns = last.map(|last| i128::from(last) - i128::from(now_ns));
            }
            let over = tracked.follow.state().is_over();
            // What is there at first may be old.
            tracked.is_read |= over || backlog <= share;
            tracked.recent.take_if(|_| tracked.is_read);
            let is_old = tracked.process.last_wall_ns().is_some_and(|last| is_old(now_ns, last));
            if was_lost && !is_lost(tracked.follow.state()) {
                tracked.told = false;
                let path = visible_path(tracked.follow.path());
                self.problems.push_back(format!("{path} is there again, and is read on"));
            }
            // Of a file that was there already, and has not grown for long, nothing more is awaited.
            let is_left = tracked.is_read && !was_read && is_old;
            let was_gone = tracked.is_gone && was_read;
            tracked.is_gone = tracked.is_gone(&self.host, now_ns);
            let is_gone = tracked.is_gone && tracked.is_read && !was_gone;
            // The rest of a process that wrote late once may come late again.
            let is_late = tracked.process.late_ns() > 0;
            let is_quiet = tracked.quiet == if is_late { QUIET_TICKS_LATE } else { QUIET_TICKS };
            if is_quiet || is_left || is_gone || (over && !tracked.told) {
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
        let goes_on = self.files.iter().any(|of| of.goes_on);
        if goes_on && !self.has_read && !self.files.iter().any(Tracked::is_awaited) {
            // From here on, it is the past that is behind.
            (self.pace, self.has_read) = (None, true);
        }
        match self.is_behind() {
            true => drop(self.pace.get_or_insert((Instant::now(), self.bytes()))),
            false => (self.pace, self.has_read) = (None, self.has_read || !self.files.is_empty()),
        }
    }

    fn is_behind(&self) -> bool {
        self.behind >= CURRENT_BYTES || self.files.iter().any(|of| !of.is_read)
    }

    /// Bytes that were read of the files that are followed.
    fn bytes(&self) -> u64 {
        self.files.iter().map(Tracked::bytes).fold(0, u64::saturating_add)
    }

    fn reading_left_s(&self) -> Option<u64> {
        let (began, before) = self.pace.filter(|(began, _)| began.elapsed() >= PACE)?;
        let read = self.bytes().saturating_sub(before) as f64;
        let seconds = self.behind as f64 * began.elapsed().as_secs_f64() / read;
        seconds.is_finite().then(|| seconds.ceil() as u64)
    }

    fn find(&mut self) {
        let mut found: Vec<(SystemTime, PathBuf, (u64, u64))> = Vec::new();
        let mut look = |path: PathBuf, folder: Option<&Path>| {
            let Ok(status) = fs::metadata(&path) else { return };
            let identity = (status.dev(), status.ino());
            let path = by_folder(path, folder, identity);
            if place(&path).is_some_and(|(trace, _)| self.cut.contains(&trace)) {
                return;
            }
            if status.is_file() && self.seen.get(&path) != Some(&identity) {
                let changed = status.modified().unwrap_or(UNIX_EPOCH);
                found.push((changed, path, identity));
            }
        };
        for source in &self.sources {
            let (folder, paths) = match source {
                Source::File(path) => (path.parent(), vec![path.clone()]),
                Source::Folder(folder) => {
                    let mut entries = fs::read_dir(folder).into_iter().flatten();
                    let paths = entries.by_ref().take(ENTRIES);
                    let paths = paths.filter_map(|entry| Some(entry.ok()?.path()));
                    let paths = paths.filter(|path| is_trace(path)).collect();
                    if entries.next().is_some() && self.crowded.insert(folder.clone()) {
                        self.problems.push_back(format!(
                            "{} has more than {ENTRIES} entries, and only so many are looked at: give the job a separate folder",
                            visible_path(folder)
                        ));
                    }
                    (Some(folder.as_path()), paths)
                }
            };
            let folder = folder.and_then(|folder| folder.canonicalize().ok());
            paths.into_iter().for_each(|path| look(path, folder.as_deref()));
        }
        // Of several pieces the first is read first, and leads to the others.
        let mut first: HashMap<Trace, (u64, SystemTime)> = HashMap::new();
        for (changed, (trace, number)) in found.iter().filter_map(|of| Some((of.0, place(&of.1)?)))
        {
            let (lowest, newest) = first.entry(trace).or_insert((number, changed));
            (*lowest, *newest) = (number.min(*lowest), changed.max(*newest));
        }
        found.retain_mut(|(changed, path, _)| {
            let Some((trace, number)) = place(path) else { return true };
            first.get(&trace).filter(|of| of.0 == number).map(|of| *changed = of.1).is_some()
        });
        // The newest first: there may be more than can be followed.
        found.order_by(|a, b| b.cmp(a));
        found.dedup_by(|a, b| a.1 == b.1);
        for (changed, path, identity) in found {
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
            if let Some((trace, _)) = place(&path) {
                if self.cut.len() >= 2 * ENTRIES {
                    self.cut.retain(|(folder, _)| folder.exists());
                }
                self.cut.insert(trace);
            }
            let follow = Chain::new(path);
            let is_new =
                || changed.elapsed().is_ok_and(|ago| ago < Duration::from_nanos(SILENT_NS));
            let goes_on = self.newest_first && is_new();
            let has_history = goes_on && follow.backlog() > HISTORY_BYTES;
            let recent = has_history.then(|| Recent {
                follow: Chain::new(follow.path().to_owned()),
                process: Process::new(self.options.clone()),
                is_read: false,
            });
            self.files.push(Tracked {
                recent: recent.map(Box::new),
                goes_on,
                follow,
                process: Process::new(self.options.clone()),
                quiet: 0,
                corrupt_frames: 0,
                told: false,
                behind: 0,
                is_read: false,
                is_gone: false,
                ahead_ns: None,
                goal: None,
            });
        }
    }

    fn make_room(&mut self) -> bool {
        let told = self.files.iter().position(|tracked| tracked.told);
        let Some(at) = told else { return false };
        let gone = self.files.remove(at);
        self.keep_sums(&gone);
        true
    }

    /// Of the files of a process that are over only the newest stays, for its last window.
    fn retire(&mut self) {
        let mut last: HashMap<Identity, usize> = HashMap::new();
        for (at, tracked) in self.files.iter().enumerate() {
            let identity = identity(tracked);
            let age = |at: usize| self.files.get(at).map(Tracked::age);
            let newer = |&other: &usize| age(at) >= age(other);
            if last.get(&identity).is_none_or(newer) {
                last.insert(identity, at);
            }
        }
        let kept: BTreeSet<usize> = last.into_values().into_set();
        let mut at = 0;
        let is_gone = |tracked: &mut Tracked| {
            at += 1;
            tracked.told && !kept.contains(&(at - 1))
        };
        let gone: Vec<Tracked> = self.files.extract_if(.., is_gone).collect();
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
        let all = by_identity.into_iter().filter_map(|(identity, files)| {
            let mut sums = self.retired.get(&identity).cloned().unwrap_or_default();
            files.iter().for_each(|tracked| sums.add(tracked));
            let is_last = files.len() > 1 || self.retired.contains_key(&identity);
            let newest = files.into_iter().max_by_key(|tracked| tracked.age())?;
            let mut process = watched(identity, newest, sums);
            process.window.is_last = is_last;
            process.is_behind = match self.is_enough {
                true => newest.behind > 0 && newest.quiet == 0,
                false if newest.recent.is_some() => newest.skims_to_its_end(),
                false => newest.behind >= CURRENT_BYTES || !newest.is_read,
            };
            // Next to numbers of the present, those of a past that passes by would look as if they were final.
            if self.has_read && !newest.is_read && newest.recent.is_none() {
                process.window = Window { is_last, ..Window::default() };
            }
            Some((process, newest))
        });
        let (mut processes, newest): (Vec<Watched>, Vec<&Tracked>) = all.unzip();
        let is_over = |of: &Watched| {
            let is_old = |last: u64| is_old(self.now_ns, last);
            of.state != FileState::Growing || of.is_gone || of.last_wall_ns.is_some_and(is_old)
        };
        let is_behind = self.is_behind() && !self.is_enough;
        // Where nothing more comes, the last seconds would be those in which the program ended.
        if !is_behind && processes.iter().all(is_over) {
            for (process, newest) in processes.iter_mut().zip(newest) {
                let end_wall_ns = process.window.end_wall_ns;
                let is_last = process.window.is_last;
                process.is_over();
                process.window = Window { end_wall_ns, is_last, ..newest.process.recording() };
            }
        }
        let mut look = Look {
            processes,
            behind_bytes: self.behind,
            is_reading: is_behind && !self.has_read,
            catches_up: is_behind && self.has_read,
            sums_lag: self.files.iter().any(|of| of.recent.is_some()),
            reading_left_s: self.reading_left_s().filter(|_| is_behind),
            skipped_bytes: self.skipped,
            problems: self.problems.iter().cloned().collect(),
            files_left_out: self.left_out.len() as u64,
            ..Look::default()
        };
        look.judge();
        look
    }

    /// The files that are followed, with how far each is read: up to a whole frame.
    pub fn files(&self) -> impl Iterator<Item = (PathBuf, u64)> {
        self.files.iter().flat_map(|tracked| tracked.follow.files())
    }
}

/// What is read in [`CATCH_UP`], where `bytes` took so long.
fn in_a_second(bytes: u64, took: Duration) -> u64 {
    let rate = CATCH_UP.as_secs_f64() / took.as_secs_f64().max(1e-3);
    ((bytes as f64 * rate) as u64).clamp(CATCH_UP_LEAST, CATCH_UP_BYTES)
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether a process that wrote its last event then has been silent for long.
fn is_old(now_ns: u64, last_ns: u64) -> bool {
    now_ns.saturating_sub(last_ns) > SILENT_NS
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

/// The newest part of a file whose history is not read yet.
#[derive(Debug)]
struct Recent {
    follow: Chain,
    process: Process,
    is_read: bool,
}

impl Recent {
    /// Reads on: definitions up to the last [`RECENT_BYTES`], then everything. Gives the bytes that it took.
    fn read(&mut self, budget: u64, progress: &AtomicU64) -> u64 {
        let backlog = self.follow.backlog();
        let skims = !self.is_read && backlog > RECENT_BYTES;
        self.process.skim(skims);
        let share = if skims { budget.min(backlog - RECENT_BYTES) } else { budget };
        let taken = self.follow.read(share, |record| {
            progress.fetch_add(1, Ordering::Relaxed);
            self.process.push(record);
        });
        self.is_read |= !skims && backlog <= share || self.follow.state().is_over();
        if self.is_read && taken.bytes > 0 {
            self.process.is_current();
        }
        taken.bytes
    }
}

#[derive(Debug)]
struct Tracked {
    /// What is shown until the history is read.
    recent: Option<Box<Recent>>,
    /// It grew when it was found, and the newest part of what grows is to be read first.
    goes_on: bool,
    follow: Chain,
    process: Process,
    quiet: u32,
    corrupt_frames: u64,
    told: bool,
    /// Bytes that are there and make no whole frame yet.
    behind: u64,
    /// All that was there when it was found was read.
    is_read: bool,
    /// Its process is not there any more.
    is_gone: bool,
    /// By how much its clock was ahead of ours when it wrote last.
    ahead_ns: Option<i128>,
    /// So many bytes were there when [`Watch::read_what_is_there`] began.
    goal: Option<u64>,
}

impl Tracked {
    fn skims_to_its_end(&self) -> bool {
        self.recent.as_ref().is_some_and(|recent| !recent.is_read)
    }

    /// It goes on, and is not read up to the present.
    fn is_awaited(&self) -> bool {
        self.goes_on && self.recent.as_ref().map_or(!self.is_read, |recent| !recent.is_read)
    }

    /// The part that is shown.
    fn shown(&self) -> (&Chain, &Process) {
        let recent = self.recent.as_deref().map(|recent| (&recent.follow, &recent.process));
        recent.unwrap_or((&self.follow, &self.process))
    }

    fn bytes(&self) -> u64 {
        if self.skims_to_its_end() { self.shown().0.bytes() } else { self.follow.bytes() }
    }

    fn is_torn(&self) -> bool {
        self.behind > 0 && self.quiet >= QUIET_TICKS
    }

    /// Whether its process is one of this host that was killed: what `/proc` hides from us is not gone.
    fn is_gone(&self, host: &str, now_ns: u64) -> bool {
        let is_there = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
        let is_quiet = |last: u64| now_ns.saturating_sub(last) > GONE_NS;
        let (follow, process) = self.shown();
        let who = process.who.as_ref().filter(|who| !host.is_empty() && who.host == host);
        // Whether or not its history is read.
        (self.is_read || self.recent.as_ref().is_some_and(|recent| recent.is_read))
            && *follow.state() == FileState::Growing
            && process.last_wall_ns().is_some_and(is_quiet)
            && who.is_some_and(|who| !is_there(who.pid) && is_there(1))
    }

    /// It grows with what is newer: files that go on come behind those that are over.
    fn age(&self) -> (bool, Option<u64>) {
        (!self.told, self.shown().1.last_wall_ns())
    }
}

fn is_lost(state: &FileState) -> bool {
    matches!(state, FileState::Removed | FileState::Unreadable(_))
}

type Identity = (String, u32);

impl Watched {
    /// Adds the sums of a file.
    fn add(&mut self, tracked: &Tracked) {
        let process = &tracked.process;
        for (name, numbers) in process.totals() {
            let room = self.totals.len() < MAX_STAGES || self.totals.contains_key(&name);
            let name = if room { name } else { OTHER.to_owned() };
            self.totals.entry(name).or_default().add(&numbers);
        }
        for (device, busy_ns) in process.device_totals() {
            *self.device_totals.entry(device).or_default() += busy_ns;
        }
        let (sums, more) = (&mut self.counts, process.counts());
        sums.work += more.work;
        sums.attributed += more.attributed;
        sums.outside += more.outside;
        sums.unattributed += more.unattributed;
        sums.left_out += more.left_out;
        let lost = losses(&tracked.shown().1.losses);
        self.losses.resize(lost.len(), ("", 0));
        for (sum, (kind, more)) in self.losses.iter_mut().zip(lost) {
            *sum = (kind, sum.1.saturating_add(more));
        }
        self.late_ns = self.late_ns.saturating_add(process.late_ns());
        self.corrupt_frames += tracked.corrupt_frames;
        self.bytes += tracked.bytes();
    }
}

fn identity(tracked: &Tracked) -> Identity {
    match &tracked.shown().1.who {
        Some(who) => (visible(who.host.as_bytes()), who.pid),
        None => (visible_path(tracked.follow.path()), 0),
    }
}

/// A process as its newest file shows it.
fn watched((host, pid): Identity, newest: &Tracked, sums: Watched) -> Watched {
    let (follow, process) = newest.shown();
    let mut window = if newest.skims_to_its_end() { Window::default() } else { process.window() };
    if newest.recent.is_some() {
        // Work of ranges that ended before what is read: it has a stage once all is read.
        window.stages.remove(crate::tables::UNATTRIBUTED_NAME);
    }
    let mut watched = Watched {
        host,
        pid,
        rank: rank_in(|name| process.fact(&format!("env.{name}")))
            .or_else(|| process.rank_of_communicator()),
        world: number(RANKS.map(|(_, ranks)| ranks), |name| process.fact(&format!("env.{name}"))),
        file: visible_path(follow.path()),
        state: follow.state().clone(),
        end: process.end.clone(),
        notes: notes(newest),
        window,
        last_wall_ns: process.last_wall_ns(),
        counters: process.counters(),
        gpus: process.gpus(),
        is_torn: newest.is_torn(),
        is_gone: newest.is_gone,
        states_its_end: process.states_its_end(),
        has_no_gpu_records: process.fact("gpu.off").is_some() && sums.counts.work == 0,
        ..sums
    };
    if watched.is_gone {
        watched.is_over();
    }
    if let Some(ahead_ns) = newest.ahead_ns.filter(|ahead_ns| ahead_ns.unsigned_abs() > CLOCK_NS) {
        watched.move_times(ahead_ns);
        watched.warn(clock_differs(ahead_ns));
    }
    watched
}

/// Variables of job launchers that say the rank and the number of ranks, in the order in which reports believe them.
const RANKS: [(&str, &str); 6] = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", ""),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
];

/// The rank that a job launcher gave to a process with these variables.
pub fn rank_in<V: AsRef<str>>(variable: impl Fn(&str) -> Option<V>) -> Option<u64> {
    number(RANKS.map(|(rank, _)| rank), variable)
}

/// The first of these variables that is a number.
fn number<V: AsRef<str>>(
    names: [&str; RANKS.len()],
    variable: impl Fn(&str) -> Option<V>,
) -> Option<u64> {
    names.iter().find_map(|name| variable(name)?.as_ref().trim().parse().ok())
}

fn notes(tracked: &Tracked) -> Vec<String> {
    let (follow, process) = tracked.shown();
    let gaps = follow.gaps().iter().copied();
    let gaps: Vec<String> = gaps.map(pieces::gap_in_words).collect();
    let missing = (!gaps.is_empty()).then(|| gaps.join(", "));
    let simulated = process.fact("cupti.simulated") == Some("1");
    let fact = |key: &str, usual: Option<&str>| {
        let told = process.fact(key).filter(|value| Some(*value) != usual);
        told.map(|value| visible(value.as_bytes()))
    };
    let found = [
        missing.map(|pieces| format!("of its trace is not there any more: {pieces}")),
        simulated.then(|| format!("{SIMULATED}: these are not times of a real one")),
        fact("gpu.off", None).map(|why| format!("no GPU work is recorded: {why}")),
        fact("counters.off", None).map(|why| format!("no hardware counters are sampled: {why}")),
        fact("sample", Some("1/1")).map(|part| format!("{part}{IN_PART}")),
        fact("nvml.off", None).map(|why| format!("power and clocks are not read: {why}")),
        fact("ranges", Some("*")).map(|globs| format!("GPU work is recorded in {globs} only")),
    ];
    found.into_iter().flatten().collect()
}

/// Names of losses, which metrics use as well.
pub(crate) const LOSSES: [&str; 13] = [
    "dropped_by_cupti",
    "buffers_refused",
    "range_events",
    "unattributed",
    "invalid_timestamps",
    "unreadable_records",
    "unbalanced_range_ends",
    "unclosed_ranges",
    "names_cut",
    "unwritten_bytes",
    "late_switches",
    "beyond_limits",
    "calls_turned_away",
];

/// Every loss with its name.
fn losses(losses: &Losses) -> [(&'static str, u64); LOSSES.len()] {
    let counts = [
        losses.cupti_dropped,
        losses.buffers_refused,
        losses.range_events,
        losses.unattributed,
        losses.invalid_timestamps,
        losses.unreadable_records,
        losses.unbalanced,
        losses.unclosed,
        losses.names_cut,
        losses.spool_bytes_unwritten,
        losses.late_switches,
        losses.beyond_limits,
        losses.calls_turned_away,
    ];
    std::array::from_fn(|at| (LOSSES[at], counts[at]))
}

fn problem(follow: &Chain) -> Option<String> {
    let path = visible_path(follow.path());
    let what = match follow.state() {
        FileState::Waiting | FileState::Growing | FileState::Ended | FileState::Unreachable => {
            return None;
        }
        FileState::Removed => "was removed before its end, and is no longer read".into(),
        FileState::Replaced => "was replaced; the new file is read from its start".into(),
        FileState::Cut => "became shorter while it was read, and is no longer read".into(),
        FileState::Damaged(at) => format!(
            "is damaged at byte {at}, and is not read beyond it; `stage2-launch merge` shows what it holds"
        ),
        FileState::Unreadable(why) => {
            let why = visible(why.as_bytes());
            let named = why.strip_prefix(&format!("`{path}` ")).map(str::to_owned);
            named.unwrap_or_else(|| format!("cannot be read: {why}"))
        }
    };
    Some(format!("{path} {what}"))
}

#[cfg(test)]
mod tests;
