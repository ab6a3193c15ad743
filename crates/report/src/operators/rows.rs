//! The range paths of a report and the GPU work under them -> rows of operators.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::OperatorSettings;
use super::name::operator;
use stage2_model::{
    Absence, Apart, OperatorCoverage, OperatorRow, Operators, Origin, PathRow, Report,
    StageOperatorRow,
};
use stage2_read::trace::stats::mean;

/// Adds up the operators of `report`.
pub fn operators(report: &Report, settings: &OperatorSettings) -> Operators {
    let paths = &report.paths;
    let names: Vec<Option<&str>> =
        paths.iter().map(|row| operator(row, settings.pattern.as_ref())).collect();
    let gpu = gpu_times(report);
    let host_self = host_self_times(paths);
    let warm_ups = report.stages.iter().filter(|row| row.apart == Some(Apart::WarmUp));
    let warm_ups: HashSet<&str> = warm_ups.map(|row| row.stage.as_str()).collect();
    let mut sums = Sums::default();
    let mut around = Around::default();
    for (index, row) in paths.iter().enumerate() {
        around.enter(index, row.parent, &names);
        let gpu = gpu.get(index).copied().unwrap_or_default();
        let exclusive_ns = gpu.exclusive_ns.unwrap_or(0);
        let OperatorCoverage { gpu_total_ns, gpu_in_operators_ns, .. } = &mut sums.coverage;
        *gpu_total_ns = gpu_total_ns.saturating_add(exclusive_ns);
        if around.operators_open > 0 {
            *gpu_in_operators_ns = gpu_in_operators_ns.saturating_add(exclusive_ns);
        }
        let Some(name) = names.get(index).copied().flatten() else { continue };
        let range = Range {
            row,
            outermost: around.operators.get(name) == Some(&1),
            gpu,
            host_self_ns: host_self.get(index).copied().flatten(),
        };
        let stage = around.stage(&names).and_then(|root| paths.get(root));
        let stage = stage.map(|stage| stage.path.as_str());
        let warms_up = stage.is_some_and(|stage| warm_ups.contains(stage));
        sums.add(stage, warms_up, name, &range);
    }
    sums.finish(report, settings, &warm_ups)
}

/// One range path that is an operator.
struct Range<'r> {
    row: &'r PathRow,
    /// No range around it is the same operator.
    outermost: bool,
    gpu: GpuTimes,
    host_self_ns: Option<u64>,
}

fn add(sum: &mut OperatorRow, range: &Range<'_>) {
    let instances = range.row.instances.unwrap_or(0);
    sum.host_self_ns = both(sum.host_self_ns, range.host_self_ns);
    sum.gpu_exclusive_ns = both(sum.gpu_exclusive_ns, range.gpu.exclusive_ns);
    if !range.outermost {
        sum.nested_calls = sum.nested_calls.saturating_add(instances);
        return;
    }
    sum.calls = sum.calls.saturating_add(instances);
    sum.unclosed_calls = sum.unclosed_calls.saturating_add(range.row.unclosed.unwrap_or(0));
    sum.host_total_ns = both(sum.host_total_ns, range.row.host_total_ns);
    sum.gpu_inclusive_ns = both(sum.gpu_inclusive_ns, range.gpu.inclusive_ns);
    sum.kernels_inclusive = both(sum.kernels_inclusive, range.row.kernels_inclusive);
}

fn finish(name: &str, sum: OperatorRow) -> OperatorRow {
    let returned = sum.calls.saturating_sub(sum.unclosed_calls);
    let host_mean_ns = sum.host_total_ns.and_then(|total| mean(total, returned));
    OperatorRow { op_name: name.to_owned(), host_mean_ns, ..sum }
}

fn order(row: &OperatorRow) -> (Reverse<Option<u64>>, Reverse<Option<u64>>, String) {
    (Reverse(row.host_total_ns), Reverse(row.gpu_inclusive_ns), row.op_name.clone())
}

#[derive(Default)]
struct Sums<'r> {
    all: HashMap<&'r str, OperatorRow>,
    warm_up: HashMap<&'r str, OperatorRow>,
    stages: HashMap<(Option<&'r str>, &'r str), OperatorRow>,
    coverage: OperatorCoverage,
}

impl<'r> Sums<'r> {
    fn add(&mut self, stage: Option<&'r str>, warms_up: bool, name: &'r str, range: &Range<'_>) {
        let all = if warms_up { &mut self.warm_up } else { &mut self.all };
        add(all.entry(name).or_default(), range);
        add(self.stages.entry((stage, name)).or_default(), range);
    }

    fn finish(
        self,
        report: &Report,
        settings: &OperatorSettings,
        warm_ups: &HashSet<&str>,
    ) -> Operators {
        let sorted = |sums: HashMap<&str, OperatorRow>| {
            let mut rows: Vec<OperatorRow> =
                sums.into_iter().map(|(name, sum)| finish(name, sum)).collect();
            rows.sort_by_cached_key(order);
            rows
        };
        let (rows, warm_up) = (sorted(self.all), sorted(self.warm_up));
        let none = rows.is_empty() && warm_up.is_empty();
        let places: HashMap<&str, usize> =
            report.stages.iter().enumerate().map(|(at, row)| (row.stage.as_str(), at)).collect();
        let mut stages: Vec<StageOperatorRow> = self
            .stages
            .into_iter()
            .map(|((stage, name), row)| StageOperatorRow {
                stage: stage.map(str::to_owned),
                operator: finish(name, row),
            })
            .collect();
        stages.sort_by_cached_key(|row| {
            let at = row.stage.as_deref().and_then(|stage| places.get(stage)).copied();
            let warms_up = row.stage.as_deref().is_some_and(|stage| warm_ups.contains(stage));
            let at = at.unwrap_or(usize::MAX);
            (warms_up, row.stage.is_none(), at, row.stage.clone(), order(&row.operator))
        });
        Operators {
            source: format!(
                "NVTX ranges of operators, as {} saw them; GPU work is attributed to the range \
                 that was open at its launch",
                if report.source == Origin::Nsys.label() { "nsys" } else { "the collector" }
            ),
            absent: none.then(|| absence(report, settings)),
            coverage: (self.coverage.gpu_total_ns > 0 && !none).then_some(self.coverage),
            rows,
            warm_up,
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

    /// The outermost range; none where that is an operator itself, which is no stage.
    fn stage(&self, names: &[Option<&str>]) -> Option<usize> {
        let root = self.open.first().copied()?;
        names.get(root).copied().flatten().is_none().then_some(root)
    }
}

/// GPU time of a path, without and with the ranges within it; nothing where GPU work was not recorded.
#[derive(Clone, Copy, Default)]
struct GpuTimes {
    exclusive_ns: Option<u64>,
    inclusive_ns: Option<u64>,
}

fn gpu_times(report: &Report) -> Vec<GpuTimes> {
    let time = |row: &PathRow| GpuTimes {
        exclusive_ns: row.kernel_sum_exclusive_ns,
        inclusive_ns: row.kernel_sum_exclusive_ns,
    };
    let mut times: Vec<GpuTimes> = report.paths.iter().map(time).collect();
    let memory = report.copies.iter().chain(&report.fills).map(|row| (row.path_index, &row.times));
    let graphs = report.graph_launches.iter().map(|row| (row.path_index, &row.times));
    for (path, more) in memory.chain(graphs) {
        if let Some(GpuTimes { exclusive_ns: Some(exclusive_ns), inclusive_ns }) =
            times.get_mut(path)
        {
            *exclusive_ns = exclusive_ns.saturating_add(more.total_ns);
            *inclusive_ns = Some(*exclusive_ns);
        }
    }
    // Children stand behind their parents, so that going backwards meets every child complete.
    for (index, row) in report.paths.iter().enumerate().rev() {
        let within = times.get(index).and_then(|times| times.inclusive_ns);
        let above = row.parent.filter(|&parent| parent < index);
        if let Some(around) = above.and_then(|parent| times.get_mut(parent)) {
            around.inclusive_ns = both(around.inclusive_ns, within);
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

/// The sum of what is known; nothing where neither is.
fn both(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).reduce(u64::saturating_add)
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
