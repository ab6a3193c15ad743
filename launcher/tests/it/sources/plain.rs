//! The fixtures, `merge` of some of them, and the same sums computed without any code of ours.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

/// Calls and nanoseconds by mangled name.
pub(crate) type Sums = BTreeMap<String, (u64, u64)>;

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

/// A folder with captures as somebody else might have named them.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A fixture under another name, unpacked where it is packed.
    pub(crate) fn put(&self, from: &str, name: &str) -> PathBuf {
        let to = self.path(name);
        fs::create_dir_all(to.parent().expect("parent")).expect("folder");
        if from.ends_with(".xz") {
            let mut packed = BufReader::new(File::open(fixture(from)).expect(from));
            let mut file = File::create(&to).expect("file");
            lzma_rs::xz_decompress(&mut packed, &mut file).expect(from);
        } else {
            fs::copy(fixture(from), &to).expect(from);
        }
        to
    }

    /// `stage2-launch merge` of these words into `out`, with no tool on PATH.
    pub(crate) fn merge(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stage2-launch"));
        command.arg("merge").args(words).args(["-o", "out"]).current_dir(self.dir.path());
        command.env("PATH", "/nowhere");
        command
    }

    /// Another command on what is there.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stage2-launch"));
        command.args(words).current_dir(self.dir.path()).env("PATH", "/nowhere");
        command
    }

    /// A merge that has to go well.
    pub(crate) fn merged(&self, words: &[&str]) -> Bundle {
        let output = self.merge(words).assert().success().get_output().clone();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Bundle { dir: self.path("out"), said }
    }
}

/// What came of a merge.
pub(crate) struct Bundle {
    pub(crate) dir: PathBuf,
    pub(crate) said: String,
}

impl Bundle {
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).expect(name)
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).expect(name)
    }

    /// Rows of kernels.csv, by the names of its columns.
    pub(crate) fn rows(&self) -> Vec<BTreeMap<String, String>> {
        rows(&self.text("kernels.csv"))
    }

    /// Sums of kernels.csv over the rows of a stage, or all.
    pub(crate) fn sums(&self, stage: Option<&str>) -> Sums {
        let mut sums = Sums::new();
        for row in self.rows().iter().filter(|row| stage.is_none_or(|s| row["stage"] == s)) {
            let sum = sums.entry(row["mangled_name"].clone()).or_default();
            sum.0 += row["calls"].parse::<u64>().expect("calls");
            sum.1 += row["total_ns"].parse::<u64>().expect("ns");
        }
        sums
    }

    /// Values of a column over all rows, once each.
    pub(crate) fn values(&self, column: &str) -> Vec<String> {
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
pub(crate) fn sql(database: &Path, range: Option<&str>) -> Sums {
    let connection = rusqlite::Connection::open(database).expect("database");
    let inside = "AND EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME r, NVTX_EVENTS n
        LEFT JOIN StringIds t ON t.id = n.textId
        WHERE r.correlationId = k.correlationId AND n.globalTid = r.globalTid
        AND n.eventType IN (59, 60) AND n.start <= r.start AND r.start < n.end
        AND coalesce(n.text, t.value) = ?1)";
    let query = format!(
        "SELECT s.value, count(*), sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k
         JOIN StringIds s ON s.id = k.mangledName WHERE ?1 IS NULL {} GROUP BY s.value",
        if range.is_some() { inside.replace("AND EXISTS", "OR EXISTS") } else { String::new() }
    );
    let mut statement = connection.prepare(&query).expect("query");
    let row = |row: &rusqlite::Row<'_>| {
        Ok((row.get::<_, String>(0)?, (row.get::<_, i64>(1)? as u64, row.get::<_, i64>(2)? as u64)))
    };
    statement.query_map([range], row).expect("rows").map(|row| row.expect("row")).collect()
}

/// Kernels of a page of ncu with a row of units below its header.
pub(crate) fn raw_page(page: &Path) -> Sums {
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
pub(crate) fn table(table: &Path) -> Sums {
    let rows = rows(&fs::read_to_string(table).expect("table"));
    let number = |cell: &String| cell.parse::<u64>().expect("number");
    rows.iter()
        .map(|row| {
            (row["Name"].clone(), (number(&row["Instances"]), number(&row["Total Time (ns)"])))
        })
        .collect()
}
