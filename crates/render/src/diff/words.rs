//! What the words and numbers of a page mean.

use stage2_diff::{Comparison, Difference, GONE, StageChange, signed_time};
use stage2_model::{Severity, times_faster};

use super::{parts, screen};
use crate::table::paragraph;

/// `decode is 1.39x faster (gone: priority (sorting_scheduler.py), idle -0.89 ms); prefill is 1.22x slower (mostly idle:
/// launch gaps, +2.77 ms)`: the verdict for those who do not compare often, with the part that most of each change is in.
/// Nothing where the median and the mean of a stage disagree, or calls run side by side on one side only.
fn in_words(of: &Comparison, name_chars: usize) -> Option<String> {
    let changed = || of.stages.iter().find(|stage| changed_time(stage).is_some());
    let first = screen::pictured(of).or_else(changed).filter(|_| of.unlike.is_empty())?;
    // One factor would say less than the truth.
    let is_torn = of.stages.iter().any(|stage| stage.opposed().is_some());
    if is_torn || of.has_other_concurrency() {
        return None;
    }
    let of_stage = |stage: &StageChange| {
        let (before, after) = changed_time(stage)?;
        let why = main_part(stage, after < before, name_chars);
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        Some(format!("{} is {}{why}", stage.stage, pace(before, after)))
    };
    let others = of.stages.iter().filter(|other| other.stage != first.stage);
    let others = others.filter_map(of_stage).take(OTHER_STAGES);
    let paces = [of_stage(first)?].into_iter().chain(others).chain(requests(of));
    Some(paces.collect::<Vec<_>>().join("; "))
}

/// The verdict of a page that has the numbers of the stages in rows: with the answer in their place, if there is one.
pub(super) fn verdict_in_words(of: &Comparison, name_chars: usize) -> String {
    match in_words(of, name_chars) {
        Some(answer) => of.verdict_with(&answer),
        None => of.verdict.clone(),
    }
}

/// `1.39x faster`
pub(super) fn pace(before: f64, after: f64) -> String {
    match after < before {
        true => format!("{} faster", times_faster(before / after)),
        false => format!("{} slower", times_faster(after / before)),
    }
}

/// What the changes of all stages together come to for the clients of a server, unless something else differs, too.
pub(super) fn requests(of: &Comparison) -> Option<String> {
    let total = of.run.iter().find(|row| row.metric == "request_ms")?;
    let is_doubted = of.differences.iter().any(|d: &Difference| d.severity >= Severity::Warning);
    let (before, after) = total.before.zip(total.after).filter(|_| !is_doubted)?;
    total.verdict.is_change().then(|| format!("a request is {}", pace(before, after)))
}

/// Stages besides the first one that the sentence below the verdict has.
const OTHER_STAGES: usize = 2;

/// The time of a stage before and after, if it changed beyond noise and both sides do the same work.
fn changed_time(stage: &StageChange) -> Option<(f64, f64)> {
    let time =
        stage.time().filter(|time| time.verdict.is_change() && stage.other_work.is_none())?;
    time.before.zip(time.after).filter(|(a, b)| *a > 0.0 && *b > 0.0)
}

/// The other stages of the answer: they have parts, too.
pub(super) fn others(of: &Comparison) -> impl Iterator<Item = &StageChange> {
    let first = screen::pictured(of);
    let is_other = move |stage: &&StageChange| {
        first.is_some_and(|first| first.stage != stage.stage) && changed_time(stage).is_some()
    };
    of.stages
        .iter()
        .filter(is_other)
        .filter(|stage| !stage.parts().rows.is_empty())
        .take(OTHER_STAGES)
}

/// The part that most of the change of a stage is in. What only one side has comes first: it is the change itself. Of
/// idle time whose parts are not judged, all of it is named.
fn main_part(stage: &StageChange, is_faster: bool, name_chars: usize) -> Option<String> {
    let parts = stage.parts();
    let with_it = parts.rows.iter().filter(|part| (part.change_ns < 0.0) == is_faster);
    let largest = with_it.max_by(|a, b| a.change_ns.abs().total_cmp(&b.change_ns.abs()))?;
    // In the direction of the whole: what went away made it faster.
    let (side, word) = if is_faster { (1, GONE) } else { (0, "new") };
    let is_only = largest.is_beyond_noise() && largest.sides_ns.get(side) == Some(&0.0);
    let name = || parts::part_name(stage, largest, name_chars);
    if is_only {
        let (name, change) = (name(), signed_time(largest.change_ns));
        // One colon is enough.
        return Some(match name.strip_prefix("idle: ") {
            Some(cause) => format!("{word}: {cause}, idle {change}"),
            None => format!("{word}: {name}, {change}"),
        });
    }
    let is_most = |ns: f64| ns / parts.change_ns >= MOST;
    let idle = stage.metric("idle_ms").filter(|idle| idle.verdict.is_change());
    let idle_ns = idle.and_then(|idle| idle.change).map(|ms| ms * 1e6).filter(|ns| is_most(*ns));
    match (largest.is_beyond_noise(), idle_ns) {
        (true, _) if is_most(largest.change_ns) => {
            Some(format!("mostly {}, {}", name(), signed_time(largest.change_ns)))
        }
        // Their sum is beyond noise, and none of them.
        (false, Some(ns)) => Some(format!("probably GPU idle, {}", signed_time(ns))),
        _ => None,
    }
}

/// Share of a change from which a part is most of it.
const MOST: f64 = 0.5;

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
