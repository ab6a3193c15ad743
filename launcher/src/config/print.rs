//! A tree of values -> YAML, with the origin of each value as a comment; and the origins alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::redaction;
use stage2_config::hydra::{Node, Value, join_key};

/// Who set each key, by its dotted name.
pub(crate) type Origins = BTreeMap<String, String>;

/// The origin of each value, without secrets.
pub(crate) fn origins(tree: &Node) -> Origins {
    fn walk(node: &Node, key: &str, found: &mut Origins) {
        match &node.value {
            Value::Map(pairs) if !pairs.is_empty() => {
                pairs.iter().for_each(|(name, node)| walk(node, &join_key(key, name), found));
            }
            _ => drop(found.insert(key.to_owned(), node.origin.to_string())),
        }
    }
    let mut found = Origins::new();
    walk(&redaction::tree("", tree), "", &mut found);
    found
}

/// YAML with the origin of each value behind it, without secrets.
pub(crate) fn with_origins(tree: &Node) -> String {
    let mut lines = Vec::new();
    map_lines(&redaction::tree("", tree), 0, &mut lines);
    // One long value must not push every comment out of sight.
    let lengths = lines.iter().map(|(text, _)| text.chars().count());
    let width = lengths.filter(|n| *n <= 60).max().unwrap_or(0);
    let mut out = String::new();
    for (text, origin) in lines {
        // Writing to a string cannot fail.
        let _ = match origin {
            Some(origin) => writeln!(out, "{text:<width$}  # {}", one_line(&origin)),
            None => writeln!(out, "{text}"),
        };
    }
    out
}

fn map_lines(node: &Node, indent: usize, lines: &mut Vec<(String, Option<String>)>) {
    let Value::Map(pairs) = &node.value else { return };
    for (key, value) in pairs {
        let pad = "  ".repeat(indent);
        let key = scalar(key);
        match &value.value {
            Value::Map(inner) if !inner.is_empty() => {
                lines.push((format!("{pad}{key}:"), None));
                map_lines(value, indent + 1, lines);
            }
            Value::List(items) if !items.is_empty() => {
                lines.push((format!("{pad}{key}:"), Some(value.origin.to_string())));
                for item in items {
                    lines.push((format!("{pad}  - {}", flow(item)), None));
                }
            }
            _ => {
                lines.push((format!("{pad}{key}: {}", flow(value)), Some(value.origin.to_string())))
            }
        }
    }
}

/// A value on one line; JSON is YAML.
fn flow(node: &Node) -> String {
    match &node.value {
        Value::Text(text) | Value::Literal(text) => scalar(text),
        Value::Float(v) if v.is_nan() => ".nan".to_owned(),
        Value::Float(v) if v.is_infinite() => if *v > 0.0 { ".inf" } else { "-.inf" }.to_owned(),
        _ => escaped(&node.to_json()),
    }
}

/// A string as YAML: bare where nobody could read it as something else, else in double quotes.
fn scalar(text: &str) -> String {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || "/_.".contains(c));
    let bare = first && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let keyword = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
        .iter()
        .any(|word| word.eq_ignore_ascii_case(text));
    let numeric = text.starts_with('.')
        && (text.parse::<f64>().is_ok()
            || matches!(text.to_ascii_lowercase().as_str(), ".inf" | ".nan"));
    if bare && !keyword && !numeric && text != "---" {
        return text.to_owned();
    }
    escaped(&text.into())
}

/// JSON without the characters that YAML wants escaped.
fn escaped(json: &serde_json::Value) -> String {
    let escaped = |c: char| match c {
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
            format!("\\u{:04x}", c as u32)
        }
        c => c.to_string(),
    };
    json.to_string().chars().map(escaped).collect()
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_config::hydra::Origin;

    #[test]
    fn what_is_printed_is_read_back() {
        let origin = || Origin::Override("a=\nb".into());
        let node = |value| Node { value, origin: origin() };
        let texts = "plain||true|No|null|1|1.5|.5|a: b|# x|a\nb\u{1b}[2J|\"q\\|- x|é\u{2028}|\
                     ${run.dir}/x|/tmp/x|~|[a]|1/1|*a|&a|!t|%d|@x";
        let items: Vec<Node> = texts.split('|').map(|t| node(Value::Text(t.into()))).collect();
        let tree = node(Value::Map(vec![
            ("list".into(), node(Value::List(items.clone()))),
            ("nested list".into(), node(Value::List(vec![node(Value::List(items.clone()))]))),
            ("empty".into(), node(Value::Map(Vec::new()))),
            ("none".into(), node(Value::List(Vec::new()))),
            ("map".into(), node(Value::Map(vec![("x:y".into(), node(Value::Float(1.0)))]))),
            (
                "in list".into(),
                node(Value::List(vec![node(Value::Map(vec![
                    ("k".into(), node(Value::Int(-3))),
                    ("n".into(), node(Value::Null)),
                ]))])),
            ),
            ("last".into(), node(Value::Bool(false))),
        ]));
        let yaml = with_origins(&tree);
        let back = Node::from_yaml(&yaml, &"f".into()).unwrap_or_else(|e| panic!("{e}\n{yaml}"));
        assert_eq!(back.to_json(), tree.to_json(), "{yaml}");
        assert!(yaml.contains("# override a= b"));
    }
}
