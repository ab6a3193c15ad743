//! How far an amount would differ in another run: a bootstrap over blocks of samples.

use std::thread::{self, Builder};

use fastrand::Rng;

use crate::counter_fit::moments::{Moments, Sums};
use crate::counter_fit::nnls::{FEW_EXCHANGES, Normal, Solution, factor, solve};

/// Draws of the bootstrap, and those of a stage with many columns, which take long.
const DRAWS: usize = 200;
const DRAWS_OF_MANY: usize = 100;
const MANY_COLUMNS: usize = 128;
/// The 95 % point of the normal distribution: 5 % lie outside of the interval on each side.
pub(crate) const Z95: f64 = 1.644_854;
/// What the draws do not show, measured on simulated runs: how unsure the shift is, that no amount is
/// below zero, and that surer amounts are more often shown than they should.
const BEYOND_DRAWS: f64 = 1.2;
/// Any number: it makes equal input give equal output.
const SEED: u64 = 0x5748_4154;

/// The solutions of all draws; `draws[counter][draw * columns + column]`, NaN where a draw lacks it.
pub(crate) struct Spread {
    columns: usize,
    count: usize,
    draws: Vec<Vec<f64>>,
    /// How much wider than the draws an interval must be: few blocks, and unknowns that were fitted.
    widen: f64,
}

impl Spread {
    /// Draw blocks with replacement and solve again, each time from the free unknowns of `solutions`.
    pub(crate) fn new(
        moments: &Moments,
        normal: &Normal,
        solutions: &[Solution],
        rows: f64,
    ) -> Self {
        let blocks: Vec<&Sums> = moments.blocks.iter().flatten().map(Box::as_ref).collect();
        let columns = normal.active.len();
        let count = if columns > MANY_COLUMNS { DRAWS_OF_MANY } else { DRAWS };
        let workers = thread::available_parallelism().map_or(1, usize::from).min(4);
        let one = |worker: usize| -> Vec<(usize, Vec<Vec<f64>>)> {
            let mut normal = normal.clone();
            let mut sums = Sums::zero(moments.width, moments.counters.len());
            let draws = (worker..count).step_by(workers);
            draws
                .map(|draw| {
                    (draw, redraw(moments, &blocks, &mut normal, &mut sums, solutions, draw as u64))
                })
                .collect()
        };
        let mut draws = vec![vec![f64::NAN; count * columns]; solutions.len()];
        let done = thread::scope(|scope| {
            let begin = |worker: usize| Builder::new().spawn_scoped(scope, move || one(worker));
            let threads: Vec<_> = (1..workers).map(begin).collect();
            let mut done = one(0);
            for (worker, thread) in (1..).zip(threads) {
                done.extend(match thread {
                    // A worker that panicked leaves its draws out; there are others.
                    Ok(thread) => thread.join().unwrap_or_default(),
                    Err(_) => one(worker),
                });
            }
            done
        });
        for (draw, counters) in done {
            for (counter, values) in counters.into_iter().enumerate() {
                draws[counter][draw * columns..][..columns].copy_from_slice(&values);
            }
        }
        let widen = BEYOND_DRAWS * student_95(blocks.len().saturating_sub(1)) / Z95
            * (rows / (rows - columns as f64).max(1.0)).sqrt();
        Self { columns, count, draws, widen }
    }

    /// The 90 % interval of a weighted sum of unknowns around its estimate.
    pub(crate) fn interval(&self, counter: usize, weights: &[(usize, f64)]) -> Option<(f64, f64)> {
        let estimate = |draw: usize| -> f64 {
            weights
                .iter()
                .map(|&(column, weight)| weight * self.draws[counter][draw * self.columns + column])
                .sum()
        };
        let mut sums: Vec<f64> =
            (0..self.count).map(estimate).filter(|sum| sum.is_finite()).collect();
        if sums.len() < self.count / 2 {
            return None;
        }
        sums.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| sums[((sums.len() - 1) as f64 * share).round() as usize];
        Some((at(0.05), at(0.95)))
    }

    /// The interval around `estimate`, widened for few blocks and many unknowns, and never below 0.
    pub(crate) fn around(&self, estimate: f64, (low, high): (f64, f64)) -> (f64, f64) {
        let low = estimate - self.widen * (estimate - low).max(0.0);
        let high = estimate + self.widen * (high - estimate).max(0.0);
        (low.max(0.0), high)
    }
}

fn redraw(
    moments: &Moments,
    blocks: &[&Sums],
    normal: &mut Normal,
    sums: &mut Sums,
    solutions: &[Solution],
    draw: u64,
) -> Vec<Vec<f64>> {
    let mut random = Rng::with_seed(SEED ^ draw.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut times = vec![0_u32; blocks.len()];
    for _ in blocks {
        times[random.usize(..blocks.len())] += 1;
    }
    sums.clear();
    for (block, &times) in blocks.iter().zip(&times).filter(|(_, times)| **times > 0) {
        sums.add(block, f64::from(times));
    }
    normal.fill(sums);
    let solved = |(counter, solution): (usize, &Solution)| {
        let target = normal.target(sums, moments.width, counter);
        let mut values: Vec<f64> = solve(&normal.matrix, &target, &solution.free, FEW_EXCHANGES)
            .scaled
            .iter()
            .copied()
            .collect();
        for (value, &column) in values.iter_mut().zip(&normal.active) {
            if sums.cell(column, column) <= 0.0 {
                *value = f64::NAN;
            }
        }
        values
    };
    solutions.iter().enumerate().map(solved).collect()
}

/// The upper ends of the unknowns that the solution holds at zero, scaled as they are: draws that
/// hold them at zero, too, say nothing of how much they could be.
pub(crate) fn limits_at_zero(
    moments: &Moments,
    normal: &Normal,
    solution: &Solution,
    counter: usize,
    sums: &Sums,
) -> Vec<(usize, f64)> {
    let free: Vec<usize> = (0..normal.active.len()).filter(|&index| solution.free[index]).collect();
    let Some(factors) = factor(&normal.matrix, &free) else {
        return Vec::new();
    };
    let target = normal.target(sums, moments.width, counter);
    let slope = &target - &normal.matrix * &solution.scaled;
    // For each block: what it adds to the slope.
    let mut scores = Vec::new();
    let mut of_block = normal.clone();
    for block in moments.blocks.iter().flatten() {
        of_block.fill(block);
        scores.push(
            of_block.target(block, moments.width, counter) - &of_block.matrix * &solution.scaled,
        );
    }
    let count = scores.len() as f64;
    let wide = student_95(scores.len().saturating_sub(1)) * (count / (count - 1.0).max(1.0)).sqrt();
    let held = (0..normal.active.len()).filter(|&index| !solution.free[index]);
    held.map(|index| {
        let others = normal.matrix.column(index).select_rows(&free);
        let direction = factors.solve(&others);
        let left = (normal.matrix[(index, index)] - others.dot(&direction)).max(1e-9);
        let along = |score: &nalgebra::DVector<f64>| {
            (score[index] - score.select_rows(&free).dot(&direction)) / left
        };
        let variance: f64 = scores.iter().map(|score| along(score).powi(2)).sum();
        (index, (slope[index] / left).max(0.0) + wide * variance.sqrt())
    })
    .collect()
}

/// The 95 % point of Student's distribution, by its expansion around the normal one.
fn student_95(freedom: usize) -> f64 {
    let n = freedom.max(1) as f64;
    let z = Z95;
    let first = (z.powi(3) + z) / (4.0 * n);
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n);
    z + first + second
}
