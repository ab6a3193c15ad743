//! A signal that stage2-launch hands on finds the trace files of the workload up to date.

mod common;

use std::path::PathBuf;

use common::Sandbox;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A program that launches ten recorded kernels in a range-less loop, says `ready` and waits.
const WAITS: &str = r#"
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>
int main(void) {
    void *cuda = dlopen(SIMULATOR, RTLD_NOW);
    size_t context, stream;
    if (!cuda || ((int (*)(unsigned))dlsym(cuda, "cuInit"))(0)) return 9;
    ((int (*)(size_t *, int))dlsym(cuda, "cuDevicePrimaryCtxRetain"))(&context, 0);
    ((int (*)(size_t))dlsym(cuda, "cuCtxSetCurrent"))(context);
    ((int (*)(size_t *, unsigned))dlsym(cuda, "cuStreamCreate"))(&stream, 0);
    for (unsigned i = 0; i < 10; i++)
        ((int (*)(unsigned, unsigned, size_t))dlsym(cuda, "stage2_sim_launch_recorded"))(1, i, stream);
    ((int (*)(size_t))dlsym(cuda, "cuStreamSynchronize"))(stream);
    usleep(100000);
    close(open("ready", O_CREAT | O_WRONLY, 0600));
    sleep(30);
    return 0;
}
"#;

/// A file that `cargo test --workspace` builds before it runs any test.
fn built(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_stage2-launch"));
    let path = folder.with_file_name("deps").join(name);
    assert!(path.is_file(), "{} was not built: `cargo test --workspace`", path.display());
    path
}

#[test]
fn kernels_that_were_not_flushed_yet_survive_a_signal_that_is_handed_on() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let sandbox = Sandbox::new();
        let simulator = built("libstage2_sim.so");
        let source = sandbox.write("waits.c", WAITS);
        let defined = format!("-DSIMULATOR=\"{}\"", simulator.display());
        let compiled = std::process::Command::new("cc")
            .args(["-w", &defined, "-o"])
            .args([&sandbox.path("waits"), &source])
            .arg("-ldl")
            .status();
        assert!(compiled.expect("the C compiler that links Rust programs").success());
        let never = "profiling.collector.flush_ms=3600000";
        let mut command = sandbox.std_launch(&["run.mode=light", never, "--", "./waits"]);
        command.env("STAGE2_COLLECTOR", built("libstage2.so")).env("STAGE2_CUPTI", &simulator);
        command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let child = command.spawn().expect("stage2-launch");
        sandbox.wait_for("ready");
        kill(Pid::from_raw(child.id() as i32), signal).expect("stage2-launch runs");
        let output = child.wait_with_output().expect("ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(128 + signal as i32), "{stderr}");
        let metrics: serde_json::Value =
            serde_json::from_str(&sandbox.read("metrics.json")).expect("metrics.json");
        let calls = metrics["kernels"].as_array().map(|kernels| {
            kernels.iter().filter_map(|kernel| kernel["calls"].as_u64()).sum::<u64>()
        });
        assert_eq!(calls, Some(10), "{signal}: {stderr}");
    }
}
