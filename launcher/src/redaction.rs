//! What this program writes or says of arguments, settings and variables -> the same without secrets.
//!
//! One redactor for the whole program, set once from the configuration before anything is written.
//! Until then, and in a program without a configuration, it is the built-in one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::OnceLock;

use serde_json::Value as Json;

use stage2_config::hydra::{Node, Origin, Value};
use stage2_contract::text::redact::{REDACTED, Redactor};
use stage2_model::Finding;
use stage2_report::redact_json;

static CONFIGURED: OnceLock<Redactor> = OnceLock::new();
static BUILT_IN: OnceLock<Redactor> = OnceLock::new();

/// Takes this one from now on. A process has one configuration: the first one counts.
pub(crate) fn set(redactor: Redactor) {
    let _ = CONFIGURED.set(redactor);
}

/// The one in force.
pub(crate) fn redactor() -> &'static Redactor {
    CONFIGURED.get().unwrap_or_else(|| BUILT_IN.get_or_init(Redactor::default))
}

pub(crate) fn words(words: &[String]) -> Vec<String> {
    redactor().words(words)
}

/// Arguments of the system. Only what is redacted loses bytes that are not UTF-8.
pub(crate) fn os_words(words: &[OsString]) -> Vec<OsString> {
    let texts: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let redacted = redactor().words(&texts).into_iter();
    let pairs = redacted.zip(&texts).zip(words);
    pairs.map(|((new, old), word)| if new == *old { word.clone() } else { new.into() }).collect()
}

pub(crate) fn os_value(name: &str, value: &OsString) -> OsString {
    let text = value.to_string_lossy();
    let redacted = redactor().value(name, &text);
    if redacted == text { value.clone() } else { redacted.into() }
}

pub(crate) fn variables(variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let value = |(name, value): (&String, &String)| (name.clone(), redactor().value(name, value));
    variables.iter().map(value).collect()
}

pub(crate) fn text(text: &str) -> String {
    redactor().text(text)
}

/// Findings that may cite an argument.
pub(crate) fn findings(findings: &[Finding]) -> Vec<Finding> {
    findings.iter().map(|finding| finding.clone().map_texts(text)).collect()
}

/// A list of inputs, or another tree that another program wrote.
pub(crate) fn json(value: &mut Json) {
    redact_json(redactor(), "", value);
}

/// A composed configuration. The name of a key also counts for what is below it.
pub(crate) fn tree(key: &str, node: &Node) -> Node {
    let is_secret = |text: &str| redactor().value(key, text) == REDACTED;
    let value = match &node.value {
        Value::Text(text) => Value::Text(redactor().value(key, text)),
        Value::Literal(text) => Value::Literal(redactor().value(key, text)),
        Value::Int(number) if is_secret(&number.to_string()) => Value::Literal(REDACTED.into()),
        Value::Float(number) if is_secret(&number.to_string()) => Value::Literal(REDACTED.into()),
        Value::List(items) => Value::List(items.iter().map(|item| tree(key, item)).collect()),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(name, node)| (name.clone(), tree(name, node)));
            Value::Map(pairs.collect())
        }
        other => other.clone(),
    };
    let origin = match &node.origin {
        // One argument: the value may hold blanks.
        Origin::Override(word) => Origin::Override(redactor().words([word]).concat().into()),
        Origin::Flag(words) => Origin::Flag(text(words).into()),
        Origin::Noted(words) => Origin::Noted(text(words).into()),
        other => other.clone(),
    };
    Node { value, origin }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn trees_and_lists_lose_what_their_keys_say() {
        let mut list = serde_json::json!({
            "inputs": [{"path": "a.txt", "password": 1234, "tokens": 5}, "hf_AbCdEfGhIjKlMnOpQr"],
            "api_key": ["x", "y"],
        });
        json(&mut list);
        let expected = serde_json::json!({
            "inputs": [{"path": "a.txt", "password": REDACTED, "tokens": 5}, REDACTED],
            "api_key": [REDACTED, REDACTED],
        });
        assert_eq!(list, expected);
        let yaml = "a: {db_password: 1234, b: [x, 'token=hunter2']}\nmodel: {tokens: {batch: 4}}\n";
        let node = Node::from_yaml(yaml, &"f".into()).expect("YAML");
        let expected = serde_json::json!({
            "a": {"db_password": REDACTED, "b": ["x", "token=[redacted]"]},
            "model": {"tokens": {"batch": 4}},
        });
        assert_eq!(tree("", &node).to_json(), expected);
    }

    #[test]
    fn words_that_are_no_text_stay_as_they_are() {
        let odd = OsString::from_vec(vec![b'x', 0xff]);
        let words = [odd.clone(), "--password".into(), odd.clone(), "--token=\u{fffd}x".into()];
        let expected = [odd, "--password".into(), REDACTED.into(), "--token=[redacted]".into()];
        assert_eq!(os_words(&words), expected);
    }
}
