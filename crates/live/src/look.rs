//! Trace files that are followed -> the processes that they are of, as they are seen at one moment.

use std::collections::BTreeMap;

use stage2_contract::text::{visible, visible_path};
use stage2_contract::trace::{DeviceState, Losses, pieces};

use crate::chain::Chain;
use crate::counters::Counter;
use crate::follow::FileState;
use crate::numbers::StageNumbers;
use crate::process::Process;
use crate::window::{Counts, DeviceBusy, Window};
use crate::{MAX_STAGES, OTHER};

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
pub(crate) struct Sums {
    stages: BTreeMap<String, StageNumbers>,
    devices: BTreeMap<u32, u64>,
    counts: Counts,
    losses: [u64; LOSSES],
    late_ns: u64,
    corrupt_frames: u64,
    bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) follow: Chain,
    pub(crate) process: Process,
    pub(crate) quiet: u32,
    pub(crate) corrupt_frames: u64,
    pub(crate) told: bool,
}

pub(crate) type Identity = (String, u32);

impl Sums {
    pub(crate) fn add(&mut self, tracked: &Tracked) {
        let process = &tracked.process;
        for (name, numbers) in process.totals() {
            let room = self.stages.len() < MAX_STAGES || self.stages.contains_key(&name);
            let name = if room { name } else { OTHER.to_owned() };
            self.stages.entry(name).or_default().add(&numbers);
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
        self.bytes += tracked.follow.bytes();
    }
}

pub(crate) fn identity(tracked: &Tracked) -> Identity {
    match tracked.process.who() {
        Some(who) => (visible(who.host.as_bytes()), who.pid),
        None => (visible_path(tracked.follow.path()), 0),
    }
}

pub(crate) fn watched((host, pid): Identity, tracked: &Tracked, sums: Sums) -> Watched {
    let process = &tracked.process;
    let kinds = losses(&Losses::default()).map(|(kind, _)| kind);
    Watched {
        host,
        pid,
        rank: rank(process),
        file: visible_path(tracked.follow.path()),
        state: tracked.follow.state().clone(),
        end: process.end().map(str::to_owned),
        notes: notes(tracked),
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

fn notes(tracked: &Tracked) -> Vec<String> {
    let process = &tracked.process;
    let gaps = tracked.follow.gaps().iter().copied();
    let gaps: Vec<String> = gaps.map(pieces::gap_in_words).collect();
    let missing = (!gaps.is_empty()).then(|| gaps.join(", "));
    let off = |what: &str, key: &str| {
        process.fact(key).map(|why| format!("{what}: {}", visible(why.as_bytes())))
    };
    let sample = process.fact("sample").filter(|part| *part != "1/1");
    let sample =
        sample.map(|part| format!("{} of the instances are recorded", visible(part.as_bytes())));
    let simulated = process.fact("cupti.simulated").filter(|value| *value == "1");
    let ranges = process.fact("ranges").filter(|globs| *globs != "*");
    let found = [
        missing.map(|pieces| format!("of its trace is not there any more: {pieces}")),
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

pub(crate) fn problem(follow: &Chain) -> Option<String> {
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
