//! What the numbers say, what to do about it, and what they do not cover.

use super::values::{sentence, text};
use super::{ROWS, section};
use crate::views::table::{Table, none};
use stage2_analysis::roofline::takeaways::{Recommended, recommendations as recommendations_of};
use stage2_model::{Report, Severity};
use stage2_text::numbers::{counted, percent1};

/// Why there is no recommendation.
pub(super) const NO_ADVICE: &str = "no takeaway calls for one";

pub(super) fn takeaways(report: &Report) -> String {
    if report.insight.takeaways.is_empty() {
        return none("nothing was computed from the numbers", "");
    }
    let rows: Vec<_> = report.insight.takeaways.iter().enumerate().collect();
    let table = Table::first(ROWS, &rows)
        .right("#", |(index, _)| (index + 1).to_string())
        .left("Takeaway", |(_, takeaway)| sentence(&takeaway.text))
        .left("Evidence", |(_, takeaway)| {
            let stage = takeaway.stage.as_ref().map(|stage| format!("stage {stage}; "));
            text(&format!("{}rule: {}", stage.unwrap_or_default(), takeaway.rule.text()))
        });
    section(table, [], "rules over the numbers of report.md, each with its thresholds")
}

/// What to do, the most promising first.
pub(super) fn recommended(report: &Report) -> Vec<Recommended<'_>> {
    recommendations_of(&report.insight.takeaways)
}

pub(super) fn recommendations(report: &Report) -> String {
    let rows: Vec<_> = recommended(report).into_iter().enumerate().collect();
    if rows.is_empty() {
        return none(NO_ADVICE, "");
    }
    let table = Table::first(ROWS, &rows)
        .right("#", |(index, _)| (index + 1).to_string())
        .left("To do", |(_, advice)| sentence(advice.text))
        .left("Why", |(_, Recommended { first, further, .. })| {
            text(&match further {
                0 => first.text.clone(),
                more => format!("{}; and {}", first.text, counted(*more as u64, "more takeaway")),
            })
        })
        .left("Gain at most", |(_, advice)| {
            let percent = advice.concerns_percent.map(percent1);
            percent.map(|percent| format!("{percent} % of the time of all stages"))
        });
    section(table, [], "the takeaways")
}

pub(super) fn limits(report: &Report) -> String {
    if report.findings.is_empty() {
        return none("nothing is known to be missing or uncertain", "");
    }
    let known = |value: &str| (!value.is_empty()).then(|| text(value));
    let table = Table::first(ROWS, &report.findings)
        .left("Limit", |finding| text(&finding.what))
        .left("Weight", |finding| {
            let weight = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            };
            weight.to_owned()
        })
        .left("Why", |finding| known(&finding.why))
        .left("To do", |finding| known(&finding.remedy));
    section(table, [], "findings of the run, as in report.md")
}
