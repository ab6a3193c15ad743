//! Expressions of one run of ncu -> such as it can match beside each other.

use super::{Expression, QUANTIFIERS, REGEX, tokens};

/// Makes regular expressions of all expressions of a run where one of them is, the nested ones last:
/// what stands behind a nested regular expression ncu matches with nothing (seen with 2025.3).
pub fn alike(lists: [&mut Vec<String>; 2], start_end: bool) {
    if !lists.iter().any(|list| list.iter().any(|text| text.starts_with(REGEX))) {
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

/// What is wrong with several expressions together: see [`alike`].
///
/// # Errors
/// More than one of them is nested, and one is a regular expression.
pub fn together(mut expressions: Vec<String>, start_end: bool) -> Result<(), String> {
    alike([&mut expressions, &mut Vec::new()], start_end);
    let regex = expressions.iter().any(|text| text.starts_with(REGEX));
    let nested = expressions.iter().filter(|text| is_nested(text)).count();
    if regex && nested > 1 {
        return Err(
            "beside globs and regular expressions ncu finds one nested expression only (with \
                    a / between names): leave out the globs, or all nested ones but one"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether an expression of push/pop ranges names more than one.
fn is_nested(text: &str) -> bool {
    let range = text.strip_suffix('/').unwrap_or(text);
    range.replace(r"\/", "").contains('/')
}
