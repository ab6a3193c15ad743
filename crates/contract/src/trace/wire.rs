//! The fields of records that have a length: each type to bytes and back.

use crate::trace::block::tag;
use crate::trace::host::{HostFrame, HostSampling, HostStack, HostThread};
use crate::trace::record::*;
use crate::trace::varint::{Cursor, put, put_bytes, zigzag};

/// What is written one way wherever it stands.
pub(crate) trait Wire {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads it. `None`: the bytes are not what any writer writes.
    fn get(c: &mut Cursor<'_>) -> Option<Self>
    where
        Self: Sized;
}

/// Declares how types of one call each are written and read: `type: |value, out| write it, |c| read it;`.
macro_rules! wire {
    ($($type:ty: |$value:ident, $out:ident| $put:expr, |$c:ident| $get:expr;)*) => {$(
        impl Wire for $type {
            fn put(&self, $out: &mut Vec<u8>) {
                let $value = self;
                $put;
            }

            fn get($c: &mut Cursor<'_>) -> Option<Self> {
                $get
            }
        }
    )*};
}

wire! {
    u32: |value, out| put(out, (*value).into()), |c| c.u32();
    u64: |value, out| put(out, *value), |c| c.u64();
    bool: |value, out| put(out, (*value).into()), |c| c.u64().map(|value| value != 0);
    GpuNs: |value, out| put(out, value.0), |c| c.u64().map(GpuNs);
    MonoNs: |value, out| put(out, value.0), |c| c.u64().map(MonoNs);
    WallNs: |value, out| put(out, value.0), |c| c.u64().map(WallNs);
    String: |value, out| put_bytes(out, value.as_bytes()), |c| c.string();
    Vec<u8>: |value, out| put_bytes(out, value), |c| c.bytes().map(<[u8]>::to_vec);
    [u8; 16]: |value, out| out.extend_from_slice(value), |c| c.array();
}

impl Wire for (u32, u32) {
    fn put(&self, out: &mut Vec<u8>) {
        put_all(out, &[&self.0, &self.1]);
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        Some((c.u32()?, c.u32()?))
    }
}

impl Wire for [u32; 3] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|number| number.put(out));
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        Some([c.u32()?, c.u32()?, c.u32()?])
    }
}

/// One more than it is; 0 for what is not known. The largest number is taken for the one below it.
impl Wire for Option<u64> {
    fn put(&self, out: &mut Vec<u8>) {
        put(out, self.map_or(0, |value| value.saturating_add(1)));
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        Some(c.u64()?.checked_sub(1))
    }
}

/// As `Option<u64>`; a larger number than fits is damage.
impl Wire for Option<u32> {
    fn put(&self, out: &mut Vec<u8>) {
        self.map(u64::from).put(out);
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        Option::<u64>::get(c)?.map(u32::try_from).transpose().ok()
    }
}

impl Wire for Vec<String> {
    fn put(&self, out: &mut Vec<u8>) {
        put(out, self.len() as u64);
        self.iter().for_each(|text| text.put(out));
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        // Grown as they come, here and below: a count says nothing about how many there are.
        let mut texts = Vec::new();
        for _ in 0..c.u64()? {
            texts.push(c.string()?);
        }
        Some(texts)
    }
}

impl Wire for Vec<Field> {
    fn put(&self, out: &mut Vec<u8>) {
        put(out, self.len() as u64);
        self.iter().for_each(|field| put_field(out, field));
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        let mut fields = Vec::new();
        for _ in 0..c.u64()? {
            fields.extend(get_field(&mut Cursor::new(c.bytes()?))?);
        }
        Some(fields)
    }
}

impl Wire for Option<Payload> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(payload_type(*self));
        put_payload(out, *self);
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        let kind = c.byte()?;
        get_payload(c, kind)
    }
}

/// Declares that a record is its fields, in their order. `later`: a number that older files lack.
macro_rules! wire_of_fields {
    ($($type:ident { $($field:ident $($later:ident)?),* })*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn get(c: &mut Cursor<'_>) -> Option<Self> {
                Some(Self { $($field: wire_of_fields!(@get c $($later)?)),* })
            }
        }
    )*};
    (@get $c:ident) => { Wire::get($c)? };
    (@get $c:ident later) => { $c.later()? };
}

wire_of_fields! {
    Process { pid, ppid, host, exe, argv, collector }
    Anchor { gpu, mono, wall }
    Device {
        id, name, multiprocessors, compute_capability, memory_bytes, bandwidth_kb_per_s,
        core_clock_khz, l2_bytes, uuid
    }
    Queue { id, device, context, stream }
    Shape {
        id, name, grid, block, static_shared_bytes, dynamic_shared_bytes, registers_per_thread,
        local_bytes_per_thread
    }
    Path { id, parent, name, domain }
    Mark { at, thread, name, domain, category, payload }
    CounterSet { id, device, interval_ns, metrics }
    DeviceState {
        device, at, energy_mj, power_mw, sm_clock_mhz, memory_clock_mhz, temperature_c,
        clock_reasons, other_processes, memory_used_bytes later
    }
    HostFrame { id, function, file, line }
    HostStack { id, parent, frame }
    HostSampling {
        at, asked_ns, interval_ns, sampled_ns, rounds, late, samples, torn, unreadable, cut, lost,
        threads_left_out, backed_off, own_cpu_ns, own_delay_ns, calls later, short_calls later, lost_calls later
    }
    HostThread { at, thread, launches, cpu_ns, delay_ns }
}

/// Appends several fields.
pub(crate) fn put_all(out: &mut Vec<u8>, fields: &[&dyn Wire]) {
    fields.iter().for_each(|field| field.put(out));
}

pub(crate) fn payload_type(payload: Option<Payload>) -> u8 {
    match payload {
        None => tag::PAYLOAD_NONE,
        Some(Payload::U64(_)) => tag::PAYLOAD_U64,
        Some(Payload::I64(_)) => tag::PAYLOAD_I64,
        Some(Payload::F64(_)) => tag::PAYLOAD_F64,
    }
}

pub(crate) fn put_payload(out: &mut Vec<u8>, payload: Option<Payload>) {
    match payload {
        None => {}
        Some(Payload::U64(value)) => put(out, value),
        Some(Payload::I64(value)) => put(out, zigzag(value)),
        Some(Payload::F64(value)) => out.extend_from_slice(&value.to_bits().to_le_bytes()),
    }
}

pub(crate) fn get_payload(c: &mut Cursor<'_>, kind: u8) -> Option<Option<Payload>> {
    Some(match kind {
        tag::PAYLOAD_NONE => None,
        tag::PAYLOAD_U64 => Some(Payload::U64(c.u64()?)),
        tag::PAYLOAD_I64 => Some(Payload::I64(c.i64()?)),
        tag::PAYLOAD_F64 => Some(Payload::F64(f64::from_bits(u64::from_le_bytes(c.array()?)))),
        _ => return None,
    })
}

/// A field behind its length, so that a reader can step over a type that it does not know.
fn put_field(out: &mut Vec<u8>, field: &Field) {
    /// The type and a value of at most 10 bytes, behind a name of at most 5.
    const LONGEST: usize = 16;
    let mut bytes = Vec::with_capacity(LONGEST);
    field.name.put(&mut bytes);
    match field.value {
        FieldValue::U64(value) => Some(Payload::U64(value)).put(&mut bytes),
        FieldValue::I64(value) => Some(Payload::I64(value)).put(&mut bytes),
        FieldValue::F64(value) => Some(Payload::F64(value)).put(&mut bytes),
        FieldValue::Name(name) => {
            bytes.push(tag::FIELD_NAME);
            name.put(&mut bytes);
        }
    }
    put_bytes(out, &bytes);
}

/// `Some(None)`: a field of a type of a later version, which is stepped over.
fn get_field(c: &mut Cursor<'_>) -> Option<Option<Field>> {
    let name = c.u32()?;
    let value = match c.byte()? {
        tag::FIELD_NAME => FieldValue::Name(c.u32()?),
        kind @ (tag::PAYLOAD_U64 | tag::PAYLOAD_I64 | tag::PAYLOAD_F64) => {
            match get_payload(c, kind)?? {
                Payload::U64(value) => FieldValue::U64(value),
                Payload::I64(value) => FieldValue::I64(value),
                Payload::F64(value) => FieldValue::F64(value),
            }
        }
        _ => return Some(None),
    };
    Some(Some(Field { name, value }))
}
