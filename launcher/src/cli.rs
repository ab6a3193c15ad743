//! Words of the command line -> what the user wants.

mod arguments;
mod control;
mod examples;
mod hints;
mod options;
mod words;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{ColorChoice, CommandFactory as _, Parser, Subcommand, ValueEnum as _};
use clap_complete::Shell;

use crate::env::PROBE_GPU;
use crate::failure::Failure;
use crate::terminal::Terminal;
pub(crate) use arguments::{
    BenchArgs, Captures, DiffArgs, DoctorArgs, ExportArgs, FeedArgs, MergeArgs, ReportArgs,
    RunArgs, Times, TopArgs, Watching,
};
pub(crate) use control::{Answering, CtlArgs, CtlVerb, SnapshotArgs};
pub(crate) use options::{
    Acceptance, FailOn, Messages, Presets, RequiredPass, RunOptions, RunSettings, Showing,
};
pub(crate) use words::is_setting;

const DOCTOR_STATUS: &str = "\
Exit status: 0 when all checks are ok, warnings or not checked; 1 when one is a problem; 2 for wrong
usage. docs/doctor.md describes every check and the JSON.";

/// Runs a workload and shows every GPU kernel of it, per NVTX range
#[derive(Debug, Parser)]
#[command(
    name = "stage2-launch",
    version,
    override_usage = "stage2-launch [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]...\n       \
                      stage2-launch SUBCOMMAND ...",
    after_help = examples::ALL,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true
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
    /// Run a workload through all passes and write its reports (`run` may be left out)
    #[command(
        override_usage = "stage2-launch run [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]...",
        after_help = examples::RUN
    )]
    Run(RunArgs),
    /// Run the built-in workload through the whole pipeline: on the GPU if there is one, else on a
    /// simulated one
    #[command(after_help = examples::DEMO)]
    Demo(RunOptions),
    /// Write the reports of an existing run again
    #[command(after_help = examples::REPORT)]
    Report(ReportArgs),
    /// Print what changed between runs, per stage and kernel
    Diff(DiffArgs),
    /// Write the kernels and ranges of a run for another tool
    #[command(after_help = examples::EXPORT)]
    Export(ExportArgs),
    /// Run a command untraced and under each profiler in turn, and print what each costs
    #[command(
        override_usage = "stage2-launch bench [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]...",
        after_help = examples::BENCH
    )]
    Bench(BenchArgs),
    /// Make a bundle with reports of captures that were taken elsewhere
    #[command(visible_alias = "import", after_help = examples::MERGE)]
    Merge(MergeArgs),
    /// Check driver, CUPTI, permissions, tools and the workload, and print what to do about each problem
    #[command(after_help = DOCTOR_STATUS)]
    Doctor(DoctorArgs),
    /// Ask running processes for their status, have them start or stop recording, or take a snapshot
    #[command(
        override_usage = "stage2-launch ctl TARGET VERB [OPTIONS]\n       \
                          stage2-launch ctl --all VERB [OPTIONS]",
        after_help = examples::CTL
    )]
    Ctl(CtlArgs),
    /// Show what running processes do now: stages, kernels, ranks, losses
    #[command(after_help = examples::TOP)]
    Top(TopArgs),
    /// Give what running processes do to Prometheus, as OpenMetrics
    #[command(after_help = examples::FEED)]
    Feed(FeedArgs),
    /// Print the composed configuration, and where each value comes from
    #[command(after_help = examples::CONFIG)]
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
    let words = words::arranged(&command, words);
    let typed = words.get(1..).unwrap_or_default();
    let cli = Cli::try_parse_from(&words).map_err(|error| {
        use clap::error::ErrorKind;
        let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        if error.use_stderr() && !is_help {
            // The workload of a run around this one may write to the same terminal.
            let _ = write!(anstream::stderr(), "stage2-launch: ");
        }
        // Nothing can be done about a stderr that is closed.
        let _ = error.print();
        if error.kind() == ErrorKind::UnknownArgument
            && !words.iter().any(|word| word == "--")
            && let Some(hint) = hints::behind_unknown_option(&command, typed)
        {
            let hint = format!("\n{}\n", crate::terminal::printable(&hint));
            let _ = anstream::stderr().write_all(hint.as_bytes());
        }
        u8::try_from(error.exit_code()).unwrap_or(2)
    })?;
    match hints::no_setting(&command, typed) {
        Some(hint) => {
            let failure = Failure::Usage(hint);
            Terminal::new(cli.messages.verbosity()).error(&failure.to_string());
            Err(failure.exit())
        }
        None => Ok(cli),
    }
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
        let mut command = Cli::command();
        command.build();
        let helps: Vec<String> = std::iter::once(&command)
            .chain(command.get_subcommands())
            .filter_map(|command| command.get_after_help().map(ToString::to_string))
            .collect();
        let mut seen = 0;
        for line in helps.iter().flat_map(|help| help.lines()) {
            let Some((before, command)) = line.split_once("stage2-launch ") else { continue };
            if !before.trim().is_empty() && !before.starts_with("  (cd examples && ") {
                continue;
            }
            let words = shlex::split(command.trim_end_matches(')')).expect("words");
            let words = std::iter::once("stage2-launch".to_owned()).chain(words);
            let cli = Cli::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
            let request = match &cli.command {
                None => cli.run.options.request(),
                Some(Command::Run(args)) => args.options.request(),
                Some(Command::Demo(options)) => options.request(),
                Some(Command::Bench(args)) => args.settings.request(),
                Some(Command::Config(settings)) => settings.request(),
                Some(Command::Merge(args)) => args.presets.request(args.overrides.clone()),
                Some(Command::Report(args)) => args.presets.request(args.overrides.clone()),
                Some(
                    Command::Ctl(_)
                    | Command::Diff(_)
                    | Command::Doctor(_)
                    | Command::Export(_)
                    | Command::Feed(_)
                    | Command::ProbeGpu
                    | Command::Top(_)
                    | Command::Completions { .. }
                    | Command::Man { .. },
                ) => crate::config::Request::default(),
            };
            crate::config::compose(&request).unwrap_or_else(|e| panic!("{line}: {e}"));
            // A module of Python is looked for where the example runs.
            if line.contains("-m runner") {
                assert!(before.contains("cd examples"), "{line}");
                assert!(std::path::Path::new(root).join("examples/runner/__main__.py").is_file());
            }
            seen += 1;
        }
        assert!(seen >= 20, "all of them, not {seen}");
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
