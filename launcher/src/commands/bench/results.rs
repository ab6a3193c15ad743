//! What was measured -> how the configurations compare, what slows the workload down too much, and the page.

use std::ffi::OsString;

use serde::Serialize;
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{grouped, ratio3};
use stage2_contract::text::{code, shorten, wrapped};
use stage2_model::finding::Id;
use stage2_model::{EmptyReason, Finding, WorkloadExit};
use stage2_read::trace::stats::median;
use stage2_render::table::Table;
use stage2_report::join::overhead::{InForce, LIMIT, lighter};

use super::Times;
use crate::redaction;

const SCHEMA: u32 = 1;

/// Everything that was measured: contents of `bench.json`. Times are nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Results {
    schema: u32,
    stage2_version: String,
    /// The words after `--`. Bytes that are not UTF-8 are replaced.
    command: Vec<String>,
    pub(super) rounds: u32,
    /// Rounds that were asked for.
    #[serde(skip)]
    asked: u32,
    /// Untraced runs before them that are in no number here.
    pub(super) warmup: u32,
    /// A signal or the time limit ended the benchmark before its time.
    pub(super) cut_short: bool,
    /// A simulated GPU took part: then no number says anything about real hardware.
    pub(super) simulated: bool,
    /// How the workload ends when it is not watched.
    pub(super) workload_exit: Option<WorkloadExit>,
    pub(super) configurations: Vec<Configuration>,
    /// The whole process, and then the stages, under each configuration.
    pub(super) rows: Vec<Row>,
    /// Times of stages that are in no row.
    pub(super) left_out: Vec<LeftOutTimes>,
    pub(super) findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    /// None: the whole process.
    pub(super) stage: Option<String>,
    pub(super) configuration: String,
    #[serde(skip)]
    pub(super) tracing: Tracing,
    /// The second measurement of an A/A pair.
    #[serde(skip)]
    pub(super) again: bool,
    pub(super) runs_ns: Vec<u64>,
    pub(super) median_ns: u64,
    pub(super) min_ns: u64,
    /// Median against that of the first configuration that has the stage.
    pub(super) median_ratio: Option<f64>,
    pub(super) min_ratio: Option<f64>,
}

/// Runs that saw a stage another number of times than it was there: their time would be that of something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LeftOutTimes {
    pub(super) stage: String,
    pub(super) configuration: String,
    /// Instances in each run of ranges only.
    pub(super) expected: u64,
    pub(super) instances: Vec<u64>,
}

impl Results {
    pub(super) fn new(command: &[OsString], Times { rounds, warmup }: Times) -> Self {
        let words = redaction::os_words(command);
        Self {
            schema: SCHEMA,
            stage2_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            rounds,
            asked: rounds,
            warmup,
            ..Self::default()
        }
    }

    /// How the workload fails, also when it is not watched; nothing where it goes through.
    pub(super) fn failed_exit(&self) -> Option<WorkloadExit> {
        self.workload_exit.filter(|exit| *exit != WorkloadExit::Code(0))
    }

    /// Whether any profiler was measured on work that it could slow down; where none was asked for, whether anything was.
    pub(super) fn has_measured(&self) -> bool {
        let has_profilers = self.profilers().next().is_some();
        let is_of_one = |row: &Row| !has_profilers || row.tracing.is_profiler();
        self.rows.iter().any(is_of_one) && !is_idle(self)
    }

    /// Whether no profiler is left of those that were asked for: more untraced runs have nothing to be compared with.
    pub(super) fn has_lost_profilers(&self) -> bool {
        self.profilers().next().is_some() && self.profilers().all(|of| of.failed.is_some())
    }

    fn profilers(&self) -> impl Iterator<Item = &Configuration> {
        self.configurations.iter().filter(|of| of.tracing.is_profiler())
    }

    /// Why no profiler was measured, and what to do about it.
    pub(super) fn unmeasured(&self, no_gpu: Option<&EmptyReason>) -> (String, String) {
        let (why, remedy) = self.reason(no_gpu);
        let Self { rounds, asked, .. } = self;
        let stopped =
            (rounds < asked).then(|| format!("stopped after round {rounds} of {asked}: "));
        (format!("{}{why}", stopped.unwrap_or_default()), remedy)
    }

    fn reason(&self, no_gpu: Option<&EmptyReason>) -> (String, String) {
        if let Some(EmptyReason { why, remedy, .. }) = no_gpu {
            return (why.clone(), remedy.clone());
        }
        if is_idle(self) {
            return (IDLE.to_owned(), USE_GPU.to_owned());
        }
        let failed = |of: &Configuration| Some(format!("{}: {}", of.name, of.failed.as_ref()?));
        let last = self.configurations.iter().filter(|of| of.tracing != Tracing::Nsys);
        let why = last.filter_map(failed).next_back();
        let why = why.unwrap_or_else(|| "no profiler ran to its end".to_owned());
        (why, "solve this, and run it again".to_owned())
    }

    pub(super) fn compare(&mut self) {
        let mut stages: Vec<Option<String>> = vec![None];
        for run in self.configurations.iter().flat_map(|c| &c.runs) {
            for StageTime { stage, .. } in &run.stages {
                if !stages.iter().any(|known| known.as_ref() == Some(stage)) {
                    stages.push(Some(stage.clone()));
                }
            }
        }
        self.rows.clear();
        self.left_out.clear();
        for stage in stages {
            let expected = stage.as_ref().and_then(|stage| expected(&self.configurations, stage));
            let mut first: Option<(u64, u64)> = None;
            for configuration in &self.configurations {
                let (runs_ns, left_out) = times(configuration, stage.as_deref(), expected);
                self.left_out.extend(left_out);
                let least = runs_ns.iter().copied().min();
                let (Some(median_ns), Some(min_ns)) = (median(&mut runs_ns.clone()), least) else {
                    continue;
                };
                let basis = *first.get_or_insert((median_ns, min_ns));
                self.rows.push(Row {
                    stage: stage.clone(),
                    configuration: configuration.name.clone(),
                    tracing: configuration.tracing,
                    again: configuration.again,
                    runs_ns,
                    median_ns,
                    min_ns,
                    median_ratio: ratio(median_ns, basis.0),
                    min_ratio: ratio(min_ns, basis.1),
                });
            }
        }
    }
}

/// Instances of a stage in every run of ranges only; none where they differ, as in a workload of a given time.
fn expected(configurations: &[Configuration], stage: &str) -> Option<u64> {
    let reference = configurations.iter().filter(|c| c.tracing == Tracing::RangesOnly);
    let mut counts = reference.flat_map(Configuration::good_runs).map(|run| seen(run, stage));
    let first = counts.next()??;
    counts.all(|count| count == Some(first)).then_some(first)
}

/// Instances of a stage in a run; none where it does not say.
fn seen(run: &Run, stage: &str) -> Option<u64> {
    stage_of(run, stage).map_or(Some(0), |time| time.instances)
}

fn stage_of<'r>(run: &'r Run, stage: &str) -> Option<&'r StageTime> {
    run.stages.iter().find(|time| time.stage == stage)
}

/// What the runs of a configuration took, of a stage or (none) as a whole, and what they leave out.
fn times(
    configuration: &Configuration,
    stage: Option<&str>,
    expected: Option<u64>,
) -> (Vec<u64>, Option<LeftOutTimes>) {
    let runs = configuration.good_runs();
    let Some(stage) = stage else {
        return (runs.iter().filter_map(|run| run.duration_ns).collect(), None);
    };
    let mut runs_ns = Vec::new();
    let mut instances = Vec::new();
    for run in runs {
        match (seen(run, stage), expected) {
            (Some(seen), Some(expected)) if seen != expected => instances.push(seen),
            _ => runs_ns.extend(stage_of(run, stage).map(|time| time.host_ns)),
        }
    }
    // Where no range was seen at all, as untraced, there is nothing to leave out.
    let sees = runs.iter().any(|run| !run.stages.is_empty());
    let left_out =
        expected.filter(|_| sees && !instances.is_empty()).map(|expected| LeftOutTimes {
            stage: stage.to_owned(),
            configuration: configuration.name.clone(),
            expected,
            instances,
        });
    (runs_ns, left_out)
}

fn ratio(value: u64, basis: u64) -> Option<f64> {
    (basis > 0).then(|| value as f64 / basis as f64)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tracing {
    /// All others are compared with it.
    #[default]
    Untraced,
    /// The collector without CUPTI: stages are compared with it.
    RangesOnly,
    Collector,
    Nsys,
}

impl Tracing {
    const ALL: [Self; 4] = [Self::Untraced, Self::RangesOnly, Self::Collector, Self::Nsys];

    fn is_profiler(self) -> bool {
        matches!(self, Self::Collector | Self::Nsys)
    }

    /// Its pass in a plan, its name in the tables, and what is measured.
    fn texts(self) -> [&'static str; 3] {
        match self {
            Self::Untraced => ["untraced", "untraced", "the command alone, without the collector"],
            Self::RangesOnly => [
                "baseline",
                "ranges only",
                "NVTX ranges timed by the collector, CUPTI off (STAGE2_GPU=off)",
            ],
            Self::Collector => {
                ["collect", "collector", "every kernel recorded and placed in its range"]
            }
            Self::Nsys => [
                "nsys",
                "nsys",
                "`nsys profile` with pipeline.nsys.*; its whole time includes its report",
            ],
        }
    }

    pub(super) fn of_pass(pass: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tracing| tracing.pass() == pass)
    }

    fn pass(self) -> &'static str {
        self.texts()[0]
    }

    pub(super) fn name(self) -> &'static str {
        self.texts()[1]
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Configuration {
    pub(super) name: String,
    #[serde(skip)]
    pub(super) tracing: Tracing,
    #[serde(skip)]
    pub(super) again: bool,
    pub(super) what: String,
    /// Index of its pass in a plan.
    #[serde(skip)]
    pub(super) pass: usize,
    pub(super) runs: Vec<Run>,
    /// Why there are no (more) runs.
    pub(super) failed: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) round: u32,
    pub(super) exit: Option<WorkloadExit>,
    /// From the start of the process to its end.
    pub(super) duration_ns: Option<u64>,
    pub(super) stages: Vec<StageTime>,
    /// Records of GPU work, where it was to be recorded.
    pub(super) gpu_records: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct StageTime {
    pub(super) stage: String,
    /// Times that it was opened.
    pub(super) instances: Option<u64>,
    /// Median host time of its instances without the first; of the first where it is the only one.
    pub(super) host_ns: u64,
}

impl StageTime {
    pub(super) fn of_range(range: &stage2_read::nsys::Range) -> Option<Self> {
        let only = range.host_total_ns.filter(|_| range.instances == Some(1));
        let domain = range.domain.as_ref().map_or_else(String::new, |d| format!("@{d}"));
        let stage = format!("{}{domain}", range.name);
        let host_ns = range.host_warm_median_ns.or(only)?;
        Some(Self { stage, instances: range.instances, host_ns })
    }

    pub(super) fn of_row(row: &stage2_model::StageRow) -> Option<Self> {
        let host_ns = row.host_warm_median_ns.or(row.host_first_ns)?;
        Some(Self { stage: row.stage.clone(), instances: row.instances, host_ns })
    }
}

impl Configuration {
    pub(super) fn new(tracing: Tracing, pass: usize, failed: Option<String>) -> Self {
        let [_, name, what] = tracing.texts().map(str::to_owned);
        Self { name, tracing, again: false, what, pass, runs: Vec::new(), failed }
    }

    pub(super) fn again(&self) -> Self {
        Self { name: format!("{} again", self.name), again: true, ..self.clone() }
    }

    /// The runs that say something: those up to one that failed are as good as any.
    pub(super) fn good_runs(&self) -> &[Run] {
        match self.runs.split_last() {
            Some((_, before)) if self.failed.is_some() => before,
            _ => &self.runs,
        }
    }
}

/// What slows a stage beyond its limit, by medians and minima, and by more than its A/A pair differs.
pub(super) fn slow_profilers(results: &Results, in_force: InForce) -> Vec<Finding> {
    let profilers = [Tracing::Collector, Tracing::Nsys];
    profilers.into_iter().filter_map(|tracing| slow_profiler(results, tracing, in_force)).collect()
}

/// How far the medians of the A/A pairs of a stage differ, as a share: those of the pair that differs most.
fn noise(results: &Results, stage: Option<&str>) -> Option<f64> {
    let of_stage = || results.rows.iter().filter(|row| row.stage.as_deref() == stage);
    let difference = |again: &Row| {
        let first = of_stage().find(|row| !row.again && row.tracing == again.tracing)?;
        Some((ratio(again.median_ns, first.median_ns)? - 1.0).abs())
    };
    of_stage().filter(|row| row.again).filter_map(difference).reduce(f64::max)
}

/// A number with two digits of its noise, at most three decimals.
fn by_noise(value: f64, noise: f64) -> String {
    let decimals = [10.0, 1.0, 0.1].iter().position(|least| noise >= *least).unwrap_or(3);
    grouped(&format!("{value:.decimals$}"))
}

fn slow_profiler(results: &Results, tracing: Tracing, in_force: InForce) -> Option<Finding> {
    let slow = results.rows.iter().filter(|row| row.tracing == tracing).filter_map(|row| {
        let stage = row.stage.as_deref()?;
        let (median, min, noise) =
            (row.median_ratio?, row.min_ratio?, noise(results, Some(stage))?);
        (median.min(min) > LIMIT && median - 1.0 > noise)
            .then(|| format!("{stage} {}x (A/A {}x)", ratio3(median), ratio3(1.0 + noise)))
    });
    let slow: Vec<String> = slow.collect();
    let (name, reference) = (tracing.name(), Tracing::RangesOnly.name());
    (!slow.is_empty()).then(|| {
        Id::OverheadHigh.about(name).found(
            format!("{name}: stages that took more than {LIMIT}x {reference}: {}", slow.join(", ")),
            "beyond that, the profiler dominates the time",
            lighter(tracing.pass(), false, in_force),
        )
    })
}

/// Stages that are shown, those with the longest time; `bench.json` has all.
const MAX_STAGES: usize = 20;

/// Why a run of a collector has no stages.
pub(super) const NO_TRACES: &str =
    "there is no trace file (*.s2t): no process loaded the collector, or none used CUDA or NVTX";

/// Whether the collector saw a workload that does nothing it could slow down.
pub(super) fn is_idle(results: &Results) -> bool {
    let has_work = |run: &Run| !run.stages.is_empty() || run.gpu_records.is_some_and(|n| n > 0);
    let is_seen = |of: &Configuration| {
        let failed = of.failed.as_deref();
        of.tracing == Tracing::Collector
            && !of.runs.is_empty()
            && failed.is_none_or(|why| why == NO_TRACES)
    };
    results.configurations.iter().any(is_seen)
        && !results.configurations.iter().flat_map(|of| &of.runs).any(has_work)
}

const IDLE: &str = "the workload launched no GPU work";
const USE_GPU: &str = "name a command that uses the GPU; if this one does, \
                       `stage2-launch --light -- COMMAND` shows why nothing was recorded";

/// The page. A short one is for a screen: no legend, and no reason that the error below it has.
pub(super) fn page(results: &Results, no_gpu: Option<&EmptyReason>, is_short: bool) -> String {
    let mut page = String::from(if is_short { "" } else { "# Benchmark\n\n" });
    if is_idle(results) {
        if is_short {
            return page;
        }
        let (why, remedy) = results.unmeasured(no_gpu);
        page.push_str(&format!("There is nothing to compare: {why}. To do: {remedy}.\n"));
        page.extend(results.findings.iter().map(Finding::item));
        return page;
    }
    if is_short {
        let end = if results.cut_short { ", ended before its time" } else { "" };
        let simulated = if results.simulated { " (simulated)" } else { "" };
        page.push_str(&format!("Rounds: {}{end}{simulated}\n", results.rounds));
    } else {
        page.push_str(&format!(
            "Rounds: {}{}{}. Untraced warm-up runs, not included: {}.\n\n",
            results.rounds,
            if results.rounds > 1 { ", every second one in reverse order" } else { "" },
            if results.cut_short { "; ended before its time" } else { "" },
            results.warmup,
        ));
        if results.simulated {
            page.push_str("Simulated: no real GPU took part.\n\n");
        }
    }
    if !results.has_measured() && !is_short {
        let (why, remedy) = results.unmeasured(no_gpu);
        page.push_str(&format!("**No profiler was measured**: {why}. To do: {remedy}.\n\n"));
    }
    if let Some(exit) = results.failed_exit() {
        page.push_str(&format!(
            "**The workload itself fails** ({}), untraced as well: the times are those of a run that \
             fails.\n\n",
            exit.describe()
        ));
    }
    let shown = shown_stages(results);
    let mut rows: Vec<(Option<&str>, &Configuration, Option<&Row>)> = Vec::new();
    for &stage in &shown {
        for configuration in &results.configurations {
            let name = &configuration.name;
            let of = |row: &&Row| row.stage.as_deref() == stage && row.configuration == *name;
            let row = results.rows.iter().find(of);
            if row.is_some() || (stage.is_none() && configuration.failed.is_some()) {
                rows.push((stage, configuration, row));
            }
        }
    }
    let noise_of = |row: &Row| noise(results, row.stage.as_deref()).unwrap_or_default();
    let error_ms = |row: &Row| noise_of(row) * row.median_ns as f64 / 1e6;
    let ms = |row: &Row, ns: u64| by_noise(ns as f64 / 1e6, error_ms(row));
    let median = |row: &Row| match error_ms(row) {
        error if error < 0.0005 => ms(row, row.median_ns),
        error => format!("{} ± {}", ms(row, row.median_ns), by_noise(error, error)),
    };
    let ratio = |row: &Row, ratio: Option<f64>| Some(by_noise(ratio?, noise_of(row)));
    let table = Table::new(&rows)
        .left("stage", |(stage, ..)| stage.map_or_else(|| "whole process".to_owned(), code))
        .left("configuration", |(_, configuration, _)| configuration.name.clone())
        .right("runs", |(.., row)| row.map(|row| row.runs_ns.len().to_string()))
        .right("median ms", |(.., row)| row.map(median))
        .right("min ms", |(.., row)| row.map(|row| ms(row, row.min_ns)))
        .right("median ratio", |(.., row)| row.and_then(|row| ratio(row, row.median_ratio)))
        .right("min ratio", |(.., row)| row.and_then(|row| ratio(row, row.min_ratio)));
    page.push_str(&table.markdown());
    page.push_str(if is_short {
        "± is the noise of equal runs (again). bench.md and -v explain the table.\n"
    } else {
        "Ratios of stages are against ranges only, those of the whole process against untraced; \"again\" is the same thing \
         measured once more in each round (A/A): a ratio that is not farther from 1 is noise. ± is that noise in ms, by the A/A \
         pair that differs most. A stage's time in a run is the median host time of its instances without the first. Minima are \
         less sensitive to other load on the machine than medians.\n\n"
    });
    let all = results.rows.iter().filter(|row| row.stage.is_some());
    let mut names: Vec<_> = all.map(|row| row.stage.as_deref()).collect();
    names.dedup();
    if names.len() >= shown.len() {
        let more = names.len() + 1 - shown.len();
        page.push_str(&format!("{more} more stages are in bench.json.\n\n"));
    }
    let recorded = |of: &Configuration| of.runs.iter().any(|run| run.gpu_records.is_some());
    if names.is_empty() && results.configurations.iter().any(recorded) {
        page.push_str(
            "- the workload opened no NVTX range: only the whole process is compared; mark its \
             stages with ranges, or let `--annotate prefill-decode` do it\n",
        );
    }
    for Configuration { name, tracing, again, what, failed, runs, .. } in &results.configurations {
        if !again && !is_short {
            page.push_str(&format!("- {name}: {what}\n"));
        }
        // Untraced, nobody sees ranges.
        let measured = failed.is_none() && !runs.is_empty();
        let staged = runs.iter().any(|run| !run.stages.is_empty());
        if !names.is_empty() && measured && *tracing != Tracing::Untraced && !staged {
            page.push_str(&format!("- {name} recorded none of the ranges\n"));
        }
        // GPU work was to be recorded, and there was none.
        let mut gpu_records = runs.iter().filter_map(|run| run.gpu_records).peekable();
        if measured && gpu_records.peek().is_some() && gpu_records.all(|records| records == 0) {
            page.push_str(&format!(
                "- {name} recorded no GPU work: its times are those of the ranges alone\n"
            ));
        }
        if let Some(why) =
            failed.as_ref().filter(|_| !is_short || results.has_measured() && !runs.is_empty())
        {
            page.push_str(&format!(
                "- {name}: no complete measurement: {}\n",
                code(&why.replace('`', ""))
            ));
        }
        let of = |left_out: &&LeftOutTimes| left_out.configuration == *name;
        for left_out in results.left_out.iter().filter(of).take(MAX_STAGES) {
            page.push_str(&absent(left_out));
        }
    }
    page.extend(results.findings.iter().map(Finding::item));
    page.extend(
        conclusion(results).map(|text| format!("{}{text}\n", if is_short { "" } else { "\n" })),
    );
    page
}

/// Stages whose cost is in the last line, those with the most time.
const COSTS: usize = 3;

/// What the collector costs, in a line to remember: the whole process, and its longest stages. Nothing where it was not
/// measured.
fn conclusion(results: &Results) -> Option<String> {
    let rows = results.rows.iter().filter(|row| row.tracing == Tracing::Collector);
    let (mut stages, mut rows): (Vec<_>, Vec<_>) = rows.partition(|row| row.stage.is_some());
    stages.order_by(|a, b| longest(results, b).total_cmp(&longest(results, a)));
    rows.extend(stages.into_iter().take(COSTS));
    let costs: Vec<String> = rows.into_iter().filter_map(|row| cost(results, row)).collect();
    let simulated = if results.simulated { " (simulated)" } else { "" };
    (!costs.is_empty()).then(|| format!("**Collector costs**: {}{simulated}.", costs.join(", ")))
}

/// By how much a row takes longer, and the noise of that, percent: two digits of the noise, which is left out if it is none.
fn cost(results: &Results, row: &Row) -> Option<String> {
    let (ratio, of_pair) = (row.median_ratio?, noise(results, row.stage.as_deref())?);
    // Its own runs may differ more than those of the pair.
    let noise = of_pair.max((ratio - row.min_ratio?).abs()) * 100.0;
    let percent = (ratio - 1.0) * 100.0;
    let decimals = [10.0, 1.0, 0.1].iter().position(|least| noise >= *least).unwrap_or(3);
    let what = row.stage.as_deref().map_or_else(|| "whole process".to_owned(), code);
    Some(match noise < 0.0005 {
        true => format!("{what} {percent:+.1} %"),
        false => {
            let end = if percent.abs() > noise { "" } else { " (within the noise)" };
            format!("{what} {percent:+.decimals$} ± {noise:.decimals$} %{end}")
        }
    })
}

/// Time that a run spends in the stage of a row; less than any of a stage for the whole process.
fn longest(results: &Results, row: &Row) -> f64 {
    let Some(stage) = row.stage.as_deref() else { return -1.0 };
    let runs = results.configurations.iter().filter(|of| of.name == row.configuration);
    let run = runs.flat_map(|of| &of.runs).find_map(|run| stage_of(run, stage));
    run.and_then(|time| time.instances).unwrap_or(1) as f64 * row.median_ns as f64
}

/// A [`page`] for a terminal: text in lines of its width, and columns in place of the table of Markdown.
pub(super) fn on_terminal(page: &str, width: usize) -> String {
    let mut out = String::new();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in page.lines() {
        if let Some(row) = line.strip_prefix("| ") {
            rows.push(row.trim_end_matches(" |").split(" | ").map(unmarked).collect());
            continue;
        }
        out.push_str(&columns(&std::mem::take(&mut rows), width));
        // The lines of an item stand below its text.
        let below = if line.starts_with("- ") { "\n  " } else { "\n" };
        let line = unmarked(line.trim_start_matches("# "));
        out.push_str(&format!("{}\n", wrapped(&line, width + 1 - below.len()).join(below)));
    }
    out
}

/// A line of Markdown as it reads.
fn unmarked(text: &str) -> String {
    let mut out = String::new();
    let mut is_code = false;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_before =
            |next: char| c == '\\' && (next == '|' || !is_code && next.is_ascii_punctuation());
        match (c, rest.peek()) {
            (_, Some(&next)) if is_before(next) => out.extend(rest.next()),
            ('`', _) => is_code = !is_code,
            ('*', Some('*')) if !is_code => drop(rest.next()),
            _ => out.push(c),
        }
    }
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&#124;", "|"), ("&amp;", "&")];
    entities.iter().fold(out, |text, (entity, c)| text.replace(entity, c))
}

/// Rows below their names, the second of them Markdown's sides of the columns. A long name of a stage is cut.
fn columns(rows: &[Vec<String>], width: usize) -> String {
    const GAP: &str = "  ";
    const LEAST: usize = 12;
    let [names, sides, rows @ ..] = rows else { return String::new() };
    let length = |text: &str| text.chars().count();
    let widest = |(at, name): (usize, &String)| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| length(cell));
        name.split(' ').map(length).chain(cells).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = names.iter().enumerate().map(widest).collect();
    let all = widths.iter().map(|width| width + GAP.len()).sum::<usize>() - GAP.len();
    if let Some(first) = widths.first_mut() {
        *first = first.saturating_sub(all.saturating_sub(width)).max(LEAST.min(*first));
    }
    let names: Vec<_> =
        names.iter().zip(&widths).map(|(name, width)| wrapped(name, *width)).collect();
    let tall = names.iter().map(Vec::len).max().unwrap_or(0);
    let nth = |at: usize| -> Vec<String> {
        names.iter().map(|name| name.get(at).cloned().unwrap_or_default()).collect()
    };
    let lines = (0..tall).map(nth).chain(rows.iter().cloned());
    let shown = lines.map(|line| {
        let cells = line.iter().zip(&widths).zip(sides);
        let cells = cells.map(|((cell, &width), side)| match side.ends_with(':') {
            true => format!("{cell:>width$}"),
            false => format!("{:width$}", shorten(cell, width)),
        });
        format!("{}\n", cells.collect::<Vec<_>>().join(GAP).trim_end())
    });
    shown.collect()
}

fn absent(LeftOutTimes { stage, configuration, expected, instances }: &LeftOutTimes) -> String {
    let seen: Vec<String> = instances.iter().map(u64::to_string).collect();
    format!(
        "- {configuration} saw {} with other numbers of instances: {} ({}: {expected} in every run); \
         these runs have no time of it here\n",
        code(stage),
        seen.join(", "),
        Tracing::RangesOnly.name(),
    )
}

/// The whole process, then the stages with the longest time.
fn shown_stages(results: &Results) -> Vec<Option<&str>> {
    let mut longest: Vec<(&str, u64)> = Vec::new();
    for row in &results.rows {
        let Some(stage) = row.stage.as_deref() else { continue };
        match longest.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, ns)) => *ns = (*ns).max(row.median_ns),
            None => longest.push((stage, row.median_ns)),
        }
    }
    longest.order_by_key(|&(_, ns)| std::cmp::Reverse(ns));
    let stages = longest.into_iter().take(MAX_STAGES).map(|(stage, _)| Some(stage));
    std::iter::once(None).chain(stages).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(duration_ns: u64, decode_ns: Option<u64>) -> Run {
        let stage = |host_ns| StageTime { stage: "decode".into(), instances: Some(8), host_ns };
        Run {
            round: 1,
            exit: Some(WorkloadExit::Code(0)),
            duration_ns: Some(duration_ns),
            stages: decode_ns.map(stage).into_iter().collect(),
            gpu_records: None,
        }
    }

    #[test]
    fn a_terminal_has_columns_and_no_long_line() {
        let page = "# Benchmark\n\nRounds: 3, **every** second one in reverse order.\n\n\
                    | Stage | Configuration | Min ratio |\n| --- | --- | ---: |\n\
                    | whole process | untraced | 1.000 |\n| `a\\|long/name/of/a/stage` | nsys | 11.2 |\n\n\
                    - set ranges=\\[NAME\\] &lt;or&gt; `a*\\d` for less cost of it\n- end\n";
        let expected = "\
Benchmark

Rounds: 3, every second one in reverse
order.

Stage               Configuration    Min
                                   ratio
whole process       untraced       1.000
a|long/na…/a/stage  nsys            11.2

- set ranges=[NAME] <or> a*\\d for less
  cost of it
- end
";
        assert_eq!(on_terminal(page, 40), expected);
    }

    #[test]
    fn every_row_is_held_against_the_first_configuration_that_has_it() {
        // The last run of the collector failed: only the others count.
        let failed = Configuration::new(Tracing::Collector, 0, Some("exit status 1".into()));
        let results = compared(&[
            (of(Tracing::Untraced), vec![run(100, None), run(300, None), run(200, None)]),
            (of(Tracing::RangesOnly), vec![run(210, Some(10)), run(190, Some(20))]),
            (failed, vec![run(240, Some(30)), run(220, Some(15)), run(1, Some(1))]),
        ]);
        let row = |at: usize| {
            let Row { stage, median_ns, min_ns, median_ratio, min_ratio, .. } = &results.rows[at];
            (stage.as_deref(), *median_ns, *min_ns, *median_ratio, *min_ratio)
        };
        assert_eq!(results.rows.len(), 5);
        assert_eq!(row(0), (None, 200, 100, Some(1.0), Some(1.0)));
        assert_eq!(row(1), (None, 200, 190, Some(1.0), Some(1.9)));
        assert_eq!(row(2), (None, 230, 220, Some(1.15), Some(2.2)));
        assert_eq!(row(3), (Some("decode"), 15, 10, Some(1.0), Some(1.0)));
        assert_eq!(row(4), (Some("decode"), 23, 15, Some(23.0 / 15.0), Some(1.5)));
        assert!(results.left_out.is_empty());
    }

    fn of(tracing: Tracing) -> Configuration {
        Configuration::new(tracing, 0, None)
    }

    fn seeing(instances: &[u64]) -> Vec<Run> {
        let mut runs: Vec<Run> = instances.iter().map(|_| run(100, Some(10))).collect();
        for (run, &instances) in runs.iter_mut().zip(instances) {
            run.stages[0].instances = Some(instances);
            run.stages.retain(|stage| stage.instances != Some(0));
        }
        runs
    }

    fn compared(configurations: &[(Configuration, Vec<Run>)]) -> Results {
        let mut results = Results::new(&["x".into()], Times { rounds: 3, warmup: 1 });
        for (configuration, runs) in configurations {
            let mut configuration = configuration.clone();
            configuration.runs.clone_from(runs);
            results.configurations.push(configuration);
        }
        results.compare();
        results
    }

    #[test]
    fn runs_that_saw_another_number_of_instances_are_left_out_and_said() {
        let results = compared(&[
            (of(Tracing::Untraced), seeing(&[0, 0, 0])),
            (of(Tracing::RangesOnly), seeing(&[6, 6, 6])),
            (of(Tracing::RangesOnly).again(), seeing(&[6, 6, 6])),
            (of(Tracing::Collector), seeing(&[6, 6, 6])),
            (of(Tracing::Nsys), seeing(&[1, 6, 0])),
        ]);
        let decode: Vec<_> = results.rows.iter().filter(|row| row.stage.is_some()).collect();
        assert_eq!(decode.len(), 4, "{decode:?}");
        assert_eq!((&*decode[3].configuration, decode[3].runs_ns.len()), ("nsys", 1));
        let [left_out] = &results.left_out[..] else { panic!("{:?}", results.left_out) };
        assert_eq!((&*left_out.configuration, left_out.expected), ("nsys", 6));
        assert_eq!(left_out.instances, [1, 0]);
    }

    #[test]
    fn a_workload_whose_runs_differ_by_themselves_is_compared_all_the_same() {
        let results = compared(&[
            (of(Tracing::RangesOnly), seeing(&[90])),
            (of(Tracing::RangesOnly).again(), seeing(&[92])),
            (of(Tracing::Collector), seeing(&[80])),
        ]);
        assert_eq!(results.rows.iter().filter(|row| row.stage.is_some()).count(), 3);
        assert!(results.left_out.is_empty());
    }

    /// Results of two rounds in which `decode` takes these times.
    fn timed_results(plain: [u64; 2], again: [u64; 2], collector: [u64; 2]) -> Results {
        let runs = |times: [u64; 2]| times.map(|ns| run(ns, Some(ns))).to_vec();
        compared(&[
            (of(Tracing::RangesOnly), runs(plain)),
            (of(Tracing::RangesOnly).again(), runs(again)),
            (of(Tracing::Collector), runs(collector)),
        ])
    }

    #[test]
    fn a_slow_stage_is_told_with_its_noise_and_a_lighter_setting() {
        let slow = timed_results([1_000, 1_000], [1_020, 1_020], [1_300, 1_300]);
        let found = slow_profilers(&slow, InForce::default());
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert!(finding.what.contains("decode 1.300x (A/A 1.020x)"), "{finding}");
        assert!(finding.remedy.contains("profiling.collector.sample=1/16"), "{finding}");
        let config = serde_json::json!({"profiling": {"collector": {"sample": "1/64"}}});
        let sampled = &slow_profilers(&slow, InForce::of(&config))[0];
        assert!(sampled.remedy.starts_with("a larger N"), "{sampled}");
    }

    #[test]
    fn the_last_line_is_what_the_collector_costs() {
        let last = |results: &Results| {
            page(results, None, false).lines().last().unwrap_or_default().to_owned()
        };
        let ms = |times: [u64; 2]| times.map(|ms| ms * 1_000_000);
        let slow = timed_results(ms([100, 100]), ms([102, 102]), ms([130, 130]));
        assert_eq!(
            last(&slow),
            "**Collector costs**: whole process +30.0 ± 2.0 %, `decode` +30.0 ± 2.0 %."
        );
        // Its own runs differ more.
        let uneven = timed_results(ms([100, 100]), ms([100, 100]), ms([102, 130]));
        assert!(last(&uneven).contains("`decode` +16 ± 14 %."), "{}", last(&uneven));
        let same = timed_results(ms([100, 100]), ms([102, 102]), ms([101, 101]));
        assert!(
            last(&same).ends_with("`decode` +1.0 ± 2.0 % (within the noise)."),
            "{}",
            last(&same)
        );
        let equal = timed_results(ms([100, 100]), ms([100, 100]), ms([101, 101]));
        assert!(last(&equal).ends_with("`decode` +1.0 %."), "{}", last(&equal));
        let lines = page(&slow, None, true);
        assert!(!lines.contains("Ratios of stages") && lines.contains("-v"), "{lines}");
        let untraced = compared(&[(of(Tracing::Untraced), vec![run(100, None)])]);
        assert!(conclusion(&untraced).is_none());
    }

    #[test]
    fn the_pair_that_differs_most_is_the_noise_and_decides_the_digits() {
        let results = compared(&[
            (of(Tracing::Untraced), vec![run(1_000, None)]),
            (of(Tracing::Untraced).again(), vec![run(970, None)]),
            (of(Tracing::RangesOnly), vec![run(400, Some(10))]),
            (of(Tracing::RangesOnly).again(), vec![run(1_440, Some(12))]),
        ]);
        let percent = |stage| noise(&results, stage).map(|noise| (noise * 100.0).round());
        assert_eq!((percent(None), percent(Some("decode"))), (Some(260.0), Some(20.0)));
        let digits = [(1234.567, 20.0), (12.345, 2.0), (1.2345, 0.2), (1.2345, 0.05), (1.0, 0.0)];
        let cells = digits.map(|(value, noise)| by_noise(value, noise));
        assert_eq!(cells, ["1,235", "12.3", "1.23", "1.234", "1.000"]);
    }

    #[test]
    fn what_is_within_the_limit_or_the_noise_is_not_told() {
        for (again, collector) in [
            ([1_000, 1_000], [1_250, 1_250]),
            // One round alone was slow.
            ([1_000, 1_000], [1_100, 1_900]),
            ([1_500, 1_500], [1_400, 1_400]),
        ] {
            let results = timed_results([1_000, 1_000], again, collector);
            let found = slow_profilers(&results, InForce::default());
            assert!(found.is_empty(), "{again:?} {collector:?}: {found:?}");
        }
    }
}
