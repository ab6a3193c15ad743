//! What ran, and on which GPUs.

use super::super::table::Align::{Left, Right};
use super::super::table::Table;
use super::{ROWS, left_out};
use stage2_analysis::in_part;
use stage2_model::{DeviceRow, Report};
use stage2_text::numbers::{count, counted, ms3, or_absent, percent1};
use stage2_text::{code_in_text, plain, shorten};

/// Characters of a command line.
const COMMAND_LIMIT: usize = 2_000;

pub(super) fn what_ran(report: &Report) -> String {
    let run = &report.run;
    let mut out = String::from("## What ran\n\n");
    if let Some(command) = &run.command {
        let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        let line = shorten(&words.join(" "), COMMAND_LIMIT);
        out.push_str(&format!("- command: {}\n", code_in_text(&line)));
    }
    if let Some(started) = &run.started {
        out.push_str(&format!("- started: {}\n", plain(started)));
    }
    for pass in &run.passes {
        let duration = pass.duration_ms.map(|ms| format!("{} ms", count(ms)));
        let facts = [&pass.name, &pass.status, &pass.exit, &duration, &pass.why];
        let facts: Vec<String> = facts.into_iter().flatten().map(|fact| plain(fact)).collect();
        out.push_str(&format!("- pass: {}\n", facts.join(", ")));
    }
    let counts = &report.coverage.total;
    out.push_str(&format!(
        "- recorded: {}, {}, {}, {}, {}, {}\n\n",
        counted(report.coverage.processes.len() as u64, "process"),
        counted(counts.kernels, "kernel"),
        counted(counts.copies, "copy"),
        counted(counts.fills, "fill"),
        counted(counts.graph_launches, "graph launch"),
        counted(counts.ranges, "range instance"),
    ));
    if !run.environment.is_empty() {
        let mut table = Table::new(&[("environment", Left), ("value", Left)]);
        for fact in &run.environment {
            table.row([plain(&fact.key), plain(&shorten(&fact.value, 200))]);
        }
        out.push_str(&table.finish());
    }
    out
}

/// A word as a shell would need it, for reading; metrics.json has the words themselves.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

pub(super) fn devices(report: &Report) -> String {
    if report.devices.is_empty() {
        return "## GPUs\n\nNone, because no GPU was recorded.\n\n".to_owned();
    }
    let mut table = Table::new(&[
        ("GPU", Left),
        ("compute", Left),
        ("SMs", Right),
        ("memory_MiB", Right),
        ("processes", Right),
        ("kernels", Right),
        ("kernel_sum_ms", Right),
        ("busy_ms", Right),
        ("first_to_last_work_ms", Right),
        ("busy_%", Right),
        ("uuid", Left),
        ("host", Left),
    ]);
    for row in report.devices.iter().take(ROWS) {
        add(&mut table, row);
    }
    let in_part = in_part::whole_run(report);
    let in_part = in_part.map_or_else(String::new, |note| format!("{}\n\n", plain(&note)));
    format!(
        "## GPUs\n\n{}{}`busy_ms` is the union of all kernels, copies, fills and graphs; \
         `busy_%` its share of the time from the first work to the last of any process. Busy times \
         are summed over processes; where these used a GPU at the same time, no share is \
         given.\n\n{in_part}",
        table.finish(),
        left_out(report.devices.len(), ROWS, "metrics.json"),
    )
}

fn add(table: &mut Table, row: &DeviceRow) {
    let text = |value: &Option<String>| or_absent(value.as_deref(), plain);
    table.row([
        plain(&row.device),
        text(&row.compute_capability),
        or_absent(row.multiprocessors, |v| v.to_string()),
        or_absent(row.memory_bytes, |v| (v >> 20).to_string()),
        row.processes.to_string(),
        row.kernels.to_string(),
        ms3(row.kernel_sum_ns),
        or_absent(row.gpu_busy_ns, ms3),
        or_absent(row.gpu_span_ns, ms3),
        or_absent(row.gpu_busy_percent, percent1),
        text(&row.uuid),
        text(&row.host),
    ]);
}
