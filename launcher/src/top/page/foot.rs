//! What went wrong, what is asked, what comes next, and the keys -> the last lines of the page.

use ratatui::text::Line;
use stage2_contract::control::START_COST;
use stage2_contract::text::numbers::counted;
use stage2_contract::text::{shorten, visible, wrapped_at_most};
use stage2_live::{Look, RunSteps, Watched};

use super::{Row, View, bold, only, plain, shown};
use crate::live_source::{Switch, records};

/// Keys after `q` and `s`, for terminals that are wide enough, and for others.
const KEYS: [&str; 6] = [
    "  j/k stage  ←/→ process  PgUp/PgDn kernels  / filter  o,t sort  f freeze  w report  ? help",
    "  j/k stage  ←/→ process  PgUp/Dn  / filter  o,t sort  f freeze  w report  ? help",
    "  j/k stage  ←/→ process  PgUp/Dn  / filter  o,t sort  ? help",
    "  j/k stage  ←/→ process  / filter  o,t sort  ? help",
    "  j/k stage  ←/→ process  / filter  ? help",
    "  ? more keys",
];

/// The keys that do something: of a run that has ended, nothing moves, and its report is there or is written once; one
/// process is neither chosen nor sorted, and kernels without a row are not scrolled.
fn without_idle_keys(view: &View, keys: &str) -> String {
    let (is_over, is_one) = (view.ended.is_some(), view.look.processes.len() < 2);
    let has_no_kernels = view.kernels_shown.get() == 0;
    let idle: [(bool, &[(&str, &str)]); 4] = [
        (is_over, &[("  f freeze", "")]),
        (view.has_report, &[("  w report", "")]),
        (is_one, &[("  ←/→ process", ""), ("o,t sort", "t sort")]),
        (has_no_kernels, &[("  PgUp/PgDn kernels", ""), ("  PgUp/Dn", "")]),
    ];
    let idle = idle.iter().filter(|(is_idle, _)| *is_idle).flat_map(|(_, keys)| *keys);
    idle.fold(keys.to_owned(), |keys, (key, without)| keys.replace(key, without))
}

/// Lines of a message.
const SAID_LINES: usize = 2;

/// The least columns of the names of targets.
const NAME_LEAST: usize = 12;

/// Lines of what a recording costs.
const COST_LINES: usize = 4;

/// The lines above the keys. With the keys, at most `room`, unless something is asked; one for a message in any case.
pub(super) fn foot(view: &View, rows: &[Row], width: usize, room: usize) -> Vec<Line<'static>> {
    let look = &view.look;
    let problem = match look.hosts {
        // Each host that does not answer is named.
        Some(_) if !look.problems.is_empty() => Some(look.problems.join("; ")),
        _ => look.problems.last().cloned(),
    };
    // The most urgent one has the lines; a page of text has room for all.
    let all = [view.state.said.clone(), problem, left_out(look), note(view)];
    // Where nothing is recorded, there is room for what came of the last key and for the reason; and what a key began
    // may be slow for that reason.
    let goes_on = view.state.said.as_deref().is_some_and(goes_on);
    let (most, each) = match (view.is_text, rows.is_empty() || goes_on) {
        (true, _) => (usize::MAX, usize::MAX),
        (false, true) => (2, SAID_LINES),
        (false, false) => (1, SAID_LINES),
    };
    let said: Vec<String> = all.into_iter().flatten().take(most).collect();
    let room = if view.is_text { usize::MAX } else { room.saturating_sub(1).max(1) };
    let for_next = room.saturating_sub(usize::from(!said.is_empty())).min(SAID_LINES);
    // What a key began is no longer to be done.
    let ended = view.ended.as_ref().filter(|_| !goes_on);
    let what_next = ended.map_or_else(Vec::new, |text| wrapped_at_most(text, width, for_next));
    let room_each = room.saturating_sub(what_next.len()) / said.len().max(1);
    let each = each.min(room_each.max(1));
    let mut lines = match &view.state.asked {
        Some(switch) => question(view, switch, width),
        None => said
            .iter()
            .flat_map(|said| wrapped_at_most(&visible(said.as_bytes()), width, each))
            .map(|line| plain(&line, width))
            .collect(),
    };
    // It stays, so it must not hide what happens.
    let empty = view.empty_targets.join(", ");
    if !empty.is_empty() && (view.is_text || lines.len() + what_next.len() < room) {
        let end = ": no process runs there, and there is no trace file";
        let name = shorten(&empty, width.saturating_sub(end.len()).max(NAME_LEAST));
        lines.push(plain(&format!("{name}{end}"), width));
    }
    lines.extend(what_next.iter().map(|line| bold(line, width)));
    let has_outliers = |row: &Row| row.sum.run.as_ref().is_some_and(RunSteps::may_have_outliers);
    let why = match () {
        () if rows.iter().any(has_outliers) => Some("which exclude outliers"),
        () if look.processes.iter().any(has_late_work) => Some("which include what came late"),
        () => None,
    };
    if let Some(why) = why.filter(|_| view.ended.is_some() && lines.len() < room) {
        let run = rows.iter().find(|row| has_outliers(row)).and_then(|row| row.run.as_ref());
        let of = run.map_or_else(|| "the report's".to_owned(), |run| format!("{run}'s report's"));
        lines.push(plain(&format!("Shares can differ from {of}, {why}"), width));
    }
    lines
}

/// The last line: the keys that do something, for a page that lacks only this line.
pub(super) fn keys(view: &View, width: usize) -> Line<'static> {
    let only = only(view).map(|of| of.pid);
    let is_meant = |of: &&(u32, String)| only.is_none_or(|pid| pid == of.0);
    let phases: Vec<&String> = view.phases.iter().filter(is_meant).map(|of| &of.1).collect();
    let switch = match () {
        // It would do nothing.
        () if phases.is_empty() => "",
        () if phases.iter().any(|phase| records(phase)) => "  s stop",
        () => "  s record",
    };
    let filter = visible(view.state.filter.as_bytes());
    let filtered = match filter.as_str() {
        "" => String::new(),
        filter => format!("Esc clears /{filter}  "),
    };
    if view.state.types {
        let text = format!("/{filter}_  Enter: done  Esc: show all stages and kernels again");
        return bold(&text, width);
    }
    if let Some(switch) = &view.state.asked {
        // No other key does anything now.
        return bold(&format!("y: {}, any other key: no", doing(switch)), width);
    }
    let keys = KEYS.map(|more| without_idle_keys(view, more));
    let keys = keys.map(|more| match filter.as_str() {
        "" => format!("q quit{switch}{more}"),
        // Its text shows that there is one.
        _ => format!("{filtered}q quit{switch}{}", more.replace("  / filter", "")),
    });
    let fits = |keys: &&String| keys.chars().count() <= width;
    bold(keys.iter().find(fits).unwrap_or(&keys[5]), width)
}

/// Whether a message tells of what is not done yet.
pub(crate) fn goes_on(said: &str) -> bool {
    said.ends_with("...")
}

/// Whether so much work came too late for the busy time that a share shows it.
fn has_late_work(process: &Watched) -> bool {
    let busy_ns = process.device_totals.values().fold(0u64, |all, more| all.saturating_add(*more));
    process.late_ns.saturating_mul(1_000) > busy_ns
}

fn left_out(look: &Look) -> Option<String> {
    match (look.files_left_out, look.processes_left_out) {
        (0, 0) => None,
        (0, some) => Some(format!(
            "{} of other hosts have no room: name the folder of their traces",
            counted(some, "process")
        )),
        (some, _) => Some(format!("{} not followed", counted(some, "trace file"))),
    }
}

/// The first note of the processes that are shown, what is wrong before what is merely special, and how many more have
/// one.
fn note(view: &View) -> Option<String> {
    let all: Vec<&Watched> = shown(view).collect();
    let suspect = || all.iter().copied().filter(|process| process.is_suspect);
    let first = suspect().next().or(all.iter().copied().find(|of| !of.notes.is_empty()))?;
    let more = match suspect().count() {
        0 | 1 => String::new(),
        some => format!("; {}", counted(some as u64 - 1, "more message")),
    };
    let text = first.notes.first()?;
    let has_it = |of: &&Watched| of.notes.first() == Some(text);
    let who = match all.len() > 1 && all.iter().all(has_it) {
        true => "all processes".to_owned(),
        false => first.pid.to_string(),
    };
    Some(format!("{who}: {text}{more}"))
}

fn doing(switch: &Switch) -> &'static str {
    match switch {
        Switch::Start(_) => "start",
        Switch::Stop(_) => "stop",
    }
}

fn question(view: &View, switch: &Switch, width: usize) -> Vec<Line<'static>> {
    let was_recorded =
        |pid: &u32| view.look.processes.iter().any(|of| of.pid == *pid && of.counts.work > 0);
    let (pids, cost) = match switch {
        // It is paid once.
        Switch::Start(pids) if pids.iter().all(was_recorded) => (pids, ""),
        Switch::Start(pids) => (pids, START_COST),
        Switch::Stop(pids) => (pids, ""),
    };
    let of = match pids.first().filter(|_| pids.len() == 1) {
        Some(pid) => format!("process {pid}"),
        None => counted(pids.len() as u64, "process"),
    };
    let text = format!("{} recording {of}?", doing(switch));
    let text = wrapped_at_most(&text, width, SAID_LINES).into_iter().map(|line| bold(&line, width));
    let cost = wrapped_at_most(cost, width, COST_LINES).into_iter().map(|line| plain(&line, width));
    text.chain(cost).collect()
}
