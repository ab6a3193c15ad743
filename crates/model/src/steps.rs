//! Steps that were inferred from the sequence of kernels, for processes without ranges.

use serde::{Deserialize, Serialize};

/// The steps of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InferredSteps {
    /// How they are known.
    pub label: String,
    /// One row for each kind of step of each process; the most steps first within a process.
    pub rows: Vec<InferredStepRow>,
    /// Number of processes with stages inferred from such steps; each other process is one stage.
    #[serde(default, skip_serializing_if = "is_none")]
    pub staged_processes: u64,
}

fn is_none(processes: &u64) -> bool {
    *processes == 0
}

impl InferredSteps {
    /// These rows, with the label.
    pub fn of(rows: Vec<InferredStepRow>) -> Self {
        let label = "inferred from the kernel sequence".to_owned();
        Self { label, rows, staged_processes: 0 }
    }

    /// How the stages were found, as a sentence without its full stop; `None` if no stages were
    /// inferred.
    pub fn stages_in_words(&self) -> Option<&'static str> {
        (self.staged_processes > 0).then_some(
            "stages with (inferred) in their names do not come from ranges of the workload: decode steps \
             repeat the same kernels, a prefill is longer work before them, and the start-up is \
             everything before the first of these; with report.infer_stages=false, each process is \
             one stage",
        )
    }
}

/// What a kind of step looks like; a sequence of kernels tells no more.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "kebab-case")]
pub enum Resemblance {
    /// Equal steps, one after the other.
    #[default]
    Repeating,
    /// Equal steps after other kernels that take longer than a step, as a decode follows a prefill.
    DecodeLike,
}

/// Steps of one kind: the same kernels in the same order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InferredStepRow {
    /// The file that has the process.
    pub file: String,
    /// Its process id.
    pub pid: Option<u32>,
    /// Device and stream that the sequence is of; null: all kernels of the process.
    pub stream: Option<String>,
    /// What they look like.
    pub resembles: Resemblance,
    /// Steps.
    pub steps: u64,
    /// There may be more: too many repeating stretches were found to keep all.
    pub at_least: bool,
    /// Stretches of steps without others between them.
    pub phases: u64,
    /// Median of the steps in a phase.
    pub steps_per_phase_median: Option<u64>,
    /// Kernels of a step; with `graphs_per_step`, what is launched in it.
    pub kernels_per_step: u64,
    /// Graphs of a step that were recorded as a whole.
    pub graphs_per_step: u64,
    /// Steps whose time is known: all but the last of each stretch.
    pub timed_steps: u64,
    /// Median time of a step, from its first kernel to the first of the next, ns; percentiles are
    /// within the error that the definitions state.
    pub step_p50_ns: Option<u64>,
    /// 99th percentile, ns.
    pub step_p99_ns: Option<u64>,
    /// Mean, ns.
    pub step_mean_ns: Option<u64>,
    /// Mean of the sum of the kernels' durations in a step, ns.
    pub kernel_sum_per_step_ns: Option<u64>,
    /// From the first kernel of each phase to the end of its last one, summed, ns.
    pub window_ns: u64,
    /// Kernels (and graphs) in these steps, percent of all in the sequence.
    pub sequence_percent: Option<f64>,
    /// Kernels within the phases that are in no whole step.
    pub irregular_kernels: u64,
    /// Kernels before the phases that do not repeat; null: there are none.
    pub before: Option<Before>,
}

/// Kernels that were launched between one phase and the next, and that do not repeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Before {
    /// They take longer than a step, as a prefill does before its decode.
    pub prefill_like: bool,
    /// They are those before the first phase, with all that the program did before: there is no other.
    pub from_program_start: bool,
    /// How often.
    pub times: u64,
    /// Fewest of them.
    pub kernels_min: Option<u64>,
    /// Median.
    pub kernels_median: Option<u64>,
    /// Most of them.
    pub kernels_max: Option<u64>,
    /// Median of the sum of their durations, ns.
    pub kernel_sum_median_ns: Option<u64>,
}
