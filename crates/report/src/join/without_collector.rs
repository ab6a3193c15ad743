//! A run without kernels from the collector -> kernel rows from nsys, or else from ncu.
//!
//! Both say so in every row: nsys can lose records without a trace of it, and ncu's durations are
//! those of replayed launches at other clocks. The SQLite export of nsys is tallied as the
//! collector's files are; of its other tables and of ncu's reports only sums are known
//! ([`Piece`]), and what is not known is absent.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::join::counters::NCU_MARK;
use crate::join::join;
use crate::join::kernels::{distinct, percent, stage_kernels};
use indexmap::{IndexMap, IndexSet};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::count;
use stage2_contract::text::{kernel_name, visible};
use stage2_model::finding::Id;
use stage2_model::nsys::Source;
use stage2_model::{
    DeviceRow, Finding, KernelRow, Launch, Origin, PathKind, PathRow, Report, RunInfo, Severity,
    Sources, StageKernelRow, StageRow, Status, Times,
};
use stage2_read::kernel_class::class_of;
use stage2_read::ncu::load::{Key, Tables as NcuTables};
use stage2_read::ncu::nvtx;
use stage2_read::nsys::capture::{Export, ZERO_NS};
use stage2_read::nsys::{Naming, Placed, Range, Tables, capture};
use stage2_read::path_label::OUTSIDE_RANGES;
use stage2_read::trace::libraries::RangeNames;
use stage2_read::trace::stats::{Stats, mean};

/// Adds the rows, where the collector has none and another tool has some. Of several captures of
/// nsys, `nsys` has the one to prefer first.
pub(crate) fn rows(
    report: &mut Report,
    nsys: &[Tables],
    ncu: Option<&NcuTables>,
    libraries: &RangeNames,
) {
    if !report.kernels.is_empty() {
        return;
    }
    if let Some(tables) = nsys.iter().find(|tables| !tables.kernels.is_empty()) {
        let losses = loss_reason(tables);
        of_capture(report, tables, losses.is_none(), libraries);
        explain_source(report, Origin::Nsys, losses, tables.placed);
        report.findings.extend(several(nsys, tables));
    } else if let Some(tables) = ncu {
        let pieces = of_ncu(tables);
        if !pieces.is_empty() {
            fill(report, Origin::Ncu, &tables.devices, &HashMap::new(), pieces);
            explain_source(report, Origin::Ncu, None, Placed::Once);
        }
    }
}

/// The rows of a capture of nsys: of its SQLite as the collector's, of its tables what they say.
/// A capture that lost records (it is not `whole`) shows nothing about idle time.
fn of_capture(report: &mut Report, tables: &Tables, whole: bool, libraries: &RangeNames) {
    if let (Source::Sqlite, Some(file)) = (tables.source, tables.files.first()) {
        match capture::read(file, libraries) {
            Ok(mut export) => {
                export.capture.findings.retain(|finding| !tables.findings.contains(finding));
                let mark = make_room(report, Origin::Nsys);
                return rows_of_export(report, export, mark, whole);
            }
            Err(finding) => report.findings.push(finding),
        }
    }
    let ranges = tables.ranges.iter().map(|range| (label(range), range)).collect();
    fill(report, Origin::Nsys, &tables.devices, &ranges, of_nsys(tables));
}

/// Ranges of the collector without any GPU work give way: their times are of another run. Those
/// that it saw other work in stay, and those of the other tool stand next to them, with the mark
/// that this gives.
fn make_room(report: &mut Report, origin: Origin) -> &'static str {
    if report.coverage.gpu_records() > 0 {
        return if origin == Origin::Ncu { NCU_MARK } else { " (nsys)" };
    }
    report.stages.clear();
    report.paths.clear();
    report.devices.clear();
    report.stage_kernels.clear();
    ""
}

fn text(name: &str) -> String {
    visible(name.as_bytes())
}

/// The stage of a range: `name`, or `name@domain`.
pub fn label(range: &Range) -> String {
    match &range.domain {
        Some(domain) => format!("{}@{}", text(&range.name), text(domain)),
        None => text(&range.name),
    }
}

/// Makes rows of pieces. `ranges` are those of nsys, by stage.
fn fill(
    report: &mut Report,
    origin: Origin,
    device_names: &BTreeMap<u32, String>,
    ranges: &HashMap<String, &Range>,
    mut pieces: Vec<Piece>,
) {
    let mark = make_room(report, origin);
    pieces.order_by(|a, b| {
        let longest = |p: &Piece| (Reverse(p.times.total_ns), Reverse(p.times.calls));
        let rest = |p: &Piece| (p.shape, p.device);
        (longest(a), &a.name, rest(a), &a.stage).cmp(&(longest(b), &b.name, rest(b), &b.stage))
    });
    let all_ns = pieces.iter().fold(0u64, |sum, piece| sum.saturating_add(piece.times.total_ns));
    let first_path = report.paths.len();
    let mut stages: IndexMap<String, StageRow> = IndexMap::new();
    let mut timed_calls: HashMap<usize, u64> = HashMap::new();
    let mut names: IndexSet<String> = IndexSet::new();
    for Piece { name, shape, device, stage, kind, times, .. } in pieces {
        let device = on_device(report, device, device_names, &times);
        let at = stages.entry(stage.clone());
        let path_index = first_path + at.index();
        let marked = format!("{stage}{mark}");
        let range = ranges.get(&stage);
        let row = at.or_insert_with(|| StageRow {
            stage: marked.clone(),
            kind,
            instances: range.and_then(|range| range.instances),
            unclosed: range.map(|range| range.unclosed),
            host_total_ns: range.and_then(|range| range.host_total_ns),
            ..StageRow::default()
        });
        row.kernels = Some(row.kernels.unwrap_or(0).saturating_add(times.calls));
        let total_ns = times.known_total_ns();
        if let Some(ns) = total_ns {
            let sum_ns = row.kernel_sum_ns.unwrap_or(0).saturating_add(ns);
            let timed = timed_calls.entry(path_index).or_default();
            *timed = timed.saturating_add(timed_of(&times));
            (row.kernel_sum_ns, row.kernel_mean_ns) = (Some(sum_ns), mean(sum_ns, *timed));
        }
        report.kernels.push(KernelRow {
            name_index: names.insert_full(name).0,
            device,
            simulated: report.simulated,
            stage: marked.clone(),
            path: marked,
            path_index,
            launch: shape
                .map(|(grid, block)| Launch { grid, block, ..Launch::default() })
                .filter(|launch| *launch != Launch::default()),
            kernel_sum_percent: total_ns.and_then(|ns| percent(ns, all_ns)),
            times,
            sources: Sources { times: origin, counters: None },
            ..KernelRow::default()
        });
    }
    report.kernel_names = distinct(names.iter().map(|name| kernel_name(name.as_bytes())));
    for row in &mut report.kernels {
        if let Some(name) = report.kernel_names.get(row.name_index) {
            row.kernel.clone_from(&name.short);
            class_of(name).label().clone_into(&mut row.class);
        }
    }
    for (stage, row) in stages {
        let range = ranges.get(&stage);
        report.paths.push(PathRow {
            path: row.stage.clone(),
            name: range.map_or_else(|| row.stage.clone(), |range| text(&range.name)),
            domain: range.and_then(|range| range.domain.as_deref().map(text)),
            kind: row.kind,
            instances: row.instances,
            unclosed: row.unclosed,
            host_total_ns: row.host_total_ns,
            kernels_inclusive: row.kernels,
            kernels_exclusive: row.kernels,
            kernel_sum_inclusive_ns: row.kernel_sum_ns,
            kernel_sum_exclusive_ns: row.kernel_sum_ns,
            ..PathRow::default()
        });
        report.stages.push(row);
    }
    let kernels = report.kernels.iter().map(|row| {
        let Times { calls, invalid_timestamp_calls: untimed, total_ns, .. } = row.times;
        let stats = Stats { calls, untimed, total_ns, ..Stats::default() };
        (row.stage.as_str(), row.name_index, stats)
    });
    let mut rows = stage_kernels(kernels, &report.kernel_names, &report.stages);
    for times in rows.iter_mut().map(|row| &mut row.times) {
        times.mean_ns = mean(times.total_ns, timed_of(times));
    }
    report.stage_kernels.extend(rows);
}

/// Calls with valid times.
fn timed_of(times: &Times) -> u64 {
    times.calls.saturating_sub(times.invalid_timestamp_calls)
}

/// Counts kernels on a device; gives its label.
fn on_device(
    report: &mut Report,
    index: Option<u32>,
    names: &BTreeMap<u32, String>,
    times: &Times,
) -> String {
    let Report { devices, simulated, .. } = report;
    let at = devices.iter().position(|row| row.index == index).unwrap_or_else(|| {
        let name = index.and_then(|index| names.get(&index)).map(|name| text(name));
        let shown = name.as_deref().unwrap_or("(name not known)");
        let device = match index {
            Some(index) => format!("{index} {shown}"),
            None => "(device not known)".to_owned(),
        };
        let simulated = *simulated;
        devices.push(DeviceRow { device, index, name, simulated, ..DeviceRow::default() });
        devices.len() - 1
    });
    let Some(row) = devices.get_mut(at) else { return String::new() };
    row.kernels = row.kernels.saturating_add(times.calls);
    row.kernel_sum_ns = row.kernel_sum_ns.saturating_add(times.total_ns);
    row.device.clone()
}

/// Why a capture of nsys that nothing can be compared with is doubted.
fn loss_reason(tables: &Tables) -> Option<String> {
    let missing = tables.counts.call_numbers_missing;
    if missing > 0 {
        return Some(format!(
            "this capture LOST RECORDS by its own numbers: about {} calls of the CUDA API are \
             missing from their sequence",
            count(missing)
        ));
    }
    (!tables.complete).then(|| "its files are damaged or lack what was looked for".to_owned())
}

/// Says whose rows they are, also in the verdict on the first screen.
fn explain_source(report: &mut Report, origin: Origin, losses: Option<String>, placed: Placed) {
    let label = origin.label();
    let calls = report.kernels.iter().fold(0u64, |sum, row| sum.saturating_add(row.times.calls));
    let general = match origin {
        Origin::Ncu => {
            "only launches that were chosen for profiling, replayed at other clocks and with cold \
             caches: durations are not undisturbed, and shares are not those of a run"
        }
        _ if placed == Placed::InEach => {
            "its table of ranges holds a kernel once for each range around it, so that nested ranges \
             count it more than once; what nsys lost, if anything, cannot be known either"
        }
        _ => "what nsys lost, if anything, cannot be known without the collector",
    };
    let severity = if losses.is_some() { Severity::Error } else { Severity::Warning };
    let why = losses.unwrap_or_else(|| general.to_owned());
    let verdict = &mut report.coverage.verdict;
    let none = report.coverage.processes.is_empty();
    let own = if none { String::new() } else { format!("; of the collector: {}", verdict.text) };
    verdict.status = Status::Partial;
    verdict.text = format!(
        "PARTIAL, with {} kernels of {label} and none of the collector: {why}{own}",
        count(calls)
    );
    label.clone_into(&mut report.source);
    if let Some(source) = report.definitions.iter_mut().find(|term| term.term == "source") {
        source.meaning = format!(
            "Rows of kernels, their durations and their stages come from {label}: the collector \
             recorded no kernel. Host times, windows and idle times are those under {label}, and \
             hold what it costs. A value that is not known is absent, never zero."
        );
    }
    report.findings.push(Id::SourceOther.graded(
        severity,
        format!("the collector has no kernels: rows and durations are those of {label}"),
        why,
        "run the workload under the collector (the collect pass) to have every launch",
    ));
}

/// Names of the files of a capture, without their folders.
pub(super) fn file_names(tables: &Tables) -> Vec<String> {
    let names = tables.files.iter().map(|path| path.file_name().unwrap_or_default());
    names.map(|name| visible(name.as_encoded_bytes())).collect()
}

/// Of several captures only one can give rows: together they may hold a run twice.
fn several(nsys: &[Tables], used: &Tables) -> Option<Finding> {
    let names = |tables: &Tables| file_names(tables).join(", ");
    let others = nsys.iter().filter(|tables| tables.files != used.files);
    let others: Vec<String> = others
        .map(|tables| format!("{} ({} kernels)", names(tables), count(tables.counts.kernels)))
        .collect();
    others.first()?;
    let others = others.join("; ");
    Some(Id::NsysSeveral.found(
        format!("of {} captures of nsys, the rows are those of {}", nsys.len(), names(used)),
        format!("captures may be of one run, and are not added up; left out: {others}"),
        "merge each capture into a separate bundle",
    ))
}

/// Puts the rows of `export` in the place of the collector's. Where that one saw other GPU work,
/// `mark` follows the name of every stage, and copies, fills and graphs stay the collector's. Where
/// the export is not `whole`, GPU work that is missing would pass for idle time.
fn rows_of_export(report: &mut Report, export: Export, mark: &str, whole: bool) {
    let unplaced = export.unplaced();
    let Export { capture, launches_are_detailed, .. } = export;
    report.findings.extend(capture.findings.iter().cloned());
    let mut made = join(capture, RunInfo::default(), Vec::new());
    if report.simulated {
        made.mark_simulated();
    }
    if !whole {
        without_busy_times(&mut made);
    }
    if unplaced.is_some() {
        without_zeros(&mut made);
        report.unplaced = unplaced;
    }
    for row in &mut made.kernels {
        row.sources = Sources { times: Origin::Nsys, counters: None };
        row.launch = row.launch.filter(|launch| launch.grid != [0; 3]);
        if let Some(launch) = row.launch.as_mut().filter(|_| !launches_are_detailed) {
            let Launch { grid, block, .. } = *launch;
            *launch = Launch { grid, block, ..Launch::default() };
        }
    }
    // On the clock of the file.
    for times in all_times(&mut made) {
        for time in [&mut times.first_start_gpu_ns, &mut times.last_end_gpu_ns] {
            *time = time.and_then(|ns| ns.checked_sub(ZERO_NS.cast_unsigned()));
        }
    }
    // It was made up, so that processes share their devices.
    made.devices.iter_mut().for_each(|row| row.uuid = None);
    report.kernel_names = std::mem::take(&mut made.kernel_names);
    if mark.is_empty() {
        report.copies = made.copies;
        report.fills = made.fills;
        report.graph_launches = made.graph_launches;
        report.devices = made.devices;
        report.stages = made.stages;
        report.inferred_steps = made.inferred_steps;
        report.stage_kernels = made.stage_kernels;
        report.paths = made.paths;
        report.kernels = made.kernels;
    } else {
        beside(report, made, mark);
    }
}

fn without_busy_times(made: &mut Report) {
    for row in &mut made.stages {
        without_busy_time(row);
        row.gpu_busy_uncertain_ns = 0;
    }
    for row in &mut made.devices {
        (row.gpu_busy_ns, row.gpu_span_ns, row.gpu_busy_percent) = (None, None, None);
    }
}

fn without_busy_time(row: &mut StageRow) {
    let StageRow { gpu_window_ns, gpu_busy_ns, gpu_idle_ns, gpu_short_gaps_ns, .. } = row;
    for time in [gpu_window_ns, gpu_busy_ns, gpu_idle_ns, gpu_short_gaps_ns] {
        *time = None;
    }
    (row.gpu_busy_percent, row.gpu_busy_parts, row.warm) = (None, None, None);
    row.devices.clear();
}

/// Work of which it is not known where it was launched may be that of a range that seems to have none.
fn without_zeros(made: &mut Report) {
    let is_range = |kind: PathKind| kind == PathKind::Range;
    for row in made.stages.iter_mut().filter(|row| is_range(row.kind) && row.has_no_gpu_work()) {
        let counts = [
            &mut row.kernels,
            &mut row.copies,
            &mut row.fills,
            &mut row.graph_launches,
            &mut row.kernel_sum_ns,
            &mut row.kernels_per_instance_min,
            &mut row.kernels_per_instance_median,
            &mut row.kernels_per_instance_max,
        ];
        counts.into_iter().for_each(|count| *count = None);
        without_busy_time(row);
    }
    let paths = made.paths.iter_mut().filter(|row| is_range(row.kind));
    for row in paths.filter(|row| row.kernels_inclusive == Some(0)) {
        (row.kernels_inclusive, row.kernels_exclusive) = (None, None);
        (row.kernel_sum_inclusive_ns, row.kernel_sum_exclusive_ns) = (None, None);
    }
}

/// Adds stages with a mark, and what belongs to them, to those of the collector.
fn beside(report: &mut Report, made: Report, mark: &str) {
    let marked = |stage: &str| format!("{stage}{mark}");
    let within = |path: &str, stage: &str| match path.strip_prefix(stage) {
        Some(rest) => format!("{}{rest}", marked(stage)),
        None => path.to_owned(),
    };
    let first_path = report.paths.len();
    let mut stage = String::new();
    for mut row in made.paths {
        if row.parent.is_none() {
            stage.clone_from(&row.path);
            row.name = marked(&row.name);
        }
        row.path = within(&row.path, &stage);
        row.parent = row.parent.map(|parent| parent + first_path);
        report.paths.push(row);
    }
    let devices: HashMap<String, String> =
        made.devices.into_iter().map(|row| (row.device.clone(), add_device(report, row))).collect();
    let known = |device: &mut String| {
        if let Some(known) = devices.get(device) {
            device.clone_from(known);
        }
    };
    for mut row in made.stages {
        row.stage = marked(&row.stage);
        row.devices.iter_mut().for_each(|on| known(&mut on.device));
        report.stages.push(row);
    }
    let marked_row = |row: StageKernelRow| StageKernelRow { stage: marked(&row.stage), ..row };
    report.stage_kernels.extend(made.stage_kernels.into_iter().map(marked_row));
    for mut row in made.kernels {
        row.path = within(&row.path, &row.stage);
        row.stage = marked(&row.stage);
        row.path_index += first_path;
        known(&mut row.device);
        report.kernels.push(row);
    }
}

/// Adds the kernels of a device to the row that the collector has of it, or its row; gives its name.
fn add_device(report: &mut Report, made: DeviceRow) -> String {
    let Some(row) = report.devices.iter_mut().find(|row| row.index == made.index) else {
        let device = made.device.clone();
        report.devices.push(made);
        return device;
    };
    row.kernels = row.kernels.saturating_add(made.kernels);
    row.kernel_sum_ns = row.kernel_sum_ns.saturating_add(made.kernel_sum_ns);
    row.device.clone()
}

fn all_times(report: &mut Report) -> impl Iterator<Item = &mut Times> {
    let Report { kernels, stage_kernels, copies, fills, graph_launches, .. } = report;
    let kernels = kernels.iter_mut().map(|row| &mut row.times);
    let of_stages = stage_kernels.iter_mut().map(|row| &mut row.times);
    let memory = copies.iter_mut().chain(fills).map(|row| &mut row.times);
    let graphs = graph_launches.iter_mut().map(|row| &mut row.times);
    kernels.chain(of_stages).chain(memory).chain(graphs)
}

/// Where a launch was, if nobody saw its ranges.
const NOT_KNOWN: &str = "(not known)";
/// All that was captured, where no range is known at all.
const WHOLE: &str = "(whole capture)";

/// Kernels of one name and configuration in one stage on one device.
pub struct Piece {
    /// Its name.
    pub name: String,
    /// The name is mangled.
    pub mangled: bool,
    /// Grid and block.
    pub shape: Option<([u32; 3], [u32; 3])>,
    /// Index of the GPU.
    pub device: Option<u32>,
    /// The stage.
    pub stage: String,
    /// What kind of stage that is.
    pub kind: PathKind,
    /// Calls and durations.
    pub times: Times,
}

/// Rows of nsys. Ranges of its SQLite are the outermost of their thread, so that they part the
/// kernels. Those of the CSV tables may nest: then they do so only by their numbers, or where nothing
/// else is known of the kernels.
pub fn of_nsys(tables: &Tables) -> Vec<Piece> {
    let mut left: Vec<(u64, u64)> =
        tables.kernels.iter().map(|kernel| (kernel.calls, kernel.total_ns)).collect();
    let mut pieces = Vec::new();
    let piece = |index: usize, stage: String, kind, calls: u64, total_ns: u64| {
        let kernel = tables.kernels.get(index)?;
        // Extremes and calls without times are known of all launches of a kernel only.
        let whole = kernel.calls == calls;
        let untimed = if whole { kernel.untimed } else { 0 };
        let timed = calls.saturating_sub(untimed);
        let times = Times {
            calls,
            invalid_timestamp_calls: untimed,
            total_ns,
            mean_ns: mean(total_ns, timed).filter(|_| whole || kernel.untimed == 0),
            min_ns: kernel.min_ns.filter(|_| whole),
            max_ns: kernel.max_ns.filter(|_| whole),
            ..Times::default()
        };
        Some(Piece {
            name: kernel.name.to_string(),
            mangled: kernel.naming == Naming::Mangled,
            shape: kernel.grid.zip(kernel.block),
            device: kernel.device,
            stage,
            kind,
            times,
        })
    };
    if tables.placed != Placed::NotKnown {
        for range in &tables.ranges {
            for row in &range.kernels {
                let Some(rest) = left.get_mut(row.kernel) else { continue };
                *rest = (rest.0.saturating_sub(row.calls), rest.1.saturating_sub(row.total_ns));
                let (kind, calls) = (PathKind::Range, row.calls);
                pieces.extend(piece(row.kernel, label(range), kind, calls, row.total_ns));
            }
        }
    }
    // Kernels whose launch is not in the file may have been in any range.
    let outside = tables.placed != Placed::NotKnown && tables.counts.without_launch == 0;
    let (stage, kind) = match outside {
        _ if tables.ranges.is_empty() => (WHOLE, PathKind::WholeProcess),
        true => (OUTSIDE_RANGES, PathKind::OutsideRanges),
        false => (NOT_KNOWN, PathKind::Unattributed),
    };
    for (index, (calls, total_ns)) in left.into_iter().enumerate().filter(|(_, rest)| rest.0 > 0) {
        pieces.extend(piece(index, stage.to_owned(), kind, calls, total_ns));
    }
    pieces
}

/// The launches that ncu profiled. Profiled ranges are not kernels.
fn of_ncu(tables: &NcuTables) -> Vec<Piece> {
    let mut pieces: BTreeMap<(Key, String), Times> = BTreeMap::new();
    let no_range = tables.launches.iter().all(|launch| launch.ranges.is_empty());
    for launch in tables.launches.iter().filter(|launch| !launch.is_range()) {
        let (kernel, grid, block) = (launch.kernel.clone(), launch.grid, launch.block);
        let key = Key { kernel, grid, block, device: launch.device };
        let stage = launch.ranges.get(..1).map(nvtx::path).unwrap_or_default();
        let times = pieces.entry((key, stage)).or_default();
        let count = launch.count();
        times.calls = times.calls.saturating_add(count);
        let Some(ns) = launch.duration_ns() else {
            times.invalid_timestamp_calls = times.invalid_timestamp_calls.saturating_add(count);
            continue;
        };
        let whole = |ns: f64| ns.round() as u64;
        let (least, most) = launch.duration_ends_ns.unwrap_or((ns, ns));
        times.total_ns = times.total_ns.saturating_add(whole(ns * count as f64));
        times.min_ns = Some(times.min_ns.map_or(whole(least), |min| min.min(whole(least))));
        times.max_ns = times.max_ns.max(Some(whole(most)));
    }
    let piece = |((key, stage), mut times): ((Key, String), Times)| {
        times.mean_ns = mean(times.total_ns, timed_of(&times));
        let (stage, kind) = match stage.is_empty() {
            true if no_range => (WHOLE.to_owned(), PathKind::WholeProcess),
            true => (NOT_KNOWN.to_owned(), PathKind::Unattributed),
            false => (stage, PathKind::Range),
        };
        Piece {
            name: key.kernel,
            mangled: tables.names_are_mangled,
            shape: Some((key.grid, key.block)),
            device: Some(key.device),
            stage,
            kind,
            times,
        }
    };
    pieces.into_iter().map(piece).collect()
}
