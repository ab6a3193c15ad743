//! A comparison -> one screen of a terminal: the verdict, the times, the largest changes with bars, what to do next.

use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::counted;
use stage2_contract::text::{shorten, shorten_kernel, shorten_words, wrapped_at_most};
use stage2_diff::{
    Comparison, LAUNCH_GAPS, MetricChange, MetricUnit, NoiseMethod, OTHER_IDLE, PartChange, Parts,
    Per, Presence, StageChange, Verdict, WorkChange, signed, signed_time,
};

use stage2_model::Severity;

use super::{
    COMMAND, ONE_VALUE, is_shown, page_title, rate, side_cells, stage_time, title, value_cell,
};

/// Columns of the whole page, and of a terminal whose width is not known.
pub const WIDTH: usize = 80;
/// A narrower or wider terminal has lines of this length.
const WIDTHS: (usize, usize) = (60, 160);
/// Lines of a terminal whose height is not known, and the least that a screen is made for.
pub const HEIGHT: usize = 24;
/// Lines of the command and of the prompt.
const PROMPTS: usize = 2;
/// Lines of the sentence about a condition, below the screen.
const CONDITION: usize = 2;
const STAGES: usize = 3;
const STAGE_CHARS: usize = 18;
/// Bars on the whole page.
const BARS: usize = 8;
const BAR_CHARS: usize = 16;
/// Columns of a bar's number.
const NUMBER_CHARS: usize = 12;
/// A narrower terminal has shorter bars.
const NARROW: usize = 72;
/// Lines of the comparison below the bars.
const BELOW: [&str; 5] = ["next", "comparable", "noise", "kernels", "libraries"];

/// Bars at most, and lines of the screen that each of [`BELOW`] may take. What to do next is a command to copy: it is
/// never cut.
type Layout = (usize, [usize; BELOW.len()]);

const ALL: usize = usize::MAX;
/// The first that fits is taken.
const LAYOUTS: [Layout; 9] = [
    (12, [ALL; 5]),
    (BARS, [ALL; 5]),
    (8, [ALL, 2, 2, 2, 2]),
    (7, [ALL, 2, 2, 2, 2]),
    (6, [ALL, 2, 2, 2, 2]),
    (5, [ALL, 2, 2, 2, 2]),
    (5, [ALL, 2, 2, 2, 0]),
    (5, [ALL, 2, 2, 1, 0]),
    (5, [ALL, 2, 2, 0, 0]),
];
/// Further ones where there is a warning in the line `comparable`: it is worth more than a bar.
const WARNED: [Layout; 5] = [
    (4, [ALL, 2, 2, 0, 0]),
    (3, [ALL, 2, 2, 0, 0]),
    (3, [ALL, 2, 1, 0, 0]),
    (3, [ALL, 1, 1, 0, 0]),
    (2, [ALL, 1, 1, 0, 0]),
];
const NOT_WARNED: [Layout; 4] = [
    (5, [ALL, 1, 1, 0, 0]),
    (5, [ALL, 0, 1, 0, 0]),
    (3, [ALL, 0, 1, 0, 0]),
    (2, [ALL, 0, 1, 0, 0]),
];

const LABEL_CHARS: usize = 12;
/// Stands for a space at which no line breaks.
const TIED: char = '\u{1}';
/// Marks what has no room.
const MORE_IN_FULL: &str = "more: --full";
/// Lines of the verdict, and of the caution before it.
const VERDICT: usize = 4;
const CAUTION: usize = 2;
/// Lines of what the bars add up to.
const HEAD: usize = 2;

/// The title and what follows, each line of at most `width` characters, in `height` lines if it is not cut short.
pub(super) fn screen(of: &Comparison, width: usize, height: usize) -> Vec<String> {
    let width = width.clamp(WIDTHS.0, WIDTHS.1);
    // Each condition has a sentence below the screen.
    let room = height.max(HEIGHT).saturating_sub(PROMPTS + CONDITION * of.conditions.len());
    let is_warned = of.differences.iter().any(|d| d.severity >= Severity::Warning);
    let others = if is_warned { &WARNED[..] } else { &NOT_WARNED[..] };
    let mut lines = vec![short_title(of, width - 1)];
    lines.extend(top(of, width, (CAUTION, VERDICT)));
    let with = |(most, limits): &Layout, is_close: bool| {
        let mut all = lines.clone();
        all.extend(bars(of, width, *most));
        all.push(String::new());
        for (label, most) in BELOW.iter().zip(limits).filter(|(_, most)| **most > 0) {
            let is_news = *label != "libraries" || !of.libraries.is_empty();
            all.extend(labelled(of, label, width, *most).into_iter().filter(|_| is_news));
        }
        let is_left_out = |(label, most): &(&&str, &usize)| match **most {
            0 => **label != "libraries" || !of.libraries.is_empty(),
            _ => labelled(of, label, width, **most).last().is_some_and(|line| line.ends_with('…')),
        };
        let left_out = BELOW.iter().zip(limits).filter(is_left_out);
        let left_out: Vec<&str> = left_out.map(|(label, _)| *label).collect();
        // In the first line if there is no room for another one.
        let title_chars = all.first().map_or(0, |title| title.chars().count());
        let gap = (width - 1).saturating_sub(title_chars + MORE_IN_FULL.len());
        match all.first_mut().filter(|_| is_close && gap >= GAP.len()) {
            _ if left_out.is_empty() => {}
            Some(title) => title.push_str(&format!("{:gap$}{MORE_IN_FULL}", "")),
            None => {
                let names = left_out.join(", ");
                all.push(format!("{:LABEL_CHARS$}{MORE_IN_FULL} ({names})", ""));
            }
        }
        all
    };
    let all = || LAYOUTS.iter().chain(others);
    let fitting = |is_close: bool| {
        all().map(|layout| with(layout, is_close)).find(|screen| screen.len() <= room)
    };
    let fitting = fitting(false).or_else(|| fitting(true));
    fitting.or_else(|| Some(with(all().last()?, true))).unwrap_or_default()
}

/// The title in so many characters: a long one has the folders of the runs without those above them.
fn short_title(of: &Comparison, limit: usize) -> String {
    let whole = title(of);
    let fits = whole.chars().count() <= limit;
    if fits { whole } else { shorten(&page_title(of), limit) }
}

/// The screen below its title with nothing left out.
pub(super) fn picture(of: &Comparison, width: usize) -> Vec<String> {
    let width = width.clamp(WIDTHS.0, WIDTHS.1);
    let mut lines = top(of, width, (usize::MAX, usize::MAX));
    lines.extend(bars(of, width, BARS));
    lines.push(String::new());
    // The rows of the stages have the times.
    let labels = of.lines.iter().map(|line| line.label.as_str()).filter(|label| *label != "time");
    lines.extend(labels.flat_map(|label| labelled(of, label, width, usize::MAX)));
    lines
}

/// The verdict, what is to be known before it, and the times of the stages.
fn top(of: &Comparison, width: usize, most: (usize, usize)) -> Vec<String> {
    let caution = of.caution().unwrap_or_default();
    let mut lines = fitted(&caution, width - 1, most.0);
    lines.retain(|line| !line.is_empty());
    lines.extend(fitted(&of.verdict, width - 1, most.1));
    lines.push(String::new());
    lines.extend(stages(of, width));
    lines
}

/// A line for the time of each stage, and for its tokens per second.
fn stages(of: &Comparison, width: usize) -> Vec<String> {
    let all = of.of_model();
    let (shown, others) = all.split_at(STAGES.min(all.len()));
    let mut rows: Vec<[String; 5]> = Vec::new();
    let is_shared = all.iter().any(|stage| stage.presence == Presence::Both);
    for stage in shown {
        let name = shorten(&stage.stage, STAGE_CHARS);
        let told = match (stage.presence, stage_time(stage)) {
            // The verdict names them.
            (Presence::New | Presence::Vanished, _) if is_shared => continue,
            (Presence::New, _) => "new",
            (Presence::Vanished, _) => "vanished",
            (Presence::Both, None) => match stage.own_text() {
                Some(times) => {
                    let word = "not comparable".to_owned();
                    rows.push([name, format!("p50 {times}"), String::new(), String::new(), word]);
                    continue;
                }
                None => "no time is known",
            },
            (Presence::Both, Some((time, label))) => {
                let unit = format!("ms{}", stage.per_of(&time.metric));
                rows.push(row(name, &format!("{label} "), time, &unit, stage));
                let rate = rate(stage).map(|rate| row(String::new(), "", rate, "tokens/s", stage));
                rows.extend(rate);
                continue;
            }
        };
        rows.push([name, told.to_owned(), String::new(), String::new(), String::new()]);
    }
    let widths = |rows: &[[String; 5]]| -> [usize; 5] {
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
    };
    let fits = |rows: &[[String; 5]], gap: &str| {
        let columns = widths(rows).into_iter().filter(|width| *width > 0);
        columns.map(|width| width + gap.len()).sum::<usize>() < width + gap.len()
    };
    if !fits(&rows, GAP) {
        // The words of what is not judged say it, too.
        rows.iter_mut().filter(|row| row[3] == ONE_VALUE).for_each(|row| row[3].clear());
    }
    if !fits(&rows, NARROW_GAP) {
        rows.iter_mut().for_each(|row| row[1] = row[1].replace(" ms per ", " ms/"));
    }
    let gap = if fits(&rows, GAP) || !fits(&rows, NARROW_GAP) { GAP } else { NARROW_GAP };
    let columns = widths(&rows);
    let is_noise_below = width < NARROW
        && [0, 2, 3, 4].map(|at| columns[at] + gap.len()).iter().sum::<usize>() <= width;
    if !fits(&rows, gap) && !is_noise_below {
        // The verdict has the noise as well.
        rows.iter_mut().for_each(|row| row[3].clear());
    }
    let columns = widths(&rows);
    let line = |row: &[String; 5], which: &[usize]| {
        let cells = which.iter().filter(|&&at| columns[at] > 0);
        let cells = cells.map(|&at| match at {
            2 => format!("{:>1$}", row[at], columns[at]),
            _ => format!("{:1$}", row[at], columns[at]),
        });
        let line = cells.collect::<Vec<_>>().join(gap);
        shorten(line.trim_end(), width - 1)
    };
    let mut lines: Vec<String> = match fits(&rows, gap) {
        true => rows.iter().map(|row| line(row, &[0, 1, 2, 3, 4])).collect(),
        // Two lines for each stage; the verdict has the rate of the first.
        false => {
            let times = rows.iter().filter(|row| !row[0].is_empty());
            let below = |row: &[String; 5]| {
                let indent = " ".repeat(columns[0] + gap.len());
                format!("{indent}{}", line(row, &[2, 3, 4]))
            };
            let two = times.flat_map(|row| [line(row, &[0, 1]), below(row)]);
            two.filter(|line| !line.trim().is_empty()).collect()
        }
    };
    let more = others.iter().filter(|stage| stage.per != Per::Run).count();
    if more > 0 {
        lines.push(format!("{} on the whole page (--full)", counted(more as u64, "more stage")));
    }
    lines
}

/// Between two columns, and where one more would not fit otherwise.
const GAP: &str = "  ";
const NARROW_GAP: &str = " ";

/// The name, both values, the change, its noise, and what it comes to.
fn row(
    name: String,
    label: &str,
    metric: &MetricChange,
    unit: &str,
    stage: &StageChange,
) -> [String; 5] {
    let [a, b] = side_cells(metric);
    let percent = metric.relative_percent().map(|percent| format!("{} %", signed(percent, 1)));
    let is_one = metric.noise.method == NoiseMethod::OneRunEach && metric.change != Some(0.0);
    let why = || if is_one { ONE_VALUE } else { metric.why_absent().unwrap_or_default() };
    // Nothing is smaller than no change.
    let noise = metric.noise_text().filter(|_| metric.change != Some(0.0));
    let noise = noise.map_or_else(|| why().to_owned(), |text| text.to_string());
    let verdict = stage.word(metric).to_owned();
    [name, format!("{label}{a} → {b} {unit}"), percent.unwrap_or_default(), noise, verdict]
}

/// The stages whose parts say something: those of steps that do other work do not.
fn alike(of: &Comparison) -> impl Iterator<Item = &StageChange> {
    of.stages.iter().filter(|stage| is_shown(stage) && stage.other_work.is_none())
}

/// The stage whose parts come first: that of the verdict.
pub(super) fn pictured(of: &Comparison) -> Option<&StageChange> {
    alike(of).find(|stage| !stage.parts().rows.is_empty())
}

/// The parts of a stage as bars of characters, and the rest: they add up to what the head says.
fn bars(of: &Comparison, width: usize, most: usize) -> Vec<String> {
    let Some(stage) = pictured(of) else {
        let why = match (alike(of).next(), of.stages.iter().any(is_shown)) {
            (Some(_), _) => "All GPU work and idle time is the same on both sides.",
            (_, true) => "No stage does the same work per step on both sides.",
            _ if of.stages.iter().any(|stage| stage.own_times.is_some()) => {
                "No stage is timed in the same way on both sides, so no parts are compared."
            }
            _ => "No stage on both sides has GPU work to compare.",
        };
        return vec![String::new(), why.to_owned()];
    };
    let parts = stage.parts();
    let plain_chars =
        width - NUMBER_CHARS - if width < NARROW { BAR_CHARS / 2 } else { BAR_CHARS } - 3;
    let Shown { rows, sums, longest, is_noise } = shown_parts(&parts, most, plain_chars);
    let head = format!("{}: {}", shorten(&stage.stage, STAGE_CHARS), whole(stage, &parts));
    let is_alike = of.unlike.is_empty();
    // A bar of noise would look like a result.
    let bar_chars = match width < NARROW {
        _ if is_noise && is_alike => 0,
        true => BAR_CHARS / 2 + 1,
        false => BAR_CHARS + 1,
    };
    let name_chars = width - NUMBER_CHARS - bar_chars - 2;
    // Nothing for less than half a character.
    let cells = |ns: f64| {
        let full = bar_chars.saturating_sub(1);
        (((ns.abs() / longest).clamp(0.0, 1.0) * full as f64).round() as usize).min(full)
    };
    // Behind the name, where no bar says it.
    let word = |part: &PartChange<'_>| match sign_less(part.word()) {
        "" => String::new(),
        "noise" | "not judged" if cells(part.change_ns) > 0 => String::new(),
        word => format!(" ({word})"),
    };
    let bar = |ns: f64, fill: &str, name: &str| {
        let bar = fill.repeat(cells(ns));
        let number = signed_time(ns);
        let line = format!("{number:>NUMBER_CHARS$} {bar:bar_chars$}{name}");
        shorten(&line, width - 1)
    };
    let mut lines = vec![String::new()];
    lines.extend(fitted(&head, width - 1, HEAD));
    lines.extend(rows.iter().map(|part| {
        let fill = match part.is_beyond_noise() {
            _ if !is_alike => OPEN,
            true => CHANGE,
            false if part.is_judged() => NOISE_BAR,
            false => OPEN,
        };
        let name = match part.cause {
            // They add up to the idle time that a report gives.
            Some(cause @ (OTHER_IDLE | LAUNCH_GAPS)) => {
                let [a, b] = part.sides_ns.map(|ns| value_cell(Some(ns / 1e6), MetricUnit::Ms));
                format!("idle: {cause}, {a} → {b} ms")
            }
            _ => part_name(stage, part, name_chars - word(part).len()),
        };
        bar(part.change_ns, fill, &format!("{name}{}", word(part)))
    }));
    lines.extend(sums.iter().map(|sum| {
        let fill = match (is_alike && sum.is_judged, sum.is_change) {
            (false, _) => OPEN,
            (true, true) => CHANGE,
            (true, false) => NOISE_BAR,
        };
        bar(sum.ns, fill, &sum.name)
    }));
    let is_used = |fill: &str| lines.iter().any(|line| line.contains(fill));
    let legend = [(CHANGE, beyond(of)), (NOISE_BAR, "within noise, or the rest")];
    let legend = legend.iter().filter(|(fill, _)| is_used(fill));
    let mut legend: Vec<String> =
        legend.map(|(fill, meaning)| format!("{fill} {meaning}")).collect();
    let is_mixed = sums.iter().any(|sum| is_alike && sum.is_mixed());
    let open = why_open(&parts, is_alike, is_mixed);
    match (is_used(OPEN), is_used("not judged")) {
        (true, _) => legend.push(format!("{OPEN} {open}")),
        // The word stands behind a name.
        (false, true) => legend.push(open),
        (false, false) => {}
    }
    let room = width - NUMBER_CHARS - 2;
    let mut line = String::new();
    for meaning in legend {
        if !line.is_empty() && line.chars().count() + 2 + meaning.chars().count() > room {
            lines.push(format!("{:NUMBER_CHARS$} {line}", ""));
            line.clear();
        }
        line.push_str(if line.is_empty() { "" } else { "  " });
        line.push_str(&meaning);
    }
    // It breaks only if it has to: then the gap between two meanings is one space.
    let last =
        if line.chars().count() > room { wrapped_at_most(&line, room, HEAD) } else { vec![line] };
    let last = last.into_iter().filter(|line| !line.is_empty());
    lines.extend(last.map(|line| format!("{:NUMBER_CHARS$} {line}", "")));
    lines
}

/// That a part is not judged, and why.
///
/// `is_mixed`: a bar is of several parts, of which some are judged.
pub(super) fn why_open(parts: &Parts<'_>, is_alike: bool, is_mixed: bool) -> String {
    let what = if is_mixed { "not judged, or only in part" } else { "not judged" };
    let why = match is_alike {
        true => parts.why_not_judged(),
        false => Some("the sides are hardly comparable".to_owned()),
    };
    why.map_or_else(|| what.to_owned(), |why| format!("{what}: {why}"))
}

/// What the bars are made of.
const CHANGE: &str = "█";
const NOISE_BAR: &str = "░";
const OPEN: &str = "□";

/// What a change exceeds. One run per side does not show how much runs differ.
pub(super) fn beyond(of: &Comparison) -> &'static str {
    if of.is_of_two_runs() { "beyond the noise within the runs" } else { "beyond noise" }
}

/// The word behind a number, whose sign already means longer or shorter.
pub(super) fn sign_less(word: &'static str) -> &'static str {
    if ["longer", "shorter"].contains(&word) { "" } else { word }
}

/// A smaller rest is that of rounding, ns.
const LEAST_REST_NS: f64 = 50.0;
/// Share of the longest bar below which the rest is none that the digits show.
const LEAST_REST: f64 = 0.005;
/// Share of the whole change below which a part has no bar of its own.
const LEAST_PART: f64 = 0.01;
/// Share of the largest change from which a sum of parts that are not judged, or noise, names the largest of them: it has
/// a bar, also in a narrow terminal.
const NAMED: f64 = 0.07;

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

    /// How many of its parts have which word: `19 within noise, 4 not judged, 1 shorter`.
    pub(super) fn words(&self) -> String {
        let mut words: Vec<(&str, usize)> = Vec::new();
        for part in &self.parts {
            let word = if part.word() == "noise" { "within noise" } else { part.word() };
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

/// As many parts as there may be bars. What is no more than noise, or little of the change, is one of them, and so is
/// what has no room: a name has at most so many characters.
pub(super) fn shown_parts<'p>(parts: &'p Parts<'p>, most: usize, chars: usize) -> Shown<'p> {
    let sum = |rows: &[&PartChange<'_>]| rows.iter().map(|row| row.change_ns).sum::<f64>();
    let all = parts.rows.len();
    // A single one takes no more room than that there is one.
    let told = if parts.told + 1 >= all { all } else { parts.told };
    // The sum of noise has one.
    let most = most.saturating_sub(1);
    let changed = (told + parts.beyond).min(all);
    let named = match (changed <= most, told <= most) {
        (true, _) => changed,
        (false, true) => told.max(most.saturating_sub(1)),
        (false, false) => most.saturating_sub(1),
    };
    // A sum that is not judged may be a change, unless it is less than a part that is noise, or all parts are.
    let is_above_sum = |part: &PartChange<'_>| part.change_ns.abs() > parts.change_ns.abs();
    let is_noise = parts.whole.is_some_and(|whole| {
        let mut rows = parts.rows.iter();
        let is_judged = whole.noise.is_judged()
            || rows.clone().any(|part| part.is_judged() && is_above_sum(part))
            || rows.clone().all(PartChange::is_judged);
        let is_change = rows.any(PartChange::is_beyond_noise);
        whole.verdict == Verdict::None && is_judged && !is_change
    });
    let is_small =
        |part: &PartChange<'_>| part.change_ns.abs() < LEAST_PART * parts.change_ns.abs();
    let (mut rows, mut smaller): (Vec<&PartChange<'_>>, Vec<&PartChange<'_>>) = (vec![], vec![]);
    for (at, part) in parts.rows.iter().enumerate() {
        // The first stays, if only that says what changed.
        let has_line = at < named && (at == 0 || !is_small(part));
        if has_line { rows.push(part) } else { smaller.push(part) }
    }
    let (mut beyond, mut others): (Vec<_>, Vec<_>) =
        smaller.into_iter().partition(|part| part.is_beyond_noise());
    let is_little = !others.is_empty() && beyond.iter().all(|part| is_small(part));
    let has_small = is_little && !beyond.is_empty();
    if is_little {
        others.append(&mut beyond);
        others.order_by(|a, b| b.change_ns.abs().total_cmp(&a.change_ns.abs()));
    }
    // A single one has its name, and takes no more room.
    for single in [&mut beyond, &mut others].into_iter().filter(|parts| parts.len() == 1) {
        rows.append(single);
    }
    let mut sums = Vec::new();
    if !beyond.is_empty() {
        let (name, ns) = (names_of(&beyond, chars), sum(&beyond));
        sums.push(Sum { name, ns, parts: beyond, is_change: true, is_judged: true });
    }
    if !others.is_empty() {
        let is_judged = |part: &&PartChange<'_>| part.is_judged();
        let [all, any] = [others.iter().all(is_judged), others.iter().any(is_judged)];
        let what = match (all, any, has_small) {
            (true, _, false) => "more within noise",
            (true, _, true) => "more small or within noise",
            (false, true, false) => "more within noise, or not judged",
            (false, true, true) => "more small, within noise, or not judged",
            (false, false, _) => "more not judged",
        };
        let ns = sum(&others);
        let largest = rows.iter().map(|part| part.change_ns.abs());
        let is_large = ns.abs() >= NAMED * largest.fold(parts.change_ns.abs(), f64::max);
        let is_named = !is_noise && is_large && others.iter().any(|part| !is_small(part));
        let name = match is_named {
            // The bar says what they are.
            true => names_of(&others, chars),
            false => format!("{} {what}", others.len()),
        };
        sums.push(Sum { name, ns, parts: others, is_change: false, is_judged: all });
    }
    let longest = rows.iter().map(|part| part.change_ns.abs());
    let longest = longest.chain(sums.iter().map(|sum| sum.ns.abs())).fold(0.0, f64::max);
    let rest = parts.change_ns - sum(&parts.rows.iter().collect::<Vec<_>>());
    if rest.abs() >= LEAST_REST_NS.max(LEAST_REST * longest) {
        let name = format!("rest: {}", parts.rest);
        sums.push(Sum { name, ns: rest, parts: vec![], is_change: false, is_judged: true });
    }
    Shown { rows, sums, longest: longest.max(rest.abs()), is_noise }
}

/// `3 more: elementwise +64 us, fill +41, attention +24`: as many as there is room for.
fn names_of(parts: &[&PartChange<'_>], chars: usize) -> String {
    let mut text = format!("{} more", parts.len());
    // Of the short ones, the first has it for all.
    let mut has_unit = false;
    for (at, part) in parts.iter().enumerate() {
        let us = part.change_ns / 1e3;
        let number = match us.abs() >= 100.0 {
            true => signed_time(part.change_ns),
            false => {
                let unit = if std::mem::replace(&mut has_unit, true) { "" } else { " us" };
                format!("{}{unit}", signed(us, if us.abs() < 10.0 { 1 } else { 0 }))
            }
        };
        let before = if at == 0 { ": " } else { ", " };
        let is_last = at + 1 == parts.len();
        let room = chars.saturating_sub(if is_last { 0 } else { MORE.chars().count() });
        let used = format!("{text}{before} {number}").chars().count();
        // The first has a name, if only a part of it.
        let name_chars = if at == 0 { room.saturating_sub(used) } else { usize::MAX };
        let name = class_of(part, name_chars);
        if name_chars < LEAST_NAME.min(name.chars().count()) || used + name.chars().count() > room {
            text.push_str(if at == 0 { "" } else { MORE });
            break;
        }
        text.push_str(&format!("{before}{name} {number}"));
    }
    text
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

/// Percentage points between the changes of the mean and of the median step that make both worth telling.
const APART_PERCENT: f64 = 10.0;

/// What the parts add up to: `mean step 4.641 → 3.441 ms (-1.20 ms), by part`.
pub(super) fn whole(stage: &StageChange, parts: &Parts<'_>) -> String {
    let change = match parts.change_ns {
        0.0 => "equal".to_owned(),
        change => signed_time(change),
    };
    let Some(whole) = parts.whole else {
        return format!("change per {}, {change}:", stage.per_word());
    };
    let [a, b] = side_cells(whole);
    let is_noise = whole.verdict == Verdict::None && !whole.before_runs.is_empty();
    let noise = if is_noise { ", within noise" } else { "" };
    // The table has the median.
    let median = stage.time().filter(|time| ["step_ms", "token_ms"].contains(&&*time.metric));
    let median = median.and_then(MetricChange::relative_percent);
    let apart = median.zip(whole.relative_percent());
    let median = apart.filter(|(median, mean)| (median - mean).abs() >= APART_PERCENT);
    let median = match median {
        Some((median, _)) => format!("; median step {} %", signed(median, 1)),
        None => String::new(),
    };
    // The table has another time, which may be many times as long.
    let other = match stage.time().is_some_and(|time| time.metric == "host_ms") {
        true => "; above: host time of a call",
        false => "",
    };
    format!("mean {} {a} → {b} ms ({change}{noise}{median}{other}), by part", stage.per_word())
}

/// A text in at most so many lines. Of a longer one the last clauses are left out, and none is cut.
fn fitted(text: &str, width: usize, most: usize) -> Vec<String> {
    let tied =
        |text: String, unit: &str| text.replace(&format!(" {unit}"), &format!("{TIED}{unit}"));
    let text = ["%", "ms)", "us)"].into_iter().fold(text.to_owned(), tied);
    let text = &text.replace("± ", &format!("±{TIED}"));
    let wrapped = |text: &str, most: usize| -> Vec<String> {
        let lines = wrapped_at_most(text, width, most).into_iter();
        lines.map(|line| line.replace(TIED, " ")).collect()
    };
    let all = wrapped(text, usize::MAX);
    if all.len() <= most {
        return all;
    }
    let mut depth = 0usize;
    let mut ends = Vec::new();
    for (at, char) in text.char_indices() {
        match char {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ',' | ';' if depth == 0 && text[at..].chars().nth(1) == Some(' ') => ends.push(at),
            _ => {}
        }
    }
    let without = |end: &usize| {
        let kept = text.get(..*end)?;
        let lines = wrapped(&format!("{kept}; more:{TIED}--full"), usize::MAX);
        (lines.len() <= most).then_some(lines)
    };
    // Where there is no room to say where the rest is, it is left out all the same.
    let shortest = |end: &usize| {
        let lines = wrapped(&format!("{};{TIED}…", text.get(..*end)?), usize::MAX);
        (lines.len() <= most).then_some(lines)
    };
    let fits = ends.iter().rev().find_map(without);
    // The first clause is too long: it ends behind a word, and in front of a bracket that would be cut.
    let head = text.get(..ends.first().copied().unwrap_or(text.len())).unwrap_or(text);
    let head = head.split_once(" (").map_or(head, |(head, _)| head);
    let words: Vec<usize> = head.match_indices(' ').map(|(at, _)| at).chain([head.len()]).collect();
    let behind_word = |end: &usize| {
        let lines = wrapped(&format!("{}…", head.get(..*end)?), usize::MAX);
        (lines.len() <= most).then_some(lines)
    };
    fits.or_else(|| ends.iter().rev().find_map(shortest))
        .or_else(|| words.last().and_then(without))
        .or_else(|| words.iter().rev().find_map(behind_word))
        .unwrap_or_else(|| wrapped(text, most))
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
        ([], Some(OTHER_IDLE)) => with_why(stage, "idle: other", limit),
        ([], Some(cause)) => cause_name(cause, limit),
        ([], None) => with_why(stage, "GPU idle", limit),
    }
}

/// Idle time with the reason why its causes are not known, where there is room for it.
fn with_why(stage: &StageChange, name: &str, limit: usize) -> String {
    let why = stage.host_absent.as_deref().and_then(|why| why.split_once(':'));
    let whole = why.map(|(why, _)| format!("{name} ({why})"));
    whole.filter(|text| text.chars().count() <= limit).unwrap_or_else(|| shorten(name, limit))
}

/// `idle: priority (sorting_scheduler.py)`: a cause with the name of its file alone, or without it where there is no room.
fn cause_name(cause: &str, limit: usize) -> String {
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

/// Ends a line of a command that goes on in the next one.
const GOES_ON: &str = " \\";

/// A line of the comparison with its label before it.
fn labelled(of: &Comparison, label: &str, width: usize, most: usize) -> Vec<String> {
    let Some(line) = of.lines.iter().find(|line| line.label == label) else { return Vec::new() };
    let chars = width - LABEL_CHARS - 1;
    let wrapped = match line.text.split_once(COMMAND) {
        Some((what, words)) if label == "next" && line.text.chars().count() > chars => {
            let command = wrapped_at_most(&format!("{COMMAND}{words}"), chars - GOES_ON.len(), ALL);
            let last = command.len().saturating_sub(1);
            // To be pasted as it is.
            let goes_on = |(at, line): (usize, String)| match at < last {
                true => line + GOES_ON,
                false => line,
            };
            let what = wrapped_at_most(what, chars, ALL).into_iter();
            what.chain(command.into_iter().enumerate().map(goes_on)).collect()
        }
        _ => fitted(&line.text, chars, most),
    };
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    labels.zip(wrapped).map(|(label, text)| format!("{label:LABEL_CHARS$}{text}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_worth_more_than_a_bar_and_a_high_terminal_shows_all() {
        let report = |name: &str| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/reports/");
            let bytes = std::fs::read(format!("{folder}{name}.json")).expect(name);
            stage2_diff::read_report(&bytes).expect(name).report
        };
        let (a, b) = (report("llama_1b"), report("moe_small"));
        fn run<'r>(label: &'r str, report: &'r stage2_model::Report) -> stage2_diff::Run<'r> {
            stage2_diff::Run { label, report, left_out: &[] }
        }
        let compared = |conditions: usize| {
            let condition = "decode.step_ms>+5%".parse().expect("a condition");
            let conditions = vec![condition; conditions];
            let sides = ([run("a", &a)], [run("b", &b)]);
            stage2_diff::compare(&sides.0, &sides.1, &conditions, false).expect("a comparison")
        };
        for conditions in 0..4 {
            let of = compared(conditions);
            for height in [0, 24, 30, 60] {
                let lines = screen(&of, 80, height);
                let has = |label: &str| lines.iter().any(|line| line.starts_with(label));
                assert!(has("comparable  ") && has("noise  ") && has("next  "), "{lines:#?}");
                let is_missing = |label: &&&str| !has(label) && !of.libraries.is_empty();
                let missing: Vec<&str> = BELOW.iter().filter(is_missing).copied().collect();
                let marked = lines.iter().find(|line| line.trim().starts_with("more: --full ("));
                let marked = marked.map(String::as_str).unwrap_or_default();
                let is_in_title = lines.first().is_some_and(|title| title.ends_with(MORE_IN_FULL));
                let are_named = missing.iter().all(|label| marked.contains(label));
                assert!(is_in_title || are_named, "{missing:?} {lines:#?}");
                let bars = lines.iter().filter(|line| line.contains(OPEN)).count();
                assert!(bars > if height == 60 { 8 } else { 2 }, "{bars} bars: {lines:#?}");
                if conditions == 0 {
                    assert!(lines.len() + PROMPTS <= height.max(HEIGHT), "{lines:#?}");
                }
                let is_cut = |line: &String| {
                    let is_short = line.starts_with("comparable") && line.ends_with('…');
                    is_short || line.contains("more: --full")
                };
                let is_cut = lines.iter().any(is_cut);
                assert_eq!(is_cut, height < 60, "{lines:#?}");
            }
        }
    }

    #[test]
    fn a_long_text_loses_whole_clauses() {
        let text = "with care: clocks (2,619 → 3,201), GPU (a; b), sampling";
        assert_eq!(fitted(text, 79, 1), [text]);
        assert_eq!(fitted(text, 54, 1), ["with care: clocks (2,619 → 3,201); more: --full"]);
        let long = "one two three, four five six seven eight nine ten";
        assert_eq!(fitted(long, 20, 2), ["one two three;", "more: --full"], "it is not broken");
        assert_eq!(fitted("one clause that is too long", 12, 1), ["one clause…"]);
        assert_eq!(
            fitted("it is -41.6 % (within ± 61.2 %)", 12, 9),
            ["it is", "-41.6 %", "(within", "± 61.2 %)"]
        );
        assert_eq!(fitted(")))((, a)", 4, 1).len(), 1, "no brackets that match");
        let numbers = "with care: prompt tokens in a prefill step (512 → 811); other command";
        assert_eq!(
            fitted(numbers, 47, 1),
            ["with care: prompt tokens in a prefill step…"],
            "no number is cut"
        );
        assert_eq!(
            fitted(numbers, 56, 1),
            ["with care: prompt tokens in a prefill step; more: --full"]
        );
    }

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
        assert_eq!(cause_name(rest, 24), "idle: … unknown causes", "no word is cut");
        for limit in 1..90 {
            assert!(cause_name(call, limit).chars().count() <= limit, "{limit}");
        }
    }

    #[test]
    fn what_is_little_of_a_change_shares_a_line_and_has_no_bar() {
        let part = |us: f64, verdict, method| PartChange {
            work: Vec::new(),
            cause: Some("copy (a.py)"),
            sides_ns: [0.0, us * 1e3],
            change_ns: us * 1e3,
            verdict,
            noise: stage2_diff::Noise { method, ..Default::default() },
            interval: None,
        };
        let change = |us| part(us, Verdict::Increased, NoiseMethod::Instances);
        let open = |us| part(us, Verdict::None, NoiseMethod::OneRunEach);
        let shown = |rows: Vec<PartChange<'static>>| {
            let change_ns = rows.iter().map(|part| part.change_ns).sum();
            let told = rows.iter().filter(|part| part.is_beyond_noise()).count();
            let parts = Parts { whole: None, change_ns, rows, told, beyond: 0, rest: "" };
            let shown = shown_parts(&parts, 12, 70);
            let sums: Vec<String> = shown.sums.into_iter().map(|sum| sum.name).collect();
            (shown.rows.len(), sums)
        };
        let little = shown(vec![change(900.0), change(11.0), change(2.0), open(20.0), open(3.0)]);
        assert_eq!(little, (2, vec!["3 more small, within noise, or not judged".to_owned()]));
        let named = shown(vec![change(800.0), change(2.0), open(200.0), open(80.0)]);
        let said = "3 more: idle: copy (a.py) +0.20 ms, idle: copy (a.py) +80 us, …";
        assert_eq!(named, (1, vec![said.to_owned()]));
        let single = shown(vec![change(900.0), change(30.0), change(20.0), open(30.0)]);
        assert_eq!(single, (4, vec![]), "a single part has its name");
        let parts = [open(1.0), change(1.0), open(2.0)];
        let mixed = Sum {
            name: String::new(),
            ns: 0.0,
            parts: parts.iter().collect(),
            is_change: false,
            is_judged: false,
        };
        assert!(mixed.is_mixed());
        assert_eq!(mixed.words(), "2 not judged, 1 longer");
    }
}
