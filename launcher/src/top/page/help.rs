//! What the keys and the columns are -> the page that explains them.

use ratatui::text::Line;
use stage2_contract::text::wrapped_at_most;

use super::{bold, plain};

pub(super) const HELP: [&str; 23] = [
    "up, down, k, j   choose a stage: its kernels and its last minute are shown",
    "left, right      show one process alone, or all again",
    "PgUp, PgDn       scroll the kernels",
    "o                sort the processes by rank, P50, BUSY, WAIT or LOST",
    "t                sort the kernels by time or mean",
    "s                start or stop recording; names the cost, and asks first",
    "f, w, q          freeze the page; write reports of all that is recorded; quit",
    "Numbers are of the last 10 s of the data. Of a run that has ended, they are of",
    "all calls but the first of each stage.",
    "PER, P50, P99    what a time is of: a call of a stage (an outermost range), or a",
    "                 step: of an engine, or a range that fills the calls",
    "BUSY GAPS IDLE   parts of the time in calls, 100% together: GPU work of the",
    "                 stage ran; gaps of 50 us at most between work; the rest",
    "(WAIT)           the part of it, in BUSY, that communication waited for ranks;",
    "                 *: the rank that waits much less: the others wait for it",
    "TOKENS/S, REQS   tokens of a process (ended: per second in calls); requests of",
    "                 a step. CALLS/S, STEPS/S: as PER says. WORK/S: all GPU work",
    "RANK table       P50, BUSY, (WAIT): of the chosen stage. GPU: busy, all stages",
    "NO WORK          part of the time in which no work ran, and SHAREs of that by",
    "                 what the threads that launch did, if above the sampling error",
    "GPU work         recorded; placed: its launch is known; in ranges: of a stage",
    "LOST             what was not recorded; ?: not known, the file was cut",
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
