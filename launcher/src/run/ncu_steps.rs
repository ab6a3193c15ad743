//! Single steps of ncu passes: a profiling run, and its report turned into tables.

use std::collections::BTreeMap;
use std::io::Write as _;

use crate::tools::ncu::command::{self, Files, Invocation};
use crate::tools::ncu::config::Ncu;
use crate::tools::ncu::outcome::{End, Finished, Verdict, failed_workload, judge, judge_import};
use stage2_model::{Finding, PassStatus, WorkloadExit};

use super::SignalSource;
use super::child::Spawner;
use super::tool::{Ended, Tool, ToolPass, tables_cut_off};

/// A profiling run. [`PassStatus::Planned`] means: once more, without filters.
pub(super) fn profiled<S: Spawner, G: SignalSource>(
    tool: &Tool<'_, S, G>,
    invocation: Invocation,
    files: &Files,
    filtered: bool,
    collect: Option<WorkloadExit>,
    findings: &mut Vec<Finding>,
) -> ToolPass {
    // What an earlier run left must not pass for the result of this one.
    let _ = std::fs::remove_file(&files.report);
    let ended = tool.profile(&invocation.argv, &BTreeMap::new());
    let messages = super::tool::read_from(&files.log, 0);
    // One log holds everything; what ncu says there itself is its own file while it runs.
    let log = std::fs::File::options().append(true).open(tool.folder.join("log.txt"));
    let _ = log.and_then(|mut log| log.write_all(messages.as_bytes()));
    let said = format!("{messages}\n{}", ended.log);
    let finished = Finished {
        end: end_of(&ended),
        log: &said,
        report_bytes: files.report.metadata().ok().map(|found| found.len()),
        filtered: filtered && !ended.interrupted,
        workload_exit: match collect {
            Some(WorkloadExit::Code(code)) => Some(code),
            _ => None,
        },
    };
    let (outcome, workload) = (judge(&finished), failed_workload(&finished));
    let status = match outcome.verdict {
        Verdict::Complete | Verdict::Partial => PassStatus::Ok,
        Verdict::Retry => PassStatus::Planned,
        Verdict::Failed => PassStatus::Failed,
    };
    let why = outcome.findings.first().map(ToString::to_string).unwrap_or_default();
    findings.extend(outcome.findings);
    let mut pass = ToolPass {
        status,
        why,
        argv: Some(invocation.argv),
        exit: ended.exit,
        workload: None,
        duration: Some(ended.duration),
        findings: Vec::new(),
    };
    if !ended.interrupted {
        pass.ended(workload.map(WorkloadExit::Code));
    }
    pass
}

/// Turns a report into its two tables.
pub(crate) fn import<S: Spawner, G: SignalSource>(
    tool: &Tool<'_, S, G>,
    ncu: &Ncu,
    files: &Files,
    findings: &mut Vec<Finding>,
) {
    let imports = command::imports(&ncu.executable, &files.report, &files.raw, &files.details);
    for invocation in imports {
        let csv = invocation.stdout.clone().unwrap_or_default();
        let ended = tool.step(&invocation.into());
        if let Some(signal) = tool.interrupted.get()
            && ended.exit != Some(WorkloadExit::Code(0))
        {
            // What it left would pass for all of it.
            if ended.refused.is_none() {
                let _ = std::fs::remove_file(&csv);
            }
            let remedy = "ncu --import FILE --page raw --csv --print-units base \
                          --print-kernel-base mangled > raw.csv";
            findings.push(tables_cut_off(&files.report, signal, remedy));
            return;
        }
        let bytes = csv.metadata().ok().map(|found| found.len());
        let said = format!("{}\n{}", ended.log, super::tool::read_from(&csv, 0));
        findings.extend(judge_import(&files.report, end_of(&ended), &said, bytes));
    }
}

pub(super) fn end_of(ended: &Ended) -> End {
    match (&ended.refused, ended.timed_out_after, ended.exit) {
        (Some(why), ..) => End::NotStarted { not_found: why.contains("not found") },
        (_, Some(after), _) => End::OutOfTime { after_s: after.as_secs() },
        (_, _, Some(WorkloadExit::Code(code))) => End::Exit(code),
        (_, _, Some(WorkloadExit::Signal(signal))) => End::Signal(signal),
        (None, None, None) => End::NotStarted { not_found: false },
    }
}
