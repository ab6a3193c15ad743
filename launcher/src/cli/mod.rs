//! Words of the command line -> what the user wants.

mod arguments;
mod ctl;
mod instead;
mod words;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ColorChoice, CommandFactory as _, Parser, Subcommand, ValueEnum as _};
use clap_complete::Shell;

use crate::env::PROBE_GPU;
use crate::failure::Failure;
use crate::terminal::{Terminal, Verbosity};

pub(crate) use arguments::{
    Acceptance, AskArgs, BaselineArgs, BaselineVerb, BenchArgs, BrowserOptions, Captures, Consent,
    DemoArgs, DiffArgs, DoctorArgs, ExportArgs, FailOn, FeedArgs, JobArgs, McpArgs, MergeArgs,
    Messages, NextArgs, QueryArgs, ReportArgs, RequiredPass, RunArgs, RunOptions, RunSettings,
    SchemaArgs, SkillArgs, SummariseArgs, Times, TopArgs, WatchOptions,
};
pub(crate) use ctl::{AnswerOptions, CtlArgs, CtlVerb, SnapshotArgs, WhyArgs};
pub(crate) use instead::{OF_DEMO, in_words, is_of_demo};
pub(crate) use words::is_setting;

const DOCTOR_HELP: &str = "\
Exit status: 0 when no check found a problem; 1 when one is a
problem; 2 for wrong usage. docs/doctor.md describes every check and the JSON.";

/// Runs a workload and shows its GPU kernels, per NVTX range
#[derive(Debug, Parser)]
#[command(
    name = "stage2-launch",
    version,
    max_term_width = 80,
    override_usage = "stage2-launch [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]...\n       \
                      stage2-launch SUBCOMMAND ...",
    after_help = PROGRAM_SHORT_HELP,
    after_long_help = PROGRAM_HELP,
    arg_required_else_help = true,
    // Those of `run`: `run -h` has the first ones.
    mut_args(|arg| {
        let is_hidden = !arg.is_global_set() || arg.is_hide_short_help_set();
        arg.hide_short_help(is_hidden)
    }),
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
    /// Run a workload through all passes, and write its reports
    #[command(
        override_usage = "stage2-launch run [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]...",
        after_help = RUN_SHORT_HELP,
        after_long_help = RUN_HELP
    )]
    Run(RunArgs),
    /// Run the built-in workload, on the GPU or else on a simulated one
    #[command(
        override_usage = "stage2-launch demo [OPTIONS] [KEY=VALUE]... [-- OPTION...]",
        after_help = DEMO_HELP
    )]
    Demo(DemoArgs),
    /// Write the reports of an existing run again
    #[command(after_help = REPORT_HELP)]
    Report(ReportArgs),
    /// Print what changed between runs, per stage and kernel
    Diff(DiffArgs),
    /// Answer a question about a run in a few lines
    #[command(after_help = ASK_HELP)]
    Ask(AskArgs),
    /// Print the experiment that would confirm the first advice of a run
    Next(NextArgs),
    /// Query a run with SQL
    Query(QueryArgs),
    /// Print the tables of a run that `query` can ask
    Schema(SchemaArgs),
    /// Serve a folder of runs to an agent over MCP
    Mcp(McpArgs),
    /// Print the skill that teaches an agent this program
    Skill(SkillArgs),
    /// Keep reports under a name, to compare later runs with them
    Baseline(BaselineArgs),
    /// Write the kernels and ranges of a run for another tool
    #[command(after_help = EXPORT_HELP)]
    Export(ExportArgs),
    /// Measure what each profiler costs a command
    #[command(
        override_usage = "stage2-launch bench [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]...",
        after_help = BENCH_HELP
    )]
    Bench(BenchArgs),
    /// Make a bundle of existing captures
    #[command(
        visible_alias = "import",
        override_usage = "stage2-launch merge [--spool DIR | --nsys FILE | --ncu FILE]... -o DIR\n       \
                          [KEY=VALUE]...",
        after_help = MERGE_HELP
    )]
    Merge(MergeArgs),
    /// Write the summaries of traces: some kilobytes a minute
    Summarise(SummariseArgs),
    /// Merge the summaries of all ranks: who is late, when and why
    Job(JobArgs),
    /// Check driver, CUPTI, permissions, tools and the workload
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Start, stop and inspect recording in running processes
    #[command(
        override_usage = "stage2-launch ctl TARGET VERB [OPTIONS]\n       \
                          stage2-launch ctl --all VERB [OPTIONS]",
        after_help = CTL_HELP
    )]
    Ctl(CtlArgs),
    /// Show what running processes do now
    #[command(after_help = TOP_HELP)]
    Top(TopArgs),
    /// Serve live metrics of running processes to Prometheus
    #[command(after_help = FEED_HELP)]
    Feed(FeedArgs),
    /// Print the composed configuration, and where each value comes from
    #[command(after_help = CONFIG_HELP)]
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
        // Nothing can be done about a stdout that is closed.
        let _ = if is_help_of_program(&command, typed, &error) {
            print_by_purpose(typed, error.use_stderr())
        } else if is_help(&error) {
            error.print()
        } else {
            // The workload of a run around this one may write to the same terminal.
            Terminal::new(Verbosity::Normal).error(&instead::refused(&command, typed, &error));
            Ok(())
        };
        if is_help(&error) && error.use_stderr() {
            let name = words::subcommand(&command, typed).map(|name| name.to_string_lossy());
            let name = name.map_or_else(String::new, |name| format!(" {name}"));
            let text = format!("a subcommand is missing: stage2-launch{name} SUBCOMMAND");
            Terminal::new(Verbosity::Normal).error(&text);
        }
        u8::try_from(error.exit_code()).unwrap_or(2)
    })?;
    match instead::no_setting(&command, typed) {
        Some(hint) => {
            let failure = Failure::Usage(hint);
            Terminal::new(cli.messages.verbosity()).error(&failure.to_string());
            Err(failure.exit())
        }
        None => Ok(cli),
    }
}

/// The subcommands, by what they are for.
const PURPOSES: [(&str, &[&str]); 5] = [
    ("Measure", &["run", "demo", "bench", "doctor", "config"]),
    ("Read a run", &["report", "ask", "next", "query", "schema", "export"]),
    ("Compare runs", &["diff", "baseline"]),
    ("Running processes", &["ctl", "top", "feed"]),
    ("Other captures, jobs, agents", &["merge", "summarise", "job", "mcp", "skill", "completions"]),
];

/// The program, whose help lists the subcommands by purpose: the parser knows one list only.
fn by_purpose() -> clap::Command {
    let command = Cli::command();
    let heading = *command.get_styles().get_header();
    let mut listed = String::new();
    for (purpose, names) in PURPOSES {
        listed.push_str(&format!("{heading}{purpose}:{heading:#}\n"));
        for known in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = known.get_about().map(ToString::to_string).unwrap_or_default();
            let also = known.get_visible_aliases().map(|alias| format!(" [alias: {alias}]"));
            let also: String = also.collect();
            listed.push_str(&format!("  {:<11}  {about}{also}\n", known.get_name()));
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}\n{{all-args}}{{after-help}}"
    );
    let command = command.mut_subcommands(|known| known.hide(true)).disable_help_subcommand(true);
    command.help_template(template)
}

/// Whether the parser has the help of the program as a whole, and not of a subcommand.
fn is_help_of_program(command: &clap::Command, typed: &[OsString], error: &clap::Error) -> bool {
    is_help(error)
        && error.kind() != ErrorKind::DisplayVersion
        && words::subcommand(command, typed).is_none_or(|name| {
            let has_verbs = command.find_subcommand(name).is_some_and(|of| of.has_subcommands());
            // `help` has each subcommand as a verb.
            typed == std::slice::from_ref(name) && (name == "help" || !has_verbs)
        })
}

fn print_by_purpose(typed: &[OsString], to_stderr: bool) -> std::io::Result<()> {
    let mut command = by_purpose();
    let is_long = typed.iter().any(|word| word == "--help" || word == "help");
    let text = if is_long { command.render_long_help() } else { command.render_help() };
    let text = text.ansi().to_string();
    match to_stderr {
        true => anstream::stderr().write_all(text.as_bytes()),
        false => anstream::stdout().write_all(text.as_bytes()),
    }
}

/// Whether the parser has a text that was asked for, or that explains a command without words.
fn is_help(error: &clap::Error) -> bool {
    !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

const PROGRAM_SHORT_HELP: &str = "\
Start with `stage2-launch demo --open`, or `stage2-launch --light -- COMMAND`.
`run -h` shows --light, --open and --run-dir; `SUBCOMMAND --help` has examples.";

const RUN_SHORT_HELP: &str = "\
Example: stage2-launch run --light hardware=h200 -- python infer.py
`stage2-launch config` shows all settings, and `run --help` all options.";

/// Of the program as a whole: one line for each thing that it does.
const PROGRAM_HELP: &str = "\
Examples:
  stage2-launch demo --open
      the built-in workload, on the GPU if there is one, else on a simulated one
  stage2-launch -- python infer.py --batch 4
      any program: every kernel of it, per NVTX range; then again under nsys and
      ncu
  stage2-launch --light -- python infer.py
      the same in a single run, without nsys and ncu
  stage2-launch report tmp/stage2/latest model/llm=llama_3_8b --open
      write the reports of a run again, here with a model that was not set
      before
  stage2-launch export tmp/stage2/latest --format perfetto --stage decode
      the kernels and ranges of decode, for ui.perfetto.dev
  stage2-launch diff before/ after/ --fail-if 'decode.step_ms>+5%+0.2ms'
      what changed between two runs, and status 1 if a decode step got slower by
      more than that
  stage2-launch doctor -- python infer.py
      whether driver, CUPTI, permissions and tools let a run of this program
      record

`stage2-launch SUBCOMMAND --help` has more. Options and settings may stand in
any order before `--`; `run` may be left out. The bundle is written to
tmp/stage2/<time>-<pid>/, and tmp/stage2/latest points to it.

Exit status: that of the workload; 124 after --timeout; 126 or 127 if the
command cannot be run or is not there; 2 for wrong usage or configuration; 70 if
profiling failed or recorded no GPU work.";

const RUN_HELP: &str = "\
Examples:
  stage2-launch run -- python infer.py --batch 4
      all passes: the collector, then nsys and ncu, where they are installed
  stage2-launch run --light --open -- python infer.py
      a single run under the collector, and the report in a browser
  stage2-launch run model/llm=llama_3_8b hardware=h200 -- python infer.py
      with MFU, and the floor of the hardware
  (cd examples && stage2-launch run workload=hydra -- python -m runner)
      a Hydra app, here the example of the repository: its outputs go into the
      bundle
  stage2-launch run 'profiling.collector.ranges=[decode*]' --timeout 5m -- ./a
      only kernels in such ranges, and an end after five minutes
  stage2-launch run --light -- torchrun --nproc-per-node 2 infer.py
      every rank: who waits for whom
  stage2-launch run --annotate prefill-decode -- python infer.py
      a Python program without NVTX ranges
  stage2-launch run --dry-run -- python infer.py
      what would be run, as a shell would write it

Exit status: the workload's own (128+N when signal N ended it); 124 after
--timeout; 127 and 126 for a command that is not there or cannot be run; 2 for
wrong usage or configuration; 70 when profiling failed or recorded no GPU work.
A failing workload's status takes precedence over 70, and nsys and ncu are
skipped unless --keep-going is given; a workload that --timeout ended does not
count as failing.";

const DEMO_HELP: &str = "\
Examples:
  stage2-launch demo --open
      one pass on a simulated GPU, else also nsys and ncu; then the report in
      a browser
  stage2-launch demo --light --run-dir my-demo
      the collector only, into a folder of your choice
  stage2-launch demo --light -- --rounds 200
      a longer one, to watch with `stage2-launch top`";

const REPORT_HELP: &str = "\
Examples:
  stage2-launch report tmp/stage2/latest --open
      write the reports of the last run again, and open them in a browser
  stage2-launch report tmp/stage2/latest model/llm=llama_3_8b hardware=h200
      with a model that was not set before
  stage2-launch report --json -q tmp/stage2/latest
      all numbers on standard output, for jq or a script";

const ASK_HELP: &str = "\
Examples:
  stage2-launch ask tmp/stage2/latest summary
      what limits the run, what to do first, and what to ask next
  stage2-launch ask tmp/stage2/latest host --stage decode --json
      which code of the host the GPU waits for
  stage2-launch ask before compare after
      what changed between two runs

Questions: summary (or why), time, idle, host, kernels-by-loss (kernels),
late-ranks (late, ranks), collectives (nccl), memory-bound (memory), requests,
next, compare (diff), caveats, coverage. A terminal shows what matters first, as
far as it fits; elsewhere the answer is Markdown with all sources.
Exit status: 0, also where something is not known; 2 for a question, a stage or
a path that does not exist; 70 if nothing could be read. docs/agents.md
describes the answers.";

const EXPORT_HELP: &str = "\
Examples:
  stage2-launch export tmp/stage2/latest --format perfetto --stage decode
      the kernels and ranges of decode, for ui.perfetto.dev
  stage2-launch export tmp/stage2/latest -f chrome --window 1.5..2 -o traces
      half a second, as PyTorch's profiler writes it, one file per process";

const BENCH_HELP: &str = "\
Examples:
  stage2-launch bench -- python infer.py
      what the collector, and nsys where it is installed, cost this program,
      with A/A noise
  stage2-launch bench --rounds 5 pipeline.nsys.enable=false -- python infer.py
      more rounds, and without nsys

Exit status: that of the workload without a profiler; 2 for wrong usage; 70 if
no profiler was measured.";

const MERGE_HELP: &str = "\
Examples:
  stage2-launch merge --spool captures -o OUT model/llm=llama_3_8b
      trace files of collectors that ran without stage2-launch
  stage2-launch merge --nsys x.sqlite --ncu raw.csv -o OUT report.top_n=20
      captures of nsys and ncu, any subset of them";

const CONFIG_HELP: &str = "\
Examples:
  stage2-launch config run.mode=light
      all settings of a run, and where each value comes from
  stage2-launch config workload=hydra hardware=h200
      the same with presets";

const CTL_HELP: &str = "\
Examples:
  stage2-launch ctl 4711 start --for 10s
      ten seconds of a server that was started with STAGE2_START=off
  stage2-launch ctl 4711 stop --wait
      end the window, and wait until its file is whole
  stage2-launch ctl tmp/stage2/latest start --ranges 'decode*' --steps 20
      the same twenty steps in all ranks of a run
  stage2-launch ctl 4711 snapshot -o slow-hour --for 30s
      record half a minute, and write its reports, while the server runs on
  stage2-launch ctl --all status --json
      every process of this user, as JSON

Exit status: 0; 1 if a process refused or did not answer; 2 for wrong usage; 70
if there is none, or if a snapshot holds no GPU work. docs/dormant.md has a
recipe.";

const TOP_HELP: &str = "\
Examples:
  stage2-launch top 4711
      a process, also of a server that was started with STAGE2_START=off: s
      starts and stops
  stage2-launch top tmp/stage2/latest
      all ranks of a run, while it runs or afterwards
  stage2-launch top node-1:9464 node-2:9464
      what `feed` serves on other hosts, e.g. through tunnels of ssh
  stage2-launch top --once --tokens decode traces
      one page of text of a folder of trace files; the payload of decode is a
      number of tokens

Keys: q quits, s starts or stops recording (asks first), j and k choose a stage,
left and right choose one process, / filters stages and kernels, PgUp and PgDn
scroll the kernels, o and t sort, f freezes the page, w writes a report, and
? shows help. docs/live.md has more.

Exit status:
  0   no error
  2   wrong usage, or a path that does not exist
  70  no such process";

const FEED_HELP: &str = "\
Examples:
  stage2-launch feed --all
      serve http://127.0.0.1:9464/metrics for the processes of this user, and
      the same for `stage2-launch top 127.0.0.1:9464`
  stage2-launch feed RUN --textfile stage2.prom --readable-by group
      a file for node-exporter, for all ranks of a run
  stage2-launch feed node-1:9464 node-2:9464 --listen 127.0.0.1:9500
      the metrics of several hosts on one page, with sums over all
  stage2-launch feed --once tmp/stage2/latest
      the metrics as they are now, on standard output

It runs until a signal ends it (status 0), and then removes the file. Status
2 for wrong usage or a path that does not exist; 70 if there is no such process,
or the address is in use. docs/feed.md lists the metrics.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_help_fits_a_terminal_of_80_columns_and_no_line_of_it_breaks_twice() {
        fn each(command: &mut clap::Command, seen: &mut usize) {
            let after = [command.get_after_help(), command.get_after_long_help()];
            let after = after.map(|text| text.map(ToString::to_string).unwrap_or_default());
            let (short, text) = (command.render_help().to_string(), command.render_long_help());
            let all = [&text.to_string(), &short, &after[0], &after[1]];
            for line in all.iter().flat_map(|text| text.lines()) {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
            let (name, lines) = (command.get_name(), short.lines().count());
            let is_first = ["stage2-launch", "run"].contains(&name);
            assert!(lines <= if is_first { 40 } else { 60 }, "{name}: {lines} lines:\n{short}");
            *seen += 1;
            command.get_subcommands_mut().for_each(|command| each(command, seen));
        }
        let mut command = Cli::command();
        command.build();
        let mut seen = 0;
        each(&mut command, &mut seen);
        assert!(seen > 30, "all of them, not {seen}");
    }

    #[test]
    fn each_subcommand_that_is_not_hidden_has_one_purpose() {
        let command = Cli::command();
        let seen = command.get_subcommands().filter(|known| !known.is_hide_set());
        let mut seen: Vec<&str> = seen.map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> =
            PURPOSES.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        seen.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, seen);
        let help = by_purpose().render_help().to_string();
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        assert!(help.contains("Compare runs:\n  diff         Print what changed"), "{help}");
    }

    #[test]
    fn the_examples_of_the_help_run() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let mut command = Cli::command();
        command.build();
        let commands = std::iter::once(&command).chain(command.get_subcommands());
        let helps = commands.filter_map(|command| {
            Some(command.get_after_long_help().or(command.get_after_help())?.to_string())
        });
        let helps: Vec<String> = helps.collect();
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
                Some(Command::Demo(args)) => args.options.request(),
                Some(Command::Bench(args)) => args.settings.request(),
                Some(Command::Config(settings)) => settings.request(),
                Some(Command::Merge(args)) => args.presets.request(args.overrides.clone()),
                Some(Command::Report(args)) => args.presets.request(args.overrides.clone()),
                Some(
                    Command::Ask(_)
                    | Command::Baseline(_)
                    | Command::Ctl(_)
                    | Command::Diff(_)
                    | Command::Query(_)
                    | Command::Schema(_)
                    | Command::Doctor(_)
                    | Command::Export(_)
                    | Command::Feed(_)
                    | Command::Job(_)
                    | Command::Next(_)
                    | Command::Mcp(_)
                    | Command::ProbeGpu
                    | Command::Skill(_)
                    | Command::Summarise(_)
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
        assert!(matches!(cli.command, Some(Command::Demo(args))
                if args.options.settings.overrides == ["run.mode=light"]));
        assert!(cli.messages.quiet);
        assert!(parse(&["-v", "-q", "--", "x"]).is_err());
        assert!(parse(&["report"]).is_err());
    }
}
