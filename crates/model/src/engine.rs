//! Steps of an inference engine, by what they worked on.

use serde::{Deserialize, Serialize};

/// What an inference engine did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineRun {
    /// Name of its adapter; null: the ranges say by their fields what they work on.
    pub engine: Option<String>,
    /// Version that the engine gives itself; null: nobody asked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The trace file whose steps these are: of several processes with steps, that with the most of them.
    pub file: String,
    /// Processes that ran steps: the ranks of the engine.
    pub processes: u64,
    /// One for each kind of step; the kind that took the most time first.
    pub kinds: Vec<EngineSteps>,
    /// Pauses before steps that only begin requests: the engine may have waited for them.
    pub pauses: u64,
    /// Their time, ns.
    pub pause_ns: u64,
    /// From the first begin to the last end of a step, ns.
    pub extent_ns: u64,
    /// Steps of further shapes than are told apart; they are in no row.
    pub other_steps: u64,
    /// Names of ranges that are those of steps, with numbers that cannot be.
    pub unsound_names: u64,
}

/// Steps of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineSteps {
    /// The kind, which is the name of the stage: `prefill`, `decode`, `mixed`, `verify`.
    pub stage: String,
    /// All of them.
    pub steps: u64,
    /// Those that another step followed at once: the times are those from begin to begin of these.
    pub timed_steps: u64,
    /// Their time in all, ns.
    pub timed_ns: u64,
    /// Median, ns; null: none is timed.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns; null of fewer than 100.
    pub p99_ns: Option<u64>,
    /// Mean requests whose prompt was read.
    pub prefill_requests_mean: f64,
    /// Mean tokens of prompts.
    pub prefill_tokens_mean: f64,
    /// Mean requests that got their next token.
    pub decode_requests_mean: f64,
    /// Mean tokens that these had after the step; null: the engine does not say.
    pub decode_context_mean: Option<f64>,
    /// Tokens that timed steps worked on in a second: of prefill those of prompts, else one for each
    /// request that decodes.
    pub tokens_per_s: Option<f64>,
    /// By requests, for prefill by tokens; ascending.
    pub rows: Vec<EngineStepRow>,
    /// A line through the medians of the rows; null: they are too few, or it does not fit.
    pub fit: Option<StepFit>,
}

/// Steps of one kind with about as much work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineStepRow {
    /// Requests of a step, or the fewest of the row.
    pub requests: u64,
    /// The most of the row.
    pub requests_to: u64,
    /// Mean new tokens of a step: of prompts, and one or more for each request that decodes.
    pub tokens_mean: f64,
    /// Mean tokens that all requests of a step have after it; null: the engine does not say.
    pub context_mean: Option<f64>,
    /// All steps.
    pub steps: u64,
    /// Those of the times.
    pub timed_steps: u64,
    /// Median, ns.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns; null of fewer than 100.
    pub p99_ns: Option<u64>,
}

/// Time of a step = fixed + each x count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepFit {
    /// What a step of no request would take, ns.
    pub fixed_ns: f64,
    /// What each further one takes, ns.
    pub each_ns: f64,
    /// One of what: `request` or `token`.
    pub of: String,
    /// Share of the variance of the medians that the line explains: 1 is all.
    pub r2: f64,
    /// Rows that it goes through.
    pub rows: u64,
}
