//! Numbers and texts of a report -> cells and sentences.

use stage2_contract::text::numbers::ABSENT;
use stage2_contract::text::{plain, shorten};

/// Characters of a text in a cell.
const TEXT_LIMIT: usize = 600;

/// Text of a report as plain Markdown text.
pub(crate) fn text(text: &str) -> String {
    plain(&shorten(text, TEXT_LIMIT))
}

/// A number with `digits` decimals; absent where there is none, or none that can be written.
pub(crate) fn decimal(value: Option<f64>, digits: usize) -> String {
    match value {
        Some(value) if value.is_finite() && value.abs() < 1e18 => format!("{value:.digits$}"),
        Some(_) => "(no number)".to_owned(),
        None => ABSENT.to_owned(),
    }
}

/// A share of a peak, 0 to 1, as a percentage. Beyond the peak something was counted or looked up
/// wrongly, and the number says so wherever it goes.
pub(crate) fn share_of_peak(share: Option<f64>) -> String {
    let percent = decimal(share.map(|share| share * 100.0), 3);
    let is_possible = |share: f64| !share.is_finite() || (0.0..=1.0).contains(&share);
    if share.is_none_or(is_possible) { percent } else { format!("{percent} (not possible)") }
}

/// A sentence that may stand at the beginning of a line: with a full stop, unless it ends in one or
/// in a mark like it, and without being a heading or a list.
pub(crate) fn sentence(words: &str) -> String {
    let mut words = text(words.trim());
    let digits = words.chars().take_while(char::is_ascii_digit).count();
    if words.get(digits..).is_some_and(|rest| rest.starts_with(['.', ')', '#', '-', '+', '='])) {
        words.insert(digits, '\\');
    }
    if words.ends_with(['.', '!', '?', ':']) { words } else { format!("{words}.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_be_are_marked() {
        assert_eq!(decimal(None, 3), ABSENT);
        assert_eq!(decimal(Some(1.0005), 3), "1.000");
        for absurd in [f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(decimal(Some(absurd), 3), "(no number)");
            assert!(share_of_peak(Some(absurd)).starts_with("(no number)"));
        }
        assert_eq!(share_of_peak(Some(0.021011)), "2.101");
        assert_eq!(share_of_peak(Some(1.2)), "120.000 (not possible)");
        assert_eq!(share_of_peak(Some(-0.5)), "-50.000 (not possible)");
    }

    #[test]
    fn sentences_end() {
        assert_eq!(sentence(" GPU idle\n"), "GPU idle.");
        assert_eq!(sentence("Why?"), "Why?");
        assert_eq!(sentence("# no heading"), "\\# no heading.");
        assert_eq!(sentence("- no list"), "\\- no list.");
        assert_eq!(sentence("12. no list"), "12\\. no list.");
        assert_eq!(sentence("12.5 % of all"), "12\\.5 % of all.");
    }
}
