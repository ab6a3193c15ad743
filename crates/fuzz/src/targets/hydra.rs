//! Words of a command line in Hydra's grammar, one on each line, and the same bytes as YAML.

use std::sync::Arc;

use stage2_config::hydra::{Action, Node, Origin, Override, Value, hydra_key};

use super::same_twice;

pub(super) fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let file: Arc<str> = "input.yaml".into();
    let yaml = same_twice("YAML", || Node::from_yaml(&text, &file));
    let mut config = match yaml {
        Ok(node) => {
            node.leaves().iter().for_each(|(_, leaf)| assert!(is_scalar_or_list(&leaf.value)));
            node
        }
        Err(error) => {
            let error = error.to_string();
            assert!(!error.is_empty() && !error.contains('\n'), "one line, and no more: {error:?}");
            Node { value: Value::Map(Vec::new()), origin: Origin::Chosen }
        }
    };
    for word in text.lines() {
        check_word(word, &mut config);
    }
    // JSON is YAML: what a configuration is written as is read equal.
    let json = config.to_json();
    let written = serde_json::to_string(&json).expect("every value is JSON");
    if let Ok(again) = Node::from_yaml(&written, &file) {
        assert_eq!(again.to_json(), json, "written and read again: {written}");
    }
}

fn check_word(word: &str, config: &mut Node) {
    let _ = hydra_key(word);
    let parsed = same_twice("override", || Override::parse(word));
    match parsed {
        Ok(parsed) => {
            let origin = parsed.origin();
            match parsed.action {
                Action::Set(value) | Action::Add(value) | Action::AddOrSet(value) => {
                    config.set(&parsed.key, Node { value, origin });
                    assert!(config.get(&parsed.key).is_some(), "what was set is there: {word:?}");
                }
                Action::Delete(_) => drop(config.remove(&parsed.key)),
            }
        }
        Err(error) => {
            let length = word.chars().count();
            assert!((1..=length + 1).contains(&error.at), "a place in the word: {error:?}");
            assert!(!error.what.is_empty(), "{word:?}");
        }
    }
}

fn is_scalar_or_list(value: &Value) -> bool {
    !matches!(value, Value::Map(_))
}
