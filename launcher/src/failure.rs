//! Why nothing came of it -> the message and the exit status.

/// The exit status where a step of the profiling left no result.
pub(crate) const EXIT_NO_RESULT: u8 = 70;

/// What ends the program before it has a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// The profiling failed.
    #[error("{0}")]
    NoResult(String),
    /// The workload cannot be run; the exit status is that of a shell.
    #[error("{text}")]
    NotRun { text: String, exit: u8 },
}

impl Failure {
    pub(crate) fn no_result(error: anyhow::Error) -> Failure {
        Failure::NoResult(format!("{error:#}"))
    }

    pub(crate) fn exit(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::NoResult(_) => EXIT_NO_RESULT,
            Failure::NotRun { exit, .. } => *exit,
        }
    }
}
