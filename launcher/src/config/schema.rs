//! The composed tree -> typed settings. Fields mirror the presets in conf/, which hold the defaults.

use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::tools::ncu::config::Ncu;
use crate::tools::nsys::config::Nsys;
use stage2_analysis::llm::preset::ModelPreset;
use stage2_analysis::operators::{OperatorSettings, Stage1Settings};
use stage2_analysis::roofline::hardware::Hardware;
use stage2_model::TokenCounts;

/// All settings of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How the run goes.
    pub run: Run,
    /// What the reports show.
    pub report: Report,
    /// Where bundles are laid.
    pub artifacts: Artifacts,
    /// What is added to the command of the workload.
    pub workload: Workload,
    /// Settings of the collector.
    pub profiling: Profiling,
    /// Settings of the passes under other profilers.
    pub pipeline: Pipeline,
    /// What the workload marks, and which ranges are operators.
    pub operators: OperatorSettings,
    /// What the model is.
    pub model: Models,
    /// Peak rates of the GPU.
    pub hardware: Hardware,
    /// What the workload reads.
    pub inputs: Inputs,
    /// An earlier run of the Stage 1 profiler.
    pub stage1: Stage1Settings,
}

/// Passes under other profilers than the collector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// Nsight Systems.
    pub nsys: Nsys,
    /// Nsight Compute.
    pub ncu: Ncu,
}

/// Models that take part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// The language model.
    pub llm: ModelPreset,
    /// Tokens of one generation.
    pub tokens: TokenCounts,
}

/// How a run goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Which passes there are.
    pub mode: Mode,
    /// Run folder; none: a new one under [`Artifacts::stage2_dir`].
    pub dir: Option<PathBuf>,
    /// The workload is ended after this many seconds; none: never.
    pub timeout_s: Option<NonZeroU64>,
    /// Seconds between the request to end and the kill.
    pub kill_grace_s: u64,
    /// Whether the output of the workload is kept in files, too.
    pub tee: bool,
    /// Whether there is a pass that records ranges only.
    pub baseline: bool,
    /// How many of the newest bundles are kept; none: all.
    pub keep_last: Option<NonZeroU64>,
    /// Bytes that all bundles may have together before the oldest go; none: any number.
    pub keep_bytes: Option<NonZeroU64>,
    /// How many of the newest bundles keep their files uncompressed; none: all.
    pub keep_uncompressed: Option<NonZeroU64>,
    /// A bundle with more bytes than this gets a warning; none: none does.
    pub size_limit_bytes: Option<NonZeroU64>,
}

/// What the reports show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Rows of kernels.md.
    pub top_n: usize,
    /// Globs of NVTX domains whose ranges are those of libraries, beside the built-in list.
    #[serde(deserialize_with = "one_or_many", default)]
    pub library_domains: Vec<String>,
}

/// Which passes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every pass that is enabled.
    Deep,
    /// The collect pass, and the baseline pass where it is asked for.
    Light,
}

/// Where bundles are laid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifacts {
    /// Folder of all run folders.
    pub stage2_dir: PathBuf,
}

/// What is added to the command of the workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Hydra overrides that are appended, unless the command sets the same key itself.
    pub append: Vec<String>,
    /// Key of the workload that is set to the path of [`Inputs::manifest`]; none: it is not told.
    #[serde(default)]
    pub manifest_key: Option<String>,
}

/// Settings of the profilers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiling {
    /// Settings of the collect pass.
    pub collector: Collector,
}

/// Settings of the collector, one for each variable of its environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collector {
    /// Path of libstage2.so; none: it is looked for.
    pub library: Option<PathBuf>,
    /// Path of libcupti; none: the collector looks for it.
    pub cupti: Option<PathBuf>,
    /// Globs of the ranges to collect in; empty: everything.
    #[serde(deserialize_with = "one_or_many")]
    pub ranges: Vec<String>,
    /// Which instances of a range are collected.
    pub sample: Sample,
    /// How CUDA graphs are seen.
    pub graph: Graph,
    /// Activity buffers; none: the collector's choice.
    pub buffers: Option<Buffers>,
    /// Flush period, milliseconds.
    #[serde(deserialize_with = "flush_period")]
    pub flush_ms: u64,
    /// How work is attributed to the thread that launched it.
    pub attribution: Attribution,
    /// What the collector says on stderr.
    pub log: Log,
}

/// How work is attributed to the thread that launched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attribution {
    /// Fences where CUPTI allows it, else callbacks.
    Auto,
    /// Fences at range boundaries: nothing at a launch.
    Fence,
    /// A callback at every launch.
    Callback,
}

/// How CUDA graphs are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Graph {
    /// Every node has its record.
    Node,
    /// A graph launch is one record.
    Graph,
}

/// What the collector says on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Log {
    /// Nothing.
    Off,
    /// What goes wrong.
    Warn,
    /// What happens.
    Info,
    /// Everything.
    Debug,
}

/// What the workload reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// File that lists it.
    pub manifest: Option<PathBuf>,
}

/// A value that the collector would not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not of the form {form}")]
pub struct WrongForm {
    text: String,
    form: &'static str,
}

/// `1/N`: one in N instances is collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sample(u32);

impl TryFrom<String> for Sample {
    type Error = WrongForm;
    fn try_from(text: String) -> Result<Sample, WrongForm> {
        let one_in = stage2_settings::read_sample(&text).map(Sample);
        one_in.ok_or(WrongForm { text, form: stage2_settings::SAMPLE_FORM })
    }
}

impl From<Sample> for String {
    fn from(sample: Sample) -> String {
        format!("1/{}", sample.0)
    }
}

/// Memory for activity records: bytes in all, or `SIZE*COUNT` of its buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Buffers(String);

impl TryFrom<String> for Buffers {
    type Error = WrongForm;
    fn try_from(text: String) -> Result<Buffers, WrongForm> {
        match stage2_settings::read_buffers(&text) {
            Some(_) => Ok(Buffers(text)),
            None => Err(WrongForm { text, form: stage2_settings::BUFFERS_FORM }),
        }
    }
}

impl From<Buffers> for String {
    fn from(buffers: Buffers) -> String {
        buffers.0
    }
}

/// A flush period that the collector takes.
fn flush_period<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let ms = u64::deserialize(from)?;
    let fault =
        || D::Error::custom(format!("{ms}: it has to be {}", stage2_settings::FLUSH_MS_FORM));
    stage2_settings::FLUSH_MS.contains(&ms).then_some(ms).ok_or_else(fault)
}

/// A list of strings, or one string for a list of one.
fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct Names;
    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of globs, e.g. [prefill,decode*]")
        }
        fn visit_unit<E>(self) -> Result<Vec<String>, E> {
            Ok(Vec::new())
        }
        fn visit_str<E>(self, one: &str) -> Result<Vec<String>, E> {
            Ok(vec![one.to_owned()])
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<String>, A::Error> {
            let mut names = Vec::new();
            while let Some(name) = from.next_element::<String>()? {
                if name.is_empty() {
                    return Err(A::Error::custom("an empty glob matches nothing: leave it out"));
                }
                names.push(name);
            }
            Ok(names)
        }
    }
    from.deserialize_any(Names)
}
