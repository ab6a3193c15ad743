//! Times, token counts, a model and peaks -> MFU, MBU and rates per stage and for the model.
//!
//! MFU is FLOPs / (time x dense peak), MBU is bytes that decode has to read / (time x peak
//! bandwidth): shares, not percent. Each is given over wall time (the stage's window: what a user
//! waits for) and over the time in which the GPU was busy (what the kernels make of it). What is
//! missing is [`stage2_model::Absent`] with its reason.

use crate::llm::flops::{self, kv_cache_bytes, weight_bytes};
use crate::llm::preset::Model;
use stage2_model::finding::Id;
use stage2_model::{
    Absent, FULL_COVERAGE_PERCENT, Figure, Finding, ModelUtilisation, Peaks, Role, SampledUse,
    StageUtilisation, TokenCounts, Utilisation,
};
use stage2_read::roles::VisionPart;

/// A share above this cannot be: boost clocks and rounding of the peaks explain less.
pub(crate) const HIGHEST_POSSIBLE_SHARE: f64 = 1.1;

/// Computes everything; what cannot be computed states why.
pub(crate) fn utilisation(inputs: &Inputs<'_>) -> Utilisation {
    let stages: Vec<StageUtilisation> = inputs.stages.iter().map(|s| inputs.stage(s)).collect();
    let model = inputs.model_level();
    let mut findings = impossible(&stages, &model);
    let with_inputs = stages.iter().zip(inputs.stages);
    findings.extend(
        with_inputs.filter_map(|(stage, input)| reads_too_much(stage, inputs.steps(input))),
    );
    let precision = inputs.model.as_ref().ok().map(|model| model.dtype.precision());
    Utilisation {
        stages,
        model,
        precision,
        peak_source: inputs.peaks.map(|peaks| format!("{}: {}", peaks.card, peaks.source)),
        assumptions: inputs.assumptions(),
        findings,
    }
}

/// How often a stage occurs in one generation, from the instances that were seen; none where they
/// do not divide evenly, as when warm-up runs of another length are among them.
pub(crate) fn per_generation(instances: u64, generations: u64) -> Option<f64> {
    let whole = generations > 0 && instances > 0 && instances.is_multiple_of(generations);
    whole.then(|| (instances / generations) as f64)
}

/// As [`per_generation`], where recording or the run began or ended within `cut` of the generations: the one whole
/// number that fits, whatever these lack. That they divide evenly may be chance then, unless there is one in each.
pub(crate) fn per_cut_generation(instances: u64, generations: u64, cut: u64) -> Option<f64> {
    if cut == 0 || instances == generations {
        return per_generation(instances, generations);
    }
    let least = instances.div_ceil(generations.checked_add(cut)?);
    let most = instances / generations.checked_sub(cut).filter(|whole| *whole > 0)?;
    (least == most && least > 0).then_some(least as f64)
}

/// Reading this many times what the model has to read is worth a finding.
pub(crate) const READS_TOO_MUCH: f64 = 2.0;

/// A stage that reads far more than weights and KV cache, by sampled counters. `steps`: what the pages give the times of,
/// and how many of these an instance has.
fn reads_too_much(stage: &StageUtilisation, (per, steps): (&str, f64)) -> Option<Finding> {
    let sampled = stage.sampled.filter(|s| s.coverage_percent >= FULL_COVERAGE_PERCENT)?;
    let ratio = sampled.read_over_modelled.filter(|ratio| *ratio > READS_TOO_MUCH)?;
    Some(Id::ModelReadsMore.about(&stage.stage).found(
        format!(
            "{} reads {ratio:.1} times its weights and KV cache from DRAM ({:.3} GB per {per}, of \
             which the model has to read {:.3} GB)",
            stage.stage,
            sampled.read_bytes? / steps / 1e9,
            stage.bytes.value()? / steps / 1e9,
        ),
        "kernels read data several times, or data that the model does not count: activations, copies \
         of the weights, a KV cache with room for longer prompts; or the model is not the one that ran",
        "see which kernels read most (kernels.md), and compare model.llm and the token counts with what \
         ran",
    ))
}

/// Each share of a peak: its name, its value, and its place in the utilisation.
pub(crate) fn shares<'u>(
    stages: &'u [StageUtilisation],
    model: &'u ModelUtilisation,
) -> impl Iterator<Item = (String, &'u Figure, String)> {
    let of_stages = stages.iter().enumerate().flat_map(|(at, stage)| {
        [
            ("MFU", "mfu_wall", &stage.mfu_wall),
            ("MFU over GPU busy time", "mfu_busy", &stage.mfu_busy),
            ("measured MFU over GPU busy time", "measured_mfu_busy", &stage.measured_mfu_busy),
            ("MBU", "mbu_wall", &stage.mbu_wall),
            ("MBU over GPU busy time", "mbu_busy", &stage.mbu_busy),
        ]
        .map(|(name, field, figure)| {
            (format!("{name} of {}", stage.stage), figure, format!("stages/{at}/{field}"))
        })
    });
    of_stages.chain([("MFU of the model".to_owned(), &model.mfu_wall, "model/mfu_wall".to_owned())])
}

fn impossible(stages: &[StageUtilisation], model: &ModelUtilisation) -> Vec<Finding> {
    shares(stages, model)
        .filter_map(|(name, figure, _)| {
            let share = figure.value().filter(|share| *share > HIGHEST_POSSIBLE_SHARE)?;
            Some(Id::ModelImpossible.about(&name).found(
                format!("{name} is {:.1} % of the peak", share * 100.0),
                "more than the GPU can do: the model, the token counts, the peak or the times are \
                 not those of this run",
                "compare model.llm, the token counts and hardware with what ran",
            ))
        })
        .collect()
}

/// What a generation, or the mean step of an engine, works on.
#[derive(Clone, Copy)]
struct Work<'t> {
    counts: &'t TokenCounts,
    /// [`StageInput::mean_batch`].
    mean_batch: Option<f64>,
}

impl Work<'_> {
    fn batch(&self) -> Result<f64, Absent> {
        self.mean_batch.map_or_else(|| Ok(self.counts.batch()? as f64), Ok)
    }
}

/// What was measured of a stage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StageInput {
    pub(crate) stage: String,
    /// The range that it lies in, where it is not an outermost one: then there is no wall time, and its
    /// busy time is the sum of its kernels' durations.
    pub(crate) within: Option<String>,
    pub(crate) role: Role,
    /// How often it occurs in one generation: 1 for a range around all decode steps, the number of
    /// steps for a range around each; not a number: that is not known.
    pub(crate) per_generation: f64,
    /// Tokens of an instance, if it is a step of an engine; none: the tokens of the run.
    pub(crate) tokens: Option<TokenCounts>,
    /// Mean number of requests of such a step, which is rarely a whole number.
    pub(crate) mean_batch: Option<f64>,
    /// Number of GPUs that share the work of an instance.
    pub(crate) gpus: u64,
    /// Instances that the times and counts below cover; 1 for a median.
    pub(crate) instances: u64,
    /// Window of those instances, ns.
    pub(crate) wall_ns: Option<u64>,
    /// Time in which the GPU was busy with them, ns.
    pub(crate) busy_ns: Option<u64>,
    pub(crate) kernels: Option<u64>,
    /// Their FLOPs as counters measured them.
    pub(crate) measured_flops: Option<f64>,
    /// Share of the stage's kernel time whose kernels have counters that stand for their calls,
    /// percent.
    pub(crate) measured_percent: Option<f64>,
    /// Share whose counters are of one launch only, and in no sum, percent.
    pub(crate) one_launch_percent: Option<f64>,
    /// What sampled counters say of one instance; none: they say nothing of it.
    pub(crate) sampled: Option<SampledUse>,
    /// What the times are, for the reader: `median of 3 warm instances`.
    pub(crate) basis: String,
}

/// Everything that utilisation follows from.
#[derive(Clone, Debug)]
pub(crate) struct Inputs<'a> {
    /// The model, or why there is none.
    pub(crate) model: Result<&'a Model, Absent>,
    pub(crate) peaks: Option<&'a Peaks>,
    pub(crate) tokens: &'a TokenCounts,
    pub(crate) stages: &'a [StageInput],
    /// Time in which any of the stages was open, over the sum of their windows: 1 where none
    /// overlap; none: not known.
    pub(crate) joined: Option<f64>,
}

/// Measured FLOPs are given where at least this share of the stage's kernel time has counters that
/// stand for all calls, percent: with less they say more of what was profiled than of the stage.
pub(super) const MEASURED_FROM_PERCENT: f64 = 50.0;

/// The parts that make up a whole vision encoder.
const PARTS: [VisionPart; 3] = [VisionPart::Sam, VisionPart::Clip, VisionPart::Projector];

impl Inputs<'_> {
    fn model(&self) -> Result<&Model, Absent> {
        self.model.clone()
    }

    /// FLOPs of the vision encoder, or of a part of it, in one generation.
    fn vision_flops(&self, part: VisionPart) -> Result<f64, Absent> {
        let (model, tokens) = (self.model()?, self.tokens);
        if let Some(flops) = given_vision_flops(model, part) {
            return Ok(flops);
        }
        let images = || Ok(tokens.images()? as f64 * tokens.batch()? as f64);
        match (&model.shape.vision_parts, &model.shape.vision, part) {
            (Some(parts), ..) => {
                let crops = parts.crop_size.map_or(Ok(0), |_| tokens.crops())?;
                Ok(flops::vision_image(parts, part, crops) * images()?)
            }
            // A plain vision transformer is CLIP's, by whatever name.
            (None, Some(plain), VisionPart::Whole | VisionPart::Clip) => {
                Ok(flops::plain_vision(plain) * images()?)
            }
            (None, _, VisionPart::Whole) => Err(Absent::NoVisionFlops),
            _ => Err(Absent::NoVisionPartFlops { part: part.to_string() }),
        }
    }

    /// FLOPs of what runs as stages of their own before prefill: all of the encoder, or some parts.
    fn vision_before(&self) -> Result<f64, Absent> {
        let parts = self.parts(Role::VisionBefore);
        let all = PARTS.iter().all(|part| parts.contains(part));
        // What is given for the whole wins over a sum of parts that may be computed.
        if parts.contains(&VisionPart::Whole)
            || (all && given_vision_flops(self.model()?, VisionPart::Whole).is_some())
        {
            return self.vision_flops(VisionPart::Whole);
        }
        let before = PARTS.into_iter().filter(|part| parts.contains(part));
        before.map(|part| self.vision_flops(part)).sum()
    }

    /// FLOPs of what of the encoder runs within prefill; parts of which nothing is known count as none.
    fn vision_within_prefill(&self, model: &Model) -> Result<f64, Absent> {
        let before = self.parts(Role::VisionBefore);
        if before.is_empty() {
            return self.vision_flops(VisionPart::Whole);
        }
        if before.contains(&VisionPart::Whole) {
            return Ok(0.0);
        }
        if let (Some(whole), Ok(before)) =
            (given_vision_flops(model, VisionPart::Whole), self.vision_before())
        {
            return Ok((whole - before).max(0.0));
        }
        let within = PARTS.into_iter().filter(|part| !before.contains(part));
        Ok(within.map(|part| self.vision_flops(part).unwrap_or(0.0)).sum())
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = &StageInput> + Clone {
        self.stages.iter().filter(move |stage| stage.role == role)
    }

    /// What the times of a stage are of, and how many of them an instance has: only decode reads weights for each token.
    fn steps(&self, stage: &StageInput) -> (&'static str, f64) {
        if stage.tokens.is_some() {
            return ("step", 1.0);
        }
        let is_decode = stage.role == Role::Decode && stage.per_generation > 0.0;
        let steps = self.tokens.steps().ok().filter(|_| is_decode);
        steps.map_or(("call", 1.0), |steps| ("token", steps as f64 / stage.per_generation))
    }

    fn has(&self, role: Role) -> bool {
        self.of_role(role).next().is_some()
    }

    /// Parts of the vision encoder that have stages of this role; a part may occur twice.
    fn parts(&self, role: Role) -> Vec<VisionPart> {
        self.of_role(role).map(part_of).collect()
    }

    /// FLOPs of a stage of the vision encoder in one generation.
    fn flops_of_part(&self, stage: &StageInput) -> Result<f64, Absent> {
        let part = part_of(stage);
        let all = self.of_role(Role::VisionInPrefill).chain(self.of_role(Role::VisionBefore));
        match all.filter(|other| part_of(other) == part).count() {
            0 | 1 => self.vision_flops(part),
            _ => Err(Absent::SeveralStages { stage: part.to_string() }),
        }
    }

    /// FLOPs of prefill or decode in one generation.
    fn flops(&self, role: Role, tokens: Work<'_>) -> Result<f64, Absent> {
        let model = self.model()?;
        if !matches!(role, Role::Prefill | Role::Decode) {
            return Err(Absent::NotModelled);
        }
        let (batch, prompt) = (tokens.batch()?, tokens.counts.prompt()?);
        if role == Role::Decode {
            return Ok(flops::decode(&model.shape, batch, prompt, tokens.counts.steps()?));
        }
        let text = flops::prefill(&model.shape, batch, prompt, model.lm_head_in_prefill);
        // Unknown FLOPs of a vision encoder make a lower bound of this; it is assumed, and said, that
        // there are none.
        Ok(text + self.vision_within_prefill(model).unwrap_or(0.0))
    }

    /// Those of weights and KV cache, and of the latter alone.
    fn bytes(&self, role: Role, tokens: Work<'_>) -> Result<(f64, f64), Absent> {
        if role != Role::Decode {
            return Err(Absent::DecodeOnly);
        }
        let model = self.model()?;
        let counts = tokens.counts;
        let (batch, prompt, steps) = (tokens.batch()?, counts.prompt()?, counts.steps()?);
        let weights = match &model.stored {
            Some(stored) => stored.read(&model.shape, batch, steps),
            None => weight_bytes(&model.shape, model.weight_dtype, batch, steps),
        };
        let kv_cache = kv_cache_bytes(&model.shape, model.kv_cache_dtype, batch, prompt, steps);
        Ok((weights + kv_cache, kv_cache))
    }

    fn tokens(&self, role: Role, tokens: Work<'_>) -> Result<f64, Absent> {
        match role {
            Role::Prefill => Ok(tokens.batch()? * tokens.counts.prompt()? as f64),
            Role::Decode => Ok(tokens.batch()? * tokens.counts.steps()? as f64),
            _ => Err(Absent::NotModelled),
        }
    }

    /// Peak FLOP/s of the model's arithmetic.
    fn peak(&self) -> Figure {
        let peak = self.model().and_then(|model| {
            let precision = model.dtype.precision();
            let peak = self.peaks.and_then(|peaks| peaks.flops_per_s(precision));
            peak.ok_or(Absent::NoPeak { precision })
        });
        peak.into()
    }

    fn bandwidth(&self) -> Figure {
        self.peaks.and_then(Peaks::bytes_per_s).ok_or(Absent::NoBandwidth).into()
    }

    fn stage(&self, stage: &StageInput) -> StageUtilisation {
        let share = Figure::of(1.0).over(&occurrences(stage), "per_generation");
        let of_instance = |work: Result<f64, Absent>| match &share {
            Figure::Known(share) => Figure::from(work).map(|work| work * share),
            Figure::Absent(why) => Figure::Absent(why.clone()),
        };
        let tokens = Work {
            counts: stage.tokens.as_ref().unwrap_or(self.tokens),
            mean_batch: stage.mean_batch,
        };
        let on_gpu = |work: f64| work / stage.gpus.max(1) as f64;
        let flops = of_instance(match stage.role {
            Role::VisionInPrefill | Role::VisionBefore => self.flops_of_part(stage),
            role => self.flops(role, tokens),
        });
        let flops = flops.map(on_gpu);
        let read = self.bytes(stage.role, tokens);
        let bytes = of_instance(read.clone().map(|(all, _)| all)).map(on_gpu);
        let kv_cache_bytes = of_instance(read.map(|(_, part)| part)).map(on_gpu).value();
        let tokens = of_instance(self.tokens(stage.role, tokens));
        let (wall_s, busy_s) = (wall_s(stage), busy_s(stage));
        let measured = match (stage.measured_flops, stage.measured_percent) {
            (Some(_), Some(percent)) if percent < MEASURED_FROM_PERCENT => {
                let one_launch = stage.one_launch_percent.filter(|percent| *percent > 0.0);
                Err(Absent::FewCounters {
                    covered: format!("{percent:.1} %"),
                    one_launch: one_launch.map(|percent| format!("{percent:.1} %")),
                })
            }
            (measured, _) => measured.ok_or(Absent::NotMeasured),
        };
        let measured_flops = per_instance(measured.into(), stage);
        let kernels = stage.kernels.map(|k| k as f64).ok_or(Absent::NoKernels);
        let (wall, busy) = ("wall time", "GPU busy time");
        StageUtilisation {
            stage: stage.stage.clone(),
            within: stage.within.clone(),
            role: stage.role,
            basis: stage.basis.clone(),
            mfu_wall: flops.over(&wall_s, wall).over(&self.peak(), "peak"),
            mfu_busy: flops.over(&busy_s, busy).over(&self.peak(), "peak"),
            measured_mfu_busy: measured_flops.over(&busy_s, busy).over(&self.peak(), "peak"),
            mbu_wall: bytes.over(&wall_s, wall).over(&self.bandwidth(), "bandwidth"),
            mbu_busy: bytes.over(&busy_s, busy).over(&self.bandwidth(), "bandwidth"),
            tokens_per_s: tokens.over(&wall_s, wall),
            gpu_us_per_token: busy_s.map(|s| s * 1e6).over(&tokens, "number of tokens"),
            kernels_per_token: per_instance(kernels.into(), stage)
                .over(&tokens, "number of tokens"),
            sampled: stage.sampled.map(|sampled| SampledUse {
                read_over_modelled: sampled
                    .read_bytes
                    .zip(bytes.value().filter(|bytes| *bytes > 0.0))
                    .map(|(read, modelled)| read / modelled),
                ..sampled
            }),
            flops,
            measured_flops,
            measured_percent: stage.measured_percent,
            one_launch_percent: stage.one_launch_percent,
            bytes,
            kv_cache_bytes,
            tokens,
        }
    }

    fn model_level(&self) -> ModelUtilisation {
        let roles = [Role::Prefill, Role::Decode];
        // How many steps of an engine a request takes is not known, and their batches vary.
        let is_of_engine = roles.iter().any(|role| self.of_role(*role).any(|s| s.tokens.is_some()));
        let tokens = if is_of_engine { Err(Absent::NoGenerations) } else { Ok(self.tokens) };
        let of_run = |counts| Work { counts, mean_batch: None };
        let mut flops = roles
            .map(|role| Figure::from(tokens.clone().and_then(|of| self.flops(role, of_run(of)))))
            .iter()
            .fold(Figure::of(0.0), |sum, flops| sum.plus(flops));
        if self.has(Role::VisionBefore) {
            flops = flops.plus(&self.vision_before().into());
        }
        let (mut wall, mut busy) = match roles.map(|role| self.only(role)) {
            [Ok(prefill), Ok(decode)] => {
                let stages = [prefill, decode].into_iter().chain(self.of_role(Role::VisionBefore));
                let occurrences = |stage: &StageInput| match stage.tokens {
                    Some(_) => Figure::Absent(Absent::NoGenerations),
                    None => occurrences(stage),
                };
                let sum = |time: fn(&StageInput) -> Figure| {
                    stages.clone().fold(Figure::of(0.0), |sum, stage| {
                        sum.plus(&time(stage).times(&occurrences(stage)))
                    })
                };
                (sum(wall_s), sum(busy_s))
            }
            [Err(why), _] | [_, Err(why)] => (Figure::Absent(why.clone()), Figure::Absent(why)),
        };
        let overlap = |why: &str| Figure::Absent(Absent::StagesOverlap { why: why.to_owned() });
        match self.joined {
            Some(joined) if joined >= 1.0 => {}
            Some(joined) => {
                wall = wall.map(|s| s * joined);
                busy = busy.value().map_or(busy, |_| overlap("when the GPU was busy with any"));
            }
            None => {
                let why = "for how long any of them was open";
                wall = wall.value().map_or(wall, |_| overlap(why));
                busy = busy.value().map_or(busy, |_| overlap(why));
            }
        }
        let generated =
            tokens.and_then(|tokens| Ok(tokens.batch()? as f64 * (tokens.steps()? as f64 + 1.0)));
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
        let stage = if role == Role::Prefill { "prefill" } else { "decode" }.to_owned();
        let mut found = self.of_role(role);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(Absent::NoStage { stage }),
            (Some(_), Some(_)) => Err(Absent::SeveralStages { stage }),
        }
    }

    fn assumptions(&self) -> Vec<String> {
        let Ok(model) = self.model() else { return Vec::new() };
        let weights = match &model.stored {
            Some(_) => "the file stores them".to_owned(),
            None => model.weight_dtype.to_string(),
        };
        let mut lines = vec![format!(
            "MFU: FLOPs / (time x dense peak for {}). MBU: (weights + KV cache that decode has to \
             read) / (time x peak bandwidth); weights as {weights}, KV cache as {}; activations and \
             cache writes are left out.",
            model.dtype.precision(),
            model.kv_cache_dtype,
        )];
        if let Some(joined) = self.joined.filter(|joined| *joined < 1.0) {
            lines.push(format!(
                "Model-level wall time: the windows of its stages overlap, and are joined ({:.1} % of \
                 their sum).",
                joined * 100.0
            ));
        }
        lines.extend(flops::assumptions(&model.shape, model.lm_head_in_prefill));
        if model.shape.moe.is_some() {
            lines.push(
                "Experts that a decode step reads: as many different ones as its tokens choose on \
                 average, if every expert is as likely."
                    .to_owned(),
            );
        }
        let vision_seen = self.has(Role::VisionInPrefill) || self.has(Role::VisionBefore);
        let vision_flops = match self.parts(Role::VisionBefore).is_empty() {
            true => self.vision_flops(VisionPart::Whole),
            false => self.vision_before(),
        };
        lines.push(match vision_flops {
            Ok(_) if self.has(Role::VisionBefore) => "The vision encoder runs before prefill: its \
                FLOPs and time are its own, and in the model's."
                .to_owned(),
            Ok(_) => "The vision encoder's FLOPs are part of prefill's, as its time is: each is \
                counted once."
                .to_owned(),
            Err(why) if vision_seen => format!(
                "FLOPs of the vision encoder: none, because {why}. They are left out, so that MFU of \
                 prefill and of the model is a lower bound."
            ),
            Err(_) => "No vision encoder is counted.".to_owned(),
        });
        let is_computed = |part: &VisionPart| {
            given_vision_flops(model, *part).is_none() && self.vision_flops(*part).is_ok()
        };
        let mut used = self.parts(Role::VisionInPrefill);
        used.extend(self.parts(Role::VisionBefore));
        used.push(VisionPart::Whole);
        let shape = model.shape.vision_parts.as_ref();
        let shape = shape.filter(|_| vision_seen && used.iter().any(is_computed));
        lines.extend(shape.and_then(|shape| flops::vision_assumption(shape, self.tokens)));
        lines.extend(model.assumptions.iter().cloned());
        lines
    }
}

fn part_of(stage: &StageInput) -> VisionPart {
    VisionPart::of_range(&stage.stage).unwrap_or(VisionPart::Whole)
}

/// FLOPs of a part of the vision encoder in one generation that are given, and not to be computed.
fn given_vision_flops(model: &Model, part: VisionPart) -> Option<f64> {
    let whole = model.vision_flops_per_prefill.filter(|_| part == VisionPart::Whole);
    whole.or_else(|| model.vision_part_flops_per_prefill.of(part))
}

/// How often the stage occurs in a generation.
fn occurrences(stage: &StageInput) -> Figure {
    match stage.per_generation.is_nan() {
        true => Figure::Absent(Absent::NoGenerations),
        false => Figure::of(stage.per_generation),
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

#[cfg(test)]
mod tests;
