//! `run.json` and the logs of the collect pass -> whether the workload ended early, and what that
//! means for the verdict: a run that was cut short never reads as whole.

use std::path::Path;

use serde_json::Value;

use crate::layout::COLLECT;
use crate::{files, out_of_memory};
use stage2_model::{
    EndedBy, Finding, PassStatus, Report, RunInfo, Severity, Status, WorkloadEnd, WorkloadExit,
};
use stage2_text::numbers::count;

/// Where `run.tee` keeps the output of the workload; the later one is read as the later text.
const LOGS: [&str; 2] = ["collector/stdout.log", "collector/stderr.log"];
/// How much of the end of a log is read. A traceback with its error is far shorter.
const TAIL_BYTES: u64 = 64 << 10;

/// How the workload ended early in the run that `run` is the record of; none: it ended in order, or
/// nobody knows.
pub(crate) fn of_run(run: &Value, run_dir: &Path) -> Option<WorkloadEnd> {
    let passes = run.get("passes")?.as_array()?;
    let collect =
        passes.iter().find(|pass| pass.get("name").is_some_and(|name| name == COLLECT))?;
    let status: PassStatus = serde_json::from_value(collect.get("status")?.clone()).ok()?;
    let exit = collect.get("exit").cloned().unwrap_or_default();
    let exit: Option<WorkloadExit> = serde_json::from_value(exit).ok().flatten();
    let how = match status {
        PassStatus::WorkloadFailed => EndedBy::Failure,
        PassStatus::TimedOut => EndedBy::TimeLimit,
        PassStatus::Interrupted => EndedBy::Interrupt,
        // The first version of the format has `ok` for every end.
        PassStatus::Ok if exit.is_some_and(WorkloadExit::is_failure) => EndedBy::Failure,
        _ => return None,
    };
    let ended = exit.map_or_else(|| "its exit status is not known".to_owned(), |e| e.describe());
    let text = match how {
        EndedBy::Failure => format!("the workload failed: {ended}"),
        EndedBy::TimeLimit => format!("the time limit ended the workload: {ended}"),
        EndedBy::Interrupt => format!("the workload was interrupted: {ended}"),
    };
    let tails = LOGS.map(|log| files::tail(&run_dir.join(log), TAIL_BYTES).unwrap_or_default());
    let said =
        tails.iter().map(|tail| String::from_utf8_lossy(tail)).collect::<Vec<_>>().join("\n");
    // Who asked it to end explains its signal, and records of the first version do not say.
    let known = how == EndedBy::Failure && status == PassStatus::WorkloadFailed;
    let likely_cause = out_of_memory(exit.filter(|_| known), &said);
    let likely_cause = likely_cause.filter(|_| how == EndedBy::Failure);
    let log = LOGS.iter().rev().find(|log| run_dir.join(log).is_file());
    Some(WorkloadEnd { how, exit, text, likely_cause, log: log.map(|log| (*log).to_owned()) })
}

/// Takes the early end into the verdict and the findings.
pub(crate) fn explain(report: &mut Report) {
    let records = report.coverage.gpu_records();
    let RunInfo { workload_end: Some(end), .. } = &report.run else { return };
    let verdict = &mut report.coverage.verdict;
    let missing = format!("{}, and what it had not done by then is missing", end.text);
    verdict.text = match verdict.status {
        Status::Complete => {
            let rest = verdict.text.strip_prefix("complete: ").unwrap_or(&verdict.text);
            format!("PARTIAL, with {} GPU records: {missing}; until then {rest}", count(records))
        }
        Status::Partial => match verdict.text.split_once(": ") {
            Some((head, rest)) => format!("{head}: {missing}; {rest}"),
            None => format!("{}; {missing}", verdict.text),
        },
        Status::Empty => format!("{}; {}", verdict.text, end.text),
    };
    if verdict.status == Status::Complete {
        verdict.status = Status::Partial;
    }
    // The run itself tells of time limits and interruptions.
    if end.how == EndedBy::Failure {
        let see = match &end.log {
            Some(log) => format!("see {log}"),
            None => {
                "see what it wrote to the terminal (run.tee=true keeps that in the bundle)".into()
            }
        };
        let why = end.likely_cause.as_ref().map(|cause| format!("likely cause: {cause}"));
        report.findings.push(Finding::new(
            Severity::Warning,
            &*end.text,
            why.unwrap_or_else(|| "the numbers cover what it did until then".into()),
            format!("{see}, fix the cause and run again"),
        ));
    }
}
