//! Captures of any source, any subset of them -> `merge` -> tables that plain SQL, plain sums over
//! CSV files and the trace files themselves confirm. Here are the fixtures, `merge` of some of them, and the
//! same sums computed without any code of ours.

mod alone;
mod combined;
mod nested;
mod public_ncu;
mod public_nsys;
mod selection;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

use crate::common::{self, LAUNCH};

/// Calls and nanoseconds by mangled name.
type Sums = BTreeMap<String, (u64, u64)>;

fn fixture(name: &str) -> PathBuf {
    common::repository("tests/fixtures").join(name)
}

/// A folder with captures as somebody else might have named them.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A fixture under another name, unpacked where it is packed.
    fn put(&self, from: &str, name: &str) -> PathBuf {
        let to = self.path(name);
        common::unpack(from, &to);
        to
    }

    /// `stage2-launch merge -v` of these words into `out`, with no tool on PATH.
    fn merge(&self, words: &[&str]) -> Command {
        self.command(&[&["merge", "-v"], words, &["-o", "out"]].concat())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(LAUNCH);
        command.args(words).current_dir(self.dir.path()).env("PATH", "/nowhere");
        command
    }

    fn merged(&self, words: &[&str]) -> Bundle {
        let said = common::stderr(&self.merge(words).assert().success());
        Bundle { dir: self.path("out"), said }
    }
}

struct Bundle {
    dir: PathBuf,
    said: String,
}

impl Bundle {
    fn text(&self, name: &str) -> String {
        common::read(&self.dir.join(name))
    }

    fn json(&self, name: &str) -> Value {
        common::json(&self.dir.join(name))
    }

    fn remove(&self) {
        fs::remove_dir_all(&self.dir).expect("bundle");
    }

    /// Rows of kernels.csv, by the names of its columns.
    fn rows(&self) -> Vec<BTreeMap<String, String>> {
        rows(&self.text("kernels.csv"))
    }

    /// Sums of kernels.csv over the rows of a stage, or all.
    fn sums(&self, stage: Option<&str>) -> Sums {
        let mut sums = Sums::new();
        for row in self.rows().iter().filter(|row| stage.is_none_or(|s| row["stage"] == s)) {
            let sum = sums.entry(row["mangled_name"].clone()).or_default();
            sum.0 += row["calls"].parse::<u64>().expect("calls");
            sum.1 += row["total_ns"].parse::<u64>().expect("ns");
        }
        sums
    }

    /// Values of a column over all rows, once each.
    fn values(&self, column: &str) -> Vec<String> {
        let mut values: Vec<String> = self.rows().iter().map(|row| row[column].clone()).collect();
        values.sort();
        values.dedup();
        values
    }
}

fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().expect("head").clone();
    let row = |record: csv::Result<csv::StringRecord>| {
        let record = record.expect("row");
        head.iter().map(str::to_owned).zip(record.iter().map(str::to_owned)).collect()
    };
    reader.records().map(row).collect()
}

/// Kernels of an export, in the ranges of that name by the time of their launch.
fn sql(database: &Path, range: Option<&str>) -> Sums {
    let connection = rusqlite::Connection::open(database).expect("database");
    let inside = "OR k.correlationId IN (SELECT r.correlationId FROM NVTX_EVENTS n
        LEFT JOIN StringIds t ON t.id = n.textId CROSS JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
        WHERE n.eventType IN (59, 60) AND coalesce(n.text, t.value) = ?1
        AND n.globalTid = r.globalTid AND n.start <= r.start AND r.start < n.end)";
    let query = format!(
        "SELECT s.value, count(*), sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k
         JOIN StringIds s ON s.id = k.mangledName WHERE ?1 IS NULL {} GROUP BY s.value",
        range.map_or("", |_| inside)
    );
    let mut statement = connection.prepare(&query).expect("query");
    let row = |row: &rusqlite::Row<'_>| {
        Ok((row.get::<_, String>(0)?, (row.get::<_, i64>(1)? as u64, row.get::<_, i64>(2)? as u64)))
    };
    statement.query_map([range], row).expect("rows").map(|row| row.expect("row")).collect()
}

/// Kernels of a page of ncu with a row of units below its header.
fn raw_page(page: &Path) -> Sums {
    let mut sums = Sums::new();
    for row in rows(&fs::read_to_string(page).expect("page")) {
        if row["ID"].is_empty() {
            assert_eq!(row["gpu__time_duration.sum"], "ns");
            continue;
        }
        let ns: u64 = row["gpu__time_duration.sum"].replace(',', "").parse().expect("ns");
        let sum = sums.entry(row["Kernel Name"].clone()).or_default();
        *sum = (sum.0 + 1, sum.1 + ns);
    }
    sums
}

/// Kernels of a table of `nsys stats` with one row for each name.
fn table(table: &Path) -> Sums {
    let rows = rows(&fs::read_to_string(table).expect("table"));
    let number = |cell: &String| cell.parse::<u64>().expect("number");
    rows.iter()
        .map(|row| {
            (row["Name"].clone(), (number(&row["Instances"]), number(&row["Total Time (ns)"])))
        })
        .collect()
}
