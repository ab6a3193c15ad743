//! The composed configuration -> typed settings; what cannot be read is left at its default, with a
//! finding.

use serde::de::DeserializeOwned;
use serde_json::Value;
use stage2_contract::text::{shorten, visible};
use stage2_model::Finding;

/// Characters of a problem.
const PROBLEM_LIMIT: usize = 300;

/// A part of the configuration, such as `model.llm`.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn part<T: DeserializeOwned>(config: &Value, key: &str) -> Result<Option<T>, String> {
    let pointer = format!("/{}", key.replace('.', "/"));
    match config.pointer(&pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value).map(Some).map_err(|error| {
            let problem = visible(error.to_string().as_bytes());
            format!("config.yaml: {key} cannot be used: {}", shorten(&problem, PROBLEM_LIMIT))
        }),
    }
}

/// A part of the configuration, or its default, with a finding.
pub(crate) fn section<T: DeserializeOwned + Default>(
    config: &Value,
    key: &str,
    findings: &mut Vec<Finding>,
) -> T {
    part(config, key).map(Option::unwrap_or_default).unwrap_or_else(|problem| {
        findings.push(Finding::warning(
            problem,
            "its defaults are used",
            format!("correct {key} in the configuration and write the reports again"),
        ));
        T::default()
    })
}
