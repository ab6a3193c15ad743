//! What the numbers say: by which rule, on what evidence, how sure that is, and what would confirm it.

use serde::{Deserialize, Serialize};

use crate::finding::Severity;
use crate::rule::Rule;

/// A value without an error is clear of a threshold if it differs from it by this share of the threshold, percent.
pub const CLEAR_PERCENT: f64 = 10.0;
/// A value with an error is clear of a threshold if it differs from it by so many standard errors.
pub const CLEAR_ERRORS: f64 = 2.0;
/// A value with a larger standard error than this share of it rests on few samples, percent: about 45 of equal weight.
pub const ROUGH_PERCENT: f64 = 15.0;

/// One thing that the numbers say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Takeaway {
    /// Names it, the same in every report of the workload: `RULE:STAGE`, and behind another colon what of the stage
    /// it is about, if the rule can say several things of a stage.
    #[serde(default)]
    pub id: String,
    /// The rule that it follows from.
    pub rule: Rule,
    /// `warning`: something can be done about it, or the report has to be read with care; `note`: neither.
    #[serde(default)]
    pub severity: Severity,
    /// The stage that it is about.
    pub stage: Option<String>,
    /// What of the stage it is about: a kernel, or what the host does; null: the stage as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The statement, with its numbers.
    pub text: String,
    /// The numbers that it rests on, those that decide first.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// How sure it is.
    #[serde(default)]
    pub confidence: Confidence,
    /// What to do.
    pub recommendation: Option<String>,
    /// Part of the sum of all stages' windows of warm calls that is concerned, percent. Stages without GPU work of
    /// their own are not in the sum, unless no stage has any.
    pub concerns_percent: Option<f64>,
    /// Part of the window of the warm calls of its stage that is concerned, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_stage_percent: Option<f64>,
    /// What would confirm or refute it; null: of reports of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
}

/// A short name of a subject that is the same in every report, for [`Takeaway::id`].
pub fn short_hash(subject: &str) -> String {
    // FNV-1a: what a hasher of the standard library gives may change with the compiler.
    let hash = subject
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{:06x}", (hash >> 24) ^ (hash & 0x00ff_ffff))
}

/// A number, or a state, that a takeaway or a finding rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: EvidenceValue,
    /// Its unit: `percent`, `us`, `ns`, `count`, `per_second`, `ratio`, `MHz`; null: it is not a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// What a share is of; null: it is not a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<String>,
    /// JSON pointer of the field of `metrics.json` that holds the value.
    pub source: String,
    /// Standard error, in the unit; null: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The value from which, or up to which, the rule applies; null: it does not decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}

/// What the shares of takeaways are of.
fn basis_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "windows_percent" => "the windows of all stages",
        "idle_percent" | "exposed_copies_percent" => "the window of the stage",
        "launch_gaps_of_idle_percent" | "cause_percent" => "the idle time of the stage",
        "host_ahead_percent" => "the idle time of the median step",
        "waiting_percent" | "communication_percent" => {
            "the GPU busy time that the window of the stage shows, else its kernel time"
        }
        "fusible_percent" | "copies_percent" | "kernel_time_percent" => {
            "the kernel time of the stage"
        }
        "late_waiting_percent" => "all waiting in compared collectives of the stage",
        "mfu_percent" => "the dense peak, over wall time",
        "mbu_percent" => "the peak bandwidth, over wall time",
        "mbu_busy_percent" => "the peak bandwidth, over GPU busy time",
        "attainable_percent" => "the attainable rate",
        "occupancy_percent" => "the most warps",
        _ => return None,
    })
}

/// A value of [`Evidence`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum EvidenceValue {
    /// A number.
    Number(f64),
    /// Something is so, or is not.
    Flag(bool),
    /// A state by its name.
    State(String),
}

impl Evidence {
    /// A number with its unit.
    pub fn number(name: &str, value: f64, unit: &str, source: String) -> Self {
        Self {
            name: name.to_owned(),
            value: EvidenceValue::Number(value),
            unit: Some(unit.to_owned()),
            basis: basis_of(name).map(str::to_owned),
            source,
            error: None,
            threshold: None,
        }
    }

    /// A state.
    pub fn state(name: &str, value: EvidenceValue, source: &str) -> Self {
        Self { value, unit: None, ..Self::number(name, 0.0, "", source.to_owned()) }
    }

    /// With its standard error.
    #[must_use]
    pub fn error(self, error: f64) -> Self {
        Self { error: Some(error), ..self }
    }

    /// With the threshold that the rule compares it with.
    #[must_use]
    pub fn against(self, threshold: f64) -> Self {
        Self { threshold: Some(threshold), ..self }
    }

    /// The number; none of a state.
    pub fn as_number(&self) -> Option<f64> {
        match self.value {
            EvidenceValue::Number(number) => Some(number),
            _ => None,
        }
    }

    /// How far the value keeps clear of its threshold: 1 is just clear. Not known without a threshold.
    fn clearance(&self) -> Option<f64> {
        let distance = (self.as_number()? - self.threshold?).abs();
        let clear = match self.error.filter(|error| *error > 0.0) {
            Some(error) => error * CLEAR_ERRORS,
            None => self.threshold?.abs() * CLEAR_PERCENT / 100.0,
        };
        Some(if clear > 0.0 { distance / clear } else { f64::INFINITY })
    }

    /// Whether a value that decides was estimated from too few samples.
    fn is_rough(&self) -> bool {
        let of = self.as_number().zip(self.error).filter(|_| self.threshold.is_some());
        of.is_some_and(|(value, error)| error * 100.0 > value.abs() * ROUGH_PERCENT)
    }
}

/// How sure a takeaway is.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::Display,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Confidence {
    /// Times are of too few instances, or cannot be relied on, or a value is closer to its threshold than half of what
    /// would be clear.
    Low,
    /// Neither of the others; also for reports of older versions, which do not state it.
    #[default]
    Medium,
    /// Every value that decides keeps clear of its threshold, by [`CLEAR_ERRORS`] standard errors or
    /// [`CLEAR_PERCENT`] percent of it, its standard error is at most [`ROUGH_PERCENT`] percent of it, and the capture is
    /// complete.
    High,
}

impl Confidence {
    /// By the evidence. `reliable`: the times are of enough instances, and nothing speaks against them. `complete`:
    /// nothing of the capture is missing.
    pub fn of(evidence: &[Evidence], reliable: bool, complete: bool) -> Self {
        let closest = evidence.iter().filter_map(Evidence::clearance).fold(f64::INFINITY, f64::min);
        let rough = evidence.iter().any(Evidence::is_rough);
        match closest {
            _ if !reliable => Self::Low,
            closest if closest < 0.5 => Self::Low,
            closest if closest >= 1.0 && complete && !rough => Self::High,
            _ => Self::Medium,
        }
    }
}

/// What would confirm or refute a takeaway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Experiment {
    /// Follow the recommendation, run again, and compare.
    Change {
        /// The metric of the stage that has to change, as conditions of `diff` name it.
        metric: String,
        /// How much the metric changes at best, percent; null: not known.
        at_best_percent: Option<f64>,
        /// Standard error of that, percentage points: it is an estimate from samples of the host, which may be exceeded;
        /// null: it is a bound.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_percent: Option<f64>,
        /// Whether the metric grows; else it falls.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        grows: bool,
    },
    /// Record what is missing.
    Measure {
        /// Settings of the run that record it; empty: the recommendation states what to change.
        settings: Vec<String>,
        /// What the report of that run has then: a JSON pointer into `metrics.json`.
        shows: String,
        /// The value at `shows` in that report; null: any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<EvidenceValue>,
    },
}

impl Experiment {
    /// A change by which the steps of a stage take less time: the mean step, since gains are shares of it, and since
    /// the median does not show what happens in some steps only.
    pub fn shorter_steps() -> Self {
        Self::Change {
            metric: "step_mean_ms".to_owned(),
            at_best_percent: None,
            error_percent: None,
            grows: false,
        }
    }

    /// A change by which `metric` grows.
    pub fn more(metric: &str) -> Self {
        Self::Change {
            metric: metric.to_owned(),
            at_best_percent: None,
            error_percent: None,
            grows: true,
        }
    }

    /// A run with `setting`, whose report has `shows`.
    pub fn measured_with(setting: &str, shows: &str) -> Self {
        Self::Measure { settings: vec![setting.to_owned()], shows: shows.to_owned(), value: None }
    }

    /// A run whose report has `value` at `shows`.
    pub fn shown_by(shows: &str, value: EvidenceValue) -> Self {
        Self::Measure { settings: Vec::new(), shows: shows.to_owned(), value: Some(value) }
    }
}

/// The numbers of a stage that the rules decide by. Shares are those of [`Takeaway::text`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StageNumbers {
    /// [`StageRow::stage`](crate::StageRow::stage).
    pub stage: String,
    /// Why no advice follows from its times; null: advice does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// Share of its time that the warm-up in its first instances makes up, percent; null: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_percent: Option<f64>,
    /// Warm instances that the GPU's times are of; null: cold ones are among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_instances: Option<u64>,
    /// Share of its window in the windows of all stages, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows_percent: Option<f64>,
    /// Share of the window in which the GPU was idle, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_percent: Option<f64>,
    /// Share of the idle time in launch gaps, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_gaps_of_idle_percent: Option<f64>,
    /// Share of the idle time of the median step before work that the host had launched already, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_ahead_percent: Option<f64>,
    /// Share of the idle time of the median step before work that the host had not reached, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_behind_percent: Option<f64>,
    /// Number of kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels: Option<u64>,
    /// GPU time per kernel, us: of warm instances the time in which kernels ran over their number, else the mean
    /// duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_mean_us: Option<f64>,
    /// Window per kernel, us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_us: Option<f64>,
    /// Share of the kernels that CUDA graphs launched, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph_percent: Option<f64>,
    /// Share of waiting for other ranks, percent: of the GPU busy time that the window of the stage shows where that
    /// is split, else of the kernel time of all instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_percent: Option<f64>,
    /// Share of communication in the same time, percent: without the waiting above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication_percent: Option<f64>,
    /// Share of kernels that could be fused in the kernel time, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fusible_percent: Option<f64>,
    /// Share of kernels that copy in the kernel time, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies_percent: Option<f64>,
    /// Share of the window in which copies and fills run without a kernel, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_copies_percent: Option<f64>,
    /// MFU over wall time, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfu_percent: Option<f64>,
    /// MBU over wall time, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mbu_percent: Option<f64>,
    /// MBU over GPU busy time, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mbu_busy_percent: Option<f64>,
    /// Its longest kernels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_kernels: Vec<KernelNumbers>,
}

/// The numbers of a kernel that the rules decide by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct KernelNumbers {
    /// Its name: an index into `kernel_names`.
    pub name_index: usize,
    /// Share of the kernel time of the stage, percent.
    pub kernel_time_percent: f64,
    /// Calls.
    pub calls: u64,
    /// Share of what is attainable under the roof, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attainable_percent: Option<f64>,
    /// Warps resident on average, percent of the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy_percent: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(value: f64) -> Evidence {
        Evidence::number("idle_percent", value, "percent", "/x".to_owned())
    }

    #[test]
    fn what_keeps_clear_of_its_threshold_is_sure() {
        let of = |evidence: &[Evidence]| Confidence::of(evidence, true, true);
        assert_eq!(of(&[value(33.1).against(30.0)]), Confidence::High);
        assert_eq!(of(&[value(32.0).against(30.0)]), Confidence::Medium);
        assert_eq!(of(&[value(30.5).against(30.0)]), Confidence::Low);
        let shares = [
            (44.0, Confidence::High),
            (43.0, Confidence::Medium),
            (20.0, Confidence::Medium),
            (15.0, Confidence::Low),
        ];
        for (share, confidence) in shares {
            assert_eq!(of(&[value(share).error(6.5).against(13.0)]), confidence, "{share}");
        }
        // The weakest counts, also below a threshold; what decides nothing does not.
        assert_eq!(of(&[value(90.0).against(30.0), value(9.8).against(10.0)]), Confidence::Low);
        assert_eq!(of(&[value(1.0)]), Confidence::High);
        let sure = [value(90.0).against(30.0)];
        assert_eq!(Confidence::of(&sure, false, true), Confidence::Low);
        assert_eq!(Confidence::of(&sure, true, false), Confidence::Medium);
        assert_eq!(
            of(&[value(f64::NAN).against(1.0)]),
            Confidence::High,
            "it speaks of no such value"
        );
        assert_eq!(of(&[value(0.0).against(0.0)]), Confidence::High);
    }

    #[test]
    fn evidence_and_experiments_survive_json() {
        let experiment = Experiment::shown_by("/simulated", EvidenceValue::Flag(false));
        let evidence = vec![
            value(3.0).error(0.5),
            Evidence::state("s", EvidenceValue::State("x".into()), "/s"),
        ];
        let takeaway = Takeaway { evidence, experiment: Some(experiment), ..Takeaway::default() };
        let text = serde_json::to_string(&takeaway).expect("JSON");
        assert_eq!(serde_json::from_str::<Takeaway>(&text).expect("a takeaway"), takeaway);
        // Of an older version.
        let older = r#"{"rule": "copies", "stage": "decode", "text": "t", "recommendation": null, "concerns_percent": 1.5}"#;
        let older: Takeaway = serde_json::from_str(older).expect("a takeaway");
        assert_eq!((older.rule, older.evidence.len(), older.experiment), (Rule::Copies, 0, None));
    }
}
