//! Two small samples -> the probability that ranks as different as theirs come about by chance: the exact
//! Mann-Whitney test, two-sided, with ties.
//!
//! It takes no distribution for granted, which nobody knows of the runs of a benchmark, and is exact for
//! the three to ten runs that people have.

/// More values are not tested exactly: the table of sums grows with the cube.
const MOST: usize = 120;

/// The probability; nothing for an empty sample, or for too many values.
pub(crate) fn p_value(before: &[f64], after: &[f64]) -> Option<f64> {
    let all = before.len() + after.len();
    if before.is_empty() || after.is_empty() || !is_tested(before.len(), after.len()) {
        return None;
    }
    let ranks = doubled_ranks(before, after);
    let (of_before, _) = ranks.split_at(before.len());
    let observed: usize = of_before.iter().sum();
    let total: usize = ranks.iter().sum();
    // ways[n][s]: subsets of n ranks whose sum is s.
    let mut ways = vec![vec![0.0f64; total + 1]; before.len() + 1];
    if let Some(none) = ways.first_mut().and_then(|row| row.first_mut()) {
        *none = 1.0;
    }
    for &rank in &ranks {
        for size in (1..=before.len()).rev() {
            let (smaller, larger) = ways.split_at_mut(size);
            let (Some(from), Some(to)) = (smaller.last(), larger.first_mut()) else { continue };
            for (to, from) in to.iter_mut().skip(rank).zip(from) {
                *to += from;
            }
        }
    }
    let sums = ways.last()?;
    // As far from the middle as what was seen; four times the distance, to stay with integers.
    let far = |sum: usize| (sum * all * 2).abs_diff(total * before.len() * 2);
    let (mut as_far, mut every) = (0.0, 0.0);
    for (sum, count) in sums.iter().enumerate() {
        every += count;
        if far(sum) >= far(observed) {
            as_far += count;
        }
    }
    (every > 0.0).then_some(as_far / every)
}

/// The smallest probability that samples of these sizes can have: that of the two orders, of all, in
/// which the sides do not mix.
pub(crate) fn smallest_p(before: usize, after: usize) -> f64 {
    let fewer = before.min(after);
    let orders: f64 = (1..=fewer).map(|at| (before.max(after) + at) as f64 / at as f64).product();
    (2.0 / orders).min(1.0)
}

/// Whether so many runs are tested.
pub(crate) fn is_tested(before: usize, after: usize) -> bool {
    before + after <= MOST
}

/// Twice the rank of each value, from 1 on; equal values share the mean of their ranks.
fn doubled_ranks(before: &[f64], after: &[f64]) -> Vec<usize> {
    let all = || before.iter().chain(after);
    let rank = |value: &f64| {
        let below = all().filter(|other| *other < value).count();
        let equal = all().filter(|other| *other == value).count().max(1);
        2 * below + equal + 1
    };
    all().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-12)
    }

    #[test]
    fn probabilities_are_those_of_the_tables() {
        // Complete separation: 2 of C(n, m) orders.
        assert!(close(p_value(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 2.0 / 20.0));
        assert!(close(p_value(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]), 2.0 / 70.0));
        // U = 1 of 4 against 4: 4 of 70.
        assert!(close(p_value(&[1.0, 2.0, 3.0, 5.0], &[4.0, 6.0, 7.0, 8.0]), 4.0 / 70.0));
        assert!(close(p_value(&[1.0, 1.0], &[1.0, 1.0]), 1.0));
        assert_eq!(p_value(&[], &[1.0]), None);
        assert!(
            close(Some(smallest_p(3, 3)), 2.0 / 20.0) && close(Some(smallest_p(5, 3)), 2.0 / 56.0)
        );
    }

    #[test]
    fn sides_may_be_swapped() {
        let (a, b) = ([3.0, 1.0, 4.0, 1.5], [9.0, 2.6, 5.3]);
        assert_eq!(p_value(&a, &b), p_value(&b, &a));
    }
}
