//! A report -> `stakeholder_summary.md`: the page for those who decide and do not profile. Its first screen has the answer,
//! what to do, the stages and how sure that is. It stays below 900 words for a typical run: every table is cut, and states
//! what report.md has more.
//!
//! The sections have always the same order. Those without data are a list at the end, which states why and
//! how to have them. Only inferred steps are left out if there are none.

#[cfg(test)]
pub(crate) mod tests;

use std::cmp::Reverse;
use std::collections::HashSet;

use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted, ms3, or_absent, percent1, shown_time, us3};
use stage2_contract::text::{code, code_in_text, plain, shorten, shorten_kernel};
use stage2_model::{
    Answer, BottleneckKind, DeviceRow, Fact, ModelUse, OperatorRow, Report, StageRow,
};
use stage2_report::conclusions::Shown;
use stage2_report::operators::stage1::{MeanStd, Stage1Aggregates};
use stage2_report::roofline::takeaways::recommendations;

use crate::advice::no_advice;
use crate::costs::costs_in_brief;
use crate::facts::{self, brief_screen, facts, mean_of};
use crate::kernels::{TO_MEASURE, waiting_in_communication};
use crate::operators::basis;
use crate::page::{
    Page, busy_in_stages, idle_percent, is_answered, lead_first, ms_of, opening, run_line, step_is,
    verdict_stage,
};
use crate::stages::no_stage;
use crate::table::{NAME_CHARS, Table, decimal, name, none, sentence, text};
use crate::utilisation::mfu;
use crate::{advice, engine, stages, steps};
use stage2_model::kernels::{
    Kernel, Loss, model_stages, stage_kernels, steps as steps_of, top_kernels, with_cold_calls,
};

/// Where the rest is.
const MORE: &str = "report.md has the answer in full, every table and what the words mean; report.html has the pictures.\n\n";
/// Sentences of the head; Takeaways has more.
const SENTENCES: usize = 3;
/// Kinds of inferred steps that are shown.
const STEPS: usize = 3;

pub(super) fn page(report: &Report, shown: &Shown) -> Page {
    let title = format!("Summary of {}", report.run.name);
    let is_apart =
        |name: &str| report.stages.iter().any(|stage| stage.stage == name && stage.apart.is_some());
    // What a decision needs comes first.
    let sections = vec![
        ("Recommendations", advice::recommendations_in_brief(report)),
        (
            "Per-Stage Timings",
            stages::times(report, STAGES, "report.md", true) + &engine::latencies(report),
        ),
        ("Limits", advice::findings_in_brief(report)),
        ("Takeaways", advice::takeaways_in_brief(report)),
        ("MFU", mfu(report)),
        ("Aggregates", aggregates(report, shown)),
        ("Environment", environment(report)),
        ("Top Kernels", kernels(report)),
        ("Top Operators", operators(report)),
        (steps::TITLE, inferred_steps(report)),
        ("Cost of the passes", costs_in_brief(report, |cost| !is_apart(&cost.stage))),
    ];
    // Without the arguments of the program: this page is passed on.
    let (above, brief) = (opening(report), brief_screen(report));
    let mut head = run_line(report, false) + &above + &in_plain_words(report).unwrap_or_default();
    head.push_str(brief.strip_prefix(&above).unwrap_or(&brief));
    // Where there is an answer, it is the summary of the summary.
    if !is_answered(report) {
        let sentences: Vec<String> = sentences(report).into_iter().take(SENTENCES).collect();
        head.push_str(&format!("{}\n\n", sentences.join(" ")));
    }
    head.push_str(MORE);
    Page { title, head, sections }
}

/// Percent of the time that GPUs wait for each other, which is worth a clause.
const LEAST_WAIT: f64 = 10.0;

/// How long a step takes, what most of that time is, and what to do first, without a term of profiling. `None` without a
/// verdict.
fn in_plain_words(report: &Report) -> Option<String> {
    facts(report)?;
    let answer = verdict_stage(report)?;
    let (step, found) = (answer.step.as_ref()?, answer.bottleneck.as_ref()?);
    let bound = found.first()?;
    // That of the verdict, which the shares are of.
    let of_verdict =
        Some(found.ns as f64).filter(|_| found.is_of_step() && found.of == step.shown_unit());
    let time = shown_time(of_verdict.unwrap_or_else(|| mean_of(report, answer, step)));
    let unit = step.shown_unit();
    let floor = answer.floor.distance.value();
    let floor = floor.map(|times| format!(", {times:.1} times the least that the hardware allows"));
    let does = match bound.kind {
        BottleneckKind::Host => "the GPU has nothing to do and waits for the program on the CPU",
        BottleneckKind::Launches => "the GPU has nothing to do between two pieces of work",
        BottleneckKind::Ranks => "GPUs wait for each other",
        BottleneckKind::Communication => "GPUs send data to each other",
        BottleneckKind::Copies => "data is copied to or from the GPU",
        BottleneckKind::OtherWork => "the GPU works for other stages",
        BottleneckKind::Memory => "the GPU computes, as fast as it can read its memory",
        BottleneckKind::Compute => "the GPU computes, about as fast as it can",
        BottleneckKind::Kernels => "the GPU computes",
    };
    let percent = found.percent(bound);
    // What to do first may be about a late rank.
    let waits = found.parts.iter().find(|part| part.kind == BottleneckKind::Ranks);
    let waits = waits.filter(|part| part.kind != bound.kind).map(|part| found.percent(part));
    let late = facts::late_of(report, &answer.stage);
    let late = late.and_then(|late| facts::late_on_host(found, late)).map_or_else(
        || "the rank that is late".to_owned(),
        |who| format!("{}, whose program on the CPU is late", plain(&who)),
    );
    let waits =
        waits.filter(|percent| *percent >= LEAST_WAIT).map_or_else(String::new, |percent| {
            format!("; for another {percent:.0} %, it waits for {late}")
        });
    let first = report.answer.first.as_ref().and_then(|first| {
        let stage = first.stage.as_deref().unwrap_or("the run");
        // Code that gets faster still takes some time.
        let gain = first.times().map(|times| match first.is_in_tokens() {
            true => format!(" That could give {times} the tokens/s in {stage}"),
            false => format!(" That could make {stage} {times} faster"),
        });
        let what = facts::without_gain(&first.in_short)?;
        let marked = first.rule.less_unmarked(&report.answer.lead);
        let gain = gain.map(|gain| format!("{gain}{marked}."));
        Some(format!(" What to do first: {what}.{}", gain.unwrap_or_default()))
    });
    let start = match report.answer.lead.contains(Answer::MARKED) {
        true => "With every operator marked, which slows the host, a",
        false => "A",
    };
    Some(format!(
        "{start} {unit} of {} takes {time} on average{}. For {percent:.0} % of the time, {does}{waits}.{}\n\n",
        name(&answer.stage),
        floor.unwrap_or_default(),
        text(&first.unwrap_or_default())
    ))
}

fn inferred_steps(report: &Report) -> String {
    let sentences = steps::sentences(report, STEPS);
    let items: String = sentences.iter().map(|line| format!("- {}\n", sentence(line))).collect();
    if items.is_empty() { items } else { items + "\n" }
}

const ROWS: usize = 16;
/// Kinds of GPUs that have a row.
const DEVICES: usize = 4;

/// The facts that matter for the numbers, without those of the line below the title; report.md has the whole environment.
fn environment(report: &Report) -> String {
    let fact = |key: &str, value: String| Fact { key: key.to_owned(), value };
    let run = &report.run;
    let mut gpus: Vec<(String, u64)> = Vec::new();
    for gpu in report.used_devices().map(device) {
        match gpus.iter_mut().find(|(known, _)| *known == gpu) {
            Some((_, number)) => *number += 1,
            None => gpus.push((gpu, 1)),
        }
    }
    let more = gpus.len().saturating_sub(DEVICES);
    let gpus = gpus.into_iter().take(DEVICES);
    let mut facts: Vec<Fact> =
        gpus.map(|(gpu, number)| fact("GPU", format!("{}x {gpu}", count(number)))).collect();
    facts.extend((more > 0).then(|| fact("GPU", format!("{more} more kinds, in report.md"))));
    let environment = run.environment.iter().filter(|fact| matters(&fact.key));
    facts.extend(environment.map(|of| fact(shown_key(&of.key), of.value.clone())));
    let used = report.insight.utilisation.as_ref();
    facts.extend(used.and_then(work).map(|work| fact("work", work)));
    let precision = used.and_then(|used| used.numbers.precision);
    facts.extend(precision.map(|precision| fact("precision", precision.to_string())));
    if facts.is_empty() {
        return none(
            "neither env.json nor a recorded GPU shows what it ran on",
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
    let engines = ["torch", "vllm", "sglang", "tensorrt-llm", "transformers"];
    match key.strip_prefix(PACKAGES) {
        Some(package) => engines.contains(&package),
        None => key.ends_with("driver") || key.starts_with("cuda") || key.ends_with("cuda"),
    }
}

/// What precedes the name of a Python package.
const PACKAGES: &str = "python.packages.";

/// What a fact of the environment is called for those who do not know env.json.
fn shown_key(key: &str) -> &str {
    match key {
        "gpu.driver" => "driver",
        "gpu.cuda_driver" => "newest CUDA that the driver supports",
        other => other.strip_prefix(PACKAGES).unwrap_or(other),
    }
}

/// A GPU without what differs between equal ones.
fn device(row: &DeviceRow) -> String {
    let parts = [
        Some(row.name.clone().unwrap_or_else(|| "GPU of unknown name".to_owned())),
        row.compute_capability.as_ref().map(|cc| format!("compute capability {cc}")),
        row.multiprocessors.map(|sms| format!("{sms} SMs")),
        row.memory_bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)),
        row.simulated.then(|| "SIMULATED".to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

const GENERATION: &str = "Time of a generation";
const OF_WINDOWS: &str = "% of their windows";

/// Means over the warm instances of the stages, and what Stage 1 measured.
fn aggregates(report: &Report, shown: &Shown) -> String {
    let mut rows = Vec::new();
    if let Some(used) = &report.insight.utilisation {
        let model = &used.numbers.model;
        let rate = model.generated_tokens_per_s.value();
        rows.extend(rate.map(|rate| total("Generated tokens", "1/s", rate)));
        let wall_s = model.wall_s.value();
        rows.extend(wall_s.map(|s| total(GENERATION, "ms", s * 1e3)));
    }
    let only: Vec<String> = model_stages(report)
        .filter_map(|stage| Some(format!("{} over {}", stage.stage, stage.only_words()?)))
        .collect();
    let busy = busy_in_stages(report);
    // A kernel that waits for another rank keeps its GPU busy.
    let waits = report.ranks.collectives.iter().any(|row| row.waiting_ns.is_some_and(|ns| ns > 0));
    let label = match waits {
        true => "GPU busy in all stages together, waiting for other ranks included",
        false => "GPU busy in all stages together",
    };
    rows.extend(busy.map(|busy| total(label, OF_WINDOWS, busy)));
    let from = if shown.stage1_is_own { "Stage 1 files of this run" } else { "Stage 1 run" };
    rows.extend(shown.stage1.iter().flat_map(|means| stage1(means, from)));
    if rows.is_empty() {
        let (why, remedy) = why_no_aggregates(report);
        return none(why, remedy);
    }
    if let [only] = &*rows
        && only.unit == OF_WINDOWS
    {
        let (what, busy) = (&only.metric, percent1(only.value.mean));
        return format!("{}: {busy} {OF_WINDOWS} of warm calls.\n\n", text(what));
    }
    let table = Table::first(ROWS, &rows)
        .left("Metric", |row| text(&row.metric))
        .left("Unit", |row| text(row.unit))
        .right("Mean", |row| match row.unit {
            OF_WINDOWS => percent1(row.value.mean),
            _ => decimal(Some(row.value.mean), 3),
        })
        .right("Std", |row| decimal(row.value.std, 3));
    let mut out = table.markdown_with_rest_in("report.md");
    let warm = model_stages(report).filter_map(|stage| stage.host_warm_instances).max();
    out.push_str(&match (warm == Some(0), only.join(", ")) {
        (false, only) if only.is_empty() => "Over warm calls.".to_owned(),
        (false, only) => format!("Over warm calls; where a stage has none: {only}."),
        (true, only) if only.is_empty() => {
            "No stage has a warm call: these are of the first, cold ones.".to_owned()
        }
        (true, only) => format!("No stage has a warm call: {only}."),
    });
    out.extend(with_cold_calls(report).map(|said| format!(" {}", text(&said))));
    if rows.iter().any(|row| row.metric == GENERATION) {
        out.push_str(" A generation is a prefill and its decode steps.");
    }
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

/// Why there is nothing to add up over warm calls, and what to do.
fn why_no_aggregates(report: &Report) -> (&'static str, &'static str) {
    let is_warm = |stage: &&StageRow| stage.host_warm_instances.is_some_and(|n| n > 0);
    let warm: Vec<&StageRow> = model_stages(report).filter(is_warm).collect();
    let has_no_share =
        |stage: &&StageRow| stage.gpu_window_ns.is_some() && stage.gpu_busy_percent.is_none();
    if warm.iter().any(|stage| stage.recorded_instances.is_some()) {
        return (
            "only some calls of the stages were recorded",
            "see the shares of the recorded ones below, or record every call",
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
            "the GPU's time in the windows of the warm calls is not known",
            "see Limits for what was not recorded; the host times below hold nevertheless",
        );
    }
    (
        "no stage has a call after the first, cold one",
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
    let mut times: Vec<(&str, &MeanStd)> = named.collect();
    // The same two stand among the stages once more.
    let is_new = |stage: &str| times.iter().all(|(known, _)| *known != stage);
    let others: Vec<_> = means.stage_ms.iter().filter(|(stage, _)| is_new(stage)).collect();
    times.extend(others.into_iter().map(|(stage, value)| (stage.as_str(), value)));
    let mut rows: Vec<Aggregate> = times.iter().map(|(of, value)| host_time(of, value)).collect();
    rows.extend(means.tokens.as_ref().map(|value| row("tokens of a decode", "tokens", value)));
    rows.extend(means.tokens_per_s.as_ref().map(|value| row("tokens per second", "1/s", value)));
    let model = means.mfu_model_level.map(|mfu| ("model", mfu));
    let stages = means.mfu_per_stage.iter().map(|(stage, mfu)| (stage.as_str(), *mfu));
    for (of, mfu) in model.into_iter().chain(stages) {
        rows.push(one(&format!("MFU by Stage 1's formula, {of}"), "%", mfu * 100.0));
    }
    rows.extend(means.peak_tflops.map(|peak| one("peak of its MFU", "TFLOP/s", peak)));
    rows
}

/// Stages, operators and kernels that are shown.
const STAGES: usize = 8;
const OPERATORS: usize = 5;
const KERNELS: usize = 5;
const SHORT_NAME_CHARS: usize = 60;

fn operators(report: &Report) -> String {
    let Some(found) = &report.insight.operators else {
        return none("nothing was computed for it", "");
    };
    if let Some(absence) = &found.absent {
        return none(&absence.reason, "follow operators.md");
    }
    if found.rows.is_empty() {
        let why = match found.warm_up.is_empty() {
            true => "none was found in what was recorded",
            false => "all of them are in ranges that warm up",
        };
        return none(why, "see operators.md");
    }
    let rows: Vec<&OperatorRow> = found.rows.iter().collect();
    let table = Table::first(OPERATORS, &rows)
        .left("Operator", |row| code(&shorten(&row.op_name, SHORT_NAME_CHARS)))
        .right("Calls", |row| count(row.calls))
        .right("Host (ms)", |row| row.host_total_ns.map(ms3))
        .right("GPU (ms)", |row| row.gpu_inclusive_ns.map(ms3))
        .right("Host, warm calls (ms)", |row| row.host_warm_ns().map(ms3))
        .right("Self, warm calls (ms)", |row| row.host_warm_self_ns().map(ms3))
        .right("Warm mean (us)", |row| row.host_warm_mean_ns().map(us3));
    // How work is attributed, operators.md says.
    let source = found.source.split(';').next().unwrap_or_default();
    let (basis, source) = (basis(found), text(source));
    let by_warm = rows.iter().any(|row| row.host_warm_ns().is_some());
    let order = if by_warm { "Sorted by warm host time. " } else { "" };
    let note = format!(
        "{order}{basis} Operators are nested; Self is without those within. Source: {source}.\n\n"
    );
    table.markdown_with_rest_in("metrics.json") + &note
}

fn kernels(report: &Report) -> String {
    let stages: HashSet<&str> = model_stages(report).map(|stage| stage.stage.as_str()).collect();
    let all = stage_kernels(report);
    if all.is_empty() {
        return none("no kernel was recorded", "see Limits");
    }
    let is_of_stage = |kernel: &&Kernel<'_>| stages.contains(kernel.row.stage.as_str());
    let (of_stages, others): (Vec<_>, Vec<_>) = all.iter().partition(is_of_stage);
    // Without stages of the model, any kernel is better than none.
    let rows = if of_stages.is_empty() { others } else { of_stages };
    // Not ranked with the others, as in report.html: how long they take, other ranks say, too.
    let waiting = waiting_in_communication(report);
    let is_apart = |kernel: &&&Kernel<'_>| waiting.is_some() && kernel.row.class == COMMUNICATION;
    let (mut apart, mut rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| is_apart(&row));
    // What the verdict is about comes first, even where another stage takes longer.
    let lead = lead_first(report).next().map(|lead| lead.stage.as_str());
    let of_steps = steps_of(report);
    let loss = |kernel: &Kernel<'_>| {
        let Loss { ns_of_step, ns_per_step, .. } = Loss::of(kernel, &of_steps);
        (ns_of_step, ns_per_step)
    };
    // Then what loses most, as in report.html; the others keep their order, the longest first.
    rows.order_by_key(|kernel| {
        let lost_ns = loss(kernel).1.map_or(0, |ns| (ns * 1e3) as u64);
        (Some(kernel.row.stage.as_str()) != lead, Reverse(lost_ns))
    });
    let by_loss = rows.iter().any(|kernel| loss(kernel).1.is_some());
    let leads = rows.first().filter(|kernel| Some(kernel.row.stage.as_str()) == lead);
    let leads = leads.filter(|lead| rows.iter().any(|kernel| kernel.row.stage != lead.row.stage));
    let leads = leads.map_or_else(String::new, |kernel| {
        format!(" Kernels of {} come first.", name(&kernel.row.stage))
    });
    // One row of it takes the place of no more than one other kernel.
    apart.order_by_key(|kernel| Some(kernel.row.stage.as_str()) != lead);
    let last = apart.len().min(1);
    let at = rows.len().min(KERNELS.saturating_sub(last));
    rows.splice(at..at, apart.drain(..last));
    rows.append(&mut apart);
    let shown = rows.get(..KERNELS.min(rows.len())).unwrap_or_default();
    let table = Table::new(shown)
        .left("Kernel", |kernel| code(&shorten_kernel(&kernel.row.kernel, SHORT_NAME_CHARS)))
        .left("Stage", |kernel| name(&kernel.row.stage))
        .right("Total (ms)", |kernel| kernel.usual_ns.map(ms3))
        .right("Calls", |kernel| count(kernel.usual_calls))
        .right("Mean (us)", |kernel| kernel.usual_mean_ns().map(us3))
        .right("Share (%)", |kernel| kernel.percent.map(percent1))
        .right("Time (ms per step)", |kernel| loss(kernel).0.map(ms_of))
        .right("Loses up to (ms per step)", |kernel| loss(kernel).1.map(ms_of))
        .left("Class", |kernel| text(&kernel.row.class))
        .left("Bound", |kernel| kernel.known_bound());
    let more = match rows.len().saturating_sub(KERNELS) {
        0 => String::new(),
        more => {
            format!("{} more: kernels.md lists the longest, kernels.csv all. ", count(more as u64))
        }
    };
    let order = if by_loss { "Sorted by loss" } else { "Sorted by total time" };
    let end = if waiting.is_some() { ", communication last." } else { "." };
    let unit = step_is(report, text).filter(|_| shown.iter().any(|k| loss(k).0.is_some()));
    let waiting = waiting.map(|said| format!(" {said}"));
    let cold = with_cold_calls(report).map(|said| format!(" {}", text(&said)));
    format!(
        "{}{more}{order}{end} Shares are of the stage's kernel time. Warm calls only, if any.{}{leads}{}{} {}\n\n",
        table.markdown(),
        cold.unwrap_or_default(),
        unit.map_or_else(String::new, |said| format!(" {said}")),
        waiting.unwrap_or_default(),
        match shown.iter().any(|kernel| kernel.known_bound().is_some()) {
            true => "Bounds are by counters of ncu, or by sampled ones if marked.".to_owned(),
            false => format!(
                "No bound is known, because there are no counters for these kernels.{TO_MEASURE}"
            ),
        },
    )
}

/// The class of communication kernels.
const COMMUNICATION: &str = "communication";

/// Sentences at the most.
const MOST: usize = 5;
/// Sentences at the least: if there are too few takeaways, the tables give the others.
const LEAST: usize = 3;

fn sentences(report: &Report) -> Vec<String> {
    let takeaways = report.insight.takeaways.iter().take(MOST);
    let mut out: Vec<String> = takeaways.map(|takeaway| sentence(&takeaway.text)).collect();
    let facts: [fn(&Report) -> String; LEAST] = [longest_stage, top_kernel, first_advice];
    let missing = LEAST.saturating_sub(out.len());
    out.extend(facts.iter().take(missing).map(|fact| fact(report)));
    out
}

fn longest_stage(report: &Report) -> String {
    let name = |stage: &str| code_in_text(&shorten(stage, NAME_CHARS));
    match model_stages(report).max_by_key(|row| row.gpu_busy_ns) {
        Some(row @ StageRow { stage, gpu_busy_ns: Some(busy), .. }) => {
            let idle = idle_percent(row).map_or_else(String::new, |idle| {
                format!(" and idle for {} % of the stage's time", percent1(idle))
            });
            format!(
                "The GPU was busy longest in {}: {}{idle}.",
                name(stage),
                shown_time(*busy as f64)
            )
        }
        Some(StageRow { stage, .. }) => {
            format!("Stages were recorded ({} among them), but no GPU time.", name(stage))
        }
        None => sentence(&format!("There are no stages, because {}", no_stage(report))),
    }
}

fn top_kernel(report: &Report) -> String {
    let all_ns =
        report.kernels.iter().fold(0u64, |all, row| all.saturating_add(row.times.total_ns));
    let top = top_kernels(report, 1, |row| (row.name_index, row.device.as_str()), |_| all_ns);
    let Some(kernel) = top.first() else {
        return "There are no kernels, because no kernel was recorded.".to_owned();
    };
    let share = kernel.percent.map_or_else(String::new, |p| format!(" ({} % of all)", percent1(p)));
    format!(
        "The longest kernel is {}: {}{share} in {} calls.",
        code_in_text(&shorten_kernel(&kernel.row.kernel, NAME_CHARS)),
        or_absent(kernel.total_ns, |ns| shown_time(ns as f64)),
        count(kernel.calls),
    )
}

fn first_advice(report: &Report) -> String {
    sentence(&match recommendations(&report.insight.takeaways, &report.answer).first() {
        Some(first) => format!("To do first: {}", first.text),
        None => crate::table::capitalised(&no_advice(report)),
    })
}
