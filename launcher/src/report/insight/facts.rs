//! A report -> the facts that takeaways are drawn from, stage by stage.

use std::collections::{BTreeMap, HashMap};

use super::counted::Counted;
use super::over::whole_window_ns;
use super::utilisation::role;
use crate::model::figure::Figure;
use crate::model::mfu::{Role, StageUtilisation};
use crate::report::model::{
    KernelRow, ModelUse, Origin, PathKind, Report, StageKernelRow, StageRow, Status,
};
use crate::roofline::class::{KernelClass, class_of};
use crate::roofline::takeaways::{Facts, KernelFacts, StageFacts};

/// Kernels of a stage that rules look at.
const TOP_KERNELS: usize = 5;
/// Work outside of ranges (loading a model, say) is looked at where it takes at least this part of
/// the kernel time, percent.
const OUTSIDE_PERCENT: f64 = 10.0;

/// What is known.
pub(super) fn facts(report: &Report, used: &ModelUse) -> Facts {
    let verdict = &report.coverage.verdict;
    let classes: Vec<KernelClass> = report.kernel_names.iter().map(class_of).collect();
    let all_ns =
        report.kernels.iter().fold(0, |ns: u64, row| ns.saturating_add(row.times.total_ns));
    let is_large = |row: &StageRow| {
        row.kernel_sum_ns.is_none_or(|ns| ns as f64 * 100.0 >= OUTSIDE_PERCENT * all_ns as f64)
    };
    let looked_at = |row: &&StageRow| match row.kind {
        _ if row.apart.is_some() => false,
        PathKind::Range | PathKind::WholeProcess => true,
        PathKind::OutsideRanges => is_large(row),
        _ => false,
    };
    let counted = Counted::new(report, |row| (row.stage.as_str(), row.name_index));
    let rows = Rows::of(report, used);
    Facts {
        simulated: report.simulated,
        replayed: report.source == Origin::Ncu.label(),
        // The details stand on the first screen already.
        missing: (verdict.status != Status::Complete).then(|| {
            let (summary, _) = verdict.text.split_once(": ").unwrap_or((&verdict.text, ""));
            summary.to_owned()
        }),
        stages: report
            .stages
            .iter()
            .filter(looked_at)
            .map(|row| stage((report, &rows), row, &classes, &counted, used))
            .collect(),
    }
}

/// Rows by stage: of stages there may be as many as rows.
struct Rows<'r> {
    kernels: HashMap<&'r str, Vec<&'r KernelRow>>,
    longest: HashMap<&'r str, Vec<&'r StageKernelRow>>,
    numbers: HashMap<&'r str, &'r StageUtilisation>,
}

impl<'r> Rows<'r> {
    fn of(report: &'r Report, used: &'r ModelUse) -> Self {
        let mut rows =
            Rows { kernels: HashMap::new(), longest: HashMap::new(), numbers: HashMap::new() };
        for row in &report.kernels {
            rows.kernels.entry(&row.stage).or_default().push(row);
        }
        for row in &report.stage_kernels {
            rows.longest.entry(&row.stage).or_default().push(row);
        }
        for row in &used.numbers.stages {
            rows.numbers.entry(&row.stage).or_insert(row);
        }
        rows
    }
}

fn stage(
    (report, rows): (&Report, &Rows<'_>),
    row: &StageRow,
    classes: &[KernelClass],
    counted: &Counted<'_, (&str, usize)>,
    used: &ModelUse,
) -> StageFacts {
    let class = |index: usize| classes.get(index).copied().unwrap_or(KernelClass::Other);
    let (mut calls, mut graph_calls, mut all_ns) = (0u64, 0u64, 0u64);
    let mut by_class: BTreeMap<KernelClass, u64> = BTreeMap::new();
    for kernel in rows.kernels.get(row.stage.as_str()).into_iter().flatten() {
        calls = calls.saturating_add(kernel.times.calls);
        graph_calls = graph_calls.saturating_add(kernel.times.graph_calls);
        all_ns = all_ns.saturating_add(kernel.times.total_ns);
        let sum = by_class.entry(class(kernel.name_index)).or_default();
        *sum = sum.saturating_add(kernel.times.total_ns);
    }
    let percent = |part: u64, all: u64| (all > 0).then(|| part as f64 * 100.0 / all as f64);
    let top = rows.longest.get(row.stage.as_str()).into_iter().flatten();
    let numbers = rows.numbers.get(row.stage.as_str());
    let figure = |pick: fn(&StageUtilisation) -> &Figure| pick(numbers?).value();
    StageFacts {
        stage: row.stage.clone(),
        decode: role(row) == Role::Decode,
        window_ns: whole_window_ns(report, row),
        idle_percent: row.gpu_busy_percent.map(|busy| (100.0 - busy).max(0.0)),
        kernels: row.kernels,
        kernel_mean_us: row.kernel_mean_ns.map(|ns| ns as f64 / 1e3),
        graph_percent: percent(graph_calls, calls),
        kernels_per_token: figure(|s| &s.kernels_per_token),
        tokens_per_s: figure(|s| &s.tokens_per_s),
        batch_size: used.tokens.batch_size,
        mfu_wall: figure(|s| &s.mfu_wall),
        mfu_busy: figure(|s| &s.mfu_busy),
        mbu_wall: figure(|s| &s.mbu_wall),
        mbu_busy: figure(|s| &s.mbu_busy),
        classes: by_class
            .into_iter()
            .filter_map(|(class, ns)| Some((class, percent(ns, all_ns)?)))
            .collect(),
        top_kernels: top
            .take(TOP_KERNELS)
            .filter_map(|kernel| {
                let counters = counted.get(&(row.stage.as_str(), kernel.name_index));
                let roofline = counters.map(|counters| &counters.roofline);
                Some(KernelFacts {
                    kernel: kernel.kernel.clone(),
                    class: class(kernel.name_index),
                    percent: kernel.stage_kernel_sum_percent?,
                    calls: kernel.times.calls,
                    bound: roofline.and_then(|roofline| roofline.bound),
                    one_launch: counters.is_some_and(|counters| counters.one_launch.is_some()),
                    attainable_share: roofline.and_then(|roofline| roofline.attainable_share),
                    achieved_occupancy_percent: counters
                        .and_then(|counters| counters.achieved_occupancy_percent),
                })
            })
            .collect(),
    }
}
