//! Samples of hardware counters in trace files -> what each stage, step and kernel read, wrote and
//! computed, by further passes over these files.
//!
//! Samples are of the whole GPU. So a number is given only if no other process used the GPU, and of a
//! sample only where one stage had work in it.

mod attribute;
mod kernels;
mod read;
mod store;
mod windows;

use std::ops::Range;

use crate::sampled::attribute::{StepInputs, percent};
use crate::sampled::kernels::Place;
use crate::sampled::read::{SampleContents, SampledFile};
use crate::sampled::store::{Metric, Series};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted, shown_time};
use stage2_contract::text::{uuid_text, visible};
use stage2_contract::trace::{counters, window};
use stage2_model::finding::Id;
use stage2_model::{
    DeviceRow, FULL_COVERAGE_PERCENT, Finding, Precision, Report, SampledCounters, SampledDevice,
    SampledStage,
};
use stage2_read::trace::events::labels;
use stage2_read::trace::libraries::RangeNames;
use stage2_read::trace::{Capture, ProcessCapture};

/// Adds [`Report::sampled`] from the files of `capture`; leaves it alone where they say nothing of
/// counters.
pub(crate) fn add(report: &mut Report, capture: &Capture, libraries: &RangeNames) {
    let mut found = SampledCounters::default();
    let mut findings = Vec::new();
    for process in &capture.processes {
        // Also of one GPU among several.
        found.devices.extend(without_samples(process));
        if process.counter_samples == 0 {
            continue;
        }
        match read::file(process, libraries) {
            Ok(file) => add_file(report, process, libraries, file, &mut found, &mut findings),
            Err(error) => findings.push(Id::CountersNotRead.about(&process.file).found(
                format!("the counter samples of {} are not in this report", process.file),
                error.to_string(),
                "write the reports again with the trace file in its place",
            )),
        }
    }
    if found.devices.is_empty() {
        return report.findings.extend(findings);
    }
    let place = |stage: &str| report.stages.iter().position(|row| row.stage == stage);
    found
        .stages
        .order_by_cached_key(|row| (place(&row.stage), row.file.clone(), row.device.clone()));
    let of_devices = found.devices.iter().flat_map(device_findings);
    findings.extend(of_devices.map(|finding| match report.simulated {
        // No buffer of a GPU was full: the machine was busy.
        true if finding.id == Id::CountersGap => {
            Finding { severity: stage2_model::Severity::Note, ..finding }
        }
        _ => finding,
    }));
    report.findings.extend(findings);
    report.sampled = Some(found);
}

/// What a process without samples says of that; nothing where it was not asked for any.
fn without_samples(process: &ProcessCapture) -> Option<SampledDevice> {
    let why = process.meta.get(counters::OFF)?;
    Some(SampledDevice {
        file: process.file.clone(),
        omitted: Some(visible(why.as_bytes())),
        note: note(process),
        ..SampledDevice::default()
    })
}

fn note(process: &ProcessCapture) -> Option<String> {
    process.meta.get(counters::NOTE).map(|note| visible(note.as_bytes()))
}

/// The FLOP/s that follow from the activity of the tensor pipe, at the peak of `precision`; BF16 where no
/// model states what it computes with.
pub(crate) fn add_flops(report: &mut Report, precision: Option<Precision>) {
    let Some(sampled) = &mut report.sampled else { return };
    let assumed = precision.is_none();
    let precision = precision.unwrap_or(Precision::Bf16);
    let peak = report.peaks.as_ref().and_then(|peaks| peaks.flops_per_s(precision));
    let bandwidth = sampled.devices.iter().find_map(|device| device.peak_dram_bytes_per_s);
    for kernel in report.kernels.iter_mut().filter_map(|row| row.sampled.as_mut()) {
        let flops_per_s = kernel.tensor_percent.zip(peak).map(|(share, peak)| share / 100.0 * peak);
        let bytes_per_s =
            kernel.dram_percent.zip(bandwidth).map(|(share, peak)| share / 100.0 * peak);
        let intensity = flops_per_s.zip(bytes_per_s).map(|(flops, bytes)| flops / bytes);
        kernel.tensor_flops_per_s = flops_per_s;
        kernel.flops_per_byte = intensity.filter(|intensity| intensity.is_finite());
    }
    for stage in &mut sampled.stages {
        let percent = stage.rates.tensor_percent;
        stage.tensor_flops_per_s = percent.zip(peak).map(|(percent, peak)| percent / 100.0 * peak);
        let why = if assumed { ", which is assumed (choose a model to set it)" } else { "" };
        stage.tensor_assumption = stage.tensor_flops_per_s.map(|_| {
            format!(
                "every active cycle of the tensor pipe does the work of a cycle at the dense \
                 {precision} peak{why}, at the clock of that peak"
            )
        });
    }
}

fn add_file(
    report: &mut Report,
    process: &ProcessCapture,
    libraries: &RangeNames,
    file: SampledFile,
    found: &mut SampledCounters,
    findings: &mut Vec<Finding>,
) {
    if file.windows.left_out > 0 || file.held.iter().any(|held| held.owners.others > 0) {
        findings.push(Id::CountersStagesJoined.about(&process.file).found(
            format!("the counter samples of {} are not those of all stages", process.file),
            "it has more than a million instances of stages and steps, or more than 63 stages: some \
             are not told apart",
            "record fewer ranges (profiling.collector.ranges)",
        ));
    }
    if file.store.of_unknown_sets > 0 {
        findings.push(Id::CountersUnusable.about(&process.file).found(
            format!(
                "{} counter samples of {} cannot be used",
                count(file.store.of_unknown_sets),
                process.file
            ),
            "their metrics are unknown: the file is damaged, or was not written by the collector",
            "run again",
        ));
    }
    let labels = labels(process);
    let mut is_fitted = Vec::new();
    let mut places = Vec::new();
    for (series, held) in file.store.series.iter().zip(&file.held) {
        let row = device_row(report, process, series.device);
        let peak = peak_bytes_per_s(report, row);
        let (idle_rate, foreign) =
            idle_traffic(series, held, peak, idle_if_unrecorded(process, held));
        let others = file.other_processes.iter().find(|(device, _)| *device == series.device);
        let others = others.map_or(0, |(_, others)| *others);
        let omitted = why_none(series, row, others).or(foreign);
        let device = row.map_or_else(
            || format!("{} (name not known)", series.device),
            |row| row.device.clone(),
        );
        if omitted.is_none() {
            let windows = file.windows.stages(series.device);
            let within = file.windows.steps(series.device);
            let of = StepInputs { report, series, labels: &labels, peak_bytes_per_s: peak };
            let (sums, contested) = attribute::stage_sums(series, &held.owners, &held.beside);
            for (path, sums) in held.owners.stages.iter().zip(&sums) {
                let Some(stage) = attribute::label(&labels, *path).filter(|_| sums.window_ns > 0)
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
                    steps: attribute::steps(&of, stage, own, &within, &contested),
                    tensor_flops_per_s: None,
                    tensor_assumption: None,
                });
            }
        }
        is_fitted.push(omitted.is_none());
        let stages = held.owners.stages.iter();
        let stages =
            stages.map(|path| attribute::label(&labels, *path).unwrap_or_default()).collect();
        places.push(Place { device: device.clone(), peak_bytes_per_s: peak, stages });
        found.devices.push(device_entry(process, series, device, omitted, idle_rate, peak));
    }
    match kernels::fit(process, libraries, &file, &is_fitted) {
        Ok((fits, table)) => {
            let fitted = places.iter().zip(&fits).filter(|(_, of_gpu)| !of_gpu.is_empty());
            for (place, of_gpu) in fitted {
                kernels::attach(report, process, place, of_gpu, &table);
            }
        }
        Err(error) => findings.push(Id::CountersNotRead.about(&process.file).found(
            format!("kernels have no sampled counters from {}", process.file),
            error.to_string(),
            "write the reports again with the trace file in its place",
        )),
    }
}

const FEWER_SAMPLES: &str =
    "sample less often, or fewer metrics: profiling.collector.counters=METRIC,...@INTERVAL_US";

/// Why there can be no numbers from the samples of a GPU, with the remedy behind a semicolon. `others`: most
/// other processes on it.
fn why_none(series: &Series, row: Option<&DeviceRow>, others: u32) -> Option<String> {
    if series.metrics.is_empty() && series.of_other_metrics > 0 {
        let why = "the report reads none of the metrics that were sampled, which are in the trace file; name \
                   others (docs/counters.md lists them), or sample those of profiling.collector.counters=on";
        return Some(why.to_owned());
    }
    if row.is_some_and(|row| row.processes > 1) {
        let why = "several traced processes used the GPU, and samples are of all of them; run one process \
                   on each GPU";
        return Some(why.to_owned());
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
        metrics: series.names.iter().map(|name| visible(name.as_bytes())).collect(),
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

/// DRAM traffic of an idle GPU, in percent of its peak, above which another process uses it: without work
/// it is some hundred bytes a sample.
const IDLE_PERCENT: f64 = 1.0;
/// DRAM traffic of an idle GPU, bytes/s, above which another process uses it, where its peak is not
/// known.
const IDLE_BYTES_PER_S: f64 = 10e9;
/// Traffic of an idle sample above this many times the lower quartile of the idle samples stands out.
const STANDS_OUT: f64 = 10.0;
/// Share of the idle samples that may be above both: work of ours without a record, and clocks that
/// are off by some samples.
const MOST_IDLE_PERCENT: f64 = 5.0;
/// Traffic of links above this part of that of DRAM belongs to a copy, most of which is one.
const PART_OF_COPY: f32 = 0.5;
/// Idle samples from which they say something.
const FEW: usize = 20;

/// The samples that are without work if they hold no recorded work: none where only parts of the run are
/// recorded; of a window of a process that runs on, those between the first and the last of its work.
fn idle_if_unrecorded(process: &ProcessCapture, held: &SampleContents) -> Range<usize> {
    if process.gated {
        return 0..0;
    }
    if process.meta.get(window::BEGAN).is_none_or(|began| began != window::START) {
        return 0..usize::MAX;
    }
    let first = held.work.iter().position(|works| *works).unwrap_or(0);
    first..held.work.iter().rposition(|works| *works).unwrap_or(0)
}

/// What the samples of `places` say that are without work: their mean DRAM traffic, bytes/s, and why
/// another process used the GPU.
fn idle_traffic(
    series: &Series,
    held: &SampleContents,
    peak: Option<f64>,
    places: Range<usize>,
) -> (Option<f64>, Option<String>) {
    let column = |wanted| series.metrics.iter().position(|metric| *metric == wanted);
    let columns = [column(Metric::DramRead), column(Metric::DramWrite)];
    // What comes over a link is of a copy that another GPU, or the host, has the record of.
    let links = [Metric::NvlinkReceived, Metric::NvlinkSent, Metric::PcieRead, Metric::PcieWrite];
    let links = links.map(column);
    let least = peak.map_or(IDLE_BYTES_PER_S, |peak| peak * IDLE_PERCENT / 100.0);
    let works = |at: usize| held.work.get(at).copied().unwrap_or(false);
    let mut rates: Vec<f64> = Vec::new();
    for (at, (start, end)) in series.spans.iter().enumerate() {
        // Write-backs follow work, and clocks are off by a little: neighbours count as work.
        if !places.contains(&at) || (at.saturating_sub(1)..=at + 1).any(works) {
            continue;
        }
        let values = series.sample(at);
        let sum = |of: &[Option<usize>]| -> f32 {
            of.iter().flatten().filter_map(|at| values.get(*at)).sum()
        };
        let bytes = sum(&columns);
        let rate = f64::from(bytes) / (end - start) as f64 * 1e9;
        let is_copy = rate > least && sum(&links) > bytes * PART_OF_COPY;
        if columns.iter().any(Option::is_some) && !rate.is_nan() && !is_copy {
            rates.push(rate);
        }
    }
    if rates.is_empty() {
        return (None, None);
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    rates.sort_by(f64::total_cmp);
    let quartile = rates.get(rates.len() / 4).copied().unwrap_or(0.0);
    // A neighbour that never rests lifts the quartile itself.
    let threshold = if quartile > least { least } else { least.max(quartile * STANDS_OUT) };
    let above = rates.len() - rates.partition_point(|rate| *rate <= threshold);
    let share = percent(above as u64, rates.len() as u64);
    let foreign = (rates.len() >= FEW && share > MOST_IDLE_PERCENT).then(|| {
        format!(
            "in {share:.0} % of the samples in which none of the recorded work ran, DRAM moved more \
             than {:.1} GB/s: another process used the GPU, or work of this one was not recorded; run \
             alone on the GPU, with all work recorded",
            threshold / 1e9
        )
    });
    (Some(mean), foreign)
}

/// The device, and the file that has its samples.
pub(crate) fn label(device: &SampledDevice) -> String {
    match &device.device {
        Some(name) => format!("GPU {name} in {}", device.file),
        None => device.file.clone(),
    }
}

/// What a reader should know of the samples.
fn device_findings(device: &SampledDevice) -> Vec<Finding> {
    let of = label(device);
    let mut findings = Vec::new();
    if let Some(why) = &device.omitted {
        let (why, remedy) = why.rsplit_once("; ").unwrap_or((why, "see docs/counters.md"));
        findings.push(Id::CountersNone.about(&of).found(
            format!("no sampled counters of {of}"),
            why,
            remedy,
        ));
    }
    if device.samples == 0
        && let Some(unrecorded) = device.samples_unrecorded.filter(|samples| *samples > 0)
    {
        findings.push(Id::CountersMixedOnly.about(&of).found(
            format!("no counter sample of {of} is of recorded work only"),
            format!(
                "only parts of the run were recorded, and no sample lies wholly within one of them \
                 ({}): what else ran during a sample has no record",
                counted(unrecorded, "sample")
            ),
            "record longer ranges (profiling.collector.ranges), or take shorter samples: \
             profiling.collector.counters=on@INTERVAL_US",
        ));
    }
    if device.samples_left_out > 0 {
        findings.push(Id::CountersLeftOut.about(&of).found(
            format!("{} counter samples of {of} are left out", count(device.samples_left_out)),
            "a report keeps 16 million values of a trace file; stages that ran later have no samples",
            FEWER_SAMPLES,
        ));
    }
    if let Some(overflows) = device.overflows {
        let gaps = counted(overflows, "gap");
        let lost = device.lost_ns.map_or_else(
            || format!("the counter samples have {gaps}"),
            |ns| format!("counters were not sampled for {} ({gaps})", shown_time(ns as f64)),
        );
        findings.push(Id::CountersGap.about(&of).found(
            format!("{lost}: {of}"),
            "the buffer of the hardware was full: work in these gaps has no counters; the records of GPU \
             work, and so the coverage, are not affected",
            FEWER_SAMPLES,
        ));
    }
    if let Some(lost) = device.samples_lost {
        findings.push(Id::CountersLost.about(&of).found(
            format!("{} of {of} were lost", counted(lost, "counter sample")),
            "the collector did not write them as fast as it took them: its thread got too little CPU time, \
             or the disk is slow; what ran meanwhile is not covered",
            "leave a core to the collector, or sample less often: profiling.collector.counters=on@INTERVAL_US",
        ));
    }
    let unusable = device.unusable_samples.saturating_add(device.unusable_values);
    if unusable > 0 {
        findings.push(Id::CountersUnusable.about(&of).found(
            format!(
                "{} counter samples and {} values of {of} cannot be used",
                count(device.unusable_samples),
                count(device.unusable_values)
            ),
            "they have no length, overlap others, do not match their set, or are not amounts: the file is \
             damaged, or not the collector's",
            "run again",
        ));
    }
    findings
}

#[cfg(test)]
mod tests;
