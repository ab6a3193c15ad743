//! Split collectives and calls without a match -> the rows of each stage, and who came late: which of the delays
//! are more than noise, where they happen and whether they come at regular intervals.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::ranks::matching::{Collectives, Matching, Split, Unmatched};
use crate::ranks::{Calls, Member, MemberCall};
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_model::{
    CollectiveRow, LateDelays, LatePeriod, LateRow, LateSteps, Operation, UnmatchedRow,
};
use stage2_read::trace::collectives::Call;
use stage2_read::trace::stats::{Estimate, Sampled};

type RowKey = (u32, Operation, Option<u64>);

/// Sums of a [`CollectiveRow`]. Of a sample, estimates for all instances; bandwidth is over what was
/// recorded.
#[derive(Default)]
struct Sums {
    members: BTreeSet<Member>,
    calls: Estimate,
    replayed_calls: Estimate,
    calls_without_bytes: Estimate,
    bytes_least_most: Option<(u64, u64)>,
    bytes_total: Estimate,
    time_ns: Estimate,
    matched_calls: Estimate,
    waiting_ns: Option<Estimate>,
    transfer_ns: Option<Estimate>,
    /// Waiting in outliers of the stage.
    outlier_waiting_ns: Estimate,
    /// Waiting and transfer beyond the first instance of the stage in each process, and these.
    warm_ns: Option<(Estimate, Estimate)>,
    bus_bytes: f64,
    bus_ns: u64,
    bus_unknown: bool,
    unmatched: BTreeMap<Unmatched, Estimate>,
}

/// Collectives of each stage, longest time first within a stage.
pub(super) fn collective_rows<'l>(
    calls: &Calls,
    matching: &Matching<'_>,
    found: &Collectives<'_>,
    label: impl Fn(u32) -> &'l str,
) -> Vec<CollectiveRow> {
    let key = |made: MemberCall<'_>| (made.call.stage, made.call.operation, made.call.communicator);
    let mut sums: BTreeMap<RowKey, Sums> = BTreeMap::new();
    for made in calls.all() {
        let MemberCall { call, .. } = made;
        let sum = sums.entry(key(made)).or_default();
        sum.members.insert(made.member());
        let weight = call.weight;
        sum.calls.add(1, weight);
        sum.replayed_calls.add(call.replayed.into(), weight);
        sum.time_ns.add(call.end_ns.saturating_sub(call.start_ns), weight);
        match call.bytes {
            None => sum.calls_without_bytes.add(1, weight),
            Some(bytes) => {
                let (least, most) = sum.bytes_least_most.unwrap_or((bytes, bytes));
                sum.bytes_least_most = Some((least.min(bytes), most.max(bytes)));
                sum.bytes_total.add(bytes, weight);
            }
        }
    }
    for split in &found.split {
        for &(made, waiting_ns, transfer_ns) in &split.members {
            let sum = sums.entry(key(made)).or_default();
            let weight = made.call.weight;
            sum.matched_calls.add(1, weight);
            sum.waiting_ns.get_or_insert_default().add(waiting_ns, weight);
            sum.transfer_ns.get_or_insert_default().add(transfer_ns, weight);
            if made.call.outlier {
                sum.outlier_waiting_ns.add(waiting_ns, weight);
            } else if made.call.instance > 0 {
                let (waiting, transfer) = sum.warm_ns.get_or_insert_default();
                waiting.add(waiting_ns, weight);
                transfer.add(transfer_ns, weight);
            }
        }
        let Some(&(first, ..)) = split.members.first() else { continue };
        let sum = sums.entry(key(first)).or_default();
        match bus_bytes(split) {
            Some(bytes) => {
                sum.bus_bytes += bytes;
                sum.bus_ns = sum.bus_ns.saturating_add(split.last_needed_ns);
            }
            None => sum.bus_unknown = true,
        }
    }
    for &made in found.whole.iter().flatten() {
        sums.entry(key(made)).or_default().matched_calls.add(1, made.call.weight);
    }
    for &(made, why) in &matching.unmatched {
        let unmatched = &mut sums.entry(key(made)).or_default().unmatched;
        unmatched.entry(why).or_default().add(1, made.call.weight);
    }
    let finish = |((path, operation, communicator), sum): (RowKey, Sums)| {
        let bus_known = !sum.bus_unknown && sum.bus_ns > 0 && sum.bus_bytes > 0.0;
        let unmatched = |(why, calls): (Unmatched, Estimate)| UnmatchedRow {
            calls: calls.get(),
            why: why.to_string(),
            remedy: why.remedy().to_owned(),
        };
        CollectiveRow {
            stage: label(path).to_owned(),
            operation,
            communicator: communicator.map(|hash| format!("{hash:016x}")),
            members: sum.members.len() as u64,
            calls: sum.calls.get(),
            replayed_calls: sum.replayed_calls.get(),
            calls_without_bytes: sum.calls_without_bytes.get(),
            bytes_min: sum.bytes_least_most.map(|(least, _)| least),
            bytes_max: sum.bytes_least_most.map(|(_, most)| most),
            bytes_total: sum.bytes_least_most.map(|_| sum.bytes_total.get()),
            time_ns: sum.time_ns.get(),
            matched_calls: sum.matched_calls.get(),
            transfer_ns: sum.transfer_ns.map(Estimate::get),
            waiting_ns: sum.waiting_ns.map(Estimate::get),
            warm_transfer_ns: sum.warm_ns.map(|(_, transfer)| transfer.get()),
            warm_waiting_ns: sum.warm_ns.map(|(waiting, _)| waiting.get()),
            outlier_waiting_ns: sum.outlier_waiting_ns.get(),
            bus_gb_per_s: bus_known.then(|| sum.bus_bytes / sum.bus_ns as f64),
            unmatched: sum.unmatched.into_iter().map(unmatched).collect(),
        }
    };
    let mut rows: Vec<CollectiveRow> = sums.into_iter().map(finish).collect();
    rows.order_by_key(|row| Reverse(row.time_ns));
    rows
}

/// Bytes that a collective moves over the links of each member; nothing where members differ in
/// what they say of its size.
fn bus_bytes(split: &Split<'_>) -> Option<f64> {
    let (first, ..) = split.members.first()?;
    let bytes = first.call.bytes?;
    let same = split.members.iter().all(|(made, ..)| made.call.bytes == Some(bytes));
    let factor = first.call.operation.bus_factor(split.members.len() as u64)?;
    same.then_some(bytes as f64 * factor)
}

/// Time that a member waited and transferred in a stage, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Share {
    /// Of all its instances.
    pub(super) all: (u64, u64),
    /// Beyond the first instance and outliers that are left out; nothing where there is no more.
    pub(super) warm: Option<(u64, u64)>,
}

/// The shares of each process in each stage, by stage and process.
pub(super) fn shares(found: &Collectives<'_>) -> BTreeMap<(u32, u32), Share> {
    type Pair = (Estimate, Estimate);
    let mut shares: BTreeMap<(u32, u32), (Pair, Option<Pair>)> = BTreeMap::new();
    for &(made, waiting_ns, transfer_ns) in found.split.iter().flat_map(|split| &split.members) {
        let (all, warm) = shares.entry((made.call.stage, made.process)).or_default();
        let is_warm = made.call.instance > 0 && !made.call.outlier;
        for sum in [Some(all), is_warm.then(|| warm.get_or_insert_default())].into_iter().flatten()
        {
            sum.0.add(waiting_ns, made.call.weight);
            sum.1.add(transfer_ns, made.call.weight);
        }
    }
    let get = |(waiting, transfer): Pair| (waiting.get(), transfer.get());
    let total = |(place, (all, warm)): (_, (Pair, Option<Pair>))| {
        (place, Share { all: get(all), warm: warm.map(get) })
    };
    shares.into_iter().map(total).collect()
}

/// Delays that are so many times what is usual among the others are not noise, ...
const ABOVE_NOISE: u64 = 4;
/// ... and those that are so many times that are none even if the others have some of them.
const FAR_ABOVE_NOISE: u64 = 32;
/// A member is late if it is so many times as often as another one, beyond what is needed anyway.
const OFTENER: f64 = 3.0;
const LEAST: f64 = 3.0;
/// Delays that are so many times the others of the same member are told apart from them.
const APART: f64 = 8.0;
/// They have to be that part of all waiting in the stage, percent.
const NOTABLE_PERCENT: f64 = 5.0;
/// Every so many steps, at most.
const MOST_APART: u32 = 64;
/// Delays from which a period is not chance; of its steps that part has to be late, and where only some of
/// the calls are known, this one of what is expected of them.
const PERIODIC: usize = 4;
const PERIODIC_SHARE: f64 = 0.95;
const PERIODIC_SHARE_OF_PART: f64 = 0.7;

#[derive(Clone, Copy)]
struct Delay<'c> {
    ns: u64,
    /// The part that more GPU work explains, ns.
    work_ns: u64,
    /// What its members waited, each weighted as its own call is.
    waiting_ns: Estimate,
    call: &'c Call,
}

#[derive(Default)]
struct Stage<'c> {
    took_part: BTreeMap<Member, Estimate>,
    /// Paths and numbers of the instances that each member took part in: of the stage, and of the ranges right
    /// within it.
    took_part_in: BTreeMap<Member, BTreeSet<Step>>,
    late: BTreeMap<Member, Vec<Delay<'c>>>,
    waiting_ns: Estimate,
}

/// Who came late, by stage: the latest first within a stage. Of several instances the first, cold one is left out.
/// Of a sample, counts and sums are estimates for all instances; single times are as measured. `stage` and `path` name a
/// stage and a path, `who` states who a member is, in words and by its rank.
pub(super) fn late_rows<'l>(
    found: &Collectives<'_>,
    stage: impl Fn(u32) -> &'l str,
    path: impl Fn(u32) -> &'l str,
    who: impl Fn(Member) -> LateRow,
) -> Vec<(LateRow, Option<LateSpans>)> {
    let mut stages: BTreeMap<u32, Stage<'_>> = BTreeMap::new();
    // Instances of the stages, and of the ranges right within them, by their paths.
    let mut instances: BTreeMap<u32, u32> = BTreeMap::new();
    let all = found.split.iter().flat_map(|split| &split.members);
    let warm = all.filter(|(made, ..)| made.call.instance > 0);
    let with_warm: BTreeSet<u32> = warm.map(|(made, ..)| made.call.stage).into_set();
    let is_cold = |split: &Split<'_>| {
        split
            .members
            .iter()
            .any(|(made, ..)| made.call.instance == 0 && with_warm.contains(&made.call.stage))
    };
    for split in found.split.iter().filter(|split| !is_cold(split)) {
        let mut waited_ns = Estimate::default();
        for &(made, waiting, _) in &split.members {
            let MemberCall { call, .. } = made;
            let of = stages.entry(call.stage).or_default();
            of.took_part.entry(made.member()).or_default().add(1, call.weight);
            of.waiting_ns.add(waiting, call.weight);
            waited_ns.add(waiting, call.weight);
            for (path, number) in
                [Some((call.stage, call.instance)), call.step].into_iter().flatten()
            {
                let most = instances.entry(path).or_default();
                *most = (*most).max(number.saturating_add(1));
                of.took_part_in.entry(made.member()).or_default().insert((path, number));
            }
        }
        if split.late_ns > split.error_ns
            && let Some(last) = split.last
        {
            let (ns, work_ns, call) = (split.late_ns, split.late_work_ns, last.call);
            let late = &mut stages.entry(call.stage).or_default().late;
            let delay = Delay { ns, work_ns, waiting_ns: waited_ns, call };
            late.entry(last.member()).or_default().push(delay);
        }
    }
    let mut rows = Vec::new();
    for (place, of) in stages {
        let mut every_ns: Vec<u64> = of.late.values().flatten().map(|delay| delay.ns).collect();
        every_ns.sort_unstable();
        let members = of.took_part.len();
        for (member, mut late) in of.late {
            late.order_by_key(|delay| (Reverse(delay.ns), delay.call.start_ns));
            let took_part = of.took_part.get(&member).map_or(0, |sum| sum.get());
            let told = above_noise(&late, &every_ns, members, took_part);
            let told = told
                .filter(|told| percent(waiting_of(told), of.waiting_ns.get()) >= NOTABLE_PERCENT);
            let mut spans = None;
            let delays = told.map(|told| {
                let (range, period) = where_and_when(told, &instances);
                let steps = period.and_then(|period| {
                    let late = late_in(told, period.of_steps)?;
                    let at = LateAt { stage: place, member, of_steps: period.of_steps };
                    spans = at.spans(&late, &of.took_part_in, found);
                    late_steps(late, period.of_steps, of.took_part_in.get(&member)?)
                });
                LateDelays {
                    collectives: sum(told, |_| 1),
                    mean_ns: mean(told).round() as u64,
                    max_ns: told.first().map_or(0, |delay| delay.ns),
                    waiting_percent: percent(waiting_of(told), of.waiting_ns.get()),
                    total_ns: sum(told, |delay| delay.ns),
                    work_ns: sum(told, |delay| delay.work_ns),
                    range: path(range).to_owned(),
                    period,
                    steps,
                }
            });
            let row = LateRow {
                stage: stage(place).to_owned(),
                collectives: took_part,
                late_collectives: sum(&late, |_| 1),
                late_total_ns: sum(&late, |delay| delay.ns),
                late_max_ns: late.first().map_or(0, |delay| delay.ns),
                delays,
                ..who(member)
            };
            rows.push((row, spans));
        }
    }
    rows.order_by_key(|(row, _)| {
        Reverse((row.delays.as_ref().map(|delays| delays.total_ns), row.late_total_ns))
    });
    rows
}

/// The sum for all instances of what was recorded.
fn sum(delays: &[Delay<'_>], value: impl Fn(&Delay<'_>) -> u64) -> u64 {
    let mut sum = Estimate::default();
    delays.iter().for_each(|delay| sum.add(value(delay), delay.call.weight));
    sum.get()
}

fn waiting_of(delays: &[Delay<'_>]) -> u64 {
    delays.iter().fold(Estimate::default(), |all, delay| all.plus(delay.waiting_ns)).get()
}

fn percent(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 * 100.0 / of as f64 }
}

fn mean(delays: &[Delay<'_>]) -> f64 {
    delays.iter().map(|delay| delay.ns as f64).sum::<f64>() / delays.len().max(1) as f64
}

/// Those of the delays of a member, the longest first, that the others do not have as well. `every_ns`
/// are those of all members, the shortest first.
fn above_noise<'d, 'c>(
    own: &'d [Delay<'c>],
    every_ns: &[u64],
    members: usize,
    took_part: u64,
) -> Option<&'d [Delay<'c>]> {
    let own_below = |ns: u64| own.len() - own.partition_point(|delay| delay.ns >= ns);
    let others = every_ns.len().saturating_sub(own.len());
    // The median of the others: so many of theirs are shorter.
    let usual_ns = match others {
        0 => 0,
        _ => {
            let (mut low, mut high) = (0, every_ns.len());
            while low < high {
                let at = (low + high) / 2;
                let ns = every_ns.get(at).copied().unwrap_or(u64::MAX);
                let below_or_at = every_ns.partition_point(|&other| other <= ns)
                    - own_below(ns.saturating_add(1));
                if below_or_at > (others - 1) / 2 { high = at } else { low = at + 1 }
            }
            every_ns.get(low).copied().unwrap_or(0)
        }
    };
    let is_late = |some: &[Delay<'_>]| {
        let Some(least) = some.last().map(|delay| delay.ns) else { return false };
        let as_late = every_ns.len() - every_ns.partition_point(|&ns| ns < least);
        let alike = as_late.saturating_sub(own.len() - own_below(least));
        let chance = alike as f64 / members.saturating_sub(1).max(1) as f64;
        let is_far = mean(some) >= usual_ns.saturating_mul(FAR_ABOVE_NOISE) as f64;
        let is_enough = some.len() >= 2 || some.len() as u64 * 8 >= took_part;
        some.len() as f64 >= LEAST + OFTENER * chance || is_far && is_enough
    };
    let above = usual_ns.saturating_mul(ABOVE_NOISE);
    let above = own.get(..own.partition_point(|delay| delay.ns > above)).unwrap_or_default();
    [own, above].into_iter().map(longest).find(|some| is_late(some))
}

/// The delays that make up most of the sum, if they are clearly longer than the others; else all.
fn longest<'d, 'c>(delays: &'d [Delay<'c>]) -> &'d [Delay<'c>] {
    let total: f64 = delays.iter().map(|delay| delay.ns as f64).sum();
    let (mut upper, mut best) = (0.0, (2.0, delays.len()));
    for (at, pair) in delays.windows(2).enumerate() {
        let [longer, shorter] = pair else { continue };
        upper += longer.ns as f64;
        let (above, below) = ((at + 1) as f64, (delays.len() - at - 1) as f64);
        let step = longer.ns as f64 / shorter.ns.max(1) as f64;
        let is_apart =
            upper / above >= APART * (total - upper) / below && upper * 10.0 >= total * 6.0;
        if is_apart && step >= best.0 {
            best = (step, at + 1);
        }
    }
    delays.get(..best.1).unwrap_or(delays)
}

/// The range that all of them happen in, and how often in its instances.
fn where_and_when(
    delays: &[Delay<'_>],
    instances: &BTreeMap<u32, u32>,
) -> (u32, Option<LatePeriod>) {
    let same = |of: fn(&Call) -> Option<u32>| {
        let first = delays.first().and_then(|delay| of(delay.call))?;
        delays.iter().all(|delay| of(delay.call) == Some(first)).then_some(first)
    };
    let stage = delays.first().map_or(0, |delay| delay.call.stage);
    let step = same(|call| call.step.map(|(path, _)| path));
    let range = same(|call| Some(call.path)).or(step).unwrap_or(stage);
    let repeats = |path: &u32| instances.get(path).is_some_and(|&count| count > 1);
    let is_step = step.filter(repeats).is_some();
    let counted = step.filter(|_| is_step).unwrap_or(stage);
    let mut numbers: Vec<u32> = delays
        .iter()
        .filter_map(|delay| match is_step {
            true => delay.call.step.map(|(_, number)| number),
            false => Some(delay.call.instance),
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let count = instances.get(&counted).copied().unwrap_or(0);
    let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else {
        return (range, None);
    };
    // Of a sample there is no telling which instances were late.
    let kept = delays.iter().map(|delay| kept_share(delay.call.weight)).sum::<f64>();
    let kept = kept / delays.len().max(1) as f64;
    let period = (count > 1).then(|| LatePeriod {
        of_steps: is_step,
        instances: count.into(),
        first: first.into(),
        last: last.into(),
        every: every(&numbers, kept).map(u64::from),
    });
    (range, period)
}

/// The path and the number of a step.
type Step = (u32, u32);

/// The step of a call: an instance of a range right within the stage, or else of the stage.
fn step_of(call: &Call, of_steps: bool) -> Option<Step> {
    if of_steps { call.step } else { Some((call.stage, call.instance)) }
}

/// The steps that delays are in, and how late each is, ns; nothing of a sample.
fn late_in(delays: &[Delay<'_>], of_steps: bool) -> Option<BTreeMap<Step, u64>> {
    if delays.iter().any(|delay| delay.call.weight.is_part()) {
        return None;
    }
    let mut late_ns: BTreeMap<Step, u64> = BTreeMap::new();
    for delay in delays {
        let sum = late_ns.entry(step_of(delay.call, of_steps)?).or_default();
        *sum = sum.saturating_add(delay.ns);
    }
    Some(late_ns)
}

/// Other steps of a rank that are enough to compare its late ones with; with fewer, they are compared with those of the
/// other ranks.
pub(crate) const OWN_STEPS_LEAST: usize = 8;

/// From when to when a step lasted, on the monotonic clock of its process, ns.
pub(crate) type StepSpan = (u64, u64);

/// The times of the steps in which a rank is late, and of its others.
#[derive(Debug)]
pub(crate) struct LateSpans {
    pub(crate) stage: u32,
    /// Number of the file of the late rank.
    pub(crate) process: u32,
    pub(crate) late: Vec<StepSpan>,
    /// Other steps of the rank.
    pub(crate) own: Vec<StepSpan>,
    /// The steps of the other ranks, by the numbers of their files.
    pub(crate) others: Vec<(u32, Vec<StepSpan>)>,
}

/// Who is late where.
#[derive(Clone, Copy)]
struct LateAt {
    stage: u32,
    member: Member,
    of_steps: bool,
}

impl LateAt {
    fn spans(
        self,
        late: &BTreeMap<Step, u64>,
        took_part_in: &BTreeMap<Member, BTreeSet<Step>>,
        found: &Collectives<'_>,
    ) -> Option<LateSpans> {
        let &(path, _) = late.keys().next()?;
        let steps_of = |member: Member, calls| {
            let all = step_spans(calls, self.of_steps);
            let is_of_path = |(step, _): &(Step, StepSpan)| {
                let steps = took_part_in.get(&member);
                step.0 == path && steps.is_some_and(|steps| steps.contains(step))
            };
            all.into_iter().filter(is_of_path).collect::<Vec<_>>()
        };
        let own = calls_of(found, |member| member == self.member).remove(&self.member)?;
        let (late_steps, own): (Vec<_>, Vec<_>) =
            steps_of(self.member, own).into_iter().partition(|(step, _)| late.contains_key(step));
        let spans = |steps: Vec<(Step, StepSpan)>| -> Vec<StepSpan> {
            steps.into_iter().map(|(_, span)| span).collect()
        };
        let is_few = own.len() < OWN_STEPS_LEAST;
        let others = calls_of(found, |member| is_few && member.process != self.member.process);
        Some(LateSpans {
            stage: self.stage,
            process: self.member.process,
            late: spans(late_steps),
            others: others
                .into_iter()
                .map(|(member, calls)| (member.process, spans(steps_of(member, calls))))
                .collect(),
            own: spans(own),
        })
    }
}

/// The calls of members, of each in the order of time.
fn calls_of<'c>(
    found: &Collectives<'c>,
    is_wanted: impl Fn(Member) -> bool,
) -> BTreeMap<Member, Vec<&'c Call>> {
    let mut all: BTreeMap<Member, Vec<&Call>> = BTreeMap::new();
    for (made, ..) in found.split.iter().flat_map(|split| &split.members) {
        if is_wanted(made.member()) {
            all.entry(made.member()).or_default().push(made.call);
        }
    }
    all.values_mut().for_each(|calls| calls.order_by_key(|call| (call.start_ns, call.end_ns)));
    all
}

/// The steps of a member in the order of time, each from the end of the last collective before it to that of its own
/// last one: host code that delays a collective runs before it.
fn step_spans(calls: Vec<&Call>, of_steps: bool) -> Vec<(Step, StepSpan)> {
    let mut spans: Vec<(Step, StepSpan)> = Vec::new();
    let (mut last, mut end_ns) = (None, None);
    for call in calls {
        let step = step_of(call, of_steps).or(Some((call.stage, call.instance)));
        if step == last {
            if let Some((_, span)) = spans.last_mut() {
                span.1 = span.1.max(call.end_ns);
            }
        } else if let (Some(step), Some(before_ns)) = (step, end_ns) {
            spans.push((step, (before_ns, call.end_ns)));
        }
        last = step;
        end_ns = end_ns.max(Some(call.end_ns));
    }
    spans
}

/// How many of the steps that a member took part in it delays, and by how much each.
fn late_steps(
    late_ns: BTreeMap<Step, u64>,
    of_steps: bool,
    took_part_in: &BTreeSet<Step>,
) -> Option<LateSteps> {
    let &(path, _) = late_ns.keys().next()?;
    let mut ns: Vec<(u64, u32)> =
        late_ns.into_iter().map(|((_, number), ns)| (ns, number)).collect();
    ns.sort_unstable();
    let &(median_ns, number) = ns.get((ns.len() - 1) / 2)?;
    Some(LateSteps {
        noun: if of_steps { "step" } else { "call" }.to_owned(),
        late: ns.len() as u64,
        of: took_part_in.range((path, 0)..=(path, u32::MAX)).count() as u64,
        median_ns,
        median_number: Some(number.into()),
        max_ns: ns.last()?.0,
        // The starts of ranges are read later: see `step_timeline`.
        begins: None,
    })
}

fn kept_share(weight: Sampled) -> f64 {
    if weight.is_part() { weight.recorded as f64 / weight.instances as f64 } else { 1.0 }
}

/// Every how many instances something happens, if it is at regular intervals. `numbers` are different
/// ones in their order; only the share `kept` of them is known.
fn every(numbers: &[u32], kept: f64) -> Option<u32> {
    let (&first, &last) = (numbers.first()?, numbers.last()?);
    if numbers.len() < PERIODIC {
        return None;
    }
    let share = if kept < 1.0 { PERIODIC_SHARE_OF_PART } else { PERIODIC_SHARE };
    (1..=MOST_APART).rev().find(|&every| {
        let in_time = numbers.iter().filter(|&&number| (number - first) % every == 0).count();
        let of = f64::from((last - first) / every + 1) * kept;
        in_time * 10 >= numbers.len() * 9 && in_time as f64 >= of * share
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::matching::Split;
    use crate::ranks::{Calls, ProcessCalls};

    /// The rows of so many members: `late` gives who is last at a collective, and how late.
    fn rows(members: u32, collectives: u32, late: impl Fn(u32) -> (u32, u64)) -> Vec<LateRow> {
        weighted(members, collectives, |_| Sampled::default(), late)
    }

    fn weighted(
        members: u32,
        collectives: u32,
        weight: impl Fn(u32) -> Sampled,
        late: impl Fn(u32) -> (u32, u64),
    ) -> Vec<LateRow> {
        staged(members, collectives, weight, |_| 0, late)
    }

    /// `stage` gives the stage of a collective.
    fn staged(
        members: u32,
        collectives: u32,
        weight: impl Fn(u32) -> Sampled,
        stage: impl Fn(u32) -> u32,
        late: impl Fn(u32) -> (u32, u64),
    ) -> Vec<LateRow> {
        let mut calls = Calls::default();
        for member in 0..members {
            let weight = weight(member);
            let call = |at: u32| Call { instance: at, weight, stage: stage(at), ..Call::default() };
            let calls_of = (0..collectives).map(call).collect();
            calls.processes.push(ProcessCalls { calls: calls_of, ..ProcessCalls::default() });
        }
        let split = |at: u32| {
            let all: Vec<(u32, usize)> = (0..members).map(|m| (m, at as usize)).collect();
            let made = calls.set(&all);
            let (who, late_ns) = late(at);
            let waits = |m: u32| if m == who { 0 } else { late_ns };
            let members = (0..).zip(&made).map(|(m, &made)| (made, waits(m), 5)).collect();
            let last = made.get(who as usize).copied();
            Split { members, last, late_ns, ..Split::default() }
        };
        let split: Vec<Split<'_>> = (0..collectives).map(split).collect();
        let found = Collectives { split, ..Collectives::default() };
        let who = |member: Member| LateRow {
            who: format!("rank {}", member.process),
            ..LateRow::default()
        };
        let name = |stage: u32| if stage == 0 { "decode" } else { "prefill" };
        late_rows(&found, name, name, who).into_iter().map(|(row, _)| row).collect()
    }

    #[test]
    fn a_step_begins_where_the_last_collective_before_it_ended() {
        let mut calls = Calls::default();
        for _ in 0..2 {
            let call = |at: u32| Call {
                instance: at,
                start_ns: u64::from(at) * 100,
                end_ns: u64::from(at) * 100 + 10,
                ..Call::default()
            };
            let calls_of = (0..40).map(call).collect();
            calls.processes.push(ProcessCalls { calls: calls_of, ..ProcessCalls::default() });
        }
        let spans = |is_late: fn(u32) -> bool| {
            let split = |at: u32| {
                let made = calls.set(&[(0, at as usize), (1, at as usize)]);
                let late_ns = if is_late(at) { 10_000 } else { 0 };
                let members = vec![(made[0], late_ns, 5), (made[1], 0, 5)];
                Split { members, last: made.get(1).copied(), late_ns, ..Split::default() }
            };
            let split: Vec<Split<'_>> = (0..40).map(split).collect();
            let found = Collectives { split, ..Collectives::default() };
            let rows = late_rows(&found, |_| "decode", |_| "decode", |_| LateRow::default());
            rows.into_iter().next().and_then(|(_, spans)| spans).expect("rank 1 is late")
        };
        let often = spans(|at| at.is_multiple_of(2));
        assert_eq!((often.process, often.late.len(), often.own.len()), (1, 19, 20));
        assert_eq!((often.late[0], often.own[0]), ((110, 210), (10, 110)));
        assert!(often.others.is_empty(), "its own steps are enough");
        let mostly = spans(|at| !at.is_multiple_of(8));
        assert_eq!((mostly.late.len(), mostly.own.len()), (35, 4));
        let of_the_other = (1..40).map(|at| (at * 100 - 90, at * 100 + 10)).collect();
        assert_eq!(mostly.others, [(0, of_the_other)]);
    }

    fn sentences(rows: &[LateRow]) -> Vec<String> {
        rows.iter().filter_map(LateRow::delay_sentence).collect()
    }

    /// Times like those of chance, none of them twice.
    fn noise(at: u32) -> u64 {
        let unit = f64::from(at.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24);
        (-(1.0 - unit).ln() * 50_000.0) as u64 + 1
    }

    #[test]
    fn a_rank_that_is_much_later_at_some_collectives_is_late_at_those() {
        let late = |at: u32| match at % 32 {
            31 => (1, 10_684_000 + u64::from(at)),
            _ if at.is_multiple_of(97) => (0, 30_000),
            _ => (1, noise(at)),
        };
        assert_eq!(
            sentences(&rows(2, 768, late)),
            [
                "rank 1 is late in 24 of 767 calls, every 32nd call, by 10.68 ms; that is 87 % of the time that ranks wait in \
                collectives of decode"
            ]
        );
    }

    #[test]
    fn the_first_cold_instance_of_several_makes_nobody_late() {
        let late = |at: u32| if at == 0 { (0, 131_000_000) } else { (1, 50_000) };
        let rows = rows(2, 100, late);
        assert_eq!(rows.iter().map(|row| row.late_max_ns).collect::<Vec<_>>(), [50_000]);
        assert_eq!(
            sentences(&rows),
            [
                "rank 1 is late in 99 of 99 calls, by 50.0 us; that is 100 % of the time that ranks wait in \
                collectives of decode"
            ]
        );
        let only = self::rows(2, 1, |_| (0, 131_000_000));
        assert_eq!(only.iter().map(|row| row.late_max_ns).collect::<Vec<_>>(), [131_000_000]);
    }

    #[test]
    fn what_all_ranks_have_is_noise() {
        for (members, collectives) in [(2, 20), (2, 768), (8, 64), (8, 5_000), (100, 3_000)] {
            let random = |at: u32| (at.wrapping_mul(0x9e37_79b9) >> 7) % members;
            let rows = rows(members, collectives, |at| (random(at), noise(at)));
            assert!(!rows.is_empty(), "they are in the data");
            assert_eq!(sentences(&rows), [""; 0], "{members} members, {collectives} collectives");
        }
    }

    #[test]
    fn a_rank_that_is_a_little_late_nearly_always_is_late() {
        let late = |at: u32| if at % 10 == 3 { (0, 30_000) } else { (1, 50_000) };
        assert_eq!(
            sentences(&rows(2, 1_000, late)),
            ["rank 1 is late in 899 of 999 calls, by 50.0 us; that is \
              94 % of the time that ranks wait in collectives of decode"]
        );
    }

    #[test]
    fn the_waiting_of_a_late_rank_is_a_share_of_that_in_its_stage() {
        // Each of two ranks waits as long for the other one in a prefill as nobody does in decode.
        let late = |at: u32| match at {
            768.. => (at % 2, 400_000_000),
            _ if at % 8 == 7 => (1, 4_000_000),
            _ => (0, 1_000),
        };
        let stage = |at: u32| u32::from(at >= 768);
        let rows = staged(2, 784, |_| Sampled::default(), stage, late);
        assert_eq!(
            sentences(&rows)[..1],
            ["rank 1 is late in 96 of 767 calls, every eighth call, by 4.00 ms; that is 100 % \
              of the time that ranks wait in collectives of decode"]
        );
    }

    #[test]
    fn a_late_rank_causes_no_more_waiting_than_there_is() {
        // Of the calls of rank 1 an eighth was kept, and of rank 0 all.
        let weight = |member| Sampled { instances: 8, recorded: if member == 1 { 1 } else { 8 } };
        let rows = weighted(2, 100, weight, |_| (1, 50_000));
        let percent = |row: &LateRow| row.delays.as_ref().map(|delays| delays.waiting_percent);
        assert_eq!(rows.iter().filter_map(percent).collect::<Vec<_>>(), [100.0]);
    }

    #[test]
    fn ranks_of_a_slow_host_are_late_each() {
        let late = |at: u32| match at % 10 {
            9 => (at / 10 % 8, 4_000_000),
            _ => (at % 100, noise(at)),
        };
        assert_eq!(sentences(&rows(100, 8_000, late)).len(), 8);
    }

    #[test]
    fn a_period_is_told_where_it_is_there() {
        let all = |step: usize| (7..800).step_by(step).collect::<Vec<u32>>();
        assert_eq!((every(&all(8), 1.0), every(&all(1), 1.0)), (Some(8), Some(1)));
        assert_eq!(every(&[7, 15, 23], 1.0), None, "too few");
        assert_eq!(every(&[3, 4, 9, 60, 61, 300, 400], 1.0), None);
        // Of a part of the calls, half of the steps show nothing.
        let half: Vec<u32> = all(8).into_iter().filter(|at| at / 8 % 3 != 1).collect();
        assert_eq!((every(&half, 0.66), every(&half, 1.0)), (Some(8), None));
    }
}
