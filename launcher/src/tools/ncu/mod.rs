//! Settings and the kernels of the collect pass -> one run of Nsight Compute, and a verdict on it.
//!
//! [`config`] holds the settings, [`select`] chooses the kernels, [`command`] spells out every
//! argument, and [`outcome`] judges what the run left behind. Nothing is run here. A fault of a run
//! becomes a [`stage2_model::Finding`]. [`stage2_read::ncu`] reads the tables.

pub mod available;
pub mod command;
pub mod config;
pub mod expression;
pub mod missed;
pub mod outcome;
pub mod regions;
pub mod select;

use stage2_read::ncu::nvtx::Label;

/// A range of the collect pass, at one place, with what ran in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTime {
    /// The ranges around it and itself, the outermost first.
    pub stack: Vec<Label>,
    /// Kernels launched in it and in the ranges within it.
    pub kernels: u64,
    /// Their durations together, nanoseconds.
    pub total_ns: u64,
}
