//! Runs with a baseline pass: a stage that the collector slowed down is told with a lighter setting,
//! and a baseline that did not run through is compared with nothing.

use crate::common::trace::{Build, RunFolder};
use serde_json::json;
use stage2_contract::trace::{NONE, Record};
use stage2_model::{Finding, Report, Severity};

/// Five decodes of about this long; the first, cold one takes 1 ms.
fn decodes(us: u64) -> Build {
    let mut b = Build::process(1, "python3");
    b.anchor(1).device(0, "NVIDIA H200", 1).name(1, b"decode").name(2, b"k").path(1, NONE, 1);
    b.shape(1, 2, 1);
    for instance in 0..5 {
        let start = 10_000 + instance * 2_000_000;
        let host_us = if instance == 0 { 1_000 } else { us + instance };
        b.open(1 + instance, 1, 0, start).kernel(1 + instance, 1, 1, (start + 10, start + 20));
        b.close(1 + instance, start + host_us * 1_000);
    }
    std::mem::take(b.end())
}

/// The report of a run whose decodes take 100 us in the baseline pass.
fn report(collect_us: u64, baseline_status: &str) -> (RunFolder, Report) {
    let folder = RunFolder::of(&[decodes(collect_us)]);
    let mut untraced = decodes(100);
    untraced.records.retain(|record| !matches!(record, Record::Work(work) if work.is_kernel()));
    let pass = |name: &str, status: &str| json!({"name": name, "status": status, "duration_ms": 9});
    let passes = [pass("baseline", baseline_status), pass("collect", "ok")];
    let run = json!({"schema": 2, "passes": passes}).to_string();
    folder.write("baseline/h-1.s2t", untraced.bytes()).write("run.json", run);
    let report = folder.write("config.yaml", "run: {baseline: true}\n").report();
    (folder, report)
}

fn told(report: &Report) -> Option<&Finding> {
    report.findings.iter().find(|finding| finding.what.contains("x their baseline"))
}

#[test]
fn a_stage_that_the_collector_slowed_down_is_told_on_every_page() {
    let (folder, slow) = report(150, "ok");
    let finding = told(&slow).expect("a finding");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.what.contains("under the collector: decode 1.488x"), "{finding}");
    assert!(finding.why.contains("4 warm calls") && finding.remedy.contains("STAGE2_SAMPLE"));
    for page in ["report.md", "stakeholder_summary.md", "report.html"] {
        let text = folder.plain(page);
        assert!(text.contains("x their baseline under the collector"), "{page}");
    }
    let whole = folder.text("report.md");
    assert!(whole.contains("The baseline pass runs first"), "{whole}");
    let (_folder, close) = report(120, "ok");
    assert!(told(&close).is_none() && !close.costs.stages.is_empty(), "{:?}", close.costs);
}

#[test]
fn a_baseline_that_did_not_run_through_is_compared_with_nothing() {
    for status in ["workload_failed", "timed_out", "interrupted", "running", "of another version"] {
        let (folder, report) = report(150, status);
        assert!(told(&report).is_none() && report.costs.stages.is_empty(), "{:?}", report.costs);
        let text = folder.plain("report.md");
        assert!(text.contains(&format!("did not run through: {status}.\n")), "{text}");
    }
}
