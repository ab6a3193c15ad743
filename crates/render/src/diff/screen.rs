//! A comparison -> one screen of a terminal: the verdict, the times, the largest changes with bars, what to do next.

use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::counted;
use stage2_contract::text::{shorten, wrapped_at_most};
use stage2_diff::{
    Comparison, Diff, Difference, GONE, LAUNCH_GAPS, MetricChange, MetricUnit, NOT_COMPARABLE,
    NOT_COMPARED, NoiseMethod, OTHER_IDLE, Outcome, Outlook, PartChange, Parts, Per, Presence,
    StageChange, signed, signed_time,
};

use stage2_model::{AnswerLine, Severity};

use super::parts::{Room, Shown, head_of, in_short, part_name, shown_parts, sign_less, why_open};
use super::tables::{
    LEAST, ONE_VALUE, is_shown, is_unlike, rate, side_cells, stage_time, value_cell,
};
use super::words::{self, verdict_in_words};
use super::{COMMAND, page_title, sides, title};

/// Columns of the whole page, and of a terminal whose width is not known.
pub const WIDTH: usize = 80;
/// A narrower or wider terminal has lines of this length.
const WIDTHS: (usize, usize) = (60, 160);
/// Lines of a terminal whose height is not known, and the least that a screen is made for.
const HEIGHT: usize = 24;
/// Lines of a terminal with room for what is not the main thing.
const ROOMY: usize = 32;
/// Lines of the command and of the prompt.
const PROMPTS: usize = 2;
/// Conditions that passed and share a sentence: fewer have a line each.
const FOLDED: usize = 5;
/// Characters in front of it, and of its further lines.
const SPEAKER: usize = "stage2-launch: error: ".len();
const INDENT: usize = 9;
const STAGES: usize = 3;
const STAGE_CHARS: usize = 18;
/// Bars on the whole page.
const BARS: usize = 8;
/// Those of a stage after the first.
const OTHER_BARS: usize = 4;
const BAR_CHARS: usize = 16;
/// Columns of a bar's number.
const NUMBER_CHARS: usize = 12;
/// A narrower terminal has shorter bars.
const NARROW: usize = 72;
/// Lines of the comparison below the bars.
const BELOW: [&str; 5] = ["next", "comparable", "noise", "kernels", "libraries"];

/// Bars at most, and lines of the screen that each of [`BELOW`] may take. A command to copy is never cut: it is there, or
/// it is not.
type Layout = (usize, [usize; BELOW.len()], Spared);

/// What gives way to the bars: each one, and all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spared {
    Nothing,
    /// What else divides the idle time.
    Gaps,
    /// The command of what to do next.
    Command,
}
use Spared::{Command, Gaps, Nothing};

const ALL: usize = usize::MAX;
/// The first that fits is taken.
const LAYOUTS: [Layout; 9] = [
    (12, [ALL; 5], Nothing),
    (BARS, [ALL; 5], Nothing),
    (8, [ALL, 2, 2, 2, 2], Nothing),
    (7, [ALL, 2, 2, 2, 2], Nothing),
    (6, [ALL, 2, 2, 2, 2], Nothing),
    (5, [ALL, 2, 2, 2, 2], Nothing),
    (5, [ALL, 2, 2, 2, 0], Nothing),
    (5, [ALL, 2, 2, 1, 0], Nothing),
    (5, [ALL, 2, 2, 0, 0], Nothing),
];
/// Further ones where there is a warning in the line `comparable`: it takes precedence over a bar.
const WARNED: [Layout; 5] = [
    (4, [ALL, 2, 2, 0, 0], Nothing),
    (4, [ALL, 2, 1, 0, 0], Nothing),
    (4, [ALL, 1, 1, 0, 0], Nothing),
    (4, [ALL, 1, 1, 0, 0], Gaps),
    (3, [ALL, 1, 1, 0, 0], Gaps),
];
const NOT_WARNED: [Layout; 5] = [
    (5, [ALL, 1, 1, 0, 0], Nothing),
    (5, [ALL, 0, 1, 0, 0], Nothing),
    (4, [ALL, 0, 1, 0, 0], Nothing),
    (4, [ALL, 0, 1, 0, 0], Gaps),
    (3, [ALL, 0, 1, 0, 0], Gaps),
];
/// The last ones: the two largest parts have bars, and if nothing else helps, the largest.
const TIGHT: [Layout; 4] = [
    (3, [ALL, 1, 0, 0, 0], Gaps),
    (3, [ALL, 1, 1, 0, 0], Command),
    (3, [ALL, 1, 0, 0, 0], Command),
    (2, [ALL, 1, 0, 0, 0], Command),
];

const LABEL_CHARS: usize = 12;
/// Label of the commands that record more runs, which a screen with room for them has below what to do next.
pub(super) const RECORD: &str = "record";
/// Stands for a space at which no line breaks.
const TIED: char = '\u{1}';
/// Marks what has no room.
const MORE_IN_FULL: &str = "more: --full";
/// Ends a line whose last clauses are left out.
const CUT: &str = "; more: --full";
/// Lines of the verdict, and of the caution before it.
const VERDICT: usize = 4;
const CAUTION: usize = 2;
/// Characters of the part that most of a change is in.
pub(super) const PART_CHARS: usize = 60;
/// Lines of what the bars add up to.
const HEAD: usize = 2;

/// Whether the conditions that passed share a sentence, because the terminal has no room for one each.
pub(super) fn is_folded(of: &Comparison, height: usize) -> bool {
    let passed = of.conditions.iter().filter(|row| row.outcome == Outcome::Passed).count();
    passed >= FOLDED && height < HEIGHT + of.conditions.len()
}

/// The title and what follows, each line of at most `width` characters, in `height` lines if it is not cut short.
pub(super) fn screen(of: &Comparison, width: usize, height: usize) -> Vec<String> {
    let width = width.clamp(WIDTHS.0, WIDTHS.1);
    // Each condition has a sentence below the screen, behind the name of the program.
    let sentences = super::outcomes_of(of, Some(height), false);
    let lines_of = |said: &String| match SPEAKER + said.chars().count() {
        short if short <= width => 1,
        long => long.div_ceil(width - INDENT),
    };
    let sentences: usize = sentences.iter().map(|(_, said)| lines_of(said)).sum();
    let room = height.max(HEIGHT).saturating_sub(PROMPTS + sentences);
    let is_weighty = |d: &Difference| d.severity >= Severity::Warning;
    let is_warned = of.differences.iter().any(is_weighty);
    let others = if is_warned { &WARNED[..] } else { &NOT_WARNED[..] };
    let heads = |rows: &[Rows]| -> Vec<Vec<String>> {
        let title = || vec![short_title(of, width - 1)];
        let head = |rows: &Rows| {
            title().into_iter().chain(top(of, width, (CAUTION, VERDICT), *rows)).collect()
        };
        rows.iter().map(head).collect()
    };
    // A row that the verdict needs takes precedence over one that says nothing.
    let heads = match height >= ROOMY {
        true => heads(&[Rows::All]),
        false => heads(&[Rows::Spread, Rows::Main, Rows::Times, Rows::Claimed]),
    };
    let with = |head: &[String], (most, limits, spared): &Layout, is_close: bool| {
        let mut all = head.to_vec();
        all.extend(bars(of, width, *most, *spared, "--full"));
        all.extend(words::others(of).map(|stage| other_parts(stage, width)));
        all.push(String::new());
        let is_news = |label: &str| {
            let is_known = of.lines.iter().any(|line| line.label == label);
            let says_nothing = |line: &AnswerLine| line.label == label && line.text == NOT_COMPARED;
            let is_known = is_known && !of.lines.iter().any(says_nothing);
            is_known && (label != "libraries" || !of.libraries.is_empty())
        };
        let below = |(label, most): (&&'static str, &usize)| match (*label, *most) {
            (label, 0) => (label, Vec::new()),
            ("next", _) if *spared >= Command => ("next", without_command(of, width)),
            (label, most) => (label, labelled(of, label, width, most)),
        };
        let below = BELOW.iter().zip(limits).map(below).filter(|(label, _)| is_news(label));
        let mut below: Vec<(&str, Vec<String>)> = below.collect();
        // A line that names nothing is missing.
        let is_empty = |lines: &[String]| matches!(lines, [only] if only.ends_with(":…"));
        below.iter_mut().filter(|(_, of)| is_empty(of)).for_each(|(_, of)| of.clear());
        let is_missing = |lines: &[String]| lines.last().is_none_or(|last| last.ends_with('…'));
        let is_cut = |lines: &[String]| lines.last().is_some_and(|last| last.ends_with(CUT));
        let cut = below.iter().filter(|(_, lines)| is_cut(lines)).count();
        // One mark for all of them.
        if cut > 1 || cut == 1 && below.iter().any(|(_, lines)| is_missing(lines)) {
            for (_, lines) in &mut below {
                let last = lines.last_mut().filter(|last| last.ends_with(CUT));
                last.into_iter().for_each(|last| *last = last.replace(CUT, "; …"));
            }
        }
        // A stage without a row is not silently so.
        let is_unlike = |stage: &&&StageChange| {
            let has_row = || head.iter().any(|line| line.starts_with(&stage.stage));
            stage.other_work.is_some() && of.unlike.is_empty() && !has_row()
        };
        let stages = of.of_model();
        let unlike = stages.iter().take(STAGES).filter(is_unlike).map(|stage| &*stage.stage);
        let unlike: Vec<&str> = unlike.collect();
        let left_out = below.iter().filter(|(_, lines)| is_missing(lines));
        let is_shorter = unlike.is_empty() && head.len() < heads.first().map_or(0, Vec::len);
        let stages = is_shorter.then_some("stages");
        let left_out: Vec<&str> =
            stages.into_iter().chain(left_out.map(|(label, _)| *label)).collect();
        for (_, lines) in below.iter_mut().filter(|(label, _)| *label == "comparable") {
            count_left_out(of, lines, width);
        }
        all.extend(below.into_iter().flat_map(|(_, lines)| lines));
        let unlike = match unlike.is_empty() {
            true => String::new(),
            false => format!("{NOT_COMPARABLE}: {}; ", shorten(&unlike.join(", "), STAGE_CHARS)),
        };
        let mark = |kept: usize| {
            let names = left_out.iter().take(kept).copied();
            let more = (kept < left_out.len()).then_some("…");
            let names = names.chain(more).collect::<Vec<_>>().join(", ");
            match kept {
                0 => format!("{unlike}{MORE_IN_FULL}"),
                _ => format!("{unlike}{MORE_IN_FULL} ({names})"),
            }
        };
        let whole = mark(left_out.len());
        // In the first line if there is no room for another one.
        let title_chars = all.first().map_or(0, |title| title.chars().count());
        let mut marks = (0..=left_out.len()).rev().map(mark).chain([MORE_IN_FULL.to_owned()]);
        let in_title = marks.find_map(|mark| {
            let gap = (width - 1).checked_sub(title_chars + mark.chars().count())?;
            (gap >= GAP.len()).then(|| format!("{:gap$}{mark}", ""))
        });
        match (all.first_mut(), in_title.filter(|_| is_close)) {
            _ if left_out.is_empty() => {}
            (Some(title), Some(mark)) => title.push_str(&mark),
            _ => all.push(format!("{:LABEL_CHARS$}{whole}", "")),
        }
        all
    };
    let fitting = |head: &[String], layouts: &[Layout], is_close: bool| {
        let mut screens = layouts.iter().map(|layout| with(head, layout, is_close));
        screens.find(|screen| screen.len() <= room)
    };
    let all = [(&LAYOUTS[..], false), (others, false), (&LAYOUTS, true), (others, true)];
    let of_head = |head: &Vec<String>| {
        all.into_iter().find_map(|(layouts, is_close)| fitting(head, layouts, is_close))
    };
    let least = heads.last().map_or(&[][..], |head| head);
    let tight = || [false, true].into_iter().find_map(|close| fitting(least, &TIGHT, close));
    let fitting = heads.iter().find_map(of_head).or_else(tight);
    let mut screen = fitting.or_else(|| Some(with(least, TIGHT.last()?, true))).unwrap_or_default();
    let insert = |screen: &mut Vec<String>, label: &str| {
        let lines = labelled(of, label, width, ALL);
        if screen.len() + lines.len() <= room {
            let next = screen.iter().position(|line| line.starts_with("comparable  "));
            let at = next.unwrap_or(screen.len());
            screen.splice(at..at, lines);
        }
    };
    insert(&mut screen, "advice");
    for stage in words::others(of) {
        let bars = bars_of(of, stage, width, (OTHER_BARS, Nothing, "--full"));
        let short = other_parts(stage, width);
        let at = screen.iter().position(|line| *line == short);
        if let Some(at) = at.filter(|_| screen.len() + bars.len() <= room + 1) {
            screen.splice(at..=at, bars);
        }
    }
    insert(&mut screen, RECORD);
    screen
}

/// The parts of a stage that has no room for bars.
fn other_parts(stage: &StageChange, width: usize) -> String {
    in_short(stage, &shorten(&stage.stage, STAGE_CHARS), width - 1)
}

/// The lines of a screen that a terminal of this height has room for.
pub(super) fn room(height: usize) -> usize {
    height.max(HEIGHT).saturating_sub(PROMPTS)
}

/// A list whose items have at most so many lines each.
pub(super) fn items(texts: &[String], width: usize, most: usize) -> String {
    let width = width.clamp(WIDTHS.0, WIDTHS.1);
    let item = |text: &String| {
        let marks = std::iter::once("- ").chain(std::iter::repeat("  "));
        let lines = fitted(text, width - 3, most).into_iter().zip(marks);
        lines.map(|(line, mark)| format!("{mark}{line}\n")).collect::<String>()
    };
    texts.iter().map(item).collect()
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
    let mut lines = top(of, width, (usize::MAX, usize::MAX), Rows::All);
    lines.extend(bars(of, width, BARS, Nothing, "a table below"));
    for stage in words::others(of) {
        lines.extend(bars_of(of, stage, width, (OTHER_BARS, Nothing, "a table below")));
    }
    lines.push(String::new());
    // The rows of the stages have the times.
    let says = |line: &&AnswerLine| line.label != "time" && line.text != NOT_COMPARED;
    let labels = of.lines.iter().filter(says).map(|line| line.label.as_str());
    lines.extend(labels.flat_map(|label| labelled(of, label, width, usize::MAX)));
    lines
}

/// The verdict, what is to be known before it, and the times of the stages.
fn top(of: &Comparison, width: usize, most: (usize, usize), rows: Rows) -> Vec<String> {
    let caution = of.caution().unwrap_or_default();
    let mut lines = fitted(&caution, width - 1, most.0);
    lines.retain(|line| !line.is_empty());
    lines.extend(fitted(&verdict_of(of, width), width - 1, most.1));
    lines.push(String::new());
    lines.extend(stages(of, width, rows));
    lines
}

/// In few columns the rows have no room for all numbers, and the verdict has them.
fn verdict_of(of: &Comparison, width: usize) -> String {
    if width < NARROW { of.verdict.clone() } else { verdict_in_words(of, PART_CHARS) }
}

/// Which rows the stages have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rows {
    /// With what the clients of a server see.
    All,
    /// Of that only what the verdict names.
    Spread,
    /// And no range of the runs.
    Main,
    /// And no rate of a stage after the first that repeats its time.
    Times,
    /// And no stage that is not comparable.
    Claimed,
}

/// A line for the time of each stage, and for its tokens per second; where there is room, for what the clients of a
/// server see of it. What is not comparable comes last.
fn stages(of: &Comparison, width: usize, which: Rows) -> Vec<String> {
    let mut all = of.of_model();
    let others = all.split_off(STAGES.min(all.len()));
    let shown = &mut all;
    shown.order_by_key(|stage| of.unlike.is_empty() && stage.other_work.is_some());
    let with_latencies = which == Rows::All;
    let is_shown = |stage: &&&StageChange| which != Rows::Claimed || stage.other_work.is_none();
    let mut rows: Vec<[String; 5]> = Vec::new();
    // Those of tokens per second that say what the time does not.
    let mut deciding: Vec<usize> = Vec::new();
    let is_shared = shown.iter().chain(&others).any(|stage| stage.presence == Presence::Both);
    let request = of.run.iter().filter(|row| row.metric == "request_ms" && row.change.is_some());
    let request = request.filter(|_| with_latencies || words::requests(of).is_some());
    let request = request.zip(shown.iter()).next();
    let request =
        request.map(|(total, stage)| row("request".to_owned(), "p50 ", total, "ms", stage));
    let comparable = shown.iter().filter(|stage| stage.other_work.is_none()).count();
    for (at, stage) in shown.iter().filter(is_shown).enumerate() {
        if at == comparable {
            rows.extend(request.clone());
        }
        let name = shorten(&stage.stage, STAGE_CHARS);
        let told = match (stage.presence, stage_time(stage)) {
            (Presence::New | Presence::Vanished, Some((time, label))) if is_shared => {
                let ([a, b], per) = (side_cells(time), stage.per_of(&time.metric));
                let word = if stage.presence == Presence::New { "new" } else { GONE };
                let values = format!("{label} {a} → {b} ms{per}");
                rows.push([name, values, String::new(), String::new(), word.to_owned()]);
                continue;
            }
            // The verdict names them.
            (Presence::New | Presence::Vanished, _) if is_shared => continue,
            (Presence::New, _) => "new",
            (Presence::Vanished, _) => GONE,
            (Presence::Both, None) => match stage.own_text() {
                Some(times) => {
                    // The verdict may have the reason.
                    let why = stage.other_work.as_deref().unwrap_or_default();
                    let word = match verdict_of(of, width).contains(why) {
                        true => NOT_COMPARABLE.to_owned(),
                        false => not_comparable(stage),
                    };
                    rows.push([name, format!("p50 {times}"), String::new(), String::new(), word]);
                    continue;
                }
                None => "no time is known",
            },
            (Presence::Both, Some((time, label))) => {
                let unit = format!("ms{}", stage.per_of(&time.metric));
                rows.push(row(name, &format!("{label} "), time, &unit, stage));
                let is_first = at == 0 && which < Rows::Main || which == Rows::All;
                rows.extend(range(time).filter(|_| is_first).map(|values| {
                    [String::new(), values, String::new(), String::new(), String::new()]
                }));
                if let Some(rate) = rate(stage) {
                    let decides = rate.verdict.is_change() && !time.verdict.is_change();
                    if decides {
                        deciding.push(rows.len());
                    }
                    if which >= Rows::Times && at > 0 && !decides {
                        continue;
                    }
                    rows.push(row(String::new(), "mean ", rate, "tokens/s", stage));
                }
                for (number, label) in latencies(stage).filter(|_| with_latencies) {
                    rows.push(row(String::new(), label, number, "ms", stage));
                }
                continue;
            }
        };
        rows.push([name, told.to_owned(), String::new(), String::new(), String::new()]);
    }
    if comparable >= shown.iter().filter(is_shown).count() {
        rows.extend(request);
    }
    let widths = |rows: &[[String; 5]]| -> [usize; 5] {
        let chars = |row: &[String; 5], at: usize| match has_reason(row) && at > 0 {
            true => 0,
            false => row[at].chars().count(),
        };
        std::array::from_fn(|at| rows.iter().map(|row| chars(row, at)).max().unwrap_or(0))
    };
    let fits = |rows: &[[String; 5]], gap: &str| {
        let columns = widths(rows).into_iter().filter(|width| *width > 0);
        columns.map(|width| width + gap.len()).sum::<usize>() < width + gap.len()
    };
    if !fits(&rows, GAP) {
        // The words of what is inconclusive say it, too.
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
        true => rows
            .iter()
            .flat_map(|row| match has_reason(row) {
                true => with_reason(row, columns[0], gap, width - 1),
                false => vec![line(row, &[0, 1, 2, 3, 4])],
            })
            .collect(),
        // Two lines for each number; the verdict has the rate of the first.
        false => {
            let is_kept =
                |(at, row): &(usize, &[String; 5])| !row[0].is_empty() || deciding.contains(at);
            let times = rows.iter().enumerate().filter(is_kept).map(|(_, row)| row);
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

/// The last cell of a stage whose sides are not comparable.
fn not_comparable(stage: &StageChange) -> String {
    let why = stage.other_work.as_ref().map(|why| format!(": {why}"));
    format!("{NOT_COMPARABLE}{}", why.unwrap_or_default())
}

/// The runs that the median of a time is of; nothing of one run per side, and where no run is another.
fn range(time: &MetricChange) -> Option<String> {
    let sides = [&time.before_runs, &time.after_runs];
    let ends = sides.map(|runs| {
        let [low, high] = [f64::min as fn(f64, f64) -> f64, f64::max]
            .map(|of| runs.iter().copied().reduce(of).map(|end| time.shown(end)));
        let (low, high) = low.zip(high)?;
        Some(if low == high { low } else { format!("{low}{TO}{high}") })
    });
    let [before, after] = ends;
    let (before, after) = before.zip(after)?;
    let [a, b] = sides.map(Vec::len);
    let is_range = before.contains(TO) || after.contains(TO);
    is_range.then(|| format!("{a} vs {b} runs: {before} → {after} ms{RANGE}"))
}

/// Between the ends of a range, and behind both ranges.
const TO: &str = "–";
const RANGE: &str = " (min–max)";

/// Whether it has the reason why it is not comparable, or is the range of the runs: such a row has no columns.
fn has_reason(row: &[String; 5]) -> bool {
    row[1].ends_with(RANGE)
        || row[4].strip_prefix(NOT_COMPARABLE).is_some_and(|why| !why.is_empty())
}

/// A row with its reason: shorter units where these fit its line, or else a line of its own for the reason.
fn with_reason(row: &[String; 5], first: usize, gap: &str, limit: usize) -> Vec<String> {
    let [name, values, .., why] = row;
    let head = |values: &str| format!("{name:first$}{gap}{values}");
    let short = why.trim_end_matches(" per step");
    let lines = [(values, &**why), (values, short), (&values.replace(" ms per ", " ms/"), short)];
    let lines =
        lines.map(|(values, why)| format!("{}{GAP}{why}", head(values)).trim_end().to_owned());
    match lines.into_iter().find(|line| line.chars().count() <= limit) {
        Some(line) => vec![line],
        None => {
            let below = format!("{:first$}{gap}{why}", "");
            [head(values), below].map(|line| shorten(&line, limit)).into()
        }
    }
}

/// The times that a client of a server sees, in the stage that they are of, with their labels.
fn latencies(stage: &StageChange) -> impl Iterator<Item = (&MetricChange, &'static str)> {
    let known = |(name, label)| {
        let number = stage.metric(name).filter(|number| number.change.is_some())?;
        Some((number, label))
    };
    [("ttft_ms", "TTFT p50 "), ("tpot_ms", "TPOT p50 ")].into_iter().filter_map(known)
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
    if is_unlike(metric) {
        let values = format!("{label}{a} → {b} {unit}");
        return [name, values, String::new(), String::new(), not_comparable(stage)];
    }
    let percent = metric.relative_percent().map(|percent| format!("{} %", signed(percent, 1)));
    let is_one = metric.noise.method == NoiseMethod::OneRunEach && metric.change != Some(0.0);
    let why = || if is_one { ONE_VALUE } else { metric.why_absent().unwrap_or_default() };
    // Nothing is smaller than no change.
    let noise = metric.noise_text().filter(|_| metric.change != Some(0.0));
    let least = if metric.noise.method == NoiseMethod::FivePercent { LEAST } else { "" };
    let noise = noise.map_or_else(|| why().to_owned(), |text| format!("{text}{least}"));
    let verdict = stage.word(metric).to_owned();
    [name, format!("{label}{a} → {b} {unit}"), percent.unwrap_or_default(), noise, verdict]
}

/// The stages whose parts say something: those of steps that do other work, and of other programs, do not.
fn alike(of: &Comparison) -> impl Iterator<Item = &StageChange> {
    let is_alike = |stage: &&StageChange| is_shown(stage) && stage.other_work.is_none();
    of.stages.iter().filter(|_| of.unlike.is_empty()).filter(is_alike)
}

/// The stage whose parts come first: that of the verdict.
pub(super) fn pictured(of: &Comparison) -> Option<&StageChange> {
    alike(of).find(|stage| !stage.parts().rows.is_empty())
}

/// The parts of a stage as bars of characters, and the rest: they add up to what the head says.
/// `place`: where the tables are.
fn bars(of: &Comparison, width: usize, most: usize, spared: Spared, place: &str) -> Vec<String> {
    let Some(stage) = pictured(of) else {
        let why = match (alike(of).next(), of.stages.iter().any(is_shown)) {
            _ if !of.unlike.is_empty() => "The sides are not comparable, so no parts are compared.",
            (Some(_), _) => "All GPU work and idle time is the same on both sides.",
            (_, true) => "No stage does the same work per step on both sides.",
            _ if of.stages.iter().any(|stage| stage.own_times.is_some()) => {
                "No stage is timed in the same way on both sides, so no parts are compared."
            }
            _ => "No stage on both sides has GPU work to compare.",
        };
        return vec![String::new(), why.to_owned()];
    };
    bars_of(of, stage, width, (most, spared, place))
}

/// Those of a stage.
fn bars_of(
    of: &Comparison,
    stage: &StageChange,
    width: usize,
    (most, spared, place): (usize, Spared, &str),
) -> Vec<String> {
    let parts = stage.parts();
    let plain_chars =
        width - NUMBER_CHARS - if width < NARROW { BAR_CHARS / 2 } else { BAR_CHARS } - 3;
    let Shown { rows, sums, longest, is_noise } =
        shown_parts(&parts, Room { most, chars: plain_chars, own_from: f64::INFINITY });
    let head = format!("{}: {}", shorten(&stage.stage, STAGE_CHARS), head_of(of, stage, &parts));
    // A bar of noise would look like a result.
    let bar_chars = match width < NARROW {
        _ if is_noise => 0,
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
        "within noise" | "inconclusive" if cells(part.change_ns) > 0 => String::new(),
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
        let fill = match (sum.is_judged, sum.is_change) {
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
    let is_mixed = is_used(OPEN) && sums.iter().any(|sum| sum.is_mixed());
    let open = why_open(&parts, is_mixed);
    match (is_used(OPEN), is_used("(inconclusive)")) {
        (true, _) => legend.push(format!("{OPEN} {open}")),
        // The word stands behind the name of a part.
        (false, true) => legend.push(open),
        (false, false) => {}
    }
    let unnamed = sums.iter().flat_map(|sum| sum.parts.iter().copied());
    let other = other_breakdown(stage, &parts, unnamed, place);
    legend.extend(other.filter(|_| spared < Gaps));
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

/// What the bars are made of.
const CHANGE: &str = "█";
const NOISE_BAR: &str = "░";
const OPEN: &str = "□";

/// What else divides the idle time that the bars divide, and where that is; or why no cause divides that of `unnamed` parts,
/// which share a bar and so have no room for it.
pub(super) fn other_breakdown<'p>(
    stage: &StageChange,
    parts: &Parts<'_>,
    mut unnamed: impl Iterator<Item = &'p PartChange<'p>>,
    place: &str,
) -> Option<String> {
    let causes = format!("{place} has the same idle time by host activity");
    let absent = || {
        let why = stage.host_absent.as_deref().filter(|_| !stage.host_ahead)?;
        let (why, _) = why.split_once(':')?;
        let is_idle = unnamed.any(|part| part.work.is_empty());
        is_idle.then(|| format!("idle causes unknown: {why} ({place})"))
    };
    parts.gaps_text().or(parts.has_other_causes.then_some(causes)).or_else(absent)
}

/// What a change exceeds. One run per side does not show how much runs differ.
pub(super) fn beyond(of: &Comparison) -> &'static str {
    if of.is_of_two_runs() { "beyond the noise within the runs" } else { "beyond noise" }
}

/// A text in at most so many lines. Of a longer one the last clauses are left out, and none is cut.
fn fitted(text: &str, width: usize, most: usize) -> Vec<String> {
    let tied =
        |text: String, unit: &str| text.replace(&format!(" {unit}"), &format!("{TIED}{unit}"));
    let text = ["%", "ms)", "us)"].into_iter().fold(text.to_owned(), tied);
    let text = text.replace("± ", &format!("±{TIED}"));
    // An interval does not break either.
    let mut pieces = text.split('[');
    let first = pieces.next().unwrap_or_default().to_owned();
    let text = &pieces.fold(first, |all, piece| match piece.split_once(']') {
        Some((ends, rest)) if ends.starts_with(['+', '-', '0']) => {
            format!("{all}[{}]{rest}", ends.replace(' ', &TIED.to_string()))
        }
        _ => format!("{all}[{piece}"),
    });
    let wrapped = |text: &str, most: usize| -> Vec<String> {
        let lines = wrapped_at_most(text, width, most).into_iter();
        lines.map(|line| line.replace(TIED, " ")).collect()
    };
    let all = wrapped(text, usize::MAX);
    if all.len() <= most {
        return all;
    }
    let ends = clause_ends(text);
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

/// Where its clauses end, outside of brackets; the end of the last one is not among them.
fn clause_ends(text: &str) -> Vec<usize> {
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
    ends
}

/// How many differences the line `comparable` leaves out.
fn count_left_out(of: &Comparison, lines: &mut [String], width: usize) {
    let Some(all) = of.lines.iter().find(|line| line.label == "comparable") else { return };
    let shown = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let Some(last) = lines.last_mut() else { return };
    let Some(head) = last.strip_suffix("; …") else { return };
    // That in front of the mark ends the last one shown.
    let left = (clause_ends(&all.text).len() + 1).saturating_sub(clause_ends(&shown).len());
    let counted = format!("{head}; {left} more");
    if left > 0 && counted.chars().count() < width {
        *last = counted;
    }
}

/// Ends a line of a command that goes on in the next one.
const GOES_ON: &str = " \\";

/// What to do next, without the command that does it.
fn without_command(of: &Comparison, width: usize) -> Vec<String> {
    match next_of(of) {
        Some((what, true)) => below_label("next", &format!("{what}{CUT}"), width),
        _ => labelled(of, "next", width, ALL),
    }
}

/// What to do next without its command, and whether it has one.
/// In a command that compares two sides of several runs.
const AGAINST: &str = " --against ";

fn next_of(of: &Comparison) -> Option<(&str, bool)> {
    let line = of.lines.iter().find(|line| line.label == "next")?;
    let what = line.text.split_once(COMMAND).map(|(what, _)| what.trim_end());
    let what = what.map(|what| what.strip_suffix(", then:").unwrap_or(what));
    Some((what.unwrap_or(&line.text), what.is_some()))
}

fn below_label(label: &str, text: &str, width: usize) -> Vec<String> {
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    let wrapped = wrapped_at_most(text, width - LABEL_CHARS - 1, ALL);
    labels.zip(wrapped).map(|(label, text)| format!("{label:LABEL_CHARS$}{text}")).collect()
}

/// What to do next with several sides: mostly the same for all pairs.
pub(super) fn next_of_all(diff: &Diff, width: usize, most: usize) -> Vec<String> {
    let width = width.clamp(WIDTHS.0, WIDTHS.1);
    let text = text_of_all(diff, &sides::short_names(diff));
    if let Some(of) = diff.comparisons.first().filter(|_| text.contains(AGAINST)) {
        return labelled(of, "next", width, ALL);
    }
    let said = fitted(&text, width - LABEL_CHARS - 1, most);
    let labels = std::iter::once("next").chain(std::iter::repeat(""));
    let lines = labels.zip(said).map(|(label, text)| format!("{label:LABEL_CHARS$}{text}"));
    let mut lines: Vec<String> = if text.is_empty() { Vec::new() } else { lines.collect() };
    // One mark for all.
    let cut = lines.last_mut().filter(|last| last.ends_with(CUT));
    cut.into_iter().for_each(|last| *last = last.replace(CUT, "; …"));
    lines.push(format!("{:LABEL_CHARS$}{MORE_IN_FULL} (the screen of each pair)", ""));
    lines
}

/// Behind runs to record for several sides: each is then one word.
const THEN: &str = ", then save each side's runs as a baseline and compare the baselines";

/// What to do next with several sides, with a command if one puts all runs into two groups: for the pair that the answer is
/// about first, and last for those that did not change.
pub(super) fn text_of_all(diff: &Diff, names: &[String]) -> String {
    let line = |of: &Comparison| of.lines.iter().find(|line| line.label == "next").cloned();
    let mut nexts = diff.comparisons.iter().map(line);
    let shared = nexts.next().flatten().filter(|first| nexts.all(|of| of.as_ref() == Some(first)));
    if let Some(groups) = shared.filter(|next| next.text.contains(AGAINST)) {
        return groups.text;
    }
    let answer = sides::answer(diff, names).and_then(|answer| answer.of);
    let of = |(at, of): (usize, &Comparison)| {
        let (what, has_command) = next_of(of)?;
        let then = if has_command { THEN } else { "" };
        let rank = match of.outlook() {
            _ if answer.is_some_and(|answer| std::ptr::eq(answer, of)) => 0,
            Outlook::Same | Outlook::Undecided => 2,
            _ => 1,
        };
        Some((rank, sides::pair(names, at), format!("{what}{then}")))
    };
    let mut all: Vec<_> = diff.comparisons.iter().enumerate().filter_map(of).collect();
    all.order_by_key(|(rank, ..)| *rank);
    let all: Vec<(String, String)> = all.into_iter().map(|(_, pair, what)| (pair, what)).collect();
    let is_one = all.iter().all(|(_, what)| Some(what) == all.first().map(|(_, what)| what));
    // Pairs that need the same share it.
    let mut grouped: Vec<(Vec<&str>, &str)> = Vec::new();
    for (pair, what) in &all {
        match grouped.iter_mut().find(|(_, known)| known == what) {
            Some((pairs, _)) => pairs.push(pair),
            None => grouped.push((vec![pair], what)),
        }
    }
    let named = grouped.iter().map(|(pairs, what)| format!("{}: {what}", pairs.join(" and ")));
    match (is_one, all.first()) {
        (_, None) => String::new(),
        (true, Some((_, what))) => what.clone(),
        (false, _) => named.collect::<Vec<_>>().join("; "),
    }
}

/// A line of the comparison with its label before it.
fn labelled(of: &Comparison, label: &str, width: usize, most: usize) -> Vec<String> {
    let Some(line) = of.lines.iter().find(|line| line.label == label) else { return Vec::new() };
    let chars = width - LABEL_CHARS - 1;
    let wrapped = match line.text.split_once(COMMAND) {
        Some((what, words))
            if ["next", RECORD].contains(&label) && line.text.chars().count() > chars =>
        {
            let command = wrapped_at_most(&format!("{COMMAND}{words}"), chars - GOES_ON.len(), ALL);
            let last = command.len().saturating_sub(1);
            // To be pasted as it is.
            let goes_on = |(at, line): (usize, String)| match at < last {
                true => line + GOES_ON,
                false => line,
            };
            let what =
                wrapped_at_most(what, chars, ALL).into_iter().filter(|line| !line.is_empty());
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
    fn a_warning_takes_precedence_over_a_bar_and_a_high_terminal_shows_all() {
        let report = |name: &str| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/reports/");
            let bytes = std::fs::read(format!("{folder}{name}.json")).expect(name);
            stage2_diff::read_report(&bytes).expect(name).report
        };
        let (a, mut b) = (report("llama_1b"), report("moe_small"));
        // Of another model, nothing would be compared.
        let name = a.insight.utilisation.as_ref().and_then(|used| used.model_name.clone());
        b.insight.utilisation.as_mut().expect("a model").model_name = name;
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
                assert!(has("comparable  ") && has("next  "), "{lines:#?}");
                let is_missing = |label: &&&str| !has(label) && !of.libraries.is_empty();
                let missing: Vec<&str> = BELOW.iter().filter(is_missing).copied().collect();
                let marked = lines.iter().find(|line| line.trim().starts_with("more: --full ("));
                let marked = marked.map(String::as_str).unwrap_or_default();
                let is_in_title = lines.first().is_some_and(|title| title.contains(MORE_IN_FULL));
                let are_named = missing.iter().all(|label| marked.contains(label));
                assert!(is_in_title || are_named, "{missing:?} {lines:#?}");
                let is_any_bar = |line: &&String| {
                    [CHANGE, NOISE_BAR, OPEN].iter().any(|fill| line.contains(fill))
                };
                let bars = lines.iter().filter(is_any_bar).count();
                assert!(bars > if height == 60 { 8 } else { 1 }, "{bars} bars: {lines:#?}");
                // Whatever gives way: the meaning of a bar stays.
                let is_bar = |line: &&String, fill: &str| line.contains(&format!(" {fill}{fill}"));
                let is_legend = |line: &String, fill: &str| line.contains(&format!(" {fill} "));
                for fill in [CHANGE, NOISE_BAR, OPEN] {
                    let is_used = lines.iter().any(|line| is_bar(&line, fill));
                    let is_told = lines.iter().any(|line| is_legend(line, fill));
                    assert!(!is_used || is_told, "{lines:#?}");
                }
                if conditions == 0 {
                    assert!(lines.len() + PROMPTS <= height.max(HEIGHT), "{lines:#?}");
                }
                let is_cut = |line: &String| {
                    let is_short = line.starts_with("comparable") && line.ends_with(" more");
                    is_short || line.contains("more: --full")
                };
                let is_cut = lines.iter().any(is_cut);
                assert_eq!(is_cut, height < 60, "{lines:#?}");
            }
        }
        // A stage that the verdict names has at least a line of its parts.
        let mut of = compared(0);
        for metric in of.stages.iter_mut().flat_map(|stage| &mut stage.metrics) {
            if ["token_ms", "step_ms", "host_ms"].contains(&&*metric.metric) {
                metric.verdict = stage2_diff::Verdict::Decreased;
            }
        }
        let low = screen(&of, 80, 24);
        let has = |of: &str| low.iter().any(|line| line.starts_with(of) && line.contains(" ms: "));
        assert!(has("prefill mean -") && low.len() + PROMPTS <= HEIGHT, "{low:#?}");
        let high = screen(&of, 80, 60).join("\n");
        assert!(high.contains("\n\nprefill: mean GPU window ") && !high.contains("prefill mean "));
    }

    #[test]
    fn runs_that_were_not_recorded_interleaved_are_named_on_every_screen() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/reports/");
        let bytes = std::fs::read(format!("{folder}llama_1b.json")).expect("a report");
        let report = stage2_diff::read_report(&bytes).expect("a report").report;
        let runs: Vec<stage2_model::Report> = (1..=4)
            .map(|hour| {
                let mut run = report.clone();
                run.run.started = Some(format!("2026-11-01T0{hour}:00:00Z"));
                run
            })
            .collect();
        let run = |report| stage2_diff::Run { label: "run", report, left_out: &[] };
        let of = |order: [usize; 4]| {
            let [a, b, c, d] = order.map(|at| run(&runs[at]));
            stage2_diff::compare(&[a, b], &[c, d], &[], false).expect("a comparison")
        };
        let said = |order| screen(&of(order), 80, 24).join("\n").contains("runs not interleaved");
        assert_eq!([[0, 1, 2, 3], [2, 3, 0, 1], [0, 2, 1, 3]].map(said), [true, true, false]);
    }

    #[test]
    fn conditions_that_passed_share_a_line_where_there_is_no_room() {
        let mut of = four_of_each([80.0, 150.0], [1.0, 0.5], true);
        let row = |outcome, condition: &str| stage2_diff::ConditionResult {
            condition: condition.to_owned(),
            expected: false,
            outcome,
            text: String::new(),
        };
        of.conditions = vec![row(Outcome::Passed, "a.step_ms>+5%"), row(Outcome::Failed, "b")];
        let said = |of: &Comparison, height| {
            let diff = stage2_diff::Diff::of(vec![of.clone()], String::new());
            let said = crate::diff::outcomes(&diff, height).into_iter();
            said.map(|(_, said)| said).collect::<Vec<_>>()
        };
        // A line each; without a terminal, the reason.
        of.conditions[1].text = "1.00 → 2.00 ms per token, +1 ms, +100 %: beyond it".to_owned();
        assert_eq!(said(&of, Some(24))[1], "failed: b: 1.00 → 2.00 ms, +100 %");
        let open = "2.00 → 1.99 ms per token, -0.01 ms, -0.5 % (not comparable: other work)";
        of.conditions[0].text = format!("{open}: within the limit, {}", stage2_diff::NOISE_EXCEEDS);
        let caveats = "-0.5 %; not comparable; its noise could hide more";
        assert!(said(&of, Some(24))[0].ends_with(caveats), "{:?}", said(&of, Some(24)));
        of.conditions[0].text = String::new();
        assert!(said(&of, None)[1].ends_with("2.00 ms per token, +1 ms, +100 %: beyond it"));
        of.conditions.push(row(Outcome::Passed, "c.step_ms>+5%"));
        assert_eq!(said(&of, Some(24)).len(), 3, "a few have their numbers");
        for name in ["d", "e", "f"] {
            of.conditions.push(row(Outcome::Passed, name));
        }
        assert_eq!([said(&of, None).len(), said(&of, Some(60)).len()], [6; 2]);
        let folded = said(&of, Some(24));
        let last = "5 conditions passed: --fail-if 'a.step_ms>+5%', --fail-if 'c.step_ms>+5%', --fail-if 'd', \
                    --fail-if 'e', --fail-if 'f'";
        assert_eq!((folded.len(), folded.last().map(String::as_str)), (2, Some(last)));
    }

    #[test]
    fn many_sides_have_a_line_each_where_there_is_no_room() {
        let of = |after: &str, times: f64| {
            let mut of = four_of_each([80.0, 250.0], [1.0, times], true);
            of.after.iter_mut().for_each(|run| run.label = after.to_owned());
            of.before.iter_mut().for_each(|run| run.label = "a".to_owned());
            of
        };
        let labels = ["b", "c", "d", "e", "f", "g", "h", "i"];
        let all = labels.map(|label| of(label, if label == "b" { 0.25 } else { 1.0 }));
        let mut simulated = all.clone();
        for of in &mut simulated {
            of.before.iter_mut().chain(&mut of.after).for_each(|run| run.simulated = true);
        }
        let simulated = stage2_diff::Diff::of(simulated.into(), String::new());
        let shown = crate::diff::screens(&simulated, 80, 24);
        assert!(shown.contains(" is fastest in the simulation (4 vs 4 runs): "), "{shown}");
        let diff = stage2_diff::Diff::of(all.into(), String::new());
        let shown = crate::diff::screens(&diff, 80, 24);
        assert!(shown.lines().count() <= 22, "{shown}");
        let last = shown.lines().find(|line| line.starts_with("i … i "));
        assert!(last.is_some_and(|row| row.contains(" equal ")), "{shown}");
        let first = "\n- a … a → b … b: better: decode -75.0 %, tokens/s +213 %\n";
        let higher = crate::diff::screens(&diff, 80, 36);
        assert!(!shown.contains(" → ") && higher.contains(first), "the pairs give way: {higher}");
        assert!(shown.lines().all(|line| line.chars().count() < 80), "{shown}");
        let high = crate::diff::screens(&diff, 80, 200);
        assert!(high.contains("Better (4 vs 4") && high.contains("decode: p50"), "{high}");
    }

    #[test]
    fn several_sides_keep_their_table_and_the_caveats_of_the_pair() {
        let named = |runs: &mut Vec<stage2_diff::ComparedRun>, name: &str| {
            runs.iter_mut().enumerate().for_each(|(at, run)| run.label = format!("{name}/{at}"));
        };
        let of = |[before, after]: [&str; 2], times: f64| {
            let mut of = four_of_each([80.0, 250.0], [1.0, times], true);
            of.before.truncate(2);
            named(&mut of.before, before);
            named(&mut of.after, after);
            of
        };
        let diff = |names: &[&str], times: f64| {
            let (first, others) = names.split_first().expect("a side");
            let faster = |at: usize| 1.0 - (1.0 - times) * (at + 1) as f64 / others.len() as f64;
            let pairs = others.iter().enumerate().map(|(at, name)| of([first, name], faster(at)));
            stage2_diff::Diff::of(pairs.collect(), String::new())
        };
        let shown =
            crate::diff::screens(&diff(&["baseline:x", "baseline:y", "baseline:g"], 0.25), 80, 24);
        let said = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let answer = "- g is fastest (2 vs 4 runs, too few for a test): decode is 4.0x faster than x - x → y: ";
        assert!(said.contains(answer) && said.contains(" x (2 runs) "), "{shown}");
        let slower = crate::diff::verdicts(&diff(&["baseline:x", "baseline:y", "baseline:g"], 4.0));
        let said = "x is fastest (2 vs 4 runs, too few for a test) in decode; y is 2.5x slower; g is 4.0x slower\n";
        assert!(slower.starts_with(said), "{slower}");
        let pairs = [("baseline:y", 1.0), ("baseline:g", 4.0)];
        let pairs = pairs.map(|(name, times)| of(["baseline:x", name], times)).into();
        let none = crate::diff::verdicts(&stage2_diff::Diff::of(pairs, String::new()));
        let said = "beyond noise (2 vs 4 runs, too few for a test); g is 4.0x slower\n";
        assert!(none.contains(said), "{none}");
        let long = ["", "-v2", "-v3", "-v4"].map(|end| {
            format!("baseline:llama3-8b-tp1-cudagraph{end}-2026-11-30-of-the-other-machine")
        });
        let long = long.each_ref().map(String::as_str);
        for (width, names) in [(80, &long[..3]), (80, &long), (60, &long), (100, &long)] {
            let shown = crate::diff::screens(&diff(names, 0.25), width, 24);
            let last = if names.len() > 3 { "v4-2026…" } else { "v3-2026…" };
            assert!(shown.contains(&format!("\n…{last} ")), "a row: {shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= width), "{shown}");
            assert!(shown.lines().count() <= 22, "{shown}");
        }
        // Also where it does not fit.
        let many = Vec::from_iter(('a'..='z').map(|name| format!("baseline:{name}")));
        let shown = crate::diff::screens(
            &diff(&Vec::from_iter(many.iter().map(String::as_str)), 0.25),
            80,
            24,
        );
        assert!(shown.contains("\nz (4 runs)") && !shown.contains("\n- a → b"), "{shown}");
    }

    #[test]
    fn the_line_comparable_counts_what_it_leaves_out() {
        let mut of = four_of_each([80.0, 150.0], [1.0, 0.5], true);
        let text = "with caveats: clocks (2,619 → 3,201), GPU (a; b), sampling; different command";
        let lines = of.lines.iter_mut().filter(|line| line.label == "comparable");
        lines.for_each(|line| line.text = text.to_owned());
        let counted = |shown: &str| {
            let mut lines = [format!("comparable  {shown}; …")];
            count_left_out(&of, &mut lines, 80);
            lines[0].clone()
        };
        assert!(counted("with caveats: clocks (2,619 → 3,201)").ends_with("3,201); 3 more"));
        assert!(counted("with caveats: clocks (2,619 → 3,201), GPU (a; b)").ends_with("; 2 more"));
    }

    #[test]
    fn a_page_says_what_its_words_and_its_centres_are() {
        let mut of = four_of_each([80.0, 150.0], [1.0, 0.5], true);
        let decode = of.stages.iter().find(|stage| stage.stage == "decode");
        let mut slower = decode.expect("a stage").clone();
        slower.stage = "other".to_owned();
        let swap = |metric: &mut MetricChange| {
            std::mem::swap(&mut metric.before, &mut metric.after);
        };
        slower.metrics.iter_mut().for_each(swap);
        of.stages.push(slower);
        let diff = stage2_diff::Diff::of(vec![of], String::new());
        let links = [("run".to_owned(), "x/run/report.html".to_owned())].into();
        let page = crate::diff::html(&diff, &links).replace("<wbr>", "");
        assert!(page.contains(
            "(links work only on the machine with the runs): <a href=\"x/run/report.html\">run/report.html</a>"
        ));
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(at("medians over the runs of each side") < at("of GPU work are means"));
        assert!(at("What the words mean") < at("<em>better</em>, <em>worse</em>: "));
        assert!(page.contains("x faster<"), "{page}");
        let said = "decode is 2.0x faster; other is 2.0x slower</p>";
        assert!(page.contains(said), "{page}");
        let names = ["decode.token_ms</code>", "decode.step_ms</code>"];
        let found = names.map(|name| page.matches(name).count());
        assert!(found.iter().sum::<usize>() < 4, "one row for one number: {found:?}");
    }

    /// 4 vs 4 runs with tokens per second of each side, and with steps of so many times the time and its mean.
    fn four_of_each(rates: [f64; 2], times: [f64; 2], is_interleaved: bool) -> Comparison {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/reports/");
        let bytes = std::fs::read(format!("{folder}llama_1b.json")).expect("a report");
        let report = stage2_diff::read_report(&bytes).expect("a report").report;
        let side = |side: usize| -> Vec<stage2_model::Report> {
            let run = |at: usize| {
                let mut run = report.clone();
                let stage = run.answer.stages.iter_mut().find(|stage| stage.stage == "decode");
                let stage = stage.expect("decode");
                let jitter = 1.0 + at as f64 / 100.0;
                stage.tokens_per_s = stage2_model::Figure::Known(rates[side] * jitter);
                let step = stage.step.as_mut().expect("steps");
                step.p50_ns = (step.p50_ns as f64 * times[side] * jitter) as u64;
                let (hour, minute) = if is_interleaved { (at, side) } else { (side, at) };
                run.run.started = Some(format!("2026-11-01T0{hour}:0{minute}:00Z"));
                run
            };
            (0..4).map(run).collect()
        };
        let (before, after) = (side(0), side(1));
        fn runs(side: &[stage2_model::Report]) -> Vec<stage2_diff::Run<'_>> {
            let run = |report| stage2_diff::Run { label: "run", report, left_out: &[] };
            side.iter().map(run).collect()
        }
        stage2_diff::compare(&runs(&before), &runs(&after), &[], false).expect("a comparison")
    }

    #[test]
    fn a_narrow_terminal_keeps_the_row_that_decides_the_verdict() {
        let of = four_of_each([80.0, 150.0], [1.0, 1.0], true);
        assert!(of.verdict.starts_with("Better (4 vs 4"), "{}", of.verdict);
        let range =
            |line: &String| line.contains(" 4 vs 4 runs: ") && line.ends_with(" ms (min–max)");
        assert!(screen(&of, 80, 24).iter().any(range), "{:#?}", screen(&of, 80, 24));
        let lines = screen(&of, 60, 24);
        let at = lines.iter().position(|line| line.contains(" → 152.2 tokens/s"));
        let row = at.and_then(|at| lines.get(at + 1)).unwrap_or_else(|| panic!("{lines:#?}"));
        assert!(row.contains("+87.5 %") && row.ends_with("better"), "{lines:#?}");
        // That of a stage whose time decides gives way.
        let of = four_of_each([80.0, 150.0], [1.0, 0.5], true);
        let lines = screen(&of, 60, 24);
        assert!(!lines.iter().any(|line| line.contains(" → 152.2 tokens/s")), "{lines:#?}");
    }

    #[test]
    fn no_factor_hides_that_the_mean_says_the_opposite() {
        let mut of = four_of_each([80.0, 150.0], [1.0, 0.5], true);
        assert!(screen(&of, 100, 40).join(" ").contains("decode is 2.0x faster"));
        let decode = of.stages.iter_mut().find(|stage| stage.stage == "decode").expect("decode");
        let mut mean = decode.time().expect("a time").clone();
        mean.metric = "step_mean_ms".to_owned();
        (mean.before, mean.after) = (mean.after, mean.before);
        (mean.change, mean.change_percent) = (mean.change.map(|it| -it), Some(100.0));
        mean.verdict = stage2_diff::Verdict::Increased;
        decode.metrics.retain(|metric| metric.metric != "step_mean_ms");
        decode.metrics.push(mean);
        assert!(decode.opposed().is_some());
        assert!(!screen(&of, 100, 40).join(" ").contains("2.0x faster"));
    }

    #[test]
    fn a_verdict_that_may_have_other_reasons_is_not_green() {
        let colour = |is_interleaved| {
            let of = four_of_each([80.0, 150.0], [1.0, 0.5], is_interleaved);
            let page = crate::diff::html(
                &stage2_diff::Diff::of(vec![of], String::new()),
                &Default::default(),
            );
            let (before, _) = page.split_once("<p class=\"verdict\">").expect("a verdict");
            let class = before.rsplit_once("<div class=\"").expect("a box").1;
            let why = "<small>order of the runs: what else changed in the meantime";
            (class.trim_end().trim_end_matches("\">").to_owned(), page.contains(why))
        };
        assert_eq!(
            [true, false].map(colour),
            [("good".to_owned(), false), ("fair".to_owned(), true)]
        );
        let of = four_of_each([80.0, 150.0], [1.0, 0.5], false);
        let said = crate::diff::verdicts(&stage2_diff::Diff::of(vec![of], String::new()));
        assert!(said.starts_with("Better, with caveats ("), "the verdict first: {said}");
        assert!(said.ends_with(". Comparable with caveats: runs not interleaved\n"), "{said}");
    }

    #[test]
    fn one_mark_names_all_that_is_cut_or_missing() {
        let of = four_of_each([80.0, 150.0], [1.0, 0.5], true);
        for (width, height) in [(60, 24), (80, 24), (80, 26), (100, 24)] {
            let lines = screen(&of, width, height);
            let marks = lines.iter().filter(|line| line.contains(MORE_IN_FULL)).count();
            assert!(marks < 2, "{lines:#?}");
            let is_cut = lines.iter().any(|line| line.ends_with('…') && !line.contains('█'));
            assert!(!is_cut || marks == 1, "{lines:#?}");
        }
    }

    #[test]
    fn a_median_that_went_the_other_way_is_explained() {
        let head = |of: &Comparison| {
            let stage = of.stages.iter().find(|stage| stage.stage == "decode").expect("a stage");
            head_of(of, stage, &stage.parts())
        };
        let with = |mean: f64, median: [f64; 4]| {
            let mut of = four_of_each([80.0, 80.0], [1.0, 1.0], true);
            for stage in of.stages.iter_mut().filter(|stage| stage.stage == "decode") {
                for metric in &mut stage.metrics {
                    let scale = match metric.metric.as_str() {
                        "window_ms" => [mean; 4],
                        "step_ms" | "token_ms" => median,
                        _ => continue,
                    };
                    let scaled = metric.before_runs.iter().zip(scale).map(|(ms, by)| ms * by);
                    metric.after_runs = scaled.collect();
                    metric.after = metric.before.map(|ms| ms * scale[0]);
                    metric.change_percent = Some((median[0] - 1.0) * 100.0);
                    metric.change = metric.before.map(|ms| ms * (median[0] - 1.0));
                    metric.verdict = match median[0] == median[3] {
                        true => stage2_diff::Verdict::Increased,
                        false => stage2_diff::Verdict::None,
                    };
                }
            }
            head(&of)
        };
        let noise = with(0.8, [1.2, 1.1, 0.9, 0.8]);
        assert!(noise.contains(", within noise; but p50 +"), "{noise}");
        let change = with(0.8, [1.2; 4]);
        assert!(
            change.contains("; but p50 ") && change.ends_with(": fewer slow steps)"),
            "{change}"
        );
    }

    #[test]
    fn a_long_text_loses_whole_clauses() {
        let text = "with caveats: clocks (2,619 → 3,201), GPU (a; b), sampling";
        assert_eq!(fitted(text, 79, 1), [text]);
        assert_eq!(fitted(text, 54, 1), ["with caveats: clocks (2,619 → 3,201); more: --full"]);
        let long = "one two three, four five six seven eight nine ten";
        assert_eq!(fitted(long, 20, 2), ["one two three;", "more: --full"], "it is not broken");
        assert_eq!(fitted("one clause that is too long", 12, 1), ["one clause…"]);
        assert_eq!(
            fitted("it is -41.6 % (within ± 61.2 %)", 12, 9),
            ["it is", "-41.6 %", "(within", "± 61.2 %)"]
        );
        assert_eq!(fitted(")))((, a)", 4, 1).len(), 1, "no brackets that match");
        assert_eq!(
            fitted("tokens/s +55.3 % [+43.1, +77.4]; more", 28, 9),
            ["tokens/s +55.3 %", "[+43.1, +77.4]; more"]
        );
        let numbers = "with caveats: prompt tokens in a prefill step (512 → 811); other command";
        assert_eq!(
            fitted(numbers, 50, 1),
            ["with caveats: prompt tokens in a prefill step…"],
            "no number is cut"
        );
        assert_eq!(
            fitted(numbers, 59, 1),
            ["with caveats: prompt tokens in a prefill step; more: --full"]
        );
    }
}
