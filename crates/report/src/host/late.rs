//! Samples with their times, and the steps in which a rank is late -> what its host did in them for longer than in
//! other steps, or than the hosts of other ranks did.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexSet;
use stage2_contract::order::Order as _;
use stage2_model::{HOST_SAMPLES_LEAST, HostCauseKind, HostFrame, LateHost, LateHostRow, asked_hz};
use stage2_read::host_samples::Sum;
use stage2_read::trace::host::StageIdle;

use super::{CauseKey, HostTotals, Reading};
use crate::ranks::{LateSpans, OWN_STEPS_LEAST, StepSpan};

const ROWS: usize = 6;
/// Functions that are named of what held the GIL.
const HOLDERS: usize = 2;

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
    /// Compares the late steps of a rank with its other ones, or where these are too few with those of the other ranks;
    /// `None` with too few of both, or too few samples.
    pub(crate) fn late(&self, spans: &LateSpans) -> Option<LateHost> {
        let other_ranks = spans.own.len() < OWN_STEPS_LEAST;
        let others: Vec<(u32, &[StepSpan])> = match other_ranks {
            true => spans.others.iter().map(|(file, spans)| (*file, spans.as_slice())).collect(),
            false => vec![(spans.process, &spans.own)],
        };
        // Of a process without samples nothing is known.
        let is_sampled = |(file, _): &(u32, _)| self.moments.of.contains_key(&(spans.stage, *file));
        let others: Vec<(u32, &[StepSpan])> = others.into_iter().filter(is_sampled).collect();
        let late_steps = spans.late.len();
        let other_steps = others.iter().map(|(_, spans)| spans.len()).sum::<usize>();
        if late_steps == 0 || other_steps < OWN_STEPS_LEAST {
            return None;
        }
        let mut functions: BTreeMap<FunctionKey<'_>, Function<'_>> = BTreeMap::new();
        self.add((spans.stage, spans.process), &spans.late, &mut functions, |of| &mut of.late);
        for (file, other) in others {
            self.add((spans.stage, file), other, &mut functions, |of| &mut of.other);
        }
        // Whoever is not late waits for longer.
        functions.retain(|(kind, ..), _| !(other_ranks && kind.waits_for_others()));
        let samples = functions.values().map(|of| of.late.samples + of.other.samples).sum();
        if samples < HOST_SAMPLES_LEAST {
            return None;
        }
        let row = |((kind, ..), of): (&FunctionKey<'_>, &Function<'_>)| {
            let samples = of.late.samples + of.other.samples;
            let mean = |sum: &Sum, steps: usize| sum.ns as f64 / steps as f64;
            // That there is no sample does not say that there is no time.
            let sample_ns = of.late.ns.saturating_add(of.other.ns) as f64 / samples.max(1) as f64;
            let error = |sum: &Sum, steps: usize| match sum.samples {
                0 => sample_ns / steps as f64,
                _ => sum.squares.sqrt() / steps as f64,
            };
            let mut lines: Vec<(u32, u64)> = of.lines.iter().map(|(at, ns)| (*at, *ns)).collect();
            lines.order_by_key(|(at, ns)| (Reverse(*ns), *at));
            let lines = || lines.iter().filter_map(|(at, _)| self.frame(Some(*at)));
            LateHostRow {
                kind: *kind,
                frame: lines().next().cloned(),
                lines: lines().filter(|_| of.lines.len() > 1).map(|frame| frame.line).collect(),
                held_in: self.held_in(&of.held_in),
                thread: of
                    .threads
                    .first()
                    .filter(|_| of.threads.len() == 1)
                    .map(|&of| of.to_owned()),
                late_ns: mean(&of.late, late_steps).round() as u64,
                other_ns: mean(&of.other, other_steps).round() as u64,
                error_ns: error(&of.late, late_steps).hypot(error(&of.other, other_steps)) as u64,
                samples,
            }
        };
        let mut rows: Vec<LateHostRow> = functions.iter().map(row).collect();
        rows.order_by(|a, b| b.longer_ns().cmp(&a.longer_ns()));
        rows.truncate(ROWS);
        let (late_steps, other_steps) = (late_steps as u64, other_steps as u64);
        let asked_hz = asked_hz(&self.processes);
        Some(LateHost { late_steps, other_steps, other_ranks, samples, asked_hz, rows })
    }

    /// Adds the samples in the steps to the functions that they are in.
    fn add<'t>(
        &'t self,
        of: (u32, u32),
        spans: &[StepSpan],
        functions: &mut BTreeMap<FunctionKey<'t>, Function<'t>>,
        part: impl for<'m> Fn(&'m mut Function<'t>) -> &'m mut Sum,
    ) {
        for &(at, ns, key) in self.moments.of.get(&of).into_iter().flatten() {
            let began = spans.partition_point(|(start, _)| *start < at).checked_sub(1);
            let is_within = began.and_then(|began| spans.get(began)).is_some_and(|of| at <= of.1);
            let Some(key) = self.moments.keys.get_index(key).filter(|_| is_within) else {
                continue;
            };
            // Where a thread waits for the GIL is chance, and so is what the holder runs then.
            let has_line = key.kind != HostCauseKind::Gil;
            let frame = self.frame(key.frame.filter(|_| has_line));
            let frame = frame.map(|of| (of.file.as_str(), of.function.as_str()));
            let thread = key.thread.as_deref();
            let function = functions.entry((key.kind, frame, thread.filter(|_| has_line)));
            let function = function.or_default();
            part(function).push(ns);
            function.threads.extend(thread);
            if let Some(line) = key.frame.filter(|_| frame.is_some()) {
                *function.lines.entry(line).or_default() += ns;
            }
            // Without a known holder, it is a line of the thread that waits.
            if let Some(line) = key.frame.filter(|_| !has_line && thread.is_some()) {
                *function.held_in.entry(line).or_default() += ns;
            }
        }
    }

    fn frame(&self, at: Option<u32>) -> Option<&HostFrame> {
        self.frames.get_index(at? as usize)
    }

    /// The functions with the most time, each in its line with the most time.
    fn held_in(&self, lines: &BTreeMap<u32, u64>) -> Vec<HostFrame> {
        let mut lines: Vec<(&HostFrame, u64)> =
            lines.iter().filter_map(|(at, ns)| Some((self.frame(Some(*at))?, *ns))).collect();
        lines.order_by_key(|(frame, ns)| (Reverse(*ns), *frame));
        let mut functions: Vec<(&HostFrame, u64)> = Vec::new();
        for (line, ns) in lines {
            let is_it = |(of, _): &&mut (&HostFrame, u64)| {
                (&of.file, &of.function) == (&line.file, &line.function)
            };
            match functions.iter_mut().find(is_it) {
                Some((_, sum)) => *sum = sum.saturating_add(ns),
                None => functions.push((line, ns)),
            }
        }
        functions.order_by_key(|(frame, ns)| (Reverse(*ns), *frame));
        functions.into_iter().take(HOLDERS).map(|(frame, _)| frame.clone()).collect()
    }
}

/// What distinguishes one row from another: the kind, the file and the function, and the thread.
type FunctionKey<'t> = (HostCauseKind, Option<(&'t str, &'t str)>, Option<&'t str>);

#[derive(Debug, Default)]
struct Function<'t> {
    late: Sum,
    other: Sum,
    /// The threads that were waited for, or that ran without a stack, as far as they are known.
    threads: BTreeSet<&'t str>,
    /// The time in each line, by the number of its frame, ns.
    lines: BTreeMap<u32, u64>,
    /// Of waits for the GIL: the time of each frame of the thread that held it, by the number of the frame, ns.
    held_in: BTreeMap<u32, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

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
            others: Vec::new(),
        };
        let found = totals(1, &steps).late(&spans).expect("samples");
        assert_eq!((found.late_steps, found.other_steps, found.samples), (10, 10, 110));
        let row = found.finding().expect("a function takes longer");
        assert_eq!(
            (row.text(true).as_str(), row.late_ns, row.other_ns),
            ("prepare (a.py:7)", 60, 10)
        );
        let launch = found.rows.last().expect("two rows");
        assert_eq!((launch.text(true).as_str(), launch.longer_ns()), ("launch (a.py:7)", 0));
        // Without a sample in the other steps the error is that of one there: 24 in 10 steps, and one in 8.
        spans.own.truncate(8);
        let only: Vec<(u64, &[(u32, u64)])> = steps.iter().step_by(2).take(4).copied().collect();
        let found = totals(1, &only).late(&spans).expect("samples");
        let row = &found.rows[0];
        assert_eq!((row.late_ns, row.other_ns, row.error_ns), (24, 0, 5));

        spans.own.truncate(7);
        assert_eq!(totals(1, &steps).late(&spans), None, "too few other steps, and no other rank");

        // Of what another rank does in its steps: the GIL is waited for wherever that is, and waits for ranks are no cause.
        spans.others = vec![(2, (0..20).map(span).collect()), (3, vec![span(0)])];
        let mut ranks = totals(1, &steps);
        let mut key = |kind, frame, thread: Option<&str>| {
            let thread = thread.map(str::to_owned);
            let key = CauseKey { kind, frame, thread, ..CauseKey::default() };
            ranks.moments.keys.insert_full(key).0
        };
        let gil =
            [key(HostCauseKind::Gil, Some(0), Some("out")), key(HostCauseKind::Gil, None, None)];
        let rank = key(HostCauseKind::OtherRank, Some(1), None);
        let launch = key(HostCauseKind::UserCode, Some(1), None);
        let late = ranks.moments.of.entry((0, 1)).or_default();
        late.extend((0..20).map(|at| (at * 100 + 95, 5, gil[at as usize % 2])));
        late.sort_unstable();
        let other = (0..20).flat_map(|at| [(at * 100 + 10, 20, launch), (at * 100 + 40, 40, rank)]);
        ranks.moments.of.insert((0, 2), other.collect());
        let found = ranks.late(&spans).expect("samples");
        assert_eq!((found.late_steps, found.other_steps, found.other_ranks), (10, 20, true));
        let rows: Vec<(String, u64, u64)> =
            found.rows.iter().map(|row| (row.text(true), row.late_ns, row.other_ns)).collect();
        let known = [
            ("prepare (a.py:7)", 60, 0),
            (
                "waiting for the GIL, which another thread of its process holds (prepare, a.py:7)",
                5,
                0,
            ),
        ];
        let known = known.into_iter().chain([("launch (a.py:7)", 20, 20)]);
        assert_eq!(
            rows,
            known.map(|(text, late, other)| (text.to_owned(), late, other)).collect::<Vec<_>>()
        );
        spans.others.clear();

        spans.own = (0..10).map(|at| span(at * 2 + 1)).collect();
        let few = totals(1, &steps[..4]);
        assert_eq!(few.late(&spans), None, "22 samples");
    }
}
