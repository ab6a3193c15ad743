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
    /// Both together.
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
