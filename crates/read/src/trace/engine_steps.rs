//! Outermost ranges that are steps of an engine -> how long a step takes, by what it works on.
//!
//! A step lasts until the next step of its thread begins, because the engine schedules, samples and answers
//! between the two ranges. This holds only if the next step continues a request. Before a step that only
//! starts new requests the engine may have waited for them to arrive: such a pause is counted separately. The
//! first step of a kind in a process loads and compiles, so it is timed only if its kind has no other timed step.

use std::collections::{BTreeMap, HashMap};

use super::stats::{Series, Share};
use crate::engine::{StepKind, StepWork};

/// Shapes that are kept apart: a server with prompts of any length has no end of them.
const MOST_SHAPES: usize = 4_096;
/// Step times of a file that are kept one by one.
const KEPT_IN_FILE: usize = 1 << 18;
/// Threads whose steps are followed.
const MOST_THREADS: usize = 1 << 10;
/// Maximum numbers of numbered steps and of pauses that are kept one by one for a file.
const MOST_NUMBERED: usize = 1 << 19;
const MOST_PAUSES: usize = 1 << 16;
/// Name of the field that holds the number of a step.
const STEP_FIELD: &str = "step";
/// Ranges that are open at the same time.
const MOST_OPEN: usize = 1 << 12;

/// What the steps of a group have in common. Context lengths grow with every step, so they are only summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepShape {
    /// What the steps do.
    pub kind: StepKind,
    /// [`StepWork::prefill_requests`].
    pub prefill_requests: u64,
    /// [`StepWork::prefill_tokens`].
    pub prefill_tokens: u64,
    /// [`StepWork::decode_requests`].
    pub decode_requests: u64,
}

/// Steps of one shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepGroup {
    /// Number of steps.
    pub steps: u64,
    /// Times from begin to begin, ns, of the steps that another step followed at once.
    pub times: Series,
    /// Sum of the work of all steps.
    pub work: StepWork,
    /// Sum of the work of the steps in `times`.
    pub timed_work: StepWork,
}

/// A step with a number, which records of requests refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedStep {
    /// Its number. The steps of an engine have consecutive numbers; the bits above the lowest 32
    /// identify the engine.
    pub number: u64,
    /// Begin of the step, ns on the host's clock.
    pub begin: u64,
    /// Time from its begin to the begin of the next step, ns; to the end of its range if a pause
    /// follows.
    pub ns: u64,
    /// Kind of the step.
    pub kind: StepKind,
    /// [`StepWork::prefill_tokens`], or one for each of these requests where it is not known.
    pub prefill_tokens: u32,
    /// [`StepWork::decode_requests`].
    pub decode_requests: u32,
    /// [`StepWork::decode_tokens`], or one for each of these requests if it is not known.
    pub decode_tokens: u32,
}

impl NumberedStep {
    fn new(number: u64, begin: u64, ns: u64, work: &StepWork) -> Self {
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            number,
            begin,
            ns,
            kind: work.kind(),
            prefill_tokens: narrow(work.prefill_tokens.max(work.prefill_requests)),
            decode_requests: narrow(work.decode_requests),
            decode_tokens: narrow(work.decode_tokens.max(work.decode_requests)),
        }
    }
}

/// The steps of an engine in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineSteps {
    /// Steps by shape.
    pub groups: BTreeMap<StepShape, StepGroup>,
    /// Steps whose shape was met after [`MOST_SHAPES`] others; no group has them.
    pub other_steps: u64,
    /// Pauses before steps that only start requests.
    pub pauses: u64,
    /// Total time of these pauses, ns.
    pub pause_ns: u64,
    /// Begin and end of the first pauses, ns on the host's clock.
    pub pause_spans: Vec<(u64, u64)>,
    /// Steps with a number, in the order of their ends.
    pub numbered: Vec<NumberedStep>,
    /// Number of numbered steps beyond the limit for `numbered`.
    pub more_numbered: u64,
    /// Total time of the steps without a number, ns: an engine warms up outside of its scheduler.
    pub unnumbered_ns: u64,
    /// Begin of the first step and end of the last one, ns on the host's clock.
    pub extent: Option<(u64, u64)>,
    /// Time of the first step, ns: to the begin of the next one, or to its own end if a pause follows.
    pub first_ns: u64,
    /// Engines whose adapters match names of steps, with the number of matching paths.
    pub engines: BTreeMap<String, u64>,
    /// Paths that are named like steps but hold impossible numbers.
    pub unsound_names: u64,
}

/// An outermost range of a thread.
#[derive(Clone, Copy, Debug)]
struct Range {
    id: u64,
    thread: u32,
    start: u64,
    end: u64,
    /// What it works on, if it is a step.
    work: Option<StepWork>,
    /// [`NumberedStep::number`].
    number: Option<u64>,
}

/// A step that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndedStep {
    /// Its range, and the number of the thread that opened it.
    pub(super) range: u64,
    pub(super) thread: u32,
    /// Begin and end of the step, and the end of its range, ns on the host's clock.
    pub(super) start: u64,
    pub(super) until: u64,
    pub(super) range_end: u64,
    /// What it worked on.
    pub(super) work: StepWork,
    /// [`NumberedStep::number`].
    pub(super) number: Option<u64>,
}

#[derive(Debug, Default)]
struct Thread {
    /// The last step, until the next range of the thread shows how long it took.
    before: Option<Range>,
    /// The range that opened last.
    now: Option<Range>,
}

/// Follows the steps of each thread.
#[derive(Debug, Default)]
pub(super) struct StepFollower {
    threads: HashMap<u32, Thread>,
    /// Thread of each open range.
    open: HashMap<u64, u32>,
    found: EngineSteps,
    /// The kinds of steps so far, with the first step of each if another one followed it at once.
    cold: BTreeMap<StepKind, Option<(StepShape, u64, StepWork)>>,
    kept: usize,
    share: Share,
    /// The step that ended last.
    ended: Option<EndedStep>,
}

impl StepFollower {
    pub(super) fn within(share: Share) -> Self {
        Self { share, ..Self::default() }
    }

    /// An outermost range of the user opened. `work` is what its name states.
    pub(super) fn open(&mut self, id: u64, thread: u32, start: u64, work: Option<StepWork>) {
        let has_room = self.open.len() < MOST_OPEN
            && (self.threads.len() < MOST_THREADS || self.threads.contains_key(&thread));
        if has_room {
            self.open.insert(id, thread);
            let now = Range { id, thread, start, end: start, work, number: None };
            self.threads.entry(thread).or_default().now = Some(now);
        }
    }

    /// Reads the fields of a range: what the step works on, and its number if it has one.
    pub(super) fn fields<'f>(
        &mut self,
        id: u64,
        fields: impl DoubleEndedIterator<Item = (&'f [u8], u64)> + Clone,
    ) {
        let Some(work) = StepWork::of_fields(fields.clone()) else { return };
        let mut numbers = fields.filter(|(name, _)| *name == STEP_FIELD.as_bytes());
        self.work(id, work, numbers.next_back().map(|(_, number)| number));
    }

    fn work(&mut self, id: u64, work: StepWork, number: Option<u64>) {
        let thread = self.open.get(&id).and_then(|thread| self.threads.get_mut(thread));
        let now = thread.and_then(|thread| thread.now.as_mut());
        if let Some(now) = now.filter(|now| now.id == id) {
            now.work = Some(work);
            // Engines count from 1: 0 means that no request asked for the step.
            now.number = number.filter(|&number| number > 0);
        }
    }

    /// Handles the end of an outermost range. Returns the previous step on its thread, if that step
    /// lasted until this range opened, and the time of that, ns.
    pub(super) fn close(&mut self, id: u64, end: u64) -> Option<(u64, u64)> {
        let thread = self.open.remove(&id)?;
        let thread = self.threads.get_mut(&thread)?;
        // Start/end ranges overlap; of those on one thread only the last one is followed.
        let now = thread.now.take_if(|now| now.id == id)?;
        let now = Range { end: end.max(now.start), ..now };
        let before = std::mem::replace(&mut thread.before, now.work.is_some().then_some(now))?;
        self.end(before, now.work.map(|work| (now.start, work)));
        now.work.filter(StepWork::goes_on).map(|_| (before.id, now.start))
    }

    /// A step is over. `next` is when the following step began, and what it works on.
    fn end(&mut self, step: Range, next: Option<(u64, StepWork)>) {
        let Some(work) = step.work else { return };
        let is_first = self.found.extent.is_none();
        let (first, last) = self.found.extent.unwrap_or((step.start, step.end));
        self.found.extent = Some((first.min(step.start), last.max(step.end)));
        let goes_on = next.filter(|(_, next)| next.goes_on());
        let until = goes_on.map_or(step.end, |(start, _)| start);
        if is_first {
            self.found.first_ns = until.saturating_sub(step.start);
        }
        let Range { id: range, thread, start, end: range_end, number, .. } = step;
        self.ended = Some(EndedStep { range, thread, start, until, range_end, work, number });
        let ns = until.saturating_sub(step.start);
        if let Some(number) = step.number {
            if self.found.numbered.len() < self.share.of(MOST_NUMBERED) {
                self.found.numbered.push(NumberedStep::new(number, step.start, ns, &work));
            } else {
                self.found.more_numbered += 1;
            }
        } else {
            self.found.unnumbered_ns = self.found.unnumbered_ns.saturating_add(ns);
        }
        if let Some((start, _)) = next.filter(|_| goes_on.is_none()) {
            self.found.pauses += 1;
            let pause = start.saturating_sub(step.end);
            self.found.pause_ns = self.found.pause_ns.saturating_add(pause);
            if self.found.pause_spans.len() < self.share.of(MOST_PAUSES) {
                self.found.pause_spans.push((step.end, start.max(step.end)));
            }
        }
        let kind = work.kind();
        let shape = StepShape {
            kind,
            prefill_requests: work.prefill_requests,
            prefill_tokens: work.prefill_tokens,
            decode_requests: work.decode_requests,
        };
        let ns = until.saturating_sub(step.start);
        let is_cold = !self.cold.contains_key(&kind);
        if is_cold {
            self.cold.insert(kind, goes_on.map(|_| (shape, ns, work)));
        }
        let groups = &mut self.found.groups;
        if groups.len() >= MOST_SHAPES && !groups.contains_key(&shape) {
            self.found.other_steps += 1;
            return;
        }
        let group = groups.entry(shape).or_default();
        group.steps += 1;
        group.work.add(&work);
        if goes_on.is_some() && !is_cold {
            self.kept += usize::from(group.times.push(ns));
            group.timed_work.add(&work);
        }
        if self.kept > self.share.of(KEPT_IN_FILE) {
            groups.values_mut().for_each(|group| group.times.fold(0));
            self.kept = 0;
        }
    }

    /// Takes the step that ended last, unless it was taken already.
    pub(super) fn take_ended(&mut self) -> Option<EndedStep> {
        self.ended.take()
    }

    /// Ends the last step of a thread. Returns `None` if no thread has one.
    pub(super) fn end_one(&mut self) -> Option<EndedStep> {
        loop {
            let of = |thread: &Thread| thread.before.map(|step| (step.start, step.id));
            let threads = self.threads.values_mut().filter(|thread| thread.before.is_some());
            let step = threads.min_by_key(|thread| of(thread))?.before.take()?;
            self.end(step, None);
            if let Some(ended) = self.take_ended() {
                return Some(ended);
            }
        }
    }

    /// The steps of all threads.
    pub(super) fn finish(mut self) -> EngineSteps {
        let last: Vec<Range> = self.threads.values_mut().filter_map(|t| t.before.take()).collect();
        last.into_iter().for_each(|step| self.end(step, None));
        let groups = &mut self.found.groups;
        for (shape, ns, work) in self.cold.into_values().flatten() {
            let mut of_kind = groups.iter().filter(|(other, _)| other.kind == shape.kind);
            let has_times = of_kind.any(|(_, group)| group.times.count() > 0);
            if let Some(group) = groups.get_mut(&shape).filter(|_| !has_times) {
                group.times.push(ns);
                group.timed_work.add(&work);
            }
        }
        self.found
    }
}

impl EngineSteps {
    /// Number of steps of all shapes.
    pub fn steps(&self) -> u64 {
        let known = self.groups.values().map(|group| group.steps);
        known.fold(self.other_steps, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use stage2_contract::trace::{Field, FieldValue, MonoNs, NONE, Path, RangeOpen, Record};

    use super::*;
    use crate::trace::libraries::RangeNames;
    use crate::trace::tally::Tally;

    fn decode(requests: u64) -> StepWork {
        StepWork { decode_requests: requests, decode_tokens: requests, ..StepWork::default() }
    }

    fn prefill(tokens: u64) -> StepWork {
        StepWork { prefill_requests: 1, prefill_tokens: tokens, ..StepWork::default() }
    }

    /// Steps of one thread: begin, end and work of each.
    fn follow(steps: &[(u64, u64, Option<StepWork>)]) -> EngineSteps {
        let mut follower = StepFollower::default();
        for (range, &(start, end, work)) in (1..).zip(steps) {
            follower.open(range, 7, start, None);
            if let Some(work) = work {
                follower.work(range, work, Some(range));
            }
            follower.close(range, end);
        }
        follower.finish()
    }

    fn group(found: &EngineSteps, kind: StepKind) -> &StepGroup {
        let mut groups = found.groups.iter().filter(|(shape, _)| shape.kind == kind);
        let (one, None) = (groups.next(), groups.next()) else { panic!("{found:?}") };
        one.expect("a group").1
    }

    #[test]
    fn a_step_lasts_until_the_next_one_that_goes_on_with_a_request() {
        let found = follow(&[
            // The first one of a process compiles and loads.
            (10, 90, Some(prefill(512))),
            (95, 98, Some(decode(1))),
            (100, 150, Some(prefill(512))),
            (200, 220, Some(decode(1))),
            (230, 250, Some(decode(1))),
            (260, 280, Some(decode(1))),
            // Nobody knows for what the engine waited here.
            (9_000, 9_050, Some(prefill(512))),
            (9_100, 9_120, Some(decode(1))),
        ]);
        let prefills = group(&found, StepKind::Prefill);
        assert_eq!(
            (prefills.steps, prefills.times.count(), prefills.times.max()),
            (3, 2, Some(100))
        );
        let decodes = group(&found, StepKind::Decode);
        assert_eq!(
            (decodes.steps, decodes.times.count(), decodes.times.median()),
            (5, 2, Some(30))
        );
        assert_eq!((decodes.work.decode_tokens, decodes.timed_work.decode_tokens), (5, 2));
        assert_eq!((found.pauses, found.pause_ns), (2, 2 + 9_000 - 280));
        assert_eq!((found.first_ns, found.extent), (85, Some((10, 9_120))));
        assert_eq!(found.pause_spans, [(98, 100), (280, 9_000)]);
        // A step before a pause, and the last step, last as long as their ranges.
        let times: Vec<_> = found.numbered.iter().map(|step| (step.number, step.ns)).collect();
        let expected = [85, 3, 100, 30, 30, 20, 100, 20];
        assert_eq!(times, (1..).zip(expected).collect::<Vec<_>>());
        assert_eq!(found.extent, Some((10, 9_120)));
    }

    #[test]
    fn the_first_step_of_a_kind_is_timed_where_its_kind_has_no_other() {
        let found = follow(&[(10, 90, Some(prefill(512))), (100, 110, Some(decode(1)))]);
        let prefills = group(&found, StepKind::Prefill);
        assert_eq!((prefills.times.median(), prefills.timed_work.prefill_tokens), (Some(90), 512));
    }

    #[test]
    fn ranges_that_overlap_on_a_thread_are_not_taken_for_each_other() {
        let mut follower = StepFollower::default();
        follower.open(1, 7, 100, Some(decode(1)));
        follower.open(2, 7, 110, Some(decode(1)));
        follower.work(1, decode(9), None);
        follower.close(1, 120);
        follower.close(2, 130);
        let found = follower.finish();
        let decodes = group(&found, StepKind::Decode);
        assert_eq!((decodes.steps, decodes.work.decode_requests), (1, 1));
        assert_eq!(found.extent, Some((110, 130)));
    }

    #[test]
    fn another_range_between_two_steps_ends_the_first() {
        let found =
            follow(&[(100, 110, Some(decode(2))), (120, 130, None), (140, 150, Some(decode(2)))]);
        assert_eq!(group(&found, StepKind::Decode).times.count(), 0);
        assert_eq!(found.steps(), 2);
    }

    /// TensorRT-LLM under our hook: its own range of the step is inside ours, and others follow.
    #[test]
    fn ranges_that_the_engine_opens_between_two_steps_end_neither() {
        let mut tally = Tally::new(RangeNames::default());
        let domain = 9;
        let names =
            ["decode", "[Executor] _forward_step 8: 0 ctx reqs, 3 gen reqs", "_sample_async"];
        for (id, name) in (1..).zip(names.into_iter().chain(["mine"])) {
            tally.push(Record::Name { id, bytes: name.into() });
        }
        tally.push(Record::Name { id: domain, bytes: "TensorRT-LLM".into() });
        for (id, parent, domain) in
            [(1, NONE, NONE), (2, 1, domain), (3, NONE, domain), (4, NONE, NONE)]
        {
            tally.push(Record::Path(Path { id, parent, name: id, domain }));
        }
        tally.push(Record::Name { id: 10, bytes: "decode_requests".into() });
        let mut ranges = 0;
        let mut step = |last: u32, at: u64| {
            ranges += 3;
            let open = |range, path, start| {
                Record::RangeOpen(RangeOpen {
                    range,
                    path,
                    start: MonoNs(start),
                    ..Default::default()
                })
            };
            let close = |range, end| Record::RangeClose { range, end: MonoNs(end) };
            let fields = vec![Field { name: 10, value: FieldValue::U64(3) }];
            for record in [
                open(ranges, 1, at),
                Record::RangeFields { range: ranges, fields },
                open(ranges + 1, 2, at + 5),
                close(ranges + 1, at + 25),
                close(ranges, at + 30),
                open(ranges + 2, last, at + 40),
                close(ranges + 2, at + 50),
            ] {
                tally.push(record);
            }
        };
        for at in 0..4 {
            step(3, 100 * at);
        }
        step(4, 400);
        step(3, 500);
        let capture = tally.finish();
        let decodes = group(&capture.engine, StepKind::Decode);
        // Not timed: the first step, the step before a range of the user, and the last step.
        assert_eq!(
            (decodes.steps, decodes.times.count(), decodes.times.median()),
            (6, 3, Some(100))
        );
        assert_eq!(capture.engine.engines, BTreeMap::new());
        assert!(capture.paths.iter().all(|node| node.parent.is_none()));
    }

    #[test]
    fn a_numbered_step_whose_prompt_tokens_are_not_known_is_not_taken_for_one_without_prompts() {
        let mut follower = StepFollower::default();
        follower.open(1, 7, 10, None);
        follower.work(1, StepWork { prefill_requests: 2, ..StepWork::default() }, Some(5));
        follower.close(1, 20);
        let found = follower.finish();
        let [step] = &found.numbered[..] else { panic!("{found:?}") };
        assert_eq!((step.number, step.kind, step.prefill_tokens), (5, StepKind::Prefill, 2));
    }

    #[test]
    fn threads_and_shapes_without_end_are_bounded_and_counted() {
        let mut follower = StepFollower::default();
        for range in 0..20_000 {
            follower.open(range, range as u32, range, Some(prefill(range + 1)));
            follower.close(range, range);
        }
        let found = follower.finish();
        assert_eq!((found.groups.len(), found.steps()), (MOST_THREADS, MOST_THREADS as u64));
        let steps: Vec<_> = (0..5_000).map(|at| (at, at, Some(prefill(at + 1)))).collect();
        let found = follow(&steps);
        assert_eq!((found.groups.len(), found.other_steps, found.steps()), (4_096, 904, 5_000));
    }
}
