//! Hostile names of kernels, ranges and the host -> tables that can be read back, with every name in them.

#[allow(dead_code, reason = "what acts in a page is for pages")]
#[path = "../../../../launcher/tests/it/common/hostile_names.rs"]
mod hostile_names;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use stage2_contract::trace::{
    Anchor, GpuNs, GpuWork, MonoNs, Process, Queue, RangeOpen, Record, Shape, WallNs, What, Writer,
};
use stage2_export::Exported;
use stage2_model::{ProcessCoverage, ProcessRow, Report, SCHEMA, SCHEMA_VERSION};

/// A record of a trace file holds no more.
const RECORD_BYTES: usize = 60_000;
const FILE: &str = "h-1.s2t";

/// A process on a host of a hostile name, with a range and a kernel of each name.
fn trace(folder: &Path, names: &[Vec<u8>]) {
    let file = File::create(folder.join(FILE)).expect("file");
    let mut writer = Writer::new(file).expect("header");
    let host = "../../<h>/a=b\n".into();
    writer.write(&Record::Process(Process { pid: 1, host, ..Process::default() }));
    for at in [10, 1_000_000] {
        let anchor = Anchor { gpu: GpuNs(1_000_000 + at), mono: MonoNs(at), wall: WallNs(at) };
        writer.write(&Record::Anchor(anchor));
    }
    writer.write(&Record::Queue(Queue { id: 1, ..Queue::default() }));
    for (id, name) in (1..).zip(names) {
        writer.write(&Record::Name { id, bytes: name.clone() });
        writer.write(&Record::Shape(Shape { id, name: id, ..Shape::default() }));
        let path = stage2_contract::trace::Path { id, parent: 0, name: id, domain: 0 };
        writer.write(&Record::Path(path));
        let (range, start) = (u64::from(id), 100 * u64::from(id));
        writer.write(&Record::RangeOpen(RangeOpen {
            range,
            path: id,
            thread: 1,
            parent: 0,
            start: MonoNs(start),
            ..RangeOpen::default()
        }));
        writer.work(&GpuWork {
            what: What::Kernel { shape: id },
            start: GpuNs(1_000_000 + start),
            end: GpuNs(1_000_000 + start + 10),
            queue: 1,
            range,
            correlation: range,
            graph_node: 0,
        });
        writer.write(&Record::RangeClose { range, end: MonoNs(start + 50) });
    }
    writer.write(&Record::End { reason: "exit".into() });
    writer.flush().expect("disk");
}

/// All texts of a column.
fn texts(files: &[PathBuf], column: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in files {
        let reader = SerializedFileReader::new(File::open(path).expect("file")).expect("parquet");
        for row in reader.get_row_iter(None).expect("rows") {
            let row = row.expect("row").into_columns();
            let cell = row.iter().find(|(name, _)| name == column).map(|(_, cell)| cell);
            if let Some(Field::Str(text)) = cell {
                found.insert(text.clone());
            }
        }
    }
    found
}

#[test]
fn every_hostile_name_stays_a_cell_and_no_folder_lies_outside() {
    let bundle = tempfile::tempdir().expect("folder");
    let collector = bundle.path().join("collector");
    fs::create_dir(&collector).expect("folder");
    let cut = |(_, name): (&str, Vec<u8>)| name.get(..RECORD_BYTES).unwrap_or(&name).to_vec();
    let names: Vec<Vec<u8>> = hostile_names::all().into_iter().map(cut).collect();
    assert!(names.len() > 40);
    trace(&collector, &names);
    let coverage = ProcessCoverage { file: FILE.into(), ..Default::default() };
    let mut report = Report {
        schema: SCHEMA.into(),
        schema_version: SCHEMA_VERSION,
        processes: vec![ProcessRow { file: FILE.into(), ..ProcessRow::default() }],
        ..Report::default()
    };
    report.coverage.processes.push(coverage);
    let text = serde_json::to_string(&report).expect("JSON");
    fs::write(bundle.path().join("metrics.json"), text).expect("file");

    let out = bundle.path().join("tables");
    let mut command = Command::cargo_bin("stage2-parquet").expect("the program");
    let done = command.arg(bundle.path()).arg(&out).assert().success();
    let exported: Exported = serde_json::from_slice(&done.get_output().stdout).expect("JSON");
    let count = names.len() as u64;
    assert_eq!((exported.counts.kernels, exported.counts.ranges), (count, count));
    let whole = out.canonicalize().expect("folder");
    for file in &exported.files {
        assert!(file.canonicalize().expect("file").starts_with(&whole), "{}", file.display());
    }
    let table = |name: &str| -> Vec<PathBuf> {
        let of = |file: &&PathBuf| file.to_string_lossy().contains(&format!("/{name}/"));
        exported.files.iter().filter(of).cloned().collect()
    };
    let expected: BTreeSet<String> =
        names.iter().map(|name| stage2_contract::text::visible(name)).collect();
    for (name, column) in [("kernels", "kernel_name"), ("ranges", "name")] {
        let found = texts(&table(name), column);
        let lost: Vec<&String> = expected.difference(&found).collect();
        assert!(lost.is_empty(), "{name}.{column}: {:.200?} of {:.200?}", lost, found);
    }
}
