//! Attributed GPU work into the bounded tables that are shown when the guest ends.

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::stats::{Busy, Histogram, Unions, scaled};

use crate::base::counters::Counters;
use crate::drain::intern::Interner;
use crate::drain::ranges::ClosedRange;
use crate::guest::event::Selection;

/// Stands for "could not be attributed" where a path number is expected.
pub(crate) const UNATTRIBUTED: u32 = u32::MAX;
/// Rows kept; work that would need a further one is counted under its path without a name.
const MAX_ROWS: usize = 1 << 13;
/// Range paths kept; ranges beyond are not listed.
const MAX_PATHS: usize = 1 << 15;
/// Paths of which the longest instance is known.
const MAX_LONGEST: usize = 1 << 10;
/// Intervals collected for the busy times before they are sorted in, and kept afterwards.
const INTERVALS: (usize, usize) = (1 << 13, 1 << 16);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// A kernel, by the number of its name.
    Kernel(u32),
    /// A copy of a direction (`CUpti_ActivityMemcpyKind`).
    Copy(u8),
    Fill,
    /// Replays of an executable graph, as wholes.
    Graph(u32),
    /// Everything for which there was no row left.
    Folded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Path of the open ranges, 0 for none, [`UNATTRIBUTED`].
    pub(crate) path: u32,
    pub(crate) work: Work,
    pub(crate) device: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// How often it ran, timed or not.
    pub(crate) calls: u64,
    /// How often it ran with valid timestamps.
    pub(crate) timed: u64,
    pub(crate) total_ns: u64,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) histogram: Histogram,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Instances {
    pub(crate) count: u64,
    /// How many of them were asked for (only counted where some ranges are collected).
    pub(crate) asked: u64,
    /// How many of those were collected.
    pub(crate) recorded: u64,
    /// Time between opening and closing, summed, ns.
    pub(crate) host_ns: u64,
}

impl Instances {
    pub(crate) fn add(&mut self, more: &Instances) {
        self.count = self.count.saturating_add(more.count);
        self.asked = self.asked.saturating_add(more.asked);
        self.recorded = self.recorded.saturating_add(more.recorded);
        self.host_ns = self.host_ns.saturating_add(more.host_ns);
    }

    /// What stands for all instances, given that only some were recorded. As it is where none
    /// was asked for or recorded (the work of a range that went on under another path).
    pub(crate) fn scaled(&self, recorded: u64) -> u64 {
        if self.recorded == 0 {
            return recorded;
        }
        scaled(recorded, self.asked, self.recorded).unwrap_or(u64::MAX)
    }
}

pub(crate) struct Aggregates {
    row_of: FxHashMap<Key, u32>,
    /// Each with the union of its device.
    rows: Vec<(Key, Row, usize)>,
    instances: FxHashMap<u32, Instances>,
    /// Of the first paths: steps and what is within them are few.
    longest_ns: FxHashMap<u32, u64>,
    unions: Unions,
    union_of: FxHashMap<u32, usize>,
}

impl Default for Aggregates {
    fn default() -> Self {
        let (batch, window) = INTERVALS;
        Aggregates {
            row_of: FxHashMap::default(),
            rows: Vec::new(),
            instances: FxHashMap::default(),
            longest_ns: FxHashMap::default(),
            unions: Unions::with_limits(batch, window),
            union_of: FxHashMap::default(),
        }
    }
}

impl Aggregates {
    /// Counts a piece of work. `ran`: when, ns on the GPU clock; `None` where the times are not valid.
    pub(crate) fn add(&mut self, key: Key, ran: Option<(u64, u64)>, counters: &Counters) {
        let index = match self.row_of.get(&key) {
            Some(&index) => index,
            None => self.new_row(key, counters),
        };
        let Some((_, row, union)) = self.rows.get_mut(index as usize) else { return };
        row.calls += 1;
        let Some((start, end)) = ran else { return };
        let duration = end.saturating_sub(start);
        row.min_ns = if row.timed == 0 { duration } else { row.min_ns.min(duration) };
        row.max_ns = row.max_ns.max(duration);
        row.timed += 1;
        row.total_ns = row.total_ns.saturating_add(duration);
        row.histogram.add(duration);
        self.unions.add(*union, start, end);
    }

    fn new_row(&mut self, key: Key, counters: &Counters) -> u32 {
        let key = if self.rows.len() < MAX_ROWS {
            key
        } else {
            counters.aggregates_folded.increment();
            // Beyond these even the paths are given up.
            let path = if self.rows.len() < 2 * MAX_ROWS { key.path } else { 0 };
            Key { work: Work::Folded, path, ..key }
        };
        if let Some(&index) = self.row_of.get(&key) {
            return index;
        }
        let union = *self.union_of.entry(key.device).or_insert_with(|| self.unions.create());
        let index = self.rows.len() as u32;
        self.row_of.insert(key, index);
        self.rows.push((key, Row::default(), union));
        index
    }

    pub(crate) fn add_range(&mut self, closed: ClosedRange) {
        if self.instances.len() >= MAX_PATHS && !self.instances.contains_key(&closed.path) {
            return;
        }
        let instances = self.instances.entry(closed.path).or_default();
        instances.count += u64::from(closed.counts);
        instances.asked += u64::from(closed.counts && closed.selection != Selection::Inherit);
        instances.recorded += u64::from(closed.counts && closed.selection == Selection::Collect);
        instances.host_ns = instances.host_ns.saturating_add(closed.host_ns);
        if self.longest_ns.len() < MAX_LONGEST || self.longest_ns.contains_key(&closed.path) {
            let longest = self.longest_ns.entry(closed.path).or_default();
            *longest = closed.host_ns.max(*longest);
        }
    }

    /// How many instances of a path have closed, and how long the longest took, ns; nothing of one that is not known.
    pub(crate) fn closed(&self, path: u32) -> Option<(u64, u64)> {
        Some((self.instances.get(&path)?.count, *self.longest_ns.get(&path)?))
    }

    /// The paths in which work was launched, and those around them.
    pub(crate) fn with_work(&self, names: &Interner) -> FxHashSet<u32> {
        let mut all = FxHashSet::default();
        for (key, ..) in &self.rows {
            let mut path = Some(key.path);
            while let Some(at) = path.filter(|at| all.insert(*at)) {
                path = names.path_of(at).map(|node| node.parent);
            }
        }
        all
    }

    pub(crate) fn finish(self) -> Totals {
        let busy = self.unions.finish();
        let busy_of = |(device, i)| (device, busy.get(i).copied().unwrap_or_default());
        let mut busy: Vec<(u32, Busy)> = self.union_of.into_iter().map(busy_of).collect();
        busy.sort_by_key(|&(device, _)| device);
        Totals {
            rows: self.rows.into_iter().map(|(key, row, _)| (key, row)).collect(),
            instances: self.instances,
            busy,
        }
    }
}

pub(crate) struct Totals {
    /// In no order.
    pub(crate) rows: Vec<(Key, Row)>,
    pub(crate) instances: FxHashMap<u32, Instances>,
    /// Time in which each GPU was busy, in the order of their numbers.
    pub(crate) busy: Vec<(u32, Busy)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: u32, name: u32) -> Key {
        Key { path, work: Work::Kernel(name), device: 0 }
    }

    #[test]
    fn calls_times_and_busy_time() {
        let (mut aggregates, counters) = (Aggregates::default(), Counters::default());
        for ran in [Some((10, 20)), Some((15, 30)), None, Some((40, 41))] {
            aggregates.add(key(1, 1), ran, &counters);
        }
        let totals = aggregates.finish();
        let (_, row) = &totals.rows[0];
        assert_eq!((row.calls, row.timed, row.total_ns), (4, 3, 26));
        assert_eq!((row.min_ns, row.max_ns), (1, 15));
        assert_eq!(totals.busy[0].1.busy_ns, 21);
    }

    #[test]
    fn rows_are_bounded_and_what_is_folded_is_counted_and_kept_in_the_sums() {
        let (mut aggregates, counters) = (Aggregates::default(), Counters::default());
        for name in 0..MAX_ROWS as u32 + 10 {
            aggregates.add(key(1, name), Some((0, 5)), &counters);
        }
        assert_eq!(counters.aggregates_folded.get(), 10);
        let totals = aggregates.finish();
        assert_eq!(totals.rows.iter().map(|(_, row)| row.calls).sum::<u64>(), MAX_ROWS as u64 + 10);
        assert!(totals.rows.len() <= MAX_ROWS + 1);
    }
}
