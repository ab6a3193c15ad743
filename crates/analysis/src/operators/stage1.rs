//! The folder of a Stage 1 run -> its operators and its aggregates.
//!
//! Stage 1 profiles the same workload with `torch.profiler`. Its `metrics.json` has the means of the
//! stages and, from some versions on, the operators; the others have them in `operators.md`. Both lie
//! in the run's folder or in `torch_profiler` in it. Whatever is wrong with a file costs its part.

use std::path::{Path, PathBuf};

use crate::files;
use serde_json::Value;
use stage2_model::{Absence, Finding, Operators, TokenCounts};
use stage2_text::{visible, visible_path};

pub use super::stage1_values::{MeanStd, Stage1Aggregates};
use super::stage1_values::{Table, aggregates, operators_of_json, operators_of_markdown};

/// Larger files are no files of Stage 1.
const LIMIT_BYTES: u64 = 64 << 20;
/// Where the files lie in the run's folder.
pub(crate) const FOLDERS: [&str; 2] = ["", "torch_profiler"];
/// File of the aggregates.
pub(crate) const METRICS: &str = "metrics.json";
/// File of the operators.
const OPERATORS: &str = "operators.md";

/// What a Stage 1 run measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage1Run {
    /// Its operators, or why there are none.
    pub operators: Operators,
    /// Its means; nothing where metrics.json cannot be used.
    pub aggregates: Option<Stage1Aggregates>,
    /// Tokens of its generations, as far as metrics.json says.
    pub tokens: TokenCounts,
    /// What could not be used.
    pub findings: Vec<Finding>,
}

impl Stage1Run {
    /// Whether it has an operator or a mean.
    fn is_usable(&self) -> bool {
        self.aggregates.is_some() || !self.operators.rows.is_empty()
    }
}

/// A folder that is not that of a Stage 1 run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "stage1.run_dir={} cannot be used: {why}; give the folder of a Stage 1 run, or omit \
     stage1.run_dir",
    visible_path(.run_dir)
)]
pub struct NoStage1Run {
    run_dir: PathBuf,
    why: String,
}

/// Whether `run_dir` is the folder of a Stage 1 run, before anything counts on it.
///
/// # Errors
/// What is wrong with it and what to do.
pub fn check(run_dir: &Path) -> Result<(), NoStage1Run> {
    let refused = |why| Err(NoStage1Run { run_dir: run_dir.to_owned(), why });
    match std::fs::metadata(run_dir) {
        Err(error) => return refused(error.to_string()),
        Ok(found) if !found.is_dir() => return refused("it is not a folder".to_owned()),
        Ok(_) => {}
    }
    if is_there(run_dir, METRICS) || is_there(run_dir, OPERATORS) {
        return Ok(());
    }
    let why = "neither the folder nor its torch_profiler/ contains metrics.json or operators.md";
    refused(why.to_owned())
}

/// Whether the folder of a run has a file of this name in one of its places.
fn is_there(run_dir: &Path, name: &str) -> bool {
    FOLDERS.iter().any(|part| run_dir.join(part).join(name).exists())
}

/// Which run the files are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// A Stage 1 run that the configuration names: both files are looked for.
    Earlier,
    /// The run that is reported, whose workload may have written them.
    ThisRun,
}

/// Reads the run in `run_dir`.
pub fn read(run_dir: &Path) -> Stage1Run {
    read_from(run_dir, Whose::Earlier)
}

fn read_from(run_dir: &Path, whose: Whose) -> Stage1Run {
    let is_read = |name: &str| whose == Whose::Earlier || is_there(run_dir, name);
    let (mut of_metrics, mut of_operators) = (Vec::new(), Vec::new());
    let metrics = is_read(METRICS).then(|| read_metrics(run_dir, &mut of_metrics)).flatten();
    let (aggregates, table) = match &metrics {
        Some((path, value)) => {
            let table = operators_of_json(value).map(|table| (path.clone(), table));
            (Some(aggregates(value)), table)
        }
        None => (None, None),
    };
    let findings = if table.is_some() { &mut of_metrics } else { &mut of_operators };
    let table =
        table.or_else(|| is_read(OPERATORS).then(|| read_operators(run_dir, findings)).flatten());
    if let Some((path, Table { refused, first_refused: Some(first), .. })) = &table {
        findings.push(unusable(
            path,
            &format!("{refused} rows are no operator with numbers, first: {first}"),
            "these operators are missing",
        ));
    }
    if let Some(aggregates) = aggregates.as_ref().filter(|a| !a.refused.is_empty())
        && let Some((path, _)) = &metrics
    {
        let keys = aggregates.refused.join(", ");
        of_metrics.push(unusable(
            path,
            &format!("no number from 0 up: {keys}"),
            "they are left out",
        ));
    }
    let tokens = metrics.as_ref().map(|(_, value)| TokenCounts::from_metrics(value));
    let tokens = tokens.unwrap_or_default();
    let operators = operators(run_dir, table, whose);
    let mut run = Stage1Run { operators, aggregates, tokens, findings: Vec::new() };
    if whose == Whose::ThisRun {
        run.aggregates = run.aggregates.filter(|means| *means != Stage1Aggregates::default());
        // What is wrong with metrics.json as a whole is said where its token counts are read.
        if !run.is_usable() {
            of_metrics.clear();
        }
    }
    run.findings = [of_metrics, of_operators].concat();
    run
}

/// Reads what a Stage 1 workload wrote into `folder` of the run itself; nothing where there is neither
/// an operator nor a mean. That most workloads write none of it is no finding.
pub fn read_own(folder: &Path) -> Option<Stage1Run> {
    let found = read_from(folder, Whose::ThisRun);
    (found.is_usable() || !found.findings.is_empty()).then_some(found)
}

fn operators(run_dir: &Path, table: Option<(PathBuf, Table)>, whose: Whose) -> Operators {
    let shown = visible_path(run_dir);
    let Some((path, mut table)) = table.filter(|(_, table)| !table.rows.is_empty()) else {
        return Operators {
            source: format!("Stage 1 run {shown}"),
            absent: Some(Absence {
                reason: format!("the Stage 1 run {shown} has no operators"),
                remedy: "name a Stage 1 run with torch.profiler on, with operators in its \
                         metrics.json or operators.md; or omit stage1.run_dir and run with \
                         --annotate torch-ops"
                    .to_owned(),
            }),
            ..Operators::default()
        };
    };
    table.rows.sort_by(|a, b| {
        b.host_total_ns.cmp(&a.host_total_ns).then_with(|| a.op_name.cmp(&b.op_name))
    });
    let (files, profiler) = match whose {
        Whose::Earlier => ("run", "torch.profiler; not this run"),
        Whose::ThisRun => ("files that the workload wrote in this run", "torch.profiler"),
    };
    Operators {
        source: format!(
            "Stage 1 {files}, {} ({profiler}). Stage 1 adds the self time of an operator to its total \
             once more, so its times are upper bounds",
            visible_path(&path)
        ),
        rows: table.rows,
        ..Operators::default()
    }
}

fn read_metrics(run_dir: &Path, findings: &mut Vec<Finding>) -> Option<(PathBuf, Value)> {
    let lost = "its means, and operators that it holds, are missing";
    let (path, read) = first_that_is_there(run_dir, METRICS);
    let parsed = read.and_then(|bytes| {
        serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string())
    });
    match parsed {
        Ok(value) if value.is_object() => Some((path, value)),
        Ok(_) => {
            findings.push(unusable(&path, "it holds no JSON object", lost));
            None
        }
        Err(problem) => {
            findings.push(unusable(&path, &problem, lost));
            None
        }
    }
}

fn read_operators(run_dir: &Path, findings: &mut Vec<Finding>) -> Option<(PathBuf, Table)> {
    let (path, read) = first_that_is_there(run_dir, OPERATORS);
    let table = read.and_then(|bytes| {
        operators_of_markdown(&String::from_utf8_lossy(&bytes))
            .ok_or_else(|| "it has no table with op_name and total_time_ms".to_owned())
    });
    match table {
        Ok(table) => Some((path, table)),
        Err(problem) => {
            findings.push(unusable(&path, &problem, "there are no operators"));
            None
        }
    }
}

/// The first of the folders that has the file decides, also where it cannot be read.
fn first_that_is_there(run_dir: &Path, name: &str) -> (PathBuf, Result<Vec<u8>, String>) {
    let places = FOLDERS.map(|folder| run_dir.join(folder).join(name));
    let [fallback, _] = &places;
    let path = places.iter().find(|path| path.exists()).unwrap_or(fallback).clone();
    let bytes = files::read(&path, LIMIT_BYTES).map_err(|error| error.to_string());
    (path, bytes)
}

fn unusable(path: &Path, problem: &str, lost: &str) -> Finding {
    let problem = visible(problem.as_bytes());
    Finding::warning(
        format!("Stage 1 run: {} cannot be used: {problem}", visible_path(path)),
        lost,
        "name the folder of a Stage 1 run that ended by itself with stage1.run_dir",
    )
}

#[cfg(test)]
#[path = "stage1_tests.rs"]
mod tests;
