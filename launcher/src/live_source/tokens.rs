//! The tokens per second that reports of runs know, and the settings of the runs from which those come.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stage2_config::hydra::Node;
use stage2_model::TokenCounts;
use stage2_read::files;

use crate::bundle::{CONFIG_YAML, MAX_CONFIG_BYTES};
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

/// What the settings of a run state of its tokens.
fn tokens_set(run: &Path) -> TokenCounts {
    let text = files::read_text(&run.join(CONFIG_YAML), MAX_CONFIG_BYTES).unwrap_or_default();
    let tree = Node::from_yaml(&text, &CONFIG_YAML.into()).ok();
    let tokens = tree.as_ref().and_then(|tree| tree.get("model.tokens")).map(Node::to_json);
    tokens.and_then(|tokens| serde_json::from_value(tokens).ok()).unwrap_or_default()
}

/// Of each run, its folder and what its settings state. `known`: those that were asked for last.
pub(super) fn set<'p>(
    known: &RefCell<Vec<(PathBuf, TokenCounts)>>,
    runs: impl Iterator<Item = &'p Path> + Clone,
) -> Vec<(PathBuf, TokenCounts)> {
    let mut known = known.borrow_mut();
    if known.iter().map(|(folder, _)| folder.as_path()).ne(runs.clone()) {
        *known = runs.map(|run| (run.to_owned(), tokens_set(run))).collect();
    }
    known.clone()
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
