//! Stages, operators and kernels as they were measured.

use std::collections::HashSet;

use crate::kernels::by_stage::{StageKernel, stage_kernels};
use crate::operators::basis;
use crate::page::model_stages;
use crate::stages;
use crate::table::{Table, name, none};
use crate::values::text;
use stage2_contract::text::numbers::{count, ms3, ms6, percent1};
use stage2_contract::text::{code, shorten, shorten_kernel};
use stage2_model::{OperatorRow, Report};

/// Stages, operators and kernels that are shown.
const STAGES: usize = 8;
const OPERATORS: usize = 5;
const KERNELS: usize = 5;
/// Characters of a name.
const NAME_LIMIT: usize = 70;

pub(super) fn stages(report: &Report) -> String {
    let windows = stages::windows(report, STAGES, "report.md");
    stages::times(report, STAGES, "report.md") + &windows
}

pub(super) fn operators(report: &Report) -> String {
    let Some(found) = &report.insight.operators else {
        return none("nothing was computed for it", "");
    };
    if let Some(absence) = &found.absent {
        return none(&absence.reason, &absence.remedy);
    }
    if found.rows.is_empty() {
        let why = match found.warm_up.is_empty() {
            true => "none was found in what was recorded",
            false => "all of them are in ranges that warm up",
        };
        return none(why, "see operators.md");
    }
    let rows: Vec<&OperatorRow> = found.rows.iter().collect();
    let table = Table::first(OPERATORS, &rows)
        .left("op_name", |row| code(&shorten(&row.op_name, NAME_LIMIT)))
        .right("total_time_ms", |row| row.host_total_ns.map(ms3))
        .right("cuda_time_ms", |row| row.gpu_inclusive_ns.map(ms3))
        .right("calls", |row| count(row.calls))
        .right("mean_ms", |row| row.host_mean_ns.map(ms6));
    format!(
        "{}{} Operators lie within each other. Source: {}.\n\n",
        table.markdown_with_rest_in("operators.md"),
        basis(found),
        text(&found.source),
    )
}

pub(super) fn kernels(report: &Report) -> String {
    let stages: HashSet<&str> = model_stages(report).map(|stage| stage.stage.as_str()).collect();
    let all = stage_kernels(report);
    if all.is_empty() {
        return none("no kernel was recorded", "see Limits");
    }
    let is_of_stage = |kernel: &&StageKernel<'_>| stages.contains(kernel.row.stage.as_str());
    let (of_stages, others): (Vec<_>, Vec<_>) = all.iter().partition(is_of_stage);
    // Without stages of the model, any kernel is better than none.
    let rows = if of_stages.is_empty() { others } else { of_stages };
    let table = Table::first(KERNELS, &rows)
        .left("Kernel", |kernel| code(&shorten_kernel(&kernel.row.kernel, NAME_LIMIT)))
        .left("Stage", |kernel| name(&kernel.row.stage))
        .right("Total (ms)", |kernel| kernel.total_ns.map(ms3))
        .right("Calls", |kernel| count(kernel.calls))
        .right("Mean (ms)", |kernel| kernel.mean_ns.map(ms6))
        .right("Share of the stage (%)", |kernel| kernel.percent.map(percent1))
        .left("Class", |kernel| text(&kernel.row.class))
        .left("Bound", |kernel| kernel.known_bound());
    format!(
        "{}All instances of the stages, the cold ones included. Share: of the stage's kernel time.{}\n\n",
        table.markdown_with_rest_in("kernels.md"),
        match rows.iter().take(KERNELS).any(|kernel| kernel.known_bound().is_some()) {
            true => " Bound: by counters of ncu, or sampled ones where marked so.",
            false =>
                " Bound: not known, because neither ncu nor sampled counters know one of them.",
        },
    )
}
