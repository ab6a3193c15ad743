//! Trace files and exports of nsys that are compressed: reports and merges are the same as from the
//! others, and what is damaged costs its own part.

use crate::common;
use crate::nsys_export;
use std::fs::{self, File};
use std::path::Path;

use crate::common::Sandbox;
use flate2::Compression;
use flate2::write::GzEncoder;
use predicates::prelude::*;
use predicates::str::contains;
use stage2_contract::trace::{
    Anchor, Device, GpuNs, GpuWork, MonoNs, Process, Queue, Record, Shape, WallNs, What, Writer,
};

fn spool(path: &Path) {
    let mut writer = Writer::new(File::create(path).expect("spool")).expect("spool");
    writer.write(&Record::Process(Process { pid: 1, host: "node".into(), ..Process::default() }));
    writer.write(&Record::Anchor(Anchor { gpu: GpuNs(1), mono: MonoNs(1), wall: WallNs(1) }));
    writer.write(&Record::Device(Device { name: b"GPU".to_vec(), ..Device::default() }));
    writer.write(&Record::Queue(Queue { id: 1, device: 0, context: 1, stream: 7 }));
    writer.write(&Record::Name { id: 1, bytes: b"_Z6kernelv".to_vec() });
    let (grid, block) = ([1; 3], [32, 1, 1]);
    writer.write(&Record::Shape(Shape { id: 1, name: 1, grid, block, ..Shape::default() }));
    for n in 1..=500 {
        let (start, end) = (GpuNs(1_000 * n), GpuNs(1_000 * n + 500));
        let kernel = GpuWork::new(What::Kernel { shape: 1 });
        writer.work(&GpuWork { start, end, queue: 1, ..kernel });
    }
    writer.write(&Record::End { reason: "exit".into() });
    writer.flush().expect("spool");
}

/// As `gzip` does.
fn compress(path: &Path) {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    let mut packer = GzEncoder::new(File::create(name).expect("file"), Compression::default());
    std::io::copy(&mut File::open(path).expect("file"), &mut packer).expect("packed");
    packer.finish().expect("packed");
    fs::remove_file(path).expect("removed");
}

fn captures() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("in")).expect("folder");
    spool(&sandbox.path("in/node-1.s2t"));
    let export = nsys_export::unpack("decode", &sandbox.path("in"));
    fs::rename(export, sandbox.path("in/run.sqlite")).expect("renamed");
    let words = ["merge", "--spool", "in", "--nsys", "in/run.sqlite", "-o", "plain/bundle"];
    sandbox.launch(&words).assert().success();
    sandbox
}

const PAGES: [&str; 4] = ["kernels.md", "kernels.csv", "operators.md", "metrics.json"];

fn pages(sandbox: &Sandbox, dir: &str) -> Vec<String> {
    PAGES.iter().map(|page| common::read(&sandbox.path(dir).join(page))).collect()
}

#[test]
fn reports_of_compressed_captures_are_the_same() {
    let sandbox = captures();
    sandbox.launch(&["report", "plain/bundle"]).assert().success();
    let before = pages(&sandbox, "plain/bundle");
    assert!(before[0].contains("kernel"), "{}", before[0]);
    for file in ["collector/node-1.s2t", "nsys/run.sqlite"] {
        compress(&sandbox.path("plain/bundle").join(file));
    }
    sandbox.launch(&["report", "plain/bundle"]).assert().success();
    for (page, (before, after)) in
        PAGES.iter().zip(before.iter().zip(pages(&sandbox, "plain/bundle")))
    {
        // The export is named as it lies there.
        assert_eq!(*before, after.replace("run.sqlite.gz", "run.sqlite"), "{page}");
    }
    let left = fs::read_dir(sandbox.path("plain/bundle/nsys")).expect("folder").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn compressed_captures_are_merged_and_damage_is_told() {
    let sandbox = captures();
    let before = pages(&sandbox, "plain/bundle");
    compress(&sandbox.path("in/node-1.s2t"));
    compress(&sandbox.path("in/run.sqlite"));
    let merge = |out: &str| {
        let words = ["merge", "--spool", "in", "--nsys", "in/run.sqlite.gz", "-o", out];
        sandbox.launch(&words).assert()
    };
    merge("again/bundle").success();
    assert!(sandbox.path("again/bundle/collector/node-1.s2t").is_file(), "as it was");
    assert!(sandbox.path("again/bundle/nsys/run.sqlite").is_file(), "as it was");
    assert_eq!(pages(&sandbox, "again/bundle")[..3], before[..3]);

    for file in ["in/node-1.s2t.gz", "in/run.sqlite.gz"] {
        let bytes = fs::read(sandbox.path(file)).expect("file");
        fs::write(sandbox.path(file), &bytes[..bytes.len() / 2]).expect("cut");
    }
    let told = contains("node-1.s2t.gz").and(contains("cannot be unpacked"));
    merge("cut/bundle").stderr(told);
    assert!(!sandbox.path("cut/bundle/nsys/run.sqlite").exists(), "no half of it");
    // In a bundle what comes before the damage is read, and the rest is missed.
    fs::copy(
        sandbox.path("in/node-1.s2t.gz"),
        sandbox.path("again/bundle/collector/node-1.s2t.gz"),
    )
    .expect("copied");
    fs::remove_file(sandbox.path("again/bundle/collector/node-1.s2t")).expect("removed");
    sandbox.launch(&["report", "again/bundle"]).assert().success().stderr(contains("node-1.s2t"));
}
