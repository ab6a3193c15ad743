//! Captures of a part of what ran: what is scaled, what is absent, and what says so.

use std::fs;

use stage2_launch::report::model::Report;
use stage2_launch::report::write_reports;
use stage2_spool::Record;

use crate::meaning::{process, report_of, stage};

#[test]
fn a_sample_is_scaled_per_path_and_says_so_everywhere() {
    // a was opened 8 times and recorded twice; b within a 24 times, 6 of them recorded.
    let folder = tempfile::tempdir().unwrap();
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
    b.end();
    b.save(folder.path(), "p.s2t");
    let outcome = write_reports(folder.path()).unwrap();
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    let report: Report = serde_json::from_str(&read("metrics.json")).unwrap();

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
    assert_eq!(report.devices[0].gpu_busy_percent, None);

    let note = outcome.findings.iter().find(|f| f.what.contains("sampled 1/4")).unwrap();
    assert!(note.what.contains("recorded 8 of 32 range instances"), "{}", note.what);
    for file in ["kernels.md", "report.md", "operators.md"] {
        assert!(read(file).contains("SAMPLED 1/4"), "{file}");
    }
    assert!(read("kernels.md").contains("collector (scaled from 6 calls)"));
    assert!(read("report.md").contains("24 (recorded 6)"));
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
