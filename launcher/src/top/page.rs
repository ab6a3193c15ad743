//! A look at processes -> the lines of a page, for a width and a height. Colour only repeats what a mark, a sign
//! or a word says, so that the page reads the same without.

mod foot;
mod gpus;
mod help;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use clap::ValueEnum;
use foot::foot;
use gpus::{counters, gpus};
use help::help;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::{shorten, visible, wrapped_at_most};
use stage2_live::{FileState, Look, StageNumbers, Watched, class_label};

use crate::live_source::Switch;

#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The row of the stage.
    pub(crate) chosen: usize,
    pub(crate) processes_by: ProcessOrder,
    pub(crate) kernels_by: KernelOrder,
    /// Kernels above the first one that is shown.
    pub(crate) above: usize,
    pub(crate) frozen: bool,
    pub(crate) help: bool,
    /// The process whose numbers are shown, by host and number; `None`: all.
    pub(crate) only: Option<(String, u32)>,
    /// The next key says whether this is to be done.
    pub(crate) asked: Option<Switch>,
    /// What came of the last key.
    pub(crate) said: Option<String>,
}

/// What the rows of processes are sorted by: the worst first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProcessOrder {
    /// Rank, host and number
    #[default]
    Rank,
    /// Median time of a call, the slowest first
    #[value(name = "p50")]
    StepTime,
    /// Busy time of the GPU in calls, the idlest first
    Busy,
    /// Lost records, the most first
    Lost,
}

impl ProcessOrder {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Rank => Self::StepTime,
            Self::StepTime => Self::Busy,
            Self::Busy => Self::Lost,
            Self::Lost => Self::Rank,
        }
    }
}

/// What the rows of kernels are sorted by: the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KernelOrder {
    #[default]
    Time,
    Mean,
}

impl KernelOrder {
    pub(crate) fn next(self) -> Self {
        if self == Self::Time { Self::Mean } else { Self::Time }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) look: Look,
    /// Phases of processes with a socket, by number.
    pub(crate) phases: Vec<(u32, String)>,
    pub(crate) now_ns: u64,
    pub(crate) state: State,
    pub(crate) has_colour: bool,
    /// The page is text that nobody can scroll or ask for more.
    pub(crate) is_text: bool,
    /// That the run has ended, and what to do next.
    pub(crate) ended: Option<String>,
}

/// Names get no more columns: numbers stay near to them on a wide terminal.
const STAGE_COLUMNS: usize = 40;
const KERNEL_COLUMNS: usize = 72;
const HOST_COLUMNS: usize = 24;

/// Rows of kernels that are more important than a line for each GPU.
const KERNELS_LEAST: usize = 3;

/// From this width on, the tables have more columns.
const WIDE: usize = 130;

/// The most causes of a process, and on a wide terminal.
const CAUSES: usize = 3;
const CAUSES_WIDE: usize = 6;

/// A process that wrote nothing for so long has ended, and could not say so.
const SILENT_NS: u64 = 15_000_000_000;

/// A stage over all processes.
#[derive(Default)]
struct Row {
    name: String,
    processes: u64,
    /// The seconds that were looked at, over these processes.
    window_s: f64,
    sum: StageNumbers,
    /// Of each process, added.
    steps_per_s: f64,
    tokens_per_s: f64,
    launches_per_s: f64,
}

/// Columns of a stage and their widths. Only wide terminals have room for the last ones.
const STAGE_TITLES: [(&str, usize); 11] = [
    ("CALLS/S", 7),
    ("P50 ms", 7),
    ("P99 ms", 7),
    ("BUSY", 6),
    ("GAPS", 6),
    ("REQS", 5),
    ("TOKENS/S", 8),
    ("WORK/S", 6),
    ("IDLE", 7),
    ("P90 ms", 7),
    ("WORK/CALL", 9),
];

/// How many stages can be chosen.
pub(crate) fn stages(view: &View) -> usize {
    rows(&seen(view).look).len()
}

/// How many kernels the chosen stage has.
pub(crate) fn kernels(view: &View) -> usize {
    let seen = seen(view);
    let rows = rows(&seen.look);
    rows.get(view.state.chosen).map_or(0, |row| kernels_of(&seen, row).0.len())
}

/// What is shown of processes one by one: all of them, or the chosen one alone.
fn seen(view: &View) -> Cow<'_, View> {
    let is_chosen = |of: &&Watched| view.state.only.as_ref() == Some(&id(of));
    match view.look.processes.iter().find(is_chosen) {
        Some(process) => Cow::Owned(View {
            look: Look { processes: vec![process.clone()], ..Look::default() },
            state: view.state.clone(),
            has_colour: view.has_colour,
            ..View::default()
        }),
        None => Cow::Borrowed(view),
    }
}

fn id(process: &Watched) -> (String, u32) {
    (process.host.clone(), process.pid)
}

/// The process that the page shows above or below the chosen one; `None`, for all, is above the first.
pub(crate) fn neighbour(view: &View, is_below: bool) -> Option<(String, u32)> {
    let rows = rows(&seen(view).look);
    let sorted = sorted_processes(view, rows.get(view.state.chosen));
    let chosen = view.state.only.as_ref();
    let at = sorted.iter().position(|process| Some(&id(process)) == chosen);
    let next = match (at, is_below) {
        (None, true) => 0,
        (None, false) | (Some(0), false) => return None,
        (Some(at), true) => (at + 1).min(sorted.len().saturating_sub(1)),
        (Some(at), false) => at - 1,
    };
    sorted.get(next).map(|process| id(process))
}

/// The page, `height` lines at most.
pub(crate) fn page(view: &View, width: usize, height: usize) -> Vec<Line<'static>> {
    if view.state.help {
        return help(width, height);
    }
    let mut lines = head(view, width);
    let seen = &*seen(view);
    let rows = rows(&seen.look);
    let chosen = view.state.chosen.min(rows.len().saturating_sub(1));
    let foot = foot(view, width);
    // What is left is shared; kernels get what the others leave.
    let left = height.saturating_sub(lines.len() + foot.len() + 4);
    let for_stages = rows.len().clamp(1, (left / 3).max(1));
    let for_processes = view.look.processes.len().clamp(1, (left / 4).max(1));
    let (minute, mut states) = match left >= 14 {
        true => (minute(seen, rows.get(chosen), width), gpus(seen, left / 8, width)),
        false => (Vec::new(), Vec::new()),
    };
    let counters = counters(seen, (left / 8).max(1), width);
    let hosts = hosts(seen, (left / 4).max(1), width);
    // The titles have their lines already.
    let for_hosts = hosts.len().saturating_sub(1);
    let others = for_stages + for_processes + for_hosts + minute.len() + counters.len();
    // The title of the kernels has its line, too.
    let mut for_kernels = (left + 1).saturating_sub(others + states.len());
    if for_kernels <= KERNELS_LEAST && states.len() > 1 {
        states = gpus(seen, 1, width);
        for_kernels = (left + 1).saturating_sub(others + states.len());
    }
    let alone = view.state.only.as_ref().map_or_else(String::new, |(_, pid)| format!(" of {pid}"));
    let nothing = match dormant(view) {
        0 => "nothing has run in the last 10 s of the data".to_owned(),
        some => format!("{} dormant: press s to record", counted(some as u64, "process")),
    };
    lines.extend(stage_table((&rows, &alone, &nothing), chosen, for_stages, width));
    lines.extend(minute);
    lines.extend(kernel_table(seen, rows.get(chosen), for_kernels, width));
    lines.extend(states);
    lines.extend(counters);
    lines.extend(hosts);
    lines.extend(processes(view, rows.get(chosen), for_processes, width));
    lines.truncate(height.saturating_sub(foot.len()));
    let above = lines.len().max(height.saturating_sub(foot.len()));
    lines.resize(above, Line::default());
    lines.extend(foot);
    lines.truncate(height);
    lines
}

/// The age of data: short, and known only roughly where it is long.
fn age(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6_000.0 => format!("{:.0} min", s / 60.0),
        s if s < 360_000.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

fn head(view: &View, width: usize) -> Vec<Line<'static>> {
    let look = &view.look;
    let recording = |process: &&Watched| process.is_growing() && !is_silent(view, process);
    let on = look.processes.iter().filter(recording).count();
    let dormant = match dormant(view) {
        0 => String::new(),
        some => format!(", {some} dormant"),
    };
    let frozen = if view.state.frozen { "  FROZEN" } else { "" };
    let newest = look.processes.iter().filter_map(|process| process.window.end_wall_ns).max();
    let age = match newest.map(|end| age(view.now_ns.saturating_sub(end) as f64 / 1e9)) {
        Some(age) if view.ended.is_some() => format!("ended {age} ago"),
        Some(age) => format!("data {age} old"),
        None => "no data yet".to_owned(),
    };
    let name = match look.hosts {
        Some((answer, all)) if all > 1 => format!("{answer} of {all} hosts answer"),
        _ => view.name.clone(),
    };
    let (name, all) = (shorten(&name, 24), look.processes.len());
    let all = counted(all as u64, "process");
    let state = format!("{all}, {on} recording{dormant}  {age}{frozen}");
    let (named, span) = (format!("{name}  {state}"), span(view));
    // Hosts that do not answer are worth more than the time, and that more than the name of a folder.
    let second = if look.hosts.is_some() { named.clone() } else { format!("{state}{span}") };
    let all = [format!("{named}{span}"), second, state].map(|text| format!("stage2 top  {text}"));
    let fits = |text: &&String| text.chars().count() <= width;
    let first = all.iter().find(fits).or(all.last()).cloned().unwrap_or_default();
    let sum =
        |of: fn(&Watched) -> u64| look.processes.iter().map(of).fold(0u64, u64::saturating_add);
    let work = sum(|process| process.counts.work);
    let placed = sum(|process| process.counts.attributed.saturating_add(process.counts.outside));
    let (coverage, in_ranges) =
        (part(placed, work), part(sum(|process| process.counts.attributed), work));
    let lost = lost_text(sum(lost), look.processes.iter().any(is_incomplete), count);
    let behind = match (look.behind_bytes >> 20, look.skipped_bytes >> 20) {
        (0, 0) => String::new(),
        (behind, skipped) => format!("  {behind} MB behind, {skipped} MB skipped"),
    };
    let work = count(work);
    let second =
        format!("placed {coverage}  in ranges {in_ranges}  lost {lost}  GPU work {work}{behind}");
    let second = plain(&second, width);
    let second = if lost == "0" { second } else { coloured(second, Color::Red, view) };
    vec![bold(&first, width), second]
}

/// The time that the tables are about: rates and shares of it, and not of the whole run.
fn span(view: &View) -> String {
    let windows = view.look.processes.iter().map(|process| process.window.ns);
    let seconds = windows.max().unwrap_or(0) as f64 / 1e9;
    let of_run = if view.ended.is_some() { " of the run" } else { "" };
    match seconds {
        s if s <= 0.0 => String::new(),
        s if s >= 9.95 => format!("  last {s:.0} s{of_run}"),
        s => format!("  last {s:.1} s{of_run}"),
    }
}

/// Processes that wait for a start.
fn dormant(view: &View) -> usize {
    view.phases.iter().filter(|(_, phase)| phase == "dormant").count()
}

fn rows(look: &Look) -> Vec<Row> {
    let mut all: BTreeMap<&str, Row> = BTreeMap::new();
    for process in &look.processes {
        let seconds = process.window.ns as f64 / 1e9;
        let with_work =
            process.window.stages.iter().filter(|(_, sum)| sum.steps > 0 || sum.launches > 0);
        for (name, sum) in with_work.filter(|_| seconds > 0.0) {
            let row = all.entry(name).or_default();
            row.name.clone_from(name);
            row.processes += 1;
            row.window_s += seconds;
            row.sum.add(sum);
            row.steps_per_s += sum.steps as f64 / seconds;
            row.tokens_per_s += sum.tokens as f64 / seconds;
            row.launches_per_s += sum.launches as f64 / seconds;
        }
    }
    let mut rows: Vec<Row> = all.into_values().collect();
    // Those with work first, then what is no range of the program, and in one order whatever their numbers do.
    rows.order_by_key(|row| (row.sum.launches == 0, row.name.starts_with('('), row.name.clone()));
    rows
}

fn stage_table(
    (rows, of, nothing): (&[Row], &str, &str),
    chosen: usize,
    height: usize,
    width: usize,
) -> Vec<Line<'static>> {
    let name_width = width.saturating_sub(62).clamp(8, STAGE_COLUMNS);
    let titles = STAGE_TITLES.map(|(title, _)| title.to_owned());
    let start = format!("  {}", padded(&format!("STAGE{of}"), name_width));
    let title = row_of(start, titles.iter().zip(STAGE_TITLES.map(|(_, width)| width)), width);
    let mut lines = vec![bold(&title, width)];
    if rows.is_empty() {
        lines.push(plain(&format!("  {nothing}"), width));
    }
    // The chosen one is always among those that are seen.
    let first = (chosen + 1).saturating_sub(height);
    for (at, row) in rows.iter().enumerate().skip(first).take(height) {
        let mean = |sum: f64| sum / row.processes.max(1) as f64;
        let time = |percent| or_dash(row.sum.step_times.percentile(percent).map(ms));
        let has_tokens = row.sum.steps_with_tokens > 0;
        let tokens = or_dash(has_tokens.then(|| short(mean(row.tokens_per_s))));
        let mark = if at == chosen { ">" } else { " " };
        let start = format!("{mark} {}", padded(&row.name, name_width));
        let busy = row.sum.busy_share();
        let idle = busy.map(|busy| (1.0 - busy - row.sum.gap_share().unwrap_or(0.0)).max(0.0));
        let per_call = (row.sum.steps > 0).then(|| row.sum.launches as f64 / row.sum.steps as f64);
        let cells = [
            short(mean(row.steps_per_s)),
            time(50),
            time(99),
            or_dash(busy.map(share)),
            or_dash(row.sum.gap_share().map(share)),
            or_dash(row.sum.requests_per_step().map(short)),
            tokens,
            short(mean(row.launches_per_s)),
            or_dash(idle.map(share)),
            time(90),
            or_dash(per_call.map(short)),
        ];
        let text = row_of(start, cells.iter().zip(STAGE_TITLES.map(|(_, width)| width)), width);
        let style = if at == chosen { Modifier::REVERSED } else { Modifier::empty() };
        lines.push(Line::from(Span::styled(clip(&text, width), Style::new().add_modifier(style))));
    }
    lines
}

/// A line of as many cells, right-aligned in their columns, as are whole in it; the last ones are for wide terminals.
fn row_of<'c>(
    start: String,
    cells: impl Iterator<Item = (&'c String, usize)>,
    width: usize,
) -> String {
    let (mut line, mut columns) = (start.clone(), start.chars().count());
    for (cell, cell_width) in cells {
        columns += 1 + cell_width;
        if columns > width {
            break;
        }
        line.push_str(&format!(" {cell:>cell_width$}"));
    }
    line
}

/// Time and launches of each kernel of a stage, by name, and their classes.
type Kernels<'v> = (Vec<(&'v str, (u64, u64))>, BTreeMap<&'v str, u8>);

fn kernels_of<'v>(view: &'v View, row: &Row) -> Kernels<'v> {
    let mut kernels: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut class_of: BTreeMap<&str, u8> = BTreeMap::new();
    let all = view.look.processes.iter().flat_map(|process| &process.window.kernels);
    for kernel in all.filter(|kernel| kernel.stage == row.name) {
        class_of.insert(&kernel.name, kernel.class);
        let sum = kernels.entry(&kernel.name).or_default();
        *sum = (sum.0.saturating_add(kernel.ns), sum.1.saturating_add(kernel.launches));
    }
    (kernels.into_iter().collect(), class_of)
}

fn kernel_table(view: &View, row: Option<&Row>, height: usize, width: usize) -> Vec<Line<'static>> {
    let Some(row) = row.filter(|_| height > 0) else { return Vec::new() };
    let total = row.sum.class_ns.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
    let mut classes: Vec<(u64, u8)> =
        row.sum.class_ns.iter().enumerate().map(|(class, &ns)| (ns, class as u8)).collect();
    classes.retain(|(ns, _)| *ns > 0);
    classes.order_by(|a, b| b.cmp(a));
    let (mut kernels, class_of) = kernels_of(view, row);
    let by = view.state.kernels_by;
    let mean_ns = |(ns, launches): (u64, u64)| ns.checked_div(launches);
    let size = |sum: (u64, u64)| match by {
        KernelOrder::Time => (Some(sum.0), sum.1),
        KernelOrder::Mean => (mean_ns(sum), sum.0),
    };
    kernels.order_by(|a, b| size(b.1).cmp(&size(a.1)).then_with(|| a.0.cmp(b.0)));
    // At least one is shown.
    let above = view.state.above.min(kernels.len().saturating_sub(1));
    let kernels = kernels.split_off(above);
    let from = if above > 0 { format!("KERNEL from {}", above + 1) } else { "KERNEL".to_owned() };
    let is_wide = width >= WIDE;
    let besides = if is_wide { 75 } else { 41 };
    let name_width = width.saturating_sub(besides).clamp(8, KERNEL_COLUMNS);
    let title = format!(
        "  {} {:>6}  {} {:>6} {:>8}{}",
        padded("CLASS", 14),
        "TIME",
        padded(&from, name_width),
        marked("TIME", by == KernelOrder::Time),
        marked("MEAN us", by == KernelOrder::Mean),
        if is_wide { "  LAUNCH/S      ms/S  CLASS" } else { "" }
    );
    let mut lines = vec![bold(&title, width)];
    let shown = height.saturating_sub(1);
    // The last line is the sum of those that have no room.
    let single = if kernels.len() > shown { shown.saturating_sub(1) } else { kernels.len() };
    let (top, rest) = kernels.split_at_checked(single).unwrap_or((&[], &kernels));
    let beyond = rest.iter().fold((0u64, 0u64), |sum, (_, (ns, n))| {
        (sum.0.saturating_add(*ns), sum.1.saturating_add(*n))
    });
    let others = format!("{} others", rest.len());
    let others = (!rest.is_empty()).then_some((others.as_str(), beyond));
    let mut top = top.iter().copied().chain(others);
    let seconds = row.window_s;
    for at in 0..shown {
        let class = classes.get(at).map(|&(ns, class)| (class_label(class), part(ns, total)));
        let (class, class_part) = class.unwrap_or_default();
        let kernel = top.next();
        if class.is_empty() && kernel.is_none() {
            break;
        }
        let more = kernel.filter(|_| is_wide).map_or_else(String::new, |(name, (ns, launches))| {
            let calls = short(launches as f64 / seconds);
            let class = class_of.get(name).map_or("", |class| class_label(*class));
            format!(" {calls:>9} {:>9}  {class}", short(ns as f64 / 1e6 / seconds))
        });
        let (name, kernel_part, mean) = kernel.map_or_else(Default::default, |(name, sum)| {
            let mean = mean_ns(sum).map(|ns| short(ns as f64 / 1e3));
            (name, part(sum.0, total), mean.unwrap_or_default())
        });
        let (class, name) = (padded(class, 14), padded(name, name_width));
        let text = format!("  {class} {class_part:>6}  {name} {kernel_part:>6} {mean:>8}{more}");
        lines.push(plain(&text, width));
    }
    lines
}

/// The last minute, a column a second: how long the steps of the stage were, and how busy the GPUs.
fn minute(view: &View, row: Option<&Row>, width: usize) -> Vec<Line<'static>> {
    let columns = (0..width.saturating_sub(22).min(60)).rev();
    let steps: Vec<Option<f64>> = columns.clone().map(|ago| step_ms(view, row?, ago)).collect();
    let busy: Vec<Option<f64>> = columns.map(|ago| gpu_share(view, ago)).collect();
    let lines = [("CALL ms", trend(&steps, None, short)), ("GPU", trend(&busy, Some(1.0), share))];
    let lines = lines.into_iter().filter_map(|(label, trend)| Some((label, trend?)));
    let line = |(label, trend)| plain(&format!("  {label:<7} {trend}"), width);
    lines.map(|of| coloured(line(of), Color::Green, view)).collect()
}

/// The mean time of the steps of a stage that ended so many seconds before the newest data.
fn step_ms(view: &View, row: &Row, ago: usize) -> Option<f64> {
    let (mut steps, mut all_ns) = (0u64, 0u64);
    for process in &view.look.processes {
        let seconds = process.window.minute.steps.get(&row.name);
        let (more, ns) = seconds.and_then(|all| all.iter().rev().nth(ago)).unwrap_or(&(0, 0));
        (steps, all_ns) = (steps.saturating_add(*more), all_ns.saturating_add(*ns));
    }
    (steps > 0).then(|| all_ns as f64 / steps as f64 / 1e6)
}

/// The part of the second so many seconds before the newest data in which the GPUs worked.
fn gpu_share(view: &View, ago: usize) -> Option<f64> {
    let seconds = view.look.processes.iter().map(|process| &process.window.minute.busy_ns);
    let all: Vec<u64> = seconds.filter_map(|all| all.iter().rev().nth(ago).copied()).collect();
    let sum: f64 = all.iter().map(|ns| *ns as f64 / 1e9).sum();
    (!all.is_empty()).then(|| sum / all.len() as f64)
}

/// Values as bars up to the largest one or `full`, and the least and the largest in figures.
fn trend(values: &[Option<f64>], full: Option<f64>, text: fn(f64) -> String) -> Option<String> {
    let known = || values.iter().flatten().copied();
    let (least, most) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
    let bars: String = values.iter().map(|value| bar(*value, full.unwrap_or(most))).collect();
    Some(format!("{bars} {}-{}", text(least), text(most)))
}

/// The height of a value, of eight; where nothing is known, a space.
fn bar(value: Option<f64>, full: f64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let Some(value) = value else { return ' ' };
    let part = if full > 0.0 { (value / full).clamp(0.0, 1.0) } else { 0.0 };
    BARS.get((part * 7.0).round() as usize).copied().unwrap_or(' ')
}

/// What the host did while the GPUs were idle: for each process as many causes as there is room for, at most [`CAUSES`], or
/// why there are none.
fn hosts(view: &View, height: usize, width: usize) -> Vec<Line<'static>> {
    let all = &view.look.processes;
    if all.is_empty() {
        return Vec::new();
    }
    let shown = all.len().min(height);
    let each = (height / shown.max(1)).clamp(1, if width >= WIDE { CAUSES_WIDE } else { CAUSES });
    let title =
        format!("  {:>8} {:>6} {:>6}  WHAT THE HOST DID, IN ALL STAGES", "PID", "IDLE", "SHARE");
    let mut lines = vec![bold(&title, width)];
    let text_width = width.saturating_sub(26);
    for process in all.iter().take(shown) {
        let host = &process.window.host;
        let idle = or_dash((host.ns > 0).then(|| share(host.idle_ns as f64 / host.ns as f64)));
        // Why there are no causes, or no lines in them.
        let has_lines = host.causes.iter().take(each).any(|cause| cause.frame.is_some());
        let why = host.why_none.as_ref().or(host.note.as_ref().filter(|_| !has_lines));
        let for_causes = each.saturating_sub(usize::from(why.is_some() && each > 1));
        let causes = host.causes.iter().filter(|cause| cause.percent >= 0.05).take(for_causes);
        let causes: Vec<(String, String)> = causes
            .map(|cause| {
                let text = cause.text(true);
                let text = shorten(without_wait(&text, text_width), text_width);
                (share(cause.percent / 100.0), text)
            })
            .collect();
        let room = each.saturating_sub(causes.len());
        let why = why.map_or_else(Vec::new, |why| wrapped_at_most(why, text_width, room));
        let others = why.into_iter().map(|line| (String::new(), line));
        for (at, (share, text)) in causes.into_iter().chain(others).enumerate() {
            let (pid, idle) = match at {
                0 => (process.pid.to_string(), idle.as_str()),
                _ => (String::new(), ""),
            };
            lines.push(plain(&format!("  {pid:>8} {idle:>6} {share:>6}  {text}"), width));
        }
    }
    lines
}

/// Leaves out "waiting for the" if there is no room: what follows (the GIL, a lock) says enough.
fn without_wait(text: &str, width: usize) -> &str {
    let is_long = text.chars().count() > width;
    let what =
        ["waiting for the ", "waiting for a "].iter().find_map(|wait| text.strip_prefix(wait));
    what.filter(|_| is_long).unwrap_or(text)
}

fn of_stage<'p>(process: &'p Watched, row: Option<&Row>) -> Option<&'p StageNumbers> {
    process.window.stages.get(&row?.name)
}

/// The processes in the order of their rows; without another one, that of their ranks.
fn sorted_processes<'v>(view: &'v View, row: Option<&Row>) -> Vec<&'v Watched> {
    let mut all: Vec<&Watched> = view.look.processes.iter().collect();
    match view.state.processes_by {
        ProcessOrder::Rank => {}
        ProcessOrder::StepTime => all.order_by_cached_key(|process| {
            Reverse(of_stage(process, row).and_then(|sum| sum.step_times.percentile(50)))
        }),
        ProcessOrder::Busy => all.order_by(|a, b| {
            let busy =
                |of| of_stage(of, row).and_then(StageNumbers::busy_share).unwrap_or(f64::MAX);
            busy(a).total_cmp(&busy(b))
        }),
        ProcessOrder::Lost => {
            all.order_by_key(|process| Reverse((is_incomplete(process), lost(process))));
        }
    }
    all
}

fn processes(view: &View, row: Option<&Row>, height: usize, width: usize) -> Vec<Line<'static>> {
    let host_width = width.saturating_sub(66).clamp(8, HOST_COLUMNS);
    let by = view.state.processes_by;
    let sorted = sorted_processes(view, row);
    let is_chosen = |process: &Watched| view.state.only.as_ref() == Some(&id(process));
    let chosen = sorted.iter().position(|process| is_chosen(process));
    const WIDTHS: [usize; 5] = [8, 8, 6, 6, 7];
    let host = padded("HOST", host_width);
    let titles = [
        "CALLS/S".to_owned(),
        marked("P50 ms", by == ProcessOrder::StepTime),
        marked("BUSY", by == ProcessOrder::Busy),
        "GPU".to_owned(),
        marked("LOST", by == ProcessOrder::Lost),
    ];
    let start = format!("  {:>4} {:>8} {host} {}", "RANK", "PID", padded("STATE", 9));
    let mut title = row_of(start, titles.iter().zip(WIDTHS), width);
    if width >= WIDE {
        title.push_str(" TOKENS/S   IDLE  TRACE FILE");
    }
    let mut lines = vec![bold(&title, width)];
    // A process is worth more than how many have no room.
    let shown = if sorted.len() > height { height.saturating_sub(1).max(1) } else { height };
    // The chosen one is always among those that are seen.
    let first = (chosen.unwrap_or(0) + 1).saturating_sub(shown.max(1));
    for process in sorted.iter().skip(first).take(shown) {
        let seconds = process.window.ns as f64 / 1e9;
        let sum = of_stage(process, row);
        let devices = process.window.devices.iter().filter(|device| device.busy_ns > 0);
        let busy: Vec<f64> = devices.map(|device| device.busy_ns as f64 / 1e9 / seconds).collect();
        let is_known = !busy.is_empty() && seconds != 0.0;
        let gpu = or_dash(is_known.then(|| share(busy.iter().sum::<f64>() / busy.len() as f64)));
        let mark = if is_chosen(process) { ">" } else { " " };
        let rank = or_dash(process.rank.map(|rank| rank.to_string()));
        let (host, state) = (padded(&process.host, host_width), padded(&state(view, process), 9));
        let start = format!("{mark} {rank:>4} {:>8} {host} {state}", process.pid);
        let cells = [
            or_dash(sum.filter(|_| seconds > 0.0).map(|sum| short(sum.steps as f64 / seconds))),
            or_dash(sum.and_then(|sum| sum.step_times.percentile(50)).map(ms)),
            or_dash(sum.and_then(StageNumbers::busy_share).map(share)),
            gpu,
            lost_text(lost(process), is_incomplete(process), lost_count),
        ];
        let mut text = row_of(start, cells.iter().zip(WIDTHS), width);
        if width >= WIDE {
            text.push_str(&more_of_process(process, sum, width));
        }
        let is_heard = !is_silent(view, process) && process.state != FileState::Unreachable;
        let is_whole = lost(process) == 0 && !is_incomplete(process) && is_heard;
        let line = match (is_chosen(process), is_whole) {
            (true, _) => plain(&text, width).style(Modifier::REVERSED),
            (false, true) => plain(&text, width),
            (false, false) => coloured(plain(&text, width), Color::Red, view),
        };
        lines.push(line);
    }
    if shown < sorted.len() && shown < height {
        let more = counted((sorted.len() - shown) as u64, "process");
        lines.push(plain(&format!("       {more} more (left, right: show one alone)"), width));
    }
    lines
}

/// The further columns of a wide terminal.
fn more_of_process(process: &Watched, sum: Option<&StageNumbers>, width: usize) -> String {
    let seconds = process.window.ns as f64 / 1e9;
    let tokens = sum.filter(|sum| sum.steps_with_tokens > 0 && seconds > 0.0);
    let tokens = or_dash(tokens.map(|sum| short(sum.tokens as f64 / seconds)));
    let host = &process.window.host;
    let idle = or_dash((host.ns > 0).then(|| share(host.idle_ns as f64 / host.ns as f64)));
    let file = shorten(&visible(process.file.as_bytes()), width.saturating_sub(107));
    format!(" {tokens:>8} {idle:>6}  {file}")
}

/// Whether nothing more comes: no process has a socket, and all trace files have their end or have not grown for long.
/// A file that was taken away may come again.
pub(crate) fn is_over(view: &View) -> bool {
    let ended = |process: &Watched| match process.state {
        FileState::Ended => true,
        FileState::Growing | FileState::Cut | FileState::Damaged(_) => is_silent(view, process),
        _ => false,
    };
    let all = &view.look.processes;
    view.phases.is_empty() && !all.is_empty() && all.iter().all(ended)
}

/// What is missing of a process. Work that was recorded and not placed is shown next to it, and a name that
/// was cut or a range that was not closed hides none.
fn lost(process: &Watched) -> u64 {
    let kept = ["unattributed", "names_cut", "unbalanced_range_ends", "unclosed_ranges"];
    let all = process.losses.iter().filter(|(kind, _)| !kept.contains(kind));
    let reader = process.corrupt_frames.saturating_add(process.counts.left_out);
    all.map(|(_, count)| *count).fold(reader, u64::saturating_add)
}

/// Records are whole: few of them have no places after the point.
fn lost_count(lost: u64) -> String {
    if lost < 1_000 { lost.to_string() } else { short(lost as f64) }
}

/// Whether an unknown amount is missing: the trace file ends before its process did.
fn is_incomplete(process: &Watched) -> bool {
    process.is_torn || matches!(process.state, FileState::Cut | FileState::Damaged(_))
}

fn lost_text(lost: u64, is_incomplete: bool, text: impl Fn(u64) -> String) -> String {
    match (is_incomplete, lost) {
        (false, _) => text(lost),
        (true, 0) => "?".to_owned(),
        (true, _) => format!("{}+?", text(lost)),
    }
}

/// Whether nothing was heard of a process without a socket for long.
fn is_silent(view: &View, process: &Watched) -> bool {
    let has_socket = view.phases.iter().any(|(pid, _)| *pid == process.pid);
    let last = process.last_wall_ns.or(process.window.end_wall_ns);
    !has_socket && last.is_some_and(|last| view.now_ns.saturating_sub(last) > SILENT_NS)
}

/// What a process does: its phase where it has a socket, else how things stand with its file.
fn state(view: &View, process: &Watched) -> String {
    let phase = view.phases.iter().find(|(pid, _)| *pid == process.pid);
    match (&process.state, phase) {
        (FileState::Growing | FileState::Waiting, Some((_, phase))) => phase.clone(),
        (FileState::Ended, Some((_, phase))) if phase != "ended" => phase.clone(),
        (FileState::Growing, None) if process.is_torn => "cut".to_owned(),
        (FileState::Growing, None) if is_silent(view, process) => "silent".to_owned(),
        (FileState::Growing, None) => "growing".to_owned(),
        (FileState::Waiting, None) => "empty".to_owned(),
        (FileState::Ended, _) => "ended".to_owned(),
        (FileState::Removed, _) => "removed".to_owned(),
        (FileState::Replaced, _) => "replaced".to_owned(),
        (FileState::Cut, _) => "cut".to_owned(),
        (FileState::Damaged(_), _) => "damaged".to_owned(),
        (FileState::Unreadable(_), _) => "unread".to_owned(),
        (FileState::Unreachable, _) => "no answer".to_owned(),
    }
}

/// The title of a column, with a mark where the rows are sorted by it.
fn marked(title: &str, is_order: bool) -> String {
    format!("{title}{}", if is_order { "▾" } else { "" })
}

fn plain(text: &str, width: usize) -> Line<'static> {
    Line::from(clip(text, width))
}

fn bold(text: &str, width: usize) -> Line<'static> {
    Line::from(Span::styled(clip(text, width), Style::new().add_modifier(Modifier::BOLD)))
}

fn coloured(line: Line<'static>, colour: Color, view: &View) -> Line<'static> {
    if view.has_colour { line.style(colour) } else { line }
}

fn clip(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// Exactly so many columns, where its characters have one each; the middle gives way.
fn padded(text: &str, width: usize) -> String {
    format!("{:width$}", shorten(text, width))
}

fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 99.95 { "100%".to_owned() } else { format!("{percent:.1}%") }
}

fn part(of: u64, total: u64) -> String {
    or_dash((total > 0).then(|| share(of as f64 / total as f64)))
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

fn ms(ns: u64) -> String {
    short(ns as f64 / 1e6)
}

/// At most seven characters.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e15 => format!("{v:.0e}"),
        v if v >= 1e12 => format!("{:.1}T", v / 1e12),
        v if v >= 1e9 => format!("{:.1}G", v / 1e9),
        v if v >= 1e6 => format!("{:.1}M", v / 1e6),
        v if v >= 1e4 => format!("{:.1}k", v / 1e3),
        v if v >= 100.0 || v == 0.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests;
