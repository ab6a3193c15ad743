//! Single steps of ncu passes: a profiling run, and its report turned into tables.

use std::ffi::OsString;
use std::io::Write as _;

use crate::tools::ncu::command::{self, Files};
use crate::tools::ncu::config::Ncu;
use crate::tools::ncu::outcome::{Finished, Verdict, failed_workload, judge, judge_import};
use stage2_model::{Finding, PassStatus, WorkloadExit};

use super::tool::{Tool, ToolPass, tables_cut_off};

/// Prints the raw page of a report.
pub(super) const PRINT_RAW: &str = "ncu --import FILE --page raw --csv --print-units base \
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
