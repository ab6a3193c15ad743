//! Captures that were taken elsewhere, or are being taken -> copies in a new bundle, and its reports.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nix::sys::signal::Signal;
use serde_json::json;
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::listed;
use stage2_model::finding::{Id, Severity};
use stage2_model::{Finding, PassStatus, Tool};
use stage2_read::files::{self, write_whole};
use stage2_read::foreign::kind_of;
use stage2_read::private;
use stage2_read::trace::file::files_of;
use stage2_report::llm::command_model::copy_models;

use super::ending::{
    PAGE, as_given, list_files, open_report, take_signals, tell_answer, tell_findings,
};
use crate::bundle::{
    Access, Bundle, COLLECTOR_DIR, Inputs, NCU_DIR, NSYS_DIR, PassRecord, RunFolder, RunRecord,
    WindowRecord,
};
use crate::cli::{Acceptance, BrowserOptions, Captures, MergeArgs};
use crate::config::{self, Composed};
use crate::copy_inputs::{self, InputCopies, Kind};
use crate::failure::Failure;
use crate::reports::Outcome;
use crate::run::{self, Signals};
use crate::terminal::Terminal;
use crate::tools::nsys::scrub::{self, AGAIN};
use crate::{redaction, reports};

/// `stage2-launch merge`, also called `import`. What cannot be used of the captures is told; the rest is merged.
pub(crate) fn import(args: MergeArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let MergeArgs { captures, output, presets, acceptance, showing, overrides } = args;
    let composed = config::compose(&presets.request(overrides))?;
    check_inputs(&captures)?;
    let absolute = std::path::absolute(&output)
        .map_err(|e| Failure::Usage(format!("-o {}: {e}", output.display())))?;
    let (_, early) = composed.resolved(&absolute)?;
    let access = Access::of(early.run.group.as_deref())?;
    let found = absolute.exists();
    let around = absolute.ancestors().skip(1).take_while(|folder| !folder.exists());
    let around: Vec<PathBuf> = around.map(Path::to_owned).collect();
    let folder = RunFolder::Given(absolute).create(&access)?;
    let ends = format!(
        "the merge ends here, and {0} is incomplete; delete {0} and merge again",
        folder.path().display()
    );
    let signals = take_signals(terminal, ends)?;
    let command: Vec<OsString> = std::env::args_os().collect();
    let maker = BundleMaker {
        composed: &composed,
        access: &access,
        command: &command,
        signals: &signals,
        terminal,
    };
    terminal.progress("merging the captures and writing the reports");
    let made = maker.make(&folder, &captures, &[], &[], None)?;
    // Nothing could be read of any file, and no signal came before that.
    if !made.has_merged() && made.interrupted.is_none() && made.outcome.is_ok() {
        let refused = made.discard(found, terminal);
        // Where something else is in one meanwhile it stays.
        around.iter().for_each(|folder| drop(std::fs::remove_dir(folder)));
        return Err(refused);
    }
    let status = made.tell(Some(&acceptance), showing, terminal);
    if made.outcome.is_ok() {
        terminal.place(&made.bundle.dir().join(PAGE));
    }
    Ok(status)
}

/// Fails where no file can be used or one is not there, before there is a folder; a damaged one does not keep others
/// from being merged.
fn check_inputs(captures: &Captures) -> Result<(), Failure> {
    let Captures { traces, nsys, ncu, .. } = captures;
    if traces.is_empty() && nsys.is_empty() && ncu.is_empty() {
        let text = "there is nothing to merge; give --spool DIR, --nsys FILE or --ncu FILE";
        return Err(Failure::Usage(text.into()));
    }
    let (mut problems, mut missing, mut usable) = (Vec::new(), Vec::new(), false);
    for (kind, files) in [(Kind::Trace, traces), (Kind::Nsys, nsys), (Kind::Ncu, ncu)] {
        for file in files {
            if !copy_inputs::exists(file) {
                missing.push(format!("`{}`", file.display()));
            }
            if let Err(why) = copy_inputs::check(kind, file).and_then(|()| check_export(kind, file))
            {
                // No colon behind the name: what follows one that ends in `passwd` would pass for a secret.
                problems.push((file.display(), format!("{why:#}")));
            } else {
                usable = true;
            }
        }
    }
    if usable && missing.is_empty() {
        return Ok(());
    }
    if usable {
        let (names, does) = (missing.join(", "), if missing.len() == 1 { "does" } else { "do" });
        let text = format!("{names} {does} not exist, so nothing was merged; check the path");
        return Err(Failure::Usage(text));
    }
    // The remedy of a single one is the hint.
    if let [(file, why)] = &problems[..]
        && let Some((why, remedy)) = why.split_once("; ")
    {
        return Err(Failure::Usage(format!(
            "no capture can be merged, so no bundle was made: {file} ({why}); {remedy}"
        )));
    }
    let problems = problems.iter().map(|(file, why)| format!("{file} ({why})"));
    let problems = problems.collect::<Vec<_>>().join(", ");
    // What is wrong with a file may name what to do.
    let has_remedy =
        ["; ", " has to end in ", "nsys export"].iter().any(|of| problems.contains(of));
    let takes =
        "; --spool takes .s2t files or their folder, --nsys and --ncu reports, exports and tables";
    let hint = if has_remedy { "" } else { takes };
    Err(Failure::Usage(format!(
        "no capture can be merged, so no bundle was made: {problems}{hint}"
    )))
}

/// Refuses what has the name of a SQLite export and is none or not whole, before a copy of it fails.
fn check_export(kind: Kind, file: &Path) -> anyhow::Result<()> {
    if !matches!(kind, Kind::Nsys) || file.extension().is_none_or(|ending| ending != "sqlite") {
        return Ok(());
    }
    let (what, option) = kind_of(file)?;
    let made = "`nsys export --type=sqlite` makes one";
    anyhow::ensure!(option.is_some(), "it is {what}, not a SQLite export: {made}");
    let cut = scrub::cut_short(file);
    anyhow::ensure!(cut.is_none(), "{}; {AGAIN}", cut.unwrap_or_default());
    anyhow::ensure!(scrub::has_tables(file), "it has none of the tables of an nsys export: {made}");
    Ok(())
}

/// Files that are named where they are told; run.json has them all.
const FROM_NAMED: usize = 4;
const EFFECTIVE: &[&str] = &[
    "report",
    "model",
    "hardware",
    "operators",
    "stage1",
    "pipeline.nsys",
    "pipeline.ncu",
    "run.group",
    "redact",
];
/// A larger file is not an `env.json`.
const ENVIRONMENT_BYTES: u64 = 64 << 20;

#[derive(Clone, Copy)]
pub(super) struct BundleMaker<'a> {
    pub(super) composed: &'a Composed,
    pub(super) access: &'a Access,
    /// The command that the bundle names.
    pub(super) command: &'a [OsString],
    pub(super) signals: &'a Signals,
    pub(super) terminal: &'a Terminal,
}

#[derive(Clone, Debug)]
pub(super) struct WindowFile {
    pub(super) path: PathBuf,
    pub(super) kind: WindowKind,
}

/// What becomes of a trace file of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowKind {
    /// The window is on: the file is copied up to its last whole frame.
    Live,
    /// The window is over, or its process is: the file is copied as well, and stays where it is.
    Over,
    /// The window is over, and the file moves into the bundle, which lies in the same run.
    Moves,
}

pub(super) struct NewBundle {
    pub(super) bundle: Bundle,
    pub(super) outcome: anyhow::Result<Outcome>,
    /// Its record could not be closed.
    closed: anyhow::Result<()>,
    interrupted: Option<Signal>,
}

impl BundleMaker<'_> {
    /// Makes a bundle in a folder that is there and empty, of copies of `captures` and of trace files of windows, one
    /// process each. `findings` are known beforehand; `environment` is the `env.json` of the windows' run.
    pub(super) fn make(
        &self,
        folder: &RunFolder,
        captures: &Captures,
        windows: &[WindowFile],
        findings: &[Finding],
        environment: Option<&Path>,
    ) -> Result<NewBundle, Failure> {
        let BundleMaker { composed, terminal, .. } = *self;
        let dir = folder.path();
        let (tree, settings) = composed.resolved(&dir)?;
        redaction::set(settings.redact.redactor());
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let cwd = std::env::current_dir().unwrap_or_default();
        let inputs = Inputs::new(self.command, &cwd, None);
        let mut record = RunRecord::new(name, inputs.argv.clone());
        record.origins = config::origins(&tree);
        let mut bundle = Bundle::start(folder, record, inputs, config::yaml_with_origins(&tree))?;
        let tools = run::Imports::new(&settings, terminal, self.signals);
        bundle.record.findings.extend_from_slice(findings);
        if environment.is_none() {
            bundle.record.findings.extend(without_effect(&composed.explicit_keys()));
        }
        bundle.record.findings.extend(composed.notes.iter().cloned());
        copy_in(captures, windows, &tools, &mut bundle.record, &dir);
        if let Some(run) = environment.and_then(Path::parent) {
            bundle.record.findings.extend(copy_models(run, &dir));
        }
        bundle.record.findings.iter().for_each(|finding| terminal.finding(finding));
        bundle.share(self.access.clone(), terminal);
        let outcome = write_reports(&mut bundle, &dir, environment);
        let described = outcome.as_ref().map_or(Ok(()), |outcome| {
            let tools =
                outcome.tools.iter().map(|(name, version)| (name.clone(), of_version(version)));
            bundle.record.tools.extend(tools);
            write_environment(&dir, environment, Some(outcome))
        });
        let closed = described.and_then(|()| bundle.finish(&outcome));
        list_files(&outcome, &dir, terminal);
        Ok(NewBundle { bundle, outcome, closed, interrupted: tools.interrupted() })
    }
}

impl NewBundle {
    /// What was found, and the exit status by the rules of what is a result.
    pub(super) fn tell(
        &self,
        acceptance: Option<&Acceptance>,
        showing: BrowserOptions,
        terminal: &Terminal,
    ) -> u8 {
        let dir = self.bundle.dir();
        let allow_empty = acceptance.is_some_and(|of| of.allow_empty);
        tell_findings(&self.bundle.record, &self.outcome, dir, allow_empty, terminal);
        if let Err(error) = &self.closed {
            terminal.error(&format!("{error:#}"));
        }
        tell_answer(&self.bundle.record, &self.outcome, dir, None, terminal);
        // After what it is about.
        let status = acceptance.map_or(0, |acceptance| self.status(acceptance, terminal));
        if showing.open {
            open_report(dir, terminal);
        }
        status
    }

    /// Takes back a bundle of which nothing could be read: only the files state anything, and what was
    /// found about them is told. `found` says that its folder was there before.
    pub(super) fn discard(self, found: bool, terminal: &Terminal) -> Failure {
        let dir = self.bundle.dir().to_owned();
        let mut reason = "none of the files could be read, so no bundle was made".to_owned();
        let mut remedy = String::new();
        let record = &self.bundle.record;
        let copies = record.passes.iter().flat_map(|pass| &pass.merged);
        // What else the reports say is about a workload. The copies are gone when somebody reads this.
        let told = record.report_findings.iter().filter_map(|finding| {
            let is_named = |copy: &str| finding.what.contains(copy);
            let named =
                || copies.clone().any(|(copy, _)| copy.rsplit('/').next().is_some_and(is_named));
            as_given(finding, record, &dir).or_else(|| named().then(|| finding.clone()))
        });
        let told: Vec<Finding> = told.collect();
        if let [only] = told.as_slice() {
            // There are no numbers that a process is missing from.
            let no_why = only.why.is_empty() || only.id == Id::TraceUnreadable;
            let why = if no_why { String::new() } else { format!(": {}", only.why) };
            reason = format!("no capture can be merged, so no bundle was made: {}{why}", only.what);
            remedy = format!("; {}", only.remedy);
        } else {
            told.iter().for_each(|finding| terminal.finding(finding));
        }
        drop(self);
        let left = remove(&dir, found).err();
        let left = left.map(|error| format!(" ({} is left: {error})", dir.display()));
        let left = left.unwrap_or_default();
        Failure::Usage(format!("{reason}{left}{remedy}"))
    }

    fn has_merged(&self) -> bool {
        self.bundle.record.passes.iter().any(|pass| pass.status == PassStatus::Ok)
    }

    /// The reports, where all of the bundle is there.
    pub(super) fn result(&self) -> Option<&Outcome> {
        self.outcome.as_ref().ok().filter(|_| self.has_merged() && self.closed.is_ok())
    }

    fn status(&self, acceptance: &Acceptance, terminal: &Terminal) -> u8 {
        match self.interrupted {
            Some(signal) => u8::try_from(128 + signal as i32).unwrap_or(u8::MAX),
            None => acceptance.status(0, self.result(), &self.bundle.record.passes, terminal),
        }
    }
}

/// Deletes a bundle; the folder itself stays where it was `found`.
fn remove(dir: &Path, found: bool) -> std::io::Result<()> {
    if !found {
        return std::fs::remove_dir_all(dir);
    }
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        match path.symlink_metadata()?.is_dir() {
            true => std::fs::remove_dir_all(path)?,
            false => std::fs::remove_file(path)?,
        }
    }
    Ok(())
}

/// Writes the reports; once more, where passes turn out to have failed, because they say so.
fn write_reports(
    bundle: &mut Bundle,
    dir: &Path,
    environment: Option<&Path>,
) -> anyhow::Result<Outcome> {
    // The reports read env.json, and what the captures say for it comes with the reports.
    write_environment(dir, environment, None)?;
    bundle.passes_ended()?;
    let first = reports::write_reports(dir)?;
    let mut has_failed = false;
    for pass in &mut bundle.record.passes {
        // Its files were taken in, and nothing of them could be read.
        if pass.status == PassStatus::Ok && !first.read.contains(&pass.name.as_str()) {
            pass.status = PassStatus::Failed;
            pass.why.push_str("; nothing of it could be read");
            has_failed = true;
        }
    }
    if !has_failed {
        return Ok(first);
    }
    bundle.save()?;
    reports::write_reports(dir)
}

/// What is known of where the captures were taken: of a run, as the run knows it.
fn write_environment(
    dir: &Path,
    of_run: Option<&Path>,
    outcome: Option<&Outcome>,
) -> anyhow::Result<()> {
    match of_run.map(|path| files::read_text(path, ENVIRONMENT_BYTES)) {
        Some(Ok(text)) => write_whole(&dir.join("env.json"), &text),
        _ => write_foreign_environment(dir, outcome),
    }
}

/// Copies everything into the folder of the bundle; a pass for each kind states what of it could be taken in.
fn copy_in(
    captures: &Captures,
    window_files: &[WindowFile],
    tools: &run::Imports<'_>,
    record: &mut RunRecord,
    dir: &Path,
) {
    let RunRecord { findings, passes, windows, .. } = record;
    for (kind, pass, files, sub) in [
        (Kind::Trace, "collect", &captures.traces, COLLECTOR_DIR),
        (Kind::Nsys, "nsys", &captures.nsys, NSYS_DIR),
        (Kind::Ncu, "ncu", &captures.ncu, NCU_DIR),
    ] {
        let is_of_windows = kind == Kind::Trace && !window_files.is_empty();
        if files.is_empty() && !is_of_windows {
            continue;
        }
        let folder = dir.join(sub);
        let mut inputs = InputCopies::new(kind, folder.clone());
        inputs.is_live = captures.live && kind == Kind::Trace;
        if kind == Kind::Nsys {
            tools.begin_copies(&folder, sub);
        }
        for file in files {
            inputs.add(file, findings);
        }
        if is_of_windows {
            windows.extend(window_files.iter().filter_map(|file| {
                copy_window(file, &mut inputs, dir).map_err(|f| findings.push(f)).ok()
            }));
        }
        let reports = inputs.for_tool();
        match kind {
            Kind::Nsys if !reports.is_empty() => tools.nsys(&folder, &reports, findings),
            Kind::Ncu if !reports.is_empty() => tools.ncu(&folder, &reports, findings),
            _ => {}
        }
        if kind == Kind::Nsys {
            tools.clean_copies(&inputs, &folder, sub, findings);
        }
        passes.push(pass_of(pass, dir, &inputs.copies));
    }
    findings.extend(tools.interrupted().map(run::interruption));
}

/// Brings the trace file of a window into the bundle, and reads what it holds.
fn copy_window(
    file: &WindowFile,
    inputs: &mut InputCopies,
    dir: &Path,
) -> Result<WindowRecord, Finding> {
    let WindowFile { path, kind } = file;
    // Of a trace that was cut all pieces, the first of which is read for all.
    let copies: anyhow::Result<Vec<PathBuf>> = files_of(path)
        .into_iter()
        .map(|path| match kind {
            WindowKind::Live | WindowKind::Over => inputs.add_live(&path),
            WindowKind::Moves => move_in(&path, inputs, dir),
        })
        .collect();
    let window = copies.and_then(|copies| {
        let copy = copies.first().context("it is not there")?;
        let inside = copy.strip_prefix(dir).unwrap_or(copy).to_string_lossy().into_owned();
        WindowRecord::read(copy, inside)
    });
    let window = window.map_err(|why| {
        let what = format!("the window of {} is not in the bundle", path.display());
        let remedy = "`stage2-launch merge --spool` takes the file as it is";
        Id::WindowMissing.graded(Severity::Error, what, format!("{why:#}"), remedy)
    })?;
    // The window may have ended while its file was copied.
    let snapshot = *kind == WindowKind::Live && window.why.is_none();
    Ok(WindowRecord { snapshot, ..window })
}

fn move_in(path: &Path, inputs: &mut InputCopies, dir: &Path) -> anyhow::Result<PathBuf> {
    let folder = dir.join(COLLECTOR_DIR);
    private::create_folders(&folder)?;
    let to = folder.join(path.file_name().unwrap_or_default());
    anyhow::ensure!(!to.exists(), "{} is there already", to.display());
    std::fs::rename(path, &to)?;
    inputs.copies.push((to.clone(), path.to_owned()));
    Ok(to)
}

fn pass_of(name: &str, dir: &Path, copies: &[(PathBuf, PathBuf)]) -> PassRecord {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let from: Vec<String> = copies.iter().map(|(_, from)| text(from)).collect();
    let (status, why) = match from.is_empty() {
        true => (PassStatus::Failed, "none of its files could be merged".to_owned()),
        false => (PassStatus::Ok, format!("merged from {}", listed(&from, FROM_NAMED))),
    };
    let inside = |path: &Path| text(path.strip_prefix(dir).unwrap_or(path));
    PassRecord {
        name: name.to_owned(),
        status,
        merged: copies.iter().map(|(copy, from)| (inside(copy), text(from))).collect(),
        why,
        ..PassRecord::default()
    }
}

fn without_effect(explicit: &BTreeSet<String>) -> Option<Finding> {
    let counts = |key: &str| EFFECTIVE.iter().any(|part| config::within(key, part));
    let idle: Vec<&str> = explicit.iter().map(String::as_str).filter(|key| !counts(key)).collect();
    (!idle.is_empty()).then(|| {
        let what = format!("settings without effect on a merge: {}", idle.join(", "));
        let remedy = format!("those that count are {}", EFFECTIVE.join(", "));
        Id::SettingNoEffect.graded(Severity::Note, what, "nothing is run", remedy)
    })
}

const NOT_KNOWN: &str = "not known: the captures were taken elsewhere, and only their own information on \
                         GPUs and tools is available";

/// Writes the file. Nothing in it is of the machine that merges.
fn write_foreign_environment(dir: &Path, outcome: Option<&Outcome>) -> anyhow::Result<()> {
    let devices = outcome.iter().flat_map(|outcome| &outcome.devices).map(|row| {
        json!({
            "index": row.index,
            "name": row.name,
            "uuid": row.uuid,
            "compute_capability": row.compute_capability,
            "multiprocessors": row.multiprocessors,
            "memory_bytes": row.memory_bytes,
        })
    });
    let devices: Vec<_> = devices.collect();
    let tools = outcome.iter().flat_map(|outcome| &outcome.tools);
    let tools: BTreeMap<_, _> = tools.map(|(name, version)| (name, of_version(version))).into_map();
    let environment = json!({
        "schema": 1,
        "simulated": outcome.is_some_and(|outcome| outcome.simulated),
        "environment": NOT_KNOWN,
        "gpu": {"devices": devices},
        "tools": tools,
        "processes": outcome.map(|outcome| &outcome.processes),
    });
    write_whole(&dir.join("env.json"), &format!("{environment:#}\n"))
}

fn of_version(version: &str) -> Tool {
    Tool { path: None, version: Some(version.to_owned()) }
}
