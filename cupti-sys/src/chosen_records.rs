//! The walk over a buffer of records with chosen fields, by the layouts that CUPTI told.
//!
//! It needs no call of CUPTI for each record, no alignment and no allocation, and never reads outside
//! the bytes that it is given, whatever they hold.

use crate::bindings as cupti;
use crate::fields::{Layout, Layouts, Number};
use std::fmt;

impl Layouts {
    /// The records in the valid bytes of a buffer that was completed with these layouts.
    pub fn records<'a>(&'a self, bytes: &'a [u8]) -> Records<'a> {
        Records { layouts: self, last: None, rest: bytes, offset_bytes: 0 }
    }
}

/// The records of one buffer, in order; ends after the first one that cannot be read.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    layouts: &'a Layouts,
    /// The layout of the record before: most are followed by one of their kind.
    last: Option<&'a Layout>,
    rest: &'a [u8],
    offset_bytes: usize,
}

/// A record in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct FieldRecord<'a> {
    /// How it is laid out, with its kind.
    pub layout: &'a Layout,
    /// Its bytes, as many as the layout says.
    pub bytes: &'a [u8],
}

impl FieldRecord<'_> {
    /// The value of a field, of this record's layout; with fewer than 8 bytes, the upper ones are 0.
    /// `None` for a field that lies outside, which no [`Number`] of this layout does.
    #[inline]
    pub fn get(&self, number: Number) -> Option<u64> {
        let bytes = self.bytes.get(usize::from(number.offset)..)?;
        Some(match number.bytes {
            1 => u64::from(*bytes.first()?),
            2 => u64::from(u16::from_ne_bytes(*bytes.first_chunk()?)),
            4 => u64::from(u32::from_ne_bytes(*bytes.first_chunk()?)),
            _ => u64::from_ne_bytes(*bytes.first_chunk()?),
        })
    }
}

impl<'a> Records<'a> {
    fn read(&mut self) -> Result<FieldRecord<'a>, Unreadable> {
        let offset_bytes = self.offset_bytes;
        let cut = Unreadable::Cut { offset_bytes };
        let kind = crate::record::kind(self.rest).ok_or(cut)?;
        if kind == cupti::CUPTI_ACTIVITY_KIND_INVALID {
            return Err(Unreadable::Incomplete { offset_bytes });
        }
        let layout = match self.last {
            Some(last) if last.kind() == kind => last,
            _ => self.layouts.of(kind).ok_or(Unreadable::UnknownKind { offset_bytes, kind })?,
        };
        let (bytes, rest) = self.rest.split_at_checked(layout.record_bytes()).ok_or(cut)?;
        (self.last, self.rest) = (Some(layout), rest);
        self.offset_bytes += layout.record_bytes();
        Ok(FieldRecord { layout, bytes })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<FieldRecord<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.read().inspect_err(|_| self.rest = &[]))
    }
}

/// A buffer that cannot be read on from some place, a byte of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unreadable {
    /// Too few bytes are left for the record.
    Cut { offset_bytes: usize },
    /// The work that the record is about was not done when the buffer was taken.
    Incomplete { offset_bytes: usize },
    /// CUPTI told no layout for the kind.
    UnknownKind { offset_bytes: usize, kind: cupti::CUpti_ActivityKind },
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { offset_bytes } => write!(
                out,
                "byte {offset_bytes} of the buffer: too few bytes are left for the record: the buffer was \
                 truncated, or CUPTI's layout does not match it"
            ),
            Self::Incomplete { offset_bytes } => write!(
                out,
                "byte {offset_bytes} of the buffer: the record is not complete, so nothing after it can be \
                 read: wait for the GPU before the forced flush"
            ),
            Self::UnknownKind { offset_bytes, kind } => write!(
                out,
                "byte {offset_bytes} of the buffer: a record of kind {kind}, for which CUPTI reported no \
                 layout: enable the kind with chosen fields, or not at all"
            ),
        }
    }
}

impl std::error::Error for Unreadable {}
