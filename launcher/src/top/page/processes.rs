//! Processes, or ranks, side by side -> the rows of their table; which of them wait for others, and which is late.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier};
use ratatui::text::Line;
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::{shorten, visible};
use stage2_live::{FileState, IN_PART, StageNumbers, Watched};
use stage2_model::{HostCause, LATE_ERRORS_SURE};

use super::head::age;
use super::hosts::{fitted, most_causes};
use super::runs::names_apart;
use super::stages::{RUN_COLUMNS, TOKENS, TOKENS_IN_CALLS};
use super::{
    HOST_COLUMNS, ProcessOrder, Row, View, WIDE, WITH_CALLS, bold, coloured, id, in_brackets,
    is_incomplete, is_old, is_silent, lost, lost_count, lost_text, marked, missing, most_columns,
    ms, or_dash, own_tokens_per_s, p99, padded, plain, recorded, row_of, run_numbers, runs,
    seconds, share, short, state, who,
};

/// By so much of the time the others have to wait longer than a late rank, and at least twice as long.
const LATE: f64 = 0.05;
/// In so many calls or steps, at least: in one of a few, any rank is late.
const LATE_EACH: u64 = 8;
/// Columns of the longest state, and the least of the name of a host.
const STATE_WIDTH: usize = 9;
const HOST_LEAST: usize = 4;
/// From this width, there is room for two percentiles.
const WITH_P99: usize = 80;

/// The part of the time in the calls of a stage in which each process waited for others, about: what its communication
/// took beyond the quick launches of the quickest process. Nothing where no two processes communicate.
pub(super) fn waits(view: &View, stage: &str) -> Vec<Option<f64>> {
    let (all, runs) = (&view.look.processes, run_numbers(&view.look));
    // Those of two runs do not wait for each other.
    let mut quickest: BTreeMap<(Option<usize>, &str), (u64, usize)> = BTreeMap::new();
    for (process, run) in all.iter().zip(&runs) {
        for kernel in process.window.kernels.iter().filter(|kernel| kernel.stage == stage) {
            let Some(quick_ns) = kernel.quick_ns else { continue };
            let known = quickest.entry((*run, &kernel.name)).or_insert((u64::MAX, 0));
            *known = (known.0.min(quick_ns), known.1 + 1);
        }
    }
    let wait = |(process, run): (&Watched, &Option<usize>)| {
        let window_ns = process.window.stages.get(stage)?.window_ns;
        let kernels = process.window.kernels.iter().filter(|kernel| kernel.stage == stage);
        let waited = kernels.filter_map(|kernel| {
            let of_run = quickest.get(&(*run, kernel.name.as_str()));
            let (quick_ns, _) = of_run.filter(|known| known.1 > 1)?;
            Some(kernel.ns.saturating_sub(quick_ns.saturating_mul(kernel.launches)))
        });
        let waited = waited.reduce(u64::saturating_add)?;
        (window_ns > 0).then(|| (waited as f64 / window_ns as f64).min(1.0))
    };
    all.iter().zip(&runs).map(wait).collect()
}

/// The process that the others wait for, because it waits much less, and that in words.
fn late(waits: &[Option<f64>]) -> Option<(usize, &'static str)> {
    let mut known: Vec<(f64, usize)> =
        waits.iter().enumerate().filter_map(|(at, wait)| Some(((*wait)?, at))).collect();
    known.order_by(|a, b| a.0.total_cmp(&b.0));
    let (&(least, at), others) = known.split_first()?;
    let (median, _) = others.get(others.len() / 2)?;
    let is_late = median - least >= LATE && *median >= 2.0 * least;
    let why = match others.len() {
        1 => "is late: the other rank waits for it",
        _ => "is late: the other ranks wait for it",
    };
    is_late.then_some((at, why))
}

/// Whether anything of a process is or was recorded.
pub(super) fn has_file(process: &Watched) -> bool {
    !process.file.is_empty() || process.state != FileState::Waiting
}

fn of_stage<'p>(process: &'p Watched, row: Option<&Row>) -> Option<&'p StageNumbers> {
    process.window.stages.get(&row?.name)
}

/// The processes in the order of their rows; without another one, that of their ranks.
pub(super) fn sorted_processes<'v>(view: &'v View, row: Option<&Row>) -> Vec<&'v Watched> {
    // One without GPU work and calls, of which nothing is missing, has nothing to show next to one with work, unless it
    // waits for a start, or is not read yet.
    let is_idle = |of: &&Watched| {
        let has_calls = of.window.stages.values().any(|sum| sum.each().0 > 0);
        let is_unread = of.is_behind && of.pid > 0;
        let has_none = of.counts.work == 0 && !has_calls && lost(of) == 0 && !is_incomplete(of);
        has_none && has_file(of) && !is_unread
    };
    let mut all: Vec<&Watched> = view.look.processes.iter().collect();
    if all.iter().any(|process| has_file(process) && !is_idle(process)) {
        all.retain(|process| !is_idle(process));
    }
    match view.state.processes_by {
        // Runs are in one order everywhere.
        ProcessOrder::Rank => {
            let runs = runs(all.iter().copied());
            let run = |of: &Watched| runs.iter().position(|run| run.members.contains(&id(of)));
            all.order_by_cached_key(|of| run(of));
        }
        ProcessOrder::StepTime => all.order_by_cached_key(|process| {
            Reverse(of_stage(process, row).and_then(|sum| sum.step_time(50)))
        }),
        ProcessOrder::Busy => all.order_by(|a, b| {
            let busy =
                |of| of_stage(of, row).and_then(StageNumbers::busy_share).unwrap_or(f64::MAX);
            busy(a).total_cmp(&busy(b))
        }),
        ProcessOrder::Wait => {
            let waits = row.map(|row| waits(view, &row.name)).unwrap_or_default();
            let ids = view.look.processes.iter().map(id);
            let waits: BTreeMap<_, _> = ids.zip(waits).into_map();
            let of = |of| waits.get(&id(of)).copied().flatten().unwrap_or(f64::MAX);
            all.order_by(|a, b| of(a).total_cmp(&of(b)));
        }
        ProcessOrder::Lost => {
            all.order_by_key(|process| Reverse((is_incomplete(process), lost(process))));
        }
    }
    all
}

/// Whether a process is of the run of a row.
fn is_of_row(row: &Row, process: &Watched) -> bool {
    row.members.as_ref().is_none_or(|members| members.contains(&id(process)))
}

/// The process that the others wait for in a stage, and that in words.
pub(super) fn late_process<'v>(view: &'v View, row: &Row) -> Option<(&'v Watched, &'static str)> {
    let has_some = |row: &&Row| row.sum.each().0 >= LATE_EACH.saturating_mul(row.processes);
    let row = Some(row).filter(has_some)?;
    let waits = waits(view, &row.name).into_iter().zip(&view.look.processes);
    let of_run: Vec<Option<f64>> =
        waits.map(|(wait, process)| wait.filter(|_| is_of_row(row, process))).collect();
    let (at, what) = late(&of_run)?;
    Some((view.look.processes.get(at)?, what))
}

/// What the host of a late process does for longer than those of the others, the largest difference first: ms per call
/// or step of a run that has ended, else percent of the time. `None`: they are not sampled.
fn longer(view: &View, late: &Watched, row: &Row) -> Option<Vec<(f64, HostCause)>> {
    let stage = row.name.as_str();
    // Percent of the time, and what one percent is: ms per call or step where it is the time of the stage.
    let spent = |process: &'_ Watched| {
        let of_stage = process.window.hosts.get(stage).filter(|_| process.window.is_whole);
        let (host, is_of_stage) = (of_stage.unwrap_or(&process.window.host), of_stage.is_some());
        let (_, each) = process.window.stages.get(stage)?.each();
        let one = if is_of_stage { host.ns as f64 / 1e8 / each } else { 1.0 };
        (each > 0.0 && !host.spent.is_empty()).then(|| (host.spent.clone(), one))
    };
    let of_run = view.look.processes.iter().filter(|of| is_of_row(row, of));
    let others = of_run.filter(|of| id(of) != id(late));
    let others: Vec<(Vec<HostCause>, f64)> = others.filter_map(spent).collect();
    let (own, one) = spent(late)?;
    let count = Some(others.len() as f64).filter(|count| *count > 0.0)?;
    let difference = |cause: HostCause| {
        // That there is no sample does not say that there is no time.
        let sample = cause.percent / cause.samples.max(1) as f64;
        let same = others.iter().map(|(all, one)| {
            let of = all.iter().find(|of| of.is_of_the_function_of(&cause));
            let (percent, error) = of.map_or((0.0, sample), |of| (of.percent, of.error_percent));
            (percent * one / count, error * one / count)
        });
        let start = (cause.percent * one, (cause.error_percent * one).powi(2));
        let (longer, square) =
            same.fold(start, |(longer, square), (of, error)| (longer - of, square + error * error));
        (longer, square.sqrt(), cause)
    };
    // Whoever is not late waits for longer.
    let own = own.into_iter().filter(|cause| cause.is_finding() && !cause.kind.waits_for_others());
    let is_sure = |(longer, error, _): &(f64, f64, HostCause)| {
        *longer > 0.0 && *longer >= error * LATE_ERRORS_SURE
    };
    let mut all: Vec<_> = own.map(difference).filter(is_sure).collect();
    all.order_by(|a, b| b.0.total_cmp(&a.0));
    Some(all.into_iter().map(|(longer, _, cause)| (longer, cause)).collect())
}

/// Which rank is late, and why: what its host does for longer.
fn why_late(
    view: &View,
    (row, late, what): (&Row, &Watched, &str),
    height: usize,
    width: usize,
) -> Vec<String> {
    let who = match &row.run {
        Some(run) => format!("{} of {run}", who(late)),
        None => who(late),
    };
    let what = format!("  * {who} {what}");
    let longer = longer(view, late, row);
    let ends = match &longer {
        None => [""; 2],
        Some(all) if all.is_empty() => ["; samples do not show why", ""],
        Some(_) => [". Its host spends more time on:", ""],
    };
    let [whole, mut narrow] = ends.map(|end| format!("{what}{end}"));
    if longer.as_ref().is_some_and(|all| !all.is_empty()) {
        // What follows cannot be read without it; the columns show who waits.
        narrow = format!("  * {who} is late. Its host spends more time on:");
    }
    let all = [whole, narrow];
    let first = all.iter().find(|line| line.chars().count() <= width).unwrap_or(&all[1]).clone();
    let unit = match late.window.is_whole && late.window.hosts.contains_key(&row.name) {
        true => format!(" ms/{}", row.unit),
        false => "% of the time".to_owned(),
    };
    let line = |(longer, cause): (f64, HostCause)| {
        let start = format!("    +{}{unit}  ", short(longer));
        format!("{start}{}", fitted(&cause.text(true), width.saturating_sub(start.len())))
    };
    let causes = longer.unwrap_or_default().into_iter().take(height);
    std::iter::once(first).chain(causes.map(line)).collect()
}

pub(super) fn processes(
    view: &View,
    (row, rows): (Option<&Row>, &[Row]),
    (height, why_of_all): (usize, bool),
    width: usize,
) -> Vec<Line<'static>> {
    let waits = row.map(|row| waits(view, &row.name)).unwrap_or_default();
    // In the stage of the row, each run has its own.
    let of_stages = rows.iter().filter(|of| row.is_some_and(|row| row.name == of.name));
    let late: Vec<(&Row, &Watched, &str)> = of_stages
        .filter_map(|row| late_process(view, row).map(|(late, what)| (row, late, what)))
        .collect();
    let waits: BTreeMap<_, _> = view.look.processes.iter().map(id).zip(waits).into_map();
    let has_waits = waits.values().any(Option::is_some);
    let by = view.state.processes_by;
    let sorted = sorted_processes(view, row);
    let is_chosen = |process: &Watched| view.state.only.as_ref() == Some(&id(process));
    let chosen = sorted.iter().position(|process| is_chosen(process));
    let running = recorded(view);
    let least = |title: &str, of| format!("{title}{}", if by == of { "▴" } else { "" });
    let titles = [
        (marked("P50 ms", by == ProcessOrder::StepTime), 7),
        ("P99 ms".to_owned(), 7),
        // The least first.
        (least("BUSY", ProcessOrder::Busy), 5),
        // The late one has a mark behind it.
        (format!("({}) ", least("WAIT", ProcessOrder::Wait)), 8),
        ("GPU".to_owned(), 5),
        (marked("LOST", by == ProcessOrder::Lost), 7),
    ];
    let all_runs = runs(view.look.processes.iter());
    let has_runs = all_runs.len() > 1;
    // The waits are worth more, and the names of runs.
    let is_there = |at: usize| match at {
        1 => width >= WITH_P99 && (width >= WITH_CALLS || !(has_runs && has_waits)),
        3 => has_waits,
        _ => true,
    };
    let cells = |of: &[String; 6]| {
        let cells = of.iter().cloned().zip(titles.iter().map(|(_, width)| *width));
        cells.enumerate().filter(|(at, _)| is_there(*at)).map(|(_, cell)| cell).collect::<Vec<_>>()
    };
    let run_of = |of: &Watched| all_runs.iter().find(|run| run.members.contains(&id(of)));
    let host_of = |of: &Watched| match run_of(of).filter(|_| has_runs) {
        Some(run) => run.name.clone(),
        None if has_runs => view.runs.get(&of.pid).map_or_else(|| "-".to_owned(), String::clone),
        None => of.host.clone(),
    };
    let longest = sorted.iter().map(|of| host_of(of).chars().count()).max().unwrap_or(0);
    let run_names: Vec<String> = sorted.iter().map(|of| host_of(of)).collect();
    let run_names = run_names.iter().filter(|name| has_runs && *name != "-").map(String::as_str);
    // Runs have the names of the table of stages.
    let as_above = names_apart(run_names.clone(), RUN_COLUMNS);
    let host_least = as_above.values().map(|name| name.chars().count()).max().unwrap_or(0);
    let host_least = host_least.max(HOST_LEAST);
    let stage = row.map_or("", |row| &row.name);
    // Of those that are whole next to the titles and, on a narrow terminal, the host.
    let for_stage = stage.chars().count().min(STAGE_EASY) + "STATE :".len();
    let for_host = if width < WITH_P99 { longest.clamp(HOST_LEAST, 8) } else { host_least };
    let before = 25 + for_host + for_stage.saturating_sub(STATE_WIDTH);
    let mut columns = 0;
    for (_, of_column) in cells(&Default::default()) {
        columns += if before + columns + of_column < width { of_column + 1 } else { 0 };
    }
    let for_hosts = width.saturating_sub(columns + 25);
    let most = most_columns(HOST_COLUMNS, longest, width);
    let least = longest.clamp(HOST_LEAST, most);
    // The titles of the states and of the stage are worth more than the whole name of a host.
    let rooms = [least, host_least].map(|host| for_hosts.saturating_sub(host));
    let (state_title, state_width) = state_title(stage, rooms);
    let host_width = (for_hosts + STATE_WIDTH).saturating_sub(state_width);
    let host_width = host_width.clamp(HOST_LEAST, most);
    let line_of = |start: String, of: &[String; 6]| {
        let cells = cells(of);
        row_of(start, cells.iter().map(|(cell, width)| (cell, *width)), width)
    };
    let run_names = names_apart(run_names, host_width);
    let host = padded(if has_runs { "RUN" } else { "HOST" }, host_width);
    let start = format!("  {:>4} {:>7} {host} {state_title}", "RANK", "PID");
    let mut title = line_of(start, &titles.clone().map(|(title, _)| title));
    if width >= WIDE {
        let is_over = view.look.processes.iter().any(|process| process.window.is_whole);
        let tokens = if is_over { TOKENS_IN_CALLS } else { TOKENS };
        title.push_str(&format!(" {tokens}  TRACE FILE"));
    }
    let mut lines = vec![bold(&title, width)];
    // A process is worth more than how many have no room.
    let shown = if sorted.len() > height { height.saturating_sub(1).max(1) } else { height };
    // The chosen one is always among those that are seen.
    let first = (chosen.unwrap_or(0) + 1).saturating_sub(shown.max(1));
    for process in sorted.iter().skip(first).take(shown) {
        let sum = of_stage(process, row);
        let devices = process.window.devices.iter().filter(|device| device.busy_ns > 0);
        let on_each: Vec<f64> = devices.map(|of| of.busy_ns as f64).collect();
        let busy_ns = on_each.iter().sum::<f64>() / on_each.len() as f64;
        let is_known = missing(std::iter::once(*process)).is_none();
        // Of a part of the calls, it would be next to nothing.
        let is_whole_work = process.notes.iter().all(|note| !note.contains(IN_PART));
        let gpu = (is_known && is_whole_work && !on_each.is_empty() && process.window.ns > 0)
            .then(|| share(busy_ns / process.window.ns as f64));
        let is_late = late.iter().any(|(_, late, _)| id(late) == id(process));
        let lost = lost_text(lost(process), is_incomplete(process), lost_count);
        let is_whole = lost == "0";
        let wait = waits.get(&id(process)).copied().flatten().filter(|_| is_known);
        // Of the history, the sums follow.
        let has_work = |sum: &&StageNumbers| process.counts.work > 0 || sum.launches > 0;
        let busy = sum.filter(|sum| has_work(sum) && is_known).and_then(StageNumbers::busy_share);
        // What only the settings state is by the rates of calls, as in the row of the stage.
        let of_row = rows.iter().filter(|of| of.with_tokens == 0 && is_of_row(of, process));
        let mut of_row = of_row.filter(|of| row.is_some_and(|row| row.name == of.name));
        let of_row = of_row.next();
        let by_settings = |sum: &StageNumbers| {
            let (row, own) = (of_row?, sum.each().0 as f64 / seconds(process, sum)?);
            Some(row.tokens_per_s? / row.each_per_s? * own)
        };
        let per_s = sum.and_then(|sum| own_tokens_per_s(process, sum).or_else(|| by_settings(sum)));
        let per_s = per_s.filter(|_| !is_old(&running, process));
        let mark = if is_chosen(process) { ">" } else { " " };
        let rank = or_dash(process.rank.map(|rank| rank.to_string()));
        let host = host_of(process);
        let host = padded(run_names.get(host.as_str()).unwrap_or(&host), host_width);
        let state = padded(&state_and_age(view, process, state_width), state_width);
        let start = format!("{mark} {rank:>4} {:>7} {host} {state}", process.pid);
        let cells = [
            or_dash(sum.and_then(|sum| sum.step_time(50)).map(ms)),
            or_dash(sum.and_then(p99).map(ms)),
            or_dash(busy.map(share)),
            format!("{}{}", or_dash(wait.map(in_brackets)), if is_late { "*" } else { " " }),
            or_dash(gpu),
            if view.is_unread(process) { "reading".to_owned() } else { lost },
        ];
        let mut text = line_of(start, &cells);
        if width >= WIDE {
            let before = columns + 25 + host_width + state_width - STATE_WIDTH;
            let room = width.saturating_sub(before + 11);
            text.push_str(&more_of_process(process, per_s, room));
        }
        // That a run is over is no fault of a process.
        let is_calm = view.ended.is_some() || view.look.is_reading || !is_silent(view, process);
        let is_heard = is_calm && process.state != FileState::Unreachable;
        let line = plain(&text, width);
        let line = match (is_chosen(process), is_heard, is_late || !is_whole) {
            (true, ..) => line.style(Modifier::REVERSED),
            (false, false, _) => coloured(line, Color::Red, view),
            (false, true, true) => coloured(line, Color::Yellow, view),
            (false, true, false) => line,
        };
        lines.push(line);
    }
    if shown < sorted.len() && shown < height {
        lines.push(more_processes(sorted.len() - shown, width));
    }
    let most = most_causes(view, width);
    let is_chosen_run = |of: &Row| row.is_some_and(|row| row.run == of.run);
    let late = late.into_iter().filter(|(of, ..)| why_of_all || is_chosen_run(of));
    let why = late.flat_map(|late| why_late(view, late, height.min(most), width));
    lines.extend(why.map(|why| coloured(plain(&why, width), Color::Yellow, view)));
    lines
}

/// What a process does. The first line has the age of the newest data; next to it, that of one that is no longer recorded
/// has its own.
fn state_and_age(view: &View, process: &Watched, width: usize) -> String {
    let state = state(view, process);
    let end = process.window.end_wall_ns.filter(|_| is_old(&recorded(view), process));
    let ago = end.map(|end| age(view.now_ns.saturating_sub(end) as f64 / 1e9));
    let whole = ago.map(|ago| format!("{state} {ago}"));
    whole.filter(|whole| whole.chars().count() <= width).unwrap_or(state)
}

/// The title of the states, with the stage that the columns behind it are of, and its width: more than that of the states
/// by at most the first of `rooms`, or else the second one.
fn state_title(stage: &str, rooms: [usize; 2]) -> (String, usize) {
    if stage.is_empty() {
        return no_stage();
    }
    let all =
        [format!("STATE  IN {stage}:"), format!("STATE  {stage}:"), format!("STATE {stage}:")];
    let fits =
        |room: usize| all.iter().find(|of| of.chars().count() <= STATE_WIDTH + room).cloned();
    let cut = || {
        let columns = (STATE_WIDTH + rooms[1]).checked_sub("STATE :".len())?;
        (columns >= STAGE_LEAST).then(|| format!("STATE {}:", shorten(stage, columns)))
    };
    let Some(title) = rooms.into_iter().find_map(fits).or_else(cut) else { return no_stage() };
    let width = title.chars().count().max(STATE_WIDTH);
    (format!("{title:>width$}"), width)
}

/// The least columns of a stage in that title, and those of most stages.
const STAGE_LEAST: usize = 5;
const STAGE_EASY: usize = 8;

fn no_stage() -> (String, usize) {
    (padded("STATE", STATE_WIDTH), STATE_WIDTH)
}

/// That some processes have no row.
pub(super) fn more_processes(hidden: usize, width: usize) -> Line<'static> {
    let processes = if hidden == 1 { "process" } else { "processes" };
    let text = format!("       {hidden} more {processes} (left, right: show one alone)");
    plain(&text, width)
}

/// The further columns of a wide terminal.
fn more_of_process(process: &Watched, per_s: Option<f64>, room: usize) -> String {
    let file = shorten(&visible(process.file.as_bytes()), room);
    format!(" {:>8}  {file}", or_dash(per_s.map(short)))
}
