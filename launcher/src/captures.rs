//! Captures that were taken elsewhere -> a bundle with reports of them.

use std::path::{Path, PathBuf};
use std::sync::mpsc;

use crate::bundle::{
    Bundle, COLLECTOR_DIR, Inputs, NCU_DIR, NSYS_DIR, Provenance, RunFolder, RunRecord,
};
use crate::cli::Options;
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::finding::{Finding, Severity};
use crate::launch::{request, tell};
use crate::report;
use crate::run::{self, EXIT_NO_RESULT};
use crate::terminal::Terminal;

/// Files to merge, and where to.
#[derive(Debug)]
pub(crate) struct Captures {
    /// Spools, or folders of them.
    pub(crate) spool: Vec<PathBuf>,
    /// Files of Nsight Systems.
    pub(crate) nsys: Vec<PathBuf>,
    /// Files of Nsight Compute.
    pub(crate) ncu: Vec<PathBuf>,
    /// Folder of the bundle.
    pub(crate) output: PathBuf,
}

/// `stage2-launch merge`. What cannot be used of the captures is told; the rest is merged.
pub(crate) fn merge(
    captures: &Captures,
    options: &Options,
    terminal: &Terminal,
) -> Result<u8, Failure> {
    if options.runs_something() {
        let text = "`merge` takes no --dry-run, --run-dir, --timeout or --annotate: it runs no \
                    workload; its folder is named with -o DIR";
        return Err(Failure::Usage(text.into()));
    }
    if captures.spool.is_empty() && captures.nsys.is_empty() && captures.ncu.is_empty() {
        let text = "there is nothing to merge; give --spool DIR, --nsys FILE or --ncu FILE";
        return Err(Failure::Usage(text.into()));
    }
    let composed = config::compose(&request(options, Vec::new()))?;
    let output = std::path::absolute(&captures.output)
        .map_err(|e| Failure::Usage(format!("-o {}: {e}", captures.output.display())))?;
    let folder = RunFolder::Given(output).create()?;
    let dir = folder.path();
    let (tree, settings) = composed.resolved(&dir)?;
    let mut bundle = open(&folder, config::yaml_with_origins(&tree))?;
    let findings = take_in(captures, &settings, &dir, terminal);
    for finding in &findings {
        terminal.finding(finding);
    }
    bundle.record.findings.extend(findings);
    let outcome = bundle.passes_ended().and_then(|()| report::write_reports(&dir));
    let closed = bundle.finish(&outcome);
    let headline = outcome.as_ref().map_or(&[][..], |outcome| &outcome.headline);
    tell(&bundle.record, headline, &dir, terminal);
    if let Err(error) = &closed {
        terminal.error(&format!("{error:#}"));
    }
    Ok(if outcome.is_ok() && closed.is_ok() { 0 } else { EXIT_NO_RESULT })
}

fn open(folder: &RunFolder, config_yaml: String) -> Result<Bundle, Failure> {
    let dir = folder.path();
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let command: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let cwd = std::env::current_dir().unwrap_or_default();
    let inputs = Inputs::new(&command, &cwd, None);
    let record = RunRecord::new(name, inputs.argv.clone());
    let provenance = Provenance { environment: None, inputs, config_yaml };
    Bundle::start(folder, record, provenance)
        .map_err(|e| Failure::Usage(format!("{e:#}; choose another place with -o DIR")))
}

/// Brings everything into the folder of the bundle.
fn take_in(captures: &Captures, config: &Config, dir: &Path, terminal: &Terminal) -> Vec<Finding> {
    let mut findings = Vec::new();
    for from in &captures.spool {
        spools(from, &dir.join(COLLECTOR_DIR), &mut findings);
    }
    let tools = run::Imports { config, terminal };
    for (files, sub, kinds) in [
        (&captures.nsys, NSYS_DIR, &["sqlite", "nsys-rep", "qdrep", "csv"][..]),
        (&captures.ncu, NCU_DIR, &["ncu-rep", "csv"]),
    ] {
        let folder = dir.join(sub);
        let mut reports = Vec::new();
        for file in files {
            let Some(copy) = copied(file, &folder, kinds, &mut findings) else { continue };
            if copy.extension().is_some_and(|e| e != "csv" && e != "sqlite") {
                reports.push(copy);
            }
        }
        if !reports.is_empty() && sub == NSYS_DIR {
            tools.nsys(&folder, &reports, &mut findings);
        } else if !reports.is_empty() {
            tools.ncu(&folder, &reports, &mut findings);
        }
    }
    findings
}

/// The spools of a folder, or one.
fn spools(from: &Path, to: &Path, findings: &mut Vec<Finding>) {
    let kinds = &["s2t"][..];
    if !from.is_dir() {
        copied(from, to, kinds, findings);
        return;
    }
    let entries = std::fs::read_dir(from).map(|entries| {
        let paths = entries.flatten().map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|e| e == "s2t")).collect::<Vec<_>>()
    });
    match entries {
        Ok(mut files) if !files.is_empty() => {
            files.sort();
            files.iter().for_each(|file| {
                copied(file, to, kinds, findings);
            });
        }
        Ok(_) => findings.push(unusable(from, "no file in it ends in .s2t")),
        Err(error) => findings.push(unusable(from, &error.to_string())),
    }
}

/// Copies a file into a folder, under its own name if that is free.
fn copied(
    file: &Path,
    folder: &Path,
    kinds: &[&str],
    findings: &mut Vec<Finding>,
) -> Option<PathBuf> {
    let copy = || -> Result<PathBuf, String> {
        let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if !kinds.contains(&extension) {
            return Err(format!("its name has to end in .{}", kinds.join(" or .")));
        }
        let found = file.metadata().map_err(|e| e.to_string())?;
        if !found.is_file() {
            return Err("it is no file".into());
        }
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let name = file.file_name().unwrap_or_default();
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut to = folder.join(name);
        let mut number = 2;
        while to.exists() {
            to = folder.join(format!("{stem}-{number}.{extension}"));
            number += 1;
        }
        std::fs::copy(file, &to).map_err(|e| e.to_string())?;
        Ok(to)
    };
    copy().map_err(|why| findings.push(unusable(file, &why))).ok()
}

fn unusable(path: &Path, why: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("{} is not merged", path.display()),
        why,
        "give another file; the rest is merged without it",
    )
}

/// Nobody waits for signals here: they end this program as they usually do.
pub(crate) struct NoSignals;

impl run::SignalSource for NoSignals {
    fn deliver_to(&self, _: Option<mpsc::Sender<run::Event>>) {}
}
