//! Groups of GPU work -> the rows of kernels, copies, fills and graphs, longest total first, and the
//! longest kernels of each stage.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::join::{GlobalShape, Groups, Labels};
use stage2_contract::order::Order as _;
use stage2_contract::text::{KernelName, kernel_name};
use stage2_model::{GraphRow, KernelRow, Launch, MemoryRow, StageKernelRow, StageRow, Times};
use stage2_read::kernel_class::class_of;
use stage2_read::trace::stats::{GroupKey, Stats, Work};

/// Kernels of each stage that are listed.
const TOP_PER_STAGE: usize = 10;

pub(super) struct Join<'m> {
    pub(super) labels: &'m Labels<'m>,
    pub(super) row_of_path: &'m [usize],
    pub(super) files: &'m [&'m str],
}

#[derive(Default)]
pub(super) struct Rows {
    pub(super) names: Vec<KernelName>,
    pub(super) kernels: Vec<KernelRow>,
    pub(super) copies: Vec<MemoryRow>,
    pub(super) fills: Vec<MemoryRow>,
    pub(super) graphs: Vec<GraphRow>,
}

impl Join<'_> {
    pub(super) fn rows(&self, groups: &Groups) -> Rows {
        let tables = self.labels.tables;
        let names = distinct(tables.kernel_names.iter().map(|name| kernel_name(name)));
        let mut rows = Rows { names, ..Rows::default() };
        // A name has many rows, and telling its class takes longer than making a row.
        let classes: Vec<&str> = rows.names.iter().map(|name| class_of(name).label()).collect();
        let all_ns = groups
            .iter()
            .filter(|(key, _)| matches!(key.work, Work::Kernel(_)))
            .fold(0u64, |sum, (_, stats)| sum.saturating_add(stats.total_ns));
        for (key, stats) in groups {
            match key.work {
                Work::Kernel(shape) => {
                    let Some(shape) = tables.shapes.get_index(shape as usize) else { continue };
                    let kernel = self.kernel(key, stats, shape, (&rows.names, &classes), all_ns);
                    rows.kernels.push(kernel);
                }
                Work::Copy(kind) => {
                    rows.copies.push(self.memory(key, stats, Some(direction(kind))))
                }
                Work::Fill => rows.fills.push(self.memory(key, stats, None)),
                Work::Graph(graph) => rows.graphs.push(self.graph(key, stats, graph)),
            }
        }
        let Rows { names, kernels, .. } = &mut rows;
        kernels.order_by(|a, b| kernel_order(a, names).cmp(&kernel_order(b, names)));
        for memory in [&mut rows.copies, &mut rows.fills] {
            memory.order_by_cached_key(|r| {
                (order(&r.times), r.direction.clone(), r.path_index, r.device.clone())
            });
        }
        rows.graphs.order_by_cached_key(|r| {
            (order(&r.times), r.file.clone(), r.graph_id, r.path_index, r.device.clone())
        });
        rows
    }

    fn path_index(&self, key: &GroupKey) -> usize {
        self.row_of_path.get(key.path as usize).copied().unwrap_or(0)
    }

    fn simulated(&self, key: &GroupKey) -> bool {
        let device = self.labels.tables.devices.get_index(key.device as usize);
        device.is_some_and(|(_, device)| device.simulated)
    }

    fn kernel(
        &self,
        key: &GroupKey,
        stats: &Stats,
        shape: &GlobalShape,
        (names, classes): (&[KernelName], &[&str]),
        all_ns: u64,
    ) -> KernelRow {
        KernelRow {
            kernel: names.get(shape.name as usize).map_or_else(String::new, |n| n.short.clone()),
            name_index: shape.name as usize,
            device: self.labels.device(key.device).to_owned(),
            simulated: self.simulated(key),
            stage: self.labels.stage(key.path).to_owned(),
            path: self.labels.path(key.path).to_owned(),
            path_index: self.path_index(key),
            launch: shape.launch.map(|s| Launch {
                grid: s.grid,
                block: s.block,
                registers_per_thread: Some(s.registers_per_thread),
                static_shared_bytes: Some(s.static_shared_bytes),
                dynamic_shared_bytes: Some(s.dynamic_shared_bytes),
                local_bytes_per_thread: Some(s.local_bytes_per_thread),
            }),
            times: times(stats),
            kernel_sum_percent: share(stats, all_ns),
            class: classes.get(shape.name as usize).copied().unwrap_or_default().to_owned(),
            ..KernelRow::default()
        }
    }

    fn memory(&self, key: &GroupKey, stats: &Stats, direction: Option<String>) -> MemoryRow {
        MemoryRow {
            direction,
            device: self.labels.device(key.device).to_owned(),
            simulated: self.simulated(key),
            stage: self.labels.stage(key.path).to_owned(),
            path: self.labels.path(key.path).to_owned(),
            path_index: self.path_index(key),
            bytes: stats.bytes,
            times: times(stats),
        }
    }

    fn graph(&self, key: &GroupKey, stats: &Stats, graph: u32) -> GraphRow {
        let known = self.labels.tables.graphs.get_index(graph as usize);
        let (file, graph_id) = known.copied().unwrap_or_default();
        GraphRow {
            graph_id,
            file: self.files.get(file).map_or_else(String::new, |&file| file.to_owned()),
            device: self.labels.device(key.device).to_owned(),
            simulated: self.simulated(key),
            stage: self.labels.stage(key.path).to_owned(),
            path: self.labels.path(key.path).to_owned(),
            path_index: self.path_index(key),
            times: times(stats),
        }
    }

    /// The kernels of all groups, each with its stage and the index of its name.
    pub(super) fn named<'g>(
        &'g self,
        groups: &'g Groups,
    ) -> impl Iterator<Item = (&'g str, usize, &'g Stats)> {
        groups.iter().filter_map(|(key, stats)| {
            let Work::Kernel(shape) = key.work else { return None };
            let shape = self.labels.tables.shapes.get_index(shape as usize)?;
            Some((self.labels.stage(key.path), shape.name as usize, stats))
        })
    }
}

/// The longest kernels of `stages`, in their order, of `kernels` with their stages and names.
pub(super) fn stage_kernels<'k, S: Borrow<Stats>>(
    kernels: impl Iterator<Item = (&'k str, usize, S)>,
    names: &[KernelName],
    stages: &[StageRow],
) -> Vec<StageKernelRow> {
    let mut sums: HashMap<&str, HashMap<usize, Stats>> = HashMap::new();
    for (stage, name, stats) in kernels {
        sums.entry(stage).or_default().entry(name).or_default().merge(stats.borrow());
    }
    let mut rows = Vec::new();
    for stage in stages {
        let of_stage = sums.remove(stage.stage.as_str()).unwrap_or_default();
        let all_ns = of_stage.values().fold(0u64, |sum, stats| sum.saturating_add(stats.total_ns));
        let mut longest: Vec<(usize, Stats)> = of_stage.into_iter().collect();
        longest.order_by_cached_key(|&(name, ref stats)| {
            let mangled = names.get(name).map(|name| name.mangled.clone());
            (Reverse(stats.total_ns), Reverse(stats.calls), mangled)
        });
        rows.extend(longest.into_iter().take(TOP_PER_STAGE).map(|(name, stats)| StageKernelRow {
            stage: stage.stage.clone(),
            kernel: names.get(name).map_or_else(String::new, |name| name.short.clone()),
            name_index: name,
            times: times(&stats),
            stage_kernel_sum_percent: share(&stats, all_ns),
            ..StageKernelRow::default()
        }));
    }
    rows
}

fn times(stats: &Stats) -> Times {
    Times {
        calls: stats.calls,
        recorded_calls: stats.recorded.map(|recorded| recorded.calls),
        invalid_timestamp_calls: stats.untimed,
        graph_calls: stats.graph_calls,
        total_ns: stats.total_ns,
        mean_ns: stats.mean_ns(),
        min_ns: stats.min_ns,
        p50_ns: stats.percentile_ns(50),
        p99_ns: stats.p99_ns(),
        max_ns: stats.max_ns,
        first_start_gpu_ns: stats.first_start_ns,
        last_end_gpu_ns: stats.last_end_ns,
        cold_calls: stats.cold_calls,
        cold_total_ns: stats.cold_ns,
    }
}

/// Keeps what is known of cold instances only where these are left out: where a stage has others, and all of its
/// instances were recorded.
pub(super) fn keep_cold_of(
    stages: &[StageRow],
    rows: &mut [KernelRow],
    longest: &mut [StageKernelRow],
) {
    let is_left_out = stages.iter().filter(|stage| stage.leaves_cold_out());
    let known: HashSet<&str> = is_left_out.map(|stage| stage.stage.as_str()).collect();
    let of_rows = rows.iter_mut().map(|row| (&row.stage, &mut row.times));
    let of_longest = longest.iter_mut().map(|row| (&row.stage, &mut row.times));
    for (stage, times) in of_rows.chain(of_longest) {
        if !known.contains(stage.as_str()) || times.recorded_calls.is_some() {
            (times.cold_calls, times.cold_total_ns) = (0, 0);
        }
    }
}

/// Its part of `all_ns` in percent; nothing where no execution was timed.
fn share(stats: &Stats, all_ns: u64) -> Option<f64> {
    percent(stats.total_ns, all_ns).filter(|_| stats.timed() > 0)
}

/// `part` of `whole` in percent; nothing of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

/// Longest total first, then most calls.
fn order(times: &Times) -> (Reverse<u64>, Reverse<u64>) {
    (Reverse(times.total_ns), Reverse(times.calls))
}

fn kernel_order<'r>(row: &'r KernelRow, names: &'r [KernelName]) -> impl Ord + 'r {
    let name = names.get(row.name_index).map(|name| &name.mangled);
    (order(&row.times), name, row.path_index, row.launch, &row.device)
}

/// Numbers the short names that stand for several kernels (`#1`, `#2`, ... by mangled name).
pub(super) fn distinct(names: impl Iterator<Item = KernelName>) -> Vec<KernelName> {
    let mut names: Vec<KernelName> = names.collect();
    let mut by_short: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, name) in names.iter().enumerate() {
        by_short.entry(name.short.clone()).or_default().push(index);
    }
    for mut same in by_short.into_values().filter(|same| same.len() > 1) {
        same.order_by_cached_key(|&index| names.get(index).map(|name| name.mangled.clone()));
        for (number, index) in same.into_iter().enumerate() {
            if let Some(name) = names.get_mut(index) {
                name.short = format!("{} #{}", name.short, number + 1);
            }
        }
    }
    names
}

/// What `CUpti_ActivityMemcpyKind` says.
pub(crate) fn direction(kind: u8) -> String {
    let name = match kind {
        1 => "host to device",
        2 => "device to host",
        3 => "host to array",
        4 => "array to host",
        5 => "array to array",
        6 => "array to device",
        7 => "device to array",
        8 => "device to device",
        9 => "host to host",
        10 => "peer to peer",
        0 => "not known",
        other => return format!("kind {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_share_a_short_name_are_numbered() {
        let name = |mangled: &str, short: &str| KernelName {
            mangled: mangled.into(),
            demangled: mangled.into(),
            short: short.into(),
            ..KernelName::default()
        };
        let names = distinct([name("c", "f<…>"), name("a", "f<…>"), name("b", "g")].into_iter());
        let short: Vec<&str> = names.iter().map(|n| n.short.as_str()).collect();
        assert_eq!(short, ["f<…> #2", "f<…> #1", "g"]);
    }

    #[test]
    fn directions_of_later_cupti_versions_are_numbers() {
        assert_eq!(direction(1), "host to device");
        assert_eq!(direction(200), "kind 200");
    }

    #[test]
    fn shares_of_nothing_are_absent() {
        assert_eq!(percent(1, 0), None);
        assert_eq!(percent(1, 4), Some(25.0));
    }
}
