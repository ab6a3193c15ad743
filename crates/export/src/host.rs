//! Samples of the host's threads and steps of engines -> what several formats hold of them.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_model::HostFrame;
use stage2_read::trace::events::{HostSample, Span, Step, TraceFile, state_name};
use stage2_read::trace::requests::engine_of;

use crate::run::{Process, Run};

/// Samples of a thread that are less than this apart are consecutive, ns.
const APART_NS: i64 = 1_000;
/// Lines of a stack that are shown, the innermost.
const LINES_SHOWN: usize = 64;
/// Lines of all stacks of a process that are written.
const LINES_WRITTEN: usize = 1 << 19;
/// Texts of frames that are cached; further ones are read again.
const TEXTS_KEPT: usize = 1 << 14;
/// Requests of a step that are named.
const REQUESTS_SHOWN: usize = 1_024;
/// Requests that are looked at to find those of a step.
const REQUESTS_SEARCHED: usize = 4_096;

/// What an additional track of a thread shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Row {
    /// What it did, according to samples.
    Host,
    /// The calls in which it may have waited.
    Calls,
    /// Steps of an engine.
    Steps,
}

impl Row {
    /// The name of the track.
    pub(crate) fn title(self, thread: &str, os_tid: u32) -> String {
        let what = match self {
            Self::Host => "host samples",
            Self::Calls => "blocking calls",
            Self::Steps => "engine steps",
        };
        format!("{what}: {thread} ({os_tid})")
    }

    /// The category of its slices.
    pub(crate) fn category(self) -> &'static str {
        match self {
            Self::Host => "host_sample",
            Self::Calls => "host_call",
            Self::Steps => "engine_step",
        }
    }
}

/// What a thread did for some time, according to consecutive samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The thread.
    pub(crate) os_tid: u32,
    /// In the words of a report's row.
    pub(crate) name: String,
    /// [`state_name`] of its state.
    pub(crate) state: &'static str,
    /// The line that stands for its stack.
    pub(crate) line: Option<HostFrame>,
    pub(crate) span: Span,
    /// Samples that agree.
    pub(crate) samples: u64,
}

/// Joins consecutive samples of a thread that agree.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    open: BTreeMap<u32, Slice>,
}

impl Slices {
    /// Takes the next sample of a thread. Gives what the thread did before, if that is over.
    pub(crate) fn push(&mut self, sample: &HostSample<'_>) -> Option<Slice> {
        let Span { start_ns, end_ns } = sample.span;
        let os_tid = sample.thread.os_tid;
        let name = sample.text();
        let state = state_name(sample.state);
        let before = self.open.get_mut(&os_tid);
        // Times of one thread never overlap.
        let reached_ns = before.as_ref().map_or(i64::MIN, |before| before.span.end_ns);
        let span = Span { start_ns: start_ns.max(reached_ns), end_ns };
        if span.start_ns >= span.end_ns {
            return None;
        }
        if let Some(before) = before
            && start_ns.saturating_sub(reached_ns) < APART_NS
            && (before.state, &before.name, before.line.as_ref()) == (state, &name, sample.frame)
        {
            before.span.end_ns = end_ns;
            before.samples += 1;
            return None;
        }
        let line = sample.frame.cloned();
        self.open.insert(os_tid, Slice { os_tid, name, state, line, span, samples: 1 })
    }

    /// What is still open, by thread.
    pub(crate) fn finish(self) -> impl Iterator<Item = Slice> {
        self.open.into_values()
    }
}

/// Texts of stacks, as long as there is room for them.
#[derive(Debug)]
pub struct Stacks {
    lines_left: usize,
    /// Stacks that were asked for by [`Stacks::first`].
    known: FxHashSet<u32>,
    /// Texts of frames.
    texts: FxHashMap<u32, String>,
}

impl Default for Stacks {
    fn default() -> Self {
        Self { lines_left: LINES_WRITTEN, known: FxHashSet::default(), texts: FxHashMap::default() }
    }
}

impl Stacks {
    /// The innermost lines of a stack, the outermost of them first, separated by `;`; `None` if it has none, or after
    /// too many lines.
    pub fn text(&mut self, file: &TraceFile, stack: u32) -> Option<String> {
        if self.lines_left == 0 {
            return None;
        }
        if self.texts.len() >= TEXTS_KEPT {
            self.texts.clear();
        }
        let mut frames: Vec<u32> = file.stack(stack).take(LINES_SHOWN).collect();
        self.lines_left = self.lines_left.saturating_sub(frames.len());
        frames.reverse();
        let mut text = String::new();
        for frame in &frames {
            let line = self.texts.entry(*frame);
            let line = line.or_insert_with(|| file.line(*frame).text().replace(';', ":"));
            text.push_str(if text.is_empty() { "" } else { ";" });
            text.push_str(line);
        }
        (!frames.is_empty()).then_some(text)
    }

    /// [`text`](Self::text) where the stack is asked for the first time.
    pub fn first(&mut self, file: &TraceFile, stack: u32) -> Option<String> {
        if self.lines_left == 0 || !self.known.insert(stack) {
            return None;
        }
        self.text(file, stack)
    }
}

/// The requests of the engines of a run, by the steps that worked on them.
#[derive(Debug, Default)]
pub struct StepRequests {
    /// First and last step and number of each request, and the largest last step up to there.
    by_engine: BTreeMap<u64, Vec<(u64, u64, u64, u64)>>,
}

impl StepRequests {
    /// Those of a run.
    pub fn of(run: &Run) -> Self {
        let mut by_engine: BTreeMap<u64, Vec<(u64, u64, u64, u64)>> = BTreeMap::new();
        for (index, process) in run.processes().iter().enumerate() {
            for request in &process.file.requests().kept {
                let Some(steps) = request.steps else { continue };
                let all = by_engine.entry(engine_of(index, steps.first)).or_default();
                all.push((steps.first, steps.last, request.number, 0));
            }
        }
        for requests in by_engine.values_mut() {
            requests.sort_unstable();
            let mut reached = 0;
            for (_, last, _, until) in requests {
                reached = reached.max(*last);
                *until = reached;
            }
        }
        Self { by_engine }
    }

    /// The numbers of the requests that had begun and not ended at this step, ascending; not all of them if there are
    /// very many.
    pub fn of_step(&self, run: &Run, process: &Process, step: &Step<'_>) -> Vec<u64> {
        let index = run.processes().iter().position(|other| other.pid == process.pid);
        let Some((index, number)) = index.zip(step.number) else { return Vec::new() };
        let Some(all) = self.by_engine.get(&engine_of(index, number)) else { return Vec::new() };
        let begun = all.partition_point(|(first, ..)| *first <= number);
        let begun = all.iter().take(begun).rev().take(REQUESTS_SEARCHED);
        let open = begun.take_while(|(.., until)| *until >= number);
        let of_step =
            open.filter(|(_, last, ..)| *last >= number).map(|(_, _, request, _)| *request);
        let mut found: Vec<u64> = of_step.take(REQUESTS_SHOWN).collect();
        found.sort_unstable();
        found
    }
}

/// The numbers of a step, by name; `None`: not known.
pub fn step_numbers(step: &Step<'_>) -> [(&'static str, Option<u64>); 7] {
    let work = &step.work;
    // A step without requests of a kind has no tokens of them; one with requests has some.
    let known = |requests: u64, count: u64| (requests == 0 || count > 0).then_some(count);
    let (prefill, decode) = (work.prefill_requests, work.decode_requests);
    [
        ("prefill_requests", Some(prefill)),
        ("prefill_tokens", known(prefill, work.prefill_tokens)),
        ("prefill_context_tokens", known(prefill, work.prefill_context_tokens)),
        ("decode_requests", Some(decode)),
        ("decode_tokens", known(decode, work.decode_tokens)),
        ("decode_context_tokens", known(decode, work.decode_context_tokens)),
        ("draft_tokens", Some(work.draft_tokens)),
    ]
}

/// Numbers as a JSON array; `None` if there are none.
pub fn json_list(numbers: &[u64]) -> Option<String> {
    (!numbers.is_empty()).then(|| serde_json::json!(numbers).to_string())
}
