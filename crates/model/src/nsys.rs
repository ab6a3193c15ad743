//! What an nsys capture holds.

use serde::{Deserialize, Serialize};

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
