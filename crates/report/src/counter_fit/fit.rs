//! The second pass: takes kernels, and solves every stage when they end.

use std::borrow::Cow;

use nalgebra::DMatrix;

use crate::counter_fit::amount::{
    Amount, ColumnFit, CounterFit, Fitted, GroupFit, IdleTraffic, Reason, StageFit,
};
use crate::counter_fit::collinear::{self, Explained};
use crate::counter_fit::edges::Edges;
use crate::counter_fit::kinds::{Design, Kernel, StageDesign};
use crate::counter_fit::moments::{Moments, Seen, Sums};
use crate::counter_fit::nnls::{MAX_EXCHANGES, Normal, Solution, solve};
use crate::counter_fit::placing::{MAX_PATTERNS, Placing};
use crate::counter_fit::samples::Samples;
use crate::counter_fit::shift::{Shift, estimate};
use crate::counter_fit::spread::{Spread, Z95, limits_at_zero};
use crate::counter_fit::timing::Timing;

/// Kernels that the shift is estimated from: the first ones.
const KERNELS_FOR_SHIFT: usize = 100_000;
/// A column that fewer samples hold has no spread that means anything.
const MIN_SAMPLES: u64 = 10;
/// A column that samples of fewer blocks hold has no spread that means anything.
const MIN_BLOCKS: u32 = 5;
/// Half an interval may be this share of the amount.
const MOST_SPREAD: f64 = 0.10;
/// Less idle time than this says nothing about the background.
const LEAST_IDLE_SECONDS: f64 = 1e-3;
/// What is surely less than this share of a stage's total is small.
const SMALL_SHARE: f64 = 0.01;

/// The second pass over the kernels of one device.
#[derive(Debug)]
pub struct Fit<'a> {
    samples: &'a Samples,
    /// As it was given; once `running`, calls may be taken whole instead.
    design: Cow<'a, Design>,
    patterns: Vec<Vec<usize>>,
    /// The first kernels, until the shift is known.
    waiting: Vec<Kernel>,
    given: Option<Edges>,
    running: Option<(Shift, Placing)>,
}

impl<'a> Fit<'a> {
    /// Begin with all samples of the device. `edges` says by how much the edges of the calls are moved;
    /// with `None` the fit looks for what explains the samples best.
    pub fn new(samples: &'a Samples, design: &'a Design, edges: Option<Edges>) -> Self {
        let patterns = samples.patterns(MAX_PATTERNS);
        let design = Cow::Borrowed(design);
        Self { samples, design, patterns, waiting: Vec::new(), given: edges, running: None }
    }

    /// Take the next kernel. They may come out of order by up to 65,536 samples (6.5 s at 100 us).
    pub fn kernel(&mut self, kernel: &Kernel) {
        if let Some((_, placing)) = &mut self.running {
            placing.kernel(self.samples, &self.design, kernel);
            return;
        }
        self.waiting.push(*kernel);
        if self.given.is_some() || self.waiting.len() >= KERNELS_FOR_SHIFT {
            self.running = Some(self.begin());
        }
    }

    /// Choose by the first kernels how all are laid over the samples, and begin with these.
    fn begin(&mut self) -> (Shift, Placing) {
        let waiting = std::mem::take(&mut self.waiting);
        let shift = match self.given {
            Some(edges) => Shift::Given(edges),
            None => {
                let whole = self.design.whole();
                let found = estimate(self.samples, &self.design, &whole, &self.patterns, &waiting);
                if !found.cut {
                    self.design = Cow::Owned(whole);
                }
                found.shift
            }
        };
        let mut placing =
            Placing::new(self.samples, &self.design, &self.patterns, shift.edges(), false);
        for kernel in &waiting {
            placing.kernel(self.samples, &self.design, kernel);
        }
        (shift, placing)
    }

    /// Solve every stage for every counter.
    pub fn finish(mut self) -> Fitted {
        let running = self.running.take();
        let (shift, mut placing) = running.unwrap_or_else(|| self.begin());
        let Self { samples, design, patterns, .. } = self;
        let design = &*design;
        placing.close_before(samples, design, samples.len());
        let idle = placing.idle.seconds.iter().zip(&placing.idle.amounts);
        let idle = idle.map(|(&seconds, &amount)| IdleTraffic { seconds, amount }).collect();
        let rates: Vec<f64> = placing
            .idle
            .seconds
            .iter()
            .zip(&placing.idle.amounts)
            .map(
                |(&seconds, &amount)| {
                    if seconds > LEAST_IDLE_SECONDS { amount / seconds } else { 0.0 }
                },
            )
            .collect();
        let counts = placing.counts;
        let mut moments = std::mem::take(&mut placing.moments);
        let stages = design.stages.iter().zip(&mut moments).map(|(stage, moments)| {
            let mut counters: Vec<CounterFit> =
                moments.iter_mut().flat_map(|of| solve_stage(stage, of, &rates)).collect();
            for counter in 0..samples.counters() {
                if counters.iter().all(|fit| fit.counter != counter) {
                    let known = patterns.iter().any(|of| of.contains(&counter));
                    let reason = if known { Reason::NoSamples } else { Reason::NoCounter };
                    counters.push(unknown(stage, counter, reason));
                }
            }
            counters.sort_by_key(|fit| fit.counter);
            StageFit { stage: stage.stage, counters }
        });
        Fitted { shift, stages: stages.collect(), idle, counts }
    }
}

fn unknown(stage: &StageDesign, counter: usize, reason: Reason) -> CounterFit {
    let amount = Amount::Unknown(reason);
    let columns = stage.columns.iter().zip(&stage.calls);
    let columns = columns.map(|(&column, &calls)| ColumnFit {
        column,
        calls,
        sampled_calls: 0.0,
        samples: 0,
        amount,
        interval: None,
    });
    CounterFit {
        counter,
        samples: 0,
        seconds: 0.0,
        measured: 0.0,
        explained: None,
        r2: None,
        residual: None,
        background: amount,
        columns: columns.collect(),
        groups: Vec::new(),
    }
}

/// The fits of one stage for the counters of one pattern.
///
/// `idle` has what each counter gains for every second in which nothing runs.
fn solve_stage(stage: &StageDesign, moments: &mut Moments, idle: &[f64]) -> Vec<CounterFit> {
    let sums = moments.total();
    let normal = Normal::new(&sums, moments.width);
    let size = normal.active.len();
    let rows = sums.rows;
    let blocks = moments.blocks.iter().flatten().count() as u32;
    let few = rows < 2.0 * size as f64 + 30.0 || blocks < MIN_BLOCKS;
    let mut fits: Vec<CounterFit> = moments
        .counters
        .iter()
        .enumerate()
        .map(|(index, &counter)| {
            let reason = if rows == 0.0 {
                Reason::NoSamples
            } else {
                Reason::TooFewSamples { samples: rows as u64 }
            };
            let mut fit = unknown(stage, counter, reason);
            (fit.samples, fit.seconds, fit.measured) =
                (rows as u64, moments.seconds, sums.totals[index]);
            for (column, unknowns) in fit.columns.iter_mut().zip(&stage.unknowns) {
                let seen = Seen::of_pieces(moments.seen.get(unknowns.clone()).unwrap_or_default());
                (column.samples, column.sampled_calls) = (seen.samples, seen.exposure);
                if seen.samples == 0 {
                    column.amount = Amount::Unknown(Reason::NoSamples);
                }
            }
            fit
        })
        .collect();
    if few {
        return fits;
    }
    let mut columns = active_columns(stage, &normal);
    let mut explained = collinear::explained(&summed(&normal, &columns), true);
    let (normal, sums) = if normal.never_idle() {
        moments.subtract(idle);
        for fit in &mut fits {
            fit.background = Amount::Unknown(Reason::NeverIdle);
        }
        let normal = normal.without_last();
        // Without the constant, columns with a constant sum can be told apart again.
        explained.iter_mut().for_each(|of| of.same = false);
        columns.pop();
        let same = collinear::explained(&summed(&normal, &columns), false);
        explained.extend(same.into_iter().filter(|of| of.same));
        (normal, moments.total())
    } else {
        (normal, sums)
    };
    let (moments, size) = (&*moments, normal.active.len());
    let targets = (0..fits.len()).map(|index| normal.target(&sums, moments.width, index));
    let solutions: Vec<Solution> = targets
        .map(|target| solve(&normal.matrix, &target, &vec![true; size], MAX_EXCHANGES))
        .collect();
    let spread = Spread::new(moments, &normal, &solutions, rows);
    let of_columns = stage.busy_ns.iter().zip(&stage.calls).zip(&stage.unknowns);
    let means: Vec<f64> = of_columns
        .flat_map(|((&busy, &calls), unknowns)| {
            let pieces = unknowns.len();
            std::iter::repeat_n(busy as f64 / (calls.max(1) * pieces as u64) as f64, pieces)
        })
        .collect();
    for (index, fit) in fits.iter_mut().enumerate() {
        let timing = Timing::new(moments, &normal, &solutions[index], &means);
        let solved = Solved {
            moments,
            normal: &normal,
            sums: &sums,
            spread: &spread,
            timing: &timing,
            solution: &solutions[index],
            columns: &columns,
            index,
        };
        solved.fill(stage, &explained, fit);
    }
    fits
}

/// A column whose unknowns are all solved for.
struct ActiveColumn {
    /// Its place in the stage; the constant's is behind those of all columns.
    column: usize,
    /// The places of its unknowns among the active ones.
    at: Vec<usize>,
}

/// The columns of which every unknown is active, and the constant.
fn active_columns(stage: &StageDesign, normal: &Normal) -> Vec<ActiveColumn> {
    let constant = stage.width() - 1;
    let all =
        stage.unknowns.iter().cloned().chain(std::iter::once(constant..constant + 1)).enumerate();
    let place = |unknown| normal.active.binary_search(&unknown).ok();
    all.filter_map(|(column, unknowns)| {
        Some(ActiveColumn { column, at: unknowns.map(place).collect::<Option<_>>()? })
    })
    .collect()
}

/// The matrix of the columns, whose diagonal is 1.
fn summed(normal: &Normal, columns: &[ActiveColumn]) -> DMatrix<f64> {
    normal.summed(&columns.iter().map(|of| of.at.as_slice()).collect::<Vec<_>>())
}

/// The solution of one counter, and what its spread follows from.
struct Solved<'a> {
    moments: &'a Moments,
    normal: &'a Normal,
    sums: &'a Sums,
    spread: &'a Spread,
    timing: &'a Timing,
    solution: &'a Solution,
    columns: &'a [ActiveColumn],
    index: usize,
}

impl Solved<'_> {
    fn fill(&self, stage: &StageDesign, explained: &[Explained], fit: &mut CounterFit) {
        let (normal, sums, scaled) = (self.normal, self.sums, &self.solution.scaled);
        let target = normal.target(sums, self.moments.width, self.index);
        let left = sums.squares[self.index] - 2.0 * target.dot(scaled)
            + scaled.dot(&(&normal.matrix * scaled));
        let variance = sums.squares[self.index] - sums.totals[self.index].powi(2) / sums.rows;
        fit.r2 = (variance > 0.0).then(|| (1.0 - left.max(0.0) / variance).max(0.0));
        fit.residual = Some((left.max(0.0) / sums.rows).sqrt());
        let amounts = normal.active.iter().enumerate().map(|(at, &column)| {
            scaled[at] / normal.scale[at] * self.moments.seen[column].exposure
        });
        fit.explained = Some(amounts.sum());
        let at_zero = limits_at_zero(self.moments, normal, self.solution, self.index, sums);
        let mut sure = Vec::new();
        for of in self.columns {
            let seen = self.seen(of);
            // What a call moves is what its pieces move.
            let weights: Vec<(usize, f64)> =
                of.at.iter().map(|&at| (at, 1.0 / normal.scale[at])).collect();
            let estimate = weights.iter().map(|&(at, weight)| scaled[at] * weight).sum();
            // Pieces that are held at zero beside others are bounded by the draws.
            let held = at_zero.iter().filter(|(at, _)| estimate == 0.0 && of.at.contains(at));
            let upper = held.map(|(at, limit)| limit / normal.scale[*at]).fold(0.0, f64::max);
            let interval = self.interval(&weights, upper);
            let share = if fit.measured > 0.0 { seen.exposure / fit.measured } else { 0.0 };
            let few = seen.samples < MIN_SAMPLES || seen.blocks.count_ones() < MIN_BLOCKS;
            let amount = if !self.solution.converged {
                Amount::Unknown(Reason::Unsolved)
            } else if few {
                Amount::Unknown(Reason::TooFewSamples { samples: seen.samples })
            } else {
                judge(estimate, interval, share, seen.samples)
            };
            sure.push(is_sure(amount, share));
            match fit.columns.get_mut(of.column) {
                Some(of) => (of.amount, of.interval) = (amount, interval),
                None => fit.background = amount,
            }
        }
        let groups = collinear::groups(explained, &sure);
        for (group, members) in groups.iter().enumerate() {
            for &member in members {
                if let Some(of) = fit.columns.get_mut(self.columns[member].column) {
                    of.amount = Amount::Unknown(Reason::Collinear { group });
                }
            }
        }
        fit.groups =
            groups.iter().map(|members| self.group(stage, members, &at_zero, fit)).collect();
    }

    fn seen(&self, of: &ActiveColumn) -> Seen {
        let pieces: Vec<Seen> =
            of.at.iter().map(|&at| self.moments.seen[self.normal.active[at]]).collect();
        Seen::of_pieces(&pieces)
    }

    /// The 90 % interval of a weighted sum of unknowns; `upper` is the least that its upper end is.
    fn interval(&self, weights: &[(usize, f64)], upper: f64) -> Option<(f64, f64)> {
        let estimate: f64 =
            weights.iter().map(|&(at, weight)| self.solution.scaled[at] * weight).sum();
        let (low, high) = self.spread.around(estimate, self.spread.interval(self.index, weights)?);
        let high = high.max(estimate + upper);
        // Both are independent: what the draws show, and what they cannot.
        let off = Z95 * self.timing.deviation(weights);
        Some((
            (estimate - (estimate - low).hypot(off)).max(0.0),
            estimate + (high - estimate).hypot(off),
        ))
    }

    fn group(
        &self,
        stage: &StageDesign,
        members: &[usize],
        at_zero: &[(usize, f64)],
        fit: &CounterFit,
    ) -> GroupFit {
        let members: Vec<&ActiveColumn> = members.iter().map(|&of| &self.columns[of]).collect();
        let calls = |of: &ActiveColumn| stage.calls[of.column] as f64;
        let weights: Vec<(usize, f64)> = members
            .iter()
            .flat_map(|of| of.at.iter().map(|&at| (at, calls(of) / self.normal.scale[at])))
            .collect();
        let total = weights.iter().map(|&(at, weight)| self.solution.scaled[at] * weight).sum();
        // If all members are held at zero, the largest of them bounds what they share.
        let held = weights.iter().filter(|_| total == 0.0).filter_map(|(at, weight)| {
            at_zero.iter().find(|(of, _)| of == at).map(|(_, limit)| limit * weight)
        });
        let upper = held.fold(0.0, f64::max);
        let interval = self.interval(&weights, upper);
        // `measured` is of the samples, the total of all calls.
        let all: f64 = members.iter().map(|of| calls(of)).sum();
        let seen: Vec<Seen> = members.iter().map(|of| self.seen(of)).collect();
        let exposure: f64 = seen.iter().map(|of| of.exposure).sum();
        let share = if fit.measured > 0.0 { exposure / all / fit.measured } else { 0.0 };
        let samples = seen.iter().map(|of| of.samples).max().unwrap_or(0);
        let total = match self.solution.converged {
            true => judge(total, interval, share, samples),
            false => Amount::Unknown(Reason::Unsolved),
        };
        GroupFit { members: members.iter().map(|of| of.column).collect(), total }
    }
}

/// Whether an amount stands on its own, although other columns may be much like its column.
fn is_sure(amount: Amount, share: f64) -> bool {
    match amount {
        Amount::Value { .. } => true,
        Amount::AtMost { limit } => limit * share <= SMALL_SHARE,
        Amount::Unknown(reason) => {
            matches!(reason, Reason::TooFewSamples { .. } | Reason::Unsolved)
        }
    }
}

/// Whether an amount may be shown. `share` times the amount is its part of what was measured.
fn judge(amount: f64, interval: Option<(f64, f64)>, share: f64, samples: u64) -> Amount {
    let Some((low, high)) = interval else {
        return Amount::Unknown(Reason::TooFewSamples { samples });
    };
    let half = (high - low) / 2.0;
    if amount > 0.0 && half <= MOST_SPREAD * amount {
        return Amount::Value { amount, low, high };
    }
    if amount == 0.0 || high * share <= SMALL_SHARE {
        return Amount::AtMost { limit: high };
    }
    Amount::Unknown(Reason::TooUncertain { percent: 100.0 * half / amount })
}
