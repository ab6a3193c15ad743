//! A report and its pages -> `report.html`: one file that works offline, without scripts, on a phone
//! and on paper.
//!
//! Pictures are SVG that is drawn here; everything else is what the Markdown pages say, so that a
//! number stands in one place only. Foreign text is escaped by [`markdown`] alone. The page forbids
//! itself to load anything, and to run or apply what is not its own script and style.

mod chart;
mod head;
mod kernels;
mod latency;
pub(super) mod markdown;
mod ranks;
mod roofline;
mod sampled;
mod stage;
#[cfg(test)]
mod tests;
mod timeline;
mod window;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use super::page::Page;
use super::summary::model_stages;
use markdown::{foreign, html, text};
use stage2_contract::text::shorten;
use stage2_model::Report;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Sections of report.md that the summary has as well.
const SAID_ALREADY: [&str; 4] = ["Takeaways", "Recommendations", "Cost of the passes", "Findings"];
/// Stages with pictures: those with the longest window.
const STAGES: usize = 8;
/// Characters of a stage's name in the table of contents.
const NAME_LIMIT: usize = 40;

/// The page, from those of the summary, the report and the operators.
pub(super) fn report_html(
    report: &Report,
    summary: &Page,
    whole: &Page,
    operators: &Page,
) -> String {
    let parts = parts(report, summary, whole, operators);
    let title = text(&whole.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        hash(STYLE),
        hash(SCRIPT),
    );
    out.push_str(&head::header(report, &whole.title));
    out.push_str(&contents(&parts));
    out.push_str("<main>\n");
    parts.iter().for_each(|part| out.push_str(&part.html()));
    out.push_str(&format!(
        "<footer>Written by {}. metrics.json holds all numbers, kernels.csv every kernel row.</footer>\n\
         </main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        text(&report.generator)
    ));
    out
}

/// What the policy calls a script or style.
fn hash(content: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(content)))
}

/// A section of the page.
struct Part {
    id: String,
    title: String,
    html: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It has its own frame and heading.
    Framed,
    /// It is open.
    Open,
    /// It opens when it is asked for.
    Folded,
}

/// All of them, in order: pictures of each stage, ranks, kernels, the sections of the pages.
fn parts(report: &Report, summary: &Page, whole: &Page, operators: &Page) -> Vec<Part> {
    let mut stages: Vec<&str> = report.answer.stages.iter().map(|s| s.stage.as_str()).collect();
    if stages.is_empty() {
        stages = model_stages(report).map(|row| row.stage.as_str()).collect();
    }
    let shown = stages.iter().take(STAGES).zip(1..);
    let mut parts: Vec<Part> = shown
        .map(|(stage, number)| Part {
            id: format!("stage-{number}"),
            title: foreign(&shorten(stage, NAME_LIMIT)),
            html: stage::stage(report, stage, number),
            kind: Kind::Framed,
        })
        .collect();
    let more = stages.len().saturating_sub(STAGES);
    if more > 0 {
        parts.push(Part {
            id: "more-stages".into(),
            title: "More stages".into(),
            html: format!(
                "<p>{more} more stages have no pictures here, because their windows are shorter. The \
                 tables below and metrics.json have their numbers.</p>\n"
            ),
            kind: Kind::Open,
        });
    }
    let open = |id: &str, title: &str, html: String| Part {
        id: id.into(),
        title: title.into(),
        html,
        kind: Kind::Open,
    };
    parts.extend(ranks::heat_map(report).map(|map| open("ranks", "Ranks by stage", map)));
    parts.push(open("all-kernels", "Kernels", kernels::table(report)));
    let known = whole.sections.iter().filter(|(title, _)| !SAID_ALREADY.contains(title));
    let details = known.chain(&operators.sections).map(|section| (section, Kind::Folded));
    let sections = summary.sections.iter().map(|section| (section, Kind::Open)).chain(details);
    let sections = sections.filter(|((_, markdown), _)| !markdown.is_empty());
    parts.extend(sections.zip(1..).map(|(((title, markdown), kind), number)| Part {
        id: format!("part-{number}"),
        title: text(title),
        html: html(markdown),
        kind,
    }));
    parts
}

impl Part {
    /// Browsers open folded details when a link leads into them.
    fn html(&self) -> String {
        let Part { id, title, html, kind } = self;
        match kind {
            Kind::Framed => html.clone(),
            Kind::Open => {
                format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{html}</section>\n")
            }
            Kind::Folded => format!(
                "<details class=\"part\">\n<summary>{title}</summary>\n<div id=\"{id}\">\n{html}</div>\n\
                 </details>\n"
            ),
        }
    }
}

/// The table of contents.
fn contents(parts: &[Part]) -> String {
    let list = |kinds: &[Kind]| -> String {
        let of_kind = parts.iter().filter(|part| kinds.contains(&part.kind));
        let item =
            |Part { id, title, .. }: &Part| format!("<li><a href=\"#{id}\">{title}</a></li>\n");
        of_kind.map(item).collect()
    };
    let stages = list(&[Kind::Framed]);
    let stages = match stages.is_empty() {
        true => String::new(),
        false => format!("<h2>Stages</h2>\n<ul>\n{stages}</ul>\n"),
    };
    format!(
        "<nav aria-label=\"Contents\">\n{stages}<h2>Contents</h2>\n<ul>\n{}</ul>\n<h2>Details</h2>\n\
         <ul>\n{}</ul>\n</nav>\n",
        list(&[Kind::Open]),
        list(&[Kind::Folded])
    )
}
