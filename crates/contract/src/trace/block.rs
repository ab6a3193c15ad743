//! Records to the bytes of a block and back, as [`crate::trace`] lays them out.

use crate::trace::record::*;
use crate::trace::samples::{self, Detail};
use crate::trace::varint::{Cursor, put, put_bytes, put_step};
use crate::trace::wire::{Wire, get_payload, payload_type, put_all, put_payload};

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
            // The range is one more than it is, modulo 2^64: that makes the unknown one the shortest number.
            let (ns, range) = (end.0.wrapping_sub(start.0), range.wrapping_add(1));
            put_fields(scratch, tag::GRAPH_LAUNCH, &[start, &ns, queue, &range, correlation, graph])
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
        Record::Process(it) => put_fields(scratch, tag::PROCESS, &[it]),
        Record::Meta { key, value } => put_fields(scratch, tag::META, &[key, value]),
        Record::Anchor(it) => put_fields(scratch, tag::ANCHOR, &[it]),
        Record::Name { id, bytes } => put_fields(scratch, tag::NAME, &[id, bytes]),
        Record::Thread { id, os_tid, name } => {
            put_fields(scratch, tag::THREAD, &[id, os_tid, name])
        }
        Record::Device(it) => put_fields(scratch, tag::DEVICE, &[it]),
        Record::Queue(it) => put_fields(scratch, tag::QUEUE_RECORD, &[it]),
        Record::Shape(it) => put_fields(scratch, tag::SHAPE, &[it]),
        Record::Path(it) => put_fields(scratch, tag::PATH, &[it]),
        Record::Mark(it) => put_fields(scratch, tag::MARK, &[it]),
        Record::GraphNode { node, path, range: RANGE_OUTSIDE } => {
            put_fields(scratch, tag::GRAPH_NODE_RECORD, &[node, path])
        }
        Record::GraphNode { node, path, range } => {
            put_fields(scratch, tag::GRAPH_NODE_RECORD, &[node, path, range])
        }
        Record::Losses(it) => put_fields(scratch, tag::LOSSES, &[it]),
        Record::RangeSample { range, recorded } => {
            put_fields(scratch, tag::RANGE_SAMPLE, &[range, recorded])
        }
        Record::RangeFields { range, fields } => {
            put_fields(scratch, tag::RANGE_FIELDS, &[range, fields])
        }
        Record::CounterSet(it) => put_fields(scratch, tag::COUNTER_SET, &[it]),
        Record::CounterSamples(it) => {
            samples::put(scratch, it);
            tag::COUNTER_SAMPLES
        }
        Record::DeviceState(it) => put_fields(scratch, tag::DEVICE_STATE, &[it]),
        Record::HostFrame(it) => put_fields(scratch, tag::HOST_FRAME, &[it]),
        Record::HostStack(it) => put_fields(scratch, tag::HOST_STACK, &[it]),
        Record::HostSamples(it) => put_fields(scratch, tag::HOST_SAMPLES, &[it]),
        Record::HostSampling(it) => put_fields(scratch, tag::HOST_SAMPLING, &[it]),
        Record::HostThread(it) => put_fields(scratch, tag::HOST_THREAD, &[it]),
        Record::HostCalls(it) => put_fields(scratch, tag::HOST_CALLS, &[it]),
        Record::End { reason } => put_fields(scratch, tag::END, &[reason]),
    };
    out.push(tag);
    put_bytes(out, scratch);
}

/// Appends the fields of a record, and gives its tag.
fn put_fields(out: &mut Vec<u8>, tag: u8, fields: &[&dyn Wire]) -> u8 {
    put_all(out, fields);
    tag
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
        open.payload = get_payload(cursor, choices & tag::PAYLOAD_MASK)?;
        if choices & tag::CONTINUES != 0 {
            open.continues = cursor.step(open.range)?;
        }
    }
    Some(Record::RangeOpen(open))
}

/// Reads a record that has its bytes to itself. Those left over are fields of a later version.
#[inline(never)]
fn with_length(tag: u8, mut cursor: Cursor<'_>) -> Option<Decoded> {
    let c = &mut cursor;
    Some(Decoded::Record(match tag {
        tag::PROCESS => Record::Process(Wire::get(c)?),
        tag::META => Record::Meta { key: Wire::get(c)?, value: Wire::get(c)? },
        tag::ANCHOR => Record::Anchor(Wire::get(c)?),
        tag::NAME => Record::Name { id: Wire::get(c)?, bytes: Wire::get(c)? },
        tag::THREAD => {
            Record::Thread { id: Wire::get(c)?, os_tid: Wire::get(c)?, name: Wire::get(c)? }
        }
        tag::DEVICE => Record::Device(Wire::get(c)?),
        tag::QUEUE_RECORD => Record::Queue(Wire::get(c)?),
        tag::SHAPE => Record::Shape(Wire::get(c)?),
        tag::PATH => Record::Path(Wire::get(c)?),
        tag::MARK => Record::Mark(Wire::get(c)?),
        tag::GRAPH_LAUNCH => Record::Work(graph_launch(c)?),
        tag::GRAPH_NODE_RECORD => {
            Record::GraphNode { node: Wire::get(c)?, path: Wire::get(c)?, range: c.later()? }
        }
        tag::LOSSES => Record::Losses(Wire::get(c)?),
        tag::END => Record::End { reason: Wire::get(c)? },
        tag::RANGE_SAMPLE => Record::RangeSample { range: Wire::get(c)?, recorded: Wire::get(c)? },
        tag::RANGE_FIELDS => Record::RangeFields { range: Wire::get(c)?, fields: Wire::get(c)? },
        tag::COUNTER_SET => Record::CounterSet(Wire::get(c)?),
        tag::COUNTER_SAMPLES => Record::CounterSamples(samples::get(c, Detail::Fine)?),
        tag::COARSE_COUNTER_SAMPLES => Record::CounterSamples(samples::get(c, Detail::Coarse)?),
        tag::DEVICE_STATE => Record::DeviceState(Wire::get(c)?),
        tag::HOST_FRAME => Record::HostFrame(Wire::get(c)?),
        tag::HOST_STACK => Record::HostStack(Wire::get(c)?),
        tag::HOST_SAMPLES => Record::HostSamples(Wire::get(c)?),
        tag::HOST_SAMPLING => Record::HostSampling(Wire::get(c)?),
        tag::HOST_THREAD => Record::HostThread(Wire::get(c)?),
        tag::HOST_CALLS => Record::HostCalls(Wire::get(c)?),
        _ => return Some(Decoded::Unknown),
    }))
}

fn graph_launch(c: &mut Cursor<'_>) -> Option<GpuWork> {
    let start = c.u64()?;
    Some(GpuWork {
        start: GpuNs(start),
        end: GpuNs(start.wrapping_add(c.u64()?)),
        queue: c.u32()?,
        range: c.u64()?.wrapping_sub(1),
        correlation: c.u64()?,
        graph_node: 0,
        what: What::Graph { graph: c.u32()? },
    })
}

/// What the compact records of a block have said so far, as the values that the next one is told against.
/// Writer and reader step it through a block alike; both start it again, all zero, at each frame, so that no
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
pub(crate) mod tag {
    pub(crate) const RANGE_CLOSE: u8 = 0x01;
    /// A range opened; two flag bits in the tag.
    pub(crate) const RANGE_OPEN: u8 = 0x04;
    pub(crate) const NESTED: u8 = 0x01;
    /// Flag of [`RANGE_OPEN`]: an options byte follows.
    pub(crate) const OPTIONS: u8 = 0x02;

    // GPU work, with four flag bits in the tag.
    pub(crate) const KERNEL: u8 = 0x10;
    pub(crate) const COPY: u8 = 0x20;
    pub(crate) const FILL: u8 = 0x30;
    /// Flag of GPU work: a graph node follows.
    pub(crate) const GRAPH_NODE: u8 = 0x01;
    /// Field of GPU work, 2 bits: how its range is told.
    pub(crate) const RANGE_MASK: u8 = 0x06;
    pub(crate) const RANGE_SAME: u8 = 0x00;
    pub(crate) const RANGE_STEP: u8 = 0x02;
    pub(crate) const RANGE_OUTSIDE: u8 = 0x04;
    pub(crate) const RANGE_UNKNOWN: u8 = 0x06;
    /// Flag of GPU work: a queue follows, not that of the GPU work before.
    pub(crate) const QUEUE: u8 = 0x08;

    /// Options byte of a range opening: start/end instead of push/pop.
    pub(crate) const START_END: u8 = 0x01;
    pub(crate) const CATEGORY: u8 = 0x02;
    /// Options byte, 2 bits: the type of the payload that follows.
    pub(crate) const PAYLOAD_MASK: u8 = 0x0c;
    pub(crate) const PAYLOAD_NONE: u8 = 0x00;
    pub(crate) const PAYLOAD_U64: u8 = 0x04;
    pub(crate) const PAYLOAD_I64: u8 = 0x08;
    pub(crate) const PAYLOAD_F64: u8 = 0x0c;
    /// Options byte: the instance that goes on follows.
    pub(crate) const CONTINUES: u8 = 0x10;

    // From 0x40 on a length follows the tag, so that unknown records can be skipped.
    pub(crate) const PROCESS: u8 = 0x40;
    pub(crate) const META: u8 = 0x41;
    pub(crate) const ANCHOR: u8 = 0x42;
    pub(crate) const NAME: u8 = 0x43;
    pub(crate) const THREAD: u8 = 0x44;
    pub(crate) const DEVICE: u8 = 0x45;
    pub(crate) const QUEUE_RECORD: u8 = 0x46;
    pub(crate) const SHAPE: u8 = 0x47;
    pub(crate) const PATH: u8 = 0x48;
    pub(crate) const MARK: u8 = 0x49;
    pub(crate) const GRAPH_LAUNCH: u8 = 0x4a;
    pub(crate) const GRAPH_NODE_RECORD: u8 = 0x4b;
    pub(crate) const LOSSES: u8 = 0x4c;
    pub(crate) const END: u8 = 0x4d;
    pub(crate) const RANGE_SAMPLE: u8 = 0x4e;
    pub(crate) const RANGE_FIELDS: u8 = 0x4f;
    pub(crate) const COUNTER_SET: u8 = 0x50;
    /// With a byte for each value: written until 2026-11-23.
    pub(crate) const COARSE_COUNTER_SAMPLES: u8 = 0x51;
    pub(crate) const DEVICE_STATE: u8 = 0x52;
    pub(crate) const COUNTER_SAMPLES: u8 = 0x53;
    pub(crate) const HOST_FRAME: u8 = 0x54;
    pub(crate) const HOST_STACK: u8 = 0x55;
    pub(crate) const HOST_SAMPLES: u8 = 0x56;
    pub(crate) const HOST_SAMPLING: u8 = 0x57;
    pub(crate) const HOST_THREAD: u8 = 0x58;
    pub(crate) const HOST_CALLS: u8 = 0x59;

    /// Type of a field of a range: a name, as a varint. The other types are those of payloads.
    pub(crate) const FIELD_NAME: u8 = 0x10;
}
