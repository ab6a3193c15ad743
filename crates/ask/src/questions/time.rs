//! How long a step takes, what its time goes into, and what the hardware would need.

use stage2_contract::text::numbers::shown_time;
use stage2_contract::text::{capitalised, listed};
use stage2_model::lead::bound_by;
use stage2_model::{Absent, Figure, Report, StageAnswer, StepTimes, StepUnit, times_faster};

use super::{
    Subject, TOKEN, basis, count, figure, mean_of, ms, ms_of, ms_of_step, name_of, number, part_of,
    quoted, text, tokens_of_step,
};
use crate::answer::{Answer, Column, Row, Table, Unknown, words};

/// Rows of what the time goes into, of all stages.
const PARTS: usize = 18;
/// The most stages that the summary names because their two means differ.
const MEANS_TOLD: usize = 2;
/// Stages that are named with one reason.
const STAGES_NAMED: usize = 8;

pub(super) fn time(subject: &Subject<'_>, answer: &mut Answer) {
    let stages: Vec<(usize, &StageAnswer)> = subject.answers().collect();
    answer.summary = stages.first().map_or_else(none, |(_, stage)| sentence(subject.report, stage));
    if let Some(slow) = stages.first().and_then(|(_, stage)| slow_steps(subject, stage)) {
        answer.summary.push_str(&slow);
    }
    let apart = stages.iter().filter_map(|(_, stage)| means_apart(stage)).take(MEANS_TOLD);
    apart.for_each(|apart| answer.summary.push_str(&format!(" {apart}.")));
    let steps = stages
        .iter()
        .filter(|(_, stage)| stage.step.is_some())
        .map(|(at, stage)| step_row(*at, stage));
    answer.push(Table::new(
        "steps",
        vec![
            Column::workload("stage").at("/stage"),
            Column::text("step").at("/step/unit"),
            Column::number("steps", "count").of("all with a time, recorded or not: a step of an engine has none where a pause follows")
                .plain().at("/step/steps"),
            Column::number("p50_ms", "ms")
                .of("median host time of a step")
                .plain()
                .at("/step/p50_ns"),
            Column::number("mean_ms", "ms")
                .of("mean host time of a step")
                .plain()
                .at("/step/mean_ns"),
            Column::number("p99_ms", "ms").at("/step/p99_ns"),
            Column::number("max_ms", "ms").at("/step/max_ns"),
            Column::number("std_ms", "ms").of("standard deviation").plain().at("/step/std_ns"),
            Column::number("tokens_per_step", "count").at("/step/tokens_per_step"),
            Column::number("requests", "count").of("mean of a step").at("/step/requests"),
            Column::number("tokens_per_s", "1/s").of("wall time").plain().at("/tokens_per_s/known"),
            Column::number("slowdown", "ratio")
                .of("of the profiler, over a run without it")
                .at("/slowdown/ratio"),
        ],
        steps.collect(),
    ));
    answer.push(parts(&stages));
    answer.push(window(&stages));
    answer.push(basis(subject));
    answer.push(Table::new(
        "floor",
        vec![
            Column::workload("stage").at("/stage"),
            Column::number("floor_ms", "ms")
                .of("per step, by the model's shape and the peaks of the GPU")
                .at("/floor/floor_ns/known"),
            Column::number("memory_ms", "ms").at("/floor/memory_ns/known"),
            Column::number("compute_ms", "ms").at("/floor/compute_ns/known"),
            Column::number("distance", "ratio")
                .of("mean step over floor")
                .at("/floor/distance/known"),
        ],
        stages.iter().filter_map(|(at, stage)| floor_row(*at, stage)).collect(),
    ));
    unknown(subject, &stages, answer);
}

/// `decode takes 3.95 ms as the mean of the 103 recorded of 1,653 calls, and 3.22 ms as the mean of all`: why the mean of the
/// parts is not that of the steps. The windows of an engine may overlap instead: its GPU works for two steps at a time.
fn means_apart(stage: &StageAnswer) -> Option<String> {
    let (all_ns, found) = (stage.mean_of_all_ns()?, stage.bottleneck.as_ref()?);
    let tokens = tokens_of_step(stage) as f64;
    let [some, all] = [found.ns as f64, all_ns].map(|ns| shown_time(ns * tokens));
    let name = quoted(&stage.stage);
    let of_engine = stage.step.as_ref().is_some_and(|step| step.unit == StepUnit::OfEngine);
    Some(match of_engine {
        true => format!(
            "The GPU windows of {name} take {some} and its steps {all}, because its GPU work goes on after the next step has begun"
        ),
        false => {
            format!("{name} takes {some} as the {}, and {all} as the mean of all", stage.basis)
        }
    })
}

/// ` The slowest steps take up to 14.20 ms (p99 11.09 ms), and recur every 63 steps, or a multiple of that.`
fn slow_steps(subject: &Subject<'_>, stage: &StageAnswer) -> Option<String> {
    let step = stage.step.as_ref()?;
    let (of, tail_ns) = step.tail()?;
    let noun = step.unit.noun();
    let [tail, max] = [tail_ns, step.max_ns?].map(|ns| shown_time(ns as f64));
    let tail = if of == "p99" { format!(" (p99 {tail})") } else { String::new() };
    let mut series = subject.report.step_series.iter();
    let series = series.find(|of| of.stage == stage.stage);
    let apart = series.and_then(|of| Some((of.slow_steps_apart()?, of.slow_steps_follow())));
    let apart = apart.map_or_else(String::new, |(apart, follow)| {
        let why = follow.map_or_else(String::new, |why| format!(": {why}"));
        format!(", and recur every {apart} {noun}s, or a multiple of that{why}")
    });
    let plateaus = series.and_then(|of| of.plateaus_in_words(noun));
    let plateaus = plateaus.map_or_else(String::new, |said| format!(" {}", capitalised(&said)));
    Some(format!(" The slowest {noun}s take up to {max}{tail}{apart}.{plateaus}"))
}

fn none() -> String {
    "No stage has a time.".to_owned()
}

/// `decode` takes 3.265 ms per step, and what bounds it.
pub(super) fn sentence(report: &Report, stage: &StageAnswer) -> String {
    let name = quoted(&stage.stage);
    let mut said = match &stage.step {
        Some(step) => {
            let per_token = match step.tokens_per_step {
                Some(2..) => format!(", {} per token", shown_time(step.shown_ns(step.p50_ns))),
                _ => String::new(),
            };
            format!(
                "{name} takes {} per {}{per_token} (median of {} {})",
                shown_time(step.p50_ns as f64),
                unit_of(step),
                step.steps,
                step.warmth()
            )
        }
        None => format!("Times of the steps of {name} are not known"),
    };
    if let Some(distance) = stage.floor.distance.value() {
        said.push_str(&format!(", on average {} its floor", times_faster(distance)));
    }
    if let Some((bottleneck, first)) = stage.bottleneck.as_ref().and_then(|b| Some((b, b.first()?)))
    {
        let tokens = tokens_of_step(stage) as f64;
        // A window ends with its last GPU work, a step on the host.
        let window = shown_time(bottleneck.ns as f64 * tokens);
        let is_apart = |step: &StepTimes| window != shown_time(step.mean_ns as f64);
        let of = match (bottleneck.is_of_step(), &stage.step) {
            (true, Some(step)) if is_apart(step) => {
                format!("the mean GPU window of a {}", unit_of(step))
            }
            (true, Some(step)) => format!("the mean {}", unit_of(step)),
            (true, None) => "the mean step".to_owned(),
            (false, _) => "its window".to_owned(),
        };
        said.push_str(&format!(
            "; it is bound by {}: {} of {of}",
            bound_by(report, &stage.stage, first.kind),
            part_of(first.ns as f64 * tokens, bottleneck.ns as f64 * tokens),
        ));
    }
    said + "."
}

/// What a step is called: a token, if it has one.
fn unit_of(step: &StepTimes) -> &'static str {
    if step.tokens_per_step == Some(1) { TOKEN } else { step.unit.noun() }
}

fn step_row(at: usize, stage: &StageAnswer) -> Row {
    let step = stage.step.clone().unwrap_or_default();
    Row::new(
        format!("/answer/stages/{at}"),
        vec![
            text(&stage.stage),
            name_of(&step.unit),
            count(step.steps),
            ms(step.p50_ns),
            ms(step.mean_ns),
            ms(step.p99_ns),
            ms(step.max_ns),
            ms(step.std_ns),
            count(step.tokens_per_step),
            number(step.requests),
            figure(&stage.tokens_per_s),
            number(stage.slowdown.as_ref().map(|slowdown| slowdown.ratio)),
        ],
    )
}

/// What a mean step is spent on.
fn parts(stages: &[(usize, &StageAnswer)]) -> Table {
    let mut rows = Vec::new();
    for (at, stage) in stages {
        let Some(bottleneck) = &stage.bottleneck else { continue };
        for (part_at, part) in bottleneck.parts.iter().enumerate() {
            let percent = number(bottleneck.percent(part));
            let part_ms = ms_of_step(stage, part.ns);
            let cells = vec![text(&stage.stage), name_of(&part.kind), part_ms, percent];
            rows.push(Row::new(format!("/answer/stages/{at}/bottleneck/parts/{part_at}"), cells));
        }
    }
    let of = mean_of(stages.iter().map(|(_, stage)| *stage));
    let columns = vec![
        Column::workload("stage"),
        Column::text("spent_on").at("/kind").said_as(KERNELS_SAID),
        Column::number("ms", "ms").of(format!("of {of}, averaged over the ranks")),
        Column::number("percent", "percent").of(format!("of {of}")),
    ];
    Table::new("parts", columns, rows).usually(PARTS)
}

/// The part of the kernels is named after what bounds them.
const KERNELS_SAID: &[(&str, &str)] =
    &[("memory", "kernels (bound by memory)"), ("compute", "kernels (bound by compute)")];

/// The window of each stage whose bottleneck is not known, by kind of time.
fn window(stages: &[(usize, &StageAnswer)]) -> Table {
    let mut rows = Vec::new();
    for (at, stage) in stages.iter().filter(|(_, stage)| stage.bottleneck.is_none()) {
        let Some(window) = &stage.window else { continue };
        for (part_at, part) in window.parts.iter().enumerate() {
            let per_step = window.steps.map(|_| window.per_step(part.ns));
            let cells = vec![
                text(&stage.stage),
                name_of(&part.kind),
                ms_of(per_step),
                number(part.percent),
            ];
            rows.push(Row::new(format!("/answer/stages/{at}/window/parts/{part_at}"), cells));
        }
    }
    let columns = vec![
        Column::workload("stage"),
        Column::text("spent_on").at("/kind"),
        Column::number("ms", "ms").of("of the mean step"),
        Column::number("percent", "percent").of("of the GPU window").at("/percent"),
    ];
    Table::new("window_parts", columns, rows).usually(PARTS)
}

fn floor_row(at: usize, stage: &StageAnswer) -> Option<Row> {
    let floor = &stage.floor;
    let known = |figure: &stage2_model::Figure| ms_of(figure.value());
    floor.floor_ns.value()?;
    let cells = vec![
        text(&stage.stage),
        known(&floor.floor_ns),
        known(&floor.memory_ns),
        known(&floor.compute_ns),
        figure(&floor.distance),
    ];
    Some(Row::new(format!("/answer/stages/{at}"), cells))
}

fn unknown(subject: &Subject<'_>, stages: &[(usize, &StageAnswer)], answer: &mut Answer) {
    for (_, stage) in stages {
        if stage.step.is_none() {
            let question = format!("time of the steps of {}", quoted(&stage.stage));
            answer.unknown(&question, "no step of it could be separated and timed", &[]);
        }
    }
    no_floor(subject, "floor", |stage| &stage.floor.floor_ns, answer);
}

/// Stages whose floor is not known, by the reason.
pub(super) fn no_floor(
    subject: &Subject<'_>,
    what: &str,
    floor: fn(&StageAnswer) -> &Figure,
    answer: &mut Answer,
) {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for (_, stage) in subject.answers() {
        // Of a prefill, FLOPs are the floor.
        let absent = floor(stage).absent().filter(|absent| **absent != Absent::DecodeOnly);
        let Some(reason) = absent.map(ToString::to_string) else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, stages)) => stages.push(quoted(&stage.stage)),
            None => reasons.push((reason, vec![quoted(&stage.stage)])),
        }
    }
    for (reason, stages) in reasons {
        let question = format!("{what} of {}", listed(&stages, STAGES_NAMED));
        answer.unknown.push(Unknown { question, reason, command: needs(subject) });
    }
}

/// The command that gives what the floor, MFU and MBU need; none where nothing is missing.
fn needs(subject: &Subject<'_>) -> Vec<String> {
    let Some(usage) = &subject.report.insight.utilisation else { return Vec::new() };
    let no_model = usage.needs.is_empty() && usage.absent.is_some();
    let model = no_model.then(|| "model/llm=NAME".to_owned());
    let settings: Vec<String> = usage.needs.settings.iter().cloned().chain(model).collect();
    if settings.is_empty() {
        return Vec::new();
    }
    words(&["report", subject.run.label]).into_iter().chain(settings).collect()
}
