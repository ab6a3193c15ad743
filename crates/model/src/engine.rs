//! Steps of an inference engine, by what they worked on.

use serde::{Deserialize, Serialize};

use crate::utilisation::Role;

/// What an inference engine did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Pause time during which at least one request was waiting, ns. Only requests that ended during the
    /// recording count. Null: the arrival times are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_pause_ns: Option<u64>,
    /// Time from the begin of the first step to the end of the last one, ns.
    pub extent_ns: u64,
    /// The part of `extent_ns` that the first step took, ns: it may load and compile. Null: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_step_ns: Option<u64>,
    /// Steps that are in no row, because there are too many different batches.
    pub other_steps: u64,
    /// Names that look like those of steps but hold impossible numbers.
    pub unsound_names: u64,
    /// Requests of the engine; null: the engine does not record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<EngineRequests>,
}

impl EngineRun {
    /// The timed steps that a stage stands for.
    pub fn timed(&self, stage: &str) -> Option<&EngineSteps> {
        self.kinds.iter().find(|kind| kind.stage == stage && kind.p50_ns.is_some())
    }
}

/// Steps of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineSteps {
    /// The kind, which is the name of the stage: `prefill`, `decode`, `mixed`, `verify`.
    pub stage: String,
    /// Number of steps, timed or not.
    pub steps: u64,
    /// Number of steps that another one followed at once. The times, from begin to begin, are of these.
    pub timed_steps: u64,
    /// Total time of the timed steps, ns.
    pub timed_ns: u64,
    /// Median time of a step, ns; null: no step is timed.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns; null for too few steps ([`P99_VALUES`](stage2_contract::stats::P99_VALUES)).
    pub p99_ns: Option<u64>,
    /// Time of the longest step, ns; null: no step is timed.
    #[serde(default)]
    pub max_ns: Option<u64>,
    /// Sample standard deviation of the times, ns; null: of fewer than two, or not known.
    #[serde(default)]
    pub std_ns: Option<u64>,
    /// Mean number of requests whose prompt was read in a step. All means are over the timed steps, or over all steps
    /// if none is timed.
    pub prefill_requests_mean: f64,
    /// Mean number of prompt tokens; null: not known.
    pub prefill_tokens_mean: Option<f64>,
    /// Mean number of requests whose next token was generated.
    pub decode_requests_mean: f64,
    /// Mean sum of their context lengths after the step, tokens; null: not known.
    pub decode_context_mean: Option<f64>,
    /// Tokens per second over the timed steps, or over [`EngineSteps::gpu_work_ns`]; null: not known.
    pub tokens_per_s: Option<f64>,
    /// Mean GPU work of a step, ns, where it takes longer than the step, because the host runs ahead of the GPU; null: the
    /// step takes longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_work_ns: Option<u64>,
    /// The tokens that `tokens_per_s` counts.
    #[serde(default)]
    pub tokens_counted: TokensCounted,
    /// Steps by number of requests, or for prefill by number of tokens if that is known; ascending.
    pub rows: Vec<EngineStepRow>,
    /// A line through the medians of the rows; null: there are too few rows, or it fits badly.
    pub fit: Option<StepFit>,
}

/// The tokens that a rate counts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TokensCounted {
    /// Prompt tokens that were read.
    #[strum(serialize = "prompt tokens")]
    Prompt,
    /// One token for each request that decodes.
    #[default]
    #[strum(serialize = "tokens")]
    Generated,
    /// Both of these.
    #[strum(serialize = "prompt and generated tokens")]
    PromptAndGenerated,
}

impl TokensCounted {
    /// The tokens of a stage: according to its engine steps, or else to its role.
    pub fn of(steps: Option<&EngineSteps>, role: Role) -> Self {
        match (steps, role) {
            (Some(steps), _) => steps.tokens_counted,
            (None, Role::Prefill) => Self::Prompt,
            (None, _) => Self::Generated,
        }
    }

    /// Their name on every page.
    pub fn noun(self) -> &'static str {
        self.into()
    }
}

/// Steps of one kind with about the same amount of work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Median time of a step, ns; null: no step is timed.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns; null for too few steps.
    pub p99_ns: Option<u64>,
}

/// Time of a step = fixed + each x number of requests or tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// Requests of an engine that ended: their latencies, and the GPU time that they used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineRequests {
    /// Number of requests that ended while the collector recorded.
    pub requests: u64,
    /// Number of requests that were aborted.
    pub aborted: u64,
    /// Number of requests that were preempted at least once.
    pub preempted: u64,
    /// Number of records that are not used: their numbers contradict each other, or the request had
    /// already ended.
    pub unsound_records: u64,
    /// Number of prompt tokens.
    pub prompt_tokens: u64,
    /// Number of cached prompt tokens, which no step read.
    pub cached_tokens: u64,
    /// Number of output tokens.
    pub output_tokens: u64,
    /// Number of drafted tokens that steps verified.
    #[serde(default)]
    pub draft_tokens: u64,
    /// Number of drafted tokens that were accepted.
    #[serde(default)]
    pub accepted_tokens: u64,
    /// Time from the arrival to the scheduling of the first step, ns.
    pub queue: Spread,
    /// Time from the arrival to the first token, ns.
    pub first_token: Spread,
    /// Time per output token after the first one, ns: one mean per request. Requests with one
    /// output token and aborted requests have no value.
    pub token: Spread,
    /// Time from the arrival to the end of a request, ns, without aborted requests.
    pub total: Spread,
    /// GPU time and cost of the requests; null: no step has a number.
    pub cost: Option<RequestCost>,
    /// The requests that waited longest for their first token, in descending order.
    pub slowest: Vec<RequestRow>,
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Mean, ns; null: there is no value.
    #[serde(default)]
    pub mean_ns: Option<u64>,
    /// Median, ns; null: there is no value.
    pub p50_ns: Option<u64>,
    /// 90th percentile, ns; null for fewer than ten values.
    pub p90_ns: Option<u64>,
    /// 99th percentile, ns; null for too few values ([`P99_VALUES`](stage2_contract::stats::P99_VALUES)).
    pub p99_ns: Option<u64>,
    /// The largest value, ns.
    pub max_ns: Option<u64>,
}

/// GPU time and cost of the requests. GPU time is the time of the steps, multiplied by the number
/// of GPUs that ran them.
///
/// The time of a step is divided equally among its tokens. The requests whose prompt the step reads
/// share the part of the prompt tokens, in proportion to their mean number of prompt tokens per
/// step. The requests that decode share the rest equally. The shares of requests without a record
/// belong to no request here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestCost {
    /// Number of GPUs that ran the steps: those of each process that did.
    pub gpus: u64,
    /// GPU time of one request.
    pub gpu_time: Spread,
    /// GPU time of all steps that have a number, ns.
    pub steps_gpu_ns: u64,
    /// GPU time of the steps without a number, ns, such as those of an engine's warm-up: no request has a share of them,
    /// and `steps_gpu_ns` does not contain them.
    #[serde(default)]
    pub unnumbered_gpu_ns: u64,
    /// Sum of the GPU time of the requests, ns; at most `steps_gpu_ns`. The difference is the
    /// shares of requests that had not ended or have no record, and rounding (2 ns for each request
    /// on each GPU).
    pub requests_gpu_ns: u64,
    /// GPU time of the steps that did not work on all running requests, ns: the shares in these
    /// steps are approximate.
    pub approximate_gpu_ns: u64,
    /// Number of steps beyond the limit of the reader; no request has a share of them.
    pub other_steps: u64,
    /// GPU time from the begin of the first step to the end of the last one, with pauses, ns.
    pub run_gpu_ns: u64,
    /// GPU time of the steps by kind.
    pub kinds: Vec<StepCost>,
    /// Number of requests with all steps recorded, without those that were aborted before their
    /// first token. The two fields below count only these requests.
    pub whole_requests: u64,
    /// GPU time and cost of their prompt tokens, cached ones included.
    pub input: TokenCost,
    /// GPU time and cost of their output tokens.
    pub output: TokenCost,
}

/// GPU time of the steps of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepCost {
    /// [`EngineSteps::stage`].
    pub stage: String,
    /// GPU time, ns.
    pub gpu_ns: u64,
    /// Part of the GPU time that belongs to prompt tokens, ns.
    pub input_gpu_ns: u64,
}

/// GPU time and cost of tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenCost {
    /// Number of tokens.
    pub tokens: u64,
    /// Tokens per second, from the begin of the first step to the end of the last one; null: that
    /// time is 0.
    pub tokens_per_s: Option<f64>,
    /// GPU time, ns.
    pub gpu_ns: u64,
    /// Energy per token, J; null: the energy of a kind of step is not known, or there is no token.
    pub joules: Option<f64>,
    /// Price of a million tokens, US dollars; null: no price of a GPU hour is set, or there is no token.
    pub dollars_per_million: Option<f64>,
}

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestRow {
    /// Number of the request in the process that scheduled it.
    pub number: u64,
    /// Trace file of that process.
    pub file: String,
    /// Number of prompt tokens.
    pub prompt_tokens: u64,
    /// Number of cached prompt tokens.
    pub cached_tokens: u64,
    /// Number of output tokens.
    pub output_tokens: u64,
    /// Time from the arrival to the scheduling of the first step, ns.
    pub queue_ns: Option<u64>,
    /// Time from the arrival to the first token, ns.
    pub first_token_ns: Option<u64>,
    /// Mean time per output token after the first one, ns.
    pub token_ns: Option<u64>,
    /// GPU time of the request, ns; null: not known.
    pub gpu_ns: Option<u64>,
    /// Number of preemptions.
    pub preemptions: u64,
}
