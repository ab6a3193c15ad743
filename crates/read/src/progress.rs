//! How far the reading of large files is, for whoever asked to be told.
//!
//! Readers say what they read and how much of it is done; this crate knows no terminal, no language and
//! no clock. One observer for the process, as with a logger: a reader deep in a join need not know who
//! watches. Without one, a reader pays for an addition.

use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;

use stage2_contract::text::visible_path;

/// What a number of a [`Progress`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of a file, as it lies on the disk.
    Bytes,
    /// Rows of a table.
    Rows,
}

/// How far one reading is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The file, and the table of it where it has several; visible text.
    pub what: String,
    /// How much was read.
    pub done: u64,
    /// How much there is; nothing where that is not known.
    pub total: Option<u64>,
    /// What these count.
    pub unit: Unit,
}

type Observer = Box<dyn Fn(&Progress) + Send + Sync>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Has `observer` told of every reading from now on, from the thread that reads, many times a second.
/// The first observer counts; false for a further one.
pub fn observe(observer: impl Fn(&Progress) + Send + Sync + 'static) -> bool {
    OBSERVER.set(Box::new(observer)).is_ok()
}

/// Bytes, and rows, between two calls of the observer: about a millisecond.
const BYTES_BETWEEN: u64 = 1 << 20;
const ROWS_BETWEEN: u64 = 1 << 12;

/// Counts what one reader has read.
#[derive(Debug)]
pub struct Meter {
    progress: Progress,
    /// The count at which the observer is called next.
    next: u64,
}

impl Meter {
    /// For the bytes of a file.
    pub fn of_file(path: &Path, bytes: Option<u64>) -> Self {
        let progress =
            Progress { what: visible_path(path), done: 0, total: bytes, unit: Unit::Bytes };
        Meter { progress, next: BYTES_BETWEEN }
    }

    /// For the rows of a table.
    pub fn of_table(path: &Path, table: &str, rows: Option<u64>) -> Self {
        let what = format!("{}, table {table}", visible_path(path));
        let progress = Progress { what, done: 0, total: rows, unit: Unit::Rows };
        Meter { progress, next: ROWS_BETWEEN }
    }

    /// So much more was read.
    pub fn advance(&mut self, by: u64) {
        self.progress.done = self.progress.done.saturating_add(by);
        if self.progress.done >= self.next {
            self.tell();
        }
    }

    #[cold]
    fn tell(&mut self) {
        let between = match self.progress.unit {
            Unit::Bytes => BYTES_BETWEEN,
            Unit::Rows => ROWS_BETWEEN,
        };
        self.next = self.progress.done.saturating_add(between);
        if let Some(observer) = OBSERVER.get() {
            observer(&self.progress);
        }
    }
}

/// A file that is read from its start to its end, with a meter.
#[derive(Debug)]
pub struct Metered<R> {
    inner: R,
    meter: Meter,
}

impl Metered<std::fs::File> {
    /// The file, which lies at `path`.
    pub fn of(file: std::fs::File, path: &Path) -> Self {
        let bytes = file.metadata().ok().map(|found| found.len());
        Metered { inner: file, meter: Meter::of_file(path, bytes) }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.meter.advance(read as u64);
        Ok(read)
    }
}
