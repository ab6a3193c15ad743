//! The table of NVTX events -> its ranges, in batches, read on their own thread.
//!
//! Of what a large export takes, half is SQLite's: it reads on while a batch is walked through.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};

use rusqlite::Row;
use rusqlite::types::ValueRef;
use stage2_model::nsys::Counts;

use super::work::NVTX_EVENTS;
use crate::nsys::database::{Database, Table, integer};

/// Rows of a batch, at most, and bytes of its texts before it is handed over.
const ROWS: usize = 4096;
const BYTES: usize = 1 << 20;
const AHEAD: usize = 4;
/// Bytes of a text that are handed over: far more than is kept of it.
const LONGEST: usize = 1 << 16;
/// End of a range that has none.
pub(super) const OPEN: i64 = i64::MAX;
const FILTER: &str = "WHERE eventType IN (59, 60, 70, 71)";
const COLUMNS: [&str; 8] =
    ["start", "end", "eventType", "globalTid", "domainId", "textId", "text", "endGlobalTid"];
/// Numbers of the kinds of rows of push/pop and of start/end ranges.
const PUSH_POP: i64 = 59;
const START_END: i64 = 60;

/// A name as the file has it; `T` is what the text in the row is held as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name<T> {
    /// In the row.
    Text(T),
    /// By its number in the table of strings.
    Registered(i64),
    None,
}

impl<T> Name<T> {
    /// This name, with its text held as what `held` makes of it.
    fn map<U>(self, held: impl FnOnce(T) -> U) -> Name<U> {
        match self {
            Name::Text(text) => Name::Text(held(text)),
            Name::Registered(id) => Name::Registered(id),
            Name::None => Name::None,
        }
    }
}

impl Name<&[u8]> {
    pub(super) fn bytes(&self, database: &Database) -> Option<Cow<'_, [u8]>> {
        match self {
            Name::Text(text) => Some(Cow::Borrowed(text)),
            Name::Registered(id) => Some(Cow::Owned(database.string(*id)?.into_bytes())),
            Name::None => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence<T> {
    /// Start and end, ns; [`OPEN`]: it has no end.
    pub(super) span: (i64, i64),
    /// Global number of the thread that opened it.
    pub(super) thread: i64,
    /// Number of its domain; 0: the default one.
    pub(super) domain: i64,
    /// It need not nest.
    pub(super) start_end: bool,
    pub(super) name: Name<T>,
}

/// Start and end of a range; nothing where they are impossible.
fn span(row: &Row<'_>) -> Option<(i64, i64)> {
    let start = integer(row, 0)?;
    match row.get_ref(1) {
        Ok(ValueRef::Null) => Some((start, OPEN)),
        Ok(ValueRef::Integer(end)) if end >= start => Some((start, end)),
        _ => None,
    }
}

#[derive(Debug)]
pub(super) enum Missing {
    /// All of them: nothing could be read.
    All(String),
    /// Those behind the ones that were handed over.
    Rest(String),
}

/// The table, where it can be used.
pub(super) fn table(database: &Database) -> rusqlite::Result<Option<Table>> {
    let table = database.table(NVTX_EVENTS)?;
    Ok(table.filter(|table| table.has("eventType") && table.has("start")))
}

/// Hands every row of the file that is not odd to `take`, as they come or `sorted` by their start,
/// until it breaks off; gives what it broke off with. Counts all rows.
pub(super) fn each<B>(
    path: &Path,
    table: &Table,
    sorted: bool,
    counts: &mut Counts,
    mut take: impl FnMut(Occurrence<&[u8]>) -> ControlFlow<B>,
) -> Result<Option<B>, Missing> {
    std::thread::scope(|scope| {
        let (sender, batches) = sync_channel(AHEAD);
        let reading = std::thread::Builder::new()
            .spawn_scoped(scope, move || read(path, table, sorted, counts, &sender))
            .map_err(|error| Missing::All(format!("no thread can be started: {error}")))?;
        for batch in batches {
            if let ControlFlow::Break(why) = batch.each(&mut take) {
                // The reader ends when it finds that nobody takes its next batch.
                return Ok(Some(why));
            }
        }
        let fault = |_| Err(Missing::All("this is a fault of stage2-launch; report it".into()));
        reading.join().unwrap_or_else(fault).map(|()| None)
    })
}

fn read(
    path: &Path,
    table: &Table,
    sorted: bool,
    counts: &mut Counts,
    sender: &SyncSender<Batch>,
) -> Result<(), Missing> {
    let database = Database::open(path).map_err(|why| Missing::All(why.to_string()))?;
    if sorted {
        // Sorting copies every row before the first comes: rows that share their bytes fill the disk.
        let whole = database.rows(table, &COLUMNS, FILTER, |_| ());
        whole.map_err(|error| Missing::Rest(error.to_string()))?;
    }
    let order = if sorted { " ORDER BY start, rowid" } else { "" };
    let mut batch = Batch::default();
    let all = database.rows_until(table, &COLUMNS, &format!("{FILTER}{order}"), |row| {
        counts.nvtx_ranges += 1;
        match batch.push(row) {
            Some(crosses_threads) => counts.cross_thread_ranges += u64::from(crosses_threads),
            None => counts.odd_rows += 1,
        }
        if batch.rows.len() < ROWS && batch.texts.len() < BYTES {
            return ControlFlow::Continue(());
        }
        match sender.send(std::mem::take(&mut batch)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    // What came before an error counts.
    let _ = sender.send(batch);
    all.map(|_| ()).map_err(|error| Missing::Rest(error.to_string()))
}

#[derive(Default)]
struct Batch {
    /// The name of a range is so many bytes of the texts.
    rows: Vec<Occurrence<usize>>,
    texts: Vec<u8>,
}

impl Batch {
    /// Adds a row; nothing where it is odd, else whether another thread ended the range than the one
    /// that started it.
    fn push(&mut self, row: &Row<'_>) -> Option<bool> {
        let (span, thread) = (span(row)?, integer(row, 3).unwrap_or(0));
        let name = match (row.get_ref(6), integer(row, 5)) {
            (Ok(ValueRef::Text(text)), _) => {
                let text = text.get(..LONGEST).unwrap_or(text);
                self.texts.extend_from_slice(text);
                Name::Text(text.len())
            }
            (_, Some(id)) => Name::Registered(id),
            _ => Name::None,
        };
        let (kind, domain) = (integer(row, 2), integer(row, 4).unwrap_or(0));
        let start_end = kind == Some(START_END);
        self.rows.push(Occurrence { span, thread, domain, start_end, name });
        let ended_by = integer(row, 7).filter(|_| kind != Some(PUSH_POP));
        Some(ended_by.is_some_and(|other| other != thread))
    }

    fn each<B>(
        &self,
        take: &mut impl FnMut(Occurrence<&[u8]>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut texts = self.texts.as_slice();
        for &Occurrence { name, span, thread, domain, start_end } in &self.rows {
            let name = name.map(|len| {
                let (text, rest) = texts.split_at_checked(len).unwrap_or_default();
                texts = rest;
                text
            });
            take(Occurrence { span, thread, domain, start_end, name })?;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    const SCHEMA: &str = "
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
            globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);";

    /// More rows than are read ahead, the last ones first; those of every third have a name by
    /// number, of every third a text, some of them long.
    const MANY: usize = ROWS * (AHEAD + 4);

    fn name_of(row: usize) -> String {
        format!("range {row} {}", "x".repeat(if row.is_multiple_of(999) { BYTES / 3 } else { 0 }))
    }

    fn file(dir: &Path) -> std::path::PathBuf {
        let rows = (0..MANY).rev().map(|row| {
            let (text, id) = match row % 3 {
                0 => (format!("'{}'", name_of(row)), "10".to_owned()),
                1 => ("NULL".to_owned(), row.to_string()),
                _ => ("NULL".to_owned(), "NULL".to_owned()),
            };
            format!("({row}, {}, 59, {text}, 7, NULL, {id}, 3)", row + 5)
        });
        let rows: Vec<String> = rows.collect();
        let path = dir.join("made.sqlite");
        let db = Connection::open(&path).expect("file");
        let rows = format!("INSERT INTO NVTX_EVENTS VALUES {};", rows.join(", "));
        db.execute_batch(&format!("BEGIN; {SCHEMA} {rows} COMMIT;")).expect("rows");
        path
    }

    fn seen<B>(
        path: &Path,
        sorted: bool,
        take: impl FnMut(Occurrence<&[u8]>) -> ControlFlow<B>,
    ) -> Result<Option<B>, Missing> {
        let database = Database::open(path).expect("a database");
        each(
            path,
            &table(&database).expect("tables").expect("the table"),
            sorted,
            &mut Counts::default(),
            take,
        )
    }

    #[test]
    fn every_row_comes_once_in_its_order_with_its_own_name() {
        let dir = tempfile::tempdir().expect("folder");
        let path = file(dir.path());
        for sorted in [false, true] {
            let mut next = 0;
            let all = seen(&path, sorted, |row| {
                let number = if sorted { next } else { MANY - 1 - next };
                next += 1;
                let text = name_of(number);
                let name = match number % 3 {
                    0 => Name::Text(text.as_bytes().get(..LONGEST).unwrap_or(text.as_bytes())),
                    1 => Name::Registered(number as i64),
                    _ => Name::None,
                };
                let span = (number as i64, number as i64 + 5);
                let start_end = false;
                assert_eq!(row, Occurrence { span, thread: 7, domain: 3, start_end, name });
                ControlFlow::<()>::Continue(())
            });
            assert!(matches!(all, Ok(None)), "{all:?}");
            assert_eq!(next, MANY);
        }
    }

    #[test]
    fn whoever_has_enough_gets_no_more_and_waits_for_nobody() {
        let dir = tempfile::tempdir().expect("folder");
        let path = file(dir.path());
        let mut taken = 0;
        let broken = seen(&path, false, |_| {
            taken += 1;
            if taken == 10 { ControlFlow::Break("enough") } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(broken, Ok(Some("enough"))), "{broken:?}");
        assert_eq!(taken, 10);
    }

    #[test]
    fn rows_before_the_damage_come_and_a_file_that_is_gone_is_told() {
        let dir = tempfile::tempdir().expect("folder");
        let path = file(dir.path());
        let database = Database::open(&path).expect("a database");
        let table = table(&database).expect("tables").expect("the table");
        let mut taken = 0;
        let mut count = |_: Occurrence<&[u8]>| {
            taken += 1;
            ControlFlow::<()>::Continue(())
        };
        let whole = std::fs::read(&path).expect("the file");
        let cut = dir.path().join("cut.sqlite");
        std::fs::write(&cut, &whole[..whole.len() / 2]).expect("half of it");
        let mut counts = Counts::default();
        let rest = each(&cut, &table, false, &mut counts, &mut count);
        assert!(matches!(rest, Err(Missing::Rest(_))), "{rest:?}");
        let gone = each(&dir.path().join("gone.sqlite"), &table, false, &mut counts, &mut count);
        assert!(matches!(gone, Err(Missing::All(_))), "{gone:?}");
        assert!((1..MANY).contains(&taken), "{taken} of {MANY}");
    }
}
