//! The range that nsys and ncu are asked for is one that the collect pass saw, whatever it was called.

use crate::common::simulated::{built, collector};
use crate::common::{FAKE_NSYS, Sandbox, at_once, lossy};
use serde_json::Value;

/// A stand-in for ncu that profiles nothing.
const FAKE_NCU: &str =
    "#!/bin/sh\ncase \"$*\" in *--version*) echo 'Version 2024.3.2.0 (build 1)';; esac\n";

/// Three spellings of the same label: what a guest is told, and what nsys and ncu have to be asked for.
const SPELLINGS: [(&str, &str, &str); 3] = [
    ("register LLM decode_all\nregistered 5", "decode_all@LLM", "LLM@decode_all/"),
    ("push LLM@decode_all\nlaunch 5\npop", "LLM\\@decode_all@*", "LLM\\@decode_all/"),
    ("push decode_all\nlaunch 5\npop", "decode_all", "decode_all/"),
];

fn sandbox(commands: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("commands", &format!("cuda\npush prefill\nlaunch 3\npop\n{commands}\n"));
    sandbox.executable("bin/nsys", FAKE_NSYS);
    sandbox.executable("bin/ncu", FAKE_NCU);
    sandbox
}

fn run(sandbox: &Sandbox, settings: &[&str]) -> Value {
    let guest = format!("{} obey < commands", built("examples/guest").display());
    let mut command = sandbox.std_launch(&[settings, &["--", "sh", "-c", &guest]].concat());
    let tools = [sandbox.path("bin"), "/usr/bin".into(), "/bin".into()];
    let output = command
        .env("PATH", std::env::join_paths(tools).expect("PATH"))
        .envs(collector())
        .env("STAGE2_TEST_SIM", built("libstage2_sim.so"))
        .env("STAGE2_SIM_FAST", "1")
        .output()
        .expect("stage2-launch");
    assert!(output.status.success(), "{}", lossy(&output.stderr));
    sandbox.run_json()
}

/// The words of each command of a pass that begin with this.
fn asked(sandbox: &Sandbox, tool: &str, option: &str) -> Vec<String> {
    let commands = sandbox.read(&format!("{tool}/cmd.txt"));
    let words = commands.lines().flat_map(|line| shlex::split(line).unwrap_or_default());
    words.filter(|word| word.starts_with(option)).collect()
}

#[test]
fn a_gate_is_a_range_that_was_seen_in_each_of_its_spellings() {
    let gates = [
        ["decode@*", "decode*@*", "DECODE_*", "LLM@decode_all"].as_slice(),
        &["decode", "LLM@decode_all"],
        &["decode@*"],
    ];
    at_once(SPELLINGS.into_iter().zip(gates), |((commands, expected, _), gates)| {
        for gate in gates {
            let sandbox = sandbox(commands);
            let gate = format!("pipeline.nsys.nvtx_capture={gate}");
            let settings = ["profiling/nsys=nsys.gated", &gate, "pipeline.ncu.enable=false"];
            let run = run(&sandbox, &settings);
            let capture = asked(&sandbox, "nsys", "--nvtx-capture=");
            assert_eq!(capture, [format!("--nvtx-capture={expected}")], "{gate}: {run:#}");
        }
    });
}

#[test]
fn a_gate_that_no_range_fits_is_found_before_nsys_starts() {
    let sandbox = sandbox(SPELLINGS[0].0);
    let settings = ["profiling/nsys=nsys.gated", "pipeline.nsys.nvtx_capture=decoding@*"];
    let run = run(&sandbox, &[&settings[..], &["pipeline.ncu.enable=false"]].concat());
    assert_eq!(asked(&sandbox, "nsys", "--capture-range"), Vec::<String>::new());
    assert_eq!(asked(&sandbox, "nsys", "profile").len(), 1, "it ran once");
    let findings = run["findings"].to_string();
    assert!(findings.contains("no range is decoding@*"), "{findings}");
    assert!(findings.contains("the collector saw decode_all@LLM, prefill"), "{findings}");
}

#[test]
fn ncu_is_asked_for_the_stage_in_each_of_its_spellings() {
    let stages = [
        ["decode", "decode@*", "LLM@decode_all"].as_slice(),
        &["decode@*", "LLM@decode_all"],
        &["decode*"],
    ];
    at_once(SPELLINGS.into_iter().zip(stages), |((commands, _, expected), stages)| {
        for stage in stages {
            let sandbox = sandbox(commands);
            let stage = format!("pipeline.ncu.stage={stage}");
            let run = run(&sandbox, &[&stage, "pipeline.nsys.enable=false"]);
            let commands = sandbox.read("ncu/cmd.txt");
            let profile = commands.lines().find(|line| line.contains("--nvtx-include"));
            let words = shlex::split(profile.unwrap_or_default()).expect("words");
            let mut words = words.into_iter().skip_while(|word| word != "--nvtx-include");
            assert_eq!(words.nth(1).as_deref(), Some(expected), "{stage}: {commands}\n{run:#}");
        }
    });
}
