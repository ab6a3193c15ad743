//! What each command takes, and nothing that it would refuse or ignore.
//!
//! The structs have no doc comments, because clap would take these for the texts of the commands.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{anyhow, ensure};
use clap::{ArgAction, Args, ColorChoice, Subcommand, ValueEnum};
use stage2_ask::FLOOR_TOKENS;
use stage2_config::hydra::{Node, Origin, Value};
use stage2_diff::Condition;
use stage2_export::{Format, Window};
use stage2_report::operators::Annotation;

use crate::bundle::FOLDER_OF_RUNS;
use crate::config::Request;
use crate::feed::Readers;
use crate::terminal::Verbosity;
use crate::top::ProcessOrder;

// `stage2-launch run -- COMMAND`, and the same without `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) options: RunOptions,
    /// Start the workload dormant, in a single run (as --light): nothing is recorded until
    /// `stage2-launch ctl RUN_DIR start`; each window gets its own reports
    #[arg(long, conflicts_with = "deep")]
    pub(crate) dormant: bool,
    /// Choose kernels for ncu from this nsys capture (.sqlite, .nsys-rep or .csv) if no pass recorded
    /// any; may be repeated
    #[arg(long, value_name = "FILE", hide_short_help = true)]
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
    /// Processes (PIDs, as seen from here), folders of runs or of trace files, trace files, or
    /// HOST:PORT where `feed` serves those of another host [default: the only run that is live on this host]
    #[arg(value_name = "TARGET", conflicts_with = "all")]
    pub(crate) targets: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Print a page of text each second, as when stdout is not a terminal
    #[arg(long)]
    pub(crate) plain: bool,
    /// Print one page of text and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Sort the processes by this; the key o changes it
    #[arg(short, long, value_name = "COLUMN", value_enum, default_value_t)]
    pub(crate) order: ProcessOrder,
    #[command(flatten)]
    pub(crate) watching: WatchOptions,
}

#[derive(Debug, Args)]
pub(crate) struct FeedArgs {
    /// Serve /metrics at this address of this host, or at this port of 127.0.0.1 [default: 127.0.0.1:9464, unless
    /// --textfile is given]
    #[arg(long, alias = "port", value_name = "[ADDRESS:]PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Also accept requests for this host name, e.g. that of a reverse proxy
    #[arg(long, value_name = "NAME", conflicts_with = "once")]
    pub(crate) allow_host: Vec<String>,
    /// Keep writing this file for the textfile collector of node-exporter
    #[arg(long, value_name = "FILE")]
    pub(crate) textfile: Option<PathBuf>,
    /// Who may read that file
    #[arg(long, value_name = "WHO", value_enum, default_value_t, requires = "textfile")]
    pub(crate) readable_by: Readers,
    /// Seconds between updates of that file
    #[arg(long, value_name = "SECONDS", default_value_t = 15, requires = "textfile",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) interval: u64,
    /// Maximum number of processes with their own series: those with the slowest steps; sums over all
    /// processes (`stage2_job_...`) are always there
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(..=1_024))]
    pub(crate) ranks_limit: u16,
    /// Print the metrics once and exit
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
    /// Folder of the bundle, or `latest`
    #[arg(value_name = "RUN_DIR")]
    pub(crate) run_dir: PathBuf,
    /// Report settings to override: report, model, hardware, operators, roles, engine, stage1; the bundle keeps
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
    /// Runs after the change. Several runs on each side show the noise between runs
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub(crate) against: Vec<PathBuf>,
    /// Exit with 1 if this metric got worse, for instance 'decode.step_ms>+5%+0.2ms' (by more than 5 % and by
    /// more than 0.2 ms) or 'decode.tokens_per_s<-5%'. Quote it: a shell redirects at < and >. May be repeated
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    pub(crate) fail_if: Vec<Condition>,
    /// Exit with 1 unless this metric changed by more than the limit and beyond noise, for instance
    /// 'decode.step_ms<-20%' (in quotes); may be repeated
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    pub(crate) expect: Vec<Condition>,
    /// With --fail-if: also fail for a change beyond the limit that may be noise
    #[arg(long, requires = "fail_if")]
    pub(crate) strict: bool,
    /// Print the whole page instead of one screen: aligned tables on a terminal, elsewhere Markdown
    #[arg(long, conflicts_with = "json")]
    pub(crate) full: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write a page for a browser: one file to mail, with bars
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Also write the whole page to this file: for a browser if its name ends in .html or .htm, and as Markdown if
    /// it ends in .md or .txt, or has no ending. With --json, write JSON (.json), and print nothing
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl DiffArgs {
    /// The comparison of two runs without further options.
    pub(crate) fn of(before: PathBuf, after: PathBuf) -> Self {
        Self {
            runs: vec![before, after],
            against: Vec::new(),
            fail_if: Vec::new(),
            expect: Vec::new(),
            strict: false,
            full: false,
            json: false,
            html: None,
            output: None,
        }
    }
}

const DIFF_HELP: &str = "\
Examples:
  stage2-launch diff RUN_A RUN_B
  stage2-launch diff A1 A2 A3 A4 --against B1 B2 B3 B4 --html diff.html
  stage2-launch diff baseline:main latest --fail-if 'decode.step_ms>+5%+0.2ms'
  stage2-launch diff before after --expect 'decode.step_ms<-20%'

Metrics of a stage: step_ms step_mean_ms step_p99_ms token_ms ttft_ms tpot_ms
tokens_per_s host_ms window_ms gpu_busy_ms gpu_busy_percent idle_ms
launch_gaps_ms kernels kernel_ms class_gemm_ms mfu_percent mbu_percent energy_j
power_w. Of the run: run.duration_ms run.gpu_span_ms run.gpu_busy_ms
run.kernels run.generated_tokens_per_s run.request_ms. docs/diff.md explains
them.

Exit status: 0 when no condition failed and every expected change is there (a
change that may be noise fails only with --strict); 1 otherwise, also when one
could not be evaluated; 2 for wrong usage; 70 when a report cannot be read or
has no GPU work.

With -q: the verdict, conditions that failed or were not decided, and warnings
about the comparison.";

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
        /// Runs: folders, metrics.json files, or `latest`; several show the noise between runs [default:
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

Baselines are copies of reports (metrics.json) in tmp/stage2/baselines below the
working directory. Deleting old runs to free space does not touch them.

Exit status: 0 on success; 2 for wrong usage, for instance a name that is
not there; 70 when a report cannot be read or has no GPU work.";

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Folder of the bundle, or `latest`; several for a dataset (`-f parquet`)
    #[arg(value_name = "RUN_DIR", required = true)]
    pub(crate) run_dirs: Vec<PathBuf>,
    /// The format
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) format: ExportFormat,
    /// File or folder to write, gzipped if its name ends in .gz; it must not exist [default: the name of the run,
    /// in this folder]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Export this stage only (an outermost range, as the report names it); may be repeated
    #[arg(long, value_name = "STAGE")]
    pub(crate) stage: Vec<String>,
    /// Export this window only: seconds since the first event of the run (0.5..1.25), or calls of a stage in each
    /// process, from 0 (decode:100..110)
    #[arg(long, value_name = "[STAGE:]START..END")]
    pub(crate) window: Option<Window>,
    /// Write it even if the file system has less space than it will take, or trace files were cut since
    /// the report
    #[arg(long)]
    pub(crate) force: bool,
    /// parquet: add to a dataset that exists
    #[arg(long)]
    pub(crate) append: bool,
    /// parquet: the job that the runs are of [default: the name of each run]
    #[arg(long, value_name = "NAME")]
    pub(crate) job: Option<String>,
}

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Perfetto's protobuf, for ui.perfetto.dev
    Perfetto,
    /// Chrome trace JSON as PyTorch's profiler writes it, one file per process
    Chrome,
    /// A dataset of Parquet tables, partitioned by job, host, rank and hour
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
    /// Measure a workload that fails, too: without this, its first measured run ends the benchmark
    #[arg(long)]
    pub(crate) ignore_failure: bool,
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
    /// Number of rounds; a round runs each variant once, and the untraced one and
    /// that with ranges only twice
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Untraced runs before the first round, which are not measured: they read files and compile
    /// kernels for the first time
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
    /// Take trace files that are still written up to their last whole frame, as `top` does
    #[arg(long, hide = true)]
    pub(crate) live: bool,
    /// File of Nsight Systems: .sqlite, .nsys-rep, or .csv of `nsys stats`
    #[arg(long, value_name = "FILE")]
    pub(crate) nsys: Vec<PathBuf>,
    /// File of Nsight Compute: .ncu-rep, or .csv of its raw or details page
    #[arg(long, value_name = "FILE")]
    pub(crate) ncu: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = SUMMARISE_HELP)]
pub(crate) struct SummariseArgs {
    /// Trace files, folders of them or of runs, or `latest`
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Write the summaries into this folder instead of next to the traces
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace summaries that are there
    #[arg(long)]
    pub(crate) force: bool,
}

const SUMMARISE_HELP: &str = "\
Each summary has the name of its trace, with the ending s2s. The collector
writes the same with STAGE2_DETAIL=full, summary or auto. Exit status: 70 if no
trace could be summarised. docs/jobs.md has more.";

#[derive(Debug, Args)]
#[command(after_help = JOB_HELP)]
pub(crate) struct JobArgs {
    /// Folders of summaries and traces, with all folders in them, or single files
    #[arg(value_name = "DIR", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Write into this folder; else into the one that is named, or here if there are several
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// A CSV of host,rack: names the racks that late ranks have in common
    #[arg(long, value_name = "FILE")]
    pub(crate) racks: Option<PathBuf>,
}

const JOB_HELP: &str = "\
Writes job.html, job.md, job.json and job.s2s, the summary of all ranks, which
another `job` reads like those of ranks. Traces without a summary are summarised
on the way. Files that are missing, doubled, cut, or of another job are counted
and named. Exit status: 70 if nothing could be read. docs/jobs.md has more.";

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
    /// Question, one of those listed below
    #[arg(value_name = "QUESTION", default_value = "summary")]
    pub(crate) question: String,
    /// The run after the change, for `compare`
    #[arg(value_name = "OTHER")]
    pub(crate) other: Option<PathBuf>,
    /// The rest of a sentence, for which the error has the word to type
    #[arg(value_name = "WORD", hide = true)]
    pub(crate) rest: Vec<PathBuf>,
    /// Only this stage
    #[arg(long, value_name = "STAGE")]
    pub(crate) stage: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print all rows and columns
    #[arg(long, conflicts_with = "budget")]
    pub(crate) all: bool,
    /// Print at most this many tokens (4 bytes each), and as many rows as fit [default: the usual
    /// rows, at most 2000 tokens]
    #[arg(long, value_name = "TOKENS", value_parser = budget, allow_negative_numbers = true)]
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
    /// Print at most N rows; 0: all [default: 200]
    #[arg(long, value_name = "N")]
    pub(crate) rows: Option<usize>,
    /// End the query after this number of seconds
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
  stage2-launch query latest 'SELECT stage, name, total_ns FROM kernels LIMIT 9'
  stage2-launch query RUN --json 'SELECT stage, part, percent FROM windows'

Nothing is written, and nothing but the run is read. Exit status: 0; 2 when the
SQL is wrong or not allowed; 70 when it takes too much time or memory, when the
result is cut at 64 MB, or when the report cannot be read.";

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
    /// The folder that contains the runs: nothing outside of it is read
    #[arg(value_name = "ROOT", default_value = FOLDER_OF_RUNS)]
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
      the runs of this folder (tmp/stage2), for a client that starts this
      command
  stage2-launch mcp --allow run,ctl tmp/stage2
      the same, and the client may run workloads

It reads requests from standard input and writes answers to standard output,
until the client closes its end (status 0). Status 2 for wrong usage; 70 if its
program is not installed. docs/agents.md shows how to register it in a client.";

#[derive(Debug, Args)]
pub(crate) struct SkillArgs {
    /// Print SKILL.md (the default)
    #[arg(long)]
    pub(crate) print: bool,
}

// What is said, and in which colors: of every command.
#[derive(Debug, Args)]
pub(crate) struct Messages {
    /// Print more
    #[arg(short, long, global = true, conflicts_with = "quiet", help_heading = MESSAGES)]
    pub(super) verbose: bool,
    /// Print only errors and results (`run`: only errors)
    #[arg(short, long, global = true, help_heading = MESSAGES)]
    pub(super) quiet: bool,
    /// Colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", action = ArgAction::Set,
          help_heading = MESSAGES, hide_short_help = true)]
    color: ColorChoice,
}

// Where presets come from: of every command with settings.
#[derive(Debug, Args)]
pub(crate) struct Presets {
    /// Folder with presets (GROUP/PRESET.yaml) that extend and shadow the built-in ones
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    config_dir: Option<PathBuf>,
}

// Options that stand for settings of a run.
#[derive(Debug, Args)]
pub(crate) struct RunSettings {
    /// Folder of the bundle: new or empty [default: tmp/stage2/YYYYmmdd-HHMMSS-PID]
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Let the members of this group read the bundle, too [default: only you can]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    group: Option<String>,
    #[command(flatten)]
    presets: Presets,
    /// End the workload after this time: seconds, or with a unit (90s, 5m, 1h30m)
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_negative_numbers = true)]
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
    /// Run the workload once, under the collector only (the same as run.mode=light)
    #[arg(long, conflicts_with = "deep")]
    light: bool,
    /// Run it again with sampled hardware counters (if there is a GPU), under nsys and under ncu (if
    /// they are installed); the default, the same as run.mode=deep
    #[arg(long)]
    deep: bool,
    #[command(flatten)]
    pub(crate) showing: BrowserOptions,
    #[command(flatten)]
    pub(crate) settings: RunSettings,
    /// Print every command and environment change, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) acceptance: Acceptance,
    /// Run the nsys and ncu passes even if the workload failed under the collector
    #[arg(long, hide_short_help = true)]
    pub(crate) keep_going: bool,
}

// What happens to reports that are written: of every command that writes some.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct BrowserOptions {
    /// Open report.html in a browser at the end; without a display, say how to get it to one
    #[arg(long)]
    pub(crate) open: bool,
}

const EXIT_STATUS: &str = "What counts as a result";
const MESSAGES: &str = "Messages";

// What counts as a result: of every command that writes reports.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Acceptance {
    /// Do not exit with 70 if no GPU work was recorded
    #[arg(long, help_heading = EXIT_STATUS, hide_short_help = true)]
    pub(crate) allow_empty: bool,
    /// Also exit with 70 if coverage is partial (records are missing)
    #[arg(long, value_name = "COVERAGE", help_heading = EXIT_STATUS, hide_short_help = true)]
    pub(crate) fail_on: Option<FailOn>,
    /// Exit with 70 if any of these passes is missing, was skipped, or failed
    #[arg(long, value_name = "PASS,...", value_delimiter = ',', help_heading = EXIT_STATUS,
          hide_short_help = true)]
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

/// Reads where to serve: an address with a port, or a port of this host.
fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let port = text.trim_start_matches("localhost").trim_start_matches(':').parse::<u16>();
    let address = port.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    address.or_else(|_| text.parse()).map_err(|_| {
        anyhow!(
            "give a port (0 to 65535), or an address and a port: 9464, 127.0.0.1:9464, [::1]:9464"
        )
    })
}

/// Reads the length of an answer: a shorter one has no content.
fn budget(text: &str) -> anyhow::Result<usize> {
    let tokens = text.parse().ok().filter(|tokens| *tokens >= FLOOR_TOKENS);
    tokens.ok_or_else(|| anyhow!("give a number of tokens, {FLOOR_TOKENS} or more"))
}

/// Reads a time as whole seconds.
fn seconds(text: &str) -> anyhow::Result<i64> {
    let seconds = match text.parse::<i64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let time: jiff::SignedDuration = text.parse().map_err(|_| {
                anyhow!("give seconds, or a number with a unit: 90, 90s, 5m, 1h30m")
            })?;
            ensure!(time.subsec_nanos() == 0, "give whole seconds");
            time.as_secs()
        }
    };
    ensure!(seconds > 0, "the time must be longer than zero");
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_host() {
        for text in ["9464", ":9464", "localhost:9464", "127.0.0.1:9464"] {
            assert_eq!(address(text).expect(text).to_string(), "127.0.0.1:9464");
        }
        assert_eq!(address("[::1]:80").expect("IPv6").to_string(), "[::1]:80");
        for text in ["", "x", "70000", "1.2.3.4", "host:80"] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, expected) in
            [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("2000ms", 2)]
        {
            assert_eq!(seconds(text).ok(), Some(expected), "{text}");
        }
        for text in ["0", "-3", "soon", "", "5 parsecs", "100ms", "1500ms", "99999999999999999999"]
        {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_help_of_diff_names_metrics_that_there_are() {
        let (_, metrics) = DIFF_HELP.split_once("Metrics of a stage:").expect("a list");
        let (metrics, _) = metrics.split_once(" docs/diff.md").expect("its end");
        let is_name = |word: &&str| word.contains('_') || *word == "kernels";
        let names = metrics.split_whitespace().map(|word| word.trim_end_matches('.'));
        let names: Vec<&str> = names.filter(is_name).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            let metric =
                if name.starts_with("run.") { name.to_owned() } else { format!("decode.{name}") };
            format!("{metric}>+5%")
                .parse::<Condition>()
                .unwrap_or_else(|why| panic!("{name}: {why}"));
        }
    }
}
