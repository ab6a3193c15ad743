//! A comparison -> one screen of a terminal of 80 columns: the largest change first, with bars.

use stage2_contract::text::numbers::counted;
use stage2_contract::text::{shorten, shorten_kernel, wrapped_at_most};
use stage2_diff::{Comparison, PartChange, Presence, StageChange, signed, signed_time};

use super::{is_shown, stage_time, title, value_cell, verdict_words};

const WIDTH: usize = 80;
/// Lines in all: a terminal has 24, and the command and the prompt take two.
const HEIGHT: usize = 22;
const STAGES: usize = 3;
const STAGE_CHARS: usize = 18;
/// Bars at least and at most.
const BARS: (usize, usize) = (3, 8);
const BAR_CHARS: usize = 16;
/// Columns of a bar's number and word, and what is left for its name.
const NUMBER_CHARS: usize = 12;
const WORD_CHARS: usize = 8;
const NAME_CHARS: usize = WIDTH - NUMBER_CHARS - BAR_CHARS - WORD_CHARS - 3;
/// Lines of the comparison below the bars, and how many lines of the screen each may take.
const BELOW: [(&str, usize); 4] =
    [("window", 2), ("libraries", 2), ("comparable", 2), ("noise", 2)];
const LABEL_CHARS: usize = 12;
/// `more: --full` as a word that does not break.
const MORE_IN_ONE: &str = "more:\u{1}--full";
/// Lines of the verdict.
const VERDICT: usize = 2;

/// The title and what follows, each line of at most 80 characters.
pub(super) fn screen(of: &Comparison) -> Vec<String> {
    let mut lines = vec![shorten(&title(of), WIDTH - 1)];
    lines.extend(picture(of));
    lines
}

/// The screen below its title.
pub(super) fn picture(of: &Comparison) -> Vec<String> {
    let mut lines = fitted(&of.verdict, WIDTH - 1, VERDICT);
    lines.extend(stages(of));
    let below: Vec<String> =
        BELOW.iter().flat_map(|(label, most)| labelled(of, label, *most)).collect();
    // The title, two empty lines and the head of the bars; each condition has a sentence below the screen.
    let taken = lines.len() + below.len() + 2 * of.conditions.len() + 4;
    let room = HEIGHT.saturating_sub(taken).clamp(BARS.0, BARS.1);
    lines.extend(bars(of, room));
    lines.push(String::new());
    lines.extend(below);
    lines
}

fn stages(of: &Comparison) -> Vec<String> {
    let rows = of.of_model();
    let mut lines: Vec<String> = rows.iter().take(STAGES).map(|stage| stage_line(stage)).collect();
    if let Some(more) = rows.len().checked_sub(STAGES).filter(|&more| more > 0) {
        lines.push(format!("{} on the whole page (--full)", counted(more as u64, "more stage")));
    }
    lines
}

fn stage_line(stage: &StageChange) -> String {
    let told = match (stage.presence, stage_time(stage)) {
        (Presence::New, _) => "new".to_owned(),
        (Presence::Vanished, _) => "vanished".to_owned(),
        (Presence::Both, None) => "no time is known".to_owned(),
        (Presence::Both, Some((metric, label))) => {
            let [a, b] = [metric.before, metric.after].map(|ms| value_cell(ms, metric.unit));
            let percent = metric.change_percent.map(|percent| format!("{} %", signed(percent, 1)));
            let per = stage.per_of(&metric.metric);
            let (percent, verdict) = (percent.unwrap_or_default(), verdict_words(metric));
            format!("{a} → {b} ms{per}  {percent}  {verdict}  ({label})")
        }
    };
    let name = shorten(&stage.stage, STAGE_CHARS - 1);
    shorten(&format!("{name:STAGE_CHARS$}{told}"), WIDTH - 1)
}

/// The parts of the stage that changed most, as bars of characters.
fn bars(of: &Comparison, most: usize) -> Vec<String> {
    let shown = || of.stages.iter().filter(|stage| is_shown(stage));
    let Some(stage) = shown().find(|stage| !stage.parts().is_empty()) else {
        let why = match shown().next() {
            Some(_) => "All GPU work and idle time is the same on both sides.",
            None => "No stage on both sides has GPU work to compare.",
        };
        return vec![String::new(), why.to_owned()];
    };
    let parts = stage.parts();
    let total = signed_time(stage.work_total.change_ns);
    let head = format!(
        "{}: change per {}, the largest first (all GPU work {total}):",
        shorten(&stage.stage, STAGE_CHARS),
        stage.per_word()
    );
    let longest = parts.iter().map(|part| part.change_ns.abs()).fold(0.0, f64::max);
    let mut lines = vec![String::new(), shorten(&head, WIDTH - 1)];
    lines.extend(parts.iter().take(most).map(|part| bar(part, longest)));
    lines
}

fn bar(part: &PartChange<'_>, longest_ns: f64) -> String {
    let share = (part.change_ns.abs() / longest_ns).clamp(0.0, 1.0);
    let chars = ((share * BAR_CHARS as f64).round() as usize).max(1);
    let fill = if part.verdict.is_change() { "█" } else { "░" };
    let number = signed_time(part.change_ns);
    let (bar, word, name) = (fill.repeat(chars), part.word(), part_name(part, NAME_CHARS));
    format!("{number:>NUMBER_CHARS$} {bar:BAR_CHARS$} {word:WORD_CHARS$} {name}")
}

/// A text in at most so many lines. Of a longer one the last clauses are left out, and none is cut.
fn fitted(text: &str, width: usize, most: usize) -> Vec<String> {
    let all = wrapped_at_most(text, width, usize::MAX);
    if all.len() <= most {
        return all;
    }
    let mut depth = 0usize;
    let mut ends = Vec::new();
    for (at, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' | ';' if depth == 0 && text[at..].chars().nth(1) == Some(' ') => ends.push(at),
            _ => {}
        }
    }
    let without = |end: &usize| {
        let kept = text.get(..*end)?;
        let lines = wrapped_at_most(&format!("{kept}; {MORE_IN_ONE}"), width, usize::MAX);
        let lines = lines.into_iter().map(|line| line.replace(MORE_IN_ONE, "more: --full"));
        let lines: Vec<String> = lines.collect();
        (lines.len() <= most).then_some(lines)
    };
    let fits = ends.iter().rev().find_map(without);
    fits.unwrap_or_else(|| wrapped_at_most(text, width, most))
}

/// Work by its name after the change, or what the GPU was idle for.
pub(super) fn part_name(part: &PartChange<'_>, limit: usize) -> String {
    match (part.work, part.cause) {
        (Some(row), _) => {
            let side = row.after.as_ref().or(row.before.as_ref());
            side.map_or_else(String::new, |side| shorten_kernel(&side.name, limit))
        }
        (None, Some(cause)) => shorten(&format!("idle: {cause}"), limit),
        (None, None) => "GPU idle".to_owned(),
    }
}

/// A line of the comparison with its label before it.
fn labelled(of: &Comparison, label: &str, most: usize) -> Vec<String> {
    let Some(line) = of.lines.iter().find(|line| line.label == label) else { return Vec::new() };
    let wrapped = fitted(&line.text, WIDTH - LABEL_CHARS - 1, most);
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    labels.zip(wrapped).map(|(label, text)| format!("{label:LABEL_CHARS$}{text}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_loses_whole_clauses() {
        let text = "with care: clocks (2,619 → 3,201), GPU (a; b), sampling";
        assert_eq!(fitted(text, 79, 1), [text]);
        assert_eq!(fitted(text, 54, 1), ["with care: clocks (2,619 → 3,201); more: --full"]);
        let long = "one two three, four five six seven eight nine ten";
        assert_eq!(fitted(long, 20, 2), ["one two three;", "more: --full"], "it is not broken");
        assert_eq!(fitted("one clause that is too long", 12, 1), ["one clause…"]);
        assert_eq!(fitted(")))((, a)", 4, 1).len(), 1, "no brackets that match");
    }
}
