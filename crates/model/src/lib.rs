//! The report as data: `metrics.json` is a [`Report`], and every other artifact is a view of it.
//!
//! Nothing is computed here. Each field names its unit; a number that is not known is absent, never
//! zero.
#![forbid(unsafe_code)]

mod costs;
mod coverage;
mod empty;
mod exit;
mod figure;
mod finding;
mod flops;
mod insight;
pub mod nsys;
mod operation;
mod operators;
mod pass;
mod peaks;
mod precision;
mod ranks;
mod reconciliation;
pub mod regions;
mod report;
mod roofline;
mod rows;
pub mod rule;
mod sources;
mod steps;
mod takeaway;
mod tokens;
mod tools;
mod trace_file;
mod utilisation;
mod workload;

pub use costs::{PassCosts, PassDuration, StageCost};
pub use coverage::{Coverage, CoverageCounts, ProcessCoverage, Status, Verdict};
pub use empty::{Empty, EmptyCause, EmptyReason};
pub use exit::WorkloadExit;
pub use figure::{Absent, Figure};
pub use finding::{Finding, Severity};
pub use flops::Flops;
pub use insight::{Insight, ModelUse, ModelWindows};
pub use operation::Operation;
pub use operators::{Absence, OperatorCoverage, OperatorRow, Operators, StageOperatorRow};
pub use pass::{PassStatus, RunState, Tool};
pub use peaks::{DenseTflops, Peaks};
pub use precision::{Dtype, Precision};
pub use ranks::{CollectiveRow, LateRow, ProcessRow, RankStageRow, Ranks, UnmatchedRow};
pub use reconciliation::{Belief, KernelSides, Reconciliation, Sides};
pub use report::{
    COULD_NOT_ASK, Definition, Fact, PassInfo, Report, RunInfo, SCHEMA, SCHEMA_VERSION,
};
pub use roofline::{Bound, RATE_SHARE_MOST, Roofline};
pub use rows::{
    Apart, CaptureRow, DeviceRow, GraphRow, KernelRow, Launch, MemoryRow, PathKind, PathRow,
    StageDeviceRow, StageKernelRow, StageRow, Times, WarmRow,
};
pub use rule::Rule;
pub use sources::{Origin, Sources};
pub use steps::{Before, InferredStepRow, InferredSteps, Resemblance};
pub use takeaway::Takeaway;
pub use tokens::TokenCounts;
pub use tools::{CounterRow, NsysCapture, NsysRangeRow, NsysSection, PeakRates, RuleRow};
pub use trace_file::{FileEnding, FileState, META_RANGES, META_SAMPLE, Undefined};
pub use utilisation::{ModelUtilisation, Role, StageUtilisation, Utilisation};
pub use workload::{EndedBy, WorkloadEnd};
