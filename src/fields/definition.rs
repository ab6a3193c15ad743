//! Payload schemas and enumerations: how they lie in the table of registrations, and how they are
//! found by domain and identifier.
//!
//! A schema: type `u8`, size of its payloads `u32` (0: not told), packing `u32` (0: none), name,
//! number of entries `u16`, and of each entry flags, type, detail and offset as `u64` and the name.
//! An enumeration: size of its values `u8`, number of entries `u16`, and of each entry value `u64`,
//! flag `u8` and the name. A name: its length `u16` and its bytes. In the machine's byte order.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::registry::{Entry as Registered, Found, Kind, Registry};

/// The first identifier that a guest may choose; what is below stands for predefined types.
pub const STATIC_IDS: u64 = 1 << 24;
/// The first identifier that we give out; above it the number of the registration.
pub const DYNAMIC_IDS: u64 = 1 << 32;
/// Entries of a schema that are kept.
pub const MAX_ENTRIES: usize = 64;
/// Entries of an enumeration that are kept.
pub const MAX_VALUES: usize = 256;
/// Bytes of a name that are kept.
pub const MAX_NAME: usize = 96;

/// What a payload consists of.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// `NVTX_PAYLOAD_SCHEMA_TYPE_*`.
    pub kind: u8,
    /// Bytes of a payload; 0 where the guest leaves that to its entries.
    pub size: usize,
    /// No entry is aligned to more bytes; 0 for no such bound.
    pub pack: usize,
    /// Its name; may be empty.
    pub name: Vec<u8>,
    /// The entries.
    pub entries: Vec<Entry>,
}

/// One entry of a schema.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// `NVTX_PAYLOAD_ENTRY_FLAG_*`.
    pub flags: u64,
    /// `NVTX_PAYLOAD_ENTRY_TYPE_*`, or a schema or an enumeration.
    pub kind: u64,
    /// Length of an array or text.
    pub detail: u64,
    /// Where it begins; 0 for "behind the one before".
    pub offset: u64,
    /// Its name; may be empty.
    pub name: Vec<u8>,
}

/// Names of values.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Enumeration {
    /// Bytes of a value.
    pub size: usize,
    /// Values, whether each is a flag, and their names.
    pub values: Vec<(u64, bool, Vec<u8>)>,
}

/// What an identifier stands for.
#[derive(Clone, Debug)]
pub enum Definition {
    /// A schema.
    Schema(Rc<Schema>),
    /// An enumeration.
    Enumeration(Rc<Enumeration>),
}

/// The schemas and enumerations of a process, read from its table of registrations.
pub struct Definitions {
    registry: &'static Registry,
    /// By domain and identifier, those that the guest numbered itself.
    chosen: FxHashMap<(u32, u64), Definition>,
    /// By number of the registration.
    given: FxHashMap<u32, Definition>,
    /// Registrations up to this one were looked at.
    seen: u32,
    /// Those of them that were not there yet: another thread was writing them.
    missing: Vec<u32>,
}

impl Definitions {
    /// Those in a table.
    pub fn of(registry: &'static Registry) -> Self {
        Definitions {
            registry,
            chosen: FxHashMap::default(),
            given: FxHashMap::default(),
            seen: 0,
            missing: Vec::new(),
        }
    }

    /// What an identifier stands for in a domain.
    pub fn find(&mut self, domain: u32, id: u64) -> Option<Definition> {
        if let Some(number) = id.checked_sub(DYNAMIC_IDS) {
            let number = u32::try_from(number).ok()?;
            if !self.given.contains_key(&number) {
                self.look();
            }
            return self.given.get(&number).cloned();
        }
        // It may have been registered again since, so the table is looked at each time.
        self.look();
        self.chosen.get(&(domain, id)).cloned()
    }

    /// Takes in what was registered since the last time.
    fn look(&mut self) {
        let last = self.registry.last();
        let missing = std::mem::take(&mut self.missing);
        for number in missing.into_iter().chain(self.seen + 1..=last) {
            match self.registry.get(number) {
                Found::Entry(entry) => self.take_in(number, &entry),
                Found::Nothing => self.missing.push(number),
                Found::Refused => {}
            }
        }
        self.seen = last.max(self.seen);
    }

    fn take_in(&mut self, number: u32, entry: &Registered) {
        let definition = match entry.kind {
            Kind::Schema => schema(&entry.bytes).map(|it| Definition::Schema(Rc::new(it))),
            Kind::Enumeration => {
                enumeration(&entry.bytes).map(|it| Definition::Enumeration(Rc::new(it)))
            }
            Kind::Domain | Kind::Text => None,
        };
        let Some(definition) = definition else { return };
        if entry.id == 0 {
            self.given.insert(number, definition);
        } else {
            self.chosen.insert((entry.domain, entry.id), definition);
        }
    }
}

/// What is left to read of an entry of the table.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(array)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_ne_bytes)
    }

    fn u16(&mut self) -> Option<usize> {
        self.array().map(|bytes| u16::from_ne_bytes(bytes).into())
    }

    fn u32(&mut self) -> Option<usize> {
        self.array().map(|bytes| u32::from_ne_bytes(bytes) as usize)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    fn name(&mut self) -> Option<Vec<u8>> {
        let length = self.u16()?;
        let (name, rest): (&'a [u8], _) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(name.to_vec())
    }
}

fn schema(bytes: &[u8]) -> Option<Schema> {
    let mut from = Bytes(bytes);
    let (kind, size, pack) = (from.u8()?, from.u32()?, from.u32()?);
    let (name, count) = (from.name()?, from.u16()?);
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(Entry {
            flags: from.u64()?,
            kind: from.u64()?,
            detail: from.u64()?,
            offset: from.u64()?,
            name: from.name()?,
        });
    }
    Some(Schema { kind, size, pack, name, entries })
}

fn enumeration(bytes: &[u8]) -> Option<Enumeration> {
    let mut from = Bytes(bytes);
    let (size, count) = (from.u8()?.into(), from.u16()?);
    let mut values = Vec::new();
    for _ in 0..count {
        values.push((from.u64()?, from.u8()? != 0, from.name()?));
    }
    Some(Enumeration { size, values })
}
