//! A command of a profiler, and how it ended.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use stage2_model::WorkloadExit;

/// A command of a profiler that does not run the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Program and arguments; never empty.
    pub argv: Vec<OsString>,
    /// Where it has to run; none: anywhere.
    pub cwd: Option<PathBuf>,
    /// File that gets its standard output; none: the log.
    pub stdout: Option<PathBuf>,
    /// When it is ended.
    pub timeout: Option<Duration>,
}

/// How a command of a profiler ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its exit, which a profiler usually takes from the workload; none: it was not started, or could
    /// not be waited for.
    pub exit: Option<WorkloadExit>,
    /// Why it was not started.
    pub refused: Option<String>,
    /// It was ended because it took longer than this.
    pub timed_out_after: Option<Duration>,
    /// It was ended because it had written more than this many bytes.
    pub outgrew: Option<u64>,
    /// This program got a signal while it ran, or before.
    pub interrupted: bool,
    /// How long it lived.
    pub duration: Duration,
    /// What it and the workload wrote, both streams: the first and the last part.
    pub log: String,
}

impl Ended {
    /// Its exit status, where it ended by itself.
    pub fn status(&self) -> Option<i32> {
        match self.exit {
            Some(WorkloadExit::Code(code)) if self.timed_out_after.is_none() => Some(code),
            _ => None,
        }
    }

    /// Whether it did all that it was asked for.
    pub fn succeeded(&self) -> bool {
        self.exit == Some(WorkloadExit::Code(0))
    }
}
