//! What the keys and the columns are -> the page that explains them.

use ratatui::text::Line;
use stage2_contract::text::wrapped_at_most;

use super::{View, bold, plain};

pub(super) const HELP: [(&str, &str); 23] = [
    ("up, down, k, j", "choose a stage: its kernels, chart and host causes are shown"),
    ("left, right", "show one process alone, or all again"),
    ("/", "show only stages and kernels whose names or classes contain a text; Esc: all again"),
    ("PgUp, PgDn", "scroll the kernels"),
    ("o, t", "sort processes by rank, P50, BUSY, WAIT, LOST; kernels by mean"),
    ("s", "start or stop recording, in all processes or the one shown alone; asks first"),
    ("f, w, q", "freeze; write a report of everything recorded so far; quit"),
    (
        "Numbers",
        "cover the time that the first line names: the last 10 s at most, and after the end all calls but the first. \
         With several ranks, times and shares are of all ranks together, and rates are the mean of the ranks (after the end \
         of an engine, P50, P90, P99, TOKENS/S and REQS are those of one rank). Each of several runs has its own rows",
    ),
    (
        "PER, P50, P99",
        "the median and the 99th percentile of the time of a call or a step; PER states which. A call is one instance of \
         a stage (an outermost range); a step is one of an engine, or a range that repeats and fills the calls",
    ),
    (
        "BUSY GAPS IDLE",
        "shares of the time in calls: GPU work of the stage ran; gaps of at most 50 us between work; no work ran. \
         OTHER (if 1% or more): only work of other stages ran. They add up to 100%",
    ),
    ("(WAIT)", "waits for other ranks in BUSY, estimated; *: late rank, +: why"),
    (
        "TOKENS/S",
        "tokens of a process per second (ended: per second spent in calls), only of calls that state their tokens. If it is missing: --tokens STAGE for a stage whose payload \
         is tokens, or a field `tokens` of the ranges",
    ),
    ("REQS, RATE", "requests in a step; calls or steps that ended per second"),
    (
        "GPU WORK",
        "kernels, copies, fills and graphs of a call or step; WORK/S: per second; COUNT: of this kernel",
    ),
    (
        "CALL ms, GPU",
        "mean of each second, the newest at the right; then the lowest and the highest",
    ),
    (
        "CLASS, KERNEL",
        "TIME is their share of the kernel time of the chosen stage; +: copies and fills come on top of these 100%",
    ),
    (
        "NO WORK",
        "the part of the time without GPU work (ended: in calls of the chosen stage), and SHAREs of it by what the \
         threads that launch did",
    ),
    ("RANK table", "P50 to (WAIT): of the stage in the title. GPU: busy with any stage"),
    ("GPU work", "placed: launches that were recorded; in ranges: of a stage"),
    ("LOST", "missing records and events; ?: more is missing, but how much is unknown"),
    (
        "GPU0 ... W",
        "power, clocks, temperature and memory of all processes; !: why the clocks are reduced",
    ),
    (
        "GPU0 DRAM ...",
        "hardware counters, means of about 1 s: bytes per second through DRAM, L2, PCIe and NVLink; percent of cycles \
         in which tensor cores, or SMs, were active; issue: instructions, percent of the peak; (9 s old): the \
         last reading was 9 s ago",
    ),
    ("Colours", "yellow: the late rank, lost records; red: a process that sends no data"),
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
