//! A trace file of a real PyTorch model, marked by the Python hook -> its operators.

use crate::common::repository;
use stage2_model::{Operators, Report, RunInfo, StageOperatorRow};
use stage2_read::trace::folder::load_folder;
use stage2_render::operators::operators_md;
use stage2_report::join::join;
use stage2_report::operators::{OperatorSettings, operators};

/// Linear layers of one forward: seven in each of the two layers, and the head.
const LINEARS: u64 = 2 * 7 + 1;

fn recorded() -> (Report, Operators) {
    let folder = repository("tests/fixtures/torch_ops");
    let report = join(load_folder(&folder, &Default::default()), RunInfo::default(), Vec::new());
    let found = operators(&report, &OperatorSettings::default());
    (report, found)
}

fn in_stage<'o>(found: &'o Operators, stage: &str, name: &str) -> &'o StageOperatorRow {
    let is_it = |row: &&StageOperatorRow| {
        row.stage.as_deref() == Some(stage) && row.operator.op_name == name
    };
    found.stages.iter().find(is_it).expect("a row")
}

#[test]
fn operators_are_called_as_often_as_the_model_says_and_fit_into_their_stages() {
    let (report, found) = recorded();
    let instances = |stage: &str| report.stages.iter().find(|row| row.stage == stage)?.instances;
    assert_eq!((instances("prefill"), instances("decode")), (Some(1), Some(3)));
    assert_eq!(in_stage(&found, "prefill", "aten::linear").operator.calls, LINEARS);
    assert_eq!(in_stage(&found, "decode", "aten::linear").operator.calls, 3 * LINEARS);
    for stage in ["prefill", "decode"] {
        let whole = report.stages.iter().find(|row| row.stage == stage).expect("a stage");
        let rows = found.stages.iter().filter(|row| row.stage.as_deref() == Some(stage));
        // Self times do not overlap on one thread.
        let own: u64 = rows.clone().filter_map(|row| row.operator.host_self_ns).sum();
        assert!(own > 0 && Some(own) <= whole.host_total_ns, "{stage}");
        assert!(rows.clone().all(|row| row.operator.host_total_ns <= whole.host_total_ns));
    }
    assert!(found.rows.iter().all(|row| row.host_total_ns.is_some() && row.calls > 0));
    // None is there once for each call.
    assert!(found.rows.len() < 80, "{} rows", found.rows.len());
    assert!(found.rows.iter().all(|row| !row.op_name.contains("op_id")), "{:?}", found.rows);
    // Without GPU work there is no share of it.
    let page = operators_md(&report, &found, 3);
    assert_eq!(found.coverage, None);
    let linear = page.lines().find(|line| line.starts_with("| `aten::linear` |")).expect("a row");
    let cells: Vec<&str> = linear.split('|').map(str::trim).collect();
    assert_eq!((cells[5], cells[10]), ("0.000", "0.000"), "{linear}");
    assert!(page.contains("| cuda_self_time_ms | kernels |"), "no column of shares: {page}");
}
