//! Start/end ranges of one name that were open at the same time on a thread which launched work -> what to
//! tell: they are a stage with everything in it, where requests were meant.

use stage2_contract::text::shorten;
use stage2_model::{Finding, PathRow};

/// Characters of a name.
const NAME_LIMIT: usize = 60;

/// What to tell of the row with the most kernels among those at the indices `side_by_side`.
pub(super) fn finding(rows: &[PathRow], side_by_side: &[usize]) -> Option<Finding> {
    let rows = side_by_side.iter().filter_map(|&index| rows.get(index));
    let kernels = |row: &&PathRow| row.kernels_inclusive.unwrap_or(0);
    let row = rows.filter(|row| kernels(row) > 0).max_by_key(kernels)?;
    let name = shorten(&row.name, NAME_LIMIT);
    Some(Finding::warning(
        format!("start/end ranges of the name {name} overlap, and kernels were launched in them"),
        format!(
            "{name} is a stage with all ranges of that thread in it, since work belongs to every range \
             that is open at its launch; of several instances it counts for the one that began last"
        ),
        "to have the ranges within as stages, open these ranges on a thread that launches nothing, or \
         in an NVTX domain of their own that report.library_domains names",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, kernels: Option<u64>) -> PathRow {
        PathRow { name: name.into(), kernels_inclusive: kernels, ..PathRow::default() }
    }

    #[test]
    fn the_row_with_the_most_kernels_is_told_with_the_remedy() {
        let rows = [row("decode", Some(900)), row("session", Some(9)), row("request", Some(90))];
        let finding = finding(&rows, &[1, 2]).expect("a finding");
        assert!(finding.what.contains("the name request overlap"), "{finding}");
        assert!(finding.remedy.contains("report.library_domains"), "{finding}");
    }

    #[test]
    fn ranges_without_kernels_and_ranges_that_follow_each_other_are_left_alone() {
        assert_eq!(finding(&[row("request", Some(0)), row("other", None)], &[0, 1]), None);
        assert_eq!(finding(&[row("request", Some(90))], &[]), None);
    }
}
