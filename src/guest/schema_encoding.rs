//! How payload schemas and enumerations lie in the table of registrations: written on the guest's
//! threads, read on ours.
//!
//! A schema: type `u8`, size of its payloads `u32` (0: unknown), packing `u32` (0: none), name,
//! number of entries `u16`, and of each entry flags, type, detail and offset as `u64` and the name.
//! An enumeration: size of its values `u8`, number of entries `u16`, and of each entry value `u64`,
//! flag `u8` and the name. A name: its length `u16` and its bytes. In the machine's byte order.

use crate::guest::registry::{EntryReader, EntryWriter, Kind, Registry};

/// The first identifier that a guest may choose; what is below stands for predefined types.
pub(crate) const STATIC_IDS: u64 = 1 << 24;
/// The first identifier that we give out; above it the number of the registration.
pub(crate) const DYNAMIC_IDS: u64 = 1 << 32;
/// Entries of a schema that are kept.
pub(crate) const MAX_SCHEMA_ENTRIES: usize = 64;
/// Entries of an enumeration that are kept.
pub(crate) const MAX_VALUES: usize = 256;
/// Bytes of a name that are kept.
pub(crate) const MAX_NAME: usize = 96;

/// What a schema says besides its entries. `N`: a name, the guest's or our own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchemaHead<N> {
    /// `NVTX_PAYLOAD_SCHEMA_TYPE_*`.
    pub(crate) kind: u8,
    /// Bytes of a payload; 0 where the guest leaves that to its entries.
    pub(crate) size: u32,
    /// No entry is aligned to more bytes; 0 for no such bound.
    pub(crate) pack: u32,
    /// May be empty.
    pub(crate) name: N,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Schema {
    pub(crate) head: SchemaHead<Vec<u8>>,
    pub(crate) entries: Vec<OwnedEntry>,
}

/// An entry with its own name.
pub(crate) type OwnedEntry = SchemaEntry<Vec<u8>>;

/// One entry of a schema, with a name as in [`SchemaHead`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchemaEntry<N> {
    /// `NVTX_PAYLOAD_ENTRY_FLAG_*`.
    pub(crate) flags: u64,
    /// `NVTX_PAYLOAD_ENTRY_TYPE_*`, or a schema or an enumeration.
    pub(crate) kind: u64,
    /// Length of an array or text.
    pub(crate) detail: u64,
    /// Where it begins; 0 for "behind the one before".
    pub(crate) offset: u64,
    /// May be empty.
    pub(crate) name: N,
}

/// A value of an enumeration, whether it is a flag, and its name.
pub(crate) type EnumValue<N> = (u64, bool, N);

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Enumeration {
    /// Bytes of a value.
    pub(crate) size: usize,
    pub(crate) values: Vec<EnumValue<Vec<u8>>>,
}

/// Adds a schema, as [`Registry::add`] does, with [`MAX_SCHEMA_ENTRIES`] at most. Neither allocates nor waits.
pub(crate) fn add_schema<'a>(
    registry: &Registry,
    domain: u32,
    id: u64,
    head: SchemaHead<&[u8]>,
    entries: impl ExactSizeIterator<Item = SchemaEntry<&'a [u8]>> + Clone,
) -> (u32, bool) {
    let entries = entries.take(MAX_SCHEMA_ENTRIES);
    let lengths = entries.clone().map(|entry| 4 * 8 + name_length(entry.name));
    let length = 1 + 4 + 4 + name_length(head.name) + 2 + lengths.sum::<usize>();
    registry.add(Kind::Schema, domain, id, length, |to| {
        to.put(&[head.kind]);
        to.put(&head.size.to_ne_bytes());
        to.put(&head.pack.to_ne_bytes());
        put_name(to, head.name);
        to.put(&(entries.len() as u16).to_ne_bytes());
        for entry in entries {
            for number in [entry.flags, entry.kind, entry.detail, entry.offset] {
                to.put(&number.to_ne_bytes());
            }
            put_name(to, entry.name);
        }
    })
}

/// Adds an enumeration of `size` bytes to the table, as [`add_schema`], with [`MAX_VALUES`] at most.
pub(crate) fn add_enumeration<'a>(
    registry: &Registry,
    domain: u32,
    id: u64,
    size: u8,
    values: impl ExactSizeIterator<Item = EnumValue<&'a [u8]>> + Clone,
) -> (u32, bool) {
    let values = values.take(MAX_VALUES);
    let lengths = values.clone().map(|(.., name)| 8 + 1 + name_length(name));
    let length = 1 + 2 + lengths.sum::<usize>();
    registry.add(Kind::Enumeration, domain, id, length, |to| {
        to.put(&[size]);
        to.put(&(values.len() as u16).to_ne_bytes());
        for (value, is_flag, name) in values {
            to.put(&value.to_ne_bytes());
            to.put(&[u8::from(is_flag)]);
            put_name(to, name);
        }
    })
}

fn kept(name: &[u8]) -> &[u8] {
    &name[..name.len().min(MAX_NAME)]
}

fn name_length(name: &[u8]) -> usize {
    2 + kept(name).len()
}

fn put_name(to: &mut EntryWriter<'_>, name: &[u8]) {
    let name = kept(name);
    to.put(&(name.len() as u16).to_ne_bytes());
    to.put(name);
}

/// Reads a schema. `None`: the bytes are not one.
pub(crate) fn schema(bytes: &[u8]) -> Option<Schema> {
    let mut from = EntryReader(bytes);
    let (kind, size, pack) = (from.u8()?, from.u32()?, from.u32()?);
    let head = SchemaHead { kind, size, pack, name: from.name()? };
    let count = from.u16()?;
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(SchemaEntry {
            flags: from.u64()?,
            kind: from.u64()?,
            detail: from.u64()?,
            offset: from.u64()?,
            name: from.name()?,
        });
    }
    Some(Schema { head, entries })
}

/// Reads an enumeration. `None`: the bytes are not one.
pub(crate) fn enumeration(bytes: &[u8]) -> Option<Enumeration> {
    let mut from = EntryReader(bytes);
    let (size, count) = (from.u8()?.into(), from.u16()?);
    let mut values = Vec::new();
    for _ in 0..count {
        values.push((from.u64()?, from.u8()? != 0, from.name()?));
    }
    Some(Enumeration { size, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::registry::Lookup;

    fn bytes_of(registry: &Registry, number: u32) -> Vec<u8> {
        match registry.get(number) {
            Lookup::Entry(entry) => entry.bytes,
            found => panic!("{found:?}"),
        }
    }

    fn entry<N>(number: u64, name: N) -> SchemaEntry<N> {
        let [flags, kind, detail, offset] = [1, 2, 3, 4].map(|digit| number << 8 | digit);
        SchemaEntry { flags, kind, detail, offset, name }
    }

    #[test]
    fn what_is_written_is_read_and_only_cut_beyond_the_limits() {
        let registry = Registry::empty();
        let long = [b'n'; MAX_NAME + 1];
        let name = |number: u64| if number == 0 { &b""[..] } else { &long[1..] };
        let entries: Vec<_> =
            (0..MAX_SCHEMA_ENTRIES as u64 + 1).map(|number| entry(number, name(number))).collect();
        let head = SchemaHead { kind: 7, size: u32::MAX, pack: 16, name: &long[..] };
        let (number, kept) = add_schema(&registry, 1, 9, head, entries.iter().copied());
        let mut expected = Schema {
            head: SchemaHead { kind: 7, size: u32::MAX, pack: 16, name: long[1..].to_vec() },
            entries: (0..).zip(&entries).map(|(i, e)| entry(i, e.name.to_vec())).collect(),
        };
        expected.entries.truncate(MAX_SCHEMA_ENTRIES);
        assert_eq!((kept, schema(&bytes_of(&registry, number))), (true, Some(expected)));

        let value = |value: u64| (u64::MAX - value, value == 1, &long[..]);
        let values: Vec<_> = (0..MAX_VALUES as u64 + 1).map(value).collect();
        let (number, kept) = add_enumeration(&registry, 1, 0, 8, values.iter().copied());
        let owned =
            |&(value, is_flag, _): &(u64, bool, &[u8])| (value, is_flag, long[1..].to_vec());
        let values = values.iter().take(MAX_VALUES).map(owned).collect();
        let expected = Enumeration { size: 8, values };
        assert_eq!((kept, enumeration(&bytes_of(&registry, number))), (true, Some(expected)));
    }

    #[test]
    fn bytes_that_end_early_are_nothing() {
        let registry = Registry::empty();
        let head = SchemaHead { kind: 1, size: 4, pack: 0, name: &b"s"[..] };
        let number = add_schema(&registry, 1, 9, head, std::iter::once(entry(1, &b"x"[..]))).0;
        let bytes = bytes_of(&registry, number);
        assert!((0..bytes.len()).all(|end| schema(&bytes[..end]).is_none()));
        let values = std::iter::once((1, false, &b"one"[..]));
        let bytes = bytes_of(&registry, add_enumeration(&registry, 1, 9, 4, values).0);
        assert!((0..bytes.len()).all(|end| enumeration(&bytes[..end]).is_none()));
    }
}
