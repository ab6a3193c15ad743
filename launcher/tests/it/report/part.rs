//! Captures of a part of what ran: what is scaled, what is absent, and what says so.

use crate::common::trace::{Build, RunFolder, report_of, stage};
use crate::report::meaning::{gpu_times_are, process};
use stage2_contract::trace::Record;
use stage2_model::Report;

#[test]
fn a_sample_is_scaled_per_path_and_says_so_everywhere() {
    // a was opened 8 times and recorded twice; b within a 24 times, 6 of them recorded.
    let mut b = process();
    b.meta("sample", "1/4");
    let mut range = 0;
    for instance in 0..8u64 {
        let (outer, start, recorded) = (range + 1, instance * 1000, instance % 4 == 1);
        b.open(outer, 1, 0, start).add(Record::RangeSample { range: outer, recorded });
        for inner in 0..3 {
            let at = start + 100 * (inner + 1);
            b.open(outer + 1 + inner, 3, outer, at);
            if recorded {
                b.kernel(outer + 1 + inner, 1, 1, (at, at + 10 + inner));
            }
            b.close(outer + 1 + inner, at + 50);
        }
        b.close(outer, start + 900);
        range = outer + 3;
    }
    let folder = RunFolder::of([&*b.end()]);
    let report = folder.report();
    let read = |file: &str| folder.text(file);

    let row = stage(&report, "a");
    assert_eq!((row.instances, row.recorded_instances), (Some(8), Some(2)));
    assert_eq!((row.kernels, row.kernel_sum_ns), (Some(24), Some(264)));
    assert_eq!((row.kernels_per_instance_min, row.kernels_per_instance_max), (Some(3), Some(3)));
    // Window and busy time are of the two that were recorded.
    assert_eq!((row.gpu_window_ns, row.gpu_busy_ns), (Some(1800), Some(66)));
    let times = &report.kernels[0].times;
    assert_eq!((times.calls, times.recorded_calls, times.total_ns), (24, Some(6), 264));
    assert_eq!((times.mean_ns, times.max_ns), (Some(11), Some(12)));
    let inner = report.paths.iter().find(|row| row.path == "a/b").unwrap();
    assert_eq!((inner.instances, inner.recorded_instances), (Some(24), Some(6)));
    assert_eq!(inner.kernels_exclusive, Some(24));
    let device = &report.devices[0];
    assert_eq!((device.kernels, device.kernel_sum_ns), (24, 264));
    assert_eq!(
        (device.gpu_busy_ns, device.gpu_span_ns, device.gpu_busy_percent),
        (None, None, None)
    );

    let note = report.findings.iter().find(|f| f.what.contains("sampled 1/4")).unwrap();
    assert!(note.what.contains("recorded 8 of 32 range instances"), "{}", note.what);
    for file in ["kernels.md", "report.md"] {
        assert!(read(file).contains("SAMPLED 1/4"), "{file}");
    }
    assert!(read("kernels.md").contains("totals are scaled from the recorded instances to all"));
    assert!(read("report.md").contains("24 (recorded 6)"));
    // Whole-run numbers are scaled, or not there.
    let (html, summary) = (read("report.html"), read("stakeholder_summary.md"));
    assert!(
        !html.contains("start-up included</span>") && !html.contains("of GPU work</span>"),
        "{html}"
    );
    let whole = read("report.md");
    assert!(whole.contains("- kernels: 24\n") && !whole.contains("GPU idle (ms) |\n"), "{whole}");
    let said = "busy and idle are over the recorded instances; kernels and their sums are scaled";
    assert!(whole.contains(said) && summary.contains(said), "{summary}");
    assert!(read("kernels.csv").lines().nth(1).unwrap().contains(",6,collector,"));
}

#[test]
fn a_sample_and_a_whole_capture_weigh_as_much_as_they_stand_for() {
    // Of 8 instances with a kernel of 10 ns, 2 were recorded; of 8 with one of 50 ns, all.
    let (mut sample, mut whole) = (process(), process());
    sample.meta("sample", "1/4");
    for range in 1..=8 {
        let (at, recorded) = (range * 1000, range % 4 == 2);
        sample.open(range, 1, 0, at).add(Record::RangeSample { range, recorded });
        if recorded {
            sample.kernel(range, 1, 1, (at, at + 10));
        }
        sample.close(range, at + 500);
        whole.open(range, 1, 0, at).kernel(range, 1, 1, (at, at + 50)).close(range, at + 500);
    }
    let report = report_of([&mut sample, &mut whole]);
    let row = stage(&report, "a");
    assert_eq!((row.instances, row.recorded_instances), (Some(16), Some(10)));
    // 8 * 10 + 8 * 50 over 16; the eighth of them took 10 ns.
    for times in [&report.kernels[0].times, &report.stage_kernels[0].times] {
        assert_eq!((times.calls, times.recorded_calls, times.total_ns), (16, Some(10), 480));
        assert_eq!((times.mean_ns, times.p50_ns, times.max_ns), (Some(30), Some(10), Some(50)));
    }
    let path = report.paths.iter().find(|row| row.path == "a").unwrap();
    assert_eq!((path.instances, path.recorded_instances), (Some(16), Some(10)));
}

/// What a reader sees first, and the findings.
fn pages(build: &mut Build) -> (Report, Vec<String>, String) {
    let folder = RunFolder::of([&*build.end()]);
    let headline = folder.reports().headline.lines();
    let pages = ["report.md", "kernels.md", "stakeholder_summary.md", "report.html"];
    (folder.report(), headline, pages.map(|page| folder.text(page)).concat())
}

#[test]
fn what_a_filter_leaves_out_is_absent_and_said_first() {
    // Three of a, left out; then three of b, each 40 ns long with a kernel of 20 ns.
    let mut b = process();
    b.meta("ranges", "b");
    for (range, at) in [(1, 100), (2, 200), (3, 300)] {
        b.open(range, 1, 0, at).close(range, at + 10);
    }
    for (range, at) in [(4, 400), (5, 500), (6, 600)] {
        b.open(range, 2, 0, at).add(Record::RangeSample { range, recorded: true });
        b.kernel(range, 1, 1, (at + 10, at + 30)).close(range, at + 40);
    }
    let (report, headline, pages) = pages(&mut b);
    let out = stage(&report, "a");
    assert_eq!((out.instances, out.recorded_instances), (Some(3), Some(0)));
    assert_eq!((out.host_total_ns, out.host_first_ns), (Some(30), Some(10)));
    assert_eq!((out.kernels, out.kernel_sum_ns, out.kernels_per_instance_min), (None, None, None));
    assert_eq!((out.copies, out.fills, out.graph_launches), (None, None, None));
    gpu_times_are(&report, "a", [None; 3]);
    assert_eq!((out.gpu_busy_percent, out.warm), (None, None));
    let path = report.paths.iter().find(|row| row.path == "a").unwrap();
    assert_eq!((path.kernels_inclusive, path.kernel_sum_exclusive_ns), (None, None));
    assert_eq!(path.recorded_instances, Some(0));
    // All of b is there: nothing is scaled, and its first instance can be told apart.
    let row = stage(&report, "b");
    assert_eq!((row.instances, row.recorded_instances, row.kernels), (Some(3), Some(3), Some(3)));
    gpu_times_are(&report, "b", [Some(120), Some(60), Some(60)]);
    assert_eq!(row.warm.map(|warm| (warm.instances, warm.gpu_window_ns)), Some((2, 80)));
    assert_eq!(report.kernels[0].times.recorded_calls, None);

    let verdict = "complete: no known lost records, and every kernel record is attributed (3 GPU records \
                   in ranges); COLLECTED ONLY in ranges that match b: GPU work elsewhere is in no \
                   number";
    assert_eq!(report.coverage.verdict.text, verdict);
    let note = report.findings.iter().find(|f| f.what.contains("ranges that match b")).unwrap();
    assert!(note.what.ends_with("of 1 range paths none was recorded"), "{}", note.what);
    assert!(headline.contains(&"a: GPU work was not recorded".to_owned()), "{headline:?}");
    assert!(!pages.contains("idle 100"), "{pages}");
    // report.md and report.html have it in short and whole.
    assert_eq!(pages.matches("COLLECTED ONLY in ranges that match b").count(), 6);
}

#[test]
fn ranges_that_were_asked_for_within_one_that_was_not_are_all_that_is_known_of_it() {
    let mut b = process();
    b.meta("ranges", "b").open(1, 1, 0, 100).open(2, 3, 1, 110);
    b.add(Record::RangeSample { range: 2, recorded: true });
    b.kernel(2, 1, 1, (120, 130)).close(2, 140).close(1, 200);
    let report = report_of([&mut b]);
    let row = stage(&report, "a");
    assert_eq!((row.instances, row.recorded_instances, row.kernels), (Some(1), Some(0), Some(1)));
    gpu_times_are(&report, "a", [None, Some(10), None]);
    let kernels = |path: &str| {
        let row = report.paths.iter().find(|row| row.path == path).unwrap();
        (row.kernels_inclusive, row.kernels_exclusive)
    };
    assert_eq!((kernels("a"), kernels("a/b")), ((Some(1), None), (Some(1), Some(1))));
}

#[test]
fn a_stage_of_which_the_sample_has_no_instance_is_absent() {
    let mut b = process();
    b.meta("sample", "1/16").open(1, 1, 0, 100);
    b.add(Record::RangeSample { range: 1, recorded: false }).close(1, 200);
    b.open(2, 2, 0, 300).add(Record::RangeSample { range: 2, recorded: true });
    b.kernel(2, 1, 1, (310, 320)).close(2, 400);
    let (report, headline, _) = pages(&mut b);
    let row = stage(&report, "a");
    assert_eq!((row.instances, row.recorded_instances, row.kernels), (Some(1), Some(0), None));
    assert_eq!((row.gpu_busy_ns, row.gpu_window_ns, row.kernel_sum_ns), (None, None, None));
    assert!(headline.contains(&"a: GPU work was not recorded".to_owned()), "{headline:?}");
    // Recorded, and without GPU work: that is zero.
    let mut b = process();
    b.meta("sample", "1/16").open(1, 1, 0, 100);
    b.add(Record::RangeSample { range: 1, recorded: true }).close(1, 200);
    let report = report_of([&mut b]);
    assert_eq!(stage(&report, "a").kernels, Some(0));
}

#[test]
fn a_filter_that_matches_no_range_is_a_warning() {
    let mut b = process();
    b.meta("ranges", "x*@lib").open(1, 1, 0, 100).close(1, 200).end();
    let report = report_of([&mut b]);
    assert_eq!(stage(&report, "a").kernels, None);
    let warned = report.findings.iter().find(|f| f.what.contains("x*@lib")).unwrap();
    assert!(warned.remedy.contains("no range that was opened matches"), "{}", warned.remedy);
    assert!(report.coverage.verdict.text.starts_with("EMPTY: no GPU work was recorded; COLLECTED"));
}
