//! `stage2-launch doctor` -> every check on stdout, and 1 where one found a problem.

use std::path::{Path, PathBuf};

use super::ending::printed;
use super::run::working_dir;
use crate::cli::DoctorArgs;
use crate::config::{self, Pipeline, Request};
use crate::doctor::{self, Status, Subject};
use crate::failure::Failure;
use crate::run;
use crate::terminal::{Terminal, Verbosity};

/// The exit status where a check found a problem.
const EXIT_PROBLEM: u8 = 1;

pub(crate) fn doctor(
    args: DoctorArgs,
    verbosity: Verbosity,
    terminal: &Terminal,
) -> Result<u8, Failure> {
    let composed =
        config::compose(&Request { no_workload: false, ..args.presets.request(args.overrides) })?;
    let config = composed.resolved(Path::new("RUN_DIR"))?.1;
    let configured = config.profiling.collector.library.as_deref();
    let Pipeline { nsys, ncu } = &config.pipeline;
    let run_dir = args.run_dir.or(composed.run_dir()?);
    let library = std::env::var_os("STAGE2_COLLECTOR").map(PathBuf::from);
    let exe = std::env::current_exe().unwrap_or_default();
    let subject = Subject {
        command: args.workload,
        library: run::find_library(configured, library.as_deref(), &exe),
        cupti: config.profiling.collector.cupti.clone(),
        run_folder: match run_dir {
            Some(dir) => working_dir()?.join(dir),
            None => working_dir()?.join(&config.artifacts.stage2_dir),
        },
    };
    terminal.progress("checking this machine; this takes up to five seconds");
    let diagnosis = doctor::examine(&subject, [&nsys.executable, &ncu.executable]);
    let text = if args.json {
        let json = serde_json::to_string_pretty(&diagnosis);
        json.map_err(|e| Failure::NoResult(format!("the result is no JSON: {e}")))? + "\n"
    } else {
        doctor::show(&diagnosis, verbosity == Verbosity::Verbose)
    };
    printed(&text)?;
    Ok(if diagnosis.status == Status::Problem { EXIT_PROBLEM } else { 0 })
}
