//! The nsys pass: a profiling run, a second one where the range never came, then the tables.

use std::io;
use std::path::{Path, PathBuf};

use super::collected::Collected;
use super::raw_captures::{environment_finding, leave_out_raw};
use super::tool::{Tool, ToolPass, other_end, tables_cut_off, version_for};
use crate::bundle::NSYS_DIR;
use crate::plan::{NSYS_BASE, Profiler};
use crate::tools::missing;
use crate::tools::nsys::command;
use crate::tools::nsys::config::Nsys;
use crate::tools::nsys::outcome::{Files, Verdict, judge, judge_tables, with_seen};
use crate::tools::nsys::scrub::scrub;
use crate::tools::nsys::version::OLDEST;
use crate::tools::version::Version;
use stage2_model::{Finding, PassStatus, Severity};

/// Runs the pass. `collected` is what the collect pass recorded, where one went before.
pub(super) fn run(
    tool: &Tool<'_>,
    nsys: &Nsys,
    profiler: &Profiler,
    collected: Option<&Collected>,
) -> ToolPass {
    let mut findings = Vec::new();
    let oldest = (OLDEST, Severity::Warning);
    let version = match version_for("nsys", &nsys.executable, oldest, &mut findings) {
        Ok(version) => version,
        Err(pass) => return pass,
    };
    let base = tool.folder.join(NSYS_BASE);
    let mut settings = nsys.clone();
    let mut gate_gone = false;
    let mut first: Option<First> = None;
    loop {
        let profile = match command::profile(&settings, version, &profiler.workload, &base) {
            Ok(profile) => profile,
            Err(error) => {
                let finding = Finding::error(error.to_string(), "", "");
                return ToolPass::without(PassStatus::Failed, finding);
            }
        };
        findings.extend(profile.findings);
        let ended = tool.profile(&profile.argv);
        if let Some(why) = &ended.refused {
            let finding = missing("nsys", &nsys.executable, why);
            let mut pass = ToolPass::without(PassStatus::Failed, finding);
            pass.findings.extend(first.and_then(First::kept));
            return pass;
        }
        let mut pass = ToolPass::ran(profile.argv, &ended);
        let files = Files::find(&base, &ended.log);
        let outcome = judge(&settings, &ended, &files);
        findings.extend(outcome.findings);
        let again = outcome.transient && first.is_none() && !ended.interrupted;
        // Where a capture cannot be moved, there is no second run that would overwrite it.
        let raw = again.then(|| set_aside(&files.left_behind(), &tool.folder)).and_then(Result::ok);
        match (outcome.verdict, raw) {
            (Verdict::NoRange { finding }, _) if !gate_gone && !ended.interrupted => {
                tool.host.terminal.progress("nsys: once more, without the gate");
                let paths = collected.map(|collected| &collected.report().paths);
                findings.push(match paths {
                    Some(paths) => with_seen(finding, nsys, paths),
                    None => finding,
                });
                (settings, gate_gone) = (settings.without_gate(), true);
                // The run without the gate may be repeated once, too, unless a raw capture must be kept.
                first = first.filter(|first| first.raw.is_some());
                continue;
            }
            (Verdict::Failed { finding }, Some(raw)) => {
                let why = finding.to_string();
                tool.host.terminal.milestone(&format!("nsys failed; running it once more: {why}"));
                first = Some(First { why, raw });
                continue;
            }
            (Verdict::NoRange { finding } | Verdict::Failed { finding }, _) => {
                pass.status = PassStatus::Failed;
                let finding = match first.is_some() {
                    true => Finding { what: format!("{} (tried twice)", finding.what), ..finding },
                    false => finding,
                };
                pass.why = finding.to_string();
                findings.push(finding);
                findings.extend(first.and_then(First::kept));
            }
            (Verdict::Ok { reports }, _) => {
                if gate_gone {
                    pass.why = "the capture range never came: repeated without the gate".to_owned();
                }
                if let Some(First { why, raw }) = first {
                    let what = "nsys failed once; this report is from the second run";
                    findings.push(Finding::note(what, why, ""));
                    // What remains after a failure to delete it costs only space.
                    let _ = raw.map(std::fs::remove_file);
                }
                if !ended.interrupted {
                    findings.extend(other_end("nsys", tool.collect, outcome.workload, &ended.log));
                    pass.ended(outcome.workload);
                }
                let reports = brought_home(reports, &tool.folder, &mut findings);
                if !tables(tool, nsys, version, &reports, &mut findings) {
                    findings.extend(environment_finding(
                        &tool.folder,
                        NSYS_DIR,
                        nsys.export.keep_raw,
                    ));
                }
            }
        }
        pass.findings = findings;
        return pass;
    }
}

/// A run of nsys that failed, and after which there was another.
struct First {
    why: String,
    /// Its capture, which nsys did not turn into a report.
    raw: Option<PathBuf>,
}

impl First {
    /// What is left of it where the second run gave no report.
    fn kept(self) -> Option<Finding> {
        let what = format!("the raw capture of nsys's first run is {}", self.raw?.display());
        let remedy = "nsys-ui of a whole Nsight Systems can open it";
        Some(Finding::note(what, self.why, remedy))
    }
}

/// Makes room for another run in `folder`: deletes the empty files of a failed one, and renames its raw
/// capture, which it gives.
fn set_aside(left_behind: &[PathBuf], folder: &Path) -> io::Result<Option<PathBuf>> {
    let mut raw = None;
    for file in left_behind.iter().filter(|file| file.starts_with(folder)) {
        if file.metadata()?.len() == 0 {
            std::fs::remove_file(file)?;
        } else {
            let aside = file.with_extension("first.qdstrm");
            std::fs::rename(file, &aside)?;
            raw = Some(aside);
        }
    }
    Ok(raw)
}

/// Copies reports that nsys wrote elsewhere into the folder of the pass.
fn brought_home(reports: Vec<PathBuf>, folder: &Path, findings: &mut Vec<Finding>) -> Vec<PathBuf> {
    let mut bring = |report: PathBuf| {
        if report.starts_with(folder) {
            return report;
        }
        let home = folder.join(report.file_name().unwrap_or_default());
        match std::fs::copy(&report, &home) {
            Ok(_) => home,
            Err(error) => {
                let what = format!("{} could not be copied into the bundle", report.display());
                findings.push(Finding::warning(what, error.to_string(), ""));
                report
            }
        }
    };
    reports.into_iter().map(&mut bring).collect()
}

/// Export, tables, and what becomes of the raw capture. Whether nothing is left that holds the environment
/// of the machine.
pub(super) fn tables(
    tool: &Tool<'_>,
    nsys: &Nsys,
    version: Option<Version>,
    reports: &[PathBuf],
    findings: &mut Vec<Finding>,
) -> bool {
    let mut is_clean = true;
    for report in reports {
        let stem = report.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let sqlite = tool.folder.join(format!("{stem}.sqlite"));
        let (mut exported, mut whole) = (false, true);
        if nsys.export.sqlite {
            let ended = tool.step(command::export(nsys, report, &sqlite));
            match judge_tables("nsys export", &ended, &sqlite) {
                Ok(()) => exported = true,
                Err(_) if tool.is_interrupted() => {
                    // What it left would pass for all of it.
                    if ended.exit.is_some() {
                        let _ = std::fs::remove_file(&sqlite);
                    }
                    whole = false;
                }
                Err(finding) => findings.push(finding),
            }
        }
        if nsys.export.stats_csv {
            let input = if exported { &sqlite } else { report };
            let stats = command::stats(nsys, version, input, &stem);
            let ended = tool.step(stats.step);
            // A capture has not every table: one is enough. Of the others nsys leaves empty files.
            let holds = |file: &&PathBuf| file.metadata().is_ok_and(|found| found.len() > 0);
            let there = stats.files.iter().find(holds);
            if let Some(wanted) = there.or(stats.files.first())
                && let Err(finding) = judge_tables("nsys stats", &ended, wanted)
            {
                whole &= !tool.is_interrupted();
                findings.extend(Some(finding).filter(|_| !tool.is_interrupted()));
            }
        }
        if let Some(signal) = tool.interrupted.get().filter(|_| !whole) {
            findings.push(tables_cut_off(report, signal, "nsys export --type=sqlite"));
            is_clean = false;
            continue;
        }
        if nsys.export.keep_raw || !exported {
            is_clean = false;
            if nsys.export.scrub && exported {
                let clean = tool.folder.join(format!("{stem}.scrubbed.sqlite"));
                findings.extend(scrub(&sqlite, &clean).err());
            }
            continue;
        }
        match leave_out_raw(&sqlite, Some(report)) {
            Ok(note) => findings.push(note),
            Err(finding) => {
                is_clean = false;
                findings.push(finding);
            }
        }
    }
    is_clean
}
