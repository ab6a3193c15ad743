//! Tables of the page that are in no other page: kernels with their full names, to sort and to filter
//! where scripts are allowed; kernel time by class; ranks against stages.

use std::collections::BTreeMap;

use stage2_contract::text::numbers::{ABSENT, count, ms3, or_absent, percent1, us3};
use stage2_contract::text::shorten;
use stage2_model::{KernelRow, RankStageRow, Report};

use crate::html::markdown::{class_mark, foreign, text};
use crate::kernels::{ClassSum, Kernel, classes, stage_totals, top_kernels};

/// Rows: those with the longest time.
const ROWS: usize = 500;
const NAME_CHARS: usize = 1_000;
/// Classes of a stage.
const CLASSES: usize = 20;

/// A row for each stage, kernel and GPU.
pub(super) fn table(report: &Report) -> String {
    let stages = stage_totals(report);
    let of_stage = |row: &KernelRow| stages.get(row.stage.as_str()).copied().unwrap_or(0);
    let kernels = top_kernels(
        report,
        ROWS + 1,
        |row| (row.stage.as_str(), row.name_index, row.device.as_str()),
        of_stage,
    );
    if kernels.is_empty() {
        return "<p class=\"absent\">None, because no kernel was recorded.</p>\n".to_owned();
    }
    let row = |kernel: &Kernel<'_>| {
        let Kernel { row, total_ns, calls, mean_ns, percent, counters, .. } = kernel;
        let full = report.kernel_names.get(row.name_index).map(|name| name.demangled.as_str());
        let full = full.filter(|name| !name.is_empty()).unwrap_or(&row.kernel);
        let bound = counters.and_then(|counters| counters.roofline.bound);
        format!(
            "<tr><td>{}</td><td><code>{}</code></td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            foreign(&shorten(&row.stage, 60)),
            foreign(&shorten(full, NAME_CHARS)),
            or_absent(*total_ns, ms3),
            count(*calls),
            or_absent(*mean_ns, us3),
            or_absent(*percent, percent1),
            text(&row.class),
            bound.map_or(ABSENT, |bound| bound.label()),
            foreign(&row.device),
        )
    };
    let more = match kernels.len() > ROWS {
        true => format!(" The {ROWS} with the longest time are here; kernels.csv has all."),
        false => String::new(),
    };
    let head = [
        ("stage", false),
        ("kernel", false),
        ("total, ms", true),
        ("calls", true),
        ("mean, µs", true),
        ("share of stage, %", true),
        ("class", false),
        ("bound", false),
        ("device", false),
    ];
    let head = head.map(|(name, number)| {
        let class = if number { " class=\"n\"" } else { "" };
        format!("<th scope=\"col\"{class}>{name}</th>")
    });
    format!(
        "<p class=\"note\">One row for each stage, kernel and GPU, over the whole run. Shares are of \
         the sum of the kernel times of the stage.{more}</p>\n\
         <div class=\"table tall\"><table id=\"kernels\" class=\"sortable\"><thead><tr>{}</tr></thead>\n\
         <tbody>\n{}</tbody></table></div>\n",
        head.concat(),
        kernels.iter().take(ROWS).map(row).collect::<String>(),
    )
}

/// Kernel time of a stage by class, as bars with their numbers.
pub(super) fn by_class(report: &Report, stage: &str) -> String {
    let rows = report.kernels.iter().filter(|row| row.stage == stage);
    let classes: Vec<_> =
        classes(rows).into_iter().filter(|class| class.total_ns > Some(0)).take(CLASSES).collect();
    if classes.is_empty() {
        return "<p class=\"absent\">None, because no kernel of this stage has a time.</p>\n"
            .to_owned();
    }
    let bar = |class: &ClassSum<'_>| {
        format!(
            "<tr><td>{}</td><td class=\"bar\"><svg aria-hidden=\"true\"><rect class=\"{}\" \
             width=\"{:.3}%\" height=\"100%\"/></svg></td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            text(class.class),
            class_mark(class.class),
            class.percent.unwrap_or(0.0).clamp(0.0, 100.0),
            or_absent(class.percent, percent1),
            or_absent(class.total_ns, ms3),
            count(class.calls),
        )
    };
    format!(
        "<div class=\"table\"><table class=\"classes\"><thead><tr><th>class</th><th></th>\
         <th class=\"n\">share, %</th><th class=\"n\">total, ms</th><th class=\"n\">calls</th></tr>\
         </thead>\n<tbody>\n{}</tbody></table></div>\n\
         <p class=\"note\">Shares of the sum of the kernel times of the stage, over the whole run.</p>\n",
        classes.iter().map(bar).collect::<String>()
    )
}

/// Rows: the ranks; and columns: the stages.
const RANKS: usize = 1_024;
const STAGES: usize = 16;
/// Shades; the darkest is for times that are longer by half or more.
const SHADES: f64 = 8.0;
const DARKEST: f64 = 0.5;

/// Ranks against stages: each cell is the median host time, coloured by how much longer it is than that of
/// the fastest rank; nothing for a single process. A table can be read without colours and scripts, too.
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
