//! Payloads of every kind, and payloads and schemas that contradict each other.

use super::*;
use crate::guest::blob::Blob;
use crate::guest::registry::Registry;
use crate::guest::schema_encoding::{self, DYNAMIC_IDS, SchemaEntry, SchemaHead};

#[test]
fn numbers_of_every_size_and_sign_are_read() {
    let value = |kind: u32, bytes: &[u8]| basic(kind.into()).unwrap().value(bytes);
    use sys::*;
    assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_INT8, &[0xff]), Some(Value::I64(-1)));
    assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_INT, &[0xfe, 0xff, 0xff, 0xff]), Some(Value::I64(-2)));
    assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_USHORT, &[0xff, 0xff]), Some(Value::U64(65_535)));
    let u64s = u64::MAX.to_le_bytes();
    assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_SIZE, &u64s), Some(Value::U64(u64::MAX)));
    assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_INT64, &u64s), Some(Value::I64(-1)));
    let float = 0.5f32.to_le_bytes();
    assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, &float), Some(Value::F64(0.5)));
    assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_BF16, &float[2..]), Some(Value::F64(0.5)));
    let halves = [0x3800u16, 0xc000, 0x0001, 0x7c00].map(u16::to_le_bytes);
    let floats = [0.5, -2.0, 2f64.powi(-24), f64::INFINITY];
    for (half, float) in halves.iter().zip(floats) {
        assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16, half), Some(Value::F64(float)));
    }
    assert_eq!(value(NVTX_PAYLOAD_ENTRY_TYPE_INT128, &[0; 16]), None);
}

/// A guest that registers and calls, in domain 1.
struct Guest {
    registry: &'static Registry,
    definitions: Definitions<'static>,
}

const ID: u64 = STATIC_IDS + 5;
const STATIC: u32 = sys::NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
const DYNAMIC: u32 = sys::NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC;

impl Guest {
    fn new() -> Self {
        let registry: &'static Registry = Box::leak(Box::new(Registry::empty()));
        Guest { registry, definitions: Definitions::of(registry) }
    }

    fn schema(&self, id: u64, kind: u32, size: u32, pack: u32, entries: &[OwnedEntry]) -> u32 {
        let head = SchemaHead { kind: kind as u8, size, pack, name: &b"call"[..] };
        let entries = entries.iter().map(|entry| SchemaEntry {
            flags: entry.flags,
            kind: entry.kind,
            detail: entry.detail,
            offset: entry.offset,
            name: entry.name.as_slice(),
        });
        schema_encoding::add_schema(self.registry, 1, id, head, entries).0
    }

    fn of_static(&self, entries: &[OwnedEntry]) {
        self.schema(ID, STATIC, 0, 0, entries);
    }

    fn names(&self, id: u64, size: u8, values: &[(u64, bool, &str)]) {
        let values = values.iter().map(|&(value, is_flag, name)| (value, is_flag, name.as_bytes()));
        schema_encoding::add_enumeration(self.registry, 1, id, size, values);
    }

    fn call(&mut self, id: u64, bytes: &[u8]) -> PayloadValues {
        let mut blob = Blob::default();
        blob.add(id, bytes);
        read(blob.bytes(), 1, &mut self.definitions)
    }
}

fn entry(kind: u32, name: &str) -> OwnedEntry {
    of(kind.into(), name)
}

fn of(kind: u64, name: &str) -> OwnedEntry {
    OwnedEntry { kind, name: name.into(), ..OwnedEntry::default() }
}

fn at(offset: u64, entry: OwnedEntry) -> OwnedEntry {
    OwnedEntry { offset, ..entry }
}

fn array(flags: u64, detail: u64, entry: OwnedEntry) -> OwnedEntry {
    OwnedEntry { flags, detail, ..entry }
}

fn fields(values: &PayloadValues) -> Vec<(&str, Value)> {
    let named = |(name, value): &'_ (Vec<u8>, Value)| {
        (std::str::from_utf8(name).unwrap().to_owned(), value.clone())
    };
    values.fields.iter().map(named).map(|(name, value)| (&*name.leak(), value)).collect()
}

const INT: u32 = sys::NVTX_PAYLOAD_ENTRY_TYPE_INT;
const SIZE: u32 = sys::NVTX_PAYLOAD_ENTRY_TYPE_SIZE;
const CHAR: u32 = sys::NVTX_PAYLOAD_ENTRY_TYPE_CHAR;
const CSTRING: u32 = sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING;

fn bytes(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn a_struct_is_read_with_and_without_offsets() {
    for offsets in [[0, 0, 0], [0, 8, 16]] {
        let mut guest = Guest::new();
        let [_, second, third] = offsets;
        guest.of_static(&[
            entry(INT, "rank"),
            at(second, entry(SIZE, "size")),
            at(third, entry(sys::NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "")),
        ]);
        let payload = bytes(&[
            &(-3i32).to_le_bytes(),
            &[0xee; 4],
            &7u64.to_le_bytes(),
            &0.5f64.to_le_bytes(),
        ]);
        let values = guest.call(ID, &payload);
        let expected = [("rank", Value::I64(-3)), ("size", Value::U64(7)), ("#2", Value::F64(0.5))];
        assert_eq!(fields(&values), expected);
        assert_eq!((values.skipped, values.schema.as_slice()), (0, &b"call"[..]));
    }
}

#[test]
fn packed_structs_have_no_gaps() {
    let mut guest = Guest::new();
    let entries = [entry(CHAR, "a"), entry(SIZE, "b")];
    guest.schema(ID, STATIC, 9, 1, &entries);
    let values = guest.call(ID, &bytes(&[&[5], &300u64.to_le_bytes()]));
    assert_eq!(fields(&values), [("a", Value::I64(5)), ("b", Value::U64(300))]);
}

#[test]
fn enumerations_give_names_flags_and_else_the_number() {
    let mut guest = Guest::new();
    let values = [(0, false, "Sum"), (u64::MAX, false, "None"), (4, true, "A"), (8, true, "B")];
    guest.names(STATIC_IDS + 11, 4, &values);
    guest.of_static(&[of(STATIC_IDS + 11, "op")]);
    for (value, expected) in [
        (0i32, Value::Text(b"Sum".to_vec())),
        (-1, Value::Text(b"None".to_vec())),
        (12, Value::Text(b"A|B".to_vec())),
        (13, Value::U64(13)),
    ] {
        assert_eq!(fields(&guest.call(ID, &value.to_le_bytes())), [("op", expected)]);
    }
}

#[test]
fn the_same_identifier_in_another_domain_is_another_schema() {
    let mut guest = Guest::new();
    guest.of_static(&[entry(INT, "own")]);
    let mut blob = Blob::default();
    blob.add(ID, &1i32.to_le_bytes());
    let other = read(blob.bytes(), 2, &mut guest.definitions);
    assert_eq!((other.fields.len(), other.skipped), (0, 1));
    // One that we numbered is known everywhere.
    let number = guest.schema(0, STATIC, 0, 0, &[entry(INT, "given")]);
    let values = guest.call(DYNAMIC_IDS + u64::from(number), &2i32.to_le_bytes());
    assert_eq!(fields(&values), [("given", Value::I64(2))]);
    assert_eq!(guest.call(DYNAMIC_IDS + 77, &[0; 4]).skipped, 1);
}

#[test]
fn texts_lie_in_the_payload_and_no_pointer_is_followed() {
    let mut guest = Guest::new();
    let pointer = u64::from(sys::NVTX_PAYLOAD_ENTRY_FLAG_POINTER);
    guest.of_static(&[
        array(FIXED_ARRAY, 8, entry(CHAR, "text")),
        entry(CSTRING, "behind a pointer"),
        array(pointer, 0, entry(INT, "too")),
        array(0, 4, entry(CSTRING, "short")),
    ]);
    let payload = bytes(&[b"abc\0xxxx", &[0xff; 8], &[0xff; 8], b"wxyz"]);
    let values = guest.call(ID, &payload);
    let expected =
        [("text", Value::Text(b"abc".to_vec())), ("short", Value::Text(b"wxyz".to_vec()))];
    assert_eq!(fields(&values), expected);
    assert_eq!(values.skipped, 2);
}

#[test]
fn nested_structs_are_read_and_arrays_and_unions_are_stepped_over() {
    let mut guest = Guest::new();
    let inner = STATIC_IDS + 6;
    guest.schema(inner, STATIC, 0, 0, &[entry(INT, "x"), entry(CHAR, "y")]);
    let union = STATIC_IDS + 7;
    guest.schema(union, sys::NVTX_PAYLOAD_SCHEMA_TYPE_UNION, 8, 0, &[entry(SIZE, "z")]);
    guest.of_static(&[
        of(inner, "in"),
        array(FIXED_ARRAY, 3, entry(INT, "list")),
        of(union, "either"),
        at(32, entry(INT, "last")),
    ]);
    let mut payload = bytes(&[&1i32.to_le_bytes(), &[2, 0, 0, 0], &[9; 12]]);
    payload.resize(32, 9);
    payload.extend(5i32.to_le_bytes());
    let values = guest.call(ID, &payload);
    let expected = [("in.x", Value::I64(1)), ("in.y", Value::I64(2)), ("last", Value::I64(5))];
    assert_eq!(fields(&values), expected);
    assert_eq!(values.skipped, 2);
}

#[test]
fn dynamic_schemas_are_read_up_to_where_lengths_are_known() {
    let mut guest = Guest::new();
    let by_length = u64::from(sys::NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX);
    let entries = [
        array(ENDED_ARRAY, 0, entry(CSTRING, "name")),
        entry(INT, "n"),
        array(by_length, 1, entry(INT, "list")),
        entry(INT, "behind it"),
    ];
    guest.schema(ID, DYNAMIC, 0, 0, &entries);
    let payload = bytes(&[b"ab\0", &[0], &2i32.to_le_bytes(), &[0; 8], &7i32.to_le_bytes()]);
    let values = guest.call(ID, &payload);
    assert_eq!(fields(&values), [("name", Value::Text(b"ab".to_vec())), ("n", Value::I64(2))]);
    assert_eq!(values.skipped, 2);
}

#[test]
fn messages_categories_and_colours_are_attributes_and_not_fields() {
    let mut guest = Guest::new();
    let message = u64::from(sys::NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE);
    let hidden = u64::from(sys::NVTX_PAYLOAD_ENTRY_FLAG_HIDE);
    guest.of_static(&[
        array(message, 8, entry(CSTRING, "name")),
        entry(sys::NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY, ""),
        entry(sys::NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB, ""),
        array(hidden, 0, entry(INT, "hidden")),
    ]);
    let payload = bytes(&[b"step\0\0\0\0", &9u32.to_le_bytes(), &[1; 4], &[1; 4]]);
    let values = guest.call(ID, &payload);
    let (message, schema) = (Some(Value::Text(b"step".to_vec())), b"call".to_vec());
    let expected = PayloadValues { message, category: Some(9), schema, ..PayloadValues::default() };
    assert_eq!(values, expected);
}

#[test]
fn predefined_types_are_values_without_a_schema() {
    let mut guest = Guest::new();
    let values = guest.call(SIZE.into(), &7u64.to_le_bytes());
    assert_eq!(fields(&values), [("payload", Value::U64(7))]);
    let values = guest.call(CSTRING.into(), b"text");
    assert_eq!(fields(&values), [("payload", Value::Text(b"text".to_vec()))]);
    assert_eq!(guest.call(REFERENCED, &[1]), PayloadValues::default());
    for (id, bytes) in
        [(1023, &[0; 4][..]), (SIZE.into(), &[0; 16]), (SIZE.into(), &[0; 7]), (0, &[1])]
    {
        let values = guest.call(id, bytes);
        assert_eq!((values.fields.len(), values.skipped), (0, 1), "{id}");
    }
}

#[test]
fn what_does_not_fit_is_left_out_and_counted() {
    let mut guest = Guest::new();
    let huge = u64::MAX;
    guest.of_static(&[
        entry(INT, "there"),
        entry(SIZE, "cut"),
        at(huge, entry(INT, "far")),
        array(FIXED_ARRAY, huge, entry(SIZE, "long")),
        entry(99_999, "unknown"),
        entry(INT, "behind the unknown"),
        of(STATIC_IDS + 99, ""),
    ]);
    let values = guest.call(ID, &[1; 12]);
    assert_eq!(fields(&values), [("there", Value::I64(0x0101_0101))]);
    assert_eq!(values.skipped, 6);
    // A struct that says that it is shorter than its entries.
    let entries = [entry(INT, "a"), entry(INT, "b")];
    guest.schema(ID, STATIC, 4, 0, &entries);
    let values = guest.call(ID, &[0; 64]);
    assert_eq!((fields(&values), values.skipped), (vec![("a", Value::I64(0))], 1));
    // More fields than are kept.
    guest.of_static(&(0..40).map(|_| entry(CHAR, "c")).collect::<Vec<_>>());
    let values = guest.call(ID, &[0; 64]);
    assert_eq!((values.fields.len(), values.skipped), (MAX_FIELDS, 40 - MAX_FIELDS as u64));
}

/// Hazard (Hostile guests): Schemas that hold themselves or one another.
/// Promise: They are read in a bounded number of steps.
#[test]
fn schemas_that_hold_themselves_or_one_another_end() {
    let mut guest = Guest::new();
    let many = |kind: u64| vec![of(kind, ""); 64];
    guest.of_static(&many(ID));
    let values = guest.call(ID, &[0; 200]);
    assert_eq!(values.fields, []);
    assert!(values.skipped > 0);
    guest.schema(ID, DYNAMIC, 0, 0, &many(ID));
    assert!(guest.call(ID, &[0; 200]).skipped > 0);
    // A quarter of a million characters.
    guest.schema(ID + 2, STATIC, 64, 0, &many(CHAR.into()));
    for (outer, inner) in [(ID + 1, ID + 2), (ID, ID + 1)] {
        guest.schema(outer, STATIC, 0, 0, &many(inner));
    }
    let skipped = guest.call(ID, &[0; 200]).skipped;
    assert!(skipped > 0 && skipped <= 2 * MAX_STEPS as u64, "{skipped}");
}

#[test]
fn any_bytes_as_payloads_and_registrations_are_survived() {
    let mut random = 7u64;
    let mut draw = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    for _ in 0..500 {
        let mut guest = Guest::new();
        let entries: Vec<OwnedEntry> = (0..draw() % 8)
            .map(|_| OwnedEntry {
                flags: draw() & 0x7ff,
                kind: [draw() % 110, STATIC_IDS + draw() % 3][(draw() % 2) as usize],
                detail: [draw() % 20, draw() << 32][(draw() % 2) as usize],
                offset: [0, draw() % 40, draw() << 30][(draw() % 3) as usize],
                name: Vec::new(),
            })
            .collect();
        for id in 0..3 {
            let (kind, size, pack) = (draw() % 5, draw() % 60, draw() % 9);
            guest.schema(STATIC_IDS + id, kind as u32, size as u32, pack as u32, &entries);
        }
        let payload: Vec<u8> = (0..draw() % 120).map(|_| draw() as u8).collect();
        let values = guest.call(STATIC_IDS + draw() % 3, &payload);
        assert!(values.fields.len() <= MAX_FIELDS);
        let bytes: Vec<u8> = (0..draw() % 40).map(|_| draw() as u8).collect();
        let _ = read(&bytes, 1, &mut guest.definitions);
    }
}

#[test]
fn texts_that_are_cut_are_counted_once() {
    let mut guest = Guest::new();
    let long = vec![b'a'; 1000];
    let of_text = |text: &[u8], skipped: u64, values: &PayloadValues| {
        assert_eq!(fields(values), [("payload", Value::Text(text.to_vec()))]);
        assert_eq!(values.skipped, skipped, "{} bytes", text.len());
    };
    of_text(&long[..MAX_TEXT], 1, &guest.call(CSTRING.into(), &long));
    of_text(&long[..MAX_TEXT], 1, &guest.call(CSTRING.into(), &long[..MAX_TEXT + 1]));
    of_text(&long[..MAX_TEXT], 0, &guest.call(CSTRING.into(), &long[..MAX_TEXT]));
    // One that finds less room because of another payload before it.
    let mut blob = Blob::default();
    blob.add(SIZE.into(), &[0; 8]);
    blob.add(REFERENCED, &[0; 100]);
    let room = blob.room();
    blob.add(CSTRING.into(), &long);
    let values = read(blob.bytes(), 1, &mut guest.definitions);
    assert_eq!((values.skipped, &values.fields[1].1), (1, &Value::Text(long[..room].to_vec())));
    // A message, too.
    let message = u64::from(sys::NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE) | FIXED_ARRAY;
    guest.of_static(&[array(message, 260, entry(CHAR, "name"))]);
    let values = guest.call(ID, &long[..260]);
    assert_eq!((values.skipped, values.message), (1, Some(Value::Text(long[..MAX_TEXT].to_vec()))));
}

#[test]
fn an_array_is_not_taken_for_one_value_because_it_was_cut() {
    let mut guest = Guest::new();
    let mut blob = Blob::default();
    blob.add(REFERENCED, &[0; 250]);
    assert_eq!(blob.room(), 10);
    blob.add(SIZE.into(), &[0; 16]);
    let values = read(blob.bytes(), 1, &mut guest.definitions);
    assert_eq!((values.skipped, values.fields), (1, Vec::new()));
}
