//! What the run ran on, and its figures as a whole.

use std::collections::BTreeMap;

use super::super::ranks;
use super::{AggregateRow, Section};
use stage2_analysis::in_part;
use stage2_analysis::insight::Shown;
use stage2_analysis::operators::stage1::{MeanStd, Stage1Aggregates};
use stage2_analysis::roofline::class::class_of;
use stage2_analysis::roofline::kernel_class::KernelClass;
use stage2_model::{DeviceRow, Fact, ModelUse, Origin, Report};

pub(super) fn environment(report: &Report) -> Section<Fact> {
    let fact = |key: &str, value: String| Fact { key: key.to_owned(), value };
    let run = &report.run;
    let mut facts: Vec<Fact> = Vec::new();
    facts.extend(run.command.as_ref().map(|words| fact("command", words.join(" "))));
    facts.extend(run.started.as_ref().map(|started| fact("started", started.clone())));
    facts.extend(report.devices.iter().map(device));
    facts.extend(ranks::head(report).map(|ranks| fact("ranks", ranks)));
    let used = report.insight.utilisation.as_ref();
    facts.extend(used.and_then(|u| u.model_name.clone()).map(|name| fact("model", name)));
    let peaks = used.and_then(ModelUse::peak_source);
    facts.extend(peaks.map(|source| fact("peak rates", source)));
    facts.extend(run.environment.iter().cloned());
    if facts.is_empty() {
        return Section::none(
            "neither env.json nor a recorded GPU says what it ran on",
            "run the workload again to have a whole bundle",
        );
    }
    let the = if report.source == Origin::Collector.label() { "the " } else { "" };
    Section::of(facts, format!("run.json, env.json and {the}{}", report.source))
}

fn device(row: &DeviceRow) -> Fact {
    let parts = [
        row.compute_capability.as_ref().map(|cc| format!("compute capability {cc}")),
        row.multiprocessors.map(|sms| format!("{sms} SMs")),
        row.memory_bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)),
        row.simulated.then(|| "SIMULATED".to_owned()),
    ];
    let value = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let value = if value.is_empty() { "nothing more is known of it".to_owned() } else { value };
    Fact { key: format!("GPU {}", row.device), value }
}

pub(super) fn aggregates(report: &Report, shown: &Shown) -> Section<AggregateRow> {
    let mut rows = Vec::new();
    let counts = &report.coverage.total;
    if report.coverage.gpu_records() > 0 {
        let attributed = counts.attributed as f64 * 100.0 / report.coverage.gpu_records() as f64;
        rows.push(total("Kernels", "kernels", in_part::kernels(report) as f64));
        rows.push(total("GPU work placed in a range", "% of its records", attributed));
    }
    for device in &report.devices {
        let Some((span_ns, busy_ns)) = device.gpu_span_ns.zip(device.gpu_busy_ns) else { continue };
        let name = &device.device;
        if device.shared_by_processes {
            let metric = format!("GPU busy, {name}, summed over {} processes", device.processes);
            rows.push(total(&metric, "ms", busy_ns as f64 / 1e6));
            continue;
        }
        let idle_ns = span_ns.saturating_sub(busy_ns);
        rows.push(total(&format!("GPU busy, {name}"), "ms", busy_ns as f64 / 1e6));
        rows.push(total(&format!("GPU idle, {name}"), "ms", idle_ns as f64 / 1e6));
        let busy = device.gpu_busy_percent;
        rows.extend(busy.map(|busy| total(&format!("GPU busy, {name}"), "% of its span", busy)));
    }
    for (class, percent) in class_shares(report) {
        rows.push(total(&format!("Kernel class {}", class.label()), "% of kernel time", percent));
    }
    let waited = report.ranks.collectives.iter().filter_map(|row| row.waiting_ns);
    rows.extend(
        waited.reduce(u64::saturating_add).map(|ns| {
            total("Communication kernels, waiting for other ranks", "ms", ns as f64 / 1e6)
        }),
    );
    let used = report.insight.utilisation.as_ref();
    let rate = used.and_then(|used| used.numbers.model.generated_tokens_per_s.value());
    rows.extend(rate.map(|rate| total("Generated tokens (instances as for MFU)", "1/s", rate)));
    let from = if shown.stage1_is_own { "Stage 1 files of this run" } else { "Stage 1 run" };
    rows.extend(shown.stage1.iter().flat_map(|means| stage1(means, from)));
    if rows.is_empty() {
        return Section::none("no GPU work was recorded", "see Limits");
    }
    let section = Section::of(
        rows,
        format!("{}, the whole run with its cold first instances", report.source),
    )
    .with_note(
        "A total of the run has a single value. Generated tokens per second uses the same instances as \
             MFU: the warm ones, wherever they can be told apart. GPU idle is the time between the start of the \
             first GPU work and the end of the last during which nothing ran.",
    );
    let section = match in_part::whole_run(report) {
        Some(note) => section.with_note(note),
        None => section,
    };
    match shown.stage1 {
        Some(_) if shown.stage1_is_own => section.with_note(
            "Rows of Stage 1 files are what the workload measured itself in this run, by its host \
             clock.",
        ),
        Some(_) => section.with_note("Rows of the Stage 1 run are of that run, not of this one."),
        None => section,
    }
}

fn total(metric: &str, unit: &str, value: f64) -> AggregateRow {
    AggregateRow {
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        values: Some(1),
        mean: Some(value),
        ..AggregateRow::default()
    }
}

/// All that a Stage 1 run says of itself; `from` names it.
fn stage1(means: &Stage1Aggregates, from: &str) -> Vec<AggregateRow> {
    let row = |metric: &str, unit: &str, value: &MeanStd| AggregateRow {
        metric: format!("{from}: {metric}"),
        unit: unit.to_owned(),
        mean: Some(value.mean),
        std: value.std,
        ..AggregateRow::default()
    };
    let one = |metric: &str, unit: &str, mean: f64| row(metric, unit, &MeanStd { mean, std: None });
    let mut rows: Vec<AggregateRow> = [
        means.prefill_ms.as_ref().map(|value| row("prefill, host time", "ms", value)),
        means.decode_ms.as_ref().map(|value| row("decode, host time", "ms", value)),
    ]
    .into_iter()
    .flatten()
    .collect();
    // The same two stand among the stages once more.
    let is_shown = |stage: &str| match stage {
        "prefill" => means.prefill_ms.is_some(),
        "decode" => means.decode_ms.is_some(),
        _ => false,
    };
    let stages = means.stage_ms.iter().filter(|(stage, _)| !is_shown(stage));
    rows.extend(stages.map(|(stage, value)| row(&format!("{stage}, host time"), "ms", value)));
    rows.extend(means.tokens.as_ref().map(|value| row("tokens of a decode", "tokens", value)));
    rows.extend(means.tokens_per_s.as_ref().map(|value| row("tokens per second", "1/s", value)));
    let mfu =
        |of: &str, mfu: f64| one(&format!("MFU by Stage 1's formula, {of}"), "%", mfu * 100.0);
    rows.extend(means.mfu_model_level.map(|value| mfu("model", value)));
    rows.extend(means.mfu_per_stage.iter().map(|(stage, value)| mfu(stage, *value)));
    rows.extend(means.peak_tflops.map(|peak| one("peak of its MFU", "TFLOP/s", peak)));
    rows
}

/// Share of each class in the sum of all kernels' durations, largest first.
pub(in crate::views) fn class_shares(report: &Report) -> Vec<(KernelClass, f64)> {
    let classes: Vec<KernelClass> = report.kernel_names.iter().map(class_of).collect();
    let mut sums: BTreeMap<KernelClass, u64> = BTreeMap::new();
    let mut all_ns = 0u64;
    for row in &report.kernels {
        let class = classes.get(row.name_index).copied().unwrap_or(KernelClass::Other);
        let sum = sums.entry(class).or_default();
        *sum = sum.saturating_add(row.times.total_ns);
        all_ns = all_ns.saturating_add(row.times.total_ns);
    }
    let mut shares: Vec<(KernelClass, u64)> = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
    shares.sort_by_key(|&(class, ns)| (std::cmp::Reverse(ns), class));
    shares.into_iter().map(|(class, ns)| (class, ns as f64 * 100.0 / all_ns as f64)).collect()
}
