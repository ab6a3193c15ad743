//! GPU work: kernels of each stage, copies, fills and graphs.

use super::super::table::Align::{Left, Right};
use super::super::table::Table;
use super::{ROWS, left_out};
use stage2_model::{MemoryRow, Report};
use stage2_text::numbers::{count, ms3, ms6, or_absent, percent1, us3};
use stage2_text::{code, code_in_text, plain};

/// Stages whose kernels are listed.
const STAGES: usize = 12;

pub(super) fn stage_kernels(report: &Report) -> String {
    let heading = "## Top kernels of each stage\n\n";
    let mut out = String::new();
    let mut listed = 0;
    let mut left = 0;
    for rows in report.stage_kernels.chunk_by(|a, b| a.stage == b.stage) {
        if listed == STAGES {
            left += 1;
            continue;
        }
        listed += 1;
        let mut table = Table::new(&[
            ("kernel", Left),
            ("kernel_sum_ms", Right),
            ("% of the stage's sum", Right),
            ("calls", Right),
            ("mean_ms", Right),
            ("p50_us", Right),
            ("p99_us", Right),
            ("max_us", Right),
        ]);
        for row in rows {
            let times = &row.times;
            table.row([
                code(&row.kernel),
                ms3(times.total_ns),
                or_absent(row.stage_kernel_sum_percent, percent1),
                times.calls.to_string(),
                or_absent(times.mean_ns, ms6),
                or_absent(times.p50_ns, us3),
                or_absent(times.p99_ns, us3),
                or_absent(times.max_ns, us3),
            ]);
        }
        let stage = rows.first().map_or("", |row| row.stage.as_str());
        out.push_str(&format!("### {}\n\n{}", code_in_text(stage), table.finish()));
    }
    if out.is_empty() {
        return format!("{heading}None, because no kernel was recorded.\n\n");
    }
    if left > 0 {
        out.push_str(&format!("{} more stages stand in metrics.json.\n\n", count(left)));
    }
    format!("{heading}Over all ranges, launch configurations and GPUs.\n\n{out}")
}

pub(super) fn memory(title: &str, rows: &[MemoryRow]) -> String {
    if rows.is_empty() {
        return format!("## {title}\n\nNone, because none was recorded.\n\n");
    }
    let mut table = Table::new(&[
        ("direction", Left),
        ("total_ms", Right),
        ("calls", Right),
        ("bytes", Right),
        ("mean_ms", Right),
        ("max_us", Right),
        ("GPU", Left),
        ("range path", Left),
    ]);
    for row in rows.iter().take(ROWS) {
        table.row([
            or_absent(row.direction.as_deref(), plain),
            ms3(row.times.total_ns),
            row.times.calls.to_string(),
            row.bytes.to_string(),
            or_absent(row.times.mean_ns, ms6),
            or_absent(row.times.max_ns, us3),
            plain(&row.device),
            code(&row.path),
        ]);
    }
    format!("## {title}\n\n{}{}", table.finish(), left_out(rows.len(), ROWS, "metrics.json"))
}

pub(super) fn graphs(report: &Report) -> String {
    if report.graph_launches.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("graph", Right),
        ("total_ms", Right),
        ("launches", Right),
        ("mean_ms", Right),
        ("p50_us", Right),
        ("p99_us", Right),
        ("GPU", Left),
        ("range path", Left),
        ("file", Left),
    ]);
    for row in report.graph_launches.iter().take(ROWS) {
        table.row([
            row.graph_id.to_string(),
            ms3(row.times.total_ns),
            row.times.calls.to_string(),
            or_absent(row.times.mean_ns, ms6),
            or_absent(row.times.p50_ns, us3),
            or_absent(row.times.p99_ns, us3),
            plain(&row.device),
            code(&row.path),
            code(&row.file),
        ]);
    }
    format!(
        "## Graph launches\n\n{}{}Graphs recorded as a whole: their kernels have no records of \
         their own.\n\n",
        table.finish(),
        left_out(report.graph_launches.len(), ROWS, "metrics.json"),
    )
}

pub(super) fn captures(report: &Report) -> String {
    if report.graph_captures.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("range at replay", Left),
        ("range at capture", Left),
        ("kernels", Right),
        ("kernel_sum_ms", Right),
    ]);
    for row in report.graph_captures.iter().take(ROWS) {
        table.row([
            code(&row.replay_path),
            code(&row.capture_path),
            row.kernels.to_string(),
            ms3(row.kernel_sum_ns),
        ]);
    }
    format!(
        "## Graph replays by the range of their capture\n\n{}{}",
        table.finish(),
        left_out(report.graph_captures.len(), ROWS, "metrics.json"),
    )
}
