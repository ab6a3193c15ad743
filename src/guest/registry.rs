//! What the guest registers with NVTX (domains, strings, payload schemas, enumerations) into one
//! append-only table of this process, readable by number at any time.
//!
//! The guest keeps the numbers for ever, across the end of a collection and across a fork. So the
//! table belongs to the process and not to a collection: a number is never given out twice, and an
//! entry never changes. The memory is copied on write at a fork, so a child reads what its parent
//! registered. Guest threads neither allocate nor wait: places are taken by atomic addition, and an
//! entry becomes visible with the store of its place.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

use crate::base::pages;

/// Entries that are kept.
pub const MAX_ENTRIES: usize = 1 << 16;
/// Bytes of all entries that are kept.
const MAX_BYTES: usize = 4 << 20;
/// Limits for registered strings. A guest may register one per request; the rest is kept for domains
/// and schemas, without which nothing else can be read.
const MAX_ENTRIES_FOR_TEXTS: usize = MAX_ENTRIES / 4 * 3;
const MAX_BYTES_FOR_TEXTS: usize = MAX_BYTES / 4 * 3;
const SLOT_BYTES: usize = size_of::<AtomicU32>();
const MAP_BYTES: usize = MAX_ENTRIES * SLOT_BYTES + MAX_BYTES;

/// In the place of an entry: it is not there yet.
const EMPTY: u32 = 0;
/// In the place of an entry: there was no room for it.
const REFUSED: u32 = u32::MAX;
/// Bytes in front of what an entry holds: kind, domain, identifier, length.
const HEAD_BYTES: usize = 1 + 4 + 8 + 4;

static REGISTRY: Registry = Registry::empty();

/// The table of this process.
pub fn registry() -> &'static Registry {
    &REGISTRY
}

/// What was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A domain; the bytes are its name.
    Domain = 1,
    /// A registered string; the bytes are its text.
    Text = 2,
    /// A payload schema; see `schema_encoding`.
    Schema = 3,
    /// An enumeration; see `schema_encoding`.
    Enumeration = 4,
}

/// An entry of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// The domain that it was registered in.
    pub domain: u32,
    /// The identifier that the guest chose; 0 where it left the choice to us.
    pub id: u64,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// What stands under a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// An entry.
    Entry(Entry),
    /// The table was full when it was registered.
    Refused,
    /// Nothing (yet): another thread may be writing it.
    Nothing,
}

/// The table.
pub struct Registry {
    map: AtomicPtr<u8>,
    /// Numbers of places that were given out.
    next: AtomicU32,
    /// Numbers without a place that were given out, behind those with one.
    placeless: AtomicU32,
    used: AtomicU32,
}

impl Registry {
    /// A table without entries and memory.
    pub const fn empty() -> Self {
        Registry {
            map: AtomicPtr::new(ptr::null_mut()),
            next: AtomicU32::new(0),
            placeless: AtomicU32::new(0),
            used: AtomicU32::new(0),
        }
    }

    /// Reserves the memory, unless that was done. Pages are taken when they are first written.
    /// Without memory every entry is refused.
    pub fn prepare(&self) {
        if !self.map.load(Ordering::Acquire).is_null() {
            return;
        }
        // It stays for the life of the process, unless another thread was first.
        let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        let Some(map) = pages::map(MAP_BYTES, flags) else { return };
        let none = ptr::null_mut();
        let stored =
            self.map.compare_exchange(none, map.cast(), Ordering::AcqRel, Ordering::Acquire);
        if stored.is_err() {
            // SAFETY: a new mapping, which nobody else knows.
            unsafe { libc::munmap(map, MAP_BYTES) };
        }
    }

    fn slots(&self) -> &[AtomicU32] {
        let map = self.map.load(Ordering::Acquire);
        if map.is_null() {
            return &[];
        }
        // SAFETY: the mapping has this many bytes, is aligned to a page, was zeroed by the kernel,
        // is only ever accessed as these atomics, and is never given back.
        unsafe { std::slice::from_raw_parts(map.cast(), MAX_ENTRIES) }
    }

    fn bytes(&self) -> &[AtomicU8] {
        let map = self.map.load(Ordering::Acquire);
        if map.is_null() {
            return &[];
        }
        // SAFETY: as above; these are the bytes behind the slots.
        unsafe { std::slice::from_raw_parts(map.add(MAX_ENTRIES * SLOT_BYTES).cast(), MAX_BYTES) }
    }

    /// Adds an entry of `length` bytes that `fill` writes. Gives its number, from 1, which is never
    /// given out again, and whether there was room for the entry. Neither allocates nor waits.
    pub fn add(
        &self,
        kind: Kind,
        domain: u32,
        id: u64,
        length: usize,
        fill: impl FnOnce(&mut EntryWriter<'_>),
    ) -> (u32, bool) {
        self.prepare();
        let (max_entries, max_bytes) = match kind {
            Kind::Text => (MAX_ENTRIES_FOR_TEXTS, MAX_BYTES_FOR_TEXTS),
            Kind::Domain | Kind::Schema | Kind::Enumeration => (MAX_ENTRIES, MAX_BYTES),
        };
        let one_more = |next: u32| (next < max_entries as u32).then_some(next + 1);
        let place = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        let Ok(index) = place else { return (self.placeless_number(), false) };
        let number = index + 1;
        let Some(slot) = self.slots().get(index as usize) else { return (number, false) };
        let needed = HEAD_BYTES.saturating_add(length);
        let take = |used: u32| {
            let end = (used as usize).checked_add(needed).filter(|&end| end <= max_bytes)?;
            Some(end as u32)
        };
        let Ok(start) = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else {
            slot.store(REFUSED, Ordering::Release);
            return (number, false);
        };
        let range = start as usize..start as usize + needed;
        let mut place = EntryWriter { bytes: self.bytes().get(range).unwrap_or_default() };
        place.put(&[kind as u8]);
        place.put(&domain.to_ne_bytes());
        place.put(&id.to_ne_bytes());
        place.put(&(length as u32).to_ne_bytes());
        fill(&mut place);
        slot.store(start + 1, Ordering::Release);
        (number, true)
    }

    /// A number for what has no place in the table. Beyond the last number all share it.
    fn placeless_number(&self) -> u32 {
        let last = u32::MAX - MAX_ENTRIES as u32;
        let one_more = |count: u32| (count < last).then_some(count + 1);
        let before = self.placeless.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        before.map_or(u32::MAX, |before| MAX_ENTRIES as u32 + 1 + before)
    }

    /// Whether a number is one without a place that was given out.
    fn is_placeless(&self, number: u32) -> bool {
        let index = number.checked_sub(MAX_ENTRIES as u32 + 1);
        index.is_some_and(|index| index < self.placeless.load(Ordering::Acquire))
    }

    pub(crate) fn add_text(&self, kind: Kind, domain: u32, text: &[u8]) -> (u32, bool) {
        self.add(kind, domain, 0, text.len(), |place| place.put(text))
    }

    /// Numbers of places that were given out so far: 1 to this one.
    pub fn last(&self) -> u32 {
        self.next.load(Ordering::Acquire)
    }

    /// What stands under a number. Allocates: for our own thread.
    pub fn get(&self, number: u32) -> Lookup {
        let index = (number as usize).wrapping_sub(1);
        let start = match self.slots().get(index).map(|slot| slot.load(Ordering::Acquire)) {
            Some(EMPTY) => return Lookup::Nothing,
            Some(REFUSED) => return Lookup::Refused,
            Some(start) => start as usize - 1,
            None if (1..=self.last()).contains(&number) || self.is_placeless(number) => {
                return Lookup::Refused;
            }
            None => return Lookup::Nothing,
        };
        let bytes = self.bytes();
        let read = |from: usize, count: usize| -> Vec<u8> {
            let place = bytes.get(from..from + count).unwrap_or_default();
            place.iter().map(|byte| byte.load(Ordering::Relaxed)).collect()
        };
        let entry = || {
            let head = read(start, HEAD_BYTES);
            let mut head = EntryReader(&head);
            let kinds = [Kind::Domain, Kind::Text, Kind::Schema, Kind::Enumeration];
            let kind = head.u8()?;
            let kind = kinds.into_iter().find(|known| *known as u8 == kind)?;
            let (domain, id, length) = (head.u32()?, head.u64()?, head.u32()?);
            let bytes = read(start + HEAD_BYTES, length as usize);
            Some(Entry { kind, domain, id, bytes })
        };
        entry().map_or(Lookup::Nothing, Lookup::Entry)
    }
}

impl Drop for Registry {
    /// Gives the memory back. That of the process is in a static, and stays.
    fn drop(&mut self) {
        let map = *self.map.get_mut();
        if !map.is_null() {
            // SAFETY: the mapping of `prepare`, to which nobody has a reference any more.
            unsafe { libc::munmap(map.cast(), MAP_BYTES) };
        }
    }
}

/// Writes the bytes of an entry.
pub struct EntryWriter<'a> {
    bytes: &'a [AtomicU8],
}

impl EntryWriter<'_> {
    /// Writes bytes; what goes beyond the length that was announced is dropped.
    pub fn put(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.bytes.len());
        let (here, rest) = self.bytes.split_at(count);
        here.iter().zip(bytes).for_each(|(place, &byte)| place.store(byte, Ordering::Relaxed));
        self.bytes = rest;
    }
}

/// What is left to read of bytes that guest threads wrote. Every method is `None` beyond their end.
pub(super) struct EntryReader<'a>(pub(super) &'a [u8]);

impl<'a> EntryReader<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(array)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_ne_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn name(&mut self) -> Option<Vec<u8>> {
        let length = self.u16()?;
        self.bytes(length.into()).map(<[u8]>::to_vec)
    }
}

/// A domain or a registered string; [`Handle::NULL`] is the default domain, and no string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub u64);

impl Handle {
    /// The default domain, and "no registered string".
    pub const NULL: Handle = Handle(0);
    /// Above the lowest bit, which is always set, and a number of 32 bits.
    const LIBRARY: u64 = 1 << 33;
    const GLOB_SHIFT: u32 = 34;

    /// A handle; never null. `globs`: the `STAGE2_RANGES` globs that match it. `library`: it is a
    /// domain of a library ([`stage2_contract::text::is_library_domain`]).
    pub fn new(number: u32, globs: u32, library: bool) -> Self {
        let library = if library { Self::LIBRARY } else { 0 };
        Handle(u64::from(globs) << Self::GLOB_SHIFT | library | u64::from(number) << 1 | 1)
    }

    /// The number in the table of registrations (`registry`); 0 for [`Handle::NULL`].
    pub fn number(self) -> u32 {
        (self.0 >> 1) as u32
    }

    /// The globs that match.
    pub fn globs(self) -> u32 {
        (self.0 >> Self::GLOB_SHIFT) as u32
    }

    /// Whether it is a domain of a library, whose ranges are never those of the program.
    pub fn is_library(self) -> bool {
        self.0 & Self::LIBRARY != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(registry: &Registry, number: u32) -> Option<Vec<u8>> {
        match registry.get(number) {
            Lookup::Entry(entry) => Some(entry.bytes),
            _ => None,
        }
    }

    #[test]
    fn entries_are_read_as_they_were_added_and_numbers_grow() {
        let registry = Registry::empty();
        assert_eq!(registry.get(1), Lookup::Nothing);
        assert_eq!(registry.add_text(Kind::Domain, 0, b"NCCL"), (1, true));
        let added = registry.add(Kind::Schema, 1, 77, 4, |place| place.put(b"abcdefgh"));
        assert_eq!(added, (2, true));
        assert_eq!(registry.add_text(Kind::Text, 1, b""), (3, true));
        assert_eq!(text_of(&registry, 1).as_deref(), Some(&b"NCCL"[..]));
        let bytes = b"abcd".to_vec();
        let schema = Entry { kind: Kind::Schema, domain: 1, id: 77, bytes };
        assert_eq!(registry.get(2), Lookup::Entry(schema));
        assert_eq!(text_of(&registry, 3), Some(Vec::new()));
        assert_eq!(
            [registry.get(0), registry.get(4), registry.get(u32::MAX)],
            [Lookup::Nothing, Lookup::Nothing, Lookup::Nothing]
        );
    }

    #[test]
    fn a_full_table_refuses_says_so_and_keeps_what_it_has() {
        let registry = Registry::empty();
        let add = |text: &[u8]| registry.add_text(Kind::Domain, 0, text);
        assert_eq!(add(b"first"), (1, true));
        assert_eq!(add(&vec![7; MAX_BYTES]), (2, false));
        assert_eq!(registry.get(2), Lookup::Refused);
        for number in 3..=MAX_ENTRIES as u32 {
            assert_eq!(add(b"x"), (number, true));
        }
        let beyond = MAX_ENTRIES as u32 + 1;
        assert_eq!(add(b"x"), (beyond, false));
        assert_eq!(
            (registry.get(beyond), registry.get(beyond + 1)),
            (Lookup::Refused, Lookup::Nothing)
        );
        assert_eq!(text_of(&registry, 1).as_deref(), Some(&b"first"[..]));
        registry.placeless.store(u32::MAX - MAX_ENTRIES as u32 - 1, Ordering::Relaxed);
        assert_eq!([add(b"x"), add(b"x")], [(u32::MAX, false); 2]);
        assert_eq!(registry.get(u32::MAX), Lookup::Refused);
    }

    /// Hazard (Resources): More registrations than the table holds.
    /// Promise: Domains and schemas still find room.
    #[test]
    fn texts_leave_room_for_domains_and_schemas() {
        let many = Registry::empty();
        let of_many = (0..2 * MAX_ENTRIES).filter(|_| many.add_text(Kind::Text, 0, b"x").1).count();
        let few = Registry::empty();
        let long = vec![7; 1 << 10];
        let of_few = (0..8 << 10).filter(|_| few.add_text(Kind::Text, 0, &long).1).count();
        assert_eq!(of_many, MAX_ENTRIES_FOR_TEXTS);
        assert_eq!(of_few, MAX_BYTES_FOR_TEXTS / (HEAD_BYTES + long.len()));
        for registry in [many, few] {
            let (number, kept) = registry.add_text(Kind::Domain, 0, b"NCCL");
            assert!(kept);
            assert_eq!(text_of(&registry, number).as_deref(), Some(&b"NCCL"[..]));
            assert!(registry.add(Kind::Schema, number, 0, 4, |place| place.put(b"abcd")).1);
            assert_eq!(registry.get(number + 2), Lookup::Nothing);
        }
    }

    #[test]
    fn threads_that_register_at_once_get_numbers_and_bytes_of_their_own() {
        let registry = Registry::empty();
        let numbers: Vec<(u32, String)> = std::thread::scope(|scope| {
            let add = |thread: u32| {
                let registry = &registry;
                scope.spawn(move || {
                    let name = |i| format!("{thread}:{i}");
                    let add = |i| registry.add_text(Kind::Text, thread, name(i).as_bytes()).0;
                    (0..1000).map(|i| (add(i), name(i))).collect::<Vec<_>>()
                })
            };
            let threads: Vec<_> = (0..4).map(add).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        for (number, name) in &numbers {
            assert_eq!(text_of(&registry, *number).as_deref(), Some(name.as_bytes()));
        }
        assert_eq!(registry.last(), 4000);
    }

    #[test]
    fn handles_carry_number_globs_and_library_and_are_never_null() {
        for number in [1, 77, u32::MAX] {
            for globs in [0, 1, (1 << crate::base::glob::MAX_GLOBS) - 1] {
                for library in [false, true] {
                    let handle = Handle::new(number, globs, library);
                    assert_ne!(handle, Handle::NULL);
                    assert_eq!((handle.number(), handle.globs()), (number, globs));
                    assert_eq!(handle.is_library(), library);
                }
            }
        }
        assert_eq!(Handle::NULL.number(), 0);
    }
}
