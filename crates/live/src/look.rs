//! All processes at one moment: of one host, or of several together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use stage2_contract::order::Order as _;

use crate::counters::Counter;
use crate::follow::FileState;
use crate::numbers::{Counts, StageNumbers, Window};
use crate::process::GpuState;

/// How much older the data of a process may be than the newest of all before that is said.
pub(crate) const LAG_NS: u64 = 15_000_000_000;
/// Data of two processes that is as new as this: both go on.
const SAME_NS: u64 = 5_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// All processes at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Look {
    /// By rank, host and number.
    pub processes: Vec<Watched>,
    /// Bytes that are there and were not read yet.
    pub behind_bytes: u64,
    /// There are no numbers of all files yet: what was there when they were found is still being read.
    pub is_reading: bool,
    /// The numbers are of what was read before, and much that came since is still being read.
    pub catches_up: bool,
    /// Sums lack what was recorded before the last seconds: it is still being read.
    #[serde(default)]
    pub sums_lag: bool,
    /// How long that may take, s.
    pub reading_left_s: Option<u64>,
    /// Bytes of which only definitions were read.
    pub skipped_bytes: u64,
    /// What went wrong with files, the newest last.
    pub problems: Vec<String>,
    /// Files beyond those that are followed.
    pub files_left_out: u64,
    /// Processes that another host left out of what it sent.
    pub processes_left_out: u64,
    /// Of other hosts that are asked: how many answer, and how many there are.
    pub hosts: Option<(u64, u64)>,
}

impl Look {
    /// Of several hosts, each by the name that the user gave it. A process that two of them show counts once.
    pub fn of_all(parts: impl IntoIterator<Item = (String, Look)>) -> Look {
        let mut all = Look::default();
        let mut seen: HashMap<(String, u32), String> = HashMap::new();
        let mut twice: BTreeSet<(String, String)> = BTreeSet::new();
        for (name, part) in parts {
            for process in part.processes {
                let identity = (process.host.clone(), process.pid);
                match seen.get(&identity) {
                    Some(other) => drop(twice.insert((other.clone(), name.clone()))),
                    None => {
                        seen.insert(identity, name.clone());
                        all.processes.push(process);
                    }
                }
            }
            all.behind_bytes = all.behind_bytes.saturating_add(part.behind_bytes);
            all.is_reading |= part.is_reading;
            all.catches_up |= part.catches_up;
            all.sums_lag |= part.sums_lag;
            all.reading_left_s = all.reading_left_s.max(part.reading_left_s);
            all.skipped_bytes = all.skipped_bytes.saturating_add(part.skipped_bytes);
            all.files_left_out = all.files_left_out.saturating_add(part.files_left_out);
            all.processes_left_out = all.processes_left_out.saturating_add(part.processes_left_out);
            let named =
                |problem| if name.is_empty() { problem } else { format!("{name}: {problem}") };
            all.problems.extend(part.problems.into_iter().map(named));
        }
        let told =
            |(one, other)| format!("{one} and {other} show the same processes; each counts once");
        all.problems.extend(twice.into_iter().map(told));
        all.judge();
        all
    }

    /// States what does not fit together, and sorts.
    pub(crate) fn judge(&mut self) {
        let processes = &mut self.processes;
        tell_lag(processes);
        tell_doubles(processes);
        tell_other_job(processes);
        self.sort();
    }

    /// Puts the processes into the order of their rows.
    pub fn sort(&mut self) {
        let key = |p: &Watched| (p.rank.unwrap_or(u64::MAX), p.host.clone(), p.pid);
        self.processes.order_by_cached_key(key);
    }

    /// Moves the times of a host whose clock is so far ahead to those of this one.
    pub(crate) fn move_times(&mut self, ahead_ns: i128) {
        self.processes.iter_mut().for_each(|process| process.move_times(ahead_ns));
    }
}

/// Behind the part of the instances, where not all are recorded.
pub const IN_PART: &str = " of the instances are recorded";

/// What the note of a simulated GPU begins with.
pub const SIMULATED: &str = "the GPU is simulated";

/// A process as it is seen now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Watched {
    /// Its host; empty where the file does not say.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// Its rank, where a job launcher said it.
    pub rank: Option<u64>,
    /// How many ranks its job has, where a job launcher said it.
    pub world: Option<u64>,
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
    #[serde(with = "crate::message::losses")]
    pub losses: Vec<(&'static str, u64)>,
    /// Work that came too late for the busy time, and calls and samples of the host that came too late for the causes of
    /// idle time, over all of its files, ns.
    pub late_ns: u64,
    /// Damaged frames that were left out, over all of its files.
    pub corrupt_frames: u64,
    /// Bytes of its trace files that were read.
    pub bytes: u64,
    /// The last event, ns since the Unix epoch.
    pub last_wall_ns: Option<u64>,
    /// Sampled counters.
    pub counters: Vec<Counter>,
    /// GPUs of which the driver said something.
    pub gpus: Vec<GpuState>,
    /// The file ends within a frame, and has not been completed for seconds: what follows is missing.
    pub is_torn: bool,
    /// It runs no longer on this host, and could not say that it ends.
    #[serde(default)]
    pub is_gone: bool,
    /// Its file states the end of the process, or that it was about to end: nothing is missing where nothing follows.
    #[serde(default)]
    pub states_its_end: bool,
    /// Nothing more comes, and its file does not state its end: its last records are missing.
    #[serde(default)]
    pub is_cut_off: bool,
    /// Its file grows, and its data is older than the newest of all by more than 15 s.
    pub lags: bool,
    /// Newer records of it are there, and were not read yet: its data is not old for another reason.
    pub is_behind: bool,
    /// It records no GPU work, for a reason that it states: how much there was is not known.
    #[serde(default)]
    pub has_no_gpu_records: bool,
    /// Its first note is about something that is wrong.
    pub is_suspect: bool,
}

/// As a report has it.
const MISSING: &str = "up to one flush period of its records (STAGE2_FLUSH_MS) may be missing";

/// That clocks differ, and by how much.
pub(crate) fn clock_differs(ahead_ns: i128) -> String {
    let way = if ahead_ns > 0 { "ahead of" } else { "behind" };
    let apart = match ahead_ns.unsigned_abs() / u128::from(SECOND_NS) {
        seconds if seconds < 7_200 => format!("{seconds} s"),
        seconds => format!("{} h", seconds / 3_600),
    };
    format!("its clock is {apart} {way} that of this host; its times are shifted")
}

impl Watched {
    /// Whether its trace file grows: it is neither over nor cut.
    pub fn is_growing(&self) -> bool {
        self.state == FileState::Growing && !self.is_torn && !self.is_gone
    }

    /// Puts first what is wrong with it.
    pub(crate) fn warn(&mut self, what: String) {
        if !self.notes.contains(&what) {
            self.notes.insert(0, what);
        }
        self.is_suspect = true;
    }

    /// Nothing more comes: without a statement of its end, something is missing.
    pub(crate) fn is_over(&mut self) {
        if self.state == FileState::Growing && !self.is_torn && !self.states_its_end {
            self.is_cut_off = true;
            let what = if self.is_gone { "killed" } else { "killed, or still running" };
            self.warn(format!("{what}; {MISSING}"));
        }
    }

    fn is_named(&self) -> String {
        format!("process {} on {}", self.pid, self.host)
    }

    pub(crate) fn move_times(&mut self, ahead_ns: i128) {
        for at in [&mut self.last_wall_ns, &mut self.window.end_wall_ns].into_iter().flatten() {
            *at =
                u64::try_from(i128::from(*at).saturating_sub(ahead_ns).max(0)).unwrap_or(u64::MAX);
        }
    }
}

/// Of files that grow: what is much older than the rest was held up on the way, or nothing happens there.
fn tell_lag(processes: &mut [Watched]) {
    let newest = processes.iter().filter_map(|process| process.last_wall_ns).max().unwrap_or(0);
    let not_told =
        |process: &&mut Watched| process.is_growing() && !process.lags && !process.is_behind;
    for process in processes.iter_mut().filter(not_told) {
        let lag_ns = process.last_wall_ns.map_or(0, |at| newest.saturating_sub(at));
        if lag_ns > LAG_NS {
            process.lags = true;
            process.warn(format!(
                "its data is {} s older than the newest: it hangs, the folder lags, or the clocks differ",
                lag_ns / SECOND_NS
            ));
        }
    }
}

/// The folder of the trace of a process; empty where it is not known.
fn folder_of(process: &Watched) -> String {
    let folder = std::path::Path::new(&process.file).parent();
    folder.map_or_else(String::new, |folder| folder.to_string_lossy().into_owned())
}

/// A rank that was started again has another process. Where both go on, two jobs are looked at.
fn tell_doubles(processes: &mut [Watched]) {
    // Ranks of two runs have the same numbers.
    let key = |of: &Watched| Some((folder_of(of), of.rank?));
    let mut newest: HashMap<(String, u64), Watched> = HashMap::new();
    let brief = |of: &Watched| Watched {
        host: of.host.clone(),
        state: of.state.clone(),
        pid: of.pid,
        last_wall_ns: of.last_wall_ns,
        is_torn: of.is_torn,
        is_gone: of.is_gone,
        ..Watched::default()
    };
    for process in processes.iter() {
        let Some(key) = key(process) else { continue };
        let known = newest.entry(key).or_insert_with(|| brief(process));
        if process.last_wall_ns > known.last_wall_ns {
            *known = brief(process);
        }
    }
    for process in processes {
        let known = key(process).and_then(|key| newest.get_key_value(&key));
        let Some(((_, rank), other)) =
            known.filter(|(_, other)| other.is_named() != process.is_named())
        else {
            continue;
        };
        let both = process.is_growing() && other.is_growing();
        let apart = other.last_wall_ns.zip(process.last_wall_ns).map(|(a, b)| a.saturating_sub(b));
        let what = match both && apart.is_some_and(|ns| ns < SAME_NS) {
            true => "both are still running: they are of two jobs, or were given the same number",
            false => "newer data",
        };
        process.warn(format!("{} has rank {rank}, too, and {what}", other.is_named()));
    }
}

/// Of the processes that say how many ranks their job has, the fewer are of another job.
fn tell_other_job(processes: &mut [Watched]) {
    let mut jobs: BTreeMap<u64, u64> = BTreeMap::new();
    for ranks in processes.iter().filter_map(|process| process.world) {
        *jobs.entry(ranks).or_default() += 1;
    }
    let Some((&most, _)) = jobs.iter().max_by_key(|&(_, processes)| *processes) else { return };
    for process in processes {
        if let Some(ranks) = process.world.filter(|ranks| *ranks != most) {
            process.warn(format!(
                "its job has {ranks} ranks, and that of most others {most}: it is of another job"
            ));
        }
    }
}
