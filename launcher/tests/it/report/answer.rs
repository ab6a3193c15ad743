//! The answer: what a step is, where its window goes, what is not known of a part; and what traces that are
//! small enough to say it must be told.

use crate::common::trace::{Build, RunFolder};
use crate::report::meaning::process;
use stage2_contract::trace::Record;
use stage2_model::rule::Rule;
use stage2_model::{Report, StepUnit, WindowKind};

const MS: u64 = 1_000_000;

/// Four instances of `a`, the first of them cold, with 10 ranges `b` of 1 ms in each; the third `b` of
/// the last instance takes 3 ms. In each is a kernel of 600 us, a copy that goes on 100 us beyond it,
/// and after 20 us another kernel of 80 us.
fn steps(recorded: impl Fn(u64) -> Option<bool>) -> Build {
    let mut build = process();
    if recorded(0).is_some() {
        build.meta("sample", "1/4");
    }
    let mut now = MS;
    for instance in 0..4u64 {
        let outer = 1 + 100 * instance;
        build.open(outer, 1, 0, now);
        let sampled = recorded(instance);
        if let Some(recorded) = sampled {
            build.add(Record::RangeSample { range: outer, recorded });
        }
        for step in 0..10 {
            let (range, start) = (outer + 1 + step, now);
            now += match (instance, step) {
                (0, _) => 5 * MS,
                (3, 2) => 3 * MS,
                _ => MS,
            };
            build.open(range, 3, outer, start);
            if sampled != Some(false) {
                let at = |us: u64| start + us * 1_000;
                build.kernel(range, 1, 1, (at(100), at(700)));
                build.copy(range, 1, 4, (at(600), at(800)));
                build.kernel(range, 1, 1, (at(820), at(900)));
            }
            build.close(range, now);
        }
        build.close(outer, now);
        now += MS;
    }
    build
}

#[test]
fn a_range_that_repeats_within_a_stage_is_its_step() {
    let report = steps(|_| None).report();
    let stage = &report.answer.stages[0];
    let step = stage.step.as_ref().expect("steps");
    assert_eq!((step.unit, step.path.as_deref()), (StepUnit::RangeWithin, Some("a/b")));
    assert_eq!(
        (step.steps, step.p50_ns, step.p99_ns),
        (30, MS, Some(3 * MS)),
        "the cold ten are left out"
    );
    assert_eq!(step.mean_ns, 1_066_667, "rounded");

    let parts: Vec<(WindowKind, u64)> = {
        let window = stage.window.as_ref().expect("a window");
        assert_eq!(window.window_ns, 32 * MS);
        window.parts.iter().map(|part| (part.kind, part.ns)).collect()
    };
    assert_eq!(
        parts,
        [
            (WindowKind::Compute, 30 * 680_000),
            (WindowKind::Copies, 30 * 100_000),
            (WindowKind::LaunchGaps, 30 * 20_000),
            (WindowKind::OtherIdle, 30 * 200_000 + 2 * MS),
        ]
    );
    let texts: Vec<&str> = report.answer.lines.iter().map(|line| line.text.as_str()).collect();
    let [verdict, texts @ ..] = &texts[..] else { panic!("no lines") };
    assert!(verdict.starts_with("a takes 1.00 ms per step (p50 of 30; longest 3.00)"), "{verdict}");
    assert_eq!(texts.len(), 5);
    assert!(texts[0].starts_with("a 1.00 ms per step (p50 of 30; longest 3.00)"), "{texts:?}");
    let bound = "a is bound by its kernels: they take 0.68 of 1.07 ms (63.7 % of the mean step)";
    assert!(texts[1].starts_with(bound), "{texts:?}");
    let others = "; then waiting for the host 0.29 ms, everything else 0.10 ms";
    assert!(texts[1].contains(others), "{texts:?}");

    let [series] = &report.step_series[..] else { panic!("{:?}", report.step_series) };
    assert_eq!((series.path.as_str(), series.file.as_str()), ("a/b", "0.s2t"));
    assert_eq!(series.buckets.len(), 40);
    assert_eq!((series.buckets[0].mean_ns, series.buckets[39].mean_ns), (5 * MS, MS));
    let median = series.median.expect("a step as long as the median");
    assert_eq!((median.number, median.range, median.host_ns), (10, 102, MS));
    assert_eq!(series.outliers, [], "none is beyond the 99th percentile of thirty");
}

/// Three instances of `a`, the first of them cold, with two ranges `b` and then `rest` ms without any.
fn steps_and(rest: u64) -> Report {
    let mut build = process();
    let mut now = MS;
    for instance in 0..3u64 {
        let outer = 1 + 100 * instance;
        build.open(outer, 1, 0, now);
        for range in [outer + 1, outer + 2] {
            build.open(range, 3, outer, now);
            build.kernel(range, 1, 1, (now + 1_000, now + 2_000));
            now += if instance == 0 { 9 * MS } else { (1 + instance) * MS };
            build.close(range, now);
        }
        now += rest * MS;
        build.close(outer, now);
    }
    build.report()
}

#[test]
fn the_median_of_a_step_is_one_number_wherever_it_is_shown() {
    let report = steps_and(0);
    let step = report.answer.stages[0].step.as_ref().expect("steps");
    // Of 2, 2, 3 and 3 ms: the second range of the cold instance is no warm step either.
    assert_eq!((step.unit, step.steps, step.p50_ns), (StepUnit::RangeWithin, 4, 2_500_000));
    assert_eq!((step.p99_ns, step.max_ns), (None, Some(3 * MS)), "four have no 99th percentile");
    let path = report.paths.iter().find(|row| row.path == "a/b").expect("the path");
    assert_eq!(path.host_warm_median_ns, Some(step.p50_ns));
    let time = &report.answer.lines[1].text;
    assert!(time.starts_with("a 2.50 ms per step (p50 of 4; longest 3.00)"), "{time}");
}

#[test]
fn ranges_that_are_not_taken_for_the_steps_are_told() {
    let report = steps_and(4);
    let step = report.answer.stages[0].step.as_ref().expect("instances");
    assert_eq!((step.unit, step.steps, step.p50_ns), (StepUnit::Instance, 2, 9 * MS));
    let why = "times are of whole calls of a, because a/b covers 55.6 % of their host time, and \
               a step has to cover 90 %";
    assert_eq!(step.passed_over.as_deref(), Some(why));
    let time = &report.answer.lines[1].text;
    assert!(time.starts_with("a 9.00 ms per call (p50 of 2; longest 10.00)"), "{time}");
    let rests = |takeaway: &&stage2_model::Takeaway| takeaway.text.contains("based on only 2 warm");
    let told = report.insight.takeaways.iter().filter(|told| !told.rule.is_caveat());
    assert!(told.clone().count() == told.filter(rests).count(), "{:?}", report.insight.takeaways);
}

#[test]
fn steps_in_which_the_host_runs_ahead_of_the_gpu_are_no_measure() {
    let mut build = process();
    let mut now = MS;
    for instance in 0..3u64 {
        let (outer, start) = (1 + 100 * instance, now);
        build.open(outer, 1, 0, start);
        for step in 0..8 {
            let range = outer + 1 + step;
            build.open(range, 3, outer, now);
            let gpu = start + 100_000 + step * 2 * MS;
            build.kernel(range, 1, 1, (gpu, gpu + 2 * MS));
            // The last one waits for the GPU.
            now = if step == 7 { gpu + 2 * MS + 200_000 } else { now + MS / 2 };
            build.close(range, now);
        }
        build.close(outer, now);
    }
    let report = build.report();
    let step = report.answer.stages[0].step.as_ref().expect("instances");
    assert_eq!((step.unit, step.steps), (StepUnit::Instance, 2));
    assert_eq!((step.p50_ns, step.mean_ns), (16_300_000, 16_300_000), "to the end of the GPU work");
    let why = "times are of whole calls of a, to the end of their GPU work, because the host runs ahead of the GPU in \
               a/b: the median one lasts 0.50 ms on the host, and the GPU works 2.00 ms for it";
    assert_eq!(step.passed_over.as_deref(), Some(why));
    let [timeline] = &report.step_timelines[..] else { panic!("{:?}", report.step_timelines) };
    assert_eq!((timeline.path.as_str(), timeline.length_ns), ("a", 16_300_000));
    assert_eq!(report.step_series[0].path, "a");
}

#[test]
fn the_window_of_a_sample_is_that_of_the_recorded_instances() {
    let report = steps(|instance| Some(instance == 2)).report();
    let stage = &report.answer.stages[0];
    assert_eq!(stage.basis, "mean of the 1 recorded of 4 calls");
    let window = stage.window.as_ref().expect("a window");
    assert_eq!(window.window_ns, 10 * MS);
    assert_eq!(window.parts[0].ns, 10 * 680_000);
    assert_eq!(stage.step.as_ref().map(|step| step.steps), Some(30), "host times are of all");
}

/// Kernels of 2 us each, in so many instances of the stage `a`, each with its gaps between them, ns.
fn launched(instances: &[(u64, &[u64])]) -> Report {
    let mut b = process();
    let mut at = MS;
    for (range, (repeats, gaps)) in (1..).zip(instances) {
        b.open(range, 1, 0, at);
        for gap in (0..*repeats).flat_map(|_| *gaps) {
            at += gap;
            b.kernel(range, 1, 1, (at, at + 2_000));
            at += 2_000;
        }
        b.close(range, at);
        at += MS;
    }
    b.report()
}

/// Hazard (Traces in pieces): A file is cut, or its process killed, after ranges were written and before their GPU work was.
/// Promise: What ranges did after the last GPU work is not taken for idle time.
#[test]
fn ranges_whose_gpu_work_was_cut_off_are_not_idle_time() {
    let call = |b: &mut Build, range: u64, kernels: u64| {
        let begin = range * 10 * MS;
        b.open(range, 1, 0, begin);
        for at in (0..kernels).map(|number| begin + number * 20_000) {
            b.kernel(range, 1, 1, (at, at + 10_000));
        }
        b.close(range, begin + 100 * 20_000);
    };
    let parts = |b: &Build| {
        let report = RunFolder::of([b]).report();
        let found = report.answer.stages[0].bottleneck.clone().expect("a mean step");
        (found.ns, found.kernels().map(|part| part.ns), report.stages[0].instances)
    };
    let mut whole = process();
    (1..=5).for_each(|range| call(&mut whole, range, 100));
    let whole = parts(whole.end());
    assert_eq!(whole.1, Some(1_000_000));
    let mut cut = process();
    (1..=5).for_each(|range| call(&mut cut, range, 100));
    call(&mut cut, 6, 40);
    (7..=9).for_each(|range| call(&mut cut, range, 0));
    let found = parts(&cut);
    assert_eq!(found.2, Some(6), "calls whose GPU work cannot be known are not there");
    assert!(found.0.abs_diff(whole.0) < whole.0 / 100, "{found:?} and {whole:?}");
    assert!(found.1.is_some_and(|ns| ns.abs_diff(1_000_000) < 10_000), "{found:?}");
}

fn verdict(report: &Report) -> (Rule, &str, bool) {
    let of_idle = [Rule::LaunchBound, Rule::HostGaps, Rule::GpuIdle, Rule::GpuBusy];
    let said = &report.insight.takeaways;
    let found = said.iter().find(|t| of_idle.contains(&t.rule)).expect("a verdict");
    (found.rule, &found.text, found.recommendation.is_some())
}

#[test]
fn idle_time_is_told_by_the_gaps_of_warm_instances() {
    let compiled: [(u64, &[u64]); 4] =
        [(1, &[1_000_000_000]), (200, &[100]), (200, &[100]), (200, &[100])];
    // On average a kernel every 22 us; but most of the time is one gap.
    let mixed = [[5_000; 9].as_slice(), &[151_000]].concat();
    for (instances, expected, part) in [
        // Launches right behind each other.
        (
            [(100, [20_000].as_slice()); 4],
            Rule::LaunchBound,
            "idle 90.9 % of the window of 3 warm calls",
        ),
        // Slow Python between launches, as in eager `generate()`: one kernel every 66.6 us.
        ([(100, [64_600].as_slice()); 4], Rule::HostGaps, "kernel records do not show why. "),
        ([(1, mixed.as_slice()); 4], Rule::HostGaps, "one starts every 21.6 us on average"),
        // The first instance compiles for a second; the others keep the GPU busy.
        (compiled, Rule::GpuBusy, "busy 95.2 % of the window of 3 warm calls"),
    ] {
        let report = launched(&instances);
        let (rule, text, advised) = verdict(&report);
        assert_eq!(rule, expected, "{text}");
        assert!(text.contains(part) && !text.contains("something else"), "{text}");
        assert_eq!(advised, rule != Rule::GpuBusy, "{text}");
    }
}

#[test]
fn fewer_than_three_instances_are_a_number_with_a_label() {
    for (instances, label) in [(1, "one call, which is cold"), (2, "two calls")] {
        let report = launched(&vec![(100, [20_000].as_slice()); instances]);
        let (rule, text, advised) = verdict(&report);
        assert_eq!((rule, advised), (Rule::GpuIdle, false), "{text}");
        assert!(text.contains("90.9 %") && text.contains(label), "{text}");
        for said in &report.insight.takeaways {
            assert!(said.recommendation.is_none() && said.concerns_percent.is_none(), "{said:?}");
        }
    }
}

/// One instance of a stage, with steps of these lengths in it, us, each with a kernel of 2 us.
fn only_instance(steps: &[u64]) -> Report {
    let mut b = process();
    let (mut at, mut range) = (MS, 2);
    b.open(1, 1, 0, at);
    for us in steps {
        let end = at + us * 1_000;
        b.open(range, 3, 1, at);
        b.kernel(range, 1, 1, (at + 100, at + 2_100));
        b.close(range, end);
        (at, range) = (end, range + 1);
    }
    b.close(1, at);
    b.report()
}

#[test]
fn the_steps_of_an_only_instance_give_advice_with_a_label() {
    let report = only_instance(&[20; 60]);
    let (_, text, advised) = verdict(&report);
    assert!(advised && text.ends_with("(based on its only call, 60 steps)"), "{text}");
    assert!(text.contains("idle 90.0 % of the window, "), "{text}");
    // Few steps are not a basis for advice.
    let report = only_instance(&[20; 7]);
    let (_, text, advised) = verdict(&report);
    assert!(!advised && text.contains("one call, which is cold"), "{text}");
}

/// The first step compiles for a second.
#[test]
fn a_cold_first_step_of_an_only_instance_decides_nothing() {
    let mut steps = [20; 60];
    steps[0] = MS;
    let report = only_instance(&steps);
    let (_, text, advised) = verdict(&report);
    assert!(advised && text.contains("idle 90.0 % of the window"), "{text}");
    let stage = &report.stages[0];
    let outliers = stage.outliers.as_ref().expect("the first step");
    assert_eq!((outliers.count, outliers.of, outliers.left_out), (1, 60, true));
}
