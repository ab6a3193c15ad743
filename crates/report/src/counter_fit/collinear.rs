//! Which columns rise and fall together, so that samples cannot tell them apart.

use nalgebra::DMatrix;

use crate::counter_fit::nnls::factor;

/// A column that the others explain to this share is collinear.
const EXPLAINED: f64 = 0.95;
/// Less than this share of its own, and no number of samples tells a column from the others.
const SAME: f64 = 1e-4;
/// The least part, of a column's length, that another column must explain to be one of those.
const PART: f64 = 0.1;

/// A column that others explain.
#[derive(Debug, Clone)]
pub(crate) struct Explained {
    column: usize,
    /// Nothing tells it from the others, however sure its amount looks.
    pub(crate) same: bool,
    by: Vec<usize>,
}

/// The columns that others explain, best explained first, each without those before it.
///
/// The last column of `matrix` is the constant if `constant` says so. What the constant explains of
/// a column counts for nothing, or all columns that are in every sample would look alike.
pub(crate) fn explained(matrix: &DMatrix<f64>, constant: bool) -> Vec<Explained> {
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
        found.push(Explained { column: columns[taken], same: own < SAME, by });
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
pub(crate) fn groups(explained: &[Explained], sure: &[bool]) -> Vec<Vec<usize>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_joins_all_that_explain_it_and_no_other() {
        // Over four samples: b, c, b + c and a column of its own.
        let design = DMatrix::from_row_slice(
            4,
            4,
            &[1., 0., 1., 0., 0., 1., 1., 0., 1., 1., 2., 0., 0., 0., 0., 1.],
        );
        let matrix = design.transpose() * &design + DMatrix::identity(4, 4) * 1e-9;
        assert_eq!(groups(&explained(&matrix, false), &[true; 4]), [vec![0, 1, 2]]);
    }
}
