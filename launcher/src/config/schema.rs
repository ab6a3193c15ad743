//! The composed tree -> typed settings. Fields mirror the presets in conf/, which hold the defaults and
//! say what each key is for.

use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use crate::tools::ncu::config::Ncu;
use crate::tools::nsys::config::Nsys;
use stage2_contract::settings;
use stage2_model::TokenCounts;
use stage2_read::engine::EngineSettings;
use stage2_read::roles::RoleSettings;
use stage2_report::RedactSettings;
use stage2_report::llm::preset::ModelPreset;
use stage2_report::operators::{OperatorSettings, Stage1Settings};
use stage2_report::roofline::hardware::Hardware;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Config {
    pub(crate) run: Run,
    pub(crate) report: Report,
    pub(crate) artifacts: Artifacts,
    pub(crate) workload: Workload,
    pub(crate) profiling: Profiling,
    pub(crate) pipeline: Pipeline,
    pub(crate) operators: OperatorSettings,
    #[serde(default)]
    pub(crate) roles: RoleSettings,
    /// What the inference engine calls its steps.
    #[serde(default)]
    pub(crate) engine: EngineSettings,
    pub(crate) model: Models,
    pub(crate) hardware: Hardware,
    pub(crate) inputs: Inputs,
    pub(crate) stage1: Stage1Settings,
    #[serde(default)]
    pub(crate) redact: RedactSettings,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pipeline {
    pub(crate) nsys: Nsys,
    pub(crate) ncu: Ncu,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Models {
    pub(crate) llm: ModelPreset,
    /// Whether the model that the command names is used if no other is known.
    #[serde(default = "yes")]
    pub(crate) from_command: bool,
    pub(crate) tokens: TokenCounts,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) mode: Mode,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) group: Option<String>,
    pub(crate) timeout_s: Option<NonZeroU64>,
    pub(crate) kill_grace_s: u64,
    pub(crate) tee: bool,
    pub(crate) baseline: bool,
    pub(crate) keep_last: Option<NonZeroU64>,
    pub(crate) keep_bytes: Option<NonZeroU64>,
    pub(crate) keep_uncompressed: Option<NonZeroU64>,
    pub(crate) size_limit_bytes: Option<NonZeroU64>,
}

impl Run {
    /// Whether older bundles may be deleted or compressed.
    pub(crate) fn limits_bundles(&self) -> bool {
        self.keep_last.or(self.keep_bytes).or(self.keep_uncompressed).is_some()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) top_n: usize,
    /// Price of one GPU for an hour, US dollars; `None`: tokens have no price.
    #[serde(default)]
    pub(crate) gpu_hour_dollars: Option<f64>,
    #[serde(deserialize_with = "one_or_many", default)]
    pub(crate) library_domains: Vec<String>,
    #[serde(default = "inferred")]
    pub(crate) infer_stages: bool,
}

fn inferred() -> bool {
    true
}

/// Every pass that is enabled, or the collect pass and, where it is asked for, the baseline pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    Deep,
    Light,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Artifacts {
    pub(crate) stage2_dir: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Workload {
    /// Hydra overrides that are appended, unless the command sets the same key itself.
    pub(crate) append: Vec<String>,
    /// Key of the workload that is set to the path of [`Inputs::manifest`]; none: it is not told.
    pub(crate) manifest_key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Profiling {
    pub(crate) collector: Collector,
}

/// Settings of the collector, one for each variable of its environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Collector {
    pub(crate) library: Option<PathBuf>,
    pub(crate) cupti: Option<PathBuf>,
    #[serde(default)]
    pub(crate) cupti_api: CuptiApi,
    #[serde(default, deserialize_with = "hardware_trace")]
    pub(crate) hwtrace: HardwareTrace,
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) ranges: Vec<String>,
    #[serde(deserialize_with = "sample")]
    pub(crate) sample: String,
    pub(crate) graph: Graph,
    #[serde(deserialize_with = "buffers", default)]
    pub(crate) buffers: Option<String>,
    #[serde(deserialize_with = "rotate", default)]
    pub(crate) rotate: Option<String>,
    #[serde(deserialize_with = "watch", default)]
    pub(crate) watch: Option<String>,
    #[serde(default)]
    pub(crate) detail: Option<Detail>,
    #[serde(deserialize_with = "flush_period")]
    pub(crate) flush_ms: u64,
    pub(crate) attribution: Attribution,
    /// `auto`, or the collector's own words, which its settings crate reads.
    #[serde(default = "off", deserialize_with = "counters")]
    pub(crate) counters: String,
    /// Whether the guest's threads are sampled, or how often, in the collector's own words.
    #[serde(default = "off", deserialize_with = "host")]
    pub(crate) host: String,
    pub(crate) log: Log,
}

/// What is kept of ranges and GPU work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Detail {
    Records,
    Full,
    Summary,
    Auto,
}

/// Which of CUPTI's two activity APIs brings the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CuptiApi {
    #[default]
    Auto,
    V1,
    /// Where the CUPTI has it.
    V2,
}

/// Whether the hardware is to take the times of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HardwareTrace {
    /// No. Configurations of earlier versions say `auto`: what they recorded does not change by it.
    #[default]
    #[serde(alias = "auto")]
    Off,
    /// Where CUPTI and the GPU can.
    On,
}

/// By fences at range boundaries, or by a callback at every launch; auto: fences where CUPTI allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Attribution {
    Auto,
    Fence,
    Callback,
}

/// A record for every node, or one for a graph launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Graph {
    Node,
    Graph,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Log {
    Off,
    Warn,
    Info,
    Debug,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inputs {
    pub(crate) manifest: Option<PathBuf>,
}

/// `off` or `on`. YAML reads them as truth values where nobody quotes them.
fn hardware_trace<'de, D: Deserializer<'de>>(from: D) -> Result<HardwareTrace, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected off or on")]
    enum Given {
        Switch(bool),
        Word(HardwareTrace),
    }
    Ok(match Given::deserialize(from)? {
        Given::Switch(false) => HardwareTrace::Off,
        Given::Switch(true) => HardwareTrace::On,
        Given::Word(word) => word,
    })
}

/// What a configuration of an earlier version means by not having the key.
fn off() -> String {
    "off".to_owned()
}

/// `on`, `off` or a list of metrics. YAML reads the first two as truth values where nobody quotes them.
fn counters<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected auto, off, on, or METRIC,...[@INTERVAL_US]")]
    enum Counters {
        Switch(bool),
        Text(String),
        Many(Vec<String>),
    }
    let text = match Counters::deserialize(from)? {
        Counters::Switch(true) => "on".to_owned(),
        Counters::Switch(false) => "off".to_owned(),
        Counters::Text(text) => text,
        Counters::Many(metrics) => metrics.join(","),
    };
    if text == "auto" || settings::read_counters(&text).is_some() {
        return Ok(text);
    }
    Err(D::Error::custom(format!("{text:?} is not auto, {}", settings::COUNTERS_FORM)))
}

/// `on`, `off` or a rate.
fn host<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected off, on or samples a second, from 1 to 1000")]
    enum Host {
        Switch(bool),
        Rate(u32),
        Text(String),
    }
    let text = match Host::deserialize(from)? {
        Host::Switch(on) => if on { "on" } else { "off" }.to_owned(),
        Host::Rate(hz) => hz.to_string(),
        Host::Text(text) => text,
    };
    of_form(text, |text| settings::read_host(text).is_some(), settings::HOST_FORM)
}

/// `1/N`: one in N instances of a range is collected.
fn sample<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    of_form(text, |text| settings::read_sample(text).is_some(), settings::SAMPLE_FORM)
}

/// Bytes in all, or `SIZE*COUNT`.
fn buffers<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let is_read = |text: &str| settings::read_buffers(text).is_some();
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| of_form(text, is_read, settings::BUFFERS_FORM)).transpose()
}

fn rotate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let is_read = |text: &str| settings::read_rotate(text).is_some();
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| of_form(text, is_read, settings::ROTATE_FORM)).transpose()
}

fn watch<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let is_read = |text: &str| settings::read_watch(text).is_some();
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| of_form(text, is_read, settings::WATCH_FORM)).transpose()
}

/// Refuses a text that the collector could not read.
fn of_form<E: serde::de::Error>(
    text: String,
    is_read: fn(&str) -> bool,
    form: &str,
) -> Result<String, E> {
    if is_read(&text) { Ok(text) } else { Err(E::custom(format!("{text:?} must be {form}"))) }
}

/// A flush period that the collector takes.
fn flush_period<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let ms = u64::deserialize(from)?;
    if settings::FLUSH_MS.contains(&ms) {
        return Ok(ms);
    }
    Err(D::Error::custom(format!("{ms}: it has to be {}", settings::FLUSH_MS_FORM)))
}

/// A list of globs, or one glob for a list of one.
fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a list of globs, e.g. [prefill,decode*]")]
    enum Globs {
        One(String),
        Many(Vec<String>),
    }
    match Option::<Globs>::deserialize(from)? {
        None => Ok(Vec::new()),
        Some(Globs::One(glob)) => Ok(vec![glob]),
        Some(Globs::Many(globs)) if globs.iter().any(String::is_empty) => {
            Err(D::Error::custom("an empty glob matches nothing: leave it out"))
        }
        Some(Globs::Many(globs)) => Ok(globs),
    }
}
