//! Processes with their ranks, hosts and GPUs, and what the ranks did together.

use serde::{Deserialize, Serialize};
use stage2_contract::text::numbers::{count, shown_time};
pub use stage2_contract::text::operation::Operation;

use crate::late::LateRow;

/// A traced process and its place in the job. Null: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRow {
    /// Trace file of the process.
    pub file: String,
    /// Process id, in its own namespace.
    pub pid: Option<u32>,
    /// Rank in its job.
    pub rank: Option<u64>,
    /// Rank among the processes of its host.
    pub local_rank: Option<u64>,
    /// Ranks of its job, as its environment states.
    pub world_size: Option<u64>,
    /// What states its rank.
    pub rank_source: Option<String>,
    /// Another process has the rank, and this one inherited its variables.
    pub inherited_rank: bool,
    /// Host name.
    pub host: Option<String>,
    /// GPUs that it used: [`super::DeviceRow::device`].
    pub devices: Vec<String>,
    /// UUIDs of the GPUs that it used.
    pub device_uuids: Vec<String>,
    /// GPUs that it may use, from `CUDA_VISIBLE_DEVICES`.
    pub visible_devices: Option<String>,
    /// Number of kernels.
    pub kernels: u64,
    /// Process id of the parent that it was forked from.
    pub forked_from: Option<String>,
}

/// What the ranks of a job did together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ranks {
    /// Different ranks that were recorded.
    pub seen: u64,
    /// Ranks of the job, as the environment of its processes states; null: not stated.
    pub expected: Option<u64>,
    /// Hosts with a rank.
    pub hosts: u64,
    /// How far arrivals of two ranks may be off against each other, ns; null: nothing was compared.
    pub clock_error_ns: Option<u64>,
    /// Clocks of hosts that collectives tie together, the one of reference first; empty: none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_clocks: Vec<HostClock>,
    /// Each rank in each stage: stages in the order of the report, the slowest rank first.
    pub stages: Vec<RankStageRow>,
    /// Collectives of each stage, by operation and communicator.
    pub collectives: Vec<CollectiveRow>,
    /// Ranks that others waited for, by stage, the latest first.
    pub late: Vec<LateRow>,
    /// Of how many calls of collectives the times are compared; null: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<ComparedCalls>,
    /// Communication kernels in no collective: their times are unknown.
    pub kernels_left_out: u64,
}

/// Calls of collectives that are compared across ranks, where there were more than are kept one by one.
/// They are drawn evenly over the whole time, the same ones of every rank; counts and sums are scaled to
/// all calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedCalls {
    /// Calls that all processes made.
    pub calls: u64,
    /// Those that are compared.
    pub compared: u64,
    /// From the first to the last of them that a process made, the longest of all processes, ns.
    pub span_ns: u64,
}

impl ComparedCalls {
    /// How much of it is compared, without an end.
    pub fn sentence(&self) -> String {
        format!(
            "{} of {} calls of collectives were compared across ranks, drawn evenly over {}",
            count(self.compared),
            count(self.calls),
            shown_time(self.span_ns as f64)
        )
    }
}

/// What makes the wall clock of a host that of the run, as matched collectives show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostClock {
    /// The host.
    pub host: String,
    /// What was taken for its wall time less its monotonic time, ns.
    pub wall_ahead_ns: i64,
    /// What its corrected time may be off by against the host of reference, at most, ns.
    pub error_ns: u64,
    /// Over the run, in the order of time; in between, clocks drift evenly.
    pub points: Vec<ClockPoint>,
}

/// What must be added to the wall clock of a host at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockPoint {
    /// When, on the wall clock of the host, ns since the Unix epoch.
    pub wall_ns: i64,
    /// What must be added, ns.
    pub add_ns: i64,
}

/// A stage in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankStageRow {
    /// [`super::StageRow::stage`].
    pub stage: String,
    /// The rank or process in words: `rank 3`, or a process id.
    pub who: String,
    /// [`ProcessRow::file`].
    pub file: String,
    /// Rank of the process in its job.
    pub rank: Option<u64>,
    /// Times that the stage was opened.
    pub instances: u64,
    /// Host time of all closed instances, ns.
    pub host_total_ns: Option<u64>,
    /// Median host time without the first instance, ns.
    pub host_warm_median_ns: Option<u64>,
    /// Time in which any of its GPUs worked for the stage, ns.
    pub gpu_busy_ns: Option<u64>,
    /// Window minus busy time, ns; null where other processes may have filled it.
    pub gpu_idle_ns: Option<u64>,
    /// Idle time without the first, cold instance; null: that instance cannot be separated, or `gpu_idle_ns` is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_idle: Option<WarmIdle>,
    /// Number of kernels.
    pub kernels: Option<u64>,
    /// Sum of the durations of communication kernels, waiting included, ns.
    pub communication_ns: Option<u64>,
    /// Time in collectives before their last member arrived, ns; null: no collective was matched.
    pub waiting_ns: Option<u64>,
    /// Time in collectives from the arrival of their last member on, ns.
    pub transfer_ns: Option<u64>,
    /// The part of `waiting_ns` that is neither in the first, cold instance nor in an outlier that is left out, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_waiting_ns: Option<u64>,
    /// The part of `transfer_ns` that is neither in the first, cold instance nor in an outlier that is left out, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_transfer_ns: Option<u64>,
}

/// Times of all instances of a stage except the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WarmIdle {
    /// Number of warm instances.
    pub instances: u64,
    /// Window minus busy time of the warm instances, ns.
    pub ns: u64,
    /// Busy time of the warm instances, ns; null: of reports of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ns: Option<u64>,
}

/// Collectives of one operation and communicator in a stage. Times and bytes are sums over ranks; of a
/// sample, they and the numbers of calls are scaled to all instances, as those of kernels are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectiveRow {
    /// [`super::StageRow::stage`].
    pub stage: String,
    /// Operation of the collective.
    pub operation: Operation,
    /// Hash of the communicator, hexadecimal; null: not known.
    pub communicator: Option<String>,
    /// Members of the communicator that were recorded.
    pub members: u64,
    /// Calls, counted at each member: a collective of two ranks is two calls.
    pub calls: u64,
    /// Calls that graph replays made.
    pub replayed_calls: u64,
    /// Calls whose size is not known.
    pub calls_without_bytes: u64,
    /// Bytes of the smallest call.
    pub bytes_min: Option<u64>,
    /// Bytes of the largest call.
    pub bytes_max: Option<u64>,
    /// Bytes of all calls whose size is known.
    pub bytes_total: Option<u64>,
    /// From the start of the first kernel of a call to the end of its last, summed, ns.
    pub time_ns: u64,
    /// Calls that were matched over all members.
    pub matched_calls: u64,
    /// Of the time of matched calls: from the arrival of the last member on, ns; null: not split.
    pub transfer_ns: Option<u64>,
    /// Of the time of matched calls: before the arrival of the last member, ns; null: not split.
    pub waiting_ns: Option<u64>,
    /// The part of `transfer_ns` that is not in the first instance of the stage in each process, nor in an
    /// outlier that is left out, ns.
    #[serde(default)]
    pub warm_transfer_ns: Option<u64>,
    /// The part of `waiting_ns` that is neither in a first instance nor in such an outlier, ns.
    #[serde(default)]
    pub warm_waiting_ns: Option<u64>,
    /// The part of `waiting_ns` that is in such outliers, ns.
    #[serde(skip)]
    pub outlier_waiting_ns: u64,
    /// Bus bandwidth as NCCL's tests define it, over the time from the last arrival to the last
    /// end, GB/s (1e9); null where not all bytes and members are known.
    pub bus_gb_per_s: Option<f64>,
    /// Calls that were not matched, and why.
    pub unmatched: Vec<UnmatchedRow>,
}

/// Calls that could not be matched over ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnmatchedRow {
    /// Calls.
    pub calls: u64,
    /// Why.
    pub why: String,
    /// What to do about it.
    #[serde(default)]
    pub remedy: String,
}
