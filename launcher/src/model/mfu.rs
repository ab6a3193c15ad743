//! Times, token counts, a model and peaks -> MFU, MBU and rates per stage and for the model.
//!
//! MFU is FLOPs / (time x dense peak), MBU is bytes that decode has to read / (time x peak
//! bandwidth): shares, not percent. Each is given over wall time (the stage's window: what a user
//! waits for) and over the time in which the GPU was busy (what the kernels make of it). What is
//! missing is [`Absent`] with its reason.

use serde::{Deserialize, Serialize};

use super::figure::{Absent, Figure};
use super::mfu_work::Work;
use super::preset::Model;
use super::tokens::TokenCounts;
use crate::finding::{Finding, Severity};
use crate::roofline::hardware::Peaks;

/// What a stage is to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Builds the KV cache.
    Prefill,
    /// Steps of one token per sequence.
    Decode,
    /// The vision encoder, or a part of it, within prefill.
    VisionInPrefill,
    /// The vision encoder, or a part of it, before prefill.
    VisionBefore,
    /// Anything else.
    Other,
}

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

/// Utilisation of all stages and of the model, with what it takes for granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// Each stage, in the order given.
    pub stages: Vec<StageUtilisation>,
    /// Prefill and decode together, one generation.
    pub model: ModelUtilisation,
    /// Precision whose peak MFU is held against.
    pub precision: Option<String>,
    /// The card and where its peaks are from.
    pub peak_source: Option<String>,
    /// What the numbers take for granted, one line each.
    pub assumptions: Vec<String>,
    /// Numbers that cannot be true.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// Utilisation of a stage; numbers of one instance where no rate or share is meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageUtilisation {
    /// Its name.
    pub stage: String,
    /// The range that it lies in, where it is no outermost one: its busy time is the sum of its
    /// kernels' durations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// What it is to the model.
    pub role: Role,
    /// What its times are.
    pub basis: String,
    /// FLOPs of one instance, from the model's shape.
    pub flops: Figure,
    /// FLOPs of one instance, measured: without kernels whose counters are missing or of one launch
    /// only, and with
    /// what tensor cores compute on padding.
    pub measured_flops: Figure,
    /// Share of the stage's kernel time whose kernels have counters that stand for their calls,
    /// percent; null: no counters.
    #[serde(default)]
    pub measured_percent: Option<f64>,
    /// Share whose counters are of one launch only, and not in `measured_flops`, percent.
    #[serde(default)]
    pub one_launch_percent: Option<f64>,
    /// MFU over wall time, share.
    pub mfu_wall: Figure,
    /// MFU over GPU busy time, share.
    pub mfu_busy: Figure,
    /// The same from measured FLOPs, over GPU busy time, share.
    pub measured_mfu_busy: Figure,
    /// Bytes of weights and KV cache that one instance has to read.
    pub bytes: Figure,
    /// MBU over wall time, share.
    pub mbu_wall: Figure,
    /// MBU over GPU busy time, share.
    pub mbu_busy: Figure,
    /// Tokens of one instance.
    pub tokens: Figure,
    /// Tokens per second of wall time.
    pub tokens_per_s: Figure,
    /// GPU busy time per token, us.
    pub gpu_us_per_token: Figure,
    /// Kernels per token.
    pub kernels_per_token: Figure,
}

impl StageUtilisation {
    /// What counters leave out beyond kernels without any; none where nothing, or no counters, are.
    pub fn left_out_by_counters(&self) -> Option<String> {
        let percent = self.one_launch_percent.filter(|percent| *percent > 0.0)?;
        Some(format!(
            "MFU by counters of {} leaves out another {percent:.1} % of kernel time, of which one \
             launch was profiled that need not stand for the others",
            self.stage
        ))
    }
}

/// Utilisation of one generation: prefill, decode, and a vision encoder that runs before them. What
/// is nested in prefill is in prefill's time and FLOPs, and in neither twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelUtilisation {
    /// FLOPs.
    pub flops: Figure,
    /// Wall time of its stages, joined where they overlap, s.
    pub wall_s: Figure,
    /// GPU busy time of its stages, s; absent where they overlap.
    pub busy_s: Figure,
    /// MFU over wall time, share.
    pub mfu_wall: Figure,
    /// MFU over GPU busy time, share.
    pub mfu_busy: Figure,
    /// Tokens that come out: one from prefill and one of each decode step, for every sequence.
    pub generated_tokens: Figure,
    /// Those per second of wall time.
    pub generated_tokens_per_s: Figure,
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
