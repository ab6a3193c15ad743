//! Operator rows -> `operators.md`: which operators take the time, on the host and on the GPU.

use super::page::first_screen;
use super::table::{Table, none, paragraph};
use stage2_analysis::in_part;
use stage2_model::{OperatorRow, Operators, Report};
use stage2_text::numbers::{count, ms3, ms6, or_absent, percent1};
use stage2_text::{code, code_in_text, plain};

/// Operators of each stage that are listed.
const STAGE_ROWS: usize = 10;
/// Stages that are listed.
const STAGES: usize = 12;

/// The page, with at most `top` rows.
pub fn operators_md(report: &Report, operators: &Operators, top: usize) -> String {
    let mut out = first_screen("Operators", report);
    out.push_str(&format!("Source: {}.\n\n", plain(&operators.source)));
    if let Some(absence) = &operators.absent {
        out.push_str(&none(&absence.reason, &absence.remedy));
        return out;
    }
    if let Some(coverage) = operators.coverage {
        out.push_str(&format!(
            "Of {} ms of GPU work, {} ms ({} %) was launched in operators.\n\n",
            ms3(coverage.gpu_total_ns),
            ms3(coverage.gpu_in_operators_ns),
            or_absent(coverage.percent(), percent1),
        ));
    }
    let left = operators.rows.len().saturating_sub(top);
    out.push_str(&format!(
        "Rows: {} of {}, longest host time first{}.\n\n",
        count((operators.rows.len() - left) as u64),
        count(operators.rows.len() as u64),
        if left > 0 { "; metrics.json has every row" } else { "" },
    ));
    let gpu_total_ns = operators.coverage.map(|coverage| coverage.gpu_total_ns);
    let shown: Vec<&OperatorRow> = operators.rows.iter().take(top).collect();
    out.push_str(&table(&shown, gpu_total_ns));
    out.push_str(&stages(operators, gpu_total_ns));
    out.extend(in_part::operators(report).map(|note| paragraph(&note)));
    out.push_str(
        "`total_time_ms` is host time from the call of an operator to its return, with everything \
         within it; operators lie within each other, so that the column does not add up to the run. \
         `cuda_time_ms` is the sum of the durations of the GPU work launched in that time \
         (overlapping work counts each), wherever it ran later. `self` leaves out the ranges within. \
         An operator within itself counts once and stands under `nested_calls`.\n",
    );
    out
}

fn table(rows: &[&OperatorRow], gpu_total_ns: Option<u64>) -> String {
    let share = |ns: u64| {
        let all = gpu_total_ns.filter(|&all| all > 0)?;
        Some(percent1(ns as f64 * 100.0 / all as f64))
    };
    Table::new(rows)
        .left("op_name", |row| code(&row.op_name))
        .right("total_time_ms", |row| row.host_total_ns.map(ms3))
        .right("cuda_time_ms", |row| row.gpu_inclusive_ns.map(ms3))
        .right("calls", |row| row.calls.to_string())
        .right("mean_ms", |row| row.host_mean_ns.map(ms6))
        .right("self_time_ms", |row| row.host_self_ns.map(ms3))
        .right("cuda_self_time_ms", |row| row.gpu_exclusive_ns.map(ms3))
        .right("gpu_time_%", |row| row.gpu_inclusive_ns.and_then(share))
        .right("kernels", |row| row.kernels_inclusive.map(|kernels| kernels.to_string()))
        .right("nested_calls", |row| row.nested_calls.to_string())
        .markdown()
}

fn stages(operators: &Operators, gpu_total_ns: Option<u64>) -> String {
    let mut out = String::new();
    let groups: Vec<_> = operators.stages.chunk_by(|a, b| a.stage == b.stage).collect();
    for rows in groups.iter().take(STAGES) {
        let shown: Vec<_> = rows.iter().take(STAGE_ROWS).map(|row| &row.operator).collect();
        let table = table(&shown, gpu_total_ns);
        let stage = rows.first().and_then(|row| row.stage.as_deref());
        let title = stage.map_or_else(|| "(in no stage)".to_owned(), code_in_text);
        out.push_str(&format!("### {title}\n\n{table}"));
        if let Some(more) = rows.len().checked_sub(STAGE_ROWS).filter(|&more| more > 0) {
            out.push_str(&format!(
                "{} more operators stand in metrics.json.\n\n",
                count(more as u64)
            ));
        }
    }
    if let Some(more) = groups.len().checked_sub(STAGES).filter(|&more| more > 0) {
        out.push_str(&format!("{} more stages stand in metrics.json.\n\n", count(more as u64)));
    }
    if out.is_empty() { out } else { format!("## Operators of each stage\n\n{out}") }
}

#[cfg(test)]
mod tests;
