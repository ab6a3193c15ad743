//! The real collector and the simulated GPU, for tests that run both, and a program that uses them.

use std::path::PathBuf;
use std::process::Command;

use super::{LAUNCH, Sandbox};

/// Launches ten recorded kernels and knows nothing of NVTX. With an argument it makes the file `ready`
/// then, and waits.
const LAUNCHES: &str = r#"
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>
int main(int argc, char **argv) {
    void *cuda = dlopen(SIMULATOR, RTLD_NOW);
    size_t context, stream;
    if (!cuda || ((int (*)(unsigned))dlsym(cuda, "cuInit"))(0)) return 9;
    ((int (*)(size_t *, int))dlsym(cuda, "cuDevicePrimaryCtxRetain"))(&context, 0);
    ((int (*)(size_t))dlsym(cuda, "cuCtxSetCurrent"))(context);
    ((int (*)(size_t *, unsigned))dlsym(cuda, "cuStreamCreate"))(&stream, 0);
    for (unsigned i = 0; i < 10; i++)
        ((int (*)(unsigned, unsigned, size_t))dlsym(cuda, "stage2_sim_launch_recorded"))(1, i, stream);
    int status = ((int (*)(size_t))dlsym(cuda, "cuStreamSynchronize"))(stream);
    if (argc < 2) return status;
    usleep(100000);
    close(open("ready", O_CREAT | O_WRONLY, 0600));
    sleep(30);
    return status;
}
"#;

/// A file that `cargo test --workspace` builds before it runs any test.
pub(crate) fn built(name: &str) -> PathBuf {
    let folder = PathBuf::from(LAUNCH);
    let folder = folder.parent().expect("a folder");
    // What cargo links for tests lies there, newer than what `cargo build` left beside the programs.
    let places = [folder.join("deps").join(name), folder.join(name)];
    let found = places.into_iter().find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} was not built: `cargo test --workspace --no-run`"))
}

/// Makes the program `launches` in the sandbox.
pub(crate) fn launches(sandbox: &Sandbox) {
    let simulator = format!("-DSIMULATOR=\"{}\"", built("libstage2_sim.so").display());
    compile(sandbox, LAUNCHES, "launches", &[&simulator]);
}

/// Compiles C in the sandbox, with these further words for the compiler.
pub(crate) fn compile(sandbox: &Sandbox, source: &str, name: &str, words: &[&str]) -> PathBuf {
    let (source, result) = (sandbox.write("source.c", source), sandbox.path(name));
    let mut cc = Command::new("cc");
    let compiled = cc.arg("-w").args(words).arg("-o").args([&result, &source]).arg("-ldl").status();
    assert!(compiled.expect("the C compiler that links Rust programs").success());
    result
}

/// Variables that make the launcher use the real collector, and that the simulated CUPTI.
pub(crate) fn collector() -> [(&'static str, PathBuf); 2] {
    [("STAGE2_COLLECTOR", built("libstage2.so")), ("STAGE2_CUPTI", built("libstage2_sim.so"))]
}

/// A light run of the demo with these words, with its bundle in `folder` of the sandbox.
pub(crate) fn run_demo(sandbox: &Sandbox, folder: &str, words: &[&str]) {
    let [demo, simulator] =
        ["stage2-demo", "libstage2_sim.so"].map(|name| built(name).display().to_string());
    let start = ["--run-dir", folder, "run.mode=light", "--", &demo, "--device", "simulated"];
    let all = [&start[..], &["--sim", &simulator], words].concat();
    sandbox.launch_strictly(&all).envs(collector()).assert().success();
}

/// Makes the script `demo` in the sandbox, which runs the demo between these words of a shell.
pub(crate) fn demo_script(sandbox: &Sandbox, before: &str, words: &str) {
    let [demo, simulator] =
        ["stage2-demo", "libstage2_sim.so"].map(|name| built(name).display().to_string());
    let script =
        format!("#!/bin/sh\n{before} '{demo}' --device simulated --sim '{simulator}' {words}\n");
    sandbox.executable("demo", &script);
}
