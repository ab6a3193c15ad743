//! The payloads of the guest's calls into blobs: copied within bounds, and no pointer in them followed.

use cupti_sys::nvtx as sys;

use crate::guest::blob::{Blob, MAX_PAYLOADS};

/// Predefined types whose payloads may leave their size to the NUL at their end.
const ENDED: [u64; 2] =
    [sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING as u64, sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8 as u64];

/// The payloads of a call, where they lie.
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
