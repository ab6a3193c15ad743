//! Why a run has no GPU work: a cause that programs can compare, a sentence, and a remedy.

use serde::{Deserialize, Serialize};

/// What left a run without GPU work. The most specific cause comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyCause {
    /// The workload could not be started.
    NotStarted,
    /// The collector was not loaded into the workload: a static program, another libc, ...
    CollectorNotLoaded,
    /// There are trace files, and none of them can be read.
    FilesUnreadable,
    /// The workload used CUDA, but the collector could not record it.
    CuptiOff,
    /// The machine has no GPU that CUDA can use.
    NoGpu,
    /// Child processes could not be recorded.
    ChildrenNotRecorded,
    /// GPU work was asked for in some ranges only, and none of them opened.
    RangesNeverOpened,
    /// The workload was killed before GPU work reached the trace file.
    Killed,
    /// The workload opened NVTX ranges, but never initialised CUDA.
    CudaNeverInitialised,
    /// No process of the workload used CUDA or NVTX, or none loaded the collector.
    NothingUsed,
    /// CUDA was initialised and recorded, but nothing was launched.
    NothingLaunched,
    /// The captures that were merged hold no GPU work.
    CapturesEmpty,
}

/// A cause with its explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyReason {
    /// Which it is.
    pub cause: EmptyCause,
    /// What happened, in one sentence without a full stop.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

/// Why no GPU work was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {
    /// The most specific cause.
    #[serde(flatten)]
    pub first: EmptyReason,
    /// What holds as well, in the order of [`EmptyCause`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<EmptyReason>,
}

impl Empty {
    /// The causes with the most specific one first; none where there is none.
    pub fn of(mut reasons: Vec<EmptyReason>) -> Option<Empty> {
        reasons.sort_by_key(|reason| reason.cause);
        let mut reasons = reasons.into_iter();
        Some(Empty { first: reasons.next()?, also: reasons.collect() })
    }
}
