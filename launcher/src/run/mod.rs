//! A plan -> processes, one pass after the other, and how each of them ended.

mod child;
mod collected;
mod ending;
mod flush;
mod imports;
mod library;
mod ncu_kernels;
mod ncu_pass;
mod ncu_python;
mod ncu_regions;
mod ncu_steps;
mod nsys_pass;
mod process;
mod run_one;
mod signals;
mod tee;
mod tool;

use std::cell::Cell;
use std::ffi::OsString;
use std::sync::mpsc;

use crate::bundle::{Bundle, PassRecord, now};
use crate::plan::{FLUSH_PAGE, Kind, Pass, Plan, Profiler};
use crate::terminal::Terminal;
use stage2_model::{Finding, PassStatus, Severity, WorkloadExit};

pub(crate) use child::Event;
use child::{Finished, Spawned, Spawner};
use collected::Collected;
pub(crate) use ending::interruption;
use ending::{
    INTERRUPTED, cause_findings, exit_status, failure, failure_of_baseline, status_of, stop_after,
};
pub(crate) use imports::Imports;
pub(crate) use library::{Library, find as find_library};
pub(crate) use nsys_pass::environment_finding;
pub(crate) use process::System;
pub(crate) use run_one::{PassOutcome, run_one};
pub(crate) use signals::Signals;

/// Exit status when the time limit ended the workload, as GNU `timeout` gives it.
pub(crate) const EXIT_TIMEOUT: u8 = 124;

/// What the passes say about the exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Status that the end of the workload in the collect pass asks for.
    pub(crate) exit: u8,
    /// Why there are no further passes.
    stop: Option<String>,
}

/// Who hands signals on while a pass runs.
pub(crate) trait SignalSource {
    /// Lets signals go to `events`, or, with none, end this program as they usually do.
    fn deliver_to(&self, events: Option<mpsc::Sender<Event>>);
}

/// The record of a pass before it ran.
pub(crate) fn planned(pass: &Pass) -> PassRecord {
    let text = |value: &std::ffi::OsString| value.to_string_lossy().into_owned();
    let texts = |map: &std::collections::BTreeMap<String, std::ffi::OsString>| {
        map.iter().map(|(name, value)| (name.clone(), text(value))).collect()
    };
    PassRecord {
        name: pass.name.to_owned(),
        argv: pass.argv.iter().map(text).collect(),
        environment: texts(&pass.environment),
        environment_kept: texts(&pass.kept),
        status: if pass.skip.is_some() { PassStatus::Skipped } else { PassStatus::Planned },
        exit: None,
        started: None,
        duration_ms: None,
        log: Vec::new(),
        merged: std::collections::BTreeMap::new(),
        why: pass.skip.clone().unwrap_or_default(),
        not_loaded: pass.not_loaded.clone(),
    }
}

/// Runs the passes of `plan` and keeps the bundle's record true after each step.
pub(crate) fn run_passes(
    plan: &Plan,
    bundle: &mut Bundle,
    spawner: &impl Spawner,
    signals: &impl SignalSource,
    terminal: &Terminal,
) -> Passed {
    let mut exit = 0;
    let mut stop: Option<String> = None;
    let mut failure = None;
    let collected = Collected::new(bundle.dir(), &plan.library_domains);
    for (at, pass) in plan.passes.iter().enumerate() {
        let title = format!("[{}/{}] {}", at + 1, plan.passes.len(), pass.name);
        if stop.is_none() && !bundle.dir().exists() {
            stop = Some("the folder of the run is gone".to_owned());
        }
        if let Some(why) = pass.skip.as_ref().or(stop.as_ref()) {
            terminal.milestone(&format!("{title}: left out: {why}"));
            update(bundle, at, terminal, |record| {
                record.status = PassStatus::Skipped;
                record.why.clone_from(why);
            });
            continue;
        }
        match &pass.profiler {
            None => terminal.progress(&format!("{title}: {}", command_line(pass))),
            Some(profiler) => terminal.progress(&format!(
                "{title}: the workload runs again; its output goes to {}",
                profiler.folder.join("log.txt").display()
            )),
        }
        for (name, value) in &pass.environment {
            terminal.detail(&format!("  {name}={}", crate::plan::quote(value)));
        }
        update(bundle, at, terminal, |record| {
            record.status = PassStatus::Running;
            record.started = Some(now());
        });
        let passed = match &pass.profiler {
            None => run_pass(pass, at, bundle, spawner, signals, terminal),
            Some(profiler) => {
                run_tool(pass, profiler, at, (bundle, &collected), (spawner, signals), terminal)
            }
        };
        stop = passed.stop;
        if pass.name == COLLECT {
            exit = passed.exit;
            // What --keep-going does not change is no failure.
            if stop.is_none() {
                let record = bundle.record.passes.get(at);
                failure = record.and_then(|record| after_failure(plan, record));
                stop.clone_from(&failure);
            }
        }
        if let Some(record) = bundle.record.passes.get(at) {
            let seconds = record.duration_ms.map(|ms| format!(" in {:.1} s", ms as f64 / 1000.0));
            let ended = record.exit.map_or_else(|| "not started".into(), WorkloadExit::describe);
            // Without the command: this line also reaches logs of CI, and commands hold secrets.
            terminal.milestone(&format!("{title}: {ended}{}", seconds.unwrap_or_default()));
        }
    }
    let left_out = plan.passes.iter().filter(|pass| pass.profiler.is_some() && pass.skip.is_none());
    let left_out: Vec<&str> = left_out.map(|pass| pass.name).collect();
    if let Some(why) = failure.filter(|_| !left_out.is_empty()) {
        let what = format!("passes left out: {}", left_out.join(", "));
        bundle.record.findings.push(Finding::new(Severity::Warning, what, why, ""));
    }
    Passed { exit, stop }
}

/// Why no pass follows a collect pass whose workload failed: under a profiler it would take longer to
/// fail once more. None: it did not fail, or the user wants them all the same.
fn after_failure(plan: &Plan, collect: &PassRecord) -> Option<String> {
    let failed = collect.status == PassStatus::WorkloadFailed && !plan.keep_going;
    failed.then(|| {
        format!(
            "{} in the collect pass; --keep-going runs the other passes all the same",
            collect.why
        )
    })
}

/// Runs the pass of a profiler. Whatever becomes of it, the passes and the reports after it do not
/// depend on it.
fn run_tool(
    pass: &Pass,
    profiler: &Profiler,
    at: usize,
    (bundle, collected): (&mut Bundle, &Collected),
    (spawner, signals): (&impl Spawner, &impl SignalSource),
    terminal: &Terminal,
) -> Passed {
    let collect = bundle.record.workload_exit;
    let folder = profiler.folder.clone();
    // Not its parents: a bundle that was taken away stays away.
    let made = match std::fs::create_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    let interrupted = Cell::new(None);
    let tool = tool::Tool {
        spawner,
        signals,
        interrupted: &interrupted,
        terminal,
        folder: folder.clone(),
        environment: pass.environment.clone(),
        limits: pass.limits,
    };
    let mut done = match (&profiler.kind, made) {
        (_, Err(error)) => {
            let what = format!("{} cannot be made", folder.display());
            let finding = Finding::new(Severity::Error, what, error.to_string(), "");
            tool::ToolPass::without(PassStatus::Failed, finding)
        }
        (Kind::Nsys(nsys), Ok(())) => {
            nsys_pass::run(&tool, nsys, profiler, Some(collected), collect)
        }
        (Kind::Ncu { settings, choice }, Ok(())) => {
            ncu_pass::run(&tool, settings, choice, profiler, collected, collect)
        }
    };
    if let Some(signal) = interrupted.get() {
        let finding = interruption(signal);
        let why = [&*done.why, &*finding.what];
        done.why = why.into_iter().filter(|why| !why.is_empty()).collect::<Vec<_>>().join("; ");
        done.findings.push(finding);
    }
    for finding in &done.findings {
        if !bundle.record.findings.contains(finding) {
            terminal.finding(finding);
            bundle.record.findings.push(finding.clone());
        }
    }
    update(bundle, at, terminal, |record| {
        record.status = done.status;
        record.why.clone_from(&done.why);
        record.exit = done.exit;
        record.duration_ms = done.duration.and_then(|d| u64::try_from(d.as_millis()).ok());
        if let Some(argv) = &done.argv {
            record.argv = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        }
        if folder.join("log.txt").is_file() {
            record.log = vec![format!("{}/log.txt", pass.name)];
        }
    });
    let stop = interrupted.get().map(|_| INTERRUPTED.to_owned());
    Passed { exit: 0, stop }
}

/// Name of the pass that decides on the exit status and on the passes after it.
const COLLECT: &str = "collect";

fn command_line(pass: &Pass) -> String {
    pass.argv.iter().map(crate::plan::quote).collect::<Vec<_>>().join(" ")
}

/// Changes the record of a pass and writes it down. A disk that is full now may be full because of
/// the workload: the run goes on and the end of it will tell.
fn update(
    bundle: &mut Bundle,
    at: usize,
    terminal: &Terminal,
    change: impl FnOnce(&mut PassRecord),
) {
    if let Some(record) = bundle.record.passes.get_mut(at) {
        change(record);
    }
    if let Err(error) = bundle.save()
        // A folder that is gone is told once, at the end.
        && bundle.dir().exists()
    {
        let what = "the run record is out of date";
        let finding = Finding::new(Severity::Warning, what, format!("{error:#}"), "");
        terminal.finding(&finding);
    }
}

fn run_pass(
    pass: &Pass,
    at: usize,
    bundle: &mut Bundle,
    spawner: &impl Spawner,
    signals: &impl SignalSource,
    terminal: &Terminal,
) -> Passed {
    let started = |page: Option<OsString>| {
        let Some(page) = page else { return };
        let page = page.to_string_lossy().into_owned();
        terminal.detail(&format!("  {FLUSH_PAGE}={page}"));
        update(bundle, at, terminal, |record| {
            record.environment.insert(FLUSH_PAGE.to_owned(), page);
        });
    };
    match process_of(pass, spawner, signals, terminal, started) {
        Ok(finished) => keep(pass, at, finished, bundle, terminal),
        Err(error) => {
            let finding = error.finding();
            terminal.finding(&finding);
            bundle.record.findings.push(finding);
            update(bundle, at, terminal, |record| {
                record.status = PassStatus::Failed;
                record.why = error.to_string();
            });
            // The collect pass says with which status a workload that cannot be started ends.
            let over = pass.name == COLLECT;
            let stop = over.then(|| "the workload could not be started".to_owned());
            Passed { exit: error.exit, stop }
        }
    }
}

/// Runs the process of a pass to its end. `started` gets what the plan could not know of its
/// environment: the value of [`FLUSH_PAGE`].
fn process_of(
    pass: &Pass,
    spawner: &impl Spawner,
    signals: &impl SignalSource,
    terminal: &Terminal,
    started: impl FnOnce(Option<OsString>),
) -> Result<Finished, child::SpawnError> {
    let (sender, events) = mpsc::channel();
    signals.deliver_to(Some(sender.clone()));
    let ended = library::linked(pass.link.as_ref())
        .map_err(|why| {
            child::SpawnError::new(
                crate::failure::EXIT_NO_RESULT,
                "the collector cannot be linked",
                why.to_string(),
            )
        })
        .and_then(|_link| {
            let spawned = Spawned::start(spawner, pass, sender)?;
            started(spawned.flush_page());
            Ok(spawned.supervise(pass.limits).finish(&events, terminal))
        });
    signals.deliver_to(None);
    ended
}

/// Writes down how a process ended.
fn keep(
    pass: &Pass,
    at: usize,
    finished: Finished,
    bundle: &mut Bundle,
    terminal: &Terminal,
) -> Passed {
    let status = status_of(&finished);
    let mut causes = cause_findings(&finished, pass);
    if status == PassStatus::WorkloadFailed && pass.name != COLLECT {
        // Of the collect pass the reports tell, with the likely cause.
        causes.push(failure_of_baseline(pass, &finished));
    }
    for finding in causes.iter().chain(&finished.findings) {
        terminal.finding(finding);
        bundle.record.findings.push(finding.clone());
    }
    let run_dir = bundle.dir().to_owned();
    let relative = |path: &std::path::PathBuf| {
        path.strip_prefix(&run_dir).unwrap_or(path).to_string_lossy().into_owned()
    };
    let tee = pass.tee.iter().flat_map(|(out, err)| [out, err]);
    let log = tee.chain(pass.capture.iter().map(|capture| &capture.log)).map(relative).collect();
    if pass.name == COLLECT {
        bundle.record.workload_exit = finished.exit;
    }
    update(bundle, at, terminal, |record| {
        record.status = status;
        record.exit = finished.exit;
        record.duration_ms = u64::try_from(finished.duration.as_millis()).ok();
        record.log = log;
        record.why = causes.iter().map(|f| &*f.what).collect::<Vec<_>>().join("; ");
        if status == PassStatus::WorkloadFailed && causes.is_empty() {
            record.why = failure(finished.exit);
        }
    });
    Passed { exit: exit_status(&finished), stop: stop_after(&finished, pass) }
}

#[cfg(test)]
mod tests;
