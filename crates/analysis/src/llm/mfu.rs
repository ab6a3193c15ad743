//! Times, token counts, a model and peaks -> MFU, MBU and rates per stage and for the model.
//!
//! MFU is FLOPs / (time x dense peak), MBU is bytes that decode has to read / (time x peak
//! bandwidth): shares, not percent. Each is given over wall time (the stage's window: what a user
//! waits for) and over the time in which the GPU was busy (what the kernels make of it). What is
//! missing is [`Absent`] with its reason.

use stage2_model::{
    Absent, Finding, ModelUtilisation, Peaks, Role, Severity, StageUtilisation, TokenCounts,
    Utilisation,
};

use super::mfu_work::Work;
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
    /// steps for a range around each.
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

/// A share above this cannot be: boost clocks and rounding of the peaks explain less.
pub const HIGHEST_POSSIBLE_SHARE: f64 = 1.1;

/// Measured FLOPs are given where at least this share of the stage's kernel time has counters that
/// stand for all calls, percent: with less they say more of what was profiled than of the stage.
pub const MEASURED_FROM_PERCENT: f64 = 50.0;

/// Computes everything; what cannot be computed says why.
pub fn utilisation(inputs: &Inputs<'_>) -> Utilisation {
    let work = Work { inputs };
    let stages: Vec<StageUtilisation> = inputs.stages.iter().map(|s| work.stage(s)).collect();
    let model = work.model_level();
    let findings = impossible(&stages, &model);
    let precision = inputs.model.as_ref().ok().map(|model| model.dtype.precision());
    Utilisation {
        stages,
        model,
        precision: precision.map(|precision| precision.key().to_owned()),
        peak_source: inputs.peaks.map(|peaks| format!("{}: {}", peaks.card, peaks.source)),
        assumptions: work.assumptions(),
        findings,
    }
}

/// How often a stage occurs in one generation, from the instances that were seen; none where they
/// do not divide evenly, as when warm-up runs of another length are among them.
pub fn per_generation(instances: u64, generations: u64) -> Option<f64> {
    let whole = generations > 0 && instances > 0 && instances.is_multiple_of(generations);
    whole.then(|| (instances / generations) as f64)
}

fn impossible(stages: &[StageUtilisation], model: &ModelUtilisation) -> Vec<Finding> {
    let of_stages = stages.iter().flat_map(|stage| {
        [
            ("MFU", &stage.mfu_wall),
            ("MFU over GPU busy time", &stage.mfu_busy),
            ("measured MFU over GPU busy time", &stage.measured_mfu_busy),
            ("MBU", &stage.mbu_wall),
            ("MBU over GPU busy time", &stage.mbu_busy),
        ]
        .map(|(name, figure)| (format!("{name} of {}", stage.stage), figure))
    });
    of_stages
        .chain([("MFU of the model".to_owned(), &model.mfu_wall)])
        .filter_map(|(name, figure)| {
            let share = figure.value().filter(|share| *share > HIGHEST_POSSIBLE_SHARE)?;
            Some(Finding::new(
                Severity::Warning,
                format!("{name} is {:.1} % of the peak", share * 100.0),
                "more than the GPU can do: the model, the token counts, the peak or the times are \
                 not those of this run",
                "compare model.llm, the token counts and hardware with what ran",
            ))
        })
        .collect()
}

#[cfg(test)]
#[path = "mfu_tests.rs"]
mod tests;
