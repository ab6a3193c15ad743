//! What captures of Nsight Systems hold, and what came of them.

use serde::{Deserialize, Serialize};

use crate::Reconciliation;

/// What kind of files were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// `nsys export --type sqlite`. Ranges are the outermost of their thread, those of libraries
    /// left out.
    #[default]
    Sqlite,
    /// `nsys stats --format csv`. Ranges of any depth, each with the kernels of those inside it.
    Csv,
}

/// What was read, and what of it could not be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Kernels.
    pub kernels: u64,
    /// Sum of their durations, ns.
    pub kernel_total_ns: u64,
    /// Kernels without valid times.
    pub untimed: u64,
    /// Kernels launched in a range.
    pub in_ranges: u64,
    /// Kernels launched while no range was open.
    pub outside_ranges: u64,
    /// Kernels whose launch is not in the file: in no range.
    pub without_launch: u64,
    /// CUDA graphs that were recorded as a whole: their kernels are in no other number.
    pub graph_launches: u64,
    /// Time of those, ns.
    pub graph_total_ns: u64,
    /// Calls of the CUDA API.
    pub api_calls: u64,
    /// Calls of the CUDA API that are missing from the sequence in which CUPTI numbers them, where
    /// so many are missing together that records must have been lost; else 0. About.
    #[serde(default)]
    pub call_numbers_missing: u64,
    /// NVTX ranges, of any depth.
    pub nvtx_ranges: u64,
    /// NVTX ranges that began on one thread and ended on another: taken for the first.
    pub cross_thread_ranges: u64,
    /// Rows that could not be used.
    pub odd_rows: u64,
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
    pub host_warm_instances: Option<u64>,
    /// Sample standard deviation of their host time, ns.
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
