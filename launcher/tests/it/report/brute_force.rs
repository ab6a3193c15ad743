//! Random captures: what the report says equals what the slowest possible count gives.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::common::trace::Build;
use proptest::prelude::*;
use stage2_contract::trace::{NONE, RANGE_OUTSIDE, RANGE_UNKNOWN};
use stage2_model::{BusyParts, Report, RunInfo, WarmRow};
use stage2_read::trace::{Capture, Tally};
use stage2_report::join::join;

const STAGES: [&str; 2] = ["prefill", "decode"];

#[derive(Clone, Debug)]
struct Instance {
    stage: usize,
    start: u64,
    host_ns: u64,
    /// Kernels launched in it: in the nested range or not, shape, device, start, duration.
    kernels: Vec<Work>,
}

#[derive(Clone, Debug)]
struct Work {
    nested: bool,
    shape: u32,
    device: u32,
    start: u64,
    ns: u64,
}

fn work() -> impl Strategy<Value = Work> {
    (any::<bool>(), 1u32..4, 0u32..2, 0u64..200, 0u64..30)
        .prop_map(|(nested, shape, device, start, ns)| Work { nested, shape, device, start, ns })
}

fn instance() -> impl Strategy<Value = Instance> {
    (0usize..2, 1u64..300, 0u64..60, prop::collection::vec(work(), 0..12)).prop_map(
        |(stage, start, host_ns, mut kernels)| {
            kernels.iter_mut().for_each(|k| k.start += start);
            Instance { stage, start, host_ns, kernels }
        },
    )
}

/// All instances of one process; GPU records come in a random order after all ranges.
fn records(instances: &[Instance], loose: &[Work], order: &[usize]) -> Tally {
    let mut b = Build::process(1, "x");
    b.anchor(1).anchor(500).name(1, b"prefill").name(2, b"decode").name(3, b"layer").name(4, b"k");
    b.name(5, b"ncclDevKernel_AllReduce");
    b.device(0, "A", 1).device(1, "B", 40).shape(1, 4, 1).shape(2, 4, 2).shape(3, 5, 3);
    b.path(1, NONE, 1).path(2, NONE, 2).path(3, 1, 3).path(4, 2, 3);
    let mut gpu = Vec::new();
    for (i, instance) in instances.iter().enumerate() {
        let (range, path) = (1 + 2 * i as u64, instance.stage as u32 + 1);
        b.open(range, path, 0, instance.start).open(range + 1, path + 2, range, instance.start);
        b.close(range + 1, instance.start + instance.host_ns / 2);
        b.close(range, instance.start + instance.host_ns);
        gpu.extend(instance.kernels.iter().map(|k| (range + u64::from(k.nested), k)));
    }
    gpu.extend(loose.iter().map(|k| (if k.nested { RANGE_OUTSIDE } else { RANGE_UNKNOWN }, k)));
    for &pick in order {
        if gpu.is_empty() {
            break;
        }
        let (range, k) = gpu.swap_remove(pick % gpu.len());
        b.kernel(range, k.shape, k.device + 1, (k.start, k.start + k.ns));
    }
    for (range, k) in gpu {
        b.kernel(range, k.shape, k.device + 1, (k.start, k.start + k.ns));
    }
    let mut tally = Tally::default();
    b.end().records.drain(..).for_each(|record| tally.push(record));
    tally
}

fn covered(intervals: impl Iterator<Item = (u64, u64)> + Clone) -> u64 {
    (0..2_000u64).filter(|t| intervals.clone().any(|(s, e)| s <= *t && *t < e)).count() as u64
}

fn stage_kernels(instances: &[Instance], stage: usize) -> impl Iterator<Item = &Work> + Clone {
    instances.iter().filter(move |i| i.stage == stage).flat_map(|i| &i.kernels)
}

/// Communication counts only where nothing computes.
fn parts<'k>(kernels: impl Iterator<Item = &'k Work> + Clone) -> BusyParts {
    let of = |shapes: RangeInclusive<u32>| {
        let of = kernels.clone().filter(move |k| shapes.contains(&k.shape));
        covered(of.map(|k| (k.start, k.start + k.ns)))
    };
    BusyParts { compute_ns: of(1..=2), communication_ns: of(1..=3) - of(1..=2), copies_ns: 0 }
}

/// The stage without its first instance, where that is the first in time and its work overlaps no
/// other's.
fn warm(own: &[&Instance]) -> Option<WarmRow> {
    let (cold, others) = own.split_first()?;
    let work = |i: &Instance| {
        let start = i.kernels.iter().map(|k| k.start).min()?;
        Some((start, i.kernels.iter().map(|k| k.start + k.ns).max()?))
    };
    let apart = |i: &&&Instance| {
        let overlap = work(cold).zip(work(i)).is_some_and(|(a, b)| a.0 < b.1 && b.0 < a.1);
        cold.start <= i.start && !overlap
    };
    if others.is_empty() || !others.iter().all(|i| apart(&i)) {
        return None;
    }
    let kernels = || others.iter().flat_map(|i| &i.kernels);
    let window = |i: &&Instance| (i.start, (i.start + i.host_ns).max(work(i).map_or(0, |w| w.1)));
    // Every gap here is short; what of it lies in no window is no idle time of the stage.
    let windows: Vec<(u64, u64)> = own.iter().map(window).collect();
    let gaps = |kernels: Vec<&Work>| {
        let spans = || kernels.iter().filter(|k| k.ns > 0).map(|k| (k.start, k.start + k.ns));
        let first = spans().map(|(start, _)| start).min().unwrap_or(0);
        let last = spans().map(|(_, end)| end).max().unwrap_or(0);
        let holds = |t: u64| move |&(start, end): &(u64, u64)| start <= t && t < end;
        let idle =
            |t: &u64| windows.iter().any(|w| holds(*t)(w)) && !spans().any(|span| holds(*t)(&span));
        (first..last).filter(idle).count() as u64
    };
    let all_gaps = gaps(own.iter().flat_map(|i| &i.kernels).collect());
    let cold_gaps = gaps(cold.kernels.iter().collect());
    Some(WarmRow {
        instances: others.len() as u64,
        gpu_short_gaps_ns: all_gaps - cold_gaps,
        gpu_window_ns: covered(others.iter().map(window)),
        gpu_busy_ns: covered(kernels().map(|k| (k.start, k.start + k.ns))),
        gpu_busy_parts: Some(parts(kernels())),
        kernels: kernels().count() as u64,
    })
}

fn check_stage(report: &Report, instances: &[Instance], stage: usize) {
    let own: Vec<&Instance> = instances.iter().filter(|i| i.stage == stage).collect();
    let row = report.stages.iter().find(|row| row.stage == STAGES[stage]);
    let Some(row) = row else { return assert!(own.is_empty()) };
    let kernels = stage_kernels(instances, stage);
    let busy = covered(kernels.clone().map(|k| (k.start, k.start + k.ns)));
    let window = covered(own.iter().map(|i| {
        let last = i.kernels.iter().map(|k| k.start + k.ns).max().unwrap_or(0);
        (i.start, last.max(i.start + i.host_ns))
    }));
    let sum: u64 = kernels.clone().map(|k| k.ns).sum();
    assert_eq!(row.instances, Some(own.len() as u64));
    assert_eq!(row.host_total_ns, Some(own.iter().map(|i| i.host_ns).sum()));
    assert_eq!(row.gpu_busy_ns, Some(busy));
    assert_eq!(row.gpu_busy_parts, Some(parts(kernels.clone())));
    assert_eq!(row.gpu_window_ns, Some(window));
    assert_eq!(row.gpu_idle_ns, Some(window - busy));
    assert_eq!((row.kernels, row.kernel_sum_ns), (Some(kernels.clone().count() as u64), Some(sum)));
    let mut counts: Vec<u64> = own.iter().map(|i| i.kernels.len() as u64).collect();
    counts.sort_unstable();
    assert_eq!(row.kernels_per_instance_min, counts.first().copied());
    assert_eq!(row.kernels_per_instance_max, counts.last().copied());
    assert_eq!(row.warm, warm(&own));
    for device in 0..2u32 {
        let on_device = kernels.clone().filter(|k| k.device == device);
        let label = ["0 A", "1 B"][device as usize];
        let got = row.devices.iter().find(|d| d.device == label);
        let busy = covered(on_device.clone().map(|k| (k.start, k.start + k.ns)));
        assert_eq!(got.map_or(0, |d| d.gpu_busy_ns), busy);
        assert_eq!(got.map_or(0, |d| d.kernels), on_device.count() as u64);
    }
    for (path, nested) in
        [(STAGES[stage].to_owned(), false), (format!("{}/layer", STAGES[stage]), true)]
    {
        let row = report.paths.iter().find(|row| row.path == path).expect("path");
        let exclusive: u64 = kernels.clone().filter(|k| k.nested == nested).map(|k| k.ns).sum();
        assert_eq!(row.kernel_sum_exclusive_ns, Some(exclusive));
        assert_eq!(row.kernel_sum_inclusive_ns, Some(if nested { exclusive } else { sum }));
    }
}

/// (path, grid, device) to (calls, total, min, max).
type Groups = BTreeMap<(String, u32, String), (u64, u64, u64, u64)>;

/// Rows of work outside of ranges, and of work whose launch could not be placed. Without any range
/// one of them is the whole process.
fn stand_ins(instances: &[Instance], loose: &[Work]) -> (&'static str, &'static str) {
    let outside = loose.iter().any(|k| k.nested);
    match instances.is_empty() {
        true if outside => ("(whole process)", "(unattributed)"),
        true => ("(outside ranges)", "(whole process)"),
        false => ("(outside ranges)", "(unattributed)"),
    }
}

fn check_whole_process(report: &Report, instances: &[Instance], loose: &[Work]) {
    let whole = report.stages.iter().find(|row| row.stage == "(whole process)");
    assert_eq!(whole.is_some(), instances.is_empty() && !loose.is_empty());
    let Some(row) = whole else { return };
    // With work in both places neither is the whole of it.
    let all = loose.iter().all(|k| k.nested == loose[0].nested).then_some(loose);
    let first = all.and_then(|all| all.iter().map(|k| k.start).min());
    let last = all.and_then(|all| all.iter().map(|k| k.start + k.ns).max());
    let window = last.zip(first).map(|(last, first)| last - first);
    let busy = all.map(|all| covered(all.iter().map(|k| (k.start, k.start + k.ns))));
    assert_eq!(row.gpu_window_ns, window);
    assert_eq!(row.gpu_idle_ns, window.zip(busy).map(|(window, busy)| window - busy));
    assert!(busy.is_none_or(|busy| row.gpu_busy_ns == Some(busy)));
}

fn expected_groups(instances: &[Instance], loose: &[Work]) -> Groups {
    let in_ranges = instances.iter().flat_map(|i| {
        let stage = STAGES[i.stage];
        i.kernels
            .iter()
            .map(move |k| (if k.nested { format!("{stage}/layer") } else { stage.into() }, k))
    });
    let (outside, unattributed) = stand_ins(instances, loose);
    let outside =
        loose.iter().map(|k| (if k.nested { outside } else { unattributed }.to_owned(), k));
    let mut groups = Groups::new();
    for (path, k) in in_ranges.chain(outside) {
        let device = ["0 A", "1 B"][k.device as usize].to_owned();
        let group = groups.entry((path, k.shape, device)).or_insert((0, 0, u64::MAX, 0));
        *group = (group.0 + 1, group.1 + k.ns, group.2.min(k.ns), group.3.max(k.ns));
    }
    groups
}

fn groups(report: &Report) -> Groups {
    let rows = report.kernels.iter().map(|row| {
        let grid = row.launch.expect("defined").grid[0];
        let times = &row.times;
        let (min, max) = (times.min_ns.expect("timed"), times.max_ns.expect("timed"));
        ((row.path.clone(), grid, row.device.clone()), (times.calls, times.total_ns, min, max))
    });
    rows.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_report_equals_the_slow_count(
        instances in prop::collection::vec(instance(), 0..6),
        loose in prop::collection::vec(work(), 0..6),
        order in prop::collection::vec(any::<usize>(), 0..80),
    ) {
        let process = records(&instances, &loose, &order).finish();
        let capture = Capture { processes: vec![process], ..Capture::default() };
        let report = join(capture, RunInfo::default(), Vec::new());
        for stage in 0..2 {
            check_stage(&report, &instances, stage);
        }
        prop_assert_eq!(groups(&report), expected_groups(&instances, &loose));
        check_whole_process(&report, &instances, &loose);
        for device in 0..2u32 {
            let all = instances.iter().flat_map(|i| &i.kernels).chain(&loose);
            let busy = covered(all.filter(|k| k.device == device).map(|k| (k.start, k.start + k.ns)));
            prop_assert_eq!(report.devices[device as usize].gpu_busy_ns, Some(busy));
        }
        let names: BTreeSet<&str> = report.kernel_names.iter().map(|n| n.short.as_str()).collect();
        prop_assert!(names.len() <= 2, "two kernel names: {:?}", names);
    }

    #[test]
    fn two_processes_add_up(
        instances in prop::collection::vec(instance(), 1..5),
        order in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let once = || records(&instances, &[], &order).finish();
        let one = Capture { processes: vec![once()], ..Capture::default() };
        let two = Capture { processes: vec![once(), once()], ..Capture::default() };
        let one = join(one, RunInfo::default(), Vec::new());
        let two = join(two, RunInfo::default(), Vec::new());
        prop_assert_eq!(one.kernels.len(), two.kernels.len(), "the same GPUs, by their UUIDs");
        for (a, b) in one.stages.iter().zip(&two.stages) {
            prop_assert_eq!(a.kernel_sum_ns.map(|ns| ns * 2), b.kernel_sum_ns);
            prop_assert_eq!(a.gpu_busy_ns.map(|ns| ns * 2), b.gpu_busy_ns);
            let summed = a.gpu_idle_ns.map(|ns| ns * 2) == b.gpu_idle_ns;
            prop_assert!(summed || b.gpu_idle_ns.is_none(), "{:?}", b.gpu_idle_ns);
            prop_assert_eq!(a.kernels_per_instance_median, b.kernels_per_instance_median);
        }
        for (a, b) in one.devices.iter().zip(&two.devices) {
            prop_assert_eq!(a.gpu_span_ns, b.gpu_span_ns, "the same time");
            prop_assert!(!a.shared_by_processes);
            prop_assert_eq!(b.shared_by_processes, a.gpu_span_ns > Some(0));
        }
        for (a, b) in one.kernels.iter().zip(&two.kernels) {
            // Of few calls there is none.
            prop_assert!(a.times.p99_ns.is_none() || a.times.p99_ns == b.times.p99_ns);
            prop_assert_eq!(a.times.calls * 2, b.times.calls);
        }
    }
}
