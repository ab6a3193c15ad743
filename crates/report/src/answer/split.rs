//! The window of a stage -> what it went into: parts that add up to it.

use crate::conclusions::sample_basis::{SampleBasis, is_warm, sample_basis};
use stage2_model::{
    BusyParts, CollectiveRow, Origin, Report, StageRow, Status, WindowKind, WindowPart, WindowSplit,
};

/// Part of the time in collectives that must be split into waiting and transfer before exposed
/// communication is, percent.
const NEARLY_ALL_PERCENT: u128 = 95;

/// What is known of the window of a stage.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    window_ns: u64,
    busy_ns: u64,
    busy_parts: Option<BusyParts>,
    short_gaps_ns: u64,
    /// Waiting and transfer in the collectives of the stage, where nearly all of them were split.
    communication: Option<(u64, u64)>,
}

/// Why the window of a stage without kernels, copies, fills and replays is not split.
pub(super) const NO_GPU_WORK: &str = "no GPU work of its own";

/// The parts, or why there are none. `collectives`: those of the stage. Steps of an instance: nothing
/// where these are not told apart.
pub(super) fn of(
    report: &Report,
    row: &StageRow,
    collectives: &[&CollectiveRow],
    steps_per_instance: Option<f64>,
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
            "its instances were recorded in parts only"
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
    let measured = Measured {
        window_ns,
        busy_ns,
        busy_parts,
        short_gaps_ns: short_gaps_ns.unwrap_or(0),
        communication: communication(report, collectives, is_warm(report, row)),
    };
    let split = measured.split().ok_or("its window is shorter than the GPU work in it")?;
    let steps = steps_per_instance.map(|steps| steps * instances as f64);
    Ok(WindowSplit { steps: steps.filter(|steps| *steps > 0.0), ..split })
}

/// Waiting and transfer in the collectives of a stage; nothing where a notable part is not split.
fn communication(
    report: &Report,
    collectives: &[&CollectiveRow],
    warm: bool,
) -> Option<(u64, u64)> {
    let sum = |ns: fn(&CollectiveRow) -> Option<u64>| {
        collectives.iter().filter_map(|row| ns(row)).fold(0u64, u64::saturating_add)
    };
    let (waiting, transfer) = (sum(|row| row.waiting_ns), sum(|row| row.transfer_ns));
    let split = (u128::from(waiting) + u128::from(transfer)) * 100;
    let all = u128::from(sum(|row| Some(row.time_ns))) * NEARLY_ALL_PERCENT;
    if report.ranks.kernels_left_out > 0 || split == 0 || split < all {
        return None;
    }
    // Ranks wait long in a first instance, which need not be so in the others.
    let found = match warm {
        true => (sum(|row| row.warm_waiting_ns), sum(|row| row.warm_transfer_ns)),
        false => (waiting, transfer),
    };
    (found.0 > 0 || found.1 > 0).then_some(found)
}

impl Measured {
    /// Nothing where there is no window, or where it cannot hold the parts.
    fn split(self) -> Option<WindowSplit> {
        let Self { window_ns, busy_ns, .. } = self;
        let idle_ns = window_ns.checked_sub(busy_ns).filter(|_| window_ns > 0)?;
        let launch_ns = self.short_gaps_ns.min(idle_ns);
        let mut times = match self.busy_parts {
            None => vec![(WindowKind::Busy, busy_ns)],
            Some(BusyParts { compute_ns, communication_ns, .. }) => {
                let copies_ns = busy_ns.checked_sub(compute_ns)?.checked_sub(communication_ns)?;
                let mut times = vec![(WindowKind::Compute, compute_ns)];
                times.extend(self.communicated(communication_ns));
                times.push((WindowKind::Copies, copies_ns));
                times
            }
        };
        times.push((WindowKind::LaunchGaps, launch_ns));
        times.push((WindowKind::OtherIdle, idle_ns - launch_ns));
        let part = |(kind, ns): (WindowKind, u64)| WindowPart {
            kind,
            ns,
            percent: ns as f64 * 100.0 / window_ns as f64,
        };
        let parts = times.into_iter().filter(|(_, ns)| *ns > 0).map(part).collect();
        Some(WindowSplit { window_ns, parts, steps: None })
    }

    /// Exposed communication, told apart in the ratio that all communication of the stage has.
    fn communicated(self, ns: u64) -> Vec<(WindowKind, u64)> {
        let Some((waiting, transfer)) = self.communication else {
            return vec![(WindowKind::Communication, ns)];
        };
        let (waiting, transfer) = (u128::from(waiting), u128::from(transfer));
        let transferred = (u128::from(ns) * transfer).checked_div(waiting + transfer);
        let transferred = transferred.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
        vec![(WindowKind::Transfer, transferred), (WindowKind::Waiting, ns - transferred)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stage2_model::WarmRow;

    fn of(
        report: &Report,
        row: &StageRow,
        steps: Option<f64>,
    ) -> Result<WindowSplit, &'static str> {
        super::of(report, row, &report.ranks.collectives.iter().collect::<Vec<_>>(), steps)
    }

    fn row() -> StageRow {
        StageRow {
            stage: "decode".into(),
            instances: Some(4),
            gpu_window_ns: Some(1_000),
            gpu_busy_ns: Some(900),
            gpu_idle_ns: Some(100),
            gpu_short_gaps_ns: Some(70),
            gpu_busy_parts: Some(BusyParts {
                compute_ns: 500,
                communication_ns: 300,
                copies_ns: 100,
            }),
            ..StageRow::default()
        }
    }

    fn report(collectives: Vec<CollectiveRow>) -> Report {
        let mut report = Report::default();
        report.coverage.verdict.status = Status::Complete;
        report.ranks.collectives = collectives;
        report
    }

    /// Hazard (Dormant processes and windows): Requests are open around the steps of an engine.
    /// Promise: Nobody calls the GPU idle in them: they have no GPU work of their own.
    #[test]
    fn a_stage_without_gpu_work_of_its_own_is_not_called_idle() {
        let request = StageRow {
            gpu_busy_ns: Some(0),
            gpu_idle_ns: Some(1_000),
            gpu_busy_parts: Some(BusyParts::default()),
            kernels: Some(0),
            copies: Some(0),
            fills: Some(0),
            ..row()
        };
        assert_eq!(of(&report(Vec::new()), &request, None), Err(NO_GPU_WORK));
        for work in [
            StageRow { copies: Some(1), ..request.clone() },
            StageRow { graph_launches: Some(1), ..request.clone() },
            StageRow { kernels: None, ..request },
        ] {
            assert!(of(&report(Vec::new()), &work, None).is_ok(), "{work:?}");
        }
    }

    fn parts(report: &Report, row: &StageRow) -> Vec<(WindowKind, u64)> {
        let split = of(report, row, None).expect("a split");
        split.parts.iter().map(|part| (part.kind, part.ns)).collect()
    }

    fn collective(time_ns: u64, waiting_ns: u64, transfer_ns: u64) -> CollectiveRow {
        CollectiveRow {
            stage: "decode".into(),
            time_ns,
            waiting_ns: Some(waiting_ns),
            transfer_ns: Some(transfer_ns),
            warm_waiting_ns: Some(10),
            warm_transfer_ns: Some(20),
            ..CollectiveRow::default()
        }
    }

    #[test]
    fn communication_is_waiting_and_transfer_where_nearly_all_of_it_was_matched() {
        use WindowKind::*;
        let rest = |communication: &[(WindowKind, u64)]| {
            let mut all = vec![(Compute, 500)];
            all.extend_from_slice(communication);
            all.extend([(Copies, 100), (LaunchGaps, 70), (OtherIdle, 30)]);
            all
        };
        let unknown = rest(&[(Communication, 300)]);
        assert_eq!(parts(&report(vec![]), &row()), unknown);
        let matched = report(vec![collective(1_000, 600, 400)]);
        assert_eq!(parts(&matched, &row()), rest(&[(Transfer, 120), (Waiting, 180)]));
        let in_part = report(vec![collective(1_000, 500, 440)]);
        assert_eq!(parts(&in_part, &row()), unknown);
        let mut lost = matched.clone();
        lost.ranks.kernels_left_out = 1;
        assert_eq!(parts(&lost, &row()), unknown);
        // The ratio of the warm instances is not that of the first one.
        let warm = Some(WarmRow {
            instances: 3,
            gpu_window_ns: 1_000,
            gpu_busy_ns: 900,
            gpu_short_gaps_ns: 70,
            gpu_busy_parts: row().gpu_busy_parts,
            kernels: 9,
        });
        let warm = StageRow { warm, ..row() };
        assert_eq!(parts(&matched, &warm), rest(&[(Transfer, 200), (Waiting, 100)]));
    }

    #[test]
    fn what_is_not_known_is_busy_or_nothing() {
        let report = report(vec![]);
        let plain = StageRow { gpu_busy_parts: None, gpu_short_gaps_ns: None, ..row() };
        let busy = [(WindowKind::Busy, 900), (WindowKind::OtherIdle, 100)];
        assert_eq!(parts(&report, &plain), busy);
        let shared = StageRow { gpu_idle_ns: None, ..row() };
        assert_eq!(of(&report, &shared, None), Err("several processes share the GPU"));
        let none = StageRow { gpu_window_ns: None, gpu_idle_ns: None, ..row() };
        assert!(of(&report, &none, None).is_err());
        let wrong = StageRow { gpu_window_ns: Some(800), ..row() };
        assert!(of(&report, &wrong, None).is_err());
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_window(
            compute_ns in 0u64..1 << 50,
            communication_ns in 0u64..1 << 50,
            copies_ns in 0u64..1 << 50,
            idle_ns in 0u64..1 << 50,
            short_gaps_ns in any::<u64>(),
            communication in prop::option::of((any::<u64>(), any::<u64>())),
            known in any::<bool>(),
        ) {
            let busy_ns = compute_ns + communication_ns + copies_ns;
            let parts = BusyParts { compute_ns, communication_ns, copies_ns };
            let measured = Measured {
                window_ns: busy_ns + idle_ns,
                busy_ns,
                busy_parts: known.then_some(parts),
                short_gaps_ns,
                communication,
            };
            let Some(split) = measured.split() else {
                prop_assert_eq!(busy_ns + idle_ns, 0);
                return Ok(());
            };
            prop_assert_eq!(split.parts.iter().map(|part| part.ns).sum::<u64>(), split.window_ns);
            let percent: f64 = split.parts.iter().map(|part| part.percent).sum();
            prop_assert!((percent - 100.0).abs() < 1e-6, "{percent}");
            prop_assert!(split.parts.is_sorted_by_key(|part| part.kind));
        }
    }
}
