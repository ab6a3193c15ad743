//! What counters of ncu say of a kernel: operations, rates, its place under the roof, what bounds it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What ncu measured of a kernel row. Percentages are of the hardware's peak; null: not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterRow {
    /// Launches that ncu profiled of this kernel, configuration and GPU.
    pub launches_profiled: u64,
    /// Stage in which these launches were profiled; null: ncu's tables do not say, and they ran in several.
    pub profiled_in: Option<String>,
    /// Why they describe the profiled launches only, and give no rate; null: they stand for the row.
    pub one_launch: Option<String>,
    /// Throughput of the multiprocessors, percent of the peak.
    pub sm_percent: Option<f64>,
    /// Throughput of caches and memory, whichever is busiest, percent of the peak.
    pub memory_percent: Option<f64>,
    /// Throughput of the device's memory, percent of the peak.
    pub dram_percent: Option<f64>,
    /// Warps that were active, percent of those that fit.
    pub achieved_occupancy_percent: Option<f64>,
    /// Cycles in which a tensor pipe was active, percent.
    pub tensor_pipe_percent: Option<f64>,
    /// Hits of the L2 cache, percent of its accesses.
    pub l2_hit_percent: Option<f64>,
    /// Operations of one launch by type.
    pub flops: Flops,
    /// Where it stands under the roof, at its undisturbed duration.
    pub roofline: Roofline,
    /// What the rules of ncu say, largest estimated speed-up first.
    pub rules: Vec<RuleRow>,
}

/// A rule of ncu.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleRow {
    /// Its name.
    pub name: String,
    /// What it says, in ncu's words.
    pub description: String,
    /// Estimated speed-up, percent.
    pub speedup_percent: Option<f64>,
}

/// Operations of one launch by type. Absent is not zero: it was not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flops {
    /// FLOPs in double precision, without tensor cores.
    pub fp64: Option<f64>,
    /// FLOPs in single precision, without tensor cores.
    pub fp32: Option<f64>,
    /// FLOPs in half precision and bfloat16, without tensor cores.
    pub fp16: Option<f64>,
    /// FLOPs of the tensor cores by type of their inputs: `bf16`, `tf32`, ...; empty: not measured.
    pub tensor: BTreeMap<String, f64>,
    /// Integer operations of the tensor cores by type of their inputs, which are not FLOPs.
    pub tensor_integer: BTreeMap<String, f64>,
}

impl Flops {
    /// All floating-point operations that were measured; nothing where none was.
    pub fn total(&self) -> Option<f64> {
        let plain = [self.fp64, self.fp32, self.fp16];
        let measured = plain.iter().any(Option::is_some) || !self.tensor.is_empty();
        measured.then(|| plain.iter().flatten().sum::<f64>() + self.tensor.values().sum::<f64>())
    }
}

/// A rate above this share of its peak is a mistake: clocks above the nominal boost explain less.
pub const RATE_SHARE_MOST: f64 = 1.1;

/// What holds a kernel up.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Caches or DRAM.
    Memory,
    /// Neither: waiting, too little parallel work, launch and tail.
    Latency,
    /// Arithmetic, and caches or DRAM, about alike.
    Balanced,
}

/// Where a kernel stands under the roof. None: what it follows from is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Roofline {
    /// Operations of one launch.
    pub flops: Option<f64>,
    /// Operations of the tensor cores in one launch.
    pub tensor_flops: Option<f64>,
    /// DRAM bytes of one launch.
    pub dram_bytes: Option<f64>,
    /// DRAM bytes that one launch read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram_read_bytes: Option<f64>,
    /// Arithmetic intensity: operations per DRAM byte.
    pub flops_per_byte: Option<f64>,
    /// Intensity from which compute is the roof, for this mix of operations.
    pub ridge_flops_per_byte: Option<f64>,
    /// Operations per second of the undisturbed duration.
    pub flops_per_s: Option<f64>,
    /// DRAM bytes per second of the undisturbed duration.
    pub bytes_per_s: Option<f64>,
    /// Share of the compute peak: time that the operations need at their peaks / duration.
    pub compute_share: Option<f64>,
    /// Share of the bandwidth peak.
    pub bandwidth_share: Option<f64>,
    /// Share of what is attainable at this intensity; what is missing to 1 is the distance to the roof.
    pub attainable_share: Option<f64>,
    /// What limits the kernel.
    pub bound: Option<Bound>,
    /// How `bound` came about, with the numbers.
    pub bound_why: Option<String>,
    /// Profiler's duration / undisturbed duration.
    pub duration_ratio: Option<f64>,
    /// Kinds of operations that were not measured, and are not in `flops`; empty where nothing was.
    pub flops_not_measured: Vec<String>,
    /// What the reader should know: numbers that cannot be, peaks that are missing.
    pub notes: Vec<String>,
}

impl Roofline {
    /// The larger of both shares of a peak, where it is more than a GPU can do.
    pub fn beyond_peak(&self) -> Option<f64> {
        let shares = [self.compute_share, self.bandwidth_share].into_iter().flatten();
        shares.filter(|share| *share > RATE_SHARE_MOST).max_by(f64::total_cmp)
    }
}
