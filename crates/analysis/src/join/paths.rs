//! Times of ranges and groups of GPU work -> the tree of range paths.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::Groups;
use super::intern::{Mapping, Tables};
use super::labels::Labels;
use crate::load::ProcessCapture;
use crate::load::ranges::PathTimes;
use crate::load::stats::Work;
use stage2_model::{PathKind, PathRow};

/// Times of all paths, summed over processes.
#[derive(Debug, Default)]
pub(crate) struct PathTotals {
    times: HashMap<u32, PathTimes>,
    /// Paths whose GPU work was recorded: only there, no kernels are zero kernels.
    recorded: HashSet<u32>,
    /// Some process recorded GPU work; else nobody says of how many instances.
    some_recorded: bool,
}

/// Kernels under a path, within deeper ranges or not.
#[derive(Clone, Copy, Debug, Default)]
struct Kernels {
    inclusive: u64,
    exclusive: u64,
    inclusive_ns: u64,
    exclusive_ns: u64,
}

/// Adds the times of another process; the first instance of each stays out of the warm ones.
/// `gpu_recorded`: its GPU work was.
pub(crate) fn add_times(sum: &mut PathTimes, times: &PathTimes, gpu_recorded: bool) {
    let recorded = if gpu_recorded { times.recorded } else { Some(0) };
    if sum.recorded.is_some() || recorded.is_some() {
        let both = sum.recorded.unwrap_or(sum.instances);
        sum.recorded = Some(both.saturating_add(recorded.unwrap_or(times.instances)));
    }
    sum.instances = sum.instances.saturating_add(times.instances);
    sum.unclosed = sum.unclosed.saturating_add(times.unclosed);
    sum.host_total_ns = match (sum.host_total_ns, times.host_total_ns) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
    sum.host_first_ns = sum.host_first_ns.or(times.host_first_ns);
    sum.host_warm_ns.merge(&times.host_warm_ns);
    sum.sampled.add(times.sampled);
}

impl PathTotals {
    /// Takes what `process` measured.
    pub(crate) fn take(&mut self, process: &ProcessCapture, mapping: &Mapping) {
        let gpu_recorded = process.gpu_recorded();
        self.some_recorded |= gpu_recorded;
        if gpu_recorded && !process.gated {
            self.recorded.extend(mapping.paths());
        }
        self.recorded.extend(process.groups.iter().map(|(key, _)| mapping.path(key.path)));
        for (&path, times) in &process.path_times {
            let path = mapping.path(path);
            add_times(self.times.entry(path).or_default(), times, gpu_recorded);
            if gpu_recorded && times.recorded.is_some_and(|recorded| recorded > 0) {
                self.recorded.insert(path);
            }
        }
    }

    /// The rows in tree order, and for each path the index of its row.
    pub(crate) fn rows(
        mut self,
        groups: &Groups,
        labels: &Labels<'_>,
    ) -> (Vec<PathRow>, Vec<usize>) {
        let tables = labels.tables;
        let kernels = kernels_by_path(groups, tables);
        let used: Vec<bool> = self.used(groups, tables);
        let order = tree_order(tables, &kernels, &used);
        let mut row_of_path = vec![0; tables.nodes.len()];
        for (row, &path) in order.iter().enumerate() {
            if let Some(slot) = row_of_path.get_mut(path as usize) {
                *slot = row;
            }
        }
        let recorded_within = self.recorded_within(tables);
        let mut rows = Vec::with_capacity(order.len());
        for path in order {
            let Some(node) = tables.nodes.get(path as usize) else { continue };
            let counted = kernels.get(path as usize).copied().unwrap_or_default();
            let exclusive = self.recorded.contains(&path).then_some(counted);
            let within = recorded_within.get(path as usize) == Some(&true);
            let inclusive = within.then_some(counted);
            let times = self.times.remove(&path);
            rows.push(PathRow {
                path: labels.path(path).to_owned(),
                name: node.name.clone(),
                domain: node.domain.clone(),
                kind: node.kind,
                parent: node.parent.and_then(|p| row_of_path.get(p as usize)).copied(),
                depth: node.depth,
                instances: times.as_ref().map(|times| times.instances),
                recorded_instances: times
                    .as_ref()
                    .and_then(|times| times.recorded.filter(|_| self.some_recorded)),
                unclosed: times.as_ref().map(|times| times.unclosed),
                host_total_ns: times.as_ref().and_then(|times| times.host_total_ns),
                host_first_ns: times.as_ref().and_then(|times| times.host_first_ns),
                host_warm_median_ns: times.as_ref().and_then(|times| times.host_warm_ns.median()),
                kernels_inclusive: inclusive.map(|k| k.inclusive),
                kernels_exclusive: exclusive.map(|k| k.exclusive),
                kernel_sum_inclusive_ns: inclusive.map(|k| k.inclusive_ns),
                kernel_sum_exclusive_ns: exclusive.map(|k| k.exclusive_ns),
            });
        }
        (rows, row_of_path)
    }

    /// For each path, whether GPU work was recorded in it or in a range within it.
    fn recorded_within(&self, tables: &Tables) -> Vec<bool> {
        let mut within: Vec<bool> =
            (0..).zip(&tables.nodes).map(|(path, _)| self.recorded.contains(&path)).collect();
        for (index, node) in tables.nodes.iter().enumerate().rev() {
            if within.get(index) == Some(&true)
                && let Some(around) = node.parent.and_then(|p| within.get_mut(p as usize))
            {
                *around = true;
            }
        }
        within
    }

    /// Every range, and of the stand-ins those that something refers to.
    fn used(&self, groups: &Groups, tables: &Tables) -> Vec<bool> {
        let mut used: Vec<bool> =
            tables.nodes.iter().map(|node| node.kind == PathKind::Range).collect();
        let mut mark = |path: u32| {
            if let Some(slot) = used.get_mut(path as usize) {
                *slot = true;
            }
        };
        groups.keys().for_each(|key| mark(key.path));
        self.times.keys().for_each(|&path| mark(path));
        tables.nodes.iter().filter_map(|node| node.parent).for_each(mark);
        // Children of the stand-in for undefined ranges come with their parent.
        for (slot, node) in used.iter_mut().zip(&tables.nodes) {
            *slot |= node.parent.is_some();
        }
        used
    }
}

fn kernels_by_path(groups: &Groups, tables: &Tables) -> Vec<Kernels> {
    let mut kernels = vec![Kernels::default(); tables.nodes.len()];
    for (key, stats) in groups {
        if let (Work::Kernel(_), Some(own)) = (key.work, kernels.get_mut(key.path as usize)) {
            own.exclusive = own.exclusive.saturating_add(stats.calls);
            own.exclusive_ns = own.exclusive_ns.saturating_add(stats.total_ns);
        }
    }
    // Children stand behind their parents, so that going backwards meets every child complete.
    for (index, node) in tables.nodes.iter().enumerate().rev() {
        let Some(own) = kernels.get_mut(index) else { continue };
        own.inclusive = own.inclusive.saturating_add(own.exclusive);
        own.inclusive_ns = own.inclusive_ns.saturating_add(own.exclusive_ns);
        let done = *own;
        let around = node.parent.and_then(|parent| kernels.get_mut(parent as usize));
        if let Some(around) = around {
            around.inclusive = around.inclusive.saturating_add(done.inclusive);
            around.inclusive_ns = around.inclusive_ns.saturating_add(done.inclusive_ns);
        }
    }
    kernels
}

/// Depth first; of siblings, ranges before stand-ins, then the longest kernels, then by name.
fn tree_order(tables: &Tables, kernels: &[Kernels], used: &[bool]) -> Vec<u32> {
    let mut children: HashMap<Option<u32>, Vec<u32>> = HashMap::new();
    for (index, node) in tables.nodes.iter().enumerate() {
        if used.get(index) == Some(&true) {
            children.entry(node.parent).or_default().push(index as u32);
        }
    }
    for siblings in children.values_mut() {
        siblings.sort_by_cached_key(|&path| {
            let node = tables.nodes.get(path as usize);
            let ns = kernels.get(path as usize).map_or(0, |k| k.inclusive_ns);
            (node.map(|n| n.kind), Reverse(ns), node.map(|n| (n.name.clone(), n.domain.clone())))
        });
        // The stack gives back the last one first.
        siblings.reverse();
    }
    let mut stack = children.remove(&None).unwrap_or_default();
    let mut order = Vec::with_capacity(tables.nodes.len());
    while let Some(path) = stack.pop() {
        order.push(path);
        stack.extend(children.remove(&Some(path)).unwrap_or_default());
    }
    order
}
