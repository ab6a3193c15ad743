//! Records with chosen fields (CUPTI 13.2 and later): which fields there are, where they lie in such a
//! record, and what a client is told of it.
//!
//! A chosen record is made out of the predefined one: each field is copied to its place, made longer
//! where it has more bytes here. Ids and types of the fields are those of the headers of CUPTI 13.5.
//! Fields lie in the order in which they were asked for, without padding: kind, start, end and
//! correlation id of a kernel have 28 bytes in the real library, too.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::abi::{FieldEntry, Outcome, RecordLayout, cupti, kind, refuse_if};
use crate::record::Record;
use crate::version::Version;

/// Longest predefined record, bytes.
const PREDEFINED_BYTES: usize = 256;
/// Kinds of the newest CUPTI: the table of layouts that a client gets has an entry for each.
pub(crate) const KINDS: usize = 60;

/// A field of a kind: its place in the predefined record and how long it is there, both in bytes, and
/// how long it is in a chosen record.
#[derive(Clone, Copy)]
struct Field(usize, usize, usize);

/// By field id.
#[rustfmt::skip]
const KERNEL: [Field; 49] = [
    Field(0, 4, 4), Field(4, 1, 1), Field(4, 1, 1), Field(5, 1, 1), Field(6, 2, 2), Field(8, 4, 4),
    Field(12, 4, 4), Field(16, 8, 8), Field(24, 8, 8), Field(32, 8, 8), Field(40, 4, 4),
    Field(44, 4, 8), Field(48, 4, 8), Field(52, 4, 4), Field(56, 4, 4), Field(60, 4, 4),
    Field(64, 4, 4), Field(68, 4, 4), Field(72, 4, 4), Field(76, 4, 4), Field(80, 4, 4),
    Field(84, 4, 4), Field(92, 4, 8), Field(96, 8, 8), Field(104, 8, 8), Field(120, 8, 8),
    Field(128, 8, 8), Field(136, 1, 1), Field(137, 1, 1), Field(138, 1, 1), Field(140, 4, 4),
    Field(144, 8, 8), Field(152, 4, 4), Field(156, 4, 4), Field(160, 8, 8), Field(168, 4, 4),
    Field(172, 4, 4), Field(176, 4, 4), Field(180, 4, 4), Field(184, 4, 4), Field(188, 4, 4),
    Field(192, 8, 8), Field(200, 4, 4), Field(204, 4, 4), Field(208, 1, 1), Field(216, 4, 4),
    // 13.3, and 13.4.
    Field(224, 4, 4), Field(232, 4, 4), Field(240, 8, 8),
];
#[rustfmt::skip]
const MEMCPY: [Field; 20] = [
    Field(0, 4, 4), Field(4, 1, 1), Field(5, 1, 1), Field(6, 1, 1), Field(7, 1, 1), Field(8, 8, 8),
    Field(16, 8, 8), Field(24, 8, 8), Field(32, 4, 4), Field(36, 4, 4), Field(40, 4, 4),
    Field(44, 4, 8), Field(64, 8, 8), Field(72, 4, 4), Field(76, 4, 4), Field(80, 4, 4),
    Field(84, 1, 1), Field(88, 8, 8),
    // 13.4.
    Field(96, 4, 4), Field(104, 8, 8),
];
// Between devices, of which there is one only: to be asked for, but never met.
#[rustfmt::skip]
const MEMCPY2: [Field; 20] = [
    Field(0, 4, 4), Field(4, 1, 1), Field(5, 1, 1), Field(6, 1, 1), Field(7, 1, 1), Field(8, 8, 8),
    Field(16, 8, 8), Field(24, 8, 8), Field(32, 4, 4), Field(36, 4, 4), Field(40, 4, 4),
    Field(44, 4, 4), Field(48, 4, 4), Field(52, 4, 4), Field(56, 4, 4), Field(60, 4, 8),
    Field(72, 8, 8), Field(80, 4, 4), Field(84, 4, 4), Field(88, 4, 4),
];
#[rustfmt::skip]
const MEMSET: [Field; 18] = [
    Field(0, 4, 4), Field(4, 4, 4), Field(8, 8, 8), Field(16, 8, 8), Field(24, 8, 8),
    Field(32, 4, 4), Field(36, 4, 4), Field(40, 4, 4), Field(44, 4, 8), Field(48, 2, 2),
    Field(50, 2, 2), Field(64, 8, 8), Field(72, 4, 4), Field(76, 4, 4), Field(80, 4, 4),
    Field(84, 1, 1),
    // 13.4.
    Field(88, 4, 4), Field(96, 8, 8),
];
#[rustfmt::skip]
const API: [Field; 8] = [
    Field(0, 4, 4), Field(4, 4, 4), Field(8, 8, 8), Field(16, 8, 8), Field(24, 4, 4),
    Field(28, 4, 8), Field(32, 4, 8), Field(36, 4, 4),
];
#[rustfmt::skip]
const GRAPH_TRACE: [Field; 10] = [
    Field(0, 4, 4), Field(4, 4, 8), Field(8, 8, 8), Field(16, 8, 8), Field(24, 4, 4),
    Field(28, 4, 4), Field(32, 4, 4), Field(36, 4, 4), Field(48, 4, 4), Field(52, 4, 4),
];
#[rustfmt::skip]
const DEVICE: [Field; 38] = [
    Field(0, 4, 4), Field(4, 4, 4), Field(8, 8, 8), Field(16, 8, 8), Field(24, 4, 4),
    Field(28, 4, 4), Field(32, 4, 4), Field(36, 4, 4), Field(40, 4, 4), Field(44, 4, 4),
    Field(48, 4, 4), Field(52, 4, 4), Field(56, 4, 4), Field(60, 4, 4), Field(64, 4, 4),
    Field(68, 4, 4), Field(72, 4, 4), Field(76, 4, 4), Field(80, 4, 4), Field(84, 4, 4),
    Field(88, 4, 4), Field(92, 4, 4), Field(96, 4, 4), Field(100, 4, 4), Field(104, 4, 4),
    Field(108, 4, 4), Field(112, 4, 4), Field(116, 4, 4), Field(120, 16, 16), Field(136, 8, 8),
    Field(144, 1, 1), Field(145, 1, 1), Field(152, 4, 4), Field(156, 4, 4), Field(160, 16, 16),
    Field(176, 4, 4), Field(180, 4, 4), Field(184, 4, 4),
];
#[rustfmt::skip]
const CONTEXT: [Field; 10] = [
    Field(0, 4, 4), Field(4, 4, 4), Field(8, 4, 4), Field(12, 2, 2), Field(14, 2, 4),
    Field(16, 4, 4), Field(20, 1, 1), Field(22, 2, 2), Field(24, 4, 4), Field(32, 4, 4),
];

fn fields(version: &Version, kind: u32) -> Option<&'static [Field]> {
    let since = |toolkit, all: &'static [Field], later: usize| {
        let cut = if version.toolkit >= toolkit { 0 } else { later };
        &all[..all.len() - cut]
    };
    Some(match kind {
        kind::CONCURRENT_KERNEL if version.toolkit < (13, 3) => &KERNEL[..46],
        kind::CONCURRENT_KERNEL => since((13, 4), &KERNEL, 2),
        kind::MEMCPY => since((13, 4), &MEMCPY, 2),
        kind::MEMCPY2 => &MEMCPY2,
        kind::MEMSET => since((13, 4), &MEMSET, 2),
        kind::DRIVER | kind::RUNTIME => &API,
        kind::GRAPH_TRACE => &GRAPH_TRACE,
        kind::DEVICE => &DEVICE,
        kind::CONTEXT => &CONTEXT,
        _ => return None,
    })
}

pub(crate) struct Selection {
    ids: Vec<i32>,
    /// Each with its place in the record, bytes.
    fields: Vec<(Field, usize)>,
    record_bytes: usize,
    /// What the client is told. `layout` points into `entries`, which stays where it is.
    _entries: Box<[FieldEntry]>,
    layout: RecordLayout,
}

// SAFETY: nothing changes after it was made; the pointer leads to memory that it owns.
unsafe impl Send for Selection {}
// SAFETY: as above.
unsafe impl Sync for Selection {}

impl Selection {
    /// `INVALID_PARAMETER` for fields that do not begin with the kind, that the kind does not have, or
    /// that are there twice; `NOT_SUPPORTED` for a kind without chosen fields.
    fn new(version: &Version, kind: u32, ids: &[i32], lie: bool) -> Outcome<Selection> {
        let known = fields(version, kind).ok_or(cupti::NOT_SUPPORTED)?;
        refuse_if(ids.first() != Some(&0), cupti::INVALID_PARAMETER)?;
        let mut fields: Vec<(Field, usize)> = Vec::new();
        let mut entries: Vec<FieldEntry> = Vec::new();
        let mut record_bytes = 0;
        for &id in ids {
            let field = usize::try_from(id).ok().and_then(|id| known.get(id));
            let field = *field.ok_or(cupti::INVALID_PARAMETER)?;
            refuse_if(entries.iter().any(|entry| entry.field == id), cupti::INVALID_PARAMETER)?;
            let bytes = field.2;
            fields.push((field, record_bytes));
            entries.push(FieldEntry {
                struct_size: size_of::<FieldEntry>(),
                field: id,
                offset: if lie { record_bytes + 4096 } else { record_bytes },
                bytes,
                alignment: bytes.min(8),
            });
            record_bytes += bytes;
        }
        let entries = entries.into_boxed_slice();
        let layout = RecordLayout {
            struct_size: size_of::<RecordLayout>(),
            entries: entries.as_ptr(),
            fields: entries.len(),
            record_bytes,
        };
        Ok(Selection { ids: ids.to_vec(), fields, record_bytes, _entries: entries, layout })
    }

    pub(crate) fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// Writes the record over `out`, which has [`Selection::record_bytes`].
    pub(crate) fn encode(&self, record: &Record, out: &mut [u8]) {
        let mut predefined = [0; PREDEFINED_BYTES];
        record.encode(&mut predefined);
        out.fill(0);
        for &(Field(from, from_bytes, bytes), at) in &self.fields {
            let common = from_bytes.min(bytes);
            let source = predefined.get(from..from + common);
            if let (Some(source), Some(place)) = (source, out.get_mut(at..at + common)) {
                // Little-endian: the lower bytes come first.
                place.copy_from_slice(source);
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct Chosen(RwLock<BTreeMap<u32, Choice>>);

struct Choice {
    selection: Arc<Selection>,
    /// The kind was disabled; a forced flush forgets the choice.
    ended: bool,
}

/// The layouts of all kinds, for as long as a callback of the client runs.
pub(crate) struct Table {
    pub(crate) by_kind: [*const RecordLayout; KINDS],
    _selections: Vec<Arc<Selection>>,
}

impl Chosen {
    /// Chooses fields for a kind; `INVALID_OPERATION` while others are chosen or not flushed.
    pub(crate) fn choose(&self, version: &Version, kind: u32, ids: &[i32], lie: bool) -> Outcome {
        let selection = Arc::new(Selection::new(version, kind, ids, lie)?);
        let mut chosen = self.0.write();
        if chosen.get(&kind).is_some_and(|old| old.selection.ids != ids) {
            return Err(cupti::INVALID_OPERATION);
        }
        chosen.insert(kind, Choice { selection, ended: false });
        Ok(())
    }

    pub(crate) fn end(&self, kind: u32) {
        if let Some(choice) = self.0.write().get_mut(&kind) {
            choice.ended = true;
        }
    }

    /// Everything was flushed, so that other fields may be chosen for the kinds that ended.
    pub(crate) fn forget_ended(&self) {
        self.0.write().retain(|_, choice| !choice.ended);
    }

    pub(crate) fn of(&self, kind: u32) -> Option<Arc<Selection>> {
        self.0.read().get(&kind).map(|choice| Arc::clone(&choice.selection))
    }

    /// What a client is told of a buffer; None if nothing was chosen.
    pub(crate) fn table(&self) -> Option<Table> {
        let chosen = self.0.read();
        let mut table = Table { by_kind: [ptr::null(); KINDS], _selections: Vec::new() };
        for (&kind, choice) in chosen.iter() {
            if let Some(place) = table.by_kind.get_mut(kind as usize) {
                *place = &raw const choice.selection.layout;
                table._selections.push(Arc::clone(&choice.selection));
            }
        }
        (!table._selections.is_empty()).then_some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Damage, Span};
    use crate::recorded::recorded;

    fn version(text: &str) -> Version {
        Version::parse(text).expect("a version")
    }

    #[test]
    fn fields_lie_packed_in_the_order_asked_for() {
        let selection =
            Selection::new(&version("13.5"), kind::CONCURRENT_KERNEL, &[0, 8, 22, 7, 4, 13], false)
                .expect("known fields");
        assert_eq!(selection.record_bytes(), 4 + 8 + 8 + 8 + 2 + 4);
        let span = Span { start_ns: 10, end_ns: 30, stream_id: 9, correlation_id: u32::MAX };
        let work = recorded().sequences[0][0].work;
        let record = Record::Work { work, span, node: (0, 0), grid_id: 1, damage: Damage::None };
        let mut bytes = [0xff; 34];
        selection.encode(&record, &mut bytes);
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        assert_eq!(bytes[..4], kind::CONCURRENT_KERNEL.to_le_bytes());
        assert_eq!((number(4), number(12), number(20)), (30, u64::from(u32::MAX), 10));
        assert_eq!(bytes[30..34], 512_u32.to_le_bytes());
    }

    #[test]
    fn what_a_version_does_not_have_is_refused() {
        let result = |text, kind, ids: &[i32]| {
            Selection::new(&version(text), kind, ids, false)
                .map(|selection| selection.record_bytes())
        };
        let kernel = kind::CONCURRENT_KERNEL;
        assert_eq!(result("13.4", kernel, &[0, 46, 47, 48]), Ok(20));
        assert_eq!(result("13.3", kernel, &[0, 46]), Ok(8));
        assert_eq!(result("13.3", kernel, &[0, 47]), Err(cupti::INVALID_PARAMETER));
        assert_eq!(result("13.2", kernel, &[0, 46]), Err(cupti::INVALID_PARAMETER));
        for ids in [&[][..], &[7, 0], &[0, 0], &[0, -1], &[0, i32::MAX]] {
            assert_eq!(result("13.5", kernel, ids), Err(cupti::INVALID_PARAMETER), "{ids:?}");
        }
        assert_eq!(result("13.5", 27, &[0]), Err(cupti::NOT_SUPPORTED));
    }

    #[test]
    fn other_fields_need_a_flush_first() {
        let (chosen, version) = (Chosen::default(), version("13.5"));
        let choose = |ids: &[i32]| chosen.choose(&version, kind::MEMSET, ids, false);
        assert_eq!(choose(&[0, 3]), Ok(()));
        assert_eq!(choose(&[0, 3]), Ok(()));
        chosen.end(kind::MEMSET);
        assert_eq!(choose(&[0, 4]), Err(cupti::INVALID_OPERATION));
        chosen.forget_ended();
        assert!(chosen.table().is_none());
        assert_eq!(choose(&[0, 4]), Ok(()));
        assert!(chosen.table().is_some_and(|table| !table.by_kind[2].is_null()));
    }
}
