//! The nsys pass: a profiling run, a second one where the range never came, then the tables.

use std::io;
use std::path::{Path, PathBuf};

use super::CollectPass;
use super::tool::{Tool, ToolPass, file_name, other_end, stem, tables_cut_off, version_for};
use crate::bundle::NSYS_DIR;
use crate::copy_inputs::InputCopies;
use crate::plan::{NSYS_BASE, Profiler};
use crate::tools::nsys::command::{self, OLDEST};
use crate::tools::nsys::config::{CaptureExpression, Nsys};
use crate::tools::nsys::outcome::{Files, Verdict, judge, judge_tables, with_seen};
use crate::tools::nsys::scrub::{AGAIN, scrub};
use crate::tools::{Version, missing};
use stage2_model::finding::Id;
use stage2_model::{Finding, PassStatus, PathKind, Severity};
use stage2_read::files::{self, write_whole};
use stage2_read::roles::find_range;

/// Runs the pass. `collected` is what the collect pass recorded, where one went before.
pub(super) fn run(
    tool: &Tool<'_>,
    nsys: &Nsys,
    profiler: &Profiler,
    collected: Option<&CollectPass>,
) -> ToolPass {
    let mut findings = Vec::new();
    let oldest = (OLDEST, Severity::Warning);
    let version = match version_for("nsys", &nsys.executable, oldest, &mut findings) {
        Ok(version) => version,
        Err(pass) => return pass,
    };
    let base = tool.folder.join(NSYS_BASE);
    let mut settings = nsys.clone();
    let gate_fits = collected.is_none_or(|seen| fit_gate(&mut settings, seen, &mut findings));
    let mut gate_gone = !gate_fits;
    let mut first: Option<First> = None;
    loop {
        let profile = match command::profile(&settings, version, &profiler.workload, &base) {
            Ok(profile) => profile,
            Err(error) => {
                let finding = Id::RunPassLeftOut.about("nsys").graded(
                    Severity::Error,
                    error.to_string(),
                    "",
                    "",
                );
                return ToolPass::without(PassStatus::Failed, finding);
            }
        };
        findings.extend(profile.findings);
        let ended = tool.profile(&profile.argv);
        if let Some(why) = &ended.refused {
            let finding = missing("nsys", &nsys.executable, &format!("cannot be run: {why}"));
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
                    pass.why = if gate_fits { GATE_UNSEEN } else { GATE_UNKNOWN }.to_owned();
                }
                if let Some(First { why, raw }) = first {
                    let what = "nsys failed once; this report is from the second run";
                    findings.push(Id::NsysRetried.found(what, why, ""));
                    // What remains after a failure to delete it costs only space.
                    let _ = raw.map(std::fs::remove_file);
                }
                if !ended.interrupted {
                    findings.extend(other_end("nsys", tool.collect, outcome.workload, &ended.log));
                    pass.ended(outcome.workload);
                }
                let reports = brought_home(reports, &tool.folder, &mut findings);
                let left = tables(tool, nsys, version, &reports, &mut findings);
                if left != SensitiveFiles::Nothing {
                    let kept = left == SensitiveFiles::Report;
                    findings.extend(environment_finding(&tool.folder, NSYS_DIR, kept));
                }
            }
        }
        pass.findings = findings;
        return pass;
    }
}

/// Names the range of the gate as nsys takes it, by what the collect pass saw. False where that saw no range that
/// could be meant: then there is no gate, and the workload runs once less.
fn fit_gate(settings: &mut Nsys, collected: &CollectPass, findings: &mut Vec<Finding>) -> bool {
    let Ok(Some(capture)) = settings.capture() else { return true };
    let report = collected.report();
    let mut ranges = report.paths.iter().filter(|row| row.kind == PathKind::Range);
    if ranges.clone().any(|row| capture.takes(&row.name, row.domain.as_deref())) {
        return true;
    }
    let wanted = capture.text.replace("\\@", "@");
    if let Some(row) = find_range(&wanted, &report.paths, &collected.names) {
        let gate = CaptureExpression::of(&row.name, row.domain.as_deref()).text;
        let what = format!("nsys waits for the range {gate} in place of {}", capture.text);
        findings.push(Id::NsysAdjusted.found(what, "the collect pass saw it under this name", ""));
        settings.nvtx_capture = Some(gate);
        return true;
    }
    // Of names that were joined, and of ranges that were not recorded, nothing is known.
    let knows_all = !report.processes.is_empty()
        && report.coverage.ranges().is_none()
        && ranges.all(|row| row.joined_names.is_none());
    if knows_all {
        let what = format!("nsys would capture nothing: no range is {}", capture.text);
        let remedy = "set pipeline.nsys.nvtx_capture to a range of the workload";
        let finding = Id::NsysNoRange.found(what, "the whole run is captured", remedy);
        findings.push(with_seen(finding, settings, &report.paths));
        *settings = settings.without_gate();
    }
    !knows_all
}

/// Why a report is of the whole run, where a range was to start the capture.
const GATE_UNSEEN: &str = "the capture range never came: repeated without the gate";
const GATE_UNKNOWN: &str = "no range that was seen starts the capture: without the gate";

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
        Some(Id::NsysRetried.found(what, self.why, "nsys-ui of a whole Nsight Systems can open it"))
    }
}

/// Makes room for another run in `folder`: deletes the empty files, and renames the raw capture, which it gives.
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
                findings.push(Id::NsysTablesMissing.found(what, error.to_string(), ""));
                report
            }
        }
    };
    reports.into_iter().map(&mut bring).collect()
}

/// What a pass leaves that holds the environment of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SensitiveFiles {
    Nothing,
    /// The report, as usual.
    Report,
    /// Something that was to be scrubbed, or deleted.
    More,
}

/// Export and tables, the scrubbed copy of the export in its place, and what becomes of the report.
pub(super) fn tables(
    tool: &Tool<'_>,
    nsys: &Nsys,
    version: Option<Version>,
    reports: &[PathBuf],
    findings: &mut Vec<Finding>,
) -> SensitiveFiles {
    let mut left = SensitiveFiles::Nothing;
    for report in reports {
        let stem = stem(report);
        let sqlite = tool.folder.join(format!("{stem}.sqlite"));
        let (mut exported, mut whole) = (false, true);
        if nsys.export.sqlite {
            let ended = tool.step(command::export(nsys, report, &sqlite));
            match judge_tables("nsys export", &ended, &sqlite, REPORT_STAYS) {
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
            let stays = if exported { EXPORT_STAYS } else { REPORT_STAYS };
            if let Some(kernels) = stats.files.iter().filter(holds).find(is_kernel_table)
                && let Some(name) = kernels.file_name()
            {
                // A name that scripts can rely on. Of several reports the first has it.
                let _ = std::os::unix::fs::symlink(name, tool.folder.join("summary.csv"));
            }
            if let Some(wanted) = there.or(stats.files.first())
                && let Err(finding) = judge_tables("nsys stats", &ended, wanted, stays)
            {
                whole &= !tool.is_interrupted();
                findings.extend(Some(finding).filter(|_| !tool.is_interrupted()));
            }
        }
        if let Some(signal) = tool.interrupted.get().filter(|_| !whole) {
            findings.push(tables_cut_off(report, signal, "nsys export --type=sqlite"));
            left = SensitiveFiles::More;
            continue;
        }
        let keep = nsys.export.keep_raw || !exported;
        let cleaned = match (exported, keep) {
            (true, true) => scrub(&sqlite, &sqlite),
            (true, false) => leave_out_raw(&sqlite, Some(report)).map(|note| findings.push(note)),
            (false, _) => Ok(()),
        };
        left = left.max(match cleaned {
            Ok(()) if nsys.export.keep_raw => SensitiveFiles::Report,
            Ok(()) if exported => SensitiveFiles::Nothing,
            Ok(()) => SensitiveFiles::More,
            Err(finding) => {
                findings.push(finding);
                SensitiveFiles::More
            }
        });
    }
    left
}

fn is_kernel_table(file: &&PathBuf) -> bool {
    let name = file_name(file);
    ["_cuda_gpu_kern_sum.csv", "_gpukernsum.csv"].iter().any(|end| name.ends_with(end))
}

const REPORT_STAYS: &str = "the report itself is kept: open it with nsys-ui, or export it by hand with an \
                            nsys at least as new as the one that wrote it";
const EXPORT_STAYS: &str = "the SQLite export is kept: `nsys stats` reads it, too";

/// Says, on the terminal and next to the reports, what the files of a folder hold. `shown` is that folder as
/// seen from the run's. Either the report of nsys is kept as usual (`kept`), or something could not be taken out.
pub(crate) fn environment_finding(folder: &Path, shown: &str, kept: bool) -> Vec<Finding> {
    const WHY: &str = "nsys records them, including all passwords and tokens";
    const SECRETS: &str = "the environment and the arguments of every process of the machine";
    let finding = if kept {
        let remedy = "pipeline.nsys.export.keep_raw=false leaves it out of bundles that you share";
        Id::NsysSecrets.graded(
            Severity::Note,
            format!("the report in {shown}/ holds {SECRETS}"),
            WHY,
            remedy,
        )
    } else {
        let remedy = "do not share them; the findings about each file explain why it was kept";
        Id::NsysSecrets.found(format!("the files of {shown}/ hold {SECRETS}"), WHY, remedy)
    };
    let written = write_whole(&folder.join(SENSITIVE), &format!("{finding}\n"));
    let failed = written.err().map(|error| {
        Id::NsysSecrets.graded(
            Severity::Note,
            format!("{shown}/{SENSITIVE} is missing"),
            format!("{error:#}"),
            "",
        )
    });
    std::iter::once(finding).chain(failed).collect()
}

const SENSITIVE: &str = "SENSITIVE.txt";

/// Takes back what [`environment_finding`] wrote, and the folder where nothing else is in it.
pub(super) fn unmark(folder: &Path) {
    let _ = std::fs::remove_file(folder.join(SENSITIVE));
    let _ = std::fs::remove_dir(folder);
}

/// Puts the scrubbed copy of an export in its place, and deletes the report of nsys, which nothing can scrub.
/// Where there is no such copy, both stay. The error is what of it is still there, and why.
fn leave_out_raw(sqlite: &Path, report: Option<&Path>) -> Result<Finding, Finding> {
    scrub(sqlite, sqlite)?;
    let Some(report) = report else {
        return Ok(Id::NsysScrubbed.found(
            format!("{} is a scrubbed copy", file_name(sqlite)),
            HELD,
            "",
        ));
    };
    std::fs::remove_file(report).map_err(|error| {
        let what = format!("{} could not be deleted", report.display());
        Id::NsysSecrets.found(what, error.to_string(), "delete it before you share the bundle")
    })?;
    let what =
        format!("{} was left out, and {} is a scrubbed copy", file_name(report), file_name(sqlite));
    Ok(Id::NsysScrubbed.found(what, HELD, ""))
}

const HELD: &str = "nsys records the environment, the arguments and the output of programs";

/// Does so with copies of captures that were taken elsewhere, once they were exported. A copy that cannot be
/// scrubbed goes: the capture itself is where it was. Whether nothing is left of the environment of a machine.
pub(crate) fn clean_copies(copies: &InputCopies, findings: &mut Vec<Finding>) -> bool {
    if !copies.holds_an_environment() {
        return true;
    }
    let mut is_clean = true;
    let mut leave_out = |copy: &Path, why: &Finding| {
        let (told, is_gone) = left_out(copy, why);
        is_clean &= is_gone;
        findings.push(told);
    };
    let mut notes = Vec::new();
    let ending = |copy: &Path, wanted: &[&str]| wanted.contains(&files::ending(copy));
    let paths = || copies.copies.iter().map(|(copy, _)| copy.as_path());
    let is_whole = |copy: &&Path| !copy.to_string_lossy().ends_with(".scrubbed.sqlite");
    for copy in paths().filter(|copy| ending(copy, &["sqlite"])).filter(is_whole) {
        let report = Some(copy.with_extension("nsys-rep")).filter(|report| report.is_file());
        match leave_out_raw(copy, report.as_deref()) {
            Ok(note) => notes.push(note),
            Err(why) => leave_out(copy, &why),
        }
    }
    // A report that was exported and scrubbed is gone by now.
    for report in paths().filter(|copy| ending(copy, &["nsys-rep", "qdrep"]) && copy.is_file()) {
        let what = format!("{} was not exported", file_name(report));
        let why = Id::NsysTablesMissing.graded(Severity::Note, what, "", "");
        leave_out(report, &why);
        let export = report.with_extension("sqlite");
        if export.is_file() && paths().all(|copy| copy != export) {
            leave_out(&export, &why);
        }
    }
    findings.extend(notes);
    is_clean
}

/// Deletes a copy that cannot be scrubbed. What to tell, and whether it is gone.
fn left_out(copy: &Path, why: &Finding) -> (Finding, bool) {
    // Why a report was not exported is a finding of its own.
    let is_told = why.severity == Severity::Note;
    let (reason, severity, remedy) = match is_told {
        true => (format!("{}; {HELD}", why.what), Severity::Note, ""),
        false => {
            // The user never had the path of the copy.
            let folder = copy.parent().map(|folder| format!("{}/", folder.display()));
            let what = why.what.replace(&folder.unwrap_or_default(), "");
            let reason = format!("{}, so {what} ({HELD})", why.why);
            (reason, Severity::Warning, AGAIN)
        }
    };
    match std::fs::remove_file(copy) {
        Ok(()) => {
            let what = format!("{} is not in the bundle, and not in its numbers", file_name(copy));
            (Id::ImportLeftOut.graded(severity, what, reason, remedy), true)
        }
        Err(error) => {
            let what = format!("{} could not be deleted ({error})", copy.display());
            (Id::NsysSecrets.found(what, reason, "delete it before you share the bundle"), false)
        }
    }
}
