//! Headers to bytes and back: the file's, and that of each frame.

/// The first bytes of a trace file: not ASCII, with line ends that a text-mode copy would change.
pub(crate) const MAGIC: [u8; 8] = *b"\x89S2T\r\n\x1a\n";
/// The format version that this crate writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes of the file header as this version writes it, and of the part that every version keeps.
pub(crate) const FILE_HEADER_BYTES: usize = 20;
/// Bytes of the longest file header that a reader takes for one.
pub(crate) const MAX_FILE_HEADER_BYTES: usize = 64 * 1024;
const FILE_CHECKSUM_AT: usize = 16;

pub(crate) const MARKER: [u8; 2] = *b"S2";
pub(crate) const FRAME_HEADER_BYTES: usize = 12;
const FRAME_CHECKSUM_AT: usize = 8;
/// Kind of the frames that hold records.
pub(crate) const KIND_RECORDS: u16 = 1;
/// Bytes of the largest payload of a frame, of any kind.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// The file header that this version writes.
pub(crate) fn file_header() -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&(FILE_HEADER_BYTES as u32).to_le_bytes());
    let checksum = file_checksum(&header, &[]);
    header[FILE_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Checksum of a file header: `fixed` without the checksum itself, then what comes after it.
pub(crate) fn file_checksum(fixed: &[u8; FILE_HEADER_BYTES], more: &[u8]) -> u32 {
    checksum(&fixed[..FILE_CHECKSUM_AT], more)
}

/// The fields of a file header, behind the magic: version, length of the whole header, checksum.
pub(crate) fn file_fields(header: &[u8; FILE_HEADER_BYTES]) -> [u32; 3] {
    [8, 12, FILE_CHECKSUM_AT].map(|at| u32_at(header, at))
}

/// The little-endian number at byte `at`.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let number = bytes.get(at..).and_then(<[u8]>::first_chunk);
    number.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameHeader {
    pub(crate) kind: u16,
    pub(crate) length: usize,
    pub(crate) checksum: u32,
}

impl FrameHeader {
    /// `None` for bytes that are no frame header: wrong marker, or longer than a frame can be.
    pub(crate) fn parse(bytes: &[u8; FRAME_HEADER_BYTES]) -> Option<Self> {
        let [m, n, a, b, ..] = *bytes;
        let length = u32_at(bytes, 4) as usize;
        ([m, n] == MARKER && length <= MAX_PAYLOAD_BYTES).then(|| Self {
            kind: u16::from_le_bytes([a, b]),
            length,
            checksum: u32_at(bytes, FRAME_CHECKSUM_AT),
        })
    }
}

pub(crate) fn frame_checksum(header: &[u8; FRAME_HEADER_BYTES], payload: &[u8]) -> u32 {
    checksum(&header[..FRAME_CHECKSUM_AT], payload)
}

/// Completes a frame of records whose payload stands behind [`FRAME_HEADER_BYTES`] of room.
pub(crate) fn seal(frame: &mut [u8]) {
    let Some((header, payload)) = frame.split_first_chunk_mut::<FRAME_HEADER_BYTES>() else {
        return;
    };
    header[..2].copy_from_slice(&MARKER);
    header[2..4].copy_from_slice(&KIND_RECORDS.to_le_bytes());
    header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let checksum = frame_checksum(header, payload);
    header[FRAME_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

fn checksum(first: &[u8], second: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(first);
    hasher.update(second);
    hasher.finalize()
}
