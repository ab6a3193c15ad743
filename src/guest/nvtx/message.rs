//! The texts, attributes and payloads that NVTX points at into bounded byte slices: the only reader of the
//! guest's NVTX memory. Payloads are copied within bounds, and no pointer in them is followed.

use std::ffi::c_char;

use cupti_sys::nvtx as sys;
use stage2_contract::trace::Payload;

use super::{Attributes, Handle};
use crate::guest::blob::{Blob, MAX_PAYLOADS};
use crate::guest::event::TEXT_LIMIT;

/// A text of the guest's, where it lies.
#[derive(Clone, Copy)]
pub(super) enum Text<'a> {
    None,
    /// Bytes up to the NUL, at most one more than is kept.
    Bytes(&'a [u8]),
    /// UTF-32, as `wchar_t` is on Linux; bounded in the same way.
    Wide(&'a [u32]),
    /// Given out by `register_string`.
    Registered(Handle),
}

impl<'a> Text<'a> {
    /// A text that ends in NUL.
    ///
    /// # Safety
    /// `start` is null or points to a NUL-terminated string that lives for `'a`.
    pub(super) unsafe fn from_ascii(start: *const c_char) -> Text<'a> {
        if start.is_null() {
            return Text::None;
        }
        // SAFETY: the string is readable up to its NUL, and no byte behind it is read.
        unsafe {
            let length = libc::strnlen(start, TEXT_LIMIT + 1);
            Text::Bytes(std::slice::from_raw_parts(start.cast(), length))
        }
    }

    /// A wide text that ends in NUL.
    ///
    /// # Safety
    /// `start` is null or points to a NUL-terminated, aligned wide string that lives for `'a`.
    pub(super) unsafe fn from_wide(start: *const sys::wchar_t) -> Text<'a> {
        if start.is_null() || !start.is_aligned() {
            return Text::None;
        }
        let mut length = 0;
        // SAFETY: characters are read one by one up to the NUL, and none behind it.
        unsafe {
            while length <= TEXT_LIMIT && *start.add(length) != 0 {
                length += 1;
            }
            Text::Wide(std::slice::from_raw_parts(start.cast(), length))
        }
    }

    /// Gives the text as bytes (wide ones as UTF-8) to `use_bytes`, from the stack.
    pub(super) fn with_bytes<T>(self, use_bytes: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Text::None | Text::Registered(_) => use_bytes(&[]),
            Text::Bytes(bytes) => use_bytes(bytes),
            Text::Wide(wide) => {
                // One byte more than is kept, so that a cut is noticed and counted.
                let mut bytes = [0; TEXT_LIMIT + 4];
                let mut used = 0;
                for &code in wide {
                    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                    let end = used + character.len_utf8();
                    match bytes.get_mut(used..end) {
                        Some(place) => character.encode_utf8(place),
                        None => break,
                    };
                    used = end;
                }
                use_bytes(&bytes[..used])
            }
        }
    }
}

/// Reads event attributes, no further than their `size` says.
///
/// # Safety
/// `attributes` is null or points to attributes that live for `'a`, with the message that their
/// type names and the payloads that theirs does.
pub(super) unsafe fn read<'a>(attributes: *const sys::nvtxEventAttributes_t) -> Attributes<'a> {
    if attributes.is_null() {
        return Attributes::NONE;
    }
    // SAFETY: version and size are there in every version of the struct.
    let size = usize::from(unsafe { (&raw const (*attributes).size).read_unaligned() });
    if size < size_of::<sys::nvtxEventAttributes_t>() {
        return Attributes::NONE;
    }
    // SAFETY: the guest says that the whole struct is there; it may stand anywhere.
    let attributes = unsafe { attributes.read_unaligned() };
    let message = attributes.message;
    // SAFETY: the type says which member of the union was set; the caller vouches for the text.
    let text = unsafe {
        match attributes.messageType as sys::nvtxMessageType_t {
            sys::NVTX_MESSAGE_TYPE_ASCII => Text::from_ascii(message.ascii),
            sys::NVTX_MESSAGE_TYPE_UNICODE => Text::from_wide(message.unicode),
            sys::NVTX_MESSAGE_TYPE_REGISTERED => {
                Text::Registered(Handle(message.registered as u64))
            }
            _ => Text::None,
        }
    };
    let value = attributes.payload;
    // SAFETY: as above; every member is a plain number.
    let payload = unsafe {
        match attributes.payloadType as sys::nvtxPayloadType_t {
            sys::NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 => Some(Payload::U64(value.ullValue)),
            sys::NVTX_PAYLOAD_TYPE_INT64 => Some(Payload::I64(value.llValue)),
            sys::NVTX_PAYLOAD_TYPE_DOUBLE => Some(Payload::F64(value.dValue)),
            sys::NVTX_PAYLOAD_TYPE_UNSIGNED_INT32 => Some(Payload::U64(value.uiValue.into())),
            sys::NVTX_PAYLOAD_TYPE_INT32 => Some(Payload::I64(value.iValue.into())),
            sys::NVTX_PAYLOAD_TYPE_FLOAT => Some(Payload::F64(value.fValue.into())),
            _ => None,
        }
    };
    let payloads = match attributes.payloadType {
        // SAFETY: the type says that the value is where so many payloads lie, which are there until
        // the call ends.
        sys::NVTX_PAYLOAD_TYPE_EXTENDED => unsafe {
            let count = usize::try_from(attributes.reserved0).unwrap_or(0);
            Payloads::new(value.ullValue as *const sys::nvtxPayloadData_t, count)
        },
        _ => Payloads::NONE,
    };
    Attributes { text, category: attributes.category, payload, payloads }
}

/// Predefined types whose payloads may leave their size to the NUL at their end.
const ENDED: [u64; 2] =
    [sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING as u64, sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8 as u64];

#[derive(Clone, Copy)]
pub(super) struct Payloads {
    start: *const sys::nvtxPayloadData_t,
    count: usize,
}

impl Payloads {
    pub(super) const NONE: Payloads = Payloads { start: std::ptr::null(), count: 0 };

    /// # Safety
    /// `start` is null or points to `count` entries that, with what they point to, are there until
    /// the call ends.
    pub(super) unsafe fn new(start: *const sys::nvtxPayloadData_t, count: usize) -> Self {
        if start.is_null() { Self::NONE } else { Payloads { start, count } }
    }

    pub(super) fn are_none(self) -> bool {
        self.count == 0
    }

    /// Copies what there is room for. Returns how many payloads are missing altogether; what a cut
    /// payload lacks is counted when it is read.
    pub(super) fn copy_to(self, blob: &mut Blob) -> u64 {
        let looked_at = self.count.min(MAX_PAYLOADS);
        let mut missing = (self.count - looked_at) as u64;
        for index in 0..looked_at {
            // SAFETY: `new`'s contract: so many entries are there. They may stand anywhere.
            let entry = unsafe { self.start.add(index).read_unaligned() };
            if entry.size == 0 {
                continue;
            }
            let is_ended = entry.size == usize::MAX && ENDED.contains(&entry.schemaId);
            let is_sized = entry.size != usize::MAX;
            if entry.payload.is_null() || blob.room() == 0 || !(is_ended || is_sized) {
                missing += 1;
                continue;
            }
            // One more than there is room for, by which the blob knows that it cuts.
            let enough = blob.room() + 1;
            // SAFETY: a text that ends in NUL, no byte behind which is read; or the guest says that so
            // many bytes are there.
            let bytes: &[u8] = unsafe {
                let length = match is_ended {
                    true => libc::strnlen(entry.payload.cast(), enough),
                    false => entry.size.min(enough),
                };
                std::slice::from_raw_parts(entry.payload.cast(), length)
            };
            blob.add(entry.schemaId, bytes);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::blob::{self, BLOB_BYTES};

    #[test]
    fn texts_without_an_end_are_cut_one_byte_beyond_the_limit() {
        let long = vec![b'x'; TEXT_LIMIT * 3];
        // SAFETY: strnlen stops within the vector, at the limit.
        let text = unsafe { Text::from_ascii(long.as_ptr().cast()) };
        assert_eq!(text.with_bytes(<[u8]>::len), TEXT_LIMIT + 1);
    }

    #[test]
    fn wide_texts_become_utf8_and_impossible_characters_are_replaced() {
        let wide: Vec<i32> = vec!['a' as i32, 'é' as i32, '漢' as i32, -5, 0];
        // SAFETY: the vector ends in NUL.
        let text = unsafe { Text::from_wide(wide.as_ptr()) };
        text.with_bytes(|bytes| assert_eq!(bytes, "aé漢\u{FFFD}".as_bytes()));
        let long: Vec<i32> = vec!['漢' as i32; TEXT_LIMIT * 2];
        // SAFETY: reading stops at the limit, within the vector.
        let text = unsafe { Text::from_wide(long.as_ptr()) };
        text.with_bytes(|bytes| assert!(bytes.len() > TEXT_LIMIT && bytes.len() < TEXT_LIMIT + 5));
    }

    #[test]
    fn null_pointers_and_short_structs_are_no_text() {
        // SAFETY: null is allowed.
        unsafe {
            assert!(matches!(Text::from_ascii(std::ptr::null()), Text::None));
            assert!(matches!(Text::from_wide(std::ptr::null()), Text::None));
            assert!(matches!(read(std::ptr::null()).text, Text::None));
        }
        // SAFETY: all-zero bytes are a valid value of this struct of numbers and pointers.
        let short: sys::nvtxEventAttributes_t = unsafe { std::mem::zeroed() };
        // SAFETY: the struct lives on the stack; its size of 0 forbids reading on.
        assert!(matches!(unsafe { read(&raw const short) }.text, Text::None));
    }

    const TEXT: u64 = ENDED[0];
    const SIZE: u64 = sys::NVTX_PAYLOAD_ENTRY_TYPE_SIZE as u64;

    /// How many payloads are missing, and schema, length and cut of those that are kept.
    fn copied(payloads: &[(u64, usize, Option<&[u8]>)]) -> (u64, Vec<(u64, usize, bool)>) {
        let entry = |&(schema, size, bytes): &(u64, usize, Option<&[u8]>)| {
            let payload = bytes.map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast());
            // SAFETY: all-zero is a valid value of this struct of numbers and pointers.
            let mut entry: sys::nvtxPayloadData_t = unsafe { std::mem::zeroed() };
            (entry.schemaId, entry.size, entry.payload) = (schema, size, payload);
            entry
        };
        let entries: Vec<_> = payloads.iter().map(entry).collect();
        let mut blob = Blob::default();
        // SAFETY: the entries and what they point to are there.
        let payloads = unsafe { Payloads::new(entries.as_ptr(), entries.len()) };
        let missing = payloads.copy_to(&mut blob);
        let kept = |payload: blob::SchemaPayload<'_>| {
            (payload.schema, payload.bytes.len(), payload.is_cut)
        };
        (missing, blob::payloads(blob.bytes()).map(kept).collect())
    }

    #[test]
    fn what_is_missing_altogether_is_counted_and_nothing_else() {
        let unknown = usize::MAX;
        for (payload, missing, kept) in [
            ((SIZE, 8, Some(&[1; 8][..])), 0, vec![(SIZE, 8, false)]),
            ((TEXT, unknown, Some(b"text\0")), 0, vec![(TEXT, 4, false)]),
            ((TEXT, unknown, Some(b"\0")), 0, vec![]),
            ((SIZE, 0, Some(b"")), 0, vec![]),
            ((SIZE, 0, None), 0, vec![]),
            ((SIZE, 8, None), 1, vec![]),
            ((TEXT, unknown, None), 1, vec![]),
            ((SIZE, unknown, Some(&[1; 8])), 1, vec![]),
        ] {
            assert_eq!(copied(&[payload]), (missing, kept), "{payload:?}");
        }
        let small = (SIZE, 8, Some(&[1; 8][..]));
        assert_eq!(copied(&[small; MAX_PAYLOADS + 3]).0, 3);
    }

    #[test]
    fn a_payload_beyond_the_room_is_cut_and_those_behind_it_are_missing() {
        let long: Vec<u8> = [vec![b'a'; 1000], vec![0]].concat();
        let room = Blob::default().room();
        assert!(room < BLOB_BYTES);
        for size in [1000, usize::MAX] {
            let payload = (TEXT, size, Some(long.as_slice()));
            let behind = (TEXT, usize::MAX, Some(&b"more\0"[..]));
            assert_eq!(copied(&[payload, behind]), (1, vec![(TEXT, room, true)]));
            // As much as there is room for is whole.
            let exact = match size {
                usize::MAX => (TEXT, size, Some(&long[1000 - room..])),
                _ => (TEXT, room, Some(long.as_slice())),
            };
            assert_eq!(copied(&[exact]), (0, vec![(TEXT, room, false)]));
        }
    }
}
