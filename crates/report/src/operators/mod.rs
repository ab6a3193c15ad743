//! Range paths of a run, or the files of a Stage 1 run -> one row for each PyTorch operator.
//!
//! [`operators()`] adds up what a workload marked, and [`stage1`] reads what an earlier Stage 1 run
//! measured instead.

pub mod stage1;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use regex::Regex;
use serde::{Deserialize, Serialize};
use stage2_contract::order::Order as _;
use stage2_contract::text::without_instance_str;
use stage2_model::{
    Absence, Apart, OperatorCoverage, OperatorRow, Operators, Origin, PathKind, PathRow, Report,
    StageOperatorRow,
};
use stage2_read::trace::stats::mean;

/// Adds up the operators of `report`.
pub fn operators(report: &Report, settings: &OperatorSettings) -> Operators {
    let paths = &report.paths;
    let names: Vec<Option<&str>> =
        paths.iter().map(|row| operator(row, settings.pattern.as_ref())).collect();
    let gpu = gpu_times(report);
    let host_self = self_times(paths, |row| row.host_total_ns);
    let cold_self = self_times(paths, |row| Some(row.firsts_host_ns));
    let warm_ups = report.stages.iter().filter(|row| row.apart == Some(Apart::WarmUp));
    let warm_ups: HashSet<&str> = warm_ups.map(|row| row.stage.as_str()).collect();
    let mut sums = Sums::default();
    let mut around = OpenRanges::default();
    for (index, row) in paths.iter().enumerate() {
        around.enter(index, row.parent, &names);
        let gpu = gpu.get(index).copied().unwrap_or_default();
        let exclusive_ns = gpu.exclusive_ns.unwrap_or(0);
        let OperatorCoverage { gpu_total_ns, gpu_in_operators_ns, .. } = &mut sums.coverage;
        *gpu_total_ns = gpu_total_ns.saturating_add(exclusive_ns);
        if around.operators_open > 0 {
            *gpu_in_operators_ns = gpu_in_operators_ns.saturating_add(exclusive_ns);
        }
        let Some(name) = names.get(index).copied().flatten() else { continue };
        let range = Range {
            row,
            outermost: around.operators.get(name) == Some(&1),
            gpu,
            host_self_ns: host_self.get(index).copied().flatten(),
            cold_self_ns: cold_self.get(index).copied().flatten().unwrap_or(0),
        };
        let stage = around.stage(&names).and_then(|root| paths.get(root));
        let stage = stage.map(|stage| stage.path.as_str());
        let warms_up = stage.is_some_and(|stage| warm_ups.contains(stage));
        sums.add(stage, warms_up, name, &range);
    }
    sums.finish(report, settings, &warm_ups)
}

/// One range path that is an operator.
struct Range<'r> {
    row: &'r PathRow,
    /// No range around it is the same operator.
    outermost: bool,
    gpu: GpuTimes,
    host_self_ns: Option<u64>,
    cold_self_ns: u64,
}

fn add(sum: &mut OperatorRow, range: &Range<'_>) {
    let instances = range.row.instances.unwrap_or(0);
    sum.host_self_ns = both(sum.host_self_ns, range.host_self_ns);
    sum.cold_self_ns = sum.cold_self_ns.saturating_add(range.cold_self_ns);
    sum.gpu_exclusive_ns = both(sum.gpu_exclusive_ns, range.gpu.exclusive_ns);
    if !range.outermost {
        sum.nested_calls = sum.nested_calls.saturating_add(instances);
        return;
    }
    sum.calls = sum.calls.saturating_add(instances);
    sum.unclosed_calls = sum.unclosed_calls.saturating_add(range.row.unclosed.unwrap_or(0));
    sum.host_total_ns = both(sum.host_total_ns, range.row.host_total_ns);
    sum.cold_calls = sum.cold_calls.saturating_add(range.row.firsts);
    sum.cold_host_ns = sum.cold_host_ns.saturating_add(range.row.firsts_host_ns);
    sum.gpu_inclusive_ns = both(sum.gpu_inclusive_ns, range.gpu.inclusive_ns);
    sum.kernels_inclusive = both(sum.kernels_inclusive, range.row.kernels_inclusive);
}

fn finish(name: &str, sum: OperatorRow) -> OperatorRow {
    let returned = sum.calls.saturating_sub(sum.unclosed_calls);
    let host_mean_ns = sum.host_total_ns.and_then(|total| mean(total, returned));
    OperatorRow { op_name: name.to_owned(), host_mean_ns, ..sum }
}

/// By warm time: a cold call loads what later ones find.
fn order(row: &OperatorRow) -> ([Reverse<Option<u64>>; 3], String) {
    let times = [row.host_warm_ns(), row.host_total_ns, row.gpu_inclusive_ns];
    (times.map(Reverse), row.op_name.clone())
}

#[derive(Default)]
struct Sums<'r> {
    all: HashMap<&'r str, OperatorRow>,
    warm_up: HashMap<&'r str, OperatorRow>,
    stages: HashMap<(Option<&'r str>, &'r str), OperatorRow>,
    coverage: OperatorCoverage,
}

impl<'r> Sums<'r> {
    fn add(&mut self, stage: Option<&'r str>, warms_up: bool, name: &'r str, range: &Range<'_>) {
        let all = if warms_up { &mut self.warm_up } else { &mut self.all };
        add(all.entry(name).or_default(), range);
        add(self.stages.entry((stage, name)).or_default(), range);
    }

    fn finish(
        self,
        report: &Report,
        settings: &OperatorSettings,
        warm_ups: &HashSet<&str>,
    ) -> Operators {
        let sorted = |sums: HashMap<&str, OperatorRow>| {
            let mut rows: Vec<OperatorRow> =
                sums.into_iter().map(|(name, sum)| finish(name, sum)).collect();
            rows.order_by_cached_key(order);
            rows
        };
        let (rows, warm_up) = (sorted(self.all), sorted(self.warm_up));
        let none = rows.is_empty() && warm_up.is_empty();
        let places: HashMap<&str, usize> =
            report.stages.iter().enumerate().map(|(at, row)| (row.stage.as_str(), at)).collect();
        let stages = self.stages.into_iter().map(|((stage, name), row)| StageOperatorRow {
            stage: stage.map(str::to_owned),
            operator: finish(name, row),
        });
        let mut stages: Vec<StageOperatorRow> = stages.collect();
        stages.order_by_cached_key(|row| {
            let at = row.stage.as_deref().and_then(|stage| places.get(stage)).copied();
            let warms_up = row.stage.as_deref().is_some_and(|stage| warm_ups.contains(stage));
            let at = at.unwrap_or(usize::MAX);
            (warms_up, row.stage.is_none(), at, row.stage.clone(), order(&row.operator))
        });
        Operators {
            source: format!(
                "NVTX ranges of operators, as {} saw them; GPU work is attributed to the range \
                 that was open at its launch",
                if report.source == Origin::Nsys.label() { "nsys" } else { "the collector" }
            ),
            absent: none.then(|| absence(report, settings)),
            coverage: (self.coverage.gpu_total_ns > 0 && !none).then_some(self.coverage),
            rows,
            warm_up,
            stages,
        }
    }
}

fn absence(report: &Report, settings: &OperatorSettings) -> Absence {
    let opened = report.paths.iter().any(|row| row.instances.is_some());
    let reason = match (&settings.pattern, opened) {
        (_, false) => report.no_range().to_owned(),
        (Some(pattern), true) => {
            let pattern = String::from(pattern.clone());
            format!("the name of no range matches operators.pattern ({pattern})")
        }
        (None, true) => "no operator ranges (such as aten::linear) were found".to_owned(),
    };
    let asked = settings.annotate.contains(&Annotation::TorchOps);
    let remedy = if asked {
        "--annotate torch-ops was on, so look for lines `stage2:` on the workload's stderr; it needs \
         a workload in Python, a PyTorch built for CUDA, and neither `-I`, `-E` nor `-S`"
    } else {
        "run again with --annotate torch-ops, which makes PyTorch mark its operators (and slows the host down): \
         stage2-launch run --annotate torch-ops -- COMMAND"
    };
    Absence { reason, remedy: remedy.to_owned() }
}

/// The ranges around a path, outermost first, while walking the tree.
#[derive(Default)]
struct OpenRanges<'r> {
    open: Vec<usize>,
    operators: HashMap<&'r str, u64>,
    operators_open: u64,
}

impl<'r> OpenRanges<'r> {
    /// Goes on to the path `index` under `parent`; the walk is depth first.
    fn enter(&mut self, index: usize, parent: Option<usize>, names: &[Option<&'r str>]) {
        while self.open.last().copied() != parent
            && let Some(left) = self.open.pop()
        {
            self.count(left, names, u64::wrapping_sub);
        }
        self.open.push(index);
        self.count(index, names, u64::wrapping_add);
    }

    fn count(&mut self, index: usize, names: &[Option<&'r str>], step: fn(u64, u64) -> u64) {
        if let Some(name) = names.get(index).copied().flatten() {
            let times = self.operators.entry(name).or_default();
            *times = step(*times, 1);
            self.operators_open = step(self.operators_open, 1);
        }
    }

    /// The outermost range; none where that is an operator itself, which is not a stage.
    fn stage(&self, names: &[Option<&str>]) -> Option<usize> {
        let root = self.open.first().copied()?;
        names.get(root).copied().flatten().is_none().then_some(root)
    }
}

/// GPU time of a path, without and with the ranges within it; nothing where GPU work was not recorded.
#[derive(Clone, Copy, Default)]
struct GpuTimes {
    exclusive_ns: Option<u64>,
    inclusive_ns: Option<u64>,
}

fn gpu_times(report: &Report) -> Vec<GpuTimes> {
    let time = |row: &PathRow| GpuTimes {
        exclusive_ns: row.kernel_sum_exclusive_ns,
        inclusive_ns: row.kernel_sum_exclusive_ns,
    };
    let mut times: Vec<GpuTimes> = report.paths.iter().map(time).collect();
    let memory = report.copies.iter().chain(&report.fills).map(|row| (row.path_index, &row.times));
    let graphs = report.graph_launches.iter().map(|row| (row.path_index, &row.times));
    for (path, more) in memory.chain(graphs) {
        if let Some(GpuTimes { exclusive_ns: Some(exclusive_ns), inclusive_ns }) =
            times.get_mut(path)
        {
            *exclusive_ns = exclusive_ns.saturating_add(more.total_ns);
            *inclusive_ns = Some(*exclusive_ns);
        }
    }
    // Children stand behind their parents, so that going backwards meets every child complete.
    for (index, row) in report.paths.iter().enumerate().rev() {
        let within = times.get(index).and_then(|times| times.inclusive_ns);
        let above = row.parent.filter(|&parent| parent < index);
        if let Some(around) = above.and_then(|parent| times.get_mut(parent)) {
            around.inclusive_ns = both(around.inclusive_ns, within);
        }
    }
    times
}

/// Times of each path without those of the ranges directly within it, ns.
fn self_times(paths: &[PathRow], time: impl Fn(&PathRow) -> Option<u64>) -> Vec<Option<u64>> {
    let mut times: Vec<Option<u64>> = paths.iter().map(&time).collect();
    for row in paths {
        let around = row.parent.and_then(|parent| times.get_mut(parent));
        if let (Some(Some(around)), Some(within)) = (around, time(row)) {
            // Ranges that outlive the one around them may add up to more than it.
            *around = around.saturating_sub(within);
        }
    }
    times
}

/// The sum of what is known; nothing where neither is.
fn both(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).reduce(u64::saturating_add)
}

/// Whether the range `row` is an operator: by the pattern of `settings`, or by its name.
pub fn is_operator(row: &PathRow, settings: &OperatorSettings) -> bool {
    operator(row, settings.pattern.as_ref()).is_some()
}

/// The operator that the range `row` stands for. Without a pattern it has to be in NVTX's default
/// domain, where PyTorch's are, and to look like one.
fn operator<'r>(row: &'r PathRow, pattern: Option<&Pattern>) -> Option<&'r str> {
    if row.kind != PathKind::Range {
        return None;
    }
    let name = without_instance_str(&row.name);
    let is_one = match pattern {
        Some(pattern) => pattern.matches(name),
        None => row.domain.is_none() && looks_like_one(name),
    };
    is_one.then_some(name)
}

/// `namespace::operator`, deeper (`c10d::functional::all_reduce`), with an overload (`.Tensor`), or
/// with what it works for (`autograd::engine::evaluate_function: MmBackward0`). Namespaces of
/// operators are lower case: `Model::forward` is a range of the user's.
fn looks_like_one(name: &str) -> bool {
    let (qualified, about) = name.split_once(": ").map_or((name, None), |(q, a)| (q, Some(a)));
    let mut parts = qualified.split("::");
    let namespace = parts.next().unwrap_or_default();
    let mut rest = parts.peekable();
    namespace.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && is_word(namespace)
        && rest.peek().is_some()
        && rest.all(|part| part.split('.').all(is_word))
        && about.is_none_or(|about| about.split("::").all(is_word))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// How operators are found and shown: the keys of `conf/operators/default.yaml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorSettings {
    /// What the workload is made to mark.
    pub annotate: Vec<Annotation>,
    /// An engine that the command shows is made to mark its steps.
    #[serde(default = "yes")]
    pub engine_steps: bool,
    /// Which ranges are operators; none: those whose names look like PyTorch's.
    pub pattern: Option<Pattern>,
    /// Rows of operators.md.
    pub top_n: usize,
}

fn yes() -> bool {
    true
}

impl Default for OperatorSettings {
    fn default() -> Self {
        Self { annotate: Vec::new(), engine_steps: true, pattern: None, top_n: 50 }
    }
}

/// The keys of `stage1`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage1Settings {
    /// Folder of a Stage 1 run whose operators are shown instead of those of this run.
    pub run_dir: Option<PathBuf>,
}

/// What a workload can be made to mark.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Annotation {
    /// A range for every operator that PyTorch runs.
    TorchOps,
    /// Ranges `prefill` and `decode` around the forward passes of Hugging Face causal language
    /// models, with what each works on; the configuration of the largest model.
    PrefillDecode,
    /// A range around each step of vLLM, with what it works on; the configuration of the engine.
    VllmSteps,
    /// A range around each step of SGLang, with the contents of [`Annotation::VllmSteps`].
    SglangSteps,
    /// A range around each step of TensorRT-LLM's PyTorch backend, with the contents of
    /// [`Annotation::VllmSteps`].
    TrtllmSteps,
}

impl Annotation {
    /// All of them.
    pub const ALL: [Annotation; 5] = [
        Annotation::TorchOps,
        Annotation::PrefillDecode,
        Annotation::VllmSteps,
        Annotation::SglangSteps,
        Annotation::TrtllmSteps,
    ];

    /// The word for it, on the command line and in STAGE2_ANNOTATE.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A word that is none of [`Annotation::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an annotation; use {known}", known = Annotation::ALL.map(Annotation::word).join(", "))]
pub struct NoAnnotation(String);

impl std::str::FromStr for Annotation {
    type Err = NoAnnotation;

    fn from_str(word: &str) -> Result<Self, NoAnnotation> {
        let found = Self::ALL.into_iter().find(|a| a.word() == word);
        found.ok_or_else(|| NoAnnotation(word.to_owned()))
    }
}

/// A text that is not a regular expression.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{text:?} is not a regular expression ({error}); see docs.rs/regex")]
pub struct NoPattern {
    text: String,
    error: regex::Error,
}

/// A regular expression that was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(Regex);

impl Pattern {
    /// Whether some part of `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

impl TryFrom<String> for Pattern {
    type Error = NoPattern;

    fn try_from(text: String) -> Result<Self, NoPattern> {
        Regex::new(&text).map(Pattern).map_err(|error| NoPattern { text, error })
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.0.as_str().to_owned()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{MemoryRow, PathKind, StageRow, Times};

    /// A tree in the making: name, parent, calls, host ns, own kernel ns.
    fn tree(ranges: &[(&str, Option<usize>, u64, u64, u64)]) -> Report {
        let mut paths: Vec<PathRow> = Vec::new();
        for &(name, parent, calls, host_ns, kernel_ns) in ranges {
            let around = parent.and_then(|p| paths.get(p)).map(|p: &PathRow| p.path.clone());
            paths.push(PathRow {
                path: around.map_or_else(|| name.to_owned(), |around| format!("{around}/{name}")),
                name: name.to_owned(),
                parent,
                instances: Some(calls),
                unclosed: Some(0),
                host_total_ns: Some(host_ns),
                kernels_inclusive: Some(u64::from(kernel_ns > 0)),
                kernel_sum_exclusive_ns: Some(kernel_ns),
                ..PathRow::default()
            });
        }
        let roots = paths.iter().filter(|row| row.parent.is_none());
        let stage = |row: &PathRow| StageRow { stage: row.path.clone(), ..StageRow::default() };
        Report { stages: roots.map(stage).collect(), paths, ..Report::default() }
    }

    fn llm() -> Report {
        let mut report = tree(&[
            ("prefill", None, 1, 1_000, 5),
            ("aten::linear", Some(0), 2, 600, 0),
            ("aten::addmm", Some(1), 2, 400, 70),
            ("aten::sum", Some(0), 3, 90, 4),
            ("layer", Some(3), 3, 60, 0),
            ("aten::sum", Some(4), 3, 50, 9),
            ("decode", None, 4, 800, 0),
            ("aten::linear", Some(6), 8, 500, 0),
            ("aten::addmm", Some(7), 8, 300, 30),
            ("aten::empty", None, 1, 7, 0),
        ]);
        let copy = Times { total_ns: 11, calls: 1, ..Times::default() };
        report.copies =
            vec![MemoryRow { path_index: 2, times: copy.clone(), ..MemoryRow::default() }];
        report.fills = vec![MemoryRow { path_index: 999, times: copy, ..MemoryRow::default() }];
        report
    }

    fn find<'r>(rows: &'r [OperatorRow], name: &str) -> &'r OperatorRow {
        rows.iter().find(|row| row.op_name == name).expect("row")
    }

    #[test]
    fn operators_add_up_over_paths_and_contain_what_is_within() {
        let found = operators(&llm(), &OperatorSettings::default());
        let names: Vec<&str> = found.rows.iter().map(|row| row.op_name.as_str()).collect();
        assert_eq!(names, ["aten::linear", "aten::addmm", "aten::sum", "aten::empty"]);
        let linear = find(&found.rows, "aten::linear");
        assert_eq!((linear.host_total_ns, linear.host_mean_ns), (Some(1_100), Some(110)));
        assert_eq!((linear.calls, linear.host_self_ns), (10, Some(200 + 200)));
        assert_eq!(linear.gpu_inclusive_ns, Some(70 + 11 + 30));
        assert_eq!(linear.gpu_exclusive_ns, Some(0));
        let addmm = find(&found.rows, "aten::addmm");
        assert_eq!((addmm.gpu_inclusive_ns, addmm.gpu_exclusive_ns), (Some(111), Some(111)));
        assert_eq!(found.absent, None);
        assert!(found.source.contains("collector"));
    }

    #[test]
    fn first_calls_neither_rank_an_operator_nor_are_in_its_warm_mean() {
        let mut report = tree(&[
            ("prefill", None, 1, 9_000, 0),
            ("aten::empty", Some(0), 3, 5_000, 0),
            ("aten::linear", Some(0), 3, 600, 0),
            ("aten::arange", Some(0), 1, 8_000, 0),
        ]);
        for (at, ns) in [(1, 4_990), (2, 400), (3, 8_000)] {
            (report.paths[at].firsts, report.paths[at].firsts_host_ns) = (1, ns);
        }
        let found = operators(&report, &OperatorSettings::default());
        let facts =
            |row: &OperatorRow| (row.op_name.clone(), row.host_mean_ns, row.host_warm_mean_ns());
        let facts: Vec<_> = found.rows.iter().map(facts).collect();
        let expected = [
            ("aten::linear".to_owned(), Some(200), Some(100)),
            ("aten::empty".to_owned(), Some(1_667), Some(5)),
            ("aten::arange".to_owned(), Some(8_000), None),
        ];
        assert_eq!(facts, expected);
        // Of an operator with another one in it, both with a cold call.
        let mut report = tree(&[
            ("prefill", None, 1, 9_000, 0),
            ("aten::linear", Some(0), 3, 5_400, 0),
            ("aten::mm", Some(1), 3, 4_300, 0),
        ]);
        for (at, ns) in [(1, 5_000), (2, 4_000)] {
            (report.paths[at].firsts, report.paths[at].firsts_host_ns) = (1, ns);
        }
        let found = operators(&report, &OperatorSettings::default());
        let own = |name| find(&found.rows, name).host_warm_self_ns();
        assert_eq!((own("aten::linear"), own("aten::mm")), (Some(100), Some(300)));
    }

    #[test]
    fn an_operator_within_itself_counts_once() {
        let found = operators(&llm(), &OperatorSettings::default());
        let sum = find(&found.rows, "aten::sum");
        assert_eq!((sum.calls, sum.nested_calls, sum.host_total_ns), (3, 3, Some(90)));
        assert_eq!((sum.gpu_inclusive_ns, sum.gpu_exclusive_ns), (Some(13), Some(13)));
        // 90 of the outer without 60 of the range in it, and all 50 of the inner.
        assert_eq!((sum.host_self_ns, sum.host_mean_ns), (Some(30 + 50), Some(30)));
    }

    #[test]
    fn stages_have_their_own_rows_and_add_up() {
        let found = operators(&llm(), &OperatorSettings::default());
        let stages: Vec<Option<&str>> =
            found.stages.iter().map(|row| row.stage.as_deref()).collect();
        let (prefill, decode) = (Some("prefill"), Some("decode"));
        assert_eq!(stages, [prefill, prefill, prefill, decode, decode, None]);
        for row in &found.rows {
            let of = |row: &&StageOperatorRow, name: &str| row.operator.op_name == name;
            let parts: Vec<_> = found.stages.iter().filter(|s| of(s, &row.op_name)).collect();
            let host: u64 = parts.iter().filter_map(|part| part.operator.host_total_ns).sum();
            assert_eq!(Some(host), row.host_total_ns, "{}", row.op_name);
            assert_eq!(parts.iter().map(|part| part.operator.calls).sum::<u64>(), row.calls);
        }
    }

    #[test]
    fn a_warm_up_ranks_nothing_among_the_stages() {
        let mut report = llm();
        let stage = |apart| StageRow { stage: "prefill".into(), apart, ..StageRow::default() };
        report.stages = vec![stage(Some(Apart::WarmUp))];
        let all = operators(&llm(), &OperatorSettings::default());
        let found = operators(&report, &OperatorSettings::default());
        let linear = |rows| find(rows, "aten::linear").calls;
        assert!(linear(&found.warm_up) > 0 && linear(&found.rows) > 0, "{found:?}");
        assert_eq!(linear(&found.warm_up) + linear(&found.rows), linear(&all.rows));
        let stages: Vec<_> = found.stages.iter().map(|row| row.stage.as_deref()).collect();
        assert_eq!(stages.last(), Some(&Some("prefill")), "warm-ups stand last: {stages:?}");
        assert_eq!(found.absent, None);
    }

    #[test]
    fn coverage_is_the_share_of_gpu_time_in_operators() {
        let found = operators(&llm(), &OperatorSettings::default());
        let coverage = found.coverage.expect("coverage");
        assert_eq!((coverage.gpu_in_operators_ns, coverage.gpu_total_ns), (124, 129));
        assert_eq!(OperatorCoverage::default().percent(), None);
    }

    #[test]
    fn what_was_not_recorded_is_absent_and_not_zero() {
        let mut report = llm();
        for row in &mut report.paths {
            row.kernel_sum_exclusive_ns = None;
            row.kernels_inclusive = None;
            row.host_total_ns = None;
            row.unclosed = row.instances;
        }
        let found = operators(&report, &OperatorSettings::default());
        let linear = find(&found.rows, "aten::linear");
        assert_eq!((linear.gpu_inclusive_ns, linear.gpu_exclusive_ns), (None, None));
        assert_eq!((linear.host_total_ns, linear.host_mean_ns, linear.calls), (None, None, 10));
        assert_eq!((found.coverage, linear.kernels_inclusive), (None, None));
    }

    #[test]
    fn without_operators_the_reason_and_the_remedy_are_given() {
        let absent = |report: &Report, settings: &OperatorSettings| {
            operators(report, settings).absent.expect("a reason")
        };
        let plain = OperatorSettings::default();
        assert!(absent(&Report::default(), &plain).reason.contains("no NVTX range"));
        let ranges = tree(&[("prefill", None, 1, 10, 1)]);
        let found = absent(&ranges, &plain);
        assert!(found.reason.contains("no operator ranges (such"), "{found:?}");
        assert!(found.remedy.contains("--annotate torch-ops, which"), "{found:?}");
        let asked = OperatorSettings { annotate: vec![Annotation::TorchOps], ..plain.clone() };
        assert!(absent(&ranges, &asked).remedy.contains("was on"));
        let pattern = Some(Pattern::try_from("^x$".to_owned()).expect("pattern"));
        assert!(absent(&ranges, &OperatorSettings { pattern, ..plain }).reason.contains("(^x$)"));
    }

    #[test]
    fn trees_that_contradict_themselves_cost_nothing_but_their_sums() {
        let mut report = llm();
        report.paths[2].parent = Some(9);
        report.paths[4].parent = Some(4);
        report.paths[5].parent = Some(4_000);
        report.paths[7].kind = PathKind::Undefined;
        let found = operators(&report, &OperatorSettings::default());
        assert_eq!(find(&found.rows, "aten::addmm").calls, 10);
        report.paths.iter_mut().for_each(|row| row.host_total_ns = Some(u64::MAX));
        operators(&report, &OperatorSettings::default());
    }

    fn row(name: &str) -> PathRow {
        PathRow { name: name.to_owned(), ..PathRow::default() }
    }

    #[test]
    fn names_of_operators() {
        for (name, expected) in [
            ("aten::linear", "aten::linear"),
            ("aten::addmm, seq = 0, op_id = 27", "aten::addmm"),
            ("aten::mm, op_id = 3, sizes = [[2, 2], [2, 2]]", "aten::mm"),
            ("aten::add.Tensor", "aten::add.Tensor"),
            ("_c10d_functional::all_reduce", "_c10d_functional::all_reduce"),
            ("vllm::unified_attention", "vllm::unified_attention"),
            (
                "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad, op_id = 9",
                "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
            ),
        ] {
            assert_eq!(operator(&row(name), None), Some(expected));
        }
    }

    #[test]
    fn other_ranges() {
        let near = ["", "prefill", "::", "aten::", "::add", "A::A1", "Model::forward"];
        let odd = ["aten::li near", "step: a::b", "aten::x: ", "## Call CompiledFxGraph ##"];
        for name in near.into_iter().chain(odd) {
            assert_eq!(operator(&row(name), None), None, "{name:?}");
        }
        let own = PathRow { domain: Some("CCCL".into()), ..row("cub::DeviceReduce") };
        assert_eq!(operator(&own, None), None);
        let undefined = PathRow { kind: PathKind::Undefined, ..row("aten::add") };
        assert_eq!(operator(&undefined, None), None);
    }

    #[test]
    fn a_pattern_decides_alone() {
        let pattern = Pattern::try_from("^layer\\.".to_owned()).expect("pattern");
        assert_eq!(operator(&row("layer.3"), Some(&pattern)), Some("layer.3"));
        assert_eq!(operator(&row("aten::add"), Some(&pattern)), None);
        let own = PathRow { domain: Some("mine".into()), ..row("layer.3, seq = 2") };
        assert_eq!(operator(&own, Some(&pattern)), Some("layer.3"));
    }

    #[test]
    fn the_preset_is_the_default() {
        let yaml = include_str!("../../../../conf/operators/default.yaml");
        let preset: OperatorSettings = serde_saphyr::from_str(yaml).expect("preset");
        assert_eq!(preset, OperatorSettings::default());
    }

    #[test]
    fn words_and_configuration_are_the_same() {
        for annotation in Annotation::ALL {
            assert_eq!(annotation.word().parse(), Ok(annotation));
            assert_eq!(serde_json::to_value(annotation).expect("JSON"), annotation.word());
        }
        let refused = "torch_ops".parse::<Annotation>().expect_err("no such word");
        assert!(refused.to_string().contains("use torch-ops, prefill-decode"), "{refused}");
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_a_reason() {
        let read = |text: &str| {
            let settings = serde_json::json!({"annotate": [], "pattern": text, "top_n": 1});
            serde_json::from_value::<OperatorSettings>(settings)
        };
        let error = read("my::(").expect_err("unbalanced").to_string();
        assert!(error.contains("my::(") && error.contains("unclosed group"), "{error}");
        let pattern = read("^my::").expect("a pattern").pattern.expect("given");
        assert!(pattern.matches("my::op") && !pattern.matches("not my::op"));
    }
}
