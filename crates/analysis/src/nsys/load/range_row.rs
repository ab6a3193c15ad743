//! A row of the NVTX table -> the range that it is about, as both readers of that table need it.

use std::borrow::Cow;

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::database::{Database, integer};
use super::spans::OPEN;

/// Rows of ranges.
pub(super) const FILTER: &str = "WHERE eventType IN (59, 60, 70, 71)";
/// The columns that are read.
pub(super) const COLUMNS: [&str; 8] =
    ["start", "end", "eventType", "globalTid", "domainId", "textId", "text", "endGlobalTid"];
/// Number of the kind of rows of push/pop ranges.
const PUSH_POP: i64 = 59;

/// A name as the file has it; `T` is what the text in the row is held as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name<T> {
    /// In the row.
    Text(T),
    /// By its number in the table of strings.
    Registered(i64),
    None,
}

/// A range that was open once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence<'t> {
    /// Start and end, ns; [`OPEN`]: it has no end.
    pub(super) span: (i64, i64),
    pub(super) thread: i64,
    pub(super) domain: i64,
    pub(super) name: Name<&'t [u8]>,
}

impl<'t> Occurrence<'t> {
    /// The range of a row; nothing where its times are impossible.
    pub(super) fn of(row: &'t Row<'_>) -> Option<Self> {
        Some(Self { span: span(row)?, thread: thread(row), domain: domain(row), name: name(row) })
    }
}

/// Start and end of a range ([`OPEN`]: it has none), ns; nothing where they are impossible.
pub(super) fn span(row: &Row<'_>) -> Option<(i64, i64)> {
    let start = integer(row, 0)?;
    match row.get_ref(1) {
        Ok(ValueRef::Null) => Some((start, OPEN)),
        Ok(ValueRef::Integer(end)) if end >= start => Some((start, end)),
        _ => None,
    }
}

/// The global number of the thread that opened a range.
pub(super) fn thread(row: &Row<'_>) -> i64 {
    integer(row, 3).unwrap_or(0)
}

/// The number of its domain; 0: the default one.
pub(super) fn domain(row: &Row<'_>) -> i64 {
    integer(row, 4).unwrap_or(0)
}

/// Its name: registered strings are numbers, others stand in the row.
pub(super) fn name<'t>(row: &'t Row<'_>) -> Name<&'t [u8]> {
    match (row.get_ref(6), integer(row, 5)) {
        (Ok(ValueRef::Text(text)), _) => Name::Text(text),
        (_, Some(id)) => Name::Registered(id),
        _ => Name::None,
    }
}

/// Whether another thread ended the range than the one that started it.
pub(super) fn crosses_threads(row: &Row<'_>) -> bool {
    integer(row, 2) != Some(PUSH_POP) && integer(row, 7).is_some_and(|other| other != thread(row))
}

impl<T> Name<T> {
    /// The same, with its text held as something else.
    pub(super) fn map<U>(self, held: impl FnOnce(T) -> U) -> Name<U> {
        match self {
            Name::Text(text) => Name::Text(held(text)),
            Name::Registered(id) => Name::Registered(id),
            Name::None => Name::None,
        }
    }
}

impl<T: AsRef<[u8]>> Name<T> {
    /// What it says.
    pub(super) fn bytes(&self, database: &Database) -> Option<Cow<'_, [u8]>> {
        match self {
            Name::Text(text) => Some(Cow::Borrowed(text.as_ref())),
            Name::Registered(id) => Some(Cow::Owned(database.string(*id)?.into_bytes())),
            Name::None => None,
        }
    }
}
