//! Processes with their ranks, hosts and GPUs, and what the ranks did together.

use serde::{Deserialize, Serialize};

use crate::operation::Operation;
use stage2_text::numbers::{count, ms3};

/// A traced process and its place in the job. Null: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Its trace file.
    pub file: String,
    /// Process id, in its own namespace.
    pub pid: Option<u32>,
    /// Rank in its job.
    pub rank: Option<u64>,
    /// Rank among the processes of its host.
    pub local_rank: Option<u64>,
    /// Ranks of its job, as it was told.
    pub world_size: Option<u64>,
    /// Who told it.
    pub rank_source: Option<String>,
    /// Another process has the rank, and this one inherited its variables.
    pub inherited_rank: bool,
    /// Host name.
    pub host: Option<String>,
    /// GPUs that it used: [`super::DeviceRow::device`].
    pub devices: Vec<String>,
    /// UUIDs of these.
    pub device_uuids: Vec<String>,
    /// GPUs that it may see, as `CUDA_VISIBLE_DEVICES` says.
    pub visible_devices: Option<String>,
    /// Kernels.
    pub kernels: u64,
    /// Process id of the parent that it was forked from.
    pub forked_from: Option<String>,
}

/// What the ranks of a job did together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ranks {
    /// Different ranks that were recorded.
    pub seen: u64,
    /// Ranks of the job, as its processes were told; null: none was told.
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
    /// Communication kernels in no collective: their times are unknown, or there were too many.
    pub kernels_left_out: u64,
}

/// What makes the wall clock of a host that of the run, as matched collectives show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct ClockPoint {
    /// When, on the wall clock of the host, ns since the Unix epoch.
    pub wall_ns: i64,
    /// What must be added, ns.
    pub add_ns: i64,
}

/// A stage in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankStageRow {
    /// [`super::StageRow::stage`].
    pub stage: String,
    /// Who, in words: `rank 3`, or a process id.
    pub who: String,
    /// [`ProcessRow::file`].
    pub file: String,
    /// Rank.
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
    /// Kernels.
    pub kernels: Option<u64>,
    /// Sum of the durations of communication kernels, waiting included, ns.
    pub communication_ns: Option<u64>,
    /// Time in collectives before their last member arrived, ns; null: none was matched.
    pub waiting_ns: Option<u64>,
    /// Time in these from that arrival on, ns.
    pub transfer_ns: Option<u64>,
}

/// Collectives of one operation and communicator in a stage. Times and bytes are sums over ranks; of a
/// sample, they and the numbers of calls are scaled to all instances, as those of kernels are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectiveRow {
    /// [`super::StageRow::stage`].
    pub stage: String,
    /// What it is.
    pub operation: Operation,
    /// Hash of the communicator, hexadecimal; null: not known.
    pub communicator: Option<String>,
    /// Members of the communicator that were recorded.
    pub members: u64,
    /// Calls, over all members.
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
    /// Of the time of matched calls: before that arrival, ns; null: not split.
    pub waiting_ns: Option<u64>,
    /// The part of `transfer_ns` that is not in the first instance of the stage in each process, nor in an
    /// outlier that is left out, ns.
    #[serde(default)]
    pub warm_transfer_ns: Option<u64>,
    /// The same part of `waiting_ns`, ns.
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
pub struct UnmatchedRow {
    /// Calls.
    pub calls: u64,
    /// Why.
    pub why: String,
}

/// A rank that others waited for. Counts and sums of a sample are scaled to all instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateRow {
    /// [`super::StageRow::stage`].
    pub stage: String,
    /// Who, in words.
    pub who: String,
    /// [`ProcessRow::file`].
    pub file: String,
    /// Rank.
    pub rank: Option<u64>,
    /// Collectives of the stage that it took part in, matched and split.
    pub collectives: u64,
    /// Those that it was the last to arrive at, by more than the clock error.
    pub late_collectives: u64,
    /// How late it was there, behind the median of the others, summed, ns.
    pub late_total_ns: u64,
    /// Half of that sum comes from arrivals that were at least this late, ns.
    pub late_typical_ns: u64,
    /// Arrivals at least half as late as that.
    pub late_typical_collectives: u64,
    /// The latest, ns.
    pub late_max_ns: u64,
    /// Of the sum: so much is explained by more GPU work than the others had since the collective before,
    /// ns. The rest came about on the host. Null: not known.
    #[serde(default)]
    pub late_work_ns: Option<u64>,
}

/// Why a rank is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateCause {
    /// Its GPU had no more work than those of the others.
    Host,
    /// Its GPU had more work than those of the others.
    Gpu,
    /// Some of both.
    Both,
}

/// The share of a delay from which on a cause is the only one that is named, percent.
const ONE_CAUSE_PERCENT: u64 = 75;

impl LateRow {
    /// Why it is late, where that is known.
    pub fn cause(&self) -> Option<LateCause> {
        let work = self.late_work_ns?;
        let is_most = |ns: u64| {
            u128::from(ns) * 100 >= u128::from(self.late_total_ns) * u128::from(ONE_CAUSE_PERCENT)
        };
        Some(if is_most(self.late_total_ns.saturating_sub(work)) {
            LateCause::Host
        } else if is_most(work) {
            LateCause::Gpu
        } else {
            LateCause::Both
        })
    }

    /// Who is late, and why, in a sentence without its end.
    pub fn sentence(&self) -> String {
        let as_late = self.late_typical_collectives;
        let why = match self.cause() {
            Some(LateCause::Host) => {
                "; it is late on the host: its GPU has no more work than the others".to_owned()
            }
            Some(LateCause::Gpu) => {
                "; it is slow on the GPU, which has more work than the others".to_owned()
            }
            Some(LateCause::Both) => format!(
                "; {} ms of that because its GPU has more work than the others, the rest on the host",
                ms3(self.late_work_ns.unwrap_or_default())
            ),
            None => String::new(),
        };
        format!(
            "{} arrives last at {} of {} collectives, typically {} ms late ({} of these delays {} at \
             least half that; longest {} ms, {} ms in total){why}",
            self.who,
            count(self.late_collectives),
            count(self.collectives),
            ms3(self.late_typical_ns),
            count(as_late),
            if as_late == 1 { "is" } else { "are" },
            ms3(self.late_max_ns),
            ms3(self.late_total_ns),
        )
    }
}
