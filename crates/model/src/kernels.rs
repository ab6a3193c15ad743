//! Rows of kernels that are one kernel together, what they lose, and the stages that are the model's: what
//! several readers of a report compute alike.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::stats::mean;
use stage2_contract::text::listed;

use crate::{
    Bound, CounterRow, KernelRow, PathKind, RATE_SHARE_MOST, Report, StageAnswer, StageRow, Times,
};

/// Rows that are one kernel together.
#[derive(Clone, Debug)]
pub struct Kernel<'r> {
    /// One of its rows, for the names.
    pub row: &'r KernelRow,
    /// None: no call was timed.
    pub total_ns: Option<u64>,
    /// Sum of the durations without the cold instances that shares leave out, ns; none: no call was timed.
    pub usual_ns: Option<u64>,
    /// Executions.
    pub calls: u64,
    /// Executions without those of the cold instances.
    pub usual_calls: u64,
    /// Mean duration, ns; none: no call was timed.
    pub mean_ns: Option<u64>,
    /// GPUs that it ran on.
    devices: BTreeSet<&'r str>,
    /// Share of the sum of the durations of all kernels of the stage, or of the run, in the same way.
    pub percent: Option<f64>,
    /// Those of the longest launch configuration that has some.
    pub counters: Option<&'r CounterRow>,
    /// Share of the rate that the hardware allows at its operations per byte, from 0 to 1: by ncu, or by the larger share
    /// of a peak of sampled counters: that of [`attained`].
    pub attainable: Option<f64>,
    /// The part of its time that it would still need at that rate, from 0 to 1. Where latency bounds it, no call is
    /// shorter than the shortest kernel of the run, whatever the rate.
    pub kept: Option<f64>,
    /// The part of [`Kernel::usual_ns`] in the launch configurations that this share is known of, from 0 to 1.
    pub measured: Option<f64>,
}

impl Kernel<'_> {
    /// The GPUs that it ran on.
    pub fn devices(&self) -> Vec<&str> {
        self.devices.iter().copied().collect()
    }

    /// Mean duration without the cold instances, ns: of [`Kernel::usual_ns`] over [`Kernel::usual_calls`], which are
    /// all timed.
    pub fn usual_mean_ns(&self) -> Option<u64> {
        match self.usual_calls == self.calls {
            true => self.mean_ns,
            false => mean(self.usual_ns?, self.usual_calls),
        }
    }

    /// `0 NVIDIA H200`, or `0 NVIDIA H200 and 7 more`.
    pub fn device(&self) -> String {
        listed(&self.devices.iter().collect::<Vec<_>>(), 1)
    }

    /// What holds it up, by its counters, or that none are known.
    pub fn bound(&self) -> String {
        self.known_bound().unwrap_or_else(|| "not profiled".to_owned())
    }

    /// What holds the kernel up, by its counters; `None` where neither ncu nor samples know it.
    pub fn known_bound(&self) -> Option<String> {
        let Some(counters) = self.counters else {
            return Some(format!("{} (sampled)", self.row.sampled.as_ref()?.bound?.label()));
        };
        let bound = counters.roofline.bound.map_or("not known", |bound| bound.label());
        let launch = if counters.one_launch.is_some() { " (one launch)" } else { "" };
        Some(format!("{bound}{launch}"))
    }
}

/// The kernels of the stages: those of the model's stages first, then those of warm-ups and of work outside
/// of stages; in both the longest first, by [`Kernel::usual_ns`].
pub fn stage_kernels(report: &Report) -> Vec<Kernel<'_>> {
    let totals = stage_totals(report);
    let of_stage = |row: &KernelRow| totals.get(row.stage.as_str()).copied().unwrap_or(0);
    let mut kernels =
        top_kernels(report, usize::MAX, |row| (row.stage.as_str(), row.name_index), of_stage);
    let stages: BTreeSet<&str> = model_stages(report).map(|stage| stage.stage.as_str()).into_set();
    kernels.order_by_key(|kernel| !stages.contains(kernel.row.stage.as_str()));
    kernels
}

/// Sums of the durations of all kernels of each stage, without the cold instances that shares leave out, ns.
pub fn stage_totals(report: &Report) -> HashMap<&str, u64> {
    let mut totals: HashMap<&str, u64> = HashMap::new();
    for row in &report.kernels {
        let total = totals.entry(&row.stage).or_default();
        *total = total.saturating_add(row.times.usual_ns());
    }
    totals
}

/// The kernels with the longest total. Rows of the same `key` are one kernel; its share is of `all_ns`.
pub fn top_kernels<'r, K: Ord + Hash>(
    report: &'r Report,
    limit: usize,
    key: impl Fn(&'r KernelRow) -> K,
    all_ns: impl Fn(&'r KernelRow) -> u64,
) -> Vec<Kernel<'r>> {
    let mut sums: BTreeMap<K, (&KernelRow, Sum, BTreeSet<&str>)> = BTreeMap::new();
    let shortest_ns = shortest_ns(report);
    for row in &report.kernels {
        let of_key = sums.entry(key(row));
        let (_, sum, devices) = of_key.or_insert_with(|| (row, Sum::default(), BTreeSet::new()));
        sum.add(&row.times);
        sum.rate(row, shortest_ns);
        devices.insert(&row.device);
    }
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.order_by_key(|(_, (_, sum, _))| Reverse((sum.usual_ns(), sum.total_ns())));
    let counted = Counted::new(report, key);
    let kernel = |(key, (row, sum, devices)): (K, (&'r KernelRow, Sum, _))| Kernel {
        row,
        total_ns: sum.total_ns(),
        usual_ns: sum.usual_ns(),
        calls: sum.calls,
        usual_calls: sum.calls.saturating_sub(sum.cold_calls),
        mean_ns: sum.mean_ns(),
        devices,
        percent: sum.percent(all_ns(row)),
        counters: counted.get(&key).filter(|_| !sum.is_rated_in_small_part()),
        attainable: sum.attainable(),
        kept: sum.kept(),
        measured: sum.measured(),
    };
    sorted.into_iter().take(limit).map(kernel).collect()
}

/// The shortest call of a kernel in the run, ns: what a launch takes that has next to nothing to do.
fn shortest_ns(report: &Report) -> u64 {
    let times = report.kernels.iter().filter_map(|row| row.times.min_ns.or(row.times.mean_ns));
    times.filter(|ns| *ns > 0).min().unwrap_or(0)
}

/// Usual time of rows whose share of the attainable rate is known, ns.
#[derive(Clone, Copy, Default)]
struct Rated {
    all_ns: f64,
    /// The part of it that they would need at that rate.
    needed_ns: f64,
    /// As much, but not less than the shortest kernels for rows that latency bounds.
    kept_ns: f64,
}

/// Times of several rows together.
#[derive(Clone, Copy, Default)]
struct Sum {
    total_ns: u64,
    /// The part of it in cold instances that shares leave out.
    cold_ns: u64,
    calls: u64,
    cold_calls: u64,
    timed: u64,
    /// Some of it is scaled from a sample.
    scaled: bool,
    /// Least and greatest mean of the rows, ns.
    means_ns: Option<(u64, u64)>,
    /// Of the rows with counters of all launches, and of those with counters of one launch only.
    rated: [Option<Rated>; 2],
}

impl Sum {
    fn add(&mut self, times: &Times) {
        let timed = times.calls.saturating_sub(times.invalid_timestamp_calls);
        self.total_ns = self.total_ns.saturating_add(times.total_ns);
        self.cold_ns = self.cold_ns.saturating_add(times.cold_total_ns);
        self.calls = self.calls.saturating_add(times.calls);
        self.cold_calls = self.cold_calls.saturating_add(times.cold_calls);
        self.timed = self.timed.saturating_add(timed);
        self.scaled |= times.recorded_calls.is_some();
        if let Some(mean) = times.mean_ns {
            let (least, greatest) = self.means_ns.unwrap_or((mean, mean));
            self.means_ns = Some((least.min(mean), greatest.max(mean)));
        }
    }

    fn rate(&mut self, row: &KernelRow, shortest_ns: u64) {
        let Some(share) = attainable(row) else { return };
        let one_launch = own(row).is_some_and(|counters| counters.one_launch.is_some());
        let [all_launches, one] = &mut self.rated;
        let rated = if one_launch { one } else { all_launches }.get_or_insert_default();
        // Rows that were never timed after a cold call count by their share alone.
        let ns = (row.times.usual_ns() as f64).max(1.0);
        let least_ns = match bound(row) {
            Some(Bound::Latency) => shortest_ns as f64 * row.times.usual_calls() as f64,
            _ => 0.0,
        };
        rated.all_ns += ns;
        rated.needed_ns += ns * share;
        rated.kept_ns += (ns * share).max(least_ns.min(ns));
    }

    /// Nothing where the rate is known of too little of the time: launches of other sizes can be bound by something else.
    fn rated(&self) -> Option<Rated> {
        let [all_launches, one] = self.rated;
        let least_ns = self.usual_ns().unwrap_or(0) as f64 * LEAST_MEASURED;
        all_launches.or(one).filter(|rated| rated.all_ns >= least_ns)
    }

    /// Whether rates are known, but not of enough of the time.
    fn is_rated_in_small_part(&self) -> bool {
        self.rated.iter().any(Option::is_some) && self.rated().is_none()
    }

    fn attainable(&self) -> Option<f64> {
        self.rated().map(|rated| rated.needed_ns / rated.all_ns)
    }

    fn kept(&self) -> Option<f64> {
        self.rated().map(|rated| rated.kept_ns / rated.all_ns)
    }

    /// The part of the usual time that the share is known of.
    fn measured(&self) -> Option<f64> {
        let usual_ns = self.usual_ns().filter(|ns| *ns > 0)?;
        Some((self.rated()?.all_ns / usual_ns as f64).min(1.0))
    }

    /// Sum of the durations, ns; nothing where there are calls and none was timed.
    fn total_ns(&self) -> Option<u64> {
        (self.calls == 0 || self.timed > 0).then_some(self.total_ns)
    }

    /// [`Self::total_ns`] without what is left out.
    fn usual_ns(&self) -> Option<u64> {
        Some(self.total_ns()?.saturating_sub(self.cold_ns))
    }

    fn percent(&self, all_ns: u64) -> Option<f64> {
        let usual_ns = self.usual_ns().filter(|_| all_ns > 0)?;
        Some(usual_ns as f64 * 100.0 / all_ns as f64)
    }

    /// Total over calls, ns. Every sum of a sample is rounded by itself, which must not carry their
    /// quotient beyond the means of the rows.
    fn mean_ns(&self) -> Option<u64> {
        let mean = mean(self.total_ns, self.timed)?;
        let means = self.means_ns.filter(|_| self.scaled);
        Some(means.map_or(mean, |(least, greatest)| mean.clamp(least, greatest)))
    }
}

/// The kernels of a class together.
pub struct ClassSum<'r> {
    /// The class.
    pub class: &'r str,
    /// None: no call was timed.
    pub total_ns: Option<u64>,
    /// Executions.
    pub calls: u64,
    /// Sum of the durations without the cold instances that shares leave out, ns; none: no call was timed.
    pub usual_ns: Option<u64>,
    /// Executions without those.
    pub usual_calls: u64,
    /// Share of the sum over all classes, without the cold instances that shares leave out.
    pub percent: Option<f64>,
}

/// The classes of these kernels, the longest first.
pub fn classes<'r>(rows: impl IntoIterator<Item = &'r KernelRow>) -> Vec<ClassSum<'r>> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    rows.into_iter().for_each(|row| sums.entry(&row.class).or_default().add(&row.times));
    let usual_ns = |sum: &Sum| sum.total_ns.saturating_sub(sum.cold_ns);
    let all_ns = sums.values().fold(0u64, |all, sum| all.saturating_add(usual_ns(sum)));
    let class = |(class, sum): (_, Sum)| ClassSum {
        class,
        total_ns: sum.total_ns(),
        calls: sum.calls,
        usual_ns: sum.usual_ns(),
        usual_calls: sum.calls.saturating_sub(sum.cold_calls),
        percent: sum.percent(all_ns),
    };
    let mut classes: Vec<ClassSum<'_>> = sums.into_iter().map(class).collect();
    let percent = |class: &ClassSum<'_>| class.percent.unwrap_or(-1.0);
    classes.order_by(|a, b| {
        percent(b).total_cmp(&percent(a)).then_with(|| b.total_ns.cmp(&a.total_ns))
    });
    classes
}

/// The least part of a kernel's time that its counters have to be of, to stand for all of it.
const LEAST_MEASURED: f64 = 0.25;

/// From this part of a kernel's time on, its counters need no word on the rest.
const NEARLY_ALL: f64 = 0.95;

/// What a kernel could win at the most.
pub struct Loss<'r> {
    /// The kernel.
    pub kernel: &'r Kernel<'r>,
    /// Share of the rate that its operations per byte allow.
    pub attainable: Option<f64>,
    /// Its time in a step, ns.
    pub ns_of_step: Option<f64>,
    /// Of that time, what it would not need at the attainable rate, ns: at the most, as [`Kernel::kept`] is at the least.
    pub ns_per_step: Option<f64>,
}

impl<'r> Loss<'r> {
    /// `steps` are those of [`steps`].
    pub fn of(kernel: &'r Kernel<'r>, steps: &BTreeMap<&str, f64>) -> Self {
        let attainable = kernel.attainable;
        let steps = steps.get(kernel.row.stage.as_str());
        let ns_of_step = kernel.usual_ns.zip(steps).map(|(ns, steps)| ns as f64 / steps);
        let ns_per_step = ns_of_step.zip(kernel.kept).map(|(ns, kept)| ns * (1.0 - kept));
        Self { kernel, attainable, ns_of_step, ns_per_step }
    }

    /// The part of its time, from 0 to 1, that counters were measured of; `None`: nearly all, or no share is known. The
    /// loss takes this part for all.
    pub fn measured_in_part(&self) -> Option<f64> {
        self.attainable?;
        self.kernel.measured.filter(|part| *part < NEARLY_ALL)
    }

    /// Of all its time without that of cold instances, what it would not need at the attainable rate, ns.
    pub fn ns_in_all(&self) -> Option<f64> {
        Some(self.kernel.usual_ns? as f64 * (1.0 - self.kernel.kept?))
    }
}

/// The kernels of a step that read the weights of the model, its KV cache, or neither, and the least time for that.
pub struct ClassFloor {
    /// The class with most of their time, or `other`.
    pub class: String,
    /// What they read; nothing of the model: none of them reads its weights or cache.
    pub reads: Option<&'static str>,
    /// Their time in a step, ns.
    pub ns: f64,
    /// The least time for what they have to read once, ns.
    pub floor_ns: f64,
}

impl ClassFloor {
    /// Whether kernels of a class are among them.
    pub fn contains(&self, class: &str) -> bool {
        class != COMMUNICATION && reads(class) == self.reads
    }

    /// What they could gain at the most, ns.
    pub fn above_ns(&self) -> f64 {
        self.ns - self.floor_ns
    }
}

const WEIGHTS: &str = "the weights";
const KV_CACHE: &str = "the KV cache";
const COMMUNICATION: &str = "communication";

/// What the kernels of a class read of the model.
fn reads(class: &str) -> Option<&'static str> {
    match class {
        "gemm" | "moe" => Some(WEIGHTS),
        "attention" => Some(KV_CACHE),
        _ => None,
    }
}

/// The classes whose floor the model tells, in the order of what they could gain; empty: its floor is not known, or
/// one of them is faster than that. `losses` may be of all stages.
pub fn class_floors(answer: &StageAnswer, losses: &[Loss<'_>]) -> Vec<ClassFloor> {
    let floor = &answer.floor;
    let known = floor.memory_ns.value().filter(|ns| floor.floor_ns.value() == Some(*ns));
    let Some(((all_ns, cache_ns), step)) = known.zip(floor.kv_cache_ns).zip(answer.step.as_ref())
    else {
        return Vec::new();
    };
    let class = |what: Option<&'static str>, floor_ns: f64| {
        let of_class = losses.iter().filter(|loss| {
            let row = loss.kernel.row;
            let is_it = row.class != COMMUNICATION && reads(&row.class) == what;
            row.stage == answer.stage && is_it
        });
        let longest = of_class.clone().max_by_key(|loss| loss.kernel.usual_ns)?;
        let class = what.map_or("other", |_| longest.kernel.row.class.as_str());
        Some(ClassFloor {
            class: class.to_owned(),
            reads: what,
            ns: of_class.filter_map(|loss| loss.ns_of_step).sum(),
            floor_ns: floor_ns * step.shown_ns(1),
        })
    };
    let found = [
        class(Some(WEIGHTS), all_ns - cache_ns),
        class(Some(KV_CACHE), cache_ns),
        class(None, 0.0),
    ];
    let mut found: Vec<ClassFloor> = found.into_iter().flatten().collect();
    if found.iter().any(|class| class.above_ns() < 0.0) {
        return Vec::new();
    }
    found.order_by(|a, b| b.above_ns().total_cmp(&a.above_ns()));
    found
}

/// How many steps of each stage all GPUs took in the instances that [`Kernel::usual_ns`] is of, where that is known.
pub fn steps(report: &Report) -> BTreeMap<&str, f64> {
    let answers = report.answer.stages.iter();
    answers.filter_map(|answer| Some((answer.stage.as_str(), steps_of(report, answer)?))).collect()
}

/// How many of the steps that the answer speaks of all GPUs took for a stage.
fn steps_of(report: &Report, answer: &StageAnswer) -> Option<f64> {
    let stage = answer.stage.as_str();
    let row = report.stages.iter().find(|row| row.stage == stage)?;
    let all = row.instances?;
    let of_stage = report.kernels.iter().filter(|kernel| kernel.stage == stage);
    let cold_calls =
        of_stage.fold(0, |sum: u64, kernel| sum.saturating_add(kernel.times.cold_calls));
    let warm = row.warm.filter(|_| cold_calls > 0).map(|warm| warm.instances);
    let times = answer.step.as_ref()?;
    let path = times.path.as_ref()?;
    let series = report.step_series.iter().find(|s| s.stage == stage && s.path == *path);
    // The series is of one process: the others take as many for each instance of the stage.
    let each = match series {
        _ if path == stage => 1.0,
        Some(series) => {
            let ranks = &report.ranks.stages;
            let own = ranks.iter().find(|row| row.stage == stage && row.file == series.file);
            let own = own.map_or(all, |row| row.instances).max(1);
            let steps = series.buckets.iter().map(|bucket| bucket.steps).sum::<u64>();
            steps as f64 / own as f64
        }
        None => return None,
    };
    let steps = each * warm.unwrap_or(all) as f64 * times.tokens_per_step.unwrap_or(1) as f64;
    (steps > 0.0).then_some(steps)
}

/// Stages of the model: no warm-ups, no operators, and no work outside of ranges.
pub fn model_stages(report: &Report) -> impl Iterator<Item = &StageRow> {
    outermost_ranges(report).filter(|row| row.apart.is_none())
}

/// Stages that have other calls than the first, cold one of each process, which nevertheless is in their shares, sums
/// and calls of kernels.
pub fn stages_with_cold_calls(report: &Report) -> impl Iterator<Item = &StageRow> {
    let has_others = |row: &&StageRow| row.host_warm_instances > Some(0) && row.kernels > Some(0);
    model_stages(report).filter(has_others).filter(|row| !row.leaves_cold_out())
}

/// The sentence about these stages; `None`: there are none. Visible text, not escaped for a format.
pub fn with_cold_calls(report: &Report) -> Option<String> {
    let names: Vec<&str> = stages_with_cold_calls(report).map(|row| row.stage.as_str()).collect();
    let of = stages_in_words(&names);
    match (names.is_empty(), report.is_sampled()) {
        (true, _) => None,
        (false, true) => {
            Some(format!("The numbers of {of} are of all recorded calls, cold or not."))
        }
        (false, false) => Some(format!(
            "The numbers of {of} include the first, cold call, because it cannot be separated from the others."
        )),
    }
}

/// Stages in a sentence: `decode and prefill`, or the first ones and how many more there are.
pub fn stages_in_words(names: &[impl AsRef<str>]) -> String {
    match names {
        [first, second] => format!("{} and {}", first.as_ref(), second.as_ref()),
        all => listed(all, 2),
    }
}

/// The outermost ranges, or the whole process where there are none.
pub fn outermost_ranges(report: &Report) -> impl Iterator<Item = &StageRow> {
    let kinds = [PathKind::Range, PathKind::WholeProcess];
    report.stages.iter().filter(move |row| kinds.contains(&row.kind))
}

/// The longest row with counters of every kernel, by what it is looked up with.
pub struct Counted<'r, K> {
    rows: HashMap<K, (&'r CounterRow, u64)>,
}

impl<'r, K: std::hash::Hash + Eq> Counted<'r, K> {
    /// `key` states which rows stand for one another: those of one kernel in one stage, say.
    pub fn new(report: &'r Report, key: impl Fn(&'r KernelRow) -> K) -> Self {
        let mut rows: HashMap<K, (&CounterRow, u64)> = HashMap::new();
        for row in &report.kernels {
            let Some(counters) = own(row) else { continue };
            let longest = rows.entry(key(row)).or_insert((counters, row.times.total_ns));
            if row.times.total_ns > longest.1 {
                *longest = (counters, row.times.total_ns);
            }
        }
        Self { rows }
    }

    /// The counters of the longest configuration that has some.
    pub fn get(&self, key: &K) -> Option<&'r CounterRow> {
        self.rows.get(key).map(|&(counters, _)| counters)
    }
}

/// The counters of a row, unless they are of a launch in another stage that nothing shows to be the
/// same work.
fn own(row: &KernelRow) -> Option<&CounterRow> {
    let counters = row.counters.as_ref()?;
    let here = counters.profiled_in.as_deref() == Some(row.stage.as_str());
    (here || counters.one_launch.is_none()).then_some(counters)
}

/// Share of the rate that the hardware allows at the operations per byte of a kernel, from 0 to 1. Of several launch
/// configurations it is the mean over the time of those with counters. Where the counters of a configuration are of
/// one launch, which does not stand for the others, it counts only if there is nothing better.
pub fn attained<'r>(rows: impl IntoIterator<Item = &'r KernelRow>) -> Option<f64> {
    let mut sum = Sum::default();
    rows.into_iter().for_each(|row| sum.rate(row, 0));
    sum.attainable()
}

/// What bounds a row, where its counters tell.
fn bound(row: &KernelRow) -> Option<Bound> {
    let counted = own(row).and_then(|counters| counters.roofline.bound);
    counted.or_else(|| row.sampled.as_ref()?.bound)
}

/// That of one row; nothing also where its rate is beyond the peak, so that its numbers cannot be right.
fn attainable(row: &KernelRow) -> Option<f64> {
    let counted = own(row).and_then(|counters| counters.roofline.attainable_share);
    let sampled = || {
        let sampled = row.sampled.as_ref()?;
        let dram = sampled.dram_percent.or(sampled.dram_percent_at_least);
        dram.zip(sampled.tensor_percent).map(|(dram, tensor)| dram.max(tensor) / 100.0)
    };
    let share = counted.or_else(sampled).filter(|share| *share <= RATE_SHARE_MOST);
    share.map(|share| share.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Roofline, StageRow};

    fn row(stage: &str, device: &str, total_ns: u64) -> KernelRow {
        KernelRow {
            stage: stage.into(),
            device: device.into(),
            times: Times { total_ns, calls: 2, mean_ns: Some(total_ns / 2), ..Times::default() },
            ..KernelRow::default()
        }
    }

    #[test]
    fn a_kernel_of_a_stage_has_one_row_over_paths_and_gpus() {
        let mut profiled = row("decode", "0 A", 300);
        profiled.counters = Some(Box::new(CounterRow {
            profiled_in: Some("decode".into()),
            roofline: Roofline { bound: Some(Bound::Memory), ..Roofline::default() },
            ..CounterRow::default()
        }));
        let other = KernelRow { name_index: 1, ..row("decode", "0 A", 600) };
        let warmup = row("warmup", "0 A", 9_000);
        let kernels = vec![warmup, row("decode", "1 A", 100), profiled, other];
        let stage = StageRow { stage: "decode".into(), ..StageRow::default() };
        let report = Report { kernels, stages: vec![stage], ..Report::default() };
        let shown = stage_kernels(&report);
        let facts = |k: &Kernel<'_>| (k.total_ns, k.calls, k.mean_ns, k.percent, k.bound());
        let facts: Vec<_> = shown.iter().map(|k| (k.row.stage.as_str(), facts(k))).collect();
        let not_profiled = || "not profiled".to_owned();
        let expected = [
            ("decode", (Some(600), 2, Some(300), Some(60.0), not_profiled())),
            ("decode", (Some(400), 4, Some(100), Some(40.0), "memory".to_owned())),
            ("warmup", (Some(9_000), 2, Some(4_500), Some(100.0), not_profiled())),
        ];
        assert_eq!(facts, expected, "the stages of the model come first");
        assert_eq!(shown[1].device(), "0 A and 1 more");
    }

    #[test]
    fn times_calls_and_shares_can_all_leave_out_the_cold_calls() {
        let cold = |row: KernelRow, cold_total_ns| KernelRow {
            times: Times { cold_calls: 1, cold_total_ns, ..row.times.clone() },
            ..row
        };
        let other = KernelRow { name_index: 1, class: "gemm".into(), ..row("decode", "0 A", 200) };
        let kernels = vec![cold(row("decode", "0 A", 1_000), 900), cold(other, 100)];
        let report = Report { kernels, ..Report::default() };
        let shown = stage_kernels(&report);
        let facts = |k: &Kernel<'_>| (k.usual_ns, k.usual_calls, k.usual_mean_ns(), k.percent);
        let half = (Some(100), 1, Some(100), Some(50.0));
        assert_eq!(shown.iter().map(facts).collect::<Vec<_>>(), [half, half]);
        let classes = classes(&report.kernels);
        let facts = |c: &ClassSum<'_>| (c.usual_ns, c.usual_calls, c.percent);
        assert_eq!(classes.iter().map(facts).collect::<Vec<_>>(), [(Some(100), 1, Some(50.0)); 2]);
    }

    /// A row with counters of a launch of `place`.
    fn counted(place: &str, one_launch: bool) -> KernelRow {
        let counters = CounterRow {
            profiled_in: Some(place.into()),
            one_launch: one_launch.then(|| "two workloads".into()),
            ..CounterRow::default()
        };
        KernelRow { counters: Some(Box::new(counters)), ..row("decode", "0 A", 500) }
    }

    #[test]
    fn launches_with_different_shares_of_the_roof_add_up_to_what_their_kernel_loses() {
        let rated = |total_ns, share: Option<f64>| {
            let mut row = counted("decode", share.is_none());
            let counters = row.counters.as_mut().expect("counters");
            counters.roofline.attainable_share = share;
            KernelRow { times: Times { total_ns, calls: 1, ..Times::default() }, ..row }
        };
        // The longest launch has counters, but no share of the roof.
        let kernels = vec![rated(600, None), rated(300, Some(0.2)), rated(100, Some(1.0))];
        let report = Report { kernels, ..Report::default() };
        let kernels = stage_kernels(&report);
        let [kernel] = &kernels[..] else { panic!("{kernels:?}") };
        assert_eq!(kernel.attainable, Some(0.4), "160 of 400 ns");
        // A few small launches do not stand for the large ones.
        let kernels = vec![rated(600, None), rated(100, Some(0.2))];
        let few = Report { kernels, ..Report::default() };
        let few = stage_kernels(&few);
        assert_eq!(
            (few[0].attainable, few[0].measured, few[0].bound().as_str()),
            (None, None, "not profiled")
        );
        let none = Report { kernels: vec![rated(600, None)], ..Report::default() };
        assert_eq!(stage_kernels(&none)[0].attainable, None);
        // Counters of one launch count where there are no others, and impossible ones nowhere.
        let mut one = rated(900, Some(1.0));
        one.counters.as_mut().expect("counters").one_launch = Some("it differs".into());
        assert_eq!(attained([&one]), Some(1.0));
        assert_eq!(attained([&one, &rated(100, Some(0.2))]), Some(0.2));
        assert_eq!(attained([&rated(100, Some(9.0)), &rated(100, Some(f64::NAN))]), None);
    }

    #[test]
    fn latency_bounds_what_a_call_can_save() {
        let kernel = |name_index, bound: Bound, (total_ns, calls)| {
            let mut row = KernelRow { name_index, ..counted("decode", false) };
            let counters = row.counters.as_mut().expect("counters");
            (counters.roofline.attainable_share, counters.roofline.bound) =
                (Some(0.1), Some(bound));
            row.times = Times { total_ns, calls, min_ns: Some(1_000), ..Times::default() };
            row
        };
        let kernels = vec![
            kernel(0, Bound::Latency, (40_000, 20)),
            kernel(1, Bound::Memory, (30_000, 20)),
            kernel(2, Bound::Latency, (20_000, 20)),
            kernel(3, Bound::Latency, (10_000, 1)),
        ];
        let report = Report { kernels, ..Report::default() };
        let kernels = stage_kernels(&report);
        let steps = BTreeMap::from([("decode", 10.0)]);
        let losses = kernels.iter().map(|kernel| {
            let loss = Loss::of(kernel, &steps);
            assert_eq!(loss.attainable, Some(0.1), "its share of the roof stays");
            [loss.ns_in_all(), loss.ns_per_step].map(|ns| ns.expect("a loss").round())
        });
        let expected = [[20e3, 2e3], [27e3, 2.7e3], [0.0, 0.0], [9e3, 900.0]];
        assert_eq!(losses.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_launch_elsewhere_stands_for_a_kernel_only_where_it_agrees() {
        let of = |place, one_launch| {
            let kernels = vec![counted(place, one_launch)];
            let report = Report { kernels, ..Report::default() };
            Counted::new(&report, |row| row.name_index).get(&0).is_some()
        };
        assert!(of("decode", false) && of("decode", true) && of("prefill", false));
        assert!(!of("prefill", true));
    }
}
