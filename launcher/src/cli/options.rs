//! Options that several commands take, in groups: each command flattens those that it uses.
//!
//! The groups have no doc comments, because clap would take these for the texts of the commands.

use std::path::PathBuf;

use anyhow::{anyhow, ensure};
use clap::{ArgAction, Args, ColorChoice, ValueEnum};

use crate::config::Request;
use crate::terminal::Verbosity;
use stage2_config::hydra::{Node, Origin, Value};
use stage2_report::operators::Annotation;

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
    /// Let a Python workload mark more ranges: torch-ops, prefill-decode; may be repeated
    #[arg(long, value_name = "WHAT")]
    annotate: Vec<Annotation>,
    /// Settings in Hydra's override grammar: key=value, +key=value, ++key=value, ~key, group=preset
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
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
    pub(crate) showing: Showing,
}

// What happens to reports that are written: of every command that writes some.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Showing {
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
        if let Some(dir) = &self.run_dir {
            let text = dir.to_string_lossy().into_owned();
            request.flags.push(("run.dir", format!("--run-dir {text}"), Value::Literal(text)));
        }
        if let Some(group) = &self.group {
            let value = Value::Literal(group.clone());
            request.flags.push(("run.group", format!("--group {group}"), value));
        }
        if let Some(seconds) = self.timeout {
            let text = format!("--timeout {seconds}");
            request.flags.push(("run.timeout_s", text, Value::Int(seconds)));
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
        for (mode, is_asked) in [("light", self.light), ("deep", self.deep)] {
            if is_asked {
                request.switches.push((
                    "run.mode",
                    format!("--{mode}"),
                    Value::Text(mode.to_owned()),
                ));
            }
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
    ensure!(seconds > 0, "the time has to be longer than nothing");
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

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
