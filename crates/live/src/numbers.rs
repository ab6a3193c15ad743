//! What a stage did: steps, time on the GPU, and where that went. Sums, so that they can be added; those of
//! one second each make the window of the last ten seconds.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use stage2_contract::stats::Histogram;
use stage2_model::{
    OUTLIER_TIMES_MEDIAN, OUTLIER_TIMES_NEXT, OUTLIERS_AMONG, OUTLIERS_MOST, OUTLIERS_ONE_IN,
    OUTLIERS_PERCENT,
};
use stage2_read::engine::StepWork;
use stage2_read::trace::stats::{EXACT_VALUES, Series};

use crate::WINDOW_S;
use crate::host::{HostIdle, HostSlot};
use crate::instances::{Root, Step};
use crate::tables::{COMMUNICATION, COUNT, KernelId};

/// Upper bounds of the buckets of step times, seconds. Fixed, so that they can be added over processes
/// and time; the last bucket, without a bound, is not listed.
pub const BUCKETS_S: [f64; 19] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 25.0, 50.0, 100.0,
];

/// What a step works on, as far as it states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) tokens: Option<u64>,
    pub(crate) requests: Option<u64>,
    /// It continues requests that an earlier step of the engine started.
    pub(crate) goes_on: bool,
}

impl From<StepWork> for Batch {
    fn from(work: StepWork) -> Self {
        let requests = work.prefill_requests.saturating_add(work.decode_requests);
        // As in a report: how many drafted tokens a step accepts is not known.
        let tokens = work.prompt_tokens().map(|read| read.saturating_add(work.decode_requests));
        Self { tokens, requests: Some(requests), goes_on: work.goes_on() }
    }
}

/// Sums over a time, of one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageNumbers {
    /// Instances of the stage that ended.
    pub steps: u64,
    /// Of these, instances whose work was recorded.
    pub recorded_steps: u64,
    /// How long they were open together, ns.
    pub steps_ns: u64,
    /// Of a window: steps that repeat within the instances, where these are mostly steps; else 0. `step_times` are theirs.
    pub within: u64,
    /// How long each took: a step of an engine until the next one began, if that continued a request. Up to 512
    /// steps a second are kept one by one. Other hosts get the distribution only.
    #[serde(with = "crate::message::times")]
    pub step_times: Series,
    /// Of a whole recording: the same steps as a report has them. Other hosts are not told of them.
    #[serde(skip)]
    pub run: Option<RunSteps>,
    /// Steps by how long they were open: a count for each bucket of [`BUCKETS_S`], and one for
    /// longer steps.
    pub step_buckets: [u64; BUCKETS_S.len() + 1],
    /// Tokens of those steps that say so.
    pub tokens: u64,
    /// Steps that said how many tokens.
    pub steps_with_tokens: u64,
    /// How long these were open together, ns.
    pub tokens_ns: u64,
    /// Sum of the requests over the engine steps that give them.
    pub requests: u64,
    /// Steps that gave their requests.
    pub steps_with_requests: u64,
    /// Union of the windows of its recorded instances, ns.
    pub window_ns: u64,
    /// Time in which any GPU work of the stage ran, ns.
    pub busy_ns: u64,
    /// Gaps in that work no longer than what one launch behind another leaves, within windows, ns.
    pub gaps_ns: u64,
    /// Time within windows in which work of other stages ran, and none of this one, ns.
    pub other_ns: u64,
    /// Kernels, copies, fills and graphs.
    pub launches: u64,
    /// Of a window: those of the instances that were over in it, with what they did before it, and how many instances
    /// or steps that were. An edge of the window cuts none of them.
    pub whole_launches: u64,
    /// See there.
    pub whole_each: u64,
    /// Time of work by class, ns, by the number of the class. Work that overlaps counts twice.
    pub class_ns: [u64; COUNT],
    /// Pieces of work by class, by the number of the class.
    pub class_launches: [u64; COUNT],
}

impl StageNumbers {
    pub(crate) fn add_step(&mut self, step: &Step) {
        self.step(step.end - step.start, step.batch);
        self.recorded_steps += u64::from(step.recorded == Some(true));
        if let Some(ns) = step.ns {
            add_time(&mut self.step_times, ns);
        }
    }

    fn step(&mut self, ns: u64, batch: Batch) {
        self.steps = self.steps.saturating_add(1);
        self.steps_ns = self.steps_ns.saturating_add(ns);
        let seconds = ns as f64 / 1e9;
        let at = BUCKETS_S.partition_point(|&bound| bound < seconds);
        if let Some(bucket) = self.step_buckets.get_mut(at) {
            *bucket += 1;
        }
        if let Some(tokens) = batch.tokens {
            self.steps_with_tokens += 1;
            self.tokens_ns = self.tokens_ns.saturating_add(ns);
            self.tokens = self.tokens.saturating_add(tokens);
        }
        if let Some(requests) = batch.requests {
            self.steps_with_requests += 1;
            self.requests = self.requests.saturating_add(requests);
        }
    }

    pub(crate) fn work(&mut self, class: u8, ns: u64) {
        self.launches = self.launches.saturating_add(1);
        for (sums, more) in [(&mut self.class_ns, ns), (&mut self.class_launches, 1)] {
            if let Some(sum) = sums.get_mut(usize::from(class)) {
                *sum = sum.saturating_add(more);
            }
        }
    }

    /// Adds another time, or another process.
    pub fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.steps, other.steps),
            (&mut self.recorded_steps, other.recorded_steps),
            (&mut self.steps_ns, other.steps_ns),
            (&mut self.within, other.within),
            (&mut self.tokens, other.tokens),
            (&mut self.steps_with_tokens, other.steps_with_tokens),
            (&mut self.tokens_ns, other.tokens_ns),
            (&mut self.requests, other.requests),
            (&mut self.steps_with_requests, other.steps_with_requests),
            (&mut self.window_ns, other.window_ns),
            (&mut self.busy_ns, other.busy_ns),
            (&mut self.gaps_ns, other.gaps_ns),
            (&mut self.other_ns, other.other_ns),
            (&mut self.launches, other.launches),
            (&mut self.whole_launches, other.whole_launches),
            (&mut self.whole_each, other.whole_each),
        ];
        let buckets = self.step_buckets.iter_mut().zip(other.step_buckets);
        let classes = self.class_ns.iter_mut().zip(other.class_ns);
        let launches = self.class_launches.iter_mut().zip(other.class_launches);
        for (sum, more) in sums.into_iter().chain(buckets).chain(classes).chain(launches) {
            *sum = sum.saturating_add(more);
        }
        self.step_times.merge(&other.step_times);
        if let Some(other) = &other.run {
            self.run.get_or_insert_default().merge(other);
        }
    }

    /// The time that so many percent of the steps do not exceed, ns: of a recording the one of a report.
    pub fn step_time(&self, percent: u64) -> Option<u64> {
        match percent {
            50 => self.times().median(),
            _ => self.times().percentile(percent),
        }
    }

    fn times(&self) -> &Series {
        self.run.as_ref().map_or(&self.step_times, |run| &run.times)
    }

    /// How many steps [`Self::step_time`] is of.
    pub fn timed_steps(&self) -> u64 {
        self.times().count()
    }

    /// What `step_times` are of, instances or steps within them: how many ended, and to how many the recorded work
    /// belongs, about: those that an edge of a window cuts count in part.
    pub fn each(&self) -> (u64, f64) {
        let all = if self.within > 0 { self.within } else { self.steps };
        let recorded = match (self.whole_launches, self.steps) {
            (0, 0) => all as f64,
            (0, steps) => all as f64 * self.recorded_steps as f64 / steps as f64,
            (whole, _) => self.launches as f64 * self.whole_each as f64 / whole as f64,
        };
        (all, recorded)
    }

    /// From here on the times are those of steps within the instances.
    pub(crate) fn take_within(&mut self, times: Series) {
        self.within = self.within.saturating_add(times.count());
        self.step_times = times;
    }

    /// Share of the windows in which the GPU worked for the stage; nothing without a window.
    pub fn busy_share(&self) -> Option<f64> {
        self.share_of_windows(self.busy_ns)
    }

    /// Share of the windows that launch gaps take.
    pub fn gap_share(&self) -> Option<f64> {
        // What came late may be beyond the windows: the parts of the time add up to all of it.
        self.share_of_windows(self.gaps_ns.min(self.window_ns.saturating_sub(self.busy_ns)))
    }

    /// Mean number of requests in a step, over the steps that give it.
    pub fn requests_per_step(&self) -> Option<f64> {
        let (steps, requests) = match &self.run {
            Some(run) => (run.steps_with_requests, run.requests),
            None => (self.steps_with_requests, self.requests),
        };
        (steps > 0 && self.steps_with_requests > 0).then(|| requests as f64 / steps as f64)
    }

    /// The part of the time in its instances that those with known tokens were open: of no other time, a rate is known.
    pub fn tokens_part(&self) -> Option<f64> {
        let is_known = self.steps_with_tokens > 0 && self.steps_ns > 0 && self.tokens_ns > 0;
        is_known.then(|| (self.tokens_ns as f64 / self.steps_ns as f64).min(1.0))
    }

    fn share_of_windows(&self, ns: u64) -> Option<f64> {
        (self.window_ns > 0).then(|| ns.min(self.window_ns) as f64 / self.window_ns as f64)
    }
}

/// Steps of a whole recording that are timed: how long each took, and what they worked on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSteps {
    times: Series,
    tokens: u64,
    /// How long the steps took together whose tokens are known, ns.
    tokens_ns: u64,
    requests: u64,
    steps_with_requests: u64,
}

impl RunSteps {
    fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.tokens_ns = self.tokens_ns.saturating_add(other.tokens_ns);
        self.requests = self.requests.saturating_add(other.requests);
        self.steps_with_requests =
            self.steps_with_requests.saturating_add(other.steps_with_requests);
    }

    fn push(&mut self, ns: u64, batch: Batch) -> bool {
        if let Some(tokens) = batch.tokens {
            self.tokens = self.tokens.saturating_add(tokens);
            self.tokens_ns = self.tokens_ns.saturating_add(ns);
        }
        if let Some(requests) = batch.requests {
            self.requests = self.requests.saturating_add(requests);
            self.steps_with_requests += 1;
        }
        let is_kept = self.times.push(ns);
        self.times.fold(EXACT_VALUES);
        is_kept
    }

    /// Whether a report may find some of them to be outliers, whose time its shares leave out: those are far longer than
    /// most, and hold a part of the time.
    pub fn may_have_outliers(&self) -> bool {
        let longest = self.times.max().unwrap_or(0) as f64;
        let times =
            |factor: f64, of: Option<u64>| of.is_some_and(|ns| longest >= ns as f64 * factor);
        let part = longest * OUTLIERS_MOST as f64 * 100.0;
        self.times.count() >= OUTLIERS_AMONG
            && times(OUTLIER_TIMES_MEDIAN, self.times.median())
            && times(OUTLIER_TIMES_NEXT as f64, self.times.percentile(100 - 100 / OUTLIERS_ONE_IN))
            && part >= self.times.sum() as f64 * OUTLIERS_PERCENT as f64
    }

    /// Mean time of a step, ns.
    pub fn mean_ns(&self) -> Option<f64> {
        let steps = self.times.count();
        (steps > 0).then(|| self.times.sum() as f64 / steps as f64)
    }

    /// Tokens per second of the steps whose tokens are known.
    pub fn tokens_per_s(&self) -> Option<f64> {
        let seconds = self.tokens_ns as f64 / 1e9;
        (self.tokens > 0 && seconds > 0.0).then(|| self.tokens as f64 / seconds)
    }
}

/// The steps of a recording by stage, or by the ranges within it: those that a report times, and the cold ones.
#[derive(Debug, Default)]
pub(crate) struct Run {
    steps: FxHashMap<(u16, Option<u32>), [RunSteps; 2]>,
    /// Times that are kept one by one.
    kept: usize,
}

/// Of all stages together.
const TIMES_KEPT: usize = 1 << 18;

impl Run {
    pub(crate) fn add(&mut self, step: &Step) {
        let Some(ns) = step.ns else { return };
        let [warm, cold] = self.steps.entry((step.stage, step.within)).or_default();
        let steps = if step.is_cold { cold } else { warm };
        self.kept += usize::from(steps.push(ns, step.batch));
        if self.kept > TIMES_KEPT {
            self.steps.values_mut().flatten().for_each(|steps| steps.times.fold(0));
            self.kept = 0;
        }
    }

    /// Those of a stage, which are of one kind of range within it, or the instances.
    pub(crate) fn of(&self, stage: u16, within: Option<u32>) -> Option<&[RunSteps; 2]> {
        self.steps.get(&(stage, within))
    }
}

/// The warm steps of all parts of a stage; the cold ones where there are no others.
pub(crate) fn steps_of<'r>(parts: impl Iterator<Item = &'r [RunSteps; 2]>) -> Option<RunSteps> {
    let mut all = <[RunSteps; 2]>::default();
    for part in parts {
        all.iter_mut().zip(part).for_each(|(all, part)| all.merge(part));
    }
    all.into_iter().find(|steps| steps.times.count() > 0)
}

/// Times that are kept one by one, of a stage in a second; of more, the distribution.
const TIMES_EXACT: usize = 1 << 9;

fn add_time(times: &mut Series, ns: u64) {
    times.push(ns);
    times.fold(TIMES_EXACT);
}

/// How many, and how long together, ns.
fn timed(times: &Series) -> (u64, u64) {
    (times.count(), u64::try_from(times.sum()).unwrap_or(u64::MAX))
}

/// Records of GPU work by what is known of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Kernels, copies, fills and graphs.
    pub work: u64,
    /// Of these, launched in a range.
    pub attributed: u64,
    /// Launched while no range of the program was open.
    pub outside: u64,
    /// Whose launch could not be placed, by the collector or because we forgot its range.
    pub unattributed: u64,
    /// What was beyond the limits of the reader: definitions and ranges.
    pub left_out: u64,
}

/// The last seconds of a process, or its whole recording.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Window {
    /// It is the whole recording, without the first call of each stage that has others.
    pub is_whole: bool,
    /// It is the last of several windows of recording of the process.
    #[serde(default)]
    pub is_last: bool,
    /// Its length, ns; 0: there is no data. Of a whole recording: the time in calls, if there are any.
    pub ns: u64,
    /// When it ends, ns since the Unix epoch; nothing where no clock reading says it.
    pub end_wall_ns: Option<u64>,
    /// Stages by name.
    pub stages: BTreeMap<String, StageNumbers>,
    /// Kernels, the longest first.
    pub kernels: Vec<KernelRow>,
    /// GPUs with work.
    pub devices: Vec<DeviceBusy>,
    /// What the host did while no work ran on them.
    pub host: HostIdle,
    /// What it did in the calls of each stage while no work of the stage ran, by its name; of the last seconds, of those stages
    /// with enough samples.
    pub hosts: BTreeMap<String, HostIdle>,
    /// The last minute, which ends with the window.
    pub minute: Minute,
}

/// The last minute of a process: a value for each whole second, the newest last. A process that is younger has
/// fewer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minute {
    /// Steps of each stage that ended in the second, and how long they took together, ns.
    pub steps: BTreeMap<String, Vec<(u64, u64)>>,
    /// How long a GPU of the process worked in the second: the mean of those with work, ns.
    pub busy_ns: Vec<u64>,
}

/// A kernel within a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRow {
    /// The stage.
    pub stage: String,
    /// Its short name.
    pub name: String,
    /// Its class, for [`class_label`](crate::class_label).
    pub class: u8,
    /// Time of all launches, ns.
    pub ns: u64,
    /// Launches.
    pub launches: u64,
    /// Of communication: what a launch takes that does not wait long for others (the 25th percentile), ns.
    pub quick_ns: Option<u64>,
}

/// How long a GPU worked for a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBusy {
    /// As the process numbers it.
    pub device: u32,
    /// Time during which at least one operation of the process ran on the GPU, ns.
    pub busy_ns: u64,
}

/// A stage, and the number of the name of a range right within it.
pub(crate) type Kind = (u16, u32);

pub(crate) const SLOT_NS: u64 = 1_000_000_000;
/// Slots that are kept: the window, and what is newer than its end.
const KEPT: u64 = WINDOW_S + 12;
/// Seconds of the charts.
pub const MINUTE_S: u64 = 60;
/// Kernels of a slot that have their own row.
const KERNELS: usize = 2_048;

#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) stages: FxHashMap<u16, StageNumbers>,
    /// The times of ranges of one name right within their instances.
    pub(crate) within: FxHashMap<Kind, Series>,
    /// Instances that were over, all of their launches, and the ranges of one name right within them.
    pub(crate) whole: FxHashMap<u16, (u64, u64)>,
    pub(crate) whole_within: FxHashMap<Kind, u64>,
    /// Time and number of launches by stage and kernel.
    pub(crate) kernels: FxHashMap<(u16, KernelId), (u64, u64)>,
    /// The times of those that communicate.
    pub(crate) communication: FxHashMap<(u16, KernelId), Histogram>,
    pub(crate) device_busy: FxHashMap<u32, u64>,
    pub(crate) host: HostSlot,
    /// What the host did in the calls of each stage while no work of the stage ran, by the number of the stage.
    pub(crate) hosts: FxHashMap<u16, HostSlot>,
    /// Of a recording: the time that it is about, ns.
    pub(crate) ns: u64,
}

impl Slot {
    /// An instance is over, and all of its work is known.
    pub(crate) fn is_over(&mut self, root: &Root) {
        let (instances, launches) = self.whole.entry(root.stage).or_default();
        (*instances, *launches) = (*instances + 1, launches.saturating_add(root.launches));
        for (name, count) in &root.within {
            *self.whole_within.entry((root.stage, *name)).or_default() += count;
        }
    }

    pub(crate) fn kernel(&mut self, stage: u16, (kernel, class): (KernelId, u8), ns: u64) {
        let known = self.kernels.len() < KERNELS || self.kernels.contains_key(&(stage, kernel));
        let key = if known { (stage, kernel) } else { (stage, KernelId::OTHER) };
        let sum = self.kernels.entry(key).or_default();
        *sum = (sum.0.saturating_add(ns), sum.1 + 1);
        if class == COMMUNICATION {
            self.communication.entry(key).or_default().add(ns);
        }
    }
}

/// What is kept of a slot until it is a minute old.
#[derive(Debug, Default)]
struct PastSlot {
    steps: FxHashMap<u16, (u64, u64)>,
    within: FxHashMap<Kind, (u64, u64)>,
    busy_ns: u64,
}

impl PastSlot {
    fn of(slot: &Slot) -> Self {
        let busy = slot.device_busy.values().filter(|busy_ns| **busy_ns > 0);
        let all = busy.clone().fold(0u64, |all, more| all.saturating_add(*more));
        let with_steps = slot.stages.iter().filter(|(_, numbers)| numbers.step_times.count() > 0);
        PastSlot {
            steps: with_steps.map(|(&id, sum)| (id, timed(&sum.step_times))).collect(),
            within: slot.within.iter().map(|(&kind, steps)| (kind, timed(steps))).collect(),
            busy_ns: all / busy.count().max(1) as u64,
        }
    }
}

/// A piece of GPU work that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoneWork {
    pub(crate) end: u64,
    pub(crate) ns: u64,
    pub(crate) stage: u16,
    pub(crate) class: u8,
    /// In a first call of its stage.
    pub(crate) is_cold: bool,
    /// Nothing: a copy, a fill or a graph.
    pub(crate) kernel: Option<KernelId>,
}

/// A step, or a piece of GPU work, that ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Step(Step),
    Work(DoneWork),
}

impl Ended {
    fn at(&self) -> u64 {
        match self {
            Ended::Step(step) => step.end,
            Ended::Work(work) => work.end,
        }
    }
}

/// What waits for its time; with more of it, all is counted at once.
const AHEAD: usize = 1 << 18;

/// Slots by the second that they are of.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    all: BTreeMap<u64, Slot>,
    past: BTreeMap<u64, PastSlot>,
    /// What belongs to seconds that are kept no more.
    dropped: Slot,
    /// Everything up to here is counted, and what ended later waits: a rate is of the same time as the window.
    counted_to: u64,
    ahead: Vec<Ended>,
    /// The whole recording: the calls but the first of each stage, the first ones, and the time before any call.
    pub(crate) run: [Slot; 3],
}

/// Numbers of [`Slots::run`].
pub(crate) const WARM: usize = 0;
pub(crate) const COLD: usize = 1;
pub(crate) const BEFORE: usize = 2;

impl Slots {
    pub(crate) fn at(&mut self, ns: u64) -> &mut Slot {
        let second = ns / SLOT_NS;
        let newest = self.all.last_key_value().map_or(second, |(&newest, _)| newest.max(second));
        let oldest = newest.saturating_sub(KEPT);
        while self.all.first_key_value().is_some_and(|(&first, _)| first < oldest) {
            if let Some((second, slot)) = self.all.pop_first() {
                self.past.insert(second, PastSlot::of(&slot));
            }
        }
        let oldest_past = oldest.saturating_sub(MINUTE_S - WINDOW_S);
        while self.past.first_key_value().is_some_and(|(&first, _)| first < oldest_past) {
            self.past.pop_first();
        }
        if second < oldest {
            // Nobody reads it: too old for any window.
            self.dropped = Slot::default();
            return &mut self.dropped;
        }
        self.all.entry(second).or_default()
    }

    /// Counts what ended, once all of the window is known up to its end.
    pub(crate) fn ended(&mut self, ended: Ended) {
        match ended.at() > self.counted_to {
            true => self.ahead.push(ended),
            false => self.add_ended(&ended),
        }
        if self.ahead.len() >= AHEAD {
            std::mem::take(&mut self.ahead).iter().for_each(|ended| self.add_ended(ended));
        }
    }

    /// Counts what waits for `to`.
    pub(crate) fn count_to(&mut self, to: u64) {
        self.counted_to = to;
        let due: Vec<Ended> = self.ahead.extract_if(.., |ended| ended.at() <= to).collect();
        due.iter().for_each(|ended| self.add_ended(ended));
    }

    fn add_ended(&mut self, ended: &Ended) {
        match ended {
            Ended::Step(step) => self.add_step(step),
            Ended::Work(work) => self.add_work(work),
        }
    }

    fn add_step(&mut self, step: &Step) {
        self.add(step.end, step.is_cold, |slot| match step.within.zip(step.ns) {
            Some((name, ns)) => {
                add_time(slot.within.entry((step.stage, name)).or_default(), ns);
            }
            None => slot.stages.entry(step.stage).or_default().add_step(step),
        });
    }

    fn add_work(&mut self, work: &DoneWork) {
        let DoneWork { end, ns, stage, class, is_cold, kernel } = *work;
        self.add(end, is_cold, |slot| {
            slot.stages.entry(stage).or_default().work(class, ns);
            if let Some(kernel) = kernel {
                slot.kernel(stage, (kernel, class), ns);
            }
        });
    }

    /// Adds what was at `ns` in a first call of its stage, or in another one.
    fn add(&mut self, ns: u64, is_cold: bool, add: impl Fn(&mut Slot)) {
        add(self.at(ns));
        self.run.get_mut(usize::from(is_cold)).map(add);
    }

    /// What lies in the ten seconds that end with that of `end`.
    pub(crate) fn window(&self, end: u64) -> impl Iterator<Item = &Slot> {
        let last = end / SLOT_NS;
        self.all.range((last + 1).saturating_sub(WINDOW_S)..=last).map(|(_, slot)| slot)
    }

    /// The whole seconds of the minute before `end` that began after `begin`: of a part of one, little would look like
    /// an idle GPU. `step`: what the steps of a stage are, if not its instances.
    pub(crate) fn minute(
        &self,
        begin: u64,
        end: u64,
        name: impl Fn(u16) -> String,
        step: impl Fn(u16) -> Option<u32>,
    ) -> Minute {
        let end = end / SLOT_NS;
        let first = end.saturating_sub(MINUTE_S).max(begin.div_ceil(SLOT_NS)).min(end);
        let length = (end - first) as usize;
        let mut minute = Minute { busy_ns: vec![0; length], ..Minute::default() };
        let mut take = |second: u64, slot: &PastSlot| {
            let at = (second - first) as usize;
            if let Some(busy_ns) = minute.busy_ns.get_mut(at) {
                *busy_ns = slot.busy_ns;
            }
            let own = slot.steps.iter().filter(|(id, _)| step(**id).is_none());
            let within = slot.within.iter().filter(|((id, kind), _)| step(*id) == Some(*kind));
            let within = within.map(|((id, _), times)| (id, times));
            for (&id, &(steps, ns)) in own.chain(within) {
                let all = minute.steps.entry(name(id)).or_insert_with(|| vec![(0, 0); length]);
                if let Some(sum) = all.get_mut(at) {
                    *sum = (sum.0.saturating_add(steps), sum.1.saturating_add(ns));
                }
            }
        };
        self.past.range(first..end).for_each(|(second, slot)| take(*second, slot));
        for (second, slot) in self.all.range(first..end) {
            take(*second, &PastSlot::of(slot));
        }
        minute
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_in_the_bucket_whose_bound_it_does_not_exceed() {
        let mut numbers = StageNumbers::default();
        for ns in [100_000, 100_001, 1_000_000, 200_000_000_000] {
            numbers.step(ns, Batch::default());
        }
        numbers.step(5, Batch { tokens: Some(7), requests: Some(2), goes_on: false });
        assert_eq!(numbers.step_buckets[..4], [2, 1, 0, 1]);
        assert_eq!(numbers.step_buckets[BUCKETS_S.len()], 1);
        assert_eq!((numbers.steps, numbers.tokens, numbers.steps_with_tokens), (5, 7, 1));
        assert_eq!((numbers.requests, numbers.steps_with_requests), (2, 1));
    }

    #[test]
    fn sums_of_parts_are_the_sum() {
        let (mut whole, mut parts) =
            (StageNumbers::default(), [StageNumbers::default(), StageNumbers::default()]);
        for at in 0..20u64 {
            let part = &mut parts[(at % 2) as usize];
            let batch = Batch { tokens: Some(at), requests: Some(at + 1), goes_on: false };
            whole.step(at * 1_000_000, batch);
            part.step(at * 1_000_000, batch);
            whole.work((at % 5) as u8, at);
            part.work((at % 5) as u8, at);
        }
        let [mut sum, second] = parts;
        sum.add(&second);
        assert_eq!(sum, whole);
        assert_eq!(sum.busy_share(), None);
    }

    /// Hazard (Watching what runs): Some steps state no tokens and no requests, such as those of another program, and count
    ///  as steps with none.
    /// Promise: Rates and means are of the steps that state them.
    #[test]
    fn a_step_without_known_tokens_or_requests_does_not_count_as_one_with_none() {
        let known = Batch { tokens: Some(40), requests: Some(8), goes_on: false };
        let mut numbers = StageNumbers::default();
        let mut runs = [RunSteps::default(), RunSteps::default()];
        for _ in 0..3 {
            numbers.step(1_000_000, known);
            runs[0].push(1_000_000, known);
        }
        for _ in 0..9 {
            numbers.step(2_000_000, Batch::default());
            runs[1].push(2_000_000, Batch::default());
        }
        assert_eq!(numbers.requests_per_step(), Some(8.0));
        assert_eq!(numbers.tokens_part(), Some(3.0 / 21.0));
        let [mut all, unknown] = runs;
        assert_eq!(unknown.tokens_per_s(), None);
        all.merge(&unknown);
        numbers.run = Some(all);
        assert_eq!(numbers.requests_per_step(), Some(8.0));
        assert_eq!(numbers.run.and_then(|run| run.tokens_per_s()), Some(40_000.0));
    }

    #[test]
    fn outliers_are_possible_where_few_steps_hold_a_part_of_the_time() {
        let may = |times: &[(u64, u64)]| {
            let mut run = RunSteps::default();
            for &(count, ns) in times {
                for _ in 0..count {
                    run.times.push(ns);
                }
            }
            run.may_have_outliers()
        };
        assert!(may(&[(100, 10), (1, 90)]));
        assert!(!may(&[(100, 10), (1, 39)]), "less than four times the median");
        assert!(!may(&[(90, 10), (10, 31), (1, 90)]), "the tail has no gap");
        assert!(!may(&[(5, 10), (1, 90)]), "too few");
        assert!(!may(&[(20_000, 10), (1, 90)]), "no part of the time");
    }

    #[test]
    fn a_window_is_ten_seconds_and_what_is_older_goes() {
        let mut slots = Slots::default();
        for second in 100..130 {
            slots.at(second * SLOT_NS).stages.entry(1).or_default().step(5, Batch::default());
        }
        let steps = |slots: &Slots, end| {
            let all = slots.window(end * SLOT_NS).filter_map(|slot| slot.stages.get(&1));
            all.map(|numbers| numbers.steps).sum::<u64>()
        };
        assert_eq!((steps(&slots, 126), slots.all.len() as u64), (10, KEPT + 1));
        assert_eq!(steps(&slots, 109), 3, "the seconds from 107 on are kept");
        slots.at(3).stages.entry(1).or_default().step(5, Batch::default());
        assert_eq!((steps(&slots, 3), slots.all.len() as u64), (0, KEPT + 1));
    }

    #[test]
    fn a_minute_has_a_value_for_each_second_and_no_more_than_sixty() {
        let mut slots = Slots::default();
        for second in 100..300 {
            let slot = slots.at(second * SLOT_NS);
            let step = Step { stage: 1, end: second, ns: Some(second), ..Step::default() };
            (0..second % 3).for_each(|_| slot.stages.entry(1).or_default().add_step(&step));
            slot.device_busy = [(0, second), (1, second), (2, 0)].into_iter().collect();
        }
        let of = |begin: u64, end: u64| {
            slots.minute(begin * SLOT_NS, end * SLOT_NS, |id| format!("stage {id}"), |_| None)
        };
        let minute = of(100, 297);
        assert_eq!(minute.busy_ns, (237..=296).collect::<Vec<u64>>(), "idle GPUs do not count");
        let steps: Vec<(u64, u64)> =
            (237..=296).map(|second| (second % 3, second % 3 * second)).collect();
        assert_eq!(minute.steps, [("stage 1".to_owned(), steps)].into());
        assert_eq!(of(290, 297).busy_ns.len(), 7, "a young process");
        assert_eq!(of(500, 297), Minute::default(), "clocks that contradict each other");
        let parts = [(290 * SLOT_NS + 1, 297 * SLOT_NS), (290 * SLOT_NS, 297 * SLOT_NS - 1)];
        let whole = parts.map(|(begin, end)| slots.minute(begin, end, |_| String::new(), |_| None));
        let seconds = [(291..=296).collect::<Vec<u64>>(), (290..=295).collect()];
        assert_eq!(whole.map(|of| of.busy_ns), seconds, "no part of a second");
        assert!(slots.past.len() as u64 <= MINUTE_S, "{}", slots.past.len());
    }

    #[test]
    fn kernels_beyond_the_limit_are_one_row() {
        let mut slot = Slot::default();
        for kernel in 0..KERNELS as u32 + 10 {
            slot.kernel(1, (KernelId(kernel + 1), 0), 3);
        }
        assert_eq!(slot.kernels[&(1, KernelId::OTHER)], (30, 10));
        slot.kernel(1, (KernelId(5), 0), 3);
        assert_eq!(slot.kernels[&(1, KernelId(5))], (6, 2));
    }
}
