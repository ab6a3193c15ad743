//! Folders and files of traces -> all of their processes at one moment.
//!
//! A tick reads a bounded number of bytes. A reader that falls behind says so; one that is very far
//! behind takes only the definitions of the part that it has to leave out, and says how much that was.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use stage2_contract::order::Order as _;
use stage2_contract::text::{visible, visible_path};
use stage2_contract::trace::{Losses, pieces};

use crate::follow::{Chain, FileState, Trace, place};
use crate::look::{Look, Watched, clock_differs};
use crate::process::{Options, Process};
use crate::{MAX_STAGES, OTHER};

/// Bytes that a tick reads over all files, about.
const TICK_BYTES: u64 = 64 << 20;
/// So far behind, and the part up to the last [`KEPT_BYTES`] is left out.
const SKIM_BYTES: u64 = 512 << 20;
const KEPT_BYTES: u64 = 64 << 20;
/// Files that are followed at a time, and entries of a folder that are looked at.
const FILES: usize = 4_096;
const ENTRIES: usize = 16_384;
/// Processes whose earlier files are remembered.
const RETIRED: usize = 4_096;
/// Ticks without news after which what waits is final.
const QUIET_TICKS: u32 = 4;
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
}

impl Watch {
    /// Nothing is read before the first tick.
    pub fn new(sources: Vec<Source>, options: Options) -> Self {
        Self { sources, options, ..Self::default() }
    }

    /// Follows one place more, if it is not followed yet.
    pub fn add(&mut self, source: Source) {
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
    }

    /// Reads what was added since the last tick, 64 MiB about.
    pub fn tick(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.tick_at(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
    }

    fn tick_at(&mut self, now_ns: u64) {
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
            let was_lost = is_lost(tracked.follow.state());
            let taken = tracked.follow.read(share, |record| tracked.process.push(record));
            budget = budget.saturating_sub(taken.bytes);
            self.behind = self.behind.saturating_add(taken.behind);
            self.skipped += if skims { taken.bytes } else { 0 };
            tracked.corrupt_frames += taken.corrupt_frames;
            tracked.behind = taken.behind;
            tracked.quiet = if taken.bytes == 0 { tracked.quiet.saturating_add(1) } else { 0 };
            let is_current = taken.bytes > 0 && taken.behind < CURRENT_BYTES;
            if is_current && tracked.is_read {
                let last = tracked.process.last_wall_ns();
                tracked.ahead_ns = last.map(|last| i128::from(last) - i128::from(now_ns));
            }
            // What is there at first may be old.
            tracked.is_read |= is_current;
            let over = tracked.follow.state().is_over();
            if was_lost && !is_lost(tracked.follow.state()) {
                tracked.told = false;
                let path = visible_path(tracked.follow.path());
                self.problems.push_back(format!("{path} is there again, and is read on"));
            }
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
        let mut first: HashMap<Trace, u64> = HashMap::new();
        for (trace, number) in found.iter().filter_map(|(_, path, _)| place(path)) {
            let lowest = first.entry(trace).or_insert(number);
            *lowest = number.min(*lowest);
        }
        found.retain(|(_, path, _)| {
            place(path).is_none_or(|(trace, number)| first.get(&trace) == Some(&number))
        });
        // The newest first: there may be more than can be followed.
        found.order_by(|a, b| b.cmp(a));
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
            if let Some((trace, _)) = place(&path) {
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
                behind: 0,
                is_read: false,
                ahead_ns: None,
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
        let kept: BTreeSet<usize> = last.into_values().collect();
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
        let one = |(identity, files): (Identity, Vec<&Tracked>)| {
            let mut sums = self.retired.get(&identity).cloned().unwrap_or_default();
            files.iter().for_each(|tracked| sums.add(tracked));
            let newest = files.iter().max_by_key(|tracked| tracked.age())?;
            Some(watched(identity, newest, sums))
        };
        let mut look = Look {
            processes: by_identity.into_iter().filter_map(one).collect(),
            behind_bytes: self.behind,
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

#[derive(Debug)]
struct Tracked {
    follow: Chain,
    process: Process,
    quiet: u32,
    corrupt_frames: u64,
    told: bool,
    /// Bytes that are there and make no whole frame yet.
    behind: u64,
    /// All that was there was read once.
    is_read: bool,
    /// By how much its clock was ahead of ours when it wrote last.
    ahead_ns: Option<i128>,
}

impl Tracked {
    fn is_torn(&self) -> bool {
        self.behind > 0 && self.quiet >= QUIET_TICKS
    }

    /// It grows with what is newer: files that go on come behind those that are over.
    fn age(&self) -> (bool, Option<u64>) {
        (!self.told, self.process.last_wall_ns())
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
        let lost = losses(&process.losses);
        self.losses.resize(lost.len(), ("", 0));
        for (sum, (kind, more)) in self.losses.iter_mut().zip(lost) {
            *sum = (kind, sum.1.saturating_add(more));
        }
        self.late_ns = self.late_ns.saturating_add(process.late_ns);
        self.corrupt_frames += tracked.corrupt_frames;
        self.bytes += tracked.follow.bytes();
    }
}

fn identity(tracked: &Tracked) -> Identity {
    match &tracked.process.who {
        Some(who) => (visible(who.host.as_bytes()), who.pid),
        None => (visible_path(tracked.follow.path()), 0),
    }
}

/// A process as its newest file shows it.
fn watched((host, pid): Identity, newest: &Tracked, sums: Watched) -> Watched {
    let process = &newest.process;
    let mut watched = Watched {
        host,
        pid,
        rank: number(process, RANKS.map(|(rank, _)| rank))
            .or_else(|| process.rank_of_communicator()),
        world: number(process, RANKS.map(|(_, ranks)| ranks)),
        file: visible_path(newest.follow.path()),
        state: newest.follow.state().clone(),
        end: process.end.clone(),
        notes: notes(newest),
        window: process.window(),
        last_wall_ns: process.last_wall_ns(),
        counters: process.counters.last(),
        gpus: process.gpus(),
        is_torn: newest.is_torn(),
        ..sums
    };
    if let Some(ahead_ns) = newest.ahead_ns.filter(|ahead_ns| ahead_ns.unsigned_abs() > CLOCK_NS) {
        watched.move_times(ahead_ns);
        watched.warn(clock_differs(ahead_ns));
    }
    watched
}

/// Variables of job launchers that say the rank and the number of ranks, in the order in which reports believe them.
const RANKS: [(&str, &str); 6] = [
    ("env.RANK", "env.WORLD_SIZE"),
    ("env.OMPI_COMM_WORLD_RANK", "env.OMPI_COMM_WORLD_SIZE"),
    ("env.MV2_COMM_WORLD_RANK", "env.MV2_COMM_WORLD_SIZE"),
    ("env.PMI_RANK", "env.PMI_SIZE"),
    ("env.PMIX_RANK", ""),
    ("env.SLURM_PROCID", "env.SLURM_STEP_NUM_TASKS"),
];

/// The first of these facts that is a number.
fn number(process: &Process, keys: [&str; RANKS.len()]) -> Option<u64> {
    keys.iter().find_map(|key| process.fact(key)?.trim().parse().ok())
}

fn notes(tracked: &Tracked) -> Vec<String> {
    let process = &tracked.process;
    let gaps = tracked.follow.gaps().iter().copied();
    let gaps: Vec<String> = gaps.map(pieces::gap_in_words).collect();
    let missing = (!gaps.is_empty()).then(|| gaps.join(", "));
    let simulated = process.fact("cupti.simulated") == Some("1");
    let fact = |key: &str, usual: Option<&str>| {
        let told = process.fact(key).filter(|value| Some(*value) != usual);
        told.map(|value| visible(value.as_bytes()))
    };
    let found = [
        missing.map(|pieces| format!("of its trace is not there any more: {pieces}")),
        simulated.then(|| "the GPU is simulated: no time here is that of a real GPU".to_owned()),
        fact("gpu.off", None).map(|why| format!("no GPU work is recorded: {why}")),
        fact("counters.off", None).map(|why| format!("no hardware counters are sampled: {why}")),
        fact("sample", Some("1/1")).map(|part| format!("{part} of the instances are recorded")),
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
    let what = match follow.state() {
        FileState::Waiting | FileState::Growing | FileState::Ended | FileState::Unreachable => {
            return None;
        }
        FileState::Removed => "was taken away before it ended; nothing more is read from it".into(),
        FileState::Replaced => "was replaced; the new file is read from its start".into(),
        FileState::Cut => "became shorter while it was read; nothing more is read from it".into(),
        FileState::Damaged(at) => format!(
            "is damaged at byte {at}; nothing more is read from it, `stage2-launch merge` shows what it holds"
        ),
        FileState::Unreadable(why) => format!("cannot be read: {}", visible(why.as_bytes())),
    };
    Some(format!("{} {what}", visible_path(follow.path())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::trace::{
        Anchor, GpuNs, Losses, MonoNs, Path as RangePath, Process as Who, RangeOpen, Record,
        WallNs, Writer, pieces,
    };

    const S: u64 = 1_000_000_000;

    /// A file of `pid` that defines the stage `decode`.
    fn begun(path: &Path, pid: u32, meta: &Record, at: u64) -> Writer<fs::File> {
        let mut writer = Writer::new(fs::File::create(path).expect("a file")).expect("a header");
        writer.write(&Record::Process(Who { pid, host: "host".into(), ..Who::default() }));
        writer.write(meta);
        let (gpu, mono, wall) = (GpuNs(at), MonoNs(at), WallNs(at));
        writer.write(&Record::Anchor(Anchor { gpu, mono, wall }));
        writer.write(&Record::Name { id: 1, bytes: b"decode".to_vec() });
        writer.write(&Record::Path(RangePath { id: 1, parent: 0, name: 1, domain: 0 }));
        writer
    }

    /// A file of `pid` with `steps` steps of the stage `decode`, one each 100 ms from second `from` on.
    fn trace(path: &Path, pid: u32, rank: &str, from: u64, steps: u64, ends: bool) {
        let rank = Record::Meta { key: "env.RANK".into(), value: rank.into() };
        let mut writer = begun(path, pid, &rank, from * S);
        for range in 1..=steps {
            let start = MonoNs(from * S + range * S / 10);
            let open = RangeOpen { range, start, path: 1, thread: 1, ..RangeOpen::default() };
            writer.write(&Record::RangeOpen(open));
            writer.write(&Record::RangeClose { range, end: MonoNs(start.0 + 5) });
        }
        if ends {
            writer.write(&Record::End { reason: "exit".into() });
        }
        writer.flush().expect("a disk");
    }

    fn watched_folder() -> (tempfile::TempDir, Watch) {
        let folder = tempfile::tempdir().expect("a folder");
        let watch = Watch::new(vec![Source::Folder(folder.path().into())], Options::default());
        (folder, watch)
    }

    fn steps(process: &Watched) -> u64 {
        process.totals.get("decode").map_or(0, |numbers| numbers.steps)
    }

    /// Hazard (Watching what runs): A trace file ends within a frame.
    /// Promise: Once nobody completes the frame, something is known to be missing.
    #[test]
    fn a_file_that_ends_within_a_frame_is_torn_until_somebody_completes_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.s2t");
        trace(&path, 1, "0", 0, 5, true);
        let whole = fs::read(&path).expect("a file");
        fs::write(&path, &whole[..whole.len() - 3]).expect("a file");
        let mut watch = Watch::new(vec![Source::File(path.clone())], Options::default());
        watch.tick();
        assert!(!watch.look().processes[0].is_torn, "it may be in the making");
        (0..=QUIET_TICKS).for_each(|_| watch.tick());
        assert!(watch.look().processes[0].is_torn && !watch.look().processes[0].is_growing());
        fs::write(&path, whole).expect("a file");
        watch.tick();
        let process = &watch.look().processes[0];
        assert_eq!((process.is_torn, &process.state), (false, &FileState::Ended));
    }

    #[test]
    fn ranks_stand_side_by_side_and_files_that_come_are_found() {
        let (folder, mut watch) = watched_folder();
        watch.tick();
        assert!(watch.look().processes.is_empty());
        trace(&folder.path().join("host-2.s2t"), 2, "1", 10, 20, false);
        trace(&folder.path().join("host-9.s2t"), 9, "0", 10, 30, true);
        fs::write(folder.path().join("notes.txt"), "no trace file").expect("a file");
        watch.tick();
        let look = watch.look();
        let seen: Vec<_> =
            look.processes.iter().map(|p| (p.rank, p.pid, steps(p), p.state.clone())).collect();
        assert_eq!(seen[0], (Some(0), 9, 30, FileState::Ended));
        // The last one has closed, and may still go on.
        assert_eq!(seen[1], (Some(1), 2, 19, FileState::Growing));
        for _ in 0..QUIET_TICKS {
            watch.tick();
        }
        assert_eq!(steps(&watch.look().processes[1]), 20, "nothing more came");
    }

    /// Hazard (Watching what runs): A process begins its next trace file.
    /// Promise: Counters never fall.
    #[test]
    fn totals_never_fall_when_a_process_begins_its_next_file() {
        let (folder, mut watch) = watched_folder();
        let mut before = 0;
        for window in 1..=5u64 {
            let path = folder.path().join(format!("host-7-w{window}.s2t"));
            trace(&path, 7, "0", 100 * window, 10, true);
            watch.tick();
            let look = watch.look();
            assert_eq!(look.processes.len(), 1);
            assert_eq!(steps(&look.processes[0]), before + 10);
            assert!(look.processes[0].file.ends_with(&format!("w{window}.s2t")));
            before += 10;
            // A file that was read and is taken away later is no news.
            fs::remove_file(&path).expect("a file");
        }
        assert!(watch.look().problems.is_empty(), "{:?}", watch.look().problems);
        assert_eq!(watch.files.len(), 1, "the others are sums");
    }

    /// A piece of the trace of process 7: a second of steps, the last of which goes on in the next piece.
    fn piece(folder: &Path, number: u64, ends: bool) {
        let path = folder.join(pieces::piece_name("host-7-1700000000", number));
        let (first, begin) = (number * 10, (100 + number) * S);
        let meta =
            |key: &str, value: u64| Record::Meta { key: key.into(), value: value.to_string() };
        let open = |range: u64, start: u64, continues: u64| {
            let start = MonoNs(start);
            let open =
                RangeOpen { range, start, continues, path: 1, thread: 1, ..RangeOpen::default() };
            Record::RangeOpen(open)
        };
        let mut writer = begun(&path, 7, &meta(pieces::PIECE, number), begin);
        if number > 1 {
            writer.write(&open(first - 1, begin, first - 1));
        }
        writer.write(&meta(pieces::OPEN_BEFORE, u64::from(number > 1)));
        writer.write(&Record::Losses(Losses { range_events: 2, ..Losses::default() }));
        if number > 1 {
            writer.write(&Record::RangeClose { range: first - 1, end: MonoNs(begin + 5) });
        }
        for range in first..first + 10 {
            let start = begin + (range - first + 1) * S / 20;
            writer.write(&open(range, start, 0));
            if range < first + 9 || ends {
                writer.write(&Record::RangeClose { range, end: MonoNs(start + 5) });
            }
        }
        let reason = if ends { "exit" } else { pieces::CONTINUED };
        writer.write(&Record::End { reason: reason.into() });
        writer.flush().expect("a disk");
    }

    fn lost_events(process: &Watched) -> u64 {
        process.losses.iter().find(|(kind, _)| *kind == "range_events").map_or(0, |(_, lost)| *lost)
    }

    /// Hazard (Traces in pieces): A piece ends while it is watched live.
    /// Promise: The reader goes on with the next one, and counts a range that is open once.
    #[test]
    fn pieces_of_a_trace_are_one_process_and_its_reader_goes_on_over_each_seam() {
        let (folder, mut watch) = watched_folder();
        for number in 1..=6 {
            piece(folder.path(), number, number == 6);
            watch.tick_at((101 + number) * S);
            let look = watch.look();
            assert_eq!((look.processes.len(), look.behind_bytes), (1, 0));
            let process = &look.processes[0];
            let open = u64::from(number < 6);
            // The last one that closed may still go on.
            assert!((number * 10 - 1 - open..=number * 10 - open).contains(&steps(process)));
            assert_eq!(lost_events(process), 2 * number);
            assert_eq!(process.notes, Vec::<String>::new());
            let state = if number == 6 { FileState::Ended } else { FileState::Growing };
            assert_eq!(process.state, state, "piece {number}");
        }
        assert_eq!(watch.look().processes[0].end.as_deref(), Some("exit"));
        assert!(watch.look().problems.is_empty(), "{:?}", watch.look().problems);
        assert_eq!((watch.files.len(), watch.files().count()), (1, 6));
    }

    #[test]
    fn pieces_that_are_deleted_before_they_are_read_are_told() {
        let (folder, mut watch) = watched_folder();
        (2..=4).for_each(|number| piece(folder.path(), number, false));
        watch.tick();
        piece(folder.path(), 8, true);
        watch.tick_at(109 * S);
        let look = watch.look();
        let [process] = &look.processes[..] else { panic!("{:?}", look.processes) };
        assert_eq!(process.notes, ["of its trace is not there any more: piece 1, pieces 5 to 7"]);
        // Those that were open before the gap, or came out of it, count where they began or not at all.
        assert_eq!((steps(process), lost_events(process)), (40, 8));
    }

    #[test]
    fn a_process_that_dies_and_files_that_vanish_or_are_damaged_are_told_once() {
        let (folder, mut watch) = watched_folder();
        let [gone, cut, foreign] = ["a.s2t", "b.s2t", "c.s2t"].map(|name| folder.path().join(name));
        trace(&gone, 1, "0", 10, 20, false);
        trace(&cut, 2, "1", 10, 20, false);
        fs::write(&foreign, "\x1b[2J is no trace file at all, whatever it is called")
            .expect("a file");
        watch.tick();
        fs::remove_file(&gone).expect("a file");
        fs::File::options()
            .write(true)
            .open(&cut)
            .and_then(|file| file.set_len(60))
            .expect("a file");
        for _ in 0..9 {
            watch.tick();
        }
        let problems = watch.look().problems;
        assert_eq!(problems.len(), 3, "{problems:?}");
        for part in ["taken away", "became shorter", "not a spool"] {
            assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
        }
        let steps: Vec<u64> = watch.look().processes.iter().map(steps).collect();
        assert_eq!(steps[..2], [20, 20], "what was read counts");
    }

    /// Hazard (Watching what runs): The shared folder of a job shows the file of one host late, and a rank was
    ///  started again.
    /// Promise: Both are said of the process, and what was read counts.
    #[test]
    fn a_process_that_lags_and_a_rank_that_restarted_are_told() {
        let (folder, mut watch) = watched_folder();
        trace(&folder.path().join("a.s2t"), 1, "0", 10, 20, false);
        trace(&folder.path().join("b.s2t"), 2, "1", 60, 20, false);
        trace(&folder.path().join("c.s2t"), 3, "2", 20, 20, true);
        trace(&folder.path().join("d.s2t"), 4, "2", 61, 20, false);
        watch.tick();
        let look = watch.look();
        let of = |pid: u32| look.processes.iter().find(|process| process.pid == pid).expect("it");
        assert_eq!([1, 2, 3, 4].map(|pid| of(pid).lags), [true, false, false, false]);
        assert!(
            of(1).notes[0].starts_with("its data is 51 s older than the newest"),
            "{:?}",
            of(1).notes
        );
        assert_eq!(of(3).notes, ["process 4 on host has rank 2, too, and newer data"]);
        assert!(of(2).notes.is_empty() && of(4).notes.is_empty());
        // Of a file that may grow, the last step is not final.
        assert_eq!(look.processes.iter().map(steps).sum::<u64>(), 77);
    }

    /// Hazard (Watching what runs): The trace files of two jobs are in one folder.
    /// Promise: The processes with the same number, and those of the smaller job, are named; all count.
    #[test]
    fn processes_of_two_jobs_in_one_folder_are_told() {
        let (folder, mut watch) = watched_folder();
        for (pid, rank) in [(1, "0"), (2, "1"), (3, "0")] {
            trace(&folder.path().join(format!("{pid}.s2t")), pid, rank, 10, 20, false);
        }
        for (pid, ranks) in [(4, "4"), (5, "8"), (6, "8")] {
            let ranks = Record::Meta { key: "env.WORLD_SIZE".into(), value: ranks.into() };
            let path = folder.path().join(format!("{pid}.s2t"));
            begun(&path, pid, &ranks, 10 * S).flush().expect("a disk");
        }
        watch.tick();
        let look = watch.look();
        let told: Vec<_> = look.processes.iter().filter(|of| of.is_suspect).collect();
        let notes: Vec<_> = told.iter().map(|of| (of.pid, of.notes.concat())).collect();
        let both = "both go on: they are of two jobs, or were given the same number";
        let double = format!("process 1 on host has rank 0, too, and {both}");
        let other = "its job has 4 ranks, and that of most others 8: it is of another job";
        assert_eq!(notes, [(3, double), (4, other.to_owned())]);
        assert_eq!((look.processes.len(), look.processes.iter().map(steps).sum::<u64>()), (6, 57));
    }

    /// Hazard (Watching what runs): The clocks of the hosts of a job are hours apart.
    /// Promise: It is said of the process, its data is as old as its file says, and none of the others is late.
    #[test]
    fn a_clock_that_is_hours_away_is_told_and_makes_nobody_late() {
        let (folder, mut watch) = watched_folder();
        let now = 100_000 * S;
        let no_rank = Record::Meta { key: "env.RANK".into(), value: String::new() };
        let hosts = [(1, 100_000), (2, 100_000 + 3 * 3_600), (3, 90_000)];
        let mut writers = hosts.map(|(pid, from)| {
            begun(&folder.path().join(format!("{pid}.s2t")), pid, &no_rank, from * S)
        });
        writers.iter_mut().for_each(|writer| writer.flush().expect("a disk"));
        watch.tick_at(now);
        for (writer, (_, from)) in writers.iter_mut().zip(hosts) {
            let at = (from + 1) * S;
            let (gpu, mono, wall) = (GpuNs(at), MonoNs(at), WallNs(at));
            writer.write(&Record::Anchor(Anchor { gpu, mono, wall }));
            writer.flush().expect("a disk");
        }
        watch.tick_at(now + S);
        let look = watch.look();
        let told: Vec<_> =
            look.processes.iter().map(|of| (of.pid, of.lags, of.notes.concat())).collect();
        let [ahead, behind] = ["3 h ahead of", "2 h behind"]
            .map(|way| format!("its clock is {way} that of this host; its times are moved"));
        assert_eq!(told, [(1, false, String::new()), (2, false, ahead), (3, false, behind)]);
        assert!(look.processes.iter().all(|of| of.last_wall_ns == Some(now + S)), "{told:?}");
    }

    /// Hazard (Watching what runs): A shared folder loses a trace file for some time.
    /// Promise: It is said; once it is there again it is read on, and nothing counts twice.
    #[test]
    fn a_file_that_a_shared_folder_lost_is_read_on_when_it_is_there_again() {
        let (folder, mut watch) = watched_folder();
        let (path, away) = (folder.path().join("a.s2t"), folder.path().join("elsewhere"));
        trace(&path, 1, "0", 10, 20, true);
        let whole = fs::read(&path).expect("a file");
        fs::write(&path, &whole[..whole.len() - 30]).expect("a file");
        watch.tick();
        fs::rename(&path, &away).expect("lost");
        (0..3).for_each(|_| watch.tick());
        assert_eq!(watch.look().processes[0].state, FileState::Removed);
        fs::rename(&away, &path).expect("there again");
        fs::write(&path, &whole).expect("a file");
        (0..3).for_each(|_| watch.tick());
        let look = watch.look();
        assert_eq!((look.processes.len(), steps(&look.processes[0])), (1, 20));
        assert_eq!(look.processes[0].state, FileState::Ended);
        let [lost, back] = &look.problems[..] else { panic!("{:?}", look.problems) };
        assert!(lost.contains("taken away") && back.ends_with("is there again, and is read on"));
    }

    /// Hazard (Watching what runs): A folder has more entries than are looked at.
    /// Promise: It is said once, and what is found is followed.
    #[test]
    fn a_folder_with_too_many_entries_is_told() {
        let (folder, mut watch) = watched_folder();
        (0..ENTRIES + 9).for_each(|at| {
            fs::File::create(folder.path().join(format!("{at}.log"))).expect("a file");
        });
        (0..3).for_each(|_| watch.tick());
        let problems = watch.look().problems;
        assert!(
            problems.len() == 1 && problems[0].contains("has more than 16384 entries"),
            "{problems:?}"
        );
    }

    #[test]
    fn more_files_than_are_followed_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        for pid in 0..FILES as u32 + 5 {
            trace(&folder.path().join(format!("host-{pid}.s2t")), pid, "0", 10, 1, false);
        }
        let mut watch = Watch::new(vec![Source::Folder(folder.path().into())], Options::default());
        watch.tick();
        watch.tick();
        let look = watch.look();
        assert_eq!((look.processes.len(), look.files_left_out), (FILES, 5));
    }

    /// Hazard (Watching what runs): One file is named in several ways (the folder of a run, a link, a
    ///  socket).
    /// Promise: It is followed once.
    #[test]
    fn a_file_that_is_named_in_several_ways_is_followed_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (real, latest) = (folder.path().join("run/collector"), folder.path().join("latest"));
        fs::create_dir_all(&real).expect("folders");
        std::os::unix::fs::symlink("run", &latest).expect("a link");
        trace(&real.join("host-2.s2t"), 2, "0", 10, 20, false);
        let linked = latest.join("collector");
        let named = |path: PathBuf| Source::File(path.join("host-2.s2t"));
        let sources = vec![Source::Folder(linked.clone()), named(real.clone())];
        let mut watch = Watch::new(sources, Options::default());
        watch.tick();
        watch.add(named(linked));
        watch.add(Source::Folder(real));
        watch.tick();
        assert_eq!(watch.files().count(), 1);
        assert_eq!(watch.look().processes.len(), 1);
    }
}
