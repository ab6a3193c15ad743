//! The bytes of payloads and the guest's schemas into named values of a range.
//!
//! Everything that a guest says here may be wrong. The reader leaves out and counts what does not fit
//! into the bytes, is behind a pointer, or is of an unknown kind. It reads nothing from the guest's
//! memory and guesses nothing: behind an entry of unknown length it reads only entries with an offset.

use std::rc::Rc;

use cupti_sys::nvtx as sys;
use rustc_hash::FxHashMap;

use crate::guest::blob;
use crate::guest::registry::{Entry as Registered, Handle, Kind, Lookup, Registry, registry};
use crate::guest::schema_encoding::{
    self, DYNAMIC_IDS, Enumeration, OwnedEntry, STATIC_IDS, Schema,
};

/// Fields of one call that are kept.
pub(crate) const MAX_FIELDS: usize = 16;
/// Bytes of a text that are kept.
const MAX_TEXT: usize = 256;
/// Schemas inside one another that are read.
const MAX_DEPTH: usize = 4;
/// Entries that are looked at for one call: schemas may hold one another many times.
const MAX_STEPS: usize = 1 << 10;
/// Of the flags of an entry: which kind of array it is.
const ARRAY: u64 = 7 << 4;
const FIXED_ARRAY: u64 = sys::NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE as u64;
const ENDED_ARRAY: u64 = sys::NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED as u64;
const POINTER: u64 = sys::NVTX_PAYLOAD_ENTRY_FLAG_POINTER as u64;
const OFFSETS: u64 = (sys::NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE
    | sys::NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE) as u64;
/// Of the flags of an entry: whether it is the message, a time, or neither.
const ROLE: u64 = 3 << 10;
/// Schema id of a payload that other payloads refer to.
const REFERENCED: u64 = 1022;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    U64(u64),
    I64(i64),
    F64(f64),
    /// A text, or the name of an entry of an enumeration.
    Text(Vec<u8>),
    /// A registered string, by its number.
    Registered(u32),
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct PayloadValues {
    pub(crate) fields: Vec<(Vec<u8>, Value)>,
    pub(crate) message: Option<Value>,
    pub(crate) category: Option<u32>,
    /// The name of the first schema that has one.
    pub(crate) schema: Vec<u8>,
    /// Entries and payloads that were left out or cut.
    pub(crate) skipped: u64,
}

/// Reads the payloads of a call in `domain`, as [`blob::Blob`] holds them.
pub(crate) fn read(blob: &[u8], domain: u32, definitions: &mut Definitions<'_>) -> PayloadValues {
    let mut reader =
        Reader { definitions, domain, values: PayloadValues::default(), steps: MAX_STEPS };
    blob::payloads(blob).for_each(|payload| reader.payload(payload));
    reader.values
}

struct Reader<'a, 'r> {
    definitions: &'a mut Definitions<'r>,
    domain: u32,
    values: PayloadValues,
    /// How many entries may still be looked at.
    steps: usize,
}

enum Encoding {
    Value(Basic),
    Named(Rc<Enumeration>),
    Text,
    /// A text up to a NUL.
    EndedText,
    Nested(Rc<Schema>),
    /// Only how long it is is known.
    Opaque,
}

/// An entry's encoding, its length in bytes (`None`: not before it is read) and its alignment.
type EntryLayout = (Encoding, Option<usize>, usize);

impl Reader<'_, '_> {
    fn payload(&mut self, payload: blob::SchemaPayload<'_>) {
        let bytes = payload.bytes;
        if payload.schema == REFERENCED {
            return;
        }
        if payload.schema >= STATIC_IDS {
            match self.definitions.find(self.domain, payload.schema) {
                Some(Definition::Schema(schema)) => {
                    if self.values.schema.is_empty() {
                        self.values.schema.clone_from(&schema.head.name);
                    }
                    self.structure(&schema, bytes, b"", 0);
                }
                Some(Definition::Enumeration(names)) => {
                    self.keep(b"payload", bytes.get(..names.size).and_then(|b| names.value(b)));
                }
                None => self.values.skipped += 1,
            }
        } else if text_unit(payload.schema) == Some(1) {
            let value = text(bytes);
            // Of what follows the NUL nothing is missed.
            let is_cut = payload.is_cut && !bytes.contains(&0);
            let is_counted = matches!(&value, Value::Text(text) if text.len() > MAX_TEXT);
            self.values.skipped += u64::from(is_cut && !is_counted);
            self.keep(b"payload", Some(value));
        } else {
            // Arrays are not kept.
            let is_one = |basic: &Basic| bytes.len() / basic.bytes == 1 && !payload.is_cut;
            let one = basic(payload.schema).filter(is_one);
            let value = one.and_then(|basic| basic.value(bytes.get(..basic.bytes)?));
            self.keep(b"payload", value);
        }
    }

    /// Reads a payload, or a part of one, by its schema. Gives where it ends, if that is known.
    fn structure(
        &mut self,
        schema: &Schema,
        bytes: &[u8],
        within: &[u8],
        depth: usize,
    ) -> Option<usize> {
        let kind = schema.head.kind.into();
        let is_static = is(kind, sys::NVTX_PAYLOAD_SCHEMA_TYPE_STATIC);
        if !is_static && !is(kind, sys::NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC) {
            self.values.skipped += 1;
            return None;
        }
        let mut end = Some(0);
        for (index, entry) in schema.entries.iter().enumerate() {
            let layout = self.layout_of(entry, is_static, depth);
            let align = layout.as_ref().map_or(1, |&(_, _, align)| schema.capped(align));
            let start = entry.start(index, end, align);
            let (Some((encoding, length, _)), Some(start)) = (layout, start) else {
                end = None;
                self.values.skipped += 1;
                continue;
            };
            let name = entry.name_within(within, index);
            let rest = bytes.get(start..).unwrap_or_default();
            end = match (&encoding, length) {
                (_, Some(length)) => start.checked_add(length),
                (Encoding::EndedText, None) => {
                    let length = rest.iter().position(|&byte| byte == 0);
                    length.and_then(|length| start.checked_add(length + 1))
                }
                _ => None,
            };
            let size = schema.head.size as usize;
            let contradicts = size != 0 && end.is_none_or(|end| end > size);
            if is_static && contradicts {
                self.values.skipped += 1;
                continue;
            }
            if let Encoding::Nested(inner) = &encoding {
                let part = length.map_or(rest, |length| &rest[..length.min(rest.len())]);
                let inner_end = self.structure(inner, part, &name, depth + 1);
                end = end.or_else(|| inner_end.and_then(|inner| start.checked_add(inner)));
                continue;
            }
            let piece = end.and_then(|end| bytes.get(start..end));
            let value = piece.and_then(|piece| match &encoding {
                Encoding::Value(basic) => basic.value(piece),
                Encoding::Named(names) => names.value(piece),
                Encoding::Text | Encoding::EndedText => Some(text(piece)),
                Encoding::Nested(_) | Encoding::Opaque => None,
            });
            self.entry(entry, &name, value);
        }
        end
    }

    /// How an entry lies. `None`: not known.
    fn layout_of(
        &mut self,
        entry: &OwnedEntry,
        is_static: bool,
        depth: usize,
    ) -> Option<EntryLayout> {
        const POINTER_BYTES: usize = 8;
        self.steps = self.steps.checked_sub(1)?;
        let pointer = (Encoding::Opaque, Some(POINTER_BYTES), POINTER_BYTES);
        if entry.flags & POINTER != 0 {
            return Some(pointer);
        }
        let (array, count) = (entry.flags & ARRAY, usize::try_from(entry.detail).ok()?);
        if entry.flags & OFFSETS != 0 || ![0, FIXED_ARRAY, ENDED_ARRAY].contains(&array) {
            return None;
        }
        if let Some(unit) = text_unit(entry.kind) {
            let encoding = if unit == 1 { Encoding::Text } else { Encoding::Opaque };
            return match (array, count) {
                (ENDED_ARRAY, _) if !is_static && unit == 1 => Some((Encoding::EndedText, None, 1)),
                (ENDED_ARRAY, _) => None,
                (_, 0) => is_static.then_some(pointer),
                (_, count) => Some((encoding, Some(count.checked_mul(unit)?), unit)),
            };
        }
        let (encoding, bytes, align) = self.layout_of_one(entry, depth)?;
        match array {
            0 => Some((encoding, bytes, align)),
            FIXED_ARRAY => {
                let bytes = bytes?.checked_mul(count)?;
                let is_text = is_character(entry.kind);
                let encoding = if is_text { Encoding::Text } else { Encoding::Opaque };
                Some((encoding, Some(bytes), align))
            }
            _ if is_character(entry.kind) && !is_static => Some((Encoding::EndedText, None, 1)),
            _ => None,
        }
    }

    /// As [`Reader::layout_of`], of one element.
    fn layout_of_one(&mut self, entry: &OwnedEntry, depth: usize) -> Option<EntryLayout> {
        if entry.kind < STATIC_IDS {
            let basic = basic(entry.kind)?;
            return Some((Encoding::Value(basic), Some(basic.bytes), basic.bytes));
        }
        match self.definitions.find(self.domain, entry.kind)? {
            Definition::Enumeration(names) => {
                let bytes = names.size;
                let align = if bytes.is_power_of_two() { bytes } else { 1 };
                Some((Encoding::Named(names), Some(bytes), align))
            }
            Definition::Schema(_) if depth + 1 >= MAX_DEPTH => None,
            Definition::Schema(schema) => {
                let (bytes, align) = self.measure(&schema, depth + 1);
                Some((Encoding::Nested(schema), bytes, align?))
            }
        }
    }

    /// Bytes and alignment of payloads of a schema, as far as they do not depend on the payload.
    fn measure(&mut self, schema: &Schema, depth: usize) -> (Option<usize>, Option<usize>) {
        let is_static = is(schema.head.kind.into(), sys::NVTX_PAYLOAD_SCHEMA_TYPE_STATIC);
        let (mut widest, mut align_known, mut end) = (1, true, Some(0));
        for (index, entry) in schema.entries.iter().enumerate() {
            let Some((_, bytes, align)) = self.layout_of(entry, is_static, depth) else {
                (end, align_known) = (None, false);
                continue;
            };
            let align = schema.capped(align);
            widest = widest.max(align);
            end = entry
                .start(index, end, align)
                .zip(bytes)
                .and_then(|(start, bytes)| start.checked_add(bytes));
        }
        let bytes = match schema.head.size {
            0 => end.and_then(|end| end.checked_next_multiple_of(widest)),
            size => Some(size as usize),
        };
        (bytes.filter(|_| is_static), align_known.then_some(widest))
    }

    fn entry(&mut self, entry: &OwnedEntry, name: &[u8], value: Option<Value>) {
        let hidden = entry.flags & u64::from(sys::NVTX_PAYLOAD_ENTRY_FLAG_HIDE) != 0;
        let message = u64::from(sys::NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE);
        match value {
            Some(value @ (Value::Text(_) | Value::Registered(_)))
                if entry.flags & ROLE == message =>
            {
                self.values.message = Some(self.shortened(value));
            }
            Some(Value::U64(category)) if is(entry.kind, sys::NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY) => {
                self.values.category = u32::try_from(category).ok();
            }
            // No colour of any range is kept.
            Some(_) if is(entry.kind, sys::NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB) => {}
            Some(_) if hidden => {}
            value => self.keep(name, value),
        }
    }

    fn keep(&mut self, name: &[u8], value: Option<Value>) {
        match value {
            Some(value) if self.values.fields.len() < MAX_FIELDS => {
                let value = self.shortened(value);
                self.values.fields.push((name.to_vec(), value));
            }
            _ => self.values.skipped += 1,
        }
    }

    fn shortened(&mut self, mut value: Value) -> Value {
        if let Value::Text(text) = &mut value
            && text.len() > MAX_TEXT
        {
            text.truncate(MAX_TEXT);
            self.values.skipped += 1;
        }
        value
    }
}

impl Schema {
    fn capped(&self, align: usize) -> usize {
        match self.head.pack as usize {
            0 => align.max(1),
            pack => align.clamp(1, pack),
        }
    }
}

impl OwnedEntry {
    /// Where it begins, behind an entry that ends at `end`. `None`: not known.
    fn start(&self, index: usize, end: Option<usize>, align: usize) -> Option<usize> {
        match usize::try_from(self.offset).ok()? {
            0 if index > 0 => end?.checked_next_multiple_of(align),
            offset => Some(offset),
        }
    }

    fn name_within(&self, within: &[u8], index: usize) -> Vec<u8> {
        let own = match self.name.as_slice() {
            b"" => format!("#{index}").into_bytes(),
            name => name.to_vec(),
        };
        if within.is_empty() { own } else { [within, b".", &own].concat() }
    }
}

impl Enumeration {
    /// The name of a value, or the names of its flags, or else the number.
    fn value(&self, bytes: &[u8]) -> Option<Value> {
        let raw = unsigned(bytes)?;
        // A negative value has all 64 bits here.
        let masked = |value: u64| value & (u64::MAX >> (64 - 8 * bytes.len().min(8)));
        let exact = self.values.iter().find(|(value, ..)| masked(*value) == raw);
        if let Some((.., name)) = exact {
            return Some(text(name));
        }
        let flags = || {
            let flags = self.values.iter().filter(|(_, is_flag, _)| *is_flag);
            flags.filter(|(value, ..)| *value != 0 && raw & value == *value)
        };
        let covered = flags().fold(0, |covered, (value, ..)| covered | value);
        if covered != raw || raw == 0 {
            return Some(Value::U64(raw));
        }
        let names: Vec<&[u8]> = flags().map(|(.., name)| name.as_slice()).collect();
        Some(text(&names.join(&b'|')))
    }
}

/// A text up to its NUL.
fn text(bytes: &[u8]) -> Value {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Value::Text(bytes[..end].to_vec())
}

fn is(kind: u64, of: u32) -> bool {
    kind == u64::from(of)
}

#[derive(Clone, Debug)]
pub(crate) enum Definition {
    Schema(Rc<Schema>),
    Enumeration(Rc<Enumeration>),
}

/// The schemas and enumerations of a process, read from its table of registrations.
pub(crate) struct Definitions<'r> {
    registry: &'r Registry,
    /// By domain and identifier; those that we numbered have no domain here.
    known: FxHashMap<(u32, u64), Definition>,
    /// Registrations up to this one were looked at.
    seen: u32,
    /// Those of them that were not there yet: another thread was writing them.
    missing: Vec<u32>,
}

impl Default for Definitions<'_> {
    fn default() -> Self {
        Definitions::of(registry())
    }
}

impl<'r> Definitions<'r> {
    pub(crate) fn of(registry: &'r Registry) -> Self {
        Definitions { registry, known: FxHashMap::default(), seen: 0, missing: Vec::new() }
    }

    pub(crate) fn find(&mut self, domain: u32, id: u64) -> Option<Definition> {
        let is_chosen = id < DYNAMIC_IDS;
        let key = if is_chosen { (domain, id) } else { (0, id) };
        // The guest may have registered an identifier of its own again since.
        if is_chosen || !self.known.contains_key(&key) {
            self.look();
        }
        self.known.get(&key).cloned()
    }

    fn look(&mut self) {
        let last = self.registry.last();
        let missing = std::mem::take(&mut self.missing);
        for number in missing.into_iter().chain(self.seen + 1..=last) {
            match self.registry.get(number) {
                Lookup::Entry(entry) => self.take_in(number, &entry),
                Lookup::Nothing => self.missing.push(number),
                Lookup::Refused => {}
            }
        }
        self.seen = last.max(self.seen);
    }

    fn take_in(&mut self, number: u32, entry: &Registered) {
        let bytes = &entry.bytes;
        let definition = match entry.kind {
            Kind::Schema => schema_encoding::schema(bytes).map(Rc::new).map(Definition::Schema),
            Kind::Enumeration => {
                schema_encoding::enumeration(bytes).map(Rc::new).map(Definition::Enumeration)
            }
            Kind::Domain | Kind::Text => None,
        };
        let Some(definition) = definition else { return };
        let key = match entry.id {
            0 => (0, DYNAMIC_IDS + u64::from(number)),
            id => (entry.domain, id),
        };
        self.known.insert(key, definition);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Signed,
    Unsigned,
    Float,
    /// The upper half of a 32-bit floating-point number.
    Brain,
    /// IEEE 754 binary16.
    Half,
    Registered,
    /// Its size is known, and nothing else.
    Opaque,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Basic {
    bytes: usize,
    read: Read,
}

/// A predefined type that has its own size; not the texts.
fn basic(kind: u64) -> Option<Basic> {
    use Read::*;
    let kind = u32::try_from(kind).ok()?;
    let (bytes, read) = match kind {
        sys::NVTX_PAYLOAD_ENTRY_TYPE_CHAR | sys::NVTX_PAYLOAD_ENTRY_TYPE_INT8 => (1, Signed),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_UCHAR
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT8
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_CHAR8
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_BYTE => (1, Unsigned),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_SHORT | sys::NVTX_PAYLOAD_ENTRY_TYPE_INT16 => (2, Signed),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_USHORT
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT16
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_CHAR16 => (2, Unsigned),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_INT
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_INT32
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_WCHAR => (4, Signed),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT32
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_CHAR32
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32 => (4, Unsigned),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_LONG
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_INT64 => (8, Signed),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_ULONG
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT64
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_SIZE
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS
        | RANGE_ID
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64 => (8, Unsigned),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_FLOAT
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_TF32 => (4, Float),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE | sys::NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64 => (8, Float),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16 => (2, Half),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_BF16 => (2, Brain),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_LONGDOUBLE
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_INT128
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_UINT128
        | sys::NVTX_PAYLOAD_ENTRY_TYPE_FLOAT128 => (16, Opaque),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE => (8, Registered),
        _ => return None,
    };
    Some(Basic { bytes, read })
}

/// NVTX 3.2's id of a range; not in the headers that the bindings are made from.
const RANGE_ID: u32 = 67;

/// Bytes of a character of a text type.
fn text_unit(kind: u64) -> Option<usize> {
    match u32::try_from(kind).ok()? {
        sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING | sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8 => Some(1),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16 => Some(2),
        sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32 => Some(4),
        _ => None,
    }
}

/// Whether an array of this type is a text.
fn is_character(kind: u64) -> bool {
    use sys::*;
    [NVTX_PAYLOAD_ENTRY_TYPE_CHAR, NVTX_PAYLOAD_ENTRY_TYPE_UCHAR, NVTX_PAYLOAD_ENTRY_TYPE_CHAR8]
        .into_iter()
        .any(|character| u64::from(character) == kind)
}

impl Basic {
    /// The value of as many bytes as the type has. `None` for those that have none here.
    fn value(self, bytes: &[u8]) -> Option<Value> {
        let raw = unsigned(bytes)?;
        let unused = 64 - 8 * u32::try_from(bytes.len()).ok()?;
        Some(match (self.read, self.bytes) {
            (Read::Signed, _) => Value::I64(((raw << unused) as i64) >> unused),
            (Read::Unsigned, _) => Value::U64(raw),
            (Read::Float, 4) => Value::F64(f32::from_bits(raw as u32).into()),
            (Read::Float, _) => Value::F64(f64::from_bits(raw)),
            (Read::Brain, _) => Value::F64(f32::from_bits((raw as u32) << 16).into()),
            (Read::Half, _) => Value::F64(half(raw as u16)),
            (Read::Registered, _) => Value::Registered(Handle(raw).number()),
            (Read::Opaque, _) => return None,
        })
    }
}

fn unsigned(bytes: &[u8]) -> Option<u64> {
    let mut whole = [0; 8];
    whole.get_mut(..bytes.len()).filter(|place| !place.is_empty())?.copy_from_slice(bytes);
    // NVTX's clients are 64-bit Linux programs: little-endian.
    Some(u64::from_le_bytes(whole))
}

fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests;
