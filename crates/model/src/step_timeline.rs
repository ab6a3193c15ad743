//! The steps of a stage over a run, and what ran on the host and on the GPU in one of them.

use serde::{Deserialize, Serialize};

use stage2_contract::text::numbers::shown_time;

use crate::answer::StepUnit;
use crate::plateaus::Plateaus;

/// How long the steps of a stage took over the run, in bounded space. Where `path` is the stage itself,
/// its instances are the steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepSeries {
    /// [`crate::StageRow::stage`].
    pub stage: String,
    /// Path of the range whose instances are the steps.
    pub path: String,
    /// Trace file of the process that they are of.
    pub file: String,
    /// They are the steps of an engine that another step followed at once, and all their times are until that one
    /// begins; else host times.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_next: bool,
    /// Steps in the order of their start, the cold first one included, in buckets of equal size.
    pub buckets: Vec<StepBucket>,
    /// How many of the first instances of the path are of a cold call, and not in the median; 0: all calls are cold.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cold_steps: u64,
    /// The longest steps beyond the 99th percentile, in the order of their start.
    pub outliers: Vec<Step>,
    /// What came right before each of these on its thread, where it is another stage; of steps that are the stage itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<StepBefore>,
    /// What differs between long stretches of slow steps and the others; null: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plateaus: Option<Plateaus>,
    /// The warm step whose time is nearest to the median; null: there is none.
    pub median: Option<Step>,
}

impl StepSeries {
    /// The number of steps of which all distances between its slow ones are multiples; nothing where that may be chance.
    pub fn slow_steps_apart(&self) -> Option<u64> {
        // Four distances have a common factor of 5 or more by chance about once in 300 times.
        const FEWEST: usize = 5;
        const LEAST: u64 = 5;
        let numbers: Vec<u64> =
            self.outliers.iter().map(|step| step.number).filter(|at| *at > 0).collect();
        let factor = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let apart = numbers
            .windows(2)
            .map(|pair| pair.first().zip(pair.last()).map_or(0, |(a, b)| b.abs_diff(*a)))
            .reduce(factor)?;
        (numbers.len() >= FEWEST && apart >= LEAST).then_some(apart)
    }

    /// What was right before the slow step `number`.
    pub fn before(&self, number: u64) -> Option<&StepBefore> {
        self.before.iter().find(|before| before.number == number)
    }

    /// `each follows a mixed step, whose GPU work still runs for 8.70 to 14.10 ms`: why its slow steps are slow, if that
    /// holds for nearly all of them.
    pub fn slow_steps_follow(&self) -> Option<String> {
        let slow = || self.outliers.iter().filter(|step| step.number > 0);
        let mut before = slow().filter_map(|step| self.before(step.number));
        let stage = &before.next()?.stage;
        let found = slow().filter_map(|step| self.before(step.number));
        let runs: Vec<u64> = found
            .filter(|before| before.stage == *stage && before.runs_ns > 0)
            .map(|before| before.runs_ns)
            .collect();
        let (least, most) = (runs.iter().min()?, runs.iter().max()?);
        let all = slow().count();
        let of = match all - runs.len() {
            0 => "each follows",
            rest if rest * 10 <= all => "nearly all follow",
            _ => return None,
        };
        let [from, to] = [least, most].map(|ns| shown_time(*ns as f64));
        let unit = to.rsplit_once(' ').map_or_else(String::new, |(_, unit)| format!(" {unit}"));
        let how_long = match from.strip_suffix(&unit) {
            _ if from == to => to,
            Some(from) => format!("{from} to {to}"),
            None => format!("{from} to {to}"),
        };
        let noun = if self.until_next { StepUnit::OfEngine.noun() } else { self.noun() };
        Some(format!("{of} a {stage} {noun}, whose GPU work still runs for {how_long}"))
    }

    /// What one of its steps is.
    pub fn noun(&self) -> &'static str {
        noun_of(&self.path, &self.stage)
    }
}

/// What an instance of `path` is to `stage`.
fn noun_of(path: &str, stage: &str) -> &'static str {
    if path == stage { StepUnit::Instance.noun() } else { StepUnit::RangeWithin.noun() }
}

/// Steps that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepBucket {
    /// Number of the first step, from 0.
    pub first: u64,
    /// Number of consecutive steps.
    pub steps: u64,
    /// Host time of the shortest step, ns.
    pub min_ns: u64,
    /// Mean host time of a step, ns, rounded.
    pub mean_ns: u64,
    /// Host time of the longest step, ns.
    pub max_ns: u64,
}

/// One step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// Its number, from 0.
    pub number: u64,
    /// Identifier of its range in the trace file.
    pub range: u64,
    /// Host time, ns.
    pub host_ns: u64,
}

/// What came right before a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepBefore {
    /// [`Step::number`] of the step.
    pub number: u64,
    /// The stage of the instance before it.
    pub stage: String,
    /// How long GPU work of that one still ran when the step began, ns.
    pub runs_ns: u64,
}

/// What ran on the host and on the GPU in one step. Times are in ns since the start of the step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepTimeline {
    /// [`crate::StageRow::stage`].
    pub stage: String,
    /// Path of the range that the step is an instance of.
    pub path: String,
    /// Trace file of its process.
    pub file: String,
    /// The step.
    pub step: Step,
    /// Whose it is, where the timelines of a rank that is late and of one that waits for it are both there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<TimelineRank>,
    /// Its start, ns since the Unix epoch.
    #[serde(default)]
    pub start_ns: i64,
    /// Of a step of an engine that another one followed at once: how long it lasts until that one begins, ns; null: it
    /// lasts as long as its range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts_ns: Option<u64>,
    /// From its start to its end on the host, or to the end of its last GPU work if that is later.
    pub length_ns: u64,
    /// Names of kernels, ranges, copies and fills, once each.
    pub names: Vec<String>,
    /// Ranges of the host, parents before children.
    pub ranges: Vec<TimelineRange>,
    /// Streams with GPU work of the step and, of an engine, with work outside of all ranges that began in its time.
    pub lanes: Vec<TimelineLane>,
    /// Times in which no GPU work of the step ran.
    pub gaps: Vec<TimelineGap>,
    /// Ranges and GPU work that did not fit.
    pub left_out: u64,
    /// Where the host was at the gaps; null: not all of the step fit.
    #[serde(default)]
    pub host_at_gaps: Option<HostAtGaps>,
    /// What the host does during the step, from samples; null: there are too few samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<TimelineHost>,
    /// All GPU work of the step and all its gaps, drawn or not.
    #[serde(default)]
    pub sums: TimelineSums,
}

impl StepTimeline {
    /// What the step is.
    pub fn noun(&self) -> &'static str {
        noun_of(&self.path, &self.stage)
    }

    /// For how long the GPU works for the step, ns, if that is longer than the step lasts on the host, which then runs
    /// ahead of the GPU.
    pub fn ahead_ns(&self) -> Option<u64> {
        let TimelineSums { launch_gaps_ns, other_idle_ns, other_work_ns, .. } = self.sums;
        let gaps_ns = launch_gaps_ns.saturating_add(other_idle_ns).saturating_add(other_work_ns);
        let busy_ns = self.length_ns.saturating_sub(gaps_ns);
        let is_known = self.sums.whole && self.lasts_ns.is_none();
        (is_known && busy_ns > self.step.host_ns).then_some(busy_ns)
    }
}

/// One of the two ranks whose timelines are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineRank {
    /// Who, in words.
    pub who: String,
    /// It is the one that is late most; else the one that waits longest.
    pub is_late: bool,
    /// By how much the late one is late in this step, the median of its late steps, ns; null: the step is the one of
    /// median length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
}

/// What the work and the gaps of a step add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineSums {
    /// They are of the whole step; else work is missing that did not fit in memory.
    pub whole: bool,
    /// GPU work by name, the longest total first. What has no room is a row of its class without name.
    pub work: Vec<TimelineSum>,
    /// Gaps as short as between launches right behind each other, ns.
    pub launch_gaps_ns: u64,
    /// All other time without GPU work, ns.
    pub other_idle_ns: u64,
    /// Time in which the GPU only worked for other steps or stages, ns.
    #[serde(default)]
    pub other_work_ns: u64,
}

/// GPU work of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineSum {
    /// Index in [`StepTimeline::names`]; null: that of several.
    pub name: Option<usize>,
    /// Class of a kernel; `copy`, `fill` or `graph` otherwise.
    pub class: String,
    /// Pieces.
    pub calls: u64,
    /// Sum of their lengths, ns: work that overlaps counts each.
    pub total_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
}

/// What the thread of the step does, by samples of all steps that are at most twice as long or as short, each sample at
/// its place in its own step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineHost {
    /// These steps.
    pub steps: u64,
    /// Samples in them.
    pub samples: u64,
    /// The parts of the step, in order: neighbours in which the same function leads are one.
    pub parts: Vec<TimelineHostPart>,
}

/// A part of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineHostPart {
    /// Start.
    pub start_ns: u64,
    /// Length.
    pub length_ns: u64,
    /// Samples in it.
    pub samples: u64,
    /// Its functions with the most samples: the index in [`StepTimeline::names`], and the samples.
    pub functions: Vec<(usize, u64)>,
}

impl TimelineHostPart {
    /// Whether a function with the most samples of a part is what the host does in it: at least half agree, and more
    /// than two.
    pub fn is_main(most: u64, samples: u64) -> bool {
        most > 2 && most.saturating_mul(2) >= samples
    }
}

/// Where the host was when the GPU had nothing to do in a step, as its ranges show. Of the rest of the
/// time, it was within the range of what came next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostAtGaps {
    /// All gaps, ns.
    pub all_ns: u64,
    /// Gaps at whose beginning the host had left the range of what came next, so that this was launched
    /// already, ns.
    pub ahead_ns: u64,
    /// Gaps at whose beginning it had not yet opened that range, and the time behind the last work in
    /// which the step was still open, ns.
    pub behind_ns: u64,
}

/// A range of the host within a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineRange {
    /// Index in [`StepTimeline::names`].
    pub name: usize,
    /// Ranges of the step around it.
    pub depth: u64,
    /// Start.
    pub start_ns: u64,
    /// Length.
    pub length_ns: u64,
}

/// The GPU work of a step on one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineLane {
    /// Device and stream.
    pub label: String,
    /// Its work, in the order of the starts.
    pub work: Vec<TimelineWork>,
}

/// A kernel, copy, fill or whole graph within a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineWork {
    /// Index in [`StepTimeline::names`].
    pub name: usize,
    /// Class of a kernel; `copy`, `fill` or `graph` otherwise.
    pub class: String,
    /// Start.
    pub start_ns: u64,
    /// Length.
    pub length_ns: u64,
    /// Of a collective: so much of it, from its start, is waiting for the other rank of
    /// [`StepTimeline::rank`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting_ns: u64,
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// A time in which no GPU work of a step ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineGap {
    /// Start.
    pub start_ns: u64,
    /// Length.
    pub length_ns: u64,
    /// It is as short as between launches right behind each other.
    pub launch: bool,
    /// The GPU is not idle: it works for another step or stage, or for nothing that is open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_work: bool,
}
