//! The rows of stages -> their table, in as many columns as there is room for; and whose times these are.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use stage2_contract::text::listed;
use stage2_live::StageNumbers;

use super::runs::names_apart;
use super::{
    Row, View, WITH_CALLS, bold, clip, id, in_brackets, most_columns, ms, of_engine, of_run,
    or_dash, padded, plain, row_of, share, short, shown, who,
};

/// Names get no more columns: numbers stay near to them on a wide terminal.
const STAGE_COLUMNS: usize = 40;
const STAGE_LEAST: usize = 16;
/// Columns of the name of a run, if there are several, and on a wide terminal; and the least of a stage then.
pub(super) const RUN_COLUMNS: usize = 9;
const RUN_COLUMNS_WIDE: usize = 20;
const RUN_LEAST: usize = 3;
const STAGE_OF_RUN_LEAST: usize = 10;

/// Columns of a stage and their widths. The last ones need a wide terminal, or stages without tokens, and so does P90, which
/// gives way to all up to RATE.
const STAGE_TITLES: [(&str, usize); 16] = [
    ("PER", 4),
    (P50, 7),
    (P90, 7),
    (P99, 7),
    ("BUSY", 5),
    (WAIT, 7),
    ("GAPS", 5),
    ("IDLE", 5),
    (OTHER, 5),
    (TOKENS, 8),
    (TOKENS_IN_CALLS, 8),
    (REQUESTS, 5),
    (RATE, 12),
    (RATE_BRIEF, 7),
    (WORK_EACH, 11),
    (WORK, 7),
];

/// Only where it is worth a column.
const OTHER: &str = "OTHER";
const OTHER_LEAST: f64 = 0.01;

/// A part of BUSY, in brackets; only where ranks communicate.
const WAIT: &str = "(WAIT)";
/// Only where a stage has them.
pub(super) const TOKENS: &str = "TOKENS/S";
/// After the end, as in a report: per second that is spent in calls.
pub(super) const TOKENS_IN_CALLS: &str = "T/CALL-S";
const REQUESTS: &str = "REQS";
/// Only while a run goes on: rates of the last seconds, which a report does not have. Each cell has its unit.
const RATE: &str = "RATE";
/// Without units, which are those of PER.
const RATE_BRIEF: &str = "RATE/S";
const WORK: &str = "WORK/S";
const P90: &str = "P90 ms";
/// Of fewer, it is the longest one.
const P90_VALUES: u64 = 10;
const P50: &str = "P50 ms";
/// Gives way to the parts of the time.
const P99: &str = "P99 ms";
const WORK_EACH: &str = "GPU WORK";

/// That a stage has no GPU work of its own; or that the times of an engine whose run has ended are those of one of its
/// ranks, and the shares those of all.
pub(super) fn whose_times(
    view: &View,
    row: &Row,
    rows: &[Row],
    width: usize,
) -> Option<Line<'static>> {
    let of_run = &*of_run(view, Some(row));
    let has_work = shown(of_run).any(|process| process.counts.work > 0);
    if row.launches_none && row.sum.each().0 > 0 && has_work {
        let none = format!("  {} launches no GPU work itself", row.name);
        let texts = [
            format!("{none}: other ranges do, such as those of other threads"),
            format!("{none}: other ranges do"),
            none,
        ];
        let text = texts.into_iter().find(|text| text.chars().count() <= width)?;
        return Some(plain(&text, width));
    }
    // Whatever row is chosen, those of others are on the page.
    let rank_of = |row: &Row| {
        let is_of_one =
            row.processes > 1 && row.sum.run.is_some() && row.sum.steps_with_requests > 0;
        let of_run = &*super::of_run(view, Some(row));
        let of = of_engine(of_run).filter(|_| is_of_one)?;
        let rank = of_run.look.processes.iter().find(|process| id(process) == of).map(who)?;
        Some(row.run.as_ref().map_or_else(|| rank.clone(), |run| format!("{rank} of {run}")))
    };
    let mut ranks: Vec<String> = rows.iter().filter_map(rank_of).collect();
    ranks.dedup();
    let rank = listed(&ranks, RANKS_NAMED);
    let of_rank = [P50, P90, P99, TOKENS_IN_CALLS, REQUESTS];
    let columns = columns(view, rows, width).shown;
    let columns = columns.iter().filter(|title| of_rank.contains(title));
    let names: Vec<&str> = columns.map(|title| title.trim_end_matches(" ms")).collect();
    let times = format!("  {}: {rank}", names.join(", "));
    let texts = [
        format!("{times}, as in a report; other columns: all ranks together"),
        format!("{times}; other columns: all ranks together"),
        format!("{times}; others: all ranks"),
        times,
    ];
    let text = texts.into_iter().find(|text| text.chars().count() <= width)?;
    Some(plain(&text, width)).filter(|_| !names.is_empty() && !ranks.is_empty())
}

/// Ranks that the line names, if there are several runs.
const RANKS_NAMED: usize = 2;

/// Columns of the table of stages: those of the names, and the titles of the others.
struct Columns {
    run: usize,
    name: usize,
    shown: Vec<&'static str>,
}

fn columns(view: &View, rows: &[Row], width: usize) -> Columns {
    let longest = |of: fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let run = longest(|row| row.run.as_ref().map_or(0, |run| run.chars().count()));
    let name = longest(|row| row.name.chars().count());
    let most = most_columns(STAGE_COLUMNS, run + 1 + name, width);
    let most = width.saturating_sub(61).clamp(8, most);
    let most_of_run = if width < WITH_CALLS { RUN_COLUMNS } else { RUN_COLUMNS_WIDE };
    let most_of_run = most_columns(most_of_run, run, width);
    let run = if run > 0 { run.clamp(RUN_LEAST, most_of_run) } else { 0 };
    let name = match run {
        0 => name.max(STAGE_LEAST).min(most),
        run => name.min(most.saturating_sub(run + 1)).max(STAGE_OF_RUN_LEAST),
    };
    let before = 2 + name + if run > 0 { run + 1 } else { 0 };
    let has_waits = rows.iter().any(|row| row.wait.is_some());
    // Also while a server is idle.
    let sums = |has: fn(&StageNumbers) -> bool| {
        let totals = || shown(view).flat_map(|process| process.totals.values());
        rows.iter().any(|row| has(&row.sum)) || totals().any(has)
    };
    let has_rate = rows.iter().any(|row| row.tokens_per_s.is_some());
    let is_over = view.look.processes.iter().any(|process| process.window.is_whole);
    let has_other = rows.iter().any(|row| row.other >= Some(OTHER_LEAST));
    // The parts of the time are all there, or do not add up.
    let parts = STAGE_TITLES.iter().take_while(|(title, _)| *title != TOKENS);
    let parts = parts.filter(|(title, _)| match *title {
        P90 => false,
        WAIT => has_waits,
        OTHER => has_other,
        _ => true,
    });
    let has_p99 = before + parts.map(|(_, width)| width + 1).sum::<usize>() <= width;
    let has_tokens = has_rate || sums(|sum| sum.steps_with_tokens > 0);
    let has_requests = sums(|sum| sum.steps_with_requests > 0);
    let is_p90 = |column: &&(&str, usize)| column.0 == P90;
    let after = 1 + STAGE_TITLES.iter().position(|(title, _)| *title == RATE_BRIEF).unwrap_or(0);
    let (first, last) = STAGE_TITLES.split_at(after);
    let that_fit = |rate: &str| {
        let is_there = |title: &str| match title {
            P99 => has_p99,
            WAIT => has_waits,
            OTHER => has_other,
            TOKENS => has_tokens && !is_over,
            TOKENS_IN_CALLS => has_tokens && is_over,
            REQUESTS => has_requests,
            RATE | RATE_BRIEF => !is_over && title == rate,
            WORK => !is_over,
            _ => true,
        };
        let mut end = before;
        let first = first.iter().filter(|column| !is_p90(column));
        let by_worth = first.chain(STAGE_TITLES.iter().filter(is_p90)).chain(last);
        let fits = by_worth.filter(|(title, _)| is_there(title)).take_while(|column| {
            end += 1 + column.1;
            end <= width
        });
        fits.map(|(title, _)| *title).collect::<Vec<&str>>()
    };
    let with_units = Some(that_fit(RATE)).filter(|fits| is_over || fits.contains(&RATE));
    let fits = with_units.unwrap_or_else(|| that_fit(RATE_BRIEF));
    let titles = STAGE_TITLES.iter().map(|(title, _)| *title);
    Columns { run, name, shown: titles.filter(|title| fits.contains(title)).collect() }
}

pub(super) fn stage_table(
    view: &View,
    (rows, of, nothing): (&[Row], &str, &str),
    chosen: usize,
    height: usize,
    width: usize,
) -> Vec<Line<'static>> {
    let Columns { run: run_width, name: name_width, shown } = columns(view, rows, width);
    let is_over = view.look.processes.iter().any(|process| process.window.is_whole);
    // The row of the process has a mark, too.
    // That there are more is said first.
    let more = match rows.len() > height {
        true => format!(" {} of {}", height.max(1), rows.len()),
        false => String::new(),
    };
    let brief = more.trim_start().replace(" of ", "/");
    let titles = [format!("STAGE{more}{of}"), format!("STAGE{more}"), format!("STAGE {brief}")];
    let stage = titles.iter().map(|title| title.trim_end());
    let stage = stage.into_iter().find(|title| title.chars().count() <= name_width);
    let of_run = |run: &str| match run_width {
        0 => String::new(),
        width => format!("{} ", padded(run, width)),
    };
    // A name of a run has more columns than this title.
    let run = if stage.is_none() { format!("RUN {brief}") } else { "RUN".to_owned() };
    let stage = padded(stage.unwrap_or("STAGE"), name_width);
    let start = format!("  {}{stage}", of_run(&run));
    let run_names = names_apart(rows.iter().filter_map(|row| row.run.as_deref()), run_width);
    let titles = STAGE_TITLES.map(|(title, _)| title.to_owned());
    let line_of = |start: String, cells: &[String; STAGE_TITLES.len()]| {
        let cells = cells.iter().zip(STAGE_TITLES).filter(|(_, (title, _))| shown.contains(title));
        row_of(start, cells.map(|(cell, (_, width))| (cell, width)), width)
    };
    let title = line_of(start, &titles);
    let mut lines = vec![bold(&title, width)];
    if rows.is_empty() {
        lines.push(plain(&format!("  {nothing}"), width));
    }
    // The chosen one is always among those that are seen.
    let first = (chosen + 1).saturating_sub(height);
    for (at, row) in rows.iter().enumerate().skip(first).take(height) {
        let mark = if at == chosen { ">" } else { " " };
        let run = row.run.as_deref().and_then(|run| run_names.get(run));
        let run = of_run(run.map_or("", String::as_str));
        let start = format!("{mark} {run}{}", padded(&row.name, name_width));
        let per_each = (row.recorded > 0.0).then(|| row.sum.launches as f64 / row.recorded);
        let cells = [
            or_dash(row.p50_ns.map(|_| row.unit.to_owned())),
            or_dash(row.p50_ns.map(ms)),
            or_dash(row.sum.step_time(90).filter(|_| row.sum.timed_steps() >= P90_VALUES).map(ms)),
            or_dash(row.p99_ns.map(ms)),
            or_dash(row.busy.map(share)),
            or_dash(row.wait.map(in_brackets)),
            or_dash(row.gaps.map(share)),
            or_dash(row.idle.map(share)),
            or_dash(row.other.map(share)),
            or_dash(row.tokens_per_s.map(short)),
            or_dash(row.tokens_per_s.map(short)),
            or_dash(row.requests.map(short)),
            or_dash(row.each_per_s.map(|rate| format!("{} {}s/s", short(rate), row.unit))),
            or_dash(row.each_per_s.map(short)),
            or_dash(per_each.map(|work| format!("{}/{}", short(work), row.unit))),
            or_dash((row.launches_per_s > 0.0).then(|| short(row.launches_per_s))),
        ];
        let mut shown = cells.iter().zip(STAGE_TITLES).filter(|(_, (title, _))| *title != WORK);
        let text = match shown.all(|(cell, _)| cell == "-") {
            true => {
                let rate = format!(" ({} a second)", short(row.launches_per_s));
                let rate = if is_over { "" } else { &rate };
                format!("{start}  no calls; only its kernels are recorded{rate}")
            }
            false => line_of(start, &cells),
        };
        let style = if at == chosen { Modifier::REVERSED } else { Modifier::empty() };
        lines.push(Line::from(Span::styled(clip(&text, width), Style::new().add_modifier(style))));
    }
    lines
}
