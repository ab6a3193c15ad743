//! What ran, and on which GPUs.

use crate::table::{ROWS, Table, none, paragraph};
use stage2_contract::text::numbers::{count, counted, ms3, percent1};
use stage2_contract::text::{code_in_text, plain, shorten};
use stage2_model::Report;
use stage2_report::in_part;

/// Characters of a command line.
const COMMAND_LIMIT: usize = 2_000;

pub(super) fn what_ran(report: &Report) -> String {
    let run = &report.run;
    let mut out = String::new();
    if let Some(command) = &run.command {
        // For reading; metrics.json has the words themselves.
        let words = shlex::try_join(command.iter().map(String::as_str));
        let line = shorten(&words.unwrap_or_else(|_| command.join(" ")), COMMAND_LIMIT);
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
        counted(counts.graph_launches, "whole graph"),
        counted(counts.ranges, "range instance"),
    ));
    if !run.environment.is_empty() {
        let table = Table::new(&run.environment)
            .left("environment", |fact| plain(&fact.key))
            .left("value", |fact| plain(&shorten(&fact.value, 200)));
        out.push_str(&table.markdown());
    }
    out
}

pub(super) fn devices(report: &Report) -> String {
    if report.devices.is_empty() {
        return none("no GPU was recorded", "");
    }
    let table = Table::first(ROWS, &report.devices)
        .left("GPU", |row| plain(&row.device))
        .left("compute", |row| row.compute_capability.as_deref().map(plain))
        .right("SMs", |row| row.multiprocessors.map(|sms| sms.to_string()))
        .right("memory_MiB", |row| row.memory_bytes.map(|bytes| (bytes >> 20).to_string()))
        .right("processes", |row| row.processes.to_string())
        .right("kernels", |row| row.kernels.to_string())
        .right("kernel_sum_ms", |row| ms3(row.kernel_sum_ns))
        .right("busy_ms", |row| row.gpu_busy_ns.map(ms3))
        .right("first_to_last_work_ms", |row| row.gpu_span_ns.map(ms3))
        .right("busy_%", |row| row.gpu_busy_percent.map(percent1))
        .left("uuid", |row| row.uuid.as_deref().map(plain))
        .left("host", |row| row.host.as_deref().map(plain));
    format!(
        "{}`busy_ms` is the union of all kernels, copies, fills and graphs; `busy_%` its \
         share of the time from the first work to the last of any process. Busy times are summed \
         over processes; if these used a GPU at the same time, no share is given.\n\n{}",
        table.markdown(),
        in_part::whole_run(report).map_or_else(String::new, |note| paragraph(&note)),
    )
}
