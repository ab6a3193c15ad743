//! The composed configuration and the workload's metrics -> typed settings; what cannot be read is
//! left at its default, with a finding.

use std::io::ErrorKind;
use std::path::Path;

use crate::files;
use crate::operators::stage1::{FOLDERS, METRICS};
use serde::de::DeserializeOwned;
use serde_json::Value;
use stage2_model::{Finding, TokenCounts};
use stage2_text::{shorten, visible};

/// Where a workload of the runner's kind writes its files, in the run's folder.
pub(crate) const STAGE1: &str = "stage1";
/// Larger files are no metrics.
const LIMIT_BYTES: u64 = 64 << 20;
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

/// Tokens of one generation, as the workload wrote them down.
pub(crate) fn written_tokens(run_dir: &Path, findings: &mut Vec<Finding>) -> TokenCounts {
    // The first that is there decides, as for the operators and the means.
    let places = FOLDERS.map(|folder| Path::new(STAGE1).join(folder).join(METRICS));
    let [fallback, _] = &places;
    let place = places.iter().find(|place| run_dir.join(place).exists()).unwrap_or(fallback);
    match read_metrics(&run_dir.join(place)) {
        Ok(metrics) => TokenCounts::from_metrics(&metrics),
        Err(None) => TokenCounts::default(),
        Err(Some(problem)) => {
            findings.push(Finding::warning(
                format!("{} cannot be used: {}", place.display(), visible(problem.as_bytes())),
                "the workload's token counts are not known from it",
                "set model.tokens in the configuration",
            ));
            TokenCounts::default()
        }
    }
}

/// The file's contents; no problem is told where there is no file: many workloads write none.
fn read_metrics(path: &Path) -> Result<Value, Option<String>> {
    let bytes = files::read(path, LIMIT_BYTES)
        .map_err(|e| (e.kind() != ErrorKind::NotFound).then(|| e.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| Some(error.to_string()))
}
