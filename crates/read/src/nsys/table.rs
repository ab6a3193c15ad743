//! A real table of a SQLite file, never a view or a virtual table -> its rows, within a budget.

use std::collections::HashSet;
use std::ops::ControlFlow;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use stage2_contract::text::visible;

use super::budget::{Budget, explained};

/// Bytes of a text that is shown and compared with nothing.
const MAX_SHORT_BYTES: usize = 1024;

/// A table, and the columns that it has: they differ between versions of nsys.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    columns: HashSet<String>,
}

impl Table {
    /// The table of that name, where there is one.
    ///
    /// # Errors
    /// As of SQLite.
    pub(super) fn of(
        connection: &Connection,
        name: &'static str,
    ) -> rusqlite::Result<Option<Self>> {
        let real = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1 \
                    AND sql NOT LIKE 'create virtual%'";
        let found: i64 = connection.query_row(real, [name], |row| row.get(0))?;
        if found == 0 {
            return Ok(None);
        }
        let mut columns = HashSet::new();
        connection.pragma(None, "table_info", name, |row| {
            columns.insert(row.get::<_, String>("name")?);
            Ok(())
        })?;
        Ok(Some(Table { name, columns }))
    }

    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.contains(column)
    }

    pub(super) fn lacks<'a>(&self, columns: &[&'a str]) -> Vec<&'a str> {
        columns.iter().copied().filter(|column| !self.has(column)).collect()
    }

    /// How many rows it has, about: nsys numbers them from 1. Nothing where its rows have no number.
    pub(super) fn rows_about(&self, connection: &Connection) -> Option<u64> {
        let query = format!("SELECT max(rowid) FROM \"{}\"", self.name);
        let found = connection.query_row(&query, [], |row| row.get::<_, Option<i64>>(0));
        u64::try_from(found.ok()??).ok()
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

/// Hands the rows of a query to `take` until it breaks off, and gives what it broke off with; no more
/// of them than a file of `file_bytes` can hold.
///
/// # Errors
/// As of SQLite, and where there are more.
pub(super) fn each<B>(
    connection: &Connection,
    file_bytes: u64,
    query: &str,
    columns: usize,
    mut take: impl FnMut(&Row<'_>) -> ControlFlow<B>,
) -> rusqlite::Result<Option<B>> {
    let budget = Budget::of(file_bytes, 1);
    let mut statement = connection.prepare(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next().map_err(explained)? {
        budget.take(row, columns)?;
        if let ControlFlow::Break(why) = take(row) {
            return Ok(Some(why));
        }
    }
    Ok(None)
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

/// A text; bytes that are no UTF-8 are replaced.
pub(super) fn text(row: &Row<'_>, column: usize) -> Option<String> {
    match row.get_ref(column) {
        Ok(ValueRef::Text(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}
