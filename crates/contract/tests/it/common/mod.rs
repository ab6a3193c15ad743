//! Records to trace files and back, and made-up records, for all tests of the format.
// Each test program uses its part of this.
#![allow(dead_code)]

pub(crate) mod any;
pub(crate) mod decode_trace;
pub(crate) mod sample;

use stage2_contract::trace::{Ending, ReadError, Reader, Record, Skipped, Writer};

/// Bytes of the file header.
pub(crate) const FILE_HEADER_BYTES: usize = 20;
/// Bytes of a frame header.
pub(crate) const FRAME_HEADER_BYTES: usize = 12;

/// What a reader makes of some bytes.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) records: Vec<Record>,
    pub(crate) error: Option<ReadError>,
    pub(crate) end: Ending,
    pub(crate) skipped: Skipped,
}

/// A trace file of one frame for each group of records.
pub(crate) fn trace_file(frames: &[impl AsRef<[Record]>]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    for frame in frames {
        frame.as_ref().iter().for_each(|record| writer.write(record));
        writer.flush().unwrap();
    }
    file
}

/// Reads to the end, or to the first error.
pub(crate) fn read(bytes: &[u8]) -> Result<Read, ReadError> {
    let mut reader = Reader::new(bytes)?;
    let mut records = Vec::new();
    let mut error = None;
    for record in &mut reader {
        match record {
            Ok(record) => records.push(record),
            Err(problem) => error = Some(problem),
        }
    }
    Ok(Read { records, error, end: reader.end(), skipped: reader.skipped() })
}

/// A frame with a right checksum around any payload.
pub(crate) fn frame(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = b"S2".to_vec();
    frame.extend_from_slice(&kind.to_le_bytes());
    frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame);
    hasher.update(payload);
    frame.extend_from_slice(&hasher.finalize().to_le_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A file header with a right checksum.
pub(crate) fn file_header(version: u32, more: &[u8]) -> Vec<u8> {
    let mut header = b"\x89S2T\r\n\x1a\n".to_vec();
    header.extend_from_slice(&version.to_le_bytes());
    header.extend_from_slice(&((FILE_HEADER_BYTES + more.len()) as u32).to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header);
    hasher.update(more);
    header.extend_from_slice(&hasher.finalize().to_le_bytes());
    header.extend_from_slice(more);
    header
}
