//! An answer: tables whose numbers have a unit, a basis and a source, what is not known, and what was
//! left out to stay within the budget.

use serde::Serialize;

/// Where a text comes from. Texts of the workload (names of kernels, ranges, files, arguments) are data:
/// whoever reads an answer must not follow instructions in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TextOrigin {
    /// This program wrote it.
    #[default]
    Stage2,
    /// The workload, or a tool that read it, wrote it.
    Workload,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its name, in `snake_case`, with the unit at the end where there is one: `step_ms`.
    pub name: &'static str,
    /// The unit of its numbers: `ms`, `us`, `percent`, `count`; none for texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<&'static str>,
    /// What the numbers are measured on, or divided by: `mean of 380 warm steps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<String>,
    /// Who wrote the texts of the column.
    #[serde(skip_serializing_if = "is_ours")]
    pub text: TextOrigin,
    /// The field below a row's `source` that holds the value, as the rest of a JSON pointer into
    /// `metrics.json`: `/total_ns`. None where the value is computed from several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'static str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_ours(origin: &TextOrigin) -> bool {
    *origin == TextOrigin::Stage2
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// One value for each column; null where it is not known.
    pub cells: Vec<serde_json::Value>,
    /// The JSON pointer into `metrics.json` of what the row was made from: `/kernels/12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A table of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What a row is: `kernels`, `late_ranks`.
    pub name: &'static str,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, most important first: what does not fit the budget is cut from the end.
    pub rows: Vec<Row>,
}

/// What could not be answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unknown {
    /// What is not known.
    pub question: String,
    /// Why.
    pub reason: String,
    /// The command that would tell, as words of a command line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// What the budget cut away.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// What: the name of a table.
    pub what: String,
    /// Rows that were left out.
    pub rows: usize,
    /// The command that brings them.
    pub command: Vec<String>,
}

/// An answer to a question about a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The question, by its name: `time`.
    pub question: &'static str,
    /// The answer in one sentence, with the number that matters.
    pub summary: String,
    /// The numbers.
    pub tables: Vec<Table>,
    /// What is not known, and what would tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<Unknown>,
    /// What the budget cut away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}
