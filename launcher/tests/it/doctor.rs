//! `stage2-launch doctor` on this machine: the collector is tried in a real Python, hanging tools cost
//! a time limit, and a run without GPU work says what doctor knows.

use std::time::{Duration, Instant};

use crate::common::simulated::built;
use crate::common::{self, Sandbox, lossy};
use serde_json::Value;

/// The JSON and the exit status of a doctor with these variables.
fn doctor(sandbox: &Sandbox, words: &[&str], variables: &[(&str, &str)]) -> (Value, i32) {
    let mut command = sandbox.launch_strictly(&[&["doctor", "--json"], words].concat());
    command.env("STAGE2_COLLECTOR", built("libstage2.so"));
    let output = command.envs(variables.iter().copied()).output().expect("doctor");
    let json = serde_json::from_slice(&output.stdout);
    let json = json.unwrap_or_else(|e| panic!("{e}: {}", lossy(&output.stderr)));
    (json, output.status.code().expect("an exit status"))
}

fn check<'j>(json: &'j Value, id: &str) -> &'j Value {
    common::row(&json["checks"], "id", id)
}

fn what(check: &Value) -> &str {
    check["what"].as_str().expect("a text")
}

fn has_python() -> bool {
    let found = std::process::Command::new("python3").arg("-V").output().is_ok();
    if !found {
        common::skipped("python3 is not installed");
    }
    found
}

#[test]
fn ranges_of_a_real_python_reach_the_real_collector() {
    if !has_python() {
        return;
    }
    let sandbox = Sandbox::new();
    let secret = [("MY_API_TOKEN", "hunter2")];
    let (json, _) = doctor(&sandbox, &["--", "python3", "x.py"], &[]);
    assert_eq!(what(check(&json, "program")), "the script x.py does not exist");
    sandbox.write("x.py", "");
    let (json, status) = doctor(&sandbox, &["--", "python3", "x.py", "--key=hunter2"], &secret);
    assert_eq!((&json["schema"], status), (&1.into(), i32::from(json["status"] == "problem")));
    assert!(!json.to_string().contains("hunter2"), "{json:#}");
    let nvtx = check(&json, "nvtx");
    assert!(what(nvtx).contains("by NVTX itself"), "{nvtx:#}");
    for id in ["collector", "program", "python", "nvtx", "injection"] {
        assert_eq!(check(&json, id)["status"], "ok", "{:#}", check(&json, id));
    }
    let version = env!("CARGO_PKG_VERSION");
    assert!(what(check(&json, "collector")).ends_with(version));
}

#[test]
fn the_libcupti_is_the_one_that_the_collector_opens_when_cuda_starts() {
    if !has_python() {
        return;
    }
    let sandbox = Sandbox::new();
    let simulator = built("libstage2_sim.so");
    std::os::unix::fs::symlink(&simulator, sandbox.path("libcuda.so.1")).expect("link");
    let folder = sandbox.path("");
    let variables = [
        ("LD_LIBRARY_PATH", folder.to_str().expect("path")),
        ("STAGE2_CUPTI", simulator.to_str().expect("path")),
    ];
    let (json, _) = doctor(&sandbox, &[], &variables);
    let found = check(&json, "libcupti");
    assert_eq!(found["status"], "ok", "{found:#}");
    assert!(what(found).contains("(simulated), activity API v1; 1 candidate"), "{found:#}");
    let used = found["details"][0].as_str().expect("a line for the candidate");
    assert!(used.starts_with("in use, STAGE2_CUPTI names it: given path: "), "{used}");
    let broken = sandbox.write("libcupti.so.12", "no library");
    let variables = [variables[0], ("STAGE2_CUPTI", broken.to_str().expect("path"))];
    let (json, status) = doctor(&sandbox, &[], &variables);
    let found = check(&json, "libcupti");
    assert_eq!((&found["status"], status), (&"problem".into(), 1), "{found:#}");
    assert!(what(found).contains("libcupti.so.12"), "{found:#}");
}

#[test]
fn tools_that_hang_cost_a_time_limit_and_their_own_checks() {
    let sandbox = Sandbox::new();
    for tool in ["nsys", "ncu", "nvidia-smi", "python3"] {
        // The child of the script outlives it, and keeps its pipes open.
        sandbox.executable(&format!("tools/{tool}"), "#!/bin/sh\nsleep 60\n");
    }
    let path = sandbox.tools_path().into_string().expect("UTF-8");
    let start = Instant::now();
    let (json, _) = doctor(&sandbox, &[], &[("PATH", &path)]);
    // 5 s are promised; a machine that is busy with other tests gets some more.
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    for (id, status) in [
        ("nsys", "warning"),
        ("ncu", "warning"),
        ("device-modes", "not_checked"),
        ("nvtx", "not_checked"),
    ] {
        let check = check(&json, id);
        assert_eq!(check["status"], status, "{check:#}");
        assert!(what(check).contains("no answer in"), "{check:#}");
    }
}

#[test]
fn a_program_that_is_not_there_is_a_problem_and_a_wrong_option_is_wrong_usage() {
    let sandbox = Sandbox::new();
    let (json, status) = doctor(&sandbox, &["--", "no-such-program"], &[]);
    assert_eq!((&check(&json, "program")["status"], status), (&"problem".into(), 1));
    assert_eq!(what(check(&json, "program")), "`no-such-program`: command not found");
    let other = [("CUDA_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so")];
    let (json, status) = doctor(&sandbox, &[], &other);
    assert_eq!((&check(&json, "injection")["status"], status), (&"problem".into(), 1));
    sandbox.launch_strictly(&["doctor", "python3"]).assert().code(2);
    sandbox.launch_strictly(&["doctor", "pipeline.ncu.executables=ncu"]).assert().code(2);
    sandbox.launch_strictly(&["doctor", "--jsn"]).assert().code(2);
}

#[test]
fn tools_are_those_that_the_settings_name() {
    let sandbox = Sandbox::new();
    let nsys = sandbox.executable(
        "opt/my nsys",
        "#!/bin/sh\necho 'NVIDIA Nsight Systems version 2025.5.1.121-255136380782v0'\n",
    );
    let named = format!("pipeline.nsys.executable='{}'", nsys.display());
    let gone = "pipeline.ncu.executable=/no/such/ncu";
    let (json, _) = doctor(&sandbox, &[&named, gone], &[]);
    let (nsys, ncu) = (check(&json, "nsys"), check(&json, "ncu"));
    assert!(what(nsys).starts_with("nsys 2025.5"), "{nsys:#}");
    assert_eq!(what(ncu), "/no/such/ncu is not an executable file");
}

#[test]
fn a_run_without_gpu_work_says_what_doctor_knows() {
    let sandbox = Sandbox::new();
    let variables = [("CUDA_INJECTION64_PATH", "/opt/other/tool.so")];
    let mut command = sandbox.launch(&["run.mode=light", "--", "sh", "-c", "true  it"]);
    command.env("STAGE2_COLLECTOR", built("libstage2.so")).envs(variables);
    let output = command.output().expect("a run");
    let said = lossy(&output.stderr);
    let next = "stage2-launch doctor -- COMMAND";
    assert!(said.contains(next), "{said}");
    let metrics = sandbox.json("metrics.json");
    let empty = &metrics["coverage"]["empty"];
    let remedy = empty["remedy"].as_str().expect("a remedy");
    assert!(remedy.contains(next), "{remedy}");
    let found = sandbox.run_json()["doctor"]["found"].clone();
    let found: Vec<String> = serde_json::from_value(found).expect("texts");
    let expected = match empty["cause"].as_str() {
        Some("no_gpu") => "no NVIDIA driver",
        _ => "another tool owns CUDA_INJECTION64_PATH",
    };
    assert!(found.iter().any(|text| text.contains(expected)), "{found:?}");
    // Without a GPU, the remedy says in its own words what the finding does, and says it once.
    let is_quoted = empty["cause"] != "no_gpu";
    assert!(found.iter().all(|text| remedy.contains(text) == is_quoted), "{found:?}\n{remedy}");
}
