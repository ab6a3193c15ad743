//! The collector, preloaded into a Python child -> what it recorded there: tried, not deduced.
//!
//! The launcher must not load the collector or a CUPTI into itself. So a child does what a workload
//! does (NVTX ranges, `cuInit`), and the trace file that it leaves states what reached the collector.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use stage2_contract::trace::{Reader, Record};

use super::check::System;
use crate::env::{Answer, DOORS, NoAnswer};
use crate::plan::is_split_by_loader;

const SCRIPT: &str = include_str!("trial.py");
/// How the names of the ranges of the trial begin.
const RANGE: &str = "stage2.doctor.";
/// Records of one trace file that are read; a trial leaves a few dozen.
const MOST_RECORDS: usize = 100_000;
const MOST_LINES: usize = 8;

/// Which part of the script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Packages, the package `nvtx`, a bare NVTX client and `cuInit`: a fraction of a second.
    Quick,
    /// `import torch`, its NVTX and `cuInit`: seconds.
    Torch,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    pub(super) said: ChildReport,
    /// Bindings whose range is in a trace file: `bare`, `nvtx`, `torch`.
    pub(super) reached: BTreeSet<String>,
    /// What the trace files note: `cupti.path`, `gpu.off`, ...
    pub(super) meta: BTreeMap<String, String>,
    /// Version of the collector that wrote them.
    pub(super) collector: Option<String>,
    /// What the collector and the loader said on stderr.
    pub(super) lines: Vec<String>,
}

/// What the script prints.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ChildReport {
    pub(super) version: String,
    #[serde(default)]
    pub(super) packages: BTreeMap<String, Option<String>>,
    /// CUDA version that torch was built for; `None` is its text for a build without CUDA.
    #[serde(default)]
    pub(super) torch_cuda: Option<String>,
    #[serde(default)]
    pub(super) packages_unknown: Option<String>,
    /// Why a binding could not be used; null: it was.
    #[serde(default)]
    pub(super) bindings: BTreeMap<String, Option<String>>,
    /// What `cuInit` returned; 0 is success.
    #[serde(default)]
    pub(super) cuda: Option<i64>,
    #[serde(default)]
    pub(super) cuda_absent: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum NoTrial {
    #[error("{0}")]
    Impossible(String),
    #[error("no folder for its trace file: {0}")]
    NoFolder(String),
    #[error("the child of {interpreter} gave {why}", interpreter = .0, why = .1)]
    NoAnswer(String, NoAnswer),
    #[error("{0} ended by {1} with the collector preloaded")]
    Ended(String, String),
}

/// Starts `interpreter` with the collector preloaded.
pub(super) fn run(
    system: &System,
    interpreter: &Path,
    collector: &Path,
    part: Part,
) -> Result<Trial, NoTrial> {
    let no_folder = |e: std::io::Error| NoTrial::NoFolder(e.to_string());
    let folder = tempfile::Builder::new().prefix("stage2-doctor-").tempdir().map_err(no_folder)?;
    let preload = plain_path(collector, folder.path()).map_err(no_folder)?;
    let mut command = Command::new(interpreter);
    let word = if part == Part::Quick { "quick" } else { "torch" };
    command.args(["-c", SCRIPT, word]).arg(collector).current_dir(folder.path());
    for restriction in ["STAGE2_RANGES", "STAGE2_SAMPLE", "STAGE2_GPU", "STAGE2_LOG"] {
        command.env_remove(restriction);
    }
    if let Some(cupti) = system.variable(super::CUPTI) {
        command.env(super::CUPTI, cupti);
    }
    command.env("LD_PRELOAD", with_others(&preload, system.variable("LD_PRELOAD")));
    for door in DOORS.into_iter().filter(|door| system.variable(door).is_none()) {
        command.env(door, &preload);
    }
    command.env("STAGE2_OUT", folder.path().join("out")).env("STAGE2_SUMMARY", "off");
    command.env("STAGE2_LAUNCHER", "1");
    // Nothing is written beside the modules of the workload.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let name = interpreter.display().to_string();
    let Answer { status, stdout, stderr } =
        system.run(&mut command).map_err(|why| NoTrial::NoAnswer(name.clone(), why))?;
    let json = stdout.lines().rev().find(|line| line.starts_with('{'));
    let said = json.and_then(|line| serde_json::from_str(line).ok());
    let Some(said) = said else {
        let how = match status.signal() {
            Some(signal) => format!("signal {signal}"),
            None => status.to_string(),
        };
        let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map(|line| format!(" ({line})")).unwrap_or_default();
        return Err(NoTrial::Ended(name, how + &last));
    };
    let lines = stderr.lines().filter(|line| !line.trim().is_empty()).take(MOST_LINES);
    let mut trial = Trial { said, lines: lines.map(str::to_owned).collect(), ..Trial::default() };
    trial.read(&folder.path().join("out"));
    Ok(trial)
}

impl Trial {
    /// Takes in the trace files of a folder; one that cannot be read is skipped.
    fn read(&mut self, folder: &Path) {
        let files = cupti_sys::places::list(folder).into_iter().map(|name| folder.join(name));
        for file in files.filter(|file| file.extension() == Some(OsStr::new("s2t"))) {
            let Ok(reader) = Reader::open(&file) else { continue };
            for record in reader.take(MOST_RECORDS).map_while(Result::ok) {
                match record {
                    Record::Process(process) => self.collector = Some(process.collector),
                    Record::Meta { key, value } => drop(self.meta.insert(key, value)),
                    Record::Name { bytes, .. } => {
                        let name = String::from_utf8_lossy(&bytes);
                        self.reached.extend(name.strip_prefix(RANGE).map(str::to_owned));
                    }
                    _ => {}
                }
            }
        }
    }
}

/// A path that ld.so can read.
fn plain_path(library: &Path, folder: &Path) -> std::io::Result<PathBuf> {
    if !is_split_by_loader(library) {
        return Ok(library.to_owned());
    }
    let link = folder.join("libstage2.so");
    std::os::unix::fs::symlink(library, &link)?;
    Ok(link)
}

fn with_others(library: &Path, others: Option<&OsStr>) -> OsString {
    match others {
        Some(others) => [library.as_os_str(), others].join(OsStr::new(":")),
        None => library.into(),
    }
}
