//! The report as data: `metrics.json` is a [`Report`], and every other artifact is a view of it.
//!
//! Nothing is computed here. Each field names its unit; a number that is not known is absent, never
//! zero.
#![forbid(unsafe_code)]

mod counters;
mod coverage;
mod figure;
mod finding;
pub mod nsys;
mod operation;
mod operators;
mod pass;
mod peaks;
mod ranks;
mod reconciliation;
pub mod regions;
mod report;
mod rows;
pub mod rule;
mod steps;
mod tokens;
mod utilisation;
mod workload;

pub use counters::{Bound, CounterRow, Flops, RATE_SHARE_MOST, Roofline, RuleRow};
pub use coverage::{
    Coverage, CoverageCounts, Empty, EmptyCause, EmptyReason, FileEnding, FileState, META_RANGES,
    META_SAMPLE, ProcessCoverage, Status, Undefined, Verdict,
};
pub use figure::{Absent, Figure};
pub use finding::{Finding, Severity};
pub use nsys::{NsysCapture, NsysRangeRow, NsysSection};
pub use operation::Operation;
pub use operators::{Absence, OperatorCoverage, OperatorRow, Operators, StageOperatorRow};
pub use pass::{PassCosts, PassDuration, PassStatus, RunState, StageCost, Tool};
pub use peaks::{DenseTflops, Dtype, Peaks, Precision, no_rates};
pub use ranks::{CollectiveRow, LateRow, ProcessRow, RankStageRow, Ranks, UnmatchedRow};
pub use reconciliation::{Belief, KernelSides, Reconciliation, Sides};
pub use report::{
    COULD_NOT_ASK, Definition, Fact, Origin, PassInfo, Report, RunInfo, SCHEMA, SCHEMA_VERSION,
    Sources,
};
pub use rows::{
    Apart, CaptureRow, DeviceRow, GraphRow, KernelRow, Launch, MemoryRow, PathKind, PathRow,
    StageDeviceRow, StageKernelRow, StageRow, Times, WarmRow,
};
pub use rule::{Rule, Takeaway};
pub use steps::{Before, InferredStepRow, InferredSteps, Resemblance};
pub use tokens::TokenCounts;
pub use utilisation::{
    Insight, ModelUse, ModelUtilisation, ModelWindows, Role, StageUtilisation, Utilisation,
};
pub use workload::{EndedBy, WorkloadEnd, WorkloadExit};
