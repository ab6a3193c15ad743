//! Samples of the host -> what the thread of a stage does during a step.
//!
//! A step is shorter than a few samples are apart. So the samples of all steps of about its length are taken, each at
//! its place in its own step.

use std::cmp::Reverse;

use indexmap::IndexMap;
use stage2_contract::order::Order as _;
use stage2_model::{HOST_SAMPLES_LEAST, TimelineHost, TimelineHostPart};
use stage2_read::trace::events::{Event, HostSample, Span};

use super::{NAMES, OTHER_NAMES};

/// Samples and steps that are kept.
const KEPT: usize = 1 << 16;
/// The most parts of a step that are told apart, ...
const PARTS: usize = 24;
/// ... and the samples that each has on average at least.
const IN_PART: usize = 6;
/// Functions of a part that are named.
const NAMED: usize = 3;
/// A function leads in a part with at least so many samples, which are at least one in so many of all.
const LEAD: u64 = 3;
const LEAD_PART: u64 = 3;
/// The function that leads in a part, if one does, and whether it has half of the samples.
type Lead = Option<(usize, bool)>;
/// Steps are of about the length of another one if they are at most this many times as long or as short.
const ALIKE: i64 = 2;

/// Steps of a path and the samples of the thread that they are on.
#[derive(Default)]
pub(super) struct Samples {
    path: String,
    until_next: bool,
    /// How many of the first steps are cold, and left out.
    cold_steps: u64,
    /// That of the steps so far; samples before the first one, which is cold, are not needed.
    thread: Option<u32>,
    steps: Vec<Span>,
    names: IndexMap<String, ()>,
    /// When, and what the thread did.
    all: Vec<(i64, usize)>,
}

impl Samples {
    pub(super) fn of(path: &str, until_next: bool, cold_steps: u64) -> Self {
        Self { path: path.to_owned(), until_next, cold_steps, ..Self::default() }
    }

    pub(super) fn add(&mut self, event: &Event<'_>) {
        match event {
            Event::Step(step) if self.until_next && step.path.label == self.path => {
                self.step(step.span, step.thread.os_tid);
            }
            Event::Range(range)
                if !self.until_next && !range.continues && range.path.label == self.path =>
            {
                self.step(range.span, range.thread.os_tid);
            }
            Event::Sample(sample) if self.thread == Some(sample.thread.os_tid) => {
                self.sample(sample);
            }
            _ => {}
        }
    }

    fn step(&mut self, span: Span, thread: u32) {
        self.thread = Some(thread);
        if self.steps.len() < KEPT {
            self.steps.push(span);
        }
    }

    fn sample(&mut self, sample: &HostSample<'_>) {
        if self.all.len() >= KEPT {
            return;
        }
        let name = sample.function();
        let has_room = self.names.len() < NAMES || self.names.contains_key(&name);
        let name = if has_room { name } else { OTHER_NAMES.to_owned() };
        let name = self.names.insert_full(name, ()).0;
        self.all.push((sample.span.end_ns, name));
    }

    /// The parts of the step that lasts so long. `None`: there are too few samples. `keep` takes a
    /// name.
    pub(super) fn finish(
        &mut self,
        step: Span,
        mut keep: impl FnMut(&str) -> usize,
    ) -> Option<TimelineHost> {
        let length = step.ns();
        let &(last_ns, _) = self.all.iter().max()?;
        let alike = |span: &Span| {
            let (shorter, longer) = (span.ns().min(length), span.ns().max(length));
            shorter > 0 && longer <= shorter.saturating_mul(ALIKE) && span.start_ns <= last_ns
        };
        self.steps.order_by_key(|span| span.start_ns);
        let cold = usize::try_from(self.cold_steps).unwrap_or(usize::MAX);
        self.steps.drain(..cold.min(self.steps.len()));
        self.steps.retain(alike);
        let place = |&(at, name): &(i64, usize)| {
            let before = self.steps.partition_point(|span| span.start_ns < at).checked_sub(1)?;
            let span = self.steps.get(before).filter(|span| at <= span.end_ns)?;
            Some((at.saturating_sub(span.start_ns) as f64 / span.ns() as f64, name))
        };
        let placed: Vec<(f64, usize)> = self.all.iter().filter_map(place).collect();
        if (placed.len() as u64) < HOST_SAMPLES_LEAST {
            return None;
        }
        let parts = (placed.len() / IN_PART).clamp(1, PARTS);
        let mut functions: Vec<IndexMap<usize, u64>> = vec![IndexMap::new(); parts];
        for (place, name) in &placed {
            // A sample at the very end is in the last part.
            let part = ((place * parts as f64) as usize).min(parts - 1);
            if let Some(part) = functions.get_mut(part) {
                *part.entry(*name).or_default() += 1;
            }
        }
        let at_ns = |part: usize| (length as u128 * part as u128 / parts as u128) as u64;
        // Neighbours are one where the same function has most of the samples, or leads in both without having half.
        let mut found: Vec<(Lead, TimelineHostPart, IndexMap<usize, u64>)> = Vec::new();
        for (part, functions) in functions.into_iter().enumerate() {
            let samples: u64 = functions.values().sum();
            let most = functions.iter().max_by_key(|(_, samples)| **samples);
            let leads = |most: u64| most >= LEAD && most * LEAD_PART >= samples;
            let most = most.filter(|(_, most)| leads(**most));
            let most = most.map(|(name, most)| (*name, TimelineHostPart::is_main(*most, samples)));
            let (start_ns, end_ns) = (at_ns(part), at_ns(part + 1));
            match found.last_mut().filter(|(before, ..)| *before == most) {
                Some((_, before, sum)) => {
                    before.length_ns = end_ns.saturating_sub(before.start_ns);
                    before.samples += samples;
                    for (name, samples) in functions {
                        *sum.entry(name).or_default() += samples;
                    }
                }
                None => {
                    let length_ns = end_ns.saturating_sub(start_ns);
                    let part = TimelineHostPart { start_ns, length_ns, samples, functions: vec![] };
                    found.push((most, part, functions));
                }
            }
        }
        let mut named = |(_, part, functions): (_, TimelineHostPart, IndexMap<usize, u64>)| {
            let mut functions: Vec<(usize, u64)> = functions.into_iter().collect();
            functions.order_by_key(|(name, samples)| (Reverse(*samples), *name));
            functions.truncate(NAMED);
            let name = |(name, samples): (usize, u64)| {
                let name = self.names.get_index(name).map_or(OTHER_NAMES, |(name, ())| name);
                (keep(name), samples)
            };
            TimelineHostPart { functions: functions.into_iter().map(name).collect(), ..part }
        };
        let steps = self.steps.len() as u64;
        let parts = found.into_iter().map(&mut named).collect();
        Some(TimelineHost { steps, samples: placed.len() as u64, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_all_steps_of_about_one_length_are_placed_in_one() {
        let mut samples = Samples::of("decode", true, 2);
        for name in ["prepare", "launch", "compile"] {
            samples.names.insert(name.to_owned(), ());
        }
        // Steps of 100 and 120 ns, with a sample in the first half of each or in its second half.
        for at in 0..40 {
            let start_ns = at * 200;
            samples.step(Span { start_ns, end_ns: start_ns + 100 + at % 2 * 20 }, 7);
            samples.all.push((start_ns + at % 2 * 80 + 10, (at % 2) as usize));
            // Between two steps.
            samples.all.push((start_ns + 150, 2));
        }
        // Two cold ones, the first as long as three.
        samples.step(Span { start_ns: -500, end_ns: -200 }, 7);
        samples.step(Span { start_ns: -150, end_ns: -50 }, 7);
        samples.all.extend([(-400, 2), (-100, 2)]);
        let mut kept = Vec::new();
        let mut keep = |name: &str| {
            kept.push(name.to_owned());
            kept.len() - 1
        };
        let found = samples.finish(Span { start_ns: 5, end_ns: 105 }, &mut keep);
        let found = found.expect("40 samples");
        assert_eq!((found.steps, found.samples), (40, 40));
        let parts = found.parts.iter().map(|p| (p.start_ns, p.length_ns, p.samples));
        assert_eq!(
            parts.collect::<Vec<_>>(),
            [(0, 16, 20), (16, 50, 0), (66, 17, 20), (83, 17, 0)]
        );
        assert_eq!(found.parts[0].functions, [(0, 20)]);
        assert_eq!(kept, ["prepare", "launch"]);
        // Nothing is said of so few.
        samples.all.truncate(40);
        assert_eq!(samples.finish(Span { start_ns: 5, end_ns: 105 }, |_| 0), None);
    }

    #[test]
    fn neighbours_in_which_other_functions_lead_are_not_one() {
        // Ten samples at each place of a step: of four functions, none has half of them.
        let parts = |most: usize| {
            let mut samples = Samples::of("decode", true, 0);
            for name in ["norm", "attention", "mlp", "copy"] {
                samples.names.insert(name.to_owned(), ());
            }
            for place in (0..100).step_by(4) {
                let (first, second) = if place < 50 { (0, 1) } else { (1, 0) };
                for at in 0..10 {
                    let name = if at < most { first } else { [second, 2, 3][at % 3] };
                    let start_ns = (place * 10 + at as i64) * 200;
                    samples.step(Span { start_ns, end_ns: start_ns + 100 }, 7);
                    samples.all.push((start_ns + place, name));
                }
            }
            let found = samples.finish(Span { start_ns: 0, end_ns: 100 }, |name| name.len());
            found.expect("250 samples").parts
        };
        let halves = parts(4);
        let lead = halves.iter().map(|part| (part.length_ns, part.functions[0].0));
        assert_eq!(lead.collect::<Vec<_>>(), [(50, "norm".len()), (50, "attention".len())]);
        assert_eq!(parts(3).len(), 1, "less than a third is no lead");
    }
}
