//! `run.json` and the logs of the collect pass -> whether the workload ended early, and what that
//! means for the verdict: a run that was cut short never reads as whole.

use std::path::Path;

use serde_json::Value;

use stage2_contract::text::numbers::count;
use stage2_contract::text::{shorten, visible};
use stage2_model::finding::Id;
use stage2_model::{EndedBy, PassStatus, Report, RunInfo, Status, WorkloadEnd, WorkloadExit};
use stage2_read::files;
use stage2_read::layout::COLLECT;

/// Where `run.tee` keeps the output of the workload; the later one is read as the later text.
const LOGS: [&str; 2] = ["collector/stdout.log", "collector/stderr.log"];
/// How much of the end of a log is read. A traceback with its error is far shorter.
const TAIL_BYTES: u64 = 64 << 10;

/// What programs write when the memory of a GPU is full.
const OF_GPU: [&str; 6] = [
    "OutOfMemoryError",
    "CUDA out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "cudaErrorMemoryAllocation",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDA error: out of memory",
];
/// What they write when that of the machine is.
const OF_HOST: [&str; 5] = [
    "std::bad_alloc",
    "MemoryError",
    "DefaultCPUAllocator: ",
    "Cannot allocate memory",
    "Out of memory: Killed process",
];
const LINE_LIMIT: usize = 240;
/// SIGKILL as an exit status: a shell between the workload and us hands the signal on so.
const KILLED: i32 = 128 + 9;
/// SIGXCPU, as well.
const CPU_TIME_OVER: i32 = 128 + 24;

/// How the workload ended early in the run that `run` is the record of; none: it ended normally, or
/// its end is not known.
pub(crate) fn of_run(run: &Value, run_dir: &Path) -> Option<WorkloadEnd> {
    let passes = run.get("passes")?.as_array()?;
    let collect =
        passes.iter().find(|pass| pass.get("name").is_some_and(|name| name == COLLECT))?;
    let status: PassStatus = serde_json::from_value(collect.get("status")?.clone()).ok()?;
    let exit = collect.get("exit").cloned().unwrap_or_default();
    let exit: Option<WorkloadExit> = serde_json::from_value(exit).ok().flatten();
    let how = match status {
        // Of records in which a SIGINT that stage2-launch did not get is a failure.
        PassStatus::WorkloadFailed if exit.is_some_and(WorkloadExit::is_interrupt) => {
            EndedBy::Interrupt
        }
        PassStatus::WorkloadFailed => EndedBy::Failure,
        PassStatus::TimedOut => EndedBy::TimeLimit,
        PassStatus::Interrupted => EndedBy::Interrupt,
        // The first version of the format has `ok` for every end.
        PassStatus::Ok if exit.is_some_and(WorkloadExit::is_failure) => EndedBy::Failure,
        _ => return None,
    };
    let tails = LOGS.map(|log| files::tail(&run_dir.join(log), TAIL_BYTES).unwrap_or_default());
    let said =
        tails.iter().map(|tail| String::from_utf8_lossy(tail)).collect::<Vec<_>>().join("\n");
    // Who asked it to end explains its signal, and records of the first version do not say.
    let known = how == EndedBy::Failure && status == PassStatus::WorkloadFailed;
    let likely_cause = out_of_memory(exit.filter(|_| known), &said);
    let likely_cause = likely_cause.filter(|_| how == EndedBy::Failure);
    let log = LOGS.iter().rev().find(|log| run_dir.join(log).is_file());
    let text = how.text(exit);
    Some(WorkloadEnd { how, exit, text, likely_cause, log: log.map(|log| (*log).to_owned()) })
}

/// Takes the early end into the verdict and the findings.
pub(crate) fn explain(report: &mut Report) {
    let records = report.coverage.gpu_records();
    let RunInfo { workload_end: Some(end), .. } = &report.run else { return };
    let verdict = &mut report.coverage.verdict;
    // How it ended stands above this line.
    let covered = format!("they cover the run until {}", end.how.until());
    verdict.text = match verdict.status {
        Status::Complete => {
            verdict.status = Status::Partial;
            let rest = verdict.text.strip_prefix("complete: ").unwrap_or(&verdict.text);
            format!("PARTIAL, with {} GPU records: {covered}; until then {rest}", count(records))
        }
        Status::Partial => match verdict.text.split_once(": ") {
            Some((head, rest)) => format!("{head}: {covered}; {rest}"),
            None => format!("{}; {covered}", verdict.text),
        },
        Status::Empty if verdict.text.contains(&end.text) => return,
        Status::Empty => format!("{}; {}", verdict.text, end.text),
    };
    // The run itself tells of time limits and interruptions.
    if end.how == EndedBy::Failure {
        let terminal = "what it wrote to the terminal (run.tee=true keeps that in the bundle)";
        let see = end.log.as_deref().unwrap_or(terminal);
        let covered = match records {
            0 => "no GPU work was recorded until then",
            _ => "the numbers cover what it did until then",
        };
        let why = end.likely_cause.as_ref().map(|cause| format!("likely cause: {cause}"));
        report.findings.push(Id::WorkloadEnded.found(
            &*end.text,
            why.unwrap_or_else(|| covered.into()),
            format!("see {see}, fix the cause and run again"),
        ));
    }
}

/// The likely cause of a failure, where memory or a limit of the system is; `said` is the end of what the workload wrote.
/// Nothing that someone asked to end belongs here: its SIGKILL has another sender.
pub fn out_of_memory(exit: Option<WorkloadExit>, said: &str) -> Option<String> {
    let last = |parts: &[&str]| said.lines().rfind(|line| parts.iter().any(|p| line.contains(p)));
    // `OutOfMemoryError` also holds `MemoryError`, so the GPU comes first.
    let found = last(&OF_GPU).map(|line| ("a GPU", line));
    let found = found.or_else(|| last(&OF_HOST).map(|line| ("the machine", line)));
    if let Some((whose, line)) = found {
        let line = shorten(&visible(line.trim().as_bytes()), LINE_LIMIT);
        return Some(format!("the memory of {whose} ran out; it wrote \"{line}\""));
    }
    let cause = match exit? {
        WorkloadExit::Signal(9) | WorkloadExit::Code(KILLED) => {
            "a SIGKILL that stage2-launch did not send: by the kernel's out-of-memory killer (see \
             `dmesg`, or memory.events of the container), at a limit of CPU time (`ulimit -t`), or by \
             another program"
        }
        WorkloadExit::Signal(24) | WorkloadExit::Code(CPU_TIME_OVER) => {
            "its limit of CPU time was reached (`ulimit -t`, RLIMIT_CPU)"
        }
        _ => return None,
    };
    Some(cause.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: Option<WorkloadExit> = Some(WorkloadExit::Code(1));

    #[test]
    fn the_errors_of_frameworks_are_recognised_and_quoted() {
        for (line, whose) in [
            ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "a GPU"),
            ("RuntimeError: CUDA error: out of memory", "a GPU"),
            ("cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY", "a GPU"),
            ("terminate called after throwing an instance of 'std::bad_alloc'", "the machine"),
            ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate", "the machine"),
        ] {
            let said = format!("loading\n{line}\nmore\n");
            let cause = out_of_memory(FAILED, &said).unwrap_or_default();
            assert_eq!(cause, format!("the memory of {whose} ran out; it wrote \"{line}\""));
        }
    }

    #[test]
    fn other_failures_are_not_blamed_on_memory() {
        assert_eq!(out_of_memory(FAILED, "KeyError: 'memory'\nKilled\n"), None);
        assert_eq!(out_of_memory(Some(WorkloadExit::Signal(11)), ""), None);
        assert_eq!(out_of_memory(None, ""), None);
    }

    #[test]
    fn a_sigkill_of_a_stranger_may_be_the_out_of_memory_killers_or_a_limit_of_cpu_time() {
        for exit in [WorkloadExit::Signal(9), WorkloadExit::Code(137)] {
            let cause = out_of_memory(Some(exit), "step 3\n").unwrap_or_default();
            assert!(cause.contains("out-of-memory killer") && cause.contains("dmesg"), "{cause}");
            assert!(cause.contains("ulimit -t"), "{cause}");
        }
        for exit in [WorkloadExit::Signal(24), WorkloadExit::Code(152)] {
            let cause = out_of_memory(Some(exit), "step 3\n").unwrap_or_default();
            assert!(cause.starts_with("its limit of CPU time"), "{cause}");
        }
    }

    #[test]
    fn what_is_quoted_is_short_and_can_be_seen() {
        let said = format!("\u{1b}[31mCUDA out of memory{}\r\n", "!".repeat(10_000));
        let cause = out_of_memory(FAILED, &said).unwrap_or_default();
        assert!(cause.len() < 400 && cause.contains("\\x1b[31mCUDA out of memory!"), "{cause}");
    }
}
