//! The part of a run that is exported: some stages, a window of time, or all of it.

use std::collections::BTreeSet;
use std::str::FromStr;

use stage2_contract::text::visible;
use stage2_read::trace::events::{Event, Span, What};

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
    /// That the run has the stages that are asked for, and that the window is not behind its end.
    pub(crate) fn check(&self, run: &Run) -> Result<(), ExportError> {
        if !self.stages.is_empty() {
            self.check_stages(run)?;
        }
        let length_ns = run.span().map(Span::ns);
        match self.window.zip(length_ns) {
            Some((window, ns)) if window.from_ns > ns => {
                Err(ExportError::NothingSelected(ns as f64 / 1e9))
            }
            _ => Ok(()),
        }
    }

    fn check_stages(&self, run: &Run) -> Result<(), ExportError> {
        let mut known = BTreeSet::new();
        for process in run.processes() {
            process.file.for_each(|event| {
                let stage = match &event {
                    Event::Range(range) => range.path.stage(),
                    Event::Work(work) => work.path.stage(),
                    Event::Mark { .. } => return Ok::<(), ExportError>(()),
                };
                if !known.contains(stage) {
                    known.insert(stage.to_owned());
                }
                Ok(())
            })?;
        }
        let Some(unknown) = self.stages.iter().find(|stage| !known.contains(*stage)) else {
            return Ok(());
        };
        let known = known.into_iter().map(|s| format!("`{s}`")).collect::<Vec<_>>().join(", ");
        Err(ExportError::NoSuchStage { stage: visible(unknown.as_bytes()), known })
    }
}

/// A run, and the part of it that is exported.
#[derive(Debug)]
pub struct Selected<'r> {
    /// The run.
    pub run: &'r Run,
    stages: BTreeSet<&'r str>,
    /// On the wall clock.
    window: Option<Span>,
}

impl<'r> Selected<'r> {
    pub(crate) fn new(run: &'r Run, selection: &'r Selection) -> Self {
        let start_ns = run.span().map_or(0, |span| span.start_ns);
        let window = selection.window.map(|window| Span {
            start_ns: start_ns.saturating_add(window.from_ns),
            end_ns: start_ns.saturating_add(window.to_ns),
        });
        Self { run, stages: selection.stages.iter().map(String::as_str).collect(), window }
    }

    /// Start of what may be exported: the zero of formats that have one, ns since the Unix epoch.
    pub fn start_ns(&self) -> i64 {
        self.run.span().map_or(0, |span| span.start_ns)
    }

    pub(crate) fn has_stage(&self, stage: &str) -> bool {
        self.stages.is_empty() || self.stages.contains(stage)
    }

    pub(crate) fn has_window(&self) -> bool {
        self.window.is_some()
    }

    fn has(&self, event: &Event<'_>) -> bool {
        let (stage, span) = match event {
            Event::Work(work) => (Some(work.path.stage()), work.span),
            Event::Range(range) => (Some(range.path.stage()), Some(range.span)),
            // A mark belongs to no stage.
            Event::Mark { at_ns, .. } => (None, Some(Span { start_ns: *at_ns, end_ns: *at_ns })),
        };
        let has_time =
            |w: Span| span.is_some_and(|s| s.start_ns < w.end_ns && s.end_ns >= w.start_ns);
        (self.stages.is_empty() || stage.is_some_and(|stage| self.has_stage(stage)))
            && self.window.is_none_or(has_time)
    }

    /// Gives the selected events of `process` to `each`, and counts them. GPU work without times
    /// is given only where `timeless` is wanted and no window is asked for.
    ///
    /// # Errors
    /// The first error of `each`, and a trace file that cannot be read to its end.
    pub fn for_each(
        &self,
        process: &Process,
        timeless: bool,
        counts: &mut Counts,
        mut each: impl FnMut(Event<'_>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        process.file.for_each(|event| {
            if !self.has(&event) {
                // What continues a range was counted with it.
                let is_new = !matches!(&event, Event::Range(range) if range.continues);
                counts.not_selected += u64::from(is_new);
                return Ok(());
            }
            match &event {
                Event::Work(work) => {
                    if work.span.is_none() {
                        counts.without_times += 1;
                        if !timeless {
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
            }
            each(event)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
