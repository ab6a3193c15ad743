//! A synthetic capture of many kernels -> how long its reports take, and the peak memory.
//!
//! `cargo run --release -p stage2-launch --example report_speed -- [KERNELS] [FILES] [NESTED]`
//! writes KERNELS (10 million) kernels in FILES (1) spools, decode steps of 694 kernels on two
//! streams; NESTED (0) other than 0 opens a range of its own around every second kernel.

use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use stage2_launch::report::write_reports;
use stage2_spool::{
    Anchor, Device, GpuNs, Kernel, MonoNs, Path as RangePath, Process, Queue, RangeOpen, Record,
    Shape, WallNs, Writer,
};

const KERNELS_PER_STEP: u64 = 694;
const LAYERS: u32 = 32;
const SHAPES: u32 = 60;

fn main() -> anyhow::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let mut next = |default| numbers.next().unwrap_or(Ok(default)).context("numbers are needed");
    let (kernels, files, nested) = (next(10_000_000)?, next(1)?, next(0)?);
    let folder = std::env::temp_dir().join(format!("report-speed-{}", std::process::id()));
    let collector = folder.join("collector");
    fs::create_dir_all(&collector)?;
    for pid in 1..=files {
        write(&collector.join(format!("node-{pid}.s2t")), pid as u32, kernels / files, nested > 0)?;
    }
    let bytes: u64 =
        fs::read_dir(&collector)?.flatten().flat_map(|f| f.metadata()).map(|m| m.len()).sum();
    println!(
        "{kernels} kernels in {files} files: {:.1} MiB; memory so far: {}",
        bytes as f64 / 1048576.0,
        peak()
    );
    let start = Instant::now();
    let outcome = write_reports(&folder)?;
    println!("reports: {:.2} s; peak memory: {}", start.elapsed().as_secs_f64(), peak());
    outcome.headline.iter().for_each(|line| println!("{line}"));
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Peak resident memory of this process, as Linux states it.
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.map_or_else(
        || "not known".to_owned(),
        |line| line.trim_start_matches("VmHWM:").trim().to_owned(),
    )
}

fn write(path: &Path, pid: u32, kernels: u64, nested: bool) -> anyhow::Result<()> {
    let mut writer = Writer::new(File::create(path)?)?;
    define(&mut writer, pid);
    let mut range = 0u64;
    let mut clock = 1_000_000u64;
    let mut written = 0;
    while written < kernels {
        range += 1;
        let step = range;
        writer.write(&opened(step, 1, 0, clock));
        for i in 0..KERNELS_PER_STEP.min(kernels - written) {
            let layer = 2 + (i * u64::from(LAYERS) / KERNELS_PER_STEP) as u32;
            if nested && i % 2 == 0 {
                range += 1;
                writer.write(&opened(range, layer, step, clock));
                writer.write(&Record::RangeClose { range, end: MonoNs(clock + 900) });
            }
            // Two streams that overlap; the second one's records come a little out of order.
            let start = clock + if i % 7 == 3 { 0 } else { 300 };
            writer.kernel(&Kernel {
                start: GpuNs(start),
                end: GpuNs(start + 900 + (written * 2_654_435_761) % 4_000),
                shape: 1 + (i % u64::from(SHAPES)) as u32,
                queue: 1 + u32::from(i % 7 == 3),
                range: if nested { range } else { step },
                correlation: written,
                graph_node: 0,
            });
            clock += 2_000;
            written += 1;
        }
        writer.write(&Record::RangeClose { range: step, end: MonoNs(clock) });
        clock += 5_000;
    }
    writer.write(&Record::End { reason: "exit".into() });
    Ok(writer.flush()?)
}

fn define(writer: &mut Writer<File>, pid: u32) {
    let process = Process { pid, host: "node".into(), ..Process::default() };
    writer.write(&Record::Process(process));
    writer.write(&Record::Anchor(Anchor { gpu: GpuNs(1), mono: MonoNs(1), wall: WallNs(1) }));
    writer.write(&Record::Device(Device { name: b"Synthetic".to_vec(), ..Device::default() }));
    for id in 1..=2 {
        writer.write(&Record::Queue(Queue { id, device: 0, context: 1, stream: id }));
    }
    writer.write(&Record::Name { id: 1, bytes: b"decode".to_vec() });
    writer.write(&Record::Path(RangePath { id: 1, parent: 0, name: 1, domain: 0 }));
    for layer in 0..LAYERS {
        let (name, id) = (2 + layer, 2 + layer);
        writer.write(&Record::Name { id: name, bytes: format!("layer.{layer}").into_bytes() });
        writer.write(&Record::Path(RangePath { id, parent: 1, name, domain: 0 }));
    }
    for shape in 1..=SHAPES {
        let name = 1_000 + shape;
        let bytes = format!("_Z9kernel_{:02}Pfi", shape).into_bytes();
        writer.write(&Record::Name { id: name, bytes });
        let (grid, block) = ([shape, 1, 1], [128, 1, 1]);
        writer.write(&Record::Shape(Shape { id: shape, name, grid, block, ..Shape::default() }));
    }
}

fn opened(range: u64, path: u32, parent: u64, start: u64) -> Record {
    Record::RangeOpen(RangeOpen {
        range,
        path,
        thread: 1,
        parent,
        start: MonoNs(start),
        start_end: false,
        category: 0,
        payload: None,
        continues: 0,
    })
}
