//! How much may be read of a SQLite file: what a sound file of its size can hold, and no more.
//!
//! A file may say that many rows share a page or the text behind it. A small file then holds billions of
//! rows, or terabytes of texts, and SQLite reads them all. A sound file has bytes of its own for each.

use std::cell::Cell;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, ffi};

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
#[derive(Debug)]
pub(super) struct Budget {
    file_bytes: u64,
    left: Cell<u64>,
}

impl Budget {
    /// What a file of this length can hold, `times` over.
    pub(super) fn of(file_bytes: u64, times: u64) -> Self {
        let all = file_bytes.saturating_mul(TIMES).saturating_add(AT_LEAST_BYTES);
        Budget { file_bytes, left: Cell::new(all.saturating_mul(times)) }
    }

    /// Takes a row with its first `columns` values out of the budget.
    ///
    /// # Errors
    /// More was read than the file can hold.
    pub(super) fn take(&self, row: &Row<'_>, columns: usize) -> rusqlite::Result<()> {
        let length = |column| match row.get_ref(column) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes.len() as u64,
            _ => 0,
        };
        let bytes = (0..columns).map(length).fold(ROW_BYTES, u64::saturating_add);
        match self.left.get().checked_sub(bytes) {
            Some(left) => self.left.set(left),
            None => {
                return Err(corrupt(format!(
                    "it is damaged: more rows and texts were read than {} bytes can hold, so that some \
                 share their bytes",
                    self.file_bytes
                )));
            }
        }
        Ok(())
    }
}

/// Has every statement of the connection end with an error, once all of them together have taken more
/// steps than a file of this length is worth.
pub(super) fn limit_steps(connection: &Connection, file_bytes: u64) {
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
pub(super) fn explained(error: rusqlite::Error) -> rusqlite::Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => corrupt(
            "reading it takes more work than a file of its size is worth: it is damaged, or it lacks \
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
