//! A report and its Markdown pages -> `report.html`: one file that needs no network and no script.
//!
//! The first screen and the bars are made here; the tables are those of the Markdown pages, so that
//! a number stands in one place only. Foreign text comes through [`text`] or out of the Markdown
//! pages, and is escaped in both; what a browser could load is forbidden by the page itself.

mod bars;
mod markdown;

use super::page::SIMULATED;
use super::summary;
use markdown::{Section, sections, text};
use stage2_model::{DeviceRow, Report, Severity, Status};
use stage2_text::numbers::{count, ms3, percent1};

const STYLE: &str = include_str!("page.css");
/// Sections of report.md that the summary has as well.
const SAID_ALREADY: [&str; 3] = ["Takeaways", "Cost of the passes", "Findings"];

/// The page. `pages` are stakeholder_summary.md, report.md and operators.md.
pub(super) fn report_html(report: &Report, pages: [&str; 3]) -> String {
    let [summary, whole, operators] = pages;
    let mut number = 0;
    let mut numbered = |title: &str, html: String, folded: bool| {
        number += 1;
        Part { id: format!("part-{number}"), title: title.to_owned(), html, folded }
    };
    let mut parts = vec![numbered("At a glance", bars::bars(report), false)];
    parts.extend(sections(summary).into_iter().map(|s| numbered(&s.title, s.html, false)));
    let known = |section: &Section| !SAID_ALREADY.contains(&section.title.as_str());
    let details = sections(whole).into_iter().filter(known);
    parts.extend(details.map(|s| numbered(&s.title, s.html, true)));
    parts.extend(
        sections(operators)
            .into_iter()
            .map(|s| numbered(&format!("Operators: {}", s.title), s.html, true)),
    );
    let title = text(&format!("Report of {}", report.run.name));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    );
    out.push_str(&contents(&parts));
    out.push_str(&format!("<main>\n<header>\n<h1>{title}</h1>\n"));
    out.push_str(&first_screen(report));
    out.push_str("</header>\n");
    parts.iter().for_each(|part| out.push_str(&part.html()));
    out.push_str(&format!(
        "<footer>Written by {}. metrics.json holds everything here, kernels.csv every kernel \
         row.</footer>\n</main>\n</body>\n</html>\n",
        text(&report.generator)
    ));
    out
}

/// A section of the page.
struct Part {
    id: String,
    title: String,
    html: String,
    /// Details that open when they are asked for.
    folded: bool,
}

impl Part {
    /// Browsers open folded details when a link leads into them.
    fn html(&self) -> String {
        let Part { id, html, .. } = self;
        let title = text(&self.title);
        match self.folded {
            false => format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{html}</section>\n"),
            true => format!(
                "<details>\n<summary>{title}</summary>\n<div id=\"{id}\">\n{html}</div>\n\
                 </details>\n"
            ),
        }
    }
}

/// The table of contents.
fn contents(parts: &[Part]) -> String {
    let list = |folded: bool| -> String {
        let of_kind = parts.iter().filter(|part| part.folded == folded);
        of_kind
            .map(|part| format!("<li><a href=\"#{}\">{}</a></li>\n", part.id, text(&part.title)))
            .collect()
    };
    format!(
        "<nav aria-label=\"Contents\">\n<h2>Contents</h2>\n<ul>\n{}</ul>\n<h2>Details</h2>\n\
         <ul>\n{}</ul>\n</nav>\n",
        list(false),
        list(true)
    )
}

/// Whether it can be believed, what it says in short, and the numbers that are asked for first.
fn first_screen(report: &Report) -> String {
    let mut out = String::new();
    if report.simulated {
        out.push_str(&format!("<p class=\"banner\">{}</p>\n", text(SIMULATED)));
    }
    if let Some(end) = &report.run.workload_end {
        let how = text(&end.sentence());
        out.push_str(&format!(
            "<p class=\"verdict bad\"><strong>Ended early:</strong> {how}.</p>\n"
        ));
    }
    let kind = match report.coverage.verdict.status {
        Status::Complete => "good",
        Status::Partial => "fair",
        Status::Empty => "bad",
    };
    let verdict = text(&report.coverage.verdict.text);
    out.push_str(&format!(
        "<p class=\"verdict {kind}\"><strong>Coverage:</strong> {verdict}.</p>\n"
    ));
    for finding in report.findings.iter().filter(|f| f.severity == Severity::Error) {
        let what = text(&finding.what);
        out.push_str(&format!("<p class=\"verdict bad\"><strong>Error:</strong> {what}</p>\n"));
    }
    out.push_str(&cards(report));
    let sentences: String =
        summary::sentences(report).iter().map(|sentence| format!("- {sentence}\n")).collect();
    out.push_str(&markdown::html(&sentences));
    out
}

fn cards(report: &Report) -> String {
    let mut cards: Vec<(&str, String)> = Vec::new();
    if report.coverage.gpu_records() > 0 {
        cards.push(("kernels", count(stage2_analysis::in_part::kernels(report))));
    }
    let sum = |ns: fn(&DeviceRow) -> Option<u64>| {
        let mut devices = report.devices.iter().map(ns);
        devices.try_fold(0u64, |sum, ns| Some(sum.saturating_add(ns?))).unwrap_or(0)
    };
    let (busy_ns, span_ns) = (sum(|d| d.gpu_busy_ns), sum(|d| d.gpu_span_ns));
    if span_ns > 0 {
        cards.push(("ms of GPU work", ms3(busy_ns)));
        if !report.devices.iter().any(|device| device.shared_by_processes) {
            let percent = busy_ns as f64 * 100.0 / span_ns as f64;
            cards.push(("% of its span busy", percent1(percent)));
        }
    }
    if let Some(used) = &report.insight.utilisation {
        let model = &used.numbers.model;
        let rate = model.generated_tokens_per_s.value();
        cards.extend(rate.map(|rate| ("generated tokens/s", format!("{rate:.1}"))));
        let mfu = model.mfu_wall.value();
        cards.extend(mfu.map(|mfu| ("% MFU, model-level", format!("{:.3}", mfu * 100.0))));
    }
    let warnings = report.findings.iter().filter(|f| f.severity == Severity::Warning).count();
    cards.push(("warnings", count(warnings as u64)));
    let card = |(label, value): (&str, String)| {
        format!("<div><b>{}</b><span>{}</span></div>\n", text(&value), text(label))
    };
    format!("<div class=\"cards\">\n{}</div>\n", cards.into_iter().map(card).collect::<String>())
}
