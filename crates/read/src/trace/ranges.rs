//! Range records -> instances, and how long each stage and path was open.
//!
//! An instance is one opening of a range. Work is placed by the instance it was launched in and
//! counted for the outermost instance of the user around it: a range of a library is not a stage, even
//! where it is open around everything. A record that continues an instance under another path adds
//! time to that path, but is not an instance of it. Memory is bounded by the open ranges, the paths and the
//! windows of [`Instances`] and [`Roots`], not by the number of instances.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use stage2_contract::trace::{MonoNs, RANGE_OUTSIDE, RangeOpen};
use stage2_model::Step;

use super::clock::ClockMap;
use super::host;
use super::paths::{OUTSIDE, PathIndex, Paths};
use super::placed::{Entry, Instances, NO_ROOT};
pub use super::stage_windows::{JoinedWindows, StageTimes, WarmTimes, WindowSet};
use super::stage_windows::{OPEN, Roots};
use super::stats::{Sampled, Series, Share, Span};
use super::step_times::{Closed, StepTrack, Tracks};

/// Closings that may yet turn out to be no end: a collector lets this many ranges go on at once.
const MAX_CLOSING: usize = 1 << 8;
/// Threads whose last outermost ranges are kept, and ranges of one: each may run steps of an engine, and other ranges
/// between two of them.
const MOST_THREADS: usize = 1 << 10;
const MOST_ENDED: usize = 1 << 6;
/// Ranges without work that are open at the same time.
const MOST_LEFT_OUT: usize = 1 << 12;

#[derive(Clone, Copy, Debug)]
struct Open {
    /// Identifier that it was first given.
    first: u64,
    /// Identifier of the open range that it goes on for; 0: of none.
    goes_on: u64,
    start: u64,
    path: PathIndex,
    root: u32,
    /// It is that root.
    is_root: bool,
    counted: bool,
    /// Whether it was recorded, where not everything is; nothing: it was not asked for.
    sampled: Option<bool>,
    /// Its number among those of its path, where it may be the step of a stage.
    step: Option<u64>,
    /// It has one identifier from its start to its end.
    whole: bool,
    /// The thread of a start/end range that is in no other range.
    beside_on: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
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

/// What the ranges of a file add up to.
#[derive(Debug)]
pub struct RangeTimes {
    /// Of every path that was opened.
    pub paths: HashMap<PathIndex, PathTimes>,
    /// Windows and kernel counts of every stage: of the recorded instances, where not all are.
    pub stages: HashMap<PathIndex, StageTimes>,
    /// Windows of the joined stages.
    pub model_windows: Option<JoinedWindows>,
    /// Those of all stages that nobody took yet; empty where nobody follows the threads.
    pub(super) host_windows: Vec<host::Window>,
    /// Stages and the ranges right within them, as they followed each other.
    pub steps: BTreeMap<PathIndex, StepTrack>,
}

#[derive(Debug, Default)]
pub(crate) struct Ranges {
    known: Instances,
    open: foldhash::HashMap<u64, Open>,
    /// Continued identifier -> the identifier it goes on as, while that is open.
    continued: HashMap<u64, u64>,
    /// What closed last, and when. The collector closes a range before it lets it go on.
    closing: VecDeque<(Open, u64)>,
    pub(super) roots: Roots,
    times: HostTimes,
    /// Open start/end ranges that are in no other range, by thread and path.
    beside: HashMap<(u32, PathIndex), u32>,
    steps: Tracks,
    /// Those that ended last on each thread: another step of an engine may follow them.
    ended: HashMap<u32, VecDeque<Closed>>,
    /// Open ranges that hold no work.
    left_out: HashSet<u64>,
    pub faults: RangeFaults,
}

impl Ranges {
    /// For work that comes before `window` further ranges were opened: memory for no more.
    pub(super) fn within(window: usize, share: Share) -> Self {
        Self {
            known: Instances::with_window(window),
            roots: Roots::within(window, share),
            times: HostTimes::within(share),
            steps: Tracks::within(share),
            ..Self::default()
        }
    }

    /// A range opened under `path` (already looked up; whether it was defined is `defined`).
    pub(crate) fn open(
        &mut self,
        record: &RangeOpen,
        path: PathIndex,
        defined: bool,
        paths: &Paths,
    ) {
        self.faults.undefined += u64::from(!defined);
        let counted = record.continues == 0;
        let (mut first, mut goes_on) = (record.range, 0);
        if counted {
            self.end_closing();
        } else {
            if let Some(open) = self.same_path(record, path) {
                return self.insert(record.range, open);
            }
            (first, goes_on) = self.go_on(record);
        }
        let node = paths.node(path);
        let start = record.start.0.min(OPEN - 1);
        let sampled = self.open.get(&record.parent).and_then(|open| open.sampled);
        let around = match node.user {
            Some(_) => self.root_around(record, node.top),
            None => Some(NO_ROOT),
        };
        let is_root = around.is_none();
        let root = around
            .unwrap_or_else(|| self.roots.open(node.top, record.thread, start, counted, sampled));
        let times = &mut self.times.paths.entry(path).or_default().times;
        times.instances += u64::from(counted);
        // A stage, or a range of the user right within it.
        let may_be_step = counted
            && node.user == Some(path)
            && node.parent.is_none_or(|parent| parent == node.top);
        let step = may_be_step.then(|| self.steps.opened(path));
        let beside_on = (record.start_end && counted && is_root).then_some(record.thread);
        if let Some(thread) = beside_on {
            let open = self.beside.entry((thread, path)).or_default();
            *open += 1;
            times.side_by_side |= *open > 1;
        }
        let open = Open {
            first,
            goes_on,
            start,
            path,
            root,
            is_root,
            counted,
            sampled,
            step,
            whole: true,
            beside_on,
        };
        self.insert(record.range, open);
    }

    /// A range opened that holds no work: what is launched in it all the same belongs to the one around it.
    pub(crate) fn leave_out(&mut self, record: &RangeOpen) {
        if self.left_out.len() < MOST_LEFT_OUT {
            let around = self.known.get(record.parent);
            let outside = Entry { path: OUTSIDE, root: NO_ROOT };
            self.known.insert(record.range, around.unwrap_or(outside));
            self.left_out.insert(record.range);
        }
    }

    /// Takes out an instance that goes on under its own path, as one does that loses a range of a
    /// library around it: for the reader of a report nothing happened to it.
    fn same_path(&mut self, record: &RangeOpen, path: PathIndex) -> Option<Open> {
        let range = record.continues;
        if self.open.get(&range).is_some_and(|open| open.path == path) {
            let open = self.open.remove(&range)?;
            self.continue_as(&open, record);
            return Some(Open { goes_on: range, whole: false, ..open });
        }
        let is_it = |&(open, end): &(Open, u64)| {
            open.first == range && open.path == path && end == record.start.0
        };
        let at = self.closing.iter().position(is_it)?;
        self.closing.remove(at).map(|(open, _)| Open { whole: false, ..open })
    }

    /// Lets closings of the identifier that `record` continues, which was open as `open`, mean it.
    fn continue_as(&mut self, open: &Open, record: &RangeOpen) {
        self.continued.remove(&open.goes_on);
        self.continued.insert(record.continues, record.range);
    }

    fn insert(&mut self, range: u64, open: Open) {
        let twice = self.known.get(range).is_some();
        self.known.insert(range, Entry { path: open.path, root: open.root });
        if let Some(lost) = self.open.insert(range, open) {
            self.never_closed(&lost);
        }
        self.faults.contradicting += u64::from(twice);
    }

    /// Whether the work of an open range is recorded, and of those opened in it from now on.
    pub(crate) fn sample(&mut self, range: u64, recorded: bool) {
        self.roots.gated = true;
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

    /// Ends what goes on under another path. Gives the identifier that it was first given, and the
    /// one that may still be closed in its place.
    fn go_on(&mut self, record: &RangeOpen) -> (u64, u64) {
        if record.continues == record.range {
            // It was opened in a piece of the trace that is not read.
            return (record.range, 0);
        }
        if let Some(&open) = self.open.get(&record.continues) {
            self.end(record.continues, record.start);
            self.continue_as(&open, record);
            return (open.first, record.continues);
        }
        // The collector has closed it, and will close this one by its own identifier.
        self.faults.undefined += u64::from(self.known.get(record.continues).is_none());
        (record.continues, 0)
    }

    /// A range closed. Closing a continued range closes what it goes on as.
    pub(crate) fn close(&mut self, range: u64, end: MonoNs) {
        if self.left_out.remove(&range) {
            return;
        }
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

    /// Ends what is open under this identifier, unless it goes on at once; false where nothing is.
    fn end(&mut self, id: u64, end: MonoNs) -> bool {
        let Some(open) = self.open.remove(&id) else { return false };
        self.continued.remove(&open.goes_on);
        if self.closing.back().is_some_and(|&(_, before)| before != end.0) {
            self.end_closing();
        }
        if self.closing.len() >= MAX_CLOSING
            && let Some((open, end)) = self.closing.pop_front()
        {
            self.ended(&open, end);
        }
        self.closing.push_back((open, end.0));
        true
    }

    /// What closed did not go on.
    fn end_closing(&mut self) {
        while let Some((open, end)) = self.closing.pop_front() {
            self.ended(&open, end);
        }
    }

    fn ended(&mut self, open: &Open, end: u64) {
        self.is_beside_no_more(open);
        let Open { path, root, is_root, whole, start, first, counted, sampled, .. } = *open;
        let end = end.min(OPEN - 1).max(start);
        if is_root && let Some(root) = self.roots.get_mut(root) {
            root.end = end;
        }
        self.times.ended(path, (start, end), counted, sampled);
        if let Some(number) = open.step {
            let step = Step { number, range: first, host_ns: end - start };
            let known = self.roots.get(root);
            let (cold, thread) =
                (known.is_some_and(|root| root.cold), known.map(|root| root.thread));
            let closed = Closed { path, step, start, root, cold, is_root, whole };
            self.steps.closed(closed);
            if let Some(thread) = thread.filter(|_| is_root)
                && (self.ended.len() < MOST_THREADS || self.ended.contains_key(&thread))
            {
                let ended = self.ended.entry(thread).or_default();
                if ended.len() >= MOST_ENDED {
                    ended.pop_front();
                }
                ended.push_back(closed);
            }
        }
    }

    /// Extends the window of a closed instance of a stage, which is a step of an engine, to at least this time of the
    /// host, ns.
    pub(super) fn lasts_until(&mut self, range: u64, until: u64) {
        let root = self.known.get(range).and_then(|entry| self.roots.get_mut(entry.root));
        let Some(root) = root.filter(|root| root.end != OPEN) else { return };
        root.end = root.end.max(until.min(OPEN - 1));
        let Some(ended) = self.ended.get_mut(&root.thread) else { return };
        if let Some(at) = ended.iter().rposition(|closed| closed.step.range == range)
            && let Some(closed) = ended.remove(at)
        {
            let step = Step { host_ns: until.saturating_sub(closed.start), ..closed.step };
            self.steps.followed(Closed { step, ..closed });
        }
    }

    fn is_beside_no_more(&mut self, open: &Open) {
        let Some(beside) = open.beside_on.map(|thread| (thread, open.path)) else { return };
        if let Some(count) = self.beside.get_mut(&beside) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.beside.remove(&beside);
            }
        }
    }

    fn never_closed(&mut self, open: &Open) {
        self.is_beside_no_more(open);
        self.continued.remove(&open.goes_on);
        self.times.never_closed(open.path, open.counted, open.sampled);
    }

    /// Where work of the instance `range` belongs; nothing where it is not defined, or closed so
    /// long ago that it was forgotten.
    pub(crate) fn place(&self, range: u64) -> Option<Place> {
        let open = || self.open.get(&range).map(|&Open { path, root, .. }| Entry { path, root });
        let Entry { path, root } = self.known.get(range).or_else(open)?;
        (root == NO_ROOT || self.roots.get(root).is_some()).then_some(Place { path, root })
    }

    /// Counts work for the outermost instance around it, if there is one; whether that is the first
    /// of its stage.
    pub(crate) fn count(&mut self, place: Place, kernel: bool, span: Span) -> bool {
        if place.root == NO_ROOT {
            return false;
        }
        let Some(root) = self.roots.get_mut(place.root) else { return false };
        root.count(kernel, span);
        root.cold
    }

    /// The stage of work at `place`, and the number of its instance.
    pub(crate) fn instance(&self, place: Place) -> Option<(PathIndex, u32)> {
        self.roots.get(place.root).map(|root| (root.stage, root.ordinal))
    }

    /// Sums up what no more work can come for. `clock` ties the clocks as far as the file states.
    pub(crate) fn settle(&mut self, clock: &ClockMap) {
        self.end_closing();
        self.roots.settle(clock);
    }

    pub(crate) fn finish(mut self, clock: &ClockMap) -> RangeTimes {
        self.end_closing();
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        // By their numbers: a map has another order each time.
        open.sort_unstable_by_key(|&(range, _)| range);
        for (_, open) in open {
            self.never_closed(&open);
        }
        let paths = self.times.finish(self.roots.gated);
        let steps = self.steps.finish(|timed| self.roots.before(timed, clock));
        let (stages, model_windows, host_windows) = self.roots.finish(clock);
        RangeTimes { paths, stages, model_windows, host_windows, steps }
    }
}

/// Host times of instances that are kept one by one, over all paths of a file.
const EXACT_TIMES: usize = 1 << 20;

/// Host times of the instances of a path.
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
    /// First closed instances, which are one of each process, and their host time, ns.
    pub firsts: (u64, u64),
    /// Host time of each closed instance but the first, ns.
    pub host_warm_ns: Series,
    /// Instances whose GPU work was recorded, closed or not; nothing: that of all was.
    pub recorded: Option<u64>,
    /// Instances that were asked for, where not everything is recorded, and those of them that
    /// `STAGE2_SAMPLE` took.
    pub sampled: Sampled,
    /// Start/end ranges of it, in no other range, were open at the same time on one thread.
    pub side_by_side: bool,
}

/// A path, and when its first closed instance started.
#[derive(Debug, Default)]
struct Timed {
    times: PathTimes,
    first_start: u64,
}

#[derive(Debug, Default)]
struct HostTimes {
    paths: HashMap<PathIndex, Timed>,
    exact: usize,
    share: Share,
}

impl HostTimes {
    fn within(share: Share) -> Self {
        Self { share, ..Self::default() }
    }

    fn ended(
        &mut self,
        path: PathIndex,
        (start, end): (u64, u64),
        counted: bool,
        sampled: Option<bool>,
    ) {
        let path = self.paths.entry(path).or_default();
        path.sample(counted, sampled);
        let ns = end.saturating_sub(start);
        let times = &mut path.times;
        times.host_total_ns = Some(times.host_total_ns.unwrap_or(0).saturating_add(ns));
        if !counted {
            return;
        }
        let Some(first) = times.host_first_ns else {
            (times.host_first_ns, path.first_start) = (Some(ns), start);
            return;
        };
        // The first is the one that started first.
        let warm = if start < path.first_start {
            (times.host_first_ns, path.first_start) = (Some(ns), start);
            first
        } else {
            ns
        };
        self.exact += usize::from(times.host_warm_ns.push(warm));
        if self.exact > self.share.of(EXACT_TIMES) {
            self.fold();
        }
    }

    fn never_closed(&mut self, path: PathIndex, counted: bool, sampled: Option<bool>) {
        let path = self.paths.entry(path).or_default();
        path.times.unclosed += u64::from(counted);
        path.sample(counted, sampled);
    }

    /// Keeps fewer times one by one, of the paths with the most of them.
    fn fold(&mut self) {
        let most = self.share.of(EXACT_TIMES);
        let mut limit = most / 8;
        while self.exact > most / 2 {
            limit /= 4;
            let series = self.paths.values_mut().map(|path| &mut path.times.host_warm_ns);
            self.exact = series.fold(0, |kept, series| {
                series.fold(limit);
                kept + series.kept()
            });
        }
    }

    /// All paths. With `gated`, the work of some instances was not recorded.
    fn finish(self, gated: bool) -> HashMap<PathIndex, PathTimes> {
        let times = |(path, Timed { mut times, .. })| {
            times.recorded = gated.then_some(times.sampled.recorded);
            (path, times)
        };
        self.paths.into_iter().map(times).collect()
    }
}

impl Timed {
    fn sample(&mut self, counted: bool, sampled: Option<bool>) {
        if let Some(recorded) = sampled.filter(|_| counted) {
            self.times.sampled.add(Sampled { instances: 1, recorded: recorded.into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(range: u64, path: PathIndex, start: u64) -> RangeOpen {
        let (thread, parent, start) = (1, RANGE_OUTSIDE, MonoNs(start));
        RangeOpen { range, path, thread, parent, start, ..RangeOpen::default() }
    }

    #[test]
    fn what_goes_on_takes_no_memory_once_it_is_closed() {
        let (mut ranges, paths) = (Ranges::default(), Paths::default());
        let open = |ranges: &mut Ranges, range, path, start, continues| {
            let record = RangeOpen { continues, ..opening(range, path, start) };
            ranges.open(&record, path, true, &paths);
        };
        for at in 0..1_000u64 {
            let range = 1 + 4 * at;
            // As the collector writes it under the same path and another, and as a reader does.
            open(&mut ranges, range, 1, at, 0);
            ranges.close(range, MonoNs(at));
            open(&mut ranges, range + 1, 1, at, range);
            ranges.close(range + 1, MonoNs(at));
            open(&mut ranges, range + 2, 2, at, range);
            open(&mut ranges, range + 3, 3, at, range + 2);
            ranges.close(range + 3, MonoNs(at));
        }
        assert_eq!((ranges.continued.len(), ranges.open.len()), (0, 0));
        assert!(ranges.closing.len() <= MAX_CLOSING);
        assert_eq!(ranges.faults, RangeFaults::default());
    }

    #[test]
    fn a_million_instances_are_kept_as_distributions() {
        let (mut ranges, paths) = (Ranges::default(), Paths::default());
        for range in 1..=(EXACT_TIMES as u64 + 10_000) {
            let (path, ns) = ((1 + range % 2) as PathIndex, 1_000 + range % 1_000);
            let open = opening(range, path, range * 10_000);
            if ranges.roots.is_full() {
                ranges.settle(&ClockMap::default());
            }
            ranges.open(&open, path, true, &paths);
            assert_eq!(ranges.place(range).map(|place| place.path), Some(path));
            ranges.close(range, MonoNs(open.start.0 + ns));
        }
        ranges.end_closing();
        assert!(ranges.open.is_empty() && ranges.times.exact <= EXACT_TIMES);
        assert_eq!(ranges.faults, RangeFaults::default());
        let RangeTimes { paths: times, stages, .. } = ranges.finish(&ClockMap::default());
        assert_eq!(times.values().map(|times| times.instances).sum::<u64>(), 1_058_576);
        for (path, times) in times {
            assert_eq!(times.host_warm_ns.kept(), 0);
            assert_eq!(times.host_warm_ns.count() + 1, times.instances);
            let median = times.host_warm_ns.median().expect("instances") as f64;
            assert!((median / 1_499.5 - 1.0).abs() < 0.02, "{median}");
            assert_eq!(stages[&path].kernels_per_instance.count(), times.instances);
        }
    }

    #[test]
    fn a_range_that_goes_on_under_another_identifier_is_no_step_to_draw() {
        let (mut ranges, paths) = (Ranges::default(), Paths::default());
        let mut at = 0;
        let mut step = |ranges: &mut Ranges, range: u64, pieces: u64| {
            for piece in 0..pieces {
                let continues = if piece == 0 { 0 } else { range + piece - 1 };
                let record = RangeOpen { continues, ..opening(range + piece, 1, at) };
                ranges.open(&record, 1, true, &paths);
                at += 100;
            }
            ranges.close(range + pieces - 1, MonoNs(at));
            at += 1;
        };
        for (range, pieces) in [(1, 1), (10, 2), (20, 1)] {
            step(&mut ranges, range, pieces);
        }
        let steps = ranges.finish(&ClockMap::default()).steps;
        let track = steps.values().next().expect("a path");
        assert_eq!(track.count(), 3, "its time counts");
        let found = track.nearest(true, 200).map(|step| (step.range, step.host_ns));
        assert_eq!(found, Some((20, 100)));
    }

    /// Hazard (Hostile guests): Many other threads open and close ranges between two steps of an engine.
    /// Promise: The first step lasts until the second one begins all the same.
    #[test]
    fn ranges_of_other_threads_push_no_step_of_an_engine_out() {
        let (mut ranges, paths) = (Ranges::default(), Paths::default());
        let run = |ranges: &mut Ranges, range, thread, start, end| {
            let open = RangeOpen { thread, ..opening(range, 1, start) };
            ranges.open(&open, 1, true, &paths);
            ranges.close(range, MonoNs(end));
        };
        run(&mut ranges, 1, 1, 100, 200);
        (0..300).for_each(|at| run(&mut ranges, 10 + at, 2 + at as u32 % 7, 210 + at, 211 + at));
        (0..9).for_each(|at| run(&mut ranges, 400 + at, 1, 600 + at, 601 + at));
        run(&mut ranges, 2, 1, 900, 1_000);
        ranges.lasts_until(1, 900);
        let steps = ranges.finish(&ClockMap::default()).steps;
        let followed = steps[&1].until_next.as_ref().expect("a step that another one followed");
        assert_eq!((followed.count(), followed.of(false).total_ns), (1, 800));
    }

    /// Hazard (Hostile guests): Start/end ranges that are open at once hold the kernels of a thread.
    /// Promise: They are its stage, and a finding states this and the remedy.
    #[test]
    fn start_end_ranges_that_are_open_at_once_on_a_thread_are_noticed() {
        let side_by_side = |threads: [u32; 2], start_end, first_end| {
            let (mut ranges, paths) = (Ranges::default(), Paths::default());
            for (range, thread) in [1, 2].into_iter().zip(threads) {
                let open = RangeOpen { thread, start_end, ..opening(range, 1, 10 * range) };
                if range == 2 && first_end < 20 {
                    ranges.close(1, MonoNs(first_end));
                }
                ranges.open(&open, 1, true, &paths);
            }
            ranges.finish(&ClockMap::default()).paths[&1].side_by_side
        };
        assert!(side_by_side([1, 1], true, 25));
        assert!(!side_by_side([1, 1], true, 15), "one after the other");
        assert!(!side_by_side([1, 2], true, 25), "on two threads");
        assert!(!side_by_side([1, 1], false, 25), "push and pop");
    }

    #[test]
    fn an_identifier_that_is_given_again_and_again_takes_no_memory() {
        let (mut ranges, paths) = (Ranges::default(), Paths::default());
        for thread in 0..1_000 {
            let open = RangeOpen { thread, start_end: true, ..opening(1, 1, 1) };
            ranges.open(&open, 1, true, &paths);
        }
        assert_eq!((ranges.open.len(), ranges.beside.len()), (1, 1));
    }
}
