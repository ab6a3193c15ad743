//! Ranges of libraries: never a stage, never around a range of the user.

use crate::common::trace::{Build, RunFolder, finds, report_of, stage, takeaways};
use stage2_contract::trace::{NONE, Record};
use stage2_model::{PathKind, Report};

/// Names 1 to 6: prefill, decode, ncclCommInitRankConfig, ncclAllReduce, k, NCCL; one kernel shape.
fn process() -> Build {
    let mut b = Build::process(1, "x");
    b.anchor(1).device(0, "GPU", 1);
    let names = ["prefill", "decode", "ncclCommInitRankConfig", "ncclAllReduce", "k", "NCCL"];
    for (id, name) in (1..).zip(names) {
        b.name(id, name.as_bytes());
    }
    b.shape(1, 5, 1);
    b
}

fn paths(report: &Report) -> Vec<(&str, u64, u64)> {
    let row = |row: &stage2_model::PathRow| {
        row.instances.map(|n| (n, row.kernels_exclusive.unwrap_or(0)))
    };
    let rows = report.paths.iter();
    rows.filter_map(|path| row(path).map(|(n, kernels)| (path.path.as_str(), n, kernels))).collect()
}

/// What NCCL does: the range of its set-up stays open around everything.
fn inside_nccl() -> Build {
    let mut b = process();
    b.path_in(1, NONE, 3, 6).path(2, 1, 1).path(3, 1, 2).path_in(4, 3, 4, 6);
    b.open(1, 1, 0, 10).kernel(1, 1, 1, (20, 30));
    b.open(2, 2, 1, 100).kernel(2, 1, 1, (110, 150)).close(2, 200);
    for i in 0..3u64 {
        let (range, start) = (10 + 2 * i, 1_000 * (i + 1));
        b.open(range, 3, 1, start).kernel(range, 1, 1, (start + 10, start + 60));
        b.open(range + 1, 4, range, start + 60);
        b.kernel(range + 1, 1, 1, (start + 70, start + 90)).close(range + 1, start + 80);
        b.close(range, start + 100);
    }
    b
}

#[test]
fn a_library_range_around_everything_hides_no_stage() {
    let report = report_of([&mut inside_nccl()]);
    let stages: Vec<&str> = report.stages.iter().map(|row| row.stage.as_str()).collect();
    assert_eq!(stages, ["decode", "prefill", "(outside ranges)"]);
    assert_eq!(
        paths(&report),
        [
            ("decode", 3, 3),
            ("decode/ncclAllReduce@NCCL", 3, 3),
            ("prefill", 1, 1),
            ("(outside ranges)/ncclCommInitRankConfig@NCCL", 1, 1),
        ]
    );
    // Times, windows and instances are those of the user's ranges.
    let decode = stage(&report, "decode");
    assert_eq!((decode.instances, decode.kernels), (Some(3), Some(6)));
    assert_eq!((decode.host_total_ns, decode.host_first_ns), (Some(300), Some(100)));
    assert_eq!((decode.gpu_window_ns, decode.gpu_busy_ns), (Some(300), Some(210)));
    assert_eq!(decode.kernels_per_instance_max, Some(2));
    assert_eq!(decode.warm.map(|warm| (warm.instances, warm.kernels)), Some((2, 4)));
    let outside = stage(&report, "(outside ranges)");
    assert_eq!((outside.kind, outside.kernels), (PathKind::OutsideRanges, Some(1)));
    assert_eq!((outside.gpu_window_ns, outside.instances), (None, None));
    let total = &report.coverage.total;
    assert_eq!((total.attributed, total.outside_ranges, total.in_library_ranges), (7, 1, 1));
    assert_eq!((total.contradicting_ranges, total.undefined_identifiers), (0, 0));
    assert_eq!(total.unattributed, 0);
}

#[test]
fn a_range_in_a_library_s_in_a_range_is_nested_in_the_range() {
    let mut b = process();
    b.path(1, NONE, 1).path_in(2, 1, 4, 6).path(3, 2, 2);
    b.open(1, 1, 0, 0).open(2, 2, 1, 10).open(3, 3, 2, 20);
    b.kernel(2, 1, 1, (30, 40)).kernel(3, 1, 1, (40, 50)).close(3, 60).close(2, 70).close(1, 80);
    let report = report_of([&mut b]);
    assert_eq!(
        paths(&report),
        [("prefill", 1, 0), ("prefill/decode", 1, 1), ("prefill/ncclAllReduce@NCCL", 1, 1)]
    );
    assert_eq!(stage(&report, "prefill").gpu_busy_ns, Some(20));
    assert_eq!(report.coverage.total.contradicting_ranges, 0);
}

#[test]
fn a_range_that_outlives_a_library_s_around_it_stays_one_instance() {
    // A start/end range opened within one of a library: the collector lets it go on at the top.
    let mut b = process();
    b.path_in(1, NONE, 3, 6).path(2, 1, 2).path(3, NONE, 2);
    b.open(1, 1, 0, 0).open(2, 2, 1, 10).kernel(2, 1, 1, (20, 30)).close(1, 50);
    b.continues(3, 3, 0, 50, 2).kernel(3, 1, 1, (60, 70)).close(2, 110).end();
    let report = report_of([&mut b]);
    let decode = stage(&report, "decode");
    assert_eq!((decode.instances, decode.unclosed), (Some(1), Some(0)));
    assert_eq!((decode.host_total_ns, decode.host_first_ns), (Some(100), Some(100)));
    assert_eq!((decode.kernels, decode.gpu_window_ns), (Some(2), Some(100)));
    assert_eq!(decode.kernels_per_instance_max, Some(2));
    assert_eq!(report.coverage.total.contradicting_ranges, 0);
}

/// What the collector writes: it closes what goes on, and then opens it again.
#[test]
fn a_range_that_the_collector_lets_go_on_stays_one_instance() {
    let mut b = process();
    b.path_in(1, NONE, 3, 6).path(2, 1, 2).path(3, 2, 1).path(4, NONE, 2).path(5, 4, 1);
    // decode, and prefill in it, outlive two ranges of a library in turn.
    b.open(1, 1, 0, 0).open(2, 2, 1, 10).kernel(2, 1, 1, (20, 30)).open(3, 3, 2, 40);
    b.close(3, 50).close(2, 50).close(1, 50);
    b.continues(4, 4, 0, 50, 2).continues(5, 5, 4, 50, 3).kernel(5, 1, 1, (60, 70)).close(5, 80);
    b.path_in(6, 4, 3, 6).open(6, 6, 4, 80).close(6, 90);
    b.close(4, 95).continues(7, 4, 0, 95, 2).kernel(7, 1, 1, (96, 99)).close(7, 110);
    for at in [1_000, 2_000] {
        b.open(at, 4, 0, at).kernel(at, 1, 1, (at + 10, at + 20)).close(at, at + 50);
    }
    let report = report_of([b.end()]);
    let decode = stage(&report, "decode");
    assert_eq!((decode.instances, decode.unclosed), (Some(3), Some(0)));
    assert_eq!((decode.host_total_ns, decode.host_first_ns), (Some(200), Some(100)));
    assert_eq!((decode.kernels, decode.gpu_window_ns), (Some(5), Some(200)));
    assert_eq!(decode.kernels_per_instance_max, Some(3));
    assert_eq!(decode.warm.map(|warm| (warm.instances, warm.kernels)), Some((2, 2)));
    let nested = report.paths.iter().find(|row| row.path == "decode/prefill").expect("a path");
    assert_eq!((nested.instances, nested.host_total_ns), (Some(1), Some(40)));
    assert_eq!(report.coverage.total.contradicting_ranges, 0);
    assert_eq!(report.coverage.total.undefined_identifiers, 0);
}

fn written(build: &Build, config: &str) -> (RunFolder, Report) {
    let folder = RunFolder::of([build]);
    let report = folder.write("config.yaml", config).report();
    (folder, report)
}

/// A program of which only libraries open ranges, as one with JAX or CuPy.
fn libraries_only(domain: &str) -> Build {
    let mut b = Build::process(1, "x");
    b.anchor(1).device(0, "GPU", 1).name(1, b"XlaModule").name(2, domain.as_bytes()).name(3, b"k");
    b.shape(1, 3, 1).path_in(1, NONE, 1, 2);
    for range in 1..=5u64 {
        let start = 100_000 * range;
        b.open(range, 1, 0, start).kernel(range, 1, 1, (start + 10, start + 60));
        b.close(range, start + 50_000);
    }
    b.end();
    b
}

#[test]
fn ranges_of_libraries_alone_have_a_table_of_their_own_and_no_verdict() {
    for domain in ["TSL", "CCCL", "cccl"] {
        let (folder, report) = written(&libraries_only(domain), "");
        assert!(report.stages.iter().all(|row| row.kind != PathKind::Range), "{domain}");
        assert_eq!(stage(&report, "(whole process)").kernels, Some(5));
        let page = folder.text("report.md");
        let title = "## Ranges of libraries only: the workload itself opened none";
        let (_, table) = page.split_once(title).expect("a table of their own");
        let row = format!("XlaModule@{domain}");
        assert!(table.split("\n## ").next().is_some_and(|table| table.contains(&row)), "{page}");
        assert_eq!(page.matches(&row).count(), 1, "{page}");
        assert!(
            page.contains("5 outside of the workload's ranges, 5 of them in ranges of libraries"),
            "{page}"
        );
        let said = takeaways(&report);
        assert!(said.iter().all(|text| !text.contains("XlaModule")), "{said:?}");
        assert!(folder.text("stakeholder_summary.md").contains("only libraries did"));
    }
}

#[test]
fn a_configuration_adds_to_the_libraries() {
    let build = libraries_only("vllm.worker");
    let (_folder, report) = written(&build, "");
    assert_eq!(stage(&report, "XlaModule@vllm.worker").kernels, Some(5));
    for added in ["[other, 'VLLM*']", "vllm.worker"] {
        let config = format!("report: {{library_domains: {added}}}");
        let (_folder, report) = written(&build, &config);
        let stages: Vec<&str> = report.stages.iter().map(|row| row.stage.as_str()).collect();
        assert_eq!(stages, ["(whole process)"], "{added}");
    }
    let (_folder, report) = written(&build, "report: {library_domains: {a: 1}}");
    assert!(finds(&report, "report.library_domains"));
    assert_eq!(stage(&report, "XlaModule@vllm.worker").kernels, Some(5));
}

/// Hazard (Dormant processes and windows): A window ends while ranges are open, such as the
///  requests of a server.
/// Promise: It is complete: the process goes on and closes them.
#[test]
fn a_range_that_is_open_at_a_normal_end_is_told_and_that_of_a_library_is_not() {
    let gap = "the workload's ranges open at its end: ";
    let finding = |report: &Report| finds(report, gap);
    // NCCL's range is never closed.
    let report = report_of([inside_nccl().end()]);
    assert!(report.coverage.verdict.text.starts_with("complete"), "{:?}", report.coverage.verdict);
    assert!(!finding(&report));

    let open = |finish: fn(&mut Build) -> &mut Build| {
        let mut b = process();
        b.path(1, NONE, 2).open(1, 1, 0, 0).kernel(1, 1, 1, (5, 25)).open(2, 1, 0, 60);
        report_of([finish(&mut b)])
    };
    let left = open(|b| b.end());
    assert!(left.coverage.verdict.text.contains(&format!("{gap}2")), "{:?}", left.coverage.verdict);
    assert!(finding(&left));
    // The collector knows more where records were lost.
    let told = open(|b| b.meta("ranges.open_at_end", "7").end());
    assert!(told.coverage.verdict.text.contains(&format!("{gap}7")), "{:?}", told.coverage.verdict);
    // A process that was killed had no chance to close it.
    let killed = open(|b| b.add(Record::Meta { key: "x".into(), value: "y".into() }));
    assert!(!killed.coverage.verdict.text.contains(gap) && !finding(&killed));
    // Behind a window the process goes on; behind that of its exit it does not.
    let window = |why: &'static str| {
        let mut b = process();
        b.path(1, NONE, 2).open(1, 1, 0, 0).kernel(1, 1, 1, (5, 25)).open(2, 1, 0, 60);
        report_of([b.meta("window.ended", why).meta("ranges.open_at_end", "2").end()])
    };
    for why in ["stop", "limit for_ms=15000", "memory"] {
        let report = window(why);
        let verdict = &report.coverage.verdict;
        assert!(verdict.text.starts_with("complete"), "{why}: {verdict:?}");
        let notes = report.findings.iter().filter(|f| f.what.starts_with("ranges never closed: 2"));
        assert_eq!((notes.count(), finding(&report)), (1, false), "{why}");
    }
    assert!(finding(&window("exit")));
}
