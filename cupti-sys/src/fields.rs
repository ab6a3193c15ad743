//! Where the fields of records with chosen fields lie, as CUPTI tells it.
//!
//! CUPTI 13.3 and later tell with every completed buffer how the records of each kind are laid out. The
//! header states the type of every field, but not their order or padding, so that nothing is assumed:
//! [`Completion::layouts`] copies what CUPTI tells into a table of plain numbers and checks it.
//! The module `chosen_records` reads by that table.
//!
//! A completion callback may run on a thread of the program: [`Layouts`] has a fixed size, which its
//! owner allocates beforehand.

use crate::bindings as cupti;
use std::fmt;
use std::mem::{offset_of, size_of};
use std::os::raw::c_int;

/// A field of a record, as the `CUpti_Activity...FieldIds` of the record's kind number it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Field(c_int);

impl Field {
    /// The kind of the record: the first field of every selection, whatever the kind.
    pub const KIND: Self = Self(0);

    /// A field by its number, for instance `Field::new(bindings::KERNEL_FIELD_START)`.
    pub const fn new(id: u32) -> Self {
        // Ids are a C `int`; the highest known one is 48.
        Self(id as c_int)
    }

    /// The number.
    pub const fn id(self) -> c_int {
        self.0
    }
}

/// Where a field lies in the records of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The field.
    pub field: Field,
    /// Bytes from the beginning of the record.
    pub offset: u16,
    /// How long it is, bytes.
    pub bytes: u16,
}

/// A field that is a whole number of 1, 2, 4 or 8 bytes: times, ids, sizes and addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    pub(crate) offset: u16,
    pub(crate) bytes: u16,
}

/// How the records of one kind are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    kind: cupti::CUpti_ActivityKind,
    record_bytes: u16,
    len: u16,
    places: [Place; MAX_FIELDS],
}

/// The layouts of all kinds that may be in a buffer. About 8 KB, without allocations of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Layouts {
    len: usize,
    layouts: [Layout; MAX_LAYOUTS],
}

/// Kinds whose layouts a table can hold.
pub const MAX_LAYOUTS: usize = 16;
/// Fields that a layout can hold. The kind with the most, kernels, has 49 in CUPTI 13.5.
pub const MAX_FIELDS: usize = 64;
/// Longest record that is believed, bytes. The longest of CUPTI 13.5 has 304.
pub const MAX_RECORD_BYTES: u16 = 4096;
/// Longest table of kinds that is believed. The highest kind of CUPTI 13.5 is 59.
const MAX_KINDS: usize = 1024;
/// Longest entry that is believed, bytes: newer versions may add to the 40 that are known.
const MAX_ENTRY_BYTES: usize = 512;

const NO_PLACE: Place = Place { field: Field::KIND, offset: 0, bytes: 0 };
const NO_LAYOUT: Layout =
    Layout { kind: 0, record_bytes: 0, len: 0, places: [NO_PLACE; MAX_FIELDS] };

/// What CUPTI tells of a completed buffer in addition to its bytes, for as long as the callback runs.
#[derive(Clone, Copy)]
pub struct Completion<'a>(&'a cupti::CUpti_BufferCallbackCompleteInfo);

impl<'a> Completion<'a> {
    /// What the completion callback was called with; `None` for null.
    ///
    /// # Safety
    /// `info` is null or what CUPTI called the completion callback with, and that call has not
    /// returned for as long as `'a`.
    pub unsafe fn new(info: *const cupti::CUpti_BufferCallbackCompleteInfo) -> Option<Self> {
        // SAFETY: the caller vouches for the pointer.
        unsafe { info.as_ref() }.map(Self)
    }

    /// The thread whose records the buffer holds, where CUPTI keeps a buffer for each thread; numbered
    /// as `CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE` says. `None` if this CUPTI does not tell.
    pub fn thread_id(self) -> Option<u64> {
        let end = offset_of!(cupti::CUpti_BufferCallbackCompleteInfo, ppRecordLayouts);
        reaches(self.0.structSize, end).then_some(self.0.threadId)
    }

    /// Copies the layouts of the records into `table`, checked. Allocates nothing.
    ///
    /// # Errors
    /// [`LayoutError`], with which the table is empty: nothing in the buffer can be read.
    pub fn layouts(self, table: &mut Layouts) -> Result<(), LayoutError> {
        table.clear();
        let filled = self.fill(table);
        if filled.is_err() {
            table.clear();
        }
        filled
    }

    fn fill(self, table: &mut Layouts) -> Result<(), LayoutError> {
        let info = self.0;
        let bytes = size_of::<cupti::CUpti_BufferCallbackCompleteInfo>();
        if !reaches(info.structSize, bytes) {
            return Err(LayoutError::ShortInfo { bytes: info.structSize });
        }
        if info.ppRecordLayouts.is_null() || info.numRecordLayouts == 0 {
            return Err(LayoutError::None);
        }
        if info.numRecordLayouts > MAX_KINDS {
            return Err(LayoutError::ManyKinds { kinds: info.numRecordLayouts });
        }
        for kind in 0..info.numRecordLayouts {
            // SAFETY: by CUPTI's contract the array has this many pointers, one for each kind, which
            // are null or lead to a layout for as long as the callback runs.
            let layout = unsafe { (*info.ppRecordLayouts.add(kind)).as_ref() };
            let Some(layout) = layout else { continue };
            let kind = u32::try_from(kind).unwrap_or(u32::MAX);
            let place = table.layouts.get_mut(table.len).ok_or(LayoutError::ManyLayouts)?;
            // SAFETY: as above.
            unsafe { place.fill(kind, layout) }?;
            table.len += 1;
        }
        if table.len == 0 { Err(LayoutError::None) } else { Ok(()) }
    }
}

/// Whether a struct of CUPTI's reaches to some byte: its size, or 0 where CUPTI leaves it out.
const fn reaches(struct_size: usize, end: usize) -> bool {
    struct_size == 0 || struct_size >= end
}

impl Layout {
    /// Fills this with what CUPTI tells of a kind.
    ///
    /// # Safety
    /// `told` comes from CUPTI, in the call of the completion callback that is running.
    unsafe fn fill(
        &mut self,
        kind: cupti::CUpti_ActivityKind,
        told: &cupti::CUpti_ActivityRecordLayout,
    ) -> Result<(), LayoutError> {
        if !reaches(told.structSize, size_of::<cupti::CUpti_ActivityRecordLayout>()) {
            return Err(LayoutError::ShortLayout { kind, bytes: told.structSize });
        }
        let record_bytes = u16::try_from(told.recordSize)
            .ok()
            .filter(|bytes| (1..=MAX_RECORD_BYTES).contains(bytes))
            .ok_or(LayoutError::RecordSize { kind, bytes: told.recordSize })?;
        let fields = told.numFields;
        if told.pEntries.is_null() || fields == 0 || fields > MAX_FIELDS {
            return Err(LayoutError::FieldCount { kind, fields });
        }
        (self.kind, self.record_bytes, self.len) = (kind, record_bytes, 0);
        const ENTRY: usize = size_of::<cupti::CUpti_ActivityFieldLayoutEntry>();
        // SAFETY: there is a first entry.
        let stride = match unsafe { (*told.pEntries).structSize } {
            0 => ENTRY,
            bytes if bytes % 8 == 0 && (ENTRY..=MAX_ENTRY_BYTES).contains(&bytes) => bytes,
            bytes => return Err(LayoutError::EntrySize { kind, bytes }),
        };
        for index in 0..fields {
            // SAFETY: by CUPTI's contract there are so many entries, each as long as it says; what
            // newer versions may add lies behind what is read.
            let entry = unsafe { &*told.pEntries.byte_add(index * stride) };
            let place = place(kind, entry, record_bytes)?;
            if self.places().iter().any(|known| known.field == place.field) {
                return Err(LayoutError::FieldTwice { kind, field: place.field });
            }
            if let Some(free) = self.places.get_mut(index) {
                *free = place;
                self.len += 1;
            }
        }
        // The walk tells records apart by their first four bytes.
        match self.place(Field::KIND) {
            Some(Place { offset: 0, bytes: 4, .. }) => Ok(()),
            _ => Err(LayoutError::KindNotFirst { kind }),
        }
    }

    /// `CUpti_ActivityKind` of the records.
    pub const fn kind(&self) -> cupti::CUpti_ActivityKind {
        self.kind
    }

    /// How long each record is, bytes.
    pub const fn record_bytes(&self) -> usize {
        self.record_bytes as usize
    }

    /// The fields, in CUPTI's order.
    pub fn places(&self) -> &[Place] {
        self.places.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Where a field lies; `None` if the records do not have it.
    pub fn place(&self, field: Field) -> Option<Place> {
        self.places().iter().copied().find(|place| place.field == field)
    }

    /// A field that is a whole number; `None` if the records do not have it or it is something else.
    pub fn number(&self, field: Field) -> Option<Number> {
        let Place { offset, bytes, .. } = self.place(field)?;
        matches!(bytes, 1 | 2 | 4 | 8).then_some(Number { offset, bytes })
    }
}

/// The place that an entry tells, inside the record.
fn place(
    kind: cupti::CUpti_ActivityKind,
    entry: &cupti::CUpti_ActivityFieldLayoutEntry,
    record_bytes: u16,
) -> Result<Place, LayoutError> {
    let (field, offset, bytes) = (Field(entry.fieldId), entry.offset, entry.size);
    let outside = LayoutError::FieldOutside { kind, field, offset, bytes, record_bytes };
    let end = offset.checked_add(bytes).ok_or(outside)?;
    if entry.size == 0 || end > usize::from(record_bytes) {
        return Err(outside);
    }
    // Offset and size fit into 16 bits, because their sum does.
    let narrow = |number| u16::try_from(number).map_err(|_| outside);
    Ok(Place { field, offset: narrow(offset)?, bytes: narrow(bytes)? })
}

impl fmt::Debug for Layout {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, record_bytes, .. } = self;
        let fields = self.places();
        out.debug_struct("Layout")
            .field("kind", kind)
            .field("record_bytes", record_bytes)
            .field("fields", &fields)
            .finish()
    }
}

impl fmt::Debug for Layouts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter()).finish()
    }
}

impl Default for Layouts {
    fn default() -> Self {
        Self::new()
    }
}

impl Layouts {
    /// A table without layouts.
    pub const fn new() -> Self {
        Self { len: 0, layouts: [NO_LAYOUT; MAX_LAYOUTS] }
    }

    /// Forgets everything, so that equal tables hold equal bytes.
    fn clear(&mut self) {
        if let Some(used) = self.layouts.get_mut(..MAX_LAYOUTS.min(self.len + 1)) {
            used.fill(NO_LAYOUT);
        }
        self.len = 0;
    }

    /// The layouts, by kind.
    pub fn iter(&self) -> impl Iterator<Item = &Layout> {
        self.layouts.iter().take(self.len)
    }

    /// How records of a kind are laid out.
    pub fn of(&self, kind: cupti::CUpti_ActivityKind) -> Option<&Layout> {
        self.iter().find(|layout| layout.kind == kind)
    }
}

/// Layouts that CUPTI tells and that cannot be true, or are beyond what is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LayoutError {
    /// CUPTI tells none: it is older than 13.3, or its records hold all fields.
    None,
    /// What the callback got is shorter than CUPTI 13.3's.
    ShortInfo { bytes: usize },
    /// More kinds than there can be.
    ManyKinds { kinds: usize },
    /// More than [`MAX_LAYOUTS`] kinds are enabled.
    ManyLayouts,
    /// The description of a layout is shorter than CUPTI 13.3's.
    ShortLayout { kind: cupti::CUpti_ActivityKind, bytes: usize },
    /// The description of a field has an impossible length.
    EntrySize { kind: cupti::CUpti_ActivityKind, bytes: usize },
    /// Records of no bytes, or of more than [`MAX_RECORD_BYTES`].
    RecordSize { kind: cupti::CUpti_ActivityKind, bytes: usize },
    /// No fields, or more than [`MAX_FIELDS`].
    FieldCount { kind: cupti::CUpti_ActivityKind, fields: usize },
    /// A field that is not inside the record.
    FieldOutside {
        kind: cupti::CUpti_ActivityKind,
        field: Field,
        offset: usize,
        bytes: usize,
        record_bytes: u16,
    },
    /// One field at two places.
    FieldTwice { kind: cupti::CUpti_ActivityKind, field: Field },
    /// The records do not begin with four bytes that are their kind.
    KindNotFirst { kind: cupti::CUpti_ActivityKind },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "CUPTI does not report usable layouts of its records: ")?;
        match self {
            Self::None => write!(
                out,
                "it reports none: use CUPTI 13.3 or later, and enable each kind with chosen fields"
            ),
            Self::ShortInfo { bytes } => {
                write!(out, "its description of a buffer has {bytes} bytes, fewer than known")
            }
            Self::ManyKinds { kinds } => {
                write!(out, "it reports {kinds} kinds of records; at most {MAX_KINDS} are accepted")
            }
            Self::ManyLayouts => {
                write!(out, "it reports those of more than {MAX_LAYOUTS} kinds: enable fewer kinds")
            }
            Self::ShortLayout { kind, bytes } => {
                write!(out, "kind {kind}: the layout has {bytes} bytes, fewer than known")
            }
            Self::EntrySize { kind, bytes } => {
                write!(out, "kind {kind}: the description of a field has {bytes} bytes")
            }
            Self::RecordSize { kind, bytes } => write!(
                out,
                "kind {kind}: records of {bytes} bytes; 1 to {MAX_RECORD_BYTES} are accepted"
            ),
            Self::FieldCount { kind, fields } => {
                write!(out, "kind {kind}: {fields} fields; 1 to {MAX_FIELDS} are accepted")
            }
            Self::FieldOutside { kind, field, offset, bytes, record_bytes } => write!(
                out,
                "kind {kind}: field {} has {bytes} bytes at byte {offset}, which is outside of \
                 the record of {record_bytes} bytes",
                field.id()
            ),
            Self::FieldTwice { kind, field } => {
                write!(out, "kind {kind}: field {} appears twice", field.id())
            }
            Self::KindNotFirst { kind } => {
                write!(out, "kind {kind}: the records do not begin with their kind")
            }
        }
    }
}

impl std::error::Error for LayoutError {}
