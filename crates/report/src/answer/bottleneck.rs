//! The window of a stage, its floor and samples of its host -> what bounds its mean step.

use std::cmp::Reverse;

use crate::conclusions::sample_basis::{is_in_part, is_warm, sample_basis};
use crate::roofline::takeaways::StageMeasurements;
use stage2_contract::order::Order as _;
use stage2_model::{
    Bottleneck, BottleneckKind, BottleneckPart, Bound, Floor, NEAR_FLOOR, RankIdle, RankStageRow,
    Report, StageRow, StepTimes, StepUnit, WindowKind, WindowSplit,
};

/// From this share of a time on, percent, "most of it" holds.
const MOST_PERCENT: f64 = 50.0;

/// What is known of a stage.
pub(super) struct Known<'k> {
    pub(super) window: &'k WindowSplit,
    pub(super) step: Option<&'k StepTimes>,
    pub(super) floor: &'k Floor,
    pub(super) measured: Option<&'k StageMeasurements>,
}

/// `None` if all parts of the mean step round to 0 ns.
pub(super) fn bottleneck(report: &Report, row: &StageRow, known: &Known<'_>) -> Option<Bottleneck> {
    let window = known.window;
    let tokens = known.step.and_then(|step| step.tokens_per_step).unwrap_or(1).max(1);
    let units = window.steps.map_or(1.0, |steps| steps * tokens as f64);
    let of = match (window.steps, known.step) {
        (Some(_), Some(step)) => step.shown_unit(),
        _ => "window",
    };
    let mean = |ns: f64| (ns / units).round() as u64;
    let sum = |kinds: &[WindowKind]| {
        let parts = window.parts.iter().filter(|part| kinds.contains(&part.kind));
        parts.map(|part| part.ns as f64).sum::<f64>()
    };
    let (launches, longer) = (sum(&[WindowKind::LaunchGaps]), sum(&[WindowKind::OtherIdle]));
    let other_ns = sum(&[WindowKind::OtherWork]);
    let is_ahead = known.measured.is_some_and(StageMeasurements::is_host_ahead);
    let idle = match is_ahead || launches > longer {
        true => BottleneckKind::Launches,
        false => BottleneckKind::Host,
    };
    let kernels_ns = mean(sum(&[WindowKind::Compute, WindowKind::Busy]));
    let over_floor = over_floor(known, kernels_ns, window.steps.is_some(), tokens);
    let parts = [
        (kernels(known, over_floor), kernels_ns),
        (BottleneckKind::Ranks, mean(sum(&[WindowKind::Waiting]))),
        (
            BottleneckKind::Communication,
            mean(sum(&[WindowKind::Transfer, WindowKind::Communication])),
        ),
        (BottleneckKind::Copies, mean(sum(&[WindowKind::Copies]))),
        (idle, mean(launches + longer)),
        (BottleneckKind::OtherWork, mean(other_ns)),
    ];
    let mut parts: Vec<BottleneckPart> =
        parts.map(|(kind, ns)| BottleneckPart { kind, ns }).to_vec();
    parts.retain(|part| part.ns > 0);
    parts.order_by_key(|part| Reverse(part.ns));
    let ns = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.ns));
    let ranks = if other_ns > 0.0 { Vec::new() } else { ranks(report, row, units) };
    let bottleneck = Bottleneck {
        of: of.to_owned(),
        ns,
        parts,
        kernels_over_floor: over_floor,
        at_a_time: at_a_time(report, row, known),
        ranks,
    };
    (ns > 0).then_some(bottleneck)
}

/// Calls that overlap: see [`Bottleneck::at_a_time`]. The windows of recorded calls alone do not tell how many others ran.
fn at_a_time(report: &Report, row: &StageRow, known: &Known<'_>) -> Option<f64> {
    let unit = known.step?.unit;
    if !matches!(unit, StepUnit::Instance | StepUnit::RangeWithin) || is_in_part(report, row) {
        return None;
    }
    let (host_ns, window_ns) = match row.warm {
        Some(warm) => (row.host_warm_mean_ns? as f64 * warm.instances as f64, warm.gpu_window_ns),
        None => (row.host_total_ns? as f64, row.gpu_window_ns?),
    };
    (window_ns > 0).then(|| host_ns / window_ns as f64)
}

/// The time of the kernels of a step divided by the floor of that step.
fn over_floor(known: &Known<'_>, kernels_ns: u64, has_steps: bool, tokens: u64) -> Option<f64> {
    let floor_ns = known.floor.floor_ns.value().filter(|_| has_steps)? / tokens as f64;
    let times = kernels_ns as f64 / floor_ns;
    // Faster than the hardware allows: model and run do not agree.
    (floor_ns > 0.0 && times >= 1.0).then_some(times)
}

/// Decides by the floor if that is known, else by counters of the longest kernels.
fn kernels(known: &Known<'_>, over_floor: Option<f64>) -> BottleneckKind {
    if let Some(times) = over_floor {
        let by_memory = known.floor.memory_ns.value() == known.floor.floor_ns.value();
        return match (times <= NEAR_FLOOR, by_memory) {
            (true, true) => BottleneckKind::Memory,
            (true, false) => BottleneckKind::Compute,
            (false, _) => BottleneckKind::Kernels,
        };
    }
    let kernels = known.measured.map(|measured| measured.top_kernels.as_slice());
    let percent = |bound: Bound| -> f64 {
        let of_bound = kernels.unwrap_or_default().iter().filter(|k| k.bound == Some(bound));
        of_bound.map(|kernel| kernel.percent).sum()
    };
    if percent(Bound::Memory) >= MOST_PERCENT {
        BottleneckKind::Memory
    } else if percent(Bound::Compute) >= MOST_PERCENT {
        BottleneckKind::Compute
    } else {
        BottleneckKind::Kernels
    }
}

/// Idle time of each rank in its mean step, the longest first. `units`: steps, or tokens, of all ranks.
fn ranks(report: &Report, row: &StageRow, units: f64) -> Vec<RankIdle> {
    let all = sample_basis(report, row).instances;
    // The outliers of a single rank are not kept.
    if row.outliers.is_some() || report.is_sampled() || all == 0 {
        return Vec::new();
    }
    let warm = is_warm(report, row);
    let idle = |rank: &RankStageRow| {
        let (instances, ns) = match warm {
            true => rank.warm_idle.map(|warm| (warm.instances, warm.ns))?,
            false => (rank.instances, rank.gpu_idle_ns?),
        };
        let ns = ns as f64 * all as f64 / (instances as f64 * units);
        ns.is_finite().then(|| RankIdle { who: rank.who.clone(), ns: ns.round() as u64 })
    };
    let of_stage = || report.ranks.stages.iter().filter(|rank| rank.stage == row.stage);
    let mut ranks: Vec<RankIdle> = of_stage().filter_map(idle).collect();
    ranks.order_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.who.cmp(&b.who)));
    let processes = report.coverage.processes_of(|file| of_stage().any(|rank| rank.file == file));
    let is_one = processes == 1;
    if !is_one && ranks.len() > 1 && ranks.len() == of_stage().count() { ranks } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roofline::takeaways::{HostLead, KernelMeasurements};
    use stage2_model::{Figure, WarmIdle, WarmRow, WindowPart};
    use stage2_read::kernel_class::KernelClass;

    const MS: u64 = 1_000_000;

    /// The window of a hundred steps, by what each of them holds, ns.
    fn window(parts: &[(WindowKind, u64)]) -> WindowSplit {
        let part =
            |&(kind, ns): &(WindowKind, u64)| WindowPart { kind, ns: ns * 100, percent: 0.0 };
        let parts: Vec<WindowPart> = parts.iter().map(part).collect();
        let window_ns = parts.iter().map(|part| part.ns).sum();
        WindowSplit { window_ns, parts, steps: Some(100.0) }
    }

    fn steps(tokens_per_step: Option<u64>) -> StepTimes {
        StepTimes { unit: StepUnit::RangeWithin, tokens_per_step, ..StepTimes::default() }
    }

    fn floor(memory_ns: f64, compute_ns: f64) -> Floor {
        Floor {
            memory_ns: Figure::of(memory_ns),
            compute_ns: Figure::of(compute_ns),
            floor_ns: Figure::of(memory_ns.max(compute_ns)),
            ..crate::answer::tests::stage_answer("decode").floor
        }
    }

    fn no_floor() -> Floor {
        crate::answer::tests::stage_answer("decode").floor
    }

    fn of(window: &WindowSplit, floor: &Floor) -> Bottleneck {
        found(window, floor, None).expect("a bottleneck")
    }

    fn found(
        window: &WindowSplit,
        floor: &Floor,
        measured: Option<&StageMeasurements>,
    ) -> Option<Bottleneck> {
        let step = steps(None);
        let known = Known { window, step: Some(&step), floor, measured };
        bottleneck(&Report::default(), &StageRow::default(), &known)
    }

    fn parts(found: &Bottleneck) -> Vec<(BottleneckKind, u64)> {
        assert_eq!(found.ns, found.parts.iter().map(|part| part.ns).sum::<u64>());
        found.parts.iter().map(|part| (part.kind, part.ns)).collect()
    }

    #[test]
    fn calls_at_a_time_are_of_the_calls_that_the_mean_is_of() {
        let (split, floor, step) = (window(&[(WindowKind::Compute, MS)]), no_floor(), steps(None));
        let known = Known { window: &split, step: Some(&step), floor: &floor, measured: None };
        let overlap =
            |row: &StageRow| bottleneck(&Report::default(), row, &known).expect("known").at_a_time;
        // The cold call lies beside warm ones, and lasts longer: 12 + 2 x 3 ms.
        let mixed = StageRow {
            instances: Some(3),
            host_total_ns: Some(18 * MS),
            host_warm_instances: Some(2),
            host_warm_mean_ns: Some(3 * MS),
            gpu_window_ns: Some(12 * MS),
            ..StageRow::default()
        };
        assert_eq!(overlap(&mixed), Some(1.5));
        let warm = WarmRow { instances: 2, gpu_window_ns: 4 * MS, ..WarmRow::default() };
        assert_eq!(overlap(&StageRow { warm: Some(warm), ..mixed.clone() }), Some(1.5));
        // Windows of a part of the calls do not tell how many others ran.
        let source = stage2_model::Origin::Collector.label().to_owned();
        let row = StageRow { recorded_instances: Some(2), ..mixed.clone() };
        let report = Report { source, ..Report::default() };
        assert_eq!(bottleneck(&report, &row, &known).expect("known").at_a_time, None);
    }

    #[test]
    fn the_longest_part_of_the_mean_step_is_the_bottleneck() {
        use WindowKind::*;
        let eager = window(&[
            (Compute, MS),
            (Transfer, MS / 10),
            (Waiting, 11 * MS / 10),
            (Copies, 5_000),
            (LaunchGaps, MS / 5),
            (OtherIdle, 6 * MS / 5),
        ]);
        let found = of(&eager, &no_floor());
        assert_eq!((found.of.as_str(), found.kernels_over_floor), ("step", None));
        assert_eq!(
            parts(&found),
            [
                // It exceeds waiting only because all idle time is one part.
                (BottleneckKind::Host, 7 * MS / 5),
                (BottleneckKind::Ranks, 11 * MS / 10),
                (BottleneckKind::Kernels, MS),
                (BottleneckKind::Communication, MS / 10),
                (BottleneckKind::Copies, 5_000),
            ]
        );
        assert_eq!(found.percent(found.first().expect("a part")).round(), 39.0);
        let first = |parts: &[(WindowKind, u64)]| {
            of(&window(parts), &no_floor()).first().map(|part| (part.kind, part.ns))
        };
        let launches = [(Compute, 2 * MS), (LaunchGaps, 5 * MS), (OtherIdle, 4 * MS)];
        assert_eq!(first(&launches), Some((BottleneckKind::Launches, 9 * MS)));
        assert_eq!(
            first(&[(Compute, MS), (Waiting, 2 * MS)]),
            Some((BottleneckKind::Ranks, 2 * MS))
        );
        let unsplit = [(Compute, MS), (Communication, 2 * MS)];
        assert_eq!(first(&unsplit), Some((BottleneckKind::Communication, 2 * MS)));
        assert_eq!(
            first(&[(Busy, 2 * MS), (OtherIdle, MS)]),
            Some((BottleneckKind::Kernels, 2 * MS))
        );
        assert_eq!(found_in(&[]), None, "nothing was measured");
    }

    fn found_in(parts: &[(WindowKind, u64)]) -> Option<Bottleneck> {
        found(&window(parts), &no_floor(), None)
    }

    #[test]
    fn kernels_near_the_floor_are_bound_by_what_it_is_made_of() {
        let busy = window(&[(WindowKind::Compute, 3 * MS), (WindowKind::OtherIdle, MS)]);
        let ms = MS as f64;
        for (memory, compute, kind, times) in [
            (2.0, 0.1, BottleneckKind::Memory, Some(1.5)),
            (0.1, 2.0, BottleneckKind::Compute, Some(1.5)),
            (0.5, 0.1, BottleneckKind::Kernels, Some(6.0)),
            // Faster than the hardware allows: the model is not that of the run.
            (4.0, 0.1, BottleneckKind::Kernels, None),
        ] {
            let found = of(&busy, &floor(memory * ms, compute * ms));
            let first = found.first().expect("a part");
            assert_eq!((first.kind, found.kernels_over_floor), (kind, times), "{memory} {compute}");
        }
    }

    #[test]
    fn without_a_floor_counters_of_the_longest_kernels_say_what_bounds_them() {
        let busy = window(&[(WindowKind::Compute, 3 * MS), (WindowKind::OtherIdle, MS)]);
        let kernel = |percent, bound| KernelMeasurements {
            kernel: "k".into(),
            name_index: 0,
            id: String::new(),
            class: KernelClass::Gemm,
            percent,
            calls: 1,
            bound,
            one_launch: false,
            sampled: true,
            attainable_share: None,
            achieved_occupancy_percent: None,
        };
        for (bound, kind) in [
            (Some(Bound::Memory), BottleneckKind::Memory),
            (Some(Bound::Compute), BottleneckKind::Compute),
            (Some(Bound::Latency), BottleneckKind::Kernels),
            (None, BottleneckKind::Kernels),
        ] {
            let top_kernels = vec![kernel(30.0, bound), kernel(25.0, bound), kernel(40.0, None)];
            let measured = StageMeasurements { top_kernels, ..StageMeasurements::default() };
            let found = found(&busy, &no_floor(), Some(&measured)).expect("known");
            assert_eq!(found.first().map(|part| part.kind), Some(kind), "{bound:?}");
        }
    }

    #[test]
    fn idle_time_behind_launched_work_and_beside_other_stages_is_not_the_hosts() {
        let idle = window(&[
            (WindowKind::Compute, MS),
            (WindowKind::LaunchGaps, MS),
            (WindowKind::OtherIdle, 3 * MS),
        ]);
        let lead = HostLead { ahead_percent: 80.0, behind_percent: 0.0 };
        let ahead = StageMeasurements { host: Some(lead), ..StageMeasurements::default() };
        let ahead = found(&idle, &no_floor(), Some(&ahead)).expect("known");
        assert_eq!(parts(&ahead)[0], (BottleneckKind::Launches, 4 * MS));
        let beside = of(
            &window(&[
                (WindowKind::Compute, MS),
                (WindowKind::LaunchGaps, MS),
                (WindowKind::OtherWork, 3 * MS),
            ]),
            &no_floor(),
        );
        assert_eq!(
            parts(&beside),
            [
                (BottleneckKind::OtherWork, 3 * MS),
                (BottleneckKind::Kernels, MS),
                // Only the launch gaps are left.
                (BottleneckKind::Launches, MS),
            ]
        );
    }

    #[test]
    fn times_are_those_of_a_token_a_step_or_the_whole_window() {
        let split = window(&[(WindowKind::Compute, 8 * MS), (WindowKind::OtherIdle, 24 * MS)]);
        let (floor, tokens) = (floor(16.0 * MS as f64, 0.0), steps(Some(4)));
        let known = Known { window: &split, step: Some(&tokens), floor: &floor, measured: None };
        let (report, row) = (Report::default(), StageRow::default());
        let of_token = bottleneck(&report, &row, &known).expect("known");
        assert_eq!((of_token.of.as_str(), of_token.ns), ("token", 8 * MS));
        assert_eq!(of_token.kernels_over_floor, None, "a step has 8 ms of kernels and 16 of floor");
        let whole = WindowSplit { steps: None, ..split.clone() };
        let known = Known { window: &whole, step: None, ..known };
        let of_window = bottleneck(&report, &row, &known).expect("known");
        assert_eq!((of_window.of.as_str(), of_window.ns), ("window", 3_200 * MS));
    }

    #[test]
    fn each_rank_has_the_idle_time_of_its_own_mean_step() {
        let rank = |who: &str, instances, ns| RankStageRow {
            stage: "decode".into(),
            who: who.into(),
            instances: instances + 1,
            gpu_idle_ns: Some(9_000 * MS),
            warm_idle: Some(WarmIdle { instances, ns, ..WarmIdle::default() }),
            ..RankStageRow::default()
        };
        // 150 warm instances of two ranks, two steps in each.
        let split = WindowSplit {
            steps: Some(300.0),
            ..window(&[(WindowKind::Compute, MS), (WindowKind::OtherIdle, 3 * MS)])
        };
        let warm = WarmRow { instances: 150, gpu_window_ns: 400 * MS, ..WarmRow::default() };
        let row = StageRow { stage: "decode".into(), warm: Some(warm), ..StageRow::default() };
        let ranks = |rows: Vec<RankStageRow>| {
            let mut report = Report::default();
            report.ranks.stages = rows;
            let (step, floor) = (steps(None), no_floor());
            let known = Known { window: &split, step: Some(&step), floor: &floor, measured: None };
            let found = bottleneck(&report, &row, &known).expect("known");
            found.ranks.into_iter().map(|rank| (rank.who, rank.ns)).collect::<Vec<_>>()
        };
        let two = vec![rank("rank 0", 100, 50 * MS), rank("rank 1", 50, 250 * MS)];
        assert_eq!(
            ranks(two.clone()),
            [("rank 1".to_owned(), 5 * MS / 2), ("rank 0".to_owned(), MS / 4)]
        );
        assert_eq!(ranks(two[..1].to_vec()), [], "a single rank is the mean");
        let unknown = RankStageRow { warm_idle: None, ..two[1].clone() };
        assert_eq!(ranks(vec![two[0].clone(), unknown]), []);
    }
}
