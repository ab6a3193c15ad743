//! Records of a trace file, read again -> the stage, the instance of it and the step of GPU work.
//!
//! Paths have the indices that the first pass gave them, since both define them in the same order.

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::trace::{
    GpuWork, NONE, RANGE_OUTSIDE, RANGE_UNKNOWN, RangeOpen, Record, Shape,
};

use super::alike::{Alike, Joined};
use super::instances::{Entry, Instances, NO_ROOT};
use super::libraries::RangeNames;
use super::names::Names;
use super::paths::{OUTSIDE, PathIndex, Paths, UNATTRIBUTED, UNDEFINED};

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
#[derive(Debug)]
pub struct Placing<'l> {
    libraries: &'l RangeNames,
    /// All work is of one stage, since the program opened no range.
    whole: Option<PathIndex>,
    names: Names,
    library_names: FxHashSet<u32>,
    paths: Paths,
    alike: Alike,
    known: Known,
    open: FxHashMap<u64, Around>,
    /// Recorded parts so far.
    parts: u32,
    /// Identifiers of open ranges that go on under another one.
    continued: FxHashMap<u64, u64>,
    /// Instances so far, of each path.
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

impl<'l> Placing<'l> {
    /// For a file whose names of ranges are joined as `joined` says.
    pub fn new(libraries: &'l RangeNames, whole: Option<PathIndex>, joined: Joined) -> Self {
        Self {
            libraries,
            whole,
            names: Names::default(),
            library_names: FxHashSet::default(),
            paths: Paths::default(),
            alike: Alike::of(joined),
            known: Known::default(),
            open: FxHashMap::default(),
            parts: 0,
            continued: FxHashMap::default(),
            opened: FxHashMap::default(),
            queues: FxHashMap::default(),
            shapes: FxHashMap::default(),
        }
    }

    /// Takes a record that says where later work belongs.
    pub fn take(&mut self, record: &Record) {
        match record {
            Record::RangeOpen(open) => self.range(open),
            Record::RangeSample { range, recorded } => self.part(*range, *recorded),
            Record::RangeClose { range, .. } => {
                let range = self.continued.remove(range).unwrap_or(*range);
                self.open.remove(&range);
            }
            Record::Name { id, bytes } => {
                let of_library = self.libraries.contains(bytes);
                let index = self.names.define(*id, bytes.clone());
                if of_library {
                    self.library_names.insert(index);
                }
            }
            Record::Queue(queue) => drop(self.queues.insert(queue.id, queue.device)),
            Record::Shape(shape) => {
                let name = self.names.find(shape.name);
                self.shapes.insert(shape.id, (*shape, name));
            }
            Record::Path(path) => {
                let name = self.names.find(path.name);
                let domain = (path.domain != NONE).then(|| self.names.find(path.domain)).flatten();
                let library = domain.is_some_and(|name| self.library_names.contains(&name));
                let own = name.filter(|_| !library);
                let stand_in = own.and_then(|own| {
                    self.alike.stand_in(&mut self.names, &self.paths, path, own, domain)
                });
                self.paths.define(path, stand_in.or(name), domain, library);
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
        let path = self.paths.find(record.path).unwrap_or(UNDEFINED);
        let node = self.paths.node(path);
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
            stage.root != NO_ROOT && self.paths.node(stage.path).top == node.top
        };
        let (around, before) = (around.filter(same_stage), before.filter(same_stage));
        let stage = match node.user {
            None => NOWHERE,
            Some(_) => before.or(around).map_or_else(
                || Entry { path: node.top, root: next(&mut self.opened, node.top) },
                |around| around.stage,
            ),
        };
        let is_step = node.user == Some(path) && node.parent == Some(node.top);
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
