//! A range of the collect pass, with what ran in it.

use stage2_analysis::ncu::nvtx::Label;

/// A range of the collect pass, at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTime {
    /// The ranges around it and itself, the outermost first.
    pub stack: Vec<Label>,
    /// Kernels launched in it and in the ranges within it.
    pub kernels: u64,
    /// Their durations together, nanoseconds.
    pub total_ns: u64,
}
