//! The contents of Stage 1's files -> typed values; what is no sensible number is left out and told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stage2_contract::text::{shorten, visible};
use stage2_model::OperatorRow;

/// Times beyond this are no measurement: a hundred years, in ms.
const LIMIT_MS: f64 = 3.2e12;
/// Rows beyond this are no list of operators.
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
    /// Keys whose values are no numbers from 0 up.
    #[serde(skip)]
    pub refused: Vec<String>,
}

/// Operators, and what of their list could not be read.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<OperatorRow>,
    pub(super) refused: u64,
    pub(super) first_refused: Option<String>,
}

impl Table {
    fn add(&mut self, row: Option<OperatorRow>, shown: impl FnOnce() -> String) {
        match row {
            Some(row) if self.rows.len() < LIMIT_ROWS => self.rows.push(row),
            _ => {
                self.refused += 1;
                self.first_refused
                    .get_or_insert_with(|| shorten(&visible(shown().as_bytes()), 120));
            }
        }
    }
}

/// Reads the means of `metrics.json`.
pub(super) fn aggregates(metrics: &Value) -> Stage1Aggregates {
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
    let fields = |value: Option<&Value>| -> Vec<(String, Value)> {
        let fields = value.and_then(Value::as_object).into_iter().flatten();
        fields.map(|(key, value)| (key.clone(), value.clone())).take(100).collect()
    };
    let shown = |key: &str| visible(key.as_bytes());
    let mut found = Stage1Aggregates {
        prefill_ms: means(of("prefill_ms"), "prefill_ms"),
        decode_ms: means(of("decode_ms"), "decode_ms"),
        tokens: means(of("tokens"), "tokens"),
        tokens_per_s: means(of("tokens_per_s"), "tokens_per_s"),
        ..Stage1Aggregates::default()
    };
    for (key, value) in fields(of("stage_ms")) {
        found.stage_ms.extend(means(Some(&value), &key).map(|mean| (shown(&key), mean)));
    }
    for (key, value) in fields(metrics.get("mfu_per_stage")) {
        found.mfu_per_stage.extend(number(Some(&value), &key).map(|mfu| (shown(&key), mfu)));
    }
    found.mfu_model_level = number(metrics.get("mfu_model_level"), "mfu_model_level");
    found.peak_tflops = number(metrics.get("peak_tflops"), "peak_tflops");
    found.refused = refused;
    found
}

/// Reads `operators` of `metrics.json`: a list of records with the columns of operators.md. Nothing
/// where there is no such list.
pub(super) fn operators_of_json(metrics: &Value) -> Option<Table> {
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
pub(super) fn operators_of_markdown(text: &str) -> Option<Table> {
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
