//! Folders and files of traces -> all of their processes at one moment.
//!
//! A tick reads a bounded number of bytes. A reader that falls behind says so; one that is very far
//! behind takes only the definitions of the part that it has to leave out, and says how much that was.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use stage2_spool::{DeviceState, Losses};
use stage2_text::{visible, visible_path};

use crate::counters::Counter;
use crate::follow::{FileState, Follow};
use crate::numbers::StageNumbers;
use crate::process::{Counts, DeviceBusy, Options, Process, Window};
use crate::{MAX_STAGES, OTHER};

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

/// A process as it is seen now.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Its host; empty where the file does not say.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// Its rank, where a job launcher said it.
    pub rank: Option<u64>,
    /// Its newest trace file.
    pub file: String,
    /// How things stand with that file.
    pub state: FileState,
    /// Why it ended.
    pub end: Option<String>,
    /// What is special about it: no GPU records and why, a sample, a simulated GPU.
    pub notes: Vec<String>,
    /// The last seconds.
    pub window: Window,
    /// Sums of each stage over all of its files.
    pub totals: BTreeMap<String, StageNumbers>,
    /// Time in which each GPU worked, over all of its files.
    pub device_totals: BTreeMap<u32, u64>,
    /// Records, over all of its files.
    pub counts: Counts,
    /// Losses, over all of its files.
    pub losses: Vec<(&'static str, u64)>,
    /// Work that came too late for the busy time, over all of its files, ns.
    pub late_ns: u64,
    /// Damaged frames that were left out, over all of its files.
    pub corrupt_frames: u64,
    /// Bytes of its trace files that were read.
    pub bytes: u64,
    /// The last event, ns since the Unix epoch.
    pub last_wall_ns: Option<u64>,
    /// Sampled counters.
    pub counters: Vec<Counter>,
    /// What the driver says.
    pub device_states: Vec<DeviceState>,
}

/// All processes at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// By rank, host and number.
    pub processes: Vec<Watched>,
    /// Bytes that are there and were not read yet.
    pub behind_bytes: u64,
    /// Bytes of which only definitions were read.
    pub skipped_bytes: u64,
    /// What went wrong with files, the newest last.
    pub problems: Vec<String>,
    /// Files beyond those that are followed.
    pub files_left_out: u64,
}

/// What is kept of the earlier files of a process.
#[derive(Clone, Debug, Default)]
struct Sums {
    stages: BTreeMap<String, StageNumbers>,
    devices: BTreeMap<u32, u64>,
    counts: Counts,
    losses: [u64; LOSSES],
    late_ns: u64,
    corrupt_frames: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Tracked {
    follow: Follow,
    process: Process,
    quiet: u32,
    corrupt_frames: u64,
    told: bool,
}

type Identity = (String, u32);

/// Follows trace files.
#[derive(Debug)]
pub struct Watch {
    sources: Vec<Source>,
    options: Options,
    files: Vec<Tracked>,
    /// Files that are or were followed.
    seen: HashMap<PathBuf, (u64, u64)>,
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
            let length = fs::metadata(tracked.follow.path()).map_or(0, |found| found.len());
            let backlog = length.saturating_sub(tracked.follow.read_to());
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
        let mut look = |path: PathBuf| {
            let Ok(status) = fs::metadata(&path) else { return };
            let identity = (status.dev(), status.ino());
            if status.is_file() && self.seen.get(&path) != Some(&identity) {
                let changed = status.modified().unwrap_or(std::time::UNIX_EPOCH);
                found.push((changed, path, identity));
            }
        };
        for source in &self.sources {
            match source {
                Source::File(path) => look(path.clone()),
                Source::Folder(folder) => {
                    let entries = fs::read_dir(folder).into_iter().flatten().take(ENTRIES);
                    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
                    paths.filter(|path| is_trace(path)).for_each(&mut look);
                }
            }
        }
        // The newest first: there may be more than can be followed.
        found.sort_by(|a, b| b.cmp(a));
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
            self.files.push(Tracked {
                follow: Follow::new(path),
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
    pub fn files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.files.iter().map(|tracked| (tracked.follow.path(), tracked.follow.read_to()))
    }
}

impl Sums {
    fn add(&mut self, tracked: &Tracked) {
        let process = &tracked.process;
        for (name, numbers) in process.totals() {
            let room = self.stages.len() < MAX_STAGES || self.stages.contains_key(name);
            let name = if room { name } else { OTHER };
            self.stages.entry(name.to_owned()).or_default().add(numbers);
        }
        for DeviceBusy { device, busy_ns } in process.device_totals() {
            *self.devices.entry(device).or_default() += busy_ns;
        }
        let more = process.counts();
        let counts = &mut self.counts;
        counts.kernels += more.kernels;
        counts.work += more.work;
        counts.attributed += more.attributed;
        counts.outside += more.outside;
        counts.unattributed += more.unattributed;
        counts.untimed += more.untimed;
        counts.left_out += more.left_out;
        for (sum, (_, more)) in self.losses.iter_mut().zip(losses(&process.losses())) {
            *sum = sum.saturating_add(more);
        }
        self.late_ns = self.late_ns.saturating_add(process.late_ns());
        self.corrupt_frames += tracked.corrupt_frames;
        self.bytes += tracked.follow.read_to();
    }
}

fn is_trace(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "s2t")
}

fn identity(tracked: &Tracked) -> Identity {
    match tracked.process.who() {
        Some(who) => (visible(who.host.as_bytes()), who.pid),
        None => (visible_path(tracked.follow.path()), 0),
    }
}

fn watched((host, pid): Identity, tracked: &Tracked, sums: Sums) -> Watched {
    let process = &tracked.process;
    let kinds = losses(&Losses::default()).map(|(kind, _)| kind);
    Watched {
        host,
        pid,
        rank: rank(process),
        file: visible_path(tracked.follow.path()),
        state: tracked.follow.state().clone(),
        end: process.end().map(str::to_owned),
        notes: notes(process),
        window: process.window(),
        totals: sums.stages,
        device_totals: sums.devices,
        counts: sums.counts,
        losses: kinds.into_iter().zip(sums.losses).collect(),
        late_ns: sums.late_ns,
        corrupt_frames: sums.corrupt_frames,
        bytes: sums.bytes,
        last_wall_ns: process.last_wall_ns(),
        counters: process.counters(),
        device_states: process.device_states().copied().collect(),
    }
}

/// Variables of job launchers that say the rank, in the order in which reports believe them.
const RANKS: [&str; 6] = [
    "env.RANK",
    "env.OMPI_COMM_WORLD_RANK",
    "env.MV2_COMM_WORLD_RANK",
    "env.PMI_RANK",
    "env.PMIX_RANK",
    "env.SLURM_PROCID",
];

fn rank(process: &Process) -> Option<u64> {
    RANKS.iter().find_map(|key| process.fact(key)?.trim().parse().ok())
}

fn notes(process: &Process) -> Vec<String> {
    let off = |what: &str, key: &str| {
        process.fact(key).map(|why| format!("{what}: {}", visible(why.as_bytes())))
    };
    let sample = process.fact("sample").filter(|part| *part != "1/1");
    let sample =
        sample.map(|part| format!("{} of the instances are recorded", visible(part.as_bytes())));
    let simulated = process.fact("cupti.simulated").filter(|value| *value == "1");
    let ranges = process.fact("ranges").filter(|globs| *globs != "*");
    let found = [
        simulated.map(|_| "the GPU is simulated: no time is one of a real GPU".to_owned()),
        off("no GPU work is recorded", "gpu.off"),
        off("no hardware counters are sampled", "counters.off"),
        sample,
        ranges.map(|globs| format!("GPU work is recorded in {} only", visible(globs.as_bytes()))),
    ];
    found.into_iter().flatten().collect()
}

/// Kinds of losses.
const LOSSES: usize = 13;

/// Every loss with its name, which metrics use as well.
fn losses(losses: &Losses) -> [(&'static str, u64); LOSSES] {
    [
        ("dropped_by_cupti", losses.cupti_dropped),
        ("buffers_refused", losses.buffers_refused),
        ("range_events", losses.range_events),
        ("unattributed", losses.unattributed),
        ("invalid_timestamps", losses.invalid_timestamps),
        ("unreadable_records", losses.unreadable_records),
        ("unbalanced_range_ends", losses.unbalanced),
        ("unclosed_ranges", losses.unclosed),
        ("names_cut", losses.names_cut),
        ("unwritten_bytes", losses.spool_bytes_unwritten),
        ("late_switches", losses.late_switches),
        ("beyond_limits", losses.beyond_limits),
        ("calls_turned_away", losses.calls_turned_away),
    ]
}

fn problem(follow: &Follow) -> Option<String> {
    let what = match follow.state() {
        FileState::Waiting | FileState::Growing | FileState::Ended => return None,
        FileState::Removed => {
            "was taken away before it ended; nothing more is read from it".to_owned()
        }
        FileState::Replaced => "was replaced; the new file is read from its start".to_owned(),
        FileState::Cut => {
            "became shorter while it was read; nothing more is read from it".to_owned()
        }
        FileState::Damaged(at) => format!(
            "is damaged at byte {at}; nothing more is read from it, `stage2-launch merge` shows what it holds"
        ),
        FileState::Unreadable(why) => format!("cannot be read: {}", visible(why.as_bytes())),
    };
    Some(format!("{} {what}", visible_path(follow.path())))
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
