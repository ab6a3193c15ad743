//! Stages over their warm instances -> tables of their times, of where their windows go, and of the
//! floor: one place for report.md and the summary.

use std::collections::{HashMap, HashSet};

use super::page::{idle_percent, lead_first};
use super::table::{Table, capitalised, name, none, paragraph};
use stage2_contract::text::numbers::{
    count, counted, ms3, percent1, ratio3, shown_rate, shown_time,
};
use stage2_contract::text::{listed, plain};
use stage2_model::kernels::{
    model_stages, outermost_ranges, stages_in_words, stages_with_cold_calls, with_cold_calls,
};
use stage2_model::{
    Figure, InferredSteps, LAUNCH_GAP_US, PathKind, Report, Role, StageAnswer, StageRow, StepTimes,
    StepUnit, TAIL_VALUES, TokensCounted, WindowKind, times_faster,
};
use stage2_report::conclusions::vision::{Nested, nested};
use stage2_report::in_part;

/// Ranges that are named as being no stages.
const APART_NAMED: usize = 2;
/// What the workload can do to have stages.
const MARK_STAGES: &str = "mark its stages with NVTX ranges, such as prefill and decode";

/// Kinds of time in a window, with the titles of their columns.
const WINDOW_KINDS: [(WindowKind, &str); 9] = [
    (WindowKind::Compute, "Compute (%)"),
    (WindowKind::Transfer, "Transfer (%)"),
    (WindowKind::Waiting, "Waiting for ranks (%)"),
    (WindowKind::Communication, "Communication (%)"),
    (WindowKind::Copies, "Copies (%)"),
    (WindowKind::Busy, "GPU busy (%)"),
    (WindowKind::LaunchGaps, "Launch gaps (%)"),
    (WindowKind::OtherIdle, "Other idle (%)"),
    (WindowKind::OtherWork, "Work of other stages (%)"),
];

/// Why there are no stages of the model.
pub(super) fn no_stage(report: &Report) -> String {
    match apart(report) {
        None => report.no_range().to_owned(),
        Some(apart) => format!("no outermost range is a stage of the model ({apart})"),
    }
}

/// Outermost ranges that are not stages, with the reason; none if all are.
pub(super) fn apart(report: &Report) -> Option<String> {
    let names: Vec<String> = outermost_ranges(report)
        .filter_map(|row| Some(format!("{} is {}", row.stage, row.apart?.phrase())))
        .collect();
    let shown = names.get(..APART_NAMED.min(names.len()))?.join(", ");
    let more = names.len().saturating_sub(APART_NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| shown + &more)
}

fn answers(report: &Report) -> HashMap<&str, &StageAnswer> {
    report.answer.stages.iter().rev().map(|answer| (answer.stage.as_str(), answer)).collect()
}

/// What a step of an engine is.
const OF_ENGINE: &str = "until the next step begins";

#[derive(Default)]
struct Timing<'r> {
    stage: &'r str,
    /// Path of what repeats within the stage, or that it is inferred; none: the stage itself.
    step: Option<String>,
    p50_ns: Option<u64>,
    per_token_ns: Option<f64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
    mean_ns: Option<u64>,
    std_ns: Option<u64>,
    /// Of the first instance, where there is no other.
    cold_ns: Option<u64>,
    /// Warm ones, which the times are of.
    count: Option<u64>,
    tokens_per_s: Option<f64>,
    /// What the profiler made of its median.
    slowdown: Option<f64>,
    /// The range that a part of the stage lies in and whose times contain it.
    within: Option<&'r str>,
}

/// Host times of the warm instances, at most `most` rows of them; the rest is in `file`. `brief`: without the notes on
/// how times are related.
pub(super) fn times(report: &Report, most: usize, file: &str, brief: bool) -> String {
    let mut rows: Vec<Timing<'_>> = Vec::new();
    let answers = answers(report);
    for stage in model_stages(report) {
        let answer = answers.get(stage.stage.as_str()).copied();
        let is_of_engine = |step: &StepTimes| step.unit == StepUnit::OfEngine;
        let whole = instances(stage, answer);
        let steps = answer.and_then(|answer| steps(&stage.stage, answer));
        match answer.and_then(|answer| answer.step.as_ref()).is_some_and(is_of_engine) {
            // The range alone is one sentence below.
            true => {
                let Timing { slowdown, tokens_per_s, .. } = whole;
                rows.extend(steps.map(|steps| Timing { slowdown, tokens_per_s, ..steps }));
            }
            false => {
                rows.push(whole);
                rows.extend(steps);
            }
        }
    }
    if rows.is_empty() {
        return none(&no_stage(report), MARK_STAGES);
    }
    let parts = nested(report);
    rows.extend(parts.iter().map(part));
    let ms = |ns: Option<u64>| ns.map(ms3);
    let has_warm = rows.iter().any(|row| row.count > Some(0));
    // One sentence says what a cell in each row would.
    let are_of_engine = rows.iter().all(|row| row.step.as_deref() == Some(OF_ENGINE));
    let step = if are_of_engine { "A step lasts until the next one begins. " } else { "" };
    let table = Table::first(most, &rows)
        .left("Stage", |row| name(row.stage))
        .left("Step", |row| row.step.clone().filter(|_| !are_of_engine))
        .right("p50 (ms)", |row| ms(row.p50_ns))
        .right("p50 of a token (ms)", |row| row.per_token_ns.and_then(ms_of))
        .right("p99 (ms)", |row| ms(row.p99_ns))
        .right("Longest (ms)", |row| ms(row.max_ns))
        .right("Mean (ms)", |row| ms(row.mean_ns))
        .right("Std (ms)", |row| ms(row.std_ns))
        .right("First call, cold (ms)", |row| ms(row.cold_ns))
        .right("Tokens/s", |row| row.tokens_per_s.map(shown_rate))
        .right("Times the baseline", |row| row.slowdown.map(ratio3))
        .right("Values", |row| row.count.filter(|_| has_warm).map(count))
        .left("Within", |row| row.within.map(name));
    let has_calls_of_steps = rows.iter().any(|row| row.step.is_some()) && !are_of_engine;
    let except = if has_calls_of_steps { ", except for calls that consist of steps" } else { "" };
    let p99 = match has_calls_of_steps || rows.iter().any(|row| row.p99_ns.is_some()) {
        true => format!(
            " With 2 to {} values, the longest is given instead of the p99{except}.",
            TAIL_VALUES - 1
        ),
        false => String::new(),
    };
    // The window of the recorded ones, which the first lines divide, is longer.
    let calls = match report.is_sampled() && !are_of_engine {
        true => " of all calls, recorded or not, from the start of a call to its return",
        false => "",
    };
    let all = if brief { "" } else { " All calls: see Whole run, with warm-up." };
    // The rate of an engine's steps is over those that are timed.
    let of_calls = |row: &&Timing<'_>| row.step.as_deref() != Some(OF_ENGINE);
    let with_rate = rows.iter().filter(of_calls).filter(|row| row.tokens_per_s.is_some());
    let with_rate: HashSet<&str> = with_rate.map(|row| row.stage).collect();
    let rates = stages_with_cold_calls(report).map(|stage| stage.stage.as_str());
    let rates: Vec<&str> = rates.filter(|stage| with_rate.contains(stage)).collect();
    let rates = match (rates.as_slice(), report.is_sampled()) {
        ([], _) => String::new(),
        (of, true) => format!(" Tokens/s of {} is of the recorded calls.", stages_in_words(of)),
        (of, false) => format!(
            " Tokens/s of {} is of all calls, because the first, cold one cannot be separated from the others.",
            stages_in_words(of)
        ),
    };
    let mut out = table.markdown_with_rest_in(file);
    out.push_str(&paragraph(&format!(
        "{step}Host times{calls}, without the first, cold call of each process unless it is the only one.{rates}{p99}{all}",
    )));
    let lead = lead_first(report).next();
    out.extend(
        lead.and_then(|lead| report.untimed_steps(&lead.stage))
            .map(|said| paragraph(&format!("{said}."))),
    );
    let answers = || report.answer.stages.iter();
    let steps = || answers().filter_map(|answer| answer.step.as_ref());
    if steps().any(|step| step.cold) {
        out.push_str(&paragraph(
            "Steps of a stage that has no warm call are those of its first, cold one.",
        ));
    }
    let passed_over = steps().filter_map(|step| step.passed_over.as_deref().filter(|_| !brief));
    out.extend(passed_over.map(|why| paragraph(&format!("{}.", capitalised(why)))));
    let first_token = answers().find(|answer| answer.role == Role::Prefill);
    // The section on an engine has more of it.
    let is_told = |answer: &&StageAnswer| {
        !brief || (report.engine.is_none() && answer.time_to_first_token_ns.value().is_some())
    };
    out.extend(first_token.filter(is_told).map(|answer| {
        let known = answer.time_to_first_token_ns.text(|ns| format!("{} (p50)", shown_time(ns)));
        paragraph(&format!("Time to first token of a request: {known}."))
    }));
    if !brief && !are_of_engine && rows.iter().any(|row| row.step.is_some()) {
        out.push_str(&paragraph(
            "Rows with a step are for the part that repeats within the stage; the other rows are for whole calls.",
        ));
    }
    if !brief && steps().any(|step| step.unit == StepUnit::OfEngine) {
        let said = model_stages(report).filter_map(|stage| {
            step_relation(report, stage, answers().find(|answer| answer.stage == stage.stage)?)
        });
        said.take(most).for_each(|said| out.push_str(&paragraph(&said)));
    }
    if !brief {
        let slow = answers().filter_map(|answer| {
            let mut series = report.step_series.iter();
            let series = series.find(|series| series.stage == answer.stage)?;
            let said = series.plateaus_in_words(answer.step.as_ref()?.unit.noun())?;
            Some(format!("In {}, {said}\n\n", name(&answer.stage)))
        });
        out.extend(slow.take(most));
    }
    if answers().any(|answer| {
        answer.tokens_counted != TokensCounted::Generated && answer.tokens_per_s.value().is_some()
    }) {
        out.push_str(&paragraph(
            "Tokens/s counts the prompt tokens of a prefill, the prompt and the generated tokens of mixed \
             steps, and otherwise the generated tokens.",
        ));
    }
    out.extend(answers().filter_map(|answer| {
        let said = report.outlasting_work(&answer.stage)?;
        Some(paragraph(&format!("In {}, {said}.", answer.stage)))
    }));
    if !parts.is_empty() {
        out.push_str(&paragraph(
            "A row with a range under Within is a part of that range: its times are included in those of the \
             stage.",
        ));
    }
    let whole = report.stages.iter().find(|row| row.kind == PathKind::WholeProcess);
    out.extend(whole.map(|row| {
        paragraph(&format!(
            "{} is all work of a process, because {}: from its first GPU record to its last, loading \
             and warm-up included.",
            row.stage,
            report.no_range()
        ))
    }));
    let inferred = report.inferred_steps.as_ref().and_then(InferredSteps::stages_in_words);
    out.extend(inferred.map(|how| paragraph(&format!("How the stages were found: {how}."))));
    out.extend(in_part::stages(report).map(|note| paragraph(&note)));
    out.extend(
        apart(report)
            .map(|apart| paragraph(&format!("Not counted as stages of the model: {apart}."))),
    );
    out
}

/// A window that is longer than its step by more than this part of it is explained.
const WINDOW_LONGER: u64 = 20;

/// How the times of a step of an engine are related: one name and one basis for each.
fn step_relation(report: &Report, stage: &StageRow, answer: &StageAnswer) -> Option<String> {
    let step = answer.step.as_ref().filter(|step| step.unit == StepUnit::OfEngine)?;
    let mut out = format!(
        "A step of {} lasts {} (p50; mean {}) until the next step begins, over the {} of one process that were followed \
         immediately by another step.",
        stage.stage,
        shown_time(step.p50_ns as f64),
        shown_time(step.mean_ns as f64),
        counted(step.steps, "step")
    );
    let range = stage.host_warm_median_ns.zip(stage.host_warm_instances).map(|(ns, values)| {
        let (time, steps) = (shown_time(ns as f64), counted(values, "warm step"));
        format!("its range alone takes {time} (p50 of all {steps}, in all processes)")
    });
    let mean = answer.bottleneck.as_ref().filter(|mean| mean.is_of_step());
    let window = mean.map(|mean| {
        let longer = match mean.ns > step.mean_ns.saturating_add(step.mean_ns / WINDOW_LONGER) {
            true => ", longer than the step: its GPU work ends after the next step began",
            false => "",
        };
        format!(
            "its GPU window, from its start on the host to the start of the next step or the end of its last GPU work, takes {} on average{longer}",
            shown_time(mean.ns as f64)
        )
    });
    let times: Vec<String> = [range, window].into_iter().flatten().collect();
    if !times.is_empty() {
        out.push_str(&format!(" {}.", capitalised(&times.join("; "))));
    }
    let requests = report.engine.as_ref().and_then(|run| run.requests.as_ref());
    let token = requests.and_then(|requests| requests.token.p50_ns);
    if let Some(ns) = token.filter(|_| answer.role == Role::Decode) {
        out.push_str(&format!(" A request gets a token every {} (p50).", shown_time(ns as f64)));
    }
    Some(out)
}

fn ms_of(ns: f64) -> Option<String> {
    (0.0..1e18).contains(&ns).then(|| ms3(ns.round() as u64))
}

impl<'r> Timing<'r> {
    fn of(stage: &'r str, step: &StepTimes) -> Timing<'r> {
        let has_several = step.tokens_per_step.is_some_and(|tokens| tokens > 1);
        let tail = |of| step.tail().filter(|tail| tail.0 == of).map(|tail| tail.1);
        Timing {
            stage,
            p50_ns: Some(step.p50_ns),
            per_token_ns: has_several.then(|| step.shown_ns(step.p50_ns)),
            p99_ns: tail("p99"),
            max_ns: tail("longest"),
            mean_ns: Some(step.mean_ns),
            std_ns: step.std_ns,
            count: Some(step.steps),
            ..Timing::default()
        }
    }
}

/// The stage as a whole, by the answer where that is of its instances.
fn instances<'r>(stage: &'r StageRow, answer: Option<&StageAnswer>) -> Timing<'r> {
    let step = answer.and_then(|answer| answer.step.as_ref());
    let timing = match step.filter(|step| step.unit == StepUnit::Instance) {
        Some(whole) => Timing::of(&stage.stage, whole),
        None => Timing {
            stage: &stage.stage,
            p50_ns: stage.host_warm_median_ns,
            mean_ns: stage.host_warm_mean_ns,
            std_ns: stage.host_warm_std_ns,
            cold_ns: stage.host_first_ns.filter(|_| stage.host_warm_median_ns.is_none()),
            count: stage.host_warm_instances,
            ..Timing::default()
        },
    };
    Timing {
        slowdown: answer.and_then(|answer| Some(answer.slowdown.as_ref()?.ratio)),
        tokens_per_s: answer.and_then(|answer| answer.tokens_per_s.value()),
        ..timing
    }
}

/// What repeats within the stage, where the answer found that.
fn steps<'r>(stage: &'r str, answer: &StageAnswer) -> Option<Timing<'r>> {
    let step = answer.step.as_ref()?;
    let label = match step.unit {
        StepUnit::Instance => return None,
        StepUnit::RangeWithin => step.path.as_deref().map_or_else(|| "range".to_owned(), name),
        StepUnit::Inferred => "inferred from the kernels".to_owned(),
        StepUnit::OfEngine => OF_ENGINE.to_owned(),
    };
    Some(Timing { step: Some(label), ..Timing::of(stage, step) })
}

/// A part of a vision encoder within a stage. The mean of all its instances is not a mean of warm ones.
fn part<'r>(nested: &Nested<'r>) -> Timing<'r> {
    let path = nested.path;
    Timing {
        stage: &path.name,
        p50_ns: path.host_warm_median_ns,
        cold_ns: path.host_first_ns.filter(|_| path.host_warm_median_ns.is_none()),
        count: path.instances.map(|all| all.saturating_sub(1)),
        within: Some(&nested.within.path),
        ..Timing::default()
    }
}

/// A stage and where its window goes, percent: by the answer, or else only busy and idle.
struct Split<'r> {
    stage: &'r str,
    parts: Vec<(WindowKind, f64)>,
    idle_percent: Option<f64>,
}

/// Where the windows of the warm instances go; nothing where that is not known. `brief`: without the finer points of
/// what the columns are.
pub(super) fn windows(report: &Report, most: usize, file: &str, brief: bool) -> String {
    let (without_work, with_work): (Vec<&StageRow>, Vec<&StageRow>) =
        model_stages(report).partition(|stage| stage.has_no_gpu_work());
    let without_work = without_gpu_work(&without_work, with_work.is_empty());
    let answers = answers(report);
    let answer = |stage: &StageRow| answers.get(stage.stage.as_str()).copied();
    let rows: Vec<Split<'_>> =
        with_work.iter().filter_map(|stage| split(stage, answer(stage))).collect();
    if rows.is_empty() {
        return without_work;
    }
    let mut table = Table::first(most, &rows).left("Stage", |row| name(row.stage));
    for (kind, title) in WINDOW_KINDS {
        table = table.right(title, |row| {
            let of_kind = row.parts.iter().filter(|part| part.0 == kind);
            of_kind.map(|part| part.1).reduce(|a, b| a + b).map(percent1)
        });
    }
    let table = table.right("Idle (%)", |row| row.idle_percent.map(percent1));
    let mut notes = String::new();
    if !brief && rows.iter().any(|row| row.parts.len() > 1) {
        notes.push_str(
            " Overlapping work counts towards the leftmost column. Kernels that copy count as compute.",
        );
    }
    let is_idle = |(kind, _): &(WindowKind, f64)| {
        [WindowKind::LaunchGaps, WindowKind::OtherIdle].contains(kind)
    };
    let kinds = || rows.iter().flat_map(|row| &row.parts);
    if kinds().any(is_idle) {
        notes.push_str(&format!(" {}", idle_kinds(kinds().map(|part| part.0))));
    }
    let cold = with_work.iter().filter(|stage| stage.host_warm_instances == Some(0));
    let cold: Vec<&str> = cold.map(|stage| stage.stage.as_str()).collect();
    let unlike = stages_with_cold_calls(report).count();
    let of = match cold.len() {
        _ if report.is_sampled() => "the recorded calls".to_owned(),
        _ if unlike == with_work.len() => {
            "all calls, because the first, cold one cannot be separated from the others".to_owned()
        }
        0 => "warm calls".to_owned(),
        all if all == with_work.len() => "all calls, because none is warm".to_owned(),
        _ => format!("warm calls; of {}, which have none, all", listed(&cold, APART_NAMED)),
    };
    let except = with_cold_calls(report)
        .filter(|_| unlike < with_work.len() && !report.is_sampled())
        .map_or_else(String::new, |said| format!(" {}", plain(&said)));
    let until = match report.engine {
        Some(_) => "its end (of an engine's step: to the start of the next one)",
        None => "its end",
    };
    format!(
        "{}Shares of the windows of {of}.{except} A window is from the start of a call on the host to {until} or to the end of \
         its last GPU work.{notes}\n\n{without_work}",
        table.markdown_with_rest_in(file),
    )
}

/// Which stages are in no share: what runs on the GPU in the meantime is work of other ranges.
fn without_gpu_work(stages: &[&StageRow], are_all: bool) -> String {
    let names: Vec<&str> = stages.iter().map(|row| row.stage.as_str()).collect();
    let (have, are) = match stages.len() {
        0 => return String::new(),
        1 => ("launches no GPU work itself", "is"),
        _ => ("launch no GPU work themselves", "are"),
    };
    let names = listed(&names, APART_NAMED);
    paragraph(&match are_all {
        true => format!("{names} {have}."),
        false => format!("{names} {have}, and {are} in no share of the time of all stages."),
    })
}

/// What the two kinds of idle time are, and what is not part of them.
pub(super) fn idle_kinds(mut kinds: impl Iterator<Item = WindowKind>) -> String {
    let other = match kinds.any(|kind| kind == WindowKind::OtherWork) {
        true => {
            " Where the host samples show work of other stages, the GPU was not idle, although no work of this \
                 stage ran."
        }
        false => "",
    };
    format!(
        "Launch gaps are times of at most {LAUNCH_GAP_US} us between two pieces of GPU work; other idle is \
         all other time without GPU work.{other}"
    )
}

fn split<'r>(stage: &'r StageRow, answer: Option<&StageAnswer>) -> Option<Split<'r>> {
    if let Some(window) = answer.and_then(|answer| answer.window.as_ref()) {
        let kinds = window.parts.iter().map(|part| part.kind);
        let parts = kinds.zip(window.rounded_percent()).collect();
        return Some(Split { stage: &stage.stage, parts, idle_percent: None });
    }
    // Busy time is known exactly where the share of all instances is.
    let idle = idle_percent(stage)?;
    let parts = vec![(WindowKind::Busy, 100.0 - idle)];
    Some(Split { stage: &stage.stage, parts, idle_percent: Some(idle) })
}

/// What the hardware would need at least for a step; nothing where no stage has an answer.
pub(super) fn floors(report: &Report, most: usize) -> String {
    let rows: Vec<&StageAnswer> = report.answer.stages.iter().collect();
    let is_known = |row: &&StageAnswer| row.floor.floor_ns.value().is_some();
    if !rows.iter().any(is_known) {
        return String::new();
    }
    // Of what the first lines show times of.
    let shown =
        |row: &StageAnswer, ns: f64| row.step.as_ref().map_or(ns, |step| ns * step.shown_ns(1));
    let ms =
        |row: &StageAnswer, figure: &Figure| figure.value().and_then(|ns| ms_of(shown(row, ns)));
    let table = Table::first(most, &rows)
        .left("Stage", |row| name(&row.stage))
        .left("Per", |row| row.unit_of_times())
        .right("p50 (ms)", |row| {
            let step = row.step.as_ref()?;
            ms_of(step.shown_ns(step.p50_ns))
        })
        .right("Weights and KV cache at peak bandwidth (ms)", |row| ms(row, &row.floor.memory_ns))
        .right("FLOPs at the dense peak (ms)", |row| ms(row, &row.floor.compute_ns))
        .right("Floor (ms)", |row| ms(row, &row.floor.floor_ns))
        .right("Mean step over the floor", |row| row.floor.distance.value().map(times_faster))
        .right("Baseline over the floor", |row| row.floor.baseline_distance.map(times_faster));
    let note = "The floor is the larger of the two minimum times.";
    let mut out = table.with_note(note);
    let missing = rows.iter().filter_map(|row| Some((row, row.floor.floor_ns.absent()?)));
    for (row, why) in missing.take(most) {
        out.push_str(&paragraph(&format!("No floor for {}: {why}.", row.stage)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(stages: &[(&str, u64)]) -> Report {
        let stages = stages.iter().map(|&(stage, kernels)| StageRow {
            stage: stage.into(),
            kernels: Some(kernels),
            copies: Some(0),
            fills: Some(0),
            gpu_busy_ns: Some(kernels),
            gpu_busy_percent: Some(kernels as f64),
            ..StageRow::default()
        });
        Report { stages: stages.collect(), ..Report::default() }
    }

    #[test]
    fn requests_around_the_steps_of_an_engine_have_no_row_of_idle_time() {
        let page = windows(&report(&[("decode", 60), ("request", 0)]), 9, "report.md", false);
        assert!(page.contains("| `decode` | 60.0 | 40.0 |\n"), "{page}");
        assert!(!page.contains("| `request` |"), "{page}");
        let told =
            "request launches no GPU work itself, and is in no share of the time of all stages.";
        assert!(page.ends_with(&format!("{told}\n\n")), "{page}");
        let many = [("decode", 60), ("load", 0), ("request", 0), ("plan", 0)];
        let page = windows(&report(&many), 9, "report.md", false);
        let told = "load, request and 1 more launch no GPU work themselves, and are in no share";
        assert!(page.contains(told), "{page}");
    }

    #[test]
    fn a_run_without_gpu_work_in_its_stages_says_so() {
        let page = windows(&report(&[("request", 0)]), 9, "report.md", false);
        assert_eq!(page, "request launches no GPU work itself.\n\n");
        assert_eq!(
            windows(&report(&[("decode", 9)]), 9, "report.md", true).matches("no GPU").count(),
            0
        );
    }
}
