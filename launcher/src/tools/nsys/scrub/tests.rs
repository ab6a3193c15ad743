//! Exports with secrets in every place where nsys puts them -> copies without.

use super::*;

const SECRET: &str = "hunter2supersecret";

/// The tables in which nsys 2023.4 was seen to put the environment, and some recorded work.
const EXPORT: &str = "
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    INSERT INTO StringIds VALUES (1, 'decode'), (2, 'TOKEN=hunter2supersecret\nHOME=/root'),
        (3, 'said hunter2supersecret'), (4, '_Z1av'), (5, 'python3'), (6, 'stranger');
    CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, name TEXT, value TEXT);
    INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'DeviceEnvironment', 'A=1;TOKEN=hunter2supersecret');
    CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
    INSERT INTO META_DATA_CAPTURE VALUES
        ('PROCESS_0:ENVIRONMENT_VARIABLE', 'TOKEN=\"hunter2supersecret\"'),
        ('PROCESS_0:ARGUMENT_1', '--password=hunter2supersecret'),
        ('PROCESS_0:COLLECT_CUDA_TRACE', 'true');
    CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
    INSERT INTO ProcessStreams VALUES (16777216, 3, 3);
    CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
    INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.7.2'), ('EXPORT_USER', 'hunter2supersecret');
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, textId INTEGER);
    INSERT INTO NVTX_EVENTS VALUES (1, 9, 59, 16777217, 1);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, globalPid INTEGER, mangledName INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 16777216, 4), (2, 3, 16777216, 4);
    CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
    INSERT INTO PROCESSES VALUES (16777216, 1, 'python3'), (33554432, 2, 'hunter2supersecret');
    CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, globalTid INTEGER);
    INSERT INTO ThreadNames VALUES (5, 16777217), (6, 33554433);
    CREATE TABLE NEW_TABLE_OF_A_LATER_VERSION (value TEXT);
    INSERT INTO NEW_TABLE_OF_A_LATER_VERSION VALUES ('hunter2supersecret');
    CREATE VIEW EVERYTHING AS SELECT * FROM TARGET_INFO_SYSTEM_ENV;
";

fn export(dir: &Path, more: &str) -> std::path::PathBuf {
    let path = dir.join("a b%c?.sqlite");
    let db = Connection::open(&path).expect("file");
    db.execute_batch(EXPORT).and_then(|()| db.execute_batch(more)).expect("tables");
    path
}

#[test]
fn nothing_secret_is_left_and_everything_recorded_is() {
    let dir = tempfile::tempdir().expect("folder");
    let (from, to) = (export(dir.path(), ""), dir.path().join("run.scrubbed.sqlite"));
    let before = std::fs::read(&from).expect("export");
    assert!(contains(&before, SECRET), "else the test shows nothing");
    assert!(has_tables(&from));
    let other = tempfile::tempdir().expect("folder");
    let foreign = other.path().join("foreign.sqlite");
    let db = Connection::open(&foreign).expect("file");
    db.execute_batch("CREATE TABLE t (a)").expect("a table");
    assert!(!has_tables(&foreign), "no export");
    let tables: String = (0..10_001).map(|n| format!("CREATE TABLE t{n} (a);")).collect();
    db.execute_batch(&format!("BEGIN; {tables} COMMIT")).expect("tables");
    assert!(has_tables(&foreign), "refused before its tables are read, with its own error");
    let refused = scrub(&foreign, &to).expect_err("not copied either").to_string();
    assert!(refused.contains("more than 10000 tables"), "{refused}");
    std::fs::write(&to, "what was there before").expect("file");
    scrub(&from, &to).expect("copy");
    assert!(!contains(&std::fs::read(&to).expect("copy"), SECRET), "in the bytes of the file");
    let db = Connection::open(&to).expect("copy");
    let rows = |name: &str| -> Option<i64> {
        db.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get(0)).ok()
    };
    for (name, expected) in [
        ("CUPTI_ACTIVITY_KIND_KERNEL", Some(2)),
        ("NVTX_EVENTS", Some(1)),
        ("StringIds", Some(3)),
        ("PROCESSES", Some(1)),
        ("ThreadNames", Some(1)),
        ("META_DATA_EXPORT", Some(1)),
        ("TARGET_INFO_SYSTEM_ENV", None),
        ("META_DATA_CAPTURE", Some(1)),
        ("ProcessStreams", None),
        ("NEW_TABLE_OF_A_LATER_VERSION", None),
    ] {
        assert_eq!(rows(name), expected, "{name}");
    }
    assert_eq!(std::fs::read(&from).expect("export"), before, "the export is as it was");
    let names: Vec<_> = std::fs::read_dir(dir.path()).expect("folder").flatten().collect();
    assert_eq!(names.len(), 2, "no draft is left: {names:?}");
}

#[test]
fn a_secret_across_the_end_of_a_long_text_leaves_nothing_of_itself() {
    let dir = tempfile::tempdir().expect("folder");
    let front = "CUDA failed ".repeat(MOST_OF_A_TEXT);
    let front = &front[..MOST_OF_A_TEXT - SECRET.len() / 2];
    let events = format!(
        "CREATE TABLE DIAGNOSTIC_EVENT (severity INTEGER, text TEXT);
         INSERT INTO DIAGNOSTIC_EVENT VALUES (2, '{front}{SECRET}');"
    );
    let (from, to) = (export(dir.path(), &events), dir.path().join("copy.sqlite"));
    scrub(&from, &to).expect("copy");
    assert!(!contains(&std::fs::read(&to).expect("copy"), &SECRET[..4]));
}

#[test]
fn a_variable_in_a_text_that_is_in_use_is_found_by_the_check() {
    let dir = tempfile::tempdir().expect("folder");
    let from = export(dir.path(), "INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, 16777217, 2)");
    let to = dir.path().join("copy.sqlite");
    let finding = scrub(&from, &to).expect_err("refused");
    assert!(finding.why.contains("TOKEN") && !finding.to_string().contains(SECRET), "{finding}");
    assert!(!to.exists());
}

#[test]
fn what_cannot_be_copied_leaves_no_copy() {
    let dir = tempfile::tempdir().expect("folder");
    let (from, to) = (export(dir.path(), ""), dir.path().join("copy.sqlite"));
    let whole = std::fs::read(&from).expect("export");
    std::fs::write(&from, whole.get(..whole.len() / 2).expect("half")).expect("file");
    assert!(scrub(&from, &to).is_err_and(|f| f.why.contains("cut short")));
    std::fs::write(&from, "no database").expect("file");
    assert!(scrub(&from, &to).is_err_and(|f| f.why.contains("no SQLite file")));
    assert!(scrub(Path::new("/no/such.sqlite"), &to).is_err());
    assert!(!to.exists());
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
