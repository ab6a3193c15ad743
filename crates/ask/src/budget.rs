//! An answer and a budget -> the text that is printed, never longer than the budget allows.
//! [`super::screen`] lays it out for a terminal.
//!
//! Rows are cut from the end of the least important table first, then what is not known. What was cut is
//! counted, together with the command that brings it. With fewer tokens than [`FLOOR_TOKENS`] the shortest
//! answer is printed all the same.

use serde::Serialize;
use serde_json::Value;
use stage2_contract::text::numbers::{count, grouped, percent1, shown_rate, size, time_scale};
use stage2_contract::text::{code, code_in_text, plain, shorten, visible};

use stage2_model::times_faster;

use crate::answer::{
    ASK_NEXT, Answer, Column, Row, SCHEMA, SCHEMA_VERSION, Source, Table, TextOrigin, Unknown,
};
use crate::next::shell;
use crate::screen;

/// Tokens of an answer where no budget was asked for.
pub const BUDGET_TOKENS: usize = 2_000;
/// Bytes that count as a token.
pub const BYTES_PER_TOKEN: usize = 4;
/// The shortest answer has fewer tokens.
pub const FLOOR_TOKENS: usize = 64;
/// Longest text of a cell, characters.
const TEXT_CHARS: usize = 400;
const TOO_SMALL: &str = "The budget is too small for this answer: ask with --budget 500.";

/// How long an answer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// The usual rows of each table, and at most [`Answer::usual_tokens`].
    Usual,
    /// As many rows as fit so many tokens.
    Tokens(usize),
}

/// A terminal: what it shows of an answer fits into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: usize,
    /// Lines; those of the usual answer are fewer. None: not known.
    pub height: Option<usize>,
}

impl Size {
    /// Lines of the usual answer: the command and the next prompt are on the screen, too.
    fn lines(self) -> usize {
        self.height.map_or(usize::MAX, |height| height.saturating_sub(2).max(LINES_LEAST))
    }
}

/// Lines of an answer, however small the terminal is.
const LINES_LEAST: usize = 10;
/// The most unknown facts that an answer lists if no budget was given.
const UNKNOWN_TOLD: usize = 2;

impl Budget {
    /// All of it.
    pub const ALL: Self = Self::Tokens(usize::MAX);

    fn bytes(self, answer: &Answer) -> usize {
        let tokens = match self {
            Budget::Usual => answer.usual_tokens,
            Budget::Tokens(tokens) => tokens.max(FLOOR_TOKENS),
        };
        tokens.saturating_mul(BYTES_PER_TOKEN)
    }
}

impl Answer {
    /// The answer as one line of JSON.
    pub fn to_json(&self, budget: Budget) -> String {
        fitted(self, budget, Form::Json)
    }

    /// The answer as Markdown.
    pub fn to_markdown(&self, budget: Budget) -> String {
        fitted(self, budget, Form::Markdown)
    }

    /// The answer for a person at a terminal, without the places of the numbers in `metrics.json`: where no budget was
    /// asked for, what matters first, as far as it fits the terminal.
    pub fn to_text(&self, budget: Budget, size: Size) -> String {
        let shown = |answer: &Self| fitted(answer, budget, Form::Screen(size));
        if budget != Budget::Usual || View::of_least(self, size).lines() <= size.lines() {
            return shown(self);
        }
        let mut in_short = self.clone();
        let columns = in_short.tables.iter_mut().flat_map(|table| &mut table.columns);
        columns.for_each(|column| column.aside |= column.spare);
        shown(&in_short)
    }
}

/// How an answer is printed.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Markdown,
    /// For a terminal.
    Screen(Size),
}

fn fitted(answer: &Answer, budget: Budget, form: Form) -> String {
    let limit = budget.bytes(answer);
    let is_usual = budget == Budget::Usual;
    let everything = || View { form, in_short: is_usual, ..View::whole(answer) };
    let render = |view: &View<'_>| match form {
        Form::Json => view.json(),
        Form::Markdown => view.markdown(),
        Form::Screen(size) => view.screen(size.width),
    };
    let lines = match form {
        Form::Screen(size) if is_usual => size.lines(),
        _ => usize::MAX,
    };
    let fits = |text: &String| text.len() <= limit && text.lines().count() <= lines;
    let unknown = match form {
        Form::Screen(_) if is_usual => answer.unknown.len().min(UNKNOWN_TOLD),
        _ => answer.unknown.len(),
    };
    let whole = render(&everything());
    let order = order(answer, budget, form);
    let rows: usize = answer.tables.iter().map(|table| table.rows.len()).sum();
    let is_without_details = is_usual && without_details(answer).next().is_some();
    if fits(&whole) && order.len() == rows && unknown == answer.unknown.len() && !is_without_details
    {
        return whole;
    }
    // In hundreds, so that there is room for what the command itself changes.
    let more = (whole.len() / (BYTES_PER_TOKEN * 100)).saturating_add(2).saturating_mul(100);
    let cut = |rows: usize, unknown: usize| {
        let kept = order.get(..rows).unwrap_or(&order);
        let view = View { unknown, more: Some(more), ..everything().with_rows(kept) };
        Some(render(&view)).filter(fits)
    };
    let is_screen = matches!(form, Form::Screen(_));
    // On a terminal, the answer comes before what it lacks.
    let first = order.len().min(2 * screen::FEW_ROWS);
    let told = (0..=unknown).rev().find(|unknown| !is_screen || cut(first, *unknown).is_some());
    let found = longest(order.len(), |rows| cut(rows, told.unwrap_or(0)));
    if let Some(found) = &found
        && is_screen
        && is_usual
    {
        // A long row has no room where rows of later tables have.
        let told = told.unwrap_or(0);
        let kept = (0..=order.len()).rev().find(|rows| cut(*rows, told).as_ref() == Some(found));
        let (kept, others) = order.split_at(kept.unwrap_or(0));
        let (mut kept, mut best) = (kept.to_vec(), found.clone());
        for &at in others {
            kept.push(at);
            let view = View { unknown: told, more: Some(more), ..everything().with_rows(&kept) };
            match Some(render(&view)).filter(fits) {
                Some(text) => best = text,
                None => drop(kept.pop()),
            }
        }
        return best;
    }
    let found = found.or_else(|| longest(unknown, |unknown| cut(0, unknown)));
    let short = !is_screen;
    found.unwrap_or_else(|| render(&View { unknown: 0, short, ..everything().with_rows(&[]) }))
}

/// Tables that a terminal shows without their [spare](Column::spare) columns.
fn without_details(answer: &Answer) -> impl Iterator<Item = &'static str> {
    let is_without = |table: &&Table| table.columns.iter().any(|of| of.spare && of.aside);
    answer.tables.iter().filter(is_without).map(|table| table.name)
}

/// The text of the most parts that there is one of: a text is longer with each part.
fn longest(parts: usize, text: impl Fn(usize) -> Option<String>) -> Option<String> {
    let (mut fits, mut least, mut beyond) = (None, 0, parts.saturating_add(1));
    while least < beyond {
        let middle = least + (beyond - least) / 2;
        match text(middle) {
            Some(text) => (fits, least) = (Some(text), middle + 1),
            None => beyond = middle,
        }
    }
    fits
}

/// The table of each row, in the order of importance: the usual rows of every table, then the others.
fn order(answer: &Answer, budget: Budget, form: Form) -> Vec<usize> {
    let tables = || answer.tables.iter().enumerate();
    // One table has the screen to itself.
    let first_rows = if answer.tables.len() > 1 { screen::FIRST_ROWS } else { usize::MAX };
    let usual = |table: &Table| {
        let usual = table.usual.min(table.rows.len());
        match (form, budget) {
            (Form::Screen(_), Budget::Usual) => usual.min(first_rows).min(table.brief),
            _ => usual,
        }
    };
    let mut order: Vec<usize> = Vec::new();
    if matches!(form, Form::Screen(_)) && budget == Budget::Usual {
        // A few of the first two tables, what the second one and the first one have more, and a few of the others.
        let few = |table: &Table| usual(table).min(screen::FEW_ROWS);
        let shown: Vec<(usize, &Table)> = tables().filter(|(_, table)| usual(table) > 0).collect();
        let (first, others) = shown.split_at(shown.len().min(2));
        let few_of = |&(at, table): &(usize, &Table)| std::iter::repeat_n(at, few(table));
        let more_of =
            |&(at, table): &(usize, &Table)| std::iter::repeat_n(at, usual(table) - few(table));
        order.extend(first.iter().flat_map(few_of));
        order.extend(first.iter().rev().flat_map(more_of));
        order.extend(others.iter().flat_map(few_of));
        return order;
    }
    for (at, table) in tables() {
        order.extend(std::iter::repeat_n(at, usual(table)));
    }
    if budget != Budget::Usual {
        for (at, table) in tables() {
            order.extend(std::iter::repeat_n(at, table.rows.len() - usual(table)));
        }
    }
    order
}

/// The part of an answer that is printed.
struct View<'a> {
    answer: &'a Answer,
    /// Rows of each table.
    rows: Vec<usize>,
    unknown: usize,
    /// The budget that brings all of it, where it was cut.
    more: Option<usize>,
    /// Not even the sentence fits.
    short: bool,
    /// A terminal shows what matters first.
    in_short: bool,
    /// How it is printed, and so is what the command brings.
    form: Form,
}

/// What was cut.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct LeftOut<'a> {
    /// The name of a table, or `unknown`.
    what: &'a str,
    /// Rows of it that are not here.
    rows: usize,
}

/// A table.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Table"))]
struct JsonTable<'a> {
    /// What a row is: `kernels`, `late_ranks`.
    name: &'a str,
    /// The columns: always the same in a table of this name.
    columns: Vec<Column>,
    /// Values in the order of the columns; null is not known.
    rows: Vec<Vec<Value>>,
    /// Where each row is in `metrics.json`; of `compare`, in the output of `diff --json`. Null: it is made from no
    /// single place. Absent: no row has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    sources: Vec<Option<&'a Source>>,
}

/// The answer to a question: `ask --json`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Answer"))]
pub(crate) struct Json<'a> {
    /// `stage2.ask`.
    schema: &'static str,
    /// It grows when a field changes its meaning or goes away.
    schema_version: u32,
    /// The question, by its name.
    #[cfg_attr(feature = "schema", schemars(with = "crate::Question"))]
    question: &'static str,
    /// What the user called the run. Absent: the budget was too small.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// The answer in one sentence; names of the workload are quoted as code.
    summary: String,
    /// The numbers, the most important table first.
    tables: Vec<JsonTable<'a>>,
    /// What is not known, and what would tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    unknown: Vec<Unknown>,
    /// What was cut to stay within the budget.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    left_out: Vec<LeftOut<'a>>,
    /// The command that brings what was cut, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    more: Vec<String>,
}

impl<'a> View<'a> {
    fn whole(answer: &'a Answer) -> Self {
        let rows = answer.tables.iter().map(|table| table.rows.len()).collect();
        let unknown = answer.unknown.len();
        let form = Form::Markdown;
        Self { answer, rows, unknown, more: None, short: false, in_short: false, form }
    }

    /// The rows that a person must see, as a terminal shows them: those of tables that are too long without their
    /// spare columns.
    fn of_least(answer: &'a Answer, size: Size) -> Self {
        let rows = answer.tables.iter().map(|table| table.least.min(table.rows.len())).collect();
        let form = Form::Screen(size);
        let more = Some(BUDGET_TOKENS);
        Self { rows, unknown: 0, more, in_short: true, form, ..Self::whole(answer) }
    }

    /// How many lines of a terminal it takes; none without rows.
    fn lines(&self) -> usize {
        match self.form {
            Form::Screen(size) if self.rows.iter().any(|rows| *rows > 0) => {
                self.screen(size.width).lines().count()
            }
            _ => 0,
        }
    }

    /// With the rows that `order` names.
    fn with_rows(mut self, order: &[usize]) -> Self {
        self.rows.fill(0);
        for &at in order {
            if let Some(rows) = self.rows.get_mut(at) {
                *rows += 1;
            }
        }
        self
    }

    fn tables(&self) -> impl Iterator<Item = (&'a Table, &'a [Row])> {
        let shown = self.answer.tables.iter().zip(&self.rows);
        let shown = shown.map(|(table, &rows)| (table, table.rows.get(..rows).unwrap_or_default()));
        shown.filter(|(_, rows)| !rows.is_empty())
    }

    fn summary(&self) -> String {
        if self.short { TOO_SMALL.to_owned() } else { visible(self.answer.summary.as_bytes()) }
    }

    fn unknown(&self) -> Vec<Unknown> {
        let shown = self.answer.unknown.iter().take(self.unknown);
        let shown = shown.map(|unknown| Unknown {
            question: cell_text(&unknown.question),
            reason: cell_text(&unknown.reason),
            command: unknown.command.iter().map(|word| visible(word.as_bytes())).collect(),
        });
        shown.collect()
    }

    fn left_out(&self) -> Vec<LeftOut<'a>> {
        if self.more.is_none() {
            return Vec::new();
        }
        let tables = self.answer.tables.iter().zip(&self.rows);
        let tables = tables.map(|(table, rows)| (table.name, table.rows.len() - rows));
        let unknown = ("unknown", self.answer.unknown.len() - self.unknown);
        let left_out = tables.chain([unknown]).filter(|(_, rows)| *rows > 0);
        left_out.map(|(what, rows)| LeftOut { what, rows }).collect()
    }

    /// The command that brings what was left out: a person does not count tokens.
    fn more(&self) -> Vec<String> {
        let Some(tokens) = self.more else { return Vec::new() };
        let call = self.answer.call.iter().map(|word| visible(word.as_bytes()));
        let budget = ["--budget".to_owned(), tokens.to_string()];
        match self.form {
            Form::Json => call.chain(["--json".to_owned()]).chain(budget).collect(),
            Form::Markdown => call.chain(budget).collect(),
            Form::Screen(_) => call.chain(["--all".to_owned()]).collect(),
        }
    }

    fn json(&self) -> String {
        let table = |(table, rows): (&'a Table, &'a [Row])| JsonTable {
            name: table.name,
            columns: table.columns.clone(),
            rows: rows.iter().map(|row| row.cells.iter().map(cell).collect()).collect(),
            sources: match rows.iter().any(|row| row.source.is_some()) {
                true => rows.iter().map(|row| row.source.as_ref()).collect(),
                false => Vec::new(),
            },
        };
        let json = Json {
            schema: SCHEMA,
            schema_version: SCHEMA_VERSION,
            question: self.answer.question,
            run: (!self.short).then(|| visible(self.answer.run.as_bytes())),
            summary: self.summary(),
            tables: self.tables().map(table).collect(),
            unknown: self.unknown(),
            left_out: self.left_out(),
            more: self.more(),
        };
        // Values of JSON, texts and numbers: none of them fails.
        serde_json::to_string(&json).unwrap_or_default() + "\n"
    }

    fn markdown(&self) -> String {
        let mut out = format!("{}\n", self.summary());
        for (table, rows) in self.tables() {
            out.push_str(&markdown_table(table, rows));
        }
        for Unknown { question, reason, command } in self.unknown() {
            out.push_str(&format!("\nUnknown: {question}: {}.", plain(&reason)));
            if !command.is_empty() {
                out.push_str(&format!(" To know: {}", code_in_text(&shell(&command))));
            }
            out.push('\n');
        }
        let left_out: Vec<String> =
            self.left_out().iter().map(|part| format!("{} of {}", part.rows, part.what)).collect();
        if !left_out.is_empty() {
            let more = code_in_text(&shell(&self.more()));
            out.push_str(&format!("\nLeft out (rows): {}. More: {more}\n", left_out.join(", ")));
        }
        out
    }

    /// For a terminal: the title of a table that was cut has the number of its rows, and the last line the command that
    /// prints them.
    fn screen(&self, width: usize) -> String {
        let mut out = screen::answer(&without_code(&self.summary()), width);
        for (table, rows) in self.tables() {
            if table.name == ASK_NEXT {
                let commands = self.answer.questions_next().take(rows.len());
                out.push_str(&screen::commands("ask", commands, width));
                continue;
            }
            let mut known = known_columns(table, rows);
            known.retain(|(at, column)| {
                !(self.in_short && column.aside || repeats_stage(table, rows, *at))
            });
            let is_ms = |of: &&(usize, &Column)| of.1.unit == Some("ms");
            let times = known.iter().filter(is_ms).flat_map(|(at, _)| {
                rows.iter().filter_map(|row| Some(row.cells.get(*at)?.as_f64()?.abs() * 1e6))
            });
            let longest = times.filter(|ns| ns.is_finite()).fold(0.0, f64::max);
            let mut cells: Vec<screen::Cells> = Vec::new();
            let mut about = Vec::new();
            for (at, column) in known {
                let values: Vec<&Value> =
                    rows.iter().map(|row| row.cells.get(at).unwrap_or(&Value::Null)).collect();
                if column.name == ERROR
                    && let Some(of) = cells.last_mut()
                {
                    of.with_errors(values.iter().map(|value| screen_number(value, column)));
                    continue;
                }
                let shown = screen_column(column, &values, longest);
                about.push(legend(column).filter(|_| table.of.is_none()).unwrap_or_default());
                cells.push(shown);
            }
            let of = (rows.len(), table.rows.len());
            let name = table.title.map_or_else(|| screen::heading(table.name, None), str::to_owned);
            let name = table
                .of
                .as_ref()
                .map_or(name.clone(), |of| format!("{name} of {}", visible(of.as_bytes())));
            for (column, about) in cells.iter_mut().zip(about) {
                column.about = about;
            }
            out.push_str(&screen::table(&name, of, cells, width));
        }
        let mut told: Vec<String> = Vec::new();
        for Unknown { question, reason, command } in self.unknown() {
            out.push('\n');
            let said = format!("{}: {}.", without_code(&question), without_code(&reason));
            out.push_str(&screen::labelled_text("Not known:", &said, width));
            // The same command may tell several.
            if !command.is_empty() && command != told {
                out.push_str(&screen::command("To know:", &command, width));
                told = command;
            }
        }
        let left_out = self.left_out();
        let details = without_details(self.answer).filter(|_| self.in_short);
        let details = details.map(|name| format!("details of {}", screen::heading(name, None)));
        let details: Vec<String> = details.collect();
        if !left_out.is_empty() || !details.is_empty() {
            let is_shown = |name: &str| self.tables().any(|(table, _)| table.name == name);
            let parts = left_out.iter().map(|part| match part.what {
                "unknown" => "what is not known".to_owned(),
                what if is_shown(what) => {
                    format!("{}: {}", screen::heading(what, None), count(part.rows as u64))
                }
                what => screen::heading(what, None),
            });
            let parts: Vec<String> = parts.chain(details).collect();
            out.push('\n');
            let label = format!("More ({}):", parts.join(", "));
            out.push_str(&screen::command(&label, &self.more(), width));
        }
        out
    }
}

/// A column of the errors of the one before it.
const ERROR: &str = "error_percent";

/// A sentence without the marks of code, which a terminal does not show.
fn without_code(text: &str) -> String {
    text.replace('`', "")
}

/// Whether a column repeats the stage of each row.
fn repeats_stage(table: &Table, rows: &[Row], at: usize) -> bool {
    let stage = table.columns.iter().position(|column| column.name == "stage");
    let Some(stage) = stage.filter(|stage| *stage != at) else { return false };
    rows.iter().all(|row| {
        let cell = row.cells.get(at).filter(|cell| !cell.is_null());
        cell.is_none_or(|cell| cell.is_string() && Some(cell) == row.cells.get(stage))
    })
}

/// What is said to agents, which must not follow the texts of a workload.
const TO_AGENTS: &str = "may quote the workload";

/// What the values of a column are of.
fn legend(column: &Column) -> Option<String> {
    let mut basis = column.basis.as_ref().filter(|_| !column.plain)?.replace(TO_AGENTS, "");
    for (value, word) in column.said_as {
        basis = basis.replace(&format!("{value}:"), &format!("{word}:"));
    }
    let basis = basis.trim_end_matches([' ', ';']);
    (!basis.is_empty()).then(|| without_code(&cell_text(basis)))
}

/// A column for a person: times in the unit of its longest, as on the pages of the report; those in milliseconds stay so
/// next to a longer time, `longest` in ns.
fn screen_column(column: &Column, values: &[&Value], longest: f64) -> screen::Cells {
    let heading = column.heading.clone();
    let heading = heading.unwrap_or_else(|| screen::heading(column.name, column.unit));
    let is_number = column.unit.is_some() && !values.iter().any(|value| value.is_object());
    let ns_of_unit = match column.unit {
        Some("ms") => 1e6,
        Some("us") => 1e3,
        _ => 0.0,
    };
    let times = values.iter().filter_map(|value| Some(value.as_f64()?.abs() * ns_of_unit));
    let times = times.filter(|ns| *ns > 0.0 && ns.is_finite());
    let (least, most) =
        times.fold((f64::MAX, 0.0), |(l, m): (f64, f64), ns| (l.min(ns), m.max(ns)));
    if most == 0.0 {
        let cells = values.iter().map(|value| screen_cell(value, column)).collect();
        return screen::Cells { heading, is_number, cells, about: String::new() };
    }
    let is_next_to_ms = column.unit == Some("ms") && most >= LEAST_MS_NS && longest > MS_NS;
    let (scale, unit, decimals) = time_scale(if is_next_to_ms { most.max(MS_NS) } else { most });
    // Of a short one two decimals leave one digit.
    let decimals = if unit == "ms" && least < SHORT_NS { MORE_DECIMALS } else { decimals };
    let of_column = column.unit.unwrap_or_default();
    let heading = match heading.strip_suffix(of_column) {
        Some(name) => format!("{name}{unit}"),
        None => format!("{heading} {unit}"),
    };
    let cell = |value: &&Value| match value.as_f64().filter(|value| value.is_finite()) {
        Some(value) => grouped(&format!("{:.decimals$}", value * ns_of_unit / scale)),
        None => screen::NONE.to_owned(),
    };
    let cells = values.iter().map(cell).collect();
    screen::Cells { heading, is_number, cells, about: String::new() }
}

/// A column of milliseconds has more decimals where it has a time as short.
const SHORT_NS: f64 = 5e4;
/// [`time_scale`] has milliseconds from so many ns on; next to a time in milliseconds, fewer are enough.
const MS_NS: f64 = 1e5;
const LEAST_MS_NS: f64 = 1e4;
const MORE_DECIMALS: usize = 3;

/// The columns with a value, each with its index.
fn known_columns<'t>(table: &'t Table, rows: &[Row]) -> Vec<(usize, &'t Column)> {
    let is_known =
        |at: usize| rows.iter().any(|row| row.cells.get(at).is_some_and(|cell| !cell.is_null()));
    table.columns.iter().enumerate().filter(|(at, _)| is_known(*at)).collect()
}

/// A column without any value is left out.
fn markdown_table(table: &Table, rows: &[Row]) -> String {
    let mut out = format!("\n**{}**\n\n|", table.name);
    let has_source = rows.iter().any(|row| row.source.is_some());
    let known = known_columns(table, rows);
    let columns = || known.iter().copied();
    for (_, column) in columns() {
        out.push_str(&format!(" {} |", column.name));
    }
    out.push_str(if has_source { " source |\n|" } else { "\n|" });
    for (_, column) in columns() {
        out.push_str(if column.unit.is_some() { "--:|" } else { "---|" });
    }
    out.push_str(if has_source { "---|\n" } else { "\n" });
    for row in rows {
        out.push('|');
        for (at, column) in columns() {
            let value = row.cells.get(at).unwrap_or(&Value::Null);
            out.push_str(&format!(" {} |", markdown_cell(value, column)));
        }
        match (has_source, &row.source) {
            (true, Some(Source::Place(place))) => out.push_str(&format!(" {place} |\n")),
            (true, Some(Source::Sum(places))) => {
                out.push_str(&format!(" {} |\n", places.join(" + ")));
            }
            (true, None) => out.push_str(" |\n"),
            (false, _) => out.push('\n'),
        }
    }
    let about = columns().filter_map(|(_, column)| {
        let unit = column.unit.filter(|unit| !column.name.ends_with(unit));
        let unit = unit.map(str::to_owned);
        let basis = column.basis.as_ref().map(|basis| plain(&cell_text(basis)));
        let field =
            column.field.filter(|field| !field.is_empty()).map(|field| format!("`{field}`"));
        let is_summed = rows.iter().any(|row| matches!(row.source, Some(Source::Sum(_))));
        let summed = column.summed.filter(|_| is_summed);
        let summed = summed.map(|field| format!("of several places the sum of `{field}`"));
        let parts: Vec<String> = [unit, basis, field, summed].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("{}: {}", column.name, parts.join(", ")))
    });
    let about: Vec<String> = about.collect();
    if !about.is_empty() {
        out.push_str(&format!("\n{}\n", about.join("; ")));
    }
    out
}

fn markdown_cell(value: &Value, column: &Column) -> String {
    match cell(value) {
        Value::Null => "?".to_owned(),
        Value::String(text) if column.text == TextOrigin::Workload => code(&text),
        Value::String(text) => plain(&text),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{} {value}", plain(name)));
            fields.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// A value for a person: words instead of the values of the schema, and no digits that say nothing.
fn screen_cell(value: &Value, column: &Column) -> String {
    match cell(value) {
        Value::Null => screen::NONE.to_owned(),
        Value::String(text) if column.text == TextOrigin::Stage2 && column.name == "verdict" => {
            screen::verdict(&text).to_owned()
        }
        Value::String(text) if column.text == TextOrigin::Stage2 && column.name != "id" => {
            let said = column.said_as.iter().find(|(value, _)| *value == text);
            said.map_or_else(|| screen::words(text), |(_, words)| (*words).to_owned())
        }
        Value::String(text) if column.name == "where" || column.name == "frame" => {
            screen::without_folders(&text)
        }
        Value::String(text) => text,
        Value::Object(fields) => {
            let shown = fields.iter().map(|(name, value)| {
                format!("{} {}", screen::heading(name, None), screen_number(value, column))
            });
            shown.collect::<Vec<_>>().join(", ")
        }
        Value::Bool(flag) => if flag { "yes" } else { "no" }.to_owned(),
        _ => screen_number(value, column),
    }
}

/// A number with the digits that the pages of the report give it.
fn screen_number(value: &Value, column: &Column) -> String {
    let Some(number) = value.as_f64().filter(|number| number.is_finite()) else {
        return screen::NONE.to_owned();
    };
    match (column.unit, value.as_u64()) {
        (Some("percent"), _) => percent1(number),
        (Some("number"), Some(_)) => value.to_string(),
        (Some("bytes"), _) => size(number as u64),
        (_, Some(whole)) => count(whole),
        (Some("ratio"), _) => times_faster(number),
        (Some("1/s"), _) => shown_rate(number),
        (Some("count" | "GB/s"), _) => grouped(&format!("{number:.1}")),
        _ => grouped(&rounded(number).to_string()),
    }
}

/// A value as it is printed: rounded, and its text short and visible.
fn cell(value: &Value) -> Value {
    match value {
        Value::String(text) => cell_text(text).into(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => rounded(float),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(cell).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (cell_text(name), cell(value))).collect()
        }
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

pub(crate) fn cell_text(text: &str) -> String {
    shorten(&visible(text.as_bytes()), TEXT_CHARS)
}

/// Four significant digits; what is none, such as infinity, is null.
pub(crate) fn rounded(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    // 3.0 is 3: a float without a fraction would cost two more bytes.
    if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
        (rounded as i64).into()
    } else {
        rounded.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_texts_cannot_leave_their_cell() {
        let texts = [1_374.668, 0.000_123_456, 12_345.6, -3.0, 0.0, 99.996, 1e300].map(rounded);
        let texts = texts.map(|value| value.to_string());
        assert_eq!(texts[..6], ["1375", "0.0001235", "12350", "-3", "0", "100"]);
        assert_eq!(serde_json::from_str::<f64>(&texts[6]).ok(), Some(1e300));
        assert_eq!([f64::NAN, f64::INFINITY].map(rounded), [Value::Null, Value::Null]);
        let column = Column::workload("kernel");
        assert_eq!(markdown_cell(&"a|b`c\n\u{202e}".into(), &column), "``a\\|b`c\\n\\u{202e}``");
        assert_eq!(shell(&["a b".to_owned(), "it's".to_owned()]), "'a b' 'it'\\''s'");
    }
}
