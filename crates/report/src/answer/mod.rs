//! A report that is complete otherwise -> its answer: how long a step takes, where the time goes, what
//! the hardware would need, what to do first, and whether the capture can be trusted.

mod first;
mod floor;
mod lines;
mod split;
mod steps;

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::by_stage::{ByStage, by_stage, of_stage};
use crate::conclusions::sample_basis::{sample_basis, whole_window_ns};
use crate::roofline::takeaways::{Facts, StageFacts};
use lines::Told;
use stage2_model::{
    Absent, Answer, CollectiveRow, Figure, LateRow, ModelUse, PathKind, Report, StageAnswer,
    StageRow, StageUtilisation, StepUnit, Takeaway,
};

/// Series of steps that a report keeps.
const SERIES: usize = 64;

/// Fills [`Report::answer`] from `report`, and keeps the series of the stages that it is about.
/// `facts` are those that the takeaways were drawn from.
pub(crate) fn add(report: &mut Report, facts: &Facts) {
    let is_stage = |row: &&StageRow| {
        row.apart.is_none() && matches!(row.kind, PathKind::Range | PathKind::WholeProcess)
    };
    let known = Known::of(report, facts);
    let mut all: Vec<Told<'_>> =
        report.stages.iter().filter(is_stage).map(|row| stage(report, &known, row)).collect();
    all.sort_by_cached_key(|told| {
        let window = told.answer.window.as_ref().map(|window| window.window_ns);
        let window = window.or(told.row.gpu_window_ns).or(told.row.host_total_ns);
        (Reverse(window), told.row.stage.clone())
    });
    let first = first::of_run(report, &all);
    let lines = lines::lines(report, &all, first.as_ref());
    let stages: Vec<StageAnswer> = all.into_iter().map(|told| told.answer).collect();
    // In the order of the stages, of which there may be very many.
    let mut series = std::mem::take(&mut report.step_series);
    let place = |stage: &str| stages.iter().take(SERIES).position(|known| known.stage == stage);
    series.retain(|series| place(&series.stage).is_some());
    series.sort_by_key(|series| place(&series.stage));
    report.step_series = series;
    report.answer = Answer { lines, stages, first };
}

/// What is known by stage: of stages there may be very many.
struct Known<'r> {
    facts: HashMap<&'r str, &'r StageFacts>,
    numbers: HashMap<&'r str, &'r StageUtilisation>,
    takeaways: ByStage<'r, Takeaway>,
    collectives: ByStage<'r, CollectiveRow>,
    late: ByStage<'r, LateRow>,
    run: steps::Run<'r>,
}

impl<'r> Known<'r> {
    fn of(report: &'r Report, facts: &'r Facts) -> Self {
        let used = report.insight.utilisation.iter().flat_map(|used| &used.numbers.stages);
        let outermost = used.filter(|numbers| numbers.within.is_none());
        let takeaways = report.insight.takeaways.iter().filter(|told| told.stage.is_some());
        Self {
            facts: facts.stages.iter().map(|facts| (facts.stage.as_str(), facts)).collect(),
            numbers: outermost.map(|numbers| (numbers.stage.as_str(), numbers)).collect(),
            takeaways: by_stage(takeaways, |told| told.stage.as_deref().unwrap_or_default()),
            collectives: by_stage(&report.ranks.collectives, |row| &row.stage),
            late: by_stage(&report.ranks.late, |row| &row.stage),
            run: steps::Run::of(report),
        }
    }
}

fn stage<'r>(report: &Report, known: &Known<'_>, row: &'r StageRow) -> Told<'r> {
    let used = report.insight.utilisation.as_ref();
    let stage = row.stage.as_str();
    let facts = known.facts.get(stage).copied();
    let numbers = known.numbers.get(stage).copied();
    let takeaways = of_stage(&known.takeaways, stage);
    let collectives = of_stage(&known.collectives, stage);
    let ranks = first::OfRanks { collectives, late: of_stage(&known.late, stage) };
    let steps = steps::of(report, &known.run, row);
    let per_instance = steps.as_ref().filter(|steps| steps.times.unit != StepUnit::Inferred);
    let window = split::of(report, row, collectives, per_instance.map(|steps| steps.per_instance));
    let slowdown = steps::slowdown(&known.run, row);
    let floor = floor::of(used, numbers, steps.as_ref(), slowdown.as_ref());
    let gain = first::of_stage(ranks, takeaways, facts, window.as_ref().ok(), &floor);
    let saved_ns = gain.saved.zip(whole_window_ns(report, row)).map(|(part, ns)| part * ns as f64);
    Told {
        row,
        why_no_window: window.as_ref().err().copied(),
        saved_ns,
        caveat: facts.and_then(|facts| facts.caveat.clone()),
        answer: StageAnswer {
            stage: row.stage.clone(),
            role: row.role,
            basis: basis(report, row),
            slowdown,
            time_to_first_token_ns: steps::time_to_first_token(&known.run, row),
            tokens_per_s: tokens_per_s(used, numbers),
            step: steps.map(|steps| steps.times),
            window: window.ok(),
            floor,
            first: gain.step,
        },
    }
}

fn basis(report: &Report, row: &StageRow) -> String {
    match row.kind {
        PathKind::Range if row.instances.is_none() => {
            format!("of how many instances is not known: the rows are those of {}", report.source)
        }
        PathKind::Range => sample_basis(report, row).basis,
        _ => "from the first GPU work of each process to its last, loading and warm-up included"
            .to_owned(),
    }
}

fn tokens_per_s(used: Option<&ModelUse>, numbers: Option<&StageUtilisation>) -> Figure {
    match numbers {
        Some(numbers) => numbers.tokens_per_s.clone(),
        None => Figure::Absent(why_no_numbers(used)),
    }
}

/// Why a stage is not among those of the model.
fn why_no_numbers(used: Option<&ModelUse>) -> Absent {
    match used {
        Some(ModelUse { absent: Some(why), .. }) if *why != Absent::NoModel.to_string() => {
            Absent::BadModel { why: why.clone() }
        }
        Some(ModelUse { absent: None, .. }) => Absent::NotModelled,
        _ => Absent::NoModel,
    }
}
