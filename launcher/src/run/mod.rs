//! A plan -> processes, one pass after the other, and how each of them ended.

mod child;
mod collected;
mod ending;
mod flush;
mod imports;
mod library;
mod ncu_kernels;
mod ncu_pass;
mod ncu_regions;
mod ncu_steps;
mod nsys_pass;
mod process;
mod signals;
mod tee;
mod tool;

use std::cell::Cell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use crate::bundle::{Bundle, PassRecord, now};
use crate::failure::EXIT_NO_RESULT;
use crate::plan::{FLUSH_PAGE, Kind, Pass, Plan, Profiler};
use crate::terminal::Terminal;
use crate::workload::NotRunnable;
use stage2_model::{Finding, PassStatus, WorkloadExit};

pub(crate) use child::Event;
use child::{Finished, Running, Spawner};
use collected::Collected;
pub(crate) use ending::interruption;
use ending::{
    INTERRUPTED, cause_findings, exit_status, failure, failure_of_baseline, status_of, stop_after,
};
pub(crate) use imports::Imports;
pub(crate) use library::{Library, find as find_library};
pub(crate) use nsys_pass::environment_finding;
pub(crate) use process::System;
pub(crate) use signals::Signals;
use tool::{Tool, ToolPass};

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

/// What starts the processes of passes, and who hears of them.
#[derive(Clone, Copy)]
struct Host<'a> {
    spawner: &'a dyn Spawner,
    signals: &'a dyn SignalSource,
    terminal: &'a Terminal,
}

impl Host<'_> {
    /// Runs the process of a pass to its end. `started` gets what the plan could not know of its
    /// environment: the value of [`FLUSH_PAGE`].
    fn run(
        &self,
        pass: &Pass,
        started: impl FnOnce(Option<OsString>),
    ) -> Result<Finished, NotRunnable> {
        let (sender, events) = mpsc::channel();
        self.signals.deliver_to(Some(sender.clone()));
        let run = || {
            let _link = library::linked(pass.link.as_ref()).map_err(|why| {
                let what = "the collector cannot be linked";
                NotRunnable::new(EXIT_NO_RESULT, what, why.to_string(), "")
            })?;
            let running = Running::start(self.spawner, pass, sender)?;
            started(running.flush_page());
            Ok(running.finish(&events, self.terminal))
        };
        let ended = run();
        self.signals.deliver_to(None);
        ended
    }
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
    spawner: &dyn Spawner,
    signals: &dyn SignalSource,
    terminal: &Terminal,
) -> Passed {
    let host = Host { spawner, signals, terminal };
    let mut exit = 0;
    let mut stop: Option<String> = None;
    let mut failure = None;
    let collected = Collected::new(bundle.dir(), &plan.library_domains);
    for (at, pass) in plan.passes.iter().enumerate() {
        let title = format!("[{}/{}] {}", at + 1, plan.passes.len(), pass.name);
        if stop.is_none() && !bundle.dir().exists() {
            stop = Some("the folder of the run is gone".to_owned());
        }
        let mut current = Current { pass, at, bundle: &mut *bundle, host };
        if let Some(why) = pass.skip.as_ref().or(stop.as_ref()) {
            terminal.milestone(&format!("{title}: left out: {why}"));
            current.update(|record| {
                record.status = PassStatus::Skipped;
                record.why.clone_from(why);
            });
            continue;
        }
        match &pass.profiler {
            None => {
                let words: Vec<_> = pass.argv.iter().map(crate::plan::quote).collect();
                terminal.progress(&format!("{title}: {}", words.join(" ")));
            }
            Some(profiler) => terminal.progress(&format!(
                "{title}: the workload runs again; its output goes to {}",
                profiler.folder.join("log.txt").display()
            )),
        }
        for (name, value) in &pass.environment {
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
            // What --keep-going does not change is no failure.
            if stop.is_none() {
                // Under a profiler it would take longer to fail once more.
                let failed = |record: &&PassRecord| {
                    record.status == PassStatus::WorkloadFailed && !plan.keep_going
                };
                failure = bundle.record.passes.get(at).filter(failed).map(|record| {
                    let why = &record.why;
                    format!(
                        "{why} in the collect pass; --keep-going runs the other passes all the same"
                    )
                });
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
        bundle.record.findings.push(Finding::warning(what, why, ""));
    }
    Passed { exit, stop }
}

/// Name of the pass that decides on the exit status and on the passes after it.
const COLLECT: &str = "collect";

/// The pass that runs, and the bundle that keeps its record.
struct Current<'a> {
    pass: &'a Pass,
    at: usize,
    bundle: &'a mut Bundle,
    host: Host<'a>,
}

impl Current<'_> {
    /// Changes the record of the pass and writes it down. A disk that is full now may be full because
    /// of the workload: the run goes on and the end of it will tell.
    fn update(&mut self, change: impl FnOnce(&mut PassRecord)) {
        if let Some(record) = self.bundle.record.passes.get_mut(self.at) {
            change(record);
        }
        if let Err(error) = self.bundle.save()
            // A folder that is gone is told once, at the end.
            && self.bundle.dir().exists()
        {
            let what = "the run record is out of date";
            self.host.terminal.finding(&Finding::warning(what, format!("{error:#}"), ""));
        }
    }

    fn tell(&mut self, finding: &Finding) {
        self.host.terminal.finding(finding);
        self.bundle.record.findings.push(finding.clone());
    }

    /// Runs the pass of a profiler. Whatever becomes of it, the passes and the reports after it do not
    /// depend on it.
    fn run_tool(&mut self, profiler: &Profiler, collected: &Collected) -> Passed {
        // Not its parents: a bundle that was taken away stays away.
        let made = match std::fs::create_dir(&profiler.folder) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        };
        let interrupted = Cell::new(None);
        let tool = Tool {
            collect: self.bundle.record.workload_exit,
            ..Tool::of(self.host, self.pass, profiler, &interrupted)
        };
        let mut done = run_under(&tool, profiler, made, Some(collected));
        // Goes only if it is empty, as where the tool is missing: it would look like a failed capture.
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
        Passed { exit: 0, stop }
    }

    /// Runs a pass without a profiler, as the user sees it.
    fn run_workload(&mut self) -> Passed {
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
                Passed { exit: error.exit, stop }
            }
        }
    }

    /// Writes down how a process ended.
    fn keep(&mut self, finished: &Finished) -> Passed {
        let pass = self.pass;
        let status = status_of(finished);
        let mut causes = cause_findings(finished, pass);
        if status == PassStatus::WorkloadFailed && pass.name != COLLECT {
            // Of the collect pass the reports tell, with the likely cause.
            causes.push(failure_of_baseline(pass, finished));
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
            if status == PassStatus::WorkloadFailed && causes.is_empty() {
                record.why = failure(finished.exit);
            }
        });
        Passed { exit: exit_status(finished), stop: stop_after(finished, pass) }
    }
}

/// Runs the workload under a profiler, in a folder that was `made`. `collected` is what a collect pass
/// recorded, where one went before.
fn run_under(
    tool: &Tool<'_>,
    profiler: &Profiler,
    made: std::io::Result<()>,
    collected: Option<&Collected>,
) -> ToolPass {
    if let Err(error) = made {
        let what = format!("{} cannot be made", tool.folder.display());
        let finding = Finding::error(what, error.to_string(), "");
        return ToolPass::without(PassStatus::Failed, finding);
    }
    match (&profiler.kind, collected) {
        (Kind::Nsys(nsys), collected) => nsys_pass::run(tool, nsys, profiler, collected),
        (Kind::Ncu { settings, choice }, Some(collected)) => {
            ncu_pass::run(tool, settings, choice, profiler, collected)
        }
        (Kind::Ncu { .. }, None) => {
            let finding = Finding::error("ncu cannot be run without a collect pass", "", "");
            ToolPass::without(PassStatus::Failed, finding)
        }
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
    /// How long its process lived.
    pub(crate) duration: Option<Duration>,
    /// Why there is no measurement.
    pub(crate) failed: Option<String>,
    /// A signal or the time limit ended it.
    pub(crate) ended: bool,
    /// What there is to say.
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
                findings: vec![error.finding],
                ..PassOutcome::default()
            },
        };
    };
    let made = std::fs::create_dir_all(&profiler.folder);
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

#[cfg(test)]
mod tests;
