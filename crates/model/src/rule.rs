//! The rules by which takeaways speak, and their thresholds.

use serde::{Deserialize, Serialize};
use stage2_contract::stats::BACK_TO_BACK_NS;

use crate::host::{HOST_ERRORS_LEAST, HOST_SAMPLES_LEAST};
use crate::takeaway::{EvidenceValue, Experiment};

/// Idle time of the GPU from which a stage waits for the host, percent of its window.
pub const IDLE_HIGH_PERCENT: f64 = 30.0;
/// Idle time up to which a stage keeps the GPU busy, percent of its window.
pub const IDLE_LOW_PERCENT: f64 = 10.0;
/// Mean duration up to which kernels are short, us: about what a launch costs the host.
pub const SHORT_KERNEL_US: f64 = 10.0;
/// Part of the idle time in gaps of launches right behind each other from which launching itself
/// is what takes the time, percent.
pub const BACK_TO_BACK_PERCENT: f64 = 50.0;
/// Part of the idle time of a step before which ranges show where the host was, from which that is
/// said of all of it, percent.
pub const HOST_DECIDED_PERCENT: f64 = 50.0;
/// Share of the window from which a line of the host, or what it waited for, is worth a change, percent.
pub const HOST_CAUSE_PERCENT: f64 = 5.0;
/// Share of the idle time from which one cause is the advice, in place of the idle time as a whole, percent.
pub const HOST_MAIN_PERCENT: f64 = 30.0;
/// Share of the idle time from which one function of the user's own code is the advice, percent. It is lower than
/// [`HOST_MAIN_PERCENT`], because users can change their own code, and hardly that of an engine or a framework.
pub const HOST_OWN_PERCENT: f64 = 10.0;
/// Share of the idle time from which a known fault of the host is named, percent.
pub const HOST_FAULT_PERCENT: f64 = 10.0;
/// Instances from which times are more than chance.
pub const ENOUGH_INSTANCES: u64 = 3;
/// Fewest instances, or steps, among which an outlier can be told from its own population.
pub const OUTLIERS_AMONG: u64 = 8;
/// Kernels launched by graphs from which a stage uses CUDA graphs, percent.
pub const GRAPHS_USED_PERCENT: f64 = 50.0;
/// What first calls take above the median of the others is at least this part of the time of a stage, percent: less
/// turns no answer round.
pub const WARM_UP_PERCENT: f64 = 10.0;
/// Share of all windows from which a stage is where the time goes, percent.
pub const DOMINANT_STAGE_PERCENT: f64 = 60.0;
/// Share of kernel time from which communication matters, percent.
pub const COMMUNICATION_PERCENT: f64 = 10.0;
/// Share of kernel time from which what could be fused matters, percent.
pub const FUSIBLE_PERCENT: f64 = 30.0;
/// Share of kernel time from which copies matter, percent.
pub const COPY_PERCENT: f64 = 15.0;
/// Share of kernel time from which one kernel matters, percent.
pub const KERNEL_PERCENT: f64 = 10.0;
/// Occupancy below which few warps hide latency, percent.
pub const LOW_OCCUPANCY_PERCENT: f64 = 25.0;
/// Share of the attainable from which a kernel is near its roof.
pub const NEAR_ROOF_SHARE: f64 = 0.7;
/// Share of the peak bandwidth from which decode is near what memory allows.
pub const MBU_HIGH_SHARE: f64 = 0.6;
/// Share of the peak bandwidth below which decode reads the model far slower than memory allows.
pub const MBU_LOW_SHARE: f64 = 0.3;

/// The setting that samples the threads of the program.
pub const HOST_ON: &str = "profiling.collector.host=on";
/// The setting that samples hardware counters in the run itself.
pub const COUNTERS_ON: &str = "profiling.collector.counters=on";

/// A rule that spoke.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Rule {
    /// The GPU was simulated.
    Simulated,
    /// Part of the capture is missing.
    Incomplete,
    /// The first calls of a stage are a warm-up that its means contain.
    WarmUp,
    /// One stage takes most of the time.
    DominantStage,
    /// The GPU waits in short gaps between short kernels.
    LaunchBound,
    /// The GPU waits although the host has launched what comes next.
    HostAhead,
    /// The host does not keep the GPU fed; records of kernels do not say what it does.
    HostGaps,
    /// The GPU waits for a known fault of the host, as samples of its threads show.
    HostFault,
    /// The GPU waits for one line or state of the host, as samples of its threads show.
    HostCause,
    /// The GPU waits, and it is not known for what.
    GpuIdle,
    /// The GPU is busy: kernels are what counts.
    GpuBusy,
    /// Ranks wait for one that comes late.
    Waiting,
    /// Communication between GPUs takes a share.
    Communication,
    /// Small kernels between the matrix products take a share.
    Fusible,
    /// Kernels that copy take a share.
    Copies,
    /// Copies and fills run while no kernel does.
    ExposedCopies,
    /// Decode reads memory nearly as fast as it can.
    DecodeNearBandwidth,
    /// Decode reads the model far slower than memory allows, while the GPU is busy.
    DecodeFarFromBandwidth,
    /// A matrix product of decode is bound by memory.
    MemoryBoundProduct,
    /// A kernel has few warps and is bound by latency.
    LowOccupancy,
    /// A kernel is near its roof.
    NearRoof,
    /// A kernel is far from its roof.
    FarFromRoof,
    /// A kernel takes much of a stage, and nothing more is known about it.
    TopKernel,
    /// MFU and MBU.
    Utilisation,
    /// Nothing can be said.
    #[default]
    Nothing,
}

impl Rule {
    /// Whether it is about how far the other takeaways can be trusted.
    pub fn is_caveat(self) -> bool {
        matches!(self, Rule::Simulated | Rule::Incomplete | Rule::WarmUp)
    }

    /// `; less without marked operators`, behind a gain in time of the host. `lead`: [`crate::Answer::lead`].
    pub fn less_unmarked(self, lead: &str) -> &'static str {
        use Rule::{Fusible, HostCause, HostFault, HostGaps, LaunchBound};
        let is_of_host = matches!(self, LaunchBound | HostGaps | HostFault | HostCause | Fusible);
        match is_of_host && lead.contains(crate::Answer::MARKED) {
            true => "; less without marked operators",
            false => "",
        }
    }

    /// What would confirm a takeaway of it. Where that differs, the takeaway states it.
    pub fn experiment(self) -> Experiment {
        match self {
            Rule::Simulated => Experiment::shown_by("/simulated", EvidenceValue::Flag(false)),
            Rule::Incomplete => {
                let complete = EvidenceValue::State("complete".to_owned());
                Experiment::shown_by("/coverage/verdict/status", complete)
            }
            Rule::WarmUp => Experiment::Measure {
                settings: Vec::new(),
                shows: "/stage_numbers/0/warm_instances".to_owned(),
                value: None,
            },
            Rule::LaunchBound
            | Rule::HostAhead
            | Rule::HostFault
            | Rule::HostCause
            | Rule::Waiting
            | Rule::Communication
            | Rule::Fusible
            | Rule::Copies
            | Rule::ExposedCopies
            | Rule::LowOccupancy
            | Rule::NearRoof
            | Rule::FarFromRoof => Experiment::shorter_steps(),
            // A larger batch makes a step longer, and tokens cheaper.
            Rule::DecodeNearBandwidth | Rule::MemoryBoundProduct => {
                Experiment::more("tokens_per_s")
            }
            Rule::HostGaps | Rule::GpuIdle | Rule::DominantStage => {
                Experiment::measured_with(HOST_ON, "/host/stages/0")
            }
            Rule::GpuBusy | Rule::TopKernel | Rule::DecodeFarFromBandwidth | Rule::Utilisation => {
                Experiment::measured_with(COUNTERS_ON, "/sampled")
            }
            Rule::Nothing => {
                Experiment::shown_by("/stages/0/kind", EvidenceValue::State("range".to_owned()))
            }
        }
    }

    /// When it speaks, with its thresholds.
    pub fn text(self) -> String {
        match self {
            Rule::Simulated => "the device is the simulated one".into(),
            Rule::Incomplete => "the capture's coverage is not complete".into(),
            Rule::WarmUp => format!(
                "the first calls of a stage take at least twice the median of the others, and what they take above it \
                 is at least {WARM_UP_PERCENT} % of the time of the stage"
            ),
            Rule::DominantStage => {
                format!(
                    "of several stages one has at least {DOMINANT_STAGE_PERCENT} % of all windows"
                )
            }
            Rule::LaunchBound => format!(
                "GPU idle at least {IDLE_HIGH_PERCENT} % of the window, mean kernel at most \
                 {SHORT_KERNEL_US} us, at least {BACK_TO_BACK_PERCENT} % of the idle time in gaps of at \
                 most {} us, the length that back-to-back launches leave, fewer than \
                 {GRAPHS_USED_PERCENT} % of the kernels from CUDA graphs",
                BACK_TO_BACK_NS / 1000
            ),
            Rule::HostGaps => format!(
                "GPU idle at least {IDLE_HIGH_PERCENT} % of the window, and neither launch-bound nor \
                 with the host ahead"
            ),
            Rule::HostCause => format!(
                "threads were sampled, at least {HOST_SAMPLES_LEAST} samples in the idle time; a cause of at least \
                 {HOST_CAUSE_PERCENT} % of the window, whose share is {HOST_ERRORS_LEAST} standard errors or more"
            ),
            Rule::HostFault => format!(
                "as above; stacks, states or the GPU's last copy show a known fault in at least \
                 {HOST_FAULT_PERCENT} % of the idle time"
            ),
            Rule::HostAhead => format!(
                "GPU idle at least {IDLE_HIGH_PERCENT} % of the window; in the median step, at least \
                 {HOST_DECIDED_PERCENT} % of the idle time lies before work whose range the host had left \
                 when the gap began, or, in samples of the host, as much of it passes in waits for the GPU"
            ),
            Rule::GpuIdle => format!(
                "GPU idle at least {IDLE_HIGH_PERCENT} % of the window, and it is not known why: \
                 kernels are not counted, or there are fewer than {ENOUGH_INSTANCES} instances, or \
                 cold ones only (with fewer than {OUTLIERS_AMONG} steps in each), or times that a \
                 profiler inflates, or the stage launches no GPU work itself"
            ),
            Rule::GpuBusy => format!("GPU idle at most {IDLE_LOW_PERCENT} % of the window"),
            Rule::Waiting => format!(
                "waiting for other ranks in matched collectives at least {COMMUNICATION_PERCENT} % of GPU \
                 busy time (of kernel time, where the window does not split communication), or a rank that delays the others by as much of its window"
            ),
            Rule::Communication => format!(
                "communication, without that waiting, at least {COMMUNICATION_PERCENT} % of the same time"
            ),
            Rule::Fusible => format!(
                "elementwise, norm, rope, softmax, reduction and fill kernels together at least \
                 {FUSIBLE_PERCENT} % of kernel time"
            ),
            Rule::Copies => format!("kernels that copy at least {COPY_PERCENT} % of kernel time"),
            Rule::ExposedCopies => format!(
                "copies and fills, without a concurrent kernel, at least {COPY_PERCENT} % of the window"
            ),
            Rule::DecodeNearBandwidth => {
                format!("decode, MBU over GPU busy time at least {MBU_HIGH_SHARE}")
            }
            Rule::DecodeFarFromBandwidth => {
                format!("decode, MBU over GPU busy time below {MBU_LOW_SHARE}")
            }
            Rule::MemoryBoundProduct => format!(
                "decode: a gemm or moe kernel with at least {KERNEL_PERCENT} % of kernel time is \
                 memory-bound"
            ),
            Rule::LowOccupancy => format!(
                "a kernel with at least {KERNEL_PERCENT} % of kernel time is latency-bound, with less than \
                 {LOW_OCCUPANCY_PERCENT} % occupancy"
            ),
            Rule::NearRoof => format!(
                "a kernel with at least {KERNEL_PERCENT} % of kernel time reaches at least {NEAR_ROOF_SHARE} \
                 of what is attainable"
            ),
            Rule::FarFromRoof => format!(
                "a kernel with at least {KERNEL_PERCENT} % of kernel time reaches less than \
                 {NEAR_ROOF_SHARE} of what is attainable"
            ),
            Rule::TopKernel => {
                format!(
                    "the longest kernel of a stage has at least {KERNEL_PERCENT} % of kernel time, and no \
                     counters"
                )
            }
            Rule::Utilisation => "MFU or MBU is known".into(),
            Rule::Nothing => "no other rule has the numbers that it needs".into(),
        }
    }
}
