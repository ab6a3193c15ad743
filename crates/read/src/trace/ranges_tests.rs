use super::super::path_times::EXACT_TIMES;
use super::*;

#[test]
fn what_goes_on_takes_no_memory_once_it_is_closed() {
    let (mut ranges, paths) = (Ranges::default(), Paths::default());
    let open = |ranges: &mut Ranges, range, path, start, continues| {
        let record = RangeOpen {
            range,
            path,
            thread: 1,
            parent: RANGE_OUTSIDE,
            start: MonoNs(start),
            start_end: false,
            category: 0,
            payload: None,
            continues,
        };
        ranges.open(&record, path, true, &paths);
    };
    for at in 0..1_000u64 {
        let range = 1 + 4 * at;
        // As the collector writes it under the same path and another, and as a reader does.
        open(&mut ranges, range, 1, at, 0);
        ranges.close(range, MonoNs(at));
        open(&mut ranges, range + 1, 1, at, range);
        ranges.close(range + 1, MonoNs(at));
        open(&mut ranges, range + 2, 2, at, range);
        open(&mut ranges, range + 3, 3, at, range + 2);
        ranges.close(range + 3, MonoNs(at));
    }
    assert_eq!((ranges.continued.len(), ranges.open.len()), (0, 0));
    assert!(ranges.closing.len() <= MAX_CLOSING);
    assert_eq!(ranges.faults, RangeFaults::default());
}

#[test]
fn a_million_instances_are_kept_as_distributions() {
    let (mut ranges, paths) = (Ranges::default(), Paths::default());
    for range in 1..=(EXACT_TIMES as u64 + 10_000) {
        let (path, ns) = ((1 + range % 2) as PathIndex, 1_000 + range % 1_000);
        let start = MonoNs(range * 10_000);
        let open = RangeOpen {
            range,
            path,
            thread: 1,
            parent: RANGE_OUTSIDE,
            start,
            ..RangeOpen::default()
        };
        if ranges.is_full() {
            ranges.settle(&ClockMap::default());
        }
        ranges.open(&open, path, true, &paths);
        assert_eq!(ranges.place(range).map(|place| place.path), Some(path));
        ranges.close(range, MonoNs(start.0 + ns));
    }
    ranges.end_closing();
    assert!(ranges.open.is_empty() && ranges.times.exact() <= EXACT_TIMES);
    assert_eq!(ranges.faults, RangeFaults::default());
    let RangeTimes { paths: times, stages, .. } = ranges.finish(&ClockMap::default());
    assert_eq!(times.values().map(|times| times.instances).sum::<u64>(), 1_058_576);
    for (path, times) in times {
        assert_eq!(times.host_warm_ns.kept(), 0);
        assert_eq!(times.host_warm_ns.count() + 1, times.instances);
        let median = times.host_warm_ns.median().expect("instances") as f64;
        assert!((median / 1_499.5 - 1.0).abs() < 0.02, "{median}");
        assert_eq!(stages[&path].kernels_per_instance.count(), times.instances);
    }
}

#[test]
fn a_range_that_goes_on_under_another_identifier_is_no_step_to_draw() {
    let (mut ranges, paths) = (Ranges::default(), Paths::default());
    let mut at = 0;
    let mut step = |ranges: &mut Ranges, range: u64, pieces: u64| {
        for piece in 0..pieces {
            let record = RangeOpen {
                range: range + piece,
                path: 1,
                thread: 1,
                parent: RANGE_OUTSIDE,
                start: MonoNs(at),
                start_end: false,
                category: 0,
                payload: None,
                continues: if piece == 0 { 0 } else { range + piece - 1 },
            };
            ranges.open(&record, 1, true, &paths);
            at += 100;
        }
        ranges.close(range + pieces - 1, MonoNs(at));
        at += 1;
    };
    for (range, pieces) in [(1, 1), (10, 2), (20, 1)] {
        step(&mut ranges, range, pieces);
    }
    let steps = ranges.finish(&ClockMap::default()).steps;
    let track = steps.values().next().expect("a path");
    assert_eq!(track.count(), 3, "its time counts");
    let found = track.nearest(true, 200).map(|step| (step.range, step.host_ns));
    assert_eq!(found, Some((20, 100)));
}

/// Hazard (Hostile guests): Such ranges hold the kernels of a thread.
/// Promise: They are its stage, and a finding says so and what to do.
#[test]
fn start_end_ranges_that_are_open_at_once_on_a_thread_are_noticed() {
    let side_by_side = |threads: [u32; 2], start_end, first_end| {
        let (mut ranges, paths) = (Ranges::default(), Paths::default());
        for (range, thread) in [1, 2].into_iter().zip(threads) {
            let open = RangeOpen {
                range,
                path: 1,
                thread,
                parent: RANGE_OUTSIDE,
                start: MonoNs(10 * range),
                start_end,
                category: 0,
                payload: None,
                continues: 0,
            };
            if range == 2 && first_end < 20 {
                ranges.close(1, MonoNs(first_end));
            }
            ranges.open(&open, 1, true, &paths);
        }
        ranges.finish(&ClockMap::default()).paths[&1].side_by_side
    };
    assert!(side_by_side([1, 1], true, 25));
    assert!(!side_by_side([1, 1], true, 15), "one after the other");
    assert!(!side_by_side([1, 2], true, 25), "on two threads");
    assert!(!side_by_side([1, 1], false, 25), "push and pop");
}

#[test]
fn an_identifier_that_is_given_again_and_again_takes_no_memory() {
    let (mut ranges, paths) = (Ranges::default(), Paths::default());
    for thread in 0..1_000 {
        let open = RangeOpen {
            range: 1,
            path: 1,
            thread,
            parent: RANGE_OUTSIDE,
            start: MonoNs(1),
            start_end: true,
            category: 0,
            payload: None,
            continues: 0,
        };
        ranges.open(&open, 1, true, &paths);
    }
    assert_eq!((ranges.open.len(), ranges.beside.len()), (1, 1));
}
