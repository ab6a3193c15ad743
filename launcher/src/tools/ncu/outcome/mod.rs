//! How a run of ncu ended and what it said -> what became of it, and what to do next.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use regex::Regex;

use super::command::Filter;
use super::expression::{self, Around, Expression, Frame};
use super::{RangeTime, ranges_seen};
use crate::tools::CommandEnd;
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::numbers::count;
use stage2_contract::text::{self, listed};
use stage2_model::finding::Id;
use stage2_model::{Finding, Severity, WorkloadExit};
use stage2_read::ncu::nvtx::{DEFAULT_DOMAIN, Label};

/// A run of ncu over the workload that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolRun<'a> {
    pub(crate) ended: &'a CommandEnd,
    /// Everything that it said: its log file, and its standard error where that was kept.
    pub(crate) log: &'a str,
    pub(crate) report_bytes: Option<u64>,
    pub(crate) filtered: bool,
    /// Exit status that the workload has without a profiler, where that is known.
    pub(crate) workload_exit: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Complete,
    /// There is a report, of a part of what was asked for.
    Partial,
    /// Nothing passed the filters: run it once more without them.
    Retry,
    Failed,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) findings: Vec<Finding>,
}

/// What ncu says, in part, and what it means.
struct KnownMessage {
    says: &'static [&'static str],
    what: &'static str,
    why: &'static str,
    remedy: &'static str,
}

/// Reasons why nothing can be measured, the most specific first. The texts are those of ncu; the
/// same run often also says that no kernels were profiled, which then does not call for another run.
const HOPELESS: &[KnownMessage] = &[
    KnownMessage {
        says: &["ERR_NVGPUCTRPERM"],
        what: "ncu may not read the performance counters (ERR_NVGPUCTRPERM)",
        why: "the driver keeps them for administrators",
        remedy: "load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0 (in a file of \
                 /etc/modprobe.d, then reboot), or run as root or with CAP_SYS_ADMIN, in containers \
                 too",
    },
    KnownMessage {
        says: &["driver resource was unavailable", "DCGM"],
        what: "ncu could not get the performance counters: another tool is using them",
        why: "one tool at a time can measure, and DCGM often does",
        remedy: "stop it for the time of the run: `dcgmi profile --pause`, or end other profilers",
    },
    KnownMessage {
        says: &["InterprocessLockFailed"],
        what: "ncu could not take the lock that keeps its runs apart",
        why: "the lock file in the folder for temporary files belongs to another user",
        remedy: "remove nsight-compute-lock there, or set TMPDIR to a folder of your own",
    },
    KnownMessage {
        says: &["Cannot lock GPU clock frequencies", "failed to lock GPU clocks"],
        what: "ncu could not lock the clocks",
        why: "that needs rights, and is not possible on MIG",
        remedy: "leave them alone: pipeline.ncu.ncu_cli.clock_control=none",
    },
    KnownMessage {
        says: &["Failed to initialize the profiler", "LibraryNotLoaded"],
        what: "ncu could not start measuring on this machine",
        why: "this ncu and the driver do not fit, or a sandbox hides the counters",
        remedy: "use an ncu at least as new as the driver, outside of sandboxes such as gVisor",
    },
    KnownMessage {
        says: &["failed to connect to the CUDA driver", "Cuda driver is not compatible"],
        what: "ncu did not find a CUDA driver that it can use",
        why: "none is installed, or a stub libcuda.so comes first",
        remedy: "check with nvidia-smi, and take stubs out of LD_LIBRARY_PATH",
    },
    KnownMessage {
        says: &["is not supported on this device", "Profiling is not supported on device"],
        what: "ncu does not support this GPU",
        why: "the GPU is newer or older than this version knows, or is shared in a way that hides its counters",
        remedy: "use an ncu that supports it",
    },
    KnownMessage {
        says: &["Failed to find metric", "Could not find metric", "No metrics to collect found"],
        what: "ncu refused a metric",
        why: "the GPU does not have it",
        remedy: "take it out of pipeline.ncu.ncu_cli.metrics; `ncu --query-metrics` lists the metrics",
    },
    KnownMessage {
        says: &["did not match any section", "No section found", "Failed to find section"],
        what: "ncu refused a section",
        why: "this version does not have it",
        remedy: "take it out of pipeline.ncu.ncu_cli.sections; sections.txt lists the sections",
    },
    KnownMessage {
        says: &["Invalid configuration for nvtx-"],
        what: "ncu refused an expression of ranges",
        why: "its grammar has no such form, or the regular expression is wrong",
        remedy: "correct pipeline.ncu.ncu_cli.nvtx: NAME/, OUTER/*/INNER/, DOMAIN@NAME/, a glob, or \
                 regex:EXPRESSION",
    },
    KnownMessage {
        says: &["unrecognised option", "unrecognized option", "invalid option"],
        what: "ncu did not understand its arguments",
        why: "this version does not have one of them",
        remedy: "see its log for which, and leave that setting at its default",
    },
];

/// What ncu says when every launch was filtered out, or none was met.
const NOTHING_PROFILED: &[&str] = &["No kernels were profiled", "No ranges were profiled"];

/// What ncu says of a workload that failed.
const APPLICATION_FAILED: &str = "The application returned an error code";

pub(crate) fn judge(run: &ToolRun<'_>) -> Outcome {
    let mut findings = Vec::new();
    let said = run.log;
    let has_report = run.report_bytes.is_some_and(|bytes| bytes > 0);
    let status = run.ended.status();
    match (run.ended.timed_out_after, run.ended.exit) {
        (Some(limit), _) => findings.push(out_of_time(limit, run.ended.outgrew, has_report)),
        (None, None) => {
            return Outcome { verdict: Verdict::Failed, findings: vec![not_started(run.ended)] };
        }
        (None, Some(WorkloadExit::Signal(signal))) => {
            findings.push(crashed(signal, has_report, said));
        }
        (None, Some(WorkloadExit::Code(_))) => {}
    }
    let known = HOPELESS.iter().find(|known| known.says.iter().any(|part| said.contains(part)));
    let nothing = NOTHING_PROFILED.iter().find(|part| said.contains(**part)).copied();
    if let Some(known) = known {
        let line = said.lines().find(|line| known.says.iter().any(|part| line.contains(part)));
        let why = format!("{}; it says: {}", known.why, line.map(shown).unwrap_or_default());
        let severity =
            if has_report && nothing.is_none() { Severity::Warning } else { Severity::Error };
        findings.insert(0, Id::NcuFailed.graded(severity, known.what, why, known.remedy));
    } else if let Some(nothing) = nothing {
        let retry = run.filtered && status.is_some();
        findings.push(nothing_profiled(nothing, run));
        let verdict = if retry { Verdict::Retry } else { Verdict::Failed };
        return Outcome { verdict, findings };
    }
    if let Some(status) = status {
        findings.extend(exit_status(status, run, known.is_some()));
    }
    if !has_report {
        if findings.is_empty() {
            findings.push(no_report(run.report_bytes, said));
        }
        return Outcome { verdict: Verdict::Failed, findings };
    }
    if nothing.is_some() {
        return Outcome { verdict: Verdict::Failed, findings };
    }
    let whole =
        status.is_some() && known.is_none() && !said.contains("==ERROR== Failed to profile");
    Outcome { verdict: if whole { Verdict::Complete } else { Verdict::Partial }, findings }
}

fn not_started(ended: &CommandEnd) -> Finding {
    let not_found = ended.refused.as_ref().is_some_and(|why| why.contains("not found"));
    let (what, remedy) = if not_found {
        ("ncu was not found", "install Nsight Compute, or set pipeline.ncu.executable to its path")
    } else {
        ("ncu could not be started", "check that pipeline.ncu.executable may be run")
    };
    Id::NcuFailed.found(what, "counters are missing from the reports", remedy)
}

fn out_of_time(limit: Duration, outgrew: Option<u64>, has_report: bool) -> Finding {
    let why = if has_report {
        "the launches that were profiled by then are used"
    } else {
        "it had written nothing by then"
    };
    let (what, key) = match outgrew {
        Some(bytes) => (format!("ncu wrote more than {} bytes", count(bytes)), "size_limit_bytes"),
        None => (format!("ncu was ended after {} s", limit.as_secs()), "time_budget_s"),
    };
    let remedy =
        format!("raise pipeline.ncu.{key}, lower top_n, or measure less (ncu_cli.set, metrics)");
    Id::NcuTimeLimit.found(what, why, remedy)
}

fn crashed(signal: i32, has_report: bool, said: &str) -> Finding {
    let what = format!("ncu was ended by signal {signal}");
    let why = match last_error(said) {
        Some(line) => format!("its last message is: {line}"),
        None if has_report => "what it had written is used".to_owned(),
        None => "it printed nothing, and wrote no report".to_owned(),
    };
    let remedy = "run again; if it stays, profile less (pipeline.ncu.top_n) or use another ncu";
    Id::NcuFailed.found(what, why, remedy)
}

fn nothing_profiled(says: &str, run: &ToolRun<'_>) -> Finding {
    let ranges = says.contains("ranges");
    let what = format!("ncu profiled nothing (\"{says}\")");
    if run.filtered {
        let why = match available_kernels(run.log).as_slice() {
            [] => "no launch passed the filters by name and range".to_owned(),
            seen => format!("of the kernels that ran none passed the filters: {}", seen.join(", ")),
        };
        let remedy = "it is run once more without them; kernels have to be launched on the thread \
                      that opened the range";
        return Id::NcuNothingProfiled.found(what, why, remedy);
    }
    let (why, remedy) = if ranges {
        (
            "no range was met that could be replayed",
            "synchronize at the end of the range, and open it after the first CUDA call; \
             replay_mode=app-range replays more",
        )
    } else {
        (
            "the workload launched no kernel that ncu saw",
            "check that it uses the GPU when run alone; launch_skip has to be lower than its launches",
        )
    };
    Id::NcuNothingProfiled.graded(Severity::Error, what, why, remedy)
}

/// The first kernels that ncu lists as met and not profiled.
fn available_kernels(said: &str) -> Vec<String> {
    const SHOWN: usize = 5;
    let list = said.lines().skip_while(|line| !line.starts_with("Available Kernels:")).skip(1);
    let names = list.map_while(|line| Some(line.split_once(". ")?.1.trim())).take(SHOWN);
    names.map(|name| text::shorten(&text::visible(name.as_bytes()), 60)).collect()
}

/// Status of a workload that failed under ncu; nothing: it did not, or the status is ncu's own.
pub(crate) fn failed_workload(run: &ToolRun<'_>) -> Option<i32> {
    let status = run.ended.status()?;
    let is_its = run.log.contains(APPLICATION_FAILED) || run.workload_exit == Some(status);
    (status != 0 && is_its).then_some(status)
}

/// What an exit status other than 0 means. ncu passes that of the workload on.
fn exit_status(status: i32, run: &ToolRun<'_>, explained: bool) -> Option<Finding> {
    if status == 0 || explained || run.workload_exit == Some(status) {
        return None;
    }
    let (what, remedy) = if run.log.contains(APPLICATION_FAILED) {
        (
            format!("the workload ended with status {status} under ncu"),
            "run the workload alone; memory may be short, since ncu saves what kernels write \
             (ncu_cli.replay_mode=application does not)",
        )
    } else {
        (format!("ncu ended with status {status}"), "see its log")
    };
    let why = last_error(run.log).unwrap_or_else(|| "it gives no reason".to_owned());
    Some(Id::NcuFailed.graded(Severity::Warning, what, why, remedy))
}

fn no_report(bytes: Option<u64>, said: &str) -> Finding {
    let what = match bytes {
        Some(_) => "ncu wrote an empty report",
        None => "ncu wrote no report",
    };
    let why = last_error(said).unwrap_or_else(|| "it gives no reason".to_owned());
    Id::NcuFailed.found(what, why, "check the space left in the folder, and its log")
}

pub(crate) fn judge_import(
    file: &Path,
    ended: &CommandEnd,
    said: &str,
    csv_bytes: Option<u64>,
) -> Option<Finding> {
    let file = text::visible_path(file);
    let missing = csv_bytes.is_none_or(|bytes| bytes == 0);
    let other =
        ["newer version", "not supported by this version", "Unsupported report", "older version"];
    if other.iter().any(|part| said.contains(part)) {
        let what = format!("{file} was written by another version of ncu");
        let why = last_error(said).unwrap_or_else(|| "this one cannot read it".to_owned());
        let remedy = "read it with an ncu at least as new as the one that wrote it";
        return Some(Id::NcuFailed.found(what, why, remedy));
    }
    let why = match (ended.timed_out_after, ended.exit) {
        (Some(limit), _) => format!("ncu was ended after {} s", limit.as_secs()),
        (None, None) => return Some(not_started(ended)),
        (None, Some(WorkloadExit::Code(0))) if !missing => return None,
        (None, Some(WorkloadExit::Code(0))) => "ncu printed nothing".to_owned(),
        (None, Some(WorkloadExit::Code(status))) => format!("ncu ended with status {status}"),
        (None, Some(WorkloadExit::Signal(signal))) => format!("ncu was ended by signal {signal}"),
    };
    let why = match last_error(said) {
        Some(line) => format!("{why}; it says: {line}"),
        None => why,
    };
    let what = format!("the tables of {file} could not be printed");
    Some(Id::NcuFailed.found(what, why, "the report may be cut short: run ncu again"))
}

fn last_error(said: &str) -> Option<String> {
    let errors = |mark: &str| said.lines().rfind(|line| line.contains(mark)).map(shown);
    errors("==ERROR==").or_else(|| errors("==WARNING=="))
}

fn shown(line: &str) -> String {
    const LONGEST: usize = 240;
    let line = line.trim().trim_start_matches("==ERROR==").trim_start_matches("==WARNING==").trim();
    text::shorten(&text::visible(line.as_bytes()), LONGEST)
}

/// Expressions that are listed and explained.
const LISTED: usize = 8;
/// Longer expressions are not read.
const LONGEST: usize = 4096;

/// What to tell after a run that profiled nothing with this filter; nothing where it asks for no ranges.
pub(crate) fn nothing_passed(
    filter: &Filter,
    start_end: bool,
    seen: &[RangeTime],
) -> Option<Finding> {
    let asked = &filter.nvtx_include;
    if asked.is_empty() {
        return None;
    }
    let explained = asked.iter().take(LISTED);
    let causes: BTreeSet<String> =
        explained.map(|text| cause(text, filter, start_end, seen)).into_set();
    let causes: Vec<String> = causes.into_iter().collect();
    let kernels = match filter.kernel_name {
        Some(_) => {
            "; the kernels that are profiled depend on pipeline.ncu.kernel_include, kernel_exclude, \
             top_n and ncu_cli.kernel_name"
        }
        None => "",
    };
    let what = format!("ncu profiled nothing with these filters: {}", listed(asked, LISTED));
    let why = format!("{}; {}", causes.join("; "), ranges_seen(seen));
    let remedy = format!(
        "correct pipeline.ncu.stage (NAME or NAME@DOMAIN) or pipeline.ncu.ncu_cli.nvtx.include \
         (NAME/, OUTER/*/INNER/, DOMAIN@NAME/, a glob, or regex:EXPRESSION){kernels}"
    );
    Some(Id::NcuNothingProfiled.found(what, why, remedy))
}

fn cause(text: &str, filter: &Filter, start_end: bool, seen: &[RangeTime]) -> String {
    let expression = Some(text).filter(|text| text.len() <= LONGEST);
    let Some(expression) = expression.and_then(|text| expression::read(text, start_end)) else {
        return format!("{text} cannot be compared with the ranges of the run");
    };
    let hit = |any_domain: bool| -> Vec<&RangeTime> {
        let is_hit = |stack: &[Label]| matches(&expression, start_end, stack, any_domain);
        seen.iter().filter(|range| is_hit(&range.stack)).collect()
    };
    let here = hit(false);
    if here.iter().any(|range| range.kernels > 0) {
        return format!("kernels ran in {text} in the collect pass; either {}", filtered(filter));
    }
    if !here.is_empty() {
        return format!("no kernel was launched in {text}");
    }
    let elsewhere = hit(true);
    let form = |range: &&RangeTime| {
        expression::exact(range.stack.get(range.stack.len() - 1..)?, Around::Anything, start_end)
    };
    match elsewhere.iter().find_map(form) {
        Some(form) => format!("{text}: the range is in another domain: write {form}"),
        None => format!("{text} matches no range of the run"),
    }
}

/// What may keep out kernels that ran in a range that was asked for.
fn filtered(filter: &Filter) -> String {
    let mut causes = Vec::new();
    if filter.kernel_name.is_some() {
        causes.push("none of them passed the kernel name filter".to_owned());
    }
    if !filter.nvtx_exclude.is_empty() {
        causes.push(format!("all are in the excluded {}", listed(&filter.nvtx_exclude, LISTED)));
    }
    causes.push("other threads than the one that opened the range launched them".to_owned());
    causes.push(
        "the range is of the other kind: push/pop ranges are written with a slash at the end, \
         start/end ranges without"
            .to_owned(),
    );
    causes.join(", or ")
}

/// Whether an expression takes a launch in the innermost range of a stack. Start/end ranges have no order.
fn matches(
    expression: &Expression<Regex>,
    start_end: bool,
    stack: &[Label],
    any_domain: bool,
) -> bool {
    let Expression { domain, bottom, frames, top } = expression;
    let in_domain = |label: &&Label| match (domain, &label.domain) {
        _ if any_domain => true,
        (None, domain) => domain.is_none(),
        (Some(wanted), domain) => wanted.is_match(domain.as_deref().unwrap_or(DEFAULT_DOMAIN)),
    };
    let labels: Vec<&Label> = stack.iter().filter(in_domain).collect();
    if start_end {
        return frames.iter().all(|frame| match frame {
            Frame::Name(name) => labels.iter().any(|label| name.is_match(&label.name)),
            Frame::Between(_) => true,
        });
    }
    // How far into the stack the frames so far may reach.
    let mut reached: BTreeSet<usize> =
        if *bottom { [0].into() } else { (0..=labels.len()).collect() };
    for frame in frames {
        reached = match frame {
            Frame::Between('*') => {
                let first = reached.first().copied().unwrap_or(labels.len() + 1);
                (first..=labels.len()).collect()
            }
            Frame::Between(_) => reached.iter().map(|at| at + 1).collect(),
            Frame::Name(name) => {
                let hit = |at: &&usize| labels.get(**at).is_some_and(|l| name.is_match(&l.name));
                reached.iter().filter(hit).map(|at| at + 1).collect()
            }
        };
        reached.retain(|at| *at <= labels.len());
    }
    if *top { reached.contains(&labels.len()) } else { !reached.is_empty() }
}

#[cfg(test)]
mod tests;
