//! Traces that are small enough to say what their verdict has to be.

use std::fs;

use crate::report::build::Build;
use crate::report::meaning::process;
use stage2_launch::reports::write_reports;
use stage2_model::Report;
use stage2_model::rule::Rule;

/// Kernels of 2 us each, in so many instances of the stage `a`, each with its gaps between them, ns.
fn launched(instances: &[(u64, &[u64])]) -> Report {
    let mut b: Build = process();
    let mut at = 1_000_000;
    for (range, (repeats, gaps)) in (1..).zip(instances) {
        b.open(range, 1, 0, at);
        for gap in (0..*repeats).flat_map(|_| *gaps) {
            at += gap;
            b.kernel(range, 1, 1, (at, at + 2_000));
            at += 2_000;
        }
        b.close(range, at);
        at += 1_000_000;
    }
    report_of(b)
}

fn report_of(mut b: Build) -> Report {
    let folder = tempfile::tempdir().expect("folder");
    b.end().save(folder.path(), "a.s2t");
    write_reports(folder.path()).expect("reports");
    let text = fs::read_to_string(folder.path().join("metrics.json")).expect("model");
    serde_json::from_str(&text).expect("model")
}

fn verdict(report: &Report) -> (Rule, &str, bool) {
    let of_idle = [Rule::LaunchBound, Rule::HostGaps, Rule::GpuIdle, Rule::GpuBusy];
    let said = &report.insight.takeaways;
    let found = said.iter().find(|t| of_idle.contains(&t.rule)).expect("a verdict");
    (found.rule, &found.text, found.recommendation.is_some())
}

#[test]
fn launches_right_behind_each_other_are_launch_bound() {
    let report = launched(&[(100, [20_000].as_slice()); 4]);
    let (rule, text, advised) = verdict(&report);
    assert_eq!((rule, advised), (Rule::LaunchBound, true), "{text}");
    assert!(text.contains("idle 90.9 % of the window of 3 warm instances"), "{text}");
}

/// Slow Python between launches, as in eager `generate()`: one kernel every 66.6 us.
#[test]
fn longer_gaps_are_not_said_to_be_launches_nor_anything_else() {
    let report = launched(&[(100, [64_600].as_slice()); 4]);
    let (rule, text, advised) = verdict(&report);
    assert_eq!((rule, advised), (Rule::HostGaps, true), "{text}");
    assert!(text.contains("one every 66.6 us; kernel records do not show why"), "{text}");
    assert!(!text.contains("something else"), "{text}");
}

/// On average a kernel every 22 us; but most of the time is one gap.
#[test]
fn the_mean_of_short_and_long_gaps_is_not_taken_for_launches() {
    let gaps = [[5_000; 9].as_slice(), &[151_000]].concat();
    let report = launched(&[(1, gaps.as_slice()); 4]);
    let (rule, text, _) = verdict(&report);
    assert_eq!(rule, Rule::HostGaps, "{text}");
    assert!(text.contains("one every 21.6 us"), "{text}");
}

/// The first instance compiles for a second; the others keep the GPU busy.
#[test]
fn a_cold_instance_decides_nothing() {
    let report = launched(&[(1, &[1_000_000_000]), (200, &[100]), (200, &[100]), (200, &[100])]);
    let (rule, text, _) = verdict(&report);
    assert_eq!(rule, Rule::GpuBusy, "{text}");
    assert!(text.contains("busy 95.2 % of the window of 3 warm instances"), "{text}");
}

#[test]
fn fewer_than_three_instances_are_a_number_with_a_label() {
    for (instances, label) in [(1, "one instance, a cold one"), (2, "two instances")] {
        let report = launched(&vec![(100, [20_000].as_slice()); instances]);
        let (rule, text, advised) = verdict(&report);
        assert_eq!((rule, advised), (Rule::GpuIdle, false), "{text}");
        assert!(text.contains("90.9 %") && text.contains(label), "{text}");
        let said = &report.insight.takeaways;
        assert!(said.iter().all(|t| t.recommendation.is_none()), "{said:?}");
        assert!(said.iter().all(|t| t.concerns_percent.is_none()), "{said:?}");
    }
}

/// One instance of a stage, with steps of these lengths in it, us, each with a kernel of 2 us.
fn only_instance(steps: &[u64]) -> Report {
    let mut b: Build = process();
    let (mut at, mut range) = (1_000_000, 2);
    b.open(1, 1, 0, at);
    for us in steps {
        let end = at + us * 1_000;
        b.open(range, 3, 1, at);
        b.kernel(range, 1, 1, (at + 100, at + 2_100));
        b.close(range, end);
        (at, range) = (end, range + 1);
    }
    b.close(1, at);
    report_of(b)
}

#[test]
fn the_steps_of_an_only_instance_give_advice_with_a_label() {
    let report = only_instance(&[20; 60]);
    let (_, text, advised) = verdict(&report);
    assert!(advised && text.ends_with("(rests on its only instance, 60 steps)"), "{text}");
    assert!(text.contains("idle 90.0 % of the window:"), "{text}");
    // Few steps are no ground for advice.
    let report = only_instance(&[20; 7]);
    let (_, text, advised) = verdict(&report);
    assert!(!advised && text.contains("one instance, a cold one"), "{text}");
}

/// The first step compiles for a second.
#[test]
fn a_cold_first_step_of_an_only_instance_decides_nothing() {
    let mut steps = [20; 60];
    steps[0] = 1_000_000;
    let report = only_instance(&steps);
    let (_, text, advised) = verdict(&report);
    assert!(advised && text.contains("idle 90.0 % of the window"), "{text}");
    let stage = &report.stages[0];
    let outliers = stage.outliers.as_ref().expect("the first step");
    assert_eq!((outliers.count, outliers.of, outliers.left_out), (1, 60, true));
}
