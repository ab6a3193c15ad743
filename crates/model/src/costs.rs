//! What the passes cost: host times of the stages in each, beside those of an untraced run.

use serde::{Deserialize, Serialize};

/// What each pass cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassCosts {
    /// Why no stage is compared, to be read after "none, because"; null where some are.
    pub absent: Option<String>,
    /// Each stage in each pass; the baseline first.
    pub stages: Vec<StageCost>,
    /// How long each pass took as a whole.
    pub passes: Vec<PassDuration>,
    /// What is missing from the rows, and why.
    pub notes: Vec<String>,
}

impl PassCosts {
    /// What to do to have untraced times, after a full stop; empty where a baseline pass was tried.
    pub fn remedy(&self) -> &'static str {
        match self.passes.iter().any(|pass| pass.pass == "baseline") {
            true => "",
            false => ". Run with run.baseline=true to have them",
        }
    }
}

/// Host time of a stage in one pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageCost {
    /// [`super::StageRow::stage`].
    pub stage: String,
    /// Name of the pass.
    pub pass: String,
    /// Times that it was opened.
    pub instances: Option<u64>,
    /// Host time of all closed instances, ns.
    pub host_total_ns: Option<u64>,
    /// Closed instances without the first of each process; null: the pass does not say.
    #[serde(default)]
    pub host_warm_instances: Option<u64>,
    /// Sample standard deviation of their host time, ns.
    #[serde(default)]
    pub host_warm_std_ns: Option<u64>,
    /// Median host time without the first instance of each process, ns.
    pub host_warm_median_ns: Option<u64>,
    /// That median over the baseline's; null for the baseline itself.
    pub ratio: Option<f64>,
}

/// How long a pass took, from the start of its process to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassDuration {
    /// Name of the pass.
    pub pass: String,
    /// Wall time, milliseconds; null where it did not run.
    pub duration_ms: Option<u64>,
    /// That over the baseline's; null for the baseline itself.
    pub ratio: Option<f64>,
}
