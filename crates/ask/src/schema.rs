//! The tables of a bundle with their columns and numbers of rows, as `schema` prints them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use serde::Serialize;
use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::{broken, code, instead, shorten, visible};

use crate::answer::TextOrigin;
use crate::query::{Bundle, Limits, query};
use crate::screen::{Cells, labelled_text, rows_of};
use crate::tables::{ColumnSpec, Holds, Rows, TABLES, TableSpec, each_row, table};

/// Name of the JSON of the tables.
const SCHEMA: &str = "stage2.schema";
/// Version of it.
pub(crate) const SCHEMA_VERSION: u32 = 1;
/// How long counting the rows of trace files may take.
const COUNTING_SECONDS: u64 = 3;
const NOT_COUNTED: &str = "not counted";

/// The tables of a bundle.
#[derive(Debug)]
pub struct Schema {
    tables: Vec<(&'static TableSpec, Option<u64>)>,
    /// One table was asked for: its columns are explained.
    in_full: bool,
}

/// The table of this name, or all of them.
///
/// # Errors
/// When there is no such table.
pub fn schema(bundle: &Bundle<'_>, only: Option<&str>) -> Result<Schema, String> {
    let tables: Vec<&TableSpec> = match only {
        None => TABLES.iter().collect(),
        Some(name) => match table(name) {
            Some(found) => vec![found],
            None => {
                let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
                let shown = code(&shorten(&visible(name.as_bytes()), 80));
                return Err(format!("there is no table {shown}{}", instead(name, &names)));
            }
        },
    };
    let asked = tables.iter().filter(|table| !matches!(table.rows, Rows::Report { .. }));
    let asked = counts(bundle, &asked.map(|table| table.name).collect::<Vec<_>>());
    let tables = tables.into_iter().map(|table| match table.rows {
        Rows::Report { .. } => (table, Some(elements(bundle, table))),
        Rows::View { .. } | Rows::Traces => (table, asked.get(table.name).copied()),
    });
    let tables = tables.collect();
    Ok(Schema { tables, in_full: only.is_some() })
}

fn elements(bundle: &Bundle<'_>, table: &TableSpec) -> u64 {
    let mut rows = 0;
    let Ok(()) = each_row(bundle.report, table, |_| {
        rows += 1;
        Ok::<(), Infallible>(())
    });
    rows
}

/// The rows of tables that a query fills; none where that takes too long.
fn counts<'n>(bundle: &Bundle<'_>, names: &[&'n str]) -> BTreeMap<&'n str, u64> {
    let each = names.iter().map(|name| format!("(SELECT count(*) FROM {name})"));
    let sql = format!("SELECT {}", each.collect::<Vec<_>>().join(", "));
    let limits = Limits { time: Duration::from_secs(COUNTING_SECONDS), ..Limits::default() };
    let answered = query(bundle, &sql, limits).map(|answered| answered.rows).unwrap_or_default();
    let counts = answered.into_iter().flatten().map(|value| value.as_u64());
    names.iter().copied().zip(counts).filter_map(|(name, count)| Some((name, count?))).collect()
}

impl Schema {
    /// A line for each table, or of one table its columns with unit and meaning.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        for (table, rows) in &self.tables {
            let rows = rows.map_or_else(|| NOT_COUNTED.to_owned(), |rows| counted(rows, "row"));
            out.push_str(&format!("{} ({rows}): {}", table.name, table.meaning));
            if self.in_full {
                out.push_str(&format!(
                    ". {}.\n\n| column | unit | meaning | field |\n",
                    from(table)
                ));
                out.push_str("|---|---|---|---|\n");
                for column in table.columns {
                    let holds = holds(column);
                    let (name, meaning, field) =
                        (column.name, column.meaning, table.field_of(column));
                    out.push_str(&format!("| {name} | {holds} | {meaning} | {field} |\n"));
                }
            } else {
                let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
                out.push_str(&format!(". Columns: {}.\n", names.join(", ")));
            }
        }
        if !self.in_full {
            out.push_str(&format!("{}\n", self.last_line()));
        }
        out
    }

    /// The schema as plain text, wrapped for a terminal of `width` columns.
    pub fn to_text(&self, width: usize) -> String {
        let mut out = String::new();
        for (table, rows) in &self.tables {
            let rows = rows.map_or_else(|| NOT_COUNTED.to_owned(), |rows| counted(rows, "row"));
            let said = format!("({rows}): {}", table.meaning);
            if !self.in_full {
                let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
                let said = format!("{said}. Columns: {}.", names.join(", "));
                out.push_str(&labelled_text(table.name, &said, width));
                continue;
            }
            out.push_str(&labelled_text(table.name, &format!("{said}. {}.", from(table)), width));
            out.push('\n');
            let column = |heading: &str, cell: &dyn Fn(&ColumnSpec) -> String| Cells {
                heading: heading.to_owned(),
                is_number: false,
                cells: table.columns.iter().map(cell).collect(),
                about: String::new(),
            };
            let columns = vec![
                column("column", &|column| column.name.to_owned()),
                column("unit", &|column| holds(column).to_owned()),
                column("meaning", &|column| column.meaning.to_owned()),
                column("field", &|column| table.field_of(column)),
            ];
            let rows = table.columns.len();
            out.push_str(&rows_of((rows, rows), columns, width, true));
        }
        if !self.in_full {
            out.push('\n');
            let lines = broken(&self.last_line().replace('`', ""), width);
            lines.iter().for_each(|line| out.push_str(&format!("{line}\n")));
        }
        out
    }

    fn last_line(&self) -> String {
        format!(
            "{} tables. Units are at the end of the names; null is not known. `schema RUN TABLE` explains the \
             columns of a table.",
            count(self.tables.len() as u64)
        )
    }

    /// The tables with their columns, units and row counts, as one line of JSON.
    pub fn to_json(&self) -> String {
        let tables = self.tables.iter().map(|(table, rows)| JsonTable {
            name: table.name,
            rows: *rows,
            meaning: table.meaning,
            from: self.in_full.then(|| from(table)),
            columns: match self.in_full {
                true => Columns::InFull(JsonColumn::of(table)),
                false => Columns::Names(table.columns.iter().map(|column| column.name).collect()),
            },
        });
        let json =
            Json { schema: SCHEMA, schema_version: SCHEMA_VERSION, tables: tables.collect() };
        // Texts and numbers: none of them fails.
        serde_json::to_string(&json).unwrap_or_default() + "\n"
    }
}

/// What the values of a column are.
fn holds(column: &ColumnSpec) -> &'static str {
    match column.holds {
        Holds::Numbers(unit) => unit,
        Holds::Texts(TextOrigin::Stage2) => "text",
        Holds::Texts(TextOrigin::Workload) => "text of the workload",
    }
}

/// The tables of a run: `schema --json`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Tables"))]
pub(crate) struct Json {
    /// `stage2.schema`.
    schema: &'static str,
    /// It grows when a field changes its meaning or goes away.
    schema_version: u32,
    /// The tables; only the one that was asked for.
    tables: Vec<JsonTable>,
}

/// A table.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Table"))]
struct JsonTable {
    /// Its name in SQL.
    name: &'static str,
    /// Its number of rows; null: counting them took too long.
    rows: Option<u64>,
    /// What a row is.
    meaning: &'static str,
    /// Where the rows come from, if one table was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// Their names; if one table was asked for, what they hold.
    columns: Columns,
}

#[derive(Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
enum Columns {
    Names(Vec<&'static str>),
    InFull(Vec<JsonColumn>),
}

/// A column.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Column"))]
struct JsonColumn {
    /// Its name in SQL.
    name: &'static str,
    /// The unit of its numbers; absent: it holds texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    /// Who wrote its texts; absent: it holds numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextOrigin>,
    /// What the values are.
    meaning: &'static str,
    /// The field below the `source` of a row that holds the value; empty: it is computed, or is where `from` says.
    field: String,
}

impl JsonColumn {
    fn of(table: &TableSpec) -> Vec<Self> {
        let column = |column: &ColumnSpec| {
            let (unit, text) = match column.holds {
                Holds::Numbers(unit) => (Some(unit), None),
                Holds::Texts(text) => (None, Some(text)),
            };
            let field = table.field_of(column);
            Self { name: column.name, unit, text, meaning: column.meaning, field }
        };
        table.columns.iter().map(column).collect()
    }
}

/// Where the rows come from, as sentences without the last full stop.
fn from(table: &TableSpec) -> String {
    match table.rows {
        Rows::Report { has, .. } => {
            let only = match has {
                Some("/counters") => ", where ncu measured it",
                Some(_) => ", where samples tell something of it",
                None => "",
            };
            let elsewhere = table.elsewhere().map(|text| format!(". {text}")).unwrap_or_default();
            let place = table.place().unwrap_or_default();
            format!("A row is an element {place} of metrics.json{only}{elsewhere}")
        }
        Rows::View { .. } => "It is computed from other tables".to_owned(),
        Rows::Traces => "It is filled from the trace files when a query names it".to_owned(),
    }
}
