//! Reports of profilers that were taken elsewhere -> their tables, by the tools of this machine.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::nsys_pass::{self, clean_copies, environment_finding, unmark};
use super::tool::{Tool, file_name, stem, version_of};
use super::{Host, Signals, System, ncu_pass};
use crate::config::Config;
use crate::copy_inputs::InputCopies;
use crate::plan::{Limits, ncu_files};
use crate::terminal::Terminal;
use crate::tools::ncu::command::Files;
use crate::tools::nsys::config::Nsys;
use crate::tools::{Version, product};
use stage2_model::Finding;
use stage2_model::finding::{Id, Severity};
use stage2_read::ncu::load::report_name;
use stage2_read::nsys::folder::capture_name;
use stage2_read::private;

pub(crate) struct Imports<'a> {
    config: &'a Config,
    terminal: &'a Terminal,
    signals: &'a Signals,
    interrupted: Cell<Option<Signal>>,
}

impl<'a> Imports<'a> {
    /// With these settings. Signals end the tool that runs, and no other is started then.
    pub(crate) fn new(
        config: &'a Config,
        terminal: &'a Terminal,
        signals: &'a Signals,
    ) -> Imports<'a> {
        Imports { config, terminal, signals, interrupted: Cell::new(None) }
    }

    /// The first signal that came while a tool ran.
    pub(crate) fn interrupted(&self) -> Option<Signal> {
        self.interrupted.get()
    }

    pub(crate) fn nsys(&self, folder: &Path, reports: &[PathBuf], findings: &mut Vec<Finding>) {
        export_nsys(&self.tool(folder), &self.config.pipeline.nsys, reports, findings);
    }

    /// Before captures are copied to `folder`, shown as `shown`: what they hold of a machine must not stay there
    /// unmarked, whatever ends this program. A signal deletes the copies, and SIGKILL leaves them with a warning.
    pub(crate) fn begin_copies(&self, folder: &Path, shown: &str) {
        self.signals.take_along(Some(folder.to_owned()));
        // What cannot be written here cannot be copied here either, which is told.
        if private::create_folders(folder).is_ok() {
            let _ = environment_finding(folder, shown, false);
        }
    }

    /// Takes out of copies of captures what they hold of the machine, also after a signal. States what is left.
    pub(crate) fn clean_copies(
        &self,
        copies: &InputCopies,
        folder: &Path,
        shown: &str,
        findings: &mut Vec<Finding>,
    ) {
        match clean_copies(copies, findings) {
            true => unmark(folder),
            false => findings.extend(environment_finding(folder, shown, false)),
        }
        self.signals.take_along(None);
    }

    pub(crate) fn ncu(&self, folder: &Path, reports: &[PathBuf], findings: &mut Vec<Finding>) {
        let alone = reports.len() == 1 && !any_name(folder, |name| name.ends_with(".csv"));
        let reports = &without_tables(reports, findings, |report| {
            let report = file_name(report);
            any_name(folder, |name| {
                name.ends_with(".csv") && report_name(name) == report_name(&report)
            })
        });
        if reports.is_empty() {
            return;
        }
        let ncu = &self.config.pipeline.ncu;
        // Where ncu is missing a Python package can read its reports.
        let python = match version_of(&ncu.executable) {
            Ok(_) => None,
            Err(why) => match ncu_pass::interpreter() {
                Ok(python) => Some(python),
                Err(no_python) => {
                    let remedy = "install Nsight Compute, or `pip install ncu-report` for the python3 \
                                  on PATH; or print them where ncu is (`ncu --import FILE --page raw \
                                  --csv --print-units base --print-kernel-base mangled`), and merge \
                                  the .csv";
                    let why = format!("{}; {no_python}", why.reason());
                    findings.push(not_read("ncu", &ncu.executable, why, remedy));
                    return;
                }
            },
        };
        for report in reports {
            let name = Some(stem(report)).filter(|_| !alone);
            let files = Files { report: report.clone(), ..ncu_files(folder, name.as_deref()) };
            let tool = self.tool(folder);
            match &python {
                Some(python) => {
                    ncu_pass::print_by_python(&tool, python, (report, &files.raw), findings)
                }
                None => ncu_pass::import(&tool, ncu, &files, findings),
            }
        }
    }

    fn tool(&self, folder: &Path) -> Tool<'_> {
        let grace = Duration::from_secs(self.config.run.kill_grace_s);
        Tool {
            host: Host { spawner: &System, signals: self.signals, terminal: self.terminal },
            interrupted: &self.interrupted,
            folder: folder.to_owned(),
            environment: BTreeMap::new(),
            limits: Limits { grace, ..Limits::default() },
            collect: None,
            first: None,
        }
    }
}

pub(super) fn export_nsys(
    tool: &Tool<'_>,
    nsys: &Nsys,
    reports: &[PathBuf],
    findings: &mut Vec<Finding>,
) {
    let reports = without_tables(reports, findings, |report| {
        let stem = stem(report);
        any_name(&tool.folder, |name| name.ends_with(".sqlite") && capture_name(name) == stem)
    });
    if reports.is_empty() {
        return;
    }
    match version_of(&nsys.executable) {
        Ok(said) => {
            let version = Version::parse(&said);
            nsys_pass::tables(tool, &nsys.without_report(), version, &reports, findings);
        }
        Err(why) => {
            let remedy = "install Nsight Systems; or export them on a machine that has it (`nsys export \
                          --type=sqlite`), and merge the .sqlite";
            findings.push(not_read("nsys", &nsys.executable, why.reason(), remedy));
        }
    }
}

/// The reports whose tables were not given with them: those are never written over.
fn without_tables(
    reports: &[PathBuf],
    findings: &mut Vec<Finding>,
    given: impl Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let (there, rest): (Vec<_>, Vec<_>) = reports.iter().cloned().partition(|path| given(path));
    for report in there {
        let what = format!("{} is not read", file_name(&report));
        findings.push(Id::ImportLeftOut.graded(
            Severity::Note,
            what,
            "its tables were given, too, and are used instead",
            "",
        ));
    }
    rest
}

fn any_name(folder: &Path, wanted: impl Fn(&str) -> bool) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| wanted(&name.to_string_lossy()))
}

fn not_read(tool: &str, executable: &Path, why: String, remedy: &str) -> Finding {
    let product = product(tool);
    let what = format!("reports of {product} are not read");
    let why = format!("`{}` {why}", executable.display());
    Id::ToolMissing.about(tool).found(what, why, remedy)
}
