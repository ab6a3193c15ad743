//! Bundles -> tables of `stage2-parquet`, read back.

#[path = "../it/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "what acts in a page is for pages")]
#[path = "../../../../launcher/tests/it/common/hostile_names.rs"]
mod hostile_names;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row, RowAccessor as _};
use stage2_contract::trace::{GpuWork, MonoNs, Queue, RangeOpen, Record, Shape, What};
use stage2_export::Exported;
use stage2_model::{ProcessCoverage, ProcessRow, Report, SCHEMA, SCHEMA_VERSION};

/// A record of a trace file holds no more.
const RECORD_BYTES: usize = 60_000;

/// A bundle with the trace files that `write` leaves in a folder, and names with their ranks.
fn bundle_of(write: impl FnOnce(&Path) -> Vec<(String, Option<u64>)>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("folder");
    let collector = folder.path().join("collector");
    fs::create_dir(&collector).expect("folder");
    let mut report =
        Report { schema: SCHEMA.into(), schema_version: SCHEMA_VERSION, ..Report::default() };
    for (file, rank) in write(&collector) {
        let coverage = ProcessCoverage { file: file.clone(), ..Default::default() };
        report.coverage.processes.push(coverage);
        report.processes.push(ProcessRow { file, rank, ..ProcessRow::default() });
    }
    let text = serde_json::to_string(&report).expect("JSON");
    fs::write(folder.path().join("metrics.json"), text).expect("file");
    folder
}

/// Two processes with one process id, on two hosts.
fn two_ranks() -> tempfile::TempDir {
    bundle_of(|collector| {
        let rank = |(rank, host): (u64, &str)| {
            let path = common::trace(collector, 10, host, 1_000 * rank);
            (path.file_name().expect("name").to_string_lossy().into_owned(), Some(rank))
        };
        let files = (0..).zip(["a", "b"]).map(rank).collect();
        // The report leaves out copies of a trace file, and so does an export of it.
        fs::copy(collector.join("a-10.s2t"), collector.join("copy-10.s2t")).expect("copy");
        files
    })
}

fn stage2_parquet(bundle: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::cargo_bin("stage2-parquet").expect("the program");
    command.arg(bundle).arg(out).args(more);
    command
}

fn export(bundle: &Path, out: &Path, more: &[&str]) -> Exported {
    let done = stage2_parquet(bundle, out, more).assert().success();
    serde_json::from_slice(&done.get_output().stdout).expect("JSON")
}

fn open(path: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(path).expect("file")).expect("parquet")
}

fn rows(path: &Path) -> Vec<Row> {
    open(path).into_iter().map(|row| row.expect("row")).collect()
}

fn value<'r>(row: &'r [(String, Field)], column: &str) -> &'r Field {
    &row.iter().find(|(name, _)| name == column).expect(column).1
}

#[test]
fn tables_have_signed_columns_partitions_and_the_sums_of_the_run() {
    let bundle = two_ranks();
    let exported = export(bundle.path(), &bundle.path().join("tables"), &[]);
    assert_eq!((exported.counts.kernels, exported.counts.without_times), (20, 2));
    let of_kernels = |file: &&PathBuf| file.to_string_lossy().contains("/kernels/");
    let kernels: Vec<&PathBuf> = exported.files.iter().filter(of_kernels).collect();
    assert_eq!(kernels.len(), 2);
    assert!(kernels[0].ends_with("kernels/host=a/rank=0/pid=10/part-0.parquet"), "{kernels:?}");
    assert!(kernels[1].ends_with("kernels/host=b/rank=1/pid=10/part-1.parquet"), "{kernels:?}");
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for path in kernels {
        for column in open(path).metadata().file_metadata().schema_descr().columns() {
            assert_ne!(column.physical_type(), parquet::basic::Type::INT32, "{}", column.name());
            let kind = format!("{:?}", column.logical_type_ref());
            assert!(!kind.contains("is_signed: false"), "{}", column.name());
        }
        for row in rows(path) {
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
    let bundle = bundle_of(|collector| {
        common::same_nanosecond(collector);
        vec![("h-1.s2t".to_owned(), None)]
    });
    let out = bundle.path().join("tables");
    let exported = export(bundle.path(), &out, &[]);
    assert_eq!((exported.counts.marks, exported.counts.marks_left_out), (1, 0));
    let rows = |table: &str| -> Vec<Vec<(String, Field)>> {
        let place = "host=h/rank=__HIVE_DEFAULT_PARTITION__/pid=1/part-0.parquet";
        rows(&out.join(table).join(place)).into_iter().map(Row::into_columns).collect()
    };
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
    let bundle = two_ranks();
    let out = bundle.path().join("part");
    let exported = export(bundle.path(), &out, &["--stage", "decode", "--window", "0..1"]);
    assert_eq!(exported.counts.kernels, 6);
    stage2_parquet(bundle.path(), &out, &[]).assert().code(2);
    let none = bundle.path().join("none");
    stage2_parquet(bundle.path(), &none, &["--stage", "warm-up"]).assert().code(2);
    stage2_parquet(&out, &none, &[]).assert().code(2);
    fs::remove_dir_all(bundle.path().join("collector")).expect("folder");
    stage2_parquet(bundle.path(), &none, &[]).assert().code(1);
    assert!(!none.exists());
}

/// A process on a host of a hostile name, with a range and a kernel of each name.
fn hostile(file: &Path, names: &[Vec<u8>]) {
    let mut writer = common::writer(file, "../../<h>/a=b\n");
    writer.write(&Record::Queue(Queue { id: 1, ..Queue::default() }));
    for (id, name) in (2..).zip(names) {
        writer.write(&Record::Name { id, bytes: name.clone() });
        writer.write(&Record::Shape(Shape { id, name: id, ..Shape::default() }));
        writer.write(&common::path(id, 0, id));
        let (range, at) = (u64::from(id), 100 * u64::from(id));
        let open = RangeOpen { start_end: false, ..common::opened(range, id, 0, at) };
        writer.write(&Record::RangeOpen(open));
        let kernel = common::kernel_at(1_000_000 + at, 1_000_010 + at, range);
        let what = What::Kernel { shape: id };
        writer.work(&GpuWork { what, correlation: range, ..kernel });
        writer.write(&Record::RangeClose { range, end: MonoNs(at + 50) });
    }
    common::end(writer);
}

#[test]
fn every_hostile_name_stays_a_cell_and_no_folder_lies_outside() {
    let cut = |(_, name): (&str, Vec<u8>)| name.get(..RECORD_BYTES).unwrap_or(&name).to_vec();
    let names: Vec<Vec<u8>> = hostile_names::all().into_iter().map(cut).collect();
    assert!(names.len() > 40);
    let bundle = bundle_of(|collector| {
        hostile(&collector.join("h-1.s2t"), &names);
        vec![("h-1.s2t".to_owned(), None)]
    });
    let out = bundle.path().join("tables");
    let exported = export(bundle.path(), &out, &[]);
    let count = names.len() as u64;
    assert_eq!((exported.counts.kernels, exported.counts.ranges), (count, count));
    let whole = out.canonicalize().expect("folder");
    for file in &exported.files {
        assert!(file.canonicalize().expect("file").starts_with(&whole), "{}", file.display());
    }
    let expected: BTreeSet<String> =
        names.iter().map(|name| stage2_contract::text::visible(name)).collect();
    for (table, column) in [("kernels", "kernel_name"), ("ranges", "name")] {
        let of = |file: &&PathBuf| file.to_string_lossy().contains(&format!("/{table}/"));
        let rows = exported.files.iter().filter(of).flat_map(|file| rows(file));
        let found: BTreeSet<String> = rows
            .filter_map(|row| match value(&row.into_columns(), column) {
                Field::Str(text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        let lost: Vec<&String> = expected.difference(&found).collect();
        assert!(lost.is_empty(), "{table}.{column}: {:.200?} of {:.200?}", lost, found);
    }
}
