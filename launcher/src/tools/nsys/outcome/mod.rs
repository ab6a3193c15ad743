//! Exit status, log and files of an nsys run -> whether there is a report, and what is wrong with it.
//!
//! nsys hands the exit status of the workload on and fails in words: the log states more than the
//! status. Only lines that nsys itself writes are looked for; the output of the workload stands
//! between them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::config::{CaptureExpression, Nsys};
use crate::tools::{CommandEnd, saw};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::count;
use stage2_contract::text::{shorten, visible};
use stage2_model::finding::Id;
use stage2_model::{Finding, PathKind, PathRow, Severity, WorkloadExit};

/// The files that a run left, with their sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Reports at the expected place, in order.
    pub reports: Vec<(PathBuf, u64)>,
    /// A capture that was not turned into a report.
    pub raw: Option<(PathBuf, u64)>,
    /// Reports that nsys wrote somewhere else, as its log states.
    pub elsewhere: Vec<(PathBuf, u64)>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
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
        files.reports.extend(with(".nsys-rep"));
        files.reports.extend((1..).map_while(|n| with(&format!(".{n}.nsys-rep"))));
        files.raw = with(".qdstrm");
        let expected =
            |path: &PathBuf| files.reports.iter().chain(&files.raw).any(|(known, _)| known == path);
        let named = generated(log).into_iter().filter(|path| !expected(path));
        let (raw, reports): (Vec<_>, Vec<_>) = named
            .filter_map(size)
            .partition(|(path, _)| path.extension() == Some(OsStr::new("qdstrm")));
        files.elsewhere = reports;
        files.raw = files.raw.or_else(|| raw.into_iter().next());
        files
    }

    /// Files of a failed run that a retry would mistake for its own.
    pub fn left_behind(&self) -> Vec<PathBuf> {
        let empty = self.reports.iter().filter(|(_, bytes)| *bytes == 0);
        empty.chain(&self.raw).map(|(path, _)| path.clone()).collect()
    }
}

/// Judges a run of `nsys profile`.
pub fn judge(nsys: &Nsys, ended: &CommandEnd, files: &Files) -> Outcome {
    Run { nsys, ended, files, said: NsysLog::in_log(&ended.log) }.judge()
}

struct Run<'a> {
    nsys: &'a Nsys,
    ended: &'a CommandEnd,
    files: &'a Files,
    said: NsysLog,
}

impl Run<'_> {
    fn judge(&self) -> Outcome {
        let mut findings = self.said.findings();
        let usable = |files: &[(PathBuf, u64)]| -> Vec<PathBuf> {
            files.iter().filter(|(_, bytes)| *bytes > 0).map(|(path, _)| path.clone()).collect()
        };
        let mut reports = usable(&self.files.reports);
        if reports.is_empty() {
            reports = usable(&self.files.elsewhere);
            findings.extend(reports.first().map(|first| {
                let said = self.said.not_created.clone();
                Id::NsysElsewhere.found(format!("nsys wrote its report to {}", first.display()),
                    said.unwrap_or_else(|| "the log gives no reason".into()),
                    "free or make the place that it was meant for; copy the file if you want to keep it",
                )
            }));
        } else {
            findings.extend(self.empty_report(Severity::Warning));
        }
        if reports.is_empty() {
            let verdict = self.without_report();
            let transient = matches!(verdict, Verdict::Failed { .. }) && self.is_transient();
            return Outcome { verdict, workload: self.workload_exit(true), transient, findings };
        }
        findings.extend(time_limit(self.ended, Severity::Warning));
        let (verdict, workload) = (Verdict::Ok { reports }, self.workload_exit(false));
        Outcome { verdict, workload, transient: false, findings }
    }

    fn without_report(&self) -> Verdict {
        let failed = |finding| Verdict::Failed { finding };
        if let Some(finding) = time_limit(self.ended, Severity::Error).or_else(|| self.refusal()) {
            return failed(finding);
        }
        let log = &self.ended.log;
        let raw = &self.files.raw;
        if raw.is_some() || self.said.import_failed.is_some() {
            let left = raw.as_ref().map_or_else(
                || "the capture is not there any more".to_owned(),
                |(raw, bytes)| format!("the raw capture is {} ({bytes} bytes)", raw.display()),
            );
            let says = self.said.import_failed.clone().unwrap_or_else(|| quoted(log));
            return failed(Id::NsysFailed.found(
                format!("nsys did not turn its capture into a report: {left}"),
                says,
                "run it again; if it stays, the importer is missing (some packages hold the target side \
                 only): install the whole of Nsight Systems, which can also open the raw capture",
            ));
        }
        if let Some(finding) = self.empty_report(Severity::Error) {
            let why = format!("{}; {}", finding.why, quoted(log));
            return failed(Finding { why, ..finding });
        }
        if self.nsys.gated() && !self.said.range_started {
            return Verdict::NoRange { finding: no_range(self.nsys, self.ended) };
        }
        let what = match self.nsys.gated() {
            true => "nsys saw the capture range, but wrote no report",
            false => "nsys wrote no report",
        };
        let status = exit_text(self.ended.exit);
        failed(Id::NsysFailed.found(
            format!("{what} ({status})"),
            quoted(log),
            "read the log of the nsys pass; `nsys status --environment` checks the machine",
        ))
    }

    /// Whether a run without a report may have one the next time. A refusal stays; and where there is a raw capture,
    /// nsys measured and failed at the import, which another run of the workload does not change.
    fn is_transient(&self) -> bool {
        let captured = self.files.raw.as_ref().is_some_and(|(_, bytes)| *bytes > 0);
        let stays = (captured || self.refusal().is_some()) && !self.said.may_pass();
        self.ended.timed_out_after.is_none() && !stays
    }

    /// Why nsys did nothing. With the status 0 most such lines were the workload's own.
    fn refusal(&self) -> Option<Finding> {
        if self.ended.succeeded() { self.said.lost_agent() } else { self.said.refusal() }
    }

    fn empty_report(&self, severity: Severity) -> Option<Finding> {
        let empty = self.files.reports.iter().filter(|(_, bytes)| *bytes == 0);
        let names: Vec<_> = empty.map(|(path, _)| path.display().to_string()).collect();
        (!names.is_empty()).then(|| {
            Id::NsysEmptyReport.graded(
                severity,
                format!("nsys left an empty report: {}", names.join(", ")),
                "the disk is full, or nsys was ended while it wrote",
                "check the free space of the run folder, and run again",
            )
        })
    }

    /// What the status says about the workload.
    fn workload_exit(&self, failed: bool) -> Option<WorkloadExit> {
        let exit = self.ended.exit?;
        let shut_down = self.nsys.ends_workload() && self.said.range_started;
        // nsys hands a signal on as 128 and its number.
        let by_signal = |signal| [WorkloadExit::Signal(signal), WorkloadExit::Code(128 + signal)];
        let ended_by_nsys = shut_down
            && kill_signal(self.nsys).is_some_and(|signal| by_signal(signal).contains(&exit));
        // nsys fails with 1 before or after the workload: the status is not the workload's.
        let of_nsys = failed && self.refusal().is_some();
        if self.ended.timed_out_after.is_some() || ended_by_nsys || of_nsys {
            return None;
        }
        Some(match exit {
            WorkloadExit::Code(code @ 129..=192) => WorkloadExit::Signal(code - 128),
            exit => exit,
        })
    }
}

fn quoted(log: &str) -> String {
    last_complaint(log)
        .map_or_else(|| "its log is empty".to_owned(), |line| format!("its log: {line}"))
}

fn no_range(nsys: &Nsys, ended: &CommandEnd) -> Finding {
    let (waited_for, why, remedy) = match nsys.capture() {
        Ok(Some(capture)) => {
            let doubt = capture.doubt().unwrap_or("nsys saw no range of that name");
            let remedy = "check the name with `nsys stats --report nvtx_sum` on the report of a run \
                          without a gate; RANGE@* matches every domain";
            (format!("the range {}", capture.text), doubt, remedy)
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
    Id::NsysNoRange.found(format!("nsys captured nothing: {waited_for} never came"), why, remedy)
}

fn time_limit(ended: &CommandEnd, severity: Severity) -> Option<Finding> {
    let limit = ended.timed_out_after?.as_secs_f64();
    let (what, key) = match ended.outgrew {
        Some(bytes) => (format!("nsys wrote more than {} bytes", count(bytes)), "size_limit_bytes"),
        None => (format!("nsys did not end within {limit} s"), "time_limit_s"),
    };
    let why = match severity {
        Severity::Error => "it was ended, and left no report",
        _ => "it was ended; its report may lack the last part of the run",
    };
    let remedy = format!(
        "raise pipeline.nsys.{key}, capture less (profiling/nsys=nsys.gated), or leave the pass out \
         (pipeline.nsys.enable=false)"
    );
    Some(Id::NsysTimeLimit.graded(severity, what, why, remedy))
}

/// The signal that nsys ends the workload with at a shutdown; none: it sends none.
fn kill_signal(nsys: &Nsys) -> Option<i32> {
    match nsys.kill.as_deref() {
        Some("none") => None,
        Some("sigkill") => Some(9),
        None | Some("sigterm") => Some(15),
        Some(number) => number.parse().ok(),
    }
}

fn exit_text(exit: Option<WorkloadExit>) -> String {
    exit.map_or_else(|| "exit status unknown".to_owned(), WorkloadExit::describe)
}

/// Judges `nsys export` and `nsys stats`: what to tell where `wanted` is not all there, and what to do
/// then.
pub fn judge_tables(
    command: &str,
    ended: &CommandEnd,
    wanted: &Path,
    remedy: &str,
) -> Result<(), Finding> {
    let fail = |what: String, why: String| Err(Id::NsysTablesMissing.found(what, why, remedy));
    let file = wanted.display();
    if let Some(limit) = ended.timed_out_after {
        let why = format!("{file} may be cut short; see pipeline.nsys.export_time_limit_s");
        return fail(format!("{command} did not end within {} s", limit.as_secs_f64()), why);
    }
    let why =
        || complaint_about(&ended.log, wanted).unwrap_or_else(|| "its log gives no reason".into());
    match (ended.exit, wanted.metadata()) {
        (Some(WorkloadExit::Code(0)), Ok(found)) if found.len() > 0 => Ok(()),
        (Some(WorkloadExit::Code(0)), Ok(_)) => fail(format!("{command} left {file} empty"), why()),
        (Some(WorkloadExit::Code(0)), Err(_)) => {
            fail(format!("{command} did not write {file}"), why())
        }
        (exit, _) => fail(format!("{command} failed ({})", exit_text(exit)), why()),
    }
}

const NAME_LIMIT: usize = 80;

/// Adds to the finding on a range that never came what the collector saw in `paths`.
pub fn with_seen(mut finding: Finding, nsys: &Nsys, paths: &[PathRow]) -> Finding {
    let Ok(Some(capture)) = nsys.capture() else { return finding };
    let mut ranges: Vec<&PathRow> =
        paths.iter().filter(|row| row.kind == PathKind::Range).collect();
    // The outer ones are the stages that a capture is usually started by.
    ranges.order_by_key(|row| row.depth);
    let mut known = BTreeSet::new();
    let all = ranges.into_iter().filter(|row| known.insert((&row.name, &row.domain)));
    let all: Vec<&PathRow> = all.collect();
    if all.iter().any(|row| capture.takes(&row.name, row.domain.as_deref())) {
        finding.why += "; the collector saw it in its own run: either the two runs differ, or the range \
                        ended before nsys started to capture, which happens to ranges of a few \
                        milliseconds on a busy machine";
        return finding;
    }
    let labels: Vec<String> = all.iter().map(|row| label(row)).collect();
    finding.why = format!("{}; {}", finding.why, saw(&labels));
    finding
}

/// The range as nsys takes it.
fn label(row: &PathRow) -> String {
    let shown = |text: &str| shorten(&visible(text.as_bytes()), NAME_LIMIT);
    CaptureExpression::of(&shown(&row.name), row.domain.as_deref().map(shown).as_deref()).text
}

#[derive(Clone, Debug, Default)]
struct NsysLog {
    pub(super) range_started: bool,
    pub(super) import_failed: Option<String>,
    /// Why the report is not where it should be.
    pub(super) not_created: Option<String>,
    /// The first line of each known kind, in their order.
    known: Vec<(&'static Kind, String)>,
}

/// A line that nsys writes, and what it means.
#[derive(Debug, PartialEq)]
struct Kind {
    /// Any of these, in lower case: within the line, or as the whole of it where `^` stands before it.
    marks: &'static [&'static str],
    /// An error: there is no report. Else the report lacks something.
    severity: Severity,
    what: &'static str,
    remedy: &'static str,
}

const LOST_HELPER: &str = "nsys lost its own helper process";

const KINDS: &[Kind] = &[
    Kind {
        marks: &[
            "illegal --",
            "unrecognised option",
            "unrecognized option",
            "option is ambiguous",
            "cannot be specified more than once",
            "required argument is missing",
        ],
        severity: Severity::Error,
        what: "nsys does not accept its arguments",
        remedy: "a key of pipeline.nsys has a value that this version does not know: compare with \
                 `nsys profile --help`",
    },
    Kind {
        marks: &["executable not found"],
        severity: Severity::Error,
        what: "nsys does not find the program of the workload",
        remedy: "check the first word after `--`",
    },
    Kind {
        // On a busy machine 2023.4.4 fails at one start in 70, always before the workload runs.
        marks: &[
            "connection to agent lost",
            "agent launcher failed",
            "unable to connect to agent",
            "local endpoint is not available",
            "session name 'profile-",
            "^end of file",
        ],
        severity: Severity::Error,
        what: LOST_HELPER,
        remedy: "run it again; if it stays, use another version of nsys",
    },
    Kind {
        marks: &[
            "perf_event_open",
            "ptrace",
            "must be run as root",
            "requires root privileges",
            "insufficient privilege",
        ],
        severity: Severity::Error,
        what: "nsys is not permitted what it tries",
        remedy: "set pipeline.nsys.sample and cpuctxsw to none; in a container, allow ptrace and \
                 perf_event_open (--cap-add=SYS_ADMIN, or a seccomp profile that has them)",
    },
    Kind {
        marks: &["no space left on device"],
        severity: Severity::Error,
        what: "the disk is full",
        remedy: "free space in the run folder and in the temporary folder (TMPDIR)",
    },
    Kind {
        marks: &["this is most likely a bug", "nsys-launcher: ", "quaddaemon"],
        severity: Severity::Error,
        what: "nsys crashed",
        remedy: "run it again; if it stays, use another version of nsys",
    },
    Kind {
        marks: &["unknown runtime api function index", "unknown driver api function index"],
        severity: Severity::Warning,
        what: "nsys met a call of CUDA that it does not know, and may have dropped what came with it",
        remedy: "it is older than the workload's CUDA libraries: use an nsys as new as these",
    },
    Kind {
        marks: &["importation succeeded with non-fatal errors"],
        severity: Severity::Warning,
        what: "nsys imported its capture with errors",
        remedy: "records may be missing without any mark in the tables: rely on the comparison with the \
                 collector; a newer nsys may import all of it",
    },
    Kind {
        marks: &["multiple_subscribers", "multiple subscribers"],
        severity: Severity::Warning,
        what: "another tool in the workload holds CUPTI",
        remedy: "switch off the profiler that the workload itself starts (torch.profiler, ...)",
    },
    Kind {
        marks: &["err_nvgpuctrperm"],
        severity: Severity::Warning,
        what: "GPU counters are not permitted",
        remedy: "allow them to users (NVreg_RestrictProfilingToAdminUsers=0), or run as root",
    },
    Kind {
        marks: &[
            "sampling not supported",
            "context switch tracing not supported",
            "perf_event_paranoid",
            "paranoid level",
        ],
        severity: Severity::Note,
        what: "the CPU side of nsys is off",
        remedy: "set pipeline.nsys.sample and cpuctxsw to none, or lower kernel.perf_event_paranoid",
    },
    Kind {
        marks: &[
            "events were lost",
            "events have been dropped",
            "buffers were dropped",
            "might have not been collected",
            "not all events",
            "data loss",
        ],
        severity: Severity::Warning,
        what: "nsys lost records",
        remedy: "capture less (profiling/nsys=nsys.gated), or trace less (pipeline.nsys.trace)",
    },
    Kind {
        marks: &[
            "cuda profiling might have not been started",
            "cuda injection failed",
            "no cuda events collected",
        ],
        severity: Severity::Warning,
        what: "nsys recorded no GPU work",
        remedy: "the driver may be newer than this nsys knows: use a newer one",
    },
];

/// More than this of a line is not shown.
const MAX_SHOWN_CHARS: usize = 300;

impl NsysLog {
    fn in_log(log: &str) -> NsysLog {
        let mut said = NsysLog::default();
        for line in lines(log) {
            let low = line.to_ascii_lowercase();
            // Whole lines: the workload's own output must not end the search for them.
            said.range_started |= low == "capture range started in the application.";
            if said.import_failed.is_none() && low.starts_with("importer error status:") {
                said.import_failed = Some(shown(line));
            }
            if said.not_created.is_none() && low.starts_with("failed to create '") {
                said.not_created = Some(shown(line));
            }
            for is_refusal in [true, false] {
                let mut kinds = KINDS.iter().filter(|kind| kind.is_refusal() == is_refusal);
                if let Some((kind, at)) = kinds.find_map(|kind| Some((kind, kind.find(&low)?)))
                    && !said.known.iter().any(|(known, _)| *known == kind)
                {
                    said.known.push((kind, shown_from(line, at)));
                }
            }
        }
        said
    }

    /// Why it did not work, where it states it.
    fn refusal(&self) -> Option<Finding> {
        self.refused().map(|(kind, line)| kind.finding(line))
    }

    /// nsys lost its helper, in words that only nsys writes. It can then exit with status 0.
    fn lost_agent(&self) -> Option<Finding> {
        let (kind, line) = self.refused()?;
        line.starts_with("Connection to Agent lost.").then(|| kind.finding(line))
    }

    fn refused(&self) -> Option<&(&'static Kind, String)> {
        self.known.iter().find(|(kind, _)| kind.is_refusal())
    }

    /// Whether it was seen to work the next time: importer and helper fail now and then, above all on a busy machine.
    fn may_pass(&self) -> bool {
        let import =
            self.import_failed.as_ref().is_some_and(|line| line.contains("Importation failed"));
        import || self.refused().is_some_and(|(kind, _)| kind.what == LOST_HELPER)
    }

    /// What is missing from the report, as far as it states it.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let troubles = self.known.iter().filter(|(kind, _)| !kind.is_refusal());
        troubles.map(|(kind, line)| kind.finding(line)).collect()
    }
}

impl Kind {
    fn is_refusal(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Where a line in lower case has one of the marks.
    fn find(&self, line: &str) -> Option<usize> {
        self.marks.iter().find_map(|mark| match mark.strip_prefix('^') {
            Some(whole) => (line == whole).then_some(0),
            None => line.find(mark),
        })
    }

    fn finding(&self, line: &str) -> Finding {
        let id = if self.is_refusal() { Id::NsysFailed } else { Id::NsysComplains };
        id.graded(self.severity, self.what, format!("it says: {line}"), self.remedy)
    }
}

/// Captures and reports that the log names after `Generated:`.
fn generated(log: &str) -> Vec<PathBuf> {
    let after = lines(log).skip_while(|line| *line != "Generated:").skip(1);
    let files = after.take_while(|line| line.starts_with('/') || line.is_empty());
    let known = [".nsys-rep", ".qdrep", ".qdstrm"];
    let wanted = files.filter(|line| known.iter().any(|extension| line.ends_with(extension)));
    wanted.map(PathBuf::from).collect()
}

/// The last line that complains, or else the last at all.
fn last_complaint(log: &str) -> Option<String> {
    let complains = |line: &&str| {
        let low = line.to_ascii_lowercase();
        low.contains("error") || low.contains("failed") || low.contains("not ")
    };
    let all: Vec<&str> = lines(log).filter(|line| !line.is_empty()).collect();
    all.iter().rev().copied().find(complains).or(all.last().copied()).map(shown)
}

/// As [`last_complaint`], out of what `nsys stats` says about one of its tables where it names them.
fn complaint_about(log: &str, table: &Path) -> Option<String> {
    let name = table.file_name()?.to_string_lossy();
    let begins = |line: &str| line.trim_start().starts_with("Processing [");
    // The input stands in the line of every table: only the output tells them apart.
    let output =
        |line: &str| line.split_once("] to [")?.1.split_once(']').map(|(to, _)| to.to_owned());
    let writes = |line: &str| output(line).is_some_and(|to| to.contains(&*name));
    let from = lines(log).skip_while(|line| !(begins(line) && writes(line))).enumerate();
    let about = from.take_while(|(at, line)| *at == 0 || !begins(line)).map(|(_, line)| line);
    let about: Vec<&str> = about.collect();
    last_complaint(&about.join("\n")).or_else(|| last_complaint(log))
}

/// Lines of a log; a progress bar is rewritten with carriage returns.
fn lines(log: &str) -> impl Iterator<Item = &str> {
    log.split(['\n', '\r']).map(str::trim)
}

/// A line as it is shown, from byte `at` where that would be cut off: of what its importer throws,
/// nsys says the cause last, behind the place in its own source, and with line ends spelled out.
fn shown_from(line: &str, at: usize) -> String {
    match line.get(at..).filter(|_| at > MAX_SHOWN_CHARS / 2) {
        Some(cause) => shown(cause.trim_end_matches('"').trim_end_matches("\\n")),
        None => shown(line),
    }
}

fn shown(line: &str) -> String {
    match line.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((at, _)) => format!("{}...", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
