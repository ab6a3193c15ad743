//! The recorded nsys export of the tests -> one of any size, for measuring what reads such files.
//!
//! `cargo run --release -p stage2-launch --example nsys_generate -- FILE [KERNELS]` repeats the eight
//! decode steps of the recording, one after the other, until FILE (new) holds KERNELS (2 million),
//! with 3.5 API calls and 8 NVTX ranges for each kernel. Tables, columns, names, shapes and times
//! are those of the recording; the additional ranges lie around the launches, eight deep.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rusqlite::Connection;

/// Kernels of the recording.
const KERNELS: i64 = 5_552;
/// A little longer than the recording, ns.
const PERIOD_NS: i64 = 530_000_000;
/// Correlation ids of the recording and of the calls that are there twice: without gaps, so that
/// no call seems to be lost.
const CORRELATIONS: i64 = 152_486;
/// API calls of the recording that are there twice, so that there are 3.5 for each kernel.
const TWICE: &str = "rowid % 5 < 3";
/// Ranges around each launch.
const DEPTH: i64 = 8;
/// Names of ranges, at each depth.
const NAMES: i64 = 125;
/// Identifier of the first of them in `StringIds`.
const FIRST_NAME: i64 = 1_000_000;

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args_os().skip(1);
    let file = PathBuf::from(words.next().context("give FILE [KERNELS]")?);
    let kernels: i64 = match words.next() {
        Some(word) => word.to_string_lossy().parse().context("KERNELS is no number")?,
        None => 2_000_000,
    };
    unpack(&file)?;
    let db = Connection::open(&file)?;
    db.execute_batch("PRAGMA journal_mode = off; PRAGMA synchronous = off; BEGIN")?;
    let copies = (kernels.max(1) - 1) / KERNELS;
    around_launches(&db)?;
    let (calls, half) = ("CUPTI_ACTIVITY_KIND_RUNTIME", format!("+ {}", CORRELATIONS / 2));
    insert(&db, calls, &[("correlationId", &half)], calls, TWICE)?;
    for table in ["CUPTI_ACTIVITY_KIND_KERNEL", calls, "NVTX_EVENTS"] {
        repeat(&db, table, copies)?;
        let rows: i64 = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0))?;
        println!("{table}: {rows} rows");
    }
    db.execute_batch("COMMIT")?;
    Ok(())
}

fn unpack(file: &Path) -> anyhow::Result<()> {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/nsys/decode.sqlite.xz");
    let mut packed = BufReader::new(File::open(recording).context(recording)?);
    let mut new = File::create_new(file).with_context(|| file.display().to_string())?;
    lzma_rs::xz_decompress(&mut packed, &mut new).context(recording)
}

/// Ranges around each launch of a kernel, the outermost first.
fn around_launches(db: &Connection) -> anyhow::Result<()> {
    let mut name = db.prepare("INSERT INTO StringIds (id, value) VALUES (?1, ?2)")?;
    for at in 0..DEPTH * NAMES {
        name.execute((FIRST_NAME + at, format!("module.{}.{}", at / NAMES, at % NAMES)))?;
    }
    let ranges = format!(
        "WITH RECURSIVE depths(depth) AS (VALUES (0) UNION ALL
             SELECT depth + 1 FROM depths WHERE depth + 1 < {DEPTH}),
         launches AS (SELECT min(r.start) AS start, max(r.end) AS end, r.globalTid AS thread,
             row_number() OVER (ORDER BY min(r.start)) AS number
             FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
             USING (correlationId) GROUP BY correlationId)
         INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, domainId)
         SELECT start - {DEPTH} + depth, end + {DEPTH} - depth, 59, thread,
             {FIRST_NAME} + depth * {NAMES} + number % {NAMES}, 0
         FROM launches, depths ORDER BY launches.start, depth"
    );
    db.execute(&ranges, [])?;
    Ok(())
}

/// The rows of a table again, `copies` times, each time later.
fn repeat(db: &Connection, table: &str, copies: i64) -> anyhow::Result<()> {
    let rows: i64 = db.query_row(&format!("SELECT max(rowid) FROM {table}"), [], |r| r.get(0))?;
    let later = format!("+ {PERIOD_NS} * copy");
    let next = format!("+ {CORRELATIONS} * copy");
    let shifted = [
        ("start", later.as_str()),
        ("end", later.as_str()),
        ("correlationId", next.as_str()),
        ("gridId", next.as_str()),
    ];
    let from = format!(
        "(WITH RECURSIVE n(copy) AS (VALUES (1) UNION ALL
              SELECT copy + 1 FROM n WHERE copy < {copies}) SELECT copy FROM n)
         CROSS JOIN {table}"
    );
    insert(db, table, &shifted, &from, &format!("{table}.rowid <= {rows} AND copy <= {copies}"))
}

/// Inserts into `table` what `from` selects of it, with what `changed` adds to its columns.
fn insert(
    db: &Connection,
    table: &str,
    changed: &[(&str, &str)],
    from: &str,
    which: &str,
) -> anyhow::Result<()> {
    let mut columns = db.prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))?;
    let columns = columns.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let values = columns.iter().map(|column| {
        let change = changed.iter().find(|(name, _)| name == column);
        format!("\"{column}\" {}", change.map_or("", |(_, change)| change))
    });
    let values = values.collect::<Vec<_>>().join(", ");
    db.execute(&format!("INSERT INTO {table} SELECT {values} FROM {from} WHERE {which}"), [])?;
    Ok(())
}
