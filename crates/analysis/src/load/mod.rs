//! The spools of a run -> one [`ProcessCapture`] each: aggregated while reading, one pass a file, and a
//! second one where outliers are.
//!
//! Nothing here knows how a report looks, and nothing here fails because of what a file holds:
//! what cannot be used is counted or becomes a finding that names the file.

pub(crate) mod alike;
pub(crate) mod batches;
mod between;
pub(crate) mod call;
pub(crate) mod clock;
pub(crate) mod collectives;
pub(crate) mod device_states;
pub(crate) mod devices;
pub mod events;
mod instances;
pub mod libraries;
pub(crate) mod names;
mod nccl;
pub mod operation;
pub(crate) mod outliers;
mod path_times;
pub(crate) mod paths;
pub(crate) mod placed;
mod range_steps;
pub(crate) mod ranges;
pub(crate) mod sampling;
pub(crate) mod series;
pub(crate) mod shapes;
pub(crate) mod share;
pub mod spool;
mod stage_windows;
pub mod stats;
pub(crate) mod step_times;
pub(crate) mod steps;
mod tally;
pub(crate) mod thinning;
pub mod trace;
pub(crate) mod whole;
pub(crate) mod window_set;
pub(crate) mod work_unions;
use self::libraries::RangeNames;
use stage2_contract::stats::Busy;
use stage2_model::{FileState, Finding, META_RANGES, META_SAMPLE, Undefined};
use std::collections::BTreeMap;
use std::path::PathBuf;

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::text::redact::Redactor;
use stage2_contract::trace::{Anchor, Losses, Process};

use alike::Joined;
use clock::ClockMap;
use collectives::Collectives;
use device_states::DeviceStates;
use devices::DeviceEntry;
use outliers::Found;
use paths::{OUTSIDE, PathIndex, PathNode, UNATTRIBUTED};
use ranges::{JoinedWindows, PathTimes, RangeFaults, StageTimes};
use shapes::ShapeEntry;
use stats::{GroupKey, Stats, Work};
use step_times::StepTrack;
pub use tally::Tally;
use whole::WholeProcess;
use work_unions::WorkTime;

/// Key under which a collector says why it collects no GPU work.
pub(crate) const META_GPU_OFF: &str = "gpu.off";
/// Meta key: the number of user ranges still open when the process ended normally.
const META_OPEN_AT_END: &str = "ranges.open_at_end";

/// Meta key of a capture: the pieces of a trace that are not there.
pub(crate) const META_PIECES_MISSING: &str = "pieces.missing";

/// The spools of a run.
#[derive(Debug, Default)]
pub struct Capture {
    /// What could be read, in the order of the file names.
    pub processes: Vec<ProcessCapture>,
    /// Files that could not be read, or not to the end.
    pub findings: Vec<Finding>,
    /// Files that could not be read at all.
    pub files_refused: u64,
    /// What the names of its ranges and domains mean.
    pub names: RangeNames,
}

impl Capture {
    /// Takes the secrets out of the command lines: older collectors wrote them as they were.
    pub(crate) fn redact(&mut self, redactor: &Redactor) {
        for process in self.processes.iter_mut().filter_map(|capture| capture.process.as_mut()) {
            process.argv = redactor.words(&process.argv);
        }
    }
}

/// What one process did, from its spool.
#[derive(Debug)]
pub struct ProcessCapture {
    pub(crate) file: String,
    /// Where it lies.
    pub(crate) path: PathBuf,
    pub(crate) state: FileState,
    /// Who was traced; nothing where the file does not say.
    pub(crate) process: Option<Process>,
    pub(crate) meta: BTreeMap<String, String>,
    pub(crate) names: Vec<Vec<u8>>,
    /// Kernels with their launch configuration, by index.
    pub(crate) shapes: Vec<ShapeEntry>,
    /// Range paths, by index; every parent before its children.
    pub(crate) paths: Vec<PathNode>,
    pub(crate) path_times: BTreeMap<PathIndex, PathTimes>,
    /// Names of ranges that count as one.
    pub(crate) joined: Joined,
    /// Of the paths of such a name: the names that it stands for.
    pub(crate) joined_names: FxHashMap<PathIndex, FxHashSet<u32>>,
    pub(crate) devices: Vec<DeviceEntry>,
    /// What the driver said of the devices.
    pub(crate) device_states: DeviceStates,
    /// Time in which each device (by index) did anything.
    pub(crate) device_busy: BTreeMap<u32, Busy>,
    pub(crate) stages: BTreeMap<PathIndex, StageCapture>,
    /// Windows of the model's stages, joined; nothing where it has none.
    pub(crate) model_windows: Option<JoinedWindows>,
    /// Stages and the ranges right within them, as they followed each other.
    pub(crate) steps: BTreeMap<PathIndex, StepTrack>,
    pub(crate) groups: Vec<(GroupKey, Stats)>,
    /// Kernels of graph replays, by (path at replay, path at capture).
    pub(crate) captured: BTreeMap<(PathIndex, PathIndex), Captured>,
    /// Records of counter samples.
    pub(crate) counter_samples: u64,
    pub(crate) losses: Losses,
    pub(crate) counts: Counts,
    pub(crate) undefined: Undefined,
    pub(crate) faults: RangeFaults,
    /// Ranges of the user that were still open when the process ended normally.
    pub(crate) open_at_end: u64,
    pub(crate) anchors: u64,
    /// The first of them: no two captures of a process have the same.
    pub(crate) first_anchor: Option<Anchor>,
    pub(crate) anchors_ignored: u64,
    /// How often a clock stepped between two of the others.
    pub(crate) clock_steps: u64,
    /// Why the capture ended, if it ended in order.
    pub(crate) end: Option<String>,
    /// What is known of the process as one stage; nothing where the user opened ranges, where GPU work
    /// was recorded in a part only, and where there is none.
    pub(crate) whole: Option<WholeProcess>,
    /// GPU work was recorded in some ranges, or instances of them, only.
    pub(crate) gated: bool,
    /// What it had to do with other processes.
    pub(crate) collectives: Collectives,
    /// Ties the clock of the GPU work to the monotonic clock.
    pub(crate) clock: ClockMap,
    /// Wall time less monotonic time at the middle one of the clock readings, ns.
    pub(crate) wall_ahead_ns: Option<i64>,
    /// First and last event of the host, on the monotonic clock.
    pub(crate) host_extent: Extent,
    /// First start and last end of GPU work with times, on the clock of the GPU.
    pub(crate) gpu_extent: Extent,
}

/// The first and the last reading of a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent(pub(crate) Option<(u64, u64)>);

impl Extent {
    pub(crate) fn add(&mut self, at: u64) {
        let (first, last) = self.0.unwrap_or((at, at));
        self.0 = Some((first.min(at), last.max(at)));
    }
}

impl ProcessCapture {
    /// Whether an absence of GPU work means that none ran, not that none was recorded.
    pub(crate) fn gpu_recorded(&self) -> bool {
        self.counts.gpu_records() > 0 || !self.meta.contains_key(META_GPU_OFF)
    }

    /// The share of range instances that was recorded (`1/N`), where it was not all of them.
    pub(crate) fn sample(&self) -> Option<&str> {
        self.meta.get(META_SAMPLE).map(String::as_str)
    }

    /// The ranges that GPU work was recorded in, where it was not everywhere.
    pub(crate) fn ranges(&self) -> Option<&str> {
        self.meta.get(META_RANGES).map(String::as_str)
    }
}

/// What happened in one stage of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageCapture {
    /// Its ranges; nothing for work outside of ranges.
    pub(crate) times: Option<StageTimes>,
    /// Time in which any device worked for it.
    pub(crate) busy: WorkTime,
    /// Time in which any device worked for its first instance.
    pub(crate) cold_busy: WorkTime,
    /// That of any work, for each device, by index.
    pub(crate) by_device: BTreeMap<u32, Busy>,
    /// GPU work was recorded in it, or in ranges within it: none in it means that there was none.
    pub(crate) recorded: bool,
    /// Instances, or steps, that are far longer than the others; nothing for work outside of ranges.
    pub(crate) outliers: Option<Found>,
}

/// Kernels of graph replays whose place of capture is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Captured {
    pub(crate) kernels: u64,
    pub(crate) total_ns: u64,
}

/// Records that were read, by kind and by where they belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) kernels: u64,
    pub(crate) copies: u64,
    pub(crate) fills: u64,
    pub(crate) graph_launches: u64,
    /// GPU work (any of the above) placed in a range.
    pub(crate) attributed: u64,
    /// GPU work launched while no range of the user was open.
    pub(crate) outside_ranges: u64,
    /// Of these, the work launched inside a library's range.
    pub(crate) in_library_ranges: u64,
    /// GPU work whose launch could not be placed.
    pub(crate) unattributed: u64,
    /// GPU work without valid timestamps: counted, not timed.
    pub(crate) invalid_timestamps: u64,
    pub(crate) ranges: u64,
    pub(crate) marks: u64,
}

impl Counts {
    pub(crate) fn gpu_records(&self) -> u64 {
        let Self { kernels, copies, fills, graph_launches, .. } = *self;
        [kernels, copies, fills, graph_launches].into_iter().fold(0, u64::saturating_add)
    }

    /// `stage` is the outermost node around `path`.
    fn add(&mut self, work: Work, path: PathIndex, stage: PathIndex, timed: bool) {
        match work {
            Work::Kernel(_) => self.kernels += 1,
            Work::Copy(_) => self.copies += 1,
            Work::Fill => self.fills += 1,
            Work::Graph(_) => self.graph_launches += 1,
        }
        match stage {
            OUTSIDE => {
                self.outside_ranges += 1;
                self.in_library_ranges += u64::from(path != OUTSIDE);
            }
            UNATTRIBUTED => self.unattributed += 1,
            _ => self.attributed += 1,
        }
        self.invalid_timestamps += u64::from(!timed);
    }
}
