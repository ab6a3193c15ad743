//! The payloads of one NVTX call into a bounded run of bytes that travels with its event, and back.
//!
//! The guest's thread only copies; what the bytes mean is found out on our own thread (`fields`).

use crate::guest::registry::EntryReader;

/// Bytes that are kept of the payloads of one call, heads included.
pub(crate) const BLOB_BYTES: usize = 280;
/// Payloads of one call that are looked at.
pub(crate) const MAX_PAYLOADS: usize = 8;
/// In front of a payload: the identifier of its schema, and how many of its bytes follow.
const HEAD_BYTES: usize = 8 + 2;
/// In the length of a payload: there were more bytes.
const CUT: u16 = 1 << 15;

pub(crate) struct Blob {
    bytes: [u8; BLOB_BYTES],
    used: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SchemaPayload<'a> {
    pub(crate) schema: u64,
    /// As far as they were kept.
    pub(crate) bytes: &'a [u8],
    /// There were more.
    pub(crate) is_cut: bool,
}

impl Default for Blob {
    fn default() -> Self {
        Blob { bytes: [0; BLOB_BYTES], used: 0 }
    }
}

impl Blob {
    /// Bytes of a next payload that there is room for.
    pub(crate) fn room(&self) -> usize {
        BLOB_BYTES.saturating_sub(self.used + HEAD_BYTES)
    }

    /// Adds a payload; of its bytes as many as there is room for.
    pub(crate) fn add(&mut self, schema: u64, bytes: &[u8]) {
        let kept = &bytes[..bytes.len().min(self.room())];
        if !kept.is_empty() {
            let cut = if kept.len() < bytes.len() { CUT } else { 0 };
            self.put(&schema.to_ne_bytes());
            self.put(&(kept.len() as u16 | cut).to_ne_bytes());
            self.put(kept);
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        if let Some(place) = self.bytes.get_mut(self.used..end) {
            place.copy_from_slice(bytes);
            self.used = end;
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

pub(crate) fn payloads(blob: &[u8]) -> impl Iterator<Item = SchemaPayload<'_>> {
    let mut rest = EntryReader(blob);
    std::iter::from_fn(move || {
        let (schema, length) = (rest.u64()?, rest.u16()?);
        let bytes = rest.bytes((length & !CUT).into())?;
        Some(SchemaPayload { schema, bytes, is_cut: length & CUT != 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_come_back_in_order_and_the_last_is_cut_where_the_room_ends() {
        let mut blob = Blob::default();
        blob.add(1 << 24, b"abc");
        blob.add(7, &[]);
        blob.add(u64::MAX, &[9; 1000]);
        blob.add(8, b"no room");
        let kept = BLOB_BYTES - 2 * HEAD_BYTES - 3;
        let expected = [
            SchemaPayload { schema: 1 << 24, bytes: b"abc", is_cut: false },
            SchemaPayload { schema: u64::MAX, bytes: &[9; 1000][..kept], is_cut: true },
        ];
        assert_eq!(payloads(blob.bytes()).collect::<Vec<_>>(), expected);
        assert_eq!(payloads(&blob.bytes()[..HEAD_BYTES]).count(), 0);
    }
}
