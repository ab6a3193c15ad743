//! What each command takes, and nothing that it would refuse or ignore.
//!
//! The structs have no doc comments: the texts of the commands are those of [`super::Command`].

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use stage2_export::{Format, Window};

use super::options::{Acceptance, Presets, RunOptions, RunSettings, Showing};

// `stage2-launch run -- COMMAND`, and the same without `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) options: RunOptions,
    /// Choose kernels for ncu from this nsys capture (.sqlite, .nsys-rep or .csv) if no pass recorded
    /// any; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) nsys: Vec<PathBuf>,
    /// The workload: a command and its arguments, taken as they are (no shell)
    #[arg(last = true, value_name = "COMMAND [ARG]...")]
    pub(crate) workload: Vec<OsString>,
}

// `stage2-launch report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) presets: Presets,
    #[command(flatten)]
    pub(crate) acceptance: Acceptance,
    #[command(flatten)]
    pub(crate) showing: Showing,
    /// Print the whole report as JSON (metrics.json) on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder of the bundle, e.g. tmp/stage2/latest
    #[arg(value_name = "RUN_DIR")]
    pub(crate) run_dir: PathBuf,
    /// Report settings to override: model, hardware, operators, report, stage1; the bundle keeps
    /// them
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
}

// `stage2-launch export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Folder of the bundle, e.g. tmp/stage2/latest
    #[arg(value_name = "RUN_DIR")]
    pub(crate) run_dir: PathBuf,
    /// The format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) format: ExportFormat,
    /// File or folder to write; it must not exist [default: the name of the run, in this folder]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Export this stage only (an outermost range, as the report names it); may be repeated
    #[arg(long, value_name = "STAGE")]
    pub(crate) stage: Vec<String>,
    /// Export this window of time only, in seconds since the first event of the run
    #[arg(long, value_name = "START..END")]
    pub(crate) window: Option<Window>,
}

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Perfetto's protobuf, for ui.perfetto.dev
    Perfetto,
    /// Chrome trace JSON as PyTorch's profiler writes it, one file per process
    Chrome,
    /// Parquet tables, partitioned by host, rank and process
    Parquet,
    /// SQLite with the tables of an nsys export
    Sqlite,
    /// JSON of Triton Proton, for Hatchet and proton-viewer
    Hatchet,
    /// A pprof profile
    Pprof,
    /// Folded stacks, for flame graphs
    Folded,
}

impl ExportFormat {
    /// The format, where the library writes it; another program writes Parquet.
    pub(crate) fn of_crate(self) -> Option<Format> {
        Some(match self {
            Self::Perfetto => Format::Perfetto,
            Self::Chrome => Format::Chrome,
            Self::Sqlite => Format::Sqlite,
            Self::Hatchet => Format::Hatchet,
            Self::Pprof => Format::Pprof,
            Self::Folded => Format::Folded,
            Self::Parquet => return None,
        })
    }
}

// `stage2-launch bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) times: Times,
    #[command(flatten)]
    pub(crate) settings: RunSettings,
    /// Print every command and environment change, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The workload: a command and its arguments, taken as they are (no shell)
    #[arg(last = true, value_name = "COMMAND [ARG]...")]
    pub(crate) workload: Vec<OsString>,
}

// How often a benchmark runs things.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Times {
    /// Rounds; each runs everything once, and untraced twice
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Untraced runs before the first round that are not measured: files are read and kernels
    /// compiled for the first time in them
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) warmup: u32,
}

// `stage2-launch merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) captures: Captures,
    /// Folder of the bundle: new or empty
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) presets: Presets,
    #[command(flatten)]
    pub(crate) acceptance: Acceptance,
    #[command(flatten)]
    pub(crate) showing: Showing,
    /// Settings of the reports, as for a run: model, hardware, operators, report
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
}

// Files that were taken elsewhere.
#[derive(Debug, Args)]
pub(crate) struct Captures {
    /// Folder of spools (*.s2t), or one of them
    #[arg(long, value_name = "DIR")]
    pub(crate) spool: Vec<PathBuf>,
    /// File of Nsight Systems: .sqlite, .nsys-rep, or .csv of `nsys stats`
    #[arg(long, value_name = "FILE")]
    pub(crate) nsys: Vec<PathBuf>,
    /// File of Nsight Compute: .ncu-rep, or .csv of its raw or details page
    #[arg(long, value_name = "FILE")]
    pub(crate) ncu: Vec<PathBuf>,
}
