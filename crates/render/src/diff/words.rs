//! What the words and numbers of a page mean.

use stage2_diff::Comparison;

use crate::table::paragraph;

/// What the words of the differences on a page mean.
pub(super) fn words(page: &str) -> String {
    let used = WORDS.iter().filter(|(words, _)| words.split('/').any(|word| page.contains(word)));
    let line =
        |(words, means): &(&str, &str)| format!("- *{}*: {means}\n", words.replace('/', "*, *"));
    let used: String = used.map(line).collect();
    if used.is_empty() { used } else { format!("What the words mean:\n\n{used}\n") }
}

/// The words that say whether a number changed.
const WORDS: [(&str, &str); 9] = [
    ("better/worse", "a significant change, as defined under Noise"),
    (
        "longer/shorter/higher/lower",
        "a significant change of a number that is neither better nor worse by itself (such as a single kernel), or \
         that too few runs have for a test",
    ),
    ("(minor)", "less than 2 % of the change in mean step time"),
    ("within noise", "the interval includes 0, or the change is less than ±"),
    (
        "too small",
        "beyond noise, but less than the minimum change that is given under Noise, or a cause of less than 1 % of the \
         idle time, or a kernel of less than 0.1 % of the GPU work",
    ),
    (
        "inconclusive",
        "each run has only one value, or the noise or the interval includes both 0 and twice or half the old value",
    ),
    ("equal", "the change and its interval round to 0.0 %"),
    ("new/gone", "present on one side only (or 0.000 ms on the other)"),
    (
        "not comparable",
        "the sides do different amounts of work, time different things, or differ in GPU, model or program",
    ),
];

/// How the numbers of several runs are combined in a table without parts of a step.
pub(super) const MEDIANS: &str = "Before and after are medians over the runs of each side.";
/// How the numbers of several runs are combined in a table of the parts of a step.
pub(super) const MEANS: &str =
    "Before and after are means over the runs of each side, because only means add up.";
/// How the numbers of several runs are combined in a table of parts and other numbers.
pub(super) const MIXED: &str = "Over the runs of each side, the times of the window, of its busy and idle parts and of GPU work are means, \
                     as in the bars; all other numbers are medians.";

/// The caption of a table of several runs.
pub(super) fn caption(of: &Comparison, said: &str) -> String {
    if of.is_of_two_runs() { String::new() } else { paragraph(said) }
}
