//! The amount of each hardware counter per call of each kernel kind, from samples of a whole device.
//!
//! A GPU can sample its counters every 100 us while a program runs at full speed, but a sample says
//! only what the whole device did: dozens of kernels may lie within it. The records of the kernels
//! say exactly when each of them ran. Together they say what each kernel kind did, without replay.
//!
//! # The model
//! A kernel kind is a name with its grid and block. Each call of a kind adds the same amount to a
//! counter, spread evenly over the call's duration, or over each of up to four pieces of it. A sample's
//! value is the sum, over the calls that it overlaps, of the share of the call (or piece) that lies within
//! it, times the kind's amount per call (or piece), plus a background for each second. Streams that overlap need no rule for sharing. The amounts are those
//! that explain the samples of a stage best (least squares), none of them below zero.
//!
//! Only additive counters fit: bytes, sectors, instructions, cycles in which a unit was active. A
//! percentage does not; multiply it by the sample's duration first.
//!
//! # The two passes
//! ```
//! use stage2_model::SampledAmount;
//! use stage2_counter_fit::{Fit, Kernel, Kinds, Samples};
//!
//! // 1,000 samples of 100 us of one counter; every 70 us a kernel of 30 us that reads 2 MB.
//! let mut samples = Samples::new(1);
//! let kernels: Vec<Kernel> = (0..1_420)
//!     .map(|call| call * 70_000)
//!     .map(|start_ns| Kernel { start_ns, end_ns: start_ns + 30_000, stage: Some(0), kind: 1, class: 0, step: None })
//!     .collect();
//! for row in 0..1_000_u64 {
//!     let (start, end) = (row * 100_000, (row + 1) * 100_000);
//!     let within = |k: &Kernel| k.end_ns.min(end).saturating_sub(k.start_ns.max(start)) as f32 / 30_000.0;
//!     samples.push(start, end, &[kernels.iter().map(within).sum::<f32>() * 2e6]);
//! }
//!
//! let mut kinds = Kinds::default();
//! kernels.iter().for_each(|kernel| kinds.add(kernel));
//! let design = kinds.design(&samples);
//! let mut fit = Fit::new(&samples, &design);
//! kernels.iter().for_each(|kernel| fit.kernel(kernel));
//! let fitted = fit.finish();
//!
//! let amount = &fitted.stages[0].counters[0].columns[0].amount;
//! assert!(matches!(amount, SampledAmount::Known { value, .. } if (value / 2e6 - 1.0).abs() < 0.01));
//! ```
//! [`Kinds`] sees every kernel once and chooses the columns: the [`OWN_COLUMNS`] kinds of a stage that
//! ran longest have their own columns, the others are pooled by class. [`Fit`] sees them again. It
//! keeps sums of products instead of kernels, so that memory does not grow with their number.
//!
//! # What a value means
//! * [`SampledAmount::Known`] is the mean amount per call in the unit of the counter, as the program ran:
//!   with the caches as the kernels before left them. A profiler that replays a kernel with cold
//!   caches says more. The interval holds the truth in at least 90 % of all cases, and is usually too
//!   wide rather than too narrow. It has two parts: a bootstrap over steps (or over runs of 20 samples
//!   where there are fewer than ten steps), and what the amount is off by if each kind moves its bytes
//!   a little earlier or later within its calls than an even spread says. `tests/it/truth.rs` prints how
//!   often the intervals hold the truth of simulated runs.
//! * [`SampledAmount::AtMost`] is the upper end of that interval, for what is at most 1 % of its stage
//!   and for what the fit puts at zero.
//! * [`SampledAmount::Absent`] states why nothing is known. Kinds that always run together can have a known
//!   total ([`GroupFit`]) where their own amounts are unknown. A kind that the others explain to 95 %
//!   joins them if its own amount is uncertain, and if they explain it to 99.99 % in any case.
//! * The background is that of the stage. Where work runs all the time, nothing tells it from the
//!   kernels: the fit then takes what the device does while it is idle.
//!
//! Samples that hold work of several stages, or of none, are in no fit.
//!
//! # When within a call
//! A kernel record begins before the kernel's first load reaches DRAM, and ends after its last store was
//! made visible. On an H200 kernels read from 0.75 us after the start of their records to 2.5 us before
//! the end. The fit looks for both numbers in the samples ([`Fitted::edges`]): on a recorded decode they
//! and the pieces take 97 % of the residual variance away.
//!
//! Long kernels do not read evenly either: attention reads most at its start. Calls of 10 us and longer
//! (or a tenth of a sample) are cut into pieces with unknowns of their own, where the samples show that it
//! explains them better; an amount is the sum over the pieces. Without this the kernel that follows a
//! long one gets what that one did not read towards its end: 15 % too little for a product behind the
//! attention of a batch of 32.
//!
//! # Limits
//! * Kinds that move their amount unevenly within 10 us break the model. In simulated runs where half of
//!   a call's time moves 65 % of its amount, intervals hold 92 % of the truth.
//! * Writes reach DRAM when L2 evicts them. They may be charged to a kernel that runs later, and their
//!   R2 shows it: 0.91 on the recording, where that of reads is 0.998.
//! * The samples are of the whole device. What other processes do lies in the background, or, where
//!   it keeps step with our kernels, in their amounts.
//! * Values must be kept finely. Replays of a graph repeat the same samples, and with these what rounding
//!   them adds, which then looks like the work of kernels. Of the recorded graph, steps of 4.4 % take
//!   amounts up to 13 % off and intervals do not show it; steps of 0.3 % change next to nothing.
//! * A kind whose calls differ (another size behind the same grid) has a mean.
#![deny(unsafe_code)]

mod kinds;
mod placing;
mod samples;
mod shift;
mod solving;

use std::borrow::Cow;
use std::ops::Range;

use crate::kinds::StageDesign;
use crate::placing::{MAX_PATTERNS, Moments, Occurrences, Placing, Sums};
use crate::shift::estimate;
use crate::solving::{
    CollinearColumn, MAX_EXCHANGES, Normal, Solution, Spread, Timing, Z95, collinear_groups,
    explained_columns, limits_at_zero, solve,
};
use nalgebra::DMatrix;
use stage2_model::{NoAmount, SampledAmount};

pub use kinds::{Column, Design, Kernel, Kinds, OWN_COLUMNS};
pub use placing::Edges;
pub use samples::Samples;

/// Kernels that the shift is estimated from: the first ones.
const KERNELS_FOR_SHIFT: usize = 100_000;
/// A column that fewer samples hold has no spread that means anything.
const MIN_SAMPLES: u64 = 10;
/// A column that samples of fewer blocks hold has no spread that means anything.
const MIN_BLOCKS: u32 = 5;
/// Half an interval may be this share of the amount.
const MOST_SPREAD: f64 = 0.10;
/// Less idle time than this does not show the background.
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
    running: Option<Placing>,
}

impl<'a> Fit<'a> {
    /// Begin with all samples of the device.
    pub fn new(samples: &'a Samples, design: &'a Design) -> Self {
        let patterns = samples.patterns(MAX_PATTERNS);
        let design = Cow::Borrowed(design);
        Self { samples, design, patterns, waiting: Vec::new(), running: None }
    }

    /// Take the next kernel. They may come out of order by up to 65,536 samples (6.5 s at 100 us).
    pub fn kernel(&mut self, kernel: &Kernel) {
        if let Some(placing) = &mut self.running {
            return placing.kernel(self.samples, &self.design, kernel);
        }
        self.waiting.push(*kernel);
        if self.waiting.len() >= KERNELS_FOR_SHIFT {
            self.running = Some(self.begin());
        }
    }

    /// Choose by the first kernels how all are laid over the samples, and begin with these.
    fn begin(&mut self) -> Placing {
        let waiting = std::mem::take(&mut self.waiting);
        let whole = self.design.whole();
        let found = estimate(self.samples, &self.design, &whole, &self.patterns, &waiting);
        if !found.cut {
            self.design = Cow::Owned(whole);
        }
        let (samples, design) = (self.samples, &*self.design);
        let mut placing = Placing::new(samples, design, &self.patterns, found.edges, false);
        waiting.iter().for_each(|kernel| placing.kernel(samples, design, kernel));
        placing
    }

    /// Solve every stage for every counter.
    pub fn finish(mut self) -> Fitted {
        let mut placing = self.running.take().unwrap_or_else(|| self.begin());
        let Self { samples, design, patterns, .. } = self;
        placing.close_before(samples, &design, samples.len());
        let Placing { edges, idle, mut moments, .. } = placing;
        let rate = |&(seconds, amount): &(f64, f64)| {
            if seconds > LEAST_IDLE_SECONDS { amount / seconds } else { 0.0 }
        };
        let rates: Vec<f64> = idle.iter().map(rate).collect();
        let stages = design.stages.iter().zip(&mut moments).map(|(stage, moments)| {
            let mut counters: Vec<CounterFit> =
                moments.iter_mut().flat_map(|of| solve_stage(stage, of, &rates)).collect();
            for counter in 0..samples.counters() {
                if counters.iter().all(|fit| fit.counter != counter) {
                    let known = patterns.iter().any(|of| of.contains(&counter));
                    let reason = if known { NoAmount::NoSamples } else { NoAmount::NoCounter };
                    counters.push(unknown(stage, counter, reason));
                }
            }
            counters.sort_by_key(|fit| fit.counter);
            StageFit { stage: stage.stage, counters }
        });
        Fitted { edges, stages: stages.collect() }
    }
}

fn unknown(stage: &StageDesign, counter: usize, reason: NoAmount) -> CounterFit {
    let amount = SampledAmount::Absent(reason);
    let columns = stage.columns.iter().zip(&stage.calls);
    let columns = columns.map(|(&column, &calls)| {
        let amount = amount.clone();
        ColumnFit { column, calls, samples: 0, amount, interval: None }
    });
    CounterFit {
        counter,
        samples: 0,
        measured: 0.0,
        r2: None,
        residual: None,
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
    let reason = match rows > 0.0 {
        true => NoAmount::TooFewSamples { samples: rows as u64 },
        false => NoAmount::NoSamples,
    };
    let new = |(index, &counter): (usize, &usize)| {
        let mut fit = unknown(stage, counter, reason.clone());
        (fit.samples, fit.measured) = (rows as u64, sums.totals[index]);
        for (column, unknowns) in fit.columns.iter_mut().zip(&stage.unknowns) {
            column.samples = Occurrences::of_pieces(&moments.seen[unknowns.clone()]).samples;
            if column.samples == 0 {
                column.amount = SampledAmount::Absent(NoAmount::NoSamples);
            }
        }
        fit
    };
    let mut fits: Vec<CounterFit> = moments.counters.iter().enumerate().map(new).collect();
    if few {
        return fits;
    }
    let columns = active_columns(stage, &normal);
    let mut explained = explained_columns(&summed_matrix(&normal, &columns, true), true);
    let (normal, sums) = if normal.never_idle() {
        moments.subtract(idle);
        let normal = normal.without_last();
        // Without the constant, columns with a constant sum can be told apart again.
        explained.iter_mut().for_each(|of| of.same = false);
        let same = explained_columns(&summed_matrix(&normal, &columns, false), false);
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
        let solved = CounterSolution {
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
    column: usize,
    /// The places of its unknowns among the active ones.
    at: Vec<usize>,
}

/// The columns of which every unknown is active.
fn active_columns(stage: &StageDesign, normal: &Normal) -> Vec<ActiveColumn> {
    let place = |unknown| normal.active.binary_search(&unknown).ok();
    let active = |(column, unknowns): (usize, &Range<usize>)| {
        Some(ActiveColumn { column, at: unknowns.clone().map(place).collect::<Option<_>>()? })
    };
    stage.unknowns.iter().enumerate().filter_map(active).collect()
}

/// The matrix of the columns, whose diagonal is 1; with the constant as its last one, if it is wanted.
fn summed_matrix(normal: &Normal, columns: &[ActiveColumn], constant: bool) -> DMatrix<f64> {
    let last = [normal.active.len().saturating_sub(1)];
    let constant = constant.then_some(&last[..]);
    let all: Vec<&[usize]> = columns.iter().map(|of| &of.at[..]).chain(constant).collect();
    normal.summed(&all)
}

/// The solution of one counter, and what its spread follows from.
struct CounterSolution<'a> {
    moments: &'a Moments,
    normal: &'a Normal,
    sums: &'a Sums,
    spread: &'a Spread,
    timing: &'a Timing,
    solution: &'a Solution,
    columns: &'a [ActiveColumn],
    index: usize,
}

impl CounterSolution<'_> {
    fn fill(&self, stage: &StageDesign, explained: &[CollinearColumn], fit: &mut CounterFit) {
        let (normal, sums, scaled) = (self.normal, self.sums, &self.solution.scaled);
        let target = normal.target(sums, self.moments.width, self.index);
        let left = sums.squares[self.index] - 2.0 * target.dot(scaled)
            + scaled.dot(&(&normal.matrix * scaled));
        let variance = sums.squares[self.index] - sums.totals[self.index].powi(2) / sums.rows;
        fit.r2 = (variance > 0.0).then(|| (1.0 - left.max(0.0) / variance).max(0.0));
        fit.residual = Some((left.max(0.0) / sums.rows).sqrt());
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
                SampledAmount::Absent(NoAmount::Unsolved)
            } else if few {
                SampledAmount::Absent(NoAmount::TooFewSamples { samples: seen.samples })
            } else {
                judge(estimate, interval, share, seen.samples)
            };
            sure.push(is_sure(&amount, share));
            let column = &mut fit.columns[of.column];
            (column.amount, column.interval) = (amount, interval);
        }
        let groups = collinear_groups(explained, &sure);
        for members in groups {
            let group = self.group(stage, &members, &at_zero, fit);
            for &column in &group.members {
                let (others, total) = (members.len() as u64 - 1, group.total.value());
                let reason = NoAmount::Together { others, total };
                fit.columns[column].amount = SampledAmount::Absent(reason);
            }
            fit.groups.push(group);
        }
    }

    fn seen(&self, of: &ActiveColumn) -> Occurrences {
        let pieces: Vec<Occurrences> =
            of.at.iter().map(|&at| self.moments.seen[self.normal.active[at]]).collect();
        Occurrences::of_pieces(&pieces)
    }

    /// The 90 % interval of a weighted sum of unknowns; `upper` is the least that its upper end is.
    fn interval(&self, weights: &[(usize, f64)], upper: f64) -> Option<(f64, f64)> {
        let estimate: f64 =
            weights.iter().map(|&(at, weight)| self.solution.scaled[at] * weight).sum();
        let (low, high) = self.spread.interval(self.index, weights, estimate)?;
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
        let seen: Vec<Occurrences> = members.iter().map(|of| self.seen(of)).collect();
        let exposure: f64 = seen.iter().map(|of| of.exposure).sum();
        let share = if fit.measured > 0.0 { exposure / all / fit.measured } else { 0.0 };
        let samples = seen.iter().map(|of| of.samples).max().unwrap_or(0);
        let total = match self.solution.converged {
            true => judge(total, interval, share, samples),
            false => SampledAmount::Absent(NoAmount::Unsolved),
        };
        GroupFit { members: members.iter().map(|of| of.column).collect(), total }
    }
}

/// Whether an amount stands on its own, although other columns may be much like its column.
fn is_sure(amount: &SampledAmount, share: f64) -> bool {
    match amount {
        SampledAmount::Known { .. } => true,
        SampledAmount::AtMost { limit } => limit * share <= SMALL_SHARE,
        SampledAmount::Absent(reason) => {
            matches!(reason, NoAmount::TooFewSamples { .. } | NoAmount::Unsolved)
        }
    }
}

/// Whether an amount may be shown. `share` times the amount is its part of what was measured.
fn judge(amount: f64, interval: Option<(f64, f64)>, share: f64, samples: u64) -> SampledAmount {
    let Some((low, high)) = interval else {
        return SampledAmount::Absent(NoAmount::TooFewSamples { samples });
    };
    let half = (high - low) / 2.0;
    if amount > 0.0 && half <= MOST_SPREAD * amount {
        return SampledAmount::Known { value: amount, low, high };
    }
    if amount == 0.0 || high * share <= SMALL_SHARE {
        return SampledAmount::AtMost { limit: high };
    }
    let percent = 100.0 * half / amount;
    SampledAmount::Absent(NoAmount::TooUncertain { percent, low, high })
}

/// The fit of one column for one counter.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnFit {
    /// What it stands for.
    pub column: Column,
    /// Its calls in the stage, all of them.
    pub calls: u64,
    /// The fitted samples that hold it.
    pub samples: u64,
    /// The amount per call.
    pub amount: SampledAmount,
    /// The 90 % interval per call, as solved, whatever `amount` says; `None` where nothing was solved.
    pub interval: Option<(f64, f64)>,
}

/// Columns that cannot be told apart.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupFit {
    /// Its members, as positions in [`CounterFit::columns`].
    pub members: Vec<usize>,
    /// The amount of all calls of all members in the whole stage.
    pub total: SampledAmount,
}

/// The fit of one stage for one counter.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterFit {
    /// The position of the counter in the samples.
    pub counter: usize,
    /// The samples of the fit.
    pub samples: u64,
    /// What the counter gained within them.
    pub measured: f64,
    /// The share of the samples' variance that the fit explains, 0 to 1.
    pub r2: Option<f64>,
    /// The root of the mean square of what the fit leaves of a sample, in the counter's unit.
    pub residual: Option<f64>,
    /// The amounts per call, the kinds that ran longest first.
    pub columns: Vec<ColumnFit>,
    /// The columns that cannot be told apart.
    pub groups: Vec<GroupFit>,
}

/// The fits of one stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageFit {
    /// The stage's number, as in [`Kernel::stage`](Kernel::stage).
    pub stage: u32,
    /// One for each counter of the samples.
    pub counters: Vec<CounterFit>,
}

/// All that the samples of a device say about the kernels that ran there.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// What was added to the edges of each call: what explains the samples of the first kernels best.
    pub edges: Edges,
    /// The fits, in the order of the stages' numbers. Stages without their own sample have
    /// amounts that say so.
    pub stages: Vec<StageFit>,
}
