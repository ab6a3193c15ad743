//! A sequence of launches -> stretches in which it repeats itself with one period.
//!
//! A few candidates for a period are followed at a time: as long as each launch is the one a period
//! before, the run goes on. Memory does not grow with the sequence: of very many runs the longest
//! are kept, and of equally long ones the first.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::history::{History, Slot, mixed, mixed_wide};
use super::order::{Launch, is_graph};
use crate::trace::stats::{Span, Stats};

/// Periods that a run must hold to count.
pub(super) const PERIODS: u64 = 5;
/// Periods of a run that goes on with a pattern that had as many as that before: an odd step parts it.
const PIECE: u64 = 2;
/// Candidates that are followed at a time.
const FOLLOWED: usize = 8;
/// Launches that must match a period before for it to be a candidate.
const CONTEXT: u64 = 8;
/// Runs that are kept before the shorter half is dropped.
const RUNS: usize = 1 << 15;
/// Distinct periods whose times are kept.
const PATTERNS: usize = 1 << 10;
/// Comparisons that looking back may take, for each launch, and saved up at most.
const LOOK_BACK: (u64, u64) = (8, 1 << 20);

/// A stretch in which each launch is the one a period before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u64,
    /// Number behind its last one; the last period may be a part.
    pub(super) end: u64,
    pub(super) period: u64,
    /// What its period consists of, wherever it begins.
    pub(super) pattern: u64,
    /// Start of the first launch, ns; 0: not known.
    pub(super) start_ns: u64,
    /// End of the last launch of the last whole period, ns; 0: not known.
    pub(super) end_ns: u64,
    /// Durations of all launches before the first, and before the one behind the last whole period.
    pub(super) before_ns: (u64, u64),
}

impl Run {
    pub(super) fn periods(&self) -> u64 {
        (self.end - self.start) / self.period
    }

    pub(super) fn whole_end(&self) -> u64 {
        self.start + self.periods() * self.period
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Pattern {
    /// From the start of a period to the start of the next in the same run.
    pub(super) times: Stats,
    /// Launches of a period that are whole graphs.
    pub(super) graphs: u64,
}

#[derive(Clone, Debug)]
struct Followed {
    period: u64,
    start: u64,
    first: Slot,
    next: u64,
    last_ns: u64,
    times: Stats,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    history: History,
    followed: Vec<Followed>,
    sum_ns: u64,
    look_back: u64,
    runs: Vec<Run>,
    patterns: HashMap<u64, Pattern>,
    longest_dropped: u64,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    runs: usize,
    patterns: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { runs: RUNS, patterns: PATTERNS }
    }
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) launches: u64,
    /// Runs, by their start; of runs with the same start the longest first.
    pub(super) runs: Vec<Run>,
    pub(super) patterns: HashMap<u64, Pattern>,
    /// Launches of the longest run that was dropped because there are too many; 0: none was.
    pub(super) longest_dropped: u64,
}

impl Runs {
    pub(super) fn push(&mut self, launch: &Launch) {
        let Launch { what, span, .. } = *launch;
        let slot = Slot { what, span, before_ns: self.sum_ns };
        let distances = self.history.push(slot);
        self.sum_ns = self.sum_ns.saturating_add(slot.ns());
        self.look_back = (self.look_back + LOOK_BACK.0).min(LOOK_BACK.1);
        let number = self.history.count() - 1;
        self.follow(number, what, span.start);
        for distance in distances.into_iter().flatten() {
            self.consider(number, distance);
        }
    }

    fn follow(&mut self, number: u64, what: u32, start_ns: u64) {
        let mut at = 0;
        while let Some(one) = self.followed.get_mut(at) {
            if self.history.what(number - one.period) == Some(what) {
                one.pass(number, start_ns);
                at += 1;
            } else {
                let over = self.followed.swap_remove(at);
                self.over(over, number);
            }
        }
    }

    /// Follows `period`, if it is one so far and none that is followed says the same.
    fn consider(&mut self, number: u64, period: u64) {
        if self.followed.iter().any(|one| one.period == period) {
            return;
        }
        let history = &self.history;
        let mut matched = 0;
        while matched < self.look_back.min(number + 1) {
            let (now, before) = (number - matched, (number - matched).checked_sub(period));
            let before = before.and_then(|before| history.what(before));
            if before.is_none() || history.what(now) != before {
                break;
            }
            matched += 1;
        }
        self.look_back -= matched;
        if matched < CONTEXT {
            return;
        }
        let start = number + 1 - matched - period;
        let same = |one: &Followed| period.is_multiple_of(one.period) && one.start <= start;
        if self.followed.iter().any(same) {
            return;
        }
        if self.followed.len() >= FOLLOWED {
            let matched_by = |one: &Followed| number - one.start - one.period;
            let all = self.followed.iter().enumerate();
            let Some((at, shortest)) = all.min_by_key(|(_, one)| matched_by(one)) else { return };
            if matched_by(shortest) >= matched {
                return;
            }
            let over = self.followed.swap_remove(at);
            self.over(over, number);
        }
        let Some(first) = self.history.get(start).copied() else { return };
        let (next, last_ns) = (start + period, first.span.start);
        let mut one = Followed { period, start, first, next, last_ns, times: Stats::default() };
        while one.next <= number {
            let start_ns = self.history.get(one.next).map_or(0, |slot| slot.span.start);
            one.pass(one.next, start_ns);
        }
        self.followed.push(one);
    }

    /// Keeps a run that ended in front of the launch `end`.
    fn over(&mut self, one: Followed, end: u64) {
        let Followed { period, start, first, times, .. } = one;
        let periods = (end - start) / period;
        // One kernel again and again is no step.
        if periods < PIECE || period < 2 {
            return;
        }
        let whats: Option<Vec<u32>> =
            (end - period..end).map(|number| self.history.what(number)).collect();
        let last = self.history.get(start + periods * period - 1).copied();
        let Some((whats, last)) = whats.zip(last) else { return };
        if !is_primitive(&whats) {
            return;
        }
        let pattern = pattern_of(&whats);
        if periods < PERIODS && !self.patterns.contains_key(&pattern) {
            return;
        }
        let run = Run {
            start,
            end,
            period,
            pattern,
            start_ns: first.span.start,
            end_ns: last.span.end,
            before_ns: (first.before_ns, last.before_ns.saturating_add(last.ns())),
        };
        let known =
            self.patterns.len() < self.limits.patterns || self.patterns.contains_key(&run.pattern);
        if known {
            let pattern = self.patterns.entry(run.pattern).or_default();
            pattern.times.merge(&times);
            pattern.graphs = whats.iter().filter(|&&what| is_graph(what)).count() as u64;
        }
        if self.runs.len() >= self.limits.runs {
            self.runs.sort_unstable_by_key(|run| (Reverse(run.end - run.start), run.start));
            let dropped = self.runs.drain(self.limits.runs / 2..).next();
            let longest = dropped.map_or(0, |run| run.end - run.start);
            self.longest_dropped = self.longest_dropped.max(longest);
        }
        self.runs.push(run);
    }

    pub(super) fn finish(mut self) -> Found {
        let launches = self.history.count();
        for one in std::mem::take(&mut self.followed) {
            self.over(one, launches);
        }
        self.runs.sort_unstable_by_key(|run| (run.start, Reverse(run.end), run.period));
        let Self { runs, patterns, longest_dropped, .. } = self;
        Found { launches, runs, patterns, longest_dropped }
    }
}

impl Followed {
    fn pass(&mut self, number: u64, start_ns: u64) {
        if number == self.next {
            self.times.add(Span { start: self.last_ns, end: start_ns }, 0, false);
            self.last_ns = start_ns;
            self.next += self.period;
        }
    }
}

/// Whether no shorter period makes up this one.
fn is_primitive(whats: &[u32]) -> bool {
    // The longest border of each beginning, as Knuth, Morris and Pratt search with it.
    let mut borders: Vec<usize> = vec![0; whats.len()];
    let mut border = 0;
    for at in 1..whats.len() {
        while border > 0 && whats.get(border) != whats.get(at) {
            border = borders.get(border - 1).copied().unwrap_or(0);
        }
        border += usize::from(whats.get(border) == whats.get(at));
        if let Some(slot) = borders.get_mut(at) {
            *slot = border;
        }
    }
    let shortest = whats.len() - border;
    shortest == whats.len() || !whats.len().is_multiple_of(shortest)
}

/// Hash of a period that is equal for each of its rotations: a sum over each kernel with those
/// after it.
fn pattern_of(whats: &[u32]) -> u64 {
    let after = |at: usize, by: usize| {
        let what = whats.get((at + by) % whats.len()).copied().unwrap_or(0);
        mixed(what).rotate_left(by as u32 * 16)
    };
    let hash =
        |at: usize| mixed_wide((0..4).fold(0, |sum: u64, by| sum.wrapping_add(after(at, by))));
    (0..whats.len()).map(hash).fold(whats.len() as u64, u64::wrapping_add)
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
