//! Presets, overrides and options of the command line -> one checked configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::ConfigError;
use super::advice::{Keys, within};
use super::interpolate::{Moment, resolve, resolve_key};
use super::presets::{PresetTree, Presets, chooses_preset, merge_presets};
use super::print::{Origins, origins};
use super::schema::Config;
use crate::bundle::COLLECTOR_DIR;
use crate::plan::quote;
use stage2_config::hydra::{Action, Node, Origin, Override, Value, join_key};
use stage2_contract::settings;
use stage2_contract::text::{did_you_mean, visible_path};
use stage2_model::Finding;
use stage2_model::finding::{Id, Severity};
use stage2_report::{GPU_HOUR_PRICE, is_gpu_hour_price};

/// What the command line states about the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) overrides: Vec<String>,
    pub(crate) config_dir: Option<PathBuf>,
    /// Keys that options set, the option as it was written, and the value, which wins over an override's.
    pub(crate) flags: Vec<(&'static str, String, Value)>,
    /// Keys that options set without a value, which no override may contradict.
    pub(crate) switches: Vec<(&'static str, String, Value)>,
    /// The command runs no workload: errors send no setting behind `--`.
    pub(crate) no_workload: bool,
}

/// A configuration with the origin of each value. References `${...}` are still in it.
#[derive(Clone, Debug)]
pub(crate) struct Composed {
    pub(crate) tree: Node,
    /// What was taken differently from how it was written.
    pub(crate) notes: Vec<Finding>,
    /// The name of the preset of each group.
    chosen: BTreeMap<String, String>,
    /// What `${now:...}` and `${hydra:runtime.cwd}` stand for.
    moment: Moment,
}

const HYDRA_RUN_DIR: &str = "hydra.run.dir";

/// Other names of our keys, as a Hydra app's user or a reader of the command line would write them.
const SYNONYMS: &[(&str, &str)] =
    &[(HYDRA_RUN_DIR, "run.dir"), ("run.annotate", "operators.annotate")];

impl Request {
    /// The overrides, by our names of the keys.
    pub(super) fn overrides(&self) -> Result<Vec<Override>, ConfigError> {
        let parse = |word: &String| {
            let mut o = Override::parse(word).map_err(|mut error| {
                if !self.no_workload && !word.contains('=') && !word.starts_with('~') {
                    error.what.push_str(&format!(
                        "; a program to run comes after `--`: stage2-launch -- {word} ..."
                    ));
                }
                error
            })?;
            if let Some((_, own)) = SYNONYMS.iter().find(|(other, _)| *other == o.key) {
                (*own).clone_into(&mut o.key);
            }
            Ok(o)
        };
        self.overrides.iter().map(parse).collect()
    }
}

/// Composes and checks the configuration. Nothing that is wrong with it is repaired or skipped.
pub(crate) fn compose(request: &Request) -> Result<Composed, ConfigError> {
    let presets = Presets::open(request.config_dir.as_deref())?;
    let runs_workload = !request.no_workload;
    let PresetTree { mut tree, values, chosen } =
        merge_presets(&presets, request.overrides()?, runs_workload)?;
    let skeleton = skeleton()?;
    let keys = Keys { valid: valid_keys(&skeleton, &presets)?, runs_workload };
    let mut done = OverrideEffects::default();
    for o in &values {
        apply(&mut tree, o, &keys, &mut done)?;
    }
    let node = |option: &str, value: &Value| Node {
        value: value.clone(),
        origin: Origin::Flag(option.into()),
    };
    for (key, option, value) in &request.switches {
        let agreed = agrees(&tree, key, &node(option, value), option);
        // A value that the key cannot have is the mistake, whatever the option says.
        if agreed.is_err() {
            let moment = Moment::this();
            let (tree, notes, chosen) = (tree.clone(), Vec::new(), chosen.clone());
            let resolved = Composed { tree, notes, chosen, moment }.resolved(Path::new("RUN_DIR"));
            if let Err(error @ ConfigError::WrongValue { .. }) = resolved {
                return Err(error);
            }
        }
        agreed?;
    }
    for (key, option, value) in request.flags.iter().chain(&request.switches) {
        tree.set(key, node(option, value));
    }
    check_keys(&tree, &skeleton, "", &keys)?;
    let OverrideEffects { mut deleted, notes } = done;
    let groups = request.overrides.iter().filter_map(|word| Some((word.strip_prefix('~')?, word)));
    deleted.extend(groups.map(|(group, word)| (group.replace('/', "."), word.clone())));
    let composed = Composed { tree, notes, chosen, moment: Moment::this() };
    // Every reference is tried now, so that a wrong one is an error of the command line and not
    // of some later step.
    let missing = |error| with_deletion(error, &deleted);
    composed.resolved(Path::new("RUN_DIR")).map_err(missing)?;
    composed.run_dir().map_err(missing)?;
    Ok(composed)
}

impl Composed {
    pub(crate) fn chosen(&self, group: &str) -> Option<&str> {
        self.chosen.get(group).map(String::as_str)
    }

    pub(crate) fn explicit_keys(&self) -> BTreeSet<String> {
        let named = |node: &Node| !matches!(node.origin, Origin::File { .. });
        self.tree.leaves().into_iter().filter(|(_, n)| named(n)).map(|(key, _)| key).collect()
    }

    pub(crate) fn run_dir(&self) -> Result<Option<PathBuf>, ConfigError> {
        match resolve_key(&self.tree, "run.dir", &self.moment)? {
            None | Some(Node { value: Value::Null, .. }) => Ok(None),
            Some(Node { value: Value::Literal(path), .. }) => Ok(Some(path.into())),
            Some(Node { origin, .. }) => {
                Err(ConfigError::wrong_value("run.dir", &origin, "it has to be a path"))
            }
        }
    }

    /// Whether the run folder was asked for by Hydra's key for it.
    pub(crate) fn run_dir_is_hydras(&self) -> bool {
        self.tree.get("run.dir").is_some_and(|node| match &node.origin {
            Origin::Override(text) => {
                text.trim_start_matches('+').starts_with(&format!("{HYDRA_RUN_DIR}="))
            }
            _ => false,
        })
    }

    /// The configuration of a run in `run_dir`, with all references replaced.
    pub(crate) fn resolved(&self, run_dir: &Path) -> Result<(Node, Config), ConfigError> {
        let mut tree = self.tree.clone();
        let origin = match tree.get("run.dir") {
            Some(Node { value: Value::Text(_) | Value::Literal(_), origin }) => {
                Some(origin.clone())
            }
            Some(Node { value: Value::Null, .. }) | None => Some(Origin::Chosen),
            // A run folder of a wrong type is found below.
            Some(_) => None,
        };
        if let Some(origin) = origin {
            if run_dir.to_str().is_none()
                && let Some((key, node)) = refers_to_run_dir(&tree)
            {
                let what = format!(
                    "it refers to the run folder {}, whose name is not UTF-8; choose another with \
                     --run-dir",
                    visible_path(run_dir)
                );
                return Err(ConfigError::wrong_value(&key, &node.origin, what));
            }
            // As it is: a folder may be called `${x}`.
            let value = Value::Literal(run_dir.to_string_lossy().into_owned());
            tree.set("run.dir", Node { value, origin });
        }
        resolve(&tree, &self.moment).and_then(typed)
    }
}

/// The first value in which the run folder stands.
fn refers_to_run_dir(tree: &Node) -> Option<(String, &Node)> {
    fn refers(node: &Node) -> bool {
        match &node.value {
            Value::Text(text) => text
                .split("${")
                .skip(1)
                .any(|part| part.split('}').next().is_some_and(|key| key.trim() == "run.dir")),
            Value::List(items) => items.iter().any(refers),
            _ => false,
        }
    }
    tree.leaves().into_iter().find(|(_, node)| refers(node))
}

/// Refuses an option together with an override that says something else: one of them is a mistake.
fn agrees(tree: &Node, key: &str, node: &Node, option: &str) -> Result<(), ConfigError> {
    let other = tree.get(key).filter(|other| other.to_json() != node.to_json());
    let Some(Node { origin: Origin::Override(word), .. }) = other else { return Ok(()) };
    let what = format!("{option} contradicts {key}; leave one of the two out");
    Err(ConfigError::Conflict { word: word.to_string(), what })
}

/// What came of the overrides besides the values.
#[derive(Debug, Default)]
struct OverrideEffects {
    /// Keys that were taken out, and the words that did it.
    deleted: Vec<(String, String)>,
    /// What was taken differently from how it was written.
    notes: Vec<Finding>,
}

fn apply(
    tree: &mut Node,
    o: &Override,
    keys: &Keys,
    done: &mut OverrideEffects,
) -> Result<(), ConfigError> {
    let unknown = || keys.unknown(&o.key, o.origin());
    let present = tree.get(&o.key);
    match &o.action {
        Action::Set(_) if present.is_none() => return Err(unknown()),
        Action::Set(value) | Action::Add(value) | Action::AddOrSet(value) => {
            if matches!(o.action, Action::Add(_)) {
                done.notes.extend(present.and_then(|present| added_to(present, value, o)));
            }
            tree.set(&o.key, Node { value: value.clone(), origin: o.origin() });
        }
        Action::Delete(value) => {
            let Some(node) = present else { return Err(unknown()) };
            if let Some(value) = value {
                let expected = Node { value: value.clone(), origin: o.origin() }.to_json();
                let found = node.to_json();
                if found != expected {
                    let what = format!("the value is {found}, not {expected}");
                    return Err(ConfigError::conflict(o, what));
                }
            }
            tree.remove(&o.key);
            done.deleted.push((o.key.clone(), o.word.clone()));
        }
    }
    Ok(())
}

/// What to say of a `+` before a key that has a value already.
fn added_to(present: &Node, value: &Value, o: &Override) -> Option<Finding> {
    let Override { key, word, .. } = o;
    match (&present.value, value) {
        (Value::Null, _) | (_, Value::Map(_)) => None,
        (Value::List(before), Value::List(_)) if before.is_empty() => None,
        // A list replaces whatever was there.
        (Value::List(_), Value::List(_)) => Some(Id::SettingReplaced.graded(
            Severity::Warning,
            format!("{word} replaces the list, and adds nothing to it"),
            format!("{key} was {}", present.to_json())
                + "; Hydra replaces lists, too, with + as without",
            "name the items before it as well, or leave the + out to remove them",
        )),
        (_, Value::List(_)) => None,
        _ => Some(Id::SettingReplaced.found(
            format!("{word} was taken as {}", word.trim_start_matches('+')),
            format!("the key {key} is there already, and Hydra would refuse the + before it"),
            "leave the + out",
        )),
    }
}

/// The settings as they are built in. A test rules out that the presets do not fit this program.
pub(crate) fn built_in() -> Result<Config, ConfigError> {
    let PresetTree { tree, chosen, .. } = merge_presets(&Presets::open(None)?, Vec::new(), true)?;
    let composed = Composed { tree, notes: Vec::new(), chosen, moment: Moment::this() };
    Ok(composed.resolved(Path::new("RUN_DIR"))?.1)
}

pub(super) fn skeleton() -> Result<serde_json::Value, ConfigError> {
    let config = built_in()?;
    serde_json::to_value(config)
        .map_err(|e| ConfigError::File { file: "built-in presets".into(), what: e.to_string() })
}

/// The settings that a word names, as an option of the command line would: `mode` is `run.mode`. `run_is_over`: only
/// those that reports depend on.
pub(crate) fn settings_named(word: &str, run_is_over: bool) -> Vec<String> {
    // The built-in presets are there, and without them there is nothing to advise.
    let valid = || valid_keys(&skeleton()?, &Presets::open(None)?);
    let Ok(mut valid) = valid() else { return Vec::new() };
    valid.retain(|key| !run_is_over || is_of_reports(&key.replace('/', ".")));
    Keys { valid, runs_workload: false }.named(word)
}

pub(super) fn valid_keys(
    skeleton: &serde_json::Value,
    presets: &Presets,
) -> Result<BTreeSet<String>, ConfigError> {
    fn walk(value: &serde_json::Value, prefix: &str, found: &mut BTreeSet<String>) {
        match value.as_object() {
            Some(map) => map.iter().for_each(|(k, v)| walk(v, &join_key(prefix, k), found)),
            None => drop(found.insert(prefix.to_owned())),
        }
    }
    let mut keys = presets.groups();
    walk(skeleton, "", &mut keys);
    Ok(keys)
}

/// Refuses the first key that is not in the settings.
fn check_keys(
    node: &Node,
    skeleton: &serde_json::Value,
    prefix: &str,
    keys: &Keys,
) -> Result<(), ConfigError> {
    // A map without keys of its own (`env_var: {}`) takes any.
    let Some(known) = skeleton.as_object().filter(|known| !known.is_empty()) else {
        return Ok(());
    };
    let Value::Map(pairs) = &node.value else {
        let inside = keys.valid.iter().find(|key| key.starts_with(&format!("{prefix}.")));
        let example = inside.map_or_else(|| format!("{prefix}."), |key| format!("`{key}`"));
        let what = format!("it holds keys, such as {example}{}", keys.for_map(prefix));
        return Err(ConfigError::wrong_value(prefix, &node.origin, what));
    };
    for (name, value) in pairs {
        let key = join_key(prefix, name);
        if let Some(known) = known.get(name) {
            check_keys(value, known, &key, keys)?;
            continue;
        }
        // The first value under an unknown map says better what was written, and where.
        return Err(match value.leaves().first() {
            Some((rest, leaf)) if !rest.is_empty() => {
                keys.unknown(&join_key(&key, rest), leaf.origin.clone())
            }
            _ => keys.unknown(&key, value.origin.clone()),
        });
    }
    Ok(())
}

/// Of more tokens no floor is known: their count is a mistake.
const MOST_TOKENS: u64 = 1 << 40;

pub(super) fn typed(tree: Node) -> Result<(Node, Config), ConfigError> {
    let wrong = |key: String, what: String| {
        let origin = tree.get(&key).map_or(&tree.origin, |node| &node.origin);
        ConfigError::wrong_value(&key, origin, what)
    };
    let config: Config = serde_path_to_error::deserialize(&tree.to_json()).map_err(|error| {
        let names = error.path().iter().filter_map(|segment| match segment {
            serde_path_to_error::Segment::Map { key } => Some(key.as_str()),
            _ => None,
        });
        let key = names.collect::<Vec<_>>().join(".");
        let text = error.into_inner().to_string();
        match text.strip_prefix("missing field `").and_then(|t| t.split('`').next()) {
            Some(field) => ConfigError::MissingKey {
                key: join_key(&key, field),
                why: "no preset sets it".to_owned(),
            },
            None if key == SAMPLE => wrong(key, format!("must be {}", settings::SAMPLE_FORM)),
            None => {
                let count = key.strip_prefix("model.tokens.").and_then(tokens_at_least);
                let (what, near) = in_plain_words(&text);
                wrong(key, count.map_or(what + &near, must_be_tokens))
            }
        }
    })?;
    // What the type of a key cannot rule out.
    if let Err(fault) = config.pipeline.nsys.validate() {
        return Err(wrong(format!("pipeline.nsys.{}", fault.key), fault.what));
    }
    if let Some(fault) = config.pipeline.ncu.faults().into_iter().next() {
        return Err(wrong(format!("pipeline.ncu.{}", fault.key), fault.what));
    }
    if config.report.gpu_hour_dollars.is_some_and(|price| !is_gpu_hour_price(price)) {
        let what = format!("expected {GPU_HOUR_PRICE}, or null");
        return Err(wrong("report.gpu_hour_dollars".to_owned(), what));
    }
    let tokens = &config.model.tokens;
    for (key, count) in [
        ("batch_size", tokens.batch_size),
        ("prompt_tokens", tokens.prompt_tokens),
        ("decode_steps", tokens.decode_steps),
        ("images_per_prompt", tokens.images_per_prompt),
        ("crops_per_image", tokens.crops_per_image),
    ] {
        let Some(least) = tokens_at_least(key) else { continue };
        if count.is_some_and(|count| !(least..=MOST_TOKENS).contains(&count)) {
            return Err(wrong(format!("model.tokens.{key}"), must_be_tokens(least)));
        }
    }
    Ok((tree, config))
}

/// The least value of a count of `model.tokens`.
fn tokens_at_least(key: &str) -> Option<u64> {
    match key {
        "batch_size" | "prompt_tokens" => Some(1),
        "decode_steps" | "images_per_prompt" | "crops_per_image" => Some(0),
        _ => None,
    }
}

fn must_be_tokens(least: u64) -> String {
    format!("must be a whole number from {least} to {MOST_TOKENS}, or null")
}

/// A number alone is the usual mistake there.
const SAMPLE: &str = "profiling.collector.sample";

/// serde's messages name Rust types. What was probably meant stands behind, as [`did_you_mean`] gives it.
pub(crate) fn in_plain_words(text: &str) -> (String, String) {
    // "unknown variant `lite`, expected `deep` or `light`": the value is named before.
    if let Some((given, choices)) =
        text.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected "))
    {
        let near = did_you_mean(given, choices.split('`').skip(1).step_by(2));
        let choices = choices.strip_prefix("one of ").map_or_else(
            || choices.to_owned(),
            |many| match many.rsplit_once(", ") {
                Some((first, last)) => format!("{first} or {last}"),
                None => many.to_owned(),
            },
        );
        return (format!("must be {}", choices.replace('`', "")), near);
    }
    // "invalid type: string \"abc\", expected u64": so is this one.
    let Some((_, kind)) = text.split_once(", expected ") else {
        return (text.to_owned(), String::new());
    };
    let kind = match kind {
        "a nonzero u64" => "a whole number, 1 or more",
        "u64" | "u32" | "usize" => "a whole number, 0 or more",
        "f64" => "a number",
        "path string" => "a path (quote a number: KEY=\"'1'\")",
        "a string" => "a word (quote a number: KEY=\"'1'\")",
        "a boolean" => "true or false",
        "a sequence" => "a list, e.g. [a,b]",
        "string or map" => "a word",
        other if other.starts_with("struct ") => "keys with values",
        other => other,
    };
    (format!("must be {kind}"), String::new())
}

/// States which override took a missing key out.
fn with_deletion(mut error: ConfigError, deleted: &[(String, String)]) -> ConfigError {
    if let ConfigError::MissingKey { key, why } = &mut error
        && let Some((_, word)) = deleted.iter().find(|(gone, _)| within(key, gone))
    {
        let group = word.trim_start_matches('~');
        if group.contains('/') {
            let preset = if group == "model/llm" { "none" } else { "PRESET" };
            let instead = format!("leave it out, or choose another preset: `{group}={preset}`");
            return ConfigError::Removed { word: word.clone(), instead };
        }
        *why = format!("the override {word} removed it");
    }
    error
}

const FILE: &str = "config.yaml";
/// Parts of the configuration that reports depend on.
const OF_REPORTS: [&str; 7] =
    ["report", "model", "hardware", "operators", "roles", "engine", "stage1"];
/// A key among them that only a run heeds.
const OF_RUNS: &str = "operators.annotate";
/// Further parts that texts of reports depend on, and that no report can be given.
const IN_TEXTS: [&str; 9] = [
    OF_RUNS,
    "inputs",
    "pipeline.ncu.regions",
    "profiling.collector",
    "redact",
    "run.baseline",
    "run.group",
    "run.mode",
    "workload",
];

/// The configuration of a bundle in `run_dir` after the overrides of `request`: the one that its reports are
/// written again with. What the run was made with stays, with its origins. Only what reports depend on can
/// be changed: the rest is the record of a run that is over. `text`: its
/// `config.yaml`; where it has none, the built-in settings are the base. `origins`: those of its run.
pub(crate) fn recompose(
    text: Option<&str>,
    origins: &Origins,
    run_dir: &Path,
    request: &Request,
) -> Result<Node, ConfigError> {
    let presets = Presets::open(request.config_dir.as_deref())?;
    let (defaults, _) = compose(&Request::default())?.resolved(run_dir)?;
    let mut tree = match text {
        Some(text) => base(text, origins)
            .map_err(|cause| damaged(&cause, keeps(&Origins::new(), origins, run_dir)))?,
        None => defaults.clone(),
    };
    let overrides = request.overrides()?;
    let skeleton = skeleton()?;
    let keys = Keys { valid: valid_keys(&skeleton, &presets)?, runs_workload: false };
    overrides.iter().try_for_each(|o| counts(o, &keys))?;
    let groups = presets.groups();
    let (choices, values): (Vec<_>, Vec<_>) =
        overrides.into_iter().partition(|o| chooses_preset(o, &groups));
    let chosen: Vec<String> = choices.iter().map(|o| o.key.replace('/', ".")).collect();
    let mut kept = text.map_or_else(Origins::new, |_| super::print::origins(&tree));
    let given = chosen.iter().chain(values.iter().map(|o| &o.key));
    kept.extend(given.map(|key| (key.clone(), String::new())));
    keeps(&kept, origins, run_dir).map_err(Lost::error)?;
    let fresh = merge_presets(&presets, choices, false)?.tree;
    for key in &chosen {
        // As a whole: nothing of the preset before it may shine through.
        let nothing = Node { value: Value::Null, origin: Origin::Chosen };
        tree.set(key, nothing.clone());
        tree.set(key, fresh.get(key).cloned().unwrap_or(nothing));
    }
    let mut done = OverrideEffects::default();
    for o in &values {
        // A file of an older version lacks what came since.
        if let (None, Some(node)) = (tree.get(&o.key), defaults.get(&o.key)) {
            tree.set(&o.key, node.clone());
        }
        apply(&mut tree, o, &keys, &mut done)?;
    }
    let tree = resolve(&tree, &Moment::this())?;
    // What the file says may be of another version, and reports read it tolerantly.
    let of_file = |node: &Node| match &node.origin {
        Origin::Noted(_) => true,
        Origin::File { name, .. } => &**name == FILE,
        _ => false,
    };
    let mut new = Node { value: Value::Map(Vec::new()), origin: Origin::Chosen };
    for (key, node) in tree.leaves().into_iter().filter(|(_, node)| !of_file(node)) {
        new.set(&key, node.clone());
    }
    check_keys(&new, &skeleton, "", &keys)?;
    let mut whole = defaults.clone();
    whole.merge(new);
    typed(whole)?;
    let lost = || keeps(&Origins::new(), origins, run_dir);
    check_types(&tree, defaults).map_err(|cause| damaged(&cause, lost()))?;
    Ok(tree)
}

/// Refuses values in the place of which reports would have the `defaults`. Keys of other versions do not count.
fn check_types(tree: &Node, defaults: Node) -> Result<(), String> {
    let known: Vec<String> = defaults.leaves().into_iter().map(|(key, _)| key).collect();
    let is_known = |key: &str| known.iter().any(|own| within(own, key) || within(key, own));
    let mut whole = defaults;
    for (key, node) in tree.leaves() {
        if is_in_reports(&key) && is_known(&key) {
            whole.set(&key, node.clone());
        }
    }
    typed(whole).map(drop).map_err(|error| error.to_string())
}

/// Refuses the `config.yaml` of a bundle (none: it is not there) if it is damaged, or lacks settings that the reports were
/// made with.
pub(crate) fn check_kept(
    text: Option<&str>,
    recorded: &Origins,
    run_dir: &Path,
) -> Result<(), ConfigError> {
    let (defaults, _) = compose(&Request::default())?.resolved(run_dir)?;
    let read = text.map(|text| {
        let tree = base(text, recorded)?;
        check_types(&tree, defaults).map(|()| tree)
    });
    let there = read.iter().flatten().map(origins).next().unwrap_or_default();
    let kept = keeps(&there, recorded, run_dir);
    match read {
        Some(Err(cause)) => Err(damaged(&cause, kept)),
        _ => kept.map_err(Lost::error),
    }
}

fn fault(what: String) -> ConfigError {
    ConfigError::File { file: FILE.into(), what }
}

/// A file that cannot be read, and how the reports get their settings again.
fn damaged(cause: &str, kept: Result<(), Lost>) -> ConfigError {
    let or = match kept {
        Ok(()) => ", or remove it: the reports had the default settings".to_owned(),
        Err(Lost { again, removable: true, .. }) => format!(", or remove it and {again}"),
        Err(Lost { again, .. }) => format!(", or {again}"),
    };
    fault(format!("{cause}; repair the file{or}"))
}

/// Settings that reports were made with, and that are gone.
struct Lost {
    keys: String,
    /// The command that makes a report without the file.
    again: String,
    /// Whether that command needs the file out of the way.
    removable: bool,
}

impl Lost {
    fn error(self) -> ConfigError {
        ConfigError::Lost(format!(
            "no longer has the settings that the reports were made with ({}), so no report was written; restore the \
             file, or {}",
            self.keys, self.again
        ))
    }
}

/// Refuses to lose settings of reports that were given (`recorded`) and are missing from `there`. Defaults do not count.
fn keeps(there: &Origins, recorded: &Origins, run_dir: &Path) -> Result<(), Lost> {
    // Other versions have other lines.
    let file = |origin: &str| origin.rsplit_once(".yaml:").map(|(name, _)| name.to_owned());
    let defaults = compose(&Request::default()).and_then(|all| all.resolved(run_dir));
    let defaults = defaults.map(|(tree, _)| origins(&tree)).unwrap_or_default();
    let is_default = |key: &str, origin: &str| {
        file(origin).is_some() && file(origin) == defaults.get(key).and_then(|own| file(own))
    };
    let is_lost = |key: &str, origin: &str| {
        is_in_reports(key)
            && !is_default(key, origin)
            && !there.keys().any(|now| within(now, key) || within(key, now))
    };
    let lost: Vec<_> = recorded.iter().filter(|(key, origin)| is_lost(key, origin)).collect();
    let Some((first, _)) = lost.first() else { return Ok(()) };
    let mut words: Vec<String> = Vec::new();
    for (_, origin) in lost.iter().filter(|(key, _)| is_of_reports(key)) {
        let preset = file(origin).and_then(|name| {
            let (group, name) = name.strip_prefix("conf/")?.rsplit_once('/')?;
            Some(format!("{group}={name}"))
        });
        let word = preset.or_else(|| {
            let (key, value) = origin.strip_prefix("override ")?.split_once('=')?;
            Some(format!("{key}={}", quote(value)))
        });
        words.extend(word.filter(|word| !words.contains(word)));
    }
    let words = words.join(" ");
    let shown = quote(run_dir);
    // Those of the run, no report can be given: that of the records alone has them nowhere.
    let removable = !words.is_empty() && lost.iter().all(|(key, _)| is_of_reports(key));
    let again = if removable {
        format!("give the settings again: `stage2-launch report {shown} {words}`")
    } else {
        let words = if words.is_empty() { words } else { format!(" {words}") };
        format!(
            "make another report of the records, without the settings of the run: `stage2-launch merge --spool \
             {shown}/{COLLECTOR_DIR} -o DIR{words}`"
        )
    };
    let more = if lost.len() > 1 { format!(" and {} more", lost.len() - 1) } else { String::new() };
    Err(Lost { keys: format!("{first}{more}"), again, removable })
}

fn is_in_reports(key: &str) -> bool {
    is_of_reports(key) || IN_TEXTS.iter().any(|part| within(key, part))
}

fn is_of_reports(key: &str) -> bool {
    OF_REPORTS.iter().any(|part| within(key, part)) && !within(key, OF_RUNS)
}

/// Refuses what no report depends on, and what does not exist.
fn counts(o: &Override, keys: &Keys) -> Result<(), ConfigError> {
    let key = o.package.clone().unwrap_or_else(|| o.key.replace('/', "."));
    if is_of_reports(&key) {
        return Ok(());
    }
    if key == "run.top_n_kernels" {
        let what = "it has another name here; use report.top_n for the rows of kernels.md";
        return Err(ConfigError::conflict(o, what));
    }
    let (last, first) = OF_REPORTS.split_last().unwrap_or((&"", &[]));
    let ours = format!("{} and {last}", first.join(", "));
    if !keys.has_part(&key) && o.package.is_none() {
        let near = did_you_mean(&o.key, keys.valid.iter().map(String::as_str));
        return Err(match near.is_empty() {
            false => keys.unknown(&o.key, o.origin()),
            true => {
                let advice = format!("; settings of reports are those of {ours}");
                ConfigError::UnknownKey { key: o.key.clone(), origin: o.origin(), advice }
            }
        });
    }
    let what =
        format!("the run is over; record again with it, or give its reports settings of {ours}");
    Err(ConfigError::conflict(o, what))
}

/// What the file states, each value with the origin that the run recorded, or else its line in the file: older
/// versions recorded none.
fn base(text: &str, origins: &Origins) -> Result<Node, String> {
    let mut tree = Node::from_yaml(text, &FILE.into()).map_err(|e| format!("invalid YAML: {e}"))?;
    if !matches!(tree.value, Value::Map(_)) {
        return Err("the file has to be a mapping: lines `key: value`".into());
    }
    as_recorded(&mut tree, "", origins);
    Ok(tree)
}

/// Gives the values below `key` their recorded origins, and makes their texts literal: the run has
/// resolved them, so `${` in one is part of a name.
fn as_recorded(node: &mut Node, key: &str, origins: &Origins) {
    if let Some(origin) = origins.get(key) {
        node.origin = Origin::Noted(origin.as_str().into());
    }
    match &mut node.value {
        Value::Text(text) => node.value = Value::Literal(std::mem::take(text)),
        Value::Map(pairs) => pairs
            .iter_mut()
            .for_each(|(name, node)| as_recorded(node, &join_key(key, name), origins)),
        Value::List(items) => items.iter_mut().for_each(|node| as_recorded(node, "", origins)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::print::with_origins;

    /// `config.yaml` of a run, and what it becomes.
    fn again(of_run: &[&str], words: &[&str]) -> Result<(String, String), String> {
        let request = |words: &[&str]| Request {
            overrides: words.iter().map(|&word| word.to_owned()).collect(),
            no_workload: true,
            ..Request::default()
        };
        let dir = Path::new("/runs/1");
        let composed = compose(&request(of_run)).expect("a run's configuration");
        let tree = composed.resolved(dir).expect("resolved").0;
        let before = with_origins(&tree);
        let after = recompose(Some(&before), &origins(&tree), dir, &request(words));
        let after = after.map_err(|e| e.to_string())?;
        if words.is_empty() {
            assert_eq!(origins(&after), origins(&tree), "{of_run:?}");
        }
        Ok((before, with_origins(&after)))
    }

    fn line<'t>(text: &'t str, key: &str) -> &'t str {
        let found = text.lines().find(|line| line.trim_start().starts_with(key));
        found.unwrap_or_else(|| panic!("{key} in {text}"))
    }

    #[test]
    fn nothing_changes_without_overrides_whatever_the_run_was_told() {
        for of_run in [
            &[][..],
            &["run.mode=light", "model/llm=mixtral_8x7b", "hardware=h200"],
            &["workload=hydra", "+workload.append=['a  # \"b']", "inputs.manifest='x\\\"  # y'"],
            &["profiling.collector.ranges=[prefill, 'x: y']", "hardware.dense_tflops.bf16=1.5"],
        ] {
            let (before, after) = again(of_run, &[]).expect("no error");
            let differ = before.lines().zip(after.lines()).find(|(before, after)| before != after);
            assert_eq!(differ, None, "{of_run:?}");
            assert_eq!(after.lines().count(), before.lines().count(), "{of_run:?}");
        }
    }

    #[test]
    fn presets_are_replaced_as_wholes_and_values_change_with_their_origins() {
        let of_run = ["model/llm=mixtral_8x7b", "report.top_n=7", "run.mode=light"];
        let words = ["model/llm=llama_3_8b", "hardware=h200", "model.tokens.batch_size=4"];
        let (before, after) = again(&of_run, &words).expect("no error");
        assert!(line(&before, "moe:").ends_with("moe:") && line(&after, "moe: null").contains('#'));
        assert!(line(&after, "name: llama_3_8b").contains("# conf/model/llm/llama_3_8b.yaml:"));
        assert!(line(&after, "bf16: 989.5").contains("# conf/hardware/h200.yaml:"));
        assert!(line(&after, "batch_size: 4").contains("# override model.tokens.batch_size=4"));
        for kept in ["top_n: 7", "mode: light", "dir: "] {
            assert_eq!(line(&after, kept).split_whitespace().collect::<Vec<_>>(), {
                line(&before, kept).split_whitespace().collect::<Vec<_>>()
            });
        }
        // A bundle of an older version, which recorded no origins: the lines of its file stand for them.
        let request = Request { overrides: vec!["report.top_n=9".into()], ..Request::default() };
        let none = Origins::new();
        let last =
            recompose(Some(&after), &none, Path::new("/runs/1"), &request).expect("no error");
        let last = with_origins(&last);
        assert!(line(&last, "name: llama_3_8b").contains("# config.yaml:"), "{last}");
        assert!(line(&last, "top_n: 9").contains("# override report.top_n=9"), "{last}");
    }

    #[test]
    fn what_a_run_alone_depends_on_and_what_is_wrong_is_refused() {
        for (word, part) in [
            ("run.mode=light", "the run is over"),
            ("run.top_n_kernels=5", "use report.top_n"),
            ("+model.target=x", "use model/llm=PRESET or model.llm.config_json=FILE"),
            ("model=x", "model/llm=PRESET selects the model of the reports"),
            ("model/deepseek_ocr/arch@model=x", "use model/llm=PRESET"),
            ("workload=hydra", "the run is over"),
            ("profiling/ncu=ncu.high", "the run is over"),
            ("run.annotate=[torch-ops]", "the run is over"),
            ("hydra.run.dir=/x", "the run is over"),
            (
                "reports.top_n=3",
                "unknown key `reports.top_n` (override reports.top_n=3); did you mean `report.top_n`?",
            ),
            (
                "hardwre=h200",
                "unknown key `hardwre` (override hardwre=h200); did you mean `hardware`?",
            ),
            ("modl/llm=llama_3_8b", "did you mean `model/llm`?"),
            ("engne.x=1", "unknown key `engne.x`"),
            (
                "foo=1",
                "unknown key `foo` (override foo=1); settings of reports are those of report, model, ",
            ),
            ("report.top_m=3", "unknown key `report.top_m`"),
            ("+report.top_m=3", "unknown key `report.top_m`"),
            ("report.top_n=many", "wrong value for `report.top_n`"),
            ("report.gpu_hour_dollars=-1", "above 0 and up to 1,000,000, or null"),
            ("report.gpu_hour_dollars=1e300", "above 0 and up to 1,000,000, or null"),
            ("report.gpu_hour_dollars=nan", "wrong value for `report.gpu_hour_dollars`"),
            ("model/llm=llama_9", "no preset `llama_9`"),
            ("hardware@run=h200", "the run is over"),
            ("hardware", "KEY=VALUE"),
            ("hardware.source=${nowhere.x}", "no such key"),
        ] {
            let error = again(&[], &[word]).expect_err(word);
            assert!(error.contains(part), "{word}: {error}");
            assert!(!error.contains("after `--`") || word == "hardware", "{word}: {error}");
        }
    }

    #[test]
    fn files_of_other_versions_are_a_base_and_broken_ones_are_told() {
        let of = |text: Option<&str>, word: &str| {
            let request = Request { overrides: vec![word.into()], ..Request::default() };
            let tree = recompose(text, &Origins::new(), Path::new("/runs/1"), &request);
            tree.map(|tree| tree.to_json()).map_err(|e| e.to_string())
        };
        let other = "report:\n  top_n: 3\nlater: {key: 1}\n";
        let tree = of(Some(other), "model/llm=llama_3_8b").expect("a base");
        assert_eq!(tree["later"]["key"], 1);
        assert_eq!(tree["model"]["llm"]["name"], "llama_3_8b");
        let tree = of(None, "report.top_n=4").expect("the defaults are the base");
        assert_eq!((&tree["report"]["top_n"], &tree["run"]["dir"]), (&4.into(), &"/runs/1".into()));
        let tree = of(Some("report: 3\n"), "report.top_n=4").expect("it is replaced");
        assert_eq!(tree["report"]["top_n"], 4);
        for broken in ["a: [1", "just words", "- 1\n"] {
            let error = of(Some(broken), "hardware=h200").expect_err(broken);
            assert!(error.contains("config.yaml"), "{error}");
        }
    }
}
