//! The records of one trace file, in order -> everything the report needs of that process.
//!
//! One pass, aggregating as it reads: memory grows with the distinct groups, not with the kernels
//! nor with the range instances.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::trace::{
    Anchor, Field, FieldValue, GpuWork, Losses, NONE, Process, RANGE_OUTSIDE, RANGE_UNKNOWN,
    Record, What, ending, window,
};

use super::alike::{Alike, Joined};
use super::clock::ClockMap;
use super::collectives::{CommunicationKernel, Gather};
use super::device_states::DeviceStates;
use super::devices::Devices;
use super::libraries::RangeNames;
use super::names::Names;
use super::outliers::Found;
use super::paths::{OUTSIDE, PathIndex, Paths, UNATTRIBUTED, UNDEFINED};
use super::ranges::{Place, Ranges};
use super::shapes::{Shapes, UNKNOWN};
use super::share::Share;
use super::stats::{GroupKey, Span, Stats, Work};
use super::step_times::{StepTrack, Steps};
use super::steps::{Follow, GRAPH, Launch};
use super::whole::Whole;
use super::work_unions::{self, Part, StageWork, WorkUnions};
use super::{Captured, Counts, Extent, META_OPEN_AT_END, ProcessCapture, StageCapture};
use stage2_model::{FileEnding, FileState, META_RANGES, META_SAMPLE, Undefined};

/// Builds a [`ProcessCapture`] from records.
#[derive(Debug, Default)]
pub struct Tally {
    host_extent: Extent,
    gpu_extent: Extent,
    process: Option<Process>,
    meta: BTreeMap<String, String>,
    anchors: Vec<Anchor>,
    names: Names,
    libraries: RangeNames,
    /// Names that are those of domains of libraries.
    library_names: HashSet<u32>,
    whole: Whole,
    devices: Devices,
    device_states: DeviceStates,
    shapes: Shapes,
    paths: Paths,
    alike: Alike,
    /// Names that stand for others, by their paths, with these.
    joined_names: FxHashMap<PathIndex, FxHashSet<u32>>,
    /// Only names are taken in: there are too many of a kind, and the file is read again.
    scans: bool,
    ranges: Ranges,
    /// Looked up for each piece of work; the keys are those of a file that anybody may have made.
    groups: foldhash::HashMap<GroupKey, u32>,
    stats: Vec<GroupStats>,
    unions: WorkUnions,
    graph_nodes: HashMap<u64, PathIndex>,
    captured: HashMap<(PathIndex, PathIndex), Captured>,
    collectives: Gather,
    counter_samples: u64,
    losses: Losses,
    counts: Counts,
    undefined: Undefined,
    end: Option<String>,
}

#[derive(Debug)]
struct GroupStats {
    key: GroupKey,
    stats: Stats,
    part: Part,
    place: work_unions::Place,
}

impl Tally {
    /// Ranges of the domains in `libraries` are no stages.
    pub fn new(libraries: RangeNames) -> Self {
        Self { libraries, ..Self::default() }
    }

    /// For records that arrive in launch order, with at most `window` ranges opened between a launch
    /// and its record. Several tallies can run side by side; each limits its memory to its share.
    pub fn ordered(window: usize, share: Share, follow: Follow, libraries: RangeNames) -> Self {
        Self {
            ranges: Ranges::within(window, share),
            unions: WorkUnions::within(share),
            collectives: Gather::within(share),
            whole: Whole::ordered(follow),
            libraries,
            ..Self::default()
        }
    }

    pub(crate) fn keep_calls(mut self, limit: usize) -> Self {
        self.collectives.keep(limit);
        self
    }

    /// Joins names of ranges, and looks for further ones of which there are many.
    pub fn join(mut self, joined: Joined) -> Self {
        self.alike = Alike::counting(joined);
        self
    }

    /// Joins names of ranges, and looks for no others.
    pub fn join_only(mut self, joined: Joined) -> Self {
        self.alike = Alike::of(joined);
        self
    }

    /// What names it joins, and of which there are more than stay apart: these have to be joined, too, in
    /// another pass.
    pub fn into_alike(self) -> (Joined, Joined) {
        self.alike.into_parts()
    }

    /// Whether another pass has to join further names; until then it takes in nothing but names.
    pub fn is_in_vain(&self) -> bool {
        self.scans
    }

    /// Forgets all but names: there are too many of a kind.
    fn only_scan(&mut self) {
        let libraries = std::mem::take(&mut self.libraries);
        let library_names = std::mem::take(&mut self.library_names);
        let (names, paths) = (std::mem::take(&mut self.names), std::mem::take(&mut self.paths));
        let alike = std::mem::take(&mut self.alike);
        let rest = Self::default();
        *self = Self { libraries, library_names, names, paths, alike, scans: true, ..rest };
    }

    fn is_of_model(&self, name: Option<u32>, domain: Option<u32>) -> bool {
        let domain = domain.and_then(|domain| self.names.get(domain));
        name.and_then(|name| self.names.get(name))
            .is_some_and(|name| self.libraries.is_of_model(name, domain))
    }

    /// Groups of GPU work so far: memory grows with them.
    pub fn groups(&self) -> usize {
        self.stats.len()
    }

    /// Takes the next record.
    pub fn push(&mut self, record: Record) {
        match record {
            Record::Name { .. } | Record::Path(_) => self.describe(record),
            _ if self.scans => {}
            Record::Work(work) => self.work(&work),
            Record::RangeOpen(open) => {
                self.host_extent.add(open.start.0);
                let path = self.paths.find(open.path);
                let index = path.unwrap_or(UNDEFINED);
                if !self.is_of_library(index) {
                    self.whole.stop();
                }
                if self.ranges.is_full() {
                    self.ranges.settle(&ClockMap::new(&self.anchors));
                }
                self.ranges.open(&open, index, path.is_some(), &self.paths);
                self.collectives.open(&open, index, self.paths.node(index));
                self.counts.ranges += u64::from(open.continues == 0);
            }
            Record::RangeClose { range, end } => {
                self.host_extent.add(end.0);
                self.collectives.close(range);
                self.ranges.close(range, end);
            }
            Record::RangeFields { range, fields } => self.fields(range, &fields),
            Record::RangeSample { range, recorded } => {
                self.collectives.gate();
                self.ranges.sample(range, recorded);
            }
            Record::Mark(mark) => {
                self.host_extent.add(mark.at.0);
                self.counts.marks += 1;
            }
            other => self.describe(other),
        }
    }

    fn describe(&mut self, record: Record) {
        match record {
            Record::Process(process) => self.process = Some(process),
            Record::Meta { key, value } => {
                if [META_SAMPLE, META_RANGES].contains(&key.as_str()) {
                    self.ranges.gate();
                    self.collectives.gate();
                    self.whole.stop();
                }
                self.meta.insert(key, value);
            }
            Record::Anchor(anchor) => self.anchors.push(anchor),
            Record::Name { id, bytes } if self.scans => {
                let of_library = self.libraries.contains(&bytes);
                let index = self.names.define(id, bytes);
                if of_library {
                    self.library_names.insert(index);
                }
            }
            Record::Name { id, bytes } => {
                let of_library = self.libraries.contains(&bytes);
                let index = self.names.define(id, bytes.clone());
                self.collectives.name(index, &bytes);
                if of_library {
                    self.library_names.insert(index);
                }
            }
            Record::Device(device) => self.devices.describe(device),
            Record::DeviceState(state) => self.device_states.add(state),
            Record::Queue(queue) => {
                self.devices.queue(&queue);
                self.whole.queue(&queue);
            }
            Record::Shape(shape) => {
                let name = self.name(shape.name);
                let index = self.shapes.define(shape, name);
                self.collectives.shape(index, name);
            }
            Record::Path(path) => {
                let name = self.name(path.name);
                let domain = (path.domain != NONE).then(|| self.name(path.domain)).flatten();
                let library = domain.is_some_and(|name| self.library_names.contains(&name));
                let own = name.filter(|_| !library);
                let stand_in = own.and_then(|own| {
                    self.alike.stand_in(&mut self.names, &self.paths, &path, own, domain)
                });
                if !self.scans && self.alike.has_many() {
                    self.only_scan();
                }
                let parent_known = self.paths.define(&path, stand_in.or(name), domain, library);
                if let (Some(own), Some(_), Some(index)) = (own, stand_in, self.paths.find(path.id))
                {
                    self.joined_names.entry(index).or_default().insert(own);
                }
                if let Some(index) = self.paths.find(path.id) {
                    self.collectives.path(index, name, domain);
                }
                let outermost = |index: &PathIndex| self.paths.node(*index).parent.is_none();
                if let Some(stage) = self.paths.find(path.id).filter(outermost)
                    && self.is_of_model(name, domain)
                {
                    self.ranges.join(stage);
                }
                self.undefined.paths += u64::from(!parent_known);
            }
            Record::GraphNode { node, path, range } => {
                self.collectives.captured(node, range);
                // Path 0: captured while no range was open.
                let index = if path == NONE { Some(OUTSIDE) } else { self.paths.find(path) };
                self.undefined.paths += u64::from(index.is_none());
                self.graph_nodes.insert(node, index.unwrap_or(UNDEFINED));
            }
            Record::CounterSamples(_) => self.counter_samples += 1,
            Record::Losses(losses) => self.losses = losses,
            Record::End { reason } => self.end = Some(reason),
            // `Thread`: nothing in the report is per thread yet. The rest is handled in `push`.
            _ => {}
        }
    }

    fn fields(&mut self, range: u64, fields: &[Field]) {
        let number = |value| match value {
            FieldValue::U64(value) => Some(value),
            FieldValue::I64(value) => u64::try_from(value).ok(),
            FieldValue::F64(_) | FieldValue::Name(_) => None,
        };
        let names = &self.names;
        let numbers = fields.iter().filter_map(|f| Some((names.find(f.name)?, number(f.value)?)));
        self.collectives.fields(range, numbers);
    }

    /// Whether the range of this path was opened by a library, and not by the user.
    fn is_of_library(&self, path: PathIndex) -> bool {
        self.paths.node(path).domain.is_some_and(|domain| self.library_names.contains(&domain))
    }

    fn name(&mut self, id: u32) -> Option<u32> {
        let index = self.names.find(id);
        self.undefined.names += u64::from(index.is_none());
        index
    }

    fn work(&mut self, done: &GpuWork) {
        let span = Span { start: done.start.0, end: done.end.0 };
        if span.valid() {
            self.gpu_extent.add(span.start);
            self.gpu_extent.add(span.end);
        }
        let (work, bytes) = match done.what {
            What::Kernel { shape } => {
                let known = self.shapes.find(shape);
                self.undefined.shapes += u64::from(known.is_none());
                (Work::Kernel(known.unwrap_or(UNKNOWN)), 0)
            }
            What::Copy { bytes, kind } => (Work::Copy(kind), bytes),
            What::Fill { bytes } => (Work::Fill, bytes),
            What::Graph { graph } => (Work::Graph(graph), 0),
        };
        let &GpuWork { queue, range, correlation, graph_node: node, .. } = done;
        let (path, place) = self.place(range);
        let device = self.devices.of_queue(queue);
        self.counts.add(work, path, self.paths.node(path).top, span.valid());
        let is_kernel = done.is_kernel();
        if self.whole.is_on() {
            self.whole.work(span);
            let what = match work {
                Work::Kernel(shape) => Some(self.shapes.name(shape)),
                Work::Graph(graph) => Some(GRAPH | graph),
                Work::Copy(_) | Work::Fill => None,
            };
            if let Some(what) = what {
                self.whole.launch(Launch { what, queue, correlation, node, span });
            }
        }
        let cold = place.is_some_and(|place| self.ranges.count(place, is_kernel, span));
        if let Work::Kernel(shape) = work
            && let Some(operation) = self.collectives.operation(shape)
        {
            let instance = place.and_then(|place| self.ranges.instance(place));
            let (stage, instance) = instance.unwrap_or((self.paths.node(path).top, 0));
            self.collectives.kernel(CommunicationKernel {
                operation,
                span,
                range,
                node,
                correlation,
                device,
                path,
                user: self.paths.node(path).user.unwrap_or(path),
                stage,
                instance,
            });
        } else {
            self.collectives.work(device, span);
        }
        let index = self.group(GroupKey { path, work, device });
        let Some(group) = self.stats.get_mut(index) else { return };
        group.stats.add(span, bytes, node != 0);
        if span.valid() {
            self.unions.add(group.place, group.part, span, cold);
        }
        if node != 0
            && is_kernel
            && let Some(&captured_in) = self.graph_nodes.get(&node)
        {
            let captured = self.captured.entry((path, captured_in)).or_default();
            captured.kernels += 1;
            captured.total_ns =
                captured.total_ns.saturating_add(if span.valid() { span.ns() } else { 0 });
        }
    }

    fn place(&mut self, range: u64) -> (PathIndex, Option<Place>) {
        match range {
            RANGE_OUTSIDE => (OUTSIDE, None),
            RANGE_UNKNOWN => (UNATTRIBUTED, None),
            id => match self.ranges.place(id) {
                Some(place) => (place.path, Some(place)),
                None => {
                    self.undefined.ranges += 1;
                    (UNATTRIBUTED, None)
                }
            },
        }
    }

    fn group(&mut self, key: GroupKey) -> usize {
        if let Some(&index) = self.groups.get(&key) {
            return index as usize;
        }
        let place = self.unions.place(self.paths.node(key.path).top, key.device);
        let part = match key.work {
            Work::Kernel(shape) if self.collectives.operation(shape).is_some() => {
                Part::Communication
            }
            Work::Kernel(_) | Work::Graph(_) => Part::Compute,
            Work::Copy(_) | Work::Fill => Part::Copies,
        };
        self.stats.push(GroupStats { key, stats: Stats::default(), part, place });
        self.groups.insert(key, (self.stats.len() - 1) as u32);
        self.stats.len() - 1
    }

    /// Everything that was read, reduced.
    pub fn finish(mut self) -> ProcessCapture {
        self.undefined.queues = self.devices.undefined_queues;
        // Nothing came behind it that takes it back: the process has ended so.
        let announced = self.meta.remove(ending::ANNOUNCED).filter(|how| !how.is_empty());
        self.end = self.end.or(announced);
        let ends_in_order = self.end.as_ref().is_some_and(|end| !ending::is_abrupt(end));
        let clock = ClockMap::new(&self.anchors);
        let wall_ahead_ns = wall_ahead_ns(&self.anchors);
        let ending = if self.end.is_some() { FileEnding::Complete } else { FileEnding::Open };
        let (device_busy, worked) = self.unions.finish();
        let mut stages: BTreeMap<PathIndex, StageCapture> = BTreeMap::new();
        let (faults, gated) = (self.ranges.faults, self.ranges.is_gated());
        let ranges = self.ranges.finish(&clock);
        let path_times = ranges.paths;
        let steps = longest_steps(&self.paths, &ranges.steps);
        for (stage, mut times) in ranges.stages {
            let entry = stages.entry(stage).or_default();
            // Of many processes, all of these would be too much to keep.
            let alone = std::mem::take(&mut times.alone);
            entry.outliers =
                Some(Found::of(&alone, steps.get(&stage).map(|steps| &**steps), &clock));
            entry.times = Some(times);
        }
        for (stage, StageWork { busy, cold_busy, by_device }) in worked {
            let entry = stages.entry(stage).or_default();
            *entry = StageCapture {
                times: entry.times.take(),
                busy,
                cold_busy,
                by_device,
                recorded: true,
                outliers: entry.outliers.take(),
            };
        }
        for (path, times) in &path_times {
            let stage = stages.get_mut(&self.paths.node(*path).top);
            if let Some(stage) = stage.filter(|_| times.recorded != Some(0)) {
                stage.recorded = true;
            }
        }
        let mut groups: Vec<(GroupKey, Stats)> =
            self.stats.into_iter().map(|group| (group.key, group.stats)).collect();
        groups.sort_by_key(|(key, _)| *key);
        let of_user = |path: &PathIndex| self.paths.node(*path).user == Some(*path);
        let open_at_end = path_times.iter().filter(|(path, _)| of_user(path));
        let open_at_end = open_at_end.map(|(_, times)| times.unclosed).fold(0, u64::saturating_add);
        let told = self.meta.get(META_OPEN_AT_END).and_then(|count| count.parse().ok());
        let open_at_end = open_at_end.max(told.unwrap_or(0));
        // Behind a window the process goes on, and closes them.
        let goes_on = self.meta.get(window::ENDED).is_some_and(|why| why != window::EXIT);
        let sampled = |path| path_times.get(&path).map(|times| times.sampled).unwrap_or_default();
        for (key, stats) in &mut groups {
            stats.scale(sampled(key.path));
        }
        for (&(path, _), captured) in &mut self.captured {
            let sampled = sampled(path);
            captured.kernels = sampled.scale(captured.kernels);
            captured.total_ns = sampled.scale(captured.total_ns);
        }
        let collectives = self.collectives.finish(sampled);
        ProcessCapture {
            file: String::new(),
            path: PathBuf::new(),
            host_extent: self.host_extent,
            gpu_extent: self.gpu_extent,
            state: FileState { ending, ..FileState::default() },
            process: self.process,
            meta: self.meta,
            names: self.names.into_list(),
            shapes: self.shapes.into_list(),
            path_times: path_times.into_iter().collect(),
            joined: self.alike.into_parts().0,
            joined_names: self.joined_names,
            paths: self.paths.nodes().to_vec(),
            devices: self.devices.into_list(),
            device_states: self.device_states,
            device_busy,
            stages,
            model_windows: ranges.model_windows,
            steps: ranges.steps,
            groups,
            captured: self.captured.into_iter().collect(),
            counter_samples: self.counter_samples,
            losses: self.losses,
            counts: self.counts,
            undefined: self.undefined,
            faults,
            open_at_end: if ends_in_order && !goes_on { open_at_end } else { 0 },
            anchors: self.anchors.len() as u64,
            first_anchor: self.anchors.first().copied(),
            anchors_ignored: clock.ignored(),
            clock_steps: clock.steps(),
            end: self.end,
            whole: self.whole.finish(&self.counts),
            gated,
            collectives,
            clock,
            wall_ahead_ns,
        }
    }
}

/// Of each stage, what takes most of its time among the ranges right within it that repeat: those of its warm
/// instances, or all of its only one.
fn longest_steps<'s>(
    paths: &Paths,
    steps: &'s BTreeMap<PathIndex, StepTrack>,
) -> HashMap<PathIndex, Cow<'s, Steps>> {
    let mut longest: HashMap<PathIndex, &Steps> = HashMap::new();
    for (&path, track) in steps {
        let Some(stage) = paths.node(path).parent else { continue };
        let own = if is_only(steps, stage) { &track.cold } else { &track.warm };
        if own.per_instance.median().is_some_and(|median| median > 1) {
            let known = longest.entry(stage).or_insert(own);
            if own.total_ns > known.total_ns {
                *known = own;
            }
        }
    }
    let looked_at = |(stage, own): (PathIndex, &'s Steps)| {
        let all = is_only(steps, stage).then(|| Cow::Owned(own.with_first()));
        (stage, all.unwrap_or(Cow::Borrowed(own)))
    };
    longest.into_iter().map(looked_at).collect()
}

/// Whether a stage has one instance.
fn is_only(steps: &BTreeMap<PathIndex, StepTrack>, stage: PathIndex) -> bool {
    steps.get(&stage).is_some_and(|own| own.count() == 1)
}

/// Wall time less monotonic time at the middle one of the readings.
fn wall_ahead_ns(anchors: &[Anchor]) -> Option<i64> {
    let ahead = |a: &Anchor| i64::try_from(i128::from(a.wall.0) - i128::from(a.mono.0)).ok();
    let mut all: Vec<i64> = anchors.iter().filter_map(ahead).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}
