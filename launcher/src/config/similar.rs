//! A word that is no key or preset -> the one that was probably meant.

/// What to say behind an unknown `word`; nothing without candidates.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let near = most_like(word, candidates);
    near.map_or_else(String::new, |key| format!("; the nearest valid one is `{key}`"))
}

/// The candidate most like `word`.
pub(super) fn most_like<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    candidates
        .into_iter()
        .map(|candidate| {
            // `timeout_s` alone should find `run.timeout_s`: the last part counts as well.
            let whole = strsim::jaro_winkler(word, candidate);
            let part = strsim::jaro_winkler(&last(word), &last(candidate));
            (whole.max(part * 0.99), candidate)
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_finds_its_neighbour() {
        let keys = ["run.mode", "run.timeout_s", "profiling.collector.flush_ms"];
        let near = |word| most_like(word, keys).unwrap_or_default();
        assert_eq!(near("run.mod"), "run.mode");
        assert_eq!(near("timeout"), "run.timeout_s");
        assert_eq!(near("profiling.colector.flush"), "profiling.collector.flush_ms");
        assert_eq!(most_like("x", []), None);
    }
}
