//! The records of one trace file, in order -> totals of its process, and the window of the last seconds.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use stage2_contract::text::visible;
use stage2_contract::trace::{
    Anchor, DeviceState, FieldValue, GpuWork, Losses, Payload, Process as Who, RANGE_OUTSIDE,
    RANGE_UNKNOWN, Record, What,
};

use crate::class;
use crate::counters::{Counter, Counters};
use crate::instances::{Instances, Step};
use crate::numbers::StageNumbers;
use crate::settled::Settled;
use crate::slots::{SLOT_NS, Slots, by_stage};
use crate::stage::Stage;
use crate::tables::{KernelId, OUTSIDE, Tables, UNATTRIBUTED};
use crate::window::{Counts, DeviceBusy, KernelRow, Window};
use crate::{SETTLE_NS, WINDOW_S};

/// The field of a range that says how many tokens an instance is about.
const TOKENS: &[u8] = b"tokens";
/// GPUs of a process that are kept.
const DEVICES: usize = 64;
/// Facts of a process that are kept, and bytes of one.
const FACTS: usize = 256;
const FACT_BYTES: usize = 4_096;
/// How far the data may go on before it is settled, ns of its own time.
const STRIDE_NS: u64 = SLOT_NS / 2;
/// Seconds that are settled one by one; of a longer pause the first part is one piece.
const SINGLE_SLOTS: u64 = 32;

/// What the user knows of the ranges.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Stages whose NVTX payload is a number of tokens, as they are called in reports.
    pub tokens_in_payload: Vec<String>,
}

/// One trace file, as far as it was read.
#[derive(Debug, Default)]
pub struct Process {
    options: Options,
    who: Option<Who>,
    facts: BTreeMap<String, String>,
    tables: Tables,
    instances: Instances,
    stages: FxHashMap<u16, Stage>,
    devices: FxHashMap<u32, (Settled, u64)>,
    states: BTreeMap<u32, DeviceState>,
    counters: Counters,
    slots: Slots,
    steps: Vec<Step>,
    anchor: Option<Anchor>,
    /// Monotonic time less GPU time.
    gpu_behind_ns: Option<i128>,
    counts: Counts,
    losses: Losses,
    end: Option<String>,
    gated: bool,
    begin: Option<u64>,
    front: u64,
    settled: u64,
    late_ns: u64,
    /// Only definitions are taken.
    skims: bool,
}

impl Process {
    /// A file of which nothing was read.
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// From here on (`true`) only what later records refer to is taken, and no range and no work.
    pub fn skim(&mut self, skims: bool) {
        self.skims = skims;
    }

    /// Takes the next record.
    pub fn push(&mut self, record: Record) {
        match record {
            Record::RangeOpen(open) if !self.skims => {
                let place = self.tables.place(open.path);
                self.seen(open.start.0);
                self.instances.open(&open, place, &mut self.steps);
                if let Some(payload) = open.payload
                    && let Some(stage) = place.stage.filter(|_| place.of_program)
                    && self.is_tokens(stage)
                {
                    self.instances.tokens(open.range, whole(payload).unwrap_or(0));
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
                for field in fields.iter().filter(|field| self.tables.is_name(field.name, TOKENS)) {
                    let tokens = match field.value {
                        FieldValue::U64(tokens) => Some(tokens),
                        FieldValue::I64(tokens) => u64::try_from(tokens).ok(),
                        FieldValue::F64(_) | FieldValue::Name(_) => None,
                    };
                    tokens.into_iter().for_each(|tokens| self.instances.tokens(range, tokens));
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
            Record::CounterSet(set) => self.counters.define(&set),
            Record::CounterSamples(samples) => self.counters.add(&samples),
            Record::DeviceState(state)
                if self.states.len() < DEVICES || self.states.contains_key(&state.device) =>
            {
                self.states.insert(state.device, state);
            }
            Record::Losses(losses) => self.losses = losses,
            Record::End { reason } => {
                self.end = Some(visible(reason.as_bytes()));
                self.finish();
            }
            _ => {}
        }
    }

    fn seen(&mut self, at: u64) {
        self.begin.get_or_insert(at);
        self.front = self.front.max(at);
    }

    fn count_steps(&mut self) {
        for step in std::mem::take(&mut self.steps) {
            let ns = step.end - step.start;
            self.stages.entry(step.stage).or_default().totals.step(ns, step.tokens);
            let slot = self.slots.at(step.end);
            slot.stages.entry(step.stage).or_default().step(ns, step.tokens);
        }
    }

    fn work(&mut self, work: &GpuWork) {
        let (kernel, class) = match work.what {
            What::Kernel { shape } => self.tables.kernel_of(shape),
            What::Copy { .. } => (KernelId::OTHER, class::MEMCPY),
            What::Fill { .. } => (KernelId::OTHER, class::MEMSET),
            What::Graph { .. } => (KernelId::OTHER, class::GRAPH),
        };
        self.counts.work += 1;
        self.counts.kernels += u64::from(work.is_kernel());
        let (mut stage, mut root) = (OUTSIDE, None);
        match work.range {
            RANGE_OUTSIDE => self.counts.outside += 1,
            RANGE_UNKNOWN => {
                stage = UNATTRIBUTED;
                self.counts.unattributed += 1;
            }
            range => match self.instances.place(range) {
                None => {
                    stage = UNATTRIBUTED;
                    self.counts.unattributed += 1;
                }
                Some((None, _)) => self.counts.outside += 1,
                Some((Some(known), instance)) => {
                    (stage, root) = (known, instance);
                    self.counts.attributed += 1;
                }
            },
        }
        let on_our_clock = |at: u64| u64::try_from(i128::from(at) + self.gpu_behind_ns?).ok();
        let timed = work.start.0 != 0 && work.start <= work.end;
        let span = on_our_clock(work.start.0).zip(on_our_clock(work.end.0)).filter(|_| timed);
        let known = self.stages.entry(stage).or_default();
        let Some((start, end)) = span else {
            self.counts.untimed += 1;
            known.totals.work(class, 0);
            return;
        };
        if let Some(root) = root {
            root.worked_to = root.worked_to.max(end);
        }
        known.totals.work(class, end - start);
        let late = known.work.add(start, end);
        known.totals.late_ns = known.totals.late_ns.saturating_add(late);
        let mut full = known.work.is_full();
        let slot = self.slots.at(end);
        slot.stages.entry(stage).or_default().work(class, end - start);
        slot.late_ns = slot.late_ns.saturating_add(late);
        self.late_ns = self.late_ns.saturating_add(late);
        if work.is_kernel() {
            slot.kernel(stage, kernel, end - start);
        }
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
            self.settled = self.begin.unwrap_or(to).min(to);
        }
        while self.settled < to {
            let boundary = (self.settled / SLOT_NS + 1).saturating_mul(SLOT_NS);
            let pause = (to - self.settled) / SLOT_NS > 2 * SINGLE_SLOTS;
            let next = if pause { to - SINGLE_SLOTS * SLOT_NS } else { boundary.min(to) };
            self.settle_slice(next);
        }
    }

    fn settle_slice(&mut self, to: u64) {
        for root in self.instances.roots.values() {
            if self.gated && root.recorded != Some(true) {
                continue;
            }
            let end = root.end.map_or(to, |end| end.max(root.worked_to));
            let (start, end) = (root.start.max(self.settled), end.min(to));
            if start < end {
                self.stages.entry(root.stage).or_default().window(start, end);
            }
        }
        self.instances.forget(to);
        // It ends with this slice, and so belongs to the slot before a boundary.
        let slot = self.slots.at(to - 1);
        for (&id, stage) in &mut self.stages {
            let found = stage.settle(to);
            if found != StageNumbers::default() {
                stage.totals.add(&found);
                slot.stages.entry(id).or_default().add(&found);
            }
        }
        for (&device, (union, total)) in &mut self.devices {
            let busy: u64 = union.settle(to).pieces.iter().map(|(start, end)| end - start).sum();
            *total = total.saturating_add(busy);
            *slot.device_busy.entry(device).or_default() += busy;
        }
        self.settled = to;
    }

    /// Nothing more comes for now: all that is known is final.
    pub fn finish(&mut self) {
        self.instances.end_closing(&mut self.steps);
        self.count_steps();
        let waits = self.stages.values().any(|stage| !stage.work.is_empty());
        if waits || self.front > self.settled {
            self.settle(self.front.saturating_add(1));
        }
    }

    /// The last seconds.
    pub fn window(&self) -> Window {
        let Some(begin) = self.begin.filter(|_| self.settled > 0) else { return Window::default() };
        let last = self.settled - 1;
        let from = (last / SLOT_NS + 1).saturating_sub(WINDOW_S) * SLOT_NS;
        let mut kernels: FxHashMap<(u16, KernelId), (u64, u64)> = FxHashMap::default();
        let mut devices: BTreeMap<u32, u64> = BTreeMap::new();
        for slot in self.slots.window(last) {
            for (&(stage, kernel), &(ns, launches)) in &slot.kernels {
                let sum = kernels.entry((self.tables.whole_stage(stage), kernel)).or_default();
                *sum = (sum.0.saturating_add(ns), sum.1 + launches);
            }
            for (&device, &busy) in &slot.device_busy {
                *devices.entry(device).or_default() += busy;
            }
        }
        let mut kernels: Vec<KernelRow> = kernels
            .into_iter()
            .map(|((stage, kernel), (ns, launches))| {
                let (name, class) = self.tables.kernel_name(kernel);
                let stage = self.tables.stage_name(stage).to_owned();
                KernelRow { stage, name: name.to_owned(), class, ns, launches }
            })
            .collect();
        kernels.sort_by(|a, b| {
            b.ns.cmp(&a.ns).then_with(|| (&a.stage, &a.name).cmp(&(&b.stage, &b.name)))
        });
        Window {
            ns: self.settled.saturating_sub(from.max(begin)),
            end_wall_ns: self.wall_ns(self.settled),
            stages: self.by_name(&by_stage(self.slots.window(last))),
            kernels,
            devices: devices
                .into_iter()
                .map(|(device, busy_ns)| DeviceBusy { device, busy_ns })
                .collect(),
        }
    }

    fn wall_ns(&self, at: u64) -> Option<u64> {
        let anchor = self.anchor.filter(|anchor| anchor.wall.0 > 0)?;
        u64::try_from(i128::from(anchor.wall.0) - i128::from(anchor.mono.0) + i128::from(at)).ok()
    }

    /// When the last event was, ns since the Unix epoch.
    pub fn last_wall_ns(&self) -> Option<u64> {
        self.wall_ns(self.front)
    }

    /// Sums of each stage since the beginning. They never fall.
    pub fn totals(&self) -> BTreeMap<String, StageNumbers> {
        self.by_name(self.stages.iter().map(|(id, stage)| (id, &stage.totals)))
    }

    /// Stages that were joined have one name.
    fn by_name<'n>(
        &self,
        numbers: impl IntoIterator<Item = (&'n u16, &'n StageNumbers)>,
    ) -> BTreeMap<String, StageNumbers> {
        let mut sums: BTreeMap<String, StageNumbers> = BTreeMap::new();
        for (&id, more) in numbers {
            sums.entry(self.tables.stage_name(id).to_owned()).or_default().add(more);
        }
        sums
    }

    /// Time in which each GPU worked, since the beginning.
    pub fn device_totals(&self) -> Vec<DeviceBusy> {
        let all =
            self.devices.iter().map(|(&device, &(_, busy_ns))| DeviceBusy { device, busy_ns });
        let mut all: Vec<DeviceBusy> = all.collect();
        all.sort_by_key(|busy| busy.device);
        all
    }

    /// Records so far.
    pub fn counts(&self) -> Counts {
        let left_out = self.tables.left_out.saturating_add(self.instances.left_out);
        Counts { left_out, ..self.counts }
    }

    /// What the collector lost so far.
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// Who it is; nothing before the file says it.
    pub fn who(&self) -> Option<&Who> {
        self.who.as_ref()
    }

    /// A fact of the file.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts.get(key).map(String::as_str)
    }

    /// Why the file ended; nothing while it goes on.
    pub fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }

    /// Last values of sampled counters.
    pub fn counters(&self) -> Vec<Counter> {
        self.counters.last()
    }

    /// What the driver said last of each GPU.
    pub fn device_states(&self) -> impl Iterator<Item = &DeviceState> {
        self.states.values()
    }

    /// Time on the GPU that came too late for the busy time, ns.
    pub fn late_ns(&self) -> u64 {
        self.late_ns
    }
}

fn whole(payload: Payload) -> Option<u64> {
    match payload {
        Payload::U64(value) => Some(value),
        Payload::I64(value) => u64::try_from(value).ok(),
        Payload::F64(value) => (0.0..=1e15).contains(&value).then_some(value as u64),
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
