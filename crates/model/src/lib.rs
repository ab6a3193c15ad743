//! The report as data: `metrics.json` is a [`Report`], and every other artifact is a view of it.
//!
//! Nothing is computed here. Each field names its unit; a number that is not known is absent, never
//! zero.
#![forbid(unsafe_code)]

mod answer;
mod bottleneck;
mod counters;
mod coverage;
mod engine;
mod figure;
pub mod finding;
mod host;
pub mod json;
mod kernel_id;
mod kernel_table;
pub mod kernels;
mod late;
mod layers;
pub mod lead;
pub mod nsys;
mod outliers;
mod peaks;
mod plateaus;
mod ranks;
pub mod regions;
mod report;
mod rows;
pub mod rule;
mod sampled;
#[cfg(feature = "schema")]
pub mod schema;
mod step_timeline;
mod steps;
mod takeaway;
mod timelines;
mod utilisation;

pub use answer::*;
pub use bottleneck::*;
pub use counters::*;
pub use coverage::*;
pub use engine::*;
pub use figure::*;
pub use finding::{Finding, Severity};
pub use host::*;
pub use kernel_id::kernel_ids;
pub use kernel_table::KERNEL_COLUMNS;
pub use late::*;
pub use layers::*;
pub use nsys::{
    Belief, KernelSides, NsysCapture, NsysRangeRow, NsysSection, Reconciliation, Sides,
};
pub use outliers::*;
pub use peaks::*;
pub use plateaus::*;
pub use ranks::*;
pub use report::*;
pub use rows::*;
pub use rule::OUTLIERS_AMONG;
pub use rule::Rule;
pub use sampled::*;
pub use step_timeline::*;
pub use steps::*;
pub use takeaway::*;
pub use timelines::*;
pub use utilisation::*;

macro_rules! labels {
    ($($name:ident),*) => {$(
        impl $name {
            /// Its name in reports.
            pub fn label(self) -> &'static str {
                self.into()
            }
        }
    )*};
}
labels!(Apart, Bound, Origin, Resemblance, Rule, Status, WindowKind);
