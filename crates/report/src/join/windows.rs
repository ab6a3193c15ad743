//! What processes say of windows that were to begin together -> findings.

use stage2_contract::text::numbers::ms3;
use stage2_contract::trace::window::{self, FirstSteps};
use stage2_model::{Finding, ProcessCoverage};

/// What there is to say of the windows of all processes.
pub(super) fn findings(processes: &[ProcessCoverage]) -> impl Iterator<Item = Finding> + '_ {
    processes.iter().filter_map(late).chain(shifted(processes))
}

/// A window that was to begin together with those of other processes.
fn late(process: &ProcessCoverage) -> Option<Finding> {
    let late_ns = process.meta.get(window::LATE)?.parse().ok();
    let late_ns = late_ns.filter(|ns| *ns >= window::LATE_FROM_NS)?;
    Some(Finding::note(
        format!(
            "{}: its window began {} ms after the moment that was set",
            process.file,
            ms3(late_ns)
        ),
        "the process was asked too late, or CUPTI took long to start: the steps recorded here are later ones \
         than those of processes that began in time",
        "start again: CUPTI stays attached; or set a later moment (`ctl start --at`)",
    ))
}

/// Windows of a host that began at one moment, with different steps.
fn shifted(processes: &[ProcessCoverage]) -> Option<Finding> {
    let fact = |process: &ProcessCoverage, key| process.meta.get(key)?.parse::<u64>().ok();
    let at = processes.iter().find_map(|process| fact(process, window::AT))?;
    // Clocks of several hosts are further apart than steps.
    let host = processes.first()?.host.as_ref();
    let steps = processes
        .iter()
        .filter(|process| process.host.as_ref() == host && fact(process, window::AT) == Some(at))
        .filter_map(|process| {
            Some((fact(process, window::FIRST_STEP)?, fact(process, window::FIRST_STEP_NS)?))
        });
    let steps = FirstSteps::of(steps).filter(|steps| !steps.are_one())?;
    Some(Finding::note(
        format!(
            "the windows of these processes do not begin with the same step: their first ones opened {} ms \
             apart and were open for {} ms",
            ms3(steps.apart_ns),
            ms3(steps.shortest_ns)
        ),
        "a step opened in one process just before the moment that was set, and in another one just behind it; \
         or the processes do not step together",
        "start again",
    ))
}
