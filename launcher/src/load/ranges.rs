//! Range records -> instances, and how long each stage and path was open.
//!
//! An instance is one opening of a range. Work is placed by the instance it was launched in and
//! counted for the outermost instance around it. A record that continues an instance under
//! another path adds time to that path, but is no instance of it.

use std::collections::{HashMap, HashSet};

use stage2_spool::{GpuNs, MonoNs, RANGE_OUTSIDE, RangeOpen};

use super::clock::ClockMap;
use super::ids::Ids;
use super::paths::{PathIndex, Paths};
use super::sampling::Sampled;
use super::stats::Span;
use stage2_figures::union_ns;

const OPEN: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Instance {
    start: u64,
    end: u64,
    path: PathIndex,
    root: u32,
    counted: bool,
    /// Whether it was recorded, where some instances are not.
    sampled: Option<bool>,
}

impl Instance {
    fn close(&mut self, end: MonoNs) {
        self.end = end.0.min(OPEN - 1).max(self.start);
    }
}

/// The outermost instance around others: an instance of a stage.
#[derive(Clone, Copy, Debug)]
struct Root {
    stage: PathIndex,
    instance: u32,
    /// The first instance of its stage in the file.
    cold: bool,
    kernels: u64,
    first_ns: u64,
    last_ns: u64,
}

/// How often and how long a path was open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathTimes {
    /// Instances, closed or not.
    pub instances: u64,
    /// Instances that were never closed.
    pub unclosed: u64,
    /// Host time of all closed instances and continuations, ns; nothing where none was closed.
    pub host_total_ns: Option<u64>,
    /// Host time of the first closed instance, ns.
    pub host_first_ns: Option<u64>,
    /// Host time of each closed instance but the first, ns.
    pub host_warm_ns: Vec<u64>,
    /// Instances that `STAGE2_SAMPLE` chose from, and those that it took.
    pub sampled: Sampled,
}

/// What a stage's instances enclosed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Union of the windows of the instances, ns; a window runs from the opening of the range to
    /// its closing or the end of the last GPU work launched in it, whichever is later. Nothing
    /// where the clocks cannot be tied together.
    pub window_ns: Option<u64>,
    /// Kernels of each instance.
    pub kernels_per_instance: Vec<u64>,
    /// All of that without the first, cold instance; nothing where that one cannot be told apart.
    pub warm: Option<WarmTimes>,
}

/// The instances of a stage without its first, cold one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmTimes {
    /// Instances.
    pub instances: u64,
    /// Union of their windows, ns.
    pub window_ns: u64,
    /// Their kernels.
    pub kernels: u64,
}

/// Where a piece of GPU work belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Path of the innermost range.
    pub path: PathIndex,
    root: u32,
}

/// Records of ranges that contradict each other or name what is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeFaults {
    /// Ranges that name a path, a parent or a continued range that is not defined.
    pub undefined: u64,
    /// Closings of ranges that are not open, identifiers given twice, and ranges whose path does
    /// not start with the stage of the range around them.
    pub contradicting: u64,
}

/// All instances of one file.
#[derive(Debug, Default)]
pub struct Ranges {
    index: Ids,
    /// Continued identifier -> the identifier it goes on as.
    continued: HashMap<u64, u64>,
    instances: Vec<Instance>,
    roots: Vec<Root>,
    /// Stages whose first instance was seen.
    started: HashSet<PathIndex>,
    /// Only some instances were recorded.
    sampled: bool,
    /// What was wrong.
    pub faults: RangeFaults,
}

impl Ranges {
    /// A range opened under `path` (already looked up; whether it was defined is `defined`).
    pub fn open(&mut self, record: &RangeOpen, path: PathIndex, defined: bool, paths: &Paths) {
        self.faults.undefined += u64::from(!defined);
        let counted = record.continues == 0;
        if !counted {
            self.go_on(record);
        }
        let stage = paths.node(path).top;
        let index = self.instances.len() as u32;
        let root = self.root_for(record, stage, index);
        let start = record.start.0.min(OPEN - 1);
        let around = self.index.get(record.parent);
        let sampled = around.and_then(|i| self.instances.get(i as usize)).and_then(|i| i.sampled);
        self.instances.push(Instance { start, end: OPEN, path, root, counted, sampled });
        self.faults.contradicting += u64::from(self.index.insert(record.range, index));
    }

    /// Whether the work of an open range is recorded, and of those opened in it from now on.
    pub fn sample(&mut self, range: u64, recorded: bool) {
        self.sampled = true;
        match self.index.get(range).and_then(|i| self.instances.get_mut(i as usize)) {
            Some(instance) => instance.sampled = Some(recorded),
            None => self.faults.undefined += 1,
        }
    }

    fn root_for(&mut self, record: &RangeOpen, stage: PathIndex, index: u32) -> u32 {
        if record.parent != RANGE_OUTSIDE {
            let around = self.index.get(record.parent);
            let root = around.and_then(|i| self.instances.get(i as usize)).map(|i| i.root);
            match root.and_then(|r| Some((r, self.roots.get(r as usize)?.stage))) {
                Some((root, its_stage)) if its_stage == stage => return root,
                Some(_) => self.faults.contradicting += 1,
                None => self.faults.undefined += 1,
            }
        }
        let cold = record.continues == 0 && self.started.insert(stage);
        let (kernels, first_ns, last_ns) = (0, u64::MAX, 0);
        self.roots.push(Root { stage, instance: index, cold, kernels, first_ns, last_ns });
        (self.roots.len() - 1) as u32
    }

    fn go_on(&mut self, record: &RangeOpen) {
        match self.index.get(record.continues) {
            Some(earlier) => {
                self.continued.insert(record.continues, record.range);
                if let Some(instance) = self.instances.get_mut(earlier as usize)
                    && instance.end == OPEN
                {
                    instance.close(record.start);
                }
            }
            None => self.faults.undefined += 1,
        }
    }

    /// A range closed. Closing a continued range closes what it goes on as.
    pub fn close(&mut self, range: u64, end: MonoNs) {
        let mut id = range;
        // Bounded: a hostile file can let continuations run in a circle.
        for _ in 0..64 {
            match self.continued.get(&id) {
                Some(&next) if next != id => id = next,
                _ => break,
            }
        }
        let found = self.index.get(id).and_then(|i| self.instances.get_mut(i as usize));
        match found {
            Some(instance) if instance.end == OPEN => instance.close(end),
            _ => self.faults.contradicting += 1,
        }
    }

    /// Where work of the instance `range` belongs; nothing where it is not defined.
    pub fn place(&self, range: u64) -> Option<Place> {
        let index = self.index.get(range)?;
        let instance = self.instances.get(index as usize)?;
        Some(Place { path: instance.path, root: instance.root })
    }

    /// Counts work for the outermost instance around it; whether that is the first of its stage.
    pub fn count(&mut self, place: Place, kernel: bool, span: Span) -> bool {
        let Some(root) = self.roots.get_mut(place.root as usize) else { return false };
        root.kernels += u64::from(kernel);
        if span.valid() {
            root.first_ns = root.first_ns.min(span.start);
            root.last_ns = root.last_ns.max(span.end);
        }
        root.cold
    }

    /// Times of every path that was opened.
    pub fn path_times(&self) -> HashMap<PathIndex, PathTimes> {
        let mut by_start: Vec<&Instance> = self.instances.iter().collect();
        by_start.sort_by_key(|instance| instance.start);
        let mut times: HashMap<PathIndex, PathTimes> = HashMap::new();
        for instance in by_start {
            let path = times.entry(instance.path).or_default();
            path.instances += u64::from(instance.counted);
            if let Some(recorded) = instance.sampled.filter(|_| instance.counted) {
                path.sampled.add(Sampled { instances: 1, recorded: recorded.into() });
            }
            if instance.end == OPEN {
                path.unclosed += u64::from(instance.counted);
                continue;
            }
            let ns = instance.end - instance.start;
            path.host_total_ns = Some(path.host_total_ns.unwrap_or(0).saturating_add(ns));
            match path.host_first_ns {
                _ if !instance.counted => {}
                None => path.host_first_ns = Some(ns),
                Some(_) => path.host_warm_ns.push(ns),
            }
        }
        times
    }

    /// Windows and kernel counts of every stage: of the recorded instances, where not all are.
    pub fn stage_times(&self, clock: &ClockMap) -> HashMap<PathIndex, StageTimes> {
        let mut windows: HashMap<PathIndex, Option<Vec<(u64, u64)>>> = HashMap::new();
        let mut times: HashMap<PathIndex, StageTimes> = HashMap::new();
        for root in &self.roots {
            let Some(instance) = self.instances.get(root.instance as usize) else { continue };
            let stage = times.entry(root.stage).or_default();
            // Of an instance that was not recorded, or only in parts, nothing can be said.
            if self.sampled && instance.sampled != Some(true) {
                continue;
            }
            if instance.counted {
                stage.kernels_per_instance.push(root.kernels);
            }
            let all = windows.entry(root.stage).or_insert_with(|| Some(Vec::new()));
            match window(instance, root, clock) {
                Some(window) => all.iter_mut().for_each(|all| all.push(window)),
                None => *all = None,
            }
        }
        for (stage, windows) in windows {
            times.entry(stage).or_default().window_ns = windows.map(union_ns);
        }
        // Of a sample the numbers above leave the cold instance out already, if it was not taken.
        if !self.sampled {
            for (stage, warm) in self.warm_times(clock) {
                times.entry(stage).or_default().warm = warm;
            }
        }
        times
    }

    /// Stages without their first instance. Nothing where the first in the file is not the first
    /// in time, where its GPU work overlaps that of others, where an instance was never closed or
    /// goes on as another range, and where the clocks cannot be tied together.
    fn warm_times(&self, clock: &ClockMap) -> HashMap<PathIndex, Option<WarmTimes>> {
        let whole = |root: &Root| {
            let instance = self.instances.get(root.instance as usize)?;
            (instance.counted && instance.end != OPEN).then_some(instance)
        };
        let cold: HashMap<PathIndex, (&Root, u64)> = self
            .roots
            .iter()
            .filter(|root| root.cold)
            .filter_map(|root| Some((root.stage, (root, whole(root)?.start))))
            .collect();
        type Sum = (WarmTimes, Vec<(u64, u64)>);
        let mut all: HashMap<PathIndex, Option<Sum>> = HashMap::new();
        for root in &self.roots {
            let sum = all.entry(root.stage).or_insert_with(|| Some(Default::default()));
            let Some((warm, windows)) = sum else { continue };
            let first = cold.get(&root.stage).copied();
            let apart = |instance: &Instance| {
                let (first, started) = first?;
                let overlaps = first.first_ns < root.last_ns && root.first_ns < first.last_ns;
                let later = root.cold || (started <= instance.start && !overlaps);
                later.then(|| window(instance, root, clock)).flatten()
            };
            match whole(root).and_then(apart) {
                None => *sum = None,
                Some(_) if root.cold => {}
                Some(window) => {
                    warm.instances += 1;
                    warm.kernels = warm.kernels.saturating_add(root.kernels);
                    windows.push(window);
                }
            }
        }
        let finish = |(mut warm, windows): Sum| {
            warm.window_ns = union_ns(windows);
            warm
        };
        all.into_iter().map(|(stage, sum)| (stage, sum.map(finish))).collect()
    }
}

/// The window of one instance on the GPU clock. Work that starts before the range does (the
/// clocks are tied within about a microsecond) widens it, so that idle time cannot get negative.
fn window(instance: &Instance, root: &Root, clock: &ClockMap) -> Option<(u64, u64)> {
    let GpuNs(opened) = clock.gpu(MonoNs(instance.start))?;
    let closed = match instance.end {
        OPEN => opened,
        end => clock.gpu(MonoNs(end))?.0,
    };
    Some((opened.min(root.first_ns), closed.max(root.last_ns)))
}
