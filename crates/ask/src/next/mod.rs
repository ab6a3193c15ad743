//! A report -> the experiment that would confirm the first advice: what to run, what to change, which metric
//! has to change by how much, what would refute it, and the command that checks it. Where nothing is advised,
//! or the advice is to record more, it is the measurement that is missing.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use stage2_contract::text::numbers::{counted, percent1};
use stage2_contract::text::{code_in_text, plain, visible, wrapped};
use stage2_diff::{Again, MetricChange, MetricUnit, NoiseMethod, Run, again, compare, load};
use stage2_model::{
    Confidence, Evidence, EvidenceValue, Experiment, HostCause, HostFrame, Report, Rule, Takeaway,
};

use crate::answer::PROGRAM;

/// Name of the JSON of an experiment.
pub const SCHEMA: &str = "stage2.next";
/// Version of it: grows when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// A change that is smaller than this part of what the report expects at best refutes the advice: what is expected is
/// an upper bound.
const PART_THAT_CONFIRMS: f64 = 0.5;
/// Runs of each side that show the noise between runs.
const RUNS_A_SIDE: usize = 4;
/// Metrics for the time of a step, the best first: `diff` does not have each of them of every stage.
const TIMES: [&str; 4] = ["step_mean_ms", "host_ms", "window_ms", "kernel_ms"];
/// Words that choose how often the workload runs.
const MODES: [&str; 3] = ["--light", "--deep", "run.mode="];
/// Metrics without outliers that replace one that includes them, if the advice left outliers out; the best first.
const WITHOUT_OUTLIERS: [(&str, &[&str]); 2] =
    [("step_mean_ms", &["window_ms", "step_ms"]), ("tokens_per_s", &["token_ms"])];
/// The spread of the steps of a run with outliers.
const NOISE_WITH_OUTLIERS: &str = "two standard errors of the steps within this run, with its outliers; the noise \
                                   between runs is not known";
/// What stands in a redacted argument.
const REDACTED: &str = "[redacted]";
/// Where a report has how many warm instances of a stage were recorded.
const WARM_INSTANCES: &str = "/warm_instances";
/// Lines of code that are named.
const PLACES: usize = 3;
/// Places that take less of the idle time are left out.
const LEAST_PERCENT: f64 = 1.0;
/// What records a program of the user.
const OF_OWN: &str = "stage2-launch run --light -- COMMAND";
/// What makes the demo launch with CUDA graphs.
const GRAPH: &str = "--graph";

/// What of a run is not in its report.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunFiles<'r> {
    /// The folder that the workload was started in.
    pub directory: Option<&'r str>,
    /// The command of the workload, letter by letter; the report has it as it is shown.
    pub command: Option<&'r [String]>,
    /// The options and settings of the run, as words of its command line.
    pub settings: &'r [String],
    /// The folder of the run that the experiment writes.
    pub after: &'r str,
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Next {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What the user called the run.
    pub run: String,
    /// `change`: follow the advice, and compare; `measure`: record what is missing.
    pub kind: &'static str,
    /// The takeaway that calls for it, by its id.
    pub takeaway: String,
    /// Its rule.
    pub rule: Rule,
    /// Its stage, a name of the workload; null: the run.
    pub stage: Option<String>,
    /// What the takeaway says. It quotes names of the workload.
    pub claim: String,
    /// How sure the takeaway is.
    pub confidence: Confidence,
    /// The numbers that it rests on.
    pub evidence: Vec<Evidence>,
    /// What to change before the next run. It may quote names of the workload.
    pub change: String,
    /// Lines of the workload, or of its libraries, that the change is about; those with the most time first.
    pub places: Vec<Place>,
    /// The command of the next run, in words; empty: the command of the workload is not known.
    pub argv: Vec<String>,
    /// The folder to start it in; null: not known.
    pub directory: Option<String>,
    /// Variables that the run had, to be set for the next one.
    pub environment: BTreeMap<String, String>,
    /// The metric that has to change; null: of a measurement.
    pub metric: Option<Metric>,
    /// What the report of the next run shows; null: of a change.
    pub shows: Option<Shown>,
    /// The command that checks the outcome, in words.
    pub check: Vec<String>,
    /// What could not be found out, or has to be done by hand first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Fields with texts of the workload: data, whatever they say.
    pub workload_texts: &'static [&'static str],
}

/// A line of code.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// The function.
    pub function: String,
    /// Its file.
    pub file: String,
    /// The line, from 1; null: not known.
    pub line: Option<u32>,
    /// Share of the idle time of the stage, percent.
    pub percent: f64,
    /// JSON pointer of it in `metrics.json`.
    pub source: String,
}

/// A metric, before the change and as it is expected after it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Metric {
    /// Its name, as conditions of `diff` take it: `decode.step_ms`.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// What it is of.
    pub basis: String,
    /// Its value before.
    pub before: f64,
    /// Its value after at best, or by the estimate; null: how much the advice gains is not known.
    pub after_at_best: Option<f64>,
    /// Standard error of that, which is an estimate from samples then, and may be exceeded; null: it is a bound.
    pub after_error: Option<f64>,
    /// Values on this side of it, or equal to it, refute the advice.
    pub refuted_from: f64,
    /// `above`: values from `refuted_from` upwards refute it; `below`: from there downwards.
    pub refuted: &'static str,
    /// What a difference of two single runs has to exceed, in the unit; null: not known.
    pub noise: Option<f64>,
    /// Where the noise is from.
    pub noise_basis: String,
    /// What is expected at best is more than the noise of single runs; else only several runs per side can show it.
    pub is_beyond_noise: bool,
    /// The condition for `diff --expect`.
    pub expect: String,
}

/// What a report shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shown {
    /// JSON pointer into the `metrics.json` of the next run.
    pub pointer: String,
    /// The value there; null: any that is not null.
    pub value: Option<EvidenceValue>,
}

/// The texts of the workload in a [`Next`].
const WORKLOAD_TEXTS: &[&str] = &[
    "run",
    "takeaway",
    "stage",
    "claim",
    "evidence",
    "change",
    "places",
    "argv",
    "directory",
    "environment",
    "metric",
    "check",
];

/// The experiment of a run.
pub fn next(run: &Run<'_>, files: &RunFiles<'_>) -> Next {
    let report = run.report;
    let takeaway = first_takeaway(report);
    let experiment = takeaway.experiment.clone().unwrap_or_else(|| takeaway.rule.experiment());
    let mut notes = Vec::new();
    let change = match (&takeaway.recommendation, &experiment) {
        (Some(text), _) => text.clone(),
        (None, Experiment::Measure { shows, .. }) if shows.ends_with(WARM_INSTANCES) => {
            "Nothing has to change in the program: have it run each stage at least three times, with more requests or \
             rounds, since nothing can be advised from a first, cold call."
                .to_owned()
        }
        (None, _) => without_advice(takeaway.rule).to_owned(),
    };
    let (metric, experiment) = match experiment {
        Experiment::Change { metric, at_best_percent, error_percent, grows } => {
            let expected = Expected { metric: &metric, at_best_percent, error_percent, grows };
            let found = expected.find(run, &takeaway);
            notes.extend(found.is_none().then(|| {
                "the report has no time of the stage that diff could compare: record more calls first".to_owned()
            }));
            (found, None)
        }
        Experiment::Measure { settings, shows, value } => (None, Some((settings, shows, value))),
    };
    notes.extend(metric.iter().filter(|metric| !metric.is_beyond_noise).map(|_| {
        format!(
            "what is expected at best is within the noise of single runs: run {RUNS_A_SIDE} times before and after \
             the change, and compare with --against"
        )
    }));
    let kind = if metric.is_some() { "change" } else { "measure" };
    let no_settings = Vec::new();
    let added = experiment.as_ref().map_or(&no_settings, |(settings, ..)| settings);
    let mut argv = command(report, files, added, &mut notes);
    // Nobody can edit the demo, and of its options only graphs leave fewer gaps.
    let is_demo = argv.get(1).is_some_and(|verb| verb == "demo");
    let is_graphs = change.contains("CUDA graphs") || takeaway.rule == Rule::HostAhead;
    if is_demo && is_graphs && !argv.iter().any(|word| word == GRAPH) {
        argv.push(GRAPH.to_owned());
    }
    notes.extend(is_demo.then(|| format!("then profile your own program: {OF_OWN}")));
    // Otherwise it is that of `merge`.
    let is_own = files.command.is_none() || own_command(report, files).is_some();
    let directory = files.directory.filter(|_| !argv.is_empty() && is_own);
    if !argv.is_empty() && !is_own {
        notes.push(
            "the captures were taken elsewhere: start the command in the folder and with the variables that it had then"
                .to_owned(),
        );
    }
    let shows = match &experiment {
        Some((_, pointer, value)) => Some(Shown { pointer: pointer.clone(), value: value.clone() }),
        None if metric.is_none() => {
            Some(Shown { pointer: "/answer/stages/0/step/p50_ns".to_owned(), value: None })
        }
        None => None,
    };
    let check = match &metric {
        Some(metric) => words(&["diff", run.label, files.after, "--expect", &metric.expect]),
        None => words(&["ask", files.after, "caveats"]),
    };
    Next {
        schema: SCHEMA,
        schema_version: SCHEMA_VERSION,
        run: visible(run.label.as_bytes()),
        kind,
        places: places(report, &takeaway),
        takeaway: takeaway.id,
        rule: takeaway.rule,
        stage: takeaway.stage,
        claim: takeaway.text,
        confidence: takeaway.confidence,
        evidence: takeaway.evidence,
        change,
        argv,
        directory: directory.map(|folder| visible(folder.as_bytes())),
        environment: environment(report),
        metric,
        shows,
        check,
        notes,
        workload_texts: WORKLOAD_TEXTS,
    }
}

/// The takeaway that the answer puts first; else the first with advice; else one that says that nothing is known.
fn first_takeaway(report: &Report) -> Takeaway {
    let all = &report.insight.takeaways;
    let first = report.answer.first.as_ref();
    let is_first = |takeaway: &&Takeaway| {
        first.is_some_and(|step| match &step.takeaway {
            Some(id) => *id == takeaway.id,
            // A report of a version without ids.
            None => step.rule == takeaway.rule && step.stage == takeaway.stage,
        })
    };
    let advised = |takeaway: &&Takeaway| takeaway.recommendation.is_some();
    let found = all.iter().find(is_first).or_else(|| all.iter().find(advised)).or(all.first());
    let mut takeaway = found.cloned().unwrap_or_default();
    if found.is_none() {
        takeaway.text = "The report has no takeaway that could be confirmed.".to_owned();
    }
    if takeaway.id.is_empty() {
        let stage = takeaway.stage.iter().map(|stage| format!(":{stage}"));
        takeaway.id = std::iter::once(takeaway.rule.label().to_owned()).chain(stage).collect();
    }
    takeaway
}

/// What to do where a rule gives no advice: record what would lead to some.
fn without_advice(rule: Rule) -> &'static str {
    match rule {
        Rule::Simulated => {
            "Run the workload on a GPU: times of the simulated one are those of a recording."
        }
        Rule::Incomplete => "Follow the findings on coverage and run again.",
        Rule::GpuIdle | Rule::DominantStage | Rule::HostGaps => {
            "Nothing has to change: record what the host does while the GPU is idle, in at least three warm \
             calls."
        }
        Rule::Nothing => "Mark the stages with NVTX ranges, for instance prefill and decode.",
        _ => {
            "Nothing has to change: record the counters of the kernels, which show what limits them."
        }
    }
}

/// What an experiment expects of a metric.
struct Expected<'e> {
    metric: &'e str,
    at_best_percent: Option<f64>,
    error_percent: Option<f64>,
    grows: bool,
}

impl Expected<'_> {
    /// The metric as `diff` has it of the run; none where it has none of the stage.
    fn find(&self, run: &Run<'_>, takeaway: &Takeaway) -> Option<Metric> {
        // A run against itself gives the value, and the noise as diff will judge it.
        let compared = compare(&[*run], &[*run], &[], false).ok()?;
        let stage_name = takeaway.stage.as_deref()?;
        let stage = compared.stages.iter().find(|change| change.stage == stage_name)?;
        let known = |name: &str| {
            stage.metrics.iter().find(|found| found.metric == name && found.before.is_some())
        };
        let row = run.report.stages.iter().find(|row| row.stage == stage_name);
        let outliers = row.and_then(|row| row.outliers.as_ref()).filter(|of| of.left_out);
        let others = WITHOUT_OUTLIERS.iter().find(|(name, _)| *name == self.metric);
        let others = others.filter(|_| outliers.is_some()).map_or(&[][..], |(_, others)| *others);
        let other = others.iter().find_map(|name| known(name));
        let (change, grows) = match other.or(known(self.metric)) {
            Some(change) => (change, self.grows && change.metric == self.metric),
            None => (TIMES.iter().find_map(|name| known(name))?, false),
        };
        let at_best_percent = match change.metric.as_str() {
            // So many more per second take so much less time each.
            "token_ms" if other.is_some() => {
                self.at_best_percent.map(|more| -100.0 * more / (100.0 + more))
            }
            _ => self.at_best_percent.filter(|_| grows == self.grows),
        };
        let of = match (change.metric.as_str(), &stage.step, outliers) {
            ("window_ms", _, Some(outliers)) if other.is_some() => {
                let count = counted(outliers.count, "outlier");
                format!("per {} (mean GPU window, without {count})", stage.per.word())
            }
            ("token_ms", ..) => "per token (median)".to_owned(),
            (name, Some(step), _) if name.starts_with("step_") => {
                let median = if name == "step_ms" { " (median)" } else { "" };
                format!("per {step}{median}")
            }
            _ => format!("{}: {}", stage.per.word(), stage.per_text),
        };
        let mut found = metric(change, at_best_percent, grows, stage_name, of)?;
        if outliers.is_some() && change.noise.method == NoiseMethod::Instances {
            found.noise_basis = NOISE_WITH_OUTLIERS.to_owned();
        }
        let error = self.error_percent.filter(|_| at_best_percent.is_some());
        Some(Metric { after_error: error.map(|error| found.before * error / 100.0), ..found })
    }
}

/// The metric, and where its change would refute the advice: at half of what is expected at best, and in any case
/// within the noise.
fn metric(
    change: &MetricChange,
    at_best_percent: Option<f64>,
    grows: bool,
    stage: &str,
    basis: String,
) -> Option<Metric> {
    let before = change.before.filter(|before| *before > 0.0)?;
    let noise = change.noise.threshold;
    let noise_percent = noise.map_or(0.0, |noise| noise * 100.0 / before);
    let wanted = at_best_percent.map_or(0.0, |percent| percent.abs() * PART_THAT_CONFIRMS);
    let is_beyond_noise = at_best_percent.is_none_or(|percent| percent.abs() > noise_percent);
    let limit = if is_beyond_noise { wanted.max(noise_percent) } else { wanted };
    // Rounded upwards; a fall is of less than all.
    let most = if grows { f64::INFINITY } else { 99.0 };
    let limit = ((limit * 10.0).ceil() / 10.0).clamp(0.1, most);
    let sign = if grows { 1.0 } else { -1.0 };
    let name = condition_name(stage, &change.metric);
    let operator = if grows { ">+" } else { "<-" };
    Some(Metric {
        expect: format!("{name}{operator}{}%", percent1(limit)),
        name,
        unit: unit(change.unit),
        basis,
        before,
        after_at_best: at_best_percent.map(|percent| before * (1.0 + percent / 100.0)),
        after_error: None,
        refuted_from: before * (1.0 + sign * limit / 100.0),
        refuted: if grows { "below" } else { "above" },
        noise,
        noise_basis: noise_basis(change.noise.method).to_owned(),
        is_beyond_noise,
    })
}

/// A metric of a stage in a condition: a stage that is called as the run is has a word in front.
fn condition_name(stage: &str, metric: &str) -> String {
    let is_taken = stage == "run" || stage.starts_with("stage:");
    format!("{}{stage}.{metric}", if is_taken { "stage:" } else { "" })
}

fn unit(unit: MetricUnit) -> &'static str {
    match unit {
        MetricUnit::Ms => "ms",
        MetricUnit::Percent => "percent",
        MetricUnit::Count => "count",
        MetricUnit::PerSecond => "per_second",
        MetricUnit::Joule => "J",
        MetricUnit::Watt => "W",
        MetricUnit::Mhz => "MHz",
    }
}

fn noise_basis(method: NoiseMethod) -> &'static str {
    match method {
        NoiseMethod::Instances => {
            "two standard errors of the steps within this run; the noise between runs is not known"
        }
        NoiseMethod::Exact => "the count repeats exactly",
        NoiseMethod::OneRunEach => "not known from one run",
        _ => "5 % of the value; the noise between runs is not known",
    }
}

/// The command of the workload, letter by letter, if it is the one that the report shows: that of merged captures is of
/// the process that was recorded.
fn own_command<'f>(report: &Report, files: &RunFiles<'f>) -> Option<&'f [String]> {
    let shown = report.run.command.as_deref()?;
    files.command.filter(|exact| {
        exact.len() == shown.len()
            && exact.iter().zip(shown).all(|(exact, shown)| visible(exact.as_bytes()) == *shown)
    })
}

/// The command of the next run; empty where that of the workload is not known.
fn command(
    report: &Report,
    files: &RunFiles<'_>,
    added: &[String],
    notes: &mut Vec<String>,
) -> Vec<String> {
    let shown = report.run.command.as_deref().unwrap_or_default();
    let workload = own_command(report, files).unwrap_or(shown);
    let Some(Again { verb, mode, workload }) = again(report, workload) else {
        notes.push(
            "the command of the workload is not known: the captures were taken elsewhere. Start the workload as \
             it was started then, under stage2-launch run"
                .to_owned(),
        );
        return Vec::new();
    };
    let mut argv = words(&[verb]);
    let settings = files.settings.iter();
    let has_mode = settings.clone().any(|word| MODES.iter().any(|mode| word.starts_with(mode)));
    argv.extend(mode.filter(|_| !has_mode).map(str::to_owned));
    let is_new = |word: &&String| {
        let key = word.split_once('=').map(|(key, _)| key);
        !added.iter().any(|other| key.is_some() && key == other.split_once('=').map(|(key, _)| key))
    };
    argv.extend(settings.filter(is_new).map(|word| visible(word.as_bytes())));
    argv.extend(["--run-dir".to_owned(), visible(files.after.as_bytes())]);
    argv.extend(added.iter().cloned());
    argv.push("--".to_owned());
    argv.extend(workload);
    notes.extend(load(report).map(str::to_owned));
    if argv.iter().any(|word| word.contains(REDACTED)) {
        notes.push(format!("some arguments were redacted: put them back where {REDACTED} stands"));
    }
    argv
}

fn environment(report: &Report) -> BTreeMap<String, String> {
    let facts = report.run.environment.iter();
    let variable = |fact: &stage2_model::Fact| {
        Some((fact.key.strip_prefix("variables.")?.to_owned(), fact.value.clone()))
    };
    facts.filter_map(variable).collect()
}

/// The lines that the evidence points to; of advice about the idle time as a whole, those of its largest causes.
fn places(report: &Report, takeaway: &Takeaway) -> Vec<Place> {
    let mut found = Vec::new();
    let Some(host) = &report.host else { return found };
    let place = |frame: &HostFrame, percent: f64, source: String| Place {
        function: frame.function.clone(),
        file: frame.file.clone(),
        line: Some(frame.line).filter(|line| *line > 0),
        percent,
        source,
    };
    let of_stage = |stage: &str| Some(stage) == takeaway.stage.as_deref();
    for (at, stage) in host.stages.iter().enumerate().filter(|(_, row)| of_stage(&row.stage)) {
        let is_named = |source: &str| {
            takeaway.evidence.iter().any(|seen| seen.source.starts_with(&format!("{source}/")))
        };
        let is_general = |cause: &HostCause| match takeaway.rule {
            Rule::HostGaps | Rule::LaunchBound => cause.is_finding(),
            _ => false,
        };
        let causes = stage.causes.iter().enumerate();
        found.extend(causes.filter_map(|(row, cause)| {
            let source = format!("/host/stages/{at}/causes/{row}");
            let is_it = is_named(&source) || is_general(cause);
            Some(place(cause.frame.as_ref().filter(|_| is_it)?, cause.percent, source))
        }));
        let faults = stage.advice.iter().enumerate();
        found.extend(faults.filter_map(|(row, fault)| {
            let source = format!("/host/stages/{at}/advice/{row}");
            let is_it = is_named(&source);
            Some(place(fault.frame.as_ref().filter(|_| is_it)?, fault.percent, source))
        }));
    }
    found.retain(|place| place.percent >= LEAST_PERCENT);
    found.truncate(PLACES);
    found
}

fn words(rest: &[&str]) -> Vec<String> {
    let words = std::iter::once(PROGRAM).chain(rest.iter().copied());
    words.map(|word| visible(word.as_bytes())).collect()
}

impl Next {
    /// As one line of JSON, in which characters that act on a terminal are escaped.
    pub fn to_json(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        shorten_numbers(&mut value);
        let mut out = String::new();
        for c in value.to_string().chars() {
            match visible_char(c) {
                true => out.push(c),
                false => c
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
            }
        }
        out
    }

    /// As Markdown.
    pub fn to_markdown(&self) -> String {
        let rows = self.rows(Form::Markdown).into_iter();
        // A report from elsewhere may hold anything.
        let line = |(label, row): (&str, Row<'_>)| match row {
            Row::Text(text) => format!("- **{label}:** {}\n", visible(text.as_bytes())),
            Row::Command(words) => format!("- **{label}:** {}\n", code_in_text(&shell(words))),
        };
        rows.map(line).collect()
    }

    /// For a terminal of a width: labels in one column, texts in another one. Lines of a command end as a shell expects
    /// it, and never within a word.
    pub fn to_text(&self, width: usize) -> String {
        let rows = self.rows(Form::Terminal);
        let label_width = rows.iter().map(|(label, _)| label.len() + 2).max().unwrap_or(0);
        let room = width.saturating_sub(label_width).max(NARROWEST);
        let mut out = String::new();
        for (label, row) in rows {
            let lines = match row {
                Row::Text(text) => wrapped(&visible(text.as_bytes()), room),
                Row::Command(words) => command_lines(words, room),
            };
            let mut label = format!("{label}:");
            for line in lines {
                out.push_str(&format!("{label:label_width$}{line}\n"));
                label.clear();
            }
        }
        out
    }

    fn rows(&self, form: Form) -> Vec<(&'static str, Row<'_>)> {
        let mut rows: Vec<(&'static str, Row<'_>)> = Vec::new();
        let mut line = |label, text: String| rows.push((label, Row::Text(text)));
        let code = |text: &str| form.code(text);
        let claim = self.quoting(&self.claim, form);
        line(
            "claim",
            format!("{claim} ({}, confidence {})", code(&self.takeaway), self.confidence),
        );
        line("change", self.quoting(&self.change, form));
        for place in &self.places {
            let at = place.line.map_or_else(String::new, |line| format!(":{line}"));
            let text = code(&format!("{} ({}{at})", place.function, place.file));
            line("place", format!("{text}, {} % of the idle time", percent1(place.percent)));
        }
        if !self.argv.is_empty() {
            rows.push(("run", Row::Command(&self.argv)));
        }
        let mut line = |label, text: String| rows.push((label, Row::Text(text)));
        if let Some(folder) = &self.directory {
            line("directory", code(folder));
        }
        for (name, value) in &self.environment {
            line("environment", code(&format!("{name}={value}")));
        }
        if let Some(metric) = &self.metric {
            let unit = metric.unit.replace('_', " ");
            let Metric { before, refuted_from, refuted, noise_basis, basis, .. } = metric;
            let best = metric.after_at_best.map(|after| {
                let after = number(after);
                let decimals = after.split_once('.').map_or(0, |(_, digits)| digits.len());
                let error = metric.after_error.map(|error| format!(" ± {error:.decimals$}"));
                format!(", at best {after}{} {unit} after", error.unwrap_or_default())
            });
            let of = match basis.starts_with("per ") {
                true => form.plain(basis),
                false => format!("({})", form.plain(basis)),
            };
            line(
                "metric",
                format!(
                    "{} is {} {unit} {of}{}; {} {unit} or {refuted} refutes the claim",
                    code(&metric.name),
                    number(*before),
                    best.unwrap_or_default(),
                    number(*refuted_from),
                ),
            );
            let noise = metric
                .noise
                .map_or_else(String::new, |noise| format!("{} {unit}: ", number(noise)));
            let against = code("--against");
            line(
                "noise",
                format!("{noise}{noise_basis}; {RUNS_A_SIDE} runs per side ({against}) show it"),
            );
        }
        if let Some(shown) = &self.shows {
            let value = match &shown.value {
                None => "has a value".to_owned(),
                Some(EvidenceValue::Number(value)) => format!("is {}", number(*value)),
                Some(EvidenceValue::Flag(flag)) => format!("is {flag}"),
                Some(EvidenceValue::State(state)) => format!("is {}", code(state)),
            };
            line("shows", format!("{} of its metrics.json {value}", code(&shown.pointer)));
        }
        rows.push(("check", Row::Command(&self.check)));
        rows.extend(self.notes.iter().map(|note| ("note", Row::Text(form.plain(note)))));
        rows
    }

    /// A sentence of ours in which the name of the stage, which is one of the workload, is marked as such.
    fn quoting(&self, text: &str, form: Form) -> String {
        let Some(stage) = self.stage.as_deref().filter(|stage| !stage.is_empty()) else {
            return form.plain(text);
        };
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(stage) {
            let is_within_word =
                before.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
            out.push_str(&form.plain(before));
            out.push_str(&if is_within_word { form.plain(stage) } else { form.code(stage) });
            rest = after;
        }
        out + &form.plain(rest)
    }
}

/// What an experiment is written for.
#[derive(Clone, Copy)]
enum Form {
    Markdown,
    Terminal,
}

impl Form {
    fn code(self, text: &str) -> String {
        match self {
            Self::Markdown => code_in_text(text),
            Self::Terminal => text.to_owned(),
        }
    }

    fn plain(self, text: &str) -> String {
        match self {
            Self::Markdown => plain(text),
            Self::Terminal => text.to_owned(),
        }
    }
}

enum Row<'n> {
    Text(String),
    Command(&'n [String]),
}

/// Columns that a text has at least, however narrow the terminal is.
pub(crate) const NARROWEST: usize = 20;

/// The words of a command in lines of a width, which a shell reads as one. A longer word has a line of its own.
pub fn command_lines(words: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.iter().map(|word| shell_word(word)) {
        match lines.last_mut() {
            // Room for ` \` at the end.
            Some(line) if line.chars().count() + word.chars().count() + 3 <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            Some(line) => {
                line.push_str(" \\");
                lines.push(word);
            }
            None => lines.push(word),
        }
    }
    lines
}

/// Words as bash reads them.
pub(crate) fn shell(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if word.chars().all(visible_char) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let escaped = word.chars().map(|c| match c {
        '\\' | '\'' => format!("\\{c}"),
        c if visible_char(c) => c.to_string(),
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        c => c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
    });
    format!("$'{}'", escaped.collect::<String>())
}

/// Whether a terminal shows the character, and does nothing else.
fn visible_char(c: char) -> bool {
    let mut bytes = [0; 4];
    let text = c.encode_utf8(&mut bytes);
    visible(text.as_bytes()) == *text
}

/// Four significant digits.
fn number(value: f64) -> String {
    rounded(value).to_string()
}

fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() || value.fract() == 0.0 {
        return value;
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 12);
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

fn shorten_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(shorten_numbers),
        Value::Object(fields) => fields.values_mut().for_each(shorten_numbers),
        Value::Number(found) => {
            if let Some(number) = found.as_f64() {
                let short = rounded(number);
                *value = match short.fract() == 0.0 && short.abs() < 9e15 {
                    true => Value::from(short as i64),
                    false => Value::from(short),
                };
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
