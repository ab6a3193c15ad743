//! What single numbers mean, on captures small enough to count by hand.

use std::fs;

use crate::common::trace::{Build, GPU_AHEAD_NS, RunFolder, finds, report_of, stage};
use crate::report::fixture;
use serde_json::{Value, json};
use stage2_contract::trace::{Anchor, GpuNs, MonoNs, NONE, Record, WallNs};
use stage2_model::{EmptyCause, Finding, Report};

fn report(build: &mut Build) -> Report {
    report_of([build])
}

/// A process with stages a (path 1) and b (path 2), a/b (path 3), and one kernel shape.
pub(crate) fn process() -> Build {
    let mut b = Build::process(1, "x");
    b.anchor(1).device(0, "GPU", 1).name(1, b"a").name(2, b"b").name(3, b"k").shape(1, 3, 1);
    b.path(1, NONE, 1).path(2, NONE, 2).path(3, 1, 2);
    b
}

/// Window, busy and idle time of a stage.
pub(crate) fn gpu_times_are(report: &Report, name: &str, expected: [Option<u64>; 3]) {
    let row = stage(report, name);
    assert_eq!([row.gpu_window_ns, row.gpu_busy_ns, row.gpu_idle_ns], expected, "{name}");
}

#[test]
fn overlapping_windows_count_once() {
    // Launched without waiting: the second instance opens while the first one's kernels run.
    let mut b = process();
    b.open(1, 1, 0, 0).close(1, 10).open(2, 1, 0, 10).close(2, 20);
    b.kernel(1, 1, 1, (5, 25)).kernel(2, 1, 1, (27, 40));
    let report = report(&mut b);
    gpu_times_are(&report, "a", [Some(40), Some(33), Some(7)]);
    assert_eq!(stage(&report, "a").gpu_busy_percent, Some(82.5));
}

#[test]
fn work_that_starts_before_its_range_widens_the_window() {
    // The clocks are tied within about a microsecond: idle time must not get negative.
    let mut b = process();
    b.open(1, 1, 0, 100).kernel(1, 1, 1, (97, 130)).close(1, 120);
    let report = report(&mut b);
    gpu_times_are(&report, "a", [Some(33), Some(33), Some(0)]);
}

#[test]
fn the_first_instance_is_cold() {
    let mut b = process();
    for (i, (start, end)) in
        [(0, 900), (1_000, 1_010), (2_000, 2_030), (3_000, 3_020)].iter().enumerate()
    {
        b.open(1 + i as u64, 1, 0, *start).close(1 + i as u64, *end);
    }
    let report = report(&mut b);
    let row = stage(&report, "a");
    assert_eq!((row.instances, row.host_total_ns), (Some(4), Some(960)));
    assert_eq!((row.host_first_ns, row.host_warm_median_ns), (Some(900), Some(20)));
    assert_eq!((row.kernels, row.kernels_per_instance_max), (Some(0), Some(0)), "recorded: none");
    assert_eq!(row.gpu_busy_percent, Some(0.0));
}

#[test]
fn a_continued_range_is_no_new_instance() {
    // The collector closes first what goes on; a reader of nsys captures only opens it again.
    for collector in [true, false] {
        let mut b = process();
        b.open(1, 1, 0, 0).open(2, 3, 1, 10).kernel(2, 1, 1, (11, 12));
        if collector {
            b.close(2, 50);
        }
        b.close(1, 50).continues(3, 2, 0, 50, 2).kernel(3, 1, 1, (60, 65)).close(3, 100);
        continued_in_b(&report(&mut b));
    }
}

fn continued_in_b(report: &Report) {
    let continued = stage(report, "b");
    assert_eq!((continued.instances, continued.kernels), (Some(0), Some(1)));
    assert_eq!((continued.host_total_ns, continued.gpu_window_ns), (Some(50), Some(50)));
    assert_eq!(continued.kernels_per_instance_min, None);
    let nested = report.paths.iter().find(|row| row.path == "a/b").expect("path");
    assert_eq!((nested.instances, nested.host_total_ns), (Some(1), Some(40)));
    assert_eq!(stage(report, "a").kernels_per_instance_max, Some(1));
    assert_eq!(report.coverage.total.contradicting_ranges, 0);
}

#[test]
fn without_a_tie_between_the_clocks_idle_is_absent_and_busy_is_not() {
    let mut b = process();
    b.records.retain(|record| !matches!(record, Record::Anchor(_)));
    b.open(1, 1, 0, 0).kernel(1, 1, 1, (5, 25)).close(1, 10);
    let report = report(&mut b);
    gpu_times_are(&report, "a", [None, Some(20), None]);
    assert!(finds(&report, "without a reading that ties"));
}

#[test]
fn what_nobody_looked_at_is_absent_not_zero() {
    let mut b = process();
    b.meta("gpu.off", "no libcupti").open(1, 1, 0, 0).close(1, 10).end();
    let report = report(&mut b);
    let row = stage(&report, "a");
    assert_eq!((row.kernels, row.gpu_busy_ns, row.kernel_sum_ns), (None, None, None));
    assert_eq!(report.paths[0].kernels_inclusive, None);
    assert_eq!(report.coverage.verdict.text, "EMPTY: no GPU work was recorded");
    let empty = report.coverage.empty.expect("a cause").first;
    assert!(empty.cause == EmptyCause::CuptiOff && empty.why.contains("no libcupti"), "{empty:?}");
}

#[test]
fn a_capture_that_says_why_it_is_incomplete_is_not_complete() {
    let mut b = process();
    b.open(1, 1, 0, 0).kernel(1, 1, 1, (5, 25)).close(1, 30);
    b.meta("gpu.incomplete", "a tool\nhas it").end();
    let report = report(&mut b);
    let text = &report.coverage.verdict.text;
    let gap = "processes whose GPU work is incomplete: 1";
    assert!(text.starts_with("PARTIAL") && text.contains(gap), "{text}");
    assert!(finds(&report, "GPU work is missing: a tool"));
}

#[test]
fn a_capture_whose_every_record_went_elsewhere_says_so_and_not_that_nothing_was_launched() {
    let mut b = process();
    b.meta("cupti.version", "130001").open(1, 1, 0, 0).close(1, 30);
    b.meta("gpu.incomplete", "a tool has the records").end();
    let empty = report(&mut b).coverage.empty.expect("a cause").first;
    assert_eq!(empty.cause, EmptyCause::CuptiOff);
    assert!(empty.why.contains("a tool has the records"), "{empty:?}");
}

/// Hazard (Records that make no sense): Kernels of one stream overlap, as branches of a CUDA graph
///  and programmatic dependent launches do.
/// Promise: That is possible: they are taken as they are, and busy time counts what they share
///  once.
#[test]
fn kernels_of_one_stream_may_overlap_and_share_busy_time() {
    let mut b = process();
    b.open(1, 1, 0, 0).kernel(1, 1, 1, (5, 25)).kernel(1, 1, 1, (15, 35)).close(1, 40).end();
    let report = report(&mut b);
    let row = stage(&report, "a");
    assert_eq!((row.gpu_busy_ns, row.kernel_sum_ns), (Some(30), Some(40)));
    assert_eq!(report.coverage.total.invalid_timestamps, 0);
}

/// Hazard (Records that make no sense): The clock of the GPU is set ahead, or the machine is
///  suspended, during the run.
/// Promise: No time is stretched over the step, and the report states it.
#[test]
fn a_machine_that_was_suspended_is_told_of_and_stretches_no_window() {
    const S: u64 = 1_000_000_000;
    let mut b = process();
    let mut anchor = |seconds: u64, ahead: u64| {
        let gpu = GpuNs((seconds + ahead) * S + GPU_AHEAD_NS);
        b.add(Record::Anchor(Anchor { gpu, mono: MonoNs(seconds * S), wall: WallNs(0) }));
    };
    anchor(10, 0);
    anchor(20, 3_600);
    b.open(1, 1, 0, 12 * S).kernel(1, 1, 1, (13 * S, 14 * S)).close(1, 15 * S).end();
    let report = report(&mut b);
    assert_eq!(stage(&report, "a").gpu_window_ns, Some(3 * S));
    let told = |f: &Finding| f.what.contains("clocks that stepped") && f.why.contains("suspended");
    assert!(report.findings.iter().any(told), "{:?}", report.findings);
}

#[test]
fn a_window_that_began_later_than_the_others_is_told_of() {
    let told = |late_ns: &str| {
        let mut b = process();
        b.meta("window.late_ns", late_ns).open(1, 1, 0, 0);
        b.kernel(1, 1, 1, (5, 25)).close(1, 10).end();
        let findings = report(&mut b).findings;
        findings.iter().find(|f| f.what.contains("after the moment that was set")).cloned()
    };
    let finding = told("12345678").expect("a finding");
    assert!(finding.what.contains("began 12.346 ms after"), "{finding:?}");
    assert!(finding.why.contains("later ones"), "{finding:?}");
    assert_eq!((told("999999"), told("soon")), (None, None));
}

/// Hazard (Dormant processes and windows): The start time falls between the moments at which two
///  ranks open the same step, or a rank starts late.
/// Promise: The report and `ctl` state it.
#[test]
fn windows_that_begin_with_different_steps_are_told_of() {
    let told = |opened: [u64; 2]| {
        let folder = RunFolder::new();
        for (rank, opened) in opened.into_iter().enumerate() {
            let mut b = process();
            let Some(Record::Process(who)) = b.records.first_mut() else { panic!("{rank}") };
            who.pid = 10 + rank as u32;
            b.meta("window.at_unix_ns", "7").meta("window.first_step_ns", "2000000");
            b.meta("window.first_step_unix_ns", &opened.to_string());
            b.open(1, 1, 0, 0).kernel(1, 1, 1, (5, 25)).close(1, 10).end();
            b.save(&folder.path(""), &format!("{rank}.s2t"));
        }
        let of = |f: &Finding| f.what.contains("do not begin with the same step");
        folder.report().findings.into_iter().find(of)
    };
    let finding = told([1_000_000_000, 1_001_900_000]).expect("a finding");
    assert!(
        finding.what.contains("opened 1.900 ms apart and were open for 2.000 ms"),
        "{finding:?}"
    );
    assert_eq!(told([1_000_000_000, 1_000_900_000]), None);
}

#[test]
fn the_model_survives_being_written_and_read() {
    let folder = fixture::reported();
    let report = folder.report();
    let again: Value = serde_json::to_value(&report).expect("JSON");
    let written: Value = serde_json::from_str(&folder.text("metrics.json")).expect("JSON");
    assert_eq!(again, written);
    assert_eq!((report.schema.as_str(), report.schema_version), ("stage2.report", 2));
}

#[test]
fn a_run_that_says_it_is_simulated_is_so_in_every_artifact() {
    let mut b = process();
    let folder = RunFolder::of([&*b.open(1, 1, 0, 0).kernel(1, 1, 1, (5, 25)).close(1, 10).end()]);
    let marked = |simulated: bool| {
        let run = json!({"simulated": simulated}).to_string();
        let outcome = folder.write("run.json", run).reports();
        let text = |path: &std::path::PathBuf| fs::read_to_string(path).expect("file");
        outcome.files.iter().map(text).all(|text| {
            text.contains("SIMULATED")
                || text.contains(",true")
                || text.contains("\"simulated\": true")
        })
    };
    assert!(marked(true));
    assert!(!marked(false));
}
