//! Where the times of a stage go: what its GPU was busy with, and its steps.

use serde::{Deserialize, Serialize};

use crate::answer::StepTimes;

/// What the GPU was busy with, ns. Where work overlaps, the first of these has the time, so that
/// they add up to the busy time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusyParts {
    /// A kernel that computes ran, or a graph that was recorded as a whole.
    pub compute_ns: u64,
    /// A communication kernel ran, and none that computes.
    pub communication_ns: u64,
    /// Copies or fills ran, and no kernel.
    pub copies_ns: u64,
}

impl BusyParts {
    /// The sum of these times and of others, part by part.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            compute_ns: self.compute_ns.saturating_add(other.compute_ns),
            communication_ns: self.communication_ns.saturating_add(other.communication_ns),
            copies_ns: self.copies_ns.saturating_add(other.copies_ns),
        }
    }
}

/// The steps of a stage, as they were measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageSteps {
    /// Their times.
    pub times: StepTimes,
    /// Steps in an instance of the stage, on average.
    pub per_instance: f64,
    /// The first instance of each process is left out; else only the first step of each is.
    pub warm: bool,
}

/// GPU work of a stage's instances without the first of each process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmRow {
    /// Instances.
    pub instances: u64,
    /// Union of their windows, summed over processes, ns.
    pub gpu_window_ns: u64,
    /// Time in which any GPU work of theirs ran (union within a process, summed), ns.
    pub gpu_busy_ns: u64,
    /// Idle time in short gaps, ns, as that of the stage.
    #[serde(default)]
    pub gpu_short_gaps_ns: u64,
    /// What that busy time went into; null: not known.
    #[serde(default)]
    pub gpu_busy_parts: Option<BusyParts>,
    /// Kernels.
    pub kernels: u64,
}
