//! The reports of both sides -> their [`Comparison`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::visible;
use stage2_model::{OTHER_STAGES_WORK, Report, Role, StageRow, Status, StepUnit};

use crate::causes::CauseNames;
use crate::comparability::{differences, other_work, unlike};
use crate::comparison::{
    Better, ComparedRun, Comparison, MetricChange, MetricUnit, OwnTime, Per, Presence, StageChange,
    WorkTotal,
};
use crate::condition::{Condition, evaluate};
use crate::judged::{Noise, NoiseMethod, Verdict, is_apart};
use crate::libraries::libraries;
use crate::lines::lines;
use crate::metric::{
    Measured, Origin, PARTS_OF_STEP, REST_OF_IDLE, RUN_METRICS, class_metric, expected,
    is_additive, of_host, of_run, of_stage, stage_kinds,
};
use crate::noise::{Centre, Expected, judge, median, points};
use crate::stage_view::{Basis, StageView, Unit};
use crate::verdict::{time_of, verdict};
use crate::work::{KernelTime, RunWork, StageWork, by_stage, changes, sums_by_class, tells_cold};

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

/// A run has no GPU work, so that nothing can be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{run} ({side}) is EMPTY: {why}; `stage2-launch ask {run} coverage` has the remedy")]
pub struct EmptyRun {
    run: String,
    /// Where it stands: before or after.
    side: &'static str,
    why: String,
}

/// Compares two sides, and evaluates the conditions. `strict`: a condition also fails
/// for a difference within noise.
///
/// # Errors
/// When a run has no GPU work.
pub fn compare(
    before: &[Run<'_>],
    after: &[Run<'_>],
    conditions: &[Condition],
    strict: bool,
) -> Result<Comparison, EmptyRun> {
    for (side, runs) in [("BEFORE", before), ("AFTER", after)] {
        let is_empty = |run: &&Run<'_>| run.report.coverage.verdict.status == Status::Empty;
        if let Some(run) = runs.iter().find(is_empty) {
            let why = &run.report.coverage.verdict.text;
            let why = visible(why.strip_prefix("EMPTY: ").unwrap_or(why).as_bytes());
            return Err(EmptyRun { run: visible(run.label.as_bytes()), side, why });
        }
    }
    let sides = [gather(before), gather(after)];
    let mut stages: Vec<(usize, StageChange)> =
        names(before, after).into_iter().map(|name| stage(name, &sides)).collect();
    // Those of the model first, then those of both sides, then those whose time changed; decode, then prefill, then by
    // how much changed.
    let weight = |change: &StageChange| {
        let step = change.metric("step_ms").and_then(|step| step.change).unwrap_or(0.0).abs() * 1e6;
        change.work_total.change_ns.abs().max(step)
    };
    let is_beside = |change: &StageChange| change.apart.is_some() || change.per == Per::Run;
    // What is noise comes behind what is none, however large.
    let is_noise = |change: &StageChange| {
        let time = time_of(change).filter(|_| change.other_work.is_none());
        let is_change = time.is_some_and(|(metric, _)| metric.verdict.is_change());
        !is_change
    };
    stages.order_by(|a, b| {
        let [a_place, b_place] = [a, b]
            .map(|(role, of)| (is_beside(of), of.presence != Presence::Both, is_noise(of), *role));
        a_place.cmp(&b_place).then_with(|| weight(&b.1).total_cmp(&weight(&a.1)))
    });
    let stages: Vec<StageChange> = stages.into_iter().map(|(_, change)| change).collect();
    let [a, b] =
        [before, after].map(|side| side.iter().map(|run| of_run(run.report)).collect::<Vec<_>>());
    let run = RUN_METRICS
        .iter()
        .filter_map(|kind| metric(kind.name, kind.unit, kind.better, &a, &b, Centre::Median));
    let libraries = libraries(before, after, &stages);
    let mut comparison = Comparison {
        before: before.iter().map(compared).collect(),
        after: after.iter().map(compared).collect(),
        unlike: Vec::new(),
        verdict: String::new(),
        lines: Vec::new(),
        differences: differences(before, after),
        libraries,
        run: run.collect(),
        stages,
        conditions: Vec::new(),
    };
    comparison.unlike = unlike(before, after, &comparison);
    // Until here, their kernels tell whether the sides run one program. Times per a step of the one and per a call of the
    // other do not compare.
    for stage in comparison.stages.iter_mut().filter(|stage| stage.own_times.is_some()) {
        stage.work = Vec::new();
        stage.work_total = WorkTotal::default();
    }
    // A change that has another reason is for better or worse of nothing.
    for stage in &mut comparison.stages {
        let is_other = stage.other_work.is_some();
        let of_steps = stage.metrics.iter().map(|metric| stage.is_of_other_steps(metric));
        // What a host does that is ahead costs no time.
        let is_ahead = stage.host_ahead;
        let of_steps: Vec<bool> = of_steps.chain(stage.host.iter().map(|_| is_ahead)).collect();
        let metrics = stage.metrics.iter_mut().chain(&mut stage.host).zip(of_steps);
        let metrics = metrics.filter(|(_, of_other_steps)| is_other || *of_other_steps);
        metrics.for_each(|(metric, _)| metric.better = Better::Neither);
    }
    let is_other_work =
        comparison.stages.iter().any(|stage| stage.other_calls || stage.has_other_steps());
    let of_run = comparison.run.iter_mut().filter(|_| is_other_work);
    of_run.for_each(|metric| metric.better = Better::Neither);
    // They are decided, with a warning, because a gate that decides nothing must not pass.
    comparison.conditions =
        conditions.iter().map(|condition| evaluate(condition, &comparison, strict)).collect();
    if !comparison.unlike.is_empty() {
        comparison.leave_open();
    }
    for stage in &mut comparison.stages {
        let words: Vec<&str> =
            stage.metrics.iter().chain(&stage.host).map(|metric| stage.word(metric)).collect();
        let metrics = stage.metrics.iter_mut().chain(&mut stage.host);
        metrics.zip(words).for_each(|(metric, word)| metric.word = word.to_owned());
        let words: Vec<&str> = stage.work.iter().map(|row| stage.word_of_work(row)).collect();
        stage.work.iter_mut().zip(words).for_each(|(row, word)| row.word = word.to_owned());
    }
    comparison.run.iter_mut().for_each(|metric| metric.word = metric.word().to_owned());
    comparison.verdict = verdict(&comparison);
    let first = before.first().and_then(|run| Some((run.label, run.report.answer.first.as_ref()?)));
    comparison.lines = lines(&comparison, first);
    comparison.stages.iter_mut().for_each(StageChange::withdraw);
    Ok(comparison)
}

fn compared(run: &Run<'_>) -> ComparedRun {
    ComparedRun {
        label: visible(run.label.as_bytes()),
        name: visible(run.report.run.name.as_bytes()),
        started: run.report.run.started_minute().map(|text| visible(text.as_bytes())),
        gpus: run.report.gpus().map(|text| visible(text.as_bytes())),
        command: run.report.run.command.as_ref().map(|words| visible(words.join(" ").as_bytes())),
        coverage: run.report.coverage.verdict.status,
        simulated: run.report.simulated,
        left_out: run.left_out.to_vec(),
    }
}

type Gathering<'r> = (HashMap<&'r str, StageView<'r>>, HashMap<String, StageWork>);

fn gather<'r>(side: &[Run<'r>]) -> Vec<Gathering<'r>> {
    side.iter().map(|run| (StageView::all(run.report), by_stage(run.report))).collect()
}

/// Stages of both sides. One that neither opened nor has work is a name only.
fn names<'r>(before: &[Run<'r>], after: &[Run<'r>]) -> BTreeSet<&'r str> {
    let rows = before.iter().chain(after).flat_map(|run| &run.report.stages);
    let is_something = |row: &&StageRow| row.instances.is_some() || row.kernels.is_some();
    rows.filter(is_something).map(|row| row.stage.as_str()).collect()
}

/// A stage and its work in the runs of a side that have it.
fn having<'r>(
    side: &'r [Gathering<'r>],
    name: &str,
    none: &'r StageWork,
) -> Vec<(StageView<'r>, &'r StageWork)> {
    let has = side.iter().filter_map(|(stages, work)| stages.get(name).zip(Some(work)));
    has.map(|(view, work)| (*view, work.get(name).unwrap_or(none))).collect()
}

/// A stage, behind its place among the roles.
fn stage(name: &str, sides: &[Vec<Gathering<'_>>; 2]) -> (usize, StageChange) {
    let none = StageWork::new();
    let [mut a, mut b] = sides.each_ref().map(|side| having(side, name, &none));
    let mut views: Vec<_> = a.iter_mut().chain(&mut b).map(|(view, _)| view).collect();
    StageView::make_alike(&mut views);
    let all: Vec<StageView<'_>> = a.iter().chain(&b).map(|(view, _)| *view).collect();
    let basis = Basis::choose(&all);
    let works = || a.iter().chain(&b).map(|(_, work)| *work);
    let is_warm = works().all(tells_cold) && all.iter().all(|view| view.row.leaves_cold_out());
    let classes: BTreeSet<String> =
        works().flat_map(|work| sums_by_class(work, false).into_keys()).into_set();
    let values = |side: &[(StageView<'_>, &StageWork)]| -> Vec<_> {
        let of = |(view, work): &(StageView<'_>, &StageWork)| {
            let units = basis.units(view, is_warm);
            let none = classes.iter().map(|class| (class.clone(), KernelTime::default()));
            let mut times: BTreeMap<String, KernelTime> = none.into_map();
            if let Some(units) = units {
                let sums = sums_by_class(work, units.is_warm).into_iter();
                times.extend(sums.map(|(class, time)| (class, time.per(units.of_work))));
            }
            let mut numbers = of_stage(view, units, &times);
            // One value of a run, as the same number of the whole run.
            let of_run = numbers.values_mut().filter(|_| basis.per == Per::Run);
            of_run.for_each(|number| {
                number.spread = None;
                if number.origin == Origin::Samples {
                    number.origin = Origin::OneValue;
                }
            });
            numbers
        };
        side.iter().map(of).collect()
    };
    let (a_values, b_values) = (values(&a), values(&b));
    let by_class = classes.iter().map(|class| (class_metric(class), MetricUnit::Ms, Better::Lower));
    let named = stage_kinds().map(|kind| (kind.name.to_owned(), kind.unit, kind.better));
    let metrics: Vec<MetricChange> = named
        .chain(by_class)
        .filter_map(|(name, unit, better)| {
            metric(&name, unit, better, &a_values, &b_values, centre(&name))
        })
        .collect();
    let [before, after] = [&a, &b].map(|side| -> Vec<RunWork<'_>> {
        side.iter().filter_map(|(view, work)| Some((*work, basis.units(view, is_warm)?))).collect()
    });
    let (work, work_total) = changes(&before, &after);
    let unlike = unlike_times([&a, &b]);
    let mut change = StageChange {
        stage: visible(name.as_bytes()),
        apart: all.iter().find_map(|view| view.row.apart),
        presence: match (a.is_empty(), b.is_empty()) {
            (true, _) => Presence::New,
            (_, true) => Presence::Vanished,
            _ => Presence::Both,
        },
        other_work: unlike.as_ref().map(|(_, why)| why.clone()).or_else(|| {
            let reports = [&a, &b].map(|side| side.iter().map(|(view, _)| view.report).collect());
            other_work(name, reports)
        }),
        own_times: unlike.map(|(times, _)| times),
        per: basis.per,
        per_text: visible(basis.text.as_bytes()),
        step: all.iter().find_map(StageView::steps).map(|steps| steps.unit.noun().to_owned()),
        metrics,
        host_absent: None,
        // One run of many tells little of a side.
        host_ahead: [&a, &b].into_iter().any(|side| {
            let ahead = side.iter().filter(|(view, _)| view.host_ahead).count();
            ahead > 0 && 2 * ahead >= side.len()
        }),
        other_calls: {
            let units = all.iter().filter_map(|view| basis.units(view, is_warm));
            let mut per_call = units.map(|units| units.per_instance);
            let first = per_call.next();
            !matches!(basis.per, Per::Run | Per::Instance)
                && per_call.any(|of_call| Some(of_call) != first)
        },
        host: Vec::new(),
        work,
        work_total,
    };
    if change.own_times.is_some() {
        let mut metrics = std::mem::take(&mut change.metrics);
        metrics.retain(|metric| change.per_of(&metric.metric).is_empty());
        change.metrics = metrics;
    }
    judge_by_the_step(&mut change);
    let rate = change.metric("tokens_per_s").is_some_and(|rate| rate.verdict.is_change());
    let has_moved = rate || time_of(&change).is_some_and(|(time, _)| time.verdict.is_change());
    if change.own_times.is_none() {
        change.host = host_causes([&a, &b], [&a_values, &b_values], has_moved);
        // Samples show how the idle time of a run is divided, and not how much of it another run would have.
        let is_open = |idle: &MetricChange| {
            idle.noise.method == NoiseMethod::OneRunEach && idle.change != Some(0.0)
        };
        if has_moved && change.metric("idle_ms").is_some_and(is_open) {
            for cause in &mut change.host {
                cause.verdict = Verdict::None;
                cause.noise = Noise { method: NoiseMethod::OneRunEach, ..Noise::default() };
            }
        }
    }
    // The same time by another name has the same verdict.
    let other =
        change.metric("other_work_ms").map(|other| (other.verdict, other.noise, other.interval));
    let same = change.host.iter_mut().filter(|cause| cause.metric == OTHER_STAGES_WORK);
    for (cause, (verdict, noise, interval)) in same.zip(other) {
        (cause.verdict, cause.noise, cause.interval) = (verdict, noise, interval);
    }
    change.host_absent = host_absent([&a, &b]).filter(|_| change.host.is_empty());
    let places = all.iter().filter_map(|view| ROLES.iter().position(|role| *role == view.role()));
    (places.min().unwrap_or(ROLES.len()), change)
}

/// Of one run per side, a part that changed by more than the noise of the whole step, and the way that the step did, is a
/// change as well, and what changed by less in a step that did not change is noise: together the parts are the step.
fn judge_by_the_step(stage: &mut StageChange) {
    let step = time_of(stage).map(|(step, _)| (step.verdict, step.noise));
    let of_steps =
        |noise: &Noise| matches!(noise.method, NoiseMethod::FivePercent | NoiseMethod::Instances);
    let Some((verdict, noise)) = step.filter(|(_, noise)| of_steps(noise)) else { return };
    let is_noise = verdict == Verdict::None
        && !stage.metric("tokens_per_s").is_some_and(|rate| rate.verdict.is_change());
    let parts = stage.metrics.iter_mut().filter(|part| PARTS_OF_STEP.contains(&&*part.metric));
    for part in parts.filter(|part| part.noise.method == NoiseMethod::OneRunEach) {
        let change = part.change.unwrap_or(0.0);
        let is_less = noise.threshold.is_some_and(|threshold| change.abs() <= threshold);
        if verdict.is_beyond(change, noise.threshold) {
            (part.verdict, part.noise) = (verdict, noise);
        } else if let Some(sides) = part.before.zip(part.after).filter(|_| is_noise && is_less) {
            part.noise = noise.of_part(sides.into());
        }
    }
}

/// The times of each side, and what they are of, where only some are of steps of an engine.
fn unlike_times(sides: [&StageSide<'_>; 2]) -> Option<([OwnTime; 2], String)> {
    let times = sides.map(|side| -> Vec<(Unit, f64)> {
        side.iter().filter_map(|(view, _)| view.own_time()).collect()
    });
    let is_of_engine = |(unit, _): &(Unit, f64)| *unit == Unit::Step(StepUnit::OfEngine);
    let of_engine = times.iter().flatten().filter(|time| is_of_engine(time)).count();
    let all = times.iter().flatten().count();
    if of_engine == 0 || of_engine == all || times.iter().any(Vec::is_empty) {
        return None;
    }
    let joined = |side: &[(Unit, f64)], text: fn(Unit) -> &'static str| {
        let texts: BTreeSet<&str> = side.iter().map(|(unit, _)| text(*unit)).into_set();
        (texts.len(), texts.into_iter().collect::<Vec<_>>().join(" or "))
    };
    let own = times.each_ref().map(|side| {
        let (kinds, _) = joined(side, Unit::words);
        let (_, per) = joined(side, Unit::noun);
        let ms = median(&side.iter().map(|(_, ns)| ns / 1e6).collect::<Vec<f64>>());
        OwnTime { ms: ms.filter(|_| kinds == 1), per }
    });
    let [(_, a), (_, b)] = times.each_ref().map(|side| joined(side, Unit::words));
    Some((own, format!("timed per {a} before, and per {b} after")))
}

/// The roles that people ask for first, as in the lines of a report.
const ROLES: [Role; 2] = [Role::Decode, Role::Prefill];

/// A side of a stage: the runs that have it.
type StageSide<'r> = Vec<(StageView<'r>, &'r StageWork)>;

/// A cause that changed by less than this share of the idle time does not count as a difference: calls that say themselves how long
/// they took have no error.
const LEAST_OF_IDLE: f64 = 0.01;

/// The idle time of a stage by cause; `metrics` are those of the runs. Nothing unless all runs were sampled.
/// Causes change places from run to run. They are not a difference unless the time of the stage is one (`has_moved`).
fn host_causes(
    sides: [&StageSide<'_>; 2],
    metrics: [&Vec<BTreeMap<String, Measured>>; 2],
    has_moved: bool,
) -> Vec<MetricChange> {
    let all = sides.iter().flat_map(|side| side.iter());
    let causes: Vec<_> =
        all.filter_map(|(view, _)| Some(view.host?.causes_with_other_work())).collect();
    let causes = CauseNames::of(&causes.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let of_side = |side: &StageSide<'_>, metrics: &Vec<BTreeMap<String, Measured>>| {
        let of = side.iter().zip(metrics);
        of.map(|((view, _), metrics)| of_host(view, metrics, &causes)).collect::<Option<Vec<_>>>()
    };
    let ([a, b], [of_a, of_b]) = (sides, metrics);
    let (Some(before), Some(after)) = (of_side(a, of_a), of_side(b, of_b)) else {
        return Vec::new();
    };
    let change =
        |cause: &str| metric(cause, MetricUnit::Ms, Better::Lower, &before, &after, Centre::Mean);
    let all = causes.all.iter().map(String::as_str).chain([REST_OF_IDLE]);
    let mut changes: Vec<MetricChange> = all.filter_map(change).collect();
    let size = |change: &MetricChange| change.change.unwrap_or(0.0).abs();
    let idle = |side: &[BTreeMap<String, Measured>]| {
        side.iter().filter_map(|run| run.get("idle_ms")).map(|idle| idle.value).fold(0.0, f64::max)
    };
    let least = LEAST_OF_IDLE * idle(of_a).max(idle(of_b));
    for change in changes.iter_mut().filter(|change| change.verdict.is_change()) {
        if !has_moved {
            // The stage decides, and not what these runs allow.
            (change.verdict, change.noise) = (Verdict::None, change.noise.of_another());
            change.interval = None;
        } else if size(change) < least {
            (change.verdict, change.noise.too_small) = (Verdict::None, true);
        }
    }
    changes.order_by(|a, b| size(b).total_cmp(&size(a)));
    changes
}

/// Why causes of idle time are not compared although some runs know them.
fn host_absent(sides: [&StageSide<'_>; 2]) -> Option<String> {
    let with = sides.map(|side| {
        let has = |(view, _): &&(StageView<'_>, &StageWork)| {
            view.host.is_some_and(|host| !host.causes.is_empty())
        };
        (side.iter().filter(has).count(), side.len())
    });
    let [(a, of_a), (b, of_b)] = with;
    let is_sampled = sides.iter().all(|side| side.iter().all(|(view, _)| view.host.is_some()));
    let (what, remedy) = match is_sampled {
        true => ("too few host samples", "longer runs have more"),
        false => ("no host samples", "record both sides with profiling.collector.host=true"),
    };
    let side = match (a < of_a, b < of_b) {
        (true, false) => "before the change",
        (false, true) => "after the change",
        _ => "in some runs",
    };
    (a + b > 0 && a + b < of_a + of_b).then(|| {
        format!(
            "{what} {side}: host samples cover the idle time in {a} of {of_a} runs before and {b} of \
             {of_b} after; {remedy}"
        )
    })
}

/// How the values of the runs of a side become one number: parts of the mean step as a mean, all others as a median.
fn centre(name: &str) -> Centre {
    match is_additive(name) {
        true => Centre::Mean,
        false => Centre::Median,
    }
}

/// A metric on both sides; nothing where no run has it.
fn metric(
    name: &str,
    unit: MetricUnit,
    better: Better,
    before: &[BTreeMap<String, Measured>],
    after: &[BTreeMap<String, Measured>],
    centre: Centre,
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
    let (expected, within) = expected(name, &a, &b);
    let (verdict, noise, ratios) = judge(&a_values, &b_values, expected, within, centre);
    let (old, new) = (centre.of(&a_values), centre.of(&b_values));
    let change = old.zip(new).map(|(old, new)| new - old);
    let percent = change.zip(old).filter(|(_, old)| *old != 0.0);
    let several = before.len() > 1 || after.len() > 1;
    // MFU and MBU are judged as the time that they follow from, which is an amount.
    let interval = match unit {
        MetricUnit::Percent => points(&a_values, &b_values, noise.method, noise.single)
            .filter(|ends| is_apart(Some(*ends)) == is_apart(ratios) || expected == Expected::Share)
            .or(ratios),
        _ => ratios,
    };
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
        word: String::new(),
        noise,
        interval,
        before_runs: runs(a_values),
        after_runs: runs(b_values),
    })
}
