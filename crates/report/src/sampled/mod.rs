//! Samples of hardware counters in trace files -> what each stage, step and kernel read, wrote and
//! computed, by further passes over these files.
//!
//! Samples are of the whole GPU. So a number is given only where nobody else used the GPU, and of a
//! sample only where one stage had work in it.

mod attribute;
mod curve;
mod kernels;
mod kinds;
mod metric;
mod read;
mod rows;
mod shared;
mod steps;
mod store;
mod windows;

use stage2_contract::trace::counters;
use stage2_model::{Finding, Precision, Report, SampledCounters, SampledDevice};
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
            Ok(file) => rows::of_file(report, process, libraries, file, &mut found, &mut findings),
            Err(error) => findings.push(Finding::warning(
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
        .sort_by_cached_key(|row| (place(&row.stage), row.file.clone(), row.device.clone()));
    findings.extend(shared::findings(&found));
    report.findings.extend(findings);
    report.sampled = Some(found);
}

/// What a process without samples says of that; nothing where it was not asked for any.
fn without_samples(process: &ProcessCapture) -> Option<SampledDevice> {
    let why = process.meta.get(counters::OFF)?;
    Some(SampledDevice {
        file: process.file.clone(),
        omitted: Some(stage2_contract::text::visible(why.as_bytes())),
        note: note(process),
        ..SampledDevice::default()
    })
}

fn note(process: &ProcessCapture) -> Option<String> {
    process.meta.get(counters::NOTE).map(|note| stage2_contract::text::visible(note.as_bytes()))
}

/// The FLOP/s that follow from the activity of the tensor pipe, at the peak of `precision`; BF16 where no
/// model says what it computes with.
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

#[cfg(test)]
mod tests;

#[cfg(test)]
mod recorded_tests;
