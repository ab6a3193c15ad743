//! A file that claims to be SQLite -> a connection that is safe to read from.
//!
//! Only real tables are read, never views or virtual tables, which could hold a query without end;
//! columns are looked up first, because they differ between versions of nsys. Work and memory are
//! bounded by the length of the file ([`budget`]).

use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, Row};

use super::budget;
use super::names::Names;
use super::schema_size;
use super::table;
pub(super) use super::table::{Table, integer, short, short_text, text};
use crate::files;
use crate::progress::Meter;
use stage2_model::{Finding, Severity};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Longest text that is read, bytes. Names of kernels with many templates reach some 100 kB.
const MAX_TEXT_BYTES: i32 = 16 << 20;

/// Memory that SQLite may take. A sound export needs some MB, and more to sort its ranges.
const MAX_HEAP_BYTES: u32 = 256 << 20;
/// SQLite's own default; negative: in KiB.
const CACHE_KIB: i32 = -2000;

/// What is wrong with a file, in a few words.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is compressed, and not whole.
    #[error("it cannot be unpacked ({0})")]
    Packed(std::io::Error),
    /// It cannot be opened.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// SQLite refuses it.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// Reading them would take SQLite minutes and more.
    #[error(
        "it has more than {} tables and indexes, and an export of nsys has about a hundred: it is damaged, or \
         it was made to take long",
        schema_size::MOST_ENTRIES
    )]
    TooManyTables,
    /// It does not begin as a SQLite file does.
    #[error("it is {0}")]
    NoSqlite(&'static str),
}

pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
    /// Length of the file, unpacked.
    file_bytes: u64,
    names: Names,
    /// What was wrong with the file before anything was read.
    pub(super) cut_short: Option<String>,
}

impl Database {
    /// Opens a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn open(path: &Path) -> Result<Database, Unreadable> {
        let unpacked = match files::is_compressed(path) {
            true => Some(files::unpack(path).map_err(Unreadable::Packed)?),
            false => None,
        };
        let named = path.to_owned();
        let path = unpacked.as_deref().unwrap_or(path);
        let cut_short = check_header(path)?;
        let file_bytes = std::fs::metadata(path)?.len();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        let defended = || -> rusqlite::Result<()> {
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_TEXT_BYTES)?;
            connection.pragma_update(None, "trusted_schema", false)?;
            connection.pragma_update(None, "cell_size_check", true)?;
            if cut_short.is_some() {
                // SQLite refuses a file that is too short, unless it is to be mended; nothing is
                // written to one that is open for reading.
                connection.pragma_update(None, "writable_schema", true)?;
            }
            budget::limit_steps(&connection, file_bytes);
            // One look at the file: else each search for a name locks it anew.
            connection.execute_batch("BEGIN")?;
            // For all connections of this process together. SQLite's own memory grows with the number
            // of tables, and with what the header of the file asks for.
            connection.execute_batch(&format!("PRAGMA hard_heap_limit = {MAX_HEAP_BYTES}"))?;
            // The first statement that touches the file.
            connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
            // The header may ask for a cache as large as the file.
            connection.pragma_update(None, "cache_size", CACHE_KIB)
        };
        defended().map_err(budget::explained)?;
        // SQLite holds the file open from here on. Without its name it goes with this program, however
        // that ends.
        drop(unpacked);
        let names = Names::default();
        Ok(Database { connection, path: named, file_bytes, names, cut_short })
    }

    /// Opens an export.
    pub(super) fn of_export(path: &Path) -> Result<Database, Finding> {
        Database::open(path).map_err(|why| {
            let what = format!("the nsys export {} cannot be read", path.display());
            let remedy = "export the report again: nsys export --type sqlite --force-overwrite true FILE.nsys-rep";
            Finding::new(Severity::Warning, what, why.to_string(), remedy)
        })
    }

    /// A real table of that name.
    pub(super) fn table(&self, name: &'static str) -> rusqlite::Result<Option<Table>> {
        Table::of(&self.connection, name)
    }

    /// Hands every row of the columns to `take`, in the order of the file. Columns that the table
    /// lacks are null.
    pub(super) fn rows(
        &self,
        table: &Table,
        columns: &[&str],
        filter: &str,
        mut take: impl FnMut(&Row<'_>),
    ) -> rusqlite::Result<()> {
        let all = self.rows_until(table, columns, filter, |row| {
            take(row);
            ControlFlow::<()>::Continue(())
        });
        all.map(|_| ())
    }

    /// Hands the rows of the columns to `take`, in the order of the file, until `take` breaks off.
    /// Returns what it broke off with.
    pub(super) fn rows_until<B>(
        &self,
        table: &Table,
        columns: &[&str],
        rest: &str,
        mut take: impl FnMut(&Row<'_>) -> ControlFlow<B>,
    ) -> rusqlite::Result<Option<B>> {
        let query = format!("{} {rest}", table.select(columns));
        let rows = table.rows_about(&self.connection);
        let mut meter = Meter::of_table(&self.path, table.name, rows);
        table::each(&self.connection, self.file_bytes, &query, columns.len(), |row| {
            meter.advance(1);
            take(row)
        })
    }

    /// The string of that number in the table of strings.
    pub(super) fn string(&self, id: i64) -> Option<String> {
        self.names.text(&self.connection, self.file_bytes, id)
    }

    /// What is wrong with the table of strings, as far as it was needed.
    pub(super) fn wrong_names(&self) -> Option<String> {
        self.names.wrong()
    }
}

/// Looks at the header of a file: what SQLite says about a file that is none, or that is cut short,
/// helps nobody. Gives a warning where the file is shorter than it says.
///
/// # Errors
/// It is no SQLite file.
pub fn check_header(path: &Path) -> Result<Option<String>, Unreadable> {
    let mut file = std::fs::File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Unreadable::NoSqlite("no file"));
    }
    let mut header = Vec::new();
    file.by_ref().take(100).read_to_end(&mut header)?;
    if header.is_empty() {
        return Err(Unreadable::NoSqlite("empty"));
    }
    if !header.starts_with(MAGIC) {
        return Err(Unreadable::NoSqlite("no SQLite file"));
    }
    let number = |at: usize| -> Option<u64> {
        let bytes = header.get(at..at.checked_add(4)?)?;
        bytes.iter().try_fold(0_u64, |number, byte| Some(number << 8 | u64::from(*byte)))
    };
    let page = match header.get(16..18) {
        Some([0, 1]) => 65_536,
        Some([high, low]) => u64::from(*high) << 8 | u64::from(*low),
        _ => return Err(Unreadable::NoSqlite("cut short within its header")),
    };
    if schema_size::entries(&file, page)? > schema_size::MOST_ENTRIES {
        return Err(Unreadable::TooManyTables);
    }
    // The number of pages counts only where its writer kept it up to date.
    let (pages, changed, valid_for) = (number(28), number(24), number(92));
    let expected = pages.filter(|_| changed == valid_for).unwrap_or(0).saturating_mul(page);
    Ok((expected > metadata.len())
        .then(|| format!("it is cut short: {} of {expected} bytes are there", metadata.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_compressed_file_stands_for_has_no_name_while_it_is_read() {
        let dir = tempfile::tempdir().expect("folder");
        let (plain, packed) = (dir.path().join("run.sqlite"), dir.path().join("run.sqlite.gz"));
        let made = Connection::open(&plain).expect("database");
        made.execute_batch("CREATE TABLE t (n); INSERT INTO t VALUES (3), (4);").expect("rows");
        drop(made);
        let file = std::fs::File::create(&packed).expect("file");
        let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        std::io::copy(&mut files::open(&plain).expect("file"), &mut packer).expect("packed");
        packer.finish().expect("packed");
        std::fs::remove_file(&plain).expect("removed");

        let database = Database::open(&packed).expect("database");
        let names: Vec<_> = dir.path().read_dir().expect("folder").flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let table = database.table("t").expect("tables").expect("a table");
        let mut found = Vec::new();
        database.rows(&table, &["n"], "", |row| found.push(row.get(0))).expect("rows");
        assert_eq!(found, [Ok(3), Ok(4)]);
    }
}
