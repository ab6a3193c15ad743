//! The spools of a run -> one [`ProcessCapture`] each: aggregated while reading, one pass a file.
//!
//! Nothing here knows how a report looks, and nothing here fails because of what a file holds:
//! what cannot be used is counted or becomes a finding that names the file.

mod between;
mod call;
pub mod clock;
pub mod collectives;
pub mod devices;
mod instances;
pub mod libraries;
pub mod names;
mod nccl;
pub mod operation;
mod path_times;
pub mod paths;
pub mod ranges;
pub mod sampling;
pub mod series;
pub mod shapes;
pub mod spool;
mod stage_windows;
pub mod stats;
pub mod steps;
mod tally;
pub mod whole;
use stage2_model::{FileState, Finding, META_RANGES, META_SAMPLE, Undefined};
use stage2_stats::Busy;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stage2_spool::{Anchor, Losses, Process};

use clock::ClockMap;
use collectives::Collectives;
use devices::DeviceEntry;
use paths::{OUTSIDE, PathIndex, PathNode, UNATTRIBUTED};
use ranges::{JoinedWindows, PathTimes, RangeFaults, StageTimes};
use shapes::ShapeEntry;
use stats::{GroupKey, Stats, Work};
pub use tally::Tally;
use whole::WholeProcess;

/// Key under which a collector says why it collects no GPU work.
pub(crate) const META_GPU_OFF: &str = "gpu.off";
/// Meta key: the number of user ranges still open when the process ended normally.
const META_OPEN_AT_END: &str = "ranges.open_at_end";

/// Outermost ranges that are the model's own, by their names in front of an `@`.
pub(crate) const MODEL_STAGES: [&[u8]; 6] =
    [b"prefill", b"decode", b"vision", b"sam", b"clip", b"projector"];

/// The spools of a run.
#[derive(Debug, Default)]
pub struct Capture {
    /// What could be read, in the order of the file names.
    pub processes: Vec<ProcessCapture>,
    /// Files that could not be read, or not to the end.
    pub findings: Vec<Finding>,
    /// Files that could not be read at all.
    pub files_refused: u64,
}

/// What one process did, from its spool.
#[derive(Debug)]
pub struct ProcessCapture {
    /// Name of the file, without its folder.
    pub file: String,
    /// How the file ends.
    pub state: FileState,
    /// Who was traced; nothing where the file does not say.
    pub process: Option<Process>,
    /// Facts about the capture.
    pub meta: BTreeMap<String, String>,
    /// Strings, by index.
    pub names: Vec<Vec<u8>>,
    /// Kernels with their launch configuration, by index.
    pub shapes: Vec<ShapeEntry>,
    /// Range paths, by index; every parent before its children.
    pub paths: Vec<PathNode>,
    /// How long each path was open.
    pub path_times: BTreeMap<PathIndex, PathTimes>,
    /// Devices, by index.
    pub devices: Vec<DeviceEntry>,
    /// Time in which each device (by index) did anything.
    pub device_busy: BTreeMap<u32, Busy>,
    /// What happened in each stage, by its path.
    pub stages: BTreeMap<PathIndex, StageCapture>,
    /// Windows of the model's stages, joined; nothing where it has none.
    pub model_windows: Option<JoinedWindows>,
    /// GPU work, in groups.
    pub groups: Vec<(GroupKey, Stats)>,
    /// Kernels of graph replays, by (path at replay, path at capture).
    pub captured: BTreeMap<(PathIndex, PathIndex), Captured>,
    /// What the collector says it lost.
    pub losses: Losses,
    /// Records, by kind.
    pub counts: Counts,
    /// Uses of identifiers that nothing defines.
    pub undefined: Undefined,
    /// Ranges that contradict each other.
    pub faults: RangeFaults,
    /// Ranges of the user that were still open when the process ended normally.
    pub open_at_end: u64,
    /// Clock readings.
    pub anchors: u64,
    /// The first of them: no two captures of a process have the same.
    pub first_anchor: Option<Anchor>,
    /// Clock readings that contradict the others.
    pub anchors_ignored: u64,
    /// Why the capture ended, if it ended in order.
    pub end: Option<String>,
    /// What is known of the process as one stage; nothing where the user opened ranges, where GPU work
    /// was recorded in a part only, and where there is none.
    pub whole: Option<WholeProcess>,
    /// GPU work was recorded in some ranges, or instances of them, only.
    pub gated: bool,
    /// What it had to do with other processes.
    pub collectives: Collectives,
    /// Ties the clock of the GPU work to the monotonic clock.
    pub clock: ClockMap,
    /// Wall time less monotonic time at the middle one of the clock readings, ns.
    pub wall_ahead_ns: Option<i64>,
}

impl ProcessCapture {
    /// Whether an absence of GPU work means that none ran, not that none was recorded.
    pub fn gpu_recorded(&self) -> bool {
        self.counts.gpu_records() > 0 || !self.meta.contains_key(META_GPU_OFF)
    }

    /// The share of range instances that was recorded (`1/N`), where it was not all of them.
    pub fn sample(&self) -> Option<&str> {
        self.meta.get(META_SAMPLE).map(String::as_str)
    }

    /// The ranges that GPU work was recorded in, where it was not everywhere.
    pub fn ranges(&self) -> Option<&str> {
        self.meta.get(META_RANGES).map(String::as_str)
    }
}

/// What happened in one stage of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageCapture {
    /// Its ranges; nothing for work outside of ranges.
    pub times: Option<StageTimes>,
    /// Time in which any device worked for it.
    pub busy: Busy,
    /// Time in which any device worked for its first instance.
    pub cold_busy: Busy,
    /// The same for each device, by index.
    pub by_device: BTreeMap<u32, Busy>,
    /// GPU work was recorded in it, or in ranges within it: none in it means that there was none.
    pub recorded: bool,
}

/// Kernels of graph replays whose place of capture is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Kernels.
    pub kernels: u64,
    /// Sum of their durations, ns.
    pub total_ns: u64,
}

/// Records that were read, by kind and by where they belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Kernels.
    pub kernels: u64,
    /// Copies.
    pub copies: u64,
    /// Fills.
    pub fills: u64,
    /// Graphs that ran as a whole.
    pub graph_launches: u64,
    /// GPU work (any of the above) placed in a range.
    pub attributed: u64,
    /// GPU work launched while no range of the user was open.
    pub outside_ranges: u64,
    /// Of these, the work launched inside a library's range.
    pub in_library_ranges: u64,
    /// GPU work whose launch could not be placed.
    pub unattributed: u64,
    /// GPU work without valid timestamps: counted, not timed.
    pub invalid_timestamps: u64,
    /// Range instances.
    pub ranges: u64,
    /// NVTX marks.
    pub marks: u64,
}

impl Counts {
    /// Records of GPU work of any kind.
    pub fn gpu_records(&self) -> u64 {
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
