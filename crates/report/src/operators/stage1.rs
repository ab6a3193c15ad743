//! The folder of a Stage 1 run -> its operators and its aggregates.
//!
//! Stage 1 profiles the same workload with `torch.profiler`. Its `metrics.json` has the means of the
//! stages and, in newer versions, the operators; the others have them in `operators.md`. Both lie
//! in the run's folder or in `torch_profiler` in it. Whatever is wrong with a file costs its part.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stage2_contract::order::Order as _;
use stage2_contract::text::{shorten, visible, visible_path};
use stage2_model::finding::Id;
use stage2_model::{Absence, Finding, OperatorRow, Operators, TokenCounts};
use stage2_read::files;

/// Larger files are not files of Stage 1.
const LIMIT_BYTES: u64 = 64 << 20;
/// Where the files lie in the run's folder.
const FOLDERS: [&str; 2] = ["", "torch_profiler"];
const METRICS: &str = "metrics.json";
const OPERATORS: &str = "operators.md";

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stage1Run {
    /// Its operators, or why there are none.
    pub(crate) operators: Operators,
    /// Its means; nothing where metrics.json cannot be used.
    pub(crate) aggregates: Option<Stage1Aggregates>,
    /// Tokens of its generations, as far as metrics.json says.
    pub(crate) tokens: TokenCounts,
    pub(crate) findings: Vec<Finding>,
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
pub(crate) enum Stage1Source {
    /// A Stage 1 run that the configuration names: both files are looked for.
    Earlier,
    /// The run that is reported, whose workload may have written them.
    ThisRun,
}

/// Reads a run in `run_dir`. That most workloads write no files of Stage 1's kind into the run itself is not a
/// finding.
pub(crate) fn read(run_dir: &Path, whose: Stage1Source) -> Stage1Run {
    let is_read = |name: &str| whose == Stage1Source::Earlier || is_there(run_dir, name);
    let mut findings = Vec::new();
    let metrics = is_read(METRICS).then(|| read_metrics(run_dir, &mut findings)).flatten();
    let mut aggregates = metrics.as_ref().map(|(_, value)| aggregates(value));
    if whose == Stage1Source::ThisRun {
        aggregates = aggregates.filter(|means| *means != Stage1Aggregates::default());
    }
    let in_metrics = metrics.as_ref().and_then(|(path, value)| {
        let table = operators_of_json(value)?;
        // Another kind of workload may mean something else by the word.
        let is_meant =
            whose == Stage1Source::Earlier || aggregates.is_some() || !table.rows.is_empty();
        is_meant.then(|| (path.clone(), table))
    });
    let table = in_metrics
        .or_else(|| is_read(OPERATORS).then(|| read_operators(run_dir, &mut findings)).flatten());
    if let Some((path, Table { refused, first_refused: Some(first), .. })) = &table {
        let problem = format!("{refused} rows are not operators with numbers, first: {first}");
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

fn operators(run_dir: &Path, table: Option<(PathBuf, Table)>, whose: Stage1Source) -> Operators {
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
    table.rows.order_by(|a, b| {
        b.host_total_ns.cmp(&a.host_total_ns).then_with(|| a.op_name.cmp(&b.op_name))
    });
    let (files, profiler) = match whose {
        Stage1Source::Earlier => ("run", "torch.profiler; not this run"),
        Stage1Source::ThisRun => ("files that the workload wrote in this run", "torch.profiler"),
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
    let parsed = read.map_err(anyhow::Error::from);
    let problem = match parsed.and_then(|bytes| Ok(serde_json::from_slice::<Value>(&bytes)?)) {
        Ok(value) if value.is_object() => return Some((path, value)),
        Ok(_) => "it holds no JSON object".to_owned(),
        Err(problem) => problem.to_string(),
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
    Id::WorkloadConfigUnread.found(
        format!("Stage 1 run: {} cannot be used: {problem}", visible_path(path)),
        lost,
        "name the folder of a Stage 1 run that ended by itself with stage1.run_dir, and set the \
         token counts (model.tokens.batch_size, prompt_tokens and decode_steps)",
    )
}

/// Times beyond this are not measured: a hundred years, in ms.
const LIMIT_MS: f64 = 3.2e12;
/// More rows than this are not a list of operators.
const LIMIT_ROWS: usize = 100_000;
/// Characters of a name.
const NAME_LIMIT: usize = 400;

/// Mean and population standard deviation, in the unit that the name of their field says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanStd {
    /// Mean over the runs, the first, cold one among them.
    pub mean: f64,
    /// Standard deviation; null where it is not given.
    pub std: Option<f64>,
}

/// The `aggregates` of Stage 1. Its times are host times without a synchronisation of the GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage1Aggregates {
    /// Prefill, ms.
    pub prefill_ms: Option<MeanStd>,
    /// Decode, ms.
    pub decode_ms: Option<MeanStd>,
    /// Tokens of a decode.
    pub tokens: Option<MeanStd>,
    /// Tokens per second, a mean of the ratios of the runs.
    pub tokens_per_s: Option<MeanStd>,
    /// Every stage that Stage 1 names, ms; `vision` lies within `prefill`.
    pub stage_ms: BTreeMap<String, MeanStd>,
    /// Model FLOPs utilisation by Stage 1's formula, 0 to 1.
    pub mfu_model_level: Option<f64>,
    /// Model FLOPs utilisation of each stage by Stage 1's formula, 0 to 1.
    pub mfu_per_stage: BTreeMap<String, f64>,
    /// Peak that it was computed with, TFLOP/s.
    pub peak_tflops: Option<f64>,
    /// Keys whose values are not numbers from 0 up.
    #[serde(skip)]
    pub refused: Vec<String>,
}

/// Operators, and what of their list could not be read.
#[derive(Debug, Default)]
struct Table {
    rows: Vec<OperatorRow>,
    refused: u64,
    first_refused: Option<String>,
}

impl Table {
    fn add(&mut self, row: Option<OperatorRow>, shown: impl FnOnce() -> String) {
        if let Some(row) = row.filter(|_| self.rows.len() < LIMIT_ROWS) {
            return self.rows.push(row);
        }
        self.refused += 1;
        self.first_refused.get_or_insert_with(|| shorten(&visible(shown().as_bytes()), 120));
    }
}

/// Reads the means of `metrics.json`.
fn aggregates<'v>(metrics: &'v Value) -> Stage1Aggregates {
    let mut refused = Vec::new();
    let mut number = |value: Option<&Value>, key: &str| {
        let value = value.filter(|value| !value.is_null())?;
        let found = value.as_f64().filter(|number| *number >= 0.0 && *number <= f64::MAX);
        if found.is_none() {
            refused.push(visible(key.as_bytes()));
        }
        found
    };
    let mut means = |found: Option<&Value>, key: &str| {
        let mean = number(found?.get("mean"), key)?;
        Some(MeanStd { mean, std: number(found?.get("std"), key) })
    };
    let of = |key: &str| metrics.get("aggregates").and_then(|found| found.get(key));
    let fields =
        |value: Option<&'v Value>| value.and_then(Value::as_object).into_iter().flatten().take(100);
    let shown = |key: &str| visible(key.as_bytes());
    let mut found = Stage1Aggregates {
        prefill_ms: means(of("prefill_ms"), "prefill_ms"),
        decode_ms: means(of("decode_ms"), "decode_ms"),
        tokens: means(of("tokens"), "tokens"),
        tokens_per_s: means(of("tokens_per_s"), "tokens_per_s"),
        ..Stage1Aggregates::default()
    };
    for (key, value) in fields(of("stage_ms")) {
        found.stage_ms.extend(means(Some(value), key).map(|mean| (shown(key), mean)));
    }
    for (key, value) in fields(metrics.get("mfu_per_stage")) {
        found.mfu_per_stage.extend(number(Some(value), key).map(|mfu| (shown(key), mfu)));
    }
    found.mfu_model_level = number(metrics.get("mfu_model_level"), "mfu_model_level");
    found.peak_tflops = number(metrics.get("peak_tflops"), "peak_tflops");
    found.refused = refused;
    found
}

/// Reads `operators` of `metrics.json`: a list of records with the columns of operators.md. Nothing
/// where there is no such list.
fn operators_of_json(metrics: &Value) -> Option<Table> {
    let mut table = Table::default();
    for record in metrics.get("operators")?.as_array()? {
        let text = |key: &str| match record.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        table.add(row(text), || record.to_string());
    }
    Some(table)
}

/// Reads the first table of a Markdown file that has the columns of operators.md, in any order.
/// Nothing where there is none.
fn operators_of_markdown(text: &str) -> Option<Table> {
    let mut lines = text.lines().map(str::trim);
    let columns = lines.by_ref().map(cells).find(|cells| {
        let has = |name: &str| cells.iter().any(|cell| cell == name);
        has("op_name") && has("total_time_ms")
    })?;
    let mut table = Table::default();
    for line in lines.take_while(|line| line.starts_with('|')) {
        let cells = cells(line);
        if cells.iter().all(|cell| cell.chars().all(|c| matches!(c, ':' | '-' | ' '))) {
            continue;
        }
        let cell = |name: &str| {
            let at = columns.iter().position(|column| column == name)?;
            cells.get(at).cloned()
        };
        table.add(row(cell), || line.to_owned());
    }
    Some(table)
}

/// The cells of a line of a Markdown table, with `\|` resolved.
fn cells(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\0");
    let line = line.strip_prefix('|').unwrap_or(&line);
    let inner = line.strip_suffix('|').unwrap_or(line);
    inner.split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
}

fn row(text: impl Fn(&str) -> Option<String>) -> Option<OperatorRow> {
    let name = text("op_name").filter(|name| !name.is_empty())?;
    // Absent is not zero, and what is there has to be a time.
    let time = |key: &str| match text(key) {
        None => Some(None),
        Some(value) => ns(&value).map(Some),
    };
    let calls: u64 = text("calls")?.replace(',', "").parse().ok()?;
    Some(OperatorRow {
        op_name: shorten(&visible(name.as_bytes()), NAME_LIMIT),
        host_total_ns: Some(ns(&text("total_time_ms")?)?),
        gpu_inclusive_ns: time("cuda_time_ms")?,
        host_mean_ns: time("mean_ms")?,
        calls,
        ..OperatorRow::default()
    })
}

/// A number of milliseconds, in ns.
fn ns(ms: &str) -> Option<u64> {
    let ms: f64 = ms.replace(',', "").parse().ok()?;
    (0.0..=LIMIT_MS).contains(&ms).then(|| (ms * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The layout that mdutils gives a table: four empty lines, no padding, centred columns.
    const MARKDOWN: &str = "\n\n\n\n# Operator Summary (Top‑K)\n\nRows: 3 (k=20)\n\n\
    |op_name|total_time_ms|cuda_time_ms|calls|mean_ms|\n\
    | :---: | :---: | :---: | :---: | :---: |\n\
    |aten::mm|20.000|1.500|4|5.000000|\n\
    |aten::linear|1,030.125|0.000|10|103.012500|\n\
    |a\\|b|3.000|0.000|1|3.000000|\n\n\nafter\n";

    const METRICS: &str = r#"{"aggregates": {
    "prefill_ms": {"mean": 98.336, "std": 1.5}, "decode_ms": {"mean": 707.379, "std": 0},
    "tokens": {"mean": 64, "std": 0.0}, "tokens_per_s": {"mean": 90.5, "std": 0.1},
    "stage_ms": {"prefill": {"mean": 98.336, "std": 1.5}, "vision": {"mean": 39.965, "std": null}}},
    "mfu_model_level": 0.00262, "mfu_per_stage": {"prefill": 0.021011}, "peak_tflops": 209.5,
    "model_dims": {"d_model": 1280, "d_ff": 6848, "n_layers": 12}}"#;

    fn run(files: &[(&str, &str)]) -> (tempfile::TempDir, Stage1Run) {
        let folder = tempfile::tempdir().expect("folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("parent")).expect("folders");
            fs::write(path, text).expect("file");
        }
        let found = read(folder.path(), Stage1Source::Earlier);
        (folder, found)
    }

    #[test]
    fn a_run_as_stage_1_writes_it() {
        for folder in ["", "torch_profiler/"] {
            let files = [
                (&*format!("{folder}metrics.json"), METRICS),
                (&*format!("{folder}operators.md"), MARKDOWN),
            ];
            let (_folder, found) = run(&files);
            assert_eq!(found.findings, []);
            let names = found.operators.rows.iter().map(|row| row.op_name.as_str());
            assert!(names.eq(["aten::linear", "aten::mm", "a|b"]), "longest first: {found:?}");
            let linear = &found.operators.rows[0];
            assert_eq!((linear.host_total_ns, linear.calls), (Some(1_030_125_000), 10));
            assert_eq!(linear.host_mean_ns, Some(103_012_500));
            assert_eq!(linear.gpu_inclusive_ns, Some(0));
            assert!(found.operators.source.contains("operators.md"), "{}", found.operators.source);
            assert!(found.operators.source.contains("not this run"));
            let means = found.aggregates.expect("aggregates");
            assert_eq!(means.prefill_ms, Some(MeanStd { mean: 98.336, std: Some(1.5) }));
            assert_eq!(means.stage_ms["vision"], MeanStd { mean: 39.965, std: None });
            assert_eq!(means.mfu_per_stage["prefill"], 0.021011);
            assert_eq!(means.peak_tflops, Some(209.5));
        }
    }

    #[test]
    fn operators_in_metrics_json_come_first() {
        let metrics = r#"{"operators": [
        {"op_name": "aten::add", "total_time_ms": 2.5, "cuda_time_ms": 1, "calls": 2, "mean_ms": 1.25},
        {"op_name": "aten::mul", "total_time_ms": -1, "calls": 1},
        {"op_name": "", "total_time_ms": 1, "calls": 1}, 7,
        {"op_name": "aten::sub", "total_time_ms": 1, "calls": 1}]}"#;
        let (_folder, found) = run(&[("metrics.json", metrics), ("operators.md", MARKDOWN)]);
        let rows = &found.operators.rows;
        assert_eq!((rows.len(), rows[0].host_total_ns), (2, Some(2_500_000)));
        assert_eq!(rows[1].gpu_inclusive_ns.or(rows[1].host_mean_ns), None, "absent is not zero");
        assert!(found.operators.source.contains("metrics.json"));
        assert!(found.findings[0].what.contains("3 rows"), "{:?}", found.findings);
        assert!(found.findings[0].what.contains("aten::mul"), "{:?}", found.findings);
    }

    #[test]
    fn what_is_missing_or_broken_is_named() {
        let (_folder, found) = run(&[]);
        assert_eq!(found.findings.len(), 2);
        assert!(found.findings[0].what.contains("metrics.json"), "{:?}", found.findings);
        assert!(found.findings[1].what.contains("operators.md"), "{:?}", found.findings);
        let absent = found.operators.absent.expect("a reason");
        assert!(absent.reason.contains("has no operators") && absent.remedy.contains("torch-ops"));
        assert_eq!(found.aggregates, None);
        for (metrics, part) in [
            ("", "EOF"),
            ("[1]", "no JSON object"),
            (r#"{"aggregates": {"prefill_ms": {"mean": NaN}}}"#, "expected value"),
            (r#"{"aggregates": {"prefill_ms": {"mean": -3}}}"#, "no number from 0 up: prefill_ms"),
            (r#"{"mfu_model_level": "high", "peak_tflops": null}"#, "mfu_model_level"),
            (r#"{"operators": [{"op_name": "\u001b[2J|", "total_time_ms": "1e999"}]}"#, "1 rows"),
        ] {
            let (_folder, found) = run(&[("metrics.json", metrics), ("operators.md", MARKDOWN)]);
            let told = found.findings.iter().any(|finding| finding.what.contains(part));
            assert!(told, "{metrics}: {:?}", found.findings);
            assert!(!found.findings.iter().any(|f| f.what.contains('\u{1b}')));
        }
        let (_folder, found) =
            run(&[("metrics.json", "{}"), ("operators.md", "# nothing\n|a|b|\n")]);
        assert!(found.findings[0].what.contains("no table"), "{:?}", found.findings);
        let broken = MARKDOWN.replace("|4|5.0", "|4.5|5.0").replace("20.000", "nan");
        let (_folder, found) = run(&[("metrics.json", "{}"), ("operators.md", &broken)]);
        assert_eq!(found.operators.rows.len(), 2);
        let what = &found.findings[0].what;
        assert!(what.contains("1 rows") && what.contains("aten::mm"), "{what}");
    }

    #[test]
    fn a_folder_where_a_file_should_be_is_no_panic() {
        let folder = tempfile::tempdir().expect("folder");
        fs::create_dir(folder.path().join("metrics.json")).expect("folder");
        let found = read(folder.path(), Stage1Source::Earlier);
        assert!(found.findings[0].what.contains("but a folder"), "{:?}", found.findings);
    }
}
