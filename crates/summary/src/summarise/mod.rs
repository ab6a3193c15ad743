//! The records of one trace, in the order of its file -> a [`Period`] for each minute.
//!
//! Memory is bounded whatever the records say. Each number is final [`SETTLE_NS`] after its event; what comes later
//! than that counts in the oldest minute that is not written yet.

mod collectives;

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;
use stage2_contract::stats::BACK_TO_BACK_NS;
use stage2_contract::text::kernel_class::{KernelClass, class_of};
use stage2_contract::text::operation::{NcclField, Operation, field_of, of_kernel};
use stage2_contract::text::{
    is_library_domain, is_record, kernel_name, pattern_of, uuid_text, visible,
};
use stage2_contract::trace::{
    Anchor, FieldValue, GpuWork, Losses, NONE, Path, RANGE_OUTSIDE, RangeOpen, Record, What,
};

use crate::file::Entry;
use crate::late::mixed;
use crate::period::{Cell, Extreme, Member, PERIOD_NS, Period, StageCell, Sum, add, entry};
use crate::sketch::Sketch;
use collectives::{Kind, Latest, Pending, Samples};

/// How long the data goes on before a number is final, ns.
const SETTLE_NS: u64 = 5_000_000_000;
/// How far work may lie ahead of all else, ns.
const AHEAD_NS: u64 = 600_000_000_000;
/// Definitions of each sort, bytes of names, and ranges, that are kept.
const DEFINITIONS: usize = 1 << 16;
const NAME_BYTES: usize = 16 << 20;
const RANGES: usize = 1 << 16;
/// Steps, and collectives, that wait for what may still come.
const WAITING: usize = 1 << 15;
const KINDS: usize = 1 << 8;
const GPUS: usize = 16;
/// Steps whose times are usual, and median deviations from their median that still are: six standard deviations
/// where times are normal.
const BAND_STEPS: usize = 256;
const BAND_DEVIATIONS: u64 = 9;
/// Facts that are versions.
const VERSIONS: [&str; 3] = ["cuda.driver_version", "cupti.version", "nccl.version"];
/// Variables that say rank and number of ranks, in the order in which they are believed.
const RANKS: [(&str, &str); 6] = [
    ("env.RANK", "env.WORLD_SIZE"),
    ("env.OMPI_COMM_WORLD_RANK", "env.OMPI_COMM_WORLD_SIZE"),
    ("env.MV2_COMM_WORLD_RANK", "env.MV2_COMM_WORLD_SIZE"),
    ("env.PMI_RANK", "env.PMI_SIZE"),
    ("env.PMIX_RANK", ""),
    ("env.SLURM_PROCID", "env.SLURM_STEP_NUM_TASKS"),
];
/// Work that is not a kernel: numbers behind those of the classes, and names.
const COPY: u8 = 0xf0;
const FILL: u8 = 0xf1;
const GRAPH: u8 = 0xf2;
const NO_STAGE: u16 = u16::MAX;
/// Idle time: gaps that a launch leaves, longer ones in a step, and those before it.
const GAPS: [&str; 3] = ["launch gaps", "in steps", "between steps"];
/// Before the name of a call that the host was in.
const IN_CALL: &str = "host in ";

/// Where a path of ranges belongs.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The outermost range of the program, as an index.
    stage: Option<u16>,
    /// The path, where its innermost range is right within the stage.
    child: Option<u32>,
    is_program: bool,
    is_nccl: bool,
}

/// An open or a past range.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    /// Numbers of the steps that its work counts for; 0: none.
    root: u64,
    child: u64,
    thread: u32,
    communicator: u64,
    is_nccl: bool,
    /// It opened one of these.
    opens: bool,
}

/// A step, or a range right within it.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    stage: u16,
    /// The path of a range within the stage; 0: the stage itself.
    path: u32,
    start: u64,
    end: u64,
    busy_ns: u64,
    collective_ns: u64,
}

#[derive(Debug, Default)]
struct Device {
    covered_to: u64,
    work_ns: u64,
    collective_ns: u64,
}

/// Steps of a path in a period.
#[derive(Debug, Default)]
struct Steps {
    total_ns: u64,
    steps: Sketch,
    busy: Sketch,
    collective: Sketch,
    work: Sketch,
}

/// A period that is not written yet.
#[derive(Debug, Default)]
struct Building {
    period: Period,
    /// By stage and class.
    sums: FxHashMap<(u16, u8), Sum>,
    /// As [`GAPS`], ns.
    gaps: [u64; 3],
    /// By stage and path.
    steps: BTreeMap<(u16, u32), Steps>,
    samples: BTreeMap<Kind, Samples>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Summariser {
    member: Member,
    told: Option<Member>,
    rank_order: Option<usize>,
    /// Hash, members and rank of the largest communicator that this process is one member of.
    communicator: Option<(u64, u64, u64)>,
    communicators: BTreeMap<u64, u64>,
    names: FxHashMap<u32, Box<[u8]>>,
    name_bytes: usize,
    classes: FxHashMap<u32, (u8, Option<Operation>)>,
    shapes: FxHashMap<u32, (u8, Option<Operation>)>,
    queues: FxHashMap<u32, u32>,
    /// Those that work runs on, with UUID and name.
    gpus: BTreeMap<u32, (bool, (String, String))>,
    paths: FxHashMap<u32, Place>,
    stages: Vec<String>,
    ranges: FxHashMap<u64, Range>,
    order: VecDeque<u64>,
    /// The last communicator that a thread named.
    named: FxHashMap<u32, u64>,
    nodes: FxHashMap<u64, u64>,
    steps: VecDeque<Step>,
    first_step: u64,
    pending: BTreeMap<(u64, u64), Pending>,
    calls: u64,
    latest: FxHashMap<Kind, Latest>,
    devices: FxHashMap<u32, Device>,
    losses: Losses,
    anchor: Option<Anchor>,
    gpu_behind_ns: Option<i128>,
    /// Work from before the first reading that ties the clock of the GPU to ours.
    early: Vec<GpuWork>,
    front: u64,
    written_to: u64,
    building: BTreeMap<u64, Building>,
    ready: VecDeque<Entry>,
    unplaced: u64,
    /// When the last minute was looked at, ns.
    looked: u64,
    bands: FxHashMap<(u16, u32), Band>,
    is_unusual: bool,
}

/// The usual times of the steps of a path.
#[derive(Debug, Default)]
struct Band {
    recent: VecDeque<u64>,
    noted: u64,
    /// Nothing as long as too few are known.
    limit_ns: Option<u64>,
}

impl Band {
    /// Whether a step is longer than usual: than the median by many median deviations, and by a fifth.
    fn note(&mut self, ns: u64) -> bool {
        let is_unusual = self.limit_ns.is_some_and(|limit| ns > limit);
        if self.recent.len() >= BAND_STEPS {
            self.recent.pop_front();
        }
        self.recent.push_back(ns);
        self.noted += 1;
        if self.noted.is_multiple_of(BAND_STEPS as u64 / 4) {
            let middle = |mut values: Vec<u64>| {
                values.sort_unstable();
                values.get(values.len() / 2).copied().unwrap_or(0)
            };
            let median = middle(self.recent.iter().copied().collect());
            let deviation = middle(self.recent.iter().map(|ns| ns.abs_diff(median)).collect());
            let margin = deviation.saturating_mul(BAND_DEVIATIONS).max(median / 5);
            self.limit_ns = Some(median.saturating_add(margin));
        }
        is_unusual
    }
}

impl Summariser {
    /// Takes what is finished.
    pub fn ready(&mut self) -> impl Iterator<Item = Entry> + '_ {
        self.ready.drain(..)
    }

    /// Whether a step was longer than usual since the last call.
    pub fn take_unusual(&mut self) -> bool {
        std::mem::take(&mut self.is_unusual)
    }

    /// Takes a record; work may also be given to [`work`](Self::work).
    pub fn take(&mut self, record: &Record) {
        match record {
            Record::Work(work) => self.work(work),
            Record::Process(process) => {
                self.member.host.clone_from(&process.host);
                self.member.pid = process.pid;
                self.member.versions.push(("stage2".to_owned(), process.collector.clone()));
            }
            Record::Meta { key, value } => self.fact(key, value),
            Record::Anchor(anchor) => self.clocks(*anchor),
            Record::Name { id, bytes } => {
                let room = NAME_BYTES.saturating_sub(self.name_bytes);
                let is_new = !self.names.contains_key(id);
                if is_new && self.names.len() < DEFINITIONS && bytes.len() <= room {
                    self.name_bytes += bytes.len();
                    self.names.insert(*id, bytes.clone().into());
                }
            }
            Record::Device(device) => {
                let gpu = (uuid_text(device.uuid), visible(&device.name));
                if self.gpus.len() < GPUS || self.gpus.contains_key(&device.id) {
                    self.gpus.entry(device.id).or_default().1 = gpu;
                }
                self.use_gpus();
            }
            Record::Queue(queue) => {
                keep(&mut self.queues, queue.id, queue.device);
                // A process is told of all GPUs that it may see, and works on some.
                if self.gpus.len() < GPUS || self.gpus.contains_key(&queue.device) {
                    self.gpus.entry(queue.device).or_default().0 = true;
                }
                self.use_gpus();
            }
            Record::Shape(shape) => {
                let known = self.class(shape.name);
                keep(&mut self.shapes, shape.id, known);
            }
            Record::Path(path) => self.path(path),
            Record::RangeOpen(open) => self.open(open),
            Record::RangeClose { range, end } => self.close(*range, end.0),
            Record::RangeFields { range, fields } => {
                let whole = |field: &stage2_contract::trace::Field| match field.value {
                    FieldValue::U64(value) => Some((field.name, value)),
                    FieldValue::I64(value) => Some((field.name, u64::try_from(value).ok()?)),
                    FieldValue::F64(_) | FieldValue::Name(_) => None,
                };
                let fields: Vec<(u32, u64)> = fields.iter().filter_map(whole).collect();
                self.fields(*range, &fields);
            }
            Record::GraphNode { node, range, .. } => {
                if let Some(known) = self.ranges.get(range).filter(|known| known.is_nccl) {
                    keep(&mut self.nodes, *node, known.communicator);
                }
            }
            Record::DeviceState(state) => {
                let clock = state.sm_clock_mhz.map(u64::from);
                let (temperature, power) = (state.temperature_c, state.power_mw);
                let reasons = state.clock_reasons.unwrap_or(0);
                let at = state.at.0;
                self.seen(at);
                let Some(building) = self.at(at) else { return };
                let period = &mut building.period;
                clock.into_iter().for_each(|mhz| period.clocks.add(mhz));
                temperature.into_iter().for_each(|c| period.temperatures.add(u64::from(c)));
                power.into_iter().for_each(|mw| period.power.add(u64::from(mw)));
                period.clock_reasons |= reasons;
            }
            Record::HostCalls(calls) => {
                for call in calls {
                    let name = self.names.get(&call.name).map(|name| visible(name));
                    let Some(name) = name else { continue };
                    let ns = call.end.since(call.begin);
                    let Some(building) = self.at(call.end.0) else { continue };
                    add(entry(&mut building.period.idle, &format!("{IN_CALL}{name}")), ns);
                }
            }
            Record::Losses(losses) => self.lost(losses),
            _ => {}
        }
    }

    fn use_gpus(&mut self) {
        let used = self.gpus.values().filter(|(used, (uuid, _))| *used && !uuid.is_empty());
        self.member.gpus = used.map(|(_, gpu)| gpu.clone()).collect();
    }

    fn fact(&mut self, key: &str, value: &str) {
        let number = || value.trim().parse::<u64>().ok();
        self.member.in_part |= key == "sample" || key == "ranges";
        if VERSIONS.contains(&key) && self.member.versions.len() < 8 {
            self.member.versions.retain(|(known, _)| known != key);
            self.member.versions.push((key.to_owned(), value.to_owned()));
        }
        for (order, (rank, world)) in RANKS.iter().enumerate() {
            if self.rank_order.is_some_and(|known| known < order) {
                continue;
            }
            if key == *rank && number().is_some() {
                if self.rank_order != Some(order) {
                    self.member.world = None;
                }
                (self.member.rank, self.rank_order) = (number(), Some(order));
            } else if key == *world && (self.rank_order == Some(order) || self.rank_order.is_none())
            {
                self.member.world = number();
            }
        }
    }

    fn clocks(&mut self, anchor: Anchor) {
        if anchor.gpu.0 != 0 {
            self.gpu_behind_ns = Some(i128::from(anchor.mono.0) - i128::from(anchor.gpu.0));
        }
        let first = *self.anchor.get_or_insert(anchor);
        if self.gpu_behind_ns.is_some() {
            self.front = self.front.max(anchor.mono.0);
            std::mem::take(&mut self.early).iter().for_each(|work| self.work(work));
        }
        if self.member.id == 0 {
            self.member.begun_ns = first.wall.0;
            let host = hash(self.member.host.as_bytes());
            let process = mixed(host ^ u64::from(self.member.pid));
            self.member.id = mixed(process ^ first.wall.0) | 1;
        }
        let ahead = |anchor: Anchor| i128::from(anchor.wall.0) - i128::from(anchor.mono.0);
        let moved = (ahead(anchor) - ahead(first)).unsigned_abs() / 1_000_000;
        let rank = self.member.rank.unwrap_or(0);
        self.seen(anchor.mono.0);
        if let Some(building) = self.at(anchor.mono.0)
            && moved > 0
        {
            let value = u64::try_from(moved).unwrap_or(u64::MAX);
            let known = &mut building.period.clock_moved_ms;
            if value > known.value {
                *known = Extreme { value, rank };
            }
        }
    }

    fn lost(&mut self, losses: &Losses) {
        let new = losses.since(&self.losses);
        self.losses = *losses;
        let kinds = [
            ("dropped by CUPTI", new.cupti_dropped),
            ("buffers refused", new.buffers_refused),
            ("range events", new.range_events),
            ("unattributed", new.unattributed),
            ("without times", new.invalid_timestamps),
            ("unreadable", new.unreadable_records),
            ("bytes not written", new.spool_bytes_unwritten),
        ];
        let front = self.front;
        for (kind, count) in kinds.into_iter().filter(|(_, count)| *count > 0) {
            if let Some(building) = self.at(front) {
                add(entry(&mut building.period.losses, kind), count);
            }
        }
    }

    fn class(&mut self, name: u32) -> (u8, Option<Operation>) {
        if let Some(&known) = self.classes.get(&name) {
            return known;
        }
        let other = (KernelClass::Other as u8, None);
        let Some(bytes) = self.names.get(&name) else { return other };
        let found = (class_of(&kernel_name(bytes)) as u8, of_kernel(bytes));
        keep(&mut self.classes, name, found);
        found
    }

    fn path(&mut self, path: &Path) {
        let domain = self.names.get(&path.domain).filter(|_| path.domain != NONE);
        let is_nccl = domain.is_some_and(|domain| domain.eq_ignore_ascii_case(b"NCCL"));
        let of_library = domain.is_some_and(|domain| is_library_domain(domain));
        let name = self.names.get(&path.name);
        let is_program = !of_library && !is_nccl && name.is_some_and(|name| !is_record(name));
        let above = self.paths.get(&path.parent).copied().unwrap_or_default();
        let mut place = Place { is_program, is_nccl, ..above };
        if let Some(name) = name.filter(|_| is_program) {
            if above.stage.is_none() {
                let name = pattern_of(&visible(name)).into_owned();
                let known = self.stages.iter().position(|known| *known == name);
                let at = known.unwrap_or_else(|| {
                    if self.stages.len() < KINDS {
                        self.stages.push(name);
                    }
                    self.stages.len() - 1
                });
                place.stage = u16::try_from(at).ok();
            } else if above.child.is_none() {
                place.child = Some(path.id);
            }
        }
        keep(&mut self.paths, path.id, place);
    }

    fn open(&mut self, open: &RangeOpen) {
        self.seen(open.start.0);
        if open.continues != 0
            && let Some(known) = self.ranges.get(&open.continues).copied()
        {
            if open.continues == open.range {
                // A piece of the trace says it again.
                return;
            }
            if known.opens {
                for step in [known.root, known.child] {
                    self.step(step).into_iter().for_each(|step| step.end = 0);
                }
            }
            return self.remember(open.range, known);
        }
        let place = self.paths.get(&open.path).copied().unwrap_or_default();
        let around = (open.parent != RANGE_OUTSIDE).then(|| self.ranges.get(&open.parent));
        let around = around.flatten().copied().unwrap_or_default();
        let mut range = Range { thread: open.thread, opens: false, ..around };
        range.is_nccl = place.is_nccl || around.is_nccl;
        if place.is_nccl && !around.is_nccl {
            range.communicator = self.named.get(&open.thread).copied().unwrap_or(0);
        }
        if let Some(stage) = place.stage.filter(|_| place.is_program) {
            let start = open.start.0;
            if range.root == 0 {
                range.root = self.begin(Step { stage, start, ..Step::default() });
                range.opens = true;
            } else if let Some(path) = place.child.filter(|_| range.child == 0) {
                range.child = self.begin(Step { stage, start, path, ..Step::default() });
                range.opens = true;
            }
        }
        self.remember(open.range, range);
    }

    fn begin(&mut self, step: Step) -> u64 {
        if self.steps.len() >= WAITING {
            self.steps.pop_front();
            self.first_step += 1;
        }
        self.steps.push_back(step);
        self.first_step + self.steps.len() as u64
    }

    fn step(&mut self, number: u64) -> Option<&mut Step> {
        let at = number.checked_sub(self.first_step + 1)?;
        self.steps.get_mut(usize::try_from(at).ok()?)
    }

    fn remember(&mut self, id: u64, range: Range) {
        if self.ranges.insert(id, range).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > RANGES
            && let Some(oldest) = self.order.pop_front()
        {
            self.ranges.remove(&oldest);
        }
    }

    fn close(&mut self, range: u64, end: u64) {
        self.seen(end);
        let Some(known) = self.ranges.get(&range).copied().filter(|known| known.opens) else {
            return;
        };
        let own = if known.child != 0 { known.child } else { known.root };
        let Some(step) = self.step(own).filter(|step| step.end == 0) else { return };
        step.end = end.max(step.start);
        let (key, ns) = ((step.stage, step.path), step.end - step.start);
        // Told at once: a trace that is cut must not be past it by then.
        if self.bands.len() < KINDS || self.bands.contains_key(&key) {
            self.is_unusual |= self.bands.entry(key).or_default().note(ns);
        }
    }

    fn fields(&mut self, range: u64, fields: &[(u32, u64)]) {
        if !self.ranges.get(&range).is_some_and(|known| known.is_nccl) {
            return;
        }
        let (mut hash, mut members, mut rank) = (None, None, None);
        for &(name, value) in fields {
            match self.names.get(&name).and_then(|name| field_of(name)) {
                Some(NcclField::Communicator) => hash = Some(value).filter(|&hash| hash != 0),
                Some(NcclField::Members) => members = Some(value),
                Some(NcclField::Rank) => rank = Some(value),
                _ => {}
            }
        }
        let (Some(hash), Some(known)) = (hash, self.ranges.get_mut(&range)) else { return };
        known.communicator = hash;
        let thread = known.thread;
        keep(&mut self.named, thread, hash);
        let Some(members) = members.filter(|&members| members > 1) else { return };
        if self.communicators.len() < KINDS {
            self.communicators.insert(hash, members);
        }
        if let Some(rank) = rank
            && self.communicator.is_none_or(|(_, most, _)| members > most)
        {
            self.communicator = Some((hash, members, rank));
            if self.rank_order.is_none() {
                (self.member.rank, self.member.world) = (Some(rank), Some(members));
            }
        }
    }

    /// Takes a piece of GPU work.
    pub fn work(&mut self, work: &GpuWork) {
        if self.gpu_behind_ns.is_none() && self.early.len() < WAITING {
            self.early.push(*work);
            return;
        }
        let (class, operation) = match work.what {
            What::Kernel { shape } => {
                let known = self.shapes.get(&shape).copied();
                let (class, operation) = known.unwrap_or((KernelClass::Other as u8, None));
                (class, operation)
            }
            What::Copy { .. } => (COPY, None),
            What::Fill { .. } => (FILL, None),
            What::Graph { .. } => (GRAPH, None),
        };
        let behind = self.gpu_behind_ns.filter(|_| work.start.0 != 0 && work.start <= work.end);
        let on_ours = |at: u64| u64::try_from(i128::from(at) + behind?).ok();
        // One wrong time must not carry everything else into the future.
        let near = |&(_, end): &(u64, u64)| end <= self.front.saturating_add(AHEAD_NS);
        let span = on_ours(work.start.0).zip(on_ours(work.end.0));
        let Some((start, end)) = span.filter(near) else {
            // What has no times is among the losses that the trace tells.
            self.unplaced += u64::from(work.start.0 != 0);
            return;
        };
        self.seen(end);
        let device = self.queues.get(&work.queue).copied().unwrap_or(0);
        let range = self.ranges.get(&work.range).copied().unwrap_or_default();
        let full = self.devices.len() >= KINDS && !self.devices.contains_key(&device);
        let known = self.devices.entry(if full { 0 } else { device }).or_default();
        let before = known.covered_to;
        let fresh = end.saturating_sub(start.max(before));
        known.covered_to = before.max(end);
        match operation {
            Some(_) => add(&mut known.collective_ns, fresh),
            None => add(&mut known.work_ns, fresh),
        }
        let (work_ns, collective_ns) = (known.work_ns, known.collective_ns);
        let mut stage = NO_STAGE;
        let mut begun = 0;
        for number in [range.root, range.child] {
            let Some(step) = self.step(number) else { continue };
            add(&mut step.busy_ns, fresh);
            add(&mut step.collective_ns, if operation.is_some() { fresh } else { 0 });
            if number == range.root {
                (stage, begun) = (step.stage, step.start);
            }
        }
        if let Some(building) = self.at(end) {
            let sum = building.sums.entry((stage, class)).or_default();
            sum.calls += 1;
            add(&mut sum.total_ns, end - start);
            sum.longest_ns = sum.longest_ns.max(end - start);
            let gap = start.saturating_sub(before);
            if before > 0 && gap > 0 {
                let [short, inside, outside] = &mut building.gaps;
                if gap <= BACK_TO_BACK_NS {
                    add(short, gap);
                } else {
                    let of_step = start.saturating_sub(before.max(begun)).min(gap);
                    let of_step = if stage == NO_STAGE { 0 } else { of_step };
                    add(inside, of_step);
                    add(outside, gap - of_step);
                }
            }
        }
        if let Some(operation) = operation.filter(|operation| operation.needs_all_members()) {
            let of_node = (work.graph_node != 0).then(|| self.nodes.get(&work.graph_node).copied());
            let communicator = of_node.unwrap_or(Some(range.communicator)).unwrap_or(0);
            let kind = Kind { communicator, operation, device };
            let before = (work_ns, collective_ns.saturating_sub(fresh));
            self.collective(kind, (work.range, work.correlation), (start, end), before);
        }
    }

    fn seen(&mut self, at: u64) {
        self.front = self.front.max(at);
        // Twice a second is often enough.
        if self.front > self.looked.saturating_add(500_000_000) {
            self.looked = self.front;
            self.settle(self.front.saturating_sub(SETTLE_NS));
        }
    }

    /// A time of our clock, on the wall clock as it was when the trace began: one that is set later does not move it.
    fn wall(&self, mono: u64) -> u64 {
        let Some(first) = self.anchor else { return mono };
        let wall = i128::from(mono) - i128::from(first.mono.0) + i128::from(first.wall.0);
        u64::try_from(wall.max(0)).unwrap_or(u64::MAX)
    }

    /// The period of a time; nothing before the clocks are known.
    fn at(&mut self, mono: u64) -> Option<&mut Building> {
        self.anchor?;
        // What is late, and what is ahead of everything that was seen, counts all the same.
        let near = mono.clamp(self.front.saturating_sub(2 * PERIOD_NS), self.front);
        let index = (self.wall(near) / PERIOD_NS).max(self.written_to);
        Some(self.building.entry(index).or_default())
    }

    fn settle(&mut self, to: u64) {
        self.number_before(to);
        let is_over = |step: &Step| step.end != 0 && step.end < to;
        while let Some(step) = self.steps.pop_front_if(|step| is_over(step)) {
            self.first_step += 1;
            self.add_step(step);
        }
        // Behind one that stays open for long, others end.
        for at in 0..self.steps.len().min(WAITING) {
            let Some(step) = self.steps.get(at).copied().filter(is_over) else { continue };
            if step.stage != NO_STAGE {
                self.add_step(step);
                self.steps.get_mut(at).into_iter().for_each(|step| step.stage = NO_STAGE);
            }
        }
        let over = self.wall(to) / PERIOD_NS;
        while let Some(first) = self.building.first_entry().filter(|first| *first.key() < over) {
            let (index, building) = first.remove_entry();
            self.written_to = index + 1;
            self.finish_period(index, building);
        }
    }

    fn add_step(&mut self, step: Step) {
        if step.stage == NO_STAGE {
            return;
        }
        let ns = step.end - step.start;
        let Some(building) = self.at(step.end) else { return };
        let steps = building.steps.entry((step.stage, step.path)).or_default();
        add(&mut steps.total_ns, ns);
        steps.steps.add(ns);
        steps.busy.add(step.busy_ns);
        steps.collective.add(step.collective_ns);
        steps.work.add(step.busy_ns.saturating_sub(step.collective_ns));
    }

    /// All that is there, at the end of the trace.
    pub fn finish(&mut self) {
        self.unplaced += std::mem::take(&mut self.early).len() as u64;
        let front = self.front;
        for step in self.steps.iter_mut().filter(|step| step.end == 0) {
            // It was cut by the end.
            step.stage = NO_STAGE;
        }
        self.settle(front.saturating_add(1));
        while let Some((index, building)) = self.building.pop_first() {
            self.written_to = index + 1;
            self.finish_period(index, building);
        }
        if self.told.as_ref() != Some(&self.member) {
            self.ready.push_back(Entry::Member(self.member.clone()));
        }
    }

    fn finish_period(&mut self, index: u64, building: Building) {
        let Building { mut period, sums, gaps, steps, samples } = building;
        for ((stage, class), sum) in sums {
            let stage = self.stages.get(usize::from(stage)).map_or("(no stage)", String::as_str);
            let known = entry(&mut entry(&mut period.stages, stage).classes, class_name(class));
            add(&mut known.calls, sum.calls);
            add(&mut known.total_ns, sum.total_ns);
            known.longest_ns = known.longest_ns.max(sum.longest_ns);
        }
        for (kind, ns) in GAPS.into_iter().zip(gaps).filter(|(_, ns)| *ns > 0) {
            add(entry(&mut period.idle, kind), ns);
        }
        period.index = index;
        period.ranks = 1;
        let rank = self.member.rank;
        let own = |value: u64| match value {
            0 => Extreme::default(),
            value => Extreme { value, rank: rank.unwrap_or(0) },
        };
        let mut cell = Cell {
            ranks: 1,
            clock: own(period.clocks.median()),
            temperature: own(period.temperatures.max()),
            ..Cell::default()
        };
        for (stage, steps) in by_stage(steps) {
            let Some(name) = self.stages.get(usize::from(stage)) else { continue };
            let known = entry(&mut period.stages, name);
            let (median, work) = (steps.steps.median(), steps.work.median());
            let of_stage = StageCell {
                step: Sketch::of(median),
                longest: own(median),
                work: Sketch::of(work),
                most_work: own(work),
            };
            (known.steps, known.busy, known.collective) =
                (steps.steps, steps.busy, steps.collective);
            cell.stages.insert(name.clone(), of_stage);
        }
        period.rows.extend(rank.map(|rank| (rank, cell)));
        self.compared(&mut period, samples);
        let unplaced = std::mem::take(&mut self.unplaced);
        if unplaced > 0 {
            add(entry(&mut period.losses, "without a place in time"), unplaced);
        }
        if self.told.as_ref() != Some(&self.member) {
            self.told = Some(self.member.clone());
            self.ready.push_back(Entry::Member(self.member.clone()));
        }
        self.ready.push_back(Entry::Period(Box::new(period)));
    }
}

/// The steps of each stage: ranges right within it where these recur in an instance and take most of its time, as
/// the steps of a request do, and its instances otherwise.
fn by_stage(mut steps: BTreeMap<(u16, u32), Steps>) -> BTreeMap<u16, Steps> {
    let mut chosen: BTreeMap<u16, (u32, u64)> = BTreeMap::new();
    for (&(stage, path), of_path) in &steps {
        let whole = steps.get(&(stage, 0));
        let recurs = whole.is_none_or(|whole| {
            of_path.steps.count() >= whole.steps.count().saturating_mul(2)
                && of_path.total_ns >= whole.total_ns / 2
        });
        let best = chosen.entry(stage).or_insert((path, 0));
        if path == 0 {
            *best = (0, 0);
        } else if recurs && of_path.total_ns > best.1 {
            *best = (path, of_path.total_ns);
        }
    }
    let of_stage = |(stage, (path, _))| Some((stage, steps.remove(&(stage, path))?));
    chosen.into_iter().filter_map(of_stage).collect()
}

fn class_name(class: u8) -> &'static str {
    match class {
        COPY => "memcpy",
        FILL => "memset",
        GRAPH => "whole graph",
        class => KernelClass::ALL.get(usize::from(class)).map_or("other", |class| class.label()),
    }
}

/// Remembers a definition if there is room.
fn keep<K: Eq + std::hash::Hash, V>(map: &mut FxHashMap<K, V>, key: K, value: V) {
    if map.len() < DEFINITIONS || map.contains_key(&key) {
        map.insert(key, value);
    }
}

pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0x5a, |hash, &byte| mixed(hash ^ u64::from(byte))) | 1
}
