//! A plan -> processes, one pass after the other, and how each of them ended.

mod alone;
mod beyond;
mod child;
mod collected;
mod current;
mod ending;
mod flush;
mod forecast;
mod growth;
mod imports;
mod library;
mod ncu_kernels;
mod ncu_pass;
mod ncu_regions;
mod ncu_steps;
mod nsys_pass;
mod process;
mod raw_captures;
mod signals;
mod tee;
mod tool;

use std::ffi::OsString;
use std::sync::mpsc;
use std::time::Duration;

use crate::bundle::{Bundle, PassRecord, now};
use crate::failure::EXIT_NO_RESULT;
use crate::plan::{Kind, Pass, Plan, Profiler};
use crate::redaction;
use crate::terminal::Terminal;
use crate::workload::NotRunnable;
use stage2_model::{Finding, PassStatus, WorkloadExit};

pub(crate) use alone::{PassOutcome, run_one};
pub(crate) use beyond::{inner_run, left_running, tell_outer};
pub(crate) use child::Event;
use child::{Finished, Running, Spawner};
use collected::Collected;
use current::Current;
use ending::failure;
pub(crate) use ending::interruption;
pub(crate) use forecast::shown as shown_time;
pub(crate) use imports::Imports;
pub(crate) use library::{Library, find as find_library};
pub(crate) use process::System;
pub(crate) use signals::{Signals, outlive_full_files};
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
    /// Runs the process of a pass to its end. `started` gets what the plan could not know of its
    /// environment: the value of [`crate::plan::FLUSH_PAGE`].
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
            Ok(running.finish(&events, self.terminal, &pulse_of(pass)))
        };
        let ended = run();
        self.signals.deliver_to(None);
        ended
    }
}

/// Name of the program whose output goes into a file, so that something else has to say that it still
/// runs. Nothing where it writes to the terminal by itself.
fn pulse_of(pass: &Pass) -> Option<String> {
    let program = pass.argv.first().filter(|_| pass.capture.is_some())?;
    let name = std::path::Path::new(program).file_name().unwrap_or(program);
    Some(name.to_string_lossy().into_owned())
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
    let mut first = None;
    for line in forecast::announcement(plan) {
        terminal.milestone(&line);
    }
    let collected = Collected::new(bundle.dir(), plan.names.clone());
    for (at, pass) in plan.passes.iter().enumerate() {
        let title = format!("[{}/{}] {}", at + 1, plan.passes.len(), pass.name);
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
            None => {
                let argv = redaction::os_words(&pass.argv);
                let words: Vec<_> = argv.iter().map(crate::plan::quote).collect();
                terminal.progress(&format!("{title}: {}", words.join(" ")));
            }
            Some(profiler) => terminal.progress(&format!(
                "{title}: the workload runs again{}; its output goes to {}",
                forecast::expected(pass, first)
                    .map_or_else(String::new, |time| format!(", {time}")),
                profiler.folder.join("log.txt").display()
            )),
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
        bundle.record.findings.push(Finding::warning(what, why, ""));
    }
    Passed { exit, stop }
}

/// Name of the pass that decides on the exit status and on the passes after it.
const COLLECT: &str = "collect";

#[cfg(test)]
mod tests;
