//! Tables of Nsight Compute: counters of launches, and totals of regions.

pub mod load;
pub mod nvtx;
pub mod regions;

#[cfg(test)]
mod testing;
