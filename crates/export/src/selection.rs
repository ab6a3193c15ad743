//! The part of a run that is exported: some stages, a window of time, or all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::{instead, visible};
use stage2_read::path_label::WHOLE_PROCESS;
use stage2_read::trace::events::{Event, HostCall, HostSample, Span, What};

use crate::run::{Process, Run};
use crate::{Counts, ExportError};

/// The part of a run that is exported. The default is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Stages (outermost ranges, as reports name them); empty: all, and what is in none.
    pub stages: Vec<String>,
    /// The window of time; nothing: the whole run.
    pub window: Option<Window>,
}

/// A part of a run in time. What touches it is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// In ns since the first event of the run.
    Time {
        /// Start.
        from_ns: i64,
        /// End.
        to_ns: i64,
    },
    /// From the start of one call of a stage to that of another, in each process: where clocks of hosts are
    /// apart, the same calls are still the same.
    Calls {
        /// The stage.
        stage: String,
        /// The number of the first call, from 0.
        from: u64,
        /// The number of the first one that is left out.
        to: u64,
    },
}

impl FromStr for Window {
    type Err = ExportError;

    /// Reads `START..END` in seconds, or `STAGE:FIRST..END` in calls; either number may be left out.
    fn from_str(text: &str) -> Result<Self, ExportError> {
        let refused = || ExportError::NoWindow(visible(text.as_bytes()));
        let (from, to) = text.rsplit_once("..").ok_or_else(refused)?;
        if let Some((stage, from)) = from.rsplit_once(':') {
            let number = |part: &str, absent: u64| match part.trim() {
                "" => Ok(absent),
                number => number.parse().map_err(|_| refused()),
            };
            let (from, to) = (number(from, 0)?, number(to, u64::MAX)?);
            let stage = stage.to_owned();
            return if from < to { Ok(Self::Calls { stage, from, to }) } else { Err(refused()) };
        }
        let ns = |part: &str, absent: i64| match part.trim().trim_end_matches('s') {
            "" => Ok(absent),
            number => {
                let seconds = number.parse::<f64>().ok();
                let seconds = seconds.filter(|s| s.is_finite() && *s >= 0.0 && *s < 9e9);
                seconds.map(|s| (s * 1e9).round() as i64).ok_or_else(refused)
            }
        };
        let (from_ns, to_ns) = (ns(from, 0)?, ns(to, i64::MAX)?);
        if from_ns < to_ns { Ok(Self::Time { from_ns, to_ns }) } else { Err(refused()) }
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |ns: i64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        match self {
            Self::Time { from_ns, to_ns: i64::MAX } => write!(f, "{}..", seconds(*from_ns)),
            Self::Time { from_ns, to_ns } => {
                write!(f, "{}..{}", seconds(*from_ns), seconds(*to_ns))
            }
            Self::Calls { stage, from, to: u64::MAX } => write!(f, "{stage}:{from}.."),
            Self::Calls { stage, from, to } => write!(f, "{stage}:{from}..{to}"),
        }
    }
}

impl Selection {
    /// Checks that the run has what is selected. Returns where in time that is.
    pub(crate) fn check(&self, run: &Run) -> Result<Times, ExportError> {
        let span = run.span().unwrap_or(Span { start_ns: 0, end_ns: 0 });
        let mut times = Times::default();
        let of_calls = match &self.window {
            Some(Window::Calls { stage, from, to }) => Some((stage, *from, *to)),
            _ => None,
        };
        if of_calls.is_some() || !self.stages.is_empty() {
            self.look(run, of_calls, &mut times)?;
        }
        if let Some(Window::Time { from_ns, to_ns }) = self.window {
            let events_end = span.ns() as f64 / 1e9;
            if from_ns > span.ns() {
                return Err(ExportError::NothingSelected(events_end));
            }
            if to_ns > span.ns() && to_ns < i64::MAX {
                let end = to_ns as f64 / 1e9;
                times.note = Some(format!(
                    "--window ends at {end} s, after the last event of the run ({events_end:.3} s)"
                ));
            }
            let at = |ns: i64| span.start_ns.saturating_add(ns);
            let window = Span { start_ns: at(from_ns), end_ns: at(to_ns) };
            times.window = run.processes().iter().map(|process| (process.pid, window)).collect();
        }
        Ok(times)
    }

    /// Reads the run for the times of stages and calls.
    fn look(
        &self,
        run: &Run,
        of_calls: Option<(&String, u64, u64)>,
        times: &mut Times,
    ) -> Result<(), ExportError> {
        let (mut known, mut ranges) = (BTreeSet::new(), BTreeSet::new());
        let mut most_calls = 0;
        for process in run.processes() {
            let (mut spans, mut starts) = (Vec::new(), Vec::new());
            process.file.for_each(|event| {
                let (stage, known) = match &event {
                    Event::Range(range) => (range.path.stage(), &mut ranges),
                    Event::Work(work) => (work.path.stage(), &mut known),
                    _ => return Ok::<(), ExportError>(()),
                };
                if !known.contains(stage) {
                    known.insert(stage.to_owned());
                }
                let Event::Range(range) = &event else { return Ok(()) };
                if self.stages.iter().any(|of| of == stage) {
                    add_span(&mut spans, range.span);
                }
                let is_call = !range.continues && range.path.label == stage;
                if is_call && of_calls.is_some_and(|(of, ..)| of == stage) {
                    starts.push(range.span.start_ns);
                }
                Ok(())
            })?;
            if self.stages.iter().any(|stage| stage == WHOLE_PROCESS) {
                spans = process.file.span().into_iter().collect();
            }
            times.stages.insert(process.pid, joined(spans));
            if let Some((_, from, to)) = of_calls {
                starts.sort_unstable();
                most_calls = most_calls.max(starts.len() as u64);
                let start = |number: u64| {
                    usize::try_from(number).ok().and_then(|at| starts.get(at)).copied()
                };
                if let Some(start_ns) = start(from) {
                    let end_ns = start(to).unwrap_or(i64::MAX);
                    times.window.insert(process.pid, Span { start_ns, end_ns });
                }
            }
        }
        let calls_of = of_calls.map(|(stage, ..)| stage);
        let is_unknown = |of: &&String| !known.contains(*of) && !ranges.contains(*of);
        if let Some(unknown) = self.stages.iter().chain(calls_of).find(is_unknown) {
            let mut others = ranges.difference(&known).count();
            if others <= RANGES_LISTED || known.is_empty() {
                known.append(&mut ranges);
                others = 0;
            }
            let listed: Vec<&str> = known.iter().map(String::as_str).collect();
            let mut instead = instead(unknown, &listed);
            if others > 0 {
                let ranges = counted(others as u64, "range");
                instead += &format!(" ({ranges} without GPU work are not listed)");
            }
            return Err(ExportError::NoSuchStage { stage: visible(unknown.as_bytes()), instead });
        }
        match calls_of.filter(|_| times.window.is_empty()) {
            Some(stage) => {
                Err(ExportError::NoSuchCalls { stage: visible(stage.as_bytes()), most_calls })
            }
            None => {
                let cut = of_calls.filter(|(.., to)| (most_calls + 1..u64::MAX).contains(to));
                times.note = cut.map(|(stage, _, to)| {
                    let stage = visible(stage.as_bytes());
                    format!(
                        "--window ends at call {to} of `{stage}`, which has {}",
                        count(most_calls)
                    )
                });
                Ok(())
            }
        }
    }
}

/// Ranges without GPU work that are listed with the stages: of modules there are hundreds.
const RANGES_LISTED: usize = 4;

/// Where in time the selected part of each process is, by the number of the process, on the wall clock.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// When it had a range of the selected stages, in order of time.
    stages: BTreeMap<u32, Vec<Span>>,
    /// Its window. A process without these calls has none.
    window: BTreeMap<u32, Span>,
    /// That the run ends before the window does.
    pub(crate) note: Option<String>,
}

impl Times {
    /// Whether a time span of a process touches one of its stages.
    fn touches_stage(&self, process: &Process, span: Span) -> bool {
        let Some(spans) = self.stages.get(&process.pid) else { return false };
        let behind = spans.partition_point(|of| of.end_ns < span.start_ns);
        spans.get(behind).is_some_and(|of| of.start_ns < span.end_ns)
    }
}

/// Spans of the stages of a process that are kept separately. Beyond that, the last one grows.
const SPANS: usize = 1 << 20;

/// Adds the time of a range. Most ranges close after those in them.
fn add_span(spans: &mut Vec<Span>, mut span: Span) {
    // Ranges mostly end in order, those within before those around them.
    while let Some(last) =
        spans.pop_if(|last| (span.start_ns..=span.end_ns).contains(&last.start_ns))
    {
        span.end_ns = span.end_ns.max(last.end_ns);
    }
    let is_full = spans.len() >= SPANS;
    match spans.last_mut() {
        Some(last) if is_full || (last.start_ns..=last.end_ns).contains(&span.start_ns) => {
            last.start_ns = last.start_ns.min(span.start_ns);
            last.end_ns = last.end_ns.max(span.end_ns);
        }
        _ => spans.push(span),
    }
}

/// Joins spans that overlap: the result is in the order of time.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| (span.start_ns, span.end_ns));
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start_ns <= last.end_ns => {
                last.end_ns = last.end_ns.max(span.end_ns)
            }
            _ => joined.push(span),
        }
    }
    joined
}

/// What a format holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// GPU work, including work without times.
    Work,
    /// What has a place in time: ranges, samples of the host and steps of engines as well.
    Timeline,
    /// Requests of engines as well.
    Tables,
}

/// A run, and the part of it that is exported.
#[derive(Debug)]
pub struct Selected<'r> {
    /// The run.
    pub run: &'r Run,
    stages: BTreeSet<&'r str>,
    has_window: bool,
    times: Times,
}

impl<'r> Selected<'r> {
    pub(crate) fn new(run: &'r Run, selection: &'r Selection, times: Times) -> Self {
        let stages = selection.stages.iter().map(String::as_str).collect();
        Self { run, stages, has_window: selection.window.is_some(), times }
    }

    /// Start of what may be exported: the zero of formats that have one, ns since the Unix epoch.
    pub fn start_ns(&self) -> i64 {
        self.run.span().map_or(0, |span| span.start_ns)
    }

    /// Whether a stage is selected.
    pub fn has_stage(&self, stage: &str) -> bool {
        self.stages.is_empty() || self.stages.contains(stage)
    }

    pub(crate) fn has_window(&self) -> bool {
        self.has_window
    }

    fn has(&self, process: &Process, event: &Event<'_>) -> bool {
        let (stage, span) = match event {
            Event::Work(work) => (Some(work.path.stage()), work.span),
            Event::Range(range) => (Some(range.path.stage()), Some(range.span)),
            Event::Step(step) => (Some(step.path.stage()), Some(step.span)),
            // A mark belongs to no stage.
            Event::Mark { at_ns, .. } => (None, Some(Span { start_ns: *at_ns, end_ns: *at_ns })),
            // Nor does a request, which lasts for many steps.
            Event::Request { request, arrived_ns } => {
                let ns = i64::try_from(request.total_ns.unwrap_or(0)).unwrap_or(i64::MAX);
                let span = |start_ns: i64| Span { start_ns, end_ns: start_ns.saturating_add(ns) };
                (None, arrived_ns.map(span))
            }
            Event::Sample(HostSample { span, .. }) | Event::Call(HostCall { span, .. }) => {
                let is_in = self.stages.is_empty() || self.times.touches_stage(process, *span);
                return is_in && self.is_in_window(process, *span);
            }
        };
        let is_in = self.stages.is_empty() || stage.is_some_and(|stage| self.has_stage(stage));
        is_in && (!self.has_window || span.is_some_and(|span| self.is_in_window(process, span)))
    }

    fn is_in_window(&self, process: &Process, span: Span) -> bool {
        let touches = |of: &Span| span.start_ns < of.end_ns && span.end_ns >= of.start_ns;
        !self.has_window || self.times.window.get(&process.pid).is_some_and(touches)
    }

    /// Passes the selected events of `process` that a format holds to `each`, and counts them. Only [`Holds::Work`]
    /// gets GPU work without times, and only without a window.
    ///
    /// # Errors
    /// The first error of `each`, and a trace file that cannot be read to its end.
    pub fn for_each(
        &self,
        process: &Process,
        holds: Holds,
        counts: &mut Counts,
        mut each: impl FnMut(Event<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        process.file.for_each(|event| {
            if !self.has(process, &event) {
                // What continues a range was counted with it.
                let is_new = !matches!(&event, Event::Range(range) if range.continues);
                // A request belongs to no part of a run.
                let is_new = is_new && !matches!(&event, Event::Request { .. });
                counts.not_selected += u64::from(is_new);
                return Ok(());
            }
            match &event {
                Event::Work(work) => {
                    if work.span.is_none() {
                        counts.without_times += 1;
                        if holds != Holds::Work {
                            return Ok(());
                        }
                    }
                    match work.what {
                        What::Kernel(..) => counts.kernels += 1,
                        What::Copy { .. } | What::Fill { .. } => counts.memory += 1,
                        What::Graph { .. } => counts.graphs += 1,
                    }
                }
                Event::Range(range) => counts.ranges += u64::from(!range.continues),
                Event::Mark { .. } => counts.marks += 1,
                Event::Sample(_) | Event::Call(_) if holds == Holds::Work => {
                    counts.host_left_out += 1;
                    return Ok(());
                }
                Event::Sample(_) => counts.samples += 1,
                Event::Call(_) => counts.calls += 1,
                // As ranges, every format has them.
                Event::Step(_) if holds == Holds::Work => return Ok(()),
                Event::Step(_) => counts.steps += 1,
                Event::Request { .. } if holds != Holds::Tables => return Ok(()),
                Event::Request { .. } => counts.requests += 1,
            }
            each(event)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_ranges_in_any_order_become_spans_in_order() {
        let mut spans = Vec::new();
        for (start_ns, end_ns) in [(10, 20), (12, 18), (40, 45), (39, 50), (30, 41), (5, 6)] {
            add_span(&mut spans, Span { start_ns, end_ns });
        }
        let spans = joined(spans);
        let found: Vec<(i64, i64)> = spans.iter().map(|s| (s.start_ns, s.end_ns)).collect();
        assert_eq!(found, [(5, 6), (10, 20), (30, 50)]);
    }

    #[test]
    fn windows_are_read_in_seconds_or_calls_and_refused_where_they_hold_nothing() {
        let window = |text: &str| match text.parse().ok()? {
            Window::Time { from_ns, to_ns } => Some((from_ns, to_ns)),
            Window::Calls { .. } => None,
        };
        assert_eq!(window("0.5..1.25"), Some((500_000_000, 1_250_000_000)));
        assert_eq!(window("2s.."), Some((2_000_000_000, i64::MAX)));
        assert_eq!(window("..1"), Some((0, 1_000_000_000)));
        for text in
            ["0.5..1.25", "2..", "0.000000001..7", "decode:3..7", "a..b:c:..9", "decode:4.."]
        {
            let again = text.parse::<Window>().expect(text);
            assert_eq!(again.to_string().parse::<Window>().ok(), Some(again), "{text}");
        }
        for wrong in ["", "1", "1..1", "2..1", "a..b", "-1..2", "0..inf", "0..1e30"] {
            assert_eq!(window(wrong), None, "{wrong}");
        }
        for wrong in ["decode:3", "decode:3..3", "decode:-1..2", "decode:1.5..2", "decode:a..b"] {
            let refused = wrong.parse::<Window>().expect_err(wrong).to_string();
            assert!(refused.contains("decode:100..110"), "{refused}");
        }
    }
}
