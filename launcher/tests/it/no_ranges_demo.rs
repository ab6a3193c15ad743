//! The demo workload with its NVTX ranges hidden, under the real collector on the simulated GPU: its
//! decode step is found all the same.

use crate::common::Sandbox;
use crate::common::simulated::built;
use serde_json::Value;

/// Runs the demo where NVTX finds no tool; gives metrics.json and what the terminal showed.
fn hidden_demo(options: &str) -> (Sandbox, Value, String) {
    let sandbox = Sandbox::new();
    let script = format!(
        "#!/bin/sh\nexport NVTX_INJECTION64_PATH=/nowhere\n\
         exec '{}' --device simulated --sim '{}' {options}\n",
        built("stage2-demo").display(),
        built("libstage2_sim.so").display(),
    );
    sandbox.executable("demo", &script);
    let mut command = sandbox.launch(&["run.mode=light", "--", "./demo"]);
    command.env("STAGE2_COLLECTOR", built("libstage2.so"));
    command.env("STAGE2_CUPTI", built("libstage2_sim.so"));
    let output = command.assert().success().get_output().clone();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let metrics = serde_json::from_str(&sandbox.read("metrics.json")).expect("JSON");
    (sandbox, metrics, said)
}

fn only_row(metrics: &Value) -> &Value {
    let rows = metrics["inferred_steps"]["rows"].as_array();
    let Some([row]) = rows.map(Vec::as_slice) else { panic!("{:#}", metrics["inferred_steps"]) };
    row
}

#[test]
fn the_eager_step_of_694_kernels_is_found() {
    let (sandbox, metrics, said) = hidden_demo("--rounds 4 --steps 12");
    assert_eq!(metrics["coverage"]["total"]["ranges"], 0, "they are hidden");
    let row = only_row(&metrics);
    assert_eq!((&row["kernels_per_step"], &row["phases"]), (&694.into(), &4.into()), "{row:#}");
    assert_eq!(row["steps"], 4 * 12, "{row:#}");
    assert_eq!(row["before"]["kernels_median"], 662, "the prefill: {row:#}");
    let line = "inferred from the kernel sequence";
    assert!(said.contains(line), "{said}");
    let stages = metrics["stages"].as_array().expect("stages");
    assert_eq!(stages.len(), 1, "{stages:#?}");
    assert_eq!(stages[0]["stage"], "(whole process)");
    assert_eq!(stages[0]["kernels"], 5 * 662 + (1 + 4 * 12) * 694);
    assert!(stages[0]["gpu_idle_ns"].as_u64().is_some_and(|ns| ns > 0));
    assert!(sandbox.read("report.md").contains("## Inferred steps"));
}

#[test]
fn each_replay_of_a_graph_is_a_step() {
    let (_sandbox, metrics, _) = hidden_demo("--graph --rounds 4 --steps 12");
    let row = only_row(&metrics);
    assert_eq!((&row["steps"], &row["phases"]), (&48.into(), &4.into()), "{row:#}");
}
