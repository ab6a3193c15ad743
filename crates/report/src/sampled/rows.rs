//! The samples of a file, attributed -> rows of the report.

use super::attribute::{self, percent};
use super::kernels::{self, Place};
use super::read::SampledFile;
use super::shared::{self, Recorded};
use super::store::Series;
use super::{note, steps};
use stage2_contract::text::numbers::count;
use stage2_contract::text::uuid_text;
use stage2_contract::trace::{counters, window};
use stage2_model::{
    DeviceRow, FULL_COVERAGE_PERCENT, Finding, Report, SampledCounters, SampledDevice, SampledStage,
};
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::events::labels;
use stage2_read::trace::libraries::RangeNames;

/// Adds the rows of a file.
pub(super) fn of_file(
    report: &mut Report,
    process: &ProcessCapture,
    libraries: &RangeNames,
    file: SampledFile,
    found: &mut SampledCounters,
    findings: &mut Vec<Finding>,
) {
    if file.windows.left_out > 0 || file.held.iter().any(|held| held.owners.others > 0) {
        findings.push(Finding::warning(
            format!("the counter samples of {} are not those of all stages", process.file),
            "it has more than a million instances of stages and steps, or more than 63 stages: some \
             are not told apart",
            "record fewer ranges (pipeline.collector.ranges)",
        ));
    }
    if file.store.of_unknown_sets > 0 {
        findings.push(Finding::warning(
            format!(
                "{} counter samples of {} cannot be used",
                count(file.store.of_unknown_sets),
                process.file
            ),
            "nothing says which metrics they are of: the file is damaged, or not the collector's",
            "run again",
        ));
    }
    let labels = labels(process);
    let mut wanted = Vec::new();
    let mut places = Vec::new();
    for (series, held) in file.store.series.iter().zip(&file.held) {
        let row = device_row(report, process, series.device);
        let peak = peak_bytes_per_s(report, row);
        let is_window = process.meta.get(window::BEGAN).is_some_and(|began| began == window::START);
        let recorded = match (process.gated, is_window) {
            (true, _) => Recorded::Parts,
            (false, true) => Recorded::Between,
            (false, false) => Recorded::All,
        };
        let idle = shared::idle(series, held, peak, recorded);
        let others = file.other_processes.iter().find(|(device, _)| *device == series.device);
        let others = others.map_or(0, |(_, others)| *others);
        let omitted = why_none(series, row, others).or(idle.foreign);
        let device = row.map_or_else(
            || format!("{} (name not known)", series.device),
            |row| row.device.clone(),
        );
        if omitted.is_none() {
            let windows = file.windows.stages(series.device);
            let within = file.windows.steps(series.device);
            let of = steps::Of { report, series, labels: &labels, peak_bytes_per_s: peak };
            let (sums, contested) = attribute::stages(series, &held.owners, &held.beside);
            for (path, sums) in held.owners.stages.iter().zip(&sums) {
                let Some(stage) = steps::label(&labels, *path).filter(|_| sums.window_ns > 0)
                else {
                    continue;
                };
                let own = windows.get(path).map_or(&[][..], Vec::as_slice);
                let coverage = sums.coverage_percent();
                found.stages.push(SampledStage {
                    stage: stage.to_owned(),
                    device: device.clone(),
                    file: process.file.clone(),
                    instances: own.len() as u64,
                    gpu_window_ns: sums.window_ns,
                    covered_ns: sums.covered_ns,
                    coverage_percent: coverage,
                    contested_percent: percent(sums.contested_ns, sums.window_ns),
                    partial: coverage < FULL_COVERAGE_PERCENT,
                    rates: sums.rates(peak),
                    steps: steps::steps(&of, stage, own, &within, &contested),
                    tensor_flops_per_s: None,
                    tensor_assumption: None,
                });
            }
        }
        wanted.push(omitted.is_none());
        let stages = kernels::stage_labels(&labels, &held.owners.stages);
        places.push((device.clone(), peak, stages));
        found.devices.push(device_entry(process, series, device, omitted, idle.mean, peak));
    }
    match kernels::fit(process, libraries, &file, &wanted) {
        Ok((fits, table)) => {
            for ((device, peak_bytes_per_s, stages), of_gpu) in places.into_iter().zip(&fits) {
                if !of_gpu.is_empty() {
                    let place = Place { device: &device, peak_bytes_per_s, stages };
                    kernels::attach(report, process, &place, of_gpu, &table);
                }
            }
        }
        Err(error) => findings.push(Finding::warning(
            format!("kernels have no sampled counters from {}", process.file),
            error.to_string(),
            "write the reports again with the trace file in its place",
        )),
    }
}

/// Why there can be no numbers from the samples of a GPU, with the remedy behind a semicolon. `others`: most
/// other processes on it.
fn why_none(series: &Series, row: Option<&DeviceRow>, others: u32) -> Option<String> {
    if series.metrics.is_empty() && series.of_other_metrics > 0 {
        return Some(
            "the report reads none of the metrics that were sampled, which are in the trace file; name \
             others (docs/counters.md lists them), or leave STAGE2_COUNTERS=on"
                .to_owned(),
        );
    }
    if row.is_some_and(|row| row.processes > 1) {
        return Some(
            "several traced processes used the GPU, and samples are of all of them; run one process on \
             each GPU"
                .to_owned(),
        );
    }
    (others > 0).then(|| {
        format!(
            "{others} other process(es) had the GPU open, and samples are of all of them; run alone on \
             the GPU"
        )
    })
}

fn device_entry(
    process: &ProcessCapture,
    series: &Series,
    device: String,
    omitted: Option<String>,
    idle_dram_bytes_per_s: Option<f64>,
    peak_dram_bytes_per_s: Option<f64>,
) -> SampledDevice {
    let lost = |key: &str| {
        let fact = process.meta.get(&counters::of_device(key, series.device))?;
        fact.parse().ok()
    };
    SampledDevice {
        file: process.file.clone(),
        device: Some(device),
        omitted,
        note: note(process),
        interval_ns: Some(series.interval_ns),
        metrics: series
            .names
            .iter()
            .map(|name| stage2_contract::text::visible(name.as_bytes()))
            .collect(),
        samples: series.spans.len() as u64 + series.of_other_metrics,
        samples_unrecorded: process.gated.then_some(series.unrecorded),
        sampled_ns: series.sampled_ns(),
        unusable_samples: series.unusable_samples,
        unusable_values: series.unusable_values,
        samples_left_out: series.left_out,
        overflows: lost(counters::OVERFLOWS),
        lost_ns: lost(counters::LOST_NS),
        samples_lost: lost(counters::SAMPLES_LOST),
        idle_dram_bytes_per_s,
        peak_dram_bytes_per_s,
    }
}

/// The row of a GPU as a process numbers it.
fn device_row<'r>(
    report: &'r Report,
    process: &ProcessCapture,
    device: u32,
) -> Option<&'r DeviceRow> {
    let entry = process.devices.iter().find(|entry| entry.id == Some(device))?;
    let uuid = entry.device.as_ref().map(|device| device.uuid).filter(|uuid| *uuid != [0; 16]);
    let host = process.process.as_ref().map(|process| process.host.as_str());
    let by_uuid = uuid.and_then(|uuid| {
        let uuid = uuid_text(uuid);
        let same_host =
            |row: &DeviceRow| host.is_none() || row.host.is_none() || row.host.as_deref() == host;
        let is_it = |row: &&DeviceRow| row.uuid.as_deref().is_some_and(|u| u.ends_with(&uuid));
        report.devices.iter().filter(is_it).find(|row| same_host(row))
    });
    let of_process = report.processes.iter().find(|row| row.file == process.file);
    let used = |row: &&DeviceRow| {
        row.index == Some(device)
            && of_process.is_none_or(|process| process.devices.contains(&row.device))
    };
    by_uuid.or_else(|| report.devices.iter().find(used))
}

/// Of the card's preset, or else what CUPTI says.
fn peak_bytes_per_s(report: &Report, row: Option<&DeviceRow>) -> Option<f64> {
    let preset = report.peaks.as_ref().and_then(stage2_model::Peaks::bytes_per_s);
    let of_driver = || Some(row?.bandwidth_kb_per_s.filter(|rate| *rate > 0)? as f64 * 1e3);
    preset.or_else(of_driver)
}
