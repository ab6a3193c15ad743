//! The page of a run with operators, of one with too many, and of one without.

use super::*;
use crate::golden::compare;
use stage2_model::{PathRow, StageRow, Verdict};
use stage2_report::operators::{OperatorSettings, operators};

/// Prefill with an operator whose name tries to break out, and an operator in no stage.
fn report() -> Report {
    let path = |name: &str, parent: Option<usize>, calls: u64, host_ns: u64, gpu_ns: u64| PathRow {
        path: name.to_owned(),
        name: name.to_owned(),
        parent,
        instances: Some(calls),
        host_total_ns: Some(host_ns),
        kernels_inclusive: Some(calls),
        kernel_sum_exclusive_ns: Some(gpu_ns),
        ..PathRow::default()
    };
    Report {
        simulated: true,
        paths: vec![
            path("prefill", None, 1, 5_000_000, 100_000),
            path("aten::linear, op_id = 4", Some(0), 3, 3_000_000, 0),
            path("aten::addmm, op_id = 5", Some(1), 3, 1_000_000, 2_400_000),
            path("aten::sum", Some(0), 2, 900_000, 0),
            path("aten::sum", Some(3), 2, 400_000, 500_000),
            path("aten::empty", None, 7, 70_000, 0),
        ],
        stages: vec![StageRow { stage: "prefill".into(), ..StageRow::default() }],
        coverage: stage2_model::Coverage {
            verdict: Verdict { text: "10 kernels, all placed".into(), ..Verdict::default() },
            ..Default::default()
        },
        ..Report::default()
    }
}

#[test]
fn a_page_with_operators() {
    let report = report();
    let found = operators(&report, &OperatorSettings::default());
    let page = operators_md(&report, &found, 50);
    compare("operators.md", &page);
    assert!(page.contains("| op_name | total_time_ms | cuda_time_ms | calls | mean_ms |"));
}

#[test]
fn rows_that_are_left_out_are_counted() {
    let report = report();
    let found = operators(&report, &OperatorSettings::default());
    let page = operators_md(&report, &found, 1);
    assert!(page.contains("Rows: 1 of 4, longest host time first; metrics.json"), "{page}");
}

#[test]
fn names_cannot_break_the_table() {
    let mut report = report();
    report.paths[5].name = "aten::a|b` <b>".into();
    let pattern = stage2_report::operators::Pattern::try_from("aten".to_owned()).expect("pattern");
    let settings = OperatorSettings { pattern: Some(pattern), ..OperatorSettings::default() };
    let page = operators_md(&report, &operators(&report, &settings), 50);
    assert!(page.contains("| ``aten::a\\|b` <b>`` | 0.070 |"), "{page}");
}

#[test]
fn a_page_without_operators_says_why() {
    let report = Report::default();
    let page = operators_md(&report, &operators(&report, &OperatorSettings::default()), 50);
    assert!(
        page.contains("None, because the workload opened no NVTX range. To do: run again with")
    );
    assert!(!page.contains("op_name"), "{page}");
}

#[test]
fn gpu_times_of_a_part_say_so() {
    let mut report = report();
    let mut process = stage2_model::ProcessCoverage::default();
    process.meta.insert("ranges".into(), "aten*".into());
    report.coverage.processes.push(process);
    let page = operators_md(&report, &operators(&report, &OperatorSettings::default()), 50);
    let said = "GPU work was collected only in ranges that match aten\\*. GPU times leave out what \
                was not; calls and host times are those of all.";
    assert!(page.contains(said), "{page}");
}
