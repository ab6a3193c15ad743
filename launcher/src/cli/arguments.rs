//! What each command takes, and nothing that it would refuse or ignore.
//!
//! The structs have no doc comments, because clap would take these for the texts of the commands.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, ensure};
use clap::{ArgAction, Args, ColorChoice, Subcommand, ValueEnum};
use stage2_config::hydra::{Node, Origin, Value};
use stage2_contract::control::{FOR_MS, Limits, MOST_AHEAD, SIZE, STEPS, Start};
use stage2_diff::Condition;
use stage2_export::{Format, Window};
use stage2_report::operators::Annotation;

use crate::config::Request;
use crate::feed::Readers;
use crate::terminal::Verbosity;

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
pub(crate) struct WatchOptions {
    /// All processes of this user with a control socket on this host, instead of a TARGET
    #[arg(long)]
    pub(crate) all: bool,
    /// The NVTX payload of this stage is a number of tokens; may be repeated
    #[arg(long, value_name = "STAGE")]
    pub(crate) tokens: Vec<String>,
    /// A process (its number here, also of one in a container), the folder of a run (all its processes), a
    /// folder of trace files, or one of them [default: the run that is live on this host, if it is the only one]
    #[arg(value_name = "TARGET", conflicts_with = "all")]
    pub(crate) target: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Print a page of text each second, as where stdout is no terminal
    #[arg(long)]
    pub(crate) plain: bool,
    /// Print one page of text and end
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) watching: WatchOptions,
}

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
    pub(crate) watching: WatchOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) presets: Presets,
    #[command(flatten)]
    pub(crate) acceptance: Acceptance,
    #[command(flatten)]
    pub(crate) showing: BrowserOptions,
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

#[derive(Debug, Args)]
#[command(after_help = DIFF_HELP)]
pub(crate) struct DiffArgs {
    /// Runs: folders, metrics.json files, `latest`, or baseline:NAME. Without --against the first is compared
    /// with each of the others; with it these are the runs before the change
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// Runs after the change: several on each side bring the noise between runs
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub(crate) against: Vec<PathBuf>,
    /// Exit with 1 if this got worse, for instance decode.step_ms>+5%+0.2ms (by more than 5 % and by
    /// more than 0.2 ms) or decode.tokens_per_s<-5%; may be repeated
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    pub(crate) fail_if: Vec<Condition>,
    /// Exit with 1 unless this changed by more than the limit and beyond noise, for instance
    /// decode.step_ms<-20%; may be repeated
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    pub(crate) expect: Vec<Condition>,
    /// With --fail-if: also fail for a difference that is within noise
    #[arg(long, requires = "fail_if")]
    pub(crate) strict: bool,
    /// Print the whole page as Markdown in the place of one screen
    #[arg(long, conflicts_with = "json")]
    pub(crate) full: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write a page for a browser: one file to mail, with bars
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Also write the whole page as Markdown (with --json: write JSON) to this file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const DIFF_HELP: &str = "\
Examples:
  stage2-launch diff RUN_A RUN_B
  stage2-launch diff A1 A2 A3 A4 --against B1 B2 B3 B4 --html diff.html
  stage2-launch diff baseline:main latest --fail-if 'decode.step_ms>+5%+0.2ms'
  stage2-launch diff before after --expect 'decode.step_ms<-20%'

Exit status: 0 when no condition failed and every expected change is there; 1 otherwise, also when one
could not be evaluated; 2 for wrong usage; 70 when a report cannot be read or holds no GPU work.";

#[derive(Debug, Args)]
#[command(after_help = BASELINE_HELP)]
pub(crate) struct BaselineArgs {
    #[command(subcommand)]
    pub(crate) verb: BaselineVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BaselineVerb {
    /// Keep the reports of runs under a name
    Save {
        /// Letters, digits, dots, dashes and underscores
        #[arg(value_name = "NAME")]
        name: String,
        /// Runs: folders, metrics.json files, or `latest`; several bring the noise between runs [default:
        /// latest]
        #[arg(value_name = "RUN")]
        runs: Vec<PathBuf>,
        /// Save over a baseline of this name
        #[arg(long)]
        replace: bool,
    },
    /// Print the baselines, with their runs
    List,
    /// Delete a baseline
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

const BASELINE_HELP: &str = "\
Examples:
  stage2-launch baseline save main tmp/stage2/latest
  stage2-launch baseline save main A1 A2 A3 A4 --replace
  stage2-launch diff baseline:main tmp/stage2/latest

Baselines are copies of reports (metrics.json) in tmp/stage2/baselines below the working directory. Runs
that are deleted to make room leave them alone.

Exit status: 0 when it was done; 2 for wrong usage, for instance a name that is not there; 70 when a
report cannot be read or holds no GPU work.";

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
    /// Folded stacks of the host while the GPU idles, for flame graphs
    FoldedHost,
    /// Samples of the host for speedscope, a profile for each thread
    Speedscope,
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
            Self::FoldedHost => Format::FoldedHost,
            Self::Speedscope => Format::Speedscope,
            Self::Parquet => return None,
        })
    }
}

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
    pub(crate) showing: BrowserOptions,
    /// Settings of the reports, as for a run: model, hardware, operators, report
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
}

// Files that were taken elsewhere.
#[derive(Debug, Default, Args)]
pub(crate) struct Captures {
    /// Folder of trace files (*.s2t), or one of them
    #[arg(long = "spool", value_name = "DIR")]
    pub(crate) traces: Vec<PathBuf>,
    /// File of Nsight Systems: .sqlite, .nsys-rep, or .csv of `nsys stats`
    #[arg(long, value_name = "FILE")]
    pub(crate) nsys: Vec<PathBuf>,
    /// File of Nsight Compute: .ncu-rep, or .csv of its raw or details page
    #[arg(long, value_name = "FILE")]
    pub(crate) ncu: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CtlArgs {
    /// All processes of this user with a control socket on this host, instead of a TARGET
    #[arg(long, global = true)]
    pub(crate) all: bool,
    /// A process (its number here, also of one in a container) or the folder of a run (all its processes)
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) verb: CtlVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CtlVerb {
    /// Show the state of a process, its records and losses, trace files and options
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> status [OPTIONS]")]
    Status(AnswerOptions),
    /// Begin a window, which has its own trace file
    ///
    /// The first window of a process attaches CUPTI until the process ends. Launches are slower while CUPTI is
    /// on, and stay 8 to 26 % slower afterwards (with a CUPTI other than that of CUDA 13.0 update 1: as slow as
    /// in the window). docs/dormant.md has the measurements.
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> start [OPTIONS]")]
    Start(StartArgs),
    /// End the window; launched work is still written
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> stop [OPTIONS]")]
    Stop {
        #[command(flatten)]
        waiting: WaitOptions,
        #[command(flatten)]
        answering: AnswerOptions,
    },
    /// Write out all records
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> flush [OPTIONS]")]
    Flush(AnswerOptions),
    /// Tell within 2 s what stands still: which kernel, which rank, which line, which lock
    ///
    /// TARGET may also be a file `*.why.json` that STAGE2_WATCH has written. Ask before you restart anything:
    /// the answer changes nothing in the process (docs/standstill.md).
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> why [OPTIONS]")]
    Why(AnswerOptions),
    /// Put a mark into the trace file
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> mark [OPTIONS] TEXT...")]
    Mark {
        /// The text of the mark
        #[arg(value_name = "TEXT", required = true)]
        text: Vec<String>,
        #[command(flatten)]
        answering: AnswerOptions,
    },
    /// Write a bundle with reports while the program runs on: of the window that is on, or of a new one
    #[command(
        override_usage = "stage2-launch ctl <TARGET|--all> snapshot [OPTIONS] -o DIR [KEY=VALUE]..."
    )]
    Snapshot(SnapshotArgs),
}

// How answers are printed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct AnswerOptions {
    /// Print the answers as JSON: a list with an object for each process
    #[arg(long)]
    pub(crate) json: bool,
}

// Of verbs that are accepted before they are done.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct WaitOptions {
    /// Wait until it has been done, for 15 s at most, and print the status then
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Record in these NVTX ranges only, as STAGE2_RANGES: comma-separated globs, each a name or name@domain;
    /// `*`: everything
    #[arg(long, value_name = "GLOBS")]
    ranges: Option<String>,
    /// Record one in every N instances, as STAGE2_SAMPLE
    #[arg(long, value_name = "1/N", value_parser = sample)]
    sample: Option<u32>,
    /// Sample hardware counters in this window
    #[arg(long)]
    counters: bool,
    /// Sample the host as STAGE2_HOST does: on, off, or samples a second from 1 to 1000
    #[arg(long = "host", value_name = "HZ", value_parser = host_hz)]
    host_hz: Option<u32>,
    /// Begin at this time, as RFC 3339 (2026-11-24T14:30:00Z): the same moment in every process, also on other
    /// hosts whose clocks agree. Several processes begin at the same moment without it, too
    #[arg(long, value_name = "TIME", value_parser = unix_us)]
    pub(crate) at: Option<u64>,
    /// End after this time: seconds, or with a unit (500ms, 10s, 2m)
    #[arg(long = "for", value_name = "TIME", value_parser = milliseconds)]
    for_ms: Option<u64>,
    /// End after so many instances of the outermost range that --ranges matches, or of the outermost
    /// ranges of the program
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(STEPS))]
    steps: Option<u64>,
    /// End when the trace file has this size: bytes, or with a unit (64K, 1G)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    #[command(flatten)]
    pub(crate) waiting: WaitOptions,
    #[command(flatten)]
    pub(crate) answering: AnswerOptions,
}

impl StartArgs {
    /// The request.
    pub(crate) fn to_start(&self) -> Start {
        Start {
            ranges: self.ranges.clone(),
            sample: self.sample,
            counters: self.counters,
            host_hz: self.host_hz,
            at_unix_us: self.at,
            limits: Limits { for_ms: self.for_ms, steps: self.steps, size: self.size },
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// Folder of the bundle: new or empty
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// How long to record where no window is on: seconds, or with a unit (500ms, 10s, 2m)
    #[arg(long = "for", value_name = "TIME", value_parser = milliseconds, default_value = "10s")]
    pub(crate) for_ms: u64,
    #[command(flatten)]
    pub(crate) presets: Presets,
    #[command(flatten)]
    pub(crate) acceptance: Acceptance,
    #[command(flatten)]
    pub(crate) showing: BrowserOptions,
    /// Settings of the reports, as for a run: model, hardware, operators, report
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
}

fn within(number: u64, range: &RangeInclusive<u64>, what: &str) -> anyhow::Result<u64> {
    ensure!(range.contains(&number), "give {what}");
    Ok(number)
}

/// Reads a time as whole milliseconds, rounded up.
fn milliseconds(text: &str) -> anyhow::Result<u64> {
    let form = "seconds, or a number with a unit: 10, 500ms, 10s, 2m";
    let time = match text.parse::<u32>() {
        Ok(seconds) => jiff::SignedDuration::from_secs(seconds.into()),
        Err(_) => text.parse().map_err(|_| anyhow!("give {form}"))?,
    };
    let nanoseconds = u128::try_from(time.as_nanos()).ok().context("the time is below zero")?;
    let ms = u64::try_from(nanoseconds.div_ceil(1_000_000)).unwrap_or(u64::MAX);
    within(ms, &FOR_MS, "a time from 1ms to 168h (a week)")
}

/// A time that is to come.
fn unix_us(text: &str) -> anyhow::Result<u64> {
    let form = "give a time as 2026-11-24T14:30:00Z or 2026-11-24T15:30:00+01:00";
    let at: jiff::Timestamp = text.parse().ok().context(form)?;
    let ahead = at.duration_since(jiff::Timestamp::now());
    ensure!(ahead.is_positive(), "it is in the past; give a future time");
    let is_soon = ahead.unsigned_abs() <= MOST_AHEAD;
    ensure!(is_soon, "it is more than 24 hours ahead; ask again on the day");
    u64::try_from(at.as_microsecond()).ok().context(form)
}

fn size(text: &str) -> anyhow::Result<u64> {
    let form = "bytes from 64K to 1024G, e.g. 512M";
    let bytes =
        stage2_contract::settings::read_bytes(text).with_context(|| format!("give {form}"))?;
    within(bytes as u64, &SIZE, form)
}

fn host_hz(text: &str) -> anyhow::Result<u32> {
    let hz = stage2_contract::settings::read_host(text).map(Option::unwrap_or_default);
    hz.with_context(|| format!("give {}", stage2_contract::settings::HOST_FORM))
}

fn sample(text: &str) -> anyhow::Result<u32> {
    stage2_contract::settings::read_sample(text)
        .with_context(|| format!("give {}", stage2_contract::settings::SAMPLE_FORM))
}

// What is said, and in which colors: of every command.
#[derive(Debug, Args)]
pub(crate) struct Messages {
    /// Say more
    #[arg(short, long, global = true, conflicts_with = "quiet", help_heading = MESSAGES)]
    pub(super) verbose: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true, help_heading = MESSAGES)]
    pub(super) quiet: bool,
    /// Colors; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", action = ArgAction::Set,
          help_heading = MESSAGES)]
    color: ColorChoice,
}

// Where presets come from: of every command with settings.
#[derive(Debug, Args)]
pub(crate) struct Presets {
    /// Folder with presets (GROUP/PRESET.yaml) that extend and shadow the built-in ones
    #[arg(long, value_name = "DIR")]
    config_dir: Option<PathBuf>,
}

// Options that stand for settings of a run.
#[derive(Debug, Args)]
pub(crate) struct RunSettings {
    /// Folder of the bundle: new or empty [default: tmp/stage2/YYYYmmdd-HHMMSS-PID]
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Let the members of this group read the bundle, too [default: only you can]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    #[command(flatten)]
    presets: Presets,
    /// End the workload after this time: seconds, or with a unit (90s, 5m, 1h30m)
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    timeout: Option<i64>,
    /// Let a Python workload mark more ranges: torch-ops, prefill-decode, vllm-steps, sglang-steps, trtllm-steps; may be repeated
    #[arg(long, value_name = "WHAT")]
    annotate: Vec<Annotation>,
    /// Settings in Hydra's override grammar: key=value, +key=value, ++key=value, ~key, group=preset
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) options: RunOptions,
    /// Options of the built-in workload: --rounds N (3) and --steps N (8 a round) make it longer, --threads N gives
    /// it more streams, and --graph replays its decode steps as a CUDA graph
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) of_demo: Vec<OsString>,
}

// What the commands take that run all passes.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) settings: RunSettings,
    /// Print every command and environment change, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) acceptance: Acceptance,
    /// Run the nsys and ncu passes even if the workload failed under the collector
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Run the workload once, under the collector only (the same as run.mode=light)
    #[arg(long, conflicts_with = "deep")]
    light: bool,
    /// Run it again under nsys, and again under ncu, where they are installed (the default; the same
    /// as run.mode=deep)
    #[arg(long)]
    deep: bool,
    #[command(flatten)]
    pub(crate) showing: BrowserOptions,
}

// What happens to reports that are written: of every command that writes some.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct BrowserOptions {
    /// Open report.html in a browser at the end; without a display, say how to get it to one
    #[arg(long)]
    pub(crate) open: bool,
}

const EXIT_STATUS: &str = "Exit status";
const MESSAGES: &str = "Messages";

// What counts as a result: of every command that writes reports.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Acceptance {
    /// Do not exit with 70 if no GPU work was recorded
    #[arg(long, help_heading = EXIT_STATUS)]
    pub(crate) allow_empty: bool,
    /// Also exit with 70 if coverage is partial (records are missing)
    #[arg(long, value_name = "COVERAGE", help_heading = EXIT_STATUS)]
    pub(crate) fail_on: Option<FailOn>,
    /// Exit with 70 if any of these passes is missing, was skipped, or failed
    #[arg(long, value_name = "PASS,...", value_delimiter = ',', help_heading = EXIT_STATUS)]
    pub(crate) require: Vec<RequiredPass>,
}

/// A pass that can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequiredPass {
    /// The ranges without CUPTI (run.baseline=true).
    Baseline,
    /// The collector.
    Collect,
    /// Nsight Systems.
    Nsys,
    /// Nsight Compute.
    Ncu,
}

impl RequiredPass {
    /// Its name in a plan and in `run.json`.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// A coverage that is not good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Something is missing.
    Partial,
}

impl Messages {
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}

impl Presets {
    /// What to compose of the settings of a command that runs no workload.
    pub(crate) fn request(&self, overrides: Vec<String>) -> Request {
        let config_dir = self.config_dir.clone();
        Request { overrides, config_dir, no_workload: true, ..Request::default() }
    }
}

impl RunSettings {
    /// What to compose of the settings and of these options, which win.
    pub(crate) fn request(&self) -> Request {
        let overrides = self.overrides.clone();
        let mut request = Request { no_workload: false, ..self.presets.request(overrides) };
        let run_dir = self.run_dir.as_ref().map(|dir| dir.to_string_lossy().into_owned());
        let texts =
            [("run.dir", "--run-dir", run_dir), ("run.group", "--group", self.group.clone())];
        for (key, option, text) in texts {
            if let Some(text) = text {
                request.flags.push((key, format!("{option} {text}"), Value::Literal(text)));
            }
        }
        if let Some(seconds) = self.timeout {
            let option = format!("--timeout {seconds}");
            request.flags.push(("run.timeout_s", option, Value::Int(seconds)));
        }
        if !self.annotate.is_empty() {
            let words: Vec<&str> = self.annotate.iter().map(|a| a.word()).collect();
            let text = format!("--annotate {}", words.join(" --annotate "));
            let origin = Origin::Flag(text.as_str().into());
            let node =
                |word: &&str| Node { value: Value::Text((*word).into()), origin: origin.clone() };
            let list = Value::List(words.iter().map(node).collect());
            request.flags.push(("operators.annotate", text, list));
        }
        request
    }
}

impl RunOptions {
    /// What to compose of the settings and of these options.
    pub(crate) fn request(&self) -> Request {
        let mut request = self.settings.request();
        let modes = [("light", self.light), ("deep", self.deep)];
        for (mode, _) in modes.into_iter().filter(|(_, is_asked)| *is_asked) {
            request.switches.push(("run.mode", format!("--{mode}"), Value::Text(mode.to_owned())));
        }
        request
    }
}

/// Reads a time as whole seconds, rounded up.
fn seconds(text: &str) -> anyhow::Result<i64> {
    let seconds = match text.parse::<i64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let time: jiff::SignedDuration = text.parse().map_err(|_| {
                anyhow!("give seconds, or a number with a unit: 90, 90s, 5m, 1h30m")
            })?;
            time.as_secs().saturating_add(i64::from(time.subsec_nanos() > 0))
        }
    };
    ensure!(seconds > 0, "the time must be longer than zero");
    Ok(seconds)
}

#[derive(Debug, Args)]
pub(crate) struct NextArgs {
    /// The run: its folder, its metrics.json, or `latest`
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// Run: its folder, its metrics.json, or `latest`
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Question, for instance summary; a question that does not exist prints the list
    #[arg(value_name = "QUESTION", default_value = "summary")]
    pub(crate) question: String,
    /// The run after the change, for `compare`
    #[arg(value_name = "OTHER")]
    pub(crate) other: Option<PathBuf>,
    /// Only this stage
    #[arg(long, value_name = "STAGE")]
    pub(crate) stage: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print at most so many tokens, of 4 bytes each, and as many rows as fit [default: the usual
    /// rows, at most 2000 tokens]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
}

#[derive(Debug, Args)]
#[command(after_help = QUERY_HELP)]
pub(crate) struct QueryArgs {
    /// The run: its folder, its metrics.json, or `latest`
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// One SELECT of SQLite; `stage2-launch schema RUN` prints the tables
    #[arg(value_name = "SQL", allow_hyphen_values = true)]
    pub(crate) sql: String,
    /// Print at most this number of rows; 0: all
    #[arg(long, value_name = "N", default_value_t = stage2_ask::query::USUAL_ROWS)]
    pub(crate) rows: usize,
    /// End the query after this time, seconds
    #[arg(long, value_name = "N", default_value_t = stage2_ask::query::USUAL_SECONDS,
          value_parser = clap::value_parser!(u64).range(1..=stage2_ask::query::SECONDS_MOST))]
    pub(crate) seconds: u64,
    /// Print one line of JSON: columns, and rows as arrays
    #[arg(long)]
    pub(crate) json: bool,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

const QUERY_HELP: &str = "\
Examples:
  stage2-launch query latest 'SELECT name, total_ns FROM kernels ORDER BY total_ns DESC LIMIT 10'
  stage2-launch query RUN --json 'SELECT stage, part, percent FROM windows'

Nothing is written, and nothing but the run is read. Exit status: 0; 2 when the SQL is wrong or not
allowed; 70 when it takes too much time or memory, or when the report cannot be read.";

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The run: its folder, its metrics.json, or `latest`
    #[arg(value_name = "RUN", required_unless_present = "json_schema")]
    pub(crate) run: Option<PathBuf>,
    /// Explain the columns of this table
    #[arg(value_name = "TABLE")]
    pub(crate) table: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the JSON Schema of a file or an answer, or the list of all
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["run", "json"])]
    pub(crate) json_schema: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = MCP_HELP)]
pub(crate) struct McpArgs {
    /// The folder below which the runs lie: nothing outside of it is read
    #[arg(value_name = "ROOT", default_value = "tmp/stage2")]
    pub(crate) root: PathBuf,
    /// Let the client also run any command as this user (run), or look into, start and stop recording in this user's
    /// processes (ctl); both: run,ctl
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) allow: Vec<Consent>,
}

/// A tool that only the person who starts the server can allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Consent {
    Run,
    Ctl,
}

impl Consent {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Consent::Run => "run",
            Consent::Ctl => "ctl",
        }
    }
}

const MCP_HELP: &str = "\
Examples:
  stage2-launch mcp
      the runs of this folder (tmp/stage2), for a client that starts this command
  stage2-launch mcp --allow run,ctl tmp/stage2
      the same, and the client may run workloads

It reads requests from standard input and writes answers to standard output, until the client closes its
end (status 0). Status 2 for wrong usage; 70 if its program is not installed. docs/agents.md shows how to
register it in a client.";

#[derive(Debug, Args)]
pub(crate) struct SkillArgs {
    /// Print SKILL.md (the only thing that it does)
    #[arg(long)]
    pub(crate) print: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn read(line: &str) -> Result<CtlArgs, String> {
        let words = std::iter::once("stage2-launch").chain(["ctl"]).chain(line.split(' '));
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Some(Command::Ctl(args)) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn words_are_a_target_and_a_verb_with_its_options() {
        let args = read(
            "12 start --ranges a,c% --for 500ms --steps 3 --size 1G --sample 1/4 --counters --host off \
             --wait",
        );
        let args = args.expect("sound");
        assert_eq!((args.all, args.target), (false, Some("12".into())));
        let CtlVerb::Start(start) = args.verb else { panic!("{:?}", args.verb) };
        assert!(start.waiting.wait && !start.answering.json);
        let limits = Limits { for_ms: Some(500), steps: Some(3), size: Some(1 << 30) };
        let ranges = Some("a,c%".to_owned());
        let (sample, host_hz) = (Some(4), Some(0));
        let expected = Start { ranges, sample, counters: true, host_hz, at_unix_us: None, limits };
        assert_eq!(start.to_start(), expected);
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(5);
        let args = read(&format!("--all start --at {soon}")).expect("sound");
        let CtlVerb::Start(start) = args.verb else { panic!("{:?}", args.verb) };
        let us = u64::try_from(soon.as_microsecond()).expect("after 1970");
        assert_eq!(start.to_start().at_unix_us, Some(us));
        for line in ["--all status --json", "status --all --json"] {
            let args = read(line).expect(line);
            assert!(args.all && args.target.is_none());
            assert!(matches!(args.verb, CtlVerb::Status(AnswerOptions { json: true })), "{line}");
        }
        let args = read("tmp/stage2/latest mark two words").expect("sound");
        let CtlVerb::Mark { text, .. } = args.verb else { panic!("{:?}", args.verb) };
        assert_eq!(text.join(" "), "two words");
        let args = read("7 snapshot -o out model/llm=x").expect("sound");
        let CtlVerb::Snapshot(snapshot) = args.verb else { panic!("{:?}", args.verb) };
        assert_eq!((snapshot.for_ms, snapshot.overrides.len()), (10_000, 1));
    }

    #[test]
    fn times_sizes_and_samples_have_units_and_bounds() {
        for (text, ms) in [("10", 10_000), ("10s", 10_000), ("500ms", 500), ("2m", 120_000)] {
            assert_eq!(milliseconds(text).ok(), Some(ms), "{text}");
        }
        assert_eq!((size("64K").ok(), size("1G").ok()), (Some(64 << 10), Some(1 << 30)));
        for (line, part) in [
            ("12 start --for 0", "1ms"),
            ("12 start --for 8000h", "168h"),
            ("12 start --for=-3s", "below zero"),
            ("12 start --for soon", "500ms"),
            ("12 start --size 1K", "64K"),
            ("12 start --size 99999999999999999999G", "64K"),
            ("12 start --sample 2/3", "1/N"),
            ("12 start --steps 0", "1.."),
            ("12 start --at soon", "2026-11-24T14:30:00Z"),
            ("12 start --at 2001-01-01T00:00:00Z", "it is in the past"),
            ("12 start --at 2901-01-01T00:00:00Z", "24 hours"),
            ("12 start for_ms=5", "for_ms=5"),
            ("12 stop now", "now"),
            ("12 mark", "TEXT"),
            ("12 snapshot", "--output"),
            ("12 begin", "begin"),
        ] {
            let said = read(line).expect_err(line);
            assert!(said.contains(part), "{line}: {said}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, expected) in
            [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1500ms", 2)]
        {
            assert_eq!(seconds(text).ok(), Some(expected), "{text}");
        }
        for text in ["0", "-3", "soon", "", "5 parsecs", "99999999999999999999"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
