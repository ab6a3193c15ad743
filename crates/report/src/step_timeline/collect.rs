//! Events of a trace file -> those of one step.
//!
//! A range comes when it closes, so before those around it, and work may come long after its range. So
//! everything that can belong to the step is kept, in bounded space, until it is known what does:
//! identifiers grow, and whatever is within a range has a larger one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexSet;

use crate::join::kernels::direction;
use stage2_contract::stats::BACK_TO_BACK_NS;
use stage2_contract::trace::ReadError;
use stage2_model::{
    HostAtGaps, Step, StepTimeline, TimelineGap, TimelineLane, TimelineRange, TimelineSum,
    TimelineSums, TimelineWork,
};
use stage2_read::kernel_class::class_of;
use stage2_read::trace::events::{Event, Range, Span, What, Work};

/// Pieces of GPU work of a step, and gaps: the longest are kept.
const WORK: usize = 4_000;
/// Ranges of a step: the longest are kept.
const RANGES: usize = 1_000;
/// Names whose work is added up by itself: those with the longest time.
const SUMS: usize = 1_000;
/// Work and ranges that may turn out to be the step's.
const CANDIDATES: usize = 1 << 18;
/// Names of these.
const NAMES: usize = 1 << 14;
/// Stands for all names that did not fit.
const OTHER_NAMES: &str = "(another name)";
/// Work reaches the file some flush periods late, about in the order in which it ran. Once work comes
/// that is this much younger than the step, none of the step is to come. When ranges come says nothing:
/// they are written at once, and a flush period may be an hour.
const LATEST_NS: i64 = 10_000_000_000;

/// Why a pass over a file ended before its end.
pub(super) enum Stop {
    /// All steps are over.
    Over,
    /// The file is no longer there.
    Unreadable(ReadError),
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Self::Unreadable(error)
    }
}

struct OpenedRange {
    parent: u64,
    name: usize,
    span: Span,
}

struct Candidate {
    range: u64,
    device: u32,
    stream: u32,
    name: usize,
    class: &'static str,
    span: Span,
}

/// What may belong to a step.
pub(super) struct StepEvents {
    step: Step,
    names: IndexSet<String>,
    ranges: BTreeMap<u64, OpenedRange>,
    work: Vec<Candidate>,
    /// Work of the step cannot be of this range or a younger one.
    younger: u64,
    /// Candidates that did not fit.
    dropped: u64,
    over: bool,
}

impl StepEvents {
    pub(super) fn of(step: Step) -> Self {
        Self {
            step,
            names: IndexSet::new(),
            ranges: BTreeMap::new(),
            work: Vec::new(),
            younger: u64::MAX,
            dropped: 0,
            over: false,
        }
    }

    /// Nothing of the step is to come.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn take(&mut self, event: &Event<'_>) {
        match event {
            _ if self.over => {}
            Event::Range(range) => self.range(range),
            Event::Work(work) => self.work(work),
            Event::Mark { .. } => {}
        }
    }

    fn range(&mut self, range: &Range<'_>) {
        if range.id < self.step.range {
            return;
        }
        if let Some(step) = self.ranges.get(&self.step.range)
            && range.span.start_ns >= step.span.end_ns
        {
            self.younger = self.younger.min(range.id);
            return;
        }
        // The step itself always fits.
        if self.ranges.len() >= CANDIDATES && range.id != self.step.range {
            self.dropped += 1;
            return;
        }
        let name = self.name(range.path.elements.last().map_or(range.name, String::as_str));
        self.ranges.insert(range.id, OpenedRange { parent: range.parent, name, span: range.span });
    }

    fn work(&mut self, work: &Work<'_>) {
        let Some(span) = work.span else { return };
        if let Some(step) = self.ranges.get(&self.step.range)
            && span.start_ns.saturating_sub(step.span.end_ns) > LATEST_NS
            && work.range >= self.younger
        {
            self.over = true;
            return;
        }
        if work.range < self.step.range || work.range >= self.younger {
            return;
        }
        if self.work.len() >= CANDIDATES {
            self.dropped += 1;
            return;
        }
        let (name, class) = match work.what {
            What::Kernel(_, name) => (self.name(&name.short), class_of(name).label()),
            What::Copy { kind, .. } => (self.name(&format!("copy, {}", direction(kind))), "copy"),
            What::Fill { .. } => (self.name("fill"), "fill"),
            What::Graph { graph } => (self.name(&format!("CUDA graph {graph}")), "graph"),
        };
        let (device, stream) = (work.queue.device, work.queue.stream);
        self.work.push(Candidate { range: work.range, device, stream, name, class, span });
    }

    fn name(&mut self, name: &str) -> usize {
        if let Some(index) = self.names.get_index_of(name) {
            return index;
        }
        let name = if self.names.len() < NAMES { name } else { OTHER_NAMES };
        self.names.insert_full(name.to_owned()).0
    }

    /// The step; nothing where its range did not come. Who it is of stays to be filled in.
    pub(super) fn finish(mut self) -> Option<StepTimeline> {
        let step = self.ranges.get(&self.step.range)?.span;
        // Parents have smaller identifiers than what is within them.
        let mut depths: BTreeMap<u64, u64> = BTreeMap::from([(self.step.range, 0)]);
        for (id, range) in self.ranges.iter().filter(|(id, _)| **id > self.step.range) {
            if let Some(depth) = depths.get(&range.parent).map(|depth| depth + 1) {
                depths.insert(*id, depth);
            }
        }
        self.ranges.retain(|id, _| depths.contains_key(id));
        self.work.retain(|work| depths.contains_key(&work.range));
        let since = |at: i64| u64::try_from(at.saturating_sub(step.start_ns)).unwrap_or(0);
        let length = |span: Span| u64::try_from(span.ns()).unwrap_or(0);
        self.work.sort_by_key(|work| work.span.start_ns);
        let ends = self.work.iter().map(|work| since(work.span.start_ns) + length(work.span));
        let length_ns = ends.fold(length(step), u64::max);
        // Beyond what fits in memory nobody knows what the GPU did.
        let gaps = if self.dropped == 0 { self.gaps(since, length_ns) } else { Vec::new() };
        let host_at_gaps = (self.dropped == 0).then(|| self.host_at_gaps(&gaps, since));

        let mut ranges: Vec<_> = self.ranges.iter().collect();
        ranges.sort_by_key(|(id, range)| {
            (depths.get(id).is_some_and(|d| *d > 0), Reverse(range.span.ns()))
        });
        let mut left_out = ranges.len().saturating_sub(RANGES);
        ranges.truncate(RANGES);
        ranges.sort_by_key(|(id, _)| **id);
        let mut names = Names { all: &self.names, kept: IndexSet::new() };
        let ranges = ranges.iter().map(|(id, range)| TimelineRange {
            name: names.keep(range.name),
            depth: depths.get(id).copied().unwrap_or(0),
            start_ns: since(range.span.start_ns),
            length_ns: length(range.span),
        });
        let ranges = ranges.collect();

        left_out += self.work.len().saturating_sub(WORK);
        let sums = self.sums(&gaps, &mut names);
        let kept = longest(&self.work, WORK, |work| work.span.ns());
        let mut lanes: BTreeMap<(u32, u32), Vec<TimelineWork>> = BTreeMap::new();
        for work in kept {
            lanes.entry((work.device, work.stream)).or_default().push(TimelineWork {
                name: names.keep(work.name),
                class: work.class.to_owned(),
                start_ns: since(work.span.start_ns),
                length_ns: length(work.span),
            });
        }
        let lane = |((device, stream), work)| TimelineLane {
            label: format!("GPU {device}, stream {stream}"),
            work,
        };
        Some(StepTimeline {
            length_ns,
            lanes: lanes.into_iter().map(lane).collect(),
            names: names.kept.into_iter().map(str::to_owned).collect(),
            ranges,
            gaps: longest(&gaps, WORK, |gap| gap.length_ns).copied().collect(),
            host_at_gaps,
            sums,
            left_out: (left_out as u64).saturating_add(self.dropped),
            ..StepTimeline::default()
        })
    }

    /// Times in which none of the work, which is sorted, ran.
    fn gaps(&self, since: impl Fn(i64) -> u64, length_ns: u64) -> Vec<TimelineGap> {
        let mut gaps = Vec::new();
        let mut covered_to = 0u64;
        for (at, work) in self.work.iter().enumerate() {
            let start_ns = since(work.span.start_ns);
            if start_ns > covered_to {
                let length_ns = start_ns - covered_to;
                let launch = at > 0 && length_ns <= BACK_TO_BACK_NS;
                gaps.push(TimelineGap { start_ns: covered_to, length_ns, launch });
            }
            covered_to = covered_to.max(start_ns + u64::try_from(work.span.ns()).unwrap_or(0));
        }
        if !self.work.is_empty() && length_ns > covered_to {
            let length_ns = length_ns - covered_to;
            gaps.push(TimelineGap { start_ns: covered_to, length_ns, launch: false });
        }
        gaps
    }

    /// Where the host was when each of the gaps began. What is launched in a range is launched before the
    /// host leaves it, and after it was opened.
    fn host_at_gaps(&self, gaps: &[TimelineGap], since: impl Fn(i64) -> u64) -> HostAtGaps {
        let mut found = HostAtGaps::default();
        for gap in gaps {
            found.all_ns = found.all_ns.saturating_add(gap.length_ns);
            let end_ns = gap.start_ns.saturating_add(gap.length_ns);
            let next = self.work.partition_point(|work| since(work.span.start_ns) < end_ns);
            let range = self.work.get(next).and_then(|work| self.ranges.get(&work.range));
            let sum = match range {
                Some(range) if since(range.span.end_ns) <= gap.start_ns => &mut found.ahead_ns,
                // The step itself is open from the beginning on.
                Some(range) if since(range.span.start_ns) >= gap.start_ns => &mut found.behind_ns,
                Some(_) => continue,
                None => &mut found.behind_ns,
            };
            *sum = sum.saturating_add(gap.length_ns);
        }
        found
    }

    /// What all of the work and all gaps add up to: what is drawn is a part of it.
    fn sums(&self, gaps: &[TimelineGap], names: &mut Names<'_>) -> TimelineSums {
        let mut by_name: BTreeMap<(&'static str, usize), TimelineSum> = BTreeMap::new();
        for work in &self.work {
            let class = work.class;
            let new = || TimelineSum { class: class.to_owned(), ..TimelineSum::default() };
            let ns = u64::try_from(work.span.ns()).unwrap_or(0);
            let sum = by_name.entry((class, work.name)).or_insert_with(new);
            add(sum, &TimelineSum { calls: 1, total_ns: ns, longest_ns: ns, ..new() });
        }
        let mut all: Vec<_> = by_name.into_iter().collect();
        all.sort_by_key(|(_, sum)| Reverse(sum.total_ns));
        let mut rest: BTreeMap<&'static str, TimelineSum> = BTreeMap::new();
        for ((class, _), more) in all.split_off(SUMS.min(all.len())) {
            let new = || TimelineSum { class: class.to_owned(), ..TimelineSum::default() };
            add(rest.entry(class).or_insert_with(new), &more);
        }
        let work = all
            .into_iter()
            .map(|((_, name), sum)| TimelineSum { name: Some(names.keep(name)), ..sum });
        let of = |launch: bool| {
            let gaps = gaps.iter().filter(|gap| gap.launch == launch);
            gaps.fold(0u64, |sum, gap| sum.saturating_add(gap.length_ns))
        };
        TimelineSums {
            whole: self.dropped == 0,
            work: work.chain(rest.into_values()).collect(),
            launch_gaps_ns: of(true),
            other_idle_ns: of(false),
        }
    }
}

fn add(sum: &mut TimelineSum, more: &TimelineSum) {
    sum.calls += more.calls;
    sum.total_ns = sum.total_ns.saturating_add(more.total_ns);
    sum.longest_ns = sum.longest_ns.max(more.longest_ns);
}

/// The `most` longest of `all`, in their order.
fn longest<T, L: Ord>(
    all: &[T],
    most: usize,
    length: impl Fn(&T) -> L,
) -> impl Iterator<Item = &T> {
    let mut by_length: Vec<usize> = (0..all.len()).collect();
    by_length.sort_by_key(|at| all.get(*at).map(|one| Reverse(length(one))));
    let kept: BTreeSet<usize> = by_length.into_iter().take(most).collect();
    kept.into_iter().filter_map(|at| all.get(at))
}

/// Names that something kept has, numbered anew.
struct Names<'n> {
    all: &'n IndexSet<String>,
    kept: IndexSet<&'n str>,
}

impl Names<'_> {
    fn keep(&mut self, index: usize) -> usize {
        let name = self.all.get_index(index).map_or(OTHER_NAMES, String::as_str);
        self.kept.insert_full(name).0
    }
}
