//! The passes of a run and how long the first one took -> how often the workload runs, and about how
//! long the rest will take.
//!
//! These are lines, before and after a pass, and no bar that is drawn again and again: in the collect
//! pass the workload writes to the same terminal, and a bar would run through its output.

use std::time::Duration;

use crate::plan::{Kind, Pass, Plan, Profiler};
use crate::tools::ncu::config::{Ncu, ReplayMode};
use crate::workload;
use stage2_contract::text::numbers::counted;

/// Nsight Systems slows a workload of many short kernels by a tenth or less; then it starts, stops and
/// writes its report. Runs on an H200: 13.0 s became 13.6 s, 4.8 s became 6.6 s.
const NSYS_FACTOR: f64 = 1.1;
const NSYS_EXTRA: Duration = Duration::from_secs(3);

/// Nsight Compute runs the workload once, and each chosen kernel once more for each group of counters.
/// Runs on an H200: 13.0 s became 20.1 s, 4.8 s became 8.7 s.
const NCU_FACTOR: f64 = 1.1;
const NCU_EXTRA: Duration = Duration::from_secs(2);
const NCU_PER_KERNEL: Duration = Duration::from_millis(250);

/// Whether the program of a profiler is found. Of a pass without it nothing is said before the reason that it is left out.
pub(super) fn is_there(tool: &Profiler) -> bool {
    workload::find(tool.executable().as_os_str()).is_ok()
}

/// What to say before the first pass; nothing where the workload runs once.
pub(super) fn announcement(plan: &Plan) -> Vec<String> {
    let runs = |pass: &&Pass| pass.skip.is_none() && pass.profiler.as_ref().is_none_or(is_there);
    let passes: Vec<&Pass> = plan.passes.iter().filter(runs).collect();
    if passes.len() < 2 {
        return Vec::new();
    }
    let names: Vec<&str> = passes.iter().map(|pass| pass.name).collect();
    let mut lines = vec![format!(
        "the workload will run {} times, because CUPTI serves one profiler at a time: {}",
        passes.len(),
        names.join(", ")
    )];
    if passes.iter().any(|pass| pass.profiler.is_some()) {
        let alone = "for a single run under the collector give --light";
        let later = "an estimate for the other passes follows after the first one";
        lines.push(format!("{alone}; {later}"));
    }
    lines
}

/// About how long the process of a pass will run, in words, where a run without a profiler took `first`.
pub(super) fn expected(pass: &Pass, first: Option<Duration>) -> Option<String> {
    let first = first?;
    let limit = pass.limits.timeout.unwrap_or(Duration::MAX);
    Some(match &pass.profiler.as_ref()?.kind {
        Kind::Nsys(_) => {
            let time = first.mul_f64(NSYS_FACTOR).saturating_add(NSYS_EXTRA);
            format!("about {}", shown(time.min(limit)))
        }
        Kind::Ncu { settings, .. } => {
            let most = settings.top_n.map_or(0, |most| usize::try_from(most.get()).unwrap_or(0));
            of_ncu(most, settings, first, limit)
        }
    })
}

/// What to say when the kernels for Nsight Compute are chosen.
pub(super) fn of_kernels(kernels: usize, ncu: &Ncu, first: Option<Duration>) -> Option<String> {
    let time = of_ncu(kernels, ncu, first.filter(|_| kernels > 0)?, Duration::MAX);
    let kernels = counted(kernels as u64, "kernel");
    Some(format!("ncu: {kernels} will be measured in every launch configuration; {time}"))
}

fn of_ncu(kernels: usize, ncu: &Ncu, first: Duration, limit: Duration) -> String {
    let of_kernels = NCU_PER_KERNEL.saturating_mul(u32::try_from(kernels).unwrap_or(u32::MAX));
    let time = first.mul_f64(NCU_FACTOR).saturating_add(NCU_EXTRA).saturating_add(of_kernels);
    let time = shown(time.min(limit));
    match ncu.ncu_cli.replay_mode {
        ReplayMode::Kernel | ReplayMode::Range => format!("about {time}, or more"),
        ReplayMode::Application | ReplayMode::AppRange => {
            format!("about {time} for each group of counters")
        }
    }
}

/// What to say between passes of those `after`, which are still to come.
pub(super) fn to_come(after: &[Pass], first: Option<Duration>) -> Option<String> {
    let time = |pass: &Pass| {
        let runs = pass.skip.is_none() && pass.profiler.as_ref().is_none_or(is_there);
        let time = expected(pass, first).filter(|_| runs)?;
        Some(format!("{} {time}", pass.name))
    };
    let times: Vec<String> = after.iter().filter_map(time).collect();
    (!times.is_empty()).then(|| format!("still to come: {}", times.join("; ")))
}

/// A time as a person says it: `3 s`, `12 min`, `1 h 5 min`.
pub(crate) fn shown(time: Duration) -> String {
    let seconds = (time.as_millis() + 500) / 1000;
    match seconds {
        0..=99 => format!("{} s", seconds.max(1)),
        100..=3569 => format!("{} min", (seconds + 30) / 60),
        _ => {
            let minutes = (seconds + 30) / 60;
            format!("{} h {} min", minutes / 60, minutes % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_a_person_says_them() {
        for (ms, expected) in [
            (0, "1 s"),
            (1499, "1 s"),
            (99_400, "99 s"),
            (100_000, "2 min"),
            (3_569_000, "59 min"),
            (3_570_000, "1 h 0 min"),
            (7_500_000, "2 h 5 min"),
        ] {
            assert_eq!(shown(Duration::from_millis(ms)), expected, "{ms}");
        }
        assert!(shown(Duration::MAX).ends_with(" min"));
    }
}
