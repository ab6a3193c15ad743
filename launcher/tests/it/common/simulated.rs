//! The real collector and the simulated GPU, for tests that run both, and a program that uses them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Sandbox;

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
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_stage2-launch"));
    let folder = folder.parent().expect("a folder");
    // What cargo links for tests lies there, newer than what `cargo build` left beside the programs.
    let places = [folder.join("deps").join(name), folder.join(name)];
    let found = places.into_iter().find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} was not built: `cargo test --workspace --no-run`"))
}

/// Makes the program `launches` in the sandbox.
pub(crate) fn launches(sandbox: &Sandbox) {
    let source = sandbox.write("launches.c", LAUNCHES);
    let simulator = format!("-DSIMULATOR=\"{}\"", built("libstage2_sim.so").display());
    let compiled = Command::new("cc")
        .args(["-w", &simulator, "-o"])
        .args([&sandbox.path("launches"), &source])
        .arg("-ldl")
        .status();
    assert!(compiled.expect("the C compiler that links Rust programs").success());
}

/// A guest that obeys its standard input, with the collector in it and the simulated GPU; it writes into
/// `traces` and has its socket below `run`.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn obeying(traces: &Path, run: &Path) -> Command {
    let mut command = Command::new(built("examples/guest"));
    command
        .arg("obey")
        .env("LD_PRELOAD", built("libstage2.so"))
        .env("STAGE2_TEST_SIM", built("libstage2_sim.so"))
        .env("STAGE2_CUPTI", built("libstage2_sim.so"))
        .env("STAGE2_SIM_FAST", "1")
        .env("STAGE2_SUMMARY", "off")
        .env("STAGE2_OUT", traces)
        .env("XDG_RUNTIME_DIR", run)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}
