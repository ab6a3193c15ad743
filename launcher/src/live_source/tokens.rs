//! The tokens per second that reports of runs know, which come from the settings of the runs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::commands::diff::METRICS;

/// The folder of a report, and tokens per second by stage.
pub(super) type ReportedTokens = (PathBuf, BTreeMap<String, f64>);

/// Larger ones are not read: what they say of tokens is worth no second.
const METRICS_BYTES: u64 = 64 << 20;

/// Tokens per second by stage, where a report knows them.
fn tokens_in(metrics: &Path) -> BTreeMap<String, f64> {
    let is_small = metrics.metadata().is_ok_and(|found| found.len() <= METRICS_BYTES);
    let text = if is_small { std::fs::read(metrics).unwrap_or_default() } else { Vec::new() };
    let report: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let stages = report.pointer("/answer/stages").and_then(serde_json::Value::as_array);
    let tokens = |stage: &serde_json::Value| {
        let known = stage.pointer("/tokens_per_s/known")?.as_f64()?;
        Some((stage.get("stage")?.as_str()?.to_owned(), known))
    };
    stages.into_iter().flatten().filter_map(tokens).collect()
}

/// Of each report, its folder and the tokens per second by stage. `known`: those that were asked for last.
pub(super) fn reported(
    known: &RefCell<Vec<ReportedTokens>>,
    reports: &[PathBuf],
) -> Vec<ReportedTokens> {
    let mut known = known.borrow_mut();
    let folders = reports.iter().filter_map(|report| report.parent());
    if known.iter().map(|(folder, _)| folder.as_path()).ne(folders.clone()) {
        let of_report = |folder: &Path| (folder.to_owned(), tokens_in(&folder.join(METRICS)));
        *known = folders.map(of_report).collect();
    }
    known.clone()
}
