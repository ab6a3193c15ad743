//! A plan -> processes, one pass after the other, and how each of them ended.

mod alone;
mod child;
mod flush;
mod imports;
mod library;
mod ncu_kernels;
mod ncu_pass;
mod ncu_python;
mod ncu_regions;
mod nsys_pass;
mod process;
mod signals;
mod tee;
mod tool;

use std::cell::Cell;
use std::sync::mpsc;

use nix::sys::signal::Signal;

use crate::bundle::{Bundle, PassRecord, PassStatus, WorkloadExit, now};
use crate::finding::{Finding, Severity};
use crate::plan::{Kind, Pass, Plan, Profiler};
use crate::terminal::Terminal;
use stage2_figures::text;

pub(crate) use alone::{Ran, run_alone};
pub(crate) use child::Event;
use child::{Cause, Finished, Spawned, Spawner};
pub(crate) use imports::Imports;
pub(crate) use library::{Library, find as find_library};
pub(crate) use nsys_pass::environment_finding;
pub(crate) use process::System;
pub(crate) use signals::Signals;

/// Exit status when the time limit ended the workload, as GNU `timeout` gives it.
pub(crate) const EXIT_TIMEOUT: u8 = 124;

/// Exit status when the profiling itself failed or left no result.
pub(crate) const EXIT_NO_RESULT: u8 = 70;

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
            Some(profiler) => run_tool(pass, profiler, at, bundle, (spawner, signals), terminal),
        };
        stop = passed.stop;
        if pass.name == "collect" {
            exit = passed.exit;
        }
        if let Some(record) = bundle.record.passes.get(at) {
            let seconds = record.duration_ms.map(|ms| format!(" in {:.1} s", ms as f64 / 1000.0));
            let ended = record.exit.map_or_else(|| "not started".into(), describe_exit);
            let what = text::shorten(&command_line(pass), COMMAND_LIMIT);
            terminal
                .milestone(&format!("{title}: {ended}{} ({what})", seconds.unwrap_or_default()));
        }
    }
    Passed { exit, stop }
}

/// Runs the pass of a profiler. Whatever becomes of it, the passes and the reports after it do not
/// depend on it.
fn run_tool(
    pass: &Pass,
    profiler: &Profiler,
    at: usize,
    bundle: &mut Bundle,
    (spawner, signals): (&impl Spawner, &impl SignalSource),
    terminal: &Terminal,
) -> Passed {
    let run_dir = bundle.dir().to_owned();
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
        (Kind::Nsys(nsys), Ok(())) => nsys_pass::run(&tool, nsys, profiler, collect),
        (Kind::Ncu { settings, stage_is_explicit, given }, Ok(())) => {
            let wanted = (*stage_is_explicit, &**given);
            ncu_pass::run(&tool, settings, wanted, profiler, &run_dir, collect)
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

/// Characters of a command in the line of its pass.
const COMMAND_LIMIT: usize = 80;

const INTERRUPTED: &str = "the run was interrupted";

fn command_line(pass: &Pass) -> String {
    pass.argv.iter().map(crate::plan::quote).collect::<Vec<_>>().join(" ")
}

pub(crate) fn describe_exit(exit: WorkloadExit) -> String {
    match exit {
        WorkloadExit::Code(code) => format!("exit status {code}"),
        WorkloadExit::Signal(signal) => format!("ended by {}", signals::name(signal)),
    }
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
    match process_of(pass, spawner, signals, terminal) {
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
            let over = pass.name == "collect";
            let stop = over.then(|| "the workload could not be started".to_owned());
            Passed { exit: error.exit, stop }
        }
    }
}

/// Runs the process of a pass to its end.
fn process_of(
    pass: &Pass,
    spawner: &impl Spawner,
    signals: &impl SignalSource,
    terminal: &Terminal,
) -> Result<Finished, child::SpawnError> {
    let (sender, events) = mpsc::channel();
    signals.deliver_to(Some(sender.clone()));
    let ended = library::linked(pass.link.as_ref())
        .map_err(|why| {
            child::SpawnError::new(EXIT_NO_RESULT, "the collector cannot be linked", why)
        })
        .and_then(|_link| {
            let running = Spawned::start(spawner, pass, sender)?.supervise(pass.limits);
            Ok(running.finish(&events, terminal))
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
    let causes = cause_findings(&finished, pass);
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
    if pass.name == "collect" {
        bundle.record.workload_exit = finished.exit;
    }
    update(bundle, at, terminal, |record| {
        record.status = PassStatus::Ok;
        record.exit = finished.exit;
        record.duration_ms = u64::try_from(finished.duration.as_millis()).ok();
        record.log = log;
        record.why = causes.iter().map(|f| &*f.what).collect::<Vec<_>>().join("; ");
    });
    let over = finished.interrupted.is_some() || finished.cause == Cause::Unkillable;
    Passed { exit: exit_status(&finished), stop: over.then(|| INTERRUPTED.to_owned()) }
}

fn exit_status(finished: &Finished) -> u8 {
    match (&finished.cause, finished.exit) {
        (Cause::Timeout | Cause::Unkillable, _) | (_, None) => EXIT_TIMEOUT,
        (_, Some(WorkloadExit::Code(code))) => u8::try_from(code & 0xff).unwrap_or(1),
        (_, Some(WorkloadExit::Signal(signal))) => u8::try_from(128 + signal).unwrap_or(255),
    }
}

/// Why a process did not go on, as far as that was not its own decision.
fn cause_findings(finished: &Finished, pass: &Pass) -> Vec<Finding> {
    let limit = pass.limits.timeout.unwrap_or_default().as_secs();
    let ended = match finished.cause {
        Cause::Itself => None,
        Cause::Timeout => Some(Finding::new(
            Severity::Warning,
            format!("the workload was ended after {limit} s"),
            KEPT,
            "give it more time with --timeout, or less to do",
        )),
        Cause::Unkillable => Some(Finding::new(
            Severity::Warning,
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
    Finding::new(Severity::Note, what, KEPT, "")
}

#[cfg(test)]
mod tests;
