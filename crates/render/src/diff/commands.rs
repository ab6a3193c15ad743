//! The commands of both sides -> what tells them apart, with the same words around it on both.

/// Words at the head of both commands: `python3 -m MODULE`.
const HEAD: usize = 3;
/// Longer commands are not compared by their words: the table grows with the square.
const MOST_WORDS: usize = 512;
/// Stands for words that both commands have.
pub(super) const SHARED: &str = "…";

/// Both commands without most of the words that they share, which are left out at the same places; nothing of equal ones.
pub(super) fn told_apart(before: &str, after: &str) -> Option<[String; 2]> {
    let [a, b] = [before, after].map(|text| text.split(' ').collect::<Vec<&str>>());
    if before == after || a.len().max(b.len()) > MOST_WORDS {
        return None;
    }
    let runs = runs(&a, &b);
    // Nothing in common: they are whole.
    if !runs.iter().any(|run| run.is_shared) {
        return None;
    }
    let mut texts: [Vec<&str>; 2] = [Vec::new(), Vec::new()];
    let last = runs.len() - 1;
    for (at, run) in runs.iter().enumerate() {
        if !run.is_shared {
            texts.iter_mut().zip(&run.words).for_each(|(text, words)| text.extend(words));
            continue;
        }
        let [words, _] = &run.words;
        let head = if at == 0 { HEAD } else { 0 };
        // An option, or one with its value.
        let tail = match words.last() {
            _ if at == last => 0,
            Some(word) if word.starts_with('-') => 1,
            _ => 2,
        };
        let kept: Vec<&str> = match words.len() > head + tail + 1 {
            true => {
                let (first, others) = words.split_at(head);
                let (_, end) = others.split_at(others.len() - tail);
                first.iter().chain(&[SHARED]).chain(end).copied().collect()
            }
            false => words.clone(),
        };
        texts.iter_mut().for_each(|text| text.extend(&kept));
    }
    Some(texts.map(|text| text.join(" ")))
}

/// Words that follow each other on both sides.
struct Words<'w> {
    is_shared: bool,
    words: [Vec<&'w str>; 2],
}

/// The longest common sequence of words, and what stands between them on each side.
fn runs<'w>(a: &[&'w str], b: &[&'w str]) -> Vec<Words<'w>> {
    // longest[i][j]: of a from i on, and b from j on.
    let mut longest = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, x) in a.iter().enumerate().rev() {
        for (j, y) in b.iter().enumerate().rev() {
            longest[i][j] = match x == y {
                true => longest[i + 1][j + 1] + 1,
                false => longest[i + 1][j].max(longest[i][j + 1]),
            };
        }
    }
    let mut runs: Vec<Words<'w>> = Vec::new();
    let mut add = |is_shared: bool, x: Option<&'w str>, y: Option<&'w str>| {
        if runs.last().is_none_or(|run| run.is_shared != is_shared) {
            runs.push(Words { is_shared, words: [Vec::new(), Vec::new()] });
        }
        if let Some(run) = runs.last_mut() {
            run.words[0].extend(x);
            run.words[1].extend(y);
        }
    };
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) if x == y => {
                add(true, Some(x), Some(y));
                (i, j) = (i + 1, j + 1);
            }
            (Some(x), y) if y.is_none() || longest[i + 1][j] >= longest[i][j + 1] => {
                add(false, Some(x), None);
                i += 1;
            }
            (_, y) => {
                add(false, None, y.copied());
                j += 1;
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_commands_leave_out_the_same_words() {
        let common =
            "--gpu-memory-utilization 0.5 --no-enable-prefix-caching --host 127.0.0.1 --port 8000";
        let old =
            format!("vllm serve model --seed 0 {common} --scheduler-cls sorting.Sorting --end");
        let new = format!("vllm serve model --seed 0 {common} --end");
        let said = |a: &str, b: &str| told_apart(a, b).map(|sides| sides.join(" | "));
        assert_eq!(
            said(&old, &new).as_deref(),
            Some(
                "vllm serve model … --port 8000 --scheduler-cls sorting.Sorting --end | vllm serve model … --port 8000 --end"
            )
        );
        let (old, new) =
            (format!("run {common} --n 1 {common}"), format!("run {common} --n 2 {common}"));
        let value = "run --gpu-memory-utilization 0.5 … --n 1 … | run --gpu-memory-utilization 0.5 … --n 2 …";
        assert_eq!(said(&old, &new).as_deref(), Some(value));
        assert_eq!(said(&old, &old), None);
        assert_eq!(said("a b", "c d"), None, "they are whole");
    }
}
