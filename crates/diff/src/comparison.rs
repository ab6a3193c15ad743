//! What a comparison says: the types of the JSON that `diff --json` writes.
//!
//! Texts are visible text (see [`stage2_contract::text`]), not escaped for a format. Absent is null, never zero.

use serde::{Deserialize, Serialize};
use stage2_contract::text::numbers::{ABSENT, grouped, shown_time};
use stage2_model::{AnswerLine, Apart, Severity, Status};

use crate::judged::{GONE, NOT_COMPARABLE, Noise, NoiseMethod, NoiseText, Verdict, ends_text};
use crate::metric::{class_of_metric, label, why_absent};
use crate::noise::{ALPHA, smallest_p};

/// Name of the model.
pub const SCHEMA: &str = "stage2.diff";
/// Version of the model: grows when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// All comparisons of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diff {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version that wrote it.
    pub generator: String,
    /// The comparisons, in the order of the command line.
    pub comparisons: Vec<Comparison>,
    /// Of three sides or more: the one that is fastest beyond noise; null: none is known to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fastest: Option<Fastest>,
}

/// The fastest of several sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fastest {
    /// The stage whose time decides: the first one.
    pub stage: String,
    /// The runs of the side, as the user called them.
    pub runs: Vec<String>,
    /// How many times faster than the first side the stage is; null: it is the first side.
    pub times_faster: Option<f64>,
}

impl Diff {
    /// These comparisons.
    pub fn of(comparisons: Vec<Comparison>, generator: String) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            generator,
            comparisons,
            fastest: None,
        }
    }
}

/// One side against another. Every change is the value after minus the value before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The runs before the change.
    pub before: Vec<ComparedRun>,
    /// The runs after it.
    pub after: Vec<ComparedRun>,
    /// Why the sides do not compare, whatever their numbers are; empty: they do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlike: Vec<String>,
    /// Whether anything changed beyond noise, and by how much, in one sentence.
    #[serde(default)]
    pub verdict: String,
    /// Seven lines, always in this order: time, window, kernels, libraries, comparable, noise, next.
    pub lines: Vec<AnswerLine>,
    /// What differs besides the numbers; warnings first.
    pub differences: Vec<Difference>,
    /// Libraries with another version, then those with the most kernels that are new, vanished or renamed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<LibraryChange>,
    /// Metrics of the whole run.
    pub run: Vec<MetricChange>,
    /// Stages; those of the model first, the largest change of GPU work or step time first.
    pub stages: Vec<StageChange>,
    /// What became of the conditions, in the order given.
    pub conditions: Vec<ConditionResult>,
}

impl Comparison {
    /// That the sides do not compare, in one sentence; nothing where they do.
    pub fn caution(&self) -> Option<String> {
        (!self.unlike.is_empty()).then(|| format!("Not comparable: {}.", self.unlike.join(", ")))
    }

    /// Stages of the model; without any, whatever there is.
    pub fn of_model(&self) -> Vec<&StageChange> {
        let has_model = self.stages.iter().any(|stage| stage.apart.is_none());
        self.stages.iter().filter(|stage| stage.apart.is_none() || !has_model).collect()
    }

    /// Judges nothing, because the sides are not comparable.
    pub(crate) fn leave_open(&mut self) {
        let of_stages = self.stages.iter_mut().flat_map(|stage| {
            let metrics = stage.metrics.iter_mut().chain(&mut stage.host);
            let metrics = metrics.map(|metric| (&mut metric.verdict, &mut metric.noise));
            metrics.chain(stage.work.iter_mut().map(|row| (&mut row.verdict, &mut row.noise)))
        });
        let of_run = self.run.iter_mut().map(|metric| (&mut metric.verdict, &mut metric.noise));
        for (verdict, noise) in of_stages.chain(of_run) {
            noise.unlike = true;
            if verdict.is_change() {
                *verdict = Verdict::None;
            }
        }
        self.libraries.iter_mut().for_each(|library| library.changed = 0);
    }

    /// One run per side: nothing shows how much runs of the same code differ.
    pub fn is_of_two_runs(&self) -> bool {
        self.before.len() == 1 && self.after.len() == 1
    }

    /// The run that is far from the others of its side, without its folders.
    pub fn outlier(&self) -> Option<String> {
        crate::lines::outlier(self).map(|(run, _)| run)
    }

    /// The GPU of every run is simulated.
    pub fn is_simulated(&self) -> bool {
        self.before.iter().chain(&self.after).all(|run| run.simulated)
    }

    /// A side is a single run: nothing shows how much its runs differ.
    pub(crate) fn has_single_run(&self) -> bool {
        self.before.len().min(self.after.len()) == 1
    }

    /// Whether no test can tell a change from noise: runs of the same code may lie as far apart.
    pub fn has_too_few_runs(&self) -> bool {
        smallest_p(self.before.len(), self.after.len()) > ALPHA
    }

    /// Whether a number of the run or of these stages got worse beyond noise.
    pub fn any_worse(&self) -> bool {
        let comparable = self.of_model().into_iter().filter(|stage| stage.other_work.is_none());
        let of_stages = comparable.into_iter().any(|stage| {
            let longer = stage.work.iter().any(|row| row.verdict == Verdict::Increased);
            longer || stage.metrics.iter().chain(&stage.host).any(MetricChange::is_worse)
        });
        self.unlike.is_empty() && (of_stages || self.run.iter().any(MetricChange::is_worse))
    }
}

/// A run that takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedRun {
    /// What the user called it.
    pub label: String,
    /// Its name in its report.
    pub name: String,
    /// When it started: `2026-11-22 10:15 UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// Its GPUs: `2x NVIDIA H200`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// The command that it profiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its coverage.
    pub coverage: Status,
    /// Its GPU was simulated.
    pub simulated: bool,
    /// Parts of its report that could not be read.
    pub left_out: Vec<String>,
}

/// Something that differs between the sides, or within one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// A warning where numbers differ for that reason alone.
    pub severity: Severity,
    /// What differs.
    pub what: String,
    /// Before; several values where the runs of the side differ.
    pub before: String,
    /// After.
    pub after: String,
    /// What it means for the comparison.
    pub meaning: String,
}

/// A library, and what became of its kernels in the stages of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LibraryChange {
    /// Its name, for instance `cuBLAS`; empty: kernels that are of no known library.
    pub library: String,
    /// Version before; several where the runs of the side differ; null: not known, or not installed.
    pub before: Option<String>,
    /// Version after; several or null as before.
    pub after: Option<String>,
    /// Kernel names after only.
    pub new: u64,
    /// Kernel names before only.
    pub vanished: u64,
    /// Kernels that were found again under another name.
    pub renamed: u64,
    /// Kernels on both sides whose time changed beyond noise.
    pub changed: u64,
}

impl LibraryChange {
    /// Whether the versions differ. One side may have none: it is not installed there, or not known.
    pub fn is_other_version(&self) -> bool {
        self.before != self.after
    }
}

/// What the numbers of a stage are per.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Per {
    /// A step: an instance of a range within the stage, or a repeating sequence of kernels.
    Step,
    /// An instance of the stage.
    Instance,
    /// A token of one sequence.
    Token,
    /// The whole run.
    Run,
}

impl Per {
    /// In a word, to be read after "per".
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Whether something is on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// On both.
    Both,
    /// After only.
    New,
    /// Before only.
    Vanished,
}

/// A stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageChange {
    /// Its name: that of the outermost range.
    pub stage: String,
    /// Why it is not a stage of the model; null where it may be one.
    pub apart: Option<Apart>,
    /// Which side has it.
    pub presence: Presence,
    /// Why its numbers do not compare: its steps do different amounts of work, or the sides give times of unlike things;
    /// null: they compare, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_work: Option<String>,
    /// What the GPU work, and the metrics that say so, are per.
    pub per: Per,
    /// What the GPU work and its metrics are per, in words, with the reason for it.
    pub per_text: String,
    /// What a step is whose times are compared (`call`, `step`, `inferred step`); null: none are.
    #[serde(default)]
    pub step: Option<String>,
    /// Its times as each side has them, where one side times steps of an engine, which last until the next one begins, and
    /// the other something else: then no number per step or call is compared; null: both sides time the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_times: Option<[OwnTime; 2]>,
    /// Its metrics.
    pub metrics: Vec<MetricChange>,
    /// Its idle time by what the host did, ms per [`StageChange::per`], the largest change first; named by the
    /// cause. Empty: a run was not sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<MetricChange>,
    /// Why causes of idle time are not compared although some runs have them: in a few words, and behind a colon in full;
    /// null: no run has them, or all have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_absent: Option<String>,
    /// Half of the reports of a side, or more, found the host ahead of the GPU: then the causes are what the host did
    /// meanwhile, and the idle time has launch gaps as a part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_ahead: bool,
    /// A call holds another number of tokens or steps on each side, so that the time of a whole call does not compare.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_calls: bool,
    /// GPU work in it, the largest change first. Its changes add up to that of `work_total`.
    pub work: Vec<WorkChange>,
    /// Sum of the durations of all GPU work of the stage.
    pub work_total: WorkTotal,
}

impl StageChange {
    /// [`Self::per`] in a word: an instance of a stage is a step of an engine, or else a call.
    pub fn per_word(&self) -> &'static str {
        match (self.per, self.step.as_deref()) {
            (Per::Instance, Some("step")) => "step",
            (Per::Instance, _) => "call",
            (per, _) => per.word(),
        }
    }

    /// What a number of it is of, as it stands behind the number: ` per step`. Shares, rates and states are of nothing.
    pub fn per_of(&self, metric: &str) -> String {
        let unit = match metric {
            "token_ms" => "token",
            "host_ms" => "call",
            "window_ms" | "gpu_busy_ms" | "idle_ms" | "launch_gaps_ms" | "other_work_ms"
            | "kernels" | "kernel_ms" | "energy_j" => self.per_word(),
            name if name.starts_with("step_") => self.step.as_deref().unwrap_or("step"),
            name if class_of_metric(name).is_some() => self.per_word(),
            _ => return String::new(),
        };
        format!(" per {unit}")
    }

    /// The times of a stage that gives times of unlike things: `3.321 ms per step → 12.442 ms per token`.
    pub fn own_text(&self) -> Option<String> {
        let sides = self.own_times.as_ref()?;
        Some(sides.each_ref().map(OwnTime::text).join(" → "))
    }

    /// Whether its time per token is that of whole calls, of several tokens each, divided by them.
    pub fn has_tokens_of_calls(&self) -> bool {
        let before = |name| self.metric(name).and_then(|metric| metric.before);
        self.step.as_deref() == Some("call") && before("token_ms") != before("step_ms")
    }

    /// Whether a time may stand for the stage: that of a token only where its parts are per token, too.
    pub fn has_time(&self, metric: &str) -> bool {
        metric != "token_ms" || self.per == Per::Token
    }

    /// What a change of a metric of it comes to: never more than the verdict says of the stage.
    pub fn word(&self, metric: &MetricChange) -> &'static str {
        let is_other = metric.change.is_some_and(|change| change != 0.0);
        let is_of_steps = STEP_TIMES.contains(&metric.metric.as_str());
        match metric.verdict.is_change() {
            _ if (self.other_work.is_some() || self.is_of_other_steps(metric)) && is_other => {
                NOT_COMPARABLE
            }
            true if is_of_steps && self.opposed().is_some() => metric.direction(),
            true if metric.reads_zero(metric.before) => "new",
            true if metric.reads_zero(metric.after) => GONE,
            true if self.is_minor(metric) => match metric.word() {
                "better" => "better (minor)",
                "worse" => "worse (minor)",
                word => word,
            },
            _ => metric.word(),
        }
    }

    /// Whether a part of the mean step changed by little of what that did.
    fn is_minor(&self, metric: &MetricChange) -> bool {
        let is_part = metric.unit == MetricUnit::Ms && !metric.metric.starts_with("step_");
        let whole_ms = self.metric("window_ms").and_then(|window| window.change).unwrap_or(0.0);
        is_part && metric.change.is_some_and(|ms| ms.abs() < MINOR * whole_ms.abs())
    }

    /// What became of work in it.
    pub(crate) fn word_of_work(&self, row: &WorkChange) -> &'static str {
        let is_unlike = self.other_work.is_some() && row.change_ns != 0.0;
        if is_unlike && row.presence() == Presence::Both { NOT_COMPARABLE } else { row.word() }
    }

    /// Takes back the verdicts on what does not compare: programs may read nothing else.
    pub(crate) fn withdraw(&mut self) {
        let metrics = self.metrics.iter_mut().chain(&mut self.host);
        let others = metrics.filter(|metric| metric.word == NOT_COMPARABLE);
        others.for_each(|metric| metric.verdict = Verdict::None);
        let work = self.work.iter_mut().filter(|_| self.other_work.is_some());
        work.for_each(|row| row.verdict = Verdict::None);
    }

    /// Changes of the median and of the mean step, percent, if they have opposite signs.
    pub fn opposed(&self) -> Option<[f64; 2]> {
        let percent = |name| self.metric(name)?.change_percent;
        let [median, mean] = [percent("step_ms")?, percent("step_mean_ms")?];
        (!self.has_other_steps() && median * mean < 0.0).then_some([median, mean])
    }

    /// Whether a step holds another number of tokens on each side: then a token changed by something else than a step.
    pub(crate) fn has_other_steps(&self) -> bool {
        let percent = |name| self.metric(name)?.change_percent;
        let is_like = |(step, token): (f64, f64)| (token - step).abs() < 1e-6;
        self.per == Per::Token && !percent("step_ms").zip(percent("token_ms")).is_some_and(is_like)
    }

    /// Whether it is the time of a whole step or call, which does other work on each side.
    pub fn is_of_other_steps(&self, metric: &MetricChange) -> bool {
        let is_of_call = self.other_calls && metric.metric == OF_A_CALL;
        is_of_call || OF_A_STEP.contains(&metric.metric.as_str()) && self.has_other_steps()
    }

    /// Whether a side is busy for longer than its GPU work takes: then the two are not of the same calls, because the busy
    /// time leaves outliers out. Work that overlaps only makes it shorter.
    pub fn has_other_busy(&self) -> bool {
        let Some(busy) = self.metric("gpu_busy_ms") else { return false };
        let sides =
            [(busy.before, self.work_total.before_ns), (busy.after, self.work_total.after_ns)];
        let is_longer = |(ms, work_ns): (Option<f64>, Option<f64>)| {
            ms.zip(work_ns).is_some_and(|(ms, work)| ms * 1e6 > work * LONGER)
        };
        sides.into_iter().any(is_longer)
    }

    /// A metric of it by its name.
    pub fn metric(&self, name: &str) -> Option<&MetricChange> {
        self.metrics.iter().find(|metric| metric.metric == name)
    }
}

/// From so many times on, a time is longer than another one, whatever the rounding of both.
const LONGER: f64 = 1.0001;

/// A time of a stage as the reports of one side give it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnTime {
    /// Median, ms; null: not known, or the runs of the side do not give times of one thing.
    pub ms: Option<f64>,
    /// What it is of: `token`, `step`, `call`.
    pub per: String,
}

impl OwnTime {
    /// `3.321 ms per step`.
    pub fn text(&self) -> String {
        let ms = self.ms.map_or(ABSENT.to_owned(), |ms| MetricUnit::Ms.shown(ms));
        format!("{ms} ms per {}", self.per)
    }
}

/// Share of what the mean step changed by below which better or worse parts of it say little of the whole.
const MINOR: f64 = 0.02;

/// Times of a whole step, and of a whole call.
const OF_A_STEP: [&str; 4] = ["step_ms", "step_mean_ms", "step_p99_ms", OF_A_CALL];
const OF_A_CALL: &str = "host_ms";
/// Times of the median and the mean step.
const STEP_TIMES: [&str; 3] = ["step_ms", "step_mean_ms", "token_ms"];

/// Sums over all GPU work of a stage, ns per [`StageChange::per`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkTotal {
    /// Before; null: the stage is not there, or the number of its instances is not known.
    pub before_ns: Option<f64>,
    /// After.
    pub after_ns: Option<f64>,
    /// The change; what one side lacks counts as no work.
    pub change_ns: f64,
}

/// A number on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricChange {
    /// Name of the metric, as in a condition.
    pub metric: String,
    /// Unit of the values.
    pub unit: MetricUnit,
    /// Which way is better.
    pub better: Better,
    /// Median over the runs before, or the mean for parts of the mean step (window, busy and idle times, their causes,
    /// and times of kernels); null: no run has it.
    pub before: Option<f64>,
    /// Median over the runs after the change, or the mean, as [`MetricChange::before`] is; null: no run has it.
    pub after: Option<f64>,
    /// The value after minus the one before, in the unit.
    pub change: Option<f64>,
    /// Percent of the value before, also of a share; null: that is zero or not known.
    pub change_percent: Option<f64>,
    /// Whether the value changed beyond noise.
    pub verdict: Verdict,
    /// The verdict in the words of the pages, such as `within noise`, `inconclusive`, `better` or `not comparable`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub word: String,
    /// What it was compared with.
    pub noise: Noise,
    /// Changes that several runs allow, in the unit: a change beyond noise is one where 0 is not among them, and it is
    /// larger than the threshold of the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Values of the runs before, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before_runs: Vec<f64>,
    /// Values of the runs after the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_runs: Vec<f64>,
}

impl MetricChange {
    /// The change in percent of the value before; nothing for a share, whose change is in percentage points, and of next to
    /// nothing.
    pub fn relative_percent(&self) -> Option<f64> {
        let is_share = self.unit == MetricUnit::Percent;
        self.change_percent.filter(|_| !is_share && !self.reads_zero(self.before))
    }

    /// Whether it is a time that reads 0.000 ms.
    fn reads_zero(&self, value: Option<f64>) -> bool {
        self.unit == MetricUnit::Ms && value.is_some_and(|ms| ms.abs() < 0.0005)
    }

    /// What decided on the change, in the unit of its percentage; nothing where it is inconclusive, exact, or has no
    /// percentage.
    pub fn noise_text(&self) -> Option<NoiseText> {
        if let Some(ends) = self.interval.filter(|_| self.reads_zero(self.before)) {
            return Some(NoiseText::Interval(ends_text(ends, 3), " ms"));
        }
        let is_share = self.unit == MetricUnit::Percent;
        let (scale, unit, digits) = match self.before.filter(|before| *before != 0.0) {
            _ if is_share => (1.0, " points", self.digits()),
            before => (100.0 / before?.abs(), " %", 1),
        };
        let least = self.noise.threshold? * scale;
        let Some(ends) = self.interval else {
            let is_known =
                matches!(self.noise.method, NoiseMethod::FivePercent | NoiseMethod::Instances);
            return is_known.then(|| match self.noise.exceeds_value && !is_share {
                true => NoiseText::ExceedsValue,
                false => NoiseText::Within(format!("{least:.digits$}{unit}")),
            });
        };
        if self.noise.single.is_some() && self.noise.exceeds_value && !is_share {
            return Some(NoiseText::ExceedsValue);
        }
        // What reads 0.0 does so throughout.
        let scale = if self.word() == "equal" { 0.0 } else { scale };
        Some(NoiseText::Interval(ends_text(ends.map(|end| end * scale), digits), unit))
    }

    /// Digits behind the point of its values and of their difference. All have the same, as many as the smallest value
    /// needs, and enough to show that it changed.
    pub fn digits(&self) -> usize {
        if self.metric == DURATION {
            return 0;
        }
        let values = [self.before, self.after].into_iter().flatten();
        let least = values.map(|value| self.unit.digits(value)).max().unwrap_or_default();
        let shows = |digits: &usize| {
            self.change
                .is_none_or(|change| change == 0.0 || !is_nothing(&format!("{change:.*}", *digits)))
        };
        (least..=MOST_DIGITS).find(shows).unwrap_or(least)
    }

    /// A value of it, without its unit.
    pub fn shown(&self, value: f64) -> String {
        shown_with(value, self.digits())
    }

    /// Both values and the change next to each other, without their unit: with digits enough to subtract.
    pub fn shown_row(&self) -> [Option<String>; 3] {
        self.shown_row_with(self.digits_of_row())
    }

    /// Digits behind the point of a row, with which its values subtract.
    pub fn digits_of_row(&self) -> usize {
        let both = self.before.zip(self.after);
        both.map_or(self.digits(), |(a, b)| digits_to_subtract(a, b, self.digits()))
    }

    /// [`Self::shown_row`] with as many digits as the other rows of a table.
    pub fn shown_row_with(&self, digits: usize) -> [Option<String>; 3] {
        let sides = [self.before, self.after];
        let [a, b] = sides.map(|value| Some(shown_with(value?, digits)));
        [a, b, self.change.map(|change| signed(change, digits))]
    }

    /// Whether there are enough runs for a test. Of fewer, a change is a judgement neither of the code nor of the verdict.
    pub fn is_tested(&self) -> bool {
        smallest_p(self.before_runs.len(), self.after_runs.len()) <= ALPHA
    }

    /// What the change comes to, in a word or two.
    pub fn word(&self) -> &'static str {
        match (self.verdict, self.better) {
            (Verdict::Unknown, _) => match (self.before, self.after) {
                (Some(_), _) => "no value after",
                (None, Some(_)) => "no value before",
                (None, None) => "no value",
            },
            (Verdict::None, _) => {
                self.noise.word(self.change.unwrap_or(0.0), self.before.unwrap_or(0.0))
            }
            (_, Better::Lower | Better::Higher) if self.is_tested() => {
                if self.is_worse() {
                    "worse"
                } else {
                    "better"
                }
            }
            _ => self.direction(),
        }
    }

    /// Its name for people, without what it is per: `GPU idle, ms`.
    pub fn label(&self) -> String {
        let unit = match self.unit {
            MetricUnit::Count | MetricUnit::PerSecond => String::new(),
            unit => format!(",{}", unit.suffix()),
        };
        format!("{}{unit}", label(&self.metric))
    }

    /// Why a side may not have it, where one has it.
    pub fn why_absent(&self) -> Option<&'static str> {
        (self.verdict == Verdict::Unknown).then(|| why_absent(&self.metric))
    }

    /// Which way it changed, in a word that does not judge.
    fn direction(&self) -> &'static str {
        match (self.verdict, self.unit == MetricUnit::Ms) {
            (Verdict::Decreased, true) => "shorter",
            (Verdict::Decreased, false) => "lower",
            (_, true) => "longer",
            (_, false) => "higher",
        }
    }

    /// Whether it moved the worse way, beyond noise.
    pub fn is_worse(&self) -> bool {
        matches!(
            (self.verdict, self.better),
            (Verdict::Increased, Better::Lower) | (Verdict::Decreased, Better::Higher)
        )
    }
}

/// Digits behind the point of a number that hardly changed.
const MOST_DIGITS: usize = 3;

/// It is measured in whole milliseconds.
const DURATION: &str = "duration_ms";

/// A kind of GPU work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// Kernels of one name.
    Kernel,
    /// Copies of one direction.
    Copy,
    /// Fills.
    Fill,
    /// CUDA graphs that were recorded as a whole.
    Graph,
}

impl WorkKind {
    /// In a word that no class of kernels has: kernels copy and fill as well.
    pub fn word(self) -> &'static str {
        match self {
            WorkKind::Kernel => "kernels",
            WorkKind::Copy => "memcpy",
            WorkKind::Fill => "memset",
            WorkKind::Graph => "graphs",
        }
    }
}

/// How the work before was found again after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MatchedBy {
    /// The names are equal.
    Name,
    /// The names are equal except for what differs between builds (hashes, spelling).
    Spelling,
    /// The names are equal except for the numbers that autotuning chooses; class and calls are equal.
    TunedName,
    /// Class, number format and calls are equal, the names are another library's or generator's.
    ClassAndCalls,
}

impl MatchedBy {
    /// To be read after "matched by".
    pub fn words(self) -> &'static str {
        match self {
            MatchedBy::Name => "name",
            MatchedBy::Spelling => "name, spelled differently",
            MatchedBy::TunedName => "name without tile sizes, class and calls",
            MatchedBy::ClassAndCalls => "class and calls",
        }
    }
}

/// GPU work before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkChange {
    /// Kind of the work.
    pub kind: WorkKind,
    /// Class of a kernel; empty for other work and older reports.
    pub class: String,
    /// Library that a kernel is of, by its name; null: not known, or no kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Before; null: it is new.
    pub before: Option<WorkSide>,
    /// After; null: it vanished.
    pub after: Option<WorkSide>,
    /// How the work of both sides was matched; null: one side has none.
    pub matched_by: Option<MatchedBy>,
    /// Time after minus time before, ns per [`StageChange::per`]; what is missing counts as none.
    pub change_ns: f64,
    /// Whether the time changed beyond noise.
    pub verdict: Verdict,
    /// What it was compared with, ns.
    pub noise: Noise,
    /// Changes that several runs allow, ns; null: a side has one run or none, or the means that are shown say the opposite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// What became of it in the words of the pages, such as `longer`, `new`, `within noise` or `not comparable`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub word: String,
}

impl WorkChange {
    /// What became of it, in a word that does not judge.
    pub fn word(&self) -> &'static str {
        let before_ns = self.before.as_ref().map_or(0.0, |side| side.ns);
        match (self.presence(), self.verdict) {
            (Presence::New, _) => "new",
            (Presence::Vanished, _) => GONE,
            (_, Verdict::Increased) => "longer",
            (_, Verdict::Decreased) => "shorter",
            _ => self.noise.word(self.change_ns, before_ns),
        }
    }

    /// Which side has it.
    pub fn presence(&self) -> Presence {
        match (&self.before, &self.after) {
            (None, _) => Presence::New,
            (_, None) => Presence::Vanished,
            _ => Presence::Both,
        }
    }
}

/// GPU work of one name in a stage on one side: means over the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkSide {
    /// Name of the work: the short one of a kernel.
    pub name: String,
    /// Sum of its durations, ns per [`StageChange::per`].
    pub ns: f64,
    /// Calls per [`StageChange::per`].
    pub calls: f64,
    /// Mean duration of a call, ns; null: no call is timed.
    pub mean_ns: Option<f64>,
}

/// What became of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The limit is not exceeded.
    Passed,
    /// The limit is exceeded, but the difference is within noise, or one value of a run: nothing is decided.
    #[serde(rename = "passed_within_noise")]
    Undecided,
    /// The limit is exceeded.
    Failed,
    /// The stage or the number is missing, so that nothing could be compared.
    NotEvaluated,
}

impl Outcome {
    /// Whether the command fails for it.
    pub fn fails(self) -> bool {
        matches!(self, Outcome::Failed | Outcome::NotEvaluated)
    }
}

/// A condition and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConditionResult {
    /// The condition as the user wrote it.
    pub condition: String,
    /// The change is demanded (`--expect`), where others forbid one (`--fail-if`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expected: bool,
    /// What became of the condition.
    pub outcome: Outcome,
    /// The reason for the outcome, with the numbers.
    pub text: String,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MetricUnit {
    /// Milliseconds.
    Ms,
    /// Percent; absolute changes are percentage points.
    Percent,
    /// A number of things.
    Count,
    /// Things per second.
    PerSecond,
    /// Joules.
    Joule,
    /// Watts.
    Watt,
    /// Megahertz.
    Mhz,
}

impl MetricUnit {
    /// As it follows a number.
    pub fn suffix(self) -> &'static str {
        match self {
            MetricUnit::Ms => " ms",
            MetricUnit::Percent => " %",
            MetricUnit::Count => "",
            MetricUnit::PerSecond => "/s",
            MetricUnit::Joule => " J",
            MetricUnit::Watt => " W",
            MetricUnit::Mhz => " MHz",
        }
    }

    /// A number of it, without the unit.
    pub fn shown(self, value: f64) -> String {
        shown_with(value, self.digits(value))
    }

    /// Digits behind the point of a number of it.
    pub fn digits(self, value: f64) -> usize {
        match self {
            // A second of several has no digits of a microsecond.
            MetricUnit::Ms if value.abs() >= 10_000.0 => 0,
            MetricUnit::Ms => 3,
            MetricUnit::Percent if value.abs() < 1.0 => 3,
            MetricUnit::PerSecond if value.abs() >= 100.0 => 0,
            MetricUnit::Percent | MetricUnit::PerSecond => 1,
            MetricUnit::Joule => 3,
            MetricUnit::Watt | MetricUnit::Mhz => 0,
            MetricUnit::Count if value.fract() == 0.0 => 0,
            MetricUnit::Count => 2,
        }
    }

    /// As it follows a difference of two numbers.
    pub fn difference_suffix(self) -> &'static str {
        match self {
            MetricUnit::Percent => " points",
            unit => unit.suffix(),
        }
    }
}

/// Which way a metric gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither by itself.
    Neither,
}

fn shown_with(value: f64, digits: usize) -> String {
    let text = grouped(&format!("{value:.digits$}"));
    if is_nothing(&text) { text.trim_start_matches('-').to_owned() } else { text }
}

/// Digits behind the point, so many or more, with which the shown numbers have the difference that is shown: it is not
/// rounded twice, so that a change has one value on all surfaces.
pub fn digits_to_subtract(before: f64, after: f64, least: usize) -> usize {
    let subtracts = |digits: &usize| {
        let rounded = |value: f64| format!("{value:.digits$}").parse::<f64>().unwrap_or(value);
        let apart = rounded(after) - rounded(before) - rounded(after - before);
        apart.abs() * 10f64.powi(*digits as i32) < 0.5
    };
    let before_point = before.abs().max(after.abs()).max(1.0).log10() as usize + 1;
    let most = SIGNIFICANT.saturating_sub(before_point).clamp(least, least + MORE_DIGITS);
    (least..=most).find(subtracts).unwrap_or(least)
}

/// Digits that a row may have more than its numbers need, unless the larger one then has more than so many in all.
const MORE_DIGITS: usize = 3;
const SIGNIFICANT: usize = 5;

/// A number with its sign; what rounds to nothing has none.
pub fn signed(value: f64, digits: usize) -> String {
    let text = grouped(&format!("{value:+.digits$}"));
    if is_nothing(&text) { text.trim_start_matches(['+', '-']).to_owned() } else { text }
}

/// Whether all digits of a number are zeros.
pub(crate) fn is_nothing(number: &str) -> bool {
    number.chars().all(|c| matches!(c, '0' | '.' | '+' | '-'))
}

/// `+70.36 ms`; what rounds to nothing has no sign.
pub fn signed_time(ns: f64) -> String {
    let time = shown_time(ns.abs());
    let number = time.split(' ').next().unwrap_or_default();
    match ns < 0.0 {
        _ if is_nothing(number) => time,
        true => format!("-{time}"),
        false => format!("+{time}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        assert_eq!(signed(-0.0001, 2), "0.00");
        assert_eq!(signed(0.5, 1), "+0.5");
        assert_eq!(signed(-12.0, 0), "-12");
        assert_eq!(signed_time(-12.0), "0.0 us");
        assert_eq!(signed_time(-70_360_000.0), "-70.36 ms");
        assert_eq!(MetricUnit::Ms.shown(-0.0), "0.000");
        assert_eq!(MetricUnit::Ms.shown(-0.001), "-0.001");
    }

    #[test]
    fn the_numbers_of_a_row_have_the_same_digits_and_subtract() {
        let row = |unit, before: f64, after: f64| {
            let change = MetricChange {
                metric: "mfu_percent".to_owned(),
                unit,
                better: Better::Higher,
                before: Some(before),
                after: Some(after),
                change: Some(after - before),
                change_percent: None,
                verdict: Verdict::None,
                word: String::new(),
                noise: Noise::default(),
                interval: None,
                before_runs: Vec::new(),
                after_runs: Vec::new(),
            };
            change.shown_row().map(Option::unwrap_or_default).join(" ")
        };
        assert_eq!(row(MetricUnit::Percent, 9.74, 12.58), "9.74 12.58 +2.84");
        assert_eq!(row(MetricUnit::Percent, 0.897, 1.786), "0.897 1.786 +0.889");
        assert_eq!(row(MetricUnit::PerSecond, 78.7, 188.7), "78.7 188.7 +110.0");
        assert_eq!(row(MetricUnit::PerSecond, 3_432.4, 4_623.3), "3,432 4,623 +1,191");
        assert_eq!(row(MetricUnit::Percent, 9.74, 9.75), "9.74 9.75 +0.01");
        assert_eq!(row(MetricUnit::Percent, 9.74, 9.74), "9.7 9.7 0.0");
        assert_eq!(row(MetricUnit::Ms, 62_830.4, 56_291.2), "62,830 56,291 -6,539");
        // 0.471 and 0.536 are 0.065 apart.
        assert_eq!(row(MetricUnit::Ms, 0.4712, 0.5356), "0.4712 0.5356 +0.0644");
    }

    #[test]
    fn a_sure_change_below_the_minimum_has_its_interval_and_a_word_of_its_own() {
        let of = |interval: [f64; 2], exceeds_value| MetricChange {
            metric: "step_ms".to_owned(),
            unit: MetricUnit::Ms,
            better: Better::Lower,
            before: Some(10.0),
            after: Some(9.93),
            change: Some(-0.07),
            change_percent: Some(-0.7),
            verdict: Verdict::None,
            word: String::new(),
            noise: Noise {
                method: NoiseMethod::RankTest,
                threshold: Some(0.1),
                p_value: Some(0.029),
                too_small: interval[1] < 0.0,
                exceeds_value,
                ..Noise::default()
            },
            interval: Some(interval),
            before_runs: vec![10.0; 4],
            after_runs: vec![9.93; 4],
        };
        let said = |metric: MetricChange| {
            let noise = metric.noise_text().map(|text| text.to_string()).unwrap_or_default();
            (metric.word(), noise)
        };
        assert_eq!(said(of([-0.09, -0.05], false)), ("too small", "[-0.9, -0.5]".to_owned()));
        assert_eq!(said(of([-0.3, 0.1], false)), ("within noise", "[-3.0, +1.0]".to_owned()));
        assert_eq!(said(of([-9.0, 19.0], true)), ("inconclusive", "[-90.0, +190.0]".to_owned()));
        // Of next to nothing a percentage says nothing.
        let from_nothing = MetricChange { before: Some(0.00003), ..of([0.01, 0.02], false) };
        assert_eq!(from_nothing.relative_percent(), None);
        assert_eq!(said(from_nothing).1, "[+0.010, +0.020]");
    }
}
