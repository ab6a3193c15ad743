//! Stages, operators and kernels as they were measured.

use super::ROWS;
use crate::views::kernels::top::top_kernels;
use crate::views::operators;
use crate::views::page::idle_percent;
use crate::views::report::ranges::stage_notes;
use crate::views::table::{NAME_LIMIT, Table, name, none};
use crate::views::values::{text, with_source};
use stage2_analysis::insight::vision::{Nested, nested};
use stage2_analysis::roofline::bound;
use stage2_model::{PathKind, Report, StageRow};
use stage2_text::numbers::{count, ms3, ms6, percent1};
use stage2_text::{code, shorten_kernel};

/// Operators and kernels that are shown.
const TOP: usize = 10;
/// Ranges that are named as being no stages.
const APART_NAMED: usize = 5;

/// Stages of the model: no warm-ups, no operators, and no work outside of ranges.
pub(in crate::views) fn model_stages(report: &Report) -> impl Iterator<Item = &StageRow> {
    outermost(report).filter(|row| row.apart.is_none())
}

fn outermost(report: &Report) -> impl Iterator<Item = &StageRow> {
    let kinds = [PathKind::Range, PathKind::WholeProcess];
    report.stages.iter().filter(move |row| kinds.contains(&row.kind))
}

/// Why there are no stages of the model.
pub(super) fn no_stage(report: &Report) -> String {
    match apart(report) {
        None => report.no_range().to_owned(),
        Some(apart) => format!("no outermost range is a stage of the model ({apart})"),
    }
}

/// A row of the table.
struct Timing<'r> {
    row: StageRow,
    /// The range that the stage lies in and whose times contain it, such as `prefill` for `vision`.
    within: Option<&'r str>,
}

pub(super) fn stages(report: &Report) -> String {
    let stages = model_stages(report).map(|row| Timing { row: row.clone(), within: None });
    let mut rows: Vec<Timing<'_>> = stages.collect();
    if rows.is_empty() {
        let remedy = "mark its stages with NVTX ranges, such as prefill and decode";
        return none(&no_stage(report), remedy);
    }
    let parts = nested(report);
    rows.extend(parts.iter().map(part));
    let table = Table::first(ROWS, &rows)
        .left("Stage", |Timing { row, .. }| name(&row.stage))
        .right("Mean (ms)", |Timing { row, .. }| row.host_warm_mean_ns.map(ms3))
        .right("Std (ms)", |Timing { row, .. }| row.host_warm_std_ns.map(ms3))
        .right("Median (ms)", |Timing { row, .. }| row.host_warm_median_ns.map(ms3))
        .right("First, cold (ms)", |Timing { row, .. }| row.host_first_ns.map(ms3))
        .right("Instances", |Timing { row, .. }| row.instances.map(count))
        .right("GPU busy, all (ms)", |Timing { row, .. }| row.gpu_busy_ns.map(ms3))
        .right("GPU idle (%)", |Timing { row, .. }| idle_percent(row).map(percent1))
        .right("Kernels, all", |Timing { row, .. }| row.kernels.map(count))
        .left("Within", |timing| timing.within.map(name));
    let mut notes = stage_notes(report);
    if !parts.is_empty() {
        notes.push(
            "A stage with a range under Within lies in that range: its times are part of the stage \
             around it, and are not added to it. Its mean is over all instances, the first included, \
             and its GPU time is the sum of its kernels' durations."
                .to_owned(),
        );
    }
    notes.extend(apart(report).map(|apart| format!("{apart} apart from the stages.")));
    with_source(table, notes, &format!("{}; host time between the ends of a range", report.source))
}

/// A part of a vision encoder within a stage.
fn part<'r>(nested: &Nested<'r>) -> Timing<'r> {
    let path = nested.path;
    let closed = path.instances.map(|all| all.saturating_sub(path.unclosed.unwrap_or(0)));
    let row = StageRow {
        stage: path.name.clone(),
        instances: path.instances,
        host_warm_mean_ns: path.host_total_ns.zip(closed).and_then(|(ns, n)| ns.checked_div(n)),
        host_warm_median_ns: path.host_warm_median_ns,
        host_first_ns: path.host_first_ns,
        gpu_busy_ns: path.kernel_sum_inclusive_ns,
        kernels: path.kernels_inclusive,
        ..StageRow::default()
    };
    Timing { row, within: Some(&nested.within.path) }
}

/// Outermost ranges that are no stages, with the reason, and where they stand; none if all are.
fn apart(report: &Report) -> Option<String> {
    let names: Vec<String> = outermost(report)
        .filter_map(|row| Some(format!("{} is {} range", row.stage, row.apart?.phrase())))
        .collect();
    let shown = names.iter().take(APART_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(APART_NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let them = if names.len() == 1 { "it" } else { "them" };
    (!names.is_empty()).then(|| format!("{shown}{more}; report.md lists {them}"))
}

pub(super) fn operators(report: &Report) -> String {
    let Some(found) = &report.insight.operators else {
        return none("nothing was computed for it", "");
    };
    if let Some(absence) = &found.absent {
        return none(&absence.reason, &absence.remedy);
    }
    if found.rows.is_empty() {
        return none("none was found in what was recorded", "");
    }
    let shown: Vec<_> = found.rows.iter().take(TOP).collect();
    let gpu_total_ns = found.coverage.map(|coverage| coverage.gpu_total_ns);
    let table = operators::table(TOP, &shown, gpu_total_ns);
    let note = "Sums of the whole run, with warm-ups and cold first instances: operators.md has more \
                of them, and each stage by itself. Operators lie within each other: their times do \
                not add up.";
    with_source(table, [note.to_owned()], &found.source)
}

pub(super) fn kernels(report: &Report) -> String {
    let rows = top_kernels(report, TOP, |row| (row.name_index, row.device.as_str()));
    if rows.is_empty() {
        return none("no kernel was recorded", "see Limits");
    }
    let table = Table::new(&rows)
        .left("Kernel", |kernel| code(&shorten_kernel(&kernel.row.kernel, NAME_LIMIT)))
        .right("Total (ms)", |kernel| ms3(kernel.total_ns))
        .right("Calls", |kernel| count(kernel.calls))
        .right("Mean (ms)", |kernel| kernel.mean_ns.map(ms6))
        .left("Device", |kernel| text(&kernel.row.device))
        .right("GPU time (%)", |kernel| kernel.percent.map(percent1))
        .left("Class", |kernel| text(&kernel.row.class))
        .left("Bound", |kernel| {
            let counters = kernel.counters?;
            let launch = if counters.one_launch.is_some() { " (one launch)" } else { "" };
            Some(format!("{}{launch}", counters.roofline.bound?.label()))
        })
        .right("Of attainable (%)", |kernel| {
            kernel.counters?.roofline.attainable_share.map(|share| percent1(share * 100.0))
        })
        .right("Occupancy (%)", |kernel| kernel.counters?.achieved_occupancy_percent.map(percent1));
    let counted = rows.iter().filter_map(|kernel| kernel.counters).any(|counters| {
        counters.achieved_occupancy_percent.is_some() || counters.roofline.bound.is_some()
    });
    let note = match counted {
        true => format!(
            "Bound, share of the attainable and occupancy are by counters of ncu, of the longest \
             launch configuration that has some; (one launch): of the profiled launch only, \
             which may not stand for the others (report.md says when, under counters). Bound: {}",
            bound::rule()
        ),
        false => {
            "Bound, share of the attainable and occupancy: none, because no counters of ncu are \
                  in this bundle."
                .to_owned()
        }
    };
    let source = format!("{}, the whole run; the share is of all kernel time", report.source);
    with_source(table, [note], &source)
}
