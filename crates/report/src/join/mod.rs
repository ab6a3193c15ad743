//! The captures of all processes of a run -> one [`Report`]: a pure join, by content.

pub mod counters;
pub(crate) mod coverage;
mod definitions;
mod devices;
pub mod empty;
pub(crate) mod energy;
mod engine;
pub(crate) mod kernels;
mod layers;
pub mod overhead;
mod paths;
pub(crate) mod requests;
pub mod same_name;
mod stages;
pub mod steps;
pub mod timeline;
pub mod without_collector;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::host::HostTotals;
use crate::ranks::JobProcesses;
use indexmap::{IndexMap, IndexSet};
use stage2_contract::order::Order as _;
use stage2_contract::text;
use stage2_contract::trace::{Device, Shape};
use stage2_model::{
    CaptureRow, Finding, LateCause, ModelWindows, Origin, PathKind, PathRow, Report, RunInfo,
    SCHEMA, SCHEMA_VERSION, StageRow, StepUnit,
};
use stage2_read::path_label::{
    OUTSIDE_RANGES, UNATTRIBUTED_WORK, UNDEFINED_KERNEL, UNDEFINED_RANGE, UNKNOWN_CAPTURE,
    WHOLE_PROCESS, element, shown, visible_name,
};
use stage2_read::trace::paths::{OUTSIDE, PathIndex, UNATTRIBUTED, UNDEFINED};
use stage2_read::trace::stats::{GroupKey, Stats, Work};
use stage2_read::trace::{Capture, Captured, ProcessCapture};
pub(crate) use steps::WholeCalls;

/// Key under which a collector says that its GPU is simulated, with the value `1`.
const META_SIMULATED: &str = "cupti.simulated";

/// Key under which a collector states why an unknown amount of GPU work is missing.
const META_INCOMPLETE: &str = "gpu.incomplete";

/// GPU work of the whole run, by identifiers of the whole run; in their order, so that rows that nothing
/// else tells apart come in the same order each time.
type Groups = BTreeMap<GroupKey, Stats>;

/// Joins the captures of all processes. `findings` are those of the run itself.
pub fn join(mut capture: Capture, run: RunInfo, findings: Vec<Finding>) -> Report {
    join_kept(&mut capture, run, findings).0
}

/// Joins the captures of all processes, whose files can be read a second time afterwards: names,
/// paths and clocks stay with them. `findings` are those of the run itself. Also gives what may take the place of the
/// steps of a stage, by its name.
pub(crate) fn join_kept(
    capture: &mut Capture,
    run: RunInfo,
    findings: Vec<Finding>,
) -> (Report, BTreeMap<String, WholeCalls>) {
    let mut coverage = coverage::coverage(capture);
    let found = coverage::process_findings(&capture.processes, &coverage);
    let mut findings =
        coverage::distinct([findings, std::mem::take(&mut capture.findings), found].concat());

    let mut tables = Tables::new();
    let mut groups = Groups::new();
    let mut captured = Captures::new();
    let mut modules = layers::ModuleTotals::default();
    let mut stages = stages::StageTotals::default();
    let mut paths = paths::PathTotals::default();
    let mut devices = devices::DeviceTotals::default();
    let mut energy = energy::StageEnergies::default();
    let mut host = HostTotals::default();
    let mut model_windows: Option<ModelWindows> = None;
    let mut job = JobProcesses::default();
    let mut steps = steps::StepCandidates::default();
    let inferred_steps = steps::inferred(&capture.processes);
    let (engine, of_engine) = engine::run(&capture.processes);
    findings.extend(of_engine);
    for (file, process) in capture.processes.iter_mut().enumerate() {
        let mapping = tables.intern(file, process);
        job.add_process(process, |path| mapping.path(path), |device| mapping.device(device));
        stages.add_process(process, &mapping, &tables);
        steps.add_process(process, &mapping);
        paths.add_process(process, &mapping);
        devices.add_process(process, &mapping);
        energy.add_process(process, &mapping);
        host.add_process(file as u32, process, |path| mapping.path(path));
        if let Some(windows) = process.model_windows.filter(|_| process.gpu_recorded()) {
            let windows = ModelWindows { all_ns: windows.all_ns, warm_ns: windows.warm_ns };
            model_windows = Some(model_windows.map_or(windows, |sum| sum.plus(windows)));
        }
        for (&(replay, place), kernels) in &process.captured {
            let place = (place != UNATTRIBUTED).then(|| mapping.path(place));
            let sum = captured.entry((mapping.path(replay), place)).or_default();
            sum.kernels = sum.kernels.saturating_add(kernels.kernels);
            sum.total_ns = sum.total_ns.saturating_add(kernels.total_ns);
        }
        modules.add_process(process, |key| tables.group(key, &mapping));
        for (key, stats) in &process.groups {
            groups.entry(tables.group(*key, &mapping)).or_default().merge(stats);
        }
    }

    let labels = Labels::new(&tables);
    let files: Vec<&str> = coverage.processes.iter().map(|p| p.file.as_str()).collect();
    let paths::Rows { rows: mut path_rows, of_path: row_of_path, side_by_side } =
        paths.rows(&groups, &labels);
    let join = kernels::Join { labels: &labels, row_of_path: &row_of_path, files: &files };
    let mut rows = join.rows(&groups);
    let shared = devices.shared();
    let mut stage_rows = stages.rows(&groups, &labels, &shared);
    let mut of_stages = steps.finish(&tables, &labels, &capture.names.roles);
    let mut step_series = Vec::new();
    let mut whole_calls = BTreeMap::new();
    for row in &mut stage_rows {
        if let Some(chosen) = of_stages.remove(&row.stage) {
            row.steps = Some(chosen.steps);
            step_series.push(chosen.series);
            whole_calls.extend(chosen.whole_calls.map(|calls| (row.stage.clone(), calls)));
        }
    }
    one_basis(&mut path_rows, &stage_rows);
    for (path, count) in steps.in_closed() {
        let at = row_of_path.get(path as usize);
        if let Some(row) = at.and_then(|at| path_rows.get_mut(*at)) {
            row.in_closed = Some(count);
        }
    }
    let mut longest = kernels::stage_kernels(join.named(&groups), &rows.names, &stage_rows);
    kernels::keep_cold_of(&stage_rows, &mut rows.kernels, &mut longest);
    let device_rows = devices.rows(&groups, &labels);
    let (processes, mut ranks, late_spans, of_ranks) =
        job.finish(|p| labels.stage(p), |p| labels.path(p), &stage_rows, &device_rows);
    // An instance of a stage that stands for steps of an engine is a step.
    let is_step = |stage: &str| engine.as_ref().is_some_and(|run| run.timed(stage).is_some());
    for late in ranks.late.iter_mut().filter(|late| is_step(&late.stage)) {
        if let Some(steps) = late.delays.as_mut().and_then(|delays| delays.steps.as_mut()) {
            steps.noun = StepUnit::OfEngine.noun().to_owned();
        }
    }
    for (late, spans) in ranks.late.iter_mut().zip(&late_spans) {
        let on_host = late.delays.as_ref().is_some_and(|of| of.cause() != LateCause::Gpu);
        late.host = spans.as_ref().filter(|_| on_host).and_then(|spans| host.late(spans));
    }
    if let Some(compared) = ranks.compared.filter(|_| coverage.gpu_records() > 0) {
        coverage.verdict.text.push_str(&format!("; {}", compared.sentence()));
    }
    findings.extend(paths::numbered_ranges(&path_rows, &capture.names.roles));
    findings.extend(paths::joined_names(&path_rows));
    findings.extend(paths::side_by_side_ranges(&path_rows, &side_by_side));
    findings.extend(coverage::shared_devices(&device_rows).chain(of_ranks));
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        generator: concat!("stage2-launch ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: Origin::Collector.label().to_owned(),
        simulated: coverage.processes.iter().any(|process| process.simulated),
        run,
        devices: device_rows,
        processes,
        ranks,
        stage_kernels: longest,
        energy: energy.rows(&labels, &stage_rows, &shared),
        host: host.finish(|path| labels.stage(path), &stage_rows),
        layers: modules.rows(&groups, &labels, &stage_rows),
        stages: stage_rows,
        inferred_steps,
        engine,
        model_windows,
        step_series,
        paths: path_rows,
        kernel_names: rows.names,
        kernels: rows.kernels,
        copies: rows.copies,
        fills: rows.fills,
        graph_launches: rows.graphs,
        graph_captures: capture_rows(&captured, &labels),
        coverage,
        findings,
        definitions: definitions::definitions(),
        // What other tools add comes later: see `without_collector`, `counters` and `timeline`.
        ..Report::default()
    };
    engine::rates_of_the_gpu(&mut report);
    (report, whole_calls)
}

/// Kernels of graph replays by their path, and the path of their capture; nothing: that is not known.
type Captures = HashMap<(u32, Option<u32>), Captured>;

/// They add up to the kernels of all graph replays. No rows where no capture is known.
fn capture_rows(captured: &Captures, labels: &Labels<'_>) -> Vec<CaptureRow> {
    if captured.keys().all(|(_, place)| place.is_none()) {
        return Vec::new();
    }
    let row = |(&(replay, place), captured): (&(u32, Option<u32>), &Captured)| CaptureRow {
        replay_path: labels.path(replay).to_owned(),
        capture_path: place.map_or(UNKNOWN_CAPTURE, |place| labels.path(place)).to_owned(),
        kernels: captured.kernels,
        kernel_sum_ns: captured.total_ns,
    };
    let mut rows: Vec<CaptureRow> = captured.iter().map(row).collect();
    rows.order_by_cached_key(|row| {
        (Reverse(row.kernel_sum_ns), row.replay_path.clone(), row.capture_path.clone())
    });
    rows
}

fn is_simulated(process: &ProcessCapture) -> bool {
    process.meta.get(META_SIMULATED).is_some_and(|value| value == "1")
}

/// The median of a range that is the step of a stage is that of the steps, which leave out all of the first,
/// cold instance of the stage: one number wherever it is shown.
fn one_basis(paths: &mut [PathRow], stages: &[StageRow]) {
    let steps = stages.iter().filter_map(|row| row.steps.as_ref());
    let steps = steps.filter(|steps| steps.warm && steps.times.unit == StepUnit::RangeWithin);
    let medians: HashMap<&str, u64> = steps
        .filter_map(|steps| Some((steps.times.path.as_deref()?, steps.times.p50_ns)))
        .collect();
    for row in paths {
        let median_ns = medians.get(row.path.as_str()).copied();
        row.host_warm_median_ns = median_ns.or(row.host_warm_median_ns);
    }
}

/// Stands for the whole of each process whose user opened no range.
const WHOLE: u32 = 3;

/// A range name under its parents, of the whole run.
#[derive(Clone, Debug, Default)]
struct Node {
    parent: Option<u32>,
    top: u32,
    depth: u64,
    kind: PathKind,
    name: String,
    domain: Option<String>,
}

/// Parent, name, domain.
type NodeKey = (Option<u32>, Option<Vec<u8>>, Option<Vec<u8>>);

/// A kernel with its launch configuration; `launch` without its identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GlobalShape {
    name: u32,
    launch: Option<Shape>,
}

/// A GPU: by its UUID on its host, else by its number in its file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum DeviceKey {
    Uuid { simulated: bool, host: Option<String>, uuid: [u8; 16] },
    InFile { file: usize, id: Option<u32> },
}

/// A GPU as the run saw it first.
#[derive(Clone, Debug)]
struct GlobalDevice {
    index: Option<u32>,
    device: Option<Device>,
    host: Option<String>,
    pid: Option<u32>,
    simulated: bool,
}

/// Everything that rows refer to, by identifiers of the run.
#[derive(Debug, Default)]
struct Tables {
    nodes: Vec<Node>,
    node_index: HashMap<NodeKey, u32>,
    kernel_names: IndexSet<Vec<u8>>,
    shapes: IndexSet<GlobalShape>,
    devices: IndexMap<DeviceKey, GlobalDevice>,
    /// CUDA graphs: the index of the file, and CUPTI's id in it.
    graphs: IndexSet<(usize, u32)>,
}

/// From the indices of one file to those of the run.
#[derive(Debug, Default)]
struct Mapping {
    file: usize,
    paths: Vec<u32>,
    shapes: Vec<u32>,
    devices: Vec<u32>,
}

impl Mapping {
    fn path(&self, index: PathIndex) -> u32 {
        self.paths.get(index as usize).copied().unwrap_or(UNDEFINED)
    }

    /// Index 0 of every file's shapes is the stand-in for undefined ones.
    fn shape(&self, index: u32) -> u32 {
        self.shapes.get(index as usize).or(self.shapes.first()).copied().unwrap_or(u32::MAX)
    }

    fn device(&self, index: u32) -> u32 {
        self.devices.get(index as usize).copied().unwrap_or(0)
    }
}

impl Tables {
    fn new() -> Self {
        let special = [
            (OUTSIDE, PathKind::OutsideRanges, OUTSIDE_RANGES),
            (UNATTRIBUTED, PathKind::Unattributed, UNATTRIBUTED_WORK),
            (UNDEFINED, PathKind::Undefined, UNDEFINED_RANGE),
            (WHOLE, PathKind::WholeProcess, WHOLE_PROCESS),
        ];
        let nodes = special.map(|(top, kind, name)| Node {
            top,
            kind,
            name: name.to_owned(),
            ..Node::default()
        });
        Self { nodes: nodes.to_vec(), ..Self::default() }
    }

    /// Interns what `process`, the `file`th, defines.
    fn intern(&mut self, file: usize, process: &ProcessCapture) -> Mapping {
        Mapping {
            file,
            paths: self.intern_paths(process),
            shapes: self.intern_shapes(process),
            devices: self.intern_devices(file, process),
        }
    }

    fn group(&mut self, key: GroupKey, mapping: &Mapping) -> GroupKey {
        let work = match key.work {
            Work::Kernel(shape) => Work::Kernel(mapping.shape(shape)),
            Work::Graph(id) => Work::Graph(self.graphs.insert_full((mapping.file, id)).0 as u32),
            other => other,
        };
        GroupKey { path: mapping.path(key.path), work, device: mapping.device(key.device) }
    }

    fn intern_paths(&mut self, process: &ProcessCapture) -> Vec<u32> {
        let bytes = |name: Option<u32>| name.and_then(|i| process.names.get(i as usize)).cloned();
        let mut mapped: Vec<u32> = vec![OUTSIDE, UNATTRIBUTED, UNDEFINED];
        let whole = process.whole.as_ref().and_then(|whole| mapped.get_mut(whole.path as usize));
        whole.into_iter().for_each(|path| *path = WHOLE);
        for node in process.paths.iter().skip(mapped.len()) {
            let parent = node.parent.and_then(|p| mapped.get(p as usize)).copied();
            let key = (parent, bytes(node.name), bytes(node.domain));
            let known = self.node_index.get(&key).copied();
            mapped.push(known.unwrap_or_else(|| self.add_node(key)));
        }
        mapped
    }

    fn add_node(&mut self, key: NodeKey) -> u32 {
        let index = self.nodes.len() as u32;
        let around = key.0.and_then(|parent| self.nodes.get(parent as usize));
        self.nodes.push(Node {
            parent: key.0,
            top: around.map_or(index, |node| node.top),
            depth: around.map_or(0, |node| node.depth + 1),
            kind: around.map_or(PathKind::Range, |node| node.kind),
            name: visible_name(key.1.as_deref()),
            domain: key.2.as_deref().map(text::visible),
        });
        self.node_index.insert(key, index);
        index
    }

    fn intern_shapes(&mut self, process: &ProcessCapture) -> Vec<u32> {
        let mut mapped = Vec::with_capacity(process.shapes.len());
        for entry in &process.shapes {
            if !entry.defined && process.undefined.shapes == 0 {
                // The stand-in, which nothing in this file refers to.
                mapped.push(u32::MAX);
                continue;
            }
            let bytes = entry.name.and_then(|name| process.names.get(name as usize));
            let bytes = bytes.cloned().unwrap_or_else(|| UNDEFINED_KERNEL.as_bytes().to_vec());
            let name = self.kernel_names.insert_full(bytes).0 as u32;
            let launch = entry.defined.then_some(Shape { id: 0, name: 0, ..entry.shape });
            mapped.push(self.shapes.insert_full(GlobalShape { name, launch }).0 as u32);
        }
        mapped
    }

    fn intern_devices(&mut self, file: usize, process: &ProcessCapture) -> Vec<u32> {
        let simulated = is_simulated(process);
        let host = process.process.as_ref().map(|p| text::visible(p.host.as_bytes()));
        let pid = process.process.as_ref().map(|p| p.pid);
        let mut mapped = Vec::with_capacity(process.devices.len());
        for entry in &process.devices {
            let uuid = entry.device.as_ref().map(|d| d.uuid).filter(|uuid| *uuid != [0; 16]);
            let key = match uuid {
                Some(uuid) => DeviceKey::Uuid { simulated, host: host.clone(), uuid },
                None => DeviceKey::InFile { file, id: entry.id },
            };
            let known = self.devices.entry(key);
            mapped.push(known.index() as u32);
            let (device, host) = (entry.device.clone(), host.clone());
            known.or_insert(GlobalDevice { index: entry.id, device, host, pid, simulated });
        }
        mapped
    }
}

#[derive(Debug)]
struct Labels<'t> {
    tables: &'t Tables,
    paths: Vec<String>,
    devices: Vec<String>,
}

impl<'t> Labels<'t> {
    fn new(tables: &'t Tables) -> Self {
        let nodes = &tables.nodes;
        Self {
            tables,
            paths: nodes.iter().map(|node| path_label(nodes, node)).collect(),
            devices: device_labels(&tables.devices.values().collect::<Vec<_>>()),
        }
    }

    fn path(&self, path: u32) -> &str {
        let undefined = self.paths.get(UNDEFINED as usize);
        self.paths.get(path as usize).or(undefined).map_or("", String::as_str)
    }

    /// The stage of a path; it is a path itself.
    fn stage_of(&self, path: u32) -> u32 {
        self.tables.nodes.get(path as usize).map_or(UNDEFINED, |node| node.top)
    }

    fn stage(&self, path: u32) -> &str {
        self.path(self.stage_of(path))
    }

    fn device(&self, device: u32) -> &str {
        self.devices.get(device as usize).map_or("", String::as_str)
    }
}

fn path_label(nodes: &[Node], node: &Node) -> String {
    let up = |node: &&Node| node.parent.and_then(|parent| nodes.get(parent as usize));
    let around = std::iter::successors(Some(node), up);
    let element = |node: &Node| element(&node.name, node.domain.as_deref());
    shown(around.map(element), node.depth, nodes.get(node.top as usize).map(element)).join("/")
}

const SIMULATED: &str = " (simulated)";

fn device_labels(devices: &[&GlobalDevice]) -> Vec<String> {
    let short: Vec<String> = devices.iter().map(|device| short_label(device)).collect();
    let unique = |(label, device): (&String, &&GlobalDevice)| {
        let is_unique = short.iter().filter(|other| *other == label).count() < 2;
        if is_unique { label.clone() } else { format!("{label} ({})", distinction(device)) }
    };
    short.iter().zip(devices).map(unique).collect()
}

fn short_label(device: &GlobalDevice) -> String {
    let Some(index) = device.index else { return "(device not known)".to_owned() };
    let name = device.device.as_ref().map(|d| text::shorten(&text::visible(&d.name), 60));
    let name = name.as_deref().filter(|name| !name.trim().is_empty());
    let name = name.unwrap_or("(name not known)");
    // The simulated GPU of this project says it in its name already.
    let marked = device.simulated && !name.ends_with(SIMULATED);
    format!("{index} {name}{}", if marked { SIMULATED } else { "" })
}

fn distinction(device: &GlobalDevice) -> String {
    let host = device.host.as_deref().unwrap_or_default();
    let uuid = device.device.as_ref().map(|d| d.uuid).filter(|uuid| *uuid != [0; 16]);
    match (uuid, device.pid) {
        (Some(uuid), _) => format!("{host} GPU-{}", &text::uuid_text(uuid)[..8]),
        (None, Some(pid)) => format!("{host} pid {pid}"),
        (None, None) => "another process".to_owned(),
    }
}
