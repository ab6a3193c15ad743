//! Adapters for inference engines (`conf/engine`) and range names -> the work of an engine step, or the model
//! module that a range belongs to.
//!
//! An adapter is data: regular expressions whose named groups capture the numbers of a step. The crate `regex`
//! matches in linear time for every expression.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use stage2_contract::text::{MODULE_RANGE, REQUEST_RANGE};
use stage2_model::Finding;
use stage2_model::finding::Id;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// Names longer than this are not matched, bytes.
const LONGEST_NAME: usize = 4 << 10;
/// Limit for the memory of a compiled expression, bytes.
const EXPRESSION_BYTES: usize = 1 << 20;
/// Limit for the number of expressions of an adapter.
const MOST_EXPRESSIONS: usize = 64;
/// Names that no engine gives its steps: an expression that matches one of them matches everything.
const NO_NAMES: [&str; 3] = ["", "x", "a range of no engine 7"];
/// Name of the group that holds the path of a module.
const MODULE: &str = "module";

/// What a step of an engine does. Its text is the name of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum StepKind {
    /// It only reads prompts.
    Prefill,
    /// It generates the next token of each request.
    Decode,
    /// It does both in one batch.
    Mixed,
    /// It verifies drafted tokens.
    Verify,
}

impl StepKind {
    /// Whether `name` is the name of a kind of step.
    pub fn is_name(name: &[u8]) -> bool {
        std::str::from_utf8(name).is_ok_and(|name| Self::from_str(name).is_ok())
    }
}

/// What a step works on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepWork {
    /// Requests that have not generated a token yet.
    pub prefill_requests: u64,
    /// Number of prompt tokens that the step reads; 0 although there are requests: not known.
    pub prefill_tokens: u64,
    /// Length of the contexts of these requests after the step, tokens.
    pub prefill_context_tokens: u64,
    /// Requests whose next token is generated.
    pub decode_requests: u64,
    /// New tokens of these requests: more than one each if the step verifies drafted tokens; 0: not
    /// known.
    pub decode_tokens: u64,
    /// Length of the contexts of these requests after the step, tokens.
    pub decode_context_tokens: u64,
    /// Drafted tokens that the step verifies.
    pub draft_tokens: u64,
}

/// A number of a step. Groups of expressions and fields of ranges use the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
enum Number {
    PrefillRequests,
    PrefillTokens,
    PrefillContextTokens,
    DecodeRequests,
    DecodeTokens,
    DecodeContextTokens,
    DraftTokens,
}

impl StepWork {
    /// The work of a range with these fields; none if no field counts requests.
    pub fn of_fields<'f>(fields: impl Iterator<Item = (&'f [u8], u64)>) -> Option<Self> {
        let mut work = Self::default();
        let (mut has_requests, mut has_prefill_tokens) = (false, false);
        for (name, value) in fields {
            let name = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
            let Some(number) = name else { continue };
            has_requests |= matches!(number, Number::PrefillRequests | Number::DecodeRequests);
            has_prefill_tokens |= number == Number::PrefillTokens;
            *work.number(number) = value;
        }
        (has_requests && work.is_sound(has_prefill_tokens)).then_some(work)
    }

    /// The kind of a step that does this work.
    pub fn kind(&self) -> StepKind {
        match (self.prefill_requests > 0, self.decode_requests > 0) {
            (true, true) => StepKind::Mixed,
            (true, false) => StepKind::Prefill,
            (false, _) if self.draft_tokens > 0 => StepKind::Verify,
            (false, _) => StepKind::Decode,
        }
    }

    /// Whether the step continues a request that an earlier step started.
    pub fn goes_on(&self) -> bool {
        self.decode_requests > 0
    }

    /// Adds the work of another step.
    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        for &number in Number::VARIANTS {
            let sum = self.number(number);
            *sum = sum.saturating_add(*other.number(number));
        }
    }

    fn number(&mut self, number: Number) -> &mut u64 {
        match number {
            Number::PrefillRequests => &mut self.prefill_requests,
            Number::PrefillTokens => &mut self.prefill_tokens,
            Number::PrefillContextTokens => &mut self.prefill_context_tokens,
            Number::DecodeRequests => &mut self.decode_requests,
            Number::DecodeTokens => &mut self.decode_tokens,
            Number::DecodeContextTokens => &mut self.decode_context_tokens,
            Number::DraftTokens => &mut self.draft_tokens,
        }
    }

    /// New tokens of all requests; `None`: not known for some requests.
    pub fn tokens(&self) -> Option<u64> {
        let generated = known(self.decode_requests, self.decode_tokens)?;
        Some(self.prompt_tokens()?.saturating_add(generated))
    }

    /// Prompt tokens that the step reads; `None`: not known.
    pub fn prompt_tokens(&self) -> Option<u64> {
        known(self.prefill_requests, self.prefill_tokens)
    }

    /// Whether there is a request, each request has at least one token if tokens are known, and no
    /// token is without a request.
    fn is_sound(&self, has_prefill_tokens: bool) -> bool {
        let fits = |requests: u64, tokens: u64| tokens >= requests && (requests > 0 || tokens == 0);
        (self.prefill_requests > 0 || self.decode_requests > 0)
            && (!has_prefill_tokens || fits(self.prefill_requests, self.prefill_tokens))
            && (self.decode_tokens == 0 || fits(self.decode_requests, self.decode_tokens))
    }
}

/// The tokens of so many requests; `None`: not known, because each request has at least one.
fn known(requests: u64, tokens: u64) -> Option<u64> {
    (requests == 0 || tokens > 0).then_some(tokens)
}

/// An adapter as `conf/engine` has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineSettings {
    /// Name of the engine; null: the built-in adapter whose expressions match.
    pub name: Option<String>,
    /// Expressions for names of ranges around a step. The named groups are the numbers of [`StepWork`].
    pub steps: Vec<String>,
    /// Expressions for names of ranges around a module. The group `module` is its path.
    pub modules: Vec<String>,
    /// Regular expressions for the names of ranges that the engine opens between two steps. These
    /// ranges belong to the earlier step.
    pub between: Vec<String>,
    /// Expressions for names of ranges that hold no work. They are left out.
    pub empty: Vec<String>,
}

/// Why an adapter cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AdapterError {
    /// It is not a regular expression, or it is too large.
    #[error("{expression:?} is not a usable regular expression: {why}")]
    Expression {
        /// The expression.
        expression: String,
        /// What is wrong with it.
        why: String,
    },
    /// It matches everything.
    #[error("{0:?} matches every name: spell out what only steps of this engine are called")]
    MatchesEverything(String),
    /// One of its groups is not a number of a step.
    #[error("{expression:?} has the unknown group {group:?}; known groups: {known}")]
    Group {
        /// The expression.
        expression: String,
        /// The group.
        group: String,
        /// All groups that are known.
        known: String,
    },
    /// It has too many expressions.
    #[error("it has more than {MOST_EXPRESSIONS} expressions")]
    TooMany,
}

impl AdapterError {
    /// The finding for an adapter that is not used.
    pub fn finding(&self) -> Finding {
        Id::EngineAdapter.found(
            format!("the engine's adapter cannot be used: {self}"),
            "the built-in adapters are used instead",
            "correct `engine`, and write the reports again",
        )
    }
}

/// What the name of a range says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// The range is a step of the engine.
    Step(StepWork),
    /// The range is a call of a module. Its path has `*` for the number of the layer.
    Module(String),
    /// The range marks the nodes of a CUDA graph that a module launches ([`MODULE_RANGE`]): the path of
    /// the module, with `*` for the number of the layer.
    Captured(String),
    /// A range between two steps, which belongs to the earlier one.
    Between,
    /// The range holds no work.
    Empty,
    /// The record of a request that ended ([`REQUEST_RANGE`]).
    Request,
    /// The name looks like that of a step, but its numbers are impossible.
    Unsound,
}

/// An adapter, ready to match.
#[derive(Debug)]
struct Adapter {
    name: String,
    steps: Vec<Regex>,
    modules: Vec<Regex>,
    between: Vec<Regex>,
    empty: Vec<Regex>,
}

/// The adapters that names of ranges are matched against.
#[derive(Clone)]
pub struct Engines(Arc<Vec<Adapter>>);

static BUILT_IN: LazyLock<Engines> = LazyLock::new(|| {
    // A test reads each of them.
    let read = |(_, text)| serde_saphyr::from_str::<EngineSettings>(text).ok();
    let presets = stage2_config::presets::group("engine").filter_map(read);
    Engines(Arc::new(presets.filter_map(|settings| Adapter::new(&settings).ok()).collect()))
});

impl Default for Engines {
    fn default() -> Self {
        BUILT_IN.clone()
    }
}

impl PartialEq for Engines {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Engines {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.0.iter().map(|adapter| &adapter.name)).finish()
    }
}

impl Engines {
    /// The adapter that `settings` describe, or all built-in ones where they name none.
    ///
    /// # Errors
    /// What is wrong with the adapter.
    pub fn of(settings: &EngineSettings) -> Result<Self, AdapterError> {
        match settings.name {
            None => Ok(Self::default()),
            Some(_) => Ok(Self(Arc::new(vec![Adapter::new(settings)?]))),
        }
    }

    /// The engine whose adapter matches the name of a range, and what the name states.
    pub fn read(&self, name: &[u8]) -> Option<(&str, Named)> {
        let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= LONGEST_NAME)?;
        if self.0.is_empty() {
            return None;
        }
        if name == REQUEST_RANGE {
            return Some(("", Named::Request));
        }
        if let Some(module) = name.strip_prefix(MODULE_RANGE) {
            return Some(("", Named::Captured(joined_layers(module))));
        }
        self.0.iter().find_map(|adapter| Some((adapter.name.as_str(), adapter.read(name)?)))
    }
}

impl Adapter {
    fn new(settings: &EngineSettings) -> Result<Self, AdapterError> {
        let EngineSettings { name, steps, modules, between, empty } = settings;
        if [steps, modules, between, empty].map(Vec::len).iter().sum::<usize>() > MOST_EXPRESSIONS {
            return Err(AdapterError::TooMany);
        }
        let numbers: Vec<&str> = Number::VARIANTS.iter().map(|&number| number.into()).collect();
        let all = |texts: &[String], groups: &[&str]| -> Result<Vec<Regex>, AdapterError> {
            texts.iter().map(|text| expression(text, groups)).collect()
        };
        Ok(Self {
            name: name.clone().unwrap_or_default(),
            steps: all(steps, &numbers)?,
            modules: all(modules, &[MODULE])?,
            between: all(between, &[])?,
            empty: all(empty, &[MODULE])?,
        })
    }

    fn read(&self, name: &str) -> Option<Named> {
        if self.empty.iter().any(|empty| empty.is_match(name)) {
            return Some(Named::Empty);
        }
        let step = self.steps.iter().find_map(|step| Some(work(step, &step.captures(name)?)));
        let module = || {
            let found = self.modules.iter().find_map(|module| module.captures(name))?;
            Some(Named::Module(joined_layers(found.name(MODULE)?.as_str())))
        };
        let is_between = || self.between.iter().any(|between| between.is_match(name));
        step.or_else(module).or_else(|| is_between().then_some(Named::Between))
    }
}

fn expression(text: &str, groups: &[&str]) -> Result<Regex, AdapterError> {
    let built = RegexBuilder::new(&format!("^(?:{text})$"))
        .size_limit(EXPRESSION_BYTES)
        .dot_matches_new_line(true)
        .build();
    let regex = built.map_err(|error| AdapterError::Expression {
        expression: text.to_owned(),
        why: error.to_string(),
    })?;
    if NO_NAMES.iter().any(|name| regex.is_match(name)) {
        return Err(AdapterError::MatchesEverything(text.to_owned()));
    }
    match regex.capture_names().flatten().find(|group| !groups.contains(group)) {
        Some(group) => Err(AdapterError::Group {
            expression: text.to_owned(),
            group: group.to_owned(),
            known: groups.join(", "),
        }),
        None => Ok(regex),
    }
}

fn work(step: &Regex, found: &regex::Captures<'_>) -> Named {
    let mut work = StepWork::default();
    let mut has_prefill_tokens = false;
    for name in step.capture_names().flatten() {
        let (Some(text), Ok(number)) = (found.name(name), name.parse()) else { continue };
        has_prefill_tokens |= number == Number::PrefillTokens;
        match text.as_str().parse() {
            Ok(value) => *work.number(number) = value,
            Err(_) => return Named::Unsound,
        }
    }
    match work.is_sound(has_prefill_tokens) {
        true => Named::Step(work),
        // Nothing was scheduled for this step.
        false if work == StepWork::default() => Named::Empty,
        false => Named::Unsound,
    }
}

/// The path of a module without the leading class, and with `*` for the numbers of layers.
fn joined_layers(path: &str) -> String {
    let (class, rest) = path.split_once('.').unwrap_or(("", path));
    let path = if class.starts_with(char::is_uppercase) { rest } else { path };
    let part = |part: &str| match part.parse::<u64>() {
        Ok(_) => "*".to_owned(),
        Err(_) => part.to_owned(),
    };
    path.split('.').map(part).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str) -> Option<(String, Named)> {
        let (engine, named) =
            Engines::default().read(name.as_bytes()).map(|(e, n)| (e.to_owned(), n))?;
        Some((engine, named))
    }

    fn adapter(steps: &[&str]) -> Result<Engines, AdapterError> {
        let steps = steps.iter().map(|&step| step.to_owned()).collect();
        Engines::of(&EngineSettings { name: Some("own".into()), steps, ..Default::default() })
    }

    #[test]
    fn every_preset_can_be_used() {
        for (name, text) in stage2_config::presets::group("engine") {
            let settings: EngineSettings = serde_saphyr::from_str(text).expect(name);
            Adapter::new(&settings).expect(name);
            assert_eq!(settings.name.as_deref(), Some(name).filter(|name| *name != "auto"));
        }
    }

    #[test]
    fn steps_of_vllm_say_what_they_work_on() {
        let step = |work| Some(("vllm".to_owned(), Named::Step(work)));
        let decode = StepWork { decode_requests: 16, decode_tokens: 16, ..Default::default() };
        assert_eq!(read("execute_context_0(0)_generation_16(16)"), step(decode));
        let mixed = StepWork { prefill_requests: 13, prefill_tokens: 6_656, ..decode };
        assert_eq!(read("execute_context_13(6656)_generation_16(16)"), step(mixed));
        assert_eq!(mixed.kind(), StepKind::Mixed);
        let detailed = StepWork {
            prefill_requests: 2,
            prefill_tokens: 64,
            prefill_context_tokens: 96,
            decode_requests: 1,
            decode_tokens: 1,
            decode_context_tokens: 33,
            draft_tokens: 0,
        };
        let name =
            "execute_65_context_2(sq64sk96sqsq2048sqsk3072)_generation_1(sq1sk33sqsq1sqsk33)";
        assert_eq!(read(name), step(detailed));
        let idle = read("execute_context_0(0)_generation_0(0)").map(|(_, named)| named);
        assert_eq!(idle, Some(Named::Empty));
    }

    /// Names of ranges from the sources of SGLang 0.5.23 (`build_step_span_name`, `PytHooks`,
    /// `scheduler_stage_method`) and of TensorRT-LLM (`PyExecutor._forward_step`: releases 0.17 and
    /// 1.0, commit 00043967).
    #[test]
    fn names_of_sglang_and_tensorrt_llm_are_understood() {
        let prefill = |requests, tokens| StepWork {
            prefill_requests: requests,
            prefill_tokens: tokens,
            ..Default::default()
        };
        let decode = |requests| StepWork { decode_requests: requests, ..Default::default() };
        let mixed = |prefill: StepWork| StepWork { decode_requests: 7, ..prefill };
        for (engine, name, expected) in [
            ("sglang", "step[EXTEND bs=2 toks=1024]", Named::Step(prefill(2, 1_024))),
            ("sglang", "step[DECODE bs=16]", Named::Step(decode(16))),
            ("sglang", "step[DECODE bs=1 sum_seq=9 forward_id=4]", Named::Step(decode(1))),
            ("sglang", "step[EXTEND bs=2 toks=1]", Named::Unsound),
            ("sglang", "step[IDLE bs=0]", Named::Empty),
            ("sglang", "scheduler.process_batch_result", Named::Between),
            ("sglang", "aten::argmax", Named::Between),
            (
                "sglang",
                "{'Module': 'model.model.layers.3.mlp', 'Inputs': [[8, 4096]]}",
                Named::Module("model.layers.*.mlp".into()),
            ),
            (
                "tensorrt-llm",
                "[Executor] _forward_step: 3 ctx reqs, 0 gen reqs",
                Named::Step(prefill(3, 0)),
            ),
            (
                "tensorrt-llm",
                "[Executor] _forward_step 812: 3 ctx reqs, 7 gen reqs",
                Named::Step(mixed(prefill(3, 0))),
            ),
            (
                "tensorrt-llm",
                "[Executor] _forward_step 60000: 1 ctx reqs, 512 ctx tokens, 7 gen reqs",
                Named::Step(mixed(prefill(1, 512))),
            ),
            (
                "tensorrt-llm",
                "[Executor] _forward_step 1: 0 ctx reqs, 0 ctx tokens, 0 gen reqs",
                Named::Empty,
            ),
            (
                "tensorrt-llm",
                "[Executor] _forward_step 1: 2 ctx reqs, 0 ctx tokens, 0 gen reqs",
                Named::Unsound,
            ),
            ("tensorrt-llm", "_sample_async", Named::Between),
            ("tensorrt-llm", "prepare_resources", Named::Between),
        ] {
            assert_eq!(read(name), Some((engine.to_owned(), expected)), "{name}");
        }
        assert_eq!(mixed(prefill(3, 0)).kind(), StepKind::Mixed);
        assert_eq!((prefill(3, 0).tokens(), prefill(3, 9).tokens()), (None, Some(9)));
        for name in ["step[MIXED bs=9]", "step[VERIFY bs=4]", "_sample", "scheduler"] {
            assert_eq!(read(name), None, "{name}");
        }
    }

    #[test]
    fn names_that_only_look_like_those_of_an_engine_are_none_or_unsound() {
        for name in ["execute_context", "my execute_context_0(0)_generation_1(1)", "decode", ""] {
            assert_eq!(read(name), None, "{name}");
        }
        for numbers in ["1(0)_generation_0(0)", "0(5)_generation_1(1)", "0(0)_generation_3(1)"] {
            let name = format!("execute_context_{numbers}");
            assert_eq!(read(&name).map(|(_, named)| named), Some(Named::Unsound), "{name}");
        }
        let huge = format!("execute_context_{}(1)_generation_1(1)", "9".repeat(30));
        assert_eq!(read(&huge).map(|(_, named)| named), Some(Named::Unsound));
    }

    #[test]
    fn modules_are_paths_with_their_layers_joined() {
        let module = |path: &str| Some(("vllm".to_owned(), Named::Module(path.to_owned())));
        let name = "{'Module': 'LlamaForCausalLM.model.layers.0.self_attn.qkv_proj', 'TrainableParams': \
                    {'weight': [3072, 2048]}, 'Inputs': [[16, 2048]]}";
        assert_eq!(read(name), module("model.layers.*.self_attn.qkv_proj"));
        let twin = "{'Module': 'LlamaForCausalLM.model.norm', 'Outputs': [[16, 2048]]}";
        assert_eq!(read(twin).map(|(_, named)| named), Some(Named::Empty));
        let whole = "{'Module': 'LlamaForCausalLM', 'input_ids': [[64]], 'positions': [[64]]}";
        assert_eq!(read(whole), module("LlamaForCausalLM"));
    }

    #[test]
    fn an_adapter_that_cannot_be_used_says_why() {
        let error = |step: &str| adapter(&[step]).err().map(|error| error.to_string());
        assert!(error(".*").is_some_and(|text| text.contains("matches every name")));
        assert!(
            error("(?<decode_requests>\\d*)").is_some_and(|text| text.contains("matches every"))
        );
        let group = error("step (?<batch>\\d+)").expect("an error");
        assert!(group.contains("\"batch\"") && group.contains("decode_requests"), "{group}");
        assert!(error("step (").is_some_and(|text| text.contains("not a usable regular")));
        assert!(error("step (a{1000}){1000}").is_some_and(|text| text.contains("not a usable")));
        assert!(adapter(&["step"; 65]).is_err());
        // Expressions that backtrack without end elsewhere.
        let engines = adapter(&["step (a+)+b (?<decode_requests>\\d+)"]).expect("it is sound");
        let name = format!("step {} 7", "a".repeat(4_000));
        assert_eq!(engines.read(name.as_bytes()), None);
    }

    #[test]
    fn fields_of_a_range_say_what_a_step_works_on() {
        let of = |fields: &[(&str, u64)]| {
            StepWork::of_fields(fields.iter().map(|(name, value)| (name.as_bytes(), *value)))
        };
        let work = of(&[("decode_requests", 8), ("decode_tokens", 32), ("draft_tokens", 24)]);
        assert_eq!(work.map(|work| work.kind()), Some(StepKind::Verify));
        assert_eq!(of(&[("tokens", 8)]), None);
        assert_eq!(of(&[("prefill_requests", 0), ("prefill_tokens", 5)]), None);
        assert_eq!(of(&[("prefill_requests", 2), ("prefill_tokens", 0)]), None);
        assert_eq!(of(&[("prefill_requests", 2)]).map(|work| work.kind()), Some(StepKind::Prefill));
        assert_eq!(of(&[("decode_requests", 8)]).map(|work| work.kind()), Some(StepKind::Decode));
        assert_eq!(of(&[("decode_requests", 0)]), None);
    }
}
