//! Exit status, log and files of an nsys run -> whether there is a report, and what is wrong with it.
//!
//! nsys hands the exit status of the workload on and fails in words: the log says more than the
//! status. Only lines that nsys itself writes are looked for; the output of the workload stands
//! between them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::config::Nsys;
use super::messages::{self, Said};
use super::words::Kill;
use stage2_model::{Finding, Severity, WorkloadExit};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Exit of nsys, which is that of the workload unless nsys itself failed; none: it could not be
    /// waited for.
    pub exit: Option<WorkloadExit>,
    /// It was ended because it took longer than this.
    pub timed_out_after: Option<Duration>,
    /// What nsys and the workload wrote, both streams. The first and the last part are enough.
    pub log: String,
    /// The files that it left.
    pub files: Files,
}

/// The files that a run left, with their sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Reports at the expected place, in order.
    pub reports: Vec<(PathBuf, u64)>,
    /// A capture that was not turned into a report.
    pub raw: Option<(PathBuf, u64)>,
    /// Reports that nsys wrote somewhere else, as its log says.
    pub elsewhere: Vec<(PathBuf, u64)>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There are reports; more than one where each range gives its own.
    Ok {
        /// The reports, in order; at least one.
        reports: Vec<PathBuf>,
    },
    /// The range that should have started the capture never came: run it again without the gate.
    NoRange {
        /// What to tell.
        finding: Finding,
    },
    /// There is no report.
    Failed {
        /// What to tell.
        finding: Finding,
    },
}

/// The verdict, and what else should be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What came of it.
    pub verdict: Verdict,
    /// Exit of the workload; none where nsys ended it or the status is nsys's own.
    pub workload: Option<WorkloadExit>,
    /// nsys failed, and nothing says that it always will: the same command may well work.
    pub transient: bool,
    /// What else should be known.
    pub findings: Vec<Finding>,
}

impl Files {
    /// Looks for what a run with this `base` (path without extension) left, and for the files that
    /// its log names.
    pub fn find(base: &Path, log: &str) -> Files {
        let size = |path: PathBuf| {
            Some((path.clone(), path.metadata().ok().filter(|m| m.is_file())?.len()))
        };
        let with = |suffix: &str| {
            let mut path = base.as_os_str().to_owned();
            path.push(suffix);
            size(path.into())
        };
        let mut files = Files::default();
        for extension in [".nsys-rep", ".qdrep"] {
            files.reports.extend(with(extension));
            let numbered = (1..).map_while(|n| with(&format!(".{n}{extension}")));
            files.reports.extend(numbered);
            if !files.reports.is_empty() {
                break;
            }
        }
        files.raw = with(".qdstrm");
        let expected =
            |path: &PathBuf| files.reports.iter().chain(&files.raw).any(|(known, _)| known == path);
        let named = messages::generated(log).into_iter().filter(|path| !expected(path));
        let (raw, reports): (Vec<_>, Vec<_>) = named
            .filter_map(size)
            .partition(|(path, _)| path.extension() == Some(OsStr::new("qdstrm")));
        files.elsewhere = reports;
        files.raw = files.raw.or_else(|| raw.into_iter().next());
        files
    }
}

impl Files {
    /// Files of a failed run that a retry would mistake for its own.
    pub fn left_behind(&self) -> Vec<PathBuf> {
        let empty = self.reports.iter().filter(|(_, bytes)| *bytes == 0);
        empty.chain(&self.raw).map(|(path, _)| path.clone()).collect()
    }
}

/// Judges a run of `nsys profile`.
pub fn judge(nsys: &Nsys, ended: &Ended) -> Outcome {
    let said = Said::in_log(&ended.log);
    let mut findings = said.findings();
    findings.extend(time_limit(ended, Severity::Warning));
    let usable = |files: &[(PathBuf, u64)]| -> Vec<PathBuf> {
        files.iter().filter(|(_, bytes)| *bytes > 0).map(|(path, _)| path.clone()).collect()
    };
    let empty: Vec<_> = ended.files.reports.iter().filter(|(_, bytes)| *bytes == 0).collect();
    let mut reports = usable(&ended.files.reports);
    if reports.is_empty() {
        let elsewhere = usable(&ended.files.elsewhere);
        if let Some(first) = elsewhere.first() {
            findings.push(Finding::new(
                Severity::Warning,
                format!("nsys wrote its report to {}", first.display()),
                said.not_created.clone().unwrap_or_else(|| "the log does not say why".into()),
                "free or make the place that it was meant for; copy the file if you want to keep it",
            ));
        }
        reports = elsewhere;
    } else if !empty.is_empty() {
        findings.push(empty_report(&empty, Severity::Warning));
    }
    let verdict = if !reports.is_empty() {
        Verdict::Ok { reports }
    } else {
        without_report(nsys, ended, &said, &empty)
    };
    // Said once, in the verdict.
    if matches!(&verdict, Verdict::Failed { .. }) && ended.timed_out_after.is_some() {
        findings.retain(|finding| !finding.what.starts_with(TIME_LIMIT));
    }
    let failed = matches!(&verdict, Verdict::Failed { .. });
    // Of refusals the cause is known, and it stays. A raw capture shows that nsys measured, and failed
    // at the import: without an importer, another run of the workload changes nothing.
    let captured = ended.files.raw.as_ref().is_some_and(|(_, bytes)| *bytes > 0);
    let stays = (captured || refusal(ended, &said).is_some()) && !said.may_pass();
    let transient = failed && ended.timed_out_after.is_none() && !stays;
    Outcome { transient, workload: workload_exit(nsys, ended, &said, &verdict), verdict, findings }
}

fn without_report(nsys: &Nsys, ended: &Ended, said: &Said, empty: &[&(PathBuf, u64)]) -> Verdict {
    let failed = |finding| Verdict::Failed { finding };
    if let Some(finding) = time_limit(ended, Severity::Error) {
        return failed(finding);
    }
    if let Some(finding) = refusal(ended, said) {
        return failed(finding);
    }
    if ended.files.raw.is_some() || said.import_failed.is_some() {
        let left = ended.files.raw.as_ref().map_or_else(
            || "the capture is not there any more".to_owned(),
            |(raw, bytes)| format!("the raw capture is {} ({bytes} bytes)", raw.display()),
        );
        let says = said.import_failed.clone().unwrap_or_else(|| quoted(&ended.log));
        return failed(Finding::new(
            Severity::Error,
            format!("nsys did not turn its capture into a report: {left}"),
            says,
            "run it again; if it stays, the importer is missing (some packages hold the target side \
             only): install the whole of Nsight Systems, which can also open the raw capture",
        ));
    }
    if !empty.is_empty() {
        let finding = empty_report(empty, Severity::Error);
        let why = format!("{}; {}", finding.why, quoted(&ended.log));
        return failed(Finding { why, ..finding });
    }
    if nsys.gated() && !said.range_started {
        return Verdict::NoRange { finding: no_range(nsys, ended) };
    }
    let what = match nsys.gated() {
        true => "nsys saw the capture range, but wrote no report",
        false => "nsys wrote no report",
    };
    let status = exit_text(ended.exit);
    failed(Finding::new(
        Severity::Error,
        format!("{what} ({status})"),
        quoted(&ended.log),
        "read the log of the nsys pass; `nsys status --environment` checks the machine",
    ))
}

/// The line of the log that most likely says why.
fn quoted(log: &str) -> String {
    messages::last_complaint(log)
        .map_or_else(|| "its log is empty".to_owned(), |line| format!("its log says: {line}"))
}

/// Why nsys did nothing. With the status 0 such a line was the workload's own.
fn refusal(ended: &Ended, said: &Said) -> Option<Finding> {
    (ended.exit != Some(WorkloadExit::Code(0))).then(|| said.refusal()).flatten()
}

fn no_range(nsys: &Nsys, ended: &Ended) -> Finding {
    let (waited_for, why, remedy) = match nsys.capture() {
        Ok(Some(capture)) => {
            let doubt = capture.doubt().unwrap_or("no range of that name was opened");
            let remedy = "check the name with `nsys stats --report nvtx_sum` on the report of a run \
                          without a gate; RANGE@* matches every domain";
            (format!("the range {}", capture.as_str()), doubt, remedy)
        }
        _ => (
            "a call of cudaProfilerStart".into(),
            "the workload made none",
            "call it where the capture should start, or use capture_range=none",
        ),
    };
    let why = match ended.exit {
        Some(WorkloadExit::Code(0)) | None => why.to_owned(),
        exit => format!("{why}; the workload may have failed before it came ({})", exit_text(exit)),
    };
    Finding::new(
        Severity::Warning,
        format!("nsys captured nothing: {waited_for} never came"),
        why,
        remedy,
    )
}

const TIME_LIMIT: &str = "nsys did not end within";

fn time_limit(ended: &Ended, severity: Severity) -> Option<Finding> {
    let limit = ended.timed_out_after?.as_secs_f64();
    let why = match severity {
        Severity::Error => "it was ended, and left no report",
        _ => "it was ended; its report may lack the last part of the run",
    };
    let remedy = "raise pipeline.nsys.time_limit_s, capture less (profiling/nsys=nsys.gated), or \
                  leave the pass out (pipeline.nsys.enable=false)";
    Some(Finding::new(severity, format!("{TIME_LIMIT} {limit} s"), why, remedy))
}

fn empty_report(empty: &[&(PathBuf, u64)], severity: Severity) -> Finding {
    let names: Vec<_> = empty.iter().map(|(path, _)| path.display().to_string()).collect();
    Finding::new(
        severity,
        format!("nsys left an empty report: {}", names.join(", ")),
        "the disk is full, or nsys was ended while it wrote",
        "check the free space of the run folder, and run again",
    )
}

/// What the status says about the workload.
fn workload_exit(
    nsys: &Nsys,
    ended: &Ended,
    said: &Said,
    verdict: &Verdict,
) -> Option<WorkloadExit> {
    let exit = ended.exit?;
    let shut_down = nsys.gated() && nsys.range_end().ends_workload() && said.range_started;
    // nsys hands a signal on as 128 and its number.
    let by_signal = |signal| [WorkloadExit::Signal(signal), WorkloadExit::Code(128 + signal)];
    let ended_by_nsys = shut_down
        && kill_signal(nsys.kill.as_ref()).is_some_and(|signal| by_signal(signal).contains(&exit));
    if ended.timed_out_after.is_some() || ended_by_nsys {
        return None;
    }
    match verdict {
        // nsys fails with 1 before or after the workload: the status is not the workload's.
        Verdict::Failed { .. } if refusal(ended, said).is_some() => None,
        _ => Some(match exit {
            WorkloadExit::Code(code @ 129..=192) => WorkloadExit::Signal(code - 128),
            exit => exit,
        }),
    }
}

/// The signal that nsys ends the workload with at a shutdown; none: it sends none.
fn kill_signal(kill: Option<&Kill>) -> Option<i32> {
    match kill.map(Kill::as_str) {
        Some("none") => None,
        Some("sigkill") => Some(9),
        None | Some("sigterm") => Some(15),
        Some(number) => number.parse().ok(),
    }
}

fn exit_text(exit: Option<WorkloadExit>) -> String {
    match exit {
        Some(WorkloadExit::Code(code)) => format!("exit status {code}"),
        Some(WorkloadExit::Signal(signal)) => format!("ended by signal {signal}"),
        None => "exit status unknown".into(),
    }
}

/// Judges `nsys export` and `nsys stats`: what to tell where `wanted` is not all there.
pub fn judge_tables(command: &str, ended: &Ended, wanted: &Path) -> Result<(), Finding> {
    let fail = |what: String, why: String| {
        let remedy = "the report itself is kept: open it with nsys-ui, or export it by hand with \
                      an nsys at least as new as the one that wrote it";
        Err(Finding::new(Severity::Warning, what, why, remedy))
    };
    let file = wanted.display();
    if let Some(limit) = ended.timed_out_after {
        let why = format!("{file} may be cut short; see pipeline.nsys.export_time_limit_s");
        return fail(format!("{command} did not end within {} s", limit.as_secs_f64()), why);
    }
    let why = || {
        let complaint = messages::complaint_about(&ended.log, wanted);
        complaint.unwrap_or_else(|| "its log does not say why".into())
    };
    match (ended.exit, wanted.metadata()) {
        (Some(WorkloadExit::Code(0)), Ok(found)) if found.len() > 0 => Ok(()),
        (Some(WorkloadExit::Code(0)), Ok(_)) => fail(format!("{command} left {file} empty"), why()),
        (Some(WorkloadExit::Code(0)), Err(_)) => {
            fail(format!("{command} did not write {file}"), why())
        }
        (exit, _) => fail(format!("{command} failed ({})", exit_text(exit)), why()),
    }
}

/// What to tell where the tool cannot be started.
pub fn missing(nsys: &Nsys, why: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("there is no nsys pass: {} cannot be run", nsys.executable.display()),
        why,
        "install Nsight Systems, put its folder into PATH, or name it in pipeline.nsys.executable; \
         pipeline.nsys.enable=false leaves the pass out",
    )
}

#[cfg(test)]
mod tests;
