//! What was recorded and what is missing, in all and for each process.

use std::collections::BTreeMap;

use super::super::table::Align::{Left, Right};
use super::super::table::Table;
use super::{ROWS, left_out};
use stage2_model::{FileEnding, ProcessCoverage, Report};
use stage2_text::numbers::count;
use stage2_text::{code, plain, shorten};

pub(super) fn coverage(report: &Report) -> String {
    let mut out = String::from("## Coverage\n\n");
    let mut table = Table::new(&[("what", Left), ("count", Right)]);
    for (label, value) in report.coverage.total.labelled() {
        table.row([label.to_owned(), count(value)]);
    }
    table.row(["spool files refused".to_owned(), count(report.coverage.files_refused)]);
    out.push_str(&table.finish());
    out.push_str(&processes(report));
    out.push_str(&meta(report));
    out
}

fn processes(report: &Report) -> String {
    let processes = &report.coverage.processes;
    if processes.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("file", Left),
        ("process", Left),
        ("GPU", Left),
        ("ending", Left),
        ("kernels", Right),
        ("attributed", Right),
        ("outside ranges", Right),
        ("unattributed", Right),
        ("dropped by CUPTI", Right),
        ("range events lost", Right),
        ("invalid timestamps", Right),
        ("undefined", Right),
    ]);
    for process in processes.iter().take(ROWS) {
        let counts = &process.counts;
        table.row([
            code(&process.file),
            code(&who(process)),
            gpu(process),
            ending(process).to_owned(),
            counts.kernels.to_string(),
            counts.attributed.to_string(),
            counts.outside_ranges.to_string(),
            counts.unattributed.to_string(),
            counts.dropped_by_cupti.to_string(),
            counts.range_events_lost.to_string(),
            counts.invalid_timestamps.to_string(),
            counts.undefined_identifiers.to_string(),
        ]);
    }
    let more = left_out(processes.len(), ROWS, "metrics.json");
    format!("### Coverage of each process\n\n{}{more}", table.finish())
}

fn who(process: &ProcessCoverage) -> String {
    let Some(pid) = process.pid else { return "not known".to_owned() };
    let exe = process.exe.as_deref().unwrap_or_default();
    let name = exe.rsplit('/').next().unwrap_or_default();
    format!("{pid} {}", shorten(name, 40))
}

fn gpu(process: &ProcessCoverage) -> String {
    let kind = if process.simulated { "SIMULATED" } else { "recorded" };
    process.gpu_off.as_ref().map_or(kind, |_| "not recorded").to_owned()
}

fn ending(process: &ProcessCoverage) -> &'static str {
    match process.ending {
        FileEnding::Complete => "complete",
        FileEnding::Open => "killed or still running",
        FileEnding::Torn => "cut short",
        FileEnding::Unreadable => "not readable to the end",
    }
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
    let all = facts.len();
    let mut table = Table::new(&[("fact", Left), ("value", Left), ("processes", Right)]);
    for ((key, value), processes) in facts.into_iter().take(ROWS) {
        table.row([plain(key), plain(&shorten(value, 200)), processes.to_string()]);
    }
    let more = left_out(all, ROWS, "metrics.json");
    format!("### What the collector says about the capture\n\n{}{more}", table.finish())
}
