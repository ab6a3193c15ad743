//! The demo program from outside: its line of JSON, its ranges, its exit status, its tool.

mod common;

use std::path::PathBuf;
use std::process::{Command, Output};

use common::library_path;
use serde_json::Value;

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stage2-demo"));
    command.args(arguments).arg("--sim").arg(library_path());
    for (name, _) in std::env::vars() {
        if name.starts_with("STAGE2_") || name.ends_with("INJECTION64_PATH") {
            command.env_remove(name);
        }
    }
    command
}

fn counter() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_stage2-demo"));
    program.parent().expect("a folder").join("examples/libinjected_counter.so")
}

fn injected(arguments: &[&str]) -> Command {
    let mut command = demo(arguments);
    command
        .env("CUDA_INJECTION64_PATH", counter())
        .env("NVTX_INJECTION64_PATH", counter())
        .env("COUNTER_CUPTI", library_path());
    command
}

fn run(command: &mut Command) -> (Output, Value, String) {
    let output = command.output().expect("the demo starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (first, rest) = text.split_once('\n').unwrap_or_default();
    let json = serde_json::from_str(first).unwrap_or_default();
    (output, json, rest.trim_end().to_owned())
}

/// The JSON, and what the tool says, of a demo that goes well.
fn played(command: &mut Command) -> (Value, String) {
    let (output, json, rest) = run(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (json, rest)
}

/// What a demo says that finds no device.
fn refused(command: &mut Command) -> String {
    let output = command.output().expect("the demo starts");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{message}");
    message
}

#[test]
fn it_plays_the_recorded_rounds_and_says_that_they_are_simulated() {
    let (json, _) = played(&mut demo(&["--device", "simulated", "--rounds", "2"]));
    assert_eq!(json["simulated"], true);
    assert_eq!(json["device"], "NVIDIA H200 (simulated)");
    assert_eq!(json["kernels_per_prefill"], 662);
    assert_eq!(json["kernels_per_step"], 694);
    assert_eq!(json["all_host_ms"].as_array().map(Vec::len), Some(2));
    // The recorded prefill spans 14.2 ms on the GPU, eight decode steps 97 ms.
    assert!(json["prefill_host_ms"].as_f64().is_some_and(|ms| (12.0..1000.0).contains(&ms)));
    assert!(json["decode_host_ms"].as_f64().is_some_and(|ms| (85.0..5000.0).contains(&ms)));
}

#[test]
fn a_tool_in_its_environment_sees_every_kernel_and_range() {
    let (json, rest) =
        played(&mut injected(&["--device", "simulated", "--rounds", "2", "--steps", "3"]));
    assert_eq!(json["simulated"], true);
    // Warm-up, two prefills, six steps. Ranges: warm-up, 2 x (prefill, 16 layers, decode, 3 steps).
    let kernels = 662 + 694 + 2 * 662 + 6 * 694;
    // 17 fills a prefill, a copy in and one out a round, device and context.
    let records = kernels + 3 * 17 + 2 * 2 + 2;
    let expected =
        format!("counter: kernels={kernels} records={records} pushes=43 pops=43 dropped=0");
    assert_eq!(rest, expected);
}

#[test]
fn nsight_systems_is_not_let_in_where_it_would_crash() {
    let folder = tempfile::tempdir().expect("folder");
    let tool = folder.path().join("libToolsInjection64.so");
    std::fs::copy(counter(), &tool).expect("copy");
    let mut command = injected(&["--device", "simulated", "--rounds", "1", "--steps", "1"]);
    let (output, json, rest) = run(command.env("CUDA_INJECTION64_PATH", &tool));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && json["simulated"] == true, "{said}");
    assert!(said.contains("Nsight Systems needs NVIDIA's driver"), "{said}");
    assert_eq!(rest, "", "the tool's entry point was not called");
}

#[test]
fn threads_and_graphs_add_up() {
    let arguments =
        ["--device", "simulated", "--rounds", "1", "--steps", "2", "--threads", "3", "--graph"];
    let (json, rest) = played(&mut injected(&arguments));
    assert_eq!(json["kernels_per_step"], 761);
    assert_eq!(json["all_host_ms"].as_array().map(Vec::len), Some(3));
    let kernels = 3 * (662 + 694 + 662 + 2 * 761);
    // Ranges of a thread: warm-up, capture and its layers, prefill and its layers, decode, steps.
    let ranges = 3 * (1 + 17 + 17 + 1 + 2);
    assert!(rest.contains(&format!("kernels={kernels} ")), "{rest}");
    assert!(rest.ends_with(&format!("pushes={ranges} pops={ranges} dropped=0")), "{rest}");
}

#[test]
fn what_is_not_there_is_named_with_a_remedy_and_status_3() {
    let mut missing = demo(&["--device", "simulated"]);
    let output = missing.args(["--sim", "/nowhere/x.so"]).output().expect("starts");
    // The last --sim wins, as that of the user behind those of `stage2-launch demo`.
    assert_eq!(output.status.code(), Some(3));
    let program = env!("CARGO_BIN_EXE_stage2-demo");
    let arguments = ["--device", "simulated", "--sim", "/nowhere/x.so"];
    let message = refused(Command::new(program).args(arguments));
    assert!(message.contains("/nowhere/x.so") && message.contains("--sim"), "{message}");
    for (fault, parts) in [
        ("no-device", &["CUDA_ERROR_NO_DEVICE"][..]),
        ("typo=1", &["\"typo=1\"", "subscribe=CODE"]),
    ] {
        let message = refused(demo(&["--device", "simulated"]).env("STAGE2_SIM_FAULT", fault));
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

/// The code for a real GPU, with the simulated driver under the name of the real one.
#[test]
fn the_real_path_runs_on_whatever_is_libcuda() {
    let folder = tempfile::tempdir().expect("a folder");
    let driver = folder.path().join("libcuda.so.1");
    std::fs::copy(library_path(), &driver).expect("a copy");
    let mut command = injected(&["--device", "gpu", "--rounds", "1", "--steps", "2", "--graph"]);
    command.env("LD_LIBRARY_PATH", folder.path()).env("COUNTER_CUPTI", &driver);
    let (json, rest) = played(&mut command);
    assert_eq!(json["simulated"], false);
    assert_eq!(json["kernels_per_step"], 180);
    assert!(rest.contains(&format!("kernels={} ", 5 * 180)), "{rest}");
}
