//! How long the GPU is idle, and what the host does meanwhile.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{percent1, shown_time};
use stage2_model::kernels::model_stages;
use stage2_model::lead::{host_ahead, lead_first};
use stage2_model::{
    HostAdvice, HostCause, HostCauseKind, HostStage, Report, StageAnswer, WindowKind,
};

use super::{
    Subject, WITH_HOST, basis, count, ms, ms_of, ms_of_step, name_of, number, part_of, quoted,
    text, tokens_of_step,
};
use crate::answer::{Answer, Column, Row, Table};

/// Causes of idle time in the answer to `idle`: `host` has all.
const CAUSES: usize = 5;
/// Innermost frames of the first cause.
const FRAMES: usize = 6;

pub(super) fn idle(subject: &Subject<'_>, answer: &mut Answer) {
    let stages: Vec<(usize, &StageAnswer)> = subject.answers().collect();
    answer.summary = longest(&stages).unwrap_or_else(|| "No stage has known idle time.".to_owned());
    answer.push(gaps(&stages));
    answer.push(causes(subject).usually(CAUSES));
    answer.push(by_rank(&stages));
    answer.push(outliers(subject));
    answer.push(basis(subject));
    for (_, stage) in stages.iter().filter(|(_, stage)| stage.window.is_none()) {
        let question = format!("idle time of {}", quoted(&stage.stage));
        let reason = "its window could not be divided, for instance because processes shared a GPU";
        answer.unknown(&question, reason, &[]);
    }
    not_sampled(subject, &stages, answer);
}

/// The idle time of the stage with the most of it.
fn longest(stages: &[(usize, &StageAnswer)]) -> Option<String> {
    let total = |stage: &StageAnswer| idle_ns(stage).unwrap_or(0);
    let (_, stage) = stages.iter().max_by_key(|(_, stage)| total(stage))?;
    let window = stage.window.as_ref()?;
    let ns = idle_ns(stage)?;
    let percent = percent1(ns as f64 * 100.0 / window.window_ns.max(1) as f64);
    let name = quoted(&stage.stage);
    Some(match window.steps {
        Some(_) => format!(
            "In {name}, the GPU is idle for {} of the mean step ({percent} %).{}",
            part_of(window.per_step(ns), window.per_step(window.window_ns)),
            most_and_least(stage),
        ),
        None => format!("In {name}, the GPU is idle for {percent} % of its window."),
    })
}

/// The rank whose GPU is idle for longest in a step of its own, and the other end.
fn most_and_least(stage: &StageAnswer) -> String {
    let ranks = || stage.bottleneck.iter().flat_map(|found| &found.ranks);
    let ends = (ranks().max_by_key(|rank| rank.ns), ranks().min_by_key(|rank| rank.ns));
    let (Some(most), Some(least)) = ends else { return String::new() };
    if most.who == least.who {
        return String::new();
    }
    let told = |ns: u64| shown_time(ns.saturating_mul(tokens_of_step(stage)) as f64);
    format!(
        " Of the ranks, {} is idle most ({} per step), and {} least ({}).",
        quoted(&most.who),
        told(most.ns),
        quoted(&least.who),
        told(least.ns)
    )
}

fn idle_ns(stage: &StageAnswer) -> Option<u64> {
    let parts = stage.window.as_ref()?.parts.iter();
    let idle = parts.filter(|part| is_idle(part.kind));
    Some(idle.fold(0, |sum: u64, part| sum.saturating_add(part.ns)))
}

fn is_idle(kind: WindowKind) -> bool {
    matches!(kind, WindowKind::LaunchGaps | WindowKind::OtherIdle)
}

fn gaps(stages: &[(usize, &StageAnswer)]) -> Table {
    let mut rows = Vec::new();
    for (at, stage) in stages {
        let Some(window) = &stage.window else { continue };
        for (part_at, part) in window.parts.iter().enumerate().filter(|(_, p)| is_idle(p.kind)) {
            let per_step = window.steps.map(|_| window.per_step(part.ns));
            let cells = vec![
                text(&stage.stage),
                name_of(&part.kind),
                ms_of(per_step),
                number(part.percent),
                ms(part.ns),
            ];
            rows.push(Row::new(format!("/answer/stages/{at}/window/parts/{part_at}"), cells));
        }
    }
    let columns = vec![
        Column::workload("stage"),
        Column::text("idle_in").of("launch gaps are of at most 50 us each").at("/kind"),
        Column::number("per_step_ms", "ms").of("of the mean step").plain(),
        Column::number("percent", "percent").of("of the window of the stage").at("/percent"),
        Column::number("total_ms", "ms")
            .of("sum over the measured calls of all processes")
            .at("/ns"),
    ];
    Table::new("idle", columns, rows)
}

fn by_rank(stages: &[(usize, &StageAnswer)]) -> Table {
    let mut rows = Vec::new();
    for (at, stage) in stages {
        for (rank_at, rank) in stage.bottleneck.iter().flat_map(|b| b.ranks.iter().enumerate()) {
            let cells = vec![text(&stage.stage), text(&rank.who), ms_of_step(stage, rank.ns)];
            rows.push(Row::new(format!("/answer/stages/{at}/bottleneck/ranks/{rank_at}"), cells));
        }
    }
    let columns = vec![
        Column::workload("stage"),
        Column::workload("rank").at("/who"),
        Column::number("idle_ms", "ms").of("the mean step of the rank"),
    ];
    Table::new("idle_by_rank", columns, rows)
}

/// What the launching threads did while the GPU was idle.
fn causes(subject: &Subject<'_>) -> Table {
    let names = process_names(subject.report);
    let idle: HashMap<&str, f64> =
        subject.answers().filter_map(|(_, stage)| idle_per_step(stage)).collect();
    let mut rows = Vec::new();
    for (at, stage) in host_stages(subject) {
        let idle = idle.get(stage.stage.as_str()).copied();
        // The largest first, so that what is not known stands where its share belongs.
        let mut causes: Vec<_> = stage.causes.iter().enumerate().collect();
        causes.sort_by(|(_, a), (_, b)| b.percent.total_cmp(&a.percent));
        // The first row is what most time goes into, and not a sum of what has no name.
        let is_sum = |kind| matches!(kind, HostCauseKind::Small | HostCauseKind::Unknown);
        if let Some(named) = causes.iter().position(|(_, cause)| !is_sum(cause.kind)) {
            causes[..=named].rotate_right(1);
        }
        for (cause_at, cause) in causes {
            let cells = cause_cells(stage, cause, idle, &names);
            rows.push(Row::new(format!("/host/stages/{at}/causes/{cause_at}"), cells));
        }
    }
    let columns = vec![
        Column::workload("stage"),
        Column::text("state").at("/kind").aside(),
        Column::workload("where"),
        Column::number("percent", "percent").of("of the idle time of the stage").at("/percent"),
        Column::number("error_percent", "percent")
            .of("standard error, points")
            .at("/error_percent"),
        Column::number("per_step_ms", "ms")
            .of("that share of the idle time of the mean step")
            .plain(),
        Column::number("samples", "count").at("/samples").aside(),
        Column::number("beside_work_percent", "percent")
            .of("of the windows: it ran while the GPU worked")
            .at("/beside_work_percent")
            .aside(),
        Column::workload("mostly_in"),
    ];
    Table::new("causes", columns, rows)
}

fn cause_cells(
    stage: &HostStage,
    cause: &HostCause,
    idle_ns: Option<f64>,
    names: &BTreeMap<&str, String>,
) -> Vec<Value> {
    let process = cause.processes.first().map(|process| process.file.as_str());
    let process = process.map(|file| names.get(file).map_or(file, String::as_str));
    vec![
        text(&stage.stage),
        name_of(&cause.kind),
        text(&cause.text(false)),
        number(cause.percent),
        number(cause.error_percent),
        ms_of(idle_ns.map(|ns| ns * cause.percent / 100.0)),
        count(cause.samples),
        number(cause.beside_work_percent),
        process.map_or(Value::Null, text),
    ]
}

/// Trace files by the rank that they are of.
fn process_names(report: &Report) -> BTreeMap<&str, String> {
    let ranks = report.ranks.stages.iter();
    ranks.map(|row| (row.file.as_str(), row.who.clone())).collect()
}

/// A stage, and the idle time of the mean step that its answer speaks of, ns.
fn idle_per_step(answer: &StageAnswer) -> Option<(&str, f64)> {
    let window = answer.window.as_ref().filter(|window| window.steps.is_some())?;
    Some((&answer.stage, window.per_step(idle_ns(answer)?)))
}

/// The stages that were sampled, in the order of the console: that of the verdict first, and last those that are none of
/// the model.
fn host_stages<'r>(subject: &Subject<'r>) -> Vec<(usize, &'r HostStage)> {
    let order: HashMap<&str, usize> =
        lead_first(subject.report).map(|answer| answer.stage.as_str()).zip(0..).collect();
    let stages = subject.report.host.iter().flat_map(|host| host.stages.iter().enumerate());
    let mut stages: Vec<_> = stages.filter(|(_, stage)| subject.has(&stage.stage)).collect();
    stages.order_by_cached_key(|(_, stage)| {
        order.get(stage.stage.as_str()).copied().unwrap_or(usize::MAX)
    });
    stages
}

fn outliers(subject: &Subject<'_>) -> Table {
    let mut rows = Vec::new();
    for (at, stage) in subject.report.stages.iter().enumerate() {
        let Some(outliers) = stage.outliers.as_ref().filter(|_| subject.has(&stage.stage)) else {
            continue;
        };
        let longest = outliers.longest.first();
        let cells = vec![
            text(&stage.stage),
            count(outliers.count),
            count(outliers.of),
            number(outliers.percent),
            ms(longest.map(|outlier| outlier.ns)),
            ms(longest.and_then(|outlier| outlier.idle_ns)),
            outliers.left_out.into(),
        ];
        rows.push(Row::new(format!("/stages/{at}"), cells));
    }
    let columns = vec![
        Column::workload("stage").at("/stage"),
        Column::number("outliers", "count").at("/outliers/count"),
        Column::number("of", "count").of("calls or steps").at("/outliers/of"),
        Column::number("percent", "percent").of("of their time").at("/outliers/percent"),
        Column::number("longest_ms", "ms").at("/outliers/longest/0/ns"),
        Column::number("longest_idle_ms", "ms").at("/outliers/longest/0/idle_ns"),
        Column::text("left_out").of("of all other numbers").at("/outliers/left_out"),
    ];
    Table::new("outliers", columns, rows)
}

pub(super) fn host(subject: &Subject<'_>, answer: &mut Answer) {
    let stages: Vec<(usize, &StageAnswer)> = subject.answers().collect();
    answer.summary = match first_cause(subject) {
        None => {
            "What the host does while the GPU is idle is not known; the reason follows.".to_owned()
        }
        Some((stage, cause)) => told(subject.report, stage, cause),
    };
    answer.push(causes(subject));
    answer.push(advice(subject));
    answer.push(outlier_causes(subject));
    answer.push(stack(subject));
    answer.push(threads(subject));
    not_sampled(subject, &stages, answer);
}

/// What the host mostly did while the GPU was idle, and that its code is not to blame where it was ahead.
fn told(report: &Report, stage: &HostStage, cause: &HostCause) -> String {
    use HostCauseKind::{EngineCode, FrameworkCode, NativeCode, UserCode};
    let (name, what) = (quoted(&stage.stage), quoted(&cause.text(true)));
    let share = format!("{} ± {} %", percent1(cause.percent), percent1(cause.error_percent));
    if host_ahead(report, &stage.stage) {
        return format!(
            "In {name}, the host was ahead of the GPU: no host code is to blame. Meanwhile, for {share} of \
             the GPU's idle time: {what}."
        );
    }
    match cause.kind {
        UserCode | EngineCode | FrameworkCode | NativeCode => {
            format!("In {name}, {share} of the GPU's idle time is spent in {what}.")
        }
        _ => format!("In {name}, {share} of the GPU's idle time has this cause: {what}."),
    }
}

/// The stages that the answer is about: those of the model, and one that was asked for.
fn is_meant<'r>(subject: &Subject<'r>) -> impl Fn(&str) -> bool + use<'r> {
    let model: HashSet<&'r str> =
        model_stages(subject.report).map(|row| row.stage.as_str()).collect();
    let is_asked = subject.stage.is_some();
    move |stage| is_asked || model.contains(stage)
}

/// The first stage with a known cause of its idle time, and the largest of its causes.
fn first_cause<'r>(subject: &Subject<'r>) -> Option<(&'r HostStage, &'r HostCause)> {
    let is_meant = is_meant(subject);
    let stages = host_stages(subject).into_iter();
    let mut stages = stages.filter(|(_, stage)| is_meant(&stage.stage));
    stages.find_map(|(_, stage)| {
        let causes = stage.causes.iter().filter(|cause| cause.is_finding());
        let largest = causes.max_by(|a, b| a.percent.total_cmp(&b.percent));
        largest.map(|cause| (stage, cause))
    })
}

fn advice(subject: &Subject<'_>) -> Table {
    let is_meant = is_meant(subject);
    let mut found: Vec<(String, &HostStage, &HostAdvice)> = Vec::new();
    for (at, stage) in host_stages(subject) {
        let all = stage.advice.iter().enumerate();
        found.extend(all.map(|(advice_at, advice)| {
            (format!("/host/stages/{at}/advice/{advice_at}"), stage, advice)
        }));
    }
    // A terminal shows the remedy of several rows once.
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (at, (_, _, advice)) in found.iter().enumerate() {
        places.entry(&advice.remedy).or_insert(at);
    }
    let place = |advice: &HostAdvice| places.get(advice.remedy.as_str()).copied();
    found.order_by_cached_key(|(_, stage, advice)| (!is_meant(&stage.stage), place(advice)));
    let brief = found.iter().filter(|(_, stage, _)| is_meant(&stage.stage)).count();
    let rows = found.into_iter().map(|(source, stage, advice)| {
        let frame = advice.frame.as_ref().map(stage2_model::HostFrame::text);
        let cells = vec![
            text(&stage.stage),
            name_of(&advice.kind),
            number(advice.percent),
            number(advice.error_percent),
            frame.map_or(Value::Null, Value::from),
            text(&advice.remedy),
        ];
        Row::new(source, cells)
    });
    let columns = vec![
        Column::workload("stage"),
        Column::text("fault").at("/kind"),
        Column::number("percent", "percent").of("of the idle time of the stage").at("/percent"),
        Column::number("error_percent", "percent")
            .of("standard error, points")
            .at("/error_percent"),
        Column::workload("where"),
        Column::workload("remedy").at("/remedy"),
    ];
    Table::new("faults", columns, rows.collect()).briefly(brief)
}

/// What the host did in the idle time of outliers.
fn outlier_causes(subject: &Subject<'_>) -> Table {
    let mut rows = Vec::new();
    for (at, stage) in host_stages(subject) {
        for (cause_at, cause) in stage.outlier_causes.iter().enumerate() {
            let cells = vec![
                text(&stage.stage),
                name_of(&cause.kind),
                text(&cause.text(false)),
                number(cause.percent),
                number(cause.error_percent),
                count(cause.samples),
            ];
            rows.push(Row::new(format!("/host/stages/{at}/outlier_causes/{cause_at}"), cells));
        }
    }
    let columns = vec![
        Column::workload("stage"),
        Column::text("state").at("/kind"),
        Column::workload("where"),
        Column::number("percent", "percent").of("of the idle time of outliers").at("/percent"),
        Column::number("error_percent", "percent")
            .of("standard error, points")
            .at("/error_percent"),
        Column::number("samples", "count").at("/samples"),
    ];
    Table::new("outlier_causes", columns, rows).usually(CAUSES)
}

/// The innermost frames of the cause that the answer names, or of the largest cause of the first stage that has some.
fn stack(subject: &Subject<'_>) -> Table {
    let stages = host_stages(subject);
    let all = stages.iter().flat_map(|(at, stage)| {
        stage.causes.iter().enumerate().map(move |(cause_at, cause)| (*at, cause_at, cause))
    });
    let has_stack: Vec<_> = all.filter(|(_, _, cause)| !cause.stack.is_empty()).collect();
    let named = first_cause(subject).map(|(_, cause)| cause);
    let is_named = |cause: &HostCause| named.is_some_and(|named| std::ptr::eq(named, cause));
    let found = has_stack.iter().find(|(_, _, cause)| is_named(cause)).or(has_stack.first());
    let of = found.map_or_else(String::new, |(at, cause_at, _)| {
        format!("/host/stages/{at}/causes/{cause_at}")
    });
    let rows = found.iter().flat_map(|(_, _, cause)| {
        let frames = cause.stack.iter().enumerate().rev();
        frames.map(|(at, frame)| Row::new(format!("{of}/stack/{at}"), vec![text(frame)]))
    });
    let rows = rows.collect();
    let basis = format!("the stack of the cause {of}, the innermost frame first");
    let frame = Column::workload("frame").of(basis).at("");
    let of = found.map(|(_, _, cause)| format!("{}, the innermost frame first", cause.text(true)));
    Table { of, ..Table::new("stack", vec![frame], rows).usually(FRAMES).briefly(0) }
}

fn threads(subject: &Subject<'_>) -> Table {
    let rows = host_stages(subject).into_iter().map(|(at, stage)| {
        let cells = vec![
            text(&stage.stage),
            text(&stage.threads.join(", ")),
            count(stage.samples),
            number(stage.covered_percent),
            number(stage.waits_for_work_percent),
        ];
        Row::new(format!("/host/stages/{at}"), cells)
    });
    let columns = vec![
        Column::workload("stage").at("/stage"),
        Column::workload("threads").of("that launch and were sampled"),
        Column::number("samples", "count").of("in idle time").at("/samples"),
        Column::number("covered_percent", "percent").of("of the windows").at("/covered_percent"),
        Column::number("waits_percent", "percent")
            .of("of the windows: in calls that wait for running GPU work")
            .at("/waits_for_work_percent"),
    ];
    Table::new("threads", columns, rows.collect()).briefly(0)
}

/// Stages whose idle time has no known cause, and why.
fn not_sampled(subject: &Subject<'_>, stages: &[(usize, &StageAnswer)], answer: &mut Answer) {
    const QUESTION: &str = "what the host does while the GPU is idle";
    let Some(host) = &subject.report.host else {
        answer.unknown(QUESTION, "the host was not sampled in this run", &WITH_HOST);
        return;
    };
    let sampled: HashMap<&str, &HostStage> =
        host.stages.iter().map(|stage| (stage.stage.as_str(), stage)).collect();
    for (_, stage) in stages.iter().filter(|(_, stage)| idle_ns(stage).is_some_and(|ns| ns > 0)) {
        let sampled = sampled.get(stage.stage.as_str());
        if sampled.is_some_and(|sampled| !sampled.causes.is_empty()) {
            continue;
        }
        let samples = sampled.map_or(0, |sampled| sampled.samples);
        let reason = format!(
            "there are {samples} samples in its idle time, and at least {} are needed",
            stage2_model::HOST_SAMPLES_LEAST
        );
        let question = format!("{QUESTION} in {}", quoted(&stage.stage));
        answer.unknown(&question, reason, &WITH_HOST);
    }
}
