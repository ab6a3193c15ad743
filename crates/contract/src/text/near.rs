//! A word that stands for nothing -> the one that was probably meant.

use super::listed;

/// Likeness (Jaro-Winkler) below which nobody meant the other word.
const LEAST_LIKENESS: f64 = 0.78;
/// Fewer letters are not taken for the beginning of a longer word.
const LEAST_BEGUN: usize = 3;
/// Names in a message of at most three lines.
const LISTED: usize = 24;
const LISTED_BEHIND_THE_NEAREST: usize = 8;

/// What to say behind a `word` that is none of the candidates; nothing where none is like it.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let near = most_like(word, candidates);
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// What to say behind a `word` that is none of the names that exist: the one that was probably meant, and the others.
pub fn instead(word: &str, names: &[&str]) -> String {
    let near = did_you_mean(word, names.iter().copied());
    match (names.is_empty(), near.is_empty()) {
        (true, _) => "; there are none".to_owned(),
        (false, true) if names.len() == 1 => format!("; the only one is {}", listed(names, LISTED)),
        (false, true) => format!("; there are {}", listed(names, LISTED)),
        // The only one is named.
        (false, false) if names.len() == 1 => near,
        (false, false) => format!("{near} There are {}", listed(names, LISTED_BEHIND_THE_NEAREST)),
    }
}

/// The candidate that `word` was probably meant to be.
pub fn most_like<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let likely = |candidate: &'a str| {
        let lower = candidate.to_lowercase();
        // A word that was not typed to its end.
        let is_begun = word.chars().count() >= LEAST_BEGUN && lower.starts_with(&word);
        let likeness = likeness(&word, &lower) + if is_begun { 1.0 } else { 0.0 };
        (likeness >= LEAST_LIKENESS).then_some((likeness, candidate))
    };
    let likely = candidates.into_iter().filter_map(likely);
    likely.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, candidate)| candidate)
}

/// Of two dotted keys, the heads and the last parts count alike: a long head that is right makes no other key of its
/// group a likely one. The end of a key finds it: `timeout_s` is `run.timeout_s`.
fn likeness(word: &str, candidate: &str) -> f64 {
    match (split(word), split(candidate)) {
        (Some((head, last)), Some((of_head, of_last))) => {
            let last = likeness_of_words(last, of_last);
            last.min((likeness(head, of_head) + last) / 2.0)
        }
        (None, Some((_, last))) => likeness_of_words(word, last) * 0.99,
        _ => likeness_of_words(word, candidate),
    }
}

/// Likeness of two words, 0 to 1: 0 where more than half of the letters would have to change, as from `sh` to `schema`.
/// Two words that differ by one slip always count as alike: Jaro-Winkler rates short ones, such as `rnu` and `run`, too
/// low.
fn likeness_of_words(word: &str, candidate: &str) -> f64 {
    let length = word.chars().count().max(candidate.chars().count());
    match (strsim::osa_distance(word, candidate), length) {
        (1, 3..) => strsim::jaro_winkler(word, candidate).max(LEAST_LIKENESS),
        (slips, _) if slips * 2 <= length => strsim::jaro_winkler(word, candidate),
        _ => 0.0,
    }
}

fn split(key: &str) -> Option<(&str, &str)> {
    key.rsplit_once(['.', '/'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        let commands = ["run", "demo", "report", "diff", "ask", "merge", "export", "schema"];
        for (word, meant) in [
            ("demoo", "demo"),
            ("reprot", "report"),
            ("dif", "diff"),
            ("marge", "merge"),
            ("ASK", "ask"),
            ("rnu", "run"),
            ("rn", "run"),
            ("exp", "export"),
        ] {
            assert_eq!(most_like(word, commands), Some(meant), "{word}");
        }
        for word in ["foo", "python", "ls", "sh", "a.py", "", "."] {
            assert_eq!(most_like(word, commands), None, "{word}");
        }
        assert_eq!(did_you_mean("sumary", ["summary", "time"]), "; did you mean `summary`?");
        assert_eq!(did_you_mean("x", []), "");
        assert_eq!(most_like("stat", ["status", "start"]), Some("status"));
        let tables = ["kernels", "stages"];
        assert_eq!(
            instead("kernel", &tables),
            "; did you mean `kernels`? There are kernels, stages"
        );
        assert_eq!(instead("x", &tables), "; there are kernels, stages");
        assert_eq!(instead("x", &[]), "; there are none");
    }

    #[test]
    fn a_key_is_like_another_if_its_last_part_is() {
        let keys = ["run.mode", "run.timeout_s", "profiling.collector.flush_ms", "profiling/ncu"];
        for (word, meant) in [
            ("run.mod", Some("run.mode")),
            ("runn.mode", Some("run.mode")),
            ("timeout", Some("run.timeout_s")),
            ("profiling.colector.flush", Some("profiling.collector.flush_ms")),
            ("collector.flush", Some("profiling.collector.flush_ms")),
            ("profiling/ncv", Some("profiling/ncu")),
            ("profiling.nscope", None),
        ] {
            assert_eq!(most_like(word, keys), meant, "{word}");
        }
        let presets = ["nsys.default", "nsys.gated", "ncu.hopper"];
        assert_eq!(most_like("nsys.gate", presets), Some("nsys.gated"));
        assert_eq!(most_like("ncu.hoper", presets), Some("ncu.hopper"));
    }
}
