//! The report as data: `metrics.json` is a [`Report`], and every other artifact is a view of it.
//!
//! Nothing is computed here. Each field names its unit; a number that is not known is absent, never
//! zero.
#![forbid(unsafe_code)]

mod answer;
mod counters;
mod coverage;
mod energy;
mod figure;
mod finding;
pub mod nsys;
mod operation;
mod operators;
mod outliers;
mod pass;
mod peaks;
mod ranks;
pub mod regions;
mod report;
mod rows;
pub mod rule;
mod sampled;
mod stage_times;
mod steps;
mod tokens;
mod utilisation;

pub use answer::*;
pub use counters::*;
pub use coverage::*;
pub use energy::*;
pub use figure::*;
pub use finding::*;
pub use nsys::{
    Belief, KernelSides, NsysCapture, NsysRangeRow, NsysSection, Reconciliation, Sides,
};
pub use operation::*;
pub use operators::*;
pub use outliers::*;
pub use pass::*;
pub use peaks::*;
pub use ranks::*;
pub use report::*;
pub use rows::*;
pub use rule::OUTLIERS_AMONG;
pub use rule::{Rule, Takeaway};
pub use sampled::*;
pub use stage_times::*;
pub use steps::*;
pub use tokens::TokenCounts;
pub use utilisation::*;
