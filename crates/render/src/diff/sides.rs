//! Several sides against the first one -> one table of all, in front of the page of each pair.

use stage2_contract::text::{code, shorten};
use stage2_diff::{ComparedRun, Comparison, Diff, MetricChange, Presence, StageChange};

use super::{LABEL_CHARS, RUNS, in_folder, noise_cell, percent_cell, rate, side_cells, stage_time};
use crate::table::{Table, text};

/// Stages in the table.
const STAGES: usize = 3;
/// Rows of it.
const ROWS: usize = 64;

/// A stage on one side.
struct Row<'c> {
    stage: &'c str,
    side: String,
    /// The time and what it is of; the side is that before the change in the row of the first one.
    time: Option<(&'c MetricChange, String)>,
    rate: Option<&'c MetricChange>,
    is_first: bool,
    word: &'static str,
}

/// The side that all others are compared with; nothing of a single pair, or of pairs of different sides.
pub(super) fn first(diff: &Diff) -> Option<&[ComparedRun]> {
    let (first, others) = diff.comparisons.split_first()?;
    let is_shared = others.iter().all(|of| of.before == first.before);
    (is_shared && !others.is_empty()).then_some(&*first.before)
}

/// The heading of the table.
pub(super) fn heading(first: &[ComparedRun]) -> String {
    format!("All sides, against {}", name(first))
}

/// How a side is called: by the folders of its runs.
pub(super) fn name(runs: &[ComparedRun]) -> String {
    let name = |run: &ComparedRun| shorten(in_folder(&run.label).1, LABEL_CHARS);
    match runs {
        [first, .., last] if runs.len() > RUNS => format!("{} … {}", name(first), name(last)),
        _ => runs.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

/// The times and the tokens per second of the stages on all sides; nothing where they have no side in common.
pub(super) fn table(diff: &Diff) -> String {
    let Some(first) = first(diff) else { return String::new() };
    let mut stages: Vec<&str> = Vec::new();
    for stage in diff.comparisons.iter().flat_map(Comparison::of_model) {
        if !stages.contains(&stage.stage.as_str()) {
            stages.push(&stage.stage);
        }
    }
    let mut rows: Vec<Row<'_>> = Vec::new();
    for stage in stages.into_iter().take(STAGES) {
        let of = |of| Comparison::of_model(of).into_iter().find(|found| found.stage == stage);
        let known = || diff.comparisons.iter().filter_map(|it| Some((it, of(it)?)));
        if let Some((_, base)) = known().find(|(_, base)| base.presence != Presence::New) {
            rows.push(row(base, name(first), true));
        }
        rows.extend(known().map(|(it, stage)| row(stage, name(&it.after), false)));
    }
    let value = |row: &Row<'_>, metric: &MetricChange| {
        let [before, after] = side_cells(metric);
        if row.is_first { before } else { after }
    };
    let judged = |row: &&Row<'_>| !row.is_first;
    Table::first(ROWS, &rows)
        .left("stage", |row| text(&shorten(row.stage, LABEL_CHARS)))
        .left("side", |row| code(&row.side))
        .right("time, ms", |row| row.time.as_ref().map(|(time, _)| value(row, time)))
        .left("of", |row| row.time.as_ref().map(|(_, of)| of.clone()))
        .right("change %", |row| {
            Some(row).filter(judged)?.time.as_ref().map(|(time, _)| percent_cell(time))
        })
        .left("difference", |row| Some(row).filter(judged).map(|row| row.word.to_owned()))
        .left(super::NOISE, |row| {
            Some(row).filter(judged)?.time.as_ref().map(|(time, _)| noise_cell(time))
        })
        .right("tokens/s", |row| row.rate.map(|rate| value(row, rate)))
        .right("tokens/s, change %", |row| Some(row).filter(judged)?.rate.map(percent_cell))
        .markdown_with_rest_in("the JSON")
}

fn row(stage: &StageChange, side: String, is_first: bool) -> Row<'_> {
    let time = stage_time(stage).map(|(metric, label)| {
        let per = stage.per_of(&metric.metric);
        (metric, format!("{label}{}", if per.is_empty() { per } else { format!(",{per}") }))
    });
    let word = match (stage.presence, &time) {
        (Presence::New, _) => "new",
        (Presence::Vanished, _) => "vanished",
        (Presence::Both, Some((metric, _))) => stage.word(metric),
        (Presence::Both, None) => "not comparable",
    };
    Row { stage: &stage.stage, side, time, rate: rate(stage), is_first, word }
}
