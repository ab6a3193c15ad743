//! Exports: the recorded ones, and small ones made for a test.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use stage2_read::nsys::{Tables, sqlite};

pub(crate) fn recorded(name: &str) -> PathBuf {
    // Tests of several packages use this file.
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut folders = above.map(|folder| folder.join("tests/fixtures/nsys"));
    folders.find(|folder| folder.is_dir()).expect("the fixtures of nsys").join(name)
}

/// Unpacks a recorded export into `dir`.
pub(crate) fn unpack(name: &str, dir: &Path) -> PathBuf {
    let packed = recorded(&format!("{name}.sqlite.xz"));
    let path = dir.join(format!("{name}.sqlite"));
    let mut packed = BufReader::new(File::open(packed).expect("fixture"));
    lzma_rs::xz_decompress(&mut packed, &mut File::create(&path).expect("file")).expect("xz");
    path
}

pub(crate) fn load_recorded(name: &str) -> Tables {
    let dir = tempfile::tempdir().expect("folder");
    sqlite::load(&unpack(name, dir.path()), &Default::default()).expect("export")
}

/// The tables as nsys 2023 makes them, without the columns that nothing reads.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
        demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
        gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
        blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
        globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL);
    CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
        text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
    INSERT INTO StringIds VALUES (1, '_Z1av'), (2, 'a()'), (3, 'a'), (4, '_Z1bv'), (5, 'b()'),
        (6, 'b'), (10, 'prefill'), (11, 'decode'), (12, 'layer'), (20, 'lib');
";

/// An export with the rows of `sql`.
pub(crate) fn export(dir: &Path, schema: &str, sql: &str) -> PathBuf {
    let path = dir.join("made.sqlite");
    let db = Connection::open(&path).expect("file");
    db.execute_batch(&format!("BEGIN; {schema} {sql} COMMIT;")).expect("tables");
    path
}

/// Loads an export with the rows of `sql`.
pub(crate) fn load(sql: &str) -> Tables {
    let dir = tempfile::tempdir().expect("folder");
    sqlite::load(&export(dir.path(), SCHEMA, sql), &Default::default()).expect("export")
}

/// A row of the kernel table: one of `_Z1av` on device 0.
pub(crate) fn kernel(process: i64, correlation: i64, start: i64, end: i64) -> String {
    format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({start}, {end}, 0, {correlation}, \
         {process}, 2, 3, 1, 1, 2, 3, 64, 1, 1);"
    )
}

/// A row of the table of API calls.
pub(crate) fn call(thread: i64, correlation: i64, start: i64) -> String {
    format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({start}, {start} + 1, {thread}, \
         {correlation}, 3);"
    )
}

/// A row of the NVTX table: a range with a registered name, in the default domain.
pub(crate) fn range(thread: i64, name: i64, start: i64, end: i64) -> String {
    format!("INSERT INTO NVTX_EVENTS VALUES ({start}, {end}, 59, NULL, {thread}, NULL, {name}, 0);")
}
