//! Ranks -> their sections of `report.md`, and one line for the head of every page.

use super::table::{ROWS, Table, name};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted, ms3, ratio3, us3};
use stage2_contract::text::{code, plain};
use stage2_model::{CollectiveRow, LateRow, RankStageRow, Report, late_in_turn};

/// Ranks that the head of a page names.
const NAMED: usize = 8;
/// Late ranks that are named in a sentence.
const LATE_NAMED: usize = 8;

/// Whether the run is a job of several ranks.
pub(super) fn is_job(report: &Report) -> bool {
    report.ranks.seen > 1 || report.ranks.expected.is_some_and(|expected| expected > 1)
}

/// `2 of 2 seen, on 1 host`.
pub(super) fn seen(report: &Report) -> String {
    let ranks = &report.ranks;
    let of = ranks.expected.map_or_else(String::new, |all| format!(" of {}", count(all)));
    format!("{}{of} seen, on {}", count(ranks.seen), counted(ranks.hosts, "host"))
}

/// How many ranks were seen, and where each of them ran; `None` where there are no ranks.
pub(super) fn head(report: &Report) -> Option<String> {
    if !is_job(report) {
        return None;
    }
    let rows = report.processes.iter().filter(|row| !row.inherited_rank);
    let mut rows: Vec<_> = rows.filter_map(|row| Some((row.rank?, row))).collect();
    rows.order_by_key(|(rank, _)| *rank);
    let mut out = format!("{}: ", seen(report));
    for (at, (rank, row)) in rows.iter().take(NAMED).enumerate() {
        let gpus: Vec<String> = row.devices.iter().map(|device| gpu(device)).collect();
        let gpus = if gpus.is_empty() { "no GPU".to_owned() } else { gpus.join(" + ") };
        let host = row.host.as_deref().unwrap_or("an unknown host");
        let gap = if at > 0 { "; " } else { "" };
        out.push_str(&format!("{gap}rank {rank} on {host}, {gpus}"));
    }
    if rows.len() > NAMED {
        out.push_str(&format!("; and {} more", rows.len() - NAMED));
    }
    Some(out)
}

/// `GPU 0 (NVIDIA H200)` for the device `0 NVIDIA H200`; any other label as it is.
fn gpu(device: &str) -> String {
    match device.split_once(' ') {
        Some((index, name)) if index.parse::<u32>().is_ok() => format!("GPU {index} ({name})"),
        _ => device.to_owned(),
    }
}

/// What each rank or process did, and who was late: a section of report.md.
pub(super) fn ranks(report: &Report) -> (&'static str, String) {
    let rows = late_ranks(report) + &stages(&report.ranks.stages);
    match is_job(report) {
        true => ("Ranks", format!("Ranks: {}.\n\n{rows}", plain(&seen(report)))),
        false => ("Processes by stage", rows),
    }
}

fn late_ranks(report: &Report) -> String {
    let mut out = String::new();
    let late = report.ranks.late.iter().filter_map(|row| Some((row, row.sentence()?)));
    let late: Vec<(&LateRow, String)> = late.collect();
    for (row, sentence) in late.iter().take(LATE_NAMED) {
        out.push_str(&format!("- {}: {}.\n", code(&row.stage), plain(sentence)));
    }
    let mut stages: Vec<&str> = report.ranks.stages.iter().map(|row| row.stage.as_str()).collect();
    stages.dedup();
    let in_turn = stages.into_iter().filter_map(|stage| {
        Some(format!("- {}: {}.\n", code(stage), plain(&late_in_turn(&report.ranks.late, stage)?)))
    });
    let in_turn: String = in_turn.take(LATE_NAMED).collect();
    out.push_str(&in_turn);
    let Some(error_ns) = report.ranks.clock_error_ns else { return out };
    if late.is_empty() && in_turn.is_empty() {
        let noise = match report.ranks.late.is_empty() {
            true => "the error of the clocks",
            false => "all ranks are now and then",
        };
        out.push_str(&format!("- No rank was late by more than {noise}.\n"));
    }
    if late.len() > LATE_NAMED {
        out.push_str("- metrics.json lists more late ranks.\n");
    }
    let hosts = if report.ranks.hosts > 1 {
        "Hosts share no clock: their clocks are aligned by the collectives in which no member can end before \
         the last one has started."
    } else {
        "The ranks share the clock of their host."
    };
    out.push_str(&format!(
        "\nTimes of different ranks are comparable within {} us; lateness below that is not reported. \
         {hosts} A rank arrives at a collective when its communication kernel starts. Its delay is how long after the \
         median of the others it arrives; in a step, the sum of these.\n\n",
        us3(error_ns)
    ));
    out
}

fn stages(rows: &[RankStageRow]) -> String {
    Table::first(ROWS, rows)
        .left("stage", |row| name(&row.stage))
        .left("who", |row| plain(&row.who).replace("rank ", "rank\u{a0}"))
        .right("instances", |row| row.instances.to_string())
        .right("host median, ms (without first)", |row| row.host_warm_median_ns.map(ms3))
        .right("waiting, ms (without first)", |row| row.warm_waiting_ns.map(ms3))
        .right("transfer, ms (without first)", |row| row.warm_transfer_ns.map(ms3))
        .right("GPU busy, ms", |row| row.gpu_busy_ns.map(ms3))
        .right("GPU idle, ms", |row| row.gpu_idle_ns.map(ms3))
        .right("kernels", |row| row.kernels.map(|kernels| kernels.to_string()))
        .right("host total, ms", |row| row.host_total_ns.map(ms3))
        .right("waiting, ms", |row| row.waiting_ns.map(ms3))
        .right("transfer, ms", |row| row.transfer_ns.map(ms3))
        .right("communication, ms (waiting included)", |row| {
            row.communication_ns.filter(|&ns| ns > 0).map(ms3)
        })
        .with_note(
            "The slowest rank of each stage comes first: the one that waited least for the others (without first), \
             where that is known, and else the one with the longest host time. Unless a heading says `without first`, values are of \
             all calls, with the cold ones.",
        )
}

pub(super) fn collectives(report: &Report) -> String {
    let rows = &report.ranks.collectives;
    if rows.is_empty() {
        return String::new();
    }
    let table = Table::first(ROWS, rows)
        .left("stage", |row| name(&row.stage))
        .left("operation", |row| row.operation.label().to_owned())
        .left("communicator", |row| row.communicator.as_deref().map(code))
        .right("members seen", |row| row.members.to_string())
        .right("calls", |row| row.calls.to_string())
        .right("of graph replays", |row| {
            Some(row.replayed_calls).filter(|&calls| calls > 0).map(|calls| calls.to_string())
        })
        .right("bytes per call", bytes_per_call)
        .right("bytes in all", |row| row.bytes_total.map(|bytes| bytes.to_string()))
        .right("time, ms", |row| ms3(row.time_ns))
        .right("transfer, ms", |row| row.transfer_ns.map(ms3))
        .right("waiting, ms", |row| row.waiting_ns.map(ms3))
        .right("bus GB/s", |row| row.bus_gb_per_s.map(ratio3))
        .right("not matched", |row| {
            let calls = row.unmatched.iter().fold(0u64, |sum, u| sum.saturating_add(u.calls));
            (calls > 0).then(|| calls.to_string())
        });
    let mut out = table.with_note(
        "Calls, bytes and times are sums over the members, with the first, cold call of each process, in which ranks \
         can wait for long; Ranks by stage is without it. The time runs from the start of a call's \
         first kernel to the end of its last. Where all members were recorded, it splits into waiting \
         (before the last member arrived) and transfer (afterwards); operations that need not wait \
         for all members are not split. Bus GB/s is as NCCL's tests define it (1e9 bytes), over the \
         time from the last arrival to the last end. Bytes are the sizes that NCCL states of its \
         messages: of AllGather, ReduceScatter and AllToAll those of one member's part.",
    );
    if report.is_sampled() {
        out.push_str(
            "Only some instances of ranges were recorded: calls, bytes and times are scaled to all, \
             as those of kernels are; bandwidth is that of the recorded ones.\n\n",
        );
    }
    if let Some(compared) = report.ranks.compared {
        out.push_str(&format!(
            "There were more calls than are kept one by one: {}. Counts, bytes and times are scaled to all \
             calls.\n\n",
            compared.sentence()
        ));
    }
    out.push_str(&notes(rows));
    out
}

fn bytes_per_call(row: &CollectiveRow) -> Option<String> {
    match (row.bytes_min?, row.bytes_max?) {
        (least, most) if least == most => Some(least.to_string()),
        (least, most) => Some(format!("{least} to {most}")),
    }
}

/// What the numbers are not.
fn notes(rows: &[CollectiveRow]) -> String {
    let mut out = String::new();
    for row in rows.iter().take(ROWS) {
        for unmatched in &row.unmatched {
            out.push_str(&format!(
                "- {} in {}: {} calls are not matched, because {}.\n",
                row.operation.label(),
                name(&row.stage),
                count(unmatched.calls),
                plain(&unmatched.why)
            ));
        }
    }
    if rows.iter().any(|row| row.replayed_calls > 0) {
        out.push_str(
            "- Calls of graph replays take operation, bytes and communicator from the range open at \
             their capture; where that was before the start of the collector, only the name of the \
             kernel is known.\n",
        );
    }
    let without = rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.calls_without_bytes));
    if without > 0 {
        out.push_str(&format!(
            "- Of {} calls the size is not known: NCCL before 2.26 does not state it, and kernels \
             of other libraries have no range that does.\n",
            count(without)
        ));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Who ran where; nothing for one process.
pub(super) fn processes(report: &Report) -> String {
    if report.processes.len() < 2 {
        return String::new();
    }
    let table = Table::first(ROWS, &report.processes)
        .id("rank", |row| {
            let rank = row.rank?;
            Some(if row.inherited_rank { format!("({rank})") } else { rank.to_string() })
        })
        .id("local rank", |row| row.local_rank.map(|rank| rank.to_string()))
        .id("pid", |row| row.pid.map(|pid| pid.to_string()))
        .left("host", |row| row.host.as_deref().map(plain))
        .left("GPU", |row| joined(&row.devices))
        .left("GPU uuid", |row| joined(&row.device_uuids))
        .right("kernels", |row| row.kernels.to_string())
        .id("forked from", |row| row.forked_from.as_deref().map(plain))
        .left("CUDA_VISIBLE_DEVICES", |row| row.visible_devices.as_deref().map(plain))
        .left("file", |row| code(&row.file));
    if !report.processes.iter().any(|row| row.inherited_rank) {
        return table.markdown();
    }
    table.with_note(
        "A rank in parentheses is inherited: another process with the same variables does the work.",
    )
}

fn joined(texts: &[String]) -> Option<String> {
    (!texts.is_empty()).then(|| plain(&texts.join(" + ")))
}
