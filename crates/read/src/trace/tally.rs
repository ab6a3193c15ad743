//! The records of one trace file, in order -> everything the report needs of that process.
//!
//! One pass, aggregating as it reads: memory grows with the distinct groups, not with the kernels.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use stage2_contract::order::IntoOrdered as _;
use stage2_contract::stats::STEPS_COVER_PERCENT;
use stage2_contract::trace::{
    Anchor, Field, FieldValue, GpuWork, NONE, Queue, RANGE_OUTSIDE, RANGE_UNKNOWN, Record, What,
    ending, window,
};
use stage2_model::{FileEnding, FileState, META_RANGES, META_SAMPLE};

use super::alike::Alike;
use super::clock::ClockMap;
use super::collectives::{CommunicationKernel, Gather};
use super::definitions::{DefinedPath, Definitions, Devices, Shapes, UNKNOWN};
use super::engine_steps::{EngineSteps, StepFollower};
use super::host::HostCapture;
use super::libraries::RangeNames;
use super::outliers::Found;
use super::paths::{OUTSIDE, PathIndex, PathNode, Paths, UNATTRIBUTED, UNDEFINED};
use super::ranges::{Place, Ranges};
use super::requests::RequestRecords;
use super::stats::{GroupKey, Sampled, ScaledCalls, ScaledSum, Share, Span, Stats, Work};
use super::step_times::{StepTrack, Steps};
use super::steps::{Follow, GRAPH, Launch, Repeats, Sequences};
use super::work_unions::{self, Part, WorkUnions};
use super::{Captured, Counts, META_OPEN_AT_END, ModuleWork, ProcessCapture, StageCapture};

/// Maximum number of pairs of a group of kernels and a module. Kernels of further ones belong to no module.
const MOST_IN_MODULES: usize = 1 << 16;

/// Builds a [`ProcessCapture`] from records.
#[derive(Debug, Default)]
pub struct Tally {
    /// What is taken over as it is.
    capture: ProcessCapture,
    anchors: Vec<Anchor>,
    pub(super) definitions: Definitions,
    whole: Whole,
    devices: Devices,
    shapes: Shapes,
    /// Only names are taken in: there are too many of a kind, and the file is read again.
    pub(super) scans: bool,
    ranges: Ranges,
    /// Looked up for each piece of work; the keys are those of a file that anybody may have made.
    groups: foldhash::HashMap<GroupKey, u32>,
    stats: Vec<GroupStats>,
    unions: WorkUnions,
    /// Where nodes were captured: the path, and the name of the module.
    graph_nodes: HashMap<u64, (PathIndex, Option<u32>)>,
    captured: HashMap<(PathIndex, PathIndex), Captured>,
    /// Kernels by the index of their group and the name of the module that they were captured in.
    modules: HashMap<(usize, u32), [Captured; 2]>,
    pub(super) collectives: Gather,
    engine: StepFollower,
    requests: RequestRecords,
    /// Threads, and their samples where there are any.
    host: HostCapture,
}

/// A value that counts something.
pub(super) fn count(value: FieldValue) -> Option<u64> {
    match value {
        FieldValue::U64(value) => Some(value),
        FieldValue::I64(value) => u64::try_from(value).ok(),
        FieldValue::F64(_) | FieldValue::Name(_) => None,
    }
}

#[derive(Debug)]
struct GroupStats {
    key: GroupKey,
    stats: Stats,
    part: Part,
    place: work_unions::Place,
}

impl Tally {
    /// Ranges of the domains in `libraries` are not stages.
    pub fn new(libraries: RangeNames) -> Self {
        let definitions = Definitions::new(libraries, Alike::default());
        Self { definitions, ..Self::default() }
    }

    /// For records that arrive in launch order, with at most `window` ranges opened between a launch
    /// and its record. Several tallies can run side by side; each limits its memory to its share.
    pub fn ordered(window: usize, share: Share, follow: Follow, libraries: RangeNames) -> Self {
        Self {
            ranges: Ranges::within(window, share),
            unions: WorkUnions::within(share),
            collectives: Gather::within(share),
            engine: StepFollower::within(share),
            requests: RequestRecords::within(share),
            whole: Whole::ordered(follow),
            ..Self::new(libraries)
        }
    }

    /// Forgets all but names: there are too many of a kind.
    fn only_scan(&mut self) {
        let definitions = std::mem::take(&mut self.definitions);
        *self = Self { definitions, scans: true, ..Self::default() };
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
            Record::RangeOpen(open) if self.definitions.is_left_out(open.path) => {
                if self.definitions.is_of_requests(open.path) {
                    self.requests.open(open.range);
                }
                self.ranges.leave_out(&open);
            }
            Record::RangeOpen(open) => {
                self.capture.host_extent.add(open.start.0);
                let paths = &self.definitions.paths;
                let path = paths.find(open.path);
                let index = path.unwrap_or(UNDEFINED);
                if !self.definitions.is_of_library(index) {
                    self.whole.stop();
                }
                if self.ranges.roots.is_full() {
                    self.ranges.settle(&ClockMap::new(&self.anchors));
                    let windows = self.ranges.roots.host_windows.as_mut().map(std::mem::take);
                    self.host.windows(windows.unwrap_or_default());
                }
                self.ranges.open(&open, index, path.is_some(), paths);
                if self.definitions.is_of_requests(open.path) {
                    self.requests.open(open.range);
                }
                if open.continues == 0 && self.definitions.tells_steps(open.path) {
                    let work = self.definitions.work(open.path);
                    self.engine.open(open.range, open.thread, open.start.0, work);
                }
                self.collectives.open(&open, index, paths.node(index));
                self.capture.counts.ranges += u64::from(open.continues == 0);
            }
            Record::RangeClose { range, end } => {
                self.capture.host_extent.add(end.0);
                self.collectives.close(range);
                self.ranges.close(range, end);
                if let Some((step, until)) = self.engine.close(range, end.0) {
                    self.ranges.lasts_until(step, until);
                }
                self.requests.close(range);
            }
            Record::RangeFields { range, fields } => self.fields(range, &fields),
            Record::RangeSample { range, recorded } => {
                self.collectives.gate();
                self.ranges.sample(range, recorded);
            }
            Record::Mark(mark) => {
                self.capture.host_extent.add(mark.at.0);
                self.capture.counts.marks += 1;
            }
            other => self.describe(other),
        }
    }

    fn describe(&mut self, record: Record) {
        match record {
            Record::Process(process) => self.capture.process = Some(process),
            Record::Meta { key, value } => {
                if [META_SAMPLE, META_RANGES].contains(&key.as_str()) {
                    self.ranges.roots.gated = true;
                    self.collectives.gate();
                    self.whole.stop();
                }
                self.capture.meta.insert(key, value);
            }
            Record::Anchor(anchor) => self.anchors.push(anchor),
            Record::Name { id, bytes } => {
                let index = self.definitions.name(id, bytes);
                if let Some(bytes) = self.definitions.names.get(index).filter(|_| !self.scans) {
                    self.collectives.name(index, bytes);
                }
            }
            Record::Device(device) => self.devices.describe(device),
            Record::DeviceState(state) => self.capture.device_states.add(state),
            Record::Queue(queue) => {
                self.devices.queue(&queue);
                self.whole.queue(&queue);
            }
            Record::Shape(shape) => {
                let name = self.definitions.names.find(shape.name);
                self.capture.undefined.names += u64::from(name.is_none());
                let index = self.shapes.define(shape, name);
                self.collectives.shape(index, name);
            }
            Record::Path(path) => {
                let DefinedPath { index, name, domain, stand_in, in_known } =
                    self.definitions.path(&path);
                if !self.scans && self.definitions.alike.has_many() {
                    self.only_scan();
                }
                if let Some((own, _)) = name.zip(stand_in) {
                    self.capture.joined_names.entry(index).or_default().insert(own);
                }
                self.collectives.path(index, name, domain);
                let is_outermost = self.definitions.paths.node(index).parent.is_none();
                if is_outermost && self.definitions.is_of_model(stand_in.or(name), domain) {
                    self.ranges.roots.join(index);
                }
                let lacks_domain = path.domain != NONE && domain.is_none();
                self.capture.undefined.names += u64::from(name.is_none()) + u64::from(lacks_domain);
                self.capture.undefined.paths += u64::from(!in_known);
            }
            Record::GraphNode { node, path, range } => {
                self.collectives.captured(node, range);
                // Path 0: captured while no range was open.
                let index =
                    if path == NONE { Some(OUTSIDE) } else { self.definitions.paths.find(path) };
                self.capture.undefined.paths += u64::from(index.is_none());
                let module = self.definitions.module(path);
                self.graph_nodes.insert(node, (index.unwrap_or(UNDEFINED), module));
            }
            Record::CounterSamples(_) => self.capture.counter_samples += 1,
            Record::Losses(losses) => self.capture.losses = losses,
            Record::End { reason } => self.capture.end = Some(reason),
            Record::Thread { id, os_tid, name } => self.host.thread(id, os_tid, name),
            Record::HostFrame(frame) => {
                self.host.frame(&frame, |name| self.definitions.names.find(name));
            }
            Record::HostStack(stack) => self.host.stack(&stack),
            Record::HostSamples(samples) => {
                self.ranges.roots.host_windows.get_or_insert_default();
                self.host.samples(&samples);
            }
            Record::HostCalls(calls) => {
                self.ranges.roots.host_windows.get_or_insert_default();
                self.host.calls(&calls, |name| self.definitions.names.find(name));
            }
            Record::HostSampling(sampling) => self.host.sampling(sampling),
            Record::HostThread(times) => self.host.times(&times),
            // The rest is handled in `push`.
            _ => {}
        }
    }

    fn fields(&mut self, range: u64, fields: &[Field]) {
        let names = &self.definitions.names;
        let numbers = fields.iter().filter_map(|f| Some((names.find(f.name)?, count(f.value)?)));
        let named = numbers.clone().filter_map(|(name, value)| Some((names.get(name)?, value)));
        if self.requests.fields(range, named.clone()) {
            return;
        }
        self.engine.fields(range, named);
        self.collectives.fields(range, numbers);
    }

    fn work(&mut self, done: &GpuWork) {
        let span = Span { start: done.start.0, end: done.end.0 };
        if span.valid() {
            self.capture.gpu_extent.add(span.start);
            self.capture.gpu_extent.add(span.end);
        }
        let (work, bytes) = match done.what {
            What::Kernel { shape } => {
                let known = self.shapes.find(shape);
                self.capture.undefined.shapes += u64::from(known.is_none());
                (Work::Kernel(known.unwrap_or(UNKNOWN)), 0)
            }
            What::Copy { bytes, kind } => (Work::Copy(kind), bytes),
            What::Fill { bytes } => (Work::Fill, bytes),
            What::Graph { graph } => (Work::Graph(graph), 0),
        };
        let &GpuWork { queue, range, correlation, graph_node: node, .. } = done;
        let (path, place) = self.place(range);
        let device = self.devices.of_queue(queue);
        let PathNode { top, user, .. } = self.definitions.paths.node(path);
        self.capture.counts.add(work, path, top, span.valid());
        let is_kernel = done.is_kernel();
        if !self.whole.off {
            self.whole.work(span);
            let what = match work {
                Work::Kernel(shape) => Some(self.shapes.name(shape)),
                Work::Graph(graph) => Some(GRAPH | graph),
                Work::Copy(_) | Work::Fill => None,
            };
            if let Some(what) = what {
                self.whole.sequences.push(Launch { what, queue, correlation, node, span });
            }
        }
        let cold = place.is_some_and(|place| self.ranges.count(place, is_kernel, span));
        if let Work::Kernel(shape) = work
            && let Some(operation) = self.collectives.operation(shape)
        {
            let instance = place.and_then(|place| self.ranges.instance(place));
            let (stage, instance) = instance.unwrap_or((top, 0));
            self.collectives.kernel(CommunicationKernel {
                operation,
                span,
                range,
                node,
                correlation,
                device,
                path,
                user: user.unwrap_or(path),
                stage,
                instance,
            });
        } else {
            self.collectives.work(device, span);
        }
        let index = self.group(GroupKey { path, work, device });
        let Some(group) = self.stats.get_mut(index) else { return };
        group.stats.add(span, bytes, node != 0);
        if cold {
            group.stats.add_cold(span);
        }
        if span.valid() {
            self.unions.add(group.place, group.part, span, cold);
        }
        if node != 0 && is_kernel {
            let known = self.graph_nodes.get(&node).copied();
            let (captured_in, module) = known.unwrap_or((UNATTRIBUTED, None));
            let ns = if span.valid() { span.ns() } else { 0 };
            self.captured.entry((path, captured_in)).or_default().add(ns);
            if let Some(module) = module
                && (self.modules.len() < MOST_IN_MODULES
                    || self.modules.contains_key(&(index, module)))
            {
                let [all, of_cold] = self.modules.entry((index, module)).or_default();
                all.add(ns);
                if cold {
                    of_cold.add(ns);
                }
            }
        }
    }

    fn place(&mut self, range: u64) -> (PathIndex, Option<Place>) {
        match range {
            RANGE_OUTSIDE => (OUTSIDE, None),
            RANGE_UNKNOWN => (UNATTRIBUTED, None),
            id => match self.ranges.place(id) {
                Some(place) => (place.path, Some(place)),
                None => {
                    self.capture.undefined.ranges += 1;
                    (UNATTRIBUTED, None)
                }
            },
        }
    }

    fn group(&mut self, key: GroupKey) -> usize {
        if let Some(&index) = self.groups.get(&key) {
            return index as usize;
        }
        let place = self.unions.place(self.definitions.paths.node(key.path).top, key.device);
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
        self.capture.undefined.queues = self.devices.undefined_queues;
        // Nothing came behind it that takes it back: the process has ended so.
        let announced = self.capture.meta.remove(ending::ANNOUNCED).filter(|how| !how.is_empty());
        self.capture.end = self.capture.end.or(announced);
        let ends_in_order = self.capture.end.as_ref().is_some_and(|end| !ending::is_abrupt(end));
        let clock = ClockMap::new(&self.anchors);
        let ending =
            if self.capture.end.is_some() { FileEnding::Complete } else { FileEnding::Open };
        let (device_busy, worked) = self.unions.finish();
        let mut stages: BTreeMap<PathIndex, StageCapture> = BTreeMap::new();
        let (faults, gated) = (self.ranges.faults, self.ranges.roots.gated);
        let ranges = self.ranges.finish(&clock);
        self.host.windows(ranges.host_windows);
        let host = Some(self.host).filter(HostCapture::is_there);
        let path_times = ranges.paths;
        let Definitions { names, paths, alike, engines, unsound_steps, .. } = self.definitions;
        let steps = longest_steps(&paths, &ranges.steps);
        for (stage, mut times) in ranges.stages {
            let entry = stages.entry(stage).or_default();
            let alone = std::mem::take(&mut times.alone);
            entry.outliers =
                Some(Found::of(&alone, steps.get(&stage).map(|steps| &**steps), &clock));
            entry.alone = alone.series;
            entry.times = Some(times);
        }
        for (stage, work) in worked {
            let entry = stages.entry(stage).or_default();
            (entry.busy, entry.cold_busy, entry.by_device) =
                (work.busy, work.cold_busy, work.by_device);
            entry.recorded = true;
        }
        for (path, _) in path_times.iter().filter(|(_, times)| times.recorded != Some(0)) {
            stages.entry(paths.node(*path).top).and_modify(|stage| stage.recorded = true);
        }
        let keys: Vec<GroupKey> = self.stats.iter().map(|group| group.key).collect();
        let mut groups: Vec<(GroupKey, Stats)> =
            self.stats.into_iter().map(|group| (group.key, group.stats)).collect();
        groups.sort_by_key(|(key, _)| *key);
        let of_user = |path: &PathIndex| paths.node(*path).user == Some(*path);
        let open_at_end = path_times.iter().filter(|(path, _)| of_user(path));
        let open_at_end = open_at_end.map(|(_, times)| times.unclosed).fold(0, u64::saturating_add);
        let told = self.capture.meta.get(META_OPEN_AT_END).and_then(|count| count.parse().ok());
        let open_at_end = open_at_end.max(told.unwrap_or(0));
        // Behind a window the process goes on, and closes them.
        let goes_on = self.capture.meta.get(window::ENDED).is_some_and(|why| why != window::EXIT);
        let sampled = |path| path_times.get(&path).map(|times| times.sampled).unwrap_or_default();
        // The calls of a stage are the scaled sum of the recorded ones, and not one of rounded numbers.
        let top = |path| paths.node(path).top;
        let mut scaled: HashMap<(PathIndex, bool, Sampled), ScaledCalls> = HashMap::new();
        for (key, stats) in &mut groups {
            let (sampled, is_kernel) = (sampled(key.path), matches!(key.work, Work::Kernel(_)));
            let so_far = scaled.entry((top(key.path), is_kernel, sampled)).or_default();
            stats.scale(sampled, so_far);
        }
        let mut captured: BTreeMap<_, _> = self.captured.into_iter().into_map();
        let mut scaled: HashMap<(PathIndex, Sampled), ScaledSum> = HashMap::new();
        for (&(path, _), captured) in &mut captured {
            let sampled = sampled(path);
            let so_far = scaled.entry((top(path), sampled)).or_default();
            if sampled.is_part() {
                captured.kernels = so_far.scale(captured.kernels, sampled);
                captured.total_ns = sampled.scale(captured.total_ns);
            }
        }
        let mut modules: Vec<ModuleWork> = Vec::with_capacity(self.modules.len());
        for ((group, module), [mut captured, cold]) in self.modules {
            let Some(&key) = keys.get(group) else { continue };
            let sampled = sampled(key.path);
            captured.kernels = sampled.scale(captured.kernels);
            captured.total_ns = sampled.scale(captured.total_ns);
            modules.push(ModuleWork { key, module, captured, cold });
        }
        modules.sort_by_key(|work| (work.key, work.module));
        let collectives = self.collectives.finish(sampled);
        ProcessCapture {
            state: FileState { ending, ..FileState::default() },
            names: names.into_list(),
            shapes: self.shapes.into_list(),
            path_times: path_times.into_iter().collect(),
            joined: alike.into_parts().0,
            paths: paths.nodes().to_vec(),
            devices: self.devices.into_list(),
            device_busy,
            stages,
            model_windows: ranges.model_windows,
            steps: ranges.steps,
            requests: self.requests.finish(),
            engine: EngineSteps { engines, unsound_names: unsound_steps, ..self.engine.finish() },
            groups,
            host: host.map(Box::new),
            captured,
            modules,
            faults,
            open_at_end: if ends_in_order && !goes_on { open_at_end } else { 0 },
            anchors: self.anchors.len() as u64,
            first_anchor: self.anchors.first().copied(),
            anchors_ignored: clock.ignored(),
            clock_steps: clock.steps(),
            whole: self.whole.finish(&self.capture.counts),
            gated,
            collectives,
            clock,
            wall_ahead_ns: wall_ahead_ns(&self.anchors),
            ..self.capture
        }
    }
}

/// Of each stage, the ranges right within it that repeat and make it up: warm ones, if any are. An operator that
/// repeats in each step is none.
fn longest_steps<'s>(
    paths: &Paths,
    steps: &'s BTreeMap<PathIndex, StepTrack>,
) -> HashMap<PathIndex, Cow<'s, Steps>> {
    let mut longest: HashMap<PathIndex, &Steps> = HashMap::new();
    for (&path, track) in steps {
        let Some(stage) = paths.node(path).parent else { continue };
        let of =
            |track: &'s StepTrack| if is_only(steps, stage) { &track.cold } else { &track.warm };
        let own = of(track);
        let covers = steps.get(&stage).is_some_and(|all| {
            u128::from(own.total_ns) * 100
                >= u128::from(of(all).total_ns) * u128::from(STEPS_COVER_PERCENT)
        });
        if covers && own.per_instance.median().is_some_and(|median| median > 1) {
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

/// Queues whose streams are remembered.
const NAMED_QUEUES: usize = 1 << 10;

/// A process without ranges, as a whole.
#[derive(Clone, Debug)]
pub struct WholeProcess {
    /// The stand-in that its work has in the place of a range.
    pub path: PathIndex,
    /// From its first GPU record to the end of its last, ns; nothing where none is timed, and where
    /// some of its work is placed elsewhere.
    pub window_ns: Option<u64>,
    /// The steps that repeat; none where no period is certain.
    pub repeats: Vec<Repeats>,
    /// Devices and streams of the queues that `repeats` names.
    pub streams: HashMap<u32, (u32, u32)>,
    /// The search for steps skipped this process: the export has too many.
    pub steps_left_out: bool,
}

#[derive(Debug, Default)]
pub(super) struct Whole {
    sequences: Sequences,
    streams: HashMap<u32, (u32, u32)>,
    span: Option<Span>,
    off: bool,
}

impl Whole {
    /// For a process whose records arrive in launch order.
    pub(super) fn ordered(follow: Follow) -> Self {
        Self { sequences: Sequences::ordered(follow), ..Self::default() }
    }

    /// The process has stages, or was not recorded as a whole.
    fn stop(&mut self) {
        if !self.off {
            *self = Self { off: true, ..Self::default() };
        }
    }

    pub(super) fn queue(&mut self, queue: &Queue) {
        if !self.off && self.streams.len() < NAMED_QUEUES {
            self.streams.insert(queue.id, (queue.device, queue.stream));
        }
    }

    pub(super) fn work(&mut self, span: Span) {
        if span.valid() {
            let all = self.span.get_or_insert(span);
            all.start = all.start.min(span.start);
            all.end = all.end.max(span.end);
        }
    }

    pub(super) fn finish(self, counts: &Counts) -> Option<WholeProcess> {
        let Self { sequences, streams, span, off } = self;
        if off || counts.gpu_records() == 0 {
            return None;
        }
        // Without any range, work of a launch that nobody saw lies in the process as well. Work in
        // both places has two busy times, which may overlap.
        let (path, elsewhere) = match counts.outside_ranges {
            0 => (UNATTRIBUTED, counts.attributed),
            _ => (OUTSIDE, counts.unattributed + counts.attributed),
        };
        let window_ns = span.filter(|_| elsewhere == 0).map(Span::ns);
        let steps_left_out = sequences.follow == Follow::Nothing;
        let repeats = sequences.finish();
        Some(WholeProcess { path, window_ns, repeats, streams, steps_left_out })
    }
}
