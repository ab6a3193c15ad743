//! Ranks against stages: each cell is the median host time of the stage, coloured by how much longer
//! it is than that of the fastest rank. A table, so that it is read without colours and scripts, too.

use std::collections::BTreeMap;

use super::markdown::{foreign, text};
use stage2_contract::text::numbers::{ABSENT, ms3};
use stage2_contract::text::shorten;
use stage2_model::{RankStageRow, Report};

/// Rows: the ranks; and columns: the stages.
const RANKS: usize = 1_024;
const STAGES: usize = 16;
/// Shades; the darkest is for times that are longer by half or more.
const SHADES: f64 = 8.0;
const DARKEST: f64 = 0.5;

/// The map; nothing for a single process.
pub(super) fn heat_map(report: &Report) -> Option<String> {
    let mut stages: Vec<&str> = Vec::new();
    let mut ranks: BTreeMap<(Option<u64>, &str), BTreeMap<&str, &RankStageRow>> = BTreeMap::new();
    for row in &report.ranks.stages {
        if !stages.contains(&row.stage.as_str()) && stages.len() <= STAGES {
            stages.push(&row.stage);
        }
        let cells = ranks.entry((row.rank, row.who.as_str())).or_default();
        cells.insert(&row.stage, row);
    }
    if ranks.len() < 2 {
        return None;
    }
    let more_stages = stages.len() > STAGES;
    stages.truncate(STAGES);
    let fastest: Vec<Option<u64>> = (stages.iter())
        .map(|stage| ranks.values().filter_map(|cells| cells.get(stage)?.host_warm_median_ns).min())
        .collect();
    let cell = |row: Option<&&RankStageRow>, fastest: Option<u64>| {
        let Some((ns, fastest)) = row.and_then(|row| row.host_warm_median_ns).zip(fastest) else {
            return format!("<td class=\"n\">{ABSENT}</td>");
        };
        let longer = ns as f64 / fastest.max(1) as f64 - 1.0;
        let shade = (longer / DARKEST * SHADES).clamp(0.0, SHADES).round();
        format!("<td class=\"n heat-{shade}\">{}</td>", ms3(ns))
    };
    let line = |((_, who), cells): (&(Option<u64>, &str), &BTreeMap<&str, &RankStageRow>)| {
        let columns = stages.iter().zip(&fastest);
        let columns: String = columns.map(|(stage, ns)| cell(cells.get(stage), *ns)).collect();
        format!("<tr><th scope=\"row\">{}</th>{columns}</tr>\n", foreign(who))
    };
    let head = |stage: &&str| {
        format!("<th scope=\"col\" class=\"n\">{}, ms</th>", foreign(&shorten(stage, 60)))
    };
    let mut notes = String::from(
        "Median host time of the warm instances. A cell is darker the longer it is than that of the \
         fastest rank in its stage: the darkest is longer by 50 % or more.",
    );
    if ranks.len() > RANKS {
        notes.push_str(&format!(" {} more ranks stand in metrics.json.", ranks.len() - RANKS));
    }
    if more_stages {
        notes.push_str(" More stages stand in metrics.json.");
    }
    Some(format!(
        "<p class=\"note\">{}</p>\n<div class=\"table tall\"><table class=\"heat\"><thead><tr><th \
         scope=\"col\">rank</th>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        text(&notes),
        stages.iter().map(head).collect::<String>(),
        ranks.iter().take(RANKS).map(line).collect::<String>(),
    ))
}
