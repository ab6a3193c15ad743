//! The reports of both sides -> their [`Comparison`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use stage2_contract::text::visible;
use stage2_model::{Report, StageRow, Status};

use crate::comparability::differences;
use crate::comparison::{
    Better, ComparedRun, Comparison, MetricChange, MetricUnit, Per, Presence, StageChange, Verdict,
};
use crate::condition::{Condition, evaluate};
use crate::lines::lines;
use crate::metric::{Measured, RUN_METRICS, class_metric, expected, of_run, of_stage, stage_kinds};
use crate::noise::{Expected, judge, median};
use crate::stage_view::{Basis, StageView};
use crate::work::{Gathered, RunWork, StageWork, changes};

/// A run that is compared.
#[derive(Clone, Copy, Debug)]
pub struct Run<'r> {
    /// What the user called it.
    pub label: &'r str,
    /// Its report.
    pub report: &'r Report,
    /// Parts of the report that could not be read.
    pub left_out: &'r [String],
}

/// Why nothing can be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// A side has no run.
    #[error("a side has no run: name at least one before and one after")]
    NoRuns,
    /// A run has no GPU work.
    #[error(
        "{run} (a run {side} the change) is EMPTY: it holds no GPU work, so that nothing can be compared ({why}); \
         `stage2-launch doctor` finds out why none is recorded"
    )]
    Empty {
        /// Its label.
        run: String,
        /// Where it stands: before or after.
        side: &'static str,
        /// Its coverage.
        why: String,
    },
}

/// Compares two sides, and holds the comparison against the conditions. `strict`: a condition also fails
/// for a difference within noise.
///
/// # Errors
/// When a side has no run, or a run no GPU work.
pub fn compare(
    before: &[Run<'_>],
    after: &[Run<'_>],
    conditions: &[Condition],
    strict: bool,
) -> Result<Comparison, CompareError> {
    if before.is_empty() || after.is_empty() {
        return Err(CompareError::NoRuns);
    }
    for (side, runs) in [("before", before), ("after", after)] {
        let is_empty = |run: &&Run<'_>| run.report.coverage.verdict.status == Status::Empty;
        if let Some(run) = runs.iter().find(is_empty) {
            let why = visible(run.report.coverage.verdict.text.as_bytes());
            return Err(CompareError::Empty { run: visible(run.label.as_bytes()), side, why });
        }
    }
    let sides = [gather(before), gather(after)];
    let mut stages: Vec<StageChange> =
        names(before, after).into_iter().map(|name| stage(name, &sides)).collect();
    // Those of the model first; then by how much changed.
    let weight = |change: &StageChange| {
        let step = change.metric("step_ms").and_then(|step| step.change).unwrap_or(0.0).abs() * 1e6;
        change.work_total.change_ns.abs().max(step)
    };
    let is_beside = |change: &StageChange| change.apart.is_some() || change.per == Per::Run;
    stages.sort_by(|a, b| {
        is_beside(a).cmp(&is_beside(b)).then_with(|| weight(b).total_cmp(&weight(a)))
    });
    let [a, b] =
        [before, after].map(|side| side.iter().map(|run| of_run(run.report)).collect::<Vec<_>>());
    let run =
        RUN_METRICS.iter().filter_map(|kind| metric(kind.name, kind.unit, kind.better, &a, &b));
    let mut comparison = Comparison {
        before: before.iter().map(compared).collect(),
        after: after.iter().map(compared).collect(),
        lines: Vec::new(),
        differences: differences(before, after),
        run: run.collect(),
        stages,
        conditions: Vec::new(),
    };
    comparison.lines = lines(&comparison);
    comparison.conditions =
        conditions.iter().map(|condition| evaluate(condition, &comparison, strict)).collect();
    Ok(comparison)
}

fn compared(run: &Run<'_>) -> ComparedRun {
    ComparedRun {
        label: visible(run.label.as_bytes()),
        name: visible(run.report.run.name.as_bytes()),
        coverage: run.report.coverage.verdict.status,
        simulated: run.report.simulated,
        left_out: run.left_out.to_vec(),
    }
}

/// The stages of a run, and its GPU work by stage.
type Gathering<'r> = (HashMap<&'r str, StageView<'r>>, Gathered);

fn gather<'r>(side: &[Run<'r>]) -> Vec<Gathering<'r>> {
    side.iter().map(|run| (StageView::all(run.report), Gathered::of(run.report))).collect()
}

/// Stages of both sides. One that neither opened nor has work is a name only.
fn names<'r>(before: &[Run<'r>], after: &[Run<'r>]) -> BTreeSet<&'r str> {
    let rows = before.iter().chain(after).flat_map(|run| &run.report.stages);
    let is_something = |row: &&StageRow| row.instances.is_some() || row.kernels.is_some();
    rows.filter(is_something).map(|row| row.stage.as_str()).collect()
}

fn stage(name: &str, sides: &[Vec<Gathering<'_>>; 2]) -> StageChange {
    let [before, after] = sides;
    fn views<'r>(side: &[Gathering<'r>], name: &str) -> Vec<StageView<'r>> {
        side.iter().filter_map(|(stages, _)| stages.get(name).copied()).collect()
    }
    let (mut a, mut b) = (views(before, name), views(after, name));
    StageView::make_alike(&mut a.iter_mut().chain(&mut b).collect::<Vec<_>>());
    let all: Vec<StageView<'_>> = a.iter().chain(&b).copied().collect();
    let basis = Basis::choose(&all);
    let works = |side: &[Gathering<'_>]| -> Vec<StageWork> {
        let has = side.iter().filter(|(stages, _)| stages.contains_key(name));
        has.map(|(_, gathered)| gathered.stage(name).cloned().unwrap_or_default()).collect()
    };
    let (a_work, b_work) = (works(before), works(after));
    let classes: BTreeSet<String> =
        a_work.iter().chain(&b_work).flat_map(|work| work.classes().into_keys()).collect();
    let values = |views: &[StageView<'_>], works: &[StageWork]| -> Vec<_> {
        let of = |(view, work): (&StageView<'_>, &StageWork)| {
            let units = basis.units(view);
            let none = classes.iter().map(|class| (class.clone(), 0.0));
            let mut times: BTreeMap<String, f64> = none.collect();
            if let Some(units) = units {
                times.extend(work.classes().into_iter().map(|(class, ns)| (class, ns / units.all)));
            }
            of_stage(view, basis.per, units, &times)
        };
        views.iter().zip(works).map(of).collect()
    };
    let (a_values, b_values) = (values(&a, &a_work), values(&b, &b_work));
    let by_class = classes.iter().map(|class| (class_metric(class), MetricUnit::Ms, Better::Lower));
    let named = stage_kinds().map(|kind| (kind.name.to_owned(), kind.unit, kind.better));
    let metrics = named
        .chain(by_class)
        .filter_map(|(name, unit, better)| metric(&name, unit, better, &a_values, &b_values))
        .collect();
    fn with_units<'w>(
        views: &[StageView<'_>],
        works: &'w [StageWork],
        basis: &Basis,
    ) -> Vec<RunWork<'w>> {
        let both = views.iter().zip(works);
        both.filter_map(|(view, work)| Some((work, basis.units(view)?))).collect()
    }
    let (work, work_total) =
        changes(&with_units(&a, &a_work, &basis), &with_units(&b, &b_work, &basis));
    StageChange {
        stage: visible(name.as_bytes()),
        apart: all.iter().find_map(|view| view.row.apart),
        presence: match (a.is_empty(), b.is_empty()) {
            (true, _) => Presence::New,
            (_, true) => Presence::Vanished,
            _ => Presence::Both,
        },
        per: basis.per,
        per_text: visible(basis.text.as_bytes()),
        step: all.iter().find_map(StageView::steps).map(|steps| steps.unit.noun().to_owned()),
        metrics,
        work,
        work_total,
    }
}

/// A metric on both sides; nothing where no run has it.
fn metric(
    name: &str,
    unit: MetricUnit,
    better: Better,
    before: &[BTreeMap<String, Measured>],
    after: &[BTreeMap<String, Measured>],
) -> Option<MetricChange> {
    let known = |side: &[BTreeMap<String, Measured>]| -> Vec<Measured> {
        side.iter().filter_map(|run| run.get(name).copied()).collect()
    };
    let (a, b) = (known(before), known(after));
    if a.is_empty() && b.is_empty() {
        return None;
    }
    let values = |side: &[Measured]| side.iter().map(|number| number.value).collect::<Vec<f64>>();
    let (a_values, b_values) = (values(&a), values(&b));
    let noise_within: Expected = expected(name, a.first().copied(), b.first().copied());
    let (verdict, noise) = judge(&a_values, &b_values, noise_within);
    let (old, new) = (median(&a_values), median(&b_values));
    let change = old.zip(new).map(|(old, new)| new - old);
    let percent = change.zip(old).filter(|(_, old)| *old != 0.0);
    let several = before.len() > 1 || after.len() > 1;
    let runs = |values: Vec<f64>| if several { values } else { Vec::new() };
    debug_assert!(change.is_some() || verdict == Verdict::Unknown);
    Some(MetricChange {
        metric: name.to_owned(),
        unit,
        better,
        before: old,
        after: new,
        change,
        change_percent: percent.map(|(change, old)| change * 100.0 / old.abs()),
        verdict,
        noise,
        before_runs: runs(a_values),
        after_runs: runs(b_values),
    })
}
