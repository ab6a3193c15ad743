//! What ncu and nsys add to the report: counters beside undisturbed durations, and how far the
//! counts of nsys agree.

use serde::{Deserialize, Serialize};

use crate::nsys::{Counts, Source};
use crate::{Flops, Peaks, Reconciliation, Roofline};

/// What ncu measured of a kernel row. Percentages are of the hardware's peak; null: not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterRow {
    /// Launches that ncu profiled of this kernel, configuration and GPU.
    pub launches_profiled: u64,
    /// Stage in which they were profiled; null: ncu's tables do not say, and they ran in several.
    #[serde(default)]
    pub profiled_in: Option<String>,
    /// Why they are of the profiled launches only, so that no rate, bound or utilisation of the row
    /// is drawn from them; null: they stand for all launches of the row.
    #[serde(default)]
    pub one_launch: Option<String>,
    /// Throughput of the multiprocessors.
    pub sm_percent: Option<f64>,
    /// Throughput of caches and memory, whichever is busiest.
    pub memory_percent: Option<f64>,
    /// Throughput of the device's memory.
    pub dram_percent: Option<f64>,
    /// Warps that were active, of those that fit.
    pub achieved_occupancy_percent: Option<f64>,
    /// Cycles in which the tensor cores worked.
    pub tensor_pipe_percent: Option<f64>,
    /// Hits of the L2 cache.
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
pub struct RuleRow {
    /// Its name.
    pub name: String,
    /// What it says, in ncu's words.
    pub description: String,
    /// Estimated speed-up, percent.
    pub speedup_percent: Option<f64>,
}

/// What came of the Nsight Systems capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NsysSection {
    /// Version that wrote the first capture, where it says so.
    pub tool_version: Option<String>,
    /// Counts against the collector's, of each capture: each stage that both saw, then the whole run.
    /// Empty where the collector recorded no kernel.
    pub reconciliations: Vec<Reconciliation>,
    /// Host times of its NVTX ranges.
    #[serde(default)]
    pub ranges: Vec<NsysRangeRow>,
    /// The captures.
    #[serde(default)]
    pub captures: Vec<NsysCapture>,
}

impl NsysSection {
    /// Whether every comparison lets its numbers stand beside the collector's.
    pub fn believed(&self) -> bool {
        !self.reconciliations.is_empty() && self.reconciliations.iter().all(|r| r.belief.usable())
    }
}

/// Host times of a range in the Nsight Systems capture, without its cold first instance where that
/// is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NsysRangeRow {
    /// Its name (`name@domain` outside of the default domain).
    pub range: String,
    /// Times that it was opened.
    pub instances: Option<u64>,
    /// Host time of all closed instances, ns.
    pub host_total_ns: Option<u64>,
    /// Closed instances without the first of each process; null: the capture does not say.
    #[serde(default)]
    pub host_warm_instances: Option<u64>,
    /// Sample standard deviation of their host time, ns.
    #[serde(default)]
    pub host_warm_std_ns: Option<u64>,
    /// Median host time without the first instance of each process, ns.
    pub host_warm_median_ns: Option<u64>,
}

/// A capture of Nsight Systems.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NsysCapture {
    /// Files that were read, without their folder.
    pub files: Vec<String>,
    /// What they are.
    pub kind: Source,
    /// Version of nsys, where the files say so.
    pub tool_version: Option<String>,
    /// What was read.
    pub counts: Counts,
    /// Everything that was looked for was read to its end.
    pub complete: bool,
    /// Kernels without a mangled name, which can be compared with nothing.
    pub nameless_calls: u64,
    /// The rows of kernels hold its numbers: the collector has none.
    pub gives_rows: bool,
}

/// The peak rates that everything is held against: dense, and where they are from.
pub type PeakRates = Peaks;
