//! Several texts -> the first of them in a sentence, and how many more there are.

/// The first `most` of several texts, and how many more there are: `a, b and 3 more`.
pub fn listed(texts: &[impl AsRef<str>], most: usize) -> String {
    let shown: Vec<&str> = texts.iter().take(most).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match texts.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_texts_are_named_and_the_others_counted() {
        assert_eq!(listed(&["a", "b"], 2), "a, b");
        assert_eq!(listed(&["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(listed(&[] as &[&str], 2), "");
    }
}
