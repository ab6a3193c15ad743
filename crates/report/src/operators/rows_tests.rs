//! Trees of ranges with known sums.

use super::*;
use crate::operators::{Annotation, Pattern};
use stage2_model::{MemoryRow, PathKind, StageRow, Times};

/// A tree in the making: name, parent, calls, host ns, own kernel ns.
fn tree(ranges: &[(&str, Option<usize>, u64, u64, u64)]) -> Report {
    let mut paths: Vec<PathRow> = Vec::new();
    for &(name, parent, calls, host_ns, kernel_ns) in ranges {
        let around = parent.and_then(|p| paths.get(p)).map(|p: &PathRow| p.path.clone());
        paths.push(PathRow {
            path: around.map_or_else(|| name.to_owned(), |around| format!("{around}/{name}")),
            name: name.to_owned(),
            parent,
            instances: Some(calls),
            unclosed: Some(0),
            host_total_ns: Some(host_ns),
            kernels_inclusive: Some(u64::from(kernel_ns > 0)),
            kernel_sum_exclusive_ns: Some(kernel_ns),
            ..PathRow::default()
        });
    }
    let roots = paths.iter().filter(|row| row.parent.is_none());
    let stage = |row: &PathRow| StageRow { stage: row.path.clone(), ..StageRow::default() };
    Report { stages: roots.map(stage).collect(), paths, ..Report::default() }
}

fn llm() -> Report {
    let mut report = tree(&[
        ("prefill", None, 1, 1_000, 5),
        ("aten::linear", Some(0), 2, 600, 0),
        ("aten::addmm", Some(1), 2, 400, 70),
        ("aten::sum", Some(0), 3, 90, 4),
        ("layer", Some(3), 3, 60, 0),
        ("aten::sum", Some(4), 3, 50, 9),
        ("decode", None, 4, 800, 0),
        ("aten::linear", Some(6), 8, 500, 0),
        ("aten::addmm", Some(7), 8, 300, 30),
        ("aten::empty", None, 1, 7, 0),
    ]);
    let copy = Times { total_ns: 11, calls: 1, ..Times::default() };
    report.copies = vec![MemoryRow { path_index: 2, times: copy.clone(), ..MemoryRow::default() }];
    report.fills = vec![MemoryRow { path_index: 999, times: copy, ..MemoryRow::default() }];
    report
}

fn find<'r>(rows: &'r [OperatorRow], name: &str) -> &'r OperatorRow {
    rows.iter().find(|row| row.op_name == name).expect("row")
}

#[test]
fn operators_add_up_over_paths_and_contain_what_is_within() {
    let found = operators(&llm(), &OperatorSettings::default());
    let names: Vec<&str> = found.rows.iter().map(|row| row.op_name.as_str()).collect();
    assert_eq!(names, ["aten::linear", "aten::addmm", "aten::sum", "aten::empty"]);
    let linear = find(&found.rows, "aten::linear");
    assert_eq!(
        (linear.host_total_ns, linear.calls, linear.host_mean_ns),
        (Some(1_100), 10, Some(110))
    );
    assert_eq!(linear.host_self_ns, Some(200 + 200));
    assert_eq!((linear.gpu_inclusive_ns, linear.gpu_exclusive_ns), (Some(70 + 11 + 30), Some(0)));
    let addmm = find(&found.rows, "aten::addmm");
    assert_eq!((addmm.gpu_inclusive_ns, addmm.gpu_exclusive_ns), (Some(111), Some(111)));
    assert_eq!(found.absent, None);
    assert!(found.source.contains("collector"));
}

#[test]
fn an_operator_within_itself_counts_once() {
    let found = operators(&llm(), &OperatorSettings::default());
    let sum = find(&found.rows, "aten::sum");
    assert_eq!((sum.calls, sum.nested_calls, sum.host_total_ns), (3, 3, Some(90)));
    assert_eq!((sum.gpu_inclusive_ns, sum.gpu_exclusive_ns), (Some(13), Some(13)));
    // 90 of the outer without 60 of the range in it, and all 50 of the inner.
    assert_eq!((sum.host_self_ns, sum.host_mean_ns), (Some(30 + 50), Some(30)));
}

#[test]
fn stages_have_their_own_rows_and_add_up() {
    let found = operators(&llm(), &OperatorSettings::default());
    let stages: Vec<Option<&str>> = found.stages.iter().map(|row| row.stage.as_deref()).collect();
    let (prefill, decode) = (Some("prefill"), Some("decode"));
    assert_eq!(stages, [prefill, prefill, prefill, decode, decode, None]);
    for row in &found.rows {
        let of = |row: &&StageOperatorRow, name: &str| row.operator.op_name == name;
        let parts: Vec<_> = found.stages.iter().filter(|s| of(s, &row.op_name)).collect();
        let host: u64 = parts.iter().filter_map(|part| part.operator.host_total_ns).sum();
        assert_eq!(Some(host), row.host_total_ns, "{}", row.op_name);
        assert_eq!(parts.iter().map(|part| part.operator.calls).sum::<u64>(), row.calls);
    }
}

#[test]
fn a_warm_up_ranks_nothing_among_the_stages() {
    let mut report = llm();
    let stage = |apart| StageRow { stage: "prefill".into(), apart, ..StageRow::default() };
    report.stages = vec![stage(Some(Apart::WarmUp))];
    let all = operators(&llm(), &OperatorSettings::default());
    let found = operators(&report, &OperatorSettings::default());
    let linear = |rows| find(rows, "aten::linear").calls;
    assert!(linear(&found.warm_up) > 0 && linear(&found.rows) > 0, "{found:?}");
    assert_eq!(linear(&found.warm_up) + linear(&found.rows), linear(&all.rows));
    let stages: Vec<_> = found.stages.iter().map(|row| row.stage.as_deref()).collect();
    assert_eq!(stages.last(), Some(&Some("prefill")), "warm-ups stand last: {stages:?}");
    assert_eq!(found.absent, None);
}

#[test]
fn coverage_is_the_share_of_gpu_time_in_operators() {
    let found = operators(&llm(), &OperatorSettings::default());
    let coverage = found.coverage.expect("coverage");
    assert_eq!((coverage.gpu_in_operators_ns, coverage.gpu_total_ns), (124, 129));
    assert_eq!(OperatorCoverage::default().percent(), None);
}

#[test]
fn what_was_not_recorded_is_absent_and_not_zero() {
    let mut report = llm();
    for row in &mut report.paths {
        row.kernel_sum_exclusive_ns = None;
        row.kernels_inclusive = None;
        row.host_total_ns = None;
        row.unclosed = row.instances;
    }
    let found = operators(&report, &OperatorSettings::default());
    let linear = find(&found.rows, "aten::linear");
    assert_eq!((linear.gpu_inclusive_ns, linear.gpu_exclusive_ns), (None, None));
    assert_eq!((linear.host_total_ns, linear.host_mean_ns, linear.calls), (None, None, 10));
    assert_eq!((found.coverage, linear.kernels_inclusive), (None, None));
}

#[test]
fn without_operators_the_reason_and_the_remedy_are_given() {
    let absent = |report: &Report, settings: &OperatorSettings| {
        operators(report, settings).absent.expect("a reason")
    };
    let plain = OperatorSettings::default();
    assert!(absent(&Report::default(), &plain).reason.contains("no NVTX range"));
    let ranges = tree(&[("prefill", None, 1, 10, 1)]);
    let found = absent(&ranges, &plain);
    assert!(found.reason.contains("no operator ranges (such"), "{found:?}");
    assert!(found.remedy.contains("--annotate torch-ops, which"), "{found:?}");
    let asked = OperatorSettings { annotate: vec![Annotation::TorchOps], ..plain.clone() };
    assert!(absent(&ranges, &asked).remedy.contains("was on"));
    let pattern = Some(Pattern::try_from("^x$".to_owned()).expect("pattern"));
    assert!(absent(&ranges, &OperatorSettings { pattern, ..plain }).reason.contains("(^x$)"));
}

#[test]
fn trees_that_contradict_themselves_cost_nothing_but_their_sums() {
    let mut report = llm();
    report.paths[2].parent = Some(9);
    report.paths[4].parent = Some(4);
    report.paths[5].parent = Some(4_000);
    report.paths[7].kind = PathKind::Undefined;
    let found = operators(&report, &OperatorSettings::default());
    assert_eq!(find(&found.rows, "aten::addmm").calls, 10);
    report.paths.iter_mut().for_each(|row| row.host_total_ns = Some(u64::MAX));
    operators(&report, &OperatorSettings::default());
}
