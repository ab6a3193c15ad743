//! `${key}` in the composed tree -> the value of that key; `${now:...}` -> what resolvers answer.

use std::borrow::Cow;
use std::cell::Cell;

use anyhow::Context as _;

use super::advice::most_like;
use super::error::ConfigError;
use super::resolvers::Moment;
use stage2_config::hydra::{Node, Origin, Value, join_key};

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
    /// References followed so far.
    steps: Cell<usize>,
}

impl Resolver<'_> {
    fn node(&self, node: &Node, key: &str, chain: usize) -> Result<Node, ConfigError> {
        let value = match &node.value {
            Value::Text(text) => self.text(text, node, key, chain)?,
            Value::List(items) => Value::List(
                items.iter().map(|item| self.node(item, key, chain)).collect::<Result<_, _>>()?,
            ),
            Value::Map(pairs) => Value::Map(
                pairs
                    .iter()
                    .map(|(k, v)| Ok((k.clone(), self.node(v, &join_key(key, k), chain)?)))
                    .collect::<Result<_, ConfigError>>()?,
            ),
            other => other.clone(),
        };
        Ok(Node { value, origin: node.origin.clone() })
    }

    /// What `text` at `key` says; `node` has the origin to blame.
    fn text(&self, text: &str, node: &Node, key: &str, chain: usize) -> Result<Value, ConfigError> {
        let wrong = |what: String| ConfigError::WrongValue {
            key: key.to_owned(),
            origin: node.origin.clone(),
            what,
        };
        if chain > MAX_CHAIN {
            return Err(wrong(format!("the reference {text:?} goes in circles")));
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
                    return Err(wrong(format!("{reference} goes in circles")));
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
            let near = near.map(|key| format!("; the nearest is ${{{key}}}")).unwrap_or_default();
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
            ("a: ${b}\nb: ${a}\n", "circles"),
            ("a: x${a}\n", "circles"),
            ("a: [x, '${a}']\n", "circles"),
            ("a: ${bb.c}\nb: {c: 1}\n", "nearest is ${b.c}"),
            ("a: x${b}\nb: null\n", "no plain value"),
            ("a: ${oc.env:HOME}\n", "set this key on the command line"),
            ("a: 'x${b'\n", "without"),
        ] {
            let error = resolved(yaml).expect_err(yaml);
            assert!(error.contains(part) && error.contains("f:1"), "{error}");
        }
    }
}
