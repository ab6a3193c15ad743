//! A report -> what the takeaways are drawn from, stage by stage.

use std::collections::{BTreeMap, HashMap};

use super::communication;
use crate::conclusions::caveat::caveat;
use crate::conclusions::sample_basis::{is_in_part, is_warm, sample_basis, usual_window_ns};
use crate::conclusions::warm_up::WarmUp;
use crate::conclusions::{ByStage, by_stage, of_stage};
use crate::host::advice::{self, MORE_REQUESTS};
use crate::host::overloaded;
use crate::join::kernels::percent;
use crate::roofline::takeaways::{
    HostEvidence, HostLead, KernelMeasurements, MoreRequests, RankWaiting, RunMeasurements,
    StageMeasurements,
};
use stage2_contract::order::Order as _;
use stage2_contract::text::capitalised;
use stage2_contract::text::numbers::percent1;
use stage2_model::kernels::{Counted, attained};
use stage2_model::rule::{HOST_FAULT_PERCENT, HOST_MAIN_PERCENT, HOST_OWN_PERCENT};
use stage2_model::{
    CollectiveRow, EndedBy, EngineSteps, Evidence, Figure, HostAdviceKind, HostCause,
    HostCauseKind, HostOtherWork, HostStage, KernelRow, LateCause, LateRow, ModelUse, Origin,
    PathKind, RankStageRow, Report, Role, StageKernelRow, StageRow, StageUtilisation, Status,
    TokensCounted, late_in_turn, waits_for_gpu,
};
use stage2_read::kernel_class::KernelClass;
use stage2_read::trace::stats::mean;

/// Kernels of a stage that rules look at.
const TOP_KERNELS: usize = 5;
/// Work outside of ranges (loading a model, say) is looked at where it takes at least this part of
/// the kernel time, percent.
const OUTSIDE_PERCENT: f64 = 10.0;

/// What is known.
pub(super) fn measurements(report: &Report, used: &ModelUse) -> RunMeasurements {
    let verdict = &report.coverage.verdict;
    let classes = classes(report);
    let all_ns =
        report.kernels.iter().fold(0, |ns: u64, row| ns.saturating_add(row.times.total_ns));
    let is_large = |row: &StageRow| {
        row.kernel_sum_ns.is_none_or(|ns| ns as f64 * 100.0 >= OUTSIDE_PERCENT * all_ns as f64)
    };
    let looked_at = |row: &&StageRow| match row.kind {
        _ if row.apart.is_some() => false,
        PathKind::Range | PathKind::WholeProcess => true,
        PathKind::OutsideRanges => is_large(row),
        // Tables of nsys and ncu mostly do not know the ranges.
        PathKind::Unattributed if report.source != Origin::Collector.label() => is_large(row),
        _ => false,
    };
    let rows = Rows::of(report, used, &classes);
    let stages = report.stages.iter().filter(looked_at);
    // The details stand on the first screen already.
    let summary = verdict.text.split(": ").next().filter(|_| verdict.status != Status::Complete);
    let end = report.run.workload_end.as_ref().filter(|end| end.how == EndedBy::Failure);
    RunMeasurements {
        simulated: report.simulated,
        replayed: report.source == Origin::Ncu.label(),
        missing: summary.map(str::to_owned),
        failed: end.and_then(|end| Some(end.exit?.describe())),
        status: verdict.status.label(),
        stages: stages.map(|row| stage(report, &rows, row)).collect(),
    }
}

/// Classes of the kernels by name, from the rows: to tell one again takes longer than all else here.
fn classes(report: &Report) -> Vec<KernelClass> {
    let mut classes = vec![KernelClass::Other; report.kernel_names.len()];
    for row in &report.kernels {
        if let (Some(class), Ok(told)) = (classes.get_mut(row.name_index), row.class.parse()) {
            *class = told;
        }
    }
    classes
}

/// How long a stage left the GPU idle, and what for: over the warm instances where they are known,
/// because a cold one can be most of all windows.
fn idle(report: &Report, row: &StageRow, other: Option<HostOtherWork>) -> StageMeasurements {
    let over = sample_basis(report, row);
    let idle_ns = over.window_ns.zip(over.busy_ns).map(|(all, busy)| all.saturating_sub(busy));
    let of_row = row.gpu_busy_percent.map(|busy| (100.0 - busy).max(0.0));
    // As in the answer, without the time in which the GPU works for other stages.
    let parts = idle_ns.map(|all| {
        let gaps = over.short_gaps_ns.unwrap_or(0).min(all);
        HostOtherWork::split(other, gaps, all - gaps)
    });
    let idle_ns = parts.map(|[gaps, longer, _]| gaps + longer);
    let of_window = || percent(idle_ns?, over.window_ns?);
    let short_gaps = over.short_gaps_ns.and(parts).map(|[gaps, ..]| gaps).zip(idle_ns);
    let interval = over.window_ns.zip(over.kernels.filter(|kernels| *kernels > 0));
    // Durations are known of all instances only, and in a cold one a kernel can wait for seconds.
    let working_ns = over.busy_ns.map(|busy_ns| match over.busy_parts {
        Some(parts) => busy_ns.saturating_sub(parts.copies_ns),
        None => busy_ns,
    });
    let each = working_ns.zip(over.kernels.filter(|kernels| *kernels > 0));
    let each = each.filter(|_| is_warm(report, row));
    let copies_ns = over.busy_parts.filter(|_| row.gpu_idle_ns.is_some()).map(|of| of.copies_ns);
    StageMeasurements {
        noun: report.noun_of(&row.stage),
        warm_instances: is_warm(report, row).then_some(over.instances),
        recorded_instances: (is_in_part(report, row) && over.window_ns.is_some())
            .then_some(over.instances),
        scaled: report.is_sampled(),
        // Absent where the row does not know it: another process may have used the GPU.
        idle_percent: of_row.map(|of_row| of_window().unwrap_or(of_row)),
        other_work_percent: parts
            .zip(over.window_ns)
            .and_then(|([.., other], window_ns)| percent(other, window_ns)),
        short_gaps_percent: short_gaps.and_then(|(short, idle)| percent(short, idle)),
        interval_us: interval.map(|(window_ns, kernels)| window_ns as f64 / 1e3 / kernels as f64),
        kernel_mean_us: each.map(|(ns, kernels)| ns as f64 / 1e3 / kernels as f64),
        kernels: over.kernels.or(row.kernels),
        exposed_copies_percent: copies_ns.zip(over.window_ns).and_then(|(ns, of)| percent(ns, of)),
        ..StageMeasurements::default()
    }
}

/// Where the host was at the gaps of the median step.
fn host(report: &Report, row: &StageRow) -> Option<HostLead> {
    let timeline = report.step_timelines.iter().find(|found| found.stage == row.stage)?;
    let gaps = timeline.host_at_gaps.filter(|gaps| gaps.all_ns > 0)?;
    Some(HostLead {
        ahead_percent: percent(gaps.ahead_ns, gaps.all_ns)?,
        behind_percent: percent(gaps.behind_ns, gaps.all_ns)?,
    })
}

/// How long the host waited for work that it had launched, with the longest such wait.
fn host_waits(at: usize, found: &HostStage) -> Option<(f64, Evidence)> {
    let (percent, longest) = waits_for_gpu(&found.causes)?;
    let row = found.causes.iter().position(|cause| std::ptr::eq(cause, longest))?;
    let source = format!("/host/stages/{at}/causes/{row}/percent");
    let longest = Evidence::number("cause_percent", longest.percent, "percent", source);
    Some((percent, longest))
}

/// Causes of idle time that are worth a statement.
const HOST_CAUSES: usize = 3;

/// What samples of the host say of the idle time of a stage: its largest causes and known faults.
/// `at`: its place among the stages with samples.
fn host_causes(at: usize, found: &HostStage, simulated: bool) -> Vec<HostEvidence> {
    // Of the same samples, a known fault says more than the state of the thread.
    let is_fault = |cause: &HostCause| {
        found.advice.iter().any(|fault| match (cause.kind, fault.kind) {
            (HostCauseKind::NotScheduled, HostAdviceKind::Starved)
            | (HostCauseKind::Gil, HostAdviceKind::Gil) => true,
            (HostCauseKind::CudaCall, HostAdviceKind::Allocation) => {
                (cause.percent - fault.percent).abs() < 0.05
            }
            _ => false,
        })
    };
    let findings = found.causes.iter().enumerate().filter(|(_, cause)| cause.is_finding());
    let findings = findings.filter(|(_, cause)| !is_fault(cause));
    // Nobody is to look into the simulator.
    let findings = findings.filter(|(_, cause)| !(simulated && cause.kind.is_of_simulator()));
    let causes = findings.take(HOST_CAUSES).map(|(row, cause)| {
        let name = cause.text(true);
        let share = format!("{} ± {} %", percent1(cause.percent), percent1(cause.error_percent));
        let never_waits = found.never_waits();
        let beside = if never_waits { cause.beside_work_percent } else { 0.0 };
        let also = match beside >= 0.05 {
            true => format!(
                "; while the GPU works, it takes another {} % of the window",
                percent1(beside)
            ),
            false => String::new(),
        };
        let text = format!("{share} of the idle time: {name} (of {} samples){also}", found.samples);
        let is_users = cause.kind == HostCauseKind::UserCode;
        let main_from_percent = if is_users { HOST_OWN_PERCENT } else { HOST_MAIN_PERCENT };
        let is_own = !cause.kind.is_code() || is_users || cause.percent >= main_from_percent;
        let then = advice::remedy(cause, &name, never_waits, is_own);
        HostEvidence {
            is_fault: false,
            percent: cause.percent,
            main_from_percent,
            beside_work_percent: beside,
            beside_work_error_percent: cause.beside_work_error_percent,
            is_own,
            name,
            key: cause.without_line(),
            error_percent: cause.error_percent,
            source: format!("/host/stages/{at}/causes/{row}"),
            text,
            then,
        }
    });
    let faults = found.advice.iter().enumerate();
    let faults = faults.filter(|(_, fault)| !(simulated && fault.kind == HostAdviceKind::Starved));
    let faults = faults.map(|(row, fault)| {
        let most = fault.frame.as_ref().map(|frame| format!(" Most of it: {}.", frame.short()));
        HostEvidence {
            is_fault: true,
            percent: fault.percent,
            main_from_percent: HOST_FAULT_PERCENT,
            beside_work_percent: 0.0,
            beside_work_error_percent: 0.0,
            is_own: true,
            name: fault.kind.what().to_owned(),
            key: fault.kind.what().to_owned(),
            error_percent: fault.error_percent,
            source: format!("/host/stages/{at}/advice/{row}"),
            text: fault.text.clone(),
            then: format!("{}{}", fault.remedy, most.unwrap_or_default()),
        }
    });
    causes.chain(faults).collect()
}

/// The line in which most of the time of launch gaps was.
fn launching(found: &HostStage) -> Option<String> {
    let lines = found.causes.iter().filter(|cause| cause.kind.is_code());
    let most = lines.max_by(|a, b| a.launch_gaps_percent.total_cmp(&b.launch_gaps_percent))?;
    (most.launch_gaps_percent > most.error_percent).then(|| most.text(true))
}

/// Rows by stage: of stages there may be as many as rows.
struct Rows<'r> {
    used: &'r ModelUse,
    /// Classes of the kernels, by name.
    classes: &'r [KernelClass],
    counted: Counted<'r, (&'r str, usize)>,
    kernels: ByStage<'r, KernelRow>,
    longest: ByStage<'r, StageKernelRow>,
    collectives: ByStage<'r, CollectiveRow>,
    /// The first rank that is late by more than noise, with its place among all.
    late: HashMap<&'r str, (usize, &'r LateRow)>,
    numbers: HashMap<&'r str, &'r StageUtilisation>,
    /// With their places among all.
    host: HashMap<&'r str, (usize, &'r HostStage)>,
}

impl<'r> Rows<'r> {
    fn of(report: &'r Report, used: &'r ModelUse, classes: &'r [KernelClass]) -> Self {
        Rows {
            used,
            classes,
            counted: Counted::new(report, |row| (row.stage.as_str(), row.name_index)),
            kernels: by_stage(&report.kernels, |row| &row.stage),
            longest: by_stage(&report.stage_kernels, |row| &row.stage),
            collectives: by_stage(&report.ranks.collectives, |row| &row.stage),
            late: (report.ranks.late.iter().enumerate().rev())
                .filter(|(_, row)| row.delays.is_some())
                .map(|(at, row)| (row.stage.as_str(), (at, row)))
                .collect(),
            host: (report.host.iter().flat_map(|host| &host.stages).enumerate())
                .map(|(at, found)| (found.stage.as_str(), (at, found)))
                .collect(),
            numbers: used.numbers.stages.iter().rev().map(|row| (&*row.stage, row)).collect(),
        }
    }

    fn class(&self, name_index: usize) -> KernelClass {
        self.classes.get(name_index).copied().unwrap_or(KernelClass::Other)
    }
}

/// Waiting for other ranks in a stage; none where no collective of it was split.
fn waiting(report: &Report, rows: &Rows<'_>, row: &StageRow, all_ns: u64) -> Option<RankWaiting> {
    let collectives = || of_stage(&rows.collectives, &row.stage).iter().copied();
    // `all_ns` holds the time of outliers that are not left out.
    let left_out = row.outliers.as_ref().is_none_or(|outliers| outliers.left_out);
    let ordinary = |found: &CollectiveRow| {
        let outliers_ns = if left_out { found.outlier_waiting_ns } else { 0 };
        Some(found.waiting_ns?.saturating_sub(outliers_ns))
    };
    let waiting_ns = collectives().filter_map(ordinary).reduce(u64::saturating_add);
    let unmatched =
        collectives().flat_map(|found| &found.unmatched).max_by_key(|found| found.calls);
    let unmatched = unmatched.map(|found| (found.why.clone(), found.remedy.clone()));
    // None where all members were recorded, and the operation does not wait for them.
    let is_whole = report.ranks.seen > 1 && report.ranks.expected == Some(report.ranks.seen);
    let unmatched = unmatched.or_else(|| {
        let is_split = collectives().all(|found| found.waiting_ns.is_some());
        (is_whole && !is_split && collectives().next().is_some()).then(|| {
            let why = "operations that need not wait for all members are not split".to_owned();
            (why, "Section Collectives lists them, with the bytes that they move.".to_owned())
        })
    });
    let waiting_ns = waiting_ns.or(unmatched.as_ref().map(|_| 0))?;
    let late = rows.late.get(row.stage.as_str());
    let of_busy = waiting_of_busy(report, rows, row);
    (all_ns > 0).then(|| RankWaiting {
        unmatched,
        percent: of_busy.map_or(waiting_ns as f64 * 100.0 / all_ns as f64, |(waiting, _)| waiting),
        transfer_percent: of_busy.map(|(_, transfer)| transfer),
        whole: report.ranks.kernels_left_out == 0
            && collectives().all(|found| found.unmatched.is_empty() && found.waiting_ns.is_some()),
        late: match late {
            Some((_, late)) => late.cause_sentence(),
            None => late_in_turn(&report.ranks.late, &row.stage),
        },
        late_remedy: late.and_then(|(_, late)| late_remedy(late)),
        delayed_percent: delayed_percent(report, &row.stage),
        late_evidence: late.map(|&(at, late)| late_evidence(at, late)).unwrap_or_default(),
    })
}

/// Waiting and transfer in the GPU busy time of a stage, percent, as its window shows them: in a cold instance ranks
/// can wait for seconds. Nothing where the window does not split them.
fn waiting_of_busy(report: &Report, rows: &Rows<'_>, row: &StageRow) -> Option<(f64, f64)> {
    let over = sample_basis(report, row);
    let (busy_ns, parts) = over.busy_ns.zip(over.busy_parts)?;
    let collectives = of_stage(&rows.collectives, &row.stage);
    let (waiting_ns, transfer_ns) = communication(report, collectives, is_warm(report, row))?;
    let exposed = percent(parts.communication_ns, busy_ns)?;
    let waiting = exposed * waiting_ns as f64 / (waiting_ns as f64 + transfer_ns as f64);
    Some((waiting, exposed - waiting))
}

/// What to do about a late rank, by the cause that was found.
fn late_remedy(late: &LateRow) -> Option<String> {
    let who = &late.who;
    let host = match (late.advice(who, true), &late.host) {
        (Some(code), Some(host)) => {
            let few = host.finding().filter(|row| !row.is_sure());
            let few = few.map_or_else(String::new, |row| format!(" {}.", host.few_samples(row)));
            format!("{}.{few}", capitalised(&code))
        }
        // Compared, and nothing was found.
        (None, Some(host)) => format!(
            "{}, to see why the host of {who} takes longer than the others.",
            host.more_samples().replacen('r', "R", 1)
        ),
        (_, None) => format!("Find out what the host of {who} does before it communicates."),
    };
    let gpu = format!("Divide the work evenly: the GPU of {who} has more of it than the others.");
    Some(match late.delays.as_ref()?.cause() {
        LateCause::Host => host,
        LateCause::Gpu => gpu,
        LateCause::Both => format!("{gpu} {host}"),
    })
}

/// The numbers of a sentence about a late rank.
fn late_evidence(at: usize, late: &LateRow) -> Vec<Evidence> {
    let Some(delays) = &late.delays else { return Vec::new() };
    let number = |name: &str, value: f64, unit: &str, field: &str| {
        Evidence::number(name, value, unit, format!("/ranks/late/{at}/{field}"))
    };
    let host = late.host.as_ref().and_then(|host| {
        let row = host.finding()?;
        let at = host.rows.iter().position(|of| std::ptr::eq(of, row))?;
        let (late_ns, error_ns) = (row.late_ns as f64, row.error_ns as f64);
        let late = number("late_host_ns", late_ns, "ns", &format!("host/rows/{at}/late_ns"));
        // The function is named from there on.
        Some(late.error(error_ns).against(row.other_ns as f64 + error_ns * host.errors_least()))
    });
    let evidence = [
        number("late_mean_ns", delays.mean_ns as f64, "ns", "delays/mean_ns"),
        number("late_collectives", delays.collectives as f64, "count", "delays/collectives"),
        number("collectives", late.collectives as f64, "count", "collectives"),
        number("late_waiting_percent", delays.waiting_percent, "percent", "delays/waiting_percent"),
        number("late_work_ns", delays.work_ns as f64, "ns", "delays/work_ns"),
    ];
    evidence.into_iter().chain(host).collect()
}

/// How much of its window the latest rank of a stage delayed the others by, percent: each step is longer by that,
/// however many ranks share the waiting.
fn delayed_percent(report: &Report, stage: &str) -> f64 {
    let late = report.ranks.late.iter().filter(|late| late.stage == stage);
    let percents = late.filter_map(|late| {
        let delays = late.delays.as_ref()?;
        let is_it = |row: &&RankStageRow| row.stage == stage && row.file == late.file;
        let rank = report.ranks.stages.iter().find(is_it)?;
        let window_ns = rank.gpu_busy_ns?.saturating_add(rank.gpu_idle_ns?);
        (window_ns > 0).then(|| delays.total_ns as f64 * 100.0 / window_ns as f64)
    });
    percents.fold(0.0, f64::max)
}

fn stage(report: &Report, rows: &Rows<'_>, row: &StageRow) -> StageMeasurements {
    let (mut launched, mut graph_calls) = (0u64, 0u64);
    // Without the cold instances that shares leave out, and the time of these.
    let (mut calls, mut all_ns, mut cold_ns) = (0u64, 0u64, 0u64);
    // Time and calls.
    let mut by_class: BTreeMap<KernelClass, (u64, u64)> = BTreeMap::new();
    let outliers = row.outliers.iter().filter(|outliers| outliers.left_out);
    let outliers: HashMap<usize, (u64, u64)> = outliers
        .flat_map(|outliers| &outliers.kernels)
        .map(|&(name, calls, ns)| (name, (calls, ns)))
        .collect();
    for kernel in of_stage(&rows.kernels, &row.stage) {
        let times = &kernel.times;
        (launched, graph_calls) =
            (launched.saturating_add(times.calls), graph_calls.saturating_add(times.graph_calls));
        calls = calls.saturating_add(times.usual_calls());
        all_ns = all_ns.saturating_add(times.usual_ns());
        cold_ns = cold_ns.saturating_add(times.cold_total_ns);
        let (ns, of_class) = by_class.entry(rows.class(kernel.name_index)).or_default();
        *ns = ns.saturating_add(times.usual_ns());
        *of_class = of_class.saturating_add(times.usual_calls());
    }
    // Of the kernels in outliers and in cold instances it is not known which were launched by graphs.
    let graph_percent = percent(graph_calls, launched);
    let (mut timed, mut timed_ns) = (row.kernels.unwrap_or(0), row.kernel_sum_ns.unwrap_or(0));
    for (&name, &(out_calls, ns)) in &outliers {
        (calls, all_ns) = (calls.saturating_sub(out_calls), all_ns.saturating_sub(ns));
        let of_class = by_class.entry(rows.class(name)).or_default();
        *of_class = (of_class.0.saturating_sub(ns), of_class.1.saturating_sub(out_calls));
        (timed, timed_ns) = (timed.saturating_sub(out_calls), timed_ns.saturating_sub(ns));
    }
    let over_all = if outliers.is_empty() { row.kernel_mean_ns } else { mean(timed_ns, timed) };
    let sampled = rows.host.get(row.stage.as_str());
    let idle = idle(report, row, sampled.and_then(|(_, found)| found.other_work));
    let top = of_stage(&rows.longest, &row.stage).iter();
    let mut top: Vec<KernelMeasurements> =
        top.filter_map(|kernel| top_kernel(rows, kernel, &outliers, all_ns)).collect();
    top.order_by(|a, b| b.percent.total_cmp(&a.percent));
    top.truncate(TOP_KERNELS);
    let stage_name = row.stage.as_str();
    let numbers = rows.numbers.get(stage_name);
    let figure = |pick: fn(&StageUtilisation) -> &Figure| pick(numbers?).value();
    // As on the first line: a rate of the ranges alone leaves out what the engine does between them.
    let engine = report.engine.as_ref().and_then(|run| run.timed(stage_name));
    let of_engine = engine.and_then(|kind| kind.tokens_per_s);
    let tokens_counted = TokensCounted::of(engine, row.role);
    StageMeasurements {
        stage: row.stage.clone(),
        decode: row.role == Role::Decode,
        caveat: caveat(report, row),
        warm_up: WarmUp::of(report, &row.stage),
        window_ns: usual_window_ns(report, row),
        no_gpu_work: row.has_no_gpu_work(),
        kernel_mean_us: idle.kernel_mean_us.or(over_all.map(|ns| ns as f64 / 1e3)),
        graph_percent,
        kernels_per_token: figure(|s| &s.kernels_per_token),
        tokens_per_s: of_engine.or_else(|| figure(|s| &s.tokens_per_s)),
        tokens_counted,
        batch_size: rows.used.tokens.batch_size,
        mfu_wall: figure(|s| &s.mfu_wall),
        mfu_busy: figure(|s| &s.mfu_busy),
        mbu_wall: figure(|s| &s.mbu_wall),
        mbu_busy: figure(|s| &s.mbu_busy),
        // All waiting is a share of all kernel time.
        waiting: waiting(report, rows, row, all_ns.saturating_add(cold_ns)),
        classes: by_class
            .iter()
            .filter_map(|(class, (ns, _))| Some((*class, percent(*ns, all_ns)?)))
            .collect(),
        class_calls: by_class
            .iter()
            .filter_map(|(class, (_, of_class))| Some((*class, percent(*of_class, calls)?)))
            .collect(),
        host: host(report, row),
        host_waits: sampled.and_then(|&(at, found)| host_waits(at, found)),
        launching: sampled.and_then(|(_, found)| launching(found)),
        host_causes: sampled
            .map(|&(at, found)| host_causes(at, found, report.simulated))
            .unwrap_or_default(),
        simulated: report.simulated,
        more_requests: engine.and_then(|kind| more_requests(report, kind)),
        host_never_waits: sampled.is_some_and(|(_, found)| found.never_waits()),
        few_host_samples: sampled
            .filter(|(_, found)| found.causes.is_empty())
            .map(|(at, _)| (*at, for_more_samples(report))),
        top_kernels: top,
        ..idle
    }
}

/// What to do where the host was sampled too rarely.
fn for_more_samples(report: &Report) -> String {
    let Some(host) = &report.host else { return String::new() };
    if !overloaded(host).is_empty() {
        return "End other programs, or give the process more processors, and record again: its launching threads \
                waited for a processor."
            .to_owned();
    }
    let more = host.more_samples().replacen('r', "R", 1);
    format!("{more}: too few host samples to tell what it does between launches.")
}

/// Steps with less than this part of the requests that an option allows are not limited by it.
const BELOW_LIMIT: f64 = 0.9;

/// What to do for more requests in the steps of `kind`: by the option that limits them, where the command has it.
fn more_requests(report: &Report, kind: &EngineSteps) -> Option<MoreRequests> {
    let option = match report.engine.as_ref()?.engine.as_deref()? {
        "vllm" => "--max-num-seqs",
        "sglang" => "--max-running-requests",
        _ => return None,
    };
    let requests = kind.prefill_requests_mean + kind.decode_requests_mean;
    let words = report.run.command.as_deref().unwrap_or_default();
    let value =
        words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(option)? {
            "" => words.get(at + 1).map(String::as_str),
            rest => rest.strip_prefix('='),
        });
    let limit: Option<f64> = value.and_then(|value| value.parse().ok());
    let room = limit.filter(|limit| requests < limit * BELOW_LIMIT);
    let then = match (room, limit) {
        (Some(room), _) => {
            format!(
                "{MORE_REQUESTS}: send more at once (a step has {requests:.1} requests, and {option} allows {room})"
            )
        }
        (None, Some(limit)) => {
            format!(
                "{MORE_REQUESTS}: raise {option} (a step has {requests:.1} of {limit} requests)"
            )
        }
        (None, None) => format!(
            "{MORE_REQUESTS}: send more at once, and raise {option} if that is the limit (a step has {requests:.1} requests)"
        ),
    };
    let aim = room.map_or(2.0 * requests, |room| room.min(2.0 * requests));
    Some(MoreRequests { then, requests, aim })
}

/// `outliers`: calls and time of each kernel in outliers that are left out. `all_ns`: of all kernels of
/// the stage, without these.
fn top_kernel(
    rows: &Rows<'_>,
    row: &StageKernelRow,
    outliers: &HashMap<usize, (u64, u64)>,
    all_ns: u64,
) -> Option<KernelMeasurements> {
    let outlier = outliers.get(&row.name_index).copied();
    let (out_calls, out_ns) = outlier.unwrap_or_default();
    let counters = rows.counted.get(&(row.stage.as_str(), row.name_index));
    let roofline = counters.map(|counters| &counters.roofline);
    // The longest launch configuration stands for the kernel, where ncu profiled none.
    let of_stage = of_stage(&rows.kernels, &row.stage).iter();
    let of_name = of_stage.filter(|kernel| kernel.name_index == row.name_index);
    let longest = of_name.clone().max_by_key(|kernel| kernel.times.total_ns);
    let sampled = longest.and_then(|kernel| kernel.sampled.as_deref());
    Some(KernelMeasurements {
        kernel: row.kernel.clone(),
        name_index: row.name_index,
        id: row.kernel_id.clone(),
        class: rows.class(row.name_index),
        percent: percent(row.times.usual_ns().saturating_sub(out_ns), all_ns)?,
        calls: row.times.usual_calls().saturating_sub(out_calls),
        bound: roofline.map_or_else(|| sampled?.bound, |roofline| roofline.bound),
        sampled: counters.is_none() && sampled.is_some(),
        one_launch: counters.is_some_and(|counters| counters.one_launch.is_some()),
        attainable_share: attained(of_name.copied()),
        achieved_occupancy_percent: counters.and_then(|known| known.achieved_occupancy_percent),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conclusions::utilisation::model_use;
    use serde_json::Value;
    use stage2_model::{
        Absent, BusyParts, Confidence, EngineRun, HostAdvice, LateDelays, LateHost, LateHostRow,
        LateSteps, Outliers, Times, TokenCounts, WarmRow,
    };

    #[test]
    fn more_requests_are_asked_for_by_the_option_that_limits_them() {
        let kind = EngineSteps { decode_requests_mean: 16.0, ..EngineSteps::default() };
        let said = |words: &[&str]| {
            let engine = EngineRun { engine: Some("vllm".into()), ..EngineRun::default() };
            let mut report = Report { engine: Some(engine), ..Report::default() };
            report.run.command = Some(words.iter().map(|&word| word.to_owned()).collect());
            let more = more_requests(&report, &kind).expect("a known engine");
            assert_eq!(more.requests, 16.0);
            (more.then, more.aim)
        };
        let sent = |limit: u32| {
            format!(
                "Batch more requests per step: send more at once (a step has 16.0 requests, and --max-num-seqs allows {limit})"
            )
        };
        assert_eq!(said(&["vllm", "--max-num-seqs", "256"]), (sent(256), 32.0));
        assert_eq!(said(&["vllm", "--max-num-seqs", "24"]), (sent(24), 24.0));
        let raised =
            "Batch more requests per step: raise --max-num-seqs (a step has 16.0 of 16 requests)";
        assert_eq!(said(&["vllm", "--max-num-seqs=16"]), (raised.to_owned(), 32.0));
        for unknown in [&["vllm"][..], &["vllm", "--max-num-seqs"], &["--max-num-seqs", "all"]] {
            assert!(said(unknown).0.contains(": send more at once, and raise"), "{unknown:?}");
        }
    }

    #[test]
    fn advice_about_a_late_rank_names_the_cause_that_was_found_and_no_other() {
        let delays = |work_ns| LateDelays { total_ns: 100, work_ns, ..LateDelays::default() };
        let late = |work_ns| LateRow {
            who: "rank 3".into(),
            delays: Some(delays(work_ns)),
            ..LateRow::default()
        };
        let said = |row: &LateRow| late_remedy(row).expect("advice");
        let host = "Find out what the host of rank 3 does before it communicates.";
        let gpu = "Divide the work evenly: the GPU of rank 3 has more of it than the others.";
        assert_eq!(said(&late(0)), host);
        assert_eq!(said(&late(100)), gpu);
        assert_eq!(said(&late(50)), format!("{gpu} {host}"));
        let sampled = |error_ns, samples| {
            let (kind, late_ns, other_ns) = (HostCauseKind::Sleep, 920_000, 20_000);
            let unknown = LateHostRow { late_ns: 950_000, ..LateHostRow::default() };
            let row = LateHostRow { kind, late_ns, other_ns, error_ns, samples, ..unknown.clone() };
            let host = LateHost { rows: vec![unknown, row], ..LateHost::default() };
            let steps = Some(LateSteps { late: 10, ..LateSteps::default() });
            let delays = LateDelays { total_ns: 22_100_000, steps, ..LateDelays::default() };
            LateRow { host: Some(host), delays: Some(delays), ..late(0) }
        };
        let found = "Look at why the host of rank 3 takes longer in its late steps: sleeping (0.90 ± 0.31 of the \
                     2.21 ms that it is late by).";
        let few = " 10 samples are few: record for longer, or with profiling.collector.host=1000.";
        assert_eq!(said(&sampled(310_000, 10)), format!("{found}{few}"));
        assert_eq!(said(&sampled(300_000, 30)), found.replace("0.31", "0.30"));
        let confidence = |late: &LateRow| Confidence::of(&late_evidence(7, late), true, true);
        let [few, enough, many] = [(310_000, 10), (200_000, 40), (120_000, 60)]
            .map(|(error_ns, samples)| confidence(&sampled(error_ns, samples)));
        assert_eq!((few, enough, many), (Confidence::Low, Confidence::Medium, Confidence::High));
        let [.., host] = &late_evidence(7, &sampled(310_000, 10))[..] else { panic!("evidence") };
        assert_eq!(host.source, "/ranks/late/7/host/rows/1/late_ns");
        assert_eq!(late_remedy(&LateRow::default()), None);
    }

    #[test]
    fn one_cause_is_told_once_and_nothing_of_the_simulator() {
        use HostCauseKind::{NativeCode, NotScheduled, UserCode};
        let cause = |kind| HostCause { kind, percent: 30.0, ..HostCause::default() };
        let kind = HostAdviceKind::Starved;
        let starved = HostAdvice { kind, percent: 30.0, ..HostAdvice::default() };
        let causes = [NotScheduled, NativeCode, UserCode].map(cause).to_vec();
        let found = HostStage { causes, advice: vec![starved], ..HostStage::default() };
        let told = |simulated| {
            let told = host_causes(0, &found, simulated).into_iter();
            told.map(|of| (of.is_fault, of.source)).collect::<Vec<_>>()
        };
        let [native, user, fault] =
            ["causes/1", "causes/2", "advice/0"].map(|at| format!("/host/stages/0/{at}"));
        assert_eq!(told(false), [(false, native), (false, user.clone()), (true, fault)]);
        assert_eq!(told(true), [(false, user)]);
    }

    #[test]
    fn the_rest_of_a_capture_is_not_called_the_whole_of_it() {
        let row = |stage: &str, kind| StageRow {
            stage: stage.to_owned(),
            kind,
            kernel_sum_ns: Some(50),
            ..StageRow::default()
        };
        let report = Report {
            source: Origin::Nsys.label().to_owned(),
            stages: vec![
                row("decode", PathKind::Range),
                row("(not known)", PathKind::Unattributed),
            ],
            ..Report::default()
        };
        let stages: Vec<String> = measured(&report).into_iter().map(|stage| stage.stage).collect();
        assert_eq!(stages, ["decode", "(not known)"]);
    }

    /// Without a model.
    fn measured(report: &Report) -> Vec<StageMeasurements> {
        let (none, tokens) = (Err(Absent::NoModel), TokenCounts::default());
        let used = model_use(report, &Value::Null, none, tokens, None, &mut Vec::new());
        measurements(report, &used).stages
    }

    #[test]
    fn shares_of_calls_are_without_those_of_outliers_as_shares_of_time_are() {
        let kernel = |name_index, calls| KernelRow {
            stage: "decode".to_owned(),
            name_index,
            times: Times { calls, total_ns: calls * 10, ..Times::default() },
            ..KernelRow::default()
        };
        let outliers =
            Outliers { left_out: true, kernels: vec![(1, 60, 600)], ..Outliers::default() };
        let mut report = Report {
            source: Origin::Collector.label().to_owned(),
            kernel_names: [&b"gemm_kernel"[..], b"rms_norm_kernel"]
                .map(stage2_contract::text::kernel_name)
                .to_vec(),
            kernels: vec![kernel(0, 30), kernel(1, 70)],
            stages: vec![StageRow {
                stage: "decode".to_owned(),
                outliers: Some(outliers),
                ..StageRow::default()
            }],
            ..Report::default()
        };
        report.ranks.collectives.push(CollectiveRow {
            stage: "decode".to_owned(),
            waiting_ns: Some(300),
            outlier_waiting_ns: 200,
            ..CollectiveRow::default()
        });
        let told = measured(&report).remove(0);
        assert_eq!(told.classes, told.class_calls, "each call takes as long");
        assert_eq!(told.class_calls.iter().map(|(_, percent)| *percent).sum::<f64>(), 100.0);
        assert_eq!(told.waiting.map(|waiting| waiting.percent), Some(25.0));
        // Of outliers that stay, the waiting in them stays, too.
        report.stages[0].outliers.as_mut().expect("some").left_out = false;
        let told = measured(&report).remove(0);
        assert_eq!(told.waiting.map(|waiting| waiting.percent), Some(30.0));
    }

    #[test]
    fn the_time_of_a_kernel_and_how_often_one_begins_are_over_the_same_warm_instances() {
        let parts = BusyParts { compute_ns: 50_000, communication_ns: 10_000, copies_ns: 4_000 };
        let warm = WarmRow {
            instances: 3,
            gpu_window_ns: 100_000,
            gpu_busy_ns: 64_000,
            gpu_busy_parts: Some(parts),
            kernels: 10,
            ..WarmRow::default()
        };
        // In the cold instance a kernel waited for a second.
        let mut report = Report {
            source: Origin::Collector.label().to_owned(),
            stages: vec![StageRow {
                stage: "decode".to_owned(),
                instances: Some(4),
                kernels: Some(12),
                kernel_mean_ns: Some(100_000_000),
                gpu_window_ns: Some(1_000_100_000),
                gpu_busy_percent: Some(99.0),
                warm: Some(warm),
                ..StageRow::default()
            }],
            ..Report::default()
        };
        let told = measured(&report).remove(0);
        assert_eq!((told.kernel_mean_us, told.interval_us), (Some(6.0), Some(10.0)));
        report.stages[0].warm = None;
        assert_eq!(measured(&report).remove(0).kernel_mean_us, Some(100_000.0));
    }

    #[test]
    fn waiting_is_the_share_that_the_window_of_warm_instances_shows() {
        let parts = BusyParts { compute_ns: 400, communication_ns: 500, copies_ns: 100 };
        let warm = WarmRow {
            instances: 3,
            gpu_window_ns: 2_000,
            gpu_busy_ns: 1_000,
            gpu_busy_parts: Some(parts),
            ..WarmRow::default()
        };
        let mut report = Report {
            source: Origin::Collector.label().to_owned(),
            kernel_names: vec![stage2_contract::text::kernel_name(b"ncclDevKernel_AllReduce")],
            kernels: vec![KernelRow {
                stage: "decode".to_owned(),
                times: Times { calls: 10, total_ns: 10_000, ..Times::default() },
                ..KernelRow::default()
            }],
            stages: vec![StageRow {
                stage: "decode".to_owned(),
                instances: Some(4),
                warm: Some(warm),
                ..StageRow::default()
            }],
            ..Report::default()
        };
        // Nearly all waiting is in the cold instance.
        report.ranks.collectives.push(CollectiveRow {
            stage: "decode".to_owned(),
            time_ns: 9_500,
            waiting_ns: Some(9_000),
            transfer_ns: Some(500),
            warm_waiting_ns: Some(150),
            warm_transfer_ns: Some(350),
            ..CollectiveRow::default()
        });
        let shares = |report: &Report| {
            let waiting = measured(report).remove(0).waiting.expect("waiting");
            (waiting.percent, waiting.transfer_percent)
        };
        assert_eq!(shares(&report), (15.0, Some(35.0)));
        report.stages[0].warm = None;
        assert_eq!(shares(&report), (90.0, None), "no window shows them");
    }

    #[test]
    fn what_runs_outside_of_ranges_is_no_ground_for_advice() {
        let row = |kind| StageRow { kind, instances: Some(9), ..StageRow::default() };
        let report = Report {
            source: Origin::Collector.label().to_owned(),
            stages: [PathKind::Range, PathKind::OutsideRanges].map(row).to_vec(),
            ..Report::default()
        };
        let caveats: Vec<_> = measured(&report).into_iter().map(|s| s.caveat).collect();
        let [None, Some(caveat)] = &caveats[..] else { panic!("{caveats:?}") };
        assert!(caveat.contains("start-up included"), "{caveat}");
    }
}
