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
use stage2_export::{Exported, Said};
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
    let said = String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8");
    let mut lines = said.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let (about, done) = (lines.next().expect("a line"), lines.next().expect("a second one"));
    let (Said::About(space), Said::Done(exported)) = (about, done) else { panic!("{said}") };
    assert!(space.needed > 0 && space.free.is_some(), "{space:?}");
    *exported
}

/// Paths of a dataset by what they hold, below `out`.
fn tables(out: &Path, exported: &Exported, table: &str) -> Vec<String> {
    let within = |file: &PathBuf| file.strip_prefix(out).expect("below").display().to_string();
    exported
        .files
        .iter()
        .map(within)
        .filter(|file| file.starts_with(&format!("{table}/")))
        .collect()
}

fn manifests(out: &Path) -> Vec<serde_json::Value> {
    let files = fs::read_dir(out.join("_stage2")).expect("folder");
    let files = files.map(|file| fs::read_to_string(file.expect("file").path()).expect("file"));
    files.map(|text| serde_json::from_str(&text).expect("JSON")).collect()
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
    let out = bundle.path().join("tables");
    let exported = export(bundle.path(), &out, &["--job", "j/1"]);
    assert_eq!((exported.counts.kernels, exported.counts.without_times), (20, 2));
    let kernels = tables(&out, &exported, "kernels");
    assert_eq!(kernels.len(), 2);
    // 1,700,000,000 s after 1970.
    for (path, place) in kernels.iter().zip(["host=a/rank=0", "host=b/rank=1"]) {
        let folder = format!("kernels/job=j%2F1/{place}/hour=2023111422/");
        assert!(path.starts_with(&folder) && path.ends_with(".parquet"), "{path}");
    }
    assert!(exported.notes.iter().any(|note| note.contains("and the job")), "{:?}", exported.notes);
    let kernels = kernels.iter().map(|path| out.join(path));
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for path in kernels {
        for column in open(&path).metadata().file_metadata().schema_descr().columns() {
            assert_ne!(column.physical_type(), parquet::basic::Type::INT32, "{}", column.name());
            let kind = format!("{:?}", column.logical_type_ref());
            assert!(!kind.contains("is_signed: false"), "{}", column.name());
        }
        for row in rows(&path) {
            let (start, end) = (row.get_long(1).expect("start"), row.get_long(2).expect("end"));
            let duration = row.get_long(3).expect("duration_ns");
            assert_eq!((end - start, row.get_long(0).expect("pid")), (duration, 10));
            *sums.entry(row.get_string(4).expect("stage").clone()).or_default() += duration;
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
        let files = tables(&out, &exported, table);
        assert!(files[0].contains("/host=h/rank=__HIVE_DEFAULT_PARTITION__/hour=1970010100/"));
        rows(&out.join(&files[0])).into_iter().map(Row::into_columns).collect()
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

/// The number of rows of a table in all files that are there, whatever was said of them.
fn rows_there(folder: &Path) -> u64 {
    let entries =
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("entry").path());
    let rows = |path: PathBuf| match path.is_dir() {
        true => rows_there(&path),
        false => rows(&path).len() as u64,
    };
    entries.map(rows).sum()
}

/// Hazard (Resources): Runs are added to a dataset that others read, some of them twice.
/// Promise: Existing files are not written again, nothing is duplicated, and each addition is described.
#[test]
fn later_runs_are_added_and_the_same_one_is_not_added_twice() {
    let (first, out) = (two_ranks(), tempfile::tempdir().expect("folder"));
    let out = out.path().join("data");
    export(first.path(), &out, &["--job", "train"]);
    let before = names_and_times(&out);
    let refused = |more: &[&str], bundle: &Path, code: i32, why: &str| {
        let done = stage2_parquet(bundle, &out, more).assert().code(code);
        let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(said.contains(why), "{said}");
    };
    refused(&["--job", "train"], first.path(), 2, "exists already");
    refused(&["--job", "train", "--append"], first.path(), 2, "delete the files that _stage2/");
    // The same processes in another bundle, beside one more.
    let second = bundle_of(|collector| {
        let file = |path: PathBuf| path.file_name().expect("name").to_string_lossy().into_owned();
        let same = file(common::trace(collector, 10, "a", 0));
        vec![(same, Some(0)), (file(common::trace(collector, 12, "c", 7_000)), Some(0))]
    });
    refused(&["--job", "train", "--append"], second.path(), 2, "already");
    assert_eq!(names_and_times(&out), before, "what was refused left nothing");
    let third = bundle_of(|collector| {
        let path = common::trace(collector, 12, "c", 7_000);
        vec![(path.file_name().expect("name").to_string_lossy().into_owned(), Some(0))]
    });
    let exported = export(third.path(), &out, &["--job", "train", "--append"]);
    assert_eq!(exported.counts.kernels, 10);
    let after = names_and_times(&out);
    assert!(before.iter().all(|file| after.contains(file)), "a file was written again");
    assert_eq!(rows_there(&out.join("kernels")), 30);
    let sums: Vec<(u64, usize)> = manifests(&out)
        .iter()
        .map(|of| {
            (
                of["tables"]["kernels"]["rows"].as_u64().expect("rows"),
                of["processes"].as_array().map_or(0, Vec::len),
            )
        })
        .collect();
    assert_eq!(sums.iter().map(|(rows, _)| rows).sum::<u64>(), 30, "{sums:?}");
    assert_eq!(sums.iter().map(|(_, processes)| processes).sum::<usize>(), 3);
    let plain = tempfile::tempdir().expect("folder");
    let done = stage2_parquet(third.path(), plain.path(), &["--append"]).assert().code(2);
    assert!(String::from_utf8_lossy(&done.get_output().stderr).contains("is not a dataset"));
}

/// Files below a folder, with when each was written.
fn names_and_times(folder: &Path) -> BTreeSet<(PathBuf, std::time::SystemTime)> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("folder") {
        let path = entry.expect("entry").path();
        match path.is_dir() {
            true => all.extend(names_and_times(&path)),
            false => {
                let changed = fs::metadata(&path).and_then(|file| file.modified()).expect("time");
                all.insert((path, changed));
            }
        }
    }
    all
}

/// Hazard (Resources): An addition to a dataset is interrupted, when a part of its files is in place.
/// Promise: The addition can be repeated, and nothing is duplicated.
#[test]
fn an_addition_that_was_interrupted_is_repeated() {
    let (first, second) = (two_ranks(), tempfile::tempdir().expect("folder"));
    let out = second.path().join("data");
    export(first.path(), &out, &[]);
    let added = bundle_of(|collector| {
        let path = common::trace(collector, 12, "c", 7_000);
        vec![(path.file_name().expect("name").to_string_lossy().into_owned(), Some(4))]
    });
    let exported = export(added.path(), &out, &["--append"]);
    // As it is left by a kill before the last move.
    let manifest = exported.files.iter().find(|file| file.extension().is_some_and(|e| e == "json"));
    let manifest = manifest.expect("a manifest");
    fs::remove_file(manifest).expect("file");
    fs::write(manifest.with_extension("begun"), "").expect("file");
    export(added.path(), &out, &["--append"]);
    assert_eq!(rows_there(&out.join("kernels")), 30);
    assert!(manifest.is_file() && !manifest.with_extension("begun").exists());
}

#[test]
fn ranks_that_two_processes_have_are_told_apart_and_said() {
    let bundle = bundle_of(|collector| {
        let rank = |pid| {
            let path = common::trace(collector, pid, "a", 1_000 * u64::from(pid));
            (path.file_name().expect("name").to_string_lossy().into_owned(), Some(3))
        };
        vec![rank(10), rank(11)]
    });
    let out = bundle.path().join("tables");
    let exported = export(bundle.path(), &out, &[]);
    let kernels = tables(&out, &exported, "kernels");
    assert_eq!(kernels.len(), 2, "{kernels:?}");
    let said = exported.notes.join("; ");
    assert!(said.contains("1: rank 3 (processes 10, 11)"), "{said}");
    assert_eq!(manifests(&out)[0]["notes"][0].as_str(), Some(said.as_str()));
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
    let escaped = exported.notes.iter().any(|note| note.contains("escaped: 1 of 1 hosts"));
    assert!(escaped, "{:?}", exported.notes);
    let whole = out.canonicalize().expect("folder");
    for file in &exported.files {
        assert!(file.canonicalize().expect("file").starts_with(&whole), "{}", file.display());
    }
    let expected: BTreeSet<String> =
        names.iter().map(|name| stage2_contract::text::visible(name)).collect();
    for (table, column) in [("kernels", "kernel_name"), ("ranges", "name")] {
        let of = |file: &&PathBuf| file.to_string_lossy().contains(&format!("/{table}/job="));
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
