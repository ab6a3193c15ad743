//! Exports of nsys that are made to take memory: each fills another table of the reader.
//!
//! One test function that runs by itself: the counts are those of the process. What a file makes the
//! reader hold has to stay below one bound for all of them, and a finding has to say what was left out.

#[allow(dead_code, unreachable_pub, reason = "other tests use the rest")]
#[path = "../../fuzz/src/memory_count.rs"]
mod memory_count;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memory_count::peak_of;
use rusqlite::Connection;
use stage2_read::nsys::{Tables, sqlite};

const MIB: usize = 1 << 20;
/// What docs/limits.md promises for any export.
const MOST_BYTES: usize = 512 * MIB;

const SCHEMA: &str = "
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
        correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER,
        mangledName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER,
        blockX INTEGER, blockY INTEGER, blockZ INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, globalTid INTEGER,
        correlationId INTEGER);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
        globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
    INSERT INTO StringIds VALUES (1, '_Z1av');
";

/// A file, and what its reading has to say.
struct Case {
    what: &'static str,
    /// Statements that fill it.
    sql: String,
    /// Part of a finding; empty: nothing is wrong with the file.
    said: &'static str,
}

/// Rows of `values`, an expression of `i`, in a table.
fn rows(table: &str, count: usize, values: &str) -> String {
    format!(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT {count})
         INSERT INTO {table} SELECT {values} FROM n;"
    )
}

fn kernels(count: usize, of_each: [&str; 4]) -> String {
    kernels_on("0", count, of_each)
}

fn kernels_on(device: &str, count: usize, of_each: [&str; 4]) -> String {
    let [correlation, process, name, grid] = of_each;
    let values = format!(
        "i, i + 5, {device}, {correlation}, {process}, NULL, NULL, {name}, {grid}, 1, 1, 1, 1, 1"
    );
    rows("CUPTI_ACTIVITY_KIND_KERNEL", count, &values)
}

fn ranges(count: usize, [start, end, text, thread, domain]: [&str; 5]) -> String {
    let values = format!("{start}, {end}, 59, {text}, {thread}, NULL, NULL, {domain}");
    rows("NVTX_EVENTS", count, &values)
}

/// Files that are small, and take many times their size where names are kept for each process.
fn small() -> Vec<Case> {
    let processes = "(i % 1000 + 1) << 24";
    vec![
        Case {
            what: "ranges of long names in a thousand processes",
            sql: ranges(
                8_000,
                ["i", "i + 1", "printf('%d', i) || printf('%.*c', 1000, 'x')", processes, "0"],
            ),
            said: "",
        },
        Case {
            what: "kernels of long names in hundreds of processes",
            sql: rows("StringIds", 8, "i + 10, printf('%d', i) || printf('%.*c', 1000000, 'x')")
                + &kernels(2_400, ["i", "(i % 300 + 1) << 24", "i / 300 + 10", "1"]),
            said: "(other kernels)",
        },
        Case {
            what: "domains of long names",
            sql: rows(
                "NVTX_EVENTS",
                20_000,
                "i, NULL, 75, printf('%d', i) || printf('%.*c', 4000, 'x'), 1 << 24, NULL, NULL, i + 1",
            ),
            said: "10000 names of NVTX domains",
        },
    ]
}

/// Files that pass the limits of the reader by themselves.
fn large() -> Vec<Case> {
    let process = "1 << 24";
    vec![
        Case {
            what: "kinds of kernels",
            sql: kernels(4_000_000, ["i", process, "1", "i"]),
            said: "(other kernels)",
        },
        Case {
            what: "names of kernels",
            sql: rows("StringIds", 200_000, "i + 10, printf('%d', i) || printf('%.*c', 2000, 'x')")
                + &kernels(200_000, ["i", process, "i + 10", "1"]),
            said: "names of kernels",
        },
        Case {
            what: "kernels in a thousand processes",
            sql: kernels(8_000_000, ["i", "(i % 1000 + 1) << 24", "1", "i / 1000"]),
            said: "(other kernels)",
        },
        Case {
            what: "kernels in ranges",
            sql: kernels(3_000_000, ["i", process, "1", "i % 1000"])
                + &rows("CUPTI_ACTIVITY_KIND_RUNTIME", 3_000_000, "i * 10 + 1, (1 << 24) + 1, i")
                + &ranges(9_000, ["i * 3333", "i * 3333 + 3333", "'r' || i", "(1 << 24) + 1", "0"]),
            said: "pieces of GPU work",
        },
        Case {
            what: "kernels in ranges of a thousand processes",
            sql: kernels(7_000_000, ["i", "(i % 1000 + 1) << 24", "1", "1"])
                + &rows(
                    "CUPTI_ACTIVITY_KIND_RUNTIME",
                    7_000_000,
                    "i * 10 + 1, ((i % 1000 + 1) << 24) + 1, i",
                )
                + &ranges(
                    7_000_000,
                    [
                        "i * 10",
                        "i * 10 + 9",
                        "'r' || i / 1000 % 50",
                        "((i % 1000 + 1) << 24) + 1",
                        "0",
                    ],
                ),
            said: "lost records is not known",
        },
        Case {
            what: "collectives of a thousand processes",
            sql: "INSERT INTO StringIds VALUES (2, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL');"
                .to_owned()
                + &kernels(8_000_000, ["i", "(i % 1000 + 1) << 24", "2", "1"]),
            said: "were not placed in ranges",
        },
        Case {
            what: "processes",
            sql: kernels(6_000_000, ["i", "(i + 1) << 24", "1", "1"]),
            said: "processes of",
        },
        Case {
            what: "threads and blocks of calls",
            sql: kernels(4_000_000, ["i", process, "1", "1"])
                + &rows(
                    "CUPTI_ACTIVITY_KIND_RUNTIME",
                    4_000_000,
                    "i, (1 << 24) + i % 16000000, i * 1024",
                ),
            said: "lost records is not known",
        },
        Case {
            what: "ranges that begin at once",
            sql: kernels(1, ["i", process, "1", "1"])
                + &ranges(6_000_000, ["7", "i + 8", "'x'", "(1 << 24) + i % 1000", "0"]),
            said: "begin at once",
        },
        Case {
            what: "ranges that are open at once",
            sql: kernels(1, ["i", process, "1", "1"])
                + &ranges(6_000_000, ["i", "NULL", "'x'", "(1 << 24) + i % 4000000", "0"]),
            said: "open at once",
        },
        Case {
            what: "as much work as is held",
            sql: kernels(9_000_000, ["i", process, "1", "1"]),
            said: "were not placed in ranges",
        },
        Case {
            what: "as much work as is held, of a hundred processes on eight GPUs",
            sql: kernels_on("i % 8", 9_000_000, ["i", "(i % 100 + 1) << 24", "1", "i % 1000"]),
            said: "the search for steps skipped 84 processes",
        },
        Case {
            what: "as much work as is held, in as many rows as there can be",
            sql: rows("StringIds", 30_000, "i + 10, printf('%d', i) || printf('%.*c', 1000, 'x')")
                + &kernels(9_000_000, ["i", "(i % 64 + 1) << 24", "i % 30000 + 10", "i % 7"]),
            said: "(other kernels)",
        },
        Case {
            what: "names without a key",
            sql: "DROP TABLE StringIds; CREATE TABLE StringIds (id INTEGER, value TEXT);"
                .to_owned()
                + &rows("StringIds", 400_000, "i, '_Z' || i || 'v'")
                + &kernels(400_000, ["i", process, "i", "1"]),
            said: "300000 pieces of GPU work",
        },
        Case { what: "tables", sql: tables(300_000), said: "more than 10000 tables" },
    ]
}

/// Statements for so many empty tables, without parsing each: as rows of the table of tables.
fn tables(count: usize) -> String {
    let row = "'table', 't' || i, 't' || i, 2, 'CREATE TABLE t' || i || '(a,b,c,d,e,f,g,h,i,j)'";
    format!("PRAGMA writable_schema = 1; {}", rows("sqlite_master", count, row))
}

fn file(dir: &Path, sql: &str) -> PathBuf {
    let path = dir.join("made.sqlite");
    let database = Connection::open(&path).expect("file");
    let made = format!("PRAGMA journal_mode = OFF; BEGIN; {SCHEMA} {sql} COMMIT;");
    database.execute_batch(&made).expect("rows");
    path
}

fn hold(case: &Case) {
    let dir = tempfile::tempdir().expect("folder");
    let path = file(dir.path(), &case.sql);
    let length = std::fs::metadata(&path).expect("the file").len() as usize;
    let begun = Instant::now();
    let (read, peak) = peak_of(|| sqlite::load(&path, &Default::default()));
    let (took, held, length) = (begun.elapsed(), peak / MIB, length / MIB);
    println!("| {} | {length} MiB | {took:.1?} | {held} MiB |", case.what);
    let found = match &read {
        Ok(Tables { findings, complete, .. }) => {
            assert!(*complete == case.said.is_empty(), "{}: {findings:?}", case.what);
            findings.clone()
        }
        Err(finding) => vec![finding.clone()],
    };
    let said = found.iter().any(|finding| finding.to_string().contains(case.said));
    assert!(said || case.said.is_empty(), "{}: {found:?}", case.what);
    assert!(peak < MOST_BYTES, "{}: {held} MiB for a file of {length} MiB", case.what);
    assert!(took < Duration::from_secs(120), "{}: {took:?}", case.what);
}

/// Hazard (Hostile files): An nsys export of many processes with long names.
/// Promise: No process holds the names of the others, and all of it is below 512 MiB.
#[test]
fn no_export_takes_more_memory_than_the_bound() {
    small().iter().for_each(hold);
    // Minutes in a build that is not optimised; `.ci/full` has them.
    if std::env::var_os("STAGE2_FULL_SIZE").is_some() {
        large().iter().for_each(hold);
    }
}
