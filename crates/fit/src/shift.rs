//! How far the samples' times are off against the kernels' times.

use crate::kinds::{Design, Kernel};
use crate::nnls::{MAX_EXCHANGES, Normal, solve};
use crate::placing::Placing;
use crate::samples::Samples;

/// Shifts are looked for up to this far to both sides, or a quarter of a sample if that is less.
const FARTHEST_NS: u64 = 16_000;
/// Each round looks so many steps to both sides, at a quarter of the step before.
const ROUNDS: u32 = 4;
/// A shift counts if it makes the data more likely by this much (natural logarithm).
const LEAST_GAIN: f64 = 4.0;
/// Counters that the shift is estimated from: those that kernels explain best.
const COUNTERS: usize = 2;

/// By how much the kernels' times were moved before they were laid over the samples.
///
/// Counters are read a little after or before the instant that a sample's time states. The samples
/// themselves show by how much: the fit is best where the times agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shift {
    /// The caller gave it, in ns.
    Given(i64),
    /// The fit found it. R2 is that of the best-explained counter and stage, among the first kernels.
    Estimated {
        /// Added to the kernels' times, in ns.
        ns: i64,
        /// R2 without a shift.
        r2_unshifted: f64,
        /// R2 with it.
        r2: f64,
    },
    /// No shift explains the samples better than none does.
    None,
}

impl Shift {
    /// What is added to the kernels' times, in ns.
    pub fn ns(self) -> i64 {
        match self {
            Self::Given(ns) | Self::Estimated { ns, .. } => ns,
            Self::None => 0,
        }
    }
}

struct Score {
    likelihood: f64,
    /// Of each counter, the best of all stages.
    r2: Vec<f64>,
}

impl Score {
    fn best_r2(&self) -> f64 {
        self.r2.iter().copied().fold(0.0, f64::max)
    }
}

/// Find the shift from the first kernels of a run.
pub(crate) fn estimate(
    samples: &Samples,
    design: &Design,
    patterns: &[Vec<usize>],
    kernels: &[Kernel],
) -> Shift {
    let Some(last) = kernels.get(kernels.len().saturating_sub(kernels.len() / 50 + 1)) else {
        return Shift::None;
    };
    // The last samples may lack kernels that are still to come.
    let limit = samples.first_after(last.start_ns, 0);
    let first = kernels.iter().map(|kernel| kernel.start_ns).min().unwrap_or(0);
    let from = samples.first_after(first, 0);
    if from >= limit {
        return Shift::None;
    }
    let lengths = (samples.end_ns(limit - 1) - samples.start_ns(from)) / (limit - from) as u64;
    let mut step = (FARTHEST_NS.min(lengths / 4) / 8) as i64;
    if step == 0 {
        return Shift::None;
    }
    let mut guesses = vec![Vec::new(); design.stages.len() * samples.counters()];
    let mut at = |shift: i64, chosen: &[usize]| -> Score {
        let mut placing = Placing::new(samples, design, patterns, shift, true);
        placing.skip_to(from);
        for kernel in kernels {
            placing.kernel(samples, design, kernel);
        }
        placing.close_before(samples, design, limit);
        score(&placing, &mut guesses, samples.counters(), chosen)
    };
    let r2 = at(0, &(0..samples.counters()).collect::<Vec<_>>()).r2;
    let mut chosen: Vec<usize> = (0..samples.counters()).collect();
    chosen.sort_by(|a, b| r2[*b].total_cmp(&r2[*a]));
    chosen.truncate(COUNTERS);
    let none = at(0, &chosen);
    let (mut best, mut found) = (0, Score { likelihood: none.likelihood, r2: none.r2.clone() });
    for round in 0..ROUNDS {
        let centre = best;
        let reach = if round == 0 { 8 } else { 4 };
        for shift in (-reach..=reach).map(|steps| centre + steps * step) {
            let here = at(shift, &chosen);
            if here.likelihood > found.likelihood {
                (best, found) = (shift, here);
            }
        }
        if round == 0 && best.abs() == reach * step {
            // The best is outside of what is plausible: something else than the clocks is wrong.
            return Shift::None;
        }
        step = (step / 4).max(1);
    }
    if found.likelihood - none.likelihood < LEAST_GAIN || best == 0 {
        return Shift::None;
    }
    Shift::Estimated { ns: best, r2_unshifted: none.best_r2(), r2: found.best_r2() }
}

/// How likely the samples are, all stages and counters together, if errors are Gaussian.
fn score(placing: &Placing, guesses: &mut [Vec<bool>], counters: usize, chosen: &[usize]) -> Score {
    let mut total = Score { likelihood: 0.0, r2: vec![0.0; counters] };
    for (stage, patterns) in placing.moments.iter().enumerate() {
        for moments in patterns {
            let sums = moments.total();
            let normal = Normal::new(&sums, moments.width);
            let size = normal.active.len();
            if sums.rows < 2.0 * size as f64 + 30.0 {
                continue;
            }
            for (index, &counter) in moments.counters.iter().enumerate() {
                if !chosen.contains(&counter) {
                    continue;
                }
                let variance = sums.squares[index] - sums.totals[index].powi(2) / sums.rows;
                if variance <= 0.0 {
                    continue;
                }
                let target = normal.target(&sums, moments.width, index);
                let guess = &mut guesses[stage * counters + counter];
                if guess.len() != size {
                    *guess = vec![true; size];
                }
                let solution = solve(&normal.matrix, &target, guess, MAX_EXCHANGES);
                let explained = target.dot(&solution.scaled) * 2.0
                    - solution.scaled.dot(&(&normal.matrix * &solution.scaled));
                let residual = (sums.squares[index] - explained).max(variance * 1e-9);
                total.likelihood -= sums.rows / 2.0 * (residual / variance).ln();
                total.r2[counter] = total.r2[counter].max(1.0 - residual / variance);
                *guess = solution.free;
            }
        }
    }
    total
}
