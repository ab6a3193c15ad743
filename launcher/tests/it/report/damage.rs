//! Folders and files that are absent, cut, foreign or hostile: a result that says so, or an error.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use stage2_contract::trace::{NONE, RANGE_OUTSIDE, Record};
use stage2_launch::reports::Outcome;
use stage2_launch::reports::write_reports;

use crate::common::trace::{Build, RunFolder};
use crate::report::fixture;

fn in_folder(fill: impl FnOnce(&Path)) -> Outcome {
    let folder = RunFolder::new();
    fill(&folder.path(""));
    let outcome = folder.reports();
    for file in &outcome.files {
        assert!(fs::metadata(file).expect("file").len() > 0);
    }
    outcome
}

fn status(outcome: &Outcome) -> &str {
    outcome.coverage["verdict"]["status"].as_str().expect("status")
}

fn whats(outcome: &Outcome) -> String {
    outcome.findings.iter().map(|f| format!("{}\n", f.what)).collect()
}

#[test]
fn an_empty_folder_gives_an_empty_report_that_says_so() {
    let outcome = in_folder(|_| {});
    assert_eq!(status(&outcome), "empty");
    for part in ["run.json", "env.json", "config.yaml", "collector"] {
        assert!(whats(&outcome).contains(part), "{part}: {}", whats(&outcome));
    }
}

#[test]
fn no_folder_is_an_error_that_names_it() {
    for path in ["/no/such/folder", file!()] {
        let error = format!("{:#}", write_reports(Path::new(path)).expect_err("no folder"));
        assert!(error.contains(path) && error.contains("name the folder of a run"), "{error}");
    }
}

#[test]
fn a_complete_capture_is_called_complete() {
    let outcome = in_folder(|folder| {
        let mut b = Build::process(1, "x");
        b.anchor(1).device(0, "GPU", 1).name(1, b"decode").name(2, b"k").shape(1, 2, 1);
        b.path(1, NONE, 1).open(1, 1, 0, 10).kernel(1, 1, 1, (20, 30)).close(1, 25).end();
        b.save(folder, "a.s2t");
    });
    assert_eq!(status(&outcome), "complete", "{}", outcome.coverage);
    assert!(!outcome.simulated);
}

#[test]
fn run_files_that_make_no_sense_cost_only_their_section() {
    let outcome = in_folder(|folder| {
        fixture::write(folder);
        fs::write(folder.join("run.json"), "[1, 2").expect("run.json");
        fs::write(folder.join("env.json"), b"\xff\xfe").expect("env.json");
        fs::write(folder.join("config.yaml"), "report: {top_n: many}").expect("config.yaml");
    });
    assert_eq!(status(&outcome), "partial");
    for part in ["run.json cannot be used", "env.json cannot be used", "report.top_n is \"many\""] {
        assert!(whats(&outcome).contains(part), "{part}: {}", whats(&outcome));
    }
}

/// Hazard (Hostile files): A copy of a trace file in the same folder.
/// Promise: It is not counted twice.
#[test]
fn a_copy_of_a_trace_file_is_not_counted_again() {
    let mut b = Build::process(1, "x");
    b.anchor(1).device(0, "GPU", 1).name(1, b"decode").name(2, b"k").shape(1, 2, 1);
    b.path(1, NONE, 1).open(1, 1, 0, 10).kernel(1, 1, 1, (20, 30)).flush();
    b.kernel(1, 1, 1, (40, 50)).close(1, 60).end();
    let bytes = b.bytes();
    // The same process id, at another time.
    let mut other = Build::process(1, "x");
    other.anchor(2).device(0, "GPU", 1).name(2, b"k").shape(1, 2, 1);
    other.kernel(RANGE_OUTSIDE, 1, 1, (20, 30)).end();
    for cut in ["a.s2t", "b.s2t", "c.s2t"] {
        let outcome = in_folder(|folder| {
            other.save(folder, "other.s2t");
            for name in ["a.s2t", "b.s2t", "c.s2t"] {
                let keep = if name == cut { bytes.len() - 1 } else { bytes.len() };
                fs::write(folder.join("collector").join(name), &bytes[..keep]).expect("copy");
            }
        });
        assert_eq!(outcome.coverage["total"]["kernels"], 3, "{cut}: {}", outcome.coverage);
        assert_eq!(outcome.coverage["total"]["torn_bytes"], 0, "{cut}: the longest counts");
        assert_eq!(whats(&outcome).matches("is not read").count(), 2, "{}", whats(&outcome));
    }
}

#[test]
fn zero_rows_of_kernels_are_a_table_without_rows() {
    in_folder(|folder| {
        fixture::write(folder);
        fs::write(folder.join("config.yaml"), "report: {top_n: 0}").expect("config.yaml");
    });
}

#[test]
fn very_deep_ranges_and_huge_identifiers_are_survived() {
    let outcome = in_folder(|folder| {
        let mut b = Build::process(1, "x");
        b.anchor(1).device(7, "GPU", 0).queue(u32::MAX, u32::MAX).name(u32::MAX, b"r");
        b.shape(u32::MAX, u32::MAX, u32::MAX);
        for depth in 1..=10_000u32 {
            b.path(depth, depth - 1, u32::MAX);
            let range = u64::MAX - 20_000 + u64::from(depth);
            let parent = if depth == 1 { 0 } else { range - 1 };
            b.open(range, depth, parent, u64::MAX - 5);
        }
        b.kernel(u64::MAX - 10_000, u32::MAX, u32::MAX, (1 << 60, (1 << 61) + 1)).end();
        b.save(folder, "deep.s2t");
    });
    assert!(
        whats(&outcome).contains("the workload's ranges open at its end: 10,000"),
        "{}",
        whats(&outcome)
    );
    assert_eq!(outcome.coverage["total"]["attributed"], 1);
}

#[test]
fn records_in_the_wrong_order_are_counted() {
    let outcome = in_folder(|folder| {
        let mut b = Build::process(1, "x");
        b.kernel(5, 5, 5, (10, 20)).close(5, 1).continues(7, 3, 9, 1, 7).close(7, 2);
        b.continues(8, 3, 8, 1, 7).continues(9, 3, 8, 1, 8).continues(8, 3, 8, 1, 9).close(8, 0);
        b.add(Record::GraphNode { node: 1, path: 44, range: 0 }).node(9, 5, 5, (1, 2), 1).end();
        b.save(folder, "a.s2t");
    });
    assert_eq!(status(&outcome), "partial");
    assert!(whats(&outcome).contains("uses of identifiers that no record defines"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Hazard (Hostile files): Damaged trace files in a bundle.
    /// Promise: There is always a report.
    #[test]
    fn flipped_and_cut_files_always_give_reports(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        keep in any::<prop::sample::Index>(),
    ) {
        let outcome = in_folder(|folder| {
            fixture::write(folder);
            let path = folder.join("collector/node-1-100.s2t");
            let mut bytes = fs::read(&path).expect("a trace file");
            for (at, value) in &flips {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            bytes.truncate(keep.index(bytes.len()) + 1);
            fs::write(&path, bytes).expect("a trace file");
        });
        prop_assert_eq!(status(&outcome), "partial");
    }
}
