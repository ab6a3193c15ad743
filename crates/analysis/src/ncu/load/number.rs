//! A cell of a table -> a number, strictly: what is not wholly a number is none.

/// Reads `1,234.5`, `-3`, `1e9`. Nothing for empty cells, `n/a`, words, and commas that group no
/// thousands. Non-finite values are read, so that they can be told.
pub(super) fn number(cell: &str) -> Option<f64> {
    let text = cell.trim();
    // `f64` also reads `inf`, `infinity` and `nan` in any case, which is wanted here.
    if text.contains(',') { grouped(text)?.parse().ok() } else { text.parse().ok() }
}

/// The text without its commas, where they group thousands.
fn grouped(text: &str) -> Option<String> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (unsigned, ""),
    };
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let good = (1..=3).contains(&first.len())
        && digits(first)
        && digits(fraction)
        && groups.all(|group| group.len() == 3 && digits(group));
    good.then(|| text.replace(',', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_ncu_prints_them() {
        for (cell, expected) in [
            ("5,843", 5843.0),
            ("1,060,748,243,478,260.88", 1_060_748_243_478_260.9),
            ("-1,234", -1234.0),
            (" 0.055900 ", 0.0559),
            ("0", 0.0),
            ("1.5e3", 1500.0),
        ] {
            assert_eq!(number(cell), Some(expected), "{cell}");
        }
    }

    #[test]
    fn what_is_no_number_is_none() {
        for cell in [
            "",
            "n/a",
            "N/A",
            "(128, 1, 1)",
            "1,23",
            "12,3456",
            ",123",
            "1,234,",
            "1,2e3",
            "PolicySpread",
            "1 (1; 2)",
            "1.234,5",
        ] {
            assert_eq!(number(cell), None, "{cell}");
        }
    }

    #[test]
    fn values_that_are_not_finite_are_seen() {
        assert!(number("nan").is_some_and(f64::is_nan));
        assert!(number("inf").is_some_and(f64::is_infinite) && number("-inf").is_some());
    }
}
