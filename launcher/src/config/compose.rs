//! Presets, overrides and options of the command line -> one checked configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use stage2_model::{Finding, Severity};
use stage2_text::visible_path;

use super::advice::{advice, for_map};
use super::defaults::{Merged, merge_presets};
use super::error::ConfigError;
use super::interpolate::{resolve, resolve_key};
use super::presets::Presets;
use super::resolvers::Moment;
use super::schema::Config;
use stage2_hydra::{Action, Override};
use stage2_hydra::{Node, Origin, Value, join_key};

/// What the command line says about the configuration.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Words `KEY=VALUE`, in order.
    pub overrides: Vec<String>,
    /// `--config-dir`.
    pub config_dir: Option<PathBuf>,
    /// Keys that options of the command line set, the option as it was written, and the value.
    pub flags: Vec<(&'static str, String, Value)>,
}

/// A configuration with the origin of each value. References `${...}` are still in it.
#[derive(Clone, Debug)]
pub struct Composed {
    /// The values.
    pub tree: Node,
    /// What was taken differently from how it was written.
    pub notes: Vec<Finding>,
    /// The name of the preset of each group.
    chosen: BTreeMap<String, String>,
    /// What `${now:...}` and `${hydra:runtime.cwd}` stand for.
    moment: Moment,
}

/// The key by which Hydra's users name a run folder.
const HYDRA_RUN_DIR: &str = "hydra.run.dir";

/// Other names of our keys, as a Hydra app's user or a reader of the command line would write them.
pub(super) const SYNONYMS: &[(&str, &str)] =
    &[(HYDRA_RUN_DIR, "run.dir"), ("run.annotate", "operators.annotate")];

/// Composes and checks the configuration.
///
/// # Errors
/// Anything that is wrong with it; nothing is repaired or skipped.
pub fn compose(request: &Request) -> Result<Composed, ConfigError> {
    let presets = Presets::open(request.config_dir.as_deref())?;
    let overrides: Vec<Override> =
        request.overrides.iter().map(|word| Override::parse(word)).collect::<Result<_, _>>()?;
    let Merged { mut tree, values, chosen } = merge_presets(&presets, overrides)?;
    let mut done = Applied::default();
    let skeleton = skeleton()?;
    let valid = valid_keys(&skeleton, &presets)?;
    for mut o in values {
        if let Some((_, own)) = SYNONYMS.iter().find(|(other, _)| *other == o.key) {
            (*own).clone_into(&mut o.key);
        }
        apply(&mut tree, &o, &valid, &mut done)?;
    }
    for (key, text, value) in &request.flags {
        let origin = Origin::Flag(text.as_str().into());
        tree.set(key, Node { value: value.clone(), origin });
    }
    check_keys(&tree, &skeleton, "", &valid)?;
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

    /// Keys that the command line set.
    pub(crate) fn explicit_keys(&self) -> BTreeSet<String> {
        let named = |node: &Node| !matches!(node.origin, Origin::File { .. });
        self.tree.leaves().into_iter().filter(|(_, n)| named(n)).map(|(key, _)| key).collect()
    }

    /// The run folder that was asked for.
    ///
    /// # Errors
    /// A reference in it to a key that is not there, or a value that is no path.
    pub fn run_dir(&self) -> Result<Option<PathBuf>, ConfigError> {
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
    ///
    /// # Errors
    /// A reference to a key that is not there, a value of the wrong type, or a reference to the run
    /// folder where its name is no text.
    pub fn resolved(&self, run_dir: &Path) -> Result<(Node, Config), ConfigError> {
        let mut tree = self.tree.clone();
        let asked = tree.get("run.dir").map(|node| (node.value.clone(), node.origin.clone()));
        let origin = match asked {
            Some((Value::Text(_) | Value::Literal(_), origin)) => Some(origin),
            Some((Value::Null, _)) | None => Some(Origin::Chosen),
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

/// What came of the overrides besides the values.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Keys that were taken out, and the words that did it.
    deleted: Vec<(String, String)>,
    /// What was taken differently from how it was written.
    notes: Vec<Finding>,
}

/// Applies an override of a value.
pub(super) fn apply(
    tree: &mut Node,
    o: &Override,
    valid: &[String],
    done: &mut Applied,
) -> Result<(), ConfigError> {
    let conflict = |what: String| ConfigError::Conflict { word: o.word.clone(), what };
    let unknown = || ConfigError::UnknownKey {
        key: o.key.clone(),
        origin: o.origin(),
        advice: advice(&o.key, &o.origin(), valid.iter().map(String::as_str)),
    };
    let present = tree.get(&o.key);
    match &o.action {
        Action::Set(_) if present.is_none() => return Err(unknown()),
        Action::Set(value) | Action::Add(value) | Action::AddOrSet(value) => {
            let fills = matches!(value, Value::Map(_) | Value::List(_));
            if matches!(o.action, Action::Add(_))
                && present.is_some_and(|node| node.value != Value::Null && !fills)
            {
                let (key, word) = (&o.key, &o.word);
                done.notes.push(Finding::new(
                    Severity::Note,
                    format!("{word} was taken as {}", word.trim_start_matches('+')),
                    format!(
                        "the key {key} is there already, and Hydra would refuse the + before it"
                    ),
                    "leave the + out",
                ));
            }
            tree.set(&o.key, Node { value: value.clone(), origin: o.origin() });
        }
        Action::Delete(value) => {
            let Some(node) = present else { return Err(unknown()) };
            if let Some(value) = value {
                let expected = Node { value: value.clone(), origin: o.origin() }.to_json();
                let found = node.to_json();
                if found != expected {
                    return Err(conflict(format!("the value is {found}, not {expected}")));
                }
            }
            tree.remove(&o.key);
            done.deleted.push((o.key.clone(), o.word.clone()));
        }
    }
    Ok(())
}

/// The settings as they are built in.
///
/// # Errors
/// Presets that do not fit this program, which a test rules out.
pub(crate) fn built_in() -> Result<Config, ConfigError> {
    let Merged { tree, chosen, .. } = merge_presets(&Presets::open(None)?, Vec::new())?;
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
) -> Result<Vec<String>, ConfigError> {
    fn walk(value: &serde_json::Value, prefix: &str, found: &mut Vec<String>) {
        match value.as_object() {
            Some(map) => map.iter().for_each(|(k, v)| walk(v, &join_key(prefix, k), found)),
            None => found.push(prefix.to_owned()),
        }
    }
    let mut keys = Vec::new();
    walk(skeleton, "", &mut keys);
    keys.extend(presets.groups()?);
    Ok(keys)
}

/// Refuses the first key that is not in the settings.
pub(super) fn check_keys(
    node: &Node,
    skeleton: &serde_json::Value,
    prefix: &str,
    valid: &[String],
) -> Result<(), ConfigError> {
    let Some(known) = skeleton.as_object() else { return Ok(()) };
    // A map without keys of its own (`env_var: {}`) takes any.
    if known.is_empty() {
        return Ok(());
    }
    let Value::Map(pairs) = &node.value else {
        return Err(ConfigError::NoMap {
            key: prefix.to_owned(),
            origin: node.origin.clone(),
            example: nested_example(prefix, valid).into(),
            advice: for_map(prefix),
        });
    };
    for (name, value) in pairs {
        let key = join_key(prefix, name);
        match known.get(name) {
            Some(known) => check_keys(value, known, &key, valid)?,
            None => {
                // The first value under an unknown map says better what was written, and where.
                let leaves = value.leaves();
                let (rest, leaf) =
                    leaves.first().map_or(("", value), |(rest, leaf)| (rest.as_str(), *leaf));
                let key = if rest.is_empty() { key } else { join_key(&key, rest) };
                let origin = leaf.origin.clone();
                let advice = advice(&key, &origin, valid.iter().map(String::as_str));
                return Err(ConfigError::UnknownKey { key, origin, advice });
            }
        }
    }
    Ok(())
}

fn nested_example(prefix: &str, valid: &[String]) -> String {
    let inside = format!("{prefix}.");
    valid.iter().find(|key| key.starts_with(&inside)).map_or(inside, |key| format!("`{key}`"))
}

/// Reads a resolved tree as settings.
pub(super) fn typed(tree: Node) -> Result<(Node, Config), ConfigError> {
    let json = tree.to_json();
    match serde_path_to_error::deserialize::<_, Config>(&json) {
        Ok(config) => match wrong_together(&config) {
            None => Ok((tree, config)),
            Some((key, what)) => {
                let origin = tree.get(&key).map_or(&tree.origin, |node| &node.origin).clone();
                Err(ConfigError::WrongValue { key, origin, what })
            }
        },
        Err(error) => {
            let path: Vec<String> = error
                .path()
                .iter()
                .filter_map(|segment| match segment {
                    serde_path_to_error::Segment::Map { key } => Some(key.clone()),
                    _ => None,
                })
                .collect();
            let key = path.join(".");
            let text = error.into_inner().to_string();
            if let Some(field) =
                text.strip_prefix("missing field `").and_then(|t| t.split('`').next())
            {
                let why = "no preset sets it".into();
                return Err(ConfigError::MissingKey { key: join_key(&key, field), why });
            }
            let origin = tree.get(&key).map_or(&tree.origin, |node| &node.origin).clone();
            Err(ConfigError::WrongValue { key, origin, what: in_plain_words(&text) })
        }
    }
}

/// The first setting that the type of its own key cannot rule out, and what is wrong with it.
fn wrong_together(config: &Config) -> Option<(String, String)> {
    let nsys = config.pipeline.nsys.validate().err();
    let nsys = nsys.map(|wrong| (format!("pipeline.nsys.{}", wrong.key), wrong.what));
    let faults = config.pipeline.ncu.faults().into_iter();
    let mut ncu = faults.map(|wrong| (format!("pipeline.ncu.{}", wrong.key), wrong.what));
    nsys.or_else(|| ncu.next())
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
fn with_deletion(error: ConfigError, deleted: &[(String, String)]) -> ConfigError {
    match error {
        ConfigError::MissingKey { key, why } => {
            let by = deleted.iter().find(|(k, _)| key == *k || key.starts_with(&format!("{k}.")));
            let why = by.map_or(why, |(_, word)| format!("the override {word} took it out"));
            ConfigError::MissingKey { key, why }
        }
        other => other,
    }
}
