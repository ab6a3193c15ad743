//! What follows from the measured rows: operators, takeaways, and MFU, MBU and rates of stages and of the
//! model, each a number or the reason for none.

use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::finding::Finding;
use crate::operators::Operators;
use crate::peaks::{Peaks, Precision};
use crate::rule::Takeaway;
use crate::tokens::TokenCounts;

/// What a stage is to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct Utilisation {
    /// Each stage, in the order given.
    pub stages: Vec<StageUtilisation>,
    /// Prefill and decode together, one generation.
    pub model: ModelUtilisation,
    /// Precision whose peak MFU is held against.
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
pub struct StageUtilisation {
    /// Its name.
    pub stage: String,
    /// The range that it lies in, if any: then its busy time is the sum of its kernels' durations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// What it is to the model.
    pub role: Role,
    /// What its times are.
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
    /// MFU over wall time, share.
    pub mfu_wall: Figure,
    /// MFU over GPU busy time, share.
    pub mfu_busy: Figure,
    /// MFU from the measured FLOPs, over GPU busy time, share.
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
    /// What sampled counters say of the use of the hardware; null: none were sampled of this stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledUse>,
}

/// What sampled counters say of a stage, beside what follows from its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampledUse {
    /// DRAM bytes that one instance read; null, here and below: not sampled.
    pub read_bytes: Option<f64>,
    /// These over the bytes of weights and KV cache that the model has to read.
    pub read_over_modelled: Option<f64>,
    /// DRAM bytes read and written over what the peak bandwidth moves in the stage's GPU windows, share.
    pub mbu_gpu_window: Option<f64>,
    /// Cycles of the GPU windows in which the tensor pipe worked, share.
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

/// What follows from the rows; fields of the report itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Insight {
    /// Operators of the run, or why there are none; null where nobody looked.
    pub operators: Option<Operators>,
    /// How much of the GPU's peak the model used; null where nobody looked.
    pub utilisation: Option<ModelUse>,
    /// What the numbers say, the most important first.
    #[serde(default)]
    pub takeaways: Vec<Takeaway>,
}

/// Time in which any of the model's stages (prefill, decode, vision) was open or had GPU work: the
/// union of their windows in a process, summed over processes. Null: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What nobody has said, and the floor, MFU and MBU need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        (!self.is_empty())
            .then(|| format!("not known: {} gives it, with your NAME and N", self.command()))
    }
}

/// Stands for the folder of a run in a command, where it is not known.
pub const RUN_DIR: &str = "RUN_DIR";

/// How much of the GPU's peak the model used, and what that was computed from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

    /// Dense peak that MFU is held against, TFLOP/s.
    pub fn peak_dense_tflops(&self) -> Option<f64> {
        *self.peaks.as_ref()?.dense_tflops.get(&self.numbers.precision?)?
    }
}
