//! The parts of a change -> which have bars of their own, what the others come to, and how all are called.

use stage2_contract::order::Order as _;
use stage2_contract::text::{shorten, shorten_kernel, shorten_words};
use stage2_diff::{
    Comparison, OTHER_IDLE, PartChange, Parts, REST_OF_IDLE, StageChange, Verdict, WorkChange,
    signed, signed_time,
};
use stage2_model::OTHER_STAGES_WORK;

/// That a part is inconclusive, and why.
///
/// `is_mixed`: a bar is of several parts, of which some are judged.
pub(super) fn why_open(parts: &Parts<'_>, is_mixed: bool) -> String {
    let what = if is_mixed { "inconclusive, or partly" } else { "inconclusive" };
    let why = parts.why_not_judged();
    why.map_or_else(|| what.to_owned(), |why| format!("{what}: {why}"))
}

/// The word behind a number, whose sign already means longer or shorter.
pub(super) fn sign_less(word: &'static str) -> &'static str {
    match word {
        "longer" | "shorter" => "",
        word if ["better", "worse"].iter().any(|judged| word.starts_with(judged)) => "",
        word => word,
    }
}

/// A smaller rest is that of rounding, ns.
const LEAST_REST_NS: f64 = 50.0;
/// Share of the longest bar below which the rest is none that the digits show.
const LEAST_REST: f64 = 0.005;
/// Share of the whole change below which a part has no bar of its own.
const LEAST_PART: f64 = 0.01;
/// Share of the largest change from which a sum of parts that are inconclusive, or noise, names the largest of them: it has
/// a bar, also in a narrow terminal.
const NAMED: f64 = 0.07;

/// With so many bars or fewer, all parts without a bar of their own share one.
const TIGHT: usize = 3;

/// The parts that have bars, and what all others come to.
pub(super) struct Shown<'p> {
    pub(super) rows: Vec<&'p PartChange<'p>>,
    /// Smaller parts, and what is in no part.
    pub(super) sums: Vec<Sum<'p>>,
    /// The longest bar, ns.
    pub(super) longest: f64,
    /// Neither the sum of all parts nor one of them changed beyond noise.
    pub(super) is_noise: bool,
}

/// Several parts in one bar.
pub(super) struct Sum<'p> {
    pub(super) name: String,
    pub(super) ns: f64,
    /// Before and after.
    pub(super) sides_ns: [f64; 2],
    /// Those that it is the sum of; none of the rest, which is in no part.
    pub(super) parts: Vec<&'p PartChange<'p>>,
    /// All of them changed beyond noise.
    pub(super) is_change: bool,
    pub(super) is_judged: bool,
}

impl Sum<'_> {
    /// Whether some of its parts are judged, and others not.
    pub(super) fn is_mixed(&self) -> bool {
        let is_judged = |part: &&PartChange<'_>| part.is_judged() || part.is_beyond_noise();
        self.parts.iter().any(is_judged) && !self.parts.iter().all(is_judged)
    }

    /// How many of its parts have which word: `19 within noise, 4 inconclusive, 1 shorter`.
    pub(super) fn words(&self) -> String {
        let mut words: Vec<(&str, usize)> = Vec::new();
        for part in &self.parts {
            let word = part.word();
            match words.iter_mut().find(|(known, _)| *known == word) {
                Some((_, number)) => *number += 1,
                None => words.push((word, 1)),
            }
        }
        words.order_by(|(_, a), (_, b)| b.cmp(a));
        let words = words.iter().map(|(word, number)| format!("{number} {word}"));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Room for the bars.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Bars.
    pub(super) most: usize,
    /// Characters of the names of the parts that share a bar.
    pub(super) chars: usize,
    /// Share of the largest part from which a part has a bar of its own whatever it is.
    pub(super) own_from: f64,
}

/// As many parts as there may be bars. What is no more than noise, or little of the change, is one of them, and so is
/// what has no room.
pub(super) fn shown_parts<'p>(parts: &'p Parts<'p>, room: Room) -> Shown<'p> {
    let Room { most, chars, own_from } = room;
    let sum = |rows: &[&PartChange<'_>]| rows.iter().map(|row| row.change_ns).sum::<f64>();
    let sides = |rows: &[&PartChange<'_>]| {
        [0, 1].map(|at| rows.iter().map(|row| row.sides_ns[at]).sum::<f64>())
    };
    let all = parts.rows.len();
    // A single one takes no more room than that there is one.
    let told = if parts.told + 1 >= all { all } else { parts.told };
    // The sum of noise has one; where there is little room, all that has no bar of its own shares one.
    let is_tight = most <= TIGHT;
    let most = most.saturating_sub(1);
    let changed = (told + parts.beyond).min(all);
    // So has that of the smaller changes, if there are any.
    let has_changes = parts.rows.iter().any(PartChange::is_beyond_noise);
    let others = usize::from(has_changes && !is_tight);
    let named = match (changed <= most, told <= most) {
        (true, _) => changed,
        (false, true) => told.max(most.saturating_sub(others)),
        (false, false) => most.saturating_sub(others),
    };
    // A remainder of nothing that is named says nothing.
    let named = named.max(1);
    // A sum that is inconclusive may be a change, unless it is less than a part that is noise, or all parts are.
    let is_above_sum = |part: &PartChange<'_>| part.change_ns.abs() > parts.change_ns.abs();
    let is_noise = parts.whole.is_some_and(|whole| {
        let mut rows = parts.rows.iter();
        let is_judged = whole.noise.is_judged()
            || rows.clone().any(|part| part.is_judged() && is_above_sum(part))
            || rows.clone().all(PartChange::is_judged);
        let is_change = rows.any(PartChange::is_beyond_noise);
        whole.verdict == Verdict::None && is_judged && !is_change
    });
    let largest = parts.rows.iter().map(|part| part.change_ns.abs()).fold(0.0, f64::max);
    let is_small =
        |part: &PartChange<'_>| part.change_ns.abs() < LEAST_PART * parts.change_ns.abs();
    let (mut rows, mut smaller): (Vec<&PartChange<'_>>, Vec<&PartChange<'_>>) = (vec![], vec![]);
    for (at, part) in parts.rows.iter().enumerate() {
        // The first stays, if only that says what changed.
        let has_line = at < named && (at == 0 || !is_small(part));
        let has_line = has_line || part.change_ns.abs() >= own_from * largest;
        if has_line { rows.push(part) } else { smaller.push(part) }
    }
    let (mut beyond, mut others): (Vec<_>, Vec<_>) =
        smaller.into_iter().partition(|part| part.is_beyond_noise());
    let is_little = !others.is_empty() && beyond.iter().all(|part| is_small(part));
    let has_small =
        is_little && !beyond.is_empty() || others.iter().any(|part| part.word() == "too small");
    // What is judged and not little would look as if it were not.
    let is_minor = |part: &&PartChange<'_>| part.change_ns.abs() < NAMED * largest;
    let is_shared =
        is_tight && !others.is_empty() && !beyond.is_empty() && beyond.iter().all(is_minor);
    if is_shared {
        // Nor has what is inconclusive a bar of its own, while it has none.
        let (first, open): (Vec<_>, Vec<_>) = std::mem::take(&mut rows)
            .into_iter()
            .enumerate()
            .partition(|(at, part)| *at == 0 || part.is_beyond_noise());
        rows.extend(first.into_iter().map(|(_, part)| part));
        others.extend(open.into_iter().map(|(_, part)| part));
    }
    if is_little || is_shared {
        others.append(&mut beyond);
        others.order_by(|a, b| b.change_ns.abs().total_cmp(&a.change_ns.abs()));
    }
    // A single one has its name, and takes no more room.
    for single in [&mut beyond, &mut others].into_iter().filter(|parts| parts.len() == 1) {
        rows.append(single);
    }
    let mut sums = Vec::new();
    if !beyond.is_empty() {
        let (name, ns, sides_ns) = (names_of(&beyond, chars), sum(&beyond), sides(&beyond));
        sums.push(Sum { name, ns, sides_ns, parts: beyond, is_change: true, is_judged: true });
    }
    let is_judged = |part: &&PartChange<'_>| part.is_judged() || part.is_beyond_noise();
    // What is judged and not little would look as if it were not.
    let (judged, open): (Vec<_>, Vec<_>) = others.iter().copied().partition(is_judged);
    let is_large = |parts: &[&PartChange<'_>]| sum(parts).abs() >= NAMED * largest;
    let is_split = !is_tight && is_large(&judged) && !open.is_empty();
    let groups = if is_split { vec![judged, open] } else { vec![others] };
    for others in groups.into_iter().filter(|group| !group.is_empty()) {
        let [all, any] = [others.iter().all(is_judged), others.iter().any(is_judged)];
        let what = match (all, any, has_small) {
            (true, _, false) => "more within noise",
            (true, _, true) => "more small or within noise",
            (false, true, false) => "more within noise, or inconclusive",
            (false, true, true) => "more small, within noise, or inconclusive",
            (false, false, _) => "more inconclusive",
        };
        let ns = sum(&others);
        let largest = rows.iter().map(|part| part.change_ns.abs());
        let is_large = ns.abs() >= NAMED * largest.fold(parts.change_ns.abs(), f64::max);
        let is_named = !is_noise && is_large && others.iter().any(|part| !is_small(part));
        let is_named = is_named || is_shared && !is_little;
        let of = |is: bool| {
            let parts = others.iter().filter(|part| part.is_beyond_noise() == is);
            parts.map(|part| part.change_ns.abs()).sum::<f64>()
        };
        let is_change = is_shared && of(true) > of(false);
        let name = match is_named {
            // The bar says what they are.
            true => names_of(&others, chars),
            false => format!("{} {what}", others.len()),
        };
        let sides_ns = sides(&others);
        sums.push(Sum { name, ns, sides_ns, parts: others, is_change, is_judged: all });
    }
    let longest = rows.iter().map(|part| part.change_ns.abs());
    let longest = longest.chain(sums.iter().map(|sum| sum.ns.abs())).fold(0.0, f64::max);
    let rest = parts.rest_ns[1] - parts.rest_ns[0];
    if rest.abs() >= LEAST_REST_NS.max(LEAST_REST * longest) {
        let (name, sides_ns) = (format!("rest: {}", parts.rest), parts.rest_ns);
        let rest = Sum {
            name,
            ns: rest,
            sides_ns,
            parts: vec![],
            is_change: false,
            is_judged: !parts.rows.iter().any(|part| part.noise.unlike),
        };
        sums.push(rest);
    }
    Shown { rows, sums, longest: longest.max(rest.abs()), is_noise }
}

/// `3 more: elementwise +64 us, fill +41 us, …`: those that went the way of their sum first, the largest first, as many as
/// have room.
fn names_of(parts: &[&PartChange<'_>], chars: usize) -> String {
    with_names(format!("{} more", parts.len()), parts, chars)
}

/// `prefill mean +3.25 ms: idle: not launch gaps +2.77 ms, … (inconclusive)`: the largest parts of a stage on one line.
pub(super) fn in_short(stage: &StageChange, name: &str, chars: usize) -> String {
    let parts = stage.parts();
    let sure = || parts.rows.iter().filter(|part| part.is_beyond_noise());
    let sure_ns: f64 = sure().map(|part| part.change_ns).sum();
    let (rows, word): (Vec<&PartChange<'_>>, _) = match sure_ns / parts.change_ns >= 0.5 {
        true => (sure().collect(), ""),
        false if sure_ns == 0.0 => (parts.rows.iter().collect(), " (inconclusive)"),
        false => (parts.rows.iter().collect(), " (partly inconclusive)"),
    };
    let head = format!("{name} mean {}", signed_time(parts.change_ns));
    with_names(head, &rows, chars.saturating_sub(word.len())) + word
}

/// A text with the names of parts behind it.
fn with_names(mut text: String, parts: &[&PartChange<'_>], chars: usize) -> String {
    let mut parts = parts.to_vec();
    let sum: f64 = parts.iter().map(|part| part.change_ns).sum();
    let is_against = |part: &&PartChange<'_>| part.change_ns * sum < 0.0;
    parts.order_by(|a, b| {
        let of_both = is_against(a).cmp(&is_against(b));
        of_both.then(b.change_ns.abs().total_cmp(&a.change_ns.abs()))
    });
    let number = |part: &PartChange<'_>| {
        let us = part.change_ns / 1e3;
        match us.abs() >= 100.0 {
            true => signed_time(part.change_ns),
            false => format!("{} us", signed(us, if us.abs() < 10.0 { 1 } else { 0 })),
        }
    };
    for (at, part) in parts.iter().enumerate() {
        let before = if at == 0 { ": " } else { ", " };
        let more = if at + 1 == parts.len() { "" } else { MORE };
        let used = [&text, before, " ", &number(part), more];
        let used: usize = used.into_iter().map(|text| text.chars().count()).sum();
        let room = chars.saturating_sub(used);
        let whole = class_of(part, usize::MAX);
        // A cause says what in front of its first comma.
        let head = whole.split_once(", ").map_or(&*whole, |(head, _)| head);
        let name = match () {
            () if whole.chars().count() <= room => whole,
            () if head.chars().count() <= room => head.to_owned(),
            () if room >= LEAST_NAME && says_something(&class_of(part, room)) => {
                class_of(part, room)
            }
            () if at == 0 => return text,
            () => return text + MORE,
        };
        text.push_str(&format!("{before}{name} {}", number(part)));
    }
    text
}

/// Whether a shortened name still has its first word.
fn says_something(name: &str) -> bool {
    let head = name.strip_prefix("idle: ").unwrap_or(name);
    head.split([' ', '…']).next().is_some_and(|word| !word.is_empty()) && !head.contains(" … ")
}

/// Characters of a part of a name that still says something.
const LEAST_NAME: usize = 12;

/// Stands for names that have no room.
const MORE: &str = ", …";

/// The class of the work of a part, or what the host did, in so many characters.
fn class_of(part: &PartChange<'_>, limit: usize) -> String {
    match (part.work.first(), part.cause) {
        (Some(work), _) if work.class.is_empty() => shorten(work.kind.word(), limit),
        (Some(work), _) => shorten(&work.class, limit),
        (None, Some(cause)) => cause_name(cause, limit),
        (None, None) => shorten("idle", limit),
    }
}

/// What the parts of a stage add up to. It is not its mean step where GPU work ends after the step that launched it.
pub(super) const WINDOW: &str = "mean GPU window";
/// Percentage points between the changes of the mean and of the median from which the bars need both.
const APART_PERCENT: f64 = 1.0;

/// What the parts add up to, next to the median that the verdict has:
/// `mean GPU window 4.638 → 3.455 ms per step (-1.18 ms; p50 -1.30 ms)`.
pub(super) fn whole(stage: &StageChange, parts: &Parts<'_>) -> String {
    let per = stage.per_word();
    let change = match parts.change_ns {
        0.0 => "equal".to_owned(),
        change => signed_time(change),
    };
    let Some(whole) = parts.whole else {
        return format!("change per {per}, {change}:");
    };
    let [a, b] = parts.sides_ns.map(|ns| whole.shown(ns / 1e6));
    let word = stage.word(whole);
    let is_of_runs = !whole.before_runs.is_empty();
    let is_said = whole.verdict == Verdict::None && is_of_runs;
    let word = match is_said && word != "equal" {
        true => format!(", {word}"),
        false => String::new(),
    };
    let time = stage.time().filter(|time| ["step_ms", "token_ms"].contains(&&*time.metric));
    let mean = (parts.sides_ns[0] > 0.0).then(|| parts.change_ns * 100.0 / parts.sides_ns[0]);
    let median = time.and_then(|time| Some((time, time.relative_percent()?))).zip(mean);
    // Of opposite signs, both are needed, unless one reads as nothing.
    let reads_zero = |percent: f64| signed(percent, 1) == signed(0.0, 1);
    let is_opposed =
        |median: f64, mean: f64| median * mean < 0.0 && !reads_zero(median) && !reads_zero(mean);
    let median = median.filter(|((_, median), mean)| {
        (median - mean).abs() >= APART_PERCENT || is_opposed(*median, *mean)
    });
    let median = match median {
        Some(((time, percent), mean)) => {
            let unit = stage.per_of(&time.metric);
            let opposed = match (percent * mean < 0.0, mean > 0.0) {
                (false, _) => "",
                // One slow run is enough.
                (true, _) if !time.verdict.is_change() && is_said => "",
                (true, _) if !time.verdict.is_change() => ", within noise",
                (true, true) => ": some slow steps",
                (true, false) => ": fewer slow steps",
            };
            let but = if percent * mean < 0.0 { "but " } else { "" };
            match time.change.filter(|_| unit == format!(" per {per}")) {
                Some(ms) => format!("; {but}p50 {}{opposed}", signed_time(ms * 1e6)),
                None => format!("; {but}p50{unit} {} %{opposed}", signed(percent, 1)),
            }
        }
        None => String::new(),
    };
    // The table has another time, which may be many times as long.
    let other = match stage.time().is_some_and(|time| time.metric == "host_ms") {
        true => "; above: host time of a call",
        false => "",
    };
    let said = format!("({change}{word}{median}{other})");
    // The line of the stage above has medians of the runs.
    let of_runs = if whole.before_runs.len() > 1 { " of all runs" } else { "" };
    format!("{WINDOW}{of_runs} {a} → {b} ms per {per} {said}")
}

/// What the bars of a stage add up to, and the run that those means are far from.
pub(super) fn head_of(of: &Comparison, stage: &StageChange, parts: &Parts<'_>) -> String {
    let with = of.outlier().map(|run| format!("; the means include {run}, an outlier"));
    whole(stage, parts) + &with.unwrap_or_default()
}

/// A class with the kernel that most of its change is in, or what the GPU was idle for.
pub(super) fn part_name(stage: &StageChange, part: &PartChange<'_>, limit: usize) -> String {
    match (&part.work[..], part.cause) {
        ([row], _) => work_name(row, limit),
        ([first, ..], _) => {
            let class =
                if first.class.is_empty() { first.kind.word() } else { first.class.as_str() };
            let is_most =
                !part.is_swap(first) && first.change_ns.abs() > part.change_ns.abs() / 2.0;
            let used = class.chars().count() + MOSTLY.chars().count();
            match is_most && used < limit {
                true => {
                    let name = work_name(first, limit - used);
                    // A memcpy is named after its kind.
                    let rest = name.strip_prefix(class).and_then(|rest| rest.strip_prefix(", "));
                    format!("{class}{MOSTLY}{}", rest.unwrap_or(&name))
                }
                false if first.class.is_empty() => class.to_owned(),
                false => shorten(&format!("{class} ({} kernels)", part.work.len()), limit),
            }
        }
        ([], Some(OTHER_IDLE)) => with_why(stage, &format!("idle: {OTHER_IDLE}"), limit),
        ([], Some(cause)) => cause_name(cause, limit),
        ([], None) => with_why(stage, "GPU idle", limit),
    }
}

/// Idle time with the reason why its causes are not known, where there is room for it.
fn with_why(stage: &StageChange, name: &str, limit: usize) -> String {
    // Launch gaps divide that of a host that is ahead.
    let why = stage.host_absent.as_deref().filter(|_| !stage.host_ahead);
    let why = why.and_then(|why| why.split_once(':'));
    let whole = why.map(|(why, _)| format!("{name} ({why})"));
    whole.filter(|text| text.chars().count() <= limit).unwrap_or_else(|| shorten(name, limit))
}

/// `idle: priority (sorting_scheduler.py)`: a cause with the name of its file alone, or without it where there is no room.
fn cause_name(cause: &str, limit: usize) -> String {
    if cause == REST_OF_IDLE && limit < "idle: ".len() + cause.len() {
        return shorten("idle: other causes", limit);
    }
    if cause == OTHER_STAGES_WORK {
        // The GPU was not idle.
        return shorten("GPU work of another stage", limit);
    }
    let parts = cause.strip_suffix(')').and_then(|cause| cause.rsplit_once(" ("));
    let Some((function, path)) = parts else { return short_cause(cause, limit) };
    let file = path.rsplit_once('/').map_or(path, |(_, file)| file);
    let whole = format!("idle: {function} ({file})");
    if whole.chars().count() <= limit {
        return whole;
    }
    let head = function.split_once(CALLER).map(|(call, caller)| (format!("idle: {call}"), caller));
    match head {
        // The call says what, and the end of the name of its caller where.
        Some((head, caller)) if head.chars().count() <= limit => {
            let room = limit.saturating_sub(head.chars().count() + CALLER.chars().count());
            let length = caller.chars().count();
            match room {
                _ if length <= room => format!("{head}{CALLER}{caller}"),
                0..LEAST_NAME => head,
                _ => {
                    let tail: String = caller.chars().skip(length - (room - 1)).collect();
                    format!("{head}{CALLER}…{tail}")
                }
            }
        }
        _ => short_cause(function, limit),
    }
}

/// A cause of which some words give way, unless that leaves little of it.
fn short_cause(cause: &str, limit: usize) -> String {
    let whole = format!("idle: {cause}");
    let words = shorten_words(&whole, limit);
    let is_much = words.chars().count() * 2 >= limit;
    if is_much { words } else { shorten(&whole, limit) }
}

/// Between a call that blocks and the function that it is in.
const CALLER: &str = " from ";

/// Between a class and the kernel that most of its change is in.
const MOSTLY: &str = ", mostly ";

/// Work by its name after the change.
pub(super) fn work_name(row: &WorkChange, limit: usize) -> String {
    let side = row.after.as_ref().or(row.before.as_ref());
    side.map_or_else(String::new, |side| shorten_kernel(&side.name, limit))
}

#[cfg(test)]
mod tests {
    use stage2_diff::NoiseMethod;

    use super::*;

    #[test]
    fn a_cause_loses_its_folder_then_its_file_and_then_the_head_of_its_caller() {
        let call = "blocked in cuStreamSynchronize from stage2_demo::gpu::Lane::synchronize (a/b)";
        let whole = format!("idle: {}", call.replace("a/b", "b"));
        assert_eq!(cause_name(call, whole.len()), whole);
        assert_eq!(cause_name(call, whole.len() - 1), whole.replace(" (b)", ""));
        assert_eq!(
            cause_name(call, 60),
            "idle: blocked in cuStreamSynchronize from …Lane::synchronize"
        );
        assert_eq!(cause_name(call, 50), "idle: blocked in cuStreamSynchronize");
        assert_eq!(cause_name("copy (a.py)", 10), "idle: copy");
        let rest = "smaller and unknown causes";
        assert_eq!(cause_name(rest, 24), "idle: other causes", "no word is cut");
        for limit in 1..90 {
            assert!(cause_name(call, limit).chars().count() <= limit, "{limit}");
        }
    }

    #[test]
    fn the_largest_parts_are_named_first_with_a_unit_each() {
        let part = |cause: &'static str, us: f64| PartChange {
            work: Vec::new(),
            cause: Some(cause),
            sides_ns: [1e6, 1e6 + us * 1e3],
            change_ns: us * 1e3,
            verdict: Verdict::Increased,
            said: None,
            noise: stage2_diff::Noise::default(),
            interval: None,
        };
        let parts =
            [part("runnable, waiting for a processor", 90.0), part("fill", 64.0), part("gc", 47.0)];
        let parts: Vec<&PartChange<'_>> = parts.iter().collect();
        let (less, more) = (part("less", -80.0), part("more", 100.0));
        let said = names_of(&[&less, &more], 30);
        assert_eq!(said, "2 more: idle: more +0.10 ms, …", "a sum is explained by what made it");
        let two = "3 more: idle: runnable +90 us, idle: fill +64 us, …";
        assert_eq!(
            [names_of(&parts, 48), names_of(&parts, 51)],
            [two.replace(", idle: fill +64 us", ""), two.into()]
        );
    }

    #[test]
    fn what_is_little_of_a_change_shares_a_line_and_has_no_bar() {
        let part = |us: f64, verdict, method| PartChange {
            work: Vec::new(),
            cause: Some("copy (a.py)"),
            sides_ns: [1e6, 1e6 + us * 1e3],
            change_ns: us * 1e3,
            verdict,
            said: None,
            noise: stage2_diff::Noise { method, ..Default::default() },
            interval: None,
        };
        let change = |us| part(us, Verdict::Increased, NoiseMethod::Instances);
        let open = |us| part(us, Verdict::None, NoiseMethod::OneRunEach);
        let shown_in = |rows: Vec<PartChange<'static>>, most: usize| {
            let change_ns = rows.iter().map(|part| part.change_ns).sum();
            let told = rows.iter().filter(|part| part.is_beyond_noise()).count();
            let sides_ns = [0.0, change_ns];
            let parts = Parts {
                whole: None,
                sides_ns,
                change_ns,
                rows,
                told,
                beyond: 0,
                rest: "",
                rest_ns: [0.0; 2],
                gaps: None,
                has_other_causes: false,
            };
            let shown = shown_parts(&parts, Room { most, chars: 70, own_from: f64::INFINITY });
            let sums: Vec<String> = shown.sums.into_iter().map(|sum| sum.name).collect();
            (shown.rows.len(), sums)
        };
        let shown = |rows| shown_in(rows, 12);
        let little = shown(vec![change(900.0), change(11.0), change(2.0), open(20.0), open(3.0)]);
        assert_eq!(little, (2, vec!["3 more small, within noise, or inconclusive".to_owned()]));
        let named = shown(vec![change(800.0), change(2.0), open(200.0), open(80.0)]);
        let said = "3 more: idle: copy (a.py) +0.20 ms, idle: copy (a.py) +80 us, …";
        assert_eq!(named, (1, vec![said.to_owned()]));
        let single = shown(vec![change(900.0), change(30.0), change(20.0), open(30.0)]);
        assert_eq!(single, (4, vec![]), "a single part has its name");
        // In little room, the largest have bars before a remainder.
        let many = || vec![change(900.0), change(500.0), change(300.0), open(200.0), open(80.0)];
        let (two, one) = (shown_in(many(), 3), shown_in(many(), 2));
        assert_eq!((two.0, one.0), (3, 1));
        let open_two = "2 more: idle: copy (a.py) +0.20 ms, idle: copy (a.py) +80 us";
        let said = "2 more: idle: copy (a.py) +0.50 ms, idle: copy (a.py) +0.30 ms";
        assert_eq!(two.1, [open_two], "what is judged has no bar of what is not");
        assert_eq!(one.1, [said, open_two]);
        // What is inconclusive has no bar of its own while what is judged shares one.
        let mixed = vec![change(900.0), open(300.0), open(200.0), change(30.0), change(20.0)];
        let mixed = shown_in(mixed, 3);
        assert!(mixed.0 == 1 && mixed.1.len() == 1, "{mixed:?}");
        let parts = [open(1.0), change(1.0), open(2.0)];
        let mixed = Sum {
            name: String::new(),
            ns: 0.0,
            sides_ns: [0.0; 2],
            parts: parts.iter().collect(),
            is_change: false,
            is_judged: false,
        };
        assert!(mixed.is_mixed());
        assert_eq!(mixed.words(), "2 inconclusive, 1 longer");
    }
}
