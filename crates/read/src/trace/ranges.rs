//! Range records -> instances, and how long each stage and path was open.
//!
//! An instance is one opening of a range. Work is placed by the instance it was launched in and
//! counted for the outermost instance of the user around it: a range of a library is no stage, even
//! where it is open around everything. A record that continues an instance under another path adds
//! time to that path, but is no instance of it. Memory is bounded by the open
//! ranges, the paths and the windows of [`instances`](super::instances) and
//! [`roots`](super::stage_windows), not by the number of instances.

use std::collections::{BTreeMap, HashMap, VecDeque};

use stage2_contract::trace::{MonoNs, RANGE_OUTSIDE, RangeOpen};

use super::clock::ClockMap;
use super::instances::{Entry, Instances, NO_ROOT};
use super::path_times::HostTimes;
pub use super::path_times::PathTimes;
use super::paths::{PathIndex, Paths};
use super::share::Share;
pub use super::stage_windows::{JoinedWindows, StageTimes, WarmTimes};
use super::stage_windows::{OPEN, Roots};
use super::stats::Span;
use super::step_times::{Closed, StepTrack, Tracks};
use stage2_model::Step;

/// Closings that may yet turn out to be no end: a collector lets this many ranges go on at once.
const MAX_CLOSING: usize = 1 << 8;

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
    roots: Roots,
    times: HostTimes,
    /// Open start/end ranges that are in no other range, by thread and path.
    beside: HashMap<(u32, PathIndex), u32>,
    steps: Tracks,
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
        let root = around.unwrap_or_else(|| self.roots.open(node.top, start, counted, sampled));
        self.times.opened(path, counted);
        // A stage, or a range of the user right within it.
        let may_be_step = counted
            && node.user == Some(path)
            && node.parent.is_none_or(|parent| parent == node.top);
        let step = may_be_step.then(|| self.steps.opened(path));
        let beside_on = (record.start_end && counted && is_root).then_some(record.thread);
        if let Some(thread) = beside_on {
            let open = self.beside.entry((thread, path)).or_default();
            *open += 1;
            if *open > 1 {
                self.times.opened_beside_another(path);
            }
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

    /// Only the work of ranges that are marked as recorded is.
    pub(crate) fn gate(&mut self) {
        self.roots.gated = true;
    }

    pub(crate) fn is_gated(&self) -> bool {
        self.roots.gated
    }

    /// Joins the windows of `stage` with those of the other stages that this is said of.
    pub(crate) fn join(&mut self, stage: PathIndex) {
        self.roots.join(stage);
    }

    /// Whether the work of an open range is recorded, and of those opened in it from now on.
    pub(crate) fn sample(&mut self, range: u64, recorded: bool) {
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
        let end = end.min(OPEN - 1).max(open.start);
        if open.is_root
            && let Some(root) = self.roots.get_mut(open.root)
        {
            root.end = end;
        }
        self.times.ended(open.path, (open.start, end), open.counted, open.sampled);
        if let Some(number) = open.step {
            let step = Step { number, range: open.first, host_ns: end - open.start };
            let cold = self.roots.get(open.root).is_some_and(|root| root.cold);
            let Open { path, root, is_root, whole, start, .. } = *open;
            self.steps.closed(Closed { path, step, start, root, cold, is_root, whole });
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
        let (path, root) = match self.known.get(range) {
            Some(Entry { path, root }) => (path, root),
            None => self.open.get(&range).map(|open| (open.path, open.root))?,
        };
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

    pub(crate) fn is_full(&self) -> bool {
        self.roots.is_full()
    }

    /// Sums up what no more work can come for. `clock` ties the clocks as far as the file says.
    pub(crate) fn settle(&mut self, clock: &ClockMap) {
        self.end_closing();
        self.roots.settle(clock);
    }

    /// Sums up everything. `clock` ties the clocks.
    pub(crate) fn finish(mut self, clock: &ClockMap) -> RangeTimes {
        self.end_closing();
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        // By their numbers: a map has another order each time.
        open.sort_unstable_by_key(|&(range, _)| range);
        for (_, open) in open {
            self.never_closed(&open);
        }
        let paths = self.times.finish(self.roots.gated);
        let (stages, model_windows) = self.roots.finish(clock);
        RangeTimes { paths, stages, model_windows, steps: self.steps.finish() }
    }
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
