//! Ranges that the collector saw -> words for a finding on a filter that met none of them.

/// Texts of a list that are shown.
const SHOWN: usize = 8;

/// A sentence that names `ranges`, or says that there are none.
pub(crate) fn saw(ranges: &[String]) -> String {
    if ranges.is_empty() {
        return "the collector saw no range".to_owned();
    }
    format!("the collector saw {}", listed(ranges))
}

/// The first of several texts, and how many more there are.
pub(crate) fn listed(texts: &[String]) -> String {
    let shown = texts.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match texts.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
