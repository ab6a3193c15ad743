//! Steps of an inference engine, by what they worked on.

use serde::{Deserialize, Serialize};

/// What an inference engine did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineRun {
    /// Name of the engine; null: only the fields of its ranges say what they work on.
    pub engine: Option<String>,
    /// Version of the engine; null: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The trace file that the steps are from: the one with the most steps.
    pub file: String,
    /// Number of processes that ran steps, i.e. of ranks of the engine.
    pub processes: u64,
    /// The kinds of steps, by total time in descending order.
    pub kinds: Vec<EngineSteps>,
    /// Pauses before steps that only start requests: the engine may have waited for them to arrive.
    pub pauses: u64,
    /// Total time of these pauses, ns.
    pub pause_ns: u64,
    /// Time from the begin of the first step to the end of the last one, ns.
    pub extent_ns: u64,
    /// Steps that are in no row, because there are too many different batches.
    pub other_steps: u64,
    /// Names that look like those of steps but hold impossible numbers.
    pub unsound_names: u64,
}

/// Steps of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineSteps {
    /// The kind, which is the name of the stage: `prefill`, `decode`, `mixed`, `verify`.
    pub stage: String,
    /// Number of steps.
    pub steps: u64,
    /// Number of steps that another one followed at once. The times, from begin to begin, are of these.
    pub timed_steps: u64,
    /// Total time of the timed steps, ns.
    pub timed_ns: u64,
    /// Median time, ns; null: no step is timed.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns; null for too few steps ([`P99_VALUES`](stage2_contract::stats::P99_VALUES)).
    pub p99_ns: Option<u64>,
    /// Mean number of requests whose prompt was read.
    pub prefill_requests_mean: f64,
    /// Mean number of prompt tokens; null: not known.
    pub prefill_tokens_mean: Option<f64>,
    /// Mean number of requests whose next token was generated.
    pub decode_requests_mean: f64,
    /// Mean sum of their context lengths after the step, tokens; null: not known.
    pub decode_context_mean: Option<f64>,
    /// Tokens per second over the timed steps: for prefill the prompt tokens, else one token for each
    /// request that decodes.
    pub tokens_per_s: Option<f64>,
    /// Steps by number of requests, for prefill by number of tokens where it is known; ascending.
    pub rows: Vec<EngineStepRow>,
    /// A line through the medians of the rows; null: there are too few rows, or it fits badly.
    pub fit: Option<StepFit>,
}

/// Steps of one kind with about the same amount of work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineStepRow {
    /// Smallest number of requests in a step.
    pub requests: u64,
    /// Largest number of requests in a step.
    pub requests_to: u64,
    /// Mean number of new tokens in a step, prompt tokens and generated ones; null: not known.
    pub tokens_mean: Option<f64>,
    /// Mean sum of the context lengths after the step, tokens; null: not known.
    pub context_mean: Option<f64>,
    /// Number of steps.
    pub steps: u64,
    /// Number of timed steps.
    pub timed_steps: u64,
    /// Median time, ns; null: no step is timed.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns; null for too few steps.
    pub p99_ns: Option<u64>,
}

/// Time of a step = fixed + each x number of requests or tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepFit {
    /// Time that every step takes, ns.
    pub fixed_ns: f64,
    /// Time that each request or token adds, ns.
    pub each_ns: f64,
    /// What is counted: `request` or `token`.
    pub of: String,
    /// Coefficient of determination.
    pub r2: f64,
    /// Number of rows.
    pub rows: u64,
}
