//! A report that is complete otherwise -> its answer: how long a step takes, where the time goes, what
//! the hardware would need, what to do first, and whether the capture can be trusted.

mod bottleneck;
mod lines;

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::answer::bottleneck::Known;
pub(crate) use crate::answer::lines::ANNOTATION;
use crate::answer::lines::AnsweredStage;
use crate::conclusions::sample_basis::{SampleBasis, is_warm, sample_basis, usual_window_ns};
use crate::conclusions::{ByStage, by_stage, communication, of_prefill, of_stage};
use crate::join::overhead::{COLLECT, NSYS};
use crate::llm::mfu::HIGHEST_POSSIBLE_SHARE;
use crate::roofline::takeaways::{
    FUSIBLE, HostEvidence, KernelMeasurements, LAUNCH_LESS_OFTEN, MoreRequests, RunMeasurements,
    StageMeasurements,
};
use stage2_contract::order::Order as _;
use stage2_contract::text::shorten_kernel;
use stage2_model::{
    Absent, Answer, BusyParts, CollectiveRow, EngineSteps, Experiment, Figure, FirstStep, Floor,
    HostOtherWork, HostStage, InferredStepRow, LateRow, MeanTime, ModelUse, Origin, PathKind,
    Peaks, RATE_SHARE_MOST, Removed, Report, Role, Rule, Slowdown, StageAnswer, StageCost,
    StageRow, StageSteps, StageUtilisation, Status, StepTimes, StepUnit, TOO_MANY_MISSING_PERCENT,
    Takeaway, TokensCounted, WindowKind, WindowPart, WindowSplit, is_first_token_range,
};
use stage2_read::kernel_class::KernelClass;

/// Series of steps that a report keeps.
const SERIES: usize = 64;

/// Fills [`Report::answer`] from `report`, and keeps the series of the stages that it is about.
/// `measured` are those that the takeaways were drawn from.
pub(crate) fn add(report: &mut Report, measured: &RunMeasurements) {
    let is_stage = |row: &&StageRow| {
        row.apart.is_none() && matches!(row.kind, PathKind::Range | PathKind::WholeProcess)
    };
    let index = StageIndex::of(report, measured);
    let mut all: Vec<AnsweredStage<'_>> =
        report.stages.iter().filter(is_stage).map(|row| stage(report, &index, row)).collect();
    all.order_by_cached_key(|told| {
        let window = told.answer.window.as_ref().map(|window| window.window_ns);
        let window = window.or(told.row.gpu_window_ns).or(told.row.host_total_ns);
        (Reverse(window), told.row.stage.clone())
    });
    let first = first_step_of_run(report, &all);
    let first = first.map(|first| FirstStep { in_short: lines::in_short(report, &first), ..first });
    let lines = lines::lines(report, &all, first.as_ref());
    let gains: HashMap<String, Saved> =
        all.iter_mut().flat_map(|told| told.gains.drain(..)).collect();
    let stages: Vec<StageAnswer> = all.into_iter().map(|told| told.answer).collect();
    for takeaway in &mut report.insight.takeaways {
        expect_at_best(takeaway, gains.get(&takeaway.id).copied());
    }
    // In the order of the stages, of which there may be very many.
    let mut series = std::mem::take(&mut report.step_series);
    let place = |stage: &str| stages.iter().take(SERIES).position(|known| known.stage == stage);
    series.retain(|series| place(&series.stage).is_some());
    series.order_by_key(|series| place(&series.stage));
    report.step_series = series;
    report.answer = Answer { lead: lines::lead(report), lines, short: Vec::new(), stages, first };
}

/// The part of a window that vanishes, and its standard error where it is an estimate.
type Saved = (f64, Option<f64>);

/// States how much the metric of the experiment of a takeaway changes where `saved` of the window vanishes.
fn expect_at_best(takeaway: &mut Takeaway, saved: Option<Saved>) {
    let Some(Experiment::Change { at_best_percent, error_percent, grows, .. }) =
        &mut takeaway.experiment
    else {
        return;
    };
    *at_best_percent = saved.map(|(saved, _)| match *grows {
        true => (1.0 / (1.0 - saved) - 1.0) * 100.0,
        false => saved * -100.0,
    });
    *error_percent = saved.and_then(|(_, error)| error).map(|error| error * 100.0);
}

/// What is identified by stage: of stages there may be very many.
struct StageIndex<'r> {
    measured: HashMap<&'r str, &'r StageMeasurements>,
    numbers: HashMap<&'r str, &'r StageUtilisation>,
    takeaways: ByStage<'r, Takeaway>,
    collectives: ByStage<'r, CollectiveRow>,
    late: ByStage<'r, LateRow>,
    /// Stages that are prefills, and those that last from a request to its first token.
    prefills: Vec<&'r StageRow>,
    first_tokens: Vec<&'r StageRow>,
    /// The pass that the times are of, and what it cost each stage.
    pass: &'static str,
    costs: HashMap<&'r str, &'r StageCost>,
    host: HashMap<&'r str, &'r HostStage>,
}

impl<'r> StageIndex<'r> {
    fn of(report: &'r Report, measured: &'r RunMeasurements) -> Self {
        let used = report.insight.utilisation.iter().flat_map(|used| &used.numbers.stages);
        let outermost = used.filter(|numbers| numbers.within.is_none());
        let takeaways = report.insight.takeaways.iter().filter(|told| told.stage.is_some());
        let pass = if report.source == Origin::Nsys.label() { NSYS } else { COLLECT };
        let costs = report.costs.stages.iter().rev().filter(|cost| cost.pass == pass);
        let stages = report.stages.iter();
        let host = report.host.iter().flat_map(|host| &host.stages);
        Self {
            measured: measured.stages.iter().map(|row| (row.stage.as_str(), row)).collect(),
            numbers: outermost.map(|numbers| (numbers.stage.as_str(), numbers)).collect(),
            takeaways: by_stage(takeaways, |told| told.stage.as_deref().unwrap_or_default()),
            collectives: by_stage(&report.ranks.collectives, |row| &row.stage),
            late: by_stage(&report.ranks.late, |row| &row.stage),
            prefills: stages.clone().filter(|row| row.role == Role::Prefill).collect(),
            first_tokens: stages.filter(|row| is_first_token_range(&row.stage)).collect(),
            pass,
            costs: costs.map(|cost| (cost.stage.as_str(), cost)).collect(),
            host: host.map(|found| (found.stage.as_str(), found)).collect(),
        }
    }
}

fn stage<'r>(report: &Report, index: &StageIndex<'_>, row: &'r StageRow) -> AnsweredStage<'r> {
    let used = report.insight.utilisation.as_ref();
    let stage = row.stage.as_str();
    let engine = engine_kind(report, row);
    let measured = index.measured.get(stage).copied();
    let numbers = index.numbers.get(stage).copied();
    let takeaways = of_stage(&index.takeaways, stage);
    let collectives = of_stage(&index.collectives, stage);
    let steps = steps_of_stage(report, index, row);
    let per_instance = steps.as_ref().filter(|steps| steps.times.unit != StepUnit::Inferred);
    let host = index.host.get(stage).copied();
    let other_work = host.and_then(|host| host.other_work);
    let per_instance = per_instance.map(|steps| steps.per_instance);
    let window = split_window(report, row, collectives, per_instance, other_work);
    let ratio = index.costs.get(stage).and_then(|cost| cost.ratio);
    let mean_ns = window.as_ref().ok().and_then(mean_step_ns);
    let floor = least_time(used, numbers, steps.as_ref(), mean_ns, ratio);
    let late = of_stage(&index.late, stage);
    let of_stage = Stage { collectives, late, measured, window: window.as_ref().ok() };
    let mut gain = of_stage.largest_gain(takeaways, &floor);
    let step = steps.map(|steps| steps.times);
    let bottleneck = window.as_ref().ok().and_then(|window| {
        let (step, floor) = (step.as_ref(), &floor);
        bottleneck::bottleneck(report, row, &Known { window, step, floor, measured })
    });
    if let (Some(first), Some(bottleneck)) = (&mut gain.step, &bottleneck) {
        let is_known = first.factor.is_some() || !first.removes.is_empty();
        let is_of_step = is_known && bottleneck.is_of_step();
        let mean = || MeanTime { of: bottleneck.of.clone(), ns: bottleneck.ns as f64 };
        first.mean = is_of_step.then(mean);
    }
    let saved_ns = gain.saved.zip(usual_window_ns(report, row)).map(|(part, ns)| part * ns as f64);
    AnsweredStage {
        row,
        why_no_window: window.as_ref().err().copied(),
        saved_ns,
        gains: gain.all,
        caveat: measured.and_then(|measured| measured.caveat.clone()),
        answer: StageAnswer {
            stage: row.stage.clone(),
            role: row.role,
            basis: basis(report, row),
            slowdown: ratio.map(|ratio| Slowdown { pass: index.pass.to_owned(), ratio }),
            time_to_first_token_ns: time_to_first_token(report, index, row),
            tokens_per_s: match engine.and_then(|kind| kind.tokens_per_s) {
                Some(rate) => Figure::of(rate),
                None => numbers.map_or_else(
                    || Figure::Absent(why_no_numbers(used)),
                    |numbers| numbers.tokens_per_s.clone(),
                ),
            },
            tokens_counted: TokensCounted::of(engine, row.role),
            step,
            window: window.ok(),
            bottleneck,
            floor,
            first: gain.step,
        },
    }
}

fn basis(report: &Report, row: &StageRow) -> String {
    match row.kind {
        PathKind::Range if row.instances.is_none() => {
            format!("of how many calls is not known: the rows are those of {}", report.source)
        }
        PathKind::Range => sample_basis(report, row).basis,
        _ => "from the first GPU work of each process to its last, loading and warm-up included"
            .to_owned(),
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

/// How far a number of tokens may be from a whole one, as a part of it: steps of a sample or of
/// several generations do not divide evenly.
const UNEVEN: f64 = 0.02;

fn steps_of_stage(report: &Report, index: &StageIndex<'_>, row: &StageRow) -> Option<StageSteps> {
    let Some(mut steps) = row.steps.clone() else {
        let is_whole = row.kind == PathKind::WholeProcess;
        let times = is_whole.then(|| inferred_steps(report)).flatten()?;
        return Some(StageSteps { times, per_instance: 1.0, ..StageSteps::default() });
    };
    if let Some(times) = engine_steps(report, row) {
        return Some(StageSteps { times, per_instance: 1.0, ..steps });
    }
    steps.times.tokens_per_step = tokens(report, index, row, steps.per_instance);
    Some(steps)
}

/// The timed steps of the engine that the stage stands for.
fn engine_kind<'r>(report: &'r Report, row: &StageRow) -> Option<&'r EngineSteps> {
    report.engine.as_ref()?.timed(&row.stage)
}

/// Times from begin to begin, which include what the engine does between two steps.
fn engine_steps(report: &Report, row: &StageRow) -> Option<StepTimes> {
    let kind = engine_kind(report, row)?;
    Some(StepTimes {
        unit: StepUnit::OfEngine,
        path: Some(row.stage.clone()),
        steps: kind.timed_steps,
        mean_ns: kind.timed_ns.checked_div(kind.timed_steps)?,
        p50_ns: kind.p50_ns?,
        p99_ns: kind.p99_ns,
        max_ns: kind.max_ns,
        std_ns: kind.std_ns,
        requests: Some(kind.prefill_requests_mean + kind.decode_requests_mean),
        ..StepTimes::default()
    })
}

/// The kind of steps of which there are most, over all processes without ranges.
fn inferred_steps(report: &Report) -> Option<StepTimes> {
    let timed = |row: &&InferredStepRow| row.step_p50_ns.is_some();
    let rows = report.inferred_steps.as_ref()?.rows.iter().filter(timed);
    // The first of several with as many.
    let row = rows.rev().max_by_key(|row| row.timed_steps)?;
    Some(StepTimes {
        unit: StepUnit::Inferred,
        path: None,
        steps: row.timed_steps,
        mean_ns: row.step_mean_ns?,
        p50_ns: row.step_p50_ns?,
        p99_ns: row.step_p99_ns,
        ..StepTimes::default()
    })
}

/// Decode steps of the model in a step of the stage.
fn tokens(
    report: &Report,
    index: &StageIndex<'_>,
    row: &StageRow,
    per_instance: f64,
) -> Option<u64> {
    let used = report.insight.utilisation.as_ref()?;
    let decode_steps = used.tokens.steps().ok().filter(|_| row.role == Role::Decode)?;
    // There is one prefill in a generation. Without any, an instance of decode is a generation.
    let instances = match index.prefills.as_slice() {
        [] => 1.0,
        [prefill] => of_prefill(report, row, prefill)?,
        _ => return None,
    };
    let of_step = decode_steps as f64 / instances / per_instance;
    let whole = of_step.round();
    (whole >= 1.0 && (of_step - whole).abs() <= whole * UNEVEN).then_some(whole as u64)
}

/// Of a prefill: the median of the ranges that last from the arrival of a request to its first token. The
/// prefill itself leaves out the time in the queue, and what the GPU does in between.
fn time_to_first_token(report: &Report, index: &StageIndex<'_>, row: &StageRow) -> Figure {
    if row.role != Role::Prefill {
        return Figure::Absent(Absent::PrefillOnly);
    }
    let requests = report.engine.as_ref().and_then(|run| run.requests.as_ref());
    if let Some(ns) = requests.and_then(|requests| requests.first_token.p50_ns) {
        return Figure::of(ns as f64);
    }
    let ns = match index.first_tokens.as_slice() {
        [range] => range.host_warm_median_ns.ok_or(Absent::NoStepTime),
        _ => Err(Absent::NoRequests),
    };
    ns.map(|ns| ns as f64).into()
}

/// What is known of the window of a stage.
#[derive(Clone, Copy, Debug, Default)]
struct StageWindow {
    window_ns: u64,
    busy_ns: u64,
    busy_parts: Option<BusyParts>,
    short_gaps_ns: u64,
    /// Waiting and transfer in the collectives of the stage, where nearly all of them were split.
    communication: Option<(u64, u64)>,
    /// What work of other stages has of the time without work of this one.
    other_work: Option<HostOtherWork>,
}

/// Why the window of a stage without kernels, copies, fills and replays is not split.
const NO_GPU_WORK: &str = "no GPU work launched by the stage itself";

/// The parts, or why there are none. `collectives`: those of the stage. Steps of an instance: nothing
/// where these are not told apart.
fn split_window(
    report: &Report,
    row: &StageRow,
    collectives: &[&CollectiveRow],
    steps_per_instance: Option<f64>,
    other_work: Option<HostOtherWork>,
) -> Result<WindowSplit, &'static str> {
    if report.coverage.verdict.status == Status::Empty {
        return Err("no GPU work was recorded");
    }
    if let Some(unplaced) = report.unplaced.filter(|_| row.kernels.is_none()) {
        return Err(unplaced.label());
    }
    let basis = sample_basis(report, row);
    let (Some(window_ns), Some(busy_ns)) = (basis.window_ns, basis.busy_ns) else {
        let source = report.source.as_str();
        return Err(if report.is_sampled() {
            "its calls were recorded in parts only"
        } else if source == Origin::Ncu.label() {
            "ncu replays launches, and gives no windows"
        } else if source == Origin::Nsys.label() {
            "nsys lost records, or its tables have no windows"
        } else if row.gpu_busy_ns.is_none() {
            "its GPU work was not recorded"
        } else {
            "in some process the clocks of host and GPU cannot be tied together"
        });
    };
    if row.gpu_idle_ns.is_none() {
        return Err("several processes share the GPU");
    }
    if row.has_no_gpu_work() {
        // What runs meanwhile is that of other threads: requests around the steps of an engine.
        return Err(NO_GPU_WORK);
    }
    let SampleBasis { instances, busy_parts, short_gaps_ns, .. } = basis;
    let window = StageWindow {
        window_ns,
        busy_ns,
        busy_parts,
        short_gaps_ns: short_gaps_ns.unwrap_or(0),
        communication: communication(report, collectives, is_warm(report, row)),
        other_work,
    };
    let split = window.split().ok_or("its window is shorter than the GPU work in it")?;
    let steps = steps_per_instance.map(|steps| steps * instances as f64);
    Ok(WindowSplit { steps: steps.filter(|steps| *steps > 0.0), ..split })
}

impl StageWindow {
    /// Nothing where there is no window, or where it cannot hold the parts.
    fn split(self) -> Option<WindowSplit> {
        let Self { window_ns, busy_ns, .. } = self;
        let idle_ns = window_ns.checked_sub(busy_ns).filter(|_| window_ns > 0)?;
        let launch_ns = self.short_gaps_ns.min(idle_ns);
        let mut times = Vec::new();
        if let Some(BusyParts { compute_ns, communication_ns, .. }) = self.busy_parts {
            let copies_ns = busy_ns.checked_sub(compute_ns)?.checked_sub(communication_ns)?;
            times.push((WindowKind::Compute, compute_ns));
            if let Some((waiting, transfer)) = self.communication {
                // Exposed communication, told apart in the ratio that all of the stage has.
                let (waiting, transfer) = (u128::from(waiting), u128::from(transfer));
                let part =
                    (u128::from(communication_ns) * transfer).checked_div(waiting + transfer);
                let transfer_ns = part.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
                times.push((WindowKind::Transfer, transfer_ns));
                times.push((WindowKind::Waiting, communication_ns - transfer_ns));
            } else {
                times.push((WindowKind::Communication, communication_ns));
            }
            times.push((WindowKind::Copies, copies_ns));
        } else {
            times.push((WindowKind::Busy, busy_ns));
        }
        let [gaps_ns, longer_ns, other_ns] =
            HostOtherWork::split(self.other_work, launch_ns, idle_ns - launch_ns);
        times.push((WindowKind::LaunchGaps, gaps_ns));
        times.push((WindowKind::OtherIdle, longer_ns));
        times.push((WindowKind::OtherWork, other_ns));
        let part = |(kind, ns)| {
            let percent = ns as f64 * 100.0 / window_ns as f64;
            WindowPart { kind, ns, percent }
        };
        let parts = times.into_iter().filter(|(_, ns)| *ns > 0).map(part).collect();
        Some(WindowSplit { window_ns, parts, steps: None })
    }
}

/// The mean step of a window.
fn mean_step_ns(window: &WindowSplit) -> Option<f64> {
    Some(window.window_ns as f64 / window.steps?)
}

/// `numbers` are those of one instance of the stage; `mean_ns` is its mean step, as the numbers are means.
fn least_time(
    used: Option<&ModelUse>,
    numbers: Option<&StageUtilisation>,
    steps: Option<&StageSteps>,
    mean_ns: Option<f64>,
    slowdown: Option<f64>,
) -> Floor {
    let no_floor = |why: Absent| {
        let none = || Figure::Absent(why.clone());
        Floor {
            memory_ns: none(),
            kv_cache_ns: None,
            compute_ns: none(),
            floor_ns: none(),
            distance: none(),
            baseline_distance: None,
        }
    };
    let (Some(used), Some(numbers)) = (used, numbers) else {
        return no_floor(why_no_numbers(used));
    };
    if let Some(why) = impossible(numbers) {
        return no_floor(why);
    }
    // Without steps that are told apart, a step is an instance.
    let per_instance = Figure::of(steps.map_or(1.0, |steps| steps.per_instance));
    let peaks = used.peaks.as_ref();
    let bandwidth = peaks.and_then(Peaks::bytes_per_s).ok_or(Absent::NoBandwidth);
    let peak = match used.numbers.precision {
        Some(precision) => {
            let peak = peaks.and_then(|peaks| peaks.flops_per_s(precision));
            peak.ok_or(Absent::NoPeak { precision })
        }
        None => Err(why_no_numbers(Some(used))),
    };
    let time = |work: &Figure, rate: Result<f64, Absent>, of: &str| {
        let of_step = work.over(&per_instance, "number of steps");
        of_step.over(&rate.into(), of).map(|s| s * 1e9)
    };
    let memory_ns = time(&numbers.bytes, bandwidth, "bandwidth");
    let kv_cache = numbers.kv_cache_bytes.zip(numbers.bytes.value());
    let kv_cache_ns = memory_ns.value().zip(kv_cache).map(|(ns, (part, all))| ns * part / all);
    let compute_ns = time(&numbers.flops, peak, "peak");
    let floor_ns = match (memory_ns.value(), compute_ns.value()) {
        (Some(memory), Some(compute)) => Figure::of(memory.max(compute)),
        (Some(_), None) => memory_ns.clone(),
        (None, _) => compute_ns.clone(),
    };
    let p50_ns = || steps.map(|steps| steps.times.p50_ns as f64);
    let step_ns = mean_ns.or_else(p50_ns).ok_or(Absent::NoStepTime);
    let distance = Figure::from(step_ns).over(&floor_ns, "the least time");
    let ratio = slowdown.filter(|ratio| *ratio > 0.0);
    let baseline_distance = distance.value().zip(ratio).map(|(times, ratio)| times / ratio);
    Floor { memory_ns, kv_cache_ns, compute_ns, floor_ns, distance, baseline_distance }
}

/// Why no number of the configured model is one of the run: the GPU would have done more than it can while it was busy.
fn impossible(numbers: &StageUtilisation) -> Option<Absent> {
    let shares = [("MBU", &numbers.mbu_busy), ("MFU", &numbers.mfu_busy)];
    let (name, share) = shares.into_iter().find_map(|(name, share)| {
        Some((name, share.value().filter(|share| *share > HIGHEST_POSSIBLE_SHARE)?))
    })?;
    let why = format!(
        "the configured model cannot be what ran: {name} would be {:.0} % of the peak while the GPU is \
         busy; compare model.llm, model.tokens and hardware with the run",
        share * 100.0
    );
    Some(Absent::BadModel { why })
}

const NAME_LIMIT: usize = 40;
/// What saves less than this part of the time of a longer stage is not what to do first.
const FIRST_SAVES_PART: f64 = 0.1;
/// Idle time that advice leaves is named from this part of the window on, percent.
const LEFT_PERCENT: f64 = 10.0;

/// What to do first in a stage.
#[derive(Clone, Debug, Default)]
struct Gain {
    step: Option<FirstStep>,
    /// Part of its window that would vanish.
    saved: Option<f64>,
    /// Such a part for each takeaway with one, by its id.
    all: Vec<(String, Saved)>,
}

/// Time of a window that would vanish under a condition.
#[derive(Default)]
struct Vanishing {
    ns: f64,
    /// Standard error of that, where it is an estimate from samples.
    error_ns: Option<f64>,
    /// What vanishes at most, where that is more: it decides what comes first.
    at_most_ns: Option<f64>,
    condition: String,
    detail: Option<String>,
    removes: Vec<Removed>,
    /// [`FirstStep::left`].
    left: Option<Removed>,
}

/// How many times faster a window is without `vanishing` of it; true where the floor allows less than
/// that.
fn factor(vanishing_ns: f64, window_ns: f64, floor: &Floor) -> Option<(f64, bool)> {
    let left = window_ns - vanishing_ns;
    let factor = Some(window_ns / left).filter(|_| vanishing_ns > 0.0 && left > 0.0);
    match floor.distance.value() {
        // Faster than the hardware allows: model and run do not agree.
        Some(distance) if distance <= 1.0 => None,
        Some(distance) if factor.is_none_or(|factor| factor > distance) && vanishing_ns > 0.0 => {
            Some((distance, true))
        }
        _ => factor.map(|factor| (factor, false)),
    }
}

/// A stage, and what its ranks did together.
struct Stage<'a> {
    collectives: &'a [&'a CollectiveRow],
    late: &'a [&'a LateRow],
    measured: Option<&'a StageMeasurements>,
    window: Option<&'a WindowSplit>,
}

impl Stage<'_> {
    /// The largest gain of what `takeaways`, those of the stage, call for. Of times in caveat, of a part
    /// of the capture and near the roofs there is no gain.
    fn largest_gain(&self, takeaways: &[&Takeaway], floor: &Floor) -> Gain {
        let mut best = Gain::default();
        for takeaway in takeaways {
            let Some(text) = &takeaway.recommendation else { continue };
            let gain = self.vanishing(takeaway).zip(self.window).and_then(|(vanishing, window)| {
                let (factor, is_floor) = factor(vanishing.ns, window.window_ns as f64, floor)?;
                Some((factor, is_floor, vanishing))
            });
            let part = |factor: f64| 1.0 - 1.0 / factor;
            let at_most = |vanishing: &Vanishing| {
                let window_ns = self.window?.window_ns as f64;
                Some(part(factor(vanishing.at_most_ns?, window_ns, floor)?.0))
            };
            let error =
                |vanishing: &Vanishing| Some(vanishing.error_ns? / self.window?.window_ns as f64);
            let told = gain.as_ref().map(|(factor, _, of)| (part(*factor), error(of)));
            best.all.extend(told.map(|told| (takeaway.id.clone(), told)));
            let saved = gain.as_ref().map(|(factor, _, of)| at_most(of).unwrap_or(part(*factor)));
            // Of several that gain as much the first, and any rather than none.
            if best.step.is_some() && saved.unwrap_or(0.0) <= best.saved.unwrap_or(0.0) {
                continue;
            }
            let (stage, rule, text) = (takeaway.stage.clone(), takeaway.rule, text.clone());
            let id = Some(takeaway.id.clone());
            let mut step = FirstStep { stage, rule, takeaway: id, text, ..FirstStep::default() };
            if let Some((factor, is_floor, vanishing)) = gain {
                let error_percent = error(&vanishing).map(|error| error * 100.0);
                let Vanishing { condition, detail, removes, left, .. } = vanishing;
                // Who measures has gained nothing yet: the order by time stays.
                let measures = matches!(takeaway.experiment, Some(Experiment::Measure { .. }));
                let (factor, is_floor) =
                    (Some(factor).filter(|_| !measures), is_floor && !measures);
                step = FirstStep {
                    condition,
                    detail,
                    removes,
                    left,
                    error_percent,
                    factor,
                    is_floor,
                    ..step
                };
            }
            (best.step, best.saved) = (Some(step), saved);
        }
        best
    }

    fn part_ns(&self, kinds: &[WindowKind]) -> Option<f64> {
        let of_kind = self.window?.parts.iter().filter(|part| kinds.contains(&part.kind));
        Some(of_kind.map(|part| part.ns as f64).sum())
    }

    /// All of these parts.
    fn parts(&self, kinds: &[WindowKind], condition: &str) -> Option<Vanishing> {
        let parts = self.window?.parts.iter().filter(|part| kinds.contains(&part.kind));
        // What would read 0.0 % explains nothing.
        let removes = parts.filter_map(|part| self.removal(part.kind.label(), part.ns as f64));
        let removes = removes.filter(|part| part.percent >= 0.05).collect();
        let (ns, condition) = (self.part_ns(kinds)?, condition.to_owned());
        Some(Vanishing { ns, condition, removes, ..Vanishing::default() })
    }

    /// A part of a part.
    fn removal(&self, what: &str, ns: f64) -> Option<Removed> {
        let percent = ns * 100.0 / self.window?.window_ns as f64;
        Some(Removed { what: what.to_owned(), percent })
    }

    /// Time of a part of the kernel time, which is no longer than what the kernels took.
    fn of_kernels_ns(&self, percent: f64) -> Option<f64> {
        use WindowKind::{Busy, Communication, Compute, Transfer, Waiting};
        let compute_ns = self.part_ns(&[Compute, Busy])?;
        // Copies are none of the kernel time.
        let kernels_ns = self.part_ns(&[Compute, Busy, Communication, Transfer, Waiting])?;
        Some((kernels_ns * percent.clamp(0.0, 100.0) / 100.0).min(compute_ns))
    }

    /// What vanishes if the kernels of these classes do: their time, and one launch gap for each of them.
    fn without_classes(&self, classes: &[KernelClass], what: &str) -> Option<Vanishing> {
        let measured = self.measured?;
        let share = |all: &[(KernelClass, f64)]| -> f64 {
            let of = all.iter().filter(|(class, _)| classes.contains(class));
            of.map(|(_, percent)| percent).filter(|percent| percent.is_finite()).sum()
        };
        let kernels_ns = self.of_kernels_ns(share(&measured.classes))?;
        let of_calls = share(&measured.class_calls).clamp(0.0, 100.0) / 100.0;
        let gaps_ns = self.part_ns(&[WindowKind::LaunchGaps])? * of_calls;
        let parts =
            [self.removal(what, kernels_ns)?, self.removal("launch gaps around them", gaps_ns)?];
        Some(Vanishing {
            ns: kernels_ns + gaps_ns,
            condition: format!("{what} are removed"),
            removes: parts.into_iter().filter(|part| part.percent >= 0.05).collect(),
            ..Vanishing::default()
        })
    }

    /// What following the advice of `takeaway` does away with at best.
    fn vanishing(&self, takeaway: &Takeaway) -> Option<Vanishing> {
        let measured = self.measured.filter(|measured| measured.caveat.is_none())?;
        match takeaway.rule {
            _ if takeaway.experiment == Some(Experiment::more("tokens_per_s")) => {
                self.with_more_requests(measured, takeaway)
            }
            Rule::LaunchBound | Rule::HostAhead | Rule::HostGaps => {
                self.without_idle(measured, takeaway)
            }
            Rule::HostCause | Rule::HostFault => self.without_cause(measured, takeaway),
            Rule::Waiting => self.without_waiting(),
            Rule::Communication => {
                self.parts(&[WindowKind::Transfer], "exposed communication is removed")
            }
            Rule::ExposedCopies => self.parts(&[WindowKind::Copies], "exposed copies are removed"),
            Rule::Fusible => self.without_classes(&FUSIBLE, "kernels that could be fused"),
            Rule::Copies => self.without_classes(&[KernelClass::Copy], "copy kernels"),
            Rule::FarFromRoof | Rule::LowOccupancy => self.at_its_roof(measured, takeaway),
            _ => None,
        }
    }

    /// A graph closes long gaps as well, where the host is why they are there: what launches less often waits less often for
    /// it. Whether it closes others is not known, and those behind launched work or of a simulation it leaves.
    fn without_idle(&self, measured: &StageMeasurements, takeaway: &Takeaway) -> Option<Vanishing> {
        use WindowKind::{LaunchGaps, OtherIdle};
        let all = self.parts(&[LaunchGaps, OtherIdle], "all GPU idle time is removed")?;
        let fewer =
            |then: &String| then.starts_with(LAUNCH_LESS_OFTEN) || takeaway.rule == Rule::HostAhead;
        let is_host = takeaway.rule != Rule::HostAhead && measured.host_explains_idle();
        if is_host || !takeaway.recommendation.as_ref().is_some_and(fewer) {
            return Some(all);
        }
        let is_ahead = takeaway.rule == Rule::HostAhead;
        let whose = match () {
            () if is_ahead => "is idle without a known cause",
            () if measured.simulated => "is lost because the CPU of this machine was too busy",
            () => OtherIdle.label(),
        };
        let left = self.removal(whose, self.part_ns(&[OtherIdle])?)?;
        let left = Some(left).filter(|left| left.percent >= LEFT_PERCENT);
        if !is_ahead && !measured.simulated {
            return Some(Vanishing { left, ..all });
        }
        let gaps = self.parts(&[LaunchGaps], "no launch gaps are left")?;
        Some(Vanishing { at_most_ns: Some(all.ns), left, ..gaps })
    }

    /// The part of the window that a request no longer needs if a step has more of them, at best: the step gets no
    /// shorter. The idle time that the advice is about decides what comes first.
    fn with_more_requests(
        &self,
        measured: &StageMeasurements,
        takeaway: &Takeaway,
    ) -> Option<Vanishing> {
        let MoreRequests { requests, aim, .. } = measured.more_requests.as_ref()?;
        let ns = self.window?.window_ns as f64 * (1.0 - requests / aim);
        let condition =
            format!("a step of {aim:.0} requests takes no longer than one of {requests:.0}");
        let of = measured.host_causes.iter().find(|cause| {
            takeaway.rule == Rule::HostCause && takeaway.subject.as_ref() == Some(&cause.name)
        });
        let idle_ns = self.part_ns(&[WindowKind::LaunchGaps, WindowKind::OtherIdle]);
        let at_most_ns = idle_ns.map(|ns| ns * of.map_or(1.0, |cause| cause.percent / 100.0));
        Some(Vanishing { ns, at_most_ns, condition, ..Vanishing::default() })
    }

    /// Waiting for ranks, and what the late rank does meanwhile: the window is a sum over ranks. Where one is late by
    /// more than noise, its delays say how much of that is idle time and how much is its own work. Else it is idle, if
    /// waiting is the largest part except for idle time.
    fn without_waiting(&self) -> Option<Vanishing> {
        let window = self.window?;
        let waiting_ns = self.part_ns(&[WindowKind::Waiting])?;
        let not_idle = window.parts.iter().filter(|part| part.kind != WindowKind::OtherIdle);
        let most_ns = not_idle.map(|part| part.ns as f64).fold(0.0, f64::max);
        let longest = self.collectives.iter().max_by_key(|row| row.waiting_ns);
        let members = longest.map_or(0, |row| row.members);
        let mut vanishing = self.parts(&[WindowKind::Waiting], "no rank waits for others")?;
        vanishing.detail = self.late.iter().find_map(|late| late.delay_sentence());
        let delays = self.late.iter().find_map(|late| late.delays.as_ref());
        let (mut idle_ns, mut work_ns) = delays.map_or((0.0, 0.0), |delays| {
            (delays.total_ns.saturating_sub(delays.work_ns) as f64, delays.work_ns as f64)
        });
        if waiting_ns >= most_ns && members > 1 {
            idle_ns = idle_ns.max(waiting_ns / (members - 1) as f64 - work_ns);
        }
        idle_ns = idle_ns.min(self.part_ns(&[WindowKind::OtherIdle])?);
        work_ns = work_ns.min(self.part_ns(&[WindowKind::Compute, WindowKind::Busy])?);
        for (what, ns) in [
            ("idle time of the late rank meanwhile", idle_ns),
            ("longer work of the late rank", work_ns),
        ] {
            vanishing.ns += ns;
            vanishing.removes.extend(self.removal(what, ns).filter(|part| part.percent >= 0.05));
        }
        Some(match self.as_fast_as_others() {
            Some((estimate, late)) => Vanishing {
                at_most_ns: Some(vanishing.ns),
                detail: late.delay_sentence(),
                ..estimate
            },
            None => vanishing,
        })
    }

    /// Where samples show what the host of the late rank does for longer than the others: without that, each step of
    /// all ranks is shorter by as much. The window is a sum over ranks.
    fn as_fast_as_others(&self) -> Option<(Vanishing, &LateRow)> {
        let late = self.late.iter().find(|late| late.delays.is_some())?;
        let (longer_ns, error_ns) = late.host.as_ref()?.longer_than_others()?;
        let steps = late.delays.as_ref()?.steps.as_ref()?;
        let late_steps = self.window?.steps? * steps.late as f64 / steps.of.max(1) as f64;
        let ns = longer_ns * late_steps;
        let condition = format!("the host of {} takes no longer than the others", late.who);
        let removes = vec![self.removal("its additional host time", ns)?];
        let error_ns = Some(error_ns * late_steps);
        Some((Vanishing { ns, error_ns, condition, removes, ..Vanishing::default() }, late))
    }

    /// The part of the idle time that samples of the host attribute to one cause.
    fn without_cause(
        &self,
        measured: &StageMeasurements,
        takeaway: &Takeaway,
    ) -> Option<Vanishing> {
        let is_it = |cause: &&HostEvidence| {
            takeaway.subject.as_ref() == Some(&cause.name)
                && (takeaway.rule == Rule::HostFault) == cause.is_fault
        };
        // How much of it following the advice saves is not known of code of an engine.
        let cause = measured.host_causes.iter().find(is_it).filter(|cause| cause.is_own)?;
        let idle_ns = self.part_ns(&[WindowKind::LaunchGaps, WindowKind::OtherIdle])?;
        let own_ns = idle_ns * cause.percent.clamp(0.0, 100.0) / 100.0;
        let mut removes = vec![self.removal("GPU idle time", own_ns)?];
        let window_ns = self.window.map_or(0, |window| window.window_ns) as f64;
        let beside_ns = window_ns * cause.beside_work_percent.clamp(0.0, 100.0) / 100.0;
        // The GPU is the limit when nothing is idle any more.
        let beside_ns = beside_ns.min(idle_ns - own_ns);
        let beside = "time during GPU work, which delays the next step as well,";
        let beside = self.removal(beside, beside_ns);
        removes.extend(beside.filter(|part| part.percent >= 0.05));
        let condition = match removes.len() {
            1 => format!("no idle time goes into {}", cause.name),
            _ => format!("no time goes into {}", cause.name),
        };
        let ns = own_ns + if removes.len() > 1 { beside_ns } else { 0.0 };
        let errors = [(idle_ns, cause.error_percent), (window_ns, cause.beside_work_error_percent)];
        let errors = errors.map(|(ns, percent)| ns * percent / 100.0);
        let error_ns = if removes.len() > 1 { errors[0].hypot(errors[1]) } else { errors[0] };
        // Calls say themselves how long they took.
        let error_ns = Some(error_ns).filter(|error| *error > 0.0);
        Some(Vanishing { ns, error_ns, condition, removes, ..Vanishing::default() })
    }

    /// What a kernel would take less at its roof.
    fn at_its_roof(&self, measured: &StageMeasurements, takeaway: &Takeaway) -> Option<Vanishing> {
        let is_it =
            |kernel: &&KernelMeasurements| Some(&kernel.kernel) == takeaway.subject.as_ref();
        let kernel = measured.top_kernels.iter().find(is_it)?;
        let share = kernel.attainable_share.filter(|share| (0.0..=RATE_SHARE_MOST).contains(share));
        let ns = self.of_kernels_ns(kernel.percent)? * (1.0 - share?.min(1.0));
        let name = shorten_kernel(&kernel.kernel, NAME_LIMIT);
        let removes = self.removal("its time beyond that", ns)?;
        let condition = format!("{name} reaches its roof");
        Some(Vanishing { ns, condition, removes: vec![removes], ..Vanishing::default() })
    }
}

/// How not to lose records.
const LOSE_FEWER: &str = "Run again with a larger STAGE2_BUFFERS, such as 1G, or record less with \
                          STAGE2_RANGES or STAGE2_SAMPLE: with so many records missing, the times support no other advice.";

/// What to do first over all stages: where the most time is saved, else what the takeaways put first.
fn first_step_of_run(report: &Report, stages: &[AnsweredStage<'_>]) -> Option<FirstStep> {
    if report.coverage.verdict.status == Status::Empty {
        let text = report.coverage.empty.as_ref()?.first.remedy.clone();
        let (rule, takeaway) = (Rule::Incomplete, Some(Rule::Incomplete.label().to_owned()));
        return Some(FirstStep { rule, takeaway, text, ..FirstStep::default() });
    }
    // What follows from the times would be wrong: kernels that are missing look like idle time.
    if report.coverage.dropped_percent() >= TOO_MANY_MISSING_PERCENT {
        let (rule, takeaway) = (Rule::Incomplete, Some(Rule::Incomplete.label().to_owned()));
        return Some(FirstStep { rule, takeaway, text: LOSE_FEWER.into(), ..FirstStep::default() });
    }
    let saving = stages.iter().filter(|told| told.saved_ns.is_some());
    let most = saving.reduce(|most, told| if told.saved_ns > most.saved_ns { told } else { most });
    let saved_ns = most.and_then(|most| most.saved_ns).unwrap_or_default();
    if let Some(without) = without_warm_up(report, stages, saved_ns) {
        return Some(without);
    }
    if let Some(most) = most {
        return most.answer.first.clone();
    }
    let advised = report.insight.takeaways.iter().filter(|takeaway| !takeaway.rule.is_caveat());
    let advised = advised.chain(report.insight.takeaways.iter());
    let (takeaway, text) =
        advised.filter_map(|of| Some((of, of.recommendation.clone()?))).next()?;
    let (stage, rule, id) = (takeaway.stage.clone(), takeaway.rule, takeaway.id.clone());
    Some(FirstStep { stage, rule, takeaway: Some(id), text, ..FirstStep::default() })
}

/// To record the stage without its warm-up that takes most time, where all else saves but a small part of that.
fn without_warm_up(
    report: &Report,
    stages: &[AnsweredStage<'_>],
    saved_ns: f64,
) -> Option<FirstStep> {
    let warm_ups = report.insight.takeaways.iter().filter(|told| told.rule == Rule::WarmUp);
    let timed = warm_ups.filter_map(|takeaway| {
        let is_its = |told: &&AnsweredStage<'_>| Some(&told.row.stage) == takeaway.stage.as_ref();
        Some((usual_window_ns(report, stages.iter().find(is_its)?.row)?, takeaway))
    });
    let (ns, takeaway) = timed.max_by_key(|(ns, _)| *ns)?;
    (saved_ns < ns as f64 * FIRST_SAVES_PART).then(|| FirstStep {
        stage: takeaway.stage.clone(),
        rule: takeaway.rule,
        takeaway: Some(takeaway.id.clone()),
        text: takeaway.recommendation.clone().unwrap_or_default(),
        ..FirstStep::default()
    })
}

#[cfg(test)]
pub(crate) mod tests;
