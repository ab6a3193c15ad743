//! Statistics that the collector and the analysis must compute alike.

mod busy;
mod histogram;

pub use busy::{BACK_TO_BACK_NS, Busy, Unions, union_ns};
pub use histogram::{ERROR_PERCENT, Histogram, P99_VALUES};
