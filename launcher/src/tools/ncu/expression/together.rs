//! Expressions of one run of ncu -> such as it can match beside each other.

use super::read::is_nested;
use super::{Expression, QUANTIFIERS, REGEX, tokens};

/// Makes regular expressions of all expressions of a run where one of them is, the nested ones last:
/// what stands behind a nested regular expression ncu matches with nothing (seen with 2025.3).
pub fn alike(lists: [&mut Vec<String>; 2], start_end: bool) {
    if !has_regex(&lists) {
        return;
    }
    for list in lists {
        for text in list.iter_mut().filter(|text| !text.starts_with(REGEX)) {
            // Here nothing is a glob any more: what is not escaped is ncu's.
            if let Ok(expression) = Expression::parse(&tokens(text, QUANTIFIERS), start_end) {
                *text = expression.text(start_end, true);
            }
        }
        list.sort_by_key(|text| is_nested(text));
    }
}

/// Whether ncu matches all expressions of a run: those to include and those to exclude. One regular
/// expression in either list makes both lists regular expressions, see [`alike`].
///
/// # Errors
/// The expressions that match nothing: one is a regular expression, and these stand behind a nested
/// one of their list.
pub fn together(lists: [&Vec<String>; 2]) -> Result<(), Vec<String>> {
    let behind = |list: &&Vec<String>| {
        list.iter().filter(|text| is_nested(text)).skip(1).cloned().collect::<Vec<_>>()
    };
    let lost: Vec<String> = lists.iter().flat_map(behind).collect();
    if has_regex(&lists) && !lost.is_empty() { Err(lost) } else { Ok(()) }
}

fn has_regex<L: AsRef<Vec<String>>>(lists: &[L]) -> bool {
    lists.iter().any(|list| list.as_ref().iter().any(|text| text.starts_with(REGEX)))
}
