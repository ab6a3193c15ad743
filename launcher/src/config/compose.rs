//! Presets, overrides and options of the command line -> one checked configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use stage2_contract::text::visible_path;
use stage2_model::Finding;

use super::advice::{Keys, within};
use super::defaults::{Merged, merge_presets};
use super::error::ConfigError;
use super::interpolate::{resolve, resolve_key};
use super::presets::Presets;
use super::resolvers::Moment;
use super::schema::Config;
use stage2_config::hydra::{Action, Node, Origin, Override, Value, join_key};

/// What the command line says about the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) overrides: Vec<String>,
    pub(crate) config_dir: Option<PathBuf>,
    /// Keys that options of the command line set, the option as it was written, and the value, which
    /// wins over that of an override.
    pub(crate) flags: Vec<(&'static str, String, Value)>,
    /// Keys that options without a value set, the option as it was written, and the value, beside
    /// which no override may say otherwise.
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

/// The key by which Hydra's users name a run folder.
const HYDRA_RUN_DIR: &str = "hydra.run.dir";

/// Other names of our keys, as a Hydra app's user or a reader of the command line would write them.
const SYNONYMS: &[(&str, &str)] =
    &[(HYDRA_RUN_DIR, "run.dir"), ("run.annotate", "operators.annotate")];

impl Request {
    /// The overrides, by our names of the keys.
    pub(super) fn overrides(&self) -> Result<Vec<Override>, ConfigError> {
        let parse = |word: &String| {
            let mut o = Override::parse(word)?;
            if let Some((_, own)) = SYNONYMS.iter().find(|(other, _)| *other == o.key) {
                (*own).clone_into(&mut o.key);
            }
            Ok(o)
        };
        self.overrides.iter().map(parse).collect()
    }
}

/// Composes and checks the configuration.
///
/// # Errors
/// Anything that is wrong with it; nothing is repaired or skipped.
pub(crate) fn compose(request: &Request) -> Result<Composed, ConfigError> {
    let presets = Presets::open(request.config_dir.as_deref())?;
    let runs_workload = !request.no_workload;
    let Merged { mut tree, values, chosen } =
        merge_presets(&presets, request.overrides()?, runs_workload)?;
    let skeleton = skeleton()?;
    let keys = Keys { valid: valid_keys(&skeleton, &presets)?, runs_workload };
    let mut done = Applied::default();
    for o in &values {
        apply(&mut tree, o, &keys, &mut done)?;
    }
    let node = |option: &str, value: &Value| Node {
        value: value.clone(),
        origin: Origin::Flag(option.into()),
    };
    for (key, option, value) in &request.switches {
        agrees(&tree, key, &node(option, value), option)?;
    }
    for (key, option, value) in request.flags.iter().chain(&request.switches) {
        tree.set(key, node(option, value));
    }
    check_keys(&tree, &skeleton, "", &keys)?;
    let Applied { deleted, notes } = done;
    let composed = Composed { tree, notes, chosen, moment: Moment::this() };
    // Every reference is tried now, so that a wrong one is an error of the command line and not
    // of some later step.
    let missing = |error| with_deletion(error, &deleted);
    composed.resolved(Path::new("RUN_DIR")).map_err(missing)?;
    composed.run_dir().map_err(missing)?;
    Ok(composed)
}

impl Composed {
    /// The name of the preset that is used of a group; none: none is.
    pub(crate) fn chosen(&self, group: &str) -> Option<&str> {
        self.chosen.get(group).map(String::as_str)
    }

    pub(crate) fn explicit_keys(&self) -> BTreeSet<String> {
        let named = |node: &Node| !matches!(node.origin, Origin::File { .. });
        self.tree.leaves().into_iter().filter(|(_, n)| named(n)).map(|(key, _)| key).collect()
    }

    pub(crate) fn run_dir(&self) -> Result<Option<PathBuf>, ConfigError> {
        let node = resolve_key(&self.tree, "run.dir", &self.moment)?;
        match node.map(|node| (node.value, node.origin)) {
            None | Some((Value::Null, _)) => Ok(None),
            Some((Value::Literal(path), _)) => Ok(Some(path.into())),
            Some((_, origin)) => Err(ConfigError::WrongValue {
                key: "run.dir".into(),
                origin,
                what: "it has to be a path".into(),
            }),
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
                    "it refers to the run folder {}, whose name is no UTF-8; choose another with \
                     --run-dir",
                    visible_path(run_dir)
                );
                let origin = node.origin.clone();
                return Err(ConfigError::WrongValue { key, origin, what });
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

/// Refuses an option beside an override of the same key that says something else: neither of two words
/// for the same choice is the one that was meant.
fn agrees(tree: &Node, key: &str, node: &Node, option: &str) -> Result<(), ConfigError> {
    let Some(Node { origin: Origin::Override(word), .. }) =
        tree.get(key).filter(|other| other.to_json() != node.to_json())
    else {
        return Ok(());
    };
    let what = format!("{option} says something else of {key}; leave one of the two out");
    Err(ConfigError::Conflict { word: word.to_string(), what })
}

/// What came of the overrides besides the values.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Keys that were taken out, and the words that did it.
    deleted: Vec<(String, String)>,
    /// What was taken differently from how it was written.
    notes: Vec<Finding>,
}

pub(super) fn apply(
    tree: &mut Node,
    o: &Override,
    keys: &Keys,
    done: &mut Applied,
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
                    return Err(ConfigError::Conflict { word: o.word.clone(), what });
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
        (Value::List(_), Value::List(_)) => Some(Finding::warning(
            format!("{word} replaces the list, and adds nothing to it"),
            format!(
                "{key} was {}; Hydra replaces lists, too, with + as without",
                present.to_json()
            ),
            "name the items before it as well, or leave the + out to say that they go",
        )),
        (_, Value::List(_)) => None,
        _ => Some(Finding::note(
            format!("{word} was taken as {}", word.trim_start_matches('+')),
            format!("the key {key} is there already, and Hydra would refuse the + before it"),
            "leave the + out",
        )),
    }
}

/// The settings as they are built in.
///
/// # Errors
/// Presets that do not fit this program, which a test rules out.
pub(crate) fn built_in() -> Result<Config, ConfigError> {
    let Merged { tree, chosen, .. } = merge_presets(&Presets::open(None)?, Vec::new(), true)?;
    let composed = Composed { tree, notes: Vec::new(), chosen, moment: Moment::this() };
    Ok(composed.resolved(Path::new("RUN_DIR"))?.1)
}

/// Every key that there is.
pub(super) fn skeleton() -> Result<serde_json::Value, ConfigError> {
    let config = built_in()?;
    serde_json::to_value(config)
        .map_err(|e| ConfigError::File { file: "built-in presets".into(), what: e.to_string() })
}

/// Dotted names of all valid keys, and the groups.
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
pub(super) fn check_keys(
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
        let (key, origin) = (prefix.to_owned(), node.origin.clone());
        let inside = keys.valid.iter().find(|key| key.starts_with(&format!("{prefix}.")));
        let example = inside.map_or_else(|| format!("{prefix}."), |key| format!("`{key}`"));
        let what = format!("it holds keys, such as {example}{}", keys.for_map(prefix));
        return Err(ConfigError::WrongValue { key, origin, what });
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

/// Reads a resolved tree as settings.
pub(super) fn typed(tree: Node) -> Result<(Node, Config), ConfigError> {
    let wrong = |key: String, what: String| {
        let origin = tree.get(&key).map_or(&tree.origin, |node| &node.origin).clone();
        ConfigError::WrongValue { key, origin, what }
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
            None => wrong(key, in_plain_words(&text)),
        }
    })?;
    // What the type of a key cannot rule out.
    if let Err(fault) = config.pipeline.nsys.validate() {
        return Err(wrong(format!("pipeline.nsys.{}", fault.key), fault.what));
    }
    if let Some(fault) = config.pipeline.ncu.faults().into_iter().next() {
        return Err(wrong(format!("pipeline.ncu.{}", fault.key), fault.what));
    }
    let tokens = &config.model.tokens;
    for (key, count, least) in [
        ("batch_size", tokens.batch_size, 1),
        ("prompt_tokens", tokens.prompt_tokens, 1),
        ("decode_steps", tokens.decode_steps, 0),
        ("images_per_prompt", tokens.images_per_prompt, 0),
        ("crops_per_image", tokens.crops_per_image, 0),
    ] {
        if count.is_some_and(|count| !(least..=MOST_TOKENS).contains(&count)) {
            let what = format!("expected a whole number from {least} to {}, or null", MOST_TOKENS);
            return Err(wrong(format!("model.tokens.{key}"), what));
        }
    }
    Ok((tree, config))
}

/// serde's messages name Rust types.
fn in_plain_words(text: &str) -> String {
    text.replace("expected a nonzero u64", "expected a whole number, 1 or more")
        .replace("expected u64", "expected a whole number, 0 or more")
        .replace("expected u32", "expected a whole number, 0 or more")
        .replace("expected usize", "expected a whole number, 0 or more")
        .replace("expected f64", "expected a number")
        .replace("expected path string", "expected a path (quote a number: KEY=\"'1'\")")
        .replace("expected a string", "expected a word (quote a number: KEY=\"'1'\")")
        .replace("expected a boolean", "expected true or false")
        .replace("expected a sequence", "expected a list, e.g. [a,b]")
}

/// Says which override took a missing key out.
fn with_deletion(mut error: ConfigError, deleted: &[(String, String)]) -> ConfigError {
    if let ConfigError::MissingKey { key, why } = &mut error
        && let Some((_, word)) = deleted.iter().find(|(gone, _)| within(key, gone))
    {
        *why = format!("the override {word} took it out");
    }
    error
}
