//! A look at processes -> the lines of a page, for a width and a height. No colour: bold and reversed text
//! only, and a mark at the chosen stage, so that it reads the same without.

use std::collections::BTreeMap;

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use stage2_contract::text::numbers::count;
use stage2_contract::text::{shorten, visible};
use stage2_live::{FileState, Look, StageNumbers, Watched, class_label};

use super::cells::{bold, clip, fit, ms, plain, share, short};

/// What the user chose.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The row of the stage.
    pub(crate) chosen: usize,
    pub(crate) frozen: bool,
    pub(crate) help: bool,
    /// The next key says whether recording is to stop.
    pub(crate) stops: bool,
    /// What came of the last key.
    pub(crate) said: Option<String>,
}

/// What a page shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) look: Look,
    /// Phases of processes with a socket, by number.
    pub(crate) phases: Vec<(u32, String)>,
    /// Now, ns since the Unix epoch.
    pub(crate) now_ns: u64,
    pub(crate) state: State,
}

const HELP: [&str; 19] = [
    "up, down, k, j   choose a stage: its classes and kernels are shown",
    "s                start recording in all processes, or, after a question, stop",
    "                 it where any of them records (asks the sockets)",
    "f                freeze the page; the files are read on",
    "w                write a bundle with reports of all that was read, into a",
    "                 folder here",
    "q, Ctrl-C        end",
    "",
    "All rates are of the last 10 s of the data, per process: the mean of those with",
    "the stage.",
    "STEPS/S, P50, P99  the outermost ranges of the program that ended, and how long",
    "                   they were open",
    "BUSY       part of the time in steps in which GPU work of the stage ran",
    "GAPS       part of it in gaps of 50 us at most between work: cost of launches",
    "TOKENS/S   where ranges have a field `tokens`, or with --tokens STAGE",
    "GPU        part of the 10 s in which the GPU worked for the process",
    "Numbers are final 3 s after the event, and the collector writes once a second:",
    "so old is the data.",
    "Any key goes back.",
];

const KEYS: &str = "q end  s start/stop  j/k stage  f freeze  w write  ? help";

/// A stage over all processes.
struct Row {
    name: String,
    processes: u64,
    sum: StageNumbers,
    /// Of each process, added.
    steps_per_s: f64,
    tokens_per_s: f64,
    launches_per_s: f64,
}

/// How many stages can be chosen.
pub(crate) fn stages(view: &View) -> usize {
    rows(&view.look).len()
}

/// The page, `height` lines at most.
pub(crate) fn page(view: &View, width: usize, height: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if view.state.help {
        lines.push(bold("stage2-launch top", width));
        lines.extend(HELP.iter().map(|line| plain(line, width)));
        lines.truncate(height);
        return lines;
    }
    lines.extend(head(view, width));
    let rows = rows(&view.look);
    let chosen = view.state.chosen.min(rows.len().saturating_sub(1));
    let foot = foot(view, width);
    // What is left is shared: stages first, then processes, then kernels.
    let left = height.saturating_sub(lines.len() + foot.len() + 3);
    let for_stages = rows.len().clamp(1, (left / 3).max(1));
    let for_processes = view.look.processes.len().clamp(1, (left / 4).max(1));
    let counters = counters(view, width);
    let for_kernels = left.saturating_sub(for_stages + for_processes + counters.len());
    lines.extend(stage_table(&rows, chosen, for_stages, width));
    lines.extend(kernel_table(view, rows.get(chosen), for_kernels, width));
    lines.extend(counters);
    lines.extend(process_table(view, rows.get(chosen), for_processes, width));
    lines.truncate(height.saturating_sub(foot.len()));
    while lines.len() + foot.len() < height {
        lines.push(Line::default());
    }
    lines.extend(foot);
    lines.truncate(height);
    lines
}

fn head(view: &View, width: usize) -> Vec<Line<'static>> {
    let look = &view.look;
    let recording = |process: &&Watched| process.state == FileState::Growing;
    let on = look.processes.iter().filter(recording).count();
    let phases = view.phases.iter().filter(|(_, phase)| phase == "dormant").count();
    let dormant = if phases > 0 { format!(", {phases} dormant") } else { String::new() };
    let frozen = if view.state.frozen { "  FROZEN" } else { "" };
    let newest = look.processes.iter().filter_map(|process| process.window.end_wall_ns).max();
    let age = match newest {
        Some(end) => format!("data {:.1} s old", view.now_ns.saturating_sub(end) as f64 / 1e9),
        None => "no data yet".to_owned(),
    };
    let first = format!(
        "stage2 top  {}  {} processes, {on} recording{dormant}  {age}{frozen}",
        shorten(&view.name, 24),
        look.processes.len()
    );
    let sum =
        |of: fn(&Watched) -> u64| look.processes.iter().map(of).fold(0u64, u64::saturating_add);
    let work = sum(|process| process.counts.work);
    let placed = sum(|process| process.counts.attributed.saturating_add(process.counts.outside));
    let coverage = if work == 0 { "-".to_owned() } else { share(placed as f64 / work as f64) };
    let in_ranges = sum(|process| process.counts.attributed);
    let in_ranges = if work == 0 { "-".to_owned() } else { share(in_ranges as f64 / work as f64) };
    let lost = sum(lost);
    let behind = match (look.behind_bytes, look.skipped_bytes) {
        (0, 0) => String::new(),
        (behind, skipped) => format!("  {} MB behind, {} MB skipped", behind >> 20, skipped >> 20),
    };
    let second = format!(
        "placed {coverage}  in ranges {in_ranges}  lost {}  GPU work {}{behind}",
        count(lost),
        count(work)
    );
    vec![bold(&first, width), plain(&second, width)]
}

fn rows(look: &Look) -> Vec<Row> {
    let mut all: BTreeMap<&str, Row> = BTreeMap::new();
    for process in &look.processes {
        let seconds = process.window.ns as f64 / 1e9;
        let with_work =
            process.window.stages.iter().filter(|(_, sum)| sum.steps > 0 || sum.launches > 0);
        for (name, sum) in with_work.filter(|_| seconds > 0.0) {
            let row = all.entry(name).or_insert_with(|| Row {
                name: name.clone(),
                processes: 0,
                sum: StageNumbers::default(),
                steps_per_s: 0.0,
                tokens_per_s: 0.0,
                launches_per_s: 0.0,
            });
            row.processes += 1;
            row.sum.add(sum);
            row.steps_per_s += sum.steps as f64 / seconds;
            row.tokens_per_s += sum.tokens as f64 / seconds;
            row.launches_per_s += sum.launches as f64 / seconds;
        }
    }
    let mut rows: Vec<Row> = all.into_values().collect();
    // Those with work first, and in one order whatever their numbers do.
    rows.sort_by(|a, b| (a.sum.launches == 0, &a.name).cmp(&(b.sum.launches == 0, &b.name)));
    rows
}

fn stage_table(rows: &[Row], chosen: usize, height: usize, width: usize) -> Vec<Line<'static>> {
    let name_width = width.saturating_sub(59).max(8);
    let title = format!(
        "  {} {:>8} {:>8} {:>8} {:>6} {:>6} {:>8} {:>6}",
        fit("STAGE", name_width),
        "STEPS/S",
        "P50 ms",
        "P99 ms",
        "BUSY",
        "GAPS",
        "TOKENS/S",
        "WORK/S"
    );
    let mut lines = vec![bold(&title, width)];
    if rows.is_empty() {
        lines.push(plain("  nothing has run in the last 10 s of the data", width));
    }
    // The chosen one is always among those that are seen.
    let first = (chosen + 1).saturating_sub(height);
    for (at, row) in rows.iter().enumerate().skip(first).take(height) {
        let mean = |sum: f64| sum / row.processes.max(1) as f64;
        let time = |percent| row.sum.step_times.percentile(percent).map_or("-".to_owned(), ms);
        let tokens =
            if row.sum.steps_with_tokens > 0 { short(mean(row.tokens_per_s)) } else { "-".into() };
        let text = format!(
            "{} {} {:>8} {:>8} {:>8} {:>6} {:>6} {:>8} {:>6}",
            if at == chosen { ">" } else { " " },
            fit(&row.name, name_width),
            short(mean(row.steps_per_s)),
            time(50),
            time(99),
            row.sum.busy_share().map_or("-".to_owned(), share),
            row.sum.gap_share().map_or("-".to_owned(), share),
            tokens,
            short(mean(row.launches_per_s)),
        );
        let style = if at == chosen { Modifier::REVERSED } else { Modifier::empty() };
        lines.push(Line::from(Span::styled(clip(&text, width), Style::new().add_modifier(style))));
    }
    lines
}

fn kernel_table(view: &View, row: Option<&Row>, height: usize, width: usize) -> Vec<Line<'static>> {
    let Some(row) = row.filter(|_| height > 0) else { return Vec::new() };
    let total: u64 = row.sum.class_ns.iter().sum();
    let part = |ns: u64| if total == 0 { "-".to_owned() } else { share(ns as f64 / total as f64) };
    let mut classes: Vec<(u64, u8)> =
        row.sum.class_ns.iter().enumerate().map(|(class, &ns)| (ns, class as u8)).collect();
    classes.retain(|(ns, _)| *ns > 0);
    classes.sort_by(|a, b| b.cmp(a));
    let mut kernels: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let all = view.look.processes.iter().flat_map(|process| &process.window.kernels);
    for kernel in all.filter(|kernel| kernel.stage == row.name) {
        let sum = kernels.entry(&kernel.name).or_default();
        *sum = (sum.0.saturating_add(kernel.ns), sum.1 + kernel.launches);
    }
    let mut kernels: Vec<(&str, (u64, u64))> = kernels.into_iter().collect();
    kernels.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let name_width = width.saturating_sub(40).max(8);
    let title = format!(
        "  {} {:>6}  {} {:>6} {:>7}",
        fit("CLASS", 14),
        "TIME",
        fit("KERNEL", name_width),
        "TIME",
        "MEAN us"
    );
    let mut lines = vec![bold(&title, width)];
    let shown = height.saturating_sub(1);
    // The last line is the sum of those that have no room.
    let (top, rest) = if kernels.len() > shown {
        kernels.split_at_checked(shown.saturating_sub(1)).unwrap_or((&[], &kernels))
    } else {
        (kernels.as_slice(), [].as_slice())
    };
    let beyond =
        rest.iter().fold((0u64, 0u64), |sum, (_, (ns, n))| (sum.0.saturating_add(*ns), sum.1 + n));
    let others = format!("{} others", rest.len());
    let others = (!rest.is_empty()).then_some((others.as_str(), beyond));
    let mut top = top.iter().copied().chain(others);
    for at in 0..shown {
        let class = classes.get(at).map(|&(ns, class)| (class_label(class), part(ns)));
        let (class, class_part) = class.unwrap_or_default();
        let kernel = top.next();
        if class.is_empty() && kernel.is_none() {
            break;
        }
        let mean =
            |(ns, launches): (u64, u64)| ns.checked_div(launches).map(|ns| short(ns as f64 / 1e3));
        let (name, kernel_part, mean) = kernel.map_or_else(Default::default, |(name, sum)| {
            (name, part(sum.0), mean(sum).unwrap_or_default())
        });
        let text = format!(
            "  {} {class_part:>6}  {} {kernel_part:>6} {mean:>7}",
            fit(class, 14),
            fit(name, name_width)
        );
        lines.push(plain(&text, width));
    }
    lines
}

fn counters(view: &View, width: usize) -> Vec<Line<'static>> {
    let mut parts = Vec::new();
    for process in &view.look.processes {
        for counter in &process.counters {
            let name = counter.metric.split('.').next().unwrap_or_default().replace("__", " ");
            let value = if counter.is_percent {
                share(counter.value / 100.0)
            } else {
                format!("{}/s", short(counter.value))
            };
            parts.push(format!("GPU{} {} {value}", counter.device, shorten(&name, 28)));
        }
    }
    if parts.is_empty() {
        return Vec::new();
    }
    let all = parts.len();
    let mut text = format!("  {}", parts.join("  "));
    if text.chars().count() > width {
        text = format!("{} of {all}", shorten(&text, width.saturating_sub(8)));
    }
    vec![plain(&text, width)]
}

fn process_table(
    view: &View,
    row: Option<&Row>,
    height: usize,
    width: usize,
) -> Vec<Line<'static>> {
    let host_width = width.saturating_sub(66).max(8);
    let title = format!(
        "  {:>4} {:>8} {} {} {:>8} {:>8} {:>6} {:>6} {:>7}",
        "RANK",
        "PID",
        fit("HOST", host_width),
        fit("STATE", 9),
        "STEPS/S",
        "P50 ms",
        "BUSY",
        "GPU",
        "LOST"
    );
    let mut lines = vec![bold(&title, width)];
    let shown = if view.look.processes.len() > height { height.saturating_sub(1) } else { height };
    for process in view.look.processes.iter().take(shown) {
        let seconds = process.window.ns as f64 / 1e9;
        let sum = row.and_then(|row| process.window.stages.get(&row.name));
        let devices = process.window.devices.iter().filter(|device| device.busy_ns > 0);
        let busy: Vec<f64> = devices.map(|device| device.busy_ns as f64 / 1e9 / seconds).collect();
        let gpu = if busy.is_empty() || seconds == 0.0 {
            "-".to_owned()
        } else {
            share(busy.iter().sum::<f64>() / busy.len() as f64)
        };
        let text = format!(
            "  {:>4} {:>8} {} {} {:>8} {:>8} {:>6} {gpu:>6} {:>7}",
            process.rank.map_or("-".to_owned(), |rank| rank.to_string()),
            process.pid,
            fit(&process.host, host_width),
            fit(&state(view, process), 9),
            sum.filter(|_| seconds > 0.0)
                .map_or("-".to_owned(), |sum| short(sum.steps as f64 / seconds)),
            sum.and_then(|sum| sum.step_times.percentile(50)).map_or("-".to_owned(), ms),
            sum.and_then(StageNumbers::busy_share).map_or("-".to_owned(), share),
            short(lost(process) as f64),
        );
        lines.push(plain(&text, width));
    }
    if shown < view.look.processes.len() {
        lines.push(plain(
            &format!("       {} processes more", view.look.processes.len() - shown),
            width,
        ));
    }
    lines
}

/// What is missing of a process. Work that was recorded and not placed is told beside it, and a name that
/// was cut or a range that was not closed hides none.
fn lost(process: &Watched) -> u64 {
    let kept = ["unattributed", "names_cut", "unbalanced_range_ends", "unclosed_ranges"];
    let all = process.losses.iter().filter(|(kind, _)| !kept.contains(kind));
    let reader = process.corrupt_frames.saturating_add(process.counts.left_out);
    all.map(|(_, count)| *count).fold(reader, u64::saturating_add)
}

/// What a process does: its phase where it has a socket, else how things stand with its file.
fn state(view: &View, process: &Watched) -> String {
    let phase = view.phases.iter().find(|(pid, _)| *pid == process.pid);
    match (&process.state, phase) {
        (FileState::Growing | FileState::Waiting, Some((_, phase))) => phase.clone(),
        (FileState::Ended, Some((_, phase))) if phase != "ended" => phase.clone(),
        (FileState::Growing, None) => "growing".to_owned(),
        (FileState::Waiting, None) => "empty".to_owned(),
        (FileState::Ended, _) => "ended".to_owned(),
        (FileState::Removed, _) => "removed".to_owned(),
        (FileState::Replaced, _) => "replaced".to_owned(),
        (FileState::Cut, _) => "cut".to_owned(),
        (FileState::Damaged(_), _) => "damaged".to_owned(),
        (FileState::Unreadable(_), _) => "unread".to_owned(),
    }
}

fn foot(view: &View, width: usize) -> Vec<Line<'static>> {
    let notes =
        view.look.processes.iter().flat_map(|process| {
            process.notes.iter().map(|note| format!("{}: {note}", process.pid))
        });
    let left_out = view.look.files_left_out;
    let files = (left_out > 0).then(|| format!("{left_out} trace files are not followed"));
    let problem = view.look.problems.last().cloned();
    // The most urgent one has the line.
    let said = view.state.said.clone().or(problem).or(files).or_else(|| notes.into_iter().next());
    let said = said.map(|said| plain(&visible(said.as_bytes()), width));
    said.into_iter().chain([bold(KEYS, width)]).collect()
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
