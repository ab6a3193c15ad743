//! Settings and the kernels of the collect pass -> one run of Nsight Compute, and its tables.
//!
//! Pure on both sides of the run: [`command`] spells out every argument of what is to be run,
//! [`outcome`] judges what it left behind, and [`load`] reads the tables. Nothing is run here. What
//! is wrong with a run or a table becomes a [`stage2_model::Finding`], and what could be read is
//! kept: a broken table costs its own columns only.

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
