//! Stages, operators and kernels as they were measured.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::super::model::{PathKind, Report, StageRow};
use super::super::stakeholder_md::{Section, StageTimingRow, TopKernelRow};
use crate::load::stats::mean;
use crate::operators::OperatorRow;
use crate::roofline::class::class_of;

/// Operators and kernels that are shown.
const TOP: usize = 10;

pub(super) fn stages(report: &Report) -> Section<StageTimingRow> {
    let of_one_process = report.coverage.processes.len() == 1;
    let row = |row: &StageRow| StageTimingRow {
        stage: row.stage.clone(),
        within: None,
        instances: row.instances,
        host_mean_ns: warm_mean_ns(row).filter(|_| of_one_process),
        host_std_ns: None,
        host_median_ns: row.host_warm_median_ns,
        host_first_ns: row.host_first_ns,
        gpu_busy_ns: row.gpu_busy_ns,
        gpu_idle_percent: row.gpu_busy_percent.map(|busy| (100.0 - busy).max(0.0)),
        kernels: row.kernels,
    };
    let ranges = report.stages.iter().filter(|row| row.kind == PathKind::Range);
    let rows: Vec<StageTimingRow> = ranges.map(row).collect();
    if rows.is_empty() {
        return Section::none(
            "the workload opened no NVTX range",
            "mark its stages with NVTX ranges, such as prefill and decode",
        );
    }
    let section = Section::of(rows, "collector; host time between the ends of a range")
        .with_note("A stage is an outermost range. Its first instance is cold and stands apart.");
    if of_one_process {
        return section;
    }
    section.with_note("Means are left out, because every process has a cold instance of its own.")
}

/// Mean host time without the first instance; none where some instance has no time.
fn warm_mean_ns(row: &StageRow) -> Option<u64> {
    let warm = row.instances?.checked_sub(1).filter(|_| row.unclosed == Some(0))?;
    mean(row.host_total_ns?.checked_sub(row.host_first_ns?)?, warm)
}

pub(super) fn operators(report: &Report) -> Section<OperatorRow> {
    let Some(operators) = &report.insight.operators else { return Section::default() };
    match &operators.absent {
        Some(absence) => Section::Absent(absence.clone()),
        None => {
            let rows = operators.rows.iter().take(TOP).cloned().collect();
            Section::of(rows, operators.source.clone()).with_note(
                "Operators lie within each other: their times do not add up. operators.md has more \
                 of them.",
            )
        }
    }
}

pub(super) fn kernels(report: &Report) -> Section<TopKernelRow> {
    let mut sums: HashMap<(usize, &str), (u64, u64, u64)> = HashMap::new();
    let mut all_ns = 0u64;
    for row in &report.kernels {
        let sum = sums.entry((row.name_index, row.device.as_str())).or_default();
        let timed = row.times.calls.saturating_sub(row.times.invalid_timestamp_calls);
        sum.0 = sum.0.saturating_add(row.times.total_ns);
        sum.1 = sum.1.saturating_add(row.times.calls);
        sum.2 = sum.2.saturating_add(timed);
        all_ns = all_ns.saturating_add(row.times.total_ns);
    }
    if sums.is_empty() {
        return Section::none("no kernel was recorded", "see Limits");
    }
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.sort_by_key(|&(group, (total_ns, ..))| (Reverse(total_ns), group));
    let rows = sorted.into_iter().take(TOP).map(|((index, device), (total_ns, calls, timed))| {
        let name = report.kernel_names.get(index);
        TopKernelRow {
            kernel: name.map_or_else(String::new, |name| name.short.clone()),
            total_ns,
            calls,
            mean_ns: mean(total_ns, timed),
            device: Some(device.to_owned()),
            percent: (all_ns > 0).then(|| total_ns as f64 * 100.0 / all_ns as f64),
            class: name.map(|name| class_of(name).label().to_owned()),
            bound: None,
        }
    });
    Section::of(rows.collect(), "collector, the whole run; the share is of all kernel time")
}
