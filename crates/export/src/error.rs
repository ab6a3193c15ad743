//! Why an export failed.

use std::io;
use std::path::{Path, PathBuf};

use stage2_contract::trace::ReadError;

/// Why an export failed. What was written so far is gone.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run has no trace file of the collector.
    #[error(
        "{run}: there is no trace file of the collector to export{}{why}; run the workload under the \
         collector, or import trace files with `stage2-launch import --spool DIR`",
        if why.is_empty() { "" } else { ": " }
    )]
    NoTraceFiles {
        /// The run.
        run: String,
        /// What is wrong with those that are there.
        why: String,
    },
    /// Nothing is left of what was selected.
    #[error(
        "--stage and --window leave nothing of the run; its events end {seconds:.3} s after the first"
    )]
    NothingSelected {
        /// Length of the run, seconds.
        seconds: f64,
    },
    /// The report of the run cannot be read.
    #[error(
        "{path} cannot be read: {why}; name the folder of a run, and write its reports again with \
         `stage2-launch report`"
    )]
    NoReport {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
    /// A trace file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A stage that the run does not have.
    #[error("the run has no stage `{stage}`; it has {known}")]
    NoSuchStage {
        /// What was asked for.
        stage: String,
        /// The stages of the run.
        known: String,
    },
    /// A window that cannot be read.
    #[error(
        "`{window}` is no window; write START..END in seconds since the first event, for instance 0.5..1.25"
    )]
    NoWindow {
        /// What was asked for.
        window: String,
    },
    /// The destination exists.
    #[error("{path} exists already; choose another name with -o, or remove it")]
    Exists {
        /// The destination.
        path: String,
    },
    /// The destination cannot be written.
    #[error("{path} cannot be written: {source}; the export is incomplete and was removed")]
    Write {
        /// The destination.
        path: String,
        /// The reason.
        source: io::Error,
    },
}

impl ExportError {
    /// Whether what was asked for is wrong, and not what was found or done.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::NoReport { .. }
            | Self::NoSuchStage { .. }
            | Self::NoWindow { .. }
            | Self::NothingSelected { .. }
            | Self::Exists { .. } => true,
            Self::NoTraceFiles { .. } | Self::Read(_) | Self::Write { .. } => false,
        }
    }

    /// What turns an error of the system into one about `path`.
    pub fn write(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path: PathBuf = path.to_owned();
        move |source| Self::Write { path: stage2_contract::text::visible_path(&path), source }
    }
}
