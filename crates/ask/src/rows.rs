//! The rows that a query found -> Markdown, JSON or CSV.

use std::fmt::Write as _;

use rusqlite::types::ValueRef;
use serde::Serialize;
use serde_json::Value;
use stage2_contract::text::numbers::{count, grouped};
use stage2_contract::text::{broken, code, csv_field, plain, shorten, visible};

use crate::answer::TextOrigin;
use crate::screen;
use crate::tables::ColumnSpec;

/// Name of the JSON of a result.
const SCHEMA: &str = "stage2.query";
/// Version of it.
pub(crate) const SCHEMA_VERSION: u32 = 1;
/// Columns of Markdown are aligned up to this width, characters.
const ALIGNED_CHARS: usize = 40;
/// Longest text of a cell of Markdown, characters; JSON and CSV have all of it.
const CELL_CHARS: usize = 160;
/// The unit of what is not an amount: a rank, an index.
const NUMBER: &str = "number";
/// Memory of a result.
pub(crate) const RESULT_BYTES_MOST: usize = 64 << 20;

/// The result of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// Its columns.
    pub columns: Vec<ResultColumn>,
    /// Its rows, as far as they are shown.
    pub rows: Vec<Vec<Value>>,
    /// All rows.
    pub all: RowCount,
    /// What the reader should know: rows that a table does not hold.
    pub notes: Vec<String>,
}

/// The result of a query: `query --json`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Result"))]
pub(crate) struct Json<'a> {
    /// `stage2.query`.
    schema: &'static str,
    /// It grows when a field changes its meaning or goes away.
    schema_version: u32,
    /// The columns.
    columns: &'a [ResultColumn],
    /// Values in the order of the columns, as far as they are shown; null is not known.
    rows: &'a [Vec<Value>],
    /// All rows; more than so many where `row_count_is_exact` is false.
    row_count: usize,
    /// Whether all rows were counted.
    row_count_is_exact: bool,
    /// How many rows are not here, and what brings them.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
    /// What the tables do not hold.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    notes: &'a [String],
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResultColumn {
    /// Its name, or the expression.
    pub name: String,
    /// The unit of its numbers, as far as the name states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<&'static str>,
    /// Whether the workload wrote its texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextOrigin>,
}

impl ResultColumn {
    /// A column of this name in the result of a query that reads these columns.
    pub(crate) fn of(name: &str, read: &[&'static ColumnSpec]) -> Self {
        let declared = || read.iter().filter(|of| of.name.eq_ignore_ascii_case(name));
        let unit = declared().find_map(|of| of.unit()).or_else(|| unit_of_name(name));
        let is_own = match declared().next() {
            Some(_) => !declared().any(|of| of.is_of_workload()),
            None => !read.iter().any(|of| of.is_of_workload()),
        };
        let text = (unit.is_none() && !is_own).then_some(TextOrigin::Workload);
        Self { name: shorten(&visible(name.as_bytes()), CELL_CHARS), unit, text }
    }
}

/// How many rows there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCount {
    /// So many.
    Is(usize),
    /// More than so many: nobody counted on.
    MoreThan(usize),
    /// More than so many: the result would have taken too much memory.
    NoRoomBeyond(usize),
}

impl Answered {
    /// How many of how many rows there are; nothing where all are there.
    pub fn rest(&self) -> Option<String> {
        let shown = count(self.rows.len() as u64);
        match self.all {
            RowCount::Is(all) if all == self.rows.len() => None,
            RowCount::Is(all) => {
                Some(format!("{shown} of {} rows; --rows 0 for all", count(all as u64)))
            }
            RowCount::MoreThan(all) => {
                let all = count(all as u64);
                Some(format!(
                    "{shown} of more than {all} rows; narrow the query, or --rows 0 for all"
                ))
            }
            RowCount::NoRoomBeyond(_) => Some(format!(
                "the first {shown} rows; the others have no room in {} MB: narrow the query, or aggregate in it (sum, \
                 GROUP BY)",
                RESULT_BYTES_MOST >> 20
            )),
        }
    }

    fn last_line(&self) -> String {
        self.rest().unwrap_or_else(|| match self.rows.len() {
            1 => "1 row".to_owned(),
            rows => format!("{} rows", count(rows as u64)),
        })
    }

    /// A table with aligned columns. Texts of the workload stand in code quotes.
    pub fn to_markdown(&self) -> String {
        let head = self.columns.iter().map(|column| plain(&column.name)).collect();
        let rows = self.rows.iter().map(|row| self.shown(row));
        let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
        let columns: Vec<Aligned> = (0..self.columns.len())
            .map(|at| Aligned {
                width: lines
                    .iter()
                    .filter_map(|line| line.get(at))
                    .map(|c| c.chars().count())
                    .max(),
                is_number: self.rows.iter().filter_map(|row| row.get(at)).all(is_number_or_null),
            })
            .collect();
        let rule: Vec<String> = columns.iter().map(Aligned::rule).collect();
        let mut out = String::new();
        for (number, cells) in lines.into_iter().enumerate() {
            push_line(&mut out, &cells, &columns);
            if number == 0 {
                push_line(&mut out, &rule, &columns);
            }
        }
        for note in &self.notes {
            let _ = write!(out, "\n{}.", plain(note));
        }
        let _ = writeln!(out, "\n{}.", self.last_line());
        out
    }

    /// The table for a person at a terminal of this width: every text as it is, and thousands of what has a unit apart.
    pub fn to_text(&self, width: usize) -> String {
        let cell = |value: &Value, column: &ResultColumn| match value {
            Value::Null => screen::NONE.to_owned(),
            Value::String(text) => shorten(text, CELL_CHARS),
            number if column.unit.is_some_and(|unit| unit != NUMBER) => {
                grouped(&number.to_string())
            }
            number => number.to_string(),
        };
        let columns = self.columns.iter().enumerate().map(|(at, column)| {
            let values = || self.rows.iter().filter_map(|row| row.get(at));
            screen::Cells {
                heading: column.name.clone(),
                is_number: values().all(is_number_or_null),
                cells: values().map(|value| cell(value, column)).collect(),
                about: String::new(),
            }
        });
        let rows = self.rows.len();
        let mut out = screen::rows_of((rows, rows), columns.collect(), width, true);
        let last = self.last_line();
        for line in self.notes.iter().chain([&last]) {
            out.push('\n');
            broken(&format!("{line}."), width)
                .iter()
                .for_each(|line| out.push_str(&format!("{line}\n")));
        }
        out
    }

    fn shown(&self, row: &[Value]) -> Vec<String> {
        let cells = row.iter().zip(&self.columns);
        let cells = cells.map(|(value, column)| match value {
            Value::Null => "–".to_owned(),
            Value::String(text) => {
                let text = shorten(text, CELL_CHARS);
                match column.text {
                    Some(TextOrigin::Workload) => code(&text),
                    _ => plain(&text),
                }
            }
            number => number.to_string(),
        });
        cells.collect()
    }

    /// One line of JSON: columns, rows as arrays, and how many rows there are.
    pub fn to_json(&self) -> String {
        let (all, is_exact) = match self.all {
            RowCount::Is(all) => (all, true),
            RowCount::MoreThan(all) | RowCount::NoRoomBeyond(all) => (all, false),
        };
        let json = Json {
            schema: SCHEMA,
            schema_version: SCHEMA_VERSION,
            columns: &self.columns,
            rows: &self.rows,
            row_count: all,
            row_count_is_exact: is_exact,
            left_out: self.rest(),
            notes: &self.notes,
        };
        // Values of JSON, texts and numbers: none of them fails.
        serde_json::to_string(&json).unwrap_or_default() + "\n"
    }

    /// CSV (RFC 4180) with a line of names. What is left out is said elsewhere.
    pub fn to_csv(&self) -> String {
        let names: Vec<String> =
            self.columns.iter().map(|column| csv_field(&column.name)).collect();
        let cells = self.rows.iter().map(|row| {
            let cells = row.iter().map(|value| match value {
                Value::Null => String::new(),
                Value::String(text) => csv_field(text),
                number => number.to_string(),
            });
            cells.collect::<Vec<_>>()
        });
        let mut out = String::new();
        for line in std::iter::once(names).chain(cells) {
            let fields: Vec<String> = line.into_iter().map(quoted).collect();
            out.push_str(&fields.join(","));
            out.push_str("\r\n");
        }
        out
    }
}

/// A column of a Markdown table.
struct Aligned {
    /// Its widest cell.
    width: Option<usize>,
    is_number: bool,
}

impl Aligned {
    /// What is longer than most cells does not widen all of them.
    fn width(&self) -> usize {
        self.width.unwrap_or(0).clamp(3, ALIGNED_CHARS)
    }

    fn rule(&self) -> String {
        let dashes = "-".repeat(self.width() - 1);
        if self.is_number { dashes + ":" } else { dashes + "-" }
    }
}

fn is_number_or_null(value: &Value) -> bool {
    value.is_number() || value.is_null()
}

fn push_line(out: &mut String, cells: &[String], columns: &[Aligned]) {
    for (cell, column) in cells.iter().zip(columns) {
        let width = column.width();
        let _ = match column.is_number {
            true => write!(out, "| {cell:>width$} "),
            false => write!(out, "| {cell:<width$} "),
        };
    }
    out.push_str("|\n");
}

fn quoted(field: String) -> String {
    match field.contains(['"', ',', '\r', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}

/// A unit that a name ends in.
fn unit_of_name(name: &str) -> Option<&'static str> {
    const UNITS: [&str; 6] = ["ns", "us", "ms", "s", "percent", "bytes"];
    let (before, last) = name.rsplit_once('_')?;
    // A rate has another one, which depends on what comes before.
    if before.ends_with("_per") {
        return None;
    }
    UNITS.into_iter().find(|unit| *unit == last)
}

/// A value as it is printed: texts without control characters, numbers without digits that mean nothing.
pub(crate) fn cell(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::from(number),
        ValueRef::Real(number) => Value::from(rounded(number)),
        ValueRef::Text(text) => Value::from(visible(text)),
        ValueRef::Blob(bytes) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            Value::from(format!("x'{digits}'"))
        }
    }
}

/// Three decimals, or four significant digits of what is below one.
fn rounded(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let decimals = match number.abs() < 1.0 {
        // Of 0.001234 all of them: the first three are zeros.
        true => 3 - number.abs().log10().floor() as i32,
        false => 3,
    };
    let scale = 10f64.powi(decimals.min(300));
    let scaled = (number * scale).round() / scale;
    if scaled.is_finite() { scaled } else { number }
}

pub(crate) fn size(value: &Value) -> usize {
    std::mem::size_of::<Value>() + value.as_str().map_or(0, str::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_for_a_person_fits_the_terminal_and_keeps_its_columns_aligned() {
        let column = |name: &str, unit| ResultColumn { name: name.to_owned(), unit, text: None };
        let kernel = "nvjet_sm90_tst_64x16_64x16_2x1_v_bz_splitK_TNT";
        let answered = Answered {
            columns: vec![
                column("stage", None),
                column("kernel", None),
                column("total_ns", Some("ns")),
                column("pid", Some(NUMBER)),
            ],
            rows: vec![
                vec!["decode".into(), kernel.into(), 172_131_000.into(), 12_345.into()],
                vec!["prefill".into(), Value::Null, 7.into(), 1.into()],
            ],
            all: RowCount::Is(9),
            notes: vec!["the trace of one process is not here".to_owned()],
        };
        let wide = "  stage    kernel                                             total_ns    pid
  decode   nvjet_sm90_tst_64x16_64x16_2x1_v_bz_splitK_TNT  172,131,000  12345
  prefill  –                                                         7      1

the trace of one process is not here.

2 of 9 rows; --rows 0 for all.
";
        assert_eq!(answered.to_text(79), wide);
        let narrow = answered.to_text(24);
        assert!(
            narrow.contains("total_ns: 172,131,000") && narrow.contains("pid:      12345"),
            "{narrow}"
        );
        for width in 40..100 {
            let text = answered.to_text(width);
            assert!(text.contains("12345"), "no column is left out: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
            let joined: String = text.split_whitespace().collect();
            assert!(joined.contains(kernel) && !text.contains('`'), "{width}: {text}");
        }
    }

    #[test]
    fn units_are_at_the_end_of_names() {
        let units = ["step_ms", "total_ns", "idle_percent", "tokens_per_s", "name", "ms"];
        let expected = [Some("ms"), Some("ns"), Some("percent"), None, None, None];
        assert_eq!(units.map(unit_of_name), expected);
    }
}
