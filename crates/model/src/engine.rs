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
    /// The part of it in which a request waited that ended later, ns; null: arrivals are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_pause_ns: Option<u64>,
    /// Time from the begin of the first step to the end of the last one, ns.
    pub extent_ns: u64,
    /// Steps that are in no row, because there are too many different batches.
    pub other_steps: u64,
    /// Names that look like those of steps but hold impossible numbers.
    pub unsound_names: u64,
    /// Its requests; null: it does not record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<EngineRequests>,
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

/// Requests of an engine that ended: what they waited for, and what they took of the GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineRequests {
    /// Number of requests that ended while the collector recorded.
    pub requests: u64,
    /// Requests that were given up before their last token.
    pub aborted: u64,
    /// Requests that lost their place in the batch at least once.
    pub preempted: u64,
    /// Records that are used nowhere: their numbers contradict each other, or the request ended before.
    pub unsound_records: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Tokens of the prompts that were in the cache, so that no step read them.
    pub cached_tokens: u64,
    /// Tokens that were generated.
    pub output_tokens: u64,
    /// Time from the arrival to the scheduling of the first step, ns.
    pub queue: Spread,
    /// Time from the arrival to the first token, ns.
    pub first_token: Spread,
    /// Time from one token to the next behind the first one, as the mean of each request, ns. Requests of one
    /// token, and those that were given up, have none.
    pub token: Spread,
    /// Time from the arrival to the end of the requests that were not given up, ns.
    pub total: Spread,
    /// What they took of the GPUs; null: no step says its number.
    pub cost: Option<RequestCost>,
    /// The requests that waited longest for their first token, in descending order.
    pub slowest: Vec<RequestRow>,
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Median, ns; null: there is no value.
    pub p50_ns: Option<u64>,
    /// 90th percentile, ns; null for fewer than ten values.
    pub p90_ns: Option<u64>,
    /// 99th percentile, ns; null for too few values ([`P99_VALUES`](stage2_contract::stats::P99_VALUES)).
    pub p99_ns: Option<u64>,
    /// The largest value, ns.
    pub max_ns: Option<u64>,
}

/// What the requests took of the GPUs. GPU time is the time of the steps, times the number of GPUs that ran them.
///
/// Each token of a step takes the same part of its time. The part of the prompt tokens is shared by the requests
/// whose prompt the step reads, by their mean number of prompt tokens in a step; the part of the other tokens is
/// shared equally by the requests that decode. What belongs to requests without a record is nobody's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestCost {
    /// Number of GPUs that ran the steps.
    pub gpus: u64,
    /// GPU time of one request.
    pub gpu_time: Spread,
    /// GPU time of all steps that have a number, ns.
    pub steps_gpu_ns: u64,
    /// Sum of the GPU time of the requests, ns: never more than `steps_gpu_ns`. The difference belongs to
    /// requests without a record, because they had not ended, and to rounding (2 ns for each request).
    pub requests_gpu_ns: u64,
    /// GPU time of the steps that did not work on all requests that had begun and not ended, ns: the shares in them
    /// are approximate.
    pub approximate_gpu_ns: u64,
    /// Steps beyond the limit of what is kept; no request has a share of them.
    pub other_steps: u64,
    /// GPU time from the begin of the first step to the end of the last one, with pauses, ns.
    pub run_gpu_ns: u64,
    /// GPU time of the steps by kind.
    pub kinds: Vec<StepCost>,
    /// Number of requests of which every step is known. The numbers below are of these.
    pub whole_requests: u64,
    /// What their prompts took; the tokens that were in the cache count.
    pub input: TokenCost,
    /// What the tokens took that they generated.
    pub output: TokenCost,
}

/// GPU time of the steps of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// [`EngineSteps::stage`].
    pub stage: String,
    /// GPU time, ns.
    pub gpu_ns: u64,
    /// The part of it that belongs to prompt tokens, ns.
    pub input_gpu_ns: u64,
}

/// What tokens took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenCost {
    /// Number of tokens.
    pub tokens: u64,
    /// Tokens per second, from the begin of the first step to the end of the last one; null: there is no time.
    pub tokens_per_s: Option<f64>,
    /// GPU time, ns.
    pub gpu_ns: u64,
    /// Energy of one token, J; null: the energy of a kind of step is not known, or there is no token.
    pub joules: Option<f64>,
    /// Price of a million tokens, US dollars; null: no price of a GPU hour is set, or there is no token.
    pub dollars_per_million: Option<f64>,
}

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestRow {
    /// Its number in the process that scheduled it.
    pub number: u64,
    /// The trace file of that process.
    pub file: String,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Tokens of its prompt that were in the cache.
    pub cached_tokens: u64,
    /// Tokens that it generated.
    pub output_tokens: u64,
    /// As in [`EngineRequests::queue`].
    pub queue_ns: Option<u64>,
    /// As in [`EngineRequests::first_token`].
    pub first_token_ns: Option<u64>,
    /// As in [`EngineRequests::token`].
    pub token_ns: Option<u64>,
    /// Its GPU time, ns; null: not known.
    pub gpu_ns: Option<u64>,
    /// How often it lost its place in the batch.
    pub preemptions: u64,
}
