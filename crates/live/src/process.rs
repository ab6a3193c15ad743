//! The records of one trace file, in order -> totals of its process, and the window of the last seconds.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::stats::Histogram;
use stage2_contract::text::visible;
use stage2_contract::trace::{
    Anchor, FieldValue, GpuWork, Losses, Payload, Process as Who, RANGE_OUTSIDE, RANGE_UNKNOWN,
    RangeOpen, Record, What, ending,
};
use stage2_model::HOST_SAMPLES_LEAST;
use stage2_read::engine::StepWork;
use stage2_read::trace::operation::rank_among;
use stage2_read::trace::stats::Series;

use crate::counters::{Counter, Counters};
use crate::host::{Host, HostIdle, HostSlot, StageSpans};
use crate::instances::{Instances, Step};
use crate::numbers::{
    BEFORE, Batch, COLD, Counts, DeviceBusy, DoneWork, Ended, KernelRow, Run, SLOT_NS, Slot, Slots,
    StageNumbers, WARM, Window, steps_of,
};
use crate::settled::{Found, Settled, Stage, overlap_ns};
use crate::tables::{GRAPH, KernelId, MEMCPY, MEMSET, OUTSIDE, Tables, UNATTRIBUTED};
use crate::{SETTLE_LATE_NS, SETTLE_NS, WINDOW_S};

/// The field of a range that states how many tokens an instance is about.
const TOKENS: &[u8] = b"tokens";
const DEVICES: usize = 64;
/// Open ranges that are kept while the others are left out.
const OPEN: usize = 4_096;
/// Facts of a process that are kept, and bytes of one.
const FACTS: usize = 256;
const FACT_BYTES: usize = 4_096;
/// How far the data may go on before it is settled, ns of its own time.
const STRIDE_NS: u64 = SLOT_NS / 2;
/// Stages of a recording whose idle time is divided, warm and cold calls each.
const HOST_STAGES: usize = 16;
/// Seconds that are settled one by one; of a longer pause the first part is one piece.
const SINGLE_SLOTS: u64 = 32;

/// A GPU as the driver described it last; what it did not say is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuState {
    /// As the process numbers it.
    pub device: u32,
    /// Power, mW.
    pub power_mw: Option<u32>,
    /// Clock of the multiprocessors, MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Temperature, degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Why the clocks are lower than they could be, bits of `CLOCK_LIMITS`.
    pub clock_reasons: Option<u64>,
    /// Memory that all processes use, bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory that it has, bytes.
    pub memory_bytes: Option<u64>,
    /// How much older than the newest data of the process the last reading is, ns.
    #[serde(default)]
    pub age_ns: u64,
}

/// What the user knows of the ranges.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Stages whose NVTX payload is a number of tokens, as they are called in reports.
    pub tokens_in_payload: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Process {
    options: Options,
    pub(crate) who: Option<Who>,
    facts: BTreeMap<String, String>,
    tables: Tables,
    instances: Instances,
    stages: FxHashMap<u16, Stage>,
    /// Their first instances, and the windows of the others.
    cold: FxHashMap<u16, Stage>,
    warm: FxHashMap<u16, Settled>,
    /// By stage: when the last work of its first instance ended, and the first work of another one began.
    work_edges: FxHashMap<u16, (u64, u64)>,
    devices: FxHashMap<u32, (Settled, u64)>,
    counters: Counters,
    /// What is known of them, and when it was read last.
    gpus: BTreeMap<u32, (GpuState, u64)>,
    /// Members of the largest communicator of NCCL, and the ranks that this process has among them.
    communicator: Option<(u64, BTreeSet<u64>)>,
    host: Host,
    slots: Slots,
    run: Run,
    steps: Vec<Step>,
    anchor: Option<Anchor>,
    /// Monotonic time less GPU time.
    gpu_behind_ns: Option<i128>,
    counts: Counts,
    pub(crate) losses: Losses,
    /// Why the file ended; nothing while it goes on.
    pub(crate) end: Option<String>,
    gated: bool,
    begin: Option<u64>,
    front: u64,
    settled: u64,
    /// Time on the GPU that came too late for the busy time, ns.
    pub(crate) late_ns: u64,
    /// Only definitions are taken, and the ranges that were opened and not closed meanwhile.
    skims: bool,
    open: BTreeMap<u64, RangeOpen>,
}

impl Process {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, tables: Tables::new(), ..Self::default() }
    }

    /// From here on (`true`) only what later records refer to is taken, and no work and no range that has ended.
    pub(crate) fn skim(&mut self, skims: bool) {
        if std::mem::replace(&mut self.skims, skims) && !skims {
            let open = std::mem::take(&mut self.open).into_values();
            open.for_each(|open| self.push(Record::RangeOpen(open)));
            // What was left out is not idle time.
            self.begin = None;
        }
    }

    pub(crate) fn push(&mut self, record: Record) {
        match record {
            Record::RangeOpen(open) if !self.skims => {
                let place = self.tables.place(open.path);
                self.seen(open.start.0);
                self.instances.open(&open, place, &mut self.steps);
                if place.of_program {
                    self.host.opened(open.thread, open.start.0);
                }
                if let Some(payload) = open.payload
                    && let Some(stage) = place.stage.filter(|_| place.of_program)
                    && self.is_tokens(stage)
                {
                    let tokens = Some(whole(payload).unwrap_or(0));
                    let batch = Batch { tokens, ..Batch::default() };
                    self.instances.batch(open.range, batch, &mut self.steps);
                }
                if let Some(work) = self.tables.step_work(open.path) {
                    self.instances.batch(open.range, work.into(), &mut self.steps);
                }
            }
            Record::RangeOpen(open) => {
                if self.open.len() < OPEN {
                    self.open.insert(open.range, open);
                }
            }
            Record::RangeClose { range, .. } if self.skims => drop(self.open.remove(&range)),
            Record::RangeClose { range, end } => {
                self.seen(end.0);
                self.instances.close(range, end.0, &mut self.steps);
            }
            Record::RangeSample { range, recorded } => {
                self.gated = true;
                self.instances.sample(range, recorded);
            }
            Record::RangeFields { range, fields } => {
                let named = fields.iter().filter_map(|field| {
                    let number = match field.value {
                        FieldValue::U64(number) => Some(number),
                        FieldValue::I64(number) => u64::try_from(number).ok(),
                        FieldValue::F64(_) | FieldValue::Name(_) => None,
                    };
                    Some((self.tables.bytes(field.name)?, number?))
                });
                let place = rank_among(named.clone());
                let tokens = named.clone().rfind(|(name, _)| *name == TOKENS);
                let batch = StepWork::of_fields(named).map(Batch::from).unwrap_or_default();
                let tokens = tokens.map(|(_, tokens)| tokens).or(batch.tokens);
                self.instances.batch(range, Batch { tokens, ..batch }, &mut self.steps);
                if let Some((members, rank)) = place {
                    self.communicates(members, rank);
                }
            }
            Record::Work(work) if !self.skims => self.work(&work),
            other => self.describe(other),
        }
        if !self.steps.is_empty() {
            self.count_steps();
        }
        if self.final_to() >= self.settled.saturating_add(STRIDE_NS) {
            self.settle(self.final_to());
        }
    }

    /// All that is there for now was read.
    pub(crate) fn is_current(&mut self) {
        self.settle(self.final_to());
    }

    fn final_to(&self) -> u64 {
        let is_late = self.late_ns() > 0;
        self.front.saturating_sub(if is_late { SETTLE_LATE_NS } else { SETTLE_NS })
    }

    /// Work, and what the host did, that came after its time was final, ns.
    pub(crate) fn late_ns(&self) -> u64 {
        self.late_ns.saturating_add(self.host.late_ns)
    }

    fn is_tokens(&self, stage: u16) -> bool {
        let name = self.tables.stage_name(stage);
        self.options.tokens_in_payload.iter().any(|known| known == name)
    }

    fn describe(&mut self, record: Record) {
        match record {
            Record::Process(who) => self.who = Some(who),
            Record::Meta { key, value } => {
                self.gated |= key == "sample" || key == "ranges";
                let short = key.len().saturating_add(value.len()) <= FACT_BYTES;
                if short && (self.facts.len() < FACTS || self.facts.contains_key(&key)) {
                    self.facts.insert(key, value);
                }
            }
            Record::Anchor(anchor) => {
                if anchor.gpu.0 != 0 {
                    self.gpu_behind_ns = Some(i128::from(anchor.mono.0) - i128::from(anchor.gpu.0));
                }
                self.seen(anchor.mono.0);
                self.anchor = Some(anchor);
            }
            Record::Name { id, bytes } => self.tables.name(id, bytes),
            Record::Shape(shape) => self.tables.shape(&shape),
            Record::Path(path) => self.tables.path(&path),
            Record::Queue(queue) => self.tables.queue(queue.id, queue.device),
            record @ (Record::Thread { .. }
            | Record::HostFrame(_)
            | Record::HostStack(_)
            | Record::HostThread(_)
            | Record::HostSampling(_)
            | Record::HostSamples(_)
            | Record::HostCalls(_)) => {
                // They go on where neither ranges nor work do.
                if let Some(at) = self.host.take(record, self.skims) {
                    self.seen(at);
                }
            }
            Record::Device(device) => {
                if let Some((gpu, _)) = self.gpu(device.id) {
                    gpu.memory_bytes = Some(device.memory_bytes).filter(|bytes| *bytes > 0);
                }
            }
            Record::DeviceState(state) => {
                if let Some((gpu, at)) = self.gpu(state.device) {
                    *at = state.at.0.max(*at);
                    // Most readings say only a part.
                    gpu.power_mw = state.power_mw.or(gpu.power_mw);
                    gpu.sm_clock_mhz = state.sm_clock_mhz.or(gpu.sm_clock_mhz);
                    gpu.memory_clock_mhz = state.memory_clock_mhz.or(gpu.memory_clock_mhz);
                    gpu.temperature_c = state.temperature_c.or(gpu.temperature_c);
                    gpu.clock_reasons = state.clock_reasons.or(gpu.clock_reasons);
                    let used = Some(state.memory_used_bytes).filter(|bytes| *bytes > 0);
                    gpu.memory_used_bytes = used.or(gpu.memory_used_bytes);
                }
            }
            Record::CounterSet(set) => self.counters.define(&set),
            Record::CounterSamples(samples) => self.counters.add(&samples),
            Record::Losses(losses) => self.losses = losses,
            Record::End { reason } => {
                self.end = Some(visible(reason.as_bytes()));
                self.finish();
            }
            _ => {}
        }
    }

    fn gpu(&mut self, device: u32) -> Option<&mut (GpuState, u64)> {
        let has_room = self.gpus.len() < DEVICES || self.gpus.contains_key(&device);
        let new = GpuState { device, ..GpuState::default() };
        has_room.then(|| self.gpus.entry(device).or_insert((new, 0)))
    }

    /// GPUs of which the driver said something.
    pub(crate) fn gpus(&self) -> Vec<GpuState> {
        let known =
            self.gpus.values().filter(|(gpu, _)| gpu.power_mw.or(gpu.sm_clock_mhz).is_some());
        let age = |at: u64| if at > 0 { self.front.saturating_sub(at) } else { 0 };
        known.map(|(gpu, at)| GpuState { age_ns: age(*at), ..gpu.clone() }).collect()
    }

    /// The sampled counters.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let now = self.gpu_behind_ns.map(|behind| i128::from(self.front) - behind);
        self.counters.last(now.and_then(|now| u64::try_from(now).ok()))
    }

    fn communicates(&mut self, members: u64, rank: u64) {
        match &mut self.communicator {
            Some((most, _)) if *most > members => {}
            Some((most, ranks)) if *most == members => {
                if ranks.len() < 2 {
                    ranks.insert(rank);
                }
            }
            other => *other = Some((members, [rank].into())),
        }
    }

    /// The rank of a process that has one for NCCL.
    pub(crate) fn rank_of_communicator(&self) -> Option<u64> {
        let (_, ranks) = self.communicator.as_ref()?;
        ranks.first().copied().filter(|_| ranks.len() == 1)
    }

    fn seen(&mut self, at: u64) {
        self.begin.get_or_insert(at);
        self.front = self.front.max(at);
    }

    fn count_steps(&mut self) {
        for step in std::mem::take(&mut self.steps) {
            self.run.add(&step);
            let recorded = Some(!self.gated || step.recorded == Some(true));
            let step = Step { recorded, ..step };
            if step.within.is_none() {
                self.stages.entry(step.stage).or_default().totals.add_step(&step);
            }
            self.slots.ended(Ended::Step(step));
        }
    }

    fn work(&mut self, work: &GpuWork) {
        let (kernel, class) = match work.what {
            What::Kernel { shape } => self.tables.kernel_of(shape),
            What::Copy { .. } => (KernelId::OTHER, MEMCPY),
            What::Fill { .. } => (KernelId::OTHER, MEMSET),
            What::Graph { .. } => (KernelId::OTHER, GRAPH),
        };
        self.counts.work += 1;
        let placed = match work.range {
            RANGE_OUTSIDE => Some((None, None)),
            RANGE_UNKNOWN => None,
            range => self.instances.place(range),
        };
        let (stage, root, count) = match placed {
            None => (UNATTRIBUTED, None, &mut self.counts.unattributed),
            Some((None, _)) => (OUTSIDE, None, &mut self.counts.outside),
            Some((Some(stage), root)) => (stage, root, &mut self.counts.attributed),
        };
        *count += 1;
        let on_our_clock = |at: u64| u64::try_from(i128::from(at) + self.gpu_behind_ns?).ok();
        let timed = work.start.0 != 0 && work.start <= work.end;
        let span = on_our_clock(work.start.0).zip(on_our_clock(work.end.0)).filter(|_| timed);
        let known = self.stages.entry(stage).or_default();
        let Some((start, end)) = span else { return known.totals.work(class, 0) };
        let is_cold = root.as_ref().is_some_and(|root| root.is_cold);
        if let Some(root) = root {
            root.worked_to = root.worked_to.max(end);
            root.launches += 1;
        }
        known.totals.work(class, end - start);
        let (last_cold, first_warm) = self.work_edges.entry(stage).or_insert((0, u64::MAX));
        match is_cold {
            true => *last_cold = end.max(*last_cold),
            false => *first_warm = start.min(*first_warm),
        }
        let late = known.work.add(start, end);
        let mut full = known.work.is_full();
        if is_cold {
            self.cold.entry(stage).or_default().work.add(start, end);
        }
        full |= self.host.worked(start, end);
        self.late_ns = self.late_ns.saturating_add(late);
        let kernel = work.is_kernel().then_some(kernel);
        let done = DoneWork { end, ns: end - start, stage, class, is_cold, kernel };
        self.slots.ended(Ended::Work(done));
        let device = self.tables.device_of(work.queue);
        if let Some(device) = device
            && (self.devices.len() < DEVICES || self.devices.contains_key(&device))
        {
            let union = &mut self.devices.entry(device).or_default().0;
            union.add(start, end);
            full |= union.is_full();
        }
        self.seen(start);
        self.front = self.front.max(end);
        if full {
            // Too much waits: what comes out of order from here on is told as late.
            self.settle(start);
        }
    }

    /// Makes everything before `to` final.
    fn settle(&mut self, to: u64) {
        if self.settled == 0 {
            let begin = self.begin.unwrap_or(to);
            if to < begin {
                // Nothing was before the begin: as idle time it would lower every share.
                return;
            }
            self.settled = begin;
        }
        while self.settled < to {
            let boundary = (self.settled / SLOT_NS + 1).saturating_mul(SLOT_NS);
            let pause = (to - self.settled) / SLOT_NS > 2 * SINGLE_SLOTS;
            let next = if pause { to - SINGLE_SLOTS * SLOT_NS } else { boundary.min(to) };
            self.settle_slice(next);
        }
    }

    fn settle_slice(&mut self, to: u64) {
        // Another range may not follow for long, and these would count as open until then.
        self.instances.end_closing_before(to, &mut self.steps);
        let mut recorded = Vec::new();
        let mut windows: [Vec<(u64, u64)>; 3] = Default::default();
        let mut spans_of: FxHashMap<(u16, bool), StageSpans> = FxHashMap::default();
        for root in self.instances.roots.values() {
            if self.gated && root.recorded != Some(true) {
                continue;
            }
            let end = root.end.map_or(to, |end| end.max(root.worked_to));
            let (start, end) = (root.start.max(self.settled), end.min(to));
            if start < end {
                self.stages.entry(root.stage).or_default().window(start, end);
                if root.is_cold {
                    self.cold.entry(root.stage).or_default().window(start, end);
                } else {
                    self.warm.entry(root.stage).or_default().add(start, end);
                }
                windows[usize::from(root.is_cold)].push((start, end));
                let of_stage = spans_of.entry((root.stage, root.is_cold)).or_default();
                of_stage.by_thread.entry(root.thread).or_default().push((start, end));
                recorded.extend(self.gated.then_some((start, end)));
            }
        }
        // Where only some of the work is recorded, the GPU may work at all other times.
        let spans = if self.gated { union_of(recorded) } else { vec![(self.settled, to)] };
        if !self.instances.has_begun() {
            windows[BEFORE].clone_from(&spans);
        }
        let windows = windows.map(union_of);
        self.instances.end_steps(to, &mut self.steps);
        self.count_steps();
        self.slots.count_to(to);
        let mut over = self.instances.forget(to);
        over.retain(|root| !self.gated || root.recorded == Some(true));
        let mut run = std::mem::take(&mut self.slots.run);
        // It ends with this slice, and so belongs to the slot before a boundary.
        let slot = self.slots.at(to - 1);
        for root in &over {
            slot.is_over(root);
            run[usize::from(root.is_cold)].is_over(root);
        }
        let found = self.stages.iter_mut().map(|(&id, stage)| (id, stage.settle(to)));
        let mut found: Vec<(u16, Found)> = found.collect();
        let all = union_of(found.iter().flat_map(|(_, found)| &found.work).copied().collect());
        for (id, found) in &mut found {
            let id = *id;
            found.numbers.other_ns = found.other_ns(&all);
            for is_cold in [false, true] {
                if let Some(of_stage) = spans_of.get_mut(&(id, is_cold)) {
                    of_stage.work.clone_from(&found.work);
                }
            }
            if found.numbers != StageNumbers::default() {
                self.stages.entry(id).or_default().totals.add(&found.numbers);
                slot.stages.entry(id).or_default().add(&found.numbers);
                let mut cold =
                    self.cold.get_mut(&id).map(|cold| cold.settle(to)).unwrap_or_default();
                // Work of the other calls is not that of other stages.
                cold.numbers.other_ns = found.other_in(cold.windows(), &all);
                let warm = self.warm.get_mut(&id).map(|warm| warm.settle(to).pieces);
                let warm = found.times_without(&cold, &warm.unwrap_or_default(), &all);
                run[WARM].stages.entry(id).or_default().add(&warm);
                run[COLD].stages.entry(id).or_default().add(&cold.numbers);
            }
        }
        for (of_run, windows) in run.iter_mut().zip(&windows) {
            let all = windows.iter().map(|(start, end)| end - start);
            of_run.ns = all.fold(of_run.ns, u64::saturating_add);
        }
        for (&device, (union, total)) in &mut self.devices {
            let pieces = union.settle(to).pieces;
            let busy: u64 = pieces.iter().map(|(start, end)| end - start).sum();
            *total = total.saturating_add(busy);
            *slot.device_busy.entry(device).or_default() += busy;
            for (of_run, windows) in run.iter_mut().zip(&windows) {
                *of_run.device_busy.entry(device).or_default() += overlap_ns(&pieces, windows);
            }
        }
        let mut hosts = Vec::new();
        for ((stage, is_cold), mut of_stage) in spans_of {
            let slots = &run[usize::from(is_cold)].hosts;
            if slots.len() < HOST_STAGES || slots.contains_key(&stage) {
                for windows in of_stage.by_thread.values_mut() {
                    *windows = union_of(std::mem::take(windows));
                }
                of_stage.all = union_of(of_stage.by_thread.values().flatten().copied().collect());
                hosts.push(((stage, is_cold), of_stage, HostSlot::default()));
            }
        }
        let of_stages = hosts.iter_mut().map(|(_, spans, slot)| (&*spans, slot));
        let of_run = windows.iter().map(Vec::as_slice).zip(run.iter_mut().map(|of| &mut of.host));
        let all = std::iter::once((spans.as_slice(), &mut slot.host)).chain(of_run);
        self.host.settle(to, all, of_stages, &self.tables);
        for ((stage, is_cold), _, more) in hosts {
            slot.hosts.entry(stage).or_default().add(&more);
            run[usize::from(is_cold)].hosts.entry(stage).or_default().add(&more);
        }
        self.slots.run = run;
        self.settled = to;
    }

    /// Nothing more comes for now: all that is known is final.
    pub(crate) fn finish(&mut self) {
        self.instances.end_closing(&mut self.steps);
        self.instances.end_steps(u64::MAX, &mut self.steps);
        self.count_steps();
        let waits = self.stages.values().any(|stage| !stage.work.is_empty());
        if waits || self.front > self.settled {
            self.settle(self.front.saturating_add(1));
        }
    }

    pub(crate) fn window(&self) -> Window {
        let Some(begin) = self.begin.filter(|_| self.settled > 0) else {
            // Why the host is not sampled may be known already.
            let host = self.host_idle(std::iter::empty());
            return Window { host, ..Window::default() };
        };
        let last = self.settled - 1;
        let from = (last / SLOT_NS + 1).saturating_sub(WINDOW_S) * SLOT_NS;
        let slots = || self.slots.window(last);
        let steps_within = self.steps_within();
        // Of a few samples, another cause would be the first one at each look.
        let mut hosts = self.hosts_of(slots(), |_, _| true);
        hosts.retain(|_, host| host.samples >= HOST_SAMPLES_LEAST);
        Window {
            ns: self.settled.saturating_sub(from.max(begin)),
            devices: devices(slots().flat_map(|slot| &slot.device_busy)),
            host: self.host_idle(slots().map(|slot| &slot.host)),
            hosts,
            minute: self.slots.minute(
                begin,
                self.settled,
                |id| self.tables.stage_name(id).to_owned(),
                |id| steps_within.get(&id).copied(),
            ),
            ..self.tables_of(slots(), |_, _| true)
        }
    }

    /// Whether work of other instances of a stage runs at the same time as that of its first one.
    fn overlaps_its_first(&self, stage: u16) -> bool {
        self.work_edges.get(&stage).is_some_and(|(last_cold, first_warm)| first_warm < last_cold)
    }

    /// The whole recording. Of stages with several calls the first is left out, unless it overlaps others, as in a report.
    pub(crate) fn recording(&self) -> Window {
        let run = &self.slots.run;
        let warm = run[WARM].stages.iter();
        let warm = warm.filter(|(id, sum)| sum.steps > 0 && !self.overlaps_its_first(**id));
        let warm: BTreeSet<u16> = warm.map(|(&id, _)| self.tables.whole_stage(id)).into_set();
        let Some(of) = run.iter().find(|of| of.ns > 0) else { return self.window() };
        let counts = |slot: &Slot, stage: u16| {
            !std::ptr::eq(slot, &run[COLD]) || !warm.contains(&self.tables.whole_stage(stage))
        };
        let hosts = self.hosts_of(run.iter(), counts);
        let mut tables = self.tables_of(run.iter(), counts);
        let steps_within = self.steps_within();
        for (name, numbers) in &mut tables.stages {
            let parts = self.stages.keys().filter(|id| self.tables.stage_name(**id) == name);
            let of_part = |&id: &u16| self.run.of(id, steps_within.get(&id).copied());
            numbers.run = steps_of(parts.clone().filter_map(of_part));
            if parts.clone().any(|id| self.overlaps_its_first(*id)) {
                let all = parts.filter_map(|id| Some(&self.stages.get(id)?.totals));
                let sum =
                    |of: fn(&StageNumbers) -> u64| all.clone().map(of).fold(0, u64::saturating_add);
                numbers.window_ns = sum(|of| of.window_ns);
                numbers.busy_ns = sum(|of| of.busy_ns);
                numbers.gaps_ns = sum(|of| of.gaps_ns);
                numbers.other_ns = sum(|of| of.other_ns);
            }
        }
        Window {
            is_whole: true,
            ns: of.ns,
            devices: devices(&of.device_busy),
            host: self.host_idle(std::iter::once(&of.host)),
            hosts,
            ..tables
        }
    }

    /// What the host did in the calls of each stage.
    fn hosts_of<'s>(
        &self,
        slots: impl Iterator<Item = &'s Slot>,
        counts: impl Fn(&Slot, u16) -> bool,
    ) -> BTreeMap<String, HostIdle> {
        let mut hosts: BTreeMap<u16, Vec<&HostSlot>> = BTreeMap::new();
        for slot in slots {
            for (&id, host) in slot.hosts.iter().filter(|(id, _)| counts(slot, **id)) {
                hosts.entry(self.tables.whole_stage(id)).or_default().push(host);
            }
        }
        let name = |id: u16| self.tables.stage_name(id).to_owned();
        let host = |slots: Vec<&HostSlot>| self.host_idle(slots.into_iter());
        hosts.into_iter().map(|(id, slots)| (name(id), host(slots))).collect()
    }

    /// Stages and kernels of slots.
    fn tables_of<'s>(
        &self,
        slots: impl Iterator<Item = &'s Slot>,
        counts: impl Fn(&Slot, u16) -> bool,
    ) -> Window {
        let mut stages: BTreeMap<String, StageNumbers> = BTreeMap::new();
        let mut kernels: FxHashMap<(u16, KernelId), (u64, u64)> = FxHashMap::default();
        let mut communication: FxHashMap<(u16, KernelId), Histogram> = FxHashMap::default();
        let (steps_within, mut within) = (self.steps_within(), BTreeMap::<&str, Series>::new());
        for slot in slots {
            for (&(id, name), steps) in slot.within.iter().filter(|((id, _), _)| counts(slot, *id))
            {
                if steps_within.get(&id) == Some(&name) {
                    within.entry(self.tables.stage_name(id)).or_default().merge(steps);
                }
            }
            let whole = slot.whole.iter().filter(|(id, _)| counts(slot, **id));
            for (&id, &(instances, launches)) in whole {
                let name = steps_within.get(&id).map(|&name| slot.whole_within.get(&(id, name)));
                let whole_each = name.map_or(instances, |steps| steps.copied().unwrap_or(0));
                let whole_launches = launches;
                let whole = StageNumbers { whole_launches, whole_each, ..StageNumbers::default() };
                self.add_by_name(&mut stages, id, &whole);
            }
            for (&id, numbers) in slot.stages.iter().filter(|(id, _)| counts(slot, **id)) {
                self.add_by_name(&mut stages, id, numbers);
            }
            let of_stage =
                |(stage, kernel): (u16, KernelId)| (self.tables.whole_stage(stage), kernel);
            for (&key, &(ns, launches)) in
                slot.kernels.iter().filter(|(key, _)| counts(slot, key.0))
            {
                let sum = kernels.entry(of_stage(key)).or_default();
                *sum = (sum.0.saturating_add(ns), sum.1 + launches);
            }
            for (&key, times) in slot.communication.iter().filter(|(key, _)| counts(slot, key.0)) {
                communication.entry(of_stage(key)).or_default().merge(times);
            }
        }
        for (stage, steps) in within {
            stages.entry(stage.to_owned()).or_default().take_within(steps);
        }
        let row = |((stage, kernel), (ns, launches))| {
            let (name, class) = self.tables.kernel_name(kernel);
            let quick_ns =
                communication.get(&(stage, kernel)).and_then(|times| times.percentile(25));
            let stage = self.tables.stage_name(stage).to_owned();
            KernelRow { stage, name: name.to_owned(), class, ns, launches, quick_ns }
        };
        let mut kernels: Vec<KernelRow> = kernels.into_iter().map(row).collect();
        kernels.order_by(|a, b| {
            b.ns.cmp(&a.ns).then_with(|| (&a.stage, &a.name).cmp(&(&b.stage, &b.name)))
        });
        Window { end_wall_ns: self.wall_ns(self.settled), stages, kernels, ..Window::default() }
    }

    /// Ranges within the instances of stages that are their steps. An engine states what its steps are.
    fn steps_within(&self) -> FxHashMap<u16, u32> {
        let totals = |stage: u16| self.stages.get(&stage).map(|stage| &stage.totals);
        let mut steps = self.instances.steps_within(|id| totals(id).map_or(0, |of| of.steps_ns));
        steps.retain(|&id, _| totals(id).is_none_or(|of| of.steps_with_requests == 0));
        steps
    }

    /// What the host did in these seconds while no work ran on the GPUs.
    fn host_idle<'s>(&self, slots: impl Iterator<Item = &'s HostSlot>) -> HostIdle {
        let fact = |key: &str| self.fact(key).map(|value| visible(value.as_bytes()));
        let idle = self.host.idle(slots, fact, &self.tables);
        let unknown = match () {
            () if self.fact("gpu.off").is_some() => "no GPU work is recorded",
            () if self.counts.work > 0 && self.gpu_behind_ns.is_none() => {
                "the clocks of GPU and host are not tied yet"
            }
            () => return idle,
        };
        let why_none = Some(format!("idle time is not known: {unknown}"));
        HostIdle { why_none, ns: 0, idle_ns: 0, causes: Vec::new(), spent: Vec::new(), ..idle }
    }

    fn wall_ns(&self, at: u64) -> Option<u64> {
        let anchor = self.anchor.filter(|anchor| anchor.wall.0 > 0)?;
        u64::try_from(i128::from(anchor.wall.0) - i128::from(anchor.mono.0) + i128::from(at)).ok()
    }

    /// When the last event was, ns since the Unix epoch.
    pub(crate) fn last_wall_ns(&self) -> Option<u64> {
        self.wall_ns(self.front)
    }

    /// Sums of each stage since the beginning. They never fall.
    pub(crate) fn totals(&self) -> BTreeMap<String, StageNumbers> {
        let mut sums = BTreeMap::new();
        self.stages.iter().for_each(|(&id, stage)| self.add_by_name(&mut sums, id, &stage.totals));
        sums
    }

    /// Stages that were joined have one name.
    fn add_by_name(&self, to: &mut BTreeMap<String, StageNumbers>, id: u16, more: &StageNumbers) {
        to.entry(self.tables.stage_name(id).to_owned()).or_default().add(more);
    }

    /// The GPUs of the process, each with its total busy time, ns.
    pub(crate) fn device_totals(&self) -> impl Iterator<Item = (u32, u64)> {
        self.devices.iter().map(|(&device, &(_, busy_ns))| (device, busy_ns))
    }

    pub(crate) fn counts(&self) -> Counts {
        let left_out = self.tables.left_out.saturating_add(self.instances.left_out);
        Counts { left_out, ..self.counts }
    }

    /// Whether the file states the end of the process, or that it was about to end, as in a report.
    pub(crate) fn states_its_end(&self) -> bool {
        self.end.is_some() || self.fact(ending::ANNOUNCED).is_some_and(|how| !how.is_empty())
    }

    pub(crate) fn fact(&self, key: &str) -> Option<&str> {
        self.facts.get(key).map(String::as_str)
    }
}

/// The busy time of each GPU, added.
fn devices<'b>(all: impl IntoIterator<Item = (&'b u32, &'b u64)>) -> Vec<DeviceBusy> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (&device, &busy_ns) in all {
        *sums.entry(device).or_default() += busy_ns;
    }
    sums.into_iter().map(|(device, busy_ns)| DeviceBusy { device, busy_ns }).collect()
}

/// Spans that overlap become one.
fn union_of(spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut union = Settled::default();
    let last = spans.iter().map(|span| span.1).max().unwrap_or(0);
    spans.into_iter().for_each(|(start, end)| {
        union.add(start, end);
    });
    union.settle(last.saturating_add(1)).pieces
}

fn whole(payload: Payload) -> Option<u64> {
    match payload {
        Payload::U64(value) => Some(value),
        Payload::I64(value) => u64::try_from(value).ok(),
        Payload::F64(value) => (0.0..=1e15).contains(&value).then_some(value as u64),
    }
}

#[cfg(test)]
mod tests;
