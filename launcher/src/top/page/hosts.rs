//! What the host did while no work ran -> lines of the page.

use ratatui::text::Line;
use stage2_contract::order::Order as _;
use stage2_contract::text::{shorten, wrapped_at_most};
use stage2_live::{HostIdle, SIMULATED, Watched, Window};
use stage2_model::rule::HOST_DECIDED_PERCENT;
use stage2_model::{HostCauseKind, waits_for_gpu};

use super::head::span;
use super::processes::{has_file, more_processes, sorted_processes};
use super::{
    MORE, Row, UNUSED, View, WIDE, bold, id, missing, missing_text, only, or_dash, plain, share,
    who,
};

/// The most causes of a process, and on a wide terminal.
const CAUSES: usize = 4;
const CAUSES_WIDE: usize = 6;

/// A page of text has all that fit into its lines.
pub(super) fn most_causes(view: &View, width: usize) -> usize {
    match width {
        _ if view.is_text => usize::MAX,
        WIDE.. => CAUSES_WIDE,
        _ => CAUSES,
    }
}

/// What the hosts did in the calls of a stage, and that it is of the stage. Of a run that goes on, it is of all the last
/// seconds unless each process that has the stage has enough samples in it.
pub(super) fn hosts_in<'v>(
    all: &[&'v Watched],
    stage: Option<&str>,
) -> (Vec<(&'v Watched, &'v HostIdle)>, bool) {
    let in_stage = |of: &&'v Watched| Some((*of, of.window.hosts.get(stage?)?));
    let hosts: Vec<_> = all.iter().filter_map(in_stage).collect();
    let lacks_it = |of: &&Watched| {
        let Window { is_whole, stages, hosts, .. } = &of.window;
        let lacks = |stage| stages.contains_key(stage) && !hosts.contains_key(stage);
        !is_whole && stage.is_some_and(lacks)
    };
    match hosts.is_empty() || all.iter().any(lacks_it) {
        true => (all.iter().map(|of| (*of, &of.window.host)).collect(), false),
        false => (hosts, true),
    }
}

/// The part of the time without GPU work. As in a report, the GPU is not idle in a stage while it works for another one.
pub(super) fn unused(host: &HostIdle) -> f64 {
    host.idle_ns as f64 / host.ns as f64 * (1.0 - other_work(host)).max(f64::EPSILON)
}

/// The part of the time without work of a stage in which that of other ones ran, as the host was sampled.
pub(super) fn other_work(host: &HostIdle) -> f64 {
    let other = host.causes.iter().find(|cause| cause.kind == HostCauseKind::OtherWork);
    other.map_or(0.0, |cause| cause.percent / 100.0)
}

/// What the host did while no work ran, in percent of the time that is left without the work of other stages, the longest
/// first. Waits for the GPU are one: whatever line makes them, the host was ahead. Not of a simulated one, which may be slow.
pub(super) fn causes_of(process: &Watched, host: &HostIdle) -> Vec<(f64, String)> {
    let idle = (1.0 - other_work(host)).max(f64::EPSILON);
    let causes = host.causes.iter().filter(|cause| cause.kind != HostCauseKind::OtherWork);
    let simulated = process.notes.iter().any(|note| note.starts_with(SIMULATED));
    let others = causes.filter(|cause| simulated || cause.wait_for_gpu().is_none());
    let mut all: Vec<(f64, String)> =
        others.map(|cause| (cause.percent / idle, cause.text(true))).collect();
    if let Some((percent, longest)) = waits_for_gpu(&host.causes).filter(|_| !simulated) {
        let call = longest.wait_for_gpu().unwrap_or_default();
        // Only where it decides is it the answer, and never a cause.
        let no_cause = if percent < HOST_DECIDED_PERCENT { ", no cause" } else { "" };
        all.push((percent, format!("{AHEAD}{AHEAD_OF}{no_cause} (waits in {call})")));
        all.order_by(|a, b| b.0.total_cmp(&a.0));
    }
    all
}

/// What a wait for the GPU begins with; the second part gives way first.
pub(super) const AHEAD: &str = "host ahead";
const AHEAD_OF: &str = " of the GPU";

/// What the host did while no work ran, in the chosen stage where that is known. Of
/// each process as many causes as there is room for, at most [`CAUSES`], or why there are none. And whether a large cause, or
/// why causes are in no code, has no line.
pub(super) fn hosts(
    view: &View,
    row: Option<&Row>,
    height: usize,
    width: usize,
) -> (Vec<Line<'static>>, bool) {
    let most = most_causes(view, width);
    let alone = only(view).map(id);
    let mut all = sorted_processes(view, row);
    all.retain(|of| has_file(of) && alone.as_ref().is_none_or(|alone| *alone == id(of)));
    let of_run = row.and_then(|row| row.run.as_ref()).map(|run| format!(" of {run}"));
    let of_run = of_run.unwrap_or_default();
    let stage = row.filter(|row| !row.launches_none).map(|row| row.name.as_str());
    let (hosts, is_of_stage) = hosts_in(&all, stage);
    let is_whole = all.iter().any(|of| of.window.is_whole);
    let is_sampled = hosts.iter().any(|(_, host)| host.samples > 0);
    let place = match stage {
        Some(stage) if is_of_stage => stage.to_owned(),
        Some(stage) if is_whole && is_sampled && row.is_some_and(|row| row.p50_ns.is_some()) => {
            format!("all stages: too few samples in {stage}")
        }
        _ => "all stages".to_owned(),
    };
    // Of a run that goes on, also between calls.
    let span = if is_whole { String::new() } else { span(view).replacen("  ", ", ", 1) };
    let place = format!("{place}{of_run}{span}");
    if hosts.is_empty() {
        return (Vec::new(), false);
    }
    let mut is_cut = false;
    let each = (height / hosts.len()).clamp(1, most);
    let hidden = match hosts.len().saturating_sub(height / each) {
        // The line that counts them needs that of one.
        some if some > 0 && height > 1 => some + 1,
        _ => 0,
    };
    let shown = (height / each).min(hosts.len().saturating_sub(hidden));
    let rows = hosts.into_iter().take(shown).map(|(process, host)| {
        let missing = missing(std::iter::once(process)).map(missing_text);
        // Where the host is not sampled, the records of the GPU tell it as well.
        let sum = stage.filter(|_| is_of_stage).and_then(|stage| process.window.stages.get(stage));
        let of_gpu =
            || Some(1.0 - sum?.busy_share()? - sum?.other_ns as f64 / sum?.window_ns as f64);
        let unused = if host.ns > 0 { Some(unused(host)) } else { of_gpu() };
        let unused = or_dash(unused.filter(|_| missing.is_none()).map(share));
        // Why there are no causes, or no lines in them.
        let has_lines = host.causes.iter().take(each).any(|cause| cause.frame.is_some());
        let none = missing.as_ref().or(host.why_none.as_ref());
        let why = none.or(host.note.as_ref().filter(|_| !has_lines));
        let mut causes: Causes =
            if missing.is_none() { causes_of(process, host) } else { Causes::default() };
        let large = causes.iter().take_while(|(percent, _)| *percent >= CAUSE_LARGE).count();
        is_cut |= each < most.min(large + usize::from(why.is_some() && large > 0));
        // A cause is worth more than why it is in no code, which the title then states.
        let for_causes = each.saturating_sub(usize::from(why.is_some() && each > large.max(1)));
        let worth = causes.iter().take_while(|(percent, _)| *percent >= CAUSE_LEAST).count();
        causes.truncate(worth.max(1).min(for_causes));
        let rest = 100.0 - causes.iter().map(|(percent, _)| percent).sum::<f64>();
        let has_room = causes.len() < for_causes;
        match (causes.last_mut(), has_room) {
            _ if rest < CAUSE_LEAST => {}
            (Some(_), true) => causes.push((rest, "rest (smaller causes, and unknown)".to_owned())),
            // Without a line of its own.
            (Some((_, text)), false) => {
                *text = with_rest(text, rest, width.saturating_sub(BEFORE_CAUSE));
            }
            (None, _) => {}
        }
        (who(process), unused, causes, why.cloned(), each)
    });
    let mut lines =
        host_lines((&place, Some(of_run.as_str()).filter(|of| !of.is_empty())), rows, width);
    if hidden > 0 {
        lines.push(more_processes(hidden, width));
    }
    (lines, is_cut && hidden == 0)
}

/// A cause, and that there are more: how much, unless the place in the code has no room then.
fn with_rest(text: &str, rest: f64, width: usize) -> String {
    let whole = fitted(text, width);
    let end = format!("; rest {rest:.0}%");
    match fitted(text, width.saturating_sub(end.len())) == whole {
        true => format!("{whole}{end}"),
        false => format!("{}{MORE}", fitted(text, width.saturating_sub(MORE.chars().count()))),
    }
}

/// Percent of the time without work that make a cause worth a line, and all that have none.
const CAUSE_LEAST: f64 = 1.0;
/// And worth more than the last kernels.
const CAUSE_LARGE: f64 = 10.0;

/// Shares with what they are of.
type Causes = Vec<(f64, String)>;

/// Columns from which a part of a note means something.
const NOTE_LEAST: usize = 16;

/// Columns in front of a cause.
const BEFORE_CAUSE: usize = 27;

/// Who, which part of the time no work ran, shares of that by what the host did, why there are none, and the most
/// lines.
type HostRow = (String, String, Causes, Option<String>, usize);

fn host_lines(
    (all, of_run): (&str, Option<&str>),
    rows: impl IntoIterator<Item = HostRow>,
    width: usize,
) -> Vec<Line<'static>> {
    let line_of = |who: &str, unused: &str, of: &str, text: &str| {
        format!("  {who:>8} {unused:>7} {of:>6}  {text}")
    };
    let text_width = width.saturating_sub(BEFORE_CAUSE);
    let titles = ["WHAT THE HOST DID WHILE NO WORK RAN", "HOST WHILE NO WORK RAN", "HOST"]
        .map(|title| format!("{title} ({all})"));
    let fits = |title: &&String| title.chars().count() <= text_width;
    // The row that is chosen names the run, too.
    let last =
        format!("HOST ({})", of_run.map_or_else(|| all.to_owned(), |of| all.replace(of, "")));
    let rows: Vec<HostRow> = rows.into_iter().collect();
    let without_line = rows.iter().find(|(_, _, causes, _, each)| causes.len() >= *each);
    let room = text_width.saturating_sub(last.chars().count() + 2);
    let note = without_line.and_then(|(_, _, _, why, _)| why.as_ref());
    let note = note.filter(|_| room >= NOTE_LEAST);
    let note = note.map(|why| format!("{last}: {}", wrapped_at_most(why, room, 1).concat()));
    let title = note.as_ref().or(titles.iter().find(fits)).unwrap_or(&last);
    let mut lines = vec![bold(&line_of("PROCESS", UNUSED, "SHARE", title), width)];
    for (who, unused, causes, why, each) in rows {
        let room = each.saturating_sub(causes.len());
        let causes = causes
            .into_iter()
            .map(|(percent, text)| (share(percent / 100.0), fitted(&text, text_width)));
        let why = why.map_or_else(Vec::new, |why| wrapped_at_most(&why, text_width, room));
        let others = why.into_iter().map(|line| (String::new(), line));
        for (at, (of, text)) in causes.chain(others).enumerate() {
            let (who, unused) = if at == 0 { (who.as_str(), unused.as_str()) } else { ("", "") };
            lines.push(plain(&line_of(who, unused, &of, &text), width));
        }
    }
    lines
}

/// What matters least gives way first: "waiting for the", as what follows (the GIL, a lock) says enough; the words about
/// further lines (` +2`); the class of the function. The line is what is looked for.
pub(super) fn fitted(text: &str, width: usize) -> String {
    let is_long = |text: &str| text.chars().count() > width;
    let mut text = text.to_owned();
    if is_long(&text) && text.starts_with(AHEAD) {
        return shorten(&text.replacen(AHEAD_OF, "", 1), width);
    }
    if let Some(waits) = text.strip_prefix("runnable, ").filter(|_| is_long(&text)) {
        text = if is_long(waits) { "runnable".to_owned() } else { waits.to_owned() };
    }
    if is_long(&text) {
        let waits = ["waiting for the ", "waiting for a "];
        let what = waits.iter().find_map(|wait| text.strip_prefix(wait));
        text = what.unwrap_or(&text).to_owned();
    }
    let is_rest = |rest: &str| rest.ends_with("more line)") || rest.ends_with("more lines)");
    let lines = text.rsplit_once(" and ").filter(|(_, rest)| is_rest(rest));
    if let Some((first, rest)) = lines.filter(|_| is_long(&text)) {
        let more = rest.split(' ').next().unwrap_or_default();
        text = format!("{first} +{more})");
    }
    if let Some((function, place)) = text.rsplit_once(" (").filter(|_| is_long(&text)) {
        // A name may have blanks: `<A as B>::f`.
        let names = [" from ", " in ", " "].into_iter();
        let start = names.filter_map(|word| Some(function.rfind(word)? + word.len())).next();
        let start = start.unwrap_or(0);
        let (before, name) = function.split_at(start);
        let last = name.rsplit_once(['.', ':']).map(|(_, last)| format!("…{last}"));
        let name = last.unwrap_or_else(|| name.to_owned());
        let waits = before.trim_end().trim_end_matches(" in").trim_end_matches(" from");
        let all = [format!("{before}{name}"), format!("{waits} {name}"), waits.to_owned()];
        let [whole, brief, what] = all.map(|what| format!("{what} ({place}"));
        // Of code, the line alone; of a call, its name.
        let last = match place.contains(':') {
            true => ["", place.trim_end_matches(')')],
            false => [waits, waits.trim_start_matches("blocked in ")],
        };
        let [waits, last] = last.map(str::to_owned);
        let is_short = |text: &String| !text.is_empty() && !is_long(text) && !text.starts_with(' ');
        let mut all = [whole.clone(), brief, what, waits, last].into_iter();
        text = all.find(is_short).unwrap_or(whole);
    }
    if let Some((what, _)) = text.split_once(" of the thread ").filter(|_| is_long(&text)) {
        text = what.to_owned();
    }
    shorten(&text, width)
}
