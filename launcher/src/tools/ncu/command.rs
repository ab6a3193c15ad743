//! Settings, kernels and the version of ncu -> every process that the ncu pass starts.
//!
//! Pure: nothing is run, made or looked up. Clocks are left alone unless the settings say otherwise:
//! the counters are set against durations that were measured at the clocks of the workload, and
//! locking needs rights that containers lack, and fails on MIG.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::available::{Available, known_metrics, known_sections};
use super::config::{GraphProfiling, Ncu, NcuCli, ReplayMode};
use super::expression::{self, Around};
use super::select::{Selection, pattern};
use crate::tools::step::Step;
use crate::tools::version::Version;
use crate::tools::{without_patterns, word};
use stage2_model::Finding;
use stage2_read::ncu::nvtx::Label;

/// The oldest version that the forms of arguments below hold for.
pub const OLDEST: Version = Version::new(2022, 4, 0);
/// The first version with `--config-file off`, which keeps a file of the user from changing the run.
const CONFIG_FILE: Version = Version::new(2023, 1, 0);

/// Metrics that fit in one pass on every GPU since sm_80, for kernels that must not be replayed.
pub const SINGLE_PASS_METRICS: &[&str] =
    &["gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"];

/// Files of one profiling run, in the folder of the pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The report.
    pub report: PathBuf,
    /// What ncu said.
    pub log: PathBuf,
    /// The raw page: one row a launch, one column a metric.
    pub raw: PathBuf,
    /// The details page: one row a metric or rule.
    pub details: PathBuf,
}

/// What narrows a run down. A retry has neither.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// `--kernel-name`.
    pub kernel_name: Option<String>,
    /// `--nvtx-include`, one each.
    pub nvtx_include: Vec<String>,
    /// `--nvtx-exclude`, one each.
    pub nvtx_exclude: Vec<String>,
}

impl Filter {
    /// What the settings and the chosen kernels say.
    pub fn new(settings: &Ncu, selection: &Selection, findings: &mut Vec<Finding>) -> Filter {
        let nvtx = &settings.ncu_cli.nvtx;
        let mut filter = Filter {
            kernel_name: settings
                .ncu_cli
                .kernel_name
                .clone()
                .or_else(|| pattern(&selection.kernels)),
            ..Filter::default()
        };
        if settings.gating_nvtx {
            filter.nvtx_include = expressions(&nvtx.include, nvtx.start_end);
            filter.nvtx_exclude = expressions(&nvtx.exclude, nvtx.start_end);
            // A stage that is known not to occur would gate everything out.
            if let Some(stage) = settings
                .stage
                .as_ref()
                .filter(|_| nvtx.include.is_empty() && selection.stage_occurred)
            {
                let seen = selection.stage.clone();
                let stage = [seen.unwrap_or_else(|| Label::of_stage(stage))];
                let stage = expression::exact(&stage, Around::Anything, nvtx.start_end);
                filter.nvtx_include.extend(stage);
            }
        }
        filter.alike(nvtx.start_end, findings)
    }

    /// With all expressions of one kind, as ncu needs them. The settings were checked; the name of a
    /// stage or region that needs a regular expression can still spoil what goes beside it.
    fn alike(mut self, start_end: bool, findings: &mut Vec<Finding>) -> Filter {
        let lost = expression::lost([&self.nvtx_include, &self.nvtx_exclude]);
        if !lost.is_empty() {
            findings.push(Finding::warning(format!("ncu matches nothing for {}", lost.join(", ")),
                "beside a regular expression, which a name with \\, ; or a control character needs, \
                 ncu takes one nested expression in ncu_cli.nvtx.include and one in \
                 ncu_cli.nvtx.exclude",
                "leave out all nested expressions of pipeline.ncu.ncu_cli.nvtx but one, or name the \
                 stage or region without these characters",
            ));
        }
        expression::alike([&mut self.nvtx_include, &mut self.nvtx_exclude], start_end);
        self
    }

    /// Whether anything is left out by it.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }
}

/// The expressions of a list of the settings. What cannot be one was refused with the settings.
fn expressions(list: &[String], start_end: bool) -> Vec<String> {
    let of = |entry: &String| expression::of_setting(entry, start_end);
    list.iter().flat_map(|entry| of(entry).unwrap_or_else(|_| vec![entry.clone()])).collect()
}

/// Everything that an invocation is made from.
pub struct Request<'a> {
    /// The settings, checked.
    pub settings: &'a Ncu,
    /// The version of the tool; none where it is not known, e.g. because it is not installed.
    pub version: Option<Version>,
    /// Words of the workload.
    pub workload: &'a [OsString],
    /// Names that the tool and the GPU know.
    pub available: &'a Available,
}

/// The arguments of the run that profiles the kernels that compute.
pub fn profile(
    request: &Request<'_>,
    filter: &Filter,
    files: &Files,
    findings: &mut Vec<Finding>,
) -> Vec<OsString> {
    let cli = &request.settings.ncu_cli;
    let mut argv = common(request, files);
    let mut arg = |flag: &str, value: &str| argv.extend([flag.into(), value.into()]);
    // A retry without filters has nothing that says which ranges are meant.
    let names_ranges = !filter.nvtx_include.is_empty() || cli.has_own_ranges();
    let by_range = cli.replay_mode.is_range() && names_ranges;
    let mut replay = cli.replay_mode;
    if cli.replay_mode.is_range() && !by_range {
        replay = ReplayMode::Kernel;
        findings.push(Finding::note(
            "ncu: kernels are replayed in place of ranges",
            "without ranges there is nothing that the range replay modes could measure",
            "",
        ));
    }
    arg("--replay-mode", &word(replay));
    if by_range {
        // Kernels have no part in it: the range is the unit that is skipped and counted.
        if cli.launch_skip > 0 {
            arg("--launch-skip", &cli.launch_skip.to_string());
        }
        if let Some(count) = request.settings.regions.launch_count {
            arg("--launch-count", &count.to_string());
        }
    } else {
        launch_filters(cli, filter.kernel_name.as_deref(), &mut arg);
    }
    nvtx_filters(filter, &mut argv);
    measures(request, by_range, &mut argv, findings);
    finish(request, argv)
}

/// The run that profiles one region in a range replay mode: of regions within each other ncu measures
/// the outermost alone, so that each needs a run of its own.
pub fn profile_region(
    request: &Request<'_>,
    expression: &str,
    files: &Files,
    findings: &mut Vec<Finding>,
) -> Vec<OsString> {
    let nvtx = &request.settings.ncu_cli.nvtx;
    let filter = Filter {
        kernel_name: None,
        nvtx_include: vec![expression.to_owned()],
        nvtx_exclude: expressions(&nvtx.exclude, nvtx.start_end),
    };
    let filter = filter.alike(nvtx.start_end, findings);
    profile(request, &filter, files, findings)
}

/// The run that profiles the kernels that talk to other GPUs: one pass, nothing replayed.
pub fn profile_communication(
    request: &Request<'_>,
    pattern: &str,
    filter: &Filter,
    files: &Files,
) -> Vec<OsString> {
    let cli = &request.settings.ncu_cli;
    let mut argv = common(request, files);
    let mut arg = |flag: &str, value: &str| argv.extend([flag.into(), value.into()]);
    arg("--replay-mode", "kernel");
    launch_filters(cli, Some(pattern), &mut arg);
    arg("--metrics", &SINGLE_PASS_METRICS.join(","));
    nvtx_filters(filter, &mut argv);
    finish(request, argv)
}

/// What every profiling run starts with.
fn common(request: &Request<'_>, files: &Files) -> Vec<OsString> {
    let cli = &request.settings.ncu_cli;
    let mut argv: Vec<OsString> = vec![request.settings.executable.clone().into()];
    // A configuration file of the user's could add any flag. Where the version is not known, as in
    // a dry run, the newer form is shown.
    if request.version.is_none_or(|version| version >= CONFIG_FILE) {
        argv.extend(["--config-file".into(), "off".into()]);
    }
    let mut arg = |flag: &str, value: OsString| argv.extend([flag.into(), value]);
    arg("--target-processes", word(cli.target_processes).into());
    arg("--clock-control", word(cli.clock_control).into());
    arg("--cache-control", word(cli.cache_control).into());
    if cli.graph_profiling != GraphProfiling::Node {
        arg("--graph-profiling", word(cli.graph_profiling).into());
    }
    arg("--log-file", files.log.clone().into());
    arg("--export", without_patterns(&files.report));
    if cli.force_overwrite {
        argv.push("--force-overwrite".into());
    }
    argv
}

/// Which launches are profiled.
fn launch_filters(cli: &NcuCli, kernel_name: Option<&str>, arg: &mut impl FnMut(&str, &str)) {
    arg("--filter-mode", &word(cli.filter_mode));
    if cli.launch_skip > 0 {
        arg("--launch-skip", &cli.launch_skip.to_string());
    }
    if let Some(count) = cli.launch_count {
        arg("--launch-count", &count.to_string());
    }
    arg("--kernel-name-base", &word(cli.kernel_name_base));
    if let Some(name) = kernel_name {
        arg("--kernel-name", name);
    }
}

/// In which ranges: one flag for each expression, since ncu splits none.
fn nvtx_filters(filter: &Filter, argv: &mut Vec<OsString>) {
    // Also without a filter: the ranges of each launch stand in the tables then.
    argv.push("--nvtx".into());
    for (flag, expressions) in
        [("--nvtx-include", &filter.nvtx_include), ("--nvtx-exclude", &filter.nvtx_exclude)]
    {
        for expression in expressions {
            argv.extend([flag.into(), expression.into()]);
        }
    }
}

/// What is measured.
fn measures(
    request: &Request<'_>,
    by_range: bool,
    argv: &mut Vec<OsString>,
    findings: &mut Vec<Finding>,
) {
    let cli = &request.settings.ncu_cli;
    if let Some(set) = &cli.set {
        argv.extend(["--set".into(), set.into()]);
    }
    for section in known_sections(&cli.sections, request.available, findings) {
        argv.extend(["--section".into(), section.into()]);
    }
    let mut metrics = known_metrics(&cli.metrics, request.available, findings);
    if by_range {
        // Counted by changed code of each kernel: with one of them ncu measures no range at all.
        metrics.retain(|name| !name.contains("__sass_"));
    }
    if !metrics.is_empty() {
        argv.extend(["--metrics".into(), metrics.join(",").into()]);
    }
}

fn finish(request: &Request<'_>, mut argv: Vec<OsString>) -> Vec<OsString> {
    argv.extend(request.settings.ncu_cli.extra_args.iter().map(Into::into));
    argv.extend(request.workload.iter().cloned());
    argv
}

/// Reading a report may take this long: it needs no GPU, and grows with the launches.
const IMPORT_LIMIT: Duration = Duration::from_secs(600);
/// Listing sections or metrics may take this long.
const LIST_LIMIT: Duration = Duration::from_secs(120);

/// The runs that turn a report into its tables: mangled names, units that are not scaled.
pub fn imports(executable: &Path, files: &Files) -> [Step; 2] {
    [("raw", &files.raw), ("details", &files.details)].map(|(page, csv)| {
        let report = files.report.as_os_str();
        let mut words: Vec<&OsStr> =
            vec!["--import".as_ref(), report, "--page".as_ref(), page.as_ref()];
        let rest = ["--csv", "--print-kernel-base", "mangled", "--print-units", "base"];
        words.extend(rest.map(OsStr::new));
        listing(executable, &words, csv, IMPORT_LIMIT)
    })
}

/// The run that lists the sections, into `sections.txt`.
pub fn list_sections(executable: &Path, into: &Path) -> Step {
    listing(executable, &["--list-sections".as_ref()], into, LIST_LIMIT)
}

/// The run that lists the metrics of the GPUs of this machine.
pub fn query_metrics(executable: &Path, into: &Path) -> Step {
    listing(executable, &["--query-metrics".as_ref()], into, LIST_LIMIT)
}

fn listing(executable: &Path, words: &[&OsStr], into: &Path, limit: Duration) -> Step {
    let argv = [executable.as_os_str()].iter().chain(words).map(|&word| word.to_owned()).collect();
    Step { argv, cwd: None, stdout: Some(into.to_owned()), timeout: Some(limit) }
}

#[cfg(test)]
mod tests;
