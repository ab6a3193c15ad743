//! Samples with their times, and the steps in which a rank is late -> what its host did in them for longer than in
//! other steps.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use stage2_contract::order::Order as _;
use stage2_model::{HOST_SAMPLES_LEAST, HostFrame, LateHost, LateHostRow};
use stage2_read::host_samples::Sum;
use stage2_read::trace::host::StageIdle;

use super::{CauseKey, HostTotals, Reading};
use crate::ranks::{LateSpans, OWN_STEPS_LEAST, StepSpan};

const ROWS: usize = 6;

/// When, for how long, ns, and what the thread did.
type Samples = Vec<(u64, u64, usize)>;

/// The samples of each stage of each file, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Moments {
    keys: IndexSet<CauseKey>,
    of: BTreeMap<(u32, u32), Samples>,
}

impl Moments {
    pub(super) fn add(&mut self, at: (u32, u32), idle: &StageIdle, reading: &mut Reading<'_>) {
        let causes = idle.causes.iter();
        let keys: Vec<usize> =
            causes.map(|cause| self.keys.insert_full(reading.told(cause).key).0).collect();
        let known = self.of.entry(at).or_default();
        known.extend(
            idle.moments.iter().filter_map(|moment| {
                Some((moment.at, moment.ns, *keys.get(moment.cause as usize)?))
            }),
        );
        known.sort_unstable();
    }
}

impl HostTotals {
    /// Compares the late steps of a rank with its other ones, or with those of the other ranks where it has too few;
    /// `None` with too few samples.
    pub(crate) fn late(&self, spans: &LateSpans) -> Option<LateHost> {
        let of_same_rank = spans.own.len() >= OWN_STEPS_LEAST;
        let others = match of_same_rank {
            true => vec![(spans.process, spans.own.clone())],
            false => spans.of_others.clone(),
        };
        let has_samples = |process: u32| self.moments.of.contains_key(&(spans.stage, process));
        let others: Vec<(u32, Vec<StepSpan>)> =
            others.into_iter().filter(|(process, _)| has_samples(*process)).collect();
        let late_steps = spans.late.len();
        let other_steps: usize = others.iter().map(|(_, spans)| spans.len()).sum();
        if late_steps == 0 || other_steps == 0 {
            return None;
        }
        let mut functions: BTreeMap<FunctionKey<'_>, Function> = BTreeMap::new();
        self.add(spans.stage, spans.process, &spans.late, &mut functions, |of| &mut of.late);
        for (process, spans_of) in &others {
            self.add(spans.stage, *process, spans_of, &mut functions, |of| &mut of.other);
        }
        let samples = functions.values().map(|of| of.late.samples + of.other.samples).sum();
        if samples < HOST_SAMPLES_LEAST {
            return None;
        }
        let row = |((kind, _, thread), of): (&FunctionKey<'_>, &Function)| {
            let mean = |sum: &Sum, steps: usize| sum.ns as f64 / steps as f64;
            let error = |sum: &Sum, steps: usize| sum.squares.sqrt() / steps as f64;
            let line = of.lines.iter().max_by_key(|(line, ns)| (**ns, **line));
            LateHostRow {
                kind: *kind,
                frame: line.and_then(|(at, _)| self.frame(Some(*at))).cloned(),
                thread: thread.map(str::to_owned),
                late_ns: mean(&of.late, late_steps).round() as u64,
                other_ns: mean(&of.other, other_steps).round() as u64,
                error_ns: error(&of.late, late_steps).hypot(error(&of.other, other_steps)) as u64,
                samples: of.late.samples + of.other.samples,
            }
        };
        let mut rows: Vec<LateHostRow> = functions.iter().map(row).collect();
        rows.order_by(|a, b| b.longer_ns().cmp(&a.longer_ns()));
        rows.truncate(ROWS);
        let (late_steps, other_steps) = (late_steps as u64, other_steps as u64);
        Some(LateHost { late_steps, other_steps, of_same_rank, samples, rows })
    }

    /// Adds the samples in the steps to the functions that they are in.
    fn add<'t>(
        &'t self,
        stage: u32,
        process: u32,
        spans: &[StepSpan],
        functions: &mut BTreeMap<FunctionKey<'t>, Function>,
        part: impl Fn(&mut Function) -> &mut Sum,
    ) {
        for &(at, ns, key) in self.moments.of.get(&(stage, process)).into_iter().flatten() {
            let began = spans.partition_point(|(start, _)| *start < at).checked_sub(1);
            let is_within = began.and_then(|began| spans.get(began)).is_some_and(|of| at <= of.1);
            let Some(key) = self.moments.keys.get_index(key).filter(|_| is_within) else {
                continue;
            };
            let frame = self.frame(key.frame).map(|of| (of.file.as_str(), of.function.as_str()));
            let function = functions.entry((key.kind, frame, key.thread.as_deref())).or_default();
            part(function).push(ns);
            if let Some(line) = key.frame {
                *function.lines.entry(line).or_default() += ns;
            }
        }
    }

    fn frame(&self, at: Option<u32>) -> Option<&HostFrame> {
        self.frames.get_index(at? as usize)
    }
}

/// What distinguishes one row from another: the kind, the file and the function, and the thread.
type FunctionKey<'t> = (stage2_model::HostCauseKind, Option<(&'t str, &'t str)>, Option<&'t str>);

#[derive(Debug, Default)]
struct Function {
    late: Sum,
    other: Sum,
    /// The time in each line, by the number of its frame, ns.
    lines: BTreeMap<u32, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::HostCauseKind;

    /// Samples of 10 ns each: so many of a frame in each step of 100 ns.
    fn totals(process: u32, of_steps: &[(u64, &[(u32, u64)])]) -> HostTotals {
        let mut totals = HostTotals::default();
        for function in ["prepare", "launch"] {
            let frame = HostFrame { function: function.into(), file: "a.py".into(), line: 7 };
            totals.frames.insert(frame);
        }
        let of = totals.moments.of.entry((0, process)).or_default();
        for (start, frames) in of_steps {
            let mut at = *start;
            for &(frame, samples) in *frames {
                let kind = HostCauseKind::UserCode;
                let key = CauseKey { kind, frame: Some(frame), ..CauseKey::default() };
                let key = totals.moments.keys.insert_full(key).0;
                for _ in 0..samples {
                    at += 10;
                    of.push((at, 10, key));
                }
            }
        }
        totals
    }

    #[test]
    fn what_takes_longer_in_late_steps_comes_first() {
        let late: &[(u32, u64)] = &[(1, 2), (0, 6)];
        let usual: &[(u32, u64)] = &[(1, 2), (0, 1)];
        let steps: Vec<(u64, &[(u32, u64)])> = (0..20)
            .map(|at| (at * 100, if u64::is_multiple_of(at, 2) { late } else { usual }))
            .collect();
        let span = |at: u64| (at * 100, at * 100 + 100);
        let mut spans = LateSpans {
            stage: 0,
            process: 1,
            late: (0..10).map(|at| span(at * 2)).collect(),
            own: (0..10).map(|at| span(at * 2 + 1)).collect(),
            of_others: vec![(0, (0..20).map(span).collect())],
        };
        let found = totals(1, &steps).late(&spans).expect("samples");
        assert!(found.of_same_rank);
        assert_eq!((found.late_steps, found.other_steps, found.samples), (10, 10, 110));
        let row = found.finding().expect("a function takes longer");
        assert_eq!(
            (row.text(true).as_str(), row.late_ns, row.other_ns),
            ("prepare (a.py:7)", 60, 10)
        );
        let launch = found.rows.last().expect("two rows");
        assert_eq!((launch.text(true).as_str(), launch.longer_ns()), ("launch (a.py:7)", 0));

        spans.own.truncate(7);
        assert_eq!(totals(1, &steps).late(&spans), None, "too few steps, and no samples of others");
        let mut both = totals(1, &steps);
        both.moments.of.insert((0, 0), totals(0, &[(0, usual)]).moments.of[&(0, 0)].clone());
        let found = both.late(&spans).expect("samples");
        assert_eq!((found.of_same_rank, found.other_steps), (false, 20));

        spans.own = (0..10).map(|at| span(at * 2 + 1)).collect();
        let few = totals(1, &steps[..4]);
        assert_eq!(few.late(&spans), None, "22 samples");
    }
}
