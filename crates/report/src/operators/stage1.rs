//! The folder of a Stage 1 run -> its operators and its aggregates.
//!
//! Stage 1 profiles the same workload with `torch.profiler`. Its `metrics.json` has the means of the
//! stages and, from some versions on, the operators; the others have them in `operators.md`. Both lie
//! in the run's folder or in `torch_profiler` in it. Whatever is wrong with a file costs its part.

use std::path::{Path, PathBuf};

use serde_json::Value;
use stage2_contract::text::visible_path;
use stage2_model::{Absence, Finding, Operators, TokenCounts};
use stage2_read::files;

pub use super::stage1_values::{MeanStd, Stage1Aggregates};
use super::stage1_values::{Table, aggregates, operators_of_json, operators_of_markdown};

/// Larger files are no files of Stage 1.
const LIMIT_BYTES: u64 = 64 << 20;
/// Where the files lie in the run's folder.
const FOLDERS: [&str; 2] = ["", "torch_profiler"];
/// File of the aggregates.
const METRICS: &str = "metrics.json";
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
    let why = match std::fs::metadata(run_dir) {
        Err(error) => error.to_string(),
        Ok(found) if !found.is_dir() => "it is not a folder".to_owned(),
        Ok(_) if is_there(run_dir, METRICS) || is_there(run_dir, OPERATORS) => return Ok(()),
        Ok(_) => "neither the folder nor its torch_profiler/ contains metrics.json or operators.md"
            .to_owned(),
    };
    Err(NoStage1Run { run_dir: run_dir.to_owned(), why })
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

/// Reads what a workload of Stage 1's kind wrote into `folder` of the run itself. That most workloads
/// write none of it is no finding.
pub fn read_own(folder: &Path) -> Stage1Run {
    read_from(folder, Whose::ThisRun)
}

fn read_from(run_dir: &Path, whose: Whose) -> Stage1Run {
    let is_read = |name: &str| whose == Whose::Earlier || is_there(run_dir, name);
    let mut findings = Vec::new();
    let metrics = is_read(METRICS).then(|| read_metrics(run_dir, &mut findings)).flatten();
    let mut aggregates = metrics.as_ref().map(|(_, value)| aggregates(value));
    if whose == Whose::ThisRun {
        aggregates = aggregates.filter(|means| *means != Stage1Aggregates::default());
    }
    let in_metrics = metrics.as_ref().and_then(|(path, value)| {
        let table = operators_of_json(value)?;
        // Another kind of workload may mean something else by the word.
        let is_meant = whose == Whose::Earlier || aggregates.is_some() || !table.rows.is_empty();
        is_meant.then(|| (path.clone(), table))
    });
    let table = in_metrics
        .or_else(|| is_read(OPERATORS).then(|| read_operators(run_dir, &mut findings)).flatten());
    if let Some((path, Table { refused, first_refused: Some(first), .. })) = &table {
        let problem = format!("{refused} rows are no operator with numbers, first: {first}");
        findings.push(unusable(path, &problem, "these operators are missing"));
    }
    if let Some(means) = aggregates.as_ref().filter(|means| !means.refused.is_empty())
        && let Some((path, _)) = &metrics
    {
        let problem = format!("no number from 0 up: {}", means.refused.join(", "));
        findings.push(unusable(path, &problem, "they are left out"));
    }
    let tokens = metrics.map(|(_, value)| TokenCounts::from_metrics(&value)).unwrap_or_default();
    let operators = operators(run_dir, table, whose);
    Stage1Run { operators, aggregates, tokens, findings }
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
    let (path, read) = first_that_is_there(run_dir, METRICS);
    let parsed = read.map_err(|error| error.to_string()).and_then(|bytes| {
        serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string())
    });
    let problem = match parsed {
        Ok(value) if value.is_object() => return Some((path, value)),
        Ok(_) => "it holds no JSON object".to_owned(),
        Err(problem) => problem,
    };
    let lost = "its means, token counts and operators are missing";
    findings.push(unusable(&path, &problem, lost));
    None
}

fn read_operators(run_dir: &Path, findings: &mut Vec<Finding>) -> Option<(PathBuf, Table)> {
    let (path, read) = first_that_is_there(run_dir, OPERATORS);
    let problem = match read {
        Err(error) => error.to_string(),
        Ok(bytes) => match operators_of_markdown(&String::from_utf8_lossy(&bytes)) {
            Some(table) => return Some((path, table)),
            None => "it has no table with op_name and total_time_ms".to_owned(),
        },
    };
    findings.push(unusable(&path, &problem, "there are no operators"));
    None
}

/// The first of the folders that has the file decides, also where it cannot be read.
fn first_that_is_there(run_dir: &Path, name: &str) -> (PathBuf, std::io::Result<Vec<u8>>) {
    let places = FOLDERS.map(|folder| run_dir.join(folder).join(name));
    let [fallback, _] = &places;
    let path = places.iter().find(|path| path.exists()).unwrap_or(fallback).clone();
    let bytes = files::read(&path, LIMIT_BYTES);
    (path, bytes)
}

fn unusable(path: &Path, problem: &str, lost: &str) -> Finding {
    Finding::warning(
        format!("Stage 1 run: {} cannot be used: {problem}", visible_path(path)),
        lost,
        "name the folder of a Stage 1 run that ended by itself with stage1.run_dir, and set token \
         counts with model.tokens",
    )
}

#[cfg(test)]
#[path = "stage1_tests.rs"]
mod tests;
