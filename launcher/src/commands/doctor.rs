//! `stage2-launch doctor` -> every check on stdout, and 1 where one found a problem.

use std::path::PathBuf;

use super::ending::printed;
use super::run::working_dir;
use crate::cli::DoctorArgs;
use crate::config;
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
    let config = config::built_in()?;
    let library = std::env::var_os("STAGE2_COLLECTOR").map(PathBuf::from);
    let exe = std::env::current_exe().unwrap_or_default();
    let subject = Subject {
        command: args.workload,
        library: run::find_library(None, library.as_deref(), &exe),
        run_folder: match args.run_dir {
            Some(dir) => working_dir()?.join(dir),
            None => working_dir()?.join(&config.artifacts.stage2_dir),
        },
    };
    terminal.progress("checking this machine; this takes up to five seconds");
    let diagnosis = doctor::examine(&subject);
    let text = if args.json {
        let json = serde_json::to_string_pretty(&diagnosis);
        json.map_err(|e| Failure::NoResult(format!("the result is no JSON: {e}")))? + "\n"
    } else {
        doctor::show(&diagnosis, verbosity == Verbosity::Verbose)
    };
    printed(&text)?;
    Ok(if diagnosis.status == Status::Problem { EXIT_PROBLEM } else { 0 })
}
