//! A run without kernels from the collector -> kernel rows from nsys, or else from ncu.
//!
//! Both say so in every row: nsys can lose records without a trace of it, and ncu's durations are
//! those of replayed launches at other clocks. The SQLite export of nsys is tallied as the
//! collector's files are ([`export`]); of its other tables and of ncu's reports only sums are known
//! ([`pieces`]), and what is not known is absent.

mod export;
mod pieces;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use indexmap::{IndexMap, IndexSet};

use self::pieces::of_ncu;
pub use self::pieces::{Piece, of_nsys};
use super::kernels::{distinct, percent, stage_kernels};
use stage2_contract::text::numbers::count;
use stage2_contract::text::{kernel_name, visible};
use stage2_model::nsys::Source;
use stage2_model::{
    DeviceRow, Finding, KernelRow, Launch, Origin, PathRow, Report, Severity, Sources, StageRow,
    Status, Times,
};
use stage2_read::kernel_class::class_of;
use stage2_read::ncu::load::Tables as NcuTables;
use stage2_read::nsys::{Placed, Range, Tables, capture};
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
        let doubts = doubts(tables);
        of_capture(report, tables, doubts.is_none(), libraries);
        told(report, Origin::Nsys, doubts, tables.placed);
        report.findings.extend(several(nsys, tables));
    } else if let Some(tables) = ncu {
        let pieces = of_ncu(tables);
        if !pieces.is_empty() {
            fill(report, Origin::Ncu, &tables.devices, &HashMap::new(), pieces);
            told(report, Origin::Ncu, None, Placed::Once);
        }
    }
}

/// The rows of a capture of nsys: of its SQLite as the collector's, of its tables what they say.
/// What lost records (it is not `whole`) says nothing about idle time.
fn of_capture(report: &mut Report, tables: &Tables, whole: bool, libraries: &RangeNames) {
    if let (Source::Sqlite, Some(file)) = (tables.source, tables.files.first()) {
        match capture::read(file, libraries) {
            Ok(mut export) => {
                export.capture.findings.retain(|finding| !tables.findings.contains(finding));
                let mark = make_room(report, Origin::Nsys);
                return export::rows(report, export, mark, whole);
            }
            Err(finding) => report.findings.push(finding),
        }
    }
    let ranges = tables.ranges.iter().map(|range| (label(range), range)).collect();
    fill(report, Origin::Nsys, &tables.devices, &ranges, of_nsys(tables));
}

/// Ranges of the collector without any GPU work give way: their times are of another run. Those
/// that it saw other work in stay, and those of the other tool stand beside them, with the mark
/// that this gives.
fn make_room(report: &mut Report, origin: Origin) -> &'static str {
    let mark = match (report.coverage.gpu_records(), origin) {
        (0, _) => "",
        (_, Origin::Ncu) => " (ncu)",
        (_, _) => " (nsys)",
    };
    if mark.is_empty() {
        report.stages.clear();
        report.paths.clear();
        report.devices.clear();
        report.stage_kernels.clear();
    }
    mark
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
    pieces.sort_by(|a, b| {
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
        let row = at.or_insert_with(|| {
            let range = ranges.get(&stage);
            StageRow {
                stage: marked.clone(),
                kind,
                instances: range.and_then(|range| range.instances),
                unclosed: range.map(|range| range.unclosed),
                host_total_ns: range.and_then(|range| range.host_total_ns),
                ..StageRow::default()
            }
        });
        row.kernels = Some(row.kernels.unwrap_or(0).saturating_add(times.calls));
        let total_ns = times.known_total_ns();
        if let Some(ns) = total_ns {
            let sum_ns = row.kernel_sum_ns.unwrap_or(0).saturating_add(ns);
            let timed = timed_calls.entry(path_index).or_default();
            *timed =
                timed.saturating_add(times.calls.saturating_sub(times.invalid_timestamp_calls));
            (row.kernel_sum_ns, row.kernel_mean_ns) = (Some(sum_ns), mean(sum_ns, *timed));
        }
        report.kernels.push(KernelRow {
            name_index: names.insert_full(name).0,
            device,
            simulated: report.simulated,
            stage: marked.clone(),
            path: marked,
            path_index,
            launch: shape.filter(|shape| *shape != ([0; 3], [0; 3])).map(|(grid, block)| Launch {
                grid,
                block,
                ..Launch::default()
            }),
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
    for Times { calls, invalid_timestamp_calls, total_ns, mean_ns, .. } in
        rows.iter_mut().map(|row| &mut row.times)
    {
        *mean_ns = mean(*total_ns, calls.saturating_sub(*invalid_timestamp_calls));
    }
    report.stage_kernels.extend(rows);
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
        devices.push(DeviceRow {
            device,
            index,
            name,
            simulated: *simulated,
            ..DeviceRow::default()
        });
        devices.len() - 1
    });
    let Some(row) = devices.get_mut(at) else { return String::new() };
    row.kernels = row.kernels.saturating_add(times.calls);
    row.kernel_sum_ns = row.kernel_sum_ns.saturating_add(times.total_ns);
    row.device.clone()
}

/// Why a capture of nsys that nothing can be compared with is doubted.
fn doubts(tables: &Tables) -> Option<String> {
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
fn told(report: &mut Report, origin: Origin, doubts: Option<String>, placed: Placed) {
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
    let severity = if doubts.is_some() { Severity::Error } else { Severity::Warning };
    let why = doubts.unwrap_or_else(|| general.to_owned());
    let verdict = &mut report.coverage.verdict;
    let collector = match report.coverage.processes.is_empty() {
        true => String::new(),
        false => format!("; of the collector: {}", verdict.text),
    };
    verdict.status = Status::Partial;
    verdict.text = format!(
        "PARTIAL, with {} kernels of {label} and none of the collector: {why}{collector}",
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
    report.findings.push(Finding::new(
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
    let others: Vec<String> = nsys
        .iter()
        .filter(|tables| tables.files != used.files)
        .map(|tables| format!("{} ({} kernels)", names(tables), count(tables.counts.kernels)))
        .collect();
    (!others.is_empty()).then(|| {
        Finding::warning(
            format!("of {} captures of nsys, the rows are those of {}", nsys.len(), names(used)),
            format!(
                "captures may be of one run, and are not added up; left out: {}",
                others.join("; ")
            ),
            "merge each capture into a bundle of its own",
        )
    })
}
