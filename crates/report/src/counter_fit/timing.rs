//! What an amount is off by if calls move their amounts earlier or later than the model says.

use nalgebra::DMatrix;

use crate::counter_fit::moments::Moments;
use crate::counter_fit::nnls::{Normal, Solution, factor};

/// How far the middle of what a call moves may lie from the middle of the call, as a share of its
/// duration: one standard deviation from kind to kind. Draws do not show it, since the calls of a
/// kind are all alike. With this the intervals hold every operand of a recorded decode, where two
/// kinds of a graph have the same rhythm, too.
const OFF_CENTRE: f64 = 0.025;

/// What each kind's timing does to each unknown.
pub(crate) struct Timing {
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
