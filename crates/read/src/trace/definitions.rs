//! Records that define names, paths, kernels and devices -> what others refer to, safe to look up.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::trace::{Device, DeviceState, NONE, Path, Queue, Shape};

use super::alike::Alike;
use super::libraries::RangeNames;
use super::paths::{Names, PathIndex, Paths, UNDEFINED};
use crate::engine::{Named, StepKind, StepWork};

/// Names and paths of ranges. Every reader of a file defines them in the order of its records, so that their
/// indices are the same for all.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    pub(super) libraries: RangeNames,
    pub(super) names: Names,
    /// Names that are those of domains of libraries.
    library_names: FxHashSet<u32>,
    pub(super) paths: Paths,
    pub(super) alike: Alike,
    /// What outermost ranges work on whose names report it, by the identifiers of their paths.
    works: FxHashMap<u32, StepWork>,
    /// Identifiers of paths whose ranges hold no work.
    left_out: FxHashSet<u32>,
    /// Identifiers of outermost paths whose ranges an engine opens between two steps.
    between: FxHashSet<u32>,
    /// Identifiers of the paths of `left_out` whose ranges are records of requests.
    requests: FxHashSet<u32>,
    /// Names of the modules whose nodes are captured within ranges of these paths.
    modules: FxHashMap<u32, u32>,
    /// Engines whose adapters names of steps fit, with the number of these paths.
    pub(super) engines: BTreeMap<String, u64>,
    /// Paths that are named as steps are, with numbers that cannot be.
    pub(super) unsound_steps: u64,
}

/// A path as it was defined.
#[derive(Clone, Copy, Debug)]
pub(super) struct DefinedPath {
    pub(super) index: PathIndex,
    /// Indices of the names of its innermost range and of the domain of that.
    pub(super) name: Option<u32>,
    pub(super) domain: Option<u32>,
    /// The name that stands for its own, which is joined with others.
    pub(super) stand_in: Option<u32>,
    /// The path around it is defined, too.
    pub(super) in_known: bool,
}

impl Definitions {
    pub(super) fn new(libraries: RangeNames, alike: Alike) -> Self {
        Self { libraries, alike, ..Self::default() }
    }

    pub(super) fn name(&mut self, id: u32, bytes: Vec<u8>) -> u32 {
        let of_library = self.libraries.contains(&bytes);
        let index = self.names.define(id, bytes);
        if of_library {
            self.library_names.insert(index);
        }
        index
    }

    pub(super) fn path(&mut self, record: &Path) -> DefinedPath {
        let name = self.names.find(record.name);
        let domain = (record.domain != NONE).then(|| self.names.find(record.domain)).flatten();
        let library = domain.is_some_and(|name| self.library_names.contains(&name));
        let own = name.filter(|_| !library);
        let around = self.user_around(record);
        // An identifier that is given again means what it was given last.
        self.works.remove(&record.id);
        self.left_out.remove(&record.id);
        self.between.remove(&record.id);
        self.requests.remove(&record.id);
        match self.modules.get(&record.parent).copied() {
            Some(around) => self.modules.insert(record.id, around),
            None => self.modules.remove(&record.id),
        };
        let engines = self.libraries.engines.clone();
        let named = own.and_then(|own| engines.read(self.names.get(own)?));
        if let Some((_, named)) = &named {
            self.follow(record.id, around, named);
        }
        let stand_in = match named {
            _ if self.libraries.keeps_names => None,
            // The engine's own range of a step, inside a range that already marks the step.
            Some((_, Named::Step(_))) if around.is_some_and(|around| self.is_step(around)) => {
                return self.leave_out(record, name, domain);
            }
            Some((_, Named::Empty | Named::Request)) => {
                return self.leave_out(record, name, domain);
            }
            Some((_, Named::Captured(module))) => {
                self.modules.insert(record.id, self.names.add(module.into_bytes()));
                return self.leave_out(record, name, domain);
            }
            Some((engine, Named::Step(work))) if around.is_none() => {
                *self.engines.entry(engine.to_owned()).or_default() += 1;
                Some(work.kind().to_string())
            }
            Some((_, Named::Unsound)) if around.is_none() => {
                self.unsound_steps += 1;
                None
            }
            Some((_, Named::Module(path))) => Some(path),
            _ => None,
        };
        let stand_in = match (stand_in, own) {
            (Some(text), _) => Some(self.names.add(text.into_bytes())),
            (None, Some(own)) => self.alike.stand_in(&mut self.names, around, own, domain),
            (None, None) => None,
        };
        let in_known = self.paths.define(record, stand_in.or(name), domain, library);
        let index = self.paths.find(record.id).unwrap_or(UNDEFINED);
        DefinedPath { index, name, domain, stand_in, in_known }
    }

    /// Notes what an engine does in the ranges of the path `id`.
    fn follow(&mut self, id: u32, around: Option<PathIndex>, named: &Named) {
        match named {
            Named::Step(work) if around.is_none() => drop(self.works.insert(id, *work)),
            Named::Between if around.is_none() => drop(self.between.insert(id)),
            // They hold no work: none of them is what follows a step.
            Named::Empty | Named::Captured(_) => drop(self.between.insert(id)),
            Named::Request => {
                self.requests.insert(id);
                self.between.insert(id);
            }
            _ => {}
        }
    }

    fn leave_out(&mut self, record: &Path, name: Option<u32>, domain: Option<u32>) -> DefinedPath {
        self.left_out.insert(record.id);
        let in_known = self.paths.leave_out(record);
        let index = self.paths.find(record.id).unwrap_or(UNDEFINED);
        DefinedPath { index, name, domain, stand_in: None, in_known }
    }

    /// Whether a path has the name of a step of an engine.
    fn is_step(&self, path: PathIndex) -> bool {
        let name = self.paths.node(path).name.and_then(|name| self.names.get(name));
        name.is_some_and(StepKind::is_name)
    }

    /// The innermost range of the user around a path that `record` is about to define.
    fn user_around(&self, record: &Path) -> Option<PathIndex> {
        match record.parent {
            NONE => None,
            id => self.paths.node(self.paths.find(id).unwrap_or(UNDEFINED)).user,
        }
    }

    /// Whether ranges of the path of this identifier hold no work, and count as the one around them.
    pub(super) fn is_left_out(&self, path: u32) -> bool {
        self.left_out.contains(&path)
    }

    /// The name of the module whose nodes are captured within ranges of this path.
    pub(super) fn module(&self, path: u32) -> Option<u32> {
        self.modules.get(&path).copied()
    }

    /// Whether a range of the path of this identifier begins or ends a step of an engine: it is an outermost
    /// range of the user, and none that the engine opens between two steps.
    pub(super) fn tells_steps(&self, path: u32) -> bool {
        let index = self.paths.find(path).unwrap_or(UNDEFINED);
        let node = self.paths.node(index);
        node.user == Some(index) && node.parent.is_none() && !self.between.contains(&path)
    }

    /// Whether ranges of the path of this identifier are records of requests.
    pub(super) fn is_of_requests(&self, path: u32) -> bool {
        self.requests.contains(&path)
    }

    /// What an instance of the path of this identifier works on, as its name states.
    pub(super) fn work(&self, path: u32) -> Option<StepWork> {
        self.works.get(&path).copied()
    }

    /// Whether the range of this path was opened by a library, and not by the user.
    pub(super) fn is_of_library(&self, path: PathIndex) -> bool {
        self.paths.node(path).domain.is_some_and(|domain| self.library_names.contains(&domain))
    }

    /// Whether a range of this name, in this domain, is a stage of the model.
    pub(super) fn is_of_model(&self, name: Option<u32>, domain: Option<u32>) -> bool {
        let text = |name: Option<u32>| self.names.get(name?);
        text(name).is_some_and(|name| self.libraries.is_of_model(name, text(domain)))
    }
}

/// A kernel and how it was launched, with the index of its name in the names of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShapeEntry {
    /// As recorded; [`Shape::id`] and [`Shape::name`] mean nothing outside the file.
    pub shape: Shape,
    /// Its name; nothing where the file does not define it.
    pub name: Option<u32>,
    /// False for the stand-in of shapes that are used but not defined.
    pub defined: bool,
}

/// Index of the stand-in for shapes that are not defined.
pub(super) const UNKNOWN: u32 = 0;

#[derive(Debug)]
pub(crate) struct Shapes {
    list: Vec<ShapeEntry>,
    by_id: FxHashMap<u32, u32>,
}

impl Default for Shapes {
    fn default() -> Self {
        Self { list: vec![ShapeEntry::default()], by_id: FxHashMap::default() }
    }
}

impl Shapes {
    /// Adds a shape, and gives its index. An identifier that is given again counts from there on.
    pub(crate) fn define(&mut self, shape: Shape, name: Option<u32>) -> u32 {
        let said = ShapeEntry { shape, name, defined: true };
        if let Some(index) = self.find(shape.id)
            && self.list.get(index as usize) == Some(&said)
        {
            return index;
        }
        let index = self.list.len() as u32;
        self.by_id.insert(shape.id, index);
        self.list.push(said);
        index
    }

    pub(crate) fn find(&self, id: u32) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// Number that tells the names of kernels apart; 0 where a shape has none.
    pub(crate) fn name(&self, index: u32) -> u32 {
        let name = self.list.get(index as usize).and_then(|entry| entry.name);
        name.map_or(0, |name| name + 1)
    }

    pub(crate) fn into_list(self) -> Vec<ShapeEntry> {
        self.list
    }
}

/// A GPU of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceEntry {
    /// Index as CUPTI numbers devices in the process; nothing for work of an undefined queue.
    pub id: Option<u32>,
    /// What the file states of it.
    pub device: Option<Device>,
}

#[derive(Debug, Default)]
pub(crate) struct Devices {
    list: Vec<DeviceEntry>,
    by_id: HashMap<Option<u32>, u32>,
    queues: FxHashMap<u32, u32>,
    /// Pieces of GPU work whose queue is not defined.
    pub undefined_queues: u64,
}

impl Devices {
    fn index(&mut self, id: Option<u32>) -> u32 {
        *self.by_id.entry(id).or_insert_with(|| {
            self.list.push(DeviceEntry { id, device: None });
            (self.list.len() - 1) as u32
        })
    }

    pub(crate) fn describe(&mut self, device: Device) {
        let index = self.index(Some(device.id)) as usize;
        if let Some(entry) = self.list.get_mut(index) {
            entry.device = Some(device);
        }
    }

    pub(crate) fn queue(&mut self, queue: &Queue) {
        let device = self.index(Some(queue.device));
        self.queues.insert(queue.id, device);
    }
    pub(crate) fn of_queue(&mut self, queue: u32) -> u32 {
        match self.queues.get(&queue) {
            Some(&device) => device,
            None => {
                self.undefined_queues += 1;
                self.index(None)
            }
        }
    }

    pub(crate) fn into_list(self) -> Vec<DeviceEntry> {
        self.list
    }
}

/// Readings that are kept of all devices of a process: those of some hours.
const MOST_STATES: usize = 1 << 16;

/// Readings by [`DeviceState::device`], in the order of the file.
#[derive(Debug, Default)]
pub struct DeviceStates {
    by_device: BTreeMap<u32, Vec<DeviceState>>,
    kept: usize,
    /// Of so many readings of a device one is kept; 0 and 1: each.
    stride: u64,
    seen: u64,
}

impl DeviceStates {
    /// Adds a reading. Of too many, every second one is left out: energy is a running total.
    pub fn add(&mut self, state: DeviceState) {
        self.seen += 1;
        if self.stride > 1 && !self.seen.is_multiple_of(self.stride) {
            return;
        }
        self.by_device.entry(state.device).or_default().push(state);
        self.kept += 1;
        if self.kept > MOST_STATES {
            self.stride = self.stride.max(1) * 2;
            for states in self.by_device.values_mut() {
                let mut stays = [true, false].into_iter().cycle();
                states.retain(|_| stays.next() == Some(true));
            }
            self.kept = self.by_device.values().map(Vec::len).sum();
            // Of more devices than readings are kept, none is a GPU.
            if self.kept > MOST_STATES {
                self.by_device.clear();
                self.kept = 0;
            }
        }
    }

    /// Those of a device.
    pub fn of(&self, device: u32) -> &[DeviceState] {
        self.by_device.get(&device).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_number_of_readings_takes_bounded_space() {
        let (mut few, mut many) = (DeviceStates::default(), DeviceStates::default());
        for number in 0..(5 * MOST_STATES as u32) {
            few.add(DeviceState {
                device: 1,
                energy_mj: Some(number.into()),
                ..DeviceState::default()
            });
            many.add(DeviceState { device: number, ..DeviceState::default() });
        }
        assert!((MOST_STATES / 4..=MOST_STATES).contains(&few.of(1).len()), "{}", few.of(1).len());
        assert!(few.of(1).is_sorted_by_key(|state| state.energy_mj));
        assert!(many.kept <= MOST_STATES && many.by_device.len() <= MOST_STATES);
    }
}
