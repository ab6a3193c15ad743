//! SQL and a bundle -> rows. The SQL is foreign: it sees a database in memory that holds the tables of
//! [`crate::tables`] and nothing else, may read and compute, and ends after a time. Tables are filled when a
//! query names them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, Statement};
use serde_json::Value;
use stage2_contract::text::{code, did_you_mean, instead, shorten, visible};
use stage2_model::Report;
use stage2_read::trace::libraries::RangeNames;

pub use crate::rows::{Answered, ResultColumn, RowCount};
use crate::rows::{RESULT_BYTES_MOST, cell, size};
use crate::tables::{ColumnSpec, Holds, Rows, TABLES, TableSpec, each_row, table};
use crate::trace_rows::{self, sql_value};

/// Rows of a result where no number was asked for.
pub const USUAL_ROWS: usize = 200;
/// How long a query may take where no time was asked for, seconds.
pub const USUAL_SECONDS: u64 = 10;
/// The most that can be asked for, seconds.
pub const SECONDS_MOST: u64 = 600;
/// Rows beyond those that are shown are counted up to this number.
const COUNTED_MOST: usize = 1_000_000;
/// Memory of the databases of this process.
const DATABASE_BYTES_MOST: usize = 512 << 20;
/// Longest text or row within the database, bytes.
const VALUE_BYTES_MOST: i32 = 1 << 20;
/// Longest SQL, bytes.
const SQL_BYTES_MOST: usize = 100_000;
/// Operations of SQLite between two looks at the clock.
const OPERATIONS_PER_LOOK: i32 = 10_000;
/// Longest foreign text in a message, characters.
const MESSAGE_CHARS: usize = 200;

/// Functions of SQLite that read nothing but their arguments.
const FUNCTIONS: &str = "\
    abs avg char coalesce concat concat_ws count cume_dist dense_rank first_value format glob \
    group_concat hex if ifnull iif instr lag last_value lead length like lower ltrim max min nth_value \
    ntile nullif octet_length percent_rank printf quote rank replace round row_number rtrim sign \
    string_agg substr substring sum total trim typeof unicode upper";

/// What a query is about.
#[derive(Clone, Copy, Debug)]
pub struct Bundle<'b> {
    /// Its report.
    pub report: &'b Report,
    /// Its folder, which has the trace files.
    pub folder: &'b Path,
    /// The ranges of libraries, as the settings of the run have them.
    pub libraries: &'b RangeNames,
    /// What the user called it, for messages.
    pub called: &'b str,
}

/// How much a query may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows of the result; `None`: all.
    pub rows: Option<usize>,
    /// Time.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rows: Some(USUAL_ROWS), time: Duration::from_secs(USUAL_SECONDS) }
    }
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The SQL is wrong, or asks for what is not allowed.
    #[error("{0}")]
    Sql(String),
    /// It took too much time or memory, or there is no data for it.
    #[error("{0}")]
    TooMuch(String),
}

impl QueryError {
    /// That the time was over.
    pub fn time(limit: Duration) -> Self {
        Self::time_of(limit, "")
    }

    /// That the time was over, and what took it.
    fn time_of(limit: Duration, why: &str) -> Self {
        let seconds = limit.as_secs();
        Self::TooMuch(format!(
            "the query was ended after {seconds} s{why}; allow more time with --seconds N (at most {SECONDS_MOST}), or \
             narrow it with WHERE, and a join with ON"
        ))
    }

    pub(crate) fn time_in_traces() -> Self {
        let text = "the query ran out of time while it read the trace files; allow more with --seconds N, or ask \
                    a table of metrics.json instead (`schema` lists them)";
        Self::TooMuch(text.to_owned())
    }

    fn memory() -> Self {
        Self::TooMuch(format!(
            "the query needs more than {} MB of memory; narrow it with WHERE, or aggregate with GROUP BY",
            DATABASE_BYTES_MOST >> 20
        ))
    }

    pub(crate) fn damaged() -> Self {
        Self::TooMuch("a trace file cannot be read".to_owned())
    }

    /// That the rows of tables cannot be had.
    pub(crate) fn unfilled(tables: &str, why: &str) -> Self {
        Self::TooMuch(format!("{tables} cannot be filled: {why}"))
    }

    /// What stopped the tables from being filled.
    pub(crate) fn of_loading(error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Self::time_in_traces(),
            Some(ErrorCode::OutOfMemory) => Self::memory(),
            _ => Self::TooMuch(format!("a table cannot be filled: {}", message(error))),
        }
    }
}

/// Asks a bundle.
///
/// # Errors
/// When the SQL is wrong or asks for something else than reading, and when it takes too much time or memory.
pub fn query(bundle: &Bundle<'_>, sql: &str, limits: Limits) -> Result<Answered, QueryError> {
    let deadline = Instant::now() + limits.time;
    check(sql)?;
    let connection = open(deadline).map_err(|error| QueryError::of_loading(&error))?;
    let mut guard = Guard { sql, bundle, limits, seen: Arc::default(), filled_in: Duration::ZERO };
    guard.watch(&connection);
    let named: BTreeSet<&'static str> = {
        guard.prepare(&connection)?;
        let seen = guard.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.tables.iter().copied().collect()
    };
    connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>);
    let start = Instant::now();
    let notes = fill(&connection, bundle, &named, deadline)?;
    guard.filled_in = start.elapsed();
    let limited = restrict(&connection);
    limited.map_err(|error| QueryError::of_loading(&error))?;
    guard.watch(&connection);
    let statement = guard.prepare(&connection)?;
    guard.run(statement, notes)
}

/// What is wrong with the text itself.
fn check(sql: &str) -> Result<(), QueryError> {
    let wrong = |text: &str| Err(QueryError::Sql(text.to_owned()));
    if sql.len() > SQL_BYTES_MOST {
        return wrong("the SQL is longer than 100 kB");
    }
    if sql.contains('\0') {
        return wrong("the SQL holds a NUL character");
    }
    Ok(())
}

/// A database with all tables, all empty.
fn open(deadline: Instant) -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    let limit = format!("PRAGMA hard_heap_limit = {DATABASE_BYTES_MOST}");
    connection.query_row(&limit, [], |_| Ok(()))?;
    // What is sorted must not go to a file.
    connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF")?;
    connection.progress_handler(OPERATIONS_PER_LOOK, Some(move || Instant::now() > deadline));
    for table in TABLES {
        connection.execute_batch(&definition(table))?;
    }
    Ok(connection)
}

fn definition(table: &TableSpec) -> String {
    if let Rows::View { select } = table.rows {
        return format!("CREATE VIEW {} AS {select}", table.name);
    }
    let columns = table.columns.iter().map(|column| match column.holds {
        Holds::Numbers(_) => format!("{} NUMERIC", column.name),
        Holds::Texts(_) => format!("{} TEXT", column.name),
    });
    format!("CREATE TABLE {} ({})", table.name, columns.collect::<Vec<_>>().join(", "))
}

fn restrict(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA query_only = ON")?;
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MOST),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    ] {
        connection.set_limit(limit, value)?;
    }
    Ok(())
}

/// Fills the tables that a query names.
fn fill(
    connection: &Connection,
    bundle: &Bundle<'_>,
    named: &BTreeSet<&'static str>,
    deadline: Instant,
) -> Result<Vec<String>, QueryError> {
    let failed = |error: rusqlite::Error| QueryError::of_loading(&error);
    connection.execute_batch("BEGIN").map_err(failed)?;
    let mut of_traces = BTreeSet::new();
    for table in named.iter().filter_map(|name| table(name)) {
        match table.rows {
            Rows::Report { .. } => insert(connection, bundle.report, table).map_err(failed)?,
            Rows::Traces => drop(of_traces.insert(table.name)),
            Rows::View { .. } => {}
        }
    }
    let notes = match of_traces.is_empty() {
        true => Vec::new(),
        false => trace_rows::fill(connection, bundle, &of_traces, deadline)?,
    };
    connection.execute_batch("COMMIT").map_err(failed)?;
    Ok(notes)
}

fn insert(connection: &Connection, report: &Report, table: &TableSpec) -> rusqlite::Result<()> {
    let places = vec!["?"; table.columns.len()].join(", ");
    let mut row = connection.prepare(&format!("INSERT INTO {} VALUES ({places})", table.name))?;
    each_row(report, table, |cells| {
        row.execute(rusqlite::params_from_iter(cells.iter().map(sql_value))).map(drop)
    })
}

/// What SQLite asks leave for while it reads the SQL.
#[derive(Debug, Default)]
struct Seen {
    /// Tables that are named.
    tables: BTreeSet<&'static str>,
    /// Columns that are read, of tables that are declared.
    columns: Vec<&'static ColumnSpec>,
    /// What was refused first.
    refused: Option<String>,
    selects: bool,
    /// It has a WITH that names itself.
    recurses: bool,
}

impl Seen {
    fn allows(&mut self, context: &AuthContext<'_>) -> bool {
        let why = match context.action {
            AuthAction::Select => {
                self.selects = true;
                return true;
            }
            AuthAction::Recursive => {
                self.recurses = true;
                return true;
            }
            AuthAction::Function { function_name } => {
                if FUNCTIONS.split(' ').any(|name| name.eq_ignore_ascii_case(function_name)) {
                    return true;
                }
                let name = shown(function_name);
                format!("the function {name} is not available; there are: {FUNCTIONS}")
            }
            AuthAction::Read { table_name, column_name } => {
                if self.reads(table_name, column_name) {
                    return true;
                }
                format!(
                    "the table {} may not be read{}",
                    shown(table_name),
                    instead(table_name, &tables_there())
                )
            }
            AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
                "no other database can be attached: a query reads the tables of one run; `stage2-launch \
                 diff A B` compares runs"
                    .to_owned()
            }
            AuthAction::Pragma { .. } => {
                "PRAGMA is not available; `stage2-launch schema RUN` prints the tables and their columns"
                    .to_owned()
            }
            _ => READ_ONLY.to_owned(),
        };
        self.refused.get_or_insert(why);
        false
    }

    /// Notes what is read. Tables of a WITH clause have names without columns.
    fn reads(&mut self, table_name: &str, column_name: &str) -> bool {
        let Some(found) = table(table_name) else {
            let is_schema = ["sqlite_master", "sqlite_schema"].contains(&table_name);
            return column_name.is_empty() || is_schema;
        };
        self.tables.insert(found.name);
        let column = found.columns.iter().find(|of| of.name.eq_ignore_ascii_case(column_name));
        self.columns.extend(column);
        true
    }
}

const READ_ONLY: &str = "only a SELECT is allowed; write one: the tables are a copy in memory, and nothing in a run can be changed";

/// A query under way.
struct Guard<'q> {
    sql: &'q str,
    bundle: &'q Bundle<'q>,
    limits: Limits,
    seen: Arc<Mutex<Seen>>,
    /// How long filling its tables took.
    filled_in: Duration,
}

impl Guard<'_> {
    fn watch(&self, connection: &Connection) {
        let seen = Arc::clone(&self.seen);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.allows(&context) { Authorization::Allow } else { Authorization::Deny }
        }));
    }

    fn prepare<'c>(&self, connection: &'c Connection) -> Result<Statement<'c>, QueryError> {
        let statement = connection.prepare(self.sql).map_err(|error| self.explain(&error))?;
        let selects = self.seen.lock().unwrap_or_else(PoisonError::into_inner).selects;
        // Nothing at all is read-only, and VACUUM asks no leave.
        if !statement.readonly() {
            return Err(QueryError::Sql(READ_ONLY.to_owned()));
        }
        if !selects {
            let example = "SELECT name, total_ns FROM kernels ORDER BY total_ns DESC LIMIT 10";
            return Err(QueryError::Sql(format!(
                "the SQL contains no SELECT; for instance: {example}"
            )));
        }
        if statement.parameter_count() > 0 {
            let text =
                "the SQL has parameters (?), and nothing gives them values: write the values";
            return Err(QueryError::Sql(text.to_owned()));
        }
        Ok(statement)
    }

    fn run(
        &self,
        mut statement: Statement<'_>,
        notes: Vec<String>,
    ) -> Result<Answered, QueryError> {
        let columns = self.columns(&statement);
        let most = self.limits.rows.unwrap_or(usize::MAX);
        let (mut rows, mut all, mut bytes) = (Vec::new(), 0usize, 0usize);
        let mut found = statement.raw_query();
        let counted = loop {
            let row = match found.next() {
                Ok(Some(row)) => row,
                Ok(None) => break RowCount::Is(all),
                // Those that are shown are whole, and only their number is not.
                Err(error) if all > most && is_time(&error) => break RowCount::MoreThan(all),
                Err(error) => return Err(self.explain(&error)),
            };
            if all >= most {
                if all >= most.saturating_add(COUNTED_MOST) {
                    break RowCount::MoreThan(all);
                }
                all += 1;
                continue;
            }
            let cells = (0..columns.len()).map(|at| row.get_ref(at).map_or(Value::Null, cell));
            let cells: Vec<Value> = cells.collect();
            bytes += cells.iter().map(size).sum::<usize>();
            if bytes > RESULT_BYTES_MOST {
                break RowCount::NoRoomBeyond(all);
            }
            all += 1;
            rows.push(cells);
        };
        Ok(Answered { columns, rows, all: counted, notes })
    }

    /// The columns of the result. Its names are known, and not from where its values are: a name that a
    /// table declares has the unit of that, and every other text may be one of the workload.
    fn columns(&self, statement: &Statement<'_>) -> Vec<ResultColumn> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let names = statement.column_names().into_iter();
        names.map(|name| ResultColumn::of(name, &seen.columns)).collect()
    }

    fn explain(&self, error: &rusqlite::Error) -> QueryError {
        let refused = self.seen.lock().unwrap_or_else(PoisonError::into_inner).refused.clone();
        if matches!(error, rusqlite::Error::MultipleStatement) {
            let text = "one statement at a time: there is more after the first `;`";
            return QueryError::Sql(text.to_owned());
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => return self.time_was_over(),
            Some(ErrorCode::OutOfMemory) => return QueryError::memory(),
            Some(ErrorCode::TooBig) => {
                let text =
                    "a text or a row of the query is longer than 1 MB; shorten it with substr()";
                return QueryError::TooMuch(text.to_owned());
            }
            _ => {}
        }
        if let Some(refused) = refused {
            return QueryError::Sql(refused);
        }
        let said = message(error);
        if said.contains("cannot modify") {
            return QueryError::Sql(READ_ONLY.to_owned());
        }
        let advice = if let Some((_, name)) = said.split_once("no such table: ") {
            instead(name, &tables_there())
        } else if let Some((_, name)) = said.split_once("no such column: ") {
            self.instead_of_column(name)
        } else if said.contains("no such function") {
            format!("; there are {FUNCTIONS}")
        } else {
            let called = &self.bundle.called;
            format!("; `stage2-launch schema {called}` prints the tables and their columns")
        };
        QueryError::Sql(format!("the SQL cannot be run: {said}{advice}"))
    }

    /// What took the time, as far as it is known.
    fn time_was_over(&self) -> QueryError {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |is: fn(&Rows) -> bool| {
            let of = seen.tables.iter().filter(|name| table(name).is_some_and(|of| is(&of.rows)));
            of.copied().collect::<Vec<_>>().join(", ")
        };
        let (traced, views) =
            (of(|rows| *rows == Rows::Traces), of(|rows| matches!(rows, Rows::View { .. })));
        let mut why = String::new();
        if seen.recurses {
            why += ": its WITH RECURSIVE may have no end";
        } else if !traced.is_empty() && self.filled_in * 4 > self.limits.time {
            let seconds = self.filled_in.as_secs_f64();
            why += &format!(", {seconds:.1} s of them to fill {traced} from the trace files");
        } else if !views.is_empty() {
            why += &format!(": {views} is computed from other tables");
        }
        QueryError::time_of(self.limits.time, &why)
    }

    /// The columns of the tables that the SQL mentions.
    fn instead_of_column(&self, name: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = self.sql.split(|c: char| !is_word(c)).filter_map(table);
        let mut named: Vec<&TableSpec> = Vec::new();
        for found in words {
            if !named.iter().any(|of| of.name == found.name) {
                named.push(found);
            }
        }
        if named.is_empty() {
            let has_from =
                self.sql.split_whitespace().any(|word| word.eq_ignore_ascii_case("from"));
            return match has_from {
                true => instead("", &tables_there()),
                false => "; the SELECT has no FROM, which names the table".to_owned(),
            };
        }
        let column = name.rsplit('.').next().unwrap_or(name);
        let all = named.iter().flat_map(|table| table.columns).map(|column| column.name);
        let all: Vec<&str> = all.collect();
        let synonym = SYNONYMS.iter().filter(|(word, _)| *word == column);
        let synonym = synonym.map(|(_, ours)| *ours).find(|ours| all.contains(ours));
        let near = match synonym {
            Some(ours) => format!("; did you mean `{ours}`?"),
            None => did_you_mean(column, all),
        };
        let columns = named.iter().map(|table| {
            let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            format!("{} has {}", table.name, names.join(", "))
        });
        let columns = columns.collect::<Vec<_>>().join("; ");
        let joined = if near.is_empty() { "; " } else { " " };
        format!("{near}{joined}{columns}")
    }
}

/// What the CSV files, Python and other tools call a column; the first that a table of the query has.
const SYNONYMS: [(&str, &str); 10] = [
    ("kernel", "name"),
    ("short", "name"),
    ("kernel_name", "full_name"),
    ("kernel_name", "name"),
    ("demangled", "full_name"),
    ("mangled", "mangled_name"),
    ("count", "calls"),
    ("duration_ns", "total_ns"),
    ("median_ns", "p50_ns"),
    ("percent", "stage_percent"),
];

fn tables_there() -> Vec<&'static str> {
    TABLES.iter().map(|table| table.name).collect()
}

fn is_time(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

/// What SQLite says, without the whole SQL behind it.
fn message(error: &rusqlite::Error) -> String {
    let said = match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(said)) => said.clone(),
        other => other.to_string(),
    };
    let said = shorten(&visible(said.as_bytes()), MESSAGE_CHARS);
    // The word `token` would pass for the name of a secret.
    match said.strip_prefix("unrecognized token: ") {
        Some(rest) if rest.trim_start_matches('"').starts_with(['\'', '"', '`']) => {
            format!("a quote is not closed: {rest}")
        }
        Some(rest) => format!("this is not SQL: {rest}"),
        None => said,
    }
}

fn shown(name: &str) -> String {
    code(&shorten(&visible(name.as_bytes()), MESSAGE_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_that_are_offered_are_there() {
        let connection = open(Instant::now() + Duration::from_secs(60)).expect("a database");
        let is_absent = |name: &&str| {
            let sql = format!("SELECT {name}(1, 2, 3, 4, 5, 6, 7, 8, 9)");
            connection.prepare(&sql).is_err_and(|e| message(&e).contains("no such function"))
        };
        let absent: Vec<&str> = FUNCTIONS.split(' ').filter(is_absent).collect();
        assert_eq!(absent, Vec::<&str>::new());
    }
}
