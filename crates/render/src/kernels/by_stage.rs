//! Kernel rows -> one row for each stage and kernel, over its range paths, launch configurations and
//! GPUs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::top::Sum;
use crate::page::model_stages;
use stage2_model::{Bound, CounterRow, KernelRow, Report};
use stage2_report::conclusions::counted::Counted;

/// Rows of a kernel in a stage together.
struct StageSum<'r> {
    row: &'r KernelRow,
    times: Sum,
    devices: BTreeSet<&'r str>,
}

impl<'r> StageSum<'r> {
    fn new(row: &'r KernelRow) -> Self {
        Self { row, times: Sum::default(), devices: BTreeSet::new() }
    }
}

/// A kernel in a stage.
#[derive(Clone, Debug)]
pub(crate) struct StageKernel<'r> {
    /// One of its rows, for the names.
    pub(crate) row: &'r KernelRow,
    /// None: no call was timed.
    pub(crate) total_ns: Option<u64>,
    pub(crate) calls: u64,
    pub(crate) mean_ns: Option<u64>,
    /// GPUs that it ran on.
    devices: BTreeSet<&'r str>,
    /// Share of the sum of the durations of all kernels of the stage.
    pub(crate) percent: Option<f64>,
    /// Those of the longest launch configuration that has some.
    counters: Option<&'r CounterRow>,
    /// What sampled counters say of the bound of the longest launch configuration.
    sampled: Option<Bound>,
}

impl StageKernel<'_> {
    /// `0 NVIDIA H200`, or `0 NVIDIA H200 and 7 more`.
    pub(crate) fn device(&self) -> String {
        let first = self.devices.first().copied().unwrap_or_default();
        match self.devices.len() {
            0 | 1 => first.to_owned(),
            all => format!("{first} and {} more", all - 1),
        }
    }

    /// What holds it up, by its counters, or that none are known.
    pub(crate) fn bound(&self) -> String {
        self.known_bound().unwrap_or_else(|| "not profiled".to_owned())
    }

    /// What holds the kernel up, by its counters; `None` where neither ncu nor samples know it.
    pub(crate) fn known_bound(&self) -> Option<String> {
        let Some(counters) = self.counters else {
            return self.sampled.map(|bound| format!("{} (sampled)", bound.label()));
        };
        let bound = counters.roofline.bound.map_or("not known", |bound| bound.label());
        let launch = if counters.one_launch.is_some() { " (one launch)" } else { "" };
        Some(format!("{bound}{launch}"))
    }
}

/// What sampled counters say.
fn sampled_bound(row: &KernelRow) -> Option<Bound> {
    row.sampled.as_ref()?.bound
}

/// All of them: those of the model's stages first, then those of warm-ups and of work outside of
/// stages; in both the longest total first.
pub(crate) fn stage_kernels<'r>(report: &'r Report) -> Vec<StageKernel<'r>> {
    let mut sums: BTreeMap<(&'r str, usize), StageSum<'r>> = BTreeMap::new();
    let mut stages_ns: HashMap<&str, u64> = HashMap::new();
    for row in &report.kernels {
        let of_kernel = sums.entry((&row.stage, row.name_index));
        let sum = of_kernel.or_insert_with(|| StageSum::new(row));
        sum.times.add(&row.times);
        sum.devices.insert(&row.device);
        let stage_ns = stages_ns.entry(&row.stage).or_default();
        *stage_ns = stage_ns.saturating_add(row.times.total_ns);
    }
    let counted = Counted::new(report, |row| (row.stage.as_str(), row.name_index));
    let kernel = |(key, sum): ((&'r str, usize), StageSum<'r>)| {
        let all_ns = stages_ns.get(key.0).copied().unwrap_or(0);
        StageKernel {
            row: sum.row,
            total_ns: sum.times.total_ns(),
            calls: sum.times.calls,
            mean_ns: sum.times.mean_ns(),
            devices: sum.devices,
            percent: sum.times.percent(all_ns),
            counters: counted.get(&key),
            sampled: sampled_bound(sum.row),
        }
    };
    let mut kernels: Vec<StageKernel<'_>> = sums.into_iter().map(kernel).collect();
    let stages: BTreeSet<&str> = model_stages(report).map(|stage| stage.stage.as_str()).collect();
    kernels.sort_by_key(|kernel| {
        (!stages.contains(kernel.row.stage.as_str()), Reverse(kernel.total_ns))
    });
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{Roofline, StageRow, Times};

    fn row(stage: &str, device: &str, total_ns: u64) -> KernelRow {
        KernelRow {
            stage: stage.into(),
            device: device.into(),
            times: Times { total_ns, calls: 2, mean_ns: Some(total_ns / 2), ..Times::default() },
            ..KernelRow::default()
        }
    }

    #[test]
    fn a_kernel_of_a_stage_has_one_row_over_paths_and_gpus() {
        let mut profiled = row("decode", "0 A", 300);
        profiled.counters = Some(Box::new(CounterRow {
            profiled_in: Some("decode".into()),
            roofline: Roofline { bound: Some(Bound::Memory), ..Roofline::default() },
            ..CounterRow::default()
        }));
        let other = KernelRow { name_index: 1, ..row("decode", "0 A", 600) };
        let warmup = row("warmup", "0 A", 9_000);
        let kernels = vec![warmup, row("decode", "1 A", 100), profiled, other];
        let stage = StageRow { stage: "decode".into(), ..StageRow::default() };
        let report = Report { kernels, stages: vec![stage], ..Report::default() };
        let shown = stage_kernels(&report);
        let facts: Vec<_> = shown
            .iter()
            .map(|k| (k.row.stage.as_str(), k.total_ns, k.calls, k.mean_ns, k.percent, k.bound()))
            .collect();
        let not_profiled = || "not profiled".to_owned();
        let expected = [
            ("decode", Some(600), 2, Some(300), Some(60.0), not_profiled()),
            ("decode", Some(400), 4, Some(100), Some(40.0), "memory".to_owned()),
            ("warmup", Some(9_000), 2, Some(4_500), Some(100.0), not_profiled()),
        ];
        assert_eq!(facts, expected, "the stages of the model come first");
        assert_eq!(shown[1].device(), "0 A and 1 more");
    }
}
