//! What went wrong, what is asked, what comes next, and the keys -> the last lines of the page.

use ratatui::text::Line;
use stage2_contract::control::START_COST;
use stage2_contract::text::numbers::counted;
use stage2_contract::text::{visible, wrapped_at_most};
use stage2_live::{Look, RunSteps};

use super::{Row, View, bold, plain};
use crate::live_source::{Switch, records};

/// Keys after `q` and `s`, for terminals that are wide enough, and for others.
const KEYS: [&str; 4] = [
    "  j/k stage  ←/→ process  PgUp/PgDn kernels  o,t sort  f freeze  w report  ? help",
    "  j/k stage  ←/→ process  PgDn kernels  o,t sort  w report  ? help",
    "  j/k stage  ←/→ process  o,t sort  f freeze  w report  ? help",
    "  ? more keys",
];

/// Lines of a message.
const SAID_LINES: usize = 2;

/// Lines of what a recording costs.
const COST_LINES: usize = 4;

pub(super) fn foot(view: &View, rows: &[Row], width: usize) -> Vec<Line<'static>> {
    let look = &view.look;
    let problem = match look.hosts {
        // Each host that does not answer is named.
        Some(_) if !look.problems.is_empty() => Some(look.problems.join("; ")),
        _ => look.problems.last().cloned(),
    };
    // The most urgent one has the lines; a page of text has room for all.
    let all = [view.state.said.clone(), problem, left_out(look), note(look)];
    let (most, each) = if view.is_text { (usize::MAX, usize::MAX) } else { (1, SAID_LINES) };
    let said = all.into_iter().flatten().take(most);
    let mut lines = match view.state.asked {
        Some(switch) => question(switch, width),
        None => said
            .flat_map(|said| wrapped_at_most(&visible(said.as_bytes()), width, each))
            .map(|line| plain(&line, width))
            .collect(),
    };
    let what_next = view.ended.as_ref().map(|text| wrapped_at_most(text, width, SAID_LINES));
    lines.extend(what_next.into_iter().flatten().map(|line| bold(&line, width)));
    let has_outliers = |row: &Row| row.sum.run.as_ref().is_some_and(RunSteps::may_have_outliers);
    if view.ended.is_some() && rows.iter().any(has_outliers) {
        lines.push(plain("Shares can differ from the report's, which exclude outliers", width));
    }
    let switch = match () {
        // It would do nothing.
        () if view.phases.is_empty() => "",
        () if view.phases.iter().any(|(_, phase)| records(phase)) => "  s stop",
        () => "  s record",
    };
    let keys = KEYS.map(|more| format!("q quit{switch}{more}"));
    let fits = |keys: &&String| keys.chars().count() <= width;
    lines.push(bold(keys.iter().find(fits).unwrap_or(&keys[3]), width));
    lines
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

/// The first note, what is wrong before what is merely special, and how many more processes have one.
fn note(look: &Look) -> Option<String> {
    let suspect = || look.processes.iter().filter(|process| process.is_suspect);
    let first = suspect().next().or(look.processes.iter().find(|of| !of.notes.is_empty()))?;
    let more = match suspect().count() {
        0 | 1 => String::new(),
        some => format!(" ({} more like this)", counted(some as u64 - 1, "process")),
    };
    Some(format!("{}: {}{more}", first.pid, first.notes.first()?))
}

fn question(switch: Switch, width: usize) -> Vec<Line<'static>> {
    let of = |some: usize| counted(some as u64, "process");
    let (doing, some, cost) = match switch {
        Switch::Start(some) => ("start", some, START_COST),
        Switch::Stop(some) => ("stop", some, ""),
    };
    let text = format!("{doing} recording of {}? y: {doing}, any other key: no", of(some));
    let cost = wrapped_at_most(cost, width, COST_LINES).into_iter().map(|line| plain(&line, width));
    std::iter::once(bold(&text, width)).chain(cost).collect()
}
