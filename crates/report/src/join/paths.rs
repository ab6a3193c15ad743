//! Times of ranges and groups of GPU work -> the tree of range paths, and what is told of the names of ranges.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;

use crate::join::{Groups, Labels, Mapping, Node, Tables};
use rustc_hash::{FxBuildHasher, FxHashSet};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::count;
use stage2_contract::text::{listed, shorten};
use stage2_model::finding::Id;
use stage2_model::{Finding, PathKind, PathRow};
use stage2_read::roles::RoleSettings;
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::ranges::PathTimes;
use stage2_read::trace::stats::Work;

/// Times of all paths, summed over processes.
#[derive(Debug, Default)]
pub(super) struct PathTotals {
    times: HashMap<u32, PathTimes>,
    /// Paths whose GPU work was recorded: only there, no kernels are zero kernels.
    recorded: HashSet<u32>,
    /// Hashes of the names that a path stands for.
    joined: HashMap<u32, FxHashSet<u64>>,
    /// Some process recorded GPU work; else nobody says of how many instances.
    some_recorded: bool,
}

pub(super) struct Rows {
    pub(super) rows: Vec<PathRow>,
    pub(super) of_path: Vec<usize>,
    /// Rows with start/end ranges in no other range that were open at the same time on one thread.
    pub(super) side_by_side: Vec<usize>,
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
pub(super) fn add_times(sum: &mut PathTimes, times: &PathTimes, gpu_recorded: bool) {
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
    if let Some(ns) = times.host_first_ns {
        let (firsts, all_ns) = sum.firsts;
        sum.firsts = (firsts.saturating_add(1), all_ns.saturating_add(ns));
    }
    sum.host_warm_ns.merge(&times.host_warm_ns);
    sum.sampled.add(times.sampled);
    sum.side_by_side |= times.side_by_side;
}

impl PathTotals {
    pub(super) fn add_process(&mut self, process: &ProcessCapture, mapping: &Mapping) {
        let gpu_recorded = process.gpu_recorded();
        self.some_recorded |= gpu_recorded;
        if gpu_recorded && !process.gated {
            self.recorded.extend(&mapping.paths);
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
    pub(super) fn rows(&self, groups: &Groups, labels: &Labels<'_>) -> Rows {
        let tables = labels.tables;
        let sums = self.sums(groups, tables);
        let order = tree_order(tables, &sums);
        let mut row_of_path = vec![0; tables.nodes.len()];
        for (row, &path) in order.iter().enumerate() {
            row_of_path.get_mut(path as usize).into_iter().for_each(|slot| *slot = row);
        }
        let (mut rows, mut side_by_side) = (Vec::with_capacity(order.len()), Vec::new());
        for path in order {
            let Some(node) = tables.nodes.get(path as usize) else { continue };
            let sum = sums.get(path as usize).copied().unwrap_or_default();
            let exclusive = Some(sum).filter(|sum| sum.recorded);
            let inclusive = Some(sum).filter(|sum| sum.recorded_within);
            let times = self.times.get(&path);
            side_by_side.extend(times.filter(|times| times.side_by_side).map(|_| rows.len()));
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
                in_closed: None,
                host_total_ns: times.and_then(|times| times.host_total_ns),
                host_first_ns: times.and_then(|times| times.host_first_ns),
                firsts: times.map_or(0, |times| times.firsts.0),
                firsts_host_ns: times.map_or(0, |times| times.firsts.1),
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
        siblings.order_by_cached_key(|&path| {
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

// Few of them are told, and not put together: `layer_0` and `layer_1` are different layers. Of many, the
// loader makes one name (see [`alike`](stage2_read::trace::alike)), which is told as well.

/// Names from which a number is not chance.
const MANY: usize = 4;
const NAME_LIMIT: usize = 60;
const JOINED_NAMED: usize = 3;

/// What to tell of the largest group of such ranges.
pub(super) fn numbered_ranges(rows: &[PathRow], roles: &RoleSettings) -> Option<Finding> {
    // What was opened again has warm times of its own.
    let is_once = |row: &&PathRow| {
        let is_warm = row.host_warm_median_ns.is_some();
        row.kind == PathKind::Range && !is_warm && row.instances.is_some()
    };
    let mut groups: BTreeMap<(Option<usize>, &str), Vec<&PathRow>> = BTreeMap::new();
    for row in rows.iter().filter(is_once) {
        if let Some(stem) = stem(row, roles) {
            groups.entry((row.parent, stem)).or_default().push(row);
        }
    }
    let group = groups.into_values().filter(|of| of.len() >= MANY).max_by_key(Vec::len)?;
    let (first, last) = (group.first()?, group.last()?);
    Some(Id::RangesNumbered.about(&first.name).found(
        format!(
            "{} ranges have names that differ in a number only: {} ... {}",
            group.len(),
            shorten(&first.name, NAME_LIMIT),
            shorten(&last.name, NAME_LIMIT)
        ),
        "each name counts by itself and was opened once, so that there is no time of a warm step and \
         no percentile",
        "open all of them under one name and keep the number next to it: \
         `with stage2.annotate(\"step\", number=i)`, or as the payload of the NVTX range",
    ))
}

/// What to tell of names that count as one.
pub(super) fn joined_names(rows: &[PathRow]) -> Option<Finding> {
    let mut joined: Vec<(&PathRow, u64)> =
        rows.iter().filter_map(|row| Some((row, row.joined_names?))).collect();
    joined.order_by_key(|(_, names)| Reverse(*names));
    let told = |(row, names): &(&PathRow, u64)| {
        format!("{} ({} names)", shorten(&row.name, NAME_LIMIT), count(*names))
    };
    joined.first()?;
    Some(Id::RangesJoined.found(
        format!(
            "names of ranges that differ in a number or an identifier only count as one range: {}",
            listed(&joined.iter().map(told).collect::<Vec<_>>(), JOINED_NAMED)
        ),
        "there are too many: each would be a range with an instance or two, without a warm \
         time; times, shares and percentiles are over all instances of the joined range",
        "exports (`stage2-launch export`) and the trace files have each instance under its own name",
    ))
}

/// The name without the number at its end, if it may be that of a step.
fn stem<'r>(row: &'r PathRow, roles: &RoleSettings) -> Option<&'r str> {
    let stem = row.name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_numbered = stem.len() < row.name.len() && !stem.is_empty();
    (is_numbered && (row.depth == 0 || roles.is_step(stem))).then_some(stem)
}

/// What to tell of the row with the most kernels among those at the indices `side_by_side`.
pub(super) fn side_by_side_ranges(rows: &[PathRow], side_by_side: &[usize]) -> Option<Finding> {
    let rows = side_by_side.iter().filter_map(|&index| rows.get(index));
    let kernels = |row: &&PathRow| row.kernels_inclusive.unwrap_or(0);
    let row = rows.filter(|row| kernels(row) > 0).max_by_key(kernels)?;
    let name = shorten(&row.name, NAME_LIMIT);
    Some(Id::RangesOverlapping.about(&name).found(
        format!("start/end ranges of the name {name} overlap, and kernels were launched in them"),
        format!(
            "{name} is a stage with all ranges of that thread in it, since work belongs to every range \
             that is open at its launch; of several instances it counts for the one that began last"
        ),
        "to have the ranges within as stages, open these ranges on a thread that launches nothing, or \
         in a separate NVTX domain that report.library_domains names",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many names with one beginning.
    fn numbered(
        count: u64,
        stem: &str,
        parent: Option<usize>,
        warm: Option<u64>,
    ) -> Option<Finding> {
        let row = |number| PathRow {
            name: format!("{stem}{number}"),
            parent,
            depth: u64::from(parent.is_some()),
            instances: Some(1),
            host_warm_median_ns: warm,
            ..PathRow::default()
        };
        numbered_ranges(&(0..count).map(row).collect::<Vec<_>>(), &RoleSettings::default())
    }

    #[test]
    fn numbered_steps_are_told_with_the_remedy() {
        let finding = numbered(5, "ProfilerStep#", None, None).expect("a finding");
        let what =
            "5 ranges have names that differ in a number only: ProfilerStep#0 ... ProfilerStep#4";
        assert_eq!(finding.what, what);
        assert!(finding.remedy.contains("stage2.annotate"), "{finding}");
        assert!(numbered(5, "decode_step_", Some(0), None).is_some(), "within a stage");
        for (count, stem, parent, warm) in [
            (5, "layer_", Some(0), None),
            (5, "step_", None, Some(5)),
            // A number alone is no name of a step.
            (5, "", None, None),
            (2, "step_", None, None),
        ] {
            assert_eq!(numbered(count, stem, parent, warm), None, "{count} {stem}");
        }
    }

    #[test]
    fn of_ranges_side_by_side_the_one_with_the_most_kernels_is_told() {
        let row = |name: &str, kernels| PathRow {
            name: name.into(),
            kernels_inclusive: kernels,
            ..PathRow::default()
        };
        let rows = [row("decode", Some(900)), row("session", Some(9)), row("request", Some(90))];
        let finding = side_by_side_ranges(&rows, &[1, 2]).expect("a finding");
        assert!(finding.what.contains("the name request overlap"), "{finding}");
        assert!(finding.remedy.contains("report.library_domains"), "{finding}");
        assert_eq!(side_by_side_ranges(&rows, &[]), None, "they follow each other");
        let idle = [row("request", Some(0)), row("other", None)];
        assert_eq!(side_by_side_ranges(&idle, &[0, 1]), None);
    }
}
