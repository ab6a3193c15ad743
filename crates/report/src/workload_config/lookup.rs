//! Hydra's composed configuration, references and all -> the value at a dotted key.

use serde_json::Value;

/// References that are followed from one key.
const MAX_CHAIN: usize = 8;
/// Levels of keys that are walked.
const MAX_DEPTH: usize = 16;
/// Characters of a value that is shown.
const SHOWN: usize = 200;

/// A composed configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// The values; references are still in them.
    pub(crate) values: Value,
    /// What `${hydra:runtime.cwd}` stands for.
    pub(crate) cwd: Option<String>,
}

impl Tree {
    /// What stands at `key`, as it was written.
    pub(crate) fn raw(&self, key: &str) -> Option<&Value> {
        key.split('.').try_fold(&self.values, |value, part| value.get(part))
    }

    /// The value at `key`; nothing where there is none (null and OmegaConf's `???` included), or where
    /// it depends on what only the workload knows.
    pub(crate) fn value(&self, key: &str) -> Option<Value> {
        let mut key = key.to_owned();
        for _ in 0..MAX_CHAIN {
            match self.raw(&key)? {
                Value::Null => return None,
                Value::String(text) if text == "???" => return None,
                Value::String(text) => match whole_reference(text) {
                    Some(reference) => key = absolute(&key, reference)?,
                    None => return self.text(text).map(Value::String),
                },
                other => return Some(other.clone()),
            }
        }
        None
    }

    /// A text in which the working directory is filled in; nothing where another reference is left.
    fn text(&self, text: &str) -> Option<String> {
        let filled = match &self.cwd {
            Some(cwd) => text.replace("${hydra:runtime.cwd}", cwd),
            None => text.to_owned(),
        };
        (!filled.contains("${")).then_some(filled)
    }

    /// The scalar at `key` as text.
    pub(crate) fn scalar(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) => Some(text),
            value @ (Value::Bool(_) | Value::Number(_)) => Some(value.to_string()),
            _ => None,
        }
    }

    /// Every key that holds no map, and every empty map, dotted.
    pub(crate) fn leaves(&self) -> Vec<String> {
        fn walk(value: &Value, prefix: &str, depth: usize, found: &mut Vec<String>) {
            match value.as_object().filter(|map| !map.is_empty() && depth < MAX_DEPTH) {
                Some(map) => map.iter().for_each(|(key, value)| {
                    let key =
                        if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    walk(value, &key, depth + 1, found);
                }),
                None => found.push(prefix.to_owned()),
            }
        }
        let mut found = Vec::new();
        walk(&self.values, "", 0, &mut found);
        found
    }
}

/// The key in a text that is one reference to a key.
fn whole_reference(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("${")?.strip_suffix('}')?;
    (!inner.contains(['{', '}', ':', '$'])).then_some(inner.trim())
}

/// A reference at `key` as a key from the top: each dot in front of it goes one level up.
fn absolute(key: &str, reference: &str) -> Option<String> {
    let name = reference.trim_start_matches('.');
    let up = reference.len() - name.len();
    if up == 0 {
        return Some(name.to_owned());
    }
    let parts: Vec<&str> = key.split('.').collect();
    let kept = parts.get(..parts.len().checked_sub(up)?)?;
    Some(kept.iter().copied().chain([name]).collect::<Vec<_>>().join("."))
}

/// A value as text.
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A text as it is shown in a finding.
pub(crate) fn shown(text: &str) -> String {
    stage2_contract::text::shorten(text, SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_followed_and_what_only_the_workload_knows_is_nothing() {
        let tree = Tree {
            values: json!({
                "a": {"enable": "${.enabled}", "enabled": true, "up": "${..n}", "far": "${b.c}"},
                "b": {"c": "${a.up}", "path": "${hydra:runtime.cwd}/m", "env": "${oc.env:HOME}/m"},
                "n": 64, "circle": "${circle}", "open": "???", "none": null, "above": "${....x}",
                "part": "x${n}", "empty": {},
            }),
            cwd: Some("/srv".into()),
        };
        assert_eq!(tree.value("a.enable"), Some(json!(true)));
        assert_eq!(tree.scalar("a.far").as_deref(), Some("64"));
        assert_eq!(tree.scalar("b.path").as_deref(), Some("/srv/m"));
        for key in ["b.env", "circle", "open", "none", "above", "part", "b.nothing", "n.x", ""] {
            assert_eq!(tree.value(key), None, "{key}");
        }
        assert!(tree.leaves().contains(&"a.up".to_owned()));
        assert!(tree.leaves().contains(&"empty".to_owned()));
        let bare = Tree { cwd: None, ..tree };
        assert_eq!(bare.value("b.path"), None);
    }

    #[test]
    fn deep_trees_are_walked_to_a_bound() {
        let deep = (0..200).fold(json!(1), |inner, _| json!({"k": inner}));
        let tree = Tree { values: deep, cwd: None };
        assert_eq!(tree.leaves(), [["k"; MAX_DEPTH].join(".")]);
        assert!(shown(&"x".repeat(5000)).chars().count() <= SHOWN + 1);
    }
}
