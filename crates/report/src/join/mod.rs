//! The captures of all processes of a run -> one [`Report`]: a pure join, by content.

pub mod counters;
mod coverage;
mod definitions;
mod devices;
pub mod empty;
pub(crate) mod energy;
mod findings;
mod intern;
pub(crate) mod kernels;
mod labels;
pub(crate) mod numbered_ranges;
mod outliers;
pub mod overhead;
pub mod passes;
mod paths;
pub mod same_name;
mod side_by_side;
mod stage_steps;
mod stages;
pub mod steps;
pub mod timeline;
mod unseen_ranges;
mod windows;
pub mod without_collector;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::ranks::Together;
use intern::Tables;
use labels::Labels;
use stage2_model::{
    Answer, CaptureRow, Finding, Insight, ModelWindows, Origin, PassCosts, PathRow, Report,
    RunInfo, SCHEMA, SCHEMA_VERSION, StageRow, StepUnit,
};
use stage2_read::trace::stats::{GroupKey, Stats};
use stage2_read::trace::{Capture, Captured, ProcessCapture};

/// Key under which a collector says that its GPU is simulated, with the value `1`.
const META_SIMULATED: &str = "cupti.simulated";

/// Key under which a collector says why GPU work is missing, nobody knows how much.
const META_INCOMPLETE: &str = "gpu.incomplete";

/// GPU work of the whole run, by identifiers of the whole run; in their order, so that rows that nothing
/// else tells apart come in the same order each time.
type Groups = BTreeMap<GroupKey, Stats>;

/// Joins the captures of all processes. `findings` are those of the run itself.
pub fn join(mut capture: Capture, run: RunInfo, findings: Vec<Finding>) -> Report {
    join_kept(&mut capture, run, findings)
}

/// Joins the captures of all processes, whose files can be read a second time afterwards: names,
/// paths and clocks stay with them. `findings` are those of the run itself.
pub(crate) fn join_kept(capture: &mut Capture, run: RunInfo, findings: Vec<Finding>) -> Report {
    let mut coverage = coverage::coverage(capture);
    let found = findings::of_processes(&capture.processes, &coverage);
    let mut findings =
        findings::distinct([findings, std::mem::take(&mut capture.findings), found].concat());

    let mut tables = Tables::default();
    let mut groups = Groups::new();
    let mut captured: HashMap<(u32, u32), Captured> = HashMap::new();
    let mut stages = stages::Stages::default();
    let mut paths = paths::PathTotals::default();
    let mut devices = devices::DeviceTotals::default();
    let mut energy = energy::Energies::default();
    let mut model_windows: Option<ModelWindows> = None;
    let mut together = Together::default();
    let mut steps = stage_steps::MaybeSteps::default();
    let inferred_steps = steps::inferred(&capture.processes);
    for (file, process) in capture.processes.iter_mut().enumerate() {
        let mapping = tables.take(file, process);
        together.take(process, |path| mapping.path(path), |device| mapping.device(device));
        stages.take(process, &mapping, &tables);
        steps.take(process, &mapping);
        paths.take(process, &mapping);
        devices.take(process, &mapping);
        energy.take(process, &mapping);
        if let Some(windows) = process.model_windows.filter(|_| process.gpu_recorded()) {
            let windows = ModelWindows { all_ns: windows.all_ns, warm_ns: windows.warm_ns };
            model_windows = Some(model_windows.map_or(windows, |sum| sum.plus(windows)));
        }
        for (&(replay, place), kernels) in &process.captured {
            let sum = captured.entry((mapping.path(replay), mapping.path(place))).or_default();
            sum.kernels = sum.kernels.saturating_add(kernels.kernels);
            sum.total_ns = sum.total_ns.saturating_add(kernels.total_ns);
        }
        for (key, stats) in &process.groups {
            groups.entry(tables.group(*key, &mapping)).or_default().merge(stats);
        }
    }

    let labels = Labels::new(&tables);
    let files: Vec<&str> = coverage.processes.iter().map(|p| p.file.as_str()).collect();
    let paths::Rows { rows: mut path_rows, of_path: row_of_path, side_by_side } =
        paths.rows(&groups, &labels);
    let join = kernels::Join { labels: &labels, row_of_path: &row_of_path, files: &files };
    let rows = join.rows(&groups);
    let shared = devices.shared();
    let mut stage_rows = stages.rows(&groups, &labels, &shared);
    let mut of_stages = steps.finish(&tables, &labels, &capture.names.roles);
    let mut step_series = Vec::new();
    for row in &mut stage_rows {
        if let Some((steps, series)) = of_stages.remove(&row.stage) {
            row.steps = Some(steps);
            step_series.push(series);
        }
    }
    one_basis(&mut path_rows, &stage_rows);
    let device_rows = devices.rows(&groups, &labels);
    let (processes, ranks, of_ranks) =
        together.finish(|p| labels.stage(p), |p| labels.path(p), &stage_rows, &device_rows);
    if let Some(compared) = ranks.compared.filter(|_| coverage.gpu_records() > 0) {
        coverage.verdict.text.push_str(&format!("; {}", compared.sentence()));
    }
    findings.extend(numbered_ranges::finding(&path_rows, &capture.names.roles));
    findings.extend(numbered_ranges::joined(&path_rows));
    findings.extend(side_by_side::finding(&path_rows, &side_by_side));
    findings.extend(findings::of_devices(&device_rows).chain(of_ranks));
    Report {
        schema: SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        generator: concat!("stage2-launch ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: Origin::Collector.label().to_owned(),
        simulated: coverage.processes.iter().any(|process| process.simulated),
        run,
        devices: device_rows,
        processes,
        ranks,
        stage_kernels: kernels::stage_kernels(join.named(&groups), &rows.names, &stage_rows),
        energy: energy.rows(&labels, &stage_rows, &shared),
        stages: stage_rows,
        inferred_steps,
        model_windows,
        answer: Answer::default(),
        step_series,
        step_timelines: Vec::new(),
        paths: path_rows,
        kernel_names: rows.names,
        kernels: rows.kernels,
        copies: rows.copies,
        fills: rows.fills,
        graph_launches: rows.graphs,
        graph_captures: capture_rows(&captured, &labels),
        coverage,
        // What other tools add comes later: see `without_collector`, `counters` and `timeline`.
        nsys: None,
        unplaced: None,
        ncu_regions: Vec::new(),
        sampled: None,
        costs: PassCosts::default(),
        peaks: None,
        insight: Insight::default(),
        findings,
        definitions: definitions::definitions(),
    }
}

fn capture_rows(captured: &HashMap<(u32, u32), Captured>, labels: &Labels<'_>) -> Vec<CaptureRow> {
    let mut rows: Vec<CaptureRow> = captured
        .iter()
        .map(|(&(replay, place), captured)| CaptureRow {
            replay_path: labels.path(replay).to_owned(),
            capture_path: labels.path(place).to_owned(),
            kernels: captured.kernels,
            kernel_sum_ns: captured.total_ns,
        })
        .collect();
    rows.sort_by_cached_key(|row| {
        (Reverse(row.kernel_sum_ns), row.replay_path.clone(), row.capture_path.clone())
    });
    rows
}

/// Whether a process says that its GPU is simulated.
fn is_simulated(process: &ProcessCapture) -> bool {
    process.meta.get(META_SIMULATED).is_some_and(|value| value == "1")
}
/// The median of a range that is the step of a stage is that of the steps, which leave out all of the first,
/// cold instance of the stage: one number wherever it is shown.
fn one_basis(paths: &mut [PathRow], stages: &[StageRow]) {
    let steps = stages.iter().filter_map(|row| row.steps.as_ref()).filter(|steps| steps.warm);
    let steps = steps.filter(|steps| steps.times.unit == StepUnit::RangeWithin);
    let medians: HashMap<&str, u64> = steps
        .filter_map(|steps| Some((steps.times.path.as_deref()?, steps.times.p50_ns)))
        .collect();
    for row in paths {
        if let Some(median_ns) = medians.get(row.path.as_str()) {
            row.host_warm_median_ns = Some(*median_ns);
        }
    }
}
