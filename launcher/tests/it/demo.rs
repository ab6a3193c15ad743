//! The demo's way through the pipeline, with stand-ins for the files that lie beside the program.

use crate::common::Sandbox;
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use serde_json::json;

/// A folder as `cargo build` leaves it: the program, the collector, the demo and the simulator.
fn installed(sandbox: &Sandbox) -> assert_cmd::Command {
    sandbox.executable("bin/stage2-demo", "#!/bin/sh\necho \"$@\" cupti=$STAGE2_CUPTI\n");
    sandbox.write("bin/libstage2_sim.so", "");
    std::fs::copy(sandbox.path("libstage2.so"), sandbox.path("bin/libstage2.so")).expect("copy");
    let launch = sandbox.install(env!("CARGO_BIN_EXE_stage2-launch").as_ref(), "bin/stage2-launch");
    let mut command = assert_cmd::Command::new(launch);
    command.current_dir(sandbox.path("")).env_remove("STAGE2_COLLECTOR").env_remove("STAGE2_CUPTI");
    // No driver, whatever this machine has.
    command.env("CUDA_VISIBLE_DEVICES", "");
    // The stand-in of the workload records nothing.
    command.arg("--allow-empty");
    command
}

#[test]
fn without_a_gpu_everything_says_simulated() {
    let sandbox = Sandbox::new();
    let simulator = sandbox.path("bin/libstage2_sim.so").display().to_string();
    let assert = installed(&sandbox).args(["demo", "run.mode=light"]).assert().success();
    assert
        .stdout(format!("--device simulated --sim {simulator} cupti={simulator}\n"))
        .stderr(contains("bundle: ").and(contains("simulated")));
    let run = sandbox.run_json();
    assert_eq!(run["simulated"], json!(true));
    assert_eq!(run["passes"][0]["environment"]["STAGE2_CUPTI"], json!(simulator));
    assert_eq!(run["tools"]["collector"]["path"], json!(sandbox.path("bin/libstage2.so")));
    let environment: serde_json::Value =
        serde_json::from_str(&sandbox.read("env.json")).expect("JSON");
    assert_eq!(environment["simulated"], json!(true));
    assert!(sandbox.read("config.yaml").starts_with("# simulated"));
    assert!(sandbox.read("inputs.yaml").contains("simulated: true"));
}

#[test]
fn an_ordinary_run_is_not_marked() {
    let sandbox = Sandbox::new();
    installed(&sandbox).args(["--", "true"]).assert().success();
    assert_eq!(sandbox.run_json()["simulated"], json!(false));
    assert!(!sandbox.read("config.yaml").contains("simulated"));
}

#[test]
fn a_missing_file_is_named() {
    for missing in ["stage2-demo", "libstage2_sim.so", "libstage2.so"] {
        let sandbox = Sandbox::new();
        let mut command = installed(&sandbox);
        let path = sandbox.path("bin").join(missing);
        std::fs::remove_file(&path).expect("file");
        let assert = command.arg("demo").assert().code(70).stdout("");
        assert.stderr(contains(path.display().to_string()).and(contains("cargo build --release")));
        assert!(!sandbox.path("tmp").exists());
    }
}
