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
    /// Bytes read since the last record.
    of_record: u64,
}

impl<R> BoundedRecords<R> {
    pub(crate) fn new(inner: R) -> Self {
        BoundedRecords { inner, of_record: 0 }
    }

    /// A record was complete.
    pub(crate) fn next_record(&mut self) {
        self.of_record = 0;
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
        Ok(count)
    }
}
