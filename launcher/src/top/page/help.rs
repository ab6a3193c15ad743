//! What the keys and the columns are -> the page that explains them.

use ratatui::text::Line;
use stage2_contract::text::wrapped_at_most;

use super::{bold, plain};

pub(super) const HELP: [&str; 23] = [
    "up, down, k, j     choose a stage: its kernels and its last minute are shown",
    "left, right        show one process alone, or all again",
    "PgUp, PgDn         scroll the kernels",
    "o, t               sort processes by rank, P50, BUSY, WAIT or LOST; kernels by",
    "                   time or mean",
    "s                  start or stop recording; names the cost, and asks first",
    "f, w, q            freeze the page; write a bundle of all that was read; quit",
    "",
    "Rates are of the last 10 s of the data, the mean of the processes. A number is",
    "final 3 s after its event. A run that has ended has the numbers of its report.",
    "CALLS/S, P50, P99  calls of a stage (its outermost ranges) that ended: how many,",
    "                   and how long each took; an engine: to its next step",
    "BUSY, GAPS, IDLE   parts of the time in calls: GPU work of the stage ran; gaps",
    "                   of 50 us at most between work, the cost of launches; the rest",
    "WAIT       another part: communication waited for other ranks, about;",
    "           *: the rank that waits much less: the others wait for it",
    "TOKENS/S   where an engine or a field `tokens` gives them, or --tokens STAGE",
    "REQS, WORK/S  mean requests of a call; kernels, copies, fills, graphs a second",
    "GPU        part of the time in which the GPU worked for the process",
    "NO WORK    part of the time in which no work ran, and SHAREs of that by what the",
    "           threads that launch did; those that exceed their sampling error",
    "LOST       what was not recorded; ?: not known, the file was cut",
    "Any key goes back.",
];

/// The page that explains the others.
pub(super) fn help(width: usize, height: usize) -> Vec<Line<'static>> {
    let help = HELP.iter().flat_map(|line| help_lines(line, width, height));
    let title = std::iter::once(bold("stage2-launch top", width));
    title.chain(help.map(|line| plain(&line, width))).take(height).collect()
}

/// A line of the help. Where it is too long, what it explains goes on in its column.
fn help_lines(line: &str, width: usize, most: usize) -> Vec<String> {
    let column = line.rfind("  ").map_or(0, |blanks| blanks + 2);
    let Some((what, text)) = line.split_at_checked(column).filter(|_| line.len() > width) else {
        return vec![line.to_owned()];
    };
    let lines = wrapped_at_most(text, width.saturating_sub(column), most).into_iter();
    let starts = std::iter::once(what).chain(std::iter::repeat(""));
    starts.zip(lines).map(|(start, rest)| format!("{start:column$}{rest}")).collect()
}
