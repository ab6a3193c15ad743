//! A SQLite export -> a copy that can be given away.
//!
//! An export holds the environment of every process of the machine (TARGET_INFO_SYSTEM_ENV), the
//! arguments and variables of the workload (META_DATA_CAPTURE), all that it printed
//! (ProcessStreams), and the texts of all of these in StringIds. So the copy is made from what is
//! known to be harmless: recorded work, devices, names in use. It is a new file, in which nothing was
//! ever deleted, and it is checked before it gets its name.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use wildmatch::WildMatch;

use crate::redaction;
use stage2_model::Finding;
use stage2_model::finding::Id;
use stage2_read::files;
use stage2_read::nsys::database::{Unreadable, check_header, defend, explained, table_names};
use stage2_read::nsys::diagnostics;

/// Tables that are copied whole. A * at the end stands for any rest.
const COPIED: [&str; 16] = [
    "CUPTI_ACTIVITY_KIND_*",
    "CUDA_GRAPH_*",
    "ENUM_*",
    "NVTX_EVENTS",
    "NVTX_PAYLOAD_*",
    "GPU_METRICS*",
    "CUBLAS_EVENTS",
    "CUDNN_EVENTS",
    "TARGET_INFO_GPU",
    "TARGET_INFO_GPU_METRICS",
    "TARGET_INFO_CUDA_*",
    "TARGET_INFO_SESSION_START_TIME",
    "ANALYSIS_DETAILS",
    "PROFILER_OVERHEAD",
    "STAGE2_RANGES",
    "STAGE2_WORK_RANGES",
];

/// Tables whose rows a condition keeps. Processes and threads are those that did something that was recorded.
const FILTERED: [(&str, &str); 6] = [
    ("META_DATA_CAPTURE", WHAT_WAS_TRACED),
    ("META_DATA_EXPORT", EXPORT_VERSIONS),
    ("EXPORT_META_DATA", EXPORT_VERSIONS),
    ("PROCESSES", "globalPid IN (SELECT pid FROM temp.process)"),
    ("ThreadNames", "globalTid & ~0xffffff IN (SELECT pid FROM temp.process)"),
    // The last: it holds the texts that a row of any other copied table speaks of.
    (STRINGS, "id IN (SELECT id FROM temp.string)"),
];
/// What nsys was told to record: reports explain by it what is missing.
const WHAT_WAS_TRACED: &str = "name GLOB '*COLLECT_CUDA_TRACE' OR name GLOB '*COLLECT_NVTX_TRACE' \
     OR name GLOB '*NVTX_DOMAIN_FILTER_STRING' OR name GLOB '*START_TRIGGER'";
const EXPORT_VERSIONS: &str = "name GLOB 'EXPORT_PRODUCT_*' OR name GLOB 'EXPORT_SCHEMA_*'";

/// What is copied of what nsys says, at most: rows, and characters of each.
const MOST_DIAGNOSTICS: usize = 10_000;
const MOST_OF_A_TEXT: usize = 1_000;
/// A longer text is left out: all of it would have to be searched for secrets.
const MOST_READ_OF_A_TEXT: usize = 1 << 20;
/// A shorter value of a variable (`1`, `C`, `bash`) stands in many texts.
const LEAST_OF_A_SECRET: usize = 8;

const STRINGS: &str = "StringIds";
/// Columns that hold numbers of strings.
const STRING_COLUMNS: [&str; 6] =
    ["nameId", "textId", "jsonTextId", "demangledName", "shortName", "mangledName"];
/// Columns that hold the process of recorded work, on their own or with the thread.
const PROCESS_COLUMNS: [&str; 2] = ["globalPid", "globalTid"];

/// Writes a scrubbed copy of `from` to `to`, which is replaced if it is there. Where that fails there is no copy.
pub fn scrub(from: &Path, to: &Path) -> Result<(), Finding> {
    copy(from, to).map_err(|why| {
        let what = format!("no scrubbed copy of {} was written", from.display());
        let remedy = "do not share the export itself; export the report again and retry";
        Id::NsysSecrets.found(what, why.to_string(), remedy)
    })
}

#[derive(Debug, thiserror::Error)]
enum NoCopy {
    #[error(transparent)]
    Source(#[from] Unreadable),
    #[error("{0}")]
    CutShort(String),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("{}: {error}", .to.display())]
    NotWritten { to: PathBuf, error: std::io::Error },
    #[error("the copy is damaged: {0}")]
    Damaged(String),
    #[error("the copy holds deleted rows")]
    DeletedRows,
    #[error("the copy has {found} tables, and not {expected}")]
    OtherTables { found: i64, expected: usize },
    #[error("a text that is in use holds the variable {0}")]
    Secret(String),
}

/// Whether a database has a table that a copy has; also where that cannot be found out.
pub(crate) fn has_tables(from: &Path) -> bool {
    let is_copied = |name: &String| {
        COPIED.iter().any(|glob| WildMatch::new(glob).matches(name))
            || FILTERED.iter().any(|(known, _)| known == name)
    };
    table_names(from).map_or(true, |names| names.iter().any(is_copied))
}

/// What is to be done about an export that is not whole.
pub(crate) const AGAIN: &str =
    "export the report again (`nsys export --type=sqlite`), and merge that";

/// Why an export is not whole.
pub(crate) fn cut_short(from: &Path) -> Option<String> {
    check_header(from).unwrap_or_else(|why| Some(why.to_string()))
}

fn copy(from: &Path, to: &Path) -> Result<(), NoCopy> {
    if let Some(cut) = check_header(from)? {
        return Err(NoCopy::CutShort(cut));
    }
    // What the reader refuses is not copied either.
    table_names(from)?;
    let file_bytes = std::fs::metadata(from).map_err(Unreadable::File)?.len();
    let not_written = |error| NoCopy::NotWritten { to: to.to_owned(), error };
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    // Under another name until it is known to be clean.
    let draft = files::new_in(folder.unwrap_or(Path::new("."))).map_err(not_written)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copy = Copy { connection: Connection::open_with_flags(draft.path(), flags)? };
    defend(&copy.connection, file_bytes)?;
    let content = copy.run(from).map_err(explained)?;
    copy.check(&content)?;
    copy.connection.close().map_err(|(_, error)| error)?;
    files::put(draft, to).map_err(not_written)
}

struct Copy {
    connection: Connection,
}

/// What a copy has to hold, and must not.
struct Content {
    tables: Vec<String>,
    /// `NAME=VALUE` of the variables that the export shows.
    variables: Vec<String>,
}

impl Copy {
    fn run(&self, from: &Path) -> rusqlite::Result<Content> {
        let db = &self.connection;
        // A draft that is lost with the machine is no harm.
        db.pragma_update(None, "journal_mode", "off")?;
        db.pragma_update(None, "synchronous", "off")?;
        // Tables of old exports refer to others, which are copied later or not at all.
        db.pragma_update(None, "foreign_keys", false)?;
        db.pragma_update(None, "temp_store", "memory")?;
        db.execute("ATTACH ?1 AS source", [read_only_uri(from)])?;
        db.execute_batch(
            "CREATE TEMP TABLE string (id INTEGER PRIMARY KEY);
             CREATE TEMP TABLE process (pid INTEGER PRIMARY KEY);",
        )?;
        let tables = self.tables()?;
        let whole = |name: &str| COPIED.iter().any(|glob| WildMatch::new(glob).matches(name));
        let mut kept = Vec::new();
        let mut take = |name: &str, sql: &str, condition: &str| {
            kept.push(name.to_owned());
            self.take(name, sql, condition)
        };
        for (name, sql) in tables.iter().filter(|(name, _)| whole(name)) {
            take(name, sql, "true")?;
        }
        for (name, condition) in FILTERED {
            if let Some((name, sql)) = tables.iter().find(|(known, _)| known == name) {
                take(name, sql, condition)?;
            }
        }
        let variables = self.variables(&tables);
        if tables.iter().any(|(name, _)| name == diagnostics::TABLE) {
            kept.push(diagnostics::TABLE.to_owned());
            self.take_diagnostics(&variables)?;
        }
        db.execute_batch("DETACH source")?;
        Ok(Content { tables: kept, variables })
    }

    /// Name and definition of every real table.
    fn tables(&self) -> rusqlite::Result<Vec<(String, String)>> {
        let query = "SELECT name, sql FROM source.sqlite_master WHERE type = 'table' \
                     AND name NOT LIKE 'sqlite@_%' ESCAPE '@' AND sql LIKE 'create table%' \
                     ORDER BY name";
        let mut statement = self.connection.prepare(query)?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// Copies the rows that `condition` keeps, and notes which strings and processes they speak of.
    fn take(&self, name: &str, sql: &str, condition: &str) -> rusqlite::Result<()> {
        let db = &self.connection;
        // One statement only, whatever else the file says.
        db.prepare(sql)?.execute([])?;
        let table = format!("\"{}\"", name.replace('"', "\"\""));
        let insert =
            format!("INSERT INTO main.{table} SELECT * FROM source.{table} WHERE {condition}");
        db.execute(&insert, [])?;
        let mut columns = db.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let columns = columns.query_map([name], |row| row.get::<_, String>(0))?;
        for column in columns.collect::<rusqlite::Result<Vec<_>>>()? {
            let (noted, value) = if STRING_COLUMNS.contains(&&*column) {
                ("string", column.clone())
            } else if PROCESS_COLUMNS.contains(&&*column) {
                ("process", format!("{column} & ~0xffffff"))
            } else {
                continue;
            };
            let note = format!(
                "INSERT OR IGNORE INTO temp.{noted} SELECT DISTINCT {value} FROM main.{table} \
                 WHERE typeof({column}) = 'integer'"
            );
            db.execute(&note, [])?;
        }
        Ok(())
    }

    /// Copies what nsys says about its records, as far as it matters, without secrets. Nothing more of
    /// the table: its texts are made of whatever nsys met.
    fn take_diagnostics(&self, variables: &[String]) -> rusqlite::Result<()> {
        let db = &self.connection;
        let [severity, text] = diagnostics::COLUMNS;
        let table = diagnostics::TABLE;
        db.execute_batch(&format!("CREATE TABLE main.{table} ({severity} INTEGER, {text} TEXT)"))?;
        let mut columns = db.prepare("SELECT name FROM pragma_table_info(?1, 'source')")?;
        let columns = columns.query_map([table], |row| row.get::<_, String>(0))?;
        let columns = columns.collect::<rusqlite::Result<Vec<_>>>()?;
        let has = |name: &str| columns.iter().any(|column| column == name);
        if !has(text) {
            return Ok(());
        }
        let level = if has(severity) { severity } else { "NULL" };
        let query = format!(
            "SELECT {level}, {text} FROM source.{table} \
             WHERE typeof({text}) = 'text' AND length({text}) <= {MOST_READ_OF_A_TEXT} \
             LIMIT {MOST_DIAGNOSTICS}"
        );
        let insert = format!("INSERT INTO main.{table} VALUES (?1, ?2)");
        let (mut rows, mut insert) = (db.prepare(&query)?, db.prepare(&insert)?);
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let Ok(text) = row.get::<_, String>(1) else { continue };
            let severity = row.get::<_, i64>(0).ok();
            let holds = |variable: &String| {
                let value = variable.split_once('=').map_or("", |(_, value)| value);
                text.contains(variable)
                    || (value.len() >= LEAST_OF_A_SECRET && text.contains(value))
            };
            if diagnostics::weight(severity, &text).is_some() && !variables.iter().any(holds) {
                // Not before: of a secret that is cut its beginning would stay.
                let text = redaction::text(&text);
                let text: String = text.chars().take(MOST_OF_A_TEXT).collect();
                insert.execute((severity, text))?;
            }
        }
        Ok(())
    }

    /// `NAME=VALUE` of every variable in its own table that is long enough to be told from other text.
    fn variables(&self, tables: &[(String, String)]) -> Vec<String> {
        let is_long = |one: &String| one.split_once('=').is_some_and(|(_, value)| value.len() >= 4);
        let mut variables = BTreeSet::new();
        for (table, separator) in [("TARGET_INFO_SYSTEM_ENV", ';'), ("META_DATA_CAPTURE", '\0')] {
            if !tables.iter().any(|(known, _)| known == table) {
                continue;
            }
            let query = format!("SELECT value FROM source.{table} WHERE name LIKE '%env%'");
            let Ok(mut statement) = self.connection.prepare(&query) else { continue };
            let Ok(rows) = statement.query_map([], |row| row.get::<_, String>(0)) else { continue };
            for text in rows.flatten() {
                let assignments = text.split(separator).map(|one| one.replace('"', ""));
                variables.extend(assignments.filter(is_long));
            }
        }
        variables.into_iter().collect()
    }

    /// Looks at the copy as someone else would: is it whole, and is it clean?
    fn check(&self, content: &Content) -> Result<(), NoCopy> {
        let db = &self.connection;
        let number =
            |query: &str| -> rusqlite::Result<i64> { db.query_row(query, [], |row| row.get(0)) };
        let whole: String = db.query_row("PRAGMA quick_check", [], |row| row.get(0))?;
        if whole != "ok" {
            return Err(NoCopy::Damaged(whole));
        }
        if number("PRAGMA freelist_count")? != 0 {
            return Err(NoCopy::DeletedRows);
        }
        let found = number("SELECT count(*) FROM main.sqlite_master WHERE type = 'table'")?;
        let expected = content.tables.len();
        if usize::try_from(found) != Ok(expected) {
            return Err(NoCopy::OtherTables { found, expected });
        }
        if !content.tables.iter().any(|name| name == STRINGS) {
            return Ok(());
        }
        let query = "SELECT count(*) > 0 FROM main.StringIds WHERE instr(value, ?1) > 0";
        let mut statement = db.prepare(query)?;
        for variable in &content.variables {
            if statement.query_row([variable], |row| row.get::<_, bool>(0))? {
                let name = variable.split('=').next().unwrap_or_default();
                return Err(NoCopy::Secret(name.to_owned()));
            }
        }
        Ok(())
    }
}

/// A path as a URI that opens the file for reading only.
fn read_only_uri(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = String::from("file:");
    for &byte in absolute.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_') {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri.push_str("?mode=ro");
    uri
}

#[cfg(test)]
mod tests;
