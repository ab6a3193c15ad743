//! Why nothing came of it -> the message and the exit status.

use crate::bundle::FolderError;
use crate::config::ConfigError;
use crate::run::EXIT_NO_RESULT;
use crate::workload::NotRunnable;
use stage2_model::{Finding, Severity};

/// What ends the program before it has a result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or the configuration is wrong.
    Usage(String),
    /// The profiling failed.
    NoResult(String),
    /// The workload cannot be run; the exit status is that of a shell.
    NotRun { text: String, exit: u8 },
}

impl Failure {
    /// The exit status.
    pub(crate) fn exit(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::NoResult(_) => EXIT_NO_RESULT,
            Failure::NotRun { exit, .. } => *exit,
        }
    }

    /// What to tell.
    pub(crate) fn text(&self) -> &str {
        match self {
            Failure::Usage(text) | Failure::NoResult(text) => text,
            Failure::NotRun { text, .. } => text,
        }
    }
}

impl From<NotRunnable> for Failure {
    fn from(problem: NotRunnable) -> Failure {
        let NotRunnable { exit, what, why, remedy } = problem;
        Failure::NotRun { text: Finding::new(Severity::Error, what, why, remedy).to_string(), exit }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Failure {
        Failure::Usage(error.to_string())
    }
}
