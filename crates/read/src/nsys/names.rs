//! The table of strings of an export: texts by their numbers, with or without a key.
//!
//! nsys makes the number the key of the table. Where a file lacks it, each search would go through the
//! whole table, so that 400,000 names take minutes: the table is read once instead, and the place of each
//! number is kept.

use std::cell::{OnceCell, RefCell};
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

use foldhash::HashMap;
use rusqlite::Connection;

use super::budget::{Budget, explained};
use super::table::{self, integer, text};

pub(super) const TABLE: &str = "StringIds";
/// Numbers that are kept where the table has no key, at some 35 bytes each.
const MAX_PLACES: usize = 4_000_000;
/// Names of the number of a row. The table may use one or two of them for columns of its own.
const ROW_NUMBERS: [&str; 3] = ["rowid", "_rowid_", "oid"];
/// How often the texts of a file may be read: a name is looked up again where too many were seen.
const TIMES: u64 = 16;

/// Finds texts in one database.
#[derive(Debug, Default)]
pub(super) struct Names {
    how: OnceCell<How>,
    budget: OnceCell<Budget>,
    wrong: RefCell<Option<String>>,
}

#[derive(Debug)]
enum How {
    /// There is no such table, or it cannot be read.
    No,
    /// Looked up by id, one query for each name: the table has a key.
    Key,
    /// By the number of the row, which has this name.
    Place { row: &'static str, of: HashMap<i64, i64> },
}

impl Names {
    /// The text of a number, in a file of `file_bytes`.
    pub(super) fn text(
        &self,
        connection: &Connection,
        file_bytes: u64,
        number: i64,
    ) -> Option<String> {
        let how = self.how.get_or_init(|| {
            how(connection, file_bytes, MAX_PLACES, |why| self.complain(why)).unwrap_or_else(
                |error| {
                    self.complain(error.to_string());
                    How::No
                },
            )
        });
        let (column, key) = match how {
            How::No => return None,
            How::Key => ("id", number),
            How::Place { row, of } => (*row, *of.get(&number)?),
        };
        let query = format!("SELECT value FROM {TABLE} WHERE {column} = ?1");
        let budget = self.budget.get_or_init(|| Budget::of(file_bytes, TIMES));
        let read = || -> rusqlite::Result<Option<String>> {
            let mut statement = connection.prepare_cached(&query)?;
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

    /// What was wrong with the table, if something was: some names are missing.
    pub(super) fn wrong(&self) -> Option<String> {
        self.wrong.borrow().clone()
    }

    fn complain(&self, why: String) {
        self.wrong.borrow_mut().get_or_insert(why);
    }
}

/// How names are found. Where more than `most` have to be kept, the others have none.
fn how(
    connection: &Connection,
    file_bytes: u64,
    most: usize,
    mut complain: impl FnMut(String),
) -> rusqlite::Result<How> {
    let Some(table) = table::Table::of(connection, TABLE)? else { return Ok(How::No) };
    let missing = table.lacks(&["id", "value"]);
    if !missing.is_empty() {
        complain(format!("it has no column {}", missing.join(", ")));
        return Ok(How::No);
    }
    let plan = format!("EXPLAIN QUERY PLAN SELECT value FROM {TABLE} WHERE id = ?1");
    let plan: String = connection.query_row(&plan, [0], |row| row.get("detail"))?;
    if plan.starts_with("SEARCH") {
        return Ok(How::Key);
    }
    let Some(row) = ROW_NUMBERS.into_iter().find(|name| !table.has(name)) else {
        complain("its numbers have no key, and neither have its rows".to_owned());
        return Ok(How::No);
    };
    let mut of = HashMap::default();
    let mut beyond = 0_u64;
    // Rows without a number of their own cannot be read so, and the error says that.
    let query = format!("SELECT id, {row} FROM {TABLE}");
    let read = table::each(connection, file_bytes, &query, 2, |found| {
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
        complain(error.to_string());
    }
    if beyond > 0 {
        complain(format!(
            "it has no key, and {beyond} names beyond the first {most} were left out"
        ));
    }
    Ok(How::Place { row, of })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with the rows of `sql`.
    fn database(sql: &str) -> Connection {
        let made = Connection::open_in_memory().expect("a database");
        made.execute_batch(sql).expect("rows");
        made
    }

    const BYTES: u64 = 1 << 12;

    const ROWS: &str = "INSERT INTO StringIds VALUES (7, 'seven'), (3, 'three'), (7, 'other');";

    #[test]
    fn names_are_found_with_and_without_a_key() {
        for (table, is_key) in [
            ("CREATE TABLE StringIds (id INTEGER, value TEXT);", false),
            ("CREATE TABLE StringIds (id, value); CREATE INDEX i ON StringIds (id);", true),
        ] {
            let database = database(&format!("{table} {ROWS}"));
            let names = Names::default();
            let found = [7, 3, 4].map(|number| names.text(&database, BYTES, number));
            let expected = [Some("seven".to_owned()), Some("three".to_owned()), None];
            assert_eq!((found, names.wrong()), (expected, None), "{table}");
            assert_eq!(matches!(names.how.get(), Some(How::Key)), is_key, "{table}");
        }
        let key = "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
                   INSERT INTO StringIds VALUES (7, 'seven');";
        let names = Names::default();
        assert_eq!(names.text(&database(key), BYTES, 7), Some("seven".to_owned()));
        assert!(matches!(names.how.get(), Some(How::Key)));
    }

    #[test]
    fn a_column_may_have_the_name_of_the_number_of_a_row() {
        let database = database(
            "CREATE TABLE StringIds (id INTEGER, value TEXT, rowid TEXT);
             INSERT INTO StringIds VALUES (7, 'seven', 'x');",
        );
        assert_eq!(Names::default().text(&database, BYTES, 7), Some("seven".to_owned()));
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
            let names = Names::default();
            assert_eq!(names.text(&database(sql), BYTES, 7), None, "{sql}");
            let wrong = names.wrong();
            assert_eq!(wrong.is_some(), why.is_some(), "{sql}: {wrong:?}");
            assert!(wrong.is_none_or(|wrong| wrong.contains(why.unwrap_or_default())), "{sql}");
        }
    }

    #[test]
    fn names_beyond_what_is_kept_are_counted() {
        let database =
            database(&format!("CREATE TABLE StringIds (id INTEGER, value TEXT); {ROWS}"));
        let mut said = Vec::new();
        let found = how(&database, BYTES, 1, |why| said.push(why)).expect("a table");
        assert!(matches!(found, How::Place { of, .. } if of.len() == 1));
        assert!(said.concat().contains("1 names beyond the first 1"), "{said:?}");
    }
}
