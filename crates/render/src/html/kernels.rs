//! Kernels of all stages with their full names, to sort and to filter where scripts are allowed.

use std::collections::BTreeMap;

use super::markdown::{class_mark, foreign, text};
use crate::kernels::top::{TopKernel, classes, top_kernels};
use stage2_contract::text::numbers::{ABSENT, count, ms3, or_absent, percent1, us3};
use stage2_contract::text::shorten;
use stage2_model::Report;

/// Rows: those with the longest time.
const ROWS: usize = 500;
/// Characters of a full name.
const NAME_LIMIT: usize = 1_000;
/// Classes of a stage.
const CLASSES: usize = 20;

/// A row for each stage, kernel and GPU.
pub(super) fn table(report: &Report) -> String {
    let key =
        |row: &'_ stage2_model::KernelRow| (row.stage.clone(), row.name_index, row.device.clone());
    let kernels = top_kernels(report, ROWS + 1, key);
    if kernels.is_empty() {
        return "<p class=\"absent\">None, because no kernel was recorded.</p>\n".to_owned();
    }
    let mut stage_ns: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &report.kernels {
        let sum = stage_ns.entry(&row.stage).or_default();
        *sum = sum.saturating_add(row.times.total_ns);
    }
    let row = |kernel: &TopKernel<'_>| {
        let TopKernel { row, total_ns, calls, mean_ns, counters, .. } = kernel;
        let full = report.kernel_names.get(row.name_index).map(|name| name.demangled.as_str());
        let full = full.filter(|name| !name.is_empty()).unwrap_or(&row.kernel);
        let of_stage = stage_ns.get(row.stage.as_str()).copied().filter(|ns| *ns > 0);
        let share = of_stage.zip(*total_ns).map(|(all, ns)| ns as f64 * 100.0 / all as f64);
        let bound = counters.and_then(|counters| counters.roofline.bound);
        format!(
            "<tr><td>{}</td><td><code>{}</code></td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            foreign(&shorten(&row.stage, 60)),
            foreign(&shorten(full, NAME_LIMIT)),
            or_absent(*total_ns, ms3),
            count(*calls),
            mean_ns.map_or_else(|| ABSENT.to_owned(), us3),
            share.map_or_else(|| ABSENT.to_owned(), percent1),
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
    let bar = |class: &crate::kernels::top::ClassSum<'_>| {
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
