//! The amount of each hardware counter per call of each kernel kind, from samples of a whole device.
#![forbid(unsafe_code)]

mod amount;
mod collinear;
mod error;
mod fit;
mod kinds;
mod moments;
mod nnls;
mod placing;
mod samples;
mod shift;
mod spread;

pub use amount::{Amount, ColumnFit, CounterFit, Fitted, GroupFit, IdleTraffic, Reason, StageFit};
pub use error::FitError;
pub use fit::Fit;
pub use kinds::{BLOCKS, Column, Design, Kernel, Kinds, MAX_KINDS, OWN_COLUMNS, POOLS};
pub use placing::Counts;
pub use samples::{MAX_COUNTERS, MAX_SAMPLES, SampleCounts, Samples};
pub use shift::Shift;
