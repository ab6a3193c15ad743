//! `${key}` in the composed tree -> the value of that key.

use super::error::{ConfigError, most_like};
use super::node::{Node, Value, join_key};

/// A chain of references longer than this goes in circles.
const MAX_CHAIN: usize = 16;

/// The tree with every `${key}` replaced.
pub(crate) fn resolve(tree: &Node) -> Result<Node, ConfigError> {
    resolve_node(tree, tree, "", 0)
}

/// The value at one key, with every `${key}` in it replaced.
pub(crate) fn resolve_key(tree: &Node, key: &str) -> Result<Option<Node>, ConfigError> {
    tree.get(key).map(|node| resolve_node(node, tree, key, 0)).transpose()
}

fn resolve_node(node: &Node, tree: &Node, key: &str, chain: usize) -> Result<Node, ConfigError> {
    let value = match &node.value {
        Value::Text(text) => resolve_text(text, node, tree, key, chain)?,
        Value::List(items) => Value::List(
            items
                .iter()
                .map(|item| resolve_node(item, tree, key, chain))
                .collect::<Result<_, _>>()?,
        ),
        Value::Map(pairs) => Value::Map(
            pairs
                .iter()
                .map(|(k, v)| Ok((k.clone(), resolve_node(v, tree, &join_key(key, k), chain)?)))
                .collect::<Result<_, ConfigError>>()?,
        ),
        other => other.clone(),
    };
    Ok(Node { value, origin: node.origin.clone() })
}

fn resolve_text(
    text: &str,
    node: &Node,
    tree: &Node,
    key: &str,
    chain: usize,
) -> Result<Value, ConfigError> {
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
        let name = reference.trim_start_matches("${").trim_end_matches('}').trim();
        let found = lookup(name, tree).map_err(|what| wrong(format!("{reference}: {what}")))?;
        let value = match &found.value {
            Value::Text(inner) => resolve_text(inner, node, tree, key, chain + 1)?,
            _ if chain >= MAX_CHAIN => return Err(wrong(format!("{reference} goes in circles"))),
            _ => resolve_node(found, tree, key, chain + 1)?.value,
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
    Ok(Value::Text(out))
}

fn lookup<'a>(name: &str, tree: &'a Node) -> Result<&'a Node, String> {
    if name.contains(':') {
        return Err("only keys of this configuration can be referred to, e.g. ${run.dir}".into());
    }
    tree.get(name).ok_or_else(|| {
        let leaves = tree.leaves();
        let near = most_like(name, leaves.iter().map(|(key, _)| key.as_str()));
        let near = near.map(|key| format!("; the nearest is ${{{key}}}")).unwrap_or_default();
        format!("there is no such key{near}")
    })
}

/// A value as it stands inside of a text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Bool(v) => Some(v.to_string()),
        Value::Int(v) => Some(v.to_string()),
        Value::Float(v) => Some(v.to_string()),
        Value::Text(v) => Some(v.clone()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(yaml: &str) -> Result<serde_json::Value, String> {
        let tree = Node::from_yaml(yaml, &"f".into()).expect("YAML");
        resolve(&tree).map(|t| t.to_json()).map_err(|e| e.to_string())
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
    fn what_cannot_be_resolved_is_told() {
        for (yaml, part) in [
            ("a: ${b}\nb: ${a}\n", "circles"),
            ("a: x${a}\n", "circles"),
            ("a: [x, '${a}']\n", "circles"),
            ("a: ${bb.c}\nb: {c: 1}\n", "nearest is ${b.c}"),
            ("a: x${b}\nb: null\n", "no plain value"),
            ("a: ${oc.env:HOME}\n", "only keys"),
            ("a: 'x${b'\n", "without"),
        ] {
            let error = resolved(yaml).expect_err(yaml);
            assert!(error.contains(part) && error.contains("f:1"), "{error}");
        }
    }
}
