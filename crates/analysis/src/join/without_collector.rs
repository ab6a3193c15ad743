//! A run of which the collector has no kernels -> rows of kernels from nsys, or else from ncu.
//!
//! Both say so in every row: nsys can lose records without a trace of it, and ncu's durations are
//! those of replayed launches at other clocks. The SQLite export of nsys is tallied as the
//! collector's files are ([`export`]); of its other tables and of ncu's reports only sums are known
//! ([`pieces`]), and what is not known is absent.

mod export;
mod pieces;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use self::pieces::of_ncu;
pub use self::pieces::{Piece, of_nsys};
use super::kernels::{TOP_PER_STAGE, distinct, percent};
use crate::load::libraries::LibraryDomains;
use crate::load::stats::mean;
use crate::ncu::load::Tables as NcuTables;
use crate::nsys::load::{Range, Tables, capture};
use crate::roofline::class::class_of;
use stage2_model::nsys::Source;
use stage2_model::{
    DeviceRow, Finding, KernelRow, Launch, Origin, PathRow, Report, Severity, Sources,
    StageKernelRow, StageRow, Status,
};
use stage2_text::numbers::count;
use stage2_text::{kernel_name, visible};

/// Adds the rows, where the collector has none and another tool has some. Of several captures of
/// nsys, `nsys` has the one to prefer first.
pub(crate) fn rows(
    report: &mut Report,
    nsys: &[Tables],
    ncu: Option<&NcuTables>,
    libraries: &LibraryDomains,
) {
    if !report.kernels.is_empty() {
        return;
    }
    if let Some(tables) = nsys.iter().find(|tables| !tables.kernels.is_empty()) {
        let doubts = doubts(tables);
        of_capture(report, tables, doubts.is_none(), libraries);
        told(report, Origin::Nsys, doubts);
        report.findings.extend(several(nsys, tables));
    } else if let Some(tables) = ncu {
        let pieces = of_ncu(tables);
        if !pieces.is_empty() {
            Fill::new(report, Origin::Ncu, tables.devices.clone(), HashMap::new()).all(pieces);
            told(report, Origin::Ncu, None);
        }
    }
}

/// The rows of a capture of nsys: of its SQLite as the collector's, of its tables what they say.
/// What lost records (it is not `whole`) says nothing about idle time.
fn of_capture(report: &mut Report, tables: &Tables, whole: bool, libraries: &LibraryDomains) {
    if let (Source::Sqlite, Some(file)) = (tables.source, tables.files.first()) {
        match capture::read(file, libraries) {
            Ok(export) => {
                let mark = make_room(report, Origin::Nsys);
                return export::rows(report, export, mark, whole);
            }
            Err(finding) => report.findings.push(finding),
        }
    }
    let names = tables.devices.iter().map(|(id, name)| (*id, text(name))).collect();
    let ranges = tables.ranges.iter().map(|range| (label(range), range)).collect();
    Fill::new(report, Origin::Nsys, names, ranges).all(of_nsys(tables));
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

/// What makes rows of pieces.
struct Fill<'r> {
    report: &'r mut Report,
    origin: Origin,
    /// Names of the devices, by number.
    devices: BTreeMap<u32, String>,
    /// Ranges by stage.
    ranges: HashMap<String, &'r Range>,
    /// Follows the name of every stage.
    mark: &'static str,
}

impl<'r> Fill<'r> {
    fn new(
        report: &'r mut Report,
        origin: Origin,
        devices: BTreeMap<u32, String>,
        ranges: HashMap<String, &'r Range>,
    ) -> Self {
        let mark = make_room(report, origin);
        Fill { report, origin, devices, ranges, mark }
    }

    fn all(mut self, mut pieces: Vec<Piece>) {
        pieces.sort_by(|a, b| {
            let longest = |p: &Piece| (Reverse(p.times.total_ns), Reverse(p.times.calls));
            let rest = |p: &Piece| (p.shape, p.device);
            (longest(a), &a.name, rest(a), &a.stage).cmp(&(longest(b), &b.name, rest(b), &b.stage))
        });
        let all_ns =
            pieces.iter().fold(0u64, |sum, piece| sum.saturating_add(piece.times.total_ns));
        let mut name_of: HashMap<String, usize> = HashMap::new();
        let mut names = Vec::new();
        for piece in pieces {
            let name_index = *name_of.entry(piece.name.clone()).or_insert_with(|| {
                names.push(kernel_name(piece.name.as_bytes()));
                names.len() - 1
            });
            let row = self.row(piece, name_index, all_ns);
            self.report.kernels.push(row);
        }
        let Report { kernel_names, kernels, .. } = self.report;
        *kernel_names = distinct(names.into_iter());
        for row in kernels {
            if let Some(name) = kernel_names.get(row.name_index) {
                row.kernel.clone_from(&name.short);
                class_of(name).label().clone_into(&mut row.class);
            }
        }
        stage_kernels(self.report);
    }

    fn row(&mut self, piece: Piece, name_index: usize, all_ns: u64) -> KernelRow {
        let device = self.device(&piece);
        let stage = format!("{}{}", piece.stage, self.mark);
        let path_index = self.path(&piece, &stage);
        KernelRow {
            name_index,
            device,
            simulated: self.report.simulated,
            stage: stage.clone(),
            path: stage,
            path_index,
            launch: piece.shape.map(|(grid, block)| Launch { grid, block, ..Launch::default() }),
            kernel_sum_percent: percent(piece.times.total_ns, all_ns),
            times: piece.times,
            sources: Sources { times: self.origin, counters: None },
            ..KernelRow::default()
        }
    }

    fn device(&mut self, piece: &Piece) -> String {
        let Report { devices, simulated, .. } = &mut *self.report;
        let at = devices.iter().position(|row| row.index == piece.device).unwrap_or_else(|| {
            let name = piece.device.and_then(|index| self.devices.get(&index)).cloned();
            let shown = name.as_deref().unwrap_or("(name not known)");
            let device = match piece.device {
                Some(index) => format!("{index} {shown}"),
                None => "(device not known)".to_owned(),
            };
            devices.push(DeviceRow {
                device,
                index: piece.device,
                name,
                simulated: *simulated,
                ..DeviceRow::default()
            });
            devices.len() - 1
        });
        let Some(row) = devices.get_mut(at) else { return String::new() };
        row.kernels = row.kernels.saturating_add(piece.times.calls);
        row.kernel_sum_ns = row.kernel_sum_ns.saturating_add(piece.times.total_ns);
        row.device.clone()
    }

    /// Index of the path of a piece; its stage is made with it.
    fn path(&mut self, piece: &Piece, label: &str) -> usize {
        let Report { paths, stages, .. } = &mut *self.report;
        let range = self.ranges.get(&piece.stage).copied();
        let at = paths.iter().position(|row| row.path == label).unwrap_or_else(|| {
            let instances = range.and_then(|range| range.instances);
            let unclosed = range.map(|range| range.unclosed);
            let host_total_ns = range.and_then(|range| range.host_total_ns);
            paths.push(PathRow {
                path: label.to_owned(),
                name: range.map_or_else(|| label.to_owned(), |range| text(&range.name)),
                domain: range.and_then(|range| range.domain.as_deref().map(text)),
                kind: piece.kind,
                instances,
                unclosed,
                host_total_ns,
                ..PathRow::default()
            });
            stages.push(StageRow {
                stage: label.to_owned(),
                kind: piece.kind,
                instances,
                unclosed,
                host_total_ns,
                ..StageRow::default()
            });
            paths.len() - 1
        });
        let (calls, ns) = (piece.times.calls, piece.times.total_ns);
        let add =
            |slot: &mut Option<u64>, more| *slot = Some(slot.unwrap_or(0).saturating_add(more));
        if let Some(row) = paths.get_mut(at) {
            add(&mut row.kernels_inclusive, calls);
            add(&mut row.kernels_exclusive, calls);
            add(&mut row.kernel_sum_inclusive_ns, ns);
            add(&mut row.kernel_sum_exclusive_ns, ns);
        }
        if let Some(row) = stages.iter_mut().find(|row| row.stage == label) {
            add(&mut row.kernels, calls);
            add(&mut row.kernel_sum_ns, ns);
            row.kernel_mean_ns = mean(row.kernel_sum_ns.unwrap_or(0), row.kernels.unwrap_or(0));
        }
        at
    }
}

/// The longest kernels of each stage.
fn stage_kernels(report: &mut Report) {
    for stage in &report.stages {
        let mut sums: BTreeMap<usize, StageKernelRow> = BTreeMap::new();
        let mut all_ns = 0u64;
        for row in report.kernels.iter().filter(|row| row.stage == stage.stage) {
            let sum = sums.entry(row.name_index).or_insert_with(|| StageKernelRow {
                stage: row.stage.clone(),
                kernel: row.kernel.clone(),
                name_index: row.name_index,
                ..StageKernelRow::default()
            });
            let plus = |slot: &mut u64, more: u64| *slot = slot.saturating_add(more);
            plus(&mut sum.times.calls, row.times.calls);
            plus(&mut sum.times.invalid_timestamp_calls, row.times.invalid_timestamp_calls);
            plus(&mut sum.times.total_ns, row.times.total_ns);
            plus(&mut all_ns, row.times.total_ns);
        }
        let mut rows: Vec<StageKernelRow> = sums.into_values().collect();
        rows.sort_by_key(|row| (Reverse(row.times.total_ns), row.name_index));
        rows.truncate(TOP_PER_STAGE);
        for row in &mut rows {
            let timed = row.times.calls.saturating_sub(row.times.invalid_timestamp_calls);
            row.times.mean_ns = mean(row.times.total_ns, timed);
            row.stage_kernel_sum_percent = percent(row.times.total_ns, all_ns);
        }
        report.stage_kernels.extend(rows);
    }
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
fn told(report: &mut Report, origin: Origin, doubts: Option<String>) {
    let label = origin.label();
    let calls = report.kernels.iter().fold(0u64, |sum, row| sum.saturating_add(row.times.calls));
    let general = match origin {
        Origin::Ncu => {
            "only launches that were chosen for profiling, replayed at other clocks and with cold \
             caches: durations are not undisturbed, and shares are not those of a run"
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

/// Of several captures only one can give rows: together they may hold a run twice.
fn several(nsys: &[Tables], used: &Tables) -> Option<Finding> {
    let names = |tables: &Tables| {
        let name = |path: &std::path::PathBuf| {
            path.file_name().map_or_else(String::new, |name| visible(name.as_encoded_bytes()))
        };
        tables.files.iter().map(name).collect::<Vec<_>>().join(", ")
    };
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
