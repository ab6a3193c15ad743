//! What utilisation follows from: a model, peaks, token counts and what was measured of stages.

use stage2_model::{Absent, Peaks, Role, SampledUse, TokenCounts};

use super::preset::Model;

/// What was measured of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageInput {
    /// Its name.
    pub stage: String,
    /// The range that it lies in, where it is no outermost one: then there is no wall time, and its
    /// busy time is the sum of its kernels' durations.
    pub within: Option<String>,
    /// What it is to the model.
    pub role: Role,
    /// How often it occurs in one generation: 1 for a range around all decode steps, the number of
    /// steps for a range around each; not a number: that is not known.
    pub per_generation: f64,
    /// Instances that the times and counts below cover; 1 for a median.
    pub instances: u64,
    /// Window of those instances, ns.
    pub wall_ns: Option<u64>,
    /// Time in which the GPU was busy with them, ns.
    pub busy_ns: Option<u64>,
    /// Their kernels.
    pub kernels: Option<u64>,
    /// Their FLOPs as counters measured them.
    pub measured_flops: Option<f64>,
    /// Share of the stage's kernel time whose kernels have counters that stand for their calls,
    /// percent.
    pub measured_percent: Option<f64>,
    /// Share whose counters are of one launch only, and in no sum, percent.
    pub one_launch_percent: Option<f64>,
    /// What sampled counters say of one instance; none: they say nothing of it.
    pub sampled: Option<SampledUse>,
    /// What the times are, for the reader: `median of 3 warm instances`.
    pub basis: String,
}

/// Everything that utilisation follows from.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// The model, or why there is none.
    pub model: Result<&'a Model, Absent>,
    /// Peaks of the GPU, if known.
    pub peaks: Option<&'a Peaks>,
    /// Tokens of one generation.
    pub tokens: &'a TokenCounts,
    /// The stages.
    pub stages: &'a [StageInput],
    /// Time in which any of the stages was open, over the sum of their windows: 1 where none
    /// overlap; none: not known.
    pub joined: Option<f64>,
}

/// Measured FLOPs are given where at least this share of the stage's kernel time has counters that
/// stand for all calls, percent: with less they say more of what was profiled than of the stage.
pub const MEASURED_FROM_PERCENT: f64 = 50.0;
