//! GPU work: kernels of each stage, copies, fills and graphs.

use crate::table::{ROWS, Table, more, none};
use stage2_contract::text::numbers::{ms3, ms6, percent1};
use stage2_contract::text::{code, code_in_text, plain};
use stage2_model::{MemoryRow, Report};

/// Stages whose kernels are listed.
const STAGES: usize = 12;

pub(super) fn stage_kernels(report: &Report) -> String {
    if report.stage_kernels.is_empty() {
        return none("no kernel was recorded", "");
    }
    let mut out = String::from(
        "Over all ranges, launch configurations, GPUs and instances, the cold first ones included.\n\n",
    );
    let stages: Vec<_> = report.stage_kernels.chunk_by(|a, b| a.stage == b.stage).collect();
    for rows in stages.iter().take(STAGES) {
        let table = Table::first(ROWS, rows)
            .left("kernel", |row| code(&row.kernel))
            .right("kernel_sum_ms", |row| row.times.known_total_ns().map(ms3))
            .right("% of the stage's sum", |row| row.stage_kernel_sum_percent.map(percent1))
            .right("calls", |row| row.times.calls.to_string())
            .right("mean_ms", |row| row.times.mean_ns.map(ms6))
            .right("p50_ms", |row| row.times.p50_ns.map(ms6))
            .right("p99_ms", |row| row.times.p99_ns.map(ms6))
            .right("max_ms", |row| row.times.max_ns.map(ms6));
        let stage = rows.first().map_or("", |row| row.stage.as_str());
        out.push_str(&format!("### {}\n\n{}", code_in_text(stage), table.markdown()));
    }
    out + &more(stages.len(), STAGES, "stage")
}

pub(super) fn memory(rows: &[MemoryRow]) -> String {
    if rows.is_empty() {
        return none("none was recorded", "");
    }
    let table = Table::first(ROWS, rows)
        .left("direction", |row| row.direction.as_deref().map(plain))
        .right("total_ms", |row| row.times.known_total_ns().map(ms3))
        .right("calls", |row| row.times.calls.to_string())
        .right("bytes", |row| row.bytes.to_string())
        .right("mean_ms", |row| row.times.mean_ns.map(ms6))
        .right("max_ms", |row| row.times.max_ns.map(ms6))
        .left("GPU", |row| plain(&row.device))
        .left("range path", |row| code(&row.path));
    table.markdown()
}

pub(super) fn graphs(report: &Report) -> String {
    if report.graph_launches.is_empty() {
        return String::new();
    }
    let table = Table::first(ROWS, &report.graph_launches)
        .right("graph", |row| row.graph_id.to_string())
        .right("total_ms", |row| row.times.known_total_ns().map(ms3))
        .right("launches", |row| row.times.calls.to_string())
        .right("mean_ms", |row| row.times.mean_ns.map(ms6))
        .right("p50_ms", |row| row.times.p50_ns.map(ms6))
        .right("p99_ms", |row| row.times.p99_ns.map(ms6))
        .left("GPU", |row| plain(&row.device))
        .left("range path", |row| code(&row.path))
        .left("file", |row| code(&row.file));
    format!(
        "{}Graphs recorded as a whole: their kernels have no records of their \
         own.\n\n",
        table.markdown(),
    )
}

pub(super) fn captures(report: &Report) -> String {
    if report.graph_captures.is_empty() {
        return String::new();
    }
    let table = Table::first(ROWS, &report.graph_captures)
        .left("range at replay", |row| code(&row.replay_path))
        .left("range at capture", |row| code(&row.capture_path))
        .right("kernels", |row| row.kernels.to_string())
        .right("kernel_sum_ms", |row| ms3(row.kernel_sum_ns));
    table.markdown()
}
