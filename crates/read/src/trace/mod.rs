//! The trace files of a run -> one [`ProcessCapture`] each, in one pass; two passes if there are
//! outliers, three if stages are inferred.
//!
//! Nothing here knows how a report looks, and nothing here fails because of what a file holds:
//! what cannot be used is counted or becomes a finding that names the file.

pub mod alike;
pub mod clock;
pub mod collectives;
mod definitions;
pub mod engine_steps;
pub mod events;
pub mod file;
pub mod folder;
pub mod host;
pub mod host_calls;
mod host_events;
mod host_frames;
pub mod inferred;
pub mod libraries;
pub mod operation;
pub mod outliers;
pub mod paths;
pub mod placed;
pub mod ranges;
pub mod requests;
mod stage_windows;
pub mod stats;
pub mod step_times;
pub mod steps;
mod tally;
pub mod work_unions;
use self::libraries::RangeNames;
use stage2_contract::stats::Busy;
use stage2_model::{FileEnding, FileState, Finding, META_RANGES, META_SAMPLE, Undefined};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::text::redact::Redactor;
use stage2_contract::trace::{Anchor, GpuNs, Losses, MonoNs, Process, ReadError};

use alike::Joined;
use clock::ClockMap;
use collectives::Collectives;
use definitions::{DeviceEntry, DeviceStates, ShapeEntry};
use engine_steps::EngineSteps;
use file::Trace;
use host::HostCapture;
use inferred::Marks;
use outliers::Found;
use paths::{OUTSIDE, PathIndex, PathNode, UNATTRIBUTED};
use ranges::{JoinedWindows, PathTimes, RangeFaults, StageTimes};
use requests::Requests;
use stats::{GroupKey, Series, Stats, Work};
use step_times::StepTrack;
pub use tally::{Tally, WholeProcess};
use work_unions::WorkTime;

/// Key under which a collector states why it collects no GPU work.
pub const META_GPU_OFF: &str = "gpu.off";
/// Meta key: the number of user ranges still open when the process ended normally.
/// Twice the usual time between flushes, ns.
const UNFLUSHED_NS: u64 = 2_000_000_000;
const META_OPEN_AT_END: &str = "ranges.open_at_end";

/// Meta key of a capture: the pieces of a trace that are not there.
pub const META_PIECES_MISSING: &str = "pieces.missing";

/// The trace files of a run.
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
    pub fn redact(&mut self, redactor: &Redactor) {
        for process in self.processes.iter_mut().filter_map(|capture| capture.process.as_mut()) {
            process.argv = redactor.words(&process.argv);
        }
    }
}

/// What one process did, from its trace file.
#[derive(Debug, Default)]
pub struct ProcessCapture {
    /// Name of the trace file.
    pub file: String,
    /// Where it lies.
    pub path: PathBuf,
    /// How far it could be read.
    pub state: FileState,
    /// Who was traced; nothing where the file does not say.
    pub process: Option<Process>,
    /// What the collector says of itself and its settings.
    pub meta: BTreeMap<String, String>,
    /// Names of kernels and ranges, by index.
    pub names: Vec<Vec<u8>>,
    /// Kernels with their launch configuration, by index.
    pub shapes: Vec<ShapeEntry>,
    /// Range paths, by index; every parent before its children.
    pub paths: Vec<PathNode>,
    /// Host times of the instances of each path.
    pub path_times: BTreeMap<PathIndex, PathTimes>,
    /// Names of ranges that count as one.
    pub joined: Joined,
    /// Of the paths of such a name: the names that it stands for.
    pub joined_names: FxHashMap<PathIndex, FxHashSet<u32>>,
    /// Its GPUs, by index.
    pub devices: Vec<DeviceEntry>,
    /// What the driver said of the devices.
    pub device_states: DeviceStates,
    /// Time in which each device (by index) did anything.
    pub device_busy: BTreeMap<u32, Busy>,
    /// What the instances of each stage enclosed.
    pub stages: BTreeMap<PathIndex, StageCapture>,
    /// Windows of the model's stages, joined; nothing where it has none.
    pub model_windows: Option<JoinedWindows>,
    /// Stages and the ranges right within them, as they followed each other.
    pub steps: BTreeMap<PathIndex, StepTrack>,
    /// Steps of an inference engine.
    pub engine: EngineSteps,
    /// Requests of an inference engine that ended.
    pub requests: Requests,
    /// Its GPU work, counted and timed by group.
    pub groups: Vec<(GroupKey, Stats)>,
    /// Kernels of graph replays, by (path at replay, path at capture).
    pub captured: BTreeMap<(PathIndex, PathIndex), Captured>,
    /// Kernels of graph replays by the module of the model that they were captured in.
    pub modules: Vec<ModuleWork>,
    /// Records of counter samples.
    pub counter_samples: u64,
    /// Samples of its threads; nothing where none were taken.
    pub host: Option<Box<HostCapture>>,
    /// What the collector lost, by kind.
    pub losses: Losses,
    /// Records that were read.
    pub counts: Counts,
    /// References to what the file does not define.
    pub undefined: Undefined,
    /// Ranges that contradict each other.
    pub faults: RangeFaults,
    /// Ranges of the user that were still open when the process ended normally.
    pub open_at_end: u64,
    /// Readings of the clocks together.
    pub anchors: u64,
    /// The first of them: no two captures of a process have the same.
    pub first_anchor: Option<Anchor>,
    /// Those that contradict the others.
    pub anchors_ignored: u64,
    /// How often a clock stepped between two of the others.
    pub clock_steps: u64,
    /// Why the capture ended, if it ended in order.
    pub end: Option<String>,
    /// What is known of the process as one stage; nothing where the user opened ranges, where GPU work
    /// was recorded in a part only, and where there is none.
    pub whole: Option<WholeProcess>,
    /// What was read of a process without ranges, before its stages were inferred.
    pub inferred: Option<WholeProcess>,
    /// The begins of these stages.
    pub marks: Option<Arc<Marks>>,
    /// Of a file without its end: the moment after which GPU work may be missing. What ranges did later is left out.
    pub until: Option<MonoNs>,
    /// GPU work was recorded in some ranges, or instances of them, only.
    pub gated: bool,
    /// What it had to do with other processes.
    pub collectives: Collectives,
    /// Ties the clock of the GPU work to the monotonic clock.
    pub clock: ClockMap,
    /// Wall time less monotonic time at the middle one of the clock readings, ns.
    pub wall_ahead_ns: Option<i64>,
    /// First and last event of the host, on the monotonic clock.
    pub host_extent: Extent,
    /// First start and last end of GPU work with times, on the clock of the GPU.
    pub gpu_extent: Extent,
}

/// The first and the last reading of a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent(pub Option<(u64, u64)>);

impl Extent {
    pub(crate) fn add(&mut self, at: u64) {
        let (first, last) = self.0.unwrap_or((at, at));
        self.0 = Some((first.min(at), last.max(at)));
    }
}

impl ProcessCapture {
    /// Reads its records again, as those of the first time.
    ///
    /// # Errors
    /// The file cannot be opened any more.
    pub fn trace(&self) -> Result<Trace, ReadError> {
        Ok(Trace::open(&self.path)?.marked(self.marks.as_ref()).until(self.until))
    }

    /// Of a file without its end: the moment after which GPU work may be missing, if ranges did something later. Ranges
    /// are written as they come, and GPU work up to a flush later.
    fn known_until(&self) -> Option<MonoNs> {
        let is_cut = !matches!(self.state.ending, FileEnding::Complete);
        let (_, gpu_end) = self.gpu_extent.0.filter(|_| is_cut)?;
        let (_, host_end) = self.host_extent.0?;
        let worked = self.clock.mono(GpuNs(gpu_end))?;
        let until = worked.max(MonoNs(host_end.saturating_sub(UNFLUSHED_NS)));
        (until.0 < host_end).then_some(until)
    }

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
    /// Of the instances but the first, the times to the end of their GPU work that are theirs alone, ns.
    pub alone: Series,
    /// Time in which any device worked for it.
    pub busy: WorkTime,
    /// Time in which any device worked for its first instance.
    pub cold_busy: WorkTime,
    /// That of any work, for each device, by index.
    pub by_device: BTreeMap<u32, Busy>,
    /// GPU work was recorded in it, or in ranges within it: none in it means that there was none.
    pub recorded: bool,
    /// Instances, or steps, that are far longer than the others; nothing for work outside of ranges.
    pub outliers: Option<Found>,
}

/// Kernels of graph replays whose place of capture is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// How many.
    pub kernels: u64,
    /// Their duration in all, ns.
    pub total_ns: u64,
}

impl Captured {
    fn add(&mut self, ns: u64) {
        self.kernels += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
    }
}

/// Kernels of a group that a module of the model launched when their graph was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleWork {
    /// The group.
    pub key: GroupKey,
    /// Index of the name of the module, with `*` for the number of the layer.
    pub module: u32,
    /// The kernels.
    pub captured: Captured,
    /// Of these, the ones in the first, cold instance of their stage; never scaled.
    pub cold: Captured,
}

/// Records that were read, by kind and by where they belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kernels.
    pub kernels: u64,
    /// Copies of memory.
    pub copies: u64,
    /// Memory sets.
    pub fills: u64,
    /// CUDA graphs that were recorded as a whole.
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
    /// Ranges that opened.
    pub ranges: u64,
    /// Marks.
    pub marks: u64,
}

impl Counts {
    /// Pieces of GPU work.
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
