//! What is known of all stages -> the verdict, and the five lines that follow it in every view of a report; one more
//! where ncu measured regions, there are outliers, the host was sampled, or a rank is late. Each can be read alone.
//! That on the window states what the steps are bound by, and where that is not known, the parts of the window.

mod bound_by;
mod host;
mod verdict;

use std::collections::HashMap;

use self::bound_by::bottlenecks;
use self::host::{host, why_not_known};
pub(super) use self::verdict::in_short;
use self::verdict::verdict;
use crate::answer::NO_GPU_WORK;
use crate::conclusions::NO_GROUND;
use crate::operators::Annotation;
use stage2_contract::text::numbers::{
    count, counted, grouped, percent1, shown_rate, shown_time, time_scale,
};
use stage2_contract::text::{cut, shorten, shorten_kernel};
use stage2_model::regions::Totals;
use stage2_model::rule::{ENOUGH_INSTANCES, HOST_MAIN_PERCENT};
use stage2_model::{
    Absent, Answer, AnswerLine, BottleneckKind, Figure, FirstStep, LateCause, LateRow, ModelUse,
    Origin, Outlier, Outliers, PathKind, RankStageRow, Report, Role, Rule, StageAnswer, StageRow,
    Status, StepTimes, StepUnit, WindowPart, times_faster,
};

/// Stages in a line.
const STAGES: usize = 3;
/// Characters of a line, about, and of the stages listed in it.
const LINE_LIMIT: usize = 380;
const LIST_LIMIT: usize = 210;
/// Characters of the name of a stage.
const NAME_LIMIT: usize = 40;

/// A stage, and what only the lines state of it.
#[derive(Debug)]
pub(super) struct AnsweredStage<'r> {
    pub(super) row: &'r StageRow,
    pub(super) answer: StageAnswer,
    /// Why its window is not split.
    pub(super) why_no_window: Option<&'static str>,
    /// Time that the first thing to do saves in the whole run, ns.
    pub(super) saved_ns: Option<f64>,
    /// The part of its window that each of its takeaways saves at best, by their ids.
    pub(super) gains: Vec<(String, super::Saved)>,
    /// Why no advice follows from its times.
    pub(super) caveat: Option<String>,
}

/// Share of lost records from which times of kernels are said to be too short, percent.
const MENTIONED_PERCENT: f64 = 1.0;

/// The lines: verdict, time, window, floor, first, coverage; no verdict where no step is known. Behind the window,
/// what ncu measured of whole regions, outliers where there are any, the host where it was sampled, and the late rank.
pub(super) fn lines(
    report: &Report,
    stages: &[AnsweredStage<'_>],
    first: Option<&FirstStep>,
) -> Vec<AnswerLine> {
    let used = report.insight.utilisation.as_ref();
    let bound_by = bottlenecks(report, stages);
    let has_work = report.coverage.verdict.status != Status::Empty;
    let texts = [
        ("verdict", verdict(report, stages, first).map(|text| lead(report) + &text)),
        // Without GPU work, the line on the coverage says all.
        ("time", has_work.then(|| format!("{}{}", lead(report), time(report, stages)))),
        ("window", (has_work && bound_by.is_empty()).then(|| window(report, stages))),
        ("regions", regions(report, stages)),
        ("outliers", outliers(report, stages)),
        ("host", host(report, stages)),
        ("late rank", late(report, stages)),
        // Times of steps alone say nothing of the GPU.
        ("floor", has_work.then(|| floor(used, stages, simulated(report)))),
        ("first", Some(first_text(stages, first))),
        ("coverage", Some(report.coverage.verdict.text.clone())),
    ];
    let asks = used.is_some_and(|used| !used.needs.is_empty());
    let line = |(label, text): (&str, Option<String>)| {
        // What is missing is never cut, and neither is a command; verdict and bottlenecks have bounds of their own.
        let is_whole = match label {
            "floor" => asks,
            // It may say that samples are missing.
            "first" => first.is_some_and(|first| first.rule == Rule::Waiting),
            _ => matches!(label, "verdict" | "coverage" | "late rank"),
        };
        let text = match (label, text) {
            ("window", None) if has_work => bound_by.trim_end().to_owned(),
            (_, text) if is_whole => text?,
            (_, text) => cut(&text?, LINE_LIMIT),
        };
        let text = match label {
            "window" => format!("{}{text}", missing_work(report).unwrap_or_default()),
            _ => text,
        };
        Some(AnswerLine { label: label.to_owned(), text })
    };
    texts.into_iter().filter_map(line).collect()
}

/// What ncu measured of the stages as whole regions.
fn regions(report: &Report, stages: &[AnsweredStage<'_>]) -> Option<String> {
    let all = report.ncu_regions.iter().min_by_key(|table| table.scope)?;
    let region = |told: &AnsweredStage<'_>| {
        let region = all.regions.iter().find(|region| region.path == told.row.stage)?;
        let Totals { duration_ns, flops, sm_percent, memory_percent, .. } = region.inclusive;
        let ns = duration_ns.filter(|ns| *ns > 0.0)?;
        let rate = flops.map(|flops| format!("{} TFLOP/s", shown_rate(flops / ns / 1e3)));
        let peak = |what: &str, percent: f64| format!("{what} {} % of peak", percent1(percent));
        let sm = sm_percent.map(|percent| peak("SM", percent));
        let memory = memory_percent.map(|percent| peak("memory", percent));
        let known: Vec<String> = [rate, sm, memory].into_iter().flatten().collect();
        Some(format!("{} {}: {}", told.name(), shown_time(ns), known.join(", ")))
    };
    let said = list_stages(stages.iter(), region);
    (!said.is_empty()).then(|| format!("under ncu, gaps between kernels included: {said}"))
}

/// That GPU work is missing, before what is said about the time of kernels: no table can tell it from idle time.
fn missing_work(report: &Report) -> Option<String> {
    let percent = report.coverage.dropped_percent();
    (percent >= MENTIONED_PERCENT).then(|| {
        format!(
            "{} % of the records are missing, so the kernels take longer than this and the GPU is idle less: ",
            percent1(percent)
        )
    })
}

/// What the numbers that follow must not be read without.
pub(super) fn lead(report: &Report) -> String {
    // Without numbers, the coverage says it.
    let end = report.run.workload_end.as_ref();
    let end = end.filter(|_| report.coverage.verdict.status != Status::Empty);
    let end = end.map(|end| format!("until {}: ", end.how.until()));
    let under_nsys = report.source == Origin::Nsys.label();
    let nsys = if under_nsys { "under nsys, which slows the host down: " } else { "" };
    let marks = if marks_operators(report) { Answer::MARKED } else { "" };
    format!("{}{nsys}{marks}{}", end.unwrap_or_default(), simulated(report))
}

/// The fact on how a workload was profiled that lists its annotations.
pub(crate) const ANNOTATION: &str = "annotation";

/// Whether PyTorch marked each operator, which takes host time.
fn marks_operators(report: &Report) -> bool {
    let mut asked = report.run.profiled.iter().filter(|fact| fact.key == ANNOTATION);
    asked.any(|fact| fact.value.split(", ").any(|word| word == Annotation::TorchOps.word()))
}

/// Whose times these are.
fn simulated(report: &Report) -> &'static str {
    if report.simulated { "simulated GPU: " } else { "" }
}

fn time(report: &Report, stages: &[AnsweredStage<'_>]) -> String {
    match stages {
        [] => format!("not known: {}", report.no_range()),
        stages => {
            let requests = requests_of(report).map_or_else(String::new, |text| format!("; {text}"));
            // Everybody asks for these two, however short they are.
            let of_model = stages.iter().filter(|told| is_of_model(told));
            let others = stages.iter().filter(|told| !is_of_model(told));
            let all = of_model.clone().chain(others);
            format!("{}{requests}", list_at_least(of_model.count().min(2), all, time_of))
        }
    }
}

fn is_of_model(told: &AnsweredStage<'_>) -> bool {
    matches!(told.answer.role, Role::Prefill | Role::Decode)
}

/// Latencies of the requests of an engine: `requests 67.66 ms to the first token, 3.63 ms per
/// further token (p50 of 64)`.
fn requests_of(report: &Report) -> Option<String> {
    let requests = report.engine.as_ref()?.requests.as_ref()?;
    let first = shown_time(requests.first_token.p50_ns? as f64);
    let token = requests.token.p50_ns.map(|ns| shown_time(ns as f64));
    let token = token.map_or_else(String::new, |time| format!(", {time} per further token"));
    let of = count(requests.first_token.count);
    Some(format!("requests {first} to the first token{token} (p50 of {of})"))
}

fn time_of(told: &AnsweredStage<'_>) -> Option<String> {
    let (name, answer) = (told.name(), &told.answer);
    let Some(step) = &answer.step else {
        return Some(match told.row.host_first_ns {
            Some(ns) => format!("{name} {} (first call, cold)", shown_time(ns as f64)),
            None => format!("{name}: no step was timed"),
        });
    };
    let StepTime { shown, mut of, rests_on } = step_time(step);
    if let Some(tail) = of.last_mut() {
        tail.push_str(&rests_on);
    }
    of.extend(
        answer.slowdown.as_ref().map(|cost| format!("{} its baseline", times_faster(cost.ratio))),
    );
    let counted = answer.tokens_counted.noun();
    let rate = answer
        .tokens_per_s
        .value()
        .map(|rate| format!(", {} {counted}/s on average", shown_rate(rate)));
    let at_a_time = answer.at_a_time().map(|calls| format!(", with {calls}"));
    // The median step is not one of so many.
    of.extend(step.requests.map(|requests| match requests {
        1.0 => "1 request".to_owned(),
        requests => format!("{requests:.1} requests on average"),
    }));
    Some(format!(
        "{name} {shown} per {} ({}){}{}",
        answer.unit_of_times()?,
        of.join("; "),
        rate.unwrap_or_default(),
        at_a_time.unwrap_or_default()
    ))
}

/// The median of a step with its unit, and what it is of: `3.26 ms`, `p50` and `p99 9.83`.
struct StepTime {
    shown: String,
    of: Vec<String>,
    /// Behind the last of them: which of the longest steps it is, if it is one of the first three.
    rests_on: String,
}

fn step_time(step: &StepTimes) -> StepTime {
    let p50 = step.shown_ns(step.p50_ns);
    let (scale, unit, decimals) = time_scale(p50);
    let number = |ns: f64| grouped(&format!("{:.decimals$}", ns / scale));
    let steps = count(step.steps);
    let p99_from_top = step.p99_ns.map(|_| step.p99_from_top()).filter(|place| *place > 1);
    let mut of = match (p99_from_top, step.steps) {
        (None, 1) => vec![format!("the only {} {}", step.warmth(), step.unit.noun())],
        (None, _) => vec![format!("p50 of {steps}")],
        (Some(_), _) => vec!["p50".to_owned()],
    };
    of.extend((step.cold && step.steps > 1).then(|| "of a first, cold call".to_owned()));
    of.extend(step.tail().map(|(of, ns)| format!("{of} {}", number(step.shown_ns(ns)))));
    let rests_on = match p99_from_top {
        Some(2) => format!(", the 2nd longest of {steps}"),
        Some(3) => format!(", the 3rd longest of {steps}"),
        _ => String::new(),
    };
    StepTime { shown: format!("{} {unit}", number(p50)), of, rests_on }
}

/// Who is late, how often and by how much, and what its host does meanwhile: of the first stage with a late rank.
fn late(report: &Report, stages: &[AnsweredStage<'_>]) -> Option<String> {
    let late_in = |told: &AnsweredStage<'_>| {
        let mut rows = report.ranks.late.iter().filter(|row| row.stage == told.row.stage);
        rows.find_map(|row| {
            let waits = waits_meanwhile(report, row, &told.answer).unwrap_or_default();
            Some((row, row.line(&waits)?))
        })
    };
    let (row, line) = stages.iter().find_map(late_in)?;
    let of_host = row.delays.as_ref().is_some_and(|delays| delays.cause() != LateCause::Gpu);
    let unknown = why_not_known(report, row).filter(|_| of_host);
    Some(format!("{line}{}", unknown.unwrap_or_default()))
}

/// `; meanwhile, rank 1 waits 1.71 ms per step (0.86 ms averaged over 2 ranks)`: from the delay to the part of the mean step.
fn waits_meanwhile(report: &Report, late: &LateRow, answer: &StageAnswer) -> Option<String> {
    let steps = late.delays.as_ref()?.steps.as_ref()?;
    let of_stage = report.ranks.stages.iter().filter(|row| row.stage == late.stage);
    let others: Vec<&RankStageRow> = of_stage.filter(|row| row.file != late.file).collect();
    let waiting_ns = others.iter().map(|row| row.warm_waiting_ns).sum::<Option<u64>>()?;
    let mean_ns = waiting_ns as f64 / (steps.of.max(1) as f64 * others.len() as f64);
    let who = match &others[..] {
        [] => return None,
        [one] => format!("{} waits", one.who),
        others => format!("the {} other ranks wait on average", others.len()),
    };
    let found = answer.bottleneck.as_ref().filter(|found| found.of == steps.noun);
    let part =
        found.and_then(|found| found.parts.iter().find(|part| part.kind == BottleneckKind::Ranks));
    let over_all = part.map_or_else(String::new, |part| {
        let mean = shown_time(part.ns as f64);
        format!(" ({mean} averaged over {} ranks)", others.len() + 1)
    });
    Some(format!("; meanwhile, {who} {} per {}{over_all}", shown_time(mean_ns), steps.noun))
}

fn window(report: &Report, stages: &[AnsweredStage<'_>]) -> String {
    let is_split = |told: &&AnsweredStage<'_>| told.answer.window.is_some();
    // Those whose window is known in front of the others: a request is longer than all of its steps.
    let others = stages.iter().filter(move |told| !is_split(told));
    let split_first = stages.iter().filter(is_split).chain(others);
    let known = stages.iter().any(|told| is_split(&told));
    let why = stages.first().and_then(|told| told.why_no_window);
    match why.filter(|why| !known && *why != NO_GPU_WORK) {
        Some(why) => format!("not known: {why}"),
        None if stages.is_empty() => format!("not known: {}", report.no_range()),
        None => list_stages(split_first, |told| {
            let parts = match (&told.answer.window, told.why_no_window) {
                (Some(window), _) => {
                    let parts = window.parts.iter().zip(window.rounded_percent());
                    // What would read 0.0 % takes room from what matters.
                    let shown = parts.filter(|(_, percent)| *percent > 0.0);
                    let text = |(part, percent): (&WindowPart, f64)| {
                        format!("{} {} %", part.kind.label(), percent1(percent))
                    };
                    shown.map(text).collect::<Vec<_>>().join(", ")
                }
                (None, Some(NO_GPU_WORK)) => NO_GPU_WORK.to_owned(),
                (None, why) => format!("not known ({})", why.unwrap_or("nothing was recorded")),
            };
            let which = told.answer.window.as_ref().and_then(|_| told.which_instances());
            let which = which.map_or_else(String::new, |which| format!(" ({which})"));
            Some(format!("{}{which}: {parts}", told.name()))
        }),
    }
}

/// What no other line is about; nothing without outliers.
fn outliers(report: &Report, stages: &[AnsweredStage<'_>]) -> Option<String> {
    let found = || stages.iter().filter_map(|told| Some((told, told.row.outliers.as_ref()?)));
    let first = found().next()?.1;
    let alike = found().all(|(_, outliers)| outliers.left_out == first.left_out);
    let ranks = ranks_of(report);
    let text = list_stages(found().map(|(told, _)| told), |told| {
        let outliers = told.row.outliers.as_ref()?;
        let hold = if outliers.count == 1 { "holds" } else { "hold" };
        let of = format!(
            "{} of {} {hold} {} % of the time",
            count(outliers.count),
            counted(outliers.of, outliers.unit_word()),
            percent1(outliers.percent)
        );
        let longest = longest(&ranks, outliers).map_or_else(String::new, |longest| {
            let several = if outliers.count == 1 { "" } else { "the longest is " };
            format!(": {several}{longest}")
        });
        let host = outlier_host(report, told.row).unwrap_or_default();
        let meaning = match (alike, outliers.left_out) {
            (true, _) => "",
            (false, true) => ", left out of window, gains and advice",
            (false, false) => ", which other numbers include, so nothing is advised",
        };
        Some(format!("{}: {of}{longest}{host}{meaning}", told.name()))
    });
    Some(match (alike, first.left_out) {
        (false, _) => text,
        (true, true) => format!("{text}; window, gains and advice are without this time"),
        (true, false) => {
            format!("{text}; other numbers include this time, so nothing is advised where it is")
        }
    })
}

/// What the launching threads did in the idle time of the outliers of a stage, where that was mostly one thing.
fn outlier_host(report: &Report, row: &StageRow) -> Option<String> {
    let stage = report.host.as_ref()?.stages.iter().find(|found| found.stage == row.stage)?;
    let cause = stage.outlier_causes.first()?;
    let is_it = cause.is_finding() && cause.percent >= HOST_MAIN_PERCENT;
    is_it.then(|| format!(", {:.0} % of it {}", cause.percent, cause.text(true)))
}

/// What the longest outlier was. Of a job, all ranks wait for the one that pauses: that one states why.
fn longest(ranks: &HashMap<&str, Option<u64>>, outliers: &Outliers) -> Option<String> {
    let is_pause = |one: &&Outlier| one.idle_ns.is_some_and(|idle| idle >= one.ns / 2);
    let first = outliers.longest.first()?;
    let alike = outliers.longest.iter().filter(|one| one.ns >= first.ns / 10 * 9);
    let one = alike.clone().find(is_pause).unwrap_or(first);
    let kernel = one.longest_kernel.as_ref().filter(|(_, ns)| *ns >= one.ns / 2);
    let mut what = match (one.idle_ns.filter(|_| is_pause(&one)), kernel) {
        (Some(idle), _) => format!("a pause of {}", shown_time(idle as f64)),
        (None, Some((name, ns))) => {
            format!("a kernel of {} ({})", shown_time(*ns as f64), shorten_kernel(name, NAME_LIMIT))
        }
        (None, None) => shown_time(one.ns as f64),
    };
    if let Some(wall_ns) = one.wall_ns {
        let seconds = wall_ns.div_euclid(1_000_000_000).rem_euclid(24 * 60 * 60);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        what += &format!(" at {hours:02}:{minutes:02}:{:02} UTC", seconds % 60);
    }
    if let Some(rank) = ranks.get(one.file.as_str()).copied().flatten() {
        what += &format!(" in rank {rank}");
    }
    Some(what)
}

/// The rank of each trace file, if there are several.
fn ranks_of(report: &Report) -> HashMap<&str, Option<u64>> {
    let several = report.processes.iter().filter(|_| report.processes.len() > 1).rev();
    several.map(|process| (process.file.as_str(), process.rank)).collect()
}

fn floor(used: Option<&ModelUse>, stages: &[AnsweredStage<'_>], lead: &str) -> String {
    if stages.iter().any(|told| told.answer.floor.floor_ns.value().is_some()) {
        return format!("{lead}{}", list_stages(stages.iter(), |told| floor_of(used?, told)));
    }
    let whose = stages.iter().find(|told| is_of_model(told));
    let needs = used.and_then(|used| used.needs.sentence());
    if let Some(needs) = needs.filter(|_| whose.is_some()) {
        return needs;
    }
    match whose.and_then(|told| told.answer.floor.floor_ns.absent()) {
        Some(why) => format!("not known: {why}"),
        None => format!("not known: {}", unnamed(stages)),
    }
}

/// No stage is prefill or decode, and how to say that one is.
fn unnamed(stages: &[AnsweredStage<'_>]) -> String {
    let names =
        list_stages(stages.iter(), |told| (told.row.kind == PathKind::Range).then(|| told.name()));
    if names.is_empty() {
        return "no stage is named prefill or decode".to_owned();
    }
    format!(
        "no stage is prefill or decode by its name: stage2-launch report RUN_DIR roles.decode=[NAME] \
         selects one (of {names})"
    )
}

fn floor_of(used: &ModelUse, told: &AnsweredStage<'_>) -> Option<String> {
    let (name, floor) = (told.name(), &told.answer.floor);
    let ns = match &floor.floor_ns {
        Figure::Known(ns) => *ns,
        // Of what is no part of the model there is none.
        Figure::Absent(Absent::NotModelled) => return None,
        Figure::Absent(why) => return Some(format!("{name}: not known ({why})")),
    };
    let peaks = used.peaks.as_ref()?;
    let by_memory = floor.memory_ns.value() == Some(ns);
    let of_what = match (by_memory, peaks.bytes_per_s(), used.peak_dense_tflops()) {
        (true, Some(rate), _) => format!("weights and KV cache at {:.1} TB/s", rate / 1e12),
        (_, _, Some(tera)) => format!("FLOPs at {tera:.0} TFLOP/s"),
        _ => "peak rates".to_owned(),
    };
    let (per, ns) = match &told.answer.step {
        Some(step) => (step.shown_unit(), ns * step.shown_ns(1)),
        None => (StepUnit::Instance.noun(), ns),
    };
    let mut text = format!("{name} {} per {per} ({of_what})", shown_time(ns));
    if let Some(distance) = floor.distance.value().filter(|distance| *distance >= 1.0) {
        text += &format!(": the run takes {} as long on average", times_faster(distance));
        if let Some(baseline) = floor.baseline_distance {
            text += &format!(", its baseline {}", times_faster(baseline));
        }
    } else if floor.distance.value().is_some() {
        text += ": the run takes less time, so the configured model or peaks are not its own";
    }
    Some(text)
}

fn first_text(stages: &[AnsweredStage<'_>], first: Option<&FirstStep>) -> String {
    let Some(first) = first else {
        let caveat = stages.iter().find_map(|told| Some((told, told.caveat.as_deref()?)));
        return match caveat {
            Some((told, caveat)) => {
                let name = told.name();
                let why = caveat.strip_suffix(NO_GROUND).unwrap_or(caveat);
                let more = told.row.instances.is_some_and(|all| all < ENOUGH_INSTANCES);
                let more = if more { "; record more calls of it" } else { "" };
                format!("none, because the times of {name} do not support one ({why}){more}")
            }
            None => "no change is known to help".to_owned(),
        };
    };
    let stage = first.stage.as_deref().map(|stage| shorten(stage, NAME_LIMIT));
    // Who is late has a line of its own.
    match (stage, first.gain(), first.to_measure()) {
        (Some(stage), Some(gain), _) => format!("{stage} {gain}. {}", first.text),
        (Some(stage), _, Some(idle)) => format!("{stage}: idle time is {idle}. {}", first.text),
        (Some(stage), ..) => format!("{stage}: {}", first.text),
        (None, ..) => first.text.clone(),
    }
}

impl AnsweredStage<'_> {
    fn name(&self) -> String {
        shorten(&self.row.stage, NAME_LIMIT)
    }

    /// What its times are of, where they are of no warm instances.
    fn which_instances(&self) -> Option<String> {
        let is_cold = self.row.instances == Some(1);
        let cold = || is_cold.then(|| "its only call, which was cold".to_owned());
        self.row.only_words().or_else(cold)
    }
}

/// As many stages as fit, and how many more there are.
fn list_stages<'t, 'r: 't>(
    stages: impl Iterator<Item = &'t AnsweredStage<'r>>,
    text: impl Fn(&'t AnsweredStage<'r>) -> Option<String>,
) -> String {
    list_at_least(1, stages, text)
}

/// [`list_stages`] with the first `least` of them, however long.
fn list_at_least<'t, 'r: 't>(
    least: usize,
    stages: impl Iterator<Item = &'t AnsweredStage<'r>>,
    text: impl Fn(&'t AnsweredStage<'r>) -> Option<String>,
) -> String {
    let mut line = String::new();
    let (mut shown, mut more) = (0, 0);
    for text in stages.filter_map(text) {
        let fits = line.chars().count() + text.chars().count() + 2 <= LIST_LIMIT;
        if more == 0 && shown < STAGES && (shown < least.max(1) || fits) {
            line.push_str(if shown == 0 { "" } else { "; " });
            line.push_str(&text);
            shown += 1;
        } else {
            more += 1;
        }
    }
    if more == 0 { line } else { format!("{line}; and {}", counted(more, "more stage")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::stage_answer;
    use stage2_model::regions::{Region, RegionTable, Scope};
    use stage2_model::{
        Bottleneck, BottleneckKind, BottleneckPart, Coverage, Fact, Removed, Slowdown, StepTimes,
        Verdict, WindowKind, WindowSplit, WorkloadEnd,
    };

    pub(super) fn stage(row: &StageRow) -> AnsweredStage<'_> {
        AnsweredStage {
            row,
            why_no_window: None,
            saved_ns: None,
            gains: Vec::new(),
            caveat: None,
            answer: StageAnswer {
                step: Some(StepTimes {
                    steps: 32,
                    p50_ns: 8_800_000,
                    p99_ns: Some(9_120_000),
                    tokens_per_step: Some(1),
                    ..StepTimes::default()
                }),
                tokens_per_s: Figure::of(113.72),
                window: Some(WindowSplit {
                    window_ns: 1_000,
                    steps: None,
                    parts: [(WindowKind::Compute, 19.7), (WindowKind::LaunchGaps, 80.3)]
                        .map(|(kind, percent)| WindowPart { kind, ns: 1, percent })
                        .to_vec(),
                }),
                ..stage_answer(&row.stage)
            },
        }
    }

    fn used() -> ModelUse {
        let report = crate::answer::tests::steps::report(Vec::new(), 64);
        report.insight.utilisation.expect("made by hand")
    }

    pub(super) fn report() -> Report {
        let verdict = Verdict { status: Status::Complete, text: "complete: all of it".into() };
        Report { coverage: Coverage { verdict, ..Coverage::default() }, ..Report::default() }
    }

    pub(super) fn texts(
        report: &Report,
        stages: &[AnsweredStage<'_>],
        first: Option<&FirstStep>,
    ) -> Vec<String> {
        let lines = lines(report, stages, first);
        let labels: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
        let labels = labels.strip_prefix(&["verdict"]).unwrap_or(&labels);
        assert_eq!(labels, ["time", "window", "floor", "first", "coverage"]);
        let lines: Vec<AnswerLine> =
            lines.into_iter().filter(|line| line.label != "verdict").collect();
        let is_long = |line: &AnswerLine| line.text.chars().count() > LINE_LIMIT + 4;
        let without = bottlenecks(&Report::default(), stages).chars().count();
        let long =
            lines.iter().find(|line| is_long(line) && (line.label != "window" || without == 0));
        assert_eq!(long, None);
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn five_lines_say_it_all() {
        let (decode, prefill) = (row("decode"), row("prefill"));
        let mut prefill = stage(&prefill);
        prefill.answer.role = Role::Prefill;
        prefill.answer.tokens_per_s = Figure::Absent(Absent::NoModel);
        prefill.answer.step = Some(StepTimes {
            steps: 2,
            p50_ns: 9_700_000,
            max_ns: Some(9_900_000),
            ..StepTimes::default()
        });
        prefill.answer.slowdown = Some(Slowdown { pass: "collect".into(), ratio: 1.5 });
        let first = FirstStep {
            stage: Some("decode".into()),
            rule: Rule::LaunchBound,
            takeaway: None,
            text: "Launch less often.".into(),
            condition: "launch gaps vanish".into(),
            removes: vec![Removed { what: "launch gaps".into(), percent: 80.3 }],
            factor: Some(4.94),
            ..FirstStep::default()
        };
        let lines = texts(&report(), &[stage(&decode), prefill], Some(&first));
        assert_eq!(
            lines,
            [
                "decode 8.80 ms per token (p50 of 32; longest 9.12), 113.7 tokens/s on average; prefill 9.70 ms per \
             call (p50 of 2; longest 9.90; 1.50x its baseline)",
                "decode: compute 19.7 %, launch gaps 80.3 %; prefill: compute 19.7 %, launch gaps 80.3 %",
                "not known: no model is configured (choose one, also for stage2-launch report RUN_DIR: \
             model/llm=NAME, or model.llm.config_json=PATH)",
                "decode up to 4.9x faster if launch gaps vanish: launch gaps 80.3 % of the window. Launch less often.",
                "complete: all of it",
            ]
        );
    }

    #[test]
    fn what_ncu_measured_of_a_stage_as_one_region_is_a_line() {
        let decode = row("decode");
        let totals = Totals {
            launches: 1,
            duration_ns: Some(429_000.0),
            flops: Some(103e9),
            sm_percent: Some(23.5),
            ..Totals::default()
        };
        let region = |path: &str| Region {
            path: path.into(),
            name: path.into(),
            domain: None,
            parent: None,
            depth: 0,
            inclusive: totals.clone(),
            exclusive: None,
        };
        let regions = vec![region("decode"), region("decode/mlp")];
        let table = RegionTable { scope: Scope::Aggregate, regions };
        let measured = Report { ncu_regions: vec![table], ..report() };
        let said = |report: &Report| {
            let lines = lines(report, &[stage(&decode)], None);
            lines.into_iter().find(|line| line.label == "regions").map(|line| line.text)
        };
        let expected = "under ncu, gaps between kernels included: decode 0.43 ms: 240.1 TFLOP/s, SM 23.5 % of peak";
        assert_eq!(said(&measured).as_deref(), Some(expected));
        assert_eq!(said(&report()), None);
    }

    #[test]
    fn prefill_and_decode_are_told_before_other_stages_and_a_percentile_with_what_it_rests_on() {
        let names = ["a stage that takes longest", "decode", "mixed", "prefill"];
        let rows = names.map(row);
        let mut stages: Vec<AnsweredStage<'_>> = rows.iter().map(stage).collect();
        for (at, role, steps) in [
            (0, Role::Other, 9),
            (2, Role::Other, 9),
            (1, Role::Decode, 187),
            (3, Role::Prefill, 300),
        ] {
            stages[at].answer.role = role;
            stages[at].answer.step.as_mut().expect("timed").steps = steps;
        }
        let said = texts(&report(), &stages, None).swap_remove(0);
        assert_eq!(
            said,
            "decode 8.80 ms per token (p50; p99 9.12, the 2nd longest of 187), 113.7 tokens/s on average; \
             prefill 8.80 ms per token (p50; p99 9.12), 113.7 tokens/s on average; and 2 more stages"
        );
    }

    pub(super) fn bound(
        parts: &[(BottleneckKind, u64)],
        kernels_over_floor: Option<f64>,
    ) -> Bottleneck {
        let part = |&(kind, us): &(BottleneckKind, u64)| BottleneckPart { kind, ns: us * 1_000 };
        let parts: Vec<BottleneckPart> = parts.iter().map(part).collect();
        let ns = parts.iter().map(|part| part.ns).sum();
        Bottleneck { of: "step".into(), ns, parts, kernels_over_floor, ..Bottleneck::default() }
    }

    #[test]
    fn what_the_numbers_must_not_be_read_without_comes_first() {
        let decode = row("decode");
        let mut simulated = Report { simulated: true, ..report() };
        let lines = texts(&simulated, &[stage(&decode)], None);
        assert!(lines[0].starts_with("simulated GPU: decode 8.80"), "{lines:?}");
        simulated.run.workload_end = Some(WorkloadEnd {
            how: stage2_model::EndedBy::Failure,
            exit: None,
            text: "the workload failed: exit status 3".into(),
            likely_cause: None,
            log: None,
        });
        let early = texts(&simulated, &[stage(&decode)], None);
        let lead = "until it failed: simulated GPU: decode";
        assert!(early[0].starts_with(lead), "{early:?}");
        let annotation = |value: &str| Fact { key: ANNOTATION.into(), value: value.into() };
        let mut marked = Report { simulated: true, ..report() };
        marked.run.profiled = vec![annotation("prefill-decode, torch-ops")];
        assert_eq!(
            super::lead(&marked),
            "measured with every operator marked, which slows the host: simulated GPU: "
        );
        marked.run.profiled = vec![annotation("prefill-decode")];
        assert_eq!(super::lead(&marked), "simulated GPU: ");
        let mut empty = report();
        empty.coverage.verdict.status = Status::Empty;
        let empty = super::lines(&empty, &[stage(&decode)], None);
        let labels: Vec<&str> = empty.iter().map(|line| &*line.label).collect();
        assert_eq!(labels, ["first", "coverage"], "what is not known is said once");
    }

    #[test]
    fn many_stages_and_long_names_do_not_make_long_lines() {
        let rows: Vec<StageRow> =
            (0..1_000).map(|at| row(&format!("stage {at} {}", "x".repeat(500)))).collect();
        let stages: Vec<AnsweredStage<'_>> = rows.iter().map(stage).collect();
        let lines = texts(&report(), &stages, None);
        assert!(lines[0].ends_with(" more stages"), "{}", lines[0]);
        let none = texts(&report(), &[], None);
        assert!(none[0].starts_with("not known: the workload opened no NVTX"), "{none:?}");
    }

    #[test]
    fn requests_around_the_steps_of_an_engine_stand_behind_them() {
        let (request, decode) = (row("request"), row("decode"));
        let without_work = |row| {
            let mut told = stage(row);
            told.answer.window = None;
            told.why_no_window = Some(NO_GPU_WORK);
            told
        };
        let window = |stages: &[AnsweredStage<'_>]| texts(&report(), stages, None).swap_remove(1);
        assert_eq!(
            window(&[without_work(&request), stage(&decode)]),
            "decode: compute 19.7 %, launch gaps 80.3 %; request: no GPU work launched by the stage itself"
        );
        assert_eq!(
            window(&[without_work(&request)]),
            "request: no GPU work launched by the stage itself"
        );
    }

    pub(super) fn row(stage: &str) -> StageRow {
        StageRow { stage: stage.to_owned(), ..StageRow::default() }
    }

    #[test]
    fn a_long_instance_of_many_tokens_is_compared_with_the_floor_per_token() {
        let decode = row("decode");
        let mut told = stage(&decode);
        told.answer.step = Some(StepTimes {
            steps: 1,
            p50_ns: 64_000_000,
            max_ns: Some(64_000_000),
            tokens_per_step: Some(64),
            ..StepTimes::default()
        });
        let floor = &mut told.answer.floor;
        (floor.floor_ns, floor.distance) = (Figure::of(6_400_000.0), Figure::of(10.0));
        floor.baseline_distance = Some(8.0);
        let mut used = used();
        used.peaks = Some(stage2_model::Peaks::default());
        let mut report = Report { simulated: true, ..report() };
        report.insight.utilisation = Some(used);
        let lines = texts(&report, &[told], None);
        let time = "simulated GPU: decode 1.00 ms per token (the only warm call), ";
        assert!(lines[0].starts_with(time), "{lines:?}");
        assert_eq!(
            lines[2],
            "simulated GPU: decode 0.10 ms per token (peak rates): the run takes 10.0x as long on average, \
         its baseline 8.0x"
        );
    }

    #[test]
    fn what_is_missing_for_the_floor_is_one_command() {
        let decode = row("decode");
        let mut used = used();
        let keys = ["model/llm=NAME", "hardware=NAME", "model.tokens.batch_size=N"];
        let more = ["model.tokens.prompt_tokens=N", "model.tokens.decode_steps=N"];
        used.needs.settings = keys.into_iter().chain(more).map(str::to_owned).collect();
        let mut report = report();
        report.insight.utilisation = Some(used);
        let lines = lines(&report, &[stage(&decode)], None);
        assert_eq!(
            lines[2].text,
            "not known: to compute it, run stage2-launch report RUN_DIR model/llm=NAME hardware=NAME \
         model.tokens.batch_size=N model.tokens.prompt_tokens=N model.tokens.decode_steps=N with your own values"
        );
    }

    #[test]
    fn each_stage_says_whether_its_outliers_are_left_out() {
        let row = |stage: &str, left_out| {
            let outliers =
                Outliers { count: 1, of: 200, percent: 22.5, left_out, ..Outliers::default() };
            StageRow { stage: stage.to_owned(), outliers: Some(outliers), ..StageRow::default() }
        };
        let line = |rows: [StageRow; 2]| {
            let stages: Vec<AnsweredStage<'_>> = rows.iter().map(stage).collect();
            outliers(&report(), &stages).expect("a line")
        };
        let hold = "1 of 200 calls holds 22.5 % of the time";
        assert_eq!(
            line([row("a", true), row("b", false)]),
            format!(
                "a: {hold}, left out of window, gains and advice; b: {hold}, which other numbers include, so \
             nothing is advised"
            )
        );
        let all = line([row("a", true), row("b", true)]);
        assert!(all.ends_with("; window, gains and advice are without this time"), "{all}");
    }

    #[test]
    fn lost_records_are_said_before_what_they_distort() {
        let mut report = report();
        report.coverage.total.kernels = 875;
        assert_eq!(missing_work(&report), None);
        report.coverage.total.dropped_by_cupti = 125;
        let said = missing_work(&report).expect("an eighth is missing");
        assert!(said.starts_with("12.5 % of the records are missing, so the kernels"), "{said}");
        let lines = lines(&report, &[], None);
        let window = lines.iter().find(|line| line.label == "window").expect("always there");
        assert!(window.text.starts_with(&said), "{}", window.text);
        let decode = row("decode");
        let mut told = stage(&decode);
        told.answer.bottleneck = Some(bound(&[(BottleneckKind::Host, 2_000)], None));
        let verdict = |report: &Report| verdict(report, std::slice::from_ref(&told), None);
        let said = "waits 100 % for the host; 12 % of the GPU records are missing.";
        assert!(verdict(&report).is_some_and(|text| text.ends_with(said)));
        // With even more of them, the only advice is to lose fewer.
        let first = |report: &Report| super::super::first_step_of_run(report, &[]);
        assert_eq!(first(&report), None);
        report.coverage.total.dropped_by_cupti = 219;
        let lose_fewer = first(&report).expect("a fifth is missing");
        assert_eq!(
            in_short(&report, &lose_fewer),
            "run again with a larger STAGE2_BUFFERS, such as 1G, or record less with STAGE2_RANGES or STAGE2_SAMPLE"
        );
        report.coverage.total.dropped_by_cupti = 8;
        assert_eq!(missing_work(&report), None, "less than one percent");
        assert!(verdict(&report).is_some_and(|text| text.ends_with("100 % for the host.")));
    }
}
