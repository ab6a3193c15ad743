//! The answer of a report, before its evidence: how long a step takes, where the time goes, what the
//! hardware would need, what to do first, and whether the capture can be trusted.

use serde::{Deserialize, Serialize};
use stage2_contract::order::Order as _;
use stage2_contract::stats::BACK_TO_BACK_NS;
use stage2_contract::text::numbers::{grouped, shown_time, time_scale};

/// Of fewer values there is no 99th percentile.
pub use stage2_contract::stats::P99_VALUES;

use crate::bottleneck::Bottleneck;
use crate::engine::TokensCounted;
use crate::figure::Figure;
use crate::rule::Rule;
use crate::utilisation::Role;

/// What the console, every page and `metrics.json` say first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Always in this order: verdict, time, window, outliers, host, late rank, floor, first, coverage. The verdict is
    /// there where steps and windows are known, the line on outliers where a stage has some, that on the host where it
    /// was sampled, and that on the late rank where one is late.
    pub lines: Vec<AnswerLine>,
    /// The lines in short, as the console and the Markdown pages begin with them: a fact in each. Absent where no step, or
    /// not what bounds it, is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub short: Vec<AnswerLine>,
    /// What no number of the run may be read without, as the lines begin with it: `simulated GPU: `; empty: nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lead: String,
    /// The stages; the one with the longest window first.
    pub stages: Vec<StageAnswer>,
    /// What to do first, over all stages; null: no change is known to help.
    pub first: Option<FirstStep>,
}

impl Answer {
    /// Part of [`Answer::lead`]: marks of operators take host time.
    pub const MARKED: &str = "measured with every operator marked, which slows the host: ";
}

/// One line of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerLine {
    /// `verdict`, `time`, `window`, `outliers`, `host`, `late rank`, `floor`, `first` or `coverage`; in short also
    /// `where`, `late`, `kernel` and `warnings`.
    pub label: String,
    /// What it says: visible text, not escaped for a format.
    pub text: String,
}

/// The answer for one stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageAnswer {
    /// [`crate::StageRow::stage`].
    pub stage: String,
    /// What it is to the model.
    pub role: Role,
    /// What the numbers are of, for instance `3 warm instances, the first of each process left out`.
    pub basis: String,
    /// Times of its steps; null: not known.
    pub step: Option<StepTimes>,
    /// How much slower the steps are than without the profiler; null: no baseline is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
    /// Time to the first token of a request, ns: of a prefill, by ranges of [`is_first_token_range`].
    pub time_to_first_token_ns: Figure,
    /// Tokens per second: of an engine over its timed steps, or over their GPU work where that takes longer; otherwise
    /// over the mean GPU window of the warm calls, which may end a little after their step.
    pub tokens_per_s: Figure,
    /// The tokens that `tokens_per_s` counts.
    #[serde(default)]
    pub tokens_counted: TokensCounted,
    /// Where its window goes; null: not known.
    pub window: Option<WindowSplit>,
    /// What bounds its mean step; null: the division of its window is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// The least time that the hardware would need for a step.
    pub floor: Floor,
    /// What to do first in this stage.
    pub first: Option<FirstStep>,
}

/// From this many calls at a time, on average, it is said that they overlap.
const OVERLAPPING: f64 = 1.2;

impl StageAnswer {
    /// `1.9 calls at a time`, where the calls of several threads overlap: the mean step, which is a part of the window, is
    /// shorter than each of them by as much.
    pub fn at_a_time(&self) -> Option<String> {
        let step = self.step.as_ref()?;
        let mean = self.bottleneck.as_ref().filter(|found| found.of == step.shown_unit())?;
        let calls = mean.at_a_time.filter(|calls| *calls >= OVERLAPPING)?;
        Some(format!("{calls:.1} {}s at a time", step.unit.noun()))
    }

    /// What the times of its steps are of: `token`, or `token of a stream` where the calls of several threads overlap.
    pub fn unit_of_times(&self) -> Option<String> {
        let unit = self.step.as_ref()?.shown_unit();
        Some(format!("{unit}{}", if self.at_a_time().is_some() { " of a stream" } else { "" }))
    }

    /// What the mean time of its bottleneck is of: `token`, or `token of all streams`, which is shorter than that of one.
    pub fn unit_of_mean(&self) -> Option<String> {
        let of = &self.bottleneck.as_ref()?.of;
        Some(format!("{of}{}", if self.at_a_time().is_some() { " of all streams" } else { "" }))
    }

    /// The mean of all its steps, in what its bottleneck is of, ns, where that is another one: the bottleneck is of the
    /// steps whose GPU work was recorded.
    pub fn mean_of_all_ns(&self) -> Option<f64> {
        let step = self.step.as_ref()?;
        let found = self.bottleneck.as_ref().filter(|found| found.of == step.shown_unit())?;
        let all_ns = step.shown_ns(step.mean_ns);
        let is_other = (found.ns as f64 - all_ns).abs() > OTHER_MEAN * all_ns;
        (all_ns > 0.0 && is_other && self.at_a_time().is_none()).then_some(all_ns)
    }
}

/// Two means that differ by this part of one of them are told apart.
const OTHER_MEAN: f64 = 0.05;

/// Whether a step has GPU work for well longer than it lasts on the host, ns: then the host runs ahead, and the time of the
/// step is not what its tokens take.
pub fn outlasts_step(work_ns: f64, step_ns: f64) -> bool {
    step_ns > 0.0 && work_ns > step_ns * (1.0 + OTHER_MEAN)
}

/// What the profiler did to the times of a stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slowdown {
    /// The pass that the times are of.
    pub pass: String,
    /// Median of its warm instances over that of the baseline, which records ranges only.
    pub ratio: f64,
}

/// Whether ranges of this name last from the arrival of a request to its first token, whatever the
/// spelling: `time_to_first_token`, `ttft`, `first token`.
pub fn is_first_token_range(name: &str) -> bool {
    // `ttft@LLM` in a domain, `LLM@ttft` where a program knows no domains.
    name.split('@').any(|part| {
        let letters: String =
            part.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
        ["timetofirsttoken", "ttft", "firsttoken"].contains(&letters.as_str())
    })
}

/// Host times of the warm steps of a stage, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepTimes {
    /// What a step is.
    pub unit: StepUnit,
    /// Path of the range whose instances are the steps; null: they are inferred from the kernels.
    pub path: Option<String>,
    /// Steps that the times are of.
    pub steps: u64,
    /// Mean, rounded.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile; null: of fewer than [`P99_VALUES`] steps.
    pub p99_ns: Option<u64>,
    /// The longest; null: not known.
    #[serde(default)]
    pub max_ns: Option<u64>,
    /// Sample standard deviation; null: of fewer than two, or not known.
    pub std_ns: Option<u64>,
    /// Tokens of one sequence in a step; null: not known.
    pub tokens_per_step: Option<u64>,
    /// Mean number of requests in a step of an engine; null: not a step of an engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<f64>,
    /// They are of the first, cold instance of the stage, because it has no other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold: bool,
    /// Why ranges within the stage that repeat are not taken for its steps; null: none is passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_over: Option<String>,
}

/// From so many steps the 99th percentile is not the longest one.
pub const TAIL_VALUES: u64 = 100;

impl StepTimes {
    /// What every page shows times of: a token where it is known how many are in a step, else a step.
    pub fn shown_unit(&self) -> &'static str {
        if self.tokens_per_step.is_some() { "token" } else { self.unit.noun() }
    }

    /// Whether they are warm, in a word.
    pub fn warmth(&self) -> &'static str {
        if self.cold { "cold" } else { "warm" }
    }

    /// A time of a step as one of [`Self::shown_unit`], ns.
    pub fn shown_ns(&self, ns: u64) -> f64 {
        ns as f64 / self.tokens_per_step.unwrap_or(1).max(1) as f64
    }

    /// The 99th percentile, or of few steps the longest, with its name.
    pub fn tail(&self) -> Option<(&'static str, u64)> {
        match self.p99_ns {
            Some(ns) if self.p99_from_top() > 1 => Some(("p99", ns)),
            p99 => p99.or(self.max_ns.filter(|_| self.steps > 1)).map(|ns| ("longest", ns)),
        }
    }

    /// Which of the longest steps the 99th percentile is: 1 for the longest one.
    pub fn p99_from_top(&self) -> u64 {
        self.steps / TAIL_VALUES + 1
    }
}

/// What a step of a stage is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepUnit {
    /// One instance of the stage.
    #[default]
    Instance,
    /// One instance of a range within the stage that repeats.
    RangeWithin,
    /// A repeating sequence of kernels.
    Inferred,
    /// A step of an inference engine, which lasts until the next one begins.
    OfEngine,
}

impl StepUnit {
    /// What every page calls one of them.
    pub fn noun(self) -> &'static str {
        match self {
            StepUnit::Instance => "call",
            StepUnit::RangeWithin | StepUnit::OfEngine => "step",
            StepUnit::Inferred => "inferred step",
        }
    }
}

/// Where the window of a stage goes. The parts add up to the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowSplit {
    /// Union of the windows of the instances that the split is of, summed over processes, ns.
    pub window_ns: u64,
    /// The parts, in the order of [`WindowKind`]; none is of no time.
    pub parts: Vec<WindowPart>,
    /// Steps that these times are of: over it, they are those of the mean step; null: not known.
    #[serde(default)]
    pub steps: Option<f64>,
}

impl WindowSplit {
    /// `ns` of the window in the mean step, ns; in all of it where steps are not told apart.
    pub fn per_step(&self, ns: u64) -> f64 {
        ns as f64 / self.steps.filter(|steps| *steps > 0.0).unwrap_or(1.0)
    }

    /// The share of each part in percent with one decimal, so rounded that they add up to 100.0: those
    /// with the largest remainders are rounded up. Parts that do not add up to the window (those of a
    /// broken report) are rounded each by itself.
    pub fn rounded_percent(&self) -> Vec<f64> {
        const TENTHS: u128 = 1_000;
        let window_ns = u128::from(self.window_ns);
        let sum: u128 = self.parts.iter().map(|part| u128::from(part.ns)).sum();
        if window_ns == 0 || sum != window_ns {
            return self.parts.iter().map(|part| (part.percent * 10.0).round() / 10.0).collect();
        }
        let scaled = || self.parts.iter().map(|part| u128::from(part.ns) * TENTHS);
        let mut tenths: Vec<u128> = scaled().map(|scaled| scaled / window_ns).collect();
        let missing = TENTHS.saturating_sub(tenths.iter().sum());
        let mut by_remainder: Vec<(u128, usize)> =
            scaled().map(|scaled| scaled % window_ns).zip(0..).collect();
        by_remainder.order_by_key(|&(remainder, at)| (std::cmp::Reverse(remainder), at));
        let missing = usize::try_from(missing).unwrap_or(usize::MAX);
        for &(_, at) in by_remainder.iter().take(missing) {
            if let Some(tenth) = tenths.get_mut(at) {
                *tenth += 1;
            }
        }
        tenths.into_iter().map(|tenths| tenths as f64 / 10.0).collect()
    }
}

/// A part of a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowPart {
    /// What the time goes into.
    pub kind: WindowKind,
    /// Time, ns.
    pub ns: u64,
    /// Share of the window, percent.
    pub percent: f64,
}

/// The longest idle gap that counts as a launch gap, us.
pub const LAUNCH_GAP_US: u64 = BACK_TO_BACK_NS / 1_000;

/// What a part of a window goes into. Where work overlaps, the first kind has the time.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WindowKind {
    /// Kernels that compute, and graphs that were recorded as a whole.
    #[strum(serialize = "compute")]
    Compute,
    /// Exposed communication from the arrival of the last rank on.
    #[strum(serialize = "transfer")]
    Transfer,
    /// Exposed waiting for other ranks in collectives.
    #[strum(serialize = "waiting in collectives")]
    Waiting,
    /// Exposed communication that could not be split into transfer and waiting.
    #[strum(serialize = "communication")]
    Communication,
    /// Exposed copies and fills.
    #[strum(serialize = "copies")]
    Copies,
    /// All GPU work, where it is not split into compute, communication and copies.
    #[strum(serialize = "GPU busy")]
    Busy,
    /// Idle gaps of at most [`LAUNCH_GAP_US`], as launches right behind each other leave.
    #[strum(serialize = "launch gaps")]
    LaunchGaps,
    /// All other idle time.
    #[strum(serialize = "other idle")]
    OtherIdle,
    /// Time in which no work of the stage ran, but work of another stage did, by the samples of its host.
    #[strum(serialize = "work of other stages")]
    OtherWork,
}

/// The least time that the hardware would need for what a step computes and reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Floor {
    /// Weights and KV cache of a step at peak memory bandwidth, ns.
    pub memory_ns: Figure,
    /// The part of it that is KV cache, ns; null: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_cache_ns: Option<f64>,
    /// FLOPs of a step at the dense peak, ns.
    pub compute_ns: Figure,
    /// The larger of the two that are known, ns.
    pub floor_ns: Figure,
    /// Mean time of a step over the floor, which is that of the mean work of a step; the median time where the window of
    /// the stage is not known.
    pub distance: Figure,
    /// [`Self::distance`] in the baseline pass; null: there is no baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_distance: Option<f64>,
}

/// Something to do, and what it gains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FirstStep {
    /// The stage that gets faster.
    pub stage: Option<String>,
    /// The rule that asks for it.
    pub rule: Rule,
    /// The takeaway that calls for it, by its id; null: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takeaway: Option<String>,
    /// What to do.
    pub text: String,
    /// That and what it saves, as one clause: `use CUDA graphs (saves up to 2.12 ms per step)`; empty: only `text` is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub in_short: String,
    /// What would have to vanish, to be read after "if": `all GPU idle time is removed`.
    pub condition: String,
    /// Who or what that is in this run, as a sentence; null: the condition says all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Parts of the window that would vanish, in its order, or whose cause is to be measured; empty: not known.
    #[serde(default)]
    pub removes: Vec<Removed>,
    /// Idle time that the advice may leave as it is: a part of `removes` whose cause is not known, in its words, or what is
    /// in none of them, such as `is idle without a known cause`; null: none is known to be left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Removed>,
    /// What the gain refers to; null: the whole window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<MeanTime>,
    /// Standard error of the sum of these parts, percentage points of the window: the bound is estimated from samples of
    /// the host. Null: it is exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<f64>,
    /// How many times faster the stage would be, while its kernels stay as they are, at most; null: not known, as where something is only to be measured.
    pub factor: Option<f64>,
    /// The factor is how far the stage is from its floor: what vanishes would make it faster than that.
    #[serde(default)]
    pub is_floor: bool,
}

/// The mean step of a stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeanTime {
    /// [`crate::Bottleneck::of`].
    pub of: String,
    /// Its time, ns.
    pub ns: f64,
}

/// A part of a window that would vanish.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Removed {
    /// What it is, in the words of the window.
    pub what: String,
    /// Share of the window, percent.
    pub percent: f64,
}

impl FirstStep {
    /// How many times faster the stage would be, on what condition, and how the two follow from the mean step or
    /// the window; nothing where that is not known. `up to 4.9x faster if exposed copies vanish: copies 1.44 of 1.81 ms
    /// per step`.
    pub fn gain(&self) -> Option<String> {
        let factor = times_faster(self.factor.filter(|factor| factor.is_finite())?);
        let factor = format!("up to {factor}");
        if self.is_in_tokens() {
            return Some(format!("{factor} the tokens/s if {}", self.condition));
        }
        if self.removes.is_empty() {
            return Some(format!("{factor} faster if {}", self.condition));
        }
        let floor = if self.is_floor { ", as far as the floor allows" } else { "" };
        let left = self.left().unwrap_or_default();
        Some(format!("{factor} faster if {}: {}{floor}{left}", self.condition, self.parts()))
    }

    /// What is saved if the part that may be left is, percent of the window; nothing where what is saved has no such part.
    fn least_percent(&self) -> Option<f64> {
        let of_left = |left: &Removed| self.removes.iter().any(|part| part.what == left.what);
        let left = self.left.as_ref().filter(|left| of_left(left))?;
        let all: f64 = self.removes.iter().map(|part| part.percent).sum();
        Some(all - left.percent).filter(|percent| *percent > 0.0)
    }

    /// `up to 4.9x`, or `2.3x to 10.7x`; nothing where that is not known.
    pub fn times(&self) -> Option<String> {
        let factor = times_faster(self.factor.filter(|factor| factor.is_finite())?);
        Some(match self.least_percent() {
            Some(least) => format!("{} to {factor}", times_faster(100.0 / (100.0 - least))),
            None => format!("up to {factor}"),
        })
    }

    /// `; why the GPU is idle for 2.11 ms of that is not known`, or `; another 2.11 ms is idle without a known cause`:
    /// behind what is saved.
    pub fn left(&self) -> Option<String> {
        let Removed { what, percent } = self.left.as_ref()?;
        let time = match &self.mean {
            Some(mean) => {
                let (scale, unit, decimals) = time_scale(mean.ns);
                grouped(&format!("{:.decimals$} {unit}", percent / 100.0 * mean.ns / scale))
            }
            None => format!("{percent:.1} % of the window"),
        };
        Some(match self.least_percent() {
            Some(_) => format!("; why the GPU is idle for {time} of that is not known"),
            None => format!("; another {time} {what}"),
        })
    }

    /// [`Self::gain`] without its condition and its parts, next to the advice that tells them: `up to 1.30x faster
    /// (saves up to 1.08 ± 0.12 ms per step)`.
    pub fn gain_in_brief(&self) -> Option<String> {
        match self.saved().filter(|_| !self.removes.is_empty()) {
            Some(saved) => {
                let left = self.left().unwrap_or_default();
                Some(format!("{} faster (saves {saved}{left})", self.times()?))
            }
            None => self.gain(),
        }
    }

    /// ` (mean window 28.63 ms per call)`, behind the name of its stage: a gain may be longer than other times of a page.
    /// Nothing where the mean is not known.
    pub fn of_mean(&self) -> String {
        let mean = self.mean.as_ref();
        mean.map_or_else(String::new, |mean| {
            format!(" (mean window {} per {})", shown_time(mean.ns), mean.of)
        })
    }

    /// Whether more tokens come from each step, which gets no shorter.
    pub fn is_in_tokens(&self) -> bool {
        let is_of_requests = match self.rule {
            Rule::HostGaps => true,
            // Other advice on a cause is about its time.
            Rule::HostCause => self.condition.contains(" requests takes no longer"),
            _ => false,
        };
        is_of_requests && self.factor.is_some() && self.removes.is_empty()
    }

    /// The time whose cause is only to be measured, which by itself gains nothing: `launch gaps 0.22 + other idle 2.01
    /// = 2.23 of 3.61 ms per step`.
    pub fn to_measure(&self) -> Option<String> {
        (self.factor.is_none() && !self.removes.is_empty()).then(|| self.parts())
    }

    /// What the gain takes from the mean step, the same number as in [`Self::gain`]: `up to 2.12 ms per step`, `up to 1.08
    /// ± 0.12 ms per step`.
    pub fn saved(&self) -> Option<String> {
        let (mean, factor) = (self.mean.as_ref()?, self.factor?);
        let (scale, unit, decimals) = time_scale(mean.ns);
        let of_mean = |percent: f64| percent / 100.0 * mean.ns / scale;
        let values: Vec<f64> = self.removes.iter().map(|part| of_mean(part.percent)).collect();
        let saved = match self.is_floor || values.is_empty() {
            true => mean.ns * (1.0 - 1.0 / factor) / scale,
            false => rounded(&values, decimals).1,
        };
        let from = match self.least_percent() {
            Some(least) => grouped(&format!("{:.decimals$} to", of_mean(least))),
            None => "up to".to_owned(),
        };
        let error = self.error(of_mean, "", decimals);
        let saved = grouped(&format!("{saved:.decimals$}{error} {unit}"));
        Some(format!("{from} {saved} per {}", mean.of))
    }

    /// ` ± 0.12`; nothing of a bound.
    fn error(&self, value: impl Fn(f64) -> f64, unit: &str, decimals: usize) -> String {
        let error = self.error_percent.map(|error| format!(" ± {:.decimals$}{unit}", value(error)));
        error.unwrap_or_default()
    }

    fn parts(&self) -> String {
        self.mean.as_ref().map_or_else(|| self.parts_of_window(), |mean| self.parts_of(mean))
    }

    /// What would vanish of the mean step: `waiting 1.06 + idle time 1.06 = 2.12 of 3.62 ms per step`.
    fn parts_of(&self, mean: &MeanTime) -> String {
        let (scale, unit, decimals) = time_scale(mean.ns);
        let parts = self.sum_of(|percent| percent / 100.0 * mean.ns / scale, "", decimals);
        grouped(&format!("{parts} of {:.decimals$} {unit} per {}", mean.ns / scale, mean.of))
    }

    fn parts_of_window(&self) -> String {
        format!("{} of the window", self.sum_of(|percent| percent, " %", 1))
    }

    /// `waiting 1.06 + idle time 1.06 = 2.12`: the sum is right, and what is shown of the parts adds up to it.
    fn sum_of(&self, value: impl Fn(f64) -> f64, unit: &str, decimals: usize) -> String {
        let values: Vec<f64> = self.removes.iter().map(|part| value(part.percent)).collect();
        let error = self.error(value, unit, decimals);
        let (shown, sum) = rounded(&values, decimals);
        let parts = self.removes.iter().zip(shown);
        let parts = parts.map(|(part, value)| format!("{} {value:.decimals$}{unit}", part.what));
        let parts: Vec<String> = parts.collect();
        match parts.len() {
            1 => parts.concat() + &error,
            _ => format!("{} = {sum:.decimals$}{unit}{error}", parts.join(" + ")),
        }
    }
}

/// The rounded sum of values, and the values so rounded that they add up to it: those with the largest remainders are
/// rounded up.
fn rounded(values: &[f64], decimals: usize) -> (Vec<f64>, f64) {
    let unit = 10f64.powi(-i32::try_from(decimals).unwrap_or(0));
    let sum = (values.iter().sum::<f64>() / unit).round();
    let mut whole: Vec<f64> = values.iter().map(|value| (value / unit).floor()).collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    let rest = |at: usize| values.get(at).zip(whole.get(at)).map_or(0.0, |(v, w)| v / unit - w);
    order.sort_by(|&a, &b| rest(b).total_cmp(&rest(a)));
    // Of sums that are no numbers none is missing.
    let missing = (sum - whole.iter().sum::<f64>()).max(0.0) as usize;
    for at in order.into_iter().take(missing) {
        if let Some(whole) = whole.get_mut(at) {
            *whole += 1.0;
        }
    }
    (whole.into_iter().map(|whole| whole * unit).collect(), sum * unit)
}

/// `16.6x`, and one digit more of what is below 2.
pub fn times_faster(factor: f64) -> String {
    match factor < 2.0 {
        true => format!("{factor:.2}x"),
        false => format!("{factor:.1}x"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_that_may_stay_is_named_behind_what_is_saved() {
        let removed = |what: &str, percent| Removed { what: what.into(), percent };
        let first = FirstStep {
            condition: "no launch gaps are left".into(),
            removes: vec![removed("launch gaps", 57.2)],
            left: Some(removed("is idle without a known cause", 33.5)),
            mean: Some(MeanTime { of: "token".into(), ns: 6_290_000.0 }),
            factor: Some(2.34),
            ..FirstStep::default()
        };
        let left = "; another 2.11 ms is idle without a known cause";
        let brief = format!("up to 2.3x faster (saves up to 3.60 ms per token{left})");
        assert_eq!(first.gain_in_brief(), Some(brief));
        let gain =
            "up to 2.3x faster if no launch gaps are left: launch gaps 3.60 of 6.29 ms per token";
        assert_eq!(first.gain(), Some(format!("{gain}{left}")));
        let of_window = FirstStep { mean: None, ..first.clone() };
        let left = "; another 33.5 % of the window is idle without a known cause";
        assert_eq!(of_window.left().as_deref(), Some(left));
        // It is a part of what is saved at most.
        let range = FirstStep {
            removes: vec![removed("launch gaps", 57.2), removed("other idle", 33.5)],
            left: Some(removed("other idle", 33.5)),
            factor: Some(10.7),
            ..first
        };
        let brief = "2.3x to 10.7x faster (saves 3.60 to 5.71 ms per token; why the GPU is idle for 2.11 ms of that is \
                     not known)";
        assert_eq!(range.gain_in_brief().as_deref(), Some(brief));
        assert!(range.gain().is_some_and(|gain| gain.starts_with("up to 10.7x faster if")));
    }

    #[test]
    fn a_sum_is_right_and_its_parts_add_up_to_it() {
        let removes = [("launch gaps", 4.6125), ("other idle", 52.2125)];
        let removes = removes.map(|(what, percent)| Removed { what: what.into(), percent }).into();
        let mean = MeanTime { of: "step".into(), ns: 32_281_895.0 };
        let first = FirstStep {
            condition: "it vanishes".into(),
            removes,
            mean: Some(mean),
            factor: Some(2.3),
            ..FirstStep::default()
        };
        // Rounded each by itself: 1.49 and 16.86.
        let said = "up to 2.3x faster if it vanishes: launch gaps 1.49 + other idle 16.85 = 18.34 of 32.28 ms per step";
        assert_eq!(first.gain().as_deref(), Some(said));
        assert_eq!(first.saved().as_deref(), Some("up to 18.34 ms per step"), "the same number");
        let estimate = FirstStep { error_percent: Some(1.0), ..first.clone() };
        assert_eq!(estimate.saved().as_deref(), Some("up to 18.34 ± 0.32 ms per step"));
        let said = estimate.gain().expect("known");
        assert!(
            said.starts_with("up to 2.3x") && said.contains(" = 18.34 ± 0.32 of 32.28 ms"),
            "{said}"
        );
        let of_code = FirstStep { rule: Rule::HostCause, ..estimate };
        assert_eq!(of_code.saved().as_deref(), Some("up to 18.34 ± 0.32 ms per step"));
        let of_window = FirstStep { mean: None, ..first };
        let said = "up to 2.3x faster if it vanishes: launch gaps 4.6 % + other idle 52.2 % = 56.8 % of the window";
        assert_eq!(of_window.gain().as_deref(), Some(said));
        assert_eq!(of_window.to_measure(), None);
        let measured = FirstStep { factor: None, ..of_window };
        let said = "launch gaps 4.6 % + other idle 52.2 % = 56.8 % of the window";
        assert_eq!((measured.gain(), measured.to_measure().as_deref()), (None, Some(said)));
        assert_eq!(rounded(&[f64::NAN, 1.0], 1).0.len(), 2);
        assert_eq!(rounded(&[], 1), (vec![], 0.0));
    }

    #[test]
    fn rounded_shares_add_up() {
        let split = |parts: &[u64]| {
            let window_ns = parts.iter().sum::<u64>();
            let part = |&ns: &u64| WindowPart {
                kind: WindowKind::Compute,
                ns,
                percent: ns as f64 * 100.0 / window_ns as f64,
            };
            WindowSplit { window_ns, parts: parts.iter().map(part).collect(), steps: None }
        };
        // Each by itself they would read 99.9 % and 100.2 %.
        assert_eq!(split(&[1, 1, 1]).rounded_percent(), [33.4, 33.3, 33.3]);
        assert_eq!(
            split(&[2_496, 2_496, 2_496, 2_512]).rounded_percent(),
            [25.0, 25.0, 24.9, 25.1]
        );
        assert_eq!(split(&[u64::MAX - 1, 1]).rounded_percent(), [100.0, 0.0]);
        let broken = WindowSplit { window_ns: 7, ..split(&[1, 1]) };
        assert_eq!(broken.rounded_percent(), [50.0, 50.0]);
        assert_eq!(WindowSplit::default().rounded_percent(), [0.0; 0]);
    }
}
