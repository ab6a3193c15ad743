//! The one model of a report: `metrics.json` is this, and every other file is a view of it.
//!
//! Every name of a number says its unit; absent is null, never zero. Names of foreign origin are
//! held as visible text (see [`stage2_contract::text`]): safe to print, not yet escaped for a format.

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use stage2_contract::text::KernelName;
use stage2_contract::text::numbers::{count, counted, shown_time};

use crate::answer::{Answer, StepUnit};
use crate::coverage::{Coverage, META_SAMPLE, Status};
use crate::engine::EngineRun;
use crate::finding::Finding;
use crate::host::HostUse;
use crate::layers::LayerRow;
use crate::nsys::{NsysSection, Unplaced};
use crate::peaks::Peaks;
use crate::ranks::{ProcessRow, Ranks};
use crate::regions::RegionTable;
use crate::rows::StageEnergy;
use crate::rows::{
    CaptureRow, DeviceRow, GraphRow, KernelRow, MemoryRow, PathRow, StageKernelRow, StageRow,
};
use crate::sampled::SampledCounters;
use crate::step_timeline::{StepSeries, StepTimeline};
use crate::steps::InferredSteps;
use crate::utilisation::{Insight, ModelWindows};

/// How a [`Fact`] begins that states why the GPU driver gave none.
pub const COULD_NOT_ASK: &str = "the CUDA driver could not be asked";
/// Name of the model.
pub const SCHEMA: &str = "stage2.report";
/// Version of the model: grows when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 2;

/// Everything that a report shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program and version that wrote it.
    pub generator: String,
    /// Where the rows of kernels come from: the label of an [`Origin`].
    pub source: String,
    /// The GPU, or that of some process, was simulated: times are those of a recording.
    pub simulated: bool,
    /// What ran.
    pub run: RunInfo,
    /// The answer, before its evidence.
    #[serde(default)]
    pub answer: Answer,
    /// What was recorded and what is missing.
    pub coverage: Coverage,
    /// GPUs.
    pub devices: Vec<DeviceRow>,
    /// Traced processes, with rank, host and GPU.
    #[serde(default)]
    pub processes: Vec<ProcessRow>,
    /// What the ranks of a job did, each and together.
    #[serde(default)]
    pub ranks: Ranks,
    /// Outermost ranges.
    pub stages: Vec<StageRow>,
    /// Energy and clocks of each stage, in the order of `stages`; empty: no trace file has readings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub energy: Vec<StageEnergy>,
    /// Steps that repeat in processes without ranges; null: none are certain, or there are ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inferred_steps: Option<InferredSteps>,
    /// How long the steps of each stage took over the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_series: Vec<StepSeries>,
    /// What ran in the median step of each stage. They are written to [`crate::Timelines`]; version 1 had
    /// them here.
    #[serde(default, skip_serializing)]
    pub step_timelines: Vec<StepTimeline>,
    /// What the host was doing while the GPU had nothing to do; null: it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostUse>,
    /// Steps of an inference engine by batch; null: no range states what it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineRun>,
    /// Windows of the model's stages, joined; null: it has none, or nobody looked.
    pub model_windows: Option<ModelWindows>,
    /// All ranges, as a tree: every parent before its children.
    pub paths: Vec<PathRow>,
    /// Names of kernels, once each.
    pub kernel_names: Vec<KernelName>,
    /// Kernels per range path, launch configuration and device; longest total first.
    #[serde(with = "crate::kernel_table")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::kernel_table::Described"))]
    pub kernels: Vec<KernelRow>,
    /// The kernels with the longest total of each stage, by name; stages in the order of `stages`.
    pub stage_kernels: Vec<StageKernelRow>,
    /// Copies per range path, direction and device; longest total first.
    pub copies: Vec<MemoryRow>,
    /// Fills per range path and device; longest total first.
    pub fills: Vec<MemoryRow>,
    /// CUDA graphs that were recorded as a whole; longest total first.
    pub graph_launches: Vec<GraphRow>,
    /// Kernels of graph replays by the range in which they were captured.
    pub graph_captures: Vec<CaptureRow>,
    /// Kernels of the stages by part of the model; empty unless modules of the model were captured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerRow>,
    /// The Nsight Systems capture against the collector; null: there is none.
    pub nsys: Option<NsysSection>,
    /// GPU work of nsys that no range could be found for: a range without any may have some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplaced: Option<Unplaced>,
    /// What range replay of ncu measured of each NVTX region, by scope.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ncu_regions: Vec<RegionTable>,
    /// What hardware counters say that were sampled while the workload ran; null: none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledCounters>,
    /// What each pass cost.
    #[serde(default)]
    pub costs: PassCosts,
    /// Peak rates that kernels are compared with; null: not known for this GPU.
    pub peaks: Option<Peaks>,
    /// What follows from the rows.
    #[serde(flatten)]
    pub insight: Insight,
    /// What the reader should know.
    pub findings: Vec<Finding>,
    /// What the terms mean, for the pages; `metrics.json` has its schema.
    #[serde(skip_serializing, default)]
    pub definitions: Vec<Definition>,
}

impl Report {
    /// The GPUs that recorded work ran on; all of them if none has any.
    pub fn used_devices(&self) -> impl Iterator<Item = &DeviceRow> {
        let is_used = |device: &&DeviceRow| device.processes > 0 || device.kernels > 0;
        let any = self.devices.iter().any(|device| is_used(&device));
        self.devices.iter().filter(move |device| !any || is_used(device))
    }

    /// Its GPUs by their names: `2x NVIDIA H200`.
    pub fn gpus(&self) -> Option<String> {
        let mut gpus: Vec<(&str, usize)> = Vec::new();
        for device in self.used_devices() {
            let name = device.name.as_deref().unwrap_or("GPU of unknown name");
            match gpus.iter_mut().find(|(known, _)| *known == name) {
                Some((_, number)) => *number += 1,
                None => gpus.push((name, 1)),
            }
        }
        let gpus: Vec<String> =
            gpus.iter().map(|(name, number)| format!("{number}x {name}")).collect();
        (!gpus.is_empty()).then(|| gpus.join(", "))
    }

    /// Whether only some instances of ranges were recorded, in some process.
    pub fn is_sampled(&self) -> bool {
        self.coverage.processes.iter().any(|process| process.meta.contains_key(META_SAMPLE))
    }

    /// Whether that is so in every process.
    pub fn is_sampled_throughout(&self) -> bool {
        let mut processes = self.coverage.processes.iter();
        self.is_sampled() && processes.all(|process| process.meta.contains_key(META_SAMPLE))
    }

    /// `13 of the 757 steps of decode have no time, because a pause followed them`: why a table counts fewer steps than there
    /// are GPU windows, which only the first, cold calls have not.
    pub fn untimed_steps(&self, stage: &str) -> Option<String> {
        let kind = self.engine.as_ref()?.timed(stage)?;
        let untimed = kind.steps.checked_sub(kind.timed_steps).filter(|untimed| *untimed > 0)?;
        let (untimed, all) = (count(untimed), counted(kind.steps, "step"));
        let which = "a pause followed; GPU windows are of all steps but the first, cold ones";
        Some(format!("{untimed} of the {all} of {stage} have no time, because {which}"))
    }

    /// `a step has GPU work for 25.43 ms, longer than it lasts on the host (20.29 ms), so tokens/s count the GPU work`: why
    /// the kernels of a stage take longer than its step.
    pub fn outlasting_work(&self, stage: &str) -> Option<String> {
        let kind = self.engine.as_ref()?.timed(stage)?;
        let work = shown_time(kind.gpu_work_ns? as f64);
        let step = shown_time(kind.timed_ns as f64 / kind.timed_steps.max(1) as f64);
        Some(format!(
            "a step has GPU work for {work}, longer than it lasts on the host ({step}), so tokens/s count the GPU work"
        ))
    }

    /// What an instance of a stage is called: a step of an engine, or else a call.
    pub fn noun_of(&self, stage: &str) -> &'static str {
        match self.engine.as_ref().and_then(|run| run.timed(stage)) {
            Some(_) => StepUnit::OfEngine.noun(),
            None => StepUnit::Instance.noun(),
        }
    }

    /// Why the report has no range, to be read after "none, because".
    pub fn no_range(&self) -> &'static str {
        // Of captures that were taken elsewhere.
        let alone = self.kernels.is_empty() && self.coverage.processes.is_empty();
        let of_nsys = self.nsys.as_ref().and_then(|nsys| nsys.no_range(alone));
        match self.source == Origin::Ncu.label() {
            true => "the rows are those of ncu, which gives no times of ranges",
            false if of_nsys.is_some() => of_nsys.unwrap_or_default(),
            false if self.paths.iter().any(PathRow::is_of_library_alone) => {
                "the workload itself opened no NVTX range, only libraries did"
            }
            false => "the workload opened no NVTX range",
        }
    }

    /// Marks everything as simulated, if the run states it and its files do not.
    pub fn mark_simulated(&mut self) {
        self.simulated = true;
        self.devices.iter_mut().for_each(|row| row.simulated = true);
        self.kernels.iter_mut().for_each(|row| row.simulated = true);
        self.copies.iter_mut().for_each(|row| row.simulated = true);
        self.fills.iter_mut().for_each(|row| row.simulated = true);
        self.graph_launches.iter_mut().for_each(|row| row.simulated = true);
        self.coverage.processes.iter_mut().for_each(|process| process.simulated = true);
    }
}

/// What ran, from the run's own files; absent where they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunInfo {
    /// Name of the run's folder.
    pub name: String,
    /// The workload's argv. Of merged captures, that of the process with the most GPU work.
    pub command: Option<Vec<String>>,
    /// When it started, as the run's file states it. Of merged captures, when the first of them began.
    pub started: Option<String>,
    /// How the workload ended early; null: it ended normally, or its end is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_end: Option<WorkloadEnd>,
    /// Processes that the workload left behind, when the reports were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_running: Vec<u32>,
    /// Folder of the run of a stage2-launch that the workload has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_run: Option<String>,
    /// How each pass went.
    pub passes: Vec<PassInfo>,
    /// Facts about the machine.
    pub environment: Vec<Fact>,
    /// How it was profiled, as far as that may change the numbers; empty: not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiled: Vec<Fact>,
}

impl RunInfo {
    /// When it started, without the seconds where that is a time in UTC: `2026-11-22 10:15 UTC`.
    pub fn started_minute(&self) -> Option<String> {
        let at = self.started.as_deref()?;
        let parts = at.strip_suffix('Z').and_then(|at| at.split_once('T'));
        let parts = parts.and_then(|(day, time)| Some((day, time.get(..5)?)));
        Some(parts.map_or(at.to_owned(), |(day, minute)| format!("{day} {minute} UTC")))
    }
}

/// A workload that ended early: the report is of what it did until then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadEnd {
    /// What ended it.
    pub how: EndedBy,
    /// Exit status or signal; null: not known.
    pub exit: Option<WorkloadExit>,
    /// What ended it, with the exit status or signal, in one clause.
    pub text: String,
    /// What its output or its signal points to; null: neither tells.
    pub likely_cause: Option<String>,
    /// File of the bundle that holds its output; null: it went to the terminal only.
    pub log: Option<String>,
}

/// What ended a workload early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// It failed: an exit status other than 0, or a signal that is not ours.
    Failure,
    /// The time limit (`run.timeout_s`).
    TimeLimit,
    /// A signal that stage2-launch got and handed on, or a SIGINT from elsewhere.
    Interrupt,
}

impl EndedBy {
    /// `interrupted (SIGINT)`, `the workload failed: exit status 3`.
    pub fn text(self, exit: Option<WorkloadExit>) -> String {
        let unknown = || "its exit status is not known".to_owned();
        let ended = exit.map_or_else(unknown, WorkloadExit::describe);
        match self {
            EndedBy::Failure => format!("the workload failed: {ended}"),
            EndedBy::TimeLimit => format!("the time limit ended the workload: {ended}"),
            EndedBy::Interrupt => {
                format!("interrupted ({})", ended.strip_prefix("ended by ").unwrap_or(&ended))
            }
        }
    }

    /// Until when the numbers of a run are: `it failed`.
    pub fn until(self) -> &'static str {
        match self {
            EndedBy::Failure => "it failed",
            EndedBy::TimeLimit => "its time limit",
            EndedBy::Interrupt => "it was interrupted",
        }
    }
}

impl WorkloadEnd {
    /// For the first lines of a page, without a full stop; `status`: of the coverage.
    pub fn sentence(&self, status: Status) -> String {
        let cause = self.likely_cause.as_ref();
        let cause = cause.map_or_else(String::new, |cause| format!("; likely cause: {cause}"));
        let covered = match status {
            // The line on the coverage says so.
            Status::Empty => "",
            Status::Partial | Status::Complete => "; the numbers cover the run until then",
        };
        format!("{}{cause}{covered}", self.text)
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WorkloadExit {
    /// By itself, with this exit status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl WorkloadExit {
    /// Whether it ended in any other way than with status 0.
    pub fn is_failure(self) -> bool {
        self != WorkloadExit::Code(0)
    }

    /// Whether Ctrl-C, or `kill -INT`, ended it.
    pub fn is_interrupt(self) -> bool {
        self == WorkloadExit::Signal(Signal::SIGINT as i32)
    }

    /// `exit status 3`, `ended by SIGKILL`.
    pub fn describe(self) -> String {
        match self {
            WorkloadExit::Code(code) => format!("exit status {code}"),
            WorkloadExit::Signal(signal) => match Signal::try_from(signal) {
                Ok(known) => format!("ended by {}", known.as_str()),
                Err(_) => format!("ended by signal {signal}"),
            },
        }
    }
}

/// How a pass went, as the run's file states it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassInfo {
    /// Its name.
    pub name: Option<String>,
    /// How far it came.
    pub status: Option<String>,
    /// How its process ended.
    pub exit: Option<String>,
    /// How long its process lived, milliseconds.
    pub duration_ms: Option<u64>,
    /// Why it failed or was left out.
    pub why: Option<String>,
    /// Why the collector was not loaded into the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_loaded: Option<String>,
}

/// A fact and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fact {
    /// What it is about; parts are set off by dots.
    pub key: String,
    /// The value.
    pub value: String,
}

/// A term and its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Definition {
    /// The term.
    pub term: String,
    /// What it means.
    pub meaning: String,
}

/// How far a run came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Its passes run, or stage2-launch was killed during one.
    Running,
    /// Its passes are over; the reports are being written, or that was cut off.
    Reporting,
    /// It ended in order, and so does this record.
    Closed,
    /// An older version wrote the record, which does not say.
    #[default]
    Unknown,
}

/// How far a pass came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PassStatus {
    /// It is still to come.
    #[default]
    Planned,
    /// It runs, or was killed together with stage2-launch.
    Running,
    /// Its workload ended with status 0, and what was measured was kept.
    Ok,
    /// Its workload ended with another status or by a signal. What was measured until then was kept.
    WorkloadFailed,
    /// The time limit ended its workload. What was measured until then was kept.
    TimedOut,
    /// Its workload did not go on after a signal that stage2-launch handed on.
    Interrupted,
    /// It could not be started, or left nothing.
    Failed,
    /// It was left out.
    Skipped,
}

impl PassStatus {
    /// The status that `run.json` has this word for.
    pub fn of_word(word: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::from(word)).ok()
    }

    /// Whether the pass ran and kept what it measured, however its workload ended.
    pub fn has_data(self) -> bool {
        use PassStatus::{Interrupted, Ok, TimedOut, WorkloadFailed};
        matches!(self, Ok | WorkloadFailed | TimedOut | Interrupted)
    }
}

/// A tool that took part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// Where it was found.
    pub path: Option<String>,
    /// What it says about its version.
    pub version: Option<String>,
}

/// What each pass cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassCosts {
    /// Why no stage is compared, to be read after "none, because"; null where some are.
    pub absent: Option<String>,
    /// Each stage in each pass; the baseline first.
    pub stages: Vec<StageCost>,
    /// How long each pass took as a whole.
    pub passes: Vec<PassDuration>,
    /// What is missing from the rows, and why.
    pub notes: Vec<String>,
}

impl PassCosts {
    /// What to do to have untraced times, after a full stop; empty where a baseline pass was tried.
    pub fn remedy(&self) -> &'static str {
        match self.passes.iter().any(|pass| pass.pass == "baseline") {
            true => "",
            false => {
                "run again with run.baseline=true: stage2-launch run run.baseline=true -- COMMAND"
            }
        }
    }
}

/// Host time of a stage in one pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageCost {
    /// [`super::StageRow::stage`].
    pub stage: String,
    /// Name of the pass.
    pub pass: String,
    /// Times that it was opened.
    pub instances: Option<u64>,
    /// Host time of all closed instances, ns.
    pub host_total_ns: Option<u64>,
    /// Closed instances without the first of each process; null: the pass does not say.
    pub host_warm_instances: Option<u64>,
    /// Sample standard deviation of their host time, ns.
    pub host_warm_std_ns: Option<u64>,
    /// Median host time without the first instance of each process, ns.
    pub host_warm_median_ns: Option<u64>,
    /// That median over the baseline's; null for the baseline itself.
    pub ratio: Option<f64>,
}

/// How long a pass took, from the start of its process to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassDuration {
    /// Name of the pass.
    pub pass: String,
    /// Wall time, milliseconds; null where it did not run.
    pub duration_ms: Option<u64>,
    /// That over the baseline's; null for the baseline itself.
    pub ratio: Option<f64>,
}

/// A tool that measures.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Origin {
    /// The collector: undisturbed durations of every launch.
    #[default]
    Collector,
    /// Nsight Systems.
    Nsys,
    /// Nsight Compute: replayed launches, at other clocks and with cold caches.
    Ncu,
}

/// Where the numbers of a row come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sources {
    /// Calls and durations.
    pub times: Origin,
    /// Counters; null where there are none.
    pub counters: Option<Origin>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precision;

    /// Doubles with 17 digits, subnormal ones, the largest and those next to powers of two and ten; then
    /// the bits of a sequence.
    fn awkward() -> impl Iterator<Item = f64> {
        let by_hand = [
            0.1 + 0.2,
            1.0 / 3.0,
            100.0 / 3.0,
            5e-324,
            2.225_073_858_507_201e-308,
            f64::MAX,
            f64::MIN_POSITIVE,
            9_007_199_254_740_993.0,
            1e23,
            -0.0,
            123_456_789.123_456_79,
        ];
        let next = |bits: &u64| Some(bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let bits = std::iter::successors(Some(7), next).take(20_000);
        by_hand.into_iter().chain(bits.map(f64::from_bits).filter(|value| value.is_finite()))
    }

    /// Hazard (Hostile files): A report is read again, as `diff` does.
    /// Promise: Every number is the one that was written.
    #[test]
    fn a_report_that_is_written_and_read_again_is_the_same_to_the_last_place() {
        for value in awkward() {
            let peaks = Peaks {
                memory_gb_per_s: Some(value),
                dense_tflops: [(Precision::Bf16, Some(value))].into(),
                ..Peaks::default()
            };
            let report = Report { peaks: Some(peaks), ..Report::default() };
            let text = serde_json::to_string(&report).expect("JSON");
            let again: Report = serde_json::from_str(&text).expect("our own JSON");
            assert_eq!(again, report);
            let bits = |report: &Report| report.peaks.as_ref()?.memory_gb_per_s.map(f64::to_bits);
            assert_eq!(bits(&again), bits(&report), "{value:e}");
        }
    }
}
