//! One command of a profiler -> how it ended and what it said, kept in the folder of its pass.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::Host;
use super::child::Cause;
use crate::env::{NoAnswer, ask};
use crate::plan::{Capture, Limits, Pass, Profiler, quote};
use crate::redaction;
use crate::tools::{CommandEnd, Step, Version, judge_version, missing};
use stage2_model::finding::Id;
use stage2_model::{EndedBy, Finding, PassStatus, Severity, WorkloadExit};
use stage2_read::private;
use stage2_report::out_of_memory;

/// At most this much of the start and of the end of a log is read back.
const LOG_PART_BYTES: u64 = 1 << 20;
/// A tool that does not say its version in this time does not work.
const VERSION_LIMIT: Duration = Duration::from_secs(30);

/// Where the commands of one pass run.
#[derive(Clone)]
pub(super) struct Tool<'a> {
    pub(super) host: Host<'a>,
    /// The first signal that this program got meanwhile: nothing more is started then.
    pub(super) interrupted: &'a Cell<Option<Signal>>,
    /// Folder of the pass; it is there.
    pub(super) folder: PathBuf,
    /// Variables of the workload.
    pub(super) environment: BTreeMap<String, OsString>,
    pub(super) limits: Limits,
    /// How the workload ended in the collect pass, where one went before.
    pub(super) collect: Option<WorkloadExit>,
    pub(super) first: Option<Duration>,
}

/// What became of the pass of a tool.
#[derive(Clone, Debug, Default)]
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
        ToolPass::without_after(status, finding, Vec::new())
    }

    /// A pass that did not run, and why, with what was found before.
    pub(super) fn without_after(
        status: PassStatus,
        finding: Finding,
        mut findings: Vec<Finding>,
    ) -> ToolPass {
        let why = finding.to_string();
        findings.push(finding);
        ToolPass { status, why, findings, ..ToolPass::default() }
    }

    pub(super) fn ran(argv: Vec<OsString>, ended: &CommandEnd) -> ToolPass {
        ToolPass {
            status: PassStatus::Ok,
            argv: Some(argv),
            exit: ended.exit,
            duration: Some(ended.duration),
            ..ToolPass::default()
        }
    }

    /// Takes in how the workload ended in a pass that kept its data; one that failed makes the pass no better
    /// than that.
    pub(super) fn ended(&mut self, workload: Option<WorkloadExit>) {
        self.workload = workload;
        if self.status == PassStatus::Ok && workload.is_some_and(WorkloadExit::is_failure) {
            self.status = PassStatus::WorkloadFailed;
            self.also(EndedBy::Failure.text(workload));
        }
    }

    pub(super) fn also(&mut self, why: String) {
        self.why = match self.why.is_empty() {
            true => why,
            false => format!("{}; {why}", self.why),
        };
    }
}

impl<'a> Tool<'a> {
    /// Of a pass without a collect pass before it.
    pub(super) fn of(
        host: Host<'a>,
        pass: &Pass,
        profiler: &Profiler,
        interrupted: &'a Cell<Option<Signal>>,
    ) -> Tool<'a> {
        Tool {
            host,
            interrupted,
            folder: profiler.folder.clone(),
            environment: pass.environment.clone(),
            limits: pass.limits,
            collect: None,
            first: None,
        }
    }

    pub(super) fn profile(&self, argv: &[OsString]) -> CommandEnd {
        let step = Step { argv: argv.to_vec(), timeout: self.limits.timeout, ..Step::default() };
        self.run(step, self.environment.clone(), self.limits.bytes)
    }

    /// Runs a command of the tool alone, in the locale C: tools print decimal commas in others. Where a signal ends
    /// it, the file of its output goes: what it left would pass for all of it.
    pub(super) fn step(&self, step: Step) -> CommandEnd {
        let stdout = step.stdout.clone();
        let ended = self.run(step, plain_numbers(), None);
        if ended.interrupted && ended.refused.is_none() && !ended.succeeded() {
            let _ = stdout.map(std::fs::remove_file);
        }
        ended
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.get().is_some()
    }

    fn run(
        &self,
        step: Step,
        environment: BTreeMap<String, OsString>,
        bytes: Option<u64>,
    ) -> CommandEnd {
        if let Some(signal) = self.interrupted.get() {
            let refused = Some(format!("the run was interrupted by {}", signal.as_str()));
            return CommandEnd { refused, interrupted: true, ..CommandEnd::default() };
        }
        let log = self.folder.join("log.txt");
        let line = self.note(&step, &environment, &log);
        self.host.terminal.detail(&format!("  {line}"));
        let start = log.metadata().map_or(0, |found| found.len());
        let pass = Pass {
            name: "tool",
            argv: step.argv,
            environment,
            cwd: step.cwd,
            capture: Some(Capture { stdout: step.stdout, log: log.clone() }),
            limits: Limits { timeout: step.timeout, grace: self.limits.grace, bytes },
            ..Pass::default()
        };
        let finished = self.host.run(&pass, |_| ());
        let log = read_from(&log, start);
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => {
                let refused = Some(error.to_string());
                return CommandEnd { refused, log, ..CommandEnd::default() };
            }
        };
        self.interrupted.set(finished.interrupted);
        let in_time = finished.cause == Cause::Itself;
        CommandEnd {
            exit: finished.exit,
            refused: None,
            timed_out_after: (!in_time).then(|| step.timeout.unwrap_or_default()),
            outgrew: bytes.filter(|_| finished.cause == Cause::Outgrown),
            interrupted: finished.interrupted.is_some(),
            duration: finished.duration,
            log,
        }
    }

    /// Writes a command into `cmd.txt` and the log, as a shell would read it. What cannot be written
    /// here fails again, and is told, when the process gets the same log.
    fn note(&self, step: &Step, environment: &BTreeMap<String, OsString>, log: &Path) -> String {
        let variables = environment
            .iter()
            .map(|(name, value)| format!("{name}={}", quote(redaction::os_value(name, value))));
        let words: Vec<String> =
            variables.chain(redaction::os_words(&step.argv).iter().map(quote)).collect();
        let line = words.join(" ");
        for (path, text) in [
            (self.folder.join("cmd.txt"), format!("{line}\n")),
            (log.to_owned(), format!("$ {line}\n")),
        ] {
            let file = private::append(&path);
            let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
        }
        line
    }
}

/// Variables for a command that prints tables and runs no workload: numbers as every reader takes them. A
/// workload keeps the locale of the user; no table comes from its run.
fn plain_numbers() -> BTreeMap<String, OsString> {
    // It wins over all others. Any other value than C may name a locale that the machine lacks.
    let all = std::env::var_os("LC_ALL").filter(|value| !value.is_empty());
    let name = if all.is_some() { "LC_ALL" } else { "LC_NUMERIC" };
    BTreeMap::from([(name.to_owned(), "C".into())])
}

/// What `executable --version` prints.
pub(super) fn version_of(executable: &Path) -> Result<String, NoAnswer> {
    ask(Command::new(executable).arg("--version"), VERSION_LIMIT)
}

/// The version of the tool of the pass `key`, where it prints one; a finding states where not. The pass without
/// the tool, where it cannot be started or is older than `oldest`, which is as bad as `too_old` says.
pub(super) fn version_for(
    key: &str,
    executable: &Path,
    (oldest, too_old): (Version, Severity),
    findings: &mut Vec<Finding>,
) -> Result<Option<Version>, ToolPass> {
    let version = version_of(executable).map_err(|why| {
        let is_missing = matches!(why, NoAnswer::NotStarted(_));
        let status = if is_missing { PassStatus::Skipped } else { PassStatus::Failed };
        ToolPass::without(status, missing(key, executable, &why.reason()))
    })?;
    let version = Version::parse(&version);
    match judge_version(key, version, oldest, too_old) {
        Some(finding) if version.is_some() => {
            return Err(ToolPass::without(PassStatus::Skipped, finding));
        }
        finding => findings.extend(finding),
    }
    Ok(version)
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(super) fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The part of a log from `start`; its middle is left out where it is long.
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
    Id::NsysTablesMissing.found(
        format!("tables of {} are missing", file_name(report)),
        format!("{} came before they were made; the report itself is kept", signal.as_str()),
        format!("create them next to it with `{remedy}`, then run `stage2-launch report`"),
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
        let what = format!("the workload ended differently under {tool}: {}", here.describe());
        let why = format!("in the collect pass: {}{cause}", collect.describe());
        let remedy = format!("see {tool}/log.txt");
        Id::WorkloadEndedDifferently.about(tool).found(what, why, remedy)
    })
}
