//! The tables of `sim/data` -> shapes and the work of each sequence.

use std::collections::HashMap;
use std::fs::File;

use stage2_contract::trace::{Device, Record, Shape, Writer};

/// What an operation does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Runs the kernel of this shape.
    Kernel(u32),
    /// Copies bytes; `CUpti_ActivityMemcpyKind`.
    Copy(u64, u8),
    /// Fills bytes.
    Fill(u64),
}

/// An operation of a sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// What it does.
    pub(crate) work: Work,
    /// How long it runs, ns.
    pub(crate) duration_ns: u64,
    /// From the end of the one before to its start, ns.
    pub(crate) gap_ns: u64,
}

/// Everything recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Prefill, decode step, graph replay.
    pub(crate) sequences: [Vec<Op>; 3],
    /// The GPU, without what tells it from others.
    pub(crate) device: Device,
    names: Vec<&'static str>,
    /// Duration of a call of each shape, ns, in the order of their identifiers.
    pub(crate) durations: Vec<u64>,
    /// `name` is the row of `names`.
    shapes: Vec<Shape>,
    /// Numbers of blocks that each recorded launch configuration comes in.
    grids: u32,
}

impl Recorded {
    /// Reads the tables; each launch configuration comes in so many numbers of blocks.
    pub(crate) fn read(grids: u32) -> Result<Self, String> {
        let mut shapes = HashMap::new();
        let mut read = |file: &str, table: &'static str| {
            let op =
                |(row, line)| op(line, &mut shapes).ok_or(format!("{file}: row {row}: {line}"));
            table.lines().enumerate().skip(1).map(op).collect::<Result<Vec<Op>, String>>()
        };
        let sequences = [
            read("prefill.tsv", include_str!("../../../sim/data/prefill.tsv"))?,
            read("decode.tsv", include_str!("../../../sim/data/decode.tsv"))?,
            read("graph.tsv", include_str!("../../../sim/data/graph.tsv"))?,
        ];
        let mut shapes: Vec<Shape> =
            shapes.into_iter().map(|(shape, id)| Shape { id, ..shape }).collect();
        shapes.sort_unstable_by_key(|shape| shape.id);
        let recorded = shapes.len() as u32;
        let more = |grid: u32| {
            let shapes = shapes.iter().map(move |shape| {
                let [x, y, z] = shape.grid;
                Shape { id: shape.id + grid * recorded, grid: [x + grid, y, z], ..*shape }
            });
            shapes.collect::<Vec<Shape>>()
        };
        let shapes: Vec<Shape> = (0..grids).flat_map(more).collect();
        let durations = durations(&sequences, recorded as usize).repeat(grids as usize);
        let names = include_str!("../../../sim/data/names.tsv").lines().skip(1);
        let names = names.filter_map(|line| Some(line.split_once('\t')?.1)).collect();
        Ok(Self { sequences, device: device(), names, durations, shapes, grids })
    }

    /// Number of the launch configuration that differs from `shape` in its number of blocks, which
    /// `grid` chooses.
    pub(crate) fn with_grid(&self, shape: u32, grid: u32) -> u32 {
        shape + grid % self.grids * (self.shapes.len() as u32 / self.grids)
    }

    /// Writes names and shapes, the former after the first `names` of the file.
    pub(crate) fn define(&self, writer: &mut Writer<File>, names: u32) {
        for (id, name) in (names + 1..).zip(&self.names) {
            writer.write(&Record::Name { id, bytes: name.as_bytes().to_vec() });
        }
        for shape in &self.shapes {
            writer.write(&Record::Shape(Shape { name: names + 1 + shape.name, ..*shape }));
        }
    }
}

/// The shortest call of each shape: what a call moves has to fit into all of them.
fn durations(sequences: &[Vec<Op>], shapes: usize) -> Vec<u64> {
    let mut shortest = vec![u64::MAX; shapes];
    for op in sequences.iter().flatten() {
        if let Work::Kernel(shape) = op.work {
            let of_shape = &mut shortest[shape as usize - 1];
            *of_shape = op.duration_ns.min(*of_shape);
        }
    }
    shortest
}

fn device() -> Device {
    let facts: HashMap<&str, u64> = include_str!("../../../sim/data/device.tsv")
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(key, value)| Some((key, value.parse().ok()?)))
        .collect();
    let fact = |key: &str| facts.get(key).copied().unwrap_or_default();
    Device {
        name: b"NVIDIA H200 (generated)".to_vec(),
        multiprocessors: fact("multiprocessors") as u32,
        compute_capability: (
            fact("compute_capability_major") as u32,
            fact("compute_capability_minor") as u32,
        ),
        memory_bytes: fact("global_memory_bytes"),
        bandwidth_kb_per_s: fact("global_memory_bandwidth_kb_per_s"),
        core_clock_khz: fact("core_clock_khz") as u32,
        l2_bytes: fact("l2_cache_bytes") as u32,
        ..Device::default()
    }
}

/// Reads a row, and gives a new shape the next identifier.
fn op(line: &str, shapes: &mut HashMap<Shape, u32>) -> Option<Op> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[op, name, grid, block, fixed, dynamic, registers, local, bytes, kind, _, duration, gap] =
        fields.as_slice()
    else {
        return None;
    };
    let work = match op {
        "kernel" => {
            let shape = Shape {
                id: 0,
                name: name.parse().ok()?,
                grid: dimensions(grid)?,
                block: dimensions(block)?,
                static_shared_bytes: fixed.parse().ok()?,
                dynamic_shared_bytes: dynamic.parse().ok()?,
                registers_per_thread: registers.parse().ok()?,
                local_bytes_per_thread: local.parse().ok()?,
            };
            let fresh = shapes.len() as u32 + 1;
            Work::Kernel(*shapes.entry(shape).or_insert(fresh))
        }
        "memcpy" => Work::Copy(bytes.parse().ok()?, kind.parse().ok()?),
        "memset" => Work::Fill(bytes.parse().ok()?),
        _ => return None,
    };
    // Overlap with the work before is left out.
    let gap_ns = gap.parse::<i64>().ok()?.max(0) as u64;
    Some(Op { work, duration_ns: duration.parse().ok()?, gap_ns })
}

fn dimensions(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split('x').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}
