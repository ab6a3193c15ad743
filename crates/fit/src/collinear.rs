//! Which columns rise and fall together, so that samples cannot tell them apart.

use nalgebra::DMatrix;

use crate::nnls::factor;

/// A column that the others explain to this share joins them.
const EXPLAINED: f64 = 0.95;
/// The least part, of a column's length, that another column must explain to be one of those.
const PART: f64 = 0.1;

/// Groups of columns that cannot be told apart, each sorted; `columns` are the candidates.
///
/// The column that is explained best is taken first. It joins those that explain it, and the search
/// goes on without it.
pub(crate) fn groups(matrix: &DMatrix<f64>, columns: &[usize]) -> Vec<Vec<usize>> {
    let part = matrix.select_rows(columns).select_columns(columns);
    let every: Vec<usize> = (0..columns.len()).collect();
    let Some(factors) = factor(&part, &every) else {
        return Vec::new();
    };
    let mut inverse = factors.inverse();
    let mut left = every.clone();
    let mut leader = every;
    loop {
        let unexplained = |index: usize| 1.0 / (part[(index, index)] * inverse[(index, index)]);
        // Of equals the first one, whatever the rounding.
        let best = left.iter().copied().fold(None, |best: Option<(usize, f64)>, index| {
            let here = unexplained(index);
            match best {
                Some((_, least)) if here >= least * (1.0 - 1e-6) => best,
                _ => Some((index, here)),
            }
        });
        let Some((taken, share)) = best else { break };
        if share > 1.0 - EXPLAINED {
            break;
        }
        let pivot = inverse[(taken, taken)];
        let length = part[(taken, taken)].sqrt();
        left.retain(|&index| index != taken);
        for &index in &left {
            let explains =
                (inverse[(index, taken)] / pivot).abs() * part[(index, index)].sqrt() / length;
            if explains >= PART {
                let (from, to) =
                    (leader[taken].max(leader[index]), leader[taken].min(leader[index]));
                leader.iter_mut().filter(|of| **of == from).for_each(|of| *of = to);
            }
        }
        let line = inverse.column(taken).clone_owned();
        for &a in &left {
            for &b in &left {
                inverse[(a, b)] -= line[a] * line[b] / pivot;
            }
        }
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); columns.len()];
    for (index, &of) in leader.iter().enumerate() {
        groups[of].push(columns[index]);
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
        assert_eq!(groups(&matrix, &[0, 1, 2, 3]), [vec![0, 1, 2]]);
    }
}
