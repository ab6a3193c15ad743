//! A file that claims to be SQLite -> a connection that is safe to read from.
//!
//! Only real tables are read, never views or virtual tables, which could hold a query without end;
//! columns are looked up first, because they differ between versions of nsys. Work and memory are
//! bounded by the length of the file ([`Budget`]).

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use foldhash::HashMap;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row, ffi};
use stage2_contract::text::visible;
use stage2_model::Finding;
use stage2_model::finding::Id;

use crate::files;
use crate::progress::Meter;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Longest text that is read, bytes. Names of kernels with many templates reach about 100 kB.
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
        MOST_ENTRIES
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
    /// How texts are found by their numbers, how much of them may be read, and what was wrong with them.
    how: OnceCell<How>,
    texts: OnceCell<Budget>,
    wrong: RefCell<Option<String>>,
    /// What was wrong with the file before anything was read.
    pub(super) cut_short: Option<String>,
}

impl Database {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Database, Unreadable> {
        let unpack = || files::unpack(path).map_err(Unreadable::Packed);
        let unpacked = files::is_compressed(path).then(unpack).transpose()?;
        let named = path.to_owned();
        let path = unpacked.as_deref().unwrap_or(path);
        let cut_short = check_header(path)?;
        let file_bytes = std::fs::metadata(path)?.len();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        let defended = || -> rusqlite::Result<()> {
            defend(&connection, file_bytes)?;
            if cut_short.is_some() {
                // SQLite refuses a file that is too short, unless it is to be mended; nothing is
                // written to one that is open for reading.
                connection.pragma_update(None, "writable_schema", true)?;
            }
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
        defended().map_err(explained)?;
        // SQLite holds the file open from here on. Without its name it goes with this program, however
        // that ends.
        drop(unpacked);
        Ok(Database { cut_short, ..Database::of(connection, named, file_bytes) })
    }

    fn of(connection: Connection, path: PathBuf, file_bytes: u64) -> Database {
        let (how, texts, wrong) = (OnceCell::new(), OnceCell::new(), RefCell::default());
        Database { connection, path, file_bytes, how, texts, wrong, cut_short: None }
    }

    pub(super) fn of_export(path: &Path) -> Result<Database, Finding> {
        Database::open(path).map_err(|why| {
            let what = format!("the nsys export {} cannot be read", path.display());
            let remedy = "export the report again: nsys export --type sqlite --force-overwrite true FILE.nsys-rep";
            Id::NsysUnreadable.found(what, why.to_string(), remedy)
        })
    }

    /// A real table of that name.
    pub(super) fn table(&self, name: &'static str) -> rusqlite::Result<Option<Table>> {
        let real = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1 \
                    AND sql NOT LIKE 'create virtual%'";
        let found: i64 = self.connection.query_row(real, [name], |row| row.get(0))?;
        if found == 0 {
            return Ok(None);
        }
        let mut columns = HashSet::new();
        self.connection.pragma(None, "table_info", name, |row| {
            columns.insert(row.get::<_, String>("name")?);
            Ok(())
        })?;
        Ok(Some(Table { name, columns }))
    }

    /// Hands every row to `take`, in the order of the file. Columns that the table lacks are null.
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

    /// Hands every row of a table that may be missing to `take`.
    pub(super) fn rows_of(
        &self,
        name: &'static str,
        columns: &[&str],
        filter: &str,
        take: impl FnMut(&Row<'_>),
    ) -> rusqlite::Result<()> {
        let table = self.table(name)?;
        table.map_or(Ok(()), |table| self.rows(&table, columns, filter, take))
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
        let mut meter = Meter::of_table(&self.path, table.name, self.rows_about(table));
        self.each(&query, columns.len(), |row| {
            meter.advance(1);
            take(row)
        })
    }

    /// How many rows a table has, about: nsys numbers them from 1. Nothing where its rows have no number.
    fn rows_about(&self, table: &Table) -> Option<u64> {
        let query = format!("SELECT max(rowid) FROM \"{}\"", table.name);
        let found = self.connection.query_row(&query, [], |row| row.get::<_, Option<i64>>(0));
        u64::try_from(found.ok()??).ok()
    }

    /// Hands the rows of a query to `take` until it breaks off, and gives what it broke off with. More
    /// rows than the file can hold are an error.
    fn each<B>(
        &self,
        query: &str,
        columns: usize,
        mut take: impl FnMut(&Row<'_>) -> ControlFlow<B>,
    ) -> rusqlite::Result<Option<B>> {
        let budget = Budget::of(self.file_bytes, 1);
        let mut statement = self.connection.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next().map_err(explained)? {
            budget.take(row, columns)?;
            if let ControlFlow::Break(why) = take(row) {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    /// The text of that number in the table of strings.
    ///
    /// nsys makes the number the key of the table. Where a file lacks it, each search would go through the
    /// whole table, so that 400,000 names take minutes: the table is read once instead, and the place of
    /// each number is kept.
    pub(super) fn string(&self, number: i64) -> Option<String> {
        let how = self.how.get_or_init(|| {
            self.way_to_texts(MAX_PLACES).unwrap_or_else(|error| {
                self.complain(error.to_string());
                How::No
            })
        });
        let (column, key) = match how {
            How::No => return None,
            How::Key => ("id", number),
            How::Place { row, of } => (*row, *of.get(&number)?),
        };
        let query = format!("SELECT value FROM {STRINGS} WHERE {column} = ?1");
        let budget = self.texts.get_or_init(|| Budget::of(self.file_bytes, TEXT_TIMES));
        let read = || -> rusqlite::Result<Option<String>> {
            let mut statement = self.connection.prepare_cached(&query)?;
            let mut rows = statement.query([key])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            budget.take(row, 1)?;
            Ok(text(row, 0))
        };
        read().unwrap_or_else(|error| {
            self.complain(explained(error).to_string());
            None
        })
    }

    /// How texts are found. Where more than `most` places have to be kept, the other texts have none.
    fn way_to_texts(&self, most: usize) -> rusqlite::Result<How> {
        let Some(table) = self.table(STRINGS)? else { return Ok(How::No) };
        let missing = table.lacks(&["id", "value"]);
        if !missing.is_empty() {
            self.complain(format!("it has no column {}", missing.join(", ")));
            return Ok(How::No);
        }
        let plan = format!("EXPLAIN QUERY PLAN SELECT value FROM {STRINGS} WHERE id = ?1");
        let plan: String = self.connection.query_row(&plan, [0], |row| row.get("detail"))?;
        if plan.starts_with("SEARCH") {
            return Ok(How::Key);
        }
        let Some(row) = ROW_NUMBERS.into_iter().find(|name| !table.has(name)) else {
            self.complain("its numbers have no key, and neither have its rows".to_owned());
            return Ok(How::No);
        };
        let mut of = HashMap::default();
        let mut beyond = 0_u64;
        // Rows without a number of their own cannot be read so, and the error says that.
        let query = format!("SELECT id, {row} FROM {STRINGS}");
        let read = self.each(&query, 2, |found| {
            let (Some(number), Some(place)) = (integer(found, 0), integer(found, 1)) else {
                return ControlFlow::<()>::Continue(());
            };
            let room = of.len() < most;
            match of.entry(number) {
                Entry::Vacant(new) if room => drop(new.insert(place)),
                Entry::Vacant(_) => beyond += 1,
                // Of several texts with one number the first counts, as with a search.
                Entry::Occupied(_) => {}
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = read {
            self.complain(error.to_string());
        }
        if beyond > 0 {
            self.complain(format!(
                "it has no key, and {beyond} names beyond the first {most} were left out"
            ));
        }
        Ok(How::Place { row, of })
    }

    fn complain(&self, why: String) {
        self.wrong.borrow_mut().get_or_insert(why);
    }

    /// What is wrong with the table of strings, as far as it was needed.
    pub(super) fn wrong_names(&self) -> Option<String> {
        self.wrong.borrow().clone()
    }
}

/// Has a connection read a file of this length, which may be crafted, with bounded work.
///
/// # Errors
/// When SQLite refuses a setting.
pub fn defend(connection: &Connection, file_bytes: u64) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_TEXT_BYTES)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    limit_steps(connection, file_bytes);
    Ok(())
}

/// The names of the tables of an export, read with the limits of every other look at it.
pub fn table_names(path: &Path) -> Result<Vec<String>, Unreadable> {
    let mut names = Vec::new();
    let query = "SELECT name FROM sqlite_master WHERE type = 'table'";
    Database::open(path)?.each(query, 1, |row| {
        names.extend(text(row, 0));
        ControlFlow::<()>::Continue(())
    })?;
    Ok(names)
}

/// Checks the header of a SQLite file, because SQLite's own errors for truncated or foreign files are not
/// helpful. Returns a warning if the file is shorter than its header states, and an error if it is not a
/// SQLite file.
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
    if entries(&file, page)? > MOST_ENTRIES {
        return Err(Unreadable::TooManyTables);
    }
    // The number of pages counts only where its writer kept it up to date.
    let (pages, changed, valid_for) = (number(28), number(24), number(92));
    let expected = pages.filter(|_| changed == valid_for).unwrap_or(0).saturating_mul(page);
    Ok((expected > metadata.len())
        .then(|| format!("it is cut short: {} of {expected} bytes are there", metadata.len())))
}

/// Bytes of a text that is shown and compared with nothing.
const MAX_SHORT_BYTES: usize = 1024;

/// A table, and the columns that it has: they differ between versions of nsys.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    columns: HashSet<String>,
}

impl Table {
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.contains(column)
    }

    pub(super) fn lacks<'a>(&self, columns: &[&'a str]) -> Vec<&'a str> {
        columns.iter().copied().filter(|column| !self.has(column)).collect()
    }

    /// The query for these columns; those that the table lacks are null.
    pub(super) fn select(&self, columns: &[&str]) -> String {
        let expression = |column: &&str| {
            if self.has(column) { format!("\"{column}\"") } else { "NULL".to_owned() }
        };
        let list: Vec<_> = columns.iter().map(expression).collect();
        format!("SELECT {} FROM \"{}\"", list.join(", "), self.name)
    }
}

/// An integer; nothing for null and for anything else.
pub(super) fn integer(row: &Row<'_>, column: usize) -> Option<i64> {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(value)) => Some(value),
        _ => None,
    }
}

/// The start of a text that is shown as it is, as visible text: names of GPUs, versions.
pub(super) fn short_text(row: &Row<'_>, column: usize) -> Option<String> {
    text(row, column).map(|text| visible(short(text, MAX_SHORT_BYTES).as_bytes()))
}

/// The text up to so many bytes, at the end of a character.
pub(super) fn short(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        text.shrink_to_fit();
    }
    text
}

/// A text; bytes that are not UTF-8 are replaced.
pub(super) fn text(row: &Row<'_>, column: usize) -> Option<String> {
    match row.get_ref(column) {
        Ok(ValueRef::Text(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

pub(super) const STRINGS: &str = "StringIds";
/// Numbers that are kept where the table has no key, at about 35 bytes each.
const MAX_PLACES: usize = 4_000_000;
/// Names of the number of a row. The table may use one or two of them for columns of its own.
const ROW_NUMBERS: [&str; 3] = ["rowid", "_rowid_", "oid"];
/// How often the texts of a file may be read: a name is looked up again where too many were seen.
const TEXT_TIMES: u64 = 16;

#[derive(Debug)]
enum How {
    /// There is no such table, or it cannot be read.
    No,
    /// Looked up by id, one query for each name: the table has a key.
    Key,
    /// By the number of the row, which has this name.
    Place { row: &'static str, of: HashMap<i64, i64> },
}

/// The least that a row takes: its place in the page, and three lengths and numbers of a byte each.
const ROW_BYTES: u64 = 5;
/// A text may take half as much again once it is UTF-8, and a default value takes nothing.
const TIMES: u64 = 2;
const AT_LEAST_BYTES: u64 = 1 << 20;
/// Steps of SQLite's machine for each byte of the file. The tables of an export take two in each pass
/// over them; a search without an index, or a view without an end, takes any number.
const STEPS_PER_BYTE: u64 = 64;
/// A second, about.
const STEPS_AT_LEAST: u64 = 40_000_000;
/// Steps between two looks at the budget.
const STEPS_AT_ONCE: i32 = 100_000;

/// What may still be read of one file, or by one query.
///
/// A file may say that many rows share a page or the text behind it. A small file then holds billions of
/// rows, or terabytes of texts, and SQLite reads them all. A sound file has its own bytes for each.
#[derive(Debug)]
struct Budget {
    file_bytes: u64,
    left: Cell<u64>,
}

impl Budget {
    /// What a file of this length can hold, `times` over.
    fn of(file_bytes: u64, times: u64) -> Self {
        let all = file_bytes.saturating_mul(TIMES).saturating_add(AT_LEAST_BYTES);
        Budget { file_bytes, left: Cell::new(all.saturating_mul(times)) }
    }

    /// Takes a row with its first `columns` values out of the budget.
    /// Fails once more was read than the file can hold.
    fn take(&self, row: &Row<'_>, columns: usize) -> rusqlite::Result<()> {
        let length = |column| match row.get_ref(column) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes.len() as u64,
            _ => 0,
        };
        let bytes = (0..columns).map(length).fold(ROW_BYTES, u64::saturating_add);
        let Some(left) = self.left.get().checked_sub(bytes) else {
            return Err(corrupt(format!(
                "it is damaged: more rows and texts were read than {} bytes can hold, so that some \
                 share their bytes",
                self.file_bytes
            )));
        };
        self.left.set(left);
        Ok(())
    }
}

/// Has every statement of the connection end with an error, once all of them together have taken more
/// steps than a file of this length is worth.
fn limit_steps(connection: &Connection, file_bytes: u64) {
    let steps = file_bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS_AT_LEAST);
    let mut left = steps / u64::from(STEPS_AT_ONCE.unsigned_abs());
    let used_up = move || {
        left = left.saturating_sub(1);
        left == 0
    };
    connection.progress_handler(STEPS_AT_ONCE, Some(used_up));
}

/// Turns errors of SQLite into their cause: only the budget interrupts a connection, and only its
/// heap limit leaves it without memory.
pub fn explained(error: rusqlite::Error) -> rusqlite::Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => corrupt(
            "reading it takes more work than a file of this size should: it is damaged, or it lacks \
             the keys that an export has"
                .to_owned(),
        ),
        Some(rusqlite::ErrorCode::OutOfMemory) => corrupt(
            "reading it takes more memory than any export does: it is damaged, or it was made to do so"
                .to_owned(),
        ),
        _ => error,
    }
}

fn corrupt(why: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(why))
}

/// Far more than any export has: some versions of nsys make a hundred.
const MOST_ENTRIES: u64 = 10_000;
/// Pages of the tree that are looked at: enough for as many entries with long statements.
const MOST_PAGES: usize = 20_000;
/// Where the first page has its part of the tree, behind the header of the file.
const HEADER_BYTES: u64 = 100;
const LEAF: u8 = 13;
const INNER: u8 = 5;

/// The number of entries, or of those that were counted until there were more than [`MOST_ENTRIES`]. What is not a
/// tree counts for nothing: SQLite tells what is wrong with it.
///
/// SQLite reads all entries before its first statement, in a time that grows with the square of their number
/// and that nothing interrupts.
pub(super) fn entries(file: &File, page_bytes: u64) -> io::Result<u64> {
    let (mut found, mut waiting) = (0, vec![1_u64]);
    for _ in 0..MOST_PAGES {
        let Some(page) = waiting.pop().filter(|_| found <= MOST_ENTRIES) else { return Ok(found) };
        let begin = (page - 1).saturating_mul(page_bytes);
        let head = begin.saturating_add(if page == 1 { HEADER_BYTES } else { 0 });
        let Some([kind, _, _, high, low]) = bytes(file, head)? else { continue };
        let cells = u16::from_be_bytes([high, low]);
        match kind {
            LEAF => found += u64::from(cells),
            INNER => {
                let last = bytes(file, head.saturating_add(8))?.map(u32::from_be_bytes);
                waiting.extend(last.filter(|page| *page > 0).map(u64::from));
                for cell in 0..u64::from(cells) {
                    let Some(at) = bytes(file, head.saturating_add(12 + 2 * cell))? else { break };
                    let at = begin.saturating_add(u64::from(u16::from_be_bytes(at)));
                    let child = bytes(file, at)?.map(u32::from_be_bytes);
                    waiting.extend(child.filter(|page| *page > 0).map(u64::from));
                    if waiting.len() > MOST_PAGES {
                        return Ok(MOST_ENTRIES + 1);
                    }
                }
            }
            _ => {}
        }
    }
    // More pages than there can be, or pages that lead to each other.
    Ok(MOST_ENTRIES + 1)
}

/// So many bytes at a place; nothing behind the end.
fn bytes<const N: usize>(file: &File, at: u64) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(Some(bytes)),
        // The other is beyond what an offset can be.
        Err(error)
            if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidInput) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;

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

    /// A database with the rows of `sql`.
    fn database(sql: &str) -> Database {
        let made = Connection::open_in_memory().expect("a database");
        made.execute_batch(sql).expect("rows");
        Database::of(made, PathBuf::new(), 1 << 12)
    }

    const ROWS: &str = "INSERT INTO StringIds VALUES (7, 'seven'), (3, 'three'), (7, 'other');";

    #[test]
    fn names_are_found_with_and_without_a_key() {
        for (table, is_key) in [
            ("CREATE TABLE StringIds (id INTEGER, value TEXT);", false),
            ("CREATE TABLE StringIds (id, value); CREATE INDEX i ON StringIds (id);", true),
        ] {
            let database = database(&format!("{table} {ROWS}"));
            let found = [7, 3, 4].map(|number| database.string(number));
            let expected = [Some("seven".to_owned()), Some("three".to_owned()), None];
            assert_eq!((found, database.wrong_names()), (expected, None), "{table}");
            assert_eq!(matches!(database.how.get(), Some(How::Key)), is_key, "{table}");
        }
        let key = "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
                   INSERT INTO StringIds VALUES (7, 'seven');";
        let database = database(key);
        assert_eq!(database.string(7), Some("seven".to_owned()));
        assert!(matches!(database.how.get(), Some(How::Key)));
    }

    #[test]
    fn a_column_may_have_the_name_of_the_number_of_a_row() {
        let database = database(
            "CREATE TABLE StringIds (id INTEGER, value TEXT, rowid TEXT);
             INSERT INTO StringIds VALUES (7, 'seven', 'x');",
        );
        assert_eq!(database.string(7), Some("seven".to_owned()));
    }

    #[test]
    fn tables_that_cannot_be_searched_are_told() {
        for (sql, why) in [
            ("CREATE TABLE StringIds (value TEXT);", Some("no column id")),
            ("CREATE TABLE StringIds (id, value, k PRIMARY KEY) WITHOUT ROWID;", Some("rowid")),
            ("CREATE TABLE StringIds (id, value, rowid, _rowid_, oid);", Some("no key")),
            (
                "CREATE VIEW StringIds AS WITH RECURSIVE n(id) AS
                (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 'x' AS value FROM n;",
                None,
            ),
        ] {
            let database = database(sql);
            assert_eq!(database.string(7), None, "{sql}");
            let wrong = database.wrong_names();
            assert_eq!(wrong.is_some(), why.is_some(), "{sql}: {wrong:?}");
            assert!(wrong.is_none_or(|wrong| wrong.contains(why.unwrap_or_default())), "{sql}");
        }
    }

    #[test]
    fn names_beyond_what_is_kept_are_counted() {
        let database =
            database(&format!("CREATE TABLE StringIds (id INTEGER, value TEXT); {ROWS}"));
        let found = database.way_to_texts(1).expect("a table");
        assert!(matches!(found, How::Place { of, .. } if of.len() == 1));
        let said = database.wrong_names().expect("a complaint");
        assert!(said.contains("1 names beyond the first 1"), "{said}");
    }

    fn made(folder: &Path, sql: &str) -> File {
        let path = folder.join("made.sqlite");
        let _ = std::fs::remove_file(&path);
        Connection::open(&path).expect("a file").execute_batch(sql).expect("statements");
        File::open(path).expect("a file")
    }

    /// Hazard (Hostile files): An nsys export with hundreds of thousands of tables, which SQLite
    ///  reads first and without an end to wait for.
    /// Promise: It is refused at once.
    #[test]
    fn entries_are_as_many_as_sqlite_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        for page_bytes in [512, 4096] {
            for tables in [1, 3, 400] {
                let mut sql = format!("PRAGMA synchronous = OFF; PRAGMA page_size = {page_bytes};");
                for table in 0..tables {
                    sql += &format!("CREATE TABLE a_table_of_some_name_{table}(a, b UNIQUE);");
                }
                let file = made(folder.path(), &sql);
                assert_eq!(entries(&file, page_bytes).expect("read"), 2 * tables, "{page_bytes}");
            }
        }
    }

    #[test]
    fn pages_that_lead_to_each_other_and_no_pages_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        let mut page = vec![0; 512];
        // An interior page whose 100 cells and rightmost child all point back to the page itself.
        page[100] = INNER;
        page[103..105].copy_from_slice(&100_u16.to_be_bytes());
        page[108..112].copy_from_slice(&1_u32.to_be_bytes());
        page[112..312].copy_from_slice(&[1_u8, 144].repeat(100));
        page[400..404].copy_from_slice(&1_u32.to_be_bytes());
        std::fs::write(&path, &page).expect("a file");
        assert!(entries(&File::open(&path).expect("a file"), 512).expect("read") > MOST_ENTRIES);
        for bytes in [&[][..], &[13; 600], &[5; 600], &[0; 50]] {
            std::fs::write(&path, bytes).expect("a file");
            entries(&File::open(&path).expect("a file"), 65_536).expect("read");
        }
    }
}
