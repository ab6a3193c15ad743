//! How far a run and its passes came: states that `run.json` holds.

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
