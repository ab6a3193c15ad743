//! Sums of products -> amounts that are not negative, which columns cannot be told apart, and how far each
//! amount may be off.

use std::thread::{self, Builder};

use crate::placing::{Moments, Sums};
use fastrand::Rng;
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

/// Added to the diagonal of the scaled matrix, whose diagonal is 1: equal columns then share evenly.
const RIDGE: f64 = 1e-9;
/// Exchanges before the solver gives up. Ten are usual.
pub(super) const MAX_EXCHANGES: usize = 100;
/// Exchanges before the solver gives up where the free unknowns are nearly known.
const FEW_EXCHANGES: usize = 20;

/// The normal equations of one stage over the columns that occur in it, scaled to a diagonal of 1.
#[derive(Debug, Clone)]
pub(crate) struct Normal {
    pub(crate) active: Vec<usize>,
    pub(crate) scale: Vec<f64>,
    pub(crate) matrix: DMatrix<f64>,
}

impl Normal {
    /// From all samples of a stage: the columns that occur, and their lengths.
    pub(crate) fn new(sums: &Sums, width: usize) -> Self {
        let active: Vec<usize> =
            (0..width).filter(|&column| sums.cell(column, column) > 0.0).collect();
        let scale = active.iter().map(|&column| sums.cell(column, column).sqrt()).collect();
        let size = active.len();
        let mut normal = Self { active, scale, matrix: DMatrix::zeros(size, size) };
        normal.fill(sums);
        normal
    }

    /// Computes the matrix from the sums of other samples; the columns and their scales stay.
    pub(crate) fn fill(&mut self, sums: &Sums) {
        for (j, &column) in self.active.iter().enumerate() {
            for (i, &row) in self.active.iter().enumerate().skip(j) {
                let value = sums.cell(row, column) / (self.scale[i] * self.scale[j]);
                self.matrix[(i, j)] = value;
                self.matrix[(j, i)] = value;
            }
            self.matrix[(j, j)] += RIDGE;
        }
    }

    /// Whether the other columns explain the last one, the constant, to 95 %: work runs all the time,
    /// and nothing tells the background from it.
    pub(super) fn never_idle(&self) -> bool {
        let size = self.active.len();
        let every: Vec<usize> = (0..size).collect();
        let Some((last, factors)) = size.checked_sub(1).zip(factor(&self.matrix, &every)) else {
            return false;
        };
        let mut unit = DVector::zeros(size);
        unit[last] = 1.0;
        factors.solve(&unit)[last] * self.matrix[(last, last)] > 20.0
    }

    /// The equations without the last column, the constant.
    pub(super) fn without_last(&self) -> Self {
        let size = self.active.len().saturating_sub(1);
        Self {
            active: self.active[..size].to_vec(),
            scale: self.scale[..size].to_vec(),
            matrix: self.matrix.view((0, 0), (size, size)).clone_owned(),
        }
    }

    /// The matrix over columns that are each a sum of unknowns, scaled to a diagonal of 1: `of`
    /// names the unknowns of each by their place in `active`.
    pub(crate) fn summed(&self, of: &[&[usize]]) -> DMatrix<f64> {
        let cell = |a: &[usize], b: &[usize]| -> f64 {
            let product =
                |i: &usize, j: &usize| self.matrix[(*i, *j)] * self.scale[*i] * self.scale[*j];
            a.iter().map(|i| b.iter().map(|j| product(i, j)).sum::<f64>()).sum()
        };
        let scale: Vec<f64> = of.iter().map(|at| cell(at, at).sqrt()).collect();
        DMatrix::from_fn(of.len(), of.len(), |row, column| {
            cell(of[row], of[column]) / (scale[row] * scale[column])
        })
    }

    pub(super) fn target(&self, sums: &Sums, width: usize, counter: usize) -> DVector<f64> {
        let product = &sums.product[counter * width..][..width];
        DVector::from_iterator(
            self.active.len(),
            self.active.iter().zip(&self.scale).map(|(&column, scale)| product[column] / scale),
        )
    }
}

/// A solution, in the scaled unknowns, and which of them are not held at zero.
#[derive(Debug, Clone)]
pub(super) struct Solution {
    pub(crate) scaled: DVector<f64>,
    pub(crate) free: Vec<bool>,
    pub(super) converged: bool,
}

/// The factors of the part of a matrix that belongs to the free unknowns.
pub(crate) fn factor(matrix: &DMatrix<f64>, free: &[usize]) -> Option<Cholesky<f64, Dyn>> {
    let part = matrix.select_rows(free).select_columns(free);
    Cholesky::new(part)
}

/// Minimise `x'Mx - 2t'x` with no negative unknown, starting from a guess of the free ones, with at most
/// so many exchanges.
///
/// All unknowns that break a condition change sides at once. If that does not help three times in a
/// row, only the last of them does, which cannot go round in circles.
pub(super) fn solve(
    matrix: &DMatrix<f64>,
    target: &DVector<f64>,
    guess: &[bool],
    most: usize,
) -> Solution {
    let size = target.len();
    let mut free = guess.to_vec();
    let mut scaled = DVector::zeros(size);
    let tolerance = 1e-9 * target.amax();
    let (mut fewest, mut patience) = (usize::MAX, 3);
    for _ in 0..most {
        let chosen: Vec<usize> = (0..size).filter(|&index| free[index]).collect();
        let Some(factors) = factor(matrix, &chosen) else {
            break;
        };
        let part = factors.solve(&target.select_rows(&chosen));
        scaled.fill(0.0);
        for (&index, &value) in chosen.iter().zip(part.iter()) {
            scaled[index] = value;
        }
        let slope = matrix * &scaled - target;
        let wrong = |index: usize| match free[index] {
            true => scaled[index] < -tolerance,
            false => slope[index] < -tolerance,
        };
        let broken: Vec<usize> = (0..size).filter(|&index| wrong(index)).collect();
        let Some(&last) = broken.last() else {
            scaled.apply(|value| *value = value.max(0.0));
            return Solution { scaled, free, converged: true };
        };
        let all = if broken.len() < fewest {
            (fewest, patience) = (broken.len(), 3);
            true
        } else {
            patience -= i32::from(patience > 0);
            patience > 0
        };
        for &index in if all { &broken[..] } else { std::slice::from_ref(&last) } {
            free[index] = !free[index];
        }
    }
    scaled.apply(|value| *value = if value.is_finite() { value.max(0.0) } else { 0.0 });
    Solution { scaled, free, converged: false }
}

/// A column that the others explain to this share is collinear.
const EXPLAINED: f64 = 0.95;
/// Less than this share of its own, and no number of samples tells a column from the others.
const SAME: f64 = 1e-4;
/// The least part, of a column's length, that another column must explain to be one of those.
const PART: f64 = 0.1;

#[derive(Debug, Clone)]
pub(super) struct CollinearColumn {
    column: usize,
    /// Nothing tells it from the others, however sure its amount looks.
    pub(crate) same: bool,
    by: Vec<usize>,
}

/// The columns that others explain, best explained first, each without those before it.
///
/// The last column of `matrix` is the constant if `constant` is set. What the constant explains of
/// a column counts for nothing, or all columns that are in every sample would look alike.
pub(super) fn explained_columns(matrix: &DMatrix<f64>, constant: bool) -> Vec<CollinearColumn> {
    let size = matrix.nrows() - usize::from(constant);
    let mut part = matrix.view((0, 0), (size, size)).clone_owned();
    if constant {
        let line = matrix.view((0, size), (size, 1)).clone_owned();
        part -= &line * line.transpose() / matrix[(size, size)];
    }
    // What does not vary at all is not explained by others either.
    let varies = |index: &usize| part[(*index, *index)] > 1e-6 * matrix[(*index, *index)];
    let columns: Vec<usize> = (0..size).filter(varies).collect();
    let part = part.select_rows(&columns).select_columns(&columns);
    let mut left: Vec<usize> = (0..columns.len()).collect();
    let mut found = Vec::new();
    let Some(factors) = factor(&part, &left) else {
        return found;
    };
    let mut inverse = factors.inverse();
    loop {
        // Of equals the first one, whatever the rounding.
        let best = left.iter().copied().fold(None, |best: Option<(usize, f64)>, index| {
            let own = 1.0 / (part[(index, index)] * inverse[(index, index)]);
            match best {
                Some((_, least)) if own >= least * (1.0 - 1e-6) => best,
                _ => Some((index, own)),
            }
        });
        let Some((taken, own)) = best.filter(|(_, own)| *own <= 1.0 - EXPLAINED) else {
            return found;
        };
        left.retain(|&index| index != taken);
        let pivot = inverse[(taken, taken)];
        let explains = |index: &usize| {
            let factor = (inverse[(*index, taken)] / pivot).abs();
            factor * (part[(*index, *index)] / part[(taken, taken)]).sqrt() >= PART
        };
        let by = left.iter().filter(|index| explains(index)).map(|&index| columns[index]).collect();
        found.push(CollinearColumn { column: columns[taken], same: own < SAME, by });
        let line = inverse.column(taken).clone_owned();
        for &a in &left {
            for &b in &left {
                inverse[(a, b)] -= line[a] * line[b] / pivot;
            }
        }
    }
}

/// Groups, each sorted: a column that is not `sure` joins those of its explainers that are not sure
/// either, and one that is the same as others joins them in any case.
pub(super) fn collinear_groups(explained: &[CollinearColumn], sure: &[bool]) -> Vec<Vec<usize>> {
    let mut leader: Vec<usize> = (0..sure.len()).collect();
    for of in explained.iter().filter(|of| of.same || !sure[of.column]) {
        for &other in of.by.iter().filter(|other| of.same || !sure[**other]) {
            let (a, b) = (leader[of.column], leader[other]);
            leader
                .iter_mut()
                .filter(|leads| **leads == a.max(b))
                .for_each(|leads| *leads = a.min(b));
        }
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); sure.len()];
    for (index, &of) in leader.iter().enumerate() {
        groups[of].push(index);
    }
    groups.retain(|group| group.len() > 1);
    groups
}

/// Draws of the bootstrap, and those of a stage with many columns, which take long.
const DRAWS: usize = 200;
const DRAWS_OF_MANY: usize = 100;
const MANY_COLUMNS: usize = 128;
/// The 95 % point of the normal distribution: 5 % lie outside of the interval on each side.
pub(super) const Z95: f64 = 1.644_854;
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
        let one = |worker: usize| -> Vec<(u64, Vec<Vec<f64>>)> {
            let mut normal = normal.clone();
            let mut sums = Sums::zero(moments.width, moments.counters.len());
            let mut drawn =
                |draw| (draw, redraw(moments, &blocks, &mut normal, &mut sums, solutions, draw));
            (worker as u64..count as u64).step_by(workers).map(&mut drawn).collect()
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
                draws[counter][draw as usize * columns..][..columns].copy_from_slice(&values);
            }
        }
        let widen = BEYOND_DRAWS * student_95(blocks.len().saturating_sub(1)) / Z95
            * (rows / (rows - columns as f64).max(1.0)).sqrt();
        Self { columns, count, draws, widen }
    }

    /// The 90 % interval of a weighted sum of unknowns around its `estimate`: widened for few blocks and
    /// many unknowns, and never below 0.
    pub(crate) fn interval(
        &self,
        counter: usize,
        weights: &[(usize, f64)],
        estimate: f64,
    ) -> Option<(f64, f64)> {
        let of_draw = |draw: &[f64]| -> f64 {
            weights.iter().map(|&(column, weight)| weight * draw[column]).sum()
        };
        let draws = self.draws[counter].chunks_exact(self.columns).map(of_draw);
        let mut sums: Vec<f64> = draws.filter(|sum| sum.is_finite()).collect();
        if sums.len() < self.count / 2 {
            return None;
        }
        sums.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| sums[((sums.len() - 1) as f64 * share).round() as usize];
        let low = estimate - self.widen * (estimate - at(0.05)).max(0.0);
        let high = estimate + self.widen * (at(0.95) - estimate).max(0.0);
        Some((low.max(0.0), high))
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
pub(super) fn limits_at_zero(
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

/// How far the middle of what a call moves may lie from the middle of the call, as a share of its
/// duration: one standard deviation from kind to kind. Draws do not show it, since the calls of a
/// kind are all alike. With this the intervals hold every operand of a recorded decode, where two
/// kinds of a graph have the same rhythm, too.
const OFF_CENTRE: f64 = 0.025;

/// What each kind's timing does to each unknown.
pub(super) struct Timing {
    /// In the scaled unknowns: row by column, the error of the one if the other is off by one
    /// standard deviation.
    errors: DMatrix<f64>,
}

impl Timing {
    /// `mean_ns` has the mean duration of each column's calls.
    pub(crate) fn new(
        moments: &Moments,
        normal: &Normal,
        solution: &Solution,
        mean_ns: &[f64],
    ) -> Self {
        let size = normal.active.len();
        let mut errors = DMatrix::zeros(size, size);
        let free: Vec<usize> = (0..size).filter(|&index| solution.free[index]).collect();
        let Some(factors) = factor(&normal.matrix, &free) else {
            return Self { errors };
        };
        // How the products with each column change if a kind's calls are late.
        let late = |row: usize, index: usize| -> f64 {
            let column = normal.active[index];
            let by =
                mean_ns.get(column).map_or(0.0, |mean| mean * OFF_CENTRE) * solution.scaled[index];
            let cell = moments.cross[normal.active[row] * moments.width + column];
            by * cell / (normal.scale[row] * normal.scale[index])
        };
        let solved = factors.solve(&DMatrix::from_fn(free.len(), free.len(), |row, column| {
            late(free[row], free[column])
        }));
        for row in 0..size {
            if let Ok(at) = free.binary_search(&row) {
                for (column, &index) in free.iter().enumerate() {
                    errors[(row, index)] = solved[(at, column)];
                }
                continue;
            }
            let others = normal.matrix.column(row).select_rows(&free);
            let left = (normal.matrix[(row, row)] - others.dot(&factors.solve(&others))).max(1e-9);
            for (column, &index) in free.iter().enumerate() {
                errors[(row, index)] =
                    (late(row, index) - others.dot(&solved.column(column))) / left;
            }
        }
        Self { errors }
    }

    /// The standard deviation of a weighted sum of the scaled unknowns.
    pub(crate) fn deviation(&self, weights: &[(usize, f64)]) -> f64 {
        let of = |index: usize| -> f64 {
            weights.iter().map(|&(at, weight)| weight * self.errors[(at, index)]).sum()
        };
        (0..self.errors.ncols()).map(|index| of(index).powi(2)).sum::<f64>().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_that_would_be_negative_is_held_at_zero() {
        // The unconstrained solution is (-1, 3).
        let matrix = DMatrix::from_row_slice(2, 2, &[1.0, 0.5, 0.5, 1.0]);
        let target = DVector::from_row_slice(&[0.5, 2.5]);
        for guess in [[true, true], [false, false], [true, false]] {
            let solution = solve(&matrix, &target, &guess, MAX_EXCHANGES);
            assert!(solution.converged);
            assert!(
                solution.scaled[0] == 0.0 && (solution.scaled[1] - 2.5).abs() < 1e-9,
                "{solution:?}"
            );
        }
    }

    #[test]
    fn a_column_joins_all_that_explain_it_and_no_other() {
        // Over four samples: b, c, b + c and a column of its own.
        let design = DMatrix::from_row_slice(
            4,
            4,
            &[1., 0., 1., 0., 0., 1., 1., 0., 1., 1., 2., 0., 0., 0., 0., 1.],
        );
        let matrix = design.transpose() * &design + DMatrix::identity(4, 4) * 1e-9;
        assert_eq!(
            collinear_groups(&explained_columns(&matrix, false), &[true; 4]),
            [vec![0, 1, 2]]
        );
    }
}
