//! What is open at the beginning of a further piece of the trace -> records that say it again.

use stage2_contract::trace::{MonoNs, RangeOpen, Record};

use super::Ranges;
use super::open_range::OpenRange;
use crate::drain::intern::{Interner, Sink};
use crate::guest::event::Selection;

impl Ranges {
    /// The number of the next range.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_range
    }

    /// Says of each open range that it goes on since `at`, the outer ones first, and how many there are.
    pub(crate) fn say_open(&self, at: MonoNs, names: &mut Interner, sink: &mut impl Sink) -> u64 {
        let mut said = 0;
        for (number, thread) in self.in_order() {
            let all = thread.open.iter();
            for open in all.clone().filter(|open| !open.gone) {
                names.define_path(open.path, sink);
                sink.put(Record::RangeOpen(RangeOpen {
                    parent: around(open, all.clone()),
                    start: at,
                    continues: open.range,
                    ..open.record(number)
                }));
                if self.restricted && open.event.selection != Selection::Inherit {
                    let recorded = open.selection == Selection::Collect;
                    sink.put(Record::RangeSample { range: open.range, recorded });
                }
                said += 1;
            }
        }
        said
    }
}

/// The instance that an open range is in, of those of its thread that have not closed yet.
fn around<'o>(open: &OpenRange, all: impl Iterator<Item = &'o OpenRange> + Clone) -> u64 {
    let mut parent = open.parent;
    while let Some(gone) = all.clone().find(|other| other.gone && other.range == parent) {
        parent = gone.parent;
    }
    parent
}
