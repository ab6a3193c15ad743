//! Times of ranges and groups of GPU work -> the tree of range paths.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashSet};

use super::Groups;
use super::intern::{Mapping, Node, Tables};
use super::labels::Labels;
use stage2_model::{PathKind, PathRow};
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::ranges::PathTimes;
use stage2_read::trace::stats::Work;

/// Times of all paths, summed over processes.
#[derive(Debug, Default)]
pub(crate) struct PathTotals {
    times: HashMap<u32, PathTimes>,
    /// Paths whose GPU work was recorded: only there, no kernels are zero kernels.
    recorded: HashSet<u32>,
    /// Hashes of the names that a path stands for.
    joined: HashMap<u32, FxHashSet<u64>>,
    /// Some process recorded GPU work; else nobody says of how many instances.
    some_recorded: bool,
}

/// The tree of paths.
pub(crate) struct Rows {
    pub(crate) rows: Vec<PathRow>,
    /// For each path the index of its row.
    pub(crate) of_path: Vec<usize>,
    /// Rows with start/end ranges in no other range that were open at the same time on one thread.
    pub(crate) side_by_side: Vec<usize>,
}

/// What the groups say of a path.
#[derive(Clone, Copy, Debug, Default)]
struct PathSum {
    /// Something refers to it, or it is a range.
    used: bool,
    recorded: bool,
    /// GPU work was recorded in it or in a range within it.
    recorded_within: bool,
    kernels_inclusive: u64,
    kernels_exclusive: u64,
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
    sum.side_by_side |= times.side_by_side;
}

impl PathTotals {
    pub(crate) fn take(&mut self, process: &ProcessCapture, mapping: &Mapping) {
        let gpu_recorded = process.gpu_recorded();
        self.some_recorded |= gpu_recorded;
        if gpu_recorded && !process.gated {
            self.recorded.extend(mapping.paths());
        }
        self.recorded.extend(process.groups.iter().map(|(key, _)| mapping.path(key.path)));
        for (&path, names) in &process.joined_names {
            let bytes = names.iter().filter_map(|&name| process.names.get(name as usize));
            let hashes = bytes.map(|name| FxBuildHasher.hash_one(name));
            self.joined.entry(mapping.path(path)).or_default().extend(hashes);
        }
        for (&path, times) in &process.path_times {
            let path = mapping.path(path);
            add_times(self.times.entry(path).or_default(), times, gpu_recorded);
            if gpu_recorded && times.recorded.is_some_and(|recorded| recorded > 0) {
                self.recorded.insert(path);
            }
        }
    }

    /// The rows in tree order.
    pub(crate) fn rows(mut self, groups: &Groups, labels: &Labels<'_>) -> Rows {
        let tables = labels.tables;
        let sums = self.sums(groups, tables);
        let order = tree_order(tables, &sums);
        let mut row_of_path = vec![0; tables.nodes.len()];
        for (row, &path) in order.iter().enumerate() {
            if let Some(slot) = row_of_path.get_mut(path as usize) {
                *slot = row;
            }
        }
        let (mut rows, mut side_by_side) = (Vec::with_capacity(order.len()), Vec::new());
        for path in order {
            let Some(node) = tables.nodes.get(path as usize) else { continue };
            let sum = sums.get(path as usize).copied().unwrap_or_default();
            let exclusive = Some(sum).filter(|sum| sum.recorded);
            let inclusive = Some(sum).filter(|sum| sum.recorded_within);
            let times = self.times.remove(&path);
            let times = times.as_ref();
            if times.is_some_and(|times| times.side_by_side) {
                side_by_side.push(rows.len());
            }
            rows.push(PathRow {
                path: labels.path(path).to_owned(),
                name: node.name.clone(),
                domain: node.domain.clone(),
                kind: node.kind,
                parent: node.parent.and_then(|p| row_of_path.get(p as usize)).copied(),
                depth: node.depth,
                joined_names: self.joined.get(&path).map(|names| names.len() as u64),
                instances: times.map(|times| times.instances),
                recorded_instances: times
                    .and_then(|times| times.recorded.filter(|_| self.some_recorded)),
                unclosed: times.map(|times| times.unclosed),
                host_total_ns: times.and_then(|times| times.host_total_ns),
                host_first_ns: times.and_then(|times| times.host_first_ns),
                host_warm_median_ns: times.and_then(|times| times.host_warm_ns.median()),
                kernels_inclusive: inclusive.map(|sum| sum.kernels_inclusive),
                kernels_exclusive: exclusive.map(|sum| sum.kernels_exclusive),
                kernel_sum_inclusive_ns: inclusive.map(|sum| sum.inclusive_ns),
                kernel_sum_exclusive_ns: exclusive.map(|sum| sum.exclusive_ns),
            });
        }
        Rows { rows, of_path: row_of_path, side_by_side }
    }

    fn sums(&self, groups: &Groups, tables: &Tables) -> Vec<PathSum> {
        let known = |(path, node): (u32, &Node)| {
            let recorded = self.recorded.contains(&path);
            let is_range = node.kind == PathKind::Range || node.parent.is_some();
            let used = is_range || self.times.contains_key(&path);
            PathSum { used, recorded, recorded_within: recorded, ..PathSum::default() }
        };
        let mut sums: Vec<PathSum> = (0..).zip(&tables.nodes).map(known).collect();
        for (key, stats) in groups {
            let Some(own) = sums.get_mut(key.path as usize) else { continue };
            own.used = true;
            if matches!(key.work, Work::Kernel(_)) {
                own.kernels_exclusive = own.kernels_exclusive.saturating_add(stats.calls);
                own.exclusive_ns = own.exclusive_ns.saturating_add(stats.total_ns);
            }
        }
        // Children stand behind their parents, so that going backwards meets every child complete.
        for (index, node) in tables.nodes.iter().enumerate().rev() {
            let Some(own) = sums.get_mut(index) else { continue };
            own.kernels_inclusive = own.kernels_inclusive.saturating_add(own.kernels_exclusive);
            own.inclusive_ns = own.inclusive_ns.saturating_add(own.exclusive_ns);
            let own = *own;
            if let Some(around) = node.parent.and_then(|parent| sums.get_mut(parent as usize)) {
                around.used = true;
                around.recorded_within |= own.recorded_within;
                around.kernels_inclusive =
                    around.kernels_inclusive.saturating_add(own.kernels_inclusive);
                around.inclusive_ns = around.inclusive_ns.saturating_add(own.inclusive_ns);
            }
        }
        sums
    }
}

/// Depth first; of siblings, ranges before stand-ins, then the longest kernels, then by name.
fn tree_order(tables: &Tables, sums: &[PathSum]) -> Vec<u32> {
    let mut children: HashMap<Option<u32>, Vec<u32>> = HashMap::new();
    for (index, node) in tables.nodes.iter().enumerate() {
        if sums.get(index).is_some_and(|sum| sum.used) {
            children.entry(node.parent).or_default().push(index as u32);
        }
    }
    for siblings in children.values_mut() {
        siblings.sort_by_cached_key(|&path| {
            let node = tables.nodes.get(path as usize);
            let ns = sums.get(path as usize).map_or(0, |sum| sum.inclusive_ns);
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
