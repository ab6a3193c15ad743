//! The preset of nsys -> typed settings that are known to make sense together.
//!
//! Keys are the switches of `nsys profile` with `_` for `-`; conf/profiling/nsys/ holds the defaults.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::tools::word;

/// Settings of the nsys pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nsys {
    /// Whether there is such a pass.
    pub enable: bool,
    /// Name on PATH, or path, of the tool.
    pub executable: PathBuf,
    /// `--trace`: what is recorded; a list, or one text with commas.
    #[serde(deserialize_with = "words")]
    pub trace: Vec<String>,
    /// `--sample`: sampling of the CPU.
    pub sample: CpuScope,
    /// `--cpuctxsw`: context switches of the CPU.
    pub cpuctxsw: CpuScope,
    /// `--capture-range`: what starts the capture.
    pub capture_range: CaptureRange,
    /// `--nvtx-capture`: the range that starts it, for [`CaptureRange::Nvtx`].
    pub nvtx_capture: Option<String>,
    /// `--capture-range-end`: what its end does; none: `stop`. nsys's own choice would end the
    /// workload.
    pub capture_range_end: Option<String>,
    /// `--kill`: what ends the workload when nsys shuts down; none: nsys's own choice.
    pub kill: Option<String>,
    /// Only ranges whose name is a registered string start a capture.
    pub register_only: bool,
    /// `--nvtx-domain-include`: record these domains only.
    #[serde(deserialize_with = "words")]
    pub nvtx_domain_include: Vec<String>,
    /// `--nvtx-domain-exclude`: record all but these.
    #[serde(deserialize_with = "words")]
    pub nvtx_domain_exclude: Vec<String>,
    /// `--cuda-graph-trace`: how CUDA graphs are seen.
    pub cuda_graph_trace: GraphTrace,
    /// `--env-var`: further variables of the workload.
    pub env_var: BTreeMap<String, String>,
    /// `--force-overwrite`: a report of the same name is replaced.
    pub force_overwrite: bool,
    /// Further words for `nsys profile`.
    pub extra_args: Vec<String>,
    /// What the report is turned into.
    pub export: Export,
    /// The pass is ended after this many seconds; none: never.
    pub time_limit_s: Option<NonZeroU64>,
    /// Bytes that nsys may write before the pass is ended, which keeps what it has by then; none: any number.
    pub size_limit_bytes: Option<NonZeroU64>,
    /// Seconds after which export and stats are ended, each.
    pub export_time_limit_s: NonZeroU64,
}

/// What the report is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// SQLite.
    pub sqlite: bool,
    /// The tables of `nsys stats`.
    pub stats_csv: bool,
    /// Keep the report of nsys. The SQLite file is a copy without environments, arguments and output.
    pub keep_raw: bool,
}

/// Which processes the CPU side of nsys watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuScope {
    /// None.
    None,
    /// The workload and its children.
    ProcessTree,
    /// All of the machine.
    SystemWide,
}

/// What starts the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CaptureRange {
    /// The start of the workload.
    #[serde(rename = "none")]
    None,
    /// An NVTX range.
    #[serde(rename = "nvtx")]
    Nvtx,
    /// A call of cudaProfilerStart.
    #[serde(rename = "cudaProfilerApi", alias = "cudaprofilerapi")]
    CudaProfilerApi,
    /// A key that is pressed in a window: known, and refused.
    #[serde(rename = "hotkey")]
    Hotkey,
}

/// How CUDA graphs are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GraphTrace {
    /// Every node has its record.
    #[serde(rename = "node")]
    Node,
    /// A graph launch is one record.
    #[serde(rename = "graph")]
    Graph,
    /// A graph launch is one record, for launches by the host only.
    #[serde(rename = "graph:host-only")]
    GraphHostOnly,
    /// A graph launch is one record, for launches by the host and by the device.
    #[serde(rename = "graph:host-and-device")]
    GraphHostAndDevice,
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("wrong value for `pipeline.nsys.{key}`: {what}")]
pub struct Invalid {
    /// The key, below `pipeline.nsys`.
    pub key: &'static str,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// Switches that keys speak of, and that are not for `extra_args`.
const OWN_SWITCHES: &[(&str, &str)] = &[
    ("-t", "trace"),
    ("--trace", "trace"),
    ("-s", "sample"),
    ("--sample", "sample"),
    ("--cpuctxsw", "cpuctxsw"),
    ("-c", "capture_range"),
    ("--capture-range", "capture_range"),
    ("--capture-range-end", "capture_range_end"),
    ("-p", "nvtx_capture"),
    ("--nvtx-capture", "nvtx_capture"),
    ("--kill", "kill"),
    ("--nvtx-domain-include", "nvtx_domain_include"),
    ("--nvtx-domain-exclude", "nvtx_domain_exclude"),
    ("--cuda-graph-trace", "cuda_graph_trace"),
    ("-e", "env_var"),
    ("--env-var", "env_var"),
    ("-f", "force_overwrite"),
    ("--force-overwrite", "force_overwrite"),
    ("--export", "export"),
    ("--stats", "export.stats_csv"),
    ("-o", "artifacts.stage2_dir"),
    ("--output", "artifacts.stage2_dir"),
];

impl Nsys {
    /// The range that starts the capture, where one does; an error where its expression is missing or wrong.
    pub(crate) fn capture(&self) -> Result<Option<CaptureExpression>, Invalid> {
        let invalid = |what| Invalid { key: "nvtx_capture", what };
        if self.capture_range != CaptureRange::Nvtx {
            return Ok(None);
        }
        let text = self.nvtx_capture.as_deref().unwrap_or_default();
        if text.trim().is_empty() {
            return Err(invalid(
                "it is empty, but capture_range=nvtx needs the name of a range: give RANGE, \
                 RANGE@DOMAIN or RANGE@*, for instance nvtx_capture=decode@*"
                    .into(),
            ));
        }
        text.parse::<CaptureExpression>().map(Some).map_err(|why| invalid(why.to_string()))
    }

    /// Whether something has to happen before anything is recorded.
    pub(crate) fn gated(&self) -> bool {
        self.capture_range != CaptureRange::None
    }

    /// What happens at the end of the capture range.
    pub(crate) fn range_end(&self) -> &str {
        self.capture_range_end.as_deref().unwrap_or("stop")
    }

    /// Whether nsys ends the workload at the end of the capture range.
    pub(crate) fn ends_workload(&self) -> bool {
        self.gated() && self.range_end().contains("shutdown")
    }

    /// These settings with [`Export::keep_raw`] off: `merge` need not keep a report, which stays where it was.
    pub(crate) fn without_report(&self) -> Nsys {
        Nsys { export: Export { keep_raw: false, ..self.export }, ..self.clone() }
    }

    /// These settings without a capture range: nsys records from the start of the workload to its end.
    pub fn without_gate(&self) -> Nsys {
        Nsys { capture_range: CaptureRange::None, ..self.clone() }
    }

    /// Checks what the type of a single key cannot say; the first setting that cannot be used is the error.
    pub fn validate(&self) -> Result<(), Invalid> {
        let fail = |key, what: String| Err(Invalid { key, what });
        if self.capture_range == CaptureRange::Hotkey {
            let what = "hotkey works in the windows of graphics applications only, see `nsys profile \
                        --help`: nothing would be recorded of a workload without a window; use \
                        nvtx with nvtx_capture, or cudaProfilerApi";
            return fail("capture_range", what.into());
        }
        self.check_trace()?;
        self.capture()?;
        if !is_range_end(self.range_end()) {
            let words = "none, stop, stop-shutdown, repeat, repeat:N, repeat-shutdown:N (N from 1)";
            return fail("capture_range_end", format!("{:?} is none of {words}", self.range_end()));
        }
        if let Some(kill) = self.kill.as_ref().filter(|kill| !is_kill(kill)) {
            let words = "none, sigterm, sigkill, or a signal number in quotes";
            return fail("kill", format!("{kill:?} is none of {words}"));
        }
        if !self.nvtx_domain_include.is_empty() && !self.nvtx_domain_exclude.is_empty() {
            let what = "nsys takes either nvtx_domain_include or this: leave one of them empty";
            return fail("nvtx_domain_exclude", what.into());
        }
        for (name, value) in &self.env_var {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty()
                || !name.chars().all(plain)
                || name.starts_with(|c: char| c.is_ascii_digit())
            {
                return fail("env_var", format!("{name:?} cannot be the name of a variable"));
            }
            if value.contains(',') || value.chars().any(char::is_control) {
                let what = format!(
                    "nsys splits the value of {name} at its commas; set it in the environment of \
                     stage2-launch instead, which the workload inherits"
                );
                return fail("env_var", what);
            }
        }
        for word in &self.extra_args {
            let switch = word.split_once('=').map_or(word.as_str(), |(switch, _)| switch);
            if let Some((_, key)) = OWN_SWITCHES.iter().find(|(own, _)| *own == switch) {
                return fail("extra_args", format!("{switch} is set by the key `{key}`: use that"));
            }
            if word.is_empty() || word.contains('\0') || word == "--" {
                return fail("extra_args", format!("{word:?} is not an argument of nsys"));
            }
        }
        if self.executable.as_os_str().is_empty() {
            return fail("executable", "it is empty: give nsys, or the path of it".into());
        }
        Ok(())
    }

    fn check_trace(&self) -> Result<(), Invalid> {
        let fail = |key, what: String| Err(Invalid { key, what });
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.trace.is_empty() {
            return fail("trace", "it is empty: give for instance [cuda,nvtx], or none".into());
        }
        if let Some(odd) = self.trace.iter().find(|api| api.is_empty() || !api.chars().all(plain)) {
            return fail("trace", format!("{odd:?} is not the name of an API, e.g. cuda"));
        }
        let traces = |wanted: &str| {
            self.trace.iter().any(|api| {
                api == wanted || api.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('-'))
            })
        };
        let needs = |api: &str| {
            let range = word(self.capture_range);
            let given = self.trace.join(",");
            fail("trace", format!("capture_range={range} needs {api} in it, and it is [{given}]"))
        };
        match self.capture_range {
            CaptureRange::Nvtx if !traces("nvtx") => needs("nvtx"),
            CaptureRange::CudaProfilerApi if !traces("cuda") => needs("cuda"),
            _ => Ok(()),
        }
    }
}

fn is_range_end(word: &str) -> bool {
    match word.split_once(':') {
        Some(("repeat" | "repeat-shutdown", count)) => count.parse::<u32>().is_ok_and(|n| n > 0),
        Some(_) => false,
        None => matches!(word, "none" | "stop" | "stop-shutdown" | "repeat"),
    }
}

fn is_kill(word: &str) -> bool {
    let is_signal = word.parse::<u8>().is_ok_and(|number| (1..=64).contains(&number));
    is_signal || matches!(word, "none" | "sigterm" | "sigkill")
}

/// A list of words, or one text with commas between them.
fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a list of words, e.g. [cuda,nvtx]")]
    enum Words {
        List(Vec<String>),
        Text(String),
    }
    Ok(match Option::<Words>::deserialize(from)? {
        Some(Words::List(words)) => words,
        Some(Words::Text(text)) => {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        }
        None => Vec::new(),
    })
}

/// An NVTX capture expression: `RANGE`, `RANGE@DOMAIN` or `RANGE@*`. nsys compares whole names. What else a
/// user may write (`decode*`, the domain first, a role) stands for the range that the collect pass saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CaptureExpression {
    /// The expression as nsys takes it.
    pub(crate) text: String,
    range: String,
    domain: DomainChoice,
}

/// In which domains the range is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DomainChoice {
    Default,
    Named(String),
    Any,
}

impl CaptureExpression {
    /// The expression for a range of this name and domain. nsys 2023.4 finds a name with an @ in it by a whole
    /// expression only, so that such a name in the default domain is looked for in any.
    pub(crate) fn of(range: &str, domain: Option<&str>) -> Self {
        let escaped = |text: &str| text.replace('@', "\\@");
        let (end, domain) = match domain {
            Some(domain) => {
                (format!("@{}", escaped(domain)), DomainChoice::Named(domain.to_owned()))
            }
            None if range.contains('@') => ("@*".to_owned(), DomainChoice::Any),
            None => (String::new(), DomainChoice::Default),
        };
        Self { text: format!("{}{end}", escaped(range)), range: range.to_owned(), domain }
    }

    /// Whether a range of this name and domain (none: the default one) starts the capture.
    pub(crate) fn takes(&self, range: &str, domain: Option<&str>) -> bool {
        let in_domain = match &self.domain {
            DomainChoice::Default => domain.is_none(),
            DomainChoice::Named(name) => domain == Some(name),
            DomainChoice::Any => true,
        };
        in_domain && self.range == range
    }

    /// Why no range may match, where the expression looks as if something else was meant.
    pub(crate) fn doubt(&self) -> Option<&'static str> {
        if self.range.contains('*') {
            return Some("nsys compares whole names: a * in the name of a range is not a wildcard");
        }
        if self.range.ends_with('/') {
            return Some("the slash at the end belongs to ncu's --nvtx-include, not to nsys");
        }
        (self.domain == DomainChoice::Default)
            .then_some("a name without @DOMAIN is looked for in the default domain only")
    }
}

/// A text that says no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {what}; give RANGE, RANGE@DOMAIN or RANGE@* (\\@ for an @ in a name)")]
pub(crate) struct NoExpression {
    text: String,
    what: &'static str,
}

impl FromStr for CaptureExpression {
    type Err = NoExpression;

    fn from_str(text: &str) -> Result<Self, NoExpression> {
        let refused = |what| Err(NoExpression { text: text.to_owned(), what });
        if text.chars().any(|c| c.is_control()) {
            return refused("has a control character in it");
        }
        // No text holds a zero byte here: it can stand for an @ that separates nothing.
        let escaped = text.replace("\\@", "\0");
        let parts: Vec<String> = escaped.split('@').map(|part| part.replace('\0', "@")).collect();
        let (range, domain) = match parts.as_slice() {
            [range] => (range, DomainChoice::Default),
            [range, domain] if domain == "*" => (range, DomainChoice::Any),
            [_, domain] if domain.trim().is_empty() => {
                return refused("names no domain after its @");
            }
            [range, domain] => (range, DomainChoice::Named(domain.clone())),
            _ => return refused("has more than one @"),
        };
        if range.trim().is_empty() {
            return refused("names no range");
        }
        Ok(Self { range: range.clone(), domain, text: text.to_owned() })
    }
}

#[cfg(test)]
pub(crate) mod tests;
