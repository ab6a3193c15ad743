//! Words of the command line -> what the user wants.

mod arguments;
mod hints;
mod options;
mod words;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{ColorChoice, CommandFactory as _, Parser, Subcommand, ValueEnum as _};
use clap_complete::Shell;

use crate::env::PROBE_GPU;
pub(crate) use arguments::{
    BenchArgs, Captures, DoctorArgs, DiffArgs, ExportArgs, MergeArgs, ReportArgs, RunArgs, Times,
};
pub(crate) use hints::no_setting;
pub(crate) use options::{Acceptance, FailOn, Messages, RequiredPass, RunOptions, RunSettings};

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
  stage2-launch diff before/ after/ --fail-if 'decode.step_ms>+5%+0.2ms'
      what changed between two runs, and status 1 if a decode step got slower by more than that
  stage2-launch export tmp/stage2/latest --format perfetto --stage decode
      the kernels and ranges of decode, for ui.perfetto.dev
  stage2-launch --dry-run -- python infer.py
      what would be run, as a shell would write it
  stage2-launch bench --rounds 5 -- python infer.py
      what the collector, and nsys where it is installed, cost this program
  stage2-launch doctor -- python infer.py
      whether driver, CUPTI, permissions and tools let a run of this program record
  stage2-launch config run.mode=light
      all settings, and where each value comes from

The bundle is written to tmp/stage2/<time>-<pid>/, and tmp/stage2/latest points to it.
Exit status: the workload's own (128+N when signal N ended it); 124 after --timeout; 127 and 126 for
a command that is not there or cannot be run; 2 for wrong usage or configuration; 70 when profiling
failed or recorded no GPU work (--allow-empty lets that pass), with --fail-on partial when records
are missing, and with --require PASS,... when one of these passes gave nothing. A failing workload's
status takes precedence over 70, and nsys and ncu are skipped unless --keep-going is given; a workload
that --timeout ended does not count as failing: nsys and ncu run.";

const DOCTOR_STATUS: &str = "\
Exit status: 0 when all checks are ok, warnings or not checked; 1 when one is a problem; 2 for wrong
usage. docs/doctor.md describes every check and the JSON.";

/// Runs a workload and shows every GPU kernel of it, per NVTX range
#[derive(Debug, Parser)]
#[command(
    name = "stage2-launch",
    version,
    override_usage = "stage2-launch [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]...\n       \
                      stage2-launch <demo|doctor|report|diff|export|bench|merge|config|completions> [OPTIONS] ...",
    after_help = EXAMPLES,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    // What is run where no subcommand is named.
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) messages: Messages,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the built-in workload through the whole pipeline: on the GPU if there is one, else on a
    /// simulated one
    Demo(RunOptions),
    /// Write the reports of an existing run again
    Report(ReportArgs),
    /// Print what changed between runs, per stage and kernel
    Diff(DiffArgs),
    /// Write the kernels and ranges of a run for another tool
    Export(ExportArgs),
    /// Run a command untraced and under each profiler in turn, and print what each costs
    Bench(BenchArgs),
    /// Make a bundle with reports of captures that were taken elsewhere
    #[command(visible_alias = "import")]
    Merge(MergeArgs),
    /// Check driver, CUPTI, permissions, tools and the workload, and print what to do about each problem
    #[command(after_help = DOCTOR_STATUS)]
    Doctor(DoctorArgs),
    /// Print the composed configuration, and where each value comes from
    Config(RunSettings),
    /// Print the completions of this command line for a shell
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder, which has to be there
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print what the CUDA driver says about the GPUs, as JSON
    #[command(name = PROBE_GPU, hide = true)]
    ProbeGpu,
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
        choice = value.and_then(|value| ColorChoice::from_str(value, false).ok()).or(choice);
    }
    match choice {
        Some(ColorChoice::Always) => anstream::ColorChoice::Always.write_global(),
        Some(ColorChoice::Never) => anstream::ColorChoice::Never.write_global(),
        Some(ColorChoice::Auto) | None => {}
    }
}

/// Reads the command line, or gives the text and the exit status to end with.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli, u8> {
    set_color(words);
    let mut command = Cli::command();
    command.build();
    let words = words::subcommand_first(&command, words);
    Cli::try_parse_from(&words).map_err(|error| {
        // Nothing can be done about a stderr that is closed.
        let _ = error.print();
        if error.kind() == clap::error::ErrorKind::UnknownArgument
            && !words.iter().any(|word| word == OsStr::new("--"))
            && let Some(hint) =
                hints::behind_unknown_option(&command, words.get(1..).unwrap_or_default())
        {
            let hint = format!("\n{}\n", crate::terminal::printable(&hint));
            let _ = std::io::Write::write_all(&mut anstream::stderr(), hint.as_bytes());
        }
        u8::try_from(error.exit_code()).unwrap_or(2)
    })
}

#[cfg(test)]
mod tests {
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
            let request = match cli.command {
                None => cli.run.options.settings.request(),
                Some(Command::Demo(options)) => options.settings.request(),
                Some(Command::Bench(args)) => args.settings.request(),
                Some(Command::Config(settings)) => settings.request(),
                Some(Command::Merge(args)) => args.presets.request(args.overrides),
                Some(Command::Report(args)) => args.presets.request(args.overrides),
                Some(
                    Command::Diff(_)
                    | Command::Doctor(_)
                    | Command::Export(_)
                    | Command::ProbeGpu
                    | Command::Completions { .. }
                    | Command::Man { .. },
                ) => crate::config::Request::default(),
            };
            crate::config::compose(&request).unwrap_or_else(|e| panic!("{line}: {e}"));
            // A module of Python is looked for where the example runs.
            if cli.run.workload.iter().any(|word| word == "runner") {
                assert!(before.contains("cd examples"), "{line}");
                assert!(std::path::Path::new(root).join("examples/runner/__main__.py").is_file());
            }
            seen += 1;
        }
        assert_eq!(seen, 11, "all of them");
    }

    #[test]
    fn overrides_and_commands_are_told_apart() {
        let parse = |words: &[&str]| Cli::try_parse_from([&["stage2-launch"], words].concat());
        let cli = parse(&["-v", "a=1", "demo=2", "--", "demo", "-v", "--", "x"]).expect("a run");
        assert_eq!(cli.run.options.settings.overrides, ["a=1", "demo=2"]);
        assert_eq!(cli.run.workload, ["demo", "-v", "--", "x"]);
        assert!(cli.command.is_none());
        let cli = parse(&["demo", "run.mode=light", "-q"]).expect("a demo");
        assert!(matches!(cli.command, Some(Command::Demo(options))
                if options.settings.overrides == ["run.mode=light"]));
        assert!(cli.messages.quiet);
        assert!(parse(&["-v", "-q", "--", "x"]).is_err());
        assert!(parse(&["report"]).is_err());
    }
}
