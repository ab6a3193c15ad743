//! How a process ended.

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

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
