//! Settings, kernels and the version of ncu -> every process that the ncu pass starts.
//!
//! Pure: nothing is run, made or looked up. Clocks are left alone unless the settings say otherwise:
//! the counters are set against durations that were measured at the clocks of the workload, and
//! locking needs rights that containers lack, and fails on MIG.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::Regex;
use strsim::jaro_winkler;

use super::config::{GraphProfiling, Ncu, NcuCli, ReplayMode};
use super::expression::{self, Around};
use super::select::{Selection, pattern};
use crate::tools::{Step, Version, without_patterns, word};
use stage2_contract::text::listed;
use stage2_model::Finding;
use stage2_model::finding::{Id, Severity};
use stage2_read::ncu::nvtx::Label;

/// The oldest version that the forms of arguments below hold for.
pub(crate) const OLDEST: Version = Version::new(2022, 4, 0);
/// The first version with `--config-file off`, which keeps a file of the user from changing the run.
const CONFIG_FILE: Version = Version::new(2023, 1, 0);

/// Metrics that fit in one pass on every GPU since sm_80, for kernels that must not be replayed.
pub(crate) const SINGLE_PASS_METRICS: &[&str] =
    &["gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) report: PathBuf,
    pub(crate) log: PathBuf,
    /// The raw page: one row a launch, one column a metric.
    pub(crate) raw: PathBuf,
    /// The details page: one row a metric or rule.
    pub(crate) details: PathBuf,
}

/// What narrows a run down. A retry has neither.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) kernel_name: Option<String>,
    pub(crate) nvtx_include: Vec<String>,
    pub(crate) nvtx_exclude: Vec<String>,
}

impl Filter {
    /// What the settings and the chosen kernels say.
    pub(crate) fn new(
        settings: &Ncu,
        selection: &Selection,
        findings: &mut Vec<Finding>,
    ) -> Filter {
        let nvtx = &settings.ncu_cli.nvtx;
        let named = settings.ncu_cli.kernel_name.clone();
        let kernel_name = named.or_else(|| pattern(&selection.kernels));
        let mut filter = Filter { kernel_name, ..Filter::default() };
        if settings.gating_nvtx {
            filter.nvtx_include = expressions(&nvtx.include, nvtx.start_end);
            filter.nvtx_exclude = expressions(&nvtx.exclude, nvtx.start_end);
            // A stage that is known not to occur would gate everything out.
            let is_gate = nvtx.include.is_empty() && selection.stage_occurred;
            if let Some(stage) = settings.stage.as_ref().filter(|_| is_gate) {
                let stage = [selection.stage.clone().unwrap_or_else(|| Label::of_stage(stage))];
                let stage = expression::exact(&stage, Around::Anything, nvtx.start_end);
                filter.nvtx_include.extend(stage);
            }
        }
        filter.alike(nvtx.start_end, findings)
    }

    /// With all expressions of one kind, as ncu needs them. The settings were checked; the name of a
    /// stage or region that needs a regular expression can still spoil what goes next to it.
    fn alike(mut self, start_end: bool, findings: &mut Vec<Finding>) -> Filter {
        let lost = expression::lost([&self.nvtx_include, &self.nvtx_exclude]);
        if !lost.is_empty() {
            findings.push(Id::NcuLeftOut.found(format!("ncu matches nothing for {}", lost.join(", ")),
                "in addition to a regular expression, which a name with \\, ; or a control character needs, \
                 ncu takes one nested expression in ncu_cli.nvtx.include and one in \
                 ncu_cli.nvtx.exclude",
                "leave out all nested expressions of pipeline.ncu.ncu_cli.nvtx but one, or name the \
                 stage or region without these characters",
            ));
        }
        expression::alike([&mut self.nvtx_include, &mut self.nvtx_exclude], start_end);
        self
    }
}

/// The expressions of a list of the settings. What cannot be one was refused with the settings.
fn expressions(list: &[String], start_end: bool) -> Vec<String> {
    let of = |entry: &String| expression::of_setting(entry, start_end);
    list.iter().flat_map(|entry| of(entry).unwrap_or_else(|_| vec![entry.clone()])).collect()
}

pub(crate) struct Request<'a> {
    pub(crate) settings: &'a Ncu,
    /// The version of the tool; none where it is not known, e.g. because it is not installed.
    pub(crate) version: Option<Version>,
    pub(crate) workload: &'a [OsString],
    pub(crate) available: &'a Available,
}

/// The arguments of the run that profiles the kernels that compute.
pub(crate) fn profile(
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
        let why = "without ranges there is nothing that the range replay modes could measure";
        findings.push(Id::NcuChosen.found("ncu: kernels are replayed in place of ranges", why, ""));
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

/// The run of one region in a range replay mode: of regions within each other ncu measures the outermost alone.
pub(crate) fn profile_region(
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
    profile(request, &filter.alike(nvtx.start_end, findings), files, findings)
}

/// The run that profiles the kernels that talk to other GPUs: one pass, nothing replayed.
pub(crate) fn profile_communication(
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
const LIST_LIMIT: Duration = Duration::from_secs(120);

/// The runs that turn a report into its tables: mangled names, units that are not scaled.
pub(crate) fn imports(executable: &Path, files: &Files) -> [Step; 2] {
    [("raw", &files.raw), ("details", &files.details)].map(|(page, csv)| {
        let report = files.report.as_os_str();
        let mut words: Vec<&OsStr> =
            vec!["--import".as_ref(), report, "--page".as_ref(), page.as_ref()];
        let rest = ["--csv", "--print-kernel-base", "mangled", "--print-units", "base"];
        words.extend(rest.map(OsStr::new));
        listing(executable, &words, csv, IMPORT_LIMIT)
    })
}

/// The runs that list the sections, and the metrics of the GPUs of this machine, each into a file in `folder`.
pub(crate) fn lists(executable: &Path, folder: &Path) -> [Step; 2] {
    [("--list-sections", "sections.txt"), ("--query-metrics", "metrics.txt")]
        .map(|(flag, file)| listing(executable, &[flag.as_ref()], &folder.join(file), LIST_LIMIT))
}

fn listing(executable: &Path, words: &[&OsStr], into: &Path, limit: Duration) -> Step {
    let argv = [executable.as_os_str()].iter().chain(words).map(|&word| word.to_owned()).collect();
    Step { argv, cwd: None, stdout: Some(into.to_owned()), timeout: Some(limit) }
}

const LISTED: usize = 6;

/// Names that the tool and the GPU know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Available {
    /// Identifiers of sections; nothing where the list could not be had: then none is refused.
    pub(crate) sections: Option<BTreeSet<String>>,
    /// Base names of metrics, without `.sum` and similar suffixes; nothing if they are not available.
    pub(crate) metrics: Option<BTreeSet<String>>,
}

impl Available {
    /// Reads both lists. A list without a single name counts as not had.
    pub(crate) fn read(list_sections: Option<&str>, query_metrics: Option<&str>) -> Available {
        let had = |names: BTreeSet<String>| (!names.is_empty()).then_some(names);
        Available {
            sections: list_sections.map(sections).and_then(had),
            metrics: query_metrics.map(metrics).and_then(had),
        }
    }
}

/// The first column of a table whose header starts with `Identifier`.
fn sections(output: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let rows = output.lines().skip_while(|line| !line.starts_with("Identifier")).skip(1);
    let rows = rows.skip_while(|line| line.starts_with("---"));
    let rows = rows.take_while(|line| !line.starts_with("=="));
    let words = rows.filter_map(|line| line.split_whitespace().next());
    words.filter(|word| word.chars().all(is_name)).map(str::to_owned).collect()
}

/// The first column of lists, one for each chip. Every metric, and nothing else, has `__` after its unit.
fn metrics(output: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let words = output.lines().filter_map(|line| line.split_whitespace().next());
    let metrics = words.filter(|word| word.contains("__") && word.chars().all(is_name));
    metrics.map(|word| base(word).to_owned()).collect()
}

/// `dram__bytes` of `dram__bytes.sum.per_second`. Names of some counters start with where they are
/// (`FE_B.TriageCompute.gr__cycles_active`): the dots before the unit belong to them.
fn base(metric: &str) -> &str {
    let unit = metric.find("__").unwrap_or(0);
    let end = metric[unit..].find('.').map_or(metric.len(), |dot| unit + dot);
    &metric[..end]
}

/// The sections that there are, in the order wished; a finding names the others. An expression gets its prefix.
pub(crate) fn known_sections(
    wished: &[String],
    available: &Available,
    findings: &mut Vec<Finding>,
) -> Vec<String> {
    let is_expression = |name: &str| !name.contains(':') && name.contains(SIGNS);
    let prefixed = |name: &String| match is_expression(name) {
        true => format!("regex:{name}"),
        false => name.clone(),
    };
    let Some(known) = &available.sections else { return wished.iter().map(prefixed).collect() };
    let fits = |name: &str| {
        let expression = Regex::new(&format!("^(?:{name})$"));
        expression.is_ok_and(|expression| known.iter().any(|other| expression.is_match(other)))
    };
    let is_there = |name: &str| if is_expression(name) { fits(name) } else { known.contains(name) };
    let (kept, left) = split(wished, is_there);
    findings.extend(left_out(&left, known, "section", "sections.txt lists the sections"));
    kept.iter().map(prefixed).collect()
}

/// Signs of an expression; a name has none of them.
const SIGNS: [char; 10] = ['*', '+', '?', '^', '$', '|', '(', ')', '[', ']'];

/// The metrics that the GPU has, in the order wished, compared up to the first dot behind the unit; a finding names
/// the others. What is not counted on the GPU (`launch__` and similar metrics) is in no list, and is passed on.
pub(crate) fn known_metrics(
    wished: &[String],
    available: &Available,
    findings: &mut Vec<Finding>,
) -> Vec<String> {
    let Some(known) = &available.metrics else { return wished.to_vec() };
    let is_elsewhere = |name: &str| NOT_LISTED.iter().any(|unit| name.starts_with(unit));
    let (kept, left) = split(wished, |name| is_elsewhere(name) || known.contains(base(name)));
    let (differ, left): (Vec<&String>, Vec<&String>) =
        left.into_iter().partition(|name| DIFFER.iter().any(|part| name.contains(part)));
    if !differ.is_empty() {
        let what = format!("ncu: left out {} metrics that are for other GPUs", differ.len());
        let names = listed(&differ, LISTED);
        let why = format!("each generation has its own names for the same work: {names}");
        findings.push(Id::NcuLeftOut.graded(Severity::Note, what, why, ""));
    }
    let remedy = "`ncu --query-metrics` lists what the GPU has";
    findings.extend(left_out(&left, known, "metric", remedy));
    kept
}

/// Parts of names that differ between generations of GPUs: a preset for all of them names them all.
const DIFFER: &[&str] =
    &["sm__ops_path_tensor_", "add2_pred_on", "mul2_pred_on", "fma2_pred_on", "dram__bytes_"];

/// Units whose metrics are not in the list of the GPU's counters.
const NOT_LISTED: &[&str] = &[
    "launch__",
    "profiler__",
    "device__",
    "nvlink__",
    "numa__",
    "derived__",
    "memory_",
    "inst_",
    "thread_",
];

/// Names that are there, or name no single thing (`group:`, `breakdown:`, `regex:`), and those that are not.
fn split(wished: &[String], is_there: impl Fn(&str) -> bool) -> (Vec<String>, Vec<&String>) {
    let (kept, left): (Vec<&String>, Vec<&String>) =
        wished.iter().partition(|name| name.contains(':') || is_there(name));
    (kept.into_iter().cloned().collect(), left)
}

fn left_out(
    left: &[&String],
    known: &BTreeSet<String>,
    kind: &str,
    remedy: &str,
) -> Option<Finding> {
    let first = left.first()?;
    let near = nearest(base(first), known);
    let near = near.map(|near| format!("; the nearest name to {first} is {near}"));
    let what = format!("ncu: left out {} {kind}s: {}", left.len(), listed(left, LISTED));
    let why = format!("this ncu does not have them for this GPU{}", near.unwrap_or_default());
    Some(Id::NcuLeftOut.found(what, why, remedy))
}

fn nearest<'a>(name: &str, known: &'a BTreeSet<String>) -> Option<&'a str> {
    const ALIKE: f64 = 0.85;
    let compared = known.iter().map(|other| (jaro_winkler(name, other), other.as_str()));
    let near = compared.filter(|(alike, _)| *alike >= ALIKE);
    near.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, other)| other)
}

#[cfg(test)]
mod tests;
