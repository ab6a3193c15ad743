//! The tally of an nsys export -> the rows of a report of which the collector has no kernels.

use std::collections::HashMap;

use crate::join::join;
use stage2_model::{DeviceRow, Origin, PathKind, Report, RunInfo, Sources, Times};
use stage2_read::nsys::capture::{Export, ZERO_NS};

/// Puts the rows of `export` in the place of the collector's. Where that one saw other GPU work,
/// `mark` follows the name of every stage, and copies, fills and graphs stay the collector's. Where
/// the export is not `whole`, GPU work that is missing would pass for idle time.
pub(crate) fn rows(report: &mut Report, export: Export, mark: &str, whole: bool) {
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
            launch.registers_per_thread = None;
            launch.static_shared_bytes = None;
            launch.dynamic_shared_bytes = None;
            launch.local_bytes_per_thread = None;
        }
    }
    times(&mut made).for_each(on_the_clock_of_the_file);
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
        row.gpu_window_ns = None;
        row.gpu_busy_ns = None;
        row.gpu_busy_uncertain_ns = 0;
        row.gpu_idle_ns = None;
        row.gpu_short_gaps_ns = None;
        row.gpu_busy_percent = None;
        row.gpu_busy_parts = None;
        row.warm = None;
        row.devices.clear();
    }
    for row in &mut made.devices {
        row.gpu_busy_ns = None;
        row.gpu_span_ns = None;
        row.gpu_busy_percent = None;
    }
}

/// Work that was launched nobody knows where may be that of a range that seems to have none.
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
            &mut row.gpu_window_ns,
            &mut row.gpu_busy_ns,
            &mut row.gpu_idle_ns,
            &mut row.gpu_short_gaps_ns,
        ];
        counts.into_iter().for_each(|count| *count = None);
        (row.gpu_busy_percent, row.gpu_busy_parts, row.warm) = (None, None, None);
        row.devices.clear();
    }
    for row in made.paths.iter_mut().filter(|row| is_range(row.kind)) {
        if row.kernels_inclusive == Some(0) {
            row.kernels_inclusive = None;
            row.kernels_exclusive = None;
            row.kernel_sum_inclusive_ns = None;
            row.kernel_sum_exclusive_ns = None;
        }
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
        made.devices.into_iter().map(|row| (row.device.clone(), device(report, row))).collect();
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
    for mut row in made.stage_kernels {
        row.stage = marked(&row.stage);
        report.stage_kernels.push(row);
    }
    for mut row in made.kernels {
        row.path = within(&row.path, &row.stage);
        row.stage = marked(&row.stage);
        row.path_index += first_path;
        known(&mut row.device);
        report.kernels.push(row);
    }
}

/// Adds the kernels of a device to the row that the collector has of it, or its row; gives its name.
fn device(report: &mut Report, made: DeviceRow) -> String {
    match report.devices.iter_mut().find(|row| row.index == made.index) {
        Some(row) => {
            row.kernels = row.kernels.saturating_add(made.kernels);
            row.kernel_sum_ns = row.kernel_sum_ns.saturating_add(made.kernel_sum_ns);
            row.device.clone()
        }
        None => {
            report.devices.push(made);
            report.devices.last().map_or_else(String::new, |row| row.device.clone())
        }
    }
}

fn times(report: &mut Report) -> impl Iterator<Item = &mut Times> {
    let Report { kernels, stage_kernels, copies, fills, graph_launches, .. } = report;
    let kernels = kernels.iter_mut().map(|row| &mut row.times);
    let of_stages = stage_kernels.iter_mut().map(|row| &mut row.times);
    let memory = copies.iter_mut().chain(fills).map(|row| &mut row.times);
    let graphs = graph_launches.iter_mut().map(|row| &mut row.times);
    kernels.chain(of_stages).chain(memory).chain(graphs)
}

fn on_the_clock_of_the_file(times: &mut Times) {
    for time in [&mut times.first_start_gpu_ns, &mut times.last_end_gpu_ns] {
        *time = time.and_then(|ns| ns.checked_sub(ZERO_NS.cast_unsigned()));
    }
}
