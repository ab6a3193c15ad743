//! The pages of a report -> `report.html`: one file that needs no network and no script.
//!
//! The cards and the bars are made here; everything else is what the Markdown pages say, so that a
//! number stands in one place only. Foreign text comes through [`text`] or out of the Markdown pages,
//! and is escaped in both; what a browser could load is forbidden by the page itself.

mod bars;
pub(super) mod markdown;

use super::page::Page;
use super::summary::sentences;
use markdown::{html, text};
use stage2_model::{DeviceRow, Report, Severity, Status};
use stage2_text::numbers::{count, ms3, percent1};

const STYLE: &str = include_str!("page.css");
/// Sections of report.md that the summary has as well.
const SAID_ALREADY: [&str; 4] = ["Takeaways", "Recommendations", "Cost of the passes", "Findings"];

/// The page, from those of the summary, the report and the operators.
pub(super) fn report_html(
    report: &Report,
    summary: &Page,
    whole: &Page,
    operators: &Page,
) -> String {
    let known = whole.sections.iter().filter(|(title, _)| !SAID_ALREADY.contains(title));
    let details = known.chain(&operators.sections).map(|section| (section, true));
    let sections = summary.sections.iter().map(|section| (section, false)).chain(details);
    let sections = sections.filter(|((_, markdown), _)| !markdown.is_empty());
    let bars = Part { number: 1, title: "At a glance", html: bars::bars(report), folded: false };
    let mut parts = vec![bars];
    parts.extend(sections.zip(2..).map(|(((title, markdown), folded), number)| Part {
        number,
        title,
        html: html(markdown),
        folded,
    }));
    let title = text(&whole.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    );
    out.push_str(&contents(&parts));
    let kind = match report.coverage.verdict.status {
        Status::Complete => "good",
        Status::Partial => "fair",
        Status::Empty => "bad",
    };
    let short: String =
        sentences(report).iter().map(|sentence| format!("- {sentence}\n")).collect();
    out.push_str(&format!(
        "<main>\n<header>\n<h1>{title}</h1>\n<div class=\"verdict {kind}\">\n{}</div>\n{}{}</header>\n",
        html(&whole.head),
        cards(report),
        html(&short),
    ));
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
    number: usize,
    title: &'static str,
    html: String,
    /// Details that open when they are asked for.
    folded: bool,
}

impl Part {
    /// Browsers open folded details when a link leads into them.
    fn html(&self) -> String {
        let Part { number, title, html, folded } = self;
        match folded {
            false => {
                format!("<section id=\"part-{number}\">\n<h2>{title}</h2>\n{html}</section>\n")
            }
            true => format!(
                "<details>\n<summary>{title}</summary>\n<div id=\"part-{number}\">\n{html}</div>\n\
                 </details>\n"
            ),
        }
    }
}

/// The table of contents.
fn contents(parts: &[Part]) -> String {
    let list = |folded: bool| -> String {
        let of_kind = parts.iter().filter(|part| part.folded == folded);
        let item = |Part { number, title, .. }: &Part| {
            format!("<li><a href=\"#part-{number}\">{title}</a></li>\n")
        };
        of_kind.map(item).collect()
    };
    format!(
        "<nav aria-label=\"Contents\">\n<h2>Contents</h2>\n<ul>\n{}</ul>\n<h2>Details</h2>\n\
         <ul>\n{}</ul>\n</nav>\n",
        list(false),
        list(true)
    )
}

/// The numbers that are asked for first.
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
