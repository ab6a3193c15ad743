//! Runs with a baseline pass: a stage that the collector slowed down is told with a lighter setting,
//! and a baseline that did not run through is compared with nothing.

use std::fs;
use std::path::Path;

use crate::report::build::Build;
use serde_json::json;
use stage2_contract::trace::NONE;
use stage2_launch::reports::write_reports;
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
fn report(collect_us: u64, baseline_status: &str) -> (tempfile::TempDir, Report) {
    let folder = tempfile::tempdir().expect("folder");
    decodes(collect_us).save(folder.path(), "h-1.s2t");
    let mut untraced = decodes(100);
    untraced.records.retain(
        |record| !matches!(record, stage2_contract::trace::Record::Work(work) if work.is_kernel()),
    );
    let elsewhere = tempfile::tempdir().expect("folder");
    untraced.save(elsewhere.path(), "h-1.s2t");
    let baseline = folder.path().join("baseline");
    fs::create_dir(&baseline).expect("folder");
    fs::copy(elsewhere.path().join("collector/h-1.s2t"), baseline.join("h-1.s2t")).expect("spool");
    let pass = |name: &str, status: &str| json!({"name": name, "status": status, "duration_ms": 9});
    let passes = [pass("baseline", baseline_status), pass("collect", "ok")];
    let run = json!({"schema": 2, "passes": passes}).to_string();
    fs::write(folder.path().join("run.json"), run).expect("run.json");
    fs::write(folder.path().join("config.yaml"), "run: {baseline: true}\n").expect("config");
    write_reports(folder.path()).expect("reports");
    let metrics = read(folder.path(), "metrics.json");
    (folder, serde_json::from_str(&metrics).expect("a report"))
}

fn read(run_dir: &Path, name: &str) -> String {
    fs::read_to_string(run_dir.join(name)).expect(name)
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
    assert!(finding.why.contains("4 warm instances") && finding.remedy.contains("STAGE2_SAMPLE"));
    for page in ["report.md", "stakeholder_summary.md", "report.html"] {
        let text = read(folder.path(), page).replace('\\', "");
        assert!(text.contains("x their baseline under the collector"), "{page}");
    }
    let whole = read(folder.path(), "report.md");
    assert!(whole.contains("The baseline pass runs first"), "{whole}");
    let (_folder, close) = report(120, "ok");
    assert!(told(&close).is_none() && !close.costs.stages.is_empty(), "{:?}", close.costs);
}

#[test]
fn a_baseline_that_did_not_run_through_is_compared_with_nothing() {
    for status in ["workload_failed", "timed_out", "interrupted", "running", "of another version"] {
        let (folder, report) = report(150, status);
        assert!(told(&report).is_none() && report.costs.stages.is_empty(), "{:?}", report.costs);
        let text = read(folder.path(), "report.md").replace('\\', "");
        assert!(text.contains(&format!("did not run through: {status}.\n")), "{text}");
    }
}
