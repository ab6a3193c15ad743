//! Stages, operators and kernels as they were measured.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::{Section, StageTimingRow, TopKernelRow};
use stage2_analysis::in_part;
use stage2_analysis::insight::counted::Counted;
use stage2_analysis::insight::vision;
use stage2_analysis::roofline::bound;
use stage2_analysis::roofline::class::class_of;
use stage2_model::{OperatorRow, PathKind, Report, StageRow};

use super::super::KernelSum;

/// Operators and kernels that are shown.
const TOP: usize = 10;
/// Ranges that are named as being no stages.
const APART_NAMED: usize = 5;

pub(super) fn stages(report: &Report) -> Section<StageTimingRow> {
    let row = |row: &StageRow| StageTimingRow {
        stage: row.stage.clone(),
        within: None,
        instances: row.instances,
        host_mean_ns: row.host_warm_mean_ns,
        host_std_ns: row.host_warm_std_ns,
        host_median_ns: row.host_warm_median_ns,
        host_first_ns: row.host_first_ns,
        gpu_busy_ns: row.gpu_busy_ns,
        gpu_idle_percent: row.gpu_busy_percent.map(|busy| (100.0 - busy).max(0.0)),
        kernels: row.kernels,
    };
    let kinds = [PathKind::Range, PathKind::WholeProcess];
    let ranges = || report.stages.iter().filter(|row| kinds.contains(&row.kind));
    let mut rows: Vec<StageTimingRow> =
        ranges().filter(|row| row.apart.is_none()).map(row).collect();
    let parts: Vec<StageTimingRow> = vision::nested(report).iter().map(part).collect();
    let apart = apart(ranges());
    if rows.is_empty() {
        let reason = match &apart {
            None => report.no_range().to_owned(),
            Some(apart) => format!("no outermost range is a stage of the model ({apart})"),
        };
        return Section::none(
            reason,
            "mark its stages with NVTX ranges, such as prefill and decode",
        );
    }
    let has_parts = !parts.is_empty();
    rows.extend(parts);
    let section = Section::of(
        rows,
        format!("{}; host time between the ends of a range", report.source),
    )
    .with_note(
        "A stage is an outermost range. The first instance of each process is cold and shown \
         separately; mean, sample standard deviation and median cover the others.",
    );
    let section = match report.stages.iter().find(|row| row.kind == PathKind::WholeProcess) {
        Some(row) => section.with_note(format!(
            "{} stands for all work, because {}: from its first GPU record to its last, loading and \
             warm-up included.",
            row.stage,
            report.no_range()
        )),
        None => section,
    };
    let section = match has_parts {
        true => section.with_note(
            "A stage with a range under Within lies in that range: its times are part of the stage \
             around it, and are not added to it. Its mean is over all instances, the first included, \
             and its GPU time is the sum of its kernels' durations.",
        ),
        false => section,
    };
    let section = match in_part::stages(report) {
        Some(note) => section.with_note(note),
        None => section,
    };
    match apart {
        None => section,
        Some(apart) => section.with_note(format!("{apart} apart from the stages.")),
    }
}

/// A part of a vision encoder within a stage.
fn part(nested: &vision::Nested<'_>) -> StageTimingRow {
    let path = nested.path;
    let closed = path.instances.map(|all| all.saturating_sub(path.unclosed.unwrap_or(0)));
    StageTimingRow {
        stage: path.name.clone(),
        within: Some(nested.within.path.clone()),
        instances: path.instances,
        host_mean_ns: path.host_total_ns.zip(closed).and_then(|(ns, n)| ns.checked_div(n)),
        host_std_ns: None,
        host_median_ns: path.host_warm_median_ns,
        host_first_ns: path.host_first_ns,
        gpu_busy_ns: path.kernel_sum_inclusive_ns,
        gpu_idle_percent: None,
        kernels: path.kernels_inclusive,
    }
}

/// Outermost ranges that are no stages, with the reason, and where they stand; none where all are.
fn apart<'r>(ranges: impl Iterator<Item = &'r StageRow>) -> Option<String> {
    let names: Vec<String> = ranges
        .filter_map(|row| Some(format!("{} is {} range", row.stage, row.apart?.phrase())))
        .collect();
    let more = names.len().saturating_sub(APART_NAMED);
    let them = if names.len() == 1 { "it" } else { "them" };
    let mut shown = names.into_iter().take(APART_NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        shown.push_str(&format!(", and {more} more"));
    }
    (!shown.is_empty()).then(|| format!("{shown}; report.md lists {them}"))
}

pub(super) fn operators(report: &Report) -> Section<OperatorRow> {
    let Some(operators) = &report.insight.operators else { return Section::default() };
    match &operators.absent {
        Some(absence) => Section::Absent(absence.clone()),
        None => {
            let rows = operators.rows.iter().take(TOP).cloned().collect();
            Section::of(rows, operators.source.clone()).with_note(
                "Sums of the whole run, with warm-ups and cold first instances: operators.md has more \
                 of them, and each stage by itself. Operators lie within each other: their times do \
                 not add up.",
            )
        }
    }
}

pub(super) fn kernels(report: &Report) -> Section<TopKernelRow> {
    let mut sums: HashMap<(usize, &str), KernelSum> = HashMap::new();
    let mut all_ns = 0u64;
    for row in &report.kernels {
        sums.entry((row.name_index, row.device.as_str())).or_default().add(&row.times);
        all_ns = all_ns.saturating_add(row.times.total_ns);
    }
    if sums.is_empty() {
        return Section::none("no kernel was recorded", "see Limits");
    }
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.sort_by_key(|&(group, sum)| (Reverse(sum.total_ns), group));
    let counted = Counted::new(report, |row| (row.name_index, row.device.as_str()));
    let rows = sorted.into_iter().take(TOP).map(|((index, device), sum)| {
        let counters = counted.get(&(index, device));
        let roofline = counters.map(|counters| &counters.roofline);
        let name = report.kernel_names.get(index);
        TopKernelRow {
            kernel: name.map_or_else(String::new, |name| name.short.clone()),
            total_ns: sum.total_ns,
            calls: sum.calls,
            mean_ns: sum.mean_ns(),
            device: Some(device.to_owned()),
            percent: (all_ns > 0).then(|| sum.total_ns as f64 * 100.0 / all_ns as f64),
            class: name.map(|name| class_of(name).label().to_owned()),
            bound: roofline.and_then(|r| r.bound).map(|bound| match counters {
                Some(counters) if counters.one_launch.is_some() => {
                    format!("{} (one launch)", bound.label())
                }
                _ => bound.label().to_owned(),
            }),
            attainable_share: roofline.and_then(|r| r.attainable_share),
            occupancy_percent: counters.and_then(|c| c.achieved_occupancy_percent),
        }
    });
    let rows: Vec<TopKernelRow> = rows.collect();
    let counted = rows.iter().any(|row| row.occupancy_percent.is_some() || row.bound.is_some());
    let section = Section::of(
        rows,
        format!("{}, the whole run; the share is of all kernel time", report.source),
    );
    section.with_note(if counted {
        format!(
            "Bound, share of the attainable and occupancy are by counters of ncu, of the longest \
             launch configuration that has some; (one launch): of the profiled launch only, \
             which may not stand for the others (report.md says when, under counters). Bound: {}",
            bound::rule()
        )
    } else {
        "Bound, share of the attainable and occupancy: none, because no counters of ncu are in \
         this bundle."
            .to_owned()
    })
}
