//! The range paths of a report and the GPU work under them -> rows of operators.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::OperatorSettings;
use super::name::operator;
use crate::load::stats::mean;
use stage2_model::{
    Absence, OperatorCoverage, OperatorRow, Operators, Origin, PathRow, Report, StageOperatorRow,
};

/// Adds up the operators of `report`.
pub fn operators(report: &Report, settings: &OperatorSettings) -> Operators {
    let paths = &report.paths;
    let names: Vec<Option<&str>> =
        paths.iter().map(|row| operator(row, settings.pattern.as_ref())).collect();
    let gpu = gpu_times(report);
    let host_self = host_self_times(paths);
    let mut sums = Sums::default();
    let mut around = Around::default();
    for (index, row) in paths.iter().enumerate() {
        around.enter(index, row.parent, &names);
        let (exclusive, inclusive) = gpu.get(index).copied().unwrap_or_default();
        sums.coverage.gpu_total_ns = plus(sums.coverage.gpu_total_ns, exclusive.unwrap_or(0));
        if around.in_operator() {
            let inside = &mut sums.coverage.gpu_in_operators_ns;
            *inside = plus(*inside, exclusive.unwrap_or(0));
        }
        let Some(name) = names.get(index).copied().flatten() else { continue };
        let range = Range {
            row,
            outermost: around.times_open(name) == 1,
            gpu_exclusive_ns: exclusive,
            gpu_inclusive_ns: inclusive,
            host_self_ns: host_self.get(index).copied().flatten(),
        };
        let stage = around.stage(&names).and_then(|root| paths.get(root));
        sums.add(stage.map(|stage| stage.path.as_str()), name, &range);
    }
    sums.finish(report, settings)
}

/// One range path that is an operator.
struct Range<'r> {
    row: &'r PathRow,
    /// No range around it is the same operator.
    outermost: bool,
    gpu_exclusive_ns: Option<u64>,
    gpu_inclusive_ns: Option<u64>,
    host_self_ns: Option<u64>,
}

/// Sums of an operator.
trait Sum {
    fn add(&mut self, range: &Range<'_>);
    fn finish(self, name: &str) -> Self;
    fn order(&self) -> (Reverse<Option<u64>>, Reverse<Option<u64>>, String);
}

impl Sum for OperatorRow {
    fn add(&mut self, range: &Range<'_>) {
        let instances = range.row.instances.unwrap_or(0);
        self.host_self_ns = both(self.host_self_ns, range.host_self_ns);
        self.gpu_exclusive_ns = both(self.gpu_exclusive_ns, range.gpu_exclusive_ns);
        if !range.outermost {
            self.nested_calls = plus(self.nested_calls, instances);
            return;
        }
        self.calls = plus(self.calls, instances);
        self.unclosed_calls = plus(self.unclosed_calls, range.row.unclosed.unwrap_or(0));
        self.host_total_ns = both(self.host_total_ns, range.row.host_total_ns);
        self.gpu_inclusive_ns = both(self.gpu_inclusive_ns, range.gpu_inclusive_ns);
        self.kernels_inclusive = both(self.kernels_inclusive, range.row.kernels_inclusive);
    }

    fn finish(mut self, name: &str) -> Self {
        let returned = self.calls.saturating_sub(self.unclosed_calls);
        self.op_name = name.to_owned();
        self.host_mean_ns = self.host_total_ns.and_then(|total| mean(total, returned));
        self
    }

    fn order(&self) -> (Reverse<Option<u64>>, Reverse<Option<u64>>, String) {
        (Reverse(self.host_total_ns), Reverse(self.gpu_inclusive_ns), self.op_name.clone())
    }
}

/// The sums so far.
#[derive(Default)]
struct Sums<'r> {
    all: HashMap<&'r str, OperatorRow>,
    stages: HashMap<(Option<&'r str>, &'r str), OperatorRow>,
    coverage: OperatorCoverage,
}

impl<'r> Sums<'r> {
    fn add(&mut self, stage: Option<&'r str>, name: &'r str, range: &Range<'_>) {
        self.all.entry(name).or_default().add(range);
        self.stages.entry((stage, name)).or_default().add(range);
    }

    fn finish(self, report: &Report, settings: &OperatorSettings) -> Operators {
        let finish = |(name, row): (&str, OperatorRow)| row.finish(name);
        let mut rows: Vec<OperatorRow> = self.all.into_iter().map(finish).collect();
        rows.sort_by_cached_key(OperatorRow::order);
        let order: HashMap<&str, usize> =
            report.stages.iter().enumerate().map(|(at, row)| (row.stage.as_str(), at)).collect();
        let mut stages: Vec<StageOperatorRow> = self
            .stages
            .into_iter()
            .map(|((stage, name), row)| StageOperatorRow {
                stage: stage.map(str::to_owned),
                operator: row.finish(name),
            })
            .collect();
        stages.sort_by_cached_key(|row| {
            let at = row.stage.as_deref().and_then(|stage| order.get(stage)).copied();
            (row.stage.is_none(), at.unwrap_or(usize::MAX), row.stage.clone(), row.operator.order())
        });
        Operators {
            source: format!(
                "NVTX ranges of operators, as {} saw them; GPU work is attributed to the range \
                 that was open at its launch",
                if report.source == Origin::Nsys.label() { "nsys" } else { "the collector" }
            ),
            absent: rows.is_empty().then(|| absence(report, settings)),
            coverage: (self.coverage.gpu_total_ns > 0 && !rows.is_empty()).then_some(self.coverage),
            rows,
            stages,
        }
    }
}

fn absence(report: &Report, settings: &OperatorSettings) -> Absence {
    let opened = report.paths.iter().any(|row| row.instances.is_some());
    let reason = match (&settings.pattern, opened) {
        (_, false) => report.no_range().to_owned(),
        (Some(pattern), true) => {
            let pattern = String::from(pattern.clone());
            format!("the name of no range matches operators.pattern ({pattern})")
        }
        (None, true) => "no operator ranges (such as aten::linear) were found".to_owned(),
    };
    let asked = settings.annotate.contains(&super::Annotation::TorchOps);
    let remedy = if asked {
        "--annotate torch-ops was on, so look for lines `stage2:` on the workload's stderr; it needs \
         a workload in Python, a PyTorch built for CUDA, and neither `-I`, `-E` nor `-S`"
    } else {
        "run again with --annotate torch-ops, which makes PyTorch mark its operators"
    };
    Absence { reason, remedy: remedy.to_owned() }
}

/// The ranges around a path, outermost first, while walking the tree.
#[derive(Default)]
struct Around<'r> {
    open: Vec<usize>,
    operators: HashMap<&'r str, u64>,
    operators_open: u64,
}

impl<'r> Around<'r> {
    /// Goes on to the path `index` under `parent`; the walk is depth first.
    fn enter(&mut self, index: usize, parent: Option<usize>, names: &[Option<&'r str>]) {
        while self.open.last().copied() != parent
            && let Some(left) = self.open.pop()
        {
            self.count(left, names, u64::wrapping_sub);
        }
        self.open.push(index);
        self.count(index, names, u64::wrapping_add);
    }

    fn count(&mut self, index: usize, names: &[Option<&'r str>], step: fn(u64, u64) -> u64) {
        if let Some(name) = names.get(index).copied().flatten() {
            let times = self.operators.entry(name).or_default();
            *times = step(*times, 1);
            self.operators_open = step(self.operators_open, 1);
        }
    }

    fn in_operator(&self) -> bool {
        self.operators_open > 0
    }

    fn times_open(&self, name: &str) -> u64 {
        self.operators.get(name).copied().unwrap_or(0)
    }

    /// The outermost range; none where that is an operator itself, which is no stage.
    fn stage(&self, names: &[Option<&str>]) -> Option<usize> {
        let root = self.open.first().copied()?;
        names.get(root).copied().flatten().is_none().then_some(root)
    }
}

/// GPU time of each path, without and with the ranges within it, ns; nothing where GPU work was not
/// recorded.
fn gpu_times(report: &Report) -> Vec<(Option<u64>, Option<u64>)> {
    let mut other = vec![0u64; report.paths.len()];
    let memory = report.copies.iter().chain(&report.fills).map(|row| (row.path_index, &row.times));
    let graphs = report.graph_launches.iter().map(|row| (row.path_index, &row.times));
    for (path, times) in memory.chain(graphs) {
        if let Some(sum) = other.get_mut(path) {
            *sum = plus(*sum, times.total_ns);
        }
    }
    let exclusive = |(row, other): (&PathRow, u64)| {
        row.kernel_sum_exclusive_ns.map(|kernels| plus(kernels, other))
    };
    let mut times: Vec<(Option<u64>, Option<u64>)> =
        report.paths.iter().zip(other).map(exclusive).map(|ns| (ns, ns)).collect();
    // Children stand behind their parents, so that going backwards meets every child complete.
    for (index, row) in report.paths.iter().enumerate().rev() {
        let inclusive = times.get(index).and_then(|&(_, inclusive)| inclusive);
        let above = row.parent.filter(|&parent| parent < index);
        if let Some((_, around)) = above.and_then(|parent| times.get_mut(parent)) {
            *around = both(*around, inclusive);
        }
    }
    times
}

/// Host time of each path without the ranges directly within it, ns.
fn host_self_times(paths: &[PathRow]) -> Vec<Option<u64>> {
    let mut times: Vec<Option<u64>> = paths.iter().map(|row| row.host_total_ns).collect();
    for row in paths {
        let around = row.parent.and_then(|parent| times.get_mut(parent));
        if let (Some(Some(around)), Some(within)) = (around, row.host_total_ns) {
            // Ranges that outlive the one around them may add up to more than it.
            *around = around.saturating_sub(within);
        }
    }
    times
}

fn plus(a: u64, b: u64) -> u64 {
    a.saturating_add(b)
}

/// The sum of what is known; nothing where neither is.
fn both(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(plus(a, b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
