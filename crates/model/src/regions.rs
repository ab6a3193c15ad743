//! Totals of NVTX regions under ncu.

use serde::{Deserialize, Serialize};

/// What a table is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All processes and devices.
    Aggregate,
    /// One process, by its id.
    Process(u64),
    /// One device, by its index.
    Device(u32),
}

/// Totals of the profiled launches or ranges. Absent: not measured for every one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Totals {
    /// Launches, or instances of a range.
    pub launches: u64,
    /// Time under ncu, nanoseconds.
    pub duration_ns: Option<f64>,
    /// Bytes read from the device's memory and written to it.
    pub dram_bytes: Option<f64>,
    /// Floating-point operations that were counted: over a range, those of the tensor cores.
    pub flops: Option<f64>,
    /// Throughput of the multiprocessors, % of peak, the mean over the time under ncu.
    pub sm_percent: Option<f64>,
    /// Throughput of the caches or the memory, whichever is busiest, % of peak, the mean over the time under ncu.
    pub memory_percent: Option<f64>,
}

/// One region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Region {
    /// Its path, unlike that of every other: `prefill/layer.3@domain`.
    pub path: String,
    /// Name of its range, as the workload gave it.
    pub name: String,
    /// Domain of its range; none: the default one.
    pub domain: Option<String>,
    /// Path of the region around it; none: it is an outermost one.
    pub parent: Option<String>,
    /// How many regions are around it.
    pub depth: usize,
    /// With what lies in regions within it.
    pub inclusive: Totals,
    /// Without that; absent if it is not known.
    pub exclusive: Option<Totals>,
}

/// The regions of one scope, by path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionTable {
    /// What it is over.
    pub scope: Scope,
    /// The regions; empty: nothing was profiled in any.
    pub regions: Vec<Region>,
}
