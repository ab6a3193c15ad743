//! A look at processes -> the lines of a page, for a width and a height. No colour: bold and reversed text
//! only, and a mark at the chosen stage, so that it reads the same without.

use std::collections::BTreeMap;

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use stage2_contract::text::numbers::count;
use stage2_contract::text::{shorten, visible};
use stage2_live::{FileState, Look, StageNumbers, Watched, class_label};

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

#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) look: Look,
    /// Phases of processes with a socket, by number.
    pub(crate) phases: Vec<(u32, String)>,
    pub(crate) now_ns: u64,
    pub(crate) state: State,
}

const HELP: [&str; 22] = [
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
    "TOKENS/S   where steps say how many: those of an engine, ranges with a field",
    "           `tokens`, or with --tokens STAGE; REQS: mean requests of a step",
    "GPU        part of the 10 s in which the GPU worked for the process",
    "IDLE       part of the 10 s without any work; below it what the threads that",
    "           launch did then, in shares of it that exceed their sampling error",
    "Numbers are final 3 s after the event, and the collector writes once a second:",
    "so old is the data.",
    "Any key goes back.",
];

/// The most causes of a process.
const CAUSES: usize = 3;

const KEYS: &str = "q end  s start/stop  j/k stage  f freeze  w write  ? help";

/// A stage over all processes.
#[derive(Default)]
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
    if view.state.help {
        let help = HELP.iter().map(|line| plain(line, width));
        let lines = std::iter::once(bold("stage2-launch top", width)).chain(help);
        return lines.take(height).collect();
    }
    let mut lines = head(view, width);
    let rows = rows(&view.look);
    let chosen = view.state.chosen.min(rows.len().saturating_sub(1));
    let foot = foot(view, width);
    // What is left is shared: stages first, then processes, then kernels.
    let left = height.saturating_sub(lines.len() + foot.len() + 4);
    let for_stages = rows.len().clamp(1, (left / 3).max(1));
    let for_processes = view.look.processes.len().clamp(1, (left / 4).max(1));
    let counters = counters(view, width);
    let hosts = hosts(view, (left / 4).max(1), width);
    // The titles have their lines already.
    let for_hosts = hosts.len().saturating_sub(1);
    let for_kernels = left.saturating_sub(for_stages + for_processes + for_hosts + counters.len());
    lines.extend(stage_table(&rows, chosen, for_stages, width));
    lines.extend(kernel_table(view, rows.get(chosen), for_kernels, width));
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
    let (name, all) = (shorten(&view.name, 24), look.processes.len());
    let first =
        format!("stage2 top  {name}  {all} processes, {on} recording{dormant}  {age}{frozen}");
    let sum =
        |of: fn(&Watched) -> u64| look.processes.iter().map(of).fold(0u64, u64::saturating_add);
    let work = sum(|process| process.counts.work);
    let placed = sum(|process| process.counts.attributed.saturating_add(process.counts.outside));
    let (coverage, in_ranges) =
        (part(placed, work), part(sum(|process| process.counts.attributed), work));
    let lost = sum(lost);
    let behind = match (look.behind_bytes, look.skipped_bytes) {
        (0, 0) => String::new(),
        (behind, skipped) => format!("  {} MB behind, {} MB skipped", behind >> 20, skipped >> 20),
    };
    let (lost, work) = (count(lost), count(work));
    let second =
        format!("placed {coverage}  in ranges {in_ranges}  lost {lost}  GPU work {work}{behind}");
    vec![bold(&first, width), plain(&second, width)]
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
    let name_width = width.saturating_sub(62).max(8);
    let title = format!(
        "  {} {:>7} {:>7} {:>7} {:>6} {:>6} {:>5} {:>8} {:>6}",
        padded("STAGE", name_width),
        "STEPS/S",
        "P50 ms",
        "P99 ms",
        "BUSY",
        "GAPS",
        "REQS",
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
        let time = |percent| or_dash(row.sum.step_times.percentile(percent).map(ms));
        let has_tokens = row.sum.steps_with_tokens > 0;
        let tokens = or_dash(has_tokens.then(|| short(mean(row.tokens_per_s))));
        let text = format!(
            "{} {} {:>7} {:>7} {:>7} {:>6} {:>6} {:>5} {:>8} {:>6}",
            if at == chosen { ">" } else { " " },
            padded(&row.name, name_width),
            short(mean(row.steps_per_s)),
            time(50),
            time(99),
            or_dash(row.sum.busy_share().map(share)),
            or_dash(row.sum.gap_share().map(share)),
            or_dash(row.sum.requests_per_step().map(short)),
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
        padded("CLASS", 14),
        "TIME",
        padded("KERNEL", name_width),
        "TIME",
        "MEAN us"
    );
    let mut lines = vec![bold(&title, width)];
    let shown = height.saturating_sub(1);
    // The last line is the sum of those that have no room.
    let single = if kernels.len() > shown { shown.saturating_sub(1) } else { kernels.len() };
    let (top, rest) = kernels.split_at_checked(single).unwrap_or((&[], &kernels));
    let beyond =
        rest.iter().fold((0u64, 0u64), |sum, (_, (ns, n))| (sum.0.saturating_add(*ns), sum.1 + n));
    let others = format!("{} others", rest.len());
    let others = (!rest.is_empty()).then_some((others.as_str(), beyond));
    let mut top = top.iter().copied().chain(others);
    for at in 0..shown {
        let class = classes.get(at).map(|&(ns, class)| (class_label(class), part(ns, total)));
        let (class, class_part) = class.unwrap_or_default();
        let kernel = top.next();
        if class.is_empty() && kernel.is_none() {
            break;
        }
        let mean =
            |(ns, launches): (u64, u64)| ns.checked_div(launches).map(|ns| short(ns as f64 / 1e3));
        let (name, kernel_part, mean) = kernel.map_or_else(Default::default, |(name, sum)| {
            (name, part(sum.0, total), mean(sum).unwrap_or_default())
        });
        let (class, name) = (padded(class, 14), padded(name, name_width));
        let text = format!("  {class} {class_part:>6}  {name} {kernel_part:>6} {mean:>7}");
        lines.push(plain(&text, width));
    }
    lines
}

fn counters(view: &View, width: usize) -> Vec<Line<'static>> {
    let mut parts = Vec::new();
    for process in &view.look.processes {
        for counter in &process.counters {
            let name = counter.metric.split('.').next().unwrap_or_default().replace("__", " ");
            let value = match counter.is_percent {
                true => share(counter.value / 100.0),
                false => format!("{}/s", short(counter.value)),
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

/// What the host did while the GPUs were idle: for each process as many causes as there is room for, at most three, or
/// why there are none.
fn hosts(view: &View, height: usize, width: usize) -> Vec<Line<'static>> {
    let all = &view.look.processes;
    if all.is_empty() {
        return Vec::new();
    }
    let shown = all.len().min(height);
    let each = (height / shown.max(1)).clamp(1, CAUSES);
    let title = format!("  {:>8} {:>6} {:>6}  WHAT THE HOST DID MEANWHILE", "PID", "IDLE", "SHARE");
    let mut lines = vec![bold(&title, width)];
    let text_width = width.saturating_sub(26);
    for process in all.iter().take(shown) {
        let host = &process.window.host;
        let idle = or_dash((host.ns > 0).then(|| share(host.idle_ns as f64 / host.ns as f64)));
        // Why there are no causes, or no lines in them.
        let has_lines = host.causes.iter().take(each).any(|cause| cause.frame.is_some());
        let why = host.why_none.as_ref().or(host.note.as_ref().filter(|_| !has_lines));
        let for_causes = each.saturating_sub(usize::from(why.is_some() && each > 1));
        let causes = host.causes.iter().take(for_causes);
        let causes: Vec<(String, String)> = causes
            .map(|cause| {
                let text = cause.text(true);
                let text = shorten(without_wait(&text, text_width), text_width);
                (share(cause.percent / 100.0), text)
            })
            .collect();
        let room = each.saturating_sub(causes.len());
        let why = why.map_or_else(Vec::new, |why| wrapped(why, text_width, room));
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

/// The words in at most this many lines; longer text is cut at its end.
fn wrapped(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let is_full = lines.len() >= most;
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(line) if is_full => {
                *line = format!("{}…", clip(line, width.saturating_sub(1)));
                break;
            }
            _ if !is_full => lines.push(clip(word, width)),
            _ => break,
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

fn processes(view: &View, row: Option<&Row>, height: usize, width: usize) -> Vec<Line<'static>> {
    let host_width = width.saturating_sub(66).max(8);
    let title = format!(
        "  {:>4} {:>8} {} {} {:>8} {:>8} {:>6} {:>6} {:>7}",
        "RANK",
        "PID",
        padded("HOST", host_width),
        padded("STATE", 9),
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
        let is_known = !busy.is_empty() && seconds != 0.0;
        let gpu = or_dash(is_known.then(|| share(busy.iter().sum::<f64>() / busy.len() as f64)));
        let text = format!(
            "  {:>4} {:>8} {} {} {:>8} {:>8} {:>6} {gpu:>6} {:>7}",
            or_dash(process.rank.map(|rank| rank.to_string())),
            process.pid,
            padded(&process.host, host_width),
            padded(&state(view, process), 9),
            or_dash(sum.filter(|_| seconds > 0.0).map(|sum| short(sum.steps as f64 / seconds))),
            or_dash(sum.and_then(|sum| sum.step_times.percentile(50)).map(ms)),
            or_dash(sum.and_then(StageNumbers::busy_share).map(share)),
            short(lost(process) as f64),
        );
        lines.push(plain(&text, width));
    }
    if shown < view.look.processes.len() {
        let more = view.look.processes.len() - shown;
        lines.push(plain(&format!("       {more} processes more"), width));
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

fn plain(text: &str, width: usize) -> Line<'static> {
    Line::from(clip(text, width))
}

fn bold(text: &str, width: usize) -> Line<'static> {
    Line::from(Span::styled(clip(text, width), Style::new().add_modifier(Modifier::BOLD)))
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
mod tests {
    use proptest::prelude::*;
    use stage2_live::{Counts, DeviceBusy, HostIdle, KernelRow, Window};
    use stage2_model::{HostCause, HostCauseKind, HostFrame};

    use super::*;

    fn process(pid: u32, rank: u64) -> Watched {
        let mut decode = StageNumbers {
            steps: 200,
            window_ns: 9_000_000_000,
            busy_ns: 6_300_000_000,
            gaps_ns: 900_000_000,
            launches: 8_000,
            requests: 6_400,
            steps_with_requests: 200,
            ..StageNumbers::default()
        };
        (0..200u64).for_each(|at| decode.step_times.add(40_000_000 + at * 100_000));
        (decode.class_ns[1], decode.class_ns[2]) = (5_000_000_000, 1_500_000_000);
        let prefill = StageNumbers { steps: 10, launches: 9, ..decode.clone() };
        let kernel = |name: &str, ns| {
            let (stage, name) = ("decode".to_owned(), name.to_owned());
            KernelRow { stage, name, class: 1, ns, launches: 1_000 }
        };
        let names =
            ["gemm_a", "gemm_b", "flash_fwd", "rms_norm", "rope", "silu", "add", "copy", "cast"];
        Watched {
            host: "node-1".into(),
            pid,
            rank: Some(rank),
            state: FileState::Growing,
            window: Window {
                ns: 10_000_000_000,
                end_wall_ns: Some(100_000_000_000),
                stages: [("decode".to_owned(), decode), ("prefill".to_owned(), prefill)].into(),
                kernels: names
                    .iter()
                    .zip(1u64..)
                    .map(|(name, at)| kernel(name, 5_000_000_000 / at))
                    .collect(),
                devices: vec![DeviceBusy { device: 0, busy_ns: 6_500_000_000 }],
                host: host(),
            },
            counts: Counts {
                work: 1_000_000,
                attributed: 998_000,
                outside: 2_000,
                ..Counts::default()
            },
            ..Watched::default()
        }
    }

    fn host() -> HostIdle {
        let cause = |kind, line, percent| HostCause {
            kind,
            frame: Some(HostFrame {
                function: "Scheduler.schedule".into(),
                file: "vllm/v1/core/sched/scheduler.py".into(),
                line,
            }),
            thread: (kind == HostCauseKind::Gil).then(|| "detokenizer".into()),
            percent,
            ..HostCause::default()
        };
        HostIdle {
            ns: 10_000_000_000,
            idle_ns: 3_500_000_000,
            samples: 350,
            causes: vec![
                cause(HostCauseKind::EngineCode, 212, 41.0),
                cause(HostCauseKind::Gil, 99, 22.0),
                cause(HostCauseKind::Lock, 7, 9.0),
                cause(HostCauseKind::Sleep, 8, 3.0),
            ],
            ..HostIdle::default()
        }
    }

    fn view() -> View {
        View {
            name: "tmp/stage2/latest".into(),
            look: Look { processes: vec![process(71, 0), process(72, 1)], ..Look::default() },
            phases: vec![(72, "stopping".into())],
            now_ns: 103_200_000_000,
            state: State::default(),
        }
    }

    fn text(view: &View, width: usize, height: usize) -> Vec<String> {
        page(view, width, height).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_that_matters_fits_into_80_by_24_without_colour() {
        let shown = text(&view(), 80, 24);
        assert_eq!(shown.len(), 24);
        assert!(shown.iter().all(|line| line.chars().count() <= 80), "{shown:#?}");
        let whole = shown.join("\n");
        let parts = "2 processes, 2 recording|data 3.2 s old|placed 100%|in ranges 99.8%|> decode|  prefill|\
                     gemm|attention|flash_fwd|71 node-1|stopping|70.0%|q end";
        for part in parts.split('|') {
            assert!(whole.contains(part), "{part} is not in\n{whole}");
        }
        let decode = shown.iter().find(|line| line.starts_with("> decode")).expect("a row");
        let numbers: Vec<&str> = decode.split_whitespace().skip(2).collect();
        // 200 steps in 10 s, of 40 to 60 ms; 70 % of the time in steps busy, 10 % in gaps.
        assert_eq!(
            numbers,
            ["20.0", "49.8", "59.2", "70.0%", "10.0%", "32.0", "-", "800"],
            "{decode}"
        );
        let small = text(&view(), 80, 16).join("\n");
        assert!(small.contains(" others ") && small.contains("q end"), "{small}");
        let styles = page(&view(), 80, 24);
        let spans = styles.iter().flat_map(|line| &line.spans);
        assert!(spans.into_iter().all(|span| span.style.fg.is_none() && span.style.bg.is_none()));
    }

    /// The lines of the table of the host, without its title.
    fn of_hosts(shown: &[String]) -> Vec<&str> {
        let title = shown.iter().position(|line| line.contains("WHAT THE HOST DID"));
        let rest = shown.iter().skip(title.expect("a title") + 1);
        rest.take_while(|line| !line.contains("RANK")).map(|line| line.trim_end()).collect()
    }

    #[test]
    fn the_causes_of_idle_time_have_a_line_each_and_three_where_there_is_room() {
        let mut view = view();
        let line = "Scheduler.schedule (scheduler.py:212)";
        let two = text(&view, 80, 24);
        let [first, second] = ["71", "72"].map(|pid| format!("  {pid:>8}  35.0%  41.0%  {line}"));
        let gil =
            "                   22.0%  GIL held by `detokenizer` i…schedule (scheduler.py:99)";
        assert_eq!(of_hosts(&two), [first.as_str(), gil, second.as_str(), gil], "{two:#?}");
        assert!(of_hosts(&text(&view, 200, 50)).len() == 6);
        view.look.processes.truncate(1);
        let one = text(&view, 80, 24);
        let expected = [
            first.as_str(),
            gil,
            "                    9.0%  lock or a thread in Schedul….schedule (scheduler.py:7)",
        ];
        assert_eq!(of_hosts(&one), expected, "{one:#?}");
        let wide = text(&view, 200, 50).join("\n");
        let whole =
            "waiting for the GIL held by `detokenizer` in Scheduler.schedule (scheduler.py:99)";
        assert!(wide.contains(whole), "{wide}");
    }

    #[test]
    fn where_there_is_no_cause_the_reason_and_the_limits_of_samples_are_said() {
        let mut view = view();
        view.look.processes.truncate(1);
        view.look.processes[0].window.host = HostIdle {
            why_none: Some("not sampled: STAGE2_HOST is off".into()),
            ..HostIdle::default()
        };
        let shown = text(&view, 80, 24);
        let expected = ["        71      -         not sampled: STAGE2_HOST is off"];
        assert_eq!(of_hosts(&shown), expected, "{shown:#?}");
        // States without lines.
        let mut host = host();
        host.causes.iter_mut().for_each(|cause| cause.frame = None);
        let why = "the memory layout of Python 3.9 is not known: samples have no stacks; use another version";
        host.note = Some(why.into());
        view.look.processes[0].window.host = host;
        let shown = text(&view, 80, 24);
        let expected = [
            "        71  35.0%  41.0%  code",
            "                   22.0%  waiting for the GIL held by `detokenizer`",
            "                          the memory layout of Python 3.9 is not known: samples…",
        ];
        assert_eq!(of_hosts(&shown), expected, "{shown:#?}");
    }

    #[test]
    fn another_stage_has_its_own_kernels_and_the_chosen_row_is_always_seen() {
        let mut view = view();
        let numbers = view.look.processes[0].window.stages["decode"].clone();
        for at in 0..40 {
            view.look.processes[0].window.stages.insert(format!("stage {at:02}"), numbers.clone());
        }
        for chosen in [0, 7, 30, 41, 99] {
            view.state.chosen = chosen;
            let shown = text(&view, 80, 24);
            let marked: Vec<&String> = shown.iter().filter(|line| line.starts_with("> ")).collect();
            assert_eq!(marked.len(), 1, "{chosen}: {shown:#?}");
        }
        view.state.chosen = 1;
        assert!(!text(&view, 80, 24).join("\n").contains("flash_fwd"), "kernels of decode only");
    }

    #[test]
    fn what_went_wrong_is_said_and_nothing_obeys_it() {
        let mut view = view();
        view.look.problems = vec!["/tmp/a.s2t is damaged at byte 7".into()];
        assert!(text(&view, 80, 24).join("\n").contains("damaged at byte 7"));
        view.state.said = Some("71: \x1b[2Jstart".into());
        assert!(text(&view, 80, 24).join("\n").contains("71: \\x1b[2Jstart"));
        view.state.help = true;
        let help = text(&view, 80, 24).join("\n");
        assert!(HELP.iter().all(|line| help.contains(line)), "a line of it is cut:\n{help}");
        view.state = State { frozen: true, ..State::default() };
        assert!(text(&view, 80, 24)[0].contains("FROZEN"));
    }

    proptest! {
        /// Hazard (Watching what runs): A terminal of one cell, or of any size.
        /// Promise: There is a page, and no panic.
        #[test]
        fn every_size_has_a_page(width in 0usize..300, height in 0usize..100, chosen in 0usize..5, help: bool) {
            let mut view = view();
            view.state = State { chosen, help, ..State::default() };
            let shown = text(&view, width, height);
            prop_assert!(shown.len() <= height && shown.iter().all(|line| line.chars().count() <= width));
            let empty = View { state: view.state.clone(), ..View::default() };
            prop_assert!(text(&empty, width, height).len() <= height);
        }
    }

    #[test]
    fn a_terminal_of_any_size_is_drawn_to() {
        use ratatui::{Terminal, backend::TestBackend, widgets::Paragraph};
        for (width, height) in [(1, 1), (2, 1), (1, 50), (80, 24), (20, 5), (300, 90)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
            let drawn = terminal.draw(|frame| {
                let area = frame.area();
                let lines = page(&view(), area.width.into(), area.height.into());
                frame.render_widget(Paragraph::new(lines), area);
            });
            assert!(drawn.is_ok());
        }
    }
}
