//! Records of a trace file, read again -> the stage, the instance of it and the step of GPU work.
//!
//! Paths have the indices that the first pass gave them, since both define them in the same order.

use rustc_hash::FxHashMap;
use stage2_contract::trace::{GpuWork, RANGE_OUTSIDE, RANGE_UNKNOWN, RangeOpen, Record, Shape};

use super::alike::{Alike, Joined};
use super::definitions::Definitions;
use super::libraries::RangeNames;
use super::paths::{OUTSIDE, PathIndex, UNATTRIBUTED, UNDEFINED};

/// An instance of a range: its path, and its number in the file among those of its path.
pub type Numbered = (PathIndex, u32);

/// Where GPU work belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkPlace {
    /// The instance of a stage; nothing for work outside of all stages, or of no known range.
    pub stage: Option<Numbered>,
    /// The range right within that instance.
    pub step: Option<Numbered>,
    /// Where only parts of a run are recorded: the number of the part, from 0.
    pub part: Option<u32>,
}

/// What is known of a file so far.
#[derive(Debug, Default)]
pub struct Placing {
    /// All work is of one stage, since the program opened no range.
    whole: Option<PathIndex>,
    definitions: Definitions,
    known: Known,
    open: FxHashMap<u64, Around>,
    /// Recorded parts so far.
    parts: u32,
    /// Identifiers of open ranges that go on under another one.
    continued: FxHashMap<u64, u64>,
    opened: FxHashMap<PathIndex, u32>,
    queues: FxHashMap<u32, u32>,
    shapes: FxHashMap<u32, (Shape, Option<u32>)>,
}

/// Closed ranges: their stages, the steps, and the recorded parts.
#[derive(Debug, Default)]
struct Known {
    stages: Instances,
    steps: Instances,
    /// Empty where everything is recorded.
    parts: Instances,
}

/// What a range is in, itself included.
#[derive(Clone, Copy, Debug)]
struct Around {
    stage: Entry,
    step: Entry,
    part: Option<u32>,
}

const NOWHERE: Entry = Entry { path: OUTSIDE, root: NO_ROOT };

impl Placing {
    /// For a file whose names of ranges are joined as `joined` says.
    pub fn new(libraries: &RangeNames, whole: Option<PathIndex>, joined: Joined) -> Self {
        let definitions = Definitions::new(libraries.clone(), Alike::of(joined));
        Self { whole, definitions, ..Self::default() }
    }

    /// Takes a record that states where later work belongs.
    pub fn take(&mut self, record: &Record) {
        match record {
            Record::RangeOpen(open) => self.range(open),
            Record::RangeSample { range, recorded } => self.part(*range, *recorded),
            Record::RangeClose { range, .. } => {
                let range = self.continued.remove(range).unwrap_or(*range);
                self.open.remove(&range);
            }
            Record::Name { id, bytes } => {
                self.definitions.name(*id, bytes.clone());
            }
            Record::Queue(queue) => drop(self.queues.insert(queue.id, queue.device)),
            Record::Shape(shape) => {
                let name = self.definitions.names.find(shape.name);
                self.shapes.insert(shape.id, (*shape, name));
            }
            Record::Path(path) => {
                self.definitions.path(path);
            }
            _ => {}
        }
    }

    /// The range, and what will be opened in it, is a part of the run that is recorded, or is not.
    fn part(&mut self, range: u64, recorded: bool) {
        let Some(around) = self.open.get_mut(&range) else { return };
        if recorded && around.part.is_some() {
            // It is within one.
            return;
        }
        around.part = recorded.then_some(self.parts);
        let Some(number) = around.part else { return };
        self.parts = self.parts.saturating_add(1);
        self.known.parts.insert(range, Entry { path: OUTSIDE, root: number });
    }

    fn range(&mut self, record: &RangeOpen) {
        let paths = &self.definitions.paths;
        let path = paths.find(record.path).unwrap_or(UNDEFINED);
        let node = paths.node(path);
        let goes_on = (record.continues != 0).then_some(record.continues);
        let before = goes_on.and_then(|id| self.find(id));
        let around = self.find(record.parent);
        if let Some(id) = goes_on {
            self.open.remove(&id);
            self.continued.insert(id, record.range);
        }
        // One that goes on is in the part that it was in.
        let part = before.or(around).and_then(|around| around.part);
        let same_stage = |Around { stage, .. }: &Around| {
            stage.root != NO_ROOT && paths.node(stage.path).top == node.top
        };
        let (around, before) = (around.filter(same_stage), before.filter(same_stage));
        // One that is left out counts as the one around it, and is none of its own.
        let is_left_out = self.definitions.is_left_out(record.path);
        let stage = match node.user {
            None => NOWHERE,
            Some(_) if is_left_out => around.map_or(NOWHERE, |around| around.stage),
            Some(_) => before.or(around).map_or_else(
                || Entry { path: node.top, root: next(&mut self.opened, node.top) },
                |around| around.stage,
            ),
        };
        let is_step = node.user == Some(path) && node.parent == Some(node.top) && !is_left_out;
        let step = match before.filter(|before| before.step.path == path) {
            Some(before) => before.step,
            None if is_step => Entry { path, root: next(&mut self.opened, path) },
            None => around.map_or(NOWHERE, |around| around.step),
        };
        self.known.stages.insert(record.range, stage);
        self.known.steps.insert(record.range, step);
        if let Some(number) = part {
            self.known.parts.insert(record.range, Entry { path: OUTSIDE, root: number });
        }
        self.open.insert(record.range, Around { stage, step, part });
    }

    fn find(&self, range: u64) -> Option<Around> {
        if range == RANGE_OUTSIDE {
            return None;
        }
        if let Some(stage) = self.known.stages.get(range) {
            let step = self.known.steps.get(range).unwrap_or(NOWHERE);
            let part = self.known.parts.get(range).map(|part| part.root);
            return Some(Around { stage, step, part });
        }
        // What is open stays known however old it is.
        self.open.get(&range).copied()
    }

    /// Where work belongs.
    pub fn place(&self, work: &GpuWork) -> WorkPlace {
        if let Some(whole) = self.whole {
            return WorkPlace { stage: Some((whole, 0)), ..WorkPlace::default() };
        }
        if matches!(work.range, RANGE_OUTSIDE | RANGE_UNKNOWN) {
            return WorkPlace::default();
        }
        let Some(Around { stage, step, part }) = self.find(work.range) else {
            return WorkPlace::default();
        };
        let numbered = |entry: Entry| {
            let known =
                entry.root != NO_ROOT && !matches!(entry.path, OUTSIDE | UNATTRIBUTED | UNDEFINED);
            known.then_some((entry.path, entry.root))
        };
        WorkPlace { stage: numbered(stage), step: numbered(step), part }
    }

    /// How a kernel was launched, and the index of its name.
    pub fn shape(&self, id: u32) -> Option<(Shape, Option<u32>)> {
        self.shapes.get(&id).copied()
    }

    /// The GPU, as the process numbers them, that work ran on.
    pub fn device(&self, work: &GpuWork) -> Option<u32> {
        self.queues.get(&work.queue).copied()
    }
}

/// The next number of a path; those beyond the last are all the last.
fn next(opened: &mut FxHashMap<PathIndex, u32>, path: PathIndex) -> u32 {
    let opened = opened.entry(path).or_default();
    let number = *opened;
    *opened = opened.saturating_add(1).min(NO_ROOT - 1);
    number
}

/// Instances in the table before the older half is forgotten.
const WINDOW: usize = 1 << 22;
const NO_PATH: PathIndex = PathIndex::MAX;

/// Stands for no outermost instance: only ranges of libraries are around.
pub(super) const NO_ROOT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathIndex,
    /// Number of the outermost instance of the user around it, or [`NO_ROOT`].
    pub(super) root: u32,
}

/// Writers give identifiers out one by one, and GPU work comes into the file soon after the range
/// that it was launched in. So a table of the latest identifiers finds nearly all; what is open
/// stays known however old it is. Work of an instance that closed longer ago than the table
/// reaches has lost its place: it is counted as unattributed.
#[derive(Debug, Default)]
pub(super) struct Instances {
    base: u64,
    dense: Vec<Entry>,
    /// Identifiers that are out of the order.
    sparse: FxHashMap<u64, Entry>,
    defined: usize,
    /// [`WINDOW`] if it is not set.
    window: Option<usize>,
}

impl Instances {
    pub(super) fn with_window(window: usize) -> Self {
        Self { window: Some(window), ..Self::default() }
    }

    /// Lets `id` stand for `entry` from here on.
    pub(super) fn insert(&mut self, id: u64, entry: Entry) {
        let window = self.window.unwrap_or(WINDOW);
        if self.dense.len() >= window {
            let half = self.dense.len() / 2;
            self.dense.drain(..half);
            self.base = self.base.saturating_add(half as u64);
            self.defined = self.defined.saturating_sub(half);
        }
        if self.sparse.len() >= window {
            self.sparse.clear();
        }
        self.defined += 1;
        // At most two slots for each definition, so that a huge identifier costs nothing.
        match id.checked_sub(self.base).and_then(|slot| usize::try_from(slot).ok()) {
            Some(slot) if slot < 2 * self.defined + 64 => {
                if slot >= self.dense.len() {
                    self.dense.resize(slot + 1, Entry { path: NO_PATH, root: 0 });
                }
                if let Some(place) = self.dense.get_mut(slot) {
                    *place = entry;
                }
            }
            _ => drop(self.sparse.insert(id, entry)),
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<Entry> {
        let slot = id.checked_sub(self.base).and_then(|slot| usize::try_from(slot).ok());
        match slot.and_then(|slot| self.dense.get(slot)) {
            Some(&entry) if entry.path != NO_PATH => Some(entry),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&id).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use stage2_contract::trace::{NONE, Path, What};

    use super::*;

    #[test]
    fn a_range_that_holds_no_work_is_no_step() {
        let mut placing = Placing::new(&RangeNames::default(), None, Joined::default());
        let names = ["stage", "model", "stage2.module model"];
        for (id, name) in (1..).zip(names) {
            placing.take(&Record::Name { id, bytes: name.into() });
            placing.take(&Record::Path(Path { id, parent: id - 1, name: id, domain: NONE }));
        }
        for (range, path, parent) in [(1, 1, 0), (2, 2, 1), (3, 3, 2), (4, 2, 1)] {
            let open = RangeOpen { range, path, parent, ..RangeOpen::default() };
            placing.take(&Record::RangeOpen(open));
        }
        let step = |range| {
            let work = GpuWork { range, ..GpuWork::new(What::Fill { bytes: 1 }) };
            placing.place(&work).step.map(|(_, number)| number)
        };
        assert_eq!([1, 2, 3, 4].map(step), [None, Some(0), Some(0), Some(1)]);
    }

    proptest! {
        #[test]
        fn is_a_map(ids in prop::collection::vec(prop_oneof![0u64..200, any::<u64>()], 0..300)) {
            let (mut instances, mut expected) = (Instances::default(), HashMap::new());
            for (path, &id) in (0..).zip(&ids) {
                let entry = Entry { path, root: path + 1 };
                instances.insert(id, entry);
                expected.insert(id, entry);
            }
            for id in ids.iter().copied().chain(0..300) {
                prop_assert_eq!(instances.get(id), expected.get(&id).copied());
            }
            prop_assert!(instances.dense.len() <= 2 * ids.len() + 64);
        }

        #[test]
        fn the_latest_are_known_and_memory_is_bounded(count in 1u64..2_000, window in 8usize..100) {
            let mut instances = Instances::with_window(window);
            for id in 1..=count {
                instances.insert(id, Entry { path: id as u32, root: 0 });
            }
            prop_assert!(instances.dense.len() <= window && instances.sparse.len() <= window);
            for id in count.saturating_sub(window as u64 / 2 - 2).max(1)..=count {
                prop_assert_eq!(instances.get(id), Some(Entry { path: id as u32, root: 0 }));
            }
            prop_assert!(count <= window as u64 || instances.get(1).is_none());
        }
    }
}
