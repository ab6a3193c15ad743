//! Every artifact of the fixture, to the byte; and sums over one are those over the other.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use stage2_launch::bundle::{PassRecord, RunRecord};
use stage2_launch::reports::write_reports;
use stage2_model::finding::Id;
use stage2_model::{PassStatus, Severity, Tool, WorkloadExit};

use crate::common::golden::compare;
use crate::report::fixture;

#[test]
fn every_artifact_is_as_expected() {
    let folder = tempfile::tempdir().expect("folder");
    let run_dir = folder.path().join("20261120-193500-1");
    fs::create_dir(&run_dir).expect("run folder");
    fixture::write(&run_dir);
    let outcome = write_reports(&run_dir).expect("reports");
    let stable = |text: &str| text.replace(&folder.path().display().to_string(), "FOLDER");

    let written: Vec<&str> =
        outcome.files.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let expected = [
        "kernels.md",
        "kernels.csv",
        "metrics.json",
        "timelines.json",
        "report.md",
        "operators.md",
        "stakeholder_summary.md",
        "report.html",
    ];
    assert_eq!(written, expected);
    for (path, name) in outcome.files.iter().zip(written) {
        let text = stable(&fs::read_to_string(path).expect("UTF-8"));
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{name}");
        let page = name.ends_with("md") || name.ends_with("html");
        let simulated = if page { "SIMULATED" } else { "simulated" };
        assert!(text.contains(simulated), "{name} says that it is simulated");
        // The unit tests of these pages have golden files of the same names.
        match name {
            "operators.md" | "stakeholder_summary.md" => compare(&format!("run_{name}"), &text),
            name => compare(name, &text),
        }
    }
    compare("headline.txt", &stable(&(outcome.headline.lines().join("\n") + "\n")));
    assert!(outcome.simulated);
    assert_eq!(outcome.coverage["verdict"]["status"], "partial");

    let again = write_reports(&run_dir).expect("reports");
    assert_eq!(again.findings, outcome.findings, "writing again changes nothing");
}

#[test]
fn an_empty_run_has_every_artifact_and_says_why() {
    let folder = tempfile::tempdir().expect("folder");
    let run_dir = folder.path().join("empty");
    fs::create_dir(&run_dir).expect("run folder");
    let outcome = write_reports(&run_dir).expect("reports");
    let stable = |text: &str| text.replace(&folder.path().display().to_string(), "FOLDER");
    for path in &outcome.files {
        let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8");
        compare(&format!("empty_{name}"), &stable(&fs::read_to_string(path).expect("UTF-8")));
    }
}

#[test]
fn the_shape_of_run_json_is_as_expected() {
    let mut record = RunRecord::new("20261120-193500-1".into(), vec!["python".into()]);
    record.started = "2026-11-20T19:35:00.000Z".into();
    record.finished = Some("2026-11-20T19:36:00.000Z".into());
    record.workload_exit = Some(WorkloadExit::Code(0));
    record.stage2_version = "VERSION".into();
    record.passes.push(PassRecord {
        not_loaded: None,
        name: "collect".into(),
        argv: vec!["python".into()],
        environment: [("STAGE2_OUT".to_owned(), "collector".to_owned())].into(),
        environment_kept: Default::default(),
        status: PassStatus::Ok,
        exit: Some(WorkloadExit::Signal(9)),
        started: Some("2026-11-20T19:35:01.000Z".into()),
        duration_ms: Some(4_210),
        merged: std::collections::BTreeMap::new(),
        log: vec!["collector/log.txt".into()],
        why: String::new(),
    });
    let tool = Tool { path: Some("/usr/bin/nsys".into()), version: Some("2025.1.1".into()) };
    record.tools.insert("nsys".into(), tool);
    let finding = |what: &str| Id::NsysSays.graded(Severity::Note, what, "why", "remedy");
    record.findings.push(finding("of the run"));
    record.report_findings.push(finding("of the reports"));
    record.files.push("kernels.md".into());
    let text = serde_json::to_string_pretty(&record).expect("JSON");
    compare("run.json", &(text + "\n"));
}

/// Sums of calls and nanoseconds by stage.
type Sums = BTreeMap<String, (u64, u64)>;

fn csv_sums(text: &str) -> Sums {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("head").clone();
    let column = |name: &str| header.iter().position(|h| h == name).expect("column");
    let (stage, ns, calls) = (column("stage"), column("total_ns"), column("calls"));
    let mut sums = Sums::new();
    for record in reader.records() {
        let record = record.expect("row with as many fields as the head");
        let sum = sums.entry(record[stage].trim_start_matches('\'').to_owned()).or_default();
        sum.0 += record[calls].parse::<u64>().expect("calls");
        sum.1 += record[ns].parse::<u64>().expect("ns");
    }
    sums
}

fn json_sums(json: &Value) -> Sums {
    let mut sums = Sums::new();
    for stage in json["stages"].as_array().expect("stages") {
        // Null where the GPU was not recorded; the fixture has such a stage.
        let number = |key: &str| stage[key].as_u64().unwrap_or(0);
        if number("kernels") > 0 {
            let name = stage["stage"].as_str().expect("name").to_owned();
            sums.insert(name, (number("kernels"), number("kernel_sum_ns")));
        }
    }
    sums
}

#[test]
fn sums_of_the_csv_equal_those_of_the_json() {
    let folder = fixture::reported();
    let json = folder.metrics();
    let from_csv = csv_sums(&folder.text("kernels.csv"));
    assert_eq!(from_csv, json_sums(&json));
    let kernels: u64 = from_csv.values().map(|&(calls, _)| calls).sum();
    assert_eq!(Some(kernels), json["coverage"]["total"]["kernels"].as_u64());
    // Sums by path: exclusive adds up to everything, inclusive only at the top.
    let paths = json["paths"].as_array().expect("paths");
    let sum = |key: &str, top: bool| -> u64 {
        let chosen = paths.iter().filter(|p| !top || p["parent"].is_null());
        chosen.filter_map(|p| p[key].as_u64()).sum()
    };
    let all_ns: u64 = from_csv.values().map(|&(_, ns)| ns).sum();
    assert_eq!(sum("kernels_exclusive", false), kernels);
    assert_eq!(sum("kernels_inclusive", true), kernels);
    assert_eq!(sum("kernel_sum_exclusive_ns", false), all_ns);
    assert_eq!(sum("kernel_sum_inclusive_ns", true), all_ns);
}
