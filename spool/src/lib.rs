//! The spool: the trace file that the collector appends to and the launcher reads.
#![forbid(unsafe_code)]

mod record;
mod time;

pub use record::*;
pub use time::{GpuNs, MonoNs, WallNs};
