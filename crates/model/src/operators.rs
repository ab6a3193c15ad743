//! Operators of a run.

use serde::{Deserialize, Serialize};

/// What is known of the operators of a run: a part of `metrics.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operators {
    /// Where the numbers come from, in a sentence.
    pub source: String,
    /// Operators, longest host time first: of all ranges but those that warm up.
    pub rows: Vec<OperatorRow>,
    /// Those in ranges that warm up, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warm_up: Vec<OperatorRow>,
    /// Operators of each stage, stages in the order of the report, those that warm up last; each
    /// longest host time first.
    pub stages: Vec<StageOperatorRow>,
    /// How much of the GPU time lies in operators; null where that is not known.
    pub coverage: Option<OperatorCoverage>,
    /// Why there are no rows; null where there are some.
    pub absent: Option<Absence>,
}

/// Why something is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absence {
    /// What is the reason, to be read after "none, because".
    pub reason: String,
    /// What to do to have it; may be empty.
    pub remedy: String,
}

/// An operator over all ranges, threads and processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorRow {
    /// Name without what PyTorch appends for each call.
    pub op_name: String,
    /// Host time of its calls with everything within them, ns. Calls of the operator within itself
    /// are a part of the outer one and count once. Null where no call was closed.
    pub host_total_ns: Option<u64>,
    /// Host time of its calls without the ranges directly within them, ns.
    pub host_self_ns: Option<u64>,
    /// GPU work launched in its calls and in everything within them, ns: the sum of the durations of
    /// kernels, copies, fills and graphs. Null where GPU work was not recorded.
    pub gpu_inclusive_ns: Option<u64>,
    /// GPU work launched while it was the innermost range, ns.
    pub gpu_exclusive_ns: Option<u64>,
    /// Kernels launched in its calls and in everything within them.
    pub kernels_inclusive: Option<u64>,
    /// Calls that are not within a call of the same operator.
    pub calls: u64,
    /// Calls of the operator within itself.
    pub nested_calls: u64,
    /// Of `calls`, those that never returned; they have no host time.
    pub unclosed_calls: u64,
    /// Mean host time of `calls` that returned, ns, rounded.
    pub host_mean_ns: Option<u64>,
}

/// An operator in a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageOperatorRow {
    /// [`crate::StageRow::stage`]; null for operators that no range is around.
    pub stage: Option<String>,
    /// Its numbers in this stage.
    #[serde(flatten)]
    pub operator: OperatorRow,
}

/// How much of the GPU time lies in operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorCoverage {
    /// GPU work launched in some operator, ns.
    pub gpu_in_operators_ns: u64,
    /// All GPU work, ns.
    pub gpu_total_ns: u64,
}

impl OperatorCoverage {
    /// The share in percent; nothing of nothing.
    pub fn percent(self) -> Option<f64> {
        let all = self.gpu_total_ns;
        (all > 0).then(|| self.gpu_in_operators_ns as f64 * 100.0 / all as f64)
    }
}
