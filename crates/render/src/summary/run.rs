//! What the run ran on, and its figures over all stages.

use crate::page::model_stages;
use crate::table::{Table, none};
use crate::values::{decimal, text};
use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::shorten;
use stage2_model::{DeviceRow, Fact, ModelUse, Report, StageRow, WarmRow};
use stage2_report::conclusions::Shown;
use stage2_report::operators::stage1::{MeanStd, Stage1Aggregates};

/// Rows of a table here.
const ROWS: usize = 16;
/// GPUs that have a row.
const DEVICES: usize = 4;
/// Characters of the name of the program. Its arguments are not here: this page is passed on.
const PROGRAM_LIMIT: usize = 80;

/// The facts that matter for the numbers; report.md has the whole environment.
pub(super) fn environment(report: &Report) -> String {
    let fact = |key: &str, value: String| Fact { key: key.to_owned(), value };
    let run = &report.run;
    let mut facts: Vec<Fact> = report.devices.iter().take(DEVICES).map(device).collect();
    let more = report.devices.len().saturating_sub(DEVICES);
    facts.extend((more > 0).then(|| fact("GPU", format!("{more} more, in report.md"))));
    facts.extend(run.environment.iter().filter(|fact| matters(&fact.key)).cloned());
    let used = report.insight.utilisation.as_ref();
    facts.extend(used.and_then(|u| u.model_name.clone()).map(|name| fact("model", name)));
    facts.extend(used.and_then(work).map(|work| fact("work", work)));
    let precision = used.and_then(|used| used.numbers.precision);
    facts.extend(precision.map(|precision| fact("precision", precision.to_string())));
    let program = run.command.as_ref().and_then(|words| words.first());
    let program = program.map(|word| word.rsplit('/').next().unwrap_or(word));
    facts.extend(program.map(|name| fact("program", shorten(name, PROGRAM_LIMIT))));
    facts.extend(run.started.clone().map(|started| fact("started", started)));
    if facts.is_empty() {
        return none(
            "neither env.json nor a recorded GPU says what it ran on",
            "run the workload again to have a whole bundle",
        );
    }
    let table = Table::first(ROWS, &facts)
        .left("Key", |fact| text(&fact.key))
        .left("Value", |fact| text(&fact.value));
    table.markdown_with_rest_in("report.md")
}

/// How much a generation computes, as far as that is known.
fn work(used: &ModelUse) -> Option<String> {
    let tokens = &used.tokens;
    let parts = [
        tokens.batch_size.map(|n| format!("batch size {}", count(n))),
        tokens.prompt_tokens.map(|n| counted(n, "prompt token")),
        tokens.images_per_prompt.map(|n| format!("{} in each prompt", counted(n, "image"))),
        tokens.decode_steps.map(|n| counted(n, "decode step")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Whether a fact of the environment says something about the times: the driver, or CUDA.
fn matters(key: &str) -> bool {
    let key = key.to_lowercase();
    key.ends_with("driver") || key.starts_with("cuda") || key.ends_with("cuda")
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

/// Means over the warm instances of the stages, and what Stage 1 measured.
pub(super) fn aggregates(report: &Report, shown: &Shown) -> String {
    let mut rows = Vec::new();
    if let Some(used) = &report.insight.utilisation {
        let model = &used.numbers.model;
        let rate = model.generated_tokens_per_s.value();
        rows.extend(rate.map(|rate| total("Generated tokens", "1/s", rate)));
        let wall_s = model.wall_s.value();
        rows.extend(wall_s.map(|s| total("Time of a generation", "ms", s * 1e3)));
    }
    let warm = || model_stages(report).filter_map(StageRow::ordinary);
    let only: Vec<String> = model_stages(report)
        .filter_map(|stage| Some(format!("{} over {}", stage.stage, stage.only_words()?)))
        .collect();
    let sum = |ns: fn(WarmRow) -> u64| warm().map(ns).fold(0, u64::saturating_add);
    // Where another process may use the GPU meanwhile, a share says nothing.
    let is_known = model_stages(report).all(|stage| stage.gpu_busy_percent.is_some());
    let window_ns = sum(|warm| warm.gpu_window_ns);
    if is_known && window_ns > 0 {
        let busy = sum(|warm| warm.gpu_busy_ns) as f64 * 100.0 / window_ns as f64;
        rows.push(total("GPU busy in the stages", "% of their windows", busy));
    }
    let from = if shown.stage1_is_own { "Stage 1 files of this run" } else { "Stage 1 run" };
    rows.extend(shown.stage1.iter().flat_map(|means| stage1(means, from)));
    if rows.is_empty() {
        let (why, remedy) = why_no_aggregates(report);
        return none(why, remedy);
    }
    let table = Table::first(ROWS, &rows)
        .left("Metric", |row| text(&row.metric))
        .left("Unit", |row| text(row.unit))
        .right("Mean", |row| decimal(Some(row.value.mean), 3))
        .right("Std", |row| decimal(row.value.std, 3));
    let mut out = table.markdown_with_rest_in("report.md");
    let warm = model_stages(report).filter_map(|stage| stage.host_warm_instances).max();
    out.push_str(&match (warm == Some(0), only.join(", ")) {
        (false, only) if only.is_empty() => "Over warm instances.".to_owned(),
        (false, only) => format!("Over warm instances; where a stage has none: {only}."),
        (true, only) if only.is_empty() => {
            "No stage has a warm instance: these are of the first, cold ones.".to_owned()
        }
        (true, only) => format!("No stage has a warm instance: {only}."),
    });
    out.push_str(match (&shown.stage1, shown.stage1_is_own) {
        (None, _) => "",
        (Some(_), true) => {
            " Rows of Stage 1 files are what the workload measured itself in this run, by its host \
             clock."
        }
        (Some(_), false) => " Rows of the Stage 1 run are of that run, not of this one.",
    });
    out + "\n\n"
}

/// Why there is nothing to add up over warm instances, and what to do.
fn why_no_aggregates(report: &Report) -> (&'static str, &'static str) {
    let is_warm = |stage: &&StageRow| stage.host_warm_instances.is_some_and(|n| n > 0);
    let warm: Vec<&StageRow> = model_stages(report).filter(is_warm).collect();
    let has_no_share =
        |stage: &&StageRow| stage.gpu_window_ns.is_some() && stage.gpu_busy_percent.is_none();
    if warm.iter().any(|stage| stage.recorded_instances.is_some()) {
        return (
            "only some instances of the stages were recorded",
            "see the shares of the recorded ones below, or record every instance",
        );
    }
    if warm.iter().any(has_no_share) {
        return (
            "several processes share the GPU of a stage",
            "run one process on each GPU; the host times below hold nevertheless",
        );
    }
    if !warm.is_empty() {
        return (
            "the GPU's time in the windows of the warm instances is not known",
            "see Limits for what was not recorded; the host times below hold nevertheless",
        );
    }
    (
        "no stage has an instance after the first, cold one",
        "run each stage at least twice; the appendix of report.md has the whole run",
    )
}

/// A figure over several stages, or of Stage 1.
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
