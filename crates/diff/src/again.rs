//! A report -> how a run like it is recorded.

use stage2_model::{EndedBy, ProcessCoverage, Report};

/// The built-in workload, and what `demo` gives it where it simulates the GPU; `--sim` has a value.
const DEMO: &str = "stage2-demo";
const SIMULATED: [&str; 2] = ["--device", "simulated"];
const SIM: &str = "--sim";
const OF_DEMO: [&str; 2] = ["--sync", "--quiet"];

/// The command that records a workload again: a verb of stage2-launch, its mode, and the words behind `--`.
pub struct Again {
    /// `run` or `demo`.
    pub verb: &'static str,
    /// `--light`, if the run was of the collector alone: deep mode would start the workload up to three more times.
    pub mode: Option<&'static str>,
    /// The workload.
    pub workload: Vec<String>,
}

/// What records the workload of a report again, which has this command. Nothing of captures that were merged: what was
/// recorded is not known.
pub fn again(report: &Report, command: &[String]) -> Option<Again> {
    let program = command.first().map(|word| word.rsplit('/').next().unwrap_or(word))?;
    if program == "stage2-launch" {
        return None;
    }
    let is_light = report.run.passes.iter().all(|pass| pass.name.as_deref() == Some("collect"));
    Some(match command {
        // Only the demo loads the simulated GPU for its workload, and has these options in front.
        [_, device, simulated, sim, _, more @ ..]
            if program == DEMO && [device, simulated] == SIMULATED && sim == SIM =>
        {
            let given = more.iter().filter(|word| !OF_DEMO.contains(&word.as_str()));
            let is_given = given.clone().any(|word| word.starts_with(SIMULATED[0]));
            let device = SIMULATED.map(str::to_owned).into_iter().filter(|_| !is_given);
            Again { verb: "demo", mode: None, workload: device.chain(given.cloned()).collect() }
        }
        _ => {
            let mode = is_light.then_some("--light");
            Again { verb: "run", mode, workload: command.to_vec() }
        }
    })
}

/// What a server needs when it is recorded again; nothing of a program that ends by itself.
pub fn load(report: &Report) -> Option<&'static str> {
    let is_window = |process: &ProcessCoverage| process.meta.contains_key("window");
    let is_stopped =
        report.run.workload_end.as_ref().is_some_and(|end| end.how != EndedBy::Failure);
    let is_server =
        report.engine.is_some() || is_stopped || report.coverage.processes.iter().any(is_window);
    is_server.then_some("send the same load, then stop the server")
}
