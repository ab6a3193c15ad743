//! Groups of kernels -> the kernels with the longest total of each stage.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::Groups;
use super::kernels::Join;
use super::times::{percent, times};
use crate::load::stats::{Stats, Work};
use stage2_model::{StageKernelRow, StageRow};
use stage2_text::KernelName;

/// Kernels of each stage that are listed.
const TOP_PER_STAGE: usize = 10;

impl Join<'_> {
    /// The longest kernels of `stages`, in their order.
    pub(crate) fn stage_kernels(
        &self,
        groups: &Groups,
        names: &[KernelName],
        stages: &[StageRow],
    ) -> Vec<StageKernelRow> {
        let mut sums: HashMap<(u32, u32), Stats> = HashMap::new();
        let mut all_ns: HashMap<u32, u64> = HashMap::new();
        for (key, stats) in groups {
            let Work::Kernel(shape) = key.work else { continue };
            let Some(shape) = self.tables.shapes.get(shape as usize) else { continue };
            let stage = self.labels.stage_of(key.path);
            sums.entry((stage, shape.name)).or_default().merge(stats);
            let sum = all_ns.entry(stage).or_default();
            *sum = sum.saturating_add(stats.total_ns);
        }
        let order: HashMap<&str, usize> =
            stages.iter().enumerate().map(|(i, stage)| (stage.stage.as_str(), i)).collect();
        let mut sorted: Vec<((u32, u32), Stats)> = sums.into_iter().collect();
        sorted.sort_by_cached_key(|&((stage, name), ref stats)| {
            let place = order.get(self.labels.stage(stage));
            let longest = (Reverse(stats.total_ns), Reverse(stats.calls));
            (place.copied(), stage, longest, names.get(name as usize).map(|n| n.mangled.clone()))
        });
        let mut listed: HashMap<u32, usize> = HashMap::new();
        let mut rows = Vec::new();
        for ((stage, name), stats) in sorted {
            let listed = listed.entry(stage).or_default();
            *listed += 1;
            if *listed > TOP_PER_STAGE {
                continue;
            }
            rows.push(StageKernelRow {
                stage: self.labels.stage(stage).to_owned(),
                kernel: names.get(name as usize).map_or_else(String::new, |n| n.short.clone()),
                name_index: name as usize,
                times: times(&stats),
                stage_kernel_sum_percent: all_ns
                    .get(&stage)
                    .and_then(|&all_ns| percent(stats.total_ns, all_ns)),
            });
        }
        rows
    }
}
