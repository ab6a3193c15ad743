//! What the keys and the columns are -> the page that explains them.

use clap::ValueEnum as _;
use ratatui::text::Line;
use stage2_contract::text::{shorten, visible, wrapped_at_most};

use super::{KernelOrder, View, bold, plain};

/// What one wants to do, and its keys; then what the titles do not say by themselves. Each fits into a line of 80 columns.
pub(super) const HELP: [(&str, &str); 38] = [
    ("Look    up, down", "or k, j: choose a stage for the kernels, chart and causes"),
    ("        left, right", "show one process (rank) alone, or all again"),
    ("        PgUp, PgDn", "scroll the kernels"),
    ("        f", "freeze the page, or go on"),
    ("Sort    o", "processes by rank, P50, BUSY, WAIT or LOST"),
    ("        t", "kernels by time or mean"),
    ("Filter  /", "stages and kernels by name or class"),
    ("Record  s", "start or stop all, or the one shown alone; asks first"),
    ("Report  w", "write a report of everything recorded so far"),
    ("Quit    q", "or Ctrl-C; Ctrl-Z suspends"),
    ("Columns PER", "what times are of: a call (outermost range) or its step"),
    ("        P50, P99 ms", "50, or 99, of 100 calls or steps take at most that"),
    ("        BUSY", "share of the time in calls: GPU work of the stage ran"),
    ("        (WAIT)", "part of BUSY in waits for other ranks; *: the late rank"),
    ("        GAPS, IDLE", "... no work ran, for up to 50 us (launch gaps) or longer"),
    ("        OTHER", "... only work of other stages ran"),
    ("        TOKENS/S", "of the last 10 s, mean of the ranks; see --tokens"),
    ("        T/CALL-S", "after the end: tokens per second spent in calls"),
    ("        REQS", "mean number of requests in a step of an engine"),
    ("        RATE", "calls or steps that ended per second, mean of the ranks"),
    ("        GPU WORK", "kernels, copies, fills, graphs per call or step"),
    ("        WORK/S", "... per second"),
    ("        TIME", "share of kernel time; + (memcpy, memset) comes on top"),
    ("        MEAN us", "mean time of a launch of the kernel"),
    ("        COUNT/, us/", "launches, and time, of a kernel per CALL or STEP"),
    ("        OF CLASS", "the class of the kernel"),
    ("        NO WORK", "part of the time without GPU work; SHAREs are of that"),
    ("        host ahead", "waits for the GPU: no cause; of a simulated one: blocked"),
    ("        GPU", "busy with any stage; columns before it: of that stage"),
    ("        LOST", "missing records; ?: and more, but how much is unknown"),
    ("Lines   attributed", "GPU work of which the range, or that none, is known"),
    ("        in ranges", "GPU work of a stage; the rest: (outside ranges)"),
    ("        GPU0 ...", "of all processes; !: why the clocks are low"),
    ("        reading", "as LOST: its file is not read to the present yet"),
    ("States  dormant", "not recorded yet; stopped: no more, by s or ctl"),
    ("        killed", "ended without a word; silent: no data for 15 s"),
    ("        cut", "its file ends within a frame"),
    ("Colours", "yellow: late rank, loss; red: a process that sends no data"),
];

/// Columns of what is explained, with the space behind it.
const BEFORE: usize = 20;

/// What the rows are sorted by, and which are shown.
fn now(view: &View, key: &str) -> String {
    let state = &view.state;
    let now = match key.split_whitespace().last() {
        Some("o") => {
            let by = state.processes_by.to_possible_value();
            by.map_or_else(String::new, |by| by.get_name().to_owned())
        }
        Some("t") if state.kernels_by == KernelOrder::Mean => "mean".to_owned(),
        Some("t") => "time".to_owned(),
        Some("/") if state.filter.is_empty() => "all".to_owned(),
        Some("/") => visible(shorten(&state.filter, FILTER_COLUMNS).as_bytes()),
        _ => return String::new(),
    };
    format!("; now: {now}")
}

/// Of the filter, so that its line is one.
const FILTER_COLUMNS: usize = 16;

/// The page that explains the others. Where it does not fit, keys scroll it.
pub(super) fn help(view: &View, width: usize, height: usize) -> Vec<Line<'static>> {
    let text = |&(what, text): &(&'static str, &str)| {
        let text = format!("{text}{}", now(view, what));
        let lines = wrapped_at_most(&text, width.saturating_sub(BEFORE), usize::MAX).into_iter();
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
