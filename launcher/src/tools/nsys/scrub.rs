//! A SQLite export -> a copy that can be given away.
//!
//! An export holds the environment of every process of the machine (TARGET_INFO_SYSTEM_ENV), the
//! arguments and variables of the workload (META_DATA_CAPTURE), all that it printed
//! (ProcessStreams), and the texts of all of these in StringIds. So the copy is made from what is
//! known to be harmless: recorded work, devices, names in use. It is a new file, in which nothing was
//! ever deleted, and it is checked before it gets its name.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use stage2_analysis::nsys::load::database::check_header;
use stage2_model::{Finding, Severity};

/// Goes beside every report: what is in it.
pub const NOTICE: &str = "\
The .nsys-rep and .sqlite files in this folder hold the environment variables of every process
that ran on the machine, the arguments of the workload and all that it printed: keys, tokens and
passwords among them. Do not give them away. A copy of the tables without these is written with
pipeline.nsys.export.scrub=true; only the file named *.scrubbed.sqlite is meant for others.
";

/// Tables that are copied whole. A * at the end stands for any rest.
const COPIED: [&str; 14] = [
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
];

/// Tables of which a part is copied: the rows that a condition keeps. Processes and threads are those
/// that did something that was recorded, not all of the machine.
const FILTERED: [(&str, &str); 4] = [
    ("META_DATA_EXPORT", EXPORT_VERSIONS),
    ("EXPORT_META_DATA", EXPORT_VERSIONS),
    ("PROCESSES", "globalPid IN (SELECT pid FROM temp.process)"),
    ("ThreadNames", "globalTid & ~0xffffff IN (SELECT pid FROM temp.process)"),
];
const EXPORT_VERSIONS: &str = "name GLOB 'EXPORT_PRODUCT_*' OR name GLOB 'EXPORT_SCHEMA_*'";

/// Columns that hold numbers of strings.
const STRING_COLUMNS: [&str; 6] =
    ["nameId", "textId", "jsonTextId", "demangledName", "shortName", "mangledName"];
/// Columns that hold the process of recorded work, on their own or with the thread.
const PROCESS_COLUMNS: [&str; 2] = ["globalPid", "globalTid"];

/// What a copy holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Tables of the copy, with their rows.
    pub kept: Vec<(String, u64)>,
    /// Tables and rows that were left out.
    pub left_out: Vec<(String, u64)>,
    /// Length of the copy, bytes.
    pub bytes: u64,
}

/// Writes a scrubbed copy of `from` to `to`, which is replaced if it is there.
///
/// # Errors
/// What went wrong; there is no copy then.
pub fn scrub(from: &Path, to: &Path) -> Result<Scrubbed, Finding> {
    copy(from, to).map_err(|why| {
        let what = format!("no scrubbed copy of {} was written", from.display());
        let remedy = "do not give the export itself away; export the report again and retry";
        Finding::new(Severity::Warning, what, why, remedy)
    })
}

fn copy(from: &Path, to: &Path) -> Result<Scrubbed, String> {
    if let Some(cut) = check_header(from).map_err(|why| why.to_string())? {
        return Err(cut);
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    // Under another name until it is known to be clean.
    let draft = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
    let draft = draft.map_err(|e| format!("{}: {e}", to.display()))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copied = Connection::open_with_flags(draft.path(), flags)
        .and_then(|connection| Copy { connection }.run(from))
        .map_err(|e| e.to_string())?;
    copied.check()?;
    let Copied { kept, left_out, connection, .. } = copied;
    connection.close().map_err(|(_, e)| e.to_string())?;
    let bytes = draft.as_file().metadata().map_err(|e| e.to_string())?.len();
    draft.persist(to).map_err(|e| format!("{}: {}", to.display(), e.error))?;
    Ok(Scrubbed { kept, left_out, bytes })
}

struct Copy {
    connection: Connection,
}

struct Copied {
    connection: Connection,
    kept: Vec<(String, u64)>,
    left_out: Vec<(String, u64)>,
    /// `NAME=VALUE` of the variables that the export shows.
    variables: Vec<String>,
}

impl Copy {
    fn run(self, from: &Path) -> rusqlite::Result<Copied> {
        let db = &self.connection;
        // A draft that is lost with the machine is no harm.
        db.pragma_update(None, "journal_mode", "off")?;
        db.pragma_update(None, "synchronous", "off")?;
        db.pragma_update(None, "trusted_schema", false)?;
        db.pragma_update(None, "temp_store", "memory")?;
        db.execute("ATTACH ?1 AS source", [read_only_uri(from)])?;
        db.execute_batch(
            "CREATE TEMP TABLE string (id INTEGER PRIMARY KEY);
             CREATE TEMP TABLE process (pid INTEGER PRIMARY KEY);",
        )?;
        let tables = self.tables()?;
        let (mut kept, mut left_out) = (Vec::new(), Vec::new());
        let mut take = |name: &str, sql: &str, condition: &str| -> rusqlite::Result<()> {
            let all = self.count("source", name)?;
            self.take(name, sql, condition)?;
            let here = self.count("main", name)?;
            kept.push((name.to_owned(), here));
            if here < all {
                left_out.push((name.to_owned(), all - here));
            }
            Ok(())
        };
        let whole = |name: &str| COPIED.iter().any(|pattern| matches(pattern, name));
        for (name, sql) in tables.iter().filter(|(name, _)| whole(name)) {
            take(name, sql, "true")?;
            self.note_references(name)?;
        }
        for (name, condition) in FILTERED {
            if let Some((name, sql)) = tables.iter().find(|(known, _)| known == name) {
                take(name, sql, condition)?;
                self.note_references(name)?;
            }
        }
        if let Some((name, sql)) = tables.iter().find(|(name, _)| name == "StringIds") {
            take(name, sql, "id IN (SELECT id FROM temp.string)")?;
        }
        let known: Vec<String> = kept.iter().map(|(name, _)| name.clone()).collect();
        for (name, _) in tables.iter().filter(|(name, _)| !known.contains(name)) {
            left_out.push((name.clone(), self.count("source", name).unwrap_or(0)));
        }
        let variables = self.variables(&tables);
        self.connection.execute_batch("DETACH source")?;
        Ok(Copied { connection: self.connection, kept, left_out, variables })
    }

    /// Name and definition of every real table.
    fn tables(&self) -> rusqlite::Result<Vec<(String, String)>> {
        let query = "SELECT name, sql FROM source.sqlite_master WHERE type = 'table' \
                     AND name NOT LIKE 'sqlite@_%' ESCAPE '@' AND sql LIKE 'create table%' \
                     ORDER BY name";
        let mut statement = self.connection.prepare(query)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }

    fn take(&self, name: &str, sql: &str, condition: &str) -> rusqlite::Result<()> {
        // One statement only, whatever else the file says.
        self.connection.prepare(sql)?.execute([])?;
        let table = quoted(name);
        let insert =
            format!("INSERT INTO main.{table} SELECT * FROM source.{table} WHERE {condition}");
        self.connection.execute(&insert, [])?;
        Ok(())
    }

    /// Which strings and processes the rows of a copied table speak of.
    fn note_references(&self, name: &str) -> rusqlite::Result<()> {
        let table = quoted(name);
        let has = |column: &str| -> rusqlite::Result<bool> {
            let query = "SELECT count(*) > 0 FROM pragma_table_info(?1) WHERE name = ?2";
            self.connection.query_row(query, [name, column], |row| row.get(0))
        };
        for column in STRING_COLUMNS {
            if has(column)? {
                let note = format!(
                    "INSERT OR IGNORE INTO temp.string SELECT DISTINCT {column} FROM main.{table} \
                     WHERE typeof({column}) = 'integer'"
                );
                self.connection.execute(&note, [])?;
            }
        }
        for column in PROCESS_COLUMNS {
            if has(column)? {
                let note = format!(
                    "INSERT OR IGNORE INTO temp.process SELECT DISTINCT {column} & ~0xffffff \
                     FROM main.{table} WHERE typeof({column}) = 'integer'"
                );
                self.connection.execute(&note, [])?;
            }
        }
        Ok(())
    }

    fn count(&self, schema: &str, name: &str) -> rusqlite::Result<u64> {
        let query = format!("SELECT count(*) FROM {schema}.{}", quoted(name));
        let count: i64 = self.connection.query_row(&query, [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// `NAME=VALUE` of every variable that the export shows in a table of its own. Those that are
    /// too short to be told from other text are left out.
    fn variables(&self, tables: &[(String, String)]) -> Vec<String> {
        let has = |name: &str| tables.iter().any(|(known, _)| known == name);
        let mut texts: Vec<(String, char)> = Vec::new();
        let mut read = |query: &str, separator: char| {
            let Ok(mut statement) = self.connection.prepare(query) else { return };
            let Ok(rows) = statement.query_map([], |row| row.get::<_, String>(0)) else { return };
            texts.extend(rows.flatten().map(|text| (text, separator)));
        };
        if has("TARGET_INFO_SYSTEM_ENV") {
            let query =
                "SELECT value FROM source.TARGET_INFO_SYSTEM_ENV WHERE name LIKE '%environment%'";
            read(query, ';');
        }
        if has("META_DATA_CAPTURE") {
            let query =
                "SELECT value FROM source.META_DATA_CAPTURE WHERE name LIKE '%environment%'";
            read(query, '\0');
        }
        let split = texts.iter().flat_map(|(text, separator)| text.split(*separator));
        let assignments = split.map(|one| one.replace('"', ""));
        let long = assignments
            .filter(|one| one.split_once('=').is_some_and(|(_, value)| value.len() >= 4));
        let mut variables: Vec<String> = long.collect();
        variables.sort();
        variables.dedup();
        variables
    }
}

impl Copied {
    /// Looks at the copy as somebody else would: is it whole, and is it clean?
    fn check(&self) -> Result<(), String> {
        let db = &self.connection;
        let one = |query: &str| -> Result<String, String> {
            let cell = |row: &rusqlite::Row<'_>| {
                row.get_ref(0).map(|cell| match cell {
                    rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                    other => {
                        String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned()
                    }
                })
            };
            db.query_row(query, [], cell).map_err(|e| e.to_string())
        };
        let whole = one("PRAGMA quick_check")?;
        if whole != "ok" {
            return Err(format!("the copy is damaged: {whole}"));
        }
        if one("PRAGMA freelist_count")? != "0" {
            return Err("the copy holds deleted rows".into());
        }
        let tables = one("SELECT count(*) FROM main.sqlite_master WHERE type = 'table'")?;
        if tables != self.kept.len().to_string() {
            return Err(format!("the copy has {tables} tables, and not {}", self.kept.len()));
        }
        if !self.kept.iter().any(|(name, _)| name == "StringIds") {
            return Ok(());
        }
        let query = "SELECT count(*) FROM main.StringIds WHERE instr(value, ?1) > 0";
        let mut statement = db.prepare(query).map_err(|e| e.to_string())?;
        for variable in &self.variables {
            let found: i64 =
                statement.query_row([variable], |row| row.get(0)).map_err(|e| e.to_string())?;
            if found > 0 {
                let name = variable.split('=').next().unwrap_or_default();
                return Err(format!("a text that is in use holds the variable {name}"));
            }
        }
        Ok(())
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
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
