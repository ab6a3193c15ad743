//! Single steps of ncu passes: a profiling run, and its report turned into tables, for machines without
//! ncu by NVIDIA's Python package ncu-report.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::env::{NoAnswer, ask, on_path};
use crate::tools::ncu::command::{self, Files};
use crate::tools::ncu::config::Ncu;
use crate::tools::ncu::outcome::{Finished, Verdict, failed_workload, judge, judge_import};
use crate::tools::step::Step;
use stage2_contract::text::visible_path;
use stage2_model::{Finding, PassStatus, WorkloadExit};

use super::tool::{Tool, ToolPass, tables_cut_off};

/// Prints the raw page of a report.
const PRINT_RAW: &str = "ncu --import FILE --page raw --csv --print-units base \
                                    --print-kernel-base mangled > raw.csv";

/// A profiling run. [`PassStatus::Planned`] means: once more, without filters.
pub(super) fn profiled(
    tool: &Tool<'_>,
    argv: Vec<OsString>,
    files: &Files,
    filtered: bool,
    findings: &mut Vec<Finding>,
) -> ToolPass {
    // What an earlier run left must not pass for the result of this one.
    let _ = std::fs::remove_file(&files.report);
    let ended = tool.profile(&argv);
    let messages = super::tool::read_from(&files.log, 0);
    // One log holds everything; what ncu says there itself is its own file while it runs.
    let log = std::fs::File::options().append(true).open(tool.folder.join("log.txt"));
    let _ = log.and_then(|mut log| log.write_all(messages.as_bytes()));
    let said = format!("{messages}\n{}", ended.log);
    let finished = Finished {
        ended: &ended,
        log: &said,
        report_bytes: files.report.metadata().ok().map(|found| found.len()),
        filtered: filtered && !ended.interrupted,
        workload_exit: match tool.collect {
            Some(WorkloadExit::Code(code)) => Some(code),
            _ => None,
        },
    };
    let (outcome, workload) = (judge(&finished), failed_workload(&finished));
    let mut pass = ToolPass::ran(argv, &ended);
    pass.status = match outcome.verdict {
        Verdict::Complete | Verdict::Partial => PassStatus::Ok,
        Verdict::Retry => PassStatus::Planned,
        Verdict::Failed => PassStatus::Failed,
    };
    pass.why = outcome.findings.first().map(ToString::to_string).unwrap_or_default();
    findings.extend(outcome.findings);
    if !ended.interrupted {
        pass.ended(workload.map(WorkloadExit::Code));
    }
    pass
}

/// Turns a report into its two tables.
pub(super) fn import(tool: &Tool<'_>, ncu: &Ncu, files: &Files, findings: &mut Vec<Finding>) {
    for step in command::imports(&ncu.executable, files) {
        let csv = step.stdout.clone().unwrap_or_default();
        let ended = tool.step(step);
        if let Some(signal) = tool.interrupted.get().filter(|_| !ended.succeeded()) {
            findings.push(tables_cut_off(&files.report, signal, PRINT_RAW));
            return;
        }
        let bytes = csv.metadata().ok().map(|found| found.len());
        let said = format!("{}\n{}", ended.log, super::tool::read_from(&csv, 0));
        findings.extend(judge_import(&files.report, &ended, &said, bytes));
    }
}

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
pub(super) fn print_by_python(
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
