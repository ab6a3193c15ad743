//! How far a run and its passes came, as `run.json` says it, the tools that took part, and what passes cost.

use serde::{Deserialize, Serialize};

/// How far a run came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Its passes run, or stage2-launch was killed during one.
    Running,
    /// Its passes are over; the reports are being written, or that was cut off.
    Reporting,
    /// It ended in order, and so does this record.
    Closed,
    /// An older version wrote the record, which does not say.
    #[default]
    Unknown,
}

/// How far a pass came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassStatus {
    /// It is still to come.
    #[default]
    Planned,
    /// It runs, or was killed together with stage2-launch.
    Running,
    /// Its workload ended with status 0, and what was measured was kept.
    Ok,
    /// Its workload ended with another status or by a signal. What was measured until then was kept.
    WorkloadFailed,
    /// The time limit ended its workload. What was measured until then was kept.
    TimedOut,
    /// Its workload did not go on after a signal that stage2-launch handed on.
    Interrupted,
    /// It could not be started, or left nothing.
    Failed,
    /// It was left out.
    Skipped,
}

impl PassStatus {
    /// The status that `run.json` has this word for.
    pub fn of_word(word: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::from(word)).ok()
    }

    /// Whether the pass ran and kept what it measured, however its workload ended.
    pub fn has_data(self) -> bool {
        use PassStatus::{Interrupted, Ok, TimedOut, WorkloadFailed};
        matches!(self, Ok | WorkloadFailed | TimedOut | Interrupted)
    }
}

/// A tool that took part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Where it was found.
    pub path: Option<String>,
    /// What it says about its version.
    pub version: Option<String>,
}

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
    pub host_warm_instances: Option<u64>,
    /// Sample standard deviation of their host time, ns.
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

/// A tool that measures.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Origin {
    /// The collector: undisturbed durations of every launch.
    #[default]
    Collector,
    /// Nsight Systems.
    Nsys,
    /// Nsight Compute: replayed launches, at other clocks and with cold caches.
    Ncu,
}

impl Origin {
    /// Its name in reports.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// Where the numbers of a row come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    /// Calls and durations.
    pub times: Origin,
    /// Counters; null where there are none.
    pub counters: Option<Origin>,
}

impl Sources {
    /// The names of the two origins, for people: `collector, ncu`.
    pub fn label(&self) -> String {
        match self.counters {
            Some(counters) if counters != self.times => {
                format!("{}, {}", self.times.label(), counters.label())
            }
            _ => self.times.label().to_owned(),
        }
    }
}
