//! A bundle of two ranks -> tables, read back.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, RowAccessor as _};
use stage2_export::Exported;
use stage2_model::{ProcessCoverage, ProcessRow, Report, SCHEMA, SCHEMA_VERSION};

/// Two processes with one process id, on two hosts.
fn bundle() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("folder");
    let collector = folder.path().join("collector");
    fs::create_dir(&collector).expect("folder");
    let mut report =
        Report { schema: SCHEMA.into(), schema_version: SCHEMA_VERSION, ..Report::default() };
    for (rank, host) in (0..).zip(["a", "b"]) {
        let path = crate::common::trace(&collector, 10, host, 1_000 * rank);
        let file = path.file_name().expect("name").to_string_lossy().into_owned();
        report
            .coverage
            .processes
            .push(ProcessCoverage { file: file.clone(), ..Default::default() });
        report.processes.push(ProcessRow { file, rank: Some(rank), ..ProcessRow::default() });
    }
    // The report leaves out copies of a trace file, and so does an export of it.
    fs::copy(collector.join("a-10.s2t"), collector.join("copy-10.s2t")).expect("copy");
    write_report(folder.path(), &report);
    folder
}

fn write_report(folder: &Path, report: &Report) {
    let text = serde_json::to_string(report).expect("JSON");
    fs::write(folder.join("metrics.json"), text).expect("file");
}

fn stage2_parquet(bundle: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::cargo_bin("stage2-parquet").expect("the program");
    command.arg(bundle).arg(out).args(more);
    command
}

#[test]
fn tables_have_signed_columns_partitions_and_the_sums_of_the_run() {
    let bundle = bundle();
    let out = bundle.path().join("tables");
    let output = stage2_parquet(bundle.path(), &out, &[]).assert().success();
    let exported: Exported = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    assert_eq!((exported.counts.kernels, exported.counts.without_times), (20, 2));
    let of_kernels = |file: &&PathBuf| file.to_string_lossy().contains("/kernels/");
    let kernels: Vec<&PathBuf> = exported.files.iter().filter(of_kernels).collect();
    assert_eq!(kernels.len(), 2);
    assert!(kernels[0].ends_with("kernels/host=a/rank=0/pid=10/part-0.parquet"), "{kernels:?}");
    assert!(kernels[1].ends_with("kernels/host=b/rank=1/pid=10/part-1.parquet"), "{kernels:?}");
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for path in kernels {
        let reader = SerializedFileReader::new(File::open(path).expect("file")).expect("parquet");
        let schema = reader.metadata().file_metadata().schema_descr();
        for column in schema.columns() {
            assert_ne!(column.physical_type(), parquet::basic::Type::INT32, "{}", column.name());
            let kind = format!("{:?}", column.logical_type_ref());
            assert!(!kind.contains("is_signed: false"), "{}", column.name());
        }
        for row in reader.get_row_iter(None).expect("rows") {
            let row = row.expect("row");
            let (start, end) = (row.get_long(0).expect("start"), row.get_long(1).expect("end"));
            let duration = row.get_long(2).expect("duration_ns");
            assert_eq!(end - start, duration);
            *sums.entry(row.get_string(3).expect("stage").clone()).or_default() += duration;
        }
    }
    let expected = [
        ("(outside ranges)", 2_000),
        ("(unattributed)", 2_000),
        ("decode", 6_000),
        ("prefill", 10_000),
    ];
    assert_eq!(sums, expected.map(|(stage, ns)| (stage.to_owned(), ns)).into());
}

#[test]
fn marks_and_fields_of_ranges_have_their_places() {
    let bundle = tempfile::tempdir().expect("folder");
    let collector = bundle.path().join("collector");
    fs::create_dir(&collector).expect("folder");
    crate::common::same_nanosecond(&collector);
    let file = "h-1.s2t".to_owned();
    let processes = vec![ProcessRow { file: file.clone(), ..ProcessRow::default() }];
    let mut report = Report {
        schema: SCHEMA.into(),
        schema_version: SCHEMA_VERSION,
        processes,
        ..Report::default()
    };
    report.coverage.processes.push(ProcessCoverage { file, ..Default::default() });
    write_report(bundle.path(), &report);
    let out = bundle.path().join("tables");
    let output = stage2_parquet(bundle.path(), &out, &[]).assert().success();
    let exported: Exported = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    assert_eq!((exported.counts.marks, exported.counts.marks_left_out), (1, 0));
    let rows = |table: &str| -> Vec<Vec<(String, Field)>> {
        let place = "host=h/rank=__HIVE_DEFAULT_PARTITION__/pid=1/part-0.parquet";
        let file = File::open(out.join(table).join(place)).expect(table);
        let reader = SerializedFileReader::new(file).expect("parquet");
        let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("row"));
        rows.map(|row| row.into_columns()).collect()
    };
    fn value<'r>(row: &'r [(String, Field)], column: &str) -> &'r Field {
        &row.iter().find(|(name, _)| name == column).expect(column).1
    }
    let marks = rows("marks");
    assert_eq!(marks.len(), 1);
    assert_eq!(value(&marks[0], "at_ns"), &Field::Long(60));
    // 2^64 - 1 fits no signed integer.
    assert_eq!(value(&marks[0], "payload"), &Field::Null);
    assert_eq!(value(&marks[0], "payload_double"), &Field::Double(u64::MAX as f64));
    let ranges = rows("ranges");
    let with_fields: Vec<&Field> =
        ranges.iter().map(|row| value(row, "fields")).filter(|f| **f != Field::Null).collect();
    assert_eq!((ranges.len(), with_fields.len()), (3, 1));
    let Field::Str(text) = with_fields[0] else { panic!("{with_fields:?}") };
    let fields: serde_json::Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(fields["tokens"], u64::MAX);
    assert_eq!(fields["text"], "=cmd|' /C calc'!A0");
}

#[test]
fn a_part_is_exported_and_wrong_requests_are_refused() {
    let bundle = bundle();
    let out = bundle.path().join("part");
    let more = ["--stage", "decode", "--window", "0..1"];
    let output = stage2_parquet(bundle.path(), &out, &more).assert().success();
    let exported: Exported = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    assert_eq!(exported.counts.kernels, 6);
    stage2_parquet(bundle.path(), &out, &[]).assert().code(2);
    let none = bundle.path().join("none");
    stage2_parquet(bundle.path(), &none, &["--stage", "warm-up"]).assert().code(2);
    stage2_parquet(&out, &none, &[]).assert().code(2);
    fs::remove_dir_all(bundle.path().join("collector")).expect("folder");
    stage2_parquet(bundle.path(), &none, &[]).assert().code(1);
    assert!(!none.exists());
}
