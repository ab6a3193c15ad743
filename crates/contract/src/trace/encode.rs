//! Records to the bytes of a block: the writing half of what `lib.rs` lays out.

use crate::trace::delta::Delta;
use crate::trace::record::{self, Field, FieldValue, GpuWork, Payload, RangeOpen, Record, What};
use crate::trace::samples;
use crate::trace::tag;
use crate::trace::varint::{put, put_bytes, put_step, zigzag};

#[inline]
pub(crate) fn work(out: &mut Vec<u8>, delta: &mut Delta, work: &GpuWork) {
    let base = match work.what {
        What::Kernel { .. } => tag::KERNEL,
        What::Copy { .. } => tag::COPY,
        What::Fill { .. } | What::Graph { .. } => tag::FILL,
    };
    let range = match work.range {
        same if same == delta.range => tag::RANGE_SAME,
        record::RANGE_OUTSIDE => tag::RANGE_OUTSIDE,
        record::RANGE_UNKNOWN => tag::RANGE_UNKNOWN,
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
pub(crate) fn record(out: &mut Vec<u8>, delta: &mut Delta, scratch: &mut Vec<u8>, record: &Record) {
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
        Record::Work(it) => return work(out, delta, it),
        Record::RangeOpen(it) => return range_open(out, delta, it),
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
            if *range != record::RANGE_OUTSIDE {
                put_all(scratch, [*range]);
            }
            tag::GRAPH_NODE_RECORD
        }
        Record::Losses(it) => {
            put_all(scratch, [it.cupti_dropped, it.buffers_refused, it.range_events]);
            put_all(scratch, [it.unattributed, it.invalid_timestamps, it.unreadable_records]);
            put_all(scratch, [it.unbalanced, it.unclosed, it.names_cut]);
            put_all(scratch, [it.spool_bytes_unwritten, it.aggregates_folded, it.late_switches]);
            put_all(scratch, [it.beyond_limits, it.calls_turned_away]);
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

fn range_open(out: &mut Vec<u8>, delta: &mut Delta, open: &RangeOpen) {
    let nested = if open.parent == record::RANGE_OUTSIDE { 0 } else { tag::NESTED };
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
