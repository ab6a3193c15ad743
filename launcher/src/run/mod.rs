//! A plan -> processes, one pass after the other, and how each of them ended.

mod beyond;
mod child;
mod forecast;
mod imports;
mod library;
mod ncu_pass;
mod nsys_pass;
mod process;
mod signals;
mod tool;

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::bundle::{Bundle, COLLECTOR_DIR, PassRecord, now};
use crate::failure::EXIT_NO_RESULT;
use crate::plan::{FLUSH_PAGE, Kind, Pass, Plan, Profiler};
use crate::redaction;
use crate::terminal::Terminal;
use crate::workload::NotRunnable;
use child::{Cause, ProcessEnd, Running, Spawner};
use stage2_model::finding::{Id, Severity};
use stage2_model::{EndedBy, Finding, PassStatus, Report, RunInfo, WorkloadExit};
use stage2_read::trace::folder::load_folder;
use stage2_read::trace::libraries::RangeNames;
use stage2_report::join::join;
use tool::{Tool, ToolPass, file_name};

pub(crate) use beyond::{inner_run, left_running, tell_outer};
pub(crate) use child::Event;
pub(crate) use forecast::shown as shown_time;
pub(crate) use imports::Imports;
pub(crate) use library::{Library, find as find_library};
pub(crate) use process::System;
pub(crate) use signals::{Signals, outlive_full_files};

/// Exit status when the time limit ended the workload, as GNU `timeout` gives it.
pub(crate) const EXIT_TIMEOUT: u8 = 124;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PassResult {
    /// Status that the end of the workload in the collect pass asks for.
    pub(crate) exit: u8,
    /// Why there are no further passes.
    stop: Option<String>,
}

/// Who hands signals on while a pass, or something else that takes its time, runs.
pub(crate) trait SignalSource {
    /// Lets signals go to `events`, or, with none, end this program as they usually do.
    fn deliver_to(&self, events: Option<mpsc::Sender<Event>>);
}

/// What starts the processes of passes, and who hears of them.
#[derive(Clone, Copy)]
struct Host<'a> {
    spawner: &'a dyn Spawner,
    signals: &'a dyn SignalSource,
    terminal: &'a Terminal,
}

impl Host<'_> {
    /// Runs the process of a pass to its end. `started` gets the value of [`crate::plan::FLUSH_PAGE`].
    fn run(
        &self,
        pass: &Pass,
        started: impl FnOnce(Option<OsString>),
    ) -> Result<ProcessEnd, NotRunnable> {
        let (sender, events) = mpsc::channel();
        self.signals.deliver_to(Some(sender.clone()));
        let run = || {
            let _link = library::linked(pass.link.as_ref()).map_err(|why| {
                let what = "the collector cannot be linked";
                NotRunnable::new(EXIT_NO_RESULT, what, why.to_string(), "")
            })?;
            let running = Running::start(self.spawner, pass, sender)?;
            started(running.flush_page());
            Ok(running.finish(&events, self.terminal, pulse_of(pass).as_deref()))
        };
        let ended = run();
        self.signals.deliver_to(None);
        ended
    }
}

/// Name of the program whose output goes into a file, so that something else has to say that it still runs.
fn pulse_of(pass: &Pass) -> Option<String> {
    let program = pass.argv.first().filter(|_| pass.capture.is_some())?;
    Some(file_name(Path::new(program)))
}

/// The record of a pass before it ran.
pub(crate) fn planned(pass: &Pass) -> PassRecord {
    let text = |value: &OsString| value.to_string_lossy().into_owned();
    let texts = |map: &BTreeMap<String, OsString>| {
        map.iter().map(|(name, value)| (name.clone(), text(value))).collect()
    };
    PassRecord {
        name: pass.name.to_owned(),
        argv: pass.argv.iter().map(text).collect(),
        environment: texts(&pass.environment),
        environment_kept: texts(&pass.kept),
        status: if pass.skip.is_some() { PassStatus::Skipped } else { PassStatus::Planned },
        why: pass.skip.clone().unwrap_or_default(),
        not_loaded: pass.not_loaded.clone(),
        ..PassRecord::default()
    }
}

/// Runs the workload under a profiler, in a folder that was `made`, after a collect pass if there was one.
fn run_under(
    tool: &Tool<'_>,
    profiler: &Profiler,
    made: std::io::Result<()>,
    collected: Option<&CollectPass>,
) -> ToolPass {
    if let Err(error) = made {
        let what = format!("{} cannot be created", tool.folder.display());
        return ToolPass::without(
            PassStatus::Failed,
            Id::RunPassLeftOut.graded(Severity::Error, what, error.to_string(), ""),
        );
    }
    match (&profiler.kind, collected) {
        (Kind::Nsys(nsys), collected) => nsys_pass::run(tool, nsys, profiler, collected),
        (Kind::Ncu { settings, choice }, Some(collected)) => {
            ncu_pass::run(tool, settings, choice, profiler, collected)
        }
        (Kind::Ncu { .. }, None) => {
            let finding = Id::RunPassLeftOut.about("ncu").graded(
                Severity::Error,
                "ncu cannot be run without a collect pass",
                "",
                "",
            );
            ToolPass::without(PassStatus::Failed, finding)
        }
    }
}

/// Runs the passes of `plan` and keeps the bundle's record true after each step.
pub(crate) fn run_passes(
    plan: &Plan,
    bundle: &mut Bundle,
    spawner: &dyn Spawner,
    signals: &dyn SignalSource,
    terminal: &Terminal,
) -> PassResult {
    let host = Host { spawner, signals, terminal };
    let mut exit = 0;
    let mut stop: Option<String> = None;
    let mut failure = None;
    let mut first = None;
    forecast::announcement(plan).iter().for_each(|line| terminal.milestone(line));
    let (run_dir, names) = (bundle.dir().to_owned(), plan.names.clone());
    let collected = CollectPass { run_dir, names, report: OnceCell::new() };
    // Passes without their program are not counted, as they will not run.
    let runs = |pass: &&Pass| pass.profiler.as_ref().is_none_or(forecast::is_there);
    let all = plan.passes.iter().filter(runs).count();
    let mut number = 0;
    for (at, pass) in plan.passes.iter().enumerate() {
        let title = match runs(&pass) || pass.skip.is_some() {
            true => {
                number += 1;
                format!("[{number}/{}] {}", all.max(number), pass.name)
            }
            false => pass.name.to_owned(),
        };
        if stop.is_none() && !bundle.dir().exists() {
            stop = Some("the folder of the run is gone".to_owned());
        }
        let mut current = Current { pass, at, bundle: &mut *bundle, host, first };
        if let Some(why) = pass.skip.as_ref().or(stop.as_ref()) {
            terminal.milestone(&format!("{title}: left out: {why}"));
            current.update(|record| {
                record.status = PassStatus::Skipped;
                record.why.clone_from(why);
            });
            continue;
        }
        match &pass.profiler {
            // Its words alone would do something else: it has settings of its own.
            None if current.bundle.record.is_demo() => {
                terminal.progress(&format!("{title}: the built-in workload"));
            }
            None => {
                let argv = redaction::os_words(&pass.argv);
                let words: Vec<_> = argv.iter().map(crate::plan::quote).collect();
                terminal.progress(&format!("{title}: running {}", words.join(" ")));
            }
            Some(profiler) if forecast::is_there(profiler) => terminal.progress(&format!(
                "{title}: the workload runs again{}; its output goes to {}",
                forecast::expected(pass, first)
                    .map_or_else(String::new, |time| format!(", {time}")),
                profiler.folder.join("log.txt").display()
            )),
            Some(_) => {}
        }
        for (name, value) in &pass.environment {
            let value = redaction::os_value(name, value);
            terminal.detail(&format!("  {name}={}", crate::plan::quote(value)));
        }
        current.update(|record| {
            record.status = PassStatus::Running;
            record.started = Some(now());
        });
        let passed = match &pass.profiler {
            None => current.run_workload(),
            Some(profiler) => current.run_tool(profiler, &collected),
        };
        stop = passed.stop;
        if pass.name == COLLECT {
            exit = passed.exit;
            // Under a profiler it would take longer to fail once more. What --keep-going does not change is no
            // failure.
            if stop.is_none()
                && !plan.keep_going
                && let Some(record) = bundle.record.passes.get(at)
                && record.status == PassStatus::WorkloadFailed
            {
                failure = Some(format!(
                    "{} in the collect pass; --keep-going runs the other passes anyway",
                    record.why
                ));
                stop.clone_from(&failure);
            }
        }
        // That its tool is missing is told already.
        let could_run = pass.profiler.as_ref().is_none_or(forecast::is_there);
        if let Some(record) = bundle.record.passes.get(at).filter(|_| could_run) {
            let (ended, when) = match (record.status, record.exit) {
                (PassStatus::Interrupted, exit @ Some(_)) => {
                    (EndedBy::Interrupt.text(exit), "after")
                }
                (_, exit) => {
                    (exit.map_or_else(|| "not started".into(), WorkloadExit::describe), "in")
                }
            };
            let seconds =
                record.duration_ms.map(|ms| format!(" {when} {:.1} s", ms as f64 / 1000.0));
            // Without the command: this line also reaches logs of CI, and commands hold secrets.
            terminal.milestone(&format!("{title}: {ended}{}", seconds.unwrap_or_default()));
            if pass.profiler.is_none() {
                first = record.duration_ms.map(Duration::from_millis);
            }
        }
        bundle.protect(terminal);
        let after = plan.passes.get(at + 1..).unwrap_or_default();
        if let Some(line) = forecast::to_come(after, first).filter(|_| stop.is_none()) {
            terminal.progress(&line);
        }
    }
    let left_out = plan.passes.iter().filter(|pass| pass.profiler.is_some() && pass.skip.is_none());
    let left_out: Vec<&str> = left_out.map(|pass| pass.name).collect();
    if let Some(why) = failure.filter(|_| !left_out.is_empty()) {
        let what = format!("passes left out: {}", left_out.join(", "));
        bundle.record.findings.push(Id::RunPassLeftOut.found(what, why, ""));
    }
    PassResult { exit, stop }
}

/// Name of the pass that decides on the exit status and on the passes after it.
const COLLECT: &str = "collect";

struct Current<'a> {
    pass: &'a Pass,
    at: usize,
    bundle: &'a mut Bundle,
    host: Host<'a>,
    /// How long the workload took in the pass before it that had no profiler.
    first: Option<Duration>,
}

fn is_not_found(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

impl Current<'_> {
    /// Changes the record and records it. A disk that is full now may be full because of the workload: the run
    /// goes on, and its end will tell.
    fn update(&mut self, change: impl FnOnce(&mut PassRecord)) {
        if let Some(record) = self.bundle.record.passes.get_mut(self.at) {
            change(record);
        }
        if let Err(error) = self.bundle.save()
            // A folder that is gone, or that somebody deletes at this moment, is told once, at the end.
            && !error.chain().filter_map(|e| e.downcast_ref()).any(is_not_found)
            && self.bundle.dir().exists()
        {
            let terminal = self.host.terminal;
            terminal.detail(&format!("warning: the run record is out of date: {error:#}"));
        }
    }

    fn tell(&mut self, finding: &Finding) {
        self.host.terminal.finding(finding);
        self.bundle.record.findings.push(finding.clone());
    }

    /// Runs the pass of a profiler. What becomes of it changes neither the passes nor the reports after it.
    fn run_tool(&mut self, profiler: &Profiler, collected: &CollectPass) -> PassResult {
        // Not its parents: a bundle that was taken away stays away.
        let made = match stage2_read::private::create_folder(&profiler.folder) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        };
        let interrupted = Cell::new(None);
        let tool = Tool {
            collect: self.bundle.record.workload_exit,
            first: self.first,
            ..Tool::of(self.host, self.pass, profiler, &interrupted)
        };
        let mut done = run_under(&tool, profiler, made, Some(collected));
        // Where the tool is missing there is nothing in it, and anything else keeps it.
        let _ = std::fs::remove_dir(&profiler.folder);
        if let Some(signal) = interrupted.get() {
            let finding = interruption(signal);
            done.also(finding.what.clone());
            done.findings.push(finding);
        }
        for finding in &done.findings {
            if !self.bundle.record.findings.contains(finding) {
                self.tell(finding);
            }
        }
        let name = self.pass.name;
        self.update(|record| {
            record.status = done.status;
            record.why = done.why;
            record.exit = done.exit;
            record.duration_ms = done.duration.and_then(|d| u64::try_from(d.as_millis()).ok());
            if let Some(argv) = &done.argv {
                record.argv = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            }
            if profiler.folder.join("log.txt").is_file() {
                record.log = vec![format!("{name}/log.txt")];
            }
        });
        let stop = interrupted.get().map(|_| INTERRUPTED.to_owned());
        PassResult { exit: 0, stop }
    }

    fn run_workload(&mut self) -> PassResult {
        let host = self.host;
        let ended = host.run(self.pass, |page| {
            let Some(page) = page else { return };
            let page = page.to_string_lossy().into_owned();
            host.terminal.detail(&format!("  {FLUSH_PAGE}={page}"));
            self.update(|record| {
                record.environment.insert(FLUSH_PAGE.to_owned(), page);
            });
        });
        match ended {
            Ok(finished) => self.keep(&finished),
            Err(error) => {
                self.tell(&error.finding);
                self.update(|record| {
                    record.status = PassStatus::Failed;
                    record.why = error.to_string();
                });
                // The collect pass says with which status a workload that cannot be started ends.
                let over = self.pass.name == COLLECT;
                let stop = over.then(|| "the workload could not be started".to_owned());
                PassResult { exit: error.exit, stop }
            }
        }
    }

    fn keep(&mut self, finished: &ProcessEnd) -> PassResult {
        let pass = self.pass;
        let status = status_of(finished);
        let mut causes = cause_findings(finished, pass);
        if status == PassStatus::WorkloadFailed && pass.name != COLLECT {
            // Of the collect pass the reports tell, with the likely cause.
            let ended = EndedBy::Failure.text(finished.exit);
            let what = format!("{} pass: {ended}", pass.name);
            let why =
                "its times are of what the workload did until then, and compared with nothing";
            causes.push(Id::WorkloadEnded.about(pass.name).found(
                what,
                why,
                format!("see {}/log.txt", pass.name),
            ));
        }
        for finding in causes.iter().chain(&finished.findings) {
            self.tell(finding);
        }
        let run_dir = self.bundle.dir().to_owned();
        let relative = |path: &PathBuf| {
            path.strip_prefix(&run_dir).unwrap_or(path).to_string_lossy().into_owned()
        };
        let tee = pass.tee.iter().flat_map(|(out, err)| [out, err]);
        let log =
            tee.chain(pass.capture.iter().map(|capture| &capture.log)).map(relative).collect();
        if pass.name == COLLECT {
            self.bundle.record.workload_exit = finished.exit;
        }
        self.update(|record| {
            record.status = status;
            record.exit = finished.exit;
            record.duration_ms = u64::try_from(finished.duration.as_millis()).ok();
            record.log = log;
            record.why = causes.iter().map(|f| &*f.what).collect::<Vec<_>>().join("; ");
            match status {
                PassStatus::WorkloadFailed if causes.is_empty() => {
                    record.why = EndedBy::Failure.text(finished.exit);
                }
                PassStatus::Interrupted if causes.is_empty() => {
                    record.why = EndedBy::Interrupt.text(finished.exit);
                }
                _ => {}
            }
        });
        let stop = match finished.cause {
            _ if finished.interrupted.is_some() || status == PassStatus::Interrupted => {
                Some(INTERRUPTED.to_owned())
            }
            Cause::Unkillable => {
                Some(format!("the workload of the {} pass does not end", pass.name))
            }
            _ => None,
        };
        PassResult { exit: exit_status(finished), stop }
    }
}

struct CollectPass {
    run_dir: PathBuf,
    /// What names of ranges and domains mean, in every capture of the run.
    names: RangeNames,
    report: OnceCell<Report>,
}

impl CollectPass {
    /// What it recorded. The reports of the run list what is wrong with the trace files.
    fn report(&self) -> &Report {
        self.report.get_or_init(|| {
            let traces = load_folder(&self.run_dir.join(COLLECTOR_DIR), &self.names);
            join(traces, RunInfo::default(), Vec::new())
        })
    }
}

/// What became of a pass that was run by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassOutcome {
    /// How its process ended; none: it was not started.
    pub(crate) exit: Option<WorkloadExit>,
    /// How the workload ended; none: a tool ran it that does not say.
    pub(crate) workload: Option<WorkloadExit>,
    /// The exit status that its end asks for.
    pub(crate) status: u8,
    pub(crate) duration: Option<Duration>,
    /// Why there is no measurement.
    pub(crate) failed: Option<String>,
    /// A signal or the time limit ended it.
    pub(crate) ended: bool,
    pub(crate) findings: Vec<Finding>,
}

/// Runs one pass by itself, without a bundle that keeps a record. Folders that it needs are made.
pub(crate) fn run_one(
    pass: &Pass,
    spawner: &dyn Spawner,
    signals: &dyn SignalSource,
    terminal: &Terminal,
) -> PassOutcome {
    let host = Host { spawner, signals, terminal };
    let Some(profiler) = &pass.profiler else {
        return match host.run(pass, |_| ()) {
            Ok(finished) => {
                let causes = cause_findings(&finished, pass);
                PassOutcome {
                    exit: finished.exit,
                    workload: finished.exit,
                    status: exit_status(&finished),
                    duration: Some(finished.duration),
                    failed: causes.first().map(|finding| finding.what.clone()),
                    ended: !causes.is_empty(),
                    findings: causes.into_iter().chain(finished.findings).collect(),
                }
            }
            Err(error) => PassOutcome {
                status: error.exit,
                failed: Some(error.to_string()),
                findings: vec![*error.finding],
                ..PassOutcome::default()
            },
        };
    };
    let made = stage2_read::private::create_folders(&profiler.folder).map(drop);
    let interrupted = Cell::new(None);
    let tool = Tool::of(host, pass, profiler, &interrupted);
    let done = run_under(&tool, profiler, made, None);
    PassOutcome {
        exit: done.exit,
        workload: done.workload,
        status: 0,
        duration: done.duration,
        failed: (!done.status.has_data()).then_some(done.why),
        ended: interrupted.get().is_some(),
        findings: done.findings,
    }
}

const INTERRUPTED: &str = "the run was interrupted";

/// How far a process came, by its end.
fn status_of(finished: &ProcessEnd) -> PassStatus {
    let failed = finished.exit.is_none_or(WorkloadExit::is_failure);
    match finished.cause {
        Cause::Timeout | Cause::Outgrown => PassStatus::TimedOut,
        Cause::Itself if failed && finished.interrupted.is_some() => PassStatus::Interrupted,
        // A SIGINT that the workload alone got was sent to end it, as well.
        Cause::Itself if finished.exit.is_some_and(WorkloadExit::is_interrupt) => {
            PassStatus::Interrupted
        }
        Cause::Itself if !failed => PassStatus::Ok,
        Cause::Itself | Cause::Unkillable => PassStatus::WorkloadFailed,
    }
}

/// The exit status of this program that the end asks for.
fn exit_status(finished: &ProcessEnd) -> u8 {
    match (&finished.cause, finished.exit) {
        (Cause::Timeout | Cause::Unkillable, _) | (_, None) => EXIT_TIMEOUT,
        (_, Some(WorkloadExit::Code(code))) => u8::try_from(code & 0xff).unwrap_or(1),
        (_, Some(WorkloadExit::Signal(signal))) => u8::try_from(128 + signal).unwrap_or(255),
    }
}

/// Why a process did not go on, as far as that was not its own decision.
fn cause_findings(finished: &ProcessEnd, pass: &Pass) -> Vec<Finding> {
    let limit = pass.limits.timeout.unwrap_or_default().as_secs();
    let ended = match finished.cause {
        // Only profilers have such a limit: it is told where their runs are judged.
        Cause::Itself | Cause::Outgrown => None,
        Cause::Timeout => Some(Id::WorkloadTimeLimit.found(
            format!("the time limit ({limit} s) ended the workload"),
            KEPT,
            "raise --timeout, or give the workload less to do",
        )),
        Cause::Unkillable => Some(Id::WorkloadTimeLimit.found(
            "the workload does not end, not even by SIGKILL",
            "it hangs in the kernel, for instance in a driver or on a network disk",
            "see `dmesg`; what was recorded until now is kept",
        )),
    };
    ended.into_iter().chain(finished.interrupted.map(interruption)).collect()
}

const KEPT: &str = "what was recorded until then is kept";

pub(crate) fn interruption(signal: Signal) -> Finding {
    Id::WorkloadInterrupted.found(
        format!("the run was interrupted by {}", signal.as_str()),
        KEPT,
        "",
    )
}

#[cfg(test)]
mod tests;
