//! A number that may be missing -> the number, or "none, because ...": never zero, never NaN.

use serde::{Deserialize, Serialize};

use crate::peaks::Precision;

/// A number, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// The number; always finite.
    Known(f64),
    /// Why there is none.
    Absent(Absent),
}

/// Why a number is missing, to be read after "none, because".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Absent {
    /// No model is configured.
    #[error(
        "no model is configured (choose one, also for stage2-launch report RUN_DIR: \
         model/llm=NAME, or model.llm.config_json=PATH)"
    )]
    NoModel,
    /// The model that is configured cannot be used.
    #[error("{why}")]
    BadModel {
        /// Why.
        why: String,
    },
    /// A token count is not known.
    #[error("{count} is not known (give it in the configuration, or let the workload write it)")]
    NoTokenCount {
        /// Which.
        count: String,
    },
    /// The GPU has no known peak rate for the model's arithmetic.
    #[error(
        "the GPU's dense peak for {precision} is not known (set hardware.dense_tflops.{precision})"
    )]
    NoPeak {
        /// The precision.
        precision: Precision,
    },
    /// The GPU's peak memory bandwidth is not known.
    #[error("the GPU's peak memory bandwidth is not known (set hardware.memory_gb_per_s)")]
    NoBandwidth,
    /// There is no such stage.
    #[error("no stage is {stage} (mark it with an NVTX range, or name its range in roles.{stage})")]
    NoStage {
        /// Which.
        stage: String,
    },
    /// Several stages could be meant.
    #[error("more than one stage is {stage} (roles.{stage} selects one)")]
    SeveralStages {
        /// Which kind.
        stage: String,
    },
    /// Stages overlap, and their times do not add up.
    #[error("its stages may overlap (several threads or streams), and it is not known {why}")]
    StagesOverlap {
        /// What is not known, to be read after "it is not known".
        why: String,
    },
    /// The wall time of the stage was not measured.
    #[error("the wall time of the stage is not known")]
    NoWallTime,
    /// The GPU busy time of the stage was not measured.
    #[error("the GPU busy time of the stage is not known")]
    NoBusyTime,
    /// A time or count is zero, so that nothing can be divided by it.
    #[error("{of} is zero")]
    Zero {
        /// Which.
        of: String,
    },
    /// The number of kernels is not known.
    #[error("the number of kernels is not known")]
    NoKernels,
    /// It is computed for decode only.
    #[error("it is computed for decode only")]
    DecodeOnly,
    /// No range lasts from the arrival of a request to its first token.
    #[error(
        "no range lasts from the arrival of a request to its first token, or several do (open one named \
         time_to_first_token)"
    )]
    NoRequests,
    /// It is computed for prefill only.
    #[error("it is computed for prefill only")]
    PrefillOnly,
    /// No warm step of the stage was timed.
    #[error("no warm step of the stage was timed")]
    NoStepTime,
    /// The stage is not part of the model that FLOPs are computed for.
    #[error("the FLOPs of this stage are not modelled")]
    NotModelled,
    /// The FLOPs of the vision encoder are not known.
    #[error(
        "the FLOPs of the vision encoder are not known (set model.llm.vision_flops_per_prefill)"
    )]
    NoVisionFlops,
    /// The FLOPs of a part of the vision encoder are not known.
    #[error(
        "the FLOPs of {part}, a part of the vision encoder, are not known (set \
         model.llm.vision_part_flops_per_prefill.{part})"
    )]
    NoVisionPartFlops {
        /// The name of its stage.
        part: String,
    },
    /// No counters were measured.
    #[error("no counters were measured")]
    NotMeasured,
    /// Counters know too little of the stage.
    #[error("only {covered} of the stage's kernel time has counters{}", few_counters(one_launch))]
    FewCounters {
        /// Share of the stage's kernel time with counters, with its unit.
        covered: String,
        /// Share of the stage's kernel time with counters of a single launch only, with its unit; `None` if there
        /// is no such time.
        one_launch: Option<String>,
    },
    /// The GPU's energy was not read.
    #[error("the energy of the GPU is not known ({why})")]
    NoEnergy {
        /// Why.
        why: String,
    },
    /// The stage is too short for the energy counter.
    #[error(
        "its windows add up to less than 1 s, and the GPU's energy counter changes every 0.1 s"
    )]
    TooShortForEnergy,
    /// The reads of the energy are too far apart for the windows of the stage.
    #[error(
        "its error can be {percent} % (the limit is 10 %), because the GPU's energy was read only every \
         {spacing_ms} ms; longer windows have a smaller one"
    )]
    EnergyUncertain {
        /// How far it could be off, percent, rounded.
        percent: u64,
        /// Mean time between reads, ms.
        spacing_ms: u64,
    },
    /// Processes of the run used the GPU at the same time.
    #[error("several processes of the run used the GPU at once, and its energy is theirs together")]
    SharedGpu,
    /// The stage ran on several GPUs.
    #[error("the stage ran on several GPUs, and it is not known which tokens each worked on")]
    SeveralGpus,
    /// Its instances do not divide evenly among the generations.
    #[error("it is not known which steps or calls make up a generation")]
    NoGenerations,
    /// The calculation gives no finite number.
    #[error("the calculation gives no finite number")]
    NotFinite,
}

fn few_counters(one_launch: &Option<String>) -> String {
    match one_launch {
        None => " (raise pipeline.ncu.top_n)".to_owned(),
        Some(share) => format!(
            " that stand for all calls of their rows; of another {share} one launch was profiled \
             that need not stand for the others (see counters under How to read this)"
        ),
    }
}

impl Figure {
    /// The number, if it is finite.
    pub fn of(value: f64) -> Figure {
        if value.is_finite() { Figure::Known(value) } else { Figure::Absent(Absent::NotFinite) }
    }

    /// The number.
    pub fn value(&self) -> Option<f64> {
        self.known().ok()
    }

    /// Why there is none.
    pub fn absent(&self) -> Option<&Absent> {
        let Figure::Absent(absent) = self else { return None };
        Some(absent)
    }

    /// The number as `show` writes it, or "none, because ...".
    pub fn text(&self, show: impl Fn(f64) -> String) -> String {
        match self {
            Figure::Known(value) => show(*value),
            Figure::Absent(absent) => format!("none, because {absent}"),
        }
    }

    fn known(&self) -> Result<f64, Absent> {
        match self {
            Figure::Known(value) => Ok(*value),
            Figure::Absent(absent) => Err(absent.clone()),
        }
    }

    /// `self / by`; `of` names what `by` is, should it be zero.
    pub fn over(&self, by: &Figure, of: &str) -> Figure {
        let quotient = self.known().and_then(|value| match by.known()? {
            0.0 => Err(Absent::Zero { of: of.to_owned() }),
            by => Ok(value / by),
        });
        quotient.into()
    }

    /// What `f` makes of the number.
    pub fn map(&self, f: impl FnOnce(f64) -> f64) -> Figure {
        self.known().map(f).into()
    }

    /// The product, if both are known.
    pub fn times(&self, other: &Figure) -> Figure {
        self.known().and_then(|value| Ok(value * other.known()?)).into()
    }

    /// The sum, if both are known.
    pub fn plus(&self, other: &Figure) -> Figure {
        self.known().and_then(|value| Ok(value + other.known()?)).into()
    }
}

impl From<Result<f64, Absent>> for Figure {
    fn from(result: Result<f64, Absent>) -> Figure {
        result.map_or_else(Figure::Absent, Figure::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_ever_zero_or_nan_for_want_of_data() {
        let (one, zero) = (Figure::of(1.0), Figure::of(0.0));
        assert_eq!(
            one.over(&zero, "wall time"),
            Figure::Absent(Absent::Zero { of: "wall time".into() })
        );
        assert_eq!(Figure::of(f64::NAN), Figure::Absent(Absent::NotFinite));
        assert_eq!(Figure::of(1e300).map(|v| v * 1e300), Figure::Absent(Absent::NotFinite));
        let absent = Figure::Absent(Absent::NoModel);
        for figure in [absent.over(&one, "x"), one.over(&absent, "x"), absent.plus(&one)] {
            assert_eq!(figure, absent);
            assert!(figure.text(|v| v.to_string()).starts_with("none, because no model"));
        }
        assert_eq!(zero.over(&one, "x").text(|v| format!("{v:.1}")), "0.0");
    }

    #[test]
    fn figures_survive_json() {
        for figure in [
            Figure::of(0.25),
            Figure::Absent(Absent::NoModel),
            Figure::Absent(Absent::NoTokenCount { count: "batch_size".into() }),
        ] {
            let json = serde_json::to_string(&figure).expect("JSON");
            assert_eq!(serde_json::from_str::<Figure>(&json).expect(&json), figure);
        }
    }
}
