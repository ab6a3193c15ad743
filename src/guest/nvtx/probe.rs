//! The readers of the guest's NVTX memory without a recording around them, for programs that try them
//! with memory of any content (`crates/fuzz`).

use cupti_sys::nvtx as sys;
use stage2_contract::trace::Payload;

use super::{message, register};
use crate::guest::blob::Blob;
use crate::guest::event::TEXT_LIMIT;
use crate::guest::registry::Handle;
use crate::guest::registry::Registry;

/// Bytes of a text that come at most: one character more than is kept, by which a cut is noticed.
pub const MAX_TEXT_BYTES: usize = TEXT_LIMIT + 4;

/// What a call says, as it would be sent to our thread.
pub struct Said {
    text: [u8; MAX_TEXT_BYTES],
    text_bytes: usize,
    blob: Blob,
    /// Category of the attributes.
    pub category: u32,
    /// The single number of the attributes.
    pub payload: Option<Payload>,
    /// Payloads of which nothing was copied.
    pub missing: u64,
}

impl Said {
    /// The message.
    pub fn text(&self) -> &[u8] {
        self.text.get(..self.text_bytes).unwrap_or_default()
    }

    /// The payloads, as they travel to our thread.
    pub fn blob(&self) -> &[u8] {
        self.blob.bytes()
    }
}

/// Reads the attributes of a call, and copies their payloads. Neither allocates nor waits.
///
/// # Safety
/// `attributes` is null or points to attributes that, with all that they point to, are there until the
/// call ends.
pub unsafe fn call(attributes: *const sys::nvtxEventAttributes_t) -> Said {
    // SAFETY: the caller's promise.
    let read = unsafe { message::read(attributes) };
    let mut said = Said {
        text: [0; MAX_TEXT_BYTES],
        text_bytes: 0,
        blob: Blob::default(),
        category: read.category,
        payload: read.payload,
        missing: 0,
    };
    read.text.with_bytes(|bytes| {
        said.text_bytes = bytes.len();
        if let Some(place) = said.text.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
    });
    said.missing = read.payloads.copy_to(&mut said.blob);
    said
}

/// Registers a schema in a table. Neither allocates nor waits.
///
/// # Safety
/// As [`call`].
pub unsafe fn schema(
    registry: &Registry,
    domain: u32,
    attributes: *const sys::nvtxPayloadSchemaAttr_t,
) -> Option<u64> {
    // SAFETY: the caller's promise.
    unsafe { register::register_schema(registry, Handle::new(domain, 0, false), attributes) }
}

/// Registers an enumeration in a table. Neither allocates nor waits.
///
/// # Safety
/// As [`call`].
pub unsafe fn enumeration(
    registry: &Registry,
    domain: u32,
    attributes: *const sys::nvtxPayloadEnumAttr_t,
) -> Option<u64> {
    // SAFETY: the caller's promise.
    unsafe { register::register_enumeration(registry, Handle::new(domain, 0, false), attributes) }
}
