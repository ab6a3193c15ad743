//! The table of NVTX events -> its rows, in batches, read on a thread of their own.
//!
//! Of what a large export takes, half is SQLite's: reading goes on while the batch before is walked
//! through.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};

use rusqlite::Row;

use super::super::database::{Database, Table};
use super::super::domains::TABLE;
use super::super::range_row::{COLUMNS, FILTER, Name, Occurrence};

/// Rows of a batch, at most, and bytes of its texts before it is handed over.
const ROWS: usize = 4096;
const BYTES: usize = 1 << 20;
/// Batches that are read ahead.
const AHEAD: usize = 4;

/// Why rows are missing.
#[derive(Debug)]
pub(super) enum Missing {
    /// All of them: nothing could be read.
    All(String),
    /// Those behind the ones that were handed over.
    Rest(String),
}

/// The table, where it can be used.
pub(super) fn table(database: &Database) -> Option<Table> {
    let table = database.table(TABLE).ok().flatten()?;
    (table.has("eventType") && table.has("start")).then_some(table)
}

/// Hands every row of the file that is not odd to `take`, as they come or `sorted` by their start, until it breaks
/// off; gives what it broke off with.
pub(super) fn each<B>(
    path: &Path,
    table: &Table,
    sorted: bool,
    mut take: impl FnMut(Occurrence<'_>) -> ControlFlow<B>,
) -> Result<Option<B>, Missing> {
    std::thread::scope(|scope| {
        let (sender, batches) = sync_channel(AHEAD);
        let reading = std::thread::Builder::new()
            .spawn_scoped(scope, move || read(path, table, sorted, &sender))
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
    sender: &SyncSender<Batch>,
) -> Result<(), Missing> {
    let database = Database::open(path).map_err(|why| Missing::All(why.to_string()))?;
    let order = if sorted { " ORDER BY start, rowid" } else { "" };
    let mut batch = Batch::default();
    let all = database.rows_until(table, &COLUMNS, &format!("{FILTER}{order}"), |row| {
        batch.push(row);
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

/// Some rows, and their texts one behind the other.
#[derive(Default)]
struct Batch {
    rows: Vec<Held>,
    texts: Vec<u8>,
}

/// A range whose name is so many bytes of the texts.
struct Held {
    span: (i64, i64),
    thread: i64,
    domain: i64,
    name: Name<usize>,
}

impl Batch {
    fn push(&mut self, row: &Row<'_>) {
        // Odd rows are left out: the tables count them.
        let Some(Occurrence { span, thread, domain, name }) = Occurrence::of(row) else { return };
        let name = name.map(|text| {
            self.texts.extend_from_slice(text);
            text.len()
        });
        self.rows.push(Held { span, thread, domain, name });
    }

    fn each<B>(&self, take: &mut impl FnMut(Occurrence<'_>) -> ControlFlow<B>) -> ControlFlow<B> {
        let mut texts = self.texts.as_slice();
        for &Held { span, thread, domain, name } in &self.rows {
            let name = name.map(|len| {
                let (text, rest) = texts.split_at_checked(len).unwrap_or_default();
                texts = rest;
                text
            });
            take(Occurrence { span, thread, domain, name })?;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::export;
    use super::*;

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
        export(dir, &format!("INSERT INTO NVTX_EVENTS VALUES {};", rows.join(", ")))
    }

    fn seen<B>(
        path: &Path,
        sorted: bool,
        take: impl FnMut(Occurrence<'_>) -> ControlFlow<B>,
    ) -> Result<Option<B>, Missing> {
        let database = Database::open(path).expect("a database");
        each(path, &table(&database).expect("the table"), sorted, take)
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
                    0 => Name::Text(text.as_bytes()),
                    1 => Name::Registered(number as i64),
                    _ => Name::None,
                };
                let span = (number as i64, number as i64 + 5);
                assert_eq!(row, Occurrence { span, thread: 7, domain: 3, name });
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
        let table = table(&database).expect("the table");
        let mut taken = 0;
        let mut count = |_: Occurrence<'_>| {
            taken += 1;
            ControlFlow::<()>::Continue(())
        };
        let whole = std::fs::read(&path).expect("the file");
        let cut = dir.path().join("cut.sqlite");
        std::fs::write(&cut, &whole[..whole.len() / 2]).expect("half of it");
        let rest = each(&cut, &table, false, &mut count);
        assert!(matches!(rest, Err(Missing::Rest(_))), "{rest:?}");
        let gone = each(&dir.path().join("gone.sqlite"), &table, false, &mut count);
        assert!(matches!(gone, Err(Missing::All(_))), "{gone:?}");
        assert!((1..MANY).contains(&taken), "{taken} of {MANY}");
    }
}
