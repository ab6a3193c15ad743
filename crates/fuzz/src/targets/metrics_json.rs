//! The `metrics.json` of anybody, as `diff` reads it.

use stage2_diff::{Run, compare, read_report};

use super::{difference, same_twice};

pub(super) fn check(input: &[u8]) {
    let Ok(read) = same_twice("report", || read_report(input)) else { return };
    // What is written again is read equal.
    let written = serde_json::to_string(&read.report).expect("every report is JSON");
    let again = read_report(written.as_bytes())
        .unwrap_or_else(|why| panic!("our own report is refused: {why}"));
    assert!(again.left_out.is_empty(), "our own report is read in part: {:?}", again.left_out);
    let rewritten = serde_json::to_string(&again.report).expect("every report is JSON");
    assert_eq!(written, rewritten, "written again: {}", difference(&written, &rewritten));

    let run = |label| Run { label, report: &read.report, left_out: &read.left_out };
    let compared = same_twice("comparison", || compare(&[run("a")], &[run("b")], &[], false));
    let Ok(comparison) = compared else { return };
    for stage in &comparison.stages {
        for metric in &stage.metrics {
            assert!(!metric.verdict.is_change(), "a report differs from itself: {metric:?}");
        }
    }
}
