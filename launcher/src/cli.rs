//! Words of the command line -> what the user wants.

mod hints;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::env::PROBE_GPU;
use crate::terminal::Verbosity;
pub(crate) use hints::{is_setting, no_setting};
use stage2_analysis::operators::Annotation;

const EXAMPLES: &str = "\
Examples:
  stage2-launch demo
      the built-in workload, on the GPU if there is one, else on a simulated one
  stage2-launch -- python infer.py --batch 4
      any program: every kernel of it, per NVTX range
  (cd examples && stage2-launch workload=hydra -- python -m runner)
      a Hydra app, here the example of the repository: its outputs go into the bundle
  stage2-launch 'profiling.collector.ranges=[prefill,decode*]' --timeout 5m -- ./server
      only kernels inside of these ranges, and an end after five minutes
  stage2-launch merge --nsys x.sqlite --ncu raw.csv --ncu details.csv -o OUT report.top_n=20
      reports of captures taken elsewhere, any subset of them
  stage2-launch report tmp/stage2/latest model/llm=llama_3_8b hardware=h200
      the reports of a run again, here with the model that it was not told of
  stage2-launch --dry-run -- python infer.py
      what would be run, as a shell would write it
  stage2-launch bench --rounds 5 -- python infer.py
      what the collector, and nsys where it is installed, cost this program
  stage2-launch config run.mode=light
      all settings, and where each value comes from

The bundle is written to tmp/stage2/<time>-<pid>/, and tmp/stage2/latest points to it.
Exit status: the workload's own (128+N when signal N ended it); 124 after --timeout; 127 and 126 for
a command that is not there or cannot be run; 2 for wrong usage or configuration; 70 when profiling
failed or recorded no GPU work (--allow-empty lets that pass), with --fail-on partial when records
are missing, and with --require PASS,... when one of these passes gave nothing. A failing workload's
status takes precedence over 70, and nsys and ncu are skipped unless --keep-going is given; a workload
that --timeout ended does not count as failing: nsys and ncu run.";

/// Runs a workload and shows every GPU kernel of it, per NVTX range
#[derive(Debug, Parser)]
#[command(
    name = "stage2-launch",
    version,
    override_usage = "stage2-launch [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]...\n       \
                      stage2-launch [OPTIONS] <demo|report|bench|merge|config> ...",
    after_help = EXAMPLES,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Settings in Hydra's override grammar: key=value, +key=value, ++key=value, ~key, group=preset
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Choose kernels for ncu from this nsys capture (.sqlite, .nsys-rep or .csv) if no pass recorded
    /// any; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) nsys: Vec<PathBuf>,
    /// The workload: a command and its arguments, taken as they are (no shell)
    #[arg(last = true, value_name = "COMMAND [ARG]...")]
    pub(crate) workload: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Folder of the bundle: new or empty [default: tmp/stage2/YYYYmmdd-HHMMSS-PID]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Folder with presets (GROUP/PRESET.yaml) that extend and shadow the built-in ones
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) config_dir: Option<PathBuf>,
    /// End the workload after this time: seconds, or with a unit (90s, 5m, 1h30m)
    #[arg(long, global = true, value_name = "TIME", value_parser = seconds)]
    pub(crate) timeout: Option<i64>,
    /// Let a Python workload mark more ranges: torch-ops, prefill-decode; may be repeated
    #[arg(long, global = true, value_name = "WHAT")]
    pub(crate) annotate: Vec<Annotation>,
    /// Print every command and environment change, and run nothing
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
    /// Exit with the workload's status even if no GPU work was recorded
    #[arg(long, global = true)]
    pub(crate) allow_empty: bool,
    /// Also exit with 70 if coverage is partial (records are missing)
    #[arg(long, global = true, value_name = "COVERAGE")]
    pub(crate) fail_on: Option<FailOn>,
    /// Run the nsys and ncu passes even if the workload failed under the collector
    #[arg(long, global = true)]
    pub(crate) keep_going: bool,
    /// Exit with 70 if any of these passes is missing, was skipped, or failed
    #[arg(long, global = true, value_name = "PASS,...", value_delimiter = ',')]
    pub(crate) require: Vec<RequiredPass>,
    /// Say more
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Colors; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", action = ArgAction::Set)]
    pub(crate) color: Color,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
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
    pub(crate) fn name(self) -> &'static str {
        match self {
            RequiredPass::Baseline => "baseline",
            RequiredPass::Collect => "collect",
            RequiredPass::Nsys => "nsys",
            RequiredPass::Ncu => "ncu",
        }
    }
}

/// A coverage that is not good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Something is missing.
    Partial,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the built-in workload through the whole pipeline: on the GPU if there is one, else on a
    /// simulated one
    Demo {
        /// Settings, as for a run
        #[arg(value_name = "KEY=VALUE")]
        overrides: Vec<String>,
    },
    /// Write the reports of an existing run again
    Report {
        /// Folder of the bundle, e.g. tmp/stage2/latest
        // Not `run_dir`: the parser would take it for the option of that name.
        #[arg(value_name = "RUN_DIR")]
        bundle: PathBuf,
        /// Report settings to override: model, hardware, operators, report, stage1; the bundle keeps
        /// them
        #[arg(value_name = "KEY=VALUE")]
        overrides: Vec<String>,
    },
    /// Run a command untraced and under each profiler in turn, and print what each costs
    Bench {
        /// Rounds; each runs everything once, and untraced twice
        #[arg(long, value_name = "N", default_value_t = 3,
              value_parser = clap::value_parser!(u32).range(1..=1000))]
        rounds: u32,
        /// Untraced runs before the first round that are not measured: files are read and kernels
        /// compiled for the first time in them
        #[arg(long, value_name = "N", default_value_t = 1,
              value_parser = clap::value_parser!(u32).range(0..=1000))]
        warmup: u32,
        /// Settings, as for a run
        #[arg(value_name = "KEY=VALUE")]
        overrides: Vec<String>,
        /// The workload
        #[arg(last = true, value_name = "COMMAND [ARG]...")]
        workload: Vec<OsString>,
    },
    /// Make a bundle with reports of captures that were taken elsewhere
    Merge {
        /// Folder of spools (*.s2t), or one of them
        #[arg(long, value_name = "DIR")]
        spool: Vec<PathBuf>,
        /// File of Nsight Systems: .sqlite, .nsys-rep, or .csv of `nsys stats`
        #[arg(long, value_name = "FILE")]
        nsys: Vec<PathBuf>,
        /// File of Nsight Compute: .ncu-rep, or .csv of its raw or details page
        #[arg(long, value_name = "FILE")]
        ncu: Vec<PathBuf>,
        /// Folder of the bundle: new or empty
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
        /// Settings of the reports, as for a run: model, hardware, operators, report
        #[arg(value_name = "KEY=VALUE")]
        overrides: Vec<String>,
    },
    /// Print the composed configuration, and where each value comes from
    Config {
        /// Settings, as for a run
        #[arg(value_name = "KEY=VALUE")]
        overrides: Vec<String>,
    },
    /// Print what the CUDA driver says about the GPUs, as JSON
    #[command(name = PROBE_GPU, hide = true)]
    ProbeGpu,
}

impl Options {
    /// Whether there is an option that only a run has.
    pub(crate) fn runs_something(&self) -> bool {
        self.dry_run
            || self.run_dir.is_some()
            || self.timeout.is_some()
            || !self.annotate.is_empty()
            || self.keep_going
    }

    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}

/// Reads a time as whole seconds, rounded up.
fn seconds(text: &str) -> Result<i64, String> {
    let wrong = || "give seconds, or a number with a unit: 90, 90s, 5m, 1h30m".to_owned();
    let seconds = match text.parse::<i64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let time: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
            time.as_secs().saturating_add(i64::from(time.subsec_nanos() > 0))
        }
    };
    if seconds > 0 { Ok(seconds) } else { Err("the time has to be longer than nothing".to_owned()) }
}

/// Makes `--color` count from here on, also for the messages of the parser itself, which it writes
/// before it has read everything.
pub(crate) fn set_color(words: &[OsString]) {
    let mut choice = None;
    let mut words = words.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let value = match word.to_str() {
            Some("--color") => words.next().and_then(|next| next.to_str()),
            Some(word) => word.strip_prefix("--color="),
            None => None,
        };
        choice = value.and_then(|value| Color::from_str(value, false).ok()).or(choice);
    }
    match choice {
        Some(Color::Always) => anstream::ColorChoice::Always.write_global(),
        Some(Color::Never) => anstream::ColorChoice::Never.write_global(),
        Some(Color::Auto) | None => {}
    }
}

/// Reads the command line, or gives the text and the exit status to end with.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli, u8> {
    set_color(words);
    Cli::try_parse_from(words).map_err(|error| {
        // Nothing can be done about a stderr that is closed.
        let _ = error.print();
        if error.kind() == clap::error::ErrorKind::UnknownArgument
            && !words.iter().any(|word| word == OsStr::new("--"))
            && let Some(hint) = hints::place_of_command(words.get(1..).unwrap_or_default())
        {
            let hint = format!("\n{}\n", crate::terminal::printable(&hint));
            let _ = std::io::Write::write_all(&mut anstream::stderr(), hint.as_bytes());
        }
        u8::try_from(error.exit_code()).unwrap_or(2)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_parser_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_examples_of_the_help_run() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let mut seen = 0;
        for line in EXAMPLES.lines().filter(|line| line.contains("stage2-launch ")) {
            let (before, command) = line.split_once("stage2-launch ").expect("a command");
            if !before.trim().is_empty() && !before.starts_with("  (cd examples && ") {
                continue;
            }
            let words = shlex::split(command.trim_end_matches(')')).expect("words");
            let words = std::iter::once("stage2-launch".to_owned()).chain(words);
            let cli = Cli::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
            let overrides = match cli.command {
                None => cli.overrides,
                Some(Command::Merge { overrides, .. } | Command::Report { overrides, .. }) => {
                    overrides
                }
                Some(_) => Vec::new(),
            };
            let request = crate::commands::run::request(&cli.options, overrides);
            crate::config::compose(&request).unwrap_or_else(|e| panic!("{line}: {e}"));
            // A module of Python is looked for where the example runs.
            if cli.workload.iter().any(|word| word == "runner") {
                assert!(before.contains("cd examples"), "{line}");
                assert!(std::path::Path::new(root).join("examples/runner/__main__.py").is_file());
            }
            seen += 1;
        }
        assert_eq!(seen, 9, "all of them");
    }

    #[test]
    fn times_have_units() {
        for (text, expected) in
            [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1500ms", 2)]
        {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["0", "-3", "soon", "", "5 parsecs", "99999999999999999999"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn overrides_and_commands_are_told_apart() {
        let parse = |words: &[&str]| Cli::try_parse_from([&["stage2-launch"], words].concat());
        let cli = parse(&["-v", "a=1", "demo=2", "--", "demo", "-v", "--", "x"]).expect("a run");
        assert_eq!(cli.overrides, ["a=1", "demo=2"]);
        assert_eq!(cli.workload, ["demo", "-v", "--", "x"]);
        assert!(cli.command.is_none());
        let cli = parse(&["demo", "run.mode=light", "-q"]).expect("a demo");
        assert!(
            matches!(cli.command, Some(Command::Demo { overrides }) if overrides == ["run.mode=light"])
        );
        assert!(cli.options.quiet);
        assert!(parse(&["-v", "-q", "--", "x"]).is_err());
        assert!(parse(&["report"]).is_err());
    }
}
