//! The pass that runs -> its record in the bundle, true at every moment.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use super::child::Finished;
use super::collected::Collected;
use super::ending::{
    INTERRUPTED, cause_findings, exit_status, failure, failure_of_baseline, interruption,
    status_of, stop_after,
};
use super::tool::Tool;
use super::{COLLECT, Host, Passed, run_under};
use crate::bundle::{Bundle, PassRecord};
use crate::plan::{FLUSH_PAGE, Pass, Profiler};
use stage2_model::{Finding, PassStatus};

/// The pass that runs, and the bundle that keeps its record.
pub(super) struct Current<'a> {
    pub(super) pass: &'a Pass,
    pub(super) at: usize,
    pub(super) bundle: &'a mut Bundle,
    pub(super) host: Host<'a>,
    /// How long the workload took in the pass before it that had no profiler.
    pub(super) first: Option<Duration>,
}

impl Current<'_> {
    /// Changes the record of the pass and writes it down. A disk that is full now may be full because
    /// of the workload: the run goes on and the end of it will tell.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut PassRecord)) {
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
    pub(super) fn run_tool(&mut self, profiler: &Profiler, collected: &Collected) -> Passed {
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
        Passed { exit: 0, stop }
    }

    /// Runs a pass without a profiler, as the user sees it.
    pub(super) fn run_workload(&mut self) -> Passed {
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
