//! Times, token counts, a model and peaks -> MFU, MBU and rates per stage and for the model.
//!
//! MFU is FLOPs / (time x dense peak), MBU is bytes that decode has to read / (time x peak
//! bandwidth): shares, not percent. Each is given over wall time (the stage's window: what a user
//! waits for) and over the time in which the GPU was busy (what the kernels make of it). What is
//! missing is [`Absent`] with its reason.

use serde::{Deserialize, Serialize};

use super::figure::{Absent, Figure};
use super::flops;
use super::preset::Model;
use super::tokens::TokenCounts;
use super::weights::DecodeBytes;
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
    /// What it is to the model.
    pub role: Role,
    /// What its times are.
    pub basis: String,
    /// FLOPs of one instance, from the model's shape.
    pub flops: Figure,
    /// FLOPs of one instance, measured.
    pub measured_flops: Figure,
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

/// Utilisation of one generation: prefill, decode, and a vision encoder that runs before them. What
/// is nested in prefill is in prefill's time and FLOPs, and in neither twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelUtilisation {
    /// FLOPs.
    pub flops: Figure,
    /// Wall time of its stages, s.
    pub wall_s: Figure,
    /// GPU busy time of its stages, s.
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

struct Work<'a> {
    inputs: &'a Inputs<'a>,
}

impl Work<'_> {
    fn model(&self) -> Result<&Model, Absent> {
        self.inputs.model.clone()
    }

    /// FLOPs of the vision encoder in one generation.
    fn vision_flops(&self) -> Result<f64, Absent> {
        let model = self.model()?;
        match (model.vision_flops_per_prefill, &model.shape.vision) {
            (Some(flops), _) => Ok(flops),
            (None, Some(vision)) => {
                let tokens = self.inputs.tokens;
                Ok(flops::vision(vision) * (tokens.images()? * tokens.batch()?) as f64)
            }
            (None, None) => Err(Absent::NoVisionFlops),
        }
    }

    fn has(&self, role: Role) -> bool {
        self.inputs.stages.iter().any(|stage| stage.role == role)
    }

    /// FLOPs of a role in one generation.
    fn flops(&self, role: Role) -> Result<f64, Absent> {
        let model = self.model()?;
        let tokens = self.inputs.tokens;
        match role {
            Role::Prefill => {
                let (batch, prompt) = (tokens.batch()?, tokens.prompt()?);
                let text = flops::prefill(&model.shape, batch, prompt, model.lm_head_in_prefill);
                // Unknown FLOPs of a vision encoder make a lower bound of this; it is assumed, and
                // said, that there are none.
                let vision = if self.has(Role::VisionBefore) {
                    0.0
                } else {
                    self.vision_flops().unwrap_or(0.0)
                };
                Ok(text.total() + vision)
            }
            Role::Decode => {
                let (batch, prompt) = (tokens.batch()?, tokens.prompt()?);
                Ok(flops::decode(&model.shape, batch, prompt, tokens.steps()?).total())
            }
            Role::VisionInPrefill | Role::VisionBefore => {
                let parts = self.inputs.stages.iter().filter(|stage| stage.role == role).count();
                if parts > 1 {
                    return Err(Absent::SeveralStages { stage: "a vision encoder".to_owned() });
                }
                self.vision_flops()
            }
            Role::Other => Err(Absent::NotModelled),
        }
    }

    fn bytes(&self, role: Role) -> Result<f64, Absent> {
        if role != Role::Decode {
            return Err(Absent::DecodeOnly);
        }
        let (model, tokens) = (self.model()?, self.inputs.tokens);
        let (batch, prompt, steps) = (tokens.batch()?, tokens.prompt()?, tokens.steps()?);
        Ok(DecodeBytes::of(&model.shape, model.storage, batch, prompt, steps).total())
    }

    fn tokens(&self, role: Role) -> Result<f64, Absent> {
        let tokens = self.inputs.tokens;
        match role {
            Role::Prefill => Ok(tokens.batch()? as f64 * tokens.prompt()? as f64),
            Role::Decode => Ok(tokens.batch()? as f64 * tokens.steps()? as f64),
            _ => Err(Absent::NotModelled),
        }
    }

    /// Peak FLOP/s of the model's arithmetic.
    fn peak(&self) -> Figure {
        let peak = self.model().and_then(|model| {
            let precision = model.dtype.precision();
            let peak = self.inputs.peaks.and_then(|peaks| peaks.flops_per_s(precision));
            peak.ok_or_else(|| Absent::NoPeak { precision: precision.key().to_owned() })
        });
        peak.into()
    }

    fn bandwidth(&self) -> Figure {
        let known = self.inputs.peaks.and_then(Peaks::bytes_per_s);
        known.ok_or(Absent::NoBandwidth).into()
    }

    fn stage(&self, stage: &StageInput) -> StageUtilisation {
        let share = Figure::of(1.0).over(&Figure::of(stage.per_generation), "per_generation");
        let of_instance = |work: Result<f64, Absent>| match &share {
            Figure::Known(share) => Figure::from(work).map(|work| work * share),
            Figure::Absent(why) => Figure::Absent(why.clone()),
        };
        let flops = of_instance(self.flops(stage.role));
        let bytes = of_instance(self.bytes(stage.role));
        let tokens = of_instance(self.tokens(stage.role));
        let (wall_s, busy_s) = (wall_s(stage), busy_s(stage));
        let measured = stage.measured_flops.ok_or(Absent::NotMeasured);
        let measured_flops = per_instance(measured.into(), stage);
        let kernels = stage.kernels.map(|k| k as f64).ok_or(Absent::NoKernels);
        let rate = |work: &Figure, time: &Figure, name: &str| work.over(time, name);
        let (wall, busy) = ("wall time", "GPU busy time");
        StageUtilisation {
            stage: stage.stage.clone(),
            role: stage.role,
            basis: stage.basis.clone(),
            mfu_wall: rate(&flops, &wall_s, wall).over(&self.peak(), "peak"),
            mfu_busy: rate(&flops, &busy_s, busy).over(&self.peak(), "peak"),
            measured_mfu_busy: rate(&measured_flops, &busy_s, busy).over(&self.peak(), "peak"),
            mbu_wall: rate(&bytes, &wall_s, wall).over(&self.bandwidth(), "bandwidth"),
            mbu_busy: rate(&bytes, &busy_s, busy).over(&self.bandwidth(), "bandwidth"),
            tokens_per_s: rate(&tokens, &wall_s, wall),
            gpu_us_per_token: busy_s.map(|s| s * 1e6).over(&tokens, "number of tokens"),
            kernels_per_token: per_instance(kernels.into(), stage)
                .over(&tokens, "number of tokens"),
            flops,
            measured_flops,
            bytes,
            tokens,
        }
    }

    fn model_level(&self) -> ModelUtilisation {
        let roles = [Role::Prefill, Role::Decode];
        let mut flops = Figure::of(0.0);
        let mut wall = Figure::of(0.0);
        let mut busy = Figure::of(0.0);
        for role in roles {
            flops = flops.plus(&self.flops(role).into());
            match self.only(role) {
                Ok(stage) => {
                    let times = |time: Figure| time.map(|s| s * stage.per_generation);
                    wall = wall.plus(&times(wall_s(stage)));
                    busy = busy.plus(&times(busy_s(stage)));
                }
                Err(why) => {
                    wall = Figure::Absent(why.clone());
                    busy = Figure::Absent(why);
                    break;
                }
            }
        }
        if self.has(Role::VisionBefore) {
            flops = flops.plus(&self.vision_flops().into());
        }
        for stage in self.inputs.stages.iter().filter(|s| s.role == Role::VisionBefore) {
            wall = wall.plus(&wall_s(stage).map(|s| s * stage.per_generation));
            busy = busy.plus(&busy_s(stage).map(|s| s * stage.per_generation));
        }
        let tokens = self.inputs.tokens;
        let generated =
            tokens.batch().and_then(|batch| Ok(batch as f64 * (tokens.steps()? as f64 + 1.0)));
        let generated_tokens = Figure::from(generated);
        ModelUtilisation {
            mfu_wall: flops.over(&wall, "wall time").over(&self.peak(), "peak"),
            mfu_busy: flops.over(&busy, "GPU busy time").over(&self.peak(), "peak"),
            generated_tokens_per_s: generated_tokens.over(&wall, "wall time"),
            generated_tokens,
            flops,
            wall_s: wall,
            busy_s: busy,
        }
    }

    fn only(&self, role: Role) -> Result<&StageInput, Absent> {
        let stage = match role {
            Role::Prefill => "prefill",
            _ => "decode",
        };
        let mut found = self.inputs.stages.iter().filter(|stage| stage.role == role);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(Absent::NoStage { stage: stage.to_owned() }),
            (Some(_), Some(_)) => Err(Absent::SeveralStages { stage: stage.to_owned() }),
        }
    }

    fn assumptions(&self) -> Vec<String> {
        let Ok(model) = self.model() else { return Vec::new() };
        let mut lines = vec![format!(
            "MFU: FLOPs / (time x dense peak for {}). MBU: (weights + KV cache that decode has to \
             read) / (time x peak bandwidth); weights as {}, KV cache as {}; activations and cache \
             writes are left out.",
            model.dtype.precision().key(),
            model.storage.weights.key(),
            model.storage.kv_cache.key(),
        )];
        lines.extend(flops::assumptions(&model.shape, model.lm_head_in_prefill));
        if model.shape.moe.is_some() {
            lines.push(
                "Experts that a decode step reads: as many different ones as its tokens choose on \
                 average, if every expert is as likely."
                    .to_owned(),
            );
        }
        let vision_seen = self.has(Role::VisionInPrefill) || self.has(Role::VisionBefore);
        lines.push(match (self.vision_flops(), vision_seen, self.has(Role::VisionBefore)) {
            (Ok(_), _, true) => "The vision encoder runs before prefill: its FLOPs and time are \
                                 its own, and in the model's."
                .to_owned(),
            (Ok(_), _, false) => {
                "The vision encoder's FLOPs are part of prefill's, as its time is: \
                                  each is counted once."
                    .to_owned()
            }
            (Err(why), true, _) => format!(
                "FLOPs of the vision encoder: {why}. They are left out, so that MFU of prefill and \
                 of the model is a lower bound."
            ),
            (Err(_), false, _) => "No vision encoder is counted.".to_owned(),
        });
        lines.extend(model.assumptions.iter().cloned());
        lines
    }
}

fn per_instance(total: Figure, stage: &StageInput) -> Figure {
    total.over(&Figure::of(stage.instances as f64), "number of instances")
}

fn seconds(ns: Option<u64>, absent: Absent, stage: &StageInput) -> Figure {
    let seconds = ns.map(|ns| ns as f64 / 1e9).ok_or(absent);
    per_instance(seconds.into(), stage)
}

/// Wall time of one instance, s.
fn wall_s(stage: &StageInput) -> Figure {
    seconds(stage.wall_ns, Absent::NoWallTime, stage)
}

/// GPU busy time of one instance, s.
fn busy_s(stage: &StageInput) -> Figure {
    seconds(stage.busy_ns, Absent::NoBusyTime, stage)
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
