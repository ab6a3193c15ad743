//! Windows, busy times, outliers and groups of GPU work -> one row for each stage.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::join::kernels::percent;
use crate::join::paths::add_times;
use crate::join::{Groups, Labels, Mapping, Tables};
use stage2_contract::order::Order as _;
use stage2_contract::text::{kernel_name, visible};
use stage2_contract::trace::GpuNs;
use stage2_model::{
    BusyParts, OUTLIER_TIMES_NEXT, OUTLIERS_MOST, OUTLIERS_ONE_IN, Outlier, Outliers, PathKind,
    StageDeviceRow, StageRow, StepUnit, WarmRow,
};
use stage2_read::trace::outliers::{Alone, Found, Looked};
use stage2_read::trace::ranges::{PathTimes, StageTimes, WarmTimes};
use stage2_read::trace::stats::{Series, Work, mean};
use stage2_read::trace::work_unions::WorkTime;
use stage2_read::trace::{ProcessCapture, StageCapture};

/// What the processes measured of each stage.
#[derive(Debug, Default)]
pub(super) struct StageTotals {
    stages: BTreeMap<u32, Stage>,
    /// Some process recorded GPU work; else nobody says of how many instances.
    some_recorded: bool,
}

#[derive(Debug, Default)]
struct Stage {
    times: PathTimes,
    /// A process recorded GPU work of it; else nothing is known of the GPU: that is not zero.
    gpu_recorded: bool,
    window_ns: Option<u64>,
    /// A process could not tell its window.
    window_missing: bool,
    has_ranges: bool,
    kernels_per_instance: Series,
    busy_ns: u64,
    busy_parts: BusyParts,
    short_gaps_ns: u64,
    late_ns: u64,
    busy_by_device: BTreeMap<u32, u64>,
    /// The instances without the first of each process.
    warm: WarmRow,
    /// A process could not tell its first instance apart.
    warm_missing: bool,
    outliers: OutlierSums,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    kernels: u64,
    kernels_timed: u64,
    kernel_sum_ns: u64,
    copies: u64,
    fills: u64,
    graph_launches: u64,
}

impl StageTotals {
    pub(super) fn add_process(
        &mut self,
        process: &ProcessCapture,
        mapping: &Mapping,
        tables: &Tables,
    ) {
        let some_recorded = process.gpu_recorded();
        self.some_recorded |= some_recorded;
        for (&path, captured) in &process.stages {
            let gpu_recorded = some_recorded && captured.recorded;
            let stage = self.stages.entry(mapping.path(path)).or_default();
            stage.gpu_recorded |= gpu_recorded;
            stage.busy_ns = stage.busy_ns.saturating_add(captured.busy.all.busy_ns);
            stage.busy_parts = stage.busy_parts.plus(busy_parts(captured.busy));
            stage.short_gaps_ns = stage.short_gaps_ns.saturating_add(short_gaps_ns(captured));
            stage.late_ns = stage.late_ns.saturating_add(captured.busy.all.late_ns);
            for (&device, busy) in &captured.by_device {
                let sum = stage.busy_by_device.entry(mapping.device(device)).or_default();
                *sum = sum.saturating_add(busy.busy_ns);
            }
            if let Some(whole) = process.whole.as_ref().filter(|whole| whole.path == path) {
                stage.add_window(whole.window_ns);
            }
            stage.has_ranges |= captured.times.is_some();
            if let Some(times) = captured.times.as_ref().filter(|_| gpu_recorded) {
                stage.add_windows(times, captured);
                if let Some(found) = &captured.outliers {
                    stage.outliers.add_process(process, found, tables);
                }
            }
            if let Some(times) = process.path_times.get(&path) {
                add_times(&mut stage.times, times, some_recorded);
            }
        }
    }

    /// The rows: ranges by summed kernel time, then what is in no range. On `shared` devices, those of
    /// several processes at once, idle time is not known.
    pub(super) fn rows(
        self,
        groups: &Groups,
        labels: &Labels<'_>,
        shared: &BTreeSet<u32>,
    ) -> Vec<StageRow> {
        let totals = totals(groups, labels);
        let row = |(path, stage): (u32, Stage)| {
            let on_shared = stage.ran_on(shared);
            let mut row = stage.row(path, labels, &totals);
            row.recorded_instances = row.recorded_instances.filter(|_| self.some_recorded);
            if on_shared {
                (row.gpu_idle_ns, row.gpu_busy_percent, row.gpu_short_gaps_ns) = (None, None, None);
            }
            row
        };
        let mut rows: Vec<StageRow> = self.stages.into_iter().map(row).collect();
        rows.order_by_cached_key(|row| {
            (row.kind, Reverse(row.kernel_sum_ns), Reverse(row.host_total_ns), row.stage.clone())
        });
        rows
    }
}

/// Short gaps in the work of a stage, as far as they lie in its windows: between these it may be the
/// turn of another stage.
fn short_gaps_ns(stage: &StageCapture) -> u64 {
    let between_ns = stage.times.as_ref().map_or(0, |times| times.between_ns);
    stage.busy.all.short_gaps_ns.saturating_sub(between_ns)
}

impl Stage {
    fn add_windows(&mut self, times: &StageTimes, captured: &StageCapture) {
        self.kernels_per_instance.merge(&times.kernels_per_instance);
        self.add_window(times.window_ns);
        let Some(WarmTimes { instances, window_ns, kernels }) = times.warm else {
            self.warm_missing = true;
            return;
        };
        // The work of the first instance overlaps no other's: that was looked at.
        let (all, cold) = (captured.busy, captured.cold_busy);
        let short_gaps_ns = short_gaps_ns(captured).saturating_sub(cold.all.short_gaps_ns);
        add_busy(&mut self.warm, all.without(cold), short_gaps_ns);
        self.warm.instances = self.warm.instances.saturating_add(instances);
        self.warm.gpu_window_ns = self.warm.gpu_window_ns.saturating_add(window_ns);
        self.warm.kernels = self.warm.kernels.saturating_add(kernels);
    }

    fn add_window(&mut self, window_ns: Option<u64>) {
        match window_ns {
            Some(ns) => self.window_ns = Some(self.window_ns.unwrap_or(0).saturating_add(ns)),
            None => self.window_missing = true,
        }
    }

    /// Whether one of its devices is among `devices`; without work on any, each may be meant.
    fn ran_on(&self, devices: &BTreeSet<u32>) -> bool {
        let mut own = self.busy_by_device.keys();
        let none = self.busy_by_device.is_empty() && !devices.is_empty();
        none || own.any(|device| devices.contains(device))
    }

    fn row(self, path: u32, labels: &Labels<'_>, totals: &HashMap<(u32, u32), Totals>) -> StageRow {
        let mut all = Totals::default();
        let mut devices = Vec::with_capacity(self.busy_by_device.len());
        for (&device, &gpu_busy_ns) in &self.busy_by_device {
            let on_device = totals.get(&(path, device)).copied().unwrap_or_default();
            all.add(&on_device);
            devices.push(StageDeviceRow {
                device: labels.device(device).to_owned(),
                gpu_busy_ns,
                kernels: on_device.kernels,
                kernel_sum_ns: on_device.kernel_sum_ns,
            });
        }
        let window_ns = self.window_ns.filter(|_| !self.window_missing);
        let idle_ns = window_ns.map(|window| window.saturating_sub(self.busy_ns));
        let known = |value: u64| self.gpu_recorded.then_some(value);
        let per_instance = &self.kernels_per_instance;
        let warm = &self.times.host_warm_ns;
        let ranges = self.has_ranges.then_some(&self.times);
        let node = labels.tables.nodes.get(path as usize);
        StageRow {
            stage: labels.path(path).to_owned(),
            kind: node.map_or(PathKind::Undefined, |node| node.kind),
            instances: ranges.map(|times| times.instances),
            recorded_instances: ranges.and_then(|times| times.recorded),
            unclosed: ranges.map(|times| times.unclosed),
            host_total_ns: ranges.and_then(|times| times.host_total_ns),
            host_first_ns: ranges.and_then(|times| times.host_first_ns),
            host_warm_instances: ranges.map(|_| warm.count()),
            host_warm_mean_ns: warm.mean(),
            host_warm_std_ns: warm.deviation(),
            host_warm_median_ns: warm.median(),
            gpu_window_ns: window_ns,
            gpu_busy_ns: known(self.busy_ns),
            gpu_busy_uncertain_ns: self.late_ns,
            gpu_idle_ns: idle_ns,
            gpu_short_gaps_ns: idle_ns.map(|idle| idle.min(self.short_gaps_ns)),
            gpu_busy_percent: window_ns.and_then(|window| percent(self.busy_ns, window)),
            gpu_busy_parts: self.gpu_recorded.then_some(self.busy_parts),
            kernels: known(all.kernels),
            kernels_per_instance_min: per_instance.min(),
            kernels_per_instance_max: per_instance.max(),
            kernels_per_instance_median: per_instance.median(),
            kernel_sum_ns: known(all.kernel_sum_ns),
            kernel_mean_ns: mean(all.kernel_sum_ns, all.kernels_timed),
            copies: known(all.copies),
            fills: known(all.fills),
            graph_launches: known(all.graph_launches),
            warm: Some(self.warm).filter(|warm| !self.warm_missing && warm.instances > 0),
            outliers: self.outliers.finish().filter(|found| !is_usual(found, &self.times)),
            devices,
            // Role, steps and what sets it apart come once the configuration is known.
            ..StageRow::default()
        }
    }
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.kernels = self.kernels.saturating_add(other.kernels);
        self.kernels_timed = self.kernels_timed.saturating_add(other.kernels_timed);
        self.kernel_sum_ns = self.kernel_sum_ns.saturating_add(other.kernel_sum_ns);
        self.copies = self.copies.saturating_add(other.copies);
        self.fills = self.fills.saturating_add(other.fills);
        self.graph_launches = self.graph_launches.saturating_add(other.graph_launches);
    }
}

fn totals(groups: &Groups, labels: &Labels<'_>) -> HashMap<(u32, u32), Totals> {
    let mut totals: HashMap<(u32, u32), Totals> = HashMap::new();
    for (key, stats) in groups {
        let (calls, none) = (stats.calls, Totals::default());
        let own = match key.work {
            Work::Kernel(_) => Totals {
                kernels: calls,
                kernels_timed: stats.timed(),
                kernel_sum_ns: stats.total_ns,
                ..none
            },
            Work::Copy(_) => Totals { copies: calls, ..none },
            Work::Fill => Totals { fills: calls, ..none },
            Work::Graph(_) => Totals { graph_launches: calls, ..none },
        };
        totals.entry((labels.stage_of(key.path), key.device)).or_default().add(&own);
    }
    totals
}

#[derive(Debug, Default)]
struct OutlierSums {
    instances: Looked,
    of_steps: Looked,
    found: Option<Outliers>,
    kernels: BTreeMap<usize, (u64, u64)>,
    /// Some process has outliers of another kind: they are not in `found`, and stay in all numbers.
    others: bool,
}

impl OutlierSums {
    fn add_process(&mut self, process: &ProcessCapture, found: &Found, tables: &Tables) {
        self.instances.add(found.instances);
        self.of_steps.add(found.of_steps);
        if found.all.is_empty() {
            return;
        }
        let unit = if found.steps { StepUnit::RangeWithin } else { StepUnit::Instance };
        let is_known = found.among_enough && found.all.iter().all(|alone| alone.work.is_some());
        if !self.tells_of(unit, is_known) {
            return;
        }
        let Some(sum) = &mut self.found else { return };
        let bytes = |name: u32| process.names.get(name as usize).map(Vec::as_slice);
        for alone in &found.all {
            sum.count += 1;
            sum.time_ns = sum.time_ns.saturating_add(alone.ns());
            add_outlier(&mut sum.gpu, alone, unit);
            let longest = alone.work.as_ref().and_then(|work| work.longest);
            let mono = process.clock.mono(GpuNs(alone.start));
            let busy_ns = alone.work.as_ref().map(|work| work.busy.all.busy_ns);
            sum.longest.push(Outlier {
                file: visible(process.file.as_bytes()),
                wall_ns: mono.zip(process.wall_ahead_ns).and_then(|(mono, ahead)| {
                    i64::try_from(mono.0).ok().map(|mono| mono.saturating_add(ahead))
                }),
                ns: alone.ns(),
                idle_ns: busy_ns.map(|busy_ns| alone.ns().saturating_sub(busy_ns)),
                longest_kernel: longest
                    .and_then(|(name, ns)| Some((kernel_name(bytes(name)?).short, ns))),
            });
            for (&name, &(calls, ns)) in alone.work.iter().flat_map(|work| &work.kernels) {
                let index = bytes(name).and_then(|name| tables.kernel_names.get_index_of(name));
                let Some(index) = index else { continue };
                let of_name = self.kernels.entry(index).or_default();
                of_name.0 = of_name.0.saturating_add(calls);
                of_name.1 = of_name.1.saturating_add(ns);
            }
        }
        // Processes of a job pause together: the longest say it all.
        sum.longest.order_by_key(|one| Reverse(one.ns));
        sum.longest.truncate(OUTLIERS_MOST);
    }

    /// Whether outliers of this kind are those that are told of, and not dropped for others.
    fn tells_of(&mut self, unit: StepUnit, left_out: bool) -> bool {
        // Whole instances say more than steps, and what is left out more than what is only named.
        let rank = |unit, left_out| (left_out, unit == StepUnit::Instance);
        let known = self.found.as_ref().map(|known| rank(known.unit, known.left_out));
        let new = rank(unit, left_out);
        self.others |= known.is_some_and(|known| known != new);
        if known.is_none_or(|known| known < new) {
            self.found = Some(Outliers { unit, left_out, ..Outliers::default() });
            self.kernels.clear();
        }
        known.is_none_or(|known| known <= new)
    }

    fn finish(self) -> Option<Outliers> {
        let mut found = self.found?;
        found.left_out &= !self.others;
        let looked = match found.unit {
            StepUnit::Instance => self.instances,
            _ => self.of_steps,
        };
        (found.of, found.of_ns) = (looked.count, looked.ns);
        found.percent = found.time_ns as f64 * 100.0 / looked.ns.max(1) as f64;
        let kernels = self.kernels.into_iter();
        found.kernels = kernels.map(|(name, (calls, ns))| (name, calls, ns)).collect();
        Some(found)
    }
}

/// Whether an instance that is alone among a few recorded ones is one of many among all: the host times of
/// those that were not recorded are known.
fn is_usual(found: &Outliers, times: &PathTimes) -> bool {
    let all = &times.host_warm_ns;
    let is_sample = times.recorded.is_some() && all.count() >= OUTLIERS_ONE_IN;
    let long = all.percentile(100 - 100 / OUTLIERS_ONE_IN).filter(|_| is_sample);
    let shortest = found.longest.last().map(|one| one.ns);
    found.unit == StepUnit::Instance
        && long.zip(shortest).is_some_and(|(long, ns)| ns < long.saturating_mul(OUTLIER_TIMES_NEXT))
}

fn add_outlier(all: &mut WarmRow, alone: &Alone, unit: StepUnit) {
    all.instances += u64::from(unit == StepUnit::Instance);
    all.gpu_window_ns = all.gpu_window_ns.saturating_add(alone.ns());
    let Some(work) = &alone.work else { return };
    add_busy(all, work.busy, work.busy.all.short_gaps_ns);
    let kernels = work.kernels.values().map(|(calls, _)| *calls);
    all.kernels = kernels.fold(all.kernels, u64::saturating_add);
}

fn add_busy(sum: &mut WarmRow, busy: WorkTime, short_gaps_ns: u64) {
    sum.gpu_busy_ns = sum.gpu_busy_ns.saturating_add(busy.all.busy_ns);
    sum.gpu_short_gaps_ns = sum.gpu_short_gaps_ns.saturating_add(short_gaps_ns);
    sum.gpu_busy_parts = Some(sum.gpu_busy_parts.unwrap_or_default().plus(busy_parts(busy)));
}

/// What the busy time went into.
pub(super) fn busy_parts(time: WorkTime) -> BusyParts {
    let WorkTime { all, kernels_ns, compute_ns } = time;
    BusyParts {
        compute_ns,
        communication_ns: kernels_ns.saturating_sub(compute_ns),
        copies_ns: all.busy_ns.saturating_sub(kernels_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_of_a_sample_is_none_where_one_in_twenty_of_all_is_as_long() {
        let found = Outliers {
            longest: vec![Outlier { ns: 100, ..Outlier::default() }],
            ..Outliers::default()
        };
        let mut times = PathTimes { recorded: Some(10), ..PathTimes::default() };
        for ns in [20; 152] {
            times.host_warm_ns.push(ns);
        }
        assert!(!is_usual(&found, &times), "all others are short");
        for ns in [70; 12] {
            times.host_warm_ns.push(ns);
        }
        assert!(is_usual(&found, &times), "12 of 164 are long");
        let all = PathTimes { recorded: None, ..times };
        assert!(!is_usual(&found, &all), "all were recorded, and looked at");
    }

    #[test]
    fn outliers_are_left_out_only_where_those_of_all_processes_are() {
        use StepUnit::{Instance, RangeWithin};
        let kinds = [(Instance, true), (RangeWithin, true), (Instance, false)];
        for (at, a) in kinds.into_iter().enumerate() {
            for (other, b) in kinds.into_iter().enumerate() {
                let mut sums = OutlierSums::default();
                assert!(sums.tells_of(a.0, a.1));
                assert_eq!(sums.tells_of(b.0, b.1), other <= at, "{a:?} {b:?}");
                let found = sums.finish().expect("outliers");
                assert_eq!(found.unit, kinds[at.min(other)].0, "{a:?} {b:?}");
                assert_eq!(found.left_out, a.1 && a == b, "{a:?} {b:?}");
            }
        }
    }
}
