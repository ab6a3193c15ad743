//! What the keys and the columns are -> the page that explains them.

use ratatui::text::Line;
use stage2_contract::text::wrapped_at_most;

use super::{View, bold, plain};

pub(super) const HELP: [(&str, &str); 18] = [
    ("up, down, k, j", "choose a stage: its kernels, chart and host causes are shown"),
    ("left, right", "show one process alone, or all again"),
    ("PgUp, PgDn", "scroll the kernels"),
    ("o, t", "sort processes by rank, P50, BUSY, WAIT, LOST; kernels by mean"),
    ("s", "start or stop recording (of the one shown alone); asks first"),
    ("f, w, q", "freeze; write a report of everything recorded so far; quit"),
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
        "shares of the time in calls, which add up to 100%: GPU work of the stage ran; gaps of at most \
         50 us between work; the rest",
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
        "time without GPU work (ended: in calls of the chosen stage), and SHAREs of it by what the \
         threads that launch did",
    ),
    ("RANK table", "P50 to (WAIT): of the chosen stage. GPU: busy, of all stages"),
    ("GPU work", "placed: its launch is known; in ranges: of a stage"),
    ("LOST", "missing records and events; ?: and an unknown number more"),
    ("Colours", "yellow: the late rank, lost records; red: no data comes"),
];

/// Columns of what is explained, with the space behind it.
const BEFORE: usize = 17;

/// The page that explains the others. Where it does not fit, keys scroll it.
pub(super) fn help(view: &View, width: usize, height: usize) -> Vec<Line<'static>> {
    let text = |&(what, text): &(&'static str, &str)| {
        let lines = wrapped_at_most(text, width.saturating_sub(BEFORE), usize::MAX).into_iter();
        let starts = std::iter::once(what).chain(std::iter::repeat(""));
        starts.zip(lines).map(|(start, rest)| format!("{start:BEFORE$}{rest}")).collect::<Vec<_>>()
    };
    let help: Vec<String> = HELP.iter().flat_map(text).collect();
    let beyond = (help.len() + 1).saturating_sub(height);
    view.help_beyond.set(beyond);
    let above = view.state.help_above.min(beyond);
    let title = match beyond {
        0 => "stage2-launch top: press any key to go back".to_owned(),
        _ => {
            let (last, all) = ((help.len() + above).saturating_sub(beyond), help.len());
            format!("lines {}-{last} of {all}: up, down scroll; other keys go back", above + 1)
        }
    };
    let title = std::iter::once(bold(&title, width));
    let help = help.iter().skip(above).map(|line| plain(line, width));
    title.chain(help).take(height).collect()
}
