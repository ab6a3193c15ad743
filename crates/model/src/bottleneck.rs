//! What bounds the steps of a stage.

use serde::{Deserialize, Serialize};

/// The mean step of a stage, divided by what its time is spent on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// What is divided: the mean `token`, `step` or `call`, or the whole `window` if single steps cannot be
    /// separated.
    pub of: String,
    /// Its time, which is the sum of the parts, ns.
    pub ns: u64,
    /// The parts, the longest first: the first one is the bottleneck.
    pub parts: Vec<BottleneckPart>,
    /// Time of the kernels divided by the floor (a ratio; [`crate::Floor::floor_ns`]); null: the floor is not
    /// known, or is longer than the kernels.
    pub kernels_over_floor: Option<f64>,
    /// Calls of the stage that overlap, on average: their host times over the union of their windows, both of the calls
    /// that `ns` is of, outliers included; absent: not known, or the times are those of an engine's steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_a_time: Option<f64>,
    /// Idle time of the GPUs in each rank, the longest first; empty: only one rank ran the stage, or it is not
    /// known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankIdle>,
}

/// A part of a mean step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BottleneckPart {
    /// What the time is spent on.
    pub kind: BottleneckKind,
    /// The time, ns.
    pub ns: u64,
}

/// Idle time of the GPUs of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankIdle {
    /// [`crate::RankStageRow::who`].
    pub who: String,
    /// Idle time in the mean step of the rank, ns.
    pub ns: u64,
}

/// What the time of a step is spent on. Kernels are one part, and so is idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BottleneckKind {
    /// Kernels that take at most [`NEAR_FLOOR`] times the floor of memory bandwidth, or that are bound by it
    /// according to counters.
    #[strum(serialize = "memory")]
    Memory,
    /// Kernels that take at most [`NEAR_FLOOR`] times the floor of FLOPs, or that are bound by FLOPs according
    /// to counters.
    #[strum(serialize = "compute")]
    Compute,
    /// Kernels that are far from the floor, or whose limit is not known.
    #[strum(serialize = "its kernels")]
    Kernels,
    /// Exposed waiting for other ranks in collectives.
    #[strum(serialize = "waiting in collectives")]
    Ranks,
    /// Exposed communication, plus waiting where the two cannot be separated.
    #[strum(serialize = "communication")]
    Communication,
    /// Exposed copies and fills.
    #[strum(serialize = "copies")]
    Copies,
    /// Idle time, most of it in launch gaps, or before kernels that the host had launched already.
    #[strum(serialize = "launches")]
    Launches,
    /// Idle time, most of it in longer gaps.
    #[strum(serialize = "the host")]
    Host,
    /// Idle time of the stage in which the GPU worked for another stage.
    #[strum(serialize = "work of other stages")]
    OtherWork,
}

/// Kernels that take at most this many times the floor are still bound by what the floor counts (bytes or FLOPs).
pub const NEAR_FLOOR: f64 = 2.0;

impl BottleneckKind {
    /// Its name on every page, to be read after "bound by".
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// Whether it is the part of the kernels.
    pub fn is_kernels(self) -> bool {
        matches!(self, Self::Memory | Self::Compute | Self::Kernels)
    }

    /// Whether it is the idle time.
    pub fn is_idle(self) -> bool {
        matches!(self, Self::Launches | Self::Host)
    }
}

impl Bottleneck {
    /// Whether the mean step, or the mean of what the times of the stage are of, is divided.
    pub fn is_of_step(&self) -> bool {
        self.of != "window"
    }

    /// The part that is the bottleneck.
    pub fn first(&self) -> Option<&BottleneckPart> {
        self.parts.first()
    }

    /// The part in which the GPU is idle, with its cause; `None` if it never is.
    pub fn idle(&self) -> Option<&BottleneckPart> {
        self.parts.iter().find(|part| part.kind.is_idle())
    }

    /// The part of the kernels; `None` if there are none.
    pub fn kernels(&self) -> Option<&BottleneckPart> {
        self.parts.iter().find(|part| part.kind.is_kernels())
    }

    /// Share of a part, percent.
    pub fn percent(&self, part: &BottleneckPart) -> f64 {
        if self.ns == 0 { 0.0 } else { part.ns as f64 * 100.0 / self.ns as f64 }
    }
}
