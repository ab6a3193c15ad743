//! What each command takes, and nothing that it would refuse or ignore.
//!
//! The structs have no doc comments: the texts of the commands are those of [`super::Command`].

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use stage2_diff::Condition;
use stage2_export::{Format, Window};

use crate::feed::Readers;

use super::options::{Acceptance, Presets, RunOptions, RunSettings, Showing};

// `stage2-launch run -- COMMAND`, and the same without `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) options: RunOptions,
    /// Start the workload dormant, in a single run (as --light): nothing is recorded until
    /// `stage2-launch ctl RUN_DIR start`; each window gets reports of its own
    #[arg(long, conflicts_with = "deep")]
    pub(crate) dormant: bool,
    /// Choose kernels for ncu from this nsys capture (.sqlite, .nsys-rep or .csv) if no pass recorded
    /// any; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) nsys: Vec<PathBuf>,
    /// The workload: a command and its arguments, taken as they are (no shell)
    #[arg(last = true, value_name = "COMMAND [ARG]...")]
    pub(crate) workload: Vec<OsString>,
}

// What `top` and `feed` watch.
#[derive(Clone, Debug, Args)]
pub(crate) struct Watching {
    /// All processes of this user with a control socket on this host, instead of a TARGET
    #[arg(long)]
    pub(crate) all: bool,
    /// The NVTX payload of this stage is a number of tokens; may be repeated
    #[arg(long, value_name = "STAGE")]
    pub(crate) tokens: Vec<String>,
    /// A process (its number here, also of one in a container), the folder of a run (all its processes), a
    /// folder of trace files, or one of them
    #[arg(value_name = "TARGET", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) target: Option<String>,
}

// `stage2-launch top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Print a page of text each second, as where stdout is no terminal
    #[arg(long)]
    pub(crate) plain: bool,
    /// Print one page of text and end
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) watching: Watching,
}

// `stage2-launch feed`.
#[derive(Debug, Args)]
pub(crate) struct FeedArgs {
    /// Serve /metrics at this address of this host [default: 127.0.0.1:9464, unless --textfile is given]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Serve clients that ask for this host name, too, e.g. that of a reverse proxy
    #[arg(long, value_name = "NAME", conflicts_with = "once")]
    pub(crate) allow_host: Vec<String>,
    /// Write this file for the textfile collector of node-exporter, again and again
    #[arg(long, value_name = "FILE")]
    pub(crate) textfile: Option<PathBuf>,
    /// Who may read that file
    #[arg(long, value_name = "WHO", value_enum, default_value_t, requires = "textfile")]
    pub(crate) readable_by: Readers,
    /// Seconds between two writings of that file
    #[arg(long, value_name = "SECONDS", default_value_t = 15, requires = "textfile",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) interval: u64,
    /// Print the metrics once and end
    #[arg(long, conflicts_with_all = ["listen", "textfile"])]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) watching: Watching,
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

// `stage2-launch diff`.
#[derive(Debug, Args)]
#[command(after_help = DIFF_HELP)]
pub(crate) struct DiffArgs {
    /// Runs: folders, metrics.json files, or `latest`. Without --against the first is compared with each
    /// of the others; with it these are the runs before the change
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// Runs after the change: several on each side bring the noise between runs
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub(crate) against: Vec<PathBuf>,
    /// Exit with 1 if this got worse, for instance decode.step_ms>+5%+0.2ms (by more than 5 % and by
    /// more than 0.2 ms) or decode.tokens_per_s<-5%; may be repeated
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    pub(crate) fail_if: Vec<Condition>,
    /// Also fail for a difference that is within noise
    #[arg(long, requires = "fail_if")]
    pub(crate) strict: bool,
    /// Print JSON in the place of Markdown
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write a page for a browser
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write to this file in the place of stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const DIFF_HELP: &str = "\
Examples:
  stage2-launch diff RUN_A RUN_B
  stage2-launch diff A1 A2 A3 A4 --against B1 B2 B3 B4 --html diff.html
  stage2-launch diff baseline.json latest --fail-if 'decode.step_ms>+5%+0.2ms'

Exit status: 0 when no condition failed; 1 when one failed or could not be evaluated; 2 for wrong
usage; 70 when a report cannot be read or holds no GPU work.";

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
    /// CSV, a row for each kernel, copy, fill and graph launch
    Csv,
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
            Self::Csv => Format::Csv,
            Self::Hatchet => Format::Hatchet,
            Self::Pprof => Format::Pprof,
            Self::Folded => Format::Folded,
            Self::Parquet => return None,
        })
    }
}

// `stage2-launch doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print the checks as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder that the bundle of a run would go to [default: below tmp/stage2]
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) presets: Presets,
    /// Settings that the run would have, for instance pipeline.ncu.executable=/opt/ncu/ncu
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// The workload: its program and Python are checked, and it is not run
    #[arg(last = true, value_name = "COMMAND [ARG]...")]
    pub(crate) workload: Vec<OsString>,
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
#[derive(Debug, Default, Args)]
pub(crate) struct Captures {
    /// Folder of trace files (*.s2t), or one of them
    #[arg(long, value_name = "DIR")]
    pub(crate) spool: Vec<PathBuf>,
    /// File of Nsight Systems: .sqlite, .nsys-rep, or .csv of `nsys stats`
    #[arg(long, value_name = "FILE")]
    pub(crate) nsys: Vec<PathBuf>,
    /// File of Nsight Compute: .ncu-rep, or .csv of its raw or details page
    #[arg(long, value_name = "FILE")]
    pub(crate) ncu: Vec<PathBuf>,
}
