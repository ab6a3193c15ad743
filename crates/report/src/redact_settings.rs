//! `redact` of a configuration -> what is taken out of arguments and settings.

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use stage2_contract::text::redact::{REDACTED, Redactor};

/// The section `redact` of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedactSettings {
    /// Whether secrets are taken out.
    #[serde(default = "yes")]
    secrets: bool,
    /// Parts of names, or beginnings of secrets, that count beside the built-in ones.
    #[serde(default, deserialize_with = "patterns")]
    patterns: Vec<String>,
}

impl Default for RedactSettings {
    fn default() -> Self {
        RedactSettings { secrets: true, patterns: Vec::new() }
    }
}

impl RedactSettings {
    /// What it asks for.
    pub fn redactor(&self) -> Redactor {
        if !self.secrets {
            return Redactor::off();
        }
        // They were checked when they were read.
        Redactor::with(&self.patterns).unwrap_or_default()
    }
}

/// Takes the secrets out of a tree of settings: a value by the name of its key, which also counts for the
/// items of a list, or by itself.
pub fn redact_json(redactor: &Redactor, key: &str, value: &mut Value) {
    match value {
        Value::String(text) => *text = redactor.value(key, text),
        Value::Number(number) if redactor.value(key, &number.to_string()) == REDACTED => {
            *value = REDACTED.into();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_json(redactor, key, item)),
        Value::Object(pairs) => {
            pairs.iter_mut().for_each(|(key, value)| redact_json(redactor, key, value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn yes() -> bool {
    true
}

/// A list of patterns, or one pattern for a list of one.
fn patterns<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a list of patterns, e.g. [acme_pin,'acme_*']")]
    enum Patterns {
        One(String),
        Many(Vec<String>),
    }
    let patterns = match Option::<Patterns>::deserialize(from)? {
        None => Vec::new(),
        Some(Patterns::One(pattern)) => vec![pattern],
        Some(Patterns::Many(patterns)) => patterns,
    };
    Redactor::with(&patterns).map_err(D::Error::custom)?;
    Ok(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::section;

    #[test]
    fn what_a_bundle_says_is_used_and_what_cannot_be_used_takes_nothing_off() {
        let of = |config: Value| {
            let mut findings = Vec::new();
            let settings: RedactSettings = section(&config, "redact", &mut findings);
            (settings.redactor(), findings.len())
        };
        let section = |redact: Value| serde_json::json!({ "redact": redact });
        assert_eq!(of(Value::Null), (Redactor::default(), 0));
        assert_eq!(of(section(serde_json::json!({"secrets": false}))), (Redactor::off(), 0));
        let own = Redactor::with(&["pin"]).expect("a pattern");
        assert_eq!(of(section(serde_json::json!({"patterns": "pin"}))), (own, 0));
        for bad in [serde_json::json!({"patterns": ["a b"]}), serde_json::json!("off"), 3.into()] {
            assert_eq!(of(section(bad)), (Redactor::default(), 1));
        }
    }
}
