//! Nsight Systems and Nsight Compute: settings -> command lines -> a verdict on what came of them.
//!
//! Nothing is run here, and no table is read: `run` does the one, `stage2_analysis` the other.

pub mod ncu;
pub mod nsys;
pub(crate) mod seen;
