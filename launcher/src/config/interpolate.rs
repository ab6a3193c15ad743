//! `${key}` in the composed tree -> the value of that key; `${now:...}` -> what resolvers answer.

use std::borrow::Cow;
use std::cell::Cell;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};

use super::ConfigError;
use stage2_config::hydra::{Node, Origin, Value, join_key};
use stage2_contract::text::most_like;

/// A chain of references longer than this goes in circles.
const MAX_CHAIN: usize = 16;
/// References that are followed, and bytes of one text, at most: a few lines can ask for billions.
const MAX_STEPS: usize = 100_000;
const MAX_BYTES: usize = 1 << 20;

/// The tree with every `${key}` replaced; what comes out refers to nothing any more.
pub(super) fn resolve(tree: &Node, moment: &Moment) -> Result<Node, ConfigError> {
    Resolver { tree, moment, steps: Cell::new(0) }.node(tree, "", 0)
}

/// The value at one key, with every `${key}` in it replaced.
pub(super) fn resolve_key(
    tree: &Node,
    key: &str,
    moment: &Moment,
) -> Result<Option<Node>, ConfigError> {
    let resolver = Resolver { tree, moment, steps: Cell::new(0) };
    tree.get(key).map(|node| resolver.node(node, key, 0)).transpose()
}

struct Resolver<'t> {
    tree: &'t Node,
    moment: &'t Moment,
    steps: Cell<usize>,
}

impl Resolver<'_> {
    fn node(&self, node: &Node, key: &str, chain: usize) -> Result<Node, ConfigError> {
        let value = match &node.value {
            Value::Text(text) => self.text(text, node, key, chain)?,
            Value::List(items) => Value::List(
                items.iter().map(|item| self.node(item, key, chain)).collect::<Result<_, _>>()?,
            ),
            Value::Map(pairs) => {
                let of = |k: &String, v| Ok((k.clone(), self.node(v, &join_key(key, k), chain)?));
                let pairs = pairs.iter().map(|(k, v)| of(k, v));
                Value::Map(pairs.collect::<Result<_, ConfigError>>()?)
            }
            other => other.clone(),
        };
        Ok(Node { value, origin: node.origin.clone() })
    }

    /// What `text` at `key` says; `node` has the origin to blame.
    fn text(&self, text: &str, node: &Node, key: &str, chain: usize) -> Result<Value, ConfigError> {
        let wrong = |what: String| ConfigError::wrong_value(key, &node.origin, what);
        if chain > MAX_CHAIN {
            return Err(wrong(format!("the reference {text:?} is circular")));
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, from) = rest.split_at(start);
            let Some(end) = from.find('}') else {
                return Err(wrong(format!("`${{` without `}}` in {text:?}")));
            };
            let (reference, after) = from.split_at(end + 1);
            self.steps.set(self.steps.get() + 1);
            if self.steps.get() > MAX_STEPS || out.len() > MAX_BYTES {
                return Err(wrong(format!(
                    "{reference}: the references multiply to more than {MAX_STEPS} in all, or to \
                     a text of more than {MAX_BYTES} bytes; refer to fewer keys"
                )));
            }
            let name = reference.trim_start_matches("${").trim_end_matches('}').trim();
            let found = self
                .lookup(name, &node.origin)
                .map_err(|what| wrong(format!("{reference}: {what}")))?;
            let value = match &found.value {
                Value::Text(inner) => self.text(inner, node, key, chain + 1)?,
                _ if chain >= MAX_CHAIN => {
                    return Err(wrong(format!("{reference} is circular")));
                }
                _ => self.node(&found, key, chain + 1)?.value,
            };
            if before.is_empty() && after.is_empty() && out.is_empty() {
                return Ok(value);
            }
            out.push_str(before);
            out.push_str(&plain(&value).ok_or_else(|| {
                wrong(format!("{reference} has no plain value that could stand in {text:?}"))
            })?);
            rest = after;
        }
        out.push_str(rest);
        Ok(Value::Literal(out))
    }

    /// What the reference `name` stands for in a value from `origin`.
    fn lookup(&self, name: &str, origin: &Origin) -> anyhow::Result<Cow<'_, Node>> {
        if let Some((resolver, argument)) = name.split_once(':') {
            let text = self.moment.resolve(resolver.trim(), argument.trim(), origin)?;
            let value = Value::Literal(text);
            return Ok(Cow::Owned(Node { value, origin: Origin::Chosen }));
        }
        self.tree.get(name).map(Cow::Borrowed).with_context(|| {
            let leaves = self.tree.leaves();
            let near = most_like(name, leaves.iter().map(|(key, _)| key.as_str()));
            let near = near.map(|key| format!("; did you mean ${{{key}}}?")).unwrap_or_default();
            format!("there is no such key{near}")
        })
    }
}

/// A value as it stands inside of a text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Bool(v) => Some(v.to_string()),
        Value::Int(v) => Some(v.to_string()),
        Value::Float(v) => Some(v.to_string()),
        Value::Text(v) | Value::Literal(v) => Some(v.clone()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

/// What the resolvers answer with. It is taken once, so that every value of a run agrees.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// When the command line was read, local time.
    now: jiff::Zoned,
    /// The working directory; none: it is gone, or its name is not UTF-8.
    cwd: Option<PathBuf>,
}

/// The resolvers that there are, for messages.
const KNOWN: &str = "values may refer only to ${KEY} of this configuration, ${now:FORMAT} and \
                     ${hydra:runtime.cwd}";

impl Moment {
    pub(super) fn this() -> Moment {
        Moment { now: jiff::Zoned::now(), cwd: std::env::current_dir().ok() }
    }

    /// What `${resolver:argument}` stands for in a value from `origin`.
    fn resolve(&self, resolver: &str, argument: &str, origin: &Origin) -> anyhow::Result<String> {
        match (resolver, argument) {
            ("now", format) => {
                // Python's %f is always six digits.
                let text = jiff::fmt::strtime::format(format.replace("%f", "%6f"), &self.now);
                text.map_err(|error| {
                    anyhow!("{format:?} is not a pattern of strftime ({error}), e.g. %Y%m%d-%H%M%S")
                })
            }
            ("hydra", "runtime.cwd") => {
                let cwd = self.cwd.as_ref().and_then(|cwd| cwd.to_str()).map(str::to_owned);
                cwd.context("the working directory has no name in UTF-8; give the path itself")
            }
            ("hydra", _) => bail!("{KNOWN}; after `hydra:` nothing but runtime.cwd is known here"),
            ("oc.env" | "env", argument) => match origin {
                Origin::Override(_) | Origin::Flag(_) => bail!(
                    "{KNOWN}; to use a variable, let the shell fill it in: write \"KEY=${}\" in \
                     double quotes",
                    // Behind the name of the variable a default may stand.
                    argument.split(',').next().unwrap_or_default().trim()
                ),
                _ => bail!(
                    "{KNOWN}; to use a variable, set this key on the command line, where the shell \
                     fills it in"
                ),
            },
            _ => bail!("{KNOWN}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(yaml: &str) -> Result<serde_json::Value, String> {
        let tree = Node::from_yaml(yaml, &"f".into()).expect("YAML");
        resolve(&tree, &Moment::this()).map(|t| t.to_json()).map_err(|e| e.to_string())
    }

    #[test]
    fn references_are_replaced_and_keep_their_type() {
        let yaml = "a: {b: 3, c: x}\nd: ${a.b}\ne: ['${a.c}/${d}', plain]\nf: ${a.c}\n";
        let expected = serde_json::json!({
            "a": {"b": 3, "c": "x"}, "d": 3, "e": ["x/3", "plain"], "f": "x"
        });
        assert_eq!(resolved(yaml), Ok(expected));
    }

    #[test]
    fn what_was_resolved_and_literal_texts_refer_to_nothing() {
        let literal =
            |text: &str| Node { value: Value::Literal(text.into()), origin: Origin::Chosen };
        let mut tree = Node::from_yaml("a: x\nb: ${c}/y\n", &"f".into()).expect("YAML");
        tree.set("c", literal("${a}"));
        let once = resolve(&tree, &Moment::this()).expect("resolved");
        let expected = serde_json::json!({"a": "x", "b": "${a}/y", "c": "${a}"});
        assert_eq!(once.to_json(), expected);
        assert_eq!(resolve(&once, &Moment::this()).expect("again").to_json(), expected);
    }

    #[test]
    fn references_that_multiply_end_soon() {
        for first in ["x", "''"] {
            let mut yaml = format!("k0: {first}\n");
            for level in 1..10 {
                let refers = format!("${{k{}}}", level - 1).repeat(10);
                yaml.push_str(&format!("k{level}: '{refers}'\n"));
            }
            let error = resolved(&yaml).expect_err("a billion");
            assert!(error.contains("multiply"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_resolved_is_told() {
        for (yaml, part) in [
            ("a: ${b}\nb: ${a}\n", "circular"),
            ("a: x${a}\n", "circular"),
            ("a: [x, '${a}']\n", "circular"),
            ("a: ${bb.c}\nb: {c: 1}\n", "did you mean ${b.c}?"),
            ("a: x${b}\nb: null\n", "no plain value"),
            ("a: ${oc.env:HOME}\n", "set this key on the command line"),
            ("a: 'x${b'\n", "without"),
        ] {
            let error = resolved(yaml).expect_err(yaml);
            assert!(error.contains(part) && error.contains("f:1"), "{error}");
        }
    }

    #[test]
    fn time_and_folder_are_filled_in_and_others_are_refused_with_the_reason() {
        let now: jiff::Zoned = "2026-03-04T05:06:07.000089[UTC]".parse().expect("a time");
        let moment = Moment { now, cwd: Some("/srv dir".into()) };
        for (resolver, argument, expected) in [
            ("now", "%Y%m%d-%H%M%S", "20260304-050607"),
            ("now", "%Y-%m-%d/%H-%M-%S-%f", "2026-03-04/05-06-07-000089"),
            ("now", "%b %%", "Mar %"),
            ("hydra", "runtime.cwd", "/srv dir"),
        ] {
            let resolved = moment.resolve(resolver, argument, &Origin::Chosen);
            assert_eq!(resolved.expect(argument), expected, "{resolver}:{argument}");
        }
        for (resolver, argument, part) in [
            ("now", "%!", "not a pattern of strftime"),
            ("now", "%", "not a pattern of strftime"),
            ("hydra", "job.name", "nothing but runtime.cwd"),
            ("oc.env", "HOME", "\"KEY=$HOME\""),
            ("oc.env", "HOME,/tmp", "\"KEY=$HOME\""),
            ("oc.select", "a", "only to ${KEY}"),
        ] {
            let word = Origin::Override("a=1".into());
            let error = moment.resolve(resolver, argument, &word).expect_err(argument).to_string();
            assert!(error.contains(part), "{error}");
        }
        let file = Origin::File { name: "f".into(), line: 1 };
        let error = moment.resolve("oc.env", "HOME", &file).expect_err("a variable").to_string();
        assert!(error.contains("set this key on the command line") && !error.contains("KEY="));
        let nowhere = Moment { cwd: None, ..moment };
        assert!(nowhere.resolve("hydra", "runtime.cwd", &Origin::Chosen).is_err());
    }
}
