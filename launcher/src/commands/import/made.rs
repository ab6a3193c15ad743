//! Trace files and files of tools -> copies in a new bundle, and its reports.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use super::environment;
use crate::bundle::{
    Access, Bundle, COLLECTOR_DIR, Inputs, NCU_DIR, NSYS_DIR, PassRecord, RunFolder, RunRecord,
    WindowRecord,
};
use crate::cli::{Acceptance, Captures, Showing};
use crate::commands::ending::{list_files, tell};
use crate::commands::open::open_report;
use crate::config::{self, Composed};
use crate::copy_inputs::{InputCopies, Kind};
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::redaction;
use crate::reports;
use crate::run::{self, Signals};
use crate::terminal::Terminal;
use stage2_contract::text::{listed, visible_path};
use stage2_model::{Finding, PassStatus, Severity};
use stage2_read::files::{self, write_whole};
use stage2_read::private;
use stage2_read::trace::file::files_of;

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
/// A larger file is no `env.json`.
const ENVIRONMENT_BYTES: u64 = 64 << 20;

/// What a bundle is made of.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Parts<'a> {
    /// Files that are copied.
    pub(in crate::commands) captures: &'a Captures,
    /// Trace files of windows: of one process each.
    pub(in crate::commands) windows: &'a [WindowFile],
    /// The command that the bundle names.
    pub(in crate::commands) command: &'a [OsString],
    /// What is known beforehand.
    pub(in crate::commands) findings: &'a [Finding],
    /// The `env.json` of the run that the windows belong to.
    pub(in crate::commands) environment: Option<&'a Path>,
}

/// A trace file of a window.
#[derive(Clone, Debug)]
pub(in crate::commands) struct WindowFile {
    pub(in crate::commands) path: PathBuf,
    pub(in crate::commands) kind: WindowKind,
}

/// What becomes of a trace file of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum WindowKind {
    /// The window is on: the file is copied up to its last whole frame.
    Live,
    /// The window is over, or its process is: the file is copied as well, and stays where it is.
    Over,
    /// The window is over, and the file moves into the bundle, which lies in the same run.
    Moves,
}

/// A bundle that was made.
pub(in crate::commands) struct Made {
    pub(in crate::commands) bundle: Bundle,
    pub(in crate::commands) outcome: anyhow::Result<Outcome>,
    /// Its record could not be closed.
    closed: anyhow::Result<()>,
    interrupted: Option<Signal>,
}

/// Makes a bundle in a folder that is there and empty.
pub(in crate::commands) fn make(
    composed: &Composed,
    folder: &RunFolder,
    access: Access,
    parts: Parts<'_>,
    signals: &Signals,
    terminal: &Terminal,
) -> Result<Made, Failure> {
    let dir = folder.path();
    let (tree, settings) = composed.resolved(&dir)?;
    redaction::set(settings.redact.redactor());
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let inputs = Inputs::new(parts.command, &std::env::current_dir().unwrap_or_default(), None);
    let mut record = RunRecord::new(name, inputs.argv.clone());
    record.origins = config::origins(&tree);
    let mut bundle = Bundle::start(folder, record, inputs, config::yaml_with_origins(&tree))?;
    let tools = run::Imports::new(&settings, terminal, signals);
    bundle.record.findings.extend_from_slice(parts.findings);
    if parts.environment.is_none() {
        bundle.record.findings.extend(without_effect(&composed.explicit_keys()));
    }
    bundle.record.findings.extend(composed.notes.iter().cloned());
    take_in(&parts, &tools, &mut bundle.record, &dir);
    bundle.record.findings.iter().for_each(|finding| terminal.finding(finding));
    bundle.share(access, terminal);
    let outcome = write_reports(&mut bundle, &dir, parts.environment);
    let described = outcome.as_ref().map_or(Ok(()), |outcome| {
        environment::note_tools(&mut bundle.record, outcome);
        write_environment(&dir, parts.environment, Some(outcome))
    });
    let closed = described.and_then(|()| bundle.finish(&outcome));
    list_files(&outcome, &dir, terminal);
    Ok(Made { bundle, outcome, closed, interrupted: tools.interrupted() })
}

impl Made {
    /// Tells what there is, and shows it.
    pub(in crate::commands) fn tell(&self, showing: Showing, terminal: &Terminal) {
        let dir = self.bundle.dir();
        tell(&self.bundle.record, &self.outcome, dir, terminal);
        if showing.open {
            open_report(dir, terminal);
        }
        if let Err(error) = &self.closed {
            terminal.error(&format!("{error:#}"));
        }
    }

    /// Takes back a bundle of which nothing could be read: only the files say anything, and what was
    /// found about them is told. `found` says that its folder was there before.
    pub(in crate::commands) fn take_back(self, found: bool, terminal: &Terminal) -> Failure {
        let dir = self.bundle.dir().to_owned();
        let RunRecord { passes, report_findings, .. } = &self.bundle.record;
        let copies: Vec<(String, &String)> = passes
            .iter()
            .flat_map(|pass| &pass.merged)
            .map(|(copy, from)| (visible_path(&dir.join(copy)), from))
            .collect();
        // What else the reports say is about a workload. The copies are gone when somebody reads this.
        for finding in report_findings {
            let named = copies.iter().find(|(copy, _)| finding.what.contains(copy.as_str()));
            let by_name = |(copy, _): &&(String, &String)| {
                let name = copy.rsplit_once('/').map_or(copy.as_str(), |(_, name)| name);
                finding.what.contains(name)
            };
            if let Some((copy, from)) = named {
                let what = finding.what.replace(copy, &visible_path(Path::new(from)));
                terminal.finding(&Finding { what, ..finding.clone() });
            } else if copies.iter().any(|copy| by_name(&copy)) {
                terminal.finding(finding);
            }
        }
        drop(self);
        let left = remove(&dir, found);
        let left = left
            .err()
            .map_or_else(String::new, |error| format!(" ({} is left: {error})", dir.display()));
        Failure::Usage(format!(
            "nothing could be read of any of the files, so no bundle was made{left}; the lines above say why"
        ))
    }

    /// Whether something could be read of some file, or a signal came before that.
    pub(in crate::commands) fn is_of_use(&self) -> bool {
        self.has_merged() || self.interrupted.is_some() || self.outcome.is_err()
    }

    fn has_merged(&self) -> bool {
        self.bundle.record.passes.iter().any(|pass| pass.status == PassStatus::Ok)
    }

    /// The reports, where all of the bundle is there.
    pub(in crate::commands) fn result(&self) -> Option<&Outcome> {
        let is_whole = self.has_merged() && self.closed.is_ok();
        self.outcome.as_ref().ok().filter(|_| is_whole)
    }

    /// The exit status.
    pub(in crate::commands) fn status(&self, acceptance: &Acceptance, terminal: &Terminal) -> u8 {
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
    if !fail_unread(&mut bundle.record.passes, &first.read) {
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
        _ => environment::write(dir, outcome),
    }
}

/// Brings everything into the folder of the bundle; a pass for each kind says what of it.
fn take_in(parts: &Parts<'_>, tools: &run::Imports<'_>, record: &mut RunRecord, dir: &Path) {
    let RunRecord { findings, passes, windows, .. } = record;
    let captures = parts.captures;
    for (kind, pass, files, sub) in [
        (Kind::Spool, "collect", &captures.spool, COLLECTOR_DIR),
        (Kind::Nsys, "nsys", &captures.nsys, NSYS_DIR),
        (Kind::Ncu, "ncu", &captures.ncu, NCU_DIR),
    ] {
        let is_of_windows = kind == Kind::Spool && !parts.windows.is_empty();
        if files.is_empty() && !is_of_windows {
            continue;
        }
        let folder = dir.join(sub);
        let mut inputs = InputCopies::new(kind, folder.clone());
        if kind == Kind::Nsys {
            tools.begin_copies(&folder, sub);
        }
        for file in files {
            inputs.add(file, findings);
        }
        if is_of_windows {
            windows.extend(parts.windows.iter().filter_map(|file| {
                take_window(file, &mut inputs, dir).map_err(|f| findings.push(f)).ok()
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
fn take_window(
    file: &WindowFile,
    inputs: &mut InputCopies,
    dir: &Path,
) -> Result<WindowRecord, Finding> {
    let WindowFile { path, kind } = file;
    // Of a trace that was cut all pieces, the first of which is read for all.
    let mut pieces = files_of(path).into_iter().map(|path| match kind {
        WindowKind::Live | WindowKind::Over => inputs.add_live(&path),
        WindowKind::Moves => move_in(&path, inputs, dir),
    });
    let first = pieces.next().unwrap_or_else(|| Err(anyhow::anyhow!("it is not there")));
    let taken = first.and_then(|first| {
        pieces.try_for_each(|piece| piece.map(drop))?;
        Ok(first)
    });
    let read = |copy: PathBuf| {
        let inside = copy.strip_prefix(dir).unwrap_or(&copy).to_string_lossy().into_owned();
        WindowRecord::read(&copy, inside)
    };
    let window = taken.and_then(read).map_err(|why| {
        let what = format!("the window of {} is not in the bundle", path.display());
        Finding::error(
            what,
            format!("{why:#}"),
            "`stage2-launch merge --spool` takes the file as it is",
        )
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

fn pass_of(name: &str, dir: &Path, taken: &[(PathBuf, PathBuf)]) -> PassRecord {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let from: Vec<String> = taken.iter().map(|(_, from)| text(from)).collect();
    let (status, why) = match from.is_empty() {
        true => (PassStatus::Failed, "none of its files could be merged".to_owned()),
        false => (PassStatus::Ok, format!("merged from {}", listed(&from, FROM_NAMED))),
    };
    let inside = |path: &Path| text(path.strip_prefix(dir).unwrap_or(path));
    PassRecord {
        name: name.to_owned(),
        status,
        merged: taken.iter().map(|(copy, from)| (inside(copy), text(from))).collect(),
        why,
        ..PassRecord::default()
    }
}

/// A pass whose files were taken in, and of which nothing could be read, has failed. Whether there is one.
fn fail_unread(passes: &mut [PassRecord], read: &[&str]) -> bool {
    let mut found = false;
    for pass in passes {
        if pass.status == PassStatus::Ok && !read.contains(&pass.name.as_str()) {
            pass.status = PassStatus::Failed;
            pass.why.push_str("; nothing of it could be read");
            found = true;
        }
    }
    found
}

fn without_effect(explicit: &BTreeSet<String>) -> Option<Finding> {
    let counts = |key: &str| EFFECTIVE.iter().any(|part| config::within(key, part));
    let idle: Vec<&str> = explicit.iter().map(String::as_str).filter(|key| !counts(key)).collect();
    (!idle.is_empty()).then(|| {
        Finding::new(
            Severity::Note,
            format!("settings without effect on a merge: {}", idle.join(", ")),
            "nothing is run",
            format!("those that count are {}", EFFECTIVE.join(", ")),
        )
    })
}
