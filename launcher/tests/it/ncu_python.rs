//! Reports of Nsight Compute on a machine without it: NVIDIA's Python package reads them. A stand-in
//! with the same calls has its place here, because the package is large and needs a real report.

use crate::common::{self, Sandbox};
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;

/// The calls that the launcher makes, over two launches; the third name is a breakdown without value.
const PACKAGE: &str = r#"
VALUES = {
    "gpu__time_duration.sum": (84480.0, "ns"),
    "launch__grid_dim_x": (16, ""), "launch__grid_dim_y": (2, ""), "launch__grid_dim_z": (1, ""),
    "launch__block_dim_x": (256, ""), "launch__block_dim_y": (1, ""), "launch__block_dim_z": (1, ""),
    "launch__context_id": (1.0, ""), "launch__stream_id": (7.0, ""),
    "device__attribute_device_index": (0, ""),
    "device__attribute_compute_capability_major": (9, ""),
    "device__attribute_compute_capability_minor": (0, ""),
    "breakdown:sm__throughput": (None, "%"),
}
class Metric:
    def __init__(self, name): self.pair = VALUES[name]
    def value(self): return self.pair[0]
    def unit(self): return self.pair[1]
class Domain:
    def name(self): return "<default domain>"
    def push_pop_ranges(self): return ["decode", "layer \"0\""]
    def start_end_ranges(self): return []
class State:
    def domains(self): return [0]
    def domain_by_id(self, number): return Domain()
class Action:
    NameBase_MANGLED, WorkloadType_RANGE = 2, 5
    def workload_type(self): return 0
    def name(self, base): return {2: "_Z6kernelv"}[base]
    def metric_names(self): return list(VALUES)
    def metric_by_name(self, name): return Metric(name) if name in VALUES else None
    def nvtx_state(self): return State()
class Range:
    def num_actions(self): return 2
    def action_by_idx(self, at): return Action()
class Context:
    def num_ranges(self): return 1
    def range_by_idx(self, at): return Range()
def load_report(path):
    if "damaged" in open(path).read():
        raise ValueError("no such format")
    return Context() if "report" in open(path).read() else None
"#;

fn merge(sandbox: &Sandbox, package: Option<&str>, report: &str) -> assert_cmd::assert::Assert {
    if let Some(text) = package {
        sandbox.write("packages/ncu_report.py", text);
    }
    sandbox.write("d.ncu-rep", report);
    let mut command = sandbox.launch(&["merge", "--ncu", "d.ncu-rep", "-o", "out"]);
    command.env("PYTHONPATH", sandbox.path("packages")).assert()
}

#[test]
fn the_python_package_reads_a_report_where_there_is_no_ncu() {
    let sandbox = Sandbox::new();
    merge(&sandbox, Some(PACKAGE), "report").success();
    let page = common::read(&sandbox.path("out/report.md"));
    assert!(page.contains("was read by the Python package ncu-report"), "{page}");
    let page = common::read(&sandbox.path("out/ncu/raw.csv"));
    assert!(page.lines().next().is_some_and(|line| !line.contains("breakdown:")), "{page}");
    let kernels = common::read(&sandbox.path("out/kernels.csv"));
    let row = kernels.lines().find(|line| line.contains("_Z6kernelv")).expect("the kernel");
    assert!(row.contains("decode"), "its range: {row}");
    let metrics = common::json(&sandbox.path("out/metrics.json"));
    let kernel = &metrics["kernels"][0];
    assert_eq!(kernel["calls"], 2, "{kernel:#}");
    assert_eq!(kernel["total_ns"], 2 * 84_480);
    assert_eq!(kernel["launch"]["grid"], serde_json::json!([16, 2, 1]));
}

#[test]
fn what_the_package_cannot_read_is_told_and_leaves_no_table() {
    for (report, why) in [("damaged", "no such format"), ("other", "is no report")] {
        let sandbox = Sandbox::new();
        let assert = merge(&sandbox, Some(PACKAGE), report);
        assert.stderr(contains("ncu-report could not read").and(contains(why)));
        assert!(!sandbox.path("out/ncu/raw.csv").exists(), "{report}");
    }
}

#[test]
fn without_the_package_it_is_said_what_to_install() {
    let sandbox = Sandbox::new();
    let assert = merge(&sandbox, Some("raise ImportError('not this one')"), "report");
    assert.stderr(contains("pip install ncu-report").and(contains("not this one")));
}
