//! Turns the bytes of an activity record into a copy of the struct that CUPTI wrote there.
//!
//! CUPTI writes the newest layout that *it* knows. From 11.8 to 13.5 every newer layout begins with
//! the older one unchanged, so [`read`]ing the oldest one ([`Kernel`], [`Memcpy`], ...) works with
//! all of them, and a newer one (`CUpti_ActivityKernel13`, ...) works where the record is long
//! enough. What lies between two records, however, depends on the version: live buffers are walked
//! with [`crate::Walker::next_record`]; [`record_size`] and [`SavedRecords`] are for buffers that were
//! saved and are read again without any CUPTI, as tests do.

use crate::bindings as cupti;
use std::fmt;

/// The part of a kernel record that every version has.
pub type Kernel = cupti::CUpti_ActivityKernel8;
/// The part of a memcpy record that every version has.
pub type Memcpy = cupti::CUpti_ActivityMemcpy5;
/// The record of a memcpy between two GPUs.
pub type MemcpyPeer = cupti::CUpti_ActivityMemcpyPtoP4;
/// The part of a memset record that every version has.
pub type Memset = cupti::CUpti_ActivityMemset4;
/// The part of a graph-launch record that every version has.
pub type GraphTrace = cupti::CUpti_ActivityGraphTrace;
/// The part of a device record that every version has.
pub type Device = cupti::CUpti_ActivityDevice4;

/// A record struct that [`read`] may copy out of bytes.
///
/// # Safety
/// Any bytes are a valid value: integers, raw pointers, and unions and arrays of them.
pub unsafe trait Record: Copy {}

macro_rules! records {
    ($($record:ident)*) => {
        $(
            // SAFETY: bindgen made it of integers, raw pointers, and unions and arrays of them.
            unsafe impl Record for cupti::$record {}
        )*
    };
}

records! {
    CUpti_ActivityDevice4 CUpti_ActivityGraphTrace CUpti_ActivityKernel8 CUpti_ActivityKernel10
    CUpti_ActivityKernel13 CUpti_ActivityMemcpy5 CUpti_ActivityMemcpyPtoP4 CUpti_ActivityMemset4
}

/// Copies a record out of the bytes that begin with it; `None` if there are too few.
///
/// The bytes may go on after the record, and need no alignment. Pointers in the copy are CUPTI's:
/// good while CUPTI says so in the process that it wrote them in, and meaningless elsewhere.
pub fn read<R: Record>(bytes: &[u8]) -> Option<R> {
    let bytes = bytes.get(..size_of::<R>())?;
    // SAFETY: as many bytes as the struct has are readable, and any bytes are a valid one.
    Some(unsafe { bytes.as_ptr().cast::<R>().read_unaligned() })
}

/// The kind of the record that the bytes begin with.
pub fn kind(bytes: &[u8]) -> Option<cupti::CUpti_ActivityKind> {
    bytes.first_chunk::<4>().map(|kind| u32::from_ne_bytes(*kind))
}

/// Size in bytes of each kind of record that a collector of GPU work enables, by the CUPTI version
/// that introduced it, ascending. Measured on the headers of 16 versions from 11.8 to 13.5.
const SIZES: &[(cupti::CUpti_ActivityKind, &[(u32, usize)])] = &[
    (cupti::CUPTI_ACTIVITY_KIND_MEMCPY, &[(18, 88), (26, 96), (130_400, 112)]),
    (cupti::CUPTI_ACTIVITY_KIND_MEMSET, &[(18, 88), (130_400, 104)]),
    (cupti::CUPTI_ACTIVITY_KIND_KERNEL, KERNEL_SIZES),
    (cupti::CUPTI_ACTIVITY_KIND_DRIVER, &[(18, 40)]),
    (cupti::CUPTI_ACTIVITY_KIND_RUNTIME, &[(18, 40)]),
    (cupti::CUPTI_ACTIVITY_KIND_DEVICE, &[(18, 176), (20, 184), (130_200, 192)]),
    (cupti::CUPTI_ACTIVITY_KIND_CONTEXT, &[(18, 16), (22, 24), (23, 32), (130_100, 40)]),
    (cupti::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, KERNEL_SIZES),
    (cupti::CUPTI_ACTIVITY_KIND_OVERHEAD, &[(18, 40), (21, 48), (22, 56)]),
    (cupti::CUPTI_ACTIVITY_KIND_MEMCPY2, &[(18, 96)]),
    (cupti::CUPTI_ACTIVITY_KIND_STREAM, &[(18, 24)]),
    (cupti::CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, &[(18, 40), (26, 56)]),
    (cupti::CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, &[(18, 24)]),
    (cupti::CUPTI_ACTIVITY_KIND_GRAPH_TRACE, &[(18, 48), (21, 56)]),
    (cupti::CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE, &[(130_100, 56)]),
];

/// Version 18 is missing: CUDA 11.8 writes 200 bytes and 12.0 writes 208 under that number.
const KERNEL_SIZES: &[(u32, usize)] =
    &[(20, 208), (130_000, 216), (130_100, 224), (130_300, 232), (130_400, 248)];

/// The first version that the table does not know.
const SIZES_END: u32 = 130_600;

/// Size in bytes of a record in a buffer written by a CUPTI of this version (as
/// [`crate::Api::version`] returns it), for walking saved buffers only.
///
/// `None` if the kind or the version is unknown, or if the version number does not tell: kernel
/// records of version 18 (CUDA 11.8, 12.0 and 12.1 all call themselves that).
pub fn record_size(kind: cupti::CUpti_ActivityKind, cupti_version: u32) -> Option<usize> {
    if cupti_version >= SIZES_END {
        return None;
    }
    let (_, sizes) = SIZES.iter().find(|(known, _)| *known == kind)?;
    let (_, size) = sizes.iter().rev().find(|(since, _)| *since <= cupti_version)?;
    Some(*size)
}

/// The records of one saved buffer, in order; ends after the first one that cannot be read.
#[derive(Debug, Clone)]
pub struct SavedRecords<'a> {
    rest: &'a [u8],
    offset_bytes: usize,
    cupti_version: u32,
}

impl<'a> SavedRecords<'a> {
    /// `bytes` are the valid bytes of a buffer as a CUPTI of this version completed it.
    pub fn new(bytes: &'a [u8], cupti_version: u32) -> Self {
        Self { rest: bytes, offset_bytes: 0, cupti_version }
    }
}

/// A saved buffer that cannot be read on from some place, a byte of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum UnreadableRecord {
    /// Too few bytes are left for the record.
    Cut { offset_bytes: usize },
    /// [`record_size`] does not know the size.
    UnknownSize { offset_bytes: usize, kind: cupti::CUpti_ActivityKind, cupti_version: u32 },
}

impl<'a> SavedRecords<'a> {
    /// The kind and the bytes of the next record.
    fn read(&mut self) -> Result<(cupti::CUpti_ActivityKind, &'a [u8]), UnreadableRecord> {
        let Self { offset_bytes, cupti_version, .. } = *self;
        let cut = UnreadableRecord::Cut { offset_bytes };
        let kind = kind(self.rest).ok_or(cut)?;
        let size = record_size(kind, cupti_version).ok_or(UnreadableRecord::UnknownSize {
            offset_bytes,
            kind,
            cupti_version,
        })?;
        let (record, rest) = self.rest.split_at_checked(size).ok_or(cut)?;
        (self.rest, self.offset_bytes) = (rest, offset_bytes + size);
        Ok((kind, record))
    }
}

impl<'a> Iterator for SavedRecords<'a> {
    type Item = Result<(cupti::CUpti_ActivityKind, &'a [u8]), UnreadableRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.read().inspect_err(|_| self.rest = &[]))
    }
}

impl fmt::Display for UnreadableRecord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { offset_bytes } => write!(
                out,
                "byte {offset_bytes} of the buffer: too few bytes are left for the record: the \
                 buffer was cut short when it was saved"
            ),
            Self::UnknownSize { offset_bytes, kind, cupti_version } => write!(
                out,
                "byte {offset_bytes} of the buffer: the size of kind {kind} in CUPTI version \
                 {cupti_version} is not known: check the version that the buffer was saved with, \
                 or add the kind to this table"
            ),
        }
    }
}

impl std::error::Error for UnreadableRecord {}

#[cfg(test)]
mod tests {
    use super::*;
    use cupti::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL as KERNEL;

    /// A record of zeros with some fields set, as long as `cupti_version` makes it.
    fn record(kind: u32, cupti_version: u32, fields: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; record_size(kind, cupti_version).expect("a known kind")];
        for (offset, value) in fields {
            bytes[*offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        }
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes
    }

    #[test]
    fn kernel_records_grow_with_the_version() {
        let versions = [20, 28, 130_001, 130_101, 130_202, 130_301, 130_401, 130_500];
        let sizes = versions.map(|version| record_size(KERNEL, version));
        assert_eq!(sizes, [208, 208, 216, 224, 224, 232, 248, 248].map(Some));
    }

    #[test]
    fn what_the_version_does_not_tell_is_not_guessed() {
        assert_eq!(record_size(KERNEL, 18), None);
        assert_eq!(record_size(KERNEL, 130_600), None);
        assert_eq!(record_size(12345, 130_001), None);
        let graph_host_node = cupti::CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE;
        assert_eq!(record_size(graph_host_node, 130_001), None);
        assert_eq!(record_size(graph_host_node, 130_100), Some(56));
    }

    #[test]
    fn the_table_agrees_with_the_bindings() {
        let sizes = [
            (KERNEL, size_of::<cupti::CUpti_ActivityKernel13>()),
            (cupti::CUPTI_ACTIVITY_KIND_MEMCPY, size_of::<cupti::CUpti_ActivityMemcpy7>()),
            (cupti::CUPTI_ACTIVITY_KIND_MEMCPY2, size_of::<MemcpyPeer>()),
            (cupti::CUPTI_ACTIVITY_KIND_MEMSET, size_of::<cupti::CUpti_ActivityMemset5>()),
            (cupti::CUPTI_ACTIVITY_KIND_GRAPH_TRACE, size_of::<cupti::CUpti_ActivityGraphTrace2>()),
            (cupti::CUPTI_ACTIVITY_KIND_DEVICE, size_of::<cupti::CUpti_ActivityDevice6>()),
            (cupti::CUPTI_ACTIVITY_KIND_CONTEXT, size_of::<cupti::CUpti_ActivityContext4>()),
            (cupti::CUPTI_ACTIVITY_KIND_OVERHEAD, size_of::<cupti::CUpti_ActivityOverhead3>()),
            (cupti::CUPTI_ACTIVITY_KIND_DRIVER, size_of::<cupti::CUpti_ActivityAPI>()),
            (
                cupti::CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                size_of::<cupti::CUpti_ActivitySynchronization2>(),
            ),
        ];
        for (kind, size) in sizes {
            assert_eq!(record_size(kind, cupti::CUPTI_API_VERSION), Some(size), "kind {kind}");
        }
    }

    #[test]
    fn a_saved_buffer_gives_its_records() {
        for version in [28, 130_001, 130_500] {
            let mut buffer = record(KERNEL, version, &[(16, 1000), (24, 3500), (144, 77)]);
            buffer.extend(record(cupti::CUPTI_ACTIVITY_KIND_MEMSET, version, &[(8, 4096)]));
            let records: Result<Vec<_>, _> = SavedRecords::new(&buffer, version).collect();
            let records = records.expect("two whole records");
            assert_eq!(records.len(), 2);
            let kernel: Kernel = read(records[0].1).expect("a kernel");
            let (start, end, node) = (kernel.start, kernel.end, kernel.graphNodeId);
            assert_eq!((records[0].0, start, end, node), (KERNEL, 1000, 3500, 77));
            let memset: Memset = read(records[1].1).expect("a memset");
            let bytes = memset.bytes;
            assert_eq!(bytes, 4096);
        }
    }

    #[test]
    fn records_need_no_alignment() {
        let mut shifted = vec![0xff];
        shifted.extend(record(KERNEL, 130_001, &[(16, 42)]));
        let kernel: Kernel = read(&shifted[1..]).expect("a kernel");
        let start = kernel.start;
        assert_eq!(start, 42);
        assert!(read::<Kernel>(&shifted[1..200]).is_none());
    }

    #[test]
    fn a_buffer_cut_anywhere_gives_the_whole_records_before_the_cut_and_says_so() {
        let one = record(KERNEL, 130_001, &[]);
        let buffer = [one.as_slice(), &one].concat();
        for cut in 0..=buffer.len() {
            let items: Vec<_> = SavedRecords::new(&buffer[..cut], 130_001).collect();
            let whole = items.iter().filter(|item| item.is_ok()).count();
            assert_eq!(whole, cut / one.len(), "cut at {cut}");
            let error = items.into_iter().find_map(Result::err);
            assert_eq!(error.is_some(), cut % one.len() != 0, "cut at {cut}");
            let shown = error.map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(shown.contains("cut short"), cut % one.len() != 0, "{shown}");
        }
    }

    #[test]
    fn an_unknown_kind_ends_the_walk_and_is_named() {
        let buffer = 9999_u32.to_ne_bytes();
        let items: Vec<_> = SavedRecords::new(&buffer, 130_001).collect();
        assert_eq!(items.len(), 1);
        let shown = items[0].expect_err("an unknown kind").to_string();
        assert!(shown.contains("kind 9999") && shown.contains("130001"), "{shown}");
    }
}
