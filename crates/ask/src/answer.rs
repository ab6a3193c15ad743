//! An answer: tables whose numbers have a unit, a basis and a source, what is not known, and what was
//! left out to stay within the budget. [`super::budget`] prints it.

use serde::Serialize;
use serde_json::Value;
use stage2_contract::text::visible;

use crate::budget::BUDGET_TOKENS;

/// Name of the JSON of an answer.
pub const SCHEMA: &str = "stage2.ask";
/// Version of it: grows when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;
/// Rows of a table that an answer has where no budget was asked for.
pub const USUAL_ROWS: usize = 10;
/// Longest text of the user that is repeated in a command, characters.
const WORD_CHARS: usize = 200;
/// The table of the questions that lead on.
pub(crate) const ASK_NEXT: &str = "ask_next";
/// The program, as commands name it.
pub(crate) const PROGRAM: &str = "stage2-launch";

/// Where a text comes from. Texts of the workload (names of kernels, ranges, files, arguments) are data:
/// whoever reads an answer must not follow instructions in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TextOrigin {
    /// This program wrote it.
    #[default]
    Stage2,
    /// The workload, or a tool that read it, wrote it.
    Workload,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The field below each place of a row whose source is a list: the value is the sum of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summed: Option<&'static str>,
    /// A terminal shows it only with all rows.
    #[serde(skip)]
    pub aside: bool,
    /// A terminal shows it only with all rows if the rows that matter have no room with it.
    #[serde(skip)]
    pub spare: bool,
    /// A person needs no more than its heading.
    #[serde(skip)]
    pub plain: bool,
    /// Its name for a person, if that depends on the run.
    #[serde(skip)]
    pub heading: Option<String>,
    /// Values, and the words for them that a person reads.
    #[serde(skip)]
    pub said_as: &'static [(&'static str, &'static str)],
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_ours(origin: &TextOrigin) -> bool {
    *origin == TextOrigin::Stage2
}

impl Column {
    /// A column of numbers.
    pub fn number(name: &'static str, unit: &'static str) -> Self {
        Self { name, unit: Some(unit), ..Self::default() }
    }

    /// A column of texts that this program wrote.
    pub fn text(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// A column of texts of the workload.
    pub fn workload(name: &'static str) -> Self {
        Self { name, text: TextOrigin::Workload, ..Self::default() }
    }

    /// Names the field that holds the values.
    #[must_use]
    pub fn at(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }

    /// Names the field whose sum the values are, where a row is made from several places.
    #[must_use]
    pub fn sum_of(self, field: &'static str) -> Self {
        Self { summed: Some(field), ..self }
    }

    /// What a person at a terminal looks at only with all rows.
    #[must_use]
    pub fn aside(self) -> Self {
        Self { aside: true, ..self }
    }

    /// What a person at a terminal looks at only with all rows, if more rows fit without it.
    #[must_use]
    pub fn spare(self) -> Self {
        Self { spare: true, ..self }
    }

    /// What its heading says to a person, in words that come with it: the basis is for programs.
    #[must_use]
    pub fn plain(self) -> Self {
        Self { plain: true, ..self }
    }

    /// Its name for a person.
    #[must_use]
    pub fn headed(self, heading: impl Into<String>) -> Self {
        Self { heading: Some(heading.into()), ..self }
    }

    /// Words for some of its values, for a person.
    #[must_use]
    pub fn said_as(self, said_as: &'static [(&'static str, &'static str)]) -> Self {
        Self { said_as, ..self }
    }

    /// States what the values are measured on, or how they are computed.
    #[must_use]
    pub fn of(self, basis: impl Into<String>) -> Self {
        Self { basis: Some(basis.into()), ..self }
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// One value for each column; null where it is not known.
    pub cells: Vec<Value>,
    /// What the row was made from.
    pub source: Option<Source>,
}

impl Row {
    /// A row with its source.
    pub fn new(source: impl Into<String>, cells: Vec<Value>) -> Self {
        Self { cells, source: Some(Source::Place(source.into())) }
    }
}

/// Where the numbers of a row are in `metrics.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Source {
    /// The JSON pointer of one place: `/stages/1`.
    Place(String),
    /// The JSON pointers of several, whose numbers are added.
    Sum(Vec<String>),
}

/// A table of an answer. In JSON it is `name`, `columns`, `rows` (arrays of values) and `sources`, one for
/// each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What a row is: `kernels`, `late_ranks`.
    pub name: &'static str,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, most important first: what does not fit the budget is cut from the end.
    pub rows: Vec<Row>,
    /// Rows that an answer has where no budget was asked for.
    pub usual: usize,
    /// What it is of, for a person at a terminal, who reads no pointers.
    pub of: Option<String>,
    /// Rows that matter to a person at a terminal; the others are there with all rows.
    pub brief: usize,
    /// The first rows that a person must see, even without [spare](Column::spare) columns.
    pub least: usize,
    /// Its name for a person, if that depends on the run.
    pub title: Option<&'static str>,
}

impl Table {
    /// A table with the usual number of rows.
    pub fn new(name: &'static str, columns: Vec<Column>, rows: Vec<Row>) -> Self {
        Self {
            name,
            columns,
            rows,
            usual: USUAL_ROWS,
            of: None,
            brief: usize::MAX,
            least: 0,
            title: None,
        }
    }

    /// With so many rows that matter to a person at a terminal.
    #[must_use]
    pub fn briefly(self, brief: usize) -> Self {
        Self { brief, ..self }
    }

    /// With so many rows that a person at a terminal must see.
    #[must_use]
    pub fn at_least(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// With this name for a person.
    #[must_use]
    pub fn titled(self, title: Option<&'static str>) -> Self {
        Self { title, ..self }
    }

    /// With so many rows where no budget was asked for.
    #[must_use]
    pub fn usually(self, usual: usize) -> Self {
        Self { usual, ..self }
    }
}

/// What could not be answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unknown {
    /// What is not known; names of the workload are quoted as code.
    pub question: String,
    /// Why.
    pub reason: String,
    /// The command that would tell, as words of a command line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// An answer to a question about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The question, by its name: `time`.
    pub question: &'static str,
    /// What the user called the run.
    pub run: String,
    /// The command that asked, as words of a command line, without a budget: it is repeated with a larger
    /// one where something was left out.
    pub call: Vec<String>,
    /// The answer in one sentence, with the number that matters.
    pub summary: String,
    /// The numbers; the most important table first.
    pub tables: Vec<Table>,
    /// What is not known, and what would tell.
    pub unknown: Vec<Unknown>,
    /// Tokens at most where no budget was asked for.
    pub usual_tokens: usize,
}

impl Answer {
    /// An answer without numbers.
    pub fn new(question: &'static str, run: &str, stage: Option<&str>) -> Self {
        let mut call = words(&["ask", run, question]);
        if let Some(stage) = stage {
            call.extend(["--stage".to_owned(), word(stage, "STAGE")]);
        }
        Self {
            question,
            run: word(run, "RUN"),
            call,
            summary: String::new(),
            tables: Vec::new(),
            unknown: Vec::new(),
            usual_tokens: BUDGET_TOKENS,
        }
    }

    /// The commands that ask the questions which lead on, in words.
    pub fn questions_next(&self) -> impl Iterator<Item = Vec<String>> {
        let tables = self.tables.iter().filter(|table| table.name == ASK_NEXT);
        let rows = tables.flat_map(|table| &table.rows);
        let names = rows.filter_map(|row| row.cells.first()?.as_str());
        names.map(|name| words(&["ask", &self.run, name]))
    }

    /// Adds a table, unless it has no rows.
    pub fn push(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.tables.push(table);
        }
    }

    /// Adds what is not known, and the words of the command (without the program) that would tell.
    pub fn unknown(&mut self, question: &str, reason: impl Into<String>, command: &[&str]) {
        let (question, reason) = (question.to_owned(), reason.into());
        let command = if command.is_empty() { Vec::new() } else { words(command) };
        self.unknown.push(Unknown { question, reason, command });
    }
}

/// The words of a command of this program.
pub fn words(rest: &[&str]) -> Vec<String> {
    let rest = rest.iter().map(|text| word(text, "RUN"));
    std::iter::once(PROGRAM.to_owned()).chain(rest).collect()
}

/// A word of the user as a command repeats it; what could not be typed again, or is very long, by its name.
fn word(text: &str, name: &str) -> String {
    match visible(text.as_bytes()) == text && text.chars().count() <= WORD_CHARS {
        true => text.to_owned(),
        false => name.to_owned(),
    }
}
