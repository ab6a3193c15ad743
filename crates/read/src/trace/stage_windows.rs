//! Instances of stages (ranges with none around them) -> windows and kernel counts of each stage.
//!
//! GPU work comes into the file after its range closed, so an instance is kept until so many others
//! followed that no work of it can be on its way; then it is added to the sums of its stage.

use std::collections::{BTreeMap, HashMap, HashSet};

use stage2_contract::stats::{BACK_TO_BACK_NS, Unions};
use stage2_contract::trace::{GpuNs, MonoNs};

use super::clock::ClockMap;
use super::host;
use super::outliers::Times;
use super::paths::PathIndex;
use super::stats::{Series, Share, Span};
use super::step_times::Timed;

/// Instances of stages that are kept before the older half is summed up.
const WINDOW: usize = 1 << 20;
/// Kernel counts of instances, and as many times of them, that are kept one by one, over all stages of a
/// file.
const EXACT_COUNTS: usize = 1 << 20;
/// Windows that are kept one by one, over all stages of a file.
const WINDOWS: usize = 1 << 18;

/// Instances of other threads that are looked through for the one before.
const MOST_BETWEEN: u32 = 256;

/// An end that did not come.
pub(super) const OPEN: u64 = u64::MAX;

/// What a stage's instances enclosed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Union of the windows of the instances, ns; a window runs from the opening of the range to
    /// its closing or the end of the last GPU work launched in it, whichever is later. The window of a step
    /// of an engine runs to the beginning of the next step, if that one continues a request. Nothing
    /// where the clocks cannot be tied together.
    pub window_ns: Option<u64>,
    /// Where these windows lie; of the warm ones alone, where [`StageTimes::warm`] counts some.
    pub windows: WindowSet,
    /// Kernels of each instance.
    pub kernels_per_instance: Series,
    /// Of the instances but the first, the times that are theirs alone.
    pub alone: Times,
    /// Of the short gaps in its work, the time between windows, ns.
    pub between_ns: u64,
    /// Windows and kernels without the first, cold instance; `None` where it cannot be told apart.
    pub warm: Option<WarmTimes>,
}

/// The instances of a stage without its first, cold one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmTimes {
    /// How many.
    pub instances: u64,
    /// Union of their windows, ns.
    pub window_ns: u64,
    /// Kernels in them.
    pub kernels: u64,
}

/// Windows of the stages of the model together, joined where they overlap, as threads make them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinedWindows {
    /// Of all (recorded) instances, ns; nothing where one is not known.
    pub all_ns: Option<u64>,
    /// Of those that [`StageTimes::warm`] counts, ns; nothing where it is not known of a stage.
    pub warm_ns: Option<u64>,
}

/// The outermost instance around others: an instance of a stage. Times of the host, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Root {
    pub(super) stage: PathIndex,
    pub(super) thread: u32,
    start: u64,
    pub(super) end: u64,
    /// Not the continuation of another one.
    counted: bool,
    /// Whether it was recorded, where some instances are not.
    pub(super) sampled: Option<bool>,
    /// The first instance of its stage in the file.
    pub(super) cold: bool,
    /// Its number among the instances of its stage, from 0.
    pub(super) ordinal: u32,
    kernels: u64,
    first_ns: u64,
    last_ns: u64,
    worked: bool,
}

#[derive(Debug, Default)]
pub(super) struct Roots {
    /// Number of the first one in `latest`.
    base: u32,
    latest: Vec<Root>,
    /// Older ones that are still open, by number.
    pinned: BTreeMap<u32, Root>,
    stages: HashMap<PathIndex, Stage>,
    /// Stages whose windows are joined, and the unions: of all instances, and of the warm ones.
    joined: HashSet<PathIndex>,
    joined_windows: [Option<usize>; 2],
    unions: Unions,
    /// [`WINDOW`] if it is not set.
    window: Option<usize>,
    share: Share,
    /// Kernel counts that are kept one by one.
    exact_counts: usize,
    windows_kept: usize,
    times_kept: usize,
    /// Windows of instances that closed since the last time that some were summed up.
    ended: Vec<Ended>,
    /// Only instances that are marked as recorded were.
    pub(super) gated: bool,
    /// Windows for those who follow the threads; nothing where nobody does.
    pub(super) host_windows: Option<Vec<host::Window>>,
}

/// The window of an instance that closed.
#[derive(Debug)]
struct Ended {
    stage: PathIndex,
    window: (u64, u64),
    ordinal: u32,
    cold: bool,
}

#[derive(Debug, Default)]
struct Stage {
    opened: u32,
    kernels_per_instance: Series,
    /// Of stages with several instances.
    alone: Option<Box<Times>>,
    /// The latest end of a window that `alone` knows of.
    latest_end: u64,
    /// The windows; nothing before the first.
    windows: Option<usize>,
    /// All but that of the first, cold instance.
    window_set: WindowSet,
    cold_window: Option<(u64, u64)>,
    window_missing: bool,
    /// The first instance, if it is whole.
    cold: Option<Root>,
    warm: WarmTimes,
    warm_windows: Option<usize>,
    warm_missing: bool,
    between: Between,
    in_part: bool,
}

impl Roots {
    /// Keeps `window` instances before the older half is summed up, and a share of the rest.
    pub(super) fn within(window: usize, share: Share) -> Self {
        Self { window: Some(window), share, unions: share.unions(), ..Self::default() }
    }

    /// Joins the windows of `stage` with those of the other stages that this is said of.
    pub(super) fn join(&mut self, stage: PathIndex) {
        self.joined.insert(stage);
    }

    /// Adds an instance that opened; gives its number.
    pub(super) fn open(
        &mut self,
        stage: PathIndex,
        thread: u32,
        start: u64,
        counted: bool,
        sampled: Option<bool>,
    ) -> u32 {
        let known = self.stages.entry(stage).or_default();
        let cold = counted && known.opened == 0;
        // One that goes on under another path belongs to the instance before.
        let ordinal = if counted { known.opened } else { known.opened.saturating_sub(1) };
        known.opened = known.opened.saturating_add(counted.into());
        let fresh = Root { end: OPEN, first_ns: u64::MAX, ..Root::default() };
        self.latest.push(Root { stage, thread, start, counted, sampled, cold, ordinal, ..fresh });
        self.base.wrapping_add((self.latest.len() - 1) as u32)
    }

    /// The instance of this number, unless it was summed up.
    pub(super) fn get(&self, number: u32) -> Option<&Root> {
        let recent = self.latest.get(number.wrapping_sub(self.base) as usize);
        recent.or_else(|| self.pinned.get(&number))
    }

    /// The stage of the instance right before this one on its thread, and how long GPU work of it still ran when this one
    /// began, ns; nothing if `timed` is within an instance, or where that is not known any more.
    pub(super) fn before(&self, timed: &Timed, clock: &ClockMap) -> Option<(PathIndex, u64)> {
        let own = self.get(timed.root).filter(|own| own.start == timed.start)?;
        let earlier = (1..=MOST_BETWEEN).map_while(|back| self.get(timed.root.checked_sub(back)?));
        let before = earlier.into_iter().find(|root| root.thread == own.thread && root.counted)?;
        let (begin, _) = own.window(clock)?;
        before.worked.then(|| (before.stage, before.last_ns.saturating_sub(begin)))
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Root> {
        match self.latest.get_mut(number.wrapping_sub(self.base) as usize) {
            Some(root) => Some(root),
            None => self.pinned.get_mut(&number),
        }
    }

    /// Whether [`settle`](Self::settle) has something to do.
    pub(super) fn is_full(&self) -> bool {
        // All that are still open are looked at each time: no more often than as many others came.
        self.latest.len() >= self.window.unwrap_or(WINDOW).max(self.pinned.len())
    }

    /// Sums the older half up, as far as they are closed.
    pub(super) fn settle(&mut self, clock: &ClockMap) {
        let closed = |root: &Root| root.end != OPEN;
        let pinned = std::mem::take(&mut self.pinned);
        let half: Vec<Root> = self.latest.drain(..self.latest.len() / 2).collect();
        let base = self.base;
        self.base = base.wrapping_add(half.len() as u32);
        let half = half.into_iter().enumerate();
        let half = half.map(|(at, root)| (base.wrapping_add(at as u32), root));
        for (number, root) in pinned.into_iter().chain(half) {
            if closed(&root) {
                self.add(&root, clock);
            } else {
                self.pinned.insert(number, root);
            }
        }
        // What ends before any of the others began ends before all of them.
        let rest = self.latest.iter().chain(self.pinned.values());
        let began = |root: &Root| Some(root.window(clock)?.0);
        let ends_first = rest.filter_map(began).min().unwrap_or(u64::MAX);
        self.part(if self.ended.len() < self.share.of(WINDOW) { ends_first } else { u64::MAX });
    }

    /// The stages, with all instances, the windows of the joined ones, and those for who follows the threads;
    /// nothing where none is.
    pub(super) fn finish(
        mut self,
        clock: &ClockMap,
    ) -> (HashMap<PathIndex, StageTimes>, Option<JoinedWindows>, Vec<host::Window>) {
        let rest = std::mem::take(&mut self.pinned).into_values();
        let rest: Vec<Root> = rest.chain(std::mem::take(&mut self.latest)).collect();
        rest.iter().for_each(|root| self.add(root, clock));
        self.part(u64::MAX);
        let busy = self.unions.finish();
        // An interval that came too late for its union leaves its length open.
        let length = |union: Option<usize>| match union {
            None => Some(0),
            Some(union) => busy.get(union).filter(|busy| busy.late_ns == 0).map(|b| b.busy_ns),
        };
        let finish = |(path, mut stage): (PathIndex, Stage)| {
            let window_ns = stage.windows.and_then(|union| length(Some(union)));
            let warm = length(stage.warm_windows)
                .filter(|_| !stage.warm_missing)
                .map(|window_ns| WarmTimes { window_ns, ..stage.warm });
            // Of a part the numbers leave the cold instance out already, if it is not in it.
            let warm = warm.filter(|_| !stage.in_part);
            if let Some((start, end)) = stage.cold_window
                && warm.is_none_or(|warm| warm.instances == 0)
            {
                stage.window_set.add(start, end);
            }
            let times = StageTimes {
                window_ns: window_ns.filter(|_| !stage.window_missing),
                windows: stage.window_set,
                kernels_per_instance: stage.kernels_per_instance,
                alone: stage.alone.map(|alone| *alone).unwrap_or_default(),
                between_ns: stage.between.finish(),
                warm,
            };
            (path, times)
        };
        let [all_ns, warm_ns] = self.joined_windows.map(length);
        let times: HashMap<PathIndex, StageTimes> = self.stages.into_iter().map(finish).collect();
        let mut of_model = times.iter().filter(|(path, _)| self.joined.contains(path)).peekable();
        let windows = of_model.peek().is_some().then(|| {
            let whole = of_model.clone().all(|(_, times)| times.window_ns.is_some());
            let warm = of_model.all(|(_, times)| times.warm.is_some());
            JoinedWindows { all_ns: all_ns.filter(|_| whole), warm_ns: warm_ns.filter(|_| warm) }
        });
        (times, windows, self.host_windows.unwrap_or_default())
    }

    fn add(&mut self, root: &Root, clock: &ClockMap) {
        let Some(stage) = self.stages.get_mut(&root.stage) else { return };
        // Of an instance that was not recorded, or only in parts, nothing can be said.
        if self.gated && root.sampled != Some(true) {
            stage.in_part = true;
            return;
        }
        if root.counted {
            self.exact_counts += usize::from(stage.kernels_per_instance.push(root.kernels));
        }
        let window = root.window(clock);
        if let Some(window) = window.filter(|_| root.counted && root.end != OPEN) {
            let Root { stage, ordinal, cold, .. } = *root;
            self.ended.push(Ended { stage, window, ordinal, cold });
        }
        if let (Some(windows), Some((start, end))) = (&mut self.host_windows, window)
            && let Some((start, end)) = clock.mono(GpuNs(start)).zip(clock.mono(GpuNs(end)))
        {
            let Root { stage, thread, cold, .. } = *root;
            windows.push(host::Window { stage, thread, start: start.0, end: end.0, cold });
        }
        let unions = &mut self.unions;
        match window {
            Some((start, end)) => {
                let union = *stage.windows.get_or_insert_with(|| unions.create());
                unions.add(union, start, end);
                let before = stage.window_set.len();
                match root.cold {
                    true => stage.cold_window = window,
                    false => stage.window_set.add(start, end),
                }
                self.windows_kept = self.windows_kept + stage.window_set.len() - before;
                let work = (root.first_ns, root.last_ns);
                stage.between.add((start, end), root.worked.then_some(work));
            }
            None => stage.window_missing = true,
        }
        let warm = stage.add_warm(root, window, unions);
        if let Some((start, end)) = window.filter(|_| self.joined.contains(&root.stage)) {
            for (slot, counts) in self.joined_windows.iter_mut().zip([true, warm]) {
                if counts {
                    let union = *slot.get_or_insert_with(|| unions.create());
                    unions.add(union, start, end);
                }
            }
        }
        if self.windows_kept > self.share.of(WINDOWS) {
            self.windows_kept = self.stages.values_mut().fold(0, |kept, stage| {
                stage.window_set.coarsen();
                kept + stage.window_set.len()
            });
        }
        if self.exact_counts > self.share.of(EXACT_COUNTS) {
            self.exact_counts = self.stages.values_mut().fold(0, |kept, stage| {
                stage.kernels_per_instance.fold(0);
                kept + stage.kernels_per_instance.kept()
            });
        }
    }

    /// Gives each instance the time that is its alone: its window without what lies in the windows of
    /// those that ended before it. Where the host runs ahead of the GPU, windows overlap. Those that end
    /// later than `until` have to wait for others.
    fn part(&mut self, until: u64) {
        self.ended.sort_by_key(|ended| ended.window.1);
        let now = self.ended.partition_point(|ended| ended.window.1 <= until);
        for Ended { stage, window: (start, end), ordinal, cold } in self.ended.drain(..now) {
            let Some(stage) = self.stages.get_mut(&stage) else { continue };
            let start = start.max(stage.latest_end).min(end);
            stage.latest_end = stage.latest_end.max(end);
            if !cold {
                let timed = Timed { ns: end - start, start, root: ordinal };
                self.times_kept += usize::from(stage.alone.get_or_insert_default().push(timed));
            }
        }
        if self.times_kept > self.share.of(EXACT_COUNTS) {
            let all = self.stages.values_mut().filter_map(|stage| stage.alone.as_mut());
            all.for_each(|alone| alone.series.fold(0));
            self.times_kept = 0;
        }
    }
}

impl Root {
    /// Counts work that was launched in it or within.
    pub(super) fn count(&mut self, kernel: bool, span: Span) {
        self.kernels += u64::from(kernel);
        if span.valid() {
            self.first_ns = self.first_ns.min(span.start);
            self.last_ns = self.last_ns.max(span.end);
            self.worked |= span.start < span.end;
        }
    }

    /// The window on the GPU clock. Work that starts before the range does (the clocks are tied
    /// within about a microsecond) widens it, so that idle time cannot get negative.
    fn window(&self, clock: &ClockMap) -> Option<(u64, u64)> {
        let GpuNs(opened) = clock.gpu(MonoNs(self.start))?;
        let closed = match self.end {
            OPEN => opened,
            end => clock.gpu(MonoNs(end))?.0,
        };
        Some((opened.min(self.first_ns), closed.max(self.last_ns)))
    }
}

impl Stage {
    /// Adds an instance to the warm ones; whether it is one. There are none where the first in the
    /// file is not the first in time, where its GPU work overlaps that of others, where an instance
    /// was never closed or goes on as another range, and where the clocks cannot be tied together.
    fn add_warm(&mut self, root: &Root, window: Option<(u64, u64)>, unions: &mut Unions) -> bool {
        let whole = root.counted && root.end != OPEN && window.is_some();
        if root.cold && whole {
            self.cold = Some(*root);
            return false;
        }
        let apart = self.cold.as_ref().is_some_and(|cold| {
            let overlaps = cold.first_ns < root.last_ns && root.first_ns < cold.last_ns;
            cold.start <= root.start && !overlaps
        });
        let Some((start, end)) = window.filter(|_| whole && apart) else {
            self.warm_missing = true;
            return false;
        };
        self.warm.instances += 1;
        self.warm.kernels = self.warm.kernels.saturating_add(root.kernels);
        let union = *self.warm_windows.get_or_insert_with(|| unions.create());
        unions.add(union, start, end);
        true
    }
}

/// Windows that are kept: those of instances come nearly in order.
const KEPT_WINDOWS: usize = 1 << 10;

/// Windows that do not touch each other, by their start.
///
/// The work of a stage is one union of intervals. A gap in it from one instance to the next is in
/// part the time of something else: of another stage, or of the host outside of both ranges.
#[derive(Debug, Default)]
struct Between {
    latest: BTreeMap<u64, Window>,
    /// What is known of the windows before these.
    passed: Option<Passed>,
    short_ns: u64,
}

/// One window, or several that touch.
#[derive(Clone, Copy, Debug)]
struct Window {
    end: u64,
    /// First start and last end of work in it.
    work: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Passed {
    end: u64,
    last_work: Option<u64>,
    /// Time between windows since that work.
    between_ns: u64,
}

impl Between {
    /// Adds the window of an instance, and the first start and last end of its work.
    fn add(&mut self, (mut start, end): (u64, u64), work: Option<(u64, u64)>) {
        let mut window = Window { end, work };
        while let Some((&at, &other)) = self.latest.range(..=window.end).next_back() {
            if other.end < start {
                break;
            }
            self.latest.remove(&at);
            start = start.min(at);
            window.end = window.end.max(other.end);
            window.work = match (window.work, other.work) {
                (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
                (a, b) => a.or(b),
            };
        }
        self.latest.insert(start, window);
        if self.latest.len() > KEPT_WINDOWS {
            self.pass();
        }
    }

    /// Of gaps that are no longer than [`BACK_TO_BACK_NS`], the time between windows, ns.
    fn finish(mut self) -> u64 {
        while !self.latest.is_empty() {
            self.pass();
        }
        self.short_ns
    }

    /// Adds the gap before the earliest window.
    fn pass(&mut self) {
        let Some((start, Window { end, work })) = self.latest.pop_first() else { return };
        let mut passed = self.passed.unwrap_or(Passed { end, last_work: None, between_ns: 0 });
        if self.passed.is_some() {
            let since = start.saturating_sub(passed.end);
            passed.between_ns = passed.between_ns.saturating_add(since);
        }
        passed.end = passed.end.max(end);
        if let Some((first, last)) = work {
            let gap_ns = passed.last_work.map(|before| first.saturating_sub(before));
            if let Some(gap_ns) = gap_ns.filter(|&gap_ns| gap_ns <= BACK_TO_BACK_NS) {
                self.short_ns = self.short_ns.saturating_add(passed.between_ns.min(gap_ns));
            }
            passed.last_work = passed.last_work.max(Some(last));
            passed.between_ns = 0;
        }
        self.passed = Some(passed);
    }
}

/// Windows of one stage that are kept apart.
const MOST_PARTS: usize = 1 << 12;

/// Times that overlap or touch are one. Of too many, neighbours are taken together, and how much of the
/// time from the first to the last of them they fill is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowSet {
    /// In the order of time, apart from each other.
    all: Vec<Part>,
}

/// A window, or several taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Start, ns.
    start: u64,
    end: u64,
    /// Of the time between, that within a window.
    filled: u64,
}

impl Part {
    const fn length(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// About how much of it lies between two times.
    fn within(self, from: u64, to: u64) -> f64 {
        let common = self.end.min(to).saturating_sub(self.start.max(from));
        common as f64 * (self.filled as f64 / self.length().max(1) as f64)
    }
}

impl WindowSet {
    /// Adds a window; one without a length leaves all as it is.
    pub fn add(&mut self, start: u64, end: u64) {
        if end <= start {
            return;
        }
        let first = self.all.partition_point(|part| part.end < start);
        let behind = self.all.partition_point(|part| part.start <= end).max(first);
        let touched = self.all.get(first..behind).unwrap_or_default();
        let known = |part: &Part| part.end.min(end).saturating_sub(part.start.max(start));
        let new = (end - start).saturating_sub(touched.iter().map(known).sum());
        let filled = touched.iter().fold(new, |sum, part| sum.saturating_add(part.filled));
        let whole = Part {
            start: touched.first().map_or(start, |part| part.start.min(start)),
            end: touched.last().map_or(end, |part| part.end.max(end)),
            filled,
        };
        self.all.splice(first..behind, [whole]);
        if self.all.len() > MOST_PARTS {
            self.coarsen();
        }
    }

    /// Takes two neighbours each together.
    pub fn coarsen(&mut self) {
        let together = |pair: &[Part]| {
            let (first, last) = (*pair.first()?, *pair.last()?);
            let filled = pair.iter().fold(0, |sum: u64, part| sum.saturating_add(part.filled));
            Some(Part { start: first.start, end: last.end, filled })
        };
        self.all = self.all.chunks(2).filter_map(together).collect();
    }

    fn len(&self) -> usize {
        self.all.len()
    }

    /// From the start of the first window to the end of the last one.
    pub fn extent(&self) -> (u64, u64) {
        let (first, last) = (self.all.first(), self.all.last());
        (first.map_or(0, |part| part.start), last.map_or(0, |part| part.end))
    }

    /// Time within windows.
    pub fn filled(&self) -> u64 {
        self.all.iter().fold(0, |sum, part| sum.saturating_add(part.filled))
    }

    /// Time within windows between two times.
    pub fn within(&self, from: u64, to: u64) -> f64 {
        let first = self.all.partition_point(|part| part.end <= from);
        let parts = self.all.get(first..).unwrap_or_default();
        parts.iter().take_while(|part| part.start < to).map(|part| part.within(from, to)).sum()
    }

    /// Whether a time lies in a window, or in several that were taken together.
    pub fn holds(&self, at: u64) -> bool {
        let part = self.all.partition_point(|part| part.end < at);
        self.all.get(part).is_some_and(|part| part.start <= at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stage2_contract::trace::{Anchor, WallNs};

    use super::*;

    #[test]
    fn what_is_still_open_is_kept_and_what_is_closed_is_forgotten() {
        let clock = ClockMap::default();
        let mut roots = Roots::within(4, Share::default());
        let outer = roots.open(7, 1, 1, true, None);
        for start in 2..20 {
            if roots.is_full() {
                roots.settle(&clock);
            }
            let number = roots.open(8, 1, start, true, None);
            roots.get_mut(number).expect("just opened").end = start + 1;
            assert!(roots.latest.len() <= 4 && roots.pinned.len() <= 1);
        }
        assert_eq!(roots.get(outer).map(|root| root.stage), Some(7));
        assert!(roots.get(outer + 1).is_none());
        let (stages, joined, _) = roots.finish(&clock);
        assert_eq!(joined, None, "no stage is said to be the model's");
        assert_eq!(stages[&8].kernels_per_instance.count(), 18);
        assert_eq!(stages[&7].kernels_per_instance.count(), 1);
    }

    #[test]
    fn what_came_before_a_step_is_of_its_thread_and_may_still_run_on_the_gpu() {
        let anchor = Anchor { gpu: GpuNs(1_000), mono: MonoNs(1), wall: WallNs(0) };
        let clock = ClockMap::new(&[anchor]);
        let mut roots = Roots::within(64, Share::default());
        let mut add = |stage, thread, start| {
            let number = roots.open(stage, thread, start, true, None);
            roots.get_mut(number).expect("just opened").end = start + 10;
            (number, start)
        };
        let (first, _) = add(7, 1, 101);
        add(8, 2, 111);
        let (root, start) = add(9, 1, 121);
        let timed = Timed { ns: 10, start, root };
        assert_eq!(roots.before(&timed, &clock), None, "it had no GPU work");
        let mixed = roots.get_mut(first).expect("it is kept");
        (mixed.worked, mixed.first_ns, mixed.last_ns) = (true, 1_110, 1_190);
        assert_eq!(roots.before(&timed, &clock), Some((7, 70)));
        assert_eq!(roots.before(&Timed { start: start + 1, ..timed }, &clock), None, "within it");
    }

    /// Hazard (Hostile files): Hundreds of thousands of outermost ranges that never end.
    /// Promise: Each takes no longer than the one before.
    #[test]
    fn many_that_stay_open_are_not_looked_at_again_and_again() {
        let clock = ClockMap::default();
        let mut roots = Roots::within(4, Share::default());
        let mut settled = 0;
        for start in 1..10_000 {
            if roots.is_full() {
                roots.settle(&clock);
                settled += 1;
            }
            roots.open(7, 1, start, true, None);
        }
        assert!(settled < 40, "{settled} times");
    }

    proptest! {
        #[test]
        fn the_window_changes_no_number(
            instances in prop::collection::vec((0u32..3, 0u64..50, 1u64..40, 0u64..3), 1..80),
            window in 2usize..12,
        ) {
            let anchor = Anchor { gpu: GpuNs(1_000), mono: MonoNs(1), wall: WallNs(0) };
            let clock = ClockMap::new(&[anchor]);
            let stages = |window| {
                let mut roots = Roots::within(window, Share::default());
                roots.join(0);
                roots.join(1);
                let mut now = 1;
                for &(stage, gap, ns, kernels) in &instances {
                    if roots.is_full() {
                        roots.settle(&clock);
                    }
                    now += gap;
                    let number = roots.open(stage, 1, now, true, None);
                    let Some(root) = roots.get_mut(number) else { continue };
                    root.end = now + ns;
                    let start = now + 1_000;
                    let span = Span { start, end: start + 2 * kernels };
                    (0..kernels).for_each(|_| root.count(true, span));
                }
                roots.finish(&clock)
            };
            prop_assert_eq!(stages(window), stages(usize::MAX));
        }
    }

    type Instance = ((u64, u64), Option<(u64, u64)>);

    fn of(windows: &[Instance]) -> u64 {
        let mut between = Between::default();
        windows.iter().for_each(|&(window, work)| between.add(window, work));
        between.finish()
    }

    #[test]
    fn only_what_lies_between_windows_counts_and_only_of_short_gaps() {
        let us = 1_000;
        let step = |at: u64| ((at, at + 100 * us), Some((at + 5 * us, at + 95 * us)));
        // 30 us between windows, of a gap of 40 us.
        assert_eq!(of(&[step(0), step(130 * us), step(260 * us)]), 60 * us);
        assert_eq!(of(&[step(260 * us), step(0), step(130 * us)]), 60 * us, "in any order");
        // A gap of 51 us is no short one.
        assert_eq!(of(&[step(0), step(141 * us)]), 0);
        // An instance without work is a window all the same.
        let empty = ((110 * us, 120 * us), None);
        assert_eq!(of(&[step(0), empty, step(130 * us)]), 20 * us);
        // Threads: something was open all the time.
        assert_eq!(of(&[step(0), step(130 * us), ((90 * us, 140 * us), None)]), 0);
    }

    #[test]
    fn memory_is_bounded_and_the_order_of_a_million_instances_changes_nothing() {
        let mut between = Between::default();
        for at in 0..1_000_000u64 {
            between.add((10 * at, 10 * at + 8), Some((10 * at, 10 * at + 8)));
            assert!(between.latest.len() <= KEPT_WINDOWS);
        }
        assert_eq!(between.finish(), 2 * 999_999);
    }

    proptest! {
        #[test]
        fn a_set_is_a_union_in_any_order(windows in prop::collection::vec((0u64..60, 0u64..9), 0..40)) {
            let mut set = WindowSet::default();
            windows.iter().for_each(|&(start, length)| set.add(start, start + length));
            let is_in = |at: u64| windows.iter().any(|&(start, length)| start <= at && at < start + length);
            let expected = (0..80).filter(|&at| is_in(at)).count() as u64;
            prop_assert_eq!(set.filled(), expected);
            for from in 0..70 {
                let expected = (from..from + 7).filter(|&at| is_in(at)).count() as f64;
                prop_assert_eq!(set.within(from, from + 7), expected);
            }
        }
    }

    #[test]
    fn too_many_windows_keep_their_sum() {
        let mut set = WindowSet::default();
        let count = 3 * MOST_PARTS as u64;
        (0..count).for_each(|number| set.add(number * 10, number * 10 + 4));
        assert!(set.len() <= MOST_PARTS);
        assert_eq!(set.filled(), count * 4);
        let half = set.within(0, count * 5);
        assert!((half / (count * 2) as f64 - 1.0).abs() < 0.001, "{half}");
        assert!(set.holds(0) && !set.holds(count * 10 + 50));
    }
}
