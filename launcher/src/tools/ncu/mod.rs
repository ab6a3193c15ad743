//! Settings and the kernels of the collect pass -> one run of Nsight Compute, and a verdict on it.
//!
//! [`config`] holds the settings, [`select`] chooses the kernels, [`command`] spells out every
//! argument, and [`outcome`] judges what the run left behind. Nothing is run here. A fault of a run
//! becomes a [`stage2_model::Finding`]. [`stage2_analysis::ncu`] reads the tables.

pub mod available;
pub mod command;
pub mod config;
pub mod coverage;
pub mod expression;
pub mod missed;
pub mod outcome;
pub mod range_time;
pub mod regions;
pub mod select;
pub mod version;

#[cfg(test)]
mod testing;
