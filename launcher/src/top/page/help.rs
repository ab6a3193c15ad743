//! What the keys and the columns are -> the page that explains them.

use ratatui::text::Line;
use stage2_contract::text::wrapped_at_most;

use super::{bold, plain};

pub(super) const HELP: [&str; 23] = [
    "up, down, k, j     choose a stage: its kernels and its last minute are shown",
    "left, right        show one process alone, or all again",
    "PgUp, PgDn         scroll the kernels",
    "o, t               sort processes by rank, step time, BUSY or LOST; kernels by",
    "                   time or mean",
    "s                  start or stop recording; names the cost, and asks first",
    "f, w, q            freeze the page; write a bundle of all that was read; end",
    "",
    "All rates are of the last 10 s of the data, per process: the mean of those with",
    "the stage. A number is final 3 s after its event, so the data is about 4 s old.",
    "CALLS/S, P50, P99  calls of a stage (its outermost ranges) that ended: how many,",
    "                   and how long they were open",
    "BUSY       part of the time in calls in which GPU work of the stage ran",
    "GAPS       part of it in gaps of 50 us at most between work: cost of launches",
    "REQS       mean number of requests of a call, if an engine reports it",
    "TOKENS/S   where an engine or a field `tokens` of the ranges gives them, or",
    "           with --tokens STAGE, where the payload of its ranges does",
    "WORK/S     kernels, copies, fills and graphs in a second",
    "GPU        part of the time in which the GPU worked for the process",
    "IDLE       part of the time without any work, and what the threads that launch",
    "           did then: shares of it that exceed their sampling error",
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
