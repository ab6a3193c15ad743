//! What the page shows: rows that others computed, each section filled or absent with its reason.

use serde::{Deserialize, Serialize};

use stage2_model::{Absence, Fact, Finding, OperatorRow, Verdict};

/// Everything on the page. Names may be of foreign origin: the page escapes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stakeholder {
    /// Name of the run.
    pub run: String,
    /// The GPU, or that of some process, was simulated.
    pub simulated: bool,
    /// How the workload ended early, in a sentence; none: it did not.
    #[serde(default)]
    pub ended_early: Option<String>,
    /// Whether the capture can be believed.
    pub verdict: Verdict,
    /// What it ran on.
    pub environment: Section<Fact>,
    /// Figures of the whole run.
    pub aggregates: Section<AggregateRow>,
    /// How long each stage took.
    pub stages: Section<StageTimingRow>,
    /// Steps that no range names, a sentence each.
    #[serde(default)]
    pub steps: Vec<String>,
    /// What the passes cost.
    pub costs: Section<CostRow>,
    /// How much of the GPU's peak was used.
    pub mfu: Section<MfuRow>,
    /// The operators with the longest time.
    pub operators: Section<OperatorRow>,
    /// The kernels with the longest time.
    pub kernels: Section<TopKernelRow>,
    /// What the numbers say; the most important first.
    pub takeaways: Section<Takeaway>,
    /// What to do; the most promising first.
    pub recommendations: Section<Recommendation>,
    /// What the numbers do not cover.
    pub limits: Section<Finding>,
}

/// A section with its rows, or with the reason for having none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section<T> {
    /// There are rows.
    Filled(Filled<T>),
    /// There are none.
    Absent(Absence),
}

/// The rows of a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filled<T> {
    /// In the order in which they are shown.
    pub rows: Vec<T>,
    /// Sentences below the table: assumptions, what nests in what.
    pub notes: Vec<String>,
    /// Where the numbers come from, and over what.
    pub source: String,
}

impl<T> Section<T> {
    /// A section with rows.
    pub fn of(rows: Vec<T>, source: impl Into<String>) -> Self {
        Section::Filled(Filled { rows, notes: Vec::new(), source: source.into() })
    }

    /// A section without, and why: `reason` is read after "none, because".
    pub fn none(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Section::Absent(Absence { reason: reason.into(), remedy: remedy.into() })
    }

    /// Adds a sentence below the table.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        if let Section::Filled(filled) = &mut self {
            filled.notes.push(note.into());
        }
        self
    }

    /// Its rows; none where it is absent.
    pub fn rows(&self) -> &[T] {
        match self {
            Section::Filled(filled) => &filled.rows,
            Section::Absent(_) => &[],
        }
    }
}

impl<T> Default for Section<T> {
    fn default() -> Self {
        Section::none("nothing was computed for it", "")
    }
}

/// A figure over the instances or repetitions of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregateRow {
    /// What is measured.
    pub metric: String,
    /// Unit of all of its numbers.
    pub unit: String,
    /// Values that mean, deviation and median are over.
    pub values: Option<u64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Standard deviation.
    pub std: Option<f64>,
    /// Median.
    pub median: Option<f64>,
    /// The first, cold value, which the others leave out.
    pub first: Option<f64>,
}

/// A stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTimingRow {
    /// Its name.
    pub stage: String,
    /// The stage that it lies in and whose times contain it, such as `prefill` for `vision`.
    pub within: Option<String>,
    /// Instances.
    pub instances: Option<u64>,
    /// Mean host time of an instance, without the first, ns.
    pub host_mean_ns: Option<u64>,
    /// Its standard deviation, ns.
    pub host_std_ns: Option<u64>,
    /// Median host time of an instance, without the first, ns.
    pub host_median_ns: Option<u64>,
    /// Host time of the first, cold instance, ns.
    pub host_first_ns: Option<u64>,
    /// Time in which the GPU worked, all instances, ns.
    pub gpu_busy_ns: Option<u64>,
    /// Share of the stage's time in which it did not, percent.
    pub gpu_idle_percent: Option<f64>,
    /// Kernels, all instances.
    pub kernels: Option<u64>,
}

/// A stage, or the whole workload, in one pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostRow {
    /// Name of the pass.
    pub pass: String,
    /// The stage; none: the pass as a whole.
    pub stage: Option<String>,
    /// Instances.
    pub instances: Option<u64>,
    /// Host time of all instances, or wall time of the pass, ns.
    pub total_ns: Option<u64>,
    /// Median host time of an instance, without the first, ns.
    pub median_ns: Option<u64>,
    /// Median, or wall time of the pass, over that of the baseline.
    pub ratio: Option<f64>,
}

/// Use of the GPU's peak in a stage or by the whole model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MfuRow {
    /// Model-level, or the name of the stage.
    pub scope: String,
    /// Model FLOPs utilisation, 0 to 1, from the model's shape.
    pub mfu: Option<f64>,
    /// The same from FLOPs that ncu counted.
    pub mfu_measured: Option<f64>,
    /// Share of the kernel time that has counters, percent.
    pub counted_percent: Option<f64>,
    /// Memory-bandwidth utilisation, 0 to 1.
    pub mbu: Option<f64>,
    /// FLOPs by the model's shape.
    pub flops: Option<f64>,
    /// The time that they took, ns.
    pub time_ns: Option<u64>,
    /// What was achieved, TFLOP/s.
    pub achieved_tflops: Option<f64>,
    /// The peak that it is compared with, dense, TFLOP/s.
    pub peak_dense_tflops: Option<f64>,
}

/// A kernel over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopKernelRow {
    /// Short name.
    pub kernel: String,
    /// Sum of its durations, ns.
    pub total_ns: u64,
    /// Calls.
    pub calls: u64,
    /// Mean duration, ns.
    pub mean_ns: Option<u64>,
    /// The GPU.
    pub device: Option<String>,
    /// Share of the sum of all kernels' durations, percent.
    pub percent: Option<f64>,
    /// What kind it is, such as gemm or attention.
    pub class: Option<String>,
    /// What limits it, such as compute or memory.
    pub bound: Option<String>,
    /// Share of what is attainable under the roof, 0 to 1; 1 is on the roof.
    pub attainable_share: Option<f64>,
    /// Warps that were active, of those that fit, percent.
    pub occupancy_percent: Option<f64>,
}

/// Something that the numbers say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Takeaway {
    /// A sentence for somebody who does not profile.
    pub text: String,
    /// The numbers behind it, and where they come from.
    pub evidence: String,
}

/// Something to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recommendation {
    /// What to do.
    pub action: String,
    /// Why.
    pub why: String,
    /// What it can bring at most, with its unit; empty where that is not known.
    pub gain: String,
}
