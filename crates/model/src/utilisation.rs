//! What follows from the measured rows: operators, takeaways, and MFU, MBU and rates of stages and of the
//! model, each a number or the reason for none.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::figure::{Absent, Figure};
use crate::finding::Finding;
use crate::peaks::{Peaks, Precision};
use crate::rows::Operators;
use crate::takeaway::{StageNumbers, Takeaway};

/// What a stage is to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    #[default]
    Other,
}

/// Utilisation of all stages and of the model, with what it takes for granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Utilisation {
    /// Each stage, in the order given.
    pub stages: Vec<StageUtilisation>,
    /// Prefill and decode together, one generation.
    pub model: ModelUtilisation,
    /// Precision of the peak that MFU is relative to.
    pub precision: Option<Precision>,
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageUtilisation {
    /// Name of the stage.
    pub stage: String,
    /// The range that it lies in, if any: then its busy time is the sum of its kernels' durations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// What it is to the model.
    pub role: Role,
    /// The time that the rates are over.
    pub basis: String,
    /// FLOPs of one instance, from the model's shape.
    pub flops: Figure,
    /// FLOPs of one instance, measured: without kernels whose counters are missing or of one launch
    /// only, and with what tensor cores compute on padding.
    pub measured_flops: Figure,
    /// Kernel time whose counters stand for all calls, percent of the stage's; null: no counters.
    pub measured_percent: Option<f64>,
    /// Share whose counters are of one launch only, and not in `measured_flops`, percent.
    pub one_launch_percent: Option<f64>,
    /// MFU over wall time, as a fraction of 1.
    pub mfu_wall: Figure,
    /// MFU over GPU busy time, as a fraction of 1.
    pub mfu_busy: Figure,
    /// MFU from the measured FLOPs, over GPU busy time, as a fraction of 1.
    pub measured_mfu_busy: Figure,
    /// Bytes of weights and KV cache that one instance has to read.
    pub bytes: Figure,
    /// The part of `bytes` that is KV cache; null: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_cache_bytes: Option<f64>,
    /// MBU over wall time, as a fraction of 1.
    pub mbu_wall: Figure,
    /// MBU over GPU busy time, as a fraction of 1.
    pub mbu_busy: Figure,
    /// Tokens of one instance.
    pub tokens: Figure,
    /// Tokens per second over the time that `basis` names, which may include steps that no step time is of.
    pub tokens_per_s: Figure,
    /// GPU busy time per token, us.
    pub gpu_us_per_token: Figure,
    /// Kernels per token.
    pub kernels_per_token: Figure,
    /// What sampled counters say of the use of the hardware; null: none were sampled of this stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledUse>,
}

/// What sampled counters show about a stage, in addition to what follows from its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledUse {
    /// DRAM bytes that one instance read, the mean of all, cold ones included; null: not sampled.
    pub read_bytes: Option<f64>,
    /// `read_bytes` over the bytes of weights and KV cache that the model has to read; null: not sampled.
    pub read_over_modelled: Option<f64>,
    /// DRAM bytes read and written over what the peak bandwidth moves in the stage's GPU windows, as a fraction of 1;
    /// null: not sampled.
    pub mbu_gpu_window: Option<f64>,
    /// Cycles of the GPU windows in which the tensor pipe worked, as a fraction of 1; null: not sampled.
    pub tensor_active: Option<f64>,
    /// Part of the GPU windows that samples cover, percent.
    pub coverage_percent: f64,
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelUtilisation {
    /// FLOPs.
    pub flops: Figure,
    /// Wall time of its stages, joined where they overlap, s.
    pub wall_s: Figure,
    /// GPU busy time of its stages, s; absent where they overlap.
    pub busy_s: Figure,
    /// MFU over wall time, as a fraction of 1.
    pub mfu_wall: Figure,
    /// MFU over GPU busy time, as a fraction of 1.
    pub mfu_busy: Figure,
    /// Tokens that come out: one from prefill and one of each decode step, for every sequence.
    pub generated_tokens: Figure,
    /// Those per second of wall time.
    pub generated_tokens_per_s: Figure,
}

/// What follows from the rows; fields of the report itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Insight {
    /// Operators of the run, or why there are none; null where nobody looked.
    pub operators: Option<Operators>,
    /// How much of the GPU's peak the model used; null where nobody looked.
    pub utilisation: Option<ModelUse>,
    /// What the numbers say, the most important first.
    #[serde(default)]
    pub takeaways: Vec<Takeaway>,
    /// The numbers that the takeaways are drawn from, stage by stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stage_numbers: Vec<StageNumbers>,
}

/// Time in which any of the model's stages (prefill, decode, vision) was open or had GPU work: the
/// union of their windows in a process, summed over processes. Null: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelWindows {
    /// Of all (recorded) instances, ns.
    pub all_ns: Option<u64>,
    /// Of the warm ones of each stage, ns.
    pub warm_ns: Option<u64>,
}

impl ModelWindows {
    /// The sum of these windows and of others; `None` where one is not known.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self { all_ns: sum(self.all_ns, other.all_ns), warm_ns: sum(self.warm_ns, other.warm_ns) }
    }
}

/// Facts that the floor, MFU and MBU need and that are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Needs {
    /// The settings that give it, `KEY=NAME` or `KEY=N`.
    pub settings: Vec<String>,
}

impl Needs {
    /// Nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    /// The one command that gives it all.
    pub fn command(&self) -> String {
        format!("stage2-launch report {RUN_DIR} {}", self.settings.join(" "))
    }

    /// That it is not known, with the command; none where nothing is missing.
    pub fn sentence(&self) -> Option<String> {
        (!self.is_empty()).then(|| {
            format!("not known: to compute it, run {} with your own values", self.command())
        })
    }
}

/// Stands for the folder of a run in a command, where it is not known.
pub const RUN_DIR: &str = "RUN_DIR";

/// How much of the GPU's peak the model used, and what that was computed from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelUse {
    /// Name of the model; null: none is known.
    pub model_name: Option<String>,
    /// Why there is no model, to be read after "none, because"; null where there is one.
    pub absent: Option<String>,
    /// Tokens of one generation.
    pub tokens: TokenCounts,
    /// What has to be said to have all of the numbers.
    #[serde(default)]
    pub needs: Needs,
    /// Peak rates of the GPU; null: not known.
    pub peaks: Option<Peaks>,
    /// The numbers.
    #[serde(flatten)]
    pub numbers: Utilisation,
}

impl ModelUse {
    /// The card and where its peaks are from, with the keys that the configuration sets.
    pub fn peak_source(&self) -> Option<String> {
        let source = self.numbers.peak_source.as_ref()?;
        let set = self.peaks.as_ref().map(|peaks| peaks.overridden.join(", "));
        Some(match set.filter(|set| !set.is_empty()) {
            Some(set) => format!("{source} (set in the configuration: {set})"),
            None => source.clone(),
        })
    }

    /// Dense peak that MFU is compared with, TFLOP/s.
    pub fn peak_dense_tflops(&self) -> Option<f64> {
        *self.peaks.as_ref()?.dense_tflops.get(&self.numbers.precision?)?
    }
}

/// Tokens of one generation: a prefill and the decode steps after it. All generations are alike. A
/// method gives the count of its name, or the reason why it is not known or absurd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenCounts {
    /// Sequences side by side.
    pub batch_size: Option<u64>,
    /// Tokens of each prompt, those of images included.
    pub prompt_tokens: Option<u64>,
    /// Forward passes of one new token per sequence.
    pub decode_steps: Option<u64>,
    /// Images of each prompt.
    pub images_per_prompt: Option<u64>,
    /// Crops of each image that go through the vision encoder in addition to the whole image.
    pub crops_per_image: Option<u64>,
}

/// Counts above this are mistakes.
const MOST: u64 = 1 << 40;

impl TokenCounts {
    /// What a workload's `metrics.json` says: that of the example workload (`batch_size`,
    /// `prompt_tokens`, `decode_steps`), or that of a Stage 1 run (`aggregates.tokens.mean`, which
    /// counts decode steps of one sequence). What it does not say is none.
    pub fn from_metrics(metrics: &Value) -> TokenCounts {
        let count = |key: &str| metrics.get(key).and_then(Value::as_u64);
        let mean = metrics.pointer("/aggregates/tokens/mean").and_then(Value::as_f64);
        let mean = mean.filter(|m| m.is_finite() && (1.0..MOST as f64).contains(m));
        let stage1 = mean.map(|mean| mean.round() as u64);
        TokenCounts {
            batch_size: count("batch_size").or(stage1.map(|_| 1)),
            prompt_tokens: count("prompt_tokens"),
            decode_steps: count("decode_steps").or(stage1),
            images_per_prompt: count("images_per_prompt"),
            crops_per_image: count("crops_per_image"),
        }
    }

    /// These counts, and those of `other` where these have none.
    pub fn or(&self, other: &TokenCounts) -> TokenCounts {
        TokenCounts {
            batch_size: self.batch_size.or(other.batch_size),
            prompt_tokens: self.prompt_tokens.or(other.prompt_tokens),
            decode_steps: self.decode_steps.or(other.decode_steps),
            images_per_prompt: self.images_per_prompt.or(other.images_per_prompt),
            crops_per_image: self.crops_per_image.or(other.crops_per_image),
        }
    }

    /// Sequences side by side.
    pub fn batch(&self) -> Result<u64, Absent> {
        positive(self.batch_size, "batch_size")
    }

    /// Tokens of each prompt.
    pub fn prompt(&self) -> Result<u64, Absent> {
        positive(self.prompt_tokens, "prompt_tokens")
    }

    /// Decode steps.
    pub fn steps(&self) -> Result<u64, Absent> {
        positive(self.decode_steps, "decode_steps")
    }

    /// Images of each prompt.
    pub fn images(&self) -> Result<u64, Absent> {
        positive(self.images_per_prompt, "images_per_prompt")
    }

    /// Crops of each image; there may be none.
    pub fn crops(&self) -> Result<u64, Absent> {
        match self.crops_per_image {
            Some(0) => Ok(0),
            crops => positive(crops, "crops_per_image"),
        }
    }
}

fn positive(count: Option<u64>, name: &str) -> Result<u64, Absent> {
    match count {
        Some(0) => Err(Absent::Zero { of: name.to_owned() }),
        Some(count) if count <= MOST => Ok(count),
        _ => Err(Absent::NoTokenCount { count: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_of_metrics_are_read() {
        let runner = json!({"batch_size": 2, "prompt_tokens": 512, "decode_steps": 64, "x": 1});
        let counts = TokenCounts::from_metrics(&runner);
        assert_eq!((counts.batch(), counts.prompt(), counts.steps()), (Ok(2), Ok(512), Ok(64)));
        let stage1 = json!({"aggregates": {"tokens": {"mean": 64.0, "std": 0.0}}});
        let counts = TokenCounts::from_metrics(&stage1);
        assert_eq!((counts.batch(), counts.steps()), (Ok(1), Ok(64)));
        let missing = Absent::NoTokenCount { count: "prompt_tokens".into() };
        assert_eq!(counts.prompt(), Err(missing));
        let configured = TokenCounts { prompt_tokens: Some(913), ..TokenCounts::default() };
        assert_eq!(configured.or(&counts).prompt(), Ok(913));
    }

    #[test]
    fn absurd_counts_are_none() {
        for metrics in [
            json!(null),
            json!([]),
            json!({"batch_size": -1, "prompt_tokens": "many", "decode_steps": 1.5}),
            json!({"aggregates": {"tokens": {"mean": 1e300}}}),
            json!({"batch_size": u64::MAX}),
        ] {
            let counts = TokenCounts::from_metrics(&metrics);
            assert!(counts.batch().is_err() && counts.steps().is_err(), "{metrics}");
        }
        let counts = TokenCounts { batch_size: Some(0), ..TokenCounts::default() };
        assert_eq!(counts.batch(), Err(Absent::Zero { of: "batch_size".into() }));
    }
}
