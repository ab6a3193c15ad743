//! Records to the bytes of a block and back, as [`crate::trace`] lays them out.

use crate::trace::record::*;
use crate::trace::samples::{self, Detail};
use crate::trace::varint::{Cursor, put, put_bytes, put_step, zigzag};

#[inline]
pub(crate) fn put_work(out: &mut Vec<u8>, delta: &mut Delta, work: &GpuWork) {
    let base = match work.what {
        What::Kernel { .. } => tag::KERNEL,
        What::Copy { .. } => tag::COPY,
        What::Fill { .. } | What::Graph { .. } => tag::FILL,
    };
    let range = match work.range {
        same if same == delta.range => tag::RANGE_SAME,
        RANGE_OUTSIDE => tag::RANGE_OUTSIDE,
        RANGE_UNKNOWN => tag::RANGE_UNKNOWN,
        _ => tag::RANGE_STEP,
    };
    let queue = if work.queue == delta.queue { 0 } else { tag::QUEUE };
    let node = if work.graph_node == 0 { 0 } else { tag::GRAPH_NODE };

    out.push(base | queue | range | node);
    put_step(out, delta.end, work.start.0);
    put(out, work.end.0.wrapping_sub(work.start.0));
    put_step(out, delta.correlation, work.correlation);
    delta.end = work.end.0;
    delta.correlation = work.correlation;
    delta.range = work.range;
    if queue != 0 {
        put(out, work.queue.into());
        delta.queue = work.queue;
    }
    if range == tag::RANGE_STEP {
        put_step(out, delta.instance, work.range);
        delta.instance = work.range;
    }
    if node != 0 {
        put_step(out, delta.graph_node, work.graph_node);
        delta.graph_node = work.graph_node;
    }
    match work.what {
        What::Kernel { shape } => put(out, shape.into()),
        What::Copy { bytes, kind } => {
            put(out, bytes);
            out.push(kind);
        }
        What::Fill { bytes } => put(out, bytes),
        What::Graph { .. } => {}
    }
}

/// Appends any record. `scratch` is room to build those in that their length goes before.
pub(crate) fn put_record(
    out: &mut Vec<u8>,
    delta: &mut Delta,
    scratch: &mut Vec<u8>,
    record: &Record,
) {
    scratch.clear();
    let tag = match record {
        Record::Work(GpuWork {
            what: What::Graph { graph },
            start,
            end,
            queue,
            range,
            correlation,
            ..
        }) => {
            put_all(scratch, [start.0, end.0.wrapping_sub(start.0), (*queue).into()]);
            // One more than it is, modulo 2^64: that makes the unknown range the shortest number.
            put_all(scratch, [range.wrapping_add(1), *correlation, (*graph).into()]);
            tag::GRAPH_LAUNCH
        }
        Record::Work(it) => return put_work(out, delta, it),
        Record::RangeOpen(it) => return put_range_open(out, delta, it),
        &Record::RangeClose { range, end } => {
            out.push(tag::RANGE_CLOSE);
            put_step(out, delta.opened, range);
            put_step(out, delta.mono, end.0);
            (delta.opened, delta.mono) = (range, end.0);
            return;
        }
        Record::Process(it) => {
            put_all(scratch, [it.pid, it.ppid]);
            put_bytes(scratch, it.host.as_bytes());
            put_bytes(scratch, it.exe.as_bytes());
            put(scratch, it.argv.len() as u64);
            it.argv.iter().for_each(|argument| put_bytes(scratch, argument.as_bytes()));
            put_bytes(scratch, it.collector.as_bytes());
            tag::PROCESS
        }
        Record::Meta { key, value } => {
            put_bytes(scratch, key.as_bytes());
            put_bytes(scratch, value.as_bytes());
            tag::META
        }
        Record::Anchor(it) => {
            put_all(scratch, [it.gpu.0, it.mono.0, it.wall.0]);
            tag::ANCHOR
        }
        Record::Name { id, bytes } => {
            put_all(scratch, [*id]);
            put_bytes(scratch, bytes);
            tag::NAME
        }
        Record::Thread { id, os_tid, name } => {
            put_all(scratch, [*id, *os_tid]);
            put_bytes(scratch, name);
            tag::THREAD
        }
        Record::Device(it) => {
            let (major, minor) = it.compute_capability;
            put(scratch, it.id.into());
            put_bytes(scratch, &it.name);
            put_all(scratch, [it.multiprocessors, major, minor]);
            put_all(scratch, [it.memory_bytes, it.bandwidth_kb_per_s]);
            put_all(scratch, [it.core_clock_khz, it.l2_bytes]);
            scratch.extend_from_slice(&it.uuid);
            tag::DEVICE
        }
        Record::Queue(it) => {
            put_all(scratch, [it.id, it.device, it.context, it.stream]);
            tag::QUEUE_RECORD
        }
        Record::Shape(it) => {
            put_all(scratch, [it.id, it.name]);
            put_all(scratch, it.grid);
            put_all(scratch, it.block);
            put_all(scratch, [it.static_shared_bytes, it.dynamic_shared_bytes]);
            put_all(scratch, [it.registers_per_thread, it.local_bytes_per_thread]);
            tag::SHAPE
        }
        Record::Path(it) => {
            put_all(scratch, [it.id, it.parent, it.name, it.domain]);
            tag::PATH
        }
        Record::Mark(it) => {
            put(scratch, it.at.0);
            put_all(scratch, [it.thread, it.name, it.domain, it.category]);
            scratch.push(payload_type(it.payload));
            put_payload(scratch, it.payload);
            tag::MARK
        }
        Record::GraphNode { node, path, range } => {
            put_all(scratch, [*node, (*path).into()]);
            if *range != RANGE_OUTSIDE {
                put_all(scratch, [*range]);
            }
            tag::GRAPH_NODE_RECORD
        }
        Record::Losses(it) => {
            it.put(scratch);
            tag::LOSSES
        }
        Record::RangeSample { range, recorded } => {
            put_all(scratch, [*range, u64::from(*recorded)]);
            tag::RANGE_SAMPLE
        }
        Record::RangeFields { range, fields } => {
            put_all(scratch, [*range, fields.len() as u64]);
            fields.iter().for_each(|field| put_field(scratch, field));
            tag::RANGE_FIELDS
        }
        Record::CounterSet(it) => {
            put_all(scratch, [it.id, it.device]);
            put_all(scratch, [it.interval_ns, it.metrics.len() as u64]);
            it.metrics.iter().for_each(|metric| put_bytes(scratch, metric.as_bytes()));
            tag::COUNTER_SET
        }
        Record::CounterSamples(it) => {
            samples::put(scratch, it);
            tag::COUNTER_SAMPLES
        }
        Record::DeviceState(it) => {
            put_all(scratch, [it.device.into(), it.at.0, one_more(it.energy_mj)]);
            put_all(scratch, [it.power_mw, it.sm_clock_mhz, it.memory_clock_mhz].map(one_more));
            put_all(scratch, [one_more(it.temperature_c), one_more(it.clock_reasons)]);
            put_all(scratch, [one_more(it.other_processes)]);
            tag::DEVICE_STATE
        }
        Record::End { reason } => {
            put_bytes(scratch, reason.as_bytes());
            tag::END
        }
    };
    out.push(tag);
    put_bytes(out, scratch);
}

fn put_all<T: Into<u64>, const N: usize>(out: &mut Vec<u8>, values: [T; N]) {
    values.into_iter().for_each(|value| put(out, value.into()));
}

/// One more than it is; 0 for what is not known. The largest number is taken for the one below it.
fn one_more(value: Option<impl Into<u64>>) -> u64 {
    value.map_or(0, |value| value.into().saturating_add(1))
}

fn put_range_open(out: &mut Vec<u8>, delta: &mut Delta, open: &RangeOpen) {
    let nested = if open.parent == RANGE_OUTSIDE { 0 } else { tag::NESTED };
    let choices = options(open);
    let has_options = if choices == 0 { 0 } else { tag::OPTIONS };

    out.push(tag::RANGE_OPEN | nested | has_options);
    put_step(out, delta.opened, open.range);
    put_step(out, delta.mono, open.start.0);
    put(out, open.path.into());
    put(out, open.thread.into());
    delta.opened = open.range;
    delta.mono = open.start.0;
    if nested != 0 {
        put_step(out, open.range, open.parent);
    }
    if choices != 0 {
        out.push(choices);
        if choices & tag::CATEGORY != 0 {
            put(out, open.category.into());
        }
        put_payload(out, open.payload);
        if choices & tag::CONTINUES != 0 {
            put_step(out, open.range, open.continues);
        }
    }
}

fn options(open: &RangeOpen) -> u8 {
    let flag = |on, bit| if on { bit } else { 0 };
    flag(open.start_end, tag::START_END)
        | flag(open.category != 0, tag::CATEGORY)
        | payload_type(open.payload)
        | flag(open.continues != 0, tag::CONTINUES)
}

fn payload_type(payload: Option<Payload>) -> u8 {
    match payload {
        None => tag::PAYLOAD_NONE,
        Some(Payload::U64(_)) => tag::PAYLOAD_U64,
        Some(Payload::I64(_)) => tag::PAYLOAD_I64,
        Some(Payload::F64(_)) => tag::PAYLOAD_F64,
    }
}

fn put_payload(out: &mut Vec<u8>, payload: Option<Payload>) {
    match payload {
        None => {}
        Some(Payload::U64(value)) => put(out, value),
        Some(Payload::I64(value)) => put(out, zigzag(value)),
        Some(Payload::F64(value)) => out.extend_from_slice(&value.to_bits().to_le_bytes()),
    }
}

/// A field behind its length, so that a reader can step over a type that it does not know.
fn put_field(out: &mut Vec<u8>, field: &Field) {
    /// The type and a value of at most 10 bytes, behind a name of at most 5.
    const LONGEST: usize = 16;
    let mut bytes = Vec::with_capacity(LONGEST);
    put(&mut bytes, field.name.into());
    match field.value {
        FieldValue::U64(value) => put_typed(&mut bytes, Payload::U64(value)),
        FieldValue::I64(value) => put_typed(&mut bytes, Payload::I64(value)),
        FieldValue::F64(value) => put_typed(&mut bytes, Payload::F64(value)),
        FieldValue::Name(name) => {
            bytes.push(tag::FIELD_NAME);
            put(&mut bytes, name.into());
        }
    }
    put_bytes(out, &bytes);
}

fn put_typed(out: &mut Vec<u8>, value: Payload) {
    out.push(payload_type(Some(value)));
    put_payload(out, Some(value));
}

pub(crate) enum Decoded {
    Record(Record),
    /// A record of a kind that this version does not know, left out.
    Unknown,
}

/// Reads a record. `None`, here and below, means that the bytes are not what any writer writes. They passed
/// their checksum, so nothing was damaged on the way: a foreign or hostile program wrote them.
#[inline]
pub(crate) fn get_record(cursor: &mut Cursor<'_>, delta: &mut Delta) -> Option<Decoded> {
    let tag = cursor.byte()?;
    let record = match tag & 0xf0 {
        tag::KERNEL | tag::COPY | tag::FILL => get_work(cursor, delta, tag)?,
        0 => get_range(cursor, delta, tag)?,
        _ => return with_length(tag, Cursor::new(cursor.bytes()?)),
    };
    Some(Decoded::Record(record))
}

#[inline]
fn get_work(cursor: &mut Cursor<'_>, delta: &mut Delta, tag: u8) -> Option<Record> {
    let start = cursor.step(delta.end)?;
    delta.end = start.wrapping_add(cursor.u64()?);
    delta.correlation = cursor.step(delta.correlation)?;
    if tag & tag::QUEUE != 0 {
        delta.queue = cursor.u32()?;
    }
    match tag & tag::RANGE_MASK {
        tag::RANGE_SAME => {}
        tag::RANGE_OUTSIDE => delta.range = RANGE_OUTSIDE,
        tag::RANGE_UNKNOWN => delta.range = RANGE_UNKNOWN,
        _ => {
            delta.instance = cursor.step(delta.instance)?;
            delta.range = delta.instance;
        }
    }
    let mut graph_node = 0;
    if tag & tag::GRAPH_NODE != 0 {
        delta.graph_node = cursor.step(delta.graph_node)?;
        graph_node = delta.graph_node;
    }
    let what = match tag & 0xf0 {
        tag::KERNEL => What::Kernel { shape: cursor.u32()? },
        tag::COPY => What::Copy { bytes: cursor.u64()?, kind: cursor.byte()? },
        _ => What::Fill { bytes: cursor.u64()? },
    };
    Some(Record::Work(GpuWork {
        what,
        start: GpuNs(start),
        end: GpuNs(delta.end),
        queue: delta.queue,
        range: delta.range,
        correlation: delta.correlation,
        graph_node,
    }))
}

fn get_range(cursor: &mut Cursor<'_>, delta: &mut Delta, tag: u8) -> Option<Record> {
    if tag == tag::RANGE_CLOSE {
        delta.opened = cursor.step(delta.opened)?;
        delta.mono = cursor.step(delta.mono)?;
        return Some(Record::RangeClose { range: delta.opened, end: MonoNs(delta.mono) });
    }
    if tag & !(tag::NESTED | tag::OPTIONS) != tag::RANGE_OPEN {
        return None;
    }
    delta.opened = cursor.step(delta.opened)?;
    delta.mono = cursor.step(delta.mono)?;
    let mut open = RangeOpen {
        range: delta.opened,
        start: MonoNs(delta.mono),
        path: cursor.u32()?,
        thread: cursor.u32()?,
        parent: RANGE_OUTSIDE,
        start_end: false,
        category: 0,
        payload: None,
        continues: 0,
    };
    if tag & tag::NESTED != 0 {
        open.parent = cursor.step(open.range)?;
    }
    if tag & tag::OPTIONS != 0 {
        let choices = cursor.byte()?;
        if choices & !(tag::START_END | tag::CATEGORY | tag::PAYLOAD_MASK | tag::CONTINUES) != 0 {
            return None;
        }
        open.start_end = choices & tag::START_END != 0;
        if choices & tag::CATEGORY != 0 {
            open.category = cursor.u32()?;
        }
        open.payload = payload(cursor, choices & tag::PAYLOAD_MASK)?;
        if choices & tag::CONTINUES != 0 {
            open.continues = cursor.step(open.range)?;
        }
    }
    Some(Record::RangeOpen(open))
}

fn payload(cursor: &mut Cursor<'_>, kind: u8) -> Option<Option<Payload>> {
    Some(match kind {
        tag::PAYLOAD_NONE => None,
        tag::PAYLOAD_U64 => Some(Payload::U64(cursor.u64()?)),
        tag::PAYLOAD_I64 => Some(Payload::I64(cursor.i64()?)),
        tag::PAYLOAD_F64 => Some(Payload::F64(f64::from_bits(u64::from_le_bytes(cursor.array()?)))),
        _ => return None,
    })
}

/// Reads a record that has its bytes to itself. Those left over are fields of a later version.
#[inline(never)]
fn with_length(tag: u8, mut cursor: Cursor<'_>) -> Option<Decoded> {
    let c = &mut cursor;
    let record = match tag {
        tag::PROCESS => process(c)?,
        tag::META => Record::Meta { key: c.string()?, value: c.string()? },
        tag::ANCHOR => Record::Anchor(Anchor {
            gpu: GpuNs(c.u64()?),
            mono: MonoNs(c.u64()?),
            wall: WallNs(c.u64()?),
        }),
        tag::NAME => Record::Name { id: c.u32()?, bytes: c.bytes()?.to_vec() },
        tag::THREAD => Record::Thread { id: c.u32()?, os_tid: c.u32()?, name: c.bytes()?.to_vec() },
        tag::DEVICE => Record::Device(Device {
            id: c.u32()?,
            name: c.bytes()?.to_vec(),
            multiprocessors: c.u32()?,
            compute_capability: (c.u32()?, c.u32()?),
            memory_bytes: c.u64()?,
            bandwidth_kb_per_s: c.u64()?,
            core_clock_khz: c.u32()?,
            l2_bytes: c.u32()?,
            uuid: c.array()?,
        }),
        tag::QUEUE_RECORD => Record::Queue(Queue {
            id: c.u32()?,
            device: c.u32()?,
            context: c.u32()?,
            stream: c.u32()?,
        }),
        tag::SHAPE => Record::Shape(Shape {
            id: c.u32()?,
            name: c.u32()?,
            grid: [c.u32()?, c.u32()?, c.u32()?],
            block: [c.u32()?, c.u32()?, c.u32()?],
            static_shared_bytes: c.u32()?,
            dynamic_shared_bytes: c.u32()?,
            registers_per_thread: c.u32()?,
            local_bytes_per_thread: c.u32()?,
        }),
        tag::PATH => {
            Record::Path(Path { id: c.u32()?, parent: c.u32()?, name: c.u32()?, domain: c.u32()? })
        }
        tag::MARK => mark(c)?,
        tag::GRAPH_LAUNCH => graph_launch(c)?,
        tag::GRAPH_NODE_RECORD => {
            Record::GraphNode { node: c.u64()?, path: c.u32()?, range: c.later()? }
        }
        tag::LOSSES => Record::Losses(Losses::get(c)?),
        tag::END => Record::End { reason: c.string()? },
        tag::RANGE_SAMPLE => Record::RangeSample { range: c.u64()?, recorded: c.u64()? != 0 },
        tag::RANGE_FIELDS => range_fields(c)?,
        tag::COUNTER_SET => counter_set(c)?,
        tag::COUNTER_SAMPLES => Record::CounterSamples(samples::get(c, Detail::Fine)?),
        tag::COARSE_COUNTER_SAMPLES => Record::CounterSamples(samples::get(c, Detail::Coarse)?),
        tag::DEVICE_STATE => Record::DeviceState(DeviceState {
            device: c.u32()?,
            at: MonoNs(c.u64()?),
            energy_mj: c.u64()?.checked_sub(1),
            power_mw: get_optional(c)?,
            sm_clock_mhz: get_optional(c)?,
            memory_clock_mhz: get_optional(c)?,
            temperature_c: get_optional(c)?,
            clock_reasons: c.u64()?.checked_sub(1),
            other_processes: get_optional(c)?,
        }),
        _ => return Some(Decoded::Unknown),
    };
    Some(Decoded::Record(record))
}

fn process(c: &mut Cursor<'_>) -> Option<Record> {
    let (pid, ppid) = (c.u32()?, c.u32()?);
    let (host, exe) = (c.string()?, c.string()?);
    let count = c.u64()?;
    // Grown as the arguments come: a count says nothing about how many there are.
    let mut argv = Vec::new();
    for _ in 0..count {
        argv.push(c.string()?);
    }
    Some(Record::Process(Process { pid, ppid, host, exe, argv, collector: c.string()? }))
}

fn counter_set(c: &mut Cursor<'_>) -> Option<Record> {
    let (id, device, interval_ns, count) = (c.u32()?, c.u32()?, c.u64()?, c.u64()?);
    // Grown as the names come, as above.
    let mut metrics = Vec::new();
    for _ in 0..count {
        metrics.push(c.string()?);
    }
    Some(Record::CounterSet(CounterSet { id, device, interval_ns, metrics }))
}

/// A number as one more than it is; 0: not known.
fn get_optional(c: &mut Cursor<'_>) -> Option<Option<u32>> {
    c.u64()?.checked_sub(1).map(u32::try_from).transpose().ok()
}

fn mark(c: &mut Cursor<'_>) -> Option<Record> {
    let at = MonoNs(c.u64()?);
    let (thread, name, domain, category) = (c.u32()?, c.u32()?, c.u32()?, c.u32()?);
    let kind = c.byte()?;
    Some(Record::Mark(Mark { at, thread, name, domain, category, payload: payload(c, kind)? }))
}

fn graph_launch(c: &mut Cursor<'_>) -> Option<Record> {
    let start = c.u64()?;
    Some(Record::Work(GpuWork {
        start: GpuNs(start),
        end: GpuNs(start.wrapping_add(c.u64()?)),
        queue: c.u32()?,
        range: c.u64()?.wrapping_sub(1),
        correlation: c.u64()?,
        graph_node: 0,
        what: What::Graph { graph: c.u32()? },
    }))
}

fn range_fields(c: &mut Cursor<'_>) -> Option<Record> {
    let (range, count) = (c.u64()?, c.u64()?);
    // Grown as the fields come: a count says nothing about how many there are.
    let mut fields = Vec::new();
    for _ in 0..count {
        fields.extend(field(&mut Cursor::new(c.bytes()?))?);
    }
    Some(Record::RangeFields { range, fields })
}

/// `Some(None)`: a field of a type of a later version, which is stepped over.
fn field(c: &mut Cursor<'_>) -> Option<Option<Field>> {
    let name = c.u32()?;
    let value = match c.byte()? {
        tag::FIELD_NAME => FieldValue::Name(c.u32()?),
        tag::PAYLOAD_U64 => FieldValue::U64(c.u64()?),
        tag::PAYLOAD_I64 => FieldValue::I64(c.i64()?),
        tag::PAYLOAD_F64 => FieldValue::F64(f64::from_bits(u64::from_le_bytes(c.array()?))),
        _ => return Some(None),
    };
    Some(Some(Field { name, value }))
}

/// What the compact records of a block have said so far, as the values that the next one is told against.
/// Writer and reader step it through a block alike; both start it anew, all zero, at each frame, so that no
/// frame needs another one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delta {
    /// End of the last GPU work, GPU ns.
    pub(crate) end: u64,
    pub(crate) correlation: u64,
    pub(crate) queue: u32,
    /// Its range, `RANGE_OUTSIDE` and `RANGE_UNKNOWN` included.
    pub(crate) range: u64,
    /// The last range of GPU work that was told as a step.
    pub(crate) instance: u64,
    /// The last graph node that was told.
    pub(crate) graph_node: u64,
    /// The last range that opened or closed.
    pub(crate) opened: u64,
    /// The last time of a range opening or closing, monotonic ns.
    pub(crate) mono: u64,
}

/// The tag bytes that say which record comes next, and the flag bits that some carry.
mod tag {
    pub(super) const RANGE_CLOSE: u8 = 0x01;
    /// A range opened; two flag bits in the tag.
    pub(super) const RANGE_OPEN: u8 = 0x04;
    pub(super) const NESTED: u8 = 0x01;
    /// Flag of [`RANGE_OPEN`]: an options byte follows.
    pub(super) const OPTIONS: u8 = 0x02;

    // GPU work, with four flag bits in the tag.
    pub(super) const KERNEL: u8 = 0x10;
    pub(super) const COPY: u8 = 0x20;
    pub(super) const FILL: u8 = 0x30;
    /// Flag of GPU work: a graph node follows.
    pub(super) const GRAPH_NODE: u8 = 0x01;
    /// Field of GPU work, 2 bits: how its range is told.
    pub(super) const RANGE_MASK: u8 = 0x06;
    pub(super) const RANGE_SAME: u8 = 0x00;
    pub(super) const RANGE_STEP: u8 = 0x02;
    pub(super) const RANGE_OUTSIDE: u8 = 0x04;
    pub(super) const RANGE_UNKNOWN: u8 = 0x06;
    /// Flag of GPU work: a queue follows, not that of the GPU work before.
    pub(super) const QUEUE: u8 = 0x08;

    /// Options byte of a range opening: start/end instead of push/pop.
    pub(super) const START_END: u8 = 0x01;
    pub(super) const CATEGORY: u8 = 0x02;
    /// Options byte, 2 bits: the type of the payload that follows.
    pub(super) const PAYLOAD_MASK: u8 = 0x0c;
    pub(super) const PAYLOAD_NONE: u8 = 0x00;
    pub(super) const PAYLOAD_U64: u8 = 0x04;
    pub(super) const PAYLOAD_I64: u8 = 0x08;
    pub(super) const PAYLOAD_F64: u8 = 0x0c;
    /// Options byte: the instance that goes on follows.
    pub(super) const CONTINUES: u8 = 0x10;

    // From 0x40 on a length follows the tag, so that unknown records can be skipped.
    pub(super) const PROCESS: u8 = 0x40;
    pub(super) const META: u8 = 0x41;
    pub(super) const ANCHOR: u8 = 0x42;
    pub(super) const NAME: u8 = 0x43;
    pub(super) const THREAD: u8 = 0x44;
    pub(super) const DEVICE: u8 = 0x45;
    pub(super) const QUEUE_RECORD: u8 = 0x46;
    pub(super) const SHAPE: u8 = 0x47;
    pub(super) const PATH: u8 = 0x48;
    pub(super) const MARK: u8 = 0x49;
    pub(super) const GRAPH_LAUNCH: u8 = 0x4a;
    pub(super) const GRAPH_NODE_RECORD: u8 = 0x4b;
    pub(super) const LOSSES: u8 = 0x4c;
    pub(super) const END: u8 = 0x4d;
    pub(super) const RANGE_SAMPLE: u8 = 0x4e;
    pub(super) const RANGE_FIELDS: u8 = 0x4f;
    pub(super) const COUNTER_SET: u8 = 0x50;
    /// With a byte for each value: written until 2026-11-23.
    pub(super) const COARSE_COUNTER_SAMPLES: u8 = 0x51;
    pub(super) const DEVICE_STATE: u8 = 0x52;
    pub(super) const COUNTER_SAMPLES: u8 = 0x53;

    /// Type of a field of a range: a name, as a varint. The other types are those of payloads.
    pub(super) const FIELD_NAME: u8 = 0x10;
}
