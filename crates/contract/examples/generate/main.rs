//! A few numbers -> a folder of trace files as a large run leaves them, for measuring what reads
//! them.
//!
//! `cargo run --release -p stage2-contract --example generate -- DIR [NAME=NUMBER]...` with
//! `kernels` (10000000), `kernels_per_range` (9), `paths` (1000), `devices` (8), `processes` (4),
//! `grids` (1), `sample_ns` (0) and `seed` (1). The kernels are those that `sim/data` records of an LLM, in their order, with
//! their launch configurations and durations (varied by -4 to +10 %, one in a thousand eight times
//! as long). Stages prefill and decode launch them one by one under ranges
//! `STAGE/layer.N/op.M`, the stage replay as a CUDA graph. Every device has a thread of its own,
//! and kernels come into the file in whole buffers, after their ranges, as the collector writes
//! them. Steps run every kernel with `grids` numbers of blocks in turn, as inputs of different lengths
//! have it. With `sample_ns`, every device has samples of its counters, each of so many ns. The same
//! numbers give the same bytes.

mod lane;
mod recorded;
mod sampler;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lane::Lane;
use recorded::Recorded;
use sampler::Sampler;
use stage2_contract::trace::{
    Anchor, Device, GpuNs, MonoNs, Path as RangePath, Process, Queue, Record, WallNs, Writer,
    file_name,
};

/// Stages, by the index of the recorded sequence that each runs.
const STAGES: [&str; 3] = ["prefill", "decode", "replay"];
/// The stage whose kernels a CUDA graph launches, under no further range.
const REPLAY: usize = 2;
/// Ranges in a layer.
const OPS_PER_LAYER: usize = 8;
/// Pieces of GPU work that one buffer of the collector holds.
const BUFFER: usize = 16_384;
/// The GPU's clock against the monotonic one, ns.
const GPU_AHEAD_NS: u64 = 1_789_000_000_000_000_000;

/// The options: name, default and accepted values.
const NUMBERS: [(&str, u64, RangeInclusive<u64>); 8] = [
    ("kernels", 10_000_000, 1..=u64::MAX),
    ("kernels_per_range", 9, 1..=1_000_000),
    ("paths", 1_000, 1..=1_000_000),
    ("devices", 8, 1..=1_024),
    ("processes", 4, 1..=10_000),
    ("grids", 1, 1..=1_000),
    ("sample_ns", 0, 0..=u64::MAX),
    ("seed", 1, 0..=u64::MAX),
];

/// What is asked for, by name.
struct Numbers(BTreeMap<&'static str, u64>);

impl Numbers {
    fn get(&self, name: &str) -> u64 {
        self.0[name]
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    kernels: u64,
    others: u64,
    ranges: u64,
    samples: u64,
    bytes: u64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = parse(&words).and_then(|(folder, numbers)| generate(&folder, &numbers));
    match done {
        Ok(Written { kernels, others, ranges, samples, bytes }) => {
            println!(
                "{kernels} kernels, {others} copies and fills, {ranges} ranges, {samples} counter \
                 samples, {bytes} bytes"
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("generate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[String]) -> Result<(PathBuf, Numbers), Box<dyn Error>> {
    let mut numbers: BTreeMap<_, _> =
        NUMBERS.iter().map(|(name, default, _)| (*name, *default)).collect();
    let (folder, words) = words.split_first().ok_or("give DIR [NAME=NUMBER]...")?;
    for word in words {
        let (name, value) = word.split_once('=').ok_or(format!("{word}: give NAME=NUMBER"))?;
        let number = numbers.get_mut(name).ok_or(format!("{name}: there is no such number"))?;
        *number = value.parse().map_err(|error| format!("{word}: {error}"))?;
    }
    for (name, _, accepted) in &NUMBERS {
        let value = numbers[name];
        if !accepted.contains(&value) {
            let (least, most) = (accepted.start(), accepted.end());
            return Err(format!("{name}={value}: give {least} to {most}").into());
        }
    }
    if let ns @ 1..1_000 = numbers["sample_ns"] {
        return Err(format!("sample_ns={ns}: give 0 or 1000 and more").into());
    }
    Ok((folder.into(), Numbers(numbers)))
}

fn generate(folder: &Path, numbers: &Numbers) -> Result<Written, Box<dyn Error>> {
    let recorded = Recorded::read(numbers.get("grids") as u32)?;
    fs::create_dir_all(folder)?;
    let mut sum = Written::default();
    for process in 0..numbers.get("processes") {
        let path = folder.join(file_name("node", 1_000 + process as u32));
        one(&path, &recorded, numbers, process, &mut sum)
            .map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(sum)
}

/// Writes the trace file of one process, and adds it to what was written.
fn one(
    path: &Path,
    recorded: &Recorded,
    numbers: &Numbers,
    process: u64,
    written: &mut Written,
) -> Result<(), Box<dyn Error>> {
    let (all, processes) = (numbers.get("kernels"), numbers.get("processes"));
    let kernels = written.kernels + all / processes + u64::from(process < all % processes);
    let mut writer = Writer::new(File::create_new(path)?)?;
    let traced = Process {
        pid: 1_000 + process as u32,
        ppid: 1,
        host: "node".into(),
        exe: "/usr/bin/python3".into(),
        argv: vec!["python3".into(), "generated".into()],
        collector: "generated".into(),
    };
    writer.write(&Record::Process(traced));
    let anchor = |at| {
        Record::Anchor(Anchor { gpu: GpuNs(GPU_AHEAD_NS + at), mono: MonoNs(at), wall: WallNs(at) })
    };
    writer.write(&anchor(1));
    let nodes = define_paths(&mut writer, numbers.get("paths"));
    recorded.define(&mut writer, nodes.names);
    // Where there are fewer devices than processes, processes share them.
    let devices = numbers.get("devices");
    let own: Vec<u64> = (0..devices).filter(|device| device % processes == process).collect();
    let own = if own.is_empty() { vec![process % devices] } else { own };
    let (mut lanes, mut samplers) = (Vec::new(), Vec::new());
    for (thread, &device) in (1..).zip(&own) {
        define_device(&mut writer, recorded, device as u32, thread);
        let lane = Lane::new(thread, numbers.get("seed") ^ (process << 32) ^ (device << 48));
        let sample_ns = numbers.get("sample_ns");
        if sample_ns > 0 {
            let sampler = Sampler::new(thread, sample_ns, lane.now(), &recorded.durations);
            sampler.define(device as u32, &mut writer);
            samplers.push(sampler);
        }
        lanes.push(lane);
    }
    let mut work = Vec::with_capacity(2 * BUFFER);
    let (per_range, mut next_range) = (numbers.get("kernels_per_range"), 1);
    while written.kernels < kernels {
        let first = next_range;
        let mut buffers: Vec<Vec<Record>> = Vec::new();
        for lane in &mut lanes {
            while work.len() < BUFFER && written.kernels < kernels {
                let size = per_range.min(kernels - written.kernels);
                written.kernels +=
                    lane.range(&nodes, recorded, size, &mut next_range, &mut writer, &mut work);
            }
            buffers.push(std::mem::take(&mut work));
        }
        written.ranges += next_range - first;
        for record in buffers.iter().flatten() {
            writer.write(record);
            written.others += u64::from(!matches!(record, Record::Work(work) if work.is_kernel()));
        }
        for (sampler, buffer) in samplers.iter_mut().zip(&buffers) {
            buffer.iter().for_each(|record| sampler.work(record, &mut writer));
        }
    }
    for lane in &mut lanes {
        lane.end(&mut writer);
    }
    for sampler in &mut samplers {
        written.samples += sampler.end(&mut writer);
    }
    writer.write(&anchor(lanes.iter().map(Lane::now).max().unwrap_or(2)));
    writer.write(&Record::End { reason: "exit".into() });
    writer.flush()?;
    written.bytes += writer.into_sink().metadata()?.len();
    Ok(())
}

/// The paths of a process.
struct Nodes {
    /// Paths of each stage: the stage itself, then layers, each followed by what is in it.
    stages: [Vec<u32>; 3],
    /// Names that were given out.
    names: u32,
}

fn define_paths(writer: &mut Writer<File>, paths: u64) -> Nodes {
    let mut names = 0;
    let mut name = |writer: &mut Writer<File>, text: String| {
        names += 1;
        writer.write(&Record::Name { id: names, bytes: text.into_bytes() });
        names
    };
    let mut id = 0;
    let mut path = |writer: &mut Writer<File>, parent, name| {
        id += 1;
        writer.write(&Record::Path(RangePath { id, parent, name, domain: 0 }));
        id
    };
    let mut stages = [const { Vec::new() }; 3];
    for (stage, text) in stages.iter_mut().zip(STAGES) {
        let name = name(writer, text.into());
        stage.push(path(writer, 0, name));
    }
    let ops: Vec<u32> = (0..OPS_PER_LAYER).map(|op| name(writer, format!("op.{op}"))).collect();
    let below = usize::try_from(paths.saturating_sub(3)).unwrap_or(usize::MAX);
    for (stage, count) in stages.iter_mut().zip([below / 2, below - below / 2]) {
        let (top, mut layer) = (stage[0], 0);
        for at in 0..count {
            let (parent, name) = match at % (OPS_PER_LAYER + 1) {
                0 => (top, name(writer, format!("layer.{}", at / (OPS_PER_LAYER + 1)))),
                op => (layer, ops[op - 1]),
            };
            let node = path(writer, parent, name);
            if parent == top {
                layer = node;
            }
            stage.push(node);
        }
    }
    Nodes { stages, names }
}

fn define_device(writer: &mut Writer<File>, recorded: &Recorded, id: u32, thread: u32) {
    let mut uuid = [0; 16];
    uuid[15] = 1 + id as u8;
    uuid[14] = (id >> 8) as u8;
    writer.write(&Record::Device(Device { id, uuid, ..recorded.device.clone() }));
    writer.write(&Record::Queue(Queue { id: thread, device: id, context: 1, stream: 7 }));
    let name = format!("rank-{id}").into_bytes();
    writer.write(&Record::Thread { id: thread, os_tid: 4_000 + thread, name });
}
