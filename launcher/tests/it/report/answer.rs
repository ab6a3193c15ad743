//! The answer: what a step is, where its window goes, and what is not known of a part.

use crate::report::build::Build;
use crate::report::meaning::process;
use stage2_contract::trace::Record;
use stage2_launch::reports::write_reports;
use stage2_model::{Report, StepUnit, WindowKind};

const MS: u64 = 1_000_000;

fn answered(build: &mut Build) -> Report {
    let folder = tempfile::tempdir().expect("folder");
    build.end();
    build.save(folder.path(), "p.s2t");
    write_reports(folder.path()).expect("reports");
    let metrics = std::fs::read(folder.path().join("metrics.json")).expect("metrics.json");
    serde_json::from_slice(&metrics).expect("model")
}

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
    let report = answered(&mut steps(|_| None));
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
    assert_eq!(texts.len(), 5);
    assert!(texts[0].starts_with("a 1.00 ms per step (p50; p99 3.00)"), "{texts:?}");
    assert!(
        // 63.75 is rounded down, so that the parts add up to 100.0.
        texts[1].starts_with("a: compute 63.7 %, copies 9.4 %, launch gaps 1.9 %"),
        "{texts:?}"
    );

    let [series] = &report.step_series[..] else { panic!("{:?}", report.step_series) };
    assert_eq!((series.path.as_str(), series.file.as_str()), ("a/b", "p.s2t"));
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
    answered(&mut build)
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
    let time = &report.answer.lines[0].text;
    assert!(time.starts_with("a 2.50 ms per step (p50 of 4; longest 3.00)"), "{time}");
}

#[test]
fn ranges_that_are_not_taken_for_the_steps_are_told() {
    let report = steps_and(4);
    let step = report.answer.stages[0].step.as_ref().expect("instances");
    assert_eq!((step.unit, step.steps, step.p50_ns), (StepUnit::Instance, 2, 9 * MS));
    let why = "times are of whole instances of a, because a/b covers 55.6 % of their host time, and \
               a step has to cover 90 %";
    assert_eq!(step.passed_over.as_deref(), Some(why));
    let time = &report.answer.lines[0].text;
    assert!(time.starts_with("a 9.00 ms per instance (p50 of 2; longest 10.00)"), "{time}");
    let rests = |takeaway: &&stage2_model::Takeaway| takeaway.text.contains("rests on 2 warm");
    let told = report.insight.takeaways.iter().filter(|told| !told.rule.is_caveat());
    assert!(told.clone().count() == told.filter(rests).count(), "{:?}", report.insight.takeaways);
}

#[test]
fn the_window_of_a_sample_is_that_of_the_recorded_instances() {
    let report = answered(&mut steps(|instance| Some(instance == 2)));
    let stage = &report.answer.stages[0];
    assert_eq!(stage.basis, "mean of the 1 recorded of 4 instances");
    let window = stage.window.as_ref().expect("a window");
    assert_eq!(window.window_ns, 10 * MS);
    assert_eq!(window.parts[0].ns, 10 * 680_000);
    assert_eq!(stage.step.as_ref().map(|step| step.steps), Some(30), "host times are of all");
}
