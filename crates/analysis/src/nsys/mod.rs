//! Tables of Nsight Systems, and how far they can be believed beside the collector's.

pub mod load;
pub mod reconcile;
