//! Headers to bytes and back: the file's, and that of each frame. [`Frames`] reads files that are built like a
//! trace file and hold something else.

use std::io::{self, BufRead};

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
    header_of(MAGIC, FORMAT_VERSION)
}

/// The header of a file of this magic and version.
pub fn header_of(magic: [u8; 8], version: u32) -> [u8; 20] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(&magic);
    header[8..12].copy_from_slice(&version.to_le_bytes());
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
    /// `None` for bytes that are not a frame header: wrong marker, or longer than a frame can be.
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
    seal_as(frame, KIND_RECORDS);
}

/// A frame of this kind.
pub fn framed(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; FRAME_HEADER_BYTES];
    frame.extend_from_slice(payload);
    seal_as(&mut frame, kind);
    frame
}

fn seal_as(frame: &mut [u8], kind: u16) {
    let Some((header, payload)) = frame.split_first_chunk_mut::<FRAME_HEADER_BYTES>() else {
        return;
    };
    header[..2].copy_from_slice(&MARKER);
    header[2..4].copy_from_slice(&kind.to_le_bytes());
    header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let checksum = frame_checksum(header, payload);
    header[FRAME_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

/// The frames of a file, one after the other. Damage is counted, and what follows is read as far as frames can be
/// told apart.
#[derive(Debug)]
pub struct Frames<R> {
    input: R,
    payload: Vec<u8>,
    /// Frames with a wrong checksum.
    pub damaged: u64,
    /// It ends within a frame.
    pub torn: bool,
}

impl<R: BufRead> Frames<R> {
    /// Reads the header of a file of this magic; gives the version that it has.
    ///
    /// # Errors
    /// When the input is no such file, or cannot be read.
    pub fn open(mut input: R, magic: [u8; 8]) -> io::Result<(u32, Self)> {
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let mut header = [0; FILE_HEADER_BYTES];
        input.read_exact(&mut header)?;
        let [version, length, sum] = file_fields(&header);
        if header.get(..8) != Some(&magic[..]) {
            return Err(wrong("it does not begin as such a file does"));
        }
        let more = (length as usize).checked_sub(FILE_HEADER_BYTES);
        let more = more.filter(|_| length as usize <= MAX_FILE_HEADER_BYTES);
        let more = more.ok_or_else(|| wrong("its header is damaged"))?;
        let mut rest = vec![0; more];
        input.read_exact(&mut rest)?;
        if file_checksum(&header, &rest) != sum {
            return Err(wrong("its header is damaged"));
        }
        Ok((version, Self { input, payload: Vec::new(), damaged: 0, torn: false }))
    }

    /// The kind and the payload of the next sound frame; nothing at the end of what can be read.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next_frame(&mut self) -> io::Result<Option<(u16, &[u8])>> {
        while !self.torn && !self.input.fill_buf()?.is_empty() {
            let mut header = [0; FRAME_HEADER_BYTES];
            if self.filled(&mut header)? < FRAME_HEADER_BYTES {
                break;
            }
            let Some(known) = FrameHeader::parse(&header) else { break };
            self.payload.resize(known.length, 0);
            let mut payload = std::mem::take(&mut self.payload);
            let got = self.filled(&mut payload)?;
            self.payload = payload;
            if got < known.length {
                break;
            }
            if frame_checksum(&header, &self.payload) == known.checksum {
                return Ok(Some((known.kind, &self.payload)));
            }
            self.damaged += 1;
            let next = self.input.fill_buf()?;
            if next.iter().zip(MARKER).any(|(&byte, expected)| byte != expected) {
                break;
            }
        }
        self.torn |= !self.input.fill_buf()?.is_empty();
        Ok(None)
    }

    /// Fills `buffer` as far as the file goes; a file that ends before is torn.
    fn filled(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        while let Some(rest) = buffer.get_mut(got..).filter(|rest| !rest.is_empty()) {
            match self.input.read(rest) {
                Ok(0) => {
                    self.torn = true;
                    break;
                }
                Ok(read) => got += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(got)
    }
}

fn checksum(first: &[u8], second: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(first);
    hasher.update(second);
    hasher.finalize()
}
