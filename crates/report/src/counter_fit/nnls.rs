//! Non-negative least squares from sums of products, by block principal pivoting.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

use crate::counter_fit::moments::Sums;

/// Added to the diagonal of the scaled matrix, whose diagonal is 1: equal columns then share evenly.
const RIDGE: f64 = 1e-9;
/// Exchanges before the solver gives up. Ten are usual.
pub(crate) const MAX_EXCHANGES: usize = 100;
/// Exchanges before the solver gives up where the free unknowns are nearly known.
pub(crate) const FEW_EXCHANGES: usize = 20;

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
        let mut normal = Self { active, scale, matrix: DMatrix::zeros(0, 0) };
        let size = normal.active.len();
        normal.matrix = DMatrix::zeros(size, size);
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
    pub(crate) fn never_idle(&self) -> bool {
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
    pub(crate) fn without_last(&self) -> Self {
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

    /// The right-hand side for a counter.
    pub(crate) fn target(&self, sums: &Sums, width: usize, counter: usize) -> DVector<f64> {
        let product = &sums.product[counter * width..][..width];
        DVector::from_iterator(
            self.active.len(),
            self.active.iter().zip(&self.scale).map(|(&column, scale)| product[column] / scale),
        )
    }
}

/// A solution, in the scaled unknowns, and which of them are not held at zero.
#[derive(Debug, Clone)]
pub(crate) struct Solution {
    pub(crate) scaled: DVector<f64>,
    pub(crate) free: Vec<bool>,
    pub(crate) converged: bool,
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
pub(crate) fn solve(
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
}
