//! One command of a profiler -> how it ended and what it said, kept in the folder of its pass.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::SignalSource;
use super::child::{Cause, Spawned, Spawner};
use crate::env::{NoAnswer, ask};
use crate::plan::{Capture, Limits, Pass, Step, quote};
use crate::terminal::Terminal;
use stage2_analysis::out_of_memory;
use stage2_model::{Finding, PassStatus, Severity, WorkloadExit};

/// At most this much of the start and of the end of a log is read back.
const LOG_PART_BYTES: u64 = 1 << 20;
/// A tool that does not say its version in this time does not work.
const VERSION_LIMIT: Duration = Duration::from_secs(30);

/// Where the commands of one pass run.
pub(super) struct Tool<'a, S, G> {
    pub(super) spawner: &'a S,
    pub(super) signals: &'a G,
    /// The first signal that this program got meanwhile: nothing more is started then.
    pub(super) interrupted: &'a Cell<Option<Signal>>,
    pub(super) terminal: &'a Terminal,
    /// Folder of the pass; it is there.
    pub(super) folder: PathBuf,
    /// Variables of the workload.
    pub(super) environment: BTreeMap<String, OsString>,
    pub(super) limits: Limits,
}

/// How a command ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    /// Its exit; none: it was not started, or could not be waited for.
    pub(super) exit: Option<WorkloadExit>,
    /// Why it was not started.
    pub(super) refused: Option<String>,
    /// It was ended because it took longer than this.
    pub(super) timed_out_after: Option<Duration>,
    /// This program got a signal while it ran, or before.
    pub(super) interrupted: bool,
    /// How long it lived.
    pub(super) duration: Duration,
    /// What it and the workload said: the first and the last part.
    pub(super) log: String,
}

/// What became of the pass of a tool.
#[derive(Clone, Debug)]
pub(super) struct ToolPass {
    pub(super) status: PassStatus,
    pub(super) why: String,
    /// The profiling run that counts.
    pub(super) argv: Option<Vec<OsString>>,
    pub(super) exit: Option<WorkloadExit>,
    /// How the workload ended, where the tool passes that on.
    pub(super) workload: Option<WorkloadExit>,
    pub(super) duration: Option<Duration>,
    pub(super) findings: Vec<Finding>,
}

impl ToolPass {
    /// A pass that did not run, and why.
    pub(super) fn without(status: PassStatus, finding: Finding) -> ToolPass {
        ToolPass {
            status,
            why: finding.to_string(),
            argv: None,
            exit: None,
            workload: None,
            duration: None,
            findings: vec![finding],
        }
    }

    /// Takes in how the workload ended in a pass that kept its data: one that failed makes the pass
    /// no better than that.
    pub(super) fn ended(&mut self, workload: Option<WorkloadExit>) {
        self.workload = workload;
        if self.status == PassStatus::Ok && workload.is_some_and(WorkloadExit::is_failure) {
            self.status = PassStatus::WorkloadFailed;
            let why = [std::mem::take(&mut self.why), super::failure(workload)];
            self.why = why.into_iter().filter(|why| !why.is_empty()).collect::<Vec<_>>().join("; ");
        }
    }
}

impl<S: Spawner, G: SignalSource> Tool<'_, S, G> {
    /// Runs the workload under the tool.
    pub(super) fn profile(
        &self,
        argv: &[OsString],
        environment: &BTreeMap<String, OsString>,
    ) -> Ended {
        let mut variables = self.environment.clone();
        variables.extend(environment.clone());
        let step = Step { argv: argv.to_vec(), timeout: self.limits.timeout, ..Step::default() };
        self.run(&step, variables)
    }

    /// Runs a command of the tool alone.
    pub(super) fn step(&self, step: &Step) -> Ended {
        self.run(step, BTreeMap::new())
    }

    /// Whether this program was asked to end.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.get().is_some()
    }

    fn run(&self, step: &Step, environment: BTreeMap<String, OsString>) -> Ended {
        if let Some(signal) = self.interrupted.get() {
            let refused = Some(format!("the run was interrupted by {}", signal.as_str()));
            return Ended { refused, interrupted: true, ..Ended::default() };
        }
        let log = self.folder.join("log.txt");
        let line = self.note(step, &environment, &log);
        self.terminal.detail(&format!("  {line}"));
        let start = log.metadata().map_or(0, |found| found.len());
        let pass = Pass {
            name: "tool",
            argv: step.argv.clone(),
            environment,
            cwd: step.cwd.clone(),
            capture: Some(Capture { stdout: step.stdout.clone(), log: log.clone() }),
            limits: Limits { timeout: step.timeout, grace: self.limits.grace },
            ..Pass::default()
        };
        let (sender, events) = mpsc::channel();
        self.signals.deliver_to(Some(sender.clone()));
        let finished = Spawned::start(self.spawner, &pass, sender)
            .map(|spawned| spawned.supervise(pass.limits).finish(&events, self.terminal));
        self.signals.deliver_to(None);
        let said = read_from(&log, start);
        match finished {
            Err(error) => Ended { refused: Some(error.to_string()), log: said, ..Ended::default() },
            Ok(finished) => {
                self.interrupted.set(finished.interrupted);
                Ended {
                    exit: finished.exit,
                    refused: None,
                    timed_out_after: (finished.cause != Cause::Itself)
                        .then(|| step.timeout.unwrap_or_default()),
                    interrupted: finished.interrupted.is_some(),
                    duration: finished.duration,
                    log: said,
                }
            }
        }
    }

    /// Writes a command into `cmd.txt` and the log, as a shell would read it. What cannot be written
    /// here fails again, and is told, when the process gets the same log.
    fn note(&self, step: &Step, environment: &BTreeMap<String, OsString>, log: &Path) -> String {
        let variables = environment.iter().map(|(name, value)| format!("{name}={}", quote(value)));
        let words: Vec<String> = variables.chain(step.argv.iter().map(quote)).collect();
        let line = words.join(" ");
        for (path, text) in [
            (self.folder.join("cmd.txt"), format!("{line}\n")),
            (log.to_owned(), format!("$ {line}\n")),
        ] {
            let file = File::options().create(true).append(true).open(path);
            let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
        }
        line
    }
}

/// What `executable --version` prints.
///
/// # Errors
/// Why nothing.
pub(super) fn version_of(executable: &Path) -> Result<String, NoAnswer> {
    ask(Command::new(executable).arg("--version"), VERSION_LIMIT)
}

/// What becomes of the pass of a tool that does not tell its version: one that cannot be started is
/// not installed.
pub(super) fn without_version(why: &NoAnswer) -> PassStatus {
    match why {
        NoAnswer::NotStarted(_) => PassStatus::Skipped,
        NoAnswer::TooLate(_) | NoAnswer::Lost(_) | NoAnswer::Failed { .. } => PassStatus::Failed,
    }
}

/// The part of a log from `start` on; its middle is left out where it is long.
pub(super) fn read_from(log: &Path, start: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let end = file.metadata()?.len();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        (&file).take(LOG_PART_BYTES).read_to_end(&mut bytes)?;
        let tail = end.saturating_sub(LOG_PART_BYTES).max(start.saturating_add(LOG_PART_BYTES));
        if tail < end {
            bytes.extend(b"\n[...]\n");
            file.seek(SeekFrom::Start(tail))?;
            file.take(LOG_PART_BYTES).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// What to tell of a report whose tables a signal left unmade.
pub(super) fn tables_cut_off(report: &Path, signal: Signal, remedy: &str) -> Finding {
    let name = report.file_name().unwrap_or_default().to_string_lossy();
    Finding::new(
        Severity::Warning,
        format!("tables of {name} are missing"),
        format!("{} came before they were made; the report itself is kept", signal.as_str()),
        format!("make them beside it with `{remedy}`, then run `stage2-launch report`"),
    )
}

/// A workload that ended differently under a tool than in the collect pass.
pub(super) fn other_end(
    tool: &str,
    collect: Option<WorkloadExit>,
    here: Option<WorkloadExit>,
    log: &str,
) -> Option<Finding> {
    let (collect, here) = (collect?, here?);
    (collect != here).then(|| {
        let cause = here.is_failure().then(|| out_of_memory(Some(here), log)).flatten();
        let cause = cause.map_or_else(String::new, |cause| format!("; likely cause: {cause}"));
        Finding::new(
            Severity::Warning,
            format!("the workload ended differently under {tool}: {}", here.describe()),
            format!("in the collect pass: {}{cause}", collect.describe()),
            format!("see {tool}/log.txt"),
        )
    })
}
