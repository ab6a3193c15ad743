//! What the keys and the columns are -> the page that explains them.

use ratatui::text::Line;
use stage2_contract::text::numbers::counted;
use stage2_contract::text::wrapped_at_most;

use super::{bold, plain};

pub(super) const HELP: [(&str, &str); 18] = [
    ("up, down, k, j", "choose a stage: its kernels, chart and host causes are shown"),
    ("left, right", "show one process alone, or all again"),
    ("PgUp, PgDn", "scroll the kernels"),
    ("o, t", "sort processes by rank, P50, BUSY, WAIT, LOST; kernels by mean"),
    ("s", "start or stop recording (of the one shown alone); asks first"),
    ("f, w, q", "freeze the page; write a report of all recorded so far; quit"),
    (
        "Numbers",
        "of the last 10 s; ended: all calls but the first. Ranks: means; P50, P99: of all calls (ended engine: of \
         one rank, as TOKENS/S)",
    ),
    (
        "PER, P50, P99",
        "what a time is of: a call of a stage (an outermost range), or a step: of an engine, or a range \
         that fills the calls",
    ),
    (
        "BUSY GAPS IDLE",
        "parts of the time in calls, 100% together: GPU work of the stage ran; gaps of 50 us at most \
         between work; the rest",
    ),
    ("(WAIT)", "waits for other ranks in BUSY, estimated; *: late rank, +: why"),
    (
        "TOKENS/S, REQS",
        "tokens of a process (ended: per second in calls); requests of a step. CALLS/S, STEPS/S, N/S: \
         see PER. WORK/S, WORK/N: GPU work",
    ),
    ("CALL ms, GPU", "mean per second of the last minute; least and largest value"),
    ("CLASS, KERNEL", "TIME: share of the kernel time of the chosen stage"),
    (
        "NO WORK",
        "part of the time in which no GPU work ran, and SHAREs of that by what the threads that launch \
         did meanwhile",
    ),
    ("RANK table", "P50 to (WAIT): of the chosen stage. GPU: busy, of all stages"),
    ("GPU work", "placed: its launch is known; in ranges: of a stage"),
    ("LOST", "what was not recorded; ?: not known, the file was cut"),
    ("Colours", "yellow: the late rank, lost records; red: no data comes"),
];

/// Columns of what is explained, with the space behind it.
const BEFORE: usize = 17;

/// The page that explains the others.
pub(super) fn help(width: usize, height: usize) -> Vec<Line<'static>> {
    let text = |&(what, text): &(&'static str, &str)| {
        let lines = wrapped_at_most(text, width.saturating_sub(BEFORE), usize::MAX).into_iter();
        let starts = std::iter::once(what).chain(std::iter::repeat(""));
        starts.zip(lines).map(|(start, rest)| format!("{start:BEFORE$}{rest}")).collect::<Vec<_>>()
    };
    let help: Vec<String> = HELP.iter().flat_map(text).collect();
    let title = match (help.len() + 1).saturating_sub(height) {
        0 => "stage2-launch top: any key goes back".to_owned(),
        some => {
            format!("any key goes back; {} more in a taller terminal", counted(some as u64, "line"))
        }
    };
    let title = std::iter::once(bold(&title, width));
    title.chain(help.iter().map(|line| plain(line, width))).take(height).collect()
}
