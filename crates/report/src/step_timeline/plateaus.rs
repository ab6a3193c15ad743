//! What differs between the slow and the other long stretches of a run: the batch, GPU work, host functions.

use std::cmp::Reverse;

use indexmap::IndexMap;
use stage2_contract::order::Order as _;
use stage2_model::{LongerFunction, Plateau, Plateaus, StepSeries};
use stage2_read::engine::StepWork;
use stage2_read::trace::events::{Event, Span};

use super::{NAMES, OTHER_NAMES};

/// Steps, samples and pieces of work without a step yet that are kept.
const KEPT: usize = 1 << 16;
/// Functions that are named, and the part of the difference that each has at least.
const NAMED: usize = 3;
const PART: f64 = 0.1;

/// A step, with the GPU work that starts in it.
struct Timed {
    range: u64,
    span: Span,
    work: Option<StepWork>,
    gpu_ns: u64,
}

/// The steps of a series with long slow stretches.
pub(super) struct Stretches {
    path: String,
    until_next: bool,
    /// Slow ones, and the others.
    stretches: [Vec<(u64, u64)>; 2],
    thread: Option<u32>,
    /// All instances of the path: the first to open has the smallest identifier.
    ranges: Vec<u64>,
    steps: Vec<Timed>,
    /// Work that started after the last step that is known.
    ahead: Vec<Span>,
    names: IndexMap<String, ()>,
    samples: Vec<(i64, usize)>,
}

impl Stretches {
    pub(super) fn of(series: &StepSeries) -> Option<Self> {
        Some(Self {
            path: series.path.clone(),
            until_next: series.until_next,
            stretches: series.stretches()?,
            thread: None,
            ranges: Vec::new(),
            steps: Vec::new(),
            ahead: Vec::new(),
            names: IndexMap::new(),
            samples: Vec::new(),
        })
    }

    pub(super) fn add(&mut self, event: &Event<'_>) {
        match event {
            Event::Step(step) if self.until_next && step.path.label == self.path => {
                self.step(step.range, step.span, Some(step.work), step.thread.os_tid);
            }
            Event::Range(range) if !range.continues && range.path.label == self.path => {
                if self.ranges.len() < KEPT {
                    self.ranges.push(range.id);
                }
                if !self.until_next {
                    self.step(range.id, range.span, None, range.thread.os_tid);
                }
            }
            Event::Work(work) => self.work(work.span),
            Event::Sample(sample)
                if self.thread == Some(sample.thread.os_tid) && self.samples.len() < KEPT =>
            {
                let name = sample.function();
                let has_room = self.names.len() < NAMES || self.names.contains_key(&name);
                let name = if has_room { name } else { OTHER_NAMES.to_owned() };
                let name = self.names.insert_full(name, ()).0;
                self.samples.push((sample.span.end_ns, name));
            }
            _ => {}
        }
    }

    fn step(&mut self, range: u64, span: Span, work: Option<StepWork>, thread: u32) {
        self.thread = Some(thread);
        if self.steps.len() < KEPT {
            self.steps.push(Timed { range, span, work, gpu_ns: 0 });
        }
        for work in std::mem::take(&mut self.ahead) {
            self.work(Some(work));
        }
    }

    /// Steps come in the order of their starts.
    fn work(&mut self, span: Option<Span>) {
        let Some(span) = span else { return };
        let next = self.steps.partition_point(|step| step.span.start_ns <= span.start_ns);
        let is_ahead = next == self.steps.len() && self.ahead.len() < KEPT;
        let step = next.checked_sub(1).and_then(|at| self.steps.get_mut(at));
        match step.filter(|step| span.start_ns < step.span.end_ns) {
            Some(step) => step.gpu_ns += u64::try_from(span.ns()).unwrap_or(0),
            None if is_ahead => self.ahead.push(span),
            None => {}
        }
    }

    /// Nothing where not both have steps that are known.
    pub(super) fn finish(mut self) -> Option<Plateaus> {
        self.ranges.sort_unstable();
        let [(slow, in_slow), (fast, in_fast)] = [0, 1].map(|which| self.plateau(which));
        if slow.steps == 0 || fast.steps == 0 {
            return None;
        }
        let more_ns = slow.mean_ns - fast.mean_ns;
        // One sample stands for so much of a step.
        let of = |of: &Plateau| of.mean_ns / (of.samples.max(1) as f64);
        let (slow_ns, fast_ns) = (of(&slow), of(&fast));
        let longer =
            self.names.keys().zip(in_slow.iter().zip(&in_fast)).map(|(name, (slow, fast))| {
                let (slow, fast) = (*slow as f64, *fast as f64);
                let variance = slow * slow_ns * slow_ns + fast.max(1.0) * fast_ns * fast_ns;
                let more_ns = slow * slow_ns - fast * fast_ns;
                LongerFunction { function: name.clone(), more_ns, error_ns: variance.sqrt() }
            });
        let mut longer: Vec<LongerFunction> = longer
            .filter(|one| one.is_certain() && one.more_ns >= more_ns * PART && fast.samples > 0)
            .collect();
        longer.order_by_key(|one| Reverse(one.more_ns as u64));
        longer.truncate(NAMED);
        (more_ns > 0.0).then_some(Plateaus { slow, fast, longer })
    }

    /// The steps of one kind of stretches, and their samples by function.
    fn plateau(&self, which: usize) -> (Plateau, Vec<u64>) {
        let stretches = self.stretches.get(which).cloned().unwrap_or_default();
        let is_in = |step: &&Timed| {
            let number = self.ranges.binary_search(&step.range).ok().map(|at| at as u64);
            number.is_some_and(|at| stretches.iter().any(|(from, to)| (*from..=*to).contains(&at)))
        };
        let mut steps: Vec<&Timed> = self.steps.iter().filter(is_in).collect();
        let mut times: Vec<i64> = steps.iter().map(|step| step.span.ns()).collect();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or(0);
        // Single slow ones, such as behind a prefill, are another matter.
        steps.retain(|step| step.span.ns() <= median.saturating_mul(2));
        let mut by_name = vec![0; self.names.len()];
        for (at, name) in &self.samples {
            let next = steps.partition_point(|step| step.span.start_ns < *at);
            let step = next.checked_sub(1).and_then(|at| steps.get(at));
            if step.is_some_and(|step| *at <= step.span.end_ns)
                && let Some(count) = by_name.get_mut(*name)
            {
                *count += 1;
            }
        }
        let mean = |of: &dyn Fn(&Timed) -> f64| {
            steps.iter().map(|step| of(step)).sum::<f64>() / steps.len().max(1) as f64
        };
        let of_work = |of: fn(&StepWork) -> u64| {
            mean(&|step: &Timed| step.work.as_ref().map_or(0, of) as f64)
        };
        let has_work = steps.iter().filter(|step| step.gpu_ns > 0).count() * 2 > steps.len();
        let plateau = Plateau {
            steps: steps.len() as u64,
            mean_ns: mean(&|step| step.span.ns() as f64),
            gpu_ns: if has_work { mean(&|step| step.gpu_ns as f64) } else { 0.0 },
            requests: of_work(|work| work.prefill_requests + work.decode_requests),
            context_tokens: of_work(|work| {
                work.prefill_context_tokens + work.decode_context_tokens
            }),
            samples: by_name.iter().sum(),
            stretches,
        };
        (plateau, by_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::StepBucket;

    #[test]
    fn a_function_that_takes_longer_in_slow_stretches_is_found() {
        let ns = |at: u64| if (100..200).contains(&at) { 4_000_000 } else { 3_000_000 };
        let buckets = (0..300).map(|at| {
            let ns = ns(at) + at * 7_919 % 13 * 1_000;
            StepBucket { first: at, steps: 1, min_ns: ns, mean_ns: ns, max_ns: ns }
        });
        let path = "decode".to_owned();
        let series =
            StepSeries { path, until_next: true, buckets: buckets.collect(), ..Default::default() };
        let mut of = Stretches::of(&series).expect("a slow stretch");
        of.names.extend([("sort".to_owned(), ()), ("launch".to_owned(), ())]);
        let work =
            StepWork { decode_requests: 16, decode_context_tokens: 800, ..StepWork::default() };
        let mut start_ns = 0;
        for at in 0..300u64 {
            let end_ns = start_ns + ns(at) as i64;
            // Work comes before the step that it is of.
            of.work(Some(Span { start_ns: start_ns + 1_000, end_ns: start_ns + 1_001_000 }));
            of.ranges.push(at * 2);
            of.step(at * 2, Span { start_ns, end_ns }, Some(work), 7);
            // A sample each ms: the fourth of a slow step is of the sorting as well.
            let samples = (0..ns(at) as i64 / 1_000_000)
                .map(|ms| (start_ns + ms * 1_000_000 + 9, usize::from(ms < 2)));
            of.samples.extend(samples);
            start_ns = end_ns;
        }
        let found = of.finish().expect("steps of both");
        assert_eq!((found.slow.stretches, found.slow.steps), (vec![(100, 199)], 100));
        assert_eq!((found.slow.mean_ns, found.fast.mean_ns), (4e6, 3e6));
        assert_eq!([found.slow.gpu_ns, found.fast.gpu_ns], [1e6; 2]);
        assert_eq!([found.slow.requests, found.slow.context_tokens], [16.0, 800.0]);
        let [sort] = &found.longer[..] else { panic!("{:?}", found.longer) };
        assert_eq!((sort.function.as_str(), sort.more_ns.round()), ("sort", 1e6));
    }
}
