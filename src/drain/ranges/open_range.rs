//! A range that is open on a thread, and what it takes over from the one that it is in.

use stage2_contract::trace::{NONE, RANGE_OUTSIDE, RangeOpen};

use crate::guest::event::{Event, Selection};

#[derive(Clone, Copy, Debug)]
pub(super) struct OpenRange {
    /// Instance, as the trace file numbers it; changes when the range continues under another path.
    pub(super) range: u64,
    /// The instance that it was opened as.
    pub(super) first: u64,
    /// The instance that it is in, as the trace file numbers it; `RANGE_OUTSIDE` at the top.
    pub(super) parent: u64,
    pub(super) path: u32,
    pub(super) name: u32,
    pub(super) domain: u32,
    /// It, or one around it, was lost: whether collection was asked for is not known.
    pub(super) lost: bool,
    /// It has closed, and is still in the paths of those opened after it.
    pub(super) gone: bool,
    /// The guest's id of a start/end range; `None` for push/pop.
    pub(super) start_id: Option<u64>,
    pub(super) selection: Selection,
    /// What it takes over from the range that it is in.
    inherited: Inherited,
    pub(super) event: Event,
}

#[derive(Clone, Copy, Debug, Default)]
struct Inherited {
    path: u32,
    lost: bool,
    selection: Selection,
}

impl OpenRange {
    /// What `event` opens, in no other range. `start_id`: the guest's id of a start/end range.
    pub(super) fn new(
        range: u64,
        event: &Event,
        name: u32,
        domain: u32,
        start_id: Option<u64>,
    ) -> Self {
        OpenRange {
            range,
            first: range,
            parent: RANGE_OUTSIDE,
            path: NONE,
            name,
            domain,
            lost: false,
            gone: false,
            start_id,
            selection: event.selection,
            inherited: Inherited::default(),
            event: *event,
        }
    }

    /// Puts it in the innermost open range of its thread, or beside that one. Gives the path that its own
    /// name comes behind.
    pub(super) fn put_in(&mut self, innermost: Option<&OpenRange>) -> u32 {
        (self.parent, self.inherited) = match innermost {
            Some(other) if self.is_beside(other) => (other.parent, other.inherited),
            Some(&OpenRange { range, path, lost, selection, .. }) => {
                (range, Inherited { path, lost, selection })
            }
            None => (RANGE_OUTSIDE, Inherited::default()),
        };
        self.selection = self.inherited.selection.max(self.selection);
        self.lost |= self.inherited.lost;
        self.inherited.path
    }

    /// Start/end ranges of one name need not nest: several requests, for instance, are open at a time.
    /// They stand side by side.
    fn is_beside(&self, other: &OpenRange) -> bool {
        self.start_id.is_some()
            && other.start_id.is_some()
            && !other.gone
            && (self.name, self.domain) == (other.name, other.domain)
    }

    /// As the trace file has it.
    pub(super) fn record(&self, thread: u32) -> RangeOpen {
        RangeOpen {
            range: self.range,
            path: self.path,
            thread,
            parent: self.parent,
            start: self.event.at,
            start_end: self.start_id.is_some(),
            category: self.event.category,
            payload: self.event.payload,
            continues: if self.first == self.range { 0 } else { self.first },
        }
    }
}
