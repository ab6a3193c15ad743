//! Kernel rows with counters -> what a stage counted.

use crate::join::kernels::percent;
use stage2_model::{KernelRow, Report};

/// FLOPs of a stage as counters have them, and how much of the stage they know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StageFlops {
    /// FLOPs of a launch times calls, over all kernels whose counters stand for their calls, and
    /// over all instances.
    pub(crate) flops: f64,
    /// Share of these kernels in the sum of the stage's kernel time, percent.
    pub(crate) percent: f64,
    /// Share of kernels with counters of one launch only, which are not in `flops`, percent.
    pub(crate) one_launch_percent: f64,
}

/// What counters say of the kernels of a stage; nothing where none of them has counted FLOPs.
pub(super) fn stage_flops(
    report: &Report,
    is_of_stage: impl Fn(&KernelRow) -> bool,
) -> Option<StageFlops> {
    let (mut flops, mut counted_ns, mut one_launch_ns, mut all_ns) = (0.0, 0u64, 0u64, 0u64);
    for row in report.kernels.iter().filter(|row| is_of_stage(row)) {
        let ns = row.times.total_ns;
        all_ns = all_ns.saturating_add(ns);
        let Some(counters) = &row.counters else { continue };
        let Some(of_launch) = counters.roofline.flops else { continue };
        if counters.one_launch.is_some() {
            one_launch_ns = one_launch_ns.saturating_add(ns);
        } else {
            flops += of_launch * row.times.calls as f64;
            counted_ns = counted_ns.saturating_add(ns);
        }
    }
    Some(StageFlops {
        flops,
        percent: percent(counted_ns, all_ns)?,
        one_launch_percent: percent(one_launch_ns, all_ns)?,
    })
    .filter(|_| counted_ns > 0 || one_launch_ns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{CounterRow, Roofline, Times};

    /// A row of 10 calls that together take `total_ns`, with `flops` in a launch of `place`.
    fn row(total_ns: u64, flops: f64, place: &str, one_launch: bool) -> KernelRow {
        KernelRow {
            stage: "decode".into(),
            times: Times { calls: 10, total_ns, ..Times::default() },
            counters: Some(Box::new(CounterRow {
                profiled_in: Some(place.into()),
                one_launch: one_launch.then(|| "two workloads".into()),
                roofline: Roofline { flops: Some(flops), ..Roofline::default() },
                ..CounterRow::default()
            })),
            ..KernelRow::default()
        }
    }

    #[test]
    fn counters_of_one_launch_are_in_no_sum() {
        let kernels = vec![
            row(500, 1e9, "decode", false),
            row(300, 9e9, "decode", true),
            KernelRow { counters: None, ..row(200, 1e6, "decode", false) },
        ];
        let mut report = Report { kernels, ..Report::default() };
        let counted = stage_flops(&report, |row| row.stage == "decode").expect("counted");
        let shares = (counted.percent, counted.one_launch_percent);
        assert_eq!((counted.flops, shares), (1e10, (50.0, 30.0)));
        assert_eq!(stage_flops(&report, |row| row.stage == "prefill"), None);
        report.kernels.remove(0);
        let none = stage_flops(&report, |row| row.stage == "decode").expect("one launch");
        assert_eq!((none.flops, none.percent, none.one_launch_percent), (0.0, 0.0, 60.0));
    }
}
