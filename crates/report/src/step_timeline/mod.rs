//! The median step of each stage -> what ran in it on the host and on the GPU, by a second pass over
//! the trace file that the step is in.

mod host;
mod plateaus;
mod ranks;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::join::WholeCalls;
use crate::join::kernels::direction;
use indexmap::IndexSet;
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::stats::BACK_TO_BACK_NS;
use stage2_contract::trace::{RANGE_OUTSIDE, ReadError};
use stage2_model::finding::Id;
use stage2_model::{
    HostAtGaps, Report, Step, StepSeries, StepTimeline, TimelineGap, TimelineLane, TimelineRange,
    TimelineSum, TimelineSums, TimelineWork,
};
use stage2_read::kernel_class::class_of;
use stage2_read::trace::Capture;
use stage2_read::trace::events::{Event, Range, Span, TraceFile, What, Work};
use stage2_read::trace::libraries::RangeNames;

const STAGES: usize = 4;

/// Fills in the timelines of the series that know their median step. Where the GPU works longer for that step than
/// it lasts, the host runs ahead of the GPU and its steps measure nothing: `whole_calls` of the stage take their place.
pub(crate) fn add(
    report: &mut Report,
    capture: Capture,
    libraries: &RangeNames,
    mut whole_calls: BTreeMap<String, WholeCalls>,
) {
    let files: BTreeMap<String, TraceFile> = (capture.processes.into_iter())
        .map(|process| (process.file.clone(), TraceFile::of(process, libraries)))
        .into_map();
    report.step_timelines = timelines(report, &files, chosen(report));
    let mut replaced = BTreeSet::new();
    for timeline in &report.step_timelines {
        let is_stage = |series: &&mut StepSeries| series.stage == timeline.stage;
        if let Some(gpu_ns) = timeline.ahead_ns()
            && let Some(calls) = whole_calls.remove(&timeline.stage)
            && let Some(row) = report.stages.iter_mut().find(|row| row.stage == timeline.stage)
            && let Some(series) = report.step_series.iter_mut().find(is_stage)
        {
            replaced.insert(timeline.stage.clone());
            calls.replace(row, series, gpu_ns);
        }
    }
    if !replaced.is_empty() {
        let again = chosen(report).into_iter().filter(|(of, _)| replaced.contains(&of.stage));
        let again = timelines(report, &files, again.collect());
        report.step_timelines.retain(|timeline| !replaced.contains(&timeline.stage));
        report.step_timelines.extend(again);
    }
    ranks::add(report, &files);
}

/// Those of the `chosen` steps. A file is read once, however many of these it holds. What cannot be read again costs
/// its own timelines, and a finding reports it.
fn timelines(
    report: &mut Report,
    files: &BTreeMap<String, TraceFile>,
    chosen: Vec<(StepSeries, Step)>,
) -> Vec<StepTimeline> {
    let mut by_file: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, (series, _)) in chosen.iter().enumerate() {
        by_file.entry(&series.file).or_default().push(at);
    }
    let mut timelines: Vec<(usize, StepTimeline)> = Vec::new();
    for (name, places) in by_file {
        let failed = |why: String| {
            Id::TimelineMissing.found(
                format!("the timeline of the median step is missing for a stage of {name}"),
                why,
                "write the reports again with the trace file in its place",
            )
        };
        let Some(file) = files.get(name) else {
            report.findings.push(failed("the file is not among those that were read".into()));
            continue;
        };
        let steps = places.iter().filter_map(|at| {
            let (series, step) = chosen.get(*at)?;
            let lasts_ns = series.until_next.then_some(step.host_ns);
            let events = StepEvents::of(*step, &series.path, lasts_ns, series.cold_steps);
            Some((*at, StepEvents { stretches: plateaus::Stretches::of(series), ..events }))
        });
        let mut steps: Vec<(usize, StepEvents)> = steps.collect();
        if let Err(error) = read(file, &mut steps) {
            report.findings.push(failed(error.to_string()));
            continue;
        }
        for (at, mut events) in steps {
            let Some((series, step)) = chosen.get(at) else { continue };
            let plateaus = events.stretches.take().and_then(plateaus::Stretches::finish);
            let is_it = |of: &&mut StepSeries| of.path == series.path && of.file == series.file;
            if let Some(of) = report.step_series.iter_mut().find(is_it) {
                of.plateaus = plateaus;
            }
            let Some(timeline) = events.finish() else {
                report.findings.push(failed(format!("it holds no range {}", step.range)));
                continue;
            };
            let StepSeries { stage, path, file, .. } = series.clone();
            timelines.push((at, StepTimeline { stage, path, file, ..timeline }));
        }
    }
    timelines.order_by_key(|(at, _)| *at);
    timelines.into_iter().map(|(_, timeline)| timeline).collect()
}

/// Reads a file up to where none of the steps can have more.
fn read(file: &TraceFile, steps: &mut [(usize, StepEvents)]) -> Result<(), ReadError> {
    let read = file.for_each(|event| {
        steps.iter_mut().for_each(|(_, step)| step.add(&event));
        let is_over = |step: &StepEvents| step.over && step.stretches.is_none();
        if steps.iter().all(|(_, step)| is_over(step)) { Err(Stop::Over) } else { Ok(()) }
    });
    match read {
        Err(Stop::Unreadable(error)) => Err(error),
        Ok(()) | Err(Stop::Over) => Ok(()),
    }
}

/// One series of each stage of the model, the stages with the longest time first.
fn chosen(report: &Report) -> Vec<(StepSeries, Step)> {
    let mut stages: Vec<_> = report.stages.iter().filter(|row| row.apart.is_none()).collect();
    stages.order_by_key(|row| Reverse(row.gpu_window_ns.max(row.host_total_ns)));
    let series = stages.iter().filter_map(|row| {
        let mut of_stage = report.step_series.iter().filter(|series| series.stage == row.stage);
        of_stage.find_map(|series| Some((series.clone(), series.median?)))
    });
    series.take(STAGES).collect()
}

// A range comes when it closes, so before those around it, and work may come long after its range. So
// everything that can belong to the step is kept, in bounded space, until it is known what does:
// identifiers grow, and whatever is within a range has a larger one.

/// Pieces of GPU work of a step, and gaps: the longest are kept.
const WORK: usize = 4_000;
/// Ranges of a step: the longest are kept.
const RANGES: usize = 1_000;
/// Names whose work is added up by itself: those with the longest time.
const SUMS: usize = 1_000;
/// Work and ranges that may turn out to be the step's.
const CANDIDATES: usize = 1 << 18;
/// Work of other steps that may run during the step.
const OTHERS: usize = 1 << 16;
/// Names of these.
const NAMES: usize = 1 << 14;
/// Stands for all names that did not fit.
const OTHER_NAMES: &str = "(another name)";
/// Work reaches the file some flush periods late, about in the order in which it ran. Once work comes
/// that is this much younger than the step, none of the step is to come. When ranges come does not matter:
/// they are written at once, and a flush period may be an hour.
const LATEST_NS: i64 = 10_000_000_000;

/// Why a pass over a file ended before its end.
enum Stop {
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
    /// It is in no other range, and the thread of the step opened it after the range of the step.
    is_after: bool,
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
#[derive(Default)]
struct StepEvents {
    step: Step,
    /// [`StepTimeline::lasts_ns`].
    lasts_ns: Option<u64>,
    /// The operating system's id of its thread.
    thread: u32,
    names: IndexSet<String>,
    ranges: BTreeMap<u64, OpenedRange>,
    work: Vec<Candidate>,
    /// Latest work of earlier ranges, with its GPU: of the previous step, say, which the GPU has not finished.
    others: VecDeque<(u32, Span)>,
    /// Work of the step cannot be of this range or a younger one.
    younger: u64,
    dropped: u64,
    /// Nothing of the step is to come.
    over: bool,
    samples: host::Samples,
    /// Where its series has slow stretches, the whole file is read.
    stretches: Option<plateaus::Stretches>,
}

impl StepEvents {
    /// The step, an instance of `path`, the first `cold_steps` of which are cold.
    fn of(step: Step, path: &str, lasts_ns: Option<u64>, cold_steps: u64) -> Self {
        let samples = host::Samples::of(path, lasts_ns.is_some(), cold_steps);
        Self { step, lasts_ns, samples, younger: u64::MAX, ..Self::default() }
    }

    /// The range of the step, and from its start to the end of the step; nothing before that range came.
    fn step_spans(&self) -> Option<(Span, Span)> {
        let range = self.ranges.get(&self.step.range)?.span;
        let until_ns = range.start_ns.saturating_add_unsigned(self.lasts_ns.unwrap_or(0));
        Some((range, Span { end_ns: range.end_ns.max(until_ns), ..range }))
    }

    fn add(&mut self, event: &Event<'_>) {
        self.samples.add(event);
        if let Some(stretches) = &mut self.stretches {
            stretches.add(event);
        }
        match event {
            Event::Range(range) if !self.over => self.range(range),
            Event::Work(work) if !self.over => self.work(work),
            _ => {}
        }
    }

    fn range(&mut self, range: &Range<'_>) {
        if range.id < self.step.range {
            return;
        }
        let spans = self.step_spans();
        if spans.is_some_and(|(_, step)| range.span.start_ns >= step.end_ns) {
            self.younger = self.younger.min(range.id);
            return;
        }
        let is_step = range.id == self.step.range;
        if is_step {
            self.thread = range.thread.os_tid;
        } else if self.ranges.len() >= CANDIDATES {
            // The step itself always fits.
            self.dropped += 1;
            return;
        }
        let is_after = range.parent == RANGE_OUTSIDE
            && !range.start_end
            && range.thread.os_tid == self.thread
            && spans.is_some_and(|(own, _)| range.span.start_ns >= own.end_ns);
        let name = self.name(range.path.elements.last().map_or(range.name, String::as_str));
        let (parent, span) = (range.parent, range.span);
        self.ranges.insert(range.id, OpenedRange { parent, name, span, is_after });
    }

    fn work(&mut self, work: &Work<'_>) {
        let Some(span) = work.span else { return };
        let step = self.step_spans().map(|(_, step)| step);
        if step.is_some_and(|step| span.start_ns.saturating_sub(step.end_ns) > LATEST_NS)
            && work.range >= self.younger
        {
            self.over = true;
            return;
        }
        // What is launched between two steps runs after the range of the step came.
        let is_between = self.lasts_ns.is_some()
            && work.range == RANGE_OUTSIDE
            && step.is_some_and(|step| (step.start_ns..step.end_ns).contains(&span.start_ns));
        if !is_between && (work.range < self.step.range || work.range >= self.younger) {
            if step.is_none_or(|step| span.start_ns < step.end_ns && span.end_ns > step.start_ns) {
                self.others.truncate(OTHERS - 1);
                self.others.push_front((work.queue.device, span));
            }
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
    fn finish(mut self) -> Option<StepTimeline> {
        let (range, step) = self.step_spans()?;
        // Parents have smaller identifiers than what is within them.
        let mut depths: BTreeMap<u64, u64> = BTreeMap::from([(self.step.range, 0)]);
        for (id, range) in self.ranges.iter().filter(|(id, _)| **id > self.step.range) {
            let within = || depths.get(&range.parent).map(|depth| depth + 1);
            if let Some(depth) = if range.is_after { Some(0) } else { within() } {
                depths.insert(*id, depth);
            }
        }
        self.ranges.retain(|id, _| depths.contains_key(id));
        let is_here = |range| range == RANGE_OUTSIDE || depths.contains_key(&range);
        let of_others = self.work.iter().filter(|work| !is_here(work.range));
        self.others.extend(of_others.map(|work| (work.device, work.span)));
        self.work.retain(|work| is_here(work.range));
        let since = |at: i64| u64::try_from(at.saturating_sub(step.start_ns)).unwrap_or(0);
        let length = |span: Span| u64::try_from(span.ns()).unwrap_or(0);
        self.work.order_by_key(|work| work.span.start_ns);
        let ends = self.work.iter().map(|work| since(work.span.start_ns) + length(work.span));
        let length_ns = ends.fold(length(step), u64::max);
        // Beyond what fits in memory nobody knows what the GPU did.
        let gaps = if self.dropped == 0 { self.gaps(since, length_ns) } else { Vec::new() };
        let gaps = self.without_other_work(gaps, step.start_ns);
        let host_at_gaps = (self.dropped == 0).then(|| self.host_at_gaps(&gaps, since));

        let mut ranges: Vec<_> = self.ranges.iter().collect();
        ranges.order_by_key(|(id, range)| {
            (depths.get(id).is_some_and(|d| *d > 0), Reverse(range.span.ns()))
        });
        let mut left_out = ranges.len().saturating_sub(RANGES);
        ranges.truncate(RANGES);
        ranges.order_by_key(|(id, _)| **id);
        let mut names = Names { all: &self.names, kept: IndexSet::new() };
        let lasts = self.lasts_ns.map_or(range, |_| step);
        let host = self.samples.finish(lasts, |name| names.kept.insert_full(name.to_owned()).0);
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
                waiting_ns: 0,
            });
        }
        let lane = |((device, stream), work)| TimelineLane {
            label: format!("GPU {device}, stream {stream}"),
            work,
        };
        Some(StepTimeline {
            step: Step { host_ns: length(range), ..self.step },
            start_ns: step.start_ns,
            lasts_ns: self.lasts_ns,
            length_ns,
            lanes: lanes.into_iter().map(lane).collect(),
            names: names.kept.into_iter().collect(),
            ranges,
            gaps: longest(&gaps, WORK, |gap| gap.length_ns).copied().collect(),
            host_at_gaps,
            host,
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
                let start_ns = covered_to;
                gaps.push(TimelineGap { start_ns, length_ns, launch, ..TimelineGap::default() });
            }
            covered_to = covered_to.max(start_ns + u64::try_from(work.span.ns()).unwrap_or(0));
        }
        if !self.work.is_empty() && length_ns > covered_to {
            let length_ns = length_ns - covered_to;
            let start_ns = covered_to;
            gaps.push(TimelineGap { start_ns, length_ns, ..TimelineGap::default() });
        }
        gaps
    }

    /// The gaps, in pieces: those in which a GPU of the step works for other steps are marked. Another GPU, which another
    /// thread uses, does not keep it from working.
    fn without_other_work(&self, gaps: Vec<TimelineGap>, begin_ns: i64) -> Vec<TimelineGap> {
        let since = |at: i64| u64::try_from(at.saturating_sub(begin_ns)).unwrap_or(0);
        let own: BTreeSet<u32> = self.work.iter().map(|work| work.device).into_set();
        let spans = self.others.iter().filter(|(device, _)| own.contains(device));
        let spans = spans.map(|(_, span)| span).filter(|span| span.end_ns > begin_ns);
        let mut others: Vec<(u64, u64)> =
            spans.map(|span| (since(span.start_ns), since(span.end_ns))).collect();
        others.sort_unstable();
        let mut pieces = Vec::new();
        let mut first = 0;
        for gap in gaps {
            let end_ns = gap.start_ns + gap.length_ns;
            let mut at = gap.start_ns;
            let mut piece = |from: u64, to: u64, other_work: bool| {
                let launch = gap.launch && !other_work;
                let piece =
                    TimelineGap { start_ns: from, length_ns: to - from, launch, other_work };
                pieces.extend((to > from).then_some(piece));
            };
            for &(start, end) in others.iter().skip(first).take_while(|(start, _)| *start < end_ns)
            {
                let (start, end) = (start.max(at), end.min(end_ns));
                if start < end {
                    piece(at, start, false);
                    piece(start, end, true);
                    at = end;
                }
            }
            piece(at, end_ns, false);
            // Gaps are in their order, so what ended before this one is in no later one.
            first += others.iter().skip(first).take_while(|(_, end)| *end <= end_ns).count();
        }
        pieces
    }

    /// Where the host was when each of the gaps began. What is launched in a range is launched before the
    /// host leaves it, and after it was opened.
    fn host_at_gaps(&self, gaps: &[TimelineGap], since: impl Fn(i64) -> u64) -> HostAtGaps {
        let mut found = HostAtGaps::default();
        for gap in gaps.iter().filter(|gap| !gap.other_work) {
            found.all_ns = found.all_ns.saturating_add(gap.length_ns);
            let end_ns = gap.start_ns.saturating_add(gap.length_ns);
            let next = self.work.partition_point(|work| since(work.span.start_ns) < end_ns);
            let range = self.work.get(next).map(|work| self.ranges.get(&work.range));
            let sum = match range {
                Some(Some(range)) if since(range.span.end_ns) <= gap.start_ns => {
                    &mut found.ahead_ns
                }
                // The step itself is open from the beginning on.
                Some(Some(range)) if since(range.span.start_ns) >= gap.start_ns => {
                    &mut found.behind_ns
                }
                // When work outside of all ranges was launched is not known.
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
            let ns = u64::try_from(work.span.ns()).unwrap_or(0);
            let sum = by_name.entry((work.class, work.name)).or_default();
            add_sum(
                sum,
                &TimelineSum { calls: 1, total_ns: ns, longest_ns: ns, ..Default::default() },
            );
        }
        let mut all: Vec<_> = by_name.into_iter().collect();
        all.order_by_key(|(_, sum)| Reverse(sum.total_ns));
        let mut rest: BTreeMap<&'static str, TimelineSum> = BTreeMap::new();
        for ((class, _), more) in all.split_off(SUMS.min(all.len())) {
            add_sum(rest.entry(class).or_default(), &more);
        }
        let of_class = |class: &str, sum| TimelineSum { class: class.to_owned(), ..sum };
        let work = all.into_iter().map(|((class, name), sum)| {
            of_class(class, TimelineSum { name: Some(names.keep(name)), ..sum })
        });
        let rest = rest.into_iter().map(|(class, sum)| of_class(class, sum));
        let of = |kind: fn(&TimelineGap) -> bool| {
            let gaps = gaps.iter().filter(|gap| kind(gap));
            gaps.fold(0u64, |sum, gap| sum.saturating_add(gap.length_ns))
        };
        TimelineSums {
            whole: self.dropped == 0,
            work: work.chain(rest).collect(),
            launch_gaps_ns: of(|gap| gap.launch),
            other_idle_ns: of(|gap| !gap.launch && !gap.other_work),
            other_work_ns: of(|gap| gap.other_work),
        }
    }
}

fn add_sum(sum: &mut TimelineSum, more: &TimelineSum) {
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
    by_length.order_by_key(|at| all.get(*at).map(|one| Reverse(length(one))));
    let kept: BTreeSet<usize> = by_length.into_iter().take(most).into_set();
    kept.into_iter().filter_map(|at| all.get(at))
}

/// Names that something kept has, numbered again.
struct Names<'n> {
    all: &'n IndexSet<String>,
    kept: IndexSet<String>,
}

impl Names<'_> {
    fn keep(&mut self, index: usize) -> usize {
        let name = self.all.get_index(index).map_or(OTHER_NAMES, String::as_str);
        self.kept.insert_full(name.to_owned()).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::trace::{
        Anchor, GpuNs, GpuWork, MonoNs, NONE, Path, Queue, RangeOpen, Record, Shape, WallNs, What,
        Writer,
    };
    use stage2_model::StageRow;
    use stage2_read::trace::folder::load_folder;

    /// Behind the host's clock by this much, so that a mix-up of the clocks shows.
    const GPU_AHEAD_NS: u64 = 1_000_000_000;

    struct Trace(Vec<Record>);

    impl Trace {
        /// A stage `decode` with a range `layer` within it, and two streams.
        fn new() -> Self {
            let mut records = Vec::new();
            let (gpu, mono) = (GpuNs(GPU_AHEAD_NS + 1), MonoNs(1));
            records.push(Record::Anchor(Anchor { gpu, mono, wall: WallNs(1_700_000_000) }));
            for (id, name) in [(1, "decode"), (2, "layer"), (3, "cutlass_gemm_bf16"), (4, "other")]
            {
                records.push(Record::Name { id, bytes: name.into() });
            }
            for (id, stream) in [(1, 7), (2, 13)] {
                records.push(Record::Queue(Queue { id, device: 0, context: 1, stream }));
            }
            records.push(Record::Shape(Shape { id: 1, name: 3, ..Shape::default() }));
            for (id, parent, name) in [(1, NONE, 1), (2, 1, 2), (3, NONE, 4)] {
                records.push(Record::Path(Path { id, parent, name, domain: NONE }));
            }
            Self(records)
        }

        fn open(&mut self, range: u64, path: u32, parent: u64, start: u64) -> &mut Self {
            self.0.push(Record::RangeOpen(RangeOpen {
                range,
                path,
                thread: 1,
                parent,
                start: MonoNs(start),
                ..RangeOpen::default()
            }));
            self
        }

        /// Moves the last range to another thread.
        fn thread(&mut self, id: u32) -> &mut Self {
            if let Some(Record::RangeOpen(open)) = self.0.last_mut() {
                open.thread = id;
            }
            self
        }

        fn close(&mut self, range: u64, end: u64) -> &mut Self {
            self.0.push(Record::RangeClose { range, end: MonoNs(end) });
            self
        }

        fn kernel(&mut self, range: u64, queue: u32, start: u64, end: u64) -> &mut Self {
            let (start, end) = (GpuNs(start + GPU_AHEAD_NS), GpuNs(end + GPU_AHEAD_NS));
            let work = GpuWork::new(What::Kernel { shape: 1 });
            self.0.push(Record::Work(GpuWork { start, end, queue, range, ..work }));
            self
        }

        /// The timeline of range `range` of `decode`, and the findings.
        fn timeline(&self, range: u64) -> (Option<StepTimeline>, Vec<stage2_model::Finding>) {
            self.timeline_lasting(range, None)
        }

        fn timeline_lasting(
            &self,
            range: u64,
            lasts_ns: Option<u64>,
        ) -> (Option<StepTimeline>, Vec<stage2_model::Finding>) {
            let folder = tempfile::tempdir().expect("folder");
            let mut writer = Writer::new(Vec::new()).expect("a vector takes anything");
            self.0.iter().for_each(|record| writer.write(record));
            writer.flush().expect("a vector takes anything");
            std::fs::write(folder.path().join("a.s2t"), writer.into_sink()).expect("trace file");
            let libraries = RangeNames::default();
            let capture = load_folder(folder.path(), &libraries);
            let median = Some(Step { number: 1, range, host_ns: lasts_ns.unwrap_or(1_000) });
            let stage = "decode".to_owned();
            let series = StepSeries {
                stage: stage.clone(),
                file: "a.s2t".into(),
                median,
                until_next: lasts_ns.is_some(),
                ..StepSeries::default()
            };
            let mut report = Report {
                stages: vec![StageRow { stage, ..StageRow::default() }],
                step_series: vec![series],
                ..Report::default()
            };
            add(&mut report, capture, &libraries, BTreeMap::new());
            (report.step_timelines.pop(), report.findings)
        }
    }

    #[test]
    fn holds_the_step_and_nothing_of_its_neighbours() {
        let mut trace = Trace::new();
        trace.open(1, 1, 0, 100).kernel(1, 1, 110, 120).close(1, 1_000);
        trace.open(2, 1, 0, 200_000).open(3, 2, 2, 200_100).open(4, 3, 0, 200_150);
        trace.kernel(3, 1, 200_200, 210_200).kernel(4, 2, 200_000, 290_000);
        trace.close(4, 200_160).close(3, 200_300).close(2, 300_000);
        trace.open(5, 1, 0, 300_100).kernel(5, 1, 300_150, 300_200);
        // Work comes late, and ends behind the step.
        trace.kernel(2, 2, 240_200, 290_200).kernel(3, 1, 310_000, 320_000).close(5, 400_000);
        let (timeline, findings) = trace.timeline(2);
        assert_eq!(findings, []);
        let found = timeline.expect("a timeline");
        assert_eq!((found.length_ns, found.left_out), (120_000, 0));
        let ranges: Vec<_> = (found.ranges.iter())
            .map(|r| (found.names[r.name].as_str(), r.depth, r.start_ns, r.length_ns))
            .collect();
        assert_eq!(ranges, [("decode", 0, 0, 100_000), ("layer", 1, 100, 200)]);
        let lanes: Vec<_> = (found.lanes.iter())
            .map(|lane| {
                let work = lane.work.iter().map(|w| (w.start_ns, w.length_ns)).collect::<Vec<_>>();
                (lane.label.as_str(), work)
            })
            .collect();
        assert_eq!(
            lanes,
            [
                ("GPU 0, stream 7", vec![(200, 10_000), (110_000, 10_000)]),
                ("GPU 0, stream 13", vec![(40_200, 50_000)]),
            ]
        );
        assert_eq!(found.lanes[0].work[0].class, "gemm");
        let gaps: Vec<_> =
            found.gaps.iter().map(|g| (g.start_ns, g.length_ns, g.launch, g.other_work)).collect();
        // The range outside of the step and the next step have work in its gaps; 50 us are as long as a launch gap can be.
        let expected = [
            (0, 200, false, true),
            (10_200, 30_000, false, true),
            (90_200, 9_950, true, false),
            (100_150, 50, false, true),
            (100_200, 9_800, true, false),
        ];
        assert_eq!(gaps, expected);
    }

    #[test]
    fn the_gpu_is_not_idle_while_it_works_for_the_previous_step() {
        let mut trace = Trace::new();
        trace.open(1, 1, 0, 100).kernel(1, 1, 110, 220_000).close(1, 1_000);
        trace.open(2, 1, 0, 200_000).close(2, 300_000).kernel(1, 1, 230_000, 260_000);
        trace.kernel(2, 1, 290_000, 300_000).open(3, 1, 0, 300_100).close(3, 300_200);
        let found = trace.timeline(2).0.expect("a timeline");
        let gaps: Vec<_> =
            found.gaps.iter().map(|g| (g.start_ns, g.length_ns, g.other_work)).collect();
        let expected = [
            (0, 20_000, true),
            (20_000, 10_000, false),
            (30_000, 30_000, true),
            (60_000, 30_000, false),
        ];
        assert_eq!(gaps, expected);
        let sums = &found.sums;
        assert_eq!(
            (sums.other_work_ns, sums.other_idle_ns, sums.launch_gaps_ns),
            (50_000, 40_000, 0)
        );
        assert_eq!(found.host_at_gaps.expect("all of it fits").all_ns, 40_000);
        assert_eq!(found.ahead_ns(), None);
    }

    #[test]
    fn work_of_another_thread_is_marked_where_it_is_on_the_same_gpu() {
        let mut trace = Trace::new();
        trace.0.push(Record::Queue(Queue { id: 3, device: 1, context: 2, stream: 7 }));
        // Another thread is in a step of its own all the time, and begins the next one meanwhile.
        trace.open(1, 1, 0, 50).thread(2).open(2, 1, 0, 100_000).kernel(2, 1, 120_000, 130_000);
        trace.kernel(1, 2, 140_000, 150_000).kernel(1, 3, 160_000, 170_000).close(1, 210_000);
        trace.open(3, 1, 0, 220_000).thread(2).kernel(3, 2, 230_000, 240_000);
        trace.kernel(3, 3, 250_000, 260_000).kernel(2, 1, 280_000, 300_000).close(2, 300_000);
        trace.close(3, 400_000);
        let found = trace.timeline(2).0.expect("a timeline");
        let others = found.gaps.iter().filter(|gap| gap.other_work);
        let others: Vec<_> = others.map(|gap| (gap.start_ns, gap.length_ns)).collect();
        assert_eq!(others, [(40_000, 10_000), (130_000, 10_000)]);
        let sums = &found.sums;
        let idle_ns = sums.other_idle_ns + sums.launch_gaps_ns;
        assert_eq!((sums.other_work_ns, idle_ns), (20_000, 200_000 - 30_000 - 20_000));
    }

    #[test]
    fn the_longest_work_is_kept_and_the_rest_counted() {
        let mut trace = Trace::new();
        trace.open(2, 1, 0, 100);
        for i in 0..4_100 {
            trace.kernel(2, 1, 1_000 + i * 100, 1_000 + i * 100 + 1 + i % 50);
        }
        for i in 0..1_100 {
            trace.open(3 + i, 2, 2, 1_000 + i * 10).close(3 + i, 1_005 + i * 10);
        }
        trace.close(2, 500_000);
        let found = trace.timeline(2).0.expect("a timeline");
        let work = &found.lanes[0].work;
        assert_eq!((work.len(), found.ranges.len()), (4_000, 1_000));
        assert_eq!(found.left_out, 100 + 101, "the step itself is one of the ranges");
        assert!(work.is_sorted_by_key(|work| work.start_ns));
        assert!(work.iter().all(|work| work.length_ns > 1), "the shortest are left out");
        assert_eq!(found.ranges[0].depth, 0, "the step itself stays");
        // The sums are of all of it, and so are those of the gaps.
        let all: u64 = (0..4_100).map(|i| 1 + i % 50).sum();
        let [sum] = &found.sums.work[..] else { panic!("{:?}", found.sums) };
        assert_eq!((sum.calls, sum.total_ns, sum.class.as_str()), (4_100, all, "gemm"));
        assert_eq!(sum.name.map(|at| found.names[at].as_str()), Some("cutlass_gemm_bf16"));
        let gaps = found.sums.launch_gaps_ns + found.sums.other_idle_ns;
        assert_eq!((found.sums.whole, gaps), (true, found.length_ns - all));
        let drawn: u64 = found.gaps.iter().map(|gap| gap.length_ns).sum();
        assert!(drawn < gaps, "4,000 gaps are drawn: {drawn} of {gaps}");
    }

    #[test]
    fn work_that_comes_long_after_younger_ranges_is_still_of_the_step() {
        const LONG: u64 = 20_000_000_000;
        let mut trace = Trace::new();
        trace.open(2, 1, 0, 100).close(2, 1_000);
        trace.open(3, 1, 0, LONG).close(3, LONG + 1_000);
        trace.kernel(2, 1, 200, 300).kernel(3, 1, LONG + 100, LONG + 200);
        // What comes behind much younger work is not read.
        trace.kernel(2, 1, 400, 500);
        let found = trace.timeline(2).0.expect("a timeline");
        let work: Vec<_> = found.lanes[0].work.iter().map(|w| (w.start_ns, w.length_ns)).collect();
        assert_eq!(work, [(100, 100)]);
    }

    #[test]
    fn a_step_of_an_engine_lasts_until_the_next_one_begins() {
        let mut trace = Trace::new();
        trace.kernel(0, 1, 400, 500);
        trace.open(2, 1, 0, 1_000).open(3, 2, 2, 1_100).close(3, 1_200).close(2, 2_000);
        trace.open(4, 3, 0, 2_300).open(5, 2, 4, 2_400).close(5, 2_500).close(4, 2_600);
        trace.open(6, 1, 0, 3_000).close(6, 4_000);
        trace.kernel(2, 1, 1_500, 1_800).kernel(0, 1, 2_100, 2_200).kernel(5, 2, 2_700, 2_750);
        trace.kernel(6, 1, 3_100, 3_200).kernel(0, 1, 3_300, 3_400);
        let found = trace.timeline_lasting(2, Some(2_000)).0.expect("a timeline");
        assert_eq!((found.length_ns, found.lasts_ns), (2_000, Some(2_000)));
        assert_eq!(found.step.host_ns, 1_000, "its range");
        let ranges: Vec<_> = (found.ranges.iter())
            .map(|r| (found.names[r.name].as_str(), r.depth, r.start_ns))
            .collect();
        let expected =
            [("decode", 0, 0), ("layer", 1, 100), ("other", 0, 1_300), ("layer", 1, 1_400)];
        assert_eq!(ranges, expected);
        let works: Vec<_> = (found.lanes.iter())
            .map(|lane| lane.work.iter().map(|work| work.start_ns).collect::<Vec<_>>())
            .collect();
        assert_eq!(works, [vec![500, 1_100], vec![1_700]]);
        let (work_ns, gaps_ns) =
            (300 + 100 + 50, found.sums.launch_gaps_ns + found.sums.other_idle_ns);
        assert_eq!(work_ns + gaps_ns, found.length_ns);
        // When the work at 1,100 was launched is not known; the end waits for the next step.
        let host = found.host_at_gaps.expect("all of it fits");
        assert_eq!((host.all_ns, host.ahead_ns, host.behind_ns), (gaps_ns, 0, 500 + 500 + 250));
    }

    #[test]
    fn a_step_that_is_not_in_its_file_is_a_finding() {
        let mut trace = Trace::new();
        trace.open(1, 1, 0, 100).close(1, 200);
        let (timeline, findings) = trace.timeline(99);
        assert_eq!(timeline, None);
        assert!(findings[0].what.contains("a.s2t") && findings[0].why.contains("99"));
    }

    #[test]
    fn a_step_without_recorded_work_has_no_gaps() {
        let mut trace = Trace::new();
        trace.open(1, 1, 0, 100).close(1, 200);
        let found = trace.timeline(1).0.expect("a timeline");
        assert_eq!((found.length_ns, found.lanes.len(), found.gaps.len()), (100, 0, 0));
    }
}
