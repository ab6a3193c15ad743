//! What was recorded and what is missing, in all and for each process.

use std::collections::BTreeMap;

use crate::table::{ROWS, Table};
use stage2_contract::text::numbers::count;
use stage2_contract::text::{code, plain, shorten};
use stage2_model::{FileEnding, ProcessCoverage, Report};

pub(super) fn coverage(report: &Report) -> String {
    let mut out = String::new();
    let mut counts = report.coverage.total.labelled();
    counts.push(("spool files refused", report.coverage.files_refused));
    let table = Table::new(&counts)
        .left("what", |(label, _)| (*label).to_owned())
        .right("count", |(_, value)| count(*value));
    out.push_str(&table.markdown());
    out.push_str(&processes(report));
    out.push_str(&meta(report));
    out
}

fn processes(report: &Report) -> String {
    let processes = &report.coverage.processes;
    if processes.is_empty() {
        return String::new();
    }
    let table = Table::first(ROWS, processes)
        .left("file", |process| code(&process.file))
        .left("process", |process| code(&who(process)))
        .left("GPU", |process| gpu(process).to_owned())
        .left("ending", ending)
        .right("kernels", |process| process.counts.kernels.to_string())
        .right("attributed", |process| process.counts.attributed.to_string())
        .right("outside ranges", |process| process.counts.outside_ranges.to_string())
        .right("unattributed", |process| process.counts.unattributed.to_string())
        .right("dropped by CUPTI", |process| process.counts.dropped_by_cupti.to_string())
        .right("range events lost", |process| process.counts.range_events_lost.to_string())
        .right("invalid timestamps", |process| process.counts.invalid_timestamps.to_string())
        .right("undefined", |process| process.counts.undefined_identifiers.to_string());
    format!("### Coverage of each process\n\n{}", table.markdown())
}

fn who(process: &ProcessCoverage) -> String {
    let Some(pid) = process.pid else { return "not known".to_owned() };
    let exe = process.exe.as_deref().unwrap_or_default();
    let name = exe.rsplit('/').next().unwrap_or_default();
    format!("{pid} {}", shorten(name, 40))
}

fn gpu(process: &ProcessCoverage) -> &'static str {
    match process.gpu_off {
        Some(_) => "not recorded",
        None if process.simulated => "SIMULATED",
        None => "recorded",
    }
}

fn ending(process: &ProcessCoverage) -> String {
    let reason = process.end_reason.as_deref();
    let how = match process.ending {
        FileEnding::Complete => {
            // `exit` is what nobody asks about.
            let sudden = reason.filter(|r| r.starts_with("ended by") || r.starts_with("became"));
            return sudden.map_or("complete".into(), |how| format!("complete, {how}"));
        }
        FileEnding::Open => reason.unwrap_or("killed or still running"),
        FileEnding::Torn => "cut short",
        FileEnding::Unreadable => "not readable to the end",
    };
    how.to_owned()
}

/// Facts about the capture, each with the number of processes that state it.
fn meta(report: &Report) -> String {
    let mut facts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for process in &report.coverage.processes {
        // What the environment says stands in the table of processes.
        for (key, value) in process.meta.iter().filter(|(key, _)| !key.starts_with("env.")) {
            *facts.entry((key, value)).or_default() += 1;
        }
    }
    if facts.is_empty() {
        return String::new();
    }
    let facts: Vec<_> = facts.into_iter().collect();
    let table = Table::first(ROWS, &facts)
        .left("fact", |((key, _), _)| plain(key))
        .left("value", |((_, value), _)| plain(&shorten(value, 200)))
        .right("processes", |(_, processes)| processes.to_string());
    format!("### What the collector says about the capture\n\n{}", table.markdown())
}
