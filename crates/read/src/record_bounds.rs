//! Bounds of one record of a CSV file, beyond which a quote was never closed, or a line never ends.

/// Bytes of the longest record that is read. Stacks of ranges in one cell reach megabytes.
pub(crate) const MAX_RECORD_BYTES: u64 = 16 << 20;
/// Cells of the widest record: every metric that a GPU has, with all of its sums and means, is fewer.
pub(crate) const MAX_COLUMNS: usize = 20_000;
