//! The part of a run that is exported: some stages, a window of time, or all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use stage2_contract::text::visible;
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

/// A window of time, ns since the first event of the run. What touches it is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Start.
    pub from_ns: i64,
    /// End.
    pub to_ns: i64,
}

impl FromStr for Window {
    type Err = ExportError;

    /// Reads `START..END` in seconds; either may be left out.
    fn from_str(text: &str) -> Result<Self, ExportError> {
        let refused = || ExportError::NoWindow(visible(text.as_bytes()));
        let (from, to) = text.split_once("..").ok_or_else(refused)?;
        let ns = |part: &str, absent: i64| match part.trim().trim_end_matches('s') {
            "" => Ok(absent),
            number => {
                let seconds = number.parse::<f64>().ok();
                let seconds = seconds.filter(|s| s.is_finite() && *s >= 0.0 && *s < 9e9);
                seconds.map(|s| (s * 1e9).round() as i64).ok_or_else(refused)
            }
        };
        let window = Self { from_ns: ns(from, 0)?, to_ns: ns(to, i64::MAX)? };
        if window.from_ns < window.to_ns { Ok(window) } else { Err(refused()) }
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |ns: i64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        let to = if self.to_ns == i64::MAX { String::new() } else { seconds(self.to_ns) };
        write!(f, "{}..{to}", seconds(self.from_ns))
    }
}

impl Selection {
    /// Checks that the run has the selected stages, and that the window does not begin after the end of the run.
    /// Returns when each process had one of these stages.
    pub(crate) fn check(&self, run: &Run) -> Result<StageTimes, ExportError> {
        let times = match self.stages.is_empty() {
            true => StageTimes::default(),
            false => self.check_stages(run)?,
        };
        let length_ns = run.span().map(Span::ns);
        match self.window.zip(length_ns) {
            Some((window, ns)) if window.from_ns > ns => {
                Err(ExportError::NothingSelected(ns as f64 / 1e9))
            }
            _ => Ok(times),
        }
    }

    fn check_stages(&self, run: &Run) -> Result<StageTimes, ExportError> {
        let mut known = BTreeSet::new();
        let mut times = StageTimes::default();
        for process in run.processes() {
            let mut spans = Vec::new();
            process.file.for_each(|event| {
                let stage = match &event {
                    Event::Range(range) => range.path.stage(),
                    Event::Work(work) => work.path.stage(),
                    _ => return Ok::<(), ExportError>(()),
                };
                if !known.contains(stage) {
                    known.insert(stage.to_owned());
                }
                if let Event::Range(range) = &event
                    && self.stages.iter().any(|of| of == stage)
                {
                    add_span(&mut spans, range.span);
                }
                Ok(())
            })?;
            if self.stages.iter().any(|stage| stage == WHOLE_PROCESS) {
                spans = process.file.span().into_iter().collect();
            }
            times.0.insert(process.pid, joined(spans));
        }
        let Some(unknown) = self.stages.iter().find(|stage| !known.contains(*stage)) else {
            return Ok(times);
        };
        let known = known.into_iter().map(|s| format!("`{s}`")).collect::<Vec<_>>().join(", ");
        Err(ExportError::NoSuchStage { stage: visible(unknown.as_bytes()), known })
    }
}

/// When each process, by its number, had a range of the selected stages, in order of time.
#[derive(Debug, Default)]
pub(crate) struct StageTimes(BTreeMap<u32, Vec<Span>>);

impl StageTimes {
    /// Whether a time span of a process touches one of its stages.
    fn touches(&self, process: &Process, span: Span) -> bool {
        let Some(spans) = self.0.get(&process.pid) else { return false };
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
    stage_times: StageTimes,
    /// On the wall clock.
    window: Option<Span>,
}

impl<'r> Selected<'r> {
    pub(crate) fn new(run: &'r Run, selection: &'r Selection, stage_times: StageTimes) -> Self {
        let start_ns = run.span().map_or(0, |span| span.start_ns);
        let window = selection.window.map(|window| Span {
            start_ns: start_ns.saturating_add(window.from_ns),
            end_ns: start_ns.saturating_add(window.to_ns),
        });
        let stages = selection.stages.iter().map(String::as_str).collect();
        Self { run, stages, stage_times, window }
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
        self.window.is_some()
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
                let is_in = self.stages.is_empty() || self.stage_times.touches(process, *span);
                return is_in && self.is_in_window(*span);
            }
        };
        let is_in = self.stages.is_empty() || stage.is_some_and(|stage| self.has_stage(stage));
        is_in && (self.window.is_none() || span.is_some_and(|span| self.is_in_window(span)))
    }

    fn is_in_window(&self, span: Span) -> bool {
        self.window.is_none_or(|of| span.start_ns < of.end_ns && span.end_ns >= of.start_ns)
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
    fn windows_are_read_in_seconds_and_refused_where_they_hold_nothing() {
        let window = |text: &str| text.parse::<Window>().ok().map(|w| (w.from_ns, w.to_ns));
        assert_eq!(window("0.5..1.25"), Some((500_000_000, 1_250_000_000)));
        assert_eq!(window("2s.."), Some((2_000_000_000, i64::MAX)));
        assert_eq!(window("..1"), Some((0, 1_000_000_000)));
        for text in ["0.5..1.25", "2..", "0.000000001..7"] {
            let again = text.parse::<Window>().expect(text);
            assert_eq!(again.to_string().parse::<Window>().ok(), Some(again), "{text}");
        }
        for wrong in ["", "1", "1..1", "2..1", "a..b", "-1..2", "0..inf", "0..1e30"] {
            assert_eq!(window(wrong), None, "{wrong}");
        }
    }
}
