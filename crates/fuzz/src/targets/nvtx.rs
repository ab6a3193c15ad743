//! NVTX attributes, payloads and their schemas in the memory of a guest, as the collector reads them.
//!
//! The bytes of an input are instructions: they say what the guest registers and what one call has. The
//! guest keeps NVTX's contract (so many bytes are there, texts end in NUL) and nothing else.

use std::cell::RefCell;
use std::ffi::c_void;

use cupti_sys::nvtx as sys;
use stage2::drain::probe::{Fields, fields};
use stage2::guest::nvtx::probe;
use stage2::guest::registry::Registry;

use super::same_twice;
use crate::memory_count::allocations_of;

const DOMAIN: u32 = 1;
/// Registrations of one input, entries of each, and payloads of its call.
const MAX_REGISTRATIONS: u8 = 5;
const MAX_ENTRIES: u8 = 6;
const MAX_PAYLOADS: u8 = 10;
/// As the collector has them: fields of a call that are kept, and bytes of its payloads that travel.
const MAX_FIELDS: usize = 16;
const BLOB_BYTES: usize = 280;

/// The call as it is sent, and the fields that are read from it.
#[derive(Debug, PartialEq)]
struct Call {
    text: Vec<u8>,
    category: u32,
    payload: String,
    blob: Vec<u8>,
    missing: u64,
    fields: Fields,
}

pub(super) fn check(input: &[u8]) {
    thread_local!(static MEMORY: RefCell<Memory> = RefCell::new(Memory::new()));
    let call = || {
        MEMORY.with_borrow_mut(|memory| {
            memory.clear();
            play(&mut Guest { rest: input, memory })
        })
    };
    let call = same_twice("call", call);
    assert!(call.text.len() <= probe::MAX_TEXT_BYTES && call.blob.len() <= BLOB_BYTES, "{call:?}");
    assert!(call.fields.fields.len() <= MAX_FIELDS, "{call:?}");
}

#[allow(unsafe_code, reason = "the collector reads through the guest's pointers")]
fn play(guest: &mut Guest<'_, '_>) -> Call {
    let registry = Registry::empty();
    registry.prepare();
    for _ in 0..guest.byte() % (MAX_REGISTRATIONS + 1) {
        let is_schema = !guest.byte().is_multiple_of(4);
        let attributes = if is_schema { guest.schema() } else { guest.enumeration() };
        // SAFETY: the attributes, and what they point to, are in `guest.memory` as they say.
        let ((), allocations) = allocations_of(|| unsafe {
            if is_schema {
                probe::schema(&registry, DOMAIN, attributes as *const _);
            } else {
                probe::enumeration(&registry, DOMAIN, attributes as *const _);
            }
        });
        assert_eq!(allocations, 0, "a registration allocates");
    }
    let attributes = guest.attributes();
    // SAFETY: as above.
    let (said, allocations) = allocations_of(|| unsafe { probe::call(attributes as *const _) });
    assert_eq!(allocations, 0, "a call allocates");
    Call {
        text: said.text().to_vec(),
        category: said.category,
        payload: format!("{:?}", said.payload),
        blob: said.blob().to_vec(),
        missing: said.missing,
        fields: fields(said.blob(), DOMAIN, &registry),
    }
}

/// Reads instructions, and puts what they say into memory. Addresses are numbers, as the guest's structs
/// have them; 0 is null.
struct Guest<'i, 'm> {
    rest: &'i [u8],
    memory: &'m mut Memory,
}

impl Guest<'_, '_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        byte
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// A number: small, an identifier, a flag, or anything.
    fn number(&mut self) -> u64 {
        match self.byte() % 8 {
            0 | 1 => self.byte().into(),
            2 => u16::from_le_bytes(self.array()).into(),
            3 => (1 << 24) + u64::from(self.byte() % 8),
            4 => (1 << 32) + u64::from(self.byte() % 8),
            5 => u64::from(self.byte()) << (self.byte() % 57),
            6 => u64::MAX,
            _ => u64::from_le_bytes(self.array()),
        }
    }

    fn bytes(&mut self, at_most: usize) -> Vec<u8> {
        let times = 1 + usize::from(self.byte() % 4) * usize::from(self.byte());
        let length = usize::from(self.byte() % 32);
        let (bytes, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        let mut bytes = bytes.repeat(times);
        bytes.truncate(at_most);
        bytes
    }

    fn put(&mut self, bytes: &[u8]) -> u64 {
        self.memory.put(bytes).map_or(0, |place| place as u64)
    }

    fn words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.put(&bytes)
    }

    /// A text that ends in NUL.
    fn text(&mut self) -> u64 {
        if self.byte().is_multiple_of(8) {
            return 0;
        }
        let mut text = self.bytes(4000);
        text.push(0);
        self.put(&text)
    }

    /// Of four, three have all fields.
    fn mask(&mut self) -> u64 {
        if self.byte().is_multiple_of(4) { self.number() } else { u64::MAX }
    }

    /// How many of what was put there are said to be there: no more.
    fn count(&mut self, place: u64, entries: u64) -> u64 {
        match self.byte() % 8 {
            _ if place == 0 => self.number(),
            0 => 0,
            _ => entries,
        }
    }

    fn schema(&mut self) -> u64 {
        let count = u64::from(self.byte() % (MAX_ENTRIES + 1));
        let mut entries = Vec::new();
        for _ in 0..count {
            let (flags, kind, name) = (self.number(), self.number(), self.text());
            let (detail, offset) = (self.number(), self.number());
            entries.extend([flags, kind, name, 0, detail, offset, 0, 0]);
        }
        let entries = self.words(&entries);
        let (mask, name, kind) = (self.mask(), self.text(), self.number());
        let (flags, count) = (self.number(), self.count(entries, count));
        let (size, pack, id) = (self.number(), self.number(), self.number());
        self.words(&[mask, name, kind, flags, entries, count, size, pack, id, 0])
    }

    fn enumeration(&mut self) -> u64 {
        let count = u64::from(self.byte() % (MAX_ENTRIES + 1));
        let mut entries = Vec::new();
        for _ in 0..count {
            let (name, value, flag) = (self.text(), self.number(), self.byte() % 2);
            entries.extend([name, value, flag.into()]);
        }
        let entries = self.words(&entries);
        let (mask, name, count) = (self.mask(), self.text(), self.count(entries, count));
        let (size, id) = (u64::from(self.byte() % 10), self.number());
        self.words(&[mask, name, entries, count, size, id, 0])
    }

    /// Payloads: how many, and where.
    fn payloads(&mut self) -> (i32, u64) {
        let count = self.byte() % (MAX_PAYLOADS + 1);
        let mut entries = Vec::new();
        for _ in 0..count {
            let schema = self.number();
            let mut bytes = self.bytes(3000);
            let size = match self.byte() % 4 {
                // A text that leaves its length to the NUL.
                0 => {
                    bytes.push(0);
                    u64::MAX
                }
                1 => (bytes.len() / 2) as u64,
                _ => bytes.len() as u64,
            };
            let place = if self.byte().is_multiple_of(16) { 0 } else { self.put(&bytes) };
            entries.extend([schema, size, place]);
        }
        (count.into(), self.words(&entries))
    }

    fn attributes(&mut self) -> u64 {
        if self.byte().is_multiple_of(64) {
            return 0;
        }
        let size = size_of::<sys::nvtxEventAttributes_t>();
        // What a shorter struct lacks is not there.
        let size =
            if self.byte().is_multiple_of(8) { usize::from(self.byte()) % size } else { size };
        let (payload_kind, count, payload) = match self.byte() % 3 {
            0 => (i32::from(self.byte() % 9), i32::from_le_bytes(self.array()), self.number()),
            // Payloads by a schema.
            _ => {
                let (count, place) = self.payloads();
                let count = if place == 0 { i32::from_le_bytes(self.array()) } else { count };
                (sys::NVTX_PAYLOAD_TYPE_EXTENDED, count, place)
            }
        };
        let (payload_kind, payload) = match payload_kind {
            sys::NVTX_PAYLOAD_TYPE_EXTENDED if count < 0 => (payload_kind, 0),
            kind => (kind, payload),
        };
        let (message_kind, message) = match self.byte() % 4 {
            0 => (sys::NVTX_MESSAGE_TYPE_ASCII, self.text()),
            1 => (sys::NVTX_MESSAGE_TYPE_UNICODE, self.wide_text()),
            2 => (sys::NVTX_MESSAGE_TYPE_REGISTERED, self.number()),
            _ => (sys::NVTX_MESSAGE_UNKNOWN, self.number()),
        };
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let head = pair(u32::from(self.byte()) | (size as u32) << 16, u32::from(self.byte()));
        let words = [
            head,
            self.number(),
            pair(payload_kind as u32, count as u32),
            payload,
            pair(message_kind, 0),
            message,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        // Version and size are there in every version of the struct.
        bytes.truncate(size.max(4));
        self.put(&bytes)
    }

    fn wide_text(&mut self) -> u64 {
        let mut text: Vec<u32> = Vec::new();
        for byte in self.bytes(3000) {
            text.push(match byte {
                0 => 0x11_0000,
                byte if byte > 0xe0 => u32::from(byte) << 8,
                byte => byte.into(),
            });
        }
        text.push(0);
        let bytes: Vec<u8> = text.iter().flat_map(|code| code.to_ne_bytes()).collect();
        self.put(&bytes)
    }
}

/// Bytes of the longest piece.
const MAX_BYTES: usize = 16 * PAGE;
const PAGE: usize = 4096;
/// Pieces that there are at once.
const PIECES: usize = 32;

/// Memory of a guest, in blocks that each end at an inaccessible page: a read beyond a block ends the
/// program.
struct Memory {
    start: *mut u8,
    used: usize,
}

const EACH: usize = MAX_BYTES + PAGE;

impl Memory {
    /// Reserves all pieces.
    fn new() -> Self {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at a place of the kernel's choice touches nothing that exists.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), EACH * PIECES, access, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "some megabytes of address space");
        let memory = Memory { start: start.cast(), used: 0 };
        for piece in 0..PIECES {
            // SAFETY: the last page of a piece, within the mapping.
            let status = unsafe {
                libc::mprotect(memory.end(piece).cast::<c_void>(), PAGE, libc::PROT_NONE)
            };
            assert_eq!(status, 0, "a page of our own can be closed");
        }
        memory
    }

    fn end(&self, piece: usize) -> *mut u8 {
        // SAFETY: there are `PIECES` pieces, each of `EACH` bytes.
        unsafe { self.start.add(piece * EACH + MAX_BYTES) }
    }

    fn clear(&mut self) {
        self.used = 0;
    }

    /// A piece with just these bytes. `None`: no piece is left, or there are too many bytes.
    fn put(&mut self, bytes: &[u8]) -> Option<*const u8> {
        if self.used == PIECES || bytes.len() > MAX_BYTES {
            return None;
        }
        // SAFETY: so many bytes before the end are in the piece, and can be written to.
        let place = unsafe { self.end(self.used).sub(bytes.len()) };
        // SAFETY: as above; the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        self.used += 1;
        Some(place)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody uses any more.
        unsafe { libc::munmap(self.start.cast(), EACH * PIECES) };
    }
}
