//! `stage2-launch demo` -> the built-in workload as a job: on the GPU, or on the simulated one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::run::Job;
use crate::cli::RunOptions;
use crate::config;
use crate::env::probe_gpu;
use crate::failure::Failure;
use crate::install::{self, HOW_TO_INSTALL};
use crate::terminal::Terminal;
use stage2_model::{Finding, Severity};

const WORKLOAD: &str = "stage2-demo";
const SIMULATOR: &str = "libstage2_sim.so";

pub(crate) fn demo(options: RunOptions, terminal: &Terminal) -> Result<u8, Failure> {
    let config = options.request();
    // What is typed wrong is said before a GPU or a file is looked for.
    config::compose(&config)?;
    let RunOptions { settings, dry_run, acceptance, keep_going, showing, .. } = options;
    let exe = std::env::current_exe()
        .map_err(|e| Failure::NoResult(format!("this program does not find itself: {e}")))?;
    terminal.progress("looking for a GPU");
    let gpu = probe_gpu();
    let simulated = gpu.devices.is_empty();
    let workload = required(&exe, WORKLOAD, dry_run, terminal)?;
    let simulator = simulated.then(|| required(&exe, SIMULATOR, dry_run, terminal)).transpose()?;
    match (gpu.devices.first(), &gpu.absent) {
        (Some(device), _) => terminal.progress(&format!("the demo runs on {}", device.name)),
        (None, why) => terminal.progress(&format!(
            "the demo runs on the simulated GPU: {}",
            why.as_deref().unwrap_or("there is no other")
        )),
    }
    let job = Job {
        command: command(workload, simulator.as_deref()),
        config,
        run_dir: settings.run_dir,
        dry_run,
        simulator,
        gpu: Some(gpu),
        keep_going,
        acceptance,
        showing,
        ..Job::default()
    };
    job.launch(terminal)
}

fn command(workload: PathBuf, simulator: Option<&Path>) -> Vec<OsString> {
    let mut command: Vec<OsString> = vec![workload.into(), "--device".into()];
    match simulator {
        None => command.push("gpu".into()),
        Some(simulator) => command.extend(["simulated".into(), "--sim".into(), simulator.into()]),
    }
    command
}

/// A file of the demo, which has to be there unless nothing is run.
fn required(
    exe: &Path,
    name: &str,
    dry_run: bool,
    terminal: &Terminal,
) -> Result<PathBuf, Failure> {
    let mut places = match install::find(exe, name) {
        Ok(found) => return Ok(found),
        Err(places) => places,
    };
    let all: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
    let text = format!("{name} is not there; looked for {}", all.join(", "));
    if !dry_run {
        return Err(Failure::NoResult(format!("{text}; {HOW_TO_INSTALL}")));
    }
    terminal.finding(&Finding::new(Severity::Warning, "a run would fail", text, HOW_TO_INSTALL));
    Ok(places.swap_remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_is_told_its_device() {
        assert_eq!(command("/b/stage2-demo".into(), None), ["/b/stage2-demo", "--device", "gpu"]);
        let simulated = command("/b/stage2-demo".into(), Some(Path::new("/b/libstage2_sim.so")));
        assert_eq!(simulated[2..], ["simulated", "--sim", "/b/libstage2_sim.so"]);
    }
}
