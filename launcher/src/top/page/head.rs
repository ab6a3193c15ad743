//! Which run, how far it is read, how old its data is, and whether it is whole -> the first lines of the page.

use ratatui::style::Color;
use ratatui::text::Line;
use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::{shorten, visible};
use stage2_live::{Look, MINUTE_S, Watched};

use super::runs::names_apart;
use super::{
    View, bold, coloured, dormant, is_incomplete, is_over, is_silent, is_stopped, lost, lost_text,
    most_columns, or_dash, part, plain, shown, sorted_processes, stopped,
};

/// The least and the most columns of the name of a run: it gives way in the middle.
const NAME_LEAST: usize = 12;
const NAME_MOST: usize = 40;

/// The age of data: short, and known only roughly where it is long.
pub(super) fn age(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6_000.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// How old the newest numbers are that are shown.
fn newest_age(view: &View) -> Option<String> {
    let ends = shown(view).filter_map(|process| process.window.end_wall_ns);
    let now_ns = view.now_ns.saturating_add(view.frozen_ns);
    ends.max().map(|end| age(now_ns.saturating_sub(end) as f64 / 1e9))
}

pub(super) fn head(view: &View, width: usize) -> Vec<Line<'static>> {
    let look = &view.look;
    // Nothing is known yet of one that is not read, and has no socket.
    let is_unknown = |of: &Watched| {
        of.is_behind
            && of.window.end_wall_ns.is_none()
            && view.phases.iter().all(|(pid, _)| *pid != of.pid)
    };
    let recording = |process: &&Watched| {
        let is_off = is_silent(view, process) || is_stopped(view, process.pid);
        process.is_growing() && !is_off && !is_unknown(process)
    };
    // Those that have a row.
    let rows = sorted_processes(view, None);
    let on = rows.iter().copied().filter(recording).count();
    let waiting = [(stopped(view), "stopped"), (dormant(view), "dormant")];
    let waiting: String = waiting
        .iter()
        .filter(|(some, _)| *some > 0)
        .map(|(some, what)| format!(", {some} {what}"))
        .collect();
    let frozen = if view.state.frozen { "  FROZEN" } else { "" };
    let age = match newest_age(view) {
        _ if look.is_reading => reading(look),
        Some(age) if look.catches_up => format!("{age} behind, {}", reading(look)),
        Some(age) if view.ended.is_some() => format!("ended {age} ago"),
        Some(age) => format!("{age} behind"),
        None if is_first(view) => FIRST.to_owned(),
        None => "no data yet".to_owned(),
    };
    // Before the files are open, none is known.
    let processes = match rows.is_empty() && look.is_reading {
        true => String::new(),
        false => counted(rows.len() as u64, "process"),
    };
    let is_known = view.ended.is_none() && !look.is_reading;
    // Where all wait for a start, it is clear that none is recorded.
    let is_known = is_known && (on > 0 || dormant(view) < rows.len());
    let on = if is_known { format!(", {on} recording") } else { String::new() };
    let few = format!("{age}{frozen}");
    let before = |all: String| if processes.is_empty() { few.clone() } else { all };
    // What has no room goes in this order, from the first on.
    let short = before(format!("{processes}  {few}"));
    let state = before(format!("{processes}{on}{waiting}  {few}"));
    let whole_state = format!("{state}{}", span(view));
    let all: Vec<String> = match look.hosts.filter(|(_, all)| *all > 1) {
        // Hosts that do not answer are worth more than the time.
        Some((answer, all)) => {
            let hosts = format!("{answer} of {all} hosts answer  ");
            let all = [format!("{hosts}{whole_state}"), format!("{hosts}{state}"), state, short];
            all.map(|text| format!("{BEFORE}{text}")).into()
        }
        // The name of a run tells it apart from others, if only by its ends; what is watched with is known.
        None => {
            let all = [&whole_state, &state, &short, &few];
            let most = most_columns(NAME_MOST, view.name.chars().count(), width);
            let name = name(view, most);
            let first = format!("{BEFORE}{name}  {whole_state}");
            let others = all.map(|text| named(view, text, width));
            std::iter::once(first).chain(others).chain([few.clone()]).collect()
        }
    };
    let fits = |text: &&String| text.chars().count() <= width;
    let first = all.iter().find(fits).or(all.last()).cloned().unwrap_or_default();
    vec![bold(&shorten(&first, width), width), whole(view, width)]
}

const BEFORE: &str = "stage2 top  ";

/// After so many whole seconds without GPU work, the program is idle: pauses between calls are shorter.
const IDLE_S: usize = 3;

/// A text behind the name of the run, which has the columns that are left.
fn named(view: &View, text: &str, width: usize) -> String {
    let besides = 2 + text.chars().count();
    // Each of several names can be told apart.
    let names = view.name.split(", ").count();
    let least = (names * (NAME_EACH + 2)).saturating_sub(2).clamp(NAME_LEAST, NAME_MOST);
    let room = width.saturating_sub(besides).clamp(least, NAME_MOST);
    format!("{}  {text}", name(view, room))
}

/// What is watched, each of several targets cut by itself.
fn name(view: &View, width: usize) -> String {
    let names: Vec<&str> = view.name.split(", ").collect();
    let each = ((width + 2) / names.len()).saturating_sub(2);
    match names.len() > 1 && view.name.chars().count() > width && each >= NAME_EACH {
        true => {
            let apart = names_apart(names.iter().copied(), each);
            names.iter().map(|name| apart[name].as_str()).collect::<Vec<_>>().join(", ")
        }
        false => shorten(&view.name, width),
    }
}

/// Columns of a name from which it can be told apart.
const NAME_EACH: usize = 6;

/// Whether all work is there, and in ranges.
fn whole(view: &View, width: usize) -> Line<'static> {
    let look = &view.look;
    if look.is_reading {
        return plain("lost and GPU work: reading", width);
    }
    let sum =
        |of: fn(&Watched) -> u64| look.processes.iter().map(of).fold(0u64, u64::saturating_add);
    let work = sum(|process| process.counts.work);
    let placed = sum(|process| process.counts.attributed.saturating_add(process.counts.outside));
    let (coverage, in_ranges) =
        (part(placed, work), part(sum(|process| process.counts.attributed), work));
    let lost = lost_text(sum(lost), look.processes.iter().any(is_incomplete), count);
    let skipped = match look.skipped_bytes >> 20 {
        0 => String::new(),
        skipped => format!("  {skipped} MB skipped"),
    };
    // That none is recorded does not say that there was none.
    let is_unknown = work == 0 && look.processes.iter().any(|of| of.has_no_gpu_records);
    let work = or_dash((!is_unknown).then(|| count(work)));
    let none = without_work(view);
    let mut parts = vec![format!("lost {lost}")];
    match look.sums_lag {
        // Sums of a part would be taken for those of all.
        true => parts.push("GPU work: reading".to_owned()),
        false => parts.extend([
            format!("GPU work {work}{none}"),
            format!("attributed {coverage}"),
            format!("in ranges {in_ranges}{skipped}"),
        ]),
    }
    let mut text = String::new();
    for part in parts {
        let between = if text.is_empty() { "" } else { "  " };
        // A number is whole, or not there.
        if text.chars().count() + between.len() + part.chars().count() <= width {
            text.push_str(between);
            text.push_str(&part);
        }
    }
    let text = plain(&text, width);
    if lost == "0" { text } else { coloured(text, Color::Yellow, view) }
}

/// For so long no GPU has worked, though the trace files go on: the data is not old, the program is idle.
fn without_work(view: &View) -> String {
    let growing = || view.look.processes.iter().filter(|of| of.is_growing() && of.counts.work > 0);
    let idle = |busy_ns: &[u64]| busy_ns.iter().rev().take_while(|busy_ns| **busy_ns == 0).count();
    let least = growing().map(|of| idle(&of.window.minute.busy_ns)).min();
    match least.filter(|seconds| *seconds >= IDLE_S && view.ended.is_none()) {
        Some(seconds) if seconds as u64 >= MINUTE_S => ", none for over 1 min".to_owned(),
        Some(seconds) => format!(", none for {seconds} s"),
        None => String::new(),
    }
}

/// How far the files are read, and how long the rest takes.
fn reading(look: &Look) -> String {
    let left = look.reading_left_s.filter(|left| *left > 0);
    let left = left.map_or_else(String::new, |left| format!(", {} left", age(left as f64)));
    // The files are read twice: each time has its own name.
    let what = match (look.sums_lag, look.is_reading) {
        (true, true) => "finding the last 10 s:",
        (true, false) => "reading history:",
        (false, _) => "reading",
    };
    match amounts(look) {
        (_, 0) => "opening the trace files".to_owned(),
        (_, all) if all < 1 << 20 => "reading the trace files".to_owned(),
        (read, all) => format!("{what} {} of {} MB{left}", read >> 20, all >> 20),
    }
}

/// Bytes of the files that are read, and of all of them.
fn amounts(look: &Look) -> (u64, u64) {
    let read = look.processes.iter().fold(0u64, |sum, of| sum.saturating_add(of.bytes));
    (read, read.saturating_add(look.behind_bytes))
}

const FIRST: &str = "first numbers in 2 s";

/// Whether work is recorded, and no number of this window is final.
pub(super) fn is_first(view: &View) -> bool {
    let all = &view.look.processes;
    all.iter().any(|process| process.counts.work > 0)
        && all.iter().all(|process| process.window.end_wall_ns.is_none())
}

/// Why there is no stage yet.
pub(super) fn nothing(view: &View) -> String {
    let (read, all) = amounts(&view.look);
    let filter = &view.state.filter;
    if !filter.is_empty() && (!view.look.is_reading || all > 0) {
        let yet = match view.look.is_reading {
            true => format!(" yet, in the first {} of the trace files", part(read, all)),
            false => String::new(),
        };
        let filter = visible(filter.as_bytes());
        return format!("no stage and no kernel has `{filter}` in its name{yet}");
    }
    match dormant(view) {
        _ if view.look.is_reading => match all {
            0 => "nothing has been read yet".to_owned(),
            all => format!("nothing yet in the first {} of the trace files", part(read, all)),
        },
        0 if view.look.hosts.is_some_and(|(answer, _)| answer == 0) => "no host answers".to_owned(),
        0 if view.look.processes.is_empty() => "no process has a trace file yet".to_owned(),
        0 if view.ended.is_some() => "no GPU work and no range was recorded".to_owned(),
        0 if is_first(view) => FIRST.to_owned(),
        0 => "nothing has run in the last 10 s of the data".to_owned(),
        some => format!("{} dormant: press s to record", counted(some as u64, "process")),
    }
}

/// The time that the tables are about: rates and shares of it.
pub(super) fn span(view: &View) -> String {
    let windows = || shown(view).map(|process| &process.window);
    if windows().any(|window| window.is_whole) {
        // Recording was stopped meanwhile: a report is of all windows.
        let is_last = windows().any(|window| window.is_last);
        let span = match () {
            () if is_last => "  last window",
            () if is_over(view) => "  whole run",
            // Its processes go on, and may be recorded again.
            () => "  recorded so far",
        };
        return span.to_owned();
    }
    match windows().map(|window| window.ns).max().unwrap_or(0) as f64 / 1e9 {
        s if s <= 0.0 => String::new(),
        // Its first second is a whole one, its last one may not be.
        s => {
            let length = if s >= 9.0 { "10 s".to_owned() } else { format!("{s:.1} s") };
            // The past passes by until all of it is read.
            match newest_age(view).filter(|_| view.look.is_reading) {
                Some(age) => format!("  {length} ending {age} ago"),
                None => format!("  last {length}"),
            }
        }
    }
}
