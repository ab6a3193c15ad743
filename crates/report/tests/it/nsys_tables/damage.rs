//! Exports that are cut short, overwritten, of other versions or hostile: a finding, never a panic.

use std::path::Path;

use super::fixture::{SCHEMA, call, export, kernel, load, range, unpack};
use rusqlite::Connection;
use stage2_model::Severity;
use stage2_read::nsys::{Naming, Tables, sqlite};

const MAIN: i64 = (1 << 24) + 1;

fn said(tables: &Tables, text: &str) -> bool {
    tables.findings.iter().any(|f| f.to_string().contains(text))
}

#[test]
fn a_file_cut_anywhere_gives_a_partial_result_that_says_so() {
    let dir = tempfile::tempdir().expect("folder");
    let path = unpack("lossy", dir.path());
    let whole = std::fs::read(&path).expect("export");
    let mut partial = 0;
    for length in (0..whole.len()).step_by(40_000).chain([1, 15, 16, 99, 100, whole.len() - 1]) {
        std::fs::write(&path, &whole[..length]).expect("file");
        match sqlite::load(&path, &Default::default()) {
            Err(finding) => assert!(finding.what.contains("lossy.sqlite"), "{finding}"),
            Ok(tables) => {
                partial += 1;
                assert!(!tables.complete, "{length} bytes");
                let error = tables.findings.iter().any(|f| f.severity == Severity::Error);
                assert!(error && said(&tables, "cut short"), "{length}: {:?}", tables.findings);
                assert!(tables.counts.kernels <= 1128);
            }
        }
    }
    assert!(partial > 3, "some of it is still readable");
}

#[test]
fn a_file_with_overwritten_bytes_is_survived() {
    let dir = tempfile::tempdir().expect("folder");
    let path = unpack("lossy", dir.path());
    let whole = std::fs::read(&path).expect("export");
    for at in (100..whole.len()).step_by(9_973) {
        let mut bytes = whole.clone();
        let end = bytes.len().min(at + 64);
        bytes[at..end].fill(0xa5);
        std::fs::write(&path, &bytes).expect("file");
        match sqlite::load(&path, &Default::default()) {
            Ok(tables) => assert!(tables.counts.kernels <= 2_000, "at {at}"),
            Err(finding) => assert!(!finding.remedy.is_empty(), "at {at}"),
        }
    }
}

#[test]
fn what_is_no_export_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("x.sqlite");
    for (bytes, why) in [
        (&b""[..], "empty"),
        (b"PK\x03\x04 something", "no SQLite file"),
        (b"SQLite format 3\0", "cut short"),
    ] {
        std::fs::write(&file, bytes).expect("file");
        let finding = sqlite::load(&file, &Default::default()).expect_err(why);
        assert!(finding.what.contains("x.sqlite") && finding.why.contains(why), "{finding}");
    }
    assert!(
        sqlite::load(Path::new("/no/such.sqlite"), &Default::default())
            .is_err_and(|f| f.why.contains("No such file"))
    );
    assert!(
        sqlite::load(dir.path(), &Default::default()).is_err_and(|f| f.why.contains("no file"))
    );
}

#[test]
fn missing_tables_are_named_and_cost_their_part_only() {
    let everything = kernel(1 << 24, 1, 0, 10) + &call(MAIN, 1, 10) + &range(MAIN, 11, 5, 20);
    let without = |table: &str| load(&format!("{everything} DROP TABLE {table};"));
    let whole = load(&everything);
    assert!(whole.complete && whole.findings.is_empty(), "{:?}", whole.findings);
    assert_eq!(whole.counts.in_ranges, 1);
    let no_calls = without("CUPTI_ACTIVITY_KIND_RUNTIME");
    assert!(said(&no_calls, "no table CUPTI_ACTIVITY_KIND_RUNTIME"));
    assert_eq!((no_calls.counts.kernels, no_calls.counts.without_launch), (1, 1));
    let no_ranges = without("NVTX_EVENTS");
    assert!(said(&no_ranges, "no table NVTX_EVENTS"));
    assert_eq!(no_ranges.counts.outside_ranges, 1);
    let no_kernels = without("CUPTI_ACTIVITY_KIND_KERNEL");
    assert!(said(&no_kernels, "holds no kernels"));
    assert_eq!(no_kernels.instances("decode", None), Some(1));
    let no_names = without("StringIds");
    assert_eq!((no_names.nameless_calls(), no_names.totals().len()), (1, 0));
    assert!(said(&no_names, "no mangled name"));
}

#[test]
fn missing_columns_are_named() {
    let dir = tempfile::tempdir().expect("folder");
    let old = SCHEMA
        .replace("shortName INTEGER NOT NULL, mangledName INTEGER,", "shortName INTEGER NOT NULL,");
    let row = kernel(1 << 24, 1, 0, 10).replace("2, 3, 1,", "2, 3,");
    let tables =
        sqlite::load(&export(dir.path(), &old, &row), &Default::default()).expect("export");
    assert!(said(&tables, "no column mangledName") && !tables.complete);
    assert_eq!((tables.kernels[0].naming, &*tables.kernels[0].name), (Naming::Demangled, "a()"));
    let strange = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (x); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (x); CREATE TABLE NVTX_EVENTS (x);";
    std::fs::remove_file(dir.path().join("made.sqlite")).expect("file");
    let tables =
        sqlite::load(&export(dir.path(), strange, ""), &Default::default()).expect("export");
    assert_eq!((tables.counts.kernels, tables.counts.untimed), (1, 1));
    assert!(said(&tables, "no column") && !tables.complete);
}

/// Hazard (Records that make no sense): nsys exports with absurd values.
/// Promise: They are counted and not summed.
#[test]
fn absurd_values_are_counted_and_not_summed() {
    let sql = [
        kernel(1 << 24, 1, 10, 5),
        kernel(1 << 24, 2, i64::MIN, i64::MAX),
        kernel(1 << 24, 3, 0, i64::MAX),
        kernel(1 << 24, 4, 0, i64::MAX),
        kernel(1 << 24, -7, 0, 7),
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('x', x'00', 'gpu', 1.5, NULL, 1e99, '', 99, -1, 1, 1, 1, 1, 1);".into(),
        "INSERT INTO NVTX_EVENTS VALUES (9, 5, 59, 'backwards', 1, NULL, NULL, 0);".into(),
        "INSERT INTO NVTX_EVENTS VALUES ('x', 5, 59, x'ff', NULL, NULL, NULL, NULL);".into(),
    ];
    let tables = load(&sql.concat());
    assert_eq!((tables.counts.kernels, tables.counts.untimed), (6, 5));
    assert_eq!(tables.counts.kernel_total_ns, 7);
    assert_eq!(tables.counts.odd_rows, 3, "two ranges, and a kernel whose name is nowhere");
    assert!(said(&tables, "no valid times") && said(&tables, "cannot be used"));
}

#[test]
fn queries_in_place_of_tables_are_not_run() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("hostile.sqlite");
    let db = Connection::open(&path).expect("file");
    let endless = "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start FROM n";
    db.execute_batch(&format!(
        "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}; CREATE VIEW NVTX_EVENTS AS {endless};
         CREATE VIEW META_DATA_EXPORT AS {endless};"
    ))
    .expect("views");
    drop(db);
    let tables = sqlite::load(&path, &Default::default()).expect("it is a database");
    assert_eq!(tables.counts.kernels, 0);
    assert!(said(&tables, "no table CUPTI_ACTIVITY_KIND_KERNEL"));
}

#[test]
fn a_later_version_with_an_export_table_of_its_own_is_read() {
    let tables = load(
        "CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT);
         INSERT INTO EXPORT_META_DATA VALUES ('EXPORT_SCHEMA_VERSION', '2.13.1');
         CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);
         INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 1, 'all is well'), (2, 2, 'Not all events were kept');",
    );
    assert_eq!(tables.schema_version.as_deref(), Some("2.13.1"));
    assert_eq!(tables.said, ["Not all events were kept"]);
}
