//! Comparisons -> one page for a browser that needs no network and no script.
//!
//! The tables are those of the Markdown page, so that a number is written in one place. The bars are made
//! here; foreign text in them comes through [`text`].

use stage2_contract::text::shorten_kernel;
use stage2_diff::{Comparison, Diff, Outcome, StageChange, WorkChange};
use stage2_model::Severity;

use super::markdown::{body, is_shown};
use super::{numbers, title};
use crate::html::markdown::{html as from_markdown, text};

const STYLE: &str = include_str!("diff.css");
/// Bars of a stage.
const BARS: usize = 12;
/// Stages with bars.
const STAGES: usize = 4;
/// Characters of a name.
const NAME_LIMIT: usize = 70;

/// The page.
pub fn html(diff: &Diff) -> String {
    let titles: Vec<String> = diff.comparisons.iter().map(title).collect();
    let page_title = text(&titles.join("; "));
    let parts: String = diff.comparisons.iter().map(comparison).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{page_title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{parts}\
         <footer>Written by {}. Changes are after minus before.</footer>\n</main>\n</body>\n</html>\n",
        text(&diff.generator)
    )
}

fn comparison(of: &Comparison) -> String {
    let kind = match () {
        () if of.conditions.iter().any(|condition| condition.outcome.fails()) => "bad",
        () if of.differences.iter().any(|d| d.severity >= Severity::Warning) => "fair",
        () if of.conditions.iter().any(|c| c.outcome == Outcome::PassedWithinNoise) => "fair",
        () => "good",
    };
    let lines: String = of
        .lines
        .iter()
        .map(|line| format!("<p><b>{}</b> {}</p>\n", text(&line.label), text(&line.text)))
        .collect();
    let shown = of.stages.iter().filter(|stage| is_shown(stage)).take(STAGES);
    let bars: String = shown.map(bars).collect();
    // The five lines stand above already.
    let tables = body(of);
    let tables = tables.split_once("\n\n").map_or("", |(_, tables)| tables);
    format!(
        "<section>\n<h1>{}</h1>\n<div class=\"answer {kind}\">\n{lines}</div>\n{bars}{}</section>\n",
        text(&title(of)),
        from_markdown(tables)
    )
}

/// The largest changes of GPU work in a stage: to the left less, to the right more.
fn bars(stage: &StageChange) -> String {
    let rows: Vec<&WorkChange> =
        stage.work.iter().filter(|row| row.change_ns != 0.0).take(BARS).collect();
    let longest = rows.iter().map(|row| row.change_ns.abs()).fold(0.0, f64::max);
    if !longest.is_finite() || longest <= 0.0 {
        return String::new();
    }
    let title = format!("Largest changes in {}, us per {}", stage.stage, stage.per.word());
    let bar = |row: &&WorkChange| {
        let width = (row.change_ns.abs() / longest * 50.0).clamp(0.0, 50.0);
        let (class, x) = match (row.verdict.is_change(), row.change_ns > 0.0) {
            (false, true) => ("noise", 50.0),
            (false, false) => ("noise", 50.0 - width),
            (true, true) => ("more", 50.0),
            (true, false) => ("less", 50.0 - width),
        };
        let name = row.after.as_ref().or(row.before.as_ref()).map_or("", |side| &side.name);
        format!(
            "<code>{}</code><svg viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" \
             aria-hidden=\"true\"><rect class=\"{class}\" x=\"{x:.2}\" width=\"{width:.2}\" \
             height=\"1\"/><rect class=\"axis\" x=\"49.9\" width=\"0.2\" height=\"1\"/></svg>\
             <span>{}</span>\n",
            text(&shorten_kernel(name, NAME_LIMIT)),
            text(&numbers::us_difference(row.change_ns)),
        )
    };
    let bars: String = rows.iter().map(bar).collect();
    format!("<h2>{}</h2>\n<div class=\"bars\">\n{bars}</div>\n", text(&title))
}
