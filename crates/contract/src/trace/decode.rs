//! The bytes of a block to records: the reading half of what `lib.rs` lays out.
//!
//! `None` everywhere means that the bytes are not what any writer writes. They passed their
//! checksum, so nothing was damaged on the way: a foreign or hostile program wrote them.

use crate::trace::delta::Delta;
use crate::trace::losses::Losses;
use crate::trace::record::*;
use crate::trace::samples::{self, Detail};
use crate::trace::tag;
use crate::trace::time::{GpuNs, MonoNs, WallNs};
use crate::trace::varint::Cursor;

pub(crate) enum Decoded {
    Record(Record),
    /// A record of a kind that this version does not know, left out.
    Unknown,
}

#[inline]
pub(crate) fn record(cursor: &mut Cursor<'_>, delta: &mut Delta) -> Option<Decoded> {
    let tag = cursor.byte()?;
    let record = match tag & 0xf0 {
        tag::KERNEL | tag::COPY | tag::FILL => work(cursor, delta, tag)?,
        0 => range(cursor, delta, tag)?,
        _ => return with_length(tag, Cursor::new(cursor.bytes()?)),
    };
    Some(Decoded::Record(record))
}

#[inline]
fn work(cursor: &mut Cursor<'_>, delta: &mut Delta, tag: u8) -> Option<Record> {
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

fn range(cursor: &mut Cursor<'_>, delta: &mut Delta, tag: u8) -> Option<Record> {
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
            Record::GraphNode { node: c.u64()?, path: c.u32()?, range: later(c)? }
        }
        tag::LOSSES => Record::Losses(Losses {
            cupti_dropped: c.u64()?,
            buffers_refused: c.u64()?,
            range_events: c.u64()?,
            unattributed: c.u64()?,
            invalid_timestamps: c.u64()?,
            unreadable_records: c.u64()?,
            unbalanced: c.u64()?,
            unclosed: c.u64()?,
            names_cut: c.u64()?,
            spool_bytes_unwritten: c.u64()?,
            aggregates_folded: c.u64()?,
            late_switches: later(c)?,
            beyond_limits: later(c)?,
            calls_turned_away: later(c)?,
        }),
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
            power_mw: known(c)?,
            sm_clock_mhz: known(c)?,
            memory_clock_mhz: known(c)?,
            temperature_c: known(c)?,
            clock_reasons: c.u64()?.checked_sub(1),
            other_processes: known(c)?,
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
fn known(c: &mut Cursor<'_>) -> Option<Option<u32>> {
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

/// A field that older files lack.
fn later(c: &mut Cursor<'_>) -> Option<u64> {
    if c.left() == 0 { Some(0) } else { c.u64() }
}
