//! Repeating steps in the launches of a process without ranges -> [`Marks`]: the launches of its
//! start-up, its prefills and its decode steps. A second reading of the trace adds them to the
//! records as ranges.
//!
//! A step begins where the GPU waits longest within the pattern that [`steps`](super::steps) finds.
//! The launches there identify each later step, also one with an extra kernel, and often the
//! prefill too. Every launch belongs to one mark, by CUPTI's correlation ID, so the stages add up
//! to the process.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::trace as records;
use stage2_contract::trace::{
    GpuNs, GpuWork, MonoNs, NONE, RANGE_OUTSIDE, RANGE_UNKNOWN, RangeOpen, ReadError, Record, What,
    window,
};

use super::ProcessCapture;
use super::clock::ClockMap;
use super::file::Trace;
use super::libraries::RangeNames;
use super::placed::Placing;
use super::stats::Span;
use super::steps::{GRAPH, InOrder, LONGER_PERCENT, Launch, Phase, at_least};

/// Everything before the first step: loading, compilation, capture of graphs.
pub const START_UP: &str = "start-up (inferred)";
/// Longer work before decode steps, or between them.
pub const PREFILL: &str = "prefill (inferred)";
/// Steps without other work between them.
pub const DECODE: &str = "decode (inferred)";
/// A step of [`DECODE`].
const STEP: &str = "step";

/// Minimum number of decode steps of a process.
const FEWEST_STEPS: usize = 8;
/// Minimum part of decode steps in the launches from the first step on, percent.
const CERTAIN_PERCENT: u64 = 50;
/// Minimum part of a step's launches that are of kernels of the pattern, percent.
const ALIKE_PERCENT: u64 = 95;
/// Maximum number of marks of a process: with more, no stages are inferred. A mark has 40 bytes.
const MARKS: usize = 1 << 20;
/// Launches before the first step that are kept: the maximum length of a first prefill.
const RECENT: usize = 1 << 15;
/// Maximum number of steps before the first equal ones; each of them differs by a kernel.
const ODD_STEPS: usize = 4;
/// Maximum length of the first prefill, in steps by number of launches, if there is no other
/// prefill to compare it with.
const FIRST_PREFILL: u64 = 16;
/// Maximum number of kinds of steps that are distinguished.
const KINDS: usize = 16;
/// Maximum number of launches that identify the begin of a step.
const ANCHOR: usize = 1 << 12;
/// Maximum number of library ranges whose place is kept.
const LIBRARY_RANGES: usize = 1 << 20;
/// Maximum number of paths of library ranges that are put into inferred stages.
const LIBRARY_PATHS: usize = 1 << 12;
/// Parts of the names of training kernels: a step with such a kernel is not decode.
const TRAINING: [&[u8]; 4] = [b"backward", b"Backward", b"_bwd", b"multi_tensor_apply"];

/// Place of a launch in the order of launches: CUPTI's correlation ID, and the node of the graph.
type Place = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    StartUp,
    Prefill,
    DecodeStep,
    /// In no stage.
    Rest,
}

/// Launches from `from` to the next mark.
#[derive(Clone, Copy, Debug)]
struct Mark {
    kind: Kind,
    from: Place,
    /// On the clock of the GPU, ns.
    span: Span,
}

/// Where the inferred stages of a process begin.
#[derive(Debug, Default)]
pub struct Marks {
    /// Ascending by place.
    all: Vec<Mark>,
    /// First launch of each range of a library.
    libraries: FxHashMap<u64, Place>,
    clock: ClockMap,
}

/// Finds the marks of a process that was read without marks; `None` if no step is certain.
///
/// # Errors
/// The file cannot be opened any more.
pub(super) fn find(
    process: &ProcessCapture,
    libraries: &RangeNames,
) -> Result<Option<Marks>, ReadError> {
    let repeats = process.whole.iter().flat_map(|whole| &whole.repeats);
    let Some(repeats) = repeats.max_by_key(|repeats| repeats.launches) else { return Ok(None) };
    let name = |what: u32| process.names.get((what & !GRAPH).checked_sub(1)? as usize);
    let trains = |phase: &Phase| {
        let kernels = phase.whats.iter().filter(|&what| what & GRAPH == 0);
        kernels.filter_map(|&what| name(what)).any(|name| {
            TRAINING.iter().any(|part| name.windows(part.len()).any(|found| found == *part))
        })
    };
    let is_decode = |phase: &&Phase| !phase.whats.is_empty() && !trains(phase);
    let phases: Vec<&Phase> = repeats.phases.iter().filter(is_decode).collect();
    let rare: Vec<&Phase> = repeats.rare.iter().filter(is_decode).collect();
    let Some(mut finder) = Finder::of(&phases, &rare) else { return Ok(None) };
    let mut marks = Marks { clock: process.clock.clone(), ..Marks::default() };
    let mut order = InOrder::default();
    let mut placing = Placing::new(libraries, None, process.joined.clone());
    for record in Trace::open(&process.path)?.map_while(Result::ok) {
        let Record::Work(work) = &record else {
            placing.take(&record);
            continue;
        };
        if !matches!(work.range, RANGE_OUTSIDE | RANGE_UNKNOWN)
            && marks.libraries.len() < LIBRARY_RANGES
        {
            marks.libraries.entry(work.range).or_insert((work.correlation, work.graph_node));
        }
        let what = match work.what {
            What::Kernel { shape } => {
                let name = placing.shape(shape).and_then(|(_, name)| name);
                name.map_or(0, |name| name + 1)
            }
            What::Graph { graph } => GRAPH | graph,
            What::Copy { .. } | What::Fill { .. } => continue,
        };
        if repeats.queue.is_none_or(|queue| queue == work.queue) {
            let &GpuWork { queue, correlation, graph_node: node, .. } = work;
            let span = Span { start: work.start.0, end: work.end.0 };
            order.push(Launch { what, queue, correlation, node, span }).iter().for_each(|launch| {
                finder.push(launch);
            });
        }
    }
    order.rest().iter().for_each(|launch| finder.push(launch));
    // Launches before a window are not a start-up.
    let from_start = !process.meta.contains_key(window::ENDED);
    marks.all = finder.finish(from_start);
    Ok((!marks.all.is_empty()).then_some(marks))
}

/// First launches of a step. They occur at no other place within the step.
#[derive(Debug)]
struct Anchor {
    whats: Vec<u32>,
    period: u64,
}

impl Anchor {
    /// `None` if it would need too many launches.
    fn of(phase: &Phase) -> Option<Self> {
        let whats = &phase.whats;
        // Places of the period with the same launches as its begin so far.
        let mut alike: Vec<usize> = (1..whats.len()).collect();
        let mut length = 0;
        while !alike.is_empty() && length < whats.len().min(ANCHOR) {
            alike.retain(|at| whats.get((at + length) % whats.len()) == whats.get(length));
            length += 1;
        }
        let whats = whats.iter().take(length.max(1)).copied().collect();
        alike.is_empty().then_some(Self { whats, period: phase.launches_per_step })
    }

    /// Whether a step of this kind begins in the same way.
    fn begins(&self, phase: &Phase) -> bool {
        let whats = &phase.whats;
        let is_at = |&at: &usize| {
            let found = whats.iter().cycle().skip(at).take(self.whats.len());
            self.whats.len() <= whats.len() && found.eq(&self.whats)
        };
        (0..whats.len()).filter(is_at).count() == 1
    }

    fn is_at(&self, launches: &VecDeque<Launch>) -> bool {
        // The last one tells it from its likes, which are the same up to there.
        let last = self.whats.len().checked_sub(1).and_then(|last| launches.get(last));
        last.is_some_and(|launch| self.whats.last() == Some(&launch.what))
            && launches.iter().zip(&self.whats).all(|(launch, what)| launch.what == *what)
    }
}

/// Launches from a place that looks like the begin of a step to the next such place.
#[derive(Clone, Copy, Debug)]
struct Interval {
    from: Place,
    period: u64,
    anchored: bool,
    launches: u64,
    /// Number of launches of kernels that are in steps too.
    alike: u64,
    kernel_sum_ns: u64,
    span: Span,
}

impl Interval {
    fn at(launch: &Launch, period: u64, anchored: bool) -> Self {
        let start = launch.span.start;
        Self {
            from: (launch.correlation, launch.node),
            period,
            anchored,
            launches: 0,
            alike: 0,
            kernel_sum_ns: 0,
            span: Span { start, end: start },
        }
    }

    fn add(&mut self, launch: &Launch, alike: bool) {
        self.launches += 1;
        self.alike += u64::from(alike);
        if launch.span.valid() {
            self.kernel_sum_ns = self.kernel_sum_ns.saturating_add(launch.span.ns());
            self.span.end = self.span.end.max(launch.span.end);
        }
    }

    /// Adds the launches of the interval that follows.
    fn join(&mut self, rest: &Self) {
        self.launches += rest.launches;
        self.alike += rest.alike;
        self.kernel_sum_ns = self.kernel_sum_ns.saturating_add(rest.kernel_sum_ns);
        self.span.end = self.span.end.max(rest.span.end);
    }

    /// Whether it is a step, which may differ from the others by a few kernels.
    fn is_step(&self) -> bool {
        at_least(self.alike, self.launches, ALIKE_PERCENT)
            && at_least(self.launches, self.period, 50)
            && at_least(self.period, self.launches, 80)
    }

    fn mark(&self, kind: Kind) -> Mark {
        Mark { kind, from: self.from, span: self.span }
    }
}

/// Finds steps in the sequence of launches.
#[derive(Debug)]
struct Finder {
    anchors: Vec<Anchor>,
    longest: usize,
    /// Whether the steps follow longer work, according to the pattern alone.
    follows_longer_work: bool,
    of_steps: FxHashSet<u32>,
    /// Mean kernel time of a step, ns.
    step_ns: u64,
    /// Index of the first launch of the first phase.
    first: u64,
    ahead: VecDeque<Launch>,
    count: u64,
    /// Number of launches from the first step on.
    since: u64,
    in_steps: u64,
    /// The open interval, with the index of its first launch.
    open: Option<(u64, Interval)>,
    /// The launches after the first period of the open interval.
    behind: Option<Interval>,
    /// The last intervals before the first step.
    before: VecDeque<Interval>,
    recent: VecDeque<Launch>,
    has_begun: bool,
    /// Start of the very first launch, ns.
    start: Option<u64>,
    marks: Vec<Mark>,
    /// The first prefill: its number of launches, and whether it begins as a step does.
    prefill: Option<(u64, bool)>,
    over: bool,
}

impl Finder {
    /// Creates a finder for steps of these kinds, the most frequent first, and for `rare` steps of
    /// similar length.
    fn of(phases: &[&Phase], rare: &[&Phase]) -> Option<Self> {
        let main = phases.first()?;
        let period = main.launches_per_step;
        let is_as_long = |phase: &&&Phase| {
            at_least(phase.launches_per_step, period, 80)
                && at_least(period, phase.launches_per_step, 80)
        };
        let kinds: Vec<&Phase> = phases.iter().chain(rare).filter(is_as_long).copied().collect();
        // A kind with two anchors would be counted as two steps.
        let mut anchors: Vec<Anchor> = Vec::new();
        for kind in kinds.iter().take(KINDS) {
            if !anchors.iter().any(|anchor| anchor.begins(kind)) {
                anchors.extend(Anchor::of(kind));
            }
        }
        Some(Self {
            follows_longer_work: main.follows_longer_work(),
            longest: anchors.iter().map(|anchor| anchor.whats.len()).max()?,
            anchors,
            of_steps: kinds.iter().flat_map(|phase| phase.whats.iter().copied()).collect(),
            step_ns: main.kernel_sum_ns.checked_div(main.steps)?,
            first: phases.iter().map(|phase| phase.first_launch).min()?,
            ahead: VecDeque::new(),
            count: 0,
            since: 0,
            in_steps: 0,
            open: None,
            behind: None,
            before: VecDeque::new(),
            recent: VecDeque::new(),
            has_begun: false,
            start: None,
            marks: Vec::new(),
            prefill: None,
            over: false,
        })
    }

    fn push(&mut self, launch: &Launch) {
        self.ahead.push_back(*launch);
        if self.ahead.len() >= self.longest {
            self.take();
        }
    }

    /// Processes the oldest launch, when enough of the next launches are known.
    fn take(&mut self) {
        let anchor = self.anchors.iter().find(|anchor| anchor.is_at(&self.ahead));
        let period = anchor.map(|anchor| anchor.period);
        let Some(launch) = self.ahead.pop_front() else { return };
        if let Some(period) = period {
            self.close(Some(launch.span.start));
            self.open = Some((self.count, Interval::at(&launch, period, true)));
        }
        if launch.span.valid() {
            self.start.get_or_insert(launch.span.start);
        }
        let alike = self.of_steps.contains(&launch.what);
        match (&mut self.open, &mut self.behind) {
            (_, Some(behind)) => behind.add(&launch, alike),
            (Some((_, open)), None) if open.launches == open.period && open.is_step() => {
                let mut behind = Interval::at(&launch, open.period, false);
                behind.add(&launch, alike);
                self.behind = Some(behind);
            }
            (Some((_, open)), None) => open.add(&launch, alike),
            (None, None) => {}
        }
        if !self.has_begun {
            self.recent.push_back(launch);
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
        } else {
            self.since += 1;
        }
        self.count += 1;
    }

    /// Ends the open interval. The next one begins at `next` (ns); `None`: there is no next one.
    fn close(&mut self, next: Option<u64>) {
        let Some((number, mut open)) = self.open.take() else { return };
        let mut behind = self.behind.take();
        let is_step = behind.is_some() || open.is_step();
        if let Some(rest) = behind {
            let mut all = open;
            all.join(&rest);
            // It belongs to the nearer of its neighbours.
            let after_ns = rest.span.start.saturating_sub(open.span.end);
            let until_ns = next.map_or(0, |next| next.saturating_sub(rest.span.end));
            let is_apart = after_ns > until_ns && after_ns > open.span.ns();
            // An odd step has an extra kernel.
            if all.is_step() || (!self.is_longer(&rest) && !is_apart) {
                (open, behind) = (all, None);
            }
        }
        if !self.has_begun {
            if number < self.first || !is_step {
                self.before.extend([Some(open), behind].into_iter().flatten());
                while self.before.len() > 2 * ODD_STEPS {
                    self.before.pop_front();
                }
                return;
            }
            self.begin(&open);
        }
        if is_step {
            self.in_steps += open.launches;
            self.marks.push(open.mark(Kind::DecodeStep));
        }
        let other = if is_step { behind } else { Some(open) };
        if let Some(other) = other {
            let longer = self.is_longer(&other);
            let kind = if longer && next.is_some() { Kind::Prefill } else { Kind::Rest };
            if kind == Kind::Prefill {
                self.prefill.get_or_insert((other.launches, other.anchored));
            }
            self.marks.push(other.mark(kind));
        }
        self.over |= self.marks.len() > MARKS;
        if self.over {
            self.marks.clear();
        }
    }

    fn is_longer(&self, other: &Interval) -> bool {
        u128::from(other.kernel_sum_ns) * 100 >= u128::from(self.step_ns) * LONGER_PERCENT
    }

    /// Handles the begin of the first step. The intervals right before it that are steps are odd
    /// steps.
    fn begin(&mut self, first: &Interval) {
        let mut odd = Vec::new();
        while odd.len() < ODD_STEPS
            && let Some(step) = self.before.back().copied().filter(Interval::is_step)
        {
            self.before.pop_back();
            odd.push(step);
        }
        let from = odd.last().unwrap_or(first).from;
        self.recent.retain(|launch| (launch.correlation, launch.node) < from);
        self.in_steps += odd.iter().map(|step| step.launches).sum::<u64>();
        self.since += self.in_steps + first.launches;
        self.marks.extend(odd.iter().rev().map(|step| step.mark(Kind::DecodeStep)));
        self.has_begun = true;
    }

    /// Returns the marks; empty if they are not certain.
    fn finish(mut self, from_start: bool) -> Vec<Mark> {
        while !self.ahead.is_empty() {
            self.take();
        }
        self.close(None);
        let steps = self.marks.iter().filter(|mark| mark.kind == Kind::DecodeStep).count();
        if self.over
            || steps < FEWEST_STEPS
            || !at_least(self.in_steps, self.since, CERTAIN_PERCENT)
        {
            return Vec::new();
        }
        let mut lead = self.lead(from_start);
        lead.append(&mut self.marks);
        if !self.follows_longer_work && !lead.iter().any(|mark| mark.kind == Kind::Prefill) {
            return Vec::new();
        }
        // The correlation IDs distinguish the launches.
        let grows = lead.is_sorted_by(|before, next| before.from < next.from);
        if grows { lead } else { Vec::new() }
    }

    /// Returns the marks before the first step: its prefill, if it looks like the next prefill, and
    /// before it the start-up.
    fn lead(&self, from_start: bool) -> Vec<Mark> {
        let is_prefill = |last: &&Interval| {
            last.anchored && self.is_longer(last) && last.launches <= FIRST_PREFILL * last.period
        };
        let last = self.before.back().filter(is_prefill);
        let prefill = match self.prefill {
            Some((launches, false)) => {
                let from = usize::try_from(launches).ok();
                let from = from.and_then(|launches| self.recent.len().checked_sub(launches));
                from.map(|from| self.recent.range(from..))
            }
            _ => last.map(|last| {
                let place = |launch: &Launch| (launch.correlation, launch.node);
                self.recent.range(self.recent.partition_point(|one| place(one) < last.from)..)
            }),
        };
        let of = |mut launches: std::collections::vec_deque::Iter<'_, Launch>, kind| {
            let mut all = Interval::at(launches.next()?, 0, false);
            launches.for_each(|launch| all.add(launch, false));
            Some(all.mark(kind))
        };
        let prefill = prefill.and_then(|launches| of(launches, Kind::Prefill));
        let end = prefill.map_or((u64::MAX, u64::MAX), |prefill| prefill.from);
        let until = self.recent.partition_point(|one| (one.correlation, one.node) < end);
        let kind = if from_start { Kind::StartUp } else { Kind::Rest };
        let start_up = of(self.recent.range(..until), kind);
        let start_up = start_up.map(|mark| {
            let start = self.start.unwrap_or(mark.span.start);
            Mark { from: (0, 0), span: Span { start, ..mark.span }, ..mark }
        });
        start_up.into_iter().chain(prefill).collect()
    }
}

/// First identifier of the ranges, two for each mark, far from the identifiers of a collector.
const RANGES: u64 = 1 << 62;
/// Highest identifier of the names and paths, which count down.
const IDS: u32 = u32::MAX;

/// Adds ranges to the records of a trace, at the places of its marks.
#[derive(Debug)]
pub(super) struct Marked {
    marks: Arc<Marks>,
    /// Number of marks whose ranges were opened.
    opened: usize,
    /// Range around the current series of decode steps.
    decode: u64,
    /// Paths of library ranges within inferred stages, by the path of the stage and their own path.
    paths: FxHashMap<(u32, u32), u32>,
    next_path: u32,
    ready: VecDeque<Record>,
}

impl Marked {
    pub(super) fn new(marks: Arc<Marks>) -> Self {
        let names = [START_UP, PREFILL, DECODE, STEP];
        let names = (0..)
            .zip(names)
            .map(|(at, name)| Record::Name { id: IDS - at, bytes: name.as_bytes().to_vec() });
        let parents = [NONE, NONE, NONE, IDS - 2];
        let paths = (0..).zip(parents).map(|(at, parent)| {
            let id = IDS - at;
            Record::Path(records::Path { id, parent, name: id, domain: NONE })
        });
        let ready = names.chain(paths).collect();
        let paths = FxHashMap::default();
        Self { marks, opened: 0, decode: 0, paths, next_path: IDS - 4, ready }
    }

    /// Returns the next record, of the marks or from `read`.
    pub(super) fn next(
        &mut self,
        mut read: impl FnMut() -> Option<Result<Record, ReadError>>,
    ) -> Option<Result<Record, ReadError>> {
        while self.ready.is_empty() {
            match read() {
                Some(Ok(record)) => self.take(record),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    while self.opened <= self.marks.all.len() {
                        self.turn();
                    }
                    break;
                }
            }
        }
        self.ready.pop_front().map(Ok)
    }

    /// Path and range of the work of a mark; `None` if it is in no stage.
    fn inside(&self, at: usize) -> Option<(u32, u64)> {
        let range = RANGES + 2 * at as u64;
        match self.marks.all.get(at)?.kind {
            Kind::StartUp => Some((IDS, range)),
            Kind::Prefill => Some((IDS - 1, range)),
            Kind::DecodeStep => Some((IDS - 3, range + 1)),
            Kind::Rest => None,
        }
    }

    fn at(&self, place: Place) -> Option<usize> {
        self.marks.all.partition_point(|mark| mark.from <= place).checked_sub(1)
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Work(work) => {
                let at = self.place(&work);
                if let Some(at) = at {
                    self.open_until(at);
                }
                let outside = matches!(work.range, RANGE_OUTSIDE | RANGE_UNKNOWN);
                let inside = at.and_then(|at| self.inside(at)).filter(|_| outside);
                let range = inside.map_or(work.range, |(_, range)| range);
                self.ready.push_back(Record::Work(GpuWork { range, ..work }));
            }
            // A range of a library.
            Record::RangeOpen(open) => {
                let place = self.marks.libraries.get(&open.range).copied();
                let at = place.and_then(|place| self.at(place));
                if let Some(at) = at {
                    self.open_until(at);
                }
                let inside = at.and_then(|at| self.inside(at)).and_then(|(around, parent)| {
                    let path = *self.paths.get(&(around, open.path))?;
                    Some(RangeOpen { path, parent, ..open })
                });
                self.ready.push_back(Record::RangeOpen(inside.unwrap_or(open)));
            }
            Record::Path(path) => {
                self.ready.push_back(Record::Path(path));
                if self.paths.len() >= 3 * LIBRARY_PATHS {
                    return;
                }
                for around in [IDS, IDS - 1, IDS - 3] {
                    let within = match path.parent {
                        NONE => Some(around),
                        parent => self.paths.get(&(around, parent)).copied(),
                    };
                    let Some(parent) = within else { continue };
                    let id = self.next_path;
                    self.next_path -= 1;
                    self.paths.insert((around, path.id), id);
                    self.ready.push_back(Record::Path(records::Path { id, parent, ..path }));
                }
            }
            other => self.ready.push_back(other),
        }
    }

    /// The mark of a piece of work. A copy between two marks belongs to the nearer one.
    fn place(&self, work: &GpuWork) -> Option<usize> {
        let at = self.at((work.correlation, work.graph_node))?;
        let is_copy = matches!(work.what, What::Copy { .. } | What::Fill { .. });
        let (start, end) = (work.start.0, work.end.0);
        let of = self.marks.all.get(at).filter(|mark| is_copy && start >= mark.span.end);
        let next = self.marks.all.get(at + 1).filter(|next| next.span.start >= end);
        let both = of.zip(next);
        let nearer = both.is_some_and(|(of, next)| next.span.start - end < start - of.span.end);
        Some(at + usize::from(nearer))
    }

    /// Opens the ranges of all marks up to `last`, and closes those before it.
    fn open_until(&mut self, last: usize) {
        while self.opened <= last {
            self.turn();
        }
    }

    /// Closes the open ranges, and opens the ranges of the next mark.
    fn turn(&mut self) {
        let at = self.opened;
        self.opened += 1;
        let mark = |at: usize| self.marks.all.get(at).copied();
        let mono = |at: u64| self.marks.clock.mono(GpuNs(at)).unwrap_or(MonoNs(at));
        let before = at.checked_sub(1).and_then(mark);
        let next = mark(at);
        let is_step = |mark: Option<Mark>| mark.is_some_and(|mark| mark.kind == Kind::DecodeStep);
        let goes_on = is_step(before) && is_step(next);
        if let Some((before, (_, range))) =
            before.zip(at.checked_sub(1).and_then(|at| self.inside(at)))
        {
            let next = next.filter(|_| goes_on).map(|next| next.span.start);
            let end = mono(next.unwrap_or(before.span.end));
            self.ready.push_back(Record::RangeClose { range, end });
            if before.kind == Kind::DecodeStep && !goes_on {
                self.ready.push_back(Record::RangeClose { range: self.decode, end });
            }
        }
        let Some((next, (path, range))) = next.zip(self.inside(at)) else { return };
        let open = RangeOpen { range, path, start: mono(next.span.start), ..RangeOpen::default() };
        if next.kind != Kind::DecodeStep {
            return self.ready.push_back(Record::RangeOpen(open));
        }
        if !goes_on {
            self.decode = range - 1;
            self.ready.push_back(Record::RangeOpen(RangeOpen {
                range: self.decode,
                path: IDS - 2,
                ..open
            }));
        }
        self.ready.push_back(Record::RangeOpen(RangeOpen { parent: self.decode, ..open }));
    }
}
