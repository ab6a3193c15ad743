//! The bytes of a CSV file on their way to the parser, which would take any record whole: a quote that
//! is never closed, or a line that never ends, is an error instead.

use std::io::{self, Read};

/// Bytes of the longest record that is read. Stacks of ranges in one cell reach megabytes.
pub(crate) const MAX_RECORD_BYTES: u64 = 16 << 20;
/// Cells of the widest record: every metric that a GPU has, with all of its sums and means, is fewer.
pub(crate) const MAX_COLUMNS: usize = 20_000;

/// Reads through, and bounds what one record may take.
pub(crate) struct BoundedRecords<R> {
    inner: R,
    last: Option<u8>,
    /// Bytes read since the last record.
    of_record: u64,
}

impl<R> BoundedRecords<R> {
    pub(crate) fn new(inner: R) -> Self {
        BoundedRecords { inner, last: None, of_record: 0 }
    }

    /// A record was complete.
    pub(crate) fn next_record(&mut self) {
        self.of_record = 0;
    }

    /// Whether the last byte that went through ends a line, or there was none.
    pub(crate) fn ends_with_newline(&self) -> bool {
        self.last.is_none_or(|byte| byte == b'\n')
    }
}

impl<R: Read> Read for BoundedRecords<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.of_record > MAX_RECORD_BYTES {
            let why = format!("a record has more than {} MiB", MAX_RECORD_BYTES >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let count = self.inner.read(buffer)?;
        self.of_record += count as u64;
        if let Some(byte) = buffer.get(..count).and_then(<[u8]>::last) {
            self.last = Some(*byte);
        }
        Ok(count)
    }
}
