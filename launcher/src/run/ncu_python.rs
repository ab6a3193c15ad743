//! A report of Nsight Compute -> its raw page, by NVIDIA's Python package ncu-report, for machines
//! without ncu.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::ncu_steps::PRINT_RAW;
use super::tool::{Tool, tables_cut_off};
use crate::env::{NoAnswer, ask, on_path};
use crate::tools::step::Step;
use stage2_model::Finding;
use stage2_text::visible_path;

/// Prints the page; its first lines say which one.
const SCRIPT: &str = include_str!("../tools/ncu/print_report.py");
/// Starting Python, and loading the package, may take this long.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// Reading a report may take this long.
const PRINT_LIMIT: Duration = Duration::from_secs(600);
/// Without the folder that it is run in.
const IMPORT: &str = "import sys; sys.path[:] = [p for p in sys.path if p]; import ncu_report";

/// Why no Python has the package.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoPython {
    #[error("there is no python3 on PATH")]
    OnPath,
    #[error("{} cannot import ncu_report: {why}", .python.display())]
    WithPackage { python: PathBuf, why: NoAnswer },
}

/// The first Python on PATH that has the package.
///
/// # Errors
/// There is none; of several, what the last one says.
pub(super) fn interpreter() -> Result<PathBuf, NoPython> {
    let mut no_python = NoPython::OnPath;
    for python in ["python3", "python"].into_iter().filter_map(on_path) {
        match ask(Command::new(&python).args(["-c", IMPORT]), ASK_LIMIT) {
            Ok(_) => return Ok(python),
            Err(why) => no_python = NoPython::WithPackage { python, why },
        }
    }
    Err(no_python)
}

/// Writes the raw page of `report` to `raw`.
pub(super) fn print(
    tool: &Tool<'_>,
    python: &Path,
    (report, raw): (&Path, &Path),
    findings: &mut Vec<Finding>,
) {
    let step = Step {
        argv: vec![python.into(), "-c".into(), SCRIPT.into(), report.into()],
        stdout: Some(raw.to_owned()),
        timeout: Some(PRINT_LIMIT),
        ..Step::default()
    };
    let ended = tool.step(step);
    let shown = visible_path(report);
    if ended.succeeded() {
        findings.push(Finding::note(
            format!("{shown} was read by the Python package ncu-report"),
            "ncu cannot be run here; the package does not tell processes apart, and the advice of \
             ncu's rules (the details page) is missing",
            "",
        ));
        return;
    }
    // What it left would pass for all of it.
    if ended.refused.is_none() {
        let _ = std::fs::remove_file(raw);
    }
    if let Some(signal) = tool.interrupted.get() {
        findings.push(tables_cut_off(report, signal, PRINT_RAW));
        return;
    }
    let why = match (&ended.refused, ended.timed_out_after) {
        (Some(why), _) => why.clone(),
        (None, Some(limit)) => format!("it did not end within {} s", limit.as_secs()),
        (None, None) => {
            let last = ended.log.lines().rfind(|line| !line.trim().is_empty());
            last.unwrap_or("it does not say why").trim().to_owned()
        }
    };
    findings.push(Finding::warning(
        format!("the Python package ncu-report could not read {shown}"),
        why,
        "the package has to be at least as new as the ncu that wrote the file: `pip install --upgrade \
         ncu-report`, or print the tables with that ncu, and merge the .csv",
    ));
}
