//! Settings, kernels and the version of ncu -> every process that the ncu pass starts.
//!
//! Pure: nothing is run, made or looked up. Clocks are left alone unless the settings say otherwise:
//! the counters are set against durations that were measured at the clocks of the workload, and
//! locking needs rights that containers lack, and fails on MIG.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::available::{Available, known_metrics, known_sections};
use super::config::{CacheControl, GraphProfiling, Ncu, NcuCli, ReplayMode};
use super::expression::{self, Around};
use super::select::Selection;
use super::version::NcuVersion;
use stage2_analysis::ncu::nvtx::Label;
use stage2_model::{Finding, Severity};

/// Metrics that fit in one pass on every GPU since sm_80, for kernels that must not be replayed.
pub const SINGLE_PASS_METRICS: &[&str] =
    &["gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"];

/// A process to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// What it is, in a word.
    pub name: String,
    /// Program and arguments; never empty.
    pub argv: Vec<OsString>,
    /// Where its standard output goes; none: where that of this program goes.
    pub stdout: Option<PathBuf>,
    /// File that ncu writes its messages to; none: its standard output and error.
    pub log: Option<PathBuf>,
    /// What it leaves behind.
    pub outputs: Vec<PathBuf>,
    /// When it is ended.
    pub timeout: Option<Duration>,
}

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

impl Files {
    /// Files called `name` in `folder`.
    pub fn new(folder: &Path, name: &str) -> Files {
        let file = |suffix: &str| folder.join(format!("{name}{suffix}"));
        Files {
            report: file(".ncu-rep"),
            log: file(".log"),
            raw: file(".raw.csv"),
            details: file(".details.csv"),
        }
    }
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
            kernel_name: settings.ncu_cli.kernel_name.clone().or_else(|| selection.pattern()),
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
                let stage = [Label::of_stage(stage)];
                let stage = expression::exact(&stage, Around::Anything, nvtx.start_end);
                filter.nvtx_include.extend(stage);
            }
        }
        filter.alike(nvtx.start_end, findings)
    }

    /// With all expressions of one kind, as ncu needs them. The settings were checked; the name of a
    /// stage or region that needs a regular expression can still spoil what goes beside it.
    fn alike(mut self, start_end: bool, findings: &mut Vec<Finding>) -> Filter {
        if let Err(lost) = expression::together([&self.nvtx_include, &self.nvtx_exclude]) {
            findings.push(Finding::new(
                Severity::Warning,
                format!("ncu matches nothing for {}", lost.join(", ")),
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
    pub version: Option<NcuVersion>,
    /// Words of the workload.
    pub workload: &'a [OsString],
    /// Names that the tool and the GPU know.
    pub available: &'a Available,
}

/// The run that profiles the kernels that compute.
pub fn profile(
    request: &Request<'_>,
    filter: &Filter,
    files: &Files,
    findings: &mut Vec<Finding>,
) -> Invocation {
    let cli = &request.settings.ncu_cli;
    let mut argv = common(request, files);
    let mut arg = |word: &str, value: &str| argv.extend([word.into(), value.into()]);
    let by_range = cli.replay_mode.is_range() && names_ranges(cli, filter);
    if cli.replay_mode.is_range() && !by_range {
        findings.push(Finding::new(
            Severity::Note,
            "ncu: kernels are replayed in place of ranges",
            "without ranges there is nothing that the range replay modes could measure",
            "",
        ));
    }
    let replay =
        if cli.replay_mode.is_range() && !by_range { ReplayMode::Kernel } else { cli.replay_mode };
    arg("--replay-mode", replay.word());
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
    finish(request, "profile", argv, files)
}

/// Whether anything says which ranges are meant: a retry without filters has nothing that does.
fn names_ranges(cli: &NcuCli, filter: &Filter) -> bool {
    !filter.nvtx_include.is_empty() || cli.has_own_ranges()
}

/// The run that profiles one region in a range replay mode: of regions within each other ncu measures
/// the outermost alone, so that each needs a run of its own.
pub fn profile_region(
    request: &Request<'_>,
    region: &str,
    expression: &str,
    files: &Files,
    findings: &mut Vec<Finding>,
) -> Invocation {
    let nvtx = &request.settings.ncu_cli.nvtx;
    let filter = Filter {
        kernel_name: None,
        nvtx_include: vec![expression.to_owned()],
        nvtx_exclude: expressions(&nvtx.exclude, nvtx.start_end),
    };
    let filter = filter.alike(nvtx.start_end, findings);
    let mut invocation = profile(request, &filter, files, findings);
    invocation.name = format!("profile-region {region}");
    invocation
}

/// The run that profiles the kernels that talk to other GPUs: one pass, nothing replayed.
pub fn profile_communication(
    request: &Request<'_>,
    pattern: &str,
    filter: &Filter,
    files: &Files,
) -> Invocation {
    let cli = &request.settings.ncu_cli;
    let mut argv = common(request, files);
    let mut arg = |word: &str, value: &str| argv.extend([word.into(), value.into()]);
    arg("--replay-mode", "kernel");
    launch_filters(cli, Some(pattern), &mut arg);
    arg("--metrics", &SINGLE_PASS_METRICS.join(","));
    nvtx_filters(filter, &mut argv);
    finish(request, "profile-communication", argv, files)
}

/// What every profiling run starts with.
fn common(request: &Request<'_>, files: &Files) -> Vec<OsString> {
    let cli = &request.settings.ncu_cli;
    let mut argv: Vec<OsString> = vec![request.settings.executable.clone().into()];
    // A configuration file of the user's could add any flag. Where the version is not known, as in
    // a dry run, the newer form is shown.
    if request.version.is_none_or(NcuVersion::has_config_file) {
        argv.extend(["--config-file".into(), "off".into()]);
    }
    let mut arg = |word: &str, value: &OsStr| argv.extend([word.into(), value.to_owned()]);
    arg("--target-processes", cli.target_processes.word().as_ref());
    arg("--clock-control", cli.clock_control.word().as_ref());
    arg(
        "--cache-control",
        match cli.cache_control {
            CacheControl::All => "all".as_ref(),
            CacheControl::None => "none".as_ref(),
        },
    );
    if cli.graph_profiling != GraphProfiling::Node {
        arg("--graph-profiling", cli.graph_profiling.word().as_ref());
    }
    arg("--log-file", files.log.as_os_str());
    arg("--export", &literal(&files.report));
    if cli.force_overwrite {
        argv.push("--force-overwrite".into());
    }
    argv
}

/// A path that `--export` takes as it is: it expands `%p`, `%q{VARIABLE}` and the like (and
/// `--log-file` does not).
fn literal(path: &Path) -> OsString {
    let mut out = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        if *byte == b'%' {
            out.push(b'%');
        }
        out.push(*byte);
    }
    OsString::from_vec(out)
}

/// Which launches are profiled.
fn launch_filters(cli: &NcuCli, kernel_name: Option<&str>, arg: &mut impl FnMut(&str, &str)) {
    arg("--filter-mode", cli.filter_mode.word());
    if cli.launch_skip > 0 {
        arg("--launch-skip", &cli.launch_skip.to_string());
    }
    if let Some(count) = cli.launch_count {
        arg("--launch-count", &count.to_string());
    }
    arg("--kernel-name-base", cli.kernel_name_base.word());
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

fn finish(request: &Request<'_>, name: &str, mut argv: Vec<OsString>, files: &Files) -> Invocation {
    argv.extend(request.settings.ncu_cli.extra_args.iter().map(Into::into));
    argv.extend(request.workload.iter().cloned());
    Invocation {
        name: name.to_owned(),
        argv,
        stdout: None,
        log: Some(files.log.clone()),
        outputs: vec![files.report.clone()],
        timeout: request.settings.time_budget_s.map(|s| Duration::from_secs(s.get())),
    }
}

/// Reading a report may take this long: it needs no GPU, and grows with the launches.
const IMPORT_LIMIT: Duration = Duration::from_secs(600);
/// Listing sections or metrics may take this long.
const LIST_LIMIT: Duration = Duration::from_secs(120);

/// The runs that turn a report into its tables: mangled names, units that are not scaled.
pub fn imports(executable: &Path, report: &Path, raw: &Path, details: &Path) -> [Invocation; 2] {
    [("raw", raw), ("details", details)].map(|(page, csv)| {
        let words =
            [OsStr::new("--import"), report.as_os_str(), OsStr::new("--page"), page.as_ref()];
        let mut argv: Vec<OsString> = vec![executable.into()];
        argv.extend(words.into_iter().map(OsStr::to_owned));
        let rest = ["--csv", "--print-kernel-base", "mangled", "--print-units", "base"];
        argv.extend(rest.into_iter().map(OsString::from));
        listing(&format!("import-{page}"), argv, Some(csv), IMPORT_LIMIT)
    })
}

/// The run that lists the sections, into `sections.txt`.
pub fn list_sections(executable: &Path, into: &Path) -> Invocation {
    let argv = vec![executable.into(), "--list-sections".into()];
    listing("list-sections", argv, Some(into), LIST_LIMIT)
}

/// The run that lists the metrics of the GPUs of this machine.
pub fn query_metrics(executable: &Path, into: &Path) -> Invocation {
    let argv = vec![executable.into(), "--query-metrics".into()];
    listing("query-metrics", argv, Some(into), LIST_LIMIT)
}

/// The run that says which version the tool is.
pub fn version(executable: &Path) -> Invocation {
    listing("version", vec![executable.into(), "--version".into()], None, LIST_LIMIT)
}

fn listing(name: &str, argv: Vec<OsString>, into: Option<&Path>, limit: Duration) -> Invocation {
    let stdout = into.map(Path::to_owned);
    let outputs = stdout.iter().cloned().collect();
    Invocation { name: name.to_owned(), argv, stdout, log: None, outputs, timeout: Some(limit) }
}

#[cfg(test)]
mod tests;
