//! Changes to a SQLite file: cells, rows, columns and whole tables, by SQL, and its bytes.

use std::path::Path;

use fastrand::Rng;
use rusqlite::Connection;

use crate::scratch;

/// Changes what the tables hold, or bytes.
pub fn sqlite(input: &mut Vec<u8>, random: &mut Rng) {
    if random.u8(..4) == 0 {
        return super::bytes(input, random);
    }
    let file = scratch::file("mutated.sqlite", input);
    if change(&file.path, random).is_err() {
        return super::bytes(input, random);
    }
    if let Ok(bytes) = std::fs::read(&file.path) {
        *input = bytes;
    }
}

fn change(path: &Path, random: &mut Rng) -> rusqlite::Result<()> {
    let database = Connection::open(path)?;
    database.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA secure_delete = ON;
         PRAGMA trusted_schema = OFF;",
    )?;
    let tables = words(&database, "SELECT name FROM sqlite_master WHERE type = 'table'")?;
    for _ in 0..random.usize(1..=3) {
        let Some(table) = random.choice(&tables) else { return Ok(()) };
        let columns =
            words(&database, &format!("SELECT name FROM pragma_table_info({})", quoted(table)))?;
        let Some(column) = random.choice(&columns) else { return Ok(()) };
        let (table, column) = (quoted(table), quoted(column));
        let bits = random.u8(..8);
        let row = format!(
            "rowid IN (SELECT rowid FROM {table} LIMIT 1 OFFSET {})",
            random.usize(..1 << bits)
        );
        let statement = match random.u8(..12) {
            0 => format!("DELETE FROM {table} WHERE {row}"),
            1 => format!("INSERT INTO {table} SELECT * FROM {table} LIMIT 40"),
            2 => format!("ALTER TABLE {table} DROP COLUMN {column}"),
            3 => format!("ALTER TABLE {table} RENAME COLUMN {column} TO \"other\""),
            4 if random.u8(..4) == 0 => format!("DROP TABLE {table}"),
            5 => {
                // Without its key, and with the types that the values have.
                format!(
                    "CREATE TABLE t AS SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE t RENAME TO {table}"
                )
            }
            6 => {
                let other =
                    random.choice(&columns).map_or_else(|| column.clone(), |name| quoted(name));
                format!("UPDATE OR IGNORE {table} SET {column} = {other} WHERE {row}")
            }
            7 => format!(
                "UPDATE OR IGNORE {table} SET {column} = {column} + {} ",
                super::number(random)
            ),
            _ => format!("UPDATE OR IGNORE {table} SET {column} = {} WHERE {row}", value(random)),
        };
        // What one table refuses is no reason to leave the others.
        let _ = database.execute_batch(&statement);
    }
    Ok(())
}

fn value(random: &mut Rng) -> String {
    match random.u8(..8) {
        0 => "NULL".to_owned(),
        1 => "x'ff00'".to_owned(),
        2 => random.choice(["1.5", "1e300", "-1e-300", "9e999"]).unwrap_or_default().to_owned(),
        3 => format!(
            "'{}'",
            random.choice(super::TEXTS).unwrap_or_default().replace(['\'', '\0'], "")
        ),
        4 => format!("printf('%.{}c', 'x')", random.usize(1..5000)),
        _ => super::number(random).to_string(),
    }
}

/// A name in an SQL text.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn words(database: &Connection, query: &str) -> rusqlite::Result<Vec<String>> {
    database.prepare(query)?.query_map([], |row| row.get(0))?.collect()
}
