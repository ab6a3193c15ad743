//! Range records -> instances, and how long each stage and path was open.
//!
//! An instance is one opening of a range. Work is placed by the instance it was launched in and
//! counted for the outermost instance of the user around it: a range of a library is no stage, even
//! where it is open around everything. A record that continues an instance under another path adds
//! time to that path, but is no instance of it. Memory is bounded by the open
//! ranges, the paths and the windows of [`instances`](super::instances) and
//! [`roots`](super::roots), not by the number of instances.

use std::collections::HashMap;

use rustc_hash::FxHashMap;
use stage2_spool::{MonoNs, RANGE_OUTSIDE, RangeOpen};

use super::clock::ClockMap;
use super::instances::{Entry, Instances, NO_ROOT};
use super::paths::{PathIndex, Paths};
pub use super::roots::{JoinedWindows, StageTimes, WarmTimes};
use super::roots::{OPEN, Roots};
use super::sampling::Sampled;
use super::series::Series;
use super::stats::Span;

/// Host times of instances that are kept one by one, over all paths of a file.
const EXACT_TIMES: usize = 1 << 20;

/// An instance that is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    start: u64,
    path: PathIndex,
    root: u32,
    /// It is that root.
    is_root: bool,
    counted: bool,
    /// Whether it was recorded, where not everything is; nothing: it was not asked for.
    sampled: Option<bool>,
}

/// How often and how long a path was open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathTimes {
    /// Instances, closed or not.
    pub instances: u64,
    /// Instances that were never closed.
    pub unclosed: u64,
    /// Host time of all closed instances and continuations, ns; nothing where none was closed.
    pub host_total_ns: Option<u64>,
    /// Host time of the first closed instance, ns.
    pub host_first_ns: Option<u64>,
    /// Host time of each closed instance but the first, ns.
    pub host_warm_ns: Series,
    /// Instances whose GPU work was recorded, closed or not; nothing: that of all was.
    pub recorded: Option<u64>,
    /// Instances that were asked for, where not everything is recorded, and those of them that
    /// `STAGE2_SAMPLE` took.
    pub sampled: Sampled,
}

/// A path, and when its first closed instance started.
#[derive(Debug, Default)]
struct Timed {
    times: PathTimes,
    first_start: u64,
}

/// Where a piece of GPU work belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Path of the innermost range.
    pub path: PathIndex,
    root: u32,
}

/// Records of ranges that contradict each other or name what is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeFaults {
    /// Ranges that name a path, a parent or a continued range that is not defined.
    pub undefined: u64,
    /// Closings of ranges that are not open, identifiers given twice, and ranges whose path does
    /// not start with the stage of the range around them.
    pub contradicting: u64,
}

/// All instances of one file.
#[derive(Debug, Default)]
pub struct Ranges {
    known: Instances,
    open: FxHashMap<u64, Open>,
    /// Continued identifier -> the identifier it goes on as.
    continued: HashMap<u64, u64>,
    roots: Roots,
    paths: HashMap<PathIndex, Timed>,
    /// Host times that are kept one by one.
    exact_times: usize,
    /// What was wrong.
    pub faults: RangeFaults,
}

impl Ranges {
    /// For work that comes before `window` further ranges were opened: memory for no more.
    pub(super) fn with_window(window: usize) -> Self {
        let (known, roots) = (Instances::with_window(window), Roots::with_window(window));
        Self { known, roots, ..Self::default() }
    }

    /// A range opened under `path` (already looked up; whether it was defined is `defined`).
    pub fn open(&mut self, record: &RangeOpen, path: PathIndex, defined: bool, paths: &Paths) {
        self.faults.undefined += u64::from(!defined);
        let counted = record.continues == 0;
        if !counted {
            if let Some(open) = self.same_path(record.continues, path) {
                self.continued.insert(record.continues, record.range);
                return self.insert(record.range, open);
            }
            self.go_on(record);
        }
        let node = paths.node(path);
        let start = record.start.0.min(OPEN - 1);
        let sampled = self.open.get(&record.parent).and_then(|open| open.sampled);
        let around = match node.user {
            Some(_) => self.root_around(record, node.top),
            None => Some(NO_ROOT),
        };
        let is_root = around.is_none();
        let root = around.unwrap_or_else(|| self.roots.open(node.top, start, counted, sampled));
        self.paths.entry(path).or_default().times.instances += u64::from(counted);
        self.insert(record.range, Open { start, path, root, is_root, counted, sampled });
    }

    /// Takes out an open instance that goes on under its own path, as one does that loses a range
    /// of a library around it: for the reader of a report nothing happened to it.
    fn same_path(&mut self, range: u64, path: PathIndex) -> Option<Open> {
        self.open.get(&range).filter(|open| open.path == path)?;
        self.open.remove(&range)
    }

    fn insert(&mut self, range: u64, open: Open) {
        let twice = self.known.get(range).is_some();
        self.known.insert(range, Entry { path: open.path, root: open.root });
        if let Some(lost) = self.open.insert(range, open) {
            self.never_closed(&lost);
        }
        self.faults.contradicting += u64::from(twice);
    }

    /// Only the work of ranges that are marked as recorded is.
    pub fn gate(&mut self) {
        self.roots.gated = true;
    }

    /// Whether that is so.
    pub fn is_gated(&self) -> bool {
        self.roots.gated
    }

    /// Joins the windows of `stage` with those of the other stages that this is said of.
    pub fn join(&mut self, stage: PathIndex) {
        self.roots.join(stage);
    }

    /// Whether the work of an open range is recorded, and of those opened in it from now on.
    pub fn sample(&mut self, range: u64, recorded: bool) {
        self.gate();
        let Some(open) = self.open.get_mut(&range) else {
            self.faults.undefined += 1;
            return;
        };
        open.sampled = Some(recorded);
        if open.is_root
            && let Some(root) = self.roots.get_mut(open.root)
        {
            root.sampled = Some(recorded);
        }
    }

    /// The root of the range that `record` was opened in, if it has one of the same stage.
    fn root_around(&mut self, record: &RangeOpen, stage: PathIndex) -> Option<u32> {
        if record.parent == RANGE_OUTSIDE {
            return None;
        }
        let around = self.open.get(&record.parent).map(|open| open.root);
        let around = around.or_else(|| Some(self.known.get(record.parent)?.root));
        if around == Some(NO_ROOT) {
            return None;
        }
        match around.and_then(|root| Some((root, self.roots.get(root)?.stage))) {
            Some((root, its_stage)) if its_stage == stage => return Some(root),
            Some(_) => self.faults.contradicting += 1,
            None => self.faults.undefined += 1,
        }
        None
    }

    fn go_on(&mut self, record: &RangeOpen) {
        if self.open.contains_key(&record.continues) {
            self.continued.insert(record.continues, record.range);
            self.end(record.continues, record.start);
        } else if self.known.get(record.continues).is_some() {
            self.continued.insert(record.continues, record.range);
        } else {
            self.faults.undefined += 1;
        }
    }

    /// A range closed. Closing a continued range closes what it goes on as.
    pub fn close(&mut self, range: u64, end: MonoNs) {
        let mut id = range;
        // Bounded: a hostile file can let continuations run in a circle.
        for _ in 0..64 {
            match self.continued.remove(&id) {
                Some(next) if next != id => id = next,
                _ => break,
            }
        }
        if !self.end(id, end) {
            self.faults.contradicting += 1;
        }
    }

    /// Ends what is open under this identifier; false where nothing is.
    fn end(&mut self, id: u64, end: MonoNs) -> bool {
        let Some(open) = self.open.remove(&id) else { return false };
        let end = end.0.min(OPEN - 1).max(open.start);
        if open.is_root
            && let Some(root) = self.roots.get_mut(open.root)
        {
            root.end = end;
        }
        let path = self.paths.entry(open.path).or_default();
        path.sample(&open);
        let ns = end - open.start;
        let times = &mut path.times;
        times.host_total_ns = Some(times.host_total_ns.unwrap_or(0).saturating_add(ns));
        if open.counted {
            let warm = match times.host_first_ns.replace(ns) {
                None => {
                    path.first_start = open.start;
                    return true;
                }
                // The first is the one that started first.
                Some(first) if open.start < path.first_start => {
                    path.first_start = open.start;
                    first
                }
                Some(first) => {
                    times.host_first_ns = Some(first);
                    ns
                }
            };
            self.exact_times += usize::from(times.host_warm_ns.push(warm));
            if self.exact_times > EXACT_TIMES {
                self.fold_times();
            }
        }
        true
    }

    /// Keeps fewer times one by one, of the paths with the most of them.
    fn fold_times(&mut self) {
        let mut limit = EXACT_TIMES / 8;
        while self.exact_times > EXACT_TIMES / 2 {
            limit /= 4;
            let series = self.paths.values_mut().map(|path| &mut path.times.host_warm_ns);
            self.exact_times = series.fold(0, |kept, series| {
                series.fold(limit);
                kept + series.kept()
            });
        }
    }

    fn never_closed(&mut self, open: &Open) {
        let path = self.paths.entry(open.path).or_default();
        path.times.unclosed += u64::from(open.counted);
        path.sample(open);
    }

    /// Where work of the instance `range` belongs; nothing where it is not defined, or closed so
    /// long ago that it was forgotten.
    pub fn place(&self, range: u64) -> Option<Place> {
        let (path, root) = match self.known.get(range) {
            Some(Entry { path, root }) => (path, root),
            None => self.open.get(&range).map(|open| (open.path, open.root))?,
        };
        (root == NO_ROOT || self.roots.get(root).is_some()).then_some(Place { path, root })
    }

    /// Counts work for the outermost instance around it, if there is one; whether that is the first
    /// of its stage.
    pub fn count(&mut self, place: Place, kernel: bool, span: Span) -> bool {
        if place.root == NO_ROOT {
            return false;
        }
        let Some(root) = self.roots.get_mut(place.root) else { return false };
        root.count(kernel, span);
        root.cold
    }

    /// The stage of work at `place`, and the number of its instance.
    pub fn instance(&self, place: Place) -> Option<(PathIndex, u32)> {
        self.roots.get(place.root).map(|root| (root.stage, root.ordinal))
    }

    /// Whether [`settle`](Self::settle) is due.
    pub fn is_full(&self) -> bool {
        self.roots.is_full()
    }

    /// Sums up what no more work can come for. `clock` ties the clocks as far as the file says.
    pub fn settle(&mut self, clock: &ClockMap) {
        self.roots.settle(clock);
    }

    /// Times of every path that was opened, and windows and kernel counts of every stage: of the
    /// recorded instances, where not all are; and the windows of the joined stages.
    pub fn finish(
        mut self,
        clock: &ClockMap,
    ) -> (HashMap<PathIndex, PathTimes>, HashMap<PathIndex, StageTimes>, Option<JoinedWindows>)
    {
        for open in std::mem::take(&mut self.open).into_values() {
            self.never_closed(&open);
        }
        let gated = self.roots.gated;
        let times = |(path, Timed { mut times, .. })| {
            times.recorded = gated.then_some(times.sampled.recorded);
            (path, times)
        };
        let paths = self.paths.into_iter().map(times).collect();
        let (stages, joined) = self.roots.finish(clock);
        (paths, stages, joined)
    }
}

impl Timed {
    fn sample(&mut self, open: &Open) {
        if let Some(recorded) = open.sampled.filter(|_| open.counted) {
            self.times.sampled.add(Sampled { instances: 1, recorded: recorded.into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_instances_are_kept_as_distributions() {
        let (mut ranges, paths) = (Ranges::default(), Paths::default());
        for range in 1..=(EXACT_TIMES as u64 + 10_000) {
            let (path, ns) = ((1 + range % 2) as PathIndex, 1_000 + range % 1_000);
            let start = MonoNs(range * 10_000);
            let open = RangeOpen {
                range,
                path,
                thread: 1,
                parent: RANGE_OUTSIDE,
                start,
                start_end: false,
                category: 0,
                payload: None,
                continues: 0,
            };
            if ranges.is_full() {
                ranges.settle(&ClockMap::default());
            }
            ranges.open(&open, path, true, &paths);
            assert_eq!(ranges.place(range).map(|place| place.path), Some(path));
            ranges.close(range, MonoNs(start.0 + ns));
        }
        assert!(ranges.open.is_empty() && ranges.exact_times <= EXACT_TIMES);
        assert_eq!(ranges.faults, RangeFaults::default());
        let (times, stages, _) = ranges.finish(&ClockMap::default());
        assert_eq!(times.values().map(|times| times.instances).sum::<u64>(), 1_058_576);
        for (path, times) in times {
            assert_eq!(times.host_warm_ns.kept(), 0);
            assert_eq!(times.host_warm_ns.count() + 1, times.instances);
            let median = times.host_warm_ns.median().expect("instances") as f64;
            assert!((median / 1_499.5 - 1.0).abs() < 0.02, "{median}");
            assert_eq!(stages[&path].kernels_per_instance.count(), times.instances);
        }
    }
}
