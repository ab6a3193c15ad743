//! The payloads of the guest's calls into blobs: copied within bounds, and no pointer in them followed.

use cupti_sys::nvtx as sys;

use crate::blob::{Blob, MAX_PAYLOADS};

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

    /// Copies what there is room for. Gives how many payloads are not there, or not whole.
    pub(super) fn copy_to(self, blob: &mut Blob) -> u64 {
        let looked_at = self.count.min(MAX_PAYLOADS);
        let mut left_out = (self.count - looked_at) as u64;
        for index in 0..looked_at {
            // SAFETY: `new`'s contract: so many entries are there. They may stand anywhere.
            let entry = unsafe { self.start.add(index).read_unaligned() };
            let bytes: &[u8] = if entry.payload.is_null() {
                &[]
            } else if entry.size == usize::MAX && ENDED.contains(&entry.schemaId) {
                // SAFETY: a text that ends in NUL; no byte behind that is read.
                unsafe {
                    let length = libc::strnlen(entry.payload.cast(), blob.room());
                    std::slice::from_raw_parts(entry.payload.cast(), length)
                }
            } else if entry.size == usize::MAX {
                &[]
            } else {
                // SAFETY: the guest says that so many bytes are there; no more of them are read than
                // there is room for.
                unsafe {
                    let length = entry.size.min(blob.room());
                    std::slice::from_raw_parts(entry.payload.cast(), length)
                }
            };
            left_out += u64::from(bytes.is_empty() && entry.size != 0);
            blob.add(entry.schemaId, bytes);
        }
        left_out
    }
}
