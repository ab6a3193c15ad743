//! How the workload ended under the collector, where it did not end in order.

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

/// A workload that ended early: the report is of what it did until then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadEnd {
    /// What ended it.
    pub how: EndedBy,
    /// Exit status or signal; null: not known.
    pub exit: Option<WorkloadExit>,
    /// Both in one clause.
    pub text: String,
    /// What its output or its signal points to; null: neither tells.
    pub likely_cause: Option<String>,
    /// File of the bundle that holds its output; null: it went to the terminal only.
    pub log: Option<String>,
}

/// What ended a workload early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// It failed: an exit status other than 0, or a signal that is not ours.
    Failure,
    /// The time limit (`run.timeout_s`).
    TimeLimit,
    /// A signal that stage2-launch got and handed on.
    Interrupt,
}

impl WorkloadEnd {
    /// For the first lines of a page, without a full stop.
    pub fn sentence(&self) -> String {
        let cause = self.likely_cause.as_ref();
        let cause = cause.map_or_else(String::new, |cause| format!("; likely cause: {cause}"));
        format!("{}{cause}; the numbers cover what it did until then", self.text)
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkloadExit {
    /// By itself, with this exit status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl WorkloadExit {
    /// Whether it ended in any other way than with status 0.
    pub fn is_failure(self) -> bool {
        self != WorkloadExit::Code(0)
    }

    /// `exit status 3`, `ended by SIGKILL`.
    pub fn describe(self) -> String {
        match self {
            WorkloadExit::Code(code) => format!("exit status {code}"),
            WorkloadExit::Signal(signal) => match Signal::try_from(signal) {
                Ok(known) => format!("ended by {}", known.as_str()),
                Err(_) => format!("ended by signal {signal}"),
            },
        }
    }
}
