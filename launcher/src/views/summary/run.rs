//! What the run ran on, and its figures as a whole.

use super::ROWS;
use crate::views::kernels::top::classes;
use crate::views::ranks;
use crate::views::table::{Table, none};
use crate::views::values::{decimal, text, with_source};
use stage2_analysis::in_part;
use stage2_analysis::insight::Shown;
use stage2_analysis::operators::stage1::{MeanStd, Stage1Aggregates};
use stage2_model::{DeviceRow, Fact, ModelUse, Origin, Report};

pub(super) fn environment(report: &Report) -> String {
    let fact = |key: &str, value: String| Fact { key: key.to_owned(), value };
    let run = &report.run;
    let mut facts: Vec<Fact> = Vec::new();
    facts.extend(run.command.as_ref().map(|words| fact("command", words.join(" "))));
    facts.extend(run.started.clone().map(|started| fact("started", started)));
    facts.extend(report.devices.iter().map(device));
    facts.extend(ranks::head(report).map(|ranks| fact("ranks", ranks)));
    let used = report.insight.utilisation.as_ref();
    facts.extend(used.and_then(|u| u.model_name.clone()).map(|name| fact("model", name)));
    let peaks = used.and_then(ModelUse::peak_source);
    facts.extend(peaks.map(|source| fact("peak rates", source)));
    facts.extend(run.environment.iter().cloned());
    if facts.is_empty() {
        return none(
            "neither env.json nor a recorded GPU says what it ran on",
            "run the workload again to have a whole bundle",
        );
    }
    let the = if report.source == Origin::Collector.label() { "the " } else { "" };
    let table = Table::first(ROWS, &facts)
        .left("Key", |fact| text(&fact.key))
        .left("Value", |fact| text(&fact.value));
    with_source(table, [], &format!("run.json, env.json and {the}{}", report.source))
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

pub(super) fn aggregates(report: &Report, shown: &Shown) -> String {
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
    for class in classes(&report.kernels).iter().filter(|class| class.total_ns > 0) {
        let metric = format!("Kernel class {}", class.class);
        rows.push(total(&metric, "% of kernel time", class.percent));
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
    let (from, stage1_note) = match shown.stage1_is_own {
        true => (
            "Stage 1 files of this run",
            "Rows of Stage 1 files are what the workload measured itself in this run, by its host \
             clock.",
        ),
        false => ("Stage 1 run", "Rows of the Stage 1 run are of that run, not of this one."),
    };
    rows.extend(shown.stage1.iter().flat_map(|means| stage1(means, from)));
    if rows.is_empty() {
        return none("no GPU work was recorded", "see Limits");
    }
    let table = Table::first(ROWS, &rows)
        .left("Metric", |row| text(&row.metric))
        .left("Unit", |row| text(row.unit))
        .right("Mean", |row| decimal(Some(row.value.mean), 3))
        .right("Std", |row| decimal(row.value.std, 3));
    let mut notes = vec![
        "A total of the run has a single value. Generated tokens per second uses the same instances \
         as MFU: the warm ones, wherever they can be told apart. GPU idle is the time between the \
         start of the first GPU work and the end of the last during which nothing ran."
            .to_owned(),
    ];
    notes.extend(in_part::whole_run(report));
    notes.extend(shown.stage1.as_ref().map(|_| stage1_note.to_owned()));
    let source = format!("{}, the whole run with its cold first instances", report.source);
    with_source(table, notes, &source)
}

/// A figure of the whole run.
struct Aggregate {
    metric: String,
    unit: &'static str,
    value: MeanStd,
}

fn total(metric: &str, unit: &'static str, value: f64) -> Aggregate {
    Aggregate { metric: metric.to_owned(), unit, value: MeanStd { mean: value, std: None } }
}

/// All that a Stage 1 run says of itself; `from` names it.
fn stage1(means: &Stage1Aggregates, from: &str) -> Vec<Aggregate> {
    let one = |metric: &str, unit, value| total(&format!("{from}: {metric}"), unit, value);
    let row = |metric: &str, unit, value: &MeanStd| Aggregate {
        value: *value,
        ..one(metric, unit, value.mean)
    };
    let host_time = |stage: &str, value| row(&format!("{stage}, host time"), "ms", value);
    let named = [("prefill", &means.prefill_ms), ("decode", &means.decode_ms)];
    let named = named.into_iter().filter_map(|(stage, value)| Some((stage, value.as_ref()?)));
    let named: Vec<(&str, &MeanStd)> = named.collect();
    // The same two stand among the stages once more.
    let others =
        means.stage_ms.iter().filter(|(stage, _)| named.iter().all(|(known, _)| known != stage));
    let mut rows: Vec<Aggregate> =
        named.iter().map(|(stage, value)| host_time(stage, value)).collect();
    rows.extend(others.map(|(stage, value)| host_time(stage, value)));
    rows.extend(means.tokens.as_ref().map(|value| row("tokens of a decode", "tokens", value)));
    rows.extend(means.tokens_per_s.as_ref().map(|value| row("tokens per second", "1/s", value)));
    let model = means.mfu_model_level.map(|mfu| ("model", mfu));
    let stages = means.mfu_per_stage.iter().map(|(stage, mfu)| (stage.as_str(), *mfu));
    rows.extend(
        model
            .into_iter()
            .chain(stages)
            .map(|(of, mfu)| one(&format!("MFU by Stage 1's formula, {of}"), "%", mfu * 100.0)),
    );
    rows.extend(means.peak_tflops.map(|peak| one("peak of its MFU", "TFLOP/s", peak)));
    rows
}
