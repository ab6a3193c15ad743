//! How a process ended -> the status of its pass, the exit status of this program, and what to tell.

use nix::sys::signal::Signal;

use super::EXIT_TIMEOUT;
use super::child::{Cause, Finished};
use crate::plan::Pass;
use stage2_model::{Finding, PassStatus, WorkloadExit};

/// Why no pass follows a signal.
pub(super) const INTERRUPTED: &str = "the run was interrupted";

/// Why no pass follows one that ended like this; none: there is no reason against it.
pub(super) fn stop_after(finished: &Finished, pass: &Pass) -> Option<String> {
    if finished.interrupted.is_some() {
        return Some(INTERRUPTED.to_owned());
    }
    let hangs = finished.cause == Cause::Unkillable;
    hangs.then(|| format!("the workload of the {} pass does not end", pass.name))
}

/// How far a process came, by its end.
pub(super) fn status_of(finished: &Finished) -> PassStatus {
    let failed = finished.exit.is_none_or(WorkloadExit::is_failure);
    match finished.cause {
        Cause::Timeout | Cause::Outgrown => PassStatus::TimedOut,
        Cause::Itself if failed && finished.interrupted.is_some() => PassStatus::Interrupted,
        Cause::Itself if !failed => PassStatus::Ok,
        Cause::Itself | Cause::Unkillable => PassStatus::WorkloadFailed,
    }
}

/// That a workload failed, and how.
pub(super) fn failure(exit: Option<WorkloadExit>) -> String {
    let how = exit.map_or_else(|| "its exit status is not known".to_owned(), |e| e.describe());
    format!("the workload failed: {how}")
}

/// What to tell of a workload that failed in the baseline pass.
pub(super) fn failure_of_baseline(pass: &Pass, finished: &Finished) -> Finding {
    let what = format!("{} pass: {}", pass.name, failure(finished.exit));
    let why = "its times are of what the workload did until then, and compared with nothing";
    Finding::warning(what, why, format!("see {}/log.txt", pass.name))
}

/// The exit status of this program that the end asks for.
pub(super) fn exit_status(finished: &Finished) -> u8 {
    match (&finished.cause, finished.exit) {
        (Cause::Timeout | Cause::Unkillable, _) | (_, None) => EXIT_TIMEOUT,
        (_, Some(WorkloadExit::Code(code))) => u8::try_from(code & 0xff).unwrap_or(1),
        (_, Some(WorkloadExit::Signal(signal))) => u8::try_from(128 + signal).unwrap_or(255),
    }
}

/// Why a process did not go on, as far as that was not its own decision.
pub(super) fn cause_findings(finished: &Finished, pass: &Pass) -> Vec<Finding> {
    let limit = pass.limits.timeout.unwrap_or_default().as_secs();
    let ended = match finished.cause {
        // Only profilers have such a limit: it is told where their runs are judged.
        Cause::Itself | Cause::Outgrown => None,
        Cause::Timeout => Some(Finding::warning(
            format!("the workload was ended after {limit} s"),
            KEPT,
            "give it more time with --timeout, or less to do",
        )),
        Cause::Unkillable => Some(Finding::warning(
            "the workload does not end, not even by SIGKILL",
            "it hangs in the kernel, for instance in a driver or on a network disk",
            "see `dmesg`; what was recorded until now is kept",
        )),
    };
    ended.into_iter().chain(finished.interrupted.map(interruption)).collect()
}

const KEPT: &str = "what was recorded until then is kept";

/// What to tell of a run that was asked to end.
pub(crate) fn interruption(signal: Signal) -> Finding {
    let what = format!("the run was interrupted by {}", signal.as_str());
    Finding::note(what, KEPT, "")
}
