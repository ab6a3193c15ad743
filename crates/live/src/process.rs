//! The records of one trace file, in order -> totals of its process, and the window of the last seconds.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use stage2_contract::order::Order as _;
use stage2_contract::stats::Histogram;
use stage2_contract::text::visible;
use stage2_contract::trace::{
    Anchor, FieldValue, GpuWork, Losses, Payload, Process as Who, RANGE_OUTSIDE, RANGE_UNKNOWN,
    Record, What,
};
use stage2_read::engine::StepWork;
use stage2_read::trace::operation::rank_among;

use crate::counters::Counters;
use crate::host::{Host, HostIdle, HostSlot, StageSpans};
use crate::instances::{Instances, Step};
use crate::numbers::{
    BEFORE, Batch, COLD, Counts, DeviceBusy, KernelRow, SLOT_NS, Slot, Slots, StageNumbers, WARM,
    Window,
};
use crate::settled::{Settled, Stage, overlap_ns};
use crate::tables::{GRAPH, KernelId, MEMCPY, MEMSET, OUTSIDE, Tables, UNATTRIBUTED};
use crate::{SETTLE_NS, WINDOW_S};

/// The field of a range that states how many tokens an instance is about.
const TOKENS: &[u8] = b"tokens";
const DEVICES: usize = 64;
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
    /// Their first instances.
    cold: FxHashMap<u16, Stage>,
    devices: FxHashMap<u32, (Settled, u64)>,
    pub(crate) counters: Counters,
    gpus: BTreeMap<u32, GpuState>,
    /// Members of the largest communicator of NCCL, and the ranks that this process has among them.
    communicator: Option<(u64, BTreeSet<u64>)>,
    host: Host,
    slots: Slots,
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
    /// Only definitions are taken.
    skims: bool,
}

impl Process {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, tables: Tables::new(), ..Self::default() }
    }

    /// From here on (`true`) only what later records refer to is taken, and no range and no work.
    pub(crate) fn skim(&mut self, skims: bool) {
        self.skims = skims;
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
            Record::RangeClose { range, end } if !self.skims => {
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
        if self.front.saturating_sub(SETTLE_NS) >= self.settled.saturating_add(STRIDE_NS) {
            self.settle(self.front - SETTLE_NS);
        }
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
                if let Some(gpu) = self.gpu(device.id) {
                    gpu.memory_bytes = Some(device.memory_bytes).filter(|bytes| *bytes > 0);
                }
            }
            Record::DeviceState(state) => {
                if let Some(gpu) = self.gpu(state.device) {
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

    fn gpu(&mut self, device: u32) -> Option<&mut GpuState> {
        let has_room = self.gpus.len() < DEVICES || self.gpus.contains_key(&device);
        let new = GpuState { device, ..GpuState::default() };
        has_room.then(|| self.gpus.entry(device).or_insert(new))
    }

    /// GPUs of which the driver said something.
    pub(crate) fn gpus(&self) -> Vec<GpuState> {
        let known = |gpu: &&GpuState| gpu.power_mw.or(gpu.sm_clock_mhz).is_some();
        self.gpus.values().filter(known).cloned().collect()
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
            let recorded = Some(!self.gated || step.recorded == Some(true));
            let step = Step { recorded, ..step };
            self.stages.entry(step.stage).or_default().totals.add_step(&step);
            let add = |slot: &mut Slot| slot.stages.entry(step.stage).or_default().add_step(&step);
            self.slots.add(step.end, step.is_cold, add);
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
        }
        known.totals.work(class, end - start);
        let late = known.work.add(start, end);
        let mut full = known.work.is_full();
        if is_cold {
            self.cold.entry(stage).or_default().work.add(start, end);
        }
        full |= self.host.worked(start, end);
        self.late_ns = self.late_ns.saturating_add(late);
        self.slots.add(end, is_cold, |slot| {
            slot.stages.entry(stage).or_default().work(class, end - start);
            if work.is_kernel() {
                slot.kernel(stage, (kernel, class), end - start);
            }
        });
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
        self.instances.forget(to);
        let mut run = std::mem::take(&mut self.slots.run);
        // It ends with this slice, and so belongs to the slot before a boundary.
        let slot = self.slots.at(to - 1);
        for (&id, stage) in &mut self.stages {
            let (found, work) = stage.settle(to);
            for is_cold in [false, true] {
                if let Some(of_stage) = spans_of.get_mut(&(id, is_cold)) {
                    of_stage.work.clone_from(&work);
                }
            }
            if found != StageNumbers::default() {
                stage.totals.add(&found);
                slot.stages.entry(id).or_default().add(&found);
                let cold = self.cold.get_mut(&id).map(|cold| cold.settle(to).0).unwrap_or_default();
                run[WARM].stages.entry(id).or_default().add(&found.times_without(&cold));
                run[COLD].stages.entry(id).or_default().add(&cold);
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
            let slots = &mut run[usize::from(is_cold)].hosts;
            if slots.len() < HOST_STAGES || slots.contains_key(&stage) {
                for windows in of_stage.by_thread.values_mut() {
                    *windows = union_of(std::mem::take(windows));
                }
                of_stage.all = union_of(of_stage.by_thread.values().flatten().copied().collect());
                hosts.push(((stage, is_cold), of_stage, slots.remove(&stage).unwrap_or_default()));
            }
        }
        let of_stages = hosts.iter_mut().map(|(_, spans, slot)| (&*spans, slot));
        let of_run = windows.iter().map(Vec::as_slice).zip(run.iter_mut().map(|of| &mut of.host));
        let all = std::iter::once((spans.as_slice(), &mut slot.host)).chain(of_run);
        self.host.settle(to, all, of_stages, &self.tables);
        for ((stage, is_cold), _, slot) in hosts {
            run[usize::from(is_cold)].hosts.insert(stage, slot);
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
        Window {
            ns: self.settled.saturating_sub(from.max(begin)),
            devices: devices(slots().flat_map(|slot| &slot.device_busy)),
            host: self.host_idle(slots().map(|slot| &slot.host)),
            minute: self.slots.minute(begin, last, |id| self.tables.stage_name(id).to_owned()),
            ..self.tables_of(slots(), |_, _| true)
        }
    }

    /// The whole recording. Of stages with several calls the first is left out, as in a report.
    pub(crate) fn recording(&self) -> Window {
        let run = &self.slots.run;
        let warm = run[WARM].stages.iter().filter(|(_, sum)| sum.steps > 0);
        let warm: BTreeSet<u16> = warm.map(|(&id, _)| self.tables.whole_stage(id)).collect();
        let Some(of) = run.iter().find(|of| of.ns > 0) else { return self.window() };
        let counts = |slot: &Slot, stage: u16| {
            !std::ptr::eq(slot, &run[COLD]) || !warm.contains(&self.tables.whole_stage(stage))
        };
        let mut hosts: BTreeMap<u16, Vec<&HostSlot>> = BTreeMap::new();
        for slot in run {
            for (&id, host) in slot.hosts.iter().filter(|(id, _)| counts(slot, **id)) {
                hosts.entry(self.tables.whole_stage(id)).or_default().push(host);
            }
        }
        let name = |id: u16| self.tables.stage_name(id).to_owned();
        let host = |slots: Vec<&HostSlot>| self.host_idle(slots.into_iter());
        Window {
            is_whole: true,
            ns: of.ns,
            devices: devices(&of.device_busy),
            host: self.host_idle(std::iter::once(&of.host)),
            hosts: hosts.into_iter().map(|(id, slots)| (name(id), host(slots))).collect(),
            ..self.tables_of(run.iter(), counts)
        }
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
        for slot in slots {
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
        let why_none = Some(format!("it is not known when the GPU is idle: {unknown}"));
        HostIdle { why_none, ns: 0, idle_ns: 0, causes: Vec::new(), ..idle }
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
mod tests {
    use super::*;
    use stage2_contract::trace::{
        Device, DeviceState, Field, GpuNs, MonoNs, Path, Queue, RangeOpen, Shape, WallNs,
    };

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;
    /// The GPU's clock is ahead.
    const AHEAD: u64 = 1_000 * S;

    /// A process with the stage `decode` (path 1) and a range of a library (path 2).
    fn process() -> Process {
        let mut process = Process::new(Options::default());
        let names = [(1, "decode"), (2, "NCCL"), (3, "sm90_xmma_gemm_bf16"), (4, "tokens")];
        for (id, name) in names {
            process.push(Record::Name { id, bytes: name.into() });
        }
        let (gpu, mono, wall) = (GpuNs(AHEAD + S), MonoNs(S), WallNs(50 * S));
        process.push(Record::Anchor(Anchor { gpu, mono, wall }));
        process.push(Record::Path(Path { id: 1, parent: 0, name: 1, domain: 0 }));
        process.push(Record::Path(Path { id: 2, parent: 1, name: 1, domain: 2 }));
        process.push(Record::Shape(Shape { id: 1, name: 3, ..Shape::default() }));
        process.push(Record::Queue(Queue { id: 1, device: 0, context: 1, stream: 7 }));
        process
    }

    fn opened(range: u64, at: u64) -> Record {
        let (start, payload) = (MonoNs(at), Some(Payload::U64(range)));
        Record::RangeOpen(RangeOpen {
            range,
            path: 1,
            thread: 1,
            start,
            payload,
            ..RangeOpen::default()
        })
    }

    fn kernel(range: u64, from: u64, to: u64) -> Record {
        let (start, end) = (GpuNs(AHEAD + from), GpuNs(AHEAD + to));
        let work = GpuWork::new(What::Kernel { shape: 1 });
        Record::Work(GpuWork { start, end, queue: 1, range, ..work })
    }

    /// `count` steps of 10 ms from 1 s on, each with two kernels of 4 ms, 20 us apart.
    fn steps(process: &mut Process, count: u64) {
        for step in 1..=count {
            let at = S + step * 10 * MS;
            process.push(opened(step, at));
            process.push(Record::RangeClose { range: step, end: MonoNs(at + 10 * MS) });
            process.push(kernel(step, at + MS, at + 5 * MS));
            process.push(kernel(step, at + 5 * MS + 20_000, at + 9 * MS));
        }
    }

    #[test]
    fn steps_busy_time_and_gaps_of_a_stage_are_those_of_its_records() {
        let mut process = process();
        steps(&mut process, 2_000);
        process.push(Record::End { reason: "exit".into() });
        let totals = process.totals();
        let decode = &totals["decode"];
        assert_eq!((decode.steps, decode.launches), (2_000, 4_000));
        assert_eq!(decode.busy_ns, 2_000 * (8 * MS - 20_000));
        assert_eq!((decode.window_ns, decode.gaps_ns), (2_000 * 10 * MS, 2_000 * 20_000));
        assert_eq!(process.late_ns, 0);
        assert_eq!(process.device_totals().collect::<Vec<_>>(), [(0, decode.busy_ns)]);
        let window = process.window();
        let recent = &window.stages["decode"];
        assert!((9 * S..=10 * S).contains(&window.ns), "{}", window.ns);
        let rate = recent.steps as f64 / (window.ns as f64 / 1e9);
        assert!((rate - 100.0).abs() < 1.0, "{rate} steps/s");
        assert!((recent.busy_share().unwrap() - 0.798).abs() < 0.001, "{:?}", recent.busy_share());
        assert_eq!(window.kernels[0].name, "sm90_xmma_gemm_bf16");
        assert_eq!(crate::class_label(window.kernels[0].class), "gemm");
        assert_eq!(window.end_wall_ns, Some(49 * S + process.front + 1));
    }

    #[test]
    fn steps_that_have_their_number_in_their_names_are_one_stage() {
        let mut process = process();
        for step in 1..=300u64 {
            let (id, at) = (step as u32 + 100, S + step * 10 * MS);
            process.push(Record::Name { id, bytes: format!("step {step}").into() });
            process.push(Record::Path(Path { id, parent: 0, name: id, domain: 0 }));
            let Record::RangeOpen(open) = opened(step, at) else { unreachable!("it opens") };
            process.push(Record::RangeOpen(RangeOpen { path: id, ..open }));
            process.push(Record::RangeClose { range: step, end: MonoNs(at + 10 * MS) });
            process.push(kernel(step, at + MS, at + 5 * MS));
        }
        process.push(Record::End { reason: "exit".into() });
        let window = process.window();
        assert_eq!(window.stages.keys().collect::<Vec<_>>(), ["step *"]);
        let step = &window.stages["step *"];
        assert_eq!((step.steps, step.launches, step.busy_ns), (300, 300, 300 * 4 * MS));
        let rows: Vec<_> = window.kernels.iter().map(|row| (&*row.stage, row.launches)).collect();
        assert_eq!(rows, [("step *", 300)]);
        let totals = process.totals();
        assert_eq!((totals.len(), totals["step *"].steps), (1, 300));
    }

    #[test]
    fn the_same_in_any_order_of_the_gpu_records_that_is_not_too_late() {
        let (mut one, mut other) = (process(), process());
        steps(&mut one, 300);
        for step in 1..=300u64 {
            let at = S + step * 10 * MS;
            other.push(opened(step, at));
            other.push(Record::RangeClose { range: step, end: MonoNs(at + 10 * MS) });
        }
        for step in (1..=300u64).rev() {
            let at = S + step * 10 * MS;
            other.push(kernel(step, at + 5 * MS + 20_000, at + 9 * MS));
            other.push(kernel(step, at + MS, at + 5 * MS));
        }
        for process in [&mut one, &mut other] {
            process.finish();
        }
        let decode = |process: &Process| process.totals()["decode"].clone();
        assert_eq!(decode(&one), decode(&other));
    }

    #[test]
    fn numbers_of_the_last_moments_are_not_shown_before_they_are_final() {
        let mut process = process();
        steps(&mut process, 500);
        // Six seconds of data: the last three wait.
        let before = process.window();
        assert!(before.ns <= 3 * S && before.ns >= 2 * S, "{}", before.ns);
        process.finish();
        assert!(process.window().ns > 4 * S);
    }

    #[test]
    fn work_outside_of_ranges_and_of_unknown_ranges_is_counted_apart() {
        let mut process = process();
        for (range, at) in [(RANGE_OUTSIDE, 1), (RANGE_UNKNOWN, 2), (77, 3)] {
            process.push(kernel(range, S + at * MS, S + at * MS + 5));
        }
        process.push(Record::Work(GpuWork::new(What::Fill { bytes: 4 })));
        process.finish();
        let counts = process.counts();
        assert_eq!((counts.work, counts.outside, counts.unattributed), (4, 2, 2));
        let totals = process.totals();
        assert_eq!(totals["(outside ranges)"].busy_ns, 5);
        assert_eq!(totals["(unattributed)"].busy_ns, 10);
    }

    #[test]
    fn tokens_are_known_from_a_field_or_from_the_payload_where_the_user_says_so() {
        let tokens = |process: &Process| {
            let all = process.totals();
            (all["decode"].tokens, all["decode"].steps_with_tokens)
        };
        let mut plain = process();
        plain.push(opened(1, 2 * S));
        let field = Field { name: 4, value: FieldValue::U64(8) };
        plain.push(Record::RangeFields { range: 1, fields: vec![field] });
        plain.push(Record::RangeClose { range: 1, end: MonoNs(3 * S) });
        steps(&mut plain, 3);
        plain.finish();
        assert_eq!(tokens(&plain), (8, 1));
        let options = Options { tokens_in_payload: vec!["decode".into()] };
        let mut told = Process { options, ..process() };
        steps(&mut told, 3);
        told.finish();
        assert_eq!(tokens(&told), (6, 3));
    }

    #[test]
    fn steps_of_an_engine_have_their_kind_requests_and_tokens_by_fields_and_by_names() {
        let mut process = process();
        let step = |process: &mut Process, range: u64, path: u32, fields: Vec<Field>| {
            let at = S + range * 10 * MS;
            let Record::RangeOpen(open) = opened(range, at) else { unreachable!("it opens") };
            process.push(Record::RangeOpen(RangeOpen { path, ..open }));
            process.push(Record::RangeFields { range, fields });
            process.push(Record::RangeClose { range, end: MonoNs(at + 10 * MS) });
        };
        let names = [
            (5, "decode_requests"),
            (6, "decode_tokens"),
            (7, "execute_context_1(32)_generation_4(4)"),
            (8, "execute_context_0(0)_generation_0(0)"),
        ];
        for (id, name) in names {
            process.push(Record::Name { id, bytes: name.into() });
        }
        // By its fields, in the range `decode`; 31 requests, and as many drafted tokens again.
        let field = |name, value| Field { name, value: FieldValue::U64(value) };
        step(&mut process, 1, 1, vec![field(5, 31), field(6, 62)]);
        step(&mut process, 2, 1, vec![field(5, 33), field(6, 66)]);
        // By its name; the last one holds no work.
        for id in [7, 8] {
            process.push(Record::Path(Path { id, parent: 0, name: id, domain: 0 }));
        }
        step(&mut process, 3, 7, Vec::new());
        step(&mut process, 4, 8, Vec::new());
        process.finish();
        let totals = process.totals();
        let of = |stage: &str| {
            let numbers = &totals[stage];
            (numbers.steps, numbers.tokens, numbers.requests_per_step())
        };
        assert_eq!(of("decode"), (2, 128, Some(32.0)));
        assert_eq!(of("mixed"), (1, 36, Some(5.0)));
        assert_eq!(totals.len(), 2, "{:?}", totals.keys());
    }

    #[test]
    fn instances_that_are_not_recorded_have_steps_and_no_window() {
        let mut process = process();
        process.push(Record::Meta { key: "sample".into(), value: "1/2".into() });
        for step in 1..=10u64 {
            let at = S + step * 10 * MS;
            process.push(opened(step, at));
            process.push(Record::RangeSample { range: step, recorded: step % 2 == 0 });
            process.push(Record::RangeClose { range: step, end: MonoNs(at + 10 * MS) });
        }
        process.finish();
        let totals = process.totals();
        let decode = &totals["decode"];
        assert_eq!((decode.steps, decode.recorded_steps, decode.window_ns), (10, 5, 50 * MS));
    }

    /// Hazard (Watching what runs): Times of a hostile file lie anywhere.
    /// Promise: The reader neither stops nor slows down.
    #[test]
    fn times_from_nowhere_neither_stop_nor_slow_the_reader() {
        let mut process = process();
        process.push(opened(1, u64::MAX - 1));
        process.push(Record::RangeClose { range: 1, end: MonoNs(3) });
        process.push(kernel(1, 5, u64::MAX - AHEAD));
        process.push(Record::Anchor(Anchor {
            gpu: GpuNs(u64::MAX),
            mono: MonoNs(1),
            wall: WallNs(1),
        }));
        process.push(kernel(1, 5, 6));
        steps(&mut process, 50);
        process.finish();
        let _ = process.window();
        assert_eq!(process.counts().work, 102);
    }

    #[test]
    fn readings_of_a_gpu_add_up_to_what_is_known_of_it() {
        let mut process = process();
        process.push(Record::Device(Device { id: 0, memory_bytes: 80 << 30, ..Device::default() }));
        assert!(process.gpus().is_empty(), "the driver said nothing yet");
        let full = DeviceState {
            power_mw: Some(400_000),
            sm_clock_mhz: Some(1_000),
            clock_reasons: Some(4),
            memory_used_bytes: 20 << 30,
            ..DeviceState::default()
        };
        process.push(Record::DeviceState(full));
        let short = DeviceState { sm_clock_mhz: Some(1_980), ..DeviceState::default() };
        process.push(Record::DeviceState(short));
        let expected = GpuState {
            power_mw: Some(400_000),
            sm_clock_mhz: Some(1_980),
            clock_reasons: Some(4),
            memory_used_bytes: Some(20 << 30),
            memory_bytes: Some(80 << 30),
            ..GpuState::default()
        };
        assert_eq!(process.gpus(), [expected]);
        for device in 0..1_000 {
            process.push(Record::DeviceState(DeviceState { device, ..short }));
        }
        assert_eq!(process.gpus().len(), DEVICES);
    }

    #[test]
    fn the_rank_is_that_in_the_largest_communicator_unless_several_are_of_one_process() {
        let mut process = process();
        for (id, name) in [(11, "No. of ranks"), (12, "Rank")] {
            process.push(Record::Name { id, bytes: name.into() });
        }
        let mut told = |members: u64, rank: u64| {
            let field = |name, value| Field { name, value: FieldValue::U64(value) };
            let fields = vec![field(11, members), field(12, rank)];
            process.push(Record::RangeFields { range: 1, fields });
            process.rank_of_communicator()
        };
        assert_eq!(told(2, 2), None, "no rank of two");
        assert_eq!(told(2, 1), Some(1));
        assert_eq!(told(8, 5), Some(5));
        assert_eq!(told(2, 0), Some(5));
        assert_eq!(told(8, 6), None, "a thread for each of several GPUs");
    }

    #[test]
    fn what_is_skimmed_leaves_definitions_only() {
        let mut process = process();
        process.skim(true);
        steps(&mut process, 50);
        process.push(Record::Name { id: 9, bytes: b"prefill".to_vec() });
        process.skim(false);
        process.push(Record::Path(Path { id: 9, parent: 0, name: 9, domain: 0 }));
        assert_eq!((process.counts().work, process.tables.place(9).stage.is_some()), (0, true));
        assert_eq!(process.tables.stage_name(process.tables.place(9).stage.unwrap()), "prefill");
    }
}
