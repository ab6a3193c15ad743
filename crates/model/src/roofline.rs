//! Where a kernel stands under the roof, and what holds it up.

use serde::{Deserialize, Serialize};

/// A rate above this share of its peak is a mistake: clocks above the nominal boost explain less.
pub const RATE_SHARE_MOST: f64 = 1.1;

/// What holds a kernel up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Caches or DRAM.
    Memory,
    /// Neither: waiting, too little parallel work, launch and tail.
    Latency,
    /// Both about alike.
    Balanced,
}

impl Bound {
    /// Its name in reports.
    pub fn label(self) -> &'static str {
        match self {
            Bound::Compute => "compute",
            Bound::Memory => "memory",
            Bound::Latency => "latency",
            Bound::Balanced => "balanced",
        }
    }
}

/// Where a kernel stands under the roof. None: what it follows from is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    /// Operations of one launch.
    pub flops: Option<f64>,
    /// Those of tensor cores.
    pub tensor_flops: Option<f64>,
    /// DRAM bytes of one launch.
    pub dram_bytes: Option<f64>,
    /// Arithmetic intensity: operations per DRAM byte.
    pub flops_per_byte: Option<f64>,
    /// Intensity from which on compute is the roof, for this mix of operations.
    pub ridge_flops_per_byte: Option<f64>,
    /// Operations per second of the undisturbed duration.
    pub flops_per_s: Option<f64>,
    /// DRAM bytes per second of the undisturbed duration.
    pub bytes_per_s: Option<f64>,
    /// Share of the compute peak: time that the operations need at their peaks / duration.
    pub compute_share: Option<f64>,
    /// Share of the bandwidth peak.
    pub bandwidth_share: Option<f64>,
    /// Share of what is attainable at this intensity: the distance to the roof is what is missing
    /// to 1.
    pub attainable_share: Option<f64>,
    /// What holds it up.
    pub bound: Option<Bound>,
    /// How `bound` came about, with the numbers.
    pub bound_why: Option<String>,
    /// Profiler's duration / undisturbed duration.
    pub duration_ratio: Option<f64>,
    /// Kinds of operations that are not in `flops`, because they were not measured; empty where
    /// nothing was.
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
