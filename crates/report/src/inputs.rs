//! The run's own files (`run.json`, `env.json`, `config.yaml`) -> what the report states of the run, and typed
//! settings.
//!
//! Read tolerantly: what is absent or unexpected costs its own lines, and a finding reports it.

use std::path::{Path, PathBuf};

use crate::roofline::hardware::Hardware;
use anyhow::Context as _;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stage2_config::hydra::YamlError;
use stage2_contract::text::redact::{REDACTED, Redactor};
use stage2_contract::text::{shorten, visible, visible_path};
use stage2_model::finding::{Id, Severity};
use stage2_model::{Fact, Finding, PassInfo, RunInfo, RunState};
use stage2_read::engine::{EngineSettings, Engines};
use stage2_read::files;
use stage2_read::trace::libraries::RangeNames;

/// Larger files are not files of a run.
const LIMIT_BYTES: u64 = 16 << 20;
/// Facts of the environment that are shown.
const FACTS_LIMIT: usize = 64;
/// Globs of libraries' domains; each is compared with every name of a capture.
const MAX_LIBRARIES: usize = 100;
/// Rows of kernels.md where the configuration does not say.
const DEFAULT_TOP: usize = 50;

/// What is analysed: the folder of a run, and what its `run.json` and `env.json` say.
#[derive(Debug, Default)]
pub struct Sources {
    pub(crate) run_dir: PathBuf,
    /// For the report.
    pub(crate) run: RunInfo,
    /// `run.json` says that the GPU is simulated.
    pub(crate) simulated: bool,
    /// Its passes only merged captures, so that command and time of `run` are those of the merge.
    pub(crate) merged: bool,
    /// Version of the Python package nvtx that the workload has.
    pub(crate) nvtx_package: Option<String>,
    /// The command of the collect pass, with what was added to it.
    pub(crate) argv: Vec<String>,
    /// What `stage2-launch` found out about a run without GPU work, and the command for more.
    pub(crate) doctor: Doctor,
    pub(crate) findings: Vec<Finding>,
    pub(crate) run_findings: Vec<Finding>,
}

/// What doctor knew at the end of a run without GPU work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doctor {
    /// Each with what to do.
    pub(crate) found: Vec<String>,
    /// The command that makes all checks; none: it was not asked.
    pub(crate) next: Option<String>,
}

/// How it is analysed: what the run's `config.yaml` says.
#[derive(Debug, Default)]
pub struct Settings {
    /// NVTX domains of libraries: their ranges are never stages.
    pub libraries: RangeNames,
    /// What is taken out of arguments and of the workload's settings.
    pub redactor: Redactor,
    /// Name of the group that the bundle is shared with.
    pub group: Option<String>,
    /// Rows of kernels.md.
    pub(crate) top_n: usize,
    /// Price of one GPU for an hour, US dollars.
    pub(crate) gpu_hour_dollars: Option<f64>,
    /// What the configuration says of the GPU's peak rates.
    pub(crate) hardware: Hardware,
    /// The composed configuration; null where it cannot be used.
    pub(crate) config: Value,
    pub(crate) findings: Vec<Finding>,
}

impl Sources {
    /// Those in the folder of a run. What is absent or damaged costs its own part of the report.
    pub fn of_run(run_dir: &Path) -> Self {
        let mut findings = Vec::new();
        let json = |bytes: &[u8]| Ok(serde_json::from_slice::<Value>(bytes)?);
        let run = read(run_dir, "run.json", json, &mut findings);
        let env = read(run_dir, "env.json", json, &mut findings);
        Self {
            run_dir: run_dir.to_owned(),
            run: RunInfo {
                name: name_of(run_dir),
                command: words(run.get("command")),
                started: run.get("started").and_then(scalar),
                workload_end: crate::workload_end::of_run(&run, run_dir),
                left_running: serde_json::from_value(run["left_running"].clone())
                    .unwrap_or_default(),
                inner_run: run.get("inner_run").and_then(scalar),
                passes: passes(&run),
                environment: environment_facts(&env),
                profiled: Vec::new(),
            },
            nvtx_package: env.pointer("/python/packages/nvtx").and_then(scalar),
            simulated: run.get("simulated").and_then(Value::as_bool).unwrap_or(false),
            merged: is_merged(&run),
            argv: collect_argv(&run),
            doctor: Doctor {
                found: words(run.pointer("/doctor/found")).unwrap_or_default(),
                next: run.pointer("/doctor/next").and_then(scalar),
            },
            findings,
            run_findings: never_closed(&run).into_iter().chain(run_findings(&run)).collect(),
        }
    }
}

impl Settings {
    /// Those in the folder of a run. What cannot be used has its default, and a finding.
    pub fn of_run(run_dir: &Path) -> Self {
        let mut findings = Vec::new();
        let yaml = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).context("it is not UTF-8 text")?;
            Ok(serde_saphyr::from_str::<Value>(text).map_err(YamlError::from)?)
        };
        let config = read(run_dir, "config.yaml", yaml, &mut findings);
        Self {
            redactor: section::<RedactSettings>(&config, "redact", &mut findings).redactor(),
            group: config.pointer("/run/group").and_then(Value::as_str).map(str::to_owned),
            top_n: top_n(&config, &mut findings),
            gpu_hour_dollars: gpu_hour_dollars(&config, &mut findings),
            hardware: section(&config, "hardware", &mut findings),
            libraries: {
                let libraries = libraries(&config, &mut findings);
                let roles = section(&config, "roles", &mut findings);
                libraries.and_roles(roles).and_engines(engines(&config, &mut findings))
            },
            config,
            findings,
        }
    }
}

fn collect_argv(run: &Value) -> Vec<String> {
    let mut passes = run.get("passes").and_then(Value::as_array).into_iter().flatten();
    let collect = passes.find(|pass| pass.get("name").and_then(Value::as_str) == Some("collect"));
    words(collect.and_then(|pass| pass.get("argv"))).unwrap_or_default()
}

fn is_merged(run: &Value) -> bool {
    let passes = run.get("passes").and_then(Value::as_array);
    let merged = |pass: &Value| pass.get("merged")?.as_object().map(|files| !files.is_empty());
    passes.is_some_and(|passes| {
        !passes.is_empty() && passes.iter().all(|pass| merged(pass) == Some(true))
    })
}

fn libraries(config: &Value, findings: &mut Vec<Finding>) -> RangeNames {
    let text = |glob: &Value| glob.as_str().map(str::to_owned);
    let globs: Option<Vec<String>> = match config.pointer("/report/library_domains") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(globs)) => globs.iter().map(text).collect(),
        Some(glob) => text(glob).map(|glob| vec![glob]),
    };
    let globs = globs.filter(|globs| globs.len() <= MAX_LIBRARIES).unwrap_or_else(|| {
        findings.push(Id::SettingInvalid.about("report.library_domains").found(
            "config.yaml: report.library_domains cannot be used",
            format!("a list of at most {MAX_LIBRARIES} names or globs is needed; the built-in list counts"),
            "correct report.library_domains and write the reports again",
        ));
        Vec::new()
    });
    let infers = config.pointer("/report/infer_stages").and_then(Value::as_bool);
    RangeNames::with(&globs).and_infers_stages(infers.unwrap_or(true))
}

/// The adapter of the engine that the configuration names; all built-in ones where it names none, or one that
/// cannot be used.
fn engines(config: &Value, findings: &mut Vec<Finding>) -> Engines {
    let settings: EngineSettings = section(config, "engine", findings);
    Engines::of(&settings).unwrap_or_else(|error| {
        findings.push(error.finding());
        Engines::default()
    })
}

fn name_of(run_dir: &Path) -> String {
    let full = run_dir.canonicalize().unwrap_or_else(|_| run_dir.to_path_buf());
    full.file_name().map_or_else(|| visible_path(run_dir), |n| visible(n.as_encoded_bytes()))
}

fn read(
    run_dir: &Path,
    name: &str,
    parse: impl Fn(&[u8]) -> anyhow::Result<Value>,
    findings: &mut Vec<Finding>,
) -> Value {
    let path = run_dir.join(name);
    let read = files::read(&path, LIMIT_BYTES).map_err(anyhow::Error::from);
    read.and_then(|bytes| parse(&bytes)).unwrap_or_else(|problem| {
        // The defaults apply, which may not be what was asked for.
        let (severity, missing, remedy) = match name {
            "config.yaml" if path.exists() => (
                Severity::Warning,
                "the report is written with the default settings, on which no measured number depends",
                "repair the file, and write the report again",
            ),
            _ => (
                Severity::Note,
                "its contents are missing from the report; no measured number depends on them",
                "run the workload again to get a complete bundle",
            ),
        };
        findings.push(Id::RunFileUnusable.about(name).graded(
            severity,
            format!("{name} cannot be used ({})", in_short(&problem)),
            missing,
            remedy,
        ));
        Value::Null
    })
}

/// The first line of an error: parsers draw the place below it.
fn in_short(problem: &anyhow::Error) -> String {
    let text = problem.to_string();
    let line = text.lines().next().unwrap_or_default();
    visible(line.strip_prefix("error: ").unwrap_or(line).as_bytes())
}

fn gpu_hour_dollars(config: &Value, findings: &mut Vec<Finding>) -> Option<f64> {
    let value = config.pointer("/report/gpu_hour_dollars").filter(|value| !value.is_null())?;
    let price = value.as_f64().filter(|&price| is_gpu_hour_price(price));
    if price.is_none() {
        findings.push(Id::SettingInvalid.about("report.gpu_hour_dollars").found(
            format!(
                "config.yaml: report.gpu_hour_dollars is {}",
                visible(value.to_string().as_bytes())
            ),
            format!("{GPU_HOUR_PRICE} is needed; tokens have no price"),
            "correct report.gpu_hour_dollars and write the reports again",
        ));
    }
    price
}

/// Valid prices of a GPU hour, as the subject of "is needed".
pub const GPU_HOUR_PRICE: &str = "a number of US dollars above 0 and up to 1,000,000";

/// Whether `price` is a valid price of a GPU hour, US dollars.
pub fn is_gpu_hour_price(price: f64) -> bool {
    price > 0.0 && price <= 1e6
}

fn top_n(config: &Value, findings: &mut Vec<Finding>) -> usize {
    let Some(value) = config.pointer("/report/top_n") else { return DEFAULT_TOP };
    value.as_u64().and_then(|top| usize::try_from(top).ok()).unwrap_or_else(|| {
        findings.push(Id::SettingInvalid.about("report.top_n").graded(
            Severity::Note,
            format!("config.yaml: report.top_n is {}", visible(value.to_string().as_bytes())),
            format!("a whole number is needed; kernels.md has {DEFAULT_TOP} rows"),
            "set report.top_n to a whole number",
        ));
        DEFAULT_TOP
    })
}

/// What to tell of a run whose record says that its passes still run.
fn never_closed(run: &Value) -> Option<Finding> {
    let running = serde_json::to_value(RunState::Running).ok()?;
    if run.get("state") != Some(&running) {
        return None;
    }
    let passes = passes(run);
    let of = |status: &str| {
        let passes = passes.iter().filter(|pass| pass.status.as_deref() == Some(status));
        passes.filter_map(|pass| pass.name.clone()).collect::<Vec<_>>().join(", ")
    };
    let during = match of("running") {
        none if none.is_empty() => "between two passes".to_owned(),
        running => format!("during the pass {running}"),
    };
    let planned = of("planned");
    let later = if planned.is_empty() { planned } else { format!("; not run: {planned}") };
    Some(Id::RunUnclosed.found(
        "the run record was never closed",
        format!(
            "stage2-launch was killed {during}, or still runs: what came later is missing{later}"
        ),
        "run it again to have all passes",
    ))
}

fn run_findings(run: &Value) -> Vec<Finding> {
    let listed = run.get("findings").and_then(Value::as_array);
    let parse = |value: &Value| serde_json::from_value::<Finding>(value.clone()).ok();
    listed.into_iter().flatten().filter_map(parse).map(Finding::visible).collect()
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(visible(text.as_bytes())),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// An argv: an array of scalars, or one string.
fn words(value: Option<&Value>) -> Option<Vec<String>> {
    match value? {
        Value::Array(words) => Some(words.iter().filter_map(scalar).collect()),
        other => scalar(other).map(|word| vec![word]),
    }
}

fn passes(run: &Value) -> Vec<PassInfo> {
    let listed = run.get("passes").and_then(Value::as_array);
    let pass = |pass: &Value| {
        let text = |key| pass.get(key).and_then(shallow);
        PassInfo {
            name: text("name"),
            status: text("status"),
            exit: text("exit"),
            duration_ms: pass.get("duration_ms").and_then(Value::as_u64),
            why: text("why").filter(|why| !why.is_empty()),
            not_loaded: text("not_loaded"),
        }
    };
    listed.into_iter().flatten().map(pass).collect()
}

/// A scalar, or those of one level below (`{"code": 0}` is `code 0`).
fn shallow(value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| {
                Some(format!("{} {}", visible(key.as_bytes()), scalar(value)?))
            };
            Some(fields.iter().filter_map(field).collect::<Vec<_>>().join(", "))
        }
        other => scalar(other),
    }
}

/// The scalars of the environment, up to two levels down, as `driver.version`.
fn environment_facts(env: &Value) -> Vec<Fact> {
    let mut facts = Vec::new();
    // What describes the file, or stands elsewhere, is no fact of the environment.
    let is_fact = |key: &str| !matches!(key, "schema" | "simulated" | "processes");
    for (key, value) in env.as_object().into_iter().flatten().filter(|(key, _)| is_fact(key)) {
        let key = visible(key.as_bytes());
        match value {
            Value::Object(fields) => facts.extend(fields.iter().filter_map(|(inner, value)| {
                let key = format!("{key}.{}", visible(inner.as_bytes()));
                Some(Fact { key, value: scalar(value)? })
            })),
            other => facts.extend(scalar(other).map(|value| Fact { key, value })),
        }
    }
    // A comparison of runs puts the versions of libraries beside the kernels that changed.
    let packages = env.pointer("/python/packages").and_then(Value::as_object);
    facts.extend(packages.into_iter().flatten().filter_map(|(name, version)| {
        let key = format!("python.packages.{}", visible(name.as_bytes()));
        Some(Fact { key, value: scalar(version)? })
    }));
    facts.truncate(FACTS_LIMIT);
    facts
}

const PROBLEM_LIMIT: usize = 300;

/// A part of the configuration, such as `model.llm`.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn part<T: DeserializeOwned>(config: &Value, key: &str) -> Result<Option<T>, String> {
    let pointer = format!("/{}", key.replace('.', "/"));
    match config.pointer(&pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value).map(Some).map_err(|error| {
            let problem = visible(error.to_string().as_bytes());
            format!("config.yaml: {key} cannot be used: {}", shorten(&problem, PROBLEM_LIMIT))
        }),
    }
}

/// A part of the configuration, or its default, with a finding.
pub(crate) fn section<T: DeserializeOwned + Default>(
    config: &Value,
    key: &str,
    findings: &mut Vec<Finding>,
) -> T {
    part(config, key).map(Option::unwrap_or_default).unwrap_or_else(|problem| {
        findings.push(Id::SettingInvalid.about(key).found(
            problem,
            "its defaults are used",
            format!("correct {key} in the configuration and write the reports again"),
        ));
        T::default()
    })
}

/// The section `redact` of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedactSettings {
    /// Whether secrets are taken out.
    #[serde(default = "yes")]
    secrets: bool,
    /// Parts of names, or beginnings of secrets, that count in addition to the built-in ones.
    #[serde(default, deserialize_with = "patterns")]
    patterns: Vec<String>,
}

impl Default for RedactSettings {
    fn default() -> Self {
        RedactSettings { secrets: true, patterns: Vec::new() }
    }
}

impl RedactSettings {
    /// What it asks for.
    pub fn redactor(&self) -> Redactor {
        if !self.secrets {
            return Redactor::off();
        }
        // They were checked when they were read.
        Redactor::with(&self.patterns).unwrap_or_default()
    }
}

/// Takes the secrets out of a tree of settings: a value by the name of its key, which also counts for the
/// items of a list, or by itself.
pub fn redact_json(redactor: &Redactor, key: &str, value: &mut Value) {
    match value {
        Value::String(text) => *text = redactor.value(key, text),
        Value::Number(number) if redactor.value(key, &number.to_string()) == REDACTED => {
            *value = REDACTED.into();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_json(redactor, key, item)),
        Value::Object(pairs) => {
            pairs.iter_mut().for_each(|(key, value)| redact_json(redactor, key, value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn yes() -> bool {
    true
}

/// A list of patterns, or one pattern for a list of one.
fn patterns<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a list of patterns, e.g. [acme_pin,'acme_*']")]
    enum Patterns {
        One(String),
        Many(Vec<String>),
    }
    let patterns = match Option::<Patterns>::deserialize(from)? {
        None => Vec::new(),
        Some(Patterns::One(pattern)) => vec![pattern],
        Some(Patterns::Many(patterns)) => patterns,
    };
    Redactor::with(&patterns).map_err(D::Error::custom)?;
    Ok(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_bundle_says_is_used_and_what_cannot_be_used_takes_nothing_off() {
        let of = |config: Value| {
            let mut findings = Vec::new();
            let settings: RedactSettings = section(&config, "redact", &mut findings);
            (settings.redactor(), findings.len())
        };
        let section = |redact: Value| serde_json::json!({ "redact": redact });
        assert_eq!(of(Value::Null), (Redactor::default(), 0));
        assert_eq!(of(section(serde_json::json!({"secrets": false}))), (Redactor::off(), 0));
        let own = Redactor::with(&["pin"]).expect("a pattern");
        assert_eq!(of(section(serde_json::json!({"patterns": "pin"}))), (own, 0));
        for bad in [serde_json::json!({"patterns": ["a b"]}), serde_json::json!("off"), 3.into()] {
            assert_eq!(of(section(bad)), (Redactor::default(), 1));
        }
    }
}
