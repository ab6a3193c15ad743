//! How far the samples' times are off against the kernels' times, at the start and at the end of calls.

use std::ops::Range;

use crate::kinds::{Design, Kernel};
use crate::placing::{Edges, Placing};
use crate::samples::Samples;
use crate::solving::{MAX_EXCHANGES, Normal, solve};

/// Shifts are looked for up to this far to both sides, or a quarter of a sample if that is less.
const FARTHEST_NS: u64 = 16_000;
/// Steps of the first look, to both sides, in which both edges of the calls move together.
const REACH: i64 = 8;
/// Later steps are halved down to this.
const FINEST_NS: i64 = 100;
/// Moves that are tried after the first look: both edges together, then each alone.
const MOST_MOVES: usize = 48;
const TOGETHER: [(i64, i64); 2] = [(1, 1), (-1, -1)];
const APART: [(i64, i64); 4] = [(1, 0), (-1, 0), (0, 1), (0, -1)];
/// Pieces of calls count if each unknown that they add makes the data more likely by this much.
const LEAST_GAIN_OF_UNKNOWN: f64 = 5.0;
/// A shift counts if it makes the data more likely by this much (natural logarithm), and edges that
/// moved apart count if they add so much to it.
const LEAST_GAIN: f64 = 4.0;
const LEAST_GAIN_APART: f64 = 10.0;
/// Counters that the shift is estimated from: those that kernels explain best.
const COUNTERS: usize = 2;

#[derive(Clone)]
struct Score {
    likelihood: f64,
    /// Of each counter, the best of all stages.
    r2: Vec<f64>,
}

pub(super) struct EdgeEstimate {
    /// By how much the edges of the calls are to be moved: the fit is best where the times agree.
    pub(super) edges: Edges,
    /// Calls are better cut into pieces ([`Design`]) than taken whole ([`Design::whole`]).
    pub(crate) cut: bool,
}

/// Find the shift from the first kernels of a run, and whether their calls are to be cut.
pub(super) fn estimate(
    samples: &Samples,
    design: &Design,
    whole: &Design,
    patterns: &[Vec<usize>],
    kernels: &[Kernel],
) -> EdgeEstimate {
    let nothing = EdgeEstimate { edges: Edges::default(), cut: false };
    let Some(mut search) = Search::new(samples, patterns, kernels) else { return nothing };
    let none = search.begin(whole);
    let step = search.step;
    let (mut best, mut found) = (Edges::default(), none.clone());
    for steps in (-REACH..=REACH).filter(|steps| *steps != 0) {
        let here = search.at(whole, Edges::both(steps * step));
        if here.likelihood > found.likelihood {
            (best, found) = (Edges::both(steps * step), here);
        }
    }
    if best.start_ns.abs() == REACH * step {
        // The best is outside of what is plausible: something else than the clocks is wrong.
        return nothing;
    }
    (best, found) = search.climb(whole, (best, found), &TOGETHER);
    let together = best;
    let (apart, better) = search.climb(whole, (best, found.clone()), &APART);
    if better.likelihood - found.likelihood >= LEAST_GAIN_APART {
        (best, found) = (apart, better);
    }
    let more = design.unknowns() - whole.unknowns();
    let (mut edges, mut pieces) = (best, found.clone());
    // Whole calls can pull the edges to what one long kernel does: the search begins elsewhere too.
    for begin in [Edges::default(), together, apart].into_iter().filter(|_| more > 0) {
        let here = search.at(design, begin);
        let climbed = search.climb(design, (begin, here), &APART);
        if climbed.1.likelihood > pieces.likelihood {
            (edges, pieces) = climbed;
        }
    }
    let cut = pieces.likelihood - found.likelihood > LEAST_GAIN_OF_UNKNOWN * more as f64;
    if cut {
        (best, found) = (edges, pieces);
    }
    let is_better = found.likelihood - none.likelihood >= LEAST_GAIN;
    EdgeEstimate { edges: if is_better { best } else { Edges::default() }, cut }
}

/// Lays the first kernels over the samples, with edges moved one way or another.
struct Search<'a> {
    samples: &'a Samples,
    patterns: &'a [Vec<usize>],
    kernels: &'a [Kernel],
    /// The samples that the kernels lie in.
    rows: Range<usize>,
    /// Of the first look, ns.
    step: i64,
    /// The counters that kernels explain best.
    counters: Vec<usize>,
    /// By stage and counter, which unknowns were not held at zero.
    guesses: Vec<Vec<bool>>,
}

impl<'a> Search<'a> {
    /// Nothing where the kernels lie in no samples, or these are too short.
    fn new(
        samples: &'a Samples,
        patterns: &'a [Vec<usize>],
        kernels: &'a [Kernel],
    ) -> Option<Self> {
        let last = kernels.get(kernels.len().saturating_sub(kernels.len() / 50 + 1))?;
        // The last samples may lack kernels that are still to come.
        let limit = samples.first_after(last.start_ns, 0);
        let first = kernels.iter().map(|kernel| kernel.start_ns).min().unwrap_or(0);
        let rows = samples.first_after(first, 0)..limit;
        if rows.is_empty() {
            return None;
        }
        let lengths =
            (samples.end_ns(rows.end - 1) - samples.start_ns(rows.start)) / rows.len() as u64;
        let step = FARTHEST_NS.min(lengths / 4) as i64 / REACH;
        let counters = (0..samples.counters()).collect();
        let guesses = Vec::new();
        (step > 0).then_some(Self { samples, patterns, kernels, rows, step, counters, guesses })
    }

    /// Choose the counters, and score them without a shift.
    fn begin(&mut self, design: &Design) -> Score {
        let all = self.at(design, Edges::default());
        self.counters.sort_by(|a, b| all.r2[*b].total_cmp(&all.r2[*a]));
        self.counters.truncate(COUNTERS);
        self.at(design, Edges::default())
    }

    fn at(&mut self, design: &Design, edges: Edges) -> Score {
        let mut placing = Placing::new(self.samples, design, self.patterns, edges, true);
        placing.skip_to(self.rows.start);
        self.kernels.iter().for_each(|kernel| placing.kernel(self.samples, design, kernel));
        placing.close_before(self.samples, design, self.rows.end);
        self.guesses.resize_with(design.stages.len() * self.samples.counters(), Vec::new);
        score(&placing, &mut self.guesses, self.samples.counters(), &self.counters)
    }

    /// Move to better edges while there are any, with ever smaller steps.
    fn climb(
        &mut self,
        design: &Design,
        (mut best, mut found): (Edges, Score),
        moves: &[(i64, i64)],
    ) -> (Edges, Score) {
        let farthest = REACH * self.step;
        let (mut step, mut left) = (self.step / 2, MOST_MOVES);
        while left > 0 && step >= FINEST_NS {
            let before = best;
            for &(start, end) in moves {
                let edges = before.moved(start * step, end * step);
                if left == 0 || edges.start_ns.abs().max(edges.end_ns.abs()) > farthest {
                    continue;
                }
                left -= 1;
                let here = self.at(design, edges);
                if here.likelihood > found.likelihood {
                    (best, found) = (edges, here);
                }
            }
            if best == before {
                step /= 2;
            }
        }
        (best, found)
    }
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
