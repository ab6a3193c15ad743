//! The whole nsys pass of stage2-launch under a real nsys: what the bundle holds afterwards.

use serde_json::Value;

use super::{WORKLOAD, tools};
use crate::common::Sandbox;

/// Runs the launcher around the workload; nothing where the test is skipped.
fn launched(test: &str, settings: &[&str], status: &str) -> Option<(Sandbox, String)> {
    let (_, python) = tools(test)?;
    let sandbox = Sandbox::new();
    sandbox.write("workload.py", WORKLOAD);
    let python = python.to_str().expect("UTF-8").to_owned();
    let common = ["pipeline.ncu.enable=false", "pipeline.nsys.trace=[nvtx]", "--keep-going"];
    let workload = ["--", &python, "workload.py", status];
    let mut command = sandbox.launch(&[settings, &common, &workload].concat());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.timeout(std::time::Duration::from_secs(240));
    let assert = command.assert().code(status.parse::<i32>().expect("a status"));
    let mut said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    // What nsys said itself is needed where a test fails.
    said.push_str(&sandbox.read("nsys/log.txt"));
    Some((sandbox, said))
}

fn nsys_pass(sandbox: &Sandbox, said: &str, status: &str) -> Value {
    let run = sandbox.run_json();
    let mut passes = run["passes"].as_array().expect("passes").iter();
    let pass = passes.find(|pass| pass["name"] == "nsys").cloned().unwrap_or_default();
    assert_eq!(pass["status"], status, "{pass:#}\n{said}");
    for file in ["run.nsys-rep", "SENSITIVE.txt", "run.sqlite", "cmd.txt", "log.txt"] {
        let path = sandbox.path("tmp/stage2/latest/nsys").join(file);
        assert!(path.metadata().is_ok_and(|found| found.len() > 0), "{file}\n{said}");
    }
    assert!(sandbox.read("nsys/log.txt").contains("the workload ran to its end"));
    pass
}

/// Ranges with their instances, as the export has them.
fn ranges(sandbox: &Sandbox) -> Vec<(String, Option<u64>)> {
    let export = sandbox.path("tmp/stage2/latest/nsys/run.sqlite");
    let tables = stage2_read::nsys::sqlite::load(&export, &Default::default()).expect("export");
    let mut ranges: Vec<_> = tables.ranges.into_iter().map(|r| (r.name, r.instances)).collect();
    ranges.sort();
    ranges
}

#[test]
fn a_gated_pass_records_its_range_and_the_workload_runs_to_its_end() {
    for range in ["prefill", "decode"] {
        let gate = format!("pipeline.nsys.nvtx_capture={range}@*");
        let settings = ["profiling/nsys=nsys.gated", &gate];
        let Some((sandbox, said)) = launched("a gated pass", &settings, "0") else { return };
        let pass = nsys_pass(&sandbox, &said, "ok");
        assert!(pass["argv"].to_string().contains("--capture-range=nvtx"), "{pass:#}\n{said}");
        assert_eq!(ranges(&sandbox), [(range.to_owned(), Some(1))]);
        let tables = std::fs::read_dir(sandbox.path("tmp/stage2/latest/nsys")).expect("folder");
        let csv = |name: &str| name.ends_with(".csv") && name.contains("nvtx");
        assert!(
            tables.flatten().any(|entry| csv(&entry.file_name().to_string_lossy())),
            "a table of the ranges\n{said}"
        );
    }
}

#[test]
fn a_gate_that_never_opens_is_told_and_the_pass_repeated_without_it() {
    let settings = ["profiling/nsys=nsys.gated", "pipeline.nsys.nvtx_capture=no_such_range"];
    let Some((sandbox, said)) = launched("a gate that never opens", &settings, "3") else { return };
    assert!(said.contains("no_such_range"), "{said}");
    let pass = nsys_pass(&sandbox, &said, "workload_failed");
    assert!(pass["why"].as_str().expect("text").contains("without the gate"), "{pass:#}");
    let expected = [("decode".to_owned(), Some(3)), ("prefill".to_owned(), Some(1))];
    assert_eq!(ranges(&sandbox), expected);
}
