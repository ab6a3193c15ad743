//! The tables that SQL can ask: each with its name, where its rows come from, and for every column the unit,
//! the meaning and the field that fills it. `schema` prints what is declared here.

mod declared;

use serde::Serialize;
use serde_json::Value;
use stage2_model::{KERNEL_COLUMNS, Report};

use crate::answer::TextOrigin;
pub use declared::TABLES;

/// Where the rows of a table come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Elements of `metrics.json`: a JSON pointer in which `*` stands for each element of an array; only those
    /// whose field `has` is there.
    Report {
        /// The pointer.
        at: &'static str,
        /// The field, below the element.
        has: Option<&'static str>,
    },
    /// A view of other tables.
    View {
        /// The SQL that makes it.
        select: &'static str,
    },
    /// The trace files, which are read when a query names the table.
    Traces,
}

/// A table.
#[derive(Debug)]
pub struct TableSpec {
    /// Its name.
    pub name: &'static str,
    /// What a row is.
    pub meaning: &'static str,
    /// Where its rows come from.
    pub rows: Rows,
    /// Its columns.
    pub columns: &'static [ColumnSpec],
}

/// A column.
#[derive(Debug)]
pub struct ColumnSpec {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub holds: Holds,
    /// What the values mean.
    pub meaning: &'static str,
    /// What fills it: the rest of a JSON pointer below the element of the row. It begins with `^` for the
    /// element around that, and with `@` for the name of the row's kernel. [`SOURCE`] is the pointer of the
    /// element itself.
    pub field: &'static str,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Numbers of this unit.
    Numbers(&'static str),
    /// Texts of this origin.
    Texts(TextOrigin),
}

impl ColumnSpec {
    /// The unit of its numbers.
    pub fn unit(&self) -> Option<&'static str> {
        match self.holds {
            Holds::Numbers(unit) => Some(unit),
            Holds::Texts(_) => None,
        }
    }

    /// Whether the workload, or a tool, wrote its texts.
    pub fn is_of_workload(&self) -> bool {
        self.holds == Holds::Texts(TextOrigin::Workload)
    }
}

/// [`ColumnSpec::field`] of the JSON pointer of the row.
pub const SOURCE: &str = "#";
const SOURCE_COLUMN: ColumnSpec =
    own("source", SOURCE, "where metrics.json has the row, as a JSON pointer");

const fn num(
    name: &'static str,
    unit: &'static str,
    field: &'static str,
    meaning: &'static str,
) -> ColumnSpec {
    ColumnSpec { name, holds: Holds::Numbers(unit), meaning, field }
}

const fn ns(name: &'static str, field: &'static str, meaning: &'static str) -> ColumnSpec {
    num(name, "ns", field, meaning)
}

const fn percent(name: &'static str, field: &'static str, meaning: &'static str) -> ColumnSpec {
    num(name, "percent", field, meaning)
}

const fn count(name: &'static str, field: &'static str, meaning: &'static str) -> ColumnSpec {
    num(name, "count", field, meaning)
}

const fn own(name: &'static str, field: &'static str, meaning: &'static str) -> ColumnSpec {
    ColumnSpec { name, holds: Holds::Texts(TextOrigin::Stage2), meaning, field }
}

const fn foreign(name: &'static str, field: &'static str, meaning: &'static str) -> ColumnSpec {
    ColumnSpec { name, holds: Holds::Texts(TextOrigin::Workload), meaning, field }
}

const fn elements(at: &'static str) -> Rows {
    Rows::Report { at, has: None }
}

const STAGE: ColumnSpec = foreign("stage", "/stage", "name of the outermost range");
const STAGE_AROUND: ColumnSpec = foreign("stage", "^/stage", "name of the outermost range");
const PATH: ColumnSpec = foreign("path", "/path", "range path, from the outside in");
const DEVICE: ColumnSpec = foreign("device", "/device", "index and name of the GPU");
const FILE: ColumnSpec = foreign("file", "/file", "trace file of the process");
const KERNEL_ID: ColumnSpec =
    own("kernel_id", "/kernel_id", "short name of the kernel that is the same in every run");
const NAME: ColumnSpec = foreign("name", "/kernel", "name of the kernel, shortened");
const CALLS: ColumnSpec = count("calls", "/calls", "executions, timed or not");
const TOTAL: ColumnSpec =
    ns("total_ns", "/total_ns", "sum of the durations; overlapping executions count each");
const MEAN: ColumnSpec = ns("mean_ns", "/mean_ns", "mean duration");
const MIN: ColumnSpec = ns("min_ns", "/min_ns", "shortest duration");
const P50: ColumnSpec = ns("p50_ns", "/p50_ns", "median duration");
const P99: ColumnSpec = ns("p99_ns", "/p99_ns", "99th percentile of the durations");
const MAX: ColumnSpec = ns("max_ns", "/max_ns", "longest duration");
const OF_TRACES: &str = "";

/// The most rows that a table of the trace files holds.
pub const TRACE_ROWS_MOST: usize = 1_000_000;
/// Where `metrics.json` has the rows of kernels.
const KERNELS_AT: &str = "/kernels/rows";

impl TableSpec {
    /// Where its elements are in `metrics.json`, which has kernels as a table; none: they are not in it.
    pub fn place(&self) -> Option<String> {
        let Rows::Report { at, .. } = self.rows else { return None };
        Some(match at.strip_prefix("/kernels") {
            Some(rest) => format!("{KERNELS_AT}{rest}"),
            None => at.to_owned(),
        })
    }

    /// Where the value of a column is below the `source` of its row; empty: it is computed, or is
    /// [elsewhere](Self::elsewhere).
    pub fn field_of(&self, column: &ColumnSpec) -> String {
        let Some(field) = column.field.strip_prefix('/') else { return String::new() };
        if !self.is_of_kernels() {
            return column.field.to_owned();
        }
        // Of GPUs and launch configurations, rows have indexes.
        let name = field.split('/').next().unwrap_or_default();
        let rest = field.strip_prefix(name).unwrap_or_default();
        let place = KERNEL_COLUMNS.iter().position(|(column, _)| *column == name);
        let place = place.filter(|_| !["device", "launch"].contains(&name));
        place.map_or_else(String::new, |place| format!("/{place}{rest}"))
    }

    /// Where values are that are not below the `source` of their row, as sentences without the last full stop.
    pub fn elsewhere(&self) -> Option<String> {
        if self.is_of_kernels() {
            let text = "The element is an array: /kernels/columns names its values, and what is null or 0 at its end \
                        is left out. Names, stages, GPUs and launch configurations are in the lists next to the rows \
                        (/kernels/names, ranges, devices, launches), full names in /kernel_names, and what samples \
                        say in timelines.json";
            return Some(text.to_owned());
        }
        let place = self.place()?;
        let around = place.get(..place.rfind('*')?)?;
        let around = around.get(..=around.rfind('*')?)?;
        let fields = self.columns.iter().filter_map(|column| {
            let field = column.field.strip_prefix('^')?;
            Some(format!("{} is at {around}{field}", column.name))
        });
        Some(fields.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
    }

    fn is_of_kernels(&self) -> bool {
        matches!(self.rows, Rows::Report { at, .. } if at.starts_with("/kernels/"))
    }
}

/// The table of this name; SQL does not tell upper from lower case.
pub fn table(name: &str) -> Option<&'static TableSpec> {
    TABLES.iter().find(|table| table.name.eq_ignore_ascii_case(name))
}

/// Gives each row of a table of the report to `row`: one value for each column, null where it is not known.
///
/// # Errors
/// The first error of `row`.
pub fn each_row<E>(
    report: &Report,
    table: &TableSpec,
    mut row: impl FnMut(&[Value]) -> Result<(), E>,
) -> Result<(), E> {
    let Rows::Report { at, has } = table.rows else { return Ok(()) };
    let section = at.split('/').nth(1).unwrap_or_default();
    let value = section_of(report, section);
    let steps: Vec<&str> = at.split('/').skip(2).collect();
    let names = match table.columns.iter().any(|column| column.field.starts_with('@')) {
        true => json(&report.kernel_names),
        false => Value::Null,
    };
    let mut each = |elements: &[&Value], pointer: &str| {
        let Some((element, around)) = elements.split_last() else { return Ok(()) };
        let is_there = |field: &str| element.pointer(field).is_some_and(|value| !value.is_null());
        if !has.is_none_or(is_there) {
            return Ok(());
        }
        let name = element.pointer("/name_index").and_then(Value::as_u64);
        let name = name.and_then(|index| names.get(usize::try_from(index).ok()?));
        let mut cells: Vec<Value> = Vec::with_capacity(table.columns.len());
        for ColumnSpec { field, .. } in table.columns {
            let found = match field.split_at_checked(1) {
                Some((SOURCE, _)) => {
                    cells.push(Value::from(pointer));
                    continue;
                }
                Some(("^", field)) => around.last().and_then(|of| of.pointer(field)),
                Some(("@", field)) => name.and_then(|of| of.pointer(field)),
                _ => element.pointer(field),
            };
            cells.push(found.map_or(Value::Null, scalar));
        }
        row(&cells)
    };
    walk(&value, &steps, &mut vec![], &written_at(section), &mut each)
}

/// Follows `steps` from `value`, and gives the elements that stand for `*` on the way, the innermost last.
fn walk<'v, E>(
    value: &'v Value,
    steps: &[&str],
    elements: &mut Vec<&'v Value>,
    pointer: &str,
    each: &mut impl FnMut(&[&Value], &str) -> Result<(), E>,
) -> Result<(), E> {
    let Some((step, rest)) = steps.split_first() else { return each(elements, pointer) };
    if *step != "*" {
        let Some(value) = value.get(step) else { return Ok(()) };
        return walk(value, rest, elements, &format!("{pointer}/{step}"), each);
    }
    for (at, element) in value.as_array().into_iter().flatten().enumerate() {
        elements.push(element);
        walk(element, rest, elements, &format!("{pointer}/{at}"), each)?;
        elements.pop();
    }
    Ok(())
}

/// Where `metrics.json` has the elements of a section.
fn written_at(section: &str) -> String {
    match section {
        "kernels" => KERNELS_AT.to_owned(),
        section => format!("/{section}"),
    }
}

/// What SQLite can hold of a value: texts and numbers as they are, lists with commas.
fn scalar(value: &Value) -> Value {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Array(items) => Value::from(items.iter().map(word).collect::<Vec<_>>().join(", ")),
        // `{"process": 12}`
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key} {}", word(value)));
            Value::from(fields.collect::<Vec<_>>().join(", "))
        }
        value => value.clone(),
    }
}

/// A part of `metrics.json`: all of it at once may be a gigabyte.
fn section_of(report: &Report, section: &str) -> Value {
    match section {
        "kernels" => json(&report.kernels),
        "stages" => json(&report.stages),
        "answer" => json(&report.answer),
        "paths" => json(&report.paths),
        "copies" => json(&report.copies),
        "fills" => json(&report.fills),
        "processes" => json(&report.processes),
        "ranks" => json(&report.ranks),
        "host" => json(&report.host),
        "engine" => json(&report.engine),
        "operators" => json(&report.insight.operators),
        "takeaways" => json(&report.insight.takeaways),
        "layers" => json(&report.layers),
        "energy" => json(&report.energy),
        "ncu_regions" => json(&report.ncu_regions),
        "sampled" => json(&report.sampled),
        "step_series" => json(&report.step_series),
        "findings" => json(&report.findings),
        "coverage" => json(&report.coverage),
        _ => Value::Null,
    }
}

/// The report was JSON, and every number of it is finite.
fn json(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}
