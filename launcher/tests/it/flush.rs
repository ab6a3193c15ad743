//! A signal that stage2-launch hands on finds the trace files of the workload up to date.

use crate::common::Sandbox;
use crate::common::simulated::{built, launches};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Hazard (Ends of life): The launcher hands a signal on to the workload.
/// Promise: The trace file is brought up to date first, within 200 ms.
#[test]
fn kernels_that_were_not_flushed_yet_survive_a_signal_that_is_handed_on() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let sandbox = Sandbox::new();
        launches(&sandbox);
        let never = "profiling.collector.flush_ms=3600000";
        let mut command =
            sandbox.std_launch(&["run.mode=light", never, "--", "./launches", "wait"]);
        command.env("STAGE2_COLLECTOR", built("libstage2.so"));
        command.env("STAGE2_CUPTI", built("libstage2_sim.so"));
        command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let child = command.spawn().expect("stage2-launch");
        sandbox.wait_for("ready");
        let pid = child.id();
        kill(Pid::from_raw(pid as i32), signal).expect("stage2-launch runs");
        let output = child.wait_with_output().expect("ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(128 + signal as i32), "{stderr}");
        let metrics: serde_json::Value =
            serde_json::from_str(&sandbox.read("metrics.json")).expect("metrics.json");
        let calls = metrics["kernels"].as_array().map(|kernels| {
            kernels.iter().filter_map(|kernel| kernel["calls"].as_u64()).sum::<u64>()
        });
        assert_eq!(calls, Some(10), "{signal}: {stderr}");
        let page = &sandbox.run_json()["passes"][0]["environment"]["STAGE2_FLUSH_PAGE"];
        let ours = format!("/proc/{pid}/fd/");
        assert!(page.as_str().is_some_and(|page| page.starts_with(&ours)), "{page}");
    }
}
