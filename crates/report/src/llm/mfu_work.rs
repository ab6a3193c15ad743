//! One stage, or one generation -> its FLOPs, bytes and tokens over its times.

use super::flops;
use super::mfu_inputs::{Inputs, MEASURED_FROM_PERCENT, StageInput};
use super::preset::Model;
use super::vision;
use super::weights::{kv_cache_bytes, weight_bytes};
use stage2_model::{Absent, Figure, ModelUtilisation, Peaks, Role, SampledUse, StageUtilisation};
use stage2_read::roles::VisionPart;

/// The parts that make up a whole vision encoder.
const PARTS: [VisionPart; 3] = [VisionPart::Sam, VisionPart::Clip, VisionPart::Projector];

/// The calculation over one set of inputs.
pub(super) struct Work<'a> {
    pub(super) inputs: &'a Inputs<'a>,
}

impl Work<'_> {
    fn model(&self) -> Result<&Model, Absent> {
        self.inputs.model.clone()
    }

    /// FLOPs of the vision encoder, or of a part of it, in one generation.
    fn vision_flops(&self, part: VisionPart) -> Result<f64, Absent> {
        let (model, tokens) = (self.model()?, self.inputs.tokens);
        if let Some(flops) = given(model, part) {
            return Ok(flops);
        }
        let images = || Ok(tokens.images()? as f64 * tokens.batch()? as f64);
        match (&model.shape.vision_parts, &model.shape.vision, part) {
            (Some(parts), ..) => {
                let crops = parts.crop_size.map_or(Ok(0), |_| tokens.crops())?;
                Ok(vision::of_image(parts, part, crops) * images()?)
            }
            // A plain vision transformer is CLIP's, by whatever name.
            (None, Some(plain), VisionPart::Whole | VisionPart::Clip) => {
                Ok(vision::plain(plain) * images()?)
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
            || (all && given(self.model()?, VisionPart::Whole).is_some())
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
        if let (Some(whole), Ok(before)) = (given(model, VisionPart::Whole), self.vision_before()) {
            return Ok((whole - before).max(0.0));
        }
        let within = PARTS.into_iter().filter(|part| !before.contains(part));
        Ok(within.map(|part| self.vision_flops(part).unwrap_or(0.0)).sum())
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = &StageInput> + Clone {
        self.inputs.stages.iter().filter(move |stage| stage.role == role)
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
    fn flops(&self, role: Role) -> Result<f64, Absent> {
        let model = self.model()?;
        let tokens = self.inputs.tokens;
        match role {
            Role::Prefill => {
                let (batch, prompt) = (tokens.batch()?, tokens.prompt()?);
                let text = flops::prefill(&model.shape, batch, prompt, model.lm_head_in_prefill);
                // Unknown FLOPs of a vision encoder make a lower bound of this; it is assumed, and
                // said, that there are none.
                Ok(text + self.vision_within_prefill(model).unwrap_or(0.0))
            }
            Role::Decode => {
                let (batch, prompt) = (tokens.batch()?, tokens.prompt()?);
                Ok(flops::decode(&model.shape, batch, prompt, tokens.steps()?))
            }
            Role::VisionInPrefill | Role::VisionBefore | Role::Other => Err(Absent::NotModelled),
        }
    }

    fn bytes(&self, role: Role) -> Result<f64, Absent> {
        if role != Role::Decode {
            return Err(Absent::DecodeOnly);
        }
        let (model, tokens) = (self.model()?, self.inputs.tokens);
        let (batch, prompt, steps) = (tokens.batch()?, tokens.prompt()?, tokens.steps()?);
        Ok(weight_bytes(&model.shape, model.weight_dtype, batch, steps)
            + kv_cache_bytes(&model.shape, model.kv_cache_dtype, batch, prompt, steps))
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
            peak.ok_or(Absent::NoPeak { precision })
        });
        peak.into()
    }

    fn bandwidth(&self) -> Figure {
        let known = self.inputs.peaks.and_then(Peaks::bytes_per_s);
        known.ok_or(Absent::NoBandwidth).into()
    }

    pub(super) fn stage(&self, stage: &StageInput) -> StageUtilisation {
        let share = Figure::of(1.0).over(&per_generation(stage), "per_generation");
        let of_instance = |work: Result<f64, Absent>| match &share {
            Figure::Known(share) => Figure::from(work).map(|work| work * share),
            Figure::Absent(why) => Figure::Absent(why.clone()),
        };
        let flops = of_instance(match stage.role {
            Role::VisionInPrefill | Role::VisionBefore => self.flops_of_part(stage),
            role => self.flops(role),
        });
        let bytes = of_instance(self.bytes(stage.role));
        let tokens = of_instance(self.tokens(stage.role));
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
            tokens,
        }
    }

    pub(super) fn model_level(&self) -> ModelUtilisation {
        let roles = [Role::Prefill, Role::Decode];
        let mut flops = roles
            .map(|role| Figure::from(self.flops(role)))
            .iter()
            .fold(Figure::of(0.0), |sum, flops| sum.plus(flops));
        if self.has(Role::VisionBefore) {
            flops = flops.plus(&self.vision_before().into());
        }
        let (mut wall, mut busy) = match roles.map(|role| self.only(role)) {
            [Ok(prefill), Ok(decode)] => {
                let stages = [prefill, decode].into_iter().chain(self.of_role(Role::VisionBefore));
                let sum = |time: fn(&StageInput) -> Figure| {
                    stages.clone().fold(Figure::of(0.0), |sum, stage| {
                        sum.plus(&time(stage).times(&per_generation(stage)))
                    })
                };
                (sum(wall_s), sum(busy_s))
            }
            [Err(why), _] | [_, Err(why)] => (Figure::Absent(why.clone()), Figure::Absent(why)),
        };
        let overlap = |why: &str| Figure::Absent(Absent::StagesOverlap { why: why.to_owned() });
        match self.inputs.joined {
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
        let mut found = self.of_role(role);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(Absent::NoStage { stage: stage.to_owned() }),
            (Some(_), Some(_)) => Err(Absent::SeveralStages { stage: stage.to_owned() }),
        }
    }

    pub(super) fn assumptions(&self) -> Vec<String> {
        let Ok(model) = self.model() else { return Vec::new() };
        let mut lines = vec![format!(
            "MFU: FLOPs / (time x dense peak for {}). MBU: (weights + KV cache that decode has to \
             read) / (time x peak bandwidth); weights as {}, KV cache as {}; activations and cache \
             writes are left out.",
            model.dtype.precision(),
            model.weight_dtype,
            model.kv_cache_dtype,
        )];
        if let Some(joined) = self.inputs.joined.filter(|joined| *joined < 1.0) {
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
        let is_computed =
            |part: &VisionPart| given(model, *part).is_none() && self.vision_flops(*part).is_ok();
        let mut used = self.parts(Role::VisionInPrefill);
        used.extend(self.parts(Role::VisionBefore));
        used.push(VisionPart::Whole);
        let shape = model.shape.vision_parts.as_ref();
        let shape = shape.filter(|_| vision_seen && used.iter().any(is_computed));
        lines.extend(shape.and_then(|shape| vision::assumption(shape, self.inputs.tokens)));
        lines.extend(model.assumptions.iter().cloned());
        lines
    }
}

fn part_of(stage: &StageInput) -> VisionPart {
    VisionPart::of_range(&stage.stage).unwrap_or(VisionPart::Whole)
}

/// FLOPs of a part of the vision encoder in one generation that are given, and not to be computed.
fn given(model: &Model, part: VisionPart) -> Option<f64> {
    let whole = model.vision_flops_per_prefill.filter(|_| part == VisionPart::Whole);
    whole.or_else(|| model.vision_part_flops_per_prefill.of(part))
}

/// How often the stage occurs in a generation.
fn per_generation(stage: &StageInput) -> Figure {
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
