//! The rows of a report's tables.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stage2_contract::stats::mean;

use crate::answer::{StepTimes, StepUnit};
use crate::figure::Figure;
use crate::outliers::Outliers;
use crate::rule::OUTLIERS_AMONG;
use crate::utilisation::Role;

/// What a range path stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// NVTX ranges.
    #[default]
    Range,
    /// All work of processes whose user opened no range, or of a table that names none.
    WholeProcess,
    /// Work that was launched while no range was open.
    OutsideRanges,
    /// Work whose launch could not be placed.
    Unattributed,
    /// Ranges that the capture uses but does not define.
    Undefined,
}

/// Calls and times of one group of GPU work.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Times {
    /// Executions, with valid timestamps or not.
    pub calls: u64,
    /// Executions that were recorded, where `calls`, `graph_calls`, `invalid_timestamp_calls`,
    /// `total_ns` and bytes are scaled from a sample; absent: they are what was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_calls: Option<u64>,
    /// Executions without valid timestamps: they are in `calls`, but in none of the times.
    pub invalid_timestamp_calls: u64,
    /// Executions that a CUDA graph launched.
    pub graph_calls: u64,
    /// Sum of the durations, ns. Overlapping executions count each. Null where no execution was timed
    /// ([`Times::known_total_ns`]).
    #[serde(default, deserialize_with = "or_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub total_ns: u64,
    /// Mean duration of an execution, ns, rounded.
    pub mean_ns: Option<u64>,
    /// Duration of the shortest execution, ns, exact.
    pub min_ns: Option<u64>,
    /// Median duration of an execution, ns, accurate to 1.6 %.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the durations, ns, accurate to 1.6 %.
    pub p99_ns: Option<u64>,
    /// Duration of the longest execution, ns, exact.
    pub max_ns: Option<u64>,
    /// Start of the first execution, ns of the GPU clock.
    pub first_start_gpu_ns: Option<u64>,
    /// End of the last execution, ns of the GPU clock.
    pub last_end_gpu_ns: Option<u64>,
    /// Of `calls`, those in the first, cold instance of the stage in each process, where shares leave it out; 0:
    /// nothing is left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cold_calls: u64,
    /// The part of `total_ns` that is in `cold_calls`, ns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cold_total_ns: u64,
}

/// [`Times`] as they are written: absent is not zero.
#[derive(Serialize)]
#[serde(remote = "Times")]
struct Written {
    calls: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_calls: Option<u64>,
    invalid_timestamp_calls: u64,
    graph_calls: u64,
    #[serde(getter = "Times::known_total_ns")]
    total_ns: Option<u64>,
    mean_ns: Option<u64>,
    min_ns: Option<u64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
    first_start_gpu_ns: Option<u64>,
    last_end_gpu_ns: Option<u64>,
    #[serde(skip_serializing_if = "is_zero")]
    cold_calls: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cold_total_ns: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Written::serialize(self, to)
    }
}

fn or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

impl Times {
    /// Sum of the durations, ns; nothing where there are executions and none of them was timed.
    pub fn known_total_ns(&self) -> Option<u64> {
        (self.calls == 0 || self.calls > self.invalid_timestamp_calls).then_some(self.total_ns)
    }

    /// Sum of the durations without those in cold instances that shares leave out, ns.
    pub fn usual_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.cold_total_ns)
    }

    /// Mean duration without those, ns. Where some are left out, all are timed.
    pub fn usual_mean_ns(&self) -> Option<u64> {
        match self.cold_calls {
            0 => self.mean_ns,
            _ => mean(self.usual_ns(), self.usual_calls()),
        }
    }

    /// Executions without those in cold instances that shares leave out.
    pub fn usual_calls(&self) -> u64 {
        self.calls.saturating_sub(self.cold_calls)
    }
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceRow {
    /// Index and name; made unique where two GPUs share both.
    pub device: String,
    /// Index as CUPTI numbers devices in the process.
    pub index: Option<u32>,
    /// Marketing name of the GPU.
    pub name: Option<String>,
    /// Host that the process ran on.
    pub host: Option<String>,
    /// UUID of the GPU.
    pub uuid: Option<String>,
    /// Whether the GPU was simulated.
    pub simulated: bool,
    /// Compute capability, `major.minor`.
    pub compute_capability: Option<String>,
    /// Number of streaming multiprocessors.
    pub multiprocessors: Option<u32>,
    /// Global memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Peak memory bandwidth as CUPTI reports it, kB/s.
    pub bandwidth_kb_per_s: Option<u64>,
    /// Core clock, kHz.
    pub core_clock_khz: Option<u32>,
    /// L2 cache, bytes.
    pub l2_bytes: Option<u64>,
    /// Processes that used it.
    pub processes: u64,
    /// Time in which any GPU work ran (union within a process, summed over processes), ns; null:
    /// the source of the rows does not say, or only a part of the work was recorded.
    pub gpu_busy_ns: Option<u64>,
    /// From the first start to the last end of GPU work of any process (union), ns; null where the busy time is null.
    pub gpu_span_ns: Option<u64>,
    /// Busy time in percent of the span; null where processes shared the GPU.
    pub gpu_busy_percent: Option<f64>,
    /// Several processes used it at once: their common busy time counts for each, idle is unknown.
    #[serde(default)]
    pub shared_by_processes: bool,
    /// Number of kernels.
    pub kernels: u64,
    /// Sum of the kernels' durations, ns.
    pub kernel_sum_ns: u64,
}

/// An outermost range, or work outside of ranges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageRow {
    /// Name of the range (`name@domain` outside of the default domain).
    pub stage: String,
    /// What the stage stands for.
    pub kind: PathKind,
    /// What it is to the model, by its name and `roles` of the configuration.
    #[serde(default)]
    pub role: Role,
    /// Number of times that the stage was opened.
    pub instances: Option<u64>,
    /// Instances whose GPU work was recorded; null: all of them.
    pub recorded_instances: Option<u64>,
    /// Instances that were never closed; they have no host time.
    pub unclosed: Option<u64>,
    /// Host time of all closed instances, ns.
    pub host_total_ns: Option<u64>,
    /// Host time of the first instance (cold), ns; of the first process where there are several.
    pub host_first_ns: Option<u64>,
    /// Closed instances without the first of each process: the warm ones.
    pub host_warm_instances: Option<u64>,
    /// Mean host time of the warm instances, ns.
    pub host_warm_mean_ns: Option<u64>,
    /// Sample standard deviation of the host time of the warm instances, ns.
    pub host_warm_std_ns: Option<u64>,
    /// Median host time of the warm instances, ns; of more than 32,768, as exact as a percentile.
    pub host_warm_median_ns: Option<u64>,
    /// Union of the windows of the (recorded) instances, summed over processes, ns.
    pub gpu_window_ns: Option<u64>,
    /// Time in which any GPU work of the stage ran (union within a process, summed), ns.
    pub gpu_busy_ns: Option<u64>,
    /// The busy time may be larger by this: work that arrived too late to be placed exactly, ns.
    pub gpu_busy_uncertain_ns: u64,
    /// Window minus busy time, ns; null where other processes may have filled it.
    pub gpu_idle_ns: Option<u64>,
    /// Idle time in gaps as short as between back-to-back launches (50 us), ns; null: not analysed.
    pub gpu_short_gaps_ns: Option<u64>,
    /// Busy time in percent of the window; null where the idle time is null.
    pub gpu_busy_percent: Option<f64>,
    /// What the busy time went into; null: not known.
    #[serde(default)]
    pub gpu_busy_parts: Option<BusyParts>,
    /// Number of kernels.
    pub kernels: Option<u64>,
    /// Fewest kernels in an instance.
    pub kernels_per_instance_min: Option<u64>,
    /// Median of the kernels in an instance.
    pub kernels_per_instance_median: Option<u64>,
    /// Most kernels in an instance.
    pub kernels_per_instance_max: Option<u64>,
    /// Sum of the kernels' durations, ns; may exceed busy and wall time.
    pub kernel_sum_ns: Option<u64>,
    /// Mean duration of a kernel, ns.
    pub kernel_mean_ns: Option<u64>,
    /// Copies.
    pub copies: Option<u64>,
    /// Fills.
    pub fills: Option<u64>,
    /// CUDA graphs that were recorded as a whole.
    pub graph_launches: Option<u64>,
    /// GPU work without the cold first instance of each process; null: none is left, or not known.
    pub warm: Option<WarmRow>,
    /// Instances, or steps, that are so long that they say nothing about the others; null: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Outliers>,
    /// Times of its steps; `metrics.json` has them in its answer. Absent: not known.
    #[serde(skip)]
    pub steps: Option<StageSteps>,
    /// Why it is not a stage of the model; null where it may be one.
    pub apart: Option<Apart>,
    /// Times and GPU work of the stage on each GPU.
    pub devices: Vec<StageDeviceRow>,
}

/// Why an outermost range is not a stage of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "kebab-case")]
pub enum Apart {
    /// It warms up, by its name.
    WarmUp,
    /// It moves data between GPUs, as the configuration says.
    Communication,
    /// It is an operator that no other range is around.
    Operator,
    /// It is part of a call that began before the recording.
    CutCall,
}

impl Apart {
    /// Why the range is not a stage of the model, in words to be read after "is".
    pub fn phrase(self) -> &'static str {
        match self {
            Apart::WarmUp => "a warm-up range",
            Apart::Communication => "a communication range",
            Apart::Operator => "an operator range",
            Apart::CutCall => "part of a call that began before the recording",
        }
    }
}

/// A stage on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageDeviceRow {
    /// [`DeviceRow::device`].
    pub device: String,
    /// Time in which any GPU work of the stage ran on it, ns.
    pub gpu_busy_ns: u64,
    /// Number of kernels.
    pub kernels: u64,
    /// Sum of the kernels' durations, ns.
    pub kernel_sum_ns: u64,
}

/// A range under its parents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathRow {
    /// Names from the outside in, joined by `/`; cut in the middle where it is very long.
    pub path: String,
    /// Name of the range without those around it.
    pub name: String,
    /// Name of its NVTX domain; null for the default domain.
    pub domain: Option<String>,
    /// What the path stands for.
    pub kind: PathKind,
    /// Index of the range around it in `paths`.
    pub parent: Option<usize>,
    /// Ranges around it.
    pub depth: u64,
    /// Different names that the program gave to it, where its own stands for many that differ in a number
    /// or an identifier only; null: it is the one that the program gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_names: Option<u64>,
    /// Number of times that the range was opened.
    pub instances: Option<u64>,
    /// Instances whose GPU work was recorded; null: all of them.
    pub recorded_instances: Option<u64>,
    /// Instances that were never closed.
    pub unclosed: Option<u64>,
    /// Of a range right within a stage: those in the closed instances of the stage. Absent: not known.
    #[serde(skip)]
    pub in_closed: Option<u64>,
    /// Host time of all closed instances, ns.
    pub host_total_ns: Option<u64>,
    /// Host time of the first instance (cold), ns.
    pub host_first_ns: Option<u64>,
    /// First instances that were closed: one of each process.
    #[serde(skip)]
    pub firsts: u64,
    /// Their host time, ns.
    #[serde(skip)]
    pub firsts_host_ns: u64,
    /// Median host time of the other instances, ns; as close as that of a stage. Of the step of a stage:
    /// that of the steps, without any of the first, cold instance of the stage.
    pub host_warm_median_ns: Option<u64>,
    /// Kernels launched in it and in the ranges within it.
    pub kernels_inclusive: Option<u64>,
    /// Kernels launched in it while no range within it was open.
    pub kernels_exclusive: Option<u64>,
    /// Sum of the durations of `kernels_inclusive`, ns.
    pub kernel_sum_inclusive_ns: Option<u64>,
    /// Sum of the durations of `kernels_exclusive`, ns.
    pub kernel_sum_exclusive_ns: Option<u64>,
}

impl StageRow {
    /// Whether shares of its kernels leave the first, cold instance of each process out.
    pub fn leaves_cold_out(&self) -> bool {
        self.warm.is_some_and(|warm| warm.instances > 0)
            && self.recorded_instances.is_none_or(|recorded| Some(recorded) == self.instances)
    }

    /// Its warm instances without outliers, or what [`Self::only`] gives.
    pub fn ordinary(&self) -> Option<WarmRow> {
        let all = self.warm.or_else(|| self.only())?;
        Some(self.outliers.as_ref().map_or(all, |outliers| outliers.taken_from(all)))
    }

    /// The one instance of each process, cold at its start, where it has steps enough to stand for others;
    /// null: there are others, or it has not.
    pub fn only(&self) -> Option<WarmRow> {
        let steps = self.steps.as_ref().filter(|steps| !steps.warm)?;
        let instances = self.instances.filter(|&all| all > 0)?;
        let is_enough = steps.times.unit == StepUnit::RangeWithin
            && steps.per_instance >= OUTLIERS_AMONG as f64
            && self.host_warm_instances == Some(0)
            && self.recorded_instances.is_none_or(|recorded| recorded == instances);
        is_enough.then_some(WarmRow {
            instances,
            gpu_window_ns: self.gpu_window_ns?,
            gpu_busy_ns: self.gpu_busy_ns?,
            gpu_short_gaps_ns: self.gpu_short_gaps_ns.unwrap_or(0),
            gpu_busy_parts: self.gpu_busy_parts,
            kernels: self.kernels?,
        })
    }

    /// What [`Self::only`] is, in words: `its only instance, 60 steps`.
    pub fn only_words(&self) -> Option<String> {
        let only = self.only()?;
        let steps = self.steps.as_ref()?.per_instance.round();
        Some(match only.instances {
            1 => format!("its only call, {steps} steps"),
            all => format!("{all} calls, the only one of each process, {steps} steps each"),
        })
    }

    /// Whether it is known that nothing ran on the GPU for it.
    pub fn has_no_gpu_work(&self) -> bool {
        let pieces = [self.kernels, self.copies, self.fills, self.gpu_busy_ns];
        pieces.iter().all(|count| *count == Some(0)) && self.graph_launches.unwrap_or(0) == 0
    }
}

impl PathRow {
    /// Whether it is a range of a library with no range of the workload around it.
    pub fn is_of_library_alone(&self) -> bool {
        let outside = matches!(self.kind, PathKind::OutsideRanges | PathKind::WholeProcess);
        outside && self.parent.is_some()
    }
}

/// How a kernel was launched.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Launch {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Registers per thread; null: the source of the row does not say.
    pub registers_per_thread: Option<u32>,
    /// Static shared memory per block, bytes; null: the source of the row does not say.
    pub static_shared_bytes: Option<u32>,
    /// Dynamic shared memory per block, bytes; null: the source of the row does not say.
    pub dynamic_shared_bytes: Option<u32>,
    /// Local memory per thread, bytes; null: the source of the row does not say.
    pub local_bytes_per_thread: Option<u32>,
}

/// A kernel under one range path, with one launch configuration, on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelRow {
    /// [`stage2_contract::text::KernelName::short`].
    pub kernel: String,
    /// [`stage2_contract::text::KernelName::id`].
    #[serde(default)]
    pub kernel_id: String,
    /// Index of its name in `kernel_names`.
    pub name_index: usize,
    /// [`DeviceRow::device`].
    pub device: String,
    /// The GPU was simulated.
    pub simulated: bool,
    /// [`StageRow::stage`].
    pub stage: String,
    /// [`PathRow::path`].
    pub path: String,
    /// Index of its path in `paths`.
    pub path_index: usize,
    /// Launch configuration; null where the capture does not define it.
    pub launch: Option<Launch>,
    /// Calls and times.
    #[serde(flatten)]
    pub times: Times,
    /// Share of the sum of all kernels' durations, percent.
    pub kernel_sum_percent: Option<f64>,
    /// What kind of kernel its name states it is.
    #[serde(default)]
    pub class: String,
    /// Which tools its numbers come from.
    #[serde(default)]
    pub sources: crate::report::Sources,
    /// What ncu measured of it; null: not profiled. Boxed, because most rows have none.
    pub counters: Option<Box<crate::counters::CounterRow>>,
    /// What counters say of it that were sampled while the workload ran; null: none do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Box<crate::sampled::SampledKernel>>,
}

/// A kernel in a stage, over all ranges, launch configurations and devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageKernelRow {
    /// [`StageRow::stage`].
    pub stage: String,
    /// [`stage2_contract::text::KernelName::short`].
    pub kernel: String,
    /// [`stage2_contract::text::KernelName::id`].
    #[serde(default)]
    pub kernel_id: String,
    /// Index of its name in `kernel_names`.
    pub name_index: usize,
    /// Calls and times.
    #[serde(flatten)]
    pub times: Times,
    /// Share of the sum of the durations of all kernels of the stage, percent.
    pub stage_kernel_sum_percent: Option<f64>,
}

/// Copies of one direction, or fills, under one range path on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryRow {
    /// Direction of a copy; null for fills.
    pub direction: Option<String>,
    /// [`DeviceRow::device`].
    pub device: String,
    /// The GPU was simulated.
    pub simulated: bool,
    /// [`StageRow::stage`].
    pub stage: String,
    /// [`PathRow::path`].
    pub path: String,
    /// Index of its path in `paths`.
    pub path_index: usize,
    /// Bytes copied or filled.
    pub bytes: u64,
    /// Calls and times.
    #[serde(flatten)]
    pub times: Times,
}

/// A CUDA graph that was recorded as a whole, under one range path on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphRow {
    /// CUPTI's id of the executable graph, unique in its process.
    pub graph_id: u32,
    /// Trace file of the process.
    pub file: String,
    /// [`DeviceRow::device`].
    pub device: String,
    /// The GPU was simulated.
    pub simulated: bool,
    /// [`StageRow::stage`].
    pub stage: String,
    /// [`PathRow::path`].
    pub path: String,
    /// Index of its path in `paths`.
    pub path_index: usize,
    /// Calls and times.
    #[serde(flatten)]
    pub times: Times,
}

/// Kernels of graph replays by the range of their capture. The rows of a run add up to the kernels of all its replays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaptureRow {
    /// Path of the ranges open at replay.
    pub replay_path: String,
    /// Path of the ranges open at capture. `(range of the capture not known)`: no record has the node of the graph.
    pub capture_path: String,
    /// Number of kernels.
    pub kernels: u64,
    /// Sum of their durations, ns.
    pub kernel_sum_ns: u64,
}

/// What the GPU was busy with, ns. Where work overlaps, the first of these has the time, so that
/// they add up to the busy time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusyParts {
    /// A kernel that computes ran, or a graph that was recorded as a whole.
    pub compute_ns: u64,
    /// A communication kernel ran, and none that computes.
    pub communication_ns: u64,
    /// Copies or fills ran, and no kernel.
    pub copies_ns: u64,
}

impl BusyParts {
    /// The sum of these times and of others, part by part.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            compute_ns: self.compute_ns.saturating_add(other.compute_ns),
            communication_ns: self.communication_ns.saturating_add(other.communication_ns),
            copies_ns: self.copies_ns.saturating_add(other.copies_ns),
        }
    }
}

/// The steps of a stage, as they were measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageSteps {
    /// Their times.
    pub times: StepTimes,
    /// Steps in an instance of the stage, on average.
    pub per_instance: f64,
    /// The first instance of each process is left out; else only the first step of each is.
    pub warm: bool,
}

/// GPU work of a stage's instances without the first of each process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WarmRow {
    /// Number of instances.
    pub instances: u64,
    /// Union of the windows of the instances, summed over processes, ns.
    pub gpu_window_ns: u64,
    /// Time in which any GPU work of the instances ran (union within a process, summed), ns.
    pub gpu_busy_ns: u64,
    /// Idle time in short gaps, ns, as that of the stage.
    #[serde(default)]
    pub gpu_short_gaps_ns: u64,
    /// What that busy time went into; null: not known.
    #[serde(default)]
    pub gpu_busy_parts: Option<BusyParts>,
    /// Number of kernels.
    pub kernels: u64,
}

/// What is known of the operators of a run: a part of `metrics.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Operators {
    /// Where the numbers come from, in a sentence.
    pub source: String,
    /// Operators, longest warm host time first: of all ranges but those that warm up.
    pub rows: Vec<OperatorRow>,
    /// Operators in warm-up ranges, longest warm host time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warm_up: Vec<OperatorRow>,
    /// Operators of each stage, stages in the order of the report, those that warm up last; each
    /// longest warm host time first.
    pub stages: Vec<StageOperatorRow>,
    /// How much of the GPU time lies in operators; null where that is not known.
    pub coverage: Option<OperatorCoverage>,
    /// Why there are no rows; null where there are some.
    pub absent: Option<Absence>,
}

/// Why something is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Absence {
    /// What is the reason, to be read after "none, because".
    pub reason: String,
    /// What to do to have it; may be empty.
    pub remedy: String,
}

/// An operator over all ranges, threads and processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperatorRow {
    /// Name without what PyTorch appends for each call.
    pub op_name: String,
    /// Host time of its calls with everything within them, ns. Calls of the operator within itself
    /// are a part of the outer one and count once. Null where no call was closed.
    pub host_total_ns: Option<u64>,
    /// Host time of its calls without the ranges directly within them, ns.
    pub host_self_ns: Option<u64>,
    /// GPU work launched in its calls and in everything within them, ns: the sum of the durations of
    /// kernels, copies, fills and graphs. Null where GPU work was not recorded.
    pub gpu_inclusive_ns: Option<u64>,
    /// GPU work launched while it was the innermost range, ns.
    pub gpu_exclusive_ns: Option<u64>,
    /// Kernels launched in its calls and in everything within them.
    pub kernels_inclusive: Option<u64>,
    /// Calls that are not within a call of the same operator.
    pub calls: u64,
    /// Calls of the operator within itself.
    pub nested_calls: u64,
    /// Of `calls`, those that never returned; they have no host time.
    pub unclosed_calls: u64,
    /// Mean host time of `calls` that returned, ns, rounded.
    pub host_mean_ns: Option<u64>,
    /// Of `calls`, the first, cold one in each range path and process: it loads modules and fills caches.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cold_calls: u64,
    /// Host time of `cold_calls`, ns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cold_host_ns: u64,
    /// The part of `host_self_ns` in the first call of each range path and process, ns. Where the first call of a range within
    /// it comes later than its own, that call counts here as well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cold_self_ns: u64,
}

impl OperatorRow {
    /// Host time without the ranges within it and without the cold calls, ns; none: there are no others.
    pub fn host_warm_self_ns(&self) -> Option<u64> {
        self.host_warm_ns()?;
        self.host_self_ns.map(|ns| ns.saturating_sub(self.cold_self_ns))
    }

    /// Host time without the cold calls, ns; none: there are no others.
    pub fn host_warm_ns(&self) -> Option<u64> {
        let warm = self.calls.saturating_sub(self.unclosed_calls) > self.cold_calls;
        self.host_total_ns.filter(|_| warm).map(|ns| ns.saturating_sub(self.cold_host_ns))
    }

    /// Mean host time of the calls that returned and are not cold, ns, rounded.
    pub fn host_warm_mean_ns(&self) -> Option<u64> {
        let warm = self.calls.saturating_sub(self.unclosed_calls).saturating_sub(self.cold_calls);
        mean(self.host_warm_ns()?, warm)
    }
}

/// An operator in a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageOperatorRow {
    /// [`crate::StageRow::stage`]; null for operators that no range is around.
    pub stage: Option<String>,
    /// Its numbers in this stage.
    #[serde(flatten)]
    pub operator: OperatorRow,
}

/// How much of the GPU time lies in operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperatorCoverage {
    /// GPU work launched in some operator, ns.
    pub gpu_in_operators_ns: u64,
    /// All GPU work, ns.
    pub gpu_total_ns: u64,
}

impl OperatorCoverage {
    /// The share in percent; nothing of nothing.
    pub fn percent(self) -> Option<f64> {
        let all = self.gpu_total_ns;
        (all > 0).then(|| self.gpu_in_operators_ns as f64 * 100.0 / all as f64)
    }
}

/// What the GPUs took and how fast they ran in the windows of a stage, without its first, cold instance where it has
/// others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageEnergy {
    /// [`crate::StageRow::stage`].
    pub stage: String,
    /// Energy of its GPUs in its windows, J, whichever process used them.
    pub energy_j: Figure,
    /// How far the energy may be off, J; null: there is none.
    pub uncertainty_j: Option<f64>,
    /// Mean power of its GPUs together in its windows, W.
    pub mean_power_w: Figure,
    /// Energy per token, J.
    pub joules_per_token: Figure,
    /// Clocks over all of its GPUs.
    pub clocks: ClockUse,
    /// Energy, power and clocks of each GPU in the windows of the stage.
    pub devices: Vec<DeviceEnergy>,
}

/// What one GPU took in the windows of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceEnergy {
    /// [`crate::DeviceRow::device`].
    pub device: String,
    /// Union of the windows of the (recorded) instances, in which the energy is counted, ns.
    pub window_ns: u64,
    /// Energy, J: all that the GPU took, whoever had it work.
    pub energy_j: Figure,
    /// How far the energy may be off, J; null: there is none.
    pub uncertainty_j: Option<f64>,
    /// Mean power, W.
    pub mean_power_w: Figure,
    /// Clocks and what held them down.
    pub clocks: ClockUse,
    /// Other processes with a compute context on the GPU, the most that were seen in the run; null: the
    /// driver does not say.
    pub other_processes: Option<u32>,
}

/// Clocks and temperature, by the readings within the windows. Those of an idle GPU do not count for the
/// clocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockUse {
    /// Readings within the windows.
    pub reads: u64,
    /// Number of readings that have the clock of the multiprocessors while the GPU is not idle.
    pub clock_reads: u64,
    /// Clock of the multiprocessors, MHz; null: not in any reading.
    pub sm_clock_mhz: Option<ReadSpan>,
    /// Clock of the memory, MHz; null: not in any reading.
    pub memory_clock_mhz: Option<ReadSpan>,
    /// Highest temperature, degrees Celsius; null: not in any reading.
    pub temperature_max_c: Option<u32>,
    /// What held the clocks down, idleness left out; null: not in any reading.
    pub limits: Option<Vec<ClockLimit>>,
}

/// Readings of one quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadSpan {
    /// Lowest reading of this clock, MHz.
    pub min: u32,
    /// Mean reading of this clock, MHz.
    pub mean: f64,
    /// Highest reading of this clock, MHz.
    pub max: u32,
}

/// Something that held clocks down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockLimit {
    /// What, for instance `power limit`.
    pub reason: String,
    /// Readings that name it, of [`ClockUse::reads`].
    pub reads: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_of_nothing_that_was_timed_is_null_in_its_place() {
        let untimed = Times { calls: 2, invalid_timestamp_calls: 2, ..Times::default() };
        let row = StageKernelRow { times: untimed, ..StageKernelRow::default() };
        let text = serde_json::to_string(&row).expect("JSON");
        assert!(text.contains(r#""graph_calls":0,"total_ns":null,"mean_ns":null"#), "{text}");
        assert_eq!(serde_json::from_str::<StageKernelRow>(&text).expect(&text), row);
        let timed = StageKernelRow::default();
        let text = serde_json::to_string(&timed).expect("JSON");
        assert!(text.contains(r#""total_ns":0,"#), "{text}");
    }
}
